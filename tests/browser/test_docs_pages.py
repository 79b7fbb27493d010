"""Documentation in a browser: screen width, contrast, keyboard, no foreign requests."""

from __future__ import annotations

import pytest

from tests.support.app_server import AppServer
from tests.support.browser.chromium import BrowserTab
from tests.support.browser.page_checks import CONTRAST, STICKING_OUT, check_page

pytestmark = pytest.mark.browser

LONG = "/docs/rules/" + "targets.0." + "x" * 180
PAGES = [
    "/docs",
    "/docs/guides/assistant",
    "/docs/reference",
    "/docs/reference/posts",
    "/docs/reference/operations/settlePost",
    "/docs/reference/schemas",
    "/docs/reference/schemas/Post",
    "/docs/events",
    "/docs/events/post.published",
    "/docs/settings",
    "/docs/errors/validation_failed",
    "/docs/rules/bluesky.text.max_graphemes",
    "/docs/platforms/bluesky",
    "/docs/platforms/facebook",
    "/docs/platforms/twitter",
    LONG,
    "/nothing-here",
]


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_no_page_is_wider_than_the_screen(server: AppServer, tab: BrowserTab, width: int) -> None:
    for path in PAGES:
        tab.show(server.url + path, width=width)
        assert tab.ask("document.documentElement.clientWidth") == width
        assert tab.ask("document.documentElement.scrollWidth") <= width, path
        assert tab.ask(STICKING_OUT) == [], path


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_text_can_be_read(server: AppServer, tab: BrowserTab, dark: bool) -> None:
    backgrounds = set()
    for path in PAGES:
        tab.show(server.url + path, width=1280, dark=dark)
        tab.ask("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
        assert tab.ask(CONTRAST) == [], path
        backgrounds.add(tab.ask("getComputedStyle(document.body).backgroundColor"))
    assert backgrounds == {"rgb(14, 16, 20)" if dark else "rgb(246, 247, 249)"}


def test_a_page_asks_this_server_only_and_breaks_no_policy(server: AppServer, tab: BrowserTab) -> None:
    for path in PAGES[:-1]:
        tab.show(server.url + path, width=1280)
        assert tab.complaints == [], path
        assert {url for url in tab.asked if not url.startswith(server.url + "/")} == set(), path


def test_the_keyboard_reaches_the_content_first_and_shows_where_it_is(server: AppServer, tab: BrowserTab) -> None:
    tab.show(server.url + "/docs/reference", width=1280)
    tab.press("Tab")
    assert tab.ask("document.activeElement.textContent") == "Skip to content"
    assert tab.ask("document.activeElement.getBoundingClientRect().left") >= 0
    tab.press("Tab")
    assert tab.ask("document.activeElement.textContent") == "socialpub"
    assert tab.ask("getComputedStyle(document.activeElement).outlineWidth") == "3px"


def test_a_path_with_markup_in_it_runs_nothing(server: AppServer, tab: BrowserTab) -> None:
    tab.show(server.url + "/docs/rules/%3Cimg%20src=x%20onerror=%22document.title='run'%22%3E", width=1280)
    assert "run" not in tab.ask("document.title").split("·")[-1]
    assert tab.ask("document.images.length") == 0


@pytest.mark.parametrize("name", ["bluesky", "facebook", "tiktok"])
def test_a_platforms_page_bars_nobody(server: AppServer, tab: BrowserTab, name: str) -> None:
    tab.show(f"{server.url}/docs/platforms/{name}", width=1000)
    check_page(tab, f"docs-platform-{name}")
