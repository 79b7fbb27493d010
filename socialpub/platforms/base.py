"""What a platform is, in values: the declaration, the draft it gets, and what its functions answer.

A platform is one module: `PLATFORM` (a frozen declaration), `REPLIES` (the table that sorts its answers) and a few
functions. The modules satisfy `Connector` themselves; there is no base class. They know no database, clock, settings
or HTTP server: an `Upstream` brings the client, the hosts, the account and its tokens; a `Draft` the frozen content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

from socialpub.base.errors import ApiError, Outcome
from socialpub.base.net import Http, Reply

Kind = Literal["image", "video"]
Json = dict[str, Any]


# --- What goes in ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Facts:
    """What the bytes of a media item are. None: could not be read (its rules then pass, with `media_unmeasured`)."""

    content_type: str  # sniffed: image/jpeg, image/png, image/webp, image/gif, video/mp4, video/quicktime, video/webm
    size: int  # bytes
    sha256: str = ""
    width: int | None = None  # as it is shown: turned by its EXIF orientation, or its track's rotation
    height: int | None = None
    frames: int | None = None  # images: 1, or the number of frames of an animation
    duration_ms: int | None = None
    frame_rate: float | None = None
    bit_rate: int | None = None  # bits a second
    video_codec: str | None = None  # h264, hevc, vp8, vp9, av1, …
    audio_codec: str | None = None  # aac, opus, …; None also when there is no sound
    has_audio: bool | None = None

    @property
    def kind(self) -> Kind:
        return "video" if self.content_type.startswith("video/") else "image"

    @property
    def animated(self) -> bool:
        return (self.frames or 1) > 1


@dataclass(frozen=True)
class Item:
    """One media item. `facts` and `path` are None until its bytes are here (cheap checks see it without)."""

    kind: Kind
    alt_text: str | None = None
    url: str | None = None  # the address a platform may pull it from: the user's own, or ours for stored media
    stored: bool = False  # held by this server (mediaId, bytesBase64), not a user's URL
    facts: Facts | None = None
    path: Path | None = None

    def read(self) -> bytes:
        """The bytes; only after they have been resolved."""
        if self.path is None:
            raise ValueError("the item's bytes have not been resolved")
        return self.path.read_bytes()


@dataclass(frozen=True)
class Account:
    """Who posts, as connectors and rules may know it. `extra` is the platform's own (handle, pds, subscription…)."""

    platform_account_id: str
    display_name: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Draft:
    """One target's content, frozen: the same draft always makes the same bytes.

    `now_ms` and `nonce` (8 random bytes as an int) are minted once a post, so that keys made of them stay the same
    over every attempt.
    """

    text: str
    items: tuple[Item, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)  # camelCase, as in the request; absent ones left out
    first_comment: str | None = None
    now_ms: int = 0
    nonce: int = 0
    option_facts: Mapping[str, Facts] = field(default_factory=dict)  # of the images that options name, once fetched


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

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True, frozen=True)

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


@dataclass(frozen=True)
class Mint:
    """The time and fresh randomness, for connectors that have to sign their calls."""

    now_ms: Callable[[], int]
    entropy: Callable[[int], bytes]


@dataclass(frozen=True)
class Upstream:
    """A live line to one account: what every connector function gets first.

    `http` calls configured hosts, `guarded` addresses that users or third parties named (link cards, a PDS).
    """

    http: Http
    guarded: Http
    site: Any  # the platform's own Site subclass
    account: Account
    tokens: Tokens
    bound: frozenset[str] = frozenset()  # remote ids that belong to other posts of ours: `settle` never answers one
    mint: Mint | None = None  # None: a line that signs nothing
    notes: dict[str, str] = field(default_factory=dict, compare=False, repr=False)  # what one call tells the next


# --- What comes out ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Warning:  # noqa: A001 - the field's own word; the builtin is never used here
    code: str
    message: str

    def body(self) -> dict[str, str]:
        return {"code": self.code, "message": self.message}


@dataclass(frozen=True)
class Ready:
    """Prepared: `plan` is everything `send` needs, JSON, frozen before the first public byte."""

    plan: Json
    warnings: tuple[Warning, ...] = ()


@dataclass(frozen=True)
class Pending:
    """Not yet (a container or video is still processing): call `prepare` again with `saved` after `seconds`.

    From `send`: the platform took it and named it, but is not done. Nothing is left to send; `saved` has that name.
    """

    saved: Json
    seconds: float


@dataclass(frozen=True)
class Published:
    """It is there. `remote_id` binds one upstream post to one row; `uri`, `cid`, `url` are shown."""

    remote_id: str
    uri: str | None = None
    cid: str | None = None
    url: str | None = None
    warnings: tuple[Warning, ...] = ()


@dataclass(frozen=True)
class Absent:
    """Looked in the right place, and it is not there now."""

    evidence: Json = field(default_factory=dict)


@dataclass(frozen=True)
class Unknown:
    """Looking could not tell; `final`: looking again will not either. `look`: where a person may, as a sentence."""

    evidence: Json = field(default_factory=dict)
    final: bool = False
    look: str = ""


@dataclass(frozen=True)
class Identity:
    """Who connected."""

    platform_account_id: str
    display_name: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Connected:
    """One account that a login offers, with the tokens that act for it."""

    identity: Identity
    tokens: Tokens
    kind: str = ""  # what a choice shows: page, person, organization


# --- The declaration ---------------------------------------------------------------------------------------------


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
class Surroundings:
    """What a few rules ask beside the content: where this server stands, and how busy the account was.

    `recent_posts`: posts to the account in the last 24 hours, by our own log.
    """

    base_url: str = ""
    allow_private_networks: bool = False
    recent_posts: int = 0


@dataclass(frozen=True)
class Subject:
    """One target as the rules see it."""

    draft: Draft
    account: Account
    site: Any  # the platform's own Site subclass
    around: Surroundings = Surroundings()


@dataclass(frozen=True)
class Hit:
    """One place where a draft breaks a rule: what was found, as a sentence, and which media item (0 is the first).

    `warning`: not a breach, the warning with this code is given instead (a grey zone, a fact that could not be read).
    """

    found: str = ""
    item: int | None = None
    warning: str = ""


Check = Callable[["Rule", Subject], Iterable[Hit]]
"""(rule, subject) → the hits; none: the rule passes. Pure."""


@dataclass(frozen=True)
class Rule:
    """One row of the catalogue: a check, or (without `check`) an id that something else decides.

    Without a check: an upstream row is what the platform's own refusal may carry, a deep one (`….reachable`) what the
    fetch of the media found. Preflight, an error's rule, message and remediation, `/v1/rules`, `/docs/rules/{id}`,
    the counters and the tests' parameters all read the row. `message` and `remediation` are whole sentences;
    `{limit}` in them becomes the row's limit.
    """

    id: str
    stage: Literal["cheap", "deep", "upstream", "connect"]
    message: str
    remediation: str
    source: str  # where the limit is documented
    check: Check | None = None
    limit: int | float | str | tuple[str, ...] | None = None
    unit: str | None = None
    severity: Literal["error", "warning"] = "error"
    code: str = ""  # of the error; default: preflight_failed for cheap and deep, platform_rejected for the rest
    checked: str = "2026-11-20"

    def __post_init__(self) -> None:
        default = "preflight_failed" if self.stage in ("cheap", "deep") else "platform_rejected"
        object.__setattr__(self, "code", self.code or default)
        for name in ("message", "remediation"):
            object.__setattr__(self, name, getattr(self, name).replace("{limit}", _shown(self.limit)))

    @property
    def platform(self) -> str:
        return self.id.partition(".")[0]

    def error(
        self,
        version: str = "",
        found: str = "",
        *,
        platform_response: Any = None,
        retry_after: int | None = None,
        outcome: Outcome | None = None,
    ) -> ApiError:
        """The error that this row is: its message, then `found` (what was there, as a sentence)."""
        return ApiError(
            self.code,
            f"{self.message} {found}".strip(),
            rule=self.id,
            platform=self.platform,
            platform_version=version or None,
            platform_response=platform_response,
            remediation=self.remediation,
            retry_after=retry_after,
            outcome=outcome,
        )

    def warning(self, found: str = "") -> Warning:
        """The same as a warning: its code is the row's id."""
        return Warning(self.id, f"{self.message} {found}".strip())


def _shown(limit: int | float | str | tuple[str, ...] | None) -> str:
    if isinstance(limit, tuple):
        return ", ".join(limit)
    return f"{limit:,}" if isinstance(limit, int | float) else limit or ""


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
    state: Literal["stable", "trial", "pending"] = "stable"
    version: str = ""  # reported as platformVersion; a site's api_version overrides it
    sunset_at: str | None = None
    first_comment: bool = False
    alt_text: tuple[Kind, ...] = ("image", "video")  # the kinds of media whose alt text is published
    caps: tuple[Cap, ...] = ()  # above four fifths of one: warning `daily_cap_near`
    notices: tuple[Notice, ...] = ()  # warnings of the platform's own, beside its rules
    option_images: tuple[str, ...] = ()  # options that name an image; its facts come in `Draft.option_facts`
    unreachable: Mapping[Kind, str] = field(default_factory=dict)  # rule of a failed fetch; default: media.reachable
    reply_options: tuple[str, ...] = ()
    defaults: Mapping[str, str] = field(default_factory=dict)  # option left out → the field of `extra` it is taken from
    media: Mapping[str, Any] = field(default_factory=dict)
    account_block: tuple[str, ...] = ()  # fields of `extra` that an Account shows under the platform's name
    oauth: OAuth | None = None
    upkeep: Upkeep = Upkeep()
    credentials: tuple[CredentialField, ...] = ()  # connects by these fields; empty: by OAuth
    connects: bool = False  # this build can connect accounts and publish
    plan_class: Callable[[Json], SendClass] | None = None

    def class_of(self, plan: Json) -> SendClass:
        return self.plan_class(plan) if self.plan_class else self.send_class

    def pinned(self, site: Site) -> str:
        return site.api_version or self.version


# --- Replies: the table that sorts answers -------------------------------------------------------------------------


@dataclass(frozen=True)
class Verdict:
    """What one upstream answer means. `stale_token`: refresh the access token once and repeat the step.

    `duplicate`: refused since the platform has the post already, perhaps by an earlier send of it, which is looked for.
    """

    outcome: Outcome
    code: str = "platform_rejected"
    rule: str | None = None
    remediation: str | None = None
    stale_token: bool = False
    duplicate: bool = False


Replies = Mapping[tuple[str, int, str | None], Verdict]
"""(step, HTTP status, the platform's own error name or None for any) → Verdict; step "*" is every step."""

_THROTTLED = Verdict(Outcome.THROTTLED, "platform_unavailable")


def verdict(replies: Replies, step: str, status: int, name: str | None, *, mutating: bool) -> Verdict:
    """The row for an answer. What is not in the table is ambiguous for a mutating call.

    A call that changes nothing in public may simply be made again, so there it counts as not sent.
    """
    for key in ((step, status, name), (step, status, None), ("*", status, name), ("*", status, None)):
        if key in replies:
            return replies[key]
    if mutating:
        return Verdict(Outcome.AMBIGUOUS, "platform_unavailable")
    if status == 429:
        return _THROTTLED
    if 400 <= status < 500:
        return Verdict(Outcome.REJECTED, "platform_rejected")
    return Verdict(Outcome.NOT_SENT, "platform_unavailable")


def refusal(platform: Platform, version: str, found: Verdict, reply: Reply, message: str) -> ApiError:
    """The ApiError of an answer that was not the hoped-for one, with the raw answer (the caller filters secrets)."""
    body = reply.json()
    raw = body if body is not None else reply.content[:2048].decode("utf-8", "replace")
    return ApiError(
        found.code,
        message,
        rule=found.rule,
        platform=platform.name,
        platform_version=version or None,
        platform_response={"status": reply.status, "body": raw},
        remediation=found.remediation,
        retry_after=reply.retry_after,
        outcome=found.outcome,
        stale_token=found.stale_token,
        duplicate=found.duplicate,
    )


class Connector(Protocol):
    """What a platform module offers; mypy checks each module against it where the dict of them stands.

    `prepare` is repeatable and invisible (uploads, containers). `send` makes the one public call. `settle` looks for
    what `send` may have done and never sends. `refresh` renews the tokens. All raise ApiError with an `outcome`.
    """

    PLATFORM: Platform
    REPLIES: Replies

    def prepare(self, up: Upstream, draft: Draft, saved: Json | None) -> Ready | Pending: ...

    def send(self, up: Upstream, plan: Json) -> Published | Pending: ...

    def settle(self, up: Upstream, plan: Json, since_ms: int) -> Published | Absent | Unknown: ...

    def refresh(self, up: Upstream, now_ms: int) -> Tokens: ...


class Comments(Protocol):
    """Extra: a platform that can post the first comment. The plan goes through the same `send` and `settle`."""

    def comment(self, up: Upstream, draft: Draft, post: Published, plan: Json) -> Json: ...


class Login(Protocol):
    """Extra: a platform whose accounts connect by credentials (`Platform.credentials`)."""

    def login(self, up: Upstream, fields: Mapping[str, str], now_ms: int) -> tuple[Identity, Tokens]: ...


class Authorizes(Protocol):
    """Extra: a platform whose accounts connect by OAuth (`Platform.oauth`).

    `identify` gets an Upstream whose tokens are those that the code was exchanged for (`private["scopes"]`: granted)
    and answers the accounts that they offer, each with its own, long-lived tokens; ApiError when there is none.
    """

    def identify(self, up: Upstream, now_ms: int) -> tuple[Connected, ...]: ...


@dataclass(frozen=True)
class AppClient:
    """This server, as those know it who read its metadata document: its id is that document's address.

    `key`: what signs for it; without one it is a public client, which servers trust for a short time only.
    """

    id: str
    redirect_uri: str
    key: str = field(default="", repr=False)


@dataclass(frozen=True)
class Invitation:
    """Where an account's owner is to go, and (to be sealed) what the way back needs."""

    url: str
    kept: Json = field(repr=False)


class Invites(Protocol):
    """Extra: a platform whose OAuth begins with the account's name and a request pushed to the account's own server.

    `accept` gets what `invite` kept, and what the browser came back with. `client_documents` are what this server
    publishes of itself under `/oauth/`, by name; `client_key` is a fresh key for `AppClient`.
    """

    def client_key(self, entropy: Callable[[int], bytes]) -> str: ...

    def client_documents(self, base_url: str, client: AppClient) -> Mapping[str, Json]: ...

    def invite(self, up: Upstream, client: AppClient, handle: str, state: str) -> Invitation: ...

    def accept(self, up: Upstream, client: AppClient, kept: Json, code: str, iss: str | None) -> Connected: ...


class Revokes(Protocol):
    """Extra: a platform that can end a connection upstream.

    Not called while another account acts by the same authorization: one with the same account id, access or refresh
    token, or (where `revoke` ends all that one person has allowed) the same text in `Tokens.private["login"]`.
    """

    def revoke(self, up: Upstream) -> None: ...


@dataclass(frozen=True)
class Board:
    """One of an account's boards. `pinnable` False: it cannot be the default one."""

    id: str
    name: str
    privacy: str
    pinnable: bool = True


class Boards(Protocol):
    """Extra: a platform whose accounts keep what they publish on boards. Answers all of them."""

    def boards(self, up: Upstream) -> tuple[Board, ...]: ...
