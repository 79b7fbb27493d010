"""The check of names and docstrings in `make lint` finds each kind of fault."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FINE = '"""Queue of jobs."""\n'
FAULTS = {
    "a class name used twice": (
        {"socialpub/a.py": f"{FINE}class Row: ...\n", "socialpub/b.py": f"{FINE}class Row: ...\n"},
        "the class name Row is used 2 times",
    ),
    "a participle": ({"socialpub/sending.py": FINE}, "a module is named by a noun"),
    "an irregular participle": ({"socialpub/kept.py": FINE}, "a module is named by a noun"),
    "a preposition": ({"socialpub/inside.py": FINE}, "a module is named by a noun"),
    "a long first line": ({"socialpub/a.py": f'"""{"Queue " * 20}."""\n'}, "has 121 characters"),
    "an opening": ({"socialpub/a.py": f'{FINE}def find():\n    """What is due."""\n'}, "begins with 'What'"),
    "an opening of two words": ({"socialpub/a.py": '"""The same for jobs."""\n'}, "begins with 'The'"),
    "no sentence": ({"socialpub/a.py": '"""Queue of jobs that\nare due."""\n'}, "is no sentence of its own"),
    "a test without a docstring": ({"tests/test_a.py": "x = 1\n"}, "the module has no docstring"),
    "a word in the program": ({"socialpub/a.py": f"{FINE}# Whoever asks.\n"}, "'Whoever' stands for a noun"),
    "a word on a page": ({"templates/a.html": "<p>Nobody is told.</p>\n"}, "'Nobody' stands for a noun"),
    "words in a guide": ({"docs/a.md": "somebody\n" * 15}, "15 counted words, 14 at most"),
}


def found_in(folder: Path, files: dict[str, str]) -> list[str]:
    """Return the faults that the check finds in these files."""
    for name in ("socialpub", "templates", "docs", "tests", "benchmarks", ".ci"):
        (folder / name).mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    check: dict[str, Any] = runpy.run_path(str(ROOT / ".ci" / "names.py"))
    check["main"].__globals__["ROOT"] = folder
    return [fault for part in ("classes", "modules", "docstrings", "words") for fault in check[part]()]


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found(tmp_path: Path, name: str) -> None:
    files, fault = FAULTS[name]
    assert any(fault in line for line in found_in(tmp_path, files))


def test_plain_names_and_sentences_have_no_fault(tmp_path: Path) -> None:
    files = {"socialpub/queue.py": f"{FINE}class Job: ...\n", "docs/a.md": "A job is due.\n", "tests/test_a.py": FINE}
    assert found_in(tmp_path, files) == []
