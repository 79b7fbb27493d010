"""Signed-in browser tab on a given page."""

from __future__ import annotations

from tests.support.app_server import AppServer, Person
from tests.support.browser.chromium import BrowserTab
from tests.support.connect_flow import sign_in


def open_signed_in(tab: BrowserTab, server: AppServer, person: Person) -> None:
    """Signed in."""
    sign_in(server, person.organization)
    tab.send("Network.setCookie", name="socialpub_session", value="alice", url=server.url)
