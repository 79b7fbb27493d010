"""Account pages: status, connecting, disconnecting, reconnecting, and roles."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from socialpub import platforms
from socialpub.base.runtime import format_iso
from socialpub.domain.accounts import accounts, tokens
from socialpub.domain.identity import signin
from socialpub.platforms.contract import AccountIdentity, Tokens
from socialpub.simulator.server import SimulatorThread
from socialpub.store.database import Tx
from socialpub.store.schema.models import Account
from tests.support.app_server import ApiClient, AppServer, Person, error_of
from tests.support.connect_flow import ConnectSession, open_connect_session, sign_in
from tests.support.dashboard_forms import HTML, follow_notice, send_form


def schedule(server: AppServer, alice: Person, count: int, minutes: int = 60) -> list[str]:
    made = []
    for number in range(count):
        body = {"text": f"later {number}", "targets": [{"accountId": alice.bluesky}]}
        body["scheduledAt"] = format_iso(server.clock.now_ms() + minutes * 60_000)
        made.append(alice.api.post("/v1/posts", json=body).json()["results"][0]["postId"])
    return made


def status_of(alice: Person, posts: list[str]) -> set[str]:
    return {alice.api.get(f"/v1/posts/{post}").json()["status"] for post in posts}


def test_disconnecting_says_what_will_happen_and_keeps_what_waits(
    server: AppServer, alice: Person, browser: ApiClient
) -> None:
    posts = schedule(server, alice, 3)
    path = f"/accounts/{alice.bluesky}/disconnect"
    assert f'action="{path}"' not in browser.get("/accounts").text
    page = browser.get(path).text
    assert "3 posts are scheduled for this account" in page
    assert "Cancel 3 scheduled posts" in page
    assert 'value="keep" id="keep" checked' in page
    assert send_form(browser, path).status_code == 303
    assert status_of(alice, posts) == {"queued"}
    assert browser.get(path).status_code == 404


def test_accounts_that_need_attention_come_first(server: AppServer, alice: Person, browser: ApiClient) -> None:
    for platform in ("threads", "twitter"):
        server.connect(alice, platform)
    ids = [account["id"] for account in browser.get("/v1/accounts").json()["data"]]
    ends = {"token_expires_at": server.clock.now_ms() + 86_400_000}

    def age(tx: Tx) -> None:
        Account.update(status="expiring", **ends).where(Account.id == ids[1]).execute()
        Account.update(status="revoked").where(Account.id == ids[2]).execute()

    server.service.write(age).result()
    shown = re.findall(r'<th scope="row">.*?href="/accounts/([0-9a-f-]+)"', browser.get("/accounts").text, re.S)
    assert shown == [ids[2], ids[1], ids[0]]
    page = browser.get("/").text
    worries = page[page.index('id="worries"') : page.index('id="now-failed"')]
    assert worries.index("Access expired") < worries.index("Expires soon")


def test_a_form_to_connect_says_where_its_fields_are_found(browser: ApiClient) -> None:
    page = browser.get("/connect/bluesky", headers=HTML).text
    assert "Settings, Privacy and security, App passwords" in page
    assert 'aria-describedby="field-password-hint"' in page


def test_what_waits_goes_out_once_the_account_is_connected_again(
    server: AppServer, alice: Person, browser: ApiClient
) -> None:
    posts = schedule(server, alice, 2)
    row = server.rows(Account, id=alice.bluesky)[0]
    send_form(browser, f"/accounts/{alice.bluesky}/disconnect")
    assert server.rows(Account, id=alice.bluesky)[0]["secret"] is None

    def connect_again(tx: Tx) -> None:
        again = {"secret": row["secret"], "disconnected_at": None}
        Account.update(again).where(Account.id == alice.bluesky).execute()

    server.service.write(connect_again).result()
    server.skip(3601)
    assert {server.wait(post, "published", "rejected")["status"] for post in posts} == {"published"}


def test_what_comes_due_meanwhile_is_refused_with_its_reason(
    server: AppServer, alice: Person, browser: ApiClient
) -> None:
    posts = schedule(server, alice, 1)
    send_form(browser, f"/accounts/{alice.bluesky}/disconnect")
    server.skip(3601)
    assert "account.disconnected" in server.wait(posts[0], "rejected", "failed")["error"]


def test_who_wants_to_cancels_what_waits(server: AppServer, alice: Person, browser: ApiClient) -> None:
    posts = schedule(server, alice, 2)
    send_form(browser, f"/accounts/{alice.bluesky}/disconnect", posts="cancel")
    assert status_of(alice, posts) == {"canceled"}


def test_password_is_required_ten_minutes_after_the_sign_in(
    server: AppServer, alice: Person, browser: ApiClient
) -> None:
    server.clock.skip(signin.REAUTHENTICATED_MS / 1000 + 1)
    path = f"/accounts/{alice.bluesky}/disconnect"
    assert 'name="password"' in browser.get(path).text
    refused = send_form(browser, path)
    assert (refused.status_code, 'role="alert"' in refused.text) == (403, True)
    assert server.rows(Account, id=alice.bluesky)[0]["disconnected_at"] is None


@pytest.mark.parametrize(("status", "words"), [("revoked", "Access expired"), ("expiring", "Expires soon")])
def test_an_account_in_trouble_offers_to_be_connected_again_first(
    server: AppServer, alice: Person, browser: ApiClient, status: str, words: str
) -> None:
    def change(tx: Tx) -> None:
        ends = server.clock.now_ms() + 3 * 86_400_000
        Account.update(status=status, token_expires_at=ends).where(Account.id == alice.bluesky).execute()

    assert "Reconnect" not in browser.get("/accounts").text
    server.service.write(change).result()
    page = browser.get("/accounts").text
    assert words in page
    again = f"/connect/bluesky?profile={alice.profile}"
    assert page.index(f'href="{again}"') < page.index("/disconnect")
    assert f'href="{again}"' in browser.get(f"/accounts/{alice.bluesky}/disconnect").text


def test_an_account_is_connected_into_the_profile_that_is_chosen(
    server: AppServer, alice: Person, browser: ApiClient
) -> None:
    assert '<a href="/connect/bluesky">' in browser.get("/accounts").text
    second = browser.post("/v1/profiles", json={"name": "Second"}).json()["id"]
    page = browser.get("/accounts").text
    assert 'formaction="/connect/bluesky"' in page
    assert f'<option value="{second}" dir="auto">Second</option>' in page
    made = server.lab.lab.add_account("bluesky", handle="second.test")
    form = {"handle": made["handle"], "password": made["appPassword"], "profile": second}
    assert f'name="profile" value="{second}"' in browser.get(f"/connect/bluesky?profile={second}").text
    sent = send_form(browser, "/connect/bluesky", **form)
    assert sent.status_code == 303
    assert server.rows(Account, platform_account_id=made["did"])[0]["profile"] == second


def test_typed_connect_form_returns_after_sign_in_without_the_password(server: AppServer) -> None:
    api = server.api()
    sent = {"page": "/connect/bluesky", "handle": "alice.test", "password": "abcd-efgh", "profile": ""}
    page = api.post("/connect/bluesky", data=sent).text
    assert "alice.test" in page
    assert "abcd-efgh" not in page
    assert 'name="next" value="/connect/bluesky?kept=1"' in page


def test_a_member_sees_accounts_and_changes_none(server: AppServer, alice: Person) -> None:
    member = sign_in(server, alice.organization, role="member", name="dave")
    page = member.get("/accounts").text
    assert "Connected" in page
    assert "disconnect" not in page
    assert "/connect/" not in page
    for path in ("/disconnect", "/board"):
        assert member.get(f"/accounts/{alice.bluesky}{path}").status_code == 403
        assert send_form(member, f"/accounts/{alice.bluesky}{path}", board="1").status_code == 403
    page = member.get(f"/accounts/{alice.bluesky}").text
    assert "/disconnect" not in page
    assert "/connect/" not in page


def test_an_account_of_another_organization_is_not_there(server: AppServer, browser: ApiClient) -> None:
    mallory = server.connected_person("Mallory")
    for path in ("", "/disconnect", "/board"):
        assert browser.get(f"/accounts/{mallory.bluesky}{path}").status_code == 404
    for path in ("/disconnect", "/board"):
        assert send_form(browser, f"/accounts/{mallory.bluesky}{path}").status_code == 404


# --- One account -----------------------------------------------------------------------------------------------------

MARKUP = "<img src=x onerror=alert(1)>'\"{{7*7}}"


def words(browser: ApiClient, account: str) -> str:
    """What an account's page says, without its markup."""
    text = re.sub(r"<[^>]*>", " ", browser.get(f"/accounts/{account}").text)
    return " ".join(html.unescape(text).split())


def change(server: AppServer, account: str, **values: Any) -> None:
    server.service.write(lambda tx: Account.update(**values).where(Account.id == account).execute()).result()


def test_an_accounts_page_says_how_it_stands(server: AppServer, alice: Person, browser: ApiClient) -> None:
    assert f'href="/accounts/{alice.bluesky}"' in browser.get("/accounts").text
    page = words(browser, alice.bluesky)
    for said in (
        "Connected Ready to publish to Bluesky.",
        "Profile default",
        "Scheduled posts none",
        "Last published never",
    ):
        assert said in page
    assert "Access Renewed automatically last renewed" in page
    assert "Recent failures None." in page
    post = alice.api.publish({"text": "that went out", "targets": [{"accountId": alice.bluesky}]}).json()
    schedule(server, alice, 3)
    page = browser.get(f"/accounts/{alice.bluesky}").text
    assert f'href="/posts/{post["results"][0]["postId"]}">that went out' in page
    assert "3 posts</a>" in page


def test_what_failed_lately_is_told_with_its_reason(server: AppServer, alice: Person, browser: ApiClient) -> None:
    server.lab.lab.faults.add([{"fault": "status:400", "platform": "bluesky", "operation": "*Record*"}])
    alice.api.publish({"text": f"that failed {MARKUP}", "targets": [{"accountId": alice.bluesky}]})
    server.lab.lab.faults.clear()
    page = browser.get(f"/accounts/{alice.bluesky}").text
    assert "that failed &lt;img" in page
    assert "<img" not in page
    (failed,) = alice.api.get("/v1/posts?status=failed,rejected").json()["data"]
    assert failed["error"]["message"] in html.unescape(page)
    assert f'href="/posts?accountId={alice.bluesky}&amp;status=failed,rejected"' in page


def test_revoked_account_says_why_and_offers_to_reconnect_first(
    server: AppServer, alice: Person, browser: ApiClient
) -> None:
    reason = f"The platform said: {MARKUP}"
    server.service.write(lambda tx: tokens.mark_revoked(server.service, tx, alice.bluesky, reason)).result()
    page = browser.get(f"/accounts/{alice.bluesky}").text
    assert "Access expired" in page
    assert reason in html.unescape(page)
    assert "<img" not in page
    assert 'class="panel bad"' in page
    assert page.index(f'class="button" href="/connect/bluesky?profile={alice.profile}"') < page.index("/disconnect")


def test_the_reason_goes_with_a_new_consent(server: AppServer, alice: Person, browser: ApiClient) -> None:
    row = server.rows(Account, id=alice.bluesky)[0]
    server.service.write(lambda tx: tokens.mark_revoked(server.service, tx, row["id"], "It was withdrawn.")).result()
    assert "It was withdrawn." in words(browser, row["id"])
    held = tokens.decrypt(server.service, row["id"], row["secret"])
    who = AccountIdentity(row["platform_account_id"], row["display_name"], json.loads(row["extra"]))

    def again(tx: Tx) -> None:
        accounts.connect(server.service, tx, alice.organization, alice.profile, "bluesky", who, held)

    server.service.write(again).result()
    assert "It was withdrawn." not in words(browser, row["id"])
    assert server.rows(Account, id=row["id"])[0]["revoked_reason"] is None


def test_an_account_that_ends_soon_says_when(server: AppServer, alice: Person, browser: ApiClient) -> None:
    made = server.connect(alice, "linkedin", tokens=Tokens("a", None, server.clock.now_ms() + 3 * 86_400_000 + 60_000))
    change(server, made["id"], status="expiring")
    page = words(browser, made["id"])
    assert "Expires soon Access expires in 3 days . Reconnect this account before then." in page, page
    assert "Reconnect the account before then" in page
    assert "LinkedIn is not set up on this server" in page


def test_scopes_that_its_owner_did_not_allow_are_named(server: AppServer, alice: Person, browser: ApiClient) -> None:
    asked = platforms.PLATFORMS["threads"].oauth.scopes  # type: ignore[union-attr]
    some = server.connect(alice, "threads", tokens=Tokens("a", "b", private={"scopes": list(asked[:-1])}))
    assert f"Some permissions are missing: {asked[-1]} ." in words(browser, some["id"])
    every = server.connect(alice, "threads", tokens=Tokens("a", "b", private={"scopes": list(asked)}))
    assert "permissions are missing" not in words(browser, every["id"])
    unknown = server.connect(alice, "threads", tokens=Tokens("a", "b"))
    assert "permissions are missing" not in words(browser, unknown["id"])


def test_what_a_platform_calls_an_account_stays_text(server: AppServer, alice: Person, browser: ApiClient) -> None:
    refused = json.dumps({"code": "platform_auth_failed", "message": MARKUP, "at": 1})
    change(server, alice.bluesky, display_name=MARKUP, attention=refused)
    for path in ("/accounts", f"/accounts/{alice.bluesky}", f"/accounts/{alice.bluesky}/disconnect", "/"):
        page = browser.get(path).text
        assert "<img" not in page, path
        assert MARKUP in html.unescape(page), path


# --- Boards ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def boarded(
    make_server: Callable[..., AppServer], lab: SimulatorThread, monkeypatch: pytest.MonkeyPatch
) -> ConnectSession:
    """An account at the fake Pinterest, which has boards."""
    office = open_connect_session(make_server, lab, monkeypatch, "pinterest")
    office.login_exists(boards=["Bread", MARKUP])
    assert office.connect().status_code == 201
    return office


def test_a_default_board_is_chosen_from_those_that_the_platform_lists(boarded: ConnectSession) -> None:
    (row,) = boarded.rows()
    path = f"/accounts/{row['id']}/board"
    assert f'href="{path}"' in boarded.browser.get(f"/accounts/{row['id']}").text
    assert f'href="{path}"' in boarded.browser.get(f"/connect/pinterest/done?account={row['id']}").text
    page = boarded.browser.get(path).text
    assert "<img" not in page
    board = re.search(r'<option value="(\d+)"[^>]*>&lt;img', page)
    assert board is not None, page
    sent = send_form(boarded.browser, path, board=board[1])
    assert sent.headers["Location"] == f"/accounts/{row['id']}"
    assert MARKUP in words(boarded.browser, row["id"])
    assert f'<option value="{board[1]}" selected' in boarded.browser.get(path).text


def test_a_long_message_is_cut_to_what_a_browser_keeps(
    make_server: Callable[..., AppServer], lab: SimulatorThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    office = open_connect_session(make_server, lab, monkeypatch, "pinterest")
    name = "خبز" * 210
    office.login_exists(boards=[name])
    assert office.connect().status_code == 201
    path = f"/accounts/{office.rows()[0]['id']}/board"
    board = re.search(r'<option value="(\d+)"', office.browser.get(path).text)
    assert board is not None
    sent = send_form(office.browser, path, board=board[1])
    assert len(sent.headers["Set-Cookie"].partition(";")[0]) <= 4096
    assert f"now go to “{name[:500]}" in follow_notice(office.browser, sent)


@pytest.mark.parametrize("board", ["", "1", "<b>", "9" * 5000])
def test_what_is_no_board_of_the_account_is_refused_on_the_page(boarded: ConnectSession, board: str) -> None:
    (row,) = boarded.rows()
    refused = send_form(boarded.browser, f"/accounts/{row['id']}/board", board=board)
    assert (refused.status_code, 'role="alert"' in refused.text, "Bread" in refused.text) == (400, True, True)


def test_a_platform_that_lists_no_boards_now_is_told_on_the_page(boarded: ConnectSession) -> None:
    (row,) = boarded.rows()
    boarded.server.lab.lab.faults.add([{"fault": "status:503", "platform": "pinterest", "operation": "*board*"}])
    with boarded.browser.expecting_failure():
        answer = boarded.browser.get(f"/accounts/{row['id']}/board")
    assert (answer.status_code, 'role="alert"' in answer.text) == (503, True)
    assert f'href="/accounts/{row["id"]}"' in answer.text


def test_an_account_of_a_platform_without_boards_has_no_such_page(browser: ApiClient, alice: Person) -> None:
    assert error_of(browser.get(f"/accounts/{alice.bluesky}/board"))["rule"] == "account.platform"
    assert error_of(send_form(browser, f"/accounts/{alice.bluesky}/board", board="1"))["rule"] == "account.platform"
