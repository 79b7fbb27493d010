"""`python -m benchmarks`: measurements through the front door; the exit code is 1 when a `must` is missed.

--only names rows (`benchmarks/goals.py`); and `postlog` and `search_index`, which ask the post log's queries and the
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
    accepting,
    alone,
    dataset,
    delivering,
    due,
    load,
    pages,
    postlog,
    report,
    resting,
    search,
    shares,
    slow_disk,
    stage,
)
from benchmarks import steady as steadily
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
    LINES,
    LOADED,
    PAGES,
    SEARCH,
    SHARES,
    SHORT_SEARCH,
    SIZE,
    START,
    STEADY,
    Goal,
    Result,
)
from benchmarks.machine import BenchError
from benchmarks.stage import ROOT, Side, Stage

Measurement = Callable[[], Iterable[Result]]
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
    parser.add_argument("--kind", choices=postlog.BOUNDS_MS, help="of the post log's queries only this kind")
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
        kinds = [given.kind] if given.kind else list(postlog.BOUNDS_MS)
        missed += postlog.run(given.rows, given.folder, kinds, show_all=given.all)
    if "search_index" in given.only:
        accepting.run(given.folder)
    try:
        load.need_wrk()
        if set(given.only) - set(INSIDE):
            missed += _through_the_door(given)
    except (BenchError, LookupError) as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 1
    return 1 if missed else 0


def _through_the_door(given: argparse.Namespace) -> int:
    print(f"{report.machine()}; {given.rows:,} posts, {given.rounds} rounds of {given.seconds} s", flush=True)
    began, results, broken = time.monotonic(), list[Result](), 0
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
def _stage(given: argparse.Namespace) -> Iterator[Stage]:
    """All processes, on databases of their own, which are gone afterwards."""
    crowd = max((max(wave.count, due.PROBE) for name, wave in due.WAVES.items() if _wants(given, name)), default=0)
    with tempfile.TemporaryDirectory(prefix="socialpub-bench-") as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        simulator = stack.enter_context(stage.simulator(folder))
        bare = stack.enter_context(stage.bare(folder))
        sides = [Side("full", ROOT, folder / "full", simulator, _home(ROOT, given.rows, given.folder))]
        for number, checkout in enumerate(given.checkout):
            path = checkout.resolve()
            home = _home(path, given.rows, given.folder)
            sides.append(Side(path.name, path, folder / str(number), simulator, home))
        empty = None
        if not given.checkout:
            empty = Side("empty", ROOT, folder / "empty", simulator, _home(ROOT, EMPTY_ROWS, given.folder))
            sides.append(empty)
        for number, side in enumerate(sides):
            side.furnish(0 if number else crowd)
        stack.enter_context(stage.serving(*sides))
        for side in sides:
            shares.fill(side)
        yield Stage(folder, bare, simulator, sides, given.rounds, given.seconds, given.quick, given.steady, empty)


def _wants(given: argparse.Namespace, wave: str) -> bool:
    return wave in given.only or f"{wave}_accepted" in given.only


def _home(checkout: Path, rows: int, folder: Path | None) -> Path | None:
    if not rows:
        return None
    if checkout == ROOT:
        return dataset.database(rows, folder)
    return dataset.of_checkout(checkout, Side.python_of(checkout), rows, folder)


def _compared(here: Stage, given: argparse.Namespace) -> Iterator[Measurement]:
    """Each work with a line for each side; of all of them a table is kept."""
    print(shares.HEAD, flush=True)
    table = report.Beside([(side.name, resting.lines_of(side.checkout)) for side in here.sides])
    for work in shares.WORK.values():
        if work.goal.name in given.only:
            yield partial(_beside, here, work, table)
    if ALONE.name in given.only:
        yield partial(_alone, here, table)
    if set(given.only) == {goal.name for goal in COMPARED}:
        yield partial(_kept, table, given.rows)


def _beside(here: Stage, work: shares.Work, table: report.Beside) -> Iterable[Result]:
    found = shares.measure(here, work)
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


def _alone(here: Stage, table: report.Beside) -> Iterable[Result]:
    found = alone.rounds(here)
    table.add(ALONE.title, [f"{found.above(side.name):.1f} ms" for side in here.sides])
    return alone.results(here, found)


def _kept(table: report.Beside, rows: int) -> Iterable[Result]:
    print(f"written: {report.write_beside(table, rows)}")
    return ()


def _measured(here: Stage, given: argparse.Namespace) -> Iterator[Measurement]:
    """In an order in which none spoils another: what rests, loads, what they have left behind, and kills at the end:
    after one the server looks at its whole file.
    """

    def wanted(*goals: Goal) -> bool:
        return any(goal.name in given.only for goal in goals)

    if wanted(SIZE) and here.first.home is not None:
        yield partial(resting.size, given.rows, here.first.home)
    if wanted(LINES):
        yield partial(resting.lines, ROOT)
    if wanted(BINARY):
        yield partial(resting.binary, here)
    if wanted(*IDLE):
        yield partial(resting.idle, here)
    for work in shares.WORK.values():
        if wanted(work.goal, GOALS[f"loss_{work.goal.name}"]):
            yield partial(_shared, here, work)
    if wanted(ALONE, ALONE_LOSS):
        yield partial(alone.measure, here)
    for name, wave in due.WAVES.items():
        if _wants(given, name):
            yield partial(due.measure, here, name, wave)
    if wanted(DELIVERIES, DELIVERIES_RATE, DELIVERIES_SLOW):
        yield partial(delivering.measure, here)
    if wanted(SEARCH, SHORT_SEARCH):
        yield partial(search.measure, here)
    if wanted(PAGES):
        yield partial(pages.measure, here)
    if wanted(*STEADY):
        yield partial(steadily.measure, here)
    if wanted(LOADED):
        yield partial(steadily.loaded, here)
    if wanted(START):
        yield partial(resting.starts, here)
    if wanted(FSYNC):
        yield partial(slow_disk.measure, here)


def _shared(here: Stage, work: shares.Work) -> Iterable[Result]:
    return shares.measure(here, work).results(here)


if __name__ == "__main__":
    sys.exit(main())
