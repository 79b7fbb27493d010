"""Threads that are there while there is work for them: made when nobody is idle, gone when they have been idle."""

from __future__ import annotations

import contextlib
import functools
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextvars import ContextVar

log = logging.getLogger("socialpub.threads")

IDLE_SECONDS = 30.0
# Python stops a recursion after a thousand calls, which need 1.7 MiB where each goes through C: no answer of a
# platform, however deep, ends the process. Memory is taken as it is touched, and below 2 MiB never as one huge page.
STACK_BYTES = 1792 * 1024

Work = Callable[[], None]
_Seat = queue.SimpleQueue[Work | None]
_starting = threading.Lock()


class Crew:
    """Whoever was idle last works next, so that the others come to their end. `ended`: the last thing each one does.

    Nobody counts here how much is under way: who brings the work does.
    """

    def __init__(self, name: str, ended: Callable[[], object] = lambda: None, idle_seconds: float = IDLE_SECONDS):
        self._name, self._ended, self._idle_seconds = name, ended, idle_seconds
        self._changed = threading.Condition()
        self._idle: dict[_Seat, None] = {}
        self._kept: deque[Work] = deque()  # where no thread could be made
        self._threads = self._ending = 0
        self._closed = False

    @property
    def threads(self) -> int:
        """How many there are, at work and idle."""
        return self._threads

    def run(self, work: Work) -> None:
        """Have work done, which must not raise; RuntimeError when there is no thread, nor one to be had."""
        with self._changed:
            if self._idle:
                self._idle.popitem()[0].put(work)
            elif not self._started(work):
                self._kept.append(work)

    def try_run(self, work: Work) -> bool:
        """Have somebody who is idle do it, at once; False when nobody is: a thread takes its time to begin."""
        with self._changed:
            if not self._idle:
                return False
            self._idle.popitem()[0].put(work)
            return True

    def close(self, *, wait: bool) -> None:
        """Who is idle, or has done what was begun, is needed no longer. `wait` until the last has ended."""
        with self._changed:
            self._closed = True
            while self._idle:
                self._idle.popitem()[0].put(None)
            if wait:
                self._changed.wait_for(lambda: not self._threads and not self._ending)

    def _started(self, work: Work) -> bool:
        thread = threading.Thread(target=self._serve, args=(work,), name=self._name, daemon=True)
        self._threads += 1
        try:
            with stacks(STACK_BYTES):
                thread.start()
        except RuntimeError:  # no more to be had
            self._threads -= 1
            if not self._threads:
                raise
            return False
        return True

    def _serve(self, work: Work) -> None:
        try:
            self._work(work)
        finally:
            self._ended()
            with self._changed:
                self._ending -= 1
                self._changed.notify_all()

    def _work(self, first: Work) -> None:
        work: Work | None = first
        del first
        seat: _Seat = queue.SimpleQueue()
        while work is not None:
            try:
                work()
            except Exception:  # noqa: BLE001 - the thread goes on
                log.exception("work in %s stopped", self._name)
            del work  # nothing of it is held while there is nothing to do
            work = self._next(seat)

    def _next(self, seat: _Seat) -> Work | None:
        """The next work; None when the thread is needed no longer."""
        with self._changed:
            if self._kept:
                return self._kept.popleft()
            if self._closed:
                self._left()
                return None
            self._idle[seat] = None
        with contextlib.suppress(queue.Empty):
            return self._given(seat.get(timeout=self._idle_seconds))
        with self._changed:
            if seat in self._idle:
                del self._idle[seat]
                self._left()
                return None
        return self._given(seat.get())  # it came at the last moment

    def _given(self, work: Work | None) -> Work | None:
        if work is None:
            with self._changed:
                self._left()
        return work

    def _left(self) -> None:
        """The thread is counted no longer: another may be made from now on."""
        self._threads -= 1
        self._ending += 1


class Starts:
    """Lets so many of a burst begin at once.

    Until it first waits for a platform a work keeps the interpreter busy, and hundreds would hand it round among
    themselves, each being woken a thousand times a second to ask for it. Who was not let in after `seconds` begins all
    the same: those inside may be waiting for something else. `most` may change from one moment to the next.
    """

    def __init__(self, most: int | Callable[[], int], seconds: float) -> None:
        self._most = most if callable(most) else lambda: most
        self._inside, self._left, self._seconds = 0, threading.Condition(), seconds

    def run(self, crew: Crew, work: Work) -> None:
        """`Crew.run`, when it is let in."""
        entered = self.enter()
        try:
            crew.run(functools.partial(self.inside, work) if entered else work)
        except RuntimeError:
            if entered:
                self.leave()
            raise

    def let_in(self, work: Work) -> None:
        """Do the work in the calling thread, when it is let in."""
        if self.enter():
            self.inside(work)
        else:
            work()

    def enter(self) -> bool:
        """Wait to be let in; False where it took too long."""
        with self._left:
            is_in = self._left.wait_for(self._has_room, self._seconds)
            self._inside += is_in
            return is_in

    def try_enter(self) -> bool:
        with self._left:
            is_in = self._has_room()
            self._inside += is_in
            return is_in

    def leave(self) -> None:
        with self._left:
            self._inside -= 1
            self._left.notify()

    def _has_room(self) -> bool:
        return self._inside < self._most()

    def next(self) -> None:
        """The calling thread, which may be inside, goes on with another work."""

    def inside(self, work: Work) -> None:
        """Do the work of whoever was let in; the place is left when it first waits, or at its end."""
        _places.set([self.leave])
        try:
            work()
        finally:
            waits()


class Few(Starts):
    """Lets so few work at once, of those whose works take less than `seconds`: whoever has ended one goes on with the
    next, and nobody is woken for it. What takes longer waits for somebody else, and another begins beside it.
    """

    def __init__(self, most: int, seconds: float) -> None:
        super().__init__(most, seconds)
        self._quick: dict[int, float] = {}  # threads inside, and until when each is taken to be quick

    def inside(self, work: Work) -> None:
        """Do the work of whoever was let in, in its thread, which is inside until the end."""
        me = threading.get_ident()
        with self._left:
            self._inside -= 1
            self._quick[me] = time.monotonic() + self._seconds
        try:
            work()
        finally:
            with self._left:
                del self._quick[me]
                self._left.notify()

    def next(self) -> None:
        """The calling thread goes on with another work."""
        me = threading.get_ident()
        with self._left:
            if me in self._quick:
                self._quick[me] = time.monotonic() + self._seconds

    def _has_room(self) -> bool:
        now = time.monotonic()
        return self._inside + sum(until > now for until in self._quick.values()) < self._most()


# What leaves the place that a work was let in to, until it has: kept by the context of the work, whoever does it.
_places: ContextVar[list[Work] | None] = ContextVar("places", default=None)


def waits() -> None:
    """This work is about to wait for a platform, or its turn: another may begin in its place."""
    if places := _places.get():
        places.pop()()


@contextlib.contextmanager
def stacks(size: int) -> Iterator[None]:
    """Threads that are started meanwhile have a stack of this size, which Python only knows to set for all."""
    with _starting:
        before = threading.stack_size(size)
        try:
            yield
        finally:
            threading.stack_size(before)
