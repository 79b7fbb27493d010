"""Check of one property over many rows in a single test, with every failing row reported."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest


def check_rows(
    rows: Mapping[str, Any] | Iterable[Any], check: Callable[..., None], name: Callable[[Any], str] = repr
) -> None:
    """`check(row)` of each row, a tuple as its parts; a mapping gives the rows their names. No row is a failure too."""
    named = list(rows.items()) if isinstance(rows, Mapping) else [(name(row), row) for row in rows]
    assert named, "no row at all"
    wrong = [f"{label}: {said}" for label, row in named if (said := _failure(check, row)) is not None]
    if wrong:
        pytest.fail(f"{len(wrong)} of {len(named)} rows:\n" + "\n\n".join(wrong), pytrace=False)


def _failure(check: Callable[..., None], row: Any) -> str | None:
    try:
        check(*row) if isinstance(row, tuple) else check(row)
    except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - whatever it is, the rows after it are looked at too
        return f"{type(error).__name__}: {error}"
    return None
