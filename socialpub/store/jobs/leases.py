"""One table of leased jobs, changed inside the caller's transaction.

A job is a doorbell: (kind, key) says "look at this row". `visible_at` is schedule and lease at once: claiming moves it
ahead and counts `claims` up, finishing deletes the row, and a result only counts while `claims` is still the claimed
one.
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
PROBE_SECONDS = 0.5  # between looks for a host that may be tried, and that somebody else is trying
DEFAULT_SLOTS = 32


class Job(BaseModel):
    key = peewee.TextField(primary_key=True)
    kind = peewee.TextField()
    lane = peewee.TextField()  # jobs of one lane run one after the other; "" is no lane
    visible_at = peewee.BigIntegerField()
    claims = peewee.IntegerField(default=0)
    epoch = peewee.IntegerField(null=True)  # of the server that holds the lease; null: free
    host = peewee.TextField(default="")  # the upstream that it calls; "" is none
    owner = peewee.TextField(default="")  # the organization whose it is; "" is none

    class Meta:
        table_name = "job"
        indexes = ((("kind", "visible_at", "key", "lane", "host", "owner"), False),)


Job.add_index(Job.index(Job.epoch, name="job_leased").where(peewee.SQL("epoch IS NOT NULL")))


class JobSpec(NamedTuple):
    """A job to be put: its key, its lane, and whose share it takes."""

    key: str
    lane: str
    host: str
    owner: str


@dataclass(frozen=True)
class Claim:
    """The right to work on a job, for as long as its `claims` stands in the table."""

    key: str
    claims: int
    lane: str = ""
    share: ShareKey = NO_SHARE_KEY
    anyway: bool = False  # it is looked at although its upstream does not answer
    kind: str = ""  # whose place it takes; "" takes none
    due_at: int | None = field(default=None, compare=False)  # when it was to be done, where its kind tells


DueTimesReader = Callable[[Sequence[str]], Mapping[str, int | None]]
"""When the jobs with these keys were to be done; inside a read."""


class JobLeases:
    """`put`, `remove`, `finish` and `again` inside a transaction; `due` and `claim` for who answers."""

    def __init__(self, database: Database, clock: Clock, shares: FairShareLimiter | None = None) -> None:
        self.database, self.clock = database, clock
        self.shares = shares or FairShareLimiter(DEFAULT_SLOTS)
        self.next_try: Callable[[], float | None] = lambda: None  # seconds until a narrow host may take something
        self.anyway: Callable[[], Any] | None = None  # a query of the keys that are looked at whatever their host does
        self.places, self.lanes, self.bell = WorkerSlots(), SerialGroups(clock, self._left), WakeupEvent()
        self.epoch = 0
        self.paused: Callable[[], tuple[str, ...]] = tuple  # kinds that are not claimed for now
        self.kinds: list[str] = []
        self._times: dict[str, DueTimesReader] = {}
        self._held: dict[str, Claim] = {}
        self._dropped = threading.Condition()
        self._wanted = True  # something is due, or may be, that found no place

    def reserve(self, kind: str, places: int, times: DueTimesReader | None = None) -> None:
        """Claim jobs of a kind from now on, so many at once; kinds are looked at in the order of their reservation."""
        self.places.reserve(kind, places)
        if times is not None:
            self._times[kind] = times
        if kind not in self.kinds:
            self.kinds.append(kind)

    # --- Inside a transaction ---

    def put(self, tx: Tx, kind: str, key: str, at_ms: int, lane: str = "", share: ShareKey = NO_SHARE_KEY) -> None:
        """Add a job, or replace the one with this key: whoever held it holds it no more."""
        row = {"kind": kind, "lane": lane, "visible_at": at_ms, "epoch": None, **share._asdict()}
        Job.insert(key=key, **row).on_conflict(
            conflict_target=[Job.key], update={**row, "claims": Job.claims + 1}
        ).execute()
        tx.after_commit(lambda: self._ring_for(at_ms))

    def put_new(self, tx: Tx, kind: str, works: Sequence[tuple[JobSpec, int]]) -> None:
        """Add jobs whose keys are new, each with its time."""
        sql.insert(acceptance.INSERT_JOBS, [(*work, at_ms) for work, at_ms in works], (kind, 0, None))
        first = min(at_ms for _, at_ms in works)
        tx.after_commit(lambda: self._ring_for(first))

    def put_held(self, tx: Tx, kind: str, works: Sequence[JobSpec]) -> list[Claim]:
        """Add jobs whose keys are new, and that this process is already working on."""
        until = self.clock.now_ms() + LEASE_MS
        sql.insert(acceptance.INSERT_JOBS, [(*work, until) for work in works], (kind, 1, self.epoch))
        claims = [Claim(work.key, 1, work.lane, ShareKey(work.host, work.owner)) for work in works]
        tx.after_commit(lambda: self.hold_all(claims))
        return claims

    def remove(self, tx: Tx, key: str) -> bool:
        """Take a job away; whether there was one."""
        return bool(Job.delete().where(Job.key == key).execute())

    def owns(self, claim: Claim) -> bool:
        """Whether the claim still stands; inside the transaction that is about to write a result."""
        return sql.fetch_one(job_leases.IS_CLAIM_VALID, (claim.key, claim.claims)) is not None

    def finish(self, tx: Tx, claim: Claim) -> bool:
        """Delete a claimed job; False when the claim was lost."""
        return self.finish_all(tx, [claim])

    def finish_all(self, tx: Tx, claims: Sequence[Claim]) -> bool:
        """The same for several; False when any was lost."""
        tx.after_commit(lambda: self.drop_all(claims))
        return sql.update_all(job_leases.DELETE_CLAIMED, [(claim.key, claim.claims) for claim in claims]) == len(claims)

    def again(self, tx: Tx, claim: Claim, at_ms: int) -> bool:
        """Give a claimed job back, to ring again at `at_ms`; False when the claim was lost."""
        tx.after_commit(lambda: self._back(claim, at_ms))
        return bool(sql.update(job_leases.RELEASE_CLAIM, (at_ms, claim.key, claim.claims)))

    def hasten(self, tx: Tx, keys: Any, now_ms: int) -> None:
        """Make the jobs with these keys ring now, except those that somebody is working on."""
        Job.update(visible_at=now_ms).where(Job.key.in_(keys), Job.epoch.is_null(), Job.visible_at > now_ms).execute()
        tx.after_commit(self.bell.ring)

    def free_all(self, tx: Tx, now_ms: int) -> int:
        """Make every leased job visible: only for the process that has just become the one server of the file."""
        tx.after_commit(self.bell.ring)
        return sql.update(maintenance.RELEASE_LEASES, (now_ms,))

    # --- Holding ---

    def hold(self, claim: Claim) -> None:
        self.hold_all([claim])

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
    def busy(self) -> bool:
        """Whether anything is under way; asked by any thread, without waiting for one."""
        return bool(self._held)

    def held(self) -> list[Claim]:
        with self._dropped:
            return list(self._held.values())

    def until_none_held(self, seconds: float) -> bool:
        """Wait for what is under way; False when something still is after `seconds`."""
        with self._dropped:
            return self._dropped.wait_for(lambda: not self._held, max(0.0, seconds))

    def renew(self) -> None:
        """Move the leases of everything held ahead; called by one thread in each of its rounds."""
        self.lanes.tell_late()
        keys = [claim.key for claim in self.held()]
        if keys:
            given = (self.clock.now_ms() + LEASE_MS, sql.dump_json(keys), self.epoch)
            self.database.write(lambda tx: sql.update(due_jobs.RENEW_LEASES, given)).result()

    def _back(self, claim: Claim, at_ms: int) -> None:
        self.drop(claim)
        self._ring_for(at_ms)

    def _ring_for(self, at_ms: int) -> None:
        """Whoever waits began to before the clock was set, perhaps: what is due by now rings whatever they wait for."""
        if at_ms <= self.clock.now_ms():
            self.bell.ring()
        else:
            self.bell.ring_for(at_ms)

    # --- Claiming ---

    def due(self, limit: int) -> tuple[list[Claim], float]:
        """Claimable jobs, at most one a lane, and how long to wait when there are none.

        Of each kind, in the order of their registration, the first that are due: no more than it has free places, and
        none whose host or owner has its share already, however many they are.
        """
        self._wanted = True  # whoever leaves a place from now on rings
        now, (closed, rest), paused = self.clock.now_ms(), self.lanes.closed(), self.paused()
        free = {kind: self.places.free(kind) for kind in self.kinds if kind not in paused}
        room = {kind: min(places, limit) for kind, places in free.items() if places}
        found, (self._wanted, later) = self.database.read(self._looking(now, room, closed)).result()
        if found:
            return _keep_first_of_group(found)[:limit], 0
        again = self.next_try()
        rest = rest if again is None else min(rest, max(again, PROBE_SECONDS))
        wait = SLEEP_SECONDS_MAX if later is None else (later - now) / 1000
        return [], min(wait, rest, SLEEP_SECONDS_MAX)

    def wait(self, seconds: float) -> None:
        """Until a job may be due: `seconds`, or as soon as one is put that is due sooner, or a place is left."""
        self.bell.wait(seconds, self.clock.now_ms() + seconds * 1000)

    def _left(self) -> None:
        """A lane is free, or a place."""
        if self._wanted:
            self.bell.ring()

    def _looking(self, now: int, room: Mapping[str, int], closed: Collection[str]) -> Callable[[], _DueJobs]:
        """What reads the jobs that are due, so many of each kind, and when the next one is where there are none."""
        full, kinds, held = self.shares.full(), sql.dump_json(self.kinds), {claim.key for claim in self.held()}
        silent = [host for host, most in self.shares.narrow().items() if not most]
        but = _ClaimExclusions(closed, held, full.hosts, full.owners)

        def look() -> _DueJobs:
            found = self._looks(now, room, silent, but) if silent and self.anyway else []
            for kind, most in room.items():
                found += self._timed(kind, _keep_first_of_group(but.due(kind, now, most * 4))[:most])
            if found:
                return found, (True, None)
            due, later = sql.fetch_one(due_jobs.FIND_NEXT_DUE, (kinds, now))
            return found, (bool(due), later)

        return look

    def _timed(self, kind: str, claims: list[Claim]) -> list[Claim]:
        """The same, with when they were to be done."""
        if not claims or kind not in self._times:
            return claims
        times = self._times[kind]([claim.key for claim in claims])
        return [replace(claim, due_at=times.get(claim.key)) for claim in claims]

    def _looks(self, now: int, room: Mapping[str, int], silent: list[str], but: _ClaimExclusions) -> list[Claim]:
        """The jobs that are looked at although their host does not answer."""
        assert self.anyway, "the caller has seen it"
        query = Job.select(*_CLAIM_COLUMNS).where(Job.kind.in_(list(room)), Job.visible_at <= now)
        query = query.where(Job.host.in_(silent), Job.key.in_(self.anyway()))
        for column, values in (("lane", but.lanes), ("key", but.keys), ("owner", but.owners)):
            query = query.where(getattr(Job, column).not_in(sorted(values)))
        rows = query.order_by(Job.visible_at, Job.key).limit(max(room.values(), default=0)).tuples()
        found = [_to_claim(kind, row, anyway=True) for kind, *row in rows]
        return [claim for kind in room for claim in self._timed(kind, [each for each in found if each.kind == kind])]

    def claim(self, wanted: Iterable[Claim]) -> list[tuple[str, Claim]]:
        """Claim what can still be had: (kind, claim) each, its lane entered and its lease held."""
        entered = [claim for claim in wanted if self._enter(claim)]
        now, epoch = self.clock.now_ms(), self.epoch
        got: list[tuple[str, Claim]] = []
        try:
            got = self.database.write(lambda tx: _claim_jobs(entered, now, epoch)).result() if entered else []
        finally:
            kept = {claim.key for _, claim in got}
            for claim in entered:
                if claim.key not in kept:
                    self._give_back(claim)
        for _, claim in got:
            self.hold(claim)
        return got

    def leave(self, claim: Claim, rest_seconds: float = 0) -> None:
        """Give back what a claimed job took: its lane, which may rest, and its place; who waits for one is woken."""
        self._give_back(claim, rest_seconds)
        self._left()

    def _give_back(self, claim: Claim, rest_seconds: float = 0) -> None:
        self.places.leave(claim.kind)
        if claim.share != NO_SHARE_KEY:
            self.shares.leave(claim.share)
        self.lanes.give_back(claim.lane, rest_seconds)

    def _enter(self, claim: Claim) -> bool:
        if not self.lanes.try_enter(claim.lane):
            return False
        if self.places.try_enter(claim.kind):
            if claim.share == NO_SHARE_KEY or self.shares.try_enter(claim.share, anyway=claim.anyway):
                return True
            self.places.leave(claim.kind)
        self.lanes.give_back(claim.lane)
        return False


_CLAIM_COLUMNS = (Job.kind, Job.key, Job.claims, Job.lane, Job.host, Job.owner)
_DueJobs = tuple[list[Claim], tuple[bool, int | None]]


@dataclass(frozen=True)
class _ClaimExclusions:
    """What is not claimed now, though it may be due."""

    lanes: Collection[str]
    keys: Collection[str]
    hosts: Collection[str]
    owners: Collection[str]

    def due(self, kind: str, now: int, limit: int) -> list[Claim]:
        """The first due jobs of a kind."""
        given, found = self._asked(kind, now, (), (), limit)
        if len(found) < given == limit:  # many of one account are due, or the clock has jumped
            found = self._asked(kind, now, self.lanes, self.keys, limit)[1]
        return found

    def _asked(
        self, kind: str, now: int, lanes: Collection[str], keys: Collection[str], limit: int
    ) -> tuple[int, list[Claim]]:
        """How many jobs the statement has given, and those of them that may be claimed."""
        but = [sql.dump_json(list(values)) for values in (lanes, keys, self.hosts, self.owners)]
        found = [
            _to_claim(kind, row) for row in sql.load_json(sql.fetch_value(due_jobs.FIND_DUE, (kind, now, *but, limit)))
        ]
        return len(found), [each for each in found if each.lane not in self.lanes and each.key not in self.keys]


def _to_claim(kind: str, row: Sequence[Any], *, anyway: bool = False) -> Claim:
    key, claims, lane, host, owner = row
    return Claim(key, claims, lane, ShareKey(host, owner), anyway, kind)


def _keep_first_of_group(claims: list[Claim]) -> list[Claim]:
    seen: set[str] = set()
    first = []
    for claim in claims:
        if not claim.lane or claim.lane not in seen:
            seen.add(claim.lane)
            first.append(claim)
    return first


def _claim_jobs(wanted: list[Claim], now: int, epoch: int) -> list[tuple[str, Claim]]:
    """All of a burst at once, in two statements however many they are."""
    seen = sql.dump_json([(claim.key, claim.claims) for claim in wanted])
    kinds: dict[str, str] = sql.load_json(sql.fetch_value(due_jobs.FIND_CLAIMABLE, (seen, now)))
    sql.update(due_jobs.CLAIM, (now + LEASE_MS, epoch, sql.dump_json(list(kinds))))
    return [(kinds[claim.key], replace(claim, claims=claim.claims + 1)) for claim in wanted if claim.key in kinds]
