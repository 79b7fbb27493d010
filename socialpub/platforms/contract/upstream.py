"""A connector's line to one account: where the platform is, what acts for the account, what makes the calls."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from socialpub.base.http import Http
from socialpub.platforms.contract.content import Account


@dataclass(frozen=True)
class Tokens:
    """A platform's credentials for one account. `private` is sealed with them (DPoP key, app password…).

    `private["rotates"]`: this refresh token works once, whatever `Upkeep.rotates` says of the platform's others.
    """

    access: str
    refresh: str | None = None
    expires_at_ms: int | None = None
    private: Mapping[str, Any] = field(default_factory=dict)


class Site(BaseModel):
    """The settings `[platforms.NAME]` that every platform has; a platform adds its own by subclassing."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)  # most platforms are not in the settings

    enabled: bool = True
    """Whether accounts can be connected and published to."""
    client_id: str = ""
    """The app's id at the platform."""
    client_secret: str = Field("", repr=False)
    """The app's secret."""
    api_base: str = ""
    """Where the API is: a bare origin."""
    authorize_url: str = ""
    """Where people allow this server to act for them."""
    token_url: str = ""
    """Where codes and refresh tokens become access tokens."""
    api_version: str = ""
    """The pinned version of the platform's API."""


class ScopedSite(Site):
    """The settings of a platform where what an app may ask for differs from app to app."""

    scopes: str = ""
    """What is asked for in place of the usual, separated by spaces."""


class ConfiguredSite(ScopedSite):
    """The settings of a platform where what is asked for can be put together at the platform itself."""

    config_id: str = ""
    """The configuration that is asked for in place of scopes."""


@dataclass(frozen=True)
class Mint:
    """The time and fresh randomness, for connectors that have to sign their calls."""

    now_ms: Callable[[], int]
    entropy: Callable[[int], bytes]


class Notes:
    """What one call tells later ones, over whatever connection and in whatever thread: the newest `most` of it."""

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
    """A live connection to one account: what every connector function gets first.

    `http` calls configured hosts, `guarded` addresses that users or third parties named (link cards, a PDS).
    """

    http: Http
    guarded: Http
    site: Any  # the platform's own Site subclass
    account: Account
    tokens: Tokens
    bound: Container[str] = frozenset()  # remote ids that belong to other posts of ours: `settle` never answers one
    mint: Mint | None = None  # None: a connection that signs nothing
    notes: Notes = field(default_factory=Notes, compare=False, repr=False)
