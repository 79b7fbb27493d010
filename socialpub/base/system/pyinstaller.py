"""Support for the one-file binary of `make binary`.

It unpacks itself into a temporary folder, which its first process, the bootloader, removes at the end
(https://pyinstaller.org/en/stable/operating-mode.html). A killed bootloader leaves both the program and the folder, so
the program exits with it, and the next start removes the folder.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import shutil
import signal
import sys
import zipfile
from pathlib import Path

PACKED_ARCHIVE = "packed.zip"  # in that folder: time zones and package metadata
LAZY_PACKAGES = {  # packages that are unpacked when they are imported, and their folders
    "PIL": ("PIL/", "pillow.libs/"),
    "pymediainfo": ("pymediainfo/",),
    "Crypto": ("Crypto/",),
    "google": ("google/",),
}
READ_MEDIA_ARGUMENT = "--read-media"  # the first argument of the process that opens media files
_LOCK_NAME, _PR_SET_PDEATHSIG = "socialpub.lock", 1
_held_locks: list[int] = []  # descriptors that lock the folder


def is_binary() -> bool:
    """Return whether this program runs from the one-file binary."""
    return bool(getattr(sys, "frozen", False))


def build_child_environment() -> dict[str, str]:
    """Return the variables with which a child process reuses the unpacked folder."""
    return {name: value for name, value in os.environ.items() if name.startswith("_PYI_")}


def enable_packed_imports() -> None:
    """Make the packed packages importable."""
    sys.path.append(str(_get_folder() / PACKED_ARCHIVE))
    sys.meta_path.insert(0, LazyArchiveFinder)


class LazyArchiveFinder:
    """Unpacks a package's libraries when it is imported, so that other starts are faster."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        """Unpack the package if it is packed; always None, so that the next finder finds it."""
        if name in LAZY_PACKAGES:
            with contextlib.suppress(FileNotFoundError):  # unpacked before
                _unpack(_get_folder() / get_archive_name(name))


def get_archive_name(package: str) -> str:
    return f"{package}.zip"


def _unpack(archive: Path) -> None:
    """Unpack an archive once, in the first process that needs it."""
    with archive.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_nlink:
            with zipfile.ZipFile(file) as packed:
                packed.extractall(archive.parent)
            archive.unlink()


def prepare_process() -> None:
    """Exit together with the bootloader, and remove the folders of killed processes."""
    parent = os.getppid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(ctypes.c_ulong(_PR_SET_PDEATHSIG), ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent or parent == 1:
            os.kill(os.getpid(), signal.SIGKILL)
    _held_locks.append(_lock_folder(_get_folder()))
    for other in _get_folder().parent.glob("_MEI*/" + _LOCK_NAME):
        _remove_leftover(other)


def _get_folder() -> Path:
    return Path(sys._MEIPASS)  # type: ignore[attr-defined]  # set by PyInstaller


def _lock_folder(folder: Path) -> int:
    found = os.open(folder / _LOCK_NAME, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fcntl.flock(found, fcntl.LOCK_EX)
    return found


def _remove_leftover(mark: Path) -> None:
    """Remove the folder of a lock file of this user that no process holds."""
    with contextlib.suppress(OSError), mark.open("rb") as file:
        if os.fstat(file.fileno()).st_uid == os.getuid():
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(mark.parent, ignore_errors=True)
