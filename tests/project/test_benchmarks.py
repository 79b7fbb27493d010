"""Benchmark database: rows that the program could have written."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks import dataset, report, wrk_load
from benchmarks.goals import GOALS, LOSSES, SHARES, BenchmarkResult
from benchmarks.throughput import WORK
from socialpub.store.queries.id_columns import select_column

ROWS = 200
HISTORY = {  # of a post that was tried, and of one that was not
    "batch": ("batch", "(SELECT batch FROM post WHERE post.id = ?)", 1, 1),
    "attempt": ("post", "(SELECT number FROM post WHERE post.id = ?)", 1, 0),
    "intent": ("post", "(SELECT number FROM post WHERE post.id = ?)", 1, 0),
    "event": ("post", "(SELECT number FROM post WHERE id = ?)", 2, 2),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    home = dataset.database(ROWS, tmp_path_factory.mktemp("benchmarks"))
    with closing(sqlite3.connect(home / "socialpub.db")) as connection:
        yield connection


def test_it_is_whole(made: sqlite3.Connection) -> None:
    assert made.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert made.execute("PRAGMA foreign_key_check").fetchall() == []
    assert made.execute("SELECT count(*) FROM post").fetchone() == (dataset.total(ROWS),)


def test_it_has_every_index_of_the_schema(made: sqlite3.Connection, tmp_path: Path) -> None:
    dataset.migration.migrate(tmp_path / "empty.db")
    indexes = "SELECT name, sql FROM sqlite_master WHERE type = 'index' ORDER BY name"
    with closing(sqlite3.connect(tmp_path / "empty.db")) as empty:
        assert made.execute(indexes).fetchall() == empty.execute(indexes).fetchall()


def test_every_post_has_the_history_that_publishing_writes(made: sqlite3.Connection) -> None:
    posts = made.execute("SELECT id, status FROM post").fetchall()
    for post, status in posts:
        tried = status in ("published", "failed", "rejected")
        for table, (column, value, of_tried, of_others) in HISTORY.items():
            key = "id" if table == "batch" else column
            (count,) = made.execute(f"SELECT count(*) FROM {table} WHERE {key} = {value}", (post,)).fetchone()
            assert count == (of_tried if tried else of_others), (table, status)
    assert {status for _, status in posts} == set(dataset.STATUSES)


def test_what_is_queued_has_its_job_and_nothing_is_due(made: sqlite3.Connection) -> None:
    queued = (
        f"SELECT id, {select_column('post', 'account')}, scheduled_at FROM post WHERE status = 'queued' ORDER BY id"
    )
    assert made.execute("SELECT key, serial_group, visible_at FROM job ORDER BY key").fetchall() == list(
        made.execute(queued)
    )
    (first,) = made.execute("SELECT min(visible_at) FROM job").fetchone()
    assert first >= dataset.DUE_MS


def test_every_share_has_its_work_and_its_loss() -> None:
    assert set(WORK) == {goal.name for goal in SHARES}
    assert [loss.name for loss in LOSSES] == [f"loss_{name}" for name in WORK]
    assert all(goal.holds(goal.goal, goal.must) for goal in GOALS.values())


def test_it_says_which_rows_miss_what() -> None:
    share = SHARES[0]
    results = [BenchmarkResult(share, value) for value in (share.must - 1, share.must, share.goal)]
    assert report.summary(results) == [
        f"Must missed, 1 of 3 rows: {share.title}.",
        f"Must held, goal missed, 1 of 3 rows: {share.title}.",
    ]
    assert report.summary(results[2:]) == ["Must missed, 0 of 1 rows.", "Must held, goal missed, 0 of 1 rows."]


def test_no_load_sends_a_text_that_another_has_sent(tmp_path: Path) -> None:
    """X refuses what an account has had: a second round of the same texts would measure refusals."""
    script = wrk_load.post("/v1/posts", "a key", ["one"])
    runs = [wrk_load.written(script, tmp_path).read_text().splitlines()[0] for _ in range(2)]
    assert len(set(runs)) == 2
    assert all(line.startswith("local run = ") for line in runs)
    assert "'{\"text\":\"Bench ' .. run .. '-' .. n" in script.lua
