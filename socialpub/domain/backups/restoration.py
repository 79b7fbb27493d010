"""Restore of a backup; it can be killed at any point and repeated.

Media files go to their places by hash, without conflicts. The database comes last: it is renamed when everything else
is on disk. It starts paused, because posts it calls queued may have been published since.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from socialpub.base import fault_injection
from socialpub.base.config import Settings
from socialpub.base.security import private_files
from socialpub.base.system import directories, os_errors
from socialpub.domain.backups import archive, verification
from socialpub.domain.backups.archive import BackupError, BackupManifest, BackupProgressCallback
from socialpub.domain.backups.staging import RESTORE_PREFIX, create_folder
from socialpub.domain.server import copy_detection
from socialpub.store.engine.locks import get_write_lock_path, list_files, remove_files
from socialpub.store.schema import migration, snapshot


@dataclass(frozen=True)
class RestoreReport:
    """Result of a restore. `key`: the master key came from the backup."""

    database: Path
    manifest: BackupManifest
    key: bool


def find_existing(settings: Settings) -> Path | None:
    """Return an existing database file, which a restore never overwrites."""
    return next((path for path in list_files(settings.database_path)[:2] if path.exists()), None)


def restore_backup(
    settings: Settings, reader: archive.ArchiveReader, progress: BackupProgressCallback
) -> RestoreReport:
    """Restore a backup where no data exist yet. Raises BackupError or StartError."""
    try:
        private_files.make_folder(settings.data_dir)
        key = _choose_key(settings, reader)
        fresh = _restore_database(settings, reader, archive.count_bytes("restoring", reader.size, progress))
        if key is not None:
            with create_folder(settings.key_file.parent, RESTORE_PREFIX) as folder:
                _put_file(settings.key_file, folder, lambda into: into.write(key))
        fault_injection.hit("restore.mid")
        copy_detection.get_state_path(settings).unlink(missing_ok=True)  # belongs to the old database
        os.replace(fresh, settings.database_path)
        directories.sync(settings.database_path.parent)
        return RestoreReport(settings.database_path, reader.manifest, key is not None)
    except OSError as error:
        raise BackupError(
            f"The backup cannot be restored: {error.filename or ''} {os_errors.describe(error)}."
        ) from error


def _choose_key(settings: Settings, reader: archive.ArchiveReader) -> bytes | None:
    """Return the backup's master key if it must be written. Raises BackupError on conflict."""
    key = reader.key()
    if key is None or settings.security.encryption_keys:
        return None
    if not settings.key_file.exists():
        return key
    if settings.key_file.read_bytes() == key:
        return None
    raise BackupError(f"{settings.key_file} differs from the master key in the backup. Move it away first.")


def _restore_database(settings: Settings, reader: archive.ArchiveReader, moved: archive.ByteCounter) -> Path:
    """Extract media and database; migrate and check it under a temporary name."""
    fresh = copy_detection.get_restore_path(settings.database_path)
    private_files.make_folder(fresh.parent)
    remove_files(fresh)
    with os.fdopen(private_files.create(fresh), "wb") as into:
        reader.extract_database(into, moved)
    verification.check_database(fresh)
    _restore_all_media(settings.data_dir / "media", reader, moved)
    migration.migrate(fresh)
    snapshot.checkpoint(fresh)
    get_write_lock_path(fresh).unlink(missing_ok=True)
    with fresh.open("rb") as file:
        os.fsync(file.fileno())
    return fresh


def _restore_all_media(home: Path, reader: archive.ArchiveReader, moved: archive.ByteCounter) -> None:
    names = list(reader.media)
    if not names:
        return
    with create_folder(home, RESTORE_PREFIX) as folder:
        for name in names:
            _restore_media(home / name[:2] / name, folder, reader, moved)
            fault_injection.hit("restore.media")


def _restore_media(place: Path, folder: Path, reader: archive.ArchiveReader, moved: archive.ByteCounter) -> None:
    """Extract a media file unless already present. Raises BackupError if damaged."""
    if place.exists() and archive.hash_file(place) == place.name:
        moved(place.stat().st_size)
        return

    def fill(into: IO[bytes]) -> None:
        if not reader.extract_media(place.name, into, moved):
            raise BackupError(f"{reader.path} is damaged: media file {place.name} has changed.")

    _put_file(place, folder, fill)


def _put_file(place: Path, folder: Path, fill: Callable[[IO[bytes]], object]) -> None:
    """Write a file in `folder`, sync it and rename it to its place."""
    private_files.make_folder(place.parent)
    handle, part = private_files.create_temporary(folder, "")
    with os.fdopen(handle, "wb") as into:
        fill(into)
        into.flush()
        os.fsync(into.fileno())
    fault_injection.hit("restore.put")
    os.replace(part, place)
    directories.sync(place.parent)
