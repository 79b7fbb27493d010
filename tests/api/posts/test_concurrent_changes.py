"""Concurrent changes of one post: responses, row, events and platform agree."""

from __future__ import annotations

import concurrent.futures
import json
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from socialpub.store.database import Tx
from socialpub.store.schema.models import Post
from tests.support.app_server import UNLIMITED, ApiClient, AppServer, format_instant
from tests.support.request_cast import RequestCast

POSTS, HANDS, SEED = 50, 12, 20_261_122
UNKNOWN = {"code": "platform_unavailable", "message": "lost", "rule": "publish.outcome_unknown", "docUrl": "x"}
PLAIN = {"code": "platform_rejected", "message": "no", "docUrl": "x"}
Call = tuple[str, str, str, Any]  # what it is called, method, path, body


@pytest.fixture
def crowd(make_server: Callable[..., AppServer]) -> RequestCast:
    server = make_server(limits=UNLIMITED, publishing={"workers": 8, "threads": 8})
    alice = server.person("Alice")
    for number in range(5):
        server.connect_bluesky(alice, f"bluesky {number}")
    return RequestCast(server, alice)


def posts(world: RequestCast) -> list[str]:
    """Scheduled posts, due in an hour."""
    ids: list[str] = []
    accounts = [account["id"] for account in world.alice.accounts.values()]
    for batch in range(POSTS // 25):
        targets = [{"accountId": accounts[n % 5], "text": f"{batch} {n}"} for n in range(25)]
        answer = world.alice.api.publish({"targets": targets, "scheduledAt": world.soon()})
        ids += [result["postId"] for result in answer.json()["results"]]
    return ids


def ended(world: RequestCast, ids: list[str], error: dict[str, Any]) -> None:
    def end(tx: Tx) -> None:
        changed = {"status": "failed", "error": json.dumps(error), "error_code": error["code"]}
        Post.update(**changed).where(Post.id.in_(ids)).execute()
        for post in ids:
            world.server.service.jobs.remove(tx, post)

    world.server.service.write(end).result()


def race(world: RequestCast, ids: list[str], calls: Callable[[], list[Call]]) -> dict[str, Counter[str]]:
    """All calls for all posts, those of one post next to each other, from many hands: what was granted, by post."""
    draw = random.Random(SEED)
    queue: list[tuple[str, Call]] = []
    for post in ids:
        mixed = calls()
        draw.shuffle(mixed)
        queue += [(post, call) for call in mixed]
    apis = [world.server.api(world.alice.key) for _ in range(HANDS)]
    granted: dict[str, Counter[str]] = {post: Counter() for post in ids}

    def work(hand: int) -> list[tuple[str, str, httpx.Response]]:
        return [(post, call[0], ask(apis[hand], post, call)) for post, call in queue[hand::HANDS]]

    with concurrent.futures.ThreadPoolExecutor(HANDS) as pool:
        for done in pool.map(work, range(HANDS)):
            for post, name, answer in done:
                assert answer.status_code in (200, 202, 409), answer.text
                granted[post][name] += answer.is_success
    return granted


def ask(api: ApiClient, post: str, call: Call) -> httpx.Response:
    _, method, path, body = call
    return api.request(method, f"/v1/posts/{post}{path}", json=body)


def told(world: RequestCast, post: str) -> list[str]:
    return [type_ for type_, _ in world.server.events(post)]


def sent(world: RequestCast) -> Counter[str]:
    return Counter(entry.text for entry in world.server.lab.lab.ledger.posts())


@pytest.mark.slow
def test_cancels_and_moves_at_once(crowd: RequestCast) -> None:
    moves: list[Call] = [("move", "PATCH", "", {"scheduledAt": crowd.soon(7200 + n)}) for n in range(2)]
    ids = posts(crowd)
    granted = race(crowd, ids, lambda: [("cancel", "DELETE", "", None)] * 2 + moves)
    for post in ids:
        events = told(crowd, post)[2:]
        assert granted[post]["cancel"] == 1, "of two cancels one is granted"
        assert events == ["post.rescheduled"] * granted[post]["move"] + ["post.canceled"]
        assert crowd.server.rows(Post, id=post)[0]["status"] == "canceled"
    assert crowd.server.jobs() == []
    assert crowd.server.lab.lab.ledger.posts() == []


@pytest.mark.slow
def test_settling_both_ways_and_retrying_at_once(crowd: RequestCast) -> None:
    ids = posts(crowd)
    ended(crowd, ids, UNKNOWN)
    granted = race(
        crowd,
        ids,
        lambda: [
            *[("there", "POST", "/settle", {"published": True})] * 2,
            *[("absent", "POST", "/settle", {"published": False})] * 2,
            *[("retry", "POST", "/retry", {})] * 2,
        ],
    )
    for post in ids:
        won = granted[post]
        row = (
            crowd.server.wait(post, "published", "failed") if not won["retry"] else crowd.server.wait(post, "published")
        )
        assert won["there"] + won["absent"] == 1, "a person's word is taken once"
        assert won["retry"] <= won["absent"], "what may be there is not sent again"
        assert row["status"] == ("published" if won["there"] or won["retry"] else "failed")
        assert sent(crowd)[row["text"]] == won["retry"]
        assert told(crowd, post).count("post.published") == won["there"] + won["retry"]


@pytest.mark.slow
def test_retries_now_and_later_cancels_and_moves_at_once(crowd: RequestCast) -> None:
    ids = posts(crowd)
    ended(crowd, ids, PLAIN)
    at = {"scheduledAt": crowd.soon()}
    granted = race(
        crowd,
        ids,
        lambda: [
            *[("now", "POST", "/retry", {})] * 2,
            *[("later", "POST", "/retry", at)] * 2,
            ("cancel", "DELETE", "", None),
            ("move", "PATCH", "", {"scheduledAt": crowd.soon(7200)}),
        ],
    )
    for post in ids:
        won = granted[post]
        wanted = "published" if won["now"] else "canceled" if won["cancel"] else "queued"
        row = crowd.server.wait(post, wanted)
        assert won["now"] + won["later"] == 1, "it is put up again once"
        assert won["cancel"] + won["move"] <= 2 * won["later"], "only what is queued is moved or canceled"
        assert sent(crowd)[row["text"]] == won["now"]
        events = Counter(told(crowd, post))
        assert (events["post.canceled"], events["post.rescheduled"]) == (won["cancel"], won["move"])
    waiting = {post for post in ids if granted[post]["later"] and not granted[post]["cancel"]}
    assert {job["key"] for job in crowd.server.jobs()} == waiting


@pytest.mark.slow
def test_edits_cancels_moves_and_retries_at_once(crowd: RequestCast) -> None:
    """200 edits (4 for each post) against all else: the text is that of one edit, and the events tell one story."""
    ids = posts(crowd)
    ended(crowd, ids[: POSTS // 2], PLAIN)
    edits = [f"edit {number}" for number in range(4)]
    granted = race(
        crowd,
        ids,
        lambda: [
            *[("edit", "PATCH", "", {"text": text}) for text in edits[:2]],
            *[
                ("edit at", "PATCH", "", {"text": text, "scheduledAt": crowd.soon(9000 + n)})
                for n, text in enumerate(edits[2:])
            ],
            ("move", "PATCH", "", {"scheduledAt": crowd.soon(7200)}),
            ("cancel", "DELETE", "", None),
            ("later", "POST", "/retry", {"scheduledAt": crowd.soon(8000)}),
        ],
    )
    for post in ids:
        won, events = granted[post], crowd.server.events(post)[2:]
        counts = Counter(type_ for type_, _ in events)
        row = crowd.server.rows(Post, id=post)[0]
        assert counts["post.edited"] == won["edit"] + won["edit at"]
        assert counts["post.rescheduled"] == won["edit at"] + won["move"]
        assert (row["status"] == "canceled") == (won["cancel"] == 1)
        if won["cancel"]:
            assert events[-1][0] == "post.canceled", "nothing is changed after it was canceled"
        if counts["post.edited"]:
            assert row["text"] in edits
        last = [data["scheduledAt"] for _, data in events if data["scheduledAt"]]
        assert not last or format_instant(row["scheduled_at"]) == last[-1]
    assert sum(won["edit"] + won["edit at"] for won in granted.values()) > 50
    assert crowd.server.lab.lab.ledger.posts() == []
