"""Serial groups: one job of an account at a time, rests, and waiters in their order."""

from __future__ import annotations

import pytest

from socialpub.store.jobs.serial_groups import SerialGroups
from socialpub.store.jobs.worker_slots import SLEEP_SECONDS_MAX
from tests.support.app_server import MovableClock


@pytest.fixture
def clock() -> MovableClock:
    """Its monotonic time passes only as a test skips it."""
    clock = MovableClock()
    clock.hold()
    return clock


@pytest.fixture
def told() -> list[str]:
    """What was called back, in its order."""
    return []


@pytest.fixture
def groups(clock: MovableClock, told: list[str]) -> SerialGroups:
    return SerialGroups(clock, lambda: told.append("free"))


def _wait(groups: SerialGroups, told: list[str], name: str, seconds: float = 10) -> None:
    groups.when_free("a", seconds, lambda is_free: told.append(f"{name} {'enters' if is_free else 'gives up'}"))


def test_a_group_is_entered_once_and_others_beside_it(groups: SerialGroups) -> None:
    assert [groups.try_enter(name) for name in ("a", "a", "b", "b")] == [True, False, True, False]
    groups.leave("a")
    assert [groups.try_enter(name) for name in ("a", "b")] == [True, False]


def test_without_a_name_there_is_no_group(groups: SerialGroups) -> None:
    assert [groups.try_enter("") for _ in range(3)] == [True] * 3
    groups.leave("", rest_seconds=5)
    assert groups.try_enter("")


def test_who_leaves_a_group_that_nobody_waits_for_says_so(groups: SerialGroups, told: list[str]) -> None:
    assert groups.try_enter("a")
    groups.leave("a")
    assert told == ["free"]


def test_who_leaves_for_a_waiter_hands_the_group_over(groups: SerialGroups, told: list[str]) -> None:
    assert groups.try_enter("a")
    _wait(groups, told, "first")
    _wait(groups, told, "second")
    assert told == []
    groups.leave("a")
    assert told == ["first enters"]
    assert not groups.try_enter("a")
    groups.leave("a")
    groups.leave("a")
    assert told == ["first enters", "second enters", "free"]


def test_a_group_given_back_is_free_without_a_word(groups: SerialGroups, told: list[str]) -> None:
    assert groups.try_enter("a")
    assert not groups.give_back("a")
    assert (told, groups.try_enter("a")) == ([], True)
    _wait(groups, told, "first")
    assert groups.give_back("a")
    assert (told, groups.try_enter("a")) == (["first enters"], False)


def test_a_waiter_enters_a_free_group_at_once(groups: SerialGroups, told: list[str]) -> None:
    _wait(groups, told, "first")
    assert told == ["first enters"]
    assert not groups.try_enter("a")


@pytest.mark.parametrize(("skipped", "is_free"), [(0, False), (4.5, False), (5, True), (6, True)])
def test_a_group_rests_until_its_time(groups: SerialGroups, clock: MovableClock, skipped: float, is_free: bool) -> None:
    assert groups.try_enter("a")
    groups.leave("a", rest_seconds=5)
    clock.skip(skipped)
    assert groups.try_enter("a") is is_free


def test_a_rest_is_no_matter_to_who_ignores_it(groups: SerialGroups, told: list[str]) -> None:
    for _ in range(2):
        assert groups.try_enter("a", rested=True)
        groups.leave("a", rest_seconds=5)
    told.clear()
    _wait(groups, told, "first")
    assert told == ["first enters"]


@pytest.mark.parametrize(
    ("skipped", "expected"),
    [(9, []), (10, ["first gives up"]), (19, ["first gives up"]), (20, ["first gives up", "second gives up"])],
)
def test_who_waits_too_long_gives_up(
    groups: SerialGroups, clock: MovableClock, told: list[str], skipped: float, expected: list[str]
) -> None:
    assert groups.try_enter("a")
    _wait(groups, told, "first", 10)
    _wait(groups, told, "second", 20)
    clock.skip(skipped)
    groups.expire_waiters()
    groups.expire_waiters()
    assert told == expected
    told.clear()
    groups.leave("a")
    assert told == (["first enters"] if not expected else ["second enters"] if len(expected) == 1 else ["free"])


def test_what_is_closed_and_until_when(groups: SerialGroups, clock: MovableClock) -> None:
    assert groups.closed() == (set(), SLEEP_SECONDS_MAX)
    assert groups.try_enter("busy")
    for name, seconds in (("short", 2), ("long", 4)):
        assert groups.try_enter(name)
        groups.leave(name, rest_seconds=seconds)
    assert groups.closed() == ({"busy", "short", "long"}, pytest.approx(2))
    clock.skip(3)
    assert groups.closed() == ({"busy", "long"}, pytest.approx(1))
    clock.skip(3)
    groups.leave("busy")
    assert groups.closed() == (set(), SLEEP_SECONDS_MAX)
