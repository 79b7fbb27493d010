"""Every command on an older or newer database schema: it works or says what to do."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from socialpub.commands import command_table
from tests.support import earlier_databases
from tests.support.command_runner import CommandProcess, RunCommand, read_address
from tests.support.command_samples import ELSEWHERE, LINES, STDIN, command_names

OLDER = range(1, earlier_databases.newest_version())
WORK = {"migrate", "backup", "verify", "backups", "config example", "doctor", "import"}  # on an older schema
MIGRATE, INSTALL = "upgrade it: socialpub migrate.", "; install that version"


pytestmark = pytest.mark.usefixtures("later")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int, Path], None]:
    """Copies the data folder of a server as it was after a migration; each is made once."""
    home = tmp_path_factory.mktemp("made")

    def copy(number: int, into: Path) -> None:
        known = home / str(number)
        if not known.exists():
            known.mkdir()
            earlier_databases.make_database(known / "socialpub.db", number, home)
            earlier_databases.write_key_file(known)
            (known / "media").mkdir()
        shutil.copytree(known, into, dirs_exist_ok=True)

    return copy


def newer(path: Path) -> None:
    """A file of a version that knows one more migration."""
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO schema_migration (name, applied) VALUES ('9999_to_come', '2030-01-01')")


def schema(path: Path) -> str:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return str(connection.execute("SELECT max(name) FROM schema_migration").fetchone()[0])


def said(run: RunCommand, name: str) -> tuple[int, str]:
    """The exit code of a command, and all that it said."""
    ended = run(*name.split(), *LINES[name], "--json", stdin=STDIN.get(name, ""))
    told = ended.out + ended.err
    for word in ("Traceback", "no such table", "no such column", "Errno", "damaged"):
        assert word not in told, f"{name}: {told}"
    return ended.code, told


def test_every_command_has_a_line() -> None:
    assert set(LINES) | ELSEWHERE == {name for name, _ in command_names(command_table.build_root())}


@pytest.mark.slow
@pytest.mark.parametrize("number", OLDER)
def test_a_command_on_an_older_database_works_or_says_what_to_do(
    number: int, made: Callable[[int, Path], None], run: RunCommand, folder: Path
) -> None:
    made(number, folder)
    for name in LINES:
        if name == "migrate":
            continue
        code, told = said(run, name)
        assert name in WORK or (code, MIGRATE in told) == (3, True) or name == "restore", f"{name}: {told}"
        assert schema(folder / "socialpub.db") == earlier_databases.migration_name(number), name
    assert (folder / "every.zip").exists()
    assert said(run, "migrate")[0] == 0
    for name in ("org list", "status", "backups", "keys rotate"):
        assert MIGRATE not in said(run, name)[1]


@pytest.mark.parametrize("number", OLDER)
def test_a_backup_of_an_older_database_is_whole_and_can_be_restored(
    number: int, made: Callable[[int, Path], None], run: RunCommand, folder: Path
) -> None:
    made(number, folder)
    assert run("backup", "every.zip", "--json").json["schema"] == earlier_databases.migration_name(number)
    elsewhere = ("--database", str(folder / "else" / "socialpub.db"), "--data-dir", str(folder / "else"))
    restored = run("restore", "every.zip", *elsewhere, "--json")
    assert restored.code == 0, restored.err
    assert schema(folder / "else" / "socialpub.db") == earlier_databases.migration_name(
        earlier_databases.newest_version()
    )


@pytest.mark.parametrize("number", OLDER)
def test_a_server_starts_on_an_older_database(
    number: int, made: Callable[[int, Path], None], folder: Path, start: Callable[..., CommandProcess]
) -> None:
    made(number, folder)
    server = start("serve", "--port", "0")
    assert httpx.get(f"{read_address(server)}/readyz", trust_env=False).status_code == 200
    assert server.stop() == 0
    assert schema(folder / "socialpub.db") == earlier_databases.migration_name(earlier_databases.newest_version())


@pytest.mark.parametrize("number", [1, earlier_databases.newest_version()])
def test_every_command_refuses_a_newer_database(
    number: int, made: Callable[[int, Path], None], run: RunCommand, folder: Path
) -> None:
    made(number, folder)
    newer(folder / "socialpub.db")
    for name in (*LINES, "serve"):
        if name == "serve":
            ended = run("serve", "--port", "0", "--json")
            code, told = ended.code, ended.err
        else:
            code, told = said(run, name)
        if name in ("config example", "backup", "verify", "backups", "import", "restore"):
            continue  # they need no tables of this version
        assert (code, INSTALL in told) == (1, True), f"{name}: {code} {told}"
        assert schema(folder / "socialpub.db") == "9999_to_come", name
