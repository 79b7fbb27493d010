"""The search index holds what the posts say: filed with each post, for posts that were there before it, and anew."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from socialpub.base.config import Settings
from socialpub.base.runtime import Runtime, load_vault
from socialpub.domain.core.service import Service, close_service, open_service
from socialpub.domain.posts import postlog_query
from socialpub.domain.posts.postlog_query import Filter
from socialpub.store import db, search
from socialpub.store.models import Post
from tests.domain.posts import postlog_kit as kit

WHERE: dict[str, Any] = {"organization": "0190-org-aaa", "profile": "0190-one-p01"}


def _open(path: Path) -> Service:
    settings = Settings(database={"url": str(path)})
    db.migrate(settings.database_path)
    return open_service(Runtime(settings, load_vault(settings)))


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    service = _open(tmp_path / "socialpub.db")
    yield service
    close_service(service)


def _add(service: Service, *texts: str, times: tuple[int, ...] = ()) -> list[str]:
    """The ids of new posts with these texts."""
    kit.owner(service, WHERE["organization"], WHERE["profile"])
    account = kit.account(service, WHERE["organization"], WHERE["profile"], "bluesky")
    rows = [WHERE | {"account": account, "text": text} for text in texts]
    for row, at in zip(rows, times, strict=False):
        row["created_at"] = at
    return [str(row["id"]) for row in kit.add(service, rows)]


def _found(service: Service, text: str, count: int = 50) -> list[str]:
    wanted = Filter(WHERE["organization"], text=text)
    return [hit.id for hit in service.read(lambda: postlog_query.newest(wanted, count)).result()]


def _disorder(service: Service) -> int:
    found = service.read(lambda: db.proxy.execute_sql("SELECT disorder FROM post_search_order").fetchall()).result()
    ((disorder,),) = found
    return int(disorder)


def _sql(service: Service, statement: str) -> None:
    service.write(lambda tx: db.proxy.execute_sql(statement)).result()


def test_a_post_is_found_from_the_transaction_on_that_wrote_it(service: Service) -> None:
    (post,) = _add(service, "Привет, мир")
    assert _found(service, "привет") == [post]


def test_a_post_that_was_rolled_back_is_not_found(service: Service) -> None:
    _add(service, "first")
    ((row,),) = [service.read(lambda: list(Post.select().dicts())).result()]

    def fail(tx: db.Tx) -> None:
        again = {name: value for name, value in row.items() if name != "number"}
        again |= {"id": "other", "position": 77, "text_fold": "second"}
        search.add(Post.insert(**again).execute(), again)
        assert db.proxy.execute_sql("SELECT rowid FROM post_search WHERE post_search MATCH 'second'").fetchall()
        raise LookupError

    with pytest.raises(LookupError):
        service.write(fail).result()
    (third,) = _add(service, "third")
    assert _found(service, "second") == []
    assert _found(service, "third") == [third]


def test_the_index_is_what_finds(service: Service) -> None:
    _add(service, "Привет, мир")
    _sql(service, "INSERT INTO post_search (post_search) VALUES ('delete-all')")
    assert _found(service, "привет") == []


def test_the_index_can_be_made_anew(service: Service) -> None:
    posts = _add(service, "needle one", "hay", "needle two", times=(1000, 2000, 500))
    _sql(service, "INSERT INTO post_search (post_search) VALUES ('delete-all')")
    _sql(service, "UPDATE post_search_order SET disorder = 0")
    service.write(lambda tx: search.rebuild()).result()
    assert _found(service, "needle") == [posts[0], posts[2]]
    assert _disorder(service) == 1500


def test_how_far_the_clock_was_set_back_is_kept(service: Service) -> None:
    posts = _add(service, *["needle"] * 5, times=(1000, 2000, 1400, 1900, 3000))
    assert _disorder(service) == 600
    newest_first = [posts[index] for index in (4, 1, 3, 2, 0)]
    assert _found(service, "needle") == newest_first
    for count in range(1, 5):
        assert _found(service, "needle", count) == newest_first[:count]


def test_bounds_hold_though_the_clock_was_set_back(service: Service) -> None:
    times = (1000, 2000, 1400, 1900, 3000, 2500, 2600)
    posts = dict(zip(times, _add(service, *["needle"] * len(times), times=times), strict=True))
    for after, below in itertools.product(range(900, 3200, 100), repeat=2):
        wanted = Filter(WHERE["organization"], text="needle", after=after, below=(below, ""))
        found = service.read(lambda wanted=wanted: postlog_query.newest(wanted, 50)).result()  # type: ignore[misc]
        expected = [posts[at] for at in sorted(times, reverse=True) if after < at < below]
        assert [hit.id for hit in found] == expected, (after, below)


def test_posts_of_one_millisecond_come_in_the_order_of_their_ids(service: Service) -> None:
    posts = _add(service, *["needle"] * 9, times=(7,) * 9)
    assert _found(service, "needle", 4) == sorted(posts, reverse=True)[:4]
    assert _disorder(service) == 0


def test_posts_that_were_there_before_the_index_are_found(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    service = _open(path)
    try:
        posts = _add(service, "Привет", "Привет!", "привет", times=(20, 10, 30))
        _sql(service, "DROP TABLE post_search")
        _sql(service, "DROP TABLE post_search_order")
        _sql(service, "DELETE FROM schema_migration WHERE name = '0002_post_search'")
    finally:
        close_service(service)
    service = _open(path)
    try:
        assert _found(service, "привет") == [posts[2], posts[0], posts[1]]
        assert _disorder(service) == 10
    finally:
        close_service(service)


def test_a_post_that_is_gone_is_not_found_though_its_number_is_given_again(service: Service) -> None:
    (old,) = _add(service, "xyzzy plugh")
    service.write(lambda tx: Post.delete().where(Post.id == old).execute()).result()
    assert _found(service, "xyzzy plugh") == []
    (new,) = _add(service, "something else")
    numbers = service.read(lambda: [row["number"] for row in Post.select().dicts()]).result()
    assert numbers == [1]
    assert _found(service, "xyzzy plugh") == []
    assert _found(service, "something") == [new]
