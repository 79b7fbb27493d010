"""Browser checks run over every page of a server."""

from __future__ import annotations

from urllib.parse import urlsplit

from tests.support.browser.chromium import BrowserTab
from tests.support.browser.page_checks import ALIKE, CONTRAST, STICKING_OUT, UNNAMED, check_empty
from tests.support.browser.screenshots import PageView, page_views
from tests.support.browser.server_states import DashboardWorld

PHONE, WIDE = 390, 1280
PAGE_BYTES_MAX = 60_000
PAGE_BYTES = "performance.getEntriesByType('navigation').map((page) => page.decodedBodySize)"


# What can be pressed and is not wholly on the screen from left to right: whoever looks would have to find it.
OUT_OF_SIGHT = """
[...document.querySelectorAll('main a, main button, main input, main select, main textarea, main summary')]
  .filter((node) => node.checkVisibility({visibilityProperty: true}) && !node.closest('.unseen'))
  .map((node) => [node, node.getBoundingClientRect()])
  .filter(([, box]) => box.width && (box.left < -0.5 || box.right > document.documentElement.clientWidth + 0.5))
  .map(([node]) => node.outerHTML.slice(0, 100))
"""


# What a screen reader reads first on a phone: the heading, what the page is for, and what to do now.
FIRST_SCREEN = """
(() => {
  const end = document.querySelector('.dock').getBoundingClientRect().top;
  const read = (selector) => [...document.querySelectorAll(selector)]
    .filter((node) => node.checkVisibility({visibilityProperty: true}))
    .filter((node) => node.getBoundingClientRect().bottom <= end)
    .map((node) => (node.getAttribute('aria-label') || node.textContent || node.labels?.[0]?.textContent || '').trim());
  const said = read('main p:not(.hint, .field, .actions, [dir], :is(li, td, dialog, .notice) p)');
  const purpose = said.filter((text) => /^\\S+(\\s+\\S+){3,}[.?]/.test(text));
  const done = purpose.filter((text) => text.includes('nothing to do'));
  const action = read('main :is(button, .button, summary, select, input:not([type=hidden]), textarea, .cards a)');
  return {heading: read('main h1'), purpose, action: [...action, ...done]};
})()
"""


# What the keyboard should come to; of radio buttons of one name it comes to one.
PRESSABLE = """
[...document.querySelectorAll('a[href], button, input:not([type=hidden]), select, textarea, summary')]
  .filter((node) => node.checkVisibility({visibilityProperty: true}) && !node.disabled && node.tabIndex >= 0)
  .filter((node) => node.type !== 'radio' || node.checked)
  .map((node, number) => { node.dataset.pressable = number; return number; })
"""


def views_inside(world: DashboardWorld) -> list[PageView]:
    return [view for view in page_views(world) if not view.is_open]


def check_first_screen(tab: BrowserTab, view: PageView) -> None:
    """What is this page for? What should I do now? Its first screen answers both.

    Of an error the heading says what is wrong.
    """
    tab.look(width=PHONE)
    if tab.ask("performance.getEntriesByType('navigation')[0].responseStatus") < 400:
        first = tab.ask(FIRST_SCREEN)
        check_empty(f"{view.name} ({view.address})", lacks=[part for part in first if not any(first[part])])


def check_views(tab: BrowserTab, world: DashboardWorld, view: PageView) -> None:
    """The page as everybody meets it: by ear, on a phone, in the dark; and nobody else is told of it."""
    tab.show(f"{world.url}{view.address}", width=PHONE)
    on_phone = {
        "unnamed": tab.ask(UNNAMED),
        "alike": tab.ask(ALIKE),
        "barriers": tab.barriers(),
        "sticking_out": tab.ask(STICKING_OUT),
        "out_of_sight": tab.ask(OUT_OF_SIGHT),
        "too_wide": tab.ask(f"[document.documentElement.scrollWidth].filter((width) => width > {PHONE})"),
        "too_large": [size for size in tab.ask(PAGE_BYTES) if size > PAGE_BYTES_MAX],
    }
    is_error = tab.ask("performance.getEntriesByType('navigation')[0].responseStatus") >= 400  # which is a page too
    tab.look(width=WIDE, dark=True)
    check_empty(
        f"{view.name} ({view.address})",
        **on_phone,
        contrast=tab.ask(CONTRAST),
        sticking_out_wide=tab.ask(STICKING_OUT),
        out_of_sight_wide=tab.ask(OUT_OF_SIGHT),
        complaints=tab.complaints[1:] if is_error else tab.complaints,
        elsewhere=[url for url in tab.asked if urlsplit(url).netloc != urlsplit(world.url).netloc],
    )
