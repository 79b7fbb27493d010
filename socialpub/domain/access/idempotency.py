"""Idempotency records of writes: their keys, and the stored responses."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from socialpub.base.errors import ApiError, rule_error
from socialpub.domain.access.authentication import Scope
from socialpub.domain.context.app_context import AppContext
from socialpub.store.database import Tx
from socialpub.store.engine import sql
from socialpub.store.queries import acceptance, maintenance
from socialpub.store.queries.bulk import SqlRow
from socialpub.store.rows import IdempotencyRecordRow

# --- Idempotency -------------------------------------------------------------------------------------------------

KEY_LENGTH_MAX = 128
_KEY = re.compile(rf"[ -~]{{1,{KEY_LENGTH_MAX}}}")  # printable ASCII
SAME_KEY_WAIT_SECONDS = 60.0
SAME_KEY_RETRY_SECONDS = 5


class IdempotencyKey(NamedTuple):
    """Idempotency-Key in its scope, with the request's fingerprint."""

    id: str
    organization: str
    fingerprint: str


class StoredResponse(NamedTuple):
    """Stored response of a write, replayed byte for byte."""

    status: int
    body: str
    replayed: bool = False
    batch: str | None = None


class KeyInUseError(Exception):
    """Key taken by another request; wait for its response."""


class EarlierBatchError(Exception):
    """Control flow: what the request asks for is a batch that exists. Nothing was written."""

    def __init__(self, batch: str) -> None:
        super().__init__(batch)
        self.batch = batch


def start_fingerprint(query: str) -> Any:
    """Start the request fingerprint (SHA-256); the caller adds the body as it arrives."""
    return hashlib.sha256(query.encode("utf-8", "surrogatepass") + b"\0")


def parse_key(scope: Scope, method: str, path: str, header: str | None, fingerprint: str) -> IdempotencyKey | None:
    """Parse the Idempotency-Key header, if any. Raises `idempotency_key.length`."""
    if header is None:
        return None
    if not _KEY.fullmatch(header):
        raise rule_error("idempotency_key.length")
    who = [scope.organization, scope.profile] if scope.user is None else [scope.organization, scope.user]
    if scope.account_list is not None:  # a response may show other accounts
        who.append(scope.account_list)
    scoped = json.dumps([*who, method, path, header])
    return IdempotencyKey(hashlib.sha256(scoped.encode()).hexdigest(), scope.organization, fingerprint)


async def run_once(
    service: AppContext, key: IdempotencyKey | None, run: Callable[[], Awaitable[StoredResponse]]
) -> StoredResponse:
    """Execute `run` once per key; concurrent duplicates wait, repeats get the same bytes.

    `run` calls `check_unused` and then `insert` in its transaction, so that no crash can lead to a second execution.
    Raises `idempotency_conflict` for a different body, or if the first request still runs after 60 s.
    """
    if key is None:
        return await run()
    response = await _replay(service, key, wait=0)
    if response is None:
        try:
            return await run()
        except KeyInUseError:
            response = await _wait_for_other(service, key)
    return response


async def run_once_unchecked(
    service: AppContext, key: IdempotencyKey, run: Callable[[], Awaitable[StoredResponse]]
) -> StoredResponse:
    """Execute `run`, which looks up the key itself (raising KeyInUseError), once per key.

    An error of `run` is raised only if no record of the key exists.
    """
    try:
        return await run()
    except KeyInUseError:
        return await _wait_for_other(service, key)
    except (ApiError, EarlierBatchError):
        response = await _replay(service, key, wait=0)
        if response is None:
            raise
        return response


async def _wait_for_other(service: AppContext, key: IdempotencyKey) -> StoredResponse:
    response = await _replay(service, key, wait=SAME_KEY_WAIT_SECONDS)
    assert response is not None, "with a wait, it returns a response or raises"
    return response


async def _replay(service: AppContext, key: IdempotencyKey, wait: float) -> StoredResponse | None:
    """Load the stored response; None if there is no record and `wait` is 0."""
    row = await service.read(lambda: _find_record(key, service.now_ms))
    if row is None and not wait:
        return None
    if row is not None and row["fingerprint"] != key.fingerprint:
        raise rule_error("idempotency_key.body_mismatch")
    row = await service.waiting.wait_without_place(
        f"key:{key.id}",
        lambda: service.read(lambda: _find_finished(key, service.now_ms)),
        lambda row: row is not None,
        wait or SAME_KEY_WAIT_SECONDS,
    )
    if row is None:
        raise rule_error("idempotency_key.in_progress", retry_after=SAME_KEY_RETRY_SECONDS)
    assert row["status"] is not None, "only a finished record is returned"
    return StoredResponse(row["status"], _decrypt_body(service, row), replayed=True, batch=row["batch"])


def _find_record(key: IdempotencyKey, now: int) -> IdempotencyRecordRow | None:
    """Load the record. A running one never expires: its batch may yet be published."""
    values = sql.fetch_one(acceptance.FIND_IDEMPOTENCY, (key.id, now))
    return None if values is None else sql.to_row(IdempotencyRecordRow, values)


def _find_finished(key: IdempotencyKey, now: int) -> IdempotencyRecordRow | None:
    row = _find_record(key, now)
    return row if row is not None and row["status"] is not None else None


def check_unused(service: AppContext, key: IdempotencyKey | None) -> None:
    """Raise KeyInUseError if the key is taken. Call in the write's transaction."""
    if key is not None and _find_record(key, service.now_ms) is not None:
        raise KeyInUseError


def insert(
    service: AppContext, tx: Tx, key: IdempotencyKey | None, response: StoredResponse | None, *, secret: bool
) -> None:
    """Insert the key's record after `check_unused`.

    `secret`: encrypt the stored body.
    """
    if key is not None:
        sql.insert(acceptance.INSERT_IDEMPOTENCY, [build_row(service, key, response, secret=secret)])


def build_row(
    service: AppContext,
    key: IdempotencyKey,
    response: StoredResponse | None,
    *,
    batch: str | None = None,
    secret: bool = False,
) -> SqlRow:
    """Build the record for `acceptance.INSERT_IDEMPOTENCY`."""
    now, body = service.now_ms, _encrypt_body(service, key.id, response, secret=secret) if response else None
    ends = now + int(service.runtime.settings.retention.idempotency * 1000)
    status = response.status if response else None
    batch = batch or (response.batch if response else None)
    return key.id, key.organization, key.fingerprint, status, body, int(secret), batch, now, ends


def store_response(service: AppContext, tx: Tx, key_id: str, response: StoredResponse) -> None:
    """Store the response of a key that was inserted without one."""
    sql.execute(acceptance.SET_IDEMPOTENCY_RESPONSE, (response.status, response.body, 0, key_id))
    tx.after_commit(lambda: service.waiting.notify(f"key:{key_id}"))


def _encrypt_body(service: AppContext, key_id: str, response: StoredResponse, *, secret: bool) -> str:
    if not secret:
        return response.body
    return service.runtime.vault.seal(response.body.encode(), ("idempotency", "body", key_id))


def find_response(service: AppContext, key: IdempotencyKey) -> StoredResponse | None:
    """Return the stored response of a key, or None."""
    row = _find_finished(key, service.now_ms)
    if row is None:
        return None
    assert row["status"] is not None, "the record is finished"
    return StoredResponse(row["status"], _decrypt_body(service, row), batch=row["batch"])


def _decrypt_body(service: AppContext, row: IdempotencyRecordRow) -> str:
    assert row["body"] is not None, "it is stored with the status"
    if not row["sealed"]:
        return row["body"]
    return service.runtime.vault.open(row["body"], ("idempotency", "body", row["id"])).decode()


PURGE_BATCH = 500


def purge(tx: Tx, now: int) -> int:
    """Delete a batch of expired records, never a running one; return the number."""
    return sql.update(maintenance.DELETE_IDEMPOTENCY, (now, PURGE_BATCH))
