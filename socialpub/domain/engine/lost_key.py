"""A start without a master key that is lost: what only it could open is given up, each thing in its own way.

Nothing else changes: posts, their log, events, users and API keys stay. It can be killed anywhere, and is done again:
until the end the database names the lost key, and no server starts on it.
"""

from __future__ import annotations

import functools
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from socialpub.base import faults
from socialpub.domain.accounts import tokens
from socialpub.domain.core import instance
from socialpub.domain.core.service import Service
from socialpub.domain.people import totp
from socialpub.domain.people.actor import Actor
from socialpub.domain.webhooks import endpoints
from socialpub.platforms.contract import Tokens
from socialpub.store import sql
from socialpub.store.db import Tx
from socialpub.store.models import (
    Account,
    ConnectAttempt,
    Idempotency,
    Instance,
    NotificationChannel,
    PlatformApp,
    WebhookEndpoint,
)
from socialpub.store.statements.sealed import EXISTS, SEALED, Sealed

log = logging.getLogger("socialpub.keys")

AT_ONCE = 100
FIRST = -1  # before every id, of numbers and of texts
EVERY = (FIRST, -1)
ACCOUNT = "The master key that its authorization was stored with is lost: connect the account again."
ENDPOINT = "Its signing secret is lost with the master key: take a new one, give it to the receiver, switch it on."


def lost(keys: set[str]) -> Counter[str]:
    """Within a read, also before the newest migrations: how much was sealed with these keys, by table."""
    there = [each for each in SEALED if each.lasting and sql.first(EXISTS, (each.table, each.column))]
    return Counter(each.table for each in there for _, value in sql.every(each.part, EVERY) if _key_of(value) in keys)


def forget(service: Service) -> None:
    """Give up what only lost keys could open, part by part."""
    for each in SEALED:
        after: object = FIRST
        while after is not None:
            after = service.write(functools.partial(_part, service, each, after)).result()
            faults.hit("forget.part")


def finish(tx: Tx, who: Actor) -> dict[str, Any]:
    """`{keyId, was}`: from now on the keys that are here are all that the database needs."""
    before, key = instance.key_id(), who.service.runtime.vault.key_id
    Instance.update(key_id=key).where(Instance.id == 1).execute()
    return {"keyId": key, "was": before}


def _part(service: Service, each: Sealed, after: object, tx: Tx) -> object:
    """Some values of a column; the id to go on after, None at the end."""
    rows = sql.every(each.part, (after, AT_ONCE))
    for row, value in rows:
        if not service.runtime.vault.holds(_key_of(value)):
            LOST[each.table, each.column](service, tx, str(row))
    return rows[-1][0] if len(rows) == AT_ONCE else None


def _key_of(value: str) -> str:
    return value[3:11]


# --- What becomes of each ------------------------------------------------------------------------------------------


def _account(service: Service, tx: Tx, account: str) -> None:
    tokens.mark_revoked(service, tx, account, ACCOUNT)
    Account.update(secret=tokens.sealed(service, account, Tokens(""))).where(Account.id == account).execute()
    log.warning("account %s has to be connected again", account)


def _app(service: Service, tx: Tx, platform: str) -> None:
    PlatformApp.update(secret="", known_at=None, updated_at=service.now_ms).where(PlatformApp.id == platform).execute()
    log.warning("the app at %s has to be typed in again", platform)


def _second_factor(service: Service, tx: Tx, user: str) -> None:
    totp.forget(tx, user)
    log.warning("user %s signs in without a second factor: it has to be set up again", user)


def _endpoint(service: Service, tx: Tx, endpoint: str) -> None:
    changes = {
        "secret": endpoints.seal(service, endpoint, endpoints.new_secret(service)),
        "active": False,
        "last_failure_reason": ENDPOINT,
        "updated_at": service.now_ms,
    }
    WebhookEndpoint.update(**changes).where(WebhookEndpoint.id == endpoint).execute()
    log.warning("webhook endpoint %s is switched off: its signing secret is lost", endpoint)


def _previous(service: Service, tx: Tx, endpoint: str) -> None:
    WebhookEndpoint.update(previous_secret=None, previous_until=None).where(WebhookEndpoint.id == endpoint).execute()


def _channel(service: Service, tx: Tx, channel: str) -> None:
    gone = {"active": False, "deleted_at": service.now_ms, "secret": "", "shown": "{}"}
    NotificationChannel.update(**gone).where(NotificationChannel.id == channel).execute()
    log.warning("notification channel %s is removed: where it leads is lost", channel)


def _client_key(service: Service, tx: Tx, row: str) -> None:
    Instance.update(client_key=None).where(Instance.id == 1).execute()


def _signing_key(service: Service, tx: Tx, row: str) -> None:
    Instance.update(signing_key=None).where(Instance.id == 1).execute()


def _attempt(service: Service, tx: Tx, attempt: str) -> None:
    ConnectAttempt.delete().where(ConnectAttempt.id == attempt).execute()


def _kept_answer(service: Service, tx: Tx, key: str) -> None:
    Idempotency.delete().where(Idempotency.id == key).execute()


LOST: Mapping[tuple[str, str], Callable[[Service, Tx, str], None]] = {
    ("instance", "client_key"): _client_key,
    ("instance", "signing_key"): _signing_key,
    ("account", "secret"): _account,
    ("platform_app", "secret"): _app,
    ("user", "totp"): _second_factor,
    ("webhook_endpoint", "secret"): _endpoint,
    ("webhook_endpoint", "previous_secret"): _previous,
    ("notification_channel", "secret"): _channel,
    ("connect_attempt", "secret"): _attempt,
    ("connect_attempt", "choices"): _attempt,
    ("idempotency", "body"): _kept_answer,
}
