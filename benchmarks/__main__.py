"""`python -m benchmarks`: measurements through the front door; the exit code is 1 when a `must` is missed.

Names for --only are those of the rows (`benchmarks/goals.py`), and `postlog` and `search_index`, which measure
the post log's queries and the search index in this process.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks import accepting, alone, load, postlog, shares, stage
from benchmarks.goals import GOALS
from benchmarks.machine import BenchError
from benchmarks.stage import ROOT, Side

INSIDE = ("postlog", "search_index")
ROUNDS, SECONDS = 5, 4
QUICK_ROUNDS, QUICK_SECONDS = 3, 2


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", help="these rows, separated by commas", type=lambda names: names.split(","))
    parser.add_argument("--quick", action="store_true", help="short loads")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=int, help="of each load")
    parser.add_argument(
        "--checkout", type=Path, action="append", default=[], help="measure this checkout beside, by turns"
    )
    parser.add_argument("--rows", type=int, default=1_000_000, help="posts in the large database")
    parser.add_argument("--folder", type=Path, help="where the databases are kept (default: the temporary folder)")
    parser.add_argument("--all", action="store_true", help="of the post log's queries print every case")
    parser.add_argument("--kind", choices=postlog.BOUNDS_MS, help="of the post log's queries only this kind")
    given = parser.parse_args()
    unknown = set(given.only or ()) - {*GOALS, *INSIDE}
    if unknown:
        parser.error(f"there is no row {', '.join(sorted(unknown))}; there are {', '.join((*GOALS, *INSIDE))}")
    given.rounds = given.rounds or (QUICK_ROUNDS if given.quick else ROUNDS)
    given.seconds = given.seconds or (QUICK_SECONDS if given.quick else SECONDS)
    given.only = given.only or [*GOALS]
    return given


def main() -> int:
    given = _options()
    missed = 0
    if "postlog" in given.only:
        kinds = [given.kind] if given.kind else list(postlog.BOUNDS_MS)
        missed += postlog.run(given.rows, given.folder, kinds, show_all=given.all)
    if "search_index" in given.only:
        accepting.run(given.folder)
    if set(given.only) - set(INSIDE):
        try:
            load.need_wrk()
            missed += _through_the_door(given)
        except BenchError as error:
            print(f"benchmarks: {error}", file=sys.stderr)
            return 1
    return 1 if missed else 0


def _through_the_door(given: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory(prefix="socialpub-bench-") as name:
        folder = Path(name)
        with stage.bare(folder) as bare, stage.simulator(folder) as simulator:
            checkouts = [ROOT, *given.checkout]
            sides = [
                Side(_name(path, number), path.resolve(), folder / str(number), simulator)
                for number, path in enumerate(checkouts)
            ]
            for side in sides:
                side.furnish()
            with stage.serving(sides):
                for side in sides:
                    shares.fill(side)
                return _measure(given, sides, bare, simulator, folder)


def _name(path: Path, number: int) -> str:
    return path.resolve().name if number else "here"


def _measure(
    given: argparse.Namespace, sides: Sequence[Side], bare: stage.Bare, simulator: stage.Simulator, folder: Path
) -> int:
    missed = 0
    print(shares.HEAD, flush=True)
    for work in (work for work in shares.WORK if work.goal.name in given.only):
        found = shares.measure(work, sides, bare, folder, given.rounds, given.seconds)
        for side in sides:
            print(found.line(side.name), flush=True)
        missed += not work.goal.held(found.share(sides[0].name), work.goal.must)
    if "immediate_alone" in given.only:
        goal = GOALS["immediate_alone"]
        timed = alone.measure(sides, simulator, folder, given.rounds, given.seconds)
        for side in sides:
            print(timed.line(side.name), flush=True)
        missed += not goal.held(timed.above(sides[0].name), goal.must)
    return missed


if __name__ == "__main__":
    sys.exit(main())
