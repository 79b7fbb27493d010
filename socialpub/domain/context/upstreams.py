"""Who is called: whose share a call takes, and whether the upstream has answered of late."""

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
from socialpub.platforms.contract import ConnectorAccount as Who
from socialpub.store.schema.models import Account, get_row


def load_share_key(service: AppContext, account: str) -> ShareKey:
    """`get_share_key` by the account's id; inside a transaction or a read."""
    return get_share_key(service, get_row(Account, account))


class UpstreamColumns(TypedDict):
    """What of an account's row tells who is called for it."""

    organization: str
    platform: str
    extra: str


def get_share_key(service: AppContext, account: UpstreamColumns) -> ShareKey:
    """Whose a call for an account is. A server of the account's own choice is an upstream of its own."""
    return build_share_key(service, account["platform"], json.loads(account["extra"]), account["organization"])


def build_share_key(service: AppContext, platform: str, extra: Mapping[str, Any], organization: str) -> ShareKey:
    """The same by what is known of the account already."""
    return ShareKey(_name_upstream(service, platform, extra), organization)


def build_login_share_key(platform: str, organization: str) -> ShareKey:
    """Whose a call is that connects an account: to a server that its user typed in, which may be any."""
    return ShareKey(f"{platform}:", organization)


def choose_executor(service: AppContext, share: ShareKey) -> FairExecutor:
    """Where calls of a share run: those to a server of somebody's own choice hang apart from those to the platforms."""
    return service.executors.steered if ":" in share.host else service.executors.immediate


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
    """What goes round the transport to a platform's configured addresses: it calls no more once they do not answer."""
    return _wrap_transport(service, platform, platform, "")


def build_custom_host_breaker(service: AppContext, platform: str, account: Who) -> TransportWrapper | None:
    """The same for addresses that others named; of these only the account's own server is counted."""
    home = str(account.extra.get("pds") or "")
    return (
        _wrap_transport(service, platform, _name_upstream(service, platform, account.extra), home)
        if _parse_host(home)
        else None
    )


def _wrap_transport(service: AppContext, platform: str, name: str, only: str) -> TransportWrapper:
    held_back, observe = (
        functools.partial(_build_unavailable_error, platform),
        metrics.UPSTREAM_SECONDS.labels(platform).observe,
    )
    return lambda inner: BreakerTransport(inner, service.upstream.breakers, name, only, held_back, observe)


def _build_unavailable_error(platform: str, seconds: float) -> ApiError:
    return ApiError(
        "platform_unavailable",
        f"{platforms.platform(platform).label} did not respond to the last calls, so it was not called again yet.",
        outcome=Outcome.NOT_SENT,
        retry_after=max(1, math.ceil(seconds)),
        held_back=True,
    )
