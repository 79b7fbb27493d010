"""Who does the work on a post: a thread of the executor, and none while rows are written."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable

from socialpub.base.fair import working_for
from socialpub.domain.core.service import Service
from socialpub.domain.media import library
from socialpub.domain.publishing import run
from socialpub.domain.publishing.intents import Snapshot
from socialpub.store.queue import Claim

log = logging.getLogger("socialpub.publish")

AGAIN_MS = 30_000
Over = Callable[[bool], None]
"""Told once nothing of a run is left to do, and whether something public was called; in whatever thread.

It must be short and must not raise.
"""


def begin(service: Service, fetched: library.Fetched, claim: Claim, over: Over) -> None:
    """Publish a post that is due and claimed, in a thread of the executor.

    The thread that takes the post also sends it: between the commit of an intent and its send no post waits for a
    thread, for until then nobody knows whether it went out.
    """

    def work() -> None:
        working_for.set(claim.share)
        try:
            snapshot = service.write_together(run.take_together, (service, claim)).result()
        except Exception as error:  # noqa: BLE001 - a thread of the crew has no caller
            log.error("post %s could not be taken to be published: %s", claim.key, error)
            ring_again(service, claim)
            snapshot = None
        if snapshot is None:
            over(False)
        else:
            _run(service, fetched, snapshot, over)

    service.crew.run(work)


def go_on(service: Service, fetched: library.Fetched, snapshot: Snapshot, over: Over) -> None:
    """Go on with a post that was taken, once that is committed."""
    try:
        service.crew.run(functools.partial(_run, service, fetched, snapshot, over))
    except RuntimeError:  # no thread to be had: the lease brings the post back
        log.exception("post %s could not be published now; it follows within a minute", snapshot.claim.key)
        over(False)


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
