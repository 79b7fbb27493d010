"""The one door out: every outbound HTTP call of the program goes through `Http`.

One deadline for a whole call (httpx's timeouts are per operation), a cap on decoded bytes, no environment proxies, no
redirects but where asked for, and for addresses that users name a guard: resolve once, check every answer, connect to
the checked address. Failures become ApiError with the outcome that is known: nothing was sent, or nobody can tell.
"""

from __future__ import annotations

import ipaddress
import json
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, BinaryIO, Protocol, Self
from urllib.parse import urljoin, urlsplit

import httpcore
import httpx

from socialpub.base.errors import ApiError, Outcome, refuse

CALL_SECONDS = 30.0
UPLOAD_SECONDS = 300.0
CONNECT_SECONDS = 10.0
BODY_MAX = 1024 * 1024
USER_AGENT = "socialpub/0.1 (+https://github.com/socialpub/socialpub)"

Resolver = Callable[[str, int], list[str]]
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True)
class Policy:
    """How calls of one client may go. `guarded`: https to public addresses only."""

    guarded: bool
    resolver: Resolver


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

    def download(self, url: str, into: BinaryIO, *, max_bytes: int, deadline: float, redirects: int = 3) -> Reply: ...


def resolve(host: str, port: int) -> list[str]:
    """The addresses of a host, as the system resolves it."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def listen(host: str, port: int) -> socket.socket:
    """A bound socket for the web server; port 0 takes a free one. OSError when the port is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError:
        bound.close()
        raise
    return bound


# --- The guard ---------------------------------------------------------------------------------------------------

# Own table and not ipaddress.is_global, which calls several translation and multicast ranges global.
_DENIED = tuple(
    ipaddress.ip_network(text)
    for text in (
        "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 "
        "192.31.196.0/24 192.52.193.0/24 192.88.99.0/24 192.168.0.0/16 192.175.48.0/24 198.18.0.0/15 "
        "198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4"
    ).split()
)
# IPv6 is the other way round: only 2000::/3 is public, and not all of it.
_PUBLIC6 = ipaddress.ip_network("2000::/3")
_DENIED6 = tuple(
    ipaddress.ip_network(text)
    for text in "2001::/23 2001:db8::/32 2002::/16 2620:4f:8000::/48 3fff::/20 5f00::/16".split()
)
_DENIED_NAMES = ("localhost", "metadata", "metadata.google.internal", "instance-data")
_DENIED_SUFFIXES = (".localhost", ".local", ".internal", ".localdomain", ".home.arpa", ".onion")


def address_is_public(text: str) -> bool:
    """Whether an outbound call steered by a user may connect to this address."""
    try:
        address: Address = ipaddress.ip_address(text.split("%")[0])
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in _DENIED)
    return address in _PUBLIC6 and not any(address in network for network in _DENIED6)


def check_url(url: str) -> str | None:
    """Why a URL that a user named may not be called, by its text; None when it may (addresses are checked later)."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return "it is not a URL"
    if parts.scheme != "https":
        return "it is not https"
    if parts.username is not None or parts.password is not None:
        return "it carries credentials"
    if port is not None and port != 443 and port < 1024:
        return "its port is reserved"
    return _check_host(host)


def _check_host(host: str) -> str | None:
    name = host.rstrip(".").lower()
    if not name or any(ord(char) <= 32 for char in name):
        return "it has no host"
    if name in _DENIED_NAMES or name.endswith(_DENIED_SUFFIXES):
        return "its host is private"
    try:
        ipaddress.ip_address(name.split("%")[0])
    except ValueError:
        return None
    return None if address_is_public(name) else "its address is private"


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


# --- The network backend: one deadline, checked and pinned addresses -----------------------------------------------


@dataclass
class _Deadline:
    at: float = float("inf")
    connected: bool = False

    def cut(self, timeout: float | None, error: type[Exception]) -> float:
        """The time left for one operation; raises `error` when the whole call's time is over."""
        left = self.at - time.monotonic()
        if left <= 0:
            raise error("the call's deadline is over")
        return left if timeout is None else min(timeout, left)


class _Stream(httpcore.NetworkStream):
    def __init__(self, inner: httpcore.NetworkStream, deadline: _Deadline) -> None:
        self._inner, self._deadline = inner, deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, self._deadline.cut(timeout, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, self._deadline.cut(timeout, httpcore.WriteTimeout))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        left = self._deadline.cut(timeout, httpcore.ConnectTimeout)
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, left), self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class _Backend(httpcore.NetworkBackend):
    def __init__(self, policy: Policy, deadline: _Deadline) -> None:
        self._policy, self._deadline, self._inner = policy, deadline, httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> httpcore.NetworkStream:
        failure: Exception = httpcore.ConnectError("the host has no address")
        for address in self._addresses(host, port):
            try:
                left = self._deadline.cut(timeout, httpcore.ConnectTimeout)
                stream = self._inner.connect_tcp(address, port, left, local_address, socket_options)
                return _Stream(stream, self._deadline)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure

    def _addresses(self, host: str, port: int) -> list[str]:
        try:
            found = self._policy.resolver(host, port)
        except (OSError, UnicodeError) as error:
            raise httpcore.ConnectError(str(error)) from error
        if self._policy.guarded and not all(address_is_public(address) for address in found):
            raise _PrivateAddressError(host)
        return found


class _PrivateAddressError(Exception):
    """A name that a user gave resolves to an address that must not be called."""


_ssl_context: ssl.SSLContext | None = None


def _shared_ssl() -> ssl.SSLContext:
    # Loading the certificates costs 25 ms; one context serves every client.
    global _ssl_context
    if _ssl_context is None:
        _ssl_context = httpx.create_ssl_context(trust_env=False)
    return _ssl_context


def open_http(policy: Policy) -> Http:
    """A client for one job in one thread; close it (or use `with`)."""
    return _Client(policy)


@dataclass
class _Client:
    policy: Policy
    _deadline: _Deadline = field(default_factory=_Deadline)
    _client: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        transport = httpx.HTTPTransport(verify=_shared_ssl(), trust_env=False)
        # httpx has no argument for the network backend; its transport is a thin shell around this pool.
        transport._pool = httpcore.ConnectionPool(
            ssl_context=_shared_ssl(), max_connections=8, network_backend=_Backend(self.policy, self._deadline)
        )
        self._client = httpx.Client(
            transport=transport,
            trust_env=False,
            follow_redirects=False,
            timeout=httpx.Timeout(None, connect=CONNECT_SECONDS),
            headers={"User-Agent": USER_AGENT},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

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
        try:
            request = self._client.build_request(
                method, url, headers=self._headers(headers), params=params, json=json, data=data, content=content
            )
            response = self._client.send(request, stream=True)
            try:
                body = bytearray()
                for chunk in response.iter_bytes():
                    body += chunk
                    if len(body) > max_bytes:
                        raise _lost(url, "its answer is too large")
            finally:
                response.close()
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, _PrivateAddressError) as error:
            raise _failure(url, error) from error
        return Reply(response.status_code, _lower(response.headers), bytes(body), url)

    def download(self, url: str, into: BinaryIO, *, max_bytes: int, deadline: float, redirects: int = 3) -> Reply:
        """Write a resource into a file, following up to `redirects` redirects, each hop checked anew.

        The reply has an empty body. Raises ApiError as `request`, and `media.size_max` above `max_bytes`.
        """
        self._deadline.at = time.monotonic() + deadline
        for _ in range(redirects + 1):
            self._check(url)
            try:
                with self._client.stream("GET", url, headers=self._headers(None)) as response:
                    if response.is_redirect:
                        url = urljoin(url, response.headers["location"])
                        continue
                    if response.is_success:
                        _copy(response, into, max_bytes)
                    return Reply(response.status_code, _lower(response.headers), b"", url)
            except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, _PrivateAddressError) as error:
                raise _failure(url, error) from error
        raise _lost(url, "it redirects too often")

    def _headers(self, headers: Mapping[str, str] | None) -> dict[str, str]:
        return {"Accept-Encoding": "identity"} | dict(headers or {})

    def _check(self, url: str) -> None:
        reason = check_url(url) if self.policy.guarded else None
        if reason:
            raise _disallowed(url, reason)


def _copy(response: httpx.Response, into: BinaryIO, max_bytes: int) -> None:
    size = 0
    for chunk in response.iter_bytes():
        size += len(chunk)
        if size > max_bytes:
            raise refuse("media.size_max")
        into.write(chunk)


def _lower(headers: httpx.Headers) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _failure(url: str, error: Exception) -> ApiError:
    if isinstance(error, _PrivateAddressError):
        return _disallowed(url, "its address is private")
    unsent = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol, httpx.InvalidURL)
    if isinstance(error, unsent):
        return ApiError("platform_unavailable", f"{_host(url)} could not be reached.", outcome=Outcome.NOT_SENT)
    return _lost(url, "its answer was lost")


def _lost(url: str, why: str) -> ApiError:
    return ApiError("platform_unavailable", f"{_host(url)} was called, but {why}.", outcome=Outcome.AMBIGUOUS)


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or "The upstream"
    except ValueError:
        return "The upstream"
