"""Deterministic cost counter: regex backtracking steps, executed lines, string scans.

The counts are the same on any machine. `counted_modules` replaces the regexes of modules by counting ones with the same
matches, which tests verify.
"""

from __future__ import annotations

import contextlib
import functools
import re
import re._constants as c  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
import sys
import unicodedata
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
import regex

Then = Callable[[int], int | None]
Node = Callable[[int, Then], int | None]
PROPERTY = re.compile(r"\\p\{([^}]*)\}|\\X")
CLUSTER = regex.compile(r"\X")
FIRST = 0xF0000  # private characters that stand for properties in a pattern
properties: list[str] = []


class StepCount:
    """How many steps were taken."""

    steps = 0


# --- The matcher -----------------------------------------------------------------------------------------------------


@functools.cache
def _has(name: str, char: str) -> bool:
    return regex.fullmatch(name, char) is not None


def stand_in(found: re.Match[str]) -> str:
    if found[0] not in properties:
        properties.append(found[0])
    return chr(FIRST + properties.index(found[0]))


@functools.cache
def _category(name: Any, char: str, ascii_only: bool, matcher: Any) -> bool:
    kind = str(name).rpartition("_")[2].lower()
    sign = {"digit": r"\d", "space": r"\s", "word": r"\w"}[kind]
    found = matcher.fullmatch(sign, char, matcher.ASCII if ascii_only else 0) is not None
    return found != ("_NOT_" in str(name))


class PatternProgram:
    """One pattern, made into nodes that call what comes after them."""

    def __init__(self, pattern: Any) -> None:
        text = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
        self.matcher = regex if isinstance(pattern, regex.Pattern) else re  # they differ in what belongs to a word
        mine = 0
        for theirs, ours in ((regex.I, re.I), (regex.X, re.X), (regex.S, re.S), (regex.M, re.M)):
            mine |= ours if pattern.flags & (theirs if isinstance(pattern, regex.Pattern) else ours) else 0
        self.ascii = bool(pattern.flags & (regex.A if isinstance(pattern, regex.Pattern) else re.A))
        self.ascii |= isinstance(pattern.pattern, bytes)
        self.fold, self.dotall = bool(mine & re.I), bool(mine & re.S)
        parsed = self.parsed = parser.parse(PROPERTY.sub(stand_in, text), mine | (re.A if self.ascii else 0))
        self.fold |= bool(parsed.state.flags & re.I)
        self.text, self.end = "", 0
        self.spans: dict[int, tuple[int, int]] = {}
        self.run = self._all(parsed)

    def at(self, text: str, place: int, end: int) -> tuple[int, dict[int, tuple[int, int]]] | None:
        self.text, self.end, self.spans = text, end, {}
        found = self.run(place, lambda last: last)
        return None if found is None else (found, dict(self.spans))

    # Of one character.

    def is_one(self, op: Any, value: Any, char: str) -> bool:
        if op is c.LITERAL:
            return _has(properties[value - FIRST], char) if value >= FIRST else self._same(chr(value), char)
        if op is c.NOT_LITERAL:
            return not self.is_one(c.LITERAL, value, char)
        if op is c.ANY:
            return self.dotall or char != "\n"
        if op is c.RANGE:
            low, high = value
            return any(low <= ord(each) <= high for each in self._forms(char))
        if op is c.CATEGORY:
            return _category(value, char, self.ascii, self.matcher)
        assert op is c.IN, op
        negated = value[0][0] is c.NEGATE
        return negated != any(self.is_one(*item, char) for item in value if item[0] is not c.NEGATE)

    def _forms(self, char: str) -> tuple[str, ...]:
        forms = (char, char.lower(), char.upper()) if self.fold else (char,)
        return tuple(form for form in forms if len(form) == 1 and (form.isascii() or not (self.ascii and self.fold)))

    def _same(self, one: str, char: str) -> bool:
        return one == char or (self.fold and bool({one, one.lower(), one.upper()} & set(self._forms(char))))

    def _single(self, item: Any) -> Callable[[int], bool] | None:
        op, value = item
        if op not in (c.LITERAL, c.NOT_LITERAL, c.ANY, c.IN) or value == FIRST + _x():
            return None
        known: dict[str, bool] = {}

        def fits(at: int) -> bool:
            StepCount.steps += 1
            if at >= self.end:
                return False
            char = self.text[at]
            if char not in known:
                known[char] = self.is_one(op, value, char)
            return known[char]

        return fits

    # Of more.

    def _all(self, items: Any) -> Node:
        nodes = [self._node(item) for item in items]

        def run(at: int, then: Then, index: int = 0) -> int | None:
            if index == len(nodes):
                return then(at)
            return nodes[index](at, lambda after: run(after, then, index + 1))

        return nodes[0] if len(nodes) == 1 else run

    def _node(self, item: Any) -> Node:
        op, value = item
        if (fits := self._single(item)) is not None:
            return lambda at, then: then(at + 1) if fits(at) else None
        if op is c.LITERAL:
            return self._cluster
        return {
            c.AT: self._place,
            c.BRANCH: lambda it: self._branch([self._all(each) for each in it[1]]),
            c.SUBPATTERN: lambda it: self._group(it[0], self._all(it[3])),
            c.ATOMIC_GROUP: lambda it: self._atomic(self._all(it)),
            c.MAX_REPEAT: self._greedy,
            c.MIN_REPEAT: self._lazy,
            c.POSSESSIVE_REPEAT: lambda it: self._atomic(self._greedy(it)),
            c.ASSERT: lambda it: self._look(*it, wanted=True),
            c.ASSERT_NOT: lambda it: self._look(*it, wanted=False),
        }[op](value)

    def _cluster(self, at: int, then: Then) -> int | None:
        found = CLUSTER.match(self.text, at, self.end)
        back = at  # it goes back over flags, to know which of two begins here
        while back and "\U0001f1e6" <= self.text[back - 1] <= "\U0001f1ff":
            back -= 1
        StepCount.steps += at - back + (found.end() - at if found else 1)
        return then(found.end()) if found and found.end() > at else None

    def _place(self, which: Any) -> Node:
        def fits(at: int) -> bool:
            StepCount.steps += 1
            if which in (c.AT_BEGINNING, c.AT_BEGINNING_STRING):
                return at == 0
            if which is c.AT_END:
                return at == self.end or (at == self.end - 1 and self.text[at] == "\n")
            if which is c.AT_END_STRING:
                return at == self.end
            assert which in (c.AT_BOUNDARY, c.AT_NON_BOUNDARY), which
            return (self._in_word(at - 1) != self._in_word(at)) == (which is c.AT_BOUNDARY)

        return lambda at, then: then(at) if fits(at) else None

    def _in_word(self, at: int) -> bool:
        return 0 <= at < self.end and _category("WORD", self.text[at], self.ascii, self.matcher)

    @staticmethod
    def _branch(ways: list[Node]) -> Node:
        def run(at: int, then: Then) -> int | None:
            for way in ways:
                if (found := way(at, then)) is not None:
                    return found
            return None

        return run

    def _group(self, number: int | None, inside: Node) -> Node:
        if number is None:
            return inside

        def run(at: int, then: Then) -> int | None:
            before = self.spans.get(number)

            def kept(end: int) -> int | None:
                last = self.spans.get(number)
                self.spans[number] = (at, end)
                found = then(end)
                if found is None:
                    self._restore(number, last)
                return found

            found = inside(at, kept)
            if found is None:
                self._restore(number, before)
            return found

        return run

    def _restore(self, number: int, span: tuple[int, int] | None) -> None:
        self.spans.pop(number, None)
        if span is not None:
            self.spans[number] = span

    @staticmethod
    def _atomic(inside: Node) -> Node:
        def run(at: int, then: Then) -> int | None:
            end = inside(at, lambda last: last)
            return None if end is None else then(end)

        return run

    def _greedy(self, repeat: Any) -> Node:
        low, high, items = repeat
        fits = self._single(items[0]) if len(items) == 1 else None
        inside = self._all(items)

        def of_one(at: int, then: Then) -> int | None:
            assert fits is not None
            most = at
            while most - at < high and fits(most):
                most += 1
            for end in range(most, at + low - 1, -1):
                StepCount.steps += 1
                if (found := then(end)) is not None:
                    return found
            return None

        def run(at: int, then: Then, count: int = 0) -> int | None:
            StepCount.steps += 1
            if count < high:
                more = inside(at, lambda end: run(end, then, count + 1) if end > at else None)
                if more is not None:
                    return more
            return then(at) if count >= low else None

        return of_one if fits is not None else run

    def _lazy(self, repeat: Any) -> Node:
        low, high, items = repeat
        inside = self._all(items)

        def run(at: int, then: Then, count: int = 0) -> int | None:
            StepCount.steps += 1
            if count >= low and (found := then(at)) is not None:
                return found
            if count >= high:
                return None
            return inside(at, lambda end: run(end, then, count + 1) if end > at else None)

        return run

    def _look(self, way: int, items: Any, *, wanted: bool) -> Node:
        inside, width = self._all(items), items.getwidth()[0]

        def run(at: int, then: Then) -> int | None:
            start = at if way > 0 else at - width
            there = start >= 0 and inside(start, lambda end: end if way > 0 or end == at else None) is not None
            return then(at) if there == wanted else None

        return run


def _x() -> int:
    if r"\X" not in properties:
        properties.append(r"\X")
    return properties.index(r"\X")


# --- What stands in for a pattern, a match, a text --------------------------------------------------------------------


class CountedText(str):
    """A text whose methods cost what they go over."""

    __slots__ = ()

    def __getitem__(self, place: Any) -> str:
        found = str.__getitem__(self, place)
        StepCount.steps += len(found)
        return CountedText(found)


def _counting(name: str) -> Any:
    plain = getattr(str, name)

    def method(self: str, *given: Any, **named: Any) -> Any:
        found = plain(self, *given, **named)
        places = [each for each in given if isinstance(each, int)]
        StepCount.steps += max(0, len(self) - (places[0] if places else 0))
        if isinstance(found, str):
            return CountedText(found)
        return [CountedText(each) for each in found] if isinstance(found, list) else found

    return method


_ALL_OF_IT = "count find rfind index rindex lower upper casefold split splitlines strip lstrip rstrip encode replace"
for _name in [
    *_ALL_OF_IT.split(),
    "translate",
    "isascii",
    "isalnum",
    "isdigit",
    "partition",
    "rpartition",
    "__contains__",
]:
    setattr(CountedText, _name, _counting(_name))


class CountedMatch:
    """As much of a match as the project uses."""

    def __init__(
        self, pattern: CountedPattern, text: Any, start: int, end: int, spans: dict[int, tuple[int, int]]
    ) -> None:
        self.re, self._text, self._spans = pattern, text, {0: (start, end)} | spans
        self.lastindex = max(spans, default=None)

    def _number(self, group: int | str) -> int:
        return self.re.real.groupindex[group] if isinstance(group, str) else group

    def span(self, group: int | str = 0) -> tuple[int, int]:
        return self._spans.get(self._number(group), (-1, -1))

    def start(self, group: int | str = 0) -> int:
        return self.span(group)[0]

    def end(self, group: int | str = 0) -> int:
        return self.span(group)[1]

    def __getitem__(self, group: int | str) -> Any:
        start, end = self.span(group)
        return None if start < 0 else self._text[start:end]

    def group(self, *groups: int | str) -> Any:
        found = tuple(self[group] for group in groups or (0,))
        return found[0] if len(found) == 1 else found

    def groups(self) -> tuple[Any, ...]:
        return tuple(self[number] for number in range(1, self.re.real.groups + 1))


class CountedPattern:
    """As much of a pattern as the project uses."""

    def __init__(self, real: Any) -> None:
        self.real, self.pattern, self.flags = real, real.pattern, real.flags
        self._program = PatternProgram(real)

    def _at(self, text: Any, place: int, end: int) -> CountedMatch | None:
        plain = str.__str__(text) if isinstance(text, str) else bytes(text).decode("latin-1")
        found = self._program.at(plain, place, end)
        return None if found is None else CountedMatch(self, text, place, found[0], found[1])

    def match(self, text: Any, pos: int = 0, endpos: int = sys.maxsize) -> CountedMatch | None:
        return self._at(text, pos, min(endpos, len(text)))

    def fullmatch(self, text: Any, pos: int = 0, endpos: int = sys.maxsize) -> CountedMatch | None:
        end = min(endpos, len(text))
        plain = str.__str__(text) if isinstance(text, str) else bytes(text).decode("latin-1")
        self._program.text, self._program.end, self._program.spans = plain, end, {}
        found = self._program.run(pos, lambda last: last if last == end else None)
        return None if found is None else CountedMatch(self, text, pos, found, dict(self._program.spans))

    def finditer(self, text: Any, pos: int = 0, endpos: int = sys.maxsize) -> Iterator[CountedMatch]:
        end = min(endpos, len(text))
        at, empty_at = pos, -1
        while at <= end:
            found = self._at(text, at, end)
            if found is None or (found.end() == at and at == empty_at):
                at += 1
                continue
            yield found
            empty_at = found.end()
            at = found.end() if found.end() > at else at + 1

    def search(self, text: Any, pos: int = 0, endpos: int = sys.maxsize) -> CountedMatch | None:
        return next(self.finditer(text, pos, endpos), None)

    def findall(self, text: Any, pos: int = 0, endpos: int = sys.maxsize) -> list[Any]:
        found = self.finditer(text, pos, endpos)
        if self.real.groups > 1:
            return [match.groups() for match in found]
        return [match[self.real.groups] or "" for match in found]

    def subn(self, new: Any, text: Any, count: int = 0) -> tuple[Any, int]:
        parts, last, number = [], 0, 0
        for match in self.finditer(text):
            parts += [text[last : match.start()], self._made(new, match)]
            last, number = match.end(), number + 1
        return CountedText(text[:0].join([*parts, text[last:]])), number

    def sub(self, new: Any, text: Any, count: int = 0) -> Any:
        return self.subn(new, text)[0]

    def _made(self, new: Any, match: CountedMatch) -> Any:
        if callable(new):
            return new(match)
        if "\\" not in new:
            return new
        assert new == r"\\\g<0>", new
        return "\\" + match[0]

    def split(self, text: Any, maxsplit: int = 0) -> list[Any]:
        parts, last = [], 0
        for match in self.finditer(text):
            if maxsplit and len(parts) == maxsplit:
                break
            parts.append(text[last : match.start()])
            last = match.end()
        return [*parts, text[last:]]


class CountedUnicodeData:
    """`unicodedata`, whose sorting of marks costs what moving each to its place costs."""

    def __getattr__(self, name: str) -> Any:
        return getattr(unicodedata, name)

    @staticmethod
    def normalize(form: str, text: str) -> str:
        run: list[int] = []
        for char in "".join(map(_apart, text)):
            kind = unicodedata.combining(char)
            run = [*run, kind] if kind else []
            StepCount.steps += 1 + sum(1 for each in run if each > kind) if kind else 1
        return CountedText(unicodedata.normalize(form, text))


@functools.cache
def _apart(char: str) -> str:
    return unicodedata.normalize("NFD", char)


@functools.cache
def pattern_of(real: Any) -> CountedPattern:
    return CountedPattern(real)


@contextlib.contextmanager
def counted_modules(*modules: ModuleType) -> Iterator[None]:
    """The patterns of these modules count, and the lines that run in them, as long as the block runs."""
    files = {module.__file__ for module in modules}

    def trace(frame: Any, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename not in files:
            return None
        StepCount.steps += event == "line"
        return trace

    with pytest.MonkeyPatch.context() as patch:
        for module in modules:
            for name, value in list(vars(module).items()):
                if isinstance(value, re.Pattern | regex.Pattern):
                    patch.setattr(module, name, pattern_of(value))
                elif value is unicodedata:
                    patch.setattr(module, name, CountedUnicodeData())
        before = sys.gettrace()
        sys.settrace(trace)
        try:
            yield
        finally:
            sys.settrace(before)
