"""Glossary terms are defined where the glossary says, and have no second name."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from tests.support.program_source import MODULES, PACKAGE, read_file

ROOT = Path(__file__).parents[2]
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
ROWS = [
    tuple(cell.strip() for cell in line.strip("|").split("|"))
    for line in GLOSSARY.splitlines()
    if line.startswith("| ") and not line.startswith("| Term ")
]
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def names() -> set[str]:
    """Return every word in the names of modules, classes and functions of the program, in lower case."""
    found: set[str] = set()
    for module in MODULES:
        found |= {
            Path(module).stem,
            *re.findall(r"^\s*(?:class|(?:async )?def) (\w+)", read_file(PACKAGE / module), re.M),
        }
    return {word for name in found for word in re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().split("_")}


def test_the_glossary_has_few_rows_in_the_order_of_the_alphabet() -> None:
    words = [row[0] for row in ROWS]
    assert 15 < len(words) < 25
    assert words == sorted(words)
    assert len(set(words)) == len(words)


@pytest.mark.parametrize(("word", "meaning", "where"), [row[:3] for row in ROWS])
def test_a_term_is_defined_where_the_glossary_says(word: str, meaning: str, where: str) -> None:
    module, _, name = where.strip("`").partition(":")
    found = importlib.import_module(module)
    assert meaning
    assert not name or hasattr(found, name)


def test_nothing_is_named_by_a_second_word() -> None:
    second = {word.strip() for row in ROWS for word in row[3].split(",") if word.strip()}
    assert second
    assert second & names() == set()


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`((?:\w+/)+[\w*]*(?:\.\w+)?)`", ARCHITECTURE))))
def test_every_file_that_the_architecture_names_exists(path: str) -> None:
    assert list((ROOT / "socialpub").glob(path.rstrip("/")))
