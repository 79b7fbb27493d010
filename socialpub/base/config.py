"""Every setting, once: this model reads `socialpub.toml` and the environment, and writes `socialpub.toml.example`.

Platform sections are typed by the platforms themselves (`platforms.base.Site`); here they are plain tables.
"""

from __future__ import annotations

import difflib
import ipaddress
import json
import os
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_origin

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict
from pydantic_settings.exceptions import SettingsError

from socialpub.base import docstrings, private, troubles
from socialpub.base.http import ssrf

CONFIG_FILE = "socialpub.toml"
_SECRET_WORDS = ("secret", "password", "encryption_keys", "metrics_token")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)?")
_UNITS = {"ms": 0.001, None: 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


class ConfigError(Exception):
    """The configuration cannot be used; the message names the setting and the fix."""


def seconds(value: object) -> float:
    """A duration: a number of seconds, or text such as "30s", "5m", "12h", "7d"."""
    match = _DURATION.fullmatch(str(value).strip())
    if match is None:
        raise ValueError('a duration is a number of seconds, or text such as "30s", "5m", "12h", "7d"')
    return float(match[1]) * _UNITS[match[2]]


Duration = Annotated[float, BeforeValidator(seconds)]


PREFIX = "SOCIALPUB_"
# Read elsewhere: by `listen` and `trigger`, by tests.
NO_SETTINGS = ("SOCIALPUB_URL", "SOCIALPUB_KEY", "SOCIALPUB_TEST", "SOCIALPUB_FAULTS")

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_WITH_PORT = re.compile(r"\[([0-9A-Fa-f:.%]+)\](?::[0-9]{1,5})?|([0-9.]+):[0-9]{1,5}")


_ATOM, _LABEL = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+", "[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
MAILBOX = rf"^{_ATOM}(?:\.{_ATOM})*@{_LABEL}(?:\.{_LABEL})*$"
"""A bare e-mail address that every mail server takes: no name beside it, nothing quoted, ASCII alone."""
MAILBOX_MAX = 254


def bare_address(text: str) -> str:
    """An address without the brackets and the port that proxies write around it."""
    match = _WITH_PORT.fullmatch(text)
    return (match[1] or match[2]) if match else text


def proxies(entries: Iterable[str]) -> tuple[Network, ...]:
    """The networks that addresses, networks and addresses with ports stand for; ValueError names what is none."""
    return tuple(ipaddress.ip_network(bare_address(entry.strip()), strict=False) for entry in entries)


class Section(BaseModel):
    """One table of the file; an unknown setting is an error, so that a misspelt one is not ignored."""

    model_config = ConfigDict(extra="forbid")


class Server(Section):
    host: str = "127.0.0.1"
    """The address to listen on. Leave it on loopback behind a reverse proxy that does TLS."""
    port: int = Field(8080, ge=0, le=65535)
    """The port to listen on; 0: any free port."""
    base_url: str = ""
    """The public address of this server, as users and platforms see it; empty: http://{host}:{port}.
    Once it is set, requests for any other host are refused, except health checks and calls from this machine to itself.
    """
    trusted_proxies: list[str] = ["127.0.0.1", "::1"]
    """Addresses and networks (10.0.0.0/8) whose X-Forwarded-For is believed."""

    metrics_token: str = ""
    """Sent as a Bearer token to read /metrics from another machine, through a proxy, or, once `base_url` names another
    host than this machine, from anywhere; empty: only this machine reads them, while it has no such `base_url`.
    """

    @field_validator("trusted_proxies")
    @classmethod
    def _proxies(cls, value: list[str]) -> list[str]:
        proxies(value)
        return value

    @field_validator("base_url")
    @classmethod
    def _origin(cls, value: str) -> str:
        if value and not re.fullmatch(r"https?://[^/\s?#]+", value.rstrip("/")):
            raise ValueError("a base_url is http(s)://host[:port], without a path")
        return value.rstrip("/")


class DatabaseSection(Section):
    url: str = "socialpub.db"
    """The SQLite file. (postgresql://… is planned, and refused today.)"""


class Storage(Section):
    data_dir: str = ""
    """Media, key file and lock; empty: beside the database."""


class Security(Section):
    encryption_keys: list[str] = []
    """Master keys, each 32 random bytes in base64: the first encrypts, all decrypt. Empty: the key file."""
    encryption_key_file: str = ""
    """The key file, made at first start with mode 0600; empty: master.key in the data directory."""
    allow_private_networks: bool = False
    """Let outbound calls reach private addresses over http. For labs and tests only."""
    key_prefix: str = Field("svc", pattern=r"^[a-z][a-z0-9]{1,15}$")
    """API keys begin with {key_prefix}_live_ or {key_prefix}_test_."""


class Limits(Section):
    posts: int = Field(120, ge=1)
    """POST /v1/posts per minute and key."""
    media: int = Field(60, ge=1)
    """POST /v1/media per minute and key."""
    writes: int = Field(120, ge=1)
    """Other writes per minute, key and route."""
    reads: int = Field(600, ge=1)
    """Reads per minute, key and route."""
    failed_logins: int = Field(20, ge=1)
    """Failed authentications per minute and client address."""


class Media(Section):
    max_bytes: int = Field(512 * 1024 * 1024, ge=1)
    """The largest file taken by upload or fetched by URL."""
    organization_bytes: int = Field(0, ge=0)
    """How many bytes the media of one organization may take in total; 0: no quota. Set it if the organizations on
    this server do not trust each other, so that none of them can fill the disk.
    """


class Webhooks(Section):
    header_prefix: str = Field("X-Service", pattern=r"^[A-Za-z][A-Za-z0-9-]{0,39}$")
    """The headers of a delivery begin with this: {header_prefix}-Signature, {header_prefix}-Event and so on."""
    allowed_hosts: list[str] = []
    """Receivers that may be private or plain http: names ("n8n"), addresses, and networks ("10.0.0.0/8", which lifts
    the check of the address alone: a name that resolves into it must still be https). This is for webhooks, and for
    notification channels that have an address, such as an ntfy server of your own; for nothing else.
    """
    timeout: Duration = Field(10.0, ge=1, le=60)
    """How long a receiver may take to answer, in all."""
    waits: list[Duration] = [5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0]
    """Waits before a delivery is tried again; up to a tenth is added to each. One more attempt than waits is made."""

    @field_validator("allowed_hosts")
    @classmethod
    def _hosts(cls, value: list[str]) -> list[str]:
        ssrf.allowed(value)
        return value


class Smtp(Section):
    host: str = Field("", pattern=r"^[A-Za-z0-9.:_-]{0,253}$")
    """The mail server that takes notifications by e-mail; empty: none are sent by e-mail."""
    port: int = Field(587, ge=1, le=65535)
    """Its port: usually 587 with starttls, 465 with tls, 25 with none."""
    security: Literal["starttls", "tls", "none"] = "starttls"
    """How the connection is secured: by STARTTLS, by TLS from the first byte, or not at all (a relay on this machine).
    The server's certificate must be that of its host.
    """
    username: str = ""
    """The name to log in with; empty: without a login. A login needs `starttls` or `tls`."""
    password: str = ""
    """The password for it."""
    sender: str = ""
    """The address that notifications come from."""
    ca_file: str = ""
    """A file with certificates that are trusted too, for a mail server with a certificate of its own; empty: none."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if not self.host:
            return self
        if len(self.sender) > MAILBOX_MAX or not re.fullmatch(MAILBOX, self.sender):
            raise ValueError("sender must be an e-mail address, such as socialpub@example.org")
        if self.ca_file and not Path(self.ca_file).is_file():
            raise ValueError("ca_file is not there")
        if bool(self.username) != bool(self.password):
            raise ValueError("username and password go together")
        if self.username and self.security == "none":
            raise ValueError('a password is only sent over TLS: security must be "starttls" or "tls"')
        return self


class Notifications(Section):
    window: Duration = Field(seconds("15m"), ge=1, le=seconds("1d"))
    """The first failure of a cause is told at once; what else it causes within this time is told in one message at its
    end. While the cause lasts, each such message comes after twice the time of the one before, up to a day.
    """
    telegram_api: str = Field("https://api.telegram.org", pattern=r"^https?://[^/\s?#]+$")
    """Where bots of Telegram are reached."""


class Tokens(Section):
    expiring: Duration = seconds("7d")
    """How long before its end a token that cannot be refreshed counts as expiring."""


class Publishing(Section):
    immediate_wait: Duration = Field(25.0, ge=0.1, le=55)
    """How long an immediate POST /v1/posts waits for its targets (at most 55 s); `Prefer: wait=N` asks otherwise.
    Whatever is not finished by then goes on, and the answer is 202. Many tools give up after 30 s.
    """
    join_undelivered: bool = True
    """If the client of a request without an Idempotency-Key is gone before the answer, and the same bytes are sent
    again within 5 minutes, the second request gets the answer to the first, and nothing is published twice.
    """
    refuse_duplicates: bool = False
    """Refuse the same text on the same account within 24 hours, unless the request says `"onDuplicate": "warn"`."""
    threads: int = Field(1500, ge=1, le=4096)
    """Upstream calls at the same time for immediate posts. Of one platform at most two thirds, of one organization at
    most six sevenths: whoever comes later still finds a place. A place that nobody needs costs nothing.
    """
    workers: int = Field(1500, ge=1, le=4096)
    """Queued posts published at the same time, with the same shares."""
    retry_waits: list[Duration] = [30.0, 120.0, 480.0]
    """Waits before a scheduled post is tried again after platform_unavailable."""
    version_checks: bool = True
    """Ask each platform that has a connected account, once a day and with one harmless call, whether it still answers
    the version of its API that this server calls, and with one more whether it answers the next one already.
    """
    settle_horizon: Duration = Field(180.0, ge=1)
    """How long to look for a post whose answer was lost, on platforms without idempotency keys."""


class Scheduling(Section):
    overdue_grace: Duration = 3600.0
    """A post is published at most this late, whatever delayed it; after that it fails. Never less than 5 seconds."""
    overdue_spacing: Duration = 2.0
    """Pause between two overdue posts of one account."""


PaidTier = Literal["free", "pro", "business"]


class Billing(Section):
    free: int = 50
    """Posts per calendar month (UTC) in the tier `free`."""
    pro: int = 5_000
    """The same in the tier `pro`."""
    business: int = 25_000
    """The same in the tier `business`."""
    lemonsqueezy_secret: str = Field("", repr=False)
    """The signing secret of the webhook at Lemon Squeezy that calls POST /billing/lemonsqueezy. Empty: there is no
    such address, and every organization has the tier that the operator gave it.
    """
    variants: dict[str, PaidTier] = {}
    """The tier of each variant of your products at Lemon Squeezy, by the variant's id: { "12345" = "pro" }. Its
    checkout has to carry the custom data `organization_id`.
    """


class Retention(Section):
    idempotency: Duration = seconds("24h")
    """How long an Idempotency-Key replays its answer."""
    audit: Duration = seconds("365d")
    """How long the audit trail is kept: who did what, when and from where."""
    events: Duration = Field(seconds("90d"), ge=seconds("1d"))
    """How long events are kept, and their deliveries to webhooks: `GET /v1/events` and redelivery reach back so far.
    Those of posts that are still open stay, and so do deliveries that are still to be made.
    """
    notifications: Duration = Field(seconds("90d"), ge=seconds("2d"))
    """How long it is kept what people were told; what is still to be sent stays."""
    intents: Duration = Field(seconds("365d"), ge=seconds("7d"))
    """How long it is kept what was sent for a published post, so that nothing is sent or bound twice; at least 7 days.
    Of a post that is not published it stays.
    """
    attempts: Duration = Field(seconds("365d"), ge=seconds("7d"))
    """How long the attempts of a published post are shown; at least as long as `intents` in fact, which name them."""
    media: Duration = Field(seconds("180d"), ge=0)
    """How long media are kept that nothing needs any more: neither uploaded nor named by a post in this time. What a
    post needs that is still to go out stays, however old it is. 0: media stay until somebody deletes them.
    """
    posts: Duration = Field(0, ge=0)
    """How long a post is kept after its last change; then it goes with its attempts, what was sent for it and its place
    in the search, once all posts of its request are past their time. One that is still to go out, or of which nobody
    has said whether it is out, stays. 0: posts are kept for ever. Else at least 7 days, `events` and `idempotency`.
    """

    @model_validator(mode="after")
    def _posts_last(self) -> Self:
        least = max(seconds("7d"), self.events, self.idempotency)
        if 0 < self.posts < least:
            raise ValueError(f"posts must be 0, or at least {least / 86_400:g}d: `events`, `idempotency` and 7 days")
        return self


class Log(Section):
    level: Literal["debug", "info", "warning", "error"] = "info"
    """What is told, at least: each request and outcome (info), or only what needs a look."""
    format: Literal["text", "json"] = "text"
    """Lines for people, or an object a line for programs. Times are UTC in both."""


class Tracing(Section):
    endpoint: str = Field("", pattern=r"^(https?://[^\s]+)?$")
    """Where an OpenTelemetry collector takes traces by OTLP over HTTP, such as http://localhost:4318/v1/traces; empty:
    there are none. Needs the packages of `socialpub[tracing]`. What the collector wants to be told in headers stands in
    the environment, as OTEL_EXPORTER_OTLP_HEADERS.
    """
    service_name: str = Field("socialpub", min_length=1)
    """What this server is called there."""
    ratio: float = Field(1.0, ge=0, le=1)
    """Which share of the traces that begin here is sent; a request that comes with a trace says so itself."""


class Backup(Section):
    directory: str = ""
    """Where the server puts backups of database and media by itself; empty: it makes none. Best on another disk.
    The master key is not in them: keep a copy of it somewhere else.
    """
    every: Duration = Field(seconds("24h"), ge=seconds("10m"))
    """How long after a backup the next one is made."""
    keep: int = Field(14, ge=1)
    """How many are kept in the folder, and how many in the bucket; older ones are removed once a new one was looked
    through.
    """
    before_upgrade: int = Field(2, ge=0)
    """How many copies of the database from before an upgrade are kept beside it, as `socialpub-before-….db`. A start
    makes one before it brings the file to a newer schema, and does not begin without room for it. 0: it makes none.
    """
    s3_endpoint: str = Field("", pattern=r"^(https?://[^/\s?#@]+)?$")
    """An S3-compatible store to which backups go too, such as https://s3.eu-central-1.amazonaws.com; empty: to none.
    Without a `directory` they are made on the way there, beside the data. Needs the package minio (`socialpub[s3]`).
    """
    s3_bucket: str = Field("", pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$|^$")
    """The bucket; it has to be there. Best one whose objects cannot be deleted for a while by the key below."""
    s3_prefix: str = Field("", pattern=r"^[A-Za-z0-9._/-]{0,200}$")
    """What the names in the bucket begin with, as a folder; empty: nothing."""
    s3_region: str = Field("us-east-1", pattern=r"^[A-Za-z0-9-]{1,64}$")
    """The region that requests are signed for; many stores take any."""
    s3_access_key: str = ""
    """The key that may put, get, list and delete there."""
    s3_secret_key: str = Field("", repr=False)
    """Its secret."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        lacking = [name for name in ("s3_bucket", "s3_access_key", "s3_secret_key") if not getattr(self, name)]
        if self.s3_endpoint and lacking:
            raise ValueError(f"s3_endpoint also needs {', '.join(lacking)}")
        return self


class Settings(BaseSettings):
    """All settings. Precedence: command line, environment (SOCIALPUB_SECTION__KEY), file, defaults."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_nested_delimiter="__", extra="forbid")

    server: Server = Server()
    database: DatabaseSection = DatabaseSection()
    storage: Storage = Storage()
    security: Security = Security()
    limits: Limits = Limits()
    media: Media = Media()
    webhooks: Webhooks = Webhooks()
    notifications: Notifications = Notifications()
    smtp: Smtp = Smtp()
    tokens: Tokens = Tokens()
    publishing: Publishing = Publishing()
    scheduling: Scheduling = Scheduling()
    billing: Billing = Billing()
    retention: Retention = Retention()
    backup: Backup = Backup()
    log: Log = Log()
    tracing: Tracing = Tracing()
    platforms: dict[str, dict[str, Any]] = {}

    _file: Path | None = PrivateAttr(None)

    @property
    def read_from(self) -> str:
        """The settings file that was read, in words: what a command says when it is asked for its settings."""
        return str(self._file or f"no file, since {Path(CONFIG_FILE).absolute()} is not there (--config names one)")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        file_values = InitSettingsSource(settings_cls, init_kwargs=_file_values)
        return init_settings, env_settings, file_values

    @property
    def base_url(self) -> str:
        """The public origin, without a trailing slash."""
        host = f"[{self.server.host}]" if ":" in self.server.host else self.server.host
        return self.server.base_url or f"http://{host}:{self.server.port}"

    @property
    def database_path(self) -> Path:
        return Path(self.database.url)

    @property
    def data_dir(self) -> Path:
        return Path(self.storage.data_dir) if self.storage.data_dir else self.database_path.resolve().parent

    @property
    def key_file(self) -> Path:
        named = self.security.encryption_key_file
        return Path(named) if named else self.data_dir / "master.key"


_file_values: dict[str, Any] = {}


def load(path: Path | None = None, overrides: Mapping[str, Mapping[str, Any]] | None = None) -> Settings:
    """The settings of `path` (default: ./socialpub.toml where there is one), the environment and `overrides`.

    ConfigError names the file or setting that cannot be used.
    """
    _check_environment()
    _file_values.clear()
    values = _read(path)
    _file_values.update(values or {})
    try:
        given: dict[str, Any] = {name: dict(values) for name, values in (overrides or {}).items() if values}
        settings = Settings(**given)
    except ValidationError as error:
        raise ConfigError(explain(error)) from error
    except SettingsError as error:
        which = " or ".join(_no_json()) or "a variable"
        raise ConfigError(f"{which} in the environment: lists and tables are JSON, and this is not") from error
    finally:
        _file_values.clear()
    settings._file = None if values is None else (path or Path(CONFIG_FILE)).absolute()
    if "://" in settings.database.url:
        raise ConfigError("database.url: only an SQLite file is supported today; name a file, for example socialpub.db")
    return settings


def _read(path: Path | None) -> dict[str, Any] | None:
    """What the settings file says; None where none was named and there is none."""
    named = path or Path(CONFIG_FILE)
    try:
        values = tomllib.loads(named.read_text(encoding="utf-8"))
        why = private.trouble(named, _secrets(values))
    except FileNotFoundError as error:
        if path is None:
            return None
        raise ConfigError(f"{named}: the settings file is not there") from error
    except OSError as error:
        raise ConfigError(f"{named}: the settings file cannot be read: {troubles.why(error)}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{named}: {error}") from error
    if why:
        raise ConfigError(f"{named}: {why}")
    return values


def _check_environment() -> None:
    """ConfigError for a variable that looks like a setting and is none: it would be passed over in silence."""
    for variable in sorted(os.environ):
        section, *rest = variable.removeprefix(PREFIX).lower().split("__")
        if not variable.startswith(PREFIX) or variable in NO_SETTINGS:
            continue
        if section not in Settings.model_fields or not rest:
            near = _nearest("__".join((section, *rest)), [name.replace(".", "__") for name in names()])
            near = near and f"; did you mean {PREFIX}{near.upper()}?"
            raise ConfigError(f"{variable} in the environment: there is no such setting{near}")


def _no_json() -> list[str]:
    """The variables that are to be a list or a table, and hold no JSON: the library names their section only."""
    found = []
    for variable in sorted(os.environ):
        section, _, name = variable.removeprefix(PREFIX).lower().partition("__")
        model = Settings.model_fields[section].annotation if section in Settings.model_fields else None
        if variable.startswith(PREFIX) and isinstance(model, type) and issubclass(model, Section):
            field = model.model_fields.get(name)
            if field and get_origin(field.annotation) in (list, dict) and not _is_json(os.environ[variable]):
                found.append(variable)
    return found


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def names() -> list[str]:
    """Every setting as `section.key`, but for those of platforms."""
    sections = ((name, field.annotation) for name, field in Settings.model_fields.items())
    return [
        f"{name}.{key}"
        for name, section in sections
        if isinstance(section, type) and issubclass(section, Section)
        for key in section.model_fields
    ]


def _nearest(name: str, known: Sequence[str]) -> str:
    """What may have been meant; empty where nothing is near."""
    return next(iter(difflib.get_close_matches(name, known, n=1, cutoff=0.7)), "")


def _secrets(values: Mapping[str, Any], path: str = "") -> list[str]:
    """The names of the secret settings that are set: by the words in them."""
    found: list[str] = []
    for name, value in values.items():
        if isinstance(value, Mapping):
            found += _secrets(value, f"{path}{name}.")
        elif value and any(word in name for word in _SECRET_WORDS) and not isinstance(value, bool | int | float):
            found.append(path + name)
    return found


def explain(error: ValidationError, prefix: str = "", known: Sequence[str] = ()) -> str:
    """Which settings are wrong and why, in one line; never their values. `known`: what may have been meant."""
    lines, known = [], known or [*Settings.model_fields, *names()]
    for issue in error.errors(include_url=False, include_input=False):
        name = prefix + ".".join(str(part) for part in issue["loc"])
        missing = issue["type"] == "extra_forbidden"
        near = _nearest(name, known)
        unknown = f"there is no such setting; did you mean {near}?" if near else "there is no such setting"
        message = unknown if missing else issue["msg"]
        lines.append(f"{name}: {message}")
    return "; ".join(lines)


def example(platform_sections: Mapping[str, type[BaseModel]]) -> str:
    """The text of socialpub.toml.example: every setting with its default and its help, all commented out."""
    parts = [
        "# socialpub.toml: every setting with its default. No setting is required; uncomment what you change.\n"
        "# Each can also be set in the environment: SOCIALPUB_SECTION__KEY=value (lists as JSON).\n"
        '# Durations are seconds, or text such as "30s", "5m", "12h", "7d".\n'
    ]
    for name, field in Settings.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
            parts.append(_table(name, field.annotation))
    parts += [_table(f"platforms.{name}", model) for name, model in platform_sections.items()]
    return "\n".join(parts)


def _table(name: str, model: type[BaseModel]) -> str:
    lines = [f"[{name}]"]
    for key, field in model.model_fields.items():
        lines += [f"# {line}" for line in help_of(model, key).splitlines()]
        lines.append(f"#{key} = {toml(field.get_default(call_default_factory=True))}")
    return "\n".join(lines) + "\n"


def help_of(model: type[BaseModel], key: str) -> str:
    """What a setting is for, in the words of the section or of the one that it extends."""
    return docstrings.of(model).get(key, "")


def toml(value: object) -> str:
    """A setting's value as it stands in the file."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, list | tuple):
        return "[" + ", ".join(toml(item) for item in value) + "]"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def shipped(name: str) -> Path:
    """The directory `templates` or `migrations`: beside the package in a checkout, inside it when installed."""
    inside = Path(__file__).parents[1] / "_shipped" / name
    return inside if inside.is_dir() else Path(__file__).parents[2] / name
