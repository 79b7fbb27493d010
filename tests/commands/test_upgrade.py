"""Upgrade by the commands of docs/running.md, and return to the version before."""

from __future__ import annotations

import contextlib
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from socialpub.store.schema import migration
from tests.support import earlier_databases
from tests.support.command_runner import CommandProcess, RunCommand, read_address

OLD = earlier_databases.newest_version() - 1
pytestmark = pytest.mark.usefixtures("later")
PAGE = Path(__file__).parents[2] / "docs" / "running.md"


@pytest.fixture
def former(folder: Path) -> Path:
    """The folder of a server of the version before."""
    earlier_databases.make_database(folder / "socialpub.db", OLD, folder / "versions")
    earlier_databases.write_key_file(folder)
    (folder / "media").mkdir()
    return folder


def way_back() -> list[str]:
    """The commands that the page gives, without those for the program."""
    (block,) = re.findall(r"\*\*The way back\.\*\*.*?\n\n((?: {4}[^\n]*\n)+)", PAGE.read_text(), re.S)
    lines = [line.split("#")[0].strip() for line in block.splitlines()]
    return [line for line in lines if line.split()[0] in ("mkdir", "mv")]


def schema(path: Path) -> str:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return str(connection.execute("SELECT max(name) FROM schema_migration").fetchone()[0])


def test_an_upgrade_keeps_a_copy_and_the_way_back_is_the_one_of_the_page(
    former: Path, start: Callable[..., CommandProcess], run: RunCommand
) -> None:
    server = start("serve", "--port", "0")
    read_address(server)
    assert server.stop() == 0
    copy = former / f"socialpub-before-{earlier_databases.migration_name(OLD + 1)}.db"
    assert (schema(former / "socialpub.db"), schema(copy)) == (
        earlier_databases.migration_name(OLD + 1),
        earlier_databases.migration_name(OLD),
    )

    for line in way_back():
        subprocess.run(["sh", "-ec", line], cwd=former, check=True)
    put_back = former / "socialpub.db"
    with earlier_databases.limited_migrations(OLD, former / "versions"):  # the old program takes it as it is
        shutil.copy(put_back, former / "versions" / "old.db")
        assert migration.migrate(former / "versions" / "old.db") == (
            earlier_databases.migration_name(OLD),
            earlier_databases.migration_name(OLD),
            [],
        )

    server = start("serve", "--port", "0")
    url = read_address(server)
    assert httpx.get(f"{url}/readyz", trust_env=False).json()["publishing"] == "paused"
    assert server.stop() == 0
    assert run("resume", "--json").code == 3
    assert run("resume", "--after-restore", "--json").code == 0


def test_the_upgrade_command_keeps_a_copy_too_unless_told_otherwise(former: Path, run: RunCommand) -> None:
    (former / "socialpub.toml").write_text("[backup]\nbefore_upgrade = 0\n")
    shutil.copy(former / "socialpub.db", former / "kept.db")
    assert run("migrate", "--json").json["applied"] == [earlier_databases.migration_name(OLD + 1)]
    assert list(former.glob("*-before-*")) == []
    (former / "socialpub.toml").unlink()
    shutil.move(former / "kept.db", former / "socialpub.db")
    assert run("migrate", "--json").json["applied"] == [earlier_databases.migration_name(OLD + 1)]
    assert [path.name for path in former.glob("*-before-*")] == [
        f"socialpub-before-{earlier_databases.migration_name(OLD + 1)}.db"
    ]
