"""What is too late to be published: one rule, asked at each claim, and at a start for everything at once.

A post is late against the newest thing that was asked of it: its schedule, a retry, the wait for its next attempt.
"""

from __future__ import annotations

from typing import cast

from socialpub.base.errors import ApiError, rule_error
from socialpub.base.runtime import format_iso
from socialpub.domain import post_states
from socialpub.domain.context.app_context import AppContext
from socialpub.store.engine import sql
from socialpub.store.queries import maintenance, publish_runs

GRACE_MIN_MS = 5000  # from due to claimed in ordinary work: no grace is shorter
NO_LIMIT = -1  # as SQLite has it
PREPARING_MS = 300_000  # from claimed to sent: it takes what an upload takes, and that is not being late


class DuePost(post_states.PreparedColumns):
    """What of a post's row tells when it is due."""

    id: str
    account: str
    due_at: int | None
    scheduled_at: int | None
    created_at: int


def get_due_time(post: DuePost) -> int:
    """The time at which an open post is due."""
    times = (post["due_at"], post["scheduled_at"], post["created_at"])
    return next(at for at in times if at is not None)


def get_cutoff(service: AppContext, least: int = GRACE_MIN_MS) -> int:
    """What was due before this is not published any more; `least`: no grace is shorter."""
    return service.now_ms - max(least, _get_grace_ms(service))


def _get_grace_ms(service: AppContext) -> int:
    return max(GRACE_MIN_MS, int(service.runtime.settings.scheduling.overdue_grace * 1000))


def find_refusal(service: AppContext, post: DuePost, least: int = GRACE_MIN_MS) -> ApiError | None:
    """Why an open post is not published any more; None while it is not too late, or something of it was sent."""
    if get_due_time(post) >= get_cutoff(service, least) or post_states.is_completed_remotely(post):
        return None
    return None if may_have_sent(post["id"]) else build_error(service, post)


def may_have_sent(post: str) -> bool:
    """Whether something of this post is out, or may be: then it is settled and never ends as overdue."""
    return sql.fetch_one(publish_runs.MAY_HAVE_SENT, (post,)) is not None


def build_error(service: AppContext, post: DuePost) -> ApiError:
    """The error that a post ends with which is not published any more."""
    due, now = get_due_time(post), service.now_ms
    late, grace = (now - due) // 1000, _get_grace_ms(service) // 1000
    return rule_error(
        "schedule.overdue",
        f"The post was due at {format_iso(due)} and could not be sent until {format_iso(now)}: {late} s late, where "
        f"`scheduling.overdue_grace` allows {grace} s.",
    )


def list_overdue(at_ms: int, most: int = NO_LIMIT) -> list[DuePost]:
    """Open posts that were due before a time, of which nothing can have been sent; `most` of them, in due order."""
    found = sql.fetch_all(maintenance.FIND_OVERDUE, (at_ms, most))
    rows = (cast(DuePost, dict(zip(maintenance.OVERDUE_COLUMNS, row, strict=True))) for row in found)
    return [row for row in rows if not post_states.is_completed_remotely(row)]
