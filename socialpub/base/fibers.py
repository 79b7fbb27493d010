"""Short calls that share one thread: where one waits for its socket, the next goes on.

A thread for each of a hundred short calls is woken several times for each, and wrests the interpreter from whoever has
it: that took more of the processor than all that such a call does itself. Here each work is plain code in a greenlet,
which gives way where the socket under it has nothing to say. So whoever writes a call writes it once, and it runs in a
thread of its own or in a fiber.

A fiber must wait for nothing but its socket (`until_ready`) and what another thread does for it (`elsewhere`): all
others would wait with it.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import socket
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

import greenlet

from socialpub.base.crew import STACK_BYTES, Crew, stacks
from socialpub.base.loops import new_loop

log = logging.getLogger("socialpub.threads")

T = TypeVar("T")
END_SECONDS = 5.0
IDLE_MAX = 64
Work = Callable[[], None]


class Fibers:
    """The thread, which begins with the first work, and its works. `crew`: whose threads do what would wait."""

    def __init__(self, name: str, crew: Crew) -> None:
        self._name, self._crew = name, crew
        self._lock = threading.Lock()
        self._come = deque[Work]()
        self._idle: list[greenlet.greenlet] = []  # fibers that have ended their works
        self._called = self._closed = False
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, work: Work) -> None:
        """Have a work begun soon, by whichever thread brings it; RuntimeError where there is no thread for it."""
        loop = self._loop or self._started()
        self._come.append(work)
        if not self._called:
            self._called = True
            loop.call_soon_threadsafe(self._begin)

    def close(self) -> None:
        """End the thread: what is under way in it is left, and so is the thread where a work keeps it."""
        with self._lock:
            self._closed, loop, thread = True, self._loop, self._thread
        if loop is not None and thread is not None and not loop.is_closed():
            loop.call_soon_threadsafe(loop.stop)
            thread.join(END_SECONDS)
            if not thread.is_alive():
                loop.close()

    def _started(self) -> asyncio.AbstractEventLoop:
        """The loop of the thread, which begins where it does not run yet."""
        with self._lock:
            if self._closed:
                raise RuntimeError("the thread has ended")
            if self._loop is None:
                loop = new_loop()
                self._thread = threading.Thread(target=self._serve, args=(loop,), name=self._name, daemon=True)
                with stacks(STACK_BYTES):
                    self._thread.start()
                self._loop = loop
            return self._loop

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        _here.hub = _Hub(loop, self._crew)
        loop.run_forever()

    def _begin(self) -> None:
        """Begin all that has come, each until it waits for the first time."""
        self._called = False  # before it looks: what comes from now on calls again
        while self._come:
            fiber = self._idle.pop() if self._idle else greenlet.greenlet(self._work)
            fiber.switch(self._come.popleft())

    def _work(self, work: Work) -> None:
        """One work after the other, each in a context of its own: to make a fiber takes calls of the system."""
        hub = _here.hub
        assert hub is not None, "this is the thread of fibers"
        while True:
            _done(work)
            del work  # nothing of it is held while there is nothing to do
            if len(self._idle) == IDLE_MAX:
                return
            self._idle.append(greenlet.getcurrent())
            work = hub.pause()


def _done(work: Work) -> None:
    try:
        contextvars.Context().run(work)
    except Exception:  # noqa: BLE001 - the others go on
        log.exception("a work in a fiber stopped")


class _Hub:
    """What a fiber gives way to: the loop, in the thread's own greenlet."""

    def __init__(self, loop: asyncio.AbstractEventLoop, crew: Crew) -> None:
        self.loop, self.crew, self._greenlet = loop, crew, greenlet.getcurrent()

    def pause(self) -> Any:
        """Give way, until somebody switches back to the fiber that calls this; with what they give it."""
        return self._greenlet.switch()


class _Here(threading.local):
    hub: _Hub | None = None


_here = _Here()


def is_here() -> bool:
    """Whether this is a fiber."""
    return _here.hub is not None


def until_ready(waited: socket.socket, *, writing: bool, seconds: float) -> None:
    """In a fiber: give way until a socket has something to read, or takes something, and for `seconds` at most."""
    hub, back = _here.hub, greenlet.getcurrent().switch
    assert hub is not None, "only a fiber can give way"
    add, remove = (
        (hub.loop.add_writer, hub.loop.remove_writer) if writing else (hub.loop.add_reader, hub.loop.remove_reader)
    )
    timer = hub.loop.call_later(seconds, back)
    add(waited, back)
    try:
        hub.pause()
    finally:
        remove(waited)
        timer.cancel()


def elsewhere(run: Callable[[], T]) -> T:
    """What a work may have to wait for: a fiber gives way while another thread does it; a thread does it itself."""
    hub = _here.hub
    if hub is None:
        return run()
    back, loop, context = greenlet.getcurrent().switch, hub.loop, contextvars.copy_context()
    came: list[T] = []
    failed: list[BaseException] = []

    def do() -> None:
        try:
            came.append(context.run(run))
        except BaseException as error:  # noqa: BLE001 - whoever waits for it is told
            failed.append(error)
        loop.call_soon_threadsafe(back)

    hub.crew.run(do)
    hub.pause()
    if failed:
        raise failed[0]
    return came[0]
