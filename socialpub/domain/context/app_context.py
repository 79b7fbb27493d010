"""Application context: settings, database, job queue, threads and shared state."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
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
from socialpub.domain.context.waiting_requests import WaitingRequests
from socialpub.platforms.contract import CallNotes, Tokens
from socialpub.store.database import Database, DbFuture, Tx
from socialpub.store.jobs.job_queue import JobQueue
from socialpub.store.schema.models import Intent

T = TypeVar("T")
W = TypeVar("W")
BatchObserver = Callable[[Tx], None]
RESERVED_DESCRIPTORS = 100  # for the database, media and logs
CONCURRENCY_MIN = 32
CUSTOM_HOST_THREADS = 64
DELIVERY_THREADS = 128
MEASURING_THREADS = READING_THREADS = 2  # CPU-bound work
QUEUE_LIMITS = QueueLimits(1000, 4000)  # of an upstream: one batch may have 25 posts
CUSTOM_HOST_QUEUE_LIMITS = QueueLimits(400, 1600)
MEASURING_QUEUE_LIMITS = QueueLimits(50, 200)
READ_PACE_SECONDS = 0.004  # between two reads of one organization while posts are published
READ_PACE_MAX_SECONDS = 1.0
# Limits of one organization.
CONCURRENT_CHECKS = 2  # one computes while the other waits for a lookup
CONCURRENT_WRITES = 32  # share one sync to disk, yet do not delay the next organization by many
CONCURRENT_REQUESTS_SHARED, CONCURRENT_REQUESTS_ALONE = 2, 16  # while other organizations are active, and alone
ACTIVE_SECONDS = 1.0  # an organization counts as active for this long after its last request
COUNTED_SECONDS = 0.1  # a request holds its permit at most this long: a slower one waits for another system


class BatchObservers:
    """Observers of batches, each called in the transactions that finish a post of its batch."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._observers: dict[str, list[BatchObserver]] = {}  # by batch

    def add(self, batch: str, observer: BatchObserver) -> None:
        with self._lock:
            self._observers.setdefault(batch, []).append(observer)

    def remove(self, batch: str, observer: BatchObserver) -> None:
        with self._lock:
            left = [each for each in self._observers.get(batch, ()) if each != observer]
            if left:
                self._observers[batch] = left
            else:
                self._observers.pop(batch, None)

    def notify(self, tx: Tx, batch: str) -> None:
        """Call the observers of a batch, in the transaction that finishes a post of it."""
        for observer in self._observers.get(batch, ()):
            observer(tx)


@dataclass
class TokenRefreshState:
    """Token refresh of one account. `unsaved`: encrypted old tokens, new ones to store.

    `unused`: likewise, but the account was disconnected or connected again during the refresh.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    unsaved: tuple[str, Tokens] | None = None
    unused: tuple[str, Tokens] | None = None


@dataclass
class Executors:
    """Threads of the process, which hold no connection to the database.

    `immediate`: publishing calls of immediate posts, in threads of `upstream_pool`, which due posts share.
    `custom_hosts`: calls to addresses that users choose, which may hang. `measuring`: rules over long texts.
    `reading`: parsing of large bodies. `delivering`: calls to webhooks and notification channels.
    """

    upstream_pool: ElasticThreadPool
    immediate: FairExecutor
    custom_hosts: FairExecutor
    measuring: FairExecutor
    reading: FairExecutor
    delivering: FairExecutor

    @property
    def pools(self) -> tuple[FairExecutor, ...]:
        return (self.immediate, self.custom_hosts, self.measuring, self.reading, self.delivering)

    def close(self) -> None:
        """Cancel queued calls; running ones finish."""
        for pool in self.pools:
            pool.shutdown(wait=False, cancel_futures=True)
        self.upstream_pool.close(wait=False)


@dataclass
class AdmissionControllers:
    """Permits of each organization for requests, checks and writes; `reads` spaces reads.

    `waking`: for the reads of requests that have waited, which one event may wake all at once.
    """

    requests: AdmissionController = field(
        default_factory=lambda: AdmissionController(
            CONCURRENT_REQUESTS_ALONE, CONCURRENT_REQUESTS_SHARED, counted=COUNTED_SECONDS, recent=ACTIVE_SECONDS
        )
    )
    checking: AdmissionController = field(default_factory=lambda: AdmissionController(CONCURRENT_CHECKS))
    writing: AdmissionController = field(default_factory=lambda: AdmissionController(CONCURRENT_WRITES))
    waking: AdmissionController = field(default_factory=lambda: AdmissionController(CONCURRENT_CHECKS))
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

    `undelivered`: when the client of a request disconnected (ms), by request. `delivered`: requests whose rows are
    still to be deleted. `unstored`: batches whose response could not be stored for their Idempotency-Key.
    """

    undelivered: dict[str, int] = field(default_factory=dict)
    delivered: set[str] = field(default_factory=set)
    is_deletion_scheduled: bool = False
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))  # for the ids of requests
    unstored: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class PendingIntegrityCheck:
    """Pending check of the whole database file. `first`: due posts wait for it."""

    why: str
    first: bool


@dataclass
class ProcessState:
    """Facts about this run of the server.

    `run`: random id of this run, in rows that one of several processes may lock. `beat`: newest heartbeat; a database
    with a lower one was replaced. `pending_check`: check of the whole file that is still to be made. `setup_digest`:
    digest of the one-time link for the first owner.
    """

    run: str
    beat: int = 0
    pending_check: PendingIntegrityCheck | None = None
    stopping: threading.Event = field(default_factory=threading.Event)
    setup_digest: str | None = None


@dataclass
class AppContext:
    """Application context: settings, database, job queue, threads and shared state."""

    runtime: Runtime
    db: Database
    jobs: JobQueue
    executors: Executors
    upstream: UpstreamState
    sites: PlatformSites
    process: ProcessState
    admission: AdmissionControllers = field(default_factory=AdmissionControllers)
    lost: LostResponses = field(default_factory=LostResponses)
    batch_observers: BatchObservers = field(default_factory=BatchObservers)
    waiting: WaitingRequests = field(default_factory=WaitingRequests)
    wake_deliveries: Callable[[list[str]], None] = lambda receivers: None  # by ids of endpoints and channels
    recent_posts: RecentPosts = field(init=False)

    def __post_init__(self) -> None:
        self.recent_posts = RecentPosts(self.runtime.clock)

    @property
    def now_ms(self) -> int:
        return self.runtime.clock.now_ms()

    @property
    def base_url(self) -> str:
        return self.runtime.settings.base_url

    def is_busy(self) -> bool:
        """Return whether upstream calls are running, which delay the end of the process."""
        threads = self.executors
        upstream = (threads.immediate, threads.custom_hosts, threads.delivering)
        return bool(self.jobs.held()) or any(executor.is_busy for executor in upstream)

    def write(self, run: Callable[[Tx], T]) -> DbFuture[T]:
        return self.db.write(run)

    def write_together(self, write_all: Callable[[Tx, Sequence[W]], Sequence[T]], value: W) -> DbFuture[T]:
        """Write `value` in one call with concurrent values; return its own result."""
        return self.db.write_together(write_all, value)

    def read(self, run: Callable[[], T]) -> DbFuture[T]:
        return self.db.read(run)

    async def pace_reads(self, organization: str) -> None:
        """Space the reads of an organization while posts are published, which get CPU time first."""
        if self.jobs.is_busy:
            seconds = self.admission.reads.wait(organization, self.runtime.clock.monotonic())
            if seconds > 0:
                await asyncio.sleep(seconds)

    async def read_inline(self, run: Callable[[], T], *, to_identify: bool = False) -> T:
        return await self.db.read_inline(run, to_identify=to_identify)


def limit_concurrency(configured: int) -> int:
    """Limit the configured number of posts published at once by the file descriptors.

    Each post needs one, and half of them are left to requests.
    """
    available = host_identity.get_file_limit() // 4 - RESERVED_DESCRIPTORS // 2
    return min(configured, max(CONCURRENCY_MIN, available))


def open_context(runtime: Runtime) -> AppContext:
    """Open the context over the configured, migrated database; close it with `close_context`."""
    db = Database(runtime.settings.database_path, runtime.clock).open()
    publishing = runtime.settings.publishing
    breakers = CircuitBreakers(runtime.clock.monotonic)
    jobs = JobQueue(db, runtime.clock, FairShareLimiter(limit_concurrency(publishing.workers), breakers.get_limits))
    jobs.next_try = breakers.next_try
    jobs.anyway = lambda: Intent.select(Intent.post).where(Intent.outcome.is_null())
    pool = ElasticThreadPool("upstream")
    executors = Executors(
        pool,
        immediate=FairExecutor(limit_concurrency(publishing.threads), "upstream", QUEUE_LIMITS, threads=pool),
        custom_hosts=FairExecutor(CUSTOM_HOST_THREADS, "steered", CUSTOM_HOST_QUEUE_LIMITS),
        measuring=FairExecutor(MEASURING_THREADS, "measuring", MEASURING_QUEUE_LIMITS),
        reading=FairExecutor(READING_THREADS, "reading"),
        delivering=FairExecutor(DELIVERY_THREADS, "delivering"),
    )
    sites = PlatformSites(runtime.settings)
    sites.load(db.read(list_entered_apps).result(), runtime.vault)
    process = ProcessState(run=runtime.entropy(8).hex())
    return AppContext(runtime, db, jobs, executors, UpstreamState(breakers), sites, process)


def close_context(service: AppContext) -> None:
    """Release the threads, idle connections and the database."""
    service.executors.close()
    outbound.close_idle(0)
    service.db.close()
