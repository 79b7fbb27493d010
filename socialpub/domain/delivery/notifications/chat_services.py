"""Chat and push services: JSON payloads in which user names cannot be commands or mentions.

Upstream documentation: ntfy at docs.ntfy.sh/publish (publish as JSON), Slack at docs.slack.dev (incoming webhooks,
formatting text), Discord at docs.discord.com (execute webhook), Telegram at core.telegram.org/bots/api (sendMessage).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from socialpub.base import http as outbound
from socialpub.base.http import retry_after
from socialpub.base.json_codec import dumps
from socialpub.base.observability import redaction
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.delivery.attempts import RESPONSE_BYTES_MAX, RETRY_AFTER_MAX, CallResult, classify_response
from socialpub.domain.delivery.notifications.message_texts import Message

Secret = Mapping[str, Any]
NTFY_MAX = 4096  # bytes; longer messages become a file
SLACK_MAX = 4000
DISCORD_MAX = 2000
TELEGRAM_MAX = 4096
NO_EMBEDS = 1 << 2  # Discord's flag SUPPRESS_EMBEDS
HIGH_PRIORITY, DEFAULT_PRIORITY = 4, 3  # ntfy's priorities


@dataclass(frozen=True)
class ChatRequest:
    """HTTP call with its payload. `guarded`: the URL was chosen by a user."""

    url: str
    body: Mapping[str, Any]
    hidden: tuple[str, ...]
    """Secrets to redact from the response."""
    headers: Mapping[str, str]
    guarded: bool = True


def send(service: AppContext, request: ChatRequest) -> CallResult:
    """Send a request and return its result. Raises ApiError without a response."""
    runtime = service.runtime
    policy = runtime.webhook_policy if request.guarded else runtime.http_policy(guarded=False)
    with runtime.open_http(policy) as http:
        reply = http.request(
            "POST",
            request.url,
            headers={"Content-Type": "application/json", **request.headers},
            content=dumps(request.body).encode("utf-8", "replace"),
            timeout=runtime.settings.webhooks.timeout,
            extensions={"max_bytes": RESPONSE_BYTES_MAX},
        )
    end = classify_response(reply)
    shown = redaction.remove_secrets(end.response or "", request.hidden)
    busy = reply.status_code in (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)
    return replace(
        end, response=shown, final=end.final and not busy, wait=_read_retry_delay(reply) if busy else end.wait
    )


def _read_retry_delay(reply: outbound.UpstreamResponse) -> int:
    """Return the requested delay in seconds: from the header or (Discord, Telegram) the JSON."""
    said = reply.record()
    inside = said.get("parameters") if isinstance(said.get("parameters"), dict) else said
    delay = inside.get("retry_after") if isinstance(inside, dict) else None
    is_number = isinstance(delay, int | float) and not isinstance(delay, bool)
    seconds = retry_after.parse_seconds(str(delay), reply.server_ms) if is_number else reply.retry_after
    return min(seconds + 1, RETRY_AFTER_MAX) if seconds else 0


# --- Payloads ------------------------------------------------------------------------------------------------------


def build_ntfy(service: AppContext, secret: Secret, message: Message) -> ChatRequest:
    """Build a plain text message with title, priority and click target."""
    topic, token = secret["topic"], secret.get("token")
    body = {
        "topic": topic,
        "title": message.title,
        "message": _fit(message.text, NTFY_MAX, str, lambda text: len(text.encode("utf-8", "replace"))),
        "priority": HIGH_PRIORITY if message.urgent else DEFAULT_PRIORITY,
        "click": message.links[0],
    }
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    hidden = (token, topic) if token else (topic,)
    return ChatRequest(secret["url"].rstrip("/") + "/", body, hidden, headers)


def build_slack(service: AppContext, secret: Secret, message: Message) -> ChatRequest:
    """Build Slack text without markup; escapes `&`, `<`, `>`: `<!channel>` would notify all."""
    links = "\n".join(_escape_slack(link) for link in message.links)
    text = _fit(
        f"{message.title}\n{message.text}", SLACK_MAX - len(links), lambda text: _escape_slack(_defuse_mentions(text))
    )
    body = {"text": f"{text}\n{links}", "mrkdwn": False, "unfurl_links": False, "unfurl_media": False}
    return ChatRequest(secret["url"], body, _list_secret_parts(secret["url"]), {})


def build_discord(service: AppContext, secret: Secret, message: Message) -> ChatRequest:
    """Build Discord text with escaped markup, no mentions and no previews."""
    links = "\n".join(f"<{link}>" for link in message.links)
    room = DISCORD_MAX - len(links) - 1
    text = _fit(f"{message.title}\n{message.text}", room, lambda text: _escape_discord(_defuse_mentions(text)))
    body = {"content": f"{text}\n{links}", "allowed_mentions": {"parse": []}, "flags": NO_EMBEDS}
    return ChatRequest(secret["url"], body, _list_secret_parts(secret["url"]), {})


def build_telegram(service: AppContext, secret: Secret, message: Message) -> ChatRequest:
    """Build plain Telegram text: without a parse mode there is no markup."""
    links = "\n".join(message.links)
    text = _fit(f"{message.title}\n{message.text}", TELEGRAM_MAX - len(links) - 1, _defuse_mentions)
    token = secret["botToken"]
    body = {"chat_id": secret["chatId"], "text": f"{text}\n{links}", "link_preview_options": {"is_disabled": True}}
    api = service.runtime.settings.notifications.telegram_api
    return ChatRequest(f"{api}/bot{token}/sendMessage", body, (token, token.partition(":")[2]), {}, guarded=False)


BUILDERS: dict[str, Callable[[AppContext, Secret, Message], ChatRequest]] = {
    "ntfy": build_ntfy,
    "slack": build_slack,
    "discord": build_discord,
    "telegram": build_telegram,
}


# --- Text ----------------------------------------------------------------------------------------------------------

_DISCORD_MARKUP = re.compile(r"([\\*_~`|>#\[\]()<:-])")


def _defuse_mentions(text: str) -> str:
    """Defuse mentions with a zero-width space after each `@`."""
    return text.replace("@", "@\u200b")


def _escape_slack(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _escape_discord(text: str) -> str:
    return _DISCORD_MARKUP.sub(r"\\\1", text)


def _fit(text: str, most: int, escape: Callable[[str], str], measure: Callable[[str], int] = len) -> str:
    """Escape a text, shortened so that the result fits."""
    while measure(escape(text)) > most:
        text = text[: len(text) * 9 // 10]
    return escape(text)


def _list_secret_parts(url: str) -> tuple[str, ...]:
    """Return the secret parts of a URL: its path, and each segment."""
    path = urlsplit(url).path
    return (path, *path.split("/"))
