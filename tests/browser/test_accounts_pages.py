"""Account pages in a browser: connecting, reconnecting, default boards, keyboard use."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from socialpub.base.runtime import format_iso
from socialpub.domain.accounts import tokens
from socialpub.store.database import Tx
from socialpub.store.schema.models import Account, ApiKey, Profile
from tests.support.browser.chromium import BrowserTab
from tests.support.browser.page_checks import check_page
from tests.support.connect_flow import ConnectSession

pytestmark = pytest.mark.browser

LONG = "Donaudampfschifffahrtsgesellschaftskapitaen" * 4


@pytest.fixture
def with_second(open_: Callable[[str], ConnectSession]) -> Callable[[str], ConnectSession]:
    def office(name: str) -> ConnectSession:
        """The same with a second profile."""
        opened = open_(name)
        assert opened.browser.post("/v1/profiles", json={"name": "Second"}).status_code == 201
        return opened

    return office


def second(office: ConnectSession) -> str:
    return str(office.server.rows(Profile, name="Second")[0]["id"])


def begin(tab: BrowserTab, office: ConnectSession, name: str) -> None:
    """From the accounts into the second profile, by clicks."""
    tab.show(f"{office.server.url}/accounts", width=1000)
    tab.fill(profile=second(office))
    tab.click(f'button[formaction="/connect/{name}"]')


def test_accounts_of_two_kinds_are_connected_into_the_second_profile(
    tab: BrowserTab, with_second: Callable[[str], ConnectSession]
) -> None:
    office = with_second("threads")
    office.login_exists()
    begin(tab, office, "threads")
    tab.click("#go")
    tab.click("#allow")
    assert tab.text("h1") == "Connected"
    made = office.server.lab.lab.add_account("bluesky", handle="second-profile.test")
    begin(tab, office, "bluesky")
    tab.fill(handle=made["handle"], password=made["appPassword"])
    tab.click("main form[method=post] button")
    assert tab.text("h1") == "Connected"
    rows = office.server.rows(Account)
    assert [(row["platform"], row["profile"]) for row in rows] == [
        ("threads", second(office)),
        ("bluesky", second(office)),
    ]
    tab.click("main a.button[href='/accounts']")
    check_page(tab, "accounts-two")
    tab.click(f'a[href="/accounts/{rows[1]["id"]}"]')
    assert "Second" in tab.text(".facts")
    check_page(tab, "account-new")


def test_a_revoked_account_is_connected_again_and_its_posts_go_out(
    tab: BrowserTab, with_second: Callable[[str], ConnectSession]
) -> None:
    office = with_second("threads")
    made = office.login_exists()
    begin(tab, office, "threads")
    tab.click("#go")
    tab.click("#allow")
    (row,) = office.rows()
    posts = [schedule(office, row["id"], number) for number in range(3)]
    service = office.server.service
    said = "Error validating access token: the user has removed the app, or changed the password since."
    service.write(lambda tx: tokens.mark_revoked(service, tx, row["id"], said)).result()
    tab.show(f"{office.server.url}/", width=1000)
    tab.show(f"{office.server.url}/accounts", width=1000)
    tab.click(f'a[href="/accounts/{row["id"]}"]')
    assert tab.text(".panel .state") == "Access expired"
    assert said in tab.text(".panel")
    check_page(tab, "account-revoked")
    tab.click(f'.panel a[href="/connect/threads?profile={second(office)}"]')
    tab.click("#go")
    tab.click("#allow")
    assert tab.text("h1") == "Connected"
    (again,) = office.rows()
    assert (again["id"], again["status"], again["platform_account_id"]) == (
        row["id"],
        "active",
        made["platformAccountId"],
    )
    tab.show(f"{office.server.url}/accounts/{row['id']}", width=1000)
    assert "3 posts" in tab.text(".facts")
    office.server.skip(3601)
    assert {office.server.wait(post, "published", "rejected", "failed")["status"] for post in posts} == {"published"}
    tab.reload()
    assert "later" in tab.text(".facts")


def schedule(office: ConnectSession, account: str, number: int) -> str:
    body = {"text": f"later {number}", "targets": [{"accountId": account}]}
    body["scheduledAt"] = format_iso(office.server.clock.now_ms() + 3_600_000)
    return str(office.alice.api.post("/v1/posts", json=body).json()["results"][0]["postId"])


def test_an_account_with_troubles_and_long_words_is_still_clear(
    tab: BrowserTab, with_second: Callable[[str], ConnectSession]
) -> None:
    office = with_second("threads")
    made = office.server.connect(office.alice, "threads")
    said = json.dumps({"code": "platform_auth_failed", "message": f"{LONG} {LONG}", "at": 1_795_176_000_000})

    def hurt(tx: Tx) -> None:
        soon = office.server.clock.now_ms() + 3 * 86_400_000
        Account.update(display_name=LONG, attention=said, status="expiring", ends_at=soon).where(
            Account.id == made["id"]
        ).execute()

    office.server.service.write(hurt).result()
    office.alice.api.post("/v1/posts", json={"text": LONG, "targets": [{"accountId": made["id"]}]})
    tab.show(f"{office.server.url}/accounts/{made['id']}", width=1000)
    check_page(tab, "account-troubled")
    tab.page.locator("main .more-menu summary").click()
    check_page(tab, "account-menu")
    tab.click('a[href$="/disconnect"]')
    check_page(tab, "account-disconnect-long")


def test_a_default_board_is_chosen_by_clicks(tab: BrowserTab, with_second: Callable[[str], ConnectSession]) -> None:
    office = with_second("pinterest")
    office.login_exists(boards=["Bread", "Cakes for " + LONG])
    begin(tab, office, "pinterest")
    tab.click("#go")
    tab.click("#allow")
    (row,) = office.rows()
    tab.click(f'a[href="/accounts/{row["id"]}/board"]')
    check_page(tab, "account-board")
    tab.fill(board=str(tab.ask("document.querySelector('#field-board option:last-child').value")))
    tab.click("main form.form button")
    assert "Cakes for" in tab.text(".notice")
    assert "Cakes for" in tab.text(".facts")
    tab.back()
    tab.page.go_forward()
    check_page(tab, "account-with-board")


def test_a_key_is_revoked_and_a_profile_deleted_by_clicks(
    tab: BrowserTab, with_second: Callable[[str], ConnectSession]
) -> None:
    office = with_second("threads")
    tab.show(f"{office.server.url}/settings/keys", width=390)
    tab.click(f'a[href="/settings/keys/{office.alice.key_id}/revoke"]')
    tab.click("button.danger")
    assert "Key revoked" in tab.text(".notice")
    tab.reload()
    assert office.server.rows(ApiKey)[0]["revoked_at"] is not None
    tab.click('a[href="/settings/profiles"]')
    tab.click(f'a[href="/settings/profiles/{second(office)}"]')
    tab.click("button.danger")
    assert "Profile deleted" in tab.text(".notice")
    assert tab.page.get_by_text("Second").count() == 0


def test_the_keyboard_alone_reaches_every_action_of_an_account(
    tab: BrowserTab, with_second: Callable[[str], ConnectSession]
) -> None:
    office = with_second("threads")
    made = office.server.connect(office.alice, "threads")
    tab.show(f"{office.server.url}/accounts/{made['id']}", width=390)
    wanted = {f"/connect/threads?profile={office.alice.profile}", f"/accounts/{made['id']}/disconnect"}
    reached = set()
    for _ in range(40):
        tab.press("Tab")
        if tab.ask("document.activeElement.matches('main .more-menu:not([open]) summary')"):
            tab.press("Enter")
        reached.add(tab.ask("document.activeElement.getAttribute('href')"))
    assert wanted <= reached
