"""Schedule of lookups after a lost response, and what not finding the post proves.

Pure functions of the intent's `sends`, `looks` and `answered`; elapsed time alone never proves absence.
"""

from __future__ import annotations

from collections.abc import Sequence

from socialpub.platforms.contract import SendClass
from socialpub.store.rows import IntentRow

COMMENT_LOOKUP_TIMES = (0.0, 1.0, 5.0, 15.0, 60.0)
GAP_MAX_MS = 60_000  # between overdue lookups (after downtime or a clock change)
SLACK_MS = 300_000


def compute_times(class_: SendClass, step: str, settle_horizon: float) -> tuple[float, ...]:
    """Return the lookup times in seconds after the intent."""
    if step == "comment":
        return COMMENT_LOOKUP_TIMES
    if class_.name != "none":
        return class_.checks
    return (*(check for check in class_.checks if check < settle_horizon), settle_horizon)


def find_due_time(checks: Sequence[float], intent: IntentRow, now: int) -> int:
    """Return the scheduled time of the next lookup in ms; now if the clock was set back."""
    if now < intent["intent_at"]:
        return now
    return int(intent["intent_at"] + checks[min(intent["looks"], len(checks) - 1)] * 1000)


def find_next_time(checks: Sequence[float], intent: IntentRow, now: int) -> int | None:
    """Return the time of the next lookup in ms; None if all are done or too late.

    Overdue lookups keep their distance.
    """
    done = intent["looks"]
    if done >= len(checks) or (done and is_late(checks, intent, now)):
        return None
    gap = int((checks[done] - checks[done - 1]) * 1000) if done else 0
    return max(find_due_time(checks, intent, now), now + min(gap, GAP_MAX_MS))


def is_late(checks: Sequence[float], intent: IntentRow, now: int) -> bool:
    """Return whether the settling period is over: the owner may have deleted the post since."""
    return bool(now > intent["intent_at"] + checks[-1] * 1000 + SLACK_MS)


def may_resend(class_: SendClass, checks: Sequence[float], intent: IntentRow, now: int) -> bool:
    """Return whether the plan may be sent again after a lookup found nothing."""
    allowed = class_.answered_resends if intent["answered"] else class_.resends
    if intent["sends"] > allowed or intent["refusal"]:
        return False
    return not _is_last(checks, intent) and now <= intent["intent_at"] + class_.checks[-1] * 1000


def is_absent(class_: SendClass, checks: Sequence[float], intent: IntentRow, now: int) -> bool:
    """Return whether not finding is proof: no call in flight, and the lookup place is unique."""
    if not class_.resends:
        return False
    if class_.name == "container":  # its status is final
        return bool(intent["answered"]) or _is_last(checks, intent) or is_late(checks, intent, now)
    if is_late(checks, intent, now):
        return False
    return bool(intent["answered"]) or _is_last(checks, intent)


def _is_last(checks: Sequence[float], intent: IntentRow) -> bool:
    """Return whether the lookup just made, not counted yet, is the last one."""
    return bool(intent["looks"] + 1 >= len(checks))
