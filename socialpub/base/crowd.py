"""Who goes on first while several owners want the processor that Python computes on: whoever has little under way.

Turns (`turns.py`) and shares (`fair.py`) bound what one owner holds of a queue. This bounds what is before all queues:
a burst of one owner would keep the loop, and the threads that it hands work to, from whoever comes meanwhile.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable

LOOK_SECONDS = 0.002  # between two looks whether the processor is free, while somebody waits


class Place:
    """One request on its way: it is under way until it rests, and there until it leaves or was there for long."""

    __slots__ = ("is_there", "is_under_way", "owner")

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.is_there = self.is_under_way = True


class Crowd:
    """Lets the first `few` of each owner go on at once, and further ones while nobody else is there, up to `many`.

    Whoever was there in the last `lately` seconds is taken to come again: there is room for them before they ask.
    The rest wait in the owner's own line, and go on as those before them leave or rest. What takes longer than
    `seconds` (at most twice that) waits for something else than the processor, as a rule: it counts no longer, neither
    for its owner nor against others. So nobody is kept from going on. For one thread, the loop's.

    `pause` is the number of the wait for the disk that goes on, and 0 where there is none: while one lasts, the
    processor is free, and up to `many` go on, so that a slow disk is waited for once for all of them.
    """

    def __init__(
        self, few: int, many: int, seconds: float, lately: float = 0.0, pause: Callable[[], int] = lambda: 0
    ) -> None:
        self.few, self.many, self.seconds, self.lately, self._pause = few, many, seconds, lately, pause
        self._paused, self._lasts = 0, False  # the pause of the last look, and whether the one before saw the same
        self._there: dict[str, int] = {}
        self._lately: OrderedDict[str, float] = OrderedDict()  # who has left, and when; nobody that is there
        self._under_way: dict[str, int] = {}
        self._lines: dict[str, deque[asyncio.Future[None]]] = {}
        self._places: deque[Place] = deque()  # in the order in which they came in, until they are old
        self._ages = False  # whether there will be a look for old ones
        self._looks = False  # whether there will be a look at those who wait

    def waiting(self, owner: str) -> int:
        """How many of theirs have not come in yet."""
        return len(self._lines.get(owner, ()))

    @property
    def is_shared(self) -> bool:
        """Whether more than one owner is there; any thread may ask."""
        return len(self._there) + len(self._lately) > 1

    async def enter(self, owner: str) -> Place:
        """Wait for one's turn."""
        if (place := self.try_enter(owner)) is not None:
            return place
        await self._wait(owner)
        return self._placed(owner)

    def try_enter(self, owner: str) -> Place | None:
        """The same for whoever need not wait; None: he does."""
        if owner in self._lines or self._under_way.get(owner, 0) >= self._most(owner):
            return None
        self._count(owner)
        return self._placed(owner)

    def _placed(self, owner: str) -> Place:
        place = Place(owner)
        self._places.append(place)
        if not self._ages:
            self._age_later(place)
        return place

    def rest(self, place: Place) -> None:
        """It waits for something else than the processor from now on."""
        if place.is_under_way:
            place.is_under_way = False
            _less(self._under_way, place.owner)
            if self._lines:
                self._let_in()

    def leave(self, place: Place) -> None:
        """It is done."""
        if place.is_there:
            place.is_there = False
            if not _less(self._there, place.owner):
                self._lately[place.owner] = asyncio.get_running_loop().time()
            if place.is_under_way:
                place.is_under_way = False
                _less(self._under_way, place.owner)
            if self._lines:
                self._let_in()

    async def _wait(self, owner: str) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if not self._looks:
            self._look_later()
        self._lines.setdefault(owner, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # its turn came as it went away
                self.leave(Place(owner))
            raise

    def _most(self, owner: str) -> int:
        there, lately = self._there, self._lately
        if lately:
            now = asyncio.get_running_loop().time()
            while lately and now - next(iter(lately.values())) >= self.lately:
                lately.popitem(last=False)
        others = len(there) + len(lately) - (owner in there or owner in lately)
        return self.few if others and not self._lasts else self.many

    def _look_later(self) -> None:
        self._looks = True
        asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        self._looks = False
        before, self._paused = self._paused, self._pause()
        if self._lines:
            self._lasts = self._paused == before != 0
            self._let_in()
            self._lasts = False
        if self._lines:
            self._look_later()

    def _let_in(self) -> None:
        """The next of each line that may; an owner who has been served goes behind the others."""
        for owner in list(self._lines):
            line = self._lines.pop(owner)
            while line and self._under_way.get(owner, 0) < self._most(owner):
                turn = line.popleft()
                if not turn.done():
                    self._count(owner)
                    turn.set_result(None)
            if line:
                self._lines[owner] = line

    def _count(self, owner: str) -> None:
        self._there[owner] = self._there.get(owner, 0) + 1
        self._lately.pop(owner, None)
        self._under_way[owner] = self._under_way.get(owner, 0) + 1

    def _age_later(self, last: Place) -> None:
        self._ages = True
        asyncio.get_running_loop().call_later(self.seconds, self._age, last)

    def _age(self, last: Place) -> None:
        """Whoever came in until `last` has been there for as long as counts."""
        self._ages = False
        while (place := self._places.popleft()) is not last:
            self.leave(place)
        self.leave(last)
        if self._places:
            self._age_later(self._places[-1])


def _less(counts: dict[str, int], owner: str) -> int:
    """How many are left."""
    counts[owner] -= 1
    return counts[owner] or counts.pop(owner)
