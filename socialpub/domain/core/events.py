"""Events are rows first: written in the transaction of the change they tell of."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from socialpub.base.compact import dumps
from socialpub.base.runtime import iso
from socialpub.domain.core import notices
from socialpub.domain.core.service import Service
from socialpub.domain.shapes.common import parse_instant
from socialpub.store import sql
from socialpub.store.db import Tx
from socialpub.store.statements import events as statements
from socialpub.store.statements import webhooks

EVENTS: dict[str, str] = {
    "post.queued": "A scheduled post was accepted and queued.",
    "post.validated": "Preflight passed.",
    "post.published": "The post was published.",
    "post.rejected": "Preflight or the platform rejected the post. It is not retried.",
    "post.failed": "The post could not be published. `willRetry` tells whether it is retried.",
    "post.canceled": "A scheduled post was canceled before it was due.",
    "post.rescheduled": "A scheduled post was moved to another time.",
    "token.expiring": "An account's token expires soon and cannot be refreshed automatically.",
    "token.revoked": "The platform rejected an account's token.",
    "version.deprecated": "A platform announced the end of the API version that this server uses.",
    "subscription.activated": "A subscription began.",
    "subscription.cancelled": "A subscription was cancelled.",
    "subscription.tier_changed": "A subscription moved to another tier.",
    "quota.warning": "80 % of the monthly post quota is used.",
    "quota.exceeded": "The monthly post quota is used up.",
    "billing.payment_failed": "A payment failed.",
    "billing.delinquent": "The subscription is past due and was downgraded to free.",
    "billing.recovered": "A failed payment was recovered.",
    "webhook.disabled": "A webhook endpoint was turned off: it answered 410, or every delivery failed for 5 days.",
}
"""Every event type and when it is sent. The list is canonical: adding is non-breaking, removing is breaking."""


class Audience(NamedTuple):
    """An organization, its number, and who is told what happens in it."""

    organization: str
    number: int
    receivers: Sequence[Receiver]


def audience(service: Service, organization: str, number: int) -> Audience:
    """Who is told now; in the transaction that tells."""
    return Audience(organization, number, tuple(sql.every(webhooks.RECEIVERS_OF, (organization,))))


class Told(NamedTuple):
    """An event of a post, of many that are written at once.

    `number`: the post's. `kept`: what the event's row keeps of `data`.
    """

    type: str
    profile: str
    post: str
    number: int
    kept: Kept
    data: Callable[[], Mapping[str, object]]


def emit_all(service: Service, tx: Tx, told: Sequence[tuple[Audience, Sequence[Told]]], now: int) -> None:
    """Write events in this order in the caller's transaction: for each organization its own; KeyError as `emit`.

    What has caused them is the request that made the batch of their posts.
    """
    rows = [
        (statements.TYPES[one.type], one.number, *one.kept, audience.number)
        for audience, theirs in told
        for one in theirs
    ]
    last = sql.insert(statements.OF_POSTS, rows, (now,))
    assert last is not None, "rows were written"
    number = last - len(rows) + 1  # only one thread writes, so they are numbered one after the other
    for audience, theirs in told:
        if audience.receivers:
            emitted = [
                Emitted(place, one.type, one.profile, one.post, one.data()) for place, one in enumerate(theirs, number)
            ]
            address(service, tx, audience.organization, emitted, audience.receivers)
        number += len(theirs)


def emit(
    service: Service,
    tx: Tx,
    type_: str,
    organization: str,
    data: Mapping[str, object],
    *,
    profile: str | None = None,
    post: str | None = None,
    error: str | None = None,
    request_id: str | None = None,
    receivers: Sequence[Receiver] | None = None,
    now: int | None = None,
) -> None:
    """Write an event in the caller's transaction; KeyError for a type that EVENTS does not have.

    `error`: that of a post's row, which keeps it as long as the event needs it (`keep_error`). `now`: when it happened.
    `receivers`: who is told, where the caller has read that already.
    """
    now = service.now_ms if now is None else now
    kept = kept_of(type_, data, now, error) if post else Kept(None, dumps(data))
    row = (organization, None if post else profile, statements.TYPES[type_], post, *kept, request_id, now)
    number = sql.execute(statements.ADD, row).lastrowid
    assert number is not None, "a row was written"
    told = sql.every(webhooks.RECEIVERS_OF, (organization,)) if receivers is None else receivers
    address(service, tx, organization, [Emitted(number, type_, profile, post, data)], told)


def keep_error(tx: Tx, post: str) -> None:
    """The error that a post's row has is about to go: the events that tell it get it themselves."""
    sql.execute(statements.KEEP_ERROR, (post,))


_OF_POST = frozenset(("id", "batchId", "platform", "accountId", "profileId"))  # with which its events begin
_LINKS = ("uri", "cid", "url")


class Kept(NamedTuple):
    """What is kept of an event's data: when its post was to go out, where the rest is the usual; else the text."""

    scheduled_at: int | None
    data: str | None


def usual_of(scheduled_at: int | None) -> Kept:
    """What `kept_of` gives for data that is what its type tells as a rule, as all is of a new post."""
    return Kept(scheduled_at, None)


def kept_of(type_: str, data: Mapping[str, object], at: int, error: str | None = None) -> Kept:
    """What is kept of a post's event: its data without what the post's row tells ever after.

    Nothing where it is what the type tells as a rule (`statements.USUAL`): then the row has the time for which the post
    was scheduled, and `error` is in the post's row. Else two characters that no JSON has stand for what is told twice:
    U+0001 for the links of what is published, which nothing changes any more, and U+0002 for the time of the event.
    """
    text = dumps({name: value for name, value in data.items() if name not in _OF_POST})[1:]
    now, links = f'"{iso(at)}"', _links(data)
    scheduled = data.get("scheduledAt")
    parts = {"at": now, "published": f'"{data.get("publishedAt")}"', "links": links, "error": error or ""}
    usual = f'"scheduledAt":{dumps(scheduled)}' + _usual(type_, parts)
    if text == usual:
        return usual_of(_instant(scheduled) if isinstance(scheduled, str) else None)
    if links:
        text = text.replace(links, "\x01", 1)
    return Kept(None, text.replace(now, "\x02", 1))


def _links(data: Mapping[str, object]) -> str:
    return dumps({name: data[name] for name in _LINKS})[1:-1] if "uri" in data else ""


def _usual(type_: str, parts: Mapping[str, str]) -> str:
    """How the data of a post's event ends as a rule; nothing for a type that has no rule."""
    end = statements.USUAL.get(type_, "")
    for name, text in parts.items():
        end = end.replace("{" + name + "}", text)
    return end


_instant = functools.lru_cache(64)(parse_instant)  # a batch's posts have one time


class Emitted(NamedTuple):
    """An event that was just written."""

    number: int
    type: str
    profile: str | None
    post: str | None
    data: Mapping[str, object]


Receiver = tuple[str, str | None, str, int]
"""Whom an organization has told to be told: the id, the one profile that it hears of, the JSON of its types, and
whether it is a channel of people."""


def address(
    service: Service, tx: Tx, organization: str, emitted: Sequence[Emitted], receivers: Sequence[Receiver]
) -> None:
    """Write down, in the same transaction, to whom it is delivered: endpoints get each event, people one of a cause."""
    endpoints, channels = [], []
    for receiver, profile, types, is_channel in receivers:
        if is_channel:
            channels.append(notices.Channel(receiver, organization, profile, types))
        else:
            endpoints.append((receiver, profile, json.loads(types)))
    rung = _deliver(service, tx, organization, endpoints, emitted) if endpoints else set()
    if channels:
        rung |= notices.tell(service, tx, channels, [notices.News(one.type, one.profile, one.data) for one in emitted])
    if rung:
        tx.after_commit(lambda: service.ring_receivers(sorted(rung)))


def _deliver(
    service: Service,
    tx: Tx,
    organization: str,
    endpoints: Sequence[tuple[str, str | None, list[str]]],
    emitted: Sequence[Emitted],
) -> set[str]:
    """A delivery of each event for each endpoint that it is for; those endpoints."""
    rows: list[tuple[str | int | None, ...]] = []
    for endpoint, profile, chosen in endpoints:
        for event in emitted:
            if profile in (None, event.profile) and (not chosen or event.type in chosen):
                delivery = service.runtime.ids.prefixed("whd_")
                told = (endpoint, organization, event.profile, event.number, event.type, event.post)
                rows.append((delivery, *told, service.now_ms))
    if rows:
        sql.change(webhooks.ADD, (sql.json_of(rows),))
    return {str(row[1]) for row in rows}
