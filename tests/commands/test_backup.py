"""backup, verify, restore: one complete file, made beside a running server."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import random
import shutil
import sqlite3
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from socialpub.base.security import crypto
from socialpub.domain.backups import archive, creation, verification
from socialpub.store.jobs import job_queue
from socialpub.store.schema import snapshot
from tests.support.app_server import AppServer, Person
from tests.support.backup_commands import _png, backup_command, upload_file
from tests.support.command_runner import RunCommand
from tests.support.publishing_state import schedule_post
from tests.support.soak.soak_world import wait_for

DAY = 86_400.0


def source_of(server: AppServer) -> snapshot.SnapshotSource:
    return snapshot.from_server(server.service.db)


@pytest.fixture
def home_of(tmp_path: Path) -> Path:
    """Where a restore puts things."""
    return tmp_path / "elsewhere"


def test_what_was_acknowledged_is_in_the_backup_and_back_after_a_restore(
    server: AppServer, alice: Person, home_of: Path
) -> None:
    media = upload_file(alice)
    post = schedule_post(server, alice, media=[media])
    file = server.home / "b.zip"
    made = backup_command(server, "backup", str(file))
    assert (made.code, made.json["ok"], made.json["problems"], made.json["mediaFiles"]) == (0, True, [], 1)
    assert made.json["bytes"] == file.stat().st_size
    assert backup_command(server, "verify", str(file)).json == made.json
    assert {path.name for path in server.home.iterdir() if "b.zip" in path.name} == {"b.zip"}
    assert not list(server.home.glob("media/.backup*"))

    restored = backup_command(server, "restore", str(file), database=home_of / "socialpub.db")
    assert (restored.code, restored.json["paused"], restored.json["overdue"]) == (0, "restored", [])
    assert restored.json["key"].startswith("missing: ")

    server.stop()
    shutil.copy(server.home / "master.key", home_of)
    server.home = home_of
    server.start()
    again = server.api(alice.key)
    assert again.get(f"/v1/posts/{post}").json()["status"] == "queued"
    assert again.get(f"/v1/media/{media}").json()["sizeBytes"] == len(_png(0))
    assert again.get("/readyz").json() | {"publishing": "paused", "reason": "restored"} == again.get("/readyz").json()


def test_overdue_posts_are_told_by_the_restore(server: AppServer, alice: Person, home_of: Path) -> None:
    post = schedule_post(server, alice)
    _taken(server)
    with zipfile.ZipFile(server.home / "b.zip") as found, sqlite3.connect(server.home / "old.db") as old:
        (server.home / "old.db").write_bytes(found.read("socialpub.db"))
        old.execute("UPDATE post SET scheduled_at = 1000, created_at = 1000")
    _repack(server.home / "b.zip", server.home / "old.db")
    restored = backup_command(server, "restore", "b.zip", database=home_of / "socialpub.db")
    assert [row["id"] for row in restored.json["overdue"]] == [post]


def _repack(file: Path, database: Path) -> None:
    """Another database in a backup."""
    parts = _inside(file)
    parts["socialpub.db"] = database.read_bytes()
    manifest = json.loads(parts["manifest.json"])
    manifest |= {"databaseSha256": archive.hash_file(database), "databaseBytes": database.stat().st_size}
    parts["manifest.json"] = json.dumps(manifest).encode()
    with zipfile.ZipFile(file, "w") as new:
        for name, content in parts.items():
            new.writestr(name, content)


def _taken(server: AppServer, *, with_key: bool = False) -> Path:
    """A backup that was made in this process, where the test is about what comes after it."""
    file, settings = server.home / "b.zip", server.service.runtime.settings
    taken = creation.create_backup(
        source_of(server),
        settings,
        file,
        server.clock.now_ms(),
        lambda *told: None,
        with_key=with_key,
    )
    assert taken.problems == ()
    return file


def test_the_key_goes_along_only_when_asked(server: AppServer, alice: Person, home_of: Path) -> None:
    assert backup_command(server, "backup", "without.zip").code == 0
    assert backup_command(server, "backup", "with.zip", "--with-keys").code == 0
    key = (server.home / "master.key").read_bytes()
    assert key.strip() not in (server.home / "without.zip").read_bytes()
    restored = backup_command(server, "restore", "with.zip", database=home_of / "socialpub.db")
    assert (restored.json["key"], (home_of / "master.key").read_bytes()) == ("restored", key)
    assert (home_of / "master.key").stat().st_mode & 0o777 == 0o600


def test_no_secret_is_in_a_backup_in_the_clear(server: AppServer, alice: Person) -> None:
    assert backup_command(server, "backup", "b.zip").code == 0
    inside = b"".join(_inside(server.home / "b.zip").values())
    assert server.watch.secrets
    assert not [secret for secret in server.watch.secrets if secret.encode() in inside]


def test_media_that_are_deleted_meanwhile_are_inside(server: AppServer, alice: Person) -> None:
    media = upload_file(alice)

    def delete(what: str, done: int, total: int) -> None:
        if what == "copying the database" and alice.api.get(f"/v1/media/{media}").status_code == 200:
            assert alice.api.delete(f"/v1/media/{media}").status_code == 200
            for path in server.home.glob("media/??/*"):
                path.unlink(missing_ok=True)  # if the server has not done so yet

    settings = server.service.runtime.settings
    file = server.home / "b.zip"
    taken = creation.create_backup(source_of(server), settings, file, server.clock.now_ms(), delete, with_key=False)
    assert (taken.problems, taken.manifest.media_files) == ((), 1)


def test_the_first_media_that_are_added_meanwhile_are_inside(server: AppServer, alice: Person) -> None:
    def upload_and_read(run: Callable[[sqlite3.Connection], Any]) -> Any:
        upload_file(alice)
        return source_of(server)(run)

    assert not (server.home / "media").exists()
    settings, file = server.service.runtime.settings, server.home / "b.zip"
    taken = creation.create_backup(
        upload_and_read, settings, file, server.clock.now_ms(), lambda *told: None, with_key=False
    )
    assert (taken.problems, taken.manifest.media_files) == ((), 1)
    (media,) = [path for path in server.home.glob("media/**/*") if path.is_file()]
    assert len(media.name) == 64


@pytest.mark.parametrize("is_deleted", [False, True])
def test_media_are_copied_where_there_are_no_hard_links(
    server: AppServer, alice: Person, monkeypatch: pytest.MonkeyPatch, is_deleted: bool
) -> None:
    media = upload_file(alice)
    (stored,) = server.home.glob("media/??/*")

    def refuse(source: Path, target: Path) -> None:
        if is_deleted and stored.exists() and source == stored:
            assert alice.api.delete(f"/v1/media/{media}").status_code == 200
            stored.unlink(missing_ok=True)
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    _taken(server)
    assert len(_inside(server.home / "b.zip")) == 2 + (not is_deleted)


@pytest.mark.slow
def test_media_that_are_gone_or_changed_are_told(server: AppServer, alice: Person) -> None:
    upload_file(alice, 1), upload_file(alice, 2)
    gone, changed = sorted(server.home.glob("media/??/*"))
    gone.unlink()
    changed.write_bytes(b"something else")
    made = backup_command(server, "backup", "b.zip")
    assert (made.code, made.json["ok"]) == (1, False)
    assert made.json["problems"][:2] == [
        f"media file {gone.name} is missing",
        f"media file {changed.name} has changed on disk",
    ]
    assert backup_command(server, "verify", "b.zip").code == 1


# --- Refused -------------------------------------------------------------------------------------------------------


def test_a_backup_writes_over_nothing(server: AppServer) -> None:
    (server.home / "b.zip").write_text("mine")
    refused = backup_command(server, "backup", "b.zip")
    assert refused.code == 3
    assert refused.error["message"].endswith("b.zip exists already. Choose another name, or move the file away.")
    assert (server.home / "b.zip").read_text() == "mine"


def test_a_backup_of_nothing_is_refused_and_makes_no_database(server: AppServer, home_of: Path) -> None:
    refused = backup_command(server, "backup", "b.zip", database=home_of / "none.db")
    assert refused.code == 3
    assert " does not exist. The settings were read from " in refused.error["message"]
    assert not home_of.exists()


def test_a_restore_writes_over_nothing(server: AppServer, alice: Person, home_of: Path) -> None:
    _taken(server)
    serving = backup_command(server, "restore", "b.zip")
    assert serving.code == 3
    home_of.mkdir()
    for name in ("socialpub.db", "socialpub.db-wal"):
        (home_of / name).write_text("mine")
        refused = backup_command(server, "restore", "b.zip", database=home_of / "socialpub.db")
        assert (refused.code, "overwrites nothing" in refused.error["message"]) == (3, True)
        assert (home_of / name).read_text() == "mine"
        (home_of / name).unlink()


def test_a_restore_of_a_database_without_secrets_asks_for_no_key(run: RunCommand, folder: Path) -> None:
    run("migrate")
    run("backup", "b.zip")
    assert run("restore", "b.zip", "--database", "other/x.db", "--json").json["key"] == "none needed"


@pytest.mark.parametrize("place", ["file", "damaged file", "settings"])
def test_a_restore_names_the_master_key_that_is_not_there(
    server: AppServer, alice: Person, home_of: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    _taken(server)
    home_of.mkdir()
    other = base64.b64encode(b"k" * 32).decode()
    if place == "settings":
        monkeypatch.setenv("SOCIALPUB_SECURITY__ENCRYPTION_KEYS", json.dumps([other]))
    else:
        (home_of / "master.key").write_text(other if place == "file" else "no key")
    restored = backup_command(server, "restore", "b.zip", database=home_of / "socialpub.db")
    key = crypto.parse_master_key((server.home / "master.key").read_text()).id
    assert (restored.code, restored.json["key"]) == (0, f"missing: {key}")


def test_a_restore_leaves_another_master_key_alone(server: AppServer, alice: Person, home_of: Path) -> None:
    _taken(server, with_key=True)
    home_of.mkdir()
    (home_of / "master.key").write_text("another")
    refused = backup_command(server, "restore", "b.zip", database=home_of / "socialpub.db")
    assert (refused.code, "differs from the master key" in refused.error["message"]) == (1, True)
    assert [path.name for path in home_of.iterdir() if path.suffix == ".db"] == []


def _no_archive(path: Path) -> None:
    path.write_bytes(b"no archive")


def _other_archive(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("../../etc/passwd", "root")


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _newer(path: Path) -> None:
    parts = _inside(path)
    parts["manifest.json"] = parts["manifest.json"].replace(b'"format": 1', b'"format": 2')
    with zipfile.ZipFile(path, "w") as new:
        for name, content in parts.items():
            new.writestr(name, content)


def _cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 30)


def _later_zip(path: Path) -> None:
    """An archive of a later version of the format, by its directory."""
    content = path.read_bytes()
    path.write_bytes(content.replace(b"PK\x01\x02\x14\x03\x14", b"PK\x01\x02\x14\x03\xff"))


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("hurt", "said"),
    [
        (_no_archive, "is not a backup, or is truncated"),
        (_other_archive, "is an archive, but not a socialpub backup"),
        (_newer, "was made by a newer socialpub"),
        (_cut, "is not a backup, or is truncated"),
        (_later_zip, "is not a backup, or is truncated"),
        (Path.unlink, "does not exist"),
        (_folder, "cannot be read: it is a folder, and a file is needed"),
    ],
)
@pytest.mark.parametrize("verb", ["verify", "restore"])
def test_what_is_no_backup_is_refused(
    server: AppServer, home_of: Path, hurt: Callable[[Path], None], said: str, verb: str
) -> None:
    hurt(_taken(server))
    refused = backup_command(server, verb, "b.zip", database=home_of / "socialpub.db")
    assert (refused.code, said in refused.error["message"]) == (1, True), refused.error
    assert not home_of.exists()


@pytest.mark.parametrize("verb", ["verify", "restore"])
def test_a_database_of_another_program_is_no_backup(
    server: AppServer, home_of: Path, tmp_path: Path, verb: str
) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "other.db")) as other:
        other.execute("CREATE TABLE note (id)")
    _repack(_taken(server), tmp_path / "other.db")
    refused = backup_command(server, verb, "b.zip", database=home_of / "socialpub.db")
    assert refused.code == 1
    said = refused.json["problems"][0] if verb == "verify" else refused.error["message"]
    assert "is damaged (its tables cannot be read)" in said
    assert not (home_of / "socialpub.db").exists()


def test_a_flipped_bit_anywhere_is_found(server: AppServer, alice: Person) -> None:
    upload_file(alice)
    file, hurt = _taken(server), server.home / "hurt.zip"
    content = file.read_bytes()
    chance = random.Random(20_261_122)
    with zipfile.ZipFile(file) as found:
        parts = [(part.header_offset + 60 + len(part.filename), part.compress_size - 40) for part in found.infolist()]
    for start, length in parts * 5:
        at = start + chance.randrange(max(1, length))
        hurt.write_bytes(content[:at] + bytes([content[at] ^ 1 << chance.randrange(8)]) + content[at + 1 :])
        assert not _is_whole(hurt) or _inside(hurt) == _inside(file), at  # some bits of packed data say nothing


def test_a_changed_byte_of_the_directory_is_told(server: AppServer, alice: Person) -> None:
    upload_file(alice)
    hurt = server.home / "hurt.zip"
    content = _taken(server, with_key=True).read_bytes()
    for at in range(content.index(b"PK\x01\x02"), len(content)):
        for value in {0, 1, 0x7F, 0xFF} - {content[at]}:
            hurt.write_bytes(content[:at] + bytes([value]) + content[at + 1 :])
            with contextlib.suppress(archive.BackupError):
                reader = archive.ArchiveReader(hurt)
                reader.extract_database(io.BytesIO(), lambda _: None)


def _inside(file: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(file) as found:
        return {name: found.read(name) for name in found.namelist()}


def _is_whole(file: Path) -> bool:
    try:
        return not verification.verify_backup(file, lambda *told: None).problems
    except archive.BackupError:
        return False


def test_a_start_after_a_restore_that_was_cut_off_makes_no_empty_database(server: AppServer, home_of: Path) -> None:
    home_of.mkdir()
    (home_of / "socialpub.db.restoring").write_bytes(b"half")
    refused = backup_command(server, "serve", "--port", "0", database=home_of / "socialpub.db")
    assert (refused.code, "A restore was interrupted. Repeat it" in refused.error["message"]) == (1, True)
    assert not (home_of / "socialpub.db").exists()


# --- By itself -----------------------------------------------------------------------------------------------------


@pytest.fixture
def timed(make_server: Callable[..., AppServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AppServer:
    """A server that makes a backup a day, and keeps three; when the test says so, and not on its timer."""
    monkeypatch.setattr(job_queue, "SCHEDULER_SECONDS", 3600.0)
    return make_server(backup={"directory": str(tmp_path / "backups"), "every": DAY, "keep": 3})


def _made(server: AppServer) -> list[str]:
    """One look, as the timer makes it; the backups that are there after it."""
    server.engine.periodic.backups.run_due()
    return sorted(path.name for path in Path(server.service.runtime.settings.backup.directory).glob("*"))


def test_a_backup_a_day_is_made_and_the_oldest_removed(timed: AppServer) -> None:
    first = _made(timed)
    assert len(first) == 1
    assert _made(timed) == first
    for _ in range(3):
        timed.clock.skip(DAY)
        made = _made(timed)
    assert len(made) == 3
    assert first[0] not in made
    for name in made:
        assert _is_whole(Path(timed.service.runtime.settings.backup.directory, name))


def test_backups_with_problems_displace_none_without(timed: AppServer, alice: Person) -> None:
    """However many there are: the good ones have the media that are missing now."""
    upload_file(alice, 1)
    for _ in range(3):
        timed.clock.skip(DAY)
        good = _made(timed)
    (stored,) = timed.home.glob("media/??/*")
    stored.unlink()
    for _ in range(4):
        timed.clock.skip(DAY)
        made = _made(timed)
        timed.restart()
    bad = sorted(set(made) - set(good))
    assert set(good) < set(made)
    assert [name.endswith("Z-with-problems.zip") for name in bad] == [True] * 3


def test_problems_of_the_newest_backup_are_known_after_a_restart(timed: AppServer, alice: Person) -> None:
    upload_file(alice, 1)
    (stored,) = timed.home.glob("media/??/*")
    content = stored.read_bytes()
    stored.unlink()
    (bad,) = _made(timed)
    assert "is missing" in timed.engine.periodic.backups.problem
    timed.restart()
    assert _made(timed) == [bad]
    assert timed.engine.periodic.backups.problem == f"{bad} has problems: `socialpub verify` lists them."
    stored.write_bytes(content)
    timed.clock.skip(DAY)
    assert len(_made(timed)) == 2
    assert timed.engine.periodic.backups.problem == ""
    timed.restart()
    assert len(_made(timed)) == 2
    assert timed.engine.periodic.backups.problem == ""


def test_a_timed_backup_does_not_contain_the_master_key(timed: AppServer) -> None:
    """Whoever gets hold of the folder or the bucket cannot open the tokens that the backup contains."""
    key = (timed.home / "master.key").read_bytes().strip()
    (name,) = _made(timed)
    with zipfile.ZipFile(Path(timed.service.runtime.settings.backup.directory, name)) as backup:
        members = {member: backup.read(member) for member in backup.namelist()}
    assert "socialpub.db" in members
    assert "master.key" not in members
    assert not [member for member, content in members.items() if key in content]


def test_a_restart_makes_no_further_one(timed: AppServer) -> None:
    made = _made(timed)
    timed.restart()
    assert _made(timed) == made


def test_other_files_in_the_folder_are_left_alone(timed: AppServer) -> None:
    folder = Path(timed.service.runtime.settings.backup.directory)
    folder.mkdir()
    for name in ("mine.zip", "socialpub-before-upgrade.zip"):
        (folder / name).write_text("mine")
    linked, nested = (f"socialpub-{year}0101T000000Z.zip" for year in (2019, 2020))
    (folder / linked).symlink_to(folder / "a disk that is not there" / linked)
    (folder / nested).mkdir()
    for _ in range(4):
        timed.clock.skip(DAY)
        made = _made(timed)
    assert {"mine.zip", "socialpub-before-upgrade.zip", linked, nested} < set(made)


@pytest.mark.slow
def test_a_folder_that_cannot_be_used_is_told_and_tried_again(
    make_server: Callable[..., AppServer],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(job_queue, "SCHEDULER_SECONDS", 0.05)
    folder = tmp_path / "backups"
    folder.write_text("a file")
    server = make_server(backup={"directory": str(folder), "every": DAY})
    server.skip(60)
    assert wait_for(
        lambda: "the backup failed and is retried in 10 minutes: a file has the name of its folder" in caplog.text, 30
    )
    folder.unlink()
    server.skip(590)
    before = server.engine.heartbeat
    assert wait_for(lambda: server.engine.heartbeat > before + 1, 30)  # rounds in which none is made
    assert not folder.exists()
    server.skip(10)
    assert wait_for(lambda: list(folder.glob("socialpub-*.zip")), 30)
