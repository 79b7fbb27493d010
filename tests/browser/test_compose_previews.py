"""Previews beside the form of the composer, with many accounts."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.support.app_server import AppServer, Person
from tests.support.browser.chromium import BrowserTab
from tests.support.browser.page_checks import check_page
from tests.support.browser.sign_in import open_signed_in

pytestmark = pytest.mark.browser


def test_previews_stay_beside_the_form_and_scroll_by_keyboard(
    server: AppServer, alice: Person, tab: BrowserTab
) -> None:
    for number in range(12):
        server.connect(alice, ("threads", "linkedin", "twitter")[number % 3], f"Bakery {number}")
    open_signed_in(tab, server, alice)
    tab.show(f"{server.url}/compose", width=1280)
    tab.page.locator("#text").fill("Bread from six o'clock. " * 10)
    tab.page.get_by_role("button", name="Select all").click()
    expect(tab.page.locator(".preview")).to_have_count(4)
    tab.page.locator(".accounts > li").last.scroll_into_view_if_needed()
    previews = tab.page.locator(".seen")
    expect(previews.locator("h2")).to_be_in_viewport()
    expect(previews.locator(".preview").last).not_to_be_in_viewport(ratio=1)
    previews.focus()
    tab.press("End")
    expect(previews.locator(".preview").last).to_be_in_viewport(ratio=1)
    expect(tab.page.locator(".accounts > li").last).to_be_in_viewport()
    check_page(tab, "compose-many")
    tab.page.goto("about:blank")
