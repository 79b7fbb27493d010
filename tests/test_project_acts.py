"""One owner for every action, as the source shows it: who begins transactions, looks at roles, and is handed `tx`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from socialpub.domain.people.users import ROLES

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "socialpub"
OUTSIDE = ("web", "commands", "simulator", "platforms", "base")
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def modules(*rooms: str) -> Iterator[tuple[str, ast.Module]]:
    for room in rooms:
        for path in sorted((PACKAGE / room).rglob("*.py")):
            yield path.relative_to(PACKAGE).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


# --- Transactions ----------------------------------------------------------------------------------------------------


def opens_transaction(node: ast.AST) -> bool:
    """`service.write(…)`, `db.write(…)`, whatever stands before them."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "write"):
        return False
    owner = node.func.value
    return getattr(owner, "attr", getattr(owner, "id", "")) in ("service", "db", "database")


def test_no_transaction_begins_outside_the_domain_and_the_store() -> None:
    found = [
        f"{module}:{node.lineno}"
        for module, tree in modules(*OUTSIDE)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and opens_transaction(node)
    ]
    assert found == []


def test_neither_the_web_nor_a_command_is_ever_handed_one() -> None:
    found = [
        f"{module}:{getattr(node, 'lineno', 0)}"
        for module, tree in modules("web", "commands")
        for node in ast.walk(tree)
        if {getattr(node, field, None) for field in ("id", "arg", "attr", "name")} & {"tx", "Tx"}
    ]
    assert found == []


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("service.write(run)", True),
        ("call.service.write(lambda tx: None).result()", True),
        ("self.db.write(run)", True),
        ("file.write(b'')", False),
        ("act.do(who, verb)", False),
    ],
)
def test_a_beginning_transaction_is_found(code: str, found: bool) -> None:
    assert any(opens_transaction(node) for node in ast.walk(ast.parse(code))) is found


# --- Roles -----------------------------------------------------------------------------------------------------------


def looks_at_role(tree: ast.AST) -> Iterator[int]:
    """Lines that decide by a role: every use of one but showing it (`role=scope.role`), and comparing with its name."""
    shown = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg == "role"
    }  # `role=…`, for a template
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "role" and id(node) not in shown:
            yield node.lineno
        if isinstance(node, ast.Compare):
            words = {part.value for part in ast.walk(node) if isinstance(part, ast.Constant)}
            if words & set(ROLES):
                yield node.lineno


def test_no_handler_and_no_page_looks_at_a_role() -> None:
    """The roles of a route are a column of the table; what else a person may do, `act` says."""
    assert [f"{module}:{line}" for module, tree in modules("web") for line in looks_at_role(tree)] == []


def test_no_template_looks_at_a_role() -> None:
    found = [
        path.name
        for path in (ROOT / "templates").rglob("*.html")
        for block in re.findall(r"\{%.*?%\}", path.read_text(encoding="utf-8"), re.S)
        if re.search(rf"\brole\b\s*(==|!=|in\b|not in\b)|['\"]({'|'.join(ROLES)})['\"]", block)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("manages = scope.role in MANAGERS", True),
        ("if call.scope.role == 'owner': pass", True),
        ("allowed = role in ('owner', 'admin')", True),
        ("page('x.html', role=scope.role)", False),
        ("manages = act.manages(scope)", False),
    ],
)
def test_a_look_at_a_role_is_found(code: str, found: bool) -> None:
    assert bool(list(looks_at_role(ast.parse(code)))) is found
