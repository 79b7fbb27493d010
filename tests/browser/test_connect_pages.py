"""Connect pages in a browser: the platform's consent page and the way back."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from socialpub.domain.access.actor import build_operator
from socialpub.domain.identity import users
from socialpub.store.database import Tx
from socialpub.store.schema.models import Session
from tests.support.browser.chromium import BrowserTab
from tests.support.browser.page_checks import check_page
from tests.support.connect_flow import ConnectSession

pytestmark = pytest.mark.browser

EMAIL, PASSWORD = "alice@example.com", "correct horse battery"


def to_the_platform(tab: BrowserTab, office: ConnectSession) -> None:
    tab.show(f"{office.server.url}/accounts", width=1000)
    tab.click(f'a[href="/connect/{office.name}"]')
    tab.click("#go")
    assert tab.ask("location.origin") == office.server.lab.origin(office.name)


@pytest.mark.parametrize("name", ["threads", "instagram"])
def test_an_owner_who_agrees_comes_back_to_a_connected_account(
    tab: BrowserTab, open_: Callable[[str], ConnectSession], name: str
) -> None:
    office = open_(name)
    made = office.login_exists()
    tab.show(f"{office.server.url}/accounts", width=1000)
    check_page(tab, "accounts-empty")
    tab.click(f'a[href="/connect/{name}"]')
    check_page(tab, "start")
    tab.click("#go")
    assert tab.ask("location.origin") == office.server.lab.origin(name)
    check_page(tab, "consent")
    tab.click("#allow")
    assert tab.ask("location.pathname") == f"/connect/{name}/done"
    assert tab.ask("document.querySelector('h1').textContent") == "Connected"
    (row,) = office.rows()
    assert row["platform_account_id"] == made["platformAccountId"]
    assert tab.ask("document.querySelector('#account-id').textContent") == row["id"]
    check_page(tab, "done")
    tab.reload()
    assert tab.text("h1") == "Connected"
    tab.click("main a.button[href='/accounts']")
    check_page(tab, "accounts")


@pytest.mark.parametrize("name", ["threads", "facebook"])
def test_an_owner_who_refuses_comes_back_to_a_page_that_says_so(
    tab: BrowserTab, open_: Callable[[str], ConnectSession], name: str
) -> None:
    office = open_(name)
    office.login_exists()
    to_the_platform(tab, office)
    tab.click("#deny")
    assert "did not connect" in tab.ask("document.querySelector('main').textContent")
    assert office.rows() == []
    tab.complaints.clear()  # the answer's status is among them
    check_page(tab, "refused")
    tab.click("main a.button")
    assert tab.ask("location.pathname") == f"/connect/{name}"


def test_several_pages_are_connected_in_turn_and_one_is_disconnected(
    tab: BrowserTab, open_: Callable[[str], ConnectSession]
) -> None:
    office = open_("facebook")
    office.login_exists(pages=2)
    to_the_platform(tab, office)
    tab.click("#allow")
    assert tab.ask("document.querySelectorAll('button[name=choice]').length") == 2
    check_page(tab, "choose")
    tab.click("button[name=choice]")
    assert tab.ask("document.querySelector('h1').textContent") == "Connected"
    check_page(tab, "done-more")
    tab.click("#more")
    tab.click("p:last-of-type > button[name=choice]")
    first, second = office.rows()
    assert first["platform_account_id"] != second["platform_account_id"]
    tab.click("main a.button[href='/accounts']")
    tab.page.locator(f".more-menu:has(a[href*='{first['id']}']) summary").click()
    tab.click(f'a[href="/accounts/{first["id"]}/disconnect"]')
    assert [row["secret"] is None for row in office.rows()] == [False, False]
    check_page(tab, "disconnect")
    tab.click("button.danger")
    assert tab.ask("location.pathname") == "/accounts"
    assert "Account disconnected" in tab.text(".notice")
    tab.back()
    tab.complaints.clear()  # 404: there is no such account any more
    tab.show(f"{office.server.url}/accounts", width=1000)
    assert [row["secret"] is None for row in office.rows()] == [True, False]


def test_a_password_for_apps_is_typed_in_and_a_wrong_one_is_told(
    tab: BrowserTab, open_: Callable[[str], ConnectSession]
) -> None:
    office = open_("threads")
    office.name, base = "bluesky", office.server.url
    made = office.login_exists()
    tab.show(f"{base}/connect/bluesky", width=1000)
    check_page(tab, "fields")
    tab.fill(handle=made["handle"], password="wron-gwro-ngwr-ongw")
    tab.click("main form[method=post] button")
    assert tab.ask("document.querySelector('[role=alert]').textContent")
    tab.complaints.clear()
    check_page(tab, "fields-wrong")
    tab.fill(handle=made["handle"], password=made["appPassword"])
    tab.click("main form[method=post] button")
    assert tab.ask("document.querySelector('h1').textContent") == "Connected"
    assert [row["platform_account_id"] for row in office.rows()] == [made["did"]]


def test_signed_out_user_signs_in_and_connects_without_naming_the_last(
    tab: BrowserTab, open_: Callable[[str], ConnectSession]
) -> None:
    office = open_("threads")
    service, hash_ = office.server.service, users.hash_password(PASSWORD)

    def alices(tx: Tx) -> None:
        user = users.create(
            tx, build_operator(service, "test").within(office.alice.organization), EMAIL, "owner", hash_
        )
        Session.update(user=user["id"]).execute()

    service.write(alices).result()
    office.login_exists()
    to_the_platform(tab, office)
    service.write(lambda tx: Session.delete().execute()).result()
    tab.click("#allow")
    assert tab.ask("location.pathname") == "/login"
    check_page(tab, "login")
    tab.referrers.clear()
    tab.fill(email=EMAIL, password=PASSWORD)
    tab.click("main form[method=post] button")
    assert tab.ask("document.querySelector('h1').textContent") == "Connected", tab.ask("document.body.textContent")
    assert len(office.rows()) == 1
    assert tab.referrers == []
    assert not re.search("code=", tab.ask("document.documentElement.outerHTML"))


def test_the_keyboard_alone_connects(tab: BrowserTab, open_: Callable[[str], ConnectSession]) -> None:
    office = open_("threads")
    office.login_exists()
    tab.show(f"{office.server.url}/connect/threads", width=1000)
    for _ in range(20):
        tab.press("Tab")
        if tab.ask("document.activeElement.id") == "go":
            break
    assert tab.ask("document.activeElement.id") == "go"
    assert tab.ask("getComputedStyle(document.activeElement).outlineWidth") == "3px"
    with tab.page.expect_event("load"):
        tab.press("Enter")
    assert tab.ask("location.origin") == office.server.lab.origin("threads")
