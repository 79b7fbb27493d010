"""Create a backup beside a running server: a database snapshot, and all its media files.

The files are pinned first by hard links, so that none the snapshot names can disappear while the archive is written.
The archive gets its name once it is complete.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from socialpub import __version__
from socialpub.base import fault_injection
from socialpub.base.config import Settings
from socialpub.base.runtime import format_iso
from socialpub.base.security import private_files
from socialpub.base.system import os_errors
from socialpub.domain.backups import archive, verification
from socialpub.domain.backups.archive import (
    DATABASE,
    BackupError,
    BackupExistsError,
    BackupManifest,
    BackupProgressCallback,
)
from socialpub.domain.backups.staging import PART_PREFIX, PINS_PREFIX, create_folder, give_name
from socialpub.store.engine.integrity import check_integrity
from socialpub.store.schema import snapshot
from socialpub.store.schema.snapshot import SnapshotSource


@dataclass(frozen=True)
class BackupReport:
    """New backup. `problems`: defects of the data, although everything available is inside."""

    file: Path
    size: int
    sha256: str
    manifest: BackupManifest
    problems: tuple[str, ...]


def create_backup(
    source: SnapshotSource,
    settings: Settings,
    file: Path,
    now_ms: int,
    progress: BackupProgressCallback,
    *,
    with_key: bool,
    file_with_problems: Path | None = None,
) -> BackupReport:
    """Write a backup to a new file. Raises BackupError and leaves nothing on failure.

    `file_with_problems`: used instead of `file` if the backup has problems.
    """
    if file.exists():
        raise BackupExistsError(f"{file} exists already. Choose another name, or move the file away.")
    key = _read_key(settings) if with_key else None
    try:
        with (
            create_folder(file.parent, PART_PREFIX) as staging,
            _pin_media(settings.data_dir / "media", staging) as pins,
        ):
            part, copy = staging / "backup.zip", staging / DATABASE
            problems = _create_snapshot(source, settings, copy, pins, progress)
            fault_injection.hit("backup.snapshot")
            manifest = _build_manifest(copy, pins, now_ms)
            with os.fdopen(private_files.replace(part), "wb") as into:
                problems += _write_archive(into, manifest, copy, pins, key, progress)
            fault_injection.hit("backup.mid")
            found = verification.verify_backup(part, progress)
            fault_injection.hit("backup.checked")
            problems += found.problems
            file = file_with_problems if problems and file_with_problems else file
            try:
                give_name(part, file)
            except FileExistsError as error:
                raise BackupExistsError(f"{file} exists already: another process has just created it.") from error
            fault_injection.hit("backup.named")
    except OSError as error:
        raise BackupError(f"{file} cannot be written: {os_errors.describe(error)}.") from error
    return BackupReport(file, found.size, found.sha256, manifest, tuple(problems))


def _read_key(settings: Settings) -> bytes:
    if settings.security.encryption_keys:
        raise BackupError("The master keys are in the settings, not in a file: keep a copy of the settings.")
    try:
        return settings.key_file.read_bytes()
    except OSError as error:
        raise BackupError(f"{settings.key_file} cannot be read: {os_errors.describe(error)}.") from error


# --- Pins ----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _pin_media(media: Path, staging: Path) -> Iterator[Path]:
    """Create a directory with hard links to all media files.

    It is in `staging` while there is no media folder, before the first upload.
    """
    with create_folder(media if media.is_dir() else staging, PINS_PREFIX) as folder:
        for path in media.glob("??/[0-9a-f]*"):
            _link_file(path, folder)
        yield folder


def _link_file(path: Path, folder: Path) -> bool:
    """Link a file; return whether it exists."""
    pin = folder / path.name
    try:
        os.link(path, pin)
    except (FileExistsError, FileNotFoundError):
        return pin.exists()
    except OSError:  # another file system, or one without hard links
        try:
            private_files.copy(path, pin)
        except FileNotFoundError:  # deleted meanwhile
            return False
    return True


# --- Content -------------------------------------------------------------------------------------------------------


def _create_snapshot(
    source: SnapshotSource, settings: Settings, copy: Path, pins: Path, progress: BackupProgressCallback
) -> list[str]:
    """Take a checked snapshot. Raises BackupError; returns problems of its media."""
    media = settings.data_dir / "media"

    def see(connection: sqlite3.Connection) -> list[str]:
        names = snapshot.find_media_hashes(connection)
        missing = [name for name in sorted(names) if not _link_file(media / name[:2] / name, pins)]
        for path in pins.iterdir():
            if path.name not in names:
                path.unlink()
        snapshot.copy(connection, copy, lambda done, total: progress("copying the database", done, total))
        return [f"media file {name} is missing" for name in missing]

    problems = source(see)
    check_integrity(copy)
    snapshot.checkpoint(copy)
    return problems


def _build_manifest(copy: Path, pins: Path, now_ms: int) -> BackupManifest:
    sizes = [path.stat().st_size for path in pins.iterdir()]
    return BackupManifest(
        format=archive.FORMAT,
        version=__version__,
        schema_name=snapshot.read_newest_migration(copy),
        taken_at=format_iso(now_ms),
        database_bytes=copy.stat().st_size,
        database_sha256=archive.hash_file(copy),
        media_files=len(sizes),
        media_bytes=sum(sizes),
    )


def _write_archive(
    into: IO[bytes],
    manifest: BackupManifest,
    copy: Path,
    pins: Path,
    key: bytes | None,
    progress: BackupProgressCallback,
) -> list[str]:
    """Write the archive; return the problems of changed media files."""
    moved = archive.count_bytes("writing", manifest.database_bytes + manifest.media_bytes, progress)
    with contextlib.closing(archive.ArchiveWriter(into)) as writer:  # also closes an unfinished one
        writer.add_manifest(manifest)
        if key is not None:
            writer.add_key(key)
        writer.add_database(copy, moved)
        fault_injection.hit("backup.write")
        changed = [path.name for path in sorted(pins.iterdir()) if not writer.add_media(path.name, path, moved)]
    return [f"media file {name} has changed on disk" for name in changed]
