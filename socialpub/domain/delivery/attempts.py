"""Calls to receivers, with results worded so that they reveal nothing behind the address."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

from socialpub.base import http as outbound
from socialpub.base.errors import ApiError, Outcome
from socialpub.base.runtime import DAY_MS, format_iso
from socialpub.domain.context.app_context import AppContext

log = logging.getLogger("socialpub.webhooks")

RESPONSE_BYTES_MAX = 2 * 1024  # bytes of a response body that are read and stored
RETRY_AFTER_MAX = 3600  # longest honored Retry-After, in seconds
DISABLE_AFTER_MS = 5 * DAY_MS


@dataclass(frozen=True)
class CallResult:
    """Result of a call, without times. `error` is None if delivered; `final`: no retry.

    `wait`: requested delay in seconds.
    """

    status: int | None = None
    error: str | None = None
    name: str | None = None
    final: bool = False
    response: str | None = None
    wait: int = 0


@dataclass(frozen=True, kw_only=True)
class OutboundAttempt(CallResult):
    """Call to a receiver with its result.

    `previous`: previous attempt with the other signature, which this one repeats.
    """

    id: str
    started_at: int
    duration_ms: int
    previous: OutboundAttempt | None = None

    @property
    def all(self) -> list[OutboundAttempt]:
        """This attempt, after the one before it if any."""
        return [self] if self.previous is None else [self.previous, self]


def run_timed(service: AppContext, delivery: str, run: Callable[[], CallResult]) -> OutboundAttempt:
    """Run a call and time it; never raises."""
    clock = service.runtime.clock
    started_at, at = service.now_ms, clock.monotonic()
    try:
        result = run()
    except ApiError as error:
        result = classify_failure(error)
    except Exception:  # noqa: BLE001 - a bug in a call must not stop the others
        log.exception("delivery %s failed with an internal error; it is retried", delivery)
        result = CallResult(error="The call failed with an error of this server.", name="internal")
    duration_ms = int((clock.monotonic() - at) * 1000)
    return OutboundAttempt(id=delivery, started_at=started_at, duration_ms=duration_ms, **vars(result))


def log_attempt(kind: str, id_: str, type_: str, to: str, attempt: OutboundAttempt, next_at: int | None) -> None:
    """Log an attempt once its result is stored."""
    log.info(
        "%s %s of %s to %s: %s, status %s, %d ms%s",
        kind,
        id_,
        type_,
        to,
        attempt.error or "delivered",
        attempt.status,
        attempt.duration_ms,
        f", again at {format_iso(next_at)}" if next_at else "",
        extra=_LOG_FIELDS,
    )


_LOG_FIELDS = {"names": ("kind", "delivery", "type", "receiver", "outcome", "status", "ms", "again")}


def classify_response(reply: outbound.UpstreamResponse) -> CallResult:
    """Classify a response by its status, even if the body was unreadable.

    2xx is delivered; 5xx and 429 are retried, not before `Retry-After`; any other status is final.
    """
    body = reply.content.decode("utf-8", "replace")
    if reply.is_success:
        return CallResult(reply.status_code, response=body)
    name = f"http_{reply.status_code // 100}xx"
    is_retryable = reply.status_code >= 500 or reply.status_code == HTTPStatus.TOO_MANY_REQUESTS
    wait = min(reply.retry_after or 0, RETRY_AFTER_MAX) if is_retryable else 0
    return CallResult(reply.status_code, f"It answered {reply.status_code}.", name, not is_retryable, body, wait)


def classify_failure(error: ApiError) -> CallResult:
    """Classify a call without a response."""
    if error.rule == "media.url.disallowed":
        return CallResult(error="Its address is not allowed.", name="address", final=True)
    if error.outcome == Outcome.NOT_SENT:
        return CallResult(error="It could not be reached.", name="unreachable")
    if error.unanswered:
        return CallResult(error="It did not respond in time, or closed the connection.", name="timeout")
    return CallResult(error="Its response is not valid HTTP.", name="answer_lost")


def compute_retry_at(service: AppContext, tries: int, attempt: OutboundAttempt) -> int | None:
    """Return when to retry after `tries` earlier tries, in epoch ms; None for no retry."""
    waits = service.runtime.settings.webhooks.waits
    if attempt.error is None or attempt.final or tries >= len(waits):
        return None
    jitter = 1 + int.from_bytes(service.runtime.entropy(2), "big") / 0xFFFF / 10
    return service.now_ms + int(max(waits[tries] * jitter, attempt.wait) * 1000)


def get_status(attempt: OutboundAttempt, next_at: int | None) -> str:
    """Return the delivery state after an attempt."""
    if attempt.error is None:
        return "succeeded"
    return "failed" if next_at is None else "pending"
