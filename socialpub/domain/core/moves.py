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
from socialpub.base import metrics
from socialpub.base.runtime import iso
from socialpub.domain.core import events
from socialpub.domain.core.service import Service
from socialpub.domain.shapes.common import some, without_none
from socialpub.domain.shapes.errors import ErrorBody
from socialpub.domain.shapes.events import (
    PostCanceled,
    PostEvent,
    PostFailed,
    PostPublished,
    PostQueued,
    PostRejected,
    PostRescheduled,
    PostValidated,
)
from socialpub.store import sql
from socialpub.store.db import Tx
from socialpub.store.models import Post, the_row
from socialpub.store.rows import PostRow
from socialpub.store.statements import publishing
from socialpub.store.statements.rows import Changes

log = logging.getLogger("socialpub.posts")


class Extra(TypedDict, total=False):
    """What the row as it is now does not tell the data of an event."""

    previousScheduledAt: str


@dataclass(frozen=True)
class Move:
    """From which states to which, and what is told."""

    sources: frozenset[str]
    target: str
    events: tuple[str, ...] = ()


def _move(sources: str, target: str, *told: str) -> Move:
    return Move(frozenset(sources.split()), target, told)


MOVES: dict[str, Move] = {
    # By the protocol.
    "claim": _move("queued validated", "publishing"),
    "publish": _move("publishing", "published", "post.published"),
    "reject": _move("publishing", "rejected", "post.rejected"),
    "fail": _move("publishing", "failed", "post.failed"),
    "wait": _move("publishing", "validated", "post.failed"),  # for the next attempt
    "doubt": _move("validated", "failed", "post.failed"),  # between two attempts, of what goes on without us
    # Before anything was sent.
    "overdue": _move("queued validated publishing", "failed", "post.failed"),
    "refuse": _move("queued validated", "rejected", "post.rejected"),
    # By a person.
    "reschedule": _move("queued", "queued", "post.rescheduled"),
    "cancel": _move("queued", "canceled", "post.canceled"),
    "disconnect": _move("queued validated", "canceled", "post.canceled"),
    "retry": _move("failed rejected", "validated", "post.validated"),
    "retry_at": _move("failed rejected", "queued", "post.queued", "post.validated"),
    "settle_published": _move("failed", "published", "post.published"),
    "settle_absent": _move("failed", "failed"),
}


GOES_ELSEWHERE = frozenset(("reschedule", "retry", "retry_at"))  # it goes out at another time than before
OPEN = tuple(sorted(MOVES["overdue"].sources))  # whoever has not come to an end can still be too late
WAITING = tuple(sorted(MOVES["disconnect"].sources))  # nothing of it is under way
_TOLD = frozenset(("failed", "rejected"))  # with an error in the row, which the events that tell of it leave there
TERMINAL = frozenset(move.target for move in MOVES.values()) - frozenset(OPEN)


def move(
    service: Service,
    tx: Tx,
    name: str,
    post: str,
    *,
    where: Any = None,
    data: Extra | None = None,
    request_id: str | None = None,
    **columns: Any,
) -> PostRow | None:
    """Make a move and write its events; the row as it is now, or None when the row was not in the right state.

    `where` narrows the update further (a time window). `data`: what the row as it is now cannot tell its events.
    """
    if MOVES[name].sources <= _TOLD:
        events.keep_error(tx, post)
    now = service.now_ms  # of the row and of what is told of it
    row, receivers = (
        _moved(now, name, post, columns)
        if where is None
        else (_moved_within(tx, now, name, post, where, columns), None)
    )
    if row is None:
        return None
    request_id = request_id or _request_of(row)
    for type_ in MOVES[name].events:
        _tell(service, tx, type_, row, _DATA[type_](row, data or {}), request_id, receivers, now)
    if row["status"] in TERMINAL:
        _seen(service, tx, row)
    if row["status"] in TERMINAL or name == "wait":
        tx.after_commit(lambda: _told(service, row, request_id))
    if name in GOES_ELSEWHERE:
        tx.after_commit(lambda: service.lately.forget(row["account"], row["platform"]))
    elif row["status"] in ("canceled", "rejected"):
        tx.after_commit(lambda: service.lately.went(row["account"], row["platform"], _goes_at(row)))
    return row


class Out(NamedTuple):
    """A post that is out: its row as it is, its organization's number, and what the row is to have of it.

    `request_id`: the request that made its batch.
    """

    post: PostRow
    organization: int
    columns: Mapping[str, Any]
    request_id: str | None


def publish(service: Service, tx: Tx, outs: Sequence[Out]) -> bool:
    """Make the move `publish` of some posts, with the same columns of each; False, and nothing told, where that was
    not all of them.
    """
    now, columns = service.now_ms, tuple(outs[0].columns)
    rows = [(out.post["id"], *out.columns.values()) for out in outs]
    if sql.change_all(_of_several("publish", _OUT, columns), rows, (now,)) < len(outs):
        return False
    moved = [_out(out, now) for out in outs]
    theirs: dict[int, list[tuple[Out, PostRow]]] = {}
    for out, row in zip(outs, moved, strict=True):
        theirs.setdefault(out.organization, []).append((out, row))
    told = [
        (events.audience(service, some[0][1]["organization"], number), [_told_of(row) for _, row in some])
        for number, some in theirs.items()
    ]
    events.emit_all(service, tx, told, now)
    for row in {row["batch"]: row for row in moved}.values():
        _seen(service, tx, row)
    for out, row in zip(outs, moved, strict=True):
        tx.after_commit(functools.partial(_told, service, row, out.request_id))
    return True


def _sources(name: str) -> str:
    """The states from which a move goes, as SQL has them."""
    return ", ".join(f"'{source}'" for source in sorted(MOVES[name].sources))


@functools.cache
def _of_several(name: str, same: str, columns: tuple[str, ...]) -> Changes:
    """The statement of a move of several posts, which has `same` for all of them, and of each its own columns."""
    changes = ", ".join(f"{column} = own.column{place}" for place, column in enumerate(columns, 2))
    text = (
        f"UPDATE post SET status = '{MOVES[name].target}', updated_at = ?1, {same}, {changes}"
        f" FROM {{rows}} AS own WHERE post.id = own.column1 AND post.status IN ({_sources(name)})"
    )
    return Changes(text, own=1 + len(columns), shared=1)


_OUT = "published_at = ?1, error = NULL, error_code = NULL, saved = NULL"


def _out(out: Out, now: int) -> PostRow:
    """The row as it is from now on."""
    same = {"updated_at": now, "published_at": now, "error": None, "error_code": None, "saved": None}
    return cast(PostRow, {**out.post, "status": MOVES["publish"].target, **same, **out.columns})


def claim(service: Service, tx: Tx, claimed: Sequence[tuple[PostRow, Mapping[str, Any]]]) -> list[PostRow]:
    """Make the move `claim` of some posts that were read in this transaction, in the right state, with the same columns
    of each; the rows as they are now.
    """
    if not claimed:
        return []
    now, columns = service.now_ms, tuple(claimed[0][1])
    changes = _of_several("claim", "next_attempt_at = NULL", columns)
    moved = sql.change_all(changes, [(post["id"], *own.values()) for post, own in claimed], (now,))
    assert moved == len(claimed), "they were read in this transaction"
    same = {"status": MOVES["claim"].target, "updated_at": now, "next_attempt_at": None}
    return [cast(PostRow, {**post, **same, **own}) for post, own in claimed]


def _told_of(row: PostRow) -> events.Told:
    """The event of a post that is out."""
    (type_,) = MOVES["publish"].events
    data = functools.partial(_DATA[type_], row, {})
    kept = events.kept_of(type_, data(), row["scheduled_at"])
    return events.Told(type_, row["profile"], row["id"], row["number"], kept, data)


def _seen(service: Service, tx: Tx, row: PostRow) -> None:
    """A post has come to its end: first of all for whoever waits for its batch."""
    service.hub.seen(tx, f"batch:{row['batch']}", row)


def _goes_at(row: PostRow) -> int:
    return row["created_at"] if row["scheduled_at"] is None else row["scheduled_at"]


def _moved(
    now: int, name: str, post: str, columns: Mapping[str, Any]
) -> tuple[PostRow | None, Sequence[events.Receiver] | None]:
    """The row as it is now, and who is told; both None where it was not in the right state."""
    found = sql.first(_text(name, tuple(columns)), (now, *columns.values(), post))
    return (None, None) if found is None else (sql.row(PostRow, found[:-1]), sql.loads(found[-1]))


@functools.cache
def _text(name: str, columns: tuple[str, ...]) -> str:
    """The statement of a move that changes these columns, made once for each that there is."""
    changes = ", ".join(f"{column} = ?" for column in ("updated_at", *columns))
    return (
        f"UPDATE post SET status = '{MOVES[name].target}', {changes} WHERE id = ? AND status IN ({_sources(name)})"
        f" RETURNING {publishing.POST}, {publishing.RECEIVERS if MOVES[name].events else publishing.NOBODY}"
    )


def _moved_within(tx: Tx, now: int, name: str, post: str, where: Any, columns: Mapping[str, Any]) -> PostRow | None:
    """The same where it is asked for more than the state."""
    condition = (Post.id == post) & Post.status.in_(sorted(MOVES[name].sources)) & where
    changed = Post.update(status=MOVES[name].target, updated_at=now, **columns).where(condition).execute()
    return the_row(Post, post) if changed else None


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


def accepted(rows: Sequence[NewPost]) -> list[events.Told]:
    """The events of posts that their requests have just made."""
    told = []
    for row in rows:
        kept = events.Kept(row["scheduled_at"], None)
        for type_ in ("post.validated",) if row["scheduled_at"] is None else ("post.queued", "post.validated"):
            data = functools.partial(_ACCEPTED[type_], row, {})
            told.append(events.Told(type_, row["profile"], row["id"], row["number"], kept, data))
    return told


def _tell(
    service: Service,
    tx: Tx,
    type_: str,
    row: PostRow,
    data: PostEvent,
    request_id: str | None,
    receivers: Sequence[events.Receiver] | None,
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
        kept=events.kept_of(type_, data, row["scheduled_at"]),
        request_id=request_id,
        receivers=receivers,
        now=now,
    )


def _request_of(row: PostRow) -> str | None:
    """The request that made the post's batch."""
    found: str | None = sql.value(publishing.REQUEST, (row["batch"],))
    return found


_LINE = "post %s %s: account %s, %s, attempt %s, batch %s, request %s, due %s, after %d ms%s"
_NAMES = ("post", "outcome", "account", "platform", "attempt", "batch", "request", "due", "ms", "why")


def _told(service: Service, row: PostRow, request_id: str | None) -> None:
    """An outcome is counted, and has one line in the log; ids only, for a platform's words may hold anything.

    When it was meant to be out, and how long after that it came to this, is what whoever missed it looks for.
    """
    due = row["created_at"] if row["scheduled_at"] is None else row["scheduled_at"]
    error = json.loads(row["error"]) if row["error"] else {}
    outcome = row["status"] if row["status"] in TERMINAL else "failed, is tried again"
    why = " ".join(error[name] for name in ("code", "rule") if name in error)
    metrics.POST_OUTCOMES.labels(row["platform"], outcome if row["status"] in TERMINAL else "retry").inc()
    if log.isEnabledFor(logging.INFO):
        whose = row["account"], row["platform"], row["attempts"], row["batch"], request_id
        when = iso(due), max(0, row["updated_at"] - due)
        told = (row["id"], outcome, *whose, *when, f": {why}" if why else "")
        log.info(_LINE, *told, extra={"names": _NAMES})


def _common(row: AcceptedPost) -> PostEvent:
    return {
        "id": row["id"],
        "batchId": row["batch"],
        "platform": row["platform"],
        "accountId": row["account"],
        "profileId": row["profile"],
        "scheduledAt": iso(row["scheduled_at"]),
    }


def _queued(row: AcceptedPost, _: Extra) -> PostQueued:
    return {**_common(row), "queuedAt": iso(row["updated_at"])}


def _validated(row: AcceptedPost, _: Extra) -> PostValidated:
    return {**_common(row), "validatedAt": iso(row["updated_at"])}


def _published(row: PostRow, _: Extra) -> PostPublished:
    assert row["published_at"] is not None, "the move writes it"
    data: PostPublished = {
        **_common(row),
        "publishedAt": iso(row["published_at"]),
        "uri": row["platform_uri"],
        "cid": row["platform_cid"],
        "url": row["url"],
        "firstCommentUri": some(row["first_comment_uri"] or None),
        "firstCommentCid": some(row["first_comment_cid"] or None),
        "warnings": some(sql.loads(row["warnings"]) or None),
    }
    return without_none(data, "firstCommentUri", "firstCommentCid", "warnings")


def _error(row: PostRow) -> ErrorBody:
    """The error of a post that has one."""
    assert row["error"] is not None, "the move writes it"
    return cast(ErrorBody, json.loads(row["error"]))


def _rejected(row: PostRow, _: Extra) -> PostRejected:
    return {**_common(row), "rejectedAt": iso(row["updated_at"]), "error": _error(row)}


def _failed(row: PostRow, _: Extra) -> PostFailed:
    return {
        **_common(row),
        "failedAt": iso(row["updated_at"]),
        "error": _error(row),
        "willRetry": row["status"] == "validated",
        "nextAttemptAt": iso(row["next_attempt_at"]),
    }


def _rescheduled(row: PostRow, extra: Extra) -> PostRescheduled:
    return {**_common(row), "previousScheduledAt": extra["previousScheduledAt"]}


def _canceled(row: PostRow, _: Extra) -> PostCanceled:
    return {**_common(row), "canceledAt": iso(row["updated_at"])}


_ACCEPTED: dict[str, Callable[[AcceptedPost, Extra], PostEvent]] = {
    "post.queued": _queued,
    "post.validated": _validated,
}

_DATA: dict[str, Callable[[PostRow, Extra], PostEvent]] = {
    **_ACCEPTED,
    "post.published": _published,
    "post.rejected": _rejected,
    "post.failed": _failed,
    "post.rescheduled": _rescheduled,
    "post.canceled": _canceled,
}


class Prepared(TypedDict):
    """What of a post's row tells what preparing has left."""

    platform: str
    saved: str | None


def goes_on(post: Prepared) -> bool:
    """Whether what preparing has left at the platform reaches its place without us."""
    delivers = platforms.platform(post["platform"]).delivers
    return bool(post["saved"] and delivers and delivers(json.loads(post["saved"])))
