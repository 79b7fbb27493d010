"""Threads for posts: one while a post is executed, none while rows are written."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable

from socialpub.base.concurrency.fair_executor import current_share_key
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.media import library
from socialpub.domain.publishing import run
from socialpub.domain.publishing.intents import Snapshot
from socialpub.store.jobs.leases import Claim

log = logging.getLogger("socialpub.publish")

AGAIN_MS = 30_000
Over = Callable[[bool], None]
"""Callback after a run; the flag says if a public call was made. Quick, must not raise."""


def begin(service: AppContext, fetched: library.Fetched, claim: Claim, over: Over) -> None:
    """Publish a due, claimed post in a thread of the executor.

    The claiming thread also sends: between an intent's commit and its send no post may wait for a thread, because until
    then its outcome is unknown.
    """

    def work() -> None:
        current_share_key.set(claim.share)
        try:
            snapshot = service.write_together(run.take_together, (service, claim)).result()
        except Exception as error:  # noqa: BLE001 - a pool thread has no caller
            log.error("post %s could not be taken to be published: %s", claim.key, error)
            ring_again(service, claim)
            snapshot = None
        if snapshot is None:
            over(False)
        else:
            _run(service, fetched, snapshot, over)

    service.executors.crew.run(work)


def go_on(service: AppContext, fetched: library.Fetched, snapshot: Snapshot, over: Over) -> None:
    """Execute a claimed post, after the commit of the claim."""
    try:
        service.executors.crew.run(functools.partial(_run, service, fetched, snapshot, over))
    except RuntimeError:  # no thread available: the post is resumed when its lease expires
        log.exception("post %s could not be published now; it follows within a minute", snapshot.claim.key)
        over(False)


def _run(service: AppContext, fetched: library.Fetched, snapshot: Snapshot, over: Over) -> None:
    """Run a post, in a thread of the executor."""
    current_share_key.set(snapshot.claim.share)
    went = run.Went()
    try:
        went = run.go_on(service, fetched, snapshot, functools.partial(over, True))
    except Exception:  # noqa: BLE001 - a pool thread has no caller
        log.exception("publishing post %s stopped", snapshot.claim.key)
        ring_again(service, snapshot.claim)
    finally:
        if went.is_over:
            over(went.sent)


def ring_again(service: AppContext, claim: Claim) -> None:
    """Reschedule a failed run, to continue as its rows say."""
    service.write(lambda tx: service.jobs.again(tx, claim, service.now_ms + AGAIN_MS))
