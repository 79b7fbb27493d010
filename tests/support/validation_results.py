"""Parsers of results of POST /v1/posts/validate."""

from __future__ import annotations

from typing import Any

import httpx

from socialpub.store.schema.models import Post
from tests.support.request_cast import RequestCast


def result(answer: httpx.Response, index: int = 0) -> dict[str, Any]:
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["results"][index])


def codes(notes: list[dict[str, Any]]) -> list[str]:
    return [note["code"] for note in notes]


def many(world: RequestCast, account: str, platform: str, number: int, **columns: Any) -> None:
    """So many posts of an account in the log, without publishing them."""
    (like,) = world.server.rows(Post, id=world.scheduled())
    del like["number"]
    now = world.server.clock.now_ms()
    rows = [
        like
        | {"id": f"made-up-{platform}-{n}", "account": account, "platform": platform, "position": n + 100}
        | {"created_at": now, "scheduled_at": None, "status": "published", "text": str(n)}
        | columns
        for n in range(number)
    ]
    world.server.service.write(lambda tx: Post.insert_many(rows).execute()).result()
    world.server.service.recent_posts.forget(account, platform)  # they came behind the server's back
