"""The kinds of job, a row each: how it is run, how many at once, what a pause holds, and what is found when it is lost.

Whoever adds a kind adds a row here; the consumer and the keeper read the table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from socialpub.base.config import Settings
from socialpub.domain.accounts import accounts
from socialpub.domain.core.service import Service
from socialpub.domain.engine import recovery
from socialpub.domain.media import library
from socialpub.domain.publishing import run as publishing
from socialpub.store.models import Post
from socialpub.store.queue import Claim

FAILED_AGAIN_MS = 30_000
LATE_MS = 10_000


@dataclass(frozen=True)
class Bench:
    """What a job is done with. `stopping`: whether a long one is to be given back."""

    service: Service
    fetched: library.Fetched
    stopping: Callable[[], bool]


@dataclass(frozen=True)
class Kind:
    """One kind of job. Where a function raises, the job rings again after `again_ms`."""

    name: str
    run: Callable[[Bench, Claim], bool]
    """Answer the doorbell: the job is finished, or given back for later, with its rows. Whether it sent anything."""
    places: Callable[[Settings], int]
    """How many may be at work at once. No other kind takes these places, however many of it are due."""
    pausable: bool
    """Whether a paused server leaves it alone."""
    sweep: Callable[[Service], None] | None = None
    """Ring again for the rows that wait for such a job and have none."""
    due: Callable[[str], int | None] | None = None
    """When the job of a key was to be done. What is sent `late_ms` after it was late: then its lane rests."""
    rest: Callable[[Settings], float] = lambda _: 0.0
    """For how many seconds."""
    late_ms: int = LATE_MS
    again_ms: int = FAILED_AGAIN_MS

    def is_late(self, service: Service, claim: Claim) -> bool:
        """Whether a job is answered long after its time; asked before it is run, which moves its time."""
        if (when := self.due) is None:
            return False
        due = service.read(lambda: when(claim.key)).result()
        return due is not None and service.now_ms - due > self.late_ms


def _publish(bench: Bench, claim: Claim) -> bool:
    return publishing.run(bench.service, bench.fetched, claim)


def _complete_answer(bench: Bench, claim: Claim) -> bool:
    recovery.complete_answer(bench.service, claim)
    return False


def _cancel(bench: Bench, claim: Claim) -> bool:
    accounts.cancel_waiting(bench.service, claim, bench.stopping)
    return False


def _due(post: str) -> int | None:
    """When a post was to go out: not `due_at`, which also says when to ask about what is being prepared."""
    row = Post.select(Post.next_attempt_at, Post.scheduled_at).where(Post.id == post).tuples().first()
    return (row[0] or row[1]) if row else None


# In the order in which they are looked at.
KINDS: tuple[Kind, ...] = (
    Kind(
        "publish",
        run=_publish,
        places=lambda settings: settings.publishing.workers,
        pausable=True,
        sweep=recovery.ring_lost_posts,
        due=_due,
        rest=lambda settings: settings.scheduling.overdue_spacing,
    ),
    Kind(
        "answer",
        run=_complete_answer,
        places=lambda settings: 2,
        pausable=False,
        sweep=recovery.ring_interrupted,
    ),
    Kind(
        "cancel",
        run=_cancel,
        places=lambda settings: 2,
        pausable=False,
    ),
)
