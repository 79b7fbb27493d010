"""Accessibility and keyboard use of every page in the route table."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.browser import server_states
from tests.support.browser.chromium import BrowserTab
from tests.support.browser.page_checks import check_empty
from tests.support.browser.screenshots import sign_in
from tests.support.browser.server_states import DashboardWorld
from tests.support.browser.view_checks import PRESSABLE, WIDE, check_first_screen, check_views, views_inside

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def full(tab: BrowserTab) -> Iterator[DashboardWorld]:
    with server_states.full_server() as world:
        sign_in(tab, world)
        yield world


def test_nobody_is_kept_out_of_any_page_and_no_page_asks_anybody_else(tab: BrowserTab, full: DashboardWorld) -> None:
    seen = views_inside(full)
    assert len(seen) > 30
    for view in seen:
        check_views(tab, full, view)
        check_first_screen(tab, view)


def test_the_keyboard_alone_reaches_everything_on_every_page(tab: BrowserTab, full: DashboardWorld) -> None:
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
        check_empty(f"{view.name} ({view.address})", missed=missed)
