"""Keyboard shortcuts in a browser, and acting on several posts by the keyboard alone."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.support.app_server import AppServer, Person
from tests.support.browser.chromium import BrowserTab
from tests.support.browser.page_checks import check_page
from tests.support.browser.sign_in import open_signed_in
from tests.support.publishing_state import publish_post

pytestmark = pytest.mark.browser


def schedule(alice: Person, text: str, minute: int) -> str:
    return publish_post(alice, text, scheduledAt=f"2098-03-04T10:{minute}:00Z")


def go(tab: BrowserTab, *keys: str) -> None:
    """Press keys of which the last one leads to another page."""
    with tab.page.expect_event("load"):
        for key in keys:
            tab.press(key)


def test_shortcuts_lead_to_pages_and_posts_but_not_from_fields(
    server: AppServer, alice: Person, tab: BrowserTab
) -> None:
    open_signed_in(tab, server, alice)
    schedule(alice, "Tulips", 10)
    newest = schedule(alice, "Crocuses", 20)
    tab.show(f"{server.url}/", width=1280)
    for keys, path in ((("g", "c"), "/calendar"), (("g", "p"), "/posts"), (("c",), "/compose")):
        go(tab, *keys)
        assert tab.ask("location.pathname") == path
        if path == "/compose":
            tab.page.locator("#content").focus()
    tab.press("/")
    expect(tab.page.locator("#search")).to_be_focused()
    tab.page.keyboard.type("gc?x")
    assert tab.ask("document.querySelector('#search').value") == "gc?x"
    tab.page.locator("#search").fill("tulip")
    go(tab, "Enter")
    assert tab.text(".pubs .text").startswith("Tulips")
    tab.page.locator("#status").select_option("published")  # the filters keep what is sought
    with tab.page.expect_event("load"):
        tab.page.get_by_role("button", name="Filter").click()
    assert tab.ask("new URL(location).searchParams.get('q')") == "tulip"
    tab.show(f"{server.url}/posts", width=1280)
    tab.press("?")
    expect(tab.page.locator("#keys")).to_be_visible()
    check_page(tab, "shortcuts")
    tab.press("Escape")
    expect(tab.page.locator("#keys")).to_be_hidden()
    tab.page.locator("#content").focus()
    tab.press("j")
    assert "Crocuses" in tab.ask("document.activeElement.textContent")
    tab.press("j")
    assert "Tulips" in tab.ask("document.activeElement.textContent")
    tab.press("k")
    go(tab, "e")
    assert tab.ask("location.pathname + location.search") == f"/compose?post={newest}"


def test_shortcuts_are_turned_off_in_every_window_of_a_browser(
    server: AppServer, alice: Person, tab: BrowserTab
) -> None:
    open_signed_in(tab, server, alice)
    tab.show(f"{server.url}/accounts", width=1280)
    other = tab.page.context.new_page()
    other.goto(f"{server.url}/posts")
    tab.press("?")
    tab.page.get_by_label("Use shortcuts in this browser").uncheck()
    tab.press("Escape")
    expect(other.get_by_label("Use shortcuts in this browser")).not_to_be_checked()
    other.close()
    for _ in range(2):
        for key in ("c", "/", "?", "g", "p", "j", "x"):
            tab.press(key)
        expect(tab.page.locator("#keys")).to_be_hidden()
        expect(tab.page.locator("#search")).not_to_be_focused()
        expect(tab.page.locator(".search kbd")).to_be_hidden()
        assert tab.ask("location.pathname") == "/accounts"
        tab.reload()
    tab.menu()
    tab.page.get_by_role("button", name="Keyboard shortcuts").click()
    check_page(tab, "shortcuts-off")
    tab.page.get_by_label("Use shortcuts in this browser").check()
    tab.press("Escape")
    tab.page.locator("#content").focus()
    go(tab, "c")
    assert tab.ask("location.pathname") == "/compose"


def test_several_posts_are_moved_and_canceled_by_the_keyboard(
    server: AppServer, alice: Person, tab: BrowserTab
) -> None:
    open_signed_in(tab, server, alice)
    posts = [schedule(alice, text, minute) for minute, text in ((10, "Tulips"), (20, "Crocuses"))]
    tab.show(f"{server.url}/posts", width=1280)
    bar = tab.page.locator("#bulk")
    expect(bar).to_be_hidden()
    for key in ("j", "x", "j", "x"):
        tab.press(key)
    expect(bar).to_be_visible()
    check_page(tab, "posts-selected")
    tab.page.get_by_role("button", name="1 day later").focus()
    go(tab, "Enter")
    assert "2 posts moved." in tab.text(".toast")
    days = {alice.api.get(f"/v1/posts/{post}").json()["scheduledAt"][:10] for post in posts}
    assert days == {"2098-03-05"}
    for key in ("j", "x"):
        tab.press(key)
    bar.locator("summary").focus()
    tab.press("Enter")
    tab.page.get_by_role("button", name="Cancel the selected posts").focus()
    go(tab, "Enter")
    assert "1 post canceled." in tab.text(".toast")
    assert [alice.api.get(f"/v1/posts/{post}").json()["status"] for post in posts] == ["queued", "canceled"]
