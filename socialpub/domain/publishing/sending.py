"""Who does the work on a post: a fiber where one send is all, else a thread of the crew; and nobody while rows are
written."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable

from socialpub.base.crew import Starts
from socialpub.base.fair import working_for
from socialpub.domain.core.service import Service
from socialpub.domain.media import library
from socialpub.domain.publishing import run
from socialpub.domain.publishing.intents import Snapshot
from socialpub.store.db import Promise
from socialpub.store.queue import Claim

log = logging.getLogger("socialpub.publish")

AGAIN_MS = 30_000
Work = Callable[[], None]
Over = Callable[[bool], None]
"""Told once nothing of a run is left to do, and whether something public was called; in whatever thread.

It must be short and must not raise.
"""


def begin(service: Service, fetched: library.Fetched, claim: Claim, starts: Starts, over: Over) -> None:
    """Publish a post that is due and claimed.

    The calling thread waits only to be let in: so many of a burst are taken and not yet sent, for between the commit
    and the send nobody knows whether it went out.
    """
    is_in, before = starts.enter(), working_for.set(claim.share)
    try:
        took = service.write_together(run.take_together, (service, claim))
    finally:
        working_for.reset(before)
    took.when_over(functools.partial(_took, service, fetched, claim, starts if is_in else None, over, took))


def _took(
    service: Service,
    fetched: library.Fetched,
    claim: Claim,
    starts: Starts | None,
    over: Over,
    took: Promise[Snapshot | None],
    error: BaseException | None,
) -> None:
    """`starts`: where it was let in."""
    snapshot = None
    if error is None:
        snapshot = took.result()
    else:
        log.error("post %s could not be taken to be published: %s", claim.key, error)
        ring_again(service, claim)
    if snapshot is None:
        if starts is not None:
            starts.leave()
        over(False)
        return
    go_on(service, fetched, snapshot, over, service.crew.run, starts)


def go_on(
    service: Service,
    fetched: library.Fetched,
    snapshot: Snapshot,
    over: Over,
    let_in: Callable[[Work], None],
    starts: Starts | None = None,
) -> None:
    """Go on with a post that was taken, once that is committed. `let_in`: has a thread do what takes one; `starts`: it
    was let in there."""
    is_light = run.is_light(service, snapshot)
    hand = service.fibers.run if is_light else let_in
    work = functools.partial(_send if is_light else _run, service, fetched, snapshot, over)
    try:
        hand(work if starts is None else functools.partial(starts.inside, work))
    except RuntimeError:  # no thread to be had: the lease brings the post back
        log.exception("post %s could not be published now; it follows within a minute", snapshot.claim.key)
        if starts is not None:
            starts.leave()
        over(False)


def _send(service: Service, fetched: library.Fetched, snapshot: Snapshot, over: Over) -> None:
    """In a fiber."""
    working_for.set(snapshot.claim.share)
    run.send(service, fetched, snapshot, functools.partial(over, True))


def _run(service: Service, fetched: library.Fetched, snapshot: Snapshot, over: Over) -> None:
    """In a thread."""
    working_for.set(snapshot.claim.share)
    went = run.Went()
    try:
        went = run.go_on(service, fetched, snapshot, functools.partial(over, True))
    except Exception:  # noqa: BLE001 - a thread of the crew has no caller
        log.exception("publishing post %s stopped", snapshot.claim.key)
        ring_again(service, snapshot.claim)
    finally:
        if went.is_over:
            over(went.sent)


def ring_again(service: Service, claim: Claim) -> None:
    """A run that failed is tried once more, as its rows say."""
    service.write(lambda tx: service.jobs.again(tx, claim, service.now_ms + AGAIN_MS))
