"""Sections of the settings: one class for each table of `socialpub.toml`.

The string below a field is its help, which `socialpub.toml.example` and the reference show.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from socialpub.base.http import ssrf
from socialpub.base.value_formats import EMAIL_MAX, EMAIL_PATTERN, Duration, parse_duration, parse_networks


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
    posts and deliveries that wait for an active endpoint stay.
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
    verified. Backups with problems, such as missing media, are named so and counted by themselves.
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
