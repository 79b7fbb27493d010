"""Benchmark of throughput: requests per second as a share of a bare Sanic handler's."""

from __future__ import annotations

import contextlib
import itertools
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx

from benchmarks import raw_sqlite, wrk_load
from benchmarks.goals import GOALS, LOSSES, BenchmarkGoal, BenchmarkResult
from benchmarks.processes import BenchError
from benchmarks.servers import ACCOUNTS, BenchmarkSetup, CheckoutServer
from benchmarks.wrk_load import LoadResult, LoadScript
from socialpub.base.runtime import format_iso

AHEAD_MS = 30 * 86_400_000  # scheduled posts are due after the run
IMMEDIATE_ACCOUNTS = 16
LISTED, PAGES, READ = 50, 65, 500  # posts of a page, pages by turns, posts by turns
WRITES_A_SECOND = 10
_ordinals = itertools.count(1)
WRITTEN = ("post_scheduled", "post_scheduled_25")


@dataclass(frozen=True)
class WorkKind:
    """One kind of request: the load on a side, and the same job of the bare server."""

    goal: BenchmarkGoal
    script: Callable[[CheckoutServer], LoadScript]
    twin: Callable[[CheckoutServer], LoadScript]
    rows: int = 1  # that one request makes
    beside_writes: bool = False  # while posts are written to the side, WRITES_A_SECOND


@dataclass
class WorkShares:
    """The rounds of one row: by side, what it did beside the bare handler and beside the bare server's same job."""

    work: WorkKind
    loads: dict[str, list[LoadResult]] = field(default_factory=dict)
    shares: dict[str, list[float]] = field(default_factory=dict)
    likes: dict[str, list[float]] = field(default_factory=dict)
    bare: list[float] = field(default_factory=list)  # a second
    raw: list[float] = field(default_factory=list)  # posts a second that sqlite3 itself writes, a commit each

    def share(self, side: str) -> float:
        return statistics.median(self.shares[side])

    def like(self, side: str) -> float:
        return statistics.median(self.likes[side])

    def middle(self, side: str, of: Callable[[LoadResult], float]) -> float:
        return statistics.median(of(load) for load in self.loads[side])

    def loss(self, side: str, beside: str) -> float:
        """What the first does less than the second, in the middle of the rounds."""
        pairs = zip(self.loads[side], self.loads[beside], strict=True)
        return 1 - statistics.median(one.rate / other.rate for one, other in pairs)

    def results(self, stage: BenchmarkSetup) -> list[BenchmarkResult]:
        first, told = stage.first.name, "; ".join(self.told(side.name) for side in stage.sides)
        told += f"; bare {statistics.median(self.bare):,.0f}/s"
        if self.raw:
            told += f"; raw sqlite3 {statistics.median(self.raw):,.0f} posts/s, a commit for each batch"
        found = [BenchmarkResult(self.work.goal, 100 * self.share(first), told)]
        if stage.empty is not None:
            loss = next(goal for goal in LOSSES if goal.name == f"loss_{self.work.goal.name}")
            found.append(BenchmarkResult(loss, 100 * self.loss(first, stage.empty.name)))
        return found

    def told(self, side: str) -> str:
        rate = self.middle(side, lambda load: load.rate) * self.work.rows
        p50, p99 = (self.middle(side, of) for of in (lambda load: load.p50, lambda load: load.p99))
        cpu = self.middle(side, lambda load: load.cpu_ms)
        return (
            f"{side}: {rate:,.0f}/s, {self.like(side):.1%} of bare Sanic with the same job,"
            f" p50 {p50:.1f} ms, p99 {p99:.1f} ms, CPU {cpu:.2f} ms"
        )

    def line(self, side: str) -> str:
        rate = self.middle(side, lambda load: load.rate) * self.work.rows
        p50, p99 = (self.middle(side, of) for of in (lambda load: load.p50, lambda load: load.p99))
        cpu, switches = (self.middle(side, of) for of in (lambda load: load.cpu_ms, lambda load: load.switches))
        return (
            f"{self.work.goal.name:<18}{side[:15]:<16}{rate:>9.0f}{self.share(side):>9.2%}{self.like(side):>9.2%}"
            f"{p50:>9.1f}{p99:>9.1f}{cpu:>9.2f}{switches:>9.1f}"
        )


HEAD = (
    f"{'row':<18}{'side':<16}{'a second':>9}{'of bare':>9}{'of same':>9}{'p50 ms':>9}{'p99 ms':>9}"
    f"{'CPU ms':>9}{'switches':>9}"
)


def later() -> str:
    return format_iso(time.time_ns() // 1_000_000 + AHEAD_MS)


def _posts(targets: int, accounts: int = ACCOUNTS, *, scheduled: bool) -> Callable[[CheckoutServer], LoadScript]:
    def script(side: CheckoutServer) -> LoadScript:
        at = later() if scheduled else ""
        return wrk_load.post("/v1/posts", side.people.key, side.people.accounts[:accounts], targets=targets, at=at)

    return script


def _parsed(targets: int, accounts: int = ACCOUNTS, *, scheduled: bool) -> Callable[[CheckoutServer], LoadScript]:
    def script(side: CheckoutServer) -> LoadScript:
        at = later() if scheduled else ""
        return wrk_load.post("/posts", "", side.people.accounts[:accounts], targets=targets, at=at)

    return script


def _ready(path: str) -> Callable[[CheckoutServer], LoadScript]:
    """The bare server sends as many bytes as the side does."""
    return lambda side: wrk_load.get([f"/bytes/{len(side.get(path).content)}"])


def pages_of(side: CheckoutServer) -> list[str]:
    """The paths of PAGES pages one after another, the newest first; fewer where there are fewer posts."""
    return [path for path, _ in itertools.islice(_walk(side, LISTED), PAGES)]


def _some(side: CheckoutServer) -> list[str]:
    """The paths of the newest READ posts; fewer where there are fewer, and LookupError where there are none."""
    posts = itertools.chain.from_iterable(posts for _, posts in _walk(side, 200))
    if not (found := [f"/v1/posts/{post['id']}" for post in itertools.islice(posts, READ)]):
        raise LookupError("there are no posts to read")
    return found


def _walk(side: CheckoutServer, limit: int) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Path and posts of each page of the list."""
    path: str | None = f"/v1/posts?limit={limit}"
    while path:
        page = side.get(path).json()
        yield path, page["data"]
        path = f"/v1/posts?limit={limit}&cursor={page['nextCursor']}" if page["nextCursor"] else None


WORK = {
    work.goal.name: work
    for work in (
        WorkKind(GOALS["post_scheduled"], _posts(1, scheduled=True), _parsed(1, scheduled=True)),
        WorkKind(GOALS["post_scheduled_25"], _posts(25, scheduled=True), _parsed(25, scheduled=True), rows=25),
        WorkKind(
            GOALS["post_immediate"],
            _posts(1, IMMEDIATE_ACCOUNTS, scheduled=False),
            _parsed(1, IMMEDIATE_ACCOUNTS, scheduled=False),
        ),
        WorkKind(
            GOALS["list"],
            lambda side: wrk_load.get(pages_of(side), side.people.key),
            _ready(f"/v1/posts?limit={LISTED}"),
            beside_writes=True,
        ),
        WorkKind(
            GOALS["one"],
            lambda side: wrk_load.get(_some(side), side.people.key),
            lambda side: _ready(_some(side)[0])(side),
            beside_writes=True,
        ),
        WorkKind(GOALS["health"], lambda side: wrk_load.get(["/healthz"]), _ready("/healthz")),
    )
}


def fill(side: CheckoutServer) -> None:
    """So that there is something to read, and to copy: batches for next month."""
    for number in range(8):
        targets = [{"accountId": account} for account in side.people.accounts]
        side.post({"text": f"There is something to read, {number}.", "targets": targets, "scheduledAt": later()})


@contextlib.contextmanager
def writing(side: CheckoutServer) -> Iterator[None]:
    """Schedule WRITES_A_SECOND posts while the block runs; BenchError where one was not accepted."""
    ended, wrong, ordinal = threading.Event(), list[httpx.Response](), next(_ordinals)

    def write() -> None:
        with httpx.Client(base_url=side.url, headers=side.people.headers, trust_env=False, timeout=60) as client:
            number = 0
            while not ended.wait(1 / WRITES_A_SECOND):
                target = {"accountId": side.people.accounts[number % ACCOUNTS]}
                body = {"text": f"Beside {ordinal}: {number}", "targets": [target], "scheduledAt": later()}
                answer = client.post("/v1/posts", json=body)
                wrong.extend([answer] if answer.status_code != httpx.codes.ACCEPTED else [])
                number += 1

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    if wrong:
        raise BenchError(f"Of the posts beside the load {len(wrong)} were refused: {wrong[0].text[:300]}")


def measure(stage: BenchmarkSetup, work: WorkKind) -> WorkShares:
    """Bare handler, the bare server's same job, raw sqlite3 where it is a write, and each side, by turns."""
    names = [side.name for side in stage.sides]
    found = WorkShares(work, {name: [] for name in names}, {name: [] for name in names}, {name: [] for name in names})
    scripts = {side.name: work.script(side) for side in stage.sides}
    plain, twin, bare = wrk_load.get(["/json"]), work.twin(stage.first), stage.bare
    for _ in range(stage.rounds):
        most = wrk_load.run(plain, bare.url, bare.process, stage.folder, stage.seconds).rate
        same = wrk_load.run(twin, bare.url, bare.process, stage.folder, stage.seconds).rate
        found.bare.append(most)
        if work.goal.name in WRITTEN and stage.empty is not None:
            found.raw.append(raw_sqlite.rate(stage.empty, stage.folder, stage.seconds, targets=work.rows))
        for side in stage.sides:
            with writing(side) if work.beside_writes else contextlib.nullcontext():
                done = wrk_load.run(scripts[side.name], side.url, side.running, stage.folder, stage.seconds)
            found.loads[side.name].append(done)
            found.shares[side.name].append(done.rate * work.rows / most)
            found.likes[side.name].append(done.rate / same)
    return found
