"""Query plan check itself: detected table scans, and its feed of recorded statements.

`tests/support/query_plans.py` checks every statement of a test run at the end of the run.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from socialpub.domain import post_states
from socialpub.store import queries
from socialpub.store.queries import maintenance, webhooks
from socialpub.store.queries.bulk import BulkInsert, BulkUpdate
from tests.support import query_plans
from tests.support.app_server import AppServer, Person
from tests.support.query_plans import statement_recorder


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, sqlite3.Connection]]:
    with query_plans.databases(tmp_path_factory.mktemp("plans")) as made:
        yield made


@pytest.mark.parametrize(("text", "values"), [(webhooks.COUNT_IN_STATE, 5), (webhooks.RESEND_BATCH, 7)])
def test_deliveries_in_a_state_since_a_time_are_found_in_an_index(
    made: dict[str, sqlite3.Connection], text: str, values: int
) -> None:
    """All older deliveries of the endpoint were read, each from its row, while other writes waited."""
    for connection in made.values():
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {text}", (1,) * values)]
        assert [step for step in plan if "COVERING" in step and "endpoint=? AND status=? AND created_at>?" in step], (
            plan
        )
        assert not [step for step in plan if "ORDER BY" in step]


WALKS = [
    "SELECT count(*) FROM post",
    "SELECT id FROM post WHERE status IN (?, ?, ?)",  # bound values: no partial index is used
    "SELECT id FROM post WHERE text = ?",
    'SELECT "t1"."id" FROM "post" AS "t1" WHERE ("t1"."text" = ?)',
    "SELECT id FROM intent WHERE outcome = ?",
    "SELECT e.data FROM event e WHERE e.created_at < ?",
    "DELETE FROM event WHERE created_at < ?",
    "UPDATE job SET epoch = NULL WHERE host = ?",
    "SELECT count(*) FROM post WHERE organization = ?",  # by an index, and nearly all of it
    "SELECT platform FROM post WHERE profile = ? AND status = ?",
    "SELECT id FROM batch WHERE id NOT IN (SELECT batch FROM post)",
    "INSERT INTO usage (organization, period) SELECT organization, 'x' FROM post",
    "SELECT count(*) FROM (SELECT * FROM attempt WHERE number = ? LIMIT 5) AS attempt",
]
HOLDS = [
    "SELECT * FROM post WHERE id = ?",
    "SELECT id FROM post WHERE organization = ? ORDER BY created_at DESC, id DESC LIMIT ?",
    f"SELECT id FROM post WHERE {maintenance.IS_OPEN}",
    "SELECT max(number) FROM event",
    "SELECT id FROM post WHERE organization = ? AND created_at > ?",
    "UPDATE post SET status = ? WHERE id = ? AND status IN (?, ?)",
    "SELECT name FROM organization",
    "SELECT count(*) FROM (SELECT * FROM attempt WHERE post = ? ORDER BY number LIMIT 5) AS attempt",
    "INSERT INTO usage (organization, period) VALUES (?, ?)",
    "PRAGMA quick_check",
]


@pytest.mark.parametrize("text", WALKS)
def test_a_walk_is_seen(text: str, made: dict[str, sqlite3.Connection]) -> None:
    assert all(query_plans.find_scans(connection, text) for connection in made.values())


@pytest.mark.parametrize("text", HOLDS)
def test_what_goes_by_an_index_is_none(text: str, made: dict[str, sqlite3.Connection]) -> None:
    assert {name: query_plans.find_scans(connection, text) for name, connection in made.items()} == dict.fromkeys(
        made, []
    )


STARTS = ("SELECT", "INSERT", "UPDATE", "DELETE", "WITH")
NAMED = {
    f"{module.name}.{name}": text
    for module in pkgutil.iter_modules(queries.__path__)
    for name, text in vars(importlib.import_module(f"{queries.__name__}.{module.name}")).items()
    if not name.startswith("_")
}
STATEMENTS = {
    name: text for name, text in NAMED.items() if isinstance(text, str) and text.lstrip().startswith(STARTS)
} | {
    f"{name}.{count}": rows.text(count)
    for name, rows in NAMED.items()
    if isinstance(rows, BulkInsert | BulkUpdate)
    for count in (1, 4)
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_no_statement_of_the_hot_paths_walks(name: str, made: dict[str, sqlite3.Connection]) -> None:
    """Also where no test runs it."""
    found = {kind: query_plans.find_scans(connection, STATEMENTS[name]) for kind, connection in made.items()}
    assert found == dict.fromkeys(made, [])


def test_the_open_states_are_the_ones_that_can_be_moved() -> None:
    assert maintenance.IS_OPEN == "status IN ('queued', 'validated', 'publishing')"
    assert set(post_states.OPEN_STATES) == {"queued", "validated", "publishing"}
    assert set(post_states.TRANSITIONS["disconnect"].sources) == {"queued", "validated"}


def test_the_check_is_fed_by_what_the_server_runs(server: AppServer, alice: Person) -> None:
    made = alice.api.publish({"text": "Seen.", "targets": [{"accountId": alice.bluesky}]})
    assert made.status_code == 200
    texts = {asked.text for asked in statement_recorder.seen.values()}
    places = {asked.place for asked in statement_recorder.seen.values()}
    assert any("FROM api_key WHERE digest" in " ".join(text.split()) for text in texts)
    assert any(place.startswith("socialpub/domain/posts/") for place in places)
    assert not any(place.startswith("tests/") for place in places)


PROJECT = """
from socialpub.store import database as db
from socialpub.store.schema import migration
from socialpub.store.database import Database


def test_it_walks(tmp_path):
    migration.migrate(tmp_path / "a.db")
    database = Database(tmp_path / "a.db").open()
    try:
        database.read(lambda: db.walk()).result()
    finally:
        database.close()
"""
BAD = 'def walk():\n    return sql.fetch_all("SELECT count(*) FROM post")\n'


@pytest.mark.slow
@pytest.mark.parametrize("processes", ["0", "1"])
def test_a_run_that_has_walked_has_failed(processes: str, tmp_path: Path) -> None:
    """A whole run of pytest, over a server that has such a statement: in this process, and in one of its own."""
    (tmp_path / "test_walking.py").write_text(PROJECT)
    made = json.dumps("from socialpub.store.engine import sql\n" + BAD)
    (tmp_path / "conftest.py").write_text(
        "from tests.conftest import *\n"
        "from socialpub.store import database as db\n"
        f"names = {{}}\nexec(compile({made}, db.__file__, 'exec'), names)\ndb.walk = names['walk']\n"
    )
    without = ("-pno:schemathesis", "-pno:cacheprovider", "--rootdir", tmp_path)
    command = [sys.executable, "-m", "pytest", "-q", "-n", processes, *without]
    done = subprocess.run(
        [*map(str, command), str(tmp_path)],
        cwd=query_plans.ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 passed" in done.stdout
    assert "SELECT count(*) FROM post" in done.stdout
    assert "socialpub/store/database.py" in done.stdout
    assert "test_it_walks" in done.stdout
