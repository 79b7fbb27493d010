"""Handing a message to a mail server (SMTP), within one deadline; it goes to the server of the settings alone."""

from __future__ import annotations

import functools
import smtplib
import socket
import ssl
import time
from dataclasses import dataclass
from typing import Any, Literal

import httpcore
import httpx

from socialpub.base.http.network import Backend, Deadline, Policy, Resolver

LINE_MAX = 8 * 1024
SAID_MAX = 64 * 1024  # of all that a server says
Security = Literal["starttls", "tls", "none"]


@dataclass(frozen=True)
class MailServer:
    """Which server, and how it is spoken to. `name`: what this side calls itself."""

    host: str
    port: int
    security: Security
    username: str
    password: str
    ca_file: str
    name: str


@dataclass(frozen=True)
class Handed:
    """What became of a message. `error` is None where the server has taken it; `final`: it never will.

    `code` and `said`: the server's last word, where there was one.
    """

    code: int | None = None
    said: str = ""
    error: str | None = None
    kind: str | None = None
    final: bool = False


def hand_over(
    server: MailServer, resolver: Resolver, sender: str, to: str, message: bytes, *, deadline: float
) -> Handed:
    """Hand a message to a mail server. It waits no longer than `deadline` seconds, and raises nothing.

    `message` is whole, headers and all, in lines that end with CRLF.
    """
    client = _Client(server, resolver, Deadline(time.monotonic() + deadline))
    try:
        client.greet()
        return client.hand(sender, to, message)
    except smtplib.SMTPResponseException as error:
        return _refused(error)
    except smtplib.SMTPNotSupportedError:
        return Handed(error="The mail server does not offer what the settings ask for.", kind="smtp_settings")
    except ssl.SSLError:
        return Handed(error="No secure connection to the mail server came about.", kind="smtp_tls")
    except (httpcore.ConnectError, httpcore.ConnectTimeout):
        return Handed(error="The mail server could not be reached.", kind="unreachable")
    except (OSError, smtplib.SMTPException):
        return Handed(error="The mail server did not respond in time, or closed the connection.", kind="timeout")
    finally:
        client.close()


def _refused(error: smtplib.SMTPResponseException) -> Handed:
    """A login that is refused may be mended in the settings; a message that is refused for good is final."""
    code, said = error.smtp_code, _text(error.smtp_error)
    if isinstance(error, smtplib.SMTPAuthenticationError):
        return Handed(code, said, "The mail server refused the login.", "smtp_login")
    if isinstance(error, _MessageRefusedError):
        return Handed(code, said, f"The mail server answered {code}.", f"smtp_{code // 100}xx", code >= 500)
    return Handed(code, said, f"The mail server answered {code}.", f"smtp_{code // 100}xx")


class _MessageRefusedError(smtplib.SMTPResponseException):
    """The server takes no such message, or none for this address."""


class _Client(smtplib.SMTP):
    """The library's client, over a connection whose every wait ends with the deadline."""

    def __init__(self, server: MailServer, resolver: Resolver, deadline: Deadline) -> None:
        super().__init__(local_hostname=server.name)
        self._server, self._resolver, self._deadline = server, resolver, deadline
        self._host = server.host  # the name that the certificate must have

    def greet(self) -> None:
        """Connect, secure the connection as the settings say, and log in."""
        server = self._server
        code, said = self.connect(server.host, server.port)
        if code != 220:
            raise smtplib.SMTPConnectError(code, said)
        if server.security == "starttls":
            self.starttls(context=_context(server.ca_file))
        self.ehlo_or_helo_if_needed()
        if server.username:
            self.login(server.username, server.password)

    def hand(self, sender: str, to: str, message: bytes) -> Handed:
        """The message, for one address."""
        _expect(*self.mail(sender), 250)
        _expect(*self.rcpt(to), 250, 251)
        try:
            code, said = self.data(message)
        except smtplib.SMTPDataError as error:  # the command, before anything of the message
            raise _MessageRefusedError(error.smtp_code, error.smtp_error) from error
        _expect(code, said, 250)
        self.putcmd("quit")
        return Handed(code, _text(said))

    def connect(self, host: str = "", port: int = 0, source_address: Any = None) -> tuple[int, bytes]:
        stream = Backend(Policy(False, self._resolver), self._deadline).connect_tcp(host, port)
        sock = stream.get_extra_info("socket")
        sock.settimeout(self._deadline.remaining(None, TimeoutError))
        secured = self._server.security == "tls"
        self.sock = _context(self._server.ca_file).wrap_socket(sock, server_hostname=host) if secured else sock
        self.file = None
        return self.getreply()

    def send(self, s: Any) -> None:
        if self.sock:
            self.sock.settimeout(self._deadline.remaining(None, TimeoutError))
        super().send(s)

    def getreply(self) -> tuple[int, bytes]:
        if self.file is None and self.sock:
            self.file = _Lines(self.sock, self._deadline)
        return super().getreply()


def _expect(code: int, said: bytes, *good: int) -> None:
    if code not in good:
        raise _MessageRefusedError(code, said)


class _Lines:
    """What a server says, line by line: as much as is allowed, and as long."""

    def __init__(self, sock: socket.socket, deadline: Deadline) -> None:
        self._sock, self._deadline = sock, deadline
        self._read, self._all = b"", 0

    def readline(self, most: int) -> bytes:
        """The next line with its end; an OSError where none comes."""
        while b"\n" not in self._read and len(self._read) < most:
            self._sock.settimeout(self._deadline.remaining(None, TimeoutError))
            piece = self._sock.recv(LINE_MAX)
            self._all += len(piece)
            if not piece or self._all > SAID_MAX:
                raise ConnectionError("the server hung up, or talks on and on")
            self._read += piece
        line, end, self._read = self._read.partition(b"\n")
        return line + end

    def close(self) -> None:
        """The connection is closed beside it."""


@functools.lru_cache(4)
def _context(ca_file: str) -> ssl.SSLContext:
    # Loading the certificates costs 25 ms.
    context: ssl.SSLContext = httpx.create_ssl_context(trust_env=False)
    if ca_file:
        context.load_verify_locations(ca_file)
    return context


def _text(said: bytes | str) -> str:
    text = said if isinstance(said, str) else said.decode("utf-8", "replace")
    return " ".join(text.split())[:LINE_MAX]
