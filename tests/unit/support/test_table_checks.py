"""Self-test of table checks: every failing row is reported."""

from __future__ import annotations

import pytest

from tests.support.table_checks import check_rows


def even(number: int) -> None:
    assert number % 2 == 0


def equal(one: int, other: int) -> None:
    assert one == other


def test_every_failing_row_is_named_with_what_is_wrong() -> None:
    with pytest.raises(pytest.fail.Exception) as failed:
        check_rows([2, 3, 4, 5], even)
    said = str(failed.value)
    assert said.startswith("2 of 4 rows:")
    assert "\n3: AssertionError: assert (3 % 2) == 0" in said
    assert "\n5: AssertionError: assert (5 % 2) == 0" in said


def test_rows_of_a_mapping_have_names_and_tuples_are_parts() -> None:
    check_rows({"same": (1, 1)}, equal)
    with pytest.raises(pytest.fail.Exception, match=r"^1 of 2 rows:\nother: AssertionError"):
        check_rows({"same": (1, 1), "other": (1, 2)}, equal)
    with pytest.raises(pytest.fail.Exception, match="the first: AssertionError"):
        check_rows([(1, 2)], equal, name=lambda _: "the first")


def test_an_error_of_any_kind_is_a_failing_row() -> None:
    with pytest.raises(pytest.fail.Exception, match="ZeroDivisionError"):
        check_rows([0], lambda number: even(1 // number))
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        check_rows([0], lambda _: pytest.raises(ValueError, int, "1").match(""))


def test_a_law_without_rows_does_not_hold() -> None:
    with pytest.raises(AssertionError, match="no row"):
        check_rows([], even)
