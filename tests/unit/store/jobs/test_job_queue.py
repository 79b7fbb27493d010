"""Leased job queue: transactional insert, single claim, renewal, takeover, pauses."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from socialpub.base import fault_injection
from socialpub.base.concurrency.fair_executor import NO_SHARE_KEY, FairShareLimiter, ShareKey
from socialpub.base.errors import ApiError
from socialpub.store import database as db
from socialpub.store.database import Database, Tx
from socialpub.store.jobs.job_queue import RETRY_SECONDS, JobQueue
from socialpub.store.jobs.leases import LEASE_MS, Claim, Job, JobSpec, _ClaimExclusions
from socialpub.store.jobs.worker_slots import SLEEP_SECONDS_MAX
from socialpub.store.schema.models import Organization
from tests.support.app_server import sleep_briefly
from tests.support.fixed_clock import FixedClock

Row = dict[str, Any]


@dataclass
class Ring:
    """A queue over a clock that stands, and what its jobs were given."""

    database: Database
    clock: FixedClock = field(default_factory=FixedClock)
    answered: list[Claim] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.jobs = JobQueue(self.database, self.clock)
        self.jobs.epoch = 1
        for kind in ("publish", "answer"):
            self.jobs.register(kind, self.answered.append)

    def put(self, key: str, at_ms: int | None = None, serial_group: str = "", kind: str = "publish") -> None:
        at = self.clock.ms if at_ms is None else at_ms
        self.database.write(lambda tx: self.jobs.put(tx, kind, key, at, serial_group)).result()

    def claim(self, limit: int = 10) -> list[Claim]:
        return self.jobs.claim(self.jobs.due(limit)[0])

    def write(self, run: Callable[[Tx], Any]) -> Any:
        return self.database.write(run).result()

    def rows(self) -> list[Row]:
        return list(self.database.read(lambda: list(Job.select().order_by(Job.key).dicts())).result())

    def keys(self) -> list[str]:
        return [row["key"] for row in self.rows()]


@pytest.fixture
def ring(database: Database) -> Ring:
    return Ring(database)


# --- In the caller's transaction -------------------------------------------------------------------------------------


def test_a_rollback_leaves_neither_row_nor_job(ring: Ring) -> None:
    def fail(tx: Tx) -> None:
        Organization.insert(id="one", name="one", created_at=1).execute()
        ring.jobs.put(tx, "publish", "post", 0)
        raise KeyError

    with pytest.raises(KeyError):
        ring.write(fail)
    assert ring.rows() == []
    assert ring.database.read(lambda: Organization.select().count()).result() == 0


def test_a_commit_that_fails_leaves_no_job_and_wakes_nobody(ring: Ring) -> None:
    ring.jobs.wakeup.wait(0)
    fault_injection.plan("db.commit=enospc")
    with pytest.raises(ApiError):
        ring.put("post")
    assert not ring.jobs.wakeup._event.is_set()
    fault_injection.plan("")
    assert ring.rows() == []


def test_put_replaces_the_job_of_its_key_and_frees_its_lease(ring: Ring) -> None:
    ring.put("post", serial_group="a")
    [claim] = ring.claim()
    ring.put("post", ring.clock.ms + 5000, serial_group="b")
    assert ring.rows() == [
        {
            "key": "post",
            "kind": "publish",
            "serial_group": "b",
            "visible_at": ring.clock.ms + 5000,
            "claims": 2,
            "epoch": None,
        }
        | NO_SHARE_KEY._asdict()
    ]
    assert not ring.write(lambda tx: ring.jobs.owns(claim))


def test_remove_tells_whether_there_was_a_job(ring: Ring) -> None:
    ring.put("post")
    assert ring.write(lambda tx: ring.jobs.remove(tx, "post")) is True
    assert ring.write(lambda tx: ring.jobs.remove(tx, "post")) is False
    assert ring.rows() == []


def test_a_job_put_held_is_leased_to_this_process_from_the_start(ring: Ring) -> None:
    (claim,) = ring.write(lambda tx: ring.jobs.put_held(tx, "publish", [JobSpec("post", "group", "", "")]))
    assert claim == Claim("post", 1, "group")
    assert ring.jobs.held() == [claim]
    ring.clock.ms += LEASE_MS + 1
    assert ring.claim() == []  # ours, whatever the lease says


# --- Claiming ------------------------------------------------------------------------------------------------------


def test_jobs_are_claimed_in_due_order_and_only_once_due(ring: Ring) -> None:
    now = ring.clock.ms
    for key, at in (("late", now + 1), ("second", now), ("first", now - 5)):
        ring.put(key, at)
    assert [claim.key for claim in ring.claim()] == ["first", "second"]
    assert ring.claim() == []
    ring.clock.ms += 1
    assert [claim.key for claim in ring.claim()] == ["late"]


def test_a_claim_moves_the_lease_ahead_and_counts(ring: Ring) -> None:
    ring.put("post")
    [claim] = ring.claim()
    assert claim.claims == 1
    assert ring.rows()[0] | {"kind": "", "serial_group": ""} == {
        "key": "post",
        "kind": "",
        "serial_group": "",
        "visible_at": ring.clock.ms + LEASE_MS,
        "claims": 1,
        "epoch": 1,
        **NO_SHARE_KEY._asdict(),
    }


def test_two_that_want_the_same_job_do_not_both_get_it(ring: Ring) -> None:
    ring.put("post")
    wanted, _ = ring.jobs.due(10)
    assert len(ring.jobs.claim(wanted)) == 1
    assert ring.jobs.claim(wanted) == []


def test_job_put_off_by_its_late_worker_is_not_claimed(ring: Ring) -> None:
    """Releasing a job moves it without another claim: its time is compared too."""
    ring.put("post")
    [late] = ring.claim()
    ring.jobs.drop(late)
    ring.clock.ms += LEASE_MS + 1
    wanted = ring.jobs.due(1)[0]
    assert [claim.key for claim in wanted] == ["post"]
    assert ring.write(lambda tx: ring.jobs.reschedule(tx, late, ring.clock.ms + 60_000))
    assert ring.jobs.claim(wanted) == []
    ring.clock.ms += 60_000
    assert [claim.key for claim in ring.claim()] == ["post"]


def test_job_claimed_and_released_since_it_was_seen_is_not_claimed(ring: Ring) -> None:
    ring.put("post")
    wanted, _ = ring.jobs.due(10)
    (claim,) = ring.jobs.claim(wanted)
    ring.write(lambda tx: ring.jobs.reschedule(tx, claim, ring.clock.ms))
    ring.jobs.leave(claim)
    assert ring.jobs.claim(wanted) == []
    assert [again.claims for again in ring.claim()] == [2]


def test_a_lost_lease_is_claimed_again_by_another_process(ring: Ring) -> None:
    ring.put("post")
    [claim] = ring.claim()
    ring.jobs.drop(claim)  # as if the process had died
    ring.clock.ms += LEASE_MS - 1
    assert ring.claim() == []
    ring.clock.ms += 1
    [again] = ring.claim()
    assert again == Claim("post", 2, kind="publish")
    assert not ring.write(lambda tx: ring.jobs.owns(claim))
    assert ring.write(lambda tx: ring.jobs.owns(again))


def test_a_lost_claim_neither_ends_nor_moves_the_job(ring: Ring) -> None:
    ring.put("post")
    [claim] = ring.claim()
    ring.put("post", ring.clock.ms + 7)
    assert ring.write(lambda tx: ring.jobs.finish(tx, claim)) is False
    assert ring.write(lambda tx: ring.jobs.reschedule(tx, claim, 0)) is False
    assert [(row["claims"], row["visible_at"]) for row in ring.rows()] == [(2, ring.clock.ms + 7)]


def test_a_process_never_claims_what_it_holds_even_when_the_clock_jumps(ring: Ring) -> None:
    ring.put("post")
    ring.claim()
    ring.clock.ms += 365 * 24 * 3600 * 1000
    assert ring.claim() == []


def test_finishing_deletes_and_giving_back_rings_later(ring: Ring) -> None:
    ring.put("done")
    ring.put("again")
    for claim in ring.claim():
        if claim.key == "done":
            assert ring.write(lambda tx, claim=claim: ring.jobs.finish(tx, claim))
        else:
            assert ring.write(lambda tx, claim=claim: ring.jobs.reschedule(tx, claim, ring.clock.ms + 500))
    assert ring.jobs.held() == []
    assert ring.claim() == []
    ring.clock.ms += 500
    assert [claim.key for claim in ring.claim()] == ["again"]


def test_renewing_moves_the_leases_of_what_is_held_and_of_nothing_else(ring: Ring) -> None:
    for key in ("held", "dropped", "taken"):
        ring.put(key)
    claims = {claim.key: claim for claim in ring.claim()}
    ring.jobs.drop(claims["dropped"])
    ring.put("taken", 5)
    ring.clock.ms += 15_000
    ring.jobs.renew()
    visible = {row["key"]: row["visible_at"] for row in ring.rows()}
    assert visible == {
        "held": ring.clock.ms + LEASE_MS,
        "dropped": ring.clock.ms - 15_000 + LEASE_MS,
        "taken": 5,
    }


def test_the_new_owner_frees_every_lease(ring: Ring) -> None:
    ring.put("leased")
    ring.put("future", ring.clock.ms + 99)
    for claim in ring.claim():
        ring.jobs.drop(claim)
    ring.clock.ms += 1
    assert ring.write(lambda tx: ring.jobs.free_all(tx, ring.clock.ms)) == 1
    assert [claim.key for claim in ring.claim()] == ["leased"]


def test_kinds_that_are_paused_or_unknown_are_not_claimed(ring: Ring) -> None:
    ring.put("post")
    ring.put("answer:1", kind="answer")
    ring.put("strange", kind="from a newer version")
    ring.jobs.paused = lambda: ("publish",)
    assert [claim.key for claim in ring.claim()] == ["answer:1"]
    ring.jobs.paused = tuple
    assert [claim.key for claim in ring.claim()] == ["post"]


def test_a_claim_that_cannot_be_written_leaves_its_lane(ring: Ring) -> None:
    ring.put("post", serial_group="a")
    wanted, _ = ring.jobs.due(1)
    fault_injection.plan("db.commit=enospc")
    with pytest.raises(ApiError):
        ring.jobs.claim(wanted)
    fault_injection.plan("")
    assert [claim.key for claim in ring.claim()] == ["post"]


# --- Lanes ---------------------------------------------------------------------------------------------------------


def test_one_job_of_a_group_at_a_time(ring: Ring) -> None:
    for key, serial_group in (("a1", "a"), ("a2", "a"), ("b1", "b"), ("none1", ""), ("none2", "")):
        ring.put(key, serial_group=serial_group)
    first = ring.claim()
    assert [claim.key for claim in first] == ["a1", "b1", "none1", "none2"]
    assert ring.claim() == []
    ring.jobs.groups.leave("a")
    assert [claim.key for claim in ring.claim()] == ["a2"]


def test_a_group_that_rests_is_closed_until_it_has_rested(ring: Ring) -> None:
    ring.put("a1", serial_group="a")
    ring.claim()
    ring.put("a2", serial_group="a")
    ring.jobs.groups.leave("a", 2.0)
    assert ring.jobs.due(10) == ([], 2.0)
    ring.clock.ms += 1999
    assert ring.claim() == []
    ring.clock.ms += 1
    assert [claim.key for claim in ring.claim()] == ["a2"]


def test_a_turn_waits_for_a_group_in_use_but_not_for_its_rest(ring: Ring) -> None:
    groups, told = ring.jobs.groups, list[bool]()
    assert groups.try_enter("a")
    assert not groups.try_enter("a")
    groups.when_free("a", 120, told.append)
    assert told == []
    groups.leave("a", 60)
    assert told == [True]
    groups.leave("a")
    assert not groups.try_enter("a")
    groups.when_free("a", 120, told.append)
    assert told == [True, True]


def test_waiters_for_a_serial_group_proceed_in_order_and_see_no_other(ring: Ring) -> None:
    groups, told = ring.jobs.groups, list[str]()
    assert groups.try_enter("a")
    assert groups.try_enter("b")
    for name in ("first", "second"):
        groups.when_free("a", 120, lambda is_in, name=name: told.append(f"{name} {is_in}"))
    groups.leave("b")
    assert told == []
    groups.leave("a")
    assert told == ["first True"]
    assert not groups.try_enter("a")
    groups.leave("a")
    assert told == ["first True", "second True"]
    groups.leave("a")
    assert groups.try_enter("a")
    assert not groups._waiting


def test_waiter_for_a_serial_group_times_out_and_leaves_the_queue(ring: Ring) -> None:
    groups, told = ring.jobs.groups, list[str]()
    assert groups.try_enter("a")
    groups.when_free("a", 10, lambda is_in: told.append(f"early {is_in}"))
    groups.when_free("a", 20, lambda is_in: told.append(f"late {is_in}"))
    ring.clock.ms += 9_999
    ring.jobs.renew()
    assert told == []
    ring.clock.ms += 1
    ring.jobs.renew()
    assert told == ["early False"]
    groups.leave("a")
    assert told == ["early False", "late True"]


# --- Waiting -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ahead_ms, seconds", [(1, 0.001), (1500, 1.5), (60_000, SLEEP_SECONDS_MAX)])
def test_the_wait_ends_with_the_next_due_time(ring: Ring, ahead_ms: int, seconds: float) -> None:
    ring.put("post", ring.clock.ms + ahead_ms)
    assert ring.jobs.due(1) == ([], seconds)


def test_without_jobs_it_is_a_nap(ring: Ring) -> None:
    assert ring.jobs.due(1) == ([], SLEEP_SECONDS_MAX)


WORKER_WAIT_SECONDS = 3600  # longer than the tests wait for the worker: only a wake-up ends it in time


def test_a_commit_wakes_the_worker_that_waits(ring: Ring) -> None:
    woken = threading.Event()

    def wait() -> None:
        ring.jobs.wakeup.wait(WORKER_WAIT_SECONDS)
        woken.set()

    threading.Thread(target=wait, daemon=True).start()
    ring.put("post")
    assert woken.wait(60)


def test_only_what_is_due_sooner_wakes_the_worker_that_waits(ring: Ring) -> None:
    bell, until = ring.jobs.wakeup, ring.clock.ms + 30_000
    bell.wait(0)
    waiter = threading.Thread(target=bell.wait, args=(WORKER_WAIT_SECONDS, until), daemon=True)
    waiter.start()
    while bell._until != until:
        sleep_briefly()
    for ahead in (30_000, 60_000, 86_400_000):
        ring.put("post", ring.clock.ms + ahead)
        assert not bell._event.is_set()
    ring.put("post", until - 1)
    waiter.join(60)
    assert not waiter.is_alive()


def test_due_job_wakes_a_waiter_from_before_the_clock_was_set(ring: Ring) -> None:
    bell, until = ring.jobs.wakeup, ring.clock.ms + 5000
    bell.wait(0)
    waiter = threading.Thread(target=bell.wait, args=(WORKER_WAIT_SECONDS, until), daemon=True)
    waiter.start()
    while bell._until != until:
        sleep_briefly()
    ring.clock.ms += 7_200_000
    ring.put("post")
    waiter.join(60)
    assert not waiter.is_alive()


def test_a_job_that_is_put_while_somebody_looks_is_not_waited_over(ring: Ring) -> None:
    found, wait = ring.jobs.due(1)
    assert (found, wait) == ([], SLEEP_SECONDS_MAX)
    ring.put("post", ring.clock.ms + 1000)  # after the look, and before the wait
    until = ring.clock.ms + wait * 1000
    waiter = threading.Thread(target=ring.jobs.wakeup.wait, args=(WORKER_WAIT_SECONDS, until), daemon=True)
    waiter.start()
    waiter.join(60)
    assert not waiter.is_alive()
    assert ring.jobs.due(1) == ([], 1.0)


def test_as_many_as_may_be_due_at_once_are_found_in_few_steps(ring: Ring) -> None:
    """50,000 in one millisecond, of one account and of many, and with the first of them at work."""
    ring.write(
        lambda tx: db.proxy.execute_sql(
            "INSERT INTO job (key, kind, serial_group, visible_at, claims, host, owner) WITH RECURSIVE n (n) AS "
            "(SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 50000) "
            "SELECT printf('%05d', (n * 7919) % 50000), 'publish', 'group ' || (n % 1000), ?, 0, 'host', 'owner' "
            "FROM n",
            (ring.clock.ms,),
        )
    )
    first = ring.claim(8)
    assert len(first) == 8
    rows, connection = [], None

    def step() -> int:
        rows.append(1)
        return 0

    def look() -> list[Claim]:
        nonlocal connection
        connection = db.proxy.connection()
        connection.set_progress_handler(step, 100)
        try:
            but = _ClaimExclusions({"group 0"}, {claim.key for claim in first}, {"another host"}, {"another owner"})
            return but.due("publish", ring.clock.ms, 128)
        finally:
            connection.set_progress_handler(None, 0)

    assert len(ring.database.read(look).result()) == 128
    assert len(rows) < 100  # of a hundred steps each: a walk through all of them is a million


# --- The consumer --------------------------------------------------------------------------------------------------


@pytest.fixture
def running(ring: Ring) -> Iterator[Ring]:
    consumer = ring.jobs.create_consumer(workers=3, periodic=False)
    consumer.start()
    yield ring
    consumer.shutdown_timeout = 5
    consumer.stop(graceful=True)


def test_what_is_put_for_later_makes_nobody_look(running: Ring) -> None:
    """Workers look at the table again when they must: not for each of a thousand posts of next month."""
    looks, due = [], running.jobs.due

    def counted(limit: int) -> tuple[list[Claim], float]:
        looks.append(limit)
        return due(limit)

    running.jobs.due = counted  # type: ignore[method-assign]
    running.jobs.wakeup.wake()
    while not looks or running.jobs.wakeup._until == float("inf"):
        sleep_briefly()
    before = len(looks)
    for number in range(50):
        running.put(f"post {number}", running.clock.ms + 86_400_000)
    assert len(looks) - before <= 1  # a nap may have ended


def test_workers_answer_each_job_once_with_its_claim(running: Ring) -> None:
    done = threading.Semaphore(0)
    seen: list[str] = []

    def answer(claim: Claim) -> None:
        running.write(lambda tx: running.jobs.finish(tx, claim))
        seen.append(claim.key)
        done.release()

    running.jobs.register("answer", answer)
    for number in range(30):
        running.put(f"job {number:02}", kind="answer")
    for _ in range(30):
        assert done.acquire(timeout=10)
    assert sorted(seen) == [f"job {number:02}" for number in range(30)]
    assert running.rows() == []


def test_workers_go_on_after_the_database_could_not_be_written(running: Ring) -> None:
    done = threading.Event()

    def answer(claim: Claim) -> None:
        running.write(lambda tx: running.jobs.finish(tx, claim))
        done.set()

    running.jobs.register("answer", answer)
    running.put("job", running.clock.ms + 1, kind="answer")
    fault_injection.plan("db.commit=enospc@1-3")
    running.clock.ms += 1
    running.jobs.wakeup.wake()
    assert done.wait(60)
    assert running.rows() == []


def test_a_job_whose_function_fails_rings_again_and_is_written_down(
    running: Ring, caplog: pytest.LogCaptureFixture
) -> None:
    tried = threading.Semaphore(0)

    def answer(claim: Claim) -> None:
        running.jobs.leave(claim)
        running.jobs.drop(claim)
        tried.release()
        raise ValueError("a bug")

    running.jobs.register("answer", answer)
    running.put("job", kind="answer")
    for _ in range(2):
        assert tried.acquire(timeout=10)
        while running.rows()[0]["visible_at"] != running.clock.ms + RETRY_SECONDS * 1000:
            sleep_briefly()
        running.clock.ms += int(RETRY_SECONDS * 1000)
        running.jobs.wakeup.wake()
    assert "Unhandled exception in task job." in caplog.text


def test_claimed_unstarted_jobs_are_released_when_the_consumer_stops(ring: Ring) -> None:
    for key in ("a", "b"):
        ring.put(key, serial_group=key)
    ring.jobs.storage._refill()
    assert len(ring.jobs.held()) == 2
    ring.jobs.stop_waiting()
    assert ring.jobs.storage.dequeue() is None
    assert ring.jobs.held() == []
    assert ring.jobs.groups.closed()[0] == set()


# --- Shares ---


def test_the_many_of_a_full_host_hide_nobody_elses(ring: Ring) -> None:
    ring.jobs.shares = FairShareLimiter(6)
    for number in range(60):
        ring.write(
            lambda tx, n=number: ring.jobs.put(tx, "publish", f"a-{n:02}", ring.clock.ms, f"{n}", ShareKey("a", "x"))
        )
    ring.write(lambda tx: ring.jobs.put(tx, "publish", "b", ring.clock.ms, "b", ShareKey("b", "y")))
    first = ring.claim(6)
    assert [claim.share for claim in first] == [ShareKey("a", "x")] * 4
    assert [claim.key for claim in ring.claim(6)] == ["b"]
    ring.jobs.leave(first[0])
    assert ring.claim(6)[0].key == "a-04"


def test_of_a_silent_host_only_what_must_be_looked_at_is_claimed(ring: Ring) -> None:
    narrow = {"a": 0}
    ring.jobs.shares = FairShareLimiter(6, lambda: narrow)
    for key in ("looked", "waits"):
        ring.write(lambda tx, key=key: ring.jobs.put(tx, "publish", key, ring.clock.ms, key, ShareKey("a")))
    ring.jobs.anyway = lambda: ["looked"]
    assert [claim.key for claim in ring.claim()] == ["looked"]
    assert ring.claim() == []
    narrow.clear()
    assert [claim.key for claim in ring.claim()] == ["waits"]
