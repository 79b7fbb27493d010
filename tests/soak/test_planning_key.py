"""Many calls by chance with a planning key: the platforms are given nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from socialpub.simulator.server import SimulatorThread
from tests.support.reporting import ReportLine
from tests.support.scoped_cast import check_planning, running_cast
from tests.support.soak.soak_world import configured_count

CALLS = configured_count("planned_calls", 20_000)
SEED = 20261126


@pytest.mark.slow
def test_many_calls_with_a_planning_key_publish_nothing(
    tmp_path: Path, lab_thread: SimulatorThread, tell: ReportLine
) -> None:
    lab_thread.lab.reset()
    with running_cast(tmp_path, lab_thread) as cast:
        check_planning(cast, CALLS, SEED)
        tell(f"{CALLS} calls with a planning key, seed {SEED}: nothing was published")
