"""Who asks often waits for a turn; who asks seldom, and anybody else, does not."""

from __future__ import annotations

import pytest

from socialpub.base.paces import LONGEST_SECONDS, MOST, Paces


def test_each_has_a_turn_in_so_many_seconds() -> None:
    paces = Paces(0.5)
    assert [paces.wait("a", 10.0) for _ in range(3)] == [0.0, 0.5, 1.0]
    assert paces.wait("b", 10.0) == 0.0
    assert paces.wait("a", 11.25) == pytest.approx(0.25)
    assert paces.wait("a", 20.0) == 0.0


def test_nobody_waits_very_long_and_not_all_are_remembered() -> None:
    paces = Paces(0.5)
    assert max(paces.wait("a", 10.0) for _ in range(100)) == LONGEST_SECONDS
    for number in range(5 * MOST):
        assert paces.wait(f"owner {number}", 100.0 + number) == 0.0
    assert len(paces._next) <= MOST
