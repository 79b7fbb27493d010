"""Only one module creates files and folders.

It makes them private and gives them the right owner.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.program_source import find_modules, parse_module
from tests.support.table_checks import check_rows

MODULE = "base/security/private_files.py"
CREATING = {"mkdir", "makedirs", "mkdtemp", "mkstemp", "touch", "write_text", "write_bytes", "copyfile", "copy2"}
CREATING |= {"copytree", "NamedTemporaryFile", "TemporaryDirectory", "TemporaryFile", "O_CREAT", "mknod", "symlink"}
ALLOWED = {  # where, what: none of it stays in a data folder
    ("base/system/pyinstaller.py", "O_CREAT"),  # in the folder that the binary unpacks itself into
    ("base/field_docs.py", "write_text"),  # when the binary is built
    ("commands/demo.py", "TemporaryDirectory"),  # the demo has a folder of its own
    ("commands/demo.py", "mkdir"),
    ("commands/demo.py", "touch"),
    ("commands/demo.py", "write_text"),
    ("domain/backups/archive.py", "open"),  # a part of the archive
    ("domain/backups/verification.py", "open"),
    ("domain/media/sandbox.py", "open"),  # a file of /proc
}
CANDIDATES = find_modules(rf"\b({'|'.join(CREATING)}|open)\b")


def created(tree: ast.AST) -> Iterator[str]:
    """What a module calls or names to create a file; `open` where its mode writes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in CREATING:
            yield node.attr
        elif isinstance(node, ast.Name) and node.id in CREATING:
            yield node.id
        elif isinstance(node, ast.Call) and _name(node.func) == "open" and _writes(node):
            yield "open"


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _writes(call: ast.Call) -> bool:
    words = [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg == "mode")]
    modes = [word.value for word in words if isinstance(word, ast.Constant) and isinstance(word.value, str)]
    return any(set(mode) <= set("rwaxbt+") and set(mode) & set("wax+") for mode in modes if mode)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("open(path, 'w')", ["open"]),
        ("path.open('ab')", ["open"]),
        ("open(path, mode='x')", ["open"]),
        ("open(path, 'rb')", []),
        ("os.open(path, os.O_CREAT)", ["O_CREAT"]),
        ("path.mkdir(parents=True)", ["mkdir"]),
        ("tempfile.mkstemp(dir=folder)", ["mkstemp"]),
        ("webbrowser.open('https://example.com')", []),
    ],
)
def test_what_creates_a_file_is_seen(line: str, found: list[str]) -> None:
    assert list(created(ast.parse(line))) == found


def test_only_one_module_creates_files() -> None:
    def check(module: str) -> None:
        assert [what for what in created(parse_module(module)) if (module, what) not in ALLOWED] == []

    check_rows([name for name in CANDIDATES if name != MODULE and not name.startswith("simulator/")], check)


def test_every_exception_is_needed() -> None:
    used = {(module, what) for module in CANDIDATES for what in created(parse_module(module))}
    assert used >= ALLOWED
    assert Path(__file__).parents[2].joinpath("socialpub", MODULE).exists()
