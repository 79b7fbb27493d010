"""Clock jump detection: publishing pause, and resume on agreement with platform clocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from socialpub.domain.background import publishing_gate
from socialpub.domain.server import clock_watch
from socialpub.platforms import CONNECTORS
from socialpub.simulator.server import SimulatorThread
from socialpub.store.jobs import job_queue
from tests.support.app_server import AppServer, MovableClock, Person
from tests.support.publishing_state import pause_reason, post_status, schedule_post
from tests.support.soak.soak_world import wait_for

HOUR, YEAR = 3600, 365 * 24 * 3600


@pytest.fixture
def upstream() -> MovableClock:
    """The platforms' clock."""
    return MovableClock()


@pytest.fixture
def lab(upstream: MovableClock) -> Iterator[SimulatorThread]:
    with SimulatorThread(upstream) as simulator:
        yield simulator


@pytest.fixture
def server(make_server: Callable[..., AppServer], lab: SimulatorThread, monkeypatch: pytest.MonkeyPatch) -> AppServer:
    """With short rounds, and no platform but the lab's to ask for the time."""
    monkeypatch.setattr(job_queue, "SCHEDULER_SECONDS", 0.1)
    monkeypatch.setattr(publishing_gate, "PROBE_SECONDS", 0.1)
    others = {name: {"enabled": False} for name in CONNECTORS}
    return make_server(platforms=others | {"bluesky": {"api_base": lab.origin("bluesky")}})


def asked(server: AppServer, times: int) -> bool:
    """Whether the platform has been asked for the time so often."""
    return sum(call.operation == "none" for call in server.lab.lab.calls) >= times


@pytest.mark.parametrize("jump", [HOUR, YEAR], ids=["an hour", "a year"])
def test_a_clock_that_is_set_ahead_posts_nothing_until_it_is_put_right(
    server: AppServer, alice: Person, wall: MovableClock, jump: int
) -> None:
    post = schedule_post(server, alice, seconds=600)
    wall.set_ahead(jump)
    server.service.jobs.wakeup.wake()
    assert wait_for(lambda: pause_reason(server) == "clock", 60)
    assert wait_for(lambda: asked(server, 2), 60)  # and the platform did not agree
    assert (pause_reason(server), post_status(server, post)) == ("clock", "queued")
    wall.set_ahead(-jump)
    assert wait_for(lambda: pause_reason(server) is None, 60)
    assert server.lab.lab.ledger.posts() == []
    server.skip(601)
    assert wait_for(lambda: post_status(server, post) == "published", 60)
    assert len(server.lab.lab.ledger.posts()) == 1


def test_a_jump_that_the_platforms_have_made_too_ends_the_pause(
    server: AppServer, alice: Person, wall: MovableClock, upstream: MovableClock
) -> None:
    """A machine that slept: monotonic time stood still, and the wall clock is right."""
    post = schedule_post(server, alice, seconds=600)
    upstream.set_ahead(700)
    wall.set_ahead(700)
    assert wait_for(lambda: post_status(server, post) == "published", 60)
    assert pause_reason(server) is None


@pytest.mark.parametrize(("apart", "agrees"), [(119, True), (-119, True), (122, False), (-122, False)])
def test_a_platform_agrees_within_120_seconds_either_way(
    server: AppServer, upstream: MovableClock, apart: int, agrees: bool
) -> None:
    upstream.set_ahead(apart)
    assert clock_watch.is_confirmed_upstream(server.service) is agrees


def test_a_platform_that_does_not_answer_does_not_agree(server: AppServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock_watch, "_list_hosts", lambda service: ["http://127.0.0.1:9"])
    assert clock_watch.is_confirmed_upstream(server.service) is False


def test_a_clock_that_jumps_back_posts_nothing_twice_and_forgets_nothing(
    server: AppServer, alice: Person, wall: MovableClock
) -> None:
    done = alice.api.publish({"text": "done", "targets": [{"accountId": alice.bluesky}]}).json()["results"][0]
    post = schedule_post(server, alice, seconds=90)
    wall.set_ahead(-HOUR)
    assert not wait_for(lambda: pause_reason(server), 1)
    assert post_status(server, done["postId"]) == "published"
    server.skip(HOUR + 91)
    assert wait_for(lambda: post_status(server, post) == "published", 60)
    assert len(server.lab.lab.ledger.posts()) == 2


def test_start_after_a_long_downtime_waits_for_a_platform_clock(
    server: AppServer, alice: Person, wall: MovableClock, upstream: MovableClock
) -> None:
    post = schedule_post(server, alice, seconds=73 * HOUR - 60)
    server.stop()
    wall.set_ahead(73 * HOUR)
    server.start()
    assert pause_reason(server) == "clock"
    assert wait_for(lambda: asked(server, 2), 60)
    assert (pause_reason(server), post_status(server, post)) == ("clock", "queued")
    upstream.set_ahead(73 * HOUR)  # so it was no mistake: the machine was off for three days
    assert wait_for(lambda: post_status(server, post) == "published", 60)


@pytest.mark.parametrize("silent_ms, seen, doubtful", [(0, 0, False), (120_000, 1, False), (120_001, 1, True)])
def test_two_minutes_without_a_sign_of_life_are_a_doubt(silent_ms: int, seen: int, doubtful: bool) -> None:
    assert clock_watch.is_doubtful(seen, seen + silent_ms) is doubtful


def test_120_seconds_apart_are_a_jump_and_less_is_not() -> None:
    clock = MovableClock()
    watch = clock_watch.ClockWatch(clock)
    clock.set_ahead(119)
    assert not watch.has_jumped()
    clock.set_ahead(2)
    assert watch.has_jumped()
    watch.trust()
    assert not watch.has_jumped()
    clock.set_ahead(-3600)
    assert not watch.has_jumped()
    clock.set_ahead(3600)
    assert watch.has_jumped()  # back again: it may not be trusted either
