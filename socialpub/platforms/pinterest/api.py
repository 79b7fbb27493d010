"""Calls of Pinterest's API v5, errors by REPLIES, lists page by page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from socialpub.base.errors import ApiError, Outcome
from socialpub.base.http import UpstreamResponse, retry_after
from socialpub.platforms.contract import Json, Upstream, Verdict, classify, find_name
from socialpub.platforms.kit.api_errors import ErrorFactory, redact_response, to_records, to_text
from socialpub.platforms.pinterest.declaration import PHRASES, PLATFORM, REPLIES, STEPS

_RESET_MAX = 86_400
_ERRORS = ErrorFactory(PLATFORM, REPLIES, STEPS)
build_rule_error, build_unusable_error = _ERRORS.build_violation, _ERRORS.build_unusable


def send_request(up: Upstream, method: Literal["GET", "POST"], path: str, **sent: Any) -> UpstreamResponse:
    """Send a request; `path` is below the version."""
    headers = {"Authorization": f"Bearer {up.tokens.access}"} | dict(sent.pop("headers", {}))
    url = f"{up.site.api_base}/{PLATFORM.pinned(up.site)}/{path}"
    return up.http.request(method, url, headers=headers, **sent)


def call(
    up: Upstream, step: str, method: Literal["GET", "POST"], path: str, *, mutating: bool = False, **sent: Any
) -> UpstreamResponse:
    """Call and return the 2xx response. Raises others as REPLIES classifies them."""
    reply = send_request(up, method, path, **sent)
    if not reply.is_success:
        raise build_error(up, step, reply, mutating=mutating)
    if method == "GET" and reply.lacks_record:
        raise build_unusable_error(up, step, reply)
    return reply


def list_pages(
    up: Upstream, step: str, path: str, params: Mapping[str, str], limit: int
) -> Iterator[list[Json] | None]:
    """Yield the items of a list by page; None at the end if there are more than `limit`."""
    mark = ""
    for _ in range(limit):
        reply = call(up, step, "GET", path, params={**params, **({"bookmark": mark} if mark else {})})
        items = reply.record().get("items")
        if not isinstance(items, list):
            raise build_unusable_error(up, step, reply)
        yield to_records(items)
        mark = to_text(reply.record().get("bookmark"))
        if not mark:
            return
    yield None


# --- Errors --------------------------------------------------------------------------------------------------------


def find_error_name(step: str, reply: UpstreamResponse) -> str | None:
    """Return the error's name in REPLIES at this step: by its text, else by its code."""
    body = reply.record()
    words = f"{body.get('message', '')} {body.get('message_detail', '')}".lower()
    names = [name for name, pieces in PHRASES.items() if any(piece in words for piece in pieces)]
    return find_name(REPLIES, step, reply.status_code, [*names, to_text(body.get("code"))])


def build_error(up: Upstream, step: str, reply: UpstreamResponse, *, mutating: bool = False) -> ApiError:
    """Build the error of an unsuccessful response, with secrets redacted."""
    verdict = classify(REPLIES, step, reply.status_code, find_error_name(step, reply), mutating=mutating)
    shown = redact_response(up, reply)
    body = shown.record()
    said = to_text(body.get("message_detail")) or to_text(body.get("message"))
    error = _ERRORS.build_reported(up, step, verdict, shown, said)
    error.retry_after = error.retry_after or _reset_seconds(reply, verdict)
    return error


def _reset_seconds(reply: UpstreamResponse, verdict: Verdict) -> int | None:
    """Return the seconds until calls are accepted, from Pinterest's own header."""
    wait = retry_after.parse_seconds(reply.headers.get("x-ratelimit-reset", ""), reply.server_ms) or 0
    return wait if verdict.outcome is Outcome.THROTTLED and 0 < wait <= _RESET_MAX else None
