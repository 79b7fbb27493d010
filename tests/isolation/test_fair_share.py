"""Fair shares of a thread pool, and the circuit breaker for a hanging platform."""

from __future__ import annotations

import functools
import json
import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from socialpub.base.concurrency.fair_executor import (
    BUSY_RETRY_SECONDS,
    FairExecutor,
    FairShareLimiter,
    QueueLimits,
    ShareKey,
    current_share_key,
)
from socialpub.base.errors import ApiError
from socialpub.base.http import client
from socialpub.base.http.circuit_breakers import (
    CALL_LIMIT_MAX,
    FAILURES_TO_OPEN,
    FIRST_WAIT_SECONDS,
    LONGEST_WAIT_SECONDS,
    CircuitBreakers,
)
from socialpub.domain.background import periodic_tasks
from socialpub.platforms.contract import AccountIdentity, Tokens, Upstream
from socialpub.simulator.server import SimulatorThread
from socialpub.store.jobs import job_queue
from socialpub.store.jobs.leases import Claim
from socialpub.store.schema.models import Post
from tests.support.app_server import MovableClock, format_instant
from tests.support.publishing_protocol import ProtocolServer
from tests.support.soak import extra_platforms
from tests.support.soak.soak_world import wait_for

GRACE = 500.0  # seconds; a try that hangs is given up after 600

# --- Shares ---


def test_whoever_comes_later_still_finds_places() -> None:
    shares = FairShareLimiter(32)
    took = {host: sum(shares.try_enter(ShareKey(host)) for _ in range(100)) for host in ("first", "second", "third")}
    assert took == {"first": 22, "second": 7, "third": 2}
    assert shares.get_saturated().hosts == {"first", "second", "third"}
    shares.leave(ShareKey("first"))
    assert not shares.try_enter(ShareKey("first"))
    assert shares.try_enter(ShareKey("fourth"))


def test_one_organization_with_many_upstreams_leaves_some_places() -> None:
    shares = FairShareLimiter(32)
    took = sum(shares.try_enter(ShareKey(f"host-{number}", "greedy")) for number in range(100))
    assert took == 28
    assert shares.get_saturated().owners == {"greedy"}
    assert shares.try_enter(ShareKey("host-0", "modest"))


@pytest.mark.parametrize("places", [1, 2, 3])
def test_of_few_places_everybody_gets_one(places: int) -> None:
    shares = FairShareLimiter(places)
    assert shares.try_enter(ShareKey("a", "x"))
    shares.leave(ShareKey("a", "x"))
    assert shares.try_enter(ShareKey("b", "y"))


def test_a_narrow_host_gets_what_it_may_hold() -> None:
    narrow = {"silent": 0, "slow": 1}
    shares = FairShareLimiter(32, lambda: narrow)
    assert shares.get_saturated().hosts == {"silent"}
    assert [shares.try_enter(ShareKey(host)) for host in ("silent", "slow", "slow")] == [False, True, False]
    assert shares.try_enter(ShareKey("silent"), anyway=True)


# --- The pool ---


@pytest.fixture
def pool() -> Iterator[FairExecutor]:
    made = FairExecutor(8, "tested")
    yield made
    made.shutdown(wait=True, cancel_futures=True)


def test_a_host_that_hangs_does_not_take_the_pool(pool: FairExecutor) -> None:
    over = threading.Event()
    hanging = [pool.submit_for(ShareKey("hangs", "a"), over.wait, 30) for _ in range(50)]
    healthy = [pool.submit_for(ShareKey("healthy", "b"), lambda n=number: n) for number in range(20)]
    assert [work.result(30) for work in healthy] == list(range(20))
    assert wait_for(lambda: sum(work.running() for work in hanging) == 6, 30)  # each in its thread, which is to begin
    assert pool.waiting_count == 44
    assert pool.is_busy
    over.set()
    assert all(work.result(30) for work in hanging)
    assert wait_for(lambda: not pool.is_busy, 30)


def test_shares_take_turns(pool: FairExecutor) -> None:
    gate, began, order = threading.Event(), threading.Semaphore(0), []

    def hold() -> None:
        began.release()
        gate.wait(30)

    for number in range(8):
        pool.submit_for(ShareKey(f"holder-{number}"), hold)
        assert began.acquire(timeout=30)
    many = [pool.submit_for(ShareKey("many"), order.append, "many") for _ in range(40)]
    one = pool.submit_for(ShareKey("one"), order.append, "one")
    gate.set()
    for work in (*many, one):
        work.result(30)
    assert order.index("one") < 20


def test_a_burst_is_done_where_one_thread_is_all_that_can_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, start, order = FairExecutor(100, "tested"), threading.Thread.start, []

    def once(thread: threading.Thread) -> None:
        if pool._threads.threads > 1:
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", once)
        for each in [pool.submit_for(ShareKey("one"), order.append, number) for number in range(5)]:
            each.result(30)
    assert sorted(order) == list(range(5))
    pool.shutdown(wait=True)


def test_the_last_place_is_for_who_has_none_and_whoever_has_none_is_next() -> None:
    pool, order, gates = FairExecutor(2, "tested"), [], {name: threading.Event() for name in ("one", "two")}
    for name, gate in gates.items():
        began = threading.Event()
        pool.submit_for(ShareKey(owner=name), lambda began=began, gate=gate: began.set() or gate.wait(30))
        assert began.wait(30)
    wanted = ["one", "one", "one", "three", "last"]
    works = [pool.submit_for(ShareKey(owner=name), order.append, name) for name in wanted]
    gates["two"].set()
    for work in works[3:]:
        work.result(30)
    assert order == ["three", "last"]
    gates["one"].set()
    for work in works:
        work.result(30)
    assert order == ["three", "last", "one", "one", "one"]
    assert pool.waiting_count == 0
    pool.shutdown()


def test_background_work_holds_a_slot_and_waits_for_one_like_others() -> None:
    pool, one, begun = FairExecutor(2, "tested"), ShareKey(owner="one"), list[tuple[str, Callable[[], None]]]()
    came = threading.Semaphore(0)

    def begin(name: str, leave: Callable[[], None]) -> None:
        begun.append((name, leave))
        came.release()

    for name in ("first", "second", "third"):
        pool.enter_for(one, functools.partial(begin, name))
    assert [name for name, _ in begun] == ["first"]  # never the last place for who has one
    assert pool.is_busy
    assert pool.waiting_count == 2
    other = pool.submit_for(ShareKey(owner="two"), threading.get_ident)
    assert other.result(30) != threading.get_ident()
    assert came.acquire(timeout=30)
    begun[0][1]()
    assert came.acquire(timeout=30)
    assert [name for name, _ in begun] == ["first", "second"]
    begun[1][1]()
    assert came.acquire(timeout=30)
    begun[2][1]()
    pool.shutdown(wait=True)
    assert not pool.is_busy
    with pytest.raises(RuntimeError):
        pool.enter_for(one, functools.partial(begin, "late"))


def refused(pool: FairExecutor, share: ShareKey, count: int = 1) -> bool:
    try:
        pool.admit(share, count)
    except ApiError as error:
        return (error.status, error.rule, error.retry_after) == (503, "http.busy", BUSY_RETRY_SECONDS)
    return False


def test_waiting_work_is_bounded_by_owner_and_in_all() -> None:
    pool, over, mine, theirs = (
        FairExecutor(1, "tested", QueueLimits(3, 5)),
        threading.Event(),
        ShareKey("h", "a"),
        ShareKey("h", "b"),
    )
    began = threading.Event()
    first = pool.submit_for(mine, lambda: began.set() or over.wait(30))
    assert began.wait(30)
    waiting = [pool.of(share).submit(lambda: 1) for share in (mine, mine, mine)]
    assert refused(pool, mine)
    assert refused(pool, ShareKey("another host", "a"))
    with pytest.raises(ApiError):
        pool.of(mine).submit(print)
    assert [refused(pool, theirs, count) for count in (2, 3)] == [False, True]
    accepted = [pool.submit_for(mine, lambda: 2) for _ in range(4)]
    assert refused(pool, theirs)
    pool.withdraw(mine, accepted.pop())
    pool.withdraw(mine, waiting.pop())
    pool.withdraw(mine, first)  # it has begun
    assert pool.waiting_count == 5
    over.set()
    assert [work.result(30) for work in (first, *waiting, *accepted)] == [True, 1, 1, 2, 2, 2]
    assert not refused(pool, mine, 3)
    pool.shutdown()


def test_each_thread_ends_what_it_has_begun_and_knows_whom_it_works_for() -> None:
    ended: list[str] = []
    pool = FairExecutor(3, "tested", ended=lambda: ended.append(threading.current_thread().name))
    met = threading.Barrier(3)
    works = [
        pool.submit_for(ShareKey(f"h{n}", f"o{n}"), lambda: (met.wait(30), current_share_key.get())) for n in range(3)
    ]
    assert {work.result(30)[1] for work in works} == {ShareKey(f"h{n}", f"o{n}") for n in range(3)}
    assert ended == []
    pool.shutdown()
    assert ended == ["tested"] * 3


def test_a_failure_is_told_and_a_closed_pool_takes_nothing(pool: FairExecutor) -> None:
    with pytest.raises(ZeroDivisionError):
        pool.submit(lambda: 1 // 0).result(30)
    gate = threading.Event()
    pool.submit_for(ShareKey("h"), gate.wait, 30)
    waiting = [pool.submit_for(ShareKey("h"), gate.wait, 30) for _ in range(20)]
    pool.shutdown(wait=False, cancel_futures=True)
    gate.set()
    assert waiting[-1].cancelled()
    with pytest.raises(RuntimeError):
        pool.submit(print)


# --- Breakers ---


class Time:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def breakers(time: Time) -> CircuitBreakers:
    return CircuitBreakers(time)


def silence(breakers: CircuitBreakers, name: str = "p", times: int = FAILURES_TO_OPEN) -> None:
    for _ in range(times):
        breakers.unanswered(name)


def test_only_silence_in_a_row_opens(breakers: CircuitBreakers) -> None:
    silence(breakers, times=FAILURES_TO_OPEN - 1)
    breakers.answered("p")
    silence(breakers, times=FAILURES_TO_OPEN - 1)
    assert breakers.may_call("p")
    assert breakers.open() == []
    breakers.unanswered("p")
    assert not breakers.may_call("p")
    assert breakers.may_call("another")


def test_one_thread_tries_at_growing_distances(breakers: CircuitBreakers, time: Time) -> None:
    silence(breakers)
    wait = FIRST_WAIT_SECONDS
    for _ in range(6):
        assert breakers.get_limits() == {"p": 0}
        time.now += wait - 0.1
        assert not breakers.may_call("p")
        time.now += 0.1
        assert breakers.get_limits() == {"p": 1}
        assert breakers.may_call("p")
        assert not elsewhere(lambda: breakers.may_call("p"))
        breakers.unanswered("p")
        wait = min(wait * 2, LONGEST_WAIT_SECONDS)
    assert breakers.next_try() == pytest.approx(LONGEST_WAIT_SECONDS)


def elsewhere(run: Callable[[], Any]) -> Any:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(run()))
    thread.start()
    thread.join(30)
    return found[0]


def test_a_try_that_learned_nothing_is_somebody_elses(breakers: CircuitBreakers, time: Time) -> None:
    silence(breakers)
    time.now += FIRST_WAIT_SECONDS
    assert breakers.may_call("p")
    breakers.gave_up("p")
    assert elsewhere(lambda: breakers.may_call("p"))


def test_what_waited_goes_on_slowly(breakers: CircuitBreakers, time: Time) -> None:
    silence(breakers)
    time.now += FIRST_WAIT_SECONDS
    assert breakers.may_call("p")
    breakers.answered("p")
    assert breakers.open() == []
    assert breakers.get_limits() == {"p": 1}
    breakers.answered("p")
    assert breakers.get_limits() == {"p": 2}
    for _ in range(CALL_LIMIT_MAX):
        breakers.answered("p")
    assert breakers.get_limits() == {}


def test_silence_again_at_the_first_call_opens_again(breakers: CircuitBreakers, time: Time) -> None:
    silence(breakers)
    time.now += FIRST_WAIT_SECONDS
    breakers.answered("p")
    breakers.unanswered("p")
    assert not breakers.may_call("p")


def test_opening_and_closing_are_one_line_each(
    breakers: CircuitBreakers, time: Time, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "socialpub.upstream"):
        silence(breakers, times=FAILURES_TO_OPEN + 20)
        time.now += 7
        breakers.answered("p")
        breakers.answered("p")
    assert [record.message for record in caplog.records] == [
        f"p has not responded to {FAILURES_TO_OPEN} calls in a row; its posts wait until it does",
        "p responds again after 7 s; its waiting posts continue",
    ]


# --- Through the front door ---


@pytest.fixture
def server(tmp_path: Path, three: SimulatorThread, wall: MovableClock) -> Iterator[ProtocolServer]:
    three.lab.reset()
    scheduling = {"overdue_spacing": 0, "overdue_grace": GRACE}
    publishing = {"workers": 8, "retry_waits": [1, 1, 1], "settle_horizon": 4}
    server = ProtocolServer(tmp_path, three, wall, {"publishing": publishing, "scheduling": scheduling})
    server.start()
    server.furnish()
    yield server
    server.stop()
    three.lab.reset()


def schedule(server: ProtocolServer, platform: str, count: int) -> list[str]:
    """As many posts, each of an account of its own, due in an hour; their ids."""
    posts = []
    for number in range(count):
        made = server.lab.lab.add_account(platform, id=f"{platform}-{number}")
        name = f"{platform}-{number}"
        account = server._keep(server.alice, name, platform, AccountIdentity(name, name), Tokens(made["accessToken"]))
        body = {
            "text": name,
            "targets": [{"accountId": account["id"]}],
            "scheduledAt": format_instant(server.clock.now_ms() + 3_600_000),
        }
        posts.append(server.alice.api.publish(body).json()["results"][0]["postId"])
    return posts


def statuses(server: ProtocolServer, posts: list[str]) -> Counter[str]:
    return Counter(server.post(post)["status"] for post in posts)


@pytest.mark.slow
def test_a_platform_that_hangs_does_not_take_all_workers(
    server: ProtocolServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    over, connector = threading.Event(), extra_platforms.CONNECTORS["plain"]
    prepare = connector.prepare

    def hang(*given: Any) -> Any:
        over.wait(60)
        return prepare(*given)

    monkeypatch.setattr(connector, "prepare", hang)
    hanging = schedule(server, "plain", 40)
    healthy = schedule(server, "crate", 6)  # due after them
    server.skip(3601)
    assert wait_for(lambda: statuses(server, healthy)["published"] == 6, 30), statuses(server, healthy)

    def held() -> Counter[str]:
        return Counter(claim.share.host for claim in server.service.jobs.held())

    assert wait_for(lambda: held() == {"plain": 6}, 30), held()  # a post is out just before its worker is done with it
    assert statuses(server, hanging) == {"publishing": 6, "queued": 34}
    over.set()
    assert wait_for(lambda: statuses(server, hanging)["published"] == 40, 60), statuses(server, hanging)
    assert len(server.ledger("plain-0")) == 1


@pytest.mark.slow
def test_what_a_silent_platform_holds_back_goes_out_once_when_it_answers(server: ProtocolServer) -> None:
    posts = schedule(server, "plain", 60)
    server.lab.lab.faults.add([{"fault": "reset_before", "platform": "plain"}])
    server.skip(3601)
    assert wait_for(lambda: server.service.upstream.breakers.open() != [], 30)
    engine, clock = server.engine, server.clock
    assert wait_for(lambda: clock.monotonic() - engine.heartbeat < 60, 30)
    assert server.api().get("/readyz").json()["silent"] == ["plain"]
    assert wait_for(lambda: not server.service.jobs.held(), 30)  # what was under way when it fell silent
    untried = [post for post in posts if server.post(post)["attempts"] == 0]
    assert len(untried) > 10
    calls = len(server.lab.lab.calls)
    other = server.publish("crate", "the other platform")
    assert other["status"] == "published"
    refused = {text: server.publish("plain", text)["error"] for text in ("at once", "the next", "the last")}
    assert {error["code"] for error in refused.values()} == {"platform_unavailable"}
    # Now and then one post may try whether it answers again: of three in a row at most one.
    bodies = [call.body for call in list(server.lab.lab.calls)[calls:]]
    waited = [text for text in refused if not any(text.encode() in body for body in bodies)]
    assert len(waited) >= 2
    assert all("did not respond to the last calls" in refused[text]["message"] for text in waited)
    server.lab.lab.faults.clear()
    untried = [post for post in untried if server.post(post)["attempts"] == 0]
    assert len(untried) > 10
    ended = lambda: statuses(server, untried)["published"] == len(untried)  # noqa: E731
    assert wait_for(lambda: server.skip(1) or ended(), 60), statuses(server, posts)
    assert all(server.post(post)["attempts"] == 1 for post in untried)
    texts = [entry.text for entry in server.lab.lab.ledger.posts()]
    assert max(Counter(texts).values()) == 1
    assert server.service.upstream.breakers.open() == []


def silenced(server: ProtocolServer, posts: list[str]) -> list[str]:
    """`plain` falls silent when these posts are due; those of them that nobody has begun."""
    server.lab.lab.faults.add([{"fault": "reset_before", "platform": "plain"}])
    server.skip(3601)
    assert wait_for(lambda: server.service.upstream.breakers.open() != [] and not server.service.jobs.held(), 30)
    return [post for post in posts if server.post(post)["attempts"] == 0]


@pytest.mark.slow
def test_a_try_that_fails_on_our_side_tells_nothing_of_the_platform(
    server: ProtocolServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    connector, tries = extra_platforms.CONNECTORS["plain"], list[list[str]]()
    prepare, opened = connector.prepare, lambda: [found.name for found in server.service.upstream.breakers.open()]

    def broken() -> Iterator[bytes]:
        yield b"some"
        raise RuntimeError("a file that cannot be read")

    def faulty(up: Upstream, *given: Any) -> Any:
        tries.append(opened())
        if len(tries) == 1:
            up.http.request("POST", f"{up.site.api_base}/none", content=broken())
        if len(tries) == 2:
            up.http.request("GET", "http://localhost:none/")
        if len(tries) == 3:
            server.lab.lab.faults.clear()  # until then whoever else asks hears nothing
        return prepare(up, *given)

    waiting = silenced(server, schedule(server, "plain", 30))
    monkeypatch.setattr(connector, "prepare", faulty)
    server.skip(FIRST_WAIT_SECONDS)
    for _ in range(60):
        if wait_for(lambda: len(tries) >= 3, 0.2):
            break
        server.skip(1)
    assert tries[:3] == [["plain"]] * 3
    over = {"failed": 1, "published": len(waiting) - 1}
    for _ in range(60):  # seconds, of the ten minutes after which a try is over that never ended
        if wait_for(lambda: statuses(server, waiting) == over, 0.2):
            break
        server.skip(1)
    assert statuses(server, waiting) == over
    assert [row["error_code"] for row in server.rows(Post, status="failed") if row["id"] in waiting] == [
        "internal_error"
    ]
    assert opened() == []


def one_tries(server: ProtocolServer) -> Claim:
    """The post that asks a platform which hangs by now; nobody else is let through."""
    faults, calls = server.lab.lab.faults, len(server.lab.lab.calls)
    faults.clear()
    faults.add([{"fault": "delay:600", "platform": "plain", "effect": False}])
    server.skip(FIRST_WAIT_SECONDS)
    held = server.service.jobs.held
    assert wait_for(lambda: len(server.lab.lab.calls) > calls and len(held()) == 1, 30), held()
    return held()[0]


@pytest.mark.slow
def test_what_a_silent_platform_holds_back_is_told_once_it_is_too_late(
    server: ProtocolServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_queue, "SCHEDULER_SECONDS", 0.2)
    monkeypatch.setattr(client, "CALL_SECONDS", 10)
    waiting = silenced(server, schedule(server, "plain", 30))
    trying = one_tries(server)
    calls = len(server.lab.lab.calls)
    waiting = [post for post in waiting if post != trying.key]
    server.skip(GRACE + periodic_tasks.SWEEP_SECONDS)
    assert wait_for(lambda: statuses(server, waiting) == {"failed": len(waiting)}, 30), statuses(server, waiting)
    assert wait_for(lambda: server.service.jobs.held() == [trying], 30), server.service.jobs.held()
    assert [found.name for found in server.service.upstream.breakers.open()] == ["plain"]
    assert {json.loads(server.post(post)["error"])["rule"] for post in waiting} == {"schedule.overdue"}
    assert all([type_ for type_, _ in server.events(post)].count("post.failed") == 1 for post in waiting)
    assert len(server.lab.lab.calls) == calls


@pytest.mark.slow
def test_who_is_refused_while_another_tries_is_to_come_again_soon(
    server: ProtocolServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "CALL_SECONDS", 5)
    silenced(server, schedule(server, "plain", 30))
    one_tries(server)
    refused = server.publish("plain", "at once")["error"]
    assert "did not respond to the last calls" in refused["message"]
    assert refused["retryAfter"] <= LONGEST_WAIT_SECONDS
