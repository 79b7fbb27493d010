"""The one door out: every outbound HTTP call of the program goes through `Http`.

httpx writes the request, and `base.connections` sends it: of httpx's client, which takes as long again, nothing is
needed. One deadline for a whole call (httpx's timeouts are per operation), a cap on decoded bytes, no environment
proxies, no cookies, no redirects but where asked for, and for addresses that users name a guard (`base.guard`): resolve
once, check every answer, connect to the checked address. Failures become ApiError with the outcome that is known:
nothing was sent, or nobody can tell.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import json
import ssl
import threading
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol, Self
from urllib.parse import urlsplit

import httpcore
import httpx

from socialpub.base import compact, crew, tracing
from socialpub.base.connections import ConnectionPool
from socialpub.base.connections import close_idle as close_idle
from socialpub.base.errors import ApiError, Outcome, refuse
from socialpub.base.guard import check_url as check_url
from socialpub.base.sockets import CHUNK, CONNECT_SECONDS, Deadline, PrivateAddressError
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
                _ssl_context = httpx.create_ssl_context(trust_env=False)
    return _ssl_context


def open_http(policy: Policy) -> Http:
    """A client for one job in one thread; close it (or use `with`)."""
    return _Client(policy)


_ALWAYS = {"Accept": "*/*", "Accept-Encoding": "identity", "Connection": "keep-alive", "User-Agent": USER_AGENT}
_TIMEOUTS = {"timeout": {"connect": CONNECT_SECONDS}}  # the deadline ends everything else
_REDIRECTS = (301, 302, 303, 307, 308)


@dataclass
class _Client:
    """Nothing of one call goes with the next: no cookie is kept, and no connection but by `base.connections`."""

    policy: Policy
    _deadline: Deadline = field(default_factory=Deadline)
    _pool: ConnectionPool = field(init=False)

    def __post_init__(self) -> None:
        self._pool = ConnectionPool(self.policy, _shared_ssl(), self._deadline)

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
        self._deadline.at = time.monotonic() + deadline
        with tracing.call(method, url) as span, _told(url):
            sent = _headers(headers)
            asked = None if params or data else _plain(method, url, sent, content, json)
            with self._sent(
                asked
                or _made(httpx.Request(method, url, headers=sent, params=params, json=json, data=data, content=content))
            ) as answer:
                body = bytearray()
                for chunk in answer.decoded():
                    body += chunk
                    if len(body) > max_bytes:
                        raise _lost(url, "its answer is too large")
                tracing.answered(span, answer.status)
                return Reply(answer.status, answer.headers, bytes(body), url)

    def download(self, url: str, into: Sink, *, max_bytes: int, deadline: float, redirects: int = 3) -> Reply:
        """Write a resource into a file, following up to `redirects` redirects, each hop checked anew.

        The reply has an empty body. Raises ApiError as `request`, `media.size_max` above `max_bytes`, and what `into`
        raises.
        """
        self._deadline.at = time.monotonic() + deadline
        for _ in range(redirects + 1):
            self._check(url)
            with (
                tracing.call("GET", url) as span,
                _told(url),
                self._sent(_made(httpx.Request("GET", url, headers=_ALWAYS))) as answer,
            ):
                tracing.answered(span, answer.status)
                if answer.status in _REDIRECTS and "location" in answer.headers:
                    url = str(httpx.URL(url).join(answer.headers["location"]))
                    continue
                if 200 <= answer.status < 300:
                    _copy(answer, into, max_bytes)
                return Reply(answer.status, answer.headers, b"", url)
        raise _lost(url, "it redirects too often")

    @contextlib.contextmanager
    def _sent(self, asked: httpcore.Request) -> Iterator[_Answer]:
        """The beginning of an answer; the rest is read while the block runs."""
        crew.waits()
        answer = self._pool.handle_request(asked)
        try:
            yield _Answer(answer)
        finally:
            answer.close()

    def _check(self, url: str) -> None:
        reason = check_url(url, named=self.policy.named) if self.policy.guarded else None
        if reason:
            raise _disallowed(url, reason)


def _made(asked: httpx.Request) -> httpcore.Request:
    """A request as httpx has put it together."""
    to, stream = asked.url, asked.stream
    assert isinstance(stream, Iterable), "nothing here is asynchronous"
    if to.username or to.password:
        shown = base64.b64encode(f"{to.username}:{to.password}".encode()).decode()
        asked.headers.setdefault("Authorization", f"Basic {shown}")
    headers = asked.headers.raw
    return httpcore.Request(asked.method, _target_of(to), headers=headers, content=stream, extensions=_TIMEOUTS)


def _plain(
    method: str, url: str, headers: Mapping[str, str], content: bytes | Iterable[bytes] | None, value: Any = None
) -> httpcore.Request | None:
    """What httpx would make of bytes, or a JSON `value`, that are sent to an address, in a tenth of its time.

    None where it is more.
    """
    names = {name.lower() for name in headers}
    if value is not None and content is None:
        content = compact.strict(value).encode()
    if not content or not isinstance(content, bytes) or names & _FRAMING:
        return None
    target, host = _place(url)
    if host is None:
        return None
    given = [(name.encode("ascii"), text.encode("ascii")) for name, text in headers.items()]
    sent = [(b"Host", host), *given, (b"Content-Length", b"%d" % len(content))]
    if value is not None and "content-type" not in names:
        sent.append((b"Content-Type", b"application/json"))
    return httpcore.Request(method.upper(), target, headers=sent, content=content, extensions=_TIMEOUTS)


_FRAMING = frozenset({"host", "content-length", "transfer-encoding"})


@functools.lru_cache(256)
def _place(url: str) -> tuple[httpcore.URL, bytes | None]:
    """Where a URL leads, and how the request names the host; None where the URL carries a name or a password."""
    to = httpx.URL(url)
    return _target_of(to), None if to.username or to.password else to.netloc


def _target_of(to: httpx.URL) -> httpcore.URL:
    return httpcore.URL(scheme=to.raw_scheme, host=to.raw_host, port=to.port, target=to.raw_path)


@dataclass
class _Answer:
    """An answer whose body is still to come."""

    begun: httpcore.Response
    headers: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.headers = _lower(self.begun.headers)

    @property
    def status(self) -> int:
        return self.begun.status

    def decoded(self) -> Iterator[bytes]:
        """The body in small pieces, however small it was packed."""
        encoding = self.headers.get("content-encoding", "identity").strip().lower()
        if encoding in ("", "identity"):
            yield from self.begun.iter_stream()
        elif encoding in ("gzip", "x-gzip", "deflate"):
            yield from _inflated(self.begun.iter_stream())
        else:
            raise _GarbledError(f"the answer is encoded as {encoding}, which was not asked for")


def _copy(answer: _Answer, into: Sink, max_bytes: int) -> None:
    announced = answer.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > max_bytes:
        raise refuse("media.size_max")
    size = 0
    for chunk in answer.decoded():
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


def _lower(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """By their names; what comes more than once stands in one line."""
    found: dict[str, str] = {}
    for raw, content in headers:
        name, text = raw.decode("latin-1").lower(), _text(content)
        found[name] = f"{found[name]}, {text}" if name in found else text
    return found


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return content.decode("latin-1")


class _GarbledError(Exception):
    """An answer that cannot be unpacked."""


SILENCE = (httpcore.TimeoutException, httpcore.NetworkError, httpcore.RemoteProtocolError)
_FAILED = (*SILENCE, httpcore.ProtocolError, httpcore.ProxyError, httpcore.UnsupportedProtocol, httpx.InvalidURL)


@contextlib.contextmanager
def _told(url: str) -> Iterator[None]:
    """What fails on the way is told as an ApiError."""
    try:
        yield
    except (*_FAILED, _GarbledError, PrivateAddressError) as error:
        raise _failure(url, error) from error


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
