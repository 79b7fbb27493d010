"""Writes that come between the checks of a request and its transaction."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import httpx

from socialpub.store.database import Tx
from tests.support.app_server import AppServer, error_of, list_changes
from tests.support.media_uploads import stored_files, wait_until


def write_for(server: AppServer, organization: str, change: Callable[[Tx], None]) -> Any:
    """Queue a write before all that the organization will ask for: the writes of one organization run in order."""
    return server.service.db._writer.write(change, organization)


@contextlib.contextmanager
def listing_actions(server: AppServer) -> Iterator[list[Callable[[Tx], Any]]]:
    """The actions that wait to be written, or are written, since the block began."""
    database, queued = server.service.db, list[Callable[[Tx], Any]]()
    write = database.write

    def note(run: Callable[[Tx], Any]) -> Any:
        future = write(run)
        if run.__name__ == "run_authorized":
            queued.append(run)
        return future

    with mock.patch.object(database, "write", note):
        yield queued


def count_checked(server: AppServer, organization: str) -> int:
    """Count the requests of an organization that are checked, and about to be written."""
    writing = server.service.admission.writing
    return writing._active.get(organization, 0) + writing.waiting(organization)


def check_refused(
    server: AppServer, answer: httpx.Response, status: int | None, tables: dict[str, Any], files: list[str], change: str
) -> None:
    """Check that a refused request has left the tables as the change did, and no file beside `files`."""
    assert answer.status_code == status, answer.text
    assert error_of(answer)["message"]
    assert list_changes(tables, server.stock()["tables"]) == {}
    if change == "media deleted":  # its file is deleted after the answer
        wait_until(lambda: len(stored_files(server)) < len(files))
    assert set(stored_files(server)) <= set(files)
