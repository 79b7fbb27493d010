"""Chat and push services: JSON payloads in which user names cannot be commands or mentions.

Upstream documentation: ntfy at docs.ntfy.sh/publish (publish as JSON), Slack at docs.slack.dev (incoming webhooks,
formatting text), Discord at docs.discord.com (execute webhook), Telegram at core.telegram.org/bots/api (sendMessage).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from socialpub.base import http as outbound
from socialpub.base.http import retry_after
from socialpub.base.json_codec import dumps
from socialpub.base.observability import redaction
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.notifications.words import Message
from socialpub.domain.outbox.calls import KEPT_MAX, WAIT_MAX, End, answered

Secret = Mapping[str, Any]
NTFY_MAX = 4096  # bytes; longer messages become a file
SLACK_MAX = 4000
DISCORD_MAX = 2000
TELEGRAM_MAX = 4096
NO_EMBEDS = 1 << 2  # Discord's flag SUPPRESS_EMBEDS
HIGH, USUAL = 4, 3  # ntfy's priorities


@dataclass(frozen=True)
class Request:
    """HTTP call with its payload. `guarded`: the URL was chosen by a user."""

    url: str
    body: Mapping[str, Any]
    hidden: tuple[str, ...]
    """Secrets to redact from the response."""
    headers: Mapping[str, str]
    guarded: bool = True


def send(service: AppContext, asked: Request) -> End:
    """Send a request and return its result. Raises ApiError without a response."""
    runtime = service.runtime
    policy = runtime.webhook_policy if asked.guarded else runtime.http_policy(guarded=False)
    with runtime.open_http(policy) as http:
        reply = http.request(
            "POST",
            asked.url,
            headers={"Content-Type": "application/json", **asked.headers},
            content=dumps(asked.body).encode("utf-8", "replace"),
            timeout=runtime.settings.webhooks.timeout,
            extensions={"max_bytes": KEPT_MAX},
        )
    end = answered(reply)
    shown = redaction.remove_secrets(end.response or "", asked.hidden)
    busy = reply.status_code in (408, 429)
    return replace(end, response=shown, final=end.final and not busy, wait=_wait(reply) if busy else end.wait)


def _wait(reply: outbound.UpstreamResponse) -> int:
    """Return the requested delay in seconds: from the header or (Discord, Telegram) the JSON."""
    said = reply.record()
    inside = said.get("parameters") if isinstance(said.get("parameters"), dict) else said
    asked = inside.get("retry_after") if isinstance(inside, dict) else None
    is_number = isinstance(asked, int | float) and not isinstance(asked, bool)
    seconds = retry_after.parse_seconds(str(asked), reply.server_ms) if is_number else reply.retry_after
    return min(seconds + 1, WAIT_MAX) if seconds else 0


# --- Payloads ------------------------------------------------------------------------------------------------------


def ntfy(service: AppContext, secret: Secret, message: Message) -> Request:
    """Build a plain text message with title, priority and click target."""
    topic, token = secret["topic"], secret.get("token")
    body = {
        "topic": topic,
        "title": message.title,
        "message": _fitted(message.text, NTFY_MAX, str, lambda text: len(text.encode("utf-8", "replace"))),
        "priority": HIGH if message.urgent else USUAL,
        "click": message.links[0],
    }
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    hidden = (token, topic) if token else (topic,)
    return Request(secret["url"].rstrip("/") + "/", body, hidden, headers)


def slack(service: AppContext, secret: Secret, message: Message) -> Request:
    """Build Slack text without markup; escapes `&`, `<`, `>`: `<!channel>` would notify all."""
    links = "\n".join(_slack_escaped(link) for link in message.links)
    text = _fitted(f"{message.title}\n{message.text}", SLACK_MAX - len(links), lambda text: _slack_escaped(_calm(text)))
    body = {"text": f"{text}\n{links}", "mrkdwn": False, "unfurl_links": False, "unfurl_media": False}
    return Request(secret["url"], body, _path(secret["url"]), {})


def discord(service: AppContext, secret: Secret, message: Message) -> Request:
    """Build Discord text with escaped markup, no mentions and no previews."""
    links = "\n".join(f"<{link}>" for link in message.links)
    room = DISCORD_MAX - len(links) - 1
    text = _fitted(f"{message.title}\n{message.text}", room, lambda text: _discord_escaped(_calm(text)))
    body = {"content": f"{text}\n{links}", "allowed_mentions": {"parse": []}, "flags": NO_EMBEDS}
    return Request(secret["url"], body, _path(secret["url"]), {})


def telegram(service: AppContext, secret: Secret, message: Message) -> Request:
    """Build plain Telegram text: without a parse mode there is no markup."""
    links = "\n".join(message.links)
    text = _fitted(f"{message.title}\n{message.text}", TELEGRAM_MAX - len(links) - 1, _calm)
    token = secret["botToken"]
    body = {"chat_id": secret["chatId"], "text": f"{text}\n{links}", "link_preview_options": {"is_disabled": True}}
    api = service.runtime.settings.notifications.telegram_api
    return Request(f"{api}/bot{token}/sendMessage", body, (token, token.partition(":")[2]), {}, guarded=False)


FORMS: dict[str, Callable[[AppContext, Secret, Message], Request]] = {
    "ntfy": ntfy,
    "slack": slack,
    "discord": discord,
    "telegram": telegram,
}


# --- Text ----------------------------------------------------------------------------------------------------------

_DISCORD_MARKS = re.compile(r"([\\*_~`|>#\[\]()<:-])")


def _calm(text: str) -> str:
    """Defuse mentions with a zero-width space after each `@`."""
    return text.replace("@", "@\u200b")


def _slack_escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _discord_escaped(text: str) -> str:
    return _DISCORD_MARKS.sub(r"\\\1", text)


def _fitted(text: str, most: int, escape: Callable[[str], str], measure: Callable[[str], int] = len) -> str:
    """Escape a text, shortened so that the result fits."""
    while measure(escape(text)) > most:
        text = text[: len(text) * 9 // 10]
    return escape(text)


def _path(url: str) -> tuple[str, ...]:
    """Return the secret parts of a URL: its path, and each segment."""
    path = urlsplit(url).path
    return (path, *path.split("/"))
