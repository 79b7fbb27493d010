"""One call to a receiver, and what became of it in words that tell nothing of what is behind its address."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from socialpub.base import http as outbound
from socialpub.base.errors import ApiError, Outcome
from socialpub.base.runtime import iso
from socialpub.domain.core.service import Service

log = logging.getLogger("socialpub.webhooks")

KEPT_MAX = 2 * 1024  # bytes of a response body: what is kept of it, and no more is read
WAIT_MAX = 3600  # seconds that a receiver may ask to be left alone for
TOO_MANY = 429
GIVEN_UP_MS = 5 * 24 * 3600 * 1000


@dataclass(frozen=True)
class Attempt:
    """One call and what became of it. `error` is None for a delivered one; `final`: it is not made again.

    `wait`: the seconds that the receiver asks to be left alone for. `before`: an attempt that was answered just before,
    and of which this one is a repetition with the other signature.
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
        """This attempt after the one before it, if there was one."""
        return [self] if self.before is None else [self.before, self]


@dataclass(frozen=True)
class End:
    """How a call ended: an attempt without its times."""

    status: int | None = None
    error: str | None = None
    name: str | None = None
    final: bool = False
    response: str | None = None
    wait: int = 0


def timed(service: Service, delivery: str, run: Callable[[], End]) -> Attempt:
    """The attempt that a call was, made now. It never raises."""
    clock = service.runtime.clock
    began, at = service.now_ms, clock.monotonic()
    try:
        end = run()
    except ApiError as error:
        end = unanswered(error)
    except Exception:  # noqa: BLE001 - a bug in a call must not stop the others
        log.exception("call %s stopped", delivery)
        end = End(error="The call stopped with an error of this server.", name="internal")
    took = int((clock.monotonic() - at) * 1000)
    return Attempt(delivery, began, took, end.status, end.error, end.name, end.final, end.response, end.wait)


def tell(kind: str, id_: str, type_: str, to: str, attempt: Attempt, next_at: int | None) -> None:
    """The line of an attempt at what goes to the receiver `to`, once its end is written."""
    log.info(
        "%s %s of %s to %s: %s, status %s, %d ms%s",
        kind,
        id_,
        type_,
        to,
        attempt.error or "delivered",
        attempt.status,
        attempt.duration_ms,
        f", again at {iso(next_at)}" if next_at else "",
        extra=_NAMES,
    )


_NAMES = {"names": ("kind", "delivery", "type", "receiver", "outcome", "status", "ms", "again")}


def answered(reply: outbound.Reply) -> End:
    """How a call ended, by the status of the response, whether or not its body could be read.

    2xx is delivered; 5xx and 429 are tried again, no sooner than `Retry-After` says; every other status is final.
    """
    kept = reply.content.decode("utf-8", "replace")
    if reply.ok:
        return End(reply.status, response=kept)
    name, again = f"http_{reply.status // 100}xx", reply.status >= 500 or reply.status == TOO_MANY
    wait = min(reply.retry_after or 0, WAIT_MAX) if again else 0
    return End(reply.status, f"It answered {reply.status}.", name, not again, kept, wait)


def unanswered(error: ApiError) -> End:
    """By what kept the receiver from answering."""
    if error.rule == "media.url.disallowed":
        return End(error="Its address is one where events are not sent.", name="address", final=True)
    if error.outcome == Outcome.NOT_SENT:
        return End(error="It could not be reached.", name="unreachable")
    if error.unanswered:
        return End(error="It did not answer in time, or hung up.", name="timeout")
    return End(error="It was called, but what it answered is not HTTP.", name="answer_lost")


def again_at(service: Service, tries: int, attempt: Attempt) -> int | None:
    """When a call that was the next after so many tries is made again; None when it is not."""
    waits = service.runtime.settings.webhooks.waits
    if attempt.error is None or attempt.final or tries >= len(waits):
        return None
    jitter = 1 + int.from_bytes(service.runtime.entropy(2), "big") / 0xFFFF / 10
    return service.now_ms + int(max(waits[tries] * jitter, attempt.wait) * 1000)


def status_of(attempt: Attempt, next_at: int | None) -> str:
    """The state of what was sent, after an attempt."""
    if attempt.error is None:
        return "succeeded"
    return "failed" if next_at is None else "pending"
