"""What a copy of some data does not take along: the machine, its boot, the number and the birth of a file.

And how much this process may have open.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

# In a container these change, or are the same everywhere, by themselves: neither machine nor boot is known there.
_CONTAINER_FILES = ("/.dockerenv", "/run/.containerenv", "/run/systemd/container")
_CONTAINER_VARIABLES = ("container", "KUBERNETES_SERVICE_HOST")
_UNION_FILE_SYSTEMS = ("overlay", "aufs", "fuse.fuse-overlayfs")
# File systems that may number their files anew whenever they are mounted.
_RENUMBERING_FILE_SYSTEMS = tuple("9p cifs exfat fakeowner fuse msdos ntfs prl_fs smb vboxsf vfat virtiofs".split())


FILE_LIMIT_MAX = 20_000


@dataclass(frozen=True)
class Mount:
    """A mounted file system. `device`: its number, as `major:minor`; `kind`: such as `ext4` or `nfs4`."""

    device: str
    point: str
    kind: str


@dataclass(frozen=True)
class HostIdentity:
    """Where this process runs. `machine` and `boot`: empty where they say nothing.

    `marks`: folders that are in no data folder and outlast this process, the best first. `list_mounts`: what is
    mounted.
    """

    machine: str = ""
    boot: str = ""
    marks: tuple[Path, ...] = ()
    mounts: tuple[Mount, ...] = ()


def get_file_limit() -> int:
    """How many files and connections this process may have open; DESCRIPTORS_MOST where there is no such limit."""
    if sys.platform == "win32":
        return FILE_LIMIT_MAX
    import resource

    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return limit if 0 < limit < FILE_LIMIT_MAX else FILE_LIMIT_MAX


def raise_file_limit() -> None:
    """As many as the process may give itself: the usual 1,024 are for programs that cannot deal with more."""
    if sys.platform == "win32":
        return
    import resource

    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    most = FILE_LIMIT_MAX if hard == resource.RLIM_INFINITY else min(hard, FILE_LIMIT_MAX)
    if most > get_file_limit():
        with contextlib.suppress(OSError, ValueError):  # the system has a limit of its own
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def identify_host() -> HostIdentity:
    """The machine that this process runs on."""
    if _is_container():
        return HostIdentity(marks=_list_mark_folders(), mounts=list_mounts())
    machine, boot = _hash_system_id("/etc/machine-id"), _hash_system_id("/proc/sys/kernel/random/boot_id")
    return HostIdentity(machine, boot, _list_mark_folders(), list_mounts())


def get_boot_id() -> str:
    """The run of the system's kernel, also in a container: while it is the same, no file has lost what was written."""
    return _hash_system_id("/proc/sys/kernel/random/boot_id")


def _is_container() -> bool:
    if any(os.path.exists(path) for path in _CONTAINER_FILES) or any(map(os.environ.get, _CONTAINER_VARIABLES)):
        return True
    return any(mount.point == "/" and mount.kind in _UNION_FILE_SYSTEMS for mount in list_mounts())


def _hash_system_id(path: str) -> str:
    """An id of the system, which is to leave it only as a hash (machine-id(5)); empty where there is none."""
    text = _read_text(path).strip()
    return hashlib.sha256(b"socialpub\0" + text.encode()).hexdigest()[:16] if text else ""


def _read_text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _list_mark_folders() -> tuple[Path, ...]:
    named, home = os.environ.get("XDG_STATE_HOME", ""), os.path.expanduser("~")
    first = Path(named) if os.path.isabs(named) else Path(home, ".local", "state")
    return first / "socialpub", Path("/var/lib/socialpub-marks"), Path(f"/var/tmp/socialpub-marks-{os.getuid()}")


# --- Files -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FileId:
    """A file, whatever it is called: a copy has another number, or (where a number is used again) another birth.

    None: the file system does not keep or not tell it. `device` may change whenever the volume is mounted.
    """

    device: int
    inode: int | None
    born: int | None  # nanoseconds

    def differs(self, inode: int | None, born: int | None) -> bool:
        """Whether what is known of both says that they are two files."""
        return _is_different(self.inode, inode) or _is_different(self.born, born)


def _is_different(one: int | None, other: int | None) -> bool:
    return one is not None and other is not None and one != other


def identify_file(path: Path) -> FileId:
    """Which file has this name now; OSError when there is none."""
    found = os.stat(path)
    if _is_renumbering(found.st_dev):
        return FileId(found.st_dev, None, None)
    return FileId(found.st_dev, found.st_ino, _read_birth_time(path, found))


def is_disk_device(device: int) -> bool:
    """Whether a device number is that of a disk, and not made up at each mount."""
    return os.major(device) != 0


def _is_renumbering(device: int) -> bool:
    number = f"{os.major(device)}:{os.minor(device)}"
    return any(mount.device == number and mount.kind.startswith(_RENUMBERING_FILE_SYSTEMS) for mount in list_mounts())


# --- Mounts ------------------------------------------------------------------------------------------------------

# File systems whose files are another machine's, or another program's: locks of files may not hold on them. `fuse.` is
# not `fuseblk`, a local disk. What the upper layer of a container is, is local too.
_NETWORK_FILE_SYSTEMS = tuple(
    "9p afs beegfs ceph cifs coda fuse gfs gfs2 glusterfs lustre nfs nfs4 ocfs2 smb3 smbfs".split()
)
_NETWORK_FILE_SYSTEMS += tuple("acfs ncpfs prl_fs sshfs vboxsf virtiofs vmhgfs".split())
_LOCAL_FUSE = ("fuse.fuse-overlayfs",)


def list_mounts(table: str | None = None) -> tuple[Mount, ...]:
    """What a mount table says (proc(5), mountinfo), by default that of this process; nothing on other systems."""
    found = []
    for line in (_read_text("/proc/self/mountinfo") if table is None else table).splitlines():
        mount, _, rest = line.partition(" - ")
        fields = mount.split()
        if len(fields) > 4 and rest:
            found.append(Mount(fields[2], _OCTAL_ESCAPE.sub(_decode_escape, fields[4]), rest.split()[0]))
    return tuple(found)


_OCTAL_ESCAPE = re.compile(r"\\([0-7]{3})")  # a space, a tab, a line break or a backslash in the name of a folder


def _decode_escape(found: re.Match[str]) -> str:
    return chr(int(found[1], 8))


def find_network_problem(folder: Path, mounted: Sequence[Mount]) -> str | None:
    """A sentence where a folder lies on a network file system; None on a local disk, or where nothing is known."""
    real = Path(os.path.realpath(folder))
    over = [mount for mount in mounted if real.is_relative_to(mount.point)]
    nearest = max(reversed(over), key=lambda mount: len(mount.point), default=None)  # of two, the one mounted later
    if nearest is None or not _is_network(nearest.kind):
        return None
    return (
        f"{folder} lies on a network file system ({nearest.kind}): SQLite's locks do not hold there, and the database "
        "may be damaged. Keep it on a local disk."
    )


def _is_network(kind: str) -> bool:
    return kind not in _LOCAL_FUSE and kind.partition(".")[0] in _NETWORK_FILE_SYSTEMS


_STATX_SIZE, _STATX_BTIME, _BTIME_AT, _AT_FDCWD = 256, 0x800, 80, -100


def _read_birth_time(path: Path, found: os.stat_result) -> int | None:
    """When the file was made: no copy can choose it. statx(2), which Python does not offer yet."""
    told = getattr(found, "st_birthtime", None)  # macOS, BSD
    if told is not None:
        return int(told * 1e9)
    statx = getattr(ctypes.CDLL(None, use_errno=True), "statx", None)
    if statx is None:
        return None
    buffer = ctypes.create_string_buffer(_STATX_SIZE)
    if statx(_AT_FDCWD, os.fsencode(path), 0, _STATX_BTIME, buffer) != 0:
        return None
    if not int.from_bytes(buffer.raw[:4], sys.byteorder) & _STATX_BTIME:
        return None
    seconds = int.from_bytes(buffer.raw[_BTIME_AT : _BTIME_AT + 8], sys.byteorder, signed=True)
    return seconds * 10**9 + int.from_bytes(buffer.raw[_BTIME_AT + 8 : _BTIME_AT + 12], sys.byteorder)
