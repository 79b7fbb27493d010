"""SIGKILL at every statement of an upgrade: the next start completes it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import earlier_databases
from tests.support.reporting import ReportLine
from tests.support.soak.soak_world import ROOT

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("number", range(1, earlier_databases.newest_version()))
def test_an_upgrade_killed_at_any_statement_goes_on(number: int, tmp_path: Path, tell: ReportLine) -> None:
    source, folder = earlier_databases.make_database(tmp_path / "former.db", number, tmp_path), tmp_path / "data"
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.soak.upgrade_main", source, folder],
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
