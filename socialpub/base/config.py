"""All settings: the model that reads `socialpub.toml` and the environment.

It also writes `socialpub.toml.example`. The sections of platforms are plain tables here; the platforms themselves check
them.
"""

from __future__ import annotations

import difflib
import ipaddress
import json
import os
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
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

from socialpub.base import field_docs
from socialpub.base.http import ssrf
from socialpub.base.security import private_files
from socialpub.base.system import os_errors

CONFIG_FILE = "socialpub.toml"
_SECRET_WORDS = ("secret", "password", "encryption_keys", "metrics_token")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)?")
_UNITS = {"ms": 0.001, None: 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


class ConfigError(Exception):
    """The configuration cannot be used; the message names the setting and the fix."""


def parse_duration(value: object) -> float:
    """Return the seconds of a duration: a number, or text such as "30s", "5m", "12h", "7d"."""
    match = _DURATION.fullmatch(str(value).strip())
    if match is None:
        raise ValueError('a duration is a number of seconds, or text such as "30s", "5m", "12h", "7d"')
    return float(match[1]) * _UNITS[match[2]]


Duration = Annotated[float, BeforeValidator(parse_duration)]


VARIABLE_PREFIX = "SOCIALPUB_"
# Read by `listen`, `trigger` and tests.
OTHER_VARIABLES = ("SOCIALPUB_URL", "SOCIALPUB_KEY", "SOCIALPUB_TEST", "SOCIALPUB_FAULTS")

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_WITH_PORT = re.compile(r"\[([0-9A-Fa-f:.%]+)\](?::[0-9]{1,5})?|([0-9.]+):[0-9]{1,5}")


_EMAIL_ATOM, _EMAIL_LABEL = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+", "[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
EMAIL_PATTERN = rf"^{_EMAIL_ATOM}(?:\.{_EMAIL_ATOM})*@{_EMAIL_LABEL}(?:\.{_EMAIL_LABEL})*$"
"""A bare e-mail address that every mail server accepts: no display name, no quotes, ASCII only."""
EMAIL_MAX = 254


def strip_port(text: str) -> str:
    """Return an address without the brackets and port that proxies write around it."""
    match = _WITH_PORT.fullmatch(text)
    return (match[1] or match[2]) if match else text


def parse_networks(entries: Iterable[str]) -> tuple[Network, ...]:
    """Return the networks of a list of addresses and networks.

    Ports are ignored. Raise ValueError for an entry that is neither.
    """
    return tuple(ipaddress.ip_network(strip_port(entry.strip()), strict=False) for entry in entries)


class SettingsSection(BaseModel):
    """One table of the file; unknown settings are errors, so that typos are noticed."""

    model_config = ConfigDict(extra="forbid")


class ServerSettings(SettingsSection):
    host: str = Field("127.0.0.1", min_length=1)
    """The address to listen on. Keep the loopback address behind a reverse proxy that handles TLS."""
    port: int = Field(8080, ge=0, le=65535)
    """The port to listen on. 0: any free port."""
    base_url: str = ""
    """The public address of this server, as users and platforms see it. Empty: http://{host}:{port}.
    If it is set, requests for other hosts are rejected, except health checks and requests from this machine to itself.
    """
    trusted_proxies: list[str] = ["127.0.0.1", "::1"]
    """Addresses and networks (10.0.0.0/8) of proxies whose X-Forwarded-For header is trusted."""

    metrics_token: str = ""
    """The Bearer token for /metrics. Needed from other machines, through a proxy, and from anywhere if `base_url` is
    not an address of this machine. Empty: only this machine can read /metrics, and only without such a `base_url`.
    """

    @field_validator("trusted_proxies")
    @classmethod
    def _proxies(cls, value: list[str]) -> list[str]:
        parse_networks(value)
        return value

    @field_validator("base_url")
    @classmethod
    def _origin(cls, value: str) -> str:
        if value and not re.fullmatch(r"https?://[^/\s?#]+", value.rstrip("/")):
            raise ValueError("a base_url is http(s)://host[:port], without a path")
        return value.rstrip("/")


class DatabaseSettings(SettingsSection):
    url: str = "socialpub.db"
    """The SQLite file. (postgresql://… is not supported yet.)"""


class StorageSettings(SettingsSection):
    data_dir: str = ""
    """The directory of media, key file and lock. Empty: the directory of the database."""


class SecuritySettings(SettingsSection):
    encryption_keys: list[str] = []
    """Master keys, each 32 random bytes in base64. The first one encrypts, all of them decrypt. Empty: the key file."""
    encryption_key_file: str = ""
    """The key file, created at the first start with mode 0600. Empty: master.key in the data directory."""
    allow_private_networks: bool = False
    """Allow outbound calls to private addresses over http. For labs and tests only."""
    key_prefix: str = Field("svc", pattern=r"^[a-z][a-z0-9]{1,15}$")
    """API keys begin with {key_prefix}_live_ or {key_prefix}_test_."""


class RateLimitSettings(SettingsSection):
    posts: int = Field(120, ge=1)
    """POST /v1/posts per minute and key."""
    media: int = Field(60, ge=1)
    """POST /v1/media per minute and key."""
    writes: int = Field(120, ge=1)
    """Other writes per minute, key and route."""
    reads: int = Field(600, ge=1)
    """Reads per minute, key and route."""
    failed_logins: int = Field(20, ge=1)
    """Failed authentications per minute and client address; as many registrations of OAuth clients, and exchanges of
    their codes (`[mcp]`).
    """


class MediaSettings(SettingsSection):
    max_bytes: int = Field(512 * 1024 * 1024, ge=1)
    """The largest file, in bytes, that is accepted as an upload or fetched from a URL."""
    organization_bytes: int = Field(0, ge=0)
    """The total size of one organization's media, in bytes. 0: no quota. Set a quota if the organizations on this
    server do not trust each other, so that none of them can fill the disk.
    """


class WebhookSettings(SettingsSection):
    header_prefix: str = Field("X-Service", pattern=r"^[A-Za-z][A-Za-z0-9-]{0,39}$")
    """The prefix of the headers of a delivery: {header_prefix}-Signature, {header_prefix}-Event and so on."""
    allowed_hosts: list[str] = []
    """Receivers that may have a private address or use plain http: names ("n8n"), addresses, and networks
    ("10.0.0.0/8", which allows only the address: a name that resolves to it still needs https). Applies only to
    webhooks and to notification channels with a URL, such as your own ntfy server.
    """
    timeout: Duration = Field(10.0, ge=1, le=60)
    """The time limit of a delivery, from connecting to the end of the response."""
    waits: list[Duration] = [5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0]
    """The waits between the attempts of a delivery, each extended by up to a tenth. Seven waits make eight attempts."""

    @field_validator("allowed_hosts")
    @classmethod
    def _hosts(cls, value: list[str]) -> list[str]:
        ssrf.parse_allowed_hosts(value)
        return value


class SmtpSettings(SettingsSection):
    host: str = Field("", pattern=r"^[A-Za-z0-9.:_-]{0,253}$")
    """The mail server for notifications by e-mail. Empty: no e-mail is sent."""
    port: int = Field(587, ge=1, le=65535)
    """The port of the mail server: usually 587 with starttls, 465 with tls, 25 with none."""
    security: Literal["starttls", "tls", "none"] = "starttls"
    """How the connection is encrypted: with STARTTLS, with TLS from the start, or not at all (a relay on this machine).
    The certificate must match the host.
    """
    username: str = ""
    """The user name for the mail server. Empty: no login. A login needs `starttls` or `tls`."""
    password: str = ""
    """The password for the mail server."""
    sender: str = ""
    """The sender address of notifications."""
    ca_file: str = ""
    """A file with additional trusted certificates, for a mail server with a self-signed certificate. Empty: none."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if not self.host:
            return self
        if len(self.sender) > EMAIL_MAX or not re.fullmatch(EMAIL_PATTERN, self.sender):
            raise ValueError("sender must be an e-mail address, such as socialpub@example.org")
        if self.ca_file and not Path(self.ca_file).is_file():
            raise ValueError("ca_file does not exist")
        if bool(self.username) != bool(self.password):
            raise ValueError("username and password go together")
        if self.username and self.security == "none":
            raise ValueError('a password is only sent over TLS: security must be "starttls" or "tls"')
        return self


class NotificationSettings(SettingsSection):
    window: Duration = Field(parse_duration("15m"), ge=1, le=parse_duration("1d"))
    """The first failure of a cause is sent at once. Later failures of the same cause are collected for this time, then
    sent in one message. While the cause lasts, the time doubles with each message, up to a day.
    """
    telegram_api: str = Field("https://api.telegram.org", pattern=r"^https?://[^/\s?#]+$")
    """The address of the Telegram Bot API."""


class TokenSettings(SettingsSection):
    expiring: Duration = parse_duration("7d")
    """How long before its expiry a token that cannot be refreshed counts as expiring."""


class PublishingSettings(SettingsSection):
    immediate_wait: Duration = Field(25.0, ge=0.1, le=55)
    """How long an immediate POST /v1/posts waits for its targets (at most 55 s). `Prefer: wait=N` overrides it.
    Targets that are not finished by then continue, and the response is 202. Many clients time out after 30 s.
    """
    join_undelivered: bool = True
    """If the client of a request without an Idempotency-Key disconnects before the response, and the same request
    arrives again within 5 minutes, it gets the response to the first one, and nothing is published twice.
    """
    refuse_duplicates: bool = False
    """Reject the same text for the same account within 24 hours, unless the request has `"onDuplicate": "warn"`."""
    approval: bool = False
    """Publish a draft only after its approval. Members and authors then publish nothing from the dashboard that is not
    approved; owners, admins and API keys with the scope `posts:write` can still publish posts without a draft.
    """
    threads: int = Field(1500, ge=1, le=4096)
    """The number of concurrent platform calls for immediate posts. One platform may use at most two thirds, one
    organization at most six sevenths, so that some are always left for others. Unused ones cost nothing.
    """
    workers: int = Field(1500, ge=1, le=4096)
    """The number of scheduled posts that are published concurrently, with the same shares."""
    retry_waits: list[Duration] = [30.0, 120.0, 480.0]
    """The waits between the attempts of a scheduled post after platform_unavailable."""
    version_checks: bool = True
    """Check once a day, with one harmless call to each platform that has a connected account, whether the platform
    still supports the API version that this server uses, and with another call whether it supports the next one.
    """
    settle_horizon: Duration = Field(180.0, ge=1)
    """How long to search for a post whose response was lost, on platforms without idempotency keys."""


class SchedulingSettings(SettingsSection):
    overdue_grace: Duration = 3600.0
    """How late a post may be published. After that it fails. At least 5 seconds."""
    overdue_spacing: Duration = 2.0
    """The pause between two overdue posts of one account."""


PaidTier = Literal["free", "pro", "business"]


class BillingSettings(SettingsSection):
    free: int = 50
    """Posts per calendar month (UTC) in the tier `free`."""
    pro: int = 5_000
    """Posts per calendar month (UTC) in the tier `pro`."""
    business: int = 25_000
    """Posts per calendar month (UTC) in the tier `business`."""
    lemonsqueezy_secret: str = Field("", repr=False)
    """The signing secret of the Lemon Squeezy webhook that calls POST /billing/lemonsqueezy. Empty: this address does
    not exist, and every organization has the tier that the operator set.
    """
    variants: dict[str, PaidTier] = {}
    """The tier of each variant of your Lemon Squeezy products, by variant id: { "12345" = "pro" }. The checkout must
    carry the custom data `organization_id`.
    """


class McpSettings(SettingsSection):
    oauth: bool = False
    """Let assistants ask for an API key with one click (OAuth 2.1): an owner or admin of an organization signs in here
    and chooses what the key may do. Needs `url`.
    """
    url: str = Field("", pattern=r"^(https?://[^\s?#\"]+)?$", max_length=500)
    """The public address of `socialpub mcp --http`, such as https://social.example.org/mcp. Assistants ask for
    keys to this address only.
    """

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.oauth and not self.url:
            raise ValueError("oauth also needs url, the public address of `socialpub mcp --http`")
        return self


class RetentionSettings(SettingsSection):
    idempotency: Duration = parse_duration("24h")
    """How long the response to an Idempotency-Key is replayed."""
    audit: Duration = parse_duration("365d")
    """How long the audit log is kept: who did what, when and from where."""
    events: Duration = Field(parse_duration("90d"), ge=parse_duration("1d"))
    """How long events and their webhook deliveries are kept, for `GET /v1/events` and redelivery. Events of unfinished
    posts and pending deliveries stay.
    """
    notifications: Duration = Field(parse_duration("90d"), ge=parse_duration("2d"))
    """How long notifications are kept. Pending notifications stay."""
    intents: Duration = Field(parse_duration("365d"), ge=parse_duration("7d"))
    """How long the record of a published post's send is kept, so that nothing is sent twice; at least 7 days. Records
    of posts that are not published stay.
    """
    attempts: Duration = Field(parse_duration("365d"), ge=parse_duration("7d"))
    """How long the attempts of a published post are kept; at least as long as `intents`, which refer to them."""
    media: Duration = Field(parse_duration("180d"), ge=0)
    """How long unused media are kept: media that were neither uploaded nor used by a post in this time. Media that an
    unpublished post needs stay, however old they are. 0: media stay until you delete them.
    """
    posts: Duration = Field(0, ge=0)
    """How long a post is kept after its last change. Then it is deleted with its attempts, its records and its search
    entry, together with the other posts of its request. Unfinished posts and posts with an unknown outcome stay.
    0: posts are kept forever. Otherwise at least 7 days, `events` and `idempotency`.
    """

    @model_validator(mode="after")
    def _posts_last(self) -> Self:
        least = max(parse_duration("7d"), self.events, self.idempotency)
        if 0 < self.posts < least:
            raise ValueError(f"posts must be 0, or at least {least / 86_400:g}d: `events`, `idempotency` and 7 days")
        return self


class LogSettings(SettingsSection):
    level: Literal["debug", "info", "warning", "error"] = "info"
    """The lowest level that is logged. `info` logs each outcome and request, except for successful
    health checks; `warning` only what needs attention."""
    format: Literal["text", "json"] = "text"
    """`text` is for people, `json` writes one object a line. Times are in UTC in both."""


class TracingSettings(SettingsSection):
    endpoint: str = Field("", pattern=r"^(https?://[^\s]+)?$")
    """The OTLP/HTTP address of an OpenTelemetry collector, such as http://localhost:4318/v1/traces. Empty: no traces.
    Needs the packages of `socialpub[tracing]`. Set headers for the collector in the environment variable
    OTEL_EXPORTER_OTLP_HEADERS.
    """
    service_name: str = Field("socialpub", min_length=1)
    """The name of this server in traces."""
    ratio: float = Field(1.0, ge=0, le=1)
    """The share of traces to send, from 0 to 1. A request with trace context decides for itself."""


class BackupSettings(SettingsSection):
    directory: str = ""
    """The folder for automatic backups of database and media, ideally on another disk. Empty: no backups in a folder.
    Backups do not contain the master key: keep a copy of it in another place.
    """
    every: Duration = Field(parse_duration("24h"), ge=parse_duration("10m"))
    """The time between two backups."""
    keep: int = Field(14, ge=1)
    """How many backups are kept in the folder, and how many in the bucket. Older ones are deleted after a new one was
    verified.
    """
    before_upgrade: int = Field(2, ge=0)
    """How many copies of the database from before an upgrade are kept beside it, as `socialpub-before-….db`. The server
    makes one before it upgrades the schema, and does not start without space for it. 0: no copies.
    """
    s3_endpoint: str = Field("", pattern=r"^(https?://[^/\s?#@]+)?$")
    """An S3-compatible store for backups, such as https://s3.eu-central-1.amazonaws.com. Empty: none. Without a
    `directory`, backups are prepared beside the data. Needs the package minio (`socialpub[s3]`).
    """
    s3_bucket: str = Field("", pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$|^$")
    """The bucket, which must exist. Ideally the access key below cannot delete recent objects in it."""
    s3_prefix: str = Field("", pattern=r"^[A-Za-z0-9._/-]{0,200}$")
    """The prefix of the object names, such as a folder. Empty: none."""
    s3_region: str = Field("us-east-1", pattern=r"^[A-Za-z0-9-]{1,64}$")
    """The region for signing requests. Many stores accept any."""
    s3_access_key: str = ""
    """The access key, which may put, get, list and delete objects."""
    s3_secret_key: str = Field("", repr=False)
    """The secret of the access key."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        missing_names = [name for name in ("s3_bucket", "s3_access_key", "s3_secret_key") if not getattr(self, name)]
        if self.s3_endpoint and missing_names:
            raise ValueError(f"s3_endpoint also needs {', '.join(missing_names)}")
        return self


class Settings(BaseSettings):
    """All settings.

    Precedence: command line, environment (SOCIALPUB_SECTION__KEY), file, defaults.
    """

    model_config = SettingsConfigDict(env_prefix=VARIABLE_PREFIX, env_nested_delimiter="__", extra="forbid")

    server: ServerSettings = ServerSettings()
    database: DatabaseSettings = DatabaseSettings()
    storage: StorageSettings = StorageSettings()
    security: SecuritySettings = SecuritySettings()
    limits: RateLimitSettings = RateLimitSettings()
    media: MediaSettings = MediaSettings()
    webhooks: WebhookSettings = WebhookSettings()
    notifications: NotificationSettings = NotificationSettings()
    smtp: SmtpSettings = SmtpSettings()
    tokens: TokenSettings = TokenSettings()
    publishing: PublishingSettings = PublishingSettings()
    scheduling: SchedulingSettings = SchedulingSettings()
    billing: BillingSettings = BillingSettings()
    mcp: McpSettings = McpSettings()
    retention: RetentionSettings = RetentionSettings()
    backup: BackupSettings = BackupSettings()
    log: LogSettings = LogSettings()
    tracing: TracingSettings = TracingSettings()
    platforms: dict[str, dict[str, Any]] = {}

    _file: Path | None = PrivateAttr(None)

    @property
    def read_from(self) -> str:
        """The settings file that was read, as text for people."""
        return str(
            self._file or f"no file: {Path(CONFIG_FILE).absolute()} does not exist (set another one with --config)"
        )

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
        return self.server.base_url or self.local_url

    @property
    def local_url(self) -> str:
        """The origin at which the server listens."""
        host = f"[{self.server.host}]" if ":" in self.server.host else self.server.host
        return f"http://{host}:{self.server.port}"

    @property
    def database_path(self) -> Path:
        return Path(self.database.url)

    @cached_property
    def data_dir(self) -> Path:
        return Path(self.storage.data_dir) if self.storage.data_dir else self.database_path.resolve().parent

    @property
    def key_file(self) -> Path:
        named = self.security.encryption_key_file
        return Path(named) if named else self.data_dir / "master.key"


_file_values: dict[str, Any] = {}


def load(path: Path | None = None, overrides: Mapping[str, Mapping[str, Any]] | None = None) -> Settings:
    """Return the settings of a file, the environment and `overrides`.

    `path` defaults to ./socialpub.toml if it exists. Raise ConfigError with the file or setting that cannot be used.
    """
    _check_environment()
    _file_values.clear()
    values = _read_file(path)
    _file_values.update(values or {})
    try:
        given: dict[str, Any] = {name: dict(values) for name, values in (overrides or {}).items() if values}
        settings = Settings(**given)
    except ValidationError as error:
        raise ConfigError(describe_errors(error)) from error
    except SettingsError as error:
        which = " or ".join(_find_invalid_json()) or "a variable"
        raise ConfigError(f"{which} in the environment: lists and tables must be valid JSON") from error
    finally:
        _file_values.clear()
    settings._file = None if values is None else (path or Path(CONFIG_FILE)).absolute()
    if "://" in settings.database.url:
        raise ConfigError("database.url: only an SQLite file is supported today; name a file, for example socialpub.db")
    return settings


def _read_file(path: Path | None) -> dict[str, Any] | None:
    """Return the content of the settings file; None if the default file is missing."""
    named = path or Path(CONFIG_FILE)
    try:
        values = tomllib.loads(named.read_text(encoding="utf-8-sig"))
        why = private_files.find_permission_problem(named, _find_secrets(values))
    except FileNotFoundError as error:
        if path is None:
            return None
        raise ConfigError(f"{named}: the settings file does not exist") from error
    except OSError as error:
        raise ConfigError(f"{named}: the settings file cannot be read: {os_errors.describe(error)}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{named}: {error}") from error
    if why:
        raise ConfigError(f"{named}: {why}")
    return values


def _check_environment() -> None:
    """Raise ConfigError for an environment variable that looks like a setting but is unknown."""
    for variable in sorted(os.environ):
        section, *rest = variable.removeprefix(VARIABLE_PREFIX).lower().split("__")
        if not variable.startswith(VARIABLE_PREFIX) or variable in OTHER_VARIABLES:
            continue
        if section not in Settings.model_fields or not rest:
            suggestion = _find_nearest("__".join((section, *rest)), [name.replace(".", "__") for name in list_names()])
            suggestion = suggestion and f"; did you mean {VARIABLE_PREFIX}{suggestion.upper()}?"
            raise ConfigError(f"{variable} in the environment: there is no such setting{suggestion}")


def _find_invalid_json() -> list[str]:
    """Return the variables that should be a list or table but are not JSON.

    pydantic-settings names only their section.
    """
    found = []
    for variable in sorted(os.environ):
        section, _, name = variable.removeprefix(VARIABLE_PREFIX).lower().partition("__")
        model = Settings.model_fields[section].annotation if section in Settings.model_fields else None
        if variable.startswith(VARIABLE_PREFIX) and isinstance(model, type) and issubclass(model, SettingsSection):
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


def list_names() -> list[str]:
    """Return every setting as `section.key`, except those of platforms."""
    sections = ((name, field.annotation) for name, field in Settings.model_fields.items())
    return [
        f"{name}.{key}"
        for name, section in sections
        if isinstance(section, type) and issubclass(section, SettingsSection)
        for key in section.model_fields
    ]


def _find_nearest(name: str, known: Sequence[str]) -> str:
    """Return the most similar known name; "" if none is similar."""
    return next(iter(difflib.get_close_matches(name, known, n=1, cutoff=0.7)), "")


def _find_secrets(values: Mapping[str, Any], path: str = "") -> list[str]:
    """Return the names of the secret settings that are set, by the words in them."""
    found: list[str] = []
    for name, value in values.items():
        if isinstance(value, Mapping):
            found += _find_secrets(value, f"{path}{name}.")
        elif value and any(word in name for word in _SECRET_WORDS) and not isinstance(value, bool | int | float):
            found.append(path + name)
    return found


def describe_errors(error: ValidationError, prefix: str = "", known: Sequence[str] = ()) -> str:
    """Return the invalid settings and why, in one line, without their values.

    `known` are the names to suggest.
    """
    lines, known = [], known or [*Settings.model_fields, *list_names()]
    for issue in error.errors(include_url=False, include_input=False):
        name = prefix + ".".join(str(part) for part in issue["loc"])
        missing = issue["type"] == "extra_forbidden"
        suggestion = _find_nearest(name, known)
        unknown = f"there is no such setting; did you mean {suggestion}?" if suggestion else "there is no such setting"
        message = unknown if missing else issue["msg"]
        lines.append(f"{name}: {message}")
    return "; ".join(lines)


def render_example(platform_sections: Mapping[str, type[BaseModel]]) -> str:
    """Return the text of socialpub.toml.example: every setting with its default and its help."""
    parts = [
        "# socialpub.toml: every setting with its default. No setting is required; uncomment what you change.\n"
        "# Each can also be set in the environment: SOCIALPUB_SECTION__KEY=value (lists as JSON).\n"
        '# Durations are seconds, or text such as "30s", "5m", "12h", "7d".\n'
    ]
    for name, field in Settings.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, SettingsSection):
            parts.append(_render_section(name, field.annotation))
    parts += [_render_section(f"platforms.{name}", model) for name, model in platform_sections.items()]
    return "\n".join(parts)


def _render_section(name: str, model: type[BaseModel]) -> str:
    lines = [f"[{name}]"]
    for key, field in model.model_fields.items():
        lines += [f"# {line}" for line in get_help(model, key).splitlines()]
        lines.append(f"#{key} = {format_toml(field.get_default(call_default_factory=True))}")
    return "\n".join(lines) + "\n"


def get_help(model: type[BaseModel], key: str) -> str:
    """Return the help of a setting, from its section or the one that it extends."""
    return field_docs.read(model).get(key, "")


def format_toml(value: object) -> str:
    """Return a value in TOML syntax."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, list | tuple):
        return "[" + ", ".join(format_toml(item) for item in value) + "]"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def find_shipped_directory(name: str) -> Path:
    """Return the directory `templates` or `migrations`.

    It is beside the package in a checkout, and inside the package when installed.
    """
    inside = Path(__file__).parents[1] / "_shipped" / name
    return inside if inside.is_dir() else Path(__file__).parents[2] / name
