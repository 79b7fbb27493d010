"""Threads for posts: one while a post is executed, none while rows are written."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable

from socialpub.base.concurrency.fair_executor import current_share_key
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.media import library
from socialpub.domain.publishing import run
from socialpub.domain.publishing.intents import RunSnapshot
from socialpub.store.jobs.leases import Claim

log = logging.getLogger("socialpub.publish")

RETRY_MS = 30_000
RunDone = Callable[[bool], None]
"""Callback after a run; the flag says if a public call was made. Quick, must not raise."""


def start(service: AppContext, fetched: library.BatchMediaCache, claim: Claim, over: RunDone) -> None:
    """Publish a due, claimed post in a thread of the executor.

    The claiming thread also sends: between an intent's commit and its send no post may wait for a thread, because until
    then its outcome is unknown.
    """

    def work() -> None:
        current_share_key.set(claim.share)
        try:
            snapshot = service.write_together(run.claim_together, (service, claim)).result()
        except Exception as error:  # noqa: BLE001 - a pool thread has no caller
            log.error("post %s could not be taken to be published: %s", claim.key, error)
            reschedule(service, claim)
            snapshot = None
        if snapshot is None:
            over(False)
        else:
            _execute(service, fetched, snapshot, over)

    service.executors.crew.run(work)


def start_claimed(service: AppContext, fetched: library.BatchMediaCache, snapshot: RunSnapshot, over: RunDone) -> None:
    """Execute a claimed post, after the commit of the claim."""
    try:
        service.executors.crew.run(functools.partial(_execute, service, fetched, snapshot, over))
    except RuntimeError:  # no thread available: the post is resumed when its lease expires
        log.exception("post %s could not be published now; it follows within a minute", snapshot.claim.key)
        over(False)


def _execute(service: AppContext, fetched: library.BatchMediaCache, snapshot: RunSnapshot, over: RunDone) -> None:
    """Run a post, in a thread of the executor."""
    current_share_key.set(snapshot.claim.share)
    went = run.RunResult()
    try:
        went = run.execute(service, fetched, snapshot, functools.partial(over, True))
    except Exception:  # noqa: BLE001 - a pool thread has no caller
        log.exception("publishing post %s stopped", snapshot.claim.key)
        reschedule(service, snapshot.claim)
    finally:
        if went.is_over:
            over(went.sent)


def reschedule(service: AppContext, claim: Claim) -> None:
    """Reschedule a failed run, to continue as its rows say."""
    service.write(lambda tx: service.jobs.again(tx, claim, service.now_ms + RETRY_MS))
