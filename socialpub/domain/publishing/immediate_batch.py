"""Immediate batches: started in the accepting transaction, then sent in order per account.

A target whose account is idle is inserted as claimed. If its plan is known without network calls, the same transaction
records it too, which saves a commit, two thread hand-overs and an UPDATE. Only done if a thread is free at once:
between commit and send the outcome is unknown, so nothing may wait there.
"""

from __future__ import annotations

import functools
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from socialpub.base.concurrency.fair_executor import ReleaseCallback, ShareKey
from socialpub.domain.context import upstreams
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.media import library
from socialpub.domain.publishing import dispatch, run, transactions
from socialpub.domain.publishing.intents import RunSnapshot
from socialpub.domain.publishing.transactions import InsertedPost
from socialpub.store.database import Tx
from socialpub.store.jobs.leases import Claim, JobSpec

log = logging.getLogger("socialpub.publish")

GROUP_WAIT_SECONDS = 120.0

ClaimedPosts = Mapping[str, RunSnapshot | None]
"""Posts claimed at acceptance; None for one that ended there. Each heads a serial group."""
StartBatch = Callable[[Sequence[Claim], ClaimedPosts], None]
"""Callback that publishes an immediate batch. The writer calls it: quick, must not raise."""


@dataclass
class ImmediateStart:
    """Targets that start with acceptance, whose serial groups are held from now on.

    Released at the end of the run, or by `release` if the batch is not accepted.
    """

    service: AppContext
    start: StartBatch
    nonces: dict[str, int] = field(default_factory=dict)
    """Nonce by post id, for the first post of each held serial group."""
    _groups: set[str] = field(default_factory=set)

    def acquire(self, jobs: Sequence[JobSpec]) -> None:
        """Acquire the free serial groups, if all posts can start at once."""
        shares = [ShareKey(work.host, work.owner) for work in jobs]
        pools = {upstreams.choose_executor(self.service, share) for share in shares}
        if all(pool.has_room(len(jobs)) for pool in pools):
            groups = dict.fromkeys(work.serial_group for work in jobs)
            self._groups = {group for group in groups if self.service.jobs.groups.try_enter(group, rested=True)}
        first = {work.serial_group: work.key for work in reversed(jobs) if work.serial_group in self._groups}
        self.nonces = {key: transactions.generate_nonce(self.service) for key in first.values()}

    def release(self) -> None:
        """Release the serial groups; the batch was not accepted."""
        for group in self._groups:
            self.service.jobs.groups.leave(group)


def claim_posts(
    service: AppContext,
    tx: Tx,
    accepted: Sequence[tuple[ImmediateStart, Sequence[Claim]]],
    inserted: Mapping[str, InsertedPost],
) -> None:
    """Claim the posts that start in this inserting transaction; publish all after the commit.

    `accepted`: the start and claims of each batch. `inserted`: posts inserted as claimed.
    """
    started = [claim for _, claims in accepted for claim in claims if claim.key in inserted]
    snapshots = run.claim_posts(service, tx, started, inserted) if started else []
    claimed = {claim.key: snapshot for claim, snapshot in zip(started, snapshots, strict=True)}
    for immediate, claims in accepted:
        own = {claim.key: claimed[claim.key] for claim in claims if claim.key in claimed}
        tx.after_commit(functools.partial(immediate.start, claims, own))


class AccountSequence:
    """Targets of one account in an immediate batch, published in order.

    No thread is blocked between steps: each step is started by the thread that ended the one before. `leave` returns
    the slot in the pool at the end.
    """

    def __init__(
        self, service: AppContext, fetched: library.BatchMediaCache, claims: Sequence[Claim], claimed: ClaimedPosts
    ) -> None:
        self._service, self._fetched, self._claims, self._claimed = service, fetched, deque(claims), claimed
        self._leave: ReleaseCallback = lambda: None  # no slot is held before `start`

    def start(self, leave: ReleaseCallback) -> None:
        """Start, once a slot is free."""
        self._leave = leave
        self._next()

    def _next(self) -> None:
        """Start the next target, in the thread that ended the previous one."""
        if not self._claims:
            self._leave()
            return
        claim = self._claims.popleft()
        if claim.key in self._claimed:
            self._execute(claim, self._claimed[claim.key])
        else:
            self._service.jobs.groups.when_free(
                claim.serial_group, GROUP_WAIT_SECONDS, functools.partial(self._claim_when_free, claim)
            )

    def _claim_when_free(self, claim: Claim, is_free: bool) -> None:
        """Claim the target when its group is free; after a timeout leave it to its job."""
        if is_free:
            claimed = self._service.write_together(run.claim_together, (self._service, claim))
            claimed.add_done_callback(functools.partial(self._handle_claim, claim))
            return
        returned = self._service.write(lambda tx: self._service.jobs.reschedule(tx, claim, self._service.now_ms))
        returned.add_done_callback(functools.partial(self._handle_returned, claim))

    def _handle_claim(self, claim: Claim, claimed: Future[RunSnapshot | None]) -> None:
        error = claimed.exception()
        if error is None:
            self._execute(claim, claimed.result())
        else:  # the post is resumed when its lease expires
            log.error("post %s could not be claimed, it is resumed when its lease expires: %s", claim.key, error)
            self._finish(claim)

    def _execute(self, claim: Claim, snapshot: RunSnapshot | None) -> None:
        if snapshot is None:
            self._finish(claim)
            return
        service, over = self._service, functools.partial(self._finish, claim)
        dispatch.start_claimed(service, self._fetched, snapshot, over)

    def _finish(self, claim: Claim, sent: bool = False) -> None:
        """Release the target's group and claim, and continue."""
        self._service.jobs.groups.leave(claim.serial_group)
        self._service.jobs.drop(claim)
        self._next()

    def _handle_returned(self, claim: Claim, returned: Future[None]) -> None:
        if (error := returned.exception()) is not None:  # the post is resumed when its lease expires
            log.error(
                "post %s could not be returned to its job, it is resumed when its lease expires: %s", claim.key, error
            )
        self._service.jobs.drop(claim)
        self._next()
