"""A damaged row is refused as a storage error and never returned as it is."""

from __future__ import annotations

import contextlib
import sqlite3

import pytest

from tests.support.app_server import error_of
from tests.support.request_cast import RequestCast

PATHS = ("/v1/posts", "/v1/posts?q=whole", "/v1/posts?order=scheduledAt", "/v1/posts/{post}")


@pytest.mark.matrix
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "column, damaged",
    [("text", b"whole \xf8"), ("url", b"\xc3"), ("media", b'[{"id":"x\xf8"}]'), ("media", b"[}"), ("error", b'{"a"')],
)
def test_a_damaged_row_is_refused_as_storage_and_never_told_as_it_is(
    path: str, column: str, damaged: bytes, world: RequestCast
) -> None:
    post = world.scheduled(text="whole")
    path = path.format(post=post)
    get = lambda: world.alice.api.get(path)  # noqa: E731
    before = get()
    assert before.status_code == 200
    with contextlib.closing(sqlite3.connect(world.server.home / "socialpub.db", isolation_level=None)) as other:
        ((was,),) = other.execute(f"SELECT {column} FROM post")
        other.execute(f"UPDATE post SET {column} = CAST(? AS TEXT)", (damaged,))
        with world.alice.api.expecting_failure():
            answer = get()
        assert (answer.status_code, error_of(answer)["rule"]) == (503, "storage.unavailable"), answer.content
        other.execute(f"UPDATE post SET {column} = ?", (was,))
    assert get().json() == before.json()
