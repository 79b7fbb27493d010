"""Runner of backup commands, and the posts and files that the backups contain."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from PIL import Image

from tests.support.app_server import AppServer, Person, format_instant
from tests.support.command_runner import CommandResult, run_command


def backup_command(server: AppServer, *words: str, **places: Path) -> CommandResult:
    """A command as a process of its own, on the server's files or on others."""
    chosen = places or {"database": server.home / "socialpub.db"}
    options = [part for name, path in chosen.items() for part in (f"--{name.replace('_', '-')}", str(path))]
    return run_command(*words, "--json", *options, cwd=server.home)


def schedule_post(server: AppServer, alice: Person, *media: str) -> str:
    """The id of a post that goes out in an hour."""
    at = format_instant(server.clock.now_ms() + 3_600_000)
    body: dict[str, Any] = {"text": "later", "targets": [{"accountId": alice.bluesky}], "scheduledAt": at}
    if media:
        body["media"] = list(media)
    made = alice.api.post("/v1/posts", json=body)
    assert made.status_code == 202
    return str(made.json()["results"][0]["postId"])


def upload_file(alice: Person, shade: int = 0) -> str:
    return str(alice.api.post("/v1/media", files={"file": ("a.png", _png(shade), "image/png")}).json()["id"])


def _png(shade: int) -> bytes:
    into = io.BytesIO()
    Image.new("RGB", (8, 8), (shade, 0, 0)).save(into, "PNG")
    return into.getvalue()
