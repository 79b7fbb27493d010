"""Detection of a copied database at a start, by the table in docs/promises.md."""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from socialpub.base.system import host_identity
from socialpub.base.system.host_identity import HostIdentity
from socialpub.domain.server import copy_detection, instance
from socialpub.store.schema.models import Instance
from tests.support.app_server import AppServer, Person

# --- What a start finds ----------------------------------------------------------------------------------------------
from tests.support.copy_scenarios import (
    DataPlace,
    again_from,
    another_machine,
    brisk,
    cloned,
    copied,
    damaged_marks,
    database_beside,
    database_copied,
    database_over,
    folder_linked,
    into_a_container,
    linked,
    moved,
    moved_to_another_file_system,
    no_outside,
    nothing,
    of_an_older_version,
    on_another_disk,
    place,
    rebooted,
    removed_and_restored,
    renumbered_in_a_container,
    restored_beside,
    restored_over,
    restored_over_without_marks,
    restored_without_marks,
    rolled_back,
    rolled_back_in_a_container,
    snapshot_mounted_beside,
    state_removed,
    state_restored,
    touched_and_owned,
    whole_machine_rolled_back,
    without_numbers,
)
from tests.support.publishing_state import pause_reason, readiness, resume_publishing, schedule_post
from tests.support.soak.soak_world import wait_for

__all__ = ["brisk", "place"]


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


UNSEEN = [rolled_back_in_a_container, whole_machine_rolled_back]


@pytest.mark.matrix
@pytest.mark.parametrize("happens", NOT_PAUSED)
def test_what_is_no_copy_goes_on(place: DataPlace, happens: Callable[[DataPlace], None]) -> None:
    happens(place)
    assert place.start() is None
    assert readiness(place.alice)["publishing"] == "active"
    after = place.alice.api.publish({"text": "after", "targets": [{"accountId": place.alice.bluesky}]})
    assert after.json()["status"] == "published"


@pytest.mark.slow
@pytest.mark.parametrize("happens", PAUSED)
def test_what_may_be_a_copy_starts_paused_and_is_resumed_once(
    place: DataPlace, happens: Callable[[DataPlace], None], caplog: pytest.LogCaptureFixture
) -> None:
    happens(place)
    assert place.start() == "restored"
    assert len([line for line in caplog.messages if "may have been restored or copied: " in line]) == 1
    assert readiness(place.alice)["publishing"] == "paused"
    assert not wait_for(lambda: len(place.server.lab.lab.ledger.posts()) > 1, 0.6)
    place.server.stop()
    assert resume_publishing(place.server, "--after-restore", "--skip-overdue") == 0
    assert place.start() is None
    place.server.stop()
    assert place.start() is None


@pytest.mark.parametrize("happens", UNSEEN)
def test_what_cannot_be_seen_is_named_in_the_promises(place: DataPlace, happens: Callable[[DataPlace], None]) -> None:
    """Not wished for: the day it is seen, docs/promises.md says too much."""
    happens(place)
    assert place.start() is None


@pytest.mark.slow
def test_a_copy_that_was_resumed_and_its_original_each_go_their_way(place: DataPlace) -> None:
    """On one machine, for one user: a copy must not pause the original, nor the other way round."""
    original = place.home
    cloned(place)
    assert place.start() == "restored"
    place.server.stop()
    assert resume_publishing(place.server, "--after-restore", "--skip-overdue") == 0
    assert place.start() is None
    schedule_post(place.server, place.alice, "a change", seconds=3600)
    place.server.stop()
    copy, place.server.home = place.server.home, original
    assert place.start() is None
    place.server.stop()
    place.server.home = copy
    assert place.start() is None


def test_a_copy_with_accounts_and_no_posts_is_paused_too(server: AppServer, alice: Person) -> None:
    """It would use up the refresh tokens of the original."""
    server.restart(alice)
    server.stop()
    again_from(server.home / "socialpub.db")
    server.start()
    assert pause_reason(server) == "restored"


@pytest.mark.slow
def test_beats_at_the_same_moment_leave_a_whole_state(place: DataPlace) -> None:
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


def test_only_so_many_marks_are_kept_outside(place: DataPlace) -> None:
    for number in range(100):
        (place.marks / f"{number:08d}").write_text("{}")
        os.utime(place.marks / f"{number:08d}", (number, number))
    place.start()
    uid = place.server.rows(Instance)[0]["uid"]
    names = marks_in(place.marks)
    assert uid in names
    assert len(names) == 64


def marks_in(folder: Path) -> set[str]:
    """The marks in place: a heartbeat's file that is being written has dots in its name."""
    return {path.name for path in folder.iterdir() if "." not in path.name}


def test_a_mark_put_in_place_while_the_old_ones_are_counted_is_kept(
    place: DataPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file of another heartbeat has its name between the listing and the look at it: no second folder is used."""
    second = place.home.with_name("second")
    host = HostIdentity(marks=(place.marks, second))
    list_files = Path.iterdir

    def iterdir(folder: Path) -> Iterator[Path]:
        yield from list_files(folder)
        if folder == place.marks:
            yield folder / "uid.1.2"

    monkeypatch.setattr(Path, "iterdir", iterdir)
    generation = copy_detection.DatabaseGeneration(1, "mark")
    copy_detection.save_state(place.server.settings(0), host, "uid", generation, outside=True)
    assert "uid" in marks_in(place.marks)
    assert not second.exists()


def test_marks_inside_the_data_folder_would_travel_with_it(place: DataPlace) -> None:
    inside, outside = place.home / "state", place.home.with_name("outside")
    place.server.host = HostIdentity(marks=(inside, outside))
    place.start()
    assert not inside.exists()
    assert len(marks_in(outside)) == 1


def test_an_older_state_written_into_the_open_database_stops_the_server(place: DataPlace) -> None:
    """`sqlite3 socialpub.db ".restore backup.db"`: the same file, through SQLite itself."""
    place.start()
    older = place.home / "older.db"
    with contextlib.closing(sqlite3.connect(place.database)) as source:
        source.execute("VACUUM INTO ?", (str(older),))
    schedule_post(place.server, place.alice, "later")
    beat = place.server.service.process.beat
    assert wait_for(lambda: place.server.service.process.beat > beat, 60)
    with (
        contextlib.closing(sqlite3.connect(older)) as source,
        contextlib.closing(sqlite3.connect(place.database)) as live,
    ):
        source.backup(live)
    assert wait_for(place.server.service.db.fenced.is_set, 60)
    assert place.server.service.db.failing.startswith("the database was replaced by an older state")
    with place.alice.api.expecting_failure():
        assert place.alice.api.get("/readyz").status_code == 503
    place.server.stop()
    assert place.start() == "restored"


def test_two_beats_at_the_same_moment_leave_a_whole_file(place: DataPlace, monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_heartbeat_is_behind_a_later_number_or_another_mark(
    other: copy_detection.DatabaseGeneration | None, is_behind: bool
) -> None:
    assert copy_detection.DatabaseGeneration(7, "mine").is_behind(other) is is_behind


@pytest.mark.parametrize("where", ["instance.state", "outside"])
def test_an_equal_count_with_another_mark_is_a_copy(place: DataPlace, where: str) -> None:
    """The original and its copy have both run on, for as many beats."""
    left = place.state if where == "instance.state" else place.marks / next(iter(marks_in(place.marks)))
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
