"""Notification outbox: compose, send and record the due messages of a channel."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from socialpub.base.concurrency.fair_executor import ShareKey
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.notifications import channels, chats, email, words
from socialpub.domain.outbox import addresses
from socialpub.domain.outbox.calls import GIVEN_UP_MS, Attempt, End, again_at, status_of, tell, timed
from socialpub.domain.outbox.deliverer import Errand, Found
from socialpub.domain.shapes.notifications import PAUSED
from socialpub.store.database import Tx
from socialpub.store.engine import sql
from socialpub.store.queries import notifications as statements

log = logging.getLogger("socialpub.notifications")

ORDER = "channel"  # one message after another per channel


class Due(NamedTuple):
    """Due message, in the column order of `statements.DUE`."""

    number: int
    id: str
    type: str
    data: str
    times: int
    follows: bool
    attempts: int
    created_at: int
    name: str | None


@dataclass(frozen=True)
class Receiver:
    """Channel with its decrypted target."""

    id: str
    organization: str
    kind: str
    secret: Mapping[str, Any]


def receiver_of(service: AppContext, channel: str, organization: str, kind: str, sealed: str) -> Receiver:
    """Decrypt the target of a channel's row."""
    return Receiver(channel, organization, kind, channels.open_secret(service, channel, sealed))


def share_of(service: AppContext, to: Receiver) -> ShareKey:
    """Return the share key of calls to a channel."""
    settings = service.runtime.settings
    if to.kind == "email":
        return ShareKey(settings.smtp.host, to.organization)
    return addresses.share_of(to.secret.get("url", settings.notifications.telegram_api), to.organization)


def send(service: AppContext, to: Receiver, message: words.Message, reference: str) -> Attempt:
    """Send a message and return the attempt; never raises. `reference`: same for every attempt."""

    def run() -> End:
        if to.kind == "email":
            return email.send(service, to.secret["address"], message, reference)
        return chats.send(service, chats.FORMS[to.kind](service, to.secret, message))

    return timed(service, reference, run)


@dataclass(frozen=True)
class Notifications:
    """Notification outbox; it stays open during a pause, to report the pause."""

    prefix: str = channels.PREFIX
    goes_on: bool = True

    def soonest(self, service: AppContext) -> list[tuple[str, int]]:
        """Implement `Outbox`."""
        return sql.fetch_all(statements.FIND_NEXT_DUE)

    def look(self, service: AppContext, receiver: str, most: int, but: Collection[int], *, held_back: bool) -> Found:
        """Implement `Outbox`."""
        row, now = sql.fetch_one(statements.FIND_CHANNEL, (receiver,)), service.now_ms
        if row is None:
            return Found()
        to = receiver_of(service, *row)
        wanted = (receiver, now, PAUSED if held_back else None, most, sql.dump_json(list(but)))
        due = [Due(*found) for found in sql.fetch_all(statements.FIND_DUE, wanted)]
        next_at = sql.fetch_value(statements.FIND_NEXT_DUE_OF_CHANNEL, (receiver, now))
        return Found(share_of(service, to), [_errand(service, to, each) for each in due], next_at)

    def record(
        self, service: AppContext, tx: Tx, receiver: str, calls: Sequence[tuple[Errand, Attempt]]
    ) -> list[int | None]:
        """Implement `Outbox`."""
        return [_record(service, tx, receiver, errand.what, attempt) for errand, attempt in calls]


def _errand(service: AppContext, to: Receiver, due: Due) -> Errand:
    told = words.Told(due.type, sql.load_json(due.data), due.name, due.times, bool(due.follows), due.created_at)
    return Errand(
        due.number,
        due.id,
        ORDER,
        lambda: send(service, to, words.message(told, service.base_url), due.id),
        due,
    )


def _record(service: AppContext, tx: Tx, to: str, due: Due, attempt: Attempt) -> int | None:
    """Record an attempt on message and channel; return the time of the next one."""
    now, next_at = service.now_ms, again_at(service, due.attempts, attempt)
    state = status_of(attempt, next_at)
    tx.after_commit(lambda: tell("notification", due.id, due.type, to, attempt, next_at))
    sql.update(statements.RECORD_ATTEMPT, (state, next_at, attempt.status, attempt.error, now, due.number))
    if attempt.error is None:
        sql.update(statements.RECORD_SUCCESS, (now, to))
        return None
    active = sql.fetch_value(statements.RECORD_FAILURE, (attempt.error, now, now - GIVEN_UP_MS, to))
    if active == 0:
        log.warning("notification channel %s is switched off: every message has failed for 5 days", to)
    return next_at
