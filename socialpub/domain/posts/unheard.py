"""Requests without an Idempotency-Key whose answer nobody heard: the same request again joins the batch of the first.

From its acceptance until its answer is handed over, such a request has a row beside the kept answers. The row counts
once the client is known to have gone, or once the server that waited for it is no more.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from socialpub.domain.core.service import Service
from socialpub.domain.people.tenancy import Scope
from socialpub.store.db import Tx
from socialpub.store.models import Idempotency

WINDOW_MS = 5 * 60 * 1000


class JoinError(Exception):
    """The same request was accepted before, and its answer was not heard."""

    def __init__(self, found: Ear) -> None:
        super().__init__(found.batch)
        self.found = found


@dataclass(frozen=True)
class Ear:
    """Who waits for the answer of one request, or of the earlier one that it has joined."""

    id: str
    organization: str
    batch: str | None = None

    @property
    def prefix(self) -> str:
        """What all requests have in common that are the same."""
        return self.id.partition(":")[0]


def ear_of(service: Service, scope: Scope, address: tuple[str, ...], body: bytes) -> Ear | None:
    """Of a request that has no key; None where joining is switched off. `address`: its method, path and query."""
    if not service.runtime.settings.publishing.join_undelivered:
        return None
    who = [scope.organization, scope.profile, scope.key, *address, hashlib.sha256(body).hexdigest()]
    same = hashlib.sha256(json.dumps(who).encode()).hexdigest()
    return Ear(f"{same}:{service.jobs.epoch}:{service.runtime.ids.uuid()}", scope.organization)


def find(service: Service, ear: Ear) -> Ear | None:
    """The first of the same requests within the window whose answer was not heard."""
    rows = Idempotency.select(Idempotency.id, Idempotency.batch).where(
        Idempotency.id.between(f"{ear.prefix}:", f"{ear.prefix};"),
        Idempotency.created_at > service.now_ms - WINDOW_MS,
    )
    for id_, batch in rows.order_by(Idempotency.created_at).tuples():
        if id_ in service.unheard or int(id_.split(":")[1]) != service.jobs.epoch:
            return Ear(id_, ear.organization, batch)
    return None


def listen(service: Service, tx: Tx, ear: Ear | None, batch: str) -> None:
    """In the transaction that accepts a batch: from now on its answer is owed. JoinError when one was owed before."""
    if ear is None:
        return
    if found := find(service, ear):
        raise JoinError(found)
    _insert(service, tx, ear, batch)


def _insert(service: Service, tx: Tx, ear: Ear, batch: str) -> None:
    now = service.now_ms
    row = {"id": ear.id, "organization": ear.organization, "fingerprint": ear.prefix, "status": 0, "batch": batch}
    Idempotency.insert(**row, created_at=now, ends_at=now + WINDOW_MS).on_conflict_ignore().execute()


def heard(tx: Tx, ear: Ear) -> None:
    """The answer is on its way to a client that is there."""
    Idempotency.delete().where(Idempotency.id == ear.id).execute()


def lost(service: Service, ear: Ear) -> None:
    """The client has gone: kept in memory, in the order in which it was seen, as long as it counts."""
    now = service.now_ms
    for id_ in [id_ for id_, at in service.unheard.items() if at < now - WINDOW_MS]:
        del service.unheard[id_]
    service.unheard[ear.id] = now


def lost_after_all(service: Service, ear: Ear, batch: str) -> None:
    """The client went while its answer was handed over: it is owed again."""
    lost(service, ear)
    service.write(lambda tx: _insert(service, tx, ear, batch))
