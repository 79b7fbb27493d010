"""What is said of fields stands below them in the source, and goes along where there are no sources."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typing_extensions import TypedDict

from socialpub.base import binary, docstrings
from socialpub.base.config import Section, Server

PACKAGE = Path(docstrings.__file__).parents[1]


class Mine(Server):
    host: str = "elsewhere"
    own: str = ""
    """Of its own,
    in two lines."""
    unsaid: str = ""


class Small(TypedDict):
    a: str
    """The first."""
    b: str


class Large(Small):
    b: str
    """The second."""


def test_they_are_of_the_class_and_of_those_that_it_extends() -> None:
    told = docstrings.of(Mine)
    assert told["own"] == "Of its own,\nin two lines."
    assert told["port"] == docstrings.of(Server)["port"] == "The port to listen on. 0: any free port."
    assert "unsaid" not in told
    assert docstrings.of(Section) == {}


def test_an_answer_has_those_of_the_one_that_it_extends() -> None:
    assert docstrings.of(Small) == {"a": "The first."}
    assert docstrings.of(Large) == {"a": "The first.", "b": "The second."}


def test_without_sources_they_are_those_that_were_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = docstrings.of(Server)
    docstrings.keep(PACKAGE, tmp_path / "kept.json")
    kept = json.loads((tmp_path / "kept.json").read_text())
    assert kept["socialpub.base.config"]["Server"] == before
    monkeypatch.setattr(binary, "is_binary", lambda: True)
    monkeypatch.setattr(docstrings, "_kept", lambda: kept)
    docstrings._of_module.cache_clear()
    assert docstrings.of(Server) == before
    docstrings._of_module.cache_clear()


def test_pydantic_reads_no_source_when_a_class_is_made() -> None:
    """It would do so for each class, at each start."""
    setting = "use_attribute" + "_docstrings=True"
    assert not [path for path in PACKAGE.rglob("*.py") if setting in path.read_text()]
