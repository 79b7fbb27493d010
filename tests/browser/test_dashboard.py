"""Dashboard in a browser: overview actions, forms kept over sign-in, several tabs."""

from __future__ import annotations

import pytest

from socialpub.store.schema.models import Account, ApiKey, Profile
from tests.support.browser.chromium import BrowserTab
from tests.support.browser.page_checks import check_page
from tests.support.connect_flow import sign_in
from tests.support.media_uploads import wait_until
from tests.support.post_outcomes import failed, unknown
from tests.support.request_cast import RequestCast
from tests.support.sign_in import EMAIL, PASSWORD, add_user

pytestmark = pytest.mark.browser


def arrive(tab: BrowserTab, world: RequestCast, path: str = "/") -> None:
    """Alice has signed in, and is there."""
    sign_in(world.server, world.alice.organization)
    tab.send("Network.setCookie", name="socialpub_session", value="alice", url=world.server.url)
    tab.show(f"{world.server.url}{path}", width=1000)


def log_in(tab: BrowserTab) -> None:
    tab.fill(email=EMAIL, password=PASSWORD)
    tab.click("main form button")


def test_what_needs_eyes_is_answered_by_clicks(world: RequestCast, tab: BrowserTab) -> None:
    lost, gone = unknown(world), unknown(world)
    broken = [failed(world), failed(world)]
    world.scheduled(text="a-very-long-word-" * 17)
    arrive(tab, world)
    check_page(tab, "overview-full")
    tab.click(f'form:has([value="{lost}"]):has([value="yes"]) button')
    assert "marked as published" in tab.text(".notice")
    tab.reload()
    assert tab.page.locator(".notice").count() == 0
    tab.click(f'form:has([value="{gone}"]):has([value="no"]) button')
    states = [world.alice.api.get(f"/v1/posts/{post}").json()["status"] for post in (lost, gone)]
    assert states == ["published", "failed"]
    assert tab.page.locator('form[action="/overview/retry"]').count() == 1  # they have one cause
    tab.click('form[action="/overview/retry"] button')
    assert "Retrying 3 posts." in tab.text(".notice")
    for post in (gone, *broken):
        world.server.wait(post, "published")


def test_an_account_in_trouble_is_seen_on_every_screen(world: RequestCast, tab: BrowserTab) -> None:
    world.scheduled()
    failed(world)
    world.server.service.write(
        lambda tx: Account.update(status="revoked").where(Account.id == world.alice.bluesky).execute()
    ).result()
    arrive(tab, world)
    check_page(tab, "overview-revoked")
    tab.click('a.danger:has-text("Cancel its posts")')
    check_page(tab, "overview-cancel")
    tab.back()
    tab.click('a.button:has-text("Reconnect")')
    assert tab.ask("location.pathname") == "/connect/bluesky"
    tab.show(f"{world.server.url}/accounts/{world.alice.bluesky}/disconnect", width=1000)
    check_page(tab, "disconnect-revoked")


def test_the_overview_refreshes_itself(world: RequestCast, tab: BrowserTab) -> None:
    arrive(tab, world)
    assert "fresh from elsewhere" not in tab.text("main")
    world.scheduled(text="fresh from elsewhere")
    tab.ask("refresh()")
    wait_until(lambda: "fresh from elsewhere" in tab.text("main"))
    asked = len(tab.asked)
    tab.ask("refresh()")
    assert [url for url in tab.asked[asked:] if url != f"{world.server.url}/"] == []
    assert tab.complaints == []
    tab.page.locator("#now-lists .text").first.focus()
    failed(world)
    tab.ask("window.dispatchEvent(new Event('focus'))")  # its window is used again
    wait_until(lambda: "Failed and rejected" in tab.text("main"))
    world.server.clock.skip(31 * 24 * 3600)
    with tab.page.expect_event("load"):
        tab.ask("void refresh()")
    assert tab.text("h1") == "Sign in"


def test_a_form_whose_session_ended_comes_back_filled_in(world: RequestCast, tab: BrowserTab) -> None:
    add_user(world.server, world.alice, EMAIL, "owner")
    tab.show(f"{world.server.url}/login?next=/settings/keys", width=1000)
    log_in(tab)
    tab.fill(name="for the shop")
    world.server.clock.skip(31 * 24 * 3600)
    tab.click('form[action="/settings/keys"] button')
    assert "Your session has ended" in tab.text("main")
    check_page(tab, "login-kept")
    before = len(world.server.rows(ApiKey))
    log_in(tab)
    assert tab.page.locator("main [name=name]").input_value() == "for the shop"
    check_page(tab, "keys-kept")
    assert len(world.server.rows(ApiKey)) == before
    tab.click('form[action="/settings/keys"] button')
    assert len(world.server.rows(ApiKey)) == before + 1
    tab.back()
    tab.reload()
    assert len(world.server.rows(ApiKey)) == before + 1


def test_two_open_sign_in_tabs_both_work(world: RequestCast, tab: BrowserTab) -> None:
    add_user(world.server, world.alice, EMAIL, "owner")
    tab.page.context.clear_cookies()
    other = BrowserTab(tab.page.context.new_page())
    for each in (tab, other):
        each.show(f"{world.server.url}/login?next=/accounts", width=1000)
    for each in (tab, other):
        log_in(each)
        assert each.ask("location.pathname") == "/accounts"
    other.page.close()


def test_a_profile_is_made_and_gone_into_and_left(world: RequestCast, tab: BrowserTab) -> None:
    arrive(tab, world, "/settings/profiles")
    check_page(tab, "profiles")
    tab.fill(name="Second")
    tab.click('form[action="/settings/profiles"] button')
    made = world.server.rows(Profile)[-1]["id"]
    tab.show(f"{world.server.url}/accounts", width=1000)
    check_page(tab, "accounts-profiles")
    tab.page.locator("#field-profile").select_option(made)
    tab.click('button[formaction="/connect/bluesky"]')
    assert tab.ask("location.search") == f"?profile={made}"
    tab.show(f"{world.server.url}/settings/profiles", width=1000)
    tab.page.locator(".menu summary").first.click()
    tab.page.locator("#in-profile").select_option(made)
    tab.click('form[action="/profile"] button')
    assert tab.ask("location.pathname") == "/settings/profiles"
    tab.show(f"{world.server.url}/accounts", width=1000)
    assert tab.page.locator(f'a[href="/connect/bluesky?profile={made}"]').count() == 1
    tab.show(f"{world.server.url}/settings/profiles/{made}", width=1000)
    check_page(tab, "profile")
    tab.show(f"{world.server.url}/settings", width=1000)
    check_page(tab, "settings")
    tab.show(f"{world.server.url}/nothing", width=1000)
    tab.complaints.clear()
    check_page(tab, "not-found")


def test_the_keyboard_alone_reaches_every_action_of_the_overview(world: RequestCast, tab: BrowserTab) -> None:
    unknown(world)
    arrive(tab, world)
    shown = "[...document.querySelectorAll('main button, main a')].filter(each => !each.closest('dialog:not([open])'))"
    wanted = tab.ask(f"{shown}.length")
    reached = set()
    for _ in range(60):
        tab.press("Tab")
        reached.add(tab.ask(f"{shown}.indexOf(document.activeElement)"))
    assert wanted > 3
    assert reached >= set(range(wanted))
