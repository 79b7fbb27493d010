"""assistant.py: one key plans, another publishes exactly that."""

import os

from socialpub_client import Socialpub, Unauthorized

with Socialpub(key=os.environ["SOCIALPUB_PLANNING_KEY"]) as assistant, Socialpub() as person:
    check = assistant.posts.check(
        "Written by an assistant, published by a person.", to=os.environ["SOCIALPUB_ACCOUNT"], plan=True
    )
    assert check.plan is not None
    try:
        assistant.posts.publish_plan(check.plan.token)
    except Unauthorized as refusal:
        print("assistant:", refusal.rule)
    for result in person.posts.publish_plan(check.plan.token).results:
        print("person:", result.status, result.url)
