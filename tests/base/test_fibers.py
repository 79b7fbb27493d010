"""Works that share one thread: each goes on when its socket has something to say; what would wait is done elsewhere."""

from __future__ import annotations

import contextvars
import functools
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Self

import pytest

from socialpub.base import fibers
from socialpub.base.crew import Crew
from socialpub.base.fibers import Fibers

NAME = contextvars.ContextVar("name", default="nobody")


@pytest.fixture
def crew() -> Iterator[Crew]:
    made = Crew("tested")
    yield made
    made.close(wait=True)


@pytest.fixture
def threads(crew: Crew) -> Iterator[Fibers]:
    made = Fibers("fibers", crew)
    yield made
    made.close()


class Line:
    """A fiber's end of a pair of sockets, and ours."""

    def __init__(self) -> None:
        self.theirs, self.ours = socket.socketpair()
        self.theirs.setblocking(False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.theirs.close()
        self.ours.close()

    def read(self) -> bytes:
        while True:
            try:
                return self.theirs.recv(100)
            except BlockingIOError:
                fibers.until_ready(self.theirs, writing=False, seconds=30)


def test_where_one_waits_the_next_goes_on_and_all_are_in_one_thread(threads: Fibers) -> None:
    order, over, seen = list[str](), threading.Semaphore(0), set[int]()

    def work(number: int) -> None:
        order.append(f"{number} begins")
        said = lines[number].read().decode()
        seen.add(threading.get_ident())
        order.append(f"{number} hears {said}")
        over.release()

    with ExitStack() as stack:
        lines = [stack.enter_context(Line()) for _ in range(3)]
        for number in range(3):
            threads.run(functools.partial(work, number))
        for number in (2, 0, 1):
            lines[number].ours.send(b"it")
            assert over.acquire(timeout=10)
    assert order == ["0 begins", "1 begins", "2 begins", "2 hears it", "0 hears it", "1 hears it"]
    assert len(seen) == 1
    assert threading.get_ident() not in seen


def test_who_waits_for_a_silent_socket_goes_on_after_its_time(threads: Fibers) -> None:
    over = threading.Event()

    def work(line: Line) -> None:
        fibers.until_ready(line.theirs, writing=False, seconds=0.01)
        over.set()

    with Line() as silent:
        threads.run(functools.partial(work, silent))
        assert over.wait(10)


def test_who_waits_to_write_goes_on_when_the_other_side_has_read(threads: Fibers) -> None:
    sizes, over = list[int](), threading.Event()

    def work(line: Line) -> None:
        try:
            while True:
                sizes.append(line.theirs.send(b"x" * 65536))
        except BlockingIOError:
            fibers.until_ready(line.theirs, writing=True, seconds=30)
        over.set()

    with Line() as full:
        threads.run(functools.partial(work, full))
        while not over.wait(0.01):
            full.ours.recv(1 << 20)
    assert sizes


def test_what_would_wait_is_done_by_another_thread_in_the_same_context_while_the_others_go_on(threads: Fibers) -> None:
    gate, over, told = threading.Event(), threading.Event(), list[object]()

    def waits() -> str:
        assert gate.wait(10)
        told.append((threading.current_thread().name, fibers.is_here()))
        return NAME.get()

    def first() -> None:
        NAME.set("first")
        told.append(fibers.elsewhere(waits))
        told.append((threading.current_thread().name, fibers.is_here(), NAME.get()))
        over.set()

    def second() -> None:
        told.append(NAME.get())
        gate.set()

    threads.run(first)
    threads.run(second)
    assert over.wait(10)
    assert told == ["nobody", ("tested", False), "first", ("fibers", True, "first")]


def test_what_goes_wrong_elsewhere_goes_wrong_in_the_fiber(threads: Fibers) -> None:
    caught, over = list[str](), threading.Event()

    def fails() -> None:
        raise OSError("no route")

    def work() -> None:
        try:
            fibers.elsewhere(fails)
        except OSError as error:
            caught.append(str(error))
        over.set()

    threads.run(work)
    assert over.wait(10)
    assert caught == ["no route"]


def test_a_thread_does_itself_what_may_wait() -> None:
    assert fibers.elsewhere(threading.get_ident) == threading.get_ident()
    assert not fibers.is_here()


def test_a_work_that_stops_leaves_the_others_alone_and_is_in_the_log(
    threads: Fibers, caplog: pytest.LogCaptureFixture
) -> None:
    over = threading.Event()

    def stops() -> None:
        raise ValueError("planted")

    threads.run(stops)
    threads.run(over.set)
    assert over.wait(10)
    assert "a work in a fiber stopped" in caplog.text


def test_the_thread_begins_with_the_first_work_and_ends_when_it_is_closed(crew: Crew) -> None:
    made, over = Fibers("counted", crew), threading.Event()
    assert "counted" not in {thread.name for thread in threading.enumerate()}
    made.run(over.set)
    assert over.wait(10)
    assert "counted" in {thread.name for thread in threading.enumerate()}
    made.close()
    assert "counted" not in {thread.name for thread in threading.enumerate()}
    with pytest.raises(RuntimeError):
        made.run(over.set)
