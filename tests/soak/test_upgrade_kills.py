"""SIGKILL at every statement of an upgrade: the next start goes on, and nothing is lost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests import formers
from tests.conftest import Tell
from tests.soak.world import ROOT

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("number", range(1, formers.newest()))
def test_an_upgrade_killed_at_any_statement_goes_on(number: int, tmp_path: Path, tell: Tell) -> None:
    source, folder = formers.made(tmp_path / "former.db", number, tmp_path), tmp_path / "data"
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "tests.soak.upgrade_main", source, folder],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    tell(f"an upgrade from migration {number}: {found['kills']} kills at {found['statements']} statements")
    assert found["wrong"] == []
    assert found["kills"] >= 1
