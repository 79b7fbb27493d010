"""The docs in a real browser: they fit a phone, can be read in light and dark and by keyboard, and ask nobody else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browser.chromium import Tab, chromium
from tests.kit import Server

pytestmark = pytest.mark.browser

LONG = "/docs/rules/" + "targets.0." + "x" * 180
PAGES = [
    "/docs",
    "/docs/reference",
    "/docs/events",
    "/docs/settings",
    "/docs/errors/validation_failed",
    "/docs/rules/bluesky.text.max_graphemes",
    LONG,
    "/nothing-here",
]

# For every element with text of its own: the contrast of that text against what is behind it, by WCAG's formula.
CONTRAST = """
(() => {
  const channel = (c) => { c /= 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    throw new Error('nothing is painted behind the text');
  };
  const found = [];
  for (const node of document.querySelectorAll('body *')) {
    if (![...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim())) continue;
    const [a, b] = [light(parse(getComputedStyle(node).color)), light(behind(node))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) found.push(`${node.tagName} ${ratio.toFixed(2)} ${node.textContent.slice(0, 40)}`);
  }
  return found;
})()
"""

# Elements that stick out to the right of the screen and are not inside something that scrolls by itself.
STICKING_OUT = """
[...document.querySelectorAll('body *')]
  .filter((node) => !node.closest('.scroll, pre, .skip, .unseen'))
  .filter((node) => node.getBoundingClientRect().right > document.documentElement.clientWidth + 0.5)
  .map((node) => `${node.tagName}.${node.className} ${node.textContent.trim().slice(0, 40)}`)
"""


@pytest.fixture(scope="module")
def tab() -> Iterator[Tab]:
    with chromium() as found:
        yield found


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_no_page_is_wider_than_the_screen(server: Server, tab: Tab, width: int) -> None:
    for path in PAGES:
        tab.show(server.url + path, width=width)
        assert tab.ask("document.documentElement.clientWidth") == width
        assert tab.ask("document.documentElement.scrollWidth") <= width, path
        assert tab.ask(STICKING_OUT) == [], path


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_text_can_be_read(server: Server, tab: Tab, dark: bool) -> None:
    backgrounds = set()
    for path in PAGES:
        tab.show(server.url + path, width=1280, dark=dark)
        tab.ask("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
        assert tab.ask(CONTRAST) == [], path
        backgrounds.add(tab.ask("getComputedStyle(document.body).backgroundColor"))
    assert backgrounds == {"rgb(17, 22, 29)" if dark else "rgb(255, 255, 255)"}


def test_a_page_asks_this_server_only_and_breaks_no_policy(server: Server, tab: Tab) -> None:
    for path in PAGES[:-1]:
        tab.show(server.url + path, width=1280)
        assert tab.complaints == [], path
        assert {url for url in tab.asked if not url.startswith(server.url + "/")} == set(), path


def test_the_keyboard_reaches_the_content_first_and_shows_where_it_is(server: Server, tab: Tab) -> None:
    tab.show(server.url + "/docs/reference", width=1280)
    tab.press("Tab")
    assert tab.ask("document.activeElement.textContent") == "Skip to the content"
    assert tab.ask("document.activeElement.getBoundingClientRect().left") >= 0
    tab.press("Tab")
    assert tab.ask("document.activeElement.textContent") == "socialpub"
    assert tab.ask("getComputedStyle(document.activeElement).outlineWidth") == "3px"


def test_a_path_with_markup_in_it_runs_nothing(server: Server, tab: Tab) -> None:
    tab.show(server.url + "/docs/rules/%3Cimg%20src=x%20onerror=%22document.title='run'%22%3E", width=1280)
    assert "run" not in tab.ask("document.title").split("·")[-1]
    assert tab.ask("document.images.length") == 0
