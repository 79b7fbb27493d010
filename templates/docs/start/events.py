"""events.py: print every event from now on. It ends with the post whose id is the first argument."""

import json
import os
import sys
import time
import urllib.parse
import urllib.request

ENDED = ("post.published", "post.failed", "post.rejected", "post.canceled")


def page(cursor):
    url = os.environ["SOCIALPUB_URL"] + "/v1/events?" + urllib.parse.urlencode({"cursor": cursor, "limit": 200})
    request = urllib.request.Request(url, headers={"Authorization": "Bearer " + os.environ["SOCIALPUB_KEY"]})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


post = sys.argv[1] if len(sys.argv) > 1 else None
cursor = "" if post else "end"  # "": from the oldest event; "end": from now on
while True:
    found = page(cursor)
    for event in found["data"]:
        print(event["createdAt"], event["type"], json.dumps(event["data"]), flush=True)
        ended = event["type"] in ENDED and not event["data"].get("willRetry")
        if ended and event["data"].get("id") == post:
            sys.exit(0)
    cursor = found["nextCursor"] or found["endCursor"]
    if not found["nextCursor"]:
        time.sleep(2)
