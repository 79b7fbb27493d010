"""sandbox.py: see what your program does when a platform fails."""

import json
import os
import urllib.request

from socialpub_client import PublishFailed, Socialpub

LAB = os.environ["SOCIALPUB_LAB"]


def lab(path, body=None):
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{LAB}/lab/{path}", data), timeout=30) as answer:
        return json.load(answer)


lab("faults", [{"fault": "status:400", "operation": "com.atproto.repo.putRecord", "times": 1}])
with Socialpub() as sp:
    batch = sp.posts.publish("Is anybody there?", to=os.environ["SOCIALPUB_ACCOUNT"])
    try:
        batch.raise_for_failure()
    except PublishFailed as failed:
        print(failed)
print("on the platform:", [post["text"] for post in lab("ledger?platform=bluesky")])
