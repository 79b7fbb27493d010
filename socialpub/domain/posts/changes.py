"""One post: find, move to another time, cancel, try again, settle. Each is one transaction of its caller."""

from __future__ import annotations

import json
from typing import Any

from socialpub.base import faults
from socialpub.base.errors import ApiError, refuse
from socialpub.base.runtime import iso
from socialpub.domain.core import moves, upstreams
from socialpub.domain.core.service import Service
from socialpub.domain.people.tenancy import Scope
from socialpub.domain.posts.targets import check_future
from socialpub.domain.publishing import records
from socialpub.domain.shapes.posts import SettleRequest
from socialpub.store.db import Tx
from socialpub.store.models import Intent, Post
from socialpub.store.rows import PostRow

Row = dict[str, Any]


def find(scope: Scope, post: str) -> PostRow:
    """A post of the scope; ApiError `not_found`."""
    query = Post.select().where(Post.id == post, Post.organization == scope.organization)
    if scope.profile:
        query = query.where(Post.profile == scope.profile)
    row: PostRow | None = query.dicts().first()
    if row is None:
        raise ApiError("not_found", "There is no post with this id in the scope.")
    return row


def reschedule(service: Service, tx: Tx, scope: Scope, post: str, at_ms: int, request_id: str) -> None:
    """Move a queued post to `at_ms`: row, job and `post.rescheduled` together or not at all.

    Raises 409 `post.status` or `post.scheduledAt.window` unless the post is `queued` and still in the future.
    """
    check_future(service, at_ms)
    row = find(scope, post)
    was = row["scheduled_at"]
    moved = moves.move(
        service,
        tx,
        "reschedule",
        post,
        where=Post.scheduled_at > service.now_ms,
        data=None if was is None else {"previousScheduledAt": iso(was)},
        request_id=request_id,
        scheduled_at=at_ms,
    )
    if moved is None:
        raise _outside_window(row)
    service.jobs.put(tx, "publish", post, at_ms, row["account"], upstreams.share(service, row["account"]))
    faults.hit("resched.before_commit")


def cancel(service: Service, tx: Tx, scope: Scope, post: str, request_id: str) -> Row:
    """Cancel a queued post in the same window; `{id, status}`."""
    row = find(scope, post)
    if not moves.move(service, tx, "cancel", post, where=Post.scheduled_at > service.now_ms, request_id=request_id):
        raise _outside_window(row)
    service.jobs.remove(tx, post)
    faults.hit("cancel.before_commit")
    return {"id": post, "status": "canceled"}


def _outside_window(row: PostRow) -> ApiError:
    if row["status"] != "queued":
        return refuse("post.status", f"The post is `{row['status']}`, not `queued`.")
    return refuse("post.scheduledAt.window")


def retry(service: Service, tx: Tx, scope: Scope, post: str, at_ms: int | None, request_id: str) -> None:
    """Put a failed or rejected post up again, as a new attempt and at no quota: at `at_ms`, or (None) at once."""
    check_future(service, at_ms)
    row = find(scope, post)
    if row["error"] and json.loads(row["error"]).get("rule") == "publish.outcome_unknown":
        raise refuse("post.retry.unsettled")
    fresh: dict[str, Any] = {
        "error": None,
        "error_code": None,
        "tries": 0,
        "draft_at": None,
        "draft_nonce": None,
        "saved": None,
        "next_attempt_at": service.now_ms if at_ms is None else None,
        "due_at": service.now_ms if at_ms is None else None,
        "scheduled_at": at_ms,
    }
    name = "retry" if at_ms is None else "retry_at"
    if not moves.move(service, tx, name, post, request_id=request_id, **fresh):
        raise refuse("post.retry.status", f"The post is `{row['status']}`, neither `failed` nor `rejected`.")
    due, account = service.now_ms if at_ms is None else at_ms, row["account"]
    service.jobs.put(tx, "publish", post, due, account, upstreams.share(service, account))


def settle(service: Service, tx: Tx, scope: Scope, post: str, request: SettleRequest, request_id: str) -> None:
    """Record what a person found out about an unknown outcome; 409 `post.settle.status` where nothing is unknown."""
    row = find(scope, post)
    error = json.loads(row["error"]) if row["error"] else {}
    if row["status"] != "failed" or error.get("rule") != "publish.outcome_unknown":
        raise refuse("post.settle.status", f"The post is `{row['status']}` and nothing about it is unknown.")
    by = json.dumps({"key": scope.key, "user": scope.user, "published": request.published})
    Intent.update(settled_by=by, settled_at=service.now_ms).where(
        Intent.post == post, Intent.outcome == "unknown"
    ).execute()
    if request.published:
        moves.move(
            service,
            tx,
            "settle_published",
            post,
            request_id=request_id,
            published_at=service.now_ms,
            platform_uri=request.uri,
            error=None,
            error_code=None,
        )
        return
    plain = ApiError(
        "platform_unavailable", "A person looked, and the post is not there.", remediation="Retry the post."
    )
    moves.move(
        service,
        tx,
        "settle_absent",
        post,
        request_id=request_id,
        **records.error_columns(service, plain, row["platform"]),
    )
