"""User journeys by clicks: first published post, reconnection, failures, pauses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from socialpub.domain.access import actions
from socialpub.domain.access.actor import build_operator
from socialpub.domain.identity import users
from socialpub.domain.organizations import profiles
from socialpub.domain.schemas.profiles import OrganizationRequest
from socialpub.domain.server import instance
from tests.support.browser import server_states
from tests.support.browser.chromium import BrowserTab
from tests.support.browser.screenshots import page_views, sign_in
from tests.support.browser.server_states import DashboardWorld

pytestmark = pytest.mark.browser

TABLES = (
    "account",
    "api_key",
    "media",
    "notification_channel",
    "post",
    "profile",
    "user",
    "webhook_delivery",
    "webhook_endpoint",
)
NOT_SENT = ("/compose", "/compose/media", "/logout/everywhere", "/settings/sessions/end")
"""Forms with tests of their own: what a script sends leads to no other page, and the others end the session."""
# The forms of the page: what each is called, without the ids in its address, and which of them it is.
FORMS = """
[...document.querySelectorAll('main form[method=post]')].map((form, place) =>
  [new URL(form.action).pathname.replace(/[^/]*[0-9][^/]*/g, '*'), place])
"""
# Whatever is empty gets something, and the form goes as it stands.
SEND = """
(place) => {
  const form = document.querySelectorAll('main form[method=post]')[place];
  const some = {date: '2099-05-04', time: '10:00', email: 'new@example.com', url: 'https://example.com/', number: '1'};
  for (const field of form.elements)
    if (field.value === '' && !['hidden', 'file'].includes(field.type) && field.tagName !== 'BUTTON')
      field.value = field.tagName === 'SELECT' ? field.options[0].value : some[field.type] || 'something new';
  form.noValidate = true;
  form.requestSubmit();
}
"""
PASSWORD = "correct horse battery"


@pytest.fixture
def full(tab: BrowserTab) -> Iterator[DashboardWorld]:
    with server_states.full_server() as world:
        sign_in(tab, world)
        yield world
    tab.page.context.clear_cookies()


def rows(world: DashboardWorld, table: str, **wanted: object) -> list[dict[str, Any]]:
    """The rows of a table that have these values, newest first."""
    columns = [row[1] for row in world.ask(f"PRAGMA table_info({table})")]
    meets = " AND ".join(["1", *(f"{name} = ?" for name in wanted)])
    found = world.ask(f"SELECT * FROM {table} WHERE {meets} ORDER BY id DESC", *wanted.values())
    return [dict(zip(columns, row, strict=True)) for row in found]


def press(tab: BrowserTab, words: str) -> None:
    """A button or link by what it says, which leads to a page."""
    with tab.page.expect_event("load"):
        tab.page.locator(f"main :is(a, button):visible:has-text('{words}')").first.click()


def test_from_the_first_start_to_the_first_published_post(tab: BrowserTab) -> None:
    with server_states.fresh_server() as world:
        tab.show(f"{world.url}/setup/{world.invitation}", width=1280)
        tab.fill(organization="Kiosk", email="kim@example.com", password=PASSWORD)
        press(tab, "Set up")
        assert tab.text("h1") == "Kiosk"
        press(tab, "Connect an account")
        press(tab, "Bluesky")
        made = world.lab.lab.add_account("bluesky", handle="kiosk.test", displayName="The kiosk")
        tab.fill(password=made["appPassword"])
        tab.page.locator("main form[method=post] [name=handle]").fill(made["handle"])
        press(tab, "Connect")
        assert tab.text("h1") == "Connected"
        tab.click("nav.ways a[href='/compose']")
        tab.fill(text="We are open")
        tab.page.locator(".accounts input[type=checkbox]").first.check()
        tab.click("button[value=send]")
        assert "Post published." in tab.text(".notice")
        assert [entry.text for entry in world.lab.lab.ledger.posts()] == ["We are open"]
        tab.click("nav.ways a[href='/']")
        assert tab.page.locator("#went-out + ul .pub").count() == 1
        assert tab.text("#went-out + ul .text").startswith("We are open")
        assert tab.page.locator("#first-run").count() == 0  # an API key is for programs
    tab.page.context.clear_cookies()


def test_accounts_are_connected_into_the_second_profile_by_consent(tab: BrowserTab, full: DashboardWorld) -> None:
    (bakery,) = rows(full, "profile", name="Bakery")
    made = full.lab.lab.add_account("bluesky", handle="bread.test", displayName="Bread")
    tab.show(f"{full.url}/accounts", width=1280)
    tab.page.locator("main select[name=profile]").select_option(label="Bakery")
    tab.click("button[formaction='/connect/bluesky']")
    tab.page.locator("main form[method=post] [name=handle]").fill(made["handle"])
    tab.fill(password=made["appPassword"])
    press(tab, "Connect")
    assert tab.text("h1") == "Connected"
    full.lab.lab.add_account("pinterest", handle="rye.test", displayName="Rye")
    tab.show(f"{full.url}/accounts", width=1280)
    tab.page.locator("main select[name=profile]").select_option(label="Bakery")
    tab.click("button[formaction='/connect/pinterest']")
    tab.click("#go")
    tab.click("#allow")
    assert tab.text("h1") == "Connected"
    found = {str(row["platform"]) for row in rows(full, "account", profile=bakery["id"])}
    assert {"bluesky", "pinterest"} <= found


def test_lost_account_is_reconnected_and_its_waiting_posts_resume(tab: BrowserTab, full: DashboardWorld) -> None:
    (lost,) = rows(full, "account", status="revoked")
    (waiting,) = rows(full, "post", account=lost["number"], status="queued")
    tab.show(f"{full.url}/", width=1280)
    tab.click(f"a[href='/connect/{lost['platform']}?profile={lost['profile']}']")
    tab.click("#go")
    tab.click("#allow")
    assert tab.text("h1") == "Connected"
    (again,) = rows(full, "account", id=lost["id"])
    assert (again["status"], again["disconnected_at"]) == ("active", None)
    assert rows(full, "post", id=waiting["id"], status="queued")
    tab.show(f"{full.url}/", width=1280)
    assert "Access expired" not in tab.text("main")


def test_unknown_failed_scheduled_and_undelivered_are_handled_by_clicks(tab: BrowserTab, full: DashboardWorld) -> None:
    tab.show(f"{full.url}/", width=1280)
    press(tab, "It was published")
    assert "marked as published" in tab.text(".notice")
    assert tab.page.locator("#unknown").count() == 0
    failed = len(rows(full, "post", status="failed"))
    press(tab, "Retry")
    assert "Retrying 1 post" in tab.text(".notice")
    assert len(rows(full, "post", status="failed")) == failed - 1
    tab.show(f"{full.url}/calendar/week", width=1280)
    (queued, *_) = rows(full, "post", status="queued", text="A year of open books: our numbers.")
    tab.show(f"{full.url}/posts/{queued['id']}", width=1280)
    tab.page.locator("main summary:has-text('Reschedule')").click()
    tab.fill(day="2099-05-04", clock="15:30")
    press(tab, "Save the new time")
    assert "rescheduled" in tab.text(".notice")
    tab.page.locator("main .more-menu summary").click()
    tab.click("main a.danger")
    press(tab, "Cancel the post")
    assert rows(full, "post", id=queued["id"], status="canceled")
    (undelivered, *_) = rows(full, "webhook_delivery", status="failed")
    tab.show(f"{full.url}/deliveries/{undelivered['id']}", width=1280)
    press(tab, "Redeliver")
    assert rows(full, "webhook_delivery", id=undelivered["id"], status="failed") == []


def test_a_pause_is_ended_by_a_click(tab: BrowserTab, full: DashboardWorld) -> None:
    with full.pause():
        tab.show(f"{full.url}/", width=1280)
        press(tab, "The clock is right. Resume publishing")
    assert "Publishing resumed" in tab.text(".notice")
    assert full.service.read(instance.get_pause_reason).result() is None
    assert tab.page.locator("#paused").count() == 0


def test_another_organization_sees_nothing_of_the_first(tab: BrowserTab, full: DashboardWorld) -> None:
    addresses = [view.address for view in page_views(full) if not view.is_open]
    named = ("Café Nord", "Nord Bakery", "mira@example.com", "The kitchen", "loaves")
    service = full.service

    def settle() -> None:
        made = actions.perform_sync(
            build_operator(service, "test"), profiles.create_organization, OrganizationRequest(name="Rival")
        )
        here = build_operator(service, "test").within(str(made["id"]))
        actions.perform_sync(here, users.create, "rival@example.com", "owner", users.hash_password(PASSWORD))

    server_states.run_in_thread(settle)
    tab.page.context.clear_cookies()
    tab.show(f"{full.url}/login", width=1280)
    tab.fill(email="rival@example.com", password=PASSWORD)
    tab.click("main form button")
    assert tab.text("h1") == "Rival"
    ours = {str(id_) for table in TABLES for (id_,) in full.ask(f"SELECT id FROM {table}")}
    for address in addresses:
        status = _status(tab, full, address)
        if any(id_ in address for id_ in ours):
            assert status == 404, address
        else:  # what is about the whole server is not for one of two organizations
            assert status in (200, 403, 404), address
        assert [text for text in named if text in tab.page.content()] == [], address


def _status(tab: BrowserTab, world: DashboardWorld, address: str) -> int:
    answer = tab.page.goto(f"{world.url}{address}")
    assert answer is not None
    return answer.status


def test_no_form_does_anything_twice_by_reload_or_back(tab: BrowserTab, full: DashboardWorld) -> None:
    """Every form of every page is filled in and sent as it stands; what it did is counted by what it wrote down."""
    done: set[str] = set()
    for view in [view for view in page_views(full) if not view.is_open]:
        while (found := _next_form(tab, full, view.address, done)) is not None:
            name, place = found
            done.add(name)
            _send(tab, place)
            acts = _acts(full)
            tab.reload()
            assert _acts(full) == acts, f"{name}: done again by a reload"
            tab.back()
            tab.page.wait_for_load_state()
            assert _acts(full) == acts, f"{name}: done again by going back"
            assert "/login" not in tab.page.url, name
    assert len(done) > 25, sorted(done)


def _next_form(tab: BrowserTab, world: DashboardWorld, address: str, done: set[str]) -> tuple[str, int] | None:
    """The first form of a page of a kind that was not sent yet."""
    tab.show(f"{world.url}{address}", width=1280)
    new = ((name, place) for name, place in tab.ask(FORMS) if name not in done and name not in NOT_SENT)
    return next(new, None)


def _send(tab: BrowserTab, place: int) -> None:
    with tab.page.expect_event("load"):
        tab.page.evaluate(SEND, place)


def _acts(world: DashboardWorld) -> int:
    """What was done so far. That a page offers a way to a platform is none of it: each look makes a new one."""
    return int(world.ask("SELECT count(*) FROM audit WHERE verb NOT LIKE 'GET /connect/%'")[0][0])
