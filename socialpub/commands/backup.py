"""`socialpub backup`, `verify` and `restore`: everything in one file, beside a running server or without one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from socialpub.base.config import Settings
from socialpub.base.runtime import SystemClock, iso
from socialpub.commands.parts import Options
from socialpub.commands.serve import RefusedError, only_server, settings_of
from socialpub.domain.backups import checking, restoring, taking
from socialpub.domain.backups.archive import Manifest
from socialpub.domain.core import copies, instance, overdue
from socialpub.store import db

BAR = 30
FAILED = 1


def backup(options: Options) -> dict[str, Any]:
    """`{file, bytes, sha256, ok, …}` of the backup that was made; exit code 1 where something in it is not right."""
    settings = settings_of(options)
    if not settings.database_path.exists():
        raise RefusedError(f"{settings.database_path} is not there: there is nothing to back up")
    with copies.changed_by_us(settings):
        database = db.Database(settings.database_path).open()
        try:
            made = taking.take(
                database, settings, options.file, SystemClock().now_ms(), told(options), with_key=options.with_keys
            )
        finally:
            database.close()
    return _shown(options, made.file, made.size, made.sha256, made.manifest, made.problems)


def verify(options: Options) -> dict[str, Any]:
    """The same of a backup that is there, after reading everything in it."""
    found = checking.check(options.file, told(options))
    return _shown(options, options.file, found.size, found.sha256, found.manifest, found.problems)


def restore(options: Options) -> dict[str, Any]:
    """Put a backup in its place: `{database, takenAt, mediaFiles, key, paused, overdue, next}`."""
    settings = settings_of(options)
    with only_server(settings):
        there = restoring.in_the_way(settings)
        if there:
            raise RefusedError(
                f"{there} is there already, and a restore writes over nothing. Move it away with what lies beside it, "
                "or name other places: --database FILE --data-dir DIR"
            )
        restored = restoring.restore(settings, options.file, told(options))
    keys, late = _looked_at(settings)
    return {
        "database": str(restored.database),
        "takenAt": restored.manifest.taken_at,
        "mediaFiles": restored.manifest.media_files,
        "key": "restored" if restored.key else "there" if _has_key(settings) else f"missing: {', '.join(sorted(keys))}",
        "paused": instance.RESTORED,
        "overdue": [{"id": row["id"], "dueAt": iso(overdue.due_of(row))} for row in late],
        "next": "socialpub serve, compare with the platforms, then: socialpub resume --after-restore",
    }


def _has_key(settings: Settings) -> bool:
    return bool(settings.security.encryption_keys) or settings.key_file.exists()


def _looked_at(settings: Settings) -> tuple[set[str], list[overdue.DuePost]]:
    """The master keys that the database needs, and its posts that were due before now."""
    database = db.Database(settings.database_path).open()
    try:
        needed = database.read(instance.needed_keys).result()
        return needed, database.read(lambda: overdue.before(SystemClock().now_ms())).result()
    finally:
        database.close()


def _shown(
    options: Options, file: Path, size: int, sha256: str, manifest: Manifest, problems: tuple[str, ...]
) -> dict[str, Any]:
    options.exit_code = FAILED if problems else 0
    return {
        "file": str(file),
        "bytes": size,
        "sha256": sha256,
        "ok": not problems,
        "takenAt": manifest.taken_at,
        "schema": manifest.schema_name,
        "mediaFiles": manifest.media_files,
        "problems": list(problems),
    }


def told(options: Options) -> Callable[[str, int, int], None]:
    """A bar for whoever watches; nothing for programs."""
    if options.json or not sys.stderr.isatty():
        return lambda what, done, total: None
    before = ""

    def tell(what: str, done: int, total: int) -> None:
        nonlocal before
        share = min(1.0, done / max(1, total))
        line = f"{what:<20} [{'#' * int(share * BAR):<{BAR}}] {share:4.0%}"
        if line != before:
            end = "\n" if share == 1.0 else ""
            print(f"\r{line}", end=end, file=sys.stderr, flush=True)
            before = line

    return tell
