"""The network beneath outbound HTTP: checked addresses, one deadline over a whole call, bounds on response framing.

`PolicyBackend` and `DeadlineStream` are httpcore's own extension points; SMTP connects through `PolicyBackend` too.
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
STAGGER_SECONDS = 0.3  # an address that is silent for so long no longer holds up the next one (RFC 8305, 5)
ADDRESSES_MAX = 8  # of a name that are tried
REMEMBERED_MAX = 1024  # names of which the address that answered is remembered
CHUNK_BYTES = 64 * 1024
HEAD_MAX = 100 * 1024  # bytes of a response head
FIELDS_MAX = 512  # header fields of a response: each costs h11 a few microseconds of the interpreter
HEADS_MAX = 16  # informational responses before a response, and that itself
FRAMING_MAX = 1024  # bytes of chunk sizes, extensions and trailers without any content between them
FRAMING_FREE = 16 * 1024  # bytes of them in one body, besides a sixteenth of its content
FRAMING_SHARE = 1 / 16
RESOLVER_THREADS = 32

# h11's patterns take time quadratic in a run of white space before a byte that they refuse: 100 KB of it hold the
# interpreter for a minute (h11 0.16, the patterns `header_field` and `chunk_header`). No such run reaches them.
_LONG_WHITE_SPACE = re.compile(rb"(?<![ \t\r\n])[ \t\r\n]{256}")
_BLANK_LINE = re.compile(rb"\n\r?\n")

Resolver = Callable[[str, int], list[str]]


@dataclass(frozen=True)
class ConnectionPolicy:
    """How calls of one client may go. `guarded`: https to public addresses only, except those that are `named`."""

    guarded: bool
    resolver: Resolver
    named: ssrf.AllowedHosts = ssrf.NO_ALLOWED_HOSTS

    def may_connect(self, host: str, address: str, port: int) -> bool:
        """Whether a call to this host may connect to the address that it resolved to."""
        if not self.guarded or self.named.has_host(host.lower()) or self.named.has_address(address):
            return True
        return ssrf.may_connect(address, port)


def resolve(host: str, port: int) -> list[str]:
    """The addresses of a host, as the system resolves it."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


UNGUARDED_POLICY = ConnectionPolicy(guarded=False, resolver=resolve)
"""For addresses that the operator named."""


resolver_executor = FairExecutor(RESOLVER_THREADS, "resolver")
"""A look-up cannot be stopped: a name whose server is silent keeps its slot, so there are shares here too."""


@dataclass
class CallDeadline:
    """When the call that is under way over a connection must be over, on the monotonic clock."""

    at: float

    def remaining(self, timeout: float | None, error: type[Exception]) -> float:
        """The seconds left for one operation; raises `error` when the whole call's time is over."""
        left = self.at - time.monotonic()
        if left <= 0:
            raise error("the call's deadline is over")
        return left if timeout is None else min(timeout, left)


class DeadlineStream(httpcore.NetworkStream):
    """A connection whose every read and write ends with the call's deadline.

    The head of a request is sent together with what follows it (its body, or the empty write with which httpcore ends
    a request): two packets would wake the other side twice.

    The head of a response is handed to h11 whole, after a look at it, and chunked framing in small pieces: see
    `_LONG_WHITE_SPACE`. `has_head`: one was read since the last request. `is_broken`: a write failed.
    """

    def __init__(self, connected: socket.socket, deadline: CallDeadline) -> None:
        self._socket, self._deadline = connected, deadline
        self._pending = b""  # the head of a request
        self._is_between_requests = self._is_before_body = True
        self._received, self._at = bytearray(), 0  # what has arrived, and how much of it was handed on
        self._last = b""  # the last bytes that were handed on
        self._left: float = 0  # bytes of the body
        self._is_chunked, self._framing, self._framing_left = False, 0, 0.0
        self._heads = 0  # since the last request
        self.has_head = self.is_broken = False

    # --- Writing ---

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if self._is_between_requests:
            self._is_between_requests, self._is_before_body, self.has_head = False, True, False
            self._heads = 0
            if len(buffer) < CHUNK_BYTES:
                self._pending = buffer
                return
        self._send(buffer, timeout)

    def _send(self, buffer: bytes, timeout: float | None) -> None:
        # Not sendall, whose time begins again with each part that the other side takes.
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

    def begin_body(self, length: int | None, *, chunked: bool) -> None:
        """Read a body from now on, of `length` bytes where that is known. Call `count_content` for each piece of it."""
        self._is_before_body, self._is_chunked = False, chunked
        self._framing, self._framing_left = 0, FRAMING_FREE
        self._left = float("inf") if length is None else length

    def count_content(self, size: int) -> None:
        """Note that so many bytes of content were found in what was read."""
        self._framing = 0
        self._framing_left += size + size * FRAMING_SHARE

    @property
    def has_surplus(self) -> bool:
        """Whether more than one response has arrived: h11 would take the rest for the next one."""
        return bool(self._received) or (self._is_chunked and not self._last.endswith((b"\n\r\n", b"\n\n")))

    def _read_head(self, timeout: float | None) -> bytes:
        """A whole head (an informational response has one of its own), up to the blank line and with it."""
        start = self._at
        while (blank := _BLANK_LINE.search(self._received, start)) is None:
            if len(self._received) - self._at > HEAD_MAX:
                raise httpcore.RemoteProtocolError("the head of the response has no end")
            start = max(self._at, len(self._received) - 2)
            if not self._receive(timeout):
                raise httpcore.RemoteProtocolError("the server hung up before the end of the head")
        head = self._hand_on(blank.end() - self._at)
        if _LONG_WHITE_SPACE.search(head):
            raise httpcore.RemoteProtocolError("the head of the response is mostly white space")
        if head.count(b"\n") - 2 > FIELDS_MAX:  # besides the first line and the last
            raise httpcore.RemoteProtocolError("the response has too many header fields")
        self._heads += 1
        if self._heads > HEADS_MAX:
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
        piece = self._hand_on(int(min(max_bytes, self._left)))
        self._left -= len(piece)
        self._framing += len(piece)
        self._framing_left -= len(piece)
        return piece

    def _receive(self, timeout: float | None) -> bool:
        """Wait for more; False when the other side has hung up."""
        self._socket.settimeout(self._deadline.remaining(timeout, httpcore.ReadTimeout))
        try:
            piece = self._socket.recv(CHUNK_BYTES)
        except TimeoutError as error:
            raise httpcore.ReadTimeout(str(error)) from error
        except OSError as error:
            raise httpcore.ReadError(str(error)) from error
        self._received += piece
        return bool(piece)

    def _hand_on(self, size: int) -> bytes:
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
        """Of the names that httpcore knows: `socket`, `ssl_object` and `is_readable`; None for any other."""
        if info == "socket":
            return self._socket
        if info == "ssl_object":
            return self._socket if isinstance(self._socket, ssl.SSLSocket) else None
        return _is_readable(self._socket) if info == "is_readable" else None


def _is_readable(connected: socket.socket) -> bool:
    """Whether the other side has sent something, or hung up."""
    if connected.fileno() < 0 or (isinstance(connected, ssl.SSLSocket) and connected.pending()):
        return True
    waiting = select.poll()
    waiting.register(connected, select.POLLIN)
    return bool(waiting.poll(0))


# --- Connecting ----------------------------------------------------------------------------------------------------


class _AddressMemory:
    """Which address of a name answered, where that was not its first one: it is tried first from then on."""

    def __init__(self) -> None:
        self._addresses: dict[tuple[str, int], str] = {}
        self._lock = threading.Lock()

    def ordered(self, host: str, port: int, addresses: Sequence[str]) -> list[str]:
        """At most ADDRESSES_MAX addresses in the order in which to try them, the two families by turns."""
        known = self._addresses.get((host, port))
        found = sorted(addresses, key=lambda address: address != known)
        first = [address for address in found if (":" in address) == (":" in found[0])]
        others = [address for address in found if address not in first]
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
    """A connection to the address that answers first, and that address.

    The next one is tried as soon as one refuses, and after STAGGER_SECONDS beside those that are silent. Raises
    httpcore.ConnectError when all of them refuse, ConnectTimeout when none has answered in time.
    """
    ends_at, rest = time.monotonic() + seconds, list(addresses)
    failure = "the host has no address"
    with selectors.DefaultSelector() as waiting:
        try:
            while rest or waiting.get_map():
                if rest and (refused := _start_connecting(waiting, rest.pop(0), port)):
                    failure = refused
                    continue
                left = ends_at - time.monotonic()
                if left <= 0:
                    raise httpcore.ConnectTimeout("no address answered in time")
                for key, _ in waiting.select(min(left, STAGGER_SECONDS) if rest else left):
                    connected: socket.socket = key.fileobj  # type: ignore[assignment]
                    waiting.unregister(connected)
                    if not (code := connected.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)):
                        return connected, key.data
                    failure = os.strerror(code)
                    connected.close()
        finally:
            for key in list(waiting.get_map().values()):
                key.fileobj.close()  # type: ignore[union-attr]
    raise httpcore.ConnectError(failure)


def _start_connecting(waiting: selectors.BaseSelector, address: str, port: int) -> str:
    """Begin to connect; why that cannot be, or nothing."""
    try:
        connecting = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    except OSError as error:  # a family that this machine does not have, or no descriptor left
        return str(error)
    connecting.setblocking(False)
    code = connecting.connect_ex((address, port))
    if code in (0, errno.EINPROGRESS):
        waiting.register(connecting, selectors.EVENT_WRITE, address)
        return ""
    connecting.close()
    return os.strerror(code)


class PolicyBackend(httpcore.NetworkBackend):
    """Connections by a policy. PrivateAddressError before anything is connected, when one address may not be."""

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
        left = self._deadline.remaining(timeout, httpcore.ConnectTimeout)
        connected, address = _connect_first(_address_memory.ordered(host, port, addresses), port, left)
        if len(addresses) > 1:
            _address_memory.remember(host, port, addresses, address)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.settimeout(left)
        return DeadlineStream(connected, self._deadline)

    def _addresses(self, host: str, port: int) -> list[str]:
        found = self._resolved(host, port)
        if not all(self._policy.may_connect(host, address, port) for address in found):
            raise PrivateAddressError(host)
        return found

    def _resolved(self, host: str, port: int) -> list[str]:
        # The system's resolver takes no timeout, so it is waited for from outside.
        share = ShareKey(host, current_share_key.get().owner)
        asked = resolver_executor.submit_for(share, self._policy.resolver, host, port)
        try:
            return asked.result(self._deadline.remaining(CONNECT_SECONDS, httpcore.ConnectTimeout))
        except concurrent.futures.TimeoutError as error:
            resolver_executor.withdraw(share, asked)
            raise httpcore.ConnectTimeout("the host's address was not found in time") from error
        except (OSError, UnicodeError) as error:
            raise httpcore.ConnectError(str(error)) from error


class PrivateAddressError(Exception):
    """A name that a user gave resolves to an address that must not be called."""
