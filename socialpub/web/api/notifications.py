"""/v1/notification-channels: where people are told."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from socialpub.domain.act import Deed, deed
from socialpub.domain.notifications import channels, history, outbox, samples, words
from socialpub.domain.shapes.common import DeletedBody, Narrowing
from socialpub.domain.shapes.notifications import (
    ChannelBody,
    ChannelChange,
    ChannelList,
    ChannelRequest,
    ChannelTestBody,
    ChannelTestRequest,
    NotificationBody,
    NotificationPage,
    NotificationsQuery,
)
from socialpub.web.api.writes import commit_after, commit_bare
from socialpub.web.examples import BASE, DISPLAY_NAME, DONE, NOW
from socialpub.web.http import Call, Reply
from socialpub.web.openapi.events import EXAMPLES
from socialpub.web.operation import Operation, Success

TAG = "Notifications"
TARGET_ERRORS = ("webhook.url.scheme", "webhook.url.address", "notification.email.off")

CHANNEL: ChannelBody = {
    "id": "nch_0Bk3xQ9ZrT7uVw2YhN4mLs",
    "to": {"kind": "slack", "url": "https://hooks.slack.com/…Kx9q"},
    "events": [],
    "description": "The newsroom",
    "active": True,
    "profileId": None,
    "lastDeliveryAt": DONE,
    "lastFailureReason": None,
    "createdAt": NOW,
    "updatedAt": NOW,
}
NEW: ChannelBody = {**CHANNEL, "lastDeliveryAt": None}
REQUESTS = {
    "e-mail": {"to": {"kind": "email", "address": "newsroom@example.org"}},
    "Slack": {"to": {"kind": "slack", "url": "https://hooks.slack.com/services/T0/B0/XXXXXXXX"}},
    "Discord": {"to": {"kind": "discord", "url": "https://discord.com/api/webhooks/1/XXXXXXXX"}},
    "Telegram": {"to": {"kind": "telegram", "botToken": "1:XXXXXXXXXXXXXXXXXXXXXXXX", "chatId": "-1001"}},
    "ntfy, of your own, for all that is published": {
        "to": {"kind": "ntfy", "url": "https://ntfy.example.org", "topic": "posts"},
        "events": ["post.published", "post.failed", "post.rejected"],
    },
}

LISTING = Operation(
    TAG,
    "listNotificationChannels",
    "List channels",
    "A key that is bound to a profile sees that profile's.",
    answers={200: Success(ChannelList, "The channels.", ChannelList(data=[CHANNEL]))},
    links={"readNotificationChannel": "/data/0/id"},
)


async def listing(call: Call) -> Reply:
    """GET /v1/notification-channels."""
    return Reply(ChannelList(data=await call.service.read(lambda: channels.listed(call.scope))))


CREATE = Operation(
    TAG,
    "createNotificationChannel",
    "Add a channel",
    "People are told there of what happens from now on: the first failure of a cause at once, and what else it causes "
    "within the next minutes in one message. What in `to` is as good as a password is kept encrypted and never shown "
    "in full again. A key that is bound to a profile adds a channel for that profile's events.",
    body=ChannelRequest,
    requests=REQUESTS,
    answers={201: Success(ChannelBody, "The new channel.", NEW)},
    errors=(*TARGET_ERRORS, "notification.channels.max"),
)


async def create(call: Call) -> Reply:
    """POST /v1/notification-channels."""

    async def choose(request: ChannelRequest) -> Deed:
        await channels.check(call.service, call.scope.organization, request.to)
        return deed(call.who, channels.create, request)

    return await commit_after(call, ChannelRequest, choose)


READ = Operation(
    TAG,
    "readNotificationChannel",
    "Read one channel",
    query=Narrowing,
    answers={200: Success(ChannelBody, "The channel.", CHANNEL)},
    errors=("not_found",),
)


async def read(call: Call) -> Reply:
    """GET /v1/notification-channels/{id}."""
    channel = call.path_value("channel_id")
    return Reply(await call.service.read(lambda: channels.body(channels.find(call.narrowed, channel))))


CHANGE = Operation(
    TAG,
    "changeNotificationChannel",
    "Change a channel",
    "What the body leaves out stays as it is.",
    query=Narrowing,
    body=ChannelChange,
    requests={"switch off": {"active": False}, "what needs somebody": {"events": []}},
    answers={200: Success(ChannelBody, "The channel as it is now.", CHANNEL)},
    errors=("not_found", *TARGET_ERRORS),
)


async def change(call: Call) -> Reply:
    """PATCH /v1/notification-channels/{id}."""
    channel = call.path_value("channel_id")

    async def choose(request: ChannelChange) -> Deed:
        if request.to is not None:
            await channels.check(call.service, call.scope.organization, request.to)
        return deed(call.who, channels.change, channel, request)

    return await commit_after(call, ChannelChange, choose)


DELETE = Operation(
    TAG,
    "deleteNotificationChannel",
    "Delete a channel",
    "Nothing more is told there, nor what was still on its way.",
    query=Narrowing,
    answers={200: Success(DeletedBody, "The channel is gone.", DeletedBody(id=CHANNEL["id"], deleted=True))},
    errors=("not_found",),
)


async def delete(call: Call) -> Reply:
    """DELETE /v1/notification-channels/{id}."""
    return await commit_bare(call, lambda: deed(call.who, channels.delete, call.path_value("channel_id")))


TESTED: ChannelTestBody = {
    "delivered": True,
    "status": 200,
    "durationMs": 87,
    "responseBody": "ok",
    "nonRetryable": False,
    "error": None,
    "errorName": None,
    "sentText": "A test\nThis is a test. Messages about the posts and accounts of your organization will come here.\n"
    f"{BASE}/",
}
TEST = Operation(
    TAG,
    "testNotificationChannel",
    "Send a test",
    "Sends a test message now, and answers with what the receiver said. It is not tried again. A channel that is "
    "switched off can be tested, too.",
    query=Narrowing,
    body=ChannelTestRequest,
    requests={"a test": {}, "of a failure": {"type": "post.failed"}},
    answers={200: Success(ChannelTestBody, "What the receiver did.", TESTED)},
    errors=("not_found",),
)


def data_of(type_: str) -> Mapping[str, Any]:
    """What an example of this type tells."""
    return EXAMPLES.get(type_, {"reason": "restored"})


async def test(call: Call) -> Reply:
    """POST /v1/notification-channels/{id}/test."""
    channel = call.path_value("channel_id")
    return await commit_after(call, ChannelTestRequest, lambda request: try_out(call, channel, request))


async def try_out(call: Call, channel: str, request: ChannelTestRequest) -> Deed:
    """Send a test on a channel now; to be written down, what came of it."""
    data, scope = data_of(request.type) if request.type else {}, call.who.scope
    to = await call.service.read(lambda: samples.receiver(scope, call.service, channel))
    sending = call.service.delivering.of(outbox.share_of(call.service, to))
    tried = await asyncio.get_running_loop().run_in_executor(
        sending, samples.send, call.service, to, request.type, data
    )
    return deed(call.who, samples.tried, to, tried)


# --- What people were told -----------------------------------------------------------------------------------------

_SHOWN = words.message(words.Told("post.failed", EXAMPLES["post.failed"], DISPLAY_NAME, 9, True, 1795435200000), BASE)
MESSAGE: NotificationBody = {
    "id": "ntf_0Bk3xQ9ZrT7uVw2YhN4mLt",
    "channelId": CHANNEL["id"],
    "type": "post.failed",
    "count": 9,
    "title": _SHOWN.title,
    "text": _SHOWN.text,
    "status": "succeeded",
    "attemptCount": 1,
    "nextAttemptAt": None,
    "lastStatusCode": 200,
    "lastError": None,
    "createdAt": NOW,
    "updatedAt": DONE,
}
TOLD = Operation(
    TAG,
    "listNotifications",
    "List what people were told",
    "What became of each message on each channel, newest first. What is pending and has no attempts yet may gather "
    "more of its cause. A key that is bound to a profile sees what was told on that profile's channels.",
    query=NotificationsQuery,
    answers={200: Success(NotificationPage, "One page.", NotificationPage(data=[MESSAGE], nextCursor=None))},
    errors=("cursor", "not_found", "api_key.profile_scope"),
)


async def told(call: Call) -> Reply:
    """GET /v1/notifications."""
    query = call.query(NotificationsQuery)
    return Reply(await call.service.read(lambda: history.page(call.service, call.scope, query)))
