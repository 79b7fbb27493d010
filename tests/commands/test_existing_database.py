"""Administration commands on an existing database: no migration and no full scan."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from socialpub.store.engine import integrity
from tests.support import earlier_databases
from tests.support.command_runner import CommandProcess, RunCommand, read_address
from tests.support.damaged_database import damage_file, grow_database

SERVE = ("serve", "--port", "0")
COMMANDS = [("org", "create", "Acme"), ("org", "list"), ("key", "list"), ("resume",)]


@pytest.fixture
def older(folder: Path, later: None) -> Path:
    """The file of a socialpub that lacks the newest two migrations."""
    earlier_databases.write_key_file(folder)
    (folder / "media").mkdir()
    return earlier_databases.make_database(
        folder / "socialpub.db", earlier_databases.newest_version() - 2, folder / "versions"
    )


def schema(database: Path) -> list[tuple[str]]:
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute("SELECT name FROM schema_migration ORDER BY name").fetchall()


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_command_does_not_migrate(run: RunCommand, older: Path, command: tuple[str, ...]) -> None:
    before = schema(older)
    ended = run(*command, "--json")
    assert ended.code == 3
    assert ended.error["message"] == (
        "socialpub.db was written by an older socialpub: this version has 2 more migrations. Nothing was changed. "
        "Make a backup, then upgrade it: socialpub migrate."
    )
    assert schema(older) == before


@pytest.mark.matrix
@pytest.mark.parametrize("command", [*COMMANDS, ("migrate",)], ids=" ".join)
def test_a_command_does_not_run_beside_an_older_server(
    run: RunCommand,
    start: Callable[..., CommandProcess],
    folder: Path,
    tmp_path_factory: pytest.TempPathFactory,
    command: tuple[str, ...],
) -> None:
    server = start(*SERVE)
    read_address(server)
    before = schema(folder / "socialpub.db")
    with earlier_databases.limited_migrations(earlier_databases.newest_version() - 1, tmp_path_factory.mktemp("later")):
        ended = run(*command, "--json")
    assert ended.code == 3
    assert ended.error["message"] == (
        "socialpub.db was written by an older socialpub: this version has 1 more migration. Nothing was changed. "
        "A server runs on it: stop that server first, or use the commands of its version."
    )
    assert schema(folder / "socialpub.db") == before


def test_a_migration_brings_the_file_to_date_and_commands_go_on(run: RunCommand, older: Path) -> None:
    assert len(run("migrate", "--json").json["applied"]) == 2
    assert run("org", "create", "Acme").code == 0


def test_up_to_date_database_is_not_migrated_beside_a_server(
    run: RunCommand, start: Callable[..., CommandProcess]
) -> None:
    read_address(start(*SERVE))
    assert run("migrate", "--json").json["applied"] == []


def test_an_organization_is_deleted_beside_a_server(run: RunCommand, start: Callable[..., CommandProcess]) -> None:
    run("org", "create", "Acme")
    key = run("key", "create", "--json").json["key"]
    with httpx.Client(base_url=read_address(start(*SERVE)), trust_env=False) as api:
        sent = {"Authorization": f"Bearer {key}"}
        assert api.get("/v1/posts", headers=sent).status_code == 200
        assert run("org", "delete", "Acme", "--yes").code == 0
        assert api.get("/v1/posts", headers=sent).status_code == 401


@pytest.mark.slow
@pytest.mark.parametrize("large", [1_000_000, integrity.START_CHECK_BYTES_MAX])
def test_a_command_does_not_look_through_the_file(
    run: RunCommand, folder: Path, large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is damaged is nothing that it needs; a start of the server, which looks at more, says so."""
    run("org", "create", "Acme")
    monkeypatch.setattr(integrity, "START_CHECK_BYTES_MAX", large)
    grow_database(folder / "socialpub.db", 12_000_000)
    damage_file(folder / "socialpub.db")
    assert run("org", "create", "Another").code == 0
    assert [row["name"] for row in run("org", "list", "--json").json] == ["Acme", "Another"]
