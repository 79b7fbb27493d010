"""Notifications by e-mail: plain text, sent through the configured mail server.

Python's e-mail package is large and many servers never send mail: it is imported on first use.
"""

from __future__ import annotations

import ipaddress
from email.utils import formatdate
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from socialpub.base.errors import rule_error
from socialpub.base.observability import redaction
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.notifications.words import Message
from socialpub.domain.outbox.calls import KEPT_MAX, End

if TYPE_CHECKING:
    from socialpub.base.smtp import SmtpServer

NAME = "socialpub"


def check(service: AppContext) -> None:
    """Raise ApiError `notification.email.off` if no mail server is configured."""
    if not service.runtime.settings.smtp.host:
        raise rule_error("notification.email.off")


def send(service: AppContext, to: str, message: Message, reference: str) -> End:
    """Submit a message and return the result. `reference` is the same for every attempt."""
    from socialpub.base import smtp as mail

    runtime, settings = service.runtime, service.runtime.settings
    if not settings.smtp.host:
        return End(error="This server has no mail server in its settings.", name="smtp_settings")
    handed = mail.send_message(
        _server(service),
        runtime.resolver,
        settings.smtp.sender,
        to,
        written(service, to, message, reference),
        deadline=settings.webhooks.timeout,
    )
    said = redaction.remove_secrets(handed.said, (settings.smtp.password,))[:KEPT_MAX]
    return End(handed.code, handed.error, handed.kind, handed.final, said or None)


def written(service: AppContext, to: str, message: Message, reference: str) -> bytes:
    """Build the message. The library checks header values, so none can inject a header."""
    from email.headerregistry import Address
    from email.message import EmailMessage
    from email.policy import SMTP

    smtp, mailed = service.runtime.settings.smtp, EmailMessage(SMTP)
    mailed["Subject"] = f"[{NAME}] {message.title}"
    mailed["From"] = Address(NAME, addr_spec=smtp.sender)
    mailed["To"] = Address(addr_spec=to)
    mailed["Date"] = formatdate(service.now_ms / 1000)
    mailed["Message-ID"] = f"<{reference}@{smtp.sender.partition('@')[2]}>"
    mailed["Auto-Submitted"] = "auto-generated"  # RFC 3834: suppresses automatic replies
    mailed.set_content("\n\n".join((message.text, "\n".join(message.links))) + "\n", cte="quoted-printable")
    return mailed.as_bytes()


def _server(service: AppContext) -> SmtpServer:
    from socialpub.base import smtp as mail

    smtp = service.runtime.settings.smtp
    login = (smtp.username, smtp.password)
    return mail.SmtpServer(smtp.host, smtp.port, smtp.security, *login, smtp.ca_file, _name(service.base_url))


def _name(base_url: str) -> str:
    """Return this server's EHLO name: host name, or address literal (RFC 5321)."""
    host = urlsplit(base_url).hostname or "localhost"
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    return f"[IPv6:{host}]" if address.version == 6 else f"[{host}]"
