"""What a server in this process asks of its database: statements, steps, transactions, threads, and texts made anew.

    def test_…(counting: Counting, server: Server, alice: Person) -> None:   # `counting` stands before `server`
        alice.api.publish(…)                                                 # once, so that all is warm
        with counting.while_() as done:
            alice.api.publish(…)
        assert done.asked.writes == 1, done

`done.asked` is what requests have caused, `done.unasked` what the engine did meanwhile by itself. A step is what SQLite
does at once, one for each statement and one more for each row that it gives; sqlite3 gives the interpreter away at
each. What begins and ends a transaction comes after what was done in it.
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

from socialpub.store.db import Database
from socialpub.store.glance import Glance
from socialpub.store.readers import asker

AROUND = ("BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE")


@dataclass
class Work:
    """What was done for somebody. `lookups`, `reads` and `writes` are each a function handed to another thread."""

    sql: list[str] = field(default_factory=list)
    steps: int = 0
    built: list[str] = field(default_factory=list)  # the texts that the query builder made
    lookups: int = 0
    reads: int = 0
    writes: int = 0
    glances: int = 0  # functions that ran where they were asked for
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
        handed = f"{self.lookups} lookups, {self.reads} reads, {self.writes} writes, {self.glances} glances"
        return f"{counts}, {handed}, {self.commits} commits\n  {shown}"


@dataclass
class Done:
    """All that was done within a block."""

    asked: Work = field(default_factory=Work)
    unasked: Work = field(default_factory=Work)

    def __str__(self) -> str:
        return f"asked: {self.asked}\nunasked: {self.unasked}"


class _Thread(threading.local):
    """Whose work this thread is at, and what it did since its transaction began for nobody in particular."""

    asked: bool | None = None
    around: list[tuple[str, int]]
    parties: set[bool]

    def __init__(self) -> None:
        self.around, self.parties = [], set()


class Counting:
    """Counts what the servers do that are started after it."""

    def __init__(self) -> None:
        self._lock, self._thread = threading.Lock(), _Thread()
        self._done: Done | None = None

    @contextlib.contextmanager
    def while_(self) -> Iterator[Done]:
        """Count within the block."""
        done = self._done = Done()
        try:
            yield done
        finally:
            self._done = None

    # --- What is told of ---

    def stepped(self, text: str, steps: int) -> None:
        """A statement's beginning (with its text), or another row of it ("")."""
        thread = self._thread
        if text.startswith("BEGIN"):
            thread.around, thread.parties = [], set()
        if thread.asked is not None:
            self._add(thread.asked, text, steps)
            return
        thread.around.append((text, steps))
        if text.startswith(("COMMIT", "ROLLBACK")) and " TO " not in text:
            self._end(committed=text.startswith("COMMIT"))

    def _end(self, *, committed: bool) -> None:
        """What a transaction needs for itself is done for whoever was in it; for an asker where one was."""
        thread = self._thread
        asked = True in thread.parties
        for text, steps in thread.around:
            self._add(asked, text, steps)
        with self._lock:
            for party in thread.parties if committed and self._done else ():
                self._of(party).commits += 1

    def _add(self, asked: bool, text: str, steps: int) -> None:
        with self._lock:
            if self._done is not None:
                work = self._of(asked)
                work.sql += [text] if text else []
                work.steps += steps

    def built(self, text: str) -> None:
        with self._lock:
            if self._done is not None:
                self._of(bool(self._thread.asked)).built.append(text)

    def handed(self, way: str, run: Callable[..., Any]) -> Callable[..., Any]:
        """The function that another thread gets: what it does is counted as who hands it over asks."""
        asked = asker.get() is not None
        with self._lock:
            if self._done is not None:
                work = self._of(asked)
                setattr(work, way, getattr(work, way) + 1)

        def counted(*given: Any) -> Any:
            self._thread.parties.add(asked)
            before, self._thread.asked = self._thread.asked, asked
            try:
                return run(*given)
            finally:
                self._thread.asked = before

        return counted

    def _of(self, asked: bool) -> Work:
        assert self._done is not None
        return self._done.asked if asked else self._done.unasked


class _Cursor(sqlite3.Cursor):
    def execute(self, sql: str, *parameters: Any) -> _Cursor:
        _of(self).stepped(sql, 1)
        super().execute(sql, *parameters)
        return self

    def executemany(self, sql: str, rows: Any) -> _Cursor:
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


class _Connection(sqlite3.Connection):
    counting: Counting

    def cursor(self, factory: Any = None) -> Any:
        return super().cursor(_Cursor)

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        return self.cursor().execute(sql, *parameters)  # type: ignore[no-any-return]


def _of(cursor: sqlite3.Cursor) -> Counting:
    assert isinstance(cursor.connection, _Connection)
    return cursor.connection.counting


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> Counting:
    """Counts what servers do that are started after it: let it stand before `server`."""
    counting = Counting()
    factory = type("Counted", (_Connection,), {"counting": counting})
    connect, query = sqlite3.connect, peewee.Context.query
    handed = {"write": "writes", "read": "reads", "look_up": "lookups", "glance": "glances"}

    def building(context: peewee.Context) -> Any:
        text, values = query(context)
        counting.built(text)
        return text, values

    monkeypatch.setattr(sqlite3, "connect", lambda *given, **named: connect(*given, **{"factory": factory} | named))
    monkeypatch.setattr(peewee.Context, "query", building)
    monkeypatch.setattr(Glance, "_was_slow", lambda glance, before: False)  # a busy machine changes no count
    for name, way in handed.items():
        monkeypatch.setattr(Database, name, _handing(counting, way, getattr(Database, name)))
    monkeypatch.setattr(Database, "write_together", _together(counting, Database.write_together))
    return counting


def _handing(counting: Counting, way: str, real: Callable[..., Any]) -> Callable[..., Any]:
    return lambda database, run: real(database, counting.handed(way, run))


def _together(counting: Counting, real: Callable[..., Any]) -> Callable[..., Any]:
    """Writes of a kind are done together where they have the same function: so there is one for each who asks."""
    kinds: dict[tuple[Any, bool], Callable[..., Any]] = {}

    def write_together(database: Database, kind: Callable[..., Any], what: Any) -> Any:
        counted = counting.handed("writes", kind)
        return real(database, kinds.setdefault((kind, asker.get() is not None), counted), what)

    return write_together
