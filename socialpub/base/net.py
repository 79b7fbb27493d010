"""The one door out: every outbound HTTP call of the program goes through `Http`.

httpx puts a request together where it is more than bytes; `base.http1` writes it over what `base.connections` keeps: of
httpx's client and of httpcore's connections, which take most of the time of a call, nothing is needed. One deadline for
a whole call (httpx's timeouts are per operation), a cap on decoded bytes, no environment proxies, no cookies, no
redirects but where asked for, and for addresses that users name a guard (`base.guard`): resolve once, check every
answer, connect to the checked address. Failures become ApiError with the outcome that is known: nothing was sent, or
nobody can tell.
"""

from __future__ import annotations

import base64
import functools
import json
import ssl
import threading
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self
from urllib.parse import urlsplit

import httpcore
import httpx

from socialpub.base import compact, connections, crew, http1, tracing
from socialpub.base.connections import close_idle as close_idle
from socialpub.base.errors import ApiError, Outcome, refuse
from socialpub.base.guard import check_url as check_url
from socialpub.base.sockets import CHUNK, PrivateAddressError
from socialpub.base.sockets import Policy as Policy
from socialpub.base.sockets import Resolver as Resolver
from socialpub.base.sockets import keep_the_silent as keep_the_silent
from socialpub.base.sockets import listen as listen
from socialpub.base.sockets import resolve as resolve

CALL_SECONDS = 30.0
UPLOAD_SECONDS = 300.0
BODY_MAX = 1024 * 1024
USER_AGENT = "socialpub/0.1 (+https://github.com/socialpub/socialpub)"


@dataclass(frozen=True)
class Reply:
    """What an upstream answered, read to its end (or to the cap)."""

    status: int
    headers: Mapping[str, str]
    content: bytes
    url: str = ""

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    def json(self) -> Any:
        """The parsed body, or None when it is not JSON (proxies answer in HTML)."""
        try:
            return json.loads(self.content)
        except (ValueError, RecursionError):
            return None

    def record(self) -> dict[str, Any]:
        """The JSON object that was answered, or an empty one."""
        value = self.json()
        return value if isinstance(value, dict) else {}

    @property
    def retry_after(self) -> int | None:
        """Seconds of a Retry-After header given in seconds; None when absent or otherwise."""
        text = self.headers.get("retry-after", "").strip()
        return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


class Sink(Protocol):
    """Where a download goes: a binary file, or what counts as one."""

    def write(self, data: bytes, /) -> object: ...


class Http(Protocol):
    """A client for one thread: calls whole answers out of an upstream, or raises ApiError with an outcome."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
        json: Any = None,
        data: Mapping[str, str] | None = None,
        content: bytes | Iterable[bytes] | None = None,
        deadline: float = CALL_SECONDS,
        max_bytes: int = BODY_MAX,
    ) -> Reply: ...

    def download(self, url: str, into: Sink, *, max_bytes: int, deadline: float, redirects: int = 3) -> Reply: ...


# --- Refusals ------------------------------------------------------------------------------------------------------


def _disallowed(url: str, reason: str) -> ApiError:
    error = refuse("media.url.disallowed", f"This server does not call {_shown(url)}: {reason}.")
    error.outcome = Outcome.NOT_SENT
    return error


def _shown(url: str) -> str:
    """A URL without query and credentials, for messages."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "that URL"
    return f"{parts.scheme}://{parts.hostname or ''}{parts.path}"[:200]


# --- The client ----------------------------------------------------------------------------------------------------


_ssl_context: ssl.SSLContext | None = None
_ssl_making = threading.Lock()


def _shared_ssl() -> ssl.SSLContext:
    # Loading the certificates costs 25 ms; one context serves every client, also those that are all opened at first.
    global _ssl_context
    if _ssl_context is None:
        with _ssl_making:
            if _ssl_context is None:
                context = httpx.create_ssl_context(trust_env=False)
                context.set_alpn_protocols(["http/1.1"])
                _ssl_context = context
    return _ssl_context


def open_http(policy: Policy) -> Http:
    """A client for one job in one thread; close it (or use `with`)."""
    return _Client(policy)


_ALWAYS = {"Accept": "*/*", "Accept-Encoding": "identity", "Connection": "keep-alive", "User-Agent": USER_AGENT}
_REDIRECTS = (301, 302, 303, 307, 308)


@dataclass
class _Client:
    """Nothing of one call goes with the next: no cookie is kept, and no connection but by `base.connections`."""

    policy: Policy

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """A connection is kept, or closed, when its answer has been read."""

    def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
        json: Any = None,
        data: Mapping[str, str] | None = None,
        content: bytes | Iterable[bytes] | None = None,
        deadline: float = CALL_SECONDS,
        max_bytes: int = BODY_MAX,
    ) -> Reply:
        """The answer to one call, redirects not followed.

        Raises ApiError `platform_unavailable` with outcome NOT_SENT (no connection came about) or AMBIGUOUS (it did,
        and the answer is lost, cut off by the deadline, or larger than `max_bytes`).
        """
        self._check(url)
        ends_at = time.monotonic() + deadline
        with tracing.call(method, url) as span:
            try:
                sent = _headers(headers)
                asked = None if params or data else _plain(method, url, sent, content, json)
                asked = asked or _made(
                    httpx.Request(method, url, headers=sent, params=params, json=json, data=data, content=content)
                )
                reply = _read(url, self._sent(asked, ends_at), max_bytes)
            except _TOLD as error:
                raise _failure(url, error) from error
            tracing.answered(span, reply.status)
            return reply

    def download(self, url: str, into: Sink, *, max_bytes: int, deadline: float, redirects: int = 3) -> Reply:
        """Write a resource into a file, following up to `redirects` redirects, each hop checked anew.

        The reply has an empty body. Raises ApiError as `request`, `media.size_max` above `max_bytes`, and what `into`
        raises.
        """
        ends_at = time.monotonic() + deadline
        for _ in range(redirects + 1):
            self._check(url)
            with tracing.call("GET", url) as span:
                try:
                    answer = self._sent(_made(httpx.Request("GET", url, headers=_ALWAYS)), ends_at)
                    reply, there = _copied(url, answer, into, max_bytes)
                except _TOLD as error:
                    raise _failure(url, error) from error
                tracing.answered(span, reply.status)
            if there is None:
                return reply
            url = there
        raise _lost(url, "it redirects too often")

    def _sent(self, asked: http1.Request, ends_at: float) -> connections.Reading:
        """The beginning of an answer; whoever reads the rest closes it."""
        crew.waits()
        return connections.ask(self.policy, _shared_ssl, asked, ends_at)

    def _check(self, url: str) -> None:
        reason = check_url(url, named=self.policy.named) if self.policy.guarded else None
        if reason:
            raise _disallowed(url, reason)


def _read(url: str, reading: connections.Reading, max_bytes: int) -> Reply:
    """An answer read to its end, which is no further than allowed."""
    answer, body = reading.answer, bytearray()
    try:
        for piece in _decoded(reading):
            body += piece
            if len(body) > max_bytes:
                raise _lost(url, "its answer is too large")
    finally:
        reading.close()
    return Reply(answer.status, answer.headers, bytes(body), url)


def _copied(url: str, reading: connections.Reading, into: Sink, max_bytes: int) -> tuple[Reply, str | None]:
    """An answer whose body went into the file, where it is one; and where it leads instead, if it does."""
    status, headers, there = reading.answer.status, reading.answer.headers, None
    try:
        if status in _REDIRECTS and "location" in headers:
            there = str(httpx.URL(url).join(headers["location"]))
        elif 200 <= status < 300:
            _copy(reading, into, max_bytes)
    finally:
        reading.close()
    return Reply(status, headers, b"", url), there


def _made(asked: httpx.Request) -> http1.Request:
    """A request as httpx has put it together."""
    to, stream, headers = asked.url, asked.stream, asked.headers
    assert isinstance(stream, Iterable), "nothing here is asynchronous"
    if to.username or to.password:
        shown = base64.b64encode(f"{to.username}:{to.password}".encode()).decode()
        headers.setdefault("Authorization", f"Basic {shown}")
    head = http1.head_of(asked.method, _target(to), [(name.decode(), text.decode()) for name, text in headers.raw])
    length = None if "transfer-encoding" in headers else int(headers.get("content-length", "0"))
    return http1.Request(_origin(to), asked.method, head, stream, length)


def _plain(
    method: str, url: str, headers: Mapping[str, str], content: bytes | Iterable[bytes] | None, value: Any = None
) -> http1.Request | None:
    """What httpx would make of bytes, or a JSON `value`, that are sent to an address, in a tenth of its time.

    None where it is more.
    """
    names = {name.lower() for name in headers}
    if value is not None and content is None:
        content = compact.strict(value).encode()
    if not content or not isinstance(content, bytes) or names & _FRAMING:
        return None
    origin, target, host = _place(url)
    if host is None:
        return None
    lines = [("Host", host), *headers.items(), ("Content-Length", str(len(content)))]
    if value is not None and "content-type" not in names:
        lines.append(("Content-Type", "application/json"))
    verb = method.upper()
    return http1.Request(origin, verb, http1.head_of(verb, target, lines), (content,), len(content))


_FRAMING = frozenset({"host", "content-length", "transfer-encoding"})


@functools.lru_cache(256)
def _place(url: str) -> tuple[http1.Origin, str, str | None]:
    """Where a URL leads, and how the request names the host; None where the URL carries a name or a password."""
    to = httpx.URL(url)
    return _origin(to), _target(to), None if to.username or to.password else to.netloc.decode("ascii")


def _origin(to: httpx.URL) -> http1.Origin:
    return http1.origin(to.scheme, to.raw_host.decode("ascii"), to.port)


def _target(to: httpx.URL) -> str:
    return to.raw_path.decode("ascii")


def _decoded(reading: connections.Reading) -> Iterator[bytes]:
    """The body in small pieces, however small it was packed."""
    encoding = reading.answer.headers.get("content-encoding", "identity").strip().lower()
    if encoding in ("", "identity"):
        return iter(reading)
    if encoding in ("gzip", "x-gzip", "deflate"):
        return _inflated(iter(reading))
    raise _GarbledError(f"the answer is encoded as {encoding}, which was not asked for")


def _copy(reading: connections.Reading, into: Sink, max_bytes: int) -> None:
    announced = reading.answer.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > max_bytes:
        raise refuse("media.size_max")
    size = 0
    for chunk in _decoded(reading):
        size += len(chunk)
        if size > max_bytes:
            raise refuse("media.size_max")
        into.write(chunk)


def _inflated(packed: Iterator[bytes]) -> Iterator[bytes]:
    inflater = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)  # takes gzip's header and zlib's
    for piece in packed:
        while piece and not inflater.eof:
            try:
                yield inflater.decompress(piece, CHUNK)
            except zlib.error as error:
                raise _GarbledError(str(error)) from error
            piece = inflater.unconsumed_tail
    if not inflater.eof:
        raise _GarbledError("the packed answer is cut short")


def _headers(headers: Mapping[str, str] | None) -> Mapping[str, str]:
    given = {name.lower() for name in headers or ()}
    return {name: text for name, text in _ALWAYS.items() if name.lower() not in given} | dict(headers or {})


class _GarbledError(Exception):
    """An answer that cannot be unpacked."""


SILENCE = (httpcore.TimeoutException, httpcore.NetworkError, httpcore.RemoteProtocolError)
_FAILED = (*SILENCE, httpcore.ProtocolError, httpcore.ProxyError, httpcore.UnsupportedProtocol, httpx.InvalidURL)


_TOLD = (*_FAILED, _GarbledError, PrivateAddressError)  # as an ApiError


def _failure(url: str, error: Exception) -> ApiError:
    if isinstance(error, PrivateAddressError):
        return _disallowed(url, "its address is private")
    unsent = (httpcore.ConnectError, httpcore.ConnectTimeout, httpcore.UnsupportedProtocol, httpx.InvalidURL)
    if isinstance(error, unsent):
        failure = ApiError("platform_unavailable", f"{_host(url)} could not be reached.", outcome=Outcome.NOT_SENT)
    else:
        failure = _lost(url, "its answer was lost")
    failure.unanswered = isinstance(error, SILENCE)
    return failure


def _lost(url: str, why: str) -> ApiError:
    return ApiError("platform_unavailable", f"{_host(url)} was called, but {why}.", outcome=Outcome.AMBIGUOUS)


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or "The upstream"
    except ValueError:
        return "The upstream"
