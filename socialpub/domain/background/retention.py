"""History past its time is forgotten: a few hundred rows in one transaction, off the oldest end of each table.

Never what may still be asked for: events and answers of open posts, deliveries that are still to be made, and of a post
that is not published all that was ever sent for it, since a retry or a decision looks at that first.
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

READ_BATCH = 500  # rows that are looked at in one transaction
BATCHES_PER_RUN = 20  # in one look, so that other writers have their turn and other tasks theirs


@dataclass(frozen=True)
class HistoryTable:
    """A table that only grows, and how its rows past their time go, with what hangs on them."""

    setting: str
    part: str
    forget: tuple[str, ...]


# In this order: what was sent names its attempt.
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
    """Where each table is looked at next. Nothing of it is kept: a start begins at the oldest row again."""

    def __init__(self, service: AppContext) -> None:
        self._service = service
        self._after = {history.setting: 0 for history in HISTORY_TABLES}
        self._posts = post_retention.PostRetention(service)
        self.is_done = False  # all was looked at: nothing more is past its time

    def look(self, now_ms: int) -> int:
        """Forget some of what is past its time, and set `is_done`; how many rows."""
        kept = self._service.runtime.settings.retention
        media_done = not kept.media or self._look_at_media(now_ms - int(kept.media * 1000))
        looked = [self._look_at(history, now_ms) for history in HISTORY_TABLES]
        looked += [self._look_at_posts(now_ms - int(kept.posts * 1000))] if kept.posts else []
        self.is_done = media_done and all(done for _, done in looked)
        return sum(gone for gone, _ in looked)

    def _look_at_media(self, before_ms: int) -> bool:
        return any(
            library.delete_unused(self._service, before_ms) < library.UNUSED_BATCH_SIZE for _ in range(BATCHES_PER_RUN)
        )

    def _look_at_posts(self, before_ms: int) -> tuple[int, bool]:
        gone, is_done = self._posts.look(before_ms, BATCHES_PER_RUN)
        if gone:
            log.info("%d posts past their time were forgotten", gone)
        return gone, is_done

    def _look_at(self, history: HistoryTable, now_ms: int) -> tuple[int, bool]:
        service, gone, is_done = self._service, 0, False
        before = now_ms - int(getattr(service.runtime.settings.retention, history.setting) * 1000)
        for _ in range(BATCHES_PER_RUN):
            after = self._after[history.setting]
            last, oldest = service.read(functools.partial(sql.fetch_one, history.part, (after, READ_BATCH))).result()
            if is_done := last is None or oldest >= before:
                self._after[history.setting] = 0
                break
            gone += service.write(functools.partial(_delete_batch, history.forget, (after, last, before))).result()
            self._after[history.setting] = last
        if gone:
            log.info("%d %s past their time were forgotten", gone, history.setting)
        return gone, is_done


def _delete_batch(texts: Sequence[str], part: tuple[int, int, int], _: Tx) -> int:
    """The rows of one part that are past their time; how many of the table itself, which comes last."""
    return [sql.update(text, part) for text in texts][-1]
