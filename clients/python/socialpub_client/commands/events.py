"""`socialpub events`: the event log as JSON lines, once or without end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from socialpub_client import atomic_files
from socialpub_client.client import Socialpub
from socialpub_client.commands.click_types import ApiOptions
from socialpub_client.commands.runner import Output, connect, tell
from socialpub_client.commands.webhooks import split_types
from socialpub_client.errors import SocialpubError

CURSOR_MAX = 1000


def events(options: ApiOptions) -> Output:
    """Print events as they come; each is printed before its cursor is kept."""
    after = options.after
    if options.cursor_file is not None and after is None:
        after = _read_cursor(options, options.cursor_file)
    return Output(rows=_events(options, connect(options), after))


def _events(options: ApiOptions, client: Socialpub, after: str | None) -> Iterator[Any]:
    types = split_types(options.types) or ()
    cursor: str | None = None  # that of an error's request is no place that was reached

    def keep(reached: str) -> None:
        nonlocal cursor
        if options.cursor_file is not None:
            write_cursor(options.cursor_file, reached)
        cursor = reached

    def tell_failure(error: SocialpubError) -> None:
        tell(options, f"{error.message} Trying again.")

    found = (
        client.events.follow(after=after, types=types, heartbeat=keep, on_retry=tell_failure)
        if options.follow
        else client.events.list(after=after, types=types, heartbeat=keep)
    )
    try:
        for event in found:
            yield dict(event.raw)
            keep(event.cursor)  # the row is written: the next start begins after it
    finally:
        if cursor:
            tell(options, f"cursor: {cursor}")


def _read_cursor(options: ApiOptions, path: Path) -> str | None:
    try:
        with path.open(encoding="ascii") as file:
            text = file.read(CURSOR_MAX).strip()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        options.usage(f"{path} holds no cursor")
    return text or None


def write_cursor(path: Path, cursor: str) -> None:
    """Write the file whole: a crash leaves the old cursor or the new one."""
    atomic_files.write(path, f"{cursor}\n".encode("ascii"))
