"""Runner of CLI commands that a fault can kill at a named point."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.support.app_server import format_instant

FAR_FUTURE = format_instant(4_000_000_000_000)


def run_killable(folder: Path, *words: str, faults: str = "") -> tuple[int, dict[str, object]]:
    """A command's exit code (-9: it was killed) and its JSON."""
    environment = os.environ | {"SOCIALPUB_TEST": "1", "SOCIALPUB_FAULTS": faults}
    ended = subprocess.run(
        [sys.executable, "-m", "socialpub", *words, "--json"],
        cwd=folder,
        env=environment | {"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    return ended.returncode, json.loads(ended.stdout) if ended.stdout else {}
