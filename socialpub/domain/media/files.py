"""Media bytes on disk: arrival, storage by SHA-256, removal.

Equal files are stored once. A file is durable before a row names it, and is removed once no row does; in between, each
request that brought it holds a lease that keeps clean-up away.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import shutil
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from socialpub.base import fault_injection
from socialpub.base.errors import rule_error
from socialpub.base.security import private_files
from socialpub.base.system import directories
from socialpub.domain.context import storage_errors
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.context.storage_errors import FULL_RETRY_SECONDS
from socialpub.domain.media.probe import SNIFF_BYTES
from socialpub.store.engine import sql
from socialpub.store.queries import maintenance
from socialpub.store.schema.models import Media

RESERVE_BYTES = 200 * 1024 * 1024
RESERVE_CHECK_BYTES = 16 * 1024 * 1024
LEASE_SECONDS = 900.0
LEFTOVER_SECONDS = 2 * 3600.0
INCOMING_PREFIX = ".arriving-"
THUMBNAILS = "thumbnails"
THUMBNAIL_EDGES = (320, 960)  # pixels of the longest edge
CLEANUP_BATCH_SIZE = 500

log = logging.getLogger("socialpub.files")

_lock = threading.Lock()
_leases: dict[Path, list[float]] = {}  # expiry times (monotonic), one per `save`
_incoming = weakref.WeakValueDictionary[Path, "IncomingFile"]()  # the files being written, by their paths


def media_directory(service: AppContext) -> Path:
    return service.runtime.settings.data_dir / "media"


def file_path(service: AppContext, sha256: str) -> Path:
    """Return the path of the bytes with this hash."""
    return media_directory(service) / sha256[:2] / sha256


def thumbnail_path(service: AppContext, sha256: str, edge: int) -> Path:
    """Return the path of a thumbnail of the bytes with this hash; backups do not hold it."""
    return media_directory(service) / THUMBNAILS / sha256[:2] / f"{sha256}-{edge}"


def find_problem(data_dir: Path, named: bool) -> str | None:
    """Describe a problem with the media folder, without its path. `named`: rows name files."""
    folder = data_dir / "media"
    if not data_dir.is_dir():
        return "the data folder is gone"
    if not os.access(data_dir, os.R_OK | os.W_OK | os.X_OK):
        return "the data folder cannot be written"
    if folder.is_dir():
        usable = os.access(folder, os.R_OK | os.W_OK | os.X_OK)
        return None if usable else "the media folder cannot be read and written"
    if os.path.lexists(folder):
        return "the media folder is not a folder"
    return "the media folder is gone" if named else None


def has_references() -> bool:
    """Return whether rows reference files."""
    return sql.fetch_value(maintenance.FIND_SMALLEST_MEDIA) is not None


def check_folder(service: AppContext) -> None:
    """Raise ApiError `storage.unavailable` if the folder is unusable; after a missing file."""
    why = find_problem(service.runtime.settings.data_dir, named=True)
    if why:
        raise rule_error("storage.unavailable", f"Media cannot be used: {why}.", retry_after=FULL_RETRY_SECONDS)


def check_space(folder: Path) -> None:
    """Raise ApiError `storage.unavailable` if less than the reserve is free."""
    with contextlib.suppress(FileNotFoundError):
        if shutil.disk_usage(folder).free < RESERVE_BYTES:
            raise rule_error("storage.unavailable", "There is no room for more media.", retry_after=FULL_RETRY_SECONDS)


class IncomingFile:
    """Incoming file: counted and hashed while written, deleted unless moved."""

    def __init__(self, folder: Path, max_bytes: int | None = None) -> None:
        with storage_errors.translate():
            private_files.make_folder(folder)
            check_space(folder)
            handle, self.path = private_files.create_temporary(folder, INCOMING_PREFIX)
        _incoming[self.path] = self
        self.file = os.fdopen(handle, "wb")
        self.size, self.head = 0, b""
        self._max, self._hash, self._checked = max_bytes, hashlib.sha256(), 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def write(self, data: bytes) -> None:
        """Write a chunk. Raises ApiError `media.size_max`, `storage.unavailable` (disk full)."""
        self.size += len(data)
        if self._max is not None and self.size > self._max:
            raise rule_error("media.size_max")
        if self.size - self._checked > RESERVE_CHECK_BYTES:
            check_space(self.path.parent)
            self._checked = self.size
        self.head += data[: max(0, SNIFF_BYTES - len(self.head))]
        self._hash.update(data)
        with storage_errors.translate():
            fault_injection.hit("media.write")
            self.file.write(data)

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def suspend(self) -> None:
        """Close the file for now, without fsync; `finish` follows."""
        with storage_errors.translate():
            self.file.close()

    def finish(self) -> None:
        """Flush the file to disk, under its current name."""
        with storage_errors.translate():
            self.file.close()
            with self.path.open("rb") as file:
                os.fsync(file.fileno())

    def move_to(self, path: Path) -> None:
        """Move the finished file to its place, durably."""
        with storage_errors.translate():
            private_files.make_folder(path.parent)
            os.replace(self.path, path)
            for folder in (path.parent, path.parent.parent):
                directories.sync(folder)

    def close(self) -> None:
        """Delete the file unless it was moved; disk errors were reported earlier."""
        with contextlib.suppress(OSError):
            self.file.close()
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)


# --- Saving and removing ---------------------------------------------------------------------------------------------


def save(service: AppContext, incoming: IncomingFile) -> Path:
    """Store the finished file by hash; leased until it is released, for 15 minutes at most."""
    path = file_path(service, incoming.sha256)
    with _lock:
        _leases.setdefault(path, []).append(service.runtime.clock.monotonic() + LEASE_SECONDS)
        if not path.exists():
            incoming.move_to(path)
    return path


def release(service: AppContext, sha256: str) -> None:
    """End one lease: a row names the file now."""
    path = file_path(service, sha256)
    with _lock:
        if path in _leases:
            _leases[path].pop(0)
        _drop_expired_leases(path, 0)


def release_unreferenced(service: AppContext, sha256: str) -> None:
    """End one lease without a row; delete the file if unreferenced."""
    release(service, sha256)
    remove_unreferenced(service, sha256)


def remove_unreferenced(service: AppContext, sha256: str) -> bool:
    """Delete a file unless a row or lease needs it; return whether it was deleted."""
    path = file_path(service, sha256)
    with _lock:
        _drop_expired_leases(path, service.runtime.clock.monotonic())
        if path in _leases or service.read(lambda: _find_referenced([sha256])).result():
            return False
        for edge in THUMBNAIL_EDGES:
            thumbnail_path(service, sha256, edge).unlink(missing_ok=True)
        path.unlink(missing_ok=True)
    return True


def save_thumbnails(service: AppContext, sha256: str, found: Mapping[int, bytes]) -> None:
    """Store the thumbnails of a stored file, by their edges; none if the file was deleted."""
    for edge, data in found.items():
        with IncomingFile(media_directory(service)) as incoming:
            incoming.write(data)
            incoming.finish()
            with _lock:
                if file_path(service, sha256).exists():
                    incoming.move_to(thumbnail_path(service, sha256, edge))


def _drop_expired_leases(path: Path, now: float) -> None:
    left = [ends for ends in _leases.pop(path, ()) if ends > now]
    if left:
        _leases[path] = left


def _find_referenced(hashes: Iterable[str]) -> set[str]:
    query = Media.select(Media.sha256).where(Media.sha256.in_(list(hashes)), Media.deleted_at.is_null())
    return {row[0] for row in query.tuples()}


def clean_up(service: AppContext) -> int:
    """Delete unreferenced files, their thumbnails and incomplete uploads; return the number."""
    removed = sum(_remove_leftover(service, path) for path in media_directory(service).glob(f"**/{INCOMING_PREFIX}*"))
    removed += sum(_remove_orphan(service, path) for path in (media_directory(service) / THUMBNAILS).glob("??/*"))
    for part in _split_batches([path.name for path in media_directory(service).glob("??/[0-9a-f]*")]):
        needed = service.read(lambda: _find_referenced(part)).result()  # noqa: B023 - read before the next round
        removed += sum(remove_unreferenced(service, sha256) for sha256 in part if sha256 not in needed)
    return removed


def _remove_leftover(service: AppContext, path: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        if path not in _incoming and service.now_ms / 1000 - path.stat().st_mtime > LEFTOVER_SECONDS:
            path.unlink()
            return True
    return False


def _remove_orphan(service: AppContext, thumbnail: Path) -> bool:
    """Delete a thumbnail whose file is gone, as after a restore; return whether it was."""
    with _lock:
        if file_path(service, thumbnail.name.partition("-")[0]).exists():
            return False
        thumbnail.unlink(missing_ok=True)
    return True


def _split_batches(names: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(names), CLEANUP_BATCH_SIZE):
        yield names[start : start + CLEANUP_BATCH_SIZE]
