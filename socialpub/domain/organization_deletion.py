"""Deletion of an organization or profile: what it ends, and the actions that end it.

Refused while a post is being published or has an unknown outcome. Rows of published posts stay until retention removes
them.
"""

from __future__ import annotations

import asyncio
import unicodedata
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Literal

from peewee import fn
from typing_extensions import TypedDict

from socialpub.base.errors import ApiError
from socialpub.domain.access import authentication
from socialpub.domain.access.actor import ActionResult, Actor
from socialpub.domain.access.authentication import Scope
from socialpub.domain.accounts import accounts, connect
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.delivery.notifications import channels
from socialpub.domain.delivery.webhooks import endpoints
from socialpub.domain.identity import api_keys, members, users
from socialpub.domain.media import library
from socialpub.domain.organizations import profiles
from socialpub.domain.posts import drafts
from socialpub.domain.schemas.common import DeletedBody
from socialpub.store.database import Tx
from socialpub.store.engine import sql
from socialpub.store.queries import maintenance
from socialpub.store.schema.models import (
    Account,
    ApiKey,
    AuthorizationCode,
    ConnectAttempt,
    ExternalId,
    Invitation,
    Media,
    Organization,
    PlanToken,
    Session,
    Subscription,
    User,
    get_row,
)

PART_LABELS: dict[str, tuple[str, str]] = {
    "accounts": ("connected account: its tokens are deleted", "connected accounts: their tokens are deleted"),
    "posts": ("queued post: it is canceled", "queued posts: they are canceled"),
    "drafts": ("unpublished draft: it is deleted", "unpublished drafts: they are deleted"),
    "keys": ("API key: it is revoked", "API keys: they are revoked"),
    "webhooks": ("webhook endpoint", "webhook endpoints"),
    "channels": ("notification channel", "notification channels"),
    "members": ("member: can no longer sign in", "members: they can no longer sign in"),
    "sessions": ("session: it ends", "sessions: they end"),
    "invitations": ("open invitation", "open invitations"),
    "profiles": ("profile", "profiles"),
    "mediaFiles": ("stored media file: it is deleted", "stored media files: they are deleted"),
}
"""Parts that a deletion ends, in order of display: text for one and for several."""


class DeletionCounts(TypedDict):
    """Numbers of what a deletion ends; `publishing` and `subscriptions` are not ended."""

    accounts: int
    posts: int
    drafts: int
    keys: int
    webhooks: int
    channels: int
    members: int
    sessions: int
    invitations: int
    profiles: int
    mediaFiles: int
    mediaBytes: int
    publishing: int
    """Posts being published or with unknown outcome, which must end first."""
    subscriptions: int
    """At Lemon Squeezy; they continue until canceled there."""


class DeletionPlan(TypedDict):
    """Effects of a deletion that is not executed yet."""

    organizationId: str
    name: str
    deleted: Literal[False]
    ends: DeletionCounts


class DeletedOrganization(TypedDict):
    """Deleted organization with what was ended."""

    id: str
    name: str
    deleted: Literal[True]
    ends: DeletionCounts


# --- Effects -----------------------------------------------------------------------------------------------------


def plan_deletion(service: AppContext, organization: str) -> DeletionPlan:
    """Describe what a deletion would end. Raises ApiError `not_found`."""
    profiles.check_organization(organization)
    name = get_row(Organization, organization)["name"]
    return {"organizationId": organization, "name": name, "deleted": False, "ends": count_parts(service, organization)}


def count_parts(service: AppContext, organization: str) -> DeletionCounts:
    """Count what the organization has."""
    scope, now = Scope(organization), service.now_ms
    ever = _list_account_ids(organization)
    held = (Media.organization == organization) & Media.deleted_at.is_null() & (Media.size_bytes > 0)
    files, size = Media.select(fn.COUNT(Media.id), fn.COALESCE(fn.SUM(Media.size_bytes), 0)).where(held).tuples().get()
    people = Session.select().join(User, on=(Session.user == User.id)).where(User.organization == organization)
    return {
        "accounts": len(accounts.list_rows(scope)),
        "posts": sum(sql.fetch_value(maintenance.COUNT_WAITING, (account, now)) for account in ever),
        "drafts": drafts.count(organization),
        "keys": ApiKey.select().where(ApiKey.organization == organization, ApiKey.revoked_at.is_null()).count(),
        "webhooks": len(endpoints.list_bodies(scope)),
        "channels": len(channels.list_bodies(scope)),
        "members": User.select().where(User.organization == organization).count(),
        "sessions": people.where(authentication.select_live(now)).count(),
        "invitations": Invitation.select()
        .where(Invitation.organization == organization, Invitation.ends_at > now)
        .count(),
        "profiles": len(profiles.list_bodies(scope)),
        "mediaFiles": files,
        "mediaBytes": size,
        "publishing": sum(sql.fetch_value(maintenance.COUNT_IN_FLIGHT, (account,)) for account in ever),
        "subscriptions": Subscription.select()
        .where(Subscription.organization == organization, ~Subscription.ended)
        .count(),
    }


def format_lines(ends: DeletionCounts) -> list[str]:
    """Describe a deletion, a line for each kind that exists, then what it does not end."""
    counts: dict[str, int] = {name: int(count) for name, count in ends.items()}  # type: ignore[call-overload]
    named = [f"{counts[name]:,} {words[counts[name] != 1]}." for name, words in PART_LABELS.items() if counts[name]]
    if counts["mediaBytes"]:
        named[-1] = named[-1].removesuffix(".") + f" ({counts['mediaBytes']:,} bytes)."
    if counts["publishing"]:
        named.append(f"{_format_in_flight(counts['publishing'])}: it can be deleted after that is finished.")
    if counts["subscriptions"]:
        named.append("Its subscription at Lemon Squeezy continues: cancel it there.")
    return named


def _list_account_ids(organization: str) -> list[str]:
    """List its accounts, including disconnected ones, which may have queued posts."""
    return [row[0] for row in Account.select(Account.id).where(Account.organization == organization).tuples()]


# --- Deletion ----------------------------------------------------------------------------------------------------


def delete(tx: Tx, who: Actor, confirmed: str | None = None) -> ActionResult:
    """Delete the organization; return `{id, name, deleted, ends}`. Accounts are revoked after.

    `confirmed`: the name as typed by a person, if asked. Raises ApiError `not_found`; `validation_failed` for another
    name, or 409 while a post is being published.
    """
    service, organization = who.service, who.scope.organization
    planned = plan_deletion(service, organization)
    if confirmed is not None and _normalize_name(confirmed) != _normalize_name(planned["name"]):
        raise users.build_field_error("confirm", "This is not the name of the organization. Nothing was deleted.")
    if planned["ends"]["publishing"]:
        raise _build_publishing_error(planned["ends"]["publishing"])
    _delete_receivers(tx, who)  # first: they are not notified of this deletion
    revoke = _disconnect_accounts(tx, who)
    _remove_access(tx, who)
    drafts.delete_all(tx, who)
    library.delete_all(tx, who)
    ExternalId.delete().where(ExternalId.organization == organization).execute()
    PlanToken.delete().where(PlanToken.organization == organization).execute()
    AuthorizationCode.delete().where(AuthorizationCode.organization == organization).execute()
    Organization.update(deleted_at=service.now_ms).where(Organization.id == organization).execute()
    deleted: DeletedOrganization = {
        "id": organization,
        "name": planned["name"],
        "deleted": True,
        "ends": planned["ends"],
    }
    return ActionResult(deleted, after=revoke)


def _normalize_name(name: str) -> str:
    """Normalize a name for comparison: keyboards write the same letter in several ways."""
    return unicodedata.normalize("NFC", name).strip()


def _format_in_flight(count: int) -> str:
    are = "1 post is" if count == 1 else f"{count} posts are"
    return f"{are} being published, or the outcome is unknown"


def _build_publishing_error(count: int) -> ApiError:
    return ApiError(
        "validation_failed",
        f"{_format_in_flight(count)}. Nothing was deleted.",
        remediation="Wait until the server has finished them, then try again.",
        status=409,
    )


def delete_profile(tx: Tx, who: Actor, profile: str) -> DeletedBody:
    """Delete a profile with its endpoints and channels. Raises ApiError as `profiles.delete`."""
    deleted = profiles.delete(tx, who, profile)
    _delete_receivers(tx, who._replace(scope=replace(who.scope, profile=profile)))
    return deleted


def _delete_receivers(tx: Tx, who: Actor) -> None:
    """Delete the endpoints and channels of the scope."""
    for endpoint in endpoints.list_bodies(who.scope):
        endpoints.delete(tx, who, endpoint["id"])
    for channel in channels.list_bodies(who.scope):
        channels.delete(tx, who, channel["id"])


def _disconnect_accounts(tx: Tx, who: Actor) -> Callable[[], Awaitable[object]]:
    """Disconnect the accounts, cancel posts; return the revocation to run after the commit."""
    done = [connect.disconnect(tx, who, row["id"], keep=True) for row in accounts.list_rows(who.scope)]
    left = accounts.CANCEL_BATCH  # posts canceled in this transaction
    for account in _list_account_ids(who.scope.organization):
        left -= accounts.cancel_posts(who.service, tx, account, who.request_id, left)
    ConnectAttempt.delete().where(ConnectAttempt.organization == who.scope.organization).execute()
    afterwards = [each.after for each in done if each.after]

    async def revoke() -> None:
        await asyncio.gather(*(each() for each in afterwards))

    return revoke


def _remove_access(tx: Tx, who: Actor) -> None:
    """Delete profiles, revoke keys and remove members."""
    for profile in profiles.list_bodies(who.scope):
        profiles.delete(tx, who, profile["id"])
    for key in api_keys.list_bodies(who.scope.organization):
        if key["revokedAt"] is None:
            api_keys.revoke(tx, who, key["id"])
    members.remove_all(tx, who)
