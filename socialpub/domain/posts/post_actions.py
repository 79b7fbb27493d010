"""Actions on one post: cancel, retry, settle. Edits have their own module."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from socialpub import platforms
from socialpub.base import fault_injection
from socialpub.base.errors import ApiError, rule_error
from socialpub.domain import post_states
from socialpub.domain.access.actor import ActionResult, Actor
from socialpub.domain.context import upstreams
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.media import library
from socialpub.domain.posts import post_log, request_lookup
from socialpub.domain.posts.targets import check_future
from socialpub.domain.publishing import transactions
from socialpub.domain.schemas import validation
from socialpub.domain.schemas.posts import CanceledBody, PostBody, RetryRequest, SettleRequest
from socialpub.store.database import Tx
from socialpub.store.rows import PostRow
from socialpub.store.schema.models import Intent


def cancel(tx: Tx, who: Actor, post: str) -> CanceledBody:
    """Cancel a queued post that is not due yet, and the pieces of a thread after it."""
    service, row = who.service, post_log.find(who.scope, post)
    where = ("scheduled_at > ?", service.now_ms)
    if not post_states.apply(service, tx, "cancel", post, where=where, request_id=who.request_id):
        raise build_window_error(row)
    service.jobs.remove(tx, post)
    fault_injection.hit("cancel.before_commit")
    return {"id": post, "status": "canceled"}


def build_window_error(row: PostRow) -> ApiError:
    """Build the 409 for a post that is not queued, or due."""
    if row["status"] != "queued":
        return rule_error("post.status", f"The post is `{row['status']}`, not `queued`.")
    return rule_error("post.scheduledAt.window")


def retry(tx: Tx, who: Actor, post: str, request: RetryRequest) -> ActionResult:
    """Retry a failed or rejected post as a new attempt, free of quota, at a time or at once.

    Raises ApiError, with nothing written, also if media of it or of the pieces after it were deleted.
    """
    service, at_ms = who.service, request.scheduled_at
    check_future(service, at_ms)
    row = post_log.find(who.scope, post)
    if _find_rule(row) == "publish.outcome_unknown":
        raise rule_error("post.retry.unsettled")
    if row["status"] not in ("failed", "rejected"):
        raise rule_error("post.retry.status", f"The post is `{row['status']}`, neither `failed` nor `rejected`.")
    if post_states.is_waiting_piece(row):
        raise rule_error("post.retry.thread")
    stopped = _list_stopped(row)
    refs = [(each["profile"], ref) for each in (row, *stopped) for ref in json.loads(each["media"])]
    used = [(profile, ref["mediaId"]) for profile, ref in refs if "mediaId" in ref]
    request_lookup.check_media(who.scope.organization, used)
    soon = service.now_ms if at_ms is None else None
    fresh: dict[str, Any] = {
        "error": None,
        "error_code": None,
        "tries": 0,
        "draft_at": None,
        "draft_nonce": None,
        "saved": None,
        "next_attempt_at": soon,
        "due_at": soon,
        "scheduled_at": at_ms,
    }
    name = "retry" if at_ms is None else "retry_at"
    post_states.apply(service, tx, name, post, request_id=who.request_id, **fresh)
    due, account = at_ms or service.now_ms, row["account"]
    service.jobs.put(tx, "publish", post, due, account, upstreams.load_share_key(service, account))
    _revive(tx, who, stopped, name, fresh | {"next_attempt_at": None})
    library.extend_retention(service, tx, library.load_assets([ref for _, ref in refs]).values(), at_ms)
    return ActionResult(post_log.load_body(who.scope, post), 202)


def _list_stopped(row: PostRow) -> list[PostRow]:
    """List the pieces that stopped with this one."""
    return [
        piece
        for piece in post_states.list_later_pieces(row)
        if piece["status"] == "failed" and _find_rule(piece) == "thread.previous_missing"
    ]


def _revive(tx: Tx, who: Actor, stopped: Sequence[PostRow], name: str, columns: dict[str, Any]) -> None:
    """Let the pieces that stopped with one wait for it again."""
    for piece in stopped:
        post_states.apply(who.service, tx, name, piece["id"], request_id=who.request_id, **columns)


def _find_rule(row: PostRow) -> str | None:
    rule: str | None = json.loads(row["error"]).get("rule") if row["error"] else None
    return rule


def settle(tx: Tx, who: Actor, post: str, request: SettleRequest) -> PostBody:
    """Record how an unknown outcome ended. Raises 409 `post.settle.status` if none is unknown."""
    service, row = who.service, post_log.find(who.scope, post)
    if row["status"] != "failed" or _find_rule(row) != "publish.outcome_unknown":
        raise rule_error("post.settle.status", f"The post is `{row['status']}` and its outcome is known.")
    sent_ms: int | None = _find_unknown(post, Intent.sent_at, Intent.sent_at.is_null(False))
    by = json.dumps({"key": who.scope.key, "user": who.scope.user, "published": request.published})
    Intent.update(settled_by=by, settled_at=service.now_ms).where(
        Intent.post == post, Intent.outcome == "unknown"
    ).execute()
    if not request.published:
        post_states.apply(
            service, tx, "settle_absent", post, request_id=who.request_id, **_absent_columns(service, row)
        )
        return post_log.load_body(who.scope, post)
    if stopped := _list_stopped(row):
        _revive(tx, who, stopped, "retry", {"error": None, "error_code": None, "tries": 0})
        _check_address(row["platform"], request)
    changes: dict[str, Any] = {
        "published_at": sent_ms or service.now_ms,
        "platform_uri": request.uri,
        "error": None,
        "error_code": None,
        "previous": transactions.encode_previous(None, request.uri, None, _find_unknown(post, Intent.plan) or "{}"),
    }
    if request.uri is not None and request.uri.startswith("https://"):
        changes["url"] = request.uri
    post_states.apply(service, tx, "settle_published", post, request_id=who.request_id, **changes)
    return post_log.load_body(who.scope, post)


def _check_address(platform: str, request: SettleRequest) -> None:
    """Raise ApiError unless the rest of the thread can reply to the address that is reported."""
    declared = platforms.platform(platform)
    support, wanted = declared.thread, f"the address of a post on {declared.label}"
    if request.uri is None:
        code, received, problem = "missing", "nothing", "so its address is needed"
    elif support is None or not support.address.fullmatch(request.uri):
        code, received, problem = "value_error", "string", f"and this is not {wanted}"
    else:
        return
    message = f"The rest of the thread replies to this post, {problem}"
    raise validation.build_schema_error([validation.build_issue(code, ["uri"], message, wanted, received)])


def _find_unknown(post: str, column: Any, *conditions: Any) -> Any:
    """Return a column of the newest send with unknown outcome; None without one."""
    unknown = (Intent.post == post, Intent.step == "publish", Intent.outcome == "unknown")
    return Intent.select(column).where(*unknown, *conditions).order_by(Intent.number.desc()).scalar()


def _absent_columns(service: AppContext, row: PostRow) -> dict[str, Any]:
    plain = ApiError(
        "platform_unavailable", "You reported that the post was not published.", remediation="Retry the post."
    )
    return transactions.build_error_columns(service, plain, row["platform"])
