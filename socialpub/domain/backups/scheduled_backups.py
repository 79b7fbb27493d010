"""Backups on a schedule, into a folder or a bucket: made in small steps, the oldest removed.

When the last one was made is what its name says, so a restart makes none too many and none too few.
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

BACKUP_RETRY_SECONDS = 600.0  # after one that could not be made


class _BackupStoppedError(Exception):
    """The server stops; the next one makes the backup."""


class ScheduledBackups:
    """`look` is a task of the queue; `is_stopping`: what is under way is given up."""

    def __init__(self, service: AppContext, is_stopping: Callable[[], bool]) -> None:
        self._service, self._settings = service, service.runtime.settings.backup
        self._is_stopping = is_stopping
        self.problem = ""  # why the last one could not be made or sent, or what of it is not as it should be
        self._flaws = ""  # of the last one that was made
        self._sent: int | None = None  # when the newest in the bucket was made; None: it was not looked at yet

    def look(self) -> None:
        """Make a backup when one is due; RetryTask where it could not be made."""
        if self._is_due() or self._is_to_send():
            self._run()

    @property
    def _folder(self) -> FolderDestination | None:
        return FolderDestination(Path(self._settings.directory)) if self._settings.directory else None

    def newest(self) -> int | None:
        """When the last one was made, of those in the folder, or in the bucket where there is no folder."""
        if self._folder is None:
            return self._sent
        return max((each.made for each in self._folder.kept()), default=None)

    def _is_due(self) -> bool:
        """In the folder."""
        return self._folder is not None and self._is_old(self.newest())

    def _is_to_send(self) -> bool:
        return bool(self._settings.s3_endpoint) and self._is_old(self._sent)

    def _is_old(self, newest: int | None) -> bool:
        return newest is None or self._service.now_ms - newest >= self._settings.every * 1000

    def _run(self) -> None:
        try:
            self._keep_all()
        except _BackupStoppedError:
            return
        except (BackupError, S3BucketError, ConfigError, StartError, OSError) as error:
            self.problem = os_errors.describe(error) or str(error)
            log.error("no backup could be made: %s", self.problem)
            raise RetryTask from error
        else:
            self.problem = self._flaws

    def _keep_all(self) -> None:
        if self._folder and self._is_due():
            self._make(self._folder.directory)
        for shelf in build_destinations(self._settings):
            if isinstance(shelf, S3Destination) and self._is_to_send():
                self._send(shelf)
            for name in delete_old(shelf, self._settings.keep):
                log.info("backup %s was removed: there are %d newer ones", shelf.where(name), self._settings.keep)

    def _make(self, directory: Path) -> Path:
        service, now_ms = self._service, self._service.now_ms
        file = directory / format_name(now_ms)
        private_files.make_folder(file.parent)
        source, settings = snapshot.from_server(service.db), service.runtime.settings
        made = creation.create_backup(source, settings, file, now_ms, self._give_way, with_key=False)
        self._flaws = "; ".join(made.problems)
        log.info("backup %s: %d bytes, %d files of media", made.file, made.size, made.manifest.media_files)
        for problem in made.problems:
            log.error("backup %s: %s", made.file, problem)
        return file

    def _send(self, store: S3Destination) -> None:
        """Unless there is a new one in the bucket: the newest of the folder, or one that is made for it."""
        self._sent = max((each.made for each in store.kept()), default=None)
        if not self._is_to_send():
            return
        with self._newest() as file:
            store.bucket.put(file, file.name, archive.count_bytes("sending", file.stat().st_size, self._give_way))
        self._sent = max(each.made for each in store.kept())
        log.info("backup %s is in the bucket", store.where(file.name))

    @contextlib.contextmanager
    def _newest(self) -> Iterator[Path]:
        if self._folder:
            yield self._folder.directory / self._folder.kept()[0].name
            return
        with create_folder(self._service.runtime.settings.data_dir, S3_PREFIX) as folder:
            yield self._make(folder)

    def _give_way(self, what: str, done: int, total: int) -> None:
        if self._is_stopping():
            raise _BackupStoppedError
