"""The one door out: every outbound HTTP call of the program goes through `Http`.

httpx puts a request together where it is more than bytes; `base.http1` writes it over what `base.connections` keeps: of
httpx's client and of httpcore's connections, which take most of the time of a call, nothing is needed. One deadline for
a whole call (httpx's timeouts are per operation), a cap on decoded bytes, no environment proxies, no cookies, no
redirects but where asked for, and for addresses that users name a guard (`base.guard`): resolve once, check every
answer, connect to the checked address. A failure before the head of an answer is an ApiError with the outcome that is
known: nothing was sent, or nobody can tell. A failure after it is a `Reply` that says why its body is missing.
"""

from __future__ import annotations

import base64
import functools
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import TracebackType
from typing import Any, Protocol, Self
from urllib.parse import urlsplit

import httpcore
import httpx

from socialpub.base import compact, connections, http1, retry_after, tracing
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


class Unread(StrEnum):
    """Why the body of a response is missing or incomplete, as the end of a sentence about it."""

    LATE = "did not arrive in time"
    BROKEN = "was cut short or malformed"
    UNDECODABLE = "could not be decoded"
    TOO_LARGE = "is too large"


@dataclass(frozen=True)
class Reply:
    """An upstream's response. Status and headers are always whole; the body may not be.

    `unread`: why the body is missing or incomplete; `content` is then what was read of it, at most the cap (of a body
    in an unknown encoding the bytes as they came). `received_ms`: when the response arrived, by the wall clock.
    """

    status: int
    headers: Mapping[str, str]
    content: bytes
    url: str = ""
    unread: Unread | None = None
    received_ms: int | None = None

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def lacks_record(self) -> bool:
        """Whether the body was not read to its end, and what was read is no JSON object (which shows its own end)."""
        return self.unread is not None and not self.record()

    def json(self) -> Any:
        """The parsed body, or None when it is not JSON (proxies answer in HTML)."""
        try:
            return compact.loads(self.content)
        except ValueError:
            return None

    def record(self) -> dict[str, Any]:
        """The JSON object that was answered, or an empty one."""
        value = self.json()
        return value if isinstance(value, dict) else {}

    @property
    def retry_after(self) -> int | None:
        """Whole seconds of the Retry-After header, from now; None where it is absent or cannot be read."""
        return retry_after.seconds(self.headers.get("retry-after", ""), self.server_ms)

    @property
    def server_ms(self) -> int | None:
        """When the upstream responded: by its own clock (`Date`), else by ours; None where neither is known."""
        dated = retry_after.date_ms(self.headers.get("date", ""))
        return self.received_ms if dated is None else dated


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

    def download(
        self, url: str, into: Sink, *, max_bytes: int, deadline: float, redirects: int = 3, whole: bool = True
    ) -> Reply: ...


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


def open_http(policy: Policy, now_ms: Callable[[], int] | None = None) -> Http:
    """A client for one job in one thread; close it (or use `with`). `now_ms`: the wall clock, for `received_ms`."""
    return _Client(policy, now_ms)


_ALWAYS = {"Accept": "*/*", "Accept-Encoding": "identity", "Connection": "keep-alive", "User-Agent": USER_AGENT}
_REDIRECTS = (301, 302, 303, 307, 308)


@dataclass
class _Client:
    """Nothing of one call goes with the next: no cookie is kept, and no connection but by `base.connections`."""

    policy: Policy
    now_ms: Callable[[], int] | None = None

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
        """Send one request and return the response, redirects not followed.

        At most `max_bytes` of the decoded body are read; `Reply.unread` tells what is missing. Raises ApiError
        `platform_unavailable` with outcome NOT_SENT (no connection came about) or AMBIGUOUS (one did, and no whole head
        of a response arrived within the deadline).
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
                reply = self._read(url, self._sent(asked, ends_at), max_bytes)
            except _TOLD as error:
                raise _failure(url, error) from error
            tracing.answered(span, reply.status)
            return reply

    def download(
        self, url: str, into: Sink, *, max_bytes: int, deadline: float, redirects: int = 3, whole: bool = True
    ) -> Reply:
        """Write a resource into a file, following up to `redirects` redirects, each hop checked anew.

        The reply has an empty body; `unread` tells that the file is incomplete. `whole`: the beginning of a resource is
        of no use, so one that announces more than `max_bytes` is not read. Raises ApiError as `request`, and what
        `into` raises.
        """
        ends_at = time.monotonic() + deadline
        for _ in range(redirects + 1):
            self._check(url)
            with tracing.call("GET", url) as span:
                try:
                    answer = self._sent(_made(httpx.Request("GET", url, headers=_ALWAYS)), ends_at)
                    reply, there = self._copied(url, answer, into, max_bytes, whole=whole)
                except _TOLD as error:
                    raise _failure(url, error) from error
                tracing.answered(span, reply.status)
            if there is None:
                return reply
            url = there
        raise _lost(url, "it redirects too often")

    def _sent(self, asked: http1.Request, ends_at: float) -> connections.Reading:
        """The beginning of an answer; whoever reads the rest closes it."""
        return connections.ask(self.policy, _shared_ssl, asked, ends_at)

    def _read(self, url: str, reading: connections.Reading, max_bytes: int) -> Reply:
        """A response with its body, read no further than allowed."""
        body = bytearray()
        unread = _received(reading, body.extend, max_bytes)
        return self._reply(url, reading, bytes(body), unread)

    def _copied(
        self, url: str, reading: connections.Reading, into: Sink, max_bytes: int, *, whole: bool
    ) -> tuple[Reply, str | None]:
        """A response whose body was written to the file if it is a 2xx; and where it redirects to, if it does."""
        status, headers, there, unread = reading.answer.status, reading.answer.headers, None, None
        if not 200 <= status < 300:
            reading.close()
            there = str(httpx.URL(url).join(headers["location"])) if _redirects(status, headers) else None
        elif whole and _announces_more(headers, max_bytes):
            reading.close()
            unread = Unread.TOO_LARGE
        else:
            unread = _received(reading, into.write, max_bytes)
        return self._reply(url, reading, b"", unread), there

    def _reply(self, url: str, reading: connections.Reading, content: bytes, unread: Unread | None) -> Reply:
        answer, received = reading.answer, self.now_ms() if self.now_ms else None
        return Reply(answer.status, answer.headers, content, url, unread, received)

    def _check(self, url: str) -> None:
        reason = check_url(url, named=self.policy.named) if self.policy.guarded else None
        if reason:
            raise _disallowed(url, reason)


def _received(reading: connections.Reading, write: Callable[[bytes], object], max_bytes: int) -> Unread | None:
    """Pass at most `max_bytes` of the decoded body to `write`, and close; why the rest is missing, None if none is."""
    left = max_bytes
    try:
        for piece in _decoded(reading):
            write(piece[:left])
            left -= len(piece)
            if left < 0:
                return Unread.TOO_LARGE
    except httpcore.TimeoutException:
        return Unread.LATE
    except (httpcore.NetworkError, httpcore.RemoteProtocolError):
        return Unread.BROKEN
    except _UndecodableError:
        return Unread.UNDECODABLE
    finally:
        reading.close()
    return None


def _redirects(status: int, headers: Mapping[str, str]) -> bool:
    return status in _REDIRECTS and "location" in headers


def _announces_more(headers: Mapping[str, str], max_bytes: int) -> bool:
    announced = headers.get("content-length", "")
    return announced.isascii() and announced.isdigit() and len(announced) < 19 and int(announced) > max_bytes


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
    """The body in small pieces, however small it was packed; of an unknown encoding the bytes as they came."""
    encoding = reading.answer.headers.get("content-encoding", "identity").strip().lower()
    if encoding in ("", "identity"):
        return iter(reading)
    if encoding in ("gzip", "x-gzip", "deflate"):
        return _inflated(iter(reading))
    return _undecoded(iter(reading))


def _undecoded(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Every piece as it is; _UndecodableError after the last, if there was one."""
    empty = True
    for piece in pieces:
        empty = False
        yield piece
    if not empty:
        raise _UndecodableError


def _inflated(packed: Iterator[bytes]) -> Iterator[bytes]:
    """The unpacked body in pieces of at most CHUNK; an empty one is empty, although gzip would have a header."""
    inflater = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)  # takes gzip's header and zlib's
    empty = True
    for piece in packed:
        while piece and not inflater.eof:
            empty = False
            try:
                yield inflater.decompress(piece, CHUNK)
            except zlib.error as error:
                raise _UndecodableError from error
            piece = inflater.unconsumed_tail
    if not (inflater.eof or empty):
        raise _UndecodableError


def _headers(headers: Mapping[str, str] | None) -> Mapping[str, str]:
    given = {name.lower() for name in headers or ()}
    return {name: text for name, text in _ALWAYS.items() if name.lower() not in given} | dict(headers or {})


class _UndecodableError(Exception):
    """A body that is not what its Content-Encoding says, or in one that is not known here."""


SILENCE = (httpcore.TimeoutException, httpcore.NetworkError, httpcore.RemoteProtocolError)
_FAILED = (*SILENCE, httpcore.ProtocolError, httpcore.ProxyError, httpcore.UnsupportedProtocol, httpx.InvalidURL)


_TOLD = (*_FAILED, PrivateAddressError)  # as an ApiError


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
