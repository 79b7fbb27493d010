"""The Python library while the server stops and starts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from socialpub_client import Socialpub, Unauthenticated


def test_follow_goes_on_over_a_restart_and_ends_for_a_wrong_key(make_server: Callable[..., Any]) -> None:
    server = make_server()
    alice = server.person("Alice")
    server.connect_bluesky(alice)
    slept: list[float] = []
    with Socialpub(server.url, alice.key, sleep=slept.append) as sp:
        start = alice.api.get("/v1/events", params={"cursor": "end"}).json()["endCursor"]
        events = sp.events.follow(after=start, types=["post.published"])
        posts = [sp.posts.publish("before", to=alice.bluesky).results[0].post_id]
        seen = [next(events).data["id"]]
        with server.down(alice):
            pass
        posts.append(sp.posts.publish("after", to=alice.bluesky).results[0].post_id)
        assert [*seen, next(events).data["id"]] == posts
    with Socialpub(server.url, "svc_live_" + "0" * 49) as stranger, pytest.raises(Unauthenticated):
        next(stranger.events.follow())
