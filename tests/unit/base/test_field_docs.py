"""Field documentation from docstrings below fields, also without source files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typing_extensions import TypedDict

from socialpub.base import field_docs
from socialpub.base.settings_sections import ServerSettings, SettingsSection
from socialpub.base.system import pyinstaller

PACKAGE = Path(field_docs.__file__).parents[1]


class Mine(ServerSettings):
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
    told = field_docs.read(Mine)
    assert told["own"] == "Of its own,\nin two lines."
    assert told["port"] == field_docs.read(ServerSettings)["port"] == "The port to listen on. 0: any free port."
    assert "unsaid" not in told
    assert field_docs.read(SettingsSection) == {}


def test_an_answer_has_those_of_the_one_that_it_extends() -> None:
    assert field_docs.read(Small) == {"a": "The first."}
    assert field_docs.read(Large) == {"a": "The first.", "b": "The second."}


def test_without_sources_they_are_those_that_were_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = field_docs.read(ServerSettings)
    package = tmp_path / "socialpub"
    (package / "base").mkdir(parents=True)
    shutil.copy(PACKAGE / "base" / "settings_sections.py", package / "base")
    field_docs.write_shipped(package, tmp_path / "kept.json")
    kept = json.loads((tmp_path / "kept.json").read_text())
    assert kept["socialpub.base.settings_sections"]["ServerSettings"] == before
    monkeypatch.setattr(pyinstaller, "is_binary", lambda: True)
    monkeypatch.setattr(field_docs, "_load_shipped", lambda: kept)
    field_docs._load_module.cache_clear()
    assert field_docs.read(ServerSettings) == before
    field_docs._load_module.cache_clear()


def test_pydantic_reads_no_source_when_a_class_is_made() -> None:
    """It would do so for each class, at each start."""
    setting = "use_attribute" + "_docstrings=True"
    assert not [path for path in PACKAGE.rglob("*.py") if setting in path.read_text()]
