"""Webhook outbox: sign and send due events of an endpoint, and record the responses."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import NamedTuple

from typing_extensions import TypedDict

from socialpub.base.concurrency.fair_executor import ShareKey
from socialpub.base.runtime import format_iso
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.delivery import url_policy
from socialpub.domain.delivery.attempts import (
    DISABLE_AFTER_MS,
    RESPONSE_BYTES_MAX,
    CallResult,
    OutboundAttempt,
    classify_response,
    compute_retry_at,
    get_status,
    log_attempt,
    run_timed,
)
from socialpub.domain.delivery.outbox_worker import DeliveryTask, DueTasks
from socialpub.domain.delivery.webhooks import endpoints, event_log, signatures
from socialpub.domain.events import events
from socialpub.domain.schemas.events import WebhookDisabled
from socialpub.store.database import Tx
from socialpub.store.engine import sql
from socialpub.store.queries import webhooks as statements

log = logging.getLogger("socialpub.webhooks")

SIGNATURE_REFUSED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


class DueDelivery(NamedTuple):
    """Due delivery with its event. `url`: the address of the call."""

    url: str
    number: int
    id: str
    type: str
    post: str | None
    tries: int
    next_attempt_at: int
    event_number: int
    organization: str
    data: str
    created_at: int
    request_id: str | None

    @property
    def event(self) -> str:
        """Id of the event."""
        return event_log.compute_id(self.organization, self.event_number, self.created_at)

    @property
    def envelope(self) -> bytes:
        columns = event_log.EventColumns(
            self.event_number, self.event, self.type, self.organization, self.data, self.created_at
        )
        return event_log.build_envelope(columns).encode()


class EndpointColumns(TypedDict):
    """Columns of an endpoint that a call needs, in the order of `statements.FIND_ENDPOINT`."""

    id: str
    organization: str
    url: str
    secret: str
    previous_secret: str | None
    previous_until: int | None


@dataclass(frozen=True)
class EndpointTarget:
    """Endpoint with decrypted secrets."""

    id: str
    organization: str
    url: str
    secrets: list[str]

    @property
    def share(self) -> ShareKey:
        """Share key of calls to the endpoint."""
        return url_policy.get_share_key(self.url, self.organization)


# --- One call ----------------------------------------------------------------------------------------------------


def decrypt_target(service: AppContext, row: EndpointColumns) -> EndpointTarget:
    """Decrypt an endpoint's secrets."""
    secrets = [endpoints.decrypt_secret(service, row["id"], row["secret"])]
    if row["previous_secret"] is not None and (row["previous_until"] or 0) > service.now_ms:
        secrets.append(endpoints.decrypt_secret(service, row["id"], row["previous_secret"]))
    return EndpointTarget(row["id"], row["organization"], row["url"], secrets)


def send(
    service: AppContext, to: EndpointTarget, body: bytes, event: str, type_: str, request: str | None
) -> OutboundAttempt:
    """Send one event and return the attempt; never raises.

    During a secret rotation, a receiver that refuses the signature is called again at once with the secrets swapped: it
    may know only the old secret and only the specified header.
    """

    def attempt(secrets: list[str]) -> OutboundAttempt:
        return _send_signed(service, to, secrets, body, event, type_, request)

    first = attempt(to.secrets)
    if first.status not in SIGNATURE_REFUSED or len(to.secrets) < 2:
        return first
    return replace(attempt(to.secrets[::-1]), previous=first)


def _send_signed(
    service: AppContext,
    to: EndpointTarget,
    secrets: list[str],
    body: bytes,
    event: str,
    type_: str,
    request: str | None,
) -> OutboundAttempt:
    runtime, settings = service.runtime, service.runtime.settings.webhooks
    delivery = runtime.ids.prefixed("dlv_")
    headers = signatures.build_headers(
        settings.header_prefix,
        secrets,
        body,
        event=event,
        type_=type_,
        delivery=delivery,
        request=request,
        at_seconds=service.now_ms // 1000,
    )

    def post() -> CallResult:
        return classify_response(
            runtime.webhook_http.request(
                "POST",
                to.url,
                headers=headers,
                content=body,
                timeout=settings.timeout,
                extensions={"max_bytes": RESPONSE_BYTES_MAX},
            )
        )

    return run_timed(service, delivery, post)


# --- Outbox ------------------------------------------------------------------------------------------------------


class WebhookOutbox:
    """Webhook outbox; events of one post are sent in order."""

    prefix = endpoints.PREFIX
    sends_during_pause = False

    def find_next_due(self, service: AppContext) -> list[tuple[str, int]]:
        """Implement `Outbox`."""
        return sql.fetch_all(statements.FIND_NEXT_DUE)

    def find_due(
        self, service: AppContext, receiver: str, limit: int, excluded: Collection[int], *, is_paused: bool
    ) -> DueTasks:
        """Implement `Outbox`."""
        row, now = sql.fetch_one(statements.FIND_ENDPOINT, (receiver,)), service.now_ms
        if row is None:
            return DueTasks()
        to = decrypt_target(service, sql.to_row(EndpointColumns, row))
        due = sql.fetch_value(statements.FIND_DUE, (receiver, now, limit, sql.dump_json(list(excluded))))
        return DueTasks(
            to.share,
            [_build_task(service, to, DueDelivery(to.url, *each)) for each in sql.load_json(due)],
            sql.fetch_value(statements.FIND_NEXT_DUE_OF_ENDPOINT, (receiver, now)),
        )

    def record(
        self, service: AppContext, tx: Tx, receiver: str, calls: Sequence[tuple[DeliveryTask, OutboundAttempt]]
    ) -> list[int | None]:
        """Implement `Outbox` with few statements, independent of the number of calls."""
        now, url = service.now_ms, sql.fetch_value(statements.FIND_URL, (receiver,))
        numbers = sql.dump_json([task.number for task, _ in calls])
        times: dict[int, int] = dict(sql.fetch_all(statements.FIND_PENDING_TIMES, (numbers,)))
        results = [_finish_delivery(service, task.data, attempt, url, times) for task, attempt in calls]
        sql.update(statements.RECORD_RESULTS, (now, sql.dump_json([result.state_row for result in results])))
        sql.update(
            statements.INSERT_ATTEMPTS, (sql.dump_json([row for result in results for row in result.attempt_rows]),)
        )
        for attempt in (each for result in results for each in result.attempt.all):
            if "\0" in (attempt.response or ""):  # SQLite reads JSON text only up to it
                sql.update(statements.SET_RESPONSE_BODY, (attempt.response, attempt.id))
        if any(result.next_at is not None for result in results):
            endpoints.end_deliveries_if_deleted(tx, receiver, now)  # it may have been deleted during the calls
        here = [attempt for task, attempt in calls if task.data.url == url]
        _update_endpoint(service, tx, receiver, here, now)
        tx.after_commit(lambda: _log_attempts(receiver, results))
        return [result.next_at for result in results]


class _FinishedDelivery(NamedTuple):
    """Finished call with the new state of its delivery."""

    due: DueDelivery
    attempt: OutboundAttempt
    state: str
    next_at: int | None
    tries: int

    @property
    def state_row(self) -> tuple[str | int | None, ...]:
        """Row for `statements.RECORD_RESULTS`."""
        attempt, calls = self.attempt, len(self.attempt.all)
        return (self.due.number, self.state, self.next_at, attempt.status, attempt.error, calls, self.tries)

    @property
    def attempt_rows(self) -> list[tuple[str | int | None, ...]]:
        """Rows for `statements.INSERT_ATTEMPTS`."""
        return [
            (
                attempt.id,
                self.due.number,
                attempt.started_at,
                attempt.duration_ms,
                attempt.status,
                attempt.error,
                attempt.response,
            )
            for attempt in self.attempt.all
        ]


def _build_task(service: AppContext, to: EndpointTarget, due: DueDelivery) -> DeliveryTask:
    return DeliveryTask(
        due.number,
        due.id,
        due.post,
        lambda: send(service, to, due.envelope, due.event, due.type, due.request_id),
        due,
    )


def _finish_delivery(
    service: AppContext, due: DueDelivery, attempt: OutboundAttempt, url: str, times: Mapping[int, int]
) -> _FinishedDelivery:
    """Return the end of a call.

    One that failed elsewhere than at `url`, or was redelivered meanwhile (which changed its time), is repeated at once.
    """
    is_redelivered = times.get(due.number, due.next_attempt_at) != due.next_attempt_at
    is_repeated = attempt.error is not None and (is_redelivered or due.url != url)
    next_at = service.now_ms if is_repeated else compute_retry_at(service, due.tries, attempt)
    tries = 0 if is_redelivered and is_repeated else due.tries + 1
    return _FinishedDelivery(due, attempt, get_status(attempt, next_at), next_at, tries)


def _log_attempts(endpoint: str, results: Sequence[_FinishedDelivery]) -> None:
    for due, attempt, _, next_at, _ in results:
        if attempt.previous:
            log_attempt("delivery", due.id, due.type, endpoint, attempt.previous, None)
        log_attempt("delivery", due.id, due.type, endpoint, attempt, next_at)


def _update_endpoint(service: AppContext, tx: Tx, endpoint: str, attempts: Sequence[OutboundAttempt], now: int) -> None:
    """Update the endpoint after attempts; in a series of failures or successes the last counts."""
    for failed, group in itertools.groupby(attempts, lambda attempt: attempt.error is not None):
        series = list(group)
        if failed:
            is_long = sql.fetch_value(
                statements.RECORD_FAILURE, (series[-1].error, now, now - DISABLE_AFTER_MS, endpoint)
            )
            if any(attempt.status == HTTPStatus.GONE for attempt in series):
                _disable_endpoint(service, tx, endpoint, "The receiver answered 410 (Gone).", now)
            elif is_long:
                _disable_endpoint(service, tx, endpoint, f"Every delivery failed for 5 days. {series[-1].error}", now)
        else:
            by_previous = sum(attempt.previous is not None for attempt in series)
            sql.update(statements.RECORD_SUCCESS, (now, by_previous, endpoint))


def _disable_endpoint(service: AppContext, tx: Tx, endpoint: str, reason: str, now: int) -> None:
    """Disable an endpoint until its owner enables it; emits `webhook.disabled`."""
    row = sql.fetch_one(statements.DISABLE_ENDPOINT, (reason, now, endpoint))
    if row is None:  # already disabled
        return
    organization, profile, description = row
    tx.after_commit(lambda: log.warning("webhook endpoint %s is disabled: %s", endpoint, reason))
    data: WebhookDisabled = {
        "endpointId": endpoint,
        "profileId": profile,
        "description": description,
        "reason": reason,
        "disabledAt": format_iso(now),
    }
    events.emit(service, tx, "webhook.disabled", organization, data, profile=profile)
