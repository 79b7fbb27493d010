"""Gate for publishing: closed by a pause, a doubtful clock or unhandled overdue posts."""

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
RETRIES, RETRY_SECONDS = 1_000_000, 5.0  # nothing is published until overdue posts are failed
UPSTREAM_CLOCK_SECONDS = 3.0  # a start waits this long for a platform's clock before it pauses

_PAUSABLE_KINDS = tuple(kind.name for kind in JOB_KINDS if kind.pausable)
_CLOCK_JUMPED_MESSAGE = "the clock was set ahead by more than two minutes"
_LONG_SILENCE_MESSAGE = (
    "the last heartbeat is more than two minutes old by this machine's clock, and posts are due by it"
)


class PublishingGate:
    """Decides which job kinds are held. `reason`: why publishing is paused, or None."""

    def __init__(self, service: AppContext) -> None:
        self._service = service
        self._fail_overdue = service.jobs.task(name="fail_overdue", retries=RETRIES, retry_delay=RETRY_SECONDS)(
            retry_without_storage(self._run_fail_overdue)
        )
        self.reason: str | None = None
        self.held_back = False  # paused, or in doubt
        self._watch = clock_watch.ClockWatch(service.runtime.clock)
        self._is_failing_overdue = True  # nothing is claimed meanwhile
        self._doubt = False  # started long after the last heartbeat, and no platform's clock has confirmed ours yet
        self._lock = threading.Lock()
        self._clock_check: concurrent.futures.Future[None] | None = None
        self._probed, self._behind = float("-inf"), 0
        self.is_file_doubtful: Callable[[], bool] = lambda: False

    def load(self, reason: str | None, seen_at: int) -> None:
        """Set the stored pause reason; doubt the clock if the last heartbeat (ms) is old."""
        self.reason = reason
        self._doubt = clock_watch.is_doubtful(seen_at, self._service.now_ms)

    def check_clock_at_start(self) -> None:
        """If posts are due by a doubtful clock, compare it with a platform's, else pause."""
        if self._doubt and self.reason is None and self._has_due_post():
            self._compare_clock(wait=UPSTREAM_CLOCK_SECONDS)
            if self._doubt:
                self.reason = self._pause(_LONG_SILENCE_MESSAGE)
        if self.reason:
            command = instance.get_resume_command(self.reason)
            log.warning("publishing is paused (%s); to continue: %s", self.reason, command)

    def start(self) -> None:
        """Start to publish posts that are not overdue, unless held back."""
        self.held_back = bool(self.reason) or self._doubt
        if not self.held_back:
            self.open()

    def open(self) -> None:
        """Fail posts overdue beyond the grace time, then let the others be claimed."""
        self._is_failing_overdue = True
        self._fail_overdue()

    def list_held_kinds(self) -> tuple[str, ...]:
        """List the job kinds that are held now. Called before each claim."""
        held = self.reason or self._is_failing_overdue or self.is_file_doubtful() or self._watch.has_jumped()
        return _PAUSABLE_KINDS if held else ()

    @property
    def is_clock_doubtful(self) -> bool:
        return self._doubt or self.reason == instance.CLOCK or self._watch.has_jumped()

    def update(self) -> None:
        """Apply the pause in the database, which a command may have ended; check for a clock jump."""
        with self._lock:
            now: str | None = self._service.read(instance.get_pause_reason).result()
            if now is None and self.reason == instance.CLOCK:
                self._doubt = False  # resumed by a platform's clock, or by the operator
            elif now is None and self._watch.has_jumped():
                now = self._pause(_CLOCK_JUMPED_MESSAGE)
            elif now is None and self._doubt and self._has_due_post():
                now = self._pause(_LONG_SILENCE_MESSAGE)
            if now == instance.CLOCK or self._doubt:
                self._compare_clock()
            held_back = bool(now) or self._doubt
            if self.held_back and not held_back:
                self._resume()
            self.held_back, self.reason = held_back, now

    def update_now(self) -> None:
        """Apply the result of the integrity check and wake the scheduler."""
        try:
            self.update()
        except ApiError:
            log.warning("the database cannot be read; its pause state is applied when it can")
        self._service.jobs.wakeup.wake()

    def apply_clock_steps(self) -> None:
        """Shorten the delays of waiting jobs if the clock was set back."""
        self._behind += self._watch.measure_step_back()
        if self._behind:
            recovery.shorten_delays(self._service, self._behind)
            self._behind = 0
            self._service.jobs.wakeup.wake()

    def _run_fail_overdue(self) -> None:
        recovery.fail_overdue(self._service)
        self._is_failing_overdue = False
        self._service.jobs.wakeup.wake()

    def _has_due_post(self) -> bool:
        return self._service.read(lambda: recovery.has_due_post(self._service)).result()

    def _pause(self, why: str) -> str:
        command = instance.get_resume_command(instance.CLOCK)
        log.error("%s: publishing is paused until a platform confirms the clock, or until you run: %s", why, command)
        self._service.write(lambda tx: instance.pause(self._service, tx, instance.CLOCK)).result()
        self.held_back = True
        return instance.CLOCK

    def _resume(self) -> None:
        if self.reason:
            log.warning("publishing continues")
        self._watch.trust()
        self.open()

    def _compare_clock(self, wait: float = 0) -> None:
        """Compare the clock with a platform's in another thread, waiting at most `wait` seconds."""
        now = self._service.runtime.clock.monotonic()
        if now - self._probed >= PROBE_SECONDS and (self._clock_check is None or self._clock_check.done()):
            self._probed = now
            self._clock_check = self._service.executors.immediate.submit(self._run_clock_check)
            concurrent.futures.wait([self._clock_check], wait)

    def _run_clock_check(self) -> None:
        try:
            if clock_watch.is_confirmed_upstream(self._service):
                self._service.write(lambda tx: instance.resume(tx, instance.CLOCK)).result()
                self._doubt = False
                self.update()
        except Exception:  # noqa: BLE001 - retried; the server may have stopped meanwhile
            log.exception("the clock could not be compared with a platform's; it is tried again")
