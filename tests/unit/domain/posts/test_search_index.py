"""Trigram search index of posts: deferred indexing, deletion, clock set back."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from socialpub.base.config import Settings
from socialpub.base.runtime import Runtime, load_vault
from socialpub.domain.context.app_context import AppContext, close_context, open_context
from socialpub.domain.posts import post_log_query
from socialpub.domain.posts.post_log_query import PostFilter
from socialpub.store import casefold, database, search
from socialpub.store.schema.models import Post
from tests.support import post_rows as kit
from tests.support.new_database import create_database

WHERE: dict[str, Any] = {"organization": "0190-org-aaa", "profile": "0190-one-p01"}


def _open(path: Path) -> AppContext:
    settings = Settings(database={"url": str(path)})
    create_database(settings.database_path)
    return open_context(Runtime(settings, load_vault(settings)))


@pytest.fixture
def service(tmp_path: Path) -> Iterator[AppContext]:
    service = _open(tmp_path / "socialpub.db")
    yield service
    close_context(service)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices of two posts."""
    monkeypatch.setattr(search, "INDEX_BATCH", 2)


def _add(service: AppContext, *texts: str, times: tuple[int, ...] = ()) -> list[int]:
    """The numbers of new posts with these texts."""
    kit.insert_owner(service, WHERE["organization"], WHERE["profile"])
    account = kit.insert_account(service, WHERE["organization"], WHERE["profile"], "bluesky")
    rows = [WHERE | {"account": account, "text": text} for text in texts]
    for row, at in zip(rows, times, strict=False):
        row["created_at"] = at
    return [int(row["number"]) for row in kit.insert_posts(service, rows)]


def _found(service: AppContext, text: str, count: int = 50) -> list[int]:
    wanted = PostFilter(WHERE["organization"], text=text)
    return [hit.number for hit in service.read(lambda: post_log_query.find_newest(wanted, count)).result()]


def _disorder(service: AppContext) -> int:
    found = service.read(
        lambda: database.proxy.execute_sql("SELECT disorder FROM post_search_order").fetchall()
    ).result()
    ((disorder,),) = found
    return int(disorder)


def _sql(service: AppContext, statement: str) -> None:
    service.write(lambda tx: database.proxy.execute_sql(statement)).result()


def test_a_post_is_found_from_the_transaction_on_that_wrote_it(service: AppContext) -> None:
    (post,) = _add(service, "Привет, мир")
    assert _found(service, "привет") == [post]


def test_a_slice_that_was_rolled_back_is_filed_again(service: AppContext, small: None) -> None:
    posts = _add(service, "first", "second", "third", "fourth")

    def fail(tx: database.Tx) -> None:
        assert search.index_batch()
        raise LookupError

    with pytest.raises(LookupError):
        service.write(fail).result()
    assert service.read(search.get_progress).result() == (0, 4)
    kit.index_posts(service, 4)
    assert service.read(search.get_progress).result() == (4, 4)
    assert [_found(service, text) for text in ("second", "ir", "x")] == [[posts[1]], [posts[2], posts[0]], []]


def test_the_index_finds_texts_and_the_rows_those_shorter_than_a_trigram(service: AppContext, small: None) -> None:
    posts = _add(service, *["Привет, мир"] * 4)
    kit.index_posts(service, 4)
    assert (len(_found(service, "привет")), len(_found(service, "ми"))) == (4, 4)
    _sql(service, "INSERT INTO post_search (post_search) VALUES ('delete-all')")
    assert (_found(service, "привет"), _found(service, "ми")) == ([], posts[::-1])


RUNS = (
    "-",
    "---",
    "----",
    "-----",
    "---------",
    "a----b",
    "a-----b",
    "a------b",
    "=====-----",
    "-----=====",
    "\n\n\n\n\n\n",
)


@pytest.mark.parametrize("candidates", [-1, 2_000], ids=["by the phrase", "by some trigrams"])
def test_long_runs_of_one_character_are_found_where_they_are(
    service: AppContext, monkeypatch: pytest.MonkeyPatch, candidates: int
) -> None:
    """A phrase has four characters of each end of a run; the posts themselves decide."""
    monkeypatch.setattr(search, "CANDIDATES_MAX", candidates)
    monkeypatch.setattr(search, "INDEX_BATCH", len(RUNS))
    posts = dict(zip(_add(service, *RUNS), RUNS, strict=True))
    kit.index_posts(service, len(RUNS))
    for wanted in RUNS:
        assert _found(service, wanted) == [post for post, text in sorted(posts.items(), reverse=True) if wanted in text]


def test_a_phrase_has_few_trigrams_of_a_run_of_one_character() -> None:
    phrases = {text: search._build_whole_match(text) for text in ("hello", "aaaa", "aaaaaaa", "x----------y")}
    assert phrases == {
        "hello": '("hello")',
        "aaaa": '("aaaa")',
        "aaaaaaa": '("aaaa")',
        "x----------y": '("x----" AND "----y")',
    }


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Hello, World", ""),
        ("привет 日本 🚀 café", ""),
        ("cafe\u0301", "café"),
        ("한", "\u1112\u1161\u11ab"),
        ("Привет", "привет"),
        ("Straße", "strasse"),
        ("ΟΔΟΣ", "οδοσ"),
        ("İ", "i"),
        ("\uab70", "\u13a0"),  # Cherokee folds to its capitals
    ],
)
def test_a_folded_text_is_kept_only_where_sqlite_cannot_tell_it(service: AppContext, text: str, kept: str) -> None:
    (post,) = _add(service, text)
    assert service.read(lambda: [row["text_fold"] for row in Post.select().dicts()]).result() == [kept]
    assert _found(service, casefold.fold(text)) == [post]


def test_posts_are_filed_a_slice_at_a_time_and_what_is_less_is_read(service: AppContext, small: None) -> None:
    posts = _add(service, *["needle"] * 5)
    assert service.write(lambda tx: search.index_batch()).result()
    assert service.read(search.get_progress).result() == (2, 5)
    assert service.write(lambda tx: search.index_batch()).result()
    assert not service.write(lambda tx: search.index_batch()).result()
    assert service.read(search.get_progress).result() == (4, 5)
    assert (_found(service, "needle"), _found(service, "e")) == (posts[::-1], posts[::-1])


def test_how_far_the_clock_was_set_back_is_kept(service: AppContext) -> None:
    posts = _add(service, *["needle"] * 5, times=(1000, 2000, 1400, 1900, 3000))
    assert _disorder(service) == 600
    newest_first = [posts[index] for index in (4, 1, 3, 2, 0)]
    assert _found(service, "needle") == newest_first
    for count in range(1, 5):
        assert _found(service, "needle", count) == newest_first[:count]


def test_bounds_hold_though_the_clock_was_set_back(service: AppContext) -> None:
    times = (1000, 2000, 1400, 1900, 3000, 2500, 2600)
    posts = dict(zip(times, _add(service, *["needle"] * len(times), times=times), strict=True))
    for after, below in itertools.product(range(900, 3200, 100), repeat=2):
        wanted = PostFilter(WHERE["organization"], text="needle", after=after, below=(below, 0))
        found = service.read(lambda wanted=wanted: post_log_query.find_newest(wanted, 50)).result()  # type: ignore[misc]
        expected = [posts[at] for at in sorted(times, reverse=True) if after < at < below]
        assert [hit.number for hit in found] == expected, (after, below)


def test_posts_of_one_millisecond_come_in_the_order_of_their_numbers(service: AppContext) -> None:
    posts = _add(service, *["needle"] * 9, times=(7,) * 9)
    assert _found(service, "needle", 4) == sorted(posts, reverse=True)[:4]
    assert _disorder(service) == 0


def test_deleted_post_is_not_found_though_its_number_is_reused(service: AppContext) -> None:
    (old,) = _add(service, "xyzzy plugh")
    service.write(lambda tx: Post.delete().where(Post.number == old).execute()).result()
    assert _found(service, "xyzzy plugh") == []
    (new,) = _add(service, "something else")
    numbers = service.read(lambda: [row["number"] for row in Post.select().dicts()]).result()
    assert numbers == [1]
    assert _found(service, "xyzzy plugh") == []
    assert _found(service, "something") == [new]
