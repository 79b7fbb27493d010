"""Batch responses from the current rows, and waiting for a batch to finish."""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Concatenate, ParamSpec, Self, TypeVar

import peewee
from typing_extensions import TypedDict

from socialpub.base.errors import is_storage_unavailable
from socialpub.base.json_codec import dumps
from socialpub.base.runtime import format_iso
from socialpub.domain import post_states
from socialpub.domain.access import idempotency
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.schemas.common import cast_present, without_none
from socialpub.domain.schemas.errors import WarningBody, build_warning_body
from socialpub.domain.schemas.posts import BatchBody, BatchStatus, PieceResult, Result
from socialpub.platforms.kit.rule_catalog import build_warning
from socialpub.store.database import Tx
from socialpub.store.engine import sql
from socialpub.store.queries import publish_runs
from socialpub.store.rows import PostStatus

log = logging.getLogger("socialpub.batches")

T = TypeVar("T")
P = ParamSpec("P")
WRITE_WAIT_SECONDS = 2.0
_STILL_PUBLISHING = build_warning_body(build_warning("still_publishing"))
OPTIONAL_FIELDS = ("uri", "cid", "url", "firstCommentUri", "firstCommentCid", "warnings", "error")


class BatchPostColumns(TypedDict):
    """Columns of a post that its batch shows."""

    id: str
    account: str
    platform: str
    external_id: str | None
    status: PostStatus
    scheduled_at: int | None
    platform_uri: str | None
    platform_cid: str | None
    url: str | None
    first_comment_uri: str | None
    first_comment_cid: str | None
    warnings: str
    error: str | None
    thread_of: str | None


class BatchColumns(TypedDict):
    """Columns of a batch that it shows."""

    id: str
    created_at: int
    scheduled_at: int | None


def build_accepted_result(
    post: str, account: str, platform: str, at_ms: int | None, warnings: list[WarningBody]
) -> Result:
    """Build the result of a target that has just been accepted."""
    result: Result = {
        "accountId": account,
        "platform": platform,
        "postId": post,
        "status": "publishing" if at_ms is None else "queued",
    }
    if at_ms is None:
        warnings = [*warnings, _STILL_PUBLISHING]
    if warnings:
        result["warnings"] = warnings
    return result


def build_accepted_piece(post: str, at_ms: int | None) -> PieceResult:
    """Build the result of a piece of a thread that has just been accepted."""
    return {"postId": post, "status": "publishing" if at_ms is None else "queued"}


def build_accepted_body(
    batch: str, now: int, at_ms: int | None, results: list[Result], external_id: str | None
) -> BatchBody:
    """Build the body of a batch being accepted."""
    body: BatchBody = {"id": batch, "status": "queued", "createdAt": format_iso(now), "results": results}
    if at_ms is not None:
        body["scheduledAt"] = format_iso(at_ms)
    if external_id is not None:
        body["externalId"] = external_id
    return body


def load_body(batch: str) -> BatchBody:
    """Build the batch body from the current rows."""
    return _build_loaded(batch, sql.fetch_one(publish_runs.FIND_BATCH, (batch,)))


def load_finished_body(batch: str) -> BatchBody | None:
    """Build the batch body if every target is terminal; None before."""
    found = sql.fetch_one(publish_runs.FIND_FINISHED_BATCH, (batch,))
    return None if found is None else _build_loaded(batch, found)


def _build_loaded(batch: str, found: tuple[int, int | None, str]) -> BatchBody:
    created_at, scheduled_at, shown = found
    head: BatchColumns = {"id": batch, "created_at": created_at, "scheduled_at": scheduled_at}
    return build_body(head, [sql.to_row(BatchPostColumns, values) for values in sql.load_json(shown)])


def build_body(head: BatchColumns, rows: Sequence[BatchPostColumns]) -> BatchBody:
    """Build the batch body from rows."""
    body: BatchBody = {
        "id": head["id"],
        "status": _compute_status(head, [row["status"] for row in rows]),
        "createdAt": format_iso(head["created_at"]),
        "results": _build_results(rows),
    }
    if head["scheduled_at"] is not None:
        body["scheduledAt"] = format_iso(head["scheduled_at"])
    if rows and rows[0]["external_id"] is not None:
        body["externalId"] = rows[0]["external_id"]
    return body


def _compute_status(head: BatchColumns, statuses: Sequence[str]) -> BatchStatus:
    """Return `queued` until all is settled, or something failed in an immediate batch."""
    failed = [status for status in statuses if status in post_states.TERMINAL_STATES and status != "published"]
    is_open = not post_states.TERMINAL_STATES.issuperset(statuses)
    if is_open and (head["scheduled_at"] is not None or not failed):
        return "queued"
    if not failed:
        return "published"
    return "failed" if len(failed) == len(statuses) else "partial_failed"


def _build_results(rows: Sequence[BatchPostColumns]) -> list[Result]:
    """Build the results of the targets, each with the pieces of its thread, from rows in order."""
    results: list[Result] = []
    for row in rows:
        if row["thread_of"]:
            results[-1].setdefault("thread", []).append(_build_piece(row))
        else:
            results.append(_build_result(row))
    return results


def _build_piece(row: BatchPostColumns) -> PieceResult:
    piece: PieceResult = {
        "postId": row["id"],
        "status": "publishing" if _is_unsettled(row) else row["status"],
        "uri": cast_present(row["platform_uri"] or None),
        "error": cast_present(json.loads(row["error"]) if row["error"] else None),
    }
    return without_none(piece, "uri", "error")


def _is_unsettled(row: BatchPostColumns) -> bool:
    return row["status"] in ("validated", "publishing") and row["scheduled_at"] is None


def _build_result(row: BatchPostColumns) -> Result:
    unsettled = _is_unsettled(row)
    warnings = json.loads(row["warnings"]) if row["warnings"] != "[]" else []
    if unsettled:
        warnings.append(_STILL_PUBLISHING)
    result: Result = {
        "accountId": row["account"],
        "platform": row["platform"],
        "postId": row["id"],
        # In the response an unsettled target is always `publishing`.
        "status": "publishing" if unsettled else row["status"],
        "uri": cast_present(row["platform_uri"] or None),
        "cid": cast_present(row["platform_cid"] or None),
        "url": cast_present(row["url"] or None),
        "firstCommentUri": cast_present(row["first_comment_uri"] or None),
        "firstCommentCid": cast_present(row["first_comment_cid"] or None),
        "warnings": cast_present(warnings or None),
        "error": cast_present(json.loads(row["error"]) if row["error"] else None),
    }
    return without_none(result, *OPTIONAL_FIELDS)


def build_response(body: BatchBody) -> idempotency.StoredResponse:
    """Build the response: 202 while the batch is `queued`, otherwise 200."""
    return idempotency.StoredResponse(202 if body["status"] == "queued" else 200, dumps(body), batch=body["id"])


def build_joined_response(body: BatchBody) -> idempotency.StoredResponse:
    """Build the response to a repeated request, which did nothing."""
    note = build_warning_body(build_warning("joined_undelivered_batch"))
    results: list[Result] = [{**one, "warnings": [*one.get("warnings", []), note]} for one in body["results"]]
    return build_response({**body, "results": results})._replace(replayed=True)


@dataclass(frozen=True)
class FinishedBatch:
    """Batch with all targets terminal. `written`: the response was stored with the result."""

    body: BatchBody
    written: bool


class BatchCompletion:
    """Context manager that waits for the end of a batch.

    The end is seen in the transaction that makes the last post terminal, which also stores the response for the key.
    """

    def __init__(self, service: AppContext, batch: str, key: idempotency.IdempotencyKey | None) -> None:
        self._service, self._batch, self._key = service, batch, key
        self._finished: FinishedBatch | None = None

    def __enter__(self) -> Self:
        self._service.batch_observers.add(self._batch, self._check_finished)
        return self

    def __exit__(self, *error: object) -> None:
        self._service.batch_observers.remove(self._batch, self._check_finished)

    def _check_finished(self, tx: Tx) -> None:
        """Check, in the transaction that ends a post, whether the batch is complete."""
        body = load_finished_body(self._batch)
        if body is not None:
            finished = self._store_response(tx, body)
            tx.after_commit(lambda: self._finish(finished))

    def _store_response(self, tx: Tx, body: BatchBody) -> FinishedBatch:
        try:
            if self._key:
                idempotency.store_response(self._service, tx, self._key.id, build_response(body))
        except (sqlite3.Error, peewee.PeeweeException):  # the transaction must roll back
            raise
        except Exception:  # noqa: BLE001 - the result of a send is written even if its response cannot be
            log.exception(
                "the response of batch %s could not be stored with its result; it is stored later", self._batch
            )
            return FinishedBatch(body, written=False)
        return FinishedBatch(body, written=True)

    def _finish(self, finished: FinishedBatch) -> None:
        """Store the end before `post_states` wakes those who wait for the batch."""
        self._finished = finished

    async def wait(self, seconds: float) -> FinishedBatch | None:
        """Wait for the end; None after `seconds` or when the server stops."""

        async def read() -> FinishedBatch | None:
            return self._finished

        name = f"batch:{self._batch}"
        return await self._service.waiting.wait_without_place(name, read, lambda end: end is not None, seconds)


async def wait_for_batch(service: AppContext, accepted: BatchBody, seconds: float) -> BatchBody:
    """Return another request's batch once it has ended, or its state after `seconds`."""
    with BatchCompletion(service, accepted["id"], None) as completion:
        body = await load_body_or_accepted(service, accepted)
        if "scheduledAt" in accepted or all(
            result["status"] in post_states.TERMINAL_STATES for result in body["results"]
        ):
            return body
        found = await completion.wait(seconds)
    return found.body if found else await load_body_or_accepted(service, body)


async def load_body_or_accepted(service: AppContext, accepted: BatchBody) -> BatchBody:
    """Read the batch; never fails, since it was accepted: `accepted` if reading is impossible."""
    try:
        return await service.read(lambda: load_body(accepted["id"]))
    except Exception as error:  # noqa: BLE001 - it may be public already: after an error the client would send it again
        traced = not is_storage_unavailable(error)
        log.error(
            "batch %s: its rows could not be read, the response shows it as accepted: %s",
            accepted["id"],
            error,
            exc_info=traced,
        )
        return accepted


async def store_response(
    service: AppContext, key: idempotency.IdempotencyKey, answer: idempotency.StoredResponse
) -> idempotency.StoredResponse:
    """Store the response of an accepted batch, now or (if unconfirmed) a little later.

    Returns the stored response: the batch may have ended, and been stored so, meanwhile.
    """

    def store(tx: Tx) -> idempotency.StoredResponse:
        idempotency.store_response(service, tx, key.id, answer)
        return idempotency.find_response(service, key) or answer

    stored = await write_after_acceptance(service, store)
    if stored is None:
        service.lost.unstored.add(str(answer.batch))
    return stored or answer


async def write_after_acceptance(
    service: AppContext, write: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs
) -> T | None:
    """Run a write after acceptance, waiting briefly; None if unconfirmed. Never raises."""
    try:
        return await asyncio.wait_for(service.write(lambda tx: write(tx, *args, **kwargs)), WRITE_WAIT_SECONDS)
    except TimeoutError:
        log.warning("A response is not stored yet: the database is busy")
    except Exception as error:  # noqa: BLE001 - the answer is about what was accepted, and that stands
        log.error("A response could not be stored: %s", error, exc_info=not is_storage_unavailable(error))
    return None


def is_finished(batch: str) -> bool:
    """Return whether every target of the batch is terminal."""
    return bool(sql.fetch_value(publish_runs.IS_BATCH_FINISHED, (batch,)))
