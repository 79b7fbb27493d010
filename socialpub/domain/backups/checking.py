"""Verification of a backup: read it as a restore would, without restoring."""

from __future__ import annotations

import contextlib
import tempfile
from dataclasses import dataclass
from pathlib import Path

from socialpub.base import faults
from socialpub.domain.backups import archive
from socialpub.domain.backups.archive import BackupError, Manifest, Told
from socialpub.domain.backups.spool import BESIDE, working_folder
from socialpub.store import snapshot
from socialpub.store.integrity import check_integrity
from socialpub.store.locks import StartError


@dataclass(frozen=True)
class Checked:
    """Result of a verification. `problems` is empty for an intact backup."""

    size: int
    sha256: str
    manifest: Manifest
    problems: tuple[str, ...]


def check(path: Path, told: Told) -> Checked:
    """Read the whole backup and list its problems. Raises BackupError if it is not a backup."""
    with contextlib.closing(archive.Reader(path)) as reader:
        return Checked(path.stat().st_size, archive.sha256_of(path), reader.manifest, tuple(_problems(reader, told)))


def _problems(reader: archive.Reader, told: Told) -> list[str]:
    moved = archive.counted("checking", reader.size, told)
    try:
        named = _database_of(reader, moved)
    except (BackupError, StartError) as error:
        return [str(error)]
    inside = set(reader.media)
    return [
        *(f"the file of media {name} is not inside" for name in sorted(named - inside)),
        *(f"the file of media {name} is damaged" for name in sorted(inside) if not _is_whole(reader, name, moved)),
    ]


def _database_of(reader: archive.Reader, moved: archive.Moved) -> set[str]:
    """List the media hashes in the database. Raises StartError or BackupError if damaged."""
    with working_folder(Path(tempfile.gettempdir()), BESIDE) as folder:
        found = folder / archive.DATABASE
        with found.open("wb") as into:
            reader.pour_database(into, moved)
        faults.hit("verify.mid")
        check_integrity(found)
        return snapshot.media_of(found)


def _is_whole(reader: archive.Reader, name: str, moved: archive.Moved) -> bool:
    try:
        return reader.pour_media(name, None, moved)
    except BackupError:
        return False
