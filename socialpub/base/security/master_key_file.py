"""The file of the master keys, changed beside a server that may read it at any moment: whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from socialpub.base.security import crypto, private_files
from socialpub.base.system import directories


def write(path: Path, keys: Sequence[crypto.MasterKey]) -> None:
    """Put these keys in the file's place, synced; it keeps its owner. OSError where that fails."""
    fresh, before = path.with_name(f".{path.name}.{os.getpid()}"), path.stat()
    handle = private_files.replace(fresh)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(crypto.format_master_keys(keys))
            file.flush()
            if os.geteuid() == 0:  # a command of root, beside a server of another user
                os.fchown(file.fileno(), before.st_uid, before.st_gid)
            os.fsync(file.fileno())
        os.replace(fresh, path)
    except BaseException:
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise
    directories.sync(path.parent)


def save_retired_key(path: Path, key: crypto.MasterKey) -> Path:
    """A file of its own beside it for a key that seals nothing here any more: older backups still need it."""
    there = get_retired_key_path(path, key.id)
    if not there.exists():
        os.close(private_files.create(there))
    write(there, [key])
    return there


def get_retired_key_path(path: Path, key_id: str) -> Path:
    """Where a key is that was in this file once."""
    return path.with_name(f"{path.name}.{key_id}")
