"""Recent posts of accounts: publish times and text hashes of one day, in memory.

Preflight counts, for every target, the posts within a cap's time span, and checks whether its text was posted before.
Queries for that would read up to 9,332 rows for a cap of Bluesky, and all rows of a day for a text. So an account is
loaded once and updated with each post; all are dropped when a command has written beside the server. The counts only
serve warnings; a text that may be known is then looked up in the rows.
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

ACCOUNTS_MAX = 2000  # the least recently used is dropped, and loaded again when needed


@dataclass
class _AccountHistory:
    """Posts of an account, or of all accounts of a platform: publish times (ms), text hashes."""

    times: array[int] = field(default_factory=lambda: array("q"))
    texts: array[int] = field(default_factory=lambda: array("I"))  # 32 bits of each hash, sorted
    until: int | None = None  # time to reload, which drops old posts; None: not loaded yet

    def has(self, text: str) -> bool:
        """Return whether it may have this text: False is certain, True is not."""
        part = _hash_text(text)
        index = bisect_left(self.texts, part)
        return index < len(self.texts) and self.texts[index] == part


def _hash_text(text: str) -> int:
    return hash(text) & 0xFFFFFFFF


class RecentPosts:
    """Thread-safe cache of recent posts, by account id, or by platform for all its accounts."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._known: OrderedDict[str, _AccountHistory] = OrderedDict()

    def load(self, names: Iterable[tuple[str, bool]]) -> None:
        """Load these accounts and platforms (`True`) unless cached. Call within a read."""
        now = self._clock.now_ms()
        for name, shared in self._find_unknown(names, now):
            account, platform = (None, name) if shared else (name, None)
            spans = (account, now - DAY_MS, platform, now + DAY_MS)  # loaded again by then
            times, texts = sql.fetch_one(acceptance.FIND_RECENT_HISTORY, spans)
            self._fill(name, sql.load_json(times), sql.load_json(texts))

    def _find_unknown(self, names: Iterable[tuple[str, bool]], now: int) -> list[tuple[str, bool]]:
        """Return the names that are not loaded, and start to collect their new posts."""
        unknown = []
        with self._lock:
            for name, shared in names:
                posts = self._known.get(name)
                if posts is None or (posts.until is not None and posts.until <= now):
                    posts = self._known[name] = _AccountHistory()
                self._known.move_to_end(name)
                if posts.until is None:
                    unknown.append((name, shared))
            while len(self._known) > ACCOUNTS_MAX:
                self._known.popitem(last=False)
        return unknown

    def _fill(self, name: str, times: list[int], texts: list[str]) -> None:
        with self._lock:
            posts = self._known.get(name)
            if posts is None or posts.until is not None:
                return
            posts.times = array("q", sorted([*times, *posts.times]))
            posts.texts = array("I", sorted([*map(_hash_text, texts), *posts.texts]))
            posts.until = self._clock.now_ms() + DAY_MS

    def has_as_many(self, name: str, after: int, upto: int, enough: int) -> bool:
        """Return whether at least `enough` posts are published after `after` and up to `upto` (ms)."""
        with self._lock:
            posts = self._known.get(name)
            if posts is None or len(posts.times) < enough:
                return enough <= 0
            return bisect_right(posts.times, upto) - bisect_right(posts.times, after) >= enough

    def may_have(self, account: str, text: str) -> bool:
        """Return whether the account may have had this text, so that the rows have to be searched."""
        with self._lock:
            posts = self._known.get(account)
            return posts is None or posts.until is None or posts.has(text)

    def add_texts(self, texts: Iterable[tuple[str, str]]) -> None:
        """Add (account, text) of posts before their commit, so that the next request sees them."""
        with self._lock:
            for account, text in texts:
                if posts := self._known.get(account):
                    insort(posts.texts, _hash_text(text))

    def add_posts(self, accepted: Iterable[tuple[str, str, int]]) -> None:
        """Add (account, platform, publish time in ms) of accepted posts."""
        with self._lock:
            for account, platform, at_ms in accepted:
                for posts in self._of(account, platform):
                    insort(posts.times, at_ms)

    def remove_post(self, account: str, platform: str, at_ms: int) -> None:
        """Remove a post that will not be published."""
        with self._lock:
            for posts in self._of(account, platform):
                index = bisect_left(posts.times, at_ms)
                if index < len(posts.times) and posts.times[index] == at_ms:
                    del posts.times[index]

    def forget(self, account: str, platform: str) -> None:
        """Drop the cached posts of an account and its platform, because publish times have changed."""
        with self._lock:
            self._known.pop(account, None)
            self._known.pop(platform, None)

    def forget_all(self) -> None:
        """Drop all cached posts, because another process may have written some."""
        with self._lock:
            self._known.clear()

    def _of(self, account: str, platform: str) -> list[_AccountHistory]:
        return [posts for name in (account, platform) if (posts := self._known.get(name))]
