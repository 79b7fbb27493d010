"""Files left by a killed backup, restore, export or upgrade are removed later."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from socialpub.base import fault_injection
from socialpub.domain.backups import staging
from socialpub.store.schema import migration, upgrade_backup
from tests.support import earlier_databases, forked_commands
from tests.support.app_server import AppServer, Person
from tests.support.backup_commands import upload_file
from tests.support.command_runner import RunCommand
from tests.support.publishing_state import schedule_post

KILLED = -9


@pytest.fixture
def house(server: AppServer, alice: Person, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with a file of media and a post, without a server, with a backup in a folder of its own."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    schedule_post(server, alice, media=[upload_file(alice)])
    server.stop()
    shelf = tmp_path / "backups"
    shelf.mkdir()
    assert command(server.home, "backup", str(shelf / "whole.zip"), "--with-keys") == 0
    return server.home


def command(home: Path, *words: str, kill: str = "", database: Path | None = None) -> int:
    """The exit code of a command on a data folder, which kills itself at the point `kill`."""
    environment = os.environ | {"SOCIALPUB_TEST": "1", "SOCIALPUB_FAULTS": f"{kill}=kill" if kill else ""}
    given = [*words, "--database", str(database or home / "socialpub.db"), "--json"]
    if words[0] == "verify":
        given = [*words, "--json"]
    process = forked_commands.start_fork(given, home, environment)
    _, said = process.communicate()
    code = process.wait()
    assert code in (0, KILLED), said
    return code


def names(*folders: Path) -> set[str]:
    """Everything below these folders, but what a database has beside it while it is open."""
    found = (path for folder in folders for path in folder.rglob("*"))
    return {str(path) for path in found if not path.name.startswith("socialpub.db")}


BACKUP = ("backup.snapshot", "backup.write", "backup.mid", "verify.mid", "backup.checked", "backup.named")


NEXT = [
    *((point, "backup") for point in BACKUP),
    *(("backup.write", after) for after in ("verify", "restore", "export")),
]


@pytest.mark.matrix
@pytest.mark.parametrize(("point", "after"), NEXT)
def test_a_killed_backup_leaves_nothing_after_the_next_command(
    point: str, after: str, house: Path, tmp_path: Path
) -> None:
    """The next one has another name, or is another command on the folder with the backups."""
    shelf, temporary = tmp_path / "backups", tmp_path / "tmp"
    before = names(shelf, house, temporary)
    assert command(house, "backup", str(shelf / "monday.zip"), kill=point) == KILLED
    assert names(shelf, house, temporary) > before
    left = {name for name in names(shelf) if staging.PART_PREFIX in name}
    assert left
    added = {str(shelf / "monday.zip")} if point == "backup.named" else set()
    place = tmp_path / "elsewhere" / "socialpub.db"
    if after == "backup":
        assert command(house, "backup", str(shelf / "tuesday.zip")) == 0
        assert names(shelf, house, temporary) == before | added | {str(shelf / "tuesday.zip")}
    elif after == "verify":
        assert command(house, "verify", str(shelf / "whole.zip")) == 0
        assert names(shelf, temporary) == {str(shelf / "whole.zip")} | added
    elif after == "restore":
        assert command(house, "restore", str(shelf / "whole.zip"), database=place) == 0
        assert names(shelf) == {str(shelf / "whole.zip")} | added
    else:
        assert command(house, "export", str(shelf / "posts.ndjson")) == 0
        assert names(shelf) == {str(shelf / "whole.zip"), str(shelf / "posts.ndjson")} | added


@pytest.mark.parametrize("point", ["restore.put", "restore.media", "restore.mid"])
def test_a_killed_restore_leaves_nothing_after_the_next(point: str, house: Path, tmp_path: Path) -> None:
    """The key's copy too; and the next restore may be of another backup."""
    shelf, place = tmp_path / "backups", tmp_path / "elsewhere" / "socialpub.db"
    shutil.copy(shelf / "whole.zip", shelf / "other.zip")
    assert command(house, "restore", str(shelf / "whole.zip"), kill=point, database=place) == KILLED
    assert command(house, "restore", str(shelf / "other.zip"), database=place) == 0
    (media,) = [path for path in (house / "media").rglob("*") if path.is_file()]
    wanted = {"media", f"media/{media.parent.name}", f"media/{media.parent.name}/{media.name}", "master.key"}
    assert {str(Path(name).relative_to(place.parent)) for name in names(place.parent)} == wanted
    assert {path.name for path in place.parent.glob("*socialpub.db*")} <= {
        "socialpub.db", "socialpub.db.lock", "socialpub.db.write", "socialpub.db-wal", "socialpub.db-shm",
    }  # fmt: skip


def test_a_killed_rotation_leaves_no_key_after_the_next(house: Path) -> None:
    assert command(house, "keys", "rotate", kill="rotate.written") == KILLED
    assert list(house.glob(".master.key*"))
    assert command(house, "keys", "rotate") == 0
    assert list(house.glob(".master.key*")) == []


def test_a_killed_verify_leaves_no_database_in_the_temporary_folder(house: Path, tmp_path: Path) -> None:
    file = str(tmp_path / "backups" / "whole.zip")
    assert command(house, "verify", file, kill="verify.mid") == KILLED
    assert names(tmp_path / "tmp")
    assert command(house, "verify", file) == 0
    assert names(tmp_path / "tmp") == set()


def test_a_killed_export_leaves_nothing_after_the_next(house: Path, tmp_path: Path) -> None:
    shelf = tmp_path / "exports"
    shelf.mkdir()
    assert command(house, "export", str(shelf / "a.ndjson"), kill="export.mid") == KILLED
    assert names(shelf)
    assert command(house, "export", str(shelf / "b.csv")) == 0
    assert names(shelf) == {str(shelf / "b.csv")}


@pytest.mark.usefixtures("later")
@pytest.mark.parametrize("point", ["upgrade.part", "upgrade.copied"])
def test_a_killed_upgrade_leaves_no_part_of_a_copy(point: str, tmp_path: Path) -> None:
    """Not even when the next start is of a version that has nothing to copy."""
    path = tmp_path / "data" / "socialpub.db"
    path.parent.mkdir()
    earlier_databases.make_database(path, earlier_databases.newest_version() - 1, tmp_path / "versions")
    assert command(path.parent, "migrate", kill=point) == KILLED
    assert list(path.parent.glob(".*.part*"))
    migration.migrate(path)
    assert not list(path.parent.glob(".*.part*"))


def test_only_parts_of_copies_are_removed(tmp_path: Path) -> None:
    others = [".socialpub-before-notes.part", ".other-before-0001_x.db.part", "socialpub-before-0001_x.db"]
    for name in others:
        (tmp_path / name).touch()
    (tmp_path / ".socialpub-before-0001_x.db.part-wal").touch()
    upgrade_backup.remove_leftovers(tmp_path / "socialpub.db")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(others)


def test_only_workspaces_that_nobody_uses_are_removed(tmp_path: Path) -> None:
    mine = [".socialpub-part-notes", ".socialpub-part-", ".s3-config", ".restoring-", "socialpub-part-abcdefgh"]
    for name in mine:
        (tmp_path / name).mkdir()
    (tmp_path / ".backup-abcdefgh").write_text("a file of somebody")
    (tmp_path / ".restoring-abcdefgh").symlink_to(tmp_path / ".s3-config")
    (tmp_path / ".s3-config" / "kept").touch()
    for prefix in (staging.PART_PREFIX, staging.S3_PREFIX, staging.PINS_PREFIX, staging.RESTORE_PREFIX):
        left = tmp_path / f"{prefix}a1b2c3d_"
        left.mkdir()
        (left / "file").touch()
    with staging.create_folder(tmp_path, staging.PART_PREFIX) as used:
        staging.sweep(tmp_path)
        assert used.is_dir()
        kept = {*mine, ".backup-abcdefgh", ".restoring-abcdefgh", used.name}
        assert {path.name for path in tmp_path.iterdir()} == kept
    assert not used.exists()
    assert (tmp_path / ".s3-config" / "kept").exists()


@pytest.mark.parametrize(("command", "point"), [("backup", "backup.checked"), ("export", "export.mid")])
def test_a_file_that_appears_meanwhile_is_not_overwritten(
    run: RunCommand, folder: Path, monkeypatch: pytest.MonkeyPatch, command: str, point: str
) -> None:
    def appear(name: str) -> None:
        if name == point:
            (folder / "there").write_text("of another process")

    run("migrate")
    run("org", "create", "Acme")
    monkeypatch.setattr(fault_injection, "hit", appear)
    ended = run(command, "there")
    assert (ended.code, (folder / "there").read_text()) == (3, "of another process"), ended.err
    assert [path.name for path in folder.glob(".socialpub-part-*")] == []
