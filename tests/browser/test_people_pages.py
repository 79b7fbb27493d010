"""The first owner in a real browser: from the set-up link to a key, every page looked at on the way."""

from __future__ import annotations

import pytest

from socialpub.domain.identity import users
from socialpub.store.schema.models import ApiKey, Device, Session
from tests.browser.chromium import Tab
from tests.browser.looks import seen
from tests.kit import Server

pytestmark = pytest.mark.browser

FIRST = {"organization": "Bakery", "email": "alice@example.com"}
PASSWORD = "correct horse battery"


def test_the_first_owner_sets_up_mints_a_key_signs_out_and_in_again(server: Server, tab: Tab) -> None:
    token = users.create_setup_token(server.service)
    tab.show(f"{server.url}/setup/{token}", width=1000)
    seen(tab, "setup")
    tab.fill(**FIRST, password="short")
    tab.ask("document.querySelector('main form').noValidate = true")
    tab.click("main form button")
    assert tab.ask("document.querySelector('[role=alert]').textContent")
    tab.complaints.clear()  # the answer's status is among them
    seen(tab, "setup-wrong")
    tab.fill(**FIRST, password=PASSWORD)
    tab.click("main form button")
    assert tab.text("h1") == "Bakery"
    seen(tab, "overview-first")
    tab.click("main a[href='/settings/keys']")
    seen(tab, "keys-none")
    tab.fill(name="shop")
    tab.click('form[action="/settings/keys"] button')
    shown = tab.text(".notice code")
    (row,) = server.rows(ApiKey)
    assert shown.startswith("svc_live_")
    assert shown.endswith(row["last4"])
    seen(tab, "minted")
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
    seen(tab, "login-wrong")
    tab.fill(email=FIRST["email"], password=PASSWORD)
    tab.click("main form button")
    assert tab.ask("document.querySelector('h1').textContent") == "Bakery"
    assert shown not in tab.ask("document.documentElement.outerHTML")
    seen(tab, "home")
    tab.menu()
    tab.click('button[formaction="/logout/everywhere"]')
    assert tab.ask("location.pathname") == "/login"
    assert (server.rows(Session), server.rows(Device)) == ([], [])
