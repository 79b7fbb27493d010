"""Platform app pages in a browser: entering, using and removing an app."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from socialpub.simulator.oauth import CLIENT_ID, CLIENT_SECRET
from socialpub.simulator.server import SimulatorThread
from socialpub.store.schema.models import PlatformApp
from tests.support.app_server import AppServer
from tests.support.browser.chromium import BrowserTab
from tests.support.browser.page_checks import check_page
from tests.support.connect_flow import OAUTH, ConnectSession, open_connect_session

pytestmark = pytest.mark.browser


@pytest.fixture
def office(
    make_server: Callable[..., AppServer], lab: SimulatorThread, monkeypatch: pytest.MonkeyPatch, tab: BrowserTab
) -> Iterator[ConnectSession]:
    """Alice owns a server whose settings name one app, and has an account at the platform of another."""
    sites = {each: {"api_base": lab.origin(each)} for each in OAUTH}
    sites["twitter"] |= {"client_id": "an-app-of-the-settings", "client_secret": "its-secret"}
    sites["bluesky"] = {"api_base": lab.origin("bluesky")}
    found = open_connect_session(make_server, lab, monkeypatch, "threads", platforms=sites)
    found.upstream.consent.mode = "form"
    found.server.watch.secrets.add(CLIENT_SECRET)
    found.login_exists()
    tab.page.context.clear_cookies()
    tab.send("Network.setCookie", name="socialpub_session", value="alice", url=found.server.url)
    yield found
    found.upstream.consent.mode = "approve"


def test_an_app_is_typed_in_and_an_account_connected_with_it(tab: BrowserTab, office: ConnectSession) -> None:
    tab.show(f"{office.server.url}/accounts", width=1000)
    tab.click('a[href="/settings/apps/threads"]')
    assert tab.text(".copy code") == office.callback
    check_page(tab, "apps-form-empty")
    tab.fill(client_id=CLIENT_ID, client_secret="not-the-secret")
    tab.click("main form.form button")
    assert "refuses the app" in tab.text("[role=alert]")
    tab.complaints.clear()  # the answer's status is among them
    check_page(tab, "apps-form-refused")
    assert office.server.rows(PlatformApp) == []
    tab.fill(client_secret=CLIENT_SECRET)
    tab.click("main form.form button")
    assert "Threads accepts this app." in tab.text(".notice")
    tab.reload()
    assert tab.page.locator(".notice").count() == 0
    assert CLIENT_SECRET not in tab.ask("document.documentElement.outerHTML")
    check_page(tab, "apps-form-used")
    tab.click('a[href="/connect/threads"]')
    tab.click("#go")
    tab.click("#allow")
    assert tab.text("h1") == "Connected"
    assert len(office.rows()) == 1


def test_an_app_is_removed_on_a_page_that_says_what_will_stop(tab: BrowserTab, office: ConnectSession) -> None:
    fields = {"csrf_token": office.browser.headers["X-CSRF-Token"], "client_id": CLIENT_ID}
    office.browser.post("/settings/apps/threads", data=fields | {"client_secret": CLIENT_SECRET})
    office.upstream.consent.mode = "approve"
    assert office.connect().status_code == 201
    tab.show(f"{office.server.url}/settings", width=1000)
    tab.click('a[href="/settings/apps"]')
    check_page(tab, "apps-list")
    tab.click('a[href="/settings/apps/threads"]')
    tab.click('a[href="/settings/apps/threads/remove"]')
    assert "1 connected account keeps working until its access must be renewed" in tab.text("main")
    check_page(tab, "apps-remove")
    tab.click("button.danger")
    assert tab.ask("location.pathname") == "/settings/apps"
    assert "app removed" in tab.text(".notice")
    tab.back()
    tab.complaints.clear()  # 404: there is no such app any more
    assert office.server.rows(PlatformApp) == []


def test_an_app_of_the_settings_says_so(tab: BrowserTab, office: ConnectSession) -> None:
    tab.show(f"{office.server.url}/settings/apps/twitter", width=1000)
    assert "They override values entered here" in tab.text(".panel")
    assert tab.page.locator("main form.form").count() == 0
    check_page(tab, "apps-form-settings")
    tab.show(f"{office.server.url}/settings/apps/tiktok", width=1000)
    check_page(tab, "apps-form-off")


def test_the_keyboard_alone_types_an_app_in(tab: BrowserTab, office: ConnectSession) -> None:
    tab.show(f"{office.server.url}/settings/apps/threads", width=390)
    for typed, name in ((CLIENT_ID, "client_id"), (CLIENT_SECRET, "client_secret")):
        for _ in range(40):
            if tab.ask("document.activeElement.name") == name:
                break
            tab.press("Tab")
        assert tab.ask("getComputedStyle(document.activeElement).outlineWidth") == "3px"
        tab.page.keyboard.type(typed)
    with tab.page.expect_event("load"):
        tab.press("Enter")
    assert "Threads accepts this app." in tab.text(".notice")
