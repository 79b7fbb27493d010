"""Account choice, credential login, disconnection, and boards."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from socialpub import platforms
from socialpub.base.errors import ApiError, Outcome
from socialpub.domain.accounts import connect
from socialpub.platforms.bluesky import connector as bluesky
from socialpub.platforms.bluesky.xrpc import decode_claims
from socialpub.platforms.contract import Board, OfferedAccount, Tokens, Upstream
from socialpub.platforms.facebook import connector as facebook
from socialpub.simulator.bluesky import Bluesky
from socialpub.simulator.server import SimulatorThread
from socialpub.store.schema.models import Account
from tests.support.app_server import UNKNOWN_ID, AppServer, error_of, format_instant, unchanged, unused_name
from tests.support.connect_flow import ConnectSession, open_connect_session, sign_in
from tests.support.media_uploads import wait_until
from tests.support.request_cast import make_picture


@pytest.fixture
def open_(
    open_shared: Callable[..., AppServer], shared_lab: SimulatorThread, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., ConnectSession]:
    def open_session(name: str = "", **settings: Any) -> ConnectSession:
        user = unused_name("alice")
        return open_connect_session(open_shared, shared_lab, monkeypatch, name, user=user, **settings)

    return open_session


@pytest.fixture
def office(open_: Callable[..., ConnectSession]) -> ConnectSession:
    """At the fake Facebook, whose logins may offer several Pages."""
    return open_("facebook")


# --- Choices ---------------------------------------------------------------------------------------------------------


def choices(office: ConnectSession) -> tuple[str, list[dict[str, Any]]]:
    office.login_exists(pages=3)
    back = office.visit(office.start())
    answer = office.complete(code=back["code"], state=back["state"])
    assert answer.status_code == 200
    return back["state"], answer.json()["choices"]


def test_login_with_several_accounts_connects_none_until_one_is_chosen(office: ConnectSession) -> None:
    state, offered = choices(office)
    assert [set(one) for one in offered] == [{"id", "platformAccountId", "displayName", "kind"}] * 3
    assert {one["kind"] for one in offered} == {"page"}
    assert office.rows() == []
    answer = office.complete(state=state, choiceId=offered[1]["id"])
    assert answer.status_code == 201
    assert answer.json()["platformAccountId"] == offered[1]["platformAccountId"]


def test_several_may_be_chosen_one_after_the_other_without_another_login(office: ConnectSession) -> None:
    state, offered = choices(office)
    calls = office.calls()
    ids = {office.complete(state=state, choiceId=one["id"]).json()["id"] for one in offered}
    assert len(ids) == 3
    assert office.complete(state=state, choiceId=offered[0]["id"]).status_code == 200
    assert office.calls() == calls


def test_choices_last_ten_minutes_from_the_login(office: ConnectSession) -> None:
    state, offered = choices(office)
    office.server.skip(599)
    assert office.complete(state=state, choiceId=offered[0]["id"]).status_code == 201
    office.server.skip(1)
    assert error_of(office.complete(state=state, choiceId=offered[1]["id"]))["rule"] == "connect.state"


def test_choices_end_with_the_authorization_of_their_login(office: ConnectSession) -> None:
    state, offered = choices(office)
    first, second = (office.complete(state=state, choiceId=one["id"]).json()["id"] for one in offered[:2])
    assert office.browser.delete(f"/v1/accounts/{first}").is_success  # the second one needs the login
    assert office.complete(state=state, choiceId=offered[2]["id"]).status_code == 201
    (third,) = {row["id"] for row in office.rows() if row["disconnected_at"] is None} - {second}
    for account in (second, third):
        assert office.browser.delete(f"/v1/accounts/{account}").is_success
    with unchanged(office.server):
        for one in offered:
            assert error_of(office.complete(state=state, choiceId=one["id"]))["rule"] == "connect.state"


def test_choices_of_a_login_completed_at_the_last_moment_stay(
    office: ConnectSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, real = office.server, facebook.identify

    def slow(up: Upstream, now_ms: int) -> tuple[OfferedAccount, ...]:
        server.skip(2)
        connect.purge(server.service)
        return real(up, now_ms)

    monkeypatch.setattr(facebook, "identify", slow)
    office.login_exists(pages=3)
    back = office.visit(office.start())
    server.skip(599)
    offered = office.complete(code=back["code"], state=back["state"]).json()["choices"]
    assert office.complete(state=back["state"], choiceId=offered[0]["id"]).status_code == 201


def test_choices_belong_to_their_session(office: ConnectSession) -> None:
    state, offered = choices(office)
    thief = sign_in(office.server, office.alice.organization, name=unused_name("bob"))
    assert error_of(office.complete(thief, state=state, choiceId=offered[0]["id"]))["rule"] == "connect.state"


def test_what_was_not_offered_cannot_be_chosen(office: ConnectSession) -> None:
    state, _ = choices(office)
    assert office.complete(state=state, choiceId="another").status_code == 404
    assert office.complete(state=state, code="again").status_code == 400


def test_tokens_of_choices_are_sealed_and_forgotten(office: ConnectSession) -> None:
    choices(office)
    (row,) = office.attempts()
    assert row["choices"].startswith("v1.")
    assert "access" not in row["choices"]


def test_the_page_asks_which_one_and_connects_it(office: ConnectSession) -> None:
    office.login_exists(pages=2)
    back = office.visit(office.start())
    page = office.browser.get("/connect/facebook/callback", params=back)
    assert page.text.count('name="choice"') == 2
    chosen = page.text.split('name="choice" value="')[1].split('"')[0]
    done = office.browser.get("/connect/facebook/callback", params={"state": back["state"], "choice": chosen})
    assert done.status_code == 303
    assert "Connected" in office.browser.get(done.headers["Location"]).text
    assert len(office.rows()) == 1


def test_a_login_that_offers_nothing_says_so(office: ConnectSession) -> None:
    office.login_exists(pages=0)
    back = office.visit(office.start())
    answer = office.complete(code=back["code"], state=back["state"])
    assert error_of(answer)["rule"] == "facebook.pages.none"


# --- Credentials -----------------------------------------------------------------------------------------------------


def test_credentials_platform_names_its_fields_and_connects_by_them(open_: Callable[..., ConnectSession]) -> None:
    office = open_()
    asked = office.browser.post("/v1/accounts/connect/bluesky").json()
    assert asked == {
        "platform": "bluesky",
        "state": "stable",
        "descriptor": {
            "type": "credentials",
            "fields": [
                {"name": "handle", "label": "Handle", "secret": False},
                {"name": "password", "label": "App password", "secret": True},
            ],
        },
    }
    made = office.server.lab.lab.add_account("bluesky", handle=unused_name() + ".test")
    fields = {"handle": made["handle"], "password": made["appPassword"]}
    office.name = "bluesky"
    first, again = office.complete(**fields), office.complete(**fields)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["id"] == again.json()["id"]
    assert made["appPassword"] not in first.text
    wrong = office.complete(**(fields | {"password": "wrong-wrong"}))
    assert (wrong.status_code, error_of(wrong)["code"]) == (424, "platform_auth_failed")


def test_the_form_connects_and_shows_what_went_wrong(open_: Callable[..., ConnectSession]) -> None:
    office = open_()
    made = office.server.lab.lab.add_account("bluesky", handle=unused_name() + ".test")
    form = {"csrf_token": office.browser.headers["X-CSRF-Token"], "handle": made["handle"], "password": "wrong-wrong"}
    refused = office.browser.post("/connect/bluesky", data=form)
    assert refused.status_code == 424
    assert 'role="alert"' in refused.text
    assert "wrong-wrong" not in refused.text
    assert f'value="{made["handle"]}"' in refused.text  # it need not be typed again
    assert 'type="password"' in office.browser.get("/connect/bluesky").text
    done = office.browser.post("/connect/bluesky", data=form | {"password": made["appPassword"]})
    assert done.status_code == 303
    assert office.browser.post("/connect/bluesky", data={"handle": "x"}).status_code == 403


def test_tiktok_is_not_enabled_until_the_operator_says_so_whoever_asks(open_: Callable[..., ConnectSession]) -> None:
    office = open_(platforms={"tiktok": {"client_id": "app-1", "client_secret": "app-secret-1"}})
    for who in (office.browser, office.alice.api):
        for path in ("", "/complete"):
            answer = who.post(f"/v1/accounts/connect/tiktok{path}", json={})
            assert (answer.status_code, error_of(answer)["code"]) == (403, "platform_not_enabled")


def test_an_unknown_platform_is_not_found(open_: Callable[..., ConnectSession]) -> None:
    assert open_().browser.post("/v1/accounts/connect/myspace", json={}).status_code == 404


# --- Gone ------------------------------------------------------------------------------------------------------------


def test_disconnecting_cancels_what_waits_and_erases_the_secret(open_: Callable[..., ConnectSession]) -> None:
    office = open_()
    server, alice = office.server, office.alice
    account = server.connect_bluesky(alice)["id"]
    other = server.connect_bluesky(alice, "other")["id"]
    soon = format_instant(server.clock.now_ms() + 3_600_000)

    def schedule(target: str) -> str:
        body = {"targets": [{"accountId": target}], "text": "later", "scheduledAt": soon}
        return str(alice.api.publish(body).json()["results"][0]["postId"])

    waiting, kept = [schedule(account), schedule(account)], schedule(other)
    assert office.browser.delete(f"/v1/accounts/{account}").json() == {"id": account, "deleted": True}
    statuses = {row["id"]: row["status"] for row in server.rows()}
    assert [statuses[post] for post in waiting] == ["canceled", "canceled"]
    assert statuses[kept] == "queued"
    assert [job["key"] for job in server.jobs() if job["key"] in waiting] == []
    for post in waiting:
        assert [type_ for type_, _ in server.events(post)][-1] == "post.canceled"
    (row,) = server.rows(Account, id=account)
    assert row["secret"] is None
    assert alice.api.get(f"/v1/accounts/{account}").status_code == 404
    assert account not in [one["id"] for one in alice.api.get("/v1/accounts").json()["data"]]
    assert alice.api.get(f"/v1/posts/{waiting[0]}").json()["account"]["id"] == account
    refused = alice.api.publish({"targets": [{"accountId": account}], "text": "now"})
    assert refused.status_code == 404


def test_disconnecting_ends_the_session_and_reconnecting_revives_the_id(
    open_: Callable[..., ConnectSession],
) -> None:
    office = open_()
    server, alice = office.server, office.alice
    made = server.lab.lab.add_account("bluesky", handle=unused_name() + ".test")
    office.name, fields = "bluesky", {"handle": made["handle"], "password": made["appPassword"]}
    first = office.complete(**fields).json()["id"]
    assert office.browser.delete(f"/v1/accounts/{first}").status_code == 200
    assert office.calls("com.atproto.server.deleteSession") == 1
    assert office.browser.delete(f"/v1/accounts/{first}").status_code == 404
    again = office.complete(**fields)
    assert (again.status_code, again.json()["id"], again.json()["status"]) == (200, first, "active")
    body = {"targets": [{"accountId": first}], "text": "back again"}
    assert alice.api.publish(body).json()["status"] == "published"


def test_authorization_shared_by_another_account_is_not_revoked(open_: Callable[..., ConnectSession]) -> None:
    office = open_()
    office.name = "bluesky"
    made = office.server.lab.lab.add_account("bluesky", handle=unused_name() + ".test")
    fields = {"handle": made["handle"], "password": made["appPassword"]}
    profile = office.browser.post("/v1/profiles", json={"name": "Shop"}).json()["id"]
    first, twin = office.complete(**fields).json()["id"], office.complete(**fields, profileId=profile).json()["id"]
    assert first != twin
    office.browser.delete(f"/v1/accounts/{first}")
    assert office.calls("com.atproto.server.deleteSession") == 0
    office.browser.delete(f"/v1/accounts/{twin}")
    assert office.calls("com.atproto.server.deleteSession") == 1


def test_a_platform_that_cannot_be_reached_does_not_keep_an_account(
    open_: Callable[..., ConnectSession], monkeypatch: pytest.MonkeyPatch
) -> None:
    office = open_()
    account = office.server.connect_bluesky(office.alice)["id"]

    def lost(up: Any) -> None:
        raise ApiError("platform_unavailable", "lost", outcome=Outcome.AMBIGUOUS)

    monkeypatch.setattr(bluesky, "revoke", lost)
    assert office.browser.delete(f"/v1/accounts/{account}").status_code == 200
    assert office.alice.api.get(f"/v1/accounts/{account}").status_code == 404


def test_post_in_progress_is_not_sent_for_a_disconnected_account(
    open_: Callable[..., ConnectSession], monkeypatch: pytest.MonkeyPatch
) -> None:
    office = open_()
    account = office.server.connect_bluesky(office.alice)["id"]
    preparing, gone, real = threading.Event(), threading.Event(), bluesky.prepare

    def slow(*args: Any) -> Any:
        ready = real(*args)
        preparing.set()
        assert gone.wait(60)
        return ready

    monkeypatch.setattr(bluesky, "prepare", slow)
    answers: list[Any] = []
    media = office.alice.api.post("/v1/media", files={"file": ("a.png", make_picture(), "image/png")}).json()["id"]
    # With a picture it is prepared by the thread that publishes it, not by the transaction that accepts it.
    body = {"targets": [{"accountId": account}], "text": "too late", "media": [media]}
    sender = threading.Thread(target=lambda: answers.append(office.alice.api.publish(body).json()))
    sender.start()
    assert preparing.wait(60)
    assert office.browser.delete(f"/v1/accounts/{account}").status_code == 200
    gone.set()
    sender.join(60)
    (result,) = answers[0]["results"]
    assert (result["status"], result["error"]["rule"]) == ("rejected", "account.disconnected")
    assert len(office.server.lab.lab.ledger.entries("bluesky")) == 0


def publish_now(office: ConnectSession, account: str) -> dict[str, Any]:
    """The result of a new post."""
    answer = office.alice.api.publish({"targets": [{"accountId": account}], "text": "hello"})
    result: dict[str, Any] = answer.json()["results"][0]
    return result


def test_a_session_renewed_while_its_account_is_disconnected_ends(
    open_: Callable[..., ConnectSession], monkeypatch: pytest.MonkeyPatch
) -> None:
    office, renewed, gone, real = open_(), threading.Event(), threading.Event(), bluesky.refresh
    server, fresh = office.server, list[Tokens]()
    account = server.connect_bluesky(office.alice)["id"]
    server.lab.lab.end_tokens("bluesky", access=True)

    def slow(up: Upstream, now_ms: int) -> Tokens:
        fresh.append(real(up, now_ms))
        renewed.set()
        assert gone.wait(60)
        return fresh[0]

    monkeypatch.setattr(bluesky, "refresh", slow)
    with ThreadPoolExecutor(2) as pool:
        published = pool.submit(publish_now, office, account)
        assert renewed.wait(60)
        disconnected = pool.submit(office.browser.delete, f"/v1/accounts/{account}")
        wait_until(lambda: server.rows(Account, id=account)[0]["secret"] is None)
        gone.set()
        assert disconnected.result().status_code == 200
        assert published.result()["error"]["rule"] == "account.disconnected"
    ended, upstream = decode_claims(str(fresh[0].refresh)), server.lab.lab.fake("bluesky")
    assert isinstance(upstream, Bluesky)
    owner = upstream.accounts.find(ended["sub"])
    assert owner is not None
    assert ended["jti"] not in owner.refresh_tokens
    assert server.lab.lab.ledger.entries("bluesky") == []


def test_a_connection_made_while_the_old_one_is_refused_publishes(
    open_: Callable[..., ConnectSession], monkeypatch: pytest.MonkeyPatch
) -> None:
    office, real = open_(), bluesky.refresh
    server = office.server
    made = server.lab.lab.add_account("bluesky", handle=unused_name() + ".test")
    office.name, fields = "bluesky", {"handle": made["handle"], "password": made["appPassword"]}
    account = office.complete(**fields).json()["id"]
    server.lab.lab.end_tokens("bluesky", access=True, refresh=True)

    def slow(up: Upstream, now_ms: int) -> Tokens:
        assert office.complete(**fields).status_code == 200
        return real(up, now_ms)

    monkeypatch.setattr(bluesky, "refresh", slow)
    assert publish_now(office, account)["status"] == "published"
    shown = office.alice.api.get(f"/v1/accounts/{account}").json()
    assert (shown["status"], "attention" in shown) == ("active", False)
    assert [event.type for event in server.happened(organization=office.alice.organization)].count("token.revoked") == 0


@pytest.mark.parametrize("role", ["member"])
def test_a_member_and_a_key_may_not_disconnect(open_: Callable[..., ConnectSession], role: str) -> None:
    office = open_()
    account = office.server.connect_bluesky(office.alice)["id"]
    member = sign_in(office.server, office.alice.organization, role=role, name=unused_name("mallory"))
    assert member.delete(f"/v1/accounts/{account}").status_code == 403
    assert office.alice.api.delete(f"/v1/accounts/{account}").status_code == 403
    stranger = sign_in(office.server, office.server.person("Charlie").organization, name=unused_name("charlie"))
    assert stranger.delete(f"/v1/accounts/{account}").status_code == 404


def test_the_page_of_an_account_disconnects(open_: Callable[..., ConnectSession]) -> None:
    office = open_()
    account = office.server.connect_bluesky(office.alice)["id"]
    assert f"/accounts/{account}/disconnect" in office.browser.get("/accounts").text
    form, path = {"csrf_token": office.browser.headers["X-CSRF-Token"]}, f"/accounts/{account}/disconnect"
    assert office.browser.post(path, data={}).status_code == 403
    assert office.browser.post(path, data=form, headers={"Origin": "null"}).status_code == 403
    as_chromium_does = {"Origin": "null", "Sec-Fetch-Site": "same-origin"}
    assert office.browser.post(path, data=form, headers=as_chromium_does).status_code == 303
    assert account not in office.browser.get("/accounts").text


# --- Boards ----------------------------------------------------------------------------------------------------------

BOARDS = (Board("1", "Bread", "PUBLIC"), Board("2", "Cake", "SECRET"), Board("3", "Ads", "PUBLIC", pinnable=False))


@pytest.fixture
def pins(open_: Callable[..., ConnectSession], monkeypatch: pytest.MonkeyPatch) -> tuple[ConnectSession, str]:
    """An account of a platform with boards, and the address of its boards."""
    office = open_()
    monkeypatch.setitem(platforms.CONNECTORS, "pinterest", SimpleNamespace(boards=lambda up: BOARDS))
    account = office.server.connect(office.alice, "pinterest")["id"]
    return office, f"/v1/accounts/{account}/pinterest"


def test_boards_are_listed_with_the_default_one(pins: tuple[ConnectSession, str]) -> None:
    office, path = pins
    listed = office.alice.api.get(f"{path}/boards").json()
    assert listed["data"][:2] == [
        {"id": "1", "name": "Bread", "privacy": "PUBLIC"},
        {"id": "2", "name": "Cake", "privacy": "SECRET"},
    ]
    assert listed["defaultBoardId"] is None
    chosen = office.alice.api.patch(f"{path}/default-board", json={"boardId": "2"})
    account = path.split("/")[3]
    assert chosen.json() == {"id": account, "defaultBoardId": "2", "defaultBoardName": "Cake"}
    assert office.alice.api.get(f"{path}/boards").json()["defaultBoardId"] == "2"
    (row,) = office.server.rows(Account, id=account)
    assert json.loads(row["extra"]) == {"defaultBoardId": "2", "defaultBoardName": "Cake"}


def test_the_default_board_survives_a_new_consent(pins: tuple[ConnectSession, str]) -> None:
    office, path = pins
    office.alice.api.patch(f"{path}/default-board", json={"boardId": "1"})
    office.alice.accounts.clear()
    office.server.connect(office.alice, "pinterest")
    assert office.alice.api.get(f"{path}/boards").json()["defaultBoardId"] == "1"


@pytest.mark.parametrize("board", ["9", "3", "bread"])
def test_a_board_that_the_account_cannot_use_is_refused(pins: tuple[ConnectSession, str], board: str) -> None:
    office, path = pins
    answer = office.alice.api.patch(f"{path}/default-board", json={"boardId": board})
    assert (answer.status_code, error_of(answer)["rule"]) == (400, "pinterest.board.unknown")


def test_an_empty_board_is_a_schema_failure(pins: tuple[ConnectSession, str]) -> None:
    office, path = pins
    assert error_of(office.alice.api.patch(f"{path}/default-board", json={"boardId": ""}))["rule"] == "boardId"


def test_only_accounts_with_boards_have_them(pins: tuple[ConnectSession, str]) -> None:
    office, _ = pins
    account = office.server.connect_bluesky(office.alice)["id"]
    for answer in (
        office.alice.api.get(f"/v1/accounts/{account}/pinterest/boards"),
        office.alice.api.patch(f"/v1/accounts/{account}/pinterest/default-board", json={"boardId": "1"}),
    ):
        assert (answer.status_code, error_of(answer)["rule"]) == (400, "account.platform")
    assert office.alice.api.get(f"/v1/accounts/{UNKNOWN_ID}/pinterest/boards").status_code == 404


def test_a_platforms_long_answer_is_cut(pins: tuple[ConnectSession, str], monkeypatch: pytest.MonkeyPatch) -> None:
    office, path = pins

    def refuse(up: Any) -> None:
        raise ApiError("platform_auth_failed", "x" * 200_000, platform_response={"body": "y" * 200_000})

    monkeypatch.setitem(platforms.CONNECTORS, "pinterest", SimpleNamespace(boards=refuse))
    error = error_of(office.alice.api.get(f"{path}/boards"))
    assert error["message"] == "x" * 2000
    assert list(error["platformResponse"]) == ["truncated"]
    assert len(str(error["platformResponse"])) < 16 * 1024


def test_what_the_platform_answers_is_passed_on(
    pins: tuple[ConnectSession, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    office, path = pins

    def refuse(up: Any) -> None:
        body = {"message": f"token {up.tokens.access} is dead"}
        raise ApiError("platform_auth_failed", "no", platform_response={"body": body}, outcome=Outcome.REJECTED)

    monkeypatch.setitem(platforms.CONNECTORS, "pinterest", SimpleNamespace(boards=refuse))
    answer = office.alice.api.get(f"{path}/boards")
    assert (answer.status_code, error_of(answer)["platform"]) == (424, "pinterest")
    assert "made-up-access" not in answer.text
