"""Invitations by e-mail, if a mail server is configured. The inviter gets the link anyway."""

from __future__ import annotations

import re

from socialpub.base.concurrency.fair_executor import ShareKey
from socialpub.base.value_formats import EMAIL_PATTERN
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.delivery.attempts import run_timed
from socialpub.domain.delivery.notifications import email
from socialpub.domain.delivery.notifications.message_texts import NAME_MAX, Message
from socialpub_client.terminal_text import escape_controls

_TEXT = "{by} invites you to {house}. The link works once, within a week: you choose a password, and are in."


def get_share_key(service: AppContext, organization: str) -> ShareKey | None:
    """Return the share key of the mail server; None without one."""
    host = service.runtime.settings.smtp.host
    return ShareKey(host, organization) if host else None


def send(service: AppContext, to: str, by: str, organization: str, link: str) -> str | None:
    """Mail an invitation; return None on success, else the error text. Never raises."""
    if not re.fullmatch(EMAIL_PATTERN, to):
        return "No mail can be sent to such an address."
    house = escape_controls(organization)[:NAME_MAX]
    message = Message(f"An invitation to {house}", _TEXT.format(by=by, house=house), (link,))
    reference = service.runtime.ids.uuid()
    return run_timed(service, reference, lambda: email.send(service, to, message, reference)).error
