"""Notification channels of an organization. The target is encrypted; parts of it are shown."""

from __future__ import annotations

import json
from typing import Any

from socialpub.base.runtime import format_iso
from socialpub.domain.access.actor import ActionResult, Actor
from socialpub.domain.access.authentication import Scope
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.delivery import subscriptions, url_policy
from socialpub.domain.delivery.notifications import email
from socialpub.domain.schemas.common import DeletedBody
from socialpub.domain.schemas.notifications import (
    ChannelBody,
    ChannelChange,
    ChannelRequest,
    ChannelTarget,
    EmailTarget,
    ShownTarget,
)
from socialpub.store.database import Tx
from socialpub.store.engine import sql
from socialpub.store.queries import notifications
from socialpub.store.rows import NotificationChannelRow
from socialpub.store.schema.models import NotificationChannel

PREFIX = "nch_"
MAX_PER_ORGANIZATION = 50
DEFAULT_NTFY_URL = "https://ntfy.sh"
UNMASKED_FIELDS = ("kind", "address", "chatId")
VISIBLE_CHARACTERS = 4  # characters shown of a much longer secret


# --- Reading -----------------------------------------------------------------------------------------------------


def to_body(row: NotificationChannelRow) -> ChannelBody:
    """Build the API body of a channel."""
    return {
        "id": row["id"],
        "to": json.loads(row["shown"]),
        "events": json.loads(row["events"]),
        "description": row["description"],
        "active": bool(row["active"]),
        "profileId": row["profile"],
        "accounts": sql.load_optional_json(row["accounts"]),
        "lastDeliveryAt": format_iso(row["last_delivery_at"]),
        "lastFailureReason": row["last_failure_reason"],
        "createdAt": format_iso(row["created_at"]),
        "updatedAt": format_iso(row["updated_at"]),
    }


def list_bodies(scope: Scope) -> list[ChannelBody]:
    """List the channels of the scope, oldest first."""
    return [to_body(row) for row in subscriptions.list_rows(NotificationChannel, scope)]


def find(scope: Scope, channel: str) -> NotificationChannelRow:
    """Load a channel of the scope. Raises ApiError `not_found`."""
    row: NotificationChannelRow = subscriptions.find(NotificationChannel, scope, channel, "notification channel")
    return row


# --- Changes -----------------------------------------------------------------------------------------------------


async def check_target(service: AppContext, organization: str, to: ChannelTarget) -> None:
    """Raise ApiError for a private address, or for e-mail without a mail server."""
    if isinstance(to, EmailTarget):
        email.check_configured(service)
    elif url := _secret_fields(to).get("url"):
        await url_policy.check_address(service, organization, url)


def create(tx: Tx, who: Actor, request: ChannelRequest) -> ActionResult:
    """Create a channel. Raises ApiError `notification.channels.max`."""
    service, scope, now = who.service, who.scope, who.service.now_ms
    rule, name = "notification.channels.max", "notification channel"
    subscriptions.check_room(NotificationChannel, scope, MAX_PER_ORGANIZATION, rule, name)
    channel = service.runtime.ids.prefixed(PREFIX)
    NotificationChannel.insert(
        id=channel,
        organization=scope.organization,
        profile=scope.profile,
        accounts=scope.account_list,
        kind=request.to.kind,
        shown=_mask_target(request.to),
        events=subscriptions.encode_events(request.events),
        description=request.description,
        secret=_encrypt_secret(service, channel, request.to),
        created_at=now,
        updated_at=now,
    ).execute()
    return ActionResult(to_body(find(scope, channel)), 201)


def change(tx: Tx, who: Actor, channel: str, request: ChannelChange) -> ChannelBody:
    """Change a channel. Raises ApiError `not_found`."""
    service, row = who.service, find(who.scope, channel)
    to = request.to
    is_moved = to is not None and not _is_target(service, row, to)
    changes = subscriptions.list_changes(request, service.now_ms, is_moved=is_moved)
    if to is not None:
        changes |= {"kind": to.kind, "shown": _mask_target(to), "secret": _encrypt_secret(service, row["id"], to)}
    NotificationChannel.update(**changes).where(NotificationChannel.id == row["id"]).execute()
    tx.after_commit(lambda: service.wake_deliveries([row["id"]]))  # pending messages may be sent now
    return to_body(find(who.scope, channel))


def delete(tx: Tx, who: Actor, channel: str) -> DeletedBody:
    """Delete a channel; its pending messages end as failed. Raises ApiError `not_found`."""
    row, now = find(who.scope, channel), who.service.now_ms
    changes = {"active": False, "deleted_at": now, "secret": "", "shown": "{}"}
    NotificationChannel.update(**changes).where(NotificationChannel.id == row["id"]).execute()
    end_messages_if_deleted(tx, row["id"], now)
    return {"id": row["id"], "deleted": True}


def end_messages_if_deleted(tx: Tx, channel: str, now: int) -> None:
    """End the pending messages of a channel as failed, if it is deleted."""
    sql.update(notifications.END_NOTIFICATIONS, ("The channel was deleted.", now, channel))


# --- Secrets -----------------------------------------------------------------------------------------------------


def decrypt_secret(service: AppContext, channel: str, sealed: str) -> dict[str, Any]:
    """Decrypt the target of a channel."""
    secret: dict[str, Any] = json.loads(service.runtime.vault.open(sealed, _vault_context(channel)))
    return secret


def _is_target(service: AppContext, row: NotificationChannelRow, to: ChannelTarget) -> bool:
    known = decrypt_secret(service, row["id"], row["secret"])
    return (to.kind, _secret_fields(to)) == (row["kind"], known)


def _encrypt_secret(service: AppContext, channel: str, to: ChannelTarget) -> str:
    return service.runtime.vault.seal(json.dumps(_secret_fields(to)).encode(), _vault_context(channel))


def _vault_context(channel: str) -> tuple[str, str, str]:
    return ("notification_channel", "secret", channel)


def _secret_fields(to: ChannelTarget) -> dict[str, Any]:
    given = to.model_dump(by_alias=True, exclude_none=True)
    return {"url": DEFAULT_NTFY_URL, **given} if to.kind == "ntfy" else given


def _mask_target(to: ChannelTarget) -> str:
    """Return the visible part of a target, as JSON."""
    shown = {name: _mask_field(to.kind, name, value) for name, value in _secret_fields(to).items()}
    target: ShownTarget = {"kind": to.kind, **shown}  # type: ignore[typeddict-item]
    return json.dumps(target)


def _mask_field(kind: str, name: str, value: str) -> str:
    if name in UNMASKED_FIELDS or (kind == "ntfy" and name == "url"):
        return value
    if name != "url":
        return _mask(value)
    scheme, _, rest = value.partition("://")
    authority, _, path = rest.partition("/")
    host = authority.rpartition("@")[2]  # after user name and password in the URL
    return f"{scheme}://{host}/{_mask(path)}"


def _mask(secret: str) -> str:
    return "…" + (secret[-VISIBLE_CHARACTERS:] if len(secret) >= 4 * VISIBLE_CHARACTERS else "")
