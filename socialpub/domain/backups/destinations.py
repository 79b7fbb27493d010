"""Backup destinations: a directory, a bucket, or both.

File names hold the creation time, and whether the backup has problems.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from socialpub.base.s3 import S3Bucket
from socialpub.base.settings_sections import BackupSettings

NAME_FORMAT = "socialpub-%Y%m%dT%H%M%SZ.zip"
PROBLEMS_NAME_FORMAT = "socialpub-%Y%m%dT%H%M%SZ-with-problems.zip"  # such as missing media


@dataclass(frozen=True, order=True)
class StoredBackup:
    """Stored backup. `made`: creation time in ms. `has_problems`: when it was made."""

    made: int
    name: str
    size: int

    @property
    def has_problems(self) -> bool:
        return _parse_time(self.name, PROBLEMS_NAME_FORMAT) is not None


class FolderDestination:
    """Backups in a directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def list_backups(self) -> list[StoredBackup]:
        """List the backups, newest first; other files are ignored."""
        found = (path for path in self.directory.glob("socialpub-*.zip") if path.is_file())  # no link without its file
        return _sort((path.name, path.stat().st_size) for path in found)

    def remove(self, name: str) -> None:
        (self.directory / name).unlink(missing_ok=True)

    def format_address(self, name: str) -> str:
        return str(self.directory / name)


class S3Destination:
    """Backups in a bucket. Raises S3BucketError on any failure."""

    def __init__(self, bucket: S3Bucket) -> None:
        self.bucket = bucket

    def list_backups(self) -> list[StoredBackup]:
        """List the backups, newest first; other objects are ignored."""
        return _sort((each.name, each.size) for each in self.bucket.list_files())

    def remove(self, name: str) -> None:
        self.bucket.remove(name)

    def format_address(self, name: str) -> str:
        return self.bucket.where(name)


def build_destinations(settings: BackupSettings) -> list[FolderDestination | S3Destination]:
    """Create the configured destinations."""
    destinations: list[FolderDestination | S3Destination] = []
    if settings.directory:
        destinations.append(FolderDestination(Path(settings.directory)))
    if settings.s3_endpoint:
        destinations.append(S3Destination(S3Bucket(settings)))
    return destinations


def format_name(now_ms: int, *, has_problems: bool = False) -> str:
    """Return the file name of a backup made now."""
    name_format = PROBLEMS_NAME_FORMAT if has_problems else NAME_FORMAT
    return datetime.fromtimestamp(now_ms / 1000, UTC).strftime(name_format)


def delete_old(destination: FolderDestination | S3Destination, count: int, now_ms: int) -> list[str]:
    """Delete all but the newest `count` backups; return the deleted names.

    Those with problems, and those made while the clock was ahead, are counted by themselves, so that they displace no
    others.
    """
    groups = defaultdict(list)
    for each in destination.list_backups():
        groups[each.made > now_ms, each.has_problems].append(each.name)
    old = [name for names in groups.values() for name in names[count:]]
    for name in old:
        destination.remove(name)
    return old


def _sort(found: Iterable[tuple[str, int]]) -> list[StoredBackup]:
    formats = (NAME_FORMAT, PROBLEMS_NAME_FORMAT)
    named = ((_parse_time(name, each), name, size) for name, size in found for each in formats)
    return sorted((StoredBackup(made, name, size) for made, name, size in named if made is not None), reverse=True)


def _parse_time(name: str, name_format: str) -> int | None:
    try:
        return int(datetime.strptime(name, name_format).replace(tzinfo=UTC).timestamp() * 1000)
    except ValueError:
        return None  # not a backup
