"""Retry protection for requests without Idempotency-Key.

If the response to an identical earlier request was never delivered, the repeat joins that request's batch. From
acceptance until its response is delivered, a request has a row in `owed`, which counts once the client is known to have
disconnected, or the server that handled it has ended.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from socialpub.base.json_codec import dumps
from socialpub.domain.access.authentication import Scope
from socialpub.domain.context.app_context import AppContext
from socialpub.store.database import DbFuture, Tx
from socialpub.store.engine import sql
from socialpub.store.queries import acceptance, maintenance

WINDOW_MS = 5 * 60 * 1000
PREFIX_DIGITS = 32  # of a hash: 128 bits
DELETE_DELAY_SECONDS = 0.2  # if killed within it, the server later treats a delivered response as undelivered


class JoinEarlierRequestError(Exception):
    """Control flow: the request was accepted before, and its response not delivered."""

    def __init__(self, earlier: PendingResponse) -> None:
        super().__init__(earlier.batch)
        self.earlier = earlier


class PendingResponse(NamedTuple):
    """Pending response of a request, or of the earlier request it has joined."""

    id: str
    batch: str | None = None

    @property
    def prefix(self) -> str:
        """Hash shared by identical requests."""
        return self.id.partition(":")[0]

    @property
    def bounds(self) -> tuple[str, str]:
        """Range that holds the ids of identical requests."""
        return f"{self.prefix}:", f"{self.prefix};"


def identify(service: AppContext, scope: Scope, address: tuple[str, ...], fingerprint: str) -> PendingResponse | None:
    """Identify a request without key (`address`: method and path); None if joining is off."""
    if not service.runtime.settings.publishing.join_undelivered:
        return None
    caller = dumps((scope.organization, scope.profile, scope.key, *address)).encode("utf-8", "surrogatepass")
    same = hashlib.sha256(caller + b"\0" + fingerprint.encode()).hexdigest()[:PREFIX_DIGITS]
    return PendingResponse(f"{same}:{service.jobs.epoch}:{next(service.lost.numbers)}")


def find_undelivered(service: AppContext, pending: PendingResponse) -> PendingResponse | None:
    """Find the first identical request in the window with an undelivered response."""
    return pick_undelivered(
        service, sql.fetch_all(acceptance.FIND_UNACKNOWLEDGED, (*pending.bounds, service.now_ms - WINDOW_MS))
    )


def pick_undelivered(service: AppContext, same: Iterable[Sequence[str]]) -> PendingResponse | None:
    """Pick the first undelivered one of these (id, batch) pairs."""
    for id_, batch in same:
        if id_ in service.lost.delivered:
            continue
        if id_ in service.lost.undelivered or int(id_.split(":")[1]) != service.jobs.epoch:
            return PendingResponse(id_, batch)
    return None


def record_all_pending(tx: Tx, responses: Sequence[tuple[PendingResponse, str]], now: int) -> None:
    """Record pending responses with their batches, in the transaction that accepts these."""
    sql.insert(acceptance.INSERT_UNACKNOWLEDGED, [(pending.id, batch) for pending, batch in responses], (now,))


def mark_delivered(service: AppContext, pending: PendingResponse) -> None:
    """Mark a response delivered (on the event loop); its row is deleted soon, with others."""
    service.lost.delivered.add(pending.id)
    if not service.lost.is_deletion_scheduled:
        service.lost.is_deletion_scheduled = True
        asyncio.get_running_loop().call_later(DELETE_DELAY_SECONDS, _delete_scheduled, service)


def _delete_scheduled(service: AppContext) -> None:
    service.lost.is_deletion_scheduled = False
    delete_delivered(service)


def delete_delivered(service: AppContext) -> DbFuture[None] | None:
    """Delete the rows of delivered responses."""
    return service.write(lambda tx: _delete_delivered(service, tx)) if service.lost.delivered else None


def _delete_delivered(service: AppContext, tx: Tx) -> None:
    if known := service.lost.delivered.copy():
        sql.execute(acceptance.DELETE_UNACKNOWLEDGED, (sql.dump_json(list(known)),))
        tx.after_commit(lambda: service.lost.delivered.difference_update(known))


def delete_expired(service: AppContext, tx: Tx) -> int:
    """Delete expired pending responses; return their number."""
    return sql.update(maintenance.DELETE_UNACKNOWLEDGED, (service.now_ms - WINDOW_MS,))


def mark_lost(service: AppContext, pending: PendingResponse) -> None:
    """Record, in memory, that the client has disconnected; forgotten after WINDOW_MS."""
    now = service.now_ms
    for id_ in [id_ for id_, at in service.lost.undelivered.items() if at < now - WINDOW_MS]:
        del service.lost.undelivered[id_]
    service.lost.undelivered[pending.id] = now


def mark_lost_again(service: AppContext, pending: PendingResponse, batch: str) -> None:
    """Record that the client disconnected during delivery: the response is pending again."""
    service.lost.delivered.discard(pending.id)
    mark_lost(service, pending)
    service.write(lambda tx: record_all_pending(tx, [(pending, batch)], service.now_ms))
