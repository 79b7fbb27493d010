"""Attacks by one organization have little effect on the requests of another.

One organization, or a caller without a key, attacks; another publishes, uploads, lists and has a post due every second.
Each row of the table is one attack; `WALLS_SECONDS` is how long each goes on, and with `WALLS_TABLE=put` each row is
written into docs/promises.md.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.support.isolation.attack_measurement import HEAD, ROWS, AttackSetup, running_setup, write_attack_row
from tests.support.reporting import TIMED, ReportLine

pytestmark = [pytest.mark.slow, pytest.mark.alone]


PUT = os.environ.get("WALLS_TABLE") == "put"  # each row is written into docs/promises.md


@pytest.fixture(scope="module")
def siege(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AttackSetup]:
    with running_setup(tmp_path_factory.mktemp("siege")) as siege:
        yield siege


@pytest.mark.parametrize("attack", ROWS)
def test_an_attack_is_hardly_noticed_by_others(attack: str, siege: AttackSetup, tell: ReportLine) -> None:
    title, more = ROWS[attack]
    row = siege.run(attack, title, **more)
    tell(row.told() if siege.rows > 1 else f"{HEAD}\n{row.told()}")
    if PUT:
        write_attack_row(row.told())
    assert row.faults(timed=TIMED) == []
