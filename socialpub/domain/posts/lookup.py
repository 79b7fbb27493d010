"""One look at the database for all that a publish request names."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from socialpub.domain.accounts import accounts
from socialpub.domain.core.service import Service
from socialpub.domain.media import library
from socialpub.domain.people import limits
from socialpub.domain.people.tenancy import Scope
from socialpub.domain.posts import unheard
from socialpub.domain.posts.targets import Named, media_ids
from socialpub.domain.shapes.posts import PublishRequest
from socialpub.store import sql
from socialpub.store.statements import accepting


@dataclass(frozen=True)
class LookedUp:
    """What there is: whether the key was used, an earlier request of the same bytes, and what the request names."""

    key: bool
    ear: unheard.Ear | None
    paused: bool
    named: Named
    standing: limits.Standing


def look_up(
    service: Service,
    scope: Scope,
    request: PublishRequest,
    key: limits.Key | None = None,
    ear: unheard.Ear | None = None,
) -> LookedUp:
    """In a read: one statement, and one more where the request names stored media."""
    period = limits.month(service.now_ms)
    names_platform = any(target.account_id is None for target in request.targets)
    found = sql.first(
        accepting.NAMED if names_platform else accepting.NAMED_BY_ID,
        (
            *before(service, key, ear),
            scope.organization,
            scope.profile if request.profile_id is None else request.profile_id,
            request.profile_id,
            _json({target.account_id for target in request.targets}),
            _json({target.platform for target in request.targets if target.account_id is None}),
            period,
        ),
    )
    used, same, paused, profile, known, tier, posts = found
    rows = [_account(values) for values in sql.loads(known)]
    return LookedUp(
        bool(used),
        ear and unheard.first(service, ear, sql.loads(same)),
        bool(paused),
        Named(rows, bool(profile), library.held(scope, media_ids(request))),
        limits.Standing(period, limits.quota_of(service, tier), posts or 0),
    )


def before(service: Service, key: limits.Key | None, ear: unheard.Ear | None) -> tuple[str | int | None, ...]:
    """The values by which an earlier request with this key, or of the same bytes, is found (`accepting`)."""
    first, last = ear.bounds if ear else (None, None)
    return key.id if key else None, service.now_ms, first, last, service.now_ms - unheard.WINDOW_MS


def _json(names: Collection[str | None]) -> str:
    return sql.json_of([name for name in names if name is not None])


def _account(values: tuple[str, str, str, str, str, str | None, int | None, str]) -> accounts.Named:
    account, organization, profile, platform, platform_account, name, ends_at, extra = values
    return {
        "id": account,
        "organization": organization,
        "profile": profile,
        "platform": platform,
        "platform_account_id": platform_account,
        "display_name": name,
        "ends_at": ends_at,
        "extra": extra,
    }
