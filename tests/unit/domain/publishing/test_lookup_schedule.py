"""Schedule of lookups after a lost response, and the proof of absence."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from socialpub.domain.publishing import lookup_schedule
from socialpub.platforms.contract import CONTAINER, KEY, NO_KEY, SendClass
from tests.support.fixed_clock import NOON

HOUR = 3_600_000


def intent(**columns: Any) -> dict[str, Any]:
    return {"intent_at": NOON, "sends": 1, "looks": 0, "answered": False, "refusal": None} | columns


# --- When ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "class_, step, settle_horizon, checks",
    [
        (KEY, "publish", 180, KEY.checks),
        (CONTAINER, "publish", 180, CONTAINER.checks),
        (NO_KEY, "publish", 180, (5, 15, 60, 180)),
        (NO_KEY, "publish", 600, (5, 15, 60, 180, 600)),
        (NO_KEY, "publish", 60, (5, 15, 60)),
        (NO_KEY, "publish", 1, (1,)),
        (KEY, "comment", 180, lookup_schedule.COMMENT_LOOKUP_TIMES),
    ],
)
def test_the_looks_of_each_class(
    class_: SendClass, step: str, settle_horizon: float, checks: tuple[float, ...]
) -> None:
    assert lookup_schedule.compute_times(class_, step, settle_horizon) == checks


@pytest.mark.parametrize(
    "looks, after_ms, next_ms",
    [
        (0, 0, 0),  # at once
        (1, 0, 1000),
        (1, 900, 1900),  # a look that is behind keeps its distance from the one before
        (2, 1000, 5000),
        (5, 60_000, 180_000 - 60_000 + 60_000),
        (10, 2_700_000, 3_600_000),
        (11, 3_600_000, None),
    ],
)
def test_looks_follow_the_plan(looks: int, after_ms: int, next_ms: int | None) -> None:
    at = lookup_schedule.find_next_time(KEY.checks, intent(looks=looks), NOON + after_ms)
    assert (at - NOON if at is not None else None) == next_ms


def test_looks_that_are_far_behind_are_a_minute_apart_at_most() -> None:
    assert lookup_schedule.find_next_time(KEY.checks, intent(looks=9), NOON + HOUR) == NOON + HOUR + 60_000


@pytest.mark.parametrize("late_ms, is_late", [(HOUR, False), (HOUR + 300_000, False), (HOUR + 300_001, True)])
def test_the_time_to_settle_ends_five_minutes_after_the_last_look(late_ms: int, is_late: bool) -> None:
    assert lookup_schedule.is_late(KEY.checks, intent(looks=1), NOON + late_ms) is is_late
    assert (lookup_schedule.find_next_time(KEY.checks, intent(looks=1), NOON + late_ms) is None) is is_late


def test_a_first_look_is_made_however_late() -> None:
    assert lookup_schedule.find_due_time(KEY.checks, intent(), NOON) == NOON
    assert lookup_schedule.find_due_time(NO_KEY.checks, intent(), NOON) == NOON + 5000
    assert lookup_schedule.find_due_time(NO_KEY.checks, intent(), NOON - 1) == NOON - 1  # the clock was set back since


@given(st.sampled_from([KEY, CONTAINER, NO_KEY]), st.integers(-HOUR, 10 * HOUR))
def test_looking_ends_wherever_the_clock_stands(class_: SendClass, jump: int) -> None:
    now, looks = NOON + jump, 0
    while (at := lookup_schedule.find_next_time(class_.checks, intent(looks=looks), now)) is not None:
        assert at >= now or looks == 0
        now, looks = max(at, now), looks + 1
    assert looks <= len(class_.checks)


# --- Sending again ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "class_, columns, after_ms, may",
    [
        (KEY, {}, 0, True),
        (KEY, {"sends": 10}, 0, True),
        (KEY, {"sends": 11}, 0, False),
        (KEY, {"sends": 2, "answered": True}, 0, True),
        (KEY, {"sends": 3, "answered": True}, 0, False),
        (KEY, {"looks": 9}, 0, True),
        (KEY, {"looks": 10}, 0, False),  # the last look: what it sent could not be looked for any more
        (KEY, {}, HOUR, True),
        (KEY, {}, HOUR + 1, False),  # the owner may have removed it
        (KEY, {"refusal": "{}"}, 0, False),
        (CONTAINER, {"sends": 3}, 0, True),
        (CONTAINER, {"sends": 4}, 0, False),
        (CONTAINER, {"refusal": "{}", "answered": True}, 0, False),
        (NO_KEY, {}, 0, False),
        (NO_KEY, {"answered": True}, 0, False),
    ],
)
def test_when_the_same_plan_may_be_sent_again(
    class_: SendClass, columns: dict[str, Any], after_ms: int, may: bool
) -> None:
    assert lookup_schedule.may_resend(class_, class_.checks, intent(**columns), NOON + after_ms) is may


@given(st.integers(1, 20), st.integers(0, 20), st.booleans(), st.integers(-HOUR, 100 * HOUR))
def test_without_a_key_nothing_is_ever_sent_again_nor_known_to_be_absent(
    sends: int, looks: int, answered: bool, after: int
) -> None:
    row = intent(sends=sends, looks=looks, answered=answered)
    assert not lookup_schedule.may_resend(NO_KEY, NO_KEY.checks, row, NOON + after)
    assert not lookup_schedule.is_absent(NO_KEY, NO_KEY.checks, row, NOON + after)


# --- What absence proves ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "class_, columns, after_ms, absent",
    [
        (KEY, {}, 0, False),  # the send may still be on its way
        (KEY, {"answered": True}, 0, True),
        (KEY, {"looks": 9}, HOUR, False),
        (KEY, {"looks": 10}, HOUR, True),
        (KEY, {"looks": 10}, 2 * HOUR, False),  # it may have been there and be gone
        (KEY, {"answered": True}, 2 * HOUR, False),
        (CONTAINER, {}, 0, False),
        (CONTAINER, {"answered": True}, 0, True),
        (CONTAINER, {"looks": 5}, HOUR // 2, True),
        (CONTAINER, {}, 2 * HOUR, True),  # a container that was published says so for ever
    ],
)
def test_when_not_finding_it_is_proof(class_: SendClass, columns: dict[str, Any], after_ms: int, absent: bool) -> None:
    assert lookup_schedule.is_absent(class_, class_.checks, intent(**columns), NOON + after_ms) is absent
