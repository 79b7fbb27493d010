"""Recent posts of the accounts that are posted to: times and text hashes of a day, in memory.

Preflight asks of every target how many posts go out within a cap's span, and whether its text was posted before. To
answer from the rows takes time that grows with the account's posts of the day (up to 9,332 rows for a cap of Bluesky,
all rows of a day for a text): the row "POST scheduled, 1 target" of the benchmark would fall with each post. So an
account is read once and followed from then on: one server writes all posts of a database. Counts are for warnings only;
a text that may be known is looked for in the rows.
"""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

from socialpub.base.runtime import DAY_MS, Clock
from socialpub.store.engine import sql
from socialpub.store.queries import acceptance

ACCOUNTS_MAX = 2000  # accounts; whoever was not posted to for longest is read again when they are


@dataclass
class _AccountHistory:
    """Of one account, or of all accounts of a platform: when they go out, and of which texts they are."""

    times: array[int] = field(default_factory=lambda: array("q"))
    texts: array[int] = field(default_factory=lambda: array("I"))  # parts of their hashes, in order: four bytes each
    until: int | None = None  # then it is read again, without what is too old; None: it was not read yet

    def has(self, text: str) -> bool:
        """Whether it may have this text; if not, it certainly has not."""
        part = _hash_text(text)
        place = bisect_left(self.texts, part)
        return place < len(self.texts) and self.texts[place] == part


def _hash_text(text: str) -> int:
    return hash(text) & 0xFFFFFFFF


class RecentPosts:
    """Any thread may ask and tell. A name is an account's id, or a platform's where all its accounts count."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._known: OrderedDict[str, _AccountHistory] = OrderedDict()

    def read(self, names: Iterable[tuple[str, bool]]) -> None:
        """Know these accounts and platforms (`True`) from now on; in a read."""
        for name, shared in names:
            if not self._is_known(name):
                since = self._clock.now_ms() - DAY_MS
                times, texts = sql.fetch_one(
                    acceptance.FIND_RECENT_HISTORY, (None if shared else name, since, name if shared else None)
                )
                self._learn(name, sql.load_json(times), sql.load_json(texts))

    def _is_known(self, name: str) -> bool:
        """Whether it was read; if not, what is told from now on is kept with what is read."""
        with self._lock:
            posts = self._known.get(name)
            if posts is not None and (posts.until is None or posts.until > self._clock.now_ms()):
                self._known.move_to_end(name)
                return posts.until is not None
            self._known[name] = _AccountHistory()
            while len(self._known) > ACCOUNTS_MAX:
                self._known.popitem(last=False)
            return False

    def _learn(self, name: str, times: list[int], texts: list[str]) -> None:
        with self._lock:
            posts = self._known.get(name)
            if posts is None or posts.until is not None:
                return
            posts.times = array("q", sorted([*times, *posts.times]))
            posts.texts = array("I", sorted([*map(_hash_text, texts), *posts.texts]))
            posts.until = self._clock.now_ms() + DAY_MS

    def _read(self, name: str, now: int) -> _AccountHistory | None:
        """What is known of a name that is in use; None where it is to be read."""
        posts = self._known.get(name)
        if posts is None or posts.until is None or posts.until <= now:
            return None
        self._known.move_to_end(name)
        return posts

    def has_as_many(self, name: str, after: int, upto: int, enough: int) -> bool:
        """Whether as many posts as that go out after one instant and up to another."""
        with self._lock:
            posts = self._known.get(name)
            if posts is None or len(posts.times) < enough:
                return enough <= 0
            return bisect_right(posts.times, upto) - bisect_right(posts.times, after) >= enough

    def may_have(self, account: str, text: str) -> bool:
        """Whether the account may have had this text: the log has to be asked."""
        with self._lock:
            posts = self._known.get(account)
            return posts is None or posts.until is None or posts.has(text)

    def said(self, texts: Iterable[tuple[str, str]]) -> None:
        """Posts are being written, each to an account with a text; before the commit, so that whoever is next knows."""
        with self._lock:
            for account, text in texts:
                if posts := self._known.get(account):
                    insort(posts.texts, _hash_text(text))

    def came(self, accepted: Iterable[tuple[str, str, int]]) -> None:
        """Posts were accepted, each to an account of a platform, and when it goes out."""
        with self._lock:
            for account, platform, at_ms in accepted:
                for posts in self._of(account, platform):
                    insort(posts.times, at_ms)

    def went(self, account: str, platform: str, at_ms: int) -> None:
        """It does not go out any more."""
        with self._lock:
            for posts in self._of(account, platform):
                place = bisect_left(posts.times, at_ms)
                if place < len(posts.times) and posts.times[place] == at_ms:
                    del posts.times[place]

    def forget(self, account: str, platform: str) -> None:
        """Its posts have changed: they are to be read again."""
        with self._lock:
            self._known.pop(account, None)
            self._known.pop(platform, None)

    def _of(self, account: str, platform: str) -> list[_AccountHistory]:
        return [posts for name in (account, platform) if (posts := self._known.get(name))]
