"""Bounded transactions of background work: disconnects, kept answers, search indexing."""

from __future__ import annotations

import functools
import threading
from collections import Counter
from typing import Any

import pytest

from socialpub.domain import post_states
from socialpub.domain.access import idempotency
from socialpub.domain.accounts import accounts
from socialpub.domain.background import periodic_tasks
from socialpub.domain.background.periodic_tasks import PeriodicTasks
from socialpub.store import search
from socialpub.store.schema.models import Account, IdempotencyRecord, Job, Post
from tests.support.app_server import AppServer, Person, format_instant
from tests.support.connect_flow import sign_in
from tests.support.soak.soak_world import wait_for

BATCHES = 6


def schedule(server: AppServer, person: Person, batches: int = BATCHES) -> list[str]:
    """25 posts each, in an hour."""
    at = format_instant(server.clock.now_ms() + 3_600_000)
    posts: list[str] = []
    for number in range(batches):
        body = {"text": f"later {number}", "targets": [{"accountId": person.bluesky}] * 25, "scheduledAt": at}
        posts += [result["postId"] for result in person.api.publish(body).json()["results"]]
    return posts


@pytest.fixture
def moved(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """How many posts each transaction has moved."""
    counted: Counter[int] = Counter()
    kept: list[Any] = []  # so that no id is used twice
    move = post_states.apply

    def counting(service: Any, tx: Any, *rest: Any, **more: Any) -> Any:
        kept.append(tx)
        counted[id(tx)] += 1
        return move(service, tx, *rest, **more)

    monkeypatch.setattr(post_states, "apply", counting)
    return counted


def statuses(server: AppServer) -> Counter[str]:
    return Counter(row["status"] for row in server.rows())


def disconnect(server: AppServer, person: Person) -> None:
    browser = sign_in(server, person.organization)
    answer = browser.delete(f"/v1/accounts/{person.bluesky}")
    assert (answer.status_code, answer.json()) == (200, {"id": person.bluesky, "deleted": True})


@pytest.mark.slow
def test_disconnecting_cancels_in_slices_that_let_others_write(
    server: AppServer, alice: Person, moved: Counter[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accounts, "CANCEL_BATCH", 20)
    posts = schedule(server, alice)
    moved.clear()
    disconnect(server, alice)
    assert wait_for(lambda: statuses(server) == {"canceled": len(posts)}, 60)
    assert max(moved.values()) <= 20
    assert sum(moved.values()) == len(posts)
    assert wait_for(lambda: server.rows(Job) == [], 60)
    told = [type_ for post in posts for type_, _ in server.events(post)]
    assert told.count("post.canceled") == len(posts)


@pytest.fixture
def halfway(server: AppServer, alice: Person, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The server ended when one slice was canceled."""
    monkeypatch.setattr(accounts, "CANCEL_BATCH", 20)
    posts = schedule(server, alice, 3)
    with monkeypatch.context() as patched:
        patched.setattr(server.service.jobs, "paused", lambda: ("cancel", "publish"))
        assert "canceling" not in alice.api.get("/readyz").json()
        disconnect(server, alice)
        assert statuses(server) == {"canceled": 20, "queued": 55}
        assert alice.api.get("/readyz").json()["canceling"] == 55
        server.stop()
    return posts


def test_it_goes_on_after_the_next_start(server: AppServer, halfway: list[str]) -> None:
    server.start()
    assert wait_for(lambda: statuses(server) == {"canceled": len(halfway)}, 60)
    assert server.lab.lab.ledger.posts() == []
    assert wait_for(lambda: server.rows(Job) == [], 60)
    assert "canceling" not in server.api().get("/readyz").json()


def test_what_comes_due_meanwhile_is_never_sent(server: AppServer, alice: Person, halfway: list[str]) -> None:
    server.away(3601)
    assert wait_for(lambda: set(statuses(server)) <= {"canceled", "rejected"}, 60)
    assert server.lab.lab.ledger.posts() == []


def test_posts_of_the_account_connected_again_are_left_alone(
    server: AppServer, alice: Person, halfway: list[str]
) -> None:
    back = Account.update(disconnected_at=None, secret="x")
    server.clock.skip(1)
    server.start()
    server.service.write(lambda tx: back.execute()).result()
    alice.api = server.api(alice.key)
    (fresh,) = set(schedule(server, alice, 1)[:1])
    assert wait_for(lambda: statuses(server)["canceled"] == len(halfway), 60)
    assert server.rows(Post, id=fresh)[0]["status"] == "queued"


def test_kept_answers_are_forgotten_in_slices(
    server: AppServer, alice: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idempotency, "PURGE_BATCH", 2)
    for number in range(5):
        alice.api.publish({"text": f"{number}", "targets": [{"accountId": alice.bluesky}]}, key=f"k{number}")
    server.clock.skip(90_000)
    service = server.service
    assert service.write(functools.partial(idempotency.purge, now=service.now_ms)).result() == 2
    periodic_tasks.sweep(service, server.engine.fetched)
    assert server.rows(IdempotencyRecord) == []


def searched(person: Person) -> list[set[str]]:
    """What is found by a long text and by a short one, which `schedule` has written."""
    answers = [person.api.get("/v1/posts", params={"q": text, "limit": 200}).json() for text in ("later", "r")]
    return [{post["id"] for post in answer["data"]} for answer in answers]


def test_what_was_accepted_is_filed_for_the_search_in_slices(
    server: AppServer, alice: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(periodic_tasks, "INDEX_BATCHES", 2)
    monkeypatch.setattr(search, "INDEX_BATCH", 20)
    monkeypatch.setattr(server.service.jobs, "read_periodic", lambda now: [])
    posts = schedule(server, alice)
    keep = server.engine.periodic
    for filed in (40, 80, 120, 140, 140):
        keep.index_posts()
        assert server.service.read(search.get_progress).result() == (filed, len(posts))
        assert all(found == set(posts) for found in searched(alice))


def test_while_many_posts_come_filing_waits_as_long_as_little_is_left(
    server: AppServer, alice: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(periodic_tasks, "BUSY_POSTS", 25)
    monkeypatch.setattr(search, "INDEX_BATCH", 20)
    monkeypatch.setattr(periodic_tasks, "INDEX_BACKLOG_MAX", 60)
    monkeypatch.setattr(server.service.jobs, "read_periodic", lambda now: [])  # its runs would come in between
    keep = PeriodicTasks(
        server.service, server.engine.fetched, server.engine.gate, server.engine._heartbeat, threading.Event()
    )
    posts = schedule(server, alice, 1)

    def filed() -> int:
        keep.index_posts()
        assert all(found == set(posts) for found in searched(alice))
        return int(server.service.read(search.get_progress).result().texts)

    assert filed() == 20
    posts += schedule(server, alice, 1)
    assert filed() == 20  # they have come since
    assert filed() == 40
    posts += schedule(server, alice, 3)
    assert filed() == 120  # they have come since, and are too many to be left


@pytest.mark.slow
def test_a_server_files_in_each_round(server: AppServer, alice: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "INDEX_BATCH", 20)
    schedule(server, alice, 1)
    assert wait_for(lambda: server.service.read(search.get_progress).result() == (20, 25), 60)
