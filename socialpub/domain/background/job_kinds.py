"""The kinds of job, a row each: how it begins, how many at once, what a pause holds, and what is found when it is lost.

A new kind is a new row; the consumer and the sweep read the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from socialpub.base.concurrency.fair_executor import current_share_key
from socialpub.base.config import Settings
from socialpub.domain.accounts import accounts
from socialpub.domain.background import recovery
from socialpub.domain.context.app_context import AppContext, limit_concurrency
from socialpub.domain.media import library
from socialpub.domain.publishing import dispatch
from socialpub.domain.publishing.dispatch import RunDone
from socialpub.store.engine import sql
from socialpub.store.jobs.leases import Claim, DueTimesReader
from socialpub.store.queries import due_jobs

LATE_MS = 10_000


@dataclass(frozen=True)
class JobContext:
    """What a job is done with. `stopping`: whether a long one is to be given back."""

    service: AppContext
    fetched: library.BatchMediaCache
    stopping: Callable[[], bool]


@dataclass(frozen=True)
class JobKind:
    """One kind of job."""

    name: str
    answer: Callable[[JobContext, Claim, RunDone], None]
    """Answer the doorbell: the job is finished, or given back for later, with its rows; what is given is told so then.
    Where it raises, the job rings again."""
    places: Callable[[Settings], int]
    """How many may be at work at once. No other kind takes these places, however many of it are due."""
    pausable: bool
    """Whether a paused server leaves it alone."""
    sweep: Callable[[AppContext], None] | None = None
    """Ring again for the rows that wait for such a job and have none."""
    waits: bool = True
    """Whether a worker of the consumer is taken until the job is done, and not only until a thread has it."""
    due: DueTimesReader | None = None
    """When the jobs of these keys were to be done. What is sent `late_ms` after it was late: then its lane rests."""
    rest: Callable[[Settings], float] = lambda _: 0.0
    """For how many seconds."""
    late_ms: int = LATE_MS

    def is_late(self, service: AppContext, claim: Claim) -> bool:
        """Whether a job is answered long after its time."""
        return claim.due_at is not None and service.now_ms - claim.due_at > self.late_ms


def _run_publish(bench: JobContext, claim: Claim, over: RunDone) -> None:
    try:
        dispatch.start(bench.service, bench.fetched, claim, over)
    except RuntimeError:  # no thread to be had
        over(False)
        raise


def _run_response_completion(bench: JobContext, claim: Claim) -> None:
    recovery.complete_response(bench.service, claim)


def _run_cancel(bench: JobContext, claim: Claim) -> None:
    accounts.run_cancel_job(bench.service, claim, bench.stopping)


def _run_in_worker(run: Callable[[JobContext, Claim], None]) -> Callable[[JobContext, Claim, RunDone], None]:
    """A kind whose jobs are done by a worker of the consumer."""

    def answer(bench: JobContext, claim: Claim, over: RunDone) -> None:
        before = current_share_key.set(claim.share)
        try:
            run(bench, claim)
        finally:
            current_share_key.reset(before)
            over(False)

    return answer


def _load_due_times(posts: Sequence[str]) -> Mapping[str, int | None]:
    found: dict[str, int | None] = sql.load_json(sql.fetch_value(due_jobs.FIND_POST_TIMES, (sql.dump_json(posts),)))
    return found


# In the order in which they are looked at.
JOB_KINDS: tuple[JobKind, ...] = (
    JobKind(
        "publish",
        answer=_run_publish,
        waits=False,
        places=lambda settings: limit_concurrency(settings.publishing.workers),
        pausable=True,
        sweep=recovery.enqueue_lost_posts,
        due=_load_due_times,
        rest=lambda settings: settings.scheduling.overdue_spacing,
    ),
    JobKind(
        "answer",
        answer=_run_in_worker(_run_response_completion),
        places=lambda settings: 2,
        pausable=False,
        sweep=recovery.enqueue_interrupted,
    ),
    JobKind(
        "cancel",
        answer=_run_in_worker(_run_cancel),
        places=lambda settings: 2,
        pausable=False,
    ),
)
