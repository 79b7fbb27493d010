"""What is too late to be published: one rule, asked at each claim, and at a start for everything at once.

A post is late against the newest thing that was asked of it: its schedule, a retry, the wait for its next attempt.
"""

from __future__ import annotations

from typing import cast

from socialpub.base.errors import ApiError, refuse
from socialpub.base.runtime import iso
from socialpub.domain.core import moves
from socialpub.domain.core.service import Service
from socialpub.store import sql
from socialpub.store.statements import publishing, sweeps

LEAST_MS = 5000  # from due to claimed in ordinary work: no grace is shorter
ALL = -1  # as SQLite has it
PREPARING_MS = 300_000  # from claimed to sent: it takes what an upload takes, and that is not being late


class DuePost(moves.Prepared):
    """What of a post's row tells when it is due."""

    id: str
    account: str
    due_at: int | None
    scheduled_at: int | None
    created_at: int


def due_of(post: DuePost) -> int:
    """The time at which an open post is due."""
    times = (post["due_at"], post["scheduled_at"], post["created_at"])
    return next(at for at in times if at is not None)


def ends(service: Service, least: int = LEAST_MS) -> int:
    """What was due before this is not published any more; `least`: no grace is shorter."""
    return service.now_ms - max(least, _grace_ms(service))


def _grace_ms(service: Service) -> int:
    return max(LEAST_MS, int(service.runtime.settings.scheduling.overdue_grace * 1000))


def refusal(service: Service, post: DuePost, least: int = LEAST_MS) -> ApiError | None:
    """Why an open post is not published any more; None while it is not too late, or something of it was sent."""
    if due_of(post) >= ends(service, least) or moves.goes_on(post):
        return None
    return None if may_have_sent(post["id"]) else error(service, post)


def may_have_sent(post: str) -> bool:
    """Whether something of this post is out, or may be: then it is settled and never ends as overdue."""
    return sql.first(publishing.MAY_HAVE_SENT, (post,)) is not None


def error(service: Service, post: DuePost) -> ApiError:
    """The error that a post ends with which is not published any more."""
    due, now = due_of(post), service.now_ms
    late, grace = (now - due) // 1000, _grace_ms(service) // 1000
    return refuse(
        "schedule.overdue",
        f"The post was due at {iso(due)} and could not be sent until {iso(now)}: {late} s late, where "
        f"`scheduling.overdue_grace` allows {grace} s.",
    )


def before(at_ms: int, most: int = ALL) -> list[DuePost]:
    """Open posts that were due before a time, of which nothing can have been sent; `most` of them, in due order."""
    found = sql.every(sweeps.OVERDUE, (at_ms, most))
    rows = (cast(DuePost, dict(zip(sweeps.OVERDUE_COLUMNS, row, strict=True))) for row in found)
    return [row for row in rows if not moves.goes_on(row)]
