"""Bluesky OAuth connection through HTTP: by handle, client documents, renewal, restore."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from typing import Any

import pytest

from socialpub.base.errors import ApiError, Outcome
from socialpub.domain.accounts import client_metadata, token_refresh, tokens
from socialpub.domain.server import instance
from socialpub.store.database import Tx
from socialpub.store.schema.models import Account, ConnectAttempt, Instance
from tests.support.app_server import AppServer, error_of, sleep_briefly
from tests.support.bluesky_connect_flow import (
    BASE,
    START,
    TOKEN,
    BlueskyConnectSession,
    open_bluesky_session,
    public_browser,
)
from tests.support.platforms.bluesky_calls import BOB, DID
from tests.support.platforms.bluesky_oauth_network import HANDLE, ISSUER
from tests.support.platforms.scripted_upstream import make_response

LOST = ApiError("platform_unavailable", outcome=Outcome.AMBIGUOUS)


@pytest.fixture
def desk(make_server: Callable[..., AppServer], monkeypatch: pytest.MonkeyPatch) -> BlueskyConnectSession:
    return open_bluesky_session(make_server, monkeypatch, BASE)


# --- There and back ------------------------------------------------------------------------------------------------


def test_account_connects_by_handle_and_is_shown_without_a_secret(desk: BlueskyConnectSession) -> None:
    account = desk.connect()
    assert (account["platformAccountId"], account["displayName"], account["status"]) == (DID, "Alice A.", "active")
    assert desk.alice.api.get(f"/v1/accounts/{account['id']}").json() == account
    row, held = desk.held()
    assert json.loads(row["extra"])["handle"] == HANDLE
    assert held.refresh in desk.net.sessions


def test_the_browser_comes_back_to_the_page(desk: BlueskyConnectSession) -> None:
    back = desk.browser.get("/connect/bluesky/callback", params=desk.back())
    assert (back.status_code, back.headers["Location"].partition("?")[0]) == (303, "/connect/bluesky/done")
    page = desk.browser.get(back.headers["Location"])
    assert page.status_code == 200
    assert "Alice A." in page.text
    assert [row["platform_account_id"] for row in desk.server.rows(Account)] == [DID]


def test_reconnecting_keeps_the_id_and_ends_the_session_that_was(desk: BlueskyConnectSession) -> None:
    first, (_, old) = desk.connect(), desk.held()
    again = desk.complete(**desk.back())
    assert (again.status_code, again.json()["id"]) == (200, first["id"])
    deadline = time.monotonic() + 10
    while old.refresh in desk.net.sessions:
        assert time.monotonic() < deadline
        sleep_briefly()
    assert desk.held()[1].refresh in desk.net.sessions


def test_a_post_goes_out_with_the_bound_token(desk: BlueskyConnectSession) -> None:
    account = desk.connect()
    body = {"targets": [{"accountId": account["id"], "platform": "bluesky"}], "text": "Hello"}
    sent = desk.alice.api.publish(body)
    assert sent.status_code == 200, sent.text
    assert [record["record"]["text"] for record in desk.net.records] == ["Hello"]


def test_the_owner_may_refuse(desk: BlueskyConnectSession) -> None:
    back = desk.back()
    page = desk.browser.get("/connect/bluesky/callback", params={"state": back["state"], "error": "access_denied"})
    assert page.status_code == 424
    assert desk.complete(**back).status_code == 400


@pytest.mark.parametrize("iss", ["https://evil.example.net", None])
def test_a_code_of_another_issuer_spends_the_state_and_connects_nothing(
    desk: BlueskyConnectSession, iss: str | None
) -> None:
    back = desk.back()
    asked = {"state": back["state"], "code": back["code"]} | ({"iss": iss} if iss else {})
    refused = desk.complete(**asked)
    assert (refused.status_code, error_of(refused)["code"]) == (424, "platform_auth_failed")
    assert error_of(desk.complete(**back))["rule"] == "connect.state"
    assert desk.server.rows(Account) == []


def test_somebody_else_who_logs_in_is_not_connected(desk: BlueskyConnectSession) -> None:
    desk.net.sub = BOB
    refused = desk.complete(**desk.back())
    assert (refused.status_code, error_of(refused)["code"]) == (424, "platform_auth_failed")
    assert desk.server.rows(Account) == []


@pytest.mark.parametrize("state", ["x" * 43, "second session"])
def test_a_state_works_for_its_own_session_alone(desk: BlueskyConnectSession, state: str) -> None:
    back = desk.back()
    browser, used = desk.browser, state
    if state == "second session":
        browser, used = public_browser(desk.server, desk.alice.organization, "mallory"), back["state"]
    refused = browser.post(f"{START}/complete", json=back | {"state": used})
    assert error_of(refused)["rule"] == "connect.state"


def test_a_state_ends_after_ten_minutes(desk: BlueskyConnectSession) -> None:
    back = desk.back()
    desk.server.skip(601)
    assert error_of(desk.complete(**back))["rule"] == "connect.state"


def test_a_server_that_refuses_leaves_nothing_behind(desk: BlueskyConnectSession) -> None:
    desk.net.faults[f"{ISSUER}/oauth/par"] = make_response(400, {"error": "invalid_request"})
    refused = desk.start(handle=HANDLE)
    assert (refused.status_code, error_of(refused)["code"]) == (424, "platform_auth_failed")
    assert desk.server.rows(ConnectAttempt) == []


def test_the_page_shows_why_a_handle_cannot_be_used(desk: BlueskyConnectSession) -> None:
    page = desk.browser.get("/connect/bluesky", params={"handle": "not a handle"})
    assert page.status_code == 424
    assert "This is not a Bluesky handle." in page.text
    assert 'name="password"' in page.text


# --- Where there is no OAuth -----------------------------------------------------------------------------------------


def test_without_a_handle_the_fields_are_asked_for(desk: BlueskyConnectSession) -> None:
    assert desk.start().json()["descriptor"]["type"] == "credentials"
    page = desk.browser.get("/connect/bluesky").text
    assert 'name="handle"' in page.partition('method="get" action="/connect/bluesky"')[2]
    assert desk.net.calls == []


@pytest.mark.parametrize("base_url", ["http://127.0.0.1:8080", "https://post.example.com:8443", "https://nas.local"])
def test_a_server_without_a_public_address_asks_for_the_fields(
    make_server: Callable[..., AppServer], monkeypatch: pytest.MonkeyPatch, base_url: str
) -> None:
    desk = open_bluesky_session(make_server, monkeypatch, base_url)
    assert desk.start(handle=HANDLE).json()["descriptor"]["type"] == "credentials"
    assert "Continue to" not in desk.browser.get("/connect/bluesky").text
    for name in ("client-metadata.json", "jwks.json"):
        assert desk.server.api().get(f"/oauth/{name}").status_code == 404
    assert desk.net.calls == []


@pytest.mark.parametrize(
    ("base_url", "public"),
    [
        ("https://post.example.com", True),
        ("https://post.example.com/below", True),
        ("http://post.example.com", False),
        ("https://post.example.com:443", False),
        ("https://192.0.2.7", False),
        ("https://[2001:db8::7]", False),
        ("https://localhost", False),
        ("https://nas.local.", False),
        ("https://post.test", False),
        ("https://post:x", False),
        ("", False),
    ],
)
def test_an_address_is_public_when_others_can_read_our_documents_there(base_url: str, public: bool) -> None:
    assert client_metadata.is_public(base_url) is public


# --- Who we are ------------------------------------------------------------------------------------------------------


def test_the_documents_are_open_and_keep_their_key(desk: BlueskyConnectSession) -> None:
    nobody = desk.server.api()
    told = nobody.get("/oauth/client-metadata.json")
    assert told.headers["Content-Type"].startswith("application/json")
    assert told.json()["client_id"] == f"{BASE}/oauth/client-metadata.json"
    assert told.json()["redirect_uris"] == [f"{BASE}/connect/bluesky/callback"]
    keys = nobody.get("/oauth/jwks.json").json()
    assert nobody.get("/oauth/jwks.json").json() == keys
    assert "d" not in keys["keys"][0]


def test_no_secret_stands_in_the_database_or_the_log(
    desk: BlueskyConnectSession, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        desk.connect()
    _, held = desk.held()
    (kept,) = desk.server.rows(Instance)
    assert str(kept["client_key"]).startswith("v1.")
    secrets = [held.access, held.refresh, held.private["dpopKey"], held.private["clientKey"]]
    shown = json.dumps([desk.server.stock(), kept], default=str) + caplog.text
    assert not [secret for secret in secrets if secret in shown]


# --- Keeping it ------------------------------------------------------------------------------------------------------


def renew(desk: BlueskyConnectSession) -> Any:
    row, held = desk.held()
    return tokens.refresh_tokens(desk.server.service, row["id"], held)


def test_a_renewal_is_stored(desk: BlueskyConnectSession) -> None:
    desk.connect()
    fresh = renew(desk)
    assert desk.held()[1] == fresh
    assert fresh.refresh in desk.net.sessions


def test_lost_response_is_not_retried_while_the_access_token_lives(desk: BlueskyConnectSession) -> None:
    desk.connect()
    desk.net.faults[TOKEN] = LOST
    asked = desk.net.calls.count(("POST", TOKEN))
    with pytest.raises(ApiError) as caught:
        renew(desk)
    assert caught.value.outcome is Outcome.AMBIGUOUS
    assert desk.net.calls.count(("POST", TOKEN)) == asked + 1  # the one answer that was lost
    row, _ = desk.held()
    assert row["status"] == "active"
    assert tokens.is_at_risk(desk.server.service, row)


@pytest.mark.parametrize(("lost", "accounts"), [(False, [DID]), (True, [])])
def test_an_idle_account_is_renewed_unless_an_answer_was_lost(
    desk: BlueskyConnectSession, lost: bool, accounts: list[str]
) -> None:
    desk.connect()
    service = desk.server.service
    service.write(
        lambda tx: Account.update(renewed_at=0, renewal_at=service.now_ms if lost else None).execute()
    ).result()
    due = service.read(lambda: token_refresh.list_due(service)).result()
    assert [row["platform_account_id"] for row in due] == accounts


def test_a_refused_grant_revokes_the_account(desk: BlueskyConnectSession) -> None:
    desk.connect()
    desk.net.sessions.clear()
    with pytest.raises(ApiError) as caught:
        renew(desk)
    assert caught.value.rule == "account.reconnect_required"
    assert desk.held()[0]["status"] == "revoked"


def test_a_restored_copy_does_not_use_the_refresh_token(desk: BlueskyConnectSession) -> None:
    desk.connect()

    def restored(tx: Tx) -> None:
        Instance.update(paused=instance.RESTORED).execute()

    desk.server.service.write(restored).result()
    asked = list(desk.net.calls)
    with pytest.raises(ApiError):
        renew(desk)
    assert desk.net.calls == asked


def test_disconnecting_ends_the_session_upstream(desk: BlueskyConnectSession) -> None:
    account = desk.connect()
    assert desk.browser.delete(f"/v1/accounts/{account['id']}").status_code == 200
    assert desk.net.sessions == {}
    assert desk.server.rows(Account)[0]["secret"] is None
