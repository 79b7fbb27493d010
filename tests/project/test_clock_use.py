"""Quick tests neither read the machine's clock nor sleep.

They would fail on a machine that is busy. Only the slow tests measure time.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.program_source import parse_file, read_file
from tests.support.table_checks import check_rows

TESTS = Path(__file__).parents[1]
APART = (
    "soak/",
    "browser/",
    "project/generators/",
    "support/soak/",
    "support/browser/",
    "support/running_docs.py",
    "support/fake_systemctl.py",
    "support/faulty_proxy.py",
    "support/isolation/attackers.py",
    "support/isolation/attack_measurement.py",
)  # of slow tests alone
MODULES = [
    module
    for module in (str(path.relative_to(TESTS)) for path in sorted(TESTS.rglob("*.py")))
    if not module.startswith(APART)
]
CLOCKS = {
    f"{clock}{unit}"
    for clock in ("time", "monotonic", "perf_counter", "thread_time", "process_time")
    for unit in ("", "_ns")
}
CLOCKS |= {"sleep"}
ALLOWED = {
    ("support/app_server.py", "sleep_briefly"),  # the one nap, inside loops that wait
    ("support/app_server.py", "now_ms"),  # clocks of others
    ("support/app_server.py", "monotonic"),
    ("support/bluesky_oauth_cases.py", "client"),
    (
        "support/isolation/regex_attacks.py",
        "seconds",
    ),  # of the processor for one thread: a square of the length takes a hundred times its bound
    ("support/thread_jitter.py", "sleep_sometimes"),  # which is to sleep, where somebody asks for it
}
SOON_SECONDS = 60


def parsed(module: str) -> ast.AST:
    return parse_file(TESTS / module)


def naming(pattern: str) -> list[str]:
    """The modules whose text has the pattern: others need not be parsed."""
    return [module for module in MODULES if re.search(pattern, read_file(TESTS / module))]


def _is_slow(node: ast.AST) -> bool:
    """Whether the mark `slow` stands on a function, or on its module (`pytestmark`)."""
    marks: list[ast.expr] = []
    if isinstance(node, ast.FunctionDef):
        marks = node.decorator_list
    if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "pytestmark":
        marks = [node.value]
    return any(isinstance(part, ast.Attribute) and part.attr == "slow" for mark in marks for part in ast.walk(mark))


def _quick(tree: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """(function, node) of everything in a module that the quick tests may run."""
    body = getattr(tree, "body", [])
    if not any(_is_slow(node) for node in body if isinstance(node, ast.Assign)):
        yield from _within(tree, "")


def _within(node: ast.AST, function: str) -> Iterator[tuple[str, ast.AST]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef) and _is_slow(child):
            continue
        name = child.name if isinstance(child, ast.FunctionDef) else function
        yield name, child
        yield from _within(child, name)


def clocks(tree: ast.AST) -> list[tuple[str, int]]:
    """(function, line) of each look at the machine's clock, and each sleep."""
    nodes = list(_quick(tree))
    patient = {id(_patience(node)) for _, node in nodes}
    looks = [(function, node) for function, node in nodes if isinstance(node, ast.Attribute) and _is_clock(node)]
    return [(function, node.lineno) for function, node in looks if id(node) not in patient]


def _is_clock(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "time" and node.attr in CLOCKS


def _patience(node: ast.AST) -> ast.AST | None:
    """The clock of `deadline = time.monotonic() + patience` and `time.monotonic() < deadline`: a loop that waits for
    what has to come, and asserts nowhere how long it takes."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        asked: ast.AST = node.left
    elif isinstance(node, ast.Compare) and getattr(node.comparators[0], "id", "") == "deadline":
        asked = node.left
    else:
        return None
    return asked.func if isinstance(asked, ast.Call) and _is_clock(asked.func) else None


def close_ahead(tree: ast.AST) -> list[int]:
    """The lines where a post is scheduled so little ahead that a machine that stops for a moment is too late."""
    found = []
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    for node in ast.walk(tree):
        ahead: ast.expr | None = None
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and _is_now(node.left):
            value = _number(node.right)
            if value is not None and 1000 < value < SOON_SECONDS * 1000:
                found.append(node.lineno)
        if isinstance(node, ast.Call):
            ahead = _seconds(node, functions)
        value = _number(ahead)
        if value is not None and 1 <= value < SOON_SECONDS:
            found.append(ahead.lineno if ahead else 0)
    return found


def _number(node: ast.expr | None) -> float | None:
    """The number that an expression of literals is."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return node.value
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        left, right = _number(node.left), _number(node.right)
        return None if left is None or right is None else left * right
    return None


def _seconds(call: ast.Call, functions: dict[str, ast.FunctionDef]) -> ast.expr | None:
    """How many seconds ahead a call such as `soon(2)` or `schedule(…, seconds=2)` schedules, where it says so."""
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    if not re.search("schedul|soon", name):
        return None
    named = [keyword.value for keyword in call.keywords if keyword.arg == "seconds"]
    if named:
        return named[0]
    taken = _parameters(functions[name]) if name in functions else SCHEDULERS.get(name, [])
    place = taken.index("seconds") if "seconds" in taken else len(call.args)
    return call.args[place] if place < len(call.args) else None


def _parameters(function: ast.FunctionDef) -> list[str]:
    """Their names, in order, without `self`."""
    names = [parameter.arg for parameter in function.args.args]
    return names[1:] if names[:1] == ["self"] else names


def _schedulers() -> dict[str, list[str]]:
    """Parameters, by name, of the functions of `support` that schedule."""
    nodes = [
        node
        for path in sorted((TESTS / "support").glob("*.py"))
        for node in ast.walk(parse_file(path))
        if isinstance(node, ast.FunctionDef) and re.search("schedul|soon", node.name)
    ]
    return {node.name: _parameters(node) for node in nodes}


SCHEDULERS = _schedulers()


def _is_now(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "now_ms"


def test_no_quick_test_looks_at_the_machines_clock_or_sleeps() -> None:
    def check(module: str) -> None:
        found = [(function, line) for function, line in clocks(parsed(module)) if (module, function) not in ALLOWED]
        assert found == []

    check_rows(naming(rf"\btime\s*\.\s*({'|'.join(CLOCKS)})\b"), check)


@pytest.mark.slow
def test_no_test_schedules_real_seconds_ahead() -> None:
    allowed = {"api/webhooks/test_delivery_load.py": 1, "commands/test_integrity_check.py": 1}  # as time has to pass

    def check(module: str) -> None:
        assert len(close_ahead(parsed(module))) == allowed.get(module, 0)

    check_rows(naming(r"\b(now_ms|schedule|soon)\b"), check)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("def test_a():\n    assert time.monotonic() - began < 2", 1),
        ("def test_a():\n    began = time.perf_counter()", 1),
        ("def test_a():\n    time.sleep(1)", 1),
        ("@pytest.mark.slow\ndef test_a():\n    time.sleep(1)", 0),
        ("pytestmark = [pytest.mark.slow]\ndef test_a():\n    time.sleep(1)", 0),
        ("def test_a():\n    began = time.thread_time()", 1),
        ("def wait():\n    deadline = time.monotonic() + 9\n    assert time.monotonic() < deadline", 0),
    ],
)
def test_a_look_at_the_clock_is_found(source: str, found: int) -> None:
    assert len(clocks(ast.parse(source))) == found


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("def test_a():\n    at = clock.now_ms() + 1200", 1),
        ("def test_a():\n    world.soon(2)", 1),
        ("def test_a():\n    schedule(server, alice, seconds=1.2)", 1),
        ("def schedule(server, seconds):\n    ...\ndef test_a():\n    schedule(server, 2)", 1),
        ("def schedule(server, count):\n    ...\ndef test_a():\n    schedule(server, 2)", 0),
        ("def test_a():\n    alice.schedule(1)\n    alice.schedule(30 * 3600)", 1),
        ("def test_a():\n    at = clock.now_ms() + 60_000\n    world.soon(60)\n    world.soon(0.5)", 0),
    ],
)
def test_a_schedule_of_real_seconds_is_found(source: str, found: int) -> None:
    assert len(close_ahead(ast.parse(source))) == found
