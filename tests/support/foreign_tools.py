"""Programs of others, installed from npm and PyPI in locked versions."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

SECONDS = 540  # of one command


def report_missing(what: str) -> None:
    """Skip with a reason; fail in CI, where every tool must be there."""
    reason = f"{what} is not installed"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def need(*programs: str, files: Sequence[Path] = ()) -> None:
    """Go on only where these programs and files are there."""
    for program in programs:
        if shutil.which(program) is None:
            report_missing(program)
    for file in files:
        if not file.exists():
            report_missing(str(file))


def run_tool(command: Sequence[str | Path], folder: Path, **environment: str) -> str:
    """Return the standard output of a command that must succeed."""
    ended = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert ended.returncode == 0, f"{command[0]} failed:\n{(ended.stdout + ended.stderr)[-6000:]}"
    return ended.stdout


def install_from_pypi(requirements: Path, folder: Path) -> Path:
    """Return the folder of the programs of a separate virtual environment with these packages."""
    run_tool([sys.executable, "-m", "venv", folder / "venv"], folder)
    programs = folder / "venv" / "bin"
    run_tool([programs / "python", "-m", "pip", "install", "--quiet", "-r", requirements], folder)
    return programs


def install_from_npm(lock: Path, folder: Path) -> Path:
    """The folder, with the packages of a `package-lock.json` in `node_modules`."""
    need("node", "npm")
    for name in ("package.json", "package-lock.json"):
        shutil.copy(lock / name, folder)
    run_tool(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], folder)
    return folder
