"""One organization (or nobody) attacks, another publishes, uploads, lists and has a post due every second: it hardly
notices. Each row of the table is one attack; `WALLS_SECONDS` is how long each goes on, and with `WALLS_TABLE=put` each
row is written into docs/promises.md."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import Tell
from tests.soak.world import TIMED
from tests.walls.siege import HEAD, Siege, a_siege, put

pytestmark = [pytest.mark.slow, pytest.mark.alone]

ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "ids": ("5 × validate of 25 targets with 10,000 media ids", {}),
    "fields": ("5 × 8 MB of wrong targets, 600,000 unknown fields, a name of 8 MB", {}),
    "cookies": ("nobody: 8 × a cookie of 7,000 backslashes", {}),
    "halves": ("nobody: 100 half-sent bodies of 8 MiB, 4 × `POST /login` with 8 MB", {}),
    "logins": ("nobody: 8 × `POST /login` with 101 fields", {}),
    "images": ("12 × upload of a progressive JPEG of 120 scans", {}),
    "texts": ("8 × validate of 25 texts of 100,000 × `com.`", {}),
    "readers": ("nobody: 16 readers of `/docs/reference`", {}),
    "idle": ("nobody: 1,100 idle connections at 1,024 descriptors", {"descriptors": 1024}),
    "hanging": (
        "12 × validate of dripping media, 300 immediate posts to a platform that hangs",
        {"hangs": True},
    ),
    "scheduled": (
        "450 scheduled posts of 150 accounts to a platform that hangs",
        {"hangs": True},
    ),
}

PUT = os.environ.get("WALLS_TABLE") == "put"  # each row is written into docs/promises.md


@pytest.fixture(scope="module")
def siege(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Siege]:
    with a_siege(tmp_path_factory.mktemp("siege")) as siege:
        yield siege


@pytest.mark.parametrize("attack", ROWS)
def test_an_attack_is_hardly_noticed_by_others(attack: str, siege: Siege, tell: Tell) -> None:
    title, more = ROWS[attack]
    row = siege.run(attack, title, **more)
    tell(row.told() if siege.rows > 1 else f"{HEAD}\n{row.told()}")
    if PUT:
        put(row.told())
    assert row.faults(timed=TIMED) == []
