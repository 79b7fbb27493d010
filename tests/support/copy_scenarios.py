"""Changes to a data folder between two starts: copies, restores, moves, new machines."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from socialpub.base.system.host_identity import HostIdentity
from socialpub.simulator.server import SimulatorThread
from socialpub.store.jobs import job_queue
from tests.support.app_server import AppServer, MovableClock, Person
from tests.support.publishing_state import pause_reason, post_status, schedule_post
from tests.support.soak.soak_world import wait_for


@pytest.fixture(autouse=True)
def brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server whose rounds are short."""
    monkeypatch.setattr(job_queue, "SCHEDULER_SECONDS", 0.2)


@dataclass
class DataPlace:
    """A server that has stopped, and what was kept of its folder before it published a post."""

    server: AppServer
    alice: Person
    post: str
    backup: Path
    inodes: Path

    @property
    def home(self) -> Path:
        return self.server.home

    @property
    def database(self) -> Path:
        return self.home / "socialpub.db"

    @property
    def state(self) -> Path:
        return self.home / "instance.state"

    @property
    def marks(self) -> Path:
        return self.server.host.marks[0]

    def edit_state(self, **changes: Any) -> None:
        """As if an earlier run had left it so, in the file that it is."""
        found = json.loads(self.state.read_text()) | changes
        self.state.write_text(json.dumps(found))

    def start(self) -> str | None:
        """Start; why it is paused."""
        self.server.start()
        self.alice.api = self.server.api(self.alice.key)
        return pause_reason(self.server)


@pytest.fixture
def place(tmp_path: Path, lab: SimulatorThread, wall: MovableClock) -> Iterator[DataPlace]:
    """It stopped once with a post to come, when the backup was made, and once with the post published."""
    server = AppServer(tmp_path / "data", lab, wall)
    server.home.mkdir()
    server.host = HostIdentity("machine", "boot", (tmp_path / "marks",))
    server.start()
    alice = server.connected_person("Alice")
    post = schedule_post(server, alice, "once", seconds=60)
    server.stop()
    backup, inodes = tmp_path / "backup", tmp_path / "inodes"
    subprocess.run(["cp", "-a", server.home, backup], check=True)
    inodes.mkdir()
    os.link(server.home / "instance.state", inodes / "instance.state")
    server.start()
    alice.api = server.api(alice.key)
    assert pause_reason(server) is None
    server.skip(61)
    assert wait_for(lambda: post_status(server, post) == "published", 60)
    server.stop()
    yield DataPlace(server, alice, post, backup, inodes)
    server.stop()


def nothing(place: DataPlace) -> None:
    """A plain restart."""


def moved(place: DataPlace) -> None:
    """mv data elsewhere, on the same file system."""
    place.server.home = place.home.rename(place.home.with_name("elsewhere"))


def linked(place: DataPlace) -> None:
    """The database by a symbolic link from another folder."""
    folder = place.home.with_name("linked")
    folder.mkdir()
    (folder / "socialpub.db").symlink_to(place.database)
    place.server.overrides = {"database": {"url": str(folder / "socialpub.db")}}


def folder_linked(place: DataPlace) -> None:
    """The whole folder by a symbolic link."""
    real = place.home.rename(place.home.with_name("elsewhere"))
    place.home.symlink_to(real)


def rebooted(place: DataPlace) -> None:
    """Another boot, and the disk got another number."""
    place.server.host = HostIdentity("machine", "another boot", place.server.host.marks)
    on_another_disk(place)


def renumbered_in_a_container(place: DataPlace) -> None:
    """A new container on the same volume: no machine, no boot, an empty folder of marks, another device."""
    place.server.host = HostIdentity(marks=(place.home.with_name("new container"),))
    on_another_disk(place)


def into_a_container(place: DataPlace) -> None:
    """What ran on the machine itself runs in a container now."""
    place.server.host = HostIdentity(marks=place.server.host.marks)


def no_outside(place: DataPlace) -> None:
    """Nothing can be written outside."""
    shutil.rmtree(place.marks)
    place.marks.write_text("a file is in the way")


def damaged_marks(place: DataPlace) -> None:
    for path in place.marks.iterdir():
        path.write_text("{")


def of_an_older_version(place: DataPlace) -> None:
    found = json.loads(place.state.read_text())
    place.state.write_text(json.dumps({name: found[name] for name in ("beat", "mark")}))


def without_numbers(place: DataPlace) -> None:
    """A file system that numbers its files at each mount tells neither number nor birth: nothing is compared."""
    unknown = {"device": 1, "inode": None, "born": None}
    place.edit_state(own=unknown, database=unknown)
    again_from(place.database)


def touched_and_owned(place: DataPlace) -> None:
    """What an entry point of a container does: chown -R, chmod -R."""
    for path in (place.home, *place.home.rglob("*")):
        os.chown(path, os.getuid(), os.getgid())
        os.utime(path)
    place.database.chmod(0o600)


def on_another_disk(place: DataPlace) -> None:
    found = json.loads(place.state.read_text())
    place.edit_state(database=found["database"] | {"device": os.makedev(8, 33)})


def again_from(path: Path) -> None:
    """The same content in another file of the same name."""
    fresh = path.with_name("fresh")
    shutil.copy2(path, fresh)
    fresh.rename(path)


def copied(place: DataPlace) -> None:
    """cp -r data elsewhere, as it is now."""
    place.server.home = place.home.with_name("elsewhere")
    shutil.copytree(place.home if place.home.exists() else place.home.with_name("data"), place.server.home)


def cloned(place: DataPlace) -> None:
    """cp -a data elsewhere: owners and times too."""
    target = place.home.with_name("elsewhere")
    subprocess.run(["cp", "-a", place.home, target], check=True)
    place.server.home = target


def moved_to_another_file_system(place: DataPlace) -> None:
    """Which is a copy, and the removal of what was copied."""
    cloned(place)
    shutil.rmtree(place.home.with_name("data"))


def restored_over(place: DataPlace) -> None:
    """cp -a backup/. data: the files keep their numbers."""
    subprocess.run(["cp", "-a", f"{place.backup}/.", place.home], check=True)


def restored_beside(place: DataPlace) -> None:
    """rsync -a, tar -x: new files in place of the old ones."""
    subprocess.run(["cp", "-a", "--remove-destination", f"{place.backup}/.", place.home], check=True)


def removed_and_restored(place: DataPlace) -> None:
    """rm -r data; cp -a backup data: some file systems use the numbers of the files again."""
    shutil.rmtree(place.home)
    subprocess.run(["cp", "-a", place.backup, place.home], check=True)


def restored_without_marks(place: DataPlace) -> None:
    """The same in a new container."""
    place.server.host = HostIdentity(marks=(place.home.with_name("new container"),))
    removed_and_restored(place)


def restored_over_without_marks(place: DataPlace) -> None:
    place.server.host = HostIdentity(marks=(place.home.with_name("new container"),))
    restored_over(place)


def database_over(place: DataPlace) -> None:
    """cp backup/socialpub.db data/"""
    shutil.copyfile(place.backup / "socialpub.db", place.database)


def database_beside(place: DataPlace) -> None:
    """mv backup/socialpub.db data/"""
    (place.backup / "socialpub.db").rename(place.database)


def database_copied(place: DataPlace) -> None:
    """Another file with what the newest had in it: it may have been in use in between."""
    again_from(place.database)


def state_removed(place: DataPlace) -> None:
    place.state.unlink()


def state_restored(place: DataPlace) -> None:
    shutil.copyfile(place.backup / "instance.state", place.state)


def rolled_back(place: DataPlace) -> None:
    """A snapshot of the volume put back: the same files, numbers and births, with what was in them."""
    place.database.write_bytes((place.backup / "socialpub.db").read_bytes())
    (place.inodes / "instance.state").rename(place.state)


def another_machine(place: DataPlace) -> None:
    """A snapshot of the volume, or the disk itself, in another machine."""
    place.server.host = HostIdentity("another machine", "another boot", (place.home.with_name("its marks"),))


def snapshot_mounted_beside(place: DataPlace) -> None:
    """A snapshot of the volume on another device of the same machine, where no mark could be left."""
    no_outside(place)
    on_another_disk(place)


def rolled_back_in_a_container(place: DataPlace) -> None:
    """A snapshot of the volume put back, and the container made anew: nothing is left that knows better."""
    rolled_back(place)
    renumbered = HostIdentity(marks=(place.home.with_name("new container"),))
    place.server.host = renumbered


def whole_machine_rolled_back(place: DataPlace) -> None:
    """A snapshot of the machine with all its disks."""
    rolled_back(place)
    shutil.rmtree(place.marks)
