"""Requests without an Idempotency-Key whose answer nobody heard: the same request again joins the batch of the first.

From its acceptance until its answer is handed over, such a request has a row in `owed`. The row counts once the
client is known to have gone, or once the server that waited for it is no more.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from socialpub.base.compact import dumps
from socialpub.domain.core.service import Service
from socialpub.domain.people.tenancy import Scope
from socialpub.store import sql
from socialpub.store.db import DbFuture, Tx
from socialpub.store.statements import accepting, sweeps

WINDOW_MS = 5 * 60 * 1000
SAME_DIGITS = 32  # of a hash: 128 bits
ASKED_KEPT = 1000
SOON_SECONDS = 0.2  # a server that is killed within it takes an answer that was heard for one that was not


class JoinError(Exception):
    """The same request was accepted before, and its answer was not heard."""

    def __init__(self, found: Ear) -> None:
        super().__init__(found.batch)
        self.found = found


class Ear(NamedTuple):
    """Who waits for the answer of one request, or of the earlier one that it has joined."""

    id: str
    batch: str | None = None

    @property
    def prefix(self) -> str:
        """What all requests have in common that are the same."""
        return self.id.partition(":")[0]

    @property
    def bounds(self) -> tuple[str, str]:
        """Between them are the ids of the requests that are the same."""
        return f"{self.prefix}:", f"{self.prefix};"


def ear_of(service: Service, scope: Scope, address: tuple[str, ...], body: bytes) -> Ear | None:
    """Of a request that has no key; None where joining is switched off. `address`: its method, path and query."""
    if not service.runtime.settings.publishing.join_undelivered:
        return None
    asked = _asked(scope.organization, scope.profile, scope.key, *address)
    same = hashlib.sha256(asked + body).hexdigest()[:SAME_DIGITS]
    return Ear(f"{same}:{service.jobs.epoch}:{next(service.heard.numbers)}")


@functools.lru_cache(ASKED_KEPT)
def _asked(*words: str | None) -> bytes:
    """Who asks for what, as text that ends where the body begins."""
    return dumps(words).encode("utf-8", "surrogatepass") + b"\0"


def find(service: Service, ear: Ear) -> Ear | None:
    """The first of the same requests within the window whose answer was not heard."""
    return first(service, sql.every(accepting.SAME, (*ear.bounds, service.now_ms - WINDOW_MS)))


def first(service: Service, same: Iterable[Sequence[str]]) -> Ear | None:
    """The first of these requests, the ids and batches of the `same`, whose answer was not heard."""
    for id_, batch in same:
        if id_ in service.heard.ids:
            continue
        if id_ in service.unheard or int(id_.split(":")[1]) != service.jobs.epoch:
            return Ear(id_, batch)
    return None


def listen(service: Service, tx: Tx, ear: Ear, batch: str) -> None:
    """In the transaction that accepts a batch: from now on its answer is owed."""
    listen_all(tx, [(ear, batch)], service.now_ms)


def listen_all(tx: Tx, owed: Sequence[tuple[Ear, str]], now: int) -> None:
    """The same for some batches."""
    sql.insert(accepting.OWE, [(ear.id, batch) for ear, batch in owed], (now,))


def heard(service: Service, ear: Ear) -> None:
    """On the loop: the answer is on its way to a client that is there. Its row goes soon, with those of others."""
    service.heard.ids.add(ear.id)
    if not service.heard.is_soon:
        service.heard.is_soon = True
        asyncio.get_running_loop().call_later(SOON_SECONDS, _soon, service)


def _soon(service: Service) -> None:
    service.heard.is_soon = False
    forget(service)


def forget(service: Service) -> DbFuture[None] | None:
    """Write who was heard, where the rows are there still."""
    return service.write(lambda tx: _forget(service, tx)) if service.heard.ids else None


def _forget(service: Service, tx: Tx) -> None:
    if known := service.heard.ids.copy():
        sql.execute(accepting.HEARD, (sql.json_of(list(known)),))
        tx.after_commit(lambda: service.heard.ids.difference_update(known))


def purge(service: Service, tx: Tx) -> int:
    """Forget who has not come again within the window; how many."""
    return sql.change(sweeps.FORGET_OWED, (service.now_ms - WINDOW_MS,))


def lost(service: Service, ear: Ear) -> None:
    """The client has gone: kept in memory, in the order in which it was seen, as long as it counts."""
    now = service.now_ms
    for id_ in [id_ for id_, at in service.unheard.items() if at < now - WINDOW_MS]:
        del service.unheard[id_]
    service.unheard[ear.id] = now


def lost_after_all(service: Service, ear: Ear, batch: str) -> None:
    """The client went while its answer was handed over: it is owed again."""
    service.heard.ids.discard(ear.id)
    lost(service, ear)
    service.write(lambda tx: listen(service, tx, ear, batch))
