"""Modifiable copy of this checkout, and commands run inside it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
COPIED = ("socialpub", "clients", "templates", "migrations", "tests", "benchmarks", "docs")
# Nothing of this checkout is on the path of what runs in the copy.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SOCIALPUB_"))}


def copy_checkout(folder: Path) -> Path:
    """This checkout; its compiled modules too, which are good for as long as their sources stay as they are."""
    for name in COPIED:
        shutil.copytree(ROOT / name, folder / name)
    for name in ("pyproject.toml", "README.md", "socialpub.toml.example", "requirements.lock", "requirements-dev.lock"):
        shutil.copy2(ROOT / name, folder)
    return folder


def source_files(folder: Path) -> dict[str, bytes]:
    """The files that a person edits."""
    files = (path for name in COPIED for path in (folder / name).rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files if "__pycache__" not in path.parts}


def run_command(command: list[str | Path], folder: Path) -> str:
    """What a command says that ends well."""
    ended = subprocess.run(command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def run_module(folder: Path, *arguments: str) -> str:
    return run_command([sys.executable, "-m", *arguments], folder)


def run_tests(folder: Path, *arguments: str) -> str:
    return run_module(folder, "pytest", "-p", "no:cacheprovider", "-p", "no:schemathesis", *arguments)


@contextlib.contextmanager
def running_demo(folder: Path) -> Iterator[dict[str, Any]]:
    """What the demo of a copy says of itself while it runs."""
    command = [sys.executable, "-m", "socialpub", "demo", "--port", "0", "--json"]
    said, unsaid = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(command, cwd=folder, env=ENVIRONMENT, stdout=said, stderr=unsaid, text=True) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())
        finally:
            process.terminate()
            process.wait(timeout=30)
