"""Parts of the pages: in every theme, magnified, without movement or a script."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.support.browser import server_states
from tests.support.browser.chromium import BrowserTab
from tests.support.browser.page_checks import STICKING_OUT, check_empty, check_page
from tests.support.browser.screenshots import sign_in
from tests.support.browser.server_states import DashboardWorld
from tests.support.browser.view_checks import OUT_OF_SIGHT, views_inside

pytestmark = pytest.mark.browser

PAGES = ("/", "/posts", "/calendar", "/accounts", "/compose", "/docs/ui")
# The focused element, where no part of it can be seen.
UNDER_A_BAR = """
(() => {
  const BARS = '.dock, .bulk, .finish';
  const at = document.activeElement, box = at.getBoundingClientRect();
  if (at === document.body || at.closest(BARS)) return [];
  const x = Math.min(Math.max(box.left + box.width / 2, 1), innerWidth - 1);
  const seen = [box.top + 2, (box.top + box.bottom) / 2, box.bottom - 2].map((y) => document.elementFromPoint(x, y));
  return seen.every((node) => node?.closest(BARS)) ? [at.outerHTML.slice(0, 90)] : [];
})()
"""
SMALL = """
[...document.querySelectorAll('a[href], button, input:not([type=hidden]), select, summary, textarea')]
  .filter((node) => node.checkVisibility({visibilityProperty: true}) && !node.closest('.skip, .unseen'))
  .filter((node) => !(node.matches('a') && getComputedStyle(node).display === 'inline'))
  .filter((node) => !(node.matches('[type=checkbox], [type=radio]') && node.labels.length))
  .map((node) => [node, node.getBoundingClientRect()])
  .filter(([, box]) => box.width > 0 && (box.width < 23.9 || box.height < 23.9))
  .map(([node, box]) => `${node.outerHTML.slice(0, 90)} ${box.width} ${box.height}`)
"""
SHIFT = """
new Promise((resolve) => {
  let moved = 0;
  new PerformanceObserver((list) => { for (const each of list.getEntries()) moved += each.value; })
    .observe({type: 'layout-shift', buffered: true});
  requestAnimationFrame(() => requestAnimationFrame(() => resolve(moved)));
})
"""


@pytest.fixture(scope="module")
def full(tab: BrowserTab) -> Iterator[DashboardWorld]:
    with server_states.full_server() as world:
        sign_in(tab, world)
        yield world


def test_the_page_of_the_parts_has_no_barrier_in_any_theme(tab: BrowserTab, full: DashboardWorld) -> None:
    tab.show(f"{full.url}/docs/ui", width=1000)
    check_page(tab, "ui")
    tab.page.locator("button[data-dialog]").click()
    assert tab.page.locator("dialog[open] h2").inner_text() == "A dialog"
    assert tab.barriers() == []
    tab.press("Escape")
    assert tab.page.locator("dialog[open]").count() == 0


def test_the_pages_of_drafts_and_approval_have_no_barrier(tab: BrowserTab, full: DashboardWorld) -> None:
    with httpx.Client(base_url=full.url, headers={"Authorization": f"Bearer {full.key}"}, trust_env=False) as api:
        accounts = api.get("/v1/accounts").json()["data"]
        targets = [{"accountId": account["id"]} for account in accounts[:8]]
        content = {"title": "Summer", "text": "Our summer menu: soups. https://cafe.example/", "targets": targets}
        draft = api.post("/v1/drafts", json=content).json()["id"]
        assert api.post(f"/v1/drafts/{draft}/propose").status_code == httpx.codes.OK
        link = api.post(f"/v1/drafts/{draft}/link").json()["url"]
    paths = {"drafts": "/drafts", "draft": f"/drafts/{draft}", "delete": f"/drafts/{draft}/delete"}
    for name, address in {**{name: full.url + path for name, path in paths.items()}, "approve": link}.items():
        tab.show(address, width=1000)
        assert tab.page.locator("h1").count() == 1, name
        check_page(tab, name)


def test_actions_of_tables_are_in_sight_on_a_small_laptop(tab: BrowserTab, full: DashboardWorld) -> None:
    for path in ("/settings/keys", "/settings", "/settings/members", "/settings/profiles", "/accounts", "/webhooks"):
        for width in (768, 960, 1024):  # from 960 on, the sidebar is beside the table
            tab.show(f"{full.url}{path}", width=width)
            assert tab.ask(OUT_OF_SIGHT) == [], (path, width)


def test_targets_of_a_phone_are_large_enough(tab: BrowserTab, full: DashboardWorld) -> None:
    """At least 24 px (WCAG 2.5.8), but for links within a text, and boxes that have a label."""
    for view in views_inside(full):
        tab.show(f"{full.url}{view.address}", width=390)
        check_empty(view.address, small=tab.ask(SMALL))


def test_nothing_moves_while_a_page_is_loaded(tab: BrowserTab, full: DashboardWorld) -> None:
    """On a slow machine too, which would paint what it has read so far."""
    tab.send("Emulation.setCPUThrottlingRate", rate=16)
    moved = {}
    for path in PAGES:
        tab.show(f"{full.url}{path}", width=1280)
        tab.page.wait_for_load_state("networkidle")
        moved[path] = tab.ask(SHIFT)
    tab.send("Emulation.setCPUThrottlingRate", rate=1)
    assert moved == dict.fromkeys(PAGES, 0)


def test_at_twice_and_four_times_the_size_no_page_is_too_wide(tab: BrowserTab, full: DashboardWorld) -> None:
    """On a screen of 1280 px."""
    for view in views_inside(full):
        tab.show(f"{full.url}{view.address}", width=640)
        for width in (640, 320):
            tab.look(width=width)
            wide = tab.ask("document.documentElement.scrollWidth")
            too_wide = [wide] if wide > width else []
            check_empty(f"{view.address}, {width} wide", sticking_out=tab.ask(STICKING_OUT), too_wide=too_wide)


@pytest.mark.parametrize("width", [640, 1280])
def test_what_has_the_focus_is_not_under_a_bar(tab: BrowserTab, full: DashboardWorld, width: int) -> None:
    """Neither under that of the phone, which a screen of 1280 px has at 200 %, nor under that of the chosen posts."""
    for path in ("/", "/posts", "/settings", "/settings/keys", "/compose"):
        tab.show(f"{full.url}{path}", width=width)
        if path == "/posts":
            tab.page.locator(".picker").first.check()
        hidden = []
        for _ in range(70):
            tab.press("Tab")
            hidden += tab.ask(UNDER_A_BAR)
        check_empty(f"{path}, {width} wide", hidden=hidden)


def test_who_wants_no_movement_sees_none(tab: BrowserTab, full: DashboardWorld) -> None:
    tab.page.emulate_media(reduced_motion="reduce")
    tab.show(f"{full.url}/settings", width=1000)
    tab.click('form[action="/settings/zone"] button')
    assert tab.page.locator(".toast").is_visible()
    assert tab.ask("document.querySelector('.toast').getAnimations().length") == 0
    tab.page.locator(".toast [data-close]").click()
    assert tab.page.locator(".toast").count() == 0
    tab.page.emulate_media(reduced_motion="no-preference")


def test_on_a_phone_the_menu_opens_without_a_script(tab: BrowserTab, full: DashboardWorld) -> None:
    browser = tab.page.context.browser
    assert browser is not None
    context = browser.new_context(java_script_enabled=False, viewport={"width": 390, "height": 800})
    context.add_cookies([dict(cookie) for cookie in tab.page.context.cookies()])  # type: ignore[misc]
    page = context.new_page()
    page.goto(f"{full.url}/")
    assert not page.locator("nav.ways a[href='/media']").is_visible()
    page.locator("nav.dock button").click()
    page.locator("nav.ways a[href='/media']").click()
    assert page.locator("h1").inner_text() == "Media"
    context.close()
