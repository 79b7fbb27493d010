"""The check of the whole file while the system does not let it be read."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from socialpub.domain.background import integrity_check
from socialpub.domain.background.integrity_check import BackgroundIntegrityCheck
from socialpub.domain.context.app_context import PendingIntegrityCheck
from socialpub.store.engine import integrity
from tests.support.app_server import AppServer
from tests.support.soak.soak_world import wait_for


def unopened(code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("as SQLite says it")
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    "error",
    [unopened(sqlite3.SQLITE_CANTOPEN), unopened(sqlite3.SQLITE_IOERR), OSError(24, "Too many open files")],
    ids=["cannot open", "cannot read", "files"],
)
def test_a_file_that_cannot_be_read_now_is_checked_later(
    server: AppServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    """Due posts waited for a check that had ended, until the next start."""
    real, failures = integrity._connect_read_only, [error, error]

    def connect(path: Path) -> sqlite3.Connection:
        if failures:
            raise failures.pop()
        return real(path)

    monkeypatch.setattr(integrity_check, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(integrity, "_connect_read_only", connect)
    server.service.process.pending_check = PendingIntegrityCheck("a test says so", first=True)
    check = BackgroundIntegrityCheck(server.service)
    check.start()
    assert wait_for(lambda: not check.holds, 30)
    assert caplog.text.count("cannot be checked: ") == 2
    check.stop()


def test_a_check_that_cannot_read_the_file_is_stopped_at_once(
    server: AppServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def connect(path: Path) -> sqlite3.Connection:
        raise unopened(sqlite3.SQLITE_CANTOPEN)

    monkeypatch.setattr(integrity, "_connect_read_only", connect)
    server.service.process.pending_check = PendingIntegrityCheck("a test says so", first=True)
    check = BackgroundIntegrityCheck(server.service)
    check.start()
    assert wait_for(lambda: "cannot be checked: it cannot be opened" in caplog.text, 30)
    check.stop()
    assert check.holds
    server.service.process.pending_check = None
