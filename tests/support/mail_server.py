"""Loopback SMTP server that stores received messages and refuses on demand."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import email
import email.policy
import ipaddress
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.message import EmailMessage
from pathlib import Path
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

USERNAME, PASSWORD = "socialpub@mail.test", "correct-horse-battery"
SENDER = "socialpub@example.org"


@dataclass(frozen=True)
class ReceivedMail:
    """A message as it came, and how."""

    sender: str
    to: list[str]
    content: bytes
    secured: bool
    login: str | None

    @property
    def message(self) -> EmailMessage:
        parsed: Any = email.message_from_bytes(self.content, policy=email.policy.default)
        return parsed

    @property
    def text(self) -> str:
        return str(self.message.get_content()).replace("\r\n", "\n")


@dataclass
class MailServer:
    """What came. `refusal`: what is said to the next recipients, by their address; "" to the message itself."""

    port: int = 0
    ca_file: str = ""
    got: list[ReceivedMail] = field(default_factory=list)
    refusal: dict[str, str] = field(default_factory=dict)
    greeted: int = 0
    needs_login: bool = False
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def settings(self, security: str = "none", *, login: bool = False, **more: Any) -> dict[str, Any]:
        """`[smtp]` for this server."""
        names = {"username": USERNAME, "password": PASSWORD} if login else {}
        trusted = {"ca_file": self.ca_file} if security != "none" else {}
        here = {"host": "127.0.0.1", "port": self.port, "security": security, "sender": SENDER}
        return {**here, **names, **trusted, **more}

    def wait(self, count: int, seconds: float = 30) -> list[ReceivedMail]:
        """The messages, once there are so many."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.got) >= count, seconds), f"{len(self.got)} of {count} came"
            return list(self.got)

    # --- What aiosmtpd calls ---

    async def handle_EHLO(
        self, server: SMTP, session: Session, envelope: Envelope, hostname: str, responses: list[str]
    ) -> list[str]:
        self.greeted += 1
        session.host_name = hostname
        return responses

    async def handle_RCPT(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if self.needs_login and session.auth_data is None:
            return "530 5.7.0 Authentication required"
        if address in self.refusal:
            return self.refusal[address]
        envelope.rcpt_tos.append(address)
        return "250 2.1.5 Ok"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        if "" in self.refusal:
            return self.refusal[""]
        assert envelope.mail_from is not None
        assert isinstance(envelope.original_content, bytes)
        login = session.auth_data.login.decode() if isinstance(session.auth_data, LoginPassword) else None
        assert server.transport is not None
        secured = server.transport.get_extra_info("ssl_object") is not None
        mailed = ReceivedMail(envelope.mail_from, list(envelope.rcpt_tos), envelope.original_content, secured, login)
        with self._changed:
            self.got.append(mailed)
            self._changed.notify_all()
        return "250 2.0.0 Ok: queued as 4F1A"


def _authenticate(server: SMTP, session: Session, envelope: Envelope, mechanism: str, auth_data: Any) -> AuthResult:
    good = isinstance(auth_data, LoginPassword) and auth_data == LoginPassword(USERNAME.encode(), PASSWORD.encode())
    return AuthResult(success=good, handled=False, auth_data=auth_data)


@contextlib.contextmanager
def running_mail_server(
    folder: Path, security: str = "none", *, login: bool = False, name: str = "127.0.0.1"
) -> Iterator[MailServer]:
    """A server that is secured like this. `login`: it takes mail from who logs in only. `name`: on its certificate."""
    room, tls = MailServer(needs_login=login), None
    if security != "none":
        room.ca_file = str(make_certificate(folder, name))
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(room.ca_file)
    loop = asyncio.new_event_loop()
    options: dict[str, Any] = {"authenticator": _authenticate} if login else {}
    if security == "starttls":
        options |= {"tls_context": tls, "require_starttls": True}
    else:
        options["auth_require_tls"] = False

    def session() -> SMTP:
        return SMTP(room, hostname="mail.test", loop=loop, **options)

    making = loop.create_server(session, "127.0.0.1", 0, ssl=tls if security == "tls" else None)
    server = loop.run_until_complete(making)
    room.port = server.sockets[0].getsockname()[1]
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield room
    finally:
        loop.call_soon_threadsafe(server.close)
        asyncio.run_coroutine_threadsafe(_ended(), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(60)
        loop.close()


async def _ended() -> None:
    """Whoever is still connected is cut off."""
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


def make_certificate(folder: Path, name: str) -> Path:
    """A file with a key and the certificate of an address or a name, which a client may trust."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "mail")])
    start = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    try:
        names: list[x509.GeneralName] = [x509.IPAddress(ipaddress.ip_address(name))]
    except ValueError:
        names = [x509.DNSName(name)]
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(start)
        .not_valid_after(start + datetime.timedelta(days=9))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = folder / "mail.pem"
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.write_bytes(key.private_bytes(*form) + made.public_bytes(serialization.Encoding.PEM))
    return path
