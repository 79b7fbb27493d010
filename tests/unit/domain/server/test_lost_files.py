"""Database files removed, replaced or overwritten under a running server."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from socialpub.store.jobs import job_queue
from tests.support.app_server import AppServer, Person, error_of, format_instant
from tests.support.publishing_state import pause_reason, post_status, schedule_post
from tests.support.soak.soak_world import wait_for


@pytest.fixture(autouse=True)
def brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server whose rounds are short."""
    monkeypatch.setattr(job_queue, "SCHEDULER_SECONDS", 0.2)


@pytest.fixture
def home(server: AppServer, alice: Person) -> Path:
    """The data folder of a server with a post to come, and a backup beside its files."""
    schedule_post(server, alice)
    backup(server, server.home / "backup.db")
    return server.home


def backup(server: AppServer, into: Path) -> None:
    with contextlib.closing(sqlite3.connect(server.home / "socialpub.db")) as source:
        source.execute("VACUUM INTO ?", (str(into),))


def remove(home: Path) -> None:
    """rm socialpub.db"""
    (home / "socialpub.db").unlink()


def move_away(home: Path) -> None:
    """mv socialpub.db old.db"""
    (home / "socialpub.db").rename(home / "old.db")


def replace(home: Path) -> None:
    """mv backup.db socialpub.db"""
    (home / "backup.db").rename(home / "socialpub.db")


def write_over(home: Path) -> None:
    """cp backup.db socialpub.db"""
    shutil.copyfile(home / "backup.db", home / "socialpub.db")


def write_over_with_its_time(home: Path) -> None:
    """cp -p backup.db socialpub.db"""
    os.utime(home / "backup.db", (1, 1))
    write_over(home)
    os.utime(home / "socialpub.db", (1, 1))


def remove_log(home: Path) -> None:
    """rm socialpub.db-wal"""
    (home / "socialpub.db-wal").unlink()


def remove_index(home: Path) -> None:
    """rm socialpub.db-shm"""
    (home / "socialpub.db-shm").unlink()


def remove_all(home: Path) -> None:
    """rm socialpub.db*"""
    for path in home.glob("socialpub.db*"):
        path.unlink()


def remove_folder(home: Path) -> None:
    """rm -r data"""
    shutil.rmtree(home)
    home.mkdir()  # where the tests' own fixtures look


ACCIDENTS = [
    remove,
    move_away,
    replace,
    write_over,
    write_over_with_its_time,
    remove_log,
    remove_index,
    remove_all,
    remove_folder,
]
accidents = pytest.mark.parametrize("accident", ACCIDENTS)


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.CRITICAL]


@pytest.mark.matrix
@accidents
def test_nothing_is_acknowledged_any_more(
    home: Path, server: AppServer, alice: Person, accident: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    accident(home)
    body = {"text": "lost", "targets": [{"accountId": alice.bluesky}]}
    with alice.api.expecting_failure():
        answers = [
            alice.api.publish(body | {"scheduledAt": format_instant(server.clock.now_ms() + 3600_000)}),
            alice.api.publish(body),
            alice.api.get("/v1/posts"),
            alice.api.get("/readyz"),
        ]
    assert {(answer.status_code, error_of(answer)["rule"]) for answer in answers} == {(503, "storage.unavailable")}
    assert "files of the database were removed or replaced" in error_of(answers[-1])["message"]
    assert all(int(answer.headers["Retry-After"]) > 0 for answer in answers)
    server.skip(3601)
    assert not wait_for(server.lab.lab.ledger.posts, 0.6)  # nothing is sent whose intent cannot be written
    [line] = said(caplog)
    assert "while the server has it open: nothing is accepted or published" in line
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.matrix
@accidents
def test_it_is_noticed_while_nobody_asks_for_anything(
    home: Path, server: AppServer, accident: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    accident(home)
    assert wait_for(lambda: bool(said(caplog)), 60)
    assert server.service.db.files.lost


def test_a_file_that_comes_back_is_taken_up_again(home: Path, server: AppServer, alice: Person) -> None:
    """Moved away and back: it is the open file, and nothing was written to it in between."""
    move_away(home)
    with alice.api.expecting_failure():
        assert alice.api.get("/readyz").status_code == 503
    (home / "old.db").rename(home / "socialpub.db")
    assert alice.api.get("/readyz").status_code == 200
    post = schedule_post(server, alice, "after")
    server.restart(alice)
    assert post_status(server, post) == "queued"
    assert pause_reason(server) is None


def test_what_was_written_over_stays_refused(home: Path, server: AppServer, alice: Person) -> None:
    """The open file holds two databases by then; only a start that looks at it whole can say which."""
    write_over(home)
    with alice.api.expecting_failure():
        for _ in range(3):
            assert alice.api.get("/readyz").status_code == 503
            assert alice.api.get("/v1/posts").status_code == 503


def test_sqlite_itself_does_not_notice_that_its_file_was_written_over(home: Path) -> None:
    """So `place` reads the wal-index: where this fails, `PRAGMA data_version` may do instead."""
    with contextlib.closing(sqlite3.connect(home / "socialpub.db")) as connection:
        before = connection.execute("PRAGMA data_version").fetchone()
        write_over(home)
        assert connection.execute("PRAGMA data_version").fetchone() == before


def test_the_stop_does_not_write_into_what_was_put_there(home: Path, server: AppServer) -> None:
    write_over(home)
    content = (home / "socialpub.db").read_bytes()
    assert wait_for(lambda: bool(server.service.db.files.lost), 60)
    server.stop()
    assert (home / "socialpub.db").read_bytes() == content == (home / "backup.db").read_bytes()


def test_the_stop_leaves_the_files_of_another_database_alone(home: Path, server: AppServer) -> None:
    """Whoever puts back a database with its log must not lose the log to the server that stops."""
    replace(home)
    (home / "socialpub.db-wal").rename(home / "old-wal")
    (home / "socialpub.db-wal").write_bytes(b"its own log")
    server.stop()
    assert (home / "socialpub.db-wal").read_bytes() == b"its own log"


# --- What is no accident -----------------------------------------------------------------------------------------


def test_other_programs_may_read_write_and_checkpoint(home: Path, server: AppServer, alice: Person) -> None:
    """A backup tool, a command beside the server, somebody with sqlite3."""
    for pragma in ("PASSIVE", "FULL", "RESTART", "TRUNCATE"):
        schedule_post(server, alice, pragma)
        with contextlib.closing(sqlite3.connect(home / "socialpub.db")) as other:
            other.execute("UPDATE organization SET name = ?", (pragma,))
            other.commit()
            other.execute(f"PRAGMA wal_checkpoint({pragma})")
        assert alice.api.get("/readyz").status_code == 200
    assert len(server.rows()) == 5


@pytest.mark.slow
def test_a_checkpoint_of_its_own_is_no_accident(home: Path, server: AppServer, alice: Person) -> None:
    for number in range(400):
        server.service.write(
            lambda tx: server.service.jobs.put(tx, "none", "k" * 9000 + str(number), 10**15)  # noqa: B023
        ).result()
    assert (home / "socialpub.db").stat().st_size > 3_000_000
    assert alice.api.get("/readyz").status_code == 200


def test_a_file_that_is_touched_owned_or_linked_is_the_same(home: Path, server: AppServer, alice: Person) -> None:
    for path in home.glob("socialpub.db*"):
        path.chmod(0o600)
        os.chown(path, os.getuid(), os.getgid())
    os.link(home / "socialpub.db", home / "second-name.db")
    assert alice.api.get("/readyz").status_code == 200
    (home / "second-name.db").unlink()
