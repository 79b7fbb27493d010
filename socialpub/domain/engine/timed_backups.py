"""Backups on a schedule, into a folder: made by a thread that gives way to everything else, the oldest removed.

When the last one was made is what its name says, so a restart makes none too many and none too few.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from socialpub.base import troubles
from socialpub.domain.backups import taking
from socialpub.domain.backups.archive import BackupError
from socialpub.domain.core.service import Service
from socialpub.store.locks import StartError

log = logging.getLogger("socialpub.backups")

NAME = "socialpub-%Y%m%dT%H%M%SZ.zip"
AGAIN_SECONDS = 600.0  # after one that could not be made
JOIN_SECONDS = 5.0


class _StoppedError(Exception):
    """The server stops; the next one makes the backup."""


class TimedBackups:
    """`look` from the keeper; a backup that is due is made in a thread of its own."""

    def __init__(self, service: Service) -> None:
        self._service, self._settings = service, service.runtime.settings.backup
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._not_before = float("-inf")
        self.problem = ""  # why the last one could not be made

    def look(self) -> None:
        """Begin a backup, when one is due and none is under way."""
        if not self._settings.directory or (self._thread and self._thread.is_alive()):
            return
        if self._service.runtime.clock.monotonic() >= self._not_before and self._is_due():
            self._thread = threading.Thread(target=self._make, name="backup", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """What is under way is given up."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(JOIN_SECONDS)

    def newest(self) -> int | None:
        """When the last one was made, of those that are there."""
        return max((at for at, _ in self._made()), default=None) if self._settings.directory else None

    def _is_due(self) -> bool:
        newest = self.newest()
        return newest is None or self._service.now_ms - newest >= self._settings.every * 1000

    def _made(self) -> Iterator[tuple[int, Path]]:
        """Those that are there: when each was made, in ms, and where it is."""
        for path in Path(self._settings.directory).glob("socialpub-*.zip"):
            try:
                made = datetime.strptime(path.name, NAME).replace(tzinfo=UTC)
            except ValueError:
                continue  # somebody else's
            yield int(made.timestamp() * 1000), path

    def _make(self) -> None:
        service, now_ms = self._service, self._service.now_ms
        named = datetime.fromtimestamp(now_ms / 1000, UTC).strftime(NAME)
        file = Path(self._settings.directory, named)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            made = taking.take(service.db, service.runtime.settings, file, now_ms, self._give_way, with_key=False)
        except _StoppedError:
            return
        except (BackupError, StartError, OSError) as error:
            self._not_before = service.runtime.clock.monotonic() + AGAIN_SECONDS
            self.problem = troubles.why(error) or str(error)
            log.error("no backup could be made: %s", self.problem)
            return
        self.problem = "; ".join(made.problems)
        log.info("backup %s: %d bytes, %d files of media", made.file, made.size, made.manifest.media_files)
        for problem in made.problems:
            log.error("backup %s: %s", made.file, problem)
        self._thin_out()

    def _give_way(self, what: str, done: int, total: int) -> None:
        if self._stopping.is_set():
            raise _StoppedError

    def _thin_out(self) -> None:
        for _, path in sorted(self._made(), reverse=True)[self._settings.keep :]:
            path.unlink(missing_ok=True)
            log.info("backup %s was removed: there are %d newer ones", path, self._settings.keep)
