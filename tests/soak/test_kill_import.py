"""SIGKILL at every step of `import`: a second run completes it without duplicates."""

from __future__ import annotations

import json
import sqlite3
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from socialpub.commands.import_export import BATCH_LINES
from tests.support.app_server import format_instant
from tests.support.soak.killable_command import FAR_FUTURE, run_killable
from tests.support.soak.soak_world import SoakWorld, running_world, wait_for

pytestmark = pytest.mark.slow
LINES = 3 * BATCH_LINES + 5
PASSES = 4  # of a step: the file is gone through twice
STEPS = (
    *(f"import.step@{number}" for number in range(1, 2 * PASSES + 1)),
    *(f"{name}@{number}" for name in ("sched.before_commit", "sched.after_commit") for number in (1, 7, LINES)),
    *(f"db.commit@{number}" for number in (1, 2, 3)),
)


def texts(world: SoakWorld, prefix: str) -> Counter[str]:
    with closing(sqlite3.connect(world.database)) as found:
        rows = found.execute("SELECT text FROM post WHERE text LIKE ?", (f"{prefix}:%",)).fetchall()
    return Counter(text for (text,) in rows)


@pytest.mark.parametrize("served", [True, False], ids=["beside a server", "alone"])
def test_an_import_killed_at_every_step_goes_on(tmp_path: Path, served: bool) -> None:
    with running_world(tmp_path, on=("bluesky",)) as world:
        world.start()
        (account, *_), *_ = world.accounts.values()
        if not served:
            assert world.stop() == 0
        for step in STEPS:
            wanted = Counter(f"{step}:{number}" for number in range(LINES))
            file = world.folder / f"{step}.ndjson"
            lines = [{"account": account, "text": text, "scheduledAt": FAR_FUTURE} for text in wanted]
            file.write_text("".join(json.dumps(line) + "\n" for line in lines))
            name, _, at = step.partition("@")
            code, _ = run_killable(world.folder, "import", file.name, faults=f"{name}=kill@{at}")
            assert code == -9, step
            there = texts(world, step)
            assert there <= wanted, step
            code, report = run_killable(world.folder, "import", file.name)
            assert (code, report["imported"], report["there"]) == (0, LINES - len(there), len(there)), step
            assert texts(world, step) == wanted, step
        if served:
            assert world.stop() == 0


def test_what_is_imported_beside_a_server_goes_out_once(tmp_path: Path) -> None:
    with running_world(tmp_path, on=("bluesky",)) as world:
        world.start()
        (account, *_), *_ = world.accounts.values()
        file = world.folder / "soon.ndjson"
        soon = format_instant(time.time_ns() // 1_000_000 + 30_000)
        file.write_text(json.dumps({"account": account, "text": "soon:1", "scheduledAt": soon}) + "\n")
        for _ in range(2):
            assert run_killable(world.folder, "import", file.name)[0] == 0
        with world.client() as client:
            wait_for(lambda: client.get("/v1/posts").json()["data"][0]["status"] == "published", 90)
            assert len(client.get("/v1/posts").json()["data"]) == 1
        assert world.stop() == 0
