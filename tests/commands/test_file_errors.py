"""Errors from files and disks at start: one sentence, never a traceback."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import peewee
import pytest

from socialpub.base import fault_injection
from socialpub.base.system import os_errors
from tests.support import forked_commands
from tests.support.command_runner import (
    TOKENS,
    AskCommand,
    CommandProcess,
    CommandResult,
    RunCommand,
    command_environment,
    read_address,
    run_command,
)
from tests.support.system_needs import skip_without

SERVE = ("serve", "--port", "0", "--json")
CREATE = ("org", "create", "Acme", "--json")
both = pytest.mark.parametrize("command", [SERVE, CREATE], ids=["serve", "org create"])
Start = Callable[..., CommandProcess]


@pytest.fixture
def used(ask: AskCommand, folder: Path) -> Path:
    """The folder of a database with an account, whose key file is needed."""
    org = ask("org", "create", "Acme")["id"]
    profile = ask("profile", "list", "--org", org)[0]["id"]
    where = ("--profile", profile, "--platform", "bluesky", "--platform-account-id", "did:plc:alice")
    ask("account", "add", *where, stdin=json.dumps(TOKENS))
    return folder


def says(ended: CommandResult, *words: str) -> None:
    """It failed with 1, in one sentence with these words, and blames no backup that would not help."""
    assert ended.code == 1
    assert "Traceback" not in ended.err
    message = ended.error["message"]
    assert all(word in message for word in words), message
    assert "Errno" not in message
    assert "damaged" not in message
    assert ended.err.rstrip().splitlines()[-1] == f"socialpub: {message}"


def in_place_of(path: Path, *, a_folder: bool) -> None:
    path.unlink(missing_ok=True)
    if a_folder:
        path.mkdir(mode=0o700)
    else:
        path.write_text("in the way")


# --- At the start ------------------------------------------------------------------------------------------------


@pytest.mark.matrix
@both
@pytest.mark.parametrize("name", ["socialpub.db", "socialpub.db.write", "master.key", "socialpub.toml"])
def test_a_folder_in_place_of_a_file_is_named(run: RunCommand, used: Path, command: tuple[str, ...], name: str) -> None:
    in_place_of(used / name, a_folder=True)
    says(run(*command), name, "it is a folder, and a file is needed")


def test_a_lock_that_is_a_folder_is_named(run: RunCommand, used: Path) -> None:
    in_place_of(used / "socialpub.db.lock", a_folder=True)
    says(run(*SERVE), "socialpub.db.lock", "it is a folder, and a file is needed")


def test_an_instance_state_that_is_a_folder_is_named(run: RunCommand, used: Path) -> None:
    in_place_of(used / "instance.state", a_folder=True)
    says(run(*SERVE), "instance.state", "it is a folder, and a file is needed")


@both
def test_a_media_folder_that_is_a_file_is_named(run: RunCommand, used: Path, command: tuple[str, ...]) -> None:
    in_place_of(used / "media", a_folder=False)
    says(run(*command), "the media folder is not a folder")


@both
def test_a_media_folder_that_rows_need_and_that_is_gone_is_named(
    run: RunCommand, used: Path, command: tuple[str, ...]
) -> None:
    with contextlib.closing(sqlite3.connect(used / "socialpub.db")) as connection:
        connection.execute("PRAGMA foreign_keys = 0")
        names = [row[1] for row in connection.execute("PRAGMA table_info(media)") if row[3] and row[4] is None]
        sql = f"INSERT INTO media ({', '.join(names)}) VALUES ({', '.join(['1'] * len(names))})"
        profile = connection.execute("SELECT organization, id FROM profile").fetchone()
        connection.execute(sql)
        connection.execute("UPDATE media SET organization = ?, profile = ?", profile)
        connection.commit()
    says(run(*command), "the media folder is gone", "mkdir")
    (used / "media").mkdir()
    assert run(*CREATE).code == 0


@both
def test_a_database_that_was_there_is_not_made_anew(run: RunCommand, used: Path, command: tuple[str, ...]) -> None:
    """An empty one would answer 401 to everybody, as if they had never been there."""
    (used / "instance.state").write_text('{"beat": 3, "mark": "x"}')
    (used / "socialpub.db").unlink()
    says(run(*command), "socialpub.db is missing", "backup", "instance.state")
    assert not (used / "socialpub.db").exists()
    (used / "instance.state").unlink()
    assert run(*CREATE).code == 0


@both
def test_a_database_with_two_names_is_refused(run: RunCommand, used: Path, command: tuple[str, ...]) -> None:
    (used / "other").mkdir()
    os.link(used / "socialpub.db", used / "other" / "socialpub.db")
    for database in ("socialpub.db", "other/socialpub.db"):
        says(run(*command, "--database", database), database, "2 names (hard links)")
    (used / "other" / "socialpub.db").unlink()
    assert run(*CREATE).code == 0


@pytest.mark.slow
def test_a_server_by_a_link_is_the_one_server_of_the_file(start: Start, run: RunCommand, used: Path) -> None:
    (used / "link").mkdir()
    (used / "link" / "socialpub.db").symlink_to(used / "socialpub.db")
    first = start("serve", "--port", "0")
    read_address(first)
    assert run(*SERVE, "--database", "link/socialpub.db").code == 3
    assert run(*CREATE, "--database", "link/socialpub.db").code == 0
    assert first.stop() == 0


@both
def test_the_log_of_another_database_is_not_brought_into_a_backup(
    start: Start, run: RunCommand, used: Path, command: tuple[str, ...]
) -> None:
    """A server was killed, a backup put in place of its database, and its log left beside it."""
    with contextlib.closing(sqlite3.connect(used / "socialpub.db")) as source:
        source.execute("VACUUM INTO ?", (str(used / "backup.db"),))
    server = start("serve", "--port", "0")
    read_address(server)
    assert server.stop(signal.SIGKILL) == -signal.SIGKILL
    assert (used / "socialpub.db-wal").stat().st_size
    (used / "backup.db").rename(used / "socialpub.db")
    content = (used / "socialpub.db").read_bytes()
    ended = run(*command)
    assert (ended.code, "Traceback" in ended.err) == (1, False)
    assert "socialpub.db-wal belongs to another database that was" in ended.error["message"]
    assert (used / "socialpub.db").read_bytes() == content


@pytest.fixture
def small_disk(used: Path) -> Iterator[Path]:
    """The used folder on a disk of 1 MB; only where the system lets us mount one, else a fault stands in for it."""
    disk = used / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "none", disk], capture_output=True, check=False
    ).returncode
    for path in used.glob("[ms]*[yb]"):
        shutil.copy2(path, disk)
    if mounted == 0:
        with contextlib.suppress(OSError), (disk / "ballast").open("wb", buffering=0) as ballast:
            while ballast.write(b"x" * 512):
                continue
    else:
        fault_injection.plan("db.commit=enospc")
    yield disk
    fault_injection.plan("")
    if mounted == 0:
        subprocess.run(["umount", disk], check=True)


def ended_as(folder: Path, command: tuple[str, ...], *before: str) -> CommandResult:
    """The command as a process of its own in the folder, behind the words `before`."""
    return run_command(*command, cwd=folder, begin=functools.partial(forked_commands.start_fork, before=before))


@pytest.mark.slow
def test_a_folder_that_was_mounted_read_only_is_called_read_only(used: Path) -> None:
    alone = ("unshare", "--mount", "sh", "-c", f'mount --bind -o ro "{used}" "{used}" && exec "$@"', "sh")
    skip_without(*alone, "true")
    before = {path.name: path.read_bytes() for path in used.iterdir() if path.is_file()}
    for command in (SERVE, CREATE):
        says(ended_as(used, command, *alone), "socialpub.db", "read-only")
    assert {path.name: path.read_bytes() for path in used.iterdir() if path.is_file()} == before


@pytest.fixture
def roots(used: Path) -> Iterator[Path]:
    """The used folder where every user gets to it, though it is root's."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "data")
        shutil.copytree(used, place)
        for path in (Path(folder), place):
            path.chmod(0o755)
        yield place


@pytest.mark.slow
def test_a_folder_of_another_user_is_said_to_be_that(roots: Path) -> None:
    nobody = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
    skip_without(*nobody, sys.executable, "-c", "import socialpub, click", cwd=roots, env=command_environment())
    before = {path.name: path.read_bytes() for path in roots.iterdir() if path.is_file()}
    for command in (SERVE, CREATE):
        says(ended_as(roots, command, *nobody), "socialpub.db", "user")
    assert {path.name: path.read_bytes() for path in roots.iterdir() if path.is_file()} == before


@both
def test_a_full_disk_is_called_full(run: RunCommand, small_disk: Path, command: tuple[str, ...]) -> None:
    ended = run(*command, "--database", str(small_disk / "socialpub.db"))
    says(ended, "full")


@both
def test_a_file_that_may_not_grow_is_not_called_damaged(used: Path, command: tuple[str, ...]) -> None:
    """What the system says when a limit on files is reached: SQLite calls it an error of the disk."""
    limit = (
        "import resource, signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))"
    )
    limited = command_environment() | {"TESTS_BEFORE": limit}
    says(run_command(*command, cwd=used, begin=lambda words, cwd, _: forked_commands.start_fork(words, cwd, limited)))


@pytest.mark.parametrize(
    "code, words",
    [
        (sqlite3.SQLITE_FULL, "the disk is full"),
        (sqlite3.SQLITE_READONLY, "it is read-only"),
        (sqlite3.SQLITE_CANTOPEN, "it cannot be opened"),
        (sqlite3.SQLITE_IOERR | 3 << 8, "the disk refuses to read or write"),  # an extended code
        (sqlite3.SQLITE_BUSY, "another process has held it for too long"),
        (sqlite3.SQLITE_CORRUPT, None),
        (sqlite3.SQLITE_NOTADB, None),
    ],
)
def test_sqlites_codes_in_words(code: int, words: str | None) -> None:
    error = sqlite3.OperationalError("as SQLite says it")
    error.sqlite_errorcode = code
    assert os_errors.describe(error) == words
    assert os_errors.describe(peewee.OperationalError(error, "as SQLite says it")) == words
