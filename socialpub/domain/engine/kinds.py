"""The kinds of job, a row each: how it begins, how many at once, what a pause holds, and what is found when it is lost.

Whoever adds a kind adds a row here; the consumer and the keeper read the table.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from socialpub.base.config import Settings
from socialpub.base.fair import working_for
from socialpub.domain.accounts import accounts
from socialpub.domain.core.service import Service, width
from socialpub.domain.engine import recovery
from socialpub.domain.media import library
from socialpub.domain.publishing import sending
from socialpub.domain.publishing.sending import Over
from socialpub.store import sql
from socialpub.store.queue import Claim, Times
from socialpub.store.statements import claiming

log = logging.getLogger("socialpub.jobs")

LATE_MS = 10_000


@dataclass(frozen=True)
class Bench:
    """What a job is done with. `stopping`: whether a long one is to be given back."""

    service: Service
    fetched: library.Fetched
    stopping: Callable[[], bool]


@dataclass(frozen=True)
class Kind:
    """One kind of job."""

    name: str
    begin: Callable[[Bench, Claim, Over], None]
    """Have the doorbell answered: the job is finished, or given back for later, with its rows; what is given is told so
    then. RuntimeError where there is no thread for it; it waits for nothing."""
    places: Callable[[Settings], int]
    """How many may be at work at once. No other kind takes these places, however many of it are due."""
    pausable: bool
    """Whether a paused server leaves it alone."""
    sweep: Callable[[Service], None] | None = None
    """Ring again for the rows that wait for such a job and have none."""
    due: Times | None = None
    """When the jobs of these keys were to be done. What is sent `late_ms` after it was late: then its lane rests."""
    rest: Callable[[Settings], float] = lambda _: 0.0
    """For how many seconds."""
    late_ms: int = LATE_MS

    def is_late(self, service: Service, claim: Claim) -> bool:
        """Whether a job is answered long after its time."""
        return claim.due_at is not None and service.now_ms - claim.due_at > self.late_ms


def _publish(bench: Bench, claim: Claim, over: Over) -> None:
    sending.begin(bench.service, bench.fetched, claim, over)


def _complete_answer(bench: Bench, claim: Claim) -> None:
    recovery.complete_answer(bench.service, claim)


def _cancel(bench: Bench, claim: Claim) -> None:
    accounts.cancel_waiting(bench.service, claim, bench.stopping)


def _in_a_thread(run: Callable[[Bench, Claim], None]) -> Callable[[Bench, Claim, Over], None]:
    """A kind whose jobs are answered by a function, in a thread of the crew; where it raises, the job rings again."""

    def begin(bench: Bench, claim: Claim, over: Over) -> None:
        def work() -> None:
            working_for.set(claim.share)
            try:
                run(bench, claim)
            except Exception:  # noqa: BLE001 - the job rings again
                log.exception("job %s failed", claim.key)
                sending.ring_again(bench.service, claim)
            finally:
                over(False)

        bench.service.crew.run(work)

    return begin


def _due(posts: Sequence[str]) -> Mapping[str, int | None]:
    found: dict[str, int | None] = sql.loads(sql.value(claiming.POSTS_DUE, (sql.json_of(posts),)))
    return found


# In the order in which they are looked at.
KINDS: tuple[Kind, ...] = (
    Kind(
        "publish",
        begin=_publish,
        places=lambda settings: width(settings.publishing.workers),
        pausable=True,
        sweep=recovery.ring_lost_posts,
        due=_due,
        rest=lambda settings: settings.scheduling.overdue_spacing,
    ),
    Kind(
        "answer",
        begin=_in_a_thread(_complete_answer),
        places=lambda settings: 2,
        pausable=False,
        sweep=recovery.ring_interrupted,
    ),
    Kind(
        "cancel",
        begin=_in_a_thread(_cancel),
        places=lambda settings: 2,
        pausable=False,
    ),
)
