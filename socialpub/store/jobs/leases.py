"""Durable jobs as leases: rows that are changed inside the caller's transaction.

A job (kind, key) only names a row to process. `visible_at` is both schedule and lease: claiming moves it ahead and
increments `claims`, finishing deletes the row, and a result counts only while `claims` still has the claimed value.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import peewee

from socialpub.base.concurrency.fair_executor import NO_SHARE_KEY, FairShareLimiter, ShareKey
from socialpub.base.runtime import Clock
from socialpub.store.database import BaseModel, Database, Tx
from socialpub.store.engine import sql
from socialpub.store.jobs.serial_groups import SerialGroups
from socialpub.store.jobs.worker_slots import SLEEP_SECONDS_MAX, WakeupEvent, WorkerSlots
from socialpub.store.queries import acceptance, due_jobs, job_leases, maintenance

LEASE_MS = 60_000
PROBE_SECONDS = 0.5  # between checks of an upstream that another thread is probing
DEFAULT_SLOTS = 32


class Job(BaseModel):
    key = peewee.TextField(primary_key=True)
    kind = peewee.TextField()
    serial_group = peewee.TextField()  # its jobs run one at a time; "" is none
    visible_at = peewee.BigIntegerField()
    claims = peewee.IntegerField(default=0)
    epoch = peewee.IntegerField(null=True)  # the server run that holds the lease; null: free
    host = peewee.TextField(default="")  # the upstream that the job calls; "" is none
    owner = peewee.TextField(default="")  # the job's organization; "" is none

    class Meta:
        table_name = "job"
        indexes = ((("kind", "visible_at", "key", "serial_group", "host", "owner"), False),)


Job.add_index(Job.index(Job.epoch, name="job_leased").where(peewee.SQL("epoch IS NOT NULL")))


class JobSpec(NamedTuple):
    """A new job: key, serial group, upstream and organization."""

    key: str
    serial_group: str
    host: str
    owner: str


@dataclass(frozen=True)
class Claim:
    """The right to process a job, valid while the row has this number of `claims`."""

    key: str
    claims: int
    serial_group: str = ""
    share: ShareKey = NO_SHARE_KEY
    anyway: bool = False  # it may run although its upstream does not respond
    kind: str = ""  # whose slot it takes; "" takes none
    due_at: int | None = field(default=None, compare=False)  # when it was due, if its kind has such times


DueTimesReader = Callable[[Sequence[str]], Mapping[str, int | None]]
"""Returns when the jobs with these keys were due; called inside a read."""


class JobLeases:
    """The leases.

    `put`, `remove`, `finish` and `reschedule` run inside a transaction; workers call `due` and `claim`.
    """

    def __init__(self, database: Database, clock: Clock, shares: FairShareLimiter | None = None) -> None:
        self.database, self.clock = database, clock
        self.shares = shares or FairShareLimiter(DEFAULT_SLOTS)
        self.next_try: Callable[[], float | None] = lambda: None  # seconds until an open circuit breaker may be probed
        self.anyway: Callable[[], Any] | None = None  # a query of keys that may run although their host is silent
        self.slots, self.groups, self.wakeup = WorkerSlots(), SerialGroups(clock, self._on_release), WakeupEvent()
        self.epoch = 0
        self.paused: Callable[[], tuple[str, ...]] = tuple  # kinds that are not claimed now
        self.kinds: list[str] = []
        self._times: dict[str, DueTimesReader] = {}
        self._held: dict[str, Claim] = {}
        self._dropped = threading.Condition()
        self._is_slot_wanted = True  # a due job may be waiting for a slot

    def reserve(self, kind: str, slots: int, times: DueTimesReader | None = None) -> None:
        """Claim jobs of a kind from now on, at most `slots` at once.

        Kinds are claimed in the order of their reservation.
        """
        self.slots.reserve(kind, slots)
        if times is not None:
            self._times[kind] = times
        if kind not in self.kinds:
            self.kinds.append(kind)

    # --- Inside a transaction ---

    def put(
        self, tx: Tx, kind: str, key: str, at_ms: int, serial_group: str = "", share: ShareKey = NO_SHARE_KEY
    ) -> None:
        """Add a job, or replace the one with this key, whose claims become invalid."""
        row = {"kind": kind, "serial_group": serial_group, "visible_at": at_ms, "epoch": None, **share._asdict()}
        Job.insert(key=key, **row).on_conflict(
            conflict_target=[Job.key], update={**row, "claims": Job.claims + 1}
        ).execute()
        tx.after_commit(lambda: self._wake_for(at_ms))

    def put_new(self, tx: Tx, kind: str, specs: Sequence[tuple[JobSpec, int]]) -> None:
        """Add jobs with new keys, each with its time."""
        sql.insert(acceptance.INSERT_JOBS, [(*spec, at_ms) for spec, at_ms in specs], (kind, 0, None))
        first = min(at_ms for _, at_ms in specs)
        tx.after_commit(lambda: self._wake_for(first))

    def put_held(self, tx: Tx, kind: str, specs: Sequence[JobSpec]) -> list[Claim]:
        """Add jobs with new keys that this process is already running, and return their claims."""
        until = self.clock.now_ms() + LEASE_MS
        sql.insert(acceptance.INSERT_JOBS, [(*spec, until) for spec in specs], (kind, 1, self.epoch))
        claims = [Claim(spec.key, 1, spec.serial_group, ShareKey(spec.host, spec.owner)) for spec in specs]
        tx.after_commit(lambda: self.hold_all(claims))
        return claims

    def remove(self, tx: Tx, key: str) -> bool:
        """Delete a job; return whether there was one."""
        return bool(Job.delete().where(Job.key == key).execute())

    def owns(self, claim: Claim) -> bool:
        """Return whether the claim is still valid, inside the transaction that writes a result."""
        return sql.fetch_one(job_leases.IS_CLAIM_VALID, (claim.key, claim.claims)) is not None

    def finish(self, tx: Tx, claim: Claim) -> bool:
        """Delete a claimed job; return False if the claim was lost."""
        return self.finish_all(tx, [claim])

    def finish_all(self, tx: Tx, claims: Sequence[Claim]) -> bool:
        """Delete claimed jobs; return False if any claim was lost."""
        tx.after_commit(lambda: self.drop_all(claims))
        return sql.update_all(job_leases.DELETE_CLAIMED, [(claim.key, claim.claims) for claim in claims]) == len(claims)

    def reschedule(self, tx: Tx, claim: Claim, at_ms: int) -> bool:
        """Release a claimed job and schedule it for `at_ms`; return False if the claim was lost."""
        tx.after_commit(lambda: self._on_reschedule(claim, at_ms))
        return bool(sql.update(job_leases.RELEASE_CLAIM, (at_ms, claim.key, claim.claims)))

    def hasten(self, tx: Tx, keys: Any, now_ms: int) -> None:
        """Make the jobs with these keys due now, except running ones."""
        Job.update(visible_at=now_ms).where(Job.key.in_(keys), Job.epoch.is_null(), Job.visible_at > now_ms).execute()
        tx.after_commit(self.wakeup.wake)

    def free_all(self, tx: Tx, now_ms: int) -> int:
        """Free every lease; only for the process that has just become the server of the file."""
        tx.after_commit(self.wakeup.wake)
        return sql.update(maintenance.RELEASE_LEASES, (now_ms,))

    # --- Holding ---

    def hold_all(self, claims: Iterable[Claim]) -> None:
        with self._dropped:
            self._held.update((claim.key, claim) for claim in claims)

    def drop(self, claim: Claim) -> None:
        self.drop_all([claim])

    def drop_all(self, claims: Iterable[Claim]) -> None:
        with self._dropped:
            for claim in claims:
                if self._held.get(claim.key) == claim:
                    del self._held[claim.key]
            self._dropped.notify_all()

    @property
    def is_busy(self) -> bool:
        """True if any job is running; does not block."""
        return bool(self._held)

    def held(self) -> list[Claim]:
        with self._dropped:
            return list(self._held.values())

    def wait_until_idle(self, seconds: float) -> bool:
        """Wait until no job is running; return False if one still is after `seconds`."""
        with self._dropped:
            return self._dropped.wait_for(lambda: not self._held, max(0.0, seconds))

    def renew(self) -> None:
        """Extend all leases, and expire waiters of serial groups; called regularly by one thread."""
        self.groups.expire_waiters()
        keys = [claim.key for claim in self.held()]
        if keys:
            arguments = (self.clock.now_ms() + LEASE_MS, sql.dump_json(keys), self.epoch)
            self.database.write(lambda tx: sql.update(due_jobs.RENEW_LEASES, arguments)).result()

    def _on_reschedule(self, claim: Claim, at_ms: int) -> None:
        self.drop(claim)
        self._wake_for(at_ms)

    def _wake_for(self, at_ms: int) -> None:
        """Wake the waiting worker if the job is due before it wakes up by itself.

        A job that is due now wakes it in any case: the clock may have been set since.
        """
        if at_ms <= self.clock.now_ms():
            self.wakeup.wake()
        else:
            self.wakeup.wake_for(at_ms)

    # --- Claiming ---

    def due(self, limit: int) -> tuple[list[Claim], float]:
        """Return claimable jobs, or the seconds to wait if there are none.

        At most one job per serial group. Of each kind, in the order of registration, the first due jobs: no more than
        it has free slots, and none whose upstream or organization has used up its share.
        """
        self._is_slot_wanted = True  # from now on a freed slot wakes the worker
        now, (closed, rest), paused = self.clock.now_ms(), self.groups.closed(), self.paused()
        free = {kind: self.slots.free(kind) for kind in self.kinds if kind not in paused}
        free_slots = {kind: min(slots, limit) for kind, slots in free.items() if slots}
        due, (self._is_slot_wanted, later) = self.database.read(self._build_read(now, free_slots, closed)).result()
        if due:
            return _keep_first_of_group(due)[:limit], 0
        probe_wait = self.next_try()
        rest = rest if probe_wait is None else min(rest, max(probe_wait, PROBE_SECONDS))
        wait = SLEEP_SECONDS_MAX if later is None else (later - now) / 1000
        return [], min(wait, rest, SLEEP_SECONDS_MAX)

    def wait(self, seconds: float) -> None:
        """Wait `seconds`, or until a job is put that is due sooner, or a slot is freed."""
        self.wakeup.wait(seconds, self.clock.now_ms() + seconds * 1000)

    def _on_release(self) -> None:
        if self._is_slot_wanted:
            self.wakeup.wake()

    def _build_read(self, now: int, free_slots: Mapping[str, int], closed: Collection[str]) -> Callable[[], _DueJobs]:
        """Return a read of the due jobs of each kind, or else of the next due time."""
        full, kinds, held = self.shares.get_saturated(), sql.dump_json(self.kinds), {claim.key for claim in self.held()}
        silent = [host for host, limit in self.shares.host_limits().items() if not limit]
        exclusions = _ClaimExclusions(closed, held, full.hosts, full.owners)

        def read() -> _DueJobs:
            due = self._find_probes(now, free_slots, silent, exclusions) if silent and self.anyway else []
            for kind, limit in free_slots.items():
                due += self._add_due_times(kind, _keep_first_of_group(exclusions.due(kind, now, limit * 4))[:limit])
            if due:
                return due, (True, None)
            is_due, later = sql.fetch_one(due_jobs.FIND_NEXT_DUE, (kinds, now))
            return [], (bool(is_due), later)

        return read

    def _add_due_times(self, kind: str, claims: list[Claim]) -> list[Claim]:
        """Add the times at which the jobs were due."""
        if not claims or kind not in self._times:
            return claims
        times = self._times[kind]([claim.key for claim in claims])
        return [replace(claim, due_at=times.get(claim.key)) for claim in claims]

    def _find_probes(
        self, now: int, free_slots: Mapping[str, int], silent: list[str], exclusions: _ClaimExclusions
    ) -> list[Claim]:
        """Return the due jobs that may run although their host does not respond."""
        assert self.anyway, "checked by the caller"
        query = Job.select(*_CLAIM_COLUMNS).where(Job.kind.in_(list(free_slots)), Job.visible_at <= now)
        query = query.where(Job.host.in_(silent), Job.key.in_(self.anyway()))
        for column, values in (
            ("serial_group", exclusions.groups),
            ("key", exclusions.keys),
            ("owner", exclusions.owners),
        ):
            query = query.where(getattr(Job, column).not_in(sorted(values)))
        rows = query.order_by(Job.visible_at, Job.key).limit(max(free_slots.values(), default=0)).tuples()
        due = [_to_claim(kind, row, anyway=True) for kind, *row in rows]
        return [
            claim
            for kind in free_slots
            for claim in self._add_due_times(kind, [each for each in due if each.kind == kind])
        ]

    def claim(self, wanted: Iterable[Claim]) -> list[Claim]:
        """Claim the jobs that are still free. Each claim has its slots taken and its lease held."""
        entered = [claim for claim in wanted if self._enter(claim)]
        now, epoch = self.clock.now_ms(), self.epoch
        claimed: list[Claim] = []
        try:
            claimed = self.database.write(lambda tx: _claim_jobs(entered, now, epoch)).result() if entered else []
        finally:
            claimed_keys = {claim.key for claim in claimed}
            for claim in entered:
                if claim.key not in claimed_keys:
                    self._give_back(claim)
        self.hold_all(claimed)
        return claimed

    def leave(self, claim: Claim, rest_seconds: float = 0) -> None:
        """Release the serial group, slot and share of a job; wake the worker if it waits for one."""
        self._give_back(claim, rest_seconds)
        self._on_release()

    def _give_back(self, claim: Claim, rest_seconds: float = 0) -> None:
        self.slots.leave(claim.kind)
        if claim.share != NO_SHARE_KEY:
            self.shares.leave(claim.share)
        self.groups.give_back(claim.serial_group, rest_seconds)

    def _enter(self, claim: Claim) -> bool:
        if not self.groups.try_enter(claim.serial_group):
            return False
        if self.slots.try_enter(claim.kind):
            if claim.share == NO_SHARE_KEY or self.shares.try_enter(claim.share, anyway=claim.anyway):
                return True
            self.slots.leave(claim.kind)
        self.groups.give_back(claim.serial_group)
        return False


_CLAIM_COLUMNS = (Job.kind, Job.key, Job.claims, Job.serial_group, Job.host, Job.owner)
_DueJobs = tuple[list[Claim], tuple[bool, int | None]]


@dataclass(frozen=True)
class _ClaimExclusions:
    """Due jobs that must not be claimed now."""

    groups: Collection[str]
    keys: Collection[str]
    hosts: Collection[str]
    owners: Collection[str]

    def due(self, kind: str, now: int, limit: int) -> list[Claim]:
        """Return the first due jobs of a kind."""
        count, due = self._query(kind, now, (), (), limit)
        if len(due) < count == limit:  # many jobs of one account are due, or the clock was set
            due = self._query(kind, now, self.groups, self.keys, limit)[1]
        return due

    def _query(
        self, kind: str, now: int, groups: Collection[str], keys: Collection[str], limit: int
    ) -> tuple[int, list[Claim]]:
        """Return how many jobs the statement returned, and those of them that may be claimed."""
        exclusions = [sql.dump_json(list(values)) for values in (groups, keys, self.hosts, self.owners)]
        due = [
            _to_claim(kind, row)
            for row in sql.load_json(sql.fetch_value(due_jobs.FIND_DUE, (kind, now, *exclusions, limit)))
        ]
        return len(due), [each for each in due if each.serial_group not in self.groups and each.key not in self.keys]


def _to_claim(kind: str, row: Sequence[Any], *, anyway: bool = False) -> Claim:
    key, claims, serial_group, host, owner = row
    return Claim(key, claims, serial_group, ShareKey(host, owner), anyway, kind)


def _keep_first_of_group(claims: list[Claim]) -> list[Claim]:
    seen: set[str] = set()
    first = []
    for claim in claims:
        if not claim.serial_group or claim.serial_group not in seen:
            seen.add(claim.serial_group)
            first.append(claim)
    return first


def _claim_jobs(wanted: list[Claim], now: int, epoch: int) -> list[Claim]:
    """Claim many jobs in two statements."""
    seen = sql.dump_json([(claim.key, claim.claims) for claim in wanted])
    keys: str = sql.fetch_value(due_jobs.FIND_CLAIMABLE, (seen, now))
    sql.update(due_jobs.CLAIM, (now + LEASE_MS, epoch, keys))
    free = set(sql.load_json(keys))
    return [replace(claim, claims=claim.claims + 1) for claim in wanted if claim.key in free]
