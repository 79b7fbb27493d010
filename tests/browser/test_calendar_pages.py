"""The calendar in a browser: dragging, moving by keyboard, undoing, and without a script."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import expect

from tests.support.app_server import AppServer, Person
from tests.support.browser.chromium import BrowserTab
from tests.support.browser.page_checks import check_page
from tests.support.browser.sign_in import open_signed_in
from tests.support.dashboard_forms import LOST, XSS, failed_post
from tests.support.post_drafts import new_draft
from tests.support.post_list import insert_rows

pytestmark = pytest.mark.browser

AT = "2098-03-04T10:20:00.000Z"


class Publication:
    """A publication of Alice's to two accounts, scheduled for `AT`."""

    def __init__(self, server: AppServer, alice: Person) -> None:
        self._alice, second = alice, server.connect(alice, "twitter")["id"]
        targets = [{"accountId": alice.bluesky}, {"accountId": second}]
        sent = alice.api.publish({"targets": targets, "text": "Opening hours", "scheduledAt": AT}).json()
        self._posts = [result["postId"] for result in sent["results"]]

    @property
    def times(self) -> set[str]:
        return {self._alice.api.get(f"/v1/posts/{post}").json()["scheduledAt"] for post in self._posts}


@pytest.fixture
def publication(server: AppServer, alice: Person, tab: BrowserTab) -> Publication:
    open_signed_in(tab, server, alice)
    return Publication(server, alice)


def drag(tab: BrowserTab, to: str) -> None:
    """Drop the page's card on a day or an hour, and wait for the page that follows."""
    with tab.page.expect_event("load"):
        tab.page.drag_and_drop(".entry[draggable=true]", to)


# Lines of text that lie, in part, under a button to move their card.
UNDER_BUTTON = """
[...document.querySelectorAll('.entry .move')].flatMap((button) => {
  const [range, box] = [document.createRange(), button.getBoundingClientRect()];
  range.selectNodeContents(button.parentElement.querySelector('a bdi'));
  const lines = [...range.getClientRects()];
  return lines.filter((line) => line.right > box.left && line.top < box.bottom && line.bottom > box.top);
}).length
"""


def test_no_text_is_under_the_button_that_moves_its_card(server: AppServer, alice: Person, tab: BrowserTab) -> None:
    target = [{"accountId": alice.bluesky}]
    alice.api.publish({"targets": target, "text": "Weekend" * 9, "scheduledAt": AT}).raise_for_status()
    open_signed_in(tab, server, alice)
    for page in ("month/2098-03", "week/2098-03-04"):
        tab.show(f"{server.url}/calendar/{page}", width=360)
        assert tab.page.locator(".entry .move").is_visible()
        assert tab.ask(UNDER_BUTTON) == 0, page


def test_a_card_is_dragged_to_another_day_and_hour_and_moved_back(
    server: AppServer, publication: Publication, tab: BrowserTab
) -> None:
    tab.show(f"{server.url}/calendar/month/2098-03", width=1280)
    drag(tab, "[data-day='2098-03-12']")
    assert publication.times == {"2098-03-12T10:20:00.000Z"}
    assert "Moved to Wed 12 Mar 2098, 10:20 UTC." in tab.text(".toast")
    expect(tab.page.locator("[data-day='2098-03-12'] .entry:target")).to_be_visible()
    tab.click(".toast button:has-text('Undo')")
    assert publication.times == {AT}
    assert "Moved back" in tab.text(".toast")
    tab.show(f"{server.url}/calendar/week/2098-03-04", width=1280)
    drag(tab, "[data-day='2098-03-06'] [data-drop='15']")
    assert publication.times == {"2098-03-06T15:20:00.000Z"}
    expect(tab.page.locator("[data-day='2098-03-06'] [data-drop='15'] .entry")).to_be_visible()
    assert tab.complaints == []


def test_a_move_that_is_stopped_puts_its_card_back(
    server: AppServer, publication: Publication, tab: BrowserTab
) -> None:
    tab.show(f"{server.url}/calendar/month/2098-03", width=1280)
    tab.page.route("**/move", lambda route: None)  # no answer comes
    tab.stop_next()
    tab.page.drag_and_drop(".entry[draggable=true]", "[data-day='2098-03-12']", no_wait_after=True)
    expect(tab.page.locator("[data-day='2098-03-04'] .entry")).to_be_visible()
    expect(tab.page.locator("form[data-sent]")).to_have_count(0)
    tab.page.unroute("**/move")
    drag(tab, "[data-day='2098-03-12']")
    assert publication.times == {"2098-03-12T10:20:00.000Z"}


def test_a_draft_is_dragged_to_another_day_and_moved_back(server: AppServer, alice: Person, tab: BrowserTab) -> None:
    open_signed_in(tab, server, alice)
    draft = new_draft(alice.api, text="An idea", scheduledAt=AT)["id"]
    tab.show(f"{server.url}/calendar/month/2098-03", width=1280)
    drag(tab, "[data-day='2098-03-12']")
    assert "Moved to Wed 12 Mar 2098, 10:20 UTC." in tab.text(".toast")
    expect(tab.page.locator("[data-day='2098-03-12'] .entry.draft:target")).to_be_visible()
    tab.click(".toast button:has-text('Undo')")
    assert alice.api.get(f"/v1/drafts/{draft}").json()["content"]["scheduledAt"] == AT


def test_a_card_is_moved_and_moved_back_by_the_keyboard(
    server: AppServer, publication: Publication, tab: BrowserTab
) -> None:
    tab.show(f"{server.url}/calendar/week/2098-03-04", width=1280)
    tab.page.locator(".entry a").first.focus()
    tab.press("Tab")
    assert "Opening hours" in tab.ask("document.activeElement.getAttribute('aria-label')")
    with tab.page.expect_event("load"):
        tab.press("Enter")
    later = tab.page.get_by_role("button", name="One day later")
    later.focus()
    with tab.page.expect_event("load"):
        tab.press("Enter")
    assert publication.times == {"2098-03-05T10:20:00.000Z"}
    tab.page.get_by_role("button", name="Undo").focus()
    with tab.page.expect_event("load"):
        tab.press("Enter")
    assert publication.times == {AT}


def test_without_a_script_a_card_is_moved_by_its_link(
    server: AppServer, publication: Publication, tab: BrowserTab
) -> None:
    browser = tab.page.context.browser
    assert browser is not None
    context = browser.new_context(java_script_enabled=False)
    context.add_cookies(tab.page.context.cookies())
    page = context.new_page()
    page.goto(f"{server.url}/calendar/month/2098-03")
    page.locator(".entry .move").click()
    page.locator("main [name=day]").fill("2098-03-20")
    page.get_by_role("button", name="Move", exact=True).click()
    assert re.search(r"/calendar/month/2098-03#e-", page.url)
    assert publication.times == {"2098-03-20T10:20:00.000Z"}
    page.get_by_role("button", name="Undo").click()
    assert publication.times == {AT}
    context.close()


def test_the_calendar_has_no_barriers(server: AppServer, alice: Person, tab: BrowserTab) -> None:
    open_signed_in(tab, server, alice)
    weekly = [{"day": day, "time": "09:30"} for day in ("mon", "wed", "sun")]
    alice.api.put("/v1/slots", json={"profileId": alice.profile, "zone": "UTC", "weekly": weekly})
    due = datetime.fromtimestamp(server.clock.now_ms() / 1000, UTC) + timedelta(hours=1)
    soon = f"{due:%Y-%m-%dT%H:%M:%SZ}"
    new_draft(alice.api, targets=[{"accountId": alice.bluesky}], text=XSS, scheduledAt=soon)
    alice.api.publish({"targets": [{"accountId": alice.bluesky}], "text": "x" * 90, "scheduledAt": soon})
    rows = [{"text": "long" * 40 if step % 2 else XSS} for step in range(9)]
    ms = server.clock.now_ms()
    insert_rows(server, alice, *[row | {"created_at": ms - step * 3_600_000} for step, row in enumerate(rows)])
    failed_post(server, alice, LOST, created_at=ms)
    for path in (f"/calendar/month/{due:%Y-%m}", f"/calendar/week/{due:%Y-%m-%d}"):
        tab.show(f"{server.url}{path}", width=1280)
        check_page(tab, "-".join(path.split("/")[1:3]))
    tab.page.locator(".entry .move").first.evaluate("link => link.click()")
    tab.page.wait_for_url("**/publications/**")
    check_page(tab, "calendar-move")
