"""What follows from a finding: the protocol's decisions, one step for each. No database, no network, no clock.

    What came                                                      The step
    Resumed, Doubted  before the time to look                      Wait
                      the account is revoked, the send was refused Refused
                      else                                         Look
    Sent              it is there                                  Bind
                      taken, not done yet                          Follow
                      refused or not sent, and nothing else open   Refused; Compare where it calls it a duplicate
                      anything else                                Doubt
    Compared          an earlier send made it                      Bind
                      none did                                     Refused
                      cannot be told                               Duplicate
    Looked            it is there                                  Bind
                      taken, not done yet                          Follow
                      not there, and sending again is harmless     Resend (never for a revoked account)
                      not there, and that is proof                 Refused if it was, else NotThere
                      the account is revoked                       Refused if it was, else NotSeen
                      else                                         LookLater; after the last look NotSeen

`Refused` and `NotThere` say that nothing is live. `NotSeen` and `Duplicate` say that it may be: only a person sends
such a post again. `Resend` follows a look that found nothing and nothing else, so no two sends are open at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from socialpub.base.errors import ApiError, Outcome
from socialpub.domain.publishing import horizon, intents
from socialpub.platforms.contract import Absent, Pending, Published, SendClass, Unknown
from socialpub.store.rows import IntentRow

# --- What came ---


@dataclass(frozen=True)
class Resumed:
    """A run took up a post with this intent open: what was sent, if anything, is not known."""

    revoked: bool = False  # the account's authorization is over by now


@dataclass(frozen=True)
class Doubted:
    """The send's answer did not say, and what it said is kept."""

    revoked: bool = False


@dataclass(frozen=True)
class Sent:
    """The answer to the one public call. `earlier_over`: no earlier call can still take effect."""

    answer: Published | Pending | ApiError
    earlier_over: bool = True


@dataclass(frozen=True)
class Compared:
    """It was refused as a duplicate; what was found of each earlier send of the post."""

    error: ApiError
    found: Sequence[Published | Pending | Absent | Unknown]


@dataclass(frozen=True)
class Looked:
    """What was found of this intent's sends."""

    found: Published | Pending | Absent | Unknown
    revoked: bool = False


Finding = Resumed | Doubted | Sent | Compared | Looked

# --- Steps ---


@dataclass(frozen=True)
class Bind:
    """The platform has it: this remote post is ours. `by_content`: known by what it says, not by a name of its own."""

    found: Published
    by_content: bool = False


@dataclass(frozen=True)
class Follow:
    """The platform named it and is not done: ask about it from now on, never send it again."""

    found: Pending


@dataclass(frozen=True)
class Compare:
    """Look for the earlier sends of the post: one of them may be what this one is a duplicate of."""

    error: ApiError


@dataclass(frozen=True)
class Doubt:
    """Write down what the send's answer says, where it says something (`kept`), and settle it by looking.

    `over`: no call of this intent is on its way any more. `refused`: the platform said no, which stands if nothing is
    found.
    """

    error: ApiError
    kept: bool
    over: bool
    refused: bool


@dataclass(frozen=True)
class Wait:
    """It is not time to look yet."""

    at: int


@dataclass(frozen=True)
class Look:
    """Look for what was sent, now."""


@dataclass(frozen=True)
class LookLater:
    """This look did not tell: count it, and look again at `at`."""

    found: Absent | Unknown
    at: int


@dataclass(frozen=True)
class Resend:
    """It is not there: count the look and send the same plan once more."""

    found: Absent


@dataclass(frozen=True)
class Refused:
    """The end: the platform said no (or nothing was sent), and nothing is there."""

    error: ApiError


@dataclass(frozen=True)
class NotThere:
    """The end: it was looked for until not finding it is proof. `retryable`: early enough for another attempt."""

    retryable: bool


@dataclass(frozen=True)
class NotSeen:
    """The end: it may be there, looking did not show it."""

    found: Absent | Unknown


@dataclass(frozen=True)
class Duplicate:
    """The end: the platform has such a post, and whether an earlier send made it did not show."""

    error: ApiError


Step = Bind | Follow | Compare | Doubt | Wait | Look | LookLater | Resend | Refused | NotThere | NotSeen | Duplicate

# --- The table ---


def decide(finding: Finding, class_: SendClass, checks: Sequence[float], intent: IntentRow, now: int) -> Step:
    """The one step that follows. `checks`: seconds after the intent at which to look (`horizon.checks_of`)."""
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
    # A container that was asked to publish may have done it whatever it says: it is asked, not trusted.
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
    late = horizon.is_late(checks, intent, now)  # sent anew hours later, it would be a surprise
    error = intents.refusal(intent)
    if error is None:
        return NotThere(retryable=not late)
    error.retryable = error.retryable and not late
    return Refused(error)


def _unseen(found: Absent | Unknown, revoked: bool, checks: Sequence[float], intent: IntentRow, now: int) -> Step:
    """Neither there nor known to be absent. A revoked account is not asked again; of the others, as planned."""
    if revoked:
        said_no = _said_no(intent)
        return Refused(said_no) if said_no else NotSeen(found)
    if isinstance(found, Unknown) and found.final:
        return NotSeen(found)
    at = horizon.next_look(checks, intent | {"looks": intent["looks"] + 1}, now)
    return NotSeen(found) if at is None else LookLater(found, at)


def _said_no(intent: IntentRow) -> ApiError | None:
    """The platform's refusal of a send, where no other one can still take effect."""
    return intents.refusal(intent) if intent["answered"] else None
