"""Upstreams: share keys for fair queueing, executors and circuit breakers of calls."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from typing_extensions import TypedDict

from socialpub import platforms
from socialpub.base.concurrency.fair_executor import FairExecutor, ShareKey
from socialpub.base.errors import ApiError, Outcome
from socialpub.base.http.circuit_breakers import BreakerTransport
from socialpub.base.observability import metrics
from socialpub.base.runtime import TransportWrapper
from socialpub.domain.context.app_context import AppContext
from socialpub.platforms.contract import ConnectorAccount
from socialpub.store.engine import sql
from socialpub.store.schema.models import Account, get_row


def load_share_key(service: AppContext, account: str) -> ShareKey:
    """Load the account and return its share key. Call inside a transaction or a read."""
    return get_share_key(service, get_row(Account, account))


class UpstreamColumns(TypedDict):
    """Columns of an account that determine its upstream, and that connectors see."""

    organization: str
    platform: str
    platform_account_id: str
    display_name: str | None
    extra: str


def build_connector_account(row: UpstreamColumns) -> ConnectorAccount:
    """Build the account as connectors and rules see it."""
    return ConnectorAccount(row["platform_account_id"], row["display_name"], sql.load_json(row["extra"]))


def get_share_key(service: AppContext, account: UpstreamColumns) -> ShareKey:
    """Return the share key of an account's calls. A custom server is a separate upstream."""
    return build_share_key(service, account["platform"], json.loads(account["extra"]), account["organization"])


def build_share_key(service: AppContext, platform: str, extra: Mapping[str, Any], organization: str) -> ShareKey:
    """Return the share key for a platform, account data (`extra`) and organization."""
    return ShareKey(_name_upstream(service, platform, extra), organization)


def build_login_share_key(platform: str, organization: str) -> ShareKey:
    """Return the share key of a login: its user may have typed the address of any server."""
    return ShareKey(f"{platform}:", organization)


def choose_executor(service: AppContext, share: ShareKey) -> FairExecutor:
    """Return the executor for a share key. Custom hosts may hang and have their own threads."""
    return service.executors.custom_hosts if ":" in share.host else service.executors.immediate


def _name_upstream(service: AppContext, platform: str, extra: Mapping[str, Any]) -> str:
    home = _parse_host(str(extra.get("pds") or ""))
    if not home or home == _parse_host(str(getattr(service.sites[platform], "service", ""))):
        return platform
    return f"{platform}:{home}"


def _parse_host(url: str) -> str:
    if not url:
        return ""
    try:
        return urlsplit(url).netloc.lower()
    except ValueError:
        return ""


def build_breaker(service: AppContext, platform: str) -> TransportWrapper:
    """Build the circuit breaker for a platform's configured addresses."""
    return _wrap_transport(service, platform, platform, "")


def build_custom_host_breaker(service: AppContext, platform: str, account: ConnectorAccount) -> TransportWrapper | None:
    """Build the circuit breaker for an account's custom server, or None without one."""
    home = str(account.extra.get("pds") or "")
    return (
        _wrap_transport(service, platform, _name_upstream(service, platform, account.extra), home)
        if _parse_host(home)
        else None
    )


def _wrap_transport(service: AppContext, platform: str, name: str, only: str) -> TransportWrapper:
    held_back = functools.partial(_build_unavailable_error, platform)
    observe = metrics.UPSTREAM_SECONDS.labels(platform).observe
    return lambda inner: BreakerTransport(inner, service.upstream.breakers, name, only, held_back, observe)


def _build_unavailable_error(platform: str, seconds: float) -> ApiError:
    return ApiError(
        "platform_unavailable",
        f"{platforms.platform(platform).label} did not respond to the last calls, so it was not called again yet.",
        outcome=Outcome.NOT_SENT,
        retry_after=max(1, math.ceil(seconds)),
        held_back=True,
    )
