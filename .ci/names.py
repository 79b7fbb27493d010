"""Check names and docstrings: unique classes, module names, first lines, counted words.

Run by `make lint`. Exits with 1 and one line for each fault.
"""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("socialpub", "clients/python/socialpub_client")
LINE_MAX = 90  # characters of a docstring's first line, its quotation marks not counted
COUNTED_MAX = 15

# Words that stand for a noun that the reader would need.
COUNTED = re.compile(r"\b(whoever|nobody|somebody|whatever|anew|of its own|what comes|is told|are told)\b", re.I)
DEFENDED: dict[str, str] = {}
"""`path: the line's text` of each counted word that stays, and why."""

OPENINGS = re.compile(r"(What|Who|Whose|Where|How|Whether|The same)\b")
PREPOSITIONS = {
    "about", "above", "after", "ahead", "around", "at", "before", "behind", "below", "between", "by", "for", "from",
    "in", "inside", "into", "near", "off", "on", "out", "outside", "over", "through", "to", "under", "upon", "with",
    "within", "without",
}  # fmt: skip
PARTICIPLE = re.compile(r"(ing|ed)$")
NOUNS = {"billing", "staging", "logging", "tracing", "feed", "seed", "speed", "embed", "string"}
"""Module names that end as a participle does, and are nouns of the field."""
IRREGULAR = {
    "done", "found", "given", "gone", "heard", "held", "kept", "known", "lost", "made", "meant", "read", "said",
    "seen", "sent", "shown", "taken", "thought", "told", "written",
}  # fmt: skip


def main() -> int:
    """Print every fault; return 1 if there is one."""
    faults = [*classes(), *modules(), *docstrings(), *words()]
    print("\n".join(faults))
    return 1 if faults else 0


def sources(*packages: str, simulator: bool = True) -> Iterator[tuple[Path, ast.Module]]:
    """Yield every module of these packages, default all, with its syntax tree."""
    for package in packages or PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            inside = path.relative_to(ROOT)
            if "__pycache__" not in inside.parts and (simulator or "simulator" not in inside.parts):
                yield inside, parse(path)


@functools.cache
def parse(path: Path) -> ast.Module:
    """Return the syntax tree of a file; the checks share it."""
    return ast.parse(path.read_text())


def classes() -> Iterator[str]:
    """Yield a line for each class name that a package uses more than once outside the simulator."""
    for package in PACKAGES:
        found: dict[str, list[str]] = defaultdict(list)
        for path, tree in sources(package, simulator=False):
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef) and node.name != "Meta":  # peewee asks for that name
                    found[node.name].append(f"{path}:{node.lineno}")
        for name, places in sorted(found.items()):
            if len(places) > 1:
                yield f"{places[0]}: the class name {name} is used {len(places)} times: {', '.join(places[1:])}"


def modules() -> Iterator[str]:
    """Yield a line for each module whose name is a bare participle or preposition."""
    for path, _ in sources():
        name = path.stem.strip("_")
        if (
            name in PREPOSITIONS
            or name in IRREGULAR
            or (PARTICIPLE.search(name) and "_" not in name and name not in NOUNS)
        ):
            yield f"{path}: a module is named by a noun"


def docstrings() -> Iterator[str]:
    """Yield a line for each docstring whose first line is no sentence of its own.

    Of tests, benchmarks and the scripts here only those of modules, which each file has.
    """
    for path, tree in sources():
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield from first_line(path, node)
    for folder in ("tests", "benchmarks", ".ci"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            path, tree = file.relative_to(ROOT), parse(file)
            yield from first_line(path, tree)
            if tree.body and ast.get_docstring(tree) is None:
                yield f"{path}:1: the module has no docstring"


def first_line(path: Path, node: ast.AST) -> Iterator[str]:
    """Yield a line for each fault of the first line of a docstring."""
    text = ast.get_docstring(node)
    if text is not None:
        first, line = text.splitlines()[0], getattr(node, "lineno", 1)
        if len(first) >= LINE_MAX:
            yield f"{path}:{line}: the first line of the docstring has {len(first)} characters"
        if OPENINGS.match(first):
            yield f"{path}:{line}: the docstring begins with {first.split()[0]!r}"
        if not first.rstrip().endswith((".", ":", "?", "`")):
            yield f"{path}:{line}: the first line of the docstring is no sentence of its own"


def words() -> Iterator[str]:
    """Yield a line for each counted word that is not defended, and one if too many are."""
    files = [
        *(path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))),
        *sorted((ROOT / "templates").rglob("*.html")),
        *sorted((ROOT / "templates").rglob("*.js")),
        *sorted((ROOT / "docs").rglob("*.md")),
        *(ROOT / name for name in ("README.md", "CHANGELOG.md", "socialpub.toml.example")),
    ]
    counts: Counter[str] = Counter()
    for path in files:
        if not path.is_file():  # a part of the tree, in tests
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for found in COUNTED.finditer(line):
                counts[found[0].lower()] += 1
                place = path.relative_to(ROOT)
                if f"{place}: {line.strip()}" not in DEFENDED:
                    yield f"{place}:{number}: {found[0]!r} stands for a noun that the reader needs"
    if counts.total() >= COUNTED_MAX:
        yield f"{counts.total()} counted words, {COUNTED_MAX - 1} at most: {dict(counts)}"


if __name__ == "__main__":
    sys.exit(main())
