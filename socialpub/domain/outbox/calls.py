"""Calls to receivers, with results worded so that they reveal nothing behind the address."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from socialpub.base import http as outbound
from socialpub.base.errors import ApiError, Outcome
from socialpub.base.runtime import format_iso
from socialpub.domain.context.app_context import AppContext

log = logging.getLogger("socialpub.webhooks")

KEPT_MAX = 2 * 1024  # bytes of a response body that are read and stored
WAIT_MAX = 3600  # longest honored Retry-After, in seconds
TOO_MANY = 429
GIVEN_UP_MS = 5 * 24 * 3600 * 1000


@dataclass(frozen=True)
class Attempt:
    """Call to a receiver with its result. `error` is None if delivered; `final`: no retry.

    `wait`: requested delay in seconds. `before`: previous attempt with the other signature, which this one repeats.
    """

    id: str
    started_at: int
    duration_ms: int
    status: int | None = None
    error: str | None = None
    name: str | None = None
    final: bool = False
    response: str | None = None
    wait: int = 0
    before: Attempt | None = None

    @property
    def all(self) -> list[Attempt]:
        """This attempt, after the one before it if any."""
        return [self] if self.before is None else [self.before, self]


@dataclass(frozen=True)
class End:
    """Result of a call, without times."""

    status: int | None = None
    error: str | None = None
    name: str | None = None
    final: bool = False
    response: str | None = None
    wait: int = 0


def timed(service: AppContext, delivery: str, run: Callable[[], End]) -> Attempt:
    """Run a call and time it; never raises."""
    clock = service.runtime.clock
    began, at = service.now_ms, clock.monotonic()
    try:
        end = run()
    except ApiError as error:
        end = unanswered(error)
    except Exception:  # noqa: BLE001 - a bug in a call must not stop the others
        log.exception("call %s stopped", delivery)
        end = End(error="The call failed with an error of this server.", name="internal")
    took = int((clock.monotonic() - at) * 1000)
    return Attempt(delivery, began, took, end.status, end.error, end.name, end.final, end.response, end.wait)


def tell(kind: str, id_: str, type_: str, to: str, attempt: Attempt, next_at: int | None) -> None:
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
        extra=_NAMES,
    )


_NAMES = {"names": ("kind", "delivery", "type", "receiver", "outcome", "status", "ms", "again")}


def answered(reply: outbound.UpstreamResponse) -> End:
    """Classify a response by its status, even if the body was unreadable.

    2xx is delivered; 5xx and 429 are retried, not before `Retry-After`; any other status is final.
    """
    kept = reply.content.decode("utf-8", "replace")
    if reply.is_success:
        return End(reply.status_code, response=kept)
    name, again = f"http_{reply.status_code // 100}xx", reply.status_code >= 500 or reply.status_code == TOO_MANY
    wait = min(reply.retry_after or 0, WAIT_MAX) if again else 0
    return End(reply.status_code, f"It answered {reply.status_code}.", name, not again, kept, wait)


def unanswered(error: ApiError) -> End:
    """Classify a call without a response."""
    if error.rule == "media.url.disallowed":
        return End(error="Its address is not allowed.", name="address", final=True)
    if error.outcome == Outcome.NOT_SENT:
        return End(error="It could not be reached.", name="unreachable")
    if error.unanswered:
        return End(error="It did not respond in time, or closed the connection.", name="timeout")
    return End(error="Its response is not valid HTTP.", name="answer_lost")


def again_at(service: AppContext, tries: int, attempt: Attempt) -> int | None:
    """Return when to retry after `tries` earlier tries, in epoch ms; None for no retry."""
    waits = service.runtime.settings.webhooks.waits
    if attempt.error is None or attempt.final or tries >= len(waits):
        return None
    jitter = 1 + int.from_bytes(service.runtime.entropy(2), "big") / 0xFFFF / 10
    return service.now_ms + int(max(waits[tries] * jitter, attempt.wait) * 1000)


def status_of(attempt: Attempt, next_at: int | None) -> str:
    """Return the delivery state after an attempt."""
    if attempt.error is None:
        return "succeeded"
    return "failed" if next_at is None else "pending"
