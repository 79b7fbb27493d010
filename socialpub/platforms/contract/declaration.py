"""What a platform is, as data: everything about it that is no function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypedDict

from pydantic import BaseModel

from socialpub.platforms.contract.content import Account, Draft, Json, Kind
from socialpub.platforms.contract.rule_rows import Rule
from socialpub.platforms.contract.upstream import Site


@dataclass(frozen=True)
class SendClass:
    """How often a post may be sent and how a lost answer is settled; KEY, CONTAINER and NO_KEY are the only instances.

    `checks`: seconds after the send at which `settle` looks. `resends`: how often the same plan may be sent again
    once `settle` said Absent. `answered_resends`: the same when the upstream had answered (an error), so that the
    earlier call is over. A post still unsettled after the last check is unknown.
    """

    name: Literal["key", "container", "none"]
    checks: tuple[float, ...]
    resends: int
    answered_resends: int


KEY = SendClass("key", checks=(0, 1, 5, 15, 60, 180, 420, 900, 1800, 2700, 3600), resends=10, answered_resends=2)
CONTAINER = SendClass("container", checks=(60, 120, 240, 480, 900, 1800), resends=3, answered_resends=3)
NO_KEY = SendClass("none", checks=(5, 15, 60, 180), resends=0, answered_resends=0)


@dataclass(frozen=True)
class Notice:
    """A warning that the draft alone decides and that no rule row gives: its code and words, and when it applies."""

    code: str
    message: str
    applies: Callable[[Draft], bool]


@dataclass(frozen=True)
class Cap:
    """How many posts the platform takes in `seconds`, from one account or (`shared`) from the whole app.

    Only a warning: what the platform really counts (calls, other apps' posts) is not known here.
    """

    posts: int
    seconds: int
    shared: bool = False


class MediaLimits(TypedDict):
    """What `/v1/platforms` says of media; the rows of the rules read the same numbers."""

    images: int
    videos: int
    mixed: bool
    types: tuple[str, ...]


NO_MEDIA = MediaLimits(images=0, videos=0, mixed=False, types=())


@dataclass(frozen=True)
class CredentialField:
    """One field of a credentials form."""

    name: str
    label: str
    secret: bool = False


@dataclass(frozen=True)
class Counter:
    """What the composer shows: the text's length and limit in the platform's own unit (limit None: no limit)."""

    length: int
    limit: int | None
    unit: Literal["graphemes", "weighted", "utf16", "characters"]


@dataclass(frozen=True)
class AppCheck:
    """A harmless call by which the platform says whether it knows an app by its id and secret.

    `form` is sent with them to the token endpoint, or to what stands beside it at `path`.
    """

    method: Literal["GET", "POST"] = "POST"
    form: Mapping[str, str] = field(default_factory=lambda: {"grant_type": "client_credentials"})
    path: str = ""


@dataclass(frozen=True)
class OAuth:
    """A platform's authorization-code dance as data; `platforms.oauth` performs it, the hosts come from its Site.

    `scopes` are asked for; of these `required` must be granted, else the connection is refused. What is odder than
    these fields is a function in the platform's module.
    """

    scopes: tuple[str, ...]
    required: tuple[str, ...] = ()
    separator: str = " "  # between scopes in the authorize URL; answers are split at both space and comma
    pkce: bool = False  # S256
    basic: bool = False  # client authentication by HTTP Basic in place of the body
    client_id_name: str = "client_id"
    authorize_extra: Mapping[str, str] = field(default_factory=dict)
    token_extra: Mapping[str, str] = field(default_factory=dict)
    app_check: AppCheck | None = None  # None: only connecting an account shows whether the app is known


@dataclass(frozen=True)
class Console:
    """Where an app of one's own is registered at the platform, and what is asked for there, for people.

    `products`: what is added to the app, where anything is. `review`, whole sentences: what the platform approves, and
    what works before. The other names are those that the console has for the app's id and its secret, and for the
    field of the redirect URI.
    """

    name: str
    url: str
    review: str
    products: tuple[str, ...] = ()
    id_name: str = "Client ID"
    secret_name: str = "Client secret"
    redirect_name: str = "Redirect URIs"


@dataclass(frozen=True)
class Canary:
    """A harmless call that shows whether the platform answers a version of its API, whatever else it answers.

    `path` is under the API's origin; it and `headers` have `{version}` in them, where the platform has it. `served`:
    the header that names the version that was answered with, where another may stand in for one that has ended.
    """

    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    served: str = ""


@dataclass(frozen=True)
class Upkeep:
    """How a platform's tokens are kept alive, in seconds.

    `refresh_before`: refresh that long before the access token ends. `keep_alive`: refresh at least that often, for
    tokens that die unused. `renewable` False: only the owner can renew (then `token.expiring` is sent).
    `rotates`: a refresh token works once, so a lost answer may cost the session.
    """

    refresh_before: float = 900.0
    keep_alive: float | None = None
    renewable: bool = True
    rotates: bool = False


@dataclass(frozen=True)
class Platform:
    """One platform, declared. Nothing about it is written anywhere else.

    `aliases`: other names that people have for it, beside its label; a refusal names the platform for them.
    `plan_class`: the send class of one plan, where they differ from `send_class`.
    `options` validates `targets[].options`; `reply_options` are those that make the post a reply (immediate only).
    `defaults` are taken when a batch is accepted: changing them later leaves its posts alone.
    `count` measures a draft's text; `media` is the summary in `/v1/platforms`. `rules` stand in the order of reporting.
    """

    name: str
    label: str
    send_class: SendClass
    options: type[BaseModel]
    rules: tuple[Rule, ...]
    count: Callable[[Draft, Account], Counter]
    site: type[Site] = Site
    aliases: tuple[str, ...] = ()
    state: Literal["stable", "trial", "pending"] = "stable"
    version: str = ""  # reported as platformVersion; a site's api_version overrides it
    # The versions that are known, oldest first, and the day on which each ends, where one is told.
    sunsets: Mapping[str, str] = field(default_factory=dict)
    successor: Callable[[str], str] | None = None  # what the version after one is called, where that is known
    canary: Canary | None = None  # None: it has no versions
    first_comment: bool = False
    alt_text: tuple[Kind, ...] = ("image", "video")  # the kinds of media whose alt text is published
    caps: tuple[Cap, ...] = ()  # above four fifths of one: warning `daily_cap_near`
    notices: tuple[Notice, ...] = ()  # warnings of the platform's own, beside its rules
    # Options that name an image, and whether a draft uses it: its facts then come in `Draft.option_facts`.
    option_images: Mapping[str, Callable[[Draft], bool]] = field(default_factory=dict)
    unreachable: Mapping[Kind, str] = field(default_factory=dict)  # rule of a failed fetch; default: media.reachable
    reply_options: tuple[str, ...] = ()
    defaults: Mapping[str, str] = field(default_factory=dict)  # option left out → the field of `extra` it is taken from
    media: MediaLimits = field(default_factory=lambda: NO_MEDIA)
    account_block: tuple[str, ...] = ()  # fields of `extra` that an Account shows under the platform's name
    oauth: OAuth | None = None
    console: Console | None = None  # None: no app is needed
    upkeep: Upkeep = Upkeep()
    tokens_last: str = ""  # how long an account stays connected, in whole sentences
    credentials: tuple[CredentialField, ...] = ()  # connects by these fields; empty: by OAuth
    own_sessions: bool = False  # each login is a session of its own: ending one leaves the account's others alone
    plan_class: Callable[[Json], SendClass] | None = None
    plans_alone: bool = False  # `prepare` of what has no media usually calls nobody: it is tried with the claim
    delivers: Callable[[Json], bool] | None = None  # whether what `Pending` saved goes on by itself, to its end
    shows_anybody: bool = False  # `settle` needs no token: it gets an empty one for a revoked account
    look: str = ""  # where a person finds out what nobody can be asked, as a sentence; empty: look at the account

    def class_of(self, plan: Json) -> SendClass:
        return self.plan_class(plan) if self.plan_class else self.send_class

    @cached_property
    def shares_caps(self) -> bool:
        """Whether the posts of all accounts count together for one of its caps."""
        return any(cap.shared for cap in self.caps)

    @cached_property
    def asks_log(self) -> bool:
        """Whether a row asks how busy the account was."""
        return any(rule.asks_log for rule in self.rules)

    @cached_property
    def checks(self) -> Mapping[str, tuple[Rule, ...]]:
        """The rows that check something, by their stage, in their order."""
        stages = {rule.stage for rule in self.rules}
        return {stage: tuple(row for row in self.rules if row.check and row.stage == stage) for stage in stages}

    def row_of_length(self, name: str) -> Rule | None:
        """The row that limits how long a text is: `text`, `first_comment`, `media.alt_text` or an option."""
        if name not in self._rows_of_length:
            starts = (f"{self.name}.{name}.max_", f"{self.name}.{name}_max_")
            rows = (row for row in self.rules if row.id.startswith(starts) and row.severity == "error")
            self._rows_of_length[name] = next(rows, None)
        return self._rows_of_length[name]

    @cached_property
    def _rows_of_length(self) -> dict[str, Rule | None]:
        return {}

    def pinned(self, site: Site) -> str:
        return site.api_version or self.version

    def next_of(self, site: Site) -> str | None:
        """The version after the pinned one, as far as it is known."""
        known = list(dict.fromkeys((*self.sunsets, self.version)))
        later = known[known.index(self.pinned(site)) + 1 :] if self.pinned(site) in known else []
        if later:
            return later[0]
        return self.successor(self.pinned(site)) if self.successor else None

    def sunset_of(self, site: Site) -> str | None:
        """When the pinned version ends, as far as the platform has told."""
        day = self.sunsets.get(self.pinned(site))
        return None if day is None else f"{day}T00:00:00.000Z"
