"""Kinds of errors: one table for retries, waits, plans and exit codes."""

from __future__ import annotations

from dataclasses import dataclass

from socialpub_client import errors


@dataclass(frozen=True)
class ErrorKind:
    """Kind of an error, by what follows from it.

    `again`: the same request is sent again. `passes`: the server may answer later. `may_be_accepted`: the request may
    have been accepted. `settles`: no earlier try of the request was accepted.
    """

    again: bool = False
    passes: bool = False
    may_be_accepted: bool = False
    settles: bool = False


LOST = ErrorKind(again=True, passes=True, may_be_accepted=True)
BUSY = ErrorKind(again=True, passes=True)
RUNNING = ErrorKind(again=True, may_be_accepted=True)
"""The first try of the request is still being answered."""
FOREIGN = ErrorKind(passes=True)
"""A proxy without its server, or another program. The request is not repeated: the address may be wrong."""
WRONG_KEY = ErrorKind()
REFUSED = ErrorKind(settles=True)

RUNNING_RULE = "idempotency_key.in_progress"
BUSY_RULES = {"http.busy", "storage.unavailable"}
"""Rules of a 503 by which the server says that it has accepted nothing."""


def classify(error: errors.SocialpubError) -> ErrorKind:
    """Return the kind of an error.

    A 5xx is of the server or of a proxy, which has more statuses than the server; a 2xx is a page of a proxy or a
    hotel, or a part of the answer.
    """
    status = error.status or 0
    if isinstance(error, errors.ConnectionFailed) or status == 429 or (status == 503 and error.rule in BUSY_RULES):
        return BUSY
    if status == 408 or status >= 500 or 200 <= status < 300:
        return LOST
    if isinstance(error, errors.UnexpectedAnswer):
        return FOREIGN
    if error.rule == RUNNING_RULE:
        return RUNNING
    return WRONG_KEY if status in (401, 403) else REFUSED
