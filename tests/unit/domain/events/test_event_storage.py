"""Compact storage of event data, and its byte-for-byte reconstruction from post rows."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from socialpub.base.json_codec import dumps
from socialpub.domain import post_states
from socialpub.domain.events import events
from socialpub.domain.schemas.events import EVENTS
from socialpub.store.queries.events import DEFAULT_DATA, FULL_DATA, TYPE_NUMBERS
from socialpub.store.rows import PostRow

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
        "error": st.fixed_dictionaries({"code": _text, "message": _text | _odd, "": st.just(0)}).map(dumps),
    }
)


def read(post: dict[str, Any], kept: events.EncodedEventData, of: int | None, type_: str, at: int = 0) -> str:
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f"CREATE TABLE post (number, {', '.join(post)})")
        for table in ("account", "profile"):  # of which the row has the number
            connection.execute(f"CREATE TABLE {table} (number, id)")
            connection.execute(f"INSERT INTO {table} VALUES (1, ?)", (post[table],))
        post = post | {"account": 1, "profile": 1}
        connection.execute(f"INSERT INTO post VALUES (7, {', '.join('?' * len(post))})", tuple(post.values()))
        connection.execute("CREATE TABLE event (post, type, scheduled_at, data, created_at)")
        connection.execute("INSERT INTO event VALUES (?, ?, ?, ?, ?)", (of, TYPE_NUMBERS[type_], *kept, at))
        found = connection.execute(f"SELECT {FULL_DATA} FROM event LEFT JOIN post ON post.number = event.post")
        return str(found.fetchone()[0])


@pytest.mark.matrix
@pytest.mark.parametrize("type_", post_states._DATA_BUILDERS)
@given(post=posts)
def test_the_data_of_a_posts_event_is_read_as_it_was_told(type_: str, post: dict[str, Any]) -> None:
    extra: post_states.TransitionData = {
        "previousScheduledAt": "2026-01-01T00:00:00.000Z",
        "changed": ["text", "media"],
    }
    data = post_states._DATA_BUILDERS[type_](cast(PostRow, post), extra)
    kept = events.encode_data(type_, data, post["scheduled_at"])
    assert kept.data in (None, dumps(data))
    assert read(post, kept, 7, type_, post["updated_at"]) == dumps(data)


@pytest.mark.parametrize("type_", DEFAULT_DATA)
@settings(max_examples=20, deadline=None)
@given(post=posts)
def test_what_the_row_of_a_post_tells_is_not_stored(type_: str, post: dict[str, Any]) -> None:
    usual = {"first_comment_uri": None, "first_comment_cid": None, "warnings": "[]", "status": "failed"}
    row = cast(PostRow, post | usual | {"next_attempt_at": None})
    kept = events.encode_data(type_, post_states._DATA_BUILDERS[type_](row, {}), post["scheduled_at"])
    assert kept == (post["scheduled_at"], None)


def test_what_is_of_no_post_is_stored() -> None:
    row = {"id": "a", "batch": "", "platform": "", "account": "", "profile": "", "platform_uri": None,
           "platform_cid": None, "url": None, "error": None, "published_at": None}  # fmt: skip
    assert read(row, events.EncodedEventData(None, '{"uri":1}'), None, "token.revoked") == '{"uri":1}'


def test_every_type_has_a_number_of_its_own() -> None:
    assert set(TYPE_NUMBERS) == set(EVENTS)
    assert list(TYPE_NUMBERS.values()) == list(range(1, len(TYPE_NUMBERS) + 1))
