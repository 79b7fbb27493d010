"""The accounts in the browser: what is wrong with one comes with its remedy, and none is lost by one click."""

from __future__ import annotations

import pytest

from socialpub.base.runtime import iso
from socialpub.domain.people import signin
from socialpub.store.db import Tx
from socialpub.store.models import Account
from tests.domain.accounts.connect_kit import sign_in
from tests.kit import Api, Person, Server


@pytest.fixture
def browser(server: Server, alice: Person) -> Api:
    return sign_in(server, alice.organization)


def send(browser: Api, path: str, **fields: str):
    return browser.post(path, data={"csrf_token": browser.headers["X-CSRF-Token"]} | fields)


def schedule(server: Server, alice: Person, count: int, minutes: int = 60) -> list[str]:
    made = []
    for number in range(count):
        body = {"text": f"later {number}", "targets": [{"accountId": alice.bluesky}]}
        body["scheduledAt"] = iso(server.clock.now_ms() + minutes * 60_000)
        made.append(alice.api.post("/v1/posts", json=body).json()["results"][0]["postId"])
    return made


def status_of(alice: Person, posts: list[str]) -> set[str]:
    return {alice.api.get(f"/v1/posts/{post}").json()["status"] for post in posts}


def test_disconnecting_says_what_will_happen_and_keeps_what_waits(server: Server, alice: Person, browser: Api) -> None:
    posts = schedule(server, alice, 3)
    path = f"/accounts/{alice.bluesky}/disconnect"
    assert f'action="{path}"' not in browser.get("/accounts").text
    page = browser.get(path).text
    assert "3 posts wait for it" in page
    assert "Cancel 3 scheduled posts" in page
    assert 'value="keep" id="keep" checked' in page
    assert send(browser, path).status_code == 303
    assert status_of(alice, posts) == {"queued"}
    assert browser.get(path).status_code == 404


def test_what_waits_goes_out_once_the_account_is_connected_again(server: Server, alice: Person, browser: Api) -> None:
    posts = schedule(server, alice, 2)
    row = server.rows(Account, id=alice.bluesky)[0]
    send(browser, f"/accounts/{alice.bluesky}/disconnect")
    assert server.rows(Account, id=alice.bluesky)[0]["secret"] is None

    def connect_again(tx: Tx) -> None:
        again = {"secret": row["secret"], "disconnected_at": None}
        Account.update(again).where(Account.id == alice.bluesky).execute()

    server.service.write(connect_again).result()
    server.skip(3601)
    assert {server.wait(post, "published", "rejected")["status"] for post in posts} == {"published"}


def test_what_comes_due_meanwhile_is_refused_with_its_reason(server: Server, alice: Person, browser: Api) -> None:
    posts = schedule(server, alice, 1)
    send(browser, f"/accounts/{alice.bluesky}/disconnect")
    server.skip(3601)
    assert "account.disconnected" in server.wait(posts[0], "rejected", "failed")["error"]


def test_who_wants_to_cancels_what_waits(server: Server, alice: Person, browser: Api) -> None:
    posts = schedule(server, alice, 2)
    send(browser, f"/accounts/{alice.bluesky}/disconnect", posts="cancel")
    assert status_of(alice, posts) == {"canceled"}


def test_it_asks_for_the_password_when_the_sign_in_is_older_than_ten_minutes(
    server: Server, alice: Person, browser: Api
) -> None:
    server.clock.skip(signin.FRESH_MS / 1000 + 1)
    path = f"/accounts/{alice.bluesky}/disconnect"
    assert 'name="password"' in browser.get(path).text
    refused = send(browser, path)
    assert (refused.status_code, 'role="alert"' in refused.text) == (403, True)
    assert server.rows(Account, id=alice.bluesky)[0]["disconnected_at"] is None


@pytest.mark.parametrize(("status", "words"), [("revoked", "Access lost"), ("expiring", "Expires soon")])
def test_an_account_in_trouble_offers_to_be_connected_again_first(
    server: Server, alice: Person, browser: Api, status: str, words: str
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


def test_an_account_is_connected_into_the_profile_that_is_chosen(server: Server, alice: Person, browser: Api) -> None:
    assert '<a href="/connect/bluesky">' in browser.get("/accounts").text
    second = browser.post("/v1/profiles", json={"name": "Second"}).json()["id"]
    page = browser.get("/accounts").text
    assert 'formaction="/connect/bluesky"' in page
    assert f'<option value="{second}">Second</option>' in page
    made = server.lab.lab.add_account("bluesky", handle="second.test")
    form = {"handle": made["handle"], "password": made["appPassword"], "profile": second}
    assert f'name="profile" value="{second}"' in browser.get(f"/connect/bluesky?profile={second}").text
    sent = send(browser, "/connect/bluesky", **form)
    assert sent.status_code == 303
    assert server.rows(Account, platform_account_id=made["did"])[0]["profile"] == second


def test_what_was_typed_to_connect_comes_back_after_signing_in_without_the_password(server: Server) -> None:
    api = server.api()
    sent = {"page": "/connect/bluesky", "handle": "alice.test", "password": "abcd-efgh", "profile": ""}
    page = api.post("/connect/bluesky", data=sent).text
    assert "alice.test" in page
    assert "abcd-efgh" not in page
    assert 'name="next" value="/connect/bluesky?kept=1"' in page


def test_a_member_sees_accounts_and_changes_none(server: Server, alice: Person) -> None:
    member = sign_in(server, alice.organization, role="member", name="dave")
    page = member.get("/accounts").text
    assert "Connected" in page
    assert "disconnect" not in page
    assert "/connect/" not in page
    assert member.get(f"/accounts/{alice.bluesky}/disconnect").status_code == 403


def test_an_account_of_another_organization_is_not_there(server: Server, browser: Api) -> None:
    mallory = server.person("Mallory")
    server.connect_bluesky(mallory)
    path = f"/accounts/{mallory.bluesky}/disconnect"
    assert browser.get(path).status_code == 404
    assert send(browser, path).status_code == 404
