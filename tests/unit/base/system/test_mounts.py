"""Detection and warning of a data folder on a network file system, from the mount table."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from socialpub.base.config import Settings
from socialpub.base.system.host_identity import HostIdentity, find_network_problem, list_mounts
from socialpub.commands import doctor
from socialpub.commands.serve import start_service
from socialpub.domain.context.app_context import close_context

NETWORK = "nfs nfs4 cifs smb3 9p fuse fuse.sshfs fuse.rclone fuse.glusterfs ceph lustre virtiofs vboxsf".split()
LOCAL = "ext4 xfs btrfs zfs tmpfs overlay fuseblk fuse.fuse-overlayfs ext2 f2fs bcachefs".split()


def line(point: str, kind: str, device: str = "0:50") -> str:
    """A line of /proc/self/mountinfo, with an optional field."""
    return f"36 35 {device} / {point} rw,noatime shared:7 - {kind} server:/export rw,vers=4.2\n"


@pytest.mark.parametrize(("kind", "is_network"), [(kind, kind in NETWORK) for kind in (*NETWORK, *LOCAL)])
@pytest.mark.parametrize("point", ["/srv/data", "/srv", "/"])
def test_the_kind_of_the_nearest_mount_decides(kind: str, is_network: bool, point: str) -> None:
    table = list_mounts(line("/proc", "proc") + (line("/", "ext4") if point != "/" else "") + line(point, kind))
    said = find_network_problem(Path("/srv/data"), table)
    assert (said is not None) == is_network
    if said:
        assert said.startswith(f"/srv/data is on a network file system ({kind}): SQLite's locks do not work there")


def test_a_mount_over_another_decides_and_one_beside_it_does_not() -> None:
    over = line("/", "ext4") + line("/srv", "nfs4")
    assert find_network_problem(Path("/srv/data"), list_mounts(over + line("/srv", "xfs"))) is None
    assert find_network_problem(Path("/srv/data"), list_mounts(over + line("/srv/data", "xfs"))) is None
    assert find_network_problem(Path("/srv/data"), list_mounts(over + line("/srv/da", "xfs"))) is not None
    assert find_network_problem(Path("/srv-data"), list_mounts(over)) is None


def test_a_name_with_a_space_and_a_link_are_followed(tmp_path: Path) -> None:
    named = tmp_path / "a share\twith\\signs"
    named.mkdir()
    (tmp_path / "link").symlink_to(named)
    escaped = str(named).replace("\\", "\\134").replace(" ", "\\040").replace("\t", "\\011")
    assert (
        find_network_problem(tmp_path / "link" / "data", list_mounts(line("/", "ext4") + line(escaped, "cifs")))
        is not None
    )


@pytest.mark.parametrize("table", ["", "\n", "nonsense", "1 2 3\n", "36 35 0:50 / /srv rw - \n"])
def test_what_cannot_be_read_says_nothing(table: str) -> None:
    assert find_network_problem(Path("/srv/data"), list_mounts(table)) is None


def test_the_table_of_this_machine_is_read() -> None:
    assert list_mounts() or not os.path.exists("/proc/self/mountinfo")


def test_a_start_warns_in_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = Settings(database={"url": str(tmp_path / "socialpub.db")})
    caplog.set_level(logging.WARNING)
    close_context(start_service(settings, HostIdentity(mounts=list_mounts(line(str(tmp_path), "nfs4")))))
    assert [each.message for each in caplog.records if "network" in each.message] == [
        f"{tmp_path} is on a network file system (nfs4): SQLite's locks do not work there, and the database may be "
        "damaged. Keep it on a local disk."
    ]
    caplog.clear()
    close_context(start_service(settings, HostIdentity(mounts=list_mounts(line(str(tmp_path), "ext4")))))
    assert not [each for each in caplog.records if "network" in each.message]


def test_doctor_warns_and_calls_nothing_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(database={"url": str(tmp_path / "socialpub.db")})
    monkeypatch.setattr(
        doctor, "identify_host", lambda: HostIdentity(mounts=list_mounts(line(str(tmp_path), "fuse.sshfs")))
    )
    (check,) = doctor._file_system(settings)
    assert (check.ok, check.lines()[0].startswith("warn  file system: ")) == (True, True)
    monkeypatch.setattr(doctor, "identify_host", HostIdentity)
    assert list(doctor._file_system(settings)) == []
