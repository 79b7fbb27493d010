"""Delivering: what is due of each endpoint is sent, several at once, and each answer written down once.

The rows of deliveries are the outbox: written with their events, pending until an attempt ends them. Nothing is claimed
on the disk. What is under way is known here, in the one process that owns the database, and what a crash cuts off is
still pending and goes out again under the same event id.
"""

from __future__ import annotations

import heapq
import logging
import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urlsplit

from typing_extensions import TypedDict

from socialpub.base.errors import ApiError, Outcome
from socialpub.base.fair import Share
from socialpub.domain.core.service import Service
from socialpub.domain.webhooks import endpoints, eventlog, signing
from socialpub.store import sql
from socialpub.store.db import Tx
from socialpub.store.statements import webhooks as statements

log = logging.getLogger("socialpub.webhooks")

AT_ONCE = 32  # calls to one endpoint
ANSWER_MAX = 64 * 1024
KEPT_MAX = 2 * 1024
GIVEN_UP_MS = 5 * 24 * 3600 * 1000
NAP_SECONDS = 5.0  # the longest sleep: a clock that was set, or what a command has changed, is noticed after it


class Due(NamedTuple):
    """A delivery that is to be made, with its event."""

    number: int
    id: str
    type: str
    post: str | None
    tries: int
    event: str
    organization: str
    data: str
    created_at: int
    request_id: str | None

    @property
    def envelope(self) -> bytes:
        told = eventlog.Told(self.number, self.event, self.type, self.organization, self.data, self.created_at)
        return eventlog.envelope(told).encode()


class Called(TypedDict):
    """What of an endpoint's row a call needs, in the order of `statements.ENDPOINT`."""

    id: str
    organization: str
    url: str
    secret: str
    previous_secret: str | None
    previous_until: int | None


@dataclass(frozen=True)
class Receiver:
    """An endpoint as a call needs it: its secrets in the clear."""

    id: str
    organization: str
    url: str
    secrets: list[str]

    @property
    def share(self) -> Share:
        """In whose share it is called."""
        try:
            host = urlsplit(self.url).netloc.lower()
        except ValueError:  # registered under other settings; the call will be refused
            host = ""
        return Share(host, self.organization)


@dataclass(frozen=True)
class Attempt:
    """One call and what became of it. `error` is None for a delivered one; `final`: it is not made again."""

    id: str
    started_at: int
    duration_ms: int
    status: int | None = None
    error: str | None = None
    name: str | None = None
    final: bool = False
    response: str | None = None


# --- One call ----------------------------------------------------------------------------------------------------


def receiver(service: Service, endpoint: str) -> Receiver | None:
    """An endpoint that is active; None for any other."""
    row = sql.first(statements.ENDPOINT, (endpoint,))
    if row is None:
        return None
    return receiver_of(service, sql.row(Called, row))


def receiver_of(service: Service, row: Called) -> Receiver:
    """An endpoint's row with its secrets in the clear."""
    secrets = [endpoints.open_secret(service, row["id"], row["secret"])]
    if row["previous_secret"] is not None and (row["previous_until"] or 0) > service.now_ms:
        secrets.append(endpoints.open_secret(service, row["id"], row["previous_secret"]))
    return Receiver(row["id"], row["organization"], row["url"], secrets)


def call(service: Service, to: Receiver, body: bytes, event: str, type_: str, request: str | None) -> Attempt:
    """Send one event, now; what came of it. It never raises."""
    runtime, settings = service.runtime, service.runtime.settings.webhooks
    delivery, began, clock = runtime.ids.prefixed("dlv_"), service.now_ms, runtime.clock.monotonic()
    headers = signing.headers(
        settings.header_prefix,
        to.secrets,
        body,
        event=event,
        type_=type_,
        delivery=delivery,
        request=request,
        at_seconds=began // 1000,
    )

    def ended(status: int | None, error: str | None, name: str | None, final: bool, response: str | None) -> Attempt:
        took = int((runtime.clock.monotonic() - clock) * 1000)
        return Attempt(delivery, began, took, status, error, name, final, response)

    try:
        with runtime.open_http(runtime.webhook_policy) as http:
            reply = http.request(
                "POST", to.url, headers=headers, content=body, deadline=settings.timeout, max_bytes=ANSWER_MAX
            )
    except ApiError as error:
        return ended(None, *_explained(error), None)
    except Exception:  # noqa: BLE001 - a bug in a call must not stop the others
        log.exception("a delivery to endpoint %s stopped", to.id)
        return ended(None, "The call stopped with an error of this server.", "internal", False, None)
    kept = reply.content[:KEPT_MAX].decode("utf-8", "replace")
    if reply.ok:
        return ended(reply.status, None, None, True, kept)
    name = f"http_{reply.status // 100}xx"
    return ended(reply.status, f"It answered {reply.status}.", name, reply.status < 500, kept)


def _explained(error: ApiError) -> tuple[str, str, bool]:
    """In words that tell nothing of what is behind the address; the word for it; whether it is final."""
    if error.rule == "media.url.disallowed":
        return "Its address is one where events are not sent.", "address", True
    if error.outcome == Outcome.NOT_SENT:
        return "It could not be reached.", "unreachable", False
    if error.unanswered:
        return "It did not answer in time, or hung up.", "timeout", False
    return "It was called, but its answer was lost or too large.", "answer_lost", False


# --- All of them -------------------------------------------------------------------------------------------------


class Deliverer:
    """Takes what is due of each endpoint that was rung, or whose time has come, and has it called by the pool.

    `held_back`: whether nothing may leave now.
    """

    def __init__(self, service: Service, held_back: Callable[[], bool]) -> None:
        self._service, self._held_back = service, held_back
        self._changed = threading.Condition()
        self._rung: set[str] = set()
        self._timers: list[tuple[int, str]] = []  # (due, endpoint)
        self._next: dict[str, int] = {}  # the soonest of them, by endpoint
        self._more: set[str] = set()  # endpoints that have more due than could be begun
        self._behind: set[str] = set()  # endpoints where something waits for another event of its post
        self._calls: dict[str, set[int]] = defaultdict(set)  # under way, by endpoint: numbers of deliveries
        self._posts: set[tuple[str, str]] = set()  # (endpoint, post) of those under way
        self._ended: set[int] = set()  # since the look that is under way began: it may have seen them pending
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="deliverer", daemon=True)

    def start(self) -> None:
        self._service.ring_endpoints = self.ring
        self._thread.start()

    def ring(self, rung: list[str]) -> None:
        """Something is due for these endpoints."""
        with self._changed:
            self._rung.update(rung)
            self._changed.notify()

    def stop(self, seconds: float) -> None:
        """Begin no more calls, and wait for those under way; what is cut off goes out after the next start."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
            self._changed.wait_for(lambda: not self._calls, seconds)
        self._thread.join(1.0)

    def _run(self) -> None:
        self._look_at_all()
        while not self._stopping:
            try:
                for endpoint in self._wanted():
                    self._take(endpoint)
            except ApiError as error:  # nothing can be read now
                log.warning("deliveries wait: %s", error.message)
                with self._changed:
                    self._changed.wait(NAP_SECONDS)
                self._look_at_all()
            except Exception:  # noqa: BLE001 - the thread must live on
                log.exception("deliveries stopped for a moment")
                with self._changed:
                    self._changed.wait(NAP_SECONDS)

    def _look_at_all(self) -> None:
        try:
            found = self._service.read(lambda: sql.every(statements.NEXT)).result()
        except ApiError as error:
            log.warning("deliveries wait: %s", error.message)
            return
        with self._changed:
            for endpoint, due in found:
                self._time(endpoint, due)

    def _time(self, endpoint: str, due: int) -> None:
        if due < self._next.get(endpoint, due + 1):
            self._next[endpoint] = due
            heapq.heappush(self._timers, (due, endpoint))

    def _wanted(self) -> list[str]:
        """Wait for endpoints that something is due for."""
        with self._changed:
            now = self._service.now_ms
            soonest = (self._timers[0][0] - now) / 1000 if self._timers else NAP_SECONDS
            if not self._rung and soonest > 0:
                self._changed.wait(min(soonest, NAP_SECONDS))
            if self._stopping or self._held_back():
                if not self._stopping:
                    self._changed.wait(NAP_SECONDS)
                return []
            now = self._service.now_ms
            while self._timers and self._timers[0][0] <= now:
                due, endpoint = heapq.heappop(self._timers)
                self._rung.add(endpoint)
                if self._next.get(endpoint) == due:
                    del self._next[endpoint]
            full = {endpoint for endpoint in self._rung if len(self._calls.get(endpoint, ())) >= AT_ONCE}
            rung = list(self._rung - full)
            self._more |= full  # looked at again once half of their calls have ended
            self._rung.clear()
            return rung

    def _take(self, endpoint: str) -> None:
        service, now = self._service, self._service.now_ms
        with self._changed:
            most = AT_ONCE + len(self._calls.get(endpoint, ()))
            self._ended.clear()

        def look() -> tuple[Receiver | None, list[Due], int | None]:
            to = receiver(service, endpoint)
            if to is None:
                return None, [], None
            due = [Due(*row) for row in sql.every(statements.DUE, (endpoint, now, most))]
            return to, due, sql.value(statements.NEXT_OF, (endpoint, now))

        to, due, next_at = service.read(look).result()
        with self._changed:
            if next_at is not None:
                self._time(endpoint, next_at)
            self._more.discard(endpoint)
            self._behind.discard(endpoint)
            chosen = [each for each in due if self._enter(endpoint, each)] if to is not None else []
            if len(due) == most:
                self._more.add(endpoint)
        for each in chosen:
            self._begin(to, each)

    def _enter(self, endpoint: str, due: Due) -> bool:
        """Whether a delivery may begin: not one that is under way or was, nor one behind another of its post."""
        calls = self._calls[endpoint]
        if due.number in calls or due.number in self._ended:
            return False
        if self._stopping or len(calls) >= AT_ONCE:
            self._more.add(endpoint)
            return False
        if due.post is not None:
            if (endpoint, due.post) in self._posts:
                self._behind.add(endpoint)
                return False
            self._posts.add((endpoint, due.post))
        calls.add(due.number)
        return True

    def _begin(self, to: Receiver | None, due: Due) -> None:
        assert to is not None, "nothing is chosen for an endpoint that is not there"
        try:
            self._service.delivering.submit_for(to.share, self._deliver, to, due)
        except RuntimeError:  # the pool is closed: the server stops
            self._end(to.id, due, None)

    def _deliver(self, to: Receiver, due: Due) -> None:
        again_at = None
        try:
            attempt = call(self._service, to, due.envelope, due.event, due.type, due.request_id)
            again_at = self._service.write(lambda tx: record(self._service, tx, to, due, attempt)).result()
        except ApiError as error:  # it could not be written: it is still pending, and goes out again
            log.warning("the end of delivery %s could not be written: %s", due.id, error.message)
            again_at = self._service.now_ms + int(NAP_SECONDS * 1000)
        except Exception:  # noqa: BLE001 - nobody reads the pool's answer
            log.exception("the end of delivery %s could not be written", due.id)
            again_at = self._service.now_ms + int(NAP_SECONDS * 1000)
        finally:
            self._end(to.id, due, again_at)

    def _end(self, endpoint: str, due: Due, again_at: int | None) -> None:
        with self._changed:
            calls = self._calls[endpoint]
            calls.discard(due.number)
            self._ended.add(due.number)
            if due.post is not None:
                self._posts.discard((endpoint, due.post))
            if again_at is not None:
                self._time(endpoint, again_at)
            if endpoint in self._behind or (endpoint in self._more and len(calls) <= AT_ONCE // 2):
                self._rung.add(endpoint)
            if not calls:
                del self._calls[endpoint]
            self._changed.notify_all()


def record(service: Service, tx: Tx, to: Receiver, due: Due, attempt: Attempt) -> int | None:
    """Write down what became of a call: the delivery's state, the attempt, and what the endpoint shows of it.

    When it is made again; None when it is not.
    """
    now, waits = service.now_ms, service.runtime.settings.webhooks.waits
    delivered, next_at = attempt.error is None, None
    if not delivered and not attempt.final and due.tries < len(waits):
        jitter = 1 + int.from_bytes(service.runtime.entropy(2), "big") / 0xFFFF / 10
        next_at = now + int(waits[due.tries] * 1000 * jitter)
    status = "succeeded" if delivered else "failed" if next_at is None else "pending"
    sql.change(statements.ENDED, (status, next_at, attempt.status, attempt.error, now, due.number))
    told = (attempt.duration_ms, attempt.status, attempt.error, attempt.response)
    sql.change(statements.ATTEMPT, (attempt.id, due.number, attempt.started_at, *told))
    if delivered:
        sql.change(statements.DELIVERED, (now, to.id))
        return None
    active = sql.value(statements.FAILED, (attempt.error, now, now - GIVEN_UP_MS, to.id))
    if active == 0:
        log.warning("webhook endpoint %s is switched off: every delivery has failed for 5 days", to.id)
    return next_at
