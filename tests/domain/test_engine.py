"""The engine: it needs no web server, and no kind of job waits for another."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from socialpub.simulator.server import SimulatorThread


def test_a_scheduled_post_goes_out_where_there_is_no_web_server(tmp_path: Path, lab: SimulatorThread) -> None:
    made = lab.lab.add_account("bluesky", handle="alone.test")
    arguments = (str(tmp_path), lab.origin("bluesky"), made["handle"], made["appPassword"])
    ended = subprocess.run(
        [sys.executable, "-m", "tests.domain.engine_alone", *arguments], capture_output=True, timeout=60, text=True
    )
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == {"status": "published", "web": []}
    assert [post.text for post in lab.lab.ledger.posts()] == ["without a web server"]
