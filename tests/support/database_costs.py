"""Counter of server database work: statements, rows, commits, thread handoffs, built SQL.

    def test_…(counting: DatabaseCounter, server: AppServer, alice: Person) -> None:   # `counting` before `server`
        alice.api.publish(…)                                                           # warm up
        with counting.while_() as done:
            alice.api.publish(…)
        assert done.asked.writes == 1, done

`done.asked` is work caused by requests, `done.unasked` the engine's own work in the meantime. `steps` counts one per
statement and one per row: sqlite3 releases the GIL at each. Statements that begin and end a transaction are listed
after those within it.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import peewee
import pytest

from socialpub.domain.access import lost_responses
from socialpub.store.database import Database
from socialpub.store.engine.inline_reader import InlineReader
from socialpub.store.engine.reader_pool import current_requester

AROUND = ("BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE")


@dataclass(eq=False)
class DatabaseWork:
    """What was done for somebody. `lookups`, `reads` and `writes` are each a function handed to another thread."""

    sql: list[str] = field(default_factory=list)
    steps: int = 0
    built: list[str] = field(default_factory=list)  # the texts that the query builder made
    lookups: int = 0
    reads: int = 0
    writes: int = 0
    inline: int = 0  # functions that ran where they were asked for
    commits: int = 0  # transactions in which one of the writes was

    @property
    def statements(self) -> int:
        return len(self.sql)

    @property
    def within(self) -> list[str]:
        """The statements without those that begin and end."""
        return [text for text in self.sql if not text.startswith(AROUND)]

    @property
    def handed(self) -> int:
        """How often a thread waited for another."""
        return self.lookups + self.reads + self.writes

    def __str__(self) -> str:
        shown = "\n  ".join(" ".join(text.split()) for text in self.sql)
        counts = f"{self.statements} statements, {self.steps} steps, {len(self.built)} built"
        handed = f"{self.lookups} lookups, {self.reads} reads, {self.writes} writes, {self.inline} inline reads"
        return f"{counts}, {handed}, {self.commits} commits\n  {shown}"


@dataclass
class CountedWork:
    """All that was done within a block."""

    asked: DatabaseWork = field(default_factory=DatabaseWork)
    unasked: DatabaseWork = field(default_factory=DatabaseWork)

    def __str__(self) -> str:
        return f"asked: {self.asked}\nunasked: {self.unasked}"


class ThreadWork(threading.local):
    """Whose work this thread is at, and what it did since its transaction began for nobody in particular."""

    work: DatabaseWork | None = None
    around: list[tuple[str, int]]
    parties: set[DatabaseWork]  # those that were in the transaction
    latest: DatabaseWork | None = None  # of these, whose savepoint it is
    savepoint: str = ""  # what began it

    def __init__(self) -> None:
        self.around, self.parties = [], set()


class DatabaseCounter:
    """Counts what the servers do that are started after it."""

    def __init__(self) -> None:
        self._lock, self._thread = threading.Lock(), ThreadWork()
        self._done = CountedWork()  # of which nobody hears, outside of a block

    @contextlib.contextmanager
    def while_(self) -> Iterator[CountedWork]:
        """Count within the block: what is handed over in it. What was before, and is done only now, is not."""
        done = self._done = CountedWork()
        try:
            yield done
        finally:
            self._done = CountedWork()

    # --- What is told of ---

    def stepped(self, text: str, steps: int) -> None:
        """A statement's beginning (with its text), or another row of it ("")."""
        thread = self._thread
        if text.startswith("BEGIN"):
            thread.around, thread.parties = [], set()
        elif text.startswith("SAVEPOINT"):
            thread.savepoint, thread.latest = text, None
            return
        elif thread.latest is not None and text.startswith(("RELEASE", "ROLLBACK TO")):
            for each in filter(None, (thread.savepoint, text)):
                self._add(thread.latest, each, 1)
            thread.savepoint = ""
            return
        if thread.work is not None:
            self._add(thread.work, text, steps)
            return
        thread.around.append((text, steps))
        if text.startswith(("COMMIT", "ROLLBACK")) and " TO " not in text:
            self._end(committed=text.startswith("COMMIT"))

    def _end(self, *, committed: bool) -> None:
        """What a transaction needs for itself is done for whoever was in it; for an asker where one was."""
        parties, now = self._thread.parties, self._done
        there = [work for work in (now.asked, now.unasked) if work in parties]
        if parties and not there:
            return  # all was handed over before
        for text, steps in self._thread.around:
            self._add((there or [now.unasked])[0], text, steps)
        with self._lock:
            for work in there if committed else ():
                work.commits += 1

    def _add(self, work: DatabaseWork, text: str, steps: int) -> None:
        with self._lock:
            if work in (self._done.asked, self._done.unasked):
                work.sql += [text] if text else []
                work.steps += steps

    def built(self, text: str) -> None:
        work = self._thread.work or self._done.unasked
        with self._lock:
            work.built.append(text)

    def mine(self) -> DatabaseWork:
        """What is counted of whoever asks in this thread."""
        return self._done.unasked if current_requester.get() is None else self._done.asked

    def handed(self, mine: DatabaseWork, way: str, run: Callable[..., Any]) -> Callable[..., Any]:
        """The function that another thread gets: what it does is counted as who hands it over asks."""
        with self._lock:
            setattr(mine, way, getattr(mine, way) + 1)

        def counted(*given: Any) -> Any:
            self._thread.parties.add(mine)
            self._thread.latest = mine
            before, self._thread.work = self._thread.work, mine
            try:
                return run(*given)
            finally:
                self._thread.work = before

        return counted


class CountingCursor(sqlite3.Cursor):
    def execute(self, sql: str, *parameters: Any) -> CountingCursor:
        _of(self).stepped(sql, 1)
        super().execute(sql, *parameters)
        return self

    def executemany(self, sql: str, rows: Any) -> CountingCursor:
        rows = list(rows)
        _of(self).stepped(sql, len(rows))
        super().executemany(sql, rows)
        return self

    def fetchone(self) -> Any:
        row = super().fetchone()
        _of(self).stepped("", row is not None)
        return row

    def fetchall(self) -> list[Any]:
        rows = super().fetchall()
        _of(self).stepped("", len(rows))
        return rows

    def __next__(self) -> Any:
        row = super().__next__()
        _of(self).stepped("", 1)
        return row


class CountingConnection(sqlite3.Connection):
    counting: DatabaseCounter

    def cursor(self, factory: Any = None) -> Any:
        return super().cursor(CountingCursor)

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        return self.cursor().execute(sql, *parameters)  # type: ignore[no-any-return]


def _of(cursor: sqlite3.Cursor) -> DatabaseCounter:
    assert isinstance(cursor.connection, CountingConnection)
    return cursor.connection.counting


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> DatabaseCounter:
    """Counts what servers do that are started after it: let it stand before `server`."""
    counting = DatabaseCounter()
    factory = type("Counted", (CountingConnection,), {"counting": counting})
    connect, query = sqlite3.connect, peewee.Context.query
    handed = {"write": "writes", "read": "reads", "look_up": "lookups", "try_inline": "inline"}

    def building(context: peewee.Context) -> Any:
        text, values = query(context)
        counting.built(text)
        return text, values

    monkeypatch.setattr(sqlite3, "connect", lambda *given, **named: connect(*given, **{"factory": factory} | named))
    monkeypatch.setattr(peewee.Context, "query", building)
    # A busy machine changes no count.
    monkeypatch.setattr(InlineReader, "_was_slow", lambda reader, before: False)
    monkeypatch.setattr(
        lost_responses, "DELETE_DELAY_SECONDS", 3600
    )  # after which a write of what was asked before comes by itself
    for name, way in handed.items():
        monkeypatch.setattr(Database, name, _handing(counting, way, getattr(Database, name)))
    monkeypatch.setattr(Database, "write_together", _together(counting, Database.write_together))
    return counting


def _handing(counting: DatabaseCounter, way: str, real: Callable[..., Any]) -> Callable[..., Any]:
    return lambda database, run: real(database, counting.handed(counting.mine(), way, run))


def _together(counting: DatabaseCounter, real: Callable[..., Any]) -> Callable[..., Any]:
    """Writes of a kind are done together where they have the same function: so there is one for each who asks."""
    kinds: dict[tuple[Any, DatabaseWork], Callable[..., Any]] = {}

    def write_together(database: Database, kind: Callable[..., Any], what: Any) -> Any:
        mine = counting.mine()
        counted = counting.handed(mine, "writes", kind)
        return real(database, kinds.setdefault((kind, mine), counted), what)

    return write_together
