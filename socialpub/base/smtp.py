"""Submission of a message to the configured mail server (SMTP) within one deadline."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import socket
import ssl
import time
from dataclasses import dataclass
from typing import Literal, cast

import aiosmtplib
import httpcore
import httpx

from socialpub.base.http.network import CallDeadline, ConnectionPolicy, PolicyBackend, Resolver

RESPONSE_MAX = 8 * 1024
SmtpSecurity = Literal["starttls", "tls", "none"]


@dataclass(frozen=True)
class SmtpServer:
    """Which server, and how it is spoken to. `name`: what this side calls itself."""

    host: str
    port: int
    security: SmtpSecurity
    username: str
    password: str
    ca_file: str
    name: str


@dataclass(frozen=True)
class SmtpResult:
    """What became of a message. `error` is None where the server has taken it; `final`: it never will.

    `code` and `said`: the server's last word, where there was one.
    """

    code: int | None = None
    said: str = ""
    error: str | None = None
    kind: str | None = None
    final: bool = False


def send_message(
    server: SmtpServer, resolver: Resolver, sender: str, to: str, message: bytes, *, deadline: float
) -> SmtpResult:
    """Submit a message to a mail server. Waits at most `deadline` seconds, and raises nothing.

    `message` is whole, headers and all, in lines that end with CRLF.
    """
    ends = CallDeadline(time.monotonic() + deadline)
    try:
        stream = PolicyBackend(ConnectionPolicy(False, resolver), ends).connect_tcp(server.host, server.port)
        with contextlib.closing(stream.get_extra_info("socket")) as connected:
            return asyncio.run(_submit(server, connected, sender, to, message, ends))
    except aiosmtplib.SMTPResponseException as error:
        return _describe_refusal(error)
    except (httpcore.ConnectError, httpcore.ConnectTimeout):
        return SmtpResult(error="The mail server could not be reached.", kind="unreachable")
    except OSError as error:  # the library's own for timeouts and lost connections are among these
        if isinstance(error, ssl.SSLError) or isinstance(error.__cause__, ssl.SSLError):
            return SmtpResult(error="No secure connection to the mail server came about.", kind="smtp_tls")
        return SmtpResult(error="The mail server did not respond in time, or closed the connection.", kind="timeout")
    except aiosmtplib.SMTPException:  # no STARTTLS, or no way to log in
        return SmtpResult(error="The mail server does not offer what the settings ask for.", kind="smtp_settings")


async def _submit(
    server: SmtpServer, connected: socket.socket, sender: str, to: str, message: bytes, ends: CallDeadline
) -> SmtpResult:
    """Hold the conversation. The library limits a response to 32 KiB."""
    client = aiosmtplib.SMTP(
        hostname=server.host,  # the name that the certificate must have
        local_hostname=server.name,
        sock=connected,
        timeout=None,
        use_tls=server.security == "tls",
        start_tls=False,  # done below, so that the transport is still there to abort when it fails
        tls_context=_load_ssl_context(server.ca_file),
    )
    try:
        async with asyncio.timeout(ends.remaining(None, TimeoutError)):
            await client.connect()
            if server.security == "starttls":
                await client.starttls()
            if server.username:
                await client.login(server.username, server.password)
            await client.mail(sender)
            await client.rcpt(to)
            code, said = await client.data(message)
        if client.transport:
            cast(asyncio.WriteTransport, client.transport).write(b"QUIT\r\n")  # the message is accepted: no waiting
        return SmtpResult(code, _decode_reply(said))
    finally:
        if client.transport:  # closing TLS would wait for the server
            cast(asyncio.WriteTransport, client.transport).abort()


def _describe_refusal(error: aiosmtplib.SMTPResponseException) -> SmtpResult:
    """A login that is refused may be mended in the settings; a message that is refused for good is final."""
    code, said = error.code, _decode_reply(error.message)
    if isinstance(error, aiosmtplib.SMTPAuthenticationError):
        return SmtpResult(code, said, "The mail server refused the login.", "smtp_login")
    of_message = (aiosmtplib.SMTPSenderRefused, aiosmtplib.SMTPRecipientRefused, aiosmtplib.SMTPDataError)
    final = isinstance(error, of_message) and code >= 500
    return SmtpResult(code, said, f"The mail server answered {code}.", f"smtp_{code // 100}xx", final)


@functools.lru_cache(4)
def _load_ssl_context(ca_file: str) -> ssl.SSLContext:
    # Loading the certificates costs 25 ms.
    context: ssl.SSLContext = httpx.create_ssl_context(trust_env=False)
    if ca_file:
        context.load_verify_locations(ca_file)
    return context


def _decode_reply(said: str) -> str:
    text = said.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return " ".join(text.split())[:RESPONSE_MAX]
