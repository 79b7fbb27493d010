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
from socialpub.store.statements.events import DATA, TYPES, USUAL

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


def read(post: dict[str, Any], kept: events.Kept, of: int | None, type_: str, at: int = 0) -> str:
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f"CREATE TABLE post (number, {', '.join(post)})")
        connection.execute("CREATE TABLE account (number, id, profile)")  # of which the row has the number
        connection.execute("INSERT INTO account VALUES (1, ?, ?)", (post["account"], post["profile"]))
        post = post | {"account": 1, "profile": 1}
        connection.execute(f"INSERT INTO post VALUES (7, {', '.join('?' * len(post))})", tuple(post.values()))
        connection.execute("CREATE TABLE event (post, type, scheduled_at, data, created_at)")
        connection.execute("INSERT INTO event VALUES (?, ?, ?, ?, ?)", (of, TYPES[type_], *kept, at))
        found = connection.execute(f"SELECT {DATA} FROM event LEFT JOIN post ON post.number = event.post")
        return str(found.fetchone()[0])


@pytest.mark.parametrize("type_", moves._DATA)
@given(post=posts)
def test_the_data_of_a_posts_event_is_read_as_it_was_told(type_: str, post: dict[str, Any]) -> None:
    data = moves._DATA[type_](cast(PostRow, post), {"previousScheduledAt": "2026-01-01T00:00:00.000Z"})
    for at in (0, post["updated_at"], post["published_at"]):
        kept = events.kept_of(type_, data, at, post["error"])
        assert read(post, kept, 7, type_, at) == dumps(data)
        if kept.data is not None:
            assert len(dumps(data)) - len(kept.data) > 200


@pytest.mark.parametrize("type_", USUAL)
@settings(max_examples=20, deadline=None)
@given(post=posts)
def test_of_what_a_type_tells_as_a_rule_nothing_is_kept(type_: str, post: dict[str, Any]) -> None:
    usual = {"first_comment_uri": None, "first_comment_cid": None, "warnings": "[]", "status": "failed"}
    row = cast(PostRow, post | usual | {"next_attempt_at": None})
    kept = events.kept_of(type_, moves._DATA[type_](row, {}), post["updated_at"], post["error"])
    assert kept == events.usual_of(post["scheduled_at"]) == (post["scheduled_at"], None)


@given(post=posts)
def test_an_error_that_its_row_has_in_other_words_is_kept(post: dict[str, Any]) -> None:
    """Rows from before have spaces in it."""
    spaced = json.dumps(json.loads(post["error"]))
    data = moves._DATA["post.rejected"](cast(PostRow, post), {})
    kept = events.kept_of("post.rejected", data, 0, spaced)
    assert kept.data is not None
    assert read(post | {"error": spaced}, kept, 7, "post.rejected") == dumps(data)


@given(post=posts)
def test_what_was_kept_whole_before_is_read_whole(post: dict[str, Any]) -> None:
    data = dumps(moves._DATA["post.published"](cast(PostRow, post), {}))
    assert read(post, events.Kept(None, data), 7, "post.published") == data


def test_what_is_of_no_post_is_kept_whole() -> None:
    row = {"id": "a", "batch": "", "platform": "", "account": "", "profile": "", "platform_uri": None,
           "platform_cid": None, "url": None, "error": None, "published_at": None}  # fmt: skip
    assert read(row, events.Kept(None, '{"uri":1}'), None, "token.revoked") == '{"uri":1}'


def test_every_type_has_a_number_of_its_own() -> None:
    assert set(TYPES) == set(events.EVENTS)
    assert list(TYPES.values()) == list(range(1, len(TYPES) + 1))


@given(post=posts, is_bare=st.booleans())
def test_of_a_post_that_has_just_gone_out_the_same_is_kept_without_making_its_text(
    post: dict[str, Any], is_bare: bool
) -> None:
    bare = {"first_comment_uri": None, "first_comment_cid": None, "warnings": "[]"} if is_bare else {}
    row = cast(PostRow, post | bare | {"number": 7, "published_at": post["updated_at"]})
    told = moves._told_of(row)
    columns = {name: value for name, value in row.items() if name != "number"}
    assert read(columns, told.kept, 7, told.type, row["updated_at"]) == dumps(told.data())
    assert told.kept.data is None or not is_bare
