"""Platform apps (OAuth clients): from the settings, or entered by an owner.

They belong to the whole server: only an owner of its only organization may change them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from socialpub import platforms
from socialpub.base.concurrency.fair_executor import ShareKey
from socialpub.base.errors import ApiError
from socialpub.domain.access import actions
from socialpub.domain.access.actor import ActionResult, Actor
from socialpub.domain.access.authentication import Scope
from socialpub.domain.accounts import connect, tokens
from socialpub.domain.context import platform_sites
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.organizations import profiles
from socialpub.domain.schemas.apps import AppBody, AppRequest
from socialpub.platforms.contract import Platform, Site
from socialpub.platforms.kit import oauth
from socialpub.store.database import Tx
from socialpub.store.schema.models import Account, PlatformApp, find_row


@dataclass(frozen=True)
class PlatformAppView:
    """Registered app without its secret. `lost`: the stored secret cannot be decrypted."""

    platform: Platform
    client_id: str
    in_settings: bool = False
    lost: bool = False
    known_at: int | None = None  # time of the platform's last confirmation
    entered_at: int | None = None

    @property
    def is_usable(self) -> bool:
        return bool(self.client_id) and not self.lost


@dataclass(frozen=True)
class AppCheckResult:
    """Platform's verdict on an app, with a sentence for the owner."""

    is_known: bool
    message: str


# --- Reading -------------------------------------------------------------------------------------------------------


def may_manage(scope: Scope) -> bool:
    """Return whether this user may change apps of the whole server."""
    return actions.can_manage_members(scope) and profiles.is_only_organization(scope.organization)


def check_may_manage(scope: Scope) -> None:
    """Raise ApiError `unauthorized` unless `may_manage`."""
    if not may_manage(scope):
        raise ApiError(
            "unauthorized",
            "Only the operator of this server can manage platform apps, because it has several organizations.",
            remediation="The operator sets them in the settings of the server.",
        )


def list_platforms() -> list[Platform]:
    """List the platforms that need a registered app."""
    return [platform for platform in platforms.PLATFORMS.values() if platform.console]


def get_platform(name: str) -> Platform:
    """Return a platform that needs an app. Raises ApiError `not_found`."""
    found = platforms.PLATFORMS.get(name)
    if found is None or found.console is None:
        raise ApiError("not_found", "There is no platform of this name at which an app is registered.")
    return found


def list_apps(service: AppContext) -> list[PlatformAppView]:
    """List the app of each platform, including missing ones."""
    return [get_app(service, platform) for platform in list_platforms()]


def get_app(service: AppContext, platform: Platform) -> PlatformAppView:
    """Describe the app of a platform."""
    site, row = service.sites[platform.name], find_row(PlatformApp, platform.name)
    if service.sites.is_set(platform.name):
        return PlatformAppView(
            platform, site.client_id, in_settings=True, lost=not (site.client_id and site.client_secret)
        )
    if row is None:
        return PlatformAppView(platform, "")
    lost = not site.client_secret
    return PlatformAppView(
        platform, row["client_id"], lost=lost, known_at=row["known_at"], entered_at=row["updated_at"]
    )


def count_accounts(scope: Scope, platform: Platform) -> int:
    """Count the accounts connected through the app."""
    mine = (Account.organization == scope.organization) & (Account.platform == platform.name)
    found: int = Account.select().where(mine, Account.disconnected_at.is_null()).count()
    return found


# --- Check ---------------------------------------------------------------------------------------------------------


async def check_app(
    service: AppContext, scope: Scope, platform: Platform, app: AppRequest | None = None
) -> AppCheckResult:
    """Check an app at its platform before it is saved; None: the app in use.

    Raises ApiError `platform_not_enabled` if the platform refuses it.
    """
    if platform.oauth is None or platform.oauth.app_check is None:
        message = f"{platform.label} offers no way to check the app. Connect an account to test it."
        return AppCheckResult(False, message)
    used = service.sites[platform.name]
    site = service.sites.with_app(platform.name, app.client_id, app.client_secret) if app else used
    try:
        await connect.run_in_thread(
            service, ShareKey(platform.name, scope.organization), lambda: _probe(service, platform, site)
        )
    except ApiError as error:
        if error.code == "platform_not_enabled":
            raise build_unknown_app_error(platform, error) from error
        return AppCheckResult(False, f"The app could not be checked: {error.message}")
    return AppCheckResult(True, f"{platform.label} accepts this app.")


def _probe(service: AppContext, platform: Platform, site: Site) -> None:
    with tokens.open_upstream(service, platform.name) as up:
        oauth.check_app(platform, replace(up, site=site).http, site)


def build_unknown_app_error(platform: Platform, error: ApiError) -> ApiError:
    """Build the error for an app that the platform does not know."""
    console = platform.console
    assert console is not None, "an app is registered there"
    return ApiError(
        "platform_not_enabled",
        error.message,
        platform=platform.name,
        remediation=f"Copy {console.id_name} and {console.secret_name} from {console.name} once more.",
    )


# --- Changes -------------------------------------------------------------------------------------------------------


def save(tx: Tx, who: Actor, name: str, app: AppRequest, *, is_known: bool) -> ActionResult:
    """Save an app; it is used from the commit on, also for pending token refreshes."""
    service, now = who.service, who.service.now_ms
    platform = check_changeable(who, name)
    values = {
        "client_id": app.client_id,
        "secret": platform_sites.encrypt_secret(service.runtime.vault, name, app.client_secret),
        "known_at": now if is_known else None,
        "updated_at": now,
    }
    if find_row(PlatformApp, name) is None:
        PlatformApp.insert(id=name, created_at=now, **values).execute()
    else:
        PlatformApp.update(**values).where(PlatformApp.id == name).execute()
    # Clear refusals of the previous app: they count neither against the limit nor the account.
    Account.update(renewals=None, renewal_refused_at=None).where(
        Account.organization == who.scope.organization, Account.platform == name
    ).execute()
    tx.after_commit(lambda: service.sites.use(name, app.client_id, app.client_secret))
    return ActionResult(AppBody(platform=platform.name), subject=name)


def mark_confirmed(tx: Tx, who: Actor, name: str, client_id: str) -> ActionResult:
    """Record that the platform has confirmed the app."""
    check_changeable(who, name)
    PlatformApp.update(known_at=who.service.now_ms).where(
        PlatformApp.id == name, PlatformApp.client_id == client_id
    ).execute()
    return ActionResult(AppBody(platform=name), subject=name)


def remove(tx: Tx, who: Actor, name: str) -> ActionResult:
    """Delete the app that was entered."""
    check_changeable(who, name)
    if not PlatformApp.delete().where(PlatformApp.id == name).execute():
        raise ApiError("not_found", "No app was entered for this platform.")
    tx.after_commit(lambda: who.service.sites.forget(name))
    return ActionResult(AppBody(platform=name), subject=name)


def check_changeable(who: Actor, name: str) -> Platform:
    """Return the platform if an app may be entered for it. Raises ApiError otherwise."""
    check_may_manage(who.scope)
    platform = get_platform(name)
    if who.service.sites.is_set(name):
        raise ApiError(
            "validation_failed",
            f"The settings name the app at {platform.label}, and they override values entered here.",
            remediation=f"Take platforms.{name}.client_id and .client_secret out of the settings, and start again.",
        )
    return platform
