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
from socialpub.base import metrics
from socialpub.base.errors import ApiError, Outcome
from socialpub.base.fair import Pool, Share
from socialpub.base.http.circuit_breakers import BreakerTransport
from socialpub.base.runtime import Wrap
from socialpub.domain.core.service import Service
from socialpub.platforms.contract import ConnectorAccount as Who
from socialpub.store.models import Account, the_row


def share(service: Service, account: str) -> Share:
    """`share_of` by the account's id; inside a transaction or a read."""
    return share_of(service, the_row(Account, account))


class Called(TypedDict):
    """What of an account's row tells who is called for it."""

    organization: str
    platform: str
    extra: str


def share_of(service: Service, account: Called) -> Share:
    """Whose a call for an account is. A server of the account's own choice is an upstream of its own."""
    return share_by(service, account["platform"], json.loads(account["extra"]), account["organization"])


def share_by(service: Service, platform: str, extra: Mapping[str, Any], organization: str) -> Share:
    """The same by what is known of the account already."""
    return Share(_name(service, platform, extra), organization)


def typed(platform: str, organization: str) -> Share:
    """Whose a call is that connects an account: to a server that its user typed in, which may be any."""
    return Share(f"{platform}:", organization)


def threads(service: Service, share: Share) -> Pool:
    """Where calls of a share run: those to a server of somebody's own choice hang apart from those to the platforms."""
    return service.executors.steered if ":" in share.host else service.executors.immediate


def _name(service: Service, platform: str, extra: Mapping[str, Any]) -> str:
    home = _server(str(extra.get("pds") or ""))
    if not home or home == _server(str(getattr(service.sites[platform], "service", ""))):
        return platform
    return f"{platform}:{home}"


def _server(url: str) -> str:
    if not url:
        return ""
    try:
        return urlsplit(url).netloc.lower()
    except ValueError:
        return ""


def configured(service: Service, platform: str) -> Wrap:
    """What goes round the transport to a platform's configured addresses: it calls no more once they do not answer."""
    return _watched(service, platform, platform, "")


def named(service: Service, platform: str, account: Who) -> Wrap | None:
    """The same for addresses that others named; of these only the account's own server is counted."""
    home = str(account.extra.get("pds") or "")
    return _watched(service, platform, _name(service, platform, account.extra), home) if _server(home) else None


def _watched(service: Service, platform: str, name: str, only: str) -> Wrap:
    held_back, observe = functools.partial(_held_back, platform), metrics.UPSTREAM_SECONDS.labels(platform).observe
    return lambda inner: BreakerTransport(inner, service.upstream.breakers, name, only, held_back, observe)


def _held_back(platform: str, seconds: float) -> ApiError:
    return ApiError(
        "platform_unavailable",
        f"{platforms.platform(platform).label} did not respond to the last calls, so it was not called again yet.",
        outcome=Outcome.NOT_SENT,
        retry_after=max(1, math.ceil(seconds)),
        held_back=True,
    )
