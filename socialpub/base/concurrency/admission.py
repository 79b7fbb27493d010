"""Admission of requests: how many of one organization proceed at once, and at what pace.

The executors (`fair_executor`) bound what one organization may queue. Admission bounds what precedes every queue: a
burst of one organization would otherwise occupy the event loop and its threads while other organizations wait.
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict, deque
from typing import Self

SERVE_SECONDS = 0.005  # between two checks for expired permits, while requests wait
PACED_MAX = 1000  # owners whose next turn is stored


class Permit:
    """An admitted request: active until `rest`, present until `release`.

    Also a context manager that releases the permit at its end.
    """

    __slots__ = ("admission", "is_active", "is_present", "owner", "since")

    def __init__(self, admission: AdmissionController, owner: str, since: float) -> None:
        self.admission, self.owner, self.since = admission, owner, since
        self.is_active = self.is_present = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def rest(self) -> None:
        """Free the slot: the request now waits for I/O, so the owner's next one may start."""
        self.admission.end(self, is_present=True)
        self.admission.serve()

    def release(self) -> None:
        self.admission.end(self)
        self.admission.serve()


class AdmissionController:
    """Admits `alone` concurrent requests per owner, or `shared` if other owners are present.

    An owner counts as present for `recent` seconds after its last request. Requests over the limit wait in one queue
    per owner. A permit held for `counted` seconds stops counting, for its owner and against others, because such a
    request usually waits for I/O. Not thread-safe: use it from the event loop only.
    """

    def __init__(
        self, alone: int, shared: int | None = None, *, counted: float = math.inf, recent: float = 0.0
    ) -> None:
        self.alone, self.shared = alone, alone if shared is None else shared
        self.counted, self.recent = counted, recent
        self._active: dict[str, int] = {}  # requests by owner; so is `_present`
        self._present: dict[str, int] = {}
        self._left: OrderedDict[str, float] = OrderedDict()  # owners without a request, and the time of their last one
        self._permits: deque[Permit] = deque()  # in the order of admission, until they stop counting
        self._queues: dict[str, deque[asyncio.Future[Permit]]] = {}
        self._will_serve = False

    def waiting(self, owner: str) -> int:
        """Return how many requests of the owner wait for a permit."""
        return sum(not permit_future.done() for permit_future in self._queues.get(owner, ()))

    async def enter(self, owner: str) -> Permit:
        """Wait for a permit, behind the owner's earlier requests."""
        self._expire()
        if owner not in self._queues and self._active.get(owner, 0) < self._limit(owner):
            return self._admit(owner)
        permit_future: asyncio.Future[Permit] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(owner, deque()).append(permit_future)
        self._serve_later()
        try:
            return await permit_future
        except asyncio.CancelledError:
            if permit_future.done() and not permit_future.cancelled():  # admitted and canceled at the same moment
                permit_future.result().release()
            raise

    def end(self, permit: Permit, *, is_present: bool = False) -> None:
        """Stop counting a permit as active, and also as present unless `is_present`."""
        if permit.is_active:
            permit.is_active = False
            _decrement(self._active, permit.owner)
        if permit.is_present and not is_present:
            permit.is_present = False
            if not _decrement(self._present, permit.owner) and self.recent:
                self._left[permit.owner] = asyncio.get_running_loop().time()

    def serve(self) -> None:
        """Admit waiting requests as far as the limits allow, one owner after the other."""
        if not self._queues:
            return
        self._expire()
        for owner in list(self._queues):
            queue = self._queues.pop(owner)
            while queue and (queue[0].done() or self._active.get(owner, 0) < self._limit(owner)):
                permit_future = queue.popleft()
                if not permit_future.done():  # its request may have been canceled
                    permit_future.set_result(self._admit(owner))
            if queue:
                self._queues[owner] = queue
                self._serve_later()

    def _serve_later(self) -> None:
        """Schedule `serve`: limits may change although no permit was released."""
        if not self._will_serve:
            self._will_serve = True
            asyncio.get_running_loop().call_later(SERVE_SECONDS, self._serve_now)

    def _serve_now(self) -> None:
        self._will_serve = False
        self.serve()

    def _admit(self, owner: str) -> Permit:
        self._active[owner] = self._active.get(owner, 0) + 1
        self._present[owner] = self._present.get(owner, 0) + 1
        self._left.pop(owner, None)
        permit = Permit(self, owner, asyncio.get_running_loop().time())
        if self.counted < math.inf:
            self._permits.append(permit)
        return permit

    def _limit(self, owner: str) -> int:
        others = len(self._present) + len(self._left) - (owner in self._present or owner in self._left)
        return self.shared if others else self.alone

    def _expire(self) -> None:
        """Stop counting old permits, and owners that left long ago."""
        now = asyncio.get_running_loop().time()
        while self._permits and now - self._permits[0].since >= self.counted:
            self.end(self._permits.popleft())
        while self._left and now - next(iter(self._left.values())) >= self.recent:
            self._left.popitem(last=False)


def _decrement(counts: dict[str, int], owner: str) -> int:
    counts[owner] -= 1
    return counts[owner] or counts.pop(owner)


class Pacer:
    """Spaces turns `seconds` apart per owner, with a wait of at most `longest` seconds.

    Not thread-safe.
    """

    def __init__(self, seconds: float, longest: float = math.inf) -> None:
        self._seconds, self._longest = seconds, longest
        self._next: dict[str, float] = {}

    def wait(self, owner: str, now: float, turns: float = 1) -> float:
        """Return the seconds until the owner's next turn, and reserve `turns` turns from then on."""
        if len(self._next) >= PACED_MAX:
            self._next = {name: at for name, at in self._next.items() if at > now}
        at = min(max(self._next.get(owner, now), now), now + self._longest)
        self._next[owner] = at + turns * self._seconds
        return at - now
