"""Recorder of all server SQL, and check that no query plan scans a growing table.

EXPLAIN QUERY PLAN runs on empty databases with three sets of statistics: none (as on a real server, which never runs
ANALYZE), a million posts of one organization, and a million posts of many. This also finds plans that are good only by
chance. `conftest.py` collects the statements of each process and checks them at its end.
"""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from socialpub.store.engine import sql
from socialpub.store.engine.sqlite import _LimitedSqliteDatabase
from socialpub.store.schema import migration
from tests.support import query_plans
from tests.support.database_costs import counting as counting

ROOT = Path(__file__).parents[2]

GROWING_TABLES = {  # rows of a server with a million posts
    "post": 1_000_000,
    "attempt": 1_200_000,
    "intent": 1_000_000,
    "event": 2_200_000,
    "batch": 900_000,
    "idempotency": 50_000,
    "job": 100_000,
    "media": 200_000,
    "audit": 300_000,
    "session": 5_000,
    "device": 20_000,
    "connect_attempt": 2_000,
    "webhook_delivery": 2_000_000,
    "webhook_attempt": 2_000_000,
    "notification": 200_000,
}

# Partial indexes that hold what is open, and nothing of what has come to an end: to walk through one is no growth.
OPEN = frozenset(
    {
        "post_open",
        "post_open_account",
        "post_open_media",
        "intent_open",
        "idempotency_open",
        "job_leased",
        "idempotency_sealed",
    }
)

FEW = {"organization": 1, "profile": 20, "account": 500, "platform": 8, "status": 8, "step": 2, "kind": 3, "type": 12}
MANY = FEW | {"organization": 2_000, "profile": 4_000, "account": 8_000}
# A search by nothing but these reads as much as there is: one house may have everything, and most are `published`.
COARSE = frozenset({"organization", "profile", "platform", "status", "kind", "type", "step", "error_code"})


@dataclass(frozen=True)
class ExemptStatement:
    """A statement that may: what is in its text, or where it stands in the source, and why."""

    why: str
    text: str = ""
    place: str = ""

    def meets(self, asked: RecordedStatement) -> bool:
        return self.text in asked.text and self.place in asked.place


@dataclass(frozen=True)
class RecordedStatement:
    """A statement, where in the source it is run, and the first test that made it."""

    text: str
    place: str
    test: str


EXEMPT_STATEMENTS = (
    ExemptStatement(
        "`keys rotate` looks for what an old key has sealed",
        place="socialpub/domain/operations/key_rotation.py:",
        text="substr(",
    ),
    ExemptStatement("a backup names every file", place="socialpub/store/schema/snapshot.py:", text="FROM media"),
    ExemptStatement(
        "an organization is deleted once, and all that it has is named and ended",
        place="socialpub/domain/organization_deletion.py:",
    ),
    ExemptStatement("the same", place=" delete_all", text='UPDATE "media"'),
    ExemptStatement("a condition that never holds, which SQLite sees before it looks", text="WHERE (0 = 1)"),
)


# --- What is asked -------------------------------------------------------------------------------------------------


class StatementRecorder:
    """The statements that the server has run in this process, each once."""

    def __init__(self) -> None:
        self.seen: dict[str, RecordedStatement] = {}
        self._alike: set[str] = set()

    def listen(self) -> None:
        """From now on, until the process ends."""
        usual, made = sql.execute, _LimitedSqliteDatabase.execute_sql

        def execute(text: str, params: Any = ()) -> sqlite3.Cursor:
            if text not in self.seen:
                self._keep(text)
            return usual(text, params)

        def execute_sql(database: Any, text: str, params: Any = None) -> Any:
            if text not in self.seen:
                self._keep(text)
            return made(database, text, params)

        sql.execute = execute
        _LimitedSqliteDatabase.execute_sql = execute_sql

    def _keep(self, text: str) -> None:
        place = _caller_location()
        if place is None:
            return
        alike = re.sub(r"\?(, ?\?){2,}", "?..", text)  # however many values a list has
        if alike in self._alike:
            self.seen[text] = self.seen.get(text) or RecordedStatement("", place, "")
            return
        self._alike.add(alike)
        self.seen[text] = RecordedStatement(text, place, os.environ.get("PYTEST_CURRENT_TEST", "between tests"))


_RUNNERS = (
    "/peewee.py",
    "/playhouse/",
    "/store/engine/sqlite.py",
    "/store/engine/sql.py",
    "/tests/support/query_plans.py",
)


def _caller_location() -> str | None:
    """Who runs the statement: a line of the server's; None for a test's own."""
    frame = sys._getframe(1)
    while frame is not None and any(runner in frame.f_code.co_filename for runner in _RUNNERS):
        frame = frame.f_back  # type: ignore[assignment]
    if frame is None:
        return None
    file = Path(frame.f_code.co_filename)
    if not file.is_relative_to(ROOT / "socialpub"):
        return None
    return f"{file.relative_to(ROOT)}:{frame.f_lineno} {frame.f_code.co_name}"


# --- What it costs -------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def databases(folder: Path) -> Iterator[dict[str, sqlite3.Connection]]:
    """Empty databases of this schema, by the statistics that they have."""
    path = folder / "plans.db"
    migration.migrate(path)
    with contextlib.ExitStack() as stack:
        made = {}
        for name, kinds in {"none": None, "one organization": FEW, "many": MANY}.items():
            made[name] = stack.enter_context(contextlib.closing(sqlite3.connect(":memory:")))
            with contextlib.closing(sqlite3.connect(path)) as source:
                source.backup(made[name])
            if kinds is not None:
                _with_statistics(made[name], kinds)
        yield made


def _with_statistics(connection: sqlite3.Connection, kinds: Mapping[str, int]) -> None:
    connection.execute("ANALYZE")  # makes the table that it fills
    connection.execute("DELETE FROM sqlite_stat1")
    for table, rows in GROWING_TABLES.items():
        for _, index, *_ in connection.execute(f"PRAGMA index_list('{table}')").fetchall():
            connection.execute(
                "INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES (?, ?, ?)",
                (table, index, _statistics(connection, index, rows, kinds)),
            )
    connection.commit()
    connection.execute("ANALYZE sqlite_schema")  # reads what is there


def _statistics(connection: sqlite3.Connection, index: str, rows: int, kinds: Mapping[str, int]) -> str:
    """How many rows an index has, and how many have the same in its first column, its first two, and so on."""
    rows = 300 if index in OPEN else rows
    columns = [row[2] for row in connection.execute(f"PRAGMA index_info('{index}')").fetchall()]
    alike, numbers = rows, [rows]
    for column in columns:
        alike = max(1, alike // kinds[column]) if column in kinds else 1
        numbers.append(alike)
    return " ".join(map(str, numbers))


def find_scans(connection: sqlite3.Connection, text: str) -> list[str]:
    """The steps of a statement's plan that go through a table that grows; sqlite3.Error for one that does not run."""
    kind = text.split(None, 1)[0].upper()
    if kind not in ("SELECT", "WITH", "UPDATE", "DELETE", "INSERT", "REPLACE"):
        return []
    try:
        plan = connection.execute(f"EXPLAIN QUERY PLAN {text}", [None] * _values(text)).fetchall()
    except sqlite3.ProgrammingError:  # named or numbered
        plan = connection.execute(f"EXPLAIN QUERY PLAN {text}", AnyParameters()).fetchall()
    made = {step.split()[1]: place for place, *_, step in plan if step.startswith(("CO-ROUTINE ", "MATERIALIZE "))}
    parents = {place: parent for place, parent, *_ in plan}
    return [
        step for place, *_, step in plan if _is_scan(step, text) and not _is_subquery_scan(step, place, made, parents)
    ]


def _is_subquery_scan(step: str, place: int, made: Mapping[str, int], parents: Mapping[int, int]) -> bool:
    """Whether a step goes through what a subquery has made, under whatever name, and is none of the subquery's own."""
    maker = made.get(step.split()[1])
    if maker is None or " USING " in step:
        return False
    while place in parents:
        if place == maker:
            return False
        place = parents[place]
    return True


def _values(text: str) -> int:
    bare = re.sub(r"'[^']*'", "", text)
    numbers = [int(number) for number in re.findall(r"\?(\d+)", bare)]
    return max(numbers, default=bare.count("?"))  # a number may be left out, and counts


class AnyParameters(dict[str, None]):
    def __missing__(self, key: str) -> None:
        return None


_STEP = re.compile(r"^(SCAN|SEARCH) (\S+)(?: USING (?:COVERING )?(?:INDEX|AUTOMATIC\S* \S+ INDEX) ?(\S*))?(.*)$")


def _is_scan(step: str, text: str) -> bool:
    found = _STEP.match(step)
    if found is None or _table(found[2], text) not in GROWING_TABLES:
        return False
    how, _, index, rest = found.groups()
    if index in OPEN:
        return False
    if how == "SCAN" or "AUTOMATIC" in step:
        return True
    columns = set(re.findall(r"(\w+)[=<>]", rest))
    bounded = "LIMIT" in text.upper() or re.search(r"exists", text, re.IGNORECASE)
    return bool(columns) and columns <= COARSE and not bounded


def _table(name: str, text: str) -> str:
    """The table that a name in a plan stands for."""
    name = name.strip('"')
    if name in GROWING_TABLES:
        return name
    found = re.search(rf'["\s,](\w+)"?\s+(?:AS\s+)?"?{re.escape(name)}"?[\s,)]', text, re.IGNORECASE)
    return found[1] if found else name


@dataclass(frozen=True)
class TableScan:
    """A statement that walks through what grows."""

    asked: RecordedStatement
    steps: dict[str, list[str]]

    def told(self) -> str:
        steps = "\n".join(f"    {name}: {'; '.join(steps)}" for name, steps in self.steps.items())
        return f"{self.asked.place}, first run in {self.asked.test}:\n    {self.asked.text}\n{steps}"


def find_unexempt_scans(asked: Mapping[str, RecordedStatement], folder: Path) -> list[TableScan]:
    """The statements that walk through a table that grows and are not exempt."""
    walking = []
    with databases(folder) as made:
        for one in asked.values():
            if not one.text or any(exempt.meets(one) for exempt in EXEMPT_STATEMENTS):
                continue
            steps = {}
            for name, connection in made.items():
                try:
                    steps[name] = find_scans(connection, one.text)
                except sqlite3.OperationalError as error:
                    if "no such table" not in str(error):  # a test's own
                        steps[name] = [str(error)]
            steps = {name: found for name, found in steps.items() if found}
            if steps:
                walking.append(TableScan(one, steps))
    return walking


statement_recorder = query_plans.StatementRecorder()
