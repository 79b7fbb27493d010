"""Self-test of thread jitter: frequency and length of the delays."""

from __future__ import annotations

import time

import pytest

from tests.support import thread_jitter


@pytest.mark.parametrize(
    ("draws", "slept"),
    [
        ([0.1], []),
        ([0.99], []),
        ([0.0999, 0.5], [thread_jitter.SHORT / 2]),
        ([0.03, 0.5], [thread_jitter.SHORT / 2]),
        ([0.01, 0.5], [thread_jitter.LONG / 2]),
        ([0.0, 1.0], [thread_jitter.LONG]),
    ],
)
def test_so_many_are_late_and_some_of_them_for_long(
    draws: list[float], slept: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    naps, drawn = list[float](), iter(draws)
    monkeypatch.setattr(time, "sleep", naps.append)
    thread_jitter.sleep_sometimes(0.1, lambda: next(drawn))
    assert naps == slept
    assert list(drawn) == []


def test_a_call_begins_and_ends_late_and_is_what_it_was() -> None:
    order = list[str]()

    def divided(by: int, *, of: int) -> int:
        order.append("called")
        return of // by

    call = thread_jitter.with_jitter(divided, lambda: order.append("late"))
    assert call(2, of=6) == 3
    with pytest.raises(ZeroDivisionError):
        call(0, of=1)
    assert order == ["late", "called", "late"] * 2
    assert call.__name__ == "divided"


def test_what_is_shaken_is_there() -> None:
    assert all(callable(owner.__dict__[name]) for owner, name in thread_jitter.SEAMS)
