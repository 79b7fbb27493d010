"""Posts in a given state (failed, unknown, due, queued), and stored media."""

from __future__ import annotations

import json
from typing import Any

from socialpub.store.schema.models import Intent, Post
from tests.support.app_server import Person
from tests.support.publishing_state import schedule_post
from tests.support.request_cast import RequestCast, inline_item, make_picture

DOWN = {"fault": "status:503", "operation": "com.atproto.repo.uploadBlob"}


def failed(world: RequestCast) -> str:
    world.server.lab.lab.faults.add([DOWN | {"times": 1}])
    answer = world.post(media=[inline_item(make_picture())])
    (result,) = answer.json()["results"]
    assert (result["status"], result["error"]["code"]) == ("failed", "platform_unavailable")
    return str(result["postId"])


def unknown(world: RequestCast) -> str:
    """A post whose answer was lost and whose looking back came to nothing."""
    post = world.published()
    error = {
        "code": "platform_unavailable",
        "message": "lost",
        "rule": "publish.outcome_unknown",
        "platform": "bluesky",
        "docUrl": "x",
    }

    def lose(tx: Any) -> None:
        Post.update(
            status="failed", error=json.dumps(error), error_code="platform_unavailable", platform_uri=None
        ).where(Post.id == post).execute()
        Intent.update(outcome="unknown", remote=None).where(Intent.post == post).execute()

    world.server.service.write(lose).result()
    return post


def stored(w: RequestCast) -> str:
    """An image of Alice's that an earlier post has left with the server."""
    answer = w.post(media=[inline_item(make_picture())], scheduledAt=w.soon())
    (row,) = w.server.rows(Post, id=answer.json()["results"][0]["postId"])
    return str(w.alice.api.get(f"/v1/posts/{row['id']}").json()["mediaRefs"][0]["mediaId"])


def at_its_time(w: RequestCast) -> str:
    """A queued post whose time has come and which nobody has claimed yet."""
    post = w.scheduled()
    w.server.service.jobs.paused = lambda: ("publish",)
    w.server.clock.skip(3600)
    return post


def queued(world: RequestCast, person: Person) -> str:
    return schedule_post(world.server, person, "mine")


def lost(world: RequestCast, person: Person) -> str:
    post = queued(world, person)
    error = '{"code": "platform_unavailable", "rule": "publish.outcome_unknown"}'
    world.server.service.write(
        lambda tx: Post.update(status="failed", error=error).where(Post.id == post).execute()
    ).result()
    return post
