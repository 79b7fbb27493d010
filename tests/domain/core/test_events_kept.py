"""What is kept of an event is less than its data, and what is read is its data again, byte for byte."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from socialpub.base.compact import dumps
from socialpub.domain.core import events, moves
from socialpub.store.rows import PostRow
from socialpub.store.statements.events import DATA

_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
_odd = st.sampled_from(['":0', '"":0', "\\", "\x01\x1f\x7f", "'", "\u2028", 'https://a.example/ü?q="1"', "%"])
_link = st.none() | _text | _odd
_at = st.integers(0, 4_000_000_000_000)
_notes = st.lists(st.fixed_dictionaries({"code": _text | _odd, "message": _text | _odd}), max_size=2).map(json.dumps)
_ids = st.uuids().map(str)

posts = st.fixed_dictionaries(
    {
        "id": _ids,
        "batch": _ids,
        "account": _ids,
        "profile": _ids,
        "platform": st.sampled_from(["bluesky", "twitter"]),
        "status": st.sampled_from(["published", "validated"]),
        "scheduled_at": st.none() | _at,
        "published_at": _at,
        "next_attempt_at": st.none() | _at,
        "updated_at": _at,
        "platform_uri": _link,
        "platform_cid": _link,
        "url": _link,
        "first_comment_uri": _link,
        "first_comment_cid": _link,
        "warnings": _notes,
        "error": st.fixed_dictionaries({"code": _text, "message": _text | _odd, "": st.just(0)}).map(json.dumps),
    }
)


def read(post: dict[str, Any], kept: str, of: str | None, at: int = 0) -> str:
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f"CREATE TABLE post ({', '.join(post)})")
        connection.execute("CREATE TABLE account (number, id, profile)")  # of which the row has the number
        connection.execute("INSERT INTO account VALUES (1, ?, ?)", (post["account"], post["profile"]))
        post = post | {"account": 1, "profile": 1}
        connection.execute(f"INSERT INTO post VALUES ({', '.join('?' * len(post))})", tuple(post.values()))
        connection.execute("CREATE TABLE event (post, data, created_at)")
        connection.execute("INSERT INTO event VALUES (?, ?, ?)", (of, kept, at))
        return str(connection.execute(f"SELECT {DATA} FROM event LEFT JOIN post ON post.id = event.post").fetchone()[0])


@pytest.mark.parametrize("type_", moves._DATA)
@settings(max_examples=100, deadline=None)
@given(post=posts)
def test_the_data_of_a_posts_event_is_read_as_it_was_told(type_: str, post: dict[str, Any]) -> None:
    data = moves._DATA[type_](cast(PostRow, post), {"previousScheduledAt": "2026-01-01T00:00:00.000Z"})
    for at in (0, post["updated_at"], post["published_at"]):
        kept = events.kept_of(data, at)
        assert read(post, kept, post["id"], at) == dumps(data)
    assert len(dumps(data)) - len(kept) > 200


@given(post=posts)
def test_what_was_kept_whole_before_is_read_whole(post: dict[str, Any]) -> None:
    data = dumps(moves._DATA["post.published"](cast(PostRow, post), {}))
    assert read(post, data, post["id"]) == data


def test_what_is_of_no_post_is_kept_whole() -> None:
    assert read({"id": "a", "batch": "", "platform": "", "account": "", "profile": "", "platform_uri": None,
                 "platform_cid": None, "url": None}, '{"uri":1}', None) == '{"uri":1}'  # fmt: skip
