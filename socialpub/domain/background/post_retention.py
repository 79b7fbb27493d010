"""Retention of posts, with their batch, attempts, intents and search entries.

Oldest first and a bounded number at a time. Posts with an unknown outcome or undeleted events stay.
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

READ_BATCH = 500  # rows per read
POSTS_PER_WRITE = 128  # posts deleted per write: each has hundreds of trigrams
MEDIA_PER_WRITE = 25  # media rows per write: for each, references by old posts are checked
EVENTS_SCANNED_MAX = 20_000  # if more events have expired, posts wait until those are deleted


_START = (0, 0)


class _RetentionCutoff(NamedTuple):
    """Expiry condition. `held`: JSON list of the posts that have events."""

    before_ms: int
    held: str


class PostRetention:
    """Retention passes over posts and media rows, oldest first. Positions are in memory."""

    def __init__(self, service: AppContext) -> None:
        self._service = service
        self._post, self._media = 0, _START

    def run(self, before_ms: int, batches: int) -> tuple[int, bool]:
        """Delete posts last changed before `before_ms`; return their number and whether it is done."""
        cutoff = self._load_cutoff(before_ms)
        if cutoff is None:
            return 0, False
        total = 0
        for _ in range(batches):
            count, is_last = self._delete_posts(cutoff)
            total += count
            if is_last:
                return total, self._delete_media(before_ms, batches)
        return total, False

    def _load_cutoff(self, before_ms: int) -> _RetentionCutoff | None:
        """Load the condition; None while too many expired events are left."""
        read = functools.partial(sql.fetch_one, post_retention.FIND_OLD_EVENTS, (before_ms, EVENTS_SCANNED_MAX))
        held, newest, count = self._service.read(read).result()
        return None if count == EVENTS_SCANNED_MAX and newest < before_ms else _RetentionCutoff(before_ms, held)

    def _delete_posts(self, cutoff: _RetentionCutoff) -> tuple[int, bool]:
        """Delete expired posts of the next range; return their number and whether it is the last."""
        service, start = self._service, (self._post, READ_BATCH)
        last, oldest = service.read(functools.partial(sql.fetch_one, post_retention.FIND_POST_RANGE, start)).result()
        if last is None or oldest >= cutoff.before_ms:
            self._post = 0
            return 0, True
        bounds = (*cutoff, self._post, last)
        expired = service.read(functools.partial(sql.fetch_all, post_retention.FIND_EXPIRED_BATCHES, bounds)).result()
        count = sum(
            service.write(functools.partial(_delete_batches, cutoff, group)).result()
            for group in _group_batches(expired)
        )
        self._post = last
        return count, False

    def _delete_media(self, before_ms: int, batches: int) -> bool:
        """Delete rows of deleted media that no post references; return whether the pass is done."""
        for _ in range(batches):
            bounds = (*self._media, before_ms, MEDIA_PER_WRITE)
            media = self._service.read(
                functools.partial(sql.fetch_all, post_retention.FIND_DELETED_MEDIA, bounds)
            ).result()
            if media:
                self._service.write(functools.partial(_delete_media, [number for _, number in media])).result()
            self._media = media[-1] if len(media) == MEDIA_PER_WRITE else _START
            if len(media) < MEDIA_PER_WRITE:
                return True
        return False


def _group_batches(expired: Sequence[tuple[str, int]]) -> Iterator[list[str]]:
    """Group (batch, number of posts) into writes of about POSTS_PER_WRITE posts."""
    group: list[str] = []
    posts = 0
    for batch, count in expired:
        if group and posts + count > POSTS_PER_WRITE:
            yield group
            group, posts = [], 0
        group.append(batch)
        posts += count
    if group:
        yield group


def _delete_batches(cutoff: _RetentionCutoff, batches: list[str], tx: Tx) -> int:
    """Delete the posts of the batches that are still expired; return their number."""
    numbers, deleted = sql.fetch_one(post_retention.FIND_EXPIRED_POSTS, (*cutoff, sql.dump_json(batches)))
    search.remove(numbers)
    sql.execute(post_retention.DELETE_INTENTS, (numbers,))
    sql.execute(post_retention.DELETE_ATTEMPTS, (numbers,))
    sql.execute(post_retention.DELETE_EXTERNAL_IDS, (numbers, deleted))
    count = sql.update(post_retention.DELETE_POSTS, (numbers,))
    sql.execute(post_retention.DELETE_BATCHES, (deleted,))
    return count


def _delete_media(numbers: Sequence[int], tx: Tx) -> None:
    sql.execute(post_retention.DELETE_MEDIA_ROWS, (sql.dump_json(numbers),))
