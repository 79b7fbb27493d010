"""Calls of LinkedIn's versioned API, with its headers, and errors by REPLIES."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal
from urllib.parse import quote

from socialpub.base.errors import ApiError
from socialpub.base.http import UpstreamResponse
from socialpub.platforms.contract import Json, Upstream, classify, find_name
from socialpub.platforms.kit.api_errors import ErrorFactory, redact_response, to_record, to_records, to_text
from socialpub.platforms.linkedin.declaration import PHRASES, PLATFORM, REPLIES, STEPS

Method = Literal["GET", "POST"]
_DAY = 86_400
_RETRY_NEVER = frozenset({"linkedin.version.retired"})
_ERRORS = ErrorFactory(PLATFORM, REPLIES, STEPS)
build_rule_error, build_unusable_error = _ERRORS.build_violation, _ERRORS.build_unusable
build_unavailable_error = _ERRORS.build_unavailable


def call(
    up: Upstream,
    step: str,
    method: Method,
    path: str,
    *,
    mutating: bool = False,
    headers: Mapping[str, str] | None = None,
    **sent: Any,
) -> UpstreamResponse:
    """Call `/rest` and return the 2xx response. Raises others as REPLIES classifies them."""
    versioned = {"LinkedIn-Version": PLATFORM.pinned(up.site), "X-Restli-Protocol-Version": "2.0.0"}
    url = f"{up.site.api_base}/rest/{path}"
    reply = up.http.request(method, url, headers=build_auth_header(up) | versioned | dict(headers or {}), **sent)
    if not reply.is_success:
        raise build_error(up, step, reply, mutating=mutating)
    if method == "GET" and reply.lacks_record:
        raise build_unusable_error(up, step, reply)
    return reply


def build_auth_header(up: Upstream) -> dict[str, str]:
    return {"Authorization": f"Bearer {up.tokens.access}"}


def encode_urn(urn: str) -> str:
    """Encode a URN for a path."""
    return quote(urn, safe="")


def is_page(up: Upstream) -> bool:
    """Return whether the account is an organization's page; otherwise it is a member."""
    return up.account.platform_account_id.startswith("urn:li:organization:")


# --- Errors --------------------------------------------------------------------------------------------------------


def build_error(up: Upstream, step: str, reply: UpstreamResponse, *, mutating: bool = False) -> ApiError:
    """Build the error of an unsuccessful response, with secrets redacted."""
    verdict = classify(REPLIES, step, reply.status_code, _name(up, step, reply), mutating=mutating)
    shown = redact_response(up, reply)
    error = _ERRORS.build_reported(up, step, verdict, shown, _error_text(shown))
    error.retry_after = error.retry_after or _until_midnight(reply)
    error.retryable = verdict.rule not in _RETRY_NEVER
    return error


def _name(up: Upstream, step: str, reply: UpstreamResponse) -> str | None:
    """Return the error's most specific name that has a row in REPLIES at this step."""
    return find_name(REPLIES, step, reply.status_code, _names(up, reply.record()))


def _names(up: Upstream, body: Json) -> Iterator[str]:
    words, code = to_text(body.get("message")).lower(), to_text(body.get("code"))
    yield from (name for phrase, name in PHRASES if phrase in f"{words} {code.lower()}")
    codes = [code, *(to_text(each.get("code")) for each in _inputs(body))]
    if "FIELD_LENGTH_TOO_LONG" in codes and "commentary" in f"{words} {' '.join(_paths(body))}":
        yield "too_long"
    yield from filter(None, [*codes, to_text(body.get("serviceErrorCode"))])
    if is_page(up) and "w_organization_social" in up.tokens.private.get("scopes", ("w_organization_social",)):
        yield from ("page",) if words or code else ()
    if words or code:
        yield "said"


def _inputs(body: Json) -> list[Json]:
    return to_records(to_record(body.get("errorDetails")).get("inputErrors"))


def _paths(body: Json) -> Iterator[str]:
    for each in _inputs(body):
        if path := to_text(to_record(to_record(each.get("input")).get("inputPath")).get("fieldPath")):
            yield path


def _error_text(reply: UpstreamResponse) -> str:
    body = reply.record()
    said = to_text(body.get("message"))[:300] or f"it responded with status {reply.status_code}."
    places = [path for path in _paths(body) if path not in said]
    return f"{said} ({', '.join(places)})" if places else said


def _until_midnight(reply: UpstreamResponse) -> int | None:
    """Return the seconds until the daily limit resets at midnight UTC; LinkedIn has no header."""
    if reply.status_code != 429 or " DAY limit" not in to_text(reply.record().get("message")):
        return None
    now = reply.server_ms
    return None if now is None else _DAY - now // 1000 % _DAY
