"""Schemas of notification channels and messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal, NotRequired, Union

from pydantic import Field, StringConstraints
from typing_extensions import TypedDict

from socialpub.base.value_formats import EMAIL_MAX, EMAIL_PATTERN
from socialpub.domain.schemas.common import Address, DateTime, Instant, Maybe, RequestModel, Uuid, absent
from socialpub.domain.schemas.events import EVENTS
from socialpub.domain.schemas.webhooks import Description
from socialpub.store.rows import DeliveryStatus

PAUSED_TYPE = "publishing.paused"

if TYPE_CHECKING:
    NoticeType = str
else:
    NoticeType = Literal[(*EVENTS, PAUSED_TYPE)]

NTFY_SERVER_PATTERN = r"^https?://[^/\\\s?#@]+/?$"
NTFY_TOPIC_PATTERN = r"^[A-Za-z0-9_-]{1,64}$"
NTFY_TOKEN_PATTERN = r"^[A-Za-z0-9_.~+/=-]{1,200}$"
BOT_TOKEN_PATTERN = r"^[0-9]{1,20}:[A-Za-z0-9_-]{20,100}$"
CHAT_ID_PATTERN = r"^(-?[0-9]{1,20}|@[A-Za-z0-9_]{1,64})$"
CHANNEL_ID_PATTERN = r"^nch_[0-9A-Za-z]{22}$"
ChannelKind = Literal["email", "ntfy", "slack", "discord", "telegram"]
Mailbox = Annotated[str, StringConstraints(pattern=EMAIL_PATTERN, max_length=EMAIL_MAX)]
NtfyServer = Annotated[str, StringConstraints(pattern=NTFY_SERVER_PATTERN, max_length=500)]
NtfyTopic = Annotated[str, StringConstraints(pattern=NTFY_TOPIC_PATTERN)]
NtfyToken = Annotated[str, StringConstraints(pattern=NTFY_TOKEN_PATTERN)]
BotToken = Annotated[str, StringConstraints(pattern=BOT_TOKEN_PATTERN)]
ChatId = Annotated[str, StringConstraints(pattern=CHAT_ID_PATTERN)]
ChannelId = Annotated[str, StringConstraints(pattern=CHANNEL_ID_PATTERN)]
NoticeTypes = Annotated[list[NoticeType], Field(max_length=50)]


# --- Targets -------------------------------------------------------------------------------------------------------


class EmailTarget(RequestModel):
    """E-mail address; requires a mail server in the settings."""

    kind: Literal["email"] = "email"
    address: Mailbox


class NtfyTarget(RequestModel):
    """Ntfy topic, at ntfy.sh or your own server."""

    kind: Literal["ntfy"] = "ntfy"
    url: Maybe[NtfyServer] = absent()
    """The server: https and a public address, unless the operator allowed the host. Default: `https://ntfy.sh`."""
    topic: NtfyTopic
    token: Maybe[NtfyToken] = absent()
    """An access token, if the topic needs one."""


class SlackTarget(RequestModel):
    """Slack incoming webhook, or a compatible one (Mattermost, Rocket.Chat)."""

    kind: Literal["slack"] = "slack"
    url: Address


class DiscordTarget(RequestModel):
    """Discord channel webhook."""

    kind: Literal["discord"] = "discord"
    url: Address


class TelegramTarget(RequestModel):
    """Telegram chat, by a bot that may write there."""

    kind: Literal["telegram"] = "telegram"
    bot_token: BotToken
    """The bot's token, as issued by BotFather."""
    chat_id: ChatId
    """The chat's number, or a public channel's `@name`."""


ChannelTarget = Annotated[
    Union[EmailTarget, NtfyTarget, SlackTarget, DiscordTarget, TelegramTarget], Field(discriminator="kind")
]
TARGET_MODELS: Mapping[ChannelKind, type[RequestModel]] = {
    "email": EmailTarget,
    "ntfy": NtfyTarget,
    "slack": SlackTarget,
    "discord": DiscordTarget,
    "telegram": TelegramTarget,
}


class ShownTarget(TypedDict):
    """Target of a channel. Of secrets only the last characters are shown."""

    kind: ChannelKind
    address: NotRequired[str]
    url: NotRequired[str]
    topic: NotRequired[str]
    token: NotRequired[str]
    botToken: NotRequired[str]
    chatId: NotRequired[str]


# --- Channels ------------------------------------------------------------------------------------------------------


class ChannelRequest(RequestModel):
    """Body of POST /v1/notification-channels."""

    to: ChannelTarget
    """The target of the messages."""
    events: Maybe[NoticeTypes] = absent()
    """The event types to send. Absent or empty: `post.failed`, `post.rejected`, `token.expiring`, `token.revoked`,
    `key.expiring`, `webhook.disabled` and `publishing.paused`. A `post.failed` that will be retried is not sent."""
    description: Description | None = absent()
    """The purpose of the channel, in your own words."""


class ChannelChange(RequestModel):
    """Body of PATCH /v1/notification-channels/{id}: omitted fields stay unchanged."""

    to: Maybe[ChannelTarget] = absent()
    """Replaces the target with all its secrets."""
    events: Maybe[NoticeTypes] = absent()
    """Empty: the default types."""
    description: Description | None = absent()
    """Null: none."""
    active: Maybe[bool] = absent()
    """`false`: nothing is sent, and events meanwhile are not sent later. `true` also enables a disabled channel."""


class ChannelBody(TypedDict):
    """Notification channel."""

    id: str
    to: ShownTarget
    events: list[NoticeType]
    """Empty: the default types."""
    description: str | None
    active: bool
    """False: nothing is sent. A channel is disabled after every message has failed for 5 days."""
    profileId: str | None
    """The profile whose events are sent; null: the whole organization's."""
    accounts: list[str] | None
    """The accounts that the API key which created it is limited to: their events are sent, and those of no account.
    Null: the events of every account."""
    lastDeliveryAt: DateTime | None
    """The time of the last successful delivery."""
    lastFailureReason: str | None
    """Why the latest attempt failed; null after a successful delivery."""
    createdAt: DateTime
    updatedAt: DateTime


class ChannelList(TypedDict):
    """Channels, oldest first."""

    data: list[ChannelBody]


class ChannelTestRequest(RequestModel):
    """Body of POST /v1/notification-channels/{id}/test."""

    type: Maybe[NoticeType] = absent()
    """Send the message of an event of this type; default: a plain test."""


class ChannelTestBody(TypedDict):
    """Result of a test message, sent now."""

    delivered: bool
    """Whether the receiver accepted the message."""
    status: int | None
    """The status of the response (for e-mail: the mail server's code); null without a response."""
    durationMs: int
    responseBody: str | None
    """The first 2 KiB of the response, without the channel's secrets."""
    nonRetryable: bool
    """Whether a real message would not be retried."""
    error: str | None
    """Why it failed, for people; null if delivered."""
    errorName: str | None
    """`http_3xx`, `http_4xx`, `http_5xx`, `smtp_4xx`, `smtp_5xx`, `smtp_login`, `smtp_tls`, `smtp_settings`, `timeout`,
    `unreachable`, `address` or `answer_lost`; null if delivered."""
    sentText: str
    """The text sent, before formatting for the receiver."""


# --- Messages ------------------------------------------------------------------------------------------------------


class NotificationsQuery(RequestModel):
    """Query of GET /v1/notifications."""

    channel_id: Maybe[ChannelId] = absent()
    """Messages on this channel."""
    type: Maybe[NoticeTypes] = absent()
    status: Maybe[Annotated[list[DeliveryStatus], Field(max_length=3)]] = absent()
    since: Maybe[Instant] = absent()
    """Messages about events at this instant or later."""
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    """Messages per page."""
    cursor: Maybe[str] = absent()
    """`nextCursor` of the previous page; an empty one is ignored."""
    profile_id: Maybe[Uuid] = absent()
    """Messages about this profile's events."""


class NotificationBody(TypedDict):
    """Message to people on one channel."""

    id: str
    channelId: str
    type: NoticeType
    """The type of the first event it covers."""
    count: int
    """The number of events it covers."""
    title: str
    text: str
    status: DeliveryStatus
    attemptCount: int
    nextAttemptAt: DateTime | None
    """The time of the next attempt; null if there is none."""
    lastStatusCode: int | None
    lastError: str | None
    createdAt: DateTime
    updatedAt: DateTime


class NotificationPage(TypedDict):
    """Page of messages, newest first."""

    data: list[NotificationBody]
    nextCursor: str | None
    """The `cursor` of the next page; null at the end. A filtered page may be empty and still have one."""
