"""Media bytes on the disk: how they arrive, where they are kept under their hash, and when they go.

Equal files are kept once. A file is in its place, durably, before a row names it, and goes once no row does; between
those two it is leased, by each request that brought it, so that whoever removes files leaves it alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import shutil
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from socialpub.base import faults, folders, private
from socialpub.base.errors import refuse
from socialpub.domain.core import disk
from socialpub.domain.core.disk import FULL_RETRY_SECONDS
from socialpub.domain.core.service import Service
from socialpub.domain.media.probe import SNIFF_BYTES
from socialpub.store import sql
from socialpub.store.models import Media
from socialpub.store.statements import sweeps

RESERVE_BYTES = 200 * 1024 * 1024
RESERVE_EVERY = 16 * 1024 * 1024
LEASE_SECONDS = 900.0
LEFTOVER_SECONDS = 2 * 3600.0
ARRIVING = ".arriving-"
STEP = 500

log = logging.getLogger("socialpub.files")

_lock = threading.Lock()
_leases: dict[Path, list[float]] = {}  # until when, on the monotonic clock: one for each `keep`


def home(service: Service) -> Path:
    return service.runtime.settings.data_dir / "media"


def file_of(service: Service, sha256: str) -> Path:
    """Where the bytes with this hash are."""
    return home(service) / sha256[:2] / sha256


def trouble(data_dir: Path, named: bool) -> str | None:
    """What is wrong with the folder of media, in words without its path. `named`: rows name files in it."""
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


def are_named() -> bool:
    """Whether rows name files."""
    return sql.value(sweeps.ANY_MEDIA) is not None


def check(service: Service) -> None:
    """ApiError `storage.unavailable` unless the folder of media can be used; after a file was not found."""
    why = trouble(service.runtime.settings.data_dir, named=True)
    if why:
        raise refuse("storage.unavailable", f"Media cannot be used: {why}.", retry_after=FULL_RETRY_SECONDS)


def check_space(folder: Path, coming: int = 0) -> None:
    """ApiError `storage.unavailable` when writing `coming` bytes would leave the disk less than its reserve."""
    with contextlib.suppress(FileNotFoundError):
        if shutil.disk_usage(folder).free - coming < RESERVE_BYTES:
            raise refuse("storage.unavailable", "There is no room for more media.", retry_after=FULL_RETRY_SECONDS)


class Arriving:
    """A file on its way in: counted and hashed as it is written, and gone again unless it was kept."""

    def __init__(self, folder: Path, max_bytes: int | None = None) -> None:
        with disk.told():
            private.make_folder(folder)
            check_space(folder)
            handle, self.path = private.create_temporary(folder, ARRIVING)
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
        """ApiError `media.size_max` above the most that is taken, `storage.unavailable` when the disk is filling up."""
        self.size += len(data)
        if self._max is not None and self.size > self._max:
            raise refuse("media.size_max")
        if self.size - self._checked > RESERVE_EVERY:
            check_space(self.path.parent)
            self._checked = self.size
        self.head += data[: max(0, SNIFF_BYTES - len(self.head))]
        self._hash.update(data)
        with disk.told():
            faults.hit("media.write")
            self.file.write(data)

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def rest(self) -> None:
        """Nothing more comes for now: the file is closed, without waiting for the disk. `finish` is still to come."""
        with disk.told():
            self.file.close()

    def finish(self) -> None:
        """Everything is on the disk, under the name that the file has now."""
        with disk.told():
            self.file.close()
            with self.path.open("rb") as file:
                os.fsync(file.fileno())

    def move_to(self, place: Path) -> None:
        """Move the finished file to its place, durably."""
        with disk.told():
            private.make_folder(place.parent)
            os.replace(self.path, place)
            for folder in (place.parent, place.parent.parent):
                folders.sync(folder)

    def close(self) -> None:
        """Drop what was not moved to its place; what a full disk did not take was told before."""
        with contextlib.suppress(OSError):
            self.file.close()
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)


# --- Saving and removing ---------------------------------------------------------------------------------------------


def save(service: Service, arriving: Arriving) -> Path:
    """The finished file's place under its hash, leased until `release` or `give_up` (or a quarter of an hour)."""
    place = file_of(service, arriving.sha256)
    with _lock:
        _leases.setdefault(place, []).append(service.runtime.clock.monotonic() + LEASE_SECONDS)
        if not place.exists():
            arriving.move_to(place)
    return place


def release(service: Service, sha256: str) -> None:
    """One lease less: a row names the file now."""
    place = file_of(service, sha256)
    with _lock:
        if place in _leases:
            _leases[place].pop(0)
        _forget_ended(place, 0)


def give_up(service: Service, sha256: str) -> None:
    """One lease less: no row came to name the file, which goes unless something else needs it."""
    release(service, sha256)
    remove_unneeded(service, sha256)


def remove_unneeded(service: Service, sha256: str) -> bool:
    """Remove a file that no row needs; whether it was removed."""
    place = file_of(service, sha256)
    with _lock:
        _forget_ended(place, service.runtime.clock.monotonic())
        if place in _leases or service.read(lambda: _needed([sha256])).result():
            return False
        place.unlink(missing_ok=True)
    return True


def _forget_ended(place: Path, now: float) -> None:
    left = [ends for ends in _leases.pop(place, ()) if ends > now]
    if left:
        _leases[place] = left


def _needed(hashes: Iterable[str]) -> set[str]:
    query = Media.select(Media.sha256).where(Media.sha256.in_(list(hashes)), Media.deleted_at.is_null())
    return {row[0] for row in query.tuples()}


def tidy(service: Service) -> int:
    """Remove what nothing names: files whose row was never written or is gone, and beginnings of uploads; how many."""
    removed = sum(_remove_leftover(service, path) for path in home(service).glob(f"**/{ARRIVING}*"))
    for part in _parts([path.name for path in home(service).glob("??/[0-9a-f]*")]):
        needed = service.read(lambda: _needed(part)).result()  # noqa: B023 - read before the next round
        removed += sum(remove_unneeded(service, sha256) for sha256 in part if sha256 not in needed)
    return removed


def _remove_leftover(service: Service, path: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        if service.now_ms / 1000 - path.stat().st_mtime > LEFTOVER_SECONDS:
            path.unlink()
            return True
    return False


def _parts(names: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(names), STEP):
        yield names[start : start + STEP]
