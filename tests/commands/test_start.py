"""Faults that prevent a start: each is named, and existing data stays unchanged."""

from __future__ import annotations

import base64
import errno
import json
import os
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from socialpub.base.security import crypto, master_key_file
from socialpub.base.security.crypto import MasterKey, parse_master_key, parse_master_keys
from tests.support import earlier_databases
from tests.support.command_runner import TOKENS, AskCommand, RunCommand
from tests.support.server_start import SERVE, failed_start

Damage = Callable[[Path], None]
CREATE = ("org", "create", "Acme", "--json")


@pytest.fixture
def sealed(ask: AskCommand, folder: Path) -> Path:
    """The key file of a database that holds an account's tokens."""
    org = ask("org", "create", "Acme")["id"]
    profile = ask("profile", "list", "--org", org)[0]["id"]
    where = ("--profile", profile, "--platform", "bluesky", "--platform-account-id", "did:plc:alice")
    ask("account", "add", *where, stdin=json.dumps(TOKENS))
    return folder / "master.key"


# --- The key file ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [SERVE, CREATE])
def test_missing_key_file_is_not_recreated_while_secrets_need_the_old_one(
    run: RunCommand, sealed: Path, command: tuple[str, ...]
) -> None:
    sealed.unlink()
    failed_start(run(*command), "master.key", "missing", "backup")
    assert not sealed.exists()


def test_a_key_file_that_could_not_be_written_is_made_by_the_next_command(
    run: RunCommand, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is whole or not there, so that a command that fails, or is killed, bars no other one."""
    assert run("migrate").code == 0

    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(master_key_file.os, "fsync", fail)
        assert "the disk is full" in run(*CREATE).err
    assert list(folder.glob("*master.key*")) == []
    assert run(*CREATE).code == 0


def test_commands_that_start_at_once_make_one_key_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of them finds the file that another one has made meanwhile, and leaves it."""
    path, theirs = folder / "master.key", MasterKey(b"t" * 32)
    link = os.link

    def link_later(*given: Any) -> None:
        path.write_bytes(crypto.format_master_keys([theirs]))
        link(*given)

    monkeypatch.setattr(os, "link", link_later)
    master_key_file.create(path, MasterKey(b"o" * 32))
    assert parse_master_keys(path.read_text()) == [theirs]
    assert list(folder.iterdir()) == [path]


def test_a_key_file_is_made_while_there_is_no_secret_yet(run: RunCommand, folder: Path) -> None:
    assert run("migrate").code == 0
    assert not (folder / "master.key").exists()
    assert run(*CREATE).code == 0
    assert len(base64.b64decode((folder / "master.key").read_text())) == 32


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_a_key_file_that_others_can_read_is_refused(run: RunCommand, sealed: Path, mode: int) -> None:
    sealed.chmod(mode)
    failed_start(run(*CREATE), "master.key", "chmod 600")


@pytest.mark.parametrize("content", ["", "secret", base64.b64encode(b"k" * 31).decode(), "schlüssel"])
def test_a_key_file_that_holds_no_key_is_refused_and_not_shown(run: RunCommand, sealed: Path, content: str) -> None:
    sealed.write_text(content)
    ended = run(*CREATE)
    failed_start(ended, "master.key", "32 random bytes in base64")
    assert not content or content not in ended.out + ended.err


def test_keys_of_the_settings_stand_in_for_the_key_file(run: RunCommand, sealed: Path, folder: Path) -> None:
    (folder / "socialpub.toml").write_text(f'[security]\nencryption_keys = ["{sealed.read_text().strip()}"]\n')
    sealed.unlink()
    assert run(*CREATE).code == 0
    assert not sealed.exists()


def test_a_wrong_key_in_the_settings_is_refused_and_not_shown(run: RunCommand, folder: Path) -> None:
    (folder / "socialpub.toml").write_text('[security]\nencryption_keys = ["correct horse"]\n')
    ended = run(*CREATE)
    failed_start(ended, "security.encryption_keys", "32 random bytes in base64")
    assert "horse" not in ended.out + ended.err


def served_before(folder: Path) -> None:
    """No secret yet, but a key that cursors and addresses are signed with."""
    with closing(sqlite3.connect(folder / "socialpub.db")) as connection:
        connection.execute("UPDATE account SET secret = NULL")
        connection.execute(
            "INSERT INTO instance (id, uid, epoch, beat, mark, seen_at, key_id) VALUES (1, '', 1, 1, '', 0, 'c0ffee00')"
        )
        connection.commit()


def test_a_changed_secret_that_the_database_signs_with_is_told_as_damage(
    run: RunCommand, sealed: Path, folder: Path
) -> None:
    served_before(folder)
    path = folder / "socialpub.db"
    with closing(sqlite3.connect(path)) as connection:
        signs = f"v1.{parse_master_key(sealed.read_text()).id}.AAAAAAAAAAAAAAAA.{'A' * 64}"
        connection.execute("UPDATE instance SET key_id = NULL, signing_key = ?", (signs,))
        connection.commit()
    for _ in range(2):  # nothing of a start that failed is in the way of the next one in this process
        failed_start(run(*SERVE), "socialpub.db is damaged", "its signing secret", "Put a backup in its place")
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT epoch FROM instance").fetchone() == (1,)


@pytest.mark.matrix
@pytest.mark.parametrize("command", [SERVE, CREATE])
@pytest.mark.parametrize("before", [lambda folder: None, served_before], ids=["tokens", "served before"])
@pytest.mark.parametrize("where", ["master.key", "security.encryption_keys"])
def test_another_master_key_is_refused_before_anything_is_written(
    run: RunCommand, sealed: Path, folder: Path, command: tuple[str, ...], before: Damage, where: str
) -> None:
    needed = parse_master_key(sealed.read_text()).id if before is not served_before else "c0ffee00"
    before(folder)
    other = base64.b64encode(b"k" * 32).decode()
    if where == "master.key":
        sealed.write_text(other)
    else:
        (folder / "socialpub.toml").write_text(f'[security]\nencryption_keys = ["{other}"]\n')
    content = (folder / "socialpub.db").read_bytes()
    failed_start(run(*command), where, "another master key", needed, parse_master_key(other).id, "backup")
    assert (folder / "socialpub.db").read_bytes() == content
    assert not (folder / "instance.state").exists()


def test_a_master_key_is_looked_at_before_the_database_is_migrated(
    run: RunCommand, sealed: Path, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    sealed.write_text(base64.b64encode(b"k" * 32).decode())
    content = (folder / "socialpub.db").read_bytes()
    with earlier_databases.limited_migrations(earlier_databases.newest_version(), tmp_path_factory.mktemp("later")):
        failed_start(run(*SERVE), "another master key")
    assert (folder / "socialpub.db").read_bytes() == content


def test_a_new_first_key_beside_the_old_one_is_taken(run: RunCommand, sealed: Path, folder: Path) -> None:
    keys = json.dumps([base64.b64encode(b"k" * 32).decode(), sealed.read_text().strip()])
    (folder / "socialpub.toml").write_text(f"[security]\nencryption_keys = {keys}\n")
    assert run(*CREATE).code == 0


# --- The database ------------------------------------------------------------------------------------------------


def overwrite_the_header(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[:100] = b"\xff" * 100
    path.write_bytes(content)


def overwrite_the_middle(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[8192 : len(content) // 2] = b"\xff" * (len(content) // 2 - 8192)
    path.write_bytes(content)


def cut_off_the_end(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-12_000])


@pytest.mark.matrix
@pytest.mark.parametrize("damage", [overwrite_the_header, overwrite_the_middle, cut_off_the_end])
@pytest.mark.parametrize("command", [SERVE, CREATE])
def test_a_damaged_database_is_refused_and_not_touched(
    run: RunCommand, sealed: Path, folder: Path, command: tuple[str, ...], damage: Damage
) -> None:
    path = folder / "socialpub.db"
    damage(path)
    before = path.read_bytes()
    failed_start(run(*command), "socialpub.db", "backup")
    assert path.read_bytes() == before


@pytest.mark.parametrize(("column", "in_its_place"), [(b" mark ", b" lark "), (b" key_id ", b" ke{_id ")])
@pytest.mark.parametrize("command", [SERVE, CREATE])
def test_a_column_that_a_flipped_bit_has_renamed_is_damage(
    run: RunCommand, sealed: Path, folder: Path, command: tuple[str, ...], column: bytes, in_its_place: bytes
) -> None:
    path = folder / "socialpub.db"
    content = path.read_bytes()
    assert column in content
    path.write_bytes(content.replace(column, in_its_place))
    failed_start(run(*command), "socialpub.db", "damaged", "backup")


@pytest.mark.parametrize("text", ["my notes\n", "my notes, long enough to be no empty database\n" * 50])
@pytest.mark.parametrize(
    "command",
    [
        SERVE,
        CREATE,
        ("migrate", "--json"),
        ("backup", "b.zip", "--json"),
        ("keys", "rotate", "--json"),
        ("keys", "forget", "--yes", "--json"),
        ("status", "--json"),
    ],
)
def test_a_file_that_is_no_database_is_refused_and_not_touched(
    run: RunCommand, folder: Path, command: tuple[str, ...], text: str
) -> None:
    """Its readers keep their permissions, and nothing is made beside it."""
    path = folder / "socialpub.db"
    path.write_text(text)
    path.chmod(0o644)
    failed_start(run(*command), "socialpub.db", "not a database")
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == (text, 0o644)
    assert list(folder.iterdir()) == [path]


@pytest.mark.parametrize("command", [SERVE, CREATE, ("migrate", "--json")])
def test_a_database_of_a_newer_version_is_refused(run: RunCommand, folder: Path, command: tuple[str, ...]) -> None:
    assert run("migrate").code == 0
    with closing(sqlite3.connect(folder / "socialpub.db")) as connection:
        connection.execute("INSERT INTO schema_migration (name, applied) VALUES ('9999_later', '2030-01-01')")
        connection.commit()
    failed_start(run(*command), "newer socialpub", "9999_later")


# --- The directory, the port -------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [SERVE, CREATE, ("migrate", "--json")])
@pytest.mark.parametrize("where", ["a-file/socialpub.db", "/proc/socialpub.db", "/proc/deep/socialpub.db"])
def test_a_place_where_nothing_can_be_written_is_named(
    run: RunCommand, folder: Path, command: tuple[str, ...], where: str
) -> None:
    (folder / "a-file").touch()
    failed_start(run(*command, "--database", where), where.removesuffix("/socialpub.db"))


@pytest.mark.parametrize("command", [SERVE, CREATE])
def test_a_data_directory_that_cannot_be_made_is_named(run: RunCommand, folder: Path, command: tuple[str, ...]) -> None:
    (folder / "a-file").touch()
    failed_start(run(*command, "--data-dir", "a-file/data"), "a-file/data")


def test_an_address_that_cannot_be_listened_on_is_named(run: RunCommand) -> None:
    failed_start(run("serve", "--host", "203.0.113.1", "--json"), "server.port", "203.0.113.1:8080")
