"""/v1/notification-channels and /v1/notifications: messages to people by e-mail and chat."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from socialpub.domain.access.actions import BoundAction, bind
from socialpub.domain.delivery.notifications import (
    channels,
    history,
    message_texts,
    notification_outbox,
    sample_messages,
)
from socialpub.domain.schemas.common import DeletedBody, ProfileQuery
from socialpub.domain.schemas.notifications import (
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
from socialpub.web.api.write_handlers import commit_after_lookup, commit_without_body
from socialpub.web.http.handler import HandlerResponse, RequestContext
from socialpub.web.http.operation import Operation, SuccessResponse
from socialpub.web.openapi.events import EXAMPLES
from socialpub.web.openapi.examples import BASE, DISPLAY_NAME, DONE, NOW

TAG = "Notifications"
TARGET_ERRORS = ("webhook.url.scheme", "webhook.url.address", "notification.email.off")

CHANNEL: ChannelBody = {
    "id": "nch_0Bk3xQ9ZrT7uVw2YhN4mLs",
    "to": {"kind": "slack", "url": "https://hooks.slack.com/…Kx9q"},
    "events": [],
    "description": "The newsroom",
    "active": True,
    "profileId": None,
    "accounts": None,
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
    "your own ntfy server, for every outcome": {
        "to": {"kind": "ntfy", "url": "https://ntfy.example.org", "topic": "posts"},
        "events": ["post.published", "post.failed", "post.rejected"],
    },
}

LIST = Operation(
    TAG,
    "listNotificationChannels",
    "List channels",
    "A key that is limited to a profile sees only the channels of that profile.",
    answers={200: SuccessResponse(ChannelList, "The channels.", ChannelList(data=[CHANNEL]))},
    links={"readNotificationChannel": "/data/0/id"},
)


async def list_channels(call: RequestContext) -> HandlerResponse:
    """GET /v1/notification-channels."""
    return HandlerResponse(ChannelList(data=await call.service.read(lambda: channels.list_bodies(call.scope))))


CREATE = Operation(
    TAG,
    "createNotificationChannel",
    "Add a channel",
    "The channel is notified of events from now on: the first failure of a cause at once, and later failures of the "
    "same cause in one message. Secrets in `to` are stored encrypted and never shown in full again. A key that is "
    "limited to a profile adds a channel for the events of that profile.",
    body=ChannelRequest,
    requests=REQUESTS,
    answers={201: SuccessResponse(ChannelBody, "The new channel.", NEW)},
    errors=(*TARGET_ERRORS, "notification.channels.max"),
)


async def create(call: RequestContext) -> HandlerResponse:
    """POST /v1/notification-channels."""

    async def choose(request: ChannelRequest) -> BoundAction:
        await channels.check_target(call.service, call.scope.organization, request.to)
        return bind(call.actor, channels.create, request)

    return await commit_after_lookup(call, ChannelRequest, choose)


READ = Operation(
    TAG,
    "readNotificationChannel",
    "Read one channel",
    query=ProfileQuery,
    answers={200: SuccessResponse(ChannelBody, "The channel.", CHANNEL)},
    errors=("not_found",),
)


async def read(call: RequestContext) -> HandlerResponse:
    """GET /v1/notification-channels/{id}."""
    channel = call.path_value("channel_id")
    return HandlerResponse(
        await call.service.read(lambda: channels.to_body(channels.find(call.profile_scope, channel)))
    )


CHANGE = Operation(
    TAG,
    "changeNotificationChannel",
    "Change a channel",
    "Fields that the body leaves out keep their value.",
    query=ProfileQuery,
    body=ChannelChange,
    requests={"turn off": {"active": False}, "everything that needs attention": {"events": []}},
    answers={200: SuccessResponse(ChannelBody, "The changed channel.", CHANNEL)},
    errors=("not_found", *TARGET_ERRORS),
)


async def change(call: RequestContext) -> HandlerResponse:
    """PATCH /v1/notification-channels/{id}."""
    channel = call.path_value("channel_id")

    async def choose(request: ChannelChange) -> BoundAction:
        if request.to is not None:
            await channels.check_target(call.service, call.scope.organization, request.to)
        return bind(call.actor, channels.change, channel, request)

    return await commit_after_lookup(call, ChannelChange, choose)


DELETE = Operation(
    TAG,
    "deleteNotificationChannel",
    "Delete a channel",
    "The channel gets no more messages, including those that are pending.",
    query=ProfileQuery,
    answers={
        200: SuccessResponse(DeletedBody, "The channel was deleted.", DeletedBody(id=CHANNEL["id"], deleted=True))
    },
    errors=("not_found",),
)


async def delete(call: RequestContext) -> HandlerResponse:
    """DELETE /v1/notification-channels/{id}."""
    return await commit_without_body(call, lambda: bind(call.actor, channels.delete, call.path_value("channel_id")))


TESTED: ChannelTestBody = {
    "delivered": True,
    "status": 200,
    "durationMs": 87,
    "responseBody": "ok",
    "nonRetryable": False,
    "error": None,
    "errorName": None,
    "sentText": "Test message\nThis is a test. You will get messages about your organization's posts and accounts "
    "here.\n"
    f"{BASE}/",
}
TEST = Operation(
    TAG,
    "testNotificationChannel",
    "Send a test message",
    "Sends a test message now and returns the receiver's response. It is not retried. You can also test a channel "
    "that is turned off.",
    query=ProfileQuery,
    body=ChannelTestRequest,
    requests={"a test": {}, "of a failure": {"type": "post.failed"}},
    answers={200: SuccessResponse(ChannelTestBody, "The result of the test.", TESTED)},
    errors=("not_found",),
)


def find_example_data(type_: str) -> Mapping[str, Any]:
    """Return the event data of a test message of this type."""
    return EXAMPLES.get(type_, {"reason": "restored"})


async def test(call: RequestContext) -> HandlerResponse:
    """POST /v1/notification-channels/{id}/test."""
    channel = call.path_value("channel_id")
    return await commit_after_lookup(call, ChannelTestRequest, lambda request: send_test(call, channel, request))


async def send_test(call: RequestContext, channel: str, request: ChannelTestRequest) -> BoundAction:
    """Send a test message now. Return the action that records the outcome."""
    data, scope = find_example_data(request.type) if request.type else {}, call.actor.scope
    to = await call.service.read(lambda: sample_messages.load_target(scope, call.service, channel))
    share = notification_outbox.get_share_key(call.service, to)
    tried = await call.service.executors.delivering.run(
        share, sample_messages.send, call.service, to, request.type, data
    )
    return bind(call.actor, sample_messages.build_result, to, tried)


# --- Sent messages -------------------------------------------------------------------------------------------------

_EXAMPLE_MESSAGE = message_texts.compose(
    message_texts.MessageContext("post.failed", EXAMPLES["post.failed"], DISPLAY_NAME, 9, True, 1795435200000), BASE
)
MESSAGE: NotificationBody = {
    "id": "ntf_0Bk3xQ9ZrT7uVw2YhN4mLt",
    "channelId": CHANNEL["id"],
    "type": "post.failed",
    "count": 9,
    "title": _EXAMPLE_MESSAGE.title,
    "text": _EXAMPLE_MESSAGE.text,
    "status": "succeeded",
    "attemptCount": 1,
    "nextAttemptAt": None,
    "lastStatusCode": 200,
    "lastError": None,
    "createdAt": NOW,
    "updatedAt": DONE,
}
LIST_NOTIFICATIONS = Operation(
    TAG,
    "listNotifications",
    "List notifications",
    "Every message on every channel with its outcome, newest first. A pending message without attempts may still "
    "collect more events of its cause. A key that is limited to a profile sees only the messages of that profile's "
    "channels.",
    query=NotificationsQuery,
    answers={200: SuccessResponse(NotificationPage, "One page.", NotificationPage(data=[MESSAGE], nextCursor=None))},
    errors=("cursor", "not_found", "api_key.profile_scope"),
)


async def list_notifications(call: RequestContext) -> HandlerResponse:
    """GET /v1/notifications."""
    query = call.query(NotificationsQuery)
    return HandlerResponse(await call.service.read(lambda: history.load_page(call.service, call.scope, query)))
