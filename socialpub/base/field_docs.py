"""What is said of the fields of models and answers: the strings below them in their source.

Looked up when they are to be shown, in the reference, the example settings or a form. If pydantic were told to read
them (`use_attribute_docstrings`), each start would read and parse the sources. The one-file binary has no sources but
the strings themselves, which its build collects.
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
    """What is said of each field of a model or a TypedDict, in its own words or those of the class it has it from."""
    told: dict[str, str] = {}
    for part in _walk_bases(shape):
        told |= _load_module(part.__module__).get(part.__name__, {})
    return told


def _walk_bases(shape: type) -> Iterator[type]:
    """The class and what it extends, which comes first. TypedDicts do not know it from their `__mro__`."""
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
    kept: dict[str, ModuleDocs] = json.loads((Path(__file__).parents[1] / "_shipped" / FILE_NAME).read_text())
    return kept


def write_shipped(package: Path, file: Path) -> None:
    """Write those of every module of a package to a file that the binary takes along."""
    modules = {
        ".".join(path.relative_to(package.parent).with_suffix("").parts): _parse_source(path.read_text())
        for path in sorted(package.rglob("*.py"))
    }
    file.write_text(json.dumps({name: told for name, told in modules.items() if told}))


def _parse_source(source: str) -> ModuleDocs:
    classes = (node for node in ast.parse(source).body if isinstance(node, ast.ClassDef))
    told = {found.name: dict(_find_field_docs(found)) for found in classes}
    return {name: fields for name, fields in told.items() if fields}


def _find_field_docs(found: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for field, below in itertools.pairwise(found.body):
        match field, below:
            case ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str(text))):
                yield name, inspect.cleandoc(text)
