"""Every package that the program imports is declared in pyproject.toml, so that no other package has to bring it."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]


def declared() -> set[str]:
    """The distributions that pyproject.toml names for the program and its extras, without those for developers."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    lines = [*project["dependencies"], *(line for name in extras if name != "dev" for line in extras[name])]
    return {normalized(re.split(r"[^\w.-]", line, maxsplit=1)[0]) for line in lines}


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def imports() -> Iterator[tuple[str, Path]]:
    """The first part of each absolute import of the program, with its file."""
    for path in sorted((ROOT / "socialpub").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            yield from ((name.partition(".")[0], path) for name in names)


def test_every_imported_package_is_declared() -> None:
    owners = importlib.metadata.packages_distributions()
    ours = {"socialpub", *sys.stdlib_module_names}
    found = {(name, str(path.relative_to(ROOT))) for name, path in imports() if name not in ours}
    assert len({name for name, _ in found}) > 20
    assert {
        (name, path) for name, path in found if not {normalized(each) for each in owners[name]} & declared()
    } == set()
