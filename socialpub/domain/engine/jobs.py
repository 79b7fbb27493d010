"""Kinds of job and their functions, the embedded consumer, and the keeper that looks after both."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

from socialpub.base import net
from socialpub.base.errors import ApiError
from socialpub.base.fair import working_for
from socialpub.domain.accounts import accounts, connect, renewal, tokens
from socialpub.domain.core import clockwatch, instance, upstreams
from socialpub.domain.core.service import Service
from socialpub.domain.engine import recovery
from socialpub.domain.media import library
from socialpub.domain.people import signin
from socialpub.domain.publishing import run as publishing
from socialpub.store.models import Post
from socialpub.store.queue import Claim, EmbeddedConsumer

log = logging.getLogger("socialpub.jobs")

STOP_SECONDS = 20.0
SWEEP_SECONDS = 60.0
KEEPER_SECONDS = 5.0  # well below a lease
PROBE_SECONDS = 30.0
ASK_SECONDS = 3.0  # a start waits for a platform's clock, before it says that it is paused
LATE_MS = 10_000
FAILED_AGAIN_MS = 30_000
HARMLESS = ("answer", "cancel")  # kinds that a paused server goes on with

_JUMPED = "the clock was set ahead by more than two minutes"
_LONG_AGO = "the last sign of life is more than two minutes old by this machine's clock, and posts are due by it"


class Engine:
    """Everything that runs beside the requests: started once the port may open, stopped before the process ends."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.fetched = library.Fetched(service)
        self.throttle = signin.Throttle(service.runtime.clock)
        self.upkeep = renewal.Upkeep(service)
        self._stop = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="keeper", daemon=True)
        self._consumer: EmbeddedConsumer | None = None
        self.heartbeat = service.runtime.clock.monotonic()
        self.paused: str | None = None
        self.on_fenced: Callable[[], None] = lambda: None  # another server has taken over
        self._watch = clockwatch.ClockWatch(service.runtime.clock)
        self._sorting = True  # what is overdue is being sorted: nothing is claimed
        self._doubt = False  # this start is long after the last sign of life, and no platform's clock has agreed yet
        self._held_back = False  # paused, or in doubt
        self._asking, self._looking = threading.Lock(), threading.Lock()
        self._news, self._probed, self._behind = 0, float("-inf"), 0

    def start(self) -> None:
        """Own the database, recover what the run before left, and begin to answer doorbells."""
        service, jobs = self.service, self.service.jobs
        row = service.write(lambda tx: instance.take_over(service, tx)).result()
        jobs.epoch, self.paused = row["epoch"], row["paused"]
        service.db.guard = lambda: instance.fence(service)
        recovery.went_back(service, recovery.behind(service, row["seen_at"]))
        self._doubt = clockwatch.is_doubtful(row["seen_at"], service.now_ms)
        self._heard()
        if self._doubt and self.paused is None and service.read(lambda: recovery.is_due(service)).result():
            self._ask_platforms(wait=ASK_SECONDS)
            if self._doubt:
                self.paused = self._pause(_LONG_AGO)
        if self.paused:
            log.warning("publishing is paused (%s); when you have looked: socialpub resume", self.paused)
        recovery.recover(service)
        jobs.paused = self._paused_kinds
        for kind, run in self._kinds().items():
            jobs.register(kind, self._answering(run))
        self._consumer = EmbeddedConsumer(jobs, workers=service.runtime.settings.publishing.workers, periodic=False)
        self._consumer.start()
        self._held_back = bool(self.paused) or self._doubt
        self._keeper.start()
        if not self._held_back:
            self._sort_overdue()

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """Stop claiming, and wait at most `seconds` for what is under way; the rest is taken up by the next start."""
        clock, jobs = self.service.runtime.clock, self.service.jobs
        deadline = clock.monotonic() + seconds
        self._stop.set()
        if self._consumer:
            self._consumer.shutdown_timeout = seconds
            self._consumer.stop(graceful=True)
        while jobs.held() and clock.monotonic() < deadline:
            jobs.bell.wait(min(KEEPER_SECONDS, deadline - clock.monotonic()))
        self.service.stopping.set()
        self.service.hub.close()  # what is not settled now will not be in this process: who waits is told so
        if self._keeper.is_alive():
            self._keeper.join(timeout=5)  # first, so that its beat is not written over that of the end
        self._try(self._save_tokens)
        if not self.service.db.fenced.is_set():
            self._try(self._heard)

    def publish_now(self, claims: Sequence[Claim]) -> None:
        """Run the targets of an immediate batch in the I/O pool: all at once, but one after the other on an account."""
        lanes: dict[str, list[Claim]] = {}
        for claim in claims:
            lanes.setdefault(claim.lane, []).append(claim)
        for lane in lanes.values():
            try:
                threads = upstreams.threads(self.service, lane[0].share)
                threads.submit_for(lane[0].share, publishing.run_lane, self.service, self.fetched, lane)
            except RuntimeError:  # no thread to be had: the leases run out and the jobs ring
                log.exception("an immediate batch could not be started; it follows within a minute")
                for claim in lane:
                    self.service.jobs.drop(claim)

    def _kinds(self) -> dict[str, Callable[[Claim], object]]:
        return {
            "publish": lambda claim: publishing.run(self.service, self.fetched, claim),
            "answer": lambda claim: recovery.answer(self.service, claim),
            "cancel": lambda claim: accounts.cancel_waiting(self.service, claim, self._stop.is_set),
        }

    def _answering(self, run: Callable[[Claim], object]) -> Callable[[Claim], None]:
        """A job's function for a worker: its lane is left whatever happens, and a failure rings again.

        The lane rests after an overdue post that was sent (`run` is True then).
        """

        def answered(claim: Claim) -> None:
            rests = False
            working_for.set(claim.share)
            try:
                late = _is_late(self.service, claim)
                rests = run(claim) is True and late
            except Exception:  # noqa: BLE001 - the worker goes on; the job rings again
                log.exception("job %s failed", claim.key)
                at = self.service.now_ms + FAILED_AGAIN_MS
                self.service.write(lambda tx: self.service.jobs.again(tx, claim, at))
            finally:
                settings = self.service.runtime.settings.scheduling
                self.service.jobs.leave(claim, settings.overdue_spacing if rests else 0)
                self.service.jobs.drop(claim)

        return answered

    # --- Pauses ---

    def _paused_kinds(self) -> tuple[str, ...]:
        """Asked before each claim, so that a clock that has just jumped publishes nothing early."""
        if not (self.paused or self._sorting or self._watch.jumped()):
            return ()
        return tuple(kind for kind in self.service.jobs.kinds if kind not in HARMLESS)

    def _sort_overdue(self) -> None:
        """Fail what is overdue beyond the grace time, in a thread of its own; the rest is claimed after that."""
        self._sorting = True
        threading.Thread(target=self._sort, name="overdue", daemon=True).start()

    def _sort(self) -> None:
        while not self._try(lambda: recovery.fail_overdue(self.service)) and not self._stop.wait(KEEPER_SECONDS):
            log.warning("what is overdue is sorted once it can be written")
        self._sorting = False
        self.service.jobs.bell.ring()

    def _look_at_pause(self) -> None:
        """Follow the pause in the database, which a command may have ended, and the clock, which may have jumped."""
        with self._looking:
            self._follow_pause()

    def _follow_pause(self) -> None:
        now = self.service.read(instance.paused).result()
        if now is None and self.paused == instance.CLOCK:
            self._doubt = False  # by a platform's word, or the operator's
        elif now is None and self._watch.jumped():
            now = self._pause(_JUMPED)
        elif now is None and self._doubt and self.service.read(lambda: recovery.is_due(self.service)).result():
            now = self._pause(_LONG_AGO)
        if now == instance.CLOCK or self._doubt:
            self._ask_platforms()
        held_back = bool(now) or self._doubt
        if self._held_back and not held_back:
            self._go_on()
        self._held_back, self.paused = held_back, now

    def _pause(self, why: str) -> str:
        log.error("%s: publishing is paused until a platform's clock agrees, or: socialpub resume", why)
        self.service.write(lambda tx: instance.pause(instance.CLOCK)).result()
        self._held_back = True
        return instance.CLOCK

    def _go_on(self) -> None:
        if self.paused:
            log.warning("publishing goes on")
        self._watch.trust()
        self._sort_overdue()

    def _ask_platforms(self, wait: float = 0) -> None:
        """Compare the clock, in a thread of its own: a platform that does not answer must not keep the keeper."""
        now = self.service.runtime.clock.monotonic()
        if now - self._probed >= PROBE_SECONDS and self._asking.acquire(blocking=False):
            self._probed = now
            asking = threading.Thread(target=self._asked, name="clock", daemon=True)
            asking.start()
            asking.join(wait)

    def _asked(self) -> None:
        try:
            if clockwatch.upstream_agrees(self.service):
                self.service.write(lambda tx: instance.resume(instance.CLOCK)).result()
                self._doubt = False
                self._look_at_pause()
        except Exception:  # noqa: BLE001 - it is asked again; the server may have stopped meanwhile
            log.exception("the clock could not be compared")
        finally:
            self._asking.release()

    def _follow_clock(self) -> None:
        """What only waits for a while goes on waiting that while, also where the clock was set back."""
        self._behind += self._watch.went_back()
        if self._behind:
            recovery.went_back(self.service, self._behind)
            self._behind = 0
            self.service.jobs.bell.ring()

    # --- The keeper ---

    def _keep(self) -> None:
        """Renew leases, follow pauses, count beats, sweep: one thread, so that a stuck job cannot stop it."""
        clock = self.service.runtime.clock
        swept = beaten = clock.monotonic()
        tended = swept - SWEEP_SECONDS
        wait = 0.0 if self._held_back else KEEPER_SECONDS
        while not self._stop.wait(wait):
            wait = KEEPER_SECONDS
            rounds = [self.service.db.look, self.service.jobs.renew, self._follow_clock, self._look_at_pause]
            rounds += [self._beat, self._save_tokens, lambda: recovery.keep_unkept(self.service)]
            if clock.monotonic() - swept >= SWEEP_SECONDS:
                swept = clock.monotonic()
                rounds.append(lambda: recovery.sweep(self.service, self.fetched))
                rounds.append(self._end_overdue)
            if clock.monotonic() - tended >= SWEEP_SECONDS:
                tended = clock.monotonic()
                rounds.append(self._tend)
            if clock.monotonic() - beaten >= instance.BEAT_SECONDS:
                beaten = clock.monotonic()
                rounds.append(self._heard)
            done = [self._try(work) for work in rounds]
            if all(done):
                self.heartbeat = clock.monotonic()
            if self.service.db.fenced.is_set():
                self.on_fenced()

    def _end_overdue(self) -> None:
        """What a silent upstream holds back is told once it is too late, not only once the upstream is back."""
        if self.service.breakers.open() and not self._held_back:
            recovery.fail_overdue(self.service)

    def _tend(self) -> None:
        """Renew tokens ahead of time (not while paused: a copy must not use up the original's); tidy up."""
        net.close_idle()
        connect.purge(self.service)
        if not self.paused:
            self.upkeep.look()

    def _save_tokens(self) -> None:
        """New tokens that could not be written when they came, and that nobody else has."""
        tokens.save_unsaved(self.service)

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

    def _beat(self) -> None:
        """A beat after each change: a copy of the database that is older than it starts paused."""
        news = self.service.read(instance.news).result()
        if news != self._news:
            self._heard()
            self._news = news

    def _heard(self) -> None:
        """One beat; a sign of life too, unless the clock is in doubt."""
        doubt = self._doubt or self.paused == instance.CLOCK or self._watch.jumped()
        instance.beat(self.service, seen=not doubt)


def _is_late(service: Service, claim: Claim) -> bool:
    """Whether a job is answered long after its time: overdue posts of one account keep a distance."""
    due = service.read(lambda: _due(claim.key)).result()
    return due is not None and service.now_ms - due > LATE_MS


def _due(post: str) -> int | None:
    """When a post was to go out: not `due_at`, which also says when to ask about what is being prepared."""
    row = Post.select(Post.next_attempt_at, Post.scheduled_at).where(Post.id == post).tuples().first()
    return (row[0] or row[1]) if row else None
