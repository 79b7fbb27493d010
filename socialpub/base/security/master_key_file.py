"""The file of the master keys, replaced atomically while a server may read it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from socialpub.base import fault_injection
from socialpub.base.security import crypto, private_files
from socialpub.base.system import directories


def write(path: Path, keys: Sequence[crypto.MasterKey]) -> None:
    """Replace the content of the key file and sync it; raise OSError on failure.

    The file keeps its owner; a link stays, and leads to it. The caller holds the database's write lock, so the
    temporary file is of this process or of one that was killed.
    """
    path = private_files.resolve_link(path)
    temporary, old_status = path.with_name(f".{path.name}.new"), path.stat()
    handle = private_files.replace(temporary)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(crypto.format_master_keys(keys))
            file.flush()
            if os.geteuid() == 0:  # root runs a command, and the server is another user's
                os.fchown(file.fileno(), old_status.st_uid, old_status.st_gid)
            os.fsync(file.fileno())
        fault_injection.hit("rotate.written")
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    directories.sync(path.parent)


def create(path: Path, key: crypto.MasterKey) -> None:
    """Create the key file whole; leave the one of another process that was faster."""
    private_files.make_folder(path.parent)
    handle, temporary = private_files.create_temporary(path.parent, f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(crypto.format_master_keys([key]))
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            _rename_new(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    directories.sync(path.parent)


def _rename_new(temporary: Path, path: Path) -> None:
    """Give a file its name. Raises FileExistsError if the name is taken."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:  # file system without hard links
        if path.exists():
            raise FileExistsError(str(path)) from None
        os.replace(temporary, path)


def save_retired_key(path: Path, key: crypto.MasterKey) -> Path:
    """Write a retired key to a separate file: older backups still need it."""
    retired = get_retired_key_path(path, key.id)
    if not retired.exists():
        os.close(private_files.create(retired))
    write(retired, [key])
    return retired


def get_retired_key_path(path: Path, key_id: str) -> Path:
    """Return the path of a key that was in this file earlier."""
    return path.with_name(f"{path.name}.{key_id}")
