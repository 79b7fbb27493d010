"""An immediate batch: begun in the transaction that accepts it, then sent by a thread for each of its accounts.

A target whose account nobody publishes to is inserted as claimed, and what it sends written down where that is known
without asking anybody, by the transaction that accepts it: that is one commit and two hand-overs less than a claim of
its own, and a change of the row less. Only
where a thread is there for it at once: between the commit and the send nobody knows whether it went out, and nothing
may wait there.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from socialpub.base import crew
from socialpub.base.fair import Share
from socialpub.domain.core import upstreams
from socialpub.domain.core.service import Service
from socialpub.domain.media import library
from socialpub.domain.publishing import run
from socialpub.domain.publishing.intents import Snapshot
from socialpub.store.db import Tx
from socialpub.store.queue import Claim, Work

log = logging.getLogger("socialpub.publish")

LANE_SECONDS = 120.0

Taken = Mapping[str, Snapshot | None]
"""What was taken with the acceptance, by its post; None where that was its end. Each is the first of a held lane."""
Begin = Callable[[Sequence[Claim], Taken], None]
"""Has the targets of an immediate batch published. It must be short and must not raise: the writer calls it."""


@dataclass
class Beginning:
    """The targets of a batch that begin with its acceptance: their lanes are held from now on.

    They are left at the end of the run, or by `leave` where nothing was accepted.
    """

    service: Service
    begin: Begin
    nonces: dict[str, int] = field(default_factory=dict)
    """What is minted for each post that begins: the first of each lane that is held."""
    _held: set[str] = field(default_factory=set)

    def hold(self, works: Sequence[Work]) -> None:
        """Hold what lanes are free, where all can begin at once."""
        shares = [Share(work.host, work.owner) for work in works]
        pools = {upstreams.threads(self.service, share) for share in shares}
        if all(pool.has_room(len(works)) for pool in pools):
            lanes = dict.fromkeys(work.lane for work in works)
            self._held = {lane for lane in lanes if self.service.jobs.lanes.try_enter(lane, rested=True)}
        first = {work.lane: work.key for work in reversed(works) if work.lane in self._held}
        self.nonces = {key: run.new_nonce(self.service) for key in first.values()}

    def leave(self) -> None:
        """Nothing was accepted."""
        for lane in self._held:
            self.service.jobs.lanes.leave(lane)


def take(service: Service, tx: Tx, accepted: Sequence[tuple[Beginning, Sequence[Claim]]]) -> None:
    """In the transaction that has inserted batches: take what begins of them; after the commit everything does.

    `accepted`: of each batch its beginning, and the claims of its posts.
    """
    begun = [claim for beginning, claims in accepted for claim in claims if claim.key in beginning.nonces]
    snapshots = run.take(service, tx, begun, begun=True) if begun else []
    taken = {claim.key: snapshot for claim, snapshot in zip(begun, snapshots, strict=True)}
    for beginning, claims in accepted:
        theirs = {claim.key: taken[claim.key] for claim in claims if claim.key in taken}
        tx.after_commit(functools.partial(beginning.begin, claims, theirs))


def run_lane(service: Service, fetched: library.Fetched, claims: Sequence[Claim], taken: Taken) -> None:
    """The targets of one account in an immediate batch, one after the other."""
    for claim in claims:
        if claim.key in taken or _entered(service, claim.lane):
            _run(service, fetched, claim, taken, is_last=claim is claims[-1])
        else:
            _give_back(service, claim)


def _run(service: Service, fetched: library.Fetched, claim: Claim, taken: Taken, *, is_last: bool) -> None:
    """One of them, on whose lane it is this thread's turn. The last is left before its result is on the disk."""
    over, is_over = functools.partial(_over, service, claim), True
    try:
        is_over = _went(service, fetched, claim, taken, over if is_last else None).is_over
    except Exception:  # noqa: BLE001 - a thread of the pool has no caller; the lease brings the post back
        log.exception("publishing post %s stopped", claim.key)
    finally:
        if is_over:
            over()


def _over(service: Service, claim: Claim) -> None:
    service.jobs.lanes.leave(claim.lane)
    service.jobs.drop(claim)


def _went(
    service: Service, fetched: library.Fetched, claim: Claim, taken: Taken, over: Callable[[], None] | None
) -> run.Went:
    if claim.key not in taken:
        return run.run(service, fetched, claim, over)
    snapshot = taken[claim.key]
    return run.go_on(service, fetched, snapshot, over) if snapshot else run.Went()


def _entered(service: Service, lane: str) -> bool:
    """Whether it is this thread's turn on the account; in that time."""
    lanes = service.jobs.lanes
    if lanes.try_enter(lane, rested=True):
        return True
    crew.waits()
    return lanes.enter(lane, LANE_SECONDS)


def _give_back(service: Service, claim: Claim) -> None:
    try:
        service.write(lambda tx: service.jobs.again(tx, claim, service.now_ms)).result()
    except Exception:  # noqa: BLE001 - as above
        log.exception("post %s could not be given back", claim.key)
    finally:
        service.jobs.drop(claim)
