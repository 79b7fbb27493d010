"""The outbox of webhooks: each event that is due of an endpoint, signed and sent, and the answer written down."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from typing_extensions import TypedDict

from socialpub.base.fair import Share
from socialpub.domain.core.service import Service
from socialpub.domain.outbox import addresses
from socialpub.domain.outbox.calls import (
    ANSWER_MAX,
    GIVEN_UP_MS,
    Attempt,
    End,
    again_at,
    answered,
    status_of,
    tell,
    timed,
)
from socialpub.domain.outbox.deliverer import Errand, Found
from socialpub.domain.webhooks import endpoints, eventlog, signing
from socialpub.store import sql
from socialpub.store.db import Tx
from socialpub.store.statements import webhooks as statements

log = logging.getLogger("socialpub.webhooks")


class Due(NamedTuple):
    """A delivery that is to be made, with its event."""

    number: int
    id: str
    type: str
    post: str | None
    tries: int
    event: str
    organization: str
    data: str
    created_at: int
    request_id: str | None

    @property
    def envelope(self) -> bytes:
        told = eventlog.Shown(self.number, self.event, self.type, self.organization, self.data, self.created_at)
        return eventlog.envelope(told).encode()


class Called(TypedDict):
    """What of an endpoint's row a call needs, in the order of `statements.ENDPOINT`."""

    id: str
    organization: str
    url: str
    secret: str
    previous_secret: str | None
    previous_until: int | None


@dataclass(frozen=True)
class Receiver:
    """An endpoint as a call needs it: its secrets in the clear."""

    id: str
    organization: str
    url: str
    secrets: list[str]

    @property
    def share(self) -> Share:
        """In whose share it is called."""
        return addresses.share_of(self.url, self.organization)


# --- One call ----------------------------------------------------------------------------------------------------


def receiver_now(service: Service, endpoint: str) -> Receiver | None:
    """An endpoint that is active; None for any other."""
    row = sql.first(statements.ENDPOINT, (endpoint,))
    if row is None:
        return None
    return receiver_of(service, sql.row(Called, row))


def receiver_of(service: Service, row: Called) -> Receiver:
    """An endpoint's row with its secrets in the clear."""
    secrets = [endpoints.open_secret(service, row["id"], row["secret"])]
    if row["previous_secret"] is not None and (row["previous_until"] or 0) > service.now_ms:
        secrets.append(endpoints.open_secret(service, row["id"], row["previous_secret"]))
    return Receiver(row["id"], row["organization"], row["url"], secrets)


def call(service: Service, to: Receiver, body: bytes, event: str, type_: str, request: str | None) -> Attempt:
    """Send one event, now; what came of it. It never raises."""
    runtime, settings = service.runtime, service.runtime.settings.webhooks
    delivery = runtime.ids.prefixed("dlv_")
    headers = signing.headers(
        settings.header_prefix,
        to.secrets,
        body,
        event=event,
        type_=type_,
        delivery=delivery,
        request=request,
        at_seconds=service.now_ms // 1000,
    )

    def post() -> End:
        with runtime.open_http(runtime.webhook_policy) as http:
            return answered(
                http.request(
                    "POST", to.url, headers=headers, content=body, deadline=settings.timeout, max_bytes=ANSWER_MAX
                )
            )

    return timed(service, delivery, post)


# --- All of them -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Webhooks:
    """The outbox of webhooks. Of one post, events go in order."""

    prefix: str = endpoints.PREFIX
    goes_on: bool = False

    def soonest(self, service: Service) -> list[tuple[str, int]]:
        """As `Outbox`."""
        return sql.every(statements.NEXT)

    def look(self, service: Service, receiver: str, most: int, but: Collection[int], *, held_back: bool) -> Found:
        """As `Outbox`."""
        to, now = receiver_now(service, receiver), service.now_ms
        if to is None:
            return Found()
        due = sql.value(statements.DUE, (receiver, now, most, sql.json_of(list(but))))
        return Found(
            to.share,
            [_errand(service, to, Due(*each)) for each in sql.loads(due)],
            sql.value(statements.NEXT_OF, (receiver, now)),
        )


def _errand(service: Service, to: Receiver, due: Due) -> Errand:
    return Errand(
        due.number,
        due.id,
        due.post,
        lambda: call(service, to, due.envelope, due.event, due.type, due.request_id),
        lambda tx, attempt: record(service, tx, to, due, attempt),
    )


def record(service: Service, tx: Tx, to: Receiver, due: Due, attempt: Attempt) -> int | None:
    """Write down what became of a call: the delivery's state, the attempt, and what the endpoint shows of it.

    When it is made again; None when it is not.
    """
    now, next_at = service.now_ms, again_at(service, due.tries, attempt)
    state = status_of(attempt, next_at)
    sql.change(statements.ENDED, (state, next_at, attempt.status, attempt.error, now, due.number))
    tx.after_commit(lambda: tell("delivery", due.id, due.type, to.id, attempt, next_at))
    told = (attempt.duration_ms, attempt.status, attempt.error, attempt.response)
    sql.change(statements.ATTEMPT, (attempt.id, due.number, attempt.started_at, *told))
    if attempt.error is None:
        sql.change(statements.DELIVERED, (now, to.id))
        return None
    active = sql.value(statements.FAILED, (attempt.error, now, now - GIVEN_UP_MS, to.id))
    if active == 0:
        log.warning("webhook endpoint %s is switched off: every delivery has failed for 5 days", to.id)
    return next_at
