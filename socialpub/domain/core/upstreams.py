"""Who is called: whose share a call takes, and whether the upstream has answered of late."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from typing_extensions import TypedDict

from socialpub import platforms
from socialpub.base import metrics
from socialpub.base.errors import ApiError, Outcome
from socialpub.base.fair import Pool, Share
from socialpub.base.http import Http, Reply, Sink, Unread
from socialpub.domain.core.service import Service
from socialpub.platforms.contract import Account as Who
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
    return service.steered if ":" in share.host else service.pool


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


def configured(service: Service, platform: str, http: Http) -> Http:
    """The client for a platform's configured addresses, which asks no more once they do not answer."""
    return _Heard(service, platform, platform, "", http)


def named(service: Service, platform: str, account: Who, guarded: Http) -> Http:
    """The client for addresses that others named; of these only the account's own server is counted."""
    home = _server(str(account.extra.get("pds") or ""))
    return _Heard(service, platform, _name(service, platform, account.extra), home, guarded) if home else guarded


@dataclass(frozen=True)
class _Heard:
    """A client that notes who answers. `only`: the one server that is meant by `name`; "" is any."""

    service: Service
    platform: str
    name: str
    only: str
    http: Http

    def request(self, method: str, url: str, **more: Any) -> Reply:
        return self._call(url, lambda: self.http.request(method, url, **more))

    def download(self, url: str, into: Sink, **more: Any) -> Reply:
        return self._call(url, lambda: self.http.download(url, into, **more))

    def __enter__(self) -> _Heard:
        return self

    def __exit__(self, *error: object) -> None:
        """Whoever opened the client closes it."""

    def _call(self, url: str, run: Callable[[], Reply]) -> Reply:
        if self.only and _server(url) != self.only:
            return run()
        breakers = self.service.breakers
        if not breakers.may_call(self.name):
            raise _held_back(self.platform, breakers.wait_of(self.name))
        clock = self.service.runtime.clock
        began = clock.monotonic()
        try:
            reply = run()
        except ApiError as error:
            self._heard(error)
            raise
        except BaseException:  # nothing is known of the upstream
            breakers.gave_up(self.name)
            raise
        finally:
            metrics.UPSTREAM_SECONDS.labels(self.platform).observe(clock.monotonic() - began)
        if reply.unread is Unread.LATE:  # it holds a slot as long as one that does not answer
            breakers.unanswered(self.name)
        else:
            breakers.answered(self.name)
        return reply

    def _heard(self, error: ApiError) -> None:
        """What a failed call tells of the upstream; one that never left, for a reason of ours, tells nothing."""
        breakers = self.service.breakers
        if error.unanswered:
            breakers.unanswered(self.name)
        elif error.outcome is Outcome.NOT_SENT:
            breakers.gave_up(self.name)
        else:
            breakers.answered(self.name)


def _held_back(platform: str, seconds: float) -> ApiError:
    return ApiError(
        "platform_unavailable",
        f"{platforms.platform(platform).label} did not answer the last calls, so it has not been called again yet.",
        outcome=Outcome.NOT_SENT,
        retry_after=max(1, math.ceil(seconds)),
        held_back=True,
    )
