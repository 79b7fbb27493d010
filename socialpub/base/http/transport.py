"""The transport of every outbound call: httpx above, httpcore's connections below, idle ones kept between calls.

httpcore's own pool is not for many threads: it looks through every connection at each call, and can close one that it
has just handed out (encode/httpcore#1110). Here a call takes a connection out and puts it back after a whole response,
never after an error. A server closes what is idle whenever it likes, so a connection is looked at before it is used,
and a call that must not be made twice takes only one that was used a moment ago; when one dies all the same, only a
call that changes nothing is made again.
"""

from __future__ import annotations

import re
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpcore
import httpx

from socialpub.base.http.network import CONNECT_SECONDS, CallDeadline, ConnectionPolicy, DeadlineStream, PolicyBackend
from socialpub.base.http.response import UpstreamResponse

IDLE_SECONDS = 30.0  # idle for longer, a connection is closed
FRESH_SECONDS = 2.0  # idle for longer, it is for calls only that may be made twice (gunicorn closes after as much)
IDLE_MAX = 256
DISTRUST_SECONDS = 600.0  # for so long an origin is not trusted whose connection died before it answered
_PORTS = {"http": 80, "https": 443}
_SAFE_METHODS = ("GET", "HEAD")
_STALE_CONNECTION_ERRORS = (httpcore.RemoteProtocolError, httpcore.ReadError, httpcore.WriteError)

OriginKey = tuple[ConnectionPolicy, str, str, int]
"""A policy, and the scheme, host and port of an origin."""


@dataclass(eq=False)
class _PooledConnection:
    """A connection to an origin, whose address was checked by the policy when it was made."""

    key: OriginKey
    http: httpcore.HTTPConnection
    deadline: CallDeadline
    stream: DeadlineStream | None = None
    idle_since: float = 0.0
    ends_at: float = float("inf")

    @property
    def may_be_kept(self) -> bool:
        """Whether nothing that is known here speaks against another call."""
        stream = self.stream
        if stream is None or stream.is_broken or stream.has_surplus:
            return False
        return self.http.is_idle() and time.monotonic() < self.ends_at

    @property
    def is_usable(self) -> bool:
        """Whether it may be kept, and the other side has neither sent anything meanwhile nor hung up."""
        return self.may_be_kept and not self.http.has_expired()


@dataclass
class _ConnectionPool:
    """The idle connections of this process, the one used last at the end."""

    _idle: list[_PooledConnection] = field(default_factory=list)
    _shy: dict[OriginKey, float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, key: OriginKey, *, harmless: bool) -> _PooledConnection | None:
        """A usable connection, for the caller alone; None when a new one has to be made."""
        while (found := self._taken(key, IDLE_SECONDS if harmless else FRESH_SECONDS, harmless)) is not None:
            if found.is_usable:
                return found
            found.http.close()
        return None

    def _taken(self, key: OriginKey, seconds: float, harmless: bool) -> _PooledConnection | None:
        now = time.monotonic()
        with self._lock:
            if not harmless and self._shy and self._shy.get(key, 0.0) > now:
                return None
            found = next((each for each in reversed(self._idle) if each.key == key), None)
            if found is None or found.idle_since < now - seconds:
                return None
            self._idle.remove(found)
            return found

    def put(self, connection: _PooledConnection) -> None:
        """Keep a connection whose response has been read, or close it."""
        if not connection.may_be_kept:
            connection.http.close()
            return
        connection.idle_since = time.monotonic()
        with self._lock:
            self._idle.append(connection)
            over = self._idle[:-IDLE_MAX]
            del self._idle[:-IDLE_MAX]
        _close_all(over)

    def doubt(self, key: OriginKey) -> None:
        """Note that a connection to there died before it answered."""
        now = time.monotonic()
        with self._lock:
            self._shy = {each: until for each, until in self._shy.items() if until > now} | {
                key: now + DISTRUST_SECONDS
            }

    def close_idle(self, seconds: float) -> None:
        """Close what has been idle for longer."""
        oldest = time.monotonic() - seconds
        with self._lock:
            over = [each for each in self._idle if each.idle_since <= oldest]
            self._idle = [each for each in self._idle if each.idle_since > oldest]
        _close_all(over)


def _close_all(connections: list[_PooledConnection]) -> None:
    for each in connections:
        each.http.close()


_pool = _ConnectionPool()


def close_idle(seconds: float = IDLE_SECONDS) -> None:
    """Close every connection that has not been used for so long."""
    _pool.close_idle(seconds)


_ssl_context: ssl.SSLContext | None = None
_ssl_lock = threading.Lock()


def get_ssl_context() -> ssl.SSLContext:
    """The context of every connection: loading the certificates takes 25 ms."""
    global _ssl_context
    if _ssl_context is None:
        with _ssl_lock:
            if _ssl_context is None:
                _ssl_context = httpx.create_ssl_context(trust_env=False)
    return _ssl_context


class HttpTransport(httpx.BaseTransport):
    """Calls by a policy; may be used by many threads. Raises httpx's exceptions, and PrivateAddressError.

    The `read` timeout of a request is the deadline of the whole call, from looking up the name to the end of the body.
    """

    def __init__(self, policy: ConnectionPolicy) -> None:
        self._policy = policy

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        ends_at = time.monotonic() + request.extensions["timeout"]["read"]
        with _convert_errors():
            return self._sent(request, self._key(request.url), ends_at)

    def _key(self, url: httpx.URL) -> OriginKey:
        if url.scheme not in _PORTS:
            raise httpx.UnsupportedProtocol(f"{url.scheme} is not called")
        return self._policy, url.scheme, url.raw_host.decode("ascii"), url.port or _PORTS[url.scheme]

    def _sent(self, request: httpx.Request, key: OriginKey, ends_at: float) -> httpx.Response:
        harmless = request.method in _SAFE_METHODS
        kept = _pool.take(key, harmless=harmless)
        if kept is None:
            return _send_over(_make_connection(key, ends_at), request, ends_at)
        try:
            return _send_over(kept, request, ends_at)
        except _STALE_CONNECTION_ERRORS:
            _pool.doubt(key)
            if not harmless:
                raise
        return _send_over(_make_connection(key, ends_at), request, ends_at)


def _make_connection(key: OriginKey, ends_at: float) -> _PooledConnection:
    """A connection that is opened by its first request."""
    policy, scheme, host, port = key
    deadline = CallDeadline(ends_at)
    http = httpcore.HTTPConnection(
        httpcore.Origin(scheme.encode(), host.encode(), port),
        ssl_context=get_ssl_context() if scheme == "https" else None,
        network_backend=PolicyBackend(policy, deadline),
    )
    return _PooledConnection(key, http, deadline)


def _send_over(connection: _PooledConnection, request: httpx.Request, ends_at: float) -> httpx.Response:
    connection.deadline.at = ends_at
    try:
        response = connection.http.handle_request(_build_request(connection.key, request))
        connection.stream = stream = response.extensions["network_stream"]
        if not stream.has_head:
            raise httpcore.RemoteProtocolError("the response was there before the request")
    except BaseException:
        connection.http.close()
        raise
    made = UpstreamResponse(
        response.status, response.headers, stream=_ResponseBody(connection, response), extensions=request.extensions
    )
    length, chunked = made.headers.get("content-length"), "transfer-encoding" in made.headers
    stream.begin_body(None if length is None or chunked else int(length), chunked=chunked)
    connection.ends_at = _parse_keep_alive(made.headers)
    return made


def _build_request(key: OriginKey, request: httpx.Request) -> httpcore.Request:
    _, scheme, host, port = key
    assert isinstance(request.stream, Iterable), "nothing here is asynchronous"
    length = request.headers.get("content-length")
    return httpcore.Request(
        request.method,
        httpcore.URL(scheme=scheme, host=host, port=port, target=request.url.raw_path),
        headers=request.headers.raw,
        content=request.stream if length is None else _check_length(request.stream, int(length)),
        extensions={"timeout": {"connect": CONNECT_SECONDS}},
    )


def _check_length(content: Iterable[bytes], length: int) -> Iterator[bytes]:
    """The content of a request; LocalProtocolError where it is not as long as was said (httpcore lets h11's pass)."""
    left = length
    for piece in content:
        left -= len(piece)
        if left < 0:
            break
        yield piece
    if left:
        raise httpcore.LocalProtocolError("the content is not as long as was said")


@dataclass
class _ResponseBody(httpx.SyncByteStream):
    """The body of a response. Closing it keeps the connection, or closes that when the rest was not read."""

    connection: _PooledConnection
    response: httpcore.Response
    is_closed: bool = False

    def __iter__(self) -> Iterator[bytes]:
        stream = self.connection.stream
        with _convert_errors():
            for piece in self.response.iter_stream():
                if stream is not None:
                    stream.count_content(len(piece))
                yield piece

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self.response.close()
            _pool.put(self.connection)


@contextmanager
def _convert_errors() -> Iterator[None]:
    """Raise httpcore's exceptions as those of httpx, which have the same names."""
    try:
        yield
    except _HTTPCORE_ERRORS as error:
        kind: Callable[[str], Exception] = getattr(httpx, type(error).__name__)
        raise kind(str(error)) from error


_HTTPCORE_ERRORS = (
    httpcore.TimeoutException,
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.UnsupportedProtocol,
)


def _parse_keep_alive(headers: httpx.Headers) -> float:
    """When the other side will close the connection, as far as it says so, a second early."""
    said = headers.get("keep-alive")
    seconds = re.search(r"timeout=(\d{1,6})", said) if said else None
    return time.monotonic() + int(seconds[1]) - 1 if seconds else float("inf")
