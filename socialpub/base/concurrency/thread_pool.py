"""Threads that are there while there is work for them: made when nobody is idle, gone when they have been idle."""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator

log = logging.getLogger("socialpub.threads")

IDLE_SECONDS = 30.0
# Python stops a recursion after a thousand calls, which need 1.7 MiB where each goes through C: no answer of a
# platform, however deep, ends the process. Memory is taken as it is touched, and below 2 MiB never as one huge page.
STACK_BYTES = 1792 * 1024

Callback = Callable[[], None]
_Mailbox = queue.SimpleQueue[Callback | None]
_stack_size_lock = threading.Lock()


class ElasticThreadPool:
    """Whoever was idle last works next, so that the others come to their end. `ended`: the last thing each one does.

    Nobody counts here how much is under way: who brings the work does.
    """

    def __init__(self, name: str, ended: Callable[[], object] = lambda: None, idle_seconds: float = IDLE_SECONDS):
        self._name, self._ended, self._idle_seconds = name, ended, idle_seconds
        self._changed = threading.Condition()
        self._idle: dict[_Mailbox, None] = {}
        self._kept: deque[Callback] = deque()  # where no thread could be made
        self._threads = self._ending = 0
        self._closed = False

    @property
    def threads(self) -> int:
        """How many there are, at work and idle."""
        return self._threads

    def run(self, work: Callback) -> None:
        """Have work done, which must not raise; RuntimeError when there is no thread, nor one to be had."""
        with self._changed:
            if self._idle:
                self._idle.popitem()[0].put(work)
            elif not self._started(work):
                self._kept.append(work)

    def close(self, *, wait: bool) -> None:
        """Who is idle, or has done what was begun, is needed no longer. `wait` until the last has ended."""
        with self._changed:
            self._closed = True
            while self._idle:
                self._idle.popitem()[0].put(None)
            if wait:
                self._changed.wait_for(lambda: not self._threads and not self._ending)

    def _started(self, work: Callback) -> bool:
        thread = threading.Thread(target=self._serve, args=(work,), name=self._name, daemon=True)
        self._threads += 1
        try:
            with use_stack_size(STACK_BYTES):
                thread.start()
        except RuntimeError:  # no more to be had
            self._threads -= 1
            if not self._threads:
                raise
            return False
        return True

    def _serve(self, work: Callback) -> None:
        try:
            self._work(work)
        finally:
            self._ended()
            with self._changed:
                self._ending -= 1
                self._changed.notify_all()

    def _work(self, first: Callback) -> None:
        work: Callback | None = first
        del first
        seat: _Mailbox = queue.SimpleQueue()
        while work is not None:
            try:
                work()
            except Exception:  # noqa: BLE001 - the thread goes on
                log.exception("work in %s stopped", self._name)
            del work  # nothing of it is held while there is nothing to do
            work = self._next(seat)

    def _next(self, seat: _Mailbox) -> Callback | None:
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

    def _given(self, work: Callback | None) -> Callback | None:
        if work is None:
            with self._changed:
                self._left()
        return work

    def _left(self) -> None:
        """The thread is counted no longer: another may be made from now on."""
        self._threads -= 1
        self._ending += 1


@contextlib.contextmanager
def use_stack_size(size: int) -> Iterator[None]:
    """Threads that are started meanwhile have a stack of this size, which Python only knows to set for all."""
    with _stack_size_lock:
        before = threading.stack_size(size)
        try:
            yield
        finally:
            threading.stack_size(before)
