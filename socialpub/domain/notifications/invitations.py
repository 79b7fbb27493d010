"""An invitation by e-mail, where the settings name a mail server. Whoever invites has the link in any case."""

from __future__ import annotations

import re

from socialpub.base.config import MAILBOX
from socialpub.base.fair import Share
from socialpub.base.redact import one_line
from socialpub.domain.core.service import Service
from socialpub.domain.notifications import email
from socialpub.domain.notifications.words import NAME_MAX, Message
from socialpub.domain.outbox.calls import timed

_TEXT = "{by} invites you to {house}. The link works once, within a week: you choose a password, and are in."


def share_of(service: Service, organization: str) -> Share | None:
    """In whose share the mail server is called; None where there is none."""
    host = service.runtime.settings.smtp.host
    return Share(host, organization) if host else None


def send(service: Service, to: str, by: str, organization: str, link: str) -> str | None:
    """Mail an invitation, now: None where the mail server has taken it, else what was wrong. It never raises."""
    if not re.fullmatch(MAILBOX, to):
        return "No mail can be sent to such an address."
    house = one_line(organization)[:NAME_MAX]
    message = Message(f"An invitation to {house}", _TEXT.format(by=by, house=house), (link,))
    reference = service.runtime.ids.uuid()
    return timed(service, reference, lambda: email.send(service, to, message, reference)).error
