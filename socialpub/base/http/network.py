"""Connections of outbound calls: checked addresses, deadlines, limits on response framing.

`PolicyBackend` and `DeadlineStream` implement httpcore's extension interfaces; SMTP uses `PolicyBackend`, too.
"""

from __future__ import annotations

import concurrent.futures
import errno
import itertools
import os
import re
import select
import selectors
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import httpcore

from socialpub.base.concurrency.fair_executor import FairExecutor, ShareKey, current_share_key
from socialpub.base.http import ssrf

CONNECT_SECONDS = 10.0
STAGGER_SECONDS = 0.3  # after that the next address is tried, too (RFC 8305, 5)
ADDRESSES_MAX = 8  # tried per name
REMEMBERED_MAX = 1024  # names whose working address is remembered
CHUNK_BYTES = 64 * 1024
HEAD_MAX = 100 * 1024  # bytes of a response head
FIELDS_MAX = 512  # header fields of a response: each costs h11 a few microseconds of the interpreter
HEADS_MAX = 16  # responses to one request: informational ones and the final one
FRAMING_MAX = 1024  # bytes of chunk sizes, extensions and trailers in a row
FRAMING_FREE = 16 * 1024  # bytes of them in one body, plus a sixteenth of its content
FRAMING_SHARE = 1 / 16
RESOLVER_THREADS = 32

# h11's patterns take time quadratic in a run of white space before a byte that they refuse: 100 KB of it block the
# interpreter for a minute (h11 0.16, `header_field` and `chunk_header`). So no such run is passed to h11.
_LONG_WHITE_SPACE = re.compile(rb"(?<![ \t\r\n])[ \t\r\n]{256}")
_BLANK_LINE = re.compile(rb"\n\r?\n")

Resolver = Callable[[str, int], list[str]]


@dataclass(frozen=True)
class ConnectionPolicy:
    """Which connections a client may make.

    `guarded`: https to public addresses only, except hosts and networks in `named`.
    """

    guarded: bool
    resolver: Resolver
    named: ssrf.AllowedHosts = ssrf.NO_ALLOWED_HOSTS

    def may_connect(self, host: str, address: str, port: int) -> bool:
        """Return whether a call to this host may connect to the address that it resolved to."""
        if not self.guarded or self.named.has_host(host.lower()) or self.named.has_address(address):
            return True
        return ssrf.may_connect(address, port)


def resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a host, from the system's resolver."""
    resolved = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in resolved))


UNGUARDED_POLICY = ConnectionPolicy(guarded=False, resolver=resolve)
"""For hosts that the operator configured."""


resolver_executor = FairExecutor(RESOLVER_THREADS, "resolver")
"""Resolves names. A look-up cannot be stopped, so it is limited by shares as upstream calls are."""


@dataclass
class CallDeadline:
    """The deadline of the current call over a connection, on the monotonic clock."""

    at: float

    def remaining(self, timeout: float | None, error: type[Exception]) -> float:
        """Return the seconds left for one operation; raise `error` after the deadline."""
        seconds_left = self.at - time.monotonic()
        if seconds_left <= 0:
            raise error("the call's deadline is over")
        return seconds_left if timeout is None else min(timeout, seconds_left)


class DeadlineStream(httpcore.NetworkStream):
    """A connection whose every read and write ends with the call's deadline.

    The head of a request is sent together with the first part of its body (or the empty write with which httpcore ends
    a request): two packets would wake the server twice.

    h11 gets the head of a response whole and checked, and chunked framing in small pieces: see `_LONG_WHITE_SPACE`.
    `has_head`: a head was read since the last request. `is_broken`: a write failed.
    """

    def __init__(self, connected: socket.socket, deadline: CallDeadline) -> None:
        self._socket, self._deadline = connected, deadline
        self._pending = b""  # the head of a request
        self._is_between_requests = self._is_before_body = True
        self._received, self._at = bytearray(), 0  # bytes received, and how many of them were passed to h11
        self._last = b""  # the last bytes that were passed to h11
        self._left: float = 0  # bytes of the body
        self._is_chunked, self._framing, self._framing_left = False, 0, 0.0
        self._head_count = 0  # since the last request
        self.has_head = self.is_broken = False

    # --- Writing ---

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if self._is_between_requests:
            self._is_between_requests, self._is_before_body, self.has_head = False, True, False
            self._head_count = 0
            if len(buffer) < CHUNK_BYTES:
                self._pending = buffer
                return
        self._send(buffer, timeout)

    def _send(self, buffer: bytes, timeout: float | None) -> None:
        # Not sendall: its timeout restarts with each part that the server reads.
        rest, self._pending = memoryview(self._pending + buffer if self._pending else buffer), b""
        while rest:
            self._socket.settimeout(self._deadline.remaining(timeout, httpcore.WriteTimeout))
            try:
                rest = rest[self._socket.send(rest[:CHUNK_BYTES]) :]
            except TimeoutError as error:
                raise httpcore.WriteTimeout(str(error)) from error
            except OSError as error:
                self.is_broken = True
                raise httpcore.WriteError(str(error)) from error

    # --- Reading ---

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if self._pending:
            self._send(b"", timeout)
        self._is_between_requests = True
        return self._read_head(timeout) if self._is_before_body else self._read_body(max_bytes, timeout)

    def start_body(self, length: int | None, *, chunked: bool) -> None:
        """Read a body from now on, of `length` bytes if known.

        Call `count_content` for each piece of it.
        """
        self._is_before_body, self._is_chunked = False, chunked
        self._framing, self._framing_left = 0, FRAMING_FREE
        self._left = float("inf") if length is None else length

    def count_content(self, size: int) -> None:
        """Count `size` bytes of content in what was read."""
        self._framing = 0
        self._framing_left += size + size * FRAMING_SHARE

    @property
    def has_surplus(self) -> bool:
        """True if more than one response has arrived: h11 would take the rest for the next one."""
        return bool(self._received) or (self._is_chunked and not self._last.endswith((b"\n\r\n", b"\n\n")))

    def _read_head(self, timeout: float | None) -> bytes:
        """Read a whole head, up to and with the blank line; informational responses have their own."""
        start = self._at
        while (blank := _BLANK_LINE.search(self._received, start)) is None:
            if len(self._received) - self._at > HEAD_MAX:
                raise httpcore.RemoteProtocolError("the head of the response has no end")
            start = max(self._at, len(self._received) - 2)
            if not self._receive(timeout):
                raise httpcore.RemoteProtocolError("the server hung up before the end of the head")
        head = self._pass_on(blank.end() - self._at)
        if _LONG_WHITE_SPACE.search(head):
            raise httpcore.RemoteProtocolError("the head of the response is mostly white space")
        if head.count(b"\n") - 2 > FIELDS_MAX:  # the status line and the blank line are no fields
            raise httpcore.RemoteProtocolError("the response has too many header fields")
        self._head_count += 1
        if self._head_count > HEADS_MAX:
            raise httpcore.RemoteProtocolError("too many informational responses came before the response")
        self.has_head = True
        return head

    def _read_body(self, max_bytes: int, timeout: float | None) -> bytes:
        if self._is_chunked:
            if self._framing >= FRAMING_MAX:
                raise httpcore.RemoteProtocolError("a chunk size or a trailer of the response has no end")
            if self._framing_left < 0:
                raise httpcore.RemoteProtocolError("the chunks of the response are too small")
            max_bytes = FRAMING_MAX
        if not self._received and not self._receive(timeout):
            return b""
        piece = self._pass_on(int(min(max_bytes, self._left)))
        self._left -= len(piece)
        self._framing += len(piece)
        self._framing_left -= len(piece)
        return piece

    def _receive(self, timeout: float | None) -> bool:
        """Receive more bytes; return False at the end of the stream."""
        self._socket.settimeout(self._deadline.remaining(timeout, httpcore.ReadTimeout))
        try:
            piece = self._socket.recv(CHUNK_BYTES)
        except TimeoutError as error:
            raise httpcore.ReadTimeout(str(error)) from error
        except OSError as error:
            raise httpcore.ReadError(str(error)) from error
        self._received += piece
        return bool(piece)

    def _pass_on(self, size: int) -> bytes:
        piece = bytes(self._received[self._at : self._at + size])
        self._at += len(piece)
        if self._at == len(self._received):
            self._received, self._at = bytearray(), 0
        self._last = (self._last + piece[-3:])[-3:]
        return piece

    # --- The rest of httpcore's interface ---

    def close(self) -> None:
        self._socket.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        self._socket.settimeout(self._deadline.remaining(timeout, httpcore.ConnectTimeout))
        try:
            return DeadlineStream(
                ssl_context.wrap_socket(self._socket, server_hostname=server_hostname), self._deadline
            )
        except OSError as error:
            self.close()
            kind = httpcore.ConnectTimeout if isinstance(error, TimeoutError) else httpcore.ConnectError
            raise kind(str(error)) from error

    def get_extra_info(self, info: str) -> Any:
        """Return `socket`, `ssl_object` or `is_readable`; None for other names."""
        if info == "socket":
            return self._socket
        if info == "ssl_object":
            return self._socket if isinstance(self._socket, ssl.SSLSocket) else None
        return _is_readable(self._socket) if info == "is_readable" else None


def _is_readable(connected: socket.socket) -> bool:
    """Return whether the server has sent something, or closed the connection."""
    if connected.fileno() < 0 or (isinstance(connected, ssl.SSLSocket) and connected.pending()):
        return True
    selector = select.poll()
    selector.register(connected, select.POLLIN)
    return bool(selector.poll(0))


# --- Connecting ----------------------------------------------------------------------------------------------------


class _AddressMemory:
    """Remembers which address of a name connected, if it was not the first one."""

    def __init__(self) -> None:
        self._addresses: dict[tuple[str, int], str] = {}
        self._lock = threading.Lock()

    def sort(self, host: str, port: int, addresses: Sequence[str]) -> list[str]:
        """Return the addresses in the order to try, alternating between IPv4 and IPv6.

        At most ADDRESSES_MAX, the remembered one first.
        """
        known = self._addresses.get((host, port))
        ranked = sorted(addresses, key=lambda address: address != known)
        first = [address for address in ranked if (":" in address) == (":" in ranked[0])]
        others = [address for address in ranked if address not in first]
        turns = itertools.zip_longest(first, others)
        return [address for turn in turns for address in turn if address][:ADDRESSES_MAX]

    def remember(self, host: str, port: int, addresses: Sequence[str], answered: str) -> None:
        with self._lock:
            self._addresses.pop((host, port), None)
            if answered != addresses[0]:
                self._addresses[host, port] = answered
                if len(self._addresses) > REMEMBERED_MAX:
                    del self._addresses[next(iter(self._addresses))]


_address_memory = _AddressMemory()


def _connect_first(addresses: Sequence[str], port: int, seconds: float) -> tuple[socket.socket, str]:
    """Return a connection to the address that accepts first, and that address.

    The next address is tried as soon as one refuses, or in parallel after STAGGER_SECONDS. Raise httpcore.ConnectError
    if all of them refuse, ConnectTimeout if none has accepted in time.
    """
    ends_at, rest = time.monotonic() + seconds, list(addresses)
    failure = "the host has no address"
    with selectors.DefaultSelector() as selector:
        try:
            while rest or selector.get_map():
                if rest and (refused := _start_connecting(selector, rest.pop(0), port)):
                    failure = refused
                    continue
                seconds_left = ends_at - time.monotonic()
                if seconds_left <= 0:
                    raise httpcore.ConnectTimeout("no address answered in time")
                for key, _ in selector.select(min(seconds_left, STAGGER_SECONDS) if rest else seconds_left):
                    connected: socket.socket = key.fileobj  # type: ignore[assignment]
                    selector.unregister(connected)
                    if not (code := connected.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)):
                        return connected, key.data
                    failure = os.strerror(code)
                    connected.close()
        finally:
            for key in list(selector.get_map().values()):
                key.fileobj.close()  # type: ignore[union-attr]
    raise httpcore.ConnectError(failure)


def _start_connecting(selector: selectors.BaseSelector, address: str, port: int) -> str:
    """Start to connect; return the reason if that is impossible, else ""."""
    try:
        connecting = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    except OSError as error:  # an address family without support here, or no descriptor left
        return str(error)
    connecting.setblocking(False)
    code = connecting.connect_ex((address, port))
    if code in (0, errno.EINPROGRESS):
        selector.register(connecting, selectors.EVENT_WRITE, address)
        return ""
    connecting.close()
    return os.strerror(code)


class PolicyBackend(httpcore.NetworkBackend):
    """Connects as the policy allows.

    Raise PrivateAddressError, before any connection, if one address of a name is not allowed.
    """

    def __init__(self, policy: ConnectionPolicy, deadline: CallDeadline) -> None:
        self._policy, self._deadline = policy, deadline

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> httpcore.NetworkStream:
        addresses = self._addresses(host, port)
        seconds_left = self._deadline.remaining(timeout, httpcore.ConnectTimeout)
        connected, address = _connect_first(_address_memory.sort(host, port, addresses), port, seconds_left)
        if len(addresses) > 1:
            _address_memory.remember(host, port, addresses, address)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.settimeout(seconds_left)
        return DeadlineStream(connected, self._deadline)

    def _addresses(self, host: str, port: int) -> list[str]:
        resolved = self._resolved(host, port)
        if not all(self._policy.may_connect(host, address, port) for address in resolved):
            raise PrivateAddressError(host)
        return resolved

    def _resolved(self, host: str, port: int) -> list[str]:
        # The system's resolver takes no timeout.
        share = ShareKey(host, current_share_key.get().owner)
        lookup = resolver_executor.submit_for(share, self._policy.resolver, host, port)
        try:
            return lookup.result(self._deadline.remaining(CONNECT_SECONDS, httpcore.ConnectTimeout))
        except concurrent.futures.TimeoutError as error:
            resolver_executor.withdraw(share, lookup)
            raise httpcore.ConnectTimeout("the host's address was not found in time") from error
        except (OSError, UnicodeError) as error:
            raise httpcore.ConnectError(str(error)) from error


class PrivateAddressError(Exception):
    """A host that a user named resolves to an address that must not be called."""
