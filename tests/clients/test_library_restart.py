"""The Python library while the server stops and starts."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable
from typing import Any

import pytest

from socialpub_client import Socialpub, Unauthenticated
from socialpub_client.events import WAIT
from tests.support.media_uploads import wait_until


def test_follow_goes_on_over_a_restart_and_ends_for_a_wrong_key(make_server: Callable[..., Any]) -> None:
    server = make_server()
    alice = server.connected_person("Alice")
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


def test_follow_from_now_on_loses_nothing_before_its_first_event(make_server: Callable[..., Any]) -> None:
    """The place is known before the first wait, so a request that is cut off asks again from there."""
    server = make_server()
    alice = server.connected_person("Alice")
    places: list[str] = []
    with Socialpub(server.url, alice.key) as sp, concurrent.futures.ThreadPoolExecutor(1) as pool:
        events = sp.events.follow(types=["post.published"], heartbeat=places.append)
        first = pool.submit(next, events)
        wait_until(lambda: bool(places), WAIT - 1)
        with server.down(alice):
            pass
        post = alice.api.publish({"text": "meanwhile", "targets": [{"accountId": alice.bluesky}]}).json()["results"][0]
        assert first.result(60).data["id"] == post["postId"]
        listed = sp.events.list(after=places[0], types=["post.published"])
        assert [event.data["id"] for event in listed] == [post["postId"]]
