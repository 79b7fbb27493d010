"""The one file that `make binary` builds: what is different where the program runs from it.

It unpacks itself into a folder of the temporary directory, which its first process, the bootloader, removes at the end
(https://pyinstaller.org/en/stable/operating-mode.html). A bootloader that is killed leaves both the program and the
folder, so the program ends with it, and the next start removes what was left.
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

PACKED_ARCHIVE = "packed.zip"  # in that folder: time zones, and what packages say of themselves
LAZY_PACKAGES = {  # packages whose libraries are unpacked when they are imported, and the folders of these
    "PIL": ("PIL/", "pillow.libs/"),
    "pymediainfo": ("pymediainfo/",),
    "Crypto": ("Crypto/",),
    "google": ("google/",),
}
READ_MEDIA_ARGUMENT = "--read-media"  # the first argument of the process that opens media files
_LOCK_NAME, _PR_SET_PDEATHSIG = "socialpub.lock", 1
_held_locks: list[int] = []  # descriptors whose locks say that the folder is in use


def is_binary() -> bool:
    """Whether this program runs from the one file."""
    return bool(getattr(sys, "frozen", False))


def build_child_environment() -> dict[str, str]:
    """What a child of the same file needs, so that it runs from the folder that is unpacked already."""
    return {name: value for name, value in os.environ.items() if name.startswith("_PYI_")}


def enable_packed_imports() -> None:
    """What is packed is found like any other package."""
    sys.path.append(str(_get_folder() / PACKED_ARCHIVE))
    sys.meta_path.insert(0, LazyArchiveFinder)


class LazyArchiveFinder:
    """The libraries of a package that few starts need are unpacked when it is imported: each start is sooner."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        """It never finds anything: who comes next does."""
        if name in LAZY_PACKAGES:
            with contextlib.suppress(FileNotFoundError):  # unpacked before
                _unpack(_get_folder() / get_archive_name(name))


def get_archive_name(package: str) -> str:
    return f"{package}.zip"


def _unpack(archive: Path) -> None:
    """Once, whichever process is the first to need it."""
    with archive.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_nlink:
            with zipfile.ZipFile(file) as packed:
                packed.extractall(archive.parent)
            archive.unlink()


def prepare_process() -> None:
    """At the start of the program: end with the bootloader, and remove what killed ones left."""
    parent = os.getppid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(ctypes.c_ulong(_PR_SET_PDEATHSIG), ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent or parent == 1:
            os.kill(os.getpid(), signal.SIGKILL)
    _held_locks.append(_lock_folder(_get_folder()))
    for other in _get_folder().parent.glob("_MEI*/" + _LOCK_NAME):
        _remove_leftover(other)


def _get_folder() -> Path:
    return Path(sys._MEIPASS)  # type: ignore[attr-defined]  # where it was unpacked


def _lock_folder(folder: Path) -> int:
    found = os.open(folder / _LOCK_NAME, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fcntl.flock(found, fcntl.LOCK_EX)
    return found


def _remove_leftover(mark: Path) -> None:
    """A folder whose lock nobody holds; those of other users and programs are not touched."""
    with contextlib.suppress(OSError), mark.open("rb") as file:
        if os.fstat(file.fileno()).st_uid == os.getuid():
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(mark.parent, ignore_errors=True)
