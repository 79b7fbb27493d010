"""Bounded, thread-safe notes of a connector."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from socialpub.platforms.contract import CallNotes


def test_the_newest_notes_are_kept_and_no_more_than_wanted() -> None:
    notes = CallNotes(most=3)
    for number in range(4):
        notes.put(f"n{number}", "old")
    notes.put("n1", "new")
    notes.put("n4", "new")
    assert [notes.get(f"n{number}") for number in range(5)] == [None, "new", None, "old", "new"]


def test_many_threads_may_keep_notes_at_once() -> None:
    notes = CallNotes(most=10)
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda number: notes.put(f"n{number % 40}", str(number)), range(4000)))
    assert sum(notes.get(f"n{number}") is not None for number in range(40)) == 10
