"""Monthly post quotas of organizations."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from socialpub.base.errors import ApiError, rule_error
from socialpub.base.runtime import format_iso
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.schemas.errors import QuotaUse
from socialpub.domain.schemas.events import QuotaExceeded, QuotaWarning
from socialpub.store.database import Tx
from socialpub.store.engine import sql
from socialpub.store.queries import acceptance

WARN_PERCENT = 80


@dataclass(frozen=True)
class QuotaThreshold:
    """Quota event to emit."""

    type: str
    data: QuotaExceeded


class QuotaUsage(NamedTuple):
    """Quota (None: unlimited and not counted) and usage of an organization in a month."""

    period: str
    quota: int | None
    posts: int


def get_quota(service: AppContext, tier: str) -> int | None:
    """Return the monthly post quota of a tier; None: unlimited."""
    billing = service.runtime.settings.billing
    return {"free": billing.free, "pro": billing.pro, "business": billing.business}.get(tier)


def load_usage(service: AppContext, organization: str, quota: int | None) -> QuotaUsage:
    """Read this month's usage; an unlimited quota is not counted."""
    period = format_month(service.now_ms)
    used = 0 if quota is None else sql.fetch_value(acceptance.FIND_USED_QUOTA, (organization, period)) or 0
    return QuotaUsage(period, quota, used)


def spend(service: AppContext, tx: Tx, organization: str, quota: int | None, cost: int) -> list[QuotaThreshold]:
    """Spend `cost` posts of this month's quota; return the thresholds crossed.

    One conditional UPDATE decides, so two requests cannot spend the last post twice. Raises ApiError `quota_exceeded`.
    """
    period = format_month(service.now_ms)
    counters = sql.fetch_one(acceptance.TAKE_QUOTA, (organization, period, cost, quota))
    if counters is None:
        used = sql.fetch_value(acceptance.FIND_USED_QUOTA, (organization, period)) or 0
        raise _build_exceeded_error(service, QuotaUsage(period, quota, used), cost)
    return [] if quota is None else _cross_thresholds(service, tx, organization, period, quota, counters)


def check(service: AppContext, usage: QuotaUsage, cost: int) -> None:
    """Raise ApiError `quota_exceeded` if `cost` does not fit; a read, before any work."""
    if usage.quota is not None and usage.posts + cost > usage.quota:
        raise _build_exceeded_error(service, usage, cost)


def _build_exceeded_error(service: AppContext, usage: QuotaUsage, cost: int) -> ApiError:
    detail: QuotaUse = {
        "period": usage.period,
        "quota": usage.quota,
        "postsCount": usage.posts,
        "cost": cost,
        "resetAt": _format_next_month(service.now_ms),
    }
    return rule_error("billing.posts.monthly_cap", platform_response=detail)


def _cross_thresholds(
    service: AppContext, tx: Tx, organization: str, period: str, quota: int, counters: tuple[int, int, int]
) -> list[QuotaThreshold]:
    (posts, warned, exceeded), reset = counters, _format_next_month(service.now_ms)
    data: QuotaExceeded = {"period": period, "postsCount": posts, "quota": quota, "resetAt": reset}
    crossed = []
    if posts * 100 >= quota * WARN_PERCENT and not warned:
        warning: QuotaWarning = {**data, "percent": round(posts / quota, 4)}
        crossed.append(QuotaThreshold("quota.warning", warning))
    if posts >= quota and not exceeded:
        crossed.append(QuotaThreshold("quota.exceeded", data))
    if crossed:
        sql.execute(acceptance.SET_QUOTA_NOTIFIED, (int(posts >= quota), organization, period))
    return crossed


def format_month(now_ms: int) -> str:
    """Return the month as `YYYY-MM`."""
    return f"{datetime.fromtimestamp(now_ms / 1000, UTC):%Y-%m}"


def _format_next_month(now_ms: int) -> str:
    """Return the start of the next month."""
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    following = datetime(now.year + now.month // 12, now.month % 12 + 1, 1, tzinfo=UTC)
    return format_iso(int(following.timestamp() * 1000))
