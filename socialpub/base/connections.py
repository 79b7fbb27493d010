"""Connections that stay open between calls, each used by one call at a time.

httpcore's pool is none for many threads: it looks through every connection at each call, and can close one that it has
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
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import httpcore

from socialpub.base.http1 import Answer, Connection, Origin, Request
from socialpub.base.sockets import CONNECT_SECONDS, Backend, Deadline, Policy

IDLE_SECONDS = 30.0  # idle for longer, a connection is closed
FRESH_SECONDS = 2.0  # idle for longer, it is for calls only that may be made twice (gunicorn closes after as much)
IDLE_MAX = 256
SHY_SECONDS = 600.0  # for so long an origin is not trusted whose connection died before it answered
_HARMLESS = ("GET", "HEAD")
_STALE = (httpcore.RemoteProtocolError, httpcore.ReadError, httpcore.WriteError)

Key = tuple[Policy, Origin]


@dataclass(eq=False)
class _Kept:
    """A connection to an origin, whose address was checked by the policy when it was made."""

    key: Key
    http: Connection
    deadline: Deadline
    idle_since: float = 0.0
    ends_at: float = float("inf")

    @property
    def may_be_kept(self) -> bool:
        """Whether nothing that is known here speaks against another call."""
        return self.http.is_idle and not self.deadline.broken and time.monotonic() < self.ends_at

    @property
    def is_usable(self) -> bool:
        """The same, and the other side has said nothing meanwhile, and not hung up."""
        return self.may_be_kept and not self.http.stream.get_extra_info("is_readable")


@dataclass
class _IdleConnections:
    """The idle connections of this process, the one used last at the end."""

    _idle: list[_Kept] = field(default_factory=list)
    _shy: dict[Key, float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, key: Key, *, harmless: bool) -> _Kept | None:
        """A usable connection, for the caller alone; None when a new one has to be made."""
        while (found := self._taken(key, IDLE_SECONDS if harmless else FRESH_SECONDS, harmless)) is not None:
            if found.is_usable:
                return found
            found.http.close()
        return None

    def _taken(self, key: Key, seconds: float, harmless: bool) -> _Kept | None:
        now = time.monotonic()
        with self._lock:
            if not harmless and self._shy and self._shy.get(key, 0.0) > now:
                return None
            found = next((each for each in reversed(self._idle) if each.key == key), None)
            if found is None or found.idle_since < now - seconds:
                return None
            self._idle.remove(found)
            return found

    def put(self, connection: _Kept) -> None:
        """Keep a connection whose answer has been read, or close it."""
        if not connection.may_be_kept:
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


def _close(connections: list[_Kept]) -> None:
    for each in connections:
        each.http.close()


_idle = _IdleConnections()


def close_idle(seconds: float = IDLE_SECONDS) -> None:
    """Close every connection that has not been used for so long."""
    _idle.close_idle(seconds)


Tls = Callable[[], ssl.SSLContext]
"""What a connection is secured with; asked where one is made: reading the certificates takes its time."""


def ask(policy: Policy, tls: Tls, request: Request, ends_at: float) -> Reading:
    """The beginning of an answer, over a kept connection or a new one; httpcore's exceptions, and PrivateAddressError.

    `ends_at`: when the whole call must be over, on the monotonic clock.
    """
    key, harmless = (policy, request.origin), request.method in _HARMLESS
    kept = _idle.take(key, harmless=harmless)
    if kept is None:
        return _over(_made(key, tls, ends_at), request, ends_at)
    try:
        return _over(kept, request, ends_at)
    except _STALE:
        _idle.doubt(key)
        if not harmless:
            raise
    return _over(_made(key, tls, ends_at), request, ends_at)


def _made(key: Key, tls: Tls, ends_at: float) -> _Kept:
    (policy, (scheme, host, port)), deadline = key, Deadline(ends_at)
    stream = Backend(policy, deadline).connect_tcp(host, port, CONNECT_SECONDS)
    if scheme == "https":
        stream = stream.start_tls(tls(), host, CONNECT_SECONDS)
    return _Kept(key, Connection(stream), deadline)


def _over(connection: _Kept, request: Request, ends_at: float) -> Reading:
    connection.deadline.at = ends_at
    try:
        answer = connection.http.ask(request)
    except BaseException:
        connection.http.close()
        raise
    connection.ends_at = _ends_at(answer)
    return Reading(connection, answer)


@dataclass(eq=False)
class Reading:
    """An answer that is being read; closing it gives the connection back, or closes that when the rest was not read."""

    connection: _Kept
    answer: Answer

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.answer)

    def close(self) -> None:
        self.answer.close()
        _idle.put(self.connection)


def _ends_at(answer: Answer) -> float:
    """When the other side will close the connection, as far as it says so, a second early."""
    said = answer.headers.get("keep-alive")
    seconds = re.search(r"timeout=(\d{1,6})", said) if said else None
    return time.monotonic() + int(seconds[1]) - 1 if seconds else float("inf")
