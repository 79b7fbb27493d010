"""Rate limits of the fake Bluesky, with the numbers of recorded answers."""

from __future__ import annotations

import pytest

from socialpub.simulator.bluesky.limits import Charge, Limit, Limiter
from socialpub.simulator.contract import RefusedError
from tests.support.bluesky_user import BlueskyUser, make_record
from tests.support.fixed_clock import NOON, FixedClock

START = NOON // 1000


@pytest.fixture
def limited(alice: BlueskyUser) -> BlueskyUser:
    alice.simulator.lab.configure(rateLimits=True)
    return alice


def test_the_31st_login_within_five_minutes_is_refused(limited: BlueskyUser, clock: FixedClock) -> None:
    login = {"identifier": "alice.test", "password": limited.account["appPassword"]}
    url = "/xrpc/com.atproto.server.createSession"
    first = limited.client.post(url, json=login)
    clock.ms += 10_000
    for _ in range(29):
        assert limited.client.post(url, json=login).status_code == 200
    refused = limited.client.post(url, json=login)
    assert (refused.status_code, refused.json()) == (
        429,
        {"error": "RateLimitExceeded", "message": "Rate Limit Exceeded"},
    )
    names = ("ratelimit-limit", "ratelimit-remaining", "ratelimit-reset", "ratelimit-policy", "retry-after")
    assert [first.headers.get(name) for name in names] == ["30", "29", str(START + 300), "30;w=300", None]
    assert [refused.headers.get(name) for name in names] == ["30", "0", str(START + 300), "30;w=300", "290"]
    clock.ms += 290_000
    assert limited.client.post(url, json=login).status_code == 200


def test_the_5001st_write_point_in_an_hour_is_refused_without_effect(limited: BlueskyUser) -> None:
    kind = "com.atproto.repo.applyWrites#create"
    write = {"$type": kind, "collection": "app.bsky.feed.post", "value": make_record()}
    batch = {"repo": limited.did, "writes": [write] * 200}  # 600 points
    answers = [limited.call("com.atproto.repo.applyWrites", batch) for _ in range(9)]
    assert [answer.status_code for answer in answers] == [200] * 8 + [429]
    assert answers[8].headers["ratelimit-policy"] == "5000;w=3600"
    assert answers[8].headers["retry-after"] == "3600"
    assert len(limited.simulator.lab.ledger.posts()) == 1600


def test_the_tightest_limit_is_told_of(limited: BlueskyUser) -> None:
    for number, answer in enumerate((limited.put(), limited.put(rkey="self")), start=1):
        told = answer.headers["ratelimit-policy"], answer.headers["ratelimit-remaining"]
        assert (answer.status_code, told) == ((200, 400)[number - 1], ("3000;w=300", str(3000 - number)))


def test_without_limits_no_header_tells_of_them(alice: BlueskyUser) -> None:
    assert not [name for name in alice.put().headers if name.startswith("ratelimit")]


def test_a_window_begins_with_its_first_charge(clock: FixedClock) -> None:
    limiter, charge = Limiter(clock), Charge("a", Limit(2, 10), points=2)
    clock.ms += 5_000
    assert limiter.take([charge])["ratelimit-reset"] == str(START + 15)
    clock.ms += 9_999
    with pytest.raises(RefusedError):
        limiter.take([charge])
    clock.ms += 1
    assert limiter.take([charge])["ratelimit-remaining"] == "0"
