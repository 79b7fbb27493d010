"""Delivery log and redelivery."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from socialpub.base.errors import ApiError
from socialpub.base.runtime import format_iso
from socialpub.domain.access.actor import ActionResult, Actor
from socialpub.domain.access.authentication import Scope
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.delivery.webhooks import endpoints, event_log
from socialpub.domain.events import cursors
from socialpub.domain.organizations import profiles
from socialpub.domain.schemas.webhooks import (
    DeliveriesQuery,
    DeliveryAttempt,
    DeliveryBody,
    DeliveryDetail,
    DeliveryPage,
    RedeliveredBody,
    RedeliverRequest,
)
from socialpub.store.database import Tx
from socialpub.store.engine import sql
from socialpub.store.jobs.leases import Claim
from socialpub.store.queries import webhooks as statements
from socialpub.store.rows import DeliveryStatus

LISTING = "webhook-deliveries"
REDELIVER_BATCH = 100  # deliveries queued again per transaction: other writers wait for it


_Position = tuple[int, int]
"""Creation time and number of a delivery."""


class _DeliveryRow(NamedTuple):
    event: str
    number: int
    id: str
    endpoint: str
    type: str
    status: DeliveryStatus
    attempts: int
    next_attempt_at: int | None
    last_status_code: int | None
    last_error: str | None
    created_at: int
    updated_at: int


def load_page(service: AppContext, scope: Scope, query: DeliveriesQuery) -> DeliveryPage:
    """Load one page, newest first. Raises ApiError `not_found` (profile, endpoint), `cursor`."""
    profile = scope.narrowed(query.profile_id)
    profiles.check_profile(scope, query.profile_id)
    if query.endpoint_id is not None:
        endpoints.find(scope, query.endpoint_id)
    types, states = sql.dump_json(query.type or []), sql.dump_json(query.status or [])

    def load(before: int, reach: int) -> list[_DeliveryRow]:
        wanted = (scope.organization, before, reach, profile, query.endpoint_id, query.since or 0, types, states)
        limits = (scope.profile, scope.account_list, query.limit + 1)
        rows = sql.fetch_all(statements.PAGE, (*wanted, *limits))
        return [_build_row(scope.organization, *row) for row in rows]

    page, cursor = cursors.load_log_page(service, LISTING, scope.organization, query, statements.FIND_PAGE_REACH, load)
    return {"data": [_to_body(row) for row in page], "nextCursor": cursor}


def load_detail(scope: Scope, delivery: str, profile: str | None = None) -> DeliveryDetail:
    """Load a delivery (of the profile) with its event and attempts. Raises `not_found`."""
    row, event = _load_row(scope, delivery, profile)
    attempts = [_build_attempt(*attempt) for attempt in sql.fetch_all(statements.FIND_ATTEMPTS, (row.number,))]
    return {**_to_body(row), "event": sql.load_json(event_log.build_envelope(event)), "attempts": attempts}


def redeliver(tx: Tx, who: Actor, delivery: str, profile: str | None = None) -> ActionResult:
    """Queue a delivery, of the profile if given, again with all attempts and its event id.

    Raises ApiError `not_found`, also if its endpoint was deleted.
    """
    row, _ = _load_row(who.scope, delivery, profile)
    if sql.fetch_value(statements.IS_DELETED, (row.endpoint,)):
        raise ApiError("not_found", "The webhook endpoint of this delivery was deleted.")
    sql.update(statements.RESEND, (who.service.now_ms, delivery))
    tx.after_commit(lambda: who.service.wake_deliveries([row.endpoint]))
    return ActionResult(_to_body(_load_row(who.scope, delivery, profile)[0]), 202)


def _load_row(scope: Scope, delivery: str, profile: str | None) -> tuple[_DeliveryRow, event_log.EventColumns]:
    wanted = (delivery, scope.organization, scope.narrowed(profile), scope.profile, scope.account_list)
    found = sql.fetch_one(statements.FIND_DELIVERY, wanted)
    if found is None:
        raise ApiError("not_found", "There is no delivery with this id.")
    *columns, data = found
    row, (number, created_at) = _build_row(scope.organization, *columns), found[:2]
    return row, event_log.EventColumns(number, row.event, row.type, scope.organization, data, created_at)


def _build_row(organization: str, number: int, created_at: int, *delivery: Any) -> _DeliveryRow:
    """Build the row from `statements.PAGE`; the first columns make up the event id."""
    return _DeliveryRow(event_log.compute_id(organization, number, created_at), *delivery)


def redeliver_since(tx: Tx, who: Actor, endpoint: str, request: RedeliverRequest) -> ActionResult:
    """Queue an endpoint's deliveries again; return `{count}`. Raises ApiError `not_found`.

    The first batch is queued here, the rest by a job, so that other writes get in between. The job is stored with the
    first batch: a server that is killed in between queues the rest after its next start, and none a second time.
    """
    service, row, at_ms = who.service, endpoints.find(who.scope, endpoint), who.service.now_ms
    wanted = request.status or "failed"
    count = 0
    if wanted != "pending":  # already queued
        selected, start = (row["id"], wanted, at_ms), (request.since, 0)
        count = sql.fetch_value(statements.COUNT_IN_STATE, (*selected, *start))
        if _resend_batch(service, tx, selected, start) is not None:
            key = ":".join(map(str, ("redeliver", row["id"], wanted, request.since, at_ms)))
            service.jobs.put(tx, "redeliver", key, at_ms)
    body: RedeliveredBody = {"count": count}
    return ActionResult(body, 202, subject=row["id"])


def run_redeliver_job(service: AppContext, claim: Claim, stopping: Callable[[], bool]) -> None:
    """Run the redeliver job batch by batch; a stopped or killed run is resumed."""
    _, endpoint, status, since, at = claim.key.split(":")
    selected = (endpoint, status, int(at))
    last: _Position | None = (int(since), 0)
    while last is not None:
        if stopping():
            service.write(lambda tx: service.jobs.reschedule(tx, claim, service.now_ms)).result()
            return
        last = service.write(functools.partial(_resend_batch, service, selected=selected, after=last)).result()
    service.write(lambda tx: service.jobs.finish(tx, claim)).result()


def _resend_batch(service: AppContext, tx: Tx, selected: tuple[str, str, int], after: _Position) -> _Position | None:
    """Queue again the batch after a position.

    Return the position of its last delivery, or None if there is no other batch.
    """
    found = sql.fetch_all(statements.RESEND_BATCH, (*selected, *after, service.now_ms, REDELIVER_BATCH))
    tx.after_commit(lambda: service.wake_deliveries([selected[0]]))
    return max(found) if len(found) == REDELIVER_BATCH else None


def _to_body(row: _DeliveryRow) -> DeliveryBody:
    return {
        "id": row.id,
        "endpointId": row.endpoint,
        "eventId": row.event,
        "type": row.type,
        "status": row.status,
        "attemptCount": row.attempts,
        "nextAttemptAt": format_iso(row.next_attempt_at),
        "lastStatusCode": row.last_status_code,
        "lastError": row.last_error,
        "createdAt": format_iso(row.created_at),
        "updatedAt": format_iso(row.updated_at),
    }


def _build_attempt(
    id: str, started_at: int, duration: int, status: int | None, error: str | None, body: str | None
) -> DeliveryAttempt:
    return {
        "id": id,
        "startedAt": format_iso(started_at),
        "durationMs": duration,
        "statusCode": status,
        "error": error,
        "responseBody": body,
    }
