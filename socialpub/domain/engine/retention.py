"""History past its time is forgotten: a few hundred rows in one transaction, off the oldest end of each table.

Never what may still be asked for: events and answers of open posts, deliveries that are still to be made, and of a post
that is not published all that was ever sent for it, since a retry or a decision looks at that first.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from socialpub.domain.core.service import Service
from socialpub.domain.engine import forgetting
from socialpub.domain.media import library
from socialpub.store import sql
from socialpub.store.db import Tx
from socialpub.store.statements import sweeps

log = logging.getLogger("socialpub.jobs")

PART = 500  # rows that are looked at in one transaction
PARTS = 20  # in one look, so that other writers have their turn and other tasks theirs
REST_SECONDS = 3600.0  # once all of a table was looked at


@dataclass(frozen=True)
class History:
    """A table that only grows, and how its rows past their time go, with what hangs on them."""

    setting: str
    part: str
    forget: tuple[str, ...]


# In this order: what was sent names its attempt.
HISTORIES = (
    History("events", sweeps.PART_OF_EVENTS, (sweeps.FORGET_CALLS, sweeps.FORGET_DELIVERIES, sweeps.FORGET_EVENTS)),
    History("notifications", sweeps.PART_OF_NOTIFICATIONS, (sweeps.FORGET_NOTIFICATIONS,)),
    History("intents", sweeps.PART_OF_INTENTS, (sweeps.FORGET_INTENTS,)),
    History("attempts", sweeps.PART_OF_ATTEMPTS, (sweeps.FORGET_ATTEMPTS,)),
)


class Retention:
    """Where each table is looked at next. Nothing of it is kept: a start begins at the oldest row again."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._after = {history.setting: 0 for history in HISTORIES}
        self._posts = forgetting.Forgetting(service)
        self._rests_until: dict[str, float] = {}  # by setting

    def look(self, now_ms: int) -> int:
        """Forget some of what is past its time; how many rows."""
        self._look_at_media(now_ms)
        gone = sum(self._look_at(history, now_ms) for history in HISTORIES)
        return gone + self._look_at_posts(now_ms)

    def _rests(self, setting: str) -> bool:
        return self._service.runtime.clock.monotonic() < self._rests_until.get(setting, float("-inf"))

    def _rest(self, setting: str) -> None:
        self._rests_until[setting] = self._service.runtime.clock.monotonic() + REST_SECONDS

    def _look_at_media(self, now_ms: int) -> None:
        service, kept = self._service, self._service.runtime.settings.retention.media
        if not kept or self._rests("media"):
            return
        for _ in range(PARTS):
            if library.forget_unused(service, now_ms - int(kept * 1000)) < library.UNUSED_AT_ONCE:
                self._rest("media")
                return

    def _look_at_posts(self, now_ms: int) -> int:
        kept = self._service.runtime.settings.retention.posts
        if not kept or self._rests("posts"):
            return 0
        gone, is_done = self._posts.look(now_ms - int(kept * 1000), PARTS)
        if is_done:
            self._rest("posts")
        if gone:
            log.info("%d posts past their time were forgotten", gone)
        return gone

    def _look_at(self, history: History, now_ms: int) -> int:
        service, gone = self._service, 0
        if self._rests(history.setting):
            return 0
        before = now_ms - int(getattr(service.runtime.settings.retention, history.setting) * 1000)
        for _ in range(PARTS):
            after = self._after[history.setting]
            last, oldest = service.read(functools.partial(sql.first, history.part, (after, PART))).result()
            if last is None or oldest >= before:
                self._after[history.setting] = 0
                self._rest(history.setting)
                break
            gone += service.write(functools.partial(_forget, history.forget, (after, last, before))).result()
            self._after[history.setting] = last
        if gone:
            log.info("%d %s past their time were forgotten", gone, history.setting)
        return gone


def _forget(texts: Sequence[str], part: tuple[int, int, int], _: Tx) -> int:
    """The rows of one part that are past their time; how many of the table itself, which comes last."""
    return [sql.change(text, part) for text in texts][-1]
