"""A thread pool of variable size: its threads start on demand and exit when idle."""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator

log = logging.getLogger("socialpub.threads")

IDLE_SECONDS = 30.0
# A thousand nested calls through C, Python's recursion limit, need 1.7 MiB: deeply nested JSON must not crash the
# process. Memory is used only as it is touched, and below 2 MiB never as one huge page.
STACK_BYTES = 1792 * 1024

Callback = Callable[[], None]
_Mailbox = queue.SimpleQueue[Callback | None]
_stack_size_lock = threading.Lock()


class ElasticThreadPool:
    """Runs each callable on an idle thread, or on a new one.

    Idle threads are reused last-in-first-out, so surplus threads reach the idle timeout and exit. `ended` runs as each
    thread exits. Concurrency is limited by the callers, not here.
    """

    def __init__(self, name: str, ended: Callable[[], object] = lambda: None, idle_seconds: float = IDLE_SECONDS):
        self._name, self._ended, self._idle_seconds = name, ended, idle_seconds
        self._changed = threading.Condition()
        self._idle: dict[_Mailbox, None] = {}
        self._backlog: deque[Callback] = deque()  # callables for which no thread could be started
        self._threads = self._ending = 0
        self._closed = False

    @property
    def threads(self) -> int:
        """The number of threads, running and idle."""
        return self._threads

    def run(self, work: Callback) -> None:
        """Run a callable, which must not raise.

        Raise RuntimeError if there is no thread and none can be started.
        """
        with self._changed:
            if self._idle:
                self._idle.popitem()[0].put(work)
            elif not self._try_start(work):
                self._backlog.append(work)

    def close(self, *, wait: bool) -> None:
        """Let the threads exit once their work is done; `wait` until the last one has."""
        with self._changed:
            self._closed = True
            while self._idle:
                self._idle.popitem()[0].put(None)
            if wait:
                self._changed.wait_for(lambda: not self._threads and not self._ending)

    def _try_start(self, work: Callback) -> bool:
        mailbox: _Mailbox = queue.SimpleQueue()
        mailbox.put(work)  # as an argument of the thread it would stay in memory as long as the thread
        thread = threading.Thread(target=self._serve, args=(mailbox,), name=self._name, daemon=True)
        self._threads += 1
        try:
            with use_stack_size(STACK_BYTES):
                thread.start()
        except RuntimeError:  # the system's limit
            self._threads -= 1
            if not self._threads:
                raise
            return False
        return True

    def _serve(self, mailbox: _Mailbox) -> None:
        try:
            self._run_tasks(mailbox)
        finally:
            self._ended()
            with self._changed:
                self._ending -= 1
                self._changed.notify_all()

    def _run_tasks(self, mailbox: _Mailbox) -> None:
        work = mailbox.get()
        while work is not None:
            try:
                work()
            except Exception:  # noqa: BLE001 - the thread continues
                log.exception("a task of the thread pool %s failed; its thread continues with the next one", self._name)
            del work  # release its references while the thread is idle
            work = self._next(mailbox)

    def _next(self, mailbox: _Mailbox) -> Callback | None:
        """Return the next callable; None if the thread should exit."""
        with self._changed:
            if self._backlog:
                return self._backlog.popleft()
            if self._closed:
                self._count_exit()
                return None
            self._idle[mailbox] = None
        with contextlib.suppress(queue.Empty):
            return self._check_exit(mailbox.get(timeout=self._idle_seconds))
        with self._changed:
            if mailbox in self._idle:
                del self._idle[mailbox]
                self._count_exit()
                return None
        return self._check_exit(mailbox.get())  # handed over as the wait timed out

    def _check_exit(self, work: Callback | None) -> Callback | None:
        if work is None:
            with self._changed:
                self._count_exit()
        return work

    def _count_exit(self) -> None:
        """Stop counting the thread, so that another may start."""
        self._threads -= 1
        self._ending += 1


@contextlib.contextmanager
def use_stack_size(size: int) -> Iterator[None]:
    """Give threads that are started in this block a stack of `size` bytes.

    Python can only set it for the whole process.
    """
    with _stack_size_lock:
        before = threading.stack_size(size)
        try:
            yield
        finally:
            threading.stack_size(before)
