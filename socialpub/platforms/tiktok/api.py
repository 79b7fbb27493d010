"""Calls of TikTok's API v2: success only if the envelope says `ok`, errors by REPLIES."""

from __future__ import annotations

from typing import Any

from socialpub.base.errors import ApiError, Outcome
from socialpub.base.http import UpstreamResponse
from socialpub.platforms.contract import Json, Upstream, Verdict, classify, find_name
from socialpub.platforms.kit.api_errors import ErrorFactory, redact_response, to_record, to_text
from socialpub.platforms.tiktok.declaration import PLATFORM, REPLIES, STEPS

_WINDOW_SECONDS = 60  # of the rate limits; TikTok documents no Retry-After
_JSON = {"Content-Type": "application/json; charset=UTF-8"}  # with the charset, as in TikTok's documentation
_NO_HELP = frozenset({"tiktok.active_user_cap"})
_ERRORS = ErrorFactory(PLATFORM, REPLIES, STEPS)
build_rule_error, build_unusable_error = _ERRORS.build_violation, _ERRORS.build_unusable


def send_request(up: Upstream, method: str, path: str, **sent: Any) -> UpstreamResponse:
    """Send a request; `path` is below the version and ends with a slash."""
    headers = {"Authorization": f"Bearer {up.tokens.access}"} | (_JSON if "json" in sent else {})
    return up.http.request(method, f"{up.site.api_base}/{PLATFORM.pinned(up.site)}/{path}", headers=headers, **sent)


def data_of(up: Upstream, step: str, reply: UpstreamResponse, *, mutating: bool = False) -> Json:
    """Return the envelope's data; HTTP 200 is not enough, the error code must be `ok`."""
    if not reply.is_success or find_error_name(reply) not in ("ok", ""):
        raise build_error(up, step, reply, mutating=mutating)
    data = reply.record().get("data")
    if find_error_name(reply) != "ok" or not isinstance(data, dict):
        raise build_unusable_error(up, step, reply, mutating=mutating)
    return data


# --- Errors --------------------------------------------------------------------------------------------------------


def find_error_name(reply: UpstreamResponse) -> str:
    """Return TikTok's name of a response: `ok` or its error; empty if missing."""
    return to_text(_error(reply).get("code"))


def classify_error(step: str, status: int, name: str, *, mutating: bool = False) -> Verdict:
    """Classify an error at a step."""
    names = (name, "spam_risk") if name.startswith("spam_risk") else (name,)
    known = find_name(REPLIES, step, 400, names)
    return classify(REPLIES, step, 400 if known else status, known, mutating=mutating)


def build_error(up: Upstream, step: str, reply: UpstreamResponse, *, mutating: bool = False) -> ApiError:
    """Build the error of an unsuccessful response, with secrets redacted."""
    # The upload store gets no token, so its authorization errors are not about the account.
    name = "" if (step, reply.status_code) == ("upload", 401) else find_error_name(reply)
    verdict = classify_error(step, reply.status_code, name, mutating=mutating)
    shown = redact_response(up, reply)
    said = to_text(_error(shown).get("message")) or find_error_name(shown)
    return _add_retry_info(_ERRORS.build_reported(up, step, verdict, shown, said))


def build_draft_error(up: Upstream, reply: UpstreamResponse, reason: str) -> ApiError:
    """Build the error of a failed draft, from TikTok's reason."""
    verdict = classify_error("failed", 400, reason)
    return _add_retry_info(
        _ERRORS.build_classified(up, verdict, redact_response(up, reply), f"TikTok says: {reason[:100]}.")
    )


def _add_retry_info(error: ApiError) -> ApiError:
    """Add retry information that TikTok does not give."""
    if error.outcome is Outcome.THROTTLED:
        error.retry_after = error.retry_after or _WINDOW_SECONDS
    error.retryable = error.rule not in _NO_HELP
    return error


def _error(reply: UpstreamResponse) -> Json:
    return to_record(reply.record().get("error"))
