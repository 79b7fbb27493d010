"""Migrations: whole or not at all, refused when newer, and equal to the models."""

from __future__ import annotations

import contextlib
import itertools
import re
import sqlite3
from pathlib import Path
from unittest import mock

import pytest
from playhouse import migrations

from socialpub.base.config import shipped
from socialpub.domain.webhooks import eventlog
from socialpub.store import db
from socialpub.store.locks import StartError
from socialpub.store.statements.events import DATA, TYPES
from tests import formers


def tables(path: Path) -> set[str]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        return {row[0] for row in rows}


def statements_of(path: Path) -> list[str]:
    """What one whole migration of a fresh file runs."""
    seen: list[str] = []
    _migrate(path, seen.append)
    return seen


def _migrate(path: Path, look: object) -> None:
    """`db.migrate` with a look at each statement before it is run."""

    class Watched(sqlite3.Connection):
        def execute(self, sql: str, *values: object) -> sqlite3.Cursor:
            look(sql)  # type: ignore[operator]
            return super().execute(sql, *values)  # type: ignore[arg-type]

        def cursor(self, factory: type[sqlite3.Cursor] = sqlite3.Cursor) -> sqlite3.Cursor:
            return super().cursor(WatchedCursor)

    class WatchedCursor(sqlite3.Cursor):
        def execute(self, sql: str, *values: object) -> sqlite3.Cursor:
            look(sql)  # type: ignore[operator]
            return super().execute(sql, *values)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patched:
        plain = sqlite3.connect
        patched.setattr(sqlite3, "connect", lambda *a, **more: plain(*a, **{**more, "factory": Watched}))
        db.migrate(path)


class CutError(sqlite3.OperationalError):
    """The disk failed at this statement."""


APART = pytest.mark.parametrize("apart", [7, pytest.param(1, marks=pytest.mark.slow)])
"""Each statement is cut in the slow tests, and one of so many in the quick ones."""


@APART
def test_a_migration_that_fails_at_any_statement_leaves_the_old_schema(tmp_path: Path, apart: int) -> None:
    statements = statements_of(tmp_path / "whole.db")
    making = [nth for nth, sql in enumerate(statements) if "CREATE" in sql and "migration" not in sql.lower()]
    wanted = tables(tmp_path / "whole.db")
    steps = [set(), *_schemas(tmp_path)]
    assert len(making) > 30
    for nth in making[::apart]:
        path = tmp_path / f"{nth}.db"
        seen: list[str] = []

        def look(sql: str, nth: int = nth, seen: list[str] = seen) -> None:
            seen.append(sql)
            if len(seen) == nth + 1:
                raise CutError("disk I/O error")

        with pytest.raises(StartError):
            _migrate(path, look)
        assert seen[: nth + 1] == statements[: nth + 1]
        assert tables(path) in steps, f"statement {nth} left something between two schemas"
        db.migrate(path)
        assert tables(path) == wanted


def _schemas(folder: Path) -> list[set[str]]:
    """The tables before the first migration, and after each."""
    part = folder / "first"
    part.mkdir()
    found = []
    with _shipped(part):
        for source in (None, *_files()):
            if source:
                (part / source.name).write_text(source.read_text())
            db.migrate(folder / "grown.db")
            found.append(tables(folder / "grown.db"))
    return found


def _files() -> list[Path]:
    return sorted(shipped("migrations").glob("[0-9]*.py"))


def test_a_second_migration_finds_nothing_to_do(tmp_path: Path) -> None:
    path = tmp_path / "socialpub.db"
    before, after, applied = db.migrate(path)
    assert (before, bool(after), bool(applied)) == (None, True, True)
    assert db.migrate(path) == (after, after, [])


def test_what_the_tests_copy_is_what_the_migrations_make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("first", "copied"):
        (tmp_path / name).mkdir()
        db.migrate(tmp_path / name / "socialpub.db")
    (tmp_path / "made").mkdir()
    with monkeypatch.context() as patched:
        patched.setattr("socialpub.store.migrate.Runner", migrations.Runner)
        db.migrate(tmp_path / "made" / "socialpub.db")
    assert _all_of(tmp_path / "copied" / "socialpub.db") == _all_of(tmp_path / "made" / "socialpub.db")


def _all_of(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """Everything, with the tables of the search, the migrations without their moments, and how the file is kept."""
    searched = _rows(path, "SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB 'post_search_*'")
    return _everything(path) | {
        **{str(name): _rows(path, f'SELECT * FROM "{name}"') for (name,) in searched},
        "schema_migration": _rows(path, "SELECT id, name FROM schema_migration"),
        "kept": _rows(path, "PRAGMA journal_mode") + _rows(path, "PRAGMA page_size"),
    }


def test_a_file_of_a_newer_version_is_refused_and_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "socialpub.db"
    db.migrate(path)
    older = tmp_path / "older"
    older.mkdir()
    for source in _files()[:-1]:
        (older / source.name).write_text(source.read_text())
    monkeypatch.setattr("socialpub.store.migrate.shipped", lambda name: older)
    with pytest.raises(StartError, match="newer socialpub"):
        db.migrate(path)


# --- Attempts and intents with numbers -------------------------------------------------------------------------------

POSTS = {"out": "published", "commented": "published", "lost": "failed", "refused": "rejected", "open": "publishing"}
INTENTS = (  # post, attempt, step, outcome
    ("out", 1, "publish", "ok"),
    ("commented", 1, "publish", "ok"),
    ("commented", 1, "comment", "ok"),
    ("lost", 1, "publish", "unknown"),
    ("lost", 2, "publish", "ok"),
    ("refused", 1, "publish", "rejected"),
    ("open", 3, "publish", None),
)


@pytest.fixture
def former(tmp_path: Path) -> tuple[Path, Path]:
    """A database with history as it was before its attempts had numbers, and that migration in parts of two rows."""
    before, after = tmp_path / "before", tmp_path / "after"
    for folder, files in ((before, _before("small_keys")), (after, _upto("small_keys"))):
        folder.mkdir()
        for source in files:
            (folder / source.name).write_text(source.read_text().replace("PART = 100_000", "PART = 2"))
    path = tmp_path / "former.db"
    with _shipped(before):
        db.migrate(path)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        _fill(connection)
        connection.commit()
    return path, after


def _before(name: str) -> list[Path]:
    """The migrations before the one of that name."""
    return list(itertools.takewhile(lambda path: name not in path.name, _files()))


def _upto(name: str) -> list[Path]:
    """Those, and it."""
    return _files()[: len(_before(name)) + 1]


def _shipped(folder: Path) -> contextlib.AbstractContextManager[object]:
    return mock.patch("socialpub.store.migrate.shipped", return_value=folder)


def _fill(connection: sqlite3.Connection) -> None:
    connection.execute("INSERT INTO organization VALUES ('o', 'O', 'self_host', 0)")
    connection.execute("INSERT INTO profile VALUES ('p', 'o', '', 'p', 0, 0, NULL)")
    columns = "id, organization, profile, platform, platform_account_id, status, extra, created_at, updated_at"
    connection.execute(
        f"INSERT INTO account ({columns}) VALUES ('a', 'o', 'p', 'bluesky', 'x', 'active', '{{}}', 0, 0)"
    )
    connection.execute("INSERT INTO batch VALUES ('b', 'o', NULL, 0, NULL)")
    for place, (post, status) in enumerate(POSTS.items()):
        connection.execute(
            "INSERT INTO post (id, organization, profile, account, platform, batch, position, status, text, text_fold, "
            "media, options, first_comment, warnings, attempts, tries, created_at, updated_at) "
            "VALUES (?, 'o', 'p', 'a', 'bluesky', 'b', ?, ?, 't', '', '[]', '{}', ?, '[]', 1, 1, 0, 0)",
            (post, place, status, "first" if post == "commented" else None),
        )
    for post, number in sorted({(post, number) for post, number, *_ in INTENTS}, reverse=True):
        row = (f"attempt-{post}-{number}", post, number, 5, 6, 1, None, "words", None)
        connection.execute("INSERT INTO attempt VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    for place, (post, number, step, outcome) in enumerate(INTENTS):
        named = (f"intent-{place}", post, f"attempt-{post}-{number}", "a", step, place, f"plan-{place}")
        told = (outcome, f"at://{place}" if outcome == "ok" else None, "result" if outcome == "ok" else None)
        connection.execute(
            "INSERT INTO intent (id, post, attempt, account, step, number, plan, epoch, intent_at, sends, looks, "
            "answered, outcome, remote_id, result) VALUES (?, ?, ?, ?, ?, ?, ?, 1, 7, 1, 2, 0, ?, ?, ?)",
            (*named, *told),
        )


def _rows(path: Path, statement: str) -> list[tuple[object, ...]]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return connection.execute(statement).fetchall()


def test_attempts_and_intents_of_before_get_numbers(former: tuple[Path, Path]) -> None:
    path, after = former
    attempts = _rows(path, "SELECT * FROM attempt ORDER BY rowid")
    with _shipped(after):
        db.migrate(path)
    assert _rows(path, "SELECT * FROM attempt ORDER BY place") == [
        (place, *row) for place, row in enumerate(attempts, 1)
    ]
    found = _rows(path, "SELECT post, attempt, step, outcome FROM intent ORDER BY id")
    assert found == list(INTENTS)
    kept = _rows(path, "SELECT plan, result FROM intent ORDER BY id")
    assert kept == [
        ("", None),
        ("plan-1", "result"),
        ("", None),
        ("plan-3", None),
        ("plan-4", "result"),
        ("plan-5", None),
        ("plan-6", None),
    ]
    assert _rows(path, "SELECT DISTINCT account, intent_at, sends, looks FROM intent") == [("a", 7, 1, 2)]
    assert _rows(path, "PRAGMA foreign_key_check") == []
    assert _rows(path, "PRAGMA integrity_check") == [("ok",)]


def test_numbering_that_is_interrupted_leaves_everything_as_it_was(former: tuple[Path, Path]) -> None:
    path, after = former
    tables = "SELECT name, sql FROM sqlite_master ORDER BY name"
    before = _rows(path, tables), _rows(path, "SELECT * FROM intent"), _rows(path, "SELECT * FROM attempt")
    cuts = 0
    for nth in itertools.count():
        seen = 0

        def look(sql: str, nth: int = nth) -> None:
            nonlocal seen
            seen += bool(re.search("intent|attempt", sql)) and not sql.startswith("SELECT")
            if seen == nth + 1:
                raise CutError("disk I/O error")

        with _shipped(after):
            try:
                _migrate(path, look)
                break
            except StartError:
                cuts += 1
        now = _rows(path, tables), _rows(path, "SELECT * FROM intent"), _rows(path, "SELECT * FROM attempt")
        assert now == before, f"the cut at statement {nth}"
    assert cuts > 15
    assert _rows(path, "SELECT count(*) FROM intent") == [(len(INTENTS),)]


# --- Batches in one tree ---------------------------------------------------------------------------------------------

BATCHES = "SELECT * FROM batch ORDER BY id"


@pytest.fixture
def rooted(tmp_path: Path) -> tuple[Path, Path]:
    """A database with batches as it was before they stood in one tree, and that migration in parts of two rows."""
    before, after = tmp_path / "rooted before", tmp_path / "rooted after"
    for folder, files in ((before, _before("batch_tree")), (after, _upto("batch_tree"))):
        folder.mkdir()
        for source in files:
            (folder / source.name).write_text(source.read_text().replace("PART = 100_000", "PART = 2"))
    path = tmp_path / "rooted.db"
    with _shipped(before):
        db.migrate(path)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("INSERT INTO organization VALUES ('o', 'O', 'self_host', 0)")
        connection.execute("INSERT INTO profile VALUES ('p', 'o', '', 'p', 0, 0, NULL)")
        columns = "id, organization, profile, platform, platform_account_id, status, extra, created_at, updated_at"
        values = "'a', 'o', 'p', 'bluesky', 'x', 'active', '{}', 0, 0"
        connection.execute(f"INSERT INTO account ({columns}) VALUES ({values})")
        for place in range(5):
            connection.execute("INSERT INTO batch VALUES (?, 'o', ?, ?, NULL)", (f"b{9 - place}", f"r{place}", place))
            connection.execute(
                "INSERT INTO post (id, organization, profile, account, platform, batch, position, status, text, "
                "text_fold, media, options, warnings, attempts, tries, created_at, updated_at) "
                "VALUES (?, 'o', 'p', 'a', 'bluesky', ?, 0, 'queued', 't', '', '[]', '{}', '[]', 0, 0, 0, 0)",
                (f"post {place}", f"b{9 - place}"),
            )
        connection.commit()
    return path, after


def test_batches_of_before_keep_their_posts(rooted: tuple[Path, Path]) -> None:
    path, after = rooted
    before = _rows(path, BATCHES)
    with _shipped(after):
        db.migrate(path)
    assert _rows(path, BATCHES) == before
    assert _rows(path, "PRAGMA foreign_key_check") == []
    assert _rows(path, "SELECT count(*) FROM post JOIN batch ON batch.id = post.batch") == [(5,)]
    ((table,),) = _rows(path, "SELECT DISTINCT \"table\" FROM pragma_foreign_key_list('post') WHERE \"from\" = 'batch'")
    assert table == "batch"


def test_batches_are_as_they_were_wherever_it_is_interrupted_and_whole_the_next_time(rooted: tuple[Path, Path]) -> None:
    path, after = rooted
    before = _rows(path, BATCHES)
    cuts = 0
    for nth in itertools.count():
        seen = 0

        def look(sql: str, nth: int = nth) -> None:
            nonlocal seen
            seen += "batch" in sql
            if seen == nth + 1:
                raise CutError("disk I/O error")

        copy = path.with_name(f"cut {nth}.db")
        copy.write_bytes(path.read_bytes())
        with _shipped(after):
            try:
                _migrate(copy, look)
                break
            except StartError:
                cuts += 1
            assert _rows(copy, BATCHES) == before
            db.migrate(copy)
        assert _rows(copy, BATCHES) == before
        assert _rows(copy, "PRAGMA foreign_key_check") == []
    assert cuts > 7


# --- Small events ----------------------------------------------------------------------------------------------------

BY_ID = DATA.replace("account.number = post.account", "account.id = post.account")  # as posts named their accounts then
SCHEDULED = '"scheduledAt":"2026-11-24T09:00:00.123Z"'
SCHEDULED_MS = 1_795_510_800_123
AT = 1_795_500_000_007  # 2026-11-24T06:00:00.007Z
ID = "evt_" + "0" * 21 + "Z"
EVENTS = (  # id, type, post, data, request; then when its post was scheduled, and what is kept of data and request
    (ID, "post.queued", "post", f'{SCHEDULED},"queuedAt":\x02}}', "r", SCHEDULED_MS, None, None),
    ("evt_" + "1" * 22, "post.validated", "post", '"scheduledAt":null,"validatedAt":\x02}', "r", None, None, None),
    ("evt_" + "2" * 22, "post.published", "post", '"scheduledAt":null,"publishedAt":\x02,\x01}', "r", None, None, None),
    (
        "evt_" + "3" * 22,
        "post.published",
        "post",
        f'{SCHEDULED},"publishedAt":"2026-11-24T06:00:00.007Z",\x01}}',
        "other",
        SCHEDULED_MS,
        None,
        "other",
    ),
    *(
        ("evt_" + letter * 22, "post.published", "post", data, None, None, data, None)
        for letter, data in {
            "4": '"scheduledAt":null,"publishedAt":"2026-11-24T06:00:00.008Z",\x01}',  # not what the row has
            "5": '"scheduledAt":null,"publishedAt":\x02,\x01,"warnings":[]}',
            "6": '{"id":"post","whole":true}',
        }.items()
    ),
    ("evt_" + "7" * 22, "post.failed", "post", '"scheduledAt":null,"failedAt":\x02,"error":{}}', "r",
     None, '"scheduledAt":null,"failedAt":\x02,"error":{}}', None),
    ("evt_" + "z" * 22, "quota.warning", None, '{"percent":80}', "r", None, '{"percent":80}', "r"),
)  # fmt: skip


@pytest.fixture
def told(tmp_path: Path) -> tuple[Path, Path]:
    """A database with events as they were before they were small, and that migration in parts of two rows."""
    before, after = tmp_path / "told before", tmp_path / "told after"
    names = _before("small_events")
    for folder, files in ((before, names), (after, _files()[: len(names) + 1])):
        folder.mkdir()
        for source in files:
            (folder / source.name).write_text(source.read_text().replace("PART = 100_000", "PART = 2"))
    path = tmp_path / "told.db"
    with _shipped(before):
        db.migrate(path)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("INSERT INTO organization VALUES ('gone', 'G', 'self_host', 0)")
        connection.execute("INSERT INTO organization VALUES ('o', 'O', 'self_host', 0)")
        connection.execute("DELETE FROM organization WHERE id = 'gone'")
        connection.execute("INSERT INTO profile VALUES ('p', 'o', '', 'p', 0, 0, NULL)")
        columns = "id, organization, profile, platform, platform_account_id, status, extra, created_at, updated_at"
        values = "'a', 'o', 'p', 'bluesky', 'x', 'active', '{}', 0, 0"
        connection.execute(f"INSERT INTO account ({columns}) VALUES ({values})")
        connection.execute("INSERT INTO batch VALUES ('b', 'o', 'r', 0, NULL)")
        connection.execute(
            "INSERT INTO post (number, id, organization, profile, account, platform, batch, position, status, text, "
            "text_fold, media, options, warnings, attempts, tries, created_at, updated_at, published_at) "
            "VALUES (9, 'post', 'o', 'p', 'a', 'bluesky', 'b', 0, 'published', 't', '', '[]', '{}', '[]', 0, 0, 0, 0, "
            "?)",
            (AT,),
        )
        for id, type_, post, data, request, *_ in EVENTS:
            connection.execute(
                "INSERT INTO event (id, organization, type, post, data, request_id, created_at) "
                "VALUES (?, 'o', ?, ?, ?, ?, ?)",
                (id, type_, post, data, request, AT),
            )
        connection.execute(
            "INSERT INTO webhook_endpoint (id, organization, url, events, active, secret, created_at, updated_at) "
            "VALUES ('e', 'o', 'u', '[]', 1, 's', 0, 0)"
        )
        connection.execute(
            "INSERT INTO webhook_delivery (id, endpoint, organization, event, type, status, attempts, tries, "
            "created_at, updated_at) VALUES ('d', 'e', 'o', 3, 'post.published', 'pending', 0, 0, 0, 0)"
        )
        connection.commit()
    return path, after


def test_events_of_before_keep_their_ids_and_what_nothing_else_tells(told: tuple[Path, Path]) -> None:
    path, after = told
    with contextlib.closing(sqlite3.connect(path)) as connection:  # what their readers made of them then
        before = connection.execute(
            f"SELECT {BY_ID} FROM (SELECT *, 0 AS scheduled_at FROM event) AS event "
            "LEFT JOIN post ON post.id = event.post"
        ).fetchall()
    with _shipped(after):
        db.migrate(path)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT * FROM event ORDER BY number").fetchall()
        read = connection.execute(f"SELECT {BY_ID} FROM event LEFT JOIN post ON post.number = event.post").fetchall()
        (organization,) = connection.execute("SELECT number FROM organization WHERE id = 'o'").fetchone()
    assert read == before
    for number, (row, event) in enumerate(zip(found, EVENTS, strict=True), 1):
        id, type_, post, _, _, scheduled, data, request = event
        assert eventlog.id_of("o", number, AT, row[1]) == id
        assert row[2:] == (organization, None, TYPES[type_], 9 if post else None, scheduled, data, request, AT)
    assert _rows(path, "PRAGMA foreign_key_check") == []
    assert _rows(path, "PRAGMA integrity_check") == [("ok",)]


@APART
def test_events_are_as_they_were_wherever_it_is_interrupted_and_small_the_next_time(
    told: tuple[Path, Path], apart: int
) -> None:
    path, after = told
    tables = "SELECT name, sql FROM sqlite_master ORDER BY name"
    before = [_rows(path, statement) for statement in (tables, "SELECT * FROM event", "SELECT * FROM organization")]
    cuts = 0
    for nth in itertools.count(0, apart):
        seen = 0

        def look(sql: str, nth: int = nth) -> None:
            nonlocal seen
            seen += "event" in sql or "organization" in sql
            if seen == nth + 1:
                raise CutError("disk I/O error")

        copy = path.with_name(f"cut {nth}.db")
        copy.write_bytes(path.read_bytes())
        with _shipped(after):
            try:
                _migrate(copy, look)
                break
            except StartError:
                cuts += 1
            now = [
                _rows(copy, statement) for statement in (tables, "SELECT * FROM event", "SELECT * FROM organization")
            ]
            assert now == before, f"the cut at statement {nth}"
            db.migrate(copy)
        assert _rows(copy, "SELECT count(*), sum(former_id IS NOT NULL) FROM event") == [(len(EVENTS), len(EVENTS))]
        assert _rows(copy, "PRAGMA foreign_key_check") == []
        copy.unlink()
    assert cuts * apart > 15


# --- Ids that are kept shorter ---------------------------------------------------------------------------------------


@APART
@pytest.mark.parametrize("name", ["numbers", "short_posts"])
def test_rows_are_as_they_were_wherever_making_them_shorter_is_interrupted(
    name: str, apart: int, tmp_path: Path
) -> None:
    """At every statement of it; whole the next time, and nothing is done twice."""
    before, after = tmp_path / "shorter before", tmp_path / "shorter after"
    for folder, files in ((before, _before(name)), (after, _upto(name))):
        folder.mkdir()
        for source in files:
            (folder / source.name).write_text(source.read_text().replace("PART = 100_000", "PART = 2"))
    path = formers.made(tmp_path / "former.db", len(_before(name)), tmp_path)
    then, cuts = _everything(path), 0
    for nth in itertools.count(0, apart):
        seen: list[str] = []

        def look(sql: str, nth: int = nth, seen: list[str] = seen) -> None:
            seen.append(sql)
            if len(seen) == nth + 1:
                raise CutError("disk I/O error")

        copy = path.with_name(f"{name} {nth}.db")
        copy.write_bytes(path.read_bytes())
        with _shipped(after):
            try:
                _migrate(copy, look)
                break
            except StartError:
                cuts += 1
            now = _everything(copy)
            assert now == then or _is_whole(copy, name), f"the cut at statement {nth}: {seen[-1]}"
            db.migrate(copy)
        assert _is_whole(copy, name)
        copy.unlink()
    assert cuts * apart > 20


def _everything(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """The schema, and every row of every table."""
    names = [str(name) for (name,) in _rows(path, "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
    kept = [name for name in names if name != "schema_migration" and not name.startswith("post_search")]
    return {name: _rows(path, f'SELECT * FROM "{name}"') for name in ("sqlite_master", *kept)}


def _is_whole(path: Path, name: str) -> bool:
    """Whether the migration was made whole; only its record may be missing."""
    left = _rows(path, "SELECT 1 FROM sqlite_master WHERE name LIKE '%_new' OR sql LIKE '%_new\"%'")
    sound = _rows(path, "PRAGMA integrity_check") + _rows(path, "PRAGMA foreign_key_check")
    return not left and sound == [("ok",)] and _rows(path, MADE[name]) == [(formers.ROWS,)]


MADE = {
    "numbers": "SELECT count(*) FROM intent JOIN account ON account.number = intent.account",
    "short_posts": "SELECT count(*) FROM post JOIN batch ON batch.id = post.batch AND batch.organization = 1",
}
