"""Posts past their time go whole: with their batch, attempts, what was sent for them, and their place in the search.

Off the oldest end, a bounded number at a time, and never what somebody may still have to decide or to hear of.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from socialpub.domain.context.app_context import AppContext
from socialpub.store import search
from socialpub.store.database import Tx
from socialpub.store.engine import sql
from socialpub.store.queries import post_retention

READ_BATCH = 500  # rows that are looked at in one read
POSTS_PER_WRITE = 128  # posts that are deleted in one write: each has hundreds of trigrams
MEDIA_PER_WRITE = 25  # whose rows are deleted in one write: for each, what is left of old posts is looked at
EVENTS_SCANNED_MAX = (
    20_000  # of the oldest that are looked at: where more are past their time, posts wait until those are gone
)


_START = (0, 0)


class _RetentionCutoff(NamedTuple):
    """What is past its time: last changed before, and not told of by an event that is still there (`held`, JSON)."""

    before_ms: int
    held: str


class PostRetention:
    """Where each table is looked at next. Nothing of it is kept: a start begins at the oldest row again."""

    def __init__(self, service: AppContext) -> None:
        self._service = service
        self._post, self._media = 0, _START

    def look(self, before_ms: int, parts: int) -> tuple[int, bool]:
        """Forget some of what was last changed before: how many posts, and whether all was looked at."""
        past = self._past(before_ms)
        if past is None:
            return 0, False
        gone = 0
        for _ in range(parts):
            went, is_last = self._posts_go(past)
            gone += went
            if is_last:
                return gone, self._media_go(before_ms, parts)
        return gone, False

    def _past(self, before_ms: int) -> _RetentionCutoff | None:
        """None while there are more old events than are looked at: the posts that they tell of stay."""
        read = functools.partial(sql.fetch_one, post_retention.FIND_OLD_EVENTS, (before_ms, EVENTS_SCANNED_MAX))
        held, newest, count = self._service.read(read).result()
        return None if count == EVENTS_SCANNED_MAX and newest < before_ms else _RetentionCutoff(before_ms, held)

    def _posts_go(self, past: _RetentionCutoff) -> tuple[int, bool]:
        """Of the next posts: how many went, and whether there is nothing more that is old enough."""
        service, part = self._service, (self._post, READ_BATCH)
        last, oldest = service.read(functools.partial(sql.fetch_one, post_retention.FIND_POST_RANGE, part)).result()
        if last is None or oldest >= past.before_ms:
            self._post = 0
            return 0, True
        asked = (*past, self._post, last)
        going = service.read(functools.partial(sql.fetch_all, post_retention.FIND_EXPIRED_BATCHES, asked)).result()
        gone = sum(
            service.write(functools.partial(_delete_batches, past, turn)).result() for turn in _group_batches(going)
        )
        self._post = last
        return gone, False

    def _media_go(self, before_ms: int, parts: int) -> bool:
        """The rows of media that were deleted before, and that no post names any more; whether all were looked at."""
        for _ in range(parts):
            asked = (*self._media, before_ms, MEDIA_PER_WRITE)
            media = self._service.read(
                functools.partial(sql.fetch_all, post_retention.FIND_DELETED_MEDIA, asked)
            ).result()
            if media:
                self._service.write(functools.partial(_delete_media, [place for _, place in media])).result()
            self._media = media[-1] if len(media) == MEDIA_PER_WRITE else _START
            if len(media) < MEDIA_PER_WRITE:
                return True
        return False


def _group_batches(going: Sequence[tuple[str, int]]) -> Iterator[list[str]]:
    """Batches, each with how many of its posts were seen: as many together as one write deletes."""
    turn: list[str] = []
    posts = 0
    for batch, count in going:
        if turn and posts + count > POSTS_PER_WRITE:
            yield turn
            turn, posts = [], 0
        turn.append(batch)
        posts += count
    if turn:
        yield turn


def _delete_batches(past: _RetentionCutoff, batches: list[str], tx: Tx) -> int:
    """Those of the batches that are still past their time; how many posts."""
    numbers, gone = sql.fetch_one(post_retention.FIND_EXPIRED_POSTS, (*past, sql.dump_json(batches)))
    search.remove(numbers)
    sql.execute(post_retention.DELETE_INTENTS, (numbers,))
    sql.execute(post_retention.DELETE_ATTEMPTS, (numbers,))
    count = sql.update(post_retention.DELETE_POSTS, (numbers,))
    sql.execute(post_retention.DELETE_BATCHES, (gone,))
    return count


def _delete_media(places: Sequence[int], tx: Tx) -> None:
    sql.execute(post_retention.DELETE_MEDIA_ROWS, (sql.dump_json(places),))
