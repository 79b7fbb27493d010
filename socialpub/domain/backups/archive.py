"""Backup file: a ZIP archive that any tool can open.

`manifest.json` describes the content; `socialpub.db` is the database, `media/HASH` are the media files, `master.key` is
optional. A truncated file lacks its directory and is not an archive.
"""

from __future__ import annotations

import errno
import hashlib
import io
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from socialpub.base import json_codec
from socialpub.base.system import os_errors

FORMAT = 1
MANIFEST, DATABASE, KEY, MEDIA = "manifest.json", "socialpub.db", "master.key", "media/"
CHUNK = 1024 * 1024
MANIFEST_MAX = 64 * 1024
KEY_MAX = 4096
_MEDIA_NAME = re.compile(r"media/[0-9a-f]{64}")
_DAMAGE_ERRORS = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError)  # of `zipfile`

ByteCounter = Callable[[int], None]
"""Callback with the number of bytes just read or written."""

BackupProgressCallback = Callable[[str, int, int], None]
"""Progress callback: activity, done, total."""


class BackupError(Exception):
    """Failed backup or restore; the message gives reason and remedy."""


class BackupExistsError(BackupError):
    """A backup that was refused because its name is taken."""


class BackupManifest(BaseModel):
    """Manifest of a backup."""

    model_config = ConfigDict(extra="ignore", alias_generator=to_camel, populate_by_name=True)

    format: int
    version: str
    schema_name: str
    taken_at: str
    database_bytes: int
    database_sha256: str
    media_files: int
    media_bytes: int


# --- Writing -------------------------------------------------------------------------------------------------------


class ArchiveWriter:
    """Archive writer; the caller names and syncs the file."""

    def __init__(self, file: IO[bytes]) -> None:
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1)

    def add_manifest(self, manifest: BackupManifest) -> None:
        self._zip.writestr(MANIFEST, manifest.model_dump_json(by_alias=True, indent=1))

    def add_key(self, content: bytes) -> None:
        self._zip.writestr(KEY, content)

    def add_database(self, path: Path, moved: ByteCounter) -> None:
        self._add(DATABASE, path, moved)

    def add_media(self, sha256: str, path: Path, moved: ByteCounter) -> bool:
        """Add a media file, uncompressed; return whether its bytes match its name."""
        return self._add(zipfile.ZipInfo(MEDIA + sha256), path, moved) == sha256

    def close(self) -> None:
        self._zip.close()

    def _add(self, member: str | zipfile.ZipInfo, path: Path, moved: ByteCounter) -> str:
        with path.open("rb") as source, self._zip.open(member, "w", force_zip64=True) as into:
            return copy_stream(source, into, moved)


def copy_stream(source: IO[bytes], into: IO[bytes] | None, moved: ByteCounter) -> str:
    """Copy everything (None: only read); return its SHA-256."""
    digest = hashlib.sha256()
    while chunk := source.read(CHUNK):
        digest.update(chunk)
        if into is not None:
            into.write(chunk)
        moved(len(chunk))
    return digest.hexdigest()


def count_bytes(what: str, total: int, progress: BackupProgressCallback) -> ByteCounter:
    """Wrap a progress callback to count the bytes done of `total`."""
    done = 0

    def moved(count: int) -> None:
        nonlocal done
        done += count
        progress(what, done, total)

    return moved


def hash_file(path: Path) -> str:
    with path.open("rb") as file:
        return copy_stream(file, None, lambda _: None)


# --- Reading -------------------------------------------------------------------------------------------------------


class ArchiveReader:
    """Archive reader. Raises BackupError for a file that is not a backup."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._zip = zipfile.ZipFile(path)
        except FileNotFoundError as error:
            raise BackupError(f"{path} does not exist.") from error
        except (PermissionError, IsADirectoryError) as error:
            raise BackupError(f"{path} cannot be read: {os_errors.describe(error)}.") from error
        except (OSError, *_DAMAGE_ERRORS) as error:
            why = os_errors.describe(error) or error
            raise BackupError(f"{path} is not a backup, or is truncated ({why}).") from error
        try:
            self._members = self._known_members()
            self.manifest = self._manifest()
        except BaseException:
            self._zip.close()
            raise

    def close(self) -> None:
        self._zip.close()

    @property
    def media(self) -> Iterator[str]:
        """Hashes of the media files inside."""
        return (name.removeprefix(MEDIA) for name in self._members if name.startswith(MEDIA))

    @property
    def size(self) -> int:
        """Uncompressed size in bytes."""
        return sum(member.file_size for member in self._members.values())

    def key(self) -> bytes | None:
        """Return the master key file, or None."""
        return self._read_small(KEY, KEY_MAX) if KEY in self._members else None

    def extract_database(self, into: IO[bytes], moved: ByteCounter) -> None:
        """Extract the database. Raises BackupError if its hash differs."""
        if self._extract(DATABASE, into, moved) != self.manifest.database_sha256:
            raise BackupError(f"{self.path} is damaged: the database in it has changed.")

    def extract_media(self, sha256: str, into: IO[bytes] | None, moved: ByteCounter) -> bool:
        """Extract a media file; return whether its bytes match its name."""
        return self._extract(MEDIA + sha256, into, moved) == sha256

    def _extract(self, name: str, into: IO[bytes] | None, moved: ByteCounter) -> str:
        try:
            with self._zip.open(self._members[name]) as source:
                return copy_stream(source, into, moved)
        except _DAMAGE_ERRORS as error:
            raise BackupError(f"{self.path} is damaged: {name} cannot be read ({error}).") from error
        except OSError as error:
            if error.errno != errno.EINVAL:  # of a position before the file's beginning
                raise
            raise BackupError(f"{self.path} is damaged: {name} cannot be found.") from error

    def _known_members(self) -> Mapping[str, zipfile.ZipInfo]:
        members = {member.filename: member for member in self._zip.infolist()}
        strange = [name for name in members if not _is_known_entry(name)]
        if strange or not {MANIFEST, DATABASE} <= members.keys() or len(members) != len(self._zip.infolist()):
            raise BackupError(f"{self.path} is an archive, but not a socialpub backup.")
        return members

    def _manifest(self) -> BackupManifest:
        try:
            found = BackupManifest.model_validate(json_codec.loads(self._read_small(MANIFEST, MANIFEST_MAX)))
        except (ValueError, ValidationError) as error:
            raise BackupError(f"{self.path} is damaged: its manifest cannot be read.") from error
        if found.format > FORMAT:
            raise BackupError(f"{self.path} was made by a newer socialpub ({found.version}); install that version.")
        return found

    def _read_small(self, name: str, most: int) -> bytes:
        if self._members[name].file_size > most:
            raise BackupError(f"{self.path} is damaged: {name} is too large.")
        into = io.BytesIO()
        self._extract(name, into, lambda _: None)
        return into.getvalue()


def _is_known_entry(name: str) -> bool:
    return name in (MANIFEST, DATABASE, KEY) or _MEDIA_NAME.fullmatch(name) is not None
