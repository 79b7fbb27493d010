"""What comes of a write is told once to each who waits, whoever is first."""

from __future__ import annotations

import threading

import pytest

from socialpub.store.connections import Coming


def test_who_asks_before_and_after_is_told_once() -> None:
    coming: Coming[int] = Coming()
    told: list[tuple[str, int]] = []
    coming.add_done_callback(lambda done: told.append(("before", done.result())))
    assert not coming.done()
    coming.set_result(7)
    coming.add_done_callback(lambda done: told.append(("after", done.result())))
    assert (told, coming.done(), coming.exception(), coming.result()) == ([("before", 7), ("after", 7)], True, None, 7)


def test_an_error_is_raised_for_whoever_asks() -> None:
    coming: Coming[int] = Coming()
    coming.set_exception(ValueError("no"))
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            coming.result()


def test_a_thread_waits_for_it_and_no_longer_than_it_said() -> None:
    coming: Coming[int] = Coming()
    with pytest.raises(TimeoutError):
        coming.result(0.01)
    threading.Timer(0.05, coming.set_result, (7,)).start()
    assert coming.result(30) == 7


def test_a_callback_that_fails_keeps_no_other_from_being_told(caplog: pytest.LogCaptureFixture) -> None:
    coming: Coming[int] = Coming()
    told: list[int] = []
    coming.add_done_callback(lambda done: 1 / 0)
    coming.add_done_callback(lambda done: told.append(done.result()))
    coming.set_result(7)
    assert told == [7]
    assert "ZeroDivisionError" in caplog.text


def test_of_many_threads_each_is_told_once() -> None:
    for _ in range(200):
        coming: Coming[int] = Coming()
        told: list[int] = []
        gate = threading.Barrier(3)

        def ask(coming: Coming[int] = coming, told: list[int] = told, gate: threading.Barrier = gate) -> None:
            gate.wait()
            for _ in range(5):
                coming.add_done_callback(lambda done: told.append(done.result()))

        threads = [threading.Thread(target=ask) for _ in range(2)]
        for thread in threads:
            thread.start()
        gate.wait()
        coming.set_result(7)
        for thread in threads:
            thread.join()
        assert told == [7] * 10
