"""Which upstream does not answer, and when it is asked again: one breaker for each platform or host.

Closed, it lets everything through. After several calls in a row without any answer it opens: one caller at a time
tries, at growing distances. An answer closes it, and what had waited goes on slowly at first.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import httpx

from socialpub.base.errors import ApiError

log = logging.getLogger("socialpub.upstream")

FAILURES_TO_OPEN = 5  # calls in a row without an answer
FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 5.0, 60.0
PROBE_SECONDS = 600.0  # a try that has not ended by then (a thread died) keeps nobody else from trying
WIDTH_MAX = 64  # that many at once is no longer slowly


@dataclass
class _CircuitState:
    failures: int = 0
    since: float | None = None  # open since then; None: closed
    wait: float = FIRST_WAIT_SECONDS
    next_try: float = 0.0
    trying: int | None = None  # the thread that tries
    width: int | None = None  # how much may run at once after it has closed; None: as much as there is


@dataclass(frozen=True)
class OpenCircuit:
    """An upstream that does not answer, and for how many seconds it has not."""

    name: str
    seconds: float


class CircuitBreakers:
    """The breakers of one process, by the names of their upstreams. `monotonic`: the clock that they go by."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic, self._lock = monotonic, threading.Lock()
        self._breakers: dict[str, _CircuitState] = {}

    def may_call(self, name: str) -> bool:
        """Whether the calling thread may ask this upstream now; where it is open, the thread is then the one to try."""
        with self._lock:
            breaker = self._breakers.get(name)
            if breaker is None or breaker.since is None:
                return True
            me, now = threading.get_ident(), self._monotonic()
            if breaker.trying != me:
                if now < breaker.next_try:
                    return False
                breaker.trying, breaker.next_try = me, now + PROBE_SECONDS
            return True

    def answered(self, name: str) -> None:
        """It said something, whatever it was."""
        with self._lock:
            breaker = self._breakers.get(name)
            if breaker is None:
                return
            if breaker.since is not None:
                log.warning("%s answers again after %d s; what waited goes on", name, self._open_for(breaker))
                self._breakers[name] = _CircuitState(width=1)
            elif breaker.width is not None and breaker.width < WIDTH_MAX:
                breaker.failures, breaker.width = 0, breaker.width + 1
            else:
                del self._breakers[name]

    def unanswered(self, name: str) -> None:
        """A call got no answer: no connection, or none within its time."""
        with self._lock:
            breaker = self._breakers.setdefault(name, _CircuitState())
            breaker.failures += 1
            if breaker.since is None:
                if breaker.failures >= FAILURES_TO_OPEN or breaker.width == 1:
                    self._open(name, breaker)
            elif breaker.trying == threading.get_ident():
                breaker.wait = min(breaker.wait * 2, LONGEST_WAIT_SECONDS)
                breaker.trying, breaker.next_try = None, self._monotonic() + breaker.wait

    def gave_up(self, name: str) -> None:
        """The calling thread tries no more, and knows nothing: somebody else may."""
        with self._lock:
            breaker = self._breakers.get(name)
            if breaker and breaker.trying == threading.get_ident():
                breaker.trying, breaker.next_try = None, self._monotonic()

    def now(self) -> float:
        """The time of the clock that they go by, in seconds."""
        return self._monotonic()

    def capacity(self, name: str) -> int | None:
        """How much may be at work with it at once; None for as much as there is."""
        with self._lock:
            breaker = self._breakers.get(name)
            if breaker is None:
                return None
            if breaker.since is None:
                return breaker.width
            return 1 if self._monotonic() >= breaker.next_try else 0

    def narrow(self) -> dict[str, int]:
        """The upstreams that take less than usual, and how much they take at once."""
        with self._lock:
            names = list(self._breakers)
        found = {name: self.capacity(name) for name in names}
        return {name: most for name, most in found.items() if most is not None}

    def open(self) -> list[OpenCircuit]:
        """The upstreams that do not answer, by name."""
        with self._lock:
            return [
                OpenCircuit(name, self._open_for(breaker))
                for name, breaker in sorted(self._breakers.items())
                if breaker.since is not None
            ]

    def next_try(self) -> float | None:
        """The seconds until one of them may be tried; None when none is open."""
        with self._lock:
            opened = [breaker.next_try for breaker in self._breakers.values() if breaker.since is not None]
            return max(0.0, min(opened) - self._monotonic()) if opened else None

    def wait_of(self, name: str) -> float:
        """The seconds after which to come again to this one; 0 when it may be asked."""
        with self._lock:
            breaker = self._breakers.get(name)
            if breaker is None or breaker.since is None:
                return 0.0
            left = breaker.next_try - self._monotonic()
            return max(0.0, left if breaker.trying is None else min(left, breaker.wait))  # a try is over sooner

    def _open(self, name: str, breaker: _CircuitState) -> None:
        now = self._monotonic()
        breaker.since, breaker.wait, breaker.next_try, breaker.width = (
            now,
            FIRST_WAIT_SECONDS,
            now + FIRST_WAIT_SECONDS,
            None,
        )
        log.error("%s has not answered %d calls in a row: its posts wait until it does", name, breaker.failures)

    def _open_for(self, breaker: _CircuitState) -> float:
        return self._monotonic() - (self._monotonic() if breaker.since is None else breaker.since)


@dataclass
class BreakerTransport(httpx.BaseTransport):
    """Calls one upstream as its breaker allows, and reports the outcome of each call to it.

    `only`: the one server that is meant, by its URL; "" is any. `held_back`: the error of a call that is not made, by
    the seconds to wait. `observe`: called with the seconds that each call took, its body included.
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
            raise self.held_back(self.breakers.wait_of(self.name))
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
    began: float
    is_over: bool = False

    def end(self, error: BaseException | None = None, *, answered: bool = False) -> None:
        """Tell the breaker how the call ended, once. `answered`: the head of a response had arrived."""
        if self.is_over:
            return
        self.is_over, breakers, name = True, self.transport.breakers, self.transport.name
        self.transport.observe(breakers.now() - self.began)
        if isinstance(error, httpx.TimeoutException) or (not answered and isinstance(error, _NO_RESPONSE_ERRORS)):
            breakers.unanswered(name)  # a body that never ends holds a slot as long as no response
        elif answered or (isinstance(error, httpx.TransportError) and not isinstance(error, httpx.UnsupportedProtocol)):
            breakers.answered(name)
        else:
            breakers.gave_up(name)  # nothing is known of the upstream


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
