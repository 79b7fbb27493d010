"""Bluesky OAuth: bound tokens, renewals, nonces, reconnects and revocation."""

from __future__ import annotations

import concurrent.futures
import contextlib
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx
import pytest

from socialpub.base import http as outbound
from socialpub.base.errors import ApiError, Outcome
from socialpub.domain.accounts import tokens
from socialpub.platforms.bluesky import connector as bluesky
from socialpub.platforms.contract import AppClient, Draft, Ready, SigningContext, Tokens, Upstream
from socialpub.platforms.contract import ConnectorAccount as Who
from socialpub.simulator.server import SimulatorThread
from tests.support.app_server import AppServer, MovableClock, sleep_briefly
from tests.support.connect_flow import ConnectSession, open_connect_session
from tests.support.request_cast import inline_item, make_picture

HOUR = 3600
TOKEN = "oauth.token"
CALLBACK = "http://127.0.0.1/connect/bluesky/callback"
LOOPBACK = "http://localhost?" + urlencode({"redirect_uri": CALLBACK, "scope": "atproto transition:generic"})


@pytest.fixture
def lab(wall: MovableClock) -> Iterator[SimulatorThread]:
    """A simulator whose time the test moves together with the server's."""
    with SimulatorThread(wall) as simulator:
        yield simulator


@pytest.fixture
def office(
    make_server: Callable[..., AppServer], lab: SimulatorThread, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ConnectSession]:
    """With a connected account."""
    office = open_connect_session(make_server, lab, monkeypatch, "bluesky")
    office.login_exists()
    assert office.connect().status_code == 201
    lab.lab.calls.clear()
    return office


def row(office: ConnectSession) -> dict[str, Any]:
    (found,) = office.rows()
    return found


def held(office: ConnectSession) -> Tokens:
    return tokens.decrypt(office.server.service, row(office)["id"], row(office)["secret"])


def publish(office: ConnectSession, text: str = "Hello", **more: Any) -> dict[str, Any]:
    body = {"targets": [{"accountId": row(office)["id"]}], "text": text} | more
    (result,) = office.alice.api.publish(body).json()["results"]
    return dict(result)


def posts(office: ConnectSession) -> list[str]:
    return [str(entry.text) for entry in office.server.lab.lab.ledger.entries("bluesky")]


@contextlib.contextmanager
def line(office: ConnectSession, who: Who, held: Tokens) -> Iterator[Upstream]:
    """A line to the fake that is not our server's."""
    with outbound.HttpClient(outbound.UNGUARDED_POLICY) as http:
        signing = SigningContext(office.server.clock.now_ms, secrets.token_bytes)
        yield Upstream(http, http, office.server.service.sites["bluesky"], who, held, signing=signing)


def test_posts_go_out_with_bound_tokens_before_and_after_a_renewal(office: ConnectSession) -> None:
    assert publish(office, "first", firstComment={"text": "below"})["status"] == "published"
    assert office.calls(TOKEN) == 0
    before = held(office)
    office.server.skip(HOUR + 1)
    assert publish(office, "second")["status"] == "published"
    after = held(office)
    assert office.calls(TOKEN) == 2  # the first is told the nonce
    assert after.refresh not in (None, before.refresh)
    assert after.private == before.private
    assert posts(office) == ["first", "below", "second"]
    sent = [call.headers for call in office.server.lab.lab.calls if call.operation.startswith("com.atproto.repo.put")]
    assert {headers["authorization"].partition(" ")[0] for headers in sent} == {"DPoP"}
    assert all("dpop" in headers for headers in sent)


def test_tokens_of_minutes_are_renewed_as_often_as_posts_need_them(office: ConnectSession) -> None:
    office.upstream.quirks = replace(office.upstream.quirks, access_seconds=300)
    for number in range(5):
        office.server.skip(HOUR if number == 0 else 301)
        assert publish(office, f"post {number}")["status"] == "published"
    assert posts(office) == [f"post {number}" for number in range(5)]
    assert office.calls(TOKEN) == 10  # each is told a new nonce first


def test_fifty_who_need_new_tokens_at_once_ask_once(office: ConnectSession) -> None:
    office.server.skip(HOUR + 1)
    stale = held(office)
    with concurrent.futures.ThreadPoolExecutor(50) as pool:
        found = set(
            pool.map(lambda _: repr(tokens.refresh_tokens(office.server.service, row(office)["id"], stale)), range(50))
        )
    assert (len(found), office.calls(TOKEN)) == (1, 2)


@pytest.mark.slow
@pytest.mark.parametrize("who", ["the owner", "somebody with a copy"])
def test_ended_session_is_reported_once_and_the_owner_reconnects(office: ConnectSession, who: str) -> None:
    if who == "the owner":
        office.upstream.end_grants(row(office)["platform_account_id"])
    else:
        old = held(office)
        office.server.skip(HOUR + 1)
        publish(office, "renewed")
        thief = Who(row(office)["platform_account_id"], None, {})
        with line(office, thief, old) as up, pytest.raises(ApiError):
            bluesky.refresh(up, 0)  # the refresh token comes a second time
    for _ in range(2):
        refused = publish(office, "too late")
        assert (refused["status"], refused["error"]["rule"]) == ("rejected", "account.reconnect_required")
    assert [type_ for type_, _ in office.server.events() if type_.startswith("token.")] == ["token.revoked"]
    assert office.connect().status_code == 200
    assert publish(office, "back")["status"] == "published"
    assert "too late" not in posts(office)


def test_lost_response_is_not_retried_with_the_same_refresh_token(office: ConnectSession) -> None:
    office.server.lab.lab.faults.add([{"fault": "reset_after", "operation": TOKEN, "nth": 1}])
    with pytest.raises(ApiError) as caught:
        tokens.refresh_tokens(office.server.service, row(office)["id"], held(office))
    assert caught.value.outcome is Outcome.AMBIGUOUS
    assert (row(office)["status"], office.calls(TOKEN)) == ("active", 1)
    assert row(office)["renewal_at"] is not None


@pytest.mark.slow
def test_nonce_is_kept_for_all_steps_and_posts_while_it_is_valid(office: ConnectSession) -> None:
    put, upload = "com.atproto.repo.putRecord", "com.atproto.repo.uploadBlob"
    for number in range(3):
        media = [inline_item(make_picture(size=(8, 8 + number)))]
        assert publish(office, f"post {number}", media=media, firstComment={"text": "below"})["status"] == "published"
    assert (office.calls(upload), office.calls(put)) == (3, 6)
    office.server.skip(10 * 60)
    assert publish(office, "later", media=[inline_item(make_picture())])["status"] == "published"
    assert (office.calls(upload), office.calls(put)) == (3 + 2, 6 + 1)  # the first call is told the new nonce


def test_a_second_account_has_nonces_of_its_own(office: ConnectSession) -> None:
    first = row(office)["id"]
    office.login_exists()
    assert office.connect().status_code == 201
    office.server.lab.lab.calls.clear()
    (second,) = (found["id"] for found in office.rows() if found["id"] != first)
    for account in (first, second, first, second):
        body = {"targets": [{"accountId": account}], "text": f"to {account}"}
        assert office.alice.api.publish(body).json()["status"] == "published"
    assert office.calls("com.atproto.repo.putRecord") == 4


def test_the_session_that_a_reconnect_replaces_is_revoked(office: ConnectSession) -> None:
    old = held(office)
    assert office.connect().status_code == 200
    assert held(office).refresh != old.refresh
    deadline = time.monotonic() + 10
    while not office.calls("oauth.revoke"):
        assert time.monotonic() < deadline
        sleep_briefly()
    with line(office, Who(row(office)["platform_account_id"], None, {}), old) as up, pytest.raises(ApiError) as caught:
        bluesky.refresh(up, 0)
    assert (caught.value.code, caught.value.outcome) == ("platform_auth_failed", Outcome.REJECTED)
    office.server.skip(HOUR + 1)
    assert publish(office, "still here")["status"] == "published"


# --- A client on loopback --------------------------------------------------------------------------------------------


def test_loopback_client_connects_publishes_once_renews_and_revokes(office: ConnectSession) -> None:
    client, nobody = AppClient(LOOPBACK, CALLBACK), Who("")
    with line(office, nobody, Tokens("")) as up:
        invitation = bluesky.invite(up, client, office.handle["handle"], "s" * 43)
        where = urlsplit(httpx.get(invitation.url, trust_env=False).headers["location"])
        back = dict(parse_qsl(where.query))
        assert (back["state"], where.netloc, where.path) == ("s" * 43, "127.0.0.1", "/connect/bluesky/callback")
        found = bluesky.accept(up, client, dict(invitation.stored), back["code"], back["iss"])
    who = Who(found.identity.platform_account_id, found.identity.display_name, found.identity.extra)
    with line(office, who, found.tokens) as up:
        draft = Draft("by loopback", (), now_ms=office.server.clock.now_ms(), nonce=7)
        ready = bluesky.prepare(up, draft, None)
        assert isinstance(ready, Ready)
        assert bluesky.send(up, ready.plan) == bluesky.send(up, ready.plan) == bluesky.settle(up, ready.plan, 0)
        fresh = bluesky.refresh(up, 0)
    assert posts(office) == ["by loopback"]
    with line(office, who, fresh) as up:
        bluesky.revoke(up)
        with pytest.raises(ApiError) as caught:
            bluesky.refresh(up, 0)
    assert (caught.value.code, caught.value.outcome) == ("platform_auth_failed", Outcome.REJECTED)
