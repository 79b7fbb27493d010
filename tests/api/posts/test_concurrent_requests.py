"""50 concurrent requests on one post, key and account: rows agree with responses."""

from __future__ import annotations

import concurrent.futures
import json
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from socialpub.store.schema.models import IdempotencyRecord, Post, Usage
from tests.support.app_server import UNLIMITED, ApiClient, AppServer, format_instant
from tests.support.request_cast import RequestCast

AT_ONCE, SEED = 50, 20_261_120


@pytest.fixture
def stormy(make_server: Callable[..., AppServer]) -> RequestCast:
    server = make_server(limits=UNLIMITED)
    alice = server.connected_person("Alice")
    return RequestCast(server, alice)


def one(world: RequestCast, api: ApiClient, post: str, draw: random.Random) -> tuple[str, httpx.Response]:
    """A random request on the post or beside it."""
    to = format_instant(world.server.clock.now_ms() + draw.randint(2_000, 9_000_000))
    key = {"Idempotency-Key": f"key {draw.randint(0, 3)}"} if draw.random() < 0.5 else {}
    requests: list[tuple[str, str, str, Any]] = [
        ("cancel", "DELETE", f"/v1/posts/{post}", None),
        ("move", "PATCH", f"/v1/posts/{post}", {"scheduledAt": to}),
        ("retry", "POST", f"/v1/posts/{post}/retry", {}),
        ("settle", "POST", f"/v1/posts/{post}/settle", {"published": True}),
        ("publish", "POST", "/v1/posts", world.body(text="storm", scheduledAt="2100-01-01T00:00:00Z")),
        ("validate", "POST", "/v1/posts/validate", world.body(text="storm")),
        ("read", "GET", f"/v1/posts/{post}", None),
        ("list", "GET", "/v1/posts?limit=5", None),
    ]
    weights = [1, 6, 2, 2, 6, 3, 3, 3]
    name, method, path, body = draw.choices(requests, weights)[0]
    content = None if body is None else json.dumps(body).encode()
    return name, api.request(method, path, content=content, headers=key)


@pytest.mark.parametrize("rounds", [4, pytest.param(50, marks=pytest.mark.slow)])
def test_a_storm_leaves_rows_that_agree_with_its_answers(stormy: RequestCast, rounds: int) -> None:
    draw = random.Random(SEED)
    apis = [stormy.server.api(stormy.alice.key) for _ in range(AT_ONCE)]
    counts: Counter[str] = Counter()
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for _ in range(rounds):
            post = stormy.scheduled()
            counts["publish"] += 1
            seeds = [random.Random(draw.random()) for _ in apis]
            answers = list(pool.map(lambda api, seed, post=post: one(stormy, api, post, seed), apis, seeds))
            fresh = [(name, a) for name, a in answers if a.is_success and "Idempotency-Replayed" not in a.headers]
            round_counts = Counter(name for name, _ in fresh)
            counts += round_counts
            assert {a.status_code for _, a in answers} <= {200, 202, 409}
            check_post(stormy, post, round_counts)
    check_totals(stormy, counts)


def check_post(world: RequestCast, post: str, done: Counter[str]) -> None:
    """Canceled at most once, and by then moved as often as was acknowledged."""
    types = Counter(event.type for event in world.server.happened(post=post))
    (row,) = world.server.rows(Post, id=post)
    assert (types["post.canceled"], types["post.rescheduled"]) == (done["cancel"], done["move"])
    assert done["cancel"] <= 1
    assert row["status"] == ("canceled" if done["cancel"] else "queued")
    assert (done["retry"], done["settle"]) == (0, 0)
    jobs = [job for job in world.server.jobs() if job["key"] == post]
    assert [job["visible_at"] for job in jobs] == ([] if done["cancel"] else [row["scheduled_at"]])


def check_totals(world: RequestCast, counts: Counter[str]) -> None:
    assert len(world.server.rows(Post)) == counts["publish"]
    assert [row["posts"] for row in world.server.rows(Usage)] == [counts["publish"]]
    assert all(row["status"] is not None for row in world.server.rows(IdempotencyRecord))
    assert world.server.lab.lab.ledger.posts() == []
