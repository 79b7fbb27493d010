"""Retention of history: delete expired rows, oldest first, a few hundred per transaction.

Rows that are still needed stay: events and responses of open posts, pending deliveries, and all attempts of a post that
is not published, because a retry looks them up first.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from socialpub.domain.background import post_retention
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.media import library
from socialpub.store.database import Tx
from socialpub.store.engine import sql
from socialpub.store.queries import maintenance

log = logging.getLogger("socialpub.jobs")

READ_BATCH = 500  # rows per transaction
BATCHES_PER_RUN = 20  # per run, so that other writers and tasks are not held up


@dataclass(frozen=True)
class HistoryTable:
    """Append-only table: its setting, range query, and deletions in order of reference."""

    setting: str
    range: str
    deletions: tuple[str, ...]


# Intents before attempts, which they reference.
HISTORY_TABLES = (
    HistoryTable(
        "events",
        maintenance.FIND_EVENT_RANGE,
        (maintenance.DELETE_WEBHOOK_ATTEMPTS, maintenance.DELETE_DELIVERIES, maintenance.DELETE_EVENTS),
    ),
    HistoryTable("notifications", maintenance.FIND_NOTIFICATION_RANGE, (maintenance.DELETE_NOTIFICATIONS,)),
    HistoryTable("intents", maintenance.FIND_INTENT_RANGE, (maintenance.DELETE_INTENTS,)),
    HistoryTable("attempts", maintenance.FIND_ATTEMPT_RANGE, (maintenance.DELETE_ATTEMPTS,)),
)


class HistoryRetention:
    """Retention passes over the tables, starting at the oldest rows. Positions are in memory."""

    def __init__(self, service: AppContext) -> None:
        self._service = service
        self._after = {history.setting: 0 for history in HISTORY_TABLES}
        self._posts = post_retention.PostRetention(service)
        self.is_done = False  # the pass is complete: nothing more has expired

    def run(self, now_ms: int) -> int:
        """Delete a limited number of expired rows, set `is_done`, and return the number."""
        periods = self._service.runtime.settings.retention
        media_done = not periods.media or self._delete_media(now_ms - int(periods.media * 1000))
        results = [self._delete_rows(history, now_ms) for history in HISTORY_TABLES]
        results += [self._delete_posts(now_ms - int(periods.posts * 1000))] if periods.posts else []
        self.is_done = media_done and all(done for _, done in results)
        return sum(count for count, _ in results)

    def _delete_media(self, before_ms: int) -> bool:
        return any(
            library.delete_unused(self._service, before_ms) < library.UNUSED_BATCH_SIZE for _ in range(BATCHES_PER_RUN)
        )

    def _delete_posts(self, before_ms: int) -> tuple[int, bool]:
        count, is_done = self._posts.run(before_ms, BATCHES_PER_RUN)
        if count:
            log.info("deleted %d expired posts", count)
        return count, is_done

    def _delete_rows(self, history: HistoryTable, now_ms: int) -> tuple[int, bool]:
        service, count, is_done = self._service, 0, False
        before = now_ms - int(getattr(service.runtime.settings.retention, history.setting) * 1000)
        for _ in range(BATCHES_PER_RUN):
            after = self._after[history.setting]
            last, oldest = service.read(functools.partial(sql.fetch_one, history.range, (after, READ_BATCH))).result()
            if is_done := last is None or oldest >= before:
                self._after[history.setting] = 0
                break
            count += service.write(functools.partial(_delete_batch, history.deletions, (after, last, before))).result()
            self._after[history.setting] = last
        if count:
            log.info("deleted %d expired %s", count, history.setting)
        return count, is_done


def _delete_batch(deletions: Sequence[str], bounds: tuple[int, int, int], _: Tx) -> int:
    """Delete the expired rows of a range; return the number of rows of the table itself."""
    return [sql.update(text, bounds) for text in deletions][-1]
