"""Decisions of the publishing protocol: one step per finding, without database or clock.

    Finding                                                             Step
    RunResumed, AmbiguityRecorded
      the next lookup is not due                                        WaitUntil
      the account is revoked, the send was refused                      FailRefused
      else                                                              LookUpRemotePost
    SendAnswered
      published                                                         BindRemotePost
      accepted, not finished                                            PollRemotePost
      refused or not sent, no earlier call can still take effect        FailRefused
        refused as a duplicate                                          CompareEarlierSends
      else                                                              RecordAmbiguity
    EarlierSendsCompared
      an earlier send made the post                                     BindRemotePost
      none did                                                          FailRefused
      unknown                                                           FailDuplicate
    LookupAnswered
      published                                                         BindRemotePost
      accepted, not finished                                            PollRemotePost
      not found, a resend is harmless, the account is not revoked       ResendPlan
      not found, which proves absence                                   FailRefused if refused, else FailAbsent
      the account is revoked                                            FailRefused if refused, else FailUnknown
      else                                                              RetryLookup; after the last, FailUnknown

`FailRefused` and `FailAbsent`: nothing is live. `FailUnknown` and `FailDuplicate`: it may be live, and only a person
may send the post again. `ResendPlan` only follows a lookup that found nothing, so no two sends are open at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from socialpub.base.errors import ApiError, Outcome
from socialpub.domain.publishing import intents, lookup_schedule
from socialpub.platforms.contract import Absent, Pending, Published, SendClass, Unknown
from socialpub.store.rows import IntentRow

# --- Findings ---


@dataclass(frozen=True)
class RunResumed:
    """Resumed run with this open intent: unknown whether anything was sent."""

    revoked: bool = False  # the account has been revoked by now


@dataclass(frozen=True)
class AmbiguityRecorded:
    """Ambiguous response to the send, which is stored."""

    revoked: bool = False


@dataclass(frozen=True)
class SendAnswered:
    """Response to the public call. `earlier_done`: no earlier call can still take effect."""

    reply: Published | Pending | ApiError
    earlier_done: bool = True


@dataclass(frozen=True)
class EarlierSendsCompared:
    """Refused as a duplicate; `found` is the lookup result of each earlier send of the post."""

    error: ApiError
    found: Sequence[Published | Pending | Absent | Unknown]


@dataclass(frozen=True)
class LookupAnswered:
    """Lookup result for this intent's sends."""

    found: Published | Pending | Absent | Unknown
    revoked: bool = False


RunFinding = RunResumed | AmbiguityRecorded | SendAnswered | EarlierSendsCompared | LookupAnswered

# --- Steps ---


@dataclass(frozen=True)
class BindRemotePost:
    """Record the remote post as ours. `by_content`: identified by its content, not by an id."""

    found: Published
    by_content: bool = False


@dataclass(frozen=True)
class PollRemotePost:
    """Accepted but not finished: poll it from now on, never send it again."""

    found: Pending


@dataclass(frozen=True)
class CompareEarlierSends:
    """Look up the post's earlier sends, one of which this one may duplicate."""

    error: ApiError


@dataclass(frozen=True)
class RecordAmbiguity:
    """Record the ambiguous response if `is_informative`, and settle by lookup.

    `is_answered`: no call of this intent is in flight. `refused`: the refusal stands if nothing is found.
    """

    error: ApiError
    is_informative: bool
    is_answered: bool
    refused: bool


@dataclass(frozen=True)
class WaitUntil:
    """Wait until `at` for the lookup."""

    at: int


@dataclass(frozen=True)
class LookUpRemotePost:
    """Look up the send now."""


@dataclass(frozen=True)
class RetryLookup:
    """Count the inconclusive lookup and repeat it at `at`."""

    found: Absent | Unknown
    at: int


@dataclass(frozen=True)
class ResendPlan:
    """Not found: count the lookup and send the same plan again."""

    found: Absent


@dataclass(frozen=True)
class FailRefused:
    """Final: refused or not sent, and nothing is live."""

    error: ApiError


@dataclass(frozen=True)
class FailAbsent:
    """Final: proven absent. `retryable`: early enough for another attempt."""

    retryable: bool


@dataclass(frozen=True)
class FailUnknown:
    """Final: unknown outcome; it may be live, lookups did not show it."""

    found: Absent | Unknown


@dataclass(frozen=True)
class FailDuplicate:
    """Final: such a post exists, but whether an earlier send made it is unknown."""

    error: ApiError


RunStep = (
    BindRemotePost
    | PollRemotePost
    | CompareEarlierSends
    | RecordAmbiguity
    | WaitUntil
    | LookUpRemotePost
    | RetryLookup
    | ResendPlan
    | FailRefused
    | FailAbsent
    | FailUnknown
    | FailDuplicate
)

# --- Decision ---


def decide(finding: RunFinding, class_: SendClass, checks: Sequence[float], intent: IntentRow, now: int) -> RunStep:
    """Return the next step. `checks`: lookup times (`lookup_schedule.compute_times`)."""
    match finding:
        case RunResumed(revoked):
            due = now if revoked else lookup_schedule.find_due_time(checks, intent, now)
            return _look_up_at(due, revoked, intent, now)
        case AmbiguityRecorded(revoked):
            due = lookup_schedule.find_next_time(checks, intent, now) or now
            return _look_up_at(due, revoked, intent, now)
        case SendAnswered(ApiError() as error, earlier_done):
            return _decide_failed_send(error, earlier_done, class_)
        case SendAnswered(Published() as found, _):
            return BindRemotePost(found)
        case SendAnswered(Pending() as found, _) | LookupAnswered(Pending() as found, _):
            return PollRemotePost(found)
        case LookupAnswered(Published() as found, _):
            return BindRemotePost(found, by_content=class_.name == "none")
        case EarlierSendsCompared(error, lookups):
            return _decide_compared(error, lookups)
        case LookupAnswered(Absent() as found, revoked):
            return _decide_absent(found, revoked, class_, checks, intent, now)
        case LookupAnswered(Unknown() as found, revoked):
            return _decide_unseen(found, revoked, checks, intent, now)
    raise AssertionError(f"no decision for {finding}")


def _look_up_at(due: int, revoked: bool, intent: IntentRow, now: int) -> RunStep:
    if due > now:
        return WaitUntil(due)
    refusal = _find_refusal(intent) if revoked else None
    return FailRefused(refusal) if refusal else LookUpRemotePost()


def _decide_failed_send(error: ApiError, earlier_done: bool, class_: SendClass) -> RunStep:
    refused = error.outcome in (Outcome.REJECTED, Outcome.THROTTLED)
    # A container may have been published despite the error: look it up instead of trusting the response.
    needs_lookup = refused and class_.name == "container" and not error.absent
    if (refused or error.outcome is Outcome.NOT_SENT) and earlier_done and not needs_lookup:
        return CompareEarlierSends(error) if error.duplicate else FailRefused(error)
    answered = error.platform_response is not None
    refusal_stands = needs_lookup or error.outcome is Outcome.REJECTED
    return RecordAmbiguity(
        error, is_informative=answered or refusal_stands, is_answered=earlier_done and answered, refused=refusal_stands
    )


def _decide_compared(error: ApiError, lookups: Sequence[Published | Pending | Absent | Unknown]) -> RunStep:
    published = next((found for found in lookups if isinstance(found, Published)), None)
    if published:
        return BindRemotePost(published, by_content=True)
    return FailRefused(error) if all(isinstance(found, Absent) for found in lookups) else FailDuplicate(error)


def _decide_absent(
    found: Absent, revoked: bool, class_: SendClass, checks: Sequence[float], intent: IntentRow, now: int
) -> RunStep:
    if not revoked and lookup_schedule.may_resend(class_, checks, intent, now):
        return ResendPlan(found)
    if not lookup_schedule.is_absent(class_, checks, intent, now):
        return _decide_unseen(found, revoked, checks, intent, now)
    late = lookup_schedule.is_late(checks, intent, now)  # a retry hours later would surprise the owner
    error = intents.find_refusal(intent)
    if error is None:
        return FailAbsent(retryable=not late)
    error.retryable = error.retryable and not late
    return FailRefused(error)


def _decide_unseen(
    found: Absent | Unknown, revoked: bool, checks: Sequence[float], intent: IntentRow, now: int
) -> RunStep:
    """Handle a lookup that proves nothing; a revoked account is not looked up again."""
    if revoked:
        refusal = _find_refusal(intent)
        return FailRefused(refusal) if refusal else FailUnknown(found)
    if isinstance(found, Unknown) and found.final:
        return FailUnknown(found)
    at = lookup_schedule.find_next_time(checks, intent | {"looks": intent["looks"] + 1}, now)
    return FailUnknown(found) if at is None else RetryLookup(found, at)


def _find_refusal(intent: IntentRow) -> ApiError | None:
    """Return the refusal of a send if no other send can still take effect."""
    return intents.find_refusal(intent) if intent["answered"] else None
