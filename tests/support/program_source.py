"""Texts and syntax trees of the program's modules, each read once in a process."""

from __future__ import annotations

import ast
import functools
import gc
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


PACKAGE = ROOT / "socialpub"


MODULES = [str(path.relative_to(PACKAGE)) for path in sorted(PACKAGE.rglob("*.py"))]


@functools.cache
def read_file(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@functools.cache
def parse_file(path: Path) -> ast.Module:
    """The garbage collector waits: it would look at everything again and again, which is two thirds of the time."""
    collects = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(read_file(path))
    finally:
        if collects:
            gc.enable()


def parse_module(module: str) -> ast.Module:
    return parse_file(PACKAGE / module)


@functools.cache
def list_nodes(module: str) -> list[ast.AST]:
    """All of a module's nodes, walked through once."""
    return list(ast.walk(parse_module(module)))


def find_modules(pattern: str, *rooms: str) -> list[str]:
    """The modules, of these rooms or all, whose text has the pattern: others need not be parsed."""
    within = tuple(f"{room}/" for room in rooms) or ""
    return [name for name in MODULES if name.startswith(within) and re.search(pattern, read_file(PACKAGE / name))]
