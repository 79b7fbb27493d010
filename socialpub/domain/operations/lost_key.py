"""Recovery from a lost master key: delete or reset each value that only it could decrypt.

Posts, their log, events, users and API keys stay. It can be killed at any point and repeated: until it is finished, the
database names the lost key, and no server starts on it.
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
BEFORE_FIRST = -1  # sorts before every id, numeric or text
FULL_RANGE = (BEFORE_FIRST, -1)
ACCOUNT_MESSAGE = "The master key that encrypted its authorization is lost. Reconnect this account."
ENDPOINT_MESSAGE = (
    "Its signing secret is lost with the master key. Create a new one, give it to the receiver, then turn it on."
)


def count_lost(keys: set[str]) -> Counter[str]:
    """Count the values encrypted with these keys, by table. Works before migrations too."""
    existing = [
        each for each in ENCRYPTED_COLUMNS if each.lasting and sql.fetch_one(HAS_COLUMN, (each.table, each.column))
    ]
    return Counter(
        each.table
        for each in existing
        for _, value in sql.fetch_all(each.part, FULL_RANGE)
        if _parse_key_id(value) in keys
    )


def drop_lost(service: AppContext) -> None:
    """Delete or reset the values that only lost keys could decrypt, batch by batch."""
    for each in ENCRYPTED_COLUMNS:
        after: object = BEFORE_FIRST
        while after is not None:
            after = service.write(functools.partial(_drop_batch, service, each, after)).result()
            fault_injection.hit("forget.part")


def finish(tx: Tx, who: Actor) -> dict[str, Any]:
    """Make the loaded key the database's; return `{keyId, was}`: its id and the lost one's."""
    before, key = instance.find_key_id(), who.service.runtime.vault.key_id
    Instance.update(key_id=key).where(Instance.id == 1).execute()
    return {"keyId": key, "was": before}


def _drop_batch(service: AppContext, each: EncryptedColumn, after: object, tx: Tx) -> object:
    """Handle a batch of a column's values; return the id to continue after, or None at the end."""
    rows = sql.fetch_all(each.part, (after, BATCH))
    for row, value in rows:
        if not service.runtime.vault.holds(_parse_key_id(value)):
            DROP_HANDLERS[each.table, each.column](service, tx, str(row))
    return rows[-1][0] if len(rows) == BATCH else None


def _parse_key_id(value: str) -> str:
    return value[3:11]


# --- Handlers by column ------------------------------------------------------------------------------------------


def _drop_account(service: AppContext, tx: Tx, account: str) -> None:
    tokens.mark_revoked(service, tx, account, ACCOUNT_MESSAGE)
    Account.update(secret=tokens.encrypt(service, account, Tokens(""))).where(Account.id == account).execute()
    log.warning("account %s: its authorization is lost; its owner has to reconnect it", account)


def _drop_app(service: AppContext, tx: Tx, platform: str) -> None:
    PlatformApp.update(secret="", known_at=None, updated_at=service.now_ms).where(PlatformApp.id == platform).execute()
    log.warning("%s: the secret of its app is lost; an owner has to enter the app again", platform)


def _drop_second_factor(service: AppContext, tx: Tx, user: str) -> None:
    totp.delete(tx, user)
    log.warning("user %s: two-factor authentication is off, because its secret is lost; set it up again", user)


def _drop_endpoint(service: AppContext, tx: Tx, endpoint: str) -> None:
    changes = {
        "secret": endpoints.encrypt_secret(service, endpoint, endpoints.generate_secret(service)),
        "active": False,
        "last_failure_reason": ENDPOINT_MESSAGE,
        "updated_at": service.now_ms,
    }
    WebhookEndpoint.update(**changes).where(WebhookEndpoint.id == endpoint).execute()
    log.warning("webhook endpoint %s is turned off: its signing secret is lost", endpoint)


def _drop_previous_secret(service: AppContext, tx: Tx, endpoint: str) -> None:
    WebhookEndpoint.update(previous_secret=None, previous_until=None).where(WebhookEndpoint.id == endpoint).execute()


def _drop_channel(service: AppContext, tx: Tx, channel: str) -> None:
    gone = {"active": False, "deleted_at": service.now_ms, "secret": "", "shown": "{}"}
    NotificationChannel.update(**gone).where(NotificationChannel.id == channel).execute()
    log.warning("notification channel %s is removed: its address is lost", channel)


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
