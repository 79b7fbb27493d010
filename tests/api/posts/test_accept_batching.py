"""Requests accepted at the same time share one commit."""

from __future__ import annotations

import contextlib
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest import mock

import pytest

from socialpub.base import fault_injection
from socialpub.store.engine.locks import get_write_lock_path, hold, open_lock
from socialpub.store.schema.models import ApiKey
from tests.support.app_server import ApiClient, AppServer, Person, error_of, sleep_briefly
from tests.support.database_costs import DatabaseCounter
from tests.support.request_cast import RequestCast

TOGETHER = 30  # as many as are written at once


def await_noted_use(server: AppServer, who: Person) -> None:
    """It is noted that the key was used, and not again for a while."""
    while server.rows(ApiKey, id=who.key_id)[0]["last_used_at"] is None:
        sleep_briefly()


@pytest.mark.matrix
@pytest.mark.parametrize("organizations", [1, 2])
def test_many_batches_are_one_commit(
    organizations: int, counting: DatabaseCounter, server: AppServer, world: RequestCast
) -> None:
    """While the disk is busy with one transaction; of one organization as of several."""
    people = [world.alice, world.charlie][:organizations]

    def publish(number: int) -> int:
        who = people[number % organizations]
        body = {"targets": [{"accountId": who.bluesky}], "text": f"number {number}", "scheduledAt": world.soon()}
        with ApiClient(server.url, who.key) as api:
            return api.publish(body).status_code

    for who in people:
        assert who.api.get("/v1/posts").status_code == 200
        await_noted_use(server, who)
    database = server.service.db.path
    with counting.while_() as done, ThreadPoolExecutor(TOGETHER) as clients:
        with open_lock(get_write_lock_path(database)) as lock, hold(lock):
            answers = [clients.submit(publish, number) for number in range(TOGETHER)]
            while done.asked.writes < TOGETHER:
                sleep_briefly()
        assert [answer.result() for answer in answers] == [202] * TOGETHER
    assert done.asked.commits <= TOGETHER // 5, done.asked
    assert len(server.rows()) == TOGETHER
    inserts = [text for text in done.asked.sql if text.lstrip().startswith("INSERT")]
    assert len(inserts) <= TOGETHER * 2, done.asked  # each alone takes seven of them


@pytest.mark.slow
def test_one_that_is_refused_holds_back_nobody_who_comes_with_it(server: AppServer, world: RequestCast) -> None:
    """A key that ends while they wait for the disk: of all that are written together, only its own are refused."""
    people = [world.alice, world.charlie]
    database = server.service.db.path

    def publish(number: int) -> int:
        who = people[number % 2]
        body = {"targets": [{"accountId": who.bluesky}], "text": f"number {number}", "scheduledAt": world.soon()}
        with ApiClient(server.url, who.key) as api:
            return api.publish(body).status_code

    asked = 0
    write_together = server.service.write_together

    def count(*given: Any) -> Any:
        nonlocal asked
        asked += 1
        return write_together(*given)

    for who in people:
        assert who.api.get("/v1/posts").status_code == 200
    with ThreadPoolExecutor(TOGETHER) as clients, mock.patch.object(server.service, "write_together", count):
        with open_lock(get_write_lock_path(database)) as lock, hold(lock):
            answers = [clients.submit(publish, number) for number in range(TOGETHER)]
            while asked < TOGETHER:
                sleep_briefly()
            with contextlib.closing(sqlite3.connect(database)) as connection, connection:
                connection.execute("UPDATE api_key SET revoked_at = 1 WHERE id = ?", (world.charlie.key_id,))
        assert [answer.result() for answer in answers] == [202, 401] * (TOGETHER // 2)
    assert {row["organization"] for row in server.rows()} == {world.alice.organization}
    assert len(server.rows()) == TOGETHER // 2


@pytest.mark.parametrize("shared", ["plan", "externalId"])
def test_what_makes_one_batch_makes_one_of_requests_written_together(
    counting: DatabaseCounter, server: AppServer, world: RequestCast, shared: str
) -> None:
    """Each request has another Idempotency-Key."""
    whole = {"targets": [{"accountId": world.alice.bluesky}], "text": "once", "scheduledAt": world.soon()}
    checked = world.alice.api.post("/v1/posts/validate", json={**whole, "plan": True})
    body = {"plan": checked.json()["plan"]["token"]} if shared == "plan" else {**whole, "externalId": "calendar/1"}
    await_noted_use(server, world.alice)

    def publish(number: int) -> str:
        with ApiClient(server.url, world.alice.key) as api:
            answer = api.publish(body, key=f"request {number}")
        assert answer.is_success, answer.text
        return str(answer.json()["id"])

    with counting.while_() as done, ThreadPoolExecutor(4) as clients:
        with open_lock(get_write_lock_path(server.service.db.path)) as lock, hold(lock):
            server.service.write(lambda tx: None)  # the first transaction; the others share the second
            answers = [clients.submit(publish, number) for number in range(4)]
            while done.asked.writes < 4:
                sleep_briefly()
        assert len({answer.result() for answer in answers}) == 1
    assert len(server.rows()) == 1


def test_a_taken_external_id_is_refused_only_once_its_post_is_durable(
    counting: DatabaseCounter, server: AppServer, world: RequestCast
) -> None:
    """Two requests share a transaction, and the commit fails: the second must not name a post that there is not."""
    whole = {"targets": [{"accountId": world.alice.bluesky}], "scheduledAt": world.soon(), "externalId": "calendar/1"}
    assert world.alice.api.get("/v1/posts").status_code == 200
    await_noted_use(server, world.alice)

    def publish(text: str) -> tuple[int, str]:
        with ApiClient(server.url, world.alice.key) as api, api.expecting_failure():
            answer = api.publish({**whole, "text": text})
        return answer.status_code, error_of(answer)["rule"]

    with counting.while_() as done, ThreadPoolExecutor(2) as clients:
        with open_lock(get_write_lock_path(server.service.db.path)) as lock, hold(lock):
            server.service.write(lambda tx: None)  # the first transaction; the others share the second
            answers = [clients.submit(publish, text) for text in ("one", "another")]
            while done.asked.writes < 2:
                sleep_briefly()
            fault_injection.plan("db.commit=enospc")
        assert [answer.result() for answer in answers] == [(503, "storage.unavailable")] * 2
    fault_injection.plan("")
    assert server.rows() == []
