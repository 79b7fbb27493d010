"""Input files for `socialpub import`, and runners of import and export."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.command_runner import RunCommand

LATER = "2035-01-02T03:04:05.000Z"


BLUESKY, X = "did:plc:a", "7"


def make_line(number: int = 0, **more: Any) -> dict[str, Any]:
    return {"account": BLUESKY, "text": f"post {number}", "scheduledAt": LATER} | more


def write_lines(folder: Path, *lines: Any, name: str = "posts.ndjson") -> str:
    text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    (folder / name).write_text(text)
    return name


def run_import(run: RunCommand, *arguments: str, code: int = 0) -> dict[str, Any]:
    ended = run("--json", "import", *arguments)
    assert ended.code == code, ended.err
    return dict(ended.json)


def run_export(run: RunCommand, *arguments: str) -> list[dict[str, Any]]:
    ended = run("export", "-", *arguments)
    assert ended.code == 0, ended.err
    return [json.loads(line) for line in ended.out.splitlines()]
