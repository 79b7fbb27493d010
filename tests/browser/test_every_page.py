"""Every page of the route table, in a server that was lived in: nobody is kept out of anything."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from tests.browser import worlds
from tests.browser.chromium import Tab
from tests.browser.looks import ALIKE, CONTRAST, STICKING_OUT, UNNAMED, hold
from tests.browser.screenshots import View, sign_in, views
from tests.browser.worlds import World

pytestmark = pytest.mark.browser

PHONE, WIDE = 390, 1280

# What can be pressed and is not wholly on the screen from left to right: whoever looks would have to find it.
OUT_OF_SIGHT = """
[...document.querySelectorAll('main a, main button, main input, main select, main textarea, main summary')]
  .filter((node) => node.checkVisibility({visibilityProperty: true}) && !node.closest('.unseen'))
  .map((node) => [node, node.getBoundingClientRect()])
  .filter(([, box]) => box.width && (box.left < -0.5 || box.right > document.documentElement.clientWidth + 0.5))
  .map(([node]) => node.outerHTML.slice(0, 100))
"""

# What the keyboard should come to; of radio buttons of one name it comes to one.
PRESSABLE = """
[...document.querySelectorAll('a[href], button, input:not([type=hidden]), select, textarea, summary')]
  .filter((node) => node.checkVisibility({visibilityProperty: true}) && !node.disabled && node.tabIndex >= 0)
  .filter((node) => node.type !== 'radio' || node.checked)
  .map((node, number) => { node.dataset.pressable = number; return number; })
"""


@pytest.fixture(scope="module")
def full(tab: Tab) -> Iterator[World]:
    with worlds.full() as world:
        sign_in(tab, world)
        yield world


def views_inside(world: World) -> list[View]:
    return [view for view in views(world) if not view.is_open]


def look_at(tab: Tab, world: World, view: View) -> None:
    """The page as everybody meets it: by ear, on a phone, in the dark; and nobody else is told of it."""
    tab.show(f"{world.url}{view.address}", width=PHONE)
    on_phone = {
        "unnamed": tab.ask(UNNAMED),
        "alike": tab.ask(ALIKE),
        "barriers": tab.barriers(),
        "sticking_out": tab.ask(STICKING_OUT),
        "out_of_sight": tab.ask(OUT_OF_SIGHT),
        "too_wide": tab.ask(f"[document.documentElement.scrollWidth].filter((width) => width > {PHONE})"),
    }
    is_error = tab.ask("performance.getEntriesByType('navigation')[0].responseStatus") >= 400  # which is a page too
    tab.look(width=WIDE, dark=True)
    hold(
        f"{view.name} ({view.address})",
        **on_phone,
        contrast=tab.ask(CONTRAST),
        sticking_out_wide=tab.ask(STICKING_OUT),
        out_of_sight_wide=tab.ask(OUT_OF_SIGHT),
        complaints=tab.complaints[1:] if is_error else tab.complaints,
        elsewhere=[url for url in tab.asked if urlsplit(url).netloc != urlsplit(world.url).netloc],
    )


def test_nobody_is_kept_out_of_any_page_and_no_page_asks_anybody_else(tab: Tab, full: World) -> None:
    seen = views_inside(full)
    assert len(seen) > 30
    for view in seen:
        look_at(tab, full, view)


def test_the_keyboard_alone_reaches_everything_on_every_page(tab: Tab, full: World) -> None:
    for view in views_inside(full):
        tab.show(f"{full.url}{view.address}", width=WIDE)
        wanted = set(tab.ask(PRESSABLE))
        for _ in range(len(wanted) + 20):  # tables and blocks of text that scroll are come to as well
            tab.press("Tab")
            reached = tab.ask("document.activeElement.dataset.pressable")
            wanted.discard(None if reached is None else int(reached))
            if not wanted:
                break
        missed = [tab.ask(f"document.querySelector('[data-pressable=\"{number}\"]').outerHTML") for number in wanted]
        hold(f"{view.name} ({view.address})", missed=missed)
