"""An immediate batch: begun in the transaction that accepts it, then sent, one after the other on each account.

A target whose account nobody publishes to is inserted as claimed, and what it sends written down where that is known
without asking anybody, by the transaction that accepts it: that is one commit and two hand-overs less than a claim of
its own, and a change of the row less. Only where there is a place for it at once: between the commit and the send
nobody knows whether it went out, and nothing may wait there.
"""

from __future__ import annotations

import functools
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from socialpub.base.fair import Leave, Share
from socialpub.domain.core import upstreams
from socialpub.domain.core.service import Service
from socialpub.domain.media import library
from socialpub.domain.publishing import run, sending
from socialpub.domain.publishing.intents import Snapshot
from socialpub.domain.publishing.records import Inserted
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


def take(
    service: Service,
    tx: Tx,
    accepted: Sequence[tuple[Beginning, Sequence[Claim]]],
    inserted: Mapping[str, Inserted],
) -> None:
    """In the transaction that has inserted batches: take what begins of them; after the commit everything does.

    `accepted`: of each batch its beginning, and the claims of its posts. `inserted`: the posts that begin.
    """
    begun = [claim for _, claims in accepted for claim in claims if claim.key in inserted]
    snapshots = run.take(service, tx, begun, inserted) if begun else []
    taken = {claim.key: snapshot for claim, snapshot in zip(begun, snapshots, strict=True)}
    for beginning, claims in accepted:
        theirs = {claim.key: taken[claim.key] for claim in claims if claim.key in taken}
        tx.after_commit(functools.partial(beginning.begin, claims, theirs))


class Targets:
    """The targets of one account in an immediate batch, one after the other.

    No thread waits for its turn, nor for what the writer does meanwhile: each step is begun by whoever ends the one
    before it. `leave`: gives the place in the pool back, once the last is over.
    """

    def __init__(self, service: Service, fetched: library.Fetched, claims: Sequence[Claim], taken: Taken) -> None:
        self._service, self._fetched, self._claims, self._taken = service, fetched, deque(claims), taken
        self._leave: Leave = _stay

    def begin(self, leave: Leave) -> None:
        """There is a place for it."""
        self._leave = leave
        self._next()

    def _next(self) -> None:
        """The next one, in whatever thread the one before it has ended."""
        if not self._claims:
            self._leave()
            return
        claim = self._claims.popleft()
        if claim.key in self._taken:
            self._go_on(claim, self._taken[claim.key])
        else:
            self._service.jobs.lanes.when_free(claim.lane, LANE_SECONDS, functools.partial(self._enter, claim))

    def _enter(self, claim: Claim, is_free: bool) -> None:
        """It is this target's turn on the account, or has not been for long: then its job rings later."""
        if is_free:
            took = self._service.write_together(run.take_together, (self._service, claim))
            took.add_done_callback(functools.partial(self._took, claim))
            return
        given = self._service.write(lambda tx: self._service.jobs.again(tx, claim, self._service.now_ms))
        given.add_done_callback(functools.partial(self._given_back, claim))

    def _took(self, claim: Claim, took: Future[Snapshot | None]) -> None:
        error = took.exception()
        if error is None:
            self._go_on(claim, took.result())
        else:  # the lease brings the post back
            log.error("post %s could not be taken to be published: %s", claim.key, error)
            self._over(claim)

    def _go_on(self, claim: Claim, snapshot: Snapshot | None) -> None:
        if snapshot is None:
            self._over(claim)
            return
        service, over = self._service, functools.partial(self._over, claim)
        sending.go_on(service, self._fetched, snapshot, over)

    def _over(self, claim: Claim, sent: bool = False) -> None:
        """Nothing of it is left to do."""
        self._service.jobs.lanes.leave(claim.lane)
        self._service.jobs.drop(claim)
        self._next()

    def _given_back(self, claim: Claim, given: Future[None]) -> None:
        if (error := given.exception()) is not None:  # the lease brings the post back
            log.error("post %s could not be given back: %s", claim.key, error)
        self._service.jobs.drop(claim)
        self._next()


def _stay() -> None:
    """There is no place yet that could be left."""
