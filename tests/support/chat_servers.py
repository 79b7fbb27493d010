"""Loopback fakes of Slack, Discord, Telegram and ntfy that accept only documented calls."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from socialpub.store.schema.models import Notification
from tests.support.app_server import AppServer, Person, sleep_briefly
from tests.support.request_cast import RequestCast
from tests.support.webhook_receiver import ReceivedCall, ReceiverResponse, WebhookReceiver

CHANNELS = "/v1/notification-channels"
TOKEN = "123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw"
TOPIC, ACCESS = "newsroom-8f3a91c2d4", "tk_AgQdq7mVBoFD37zQVN29RhuMzNIz2"
SLACK = "/services/T024BE7LD/B024BE7LE/Zm9vYmFyYmF6cXV4cXV1eA"
DISCORD = "/api/webhooks/1034567890123456789/kq3vXJ8dFh2nB5wTzY7pLmRs9cGgUaVb4xEoNi6tKfDjHyQ1"


@dataclass(frozen=True)
class ChatChannel:
    """One kind of channel: how it is asked for, who takes what is sent, and the words in what came."""

    to: Callable[[str], dict[str, Any]]
    answer: Callable[[ReceivedCall], ReceiverResponse]
    text: Callable[[ReceivedCall], str]
    secrets: tuple[str, ...]


def _parse_json(got: ReceivedCall) -> dict[str, Any]:
    assert got.headers["content-type"] == "application/json"
    value = json.loads(got.body)
    assert isinstance(value, dict)
    return value


def _json_response(status: int, **body: Any) -> ReceiverResponse:
    return ReceiverResponse(status, json.dumps(body).encode(), {"Content-Type": "application/json"})


def _ntfy(got: ReceivedCall) -> ReceiverResponse:
    """docs.ntfy.sh/publish: publish as JSON, to the server's root."""
    body = _parse_json(got)
    if got.headers.get("authorization") != f"Bearer {ACCESS}":
        return _json_response(403, code=40301, http=403, error="forbidden")
    known = {
        "topic", "message", "title", "tags", "priority", "actions", "click", "attach", "markdown", "icon", "filename",
        "delay", "email", "call",
    }  # fmt: skip
    good = got.path == "/" and set(body) <= known and re.fullmatch("[-_A-Za-z0-9]{1,64}", body["topic"])
    good = good and body.get("priority", 3) in range(1, 6) and not body.get("markdown")
    good = good and re.match("https?://", body.get("click", "http://")) and isinstance(body.get("title", ""), str)
    if not good or len(body["message"].encode()) > 4096:
        return _json_response(400, code=40024, http=400, error="invalid request: request body must be message JSON")
    return _json_response(200, id="sPs71M8A2T", event="message", topic=body["topic"], message=body["message"])


def _slack(got: ReceivedCall) -> ReceiverResponse:
    """docs.slack.dev: incoming webhooks; `&`, `<` and `>` as entities alone, for nobody is called."""
    if got.path != SLACK:
        return ReceiverResponse(404, b"no_service")
    body, known = (
        _parse_json(got),
        {"text", "blocks", "attachments", "thread_ts", "mrkdwn", "unfurl_links", "unfurl_media"},
    )
    text = body.get("text", "")
    plain = not re.search("[<>]|&(?!amp;|lt;|gt;)", text) and body["mrkdwn"] is False
    return (
        ReceiverResponse(200, b"ok")
        if set(body) <= known and text and plain
        else ReceiverResponse(400, b"invalid_payload")
    )


def _discord(got: ReceivedCall) -> ReceiverResponse:
    """docs.discord.com: execute webhook; 204 unless it is asked to wait."""
    if got.path != DISCORD:
        return _json_response(404, message="Unknown Webhook", code=10015)
    body = _parse_json(got)
    known = {"content", "username", "avatar_url", "tts", "embeds", "allowed_mentions", "components", "flags"}
    good = set(body) <= known and 1 <= len(body["content"]) <= 2000 and body["allowed_mentions"] == {"parse": []}
    return ReceiverResponse(204) if good else _json_response(400, code=50006, message="Cannot send an empty message")


def _telegram(got: ReceivedCall) -> ReceiverResponse:
    """core.telegram.org/bots/api: sendMessage, as JSON."""
    if got.path != f"/bot{TOKEN}/sendMessage":
        return _json_response(401, ok=False, error_code=401, description="Unauthorized")
    body = _parse_json(got)
    known = {"chat_id", "text", "link_preview_options", "disable_notification", "protect_content"}
    if not set(body) <= known or not 1 <= len(body["text"]) <= 4096 or body["chat_id"] != "-1001234567890":
        return _json_response(400, ok=False, error_code=400, description="Bad Request: chat not found")
    return _json_response(200, ok=True, result={"message_id": 7, "date": 1, "chat": {"id": -1001234567890}})


CHATS: dict[str, ChatChannel] = {
    "ntfy": ChatChannel(
        lambda origin: {"kind": "ntfy", "url": origin, "topic": TOPIC, "token": ACCESS},
        _ntfy,
        lambda got: f"{_parse_json(got)['title']}\n{_parse_json(got)['message']}\n{_parse_json(got)['click']}",
        (TOPIC, ACCESS),
    ),
    "slack": ChatChannel(
        lambda origin: {"kind": "slack", "url": origin + SLACK},
        _slack,
        lambda got: str(_parse_json(got)["text"]),
        (SLACK,),
    ),
    "discord": ChatChannel(
        lambda origin: {"kind": "discord", "url": origin + DISCORD},
        _discord,
        lambda got: re.sub(r"\\(.)", r"\1", _parse_json(got)["content"]),
        (DISCORD,),
    ),
    "telegram": ChatChannel(
        lambda origin: {"kind": "telegram", "botToken": TOKEN, "chatId": "-1001234567890"},
        _telegram,
        lambda got: str(_parse_json(got)["text"]),
        (TOKEN,),
    ),
}


def add_channel(person: Person, to: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A channel of somebody's, as it is answered."""
    answer = person.api.post(CHANNELS, json={"to": to, **fields})
    assert answer.status_code == 201, answer.text
    body: dict[str, Any] = answer.json()
    return body


def received_texts(kind: str, sink: WebhookReceiver) -> list[str]:
    """The words of everything that came."""
    return [CHATS[kind].text(got) for got in list(sink.got)]


PUT = "com.atproto.repo.putRecord"


def refuse_channel(world: RequestCast, person: Person | None = None, error: str = "status:400") -> str:
    """The id of a post that its platform refuses, or (`status:503`) cannot take."""
    who, faults = person or world.alice, world.server.lab.lab.faults
    faults.add([{"fault": error, "operation": PUT}])
    with world.server.hurried():  # to the end of its tries
        result = who.api.publish({"targets": [{"accountId": who.bluesky}], "text": "hello"}).json()["results"][0]
    faults.clear()
    assert result["status"] in ("rejected", "failed"), result
    return str(result["postId"])


def notice_rows(server: AppServer) -> list[dict[str, Any]]:
    return sorted(server.rows(Notification), key=lambda row: row["number"])


def wait_for_notices(server: AppServer, *states: str) -> list[dict[str, Any]]:
    """The rows, once each is in one of these states; a time that somebody waits for comes at once."""
    while True:
        found = notice_rows(server)
        if all(row["status"] in (states or ("succeeded", "failed")) for row in found):
            return found
        later = [row["next_attempt_at"] - server.clock.now_ms() for row in found if row["status"] == "pending"]
        if later and min(later) > 0:
            server.skip(min(later) / 1000)
        sleep_briefly()
