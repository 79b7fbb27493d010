"""Webhook outbox: sign and send due events of an endpoint, and record the responses."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from typing_extensions import TypedDict

from socialpub.base.concurrency.fair_executor import ShareKey
from socialpub.base.runtime import format_iso
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.events import events
from socialpub.domain.outbox import addresses
from socialpub.domain.outbox.calls import (
    GIVEN_UP_MS,
    KEPT_MAX,
    Attempt,
    End,
    again_at,
    answered,
    status_of,
    tell,
    timed,
)
from socialpub.domain.outbox.deliverer import Errand, Found
from socialpub.domain.shapes.events import WebhookDisabled
from socialpub.domain.webhooks import endpoints, eventlog, signing
from socialpub.store.database import Tx
from socialpub.store.engine import sql
from socialpub.store.queries import webhooks as statements

log = logging.getLogger("socialpub.webhooks")

REFUSES_SIGNATURE = (401, 403)
GONE = 410


class Due(NamedTuple):
    """Due delivery with its event."""

    number: int
    id: str
    type: str
    post: str | None
    tries: int
    event_number: int
    organization: str
    data: str
    created_at: int
    request_id: str | None

    @property
    def event(self) -> str:
        """Id of the event."""
        return eventlog.id_of(self.organization, self.event_number, self.created_at)

    @property
    def envelope(self) -> bytes:
        told = eventlog.Shown(self.event_number, self.event, self.type, self.organization, self.data, self.created_at)
        return eventlog.envelope(told).encode()


class Called(TypedDict):
    """Columns of an endpoint that a call needs, in the order of `statements.ENDPOINT`."""

    id: str
    organization: str
    url: str
    secret: str
    previous_secret: str | None
    previous_until: int | None


@dataclass(frozen=True)
class Receiver:
    """Endpoint with decrypted secrets."""

    id: str
    organization: str
    url: str
    secrets: list[str]

    @property
    def share(self) -> ShareKey:
        """Share key of calls to the endpoint."""
        return addresses.share_of(self.url, self.organization)


# --- One call ----------------------------------------------------------------------------------------------------


def receiver_now(service: AppContext, endpoint: str) -> Receiver | None:
    """Load an active endpoint; None otherwise."""
    row = sql.fetch_one(statements.FIND_ENDPOINT, (endpoint,))
    if row is None:
        return None
    return receiver_of(service, sql.to_row(Called, row))


def receiver_of(service: AppContext, row: Called) -> Receiver:
    """Decrypt an endpoint's secrets."""
    secrets = [endpoints.open_secret(service, row["id"], row["secret"])]
    if row["previous_secret"] is not None and (row["previous_until"] or 0) > service.now_ms:
        secrets.append(endpoints.open_secret(service, row["id"], row["previous_secret"]))
    return Receiver(row["id"], row["organization"], row["url"], secrets)


def call(service: AppContext, to: Receiver, body: bytes, event: str, type_: str, request: str | None) -> Attempt:
    """Send one event and return the attempt; never raises.

    During a secret rotation, a receiver that refuses the signature is called again at once with the secrets swapped: it
    may know only the old secret and only the specified header.
    """

    def attempt(secrets: list[str]) -> Attempt:
        return _call(service, to, secrets, body, event, type_, request)

    first = attempt(to.secrets)
    if first.status not in REFUSES_SIGNATURE or len(to.secrets) < 2:
        return first
    return replace(attempt(to.secrets[::-1]), before=first)


def _call(
    service: AppContext, to: Receiver, secrets: list[str], body: bytes, event: str, type_: str, request: str | None
) -> Attempt:
    runtime, settings = service.runtime, service.runtime.settings.webhooks
    delivery = runtime.ids.prefixed("dlv_")
    headers = signing.headers(
        settings.header_prefix,
        secrets,
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
                    "POST",
                    to.url,
                    headers=headers,
                    content=body,
                    timeout=settings.timeout,
                    extensions={"max_bytes": KEPT_MAX},
                )
            )

    return timed(service, delivery, post)


# --- Outbox ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Webhooks:
    """Webhook outbox; events of one post are sent in order."""

    prefix: str = endpoints.PREFIX
    goes_on: bool = False

    def soonest(self, service: AppContext) -> list[tuple[str, int]]:
        """Implement `Outbox`."""
        return sql.fetch_all(statements.FIND_NEXT_DUE)

    def look(self, service: AppContext, receiver: str, most: int, but: Collection[int], *, held_back: bool) -> Found:
        """Implement `Outbox`."""
        to, now = receiver_now(service, receiver), service.now_ms
        if to is None:
            return Found()
        due = sql.fetch_value(statements.FIND_DUE, (receiver, now, most, sql.dump_json(list(but))))
        return Found(
            to.share,
            [_errand(service, to, Due(*each)) for each in sql.load_json(due)],
            sql.fetch_value(statements.FIND_NEXT_DUE_OF_ENDPOINT, (receiver, now)),
        )

    def record(
        self, service: AppContext, tx: Tx, receiver: str, calls: Sequence[tuple[Errand, Attempt]]
    ) -> list[int | None]:
        """Implement `Outbox` with three statements, independent of the number of calls."""
        now = service.now_ms
        ends = [_ended(service, errand.what, attempt) for errand, attempt in calls]
        sql.update(statements.RECORD_RESULTS, (now, sql.dump_json([end.state_row for end in ends])))
        sql.update(statements.INSERT_ATTEMPTS, (sql.dump_json([row for end in ends for row in end.attempt_rows]),))
        for made in (made for end in ends for made in end.attempt.all):
            if "\0" in (made.response or ""):  # SQLite reads JSON text only up to it
                sql.update(statements.SET_RESPONSE_BODY, (made.response, made.id))
        _show(service, tx, receiver, [attempt for _, attempt in calls], now)
        tx.after_commit(lambda: _tell_all(receiver, ends))
        return [end.next_at for end in ends]


class _Ended(NamedTuple):
    """Finished call with the new state of its delivery."""

    due: Due
    attempt: Attempt
    state: str
    next_at: int | None

    @property
    def state_row(self) -> tuple[str | int | None, ...]:
        """Row for `statements.ENDED`."""
        made = self.attempt
        return (self.due.number, self.state, self.next_at, made.status, made.error, len(made.all))

    @property
    def attempt_rows(self) -> list[tuple[str | int | None, ...]]:
        """Rows for `statements.ATTEMPTED`."""
        return [
            (made.id, self.due.number, made.started_at, made.duration_ms, made.status, made.error, made.response)
            for made in self.attempt.all
        ]


def _errand(service: AppContext, to: Receiver, due: Due) -> Errand:
    return Errand(
        due.number,
        due.id,
        due.post,
        lambda: call(service, to, due.envelope, due.event, due.type, due.request_id),
        due,
    )


def _ended(service: AppContext, due: Due, attempt: Attempt) -> _Ended:
    next_at = again_at(service, due.tries, attempt)
    return _Ended(due, attempt, status_of(attempt, next_at), next_at)


def _tell_all(endpoint: str, ends: Sequence[_Ended]) -> None:
    for due, attempt, _, next_at in ends:
        if attempt.before:
            tell("delivery", due.id, due.type, endpoint, attempt.before, None)
        tell("delivery", due.id, due.type, endpoint, attempt, next_at)


def _show(service: AppContext, tx: Tx, endpoint: str, attempts: Sequence[Attempt], now: int) -> None:
    """Update the endpoint after attempts; in a series of failures or successes the last counts."""
    for failed, group in itertools.groupby(attempts, lambda attempt: attempt.error is not None):
        alike = list(group)
        if failed:
            long = sql.fetch_value(statements.RECORD_FAILURE, (alike[-1].error, now, now - GIVEN_UP_MS, endpoint))
            if any(attempt.status == GONE for attempt in alike):
                _switch_off(service, tx, endpoint, "The receiver answered 410 (Gone).", now)
            elif long:
                _switch_off(service, tx, endpoint, f"Every delivery failed for 5 days. {alike[-1].error}", now)
        else:
            by_previous = sum(attempt.before is not None for attempt in alike)
            sql.update(statements.RECORD_SUCCESS, (now, by_previous, endpoint))


def _switch_off(service: AppContext, tx: Tx, endpoint: str, reason: str, now: int) -> None:
    """Disable an endpoint until its owner enables it; emits `webhook.disabled`."""
    row = sql.fetch_one(statements.DISABLE_ENDPOINT, (reason, now, endpoint))
    if row is None:  # already disabled
        return
    organization, profile, description = row
    tx.after_commit(lambda: log.warning("webhook endpoint %s is switched off: %s", endpoint, reason))
    data: WebhookDisabled = {
        "endpointId": endpoint,
        "profileId": profile,
        "description": description,
        "reason": reason,
        "disabledAt": format_iso(now),
    }
    events.emit(service, tx, "webhook.disabled", organization, data, profile=profile)
