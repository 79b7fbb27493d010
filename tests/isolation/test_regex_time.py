"""Regular expressions of the source take linear time on any text.

`re` and `regex` hold the interpreter meanwhile. The patterns are found by reading the source (`regex_attacks.py`), so
that a new one is tested without a line here. What is timed is the processor's time of this thread. A pattern that is
linear takes milliseconds; one that takes quadratic time takes many seconds, and is seen at a fraction of the size.
"""

from __future__ import annotations

import ast
import functools
import re

import pytest
import regex

from tests.support.isolation import regex_attacks
from tests.support.isolation.regex_attacks import FoundPattern
from tests.support.program_source import find_modules, list_nodes

SIZE = 64 * 1024
LAB = 25_000  # characters: the simulator is called by this service only, and no platform takes a longer text
LARGEST = 256 * 1024  # a quarter of what a platform, a page or a receiver may answer
ATTEMPTS = 3
SECONDS = 0.3  # of the processor for SIZE. The slowest takes a tenth of it; quadratic time is 4 s and more

# What stands in a pattern that holds a value of a function.
EXAMPLES = {
    "f'<symbol id=\"{prefix}(\\\\w+)\"'": '<symbol id="icon-(\\w+)"',
    "f'/status/{quoted}$'": "/status/20$",  # a number
    "f'@{user.username}\\\\b'": "@alice\\b",
    "self._text": None,  # of `late`, whose calls are found themselves
    "pattern": None,  # `_build_synonyms` and `_like`, whose calls hold the text: see HANDED_ON
}
HANDED_ON: regex_attacks.Handed = {
    "domain/schemas/field_suggestions.py": ("_build_synonyms", "pattern", "search"),
    "simulator/bluesky/lexicon.py": ("_like", 0, "fullmatch"),
}

# Patterns that are not linear: no more characters than that are ever given to them, and who sees to it.
BOUNDED = {
    "platforms/bluesky/identity.py:_HANDLE": (253, "is_handle, which looks at the length first"),
    "platforms/bluesky/rules.py:_LANGUAGE": (200, "_is_language, which looks at the length first"),
}

# Collecting the tests only looks which files may have patterns: parsing them takes seconds, in each process of a run.
MODULES = find_modules(r"\b(re|regex)\.|\bcompile_lazily\(")


@functools.cache
def found_in(module: str = "") -> list[FoundPattern]:
    """The patterns of a module, or all."""
    found = found_in() if module else list(regex_attacks.find_patterns(EXAMPLES, HANDED_ON))
    return [each for each in found if module in ("", each.module)]


def check(found: FoundPattern) -> float:
    """The seconds that the worst text takes: the least of up to ATTEMPTS searches, for a busy machine slows some."""
    most, _ = BOUNDED.get(found.id, (LAB if found.module.startswith("simulator/") else LARGEST, ""))
    allowed, tried = SECONDS * max(1.0, most / SIZE), []
    while not tried or (tried[-1][0] >= allowed and len(tried) < ATTEMPTS):
        tried.append(regex_attacks.find_worst_text(found, most))
    took, case = min(tried)
    assert took < allowed, (found.id, took, case)
    return took


@pytest.mark.slow
@pytest.mark.parametrize("module", MODULES)
def test_a_pattern_is_linear_in_whatever_it_is_given(module: str) -> None:
    for found in found_in(module):
        print(f"{found.id}: {check(found) * 1000:.1f} ms")  # noqa: T201 - what to look at


@pytest.mark.slow
@pytest.mark.parametrize(
    "pattern",
    [
        re.compile(r"(x+x+)+y"),
        re.compile(r"<!--.*?-->", re.DOTALL),
        re.compile(rb"([a-z]+):[ \t]*([^\x00\r]*?)[ \t]*"),  # of a parser of responses until November 2026
        re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)?"),  # of the redaction
        re.compile(r"(?:a|b|ab)*c"),
        re.compile(r"\s+$"),
        regex.compile(r"\p{L}+\p{N}"),
    ],
    ids=lambda pattern: pattern.pattern,
)
def test_one_that_is_not_is_seen(pattern: object) -> None:
    """Time decides which texts are made longer, so on a busy machine a search may miss the worst: not each time.

    On a fast machine a quadratic search takes 0.6 s, twice what `check` allows.
    """
    searches = (
        regex_attacks.find_worst_text(FoundPattern("", "", pattern, frozenset([use])), SIZE)[0]
        for _ in range(5)
        for use in ("search", "fullmatch")
    )
    assert any(took >= SECONDS for took in searches)


@pytest.mark.slow
def test_every_pattern_is_found() -> None:
    ids = {found.id for found in found_in()}
    assert {found.module for found in found_in()} <= set(MODULES)
    assert {"base/http/network.py:_BLANK_LINE", "platforms/bluesky/text.py:_LINK"} <= ids
    assert BOUNDED.keys() <= ids
    assert len(found_in()) > 120


def test_patterns_are_made_where_they_are_found() -> None:
    """Under their own names: no `from re import`, no alias, and none of pydantic's that Python would match."""
    for module in find_modules(r"\b(from\s+(re|regex)|(re|regex)\s+as|regex_engine)\b"):
        for node in list_nodes(module):
            if isinstance(node, ast.ImportFrom):
                assert node.module not in ("re", "regex"), module
            if isinstance(node, ast.Import):
                assert all(alias.asname is None for alias in node.names if alias.name in ("re", "regex")), module
            if isinstance(node, ast.keyword):
                assert node.arg != "regex_engine", f"{module}: Rust's goes back over nothing"
