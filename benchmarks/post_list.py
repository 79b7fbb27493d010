"""Benchmark of GET /v1/posts at a million posts: filters, deep pages and searches.

Every combination of filters is measured, on the first and the hundredth page. Two processes hold the large and the
small database and are measured in turns, so that the ratio tells how the cost grows with the rows on any machine,
busy or not.
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks import dataset
from socialpub.base.config import Settings
from socialpub.base.error_codes import ERRORS
from socialpub.base.runtime import Runtime, load_vault
from socialpub.domain.access.authentication import Scope
from socialpub.domain.context.app_context import AppContext, close_context, open_context
from socialpub.domain.posts import post_log
from socialpub.domain.schemas.posts import PostsQuery

SMALL_ROWS = 10_000
LIMIT = 200  # the largest page, so the dearest
PAGE = 100
RUNS = {"filter": 5, "search": 5, "short": 3}
SLOWEST = 12
BOUNDS_MS = {"filter": 50.0, "search": 150.0, "short": 1000.0}
Query = dict[str, Any]
Times = tuple[float, float]


@dataclass(frozen=True)
class QueryCase:
    """One query, and the kind of bound it has."""

    kind: str
    name: str
    query: Query
    page: int


@dataclass
class QueryTimes:
    """Milliseconds of each run: by the clock, and of the processor. What else the machine does only ever adds."""

    case: QueryCase
    large: list[Times] = field(default_factory=list)
    small: list[Times] = field(default_factory=list)
    rows: int = 0

    @property
    def best(self) -> float:
        return min(self.large)[0]

    @property
    def over(self) -> bool:
        return self.best > BOUNDS_MS[self.case.kind]

    def line(self) -> str:
        small, worst = min(self.small)[0], max(self.large)[0]
        processor = min(processor for _, processor in self.large)
        return (
            f"{self.case.kind:7}{self.case.page:>5}{small:>9.2f}{self.best:>9.2f}{worst:>9.2f}{processor:>9.2f}"
            f"{self.best / small:>8.1f}{self.rows:>6}  {'OVER' if self.over else 'ok':5} {self.case.name}"
        )


HEAD = f"{'kind':7}{'page':>5}{'small ms':>9}{'large ms':>9}{'worst':>9}{'cpu':>9}{'ratio':>8}{'rows':>6}  {'':5} query"

# --- Cases -------------------------------------------------------------------------------------------------------

Choice = tuple[str, Query]
PLATFORM: tuple[Choice, ...] = (
    ("", {}),
    ("one platform", {"platform": ["tiktok"]}),
    ("8 platforms", {"platform": "bluesky facebook instagram linkedin pinterest threads tiktok twitter".split()}),
)
STATUS: tuple[Choice, ...] = (
    ("", {}),
    ("common status", {"status": ["published"]}),
    ("no such status", {"status": ["publishing"]}),
    ("7 statuses", {"status": "queued validated publishing published failed rejected canceled".split()}),
)
SCHEDULED: Choice = ("scheduled status", {"status": ["queued"]})
CODE: tuple[Choice, ...] = (
    ("", {}),
    ("common code", {"errorCode": ["platform_rejected"]}),
    ("no such code", {"errorCode": ["quota_exceeded"]}),
    ("13 codes", {"errorCode": list(ERRORS)}),
)
PROFILE: tuple[Choice, ...] = (
    ("", {}),
    ("big profile", {"profileId": dataset.BIG}),
    ("small profile", {"profileId": dataset.SMALL}),
)
WINDOW: tuple[Choice, ...] = (("", {}), ("window", {"after": 0.2, "before": 0.4}))  # shares of the whole time
MANNER: tuple[Choice, ...] = (
    ("account", {"accountId": dataset.account(dataset.BIG, "tiktok")}),
    ("by schedule", {"order": "scheduledAt"}),
    ("stretch", {"scheduledAfter": 0.2, "scheduledBefore": 0.4}),
    ("stretch by schedule", {"scheduledAfter": 0.2, "scheduledBefore": 0.4, "order": "scheduledAt"}),
)
TEXTS: dict[str, tuple[str, ...]] = {
    "search": (
        "onlyothers",  # every second post, none of the big profile
        "brokenlink",  # failed posts only
        "oldtimes",  # the oldest twentieth only
        "needle",  # twenty posts
        "xyzzyplugh",  # none
        "onlybig onlyothers",  # none, of two common words
        "aaa",  # a quarter
        "aaaaaaa",  # none, of a common trigram
        "Release 12345678 is out",  # none, of a template
        "релиз",  # none
        "ПРИВЕТ",
        "more of this every week at https://example.com/news thank you for reading",  # none: a template's parts
        ("Release 12 is out: " + dataset.FOOTER * 4)[:200],  # none, and the longest
        "100%_\\\"'",
    ),
    "short": ("e", "zq", "日本", "%"),
}


def cases() -> Iterator[QueryCase]:
    for combination in itertools.product(PLATFORM, STATUS, CODE, PROFILE, WINDOW):
        yield from _paged("filter", *_joined(combination))
    for combination in itertools.product(MANNER, PLATFORM[:2], (*STATUS[:2], SCHEDULED), CODE[:2], PROFILE[:2]):
        yield from _paged("filter", *_joined(combination))
    for kind, texts in TEXTS.items():
        for text, choices in itertools.product(texts, _search_filters()):
            name, query = _joined(choices)
            yield from _paged(kind, f"{text[:40]!r} {name}", query | {"q": text})


def _search_filters() -> Iterator[Iterable[Choice]]:
    yield ()
    alone = [*PLATFORM[1:], *STATUS[1:], *CODE[1:], *PROFILE[1:], *WINDOW[1:], *MANNER]
    yield from ((choice,) for choice in alone)
    yield PLATFORM[1], STATUS[1], PROFILE[1]
    yield PLATFORM[1], STATUS[3], PROFILE[1], WINDOW[1]


def _joined(choices: Iterable[Choice]) -> tuple[str, Query]:
    chosen = list(choices)
    query: Query = {}
    for _, part in chosen:
        query |= part
    return ", ".join(name for name, _ in chosen if name) or "everything", query


def _paged(kind: str, name: str, query: Query) -> Iterator[QueryCase]:
    yield QueryCase(kind, name, query, 1)
    yield QueryCase(kind, name, query, PAGE)


# --- One database, in its own process ----------------------------------------------------------------------------


def _serve(pipe: Connection, home: Path, rows: int, began_ms: int) -> None:
    settings = Settings(database={"url": str(home / "socialpub.db")})
    service = open_context(Runtime(settings, load_vault(settings)))
    try:
        while (case := pipe.recv()) is not None:
            ask = _asking(service, case, rows, began_ms)
            pipe.send(len(json.loads(ask())["data"]))
            while pipe.recv():
                began = time.perf_counter(), time.process_time()
                ask()
                pipe.send(((time.perf_counter() - began[0]) * 1000, (time.process_time() - began[1]) * 1000))
    finally:
        close_context(service)


BOUNDS = {
    "after": "after",
    "before": "before",
    "scheduledAfter": "scheduled_after",
    "scheduledBefore": "scheduled_before",
}


def _asking(service: AppContext, case: QueryCase, rows: int, began_ms: int) -> Callable[[], bytes]:
    given = {name: value for name, value in case.query.items() if name not in BOUNDS}
    query = PostsQuery.model_validate(given | {"limit": LIMIT})
    bounds: Query = {
        field: (began_ms if field in ("after", "before") else dataset.DUE_MS)
        + int(case.query[name] * rows * dataset.STEP_MS)
        for name, field in BOUNDS.items()
        if name in case.query
    }
    query = query.model_copy(update=bounds)
    scope = Scope(dataset.ORGANIZATION)
    if case.page > 1:
        query = query.model_copy(update={"cursor": _deep(service, scope, query, case.page)})
    return lambda: service.read(lambda: post_log.load_page(service, scope, query)).result()


def _deep(service: AppContext, scope: Scope, query: PostsQuery, page: int) -> str | None:
    """The cursor of that page, or of the last one."""
    count = (page - 1) * query.limit
    hits = service.read(lambda: post_log.find_hits(post_log.build_filter(service, scope, query), query, count)).result()
    hits = hits[: len(hits) // query.limit * query.limit]
    return post_log.build_cursor(service, scope, query, hits[-1][:2]) if hits else None


class DatabaseProcess:
    """The process of one database, as the measuring one sees it."""

    def __init__(self, rows: int, folder: Path | None) -> None:
        kept = dataset.database(rows, folder)
        self._home = tempfile.TemporaryDirectory(prefix="socialpub-bench-")
        dataset.copy_database(kept, Path(self._home.name))
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        given = (theirs, Path(self._home.name), rows, dataset.began_ms(kept))
        self.process = context.Process(target=_serve, args=given, daemon=True)
        self.process.start()

    def prepare(self, case: QueryCase) -> int:
        self.pipe.send(case)
        return int(self.pipe.recv())

    def once(self) -> Times:
        self.pipe.send(True)
        wall, processor = self.pipe.recv()
        return wall, processor

    def done(self) -> None:
        self.pipe.send(False)

    def close(self) -> None:
        self.pipe.send(None)
        self.process.join()
        self._home.cleanup()


# --- The table ---------------------------------------------------------------------------------------------------


def run(rows: int, folder: Path | None, kinds: Iterable[str], *, show_all: bool) -> int:
    """Measure and print; how many cases were over their number."""
    large, small = DatabaseProcess(rows, folder), DatabaseProcess(SMALL_ROWS, folder)
    print(f"\nPost log: {rows:,} posts beside {SMALL_ROWS:,}; pages of {LIMIT}, the best run in milliseconds")
    print(
        f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}: what waits for a processor is slow, but in `cpu`"
    )
    over = 0
    for kind in kinds:
        results = [_measure(case, large, small) for case in cases() if case.kind == kind]
        _print(results, BOUNDS_MS[kind], show_all=show_all)
        over += sum(result.over for result in results)
    large.close()
    small.close()
    return over


def _measure(case: QueryCase, large: DatabaseProcess, small: DatabaseProcess) -> QueryTimes:
    result = QueryTimes(case)
    result.rows = large.prepare(case)
    small.prepare(case)
    for _ in range(RUNS[case.kind]):
        result.small.append(small.once())
        result.large.append(large.once())
    large.done()
    small.done()
    return result


def _print(results: list[QueryTimes], bound: float, *, show_all: bool) -> None:
    by_cost = sorted(results, key=lambda result: -result.best)
    over = sum(result.over for result in results)
    print(
        f"\n{results[0].case.kind}: {len(results)} cases, {over} over {bound:.0f} ms; "
        f"median {statistics.median(result.best for result in results):.2f} ms, slowest {by_cost[0].best:.2f} ms"
    )
    print(HEAD)
    for result in by_cost if show_all else by_cost[: max(SLOWEST, over)]:
        print(result.line(), flush=True)
