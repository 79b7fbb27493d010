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

from socialpub.base import fault_injection
from socialpub.domain.access.actor import Actor
from socialpub.domain.accounts import tokens
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.delivery.webhooks import endpoints
from socialpub.domain.identity import totp
from socialpub.domain.server import instance
from socialpub.platforms.contract import Tokens
from socialpub.store.database import Tx
from socialpub.store.engine import sql
from socialpub.store.queries.encrypted_columns import ENCRYPTED_COLUMNS, HAS_COLUMN, EncryptedColumn
from socialpub.store.schema.models import (
    Account,
    ConnectAttempt,
    IdempotencyRecord,
    Instance,
    NotificationChannel,
    PlatformApp,
    WebhookEndpoint,
)

log = logging.getLogger("socialpub.keys")

BATCH = 100
BEFORE_FIRST = -1  # before every id, of numbers and of texts
FULL_RANGE = (BEFORE_FIRST, -1)
ACCOUNT_MESSAGE = "The master key that its authorization was stored with is lost: connect the account again."
ENDPOINT_MESSAGE = (
    "Its signing secret is lost with the master key: take a new one, give it to the receiver, switch it on."
)


def count_lost(keys: set[str]) -> Counter[str]:
    """Within a read, also before the newest migrations: how much was sealed with these keys, by table."""
    there = [
        each for each in ENCRYPTED_COLUMNS if each.lasting and sql.fetch_one(HAS_COLUMN, (each.table, each.column))
    ]
    return Counter(
        each.table
        for each in there
        for _, value in sql.fetch_all(each.part, FULL_RANGE)
        if _parse_key_id(value) in keys
    )


def drop_lost(service: AppContext) -> None:
    """Give up what only lost keys could open, part by part."""
    for each in ENCRYPTED_COLUMNS:
        after: object = BEFORE_FIRST
        while after is not None:
            after = service.write(functools.partial(_drop_batch, service, each, after)).result()
            fault_injection.hit("forget.part")


def finish(tx: Tx, who: Actor) -> dict[str, Any]:
    """`{keyId, was}`: from now on the keys that are here are all that the database needs."""
    before, key = instance.find_key_id(), who.service.runtime.vault.key_id
    Instance.update(key_id=key).where(Instance.id == 1).execute()
    return {"keyId": key, "was": before}


def _drop_batch(service: AppContext, each: EncryptedColumn, after: object, tx: Tx) -> object:
    """Some values of a column; the id to go on after, None at the end."""
    rows = sql.fetch_all(each.part, (after, BATCH))
    for row, value in rows:
        if not service.runtime.vault.holds(_parse_key_id(value)):
            DROP_HANDLERS[each.table, each.column](service, tx, str(row))
    return rows[-1][0] if len(rows) == BATCH else None


def _parse_key_id(value: str) -> str:
    return value[3:11]


# --- What becomes of each ------------------------------------------------------------------------------------------


def _drop_account(service: AppContext, tx: Tx, account: str) -> None:
    tokens.mark_revoked(service, tx, account, ACCOUNT_MESSAGE)
    Account.update(secret=tokens.encrypt(service, account, Tokens(""))).where(Account.id == account).execute()
    log.warning("account %s has to be connected again", account)


def _drop_app(service: AppContext, tx: Tx, platform: str) -> None:
    PlatformApp.update(secret="", known_at=None, updated_at=service.now_ms).where(PlatformApp.id == platform).execute()
    log.warning("the app at %s has to be typed in again", platform)


def _drop_second_factor(service: AppContext, tx: Tx, user: str) -> None:
    totp.delete(tx, user)
    log.warning("user %s signs in without a second factor: it has to be set up again", user)


def _drop_endpoint(service: AppContext, tx: Tx, endpoint: str) -> None:
    changes = {
        "secret": endpoints.encrypt_secret(service, endpoint, endpoints.generate_secret(service)),
        "active": False,
        "last_failure_reason": ENDPOINT_MESSAGE,
        "updated_at": service.now_ms,
    }
    WebhookEndpoint.update(**changes).where(WebhookEndpoint.id == endpoint).execute()
    log.warning("webhook endpoint %s is switched off: its signing secret is lost", endpoint)


def _drop_previous_secret(service: AppContext, tx: Tx, endpoint: str) -> None:
    WebhookEndpoint.update(previous_secret=None, previous_until=None).where(WebhookEndpoint.id == endpoint).execute()


def _drop_channel(service: AppContext, tx: Tx, channel: str) -> None:
    gone = {"active": False, "deleted_at": service.now_ms, "secret": "", "shown": "{}"}
    NotificationChannel.update(**gone).where(NotificationChannel.id == channel).execute()
    log.warning("notification channel %s is removed: where it leads is lost", channel)


def _drop_client_key(service: AppContext, tx: Tx, row: str) -> None:
    Instance.update(client_key=None).where(Instance.id == 1).execute()


def _drop_signing_key(service: AppContext, tx: Tx, row: str) -> None:
    Instance.update(signing_key=None).where(Instance.id == 1).execute()


def _drop_attempt(service: AppContext, tx: Tx, attempt: str) -> None:
    ConnectAttempt.delete().where(ConnectAttempt.id == attempt).execute()


def _drop_stored_response(service: AppContext, tx: Tx, key: str) -> None:
    IdempotencyRecord.delete().where(IdempotencyRecord.id == key).execute()


DROP_HANDLERS: Mapping[tuple[str, str], Callable[[AppContext, Tx, str], None]] = {
    ("instance", "client_key"): _drop_client_key,
    ("instance", "signing_key"): _drop_signing_key,
    ("account", "secret"): _drop_account,
    ("platform_app", "secret"): _drop_app,
    ("user", "totp"): _drop_second_factor,
    ("webhook_endpoint", "secret"): _drop_endpoint,
    ("webhook_endpoint", "previous_secret"): _drop_previous_secret,
    ("notification_channel", "secret"): _drop_channel,
    ("connect_attempt", "secret"): _drop_attempt,
    ("connect_attempt", "choices"): _drop_attempt,
    ("idempotency", "body"): _drop_stored_response,
}
