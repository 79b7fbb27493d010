"""Fixtures of the binary and the wheel, each built once in a run."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("binary")
    builder = Path(sys.executable).with_name("pyinstaller")
    folders = ["--distpath", folder / "dist", "--workpath", folder / "work"]
    command = [builder, "--noconfirm", "--log-level", "ERROR", *folders, ROOT / ".ci" / "binary.spec"]
    subprocess.run(command, check=True, timeout=300, env=os.environ | {"PYINSTALLER_CONFIG_DIR": str(folder)})
    return folder / "dist" / "socialpub"


def execute(command: Sequence[str | Path], cwd: Path) -> str:
    """What a command says on standard output; it must end with 0, and nothing of this checkout is on its path."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SOCIALPUB_"))}
    ended = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built without network by the build tool that the lock file has."""
    folder = tmp_path_factory.mktemp("dist")
    execute([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], cwd=ROOT)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def client_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the client, which has the program `socialpub`."""
    folder = tmp_path_factory.mktemp("client")
    execute([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], cwd=ROOT / "clients" / "python")
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, client_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `socialpub` command of a fresh environment that has both wheels and, borrowed from here, what they need."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    site = Path(execute([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], cwd=folder).strip())
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--no-index", "--no-deps"]
    execute([*install, client_wheel, wheel], cwd=folder)
    borrowed = [path for path in map(Path, sys.path) if path.name in ("site-packages", "dist-packages")]
    # After the wheel's own files, so that an editable install of this checkout cannot stand in for them.
    (site / "borrowed.pth").write_text("".join(f"{path}\n" for path in borrowed))
    return folder / "bin" / "socialpub"
