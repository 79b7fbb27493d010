"""The sockets under a call: one deadline over everything that it does, addresses that were checked and are then used.

Also the socket that the web server listens on.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import errno
import itertools
import os
import select
import selectors
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpcore

from socialpub.base import guard
from socialpub.base.fair import Pool, Share, working_for

CONNECT_SECONDS = 10.0
STAGGER_SECONDS = 0.3  # an address that is silent for so long no longer holds up the next one (RFC 8305, 5)
ADDRESSES_MAX = 8  # of a name that are tried
REACHED_MAX = 1024  # names of which the address that answered is remembered
CHUNK = 64 * 1024
SHORT_SECONDS = 0.1
RESOLVERS = 32
SILENT_SECONDS = 30  # for which the kernel keeps a connection that says nothing; it rounds this up

Resolver = Callable[[str, int], list[str]]


@dataclass(frozen=True)
class Policy:
    """How calls of one client may go. `guarded`: https to public addresses only, but for those that are `named`."""

    guarded: bool
    resolver: Resolver
    named: guard.Allowed = guard.NOBODY_ALLOWED

    def may_connect(self, host: str, address: str, port: int) -> bool:
        """Whether a call to this host may connect to the address that it resolved to."""
        if not self.guarded or self.named.has_host(host.lower()) or self.named.has_address(address):
            return True
        return guard.may_connect(address, port)


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


def keep_the_silent(listening: socket.socket) -> None:
    """Have the kernel keep who connects and says nothing, where it can (Linux).

    A thousand of them would be accepted, one after the other, before whoever comes next and has something to ask. With
    so many in its hands the kernel needs SYN cookies, or it would take nobody else.
    """
    if sys.platform == "linux" and _has_cookies():
        with contextlib.suppress(OSError):  # of a kernel that does not know it
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, SILENT_SECONDS)


def _has_cookies() -> bool:
    try:
        return Path("/proc/sys/net/ipv4/tcp_syncookies").read_text().strip() != "0"
    except OSError:
        return False


resolvers = Pool(RESOLVERS, "resolver")
"""A look-up cannot be stopped: a name whose server is silent keeps its place, so there are shares here too."""


@dataclass
class Deadline:
    """When the call that is under way over a connection must be over, on the monotonic clock."""

    at: float = float("inf")
    broken: bool = False  # a write failed: nothing more may be sent over this connection

    def cut(self, timeout: float | None, error: type[Exception]) -> float:
        """The time left for one operation; raises `error` when the whole call's time is over."""
        left = self.at - time.monotonic()
        if left <= 0:
            raise error("the call's deadline is over")
        return left if timeout is None else min(timeout, left)


class Stream(httpcore.NetworkStream):
    """A connection whose every read and write ends with the call's deadline.

    The head of a request goes out with what follows it, its body or the end that httpcore tells by writing nothing:
    as two pieces it would wake the other side twice, and this thread would lose the interpreter twice.
    """

    def __init__(self, connected: socket.socket, deadline: Deadline) -> None:
        self._socket, self._deadline = connected, deadline
        self._seconds = float("inf")  # for which the socket waits
        self._head: bytes | None = b""  # what is kept for the next write; None: it has gone out

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if self._head:
            self._send(b"", timeout)
        self._head = b""
        while True:
            self._hurry(timeout, httpcore.ReadTimeout)
            try:
                return self._socket.recv(max_bytes)
            except TimeoutError:
                continue  # it waited for a part of what is left
            except OSError as error:
                raise httpcore.ReadError(str(error)) from error

    def _hurry(self, timeout: float | None, error: type[Exception]) -> None:
        """Have the socket wait no longer than is left; raises `error` where nothing is left.

        It waits for somewhat less, so that calls of the same length have it told once: that is a call of the system.
        """
        left = self._deadline.cut(timeout, error)
        if not left / 2 <= self._seconds <= left:
            self._seconds = left if left < SHORT_SECONDS else left * 0.75
            self._socket.settimeout(self._seconds)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if self._head == b"" and len(buffer) < CHUNK:
            self._head = buffer
        else:
            self._send(buffer, timeout)

    def _send(self, buffer: bytes, timeout: float | None) -> None:
        # Not the inner stream's write: its time begins anew with each part that the other side takes.
        head, self._head = self._head, None
        rest = memoryview(head + buffer if head else buffer)
        while rest:
            self._hurry(timeout, httpcore.WriteTimeout)
            try:
                rest = rest[self._socket.send(rest[:CHUNK]) :]
            except TimeoutError:
                continue  # it waited for a part of what is left
            except OSError as error:
                self._deadline.broken = True
                raise httpcore.WriteError(str(error)) from error

    def close(self) -> None:
        self._socket.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        self._socket.settimeout(self._deadline.cut(timeout, httpcore.ConnectTimeout))
        try:
            return Stream(ssl_context.wrap_socket(self._socket, server_hostname=server_hostname), self._deadline)
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
    if connected.fileno() < 0:
        return True
    waiting = select.poll()
    waiting.register(connected, select.POLLIN)
    return bool(waiting.poll(0))


# --- Connecting ----------------------------------------------------------------------------------------------------


class _Reached:
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
                if len(self._addresses) > REACHED_MAX:
                    del self._addresses[next(iter(self._addresses))]


_reached = _Reached()


def _raced(addresses: Sequence[str], port: int, seconds: float) -> tuple[socket.socket, str]:
    """A connection to the address that answers first, and that address.

    The next one is tried as soon as one refuses, and after STAGGER_SECONDS beside those that are silent. Raises
    httpcore.ConnectError when all of them refuse, ConnectTimeout when none has answered in time.
    """
    ends_at, rest = time.monotonic() + seconds, list(addresses)
    failure = "the host has no address"
    with selectors.DefaultSelector() as waiting:
        try:
            while rest or waiting.get_map():
                if rest and (refused := _begin(waiting, rest.pop(0), port)):
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


def _begin(waiting: selectors.BaseSelector, address: str, port: int) -> str:
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


class Backend(httpcore.NetworkBackend):
    """Connections by a policy. PrivateAddressError before anything is connected, when one address may not be."""

    def __init__(self, policy: Policy, deadline: Deadline) -> None:
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
        left = self._deadline.cut(timeout, httpcore.ConnectTimeout)
        connected, address = _raced(_reached.ordered(host, port, addresses), port, left)
        if len(addresses) > 1:
            _reached.remember(host, port, addresses, address)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.settimeout(left)
        return Stream(connected, self._deadline)

    def _addresses(self, host: str, port: int) -> list[str]:
        found = self._resolved(host, port)
        if not all(self._policy.may_connect(host, address, port) for address in found):
            raise PrivateAddressError(host)
        return found

    def _resolved(self, host: str, port: int) -> list[str]:
        # The system's resolver takes no timeout, so it is waited for from outside.
        share = Share(host, working_for.get().owner)
        asked = resolvers.submit_for(share, self._policy.resolver, host, port)
        try:
            return asked.result(self._deadline.cut(CONNECT_SECONDS, httpcore.ConnectTimeout))
        except concurrent.futures.TimeoutError as error:
            resolvers.withdraw(share, asked)
            raise httpcore.ConnectTimeout("the host's address was not found in time") from error
        except (OSError, UnicodeError) as error:
            raise httpcore.ConnectError(str(error)) from error


class PrivateAddressError(Exception):
    """A name that a user gave resolves to an address that must not be called."""
