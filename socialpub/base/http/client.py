"""Outbound HTTP: every call of the program goes through a client of `open_http`.

It is httpx over a transport of ours (`base.http.transport`). What httpx lacks is here: one deadline for a whole call
(its timeouts are per operation), a cap on decoded bytes, errors with an outcome. No environment proxies, no cookies, no
redirects but where asked for, and for addresses that users name a guard (`base.http.ssrf`): resolve once, check every
answer, connect to the checked address. A failure before the head of a response is an ApiError with the outcome that is
known: nothing was sent, or nobody can tell. A failure after it is a `Reply` that says why its body is missing.
"""

from __future__ import annotations

import contextlib
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from http.cookiejar import CookieJar, DefaultCookiePolicy
from types import TracebackType
from typing import Any, Protocol, Self
from urllib.parse import urlsplit

import httpx

from socialpub.base import compact, retry_after, tracing
from socialpub.base.errors import ApiError, Outcome, refuse
from socialpub.base.http.network import CHUNK, Policy, PrivateAddressError
from socialpub.base.http.ssrf import check_url
from socialpub.base.http.transport import Transport

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


def open_http(policy: Policy, now_ms: Callable[[], int] | None = None) -> Http:
    """A client for one job in one thread; close it (or use `with`). `now_ms`: the wall clock, for `received_ms`."""
    return Client(policy, now_ms)


_ALWAYS = {"Accept": "*/*", "Accept-Encoding": "identity", "Connection": "keep-alive", "User-Agent": USER_AGENT}
_REDIRECTS = (301, 302, 303, 307, 308)


class Client:
    """Nothing of one call goes with the next: no cookie is kept, and no connection but by the transport."""

    def __init__(self, policy: Policy, now_ms: Callable[[], int] | None = None) -> None:
        self._policy, self._now_ms = policy, now_ms
        self._http = httpx.Client(
            transport=Transport(policy),
            headers=_ALWAYS,
            cookies=CookieJar(DefaultCookiePolicy(netscape=False)),  # it looks at none
            trust_env=False,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

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
        more = {"headers": headers, "params": params, "json": json, "data": data, "content": content}
        with self._called(method, url, deadline, **more) as response:
            body = bytearray()
            unread = _received(response, body.extend, max_bytes)
            return self._reply(url, response, bytes(body), unread)

    def download(
        self, url: str, into: Sink, *, max_bytes: int, deadline: float, redirects: int = 3, whole: bool = True
    ) -> Reply:
        """Write a resource into a file, following up to `redirects` redirects, each hop checked like the first.

        The reply has an empty body; `unread` tells that the file is incomplete. `whole`: the beginning of a resource is
        of no use, so one that announces more than `max_bytes` is not read. Raises ApiError as `request`, and what
        `into` raises.
        """
        ends_at = time.monotonic() + deadline
        for _ in range(redirects + 1):
            with self._called("GET", url, ends_at - time.monotonic()) as response:
                headers, unread = response.headers, None
                if not _redirects(response):
                    if response.is_success:
                        is_over = whole and _announces_more(headers, max_bytes)
                        unread = Unread.TOO_LARGE if is_over else _received(response, into.write, max_bytes)
                    return self._reply(url, response, b"", unread)
                try:
                    url = str(response.url.join(headers["location"]))
                except httpx.InvalidURL as error:
                    raise _unreached(url) from error
        raise _lost(url, "it redirects too often")

    @contextlib.contextmanager
    def _called(self, method: str, url: str, seconds: float, **more: Any) -> Iterator[httpx.Response]:
        """A response whose body is still to be read, within what is left of the call's time."""
        reason = check_url(url, named=self._policy.named) if self._policy.guarded else None
        if reason:
            raise _disallowed(url, reason)
        with tracing.call(method, url) as span:
            try:
                request = self._http.build_request(method, url, timeout=seconds, **more)
            except httpx.InvalidURL as error:
                raise _unreached(url) from error
            try:
                response = self._http.send(request, stream=True)
            except (httpx.TransportError, PrivateAddressError) as error:
                raise _failure(url, error) from error
            tracing.answered(span, response.status_code)
            with contextlib.closing(response):
                yield response

    def _reply(self, url: str, response: httpx.Response, content: bytes, unread: Unread | None) -> Reply:
        received = self._now_ms() if self._now_ms else None
        return Reply(response.status_code, response.headers, content, url, unread, received)


def _received(response: httpx.Response, write: Callable[[bytes], object], max_bytes: int) -> Unread | None:
    """Pass at most `max_bytes` of the decoded body to `write`; why the rest is missing, None if none is."""
    left = max_bytes
    try:
        for piece in _decoded(response):
            write(piece[:left])
            left -= len(piece)
            if left < 0:
                return Unread.TOO_LARGE
    except httpx.TimeoutException:
        return Unread.LATE
    except (httpx.NetworkError, httpx.RemoteProtocolError):
        return Unread.BROKEN
    except _UndecodableError:
        return Unread.UNDECODABLE
    return None


def _redirects(response: httpx.Response) -> bool:
    return response.status_code in _REDIRECTS and "location" in response.headers


def _announces_more(headers: Mapping[str, str], max_bytes: int) -> bool:
    announced = headers.get("content-length", "")
    return announced.isascii() and announced.isdigit() and len(announced) < 19 and int(announced) > max_bytes


def _decoded(response: httpx.Response) -> Iterator[bytes]:
    """The body in small pieces, however small it was packed; of an unknown encoding the bytes as they came.

    httpx's own decoders unpack 64 KiB at once, which may be 64 MiB.
    """
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding in ("", "identity"):
        return response.iter_raw()
    if encoding in ("gzip", "x-gzip", "deflate"):
        return _inflated(response.iter_raw())
    return _undecoded(response.iter_raw())


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


class _UndecodableError(Exception):
    """A body that is not what its Content-Encoding says, or in one that is not known here."""


def _failure(url: str, error: Exception) -> ApiError:
    if isinstance(error, PrivateAddressError):
        return _disallowed(url, "its address is private")
    unsent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.UnsupportedProtocol)
    failure = _unreached(url) if unsent else _lost(url, "its answer was lost")
    failure.unanswered = isinstance(error, httpx.TimeoutException | httpx.NetworkError | httpx.RemoteProtocolError)
    return failure


def _unreached(url: str) -> ApiError:
    return ApiError("platform_unavailable", f"{_host(url)} could not be reached.", outcome=Outcome.NOT_SENT)


def _lost(url: str, why: str) -> ApiError:
    return ApiError("platform_unavailable", f"{_host(url)} was called, but {why}.", outcome=Outcome.AMBIGUOUS)


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or "The upstream"
    except ValueError:
        return "The upstream"
