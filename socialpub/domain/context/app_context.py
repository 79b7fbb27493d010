"""The context that domain functions are given: settings, database, queue, threads and shared state."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TypeVar

from socialpub.base import http as outbound
from socialpub.base.concurrency.admission import AdmissionController, Pacer
from socialpub.base.concurrency.fair_executor import FairExecutor, FairShareLimiter, QueueLimits
from socialpub.base.concurrency.thread_pool import ElasticThreadPool
from socialpub.base.http.circuit_breakers import CircuitBreakers
from socialpub.base.runtime import Runtime
from socialpub.base.system import host_identity
from socialpub.domain.context.platform_sites import PlatformSites, list_entered_apps
from socialpub.domain.context.recent_posts import RecentPosts
from socialpub.platforms.contract import CallNotes, Tokens
from socialpub.store.database import Database, DbFuture, Tx
from socialpub.store.jobs.job_queue import JobQueue
from socialpub.store.rows import PostRow
from socialpub.store.schema.models import Intent

T = TypeVar("T")
W = TypeVar("W")
CompletionObserver = Callable[[Tx, PostRow], None]
RESERVED_DESCRIPTORS = 100  # descriptors for the database, media and logs
CONCURRENCY_MIN = 32
CUSTOM_HOST_THREADS = 64  # threads
DELIVERY_THREADS = 128
MEASURING_THREADS = READING_THREADS = 2  # threads: what they do is all computing
QUEUE_LIMITS = QueueLimits(1000, 4000)  # for an upstream: a batch may have 25
CUSTOM_HOST_QUEUE_LIMITS = QueueLimits(400, 1600)
MEASURING_QUEUE_LIMITS = QueueLimits(50, 200)
READ_PACE_SECONDS = 0.004  # between two reads of one organization while posts go out
READ_PACE_MAX_SECONDS = 1.0  # seconds
CONCURRENT_CHECKS = 2  # requests of one organization: one computes while the other waits for what it looks up
CONCURRENT_WRITES = 32  # the same: they wait for the disk together, and the next organization's need not wait for many

CONCURRENT_REQUESTS_SHARED, CONCURRENT_REQUESTS_ALONE = (
    2,
    16,
)  # requests of one organization under way: beside those of others, and alone
ACTIVE_SECONDS = 1.0  # after its last request, in which an organization still counts as one of the others
COUNTED_SECONDS = 0.1  # for which a request counts: what takes longer waits for something else than this process


class CompletionNotifier:
    """Tells waiters of this process that something (a batch, a key) has come to its end. Rows stay the truth."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[str, set[Future[None]]] = defaultdict(set)
        self._witnesses: dict[str, list[CompletionObserver]] = {}
        self._closed = False

    @property
    def is_closed(self) -> bool:
        """Whether nobody will be told of anything any more: the server stops."""
        return self._closed

    def expect(self, name: str) -> Future[None]:
        """What ends when `name` is rung; take it before looking, so that nothing is missed."""
        rung: Future[None] = Future()
        rung.set_running_or_notify_cancel()  # a client that goes away does not end it
        with self._lock:
            self._waiting[name].add(rung)
        return rung

    def forget(self, name: str, rung: Future[None]) -> None:
        with self._lock:
            waiting = self._waiting.get(name)
            if waiting is not None:
                waiting.discard(rung)
                if not waiting:
                    del self._waiting[name]

    def ring(self, name: str) -> None:
        with self._lock:
            waiting = self._waiting.pop(name, ())
        for rung in waiting:  # each is in one set, which is taken by whoever rings first
            rung.set_result(None)

    def witness(self, name: str, see: CompletionObserver) -> None:
        """From now on `see` is called in each transaction that ends a post of `name`, until it is dismissed."""
        with self._lock:
            self._witnesses.setdefault(name, []).append(see)

    def dismiss(self, name: str, see: CompletionObserver) -> None:
        with self._lock:
            left = [each for each in self._witnesses.get(name, ()) if each != see]
            if left:
                self._witnesses[name] = left
            else:
                self._witnesses.pop(name, None)

    def seen(self, tx: Tx, name: str, post: PostRow) -> None:
        """In a transaction that has ended a post of `name`: whoever witnesses it writes what belongs to it."""
        for see in self._witnesses.get(name, ()):
            see(tx, post)

    def close(self) -> None:
        """Nobody waits any longer: the server stops."""
        self._closed = True
        for name in list(self._waiting):
            self.ring(name)

    async def until(self, name: str, ready: Callable[[], DbFuture[T | None]], seconds: float) -> T | None:
        """What `ready` reads once it is not None, asked again at each ring; None after `seconds`."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while True:
            rung = self.expect(name)
            try:
                found = await ready()
                if found is not None or self._closed or loop.time() >= deadline:
                    return found
                await wait_for_completion(rung, deadline - loop.time())
            finally:
                self.forget(name, rung)


async def wait_for_completion(rung: Future[None], seconds: float) -> None:
    """Wait for a future of the hub, at most so many seconds."""
    await asyncio.wait([asyncio.wrap_future(rung)], timeout=seconds)


@dataclass
class TokenRefreshState:
    """What this process knows of one account's tokens. `unsaved`: what new ones replace, and those not written yet."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    unsaved: tuple[str, Tokens] | None = None


@dataclass
class DeliveredResponses:
    """Requests that had their answer, and have a row still that says otherwise; it goes soon."""

    ids: set[str] = field(default_factory=set)
    is_soon: bool = False
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))  # of all such requests of this run


@dataclass
class Executors:
    """The threads of the process, which hold no connection to the database.

    `immediate`: publishing calls of immediate posts, in threads of `crew`, which due posts share. `steered`: calls to
    addresses that users choose, which may hang. `measuring`: rules over long texts. `reading`: parsing of large bodies.
    `delivering`: calls to webhooks and notification channels.
    """

    crew: ElasticThreadPool
    immediate: FairExecutor
    steered: FairExecutor
    measuring: FairExecutor
    reading: FairExecutor
    delivering: FairExecutor

    @property
    def pools(self) -> tuple[FairExecutor, ...]:
        return (self.immediate, self.steered, self.measuring, self.reading, self.delivering)

    def close(self) -> None:
        """Cancel what waits, and let threads end with what they run."""
        for pool in self.pools:
            pool.shutdown(wait=False, cancel_futures=True)
        self.crew.close(wait=False)


@dataclass
class AdmissionControllers:
    """Permits of each organization: for requests, their checks and their writes; `reads` spaces reads."""

    requests: AdmissionController = field(
        default_factory=lambda: AdmissionController(
            CONCURRENT_REQUESTS_ALONE, CONCURRENT_REQUESTS_SHARED, counted=COUNTED_SECONDS, recent=ACTIVE_SECONDS
        )
    )
    checking: AdmissionController = field(default_factory=lambda: AdmissionController(CONCURRENT_CHECKS))
    writing: AdmissionController = field(default_factory=lambda: AdmissionController(CONCURRENT_WRITES))
    reads: Pacer = field(default_factory=lambda: Pacer(READ_PACE_SECONDS, READ_PACE_MAX_SECONDS))


@dataclass
class UpstreamState:
    """State of upstream calls that lives as long as the process.

    `revoked`: accounts whose authorization has ended. `renewals`: token renewals by account.
    """

    breakers: CircuitBreakers
    revoked: set[str] = field(default_factory=set)
    renewals: dict[str, TokenRefreshState] = field(default_factory=dict)
    notes: CallNotes = field(default_factory=CallNotes)


@dataclass
class LostResponses:
    """Responses that a client did not receive.

    `unheard`: when the client of a request disconnected, by request. `unkept`: batches whose response could not be
    stored for their Idempotency-Key.
    """

    unheard: dict[str, int] = field(default_factory=dict)
    heard: DeliveredResponses = field(default_factory=DeliveredResponses)
    unkept: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class PendingIntegrityCheck:
    """A look at the whole file. `first`: what is due waits for it, since the file may be damaged."""

    why: str
    first: bool


@dataclass
class ProcessState:
    """Facts about this run of the server.

    `run`: its name, in rows that one of several processes may hold. `beat`: its newest heartbeat; a database without it
    is not the one that it wrote to. `owed`: a check of the whole file that is still to be made. `setup_digest`: of the
    one-time link for the first owner.
    """

    run: str
    beat: int = 0
    owed: PendingIntegrityCheck | None = None
    stopping: threading.Event = field(default_factory=threading.Event)
    setup_digest: str | None = None


@dataclass
class AppContext:
    """The context that domain functions are given: settings, database, queue, threads and shared state."""

    runtime: Runtime
    db: Database
    jobs: JobQueue
    executors: Executors
    upstream: UpstreamState
    sites: PlatformSites
    process: ProcessState
    admission: AdmissionControllers = field(default_factory=AdmissionControllers)
    lost: LostResponses = field(default_factory=LostResponses)
    hub: CompletionNotifier = field(default_factory=CompletionNotifier)
    ring_receivers: Callable[[list[str]], None] = lambda receivers: None  # wakes the delivery of these endpoints
    lately: RecentPosts = field(init=False)

    def __post_init__(self) -> None:
        self.lately = RecentPosts(self.runtime.clock)

    @property
    def now_ms(self) -> int:
        return self.runtime.clock.now_ms()

    @property
    def base_url(self) -> str:
        return self.runtime.settings.base_url

    def is_busy(self) -> bool:
        """Whether upstream calls are still under way; the interpreter would wait for them."""
        threads = self.executors
        return bool(self.jobs.held()) or threads.immediate.busy or threads.steered.busy or threads.delivering.busy

    def write(self, run: Callable[[Tx], T]) -> DbFuture[T]:
        return self.db.write(run)

    def write_together(self, kind: Callable[[Tx, Sequence[W]], Sequence[T]], what: W) -> DbFuture[T]:
        """What `kind` answers for `what`, with others of its kind in one go where they come together."""
        return self.db.write_together(kind, what)

    def read(self, run: Callable[[], T]) -> DbFuture[T]:
        return self.db.read(run)

    async def give_way(self, organization: str) -> None:
        """Reads go at a pace while posts go out: these have the interpreter before who reads all the time."""
        if self.jobs.busy:
            seconds = self.admission.reads.wait(organization, self.runtime.clock.monotonic())
            if seconds > 0:
                await asyncio.sleep(seconds)

    async def read_inline(self, run: Callable[[], T], *, to_identify: bool = False) -> T:
        return await self.db.read_inline(run, to_identify=to_identify)


def limit_concurrency(asked: int, limit: int | None = None) -> int:
    """How many posts may go out at once, of what the settings allow: each needs a descriptor, and half of those are for
    requests. `limit`: how many there are; this process's own where it is not given.
    """
    return min(
        asked,
        max(
            CONCURRENCY_MIN,
            (host_identity.get_file_limit() if limit is None else limit) // 4 - RESERVED_DESCRIPTORS // 2,
        ),
    )


def open_context(runtime: Runtime) -> AppContext:
    """A service over the configured, already migrated database; close it with `close_context`."""
    db = Database(runtime.settings.database_path, runtime.clock).open()
    publishing = runtime.settings.publishing
    breakers = CircuitBreakers(runtime.clock.monotonic)
    jobs = JobQueue(db, runtime.clock, FairShareLimiter(limit_concurrency(publishing.workers), breakers.narrow))
    jobs.next_try = breakers.next_try
    jobs.anyway = lambda: Intent.select(Intent.post).where(Intent.outcome.is_null())
    crew = ElasticThreadPool("upstream")
    executors = Executors(
        crew,
        immediate=FairExecutor(limit_concurrency(publishing.threads), "upstream", QUEUE_LIMITS, crew=crew),
        steered=FairExecutor(CUSTOM_HOST_THREADS, "steered", CUSTOM_HOST_QUEUE_LIMITS),
        measuring=FairExecutor(MEASURING_THREADS, "measuring", MEASURING_QUEUE_LIMITS),
        reading=FairExecutor(READING_THREADS, "reading"),
        delivering=FairExecutor(DELIVERY_THREADS, "delivering"),
    )
    sites = PlatformSites(runtime.settings)
    sites.load(db.read(list_entered_apps).result(), runtime.vault)
    process = ProcessState(run=runtime.entropy(8).hex())
    return AppContext(runtime, db, jobs, executors, UpstreamState(breakers), sites, process)


def close_context(service: AppContext) -> None:
    """Release the threads, idle connections and the database of a service."""
    service.executors.close()
    outbound.close_idle(0)
    service.db.close()
