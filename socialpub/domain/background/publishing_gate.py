"""Whether this server may publish now: not while it is paused, in doubt about its clock, or sorting what is overdue."""

from __future__ import annotations

import concurrent.futures
import logging
import threading
from collections.abc import Callable

from socialpub.base.errors import ApiError
from socialpub.domain.background import recovery
from socialpub.domain.background.job_kinds import JOB_KINDS
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.server import clock_watch, instance
from socialpub.store.jobs.job_queue import retry_without_storage

log = logging.getLogger("socialpub.jobs")

PROBE_SECONDS = 30.0
RETRIES, RETRY_SECONDS = 1_000_000, 5.0  # nothing is published before it has succeeded
UPSTREAM_CLOCK_SECONDS = 3.0  # a start waits for a platform's clock, before it says that it is paused

_PAUSABLE_KINDS = tuple(kind.name for kind in JOB_KINDS if kind.pausable)
_CLOCK_JUMPED_MESSAGE = "the clock was set ahead by more than two minutes"
_LONG_SILENCE_MESSAGE = (
    "the last sign of life is more than two minutes old by this machine's clock, and posts are due by it"
)


class PublishingGate:
    """`reason` is why the server is paused, None while it is not."""

    def __init__(self, service: AppContext) -> None:
        self._service = service
        self._fail_overdue = service.jobs.task(name="fail_overdue", retries=RETRIES, retry_delay=RETRY_SECONDS)(
            retry_without_storage(self._sorted)
        )
        self.reason: str | None = None
        self.held_back = False  # paused, or in doubt
        self._watch = clock_watch.ClockWatch(service.runtime.clock)
        self._sorting = True  # what is overdue is being sorted: nothing is claimed
        self._doubt = False  # this start is long after the last sign of life, and no platform's clock has agreed yet
        self._looking = threading.Lock()
        self._asking: concurrent.futures.Future[None] | None = None
        self._probed, self._behind = float("-inf"), 0
        self.file_is_doubted: Callable[[], bool] = lambda: False

    def begin(self, reason: str | None, seen_at: int) -> None:
        """What the row of the instance says, and whether its last sign of life is too old to be believed."""
        self.reason = reason
        self._doubt = clock_watch.is_doubtful(seen_at, self._service.now_ms)

    def ask(self) -> None:
        """At a start: where posts are due by a clock in doubt, a platform's is asked, or publishing is paused."""
        if (
            self._doubt
            and self.reason is None
            and self._service.read(lambda: recovery.has_due_post(self._service)).result()
        ):
            self._ask_platforms(wait=UPSTREAM_CLOCK_SECONDS)
            if self._doubt:
                self.reason = self._pause(_LONG_SILENCE_MESSAGE)
        if self.reason:
            command = instance.get_resume_command(self.reason)
            log.warning("publishing is paused (%s); when you have looked: %s", self.reason, command)

    def start(self) -> None:
        """From now on `follow` is called; unless it is held back, the server publishes what is not overdue."""
        self.held_back = bool(self.reason) or self._doubt
        if not self.held_back:
            self.go_on()

    def go_on(self) -> None:
        """Fail what is overdue beyond the grace time, which may take long; the rest is claimed after that."""
        self._sorting = True
        self._fail_overdue()

    def held_kinds(self) -> tuple[str, ...]:
        """Asked before each claim, so that a clock that has just jumped publishes nothing early."""
        held = self.reason or self._sorting or self.file_is_doubted() or self._watch.jumped()
        return _PAUSABLE_KINDS if held else ()

    @property
    def doubtful(self) -> bool:
        """Whether the clock is not to be trusted now."""
        return self._doubt or self.reason == instance.CLOCK or self._watch.jumped()

    def follow(self) -> None:
        """Follow the pause in the database, which a command may have ended, and the clock, which may have jumped."""
        with self._looking:
            self._follow()

    def look_again(self) -> None:
        """Something is known now: a pause was written, or what is due need not wait any longer."""
        try:
            self.follow()
        except ApiError:
            log.warning("the pause is followed once the database can be read")
        self._service.jobs.bell.ring()

    def follow_clock(self) -> None:
        """What only waits for a while goes on waiting that while, also where the clock was set back."""
        self._behind += self._watch.went_back()
        if self._behind:
            recovery.shorten_delays(self._service, self._behind)
            self._behind = 0
            self._service.jobs.bell.ring()

    def _sorted(self) -> None:
        recovery.fail_overdue(self._service)
        self._sorting = False
        self._service.jobs.bell.ring()

    def _follow(self) -> None:
        now: str | None = self._service.read(instance.get_pause_reason).result()
        if now is None and self.reason == instance.CLOCK:
            self._doubt = False  # by a platform's word, or the operator's
        elif now is None and self._watch.jumped():
            now = self._pause(_CLOCK_JUMPED_MESSAGE)
        elif now is None and self._doubt and self._service.read(lambda: recovery.has_due_post(self._service)).result():
            now = self._pause(_LONG_SILENCE_MESSAGE)
        if now == instance.CLOCK or self._doubt:
            self._ask_platforms()
        held_back = bool(now) or self._doubt
        if self.held_back and not held_back:
            self._resumed()
        self.held_back, self.reason = held_back, now

    def _pause(self, why: str) -> str:
        command = instance.get_resume_command(instance.CLOCK)
        log.error("%s: publishing is paused until a platform's clock agrees, or: %s", why, command)
        self._service.write(lambda tx: instance.pause(self._service, tx, instance.CLOCK)).result()
        self.held_back = True
        return instance.CLOCK

    def _resumed(self) -> None:
        if self.reason:
            log.warning("publishing goes on")
        self._watch.trust()
        self.go_on()

    def _ask_platforms(self, wait: float = 0) -> None:
        """Compare the clock, in a thread of the executor: a platform that does not answer must not hold up a round."""
        now = self._service.runtime.clock.monotonic()
        if now - self._probed >= PROBE_SECONDS and (self._asking is None or self._asking.done()):
            self._probed = now
            self._asking = self._service.executors.immediate.submit(self._asked)
            concurrent.futures.wait([self._asking], wait)

    def _asked(self) -> None:
        try:
            if clock_watch.is_confirmed_upstream(self._service):
                self._service.write(lambda tx: instance.resume(tx, instance.CLOCK)).result()
                self._doubt = False
                self.follow()
        except Exception:  # noqa: BLE001 - it is asked again; the server may have stopped meanwhile
            log.exception("the clock could not be compared")
