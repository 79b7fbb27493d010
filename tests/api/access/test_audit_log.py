"""Audit log: one row per act, written in its transaction, kept for a year by default."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from socialpub.domain.access import audit_log
from socialpub.domain.background import periodic_tasks
from socialpub.simulator.server import SimulatorThread
from socialpub.store.schema.models import ApiKey, Batch, User
from tests.support.app_server import AppServer, Person
from tests.support.audit_rows import audit_rows, newest_audit_row
from tests.support.connect_flow import open_connect_session, sign_in
from tests.support.post_outcomes import unknown
from tests.support.request_cast import RequestCast
from tests.support.sign_in import EMAIL, PASSWORD, add_user, signed_in


def test_an_act_of_a_key_leaves_who_what_on_what_when_and_from_where(server: AppServer, alice: Person) -> None:
    body = {"text": "words of hers", "targets": [{"accountId": alice.bluesky}]}
    answer = alice.api.post("/v1/posts", json=body, headers={"X-Request-Id": "the-act"})
    assert answer.status_code == 200
    row = newest_audit_row(server)
    assert (row["verb"], row["key"], row["user"]) == ("POST /v1/posts", alice.key_id, None)
    assert (row["organization"], row["address"], row["request_id"]) == (alice.organization, "127.0.0.1", "the-act")
    assert row["subject"] == server.rows(Batch)[0]["id"]
    assert "words" not in json.dumps(audit_rows(server))


def test_reading_and_what_is_refused_leave_none(server: AppServer, alice: Person) -> None:
    before = audit_rows(server)
    alice.api.get("/v1/posts")
    assert alice.api.publish({}).status_code == 400
    assert alice.api.delete(f"/v1/accounts/{alice.bluesky}").status_code == 403
    assert audit_rows(server) == before


def test_people_sign_in_mint_and_disconnect(server: AppServer, alice: Person) -> None:
    add_user(server, alice, EMAIL, "owner")
    signed_in(server)
    signed = newest_audit_row(server)
    assert (signed["verb"], signed["user"]) == ("POST /login", signed["subject"])
    assert PASSWORD not in json.dumps(audit_rows(server))
    browser = sign_in(server, alice.organization)
    made = browser.post("/v1/api-keys", json={"name": "another"}).json()
    assert (newest_audit_row(server)["verb"], newest_audit_row(server)["subject"]) == ("POST /v1/api-keys", made["id"])
    assert made["key"] not in json.dumps(audit_rows(server))
    browser.delete(f"/v1/api-keys/{made['id']}")
    assert newest_audit_row(server)["subject"] == made["id"]
    browser.delete(f"/v1/accounts/{alice.bluesky}")
    row = newest_audit_row(server)
    assert (row["verb"], row["subject"]) == ("DELETE /v1/accounts/<account_id:str>", alice.bluesky)
    assert (row["user"], row["key"]) == (server.rows(User)[-1]["id"], None)


def test_connecting_and_sending_once_more_leave_one_each(
    make_server: Callable[..., AppServer], lab: SimulatorThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    office = open_connect_session(make_server, lab, monkeypatch, "threads")
    made = office.login_exists()
    connected = office.connect()
    assert connected.status_code == 201
    row = newest_audit_row(office.server)
    assert (row["verb"], row["subject"]) == (
        "POST /v1/accounts/connect/<platform:str>/complete",
        connected.json()["id"],
    )
    assert (row["user"], row["key"]) == (office.server.rows(User)[-1]["id"], None)
    assert made["accessToken"] not in json.dumps(audit_rows(office.server))
    office.server.connect_bluesky(office.alice)
    post = unknown(RequestCast(office.server, office.alice))
    for path, body in (("settle", {"published": False}), ("retry", {})):
        assert office.alice.api.post(f"/v1/posts/{post}/{path}", json=body).status_code < 300
        row = newest_audit_row(office.server)
        assert (row["verb"], row["subject"]) == (f"POST /v1/posts/<post_id:str>/{path}", post)
        assert (row["user"], row["key"]) == (None, office.alice.key_id)


def test_the_row_and_the_act_are_one_transaction(
    server: AppServer, alice: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = sign_in(server, alice.organization)
    before = (audit_rows(server), len(server.rows(ApiKey)))

    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("no row")

    with monkeypatch.context() as patched, browser.expecting_failure():
        patched.setattr(audit_log, "record", broken)
        assert browser.post("/v1/api-keys", json={"name": "another"}).status_code == 500
    assert (audit_rows(server), len(server.rows(ApiKey))) == before


def test_rows_are_kept_for_a_year_and_go_in_slices(
    server: AppServer, alice: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_log, "PURGE_BATCH", 2)
    for number in range(5):
        alice.api.publish({"text": f"{number}", "targets": [{"accountId": alice.bluesky}]})
    server.skip(364 * 86_400)
    periodic_tasks.sweep(server.service, server.engine.fetched)
    assert len(audit_rows(server)) == 5
    server.skip(2 * 86_400)
    periodic_tasks.sweep(server.service, server.engine.fetched)
    assert audit_rows(server) == []


def test_rows_are_kept_as_long_as_the_settings_say(make_server: Callable[..., AppServer]) -> None:
    server = make_server(retention={"audit": "30d"})
    alice = server.connected_person("Alice")
    alice.api.publish({"text": "one", "targets": [{"accountId": alice.bluesky}]})
    for days, left in ((29, 1), (2, 0)):
        server.skip(days * 86_400)
        periodic_tasks.sweep(server.service, server.engine.fetched)
        assert len(audit_rows(server)) == left
