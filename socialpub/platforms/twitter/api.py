"""Calls of X's API v2: its two formats of problems, and the response table.

Sources: docs.x.com/x-api/fundamentals/response-codes-and-errors and /rate-limits, and the OpenAPI description 2.167.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from socialpub.base.errors import ApiError, Outcome
from socialpub.base.http import UpstreamResponse, retry_after
from socialpub.platforms.contract import NO_BODY, UNNAMED, Json, Replies, Upstream, Verdict, classify, find_name
from socialpub.platforms.kit.api_errors import ErrorFactory, redact_response, to_id, to_record, to_records
from socialpub.platforms.twitter.declaration import PLATFORM

Method = Literal["GET", "POST"]
Step = Literal["upload", "append", "finalize", "status", "metadata", "send", "settle", "identify"]

_WORDS: Mapping[str, str] = {
    "upload": "accept the media",
    "append": "accept a part of the media",
    "finalize": "assemble the media",
    "status": "report the progress of the media",
    "metadata": "accept the alt text",
    "send": "publish the post",
    "settle": "list the posts",
    "identify": "identify the account",
}


# --- Classification ----------------------------------------------------------------------------------------------


def _rule(suffix: str, code: str = "platform_rejected") -> Verdict:
    return Verdict(Outcome.REJECTED, code, f"twitter.{suffix}")


def _auth(remediation: str) -> Verdict:
    return Verdict(Outcome.REJECTED, "platform_auth_failed", remediation=remediation)


_CREDITS = _rule("credits.exhausted", "platform_unavailable")
_NOT_ENROLLED = _rule("app.not_enrolled", "platform_unavailable")
_SUSPENDED = _rule("account.suspended", "platform_auth_failed")
_LOCKED = _auth("Sign in on x.com and do what it asks there, then reconnect the account.")
_REFUSED = Verdict(Outcome.REJECTED, remediation="Check the text, its mentions, and the account on x.com.")

REPLIES: Replies = {
    ("*", 401, None): Verdict(
        Outcome.REJECTED, "platform_auth_failed", remediation="Reconnect the account.", stale_token=True
    ),
    # X checks its limits before it executes a call.
    ("*", 429, None): Verdict(Outcome.THROTTLED, "platform_unavailable"),
    ("*", 402, None): _CREDITS,
    **{("*", status, "usage-capped"): _CREDITS for status in (403, 429)},
    ("*", 403, "unsupported-authentication"): _auth("Reconnect the account."),
    ("*", 403, "client-forbidden"): _NOT_ENROLLED,
    ("*", 403, "suspended"): _SUSPENDED,
    ("*", 401, "suspended"): _SUSPENDED,
    ("*", 403, "locked"): _LOCKED,
    ("*", 401, "locked"): _LOCKED,
    # The id is only in the body: the post is looked up in the account's own list.
    ("send", 200, NO_BODY): UNNAMED,
    ("send", 403, "duplicate"): replace(_rule("post.duplicate"), duplicate=True),
    ("send", 403, "reply"): _rule("reply.not_allowed"),
    ("send", 403, "unseen"): _rule("reply.not_allowed"),
    # A piece of a thread: X does not show the one before it yet.
    ("send", 403, "unseen/piece"): Verdict(Outcome.NOT_SENT, "platform_unavailable", remediation="Retry the post."),
    ("send", 403, "quoting"): _rule("quote.not_allowed"),
    **{("*", status, "video_length"): _rule("video.too_long") for status in (400, 403)},
    **{("send", status, "text_length"): _rule("text.max_graphemes") for status in (400, 403)},
    **{("send", status, "cashtag"): _rule("text.cashtag_max") for status in (400, 403)},
    # The uploads have expired.
    ("send", 400, "media_gone"): Verdict(Outcome.NOT_SENT, "platform_unavailable", prepare_again=True),
    # Only X's own texts; proxies may send these statuses too.
    **{("*", status, "said"): _REFUSED for status in (400, 403, 404)},
}

_ERRORS = ErrorFactory(PLATFORM, REPLIES, _WORDS)
build_rule_error, build_unusable_error = _ERRORS.build_violation, _ERRORS.build_unusable
_RETRY_NEVER = frozenset({"twitter.credits.exhausted", "twitter.app.not_enrolled"})
_PHRASES: tuple[tuple[str, str], ...] = (
    ("duplicate content", "duplicate"),
    ("reply to this conversation", "reply"),
    ("mentioned or otherwise engaged", "reply"),
    ("deleted or not visible", "unseen"),
    ("video longer than", "video_length"),
    ("text is too long", "text_length"),
    ("exceeds maximum length", "text_length"),
    ("cashtag", "cashtag"),
    ("media ids are invalid", "media_gone"),
    ("your account is suspended", "suspended"),
    ("user-suspended", "suspended"),
    ("temporarily locked", "locked"),
)
_SAID_FIELDS = ("title", "detail", "message", "reason", "error_description")


@dataclass(frozen=True)
class TwitterFault:
    """Problem reported by X, at the top level or in `errors`."""

    message: str = ""
    names: tuple[str, ...] = ()  # names in REPLIES, most specific first


def parse_fault(reply: UpstreamResponse) -> TwitterFault:
    """Parse the problem of a response; without names if there is none."""
    layers = list(_layers(reply.record()))
    words = "\n".join(str(layer.get(key) or "") for layer in layers for key in _SAID_FIELDS).lower()
    kinds = [str(layer.get("type") or "").rpartition("/")[2] for layer in layers]
    words += "\n" + "\n".join(kinds)
    found = [name for phrase, name in _PHRASES if phrase in words]
    said = ["said"] if words.strip() else []
    return TwitterFault(_message(layers), tuple(dict.fromkeys([*found, *filter(None, kinds), *said])))


def _layers(body: Json) -> Iterator[Json]:
    """Yield the inner problems, which are more specific, then the outer one."""
    yield from (*to_records(body.get("errors")), body)


def _message(layers: Iterable[Json]) -> str:
    texts = (layer.get(key) for layer in layers for key in ("message", "detail", "error_description", "title"))
    return next((text for text in texts if isinstance(text, str) and text), "")[:300]


# --- Calls ---------------------------------------------------------------------------------------------------------


def call(
    up: Upstream,
    step: Step,
    method: Method,
    path: str,
    *,
    mutating: bool = False,
    also: str | None = None,
    headers: Mapping[str, str] | None = None,
    **sent: Any,
) -> UpstreamResponse:
    """Call and return the 2xx response. Raises others by REPLIES.

    `also`: further name of the problem, such as "quoting"; rows may also have it after another one ("unseen/piece").
    """
    whole = {"Authorization": f"Bearer {up.tokens.access}"} | dict(headers or {})
    reply = up.http.request(method, f"{up.site.api_base}{path}", headers=whole, **sent)
    if not reply.is_success:
        raise _build_error(up, step, reply, also, mutating=mutating)
    if method == "GET" and reply.lacks_record:
        raise build_unusable_error(up, step, reply)
    return reply


def _build_error(up: Upstream, step: Step, reply: UpstreamResponse, also: str | None, *, mutating: bool) -> ApiError:
    """Build the error of a response, with secrets redacted."""
    shown = redact_response(up, reply)
    fault = parse_fault(shown)
    found = classify(REPLIES, step, reply.status_code, _name(step, reply.status_code, fault, also), mutating=mutating)
    error = _ERRORS.build_reported(up, step, found, shown, fault.message)
    error.retry_after = error.retry_after or reset_seconds(reply)
    error.retryable = found.rule not in _RETRY_NEVER
    return error


def _name(step: Step, status: int, fault: TwitterFault, also: str | None) -> str | None:
    names = [name for name in fault.names if name != "said"]
    more = [*(f"{name}/{also}" for name in names), *names, also] if also and fault.names else names
    return find_name(REPLIES, step, status, [*more, *fault.names])


def reset_seconds(reply: UpstreamResponse) -> int | None:
    """Return the seconds until calls are accepted, by the used-up windows; None if not given."""
    windows = ("x-rate-limit", "x-app-limit-24hour", "x-user-limit-24hour")
    used_up = (name for name in windows if reply.headers.get(f"{name}-remaining") == "0")
    ends = (retry_after.parse_reset_time(reply.headers.get(f"{name}-reset", ""), reply.server_ms) for name in used_up)
    waits = [wait for wait in ends if wait is not None]
    return max(*waits, 1) if waits else None


def data_of(reply: UpstreamResponse) -> Json:
    """Return the object under `data`, or an empty one."""
    return to_record(reply.record().get("data"))


def id_of(data: Json) -> str:
    """Return an id, or empty."""
    found = to_id(data.get("id"))
    return found if isinstance(data.get("id"), str) and found.isascii() and found.isdigit() else ""
