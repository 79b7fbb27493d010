"""The transport of outbound calls: httpcore's connections with a pool of idle ones.

httpcore's own pool scans every connection at each call, and can close one that it has just handed out
(encode/httpcore#1110). Here a call takes a connection out of the pool and returns it after a complete response, never
after an error. Servers close idle connections at any time, so a connection is checked before use, and a call that must
not be repeated takes only one used a moment ago. If a connection dies all the same, only a call without side effects is
repeated.
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

IDLE_SECONDS = 30.0  # after that an idle connection is closed
FRESH_SECONDS = 2.0  # after that only for calls that may be repeated (gunicorn's keep-alive is 2 s)
IDLE_MAX = 256
DISTRUST_SECONDS = 600.0  # how long an origin is distrusted after a pooled connection died
_PORTS = {"http": 80, "https": 443}
_SAFE_METHODS = ("GET", "HEAD")
_STALE_CONNECTION_ERRORS = (httpcore.RemoteProtocolError, httpcore.ReadError, httpcore.WriteError)

OriginKey = tuple[ConnectionPolicy, str, str, int]
"""The policy, scheme, host and port of a connection."""


@dataclass(eq=False)
class _PooledConnection:
    """A connection to an origin, whose address was checked by the policy when it was opened."""

    key: OriginKey
    http: httpcore.HTTPConnection
    deadline: CallDeadline
    stream: DeadlineStream | None = None
    idle_since: float = 0.0
    ends_at: float = float("inf")

    @property
    def is_reusable(self) -> bool:
        """True if the connection can be used for another call, by what is known here."""
        stream = self.stream
        if stream is None or stream.is_broken or stream.has_surplus:
            return False
        return self.http.is_idle() and time.monotonic() < self.ends_at

    @property
    def is_usable(self) -> bool:
        """True if it is reusable, and the server has neither sent anything since nor closed it."""
        return self.is_reusable and not self.http.has_expired()


@dataclass
class _ConnectionPool:
    """The idle connections of this process, in the order of their last use."""

    _idle: list[_PooledConnection] = field(default_factory=list)
    _distrusted: dict[OriginKey, float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, key: OriginKey, *, is_safe: bool) -> _PooledConnection | None:
        """Take a usable connection out of the pool; None if a new one has to be opened.

        `is_safe`: the call has no side effects.
        """
        while (connection := self._take_idle(key, IDLE_SECONDS if is_safe else FRESH_SECONDS, is_safe)) is not None:
            if connection.is_usable:
                return connection
            connection.http.close()
        return None

    def _take_idle(self, key: OriginKey, seconds: float, is_safe: bool) -> _PooledConnection | None:
        now = time.monotonic()
        with self._lock:
            if not is_safe and self._distrusted and self._distrusted.get(key, 0.0) > now:
                return None
            connection = next((each for each in reversed(self._idle) if each.key == key), None)
            if connection is None or connection.idle_since < now - seconds:
                return None
            self._idle.remove(connection)
            return connection

    def put(self, connection: _PooledConnection) -> None:
        """Return a connection to the pool after its response was read, or close it."""
        if not connection.is_reusable:
            connection.http.close()
            return
        connection.idle_since = time.monotonic()
        with self._lock:
            self._idle.append(connection)
            surplus = self._idle[:-IDLE_MAX]
            del self._idle[:-IDLE_MAX]
        _close_all(surplus)

    def distrust(self, key: OriginKey) -> None:
        """Record that a pooled connection to this origin died before a response."""
        now = time.monotonic()
        with self._lock:
            self._distrusted = {each: until for each, until in self._distrusted.items() if until > now} | {
                key: now + DISTRUST_SECONDS
            }

    def close_idle(self, seconds: float) -> None:
        """Close connections that have been idle for longer."""
        oldest = time.monotonic() - seconds
        with self._lock:
            surplus = [each for each in self._idle if each.idle_since <= oldest]
            self._idle = [each for each in self._idle if each.idle_since > oldest]
        _close_all(surplus)


def _close_all(connections: list[_PooledConnection]) -> None:
    for each in connections:
        each.http.close()


_pool = _ConnectionPool()


def close_idle(seconds: float = IDLE_SECONDS) -> None:
    """Close every connection that has been idle for `seconds`."""
    _pool.close_idle(seconds)


_ssl_context: ssl.SSLContext | None = None
_ssl_lock = threading.Lock()


def get_ssl_context() -> ssl.SSLContext:
    """Return the shared TLS context: loading the certificates takes 25 ms."""
    global _ssl_context
    if _ssl_context is None:
        with _ssl_lock:
            if _ssl_context is None:
                _ssl_context = httpx.create_ssl_context(trust_env=False)
    return _ssl_context


class HttpTransport(httpx.BaseTransport):
    """Makes calls as a policy allows; thread-safe.

    Raise httpx's exceptions, and PrivateAddressError. The `read` timeout of a request is the deadline of the whole
    call, from the name look-up to the end of the body.
    """

    def __init__(self, policy: ConnectionPolicy) -> None:
        self._policy = policy

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        ends_at = time.monotonic() + request.extensions["timeout"]["read"]
        with _convert_errors():
            return self._send(request, self._key(request.url), ends_at)

    def _key(self, url: httpx.URL) -> OriginKey:
        if url.scheme not in _PORTS:
            raise httpx.UnsupportedProtocol(f"{url.scheme} is not called")
        return self._policy, url.scheme, url.raw_host.decode("ascii"), url.port or _PORTS[url.scheme]

    def _send(self, request: httpx.Request, key: OriginKey, ends_at: float) -> httpx.Response:
        is_safe = request.method in _SAFE_METHODS
        pooled = _pool.take(key, is_safe=is_safe)
        if pooled is None:
            return _send_over(_make_connection(key, ends_at), request, ends_at)
        try:
            return _send_over(pooled, request, ends_at)
        except _STALE_CONNECTION_ERRORS:
            _pool.distrust(key)
            if not is_safe:
                raise
        return _send_over(_make_connection(key, ends_at), request, ends_at)


def _make_connection(key: OriginKey, ends_at: float) -> _PooledConnection:
    """Return a connection that its first request opens."""
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
    converted = UpstreamResponse(
        response.status, response.headers, stream=_ResponseBody(connection, response), extensions=request.extensions
    )
    length, chunked = converted.headers.get("content-length"), "transfer-encoding" in converted.headers
    stream.start_body(None if length is None or chunked else int(length), chunked=chunked)
    connection.ends_at = _parse_keep_alive(converted.headers)
    return converted


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
    """Yield the content; raise LocalProtocolError if its length is wrong.

    httpcore does not pass on h11's error.
    """
    left = length
    for piece in content:
        left -= len(piece)
        if left < 0:
            break
        yield piece
    if left:
        raise httpcore.LocalProtocolError("the content does not have the announced length")


@dataclass
class _ResponseBody(httpx.SyncByteStream):
    """The body of a response.

    Closing it returns the connection to the pool, or closes that if the rest was not read.
    """

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
    """Return when the server will close the connection, by Keep-Alive, a second early.

    In monotonic seconds; infinity without the header.
    """
    keep_alive = headers.get("keep-alive")
    seconds = re.search(r"timeout=(\d{1,6})", keep_alive) if keep_alive else None
    return time.monotonic() + int(seconds[1]) - 1 if seconds else float("inf")
