"""`socialpub backup`, `verify`, `restore`: all data in one file, with or without a server."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from socialpub.base.config import Settings
from socialpub.base.runtime import SystemClock, find_key_problem, format_iso
from socialpub.base.s3 import S3Bucket
from socialpub.base.security import private_files
from socialpub.commands.click_types import CommandOptions
from socialpub.commands.serve import CommandRefusedError, find_database, hold_server_lock, load_settings, make_private
from socialpub.domain.backups import creation, restoration, verification
from socialpub.domain.backups.archive import ArchiveReader, count_bytes
from socialpub.domain.backups.destinations import build_destinations
from socialpub.domain.backups.staging import S3_PREFIX, create_folder, sweep
from socialpub.domain.publishing import overdue_rule
from socialpub.domain.server import copy_detection, instance
from socialpub.store import database as db
from socialpub.store.schema import snapshot
from socialpub_client.commands.exit_codes import FAILED
from socialpub_client.commands.runner import is_terminal

BAR_WIDTH = 30


def backup(options: CommandOptions) -> dict[str, Any]:
    """Create a backup; return `{file, bytes, sha256, ok, …}`. Exit code 1 for problems."""
    settings = load_settings(options)
    find_database(settings)
    make_private(settings)
    name = _object_name(options.file)
    if name is None:
        return _describe(options, str(options.file), _create(options, settings, options.file))
    bucket = open_bucket(settings)
    with create_folder(settings.data_dir, S3_PREFIX) as folder:
        made = _create(options, settings, folder / name)
        bucket.put(made.file, name, count_bytes("sending", made.size, make_progress(options)))
    return _describe(options, bucket.where(name), made)


def _create(options: CommandOptions, settings: Settings, file: Path) -> creation.BackupReport:
    source, now_ms = snapshot.from_file(settings.database_path), SystemClock().now_ms()
    with copy_detection.record_own_changes(settings):
        return creation.create_backup(
            source, settings, file, now_ms, make_progress(options), with_key=options.with_keys
        )


def verify(options: CommandOptions) -> dict[str, Any]:
    """Read a whole backup; return as `backup`."""
    with _local_file(options) as file:
        found = verification.verify_backup(file, make_progress(options))
    return _describe(options, str(options.file), found)


def restore(options: CommandOptions) -> dict[str, Any]:
    """Restore; return `{database, takenAt, mediaFiles, key, paused, overdue, next}`."""
    settings = load_settings(options)
    for folder in (settings.data_dir, settings.data_dir / "media", settings.key_file.parent):
        sweep(folder)
    _refuse_existing(settings)
    with (
        _local_file(options) as file,
        contextlib.closing(ArchiveReader(file)) as reader,  # before the lock creates a folder for what is no backup
        hold_server_lock(settings),
    ):
        _refuse_existing(settings)
        restored = restoration.restore_backup(settings, reader, make_progress(options))
    keys, late = _inspect(settings)
    return {
        "database": str(restored.database),
        "takenAt": restored.manifest.taken_at,
        "mediaFiles": restored.manifest.media_files,
        "key": "restored" if restored.key else _describe_key(settings, keys),
        "paused": instance.RESTORED,
        "overdue": [{"id": row["id"], "dueAt": format_iso(overdue_rule.get_due_time(row))} for row in late],
        "next": f"socialpub serve, compare with the platforms, then: {instance.get_resume_command(instance.RESTORED)}",
    }


def _refuse_existing(settings: Settings) -> None:
    """Raise CommandRefusedError if there is a database already."""
    existing = restoration.find_existing(settings)
    if existing:
        raise CommandRefusedError(
            f"{existing} already exists, and a restore overwrites nothing. Move it and the files beside it away, "
            "or choose other paths: --database FILE --data-dir DIR"
        )


def list_backups(options: CommandOptions) -> list[dict[str, Any]]:
    """List the server's own backups as `[{madeAt, bytes, file}]`, newest first per place."""
    settings = load_settings(options)
    named = build_destinations(settings.backup)
    if not named:
        raise CommandRefusedError("No backups are set up: set backup.directory or backup.s3_endpoint")
    if settings.backup.directory:
        sweep(Path(settings.backup.directory))
    return [
        {"madeAt": format_iso(each.made), "bytes": each.size, "file": destination.format_address(each.name)}
        for destination in named
        for each in destination.list_backups()
    ]


# --- Bucket ----------------------------------------------------------------------------------------------------------

IN_BUCKET = "s3:"


def _object_name(file: Path) -> str | None:
    """Return the object name of `s3:NAME`; None for a file."""
    text = str(file)
    return text.removeprefix(IN_BUCKET).lstrip("/") if text.startswith(IN_BUCKET) else None


def open_bucket(settings: Settings) -> S3Bucket:
    """Open the configured bucket. Raises CommandRefusedError without one."""
    if not settings.backup.s3_endpoint:
        raise CommandRefusedError(
            "No bucket is set up: set backup.s3_endpoint, s3_bucket, s3_access_key and s3_secret_key"
        )
    return S3Bucket(settings.backup)


@contextlib.contextmanager
def _local_file(options: CommandOptions) -> Iterator[Path]:
    """Provide the backup as a file, downloaded if it is in the bucket."""
    name = _object_name(options.file)
    if name is None:
        sweep(options.file.parent)
        yield options.file
        return
    settings = load_settings(options)
    bucket = open_bucket(settings)
    size = bucket.size(name)  # before the folder is created
    with create_folder(settings.data_dir, S3_PREFIX) as folder:
        file = folder / Path(name).name
        with os.fdopen(private_files.create(file), "wb") as into:
            bucket.get(name, into, count_bytes("fetching", size, make_progress(options)))
        yield file


def _describe_key(settings: Settings, needed: set[str]) -> str:
    if missing := sorted(key for key in needed if find_key_problem(settings, key)):
        return f"missing: {', '.join(missing)}"
    return "there" if settings.security.encryption_keys or settings.key_file.exists() else "none needed"


def _inspect(settings: Settings) -> tuple[set[str], list[overdue_rule.DuePost]]:
    """Read the master key ids that the database needs, and its overdue posts."""
    with contextlib.closing(db.Database(settings.database_path).open()) as database:
        needed = database.read(instance.list_needed_keys).result()
        return needed, database.read(lambda: overdue_rule.list_overdue(SystemClock().now_ms())).result()


def _describe(
    options: CommandOptions, file: str, report: creation.BackupReport | verification.VerifyReport
) -> dict[str, Any]:
    options.exit_code = FAILED if report.problems else 0
    return {
        "file": file,
        "bytes": report.size,
        "sha256": report.sha256,
        "ok": not report.problems,
        "takenAt": report.manifest.taken_at,
        "schema": report.manifest.schema_name,
        "mediaFiles": report.manifest.media_files,
        "problems": list(report.problems),
    }


def make_progress(options: CommandOptions) -> Callable[[str, int, int], None]:
    """Return a progress callback: a bar on a terminal, otherwise nothing."""
    if options.json or not is_terminal(sys.stderr):
        return lambda what, done, total: None
    before = ""

    def show(what: str, done: int, total: int) -> None:
        nonlocal before
        share = min(1.0, done / max(1, total))
        line = f"{what:<20} [{'#' * int(share * BAR_WIDTH):<{BAR_WIDTH}}] {share:4.0%}"
        if line != before:
            end = "\n" if share == 1.0 else ""
            print(f"\r{line}", end=end, file=sys.stderr, flush=True)
            before = line

    return show
