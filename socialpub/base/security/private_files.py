"""Private files with the right owner: the only module that creates files and folders of the data.

Every file is for its owner alone, whatever the system's defaults: a user who can open a lock file can stop all writing.
A command that runs as root gives each new file the owner of its folder, so that a service that runs as that user can
use it. The owner of a folder may put links into it; root follows only links that root has made.
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
LINKS_MAX = 40  # followed on the way to one folder, as the kernel does
log = logging.getLogger("socialpub.files")


def set_umask() -> None:
    """Whatever this process makes from here on is for its own user: first thing in every command."""
    os.umask(OTHERS_MASK)


# --- New files -----------------------------------------------------------------------------------------------------


def create(path: Path) -> int:
    """Return a descriptor of a new file, opened to read and write; FileExistsError where the name is taken."""
    with _open_parent(path) as (name, folder):
        handle = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE, dir_fd=folder)
        _set_owner(handle, folder, path)
    return handle


def replace(path: Path) -> int:
    """Return a descriptor of a new file, in place of what has its name."""
    path.unlink(missing_ok=True)
    return create(path)


def open_or_create(path: Path) -> int:
    """Return a descriptor of a file, opened to read and append, which is created where it is missing."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    while True:
        try:
            with _open_parent(path) as (name, folder):
                return os.open(name, flags, dir_fd=folder)
        except FileNotFoundError:
            with contextlib.suppress(FileExistsError):  # another process was faster
                return create(path)


def create_temporary(folder: Path, prefix: str) -> tuple[int, Path]:
    """Return a descriptor and the path of a new file with a random name."""
    while True:
        path = folder / f"{prefix}{token_hex(4)}"
        with contextlib.suppress(FileExistsError):
            return create(path), path


def copy(source: Path, path: Path) -> None:
    """Copy the bytes of a file into a new one, in place of what has its name."""
    with source.open("rb") as from_, os.fdopen(replace(path), "wb") as into:
        shutil.copyfileobj(from_, into)


def create_if_missing(path: Path) -> None:
    """Create an empty file where there is none: SQLite makes a database of it."""
    real = Path(os.path.realpath(path))
    if not real.exists():
        with contextlib.suppress(FileExistsError):  # another process was faster
            os.close(create(real))


# --- New folders ---------------------------------------------------------------------------------------------------


def make_folder(path: Path) -> None:
    """Create a folder and those above it, where they are missing; each gets the owner of the one that it is in."""
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
            made = os.open(name, _OPEN_FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=folder)
            try:
                _set_owner(made, folder, path)
            finally:
                os.close(made)


# --- Whose they are ------------------------------------------------------------------------------------------------

_OPEN_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def _set_owner(handle: int, folder: int | None, path: Path) -> None:
    """Give what root has just created to the owner of its folder. Whose it is already, where not root's, it stays."""
    if folder is None:
        return
    made, around = os.fstat(handle), os.fstat(folder)
    if made.st_uid != ROOT_UID or (made.st_uid, made.st_gid) == (around.st_uid, around.st_gid):
        return
    try:
        os.fchown(handle, around.st_uid, around.st_gid)
    except OSError as error:  # a root without this right, such as that of a container
        log.warning("%s stays root's, and its folder is user %d's: %s", path, around.st_uid, error.strerror)


@contextlib.contextmanager
def _open_parent(path: Path) -> Iterator[tuple[Path | str, int | None]]:
    """What a path is called, and below which descriptor: for root that of its folder, else none.

    For root, OSError on a way through a link of another user.
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
    """Open a folder name by name, so that no link can be put in between after it was looked at."""
    names, links = list(reversed(path.absolute().parts[1:])), 0
    here = os.open(path.absolute().anchor, _OPEN_FOLDER_FLAGS)
    try:
        while names:
            name = names.pop()
            found = os.stat(name, dir_fd=here, follow_symlinks=False)
            if stat.S_ISLNK(found.st_mode):
                links += 1
                if found.st_uid != ROOT_UID or links > LINKS_MAX:
                    raise OSError(errno.ELOOP, "root does not follow a link of another user", str(path))
                target = Path(os.readlink(name, dir_fd=here))
                names += reversed(target.parts[1:] if target.is_absolute() else target.parts)
                following = os.open(target.anchor or ".", _OPEN_FOLDER_FLAGS, dir_fd=here)
            else:
                following = os.open(name, _OPEN_FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=here)
            os.close(here)
            here = following
    except BaseException:
        os.close(here)
        raise
    return here


# --- Files that are there ------------------------------------------------------------------------------------------


def restrict_permissions(paths: Iterable[Path]) -> str | None:
    """Take from others what they may do with files that are there, a line in the log each.

    Answers why one of them cannot be used: it is another user's.
    """
    for path in paths:
        try:
            if os.geteuid() == ROOT_UID and path.is_symlink() and path.lstat().st_uid != ROOT_UID:
                return f"{path} is a link of another user (number {path.lstat().st_uid}), which root does not follow"
            found = path.stat()
        except OSError:
            continue  # not there, or told by whoever opens it
        if not _is_usable_owner(found):
            if advice := suggest_chown(path):
                return f"{path} belongs to root{advice}"
            return f"{path} belongs to another user (number {found.st_uid}); run socialpub as that user"
        if stat.S_IMODE(found.st_mode) & OTHERS_MASK:
            _restrict_mode(path, stat.S_IMODE(found.st_mode))
    return None


def suggest_chown(path: Path) -> str:
    """What gives a file of root's, which was copied here, to the owner of its folder; nothing for any other file."""
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
        log.warning("%s can be used by other users, and that cannot be changed: %s", path, error.strerror)
    else:
        log.warning("%s could be used by other users (mode %03o); now it is for its owner alone", path, mode)


def _open_existing(path: Path) -> int:
    """A descriptor of a file or folder; for root, OSError where the way leads through a link of another user."""
    if path.is_dir() and os.geteuid() == ROOT_UID:
        return _open_folder(path)
    with _open_parent(path) as (name, folder):
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        return os.open(name, flags if folder is None else flags | os.O_NOFOLLOW, dir_fd=folder)


def _is_usable_owner(found: os.stat_result) -> bool:
    return os.geteuid() in (0, found.st_uid)


def find_permission_problem(path: Path, secrets: Iterable[str]) -> str | None:
    """Why a file of settings is not to be trusted, in words that follow its name; None where it is.

    `secrets`: the settings in it that are secret. Its group may read it: the usual way to hand one to a service.
    """
    found, named = path.stat(), ", ".join(secrets)
    if not _is_usable_owner(found) and found.st_uid != 0:
        return f"the settings file belongs to another user (number {found.st_uid})"
    if stat.S_ISREG(found.st_mode) and named and found.st_mode & (stat.S_IWGRP | stat.S_IRWXO):
        return f"the settings file holds secrets ({named}) and is open to other users; run: chmod 600 {path}"
    return None
