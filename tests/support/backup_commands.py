"""Runner of backup commands, and the posts and files that the backups contain."""

from __future__ import annotations

import io
from pathlib import Path

from PIL import Image

from tests.support.app_server import AppServer, Person
from tests.support.command_runner import CommandResult, run_command


def backup_command(server: AppServer, *words: str, **places: Path) -> CommandResult:
    """A command as a process of its own, on the server's files or on others."""
    chosen = places or {"database": server.home / "socialpub.db"}
    options = [part for name, path in chosen.items() for part in (f"--{name.replace('_', '-')}", str(path))]
    return run_command(*words, "--json", *options, cwd=server.home)


def upload_file(alice: Person, shade: int = 0) -> str:
    return str(alice.api.post("/v1/media", files={"file": ("a.png", _png(shade), "image/png")}).json()["id"])


def _png(shade: int) -> bytes:
    into = io.BytesIO()
    Image.new("RGB", (8, 8), (shade, 0, 0)).save(into, "PNG")
    return into.getvalue()
