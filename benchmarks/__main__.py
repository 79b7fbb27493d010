"""Run the benchmarks: `python -m benchmarks`.

They measure servers by requests; the exit code is 1 when a `must` is missed.

--only names rows (`benchmarks/goals.py`); and `post_list` and `search_index`, which ask the post log's queries and the
search index in this process and are not part of a whole run. With --checkout the requests are sent to other checkouts
too, by turns: for what a change does.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from benchmarks import (
    dashboard_pages,
    dataset,
    due_posts,
    idle_server,
    immediate_latency,
    post_list,
    report,
    search,
    search_filing,
    servers,
    slow_disk,
    throughput,
    webhook_deliveries,
    wrk_load,
)
from benchmarks import steady_load as steadily
from benchmarks.goals import (
    ALONE,
    ALONE_LOSS,
    BINARY,
    DELIVERIES,
    DELIVERIES_RATE,
    DELIVERIES_SLOW,
    FSYNC,
    GOALS,
    IDLE,
    KEYSTROKE,
    LINES,
    LOADED,
    PAGES,
    SEARCH,
    SHARES,
    SHORT_SEARCH,
    SIZE,
    START,
    STEADY,
    BenchmarkGoal,
    BenchmarkResult,
)
from benchmarks.processes import BenchError
from benchmarks.servers import ROOT, BenchmarkSetup, CheckoutServer

Measurement = Callable[[], Iterable[BenchmarkResult]]
INSIDE = ("postlog", "search_index")
COMPARED = (*SHARES, ALONE)
EMPTY_ROWS = 200  # of the database that stands for an empty one: its lists have a page
ROWS, ROUNDS, SECONDS, STEADY_SECONDS = 1_000_000, 5, 2, 300
QUICK_ROWS, QUICK_ROUNDS, QUICK_SECONDS, QUICK_STEADY_SECONDS = 10_000, 3, 1, 12


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", help="these rows, separated by commas", type=lambda names: names.split(","))
    parser.add_argument("--quick", action="store_true", help="few and short rounds, 10,000 posts")
    parser.add_argument("--rows", type=int, help="posts in the large database; 0: all begin empty")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=int, help="of each load")
    parser.add_argument("--steady", type=int, help="seconds of the steady load")
    parser.add_argument("--checkout", type=Path, action="append", default=[], help="measure this checkout beside")
    parser.add_argument("--folder", type=Path, help="where databases are kept (default: in the temporary folder)")
    parser.add_argument("--all", action="store_true", help="of the post log's queries print every case")
    parser.add_argument("--kind", choices=post_list.BOUNDS_MS, help="of the post log's queries only this kind")
    given = parser.parse_args()
    quick = given.quick
    given.whole = not given.only and not given.checkout
    given.only = given.only or [goal.name for goal in (COMPARED if given.checkout else GOALS.values())]
    known = [goal.name for goal in COMPARED] if given.checkout else [*GOALS, *INSIDE]
    if unknown := sorted(set(given.only) - set(known)):
        parser.error(f"there is no row {', '.join(unknown)} here; there are {', '.join(known)}")
    given.rows = given.rows if given.rows is not None else QUICK_ROWS if quick else ROWS
    given.rounds = given.rounds or (QUICK_ROUNDS if quick else ROUNDS)
    given.seconds = given.seconds or (QUICK_SECONDS if quick else SECONDS)
    given.steady = given.steady or (QUICK_STEADY_SECONDS if quick else STEADY_SECONDS)
    return given


def main() -> int:
    given, missed = _options(), 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("benchmarks: stopped"))  # so that nothing is left behind
    if "postlog" in given.only:
        kinds = [given.kind] if given.kind else list(post_list.BOUNDS_MS)
        missed += post_list.run(given.rows, given.folder, kinds, show_all=given.all)
    if "search_index" in given.only:
        search_filing.run(given.folder)
    try:
        wrk_load.need_wrk()
        if set(given.only) - set(INSIDE):
            missed += measure_requests(given)
    except (BenchError, LookupError) as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 1
    return 1 if missed else 0


def measure_requests(given: argparse.Namespace) -> int:
    print(f"{report.machine()}; {given.rows:,} posts, {given.rounds} rounds of {given.seconds} s", flush=True)
    began, results, broken = time.monotonic(), list[BenchmarkResult](), 0
    with _stage(given) as here:
        print(report.HEAD, flush=True)
        for measurement in _compared(here, given) if given.checkout else _measured(here, given):
            try:
                for result in measurement():
                    results.append(result)
                    print(report.line(result), flush=True)
            except BenchError as error:
                broken += 1
                print(f"not measured: {error}", flush=True)
    print("\n".join((*report.summary(results), f"{(time.monotonic() - began) / 60:.1f} minutes")))
    if given.whole and not given.quick and not broken:
        print(f"written: {report.write(results, given.rows)}")
    return sum(result.missed for result in results) + broken


@contextlib.contextmanager
def _stage(given: argparse.Namespace) -> Iterator[BenchmarkSetup]:
    """All processes, on databases of their own, which are gone afterwards."""
    crowd = max(
        (max(wave.count, due_posts.PROBE) for name, wave in due_posts.WAVES.items() if is_wanted(given, name)),
        default=0,
    )
    with tempfile.TemporaryDirectory(prefix="socialpub-bench-") as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        simulator = stack.enter_context(servers.running_simulator(folder))
        bare = stack.enter_context(servers.running_bare_server(folder))
        sides = [
            CheckoutServer("full", ROOT, folder / "full", simulator, database_folder(ROOT, given.rows, given.folder))
        ]
        for number, checkout in enumerate(given.checkout):
            path = checkout.resolve()
            home = database_folder(path, given.rows, given.folder)
            sides.append(CheckoutServer(path.name, path, folder / str(number), simulator, home))
        empty = None
        if not given.checkout:
            empty = CheckoutServer(
                "empty", ROOT, folder / "empty", simulator, database_folder(ROOT, EMPTY_ROWS, given.folder)
            )
            sides.append(empty)
        for number, side in enumerate(sides):
            side.furnish(0 if number else crowd)
        stack.enter_context(servers.running_servers(*sides))
        for side in sides:
            throughput.fill(side)
        yield BenchmarkSetup(
            folder, bare, simulator, sides, given.rounds, given.seconds, given.quick, given.steady, empty
        )


def is_wanted(given: argparse.Namespace, wave: str) -> bool:
    return wave in given.only or f"{wave}_accepted" in given.only


def database_folder(checkout: Path, rows: int, folder: Path | None) -> Path | None:
    if not rows:
        return None
    if checkout == ROOT:
        return dataset.database(rows, folder)
    return dataset.make_by_checkout(checkout, CheckoutServer.python_of(checkout), rows, folder)


def _compared(here: BenchmarkSetup, given: argparse.Namespace) -> Iterator[Measurement]:
    """Each work with a line for each side; of all of them a table is kept."""
    print(throughput.HEAD, flush=True)
    table = report.ComparisonTable([(side.name, idle_server.lines_of(side.checkout)) for side in here.sides])
    for work in throughput.WORK.values():
        if work.goal.name in given.only:
            yield partial(_beside, here, work, table)
    if ALONE.name in given.only:
        yield partial(_alone, here, table)
    if set(given.only) == {goal.name for goal in COMPARED}:
        yield partial(_kept, table, given.rows)


def _beside(
    here: BenchmarkSetup, work: throughput.WorkKind, table: report.ComparisonTable
) -> Iterable[BenchmarkResult]:
    found = throughput.measure(here, work)
    print("\n".join(found.line(side.name) for side in here.sides), flush=True)
    table.add(
        work.goal.title,
        [
            f"{found.share(side.name):.1%}, {found.middle(side.name, lambda load: load.rate) * work.rows:,.0f}/s,"
            f" CPU {found.middle(side.name, lambda load: load.cpu_ms):.2f} ms"
            for side in here.sides
        ],
    )
    return ()


def _alone(here: BenchmarkSetup, table: report.ComparisonTable) -> Iterable[BenchmarkResult]:
    found = immediate_latency.rounds(here)
    table.add(ALONE.title, [f"{found.above(side.name):.1f} ms" for side in here.sides])
    return immediate_latency.results(here, found)


def _kept(table: report.ComparisonTable, rows: int) -> Iterable[BenchmarkResult]:
    print(f"written: {report.write_beside(table, rows)}")
    return ()


def _measured(here: BenchmarkSetup, given: argparse.Namespace) -> Iterator[Measurement]:
    """In an order in which none spoils another: what rests, loads, what they have left behind, and kills at the end:
    after one the server looks at its whole file.
    """

    def wanted(*goals: BenchmarkGoal) -> bool:
        return any(goal.name in given.only for goal in goals)

    if wanted(SIZE) and here.first.home is not None:
        yield partial(idle_server.size, given.rows, here.first.home)
    if wanted(LINES):
        yield partial(idle_server.lines, ROOT)
    if wanted(BINARY):
        yield partial(idle_server.binary, here)
    if wanted(*IDLE):
        yield partial(idle_server.idle, here)
    for work in throughput.WORK.values():
        if wanted(work.goal, GOALS[f"loss_{work.goal.name}"]):
            yield partial(_shared, here, work)
    if wanted(ALONE, ALONE_LOSS):
        yield partial(immediate_latency.measure, here)
    for name, wave in due_posts.WAVES.items():
        if is_wanted(given, name):
            yield partial(due_posts.measure, here, name, wave)
    if wanted(DELIVERIES, DELIVERIES_RATE, DELIVERIES_SLOW):
        yield partial(webhook_deliveries.measure, here)
    if wanted(SEARCH, SHORT_SEARCH):
        yield partial(search.measure, here)
    if wanted(PAGES, KEYSTROKE):
        yield partial(dashboard_pages.measure, here)
    if wanted(*STEADY):
        yield partial(steadily.measure, here)
    if wanted(LOADED):
        yield partial(steadily.loaded, here)
    if wanted(START):
        yield partial(idle_server.starts, here)
    if wanted(FSYNC):
        yield partial(slow_disk.measure, here)


def _shared(here: BenchmarkSetup, work: throughput.WorkKind) -> Iterable[BenchmarkResult]:
    return throughput.measure(here, work).results(here)


if __name__ == "__main__":
    sys.exit(main())
