"""When a lost answer is looked for, and what not finding it proves: pure arithmetic over an intent's row.

`sends`, `looks` and `answered` of the row count; the wall clock alone never decides that something is absent.
"""

from __future__ import annotations

from collections.abc import Sequence

from socialpub.platforms.contract import SendClass
from socialpub.store.rows import IntentRow

COMMENT_CHECKS = (0.0, 1.0, 5.0, 15.0, 60.0)
GAP_MAX_MS = 60_000  # between looks that are behind their time (the server was down, the clock was set)
SLACK_MS = 300_000


def checks_of(class_: SendClass, step: str, settle_horizon: float) -> tuple[float, ...]:
    """Seconds after the intent at which to look."""
    if step == "comment":
        return COMMENT_CHECKS
    if class_.name != "none":
        return class_.checks
    return (*(check for check in class_.checks if check < settle_horizon), settle_horizon)


def due_look(checks: Sequence[float], intent: IntentRow, now: int) -> int:
    """The time of the next look by the plan alone, in milliseconds: now, where the clock was set back since."""
    if now < intent["intent_at"]:
        return now
    return int(intent["intent_at"] + checks[min(intent["looks"], len(checks) - 1)] * 1000)


def next_look(checks: Sequence[float], intent: IntentRow, now: int) -> int | None:
    """When to look after a send or a look that is just over; None once every look is done, or its time is long over.

    Looks that are behind the plan keep their distance.
    """
    done = intent["looks"]
    if done >= len(checks) or (done and is_late(checks, intent, now)):
        return None
    gap = int((checks[done] - checks[done - 1]) * 1000) if done else 0
    return max(due_look(checks, intent, now), now + min(gap, GAP_MAX_MS))


def is_late(checks: Sequence[float], intent: IntentRow, now: int) -> bool:
    """Whether the time to settle is over: the owner may have removed since what the send had made."""
    return bool(now > intent["intent_at"] + checks[-1] * 1000 + SLACK_MS)


def may_resend(class_: SendClass, checks: Sequence[float], intent: IntentRow, now: int) -> bool:
    """Whether the same plan may be sent again, now that it was looked for and is not there."""
    allowed = class_.answered_resends if intent["answered"] else class_.resends
    if intent["sends"] > allowed or intent["refusal"]:
        return False
    return not _is_last(checks, intent) and now <= intent["intent_at"] + class_.checks[-1] * 1000


def is_absent(class_: SendClass, checks: Sequence[float], intent: IntentRow, now: int) -> bool:
    """Whether not finding it is proof: nothing is on its way any more, and the place that was looked at is its own."""
    if not class_.resends:
        return False
    if class_.name == "container":  # its status cannot go back
        return bool(intent["answered"]) or _is_last(checks, intent) or is_late(checks, intent, now)
    if is_late(checks, intent, now):
        return False
    return bool(intent["answered"]) or _is_last(checks, intent)


def _is_last(checks: Sequence[float], intent: IntentRow) -> bool:
    """Whether the look that was just made (and is not counted yet) was the last one."""
    return bool(intent["looks"] + 1 >= len(checks))
