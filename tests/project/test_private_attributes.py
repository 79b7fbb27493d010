"""Private attributes of a library are used in one file, which says why."""

from __future__ import annotations

import ast
import functools
import importlib
import re
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.program_source import MODULES, PACKAGE, find_modules, list_nodes, parse_file, parse_module, read_file

LIBRARIES = ("sanic", "sanic_routing", "httpx", "httpcore", "huey")
TOUCHED = {("web/http/sanic_overrides.py", "_time")}
MOST = 5  # in all


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def names_in(tree: ast.AST) -> Iterator[str]:
    """The private names of attributes, methods and classes that a module has, also those in `__slots__`."""
    for node in ast.walk(tree):
        named = [getattr(node, key, None) for key in ("name", "attr", "id")]
        named.append(node.value if isinstance(node, ast.Constant) else None)
        yield from (name for name in named if isinstance(name, str) and is_private(name))


@functools.cache
def names_of(library: str) -> frozenset[str]:
    """Every private name that stands in its files."""
    spec = find_spec(library)
    assert spec is not None
    assert spec.origin is not None
    texts = (path.read_text(encoding="utf-8") for path in Path(spec.origin).parent.rglob("*.py"))
    return frozenset(name for text in texts for name in re.findall(r"\b_[A-Za-z]\w*", text))


@functools.cache
def is_ours(name: str) -> bool:
    """Whether the program defines it itself, outside the classes that it derives from a library's."""
    return name in ("_replace", "_asdict", "_fields") or any(
        name in names_of_ours(module) for module in MODULES if name in read_file(PACKAGE / module)
    )


@functools.cache
def names_of_ours(module: str) -> set[str]:
    within = {id(node) for kind, _ in derived(parse_module(module)) for node in ast.walk(kind)}
    found = set()
    for node in list_nodes(module):
        if id(node) not in within:
            stored = isinstance(getattr(node, "ctx", None), ast.Store)
            found.add(getattr(node, "name", None) or (stored and getattr(node, "attr", getattr(node, "id", None))))
    return {name for name in found if isinstance(name, str)}


def imported(tree: ast.AST) -> dict[str, tuple[str, str]]:
    """The names that a module imports from the libraries, each with the module and the name that it has there."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                module = (node.module or "") if isinstance(node, ast.ImportFrom) else alias.name
                if module.partition(".")[0] in LIBRARIES:
                    found[alias.asname or alias.name] = (module, alias.name)
    return found


def derived(tree: ast.AST) -> Iterator[tuple[ast.ClassDef, frozenset[str]]]:
    """The classes of a module that have one of a library as a base, each with what is private in that base."""
    names = imported(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            parts = [part for base in node.bases for part in ast.walk(base)]
            bases = [names[part.id] for part in parts if isinstance(part, ast.Name) and part.id in names]
            for part in parts:
                if isinstance(part, ast.Attribute) and ast.unparse(part.value) in LIBRARIES:
                    bases.append((ast.unparse(part.value), part.attr))
            classes = [each for each in bases if each[0] != each[1]]  # and not the library itself
            if classes:
                yield node, frozenset[str]().union(*(names_of_class(*each) for each in classes))


@functools.cache
def names_of_class(module: str, name: str) -> frozenset[str]:
    """What is private in a class of a library and in those it is derived from."""
    found: set[str] = set()
    for kind in getattr(importlib.import_module(module), name).__mro__:
        if kind.__module__.partition(".")[0] in LIBRARIES:
            tree = parse_file(Path(str(sys.modules[kind.__module__].__file__)))
            named = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == kind.__name__]
            found.update(*map(names_in, named))
    return frozenset(found)


def touched(tree: ast.AST) -> Iterator[str]:
    """The private names of the libraries that a module touches."""
    libraries = {module.partition(".")[0] for module, _ in imported(tree).values()}
    theirs = frozenset[str]().union(*map(names_of, libraries))
    within = {id(node): names for kind, names in derived(tree) for node in ast.walk(kind)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in LIBRARIES:
            yield from filter(is_private, [*(node.module or "").split("."), *(alias.name for alias in node.names)])
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            is_own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            if is_own and id(node) in within:
                found = node.attr in within[id(node)]
            else:
                found = node.attr in theirs and not is_ours(node.attr)
            if found:
                yield node.attr


def test_private_library_attributes_are_used_in_one_file_each() -> None:
    found = {
        (module, name)
        for module in find_modules(rf"\b({'|'.join(LIBRARIES)})\b")  # what names none of them touches nothing of them
        for name in touched(parse_module(module))
    }
    assert found == TOUCHED
    assert len(found) <= MOST
    for file, name in TOUCHED:
        assert name in (ast.get_docstring(parse_module(file)) or ""), f"{file} does not say why it touches {name}"


@pytest.mark.parametrize(
    "text",
    [
        "from sanic.http import Http\nclass A(Http):\n    def a(self):\n        self._send(b'')",
        "from sanic import Sanic\ndef a(app: Sanic) -> None:\n    app._startup()",
        "import httpx\ndef a(client: httpx.Client) -> object:\n    return client._transport",
        "from httpcore._backends import sync",
        "from huey.api import Huey\nclass A(Huey):\n    def a(self):\n        return self._locks",
    ],
)
def test_what_is_private_is_found(text: str) -> None:
    assert list(touched(ast.parse(text)))


@pytest.mark.parametrize(
    "text",
    [
        "from sanic.http import Http\nclass A(Http):\n    def a(self):\n        self._own_of_ours = self.keep_alive",
        "class A:\n    def a(self):\n        return self._send",
    ],
)
def test_what_is_ours_is_not(text: str) -> None:
    assert not list(touched(ast.parse(text)))
