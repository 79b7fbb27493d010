"""Threads for posts: one while a post is executed."""

from __future__ import annotations

import functools
import logging

from socialpub.base.concurrency.fair_executor import current_share_key
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.media import library
from socialpub.domain.publishing import run
from socialpub.domain.publishing.intents import RunSnapshot
from socialpub.domain.publishing.run import RunDone
from socialpub.store.jobs.leases import Claim

log = logging.getLogger("socialpub.publish")

RETRY_MS = 30_000


def start(service: AppContext, fetched: library.BatchMediaCache, claim: Claim, on_done: RunDone) -> None:
    """Publish a due, claimed post in a thread of the executor.

    The claiming thread also sends: between an intent's commit and its send no post may wait for a thread, because until
    then its outcome is unknown.
    """

    def claim_and_run() -> None:
        current_share_key.set(claim.share)
        try:
            snapshot = service.write_together(run.claim_together, (service, claim)).result()
        except Exception as error:  # noqa: BLE001 - a pool thread has no caller
            log.error("post %s could not be claimed, it is tried again in %d s: %s", claim.key, RETRY_MS // 1000, error)
            reschedule(service, claim)
            snapshot = None
        if snapshot is None:
            on_done(False)
        else:
            _execute(service, fetched, snapshot, on_done)

    service.executors.upstream_pool.run(claim_and_run)


def start_claimed(
    service: AppContext, fetched: library.BatchMediaCache, snapshot: RunSnapshot, on_done: RunDone
) -> None:
    """Execute a claimed post, after the commit of the claim."""
    try:
        service.executors.upstream_pool.run(functools.partial(_execute, service, fetched, snapshot, on_done))
    except RuntimeError:  # no thread available: the post is resumed when its lease expires
        log.exception("post %s: no thread is available; it is resumed when its lease expires", snapshot.claim.key)
        on_done(False)


def _execute(service: AppContext, fetched: library.BatchMediaCache, snapshot: RunSnapshot, on_done: RunDone) -> None:
    """Run a post, in a thread of the executor."""
    current_share_key.set(snapshot.claim.share)
    try:
        run.execute(service, fetched, snapshot, on_done)
    except Exception:  # noqa: BLE001 - a pool thread has no caller
        log.exception(
            "publishing post %s stopped with an error; it is tried again in %d s", snapshot.claim.key, RETRY_MS // 1000
        )
        reschedule(service, snapshot.claim)


def reschedule(service: AppContext, claim: Claim) -> None:
    """Reschedule a failed run, to continue as its rows say."""
    service.write(lambda tx: service.jobs.reschedule(tx, claim, service.now_ms + RETRY_MS))
