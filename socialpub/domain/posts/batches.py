"""What became of a batch: its answer from the rows as they are, and waiting for its end."""

from __future__ import annotations

import asyncio
import functools
import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Concatenate, ParamSpec, TypeVar

from typing_extensions import TypedDict

from socialpub.base.compact import dumps
from socialpub.base.errors import ApiError
from socialpub.base.runtime import iso
from socialpub.domain.core import moves
from socialpub.domain.core.service import Service
from socialpub.domain.people import limits
from socialpub.domain.shapes.common import some, without_none
from socialpub.domain.shapes.errors import warning_body
from socialpub.domain.shapes.posts import BatchBody, BatchStatus, Result
from socialpub.platforms.kit.rules import warning
from socialpub.store.db import Promise, Tx
from socialpub.store.models import Batch, Post, columns_of, the_row
from socialpub.store.rows import PostStatus

log = logging.getLogger("socialpub.batches")

T = TypeVar("T")
P = ParamSpec("P")
AFTERWARDS_SECONDS = 2.0
MAYBE = ("uri", "cid", "url", "firstCommentUri", "firstCommentCid", "warnings", "error")


class Shown(TypedDict):
    """What of a post's row its batch shows."""

    id: str
    account: str
    platform: str
    status: PostStatus
    scheduled_at: int | None
    platform_uri: str | None
    platform_cid: str | None
    url: str | None
    first_comment_uri: str | None
    first_comment_cid: str | None
    warnings: str
    error: str | None


class Head(TypedDict):
    """What of a batch's row it shows."""

    id: str
    created_at: int
    scheduled_at: int | None


def accepted(post: str, account: str, platform: str, at_ms: int | None, warnings: str) -> Shown:
    """The row of a target that has just been accepted."""
    return {
        "id": post,
        "account": account,
        "platform": platform,
        "status": "validated" if at_ms is None else "queued",
        "scheduled_at": at_ms,
        "platform_uri": None,
        "platform_cid": None,
        "url": None,
        "first_comment_uri": None,
        "first_comment_cid": None,
        "warnings": warnings,
        "error": None,
    }


# All columns take twice the time, in the transaction that everybody waits for.
_SHOWN = columns_of(Post, Shown)


def batch_body(service: Service, batch: str) -> BatchBody:
    """The batch envelope, from the rows as they are now."""
    head = the_row(Batch, batch)
    return body_of(head, list(Post.select(*_SHOWN).where(Post.batch == batch).order_by(Post.position).dicts()))


def body_of(head: Head, rows: Sequence[Shown]) -> BatchBody:
    """The batch envelope of these rows."""
    body: BatchBody = {
        "id": head["id"],
        "status": _batch_status(head, [row["status"] for row in rows]),
        "createdAt": iso(head["created_at"]),
        "results": [_result(row) for row in rows],
    }
    if head["scheduled_at"] is not None:
        body["scheduledAt"] = iso(head["scheduled_at"])
    return body


def _batch_status(head: Head, statuses: Sequence[str]) -> BatchStatus:
    """`queued` while nothing has failed and something is not settled: nobody may read that as a failure."""
    failed = [status for status in statuses if status in moves.TERMINAL and status != "published"]
    if head["scheduled_at"] is not None or (not failed and not moves.TERMINAL.issuperset(statuses)):
        return "queued"
    if not failed:
        return "published"
    return "failed" if len(failed) == len(statuses) else "partial_failed"


def _result(row: Shown) -> Result:
    unsettled = row["status"] in ("validated", "publishing") and row["scheduled_at"] is None
    warnings = json.loads(row["warnings"]) if row["warnings"] != "[]" else []
    if unsettled:
        warnings.append(warning_body(warning("still_publishing")))
    result: Result = {
        "accountId": row["account"],
        "platform": row["platform"],
        "postId": row["id"],
        # Within the answer a target is either done or on its way.
        "status": "publishing" if unsettled else row["status"],
        "uri": some(row["platform_uri"] or None),
        "cid": some(row["platform_cid"] or None),
        "url": some(row["url"] or None),
        "firstCommentUri": some(row["first_comment_uri"] or None),
        "firstCommentCid": some(row["first_comment_cid"] or None),
        "warnings": some(warnings or None),
        "error": some(json.loads(row["error"]) if row["error"] else None),
    }
    return without_none(result, *MAYBE)


def answer_of(body: BatchBody) -> limits.Answer:
    """A batch as the answer to its request: 202 while it is `queued`, else 200, whatever became of it."""
    return limits.Answer(202 if body["status"] == "queued" else 200, dumps(body), batch=body["id"])


def joined(body: BatchBody) -> limits.Answer:
    """The answer to a request that repeats the one which made the batch: nothing was done for it."""
    note = warning_body(warning("joined_undelivered_batch"))
    results: list[Result] = [{**one, "warnings": [*one.get("warnings", []), note]} for one in body["results"]]
    return replace(answer_of({**body, "results": results}), replayed=True)


def complete(service: Service, tx: Tx, batch: str, key_id: str) -> None:
    """Keep the batch's answer as of now for its key."""
    limits.keep(service, tx, key_id, answer_of(batch_body(service, batch)))


async def as_known(service: Service, opening: BatchBody, seconds: float) -> BatchBody:
    """The batch once every target has come to its end, or as it is after `seconds`, or when the server stops.

    It was accepted, so this never fails: while nothing can be read, it is `opening`, the batch as it was accepted.
    """
    try:
        if "scheduledAt" not in opening:
            await _until_ended(service, opening["id"], seconds)
        return await service.read(lambda: batch_body(service, opening["id"]))
    except Exception as error:  # noqa: BLE001 - it may be public already: whoever hears of a failure sends it again
        log.error("batch %s is answered as it was accepted: %s", opening["id"], error, exc_info=not _is_storage(error))
        return opening


def _is_storage(error: Exception) -> bool:
    return isinstance(error, ApiError) and error.rule == "storage.unavailable"


async def _until_ended(service: Service, batch: str, seconds: float) -> None:
    deadline = service.runtime.clock.monotonic() + seconds
    for post in await service.read(lambda: _open_posts(batch)):
        left = deadline - service.runtime.clock.monotonic()
        await service.hub.until(f"post:{post}", functools.partial(_read_ended, service, post), max(0.0, left))


async def keep_answer(service: Service, key: limits.Key, batch: str, answer: limits.Answer) -> None:
    """Keep the answer of an accepted batch for its key: now, or where that is not known to be done, a little later."""
    if not await afterwards(service, lambda tx: limits.keep(service, tx, key.id, answer)):
        service.unkept.add(batch)


async def afterwards(
    service: Service, write: Callable[Concatenate[Tx, P], object], *args: P.args, **kwargs: P.kwargs
) -> bool:
    """Do a write that belongs to an answer: waited for as long as it is quick; the answer cannot fail by it.

    False where it is not known to be done.
    """
    try:
        await asyncio.wait_for(_done(service.write(lambda tx: write(tx, *args, **kwargs))), AFTERWARDS_SECONDS)
        return True
    except TimeoutError:
        log.warning("an answer was not kept yet: the database is busy")
    except Exception as error:  # noqa: BLE001 - the answer is about what was accepted, and that stands
        log.error("an answer could not be kept: %s", error, exc_info=not _is_storage(error))
    return False


async def _done(promise: Promise[T]) -> T:
    return await promise


def _open_posts(batch: str) -> list[str]:
    query = Post.select(Post.id).where(Post.batch == batch, Post.status.not_in(sorted(moves.TERMINAL)))
    return [row[0] for row in query.order_by(Post.position).tuples()]


def _read_ended(service: Service, post: str) -> Promise[bool | None]:
    return service.read(lambda: _ended(post))


def _ended(post: str) -> bool | None:
    return Post.select().where(Post.id == post, Post.status.in_(sorted(moves.TERMINAL))).exists() or None


def has_ended(batch: str) -> bool:
    """Whether every target of a batch has come to its end."""
    return not Post.select().where(Post.batch == batch, Post.status.not_in(sorted(moves.TERMINAL))).exists()
