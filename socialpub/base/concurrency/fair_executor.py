"""Shares of what many want: nobody takes all the places, however much they ask for.

A share is what one upstream, or one organization, may hold: so many places for each that is free, and never the last
one. Whoever hangs first holds most; whoever comes after still finds some. What waits for a place is counted too, and
who asks for more than may wait is refused; what was accepted before is not.
"""

from __future__ import annotations

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

HOST_FACTOR, OWNER_FACTOR = 2, 6  # places for each free one: at most two thirds of all, six sevenths of all
BUSY_RETRY_SECONDS = 5


class ShareKey(NamedTuple):
    """Whose work it is: the upstream that it calls and the organization that wants it; "" is nobody's."""

    host: str = ""
    owner: str = ""


class SaturatedKeys(NamedTuple):
    """Who gets no place now."""

    hosts: frozenset[str]
    owners: frozenset[str]


class QueueLimits(NamedTuple):
    """How much may wait for a place: of one owner, and in all."""

    owner: int
    total: int


NO_SHARE_KEY = ShareKey()
ANONYMOUS_KEY = ShareKey(owner="anybody")  # requests of those who have not said who they are: one owner together
_NO_HOST_LIMITS: Mapping[str, int] = {}
current_share_key: ContextVar[ShareKey] = ContextVar(
    "working_for", default=NO_SHARE_KEY
)  # whose work this thread is doing


class FairShareLimiter:
    """Counts who holds how many of `places`. `narrow`: hosts that may hold less for now, and how much."""

    def __init__(self, places: int, narrow: Callable[[], Mapping[str, int]] = lambda: _NO_HOST_LIMITS) -> None:
        self.places, self.narrow = places, narrow
        self._lock = threading.Lock()
        self._held = 0
        self._hosts: dict[str, int] = defaultdict(int)
        self._owners: dict[str, int] = defaultdict(int)

    def try_enter(self, share: ShareKey, *, anyway: bool = False) -> bool:
        """Take a place; False when it would be more than the share. `anyway`: the host may be a narrow one."""
        narrow = _NO_HOST_LIMITS if anyway else self.narrow()
        with self._lock:
            if self._is_full(share.host, narrow) or self._is_sated(share.owner):
                return False
            self._add(share, 1)
            return True

    def leave(self, share: ShareKey) -> None:
        with self._lock:
            self._add(share, -1)

    def full(self) -> SaturatedKeys:
        narrow = self.narrow()
        with self._lock:
            hosts = frozenset(host for host in {*self._hosts, *narrow} if self._is_full(host, narrow))
            return SaturatedKeys(hosts, frozenset(owner for owner in self._owners if self._is_sated(owner)))

    def _is_full(self, host: str, narrow: Mapping[str, int]) -> bool:
        held = self._hosts.get(host, 0)
        return held >= narrow.get(host, self.places) or (bool(host) and self._is_enough(held, HOST_FACTOR))

    def _is_sated(self, owner: str) -> bool:
        return bool(owner) and self._is_enough(self._owners.get(owner, 0), OWNER_FACTOR)

    def _is_enough(self, held: int, parts: int) -> bool:
        free = self.places - self._held
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
"""What is called where there is a place for it, and is given what leaves the place; it must be short and not raise."""


class _QueuedTask(NamedTuple):
    future: concurrent.futures.Future[Any]
    run: Callable[[], Any]
    stays: bool = False  # its place is left by whatever it has begun


class FairExecutor(concurrent.futures.Executor):
    """Takes waiting work in turn from each share, within its places; threads of a crew do it.

    `waiting` bounds what may be asked of it (`admit`, `of`); `submit_for` takes whatever was accepted. `crew`: whose
    threads; else it has its own, each of which ends with `ended`. `future`: the class of what `submit_for` returns.
    `busy` tells whether something is under way: the
    interpreter would wait for it.
    """

    def __init__(
        self,
        places: int,
        name: str,
        waiting: QueueLimits | None = None,
        ended: Callable[[], object] = lambda: None,
        crew: ElasticThreadPool | None = None,
        future: type[concurrent.futures.Future[Any]] = concurrent.futures.Future,
    ) -> None:
        self._shares, self._most, self._future = FairShareLimiter(places), waiting, future
        self._crew, self._is_mine = crew or ElasticThreadPool(name, ended), crew is None
        self._changed = threading.Condition()
        self._waiting: OrderedDict[ShareKey, deque[_QueuedTask]] = OrderedDict()
        self._running = 0
        self._closed = False

    @property
    def busy(self) -> bool:
        return self._running > 0

    def submit(self, run: Callable[..., T], /, *arguments: Any, **named: Any) -> concurrent.futures.Future[T]:
        """Work that is nobody's in particular."""
        return self.submit_for(NO_SHARE_KEY, run, *arguments, **named)

    def submit_for(
        self, share: ShareKey, run: Callable[..., T], /, *arguments: Any, **named: Any
    ) -> concurrent.futures.Future[T]:
        """RuntimeError when the pool is closed, or has no thread and cannot start one."""
        work = _QueuedTask(self._future(), functools.partial(run, *arguments, **named))
        with self._changed:
            if self._closed:
                raise RuntimeError("the pool is closed")
            self._waiting.setdefault(share, deque()).append(work)
            try:
                self._begin()
            except RuntimeError:
                self._forget(share, work.future)
                raise
        return work.future

    def enter_for(self, share: ShareKey, begin: StartCallback) -> None:
        """Have something begin once there is a place for it: here and now, or in a thread of the crew.

        RuntimeError when the pool is closed.
        """
        with self._changed:
            if self._closed:
                raise RuntimeError("the pool is closed")
            is_first = share not in self._waiting and self._running < self._shares.places
            leave = functools.partial(self._left, share)
            if is_first and self._shares.try_enter(share):
                self._running += 1
            else:
                work = _QueuedTask(concurrent.futures.Future(), functools.partial(begin, leave), stays=True)
                self._waiting.setdefault(share, deque()).append(work)
                return
        begin(leave)

    def _left(self, share: ShareKey) -> None:
        """A place is given back, for whatever waits for one."""
        with self._changed:
            self._leave(share)
            if self._waiting:
                with contextlib.suppress(RuntimeError):  # no thread to be had: what is under way goes on with it
                    self._begin()
            if self._closed:
                self._changed.notify_all()

    def of(self, share: ShareKey) -> concurrent.futures.Executor:
        """The pool for a request, which is refused (`admit`) where too much waits."""
        return _KeyedExecutor(self, share)

    def admit(self, share: ShareKey, count: int = 1) -> None:
        """ApiError `http.busy` when so much more would be more than may wait: of this owner, or in all."""
        if self._most is not None and count > self._room(share.owner, self._most):
            raise rule_error("http.busy", retry_after=BUSY_RETRY_SECONDS)

    def _room(self, owner: str, most: QueueLimits) -> int:
        with self._changed:
            mine = sum(len(works) for share, works in self._waiting.items() if share.owner == owner)
            return min(most.owner - mine, most.total - self._waits())

    def withdraw(self, share: ShareKey, future: concurrent.futures.Future[Any]) -> None:
        """Nobody wants this any more: it is not begun, where it has not been."""
        if future.cancel():
            with self._changed:
                self._forget(share, future)

    def _forget(self, share: ShareKey, future: concurrent.futures.Future[Any]) -> None:
        rest = deque(work for work in self._waiting.get(share, ()) if work.future is not future)
        if rest:
            self._waiting[share] = rest
        else:
            self._waiting.pop(share, None)

    @property
    def waits(self) -> int:
        """How much waits for a place."""
        with self._changed:
            return self._waits()

    def has_room(self, count: int) -> bool:
        """Whether so much more would begin at once, whoever's it is: below half of the places no share is full."""
        with self._changed:
            return not self._waiting and 2 * (self._running + count) <= self._shares.places

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more work. `cancel_futures`: what waits is not begun."""
        with self._changed:
            self._closed = True
            while cancel_futures and self._waiting:
                for work in self._waiting.popitem()[1]:
                    work.future.cancel()
            if wait:
                self._changed.wait_for(lambda: not self._running and not self._waiting)
        if self._is_mine:
            self._crew.close(wait=wait)

    def _waits(self) -> int:
        return sum(map(len, self._waiting.values()))

    def _begin(self) -> None:
        """Bring what has a place to the crew."""
        while (found := self._take()) is not None:
            try:
                self._crew.run(functools.partial(self._work, *found))
            except RuntimeError:
                self._untake(*found)
                raise

    def _untake(self, share: ShareKey, work: _QueuedTask) -> None:
        """It is the next of its share again."""
        self._leave(share)
        self._waiting.setdefault(share, deque()).appendleft(work)
        self._waiting.move_to_end(share, last=False)

    def _work(self, share: ShareKey, work: _QueuedTask) -> None:
        """Do it, and what has a place after it."""
        found: tuple[ShareKey, _QueuedTask] | None = (share, work)
        del work
        while found is not None:
            share, now = found
            current_share_key.set(share)
            left = None if now.stays else share
            try:
                _run_task(now)
            finally:
                del now, found
                found = self._after(left)

    def _after(self, share: ShareKey | None) -> tuple[ShareKey, _QueuedTask] | None:
        """What the thread that has ended a work does next; others may have a place by now as well. `share`: whose place
        is left with it.
        """
        with self._changed:
            if share is not None:
                self._leave(share)
            found = self._take() if self._waiting else None
            if self._waiting and found is not None:
                with contextlib.suppress(RuntimeError):  # no thread to be had: what is under way goes on with it
                    self._begin()
            if self._closed:
                self._changed.notify_all()
            return found

    def _take(self) -> tuple[ShareKey, _QueuedTask] | None:
        """The next work that its share has a place for."""
        if self._running >= self._shares.places:
            return None
        for share, works in self._waiting.items():
            if self._shares.try_enter(share):
                work = works.popleft()
                self._waiting.move_to_end(share)
                if not works:
                    del self._waiting[share]
                self._running += 1
                return share, work
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


def _run_task(work: _QueuedTask) -> None:
    if not work.future.set_running_or_notify_cancel():
        return
    try:
        result = work.run()
    except BaseException as error:  # noqa: BLE001 - whoever waits for it is told
        work.future.set_exception(error)
    else:
        work.future.set_result(result)
