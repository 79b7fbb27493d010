"""Finder of every regex in the source, and generator of its worst-case input texts.

A backtracking regex is slow on many repetitions of one part, after a prefix that reaches it and before a suffix that
does not match. The texts come from the regex's parse tree: one character of each class that it distinguishes, pairs of
them, and matches of each of its sequences, up to each repeat.
"""

from __future__ import annotations

import ast
import functools
import importlib
import itertools
import re
import re._constants as c  # type: ignore[import-not-found]
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import regex

from tests.support.isolation.step_counter import FIRST, PatternProgram, properties
from tests.support.program_source import MODULES, PACKAGE, find_modules, list_nodes, parse_module, read_file

LIBRARIES = {"re": re, "regex": regex}
FUNCTIONS = ("compile", "match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer", "subf", "subfn")
SCANS = ("search", "sub", "subn", "split", "findall", "finditer")
POOL = (
    *"aAzZ09_-.,:;/\\@#$%&?!'\"()[]{}<>=+*~^|` \t\r\n\x00\x7fé\u017f\u212aßÅ中の",
    *"\u00a9\u0301\u0316\u0660\u200b\u200d\u2028\u20e3\u3002\ufe0f\ufeff\uff03\U0001f1e6\U0001f3f4\U0001f469\U0001f3fb",
    *"\U000e0067\U000e007f\ud800",
)


# --- Where the patterns are ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FoundPattern:
    """A pattern of the source. `name`: what it is called, or how it stands there; `uses`: the methods called on it."""

    module: str
    name: str
    pattern: Any
    uses: frozenset[str]

    @property
    def id(self) -> str:
        return f"{self.module}:{self.name}"


Handed = Mapping[str, tuple[str, int | str, str]]


def find_patterns(examples: Mapping[str, str | None], handed_on: Handed) -> Iterator[FoundPattern]:
    """Every pattern. `examples`: for those that hold a value of a function, by their source, one that it may make.

    `handed_on`: of modules a function, which of its arguments becomes a pattern, and the method that is called on it.
    """
    for name in find_modules(r"\b(re|regex)\s*\.|\bcompile_lazily\b"):
        tree = parse_module(name)
        calls = [node for node in list_nodes(name) if isinstance(node, ast.Call)]
        factories = [(call, *made) for call in calls if (made := _maker(call))]
        if factories:
            names, values = _names(tree), _values(name)
            yield from _made(name, names, values, factories, examples)
            if name in handed_on:
                yield from _handed(name, values, calls, *handed_on[name])


def _values(name: str) -> dict[str, Any]:
    dotted = name.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    return vars(importlib.import_module(f"socialpub.{dotted}"))


def _made(
    module: str,
    names: Mapping[int, str],
    values: dict[str, Any],
    factories: Iterable[tuple[ast.Call, Any, str]],
    examples: Mapping[str, str | None],
) -> Iterator[FoundPattern]:
    for call, library, function in factories:
        name, text = names.get(id(call)), _value(call.args[0], values, examples)
        if text is None:
            continue
        flags = _flags(call, function, values)
        if function == "compile_lazily":
            text, flags = f"(?{flags}){text}" if flags else text, 0
        uses = _uses(name) if function in ("compile", "compile_lazily") and name else {function}
        kept = frozenset(uses & {*SCANS, "match", "fullmatch"}) or frozenset(SCANS)
        yield FoundPattern(module, name or ast.unparse(call.args[0]), library.compile(text, flags or 0), kept)


def _handed(
    module: str, values: dict[str, Any], calls: Iterable[ast.Call], function: str, which: int | str, use: str
) -> Iterator[FoundPattern]:
    for call in calls:
        if isinstance(call.func, ast.Name) and call.func.id == function:
            given = next((each.value for each in call.keywords if each.arg == which), None)
            given = given or (call.args[which] if isinstance(which, int) else None)
            if given is not None:
                yield FoundPattern(module, ast.unparse(given), re.compile(_value(given, values, {})), frozenset({use}))


def _maker(call: ast.Call) -> tuple[Any, str] | None:
    """The library and the function of it, if this makes a pattern."""
    to = call.func
    if (
        isinstance(to, ast.Attribute)
        and isinstance(to.value, ast.Name)
        and to.value.id in LIBRARIES
        and to.attr in FUNCTIONS
    ):
        return LIBRARIES[to.value.id], to.attr
    return (regex, "compile_lazily") if isinstance(to, ast.Name) and to.id == "compile_lazily" else None


def _names(tree: ast.Module) -> dict[int, str]:
    """The names that calls are bound to in the module."""
    bound = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and isinstance(node.value, ast.Call):
            bound[id(node.value)] = node.targets[0].id
    return bound


def _value(node: ast.expr, values: dict[str, Any], examples: Mapping[str, str | None]) -> Any:
    try:
        return eval(compile(ast.Expression(node), "<pattern>", "eval"), values)  # noqa: S307 - of our own source
    except NameError:
        return examples[ast.unparse(node)]


def _flags(call: ast.Call, function: str, values: dict[str, Any]) -> Any:
    given = next((each.value for each in call.keywords if each.arg == "flags"), None)
    place = {
        "compile": 1,
        "compile_lazily": 1,
        "match": 2,
        "fullmatch": 2,
        "search": 2,
        "findall": 2,
        "finditer": 2,
    }.get(function, 9)
    given = given or (call.args[place] if len(call.args) > place else None)
    return None if given is None else eval(compile(ast.Expression(given), "<flags>", "eval"), values)  # noqa: S307


@functools.cache
def _uses(name: str) -> set[str]:
    """The methods that are called anywhere on a pattern of this name."""
    used: set[str] = set()
    for module in (each for each in MODULES if name in read_file(PACKAGE / each)):
        for node in list_nodes(module):
            if isinstance(node, ast.Attribute) and name == getattr(node.value, "attr", getattr(node.value, "id", "")):
                used.add(node.attr)
            if isinstance(node, ast.Call):  # handed on: whoever gets it may do anything with it
                used.update(SCANS if name in (getattr(given, "id", "") for given in node.args) else ())
    return used


# --- What to pump ----------------------------------------------------------------------------------------------------


class PatternTree:
    """The parse tree of a pattern, and the characters that it tells apart."""

    def __init__(self, pattern: Any) -> None:
        self.program = PatternProgram(pattern)
        self.items = self.program.parsed
        self.is_bytes = isinstance(pattern.pattern, bytes)
        atoms = list(_atoms(self.items))
        kinds: dict[tuple[bool, ...], str] = {}
        for char in dict.fromkeys((*_literals(atoms), *POOL)):
            if not self.is_bytes or ord(char) < 256:
                signature = (*(self._fits(atom, char) for atom in atoms), char.isalnum() or char == "_")
                kinds.setdefault(signature, char)
        self.kinds = list(kinds.values())

    def _fits(self, atom: Any, char: str) -> bool:
        return atom[1] == FIRST + _cluster() or bool(self.program.is_one(atom[0], atom[1], char))

    def of(self, atom: Any) -> list[str]:
        """A character of each kind that fits."""
        return [char for char in self.kinds if self._fits(atom, char)]

    def words(self, items: Any, most: int = 3) -> list[str]:
        """A few of the texts that a sequence matches."""
        found = [""]
        for item in items:
            found = [a + b for a, b in itertools.islice(itertools.product(found, self._words(item, most)), most)]
        return found

    def _words(self, item: Any, most: int) -> list[str]:
        op, value = item
        if op in (c.LITERAL, c.NOT_LITERAL, c.ANY, c.IN):
            return self.of(item)[:most] or [""]
        if op is c.BRANCH:
            return [word for each in value[1] for word in self.words(each, 1)][:most] or [""]
        if op is c.SUBPATTERN:
            return self.words(value[3], most)
        if op is c.ATOMIC_GROUP:
            return self.words(value, most)
        if op in (c.MAX_REPEAT, c.MIN_REPEAT, c.POSSESSIVE_REPEAT):
            return [word * max(1, min(value[0], 40)) for word in self.words(value[2], most)]
        return [""]

    def ways(self, items: Any, before: str = "") -> Iterator[tuple[str, Any]]:
        """Each repeat, behind a text that leads to it."""
        for item in items:
            op, value = item
            if op in (c.MAX_REPEAT, c.MIN_REPEAT, c.POSSESSIVE_REPEAT):
                if value[1] > 8:
                    yield before, value[2]
                yield from self.ways(value[2], before)
            elif op is c.SUBPATTERN:
                yield from self.ways(value[3], before)
            elif op is c.ATOMIC_GROUP:
                yield from self.ways(value, before)
            elif op is c.BRANCH:
                for each in value[1]:
                    yield from self.ways(each, before)
            before += self._words(item, 1)[0]

    def texts(self) -> Iterator[tuple[str, str, str]]:
        """(beginning, what is repeated, end)."""
        ways = list(self.ways(self.items))
        bodies = [word for _, body in ways for word in self.words(body, 6)]
        leads = [before + word for before, body in ways for word in self.words(body, 12)]
        parts = [word for items in _sequences(self.items) for word in self.words(items)]
        pairs = ["".join(pair) for pair in itertools.islice(itertools.permutations(self.kinds, 2), 150)]
        mixed = [lead + char for lead in dict.fromkeys((*leads[:8], *parts[:8])) for char in self.kinds[:16]]
        pumps = list(filter(None, dict.fromkeys((*self.kinds, *bodies, *leads, *parts, *pairs, *mixed))))
        begins = list(dict.fromkeys(("", *(before for before, _ in ways), *(before[:-1] for before, _ in ways))))[:6]
        for pump, begin, end in itertools.product(pumps, begins, ("", "\n\x00")):
            yield begin, pump, end


def _atoms(items: Any) -> Iterator[Any]:
    for op, value in items:
        if op in (c.LITERAL, c.NOT_LITERAL, c.ANY, c.IN):
            yield op, value
        elif op in (c.MAX_REPEAT, c.MIN_REPEAT, c.POSSESSIVE_REPEAT):
            yield from _atoms(value[2])
        elif op is c.SUBPATTERN:
            yield from _atoms(value[3])
        elif op is c.ATOMIC_GROUP:
            yield from _atoms(value)
        elif op is c.BRANCH:
            for each in value[1]:
                yield from _atoms(each)
        elif op in (c.ASSERT, c.ASSERT_NOT):
            yield from _atoms(value[1])
        else:
            assert op in (c.AT, c.GROUPREF), op


def _literals(atoms: list[Any]) -> Iterator[str]:
    for op, value in atoms:
        of = value if op is c.IN else [(op, value)]
        for kind, each in of:
            if kind in (c.LITERAL, c.NOT_LITERAL) and each < FIRST:
                yield chr(each)
            if kind is c.RANGE:
                yield from (chr(each[0]), chr(each[1]))


def _sequences(items: Any) -> Iterator[Any]:
    yield items
    for op, value in items:
        if op in (c.MAX_REPEAT, c.MIN_REPEAT, c.POSSESSIVE_REPEAT):
            yield from _sequences(value[2])
        elif op is c.SUBPATTERN:
            yield from _sequences(value[3])
        elif op is c.ATOMIC_GROUP:
            yield from _sequences(value)
        elif op is c.BRANCH:
            for each in value[1]:
                yield from _sequences(each)


def _cluster() -> int:
    return properties.index(r"\X") if r"\X" in properties else -1


# --- What it takes ---------------------------------------------------------------------------------------------------

Case = tuple[str, str, str]
STEPS = ((24, 3_000), (48, 150), (96, 50), (192, 25), (384, 6), (1_500, 4), (6_000, 3), (24_000, 2))
"""How long the texts are, and how many of them are made longer."""
SLOW = 0.3  # seconds: nothing longer is tried


def seconds(run: Callable[[Any], object], text: Any, times: int = 1) -> float:
    """The processor's time, the least of some runs."""
    least = float("inf")
    for _ in range(times):
        began = time.thread_time()
        run(text)
        least = min(least, time.thread_time() - began)
    return least


def make_attack_text(case: Case, size: int) -> str:
    begin, pump, end = case
    return begin + pump * max(1, (size - len(begin) - len(end)) // len(pump)) + end


def runs(found: FoundPattern) -> list[Callable[[Any], object]]:
    """What the project does with a pattern."""
    made: list[Callable[[Any], object]] = []
    uses = found.uses
    if uses & set(SCANS):
        made.append(lambda text: sum(1 for _ in found.pattern.finditer(text)))
    if "match" in uses:
        made.append(found.pattern.match)
    if "fullmatch" in uses:
        made.append(found.pattern.fullmatch)
    return made


def _timed(run: Callable[[Any], object], texts: Iterable[tuple[Case, Any]]) -> Iterator[tuple[float, Case]]:
    """What each takes, up to the first that takes too long."""
    for case, text in texts:
        took = seconds(run, text)
        yield took, case
        if took > SLOW:
            return


def find_worst_text(found: FoundPattern, size: int) -> tuple[float, Case]:
    """The most that a text of a size takes: those that take most for their length are made longer, step by step.

    It ends at the first text that takes more than `SLOW`, with the time that the whole size would take at least.
    """
    tree = PatternTree(found.pattern)
    encoded: Callable[[str], Any] = (lambda text: text.encode("latin-1")) if tree.is_bytes else (lambda text: text)
    slowest: tuple[float, Case] = (0.0, ("", "", ""))
    for run in runs(found):
        cases = list(tree.texts())
        for length, most in (*STEPS, (size, 1)):
            took = sorted(
                _timed(run, [(case, encoded(make_attack_text(case, length))) for case in cases]), reverse=True
            )
            if took[0][0] > SLOW:
                least = seconds(run, encoded(make_attack_text(took[0][1], length)), 3)
                took[0] = (least * size / length, took[0][1])
                if least > SLOW:
                    break
            cases = [case for _, case in took[:most]]
            if length >= size:
                break
        slowest = max(slowest, took[0])
    return slowest
