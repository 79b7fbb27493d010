"""Docstrings of the fields of models: the strings below the fields in the source.

They are read on demand, for the reference, the example settings and forms. pydantic's `use_attribute_docstrings` would
parse the sources at each start. The one-file binary has no sources; its build collects the strings in a file.
"""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from typing_extensions import get_original_bases, is_typeddict

from socialpub.base.system import pyinstaller

FILE_NAME = "docstrings.json"
ModuleDocs = dict[str, dict[str, str]]  # by class and field


def read(shape: type) -> dict[str, str]:
    """Return the docstring of each field of a model or TypedDict, own or inherited."""
    docs: dict[str, str] = {}
    for part in _walk_bases(shape):
        docs |= _load_module(part.__module__).get(part.__name__, {})
    return docs


def _walk_bases(shape: type) -> Iterator[type]:
    """Yield the base classes and then the class. TypedDicts lack them in `__mro__`."""
    if not is_typeddict(shape):
        yield from (part for part in reversed(shape.__mro__) if part.__module__.partition(".")[0] not in _LIBRARIES)
        return
    for base in filter(is_typeddict, get_original_bases(shape)):
        yield from _walk_bases(base)
    yield shape


_LIBRARIES = {"builtins", "pydantic", "pydantic_settings"}


@functools.cache
def _load_module(name: str) -> ModuleDocs:
    if pyinstaller.is_binary():
        return _load_shipped().get(name, {})
    return _parse_source(inspect.getsource(sys.modules[name]))


@functools.cache
def _load_shipped() -> dict[str, ModuleDocs]:
    shipped: dict[str, ModuleDocs] = json.loads((Path(__file__).parents[1] / "_shipped" / FILE_NAME).read_text())
    return shipped


def write_shipped(package: Path, file: Path) -> None:
    """Write the docstrings of every module of a package to a file for the binary."""
    modules = {
        ".".join(path.relative_to(package.parent).with_suffix("").parts): _parse_source(path.read_text())
        for path in sorted(package.rglob("*.py"))
    }
    file.write_text(json.dumps({name: docs for name, docs in modules.items() if docs}))


def _parse_source(source: str) -> ModuleDocs:
    classes = (node for node in ast.parse(source).body if isinstance(node, ast.ClassDef))
    docs = {node.name: dict(_find_field_docs(node)) for node in classes}
    return {name: fields for name, fields in docs.items() if fields}


def _find_field_docs(found: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for field, below in itertools.pairwise(found.body):
        match field, below:
            case ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str(text))):
                yield name, inspect.cleandoc(text)
