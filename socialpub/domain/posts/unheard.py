"""Retry protection for requests without Idempotency-Key.

If the response to an identical earlier request was never delivered, the repeat joins that request's batch. From
acceptance until its response is delivered, a request has a row in `owed`, which counts once the client is known to have
disconnected, or the server that handled it has ended.
"""

from __future__ import annotations

import asyncio
import functools
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
SAME_DIGITS = 32  # of a hash: 128 bits
ASKED_KEPT = 1000
SOON_SECONDS = 0.2  # if killed within it, the server later treats a delivered response as undelivered


class JoinError(Exception):
    """Control flow: the request was accepted before, and its response not delivered."""

    def __init__(self, found: Ear) -> None:
        super().__init__(found.batch)
        self.found = found


class Ear(NamedTuple):
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


def ear_of(service: AppContext, scope: Scope, address: tuple[str, ...], fingerprint: str) -> Ear | None:
    """Identify a request without key (`address`: method and path); None if joining is off."""
    if not service.runtime.settings.publishing.join_undelivered:
        return None
    asked = _asked(scope.organization, scope.profile, scope.key, *address)
    same = hashlib.sha256(asked + fingerprint.encode()).hexdigest()[:SAME_DIGITS]
    return Ear(f"{same}:{service.jobs.epoch}:{next(service.lost.heard.numbers)}")


@functools.lru_cache(ASKED_KEPT)
def _asked(*words: str | None) -> bytes:
    """Encode caller and target as text that ends where the fingerprint begins."""
    return dumps(words).encode("utf-8", "surrogatepass") + b"\0"


def find(service: AppContext, ear: Ear) -> Ear | None:
    """Find the first identical request in the window with an undelivered response."""
    return first(service, sql.fetch_all(acceptance.FIND_UNACKNOWLEDGED, (*ear.bounds, service.now_ms - WINDOW_MS)))


def first(service: AppContext, same: Iterable[Sequence[str]]) -> Ear | None:
    """Pick the first undelivered one of these (id, batch) pairs."""
    for id_, batch in same:
        if id_ in service.lost.heard.ids:
            continue
        if id_ in service.lost.unheard or int(id_.split(":")[1]) != service.jobs.epoch:
            return Ear(id_, batch)
    return None


def listen(service: AppContext, tx: Tx, ear: Ear, batch: str) -> None:
    """Record a pending response, in the transaction that accepts the batch."""
    listen_all(tx, [(ear, batch)], service.now_ms)


def listen_all(tx: Tx, owed: Sequence[tuple[Ear, str]], now: int) -> None:
    """Record several pending responses."""
    sql.insert(acceptance.INSERT_UNACKNOWLEDGED, [(ear.id, batch) for ear, batch in owed], (now,))


def heard(service: AppContext, ear: Ear) -> None:
    """Mark a response delivered (on the loop); its row is deleted soon, together with others."""
    service.lost.heard.ids.add(ear.id)
    if not service.lost.heard.is_soon:
        service.lost.heard.is_soon = True
        asyncio.get_running_loop().call_later(SOON_SECONDS, _soon, service)


def _soon(service: AppContext) -> None:
    service.lost.heard.is_soon = False
    forget(service)


def forget(service: AppContext) -> DbFuture[None] | None:
    """Delete the rows of delivered responses."""
    return service.write(lambda tx: _forget(service, tx)) if service.lost.heard.ids else None


def _forget(service: AppContext, tx: Tx) -> None:
    if known := service.lost.heard.ids.copy():
        sql.execute(acceptance.DELETE_UNACKNOWLEDGED, (sql.dump_json(list(known)),))
        tx.after_commit(lambda: service.lost.heard.ids.difference_update(known))


def purge(service: AppContext, tx: Tx) -> int:
    """Delete expired pending responses; return their number."""
    return sql.update(maintenance.DELETE_UNACKNOWLEDGED, (service.now_ms - WINDOW_MS,))


def lost(service: AppContext, ear: Ear) -> None:
    """Record, in memory, that the client has disconnected; kept while it counts."""
    now = service.now_ms
    for id_ in [id_ for id_, at in service.lost.unheard.items() if at < now - WINDOW_MS]:
        del service.lost.unheard[id_]
    service.lost.unheard[ear.id] = now


def lost_after_all(service: AppContext, ear: Ear, batch: str) -> None:
    """Record that the client disconnected during delivery: the response is pending again."""
    service.lost.heard.ids.discard(ear.id)
    lost(service, ear)
    service.write(lambda tx: listen(service, tx, ear, batch))
