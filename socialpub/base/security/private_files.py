"""Private files with the right owner: the only module that creates data files and folders.

Every file is accessible to its owner only, regardless of the umask: a user who can open a lock file can stop all
writing. A command that runs as root gives each new file the owner of its folder, so that the service's user can use it.
The owner of a folder may put links into it; root follows only links that root has made.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from secrets import token_hex

OTHERS_MASK = 0o077
FILE_MODE, FOLDER_MODE = 0o600, 0o700
ROOT_UID = 0
LINKS_MAX = 40  # followed per path, the kernel's limit
log = logging.getLogger("socialpub.files")


def set_umask() -> None:
    """Make new files of this process private; the first step of every command."""
    os.umask(OTHERS_MASK)


# --- New files -----------------------------------------------------------------------------------------------------


def create(path: Path) -> int:
    """Create a file and return its descriptor, opened to read and write.

    Raise FileExistsError if it exists.
    """
    with _open_parent(path) as (name, folder):
        handle = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE, dir_fd=folder)
        _set_owner(handle, folder, path)
    return handle


def replace(path: Path) -> int:
    """Delete a file if it exists, create it, and return its descriptor."""
    path.unlink(missing_ok=True)
    return create(path)


def open_or_create(path: Path) -> int:
    """Open a file to read and append, and return its descriptor; create the file if missing."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    while True:
        try:
            with _open_parent(path) as (name, folder):
                return os.open(name, flags, dir_fd=folder)
        except FileNotFoundError:
            with contextlib.suppress(FileExistsError):  # another process was faster
                return create(path)


def create_temporary(folder: Path, prefix: str) -> tuple[int, Path]:
    """Create a file with a random name; return its descriptor and path."""
    while True:
        path = folder / f"{prefix}{token_hex(4)}"
        with contextlib.suppress(FileExistsError):
            return create(path), path


def copy(source: Path, path: Path) -> None:
    """Copy a file, replacing the target."""
    with source.open("rb") as from_, os.fdopen(replace(path), "wb") as into:
        shutil.copyfileobj(from_, into)


def create_if_missing(path: Path) -> None:
    """Create an empty file if there is none; SQLite makes a database of it."""
    real = Path(os.path.realpath(path))
    if not real.exists():
        with contextlib.suppress(FileExistsError):  # another process was faster
            os.close(create(real))


def resolve_link(path: Path) -> Path:
    """Return the file that a link leads to, or the path if it is none.

    For root, raise OSError if a link is of another user.
    """
    for _ in range(LINKS_MAX):
        if not path.is_symlink():
            return path
        if os.geteuid() == ROOT_UID and path.lstat().st_uid != ROOT_UID:
            raise OSError(errno.ELOOP, "root does not follow a link of another user", str(path))
        path = path.parent / path.readlink()
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))


# --- New folders ---------------------------------------------------------------------------------------------------


def make_folder(path: Path) -> None:
    """Create a folder and its missing parents; each gets the owner of its parent."""
    if path.is_dir():
        return
    if path.parent != path:
        make_folder(path.parent)
    try:
        _make_one_folder(path)
    except FileExistsError:
        if not path.is_dir():
            raise


def make_temporary_folder(folder: Path, prefix: str) -> Path:
    """Create a folder with a random name; return its path."""
    while True:
        path = folder / f"{prefix}{token_hex(4)}"
        with contextlib.suppress(FileExistsError):
            _make_one_folder(path)
            return path


def _make_one_folder(path: Path) -> None:
    with _open_parent(path) as (name, folder):
        os.mkdir(name, FOLDER_MODE, dir_fd=folder)
        if folder is not None:
            new_folder = os.open(name, _OPEN_FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=folder)
            try:
                _set_owner(new_folder, folder, path)
            finally:
                os.close(new_folder)


# --- Ownership ------------------------------------------------------------------------------------------------

_OPEN_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def _set_owner(handle: int, folder: int | None, path: Path) -> None:
    """Give a file or folder that root has just created to the owner of its folder."""
    if folder is None:
        return
    created, parent = os.fstat(handle), os.fstat(folder)
    if created.st_uid != ROOT_UID or (created.st_uid, created.st_gid) == (parent.st_uid, parent.st_gid):
        return
    try:
        os.fchown(handle, parent.st_uid, parent.st_gid)
    except OSError as error:  # root without CAP_CHOWN, as in a container
        log.warning(
            "%s belongs to root, but its folder to user %d, and the owner cannot be changed: %s",
            path,
            parent.st_uid,
            error.strerror,
        )


@contextlib.contextmanager
def _open_parent(path: Path) -> Iterator[tuple[Path | str, int | None]]:
    """Yield the name to open and the descriptor of its folder; the path and None unless root.

    For root, raise OSError if the path leads through a link of another user.
    """
    if os.geteuid() != ROOT_UID:
        yield path, None
        return
    folder = _open_folder(path.parent)
    try:
        yield path.name, folder
    finally:
        os.close(folder)


def _open_folder(path: Path) -> int:
    """Open a folder component by component, so that no link can be inserted after its check."""
    names, links = list(reversed(path.absolute().parts[1:])), 0
    current = os.open(path.absolute().anchor, _OPEN_FOLDER_FLAGS)
    try:
        while names:
            name = names.pop()
            status = os.stat(name, dir_fd=current, follow_symlinks=False)
            if stat.S_ISLNK(status.st_mode):
                links += 1
                if status.st_uid != ROOT_UID or links > LINKS_MAX:
                    raise OSError(errno.ELOOP, "root does not follow a link of another user", str(path))
                target = Path(os.readlink(name, dir_fd=current))
                names += reversed(target.parts[1:] if target.is_absolute() else target.parts)
                next_folder = os.open(target.anchor or ".", _OPEN_FOLDER_FLAGS, dir_fd=current)
            else:
                next_folder = os.open(name, _OPEN_FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=current)
            os.close(current)
            current = next_folder
    except BaseException:
        os.close(current)
        raise
    return current


# --- Existing files ------------------------------------------------------------------------------------------


def restrict_permissions(paths: Iterable[Path]) -> str | None:
    """Remove the permissions of other users from existing files, and log each change.

    Return why a file cannot be used: it belongs to another user.
    """
    for path in paths:
        try:
            if os.geteuid() == ROOT_UID and path.is_symlink() and path.lstat().st_uid != ROOT_UID:
                return f"{path} is a link of another user (number {path.lstat().st_uid}), which root does not follow"
            status = path.stat()
        except OSError:
            continue  # missing, or the error is reported when it is opened
        if not _is_usable_owner(status):
            if advice := suggest_chown(path):
                return f"{path} belongs to root{advice}"
            return f"{path} belongs to another user (number {status.st_uid}); run socialpub as that user"
        if stat.S_IMODE(status.st_mode) & OTHERS_MASK:
            _restrict_mode(path, stat.S_IMODE(status.st_mode))
    return None


def suggest_chown(path: Path) -> str:
    """Return the command that gives a file of root to its folder's owner; "" for other files.

    Such files were usually copied here by root.
    """
    try:
        is_roots = path.stat().st_uid == ROOT_UID and path.parent.stat().st_uid != ROOT_UID
    except OSError:
        return ""
    return f"; as root: chown --reference={path.parent} {path}" if is_roots and os.geteuid() != ROOT_UID else ""


def _restrict_mode(path: Path, mode: int) -> None:
    try:
        handle = _open_existing(path)
        try:
            os.fchmod(handle, mode & ~OTHERS_MASK)
        finally:
            os.close(handle)
    except OSError as error:
        log.warning("%s is accessible to other users, and its permissions cannot be changed: %s", path, error.strerror)
    else:
        log.warning("%s was accessible to other users (mode %03o); removed their permissions", path, mode)


def _open_existing(path: Path) -> int:
    """Open a file or folder and return its descriptor.

    For root, raise OSError if the path leads through a link of another user.
    """
    if path.is_dir() and os.geteuid() == ROOT_UID:
        return _open_folder(path)
    with _open_parent(path) as (name, folder):
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        return os.open(name, flags if folder is None else flags | os.O_NOFOLLOW, dir_fd=folder)


def _is_usable_owner(status: os.stat_result) -> bool:
    return os.geteuid() in (0, status.st_uid)


def find_permission_problem(path: Path, secrets: Iterable[str]) -> str | None:
    """Return why a settings file is not trusted; None if it is trusted.

    The text follows the file's name. `secrets` are the secret settings in the file. Its group may read it: the usual
    way to pass a file to a service.
    """
    status, named = path.stat(), ", ".join(secrets)
    if not _is_usable_owner(status) and status.st_uid != 0:
        return f"the settings file belongs to another user (number {status.st_uid})"
    if stat.S_ISREG(status.st_mode) and named and status.st_mode & (stat.S_IWGRP | stat.S_IRWXO):
        return f"the settings file holds secrets ({named}) and is open to other users; run: chmod 600 {path}"
    return None
