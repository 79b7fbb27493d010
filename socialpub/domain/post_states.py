"""State machine of posts: each transition is one conditional UPDATE that emits its events.

If the UPDATE changes no row, the post was not in a source state, or another writer was faster.
"""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

from typing_extensions import TypedDict

from socialpub import platforms
from socialpub.base.errors import rule_error
from socialpub.base.json_codec import dumps
from socialpub.base.observability import metrics
from socialpub.base.runtime import format_iso
from socialpub.domain.context import upstreams
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.events import events
from socialpub.domain.schemas.common import cast_present, without_none
from socialpub.domain.schemas.errors import ErrorBody, build_error_body
from socialpub.domain.schemas.events import (
    ContentField,
    PostCanceled,
    PostEdited,
    PostEvent,
    PostFailed,
    PostPublished,
    PostQueued,
    PostRejected,
    PostRescheduled,
    PostValidated,
)
from socialpub.store.database import Tx
from socialpub.store.engine import sql
from socialpub.store.queries import publish_runs
from socialpub.store.queries.bulk import BulkUpdate
from socialpub.store.rows import PostRow

log = logging.getLogger("socialpub.posts")


class TransitionData(TypedDict, total=False):
    """Event data that the updated row no longer has."""

    previousScheduledAt: str
    changed: list[ContentField]


@dataclass(frozen=True)
class Transition:
    """Allowed transition: source states, target state and the event types to emit."""

    sources: frozenset[str]
    target: str
    events: tuple[str, ...] = ()


def _define(sources: str, target: str, *types: str) -> Transition:
    return Transition(frozenset(sources.split()), target, types)


TRANSITIONS: dict[str, Transition] = {
    # By a publish run.
    "claim": _define("queued validated", "publishing"),
    "publish": _define("publishing", "published", "post.published"),
    "reject": _define("publishing", "rejected", "post.rejected"),
    "fail": _define("publishing", "failed", "post.failed"),
    "wait": _define("publishing", "validated", "post.failed"),  # for the next attempt
    # Between two attempts of a post that the platform may still complete.
    "doubt": _define("validated", "failed", "post.failed"),
    # Before anything was sent.
    "overdue": _define("queued validated publishing", "failed", "post.failed"),
    "refuse": _define("queued validated", "rejected", "post.rejected"),
    "stop": _define("queued validated", "failed", "post.failed"),  # the piece before it was not published
    # By a person.
    "reschedule": _define("queued", "queued", "post.rescheduled"),
    "edit": _define("queued", "queued", "post.edited"),
    "edit_at": _define("queued", "queued", "post.rescheduled", "post.edited"),
    "cancel": _define("queued", "canceled", "post.canceled"),
    "disconnect": _define("queued validated", "canceled", "post.canceled"),
    "retry": _define("failed rejected", "validated", "post.validated"),
    "retry_at": _define("failed rejected", "queued", "post.queued", "post.validated"),
    "settle_published": _define("failed", "published", "post.published"),
    "settle_absent": _define("failed", "failed"),
}


RESCHEDULING_TRANSITIONS = frozenset(("reschedule", "edit_at", "retry", "retry_at"))  # change the publish time
OPEN_STATES = tuple(sorted(TRANSITIONS["overdue"].sources))
_ERROR_STATES = frozenset(("failed", "rejected"))  # the row has the error, so that its events need not store it
TERMINAL_STATES = frozenset(each.target for each in TRANSITIONS.values()) - frozenset(OPEN_STATES)


def apply(
    service: AppContext,
    tx: Tx,
    name: str,
    post: str,
    *,
    where: tuple[str, int] | None = None,
    data: TransitionData | None = None,
    request_id: str | None = None,
    previous: str | None = None,
    **columns: Any,
) -> PostRow | None:
    """Apply a transition and emit its events; return the new row, None if not allowed now.

    `where` adds an SQL condition with one value, such as a time window. `data`: event data that the updated row no
    longer has. `previous`: what the next piece of a thread replies to, if the post is published by it.
    """
    if TRANSITIONS[name].sources <= _ERROR_STATES:
        events.preserve_error(tx, post)
    now = service.now_ms  # one time for the row and its events
    row = _update_row(now, name, post, where, columns)
    if row is None:
        return None
    request_id = request_id or _find_request(row)
    for type_ in TRANSITIONS[name].events:
        _emit(service, tx, type_, row, _DATA_BUILDERS[type_](row, data or {}), request_id, now)
    if row["status"] in TERMINAL_STATES:
        _continue_thread(service, tx, row, previous, request_id)
        _notify_waiters(service, tx, row["batch"])
    if row["status"] in TERMINAL_STATES or name == "wait":
        tx.after_commit(lambda: _log_outcome(service, row, request_id))
    if name in RESCHEDULING_TRANSITIONS:
        tx.after_commit(lambda: service.recent_posts.forget(row["account"], row["platform"]))
    elif row["status"] in ("canceled", "rejected"):
        tx.after_commit(
            lambda: service.recent_posts.remove_post(row["account"], row["platform"], _get_publish_time(row))
        )
    return row


class PublishedUpdate(NamedTuple):
    """Published post: its row before the update, the number of its organization, new columns.

    `request_id`: the request that created its batch. `previous`: what the next piece of its thread replies to.
    """

    post: PostRow
    organization: int
    columns: Mapping[str, Any]
    request_id: str | None
    previous: str | None


def apply_published(service: AppContext, tx: Tx, outs: Sequence[PublishedUpdate]) -> bool:
    """Apply the transition `publish` to posts that set the same columns, and emit the events.

    Return False, with no events, if some post was not in the state `publishing`.
    """
    now, columns = service.now_ms, tuple(outs[0].columns)
    rows = [(out.post["id"], *out.columns.values()) for out in outs]
    if sql.update_all(_build_bulk_update("publish", _PUBLISHED_COLUMNS, columns), rows, (now,)) < len(outs):
        return False
    moved = [_build_published_row(out, now) for out in outs]
    theirs: dict[int, list[tuple[PublishedUpdate, PostRow]]] = {}
    for out, row in zip(outs, moved, strict=True):
        theirs.setdefault(out.organization, []).append((out, row))
    by_audience = [
        (
            events.load_audience(some[0][1]["organization"], number),
            [_build_published_event(row) for _, row in some],
        )
        for number, some in theirs.items()
    ]
    events.emit_many(service, tx, by_audience, now)
    for out, row in zip(outs, moved, strict=True):
        _continue_thread(service, tx, row, out.previous, out.request_id)
    for batch in dict.fromkeys(row["batch"] for row in moved):
        _notify_waiters(service, tx, batch)
    for out, row in zip(outs, moved, strict=True):
        tx.after_commit(functools.partial(_log_outcome, service, row, out.request_id))
    return True


# --- Threads --------------------------------------------------------------------------------------------------------


def _continue_thread(service: AppContext, tx: Tx, row: PostRow, previous: str | None, request_id: str | None) -> None:
    """Start or end the next piece of a thread, in the transaction that ends this one."""
    if row["thread_position"] is None:
        return
    first = row["thread_of"] or row["id"]
    found = sql.fetch_one(publish_runs.FIND_NEXT_PIECE, (row["batch"], row["position"], first))
    if found is None:
        return
    piece, account = found
    if row["status"] == "published":
        assert previous is not None, "a published piece tells what the next one replies to"
        _start_piece(service, tx, piece, account, row["platform"], previous)
    elif row["status"] == "canceled":
        apply(service, tx, "disconnect", piece, request_id=request_id)
    else:
        apply(service, tx, "stop", piece, request_id=request_id, **_build_stop_columns(service, row))


def _start_piece(service: AppContext, tx: Tx, piece: str, account: str, platform: str, previous: str) -> None:
    """Store what the piece replies to, and make it due: until then it has no job."""
    at = service.now_ms + find_pause_ms(platform)
    if sql.update(publish_runs.START_PIECE, (piece, previous, at, service.now_ms)):
        service.jobs.put(tx, "publish", piece, at, account, upstreams.load_share_key(service, account))


def find_pause_ms(platform: str) -> int:
    """Return the milliseconds from a piece to the one after it."""
    support = platforms.platform(platform).thread
    return int(support.pause * 1000) if support else 0


def _build_stop_columns(service: AppContext, row: PostRow) -> dict[str, Any]:
    """Build the error columns of a piece whose previous one ended otherwise than published."""
    message = (
        f"The piece of the thread before this one, post {row['id']}, is `{row['status']}`, so this one was not sent."
    )
    error = rule_error("thread.previous_missing", message)
    error.platform = row["platform"]
    return {
        "error": dumps(build_error_body(error, service.base_url)),
        "error_code": error.code,
        "next_attempt_at": None,
    }


def list_later_pieces(row: PostRow) -> list[PostRow]:
    """List the pieces of the row's thread that follow it, in order."""
    if row["thread_position"] is None:
        return []
    values = row["batch"], row["position"], row["thread_of"] or row["id"]
    return [sql.to_row(PostRow, found) for found in sql.fetch_all(publish_runs.FIND_LATER_PIECES, values)]


def is_waiting_piece(row: PostRow) -> bool:
    """Return whether the post is a piece of a thread whose previous one is not published."""
    return row["thread_of"] is not None and row["previous"] is None


# --- Statements ------------------------------------------------------------------------------------------------------


def _format_sources(name: str) -> str:
    return ", ".join(f"'{source}'" for source in sorted(TRANSITIONS[name].sources))


@functools.cache
def _build_bulk_update(name: str, same: str, columns: tuple[str, ...]) -> BulkUpdate:
    """Build the UPDATE of several posts: `same` is SQL for all, `columns` have own values."""
    changes = ", ".join(f"{column} = own.column{index}" for index, column in enumerate(columns, 2))
    text = (
        f"UPDATE post SET status = '{TRANSITIONS[name].target}', updated_at = ?1, {same}, {changes}"
        f" FROM {{rows}} AS own WHERE post.id = own.column1 AND post.status IN ({_format_sources(name)})"
    )
    return BulkUpdate(text, own=1 + len(columns), shared=1)


_PUBLISHED_COLUMNS = "published_at = ?1, error = NULL, error_code = NULL, saved = NULL"


def _build_published_row(out: PublishedUpdate, now: int) -> PostRow:
    same = {"updated_at": now, "published_at": now, "error": None, "error_code": None, "saved": None}
    return cast(PostRow, {**out.post, "status": TRANSITIONS["publish"].target, **same, **out.columns})


def apply_claims(service: AppContext, tx: Tx, claimed: Sequence[tuple[PostRow, Mapping[str, Any]]]) -> list[PostRow]:
    """Apply the transition `claim` to posts that set the same columns; return the updated rows.

    The caller has read them in this transaction, in a source state.
    """
    if not claimed:
        return []
    now, columns = service.now_ms, tuple(claimed[0][1])
    changes = _build_bulk_update("claim", "next_attempt_at = NULL", columns)
    moved = sql.update_all(changes, [(post["id"], *own.values()) for post, own in claimed], (now,))
    assert moved == len(claimed), "they were read in this transaction"
    same = {"status": TRANSITIONS["claim"].target, "updated_at": now, "next_attempt_at": None}
    return [cast(PostRow, {**post, **same, **own}) for post, own in claimed]


def _build_published_event(row: PostRow) -> events.PostEventInput:
    (type_,) = TRANSITIONS["publish"].events
    data = functools.partial(_DATA_BUILDERS[type_], row, {})
    stored = events.encode_data(type_, data(), row["scheduled_at"])
    return events.PostEventInput(type_, row["profile"], row["id"], row["number"], stored, data)


def _notify_waiters(service: AppContext, tx: Tx, batch: str) -> None:
    service.batch_observers.notify(tx, batch)
    tx.after_commit(functools.partial(service.waiting.notify, f"batch:{batch}"))


def _get_publish_time(row: PostRow) -> int:
    return row["created_at"] if row["scheduled_at"] is None else row["scheduled_at"]


def _update_row(
    now: int, name: str, post: str, where: tuple[str, int] | None, columns: Mapping[str, Any]
) -> PostRow | None:
    condition, *values = where or ("TRUE",)
    text = _build_update(name, condition, tuple(columns))
    found = sql.fetch_one(text, (now, *columns.values(), post, *values))
    return None if found is None else sql.to_row(PostRow, found)


@functools.cache
def _build_update(name: str, condition: str, columns: tuple[str, ...]) -> str:
    """Build the UPDATE of one post that sets these columns."""
    changes = ", ".join(f"{column} = ?" for column in ("updated_at", *columns))
    return (
        f"UPDATE post SET status = '{TRANSITIONS[name].target}', {changes}"
        f" WHERE id = ? AND status IN ({_format_sources(name)}) AND {condition}"
        f" RETURNING {publish_runs.POST_COLUMNS}"
    )


class AcceptedPost(TypedDict):
    """Columns that the events of an accepted post need."""

    number: int
    id: str
    organization: str
    profile: str
    account: str
    platform: str
    batch: str
    scheduled_at: int | None
    updated_at: int


def build_accepted_events(rows: Sequence[AcceptedPost]) -> list[events.PostEventInput]:
    """Build the events of newly accepted posts."""
    built = []
    for row in rows:
        stored = events.EncodedEventData(row["scheduled_at"], None)
        for type_ in ("post.validated",) if row["scheduled_at"] is None else ("post.queued", "post.validated"):
            data = functools.partial(_ACCEPTED_DATA_BUILDERS[type_], row, {})
            built.append(events.PostEventInput(type_, row["profile"], row["id"], row["number"], stored, data))
    return built


def _emit(
    service: AppContext, tx: Tx, type_: str, row: PostRow, data: PostEvent, request_id: str | None, now: int
) -> None:
    """Emit an event of a post."""
    events.emit(
        service,
        tx,
        type_,
        row["organization"],
        data,
        profile=row["profile"],
        post=row["id"],
        stored=events.encode_data(type_, data, row["scheduled_at"]),
        request_id=request_id,
        now=now,
    )


def _find_request(row: PostRow) -> str | None:
    """Find the id of the request that created the post's batch."""
    found: str | None = sql.fetch_value(publish_runs.FIND_REQUEST_ID, (row["batch"],))
    return found


_LOG_LINE = "post %s %s: account %s, %s, attempt %s, batch %s, request %s, due %s, after %d ms%s"
_LOG_FIELDS = ("post", "outcome", "account", "platform", "attempt", "batch", "request", "due", "ms", "why")


def _log_outcome(service: AppContext, row: PostRow, request_id: str | None) -> None:
    """Count an outcome and log it, with ids only: a platform's message may hold private text.

    The line has the due time and the delay in ms, to explain a late post.
    """
    due = _get_publish_time(row)
    error = json.loads(row["error"]) if row["error"] else {}
    outcome = row["status"] if row["status"] in TERMINAL_STATES else "failed, will be retried"
    why = " ".join(error[name] for name in ("code", "rule") if name in error)
    metrics.POST_OUTCOMES.labels(row["platform"], outcome if row["status"] in TERMINAL_STATES else "retry").inc()
    if log.isEnabledFor(logging.INFO):
        ids = row["account"], row["platform"], row["attempts"], row["batch"], request_id
        times = format_iso(due), max(0, row["updated_at"] - due)
        log.info(_LOG_LINE, row["id"], outcome, *ids, *times, f": {why}" if why else "", extra={"names": _LOG_FIELDS})


def _build_common(row: AcceptedPost) -> PostEvent:
    return {
        "id": row["id"],
        "batchId": row["batch"],
        "platform": row["platform"],
        "accountId": row["account"],
        "profileId": row["profile"],
        "scheduledAt": format_iso(row["scheduled_at"]),
    }


def _build_queued(row: AcceptedPost, _: TransitionData) -> PostQueued:
    return {**_build_common(row), "queuedAt": format_iso(row["updated_at"])}


def _build_validated(row: AcceptedPost, _: TransitionData) -> PostValidated:
    return {**_build_common(row), "validatedAt": format_iso(row["updated_at"])}


def _build_published(row: PostRow, _: TransitionData) -> PostPublished:
    assert row["published_at"] is not None, "the transition sets it"
    data: PostPublished = {
        **_build_common(row),
        "publishedAt": format_iso(row["published_at"]),
        "uri": row["platform_uri"],
        "cid": row["platform_cid"],
        "url": row["url"],
        "firstCommentUri": cast_present(row["first_comment_uri"] or None),
        "firstCommentCid": cast_present(row["first_comment_cid"] or None),
        "warnings": cast_present(sql.load_json(row["warnings"]) or None),
    }
    return without_none(data, "firstCommentUri", "firstCommentCid", "warnings")


def _parse_error(row: PostRow) -> ErrorBody:
    assert row["error"] is not None, "the transition sets it"
    return cast(ErrorBody, json.loads(row["error"]))


def _build_rejected(row: PostRow, _: TransitionData) -> PostRejected:
    return {**_build_common(row), "rejectedAt": format_iso(row["updated_at"]), "error": _parse_error(row)}


def _build_failed(row: PostRow, _: TransitionData) -> PostFailed:
    return {
        **_build_common(row),
        "failedAt": format_iso(row["updated_at"]),
        "error": _parse_error(row),
        "willRetry": row["status"] == "validated",
        "nextAttemptAt": format_iso(row["next_attempt_at"]),
    }


def _build_rescheduled(row: PostRow, extra: TransitionData) -> PostRescheduled:
    return {**_build_common(row), "previousScheduledAt": extra["previousScheduledAt"]}


def _build_edited(row: PostRow, extra: TransitionData) -> PostEdited:
    return {**_build_common(row), "changed": extra["changed"], "editedAt": format_iso(row["updated_at"])}


def _build_canceled(row: PostRow, _: TransitionData) -> PostCanceled:
    return {**_build_common(row), "canceledAt": format_iso(row["updated_at"])}


_ACCEPTED_DATA_BUILDERS: dict[str, Callable[[AcceptedPost, TransitionData], PostEvent]] = {
    "post.queued": _build_queued,
    "post.validated": _build_validated,
}

_DATA_BUILDERS: dict[str, Callable[[PostRow, TransitionData], PostEvent]] = {
    **_ACCEPTED_DATA_BUILDERS,
    "post.published": _build_published,
    "post.rejected": _build_rejected,
    "post.failed": _build_failed,
    "post.rescheduled": _build_rescheduled,
    "post.edited": _build_edited,
    "post.canceled": _build_canceled,
}


class PreparedColumns(TypedDict):
    """Columns that tell what the preparation of a post has created at the platform."""

    platform: str
    saved: str | None


def is_completed_remotely(post: PreparedColumns) -> bool:
    """Return whether the platform completes the prepared post by itself."""
    is_delivered = platforms.platform(post["platform"]).is_delivered
    return bool(post["saved"] and is_delivered and is_delivered(json.loads(post["saved"])))
