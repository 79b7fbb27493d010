"""Races and clocks in real time; slow, and run only by `make test-slow`."""

from __future__ import annotations

import concurrent.futures
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import pytest

from socialpub.domain.schemas.common import parse_instant
from socialpub.store.schema.models import Post
from tests.support.app_server import UNLIMITED, ApiClient, AppServer, Person, format_instant
from tests.support.reporting import TIMED
from tests.support.request_cast import RequestCast
from tests.support.soak.soak_world import configured_count

pytestmark = [pytest.mark.slow, pytest.mark.alone]

RACES = configured_count("races", 2_000)
WAVE = 100
SPREAD_MS = 15
SEED = 20_261_120
ALLOWANCE_MS = 250
PUNCTUAL = configured_count("punctual", 40)  # posts


@pytest.fixture
def busy(make_server: Callable[..., AppServer]) -> RequestCast:
    """Nothing is limited, and a post each 100 ms on an account does not wait for the one before."""
    server = make_server(limits=UNLIMITED, publishing={"workers": 32, "threads": 64})
    alice = server.person("Alice")
    for number in range(20):
        server.connect_bluesky(alice, f"bluesky {number}")
    alice.accounts["bluesky"] = alice.accounts["bluesky 0"]
    return RequestCast(server, alice)


def schedule(world: RequestCast, api: ApiClient, text: str, account: str, at_ms: int) -> str:
    body = {"targets": [{"accountId": account, "text": text}], "scheduledAt": format_instant(at_ms)}
    answer = api.publish(body)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["results"][0]["postId"])


def come_near(world: RequestCast, due: int) -> None:
    """It is one second before that time, here and at the platforms."""
    world.server.pass_time((due - world.server.clock.now_ms()) / 1000 - 1)


def accounts_of(person: Person) -> list[str]:
    return [account["id"] for account in person.accounts.values()]


def meddle(world: RequestCast, api: ApiClient, post: str, due: int, draw: random.Random) -> tuple[str, Any]:
    """Cancel a post, or move it, within a moment of its time: what was acknowledged."""
    moment = due + draw.randint(-150, 10)
    time.sleep(max(0, moment - world.server.clock.now_ms()) / 1000)  # a real clock: the naps of a loop would add up
    if draw.random() < 0.5:
        answer = api.delete(f"/v1/posts/{post}")
        verdict: tuple[str, Any] = ("canceled", None)
    else:
        to = world.server.clock.now_ms() + 1_000 + draw.randint(200, 900)
        answer = api.patch(f"/v1/posts/{post}", json={"scheduledAt": format_instant(to)})
        verdict = ("moved", to)
    # 400: the new time was too near once the request had come through; the post stays where it was.
    assert answer.status_code in (200, 400, 409), answer.text
    return verdict if answer.status_code == 200 else ("late", None)


def settle(world: RequestCast, posts: list[str]) -> None:
    deadline = time.monotonic() + 60
    while True:
        rows = world.server.service.read(
            lambda: [row[0] for row in Post.select(Post.status).where(Post.id.in_(posts)).tuples()]
        ).result()
        if set(rows) <= {"published", "canceled"}:
            return
        assert time.monotonic() < deadline, f"still {set(rows)}"
        time.sleep(0.05)


def test_acknowledged_cancels_and_new_times_are_respected(busy: RequestCast) -> None:
    """The simulator's ledger is the truth: races in waves, each on the edge of its time."""
    draw = random.Random(SEED)
    accounts = accounts_of(busy.alice)
    apis = [busy.server.api(busy.alice.key) for _ in range(WAVE)]
    told: dict[str, tuple[str, Any]] = {}
    with concurrent.futures.ThreadPoolExecutor(WAVE) as pool:
        for wave in range(RACES // WAVE):
            due = busy.server.clock.now_ms() + 60_000
            texts = [f"race {wave} {n}" for n in range(WAVE)]
            made = [
                pool.submit(schedule, busy, api, text, accounts[n % len(accounts)], due + SPREAD_MS * n)
                for n, (api, text) in enumerate(zip(apis, texts, strict=True))
            ]
            posts = [future.result() for future in made]
            come_near(busy, due)
            done = [
                pool.submit(meddle, busy, api, post, due + SPREAD_MS * n, random.Random(draw.random()))
                for n, (api, post) in enumerate(zip(apis, posts, strict=True))
            ]
            told |= {text: future.result() for text, future in zip(texts, done, strict=True)}
            settle(busy, posts)
    check(busy, told)


def check(world: RequestCast, told: dict[str, tuple[str, Any]]) -> None:
    entries = world.server.lab.lab.ledger.posts()
    seen = {entry.text: entry.at_ms for entry in entries}
    assert len(entries) == len(seen), "something was published twice"
    counts = {verdict: [name for name, _ in told.values()].count(verdict) for verdict in ("canceled", "moved", "late")}
    print(f"seed {SEED}: {counts}")
    assert len(told) == RACES
    assert min(counts.values()) > RACES / 50, "the races were not close"
    assert [text for text, (verdict, _) in told.items() if verdict == "canceled" and text in seen] == []
    assert [text for text, (verdict, _) in told.items() if verdict != "canceled" and text not in seen] == []
    early = [text for text, (verdict, to) in told.items() if verdict == "moved" and seen[text] < to]
    assert early == []


def test_a_due_post_is_claimed_within_250_ms(busy: RequestCast) -> None:
    """Posts one at a time on an idle server: how long after its time each was claimed."""
    lateness = []
    for number in range(PUNCTUAL):
        due = busy.server.clock.now_ms() + 60_000
        post = schedule(busy, busy.alice.api, f"on time {number}", busy.alice.bluesky, due)
        come_near(busy, due)
        busy.server.wait(post, "published", seconds=20)
        attempt = busy.alice.api.get(f"/v1/posts/{post}").json()["attempts"][0]
        lateness.append(milliseconds(attempt["startedAt"]) - due)
    median = statistics.median(lateness)
    print(f"claimed after: median {median} ms, worst {max(lateness)} ms")
    assert min(lateness) >= 0, "a post was claimed before its time"
    assert median <= ALLOWANCE_MS or not TIMED


def milliseconds(text: str) -> int:
    return parse_instant(text)


def test_25_targets_run_at_the_same_time(busy: RequestCast) -> None:
    """With an upstream that takes 500 ms for each call, the batch answers in under 2.5 s."""
    while len(busy.alice.accounts) < 26:
        busy.server.connect_bluesky(busy.alice, f"bluesky {len(busy.alice.accounts)}")
    accounts = list(dict.fromkeys(accounts_of(busy.alice)))[:25]
    busy.server.lab.lab.configure(latency_ms=500)
    body = {"targets": [{"accountId": account} for account in accounts], "text": "all at once"}
    began = time.monotonic()
    answer = busy.alice.api.publish(body)
    took = time.monotonic() - began
    print(f"25 targets with 500 ms a call: {took:.2f} s")
    assert answer.json()["status"] == "published"
    assert took < 2.5 or not TIMED
