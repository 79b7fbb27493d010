"""Decisions of the publishing protocol: one step per finding, without database or clock.

    Finding                                                        Step
    Resumed, Doubted  before the time of the lookup                Wait
                      the account is revoked, the send was refused Refused
                      else                                         Look
    Sent              published                                    Bind
                      accepted, not finished                       Follow
                      refused or not sent, and nothing else open   Refused; Compare if refused as a duplicate
                      anything else                                Doubt
    Compared          an earlier send made it                      Bind
                      none did                                     Refused
                      unknown                                      Duplicate
    Looked            published                                    Bind
                      accepted, not finished                       Follow
                      not found, and a resend is harmless          Resend (never for a revoked account)
                      not found, which is proof of absence         Refused if it was, else NotThere
                      the account is revoked                       Refused if it was, else NotSeen
                      else                                         LookLater; after the last lookup NotSeen

`Refused` and `NotThere`: nothing is live. `NotSeen` and `Duplicate`: it may be live, and only a person may send the
post again. `Resend` only follows a lookup that found nothing, so no two sends are open at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from socialpub.base.errors import ApiError, Outcome
from socialpub.domain.publishing import horizon, intents
from socialpub.platforms.contract import Absent, Pending, Published, SendClass, Unknown
from socialpub.store.rows import IntentRow

# --- Findings ---


@dataclass(frozen=True)
class Resumed:
    """Resumed run with this open intent: unknown whether anything was sent."""

    revoked: bool = False  # the account has been revoked by now


@dataclass(frozen=True)
class Doubted:
    """Ambiguous response to the send, which is stored."""

    revoked: bool = False


@dataclass(frozen=True)
class Sent:
    """Response to the public call. `earlier_over`: no earlier call can still take effect."""

    answer: Published | Pending | ApiError
    earlier_over: bool = True


@dataclass(frozen=True)
class Compared:
    """Refused as a duplicate; `found` is the lookup result of each earlier send of the post."""

    error: ApiError
    found: Sequence[Published | Pending | Absent | Unknown]


@dataclass(frozen=True)
class Looked:
    """Lookup result for this intent's sends."""

    found: Published | Pending | Absent | Unknown
    revoked: bool = False


Finding = Resumed | Doubted | Sent | Compared | Looked

# --- Steps ---


@dataclass(frozen=True)
class Bind:
    """Record the remote post as ours. `by_content`: identified by its content, not by an id."""

    found: Published
    by_content: bool = False


@dataclass(frozen=True)
class Follow:
    """Accepted but not finished: poll it from now on, never send it again."""

    found: Pending


@dataclass(frozen=True)
class Compare:
    """Look up the post's earlier sends, one of which this one may duplicate."""

    error: ApiError


@dataclass(frozen=True)
class Doubt:
    """Record the ambiguous response if it is informative (`kept`), and settle by lookup.

    `over`: no call of this intent is in flight. `refused`: the refusal stands if nothing is found.
    """

    error: ApiError
    kept: bool
    over: bool
    refused: bool


@dataclass(frozen=True)
class Wait:
    """Wait until `at` for the lookup."""

    at: int


@dataclass(frozen=True)
class Look:
    """Look up the send now."""


@dataclass(frozen=True)
class LookLater:
    """Count the inconclusive lookup and repeat it at `at`."""

    found: Absent | Unknown
    at: int


@dataclass(frozen=True)
class Resend:
    """Not found: count the lookup and send the same plan again."""

    found: Absent


@dataclass(frozen=True)
class Refused:
    """Final: refused or not sent, and nothing is live."""

    error: ApiError


@dataclass(frozen=True)
class NotThere:
    """Final: proven absent. `retryable`: early enough for another attempt."""

    retryable: bool


@dataclass(frozen=True)
class NotSeen:
    """Final: unknown outcome; it may be live, lookups did not show it."""

    found: Absent | Unknown


@dataclass(frozen=True)
class Duplicate:
    """Final: such a post exists, but whether an earlier send made it is unknown."""

    error: ApiError


Step = Bind | Follow | Compare | Doubt | Wait | Look | LookLater | Resend | Refused | NotThere | NotSeen | Duplicate

# --- Decision ---


def decide(finding: Finding, class_: SendClass, checks: Sequence[float], intent: IntentRow, now: int) -> Step:
    """Return the next step. `checks`: lookup times in seconds after the intent (`checks_of`)."""
    match finding:
        case Resumed(revoked):
            due = now if revoked else horizon.due_look(checks, intent, now)
            return _look_at(due, revoked, intent, now)
        case Doubted(revoked):
            due = horizon.next_look(checks, intent, now) or now
            return _look_at(due, revoked, intent, now)
        case Sent(ApiError() as error, earlier_over):
            return _sent_badly(error, earlier_over, class_)
        case Sent(Published() as found, _):
            return Bind(found)
        case Sent(Pending() as found, _) | Looked(Pending() as found, _):
            return Follow(found)
        case Looked(Published() as found, _):
            return Bind(found, by_content=class_.name == "none")
        case Compared(error, looks):
            return _compared(error, looks)
        case Looked(Absent() as found, revoked):
            return _absent(found, revoked, class_, checks, intent, now)
        case Looked(Unknown() as found, revoked):
            return _unseen(found, revoked, checks, intent, now)
    raise AssertionError(f"no decision for {finding}")


def _look_at(due: int, revoked: bool, intent: IntentRow, now: int) -> Step:
    if due > now:
        return Wait(due)
    said_no = _said_no(intent) if revoked else None
    return Refused(said_no) if said_no else Look()


def _sent_badly(error: ApiError, earlier_over: bool, class_: SendClass) -> Step:
    refused = error.outcome in (Outcome.REJECTED, Outcome.THROTTLED)
    # A container may have been published despite the error: look it up instead of trusting the response.
    asked = refused and class_.name == "container" and not error.absent
    if (refused or error.outcome is Outcome.NOT_SENT) and earlier_over and not asked:
        return Compare(error) if error.duplicate else Refused(error)
    answered = error.platform_response is not None
    stands = asked or error.outcome is Outcome.REJECTED
    return Doubt(error, kept=answered or stands, over=earlier_over and answered, refused=stands)


def _compared(error: ApiError, looks: Sequence[Published | Pending | Absent | Unknown]) -> Step:
    made = next((found for found in looks if isinstance(found, Published)), None)
    if made:
        return Bind(made, by_content=True)
    return Refused(error) if all(isinstance(found, Absent) for found in looks) else Duplicate(error)


def _absent(
    found: Absent, revoked: bool, class_: SendClass, checks: Sequence[float], intent: IntentRow, now: int
) -> Step:
    if not revoked and horizon.may_resend(class_, checks, intent, now):
        return Resend(found)
    if not horizon.is_absent(class_, checks, intent, now):
        return _unseen(found, revoked, checks, intent, now)
    late = horizon.is_late(checks, intent, now)  # a retry hours later would surprise the owner
    error = intents.refusal(intent)
    if error is None:
        return NotThere(retryable=not late)
    error.retryable = error.retryable and not late
    return Refused(error)


def _unseen(found: Absent | Unknown, revoked: bool, checks: Sequence[float], intent: IntentRow, now: int) -> Step:
    """Handle a lookup that proves nothing; a revoked account is not looked up again."""
    if revoked:
        said_no = _said_no(intent)
        return Refused(said_no) if said_no else NotSeen(found)
    if isinstance(found, Unknown) and found.final:
        return NotSeen(found)
    at = horizon.next_look(checks, intent | {"looks": intent["looks"] + 1}, now)
    return NotSeen(found) if at is None else LookLater(found, at)


def _said_no(intent: IntentRow) -> ApiError | None:
    """Return the refusal of a send if no other send can still take effect."""
    return intents.refusal(intent) if intent["answered"] else None
