"""Notifications by e-mail: plain text, sent through the configured mail server.

Python's e-mail package is large and many servers never send mail: it is imported on first use.
"""

from __future__ import annotations

import ipaddress
from email.utils import formatdate
from urllib.parse import urlsplit

from socialpub.base.errors import rule_error
from socialpub.base.observability import redaction
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.delivery.attempts import RESPONSE_BYTES_MAX, CallResult
from socialpub.domain.delivery.notifications.message_texts import Message

SENDER_NAME = "socialpub"


def check_configured(service: AppContext) -> None:
    """Raise ApiError `notification.email.off` if no mail server is configured."""
    if not service.runtime.settings.smtp.host:
        raise rule_error("notification.email.off")


def send(service: AppContext, to: str, message: Message, reference: str) -> CallResult:
    """Submit a message and return the result. `reference` is the same for every attempt."""
    from socialpub.base import smtp as mail

    runtime, smtp = service.runtime, service.runtime.settings.smtp
    if not smtp.host:
        return CallResult(error="This server has no mail server in its settings.", name="smtp_settings")
    login, ehlo_name = (smtp.username, smtp.password), _ehlo_name(service.base_url)
    submission = mail.send_message(
        mail.SmtpServer(smtp.host, smtp.port, smtp.security, *login, smtp.ca_file, ehlo_name),
        runtime.resolver,
        smtp.sender,
        to,
        build_message(service, to, message, reference),
        deadline=runtime.settings.webhooks.timeout,
    )
    response = redaction.remove_secrets(submission.reply, (smtp.password,))[:RESPONSE_BYTES_MAX]
    return CallResult(submission.code, submission.error, submission.kind, submission.final, response or None)


def build_message(service: AppContext, to: str, message: Message, reference: str) -> bytes:
    """Build the message. The library checks header values, so none can inject a header."""
    from email.headerregistry import Address
    from email.message import EmailMessage
    from email.policy import SMTP

    smtp, mailed = service.runtime.settings.smtp, EmailMessage(SMTP)
    mailed["Subject"] = f"[{SENDER_NAME}] {message.title}"
    mailed["From"] = Address(SENDER_NAME, addr_spec=smtp.sender)
    mailed["To"] = Address(addr_spec=to)
    mailed["Date"] = formatdate(service.now_ms / 1000)
    mailed["Message-ID"] = f"<{reference}@{smtp.sender.partition('@')[2]}>"
    mailed["Auto-Submitted"] = "auto-generated"  # RFC 3834: suppresses automatic replies
    mailed.set_content("\n\n".join((message.text, "\n".join(message.links))) + "\n", cte="quoted-printable")
    return mailed.as_bytes()


def _ehlo_name(base_url: str) -> str:
    """Return this server's EHLO name: host name, or address literal (RFC 5321)."""
    host = urlsplit(base_url).hostname or "localhost"
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    return f"[IPv6:{host}]" if address.version == 6 else f"[{host}]"
