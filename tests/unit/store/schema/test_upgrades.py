"""Upgrades from every schema version with data, and the backup copy beside the file."""

from __future__ import annotations

import contextlib
import logging
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from socialpub.store.engine.locks import StartError
from socialpub.store.schema import migration
from socialpub.store.schema.upgrade_backup import _check_space
from tests.support import earlier_databases
from tests.support.app_server import AppServer

ALL = range(1, earlier_databases.newest_version() + 1)
KEYS = {
    "attempt": ("post", "number"),
    "intent": ("post", "step", "number"),
    "organization": ("id",),
    "profile": ("id",),
    "account": ("id",),
    "audit": ("at", "verb", "subject"),
}


@pytest.fixture(autouse=True)
def later(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The program of a later version."""
    with earlier_databases.limited_migrations(earlier_databases.newest_version(), tmp_path_factory.mktemp("later")):
        yield


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int, Path], Path]:
    """A copy of the database at a migration; each is made once."""
    folder, known = tmp_path_factory.mktemp("formers"), dict[int, Path]()

    def copy(number: int, into: Path) -> Path:
        if number not in known:
            known[number] = earlier_databases.make_database(folder / f"{number}.db", number, folder)
        shutil.copy(known[number], into)
        return into

    return copy


@contextlib.contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        yield connection


def facts(path: Path, columns: dict[str, set[str]] | None = None) -> dict[str, Any]:
    """Of each table, its rows by what names them: all columns, or those of `columns`."""
    with opened(path) as connection:
        found = {}
        for table in columns or earlier_databases.table_names(connection):
            info = connection.execute(f"PRAGMA table_info('{table}')").fetchall()
            wanted = (columns or {}).get(table) or {row["name"] for row in info}
            key = KEYS.get(table) or tuple(row["name"] for row in info if row["pk"])
            asked = ", ".join(
                f'{what} AS "{name}"' for name, what in earlier_databases.column_expressions(connection, table).items()
            )
            rows = connection.execute(f'SELECT {asked} FROM "{table}"').fetchall()
            found[table] = {tuple(row[name] for name in key): {name: row[name] for name in wanted} for row in rows}
    return found


def columns_of(found: dict[str, Any]) -> dict[str, set[str]]:
    return {table: set(next(iter(rows.values()))) for table, rows in found.items()}


def is_sound(path: Path) -> bool:
    with opened(path) as connection:
        whole = [row[0] for row in connection.execute("PRAGMA integrity_check")]
        lost = connection.execute("PRAGMA foreign_key_check").fetchall()
    return (whole, lost) == (["ok"], [])


@pytest.mark.parametrize("number", ALL)
def test_every_table_of_every_schema_has_rows(number: int, made: Callable[[int, Path], Path], tmp_path: Path) -> None:
    path = made(number, tmp_path / "socialpub.db")
    assert is_sound(path)
    for table, rows in facts(path).items():
        assert len(rows) == (1 if table == "instance" else earlier_databases.ROWS), table


@pytest.mark.parametrize("number", ALL)
def test_what_a_database_says_it_says_after_every_upgrade(
    number: int, made: Callable[[int, Path], Path], tmp_path: Path
) -> None:
    path = made(number, tmp_path / "socialpub.db")
    before = facts(path)
    migration.migrate(path)
    assert is_sound(path)
    assert facts(path, columns_of(before)) == before


@pytest.mark.parametrize("number", ALL)
def test_a_server_works_with_what_every_version_left(
    number: int, made: Callable[[int, Path], Path], make_server: Callable[..., AppServer], tmp_path: Path
) -> None:
    """By the API: the same posts, found by their text, and a new one beside them."""
    path = made(number, tmp_path / "former.db")
    migration.migrate(path)
    server = make_server()
    server.stop()
    for old in server.home.glob("socialpub.db*"):
        old.unlink()
    (server.home / "instance.state").unlink()
    shutil.copy(path, server.home / "socialpub.db")
    earlier_databases.write_key_file(server.home)
    server.start()
    api = server.api(earlier_databases.KEY)
    listed = api.get("/v1/posts?limit=200").json()["data"]
    assert sorted((post["text"], post["status"]) for post in listed) == [
        (f"post text {place}", status) for place, status in enumerate(earlier_databases.STATUSES)
    ]
    server.engine.periodic.index_posts()
    assert [post["text"] for post in api.get("/v1/posts?q=text 3").json()["data"]] == ["post text 3"]
    assert len(api.get("/v1/accounts").json()["data"]) == earlier_databases.ROWS
    for route in ("/v1/media", "/v1/events", "/v1/webhook-endpoints", "/v1/notification-channels", "/v1/profiles"):
        assert api.get(route).status_code == 200, route
    assert len(api.get(f"/v1/posts/{listed[0]['id']}").json()["attempts"]) >= 1


# --- The copy from before ----------------------------------------------------------------------------------------


def copies(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if "-before-" in path.name)


def name_of(first: int) -> str:
    """The name of the copy that lacks this migration."""
    return f"socialpub-before-{earlier_databases.migration_name(first)}.db"


def test_a_copy_from_before_is_beside_the_file(made: Callable[[int, Path], Path], tmp_path: Path) -> None:
    path = made(1, tmp_path / "socialpub.db")
    before = facts(path)
    (instance,) = before["instance"].values()
    migration.migrate(path, keep=2)
    assert copies(tmp_path) == [name_of(2)]
    copy = tmp_path / name_of(2)
    assert facts(copy) == before | {"instance": {(instance["id"],): instance | {"paused": "restored", "moved": None}}}
    assert is_sound(copy)
    assert copy.stat().st_mode & 0o077 == 0


def test_no_copy_is_made_of_what_is_new_or_needs_none_or_without_the_wish(
    made: Callable[[int, Path], Path], tmp_path: Path
) -> None:
    migration.migrate(tmp_path / "socialpub.db", keep=2)
    migration.migrate(tmp_path / "socialpub.db", keep=2)
    migration.migrate(made(1, tmp_path / "socialpub.db"))
    assert copies(tmp_path) == []


def test_so_many_copies_are_kept(
    made: Callable[[int, Path], Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for number in range(1, earlier_databases.newest_version()):
        migration.migrate(lived(made(number, tmp_path / "socialpub.db"), number), keep=1)
    assert copies(tmp_path) == [name_of(earlier_databases.newest_version())]
    assert sum("the 1 newest copies stay" in line for line in caplog.messages) == 1


def lived(path: Path, beat: int) -> Path:
    """A server has run on it since."""
    with opened(path) as connection:
        connection.execute("UPDATE instance SET beat = ?", (beat,))
        connection.commit()
    return path


def test_an_upgrade_that_was_cut_short_goes_on_with_the_copy_that_it_has(
    made: Callable[[int, Path], Path], tmp_path: Path
) -> None:
    path = made(1, tmp_path / "socialpub.db")
    with earlier_databases.limited_migrations(2, tmp_path):  # as far as it came
        migration.migrate(path, keep=1)
    migration.migrate(path, keep=1)
    assert copies(tmp_path) == [name_of(2)]


def test_a_copy_that_stands_for_another_life_is_made_anew(made: Callable[[int, Path], Path], tmp_path: Path) -> None:
    """Upgraded, put back, used for a while, and upgraded again."""
    migration.migrate(made(1, tmp_path / "socialpub.db"), keep=2)
    path = made(1, tmp_path / "socialpub.db")
    for end in ("-wal", "-shm"):
        (tmp_path / f"socialpub.db{end}").unlink(missing_ok=True)
    with opened(path) as connection:
        connection.execute("UPDATE post SET text = 'written since'")
        connection.commit()
    migration.migrate(path, keep=2)
    with opened(tmp_path / name_of(2)) as connection:
        assert {row[0] for row in connection.execute("SELECT text FROM post")} == {"written since"}


def test_without_room_for_a_copy_nothing_is_begun(
    made: Callable[[int, Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = made(1, tmp_path / "socialpub.db")
    before = path.read_bytes()
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage._replace(free=17_000_000))
    with pytest.raises(StartError) as refused:
        migration.migrate(path, keep=2)
    assert "and is copied first. Copy and upgrade need 18 MB, and" in str(refused.value)
    assert "has 17 MB left. Nothing was changed. Free some space, or" in str(refused.value)
    assert path.read_bytes() == before
    assert copies(tmp_path) == []
    monkeypatch.undo()
    _check_space(path)


def test_a_damaged_database_is_not_copied_over_a_good_copy(made: Callable[[int, Path], Path], tmp_path: Path) -> None:
    path = made(1, tmp_path / "socialpub.db")
    good = tmp_path / name_of(2)
    good.write_bytes(b"good")
    content = bytearray(path.read_bytes())
    content[8192 : len(content) // 2] = b"\xff" * (len(content) // 2 - 8192)
    path.write_bytes(content)
    with pytest.raises(StartError, match="damaged"):
        migration.migrate(path, keep=2)
    assert good.read_bytes() == b"good"
    assert copies(tmp_path) == [name_of(2)]
