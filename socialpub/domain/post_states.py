"""A post row's allowed moves: one conditional UPDATE each, with its event, in the caller's transaction.

One row moved: the caller owns it. None: somebody else was faster, or the post is past that.
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
from socialpub.base.observability import metrics
from socialpub.base.runtime import format_iso
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.events import events
from socialpub.domain.schemas.common import cast_present, without_none
from socialpub.domain.schemas.errors import ErrorBody
from socialpub.domain.schemas.events import (
    PostCanceled,
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
from socialpub.store.schema.models import Post, get_row

log = logging.getLogger("socialpub.posts")


class TransitionData(TypedDict, total=False):
    """What the row as it is now does not tell the data of an event."""

    previousScheduledAt: str


@dataclass(frozen=True)
class Transition:
    """From which states to which, and what is told."""

    sources: frozenset[str]
    target: str
    events: tuple[str, ...] = ()


def _define(sources: str, target: str, *told: str) -> Transition:
    return Transition(frozenset(sources.split()), target, told)


TRANSITIONS: dict[str, Transition] = {
    # By the protocol.
    "claim": _define("queued validated", "publishing"),
    "publish": _define("publishing", "published", "post.published"),
    "reject": _define("publishing", "rejected", "post.rejected"),
    "fail": _define("publishing", "failed", "post.failed"),
    "wait": _define("publishing", "validated", "post.failed"),  # for the next attempt
    "doubt": _define("validated", "failed", "post.failed"),  # between two attempts, of what goes on without us
    # Before anything was sent.
    "overdue": _define("queued validated publishing", "failed", "post.failed"),
    "refuse": _define("queued validated", "rejected", "post.rejected"),
    # By a person.
    "reschedule": _define("queued", "queued", "post.rescheduled"),
    "cancel": _define("queued", "canceled", "post.canceled"),
    "disconnect": _define("queued validated", "canceled", "post.canceled"),
    "retry": _define("failed rejected", "validated", "post.validated"),
    "retry_at": _define("failed rejected", "queued", "post.queued", "post.validated"),
    "settle_published": _define("failed", "published", "post.published"),
    "settle_absent": _define("failed", "failed"),
}


RESCHEDULING_TRANSITIONS = frozenset(("reschedule", "retry", "retry_at"))  # it goes out at another time than before
OPEN_STATES = tuple(sorted(TRANSITIONS["overdue"].sources))  # whoever has not come to an end can still be too late
WAITING_STATES = tuple(sorted(TRANSITIONS["disconnect"].sources))  # nothing of it is under way
_ERROR_STATES = frozenset(
    ("failed", "rejected")
)  # with an error in the row, which the events that tell of it leave there
TERMINAL_STATES = frozenset(move.target for move in TRANSITIONS.values()) - frozenset(OPEN_STATES)


def apply(
    service: AppContext,
    tx: Tx,
    name: str,
    post: str,
    *,
    where: Any = None,
    data: TransitionData | None = None,
    request_id: str | None = None,
    **columns: Any,
) -> PostRow | None:
    """Make a move and write its events; the row as it is now, or None when the row was not in the right state.

    `where` narrows the update further (a time window). `data`: what the row as it is now cannot tell its events.
    """
    if TRANSITIONS[name].sources <= _ERROR_STATES:
        events.preserve_error(tx, post)
    now = service.now_ms  # of the row and of what is told of it
    row, receivers = (
        _update_row(now, name, post, columns)
        if where is None
        else (_update_row_where(tx, now, name, post, where, columns), None)
    )
    if row is None:
        return None
    request_id = request_id or _find_request(row)
    for type_ in TRANSITIONS[name].events:
        _emit(service, tx, type_, row, _DATA_BUILDERS[type_](row, data or {}), request_id, receivers, now)
    if row["status"] in TERMINAL_STATES:
        _notify_waiters(service, tx, row)
    if row["status"] in TERMINAL_STATES or name == "wait":
        tx.after_commit(lambda: _log_outcome(service, row, request_id))
    if name in RESCHEDULING_TRANSITIONS:
        tx.after_commit(lambda: service.lately.forget(row["account"], row["platform"]))
    elif row["status"] in ("canceled", "rejected"):
        tx.after_commit(lambda: service.lately.went(row["account"], row["platform"], _get_publish_time(row)))
    return row


class PublishedUpdate(NamedTuple):
    """A post that is out: its row as it is, its organization's number, and what the row is to have of it.

    `request_id`: the request that made its batch.
    """

    post: PostRow
    organization: int
    columns: Mapping[str, Any]
    request_id: str | None


def apply_published(service: AppContext, tx: Tx, outs: Sequence[PublishedUpdate]) -> bool:
    """Make the move `apply_published` of some posts, with the same columns of each; False, and nothing told, where
    that was not all of them.
    """
    now, columns = service.now_ms, tuple(outs[0].columns)
    rows = [(out.post["id"], *out.columns.values()) for out in outs]
    if sql.update_all(_build_bulk_update("publish", _PUBLISHED_COLUMNS, columns), rows, (now,)) < len(outs):
        return False
    moved = [_build_published_row(out, now) for out in outs]
    theirs: dict[int, list[tuple[PublishedUpdate, PostRow]]] = {}
    for out, row in zip(outs, moved, strict=True):
        theirs.setdefault(out.organization, []).append((out, row))
    told = [
        (
            events.load_audience(service, some[0][1]["organization"], number),
            [_build_published_event(row) for _, row in some],
        )
        for number, some in theirs.items()
    ]
    events.emit_many(service, tx, told, now)
    for row in {row["batch"]: row for row in moved}.values():
        _notify_waiters(service, tx, row)
    for out, row in zip(outs, moved, strict=True):
        tx.after_commit(functools.partial(_log_outcome, service, row, out.request_id))
    return True


def _format_sources(name: str) -> str:
    """The states from which a move goes, as SQL has them."""
    return ", ".join(f"'{source}'" for source in sorted(TRANSITIONS[name].sources))


@functools.cache
def _build_bulk_update(name: str, same: str, columns: tuple[str, ...]) -> BulkUpdate:
    """The statement of a move of several posts, which has `same` for all of them, and of each its own columns."""
    changes = ", ".join(f"{column} = own.column{place}" for place, column in enumerate(columns, 2))
    text = (
        f"UPDATE post SET status = '{TRANSITIONS[name].target}', updated_at = ?1, {same}, {changes}"
        f" FROM {{rows}} AS own WHERE post.id = own.column1 AND post.status IN ({_format_sources(name)})"
    )
    return BulkUpdate(text, own=1 + len(columns), shared=1)


_PUBLISHED_COLUMNS = "published_at = ?1, error = NULL, error_code = NULL, saved = NULL"


def _build_published_row(out: PublishedUpdate, now: int) -> PostRow:
    """The row as it is from now on."""
    same = {"updated_at": now, "published_at": now, "error": None, "error_code": None, "saved": None}
    return cast(PostRow, {**out.post, "status": TRANSITIONS["publish"].target, **same, **out.columns})


def apply_claims(service: AppContext, tx: Tx, claimed: Sequence[tuple[PostRow, Mapping[str, Any]]]) -> list[PostRow]:
    """Make the move `apply_claims` of some posts that were read in this transaction, in the right state, with the same
    columns of each; the rows as they are now.
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
    """The event of a post that is out."""
    (type_,) = TRANSITIONS["publish"].events
    data = functools.partial(_DATA_BUILDERS[type_], row, {})
    kept = events.encode_data(type_, data(), row["scheduled_at"])
    return events.PostEventInput(type_, row["profile"], row["id"], row["number"], kept, data)


def _notify_waiters(service: AppContext, tx: Tx, row: PostRow) -> None:
    """A post has come to its end: first of all for whoever waits for its batch."""
    service.hub.seen(tx, f"batch:{row['batch']}", row)


def _get_publish_time(row: PostRow) -> int:
    return row["created_at"] if row["scheduled_at"] is None else row["scheduled_at"]


def _update_row(
    now: int, name: str, post: str, columns: Mapping[str, Any]
) -> tuple[PostRow | None, Sequence[events.EventReceiver] | None]:
    """The row as it is now, and who is told; both None where it was not in the right state."""
    found = sql.fetch_one(_build_update(name, tuple(columns)), (now, *columns.values(), post))
    return (None, None) if found is None else (sql.to_row(PostRow, found[:-1]), sql.load_json(found[-1]))


@functools.cache
def _build_update(name: str, columns: tuple[str, ...]) -> str:
    """The statement of a move that changes these columns, made once for each that there is."""
    changes = ", ".join(f"{column} = ?" for column in ("updated_at", *columns))
    transition = TRANSITIONS[name]
    receivers = publish_runs.RECEIVERS_JSON if transition.events else publish_runs.NO_RECEIVERS_JSON
    return (
        f"UPDATE post SET status = '{transition.target}', {changes}"
        f" WHERE id = ? AND status IN ({_format_sources(name)})"
        f" RETURNING {publish_runs.POST_COLUMNS}, {receivers}"
    )


def _update_row_where(tx: Tx, now: int, name: str, post: str, where: Any, columns: Mapping[str, Any]) -> PostRow | None:
    """The same where it is asked for more than the state."""
    condition = (Post.id == post) & Post.status.in_(sorted(TRANSITIONS[name].sources)) & where
    changed = Post.update(status=TRANSITIONS[name].target, updated_at=now, **columns).where(condition).execute()
    return get_row(Post, post) if changed else None


class AcceptedPost(TypedDict):
    """What of a post's row its events tell when it is accepted."""

    id: str
    organization: str
    profile: str
    account: str
    platform: str
    batch: str
    scheduled_at: int | None
    updated_at: int


class NewPost(AcceptedPost):
    """The same of one that is just being accepted, and the number that its row has."""

    number: int


def build_accepted_events(rows: Sequence[NewPost]) -> list[events.PostEventInput]:
    """The events of posts that their requests have just made."""
    told = []
    for row in rows:
        kept = events.EncodedEventData(row["scheduled_at"], None)
        for type_ in ("post.validated",) if row["scheduled_at"] is None else ("post.queued", "post.validated"):
            data = functools.partial(_ACCEPTED_DATA_BUILDERS[type_], row, {})
            told.append(events.PostEventInput(type_, row["profile"], row["id"], row["number"], kept, data))
    return told


def _emit(
    service: AppContext,
    tx: Tx,
    type_: str,
    row: PostRow,
    data: PostEvent,
    request_id: str | None,
    receivers: Sequence[events.EventReceiver] | None,
    now: int,
) -> None:
    events.emit(
        service,
        tx,
        type_,
        row["organization"],
        data,
        profile=row["profile"],
        post=row["id"],
        kept=events.encode_data(type_, data, row["scheduled_at"]),
        request_id=request_id,
        receivers=receivers,
        now=now,
    )


def _find_request(row: PostRow) -> str | None:
    """The request that made the post's batch."""
    found: str | None = sql.fetch_value(publish_runs.FIND_REQUEST_ID, (row["batch"],))
    return found


_LOG_LINE = "post %s %s: account %s, %s, attempt %s, batch %s, request %s, due %s, after %d ms%s"
_LOG_FIELDS = ("post", "outcome", "account", "platform", "attempt", "batch", "request", "due", "ms", "why")


def _log_outcome(service: AppContext, row: PostRow, request_id: str | None) -> None:
    """An outcome is counted, and has one line in the log; ids only, for a platform's words may hold anything.

    When it was meant to be out, and how long after that it came to this, is what whoever missed it looks for.
    """
    due = row["created_at"] if row["scheduled_at"] is None else row["scheduled_at"]
    error = json.loads(row["error"]) if row["error"] else {}
    outcome = row["status"] if row["status"] in TERMINAL_STATES else "failed, is tried again"
    why = " ".join(error[name] for name in ("code", "rule") if name in error)
    metrics.POST_OUTCOMES.labels(row["platform"], outcome if row["status"] in TERMINAL_STATES else "retry").inc()
    if log.isEnabledFor(logging.INFO):
        whose = row["account"], row["platform"], row["attempts"], row["batch"], request_id
        when = format_iso(due), max(0, row["updated_at"] - due)
        told = (row["id"], outcome, *whose, *when, f": {why}" if why else "")
        log.info(_LOG_LINE, *told, extra={"names": _LOG_FIELDS})


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
    assert row["published_at"] is not None, "the move writes it"
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
    """The error of a post that has one."""
    assert row["error"] is not None, "the move writes it"
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
    "post.canceled": _build_canceled,
}


class PreparedColumns(TypedDict):
    """What of a post's row tells what preparing has left."""

    platform: str
    saved: str | None


def is_completed_remotely(post: PreparedColumns) -> bool:
    """Whether what preparing has left at the platform reaches its place without us."""
    delivers = platforms.platform(post["platform"]).delivers
    return bool(post["saved"] and delivers and delivers(json.loads(post["saved"])))
