"""Declaration of a platform: everything that is data."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NotRequired, TypedDict

from pydantic import BaseModel

from socialpub.platforms.contract.content import ConnectorAccount, Draft, Json, MediaKind
from socialpub.platforms.contract.rules import Rule
from socialpub.platforms.contract.upstream import Site


@dataclass(frozen=True)
class SendClass:
    """Policy for resends and lost responses; KEY, CONTAINER and NO_KEY are the only ones.

    `checks`: lookup times in seconds after the send. `resends`: how often the plan may be sent again after `settle`
    returned Absent. `answered_resends`: the same after an error response, when the earlier call is over. A post still
    unsettled after the last check has an unknown outcome.
    """

    name: Literal["key", "container", "none"]
    checks: tuple[float, ...]
    resends: int
    answered_resends: int


KEY = SendClass("key", checks=(0, 1, 5, 15, 60, 180, 420, 900, 1800, 2700, 3600), resends=10, answered_resends=2)
CONTAINER = SendClass("container", checks=(60, 120, 240, 480, 900, 1800), resends=3, answered_resends=3)
NO_KEY = SendClass("none", checks=(5, 15, 60, 180), resends=0, answered_resends=0)


@dataclass(frozen=True)
class DraftWarning:
    """Warning that depends on the draft alone and belongs to no rule."""

    code: str
    message: str
    applies: Callable[[Draft], bool]


@dataclass(frozen=True)
class PostingCap:
    """Number of posts per `seconds`, for one account or (`shared`) for the whole app.

    Only a warning: what the platform really counts (calls, posts of other apps) is not known here.
    """

    posts: int
    seconds: int
    shared: bool = False


class MediaLimits(TypedDict):
    """Media summary of `/v1/platforms`; the rules read the same numbers."""

    images: int
    videos: int
    mixed: bool
    types: tuple[str, ...]
    documents: NotRequired[int]


NO_MEDIA = MediaLimits(images=0, videos=0, mixed=False, types=())


@dataclass(frozen=True)
class CredentialField:
    """Field of a credentials form."""

    name: str
    label: str
    secret: bool = False
    hint: str = ""  # where the user finds it


TextUnit = Literal["graphemes", "weighted", "utf16", "characters"]


@dataclass(frozen=True)
class TextCounter:
    """Length and limit of a text in the platform's unit, for the composer (None: no limit)."""

    length: int
    limit: int | None
    unit: TextUnit


@dataclass(frozen=True)
class AppCheck:
    """Harmless call that tells whether the platform knows an app's id and secret.

    `form` is sent to the token endpoint, or to `path` beside it.
    """

    method: Literal["GET", "POST"] = "POST"
    form: Mapping[str, str] = field(default_factory=lambda: {"grant_type": "client_credentials"})
    path: str = ""


@dataclass(frozen=True)
class OAuthFlow:
    """Authorization-code flow as data; `kit.oauth` executes it, with hosts from the Site.

    `scopes` are requested; without the `required` ones the connection is refused. Deviations beyond these fields are
    functions of the platform's module.
    """

    scopes: tuple[str, ...]
    required: tuple[str, ...] = ()
    separator: str = " "  # of scopes in the authorize URL; responses are split at space and comma
    pkce: bool = False  # S256
    basic: bool = False  # client authentication by HTTP Basic instead of the body
    client_id_name: str = "client_id"
    authorize_extra: Mapping[str, str] = field(default_factory=dict)
    token_extra: Mapping[str, str] = field(default_factory=dict)
    app_check: AppCheck | None = None  # None: only connecting an account shows whether the app is known


@dataclass(frozen=True)
class DeveloperConsole:
    """Developer console where an app is registered, described for people.

    `products`: what to add to the app, if anything. `review` (sentences): what the platform must approve, and what
    works before. The names are the console's labels for app id, secret and redirect URI.
    """

    name: str
    url: str
    review: str
    products: tuple[str, ...] = ()
    id_name: str = "Client ID"
    secret_name: str = "Client secret"
    redirect_name: str = "Redirect URIs"


@dataclass(frozen=True)
class VersionProbe:
    """Harmless call that tells whether an API version is still served.

    `path` is below the API's origin; it and `headers` may contain `{version}`. `served`: header with the version that
    answered, where another may replace an ended one.
    """

    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    served: str = ""


@dataclass(frozen=True)
class RefreshPolicy:
    """Token refresh policy, in seconds.

    `refresh_before`: lead time before the access token expires. `keep_alive`: maximal interval, for tokens that expire
    unused. `renewable` False: only the owner can reconnect (`token.expiring` is sent). `rotates`: a refresh token works
    once, so a lost response may end the session.
    """

    refresh_before: float = 900.0
    keep_alive: float | None = None
    renewable: bool = True
    rotates: bool = False


@dataclass(frozen=True)
class ThreadSupport:
    """Threads of a platform: each piece is a reply to `Draft.previous`.

    `address`: pattern of a post's address, from which `prepare` finds a piece that a person reported. `options` of the
    first piece apply to the others too. `pause`: seconds until a new post can be replied to.
    """

    address: re.Pattern[str]
    options: tuple[str, ...] = ()
    pause: float = 0.0


@dataclass(frozen=True)
class Platform:
    """Declaration of one platform, the only place for its data.

    `aliases`: other names, for suggestions. `plan_class`: send class of a plan, where it differs from `send_class`.
    `options` validates `targets[].options`; `reply_options` make the post a reply (immediate only).
    `defaults` apply at acceptance: later changes leave accepted posts alone.
    `count` measures a text; `media` is the summary in `/v1/platforms`; `rules` are in reporting order.
    """

    name: str
    label: str
    send_class: SendClass
    options: type[BaseModel]
    rules: tuple[Rule, ...]
    count: Callable[[Draft, ConnectorAccount], TextCounter]
    site: type[Site] = Site
    aliases: tuple[str, ...] = ()
    state: Literal["stable", "trial", "pending"] = "stable"
    version: str = ""  # reported as platformVersion; a site's api_version overrides it
    # Known versions, oldest first, with their end date where announced.
    sunsets: Mapping[str, str] = field(default_factory=dict)
    successor: Callable[[str], str] | None = None  # names the next version, where predictable
    version_probe: VersionProbe | None = None  # None: no versions
    first_comment: bool = False
    thread: ThreadSupport | None = None  # None: no threads, and a rule `….thread.unsupported`
    alt_text: tuple[MediaKind, ...] = ("image", "video")  # media kinds whose alt text is published
    caps: tuple[PostingCap, ...] = ()  # warning `daily_cap_near` above four fifths
    draft_warnings: tuple[DraftWarning, ...] = ()  # further warnings, beside the rules
    # Options that name an image, and whether the draft uses it: its facts are in `Draft.option_facts`.
    option_images: Mapping[str, Callable[[Draft], bool]] = field(default_factory=dict)
    # Rule of a failed fetch, if not media.reachable.
    unreachable: Mapping[MediaKind, str] = field(default_factory=dict)
    reply_options: tuple[str, ...] = ()
    frequent_options: tuple[str, ...] = ()  # those that a form shows first; it folds the others
    defaults: Mapping[str, str] = field(default_factory=dict)  # omitted option → field of `extra` with its value
    media: MediaLimits = field(default_factory=lambda: NO_MEDIA)
    account_fields: tuple[str, ...] = ()  # fields of `extra` in the API's account, under the platform's name
    oauth: OAuthFlow | None = None
    console: DeveloperConsole | None = None  # None: no app needed
    refresh_policy: RefreshPolicy = RefreshPolicy()
    connection_lifetime: str = ""  # how long an account stays connected, in sentences
    credentials: tuple[CredentialField, ...] = ()  # connects by these fields; empty: by OAuth
    has_separate_sessions: bool = False  # each login is a session; ending one leaves the account's others alone
    plan_class: Callable[[Json], SendClass] | None = None
    plans_offline: bool = False  # `prepare` without media usually needs no network: tried at claim time
    is_delivered: Callable[[Json], bool] | None = None  # whether the `Pending` state completes without further calls
    has_public_lookup: bool = False  # `settle` works without token: it gets an empty one for a revoked account
    unknown_outcome_advice: str = ""  # how a person finds out an outcome, a sentence; default: check the account

    def choose_send_class(self, plan: Json) -> SendClass:
        return self.plan_class(plan) if self.plan_class else self.send_class

    @cached_property
    def shares_caps(self) -> bool:
        """True if a cap counts the posts of all accounts together."""
        return any(cap.shared for cap in self.caps)

    @cached_property
    def needs_recent_posts(self) -> bool:
        """True if a rule needs the number of recent posts."""
        return any(rule.needs_recent_posts for rule in self.rules)

    def find_length_rule(self, name: str) -> Rule | None:
        """Find the rule on the length of `text`, `first_comment`, `media.alt_text` or an option."""
        if name not in self._length_rules:
            starts = (f"{self.name}.{name}.max_", f"{self.name}.{name}_max_")
            rows = (row for row in self.rules if row.id.startswith(starts) and row.severity == "error")
            self._length_rules[name] = next(rows, None)
        return self._length_rules[name]

    @cached_property
    def _length_rules(self) -> dict[str, Rule | None]:
        return {}

    def pinned(self, site: Site) -> str:
        return site.api_version or self.version

    def find_next_version(self, site: Site) -> str | None:
        """Return the version after the pinned one, if known."""
        known = list(dict.fromkeys((*self.sunsets, self.version)))
        later = known[known.index(self.pinned(site)) + 1 :] if self.pinned(site) in known else []
        if later:
            return later[0]
        return self.successor(self.pinned(site)) if self.successor else None

    def find_sunset(self, site: Site) -> str | None:
        """Return the end date of the pinned version, if announced."""
        day = self.sunsets.get(self.pinned(site))
        return None if day is None else f"{day}T00:00:00.000Z"
