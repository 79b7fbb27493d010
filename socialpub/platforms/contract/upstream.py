"""Connection of a connector to one account: hosts, tokens, HTTP clients."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, model_validator

from socialpub.base.errors import Outcome
from socialpub.base.http import HttpClient
from socialpub.platforms.contract.bounds import INSTANT_MAX_MS, build_unusable_error, is_token, to_facts
from socialpub.platforms.contract.content import ConnectorAccount


@dataclass(frozen=True)
class Tokens:
    """Credentials for one account. `private` is encrypted with them (DPoP key, app password…).

    `private["rotates"]`: this refresh token works only once, even if the platform's others do not. Raises an ambiguous
    ApiError for a token that cannot be sent.
    """

    access: str
    refresh: str | None = None
    expires_at_ms: int | None = None
    private: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for what, value in (("access token", self.access), ("refresh token", self.refresh or "")):
            if not is_token(value):
                raise build_unusable_error(what, value, Outcome.AMBIGUOUS)
        if self.expires_at_ms is not None and self.expires_at_ms > INSTANT_MAX_MS:
            object.__setattr__(self, "expires_at_ms", INSTANT_MAX_MS)
        if "scopes" in self.private:
            object.__setattr__(self, "private", {**self.private, "scopes": to_facts(self.private["scopes"])})


def is_on_domain(url: str, domain: str) -> bool:
    """Return whether an https URL is on a host of the domain."""
    parts = urlsplit(url)
    return parts.scheme == "https" and f".{parts.hostname or ''}".endswith(f".{domain}")


class Site(BaseModel):
    """Common settings of `[platforms.NAME]`; platforms add their own in subclasses.

    From an `api_base` that is not on `OWN_DOMAIN`, that of a test server, the addresses in `DERIVED_PATHS` are derived,
    unless they are set.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)  # most platforms are not in the settings

    OWN_DOMAIN: ClassVar[str] = ""
    DERIVED_PATHS: ClassVar[Mapping[str, str]] = {}

    enabled: bool = True
    """Whether accounts can be connected and published to."""
    client_id: str = ""
    """The app's id at the platform."""
    client_secret: str = Field("", repr=False)
    """The app's secret."""
    api_base: str = ""
    """The API's origin, without a path."""
    authorize_url: str = ""
    """The page where people authorize this server."""
    token_url: str = ""
    """The endpoint that issues access tokens."""
    api_version: str = ""
    """The pinned version of the platform's API."""

    @model_validator(mode="before")
    @classmethod
    def _derive_addresses(cls, values: Any) -> Any:
        base = str(values.get("api_base") or "") if isinstance(values, dict) else ""
        if not base or (cls.OWN_DOMAIN and is_on_domain(base, cls.OWN_DOMAIN)):
            return values
        return {name: f"{base}{path}" for name, path in cls.DERIVED_PATHS.items()} | values


class ScopedSite(Site):
    """Settings of a platform whose scopes differ between apps."""

    scopes: str = ""
    """Scopes to request instead of the usual ones, separated by spaces."""


class ConfiguredSite(ScopedSite):
    """Settings of a platform whose scopes can be configured at the platform."""

    config_id: str = ""
    """The configuration to request instead of scopes."""


@dataclass(frozen=True)
class SigningContext:
    """Clock and randomness, for connectors that sign their calls."""

    now_ms: Callable[[], int]
    entropy: Callable[[int], bytes]


class CallNotes:
    """Values kept between calls, over all connections and threads: the newest `most`."""

    def __init__(self, most: int = 8192) -> None:
        self._most, self._lock = most, threading.Lock()
        self._kept: OrderedDict[str, str] = OrderedDict()

    def get(self, name: str) -> str | None:
        with self._lock:
            return self._kept.get(name)

    def put(self, name: str, value: str) -> None:
        with self._lock:
            self._kept[name] = value
            self._kept.move_to_end(name)
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)


@dataclass(frozen=True)
class Upstream:
    """Connection to one account, the first argument of every connector function.

    `http` calls configured hosts, `guarded` those named by users or third parties (link cards, a PDS).
    """

    http: HttpClient
    guarded: HttpClient
    site: Any  # the platform's own Site subclass
    account: ConnectorAccount
    tokens: Tokens
    bound: Container[str] = frozenset()  # remote ids of other posts of ours, which `settle` never returns
    signing: SigningContext | None = None  # None: a connection that signs nothing
    notes: CallNotes = field(default_factory=CallNotes, compare=False, repr=False)
