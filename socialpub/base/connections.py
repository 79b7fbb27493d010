"""Connections that stay open between calls, each used by one call at a time.

httpx's own pool is none for many threads: it looks through every connection at each call, and can close one that it has
just handed out (encode/httpcore#1110). Here a call takes a connection out and puts it back after a whole answer, never
after an error. A server closes what is idle whenever it likes, so what is taken is looked at first, and a call that
must not be made twice takes only one that was used a moment ago; when one dies all the same, only a call that changes
nothing is made again.
"""

from __future__ import annotations

import re
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import httpcore

from socialpub.base.sockets import Backend, Deadline, Policy

IDLE_SECONDS = 30.0  # idle for longer, a connection is closed
FRESH_SECONDS = 2.0  # idle for longer, it is for calls only that may be made twice (gunicorn closes after as much)
IDLE_MAX = 256
SHY_SECONDS = 600.0  # for so long an origin is not trusted whose connection died before it answered
_HARMLESS = (b"GET", b"HEAD")
_STALE = (httpcore.RemoteProtocolError, httpcore.ReadError, httpcore.WriteError)

Key = tuple[Policy, bytes, bytes, int | None]


@dataclass(eq=False)
class _Connection:
    """One connection to an origin: its address was checked by the policy when it was made."""

    key: Key
    http: httpcore.HTTPConnection
    deadline: Deadline
    idle_since: float = 0.0
    ends_at: float = float("inf")

    @property
    def is_usable(self) -> bool:
        """Whether nothing speaks against another call: the other side has said nothing and not hung up."""
        if self.deadline.broken or time.monotonic() >= self.ends_at:
            return False
        return self.http.is_idle() and not self.http.has_expired() and not self._holds_more()

    def _holds_more(self) -> bool:
        """Whether more came than the answer: it would be taken for the next one. httpcore does not tell."""
        http11 = self.http._connection
        return not isinstance(http11, httpcore.HTTP11Connection) or bool(http11._h11_state.trailing_data[0])


@dataclass
class _IdleConnections:
    """The idle connections of this process, the one used last at the end."""

    _idle: list[_Connection] = field(default_factory=list)
    _shy: dict[Key, float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, key: Key, *, harmless: bool) -> _Connection | None:
        """A usable connection, for the caller alone; None when a new one has to be made."""
        while (found := self._taken(key, IDLE_SECONDS if harmless else FRESH_SECONDS, harmless)) is not None:
            if found.is_usable:
                return found
            found.http.close()
        return None

    def _taken(self, key: Key, seconds: float, harmless: bool) -> _Connection | None:
        now = time.monotonic()
        with self._lock:
            if not harmless and self._shy.get(key, 0.0) > now:
                return None
            found = next((each for each in reversed(self._idle) if each.key == key), None)
            if found is None or found.idle_since < now - seconds:
                return None
            self._idle.remove(found)
            return found

    def put(self, connection: _Connection) -> None:
        """Keep a connection whose answer has been read, or close it."""
        if not connection.is_usable:
            connection.http.close()
            return
        connection.idle_since = time.monotonic()
        with self._lock:
            self._idle.append(connection)
            over = self._idle[:-IDLE_MAX]
            del self._idle[:-IDLE_MAX]
        _close(over)

    def doubt(self, key: Key) -> None:
        """A connection to there died before it answered."""
        now = time.monotonic()
        with self._lock:
            self._shy = {each: until for each, until in self._shy.items() if until > now} | {key: now + SHY_SECONDS}

    def close_idle(self, seconds: float) -> None:
        """Close what has been idle for longer."""
        oldest = time.monotonic() - seconds
        with self._lock:
            over = [each for each in self._idle if each.idle_since <= oldest]
            self._idle = [each for each in self._idle if each.idle_since > oldest]
        _close(over)


def _close(connections: list[_Connection]) -> None:
    for each in connections:
        each.http.close()


_idle = _IdleConnections()


def close_idle(seconds: float = IDLE_SECONDS) -> None:
    """Close every connection that has not been used for so long."""
    _idle.close_idle(seconds)


@dataclass
class ConnectionPool:
    """What makes the calls of one client, in place of httpcore's pool. `deadline` is that of the current call."""

    policy: Policy
    tls: ssl.SSLContext
    deadline: Deadline

    def handle_request(self, request: httpcore.Request) -> httpcore.Response:
        """The beginning of an answer; httpcore's exceptions, and PrivateAddressError."""
        url, harmless = request.url, request.method in _HARMLESS
        key = (self.policy, url.scheme, url.host, url.port)
        kept = _idle.take(key, harmless=harmless)
        if kept is None:
            return self._over(self._new(key, url.origin), request)
        try:
            return self._over(kept, request)
        except _STALE:
            _idle.doubt(key)
            if not harmless:
                raise
        return self._over(self._new(key, url.origin), request)

    def close(self) -> None:
        """Nothing is this client's own: an answer that is closed has given its connection back."""

    def _new(self, key: Key, origin: httpcore.Origin) -> _Connection:
        deadline = Deadline()
        http = httpcore.HTTPConnection(origin, self.tls, network_backend=Backend(self.policy, deadline))
        return _Connection(key, http, deadline)

    def _over(self, connection: _Connection, request: httpcore.Request) -> httpcore.Response:
        connection.deadline.at = self.deadline.at
        try:
            found = connection.http.handle_request(request)
        except BaseException:
            connection.http.close()
            raise
        connection.ends_at = _ends_at(found)
        body = _Body(connection, found)
        return httpcore.Response(found.status, headers=found.headers, content=body, extensions=found.extensions)


@dataclass(eq=False)
class _Body:
    """The rest of an answer; closing it gives the connection back, or closes that when the rest was not read."""

    connection: _Connection
    response: httpcore.Response
    _is_closed: bool = False

    def __iter__(self) -> Iterator[bytes]:
        return self.response.iter_stream()

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self.response.close()
            _idle.put(self.connection)


def _ends_at(answer: httpcore.Response) -> float:
    """When the other side will close the connection, as far as it says so, a second early."""
    said = next((value for name, value in answer.headers if name.lower() == b"keep-alive"), b"")
    seconds = re.search(rb"timeout=(\d{1,6})", said)
    return time.monotonic() + int(seconds[1]) - 1 if seconds else float("inf")
