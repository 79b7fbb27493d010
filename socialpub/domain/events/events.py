"""Events: rows written in the transaction of the change, with their deliveries."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from socialpub.base.json_codec import dumps
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.events import notification_queue
from socialpub.store.database import Tx
from socialpub.store.engine import sql
from socialpub.store.queries import events as statements
from socialpub.store.queries import webhooks


class EventAudience(NamedTuple):
    """Organization, its number, and the receivers of its events."""

    organization: str
    number: int
    receivers: Sequence[EventReceiver]


def load_audience(organization: str, number: int) -> EventAudience:
    """Load the receivers. Call in the transaction that emits the events."""
    return EventAudience(organization, number, tuple(sql.fetch_all(webhooks.FIND_RECEIVERS, (organization,))))


class PostEventInput(NamedTuple):
    """Event of a post, for `emit_many`.

    `number`: the post's. `stored`: columns of the event's row. `data`: builds the full data, for deliveries.
    """

    type: str
    profile: str
    post: str
    number: int
    stored: EncodedEventData
    data: Callable[[], Mapping[str, object]]


def emit_many(
    service: AppContext, tx: Tx, events: Sequence[tuple[EventAudience, Sequence[PostEventInput]]], now: int
) -> None:
    """Emit the events of several posts, by organization, in the caller's transaction.

    Their request id is that of the posts' batch. Raises KeyError for an unknown type.
    """
    rows = [
        (statements.TYPE_NUMBERS[one.type], one.number, *one.stored, audience.number)
        for audience, theirs in events
        for one in theirs
    ]
    last = sql.insert(statements.INSERT_POST_EVENTS, rows, (now,))
    assert last is not None, "rows were written"
    number = last - len(rows) + 1  # a single writer thread numbers them consecutively
    for audience, theirs in events:
        _wake_readers(service, tx, audience.organization)
        if audience.receivers:
            emitted = [
                EmittedEvent(own_number, one.type, one.profile, one.post, one.data())
                for own_number, one in enumerate(theirs, number)
            ]
            fan_out(service, tx, audience.organization, emitted, audience.receivers)
        number += len(theirs)


def emit(
    service: AppContext,
    tx: Tx,
    type_: str,
    organization: str,
    data: Mapping[str, object],
    *,
    profile: str | None = None,
    post: str | None = None,
    stored: EncodedEventData | None = None,
    request_id: str | None = None,
    now: int | None = None,
) -> None:
    """Emit an event in the caller's transaction. Raises KeyError for an unknown type.

    `stored`: columns of a post's event. `now`: its time (ms).
    """
    now = service.now_ms if now is None else now
    stored = stored or EncodedEventData(None, dumps(data))
    row = (organization, None if post else profile, statements.TYPE_NUMBERS[type_], post, *stored, request_id, now)
    number = sql.execute(statements.INSERT, row).lastrowid
    assert number is not None, "a row was written"
    receivers = sql.fetch_all(webhooks.FIND_RECEIVERS, (organization,))
    fan_out(service, tx, organization, [EmittedEvent(number, type_, profile, post, data)], receivers)
    _wake_readers(service, tx, organization)


def _wake_readers(service: AppContext, tx: Tx, organization: str) -> None:
    """Wake the requests that wait for an event of the organization."""
    tx.after_commit(functools.partial(service.waiting.notify, f"events:{organization}"))


def preserve_error(tx: Tx, post: str) -> None:
    """Copy the error of a post's row, which will be cleared, into the events that refer to it."""
    sql.execute(statements.SET_ERROR_DATA, (post,))


class EncodedEventData(NamedTuple):
    """Columns of a post's event. `data`: JSON, or None if the post's row has all of it."""

    scheduled_at: int | None
    data: str | None


_NOT_OF_ROW = ("firstCommentUri", "firstCommentCid", "warnings", "willRetry", "nextAttemptAt")


def encode_data(type_: str, data: Mapping[str, object], scheduled_at: int | None) -> EncodedEventData:
    """Encode the data of a post's event for its row (see `statements.DEFAULT_DATA`)."""
    if type_ in statements.DEFAULT_DATA and not any(data.get(name) for name in _NOT_OF_ROW):
        return EncodedEventData(scheduled_at, None)
    return EncodedEventData(None, dumps(data))


class EmittedEvent(NamedTuple):
    """Event as just inserted."""

    number: int
    type: str
    profile: str | None
    post: str | None
    data: Mapping[str, object]


EventReceiver = tuple[str, str | None, str | None, str, int]
"""Receiver of events: id, profile and JSON list of accounts (None: all), JSON list of types, and whether it is a
notification channel."""


def fan_out(
    service: AppContext, tx: Tx, organization: str, emitted: Sequence[EmittedEvent], receivers: Sequence[EventReceiver]
) -> None:
    """Insert deliveries: endpoints get each event, channels one message per cause."""
    endpoints, channels = [], []
    for receiver, profile, accounts, types, is_channel in receivers:
        if is_channel:
            channels.append(notification_queue.ChannelSubscription(receiver, organization, profile, accounts, types))
        else:
            endpoints.append((receiver, profile, accounts, json.loads(types)))
    to_wake = _insert_deliveries(service, tx, organization, endpoints, emitted) if endpoints else set()
    if channels:
        to_wake |= notification_queue.enqueue(
            service,
            tx,
            channels,
            [notification_queue.NotificationInput(one.type, one.profile, one.data) for one in emitted],
        )
    if to_wake:
        tx.after_commit(lambda: service.wake_deliveries(sorted(to_wake)))


def _insert_deliveries(
    service: AppContext,
    tx: Tx,
    organization: str,
    endpoints: Sequence[tuple[str, str | None, str | None, list[str]]],
    emitted: Sequence[EmittedEvent],
) -> set[str]:
    """Insert the deliveries to the endpoints that want the events; return these endpoints."""
    rows: list[tuple[str | int | None, ...]] = []
    for endpoint, profile, accounts, chosen in endpoints:
        for event in emitted:
            is_wanted = profile in (None, event.profile) and (not chosen or event.type in chosen)
            if is_wanted and notification_queue.is_of_accounts(accounts, event.data):
                delivery = service.runtime.ids.prefixed("whd_")
                columns = (endpoint, organization, event.profile, event.number, event.type, event.post)
                rows.append((delivery, *columns, service.now_ms))
    if rows:
        sql.update(webhooks.INSERT_DELIVERIES, (sql.dump_json(rows),))
    return {str(row[1]) for row in rows}
