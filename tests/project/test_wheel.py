"""Built wheel: complete contents, and commands that work from another directory."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from socialpub import __version__
from tests.project.conftest import execute

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


def test_the_wheel_carries_templates_migrations_and_its_types(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    for folder in ("templates", "migrations"):
        files = [path for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts]
        assert {f"socialpub/_shipped/{path.relative_to(ROOT)}" for path in files} <= names
    pages = {f"socialpub/simulator/page/{name}" for name in ("ledger.html", "page.css", "clip.mp4")}
    assert {"socialpub/py.typed", *pages} <= names
    assert f"socialpub-{__version__}.dist-info/licenses/LICENSE" in names


def test_the_wheel_carries_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.split("/")[0] for name in archive.namelist()}
    assert tops == {"socialpub", f"socialpub-{__version__}.dist-info"}


def test_the_installed_command_tells_its_version(installed: Path, tmp_path: Path) -> None:
    assert execute([installed, "--version"], cwd=tmp_path) == f"{__version__}\n"


def test_the_installed_command_is_not_the_checkout(installed: Path, tmp_path: Path) -> None:
    python = installed.with_name("python")
    where = execute([python, "-c", "import socialpub; print(socialpub.__file__)"], cwd=tmp_path).strip()
    assert Path(where).is_relative_to(installed.parents[1])


def test_the_installed_command_migrates_from_another_directory(installed: Path, tmp_path: Path) -> None:
    answer = json.loads(execute([installed, "migrate", "--json"], cwd=tmp_path))
    names = sorted(path.stem for path in (ROOT / "migrations").glob("*.py"))
    assert answer == {"from": None, "to": names[-1], "applied": names}
    assert (tmp_path / "socialpub.db").exists()


def test_the_installed_demo_publishes_with_pages_and_simulator(installed: Path, tmp_path: Path) -> None:
    batch = json.loads(execute([installed, "demo", "--once", "--port", "0", "--json"], cwd=tmp_path))
    assert batch["status"] == "published"
