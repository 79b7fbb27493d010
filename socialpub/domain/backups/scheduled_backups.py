"""Scheduled backups to a folder, a bucket or both; old ones are deleted.

The time of the last backup is read from its file name, so a restart neither repeats nor skips one.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

from socialpub.base.config import ConfigError
from socialpub.base.s3 import S3BucketError
from socialpub.base.security import private_files
from socialpub.base.system import os_errors
from socialpub.domain.backups import archive, creation
from socialpub.domain.backups.archive import BackupError
from socialpub.domain.backups.destinations import (
    FolderDestination,
    S3Destination,
    StoredBackup,
    build_destinations,
    delete_old,
    format_name,
)
from socialpub.domain.backups.staging import S3_PREFIX, create_folder
from socialpub.domain.context.app_context import AppContext
from socialpub.store.engine.locks import StartError
from socialpub.store.jobs.job_queue import RetryTask
from socialpub.store.schema import snapshot

log = logging.getLogger("socialpub.backups")

BACKUP_RETRY_SECONDS = 600.0  # after a failed backup


class _BackupStoppedError(Exception):
    """Control flow: the server stops; the backup is made after the next start."""


class ScheduledBackups:
    """Scheduled backups, run by a periodic task. `is_stopping`: abort a running backup."""

    def __init__(self, service: AppContext, is_stopping: Callable[[], bool]) -> None:
        self._service, self._settings = service, service.runtime.settings.backup
        self._is_stopping = is_stopping
        self.problem = ""  # error or defects of the last backup
        self._defects = ""  # of the last backup that was made
        self._sent: int | None = None  # creation time (ms) of the newest one in the bucket; None: not read yet

    def run_due(self) -> None:
        """Make a backup if one is due. Raises RetryTask if it fails."""
        try:
            if self._is_due() or self._is_upload_due():
                self._run_all()
            self.problem = self._defects or self._describe_newest()
        except _BackupStoppedError:
            return
        except (BackupError, S3BucketError, ConfigError, StartError, OSError) as error:
            self.problem = os_errors.describe(error) or str(error)
            log.error("the backup failed and is retried in %d minutes: %s", BACKUP_RETRY_SECONDS // 60, self.problem)
            raise RetryTask from error

    @property
    def _folder(self) -> FolderDestination | None:
        return FolderDestination(Path(self._settings.directory)) if self._settings.directory else None

    def newest(self) -> int | None:
        """Return the creation time (ms) of the newest backup, or None."""
        if self._folder is None:
            return self._sent
        with contextlib.suppress(OSError):  # its disk is away: `problem` says so
            return _get_time(self._find_newest(self._folder))
        return None

    def _find_newest(self, destination: FolderDestination | S3Destination) -> StoredBackup | None:
        """Return the newest backup; one of a clock that was ahead does not count."""
        now_ms = self._service.now_ms
        return next((each for each in destination.list_backups() if each.made <= now_ms), None)

    def _describe_newest(self) -> str:
        """Say whether the newest backup, also one made before the last start, has problems."""
        newest = self._find_newest(self._folder) if self._folder else None
        if newest is None or not newest.has_problems:
            return ""
        return f"{newest.name} has problems: `socialpub verify` lists them."

    def _is_due(self) -> bool:
        return self._folder is not None and self._is_old(_get_time(self._find_newest(self._folder)))

    def _is_upload_due(self) -> bool:
        return bool(self._settings.s3_endpoint) and self._is_old(self._sent)

    def _is_old(self, newest: int | None) -> bool:
        return newest is None or not 0 <= self._service.now_ms - newest < self._settings.every * 1000

    def _run_all(self) -> None:
        if self._folder and self._is_due():
            self._make(self._folder.directory)
        for destination in build_destinations(self._settings):
            if isinstance(destination, S3Destination) and self._is_upload_due():
                self._upload(destination)
            for name in delete_old(destination, self._settings.keep, self._service.now_ms):
                log.info(
                    "backup %s was deleted: there are %d newer ones",
                    destination.format_address(name),
                    self._settings.keep,
                )

    def _make(self, directory: Path) -> Path:
        service, now_ms = self._service, self._service.now_ms
        file = directory / format_name(now_ms)
        private_files.make_folder(file.parent)
        source, settings = snapshot.from_server(service.db), service.runtime.settings
        made = creation.create_backup(
            source,
            settings,
            file,
            now_ms,
            self._check_stop,
            with_key=False,
            file_with_problems=directory / format_name(now_ms, has_problems=True),
        )
        self._defects = "; ".join(made.problems)
        log.info("backup %s was made: %d bytes, %d media files", made.file, made.size, made.manifest.media_files)
        for problem in made.problems:
            log.error("backup %s: %s", made.file, problem)
        return made.file

    def _upload(self, destination: S3Destination) -> None:
        """Upload the newest backup of the folder, or a new one, unless the bucket has a recent one."""
        self._sent = _get_time(self._find_newest(destination))
        if not self._is_upload_due():
            return
        with self._newest() as file:
            destination.bucket.put(
                file, file.name, archive.count_bytes("sending", file.stat().st_size, self._check_stop)
            )
        self._sent = _get_time(self._find_newest(destination))
        log.info("backup %s was uploaded", destination.format_address(file.name))

    @contextlib.contextmanager
    def _newest(self) -> Iterator[Path]:
        if self._folder:
            newest = self._find_newest(self._folder)
            assert newest is not None, "the folder's backup is made first"
            yield self._folder.directory / newest.name
            return
        with create_folder(self._service.runtime.settings.data_dir, S3_PREFIX) as folder:
            yield self._make(folder)

    def _check_stop(self, what: str, done: int, total: int) -> None:
        if self._is_stopping():
            raise _BackupStoppedError


def _get_time(backup: StoredBackup | None) -> int | None:
    return backup.made if backup else None
