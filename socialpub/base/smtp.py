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
    """The mail server and how to connect to it; `name` is this client's name (EHLO)."""

    host: str
    port: int
    security: SmtpSecurity
    username: str
    password: str
    ca_file: str
    name: str


@dataclass(frozen=True)
class SmtpResult:
    """The result of a submission: `error` is None if the server accepted the message.

    `final`: the server refused it permanently. `code` and `reply`: its last reply, if any.
    """

    code: int | None = None
    reply: str = ""
    error: str | None = None
    kind: str | None = None
    final: bool = False


def send_message(
    server: SmtpServer, resolver: Resolver, sender: str, to: str, message: bytes, *, deadline: float
) -> SmtpResult:
    """Submit a message to a mail server within `deadline` seconds; never raises.

    `message` is complete with headers, in lines that end with CRLF.
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
    except OSError as error:  # includes the library's timeouts and lost connections
        if isinstance(error, ssl.SSLError) or isinstance(error.__cause__, ssl.SSLError):
            return SmtpResult(error="The TLS connection to the mail server failed.", kind="smtp_tls")
        return SmtpResult(error="The mail server did not respond in time, or closed the connection.", kind="timeout")
    except aiosmtplib.SMTPException:  # no STARTTLS, or no supported login
        return SmtpResult(
            error="The mail server does not support the configured security or login.", kind="smtp_settings"
        )


async def _submit(
    server: SmtpServer, connected: socket.socket, sender: str, to: str, message: bytes, ends: CallDeadline
) -> SmtpResult:
    """Run the SMTP session. The library limits a reply to 32 KiB."""
    client = aiosmtplib.SMTP(
        hostname=server.host,  # the name that the certificate must have
        local_hostname=server.name,
        sock=connected,
        timeout=None,
        use_tls=server.security == "tls",
        start_tls=False,  # done below: on failure the transport must still exist to be aborted
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
            code, reply = await client.data(message)
        if client.transport:
            cast(asyncio.WriteTransport, client.transport).write(b"QUIT\r\n")  # the message is accepted: no waiting
        return SmtpResult(code, _decode_reply(reply))
    finally:
        if client.transport:  # closing TLS would wait for the server
            cast(asyncio.WriteTransport, client.transport).abort()


def _describe_refusal(error: aiosmtplib.SMTPResponseException) -> SmtpResult:
    """Return the result for an error reply.

    A refused login may be fixed in the settings; a permanently refused message is final.
    """
    code, reply = error.code, _decode_reply(error.message)
    if isinstance(error, aiosmtplib.SMTPAuthenticationError):
        return SmtpResult(code, reply, "The mail server refused the login.", "smtp_login")
    message_errors = (aiosmtplib.SMTPSenderRefused, aiosmtplib.SMTPRecipientRefused, aiosmtplib.SMTPDataError)
    final = isinstance(error, message_errors) and code >= 500
    return SmtpResult(code, reply, f"The mail server answered {code}.", f"smtp_{code // 100}xx", final)


@functools.lru_cache(4)
def _load_ssl_context(ca_file: str) -> ssl.SSLContext:
    # Loading the certificates costs 25 ms.
    context: ssl.SSLContext = httpx.create_ssl_context(trust_env=False)
    if ca_file:
        context.load_verify_locations(ca_file)
    return context


def _decode_reply(reply: str) -> str:
    text = reply.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return " ".join(text.split())[:RESPONSE_MAX]
