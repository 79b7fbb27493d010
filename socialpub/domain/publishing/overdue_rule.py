"""Rule for overdue posts, applied at each claim, and to all posts at startup.

A post is late relative to its latest due time: its schedule, a retry, or its next attempt.
"""

from __future__ import annotations

from typing import cast

from socialpub.base.errors import ApiError, rule_error
from socialpub.base.runtime import format_iso
from socialpub.domain import post_states
from socialpub.domain.context.app_context import AppContext
from socialpub.store.engine import sql
from socialpub.store.queries import maintenance, publish_runs

GRACE_MIN_MS = 5000  # usual time from due to claimed: the minimal grace period
NO_LIMIT = -1  # LIMIT value of SQLite
PREPARING_MS = 300_000  # time from claimed to sent: an upload may take long and does not make a post late


class DuePost(post_states.PreparedColumns):
    """Columns of a post that determine when it is due."""

    id: str
    account: str
    due_at: int | None
    scheduled_at: int | None
    created_at: int


def get_due_time(post: DuePost) -> int:
    """Return the time at which an open post is due, in ms."""
    times = (post["due_at"], post["scheduled_at"], post["created_at"])
    return next(at for at in times if at is not None)


def get_cutoff(service: AppContext, least: int = GRACE_MIN_MS) -> int:
    """Return the due time in ms before which posts are overdue. `least`: minimal grace period."""
    return service.now_ms - max(least, _get_grace_ms(service))


def _get_grace_ms(service: AppContext) -> int:
    return max(GRACE_MIN_MS, int(service.runtime.settings.scheduling.overdue_grace * 1000))


def find_error(service: AppContext, post: DuePost, least: int = GRACE_MIN_MS) -> ApiError | None:
    """Return the error of an overdue post; None if it is in time or may have been sent."""
    if get_due_time(post) >= get_cutoff(service, least) or post_states.is_completed_remotely(post):
        return None
    return None if may_have_sent(post["id"]) else build_error(service, post)


def may_have_sent(post: str) -> bool:
    """Return whether any send of the post succeeded or is unresolved; such a post is settled."""
    return sql.fetch_one(publish_runs.MAY_HAVE_SENT, (post,)) is not None


def build_error(service: AppContext, post: DuePost) -> ApiError:
    """Build the error of an overdue post."""
    due, now = get_due_time(post), service.now_ms
    late, grace = now - due, _get_grace_ms(service)
    reason = (
        f"where `scheduling.overdue_grace` allows {grace // 1000} s"
        if late > grace
        else "and overdue posts were skipped when publishing was resumed"
    )
    return rule_error(
        "schedule.overdue",
        f"The post was due at {format_iso(due)} and could not be sent until {format_iso(now)}: {late // 1000} s late, "
        f"{reason}.",
    )


def list_overdue(at_ms: int, most: int = NO_LIMIT) -> list[DuePost]:
    """List up to `most` open posts due before a time and never sent, in due order."""
    found = sql.fetch_all(maintenance.FIND_OVERDUE, (at_ms, most))
    rows = (cast(DuePost, dict(zip(maintenance.OVERDUE_COLUMNS, row, strict=True))) for row in found)
    return [row for row in rows if not post_states.is_completed_remotely(row)]
