"""Identity of the machine, its boot and its files, which a copy of the data does not share.

Also the mount table and the limit of open files.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import re
import resource
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

# In a container the ids of machine and boot change, or are the same in all of them, so they are not used.
_CONTAINER_FILES = ("/.dockerenv", "/run/.containerenv", "/run/systemd/container")
_CONTAINER_VARIABLES = ("container", "KUBERNETES_SERVICE_HOST")
_UNION_FILE_SYSTEMS = ("overlay", "aufs", "fuse.fuse-overlayfs")
# File systems whose inode numbers may change at each mount.
_RENUMBERING_FILE_SYSTEMS = tuple("9p cifs exfat fakeowner fuse msdos ntfs prl_fs smb vboxsf vfat virtiofs".split())


FILE_LIMIT_MAX = 20_000


@dataclass(frozen=True)
class Mount:
    """A mounted file system.

    `device` is its number as `major:minor`, `kind` its type, such as `ext4` or `nfs4`.
    """

    device: str
    point: str
    kind: str


@dataclass(frozen=True)
class HostIdentity:
    """The host of this process. `machine` and `boot` are empty if unknown.

    `marks`: folders outside the data folder that outlast this process, the best first. `mounts`: the mounted file
    systems.
    """

    machine: str = ""
    boot: str = ""
    marks: tuple[Path, ...] = ()
    mounts: tuple[Mount, ...] = ()


def get_file_limit() -> int:
    """Return how many files and sockets this process may open, at most FILE_LIMIT_MAX."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return limit if 0 < limit < FILE_LIMIT_MAX else FILE_LIMIT_MAX


def raise_file_limit() -> None:
    """Raise the limit of open files as far as allowed: the usual 1,024 are too few."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    most = FILE_LIMIT_MAX if hard == resource.RLIM_INFINITY else min(hard, FILE_LIMIT_MAX)
    if most > get_file_limit():
        with contextlib.suppress(OSError, ValueError):  # the system may have a lower limit
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def identify_host() -> HostIdentity:
    """Return the identity of this host."""
    if _is_container():
        return HostIdentity(marks=_list_mark_folders(), mounts=list_mounts())
    machine, boot = _hash_system_id("/etc/machine-id"), _hash_system_id("/proc/sys/kernel/random/boot_id")
    return HostIdentity(machine, boot, _list_mark_folders(), list_mounts())


def get_boot_id() -> str:
    """Return the id of the kernel's boot, also in a container.

    Within one boot, files lose no written data.
    """
    return _hash_system_id("/proc/sys/kernel/random/boot_id")


def _is_container() -> bool:
    if any(os.path.exists(path) for path in _CONTAINER_FILES) or any(map(os.environ.get, _CONTAINER_VARIABLES)):
        return True
    return any(mount.point == "/" and mount.kind in _UNION_FILE_SYSTEMS for mount in list_mounts())


def _hash_system_id(path: str) -> str:
    """Return a hash of a system id; "" if unknown.

    The id itself must not be published (machine-id(5)).
    """
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
    """The identity of a file under any name: a copy has another inode number or birth time.

    None if the file system does not provide one. `device` may change when the volume is mounted again.
    """

    device: int
    inode: int | None
    born: int | None  # nanoseconds

    def differs(self, inode: int | None, born: int | None) -> bool:
        """Return whether inode number or birth time prove that these are two files."""
        return _is_different(self.inode, inode) or _is_different(self.born, born)


def _is_different(one: int | None, other: int | None) -> bool:
    return one is not None and other is not None and one != other


def identify_file(path: Path) -> FileId:
    """Return the identity of the file with this name; raise OSError if there is none."""
    status = os.stat(path)
    if _is_renumbering(status.st_dev):
        return FileId(status.st_dev, None, None)
    return FileId(status.st_dev, status.st_ino, _read_birth_time(path, status))


def is_disk_device(device: int) -> bool:
    """Return whether a device number is a disk's, and not assigned at each mount."""
    return os.major(device) != 0


def _is_renumbering(device: int) -> bool:
    number = f"{os.major(device)}:{os.minor(device)}"
    return any(mount.device == number and mount.kind.startswith(_RENUMBERING_FILE_SYSTEMS) for mount in list_mounts())


# --- Mounts ------------------------------------------------------------------------------------------------------

# File systems of other machines or programs, where file locks may not work. `fuseblk` is a local disk, and so is the
# upper layer of a container.
_NETWORK_FILE_SYSTEMS = tuple(
    "9p afs beegfs ceph cifs coda fuse gfs gfs2 glusterfs lustre nfs nfs4 ocfs2 smb3 smbfs".split()
)
_NETWORK_FILE_SYSTEMS += tuple("acfs ncpfs prl_fs sshfs vboxsf virtiofs vmhgfs".split())
_LOCAL_FUSE = ("fuse.fuse-overlayfs",)


def list_mounts(table: str | None = None) -> tuple[Mount, ...]:
    """Return the mounts in a mountinfo table (proc(5)), by default this process's.

    () on other systems.
    """
    mounts = []
    for line in (_read_text("/proc/self/mountinfo") if table is None else table).splitlines():
        mount, _, rest = line.partition(" - ")
        fields = mount.split()
        if len(fields) > 4 and rest:
            mounts.append(Mount(fields[2], _OCTAL_ESCAPE.sub(_decode_escape, fields[4]), rest.split()[0]))
    return tuple(mounts)


_OCTAL_ESCAPE = re.compile(r"\\([0-7]{3})")  # spaces, tabs, line breaks and backslashes in names


def _decode_escape(match: re.Match[str]) -> str:
    return chr(int(match[1], 8))


def find_network_problem(folder: Path, mounted: Sequence[Mount]) -> str | None:
    """Return a sentence if a folder is on a network file system; None if not, or unknown."""
    real = Path(os.path.realpath(folder))
    containing = [mount for mount in mounted if real.is_relative_to(mount.point)]
    # Of two with one path, the later one.
    nearest = max(reversed(containing), key=lambda mount: len(mount.point), default=None)
    if nearest is None or not _is_network(nearest.kind):
        return None
    return (
        f"{folder} is on a network file system ({nearest.kind}): SQLite's locks do not work there, and the database "
        "may be damaged. Keep it on a local disk."
    )


def _is_network(kind: str) -> bool:
    return kind not in _LOCAL_FUSE and kind.partition(".")[0] in _NETWORK_FILE_SYSTEMS


_STATX_SIZE, _STATX_BTIME, _BTIME_AT, _AT_FDCWD = 256, 0x800, 80, -100


def _read_birth_time(path: Path, status: os.stat_result) -> int | None:
    """Return the birth time of a file in nanoseconds, which a copy cannot fake.

    By statx(2), which Python does not provide yet.
    """
    birth_time = getattr(status, "st_birthtime", None)  # macOS, BSD
    if birth_time is not None:
        return int(birth_time * 1e9)
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
