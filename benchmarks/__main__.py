"""`python -m benchmarks`: every measurement; the exit code is 1 when one is over its number."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks import accepting, postlog


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    options.add_argument("--rows", type=int, default=1_000_000, help="posts in the large database")
    options.add_argument("--folder", type=Path, help="where the databases are kept (default: the temporary folder)")
    options.add_argument("--all", action="store_true", help="print every case, not only the slowest")
    options.add_argument("--kind", choices=postlog.BOUNDS_MS, help="measure only this kind of the post log's queries")
    given = options.parse_args()
    kinds = [given.kind] if given.kind else list(postlog.BOUNDS_MS)
    over = postlog.run(given.rows, given.folder, kinds, show_all=given.all)
    if not given.kind:
        accepting.run(given.folder)
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
