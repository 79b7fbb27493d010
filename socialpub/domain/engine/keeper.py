"""The keeper: one thread that renews leases, follows pauses, counts beats and sweeps, whatever the workers do."""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable
from typing import Any

from socialpub.base import http as outbound
from socialpub.base import memory
from socialpub.base.errors import ApiError
from socialpub.domain.accounts import canary, connect, renewal, tokens, versions
from socialpub.domain.core import instance
from socialpub.domain.core.service import Service
from socialpub.domain.engine import recovery
from socialpub.domain.engine.kinds import KINDS
from socialpub.domain.engine.pauses import Pauses
from socialpub.domain.engine.retention import Retention
from socialpub.domain.engine.timed_backups import TimedBackups
from socialpub.domain.media import library
from socialpub.domain.people import audit, limits
from socialpub.domain.posts import batches, unheard
from socialpub.store import search

log = logging.getLogger("socialpub.jobs")

SWEEP_SECONDS = 60.0
KEEPER_SECONDS = 5.0  # well below a lease
SLICES = 100  # of posts that are filed in one round
MANY = 1000  # posts since the round before
BEHIND = 5000  # posts that are not filed, which a search reads as rows
END_SECONDS = 5.0  # for the round that is under way at the end


class Keeper:
    """What goes on for ever beside the jobs. `fenced` is called in each round once another server has taken over."""

    def __init__(self, service: Service, fetched: library.Fetched, fenced: Callable[[], None]) -> None:
        self.service, self._fetched, self._fenced = service, fetched, fenced
        self.upkeep = renewal.Upkeep(service)
        self.versions = versions.Versions(service)
        self.canary = canary.Canary(service)
        self.pauses = Pauses(service, self._sort_overdue)
        self.retention = Retention(service)
        self.backups = TimedBackups(service)
        self.heartbeat = service.runtime.clock.monotonic()
        self.stopping = threading.Event()
        self._news = 0
        self._newest: int | None = None  # the number of the newest post, in the round before
        self._thread = threading.Thread(target=self._keep, name="keeper", daemon=True)

    def start(self) -> None:
        self.pauses.start()
        self._thread.start()
        if not self.pauses.held_back:
            self.pauses.go_on()

    def stop(self) -> None:
        """Join the thread first, so that its beat is not written over that of the end."""
        self.stopping.set()
        self.backups.stop()
        if self._thread.is_alive():
            self._thread.join(timeout=END_SECONDS)
        self._try(self._save_tokens)
        if not self.service.db.fenced.is_set():
            self._try(self.heard)

    def heard(self) -> None:
        """One beat; a sign of life too, unless the clock is in doubt."""
        instance.beat(self.service, seen=not self.pauses.doubtful)

    def file_posts(self) -> None:
        """Put what was accepted into the indexes of the search; as much as a round allows.

        While many posts come it can wait for a later round, as long as what a search reads besides is little: whoever
        posts has the disk first.
        """
        filed = self.service.read(search.filed).result()
        came, self._newest = filed.newest - (self._newest or filed.newest), filed.newest
        if came >= MANY and filed.behind < BEHIND:
            return
        for _ in range(SLICES):
            if self.stopping.is_set() or filed.is_whole:
                return
            self.service.write(lambda tx: search.file_some()).result()
            filed = self.service.read(search.filed).result()

    def _keep(self) -> None:
        clock = self.service.runtime.clock
        swept = beaten = clock.monotonic()
        tended = swept - SWEEP_SECONDS
        wait = 0.0 if self.pauses.held_back else KEEPER_SECONDS
        while not self.stopping.wait(wait):
            wait = KEEPER_SECONDS
            rounds = [self.service.db.look, self.service.jobs.renew, self.pauses.follow_clock, self.pauses.follow]
            rounds += [self.file_posts, self._beat, self._save_tokens, lambda: recovery.keep_unkept(self.service)]
            if clock.monotonic() - swept >= SWEEP_SECONDS:
                swept = clock.monotonic()
                rounds += [lambda: sweep(self.service, self._fetched), self._end_overdue, self._forget]
            if clock.monotonic() - tended >= SWEEP_SECONDS:
                tended = clock.monotonic()
                rounds += [self._tend, self.backups.look]
            if clock.monotonic() - beaten >= instance.BEAT_SECONDS:
                beaten = clock.monotonic()
                rounds.append(self.heard)
            done = [self._try(work) for work in rounds]
            if all(done):
                self.heartbeat = clock.monotonic()
            if self.service.db.fenced.is_set():
                self._fenced()

    def _sort_overdue(self) -> None:
        while not self._try(lambda: recovery.fail_overdue(self.service)) and not self.stopping.wait(KEEPER_SECONDS):
            log.warning("what is overdue is sorted once it can be written")

    def _end_overdue(self) -> None:
        """What a silent upstream holds back is told once it is too late, not only once the upstream is back."""
        if self.service.breakers.open() and not self.pauses.held_back:
            recovery.fail_overdue(self.service)

    def _forget(self) -> None:
        """History past its time, as long as the clock that tells it is trusted."""
        if not self.pauses.reason and not self.pauses.doubtful:
            self.retention.look(self.service.now_ms)

    def _tend(self) -> None:
        """Renew tokens ahead of time (not while paused: a copy must not use up the original's); tidy up."""
        outbound.close_idle()
        memory.give_back()
        connect.purge(self.service)
        if not self.pauses.reason:
            self.upkeep.look()
            self.versions.look()
            self.canary.look()

    def _save_tokens(self) -> None:
        """New tokens that could not be written when they came, and that nobody else has."""
        tokens.save_unsaved(self.service)

    def _beat(self) -> None:
        """A beat after each change: a copy of the database that is older than it starts paused."""
        news = self.service.read(instance.news).result()
        if news != self._news:
            self.heard()
            self._news = news

    def _try(self, work: Callable[[], Any]) -> bool:
        """A full disk must not end what goes on for ever."""
        try:
            work()
        except ApiError as error:
            if error.rule != "storage.unavailable":  # which the store has said
                log.exception("the keeper could not do its round")
            return False
        except Exception:  # noqa: BLE001 - it is tried again in the next round
            log.exception("the keeper could not do its round")
            return False
        return True


def sweep(service: Service, fetched: library.Fetched) -> None:
    """Ring again for what has lost its job, and forget what is past its time."""
    for kind in KINDS:
        if kind.sweep:
            kind.sweep(service)
    while service.write(lambda tx: limits.purge(tx, service.now_ms)).result() == limits.PURGED_AT_ONCE:
        log.info("answers past their time are being forgotten")
    while service.write(lambda tx: audit.purge(service, tx)).result() == audit.PURGED_AT_ONCE:
        log.info("acts past their time are being forgotten")
    service.write(lambda tx: unheard.purge(service, tx)).result()
    fetched.adopt()
    for batch in fetched.held():
        if service.read(functools.partial(batches.has_ended, batch)).result():
            fetched.drop(batch)
    # A database that was put back may be the wrong one: its media are left alone until somebody has looked.
    if service.read(instance.paused).result() is None:
        fetched.tidy()
