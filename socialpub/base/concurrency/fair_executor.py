"""Fair executors: no upstream and no organization can take all of the slots.

An upstream or organization may hold a number of slots proportional to the free ones, and never the last one, so
latecomers still find some. The number of queued tasks is limited too: requests over the limit are refused, but tasks
that were accepted always run.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import functools
import threading
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeVar

from socialpub.base.concurrency.thread_pool import ElasticThreadPool
from socialpub.base.errors import rule_error

T = TypeVar("T")

HOST_FACTOR, OWNER_FACTOR = 2, 6  # slots per free one: at most two thirds or six sevenths of all
BUSY_RETRY_SECONDS = 5


class ShareKey(NamedTuple):
    """The upstream that a task calls, and the organization that it works for; "" for neither."""

    host: str = ""
    owner: str = ""


class SaturatedKeys(NamedTuple):
    """Upstreams and organizations that get no slot now."""

    hosts: frozenset[str]
    owners: frozenset[str]


class QueueLimits(NamedTuple):
    """The number of tasks that may wait for a slot: per organization, and in total."""

    owner: int
    total: int


NO_SHARE_KEY = ShareKey()
ANONYMOUS_KEY = ShareKey(owner="anonymous")  # unauthenticated requests share one key
_NO_HOST_LIMITS: Mapping[str, int] = {}
# Of the task that this thread runs.
current_share_key: ContextVar[ShareKey] = ContextVar("current_share_key", default=NO_SHARE_KEY)


class FairShareLimiter:
    """Counts the slots that each upstream and organization holds.

    `host_limits` returns hosts that may hold less for now, and how many slots.
    """

    def __init__(self, slots: int, host_limits: Callable[[], Mapping[str, int]] = lambda: _NO_HOST_LIMITS) -> None:
        self.slots, self.host_limits = slots, host_limits
        self._lock = threading.Lock()
        self._held = 0
        self._hosts: dict[str, int] = defaultdict(int)
        self._owners: dict[str, int] = defaultdict(int)

    def try_enter(self, share: ShareKey, *, anyway: bool = False) -> bool:
        """Take a slot; return False if the share is used up. `anyway` ignores `host_limits`."""
        host_limits = _NO_HOST_LIMITS if anyway else self.host_limits()
        with self._lock:
            if self._is_full(share.host, host_limits) or self._is_sated(share.owner):
                return False
            self._add(share, 1)
            return True

    def leave(self, share: ShareKey) -> None:
        with self._lock:
            self._add(share, -1)

    def get_saturated(self) -> SaturatedKeys:
        host_limits = self.host_limits()
        with self._lock:
            hosts = frozenset(host for host in {*self._hosts, *host_limits} if self._is_full(host, host_limits))
            return SaturatedKeys(hosts, frozenset(owner for owner in self._owners if self._is_sated(owner)))

    def _is_full(self, host: str, host_limits: Mapping[str, int]) -> bool:
        held = self._hosts.get(host, 0)
        return held >= host_limits.get(host, self.slots) or (bool(host) and self._is_enough(held, HOST_FACTOR))

    def _is_sated(self, owner: str) -> bool:
        return bool(owner) and self._is_enough(self._owners.get(owner, 0), OWNER_FACTOR)

    def _is_enough(self, held: int, parts: int) -> bool:
        free = self.slots - self._held
        return held > 0 and (free <= 1 or held >= parts * free)

    def _add(self, share: ShareKey, number: int) -> None:
        self._held += number
        for name, held in ((share.host, self._hosts), (share.owner, self._owners)):
            if name:
                held[name] += number
                if not held[name]:
                    del held[name]


ReleaseCallback = Callable[[], None]
StartCallback = Callable[[ReleaseCallback], None]
"""Called once a slot is taken, with the callback that releases it. Must be short and not raise."""


class _QueuedTask(NamedTuple):
    future: concurrent.futures.Future[Any]
    run: Callable[[], Any]
    keeps_slot: bool = False  # `run` got the callback that releases the slot


class FairExecutor(concurrent.futures.Executor):
    """An executor with a limited number of slots, which serves the shares in turn.

    `limits` bounds the queue of `admit` and `of`; `submit_for` always accepts. `threads` is the pool that runs the
    tasks; without it the executor has its own, whose threads call `ended` as they exit. `future` is the class of the
    futures that `submit_for` returns. `is_busy`: a task is running, so the interpreter would wait for it at its exit.
    """

    def __init__(
        self,
        slots: int,
        name: str,
        limits: QueueLimits | None = None,
        ended: Callable[[], object] = lambda: None,
        threads: ElasticThreadPool | None = None,
        future: type[concurrent.futures.Future[Any]] = concurrent.futures.Future,
    ) -> None:
        self._shares, self._limits, self._future = FairShareLimiter(slots), limits, future
        self._threads, self._owns_threads = threads or ElasticThreadPool(name, ended), threads is None
        self._changed = threading.Condition()
        self._waiting: OrderedDict[ShareKey, deque[_QueuedTask]] = OrderedDict()
        self._running = 0
        self._closed = False

    @property
    def is_busy(self) -> bool:
        return self._running > 0

    def submit(self, run: Callable[..., T], /, *arguments: Any, **named: Any) -> concurrent.futures.Future[T]:
        """Submit a task without a share key."""
        return self.submit_for(NO_SHARE_KEY, run, *arguments, **named)

    def submit_for(
        self, share: ShareKey, run: Callable[..., T], /, *arguments: Any, **named: Any
    ) -> concurrent.futures.Future[T]:
        """Queue a task for a share.

        Raise RuntimeError if the executor is closed, or has no thread and cannot start one.
        """
        task = _QueuedTask(self._future(), functools.partial(run, *arguments, **named))
        with self._changed:
            if self._closed:
                raise RuntimeError("the pool is closed")
            self._waiting.setdefault(share, deque()).append(task)
            try:
                self._start_tasks()
            except RuntimeError:
                self._forget(share, task.future)
                raise
        return task.future

    def enter_for(self, share: ShareKey, start: StartCallback) -> None:
        """Call `start` once a slot is free: now in this thread, or later in a pool thread.

        Raise RuntimeError if the executor is closed.
        """
        with self._changed:
            if self._closed:
                raise RuntimeError("the pool is closed")
            is_first = share not in self._waiting and self._running < self._shares.slots
            leave = functools.partial(self._release, share)
            if is_first and self._shares.try_enter(share):
                self._running += 1
            else:
                task = _QueuedTask(concurrent.futures.Future(), functools.partial(start, leave), keeps_slot=True)
                self._waiting.setdefault(share, deque()).append(task)
                return
        start(leave)

    def _release(self, share: ShareKey) -> None:
        with self._changed:
            self._leave(share)
            if self._waiting:
                with contextlib.suppress(RuntimeError):  # no thread to be had: a running one takes the task later
                    self._start_tasks()
            if self._closed:
                self._changed.notify_all()

    def of(self, share: ShareKey) -> concurrent.futures.Executor:
        """Return an executor for a request, which raises as `admit` does if too much is queued."""
        return _KeyedExecutor(self, share)

    async def run(self, share: ShareKey, run: Callable[..., T], *arguments: Any) -> T:
        """Run a task of a request in a thread. Raise as `admit` does if too much is queued."""
        return await asyncio.get_running_loop().run_in_executor(self.of(share), run, *arguments)

    def admit(self, share: ShareKey, count: int = 1) -> None:
        """Raise ApiError `http.busy` if `count` more tasks would exceed the queue limits."""
        if self._limits is not None and count > self._room(share.owner, self._limits):
            raise rule_error("http.busy", retry_after=BUSY_RETRY_SECONDS)

    def _room(self, owner: str, limits: QueueLimits) -> int:
        with self._changed:
            own_count = sum(len(tasks) for share, tasks in self._waiting.items() if share.owner == owner)
            return min(limits.owner - own_count, limits.total - self._count_waiting())

    def withdraw(self, share: ShareKey, future: concurrent.futures.Future[Any]) -> None:
        """Cancel a task that has not started."""
        if future.cancel():
            with self._changed:
                self._forget(share, future)

    def _forget(self, share: ShareKey, future: concurrent.futures.Future[Any]) -> None:
        rest = deque(task for task in self._waiting.get(share, ()) if task.future is not future)
        if rest:
            self._waiting[share] = rest
        else:
            self._waiting.pop(share, None)

    @property
    def waiting_count(self) -> int:
        """The number of queued tasks."""
        with self._changed:
            return self._count_waiting()

    def has_room(self, count: int) -> bool:
        """Return whether `count` more tasks of any share would start at once.

        Below half of the slots no share is saturated.
        """
        with self._changed:
            return not self._waiting and 2 * (self._running + count) <= self._shares.slots

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more tasks. `cancel_futures` also cancels the queued ones."""
        with self._changed:
            self._closed = True
            while cancel_futures and self._waiting:
                for task in self._waiting.popitem()[1]:
                    task.future.cancel()
            if wait:
                self._changed.wait_for(lambda: not self._running and not self._waiting)
        if self._owns_threads:
            self._threads.close(wait=wait)

    def _count_waiting(self) -> int:
        return sum(map(len, self._waiting.values()))

    def _start_tasks(self) -> None:
        while (entry := self._take()) is not None:
            try:
                self._threads.run(functools.partial(self._run_tasks, *entry))
            except RuntimeError:
                self._put_back(*entry)
                raise

    def _put_back(self, share: ShareKey, task: _QueuedTask) -> None:
        self._leave(share)
        self._waiting.setdefault(share, deque()).appendleft(task)
        self._waiting.move_to_end(share, last=False)

    def _run_tasks(self, share: ShareKey, task: _QueuedTask) -> None:
        entry: tuple[ShareKey, _QueuedTask] | None = (share, task)
        del task
        while entry is not None:
            share, now = entry
            current_share_key.set(share)
            ended_share = None if now.keeps_slot else share
            try:
                _run_task(now)
            finally:
                del now, entry
                entry = self._finish(ended_share)

    def _finish(self, share: ShareKey | None) -> tuple[ShareKey, _QueuedTask] | None:
        """Release a finished task's slot, and return the thread's next task.

        `share` is None if the slot is still in use.
        """
        with self._changed:
            if share is not None:
                self._leave(share)
            entry = self._take() if self._waiting else None
            if self._waiting and entry is not None:
                with contextlib.suppress(RuntimeError):  # as above
                    self._start_tasks()
            if self._closed:
                self._changed.notify_all()
            return entry

    def _take(self) -> tuple[ShareKey, _QueuedTask] | None:
        """Return the next task whose share has a free slot."""
        if self._running >= self._shares.slots:
            return None
        for share, tasks in self._waiting.items():
            if self._shares.try_enter(share):
                task = tasks.popleft()
                self._waiting.move_to_end(share)
                if not tasks:
                    del self._waiting[share]
                self._running += 1
                return share, task
        return None

    def _leave(self, share: ShareKey) -> None:
        self._shares.leave(share)
        self._running -= 1


class _KeyedExecutor(concurrent.futures.Executor):
    def __init__(self, pool: FairExecutor, share: ShareKey) -> None:
        self._pool, self._share = pool, share

    def submit(self, run: Callable[..., T], /, *arguments: Any, **named: Any) -> concurrent.futures.Future[T]:
        self._pool.admit(self._share)
        return self._pool.submit_for(self._share, run, *arguments, **named)


def _run_task(task: _QueuedTask) -> None:
    if not task.future.set_running_or_notify_cancel():
        return
    try:
        result = task.run()
    except BaseException as error:  # noqa: BLE001 - goes to the future
        task.future.set_exception(error)
    else:
        task.future.set_result(result)
    finally:
        del task  # avoid a reference cycle: an error's traceback holds this frame
