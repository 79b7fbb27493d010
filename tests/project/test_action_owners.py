"""Source rules for actions: places that begin transactions, check roles or take `tx`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module

import pytest

from socialpub.domain.identity.users import ROLES
from socialpub.store.queries.bulk import BulkInsert, BulkUpdate
from tests.support.program_source import PACKAGE, ROOT, find_modules, parse_module

OUTSIDE = ("web", "commands", "simulator", "platforms", "base")
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def modules(pattern: str, *rooms: str) -> Iterator[tuple[str, ast.Module]]:
    """What stands in these rooms and has the pattern in its text."""
    for room in rooms:
        assert (PACKAGE / room).is_dir()
        yield from ((module, parse_module(module)) for module in find_modules(pattern, room))


# --- Transactions ----------------------------------------------------------------------------------------------------


def opens_transaction(node: ast.AST) -> bool:
    """`service.write(…)`, `db.write(…)`, whatever stands before them."""
    if not (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("write", "write_together")
    ):
        return False
    owner = node.func.value
    return getattr(owner, "attr", getattr(owner, "id", "")) in ("service", "db", "database")


def test_no_transaction_begins_outside_the_domain_and_the_store() -> None:
    found = [
        f"{module}:{node.lineno}"
        for module, tree in modules(r"\bwrite(_together)?\b", *OUTSIDE)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and opens_transaction(node)
    ]
    assert found == []


def test_neither_the_web_nor_a_command_is_ever_handed_one() -> None:
    found = [
        f"{module}:{getattr(node, 'lineno', 0)}"
        for module, tree in modules(r"\b[tT]x\b", "web", "commands")
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
    assert [
        f"{module}:{line}"
        for module, tree in modules("|".join(("role", *ROLES)), "web")
        for line in looks_at_role(tree)
    ] == []


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


# --- `tx`: taken by what writes, and by nothing else -----------------------------------------------------------------

WRITING = {"insert", "insert_many", "update", "delete", "replace"}
CALLS = {("sql", "update_all")}  # whose statement may be made of a move
STATEMENT = re.compile(r"\b(?:(?:INSERT|REPLACE)\s+(?:OR\s+\w+\s+)?INTO|UPDATE\s+\w+\s+SET|DELETE\s+FROM)\b")
STATEMENTS = {
    (module, name)
    for module in sorted(path.stem for path in (PACKAGE / "store" / "queries").glob("[!_]*.py"))
    for name, text in vars(import_module(f"socialpub.store.queries.{module}")).items()
    if isinstance(text, BulkInsert | BulkUpdate) or (isinstance(text, str) and STATEMENT.search(text))
}
"""The constants of `store/queries/` that write: module and name."""
MODULES = {path.stem for path in (PACKAGE / "store" / "queries").glob("[!_]*.py")}


def within(function: ast.AST) -> Iterator[ast.AST]:
    """What stands in a function, without what stands in the functions inside it."""
    waiting = list(ast.iter_child_nodes(function))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, FUNCTIONS):
            waiting += ast.iter_child_nodes(node)


def writes(function: ast.AST) -> bool:
    """Whether it says so itself: `Table.insert(…)`, `Table.update(…)`, or the name of a statement that writes."""
    named = [node for node in within(function) if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)]
    return any(
        is_statement(ast.unparse(node.value), node.attr)
        or (node.attr in WRITING and ast.unparse(node.value)[0].isupper())
        or (ast.unparse(node.value), node.attr) in CALLS
        for node in named
    )


def is_statement(module: str, name: str) -> bool:
    """Whether it writes; under a name of its own (`import … as`) a module may be any of them."""
    named = {module} if module in MODULES else MODULES
    return any((each, name) in STATEMENTS for each in named)


def takes_tx(function: Function) -> bool:
    named = function.args
    return "tx" in {parameter.arg for parameter in [*named.posonlyargs, *named.args, *named.kwonlyargs]}


def hands_tx_on(function: ast.AST) -> bool:
    """To a function that takes it, or leaves it word of what to do after the commit."""
    return any(isinstance(node, ast.Name) and node.id == "tx" for node in ast.walk(function))


def functions(tree: ast.AST, inside_tx: bool = False) -> Iterator[tuple[Function, bool]]:
    """Every function, and whether one around it has a `tx`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, FUNCTIONS):
            yield node, inside_tx
            yield from functions(node, inside_tx or takes_tx(node))
        else:
            yield from functions(node, inside_tx)


def without_tx(tree: ast.AST) -> list[str]:
    """Functions that write and are handed no transaction."""
    found = [each for each, inside in functions(tree) if writes(each) and not (inside or takes_tx(each))]
    return [getattr(each, "name", f"lambda in line {each.lineno}") for each in found]


def with_idle_tx(tree: ast.AST) -> list[str]:
    """Functions that are handed a transaction, and neither write nor hand it on. Lambdas are what `write` is given."""
    named = [each for each, _ in functions(tree) if not isinstance(each, ast.Lambda) and takes_tx(each)]
    return [each.name for each in named if not (writes(each) or hands_tx_on(each) or has_only_docstring(each))]


def has_only_docstring(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether it is the method of a protocol."""
    return len(function.body) == 1 and ast.get_docstring(function) is not None


def test_what_writes_takes_tx() -> None:
    named = "|".join(WRITING | {name for _, name in CALLS | STATEMENTS})
    written = modules(rf"\b({named})\b", "domain")
    assert [f"{module}: {name}" for module, tree in written for name in without_tx(tree)] == []


def test_what_takes_tx_writes_or_hands_it_on() -> None:
    assert [f"{module}: {name}" for module, tree in modules(r"\btx\b", "domain") for name in with_idle_tx(tree)] == []


@pytest.mark.parametrize(
    ("code", "lacking", "idle"),
    [
        ("def a(tx, x): Post.update(x=1).execute()", [], []),
        ("def a(tx, x): b(tx, x)", [], []),
        ("def a(tx, x): return Post.select()", [], ["a"]),
        ("def a(tx, x):\n    'Write x.'", [], []),
        ("def a(x): Post.delete().execute()", ["a"], []),
        ("def a(x):\n    def b(tx): Post.delete().execute()\n    return db.write(b)", [], []),
        ("run = lambda tx: Post.insert().execute()", [], []),
        ("run = lambda: Post.insert().execute()", ["lambda in line 1"], []),
        ("async def a(tx): tx.after_commit(b)", [], []),
        ("def a(x): x.update(y=1)", [], []),
        ("def a(tx, x): sql.execute(acceptance.SET_IDEMPOTENCY_RESPONSE, (x,))", [], []),
        ("def a(x): sql.fetch_value(publish_runs.INSERT_INTENT, (x,))", ["a"], []),
        ("def a(x): sql.insert(acceptance.INSERT_AUDIT, [(x,)])", ["a"], []),
        ("def a(tx, x): return sql.fetch_one(publish_runs.FIND_OPEN_INTENT, (x,))", [], ["a"]),
    ],
)
def test_a_function_without_its_tx_is_found_and_one_with_an_idle_one(
    code: str, lacking: list[str], idle: list[str]
) -> None:
    tree = ast.parse(code)
    assert (without_tx(tree), with_idle_tx(tree)) == (lacking, idle)
