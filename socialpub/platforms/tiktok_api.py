"""Calls of TikTok's API v2: the token in its header, success only where the envelope says `ok`, errors by REPLIES."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from socialpub.base.errors import ApiError, Outcome
from socialpub.base.net import Reply
from socialpub.platforms.base import Json, Rule, Upstream, Verdict, refusal, verdict
from socialpub.platforms.tiktok_platform import PLATFORM, REPLIES, STEPS

_WINDOW_SECONDS = 60  # of the rate limits; TikTok documents no Retry-After
_NO_HELP = frozenset({"tiktok.active_user_cap"})


def post(up: Upstream, step: str, path: str, body: Json, *, mutating: bool = False) -> Json:
    """The `data` of a call that went well; every other answer is raised as REPLIES sorts it."""
    return data_of(up, step, ask(up, "POST", path, json=body), mutating=mutating)


def ask(up: Upstream, method: str, path: str, **sent: Any) -> Reply:
    """Any answer; `path` is under the version and ends with a slash."""
    headers = {"Authorization": f"Bearer {up.tokens.access}"}
    return up.http.request(method, f"{up.site.api_base}/{PLATFORM.pinned(up.site)}/{path}", headers=headers, **sent)


def data_of(up: Upstream, step: str, reply: Reply, *, mutating: bool = False) -> Json:
    """What the envelope holds. HTTP 200 alone says nothing: the error's code has to be `ok`."""
    if not reply.ok or name_of(reply) not in ("ok", ""):
        raise refused(up, step, reply, mutating=mutating)
    data = reply.record().get("data")
    if name_of(reply) != "ok" or not isinstance(data, dict):
        raise unusable(up, step, reply, mutating=mutating)
    return data


# --- Errors --------------------------------------------------------------------------------------------------------


def name_of(reply: Reply) -> str:
    """TikTok's own name of an answer: `ok`, or its error; empty when the answer has none."""
    return text_of(_error(reply).get("code"))


def sorted_as(step: str, status: int, name: str, *, mutating: bool = False) -> Verdict:
    """What an error means at a step."""
    names = (name, "spam_risk") if name.startswith("spam_risk") else (name,)
    for known in names:
        if {(step, 400, known), ("*", 400, known)} & set(REPLIES):
            return verdict(REPLIES, step, 400, known, mutating=mutating)
    return verdict(REPLIES, step, status, None, mutating=mutating)


def refused(up: Upstream, step: str, reply: Reply, *, mutating: bool = False) -> ApiError:
    """The error of an answer that is no success, without any secret in it."""
    found = sorted_as(step, reply.status, name_of(reply), mutating=mutating)
    clean = _without_secrets(up, reply)
    said = text_of(_error(clean).get("message"))[:300] or name_of(clean) or f"it answered with status {reply.status}."
    return _worded(up, found, clean, f"TikTok did not {STEPS[step]}: {said}")


def failed(up: Upstream, reply: Reply, reason: str) -> ApiError:
    """The error of a draft that came to nothing, by TikTok's reason."""
    return _worded(up, sorted_as("failed", 400, reason), _without_secrets(up, reply), f"TikTok says: {reason[:100]}.")


def _worded(up: Upstream, found: Verdict, reply: Reply, message: str) -> ApiError:
    if found.rule:
        row = rule(found.rule)
        found = replace(found, remediation=found.remediation or row.remediation)
        message = f"{row.message} {message}"
    error = refusal(PLATFORM, PLATFORM.pinned(up.site), found, reply, message)
    if found.outcome is Outcome.THROTTLED:
        error.retry_after = error.retry_after or _WINDOW_SECONDS
    error.retryable = error.retryable and found.rule not in _NO_HELP
    return error


def unusable(up: Upstream, step: str, reply: Reply, *, mutating: bool = False) -> ApiError:
    """The error of a 2xx answer that does not hold what it must."""
    return ApiError(
        "platform_unavailable",
        f"TikTok was asked to {STEPS[step]}, but its answer could not be read.",
        platform=PLATFORM.name,
        platform_version=PLATFORM.pinned(up.site) or None,
        platform_response={"status": reply.status},
        outcome=Outcome.AMBIGUOUS if mutating else Outcome.NOT_SENT,
    )


def ruled(up: Upstream, suffix: str, outcome: Outcome, found: str = "", said: Any = None) -> ApiError:
    """The error of a row that something else than an error answer broke."""
    row = rule(f"tiktok.{suffix}")
    return row.error(PLATFORM.pinned(up.site), found, platform_response=said, outcome=outcome)


def rule(id: str) -> Rule:
    return next(row for row in PLATFORM.rules if row.id == id)


def text_of(value: object) -> str:
    """An id, name or code as text; empty when it is neither text nor number."""
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def _error(reply: Reply) -> Json:
    error = reply.record().get("error")
    return error if isinstance(error, dict) else {}


def _without_secrets(up: Upstream, reply: Reply) -> Reply:
    content = reply.content
    for secret in filter(None, (up.tokens.access, up.tokens.refresh, up.site.client_secret)):
        content = content.replace(secret.encode("utf-8", "surrogatepass"), b"[removed]")
    return replace(reply, content=content)
