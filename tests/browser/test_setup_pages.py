"""First owner in a browser: set-up link, sign-in, first API key."""

from __future__ import annotations

import pytest

from socialpub.domain.identity import users
from socialpub.store.schema.models import ApiKey, Device, Session
from tests.support.app_server import AppServer
from tests.support.browser.chromium import BrowserTab
from tests.support.browser.page_checks import check_page

pytestmark = pytest.mark.browser

FIRST = {"organization": "Bakery", "email": "alice@example.com"}
PASSWORD = "correct horse battery"


def test_the_first_owner_sets_up_mints_a_key_signs_out_and_in_again(server: AppServer, tab: BrowserTab) -> None:
    token = users.create_setup_token(server.service)
    tab.show(f"{server.url}/setup/{token}", width=1000)
    check_page(tab, "setup")
    tab.fill(**FIRST, password="short")
    tab.ask("document.querySelector('main form').noValidate = true")
    tab.click("main form button")
    assert tab.ask("document.querySelector('[role=alert]').textContent")
    tab.complaints.clear()  # the answer's status is among them
    check_page(tab, "setup-wrong")
    tab.fill(**FIRST, password=PASSWORD)
    tab.click("main form button")
    assert tab.text("h1") == "Bakery"
    check_page(tab, "overview-first")
    tab.click("main a[href='/settings/keys']")
    check_page(tab, "keys-none")
    tab.fill(name="shop")
    tab.click('form[action="/settings/keys"] button')
    shown = tab.text(".notice code")
    (row,) = server.rows(ApiKey)
    assert shown.startswith("svc_live_")
    assert shown.endswith(row["last4"])
    check_page(tab, "minted")
    tab.reload()
    assert shown not in tab.page.content()
    assert len(server.rows(ApiKey)) == 1
    tab.menu()
    tab.click('form[action="/logout"] button')
    assert tab.ask("location.pathname") == "/login"
    tab.fill(email=FIRST["email"], password="wrong password!")
    tab.click("main form button")
    assert tab.ask("document.querySelector('[role=alert]').textContent")
    tab.complaints.clear()
    check_page(tab, "login-wrong")
    tab.fill(email=FIRST["email"], password=PASSWORD)
    tab.click("main form button")
    assert tab.ask("document.querySelector('h1').textContent") == "Bakery"
    assert shown not in tab.ask("document.documentElement.outerHTML")
    check_page(tab, "home")
    tab.menu()
    tab.click('button[formaction="/logout/everywhere"]')
    assert tab.ask("location.pathname") == "/login"
    assert (server.rows(Session), server.rows(Device)) == ([], [])
