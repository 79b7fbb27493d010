"""Lazy unpacking of libraries in the one-file PyInstaller binary."""

from __future__ import annotations

import importlib.machinery
import sys
import zipfile
from pathlib import Path

import pytest

from socialpub.base.system import pyinstaller


@pytest.fixture
def unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the binary would have unpacked itself, with the libraries of one package still packed."""
    monkeypatch.setattr(sys, "_MEIPASS", str(tmp_path), raising=False)
    with zipfile.ZipFile(tmp_path / "PIL.zip", "w") as archive:
        archive.writestr("PIL/_imaging.so", b"library")
        archive.writestr("pillow.libs/libjpeg.so", b"another")
    return tmp_path


def test_libraries_are_unpacked_when_their_package_is_imported(unpacked: Path) -> None:
    pyinstaller.LazyArchiveFinder.find_spec("sanic", None)
    assert [path.name for path in unpacked.iterdir()] == ["PIL.zip"]
    pyinstaller.LazyArchiveFinder.find_spec("PIL", None)
    assert (unpacked / "PIL" / "_imaging.so").read_bytes() == b"library"
    assert (unpacked / "pillow.libs" / "libjpeg.so").read_bytes() == b"another"
    assert not (unpacked / "PIL.zip").exists()


def test_whoever_comes_later_finds_them_there(unpacked: Path) -> None:
    pyinstaller.LazyArchiveFinder.find_spec("PIL")
    (unpacked / "PIL" / "_imaging.so").write_bytes(b"in use")
    pyinstaller.LazyArchiveFinder.find_spec("PIL")
    assert (unpacked / "PIL" / "_imaging.so").read_bytes() == b"in use"


def test_each_package_that_is_unpacked_late_is_there() -> None:
    assert all(importlib.machinery.PathFinder.find_spec(name) for name in pyinstaller.LAZY_PACKAGES)
