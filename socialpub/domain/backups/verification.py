"""Verification of a backup: read it as a restore would, without restoring."""

from __future__ import annotations

import contextlib
import tempfile
from dataclasses import dataclass
from pathlib import Path

from socialpub.base import fault_injection
from socialpub.domain.backups import archive
from socialpub.domain.backups.archive import BackupError, BackupManifest, BackupProgressCallback
from socialpub.domain.backups.staging import PART_PREFIX, create_folder
from socialpub.store.engine.integrity import check_integrity
from socialpub.store.engine.locks import StartError
from socialpub.store.schema import snapshot


@dataclass(frozen=True)
class VerifyReport:
    """Result of a verification. `problems` is empty for an intact backup."""

    size: int
    sha256: str
    manifest: BackupManifest
    problems: tuple[str, ...]


def verify_backup(path: Path, progress: BackupProgressCallback) -> VerifyReport:
    """Read the whole backup and list its problems. Raises BackupError if it is not a backup."""
    with contextlib.closing(archive.ArchiveReader(path)) as reader:
        return VerifyReport(
            path.stat().st_size, archive.hash_file(path), reader.manifest, tuple(_find_problems(reader, progress))
        )


def _find_problems(reader: archive.ArchiveReader, progress: BackupProgressCallback) -> list[str]:
    moved = archive.count_bytes("checking", reader.size, progress)
    try:
        named = _check_inside(reader, moved)
    except (BackupError, StartError) as error:
        return [str(error)]
    inside = set(reader.media)
    return [
        *(f"media file {name} is missing in the backup" for name in sorted(named - inside)),
        *(f"media file {name} is damaged" for name in sorted(inside) if not _is_intact(reader, name, moved)),
    ]


def _check_inside(reader: archive.ArchiveReader, moved: archive.ByteCounter) -> set[str]:
    """Return the hashes that `check_database` does. Raises StartError or BackupError."""
    with create_folder(Path(tempfile.gettempdir()), PART_PREFIX) as folder:
        found = folder / archive.DATABASE
        with found.open("wb") as into:
            reader.extract_database(into, moved)
        fault_injection.hit("verify.mid")
        return check_database(found)


def check_database(path: Path) -> set[str]:
    """Return the hashes of the media that a database names.

    Raises StartError if it is damaged, or not of socialpub.
    """
    check_integrity(path)
    return snapshot.from_file(path)(snapshot.find_media_hashes)


def _is_intact(reader: archive.ArchiveReader, name: str, moved: archive.ByteCounter) -> bool:
    try:
        return reader.extract_media(name, None, moved)
    except BackupError:
        return False
