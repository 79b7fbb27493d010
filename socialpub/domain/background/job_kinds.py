"""Table of job kinds: how each runs, its concurrency, and how lost jobs are found.

The job runner and the sweep read this table; a new kind is a new row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from socialpub.base.concurrency.fair_executor import current_share_key
from socialpub.base.config import Settings
from socialpub.domain.accounts import accounts
from socialpub.domain.background import recovery
from socialpub.domain.context.app_context import AppContext, limit_concurrency
from socialpub.domain.delivery.webhooks import deliveries
from socialpub.domain.media import library
from socialpub.domain.publishing import dispatch
from socialpub.domain.publishing.run import RunDone
from socialpub.store.engine import sql
from socialpub.store.jobs.leases import Claim, DueTimesReader
from socialpub.store.queries import due_jobs

LATE_MS = 10_000  # a job that runs this long after its due time is late


@dataclass(frozen=True)
class JobContext:
    """Context of a job. `stopping`: True when a long job should return itself to the queue."""

    service: AppContext
    fetched: library.BatchMediaCache
    stopping: Callable[[], bool]


@dataclass(frozen=True)
class JobKind:
    """One kind of job."""

    name: str
    run: Callable[[JobContext, Claim, RunDone], None]
    """Run the job, which finishes or reschedules itself in its transaction; then call `RunDone`.

    If it raises, the job is retried when its lease expires.
    """
    concurrency: Callable[[Settings], int]
    """Number of jobs that run at once. Slots are reserved for the kind."""
    pausable: bool
    """Whether it waits while publishing is paused."""
    sweep: Callable[[AppContext], None] | None = None
    """Enqueue jobs for rows that need one and have none."""
    waits: bool = True
    """Whether a worker is occupied until the job ends, and not only until it is handed to a thread."""
    due: DueTimesReader | None = None
    """Reader of the due times of jobs, by key."""
    late_spacing: Callable[[Settings], float] = lambda _: 0.0
    """Seconds that a serial group pauses after a call of a late job."""


def _run_publish(context: JobContext, claim: Claim, done: RunDone) -> None:
    try:
        dispatch.start(context.service, context.fetched, claim, done)
    except RuntimeError:  # no thread available
        done(False)
        raise


def _run_in_worker(run: Callable[[JobContext, Claim], None]) -> Callable[[JobContext, Claim, RunDone], None]:
    """Wrap a function that runs in the worker thread until the job is done."""

    def run_job(context: JobContext, claim: Claim, done: RunDone) -> None:
        before = current_share_key.set(claim.share)
        try:
            run(context, claim)
        finally:
            current_share_key.reset(before)
            done(False)

    return run_job


def _load_due_times(posts: Sequence[str]) -> Mapping[str, int | None]:
    times: dict[str, int | None] = sql.load_json(sql.fetch_value(due_jobs.FIND_POST_TIMES, (sql.dump_json(posts),)))
    return times


# In the order in which due jobs are claimed.
JOB_KINDS: tuple[JobKind, ...] = (
    JobKind(
        "publish",
        run=_run_publish,
        waits=False,
        concurrency=lambda settings: limit_concurrency(settings.publishing.workers),
        pausable=True,
        sweep=recovery.enqueue_lost_posts,
        due=_load_due_times,
        late_spacing=lambda settings: settings.scheduling.overdue_spacing,
    ),
    JobKind(
        "answer",
        run=_run_in_worker(lambda context, claim: recovery.complete_response(context.service, claim)),
        concurrency=lambda settings: 2,
        pausable=False,
        sweep=recovery.enqueue_interrupted,
    ),
    JobKind(
        "cancel",
        run=_run_in_worker(lambda context, claim: accounts.run_cancel_job(context.service, claim, context.stopping)),
        concurrency=lambda settings: 2,
        pausable=False,
    ),
    JobKind(
        "redeliver",
        run=_run_in_worker(
            lambda context, claim: deliveries.run_redeliver_job(context.service, claim, context.stopping)
        ),
        concurrency=lambda settings: 2,
        pausable=False,
    ),
)
