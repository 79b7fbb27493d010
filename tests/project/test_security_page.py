"""Table of docs/security.md: every row names tests that exist."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINE = re.compile(r"\| (\d+) \| (.+) \| (.+) \|")
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
LINES = [
    found.groups() for line in (ROOT / "docs/security.md").read_text().splitlines() if (found := LINE.fullmatch(line))
]


@cache
def defined_in(path: str) -> set[str]:
    return set(re.findall(r"^def (test_\w+)", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE))


def test_the_table_has_all_lines_in_order() -> None:
    numbers = [int(number) for number, _, _ in LINES]
    assert numbers == list(range(1, 66))


@pytest.mark.parametrize(("number", "what", "shown"), LINES)
def test_each_row_names_tests_that_exist(number: str, what: str, shown: str) -> None:
    named = TEST.findall(shown)
    assert named
    assert [(path, name) for path, name in named if name not in defined_in(path)] == []
    assert len(named) == len(set(named)) == shown.count("::"), "a test that is named in another form, or twice"
