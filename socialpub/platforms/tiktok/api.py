"""Calls of TikTok's API v2: success only if the envelope says `ok`, errors by REPLIES."""

from __future__ import annotations

from typing import Any

from socialpub.base.errors import ApiError, Outcome
from socialpub.base.http import Response
from socialpub.platforms.contract import Json, Upstream, Verdict, verdict
from socialpub.platforms.kit.refusals import Refusals, clean, text_of
from socialpub.platforms.tiktok.declaration import PLATFORM, REPLIES, STEPS

_WINDOW_SECONDS = 60  # of the rate limits; TikTok documents no Retry-After
_JSON = {"Content-Type": "application/json; charset=UTF-8"}  # with the charset, as in TikTok's documentation
_NO_HELP = frozenset({"tiktok.active_user_cap"})
_ERRORS = Refusals(PLATFORM, REPLIES, STEPS)
ruled, unusable = _ERRORS.ruled, _ERRORS.unusable


def ask(up: Upstream, method: str, path: str, **sent: Any) -> Response:
    """Send a request; `path` is below the version and ends with a slash."""
    headers = {"Authorization": f"Bearer {up.tokens.access}"} | (_JSON if "json" in sent else {})
    return up.http.request(method, f"{up.site.api_base}/{PLATFORM.pinned(up.site)}/{path}", headers=headers, **sent)


def data_of(up: Upstream, step: str, reply: Response, *, mutating: bool = False) -> Json:
    """Return the envelope's data; HTTP 200 is not enough, the error code must be `ok`."""
    if not reply.is_success or name_of(reply) not in ("ok", ""):
        raise refused(up, step, reply, mutating=mutating)
    data = reply.record().get("data")
    if name_of(reply) != "ok" or not isinstance(data, dict):
        raise unusable(up, step, reply, mutating=mutating)
    return data


# --- Errors --------------------------------------------------------------------------------------------------------


def name_of(reply: Response) -> str:
    """Return TikTok's name of a response: `ok` or its error; empty if missing."""
    return text_of(_error(reply).get("code"))


def sorted_as(step: str, status: int, name: str, *, mutating: bool = False) -> Verdict:
    """Classify an error at a step."""
    names = (name, "spam_risk") if name.startswith("spam_risk") else (name,)
    for known in names:
        if {(step, 400, known), ("*", 400, known)} & set(REPLIES):
            return verdict(REPLIES, step, 400, known, mutating=mutating)
    return verdict(REPLIES, step, status, None, mutating=mutating)


def refused(up: Upstream, step: str, reply: Response, *, mutating: bool = False) -> ApiError:
    """Build the error of an unsuccessful response, with secrets redacted."""
    # The upload store gets no token, so its authorization errors are not about the account.
    name = "" if (step, reply.status_code) == ("upload", 401) else name_of(reply)
    found = sorted_as(step, reply.status_code, name, mutating=mutating)
    shown = clean(up, reply)
    said = text_of(_error(shown).get("message")) or name_of(shown)
    return _timed(_ERRORS.told(up, step, found, shown, said))


def failed(up: Upstream, reply: Response, reason: str) -> ApiError:
    """Build the error of a failed draft, from TikTok's reason."""
    found = sorted_as("failed", 400, reason)
    return _timed(_ERRORS.worded(up, found, clean(up, reply), f"TikTok says: {reason[:100]}."))


def _timed(error: ApiError) -> ApiError:
    """Add retry information that TikTok does not give."""
    if error.outcome is Outcome.THROTTLED:
        error.retry_after = error.retry_after or _WINDOW_SECONDS
    error.retryable = error.rule not in _NO_HELP
    return error


def _error(reply: Response) -> Json:
    error = reply.record().get("error")
    return error if isinstance(error, dict) else {}
