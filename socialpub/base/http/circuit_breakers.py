"""Circuit breakers: stop calling an upstream that does not respond.

There is one breaker per platform or host. A closed breaker lets every call through. After FAILURES_TO_OPEN calls in a
row without a response it opens: one thread at a time probes, with growing waits. A response closes it, and the number
of concurrent calls then grows from one.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import httpx

from socialpub.base.errors import ApiError

log = logging.getLogger("socialpub.upstream")

FAILURES_TO_OPEN = 5  # calls in a row without a response
FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 5.0, 60.0
PROBE_SECONDS = 600.0  # after that another thread may probe: the first one may have died
CALL_LIMIT_MAX = 64  # concurrent calls from which on there is no limit


@dataclass
class _CircuitState:
    failures: int = 0
    since: float | None = None  # when it opened; None: closed
    wait: float = FIRST_WAIT_SECONDS
    next_try: float = 0.0
    probe_thread: int | None = None  # the id of the probing thread
    call_limit: int | None = None  # concurrent calls allowed after it closed; None: no limit


@dataclass(frozen=True)
class OpenCircuit:
    """An upstream that does not respond, and for how many seconds."""

    name: str
    seconds: float


class CircuitBreakers:
    """The breakers of this process, by the names of their upstreams.

    `monotonic` is their clock.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic, self._lock = monotonic, threading.Lock()
        self._breakers: dict[str, _CircuitState] = {}

    def may_call(self, name: str) -> bool:
        """Return whether the calling thread may call this upstream now.

        If the breaker is open, True makes this thread the one that probes.
        """
        with self._lock:
            breaker = self._breakers.get(name)
            if breaker is None or breaker.since is None:
                return True
            thread, now = threading.get_ident(), self._monotonic()
            if breaker.probe_thread != thread:
                if now < breaker.next_try:
                    return False
                breaker.probe_thread, breaker.next_try = thread, now + PROBE_SECONDS
            return True

    def answered(self, name: str) -> None:
        """Record a response with any status."""
        with self._lock:
            breaker = self._breakers.get(name)
            if breaker is None:
                return
            if breaker.since is not None:
                log.warning("%s responds again after %d s; its waiting posts continue", name, self._open_for(breaker))
                self._breakers[name] = _CircuitState(call_limit=1)
            elif breaker.call_limit is not None and breaker.call_limit < CALL_LIMIT_MAX:
                breaker.failures, breaker.call_limit = 0, breaker.call_limit + 1
            else:
                del self._breakers[name]

    def unanswered(self, name: str) -> None:
        """Record a call without a response: no connection, or none in time."""
        with self._lock:
            breaker = self._breakers.setdefault(name, _CircuitState())
            breaker.failures += 1
            if breaker.since is None:
                if breaker.failures >= FAILURES_TO_OPEN or breaker.call_limit == 1:
                    self._open(name, breaker)
            elif breaker.probe_thread == threading.get_ident():
                breaker.wait = min(breaker.wait * 2, LONGEST_WAIT_SECONDS)
                breaker.probe_thread, breaker.next_try = None, self._monotonic() + breaker.wait

    def gave_up(self, name: str) -> None:
        """End the probe of the calling thread without a result, so that another thread may probe."""
        with self._lock:
            breaker = self._breakers.get(name)
            if breaker and breaker.probe_thread == threading.get_ident():
                breaker.probe_thread, breaker.next_try = None, self._monotonic()

    def now(self) -> float:
        """Return the time of the breakers' clock, in seconds."""
        return self._monotonic()

    def capacity(self, name: str) -> int | None:
        """Return the number of concurrent calls allowed to an upstream; None for no limit."""
        with self._lock:
            breaker = self._breakers.get(name)
            if breaker is None:
                return None
            if breaker.since is None:
                return breaker.call_limit
            return 1 if self._monotonic() >= breaker.next_try else 0

    def get_limits(self) -> dict[str, int]:
        """Return the limited upstreams and the number of concurrent calls allowed to each."""
        with self._lock:
            names = list(self._breakers)
        limits = {name: self.capacity(name) for name in names}
        return {name: limit for name, limit in limits.items() if limit is not None}

    def open(self) -> list[OpenCircuit]:
        """Return the upstreams that do not respond, by name."""
        with self._lock:
            return [
                OpenCircuit(name, self._open_for(breaker))
                for name, breaker in sorted(self._breakers.items())
                if breaker.since is not None
            ]

    def next_try(self) -> float | None:
        """Return the seconds until an upstream may be probed; None if no breaker is open."""
        with self._lock:
            opened = [breaker.next_try for breaker in self._breakers.values() if breaker.since is not None]
            return max(0.0, min(opened) - self._monotonic()) if opened else None

    def get_wait(self, name: str) -> float:
        """Return the seconds until this upstream may be called; 0 if it may be now."""
        with self._lock:
            breaker = self._breakers.get(name)
            if breaker is None or breaker.since is None:
                return 0.0
            left = breaker.next_try - self._monotonic()
            # A probe ends sooner than its limit.
            return max(0.0, left if breaker.probe_thread is None else min(left, breaker.wait))

    def _open(self, name: str, breaker: _CircuitState) -> None:
        now = self._monotonic()
        breaker.since, breaker.wait, breaker.call_limit = now, FIRST_WAIT_SECONDS, None
        breaker.next_try = now + FIRST_WAIT_SECONDS
        log.error("%s has not responded to %d calls in a row; its posts wait until it does", name, breaker.failures)

    def _open_for(self, breaker: _CircuitState) -> float:
        return self._monotonic() - (self._monotonic() if breaker.since is None else breaker.since)


@dataclass
class BreakerTransport(httpx.BaseTransport):
    """Calls one upstream as its breaker allows, and reports the outcome of each call to it.

    `only` is the URL of the server that the breaker is for; "" is any. `held_back` returns the error of a call that is
    not made, from the seconds to wait. `observe` gets the seconds that each call took, its body included.
    """

    inner: httpx.BaseTransport
    breakers: CircuitBreakers
    name: str
    only: str
    held_back: Callable[[float], ApiError]
    observe: Callable[[float], object]

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if self.only and request.url.netloc != _parse_netloc(self.only):
            return self.inner.handle_request(request)
        if not self.breakers.may_call(self.name):
            raise self.held_back(self.breakers.get_wait(self.name))
        call = _WatchedCall(self, self.breakers.now())
        try:
            response = self.inner.handle_request(request)
            assert isinstance(response.stream, httpx.SyncByteStream), "nothing here is asynchronous"
        except BaseException as error:
            call.end(error)
            raise
        response.stream = _WatchedBody(call, response.stream)
        return response


@dataclass
class _WatchedCall:
    """One call of a BreakerTransport, until its body was read."""

    transport: BreakerTransport
    started: float
    is_over: bool = False

    def end(self, error: BaseException | None = None, *, answered: bool = False) -> None:
        """Report to the breaker how the call ended, once.

        `answered`: the head of a response had arrived.
        """
        if self.is_over:
            return
        self.is_over, breakers, name = True, self.transport.breakers, self.transport.name
        self.transport.observe(breakers.now() - self.started)
        if isinstance(error, httpx.TimeoutException) or (not answered and isinstance(error, _NO_RESPONSE_ERRORS)):
            breakers.unanswered(name)  # a body that never ends holds a slot as long as no response
        elif answered or (isinstance(error, httpx.TransportError) and not isinstance(error, httpx.UnsupportedProtocol)):
            breakers.answered(name)
        else:
            breakers.gave_up(name)  # the error says nothing about the upstream


_NO_RESPONSE_ERRORS = (httpx.TimeoutException, httpx.NetworkError, httpx.RemoteProtocolError)


@dataclass
class _WatchedBody(httpx.SyncByteStream):
    call: _WatchedCall
    inner: httpx.SyncByteStream

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self.inner
        except httpx.TransportError as error:
            self.call.end(error, answered=True)
            raise

    def close(self) -> None:
        self.inner.close()
        self.call.end(answered=True)


def _parse_netloc(url: str) -> bytes:
    try:
        return httpx.URL(url).netloc
    except httpx.InvalidURL:
        return b""
