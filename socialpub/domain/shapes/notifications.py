"""Notification channels: how they are asked for, and what is told of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal, NotRequired, Union

from pydantic import Field, StringConstraints
from typing_extensions import TypedDict

from socialpub.base.config import MAILBOX, MAILBOX_MAX
from socialpub.domain.shapes.common import Address, DateTime, Instant, Maybe, Request, Uuid, absent
from socialpub.domain.shapes.events import EVENT_DATA
from socialpub.domain.shapes.webhooks import Description
from socialpub.store.rows import DeliveryStatus

PAUSED = "publishing.paused"

if TYPE_CHECKING:
    NoticeType = str
else:
    NoticeType = Literal[(*EVENT_DATA, PAUSED)]

NTFY_SERVER = r"^https?://[^/\\\s?#@]+/?$"
NTFY_TOPIC = r"^[A-Za-z0-9_-]{1,64}$"
NTFY_TOKEN = r"^[A-Za-z0-9_.~+/=-]{1,200}$"
BOT_TOKEN = r"^[0-9]{1,20}:[A-Za-z0-9_-]{20,100}$"
CHAT_ID = r"^(-?[0-9]{1,20}|@[A-Za-z0-9_]{1,64})$"
CHANNEL_ID = r"^nch_[0-9A-Za-z]{22}$"
ChannelKind = Literal["email", "ntfy", "slack", "discord", "telegram"]
Mailbox = Annotated[str, StringConstraints(pattern=MAILBOX, max_length=MAILBOX_MAX)]
NtfyServer = Annotated[str, StringConstraints(pattern=NTFY_SERVER, max_length=500)]
NtfyTopic = Annotated[str, StringConstraints(pattern=NTFY_TOPIC)]
NtfyToken = Annotated[str, StringConstraints(pattern=NTFY_TOKEN)]
BotToken = Annotated[str, StringConstraints(pattern=BOT_TOKEN)]
ChatId = Annotated[str, StringConstraints(pattern=CHAT_ID)]
ChannelId = Annotated[str, StringConstraints(pattern=CHANNEL_ID)]
NoticeTypes = Annotated[list[NoticeType], Field(max_length=50)]


# --- Where ---------------------------------------------------------------------------------------------------------


class EmailTarget(Request):
    """An e-mail address; the server's settings name the mail server."""

    kind: Literal["email"] = "email"
    address: Mailbox


class NtfyTarget(Request):
    """A topic of ntfy, at ntfy.sh or a server of your own."""

    kind: Literal["ntfy"] = "ntfy"
    url: Maybe[NtfyServer] = absent()
    """The server: https, and a public address, unless the operator named the host; `https://ntfy.sh` where absent."""
    topic: NtfyTopic
    token: Maybe[NtfyToken] = absent()
    """An access token, where the topic needs one."""


class SlackTarget(Request):
    """An incoming webhook of Slack, or of a chat that takes the same form (Mattermost, Rocket.Chat)."""

    kind: Literal["slack"] = "slack"
    url: Address


class DiscordTarget(Request):
    """A webhook of a Discord channel."""

    kind: Literal["discord"] = "discord"
    url: Address


class TelegramTarget(Request):
    """A chat of Telegram, by a bot that may write there."""

    kind: Literal["telegram"] = "telegram"
    bot_token: BotToken
    """As BotFather gave it."""
    chat_id: ChatId
    """The chat's number, or a public channel's `@name`."""


ChannelTarget = Annotated[
    Union[EmailTarget, NtfyTarget, SlackTarget, DiscordTarget, TelegramTarget], Field(discriminator="kind")
]
TARGETS: Mapping[ChannelKind, type[Request]] = {
    "email": EmailTarget,
    "ntfy": NtfyTarget,
    "slack": SlackTarget,
    "discord": DiscordTarget,
    "telegram": TelegramTarget,
}


class ShownTarget(TypedDict):
    """Where a channel leads, as far as it may be seen: of what is as good as a password, the last characters."""

    kind: ChannelKind
    address: NotRequired[str]
    url: NotRequired[str]
    topic: NotRequired[str]
    token: NotRequired[str]
    botToken: NotRequired[str]
    chatId: NotRequired[str]


# --- Channels ------------------------------------------------------------------------------------------------------


class ChannelRequest(Request):
    """The body of POST /v1/notification-channels."""

    to: ChannelTarget
    """Where people are told."""
    events: Maybe[NoticeTypes] = absent()
    """What they are told; none, or an empty list: `post.failed`, `post.rejected`, `token.expiring`, `token.revoked`,
    `webhook.disabled` and `publishing.paused`. Of a `post.failed` that is tried again nobody is told."""
    description: Description | None = absent()
    """What the channel is for, in your own words."""


class ChannelChange(Request):
    """The body of PATCH /v1/notification-channels/{id}: what it leaves out stays."""

    to: Maybe[ChannelTarget] = absent()
    """In place of where it led before, with all its secrets."""
    events: Maybe[NoticeTypes] = absent()
    """An empty list: what a channel is told that names none."""
    description: Description | None = absent()
    """Null: none."""
    active: Maybe[bool] = absent()
    """`false`: nothing is told, and what happens meanwhile is not told later. `true` also ends a switch-off."""


class ChannelBody(TypedDict):
    """A channel on which people are told."""

    id: str
    to: ShownTarget
    events: list[NoticeType]
    """Empty: what needs somebody."""
    description: str | None
    active: bool
    """False: nothing is told. A channel whose every message has failed for 5 days is switched off."""
    profileId: str | None
    """The profile whose events are told; null: the whole organization's."""
    lastDeliveryAt: DateTime | None
    """When a message was last taken."""
    lastFailureReason: str | None
    """Why the newest failed attempt failed; null once a message was taken."""
    createdAt: DateTime
    updatedAt: DateTime


class ChannelList(TypedDict):
    """The channels, oldest first."""

    data: list[ChannelBody]


class ChannelTestRequest(Request):
    """The body of POST /v1/notification-channels/{id}/test."""

    type: Maybe[NoticeType] = absent()
    """Send what would be told of an event of this type; without one, a plain test."""


class ChannelTestBody(TypedDict):
    """What the receiver did with a test, now."""

    delivered: bool
    """Whether it took the message."""
    status: int | None
    """The status of its answer (of e-mail: the mail server's code); null where none came."""
    durationMs: int
    responseBody: str | None
    """The first 2 KiB of what it said, without the channel's secrets."""
    nonRetryable: bool
    """Whether a real message would not be tried again."""
    error: str | None
    """Why it failed, for people; null when delivered."""
    errorName: str | None
    """`http_3xx`, `http_4xx`, `http_5xx`, `smtp_4xx`, `smtp_5xx`, `smtp_login`, `smtp_tls`, `smtp_settings`, `timeout`,
    `unreachable`, `address` or `answer_lost`; null when delivered."""
    sentText: str
    """What was sent, before it was put into the receiver's form."""


# --- What people were told -----------------------------------------------------------------------------------------


class NotificationsQuery(Request):
    """The query of GET /v1/notifications."""

    channel_id: Maybe[ChannelId] = absent()
    """Messages on this channel."""
    type: Maybe[NoticeTypes] = absent()
    status: Maybe[Annotated[list[DeliveryStatus], Field(max_length=3)]] = absent()
    since: Maybe[Instant] = absent()
    """Messages about what happened at this instant or later."""
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    """Messages a page."""
    cursor: Maybe[str] = absent()
    """`nextCursor` of the page before; an empty one is as if absent."""
    profile_id: Maybe[Uuid] = absent()
    """Messages about this profile's events."""


class NotificationBody(TypedDict):
    """One message to people, on one channel."""

    id: str
    channelId: str
    type: NoticeType
    """Of the first event that it tells of."""
    count: int
    """How many events of the cause it tells of."""
    title: str
    text: str
    status: DeliveryStatus
    attemptCount: int
    nextAttemptAt: DateTime | None
    """When it is sent, or tried again; null when it is not."""
    lastStatusCode: int | None
    lastError: str | None
    createdAt: DateTime
    updatedAt: DateTime


class NotificationPage(TypedDict):
    """A page of messages, newest first."""

    data: list[NotificationBody]
    nextCursor: str | None
    """Send it as `cursor` for the next page, until it is null. A filtered page may be empty and still have one."""
