from __future__ import annotations

import pytest

from tests.laws import all_hold


def even(number: int) -> None:
    assert number % 2 == 0


def equal(one: int, other: int) -> None:
    assert one == other


def test_every_failing_row_is_named_with_what_is_wrong() -> None:
    with pytest.raises(pytest.fail.Exception) as failed:
        all_hold([2, 3, 4, 5], even)
    said = str(failed.value)
    assert said.startswith("2 of 4 rows:")
    assert "\n3: AssertionError: assert (3 % 2) == 0" in said
    assert "\n5: AssertionError: assert (5 % 2) == 0" in said


def test_rows_of_a_mapping_have_names_and_tuples_are_parts() -> None:
    all_hold({"same": (1, 1)}, equal)
    with pytest.raises(pytest.fail.Exception, match=r"^1 of 2 rows:\nother: AssertionError"):
        all_hold({"same": (1, 1), "other": (1, 2)}, equal)
    with pytest.raises(pytest.fail.Exception, match="the first: AssertionError"):
        all_hold([(1, 2)], equal, name=lambda _: "the first")


def test_an_error_of_any_kind_is_a_failing_row() -> None:
    with pytest.raises(pytest.fail.Exception, match="ZeroDivisionError"):
        all_hold([0], lambda number: even(1 // number))
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        all_hold([0], lambda _: pytest.raises(ValueError, int, "1").match(""))


def test_a_law_without_rows_does_not_hold() -> None:
    with pytest.raises(AssertionError, match="no row"):
        all_hold([], even)
