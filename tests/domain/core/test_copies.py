"""What starts paused as a copy of the database, and what does not: each row of the table in docs/promises.md."""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from socialpub.base.system import host_identity
from socialpub.base.system.host_identity import HostIdentity
from socialpub.domain.server import copy_detection, instance
from socialpub.store.jobs import job_queue
from socialpub.store.schema.models import Instance
from tests.domain.engine.test_recovery import paused, ready, resume, schedule, status
from tests.kit import Person, Server
from tests.soak.world import wait_for


@pytest.fixture(autouse=True)
def brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server whose rounds are short."""
    monkeypatch.setattr(job_queue, "SCHEDULER_SECONDS", 0.2)


@dataclass
class Place:
    """A server that has stopped, and what was kept of its folder before it published a post."""

    server: Server
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
        return paused(self.server)


@pytest.fixture
def place(server: Server, alice: Person, tmp_path: Path) -> Place:
    """It stopped once with a post to come, when the backup was made, and once with the post published."""
    server.stop()
    server.home = tmp_path / "data"
    files = list(tmp_path.iterdir())
    server.home.mkdir()
    for path in files:
        path.rename(server.home / path.name)
    server.host = HostIdentity("machine", "boot", (tmp_path / "marks",))
    server.start()
    alice.api = server.api(alice.key)
    post = schedule(server, alice, "once", seconds=60)
    server.stop()
    backup, inodes = tmp_path / "backup", tmp_path / "inodes"
    subprocess.run(["cp", "-a", server.home, backup], check=True)
    inodes.mkdir()
    os.link(server.home / "instance.state", inodes / "instance.state")
    server.start()
    alice.api = server.api(alice.key)
    assert paused(server) is None
    server.skip(61)
    assert wait_for(lambda: status(server, post) == "published", 10)
    server.stop()
    return Place(server, alice, post, backup, inodes)


# --- What a start finds ----------------------------------------------------------------------------------------------


def nothing(place: Place) -> None:
    """A plain restart."""


def moved(place: Place) -> None:
    """mv data elsewhere, on the same file system."""
    place.server.home = place.home.rename(place.home.with_name("elsewhere"))


def linked(place: Place) -> None:
    """The database by a symbolic link from another folder."""
    folder = place.home.with_name("linked")
    folder.mkdir()
    (folder / "socialpub.db").symlink_to(place.database)
    place.server.overrides = {"database": {"url": str(folder / "socialpub.db")}}


def folder_linked(place: Place) -> None:
    """The whole folder by a symbolic link."""
    real = place.home.rename(place.home.with_name("elsewhere"))
    place.home.symlink_to(real)


def rebooted(place: Place) -> None:
    """Another boot, and the disk got another number."""
    place.server.host = HostIdentity("machine", "another boot", place.server.host.marks)
    on_another_disk(place)


def renumbered_in_a_container(place: Place) -> None:
    """A new container on the same volume: no machine, no boot, an empty folder of marks, another device."""
    place.server.host = HostIdentity(marks=(place.home.with_name("new container"),))
    on_another_disk(place)


def into_a_container(place: Place) -> None:
    """What ran on the machine itself runs in a container now."""
    place.server.host = HostIdentity(marks=place.server.host.marks)


def no_outside(place: Place) -> None:
    """Nothing can be written outside."""
    shutil.rmtree(place.marks)
    place.marks.write_text("a file is in the way")


def damaged_marks(place: Place) -> None:
    for path in place.marks.iterdir():
        path.write_text("{")


def of_an_older_version(place: Place) -> None:
    found = json.loads(place.state.read_text())
    place.state.write_text(json.dumps({name: found[name] for name in ("beat", "mark")}))


def without_numbers(place: Place) -> None:
    """A file system that numbers its files at each mount tells neither number nor birth: nothing is compared."""
    unknown = {"device": 1, "inode": None, "born": None}
    place.edit_state(own=unknown, database=unknown)
    again_from(place.database)


def touched_and_owned(place: Place) -> None:
    """What an entry point of a container does: chown -R, chmod -R."""
    for path in (place.home, *place.home.rglob("*")):
        os.chown(path, os.getuid(), os.getgid())
        os.utime(path)
    place.database.chmod(0o600)


def on_another_disk(place: Place) -> None:
    found = json.loads(place.state.read_text())
    place.edit_state(database=found["database"] | {"device": os.makedev(8, 33)})


NOT_PAUSED = [
    nothing,
    moved,
    linked,
    folder_linked,
    rebooted,
    renumbered_in_a_container,
    into_a_container,
    no_outside,
    damaged_marks,
    of_an_older_version,
    without_numbers,
    touched_and_owned,
    on_another_disk,  # the mark outside vouches for it
]


def again_from(path: Path) -> None:
    """The same content in another file of the same name."""
    fresh = path.with_name("fresh")
    shutil.copy2(path, fresh)
    fresh.rename(path)


def copied(place: Place) -> None:
    """cp -r data elsewhere, as it is now."""
    place.server.home = place.home.with_name("elsewhere")
    shutil.copytree(place.home if place.home.exists() else place.home.with_name("data"), place.server.home)


def cloned(place: Place) -> None:
    """cp -a data elsewhere: owners and times too."""
    target = place.home.with_name("elsewhere")
    subprocess.run(["cp", "-a", place.home, target], check=True)
    place.server.home = target


def moved_to_another_file_system(place: Place) -> None:
    """Which is a copy, and the removal of what was copied."""
    cloned(place)
    shutil.rmtree(place.home.with_name("data"))


def restored_over(place: Place) -> None:
    """cp -a backup/. data: the files keep their numbers."""
    subprocess.run(["cp", "-a", f"{place.backup}/.", place.home], check=True)


def restored_beside(place: Place) -> None:
    """rsync -a, tar -x: new files in place of the old ones."""
    subprocess.run(["cp", "-a", "--remove-destination", f"{place.backup}/.", place.home], check=True)


def removed_and_restored(place: Place) -> None:
    """rm -r data; cp -a backup data: some file systems use the numbers of the files again."""
    shutil.rmtree(place.home)
    subprocess.run(["cp", "-a", place.backup, place.home], check=True)


def restored_without_marks(place: Place) -> None:
    """The same in a new container."""
    place.server.host = HostIdentity(marks=(place.home.with_name("new container"),))
    removed_and_restored(place)


def restored_over_without_marks(place: Place) -> None:
    place.server.host = HostIdentity(marks=(place.home.with_name("new container"),))
    restored_over(place)


def database_over(place: Place) -> None:
    """cp backup/socialpub.db data/"""
    shutil.copyfile(place.backup / "socialpub.db", place.database)


def database_beside(place: Place) -> None:
    """mv backup/socialpub.db data/"""
    (place.backup / "socialpub.db").rename(place.database)


def database_copied(place: Place) -> None:
    """Another file with what the newest had in it: it may have been in use in between."""
    again_from(place.database)


def state_removed(place: Place) -> None:
    place.state.unlink()


def state_restored(place: Place) -> None:
    shutil.copyfile(place.backup / "instance.state", place.state)


def rolled_back(place: Place) -> None:
    """A snapshot of the volume put back: the same files, numbers and births, with what was in them."""
    place.database.write_bytes((place.backup / "socialpub.db").read_bytes())
    (place.inodes / "instance.state").rename(place.state)


def another_machine(place: Place) -> None:
    """A snapshot of the volume, or the disk itself, in another machine."""
    place.server.host = HostIdentity("another machine", "another boot", (place.home.with_name("its marks"),))


def snapshot_mounted_beside(place: Place) -> None:
    """A snapshot of the volume on another device of the same machine, where no mark could be left."""
    no_outside(place)
    on_another_disk(place)


PAUSED = [
    copied,
    cloned,
    moved_to_another_file_system,
    restored_over,
    restored_beside,
    removed_and_restored,
    restored_without_marks,
    restored_over_without_marks,
    database_over,
    database_beside,
    database_copied,
    state_removed,
    state_restored,
    rolled_back,
    another_machine,
    snapshot_mounted_beside,
]


def rolled_back_in_a_container(place: Place) -> None:
    """A snapshot of the volume put back, and the container made anew: nothing is left that knows better."""
    rolled_back(place)
    renumbered = HostIdentity(marks=(place.home.with_name("new container"),))
    place.server.host = renumbered


def whole_machine_rolled_back(place: Place) -> None:
    """A snapshot of the machine with all its disks."""
    rolled_back(place)
    shutil.rmtree(place.marks)


UNSEEN = [rolled_back_in_a_container, whole_machine_rolled_back]


@pytest.mark.parametrize("happens", NOT_PAUSED)
def test_what_is_no_copy_goes_on(place: Place, happens: Callable[[Place], None]) -> None:
    happens(place)
    assert place.start() is None
    assert ready(place.alice)["publishing"] == "active"
    after = place.alice.api.publish({"text": "after", "targets": [{"accountId": place.alice.bluesky}]})
    assert after.json()["status"] == "published"


@pytest.mark.parametrize("happens", PAUSED)
def test_what_may_be_a_copy_starts_paused_and_is_resumed_once(
    place: Place, happens: Callable[[Place], None], caplog: pytest.LogCaptureFixture
) -> None:
    happens(place)
    assert place.start() == "restored"
    assert len([line for line in caplog.messages if "may have been restored or copied: " in line]) == 1
    assert ready(place.alice)["publishing"] == "paused"
    assert not wait_for(lambda: len(place.server.lab.lab.ledger.posts()) > 1, 0.6)
    place.server.stop()
    assert resume(place.server, "--after-restore", "--skip-overdue") == 0
    assert place.start() is None
    place.server.stop()
    assert place.start() is None


@pytest.mark.parametrize("happens", UNSEEN)
def test_what_cannot_be_seen_is_named_in_the_promises(place: Place, happens: Callable[[Place], None]) -> None:
    """Not wished for: the day it is seen, docs/promises.md says too much."""
    happens(place)
    assert place.start() is None


def test_a_copy_that_was_resumed_and_its_original_each_go_their_way(place: Place) -> None:
    """On one machine, for one user: a copy must not pause the original, nor the other way round."""
    original = place.home
    cloned(place)
    assert place.start() == "restored"
    place.server.stop()
    assert resume(place.server, "--after-restore", "--skip-overdue") == 0
    assert place.start() is None
    schedule(place.server, place.alice, "a change", seconds=3600)
    place.server.stop()
    copy, place.server.home = place.server.home, original
    assert place.start() is None
    place.server.stop()
    place.server.home = copy
    assert place.start() is None


def test_a_copy_with_accounts_and_no_posts_is_paused_too(server: Server, alice: Person) -> None:
    """It would use up the refresh tokens of the original."""
    server.restart(alice)
    server.stop()
    again_from(server.home / "socialpub.db")
    server.start()
    assert paused(server) == "restored"


def test_beats_at_the_same_moment_leave_a_whole_state(place: Place) -> None:
    """A timer's and that of a stop: one file in its place, never an empty one, with the newest number."""
    place.start()
    service = place.server.service
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(instance.advance_generation, service) for _ in range(200)]:
            done.result()
    row = place.server.rows(Instance)[0]
    found = json.loads(place.state.read_text())
    assert (found["beat"], found["mark"]) == (row["beat"], row["mark"])
    assert place.state.stat().st_ino == found["own"]["inode"]


def test_only_so_many_marks_are_kept_outside(place: Place) -> None:
    for number in range(100):
        (place.marks / f"{number:08d}").write_text("{}")
        os.utime(place.marks / f"{number:08d}", (number, number))
    place.start()
    uid = place.server.rows(Instance)[0]["uid"]
    names = {path.name for path in place.marks.iterdir()}
    assert len(names) == 64
    assert uid in names


def test_marks_inside_the_data_folder_would_travel_with_it(place: Place) -> None:
    inside, outside = place.home / "state", place.home.with_name("outside")
    place.server.host = HostIdentity(marks=(inside, outside))
    place.start()
    assert not inside.exists()
    assert len(list(outside.iterdir())) == 1


def test_an_older_state_written_into_the_open_database_stops_the_server(place: Place) -> None:
    """`sqlite3 socialpub.db ".restore backup.db"`: the same file, through SQLite itself."""
    place.start()
    older = place.home / "older.db"
    with contextlib.closing(sqlite3.connect(place.database)) as source:
        source.execute("VACUUM INTO ?", (str(older),))
    schedule(place.server, place.alice, "later")
    beat = place.server.service.process.beat
    assert wait_for(lambda: place.server.service.process.beat > beat, 10)
    with (
        contextlib.closing(sqlite3.connect(older)) as source,
        contextlib.closing(sqlite3.connect(place.database)) as live,
    ):
        source.backup(live)
    assert wait_for(place.server.service.db.fenced.is_set, 10)
    assert place.server.service.db.failing.startswith("an older state was written into this database")
    with place.alice.api.expecting_failure():
        assert place.alice.api.get("/readyz").status_code == 503
    place.server.stop()
    assert place.start() == "restored"


def test_two_beats_at_the_same_moment_leave_a_whole_file(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a run and its timers may both be at it: neither takes the other's file."""
    settings, beats = (
        place.server.settings(0),
        [copy_detection.DatabaseGeneration(102, "second"), copy_detection.DatabaseGeneration(101, "first")],
    )

    def leave(beat: copy_detection.DatabaseGeneration) -> None:
        copy_detection.save_state(settings, place.server.host, "uid", beat, outside=True)

    def identify(path: Path) -> host_identity.FileId:
        if beats and path.name.startswith("instance.state."):  # the first one's file is open, and not yet in its place
            other = threading.Thread(target=leave, args=(beats.pop(0),))
            other.start()
            other.join()
        return host_identify(path)

    host_identify = host_identity.identify_file
    monkeypatch.setattr(host_identity, "identify_file", identify)
    leave(beats.pop())
    state = copy_detection.read_state(place.state)
    assert state is not None
    assert (state.beat, state.mark) == (101, "first")
    assert [path.name for path in place.home.glob("instance.state*")] == ["instance.state"]


# --- Which of two counts is the newer -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("other", "is_behind"),
    [
        (None, False),
        (copy_detection.DatabaseGeneration(6, "mine"), False),
        (copy_detection.DatabaseGeneration(6, "another"), False),
        (copy_detection.DatabaseGeneration(7, "mine"), False),
        (copy_detection.DatabaseGeneration(7, "another"), True),  # both have counted on from one database
        (copy_detection.DatabaseGeneration(8, "mine"), True),
        (copy_detection.DatabaseGeneration(8, "another"), True),
    ],
)
def test_a_beat_is_behind_a_later_number_and_behind_another_mark_of_its_own(
    other: copy_detection.DatabaseGeneration | None, is_behind: bool
) -> None:
    assert copy_detection.DatabaseGeneration(7, "mine").is_behind(other) is is_behind


@pytest.mark.parametrize("where", ["instance.state", "outside"])
def test_an_equal_count_with_another_mark_is_a_copy(place: Place, where: str) -> None:
    """The original and its copy have both run on, for as many beats."""
    left = place.state if where == "instance.state" else next(place.marks.iterdir())
    found = json.loads(left.read_text())
    left.write_text(json.dumps(found | {"mark": "of another life"}))
    assert place.start() == "restored"
    assert place.server.rows(id=place.post)[0]["status"] == "published"


# --- The machine -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variable", ["container", "KUBERNETES_SERVICE_HOST"])
def test_in_a_container_neither_machine_nor_boot_is_known(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "x")
    assert (host_identity.identify_host().machine, host_identity.identify_host().boot) == ("", "")


def test_the_machine_is_known_by_a_hash_of_its_id(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(host_identity, "_is_container", lambda: False)
    found = host_identity.identify_host()
    own = Path("/etc/machine-id")
    assert bool(found.machine) == (own.exists() and bool(own.read_text().strip()))
    assert not own.exists() or not found.machine or found.machine not in own.read_text()


def test_marks_go_where_the_system_keeps_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/somewhere")
    assert host_identity.identify_host().marks[0] == Path("/somewhere/socialpub")
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", "/home/alice")
    assert host_identity.identify_host().marks[0] == Path("/home/alice/.local/state/socialpub")


def test_a_file_that_gets_the_number_of_a_removed_one_was_born_later(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("one")
    before = host_identity.identify_file(path)
    path.rename(tmp_path / "moved")
    assert not host_identity.identify_file(tmp_path / "moved").differs(before.inode, before.born)
    (tmp_path / "moved").unlink()
    path.write_text("two")
    assert host_identity.identify_file(path).differs(before.inode, before.born)
