"""Members and sessions in a browser: invitations, roles, second factor, audit log."""

from __future__ import annotations

from collections.abc import Iterator

import pyotp
import pytest

from socialpub.domain.identity import totp
from socialpub.store.schema.models import User
from tests.support.app_server import AppServer, Person
from tests.support.browser.chromium import BrowserTab
from tests.support.browser.page_checks import check_page
from tests.support.sign_in import EMAIL, PASSWORD, add_user

pytestmark = pytest.mark.browser
CAROL = "carol.with-a-very-long-name-that-hardly-fits@bakery-on-the-corner.example"


@pytest.fixture
def other(tab: BrowserTab) -> Iterator[BrowserTab]:
    """A tab in another browser."""
    browser = tab.page.context.browser
    assert browser is not None
    context = browser.new_context(service_workers="block")
    yield BrowserTab(context.new_page())
    context.close()


def come_in(tab: BrowserTab, server: AppServer, path: str = "/") -> None:
    """Alice signs in by clicks, and is there."""
    tab.page.context.clear_cookies()
    tab.show(f"{server.url}/login?next={path}", width=1000)
    tab.fill(email=EMAIL, password=PASSWORD)
    tab.click("main form button")


def test_a_member_is_invited_joins_and_sees_less(
    server: AppServer, alice: Person, tab: BrowserTab, other: BrowserTab
) -> None:
    add_user(server, alice, EMAIL, "owner")
    come_in(tab, server, "/settings/members")
    check_page(tab, "members-alone")
    tab.fill(email=CAROL, role="member")
    tab.click("main form.form button")
    link = tab.text("#copy-secret")
    check_page(tab, "member-invited")
    tab.reload()
    assert link not in tab.page.content()
    other.show(link, width=1000)
    check_page(other, "invitation")
    other.fill(password=PASSWORD)
    other.click("main form button")
    ways = other.ask("[...document.querySelectorAll('nav a')].map((node) => node.textContent)")
    assert {"Posts", "Settings"} <= set(ways)
    assert "Webhooks" not in ways
    other.click("nav a[href='/settings']")
    assert "API keys" not in other.page.content()
    other.show(link, width=1000)
    assert "was used" in other.text("main")
    other.complaints.clear()
    tab.reload()
    tab.click(f"tbody tr:has-text('{CAROL}') a")
    check_page(tab, "member")
    tab.fill(role="admin")
    tab.click("main form.form button")
    other.show(f"{server.url}/settings/keys", width=1000)
    assert "API keys" in other.text("main")
    tab.click(f"tbody tr:has-text('{CAROL}') a")
    tab.click("button.danger")
    assert [row["email"] for row in server.rows(User)] == [EMAIL]
    other.reload()
    assert other.ask("location.pathname") == "/login"


def test_a_session_is_ended_from_another_browser_and_the_password_changed(
    server: AppServer, alice: Person, tab: BrowserTab, other: BrowserTab
) -> None:
    add_user(server, alice, EMAIL, "owner")
    come_in(other, server)
    come_in(tab, server, "/settings")
    assert "Chrome on Linux" in tab.text("tbody")
    check_page(tab, "settings-sessions")
    tab.click("form[action='/settings/sessions/end'] button")
    assert "signed out" in tab.text(".notice")
    other.reload()
    assert other.ask("location.pathname") == "/login"
    tab.page.locator("#password-now").fill(PASSWORD)
    tab.fill(new_password="another long password")
    tab.click("form[action='/settings/password'] button")
    assert "Password changed" in tab.text(".notice")
    tab.click("main form[action='/logout/everywhere'] button")
    assert tab.ask("location.pathname") == "/login"


def test_a_second_factor_is_set_up_and_asked_for(server: AppServer, alice: Person, tab: BrowserTab) -> None:
    add_user(server, alice, EMAIL, "owner")
    now = server.clock.stop()
    server.clock.stop(now - now % totp.STEP_MS)
    come_in(tab, server, "/settings")
    tab.click("a[href='/settings/totp']")
    check_page(tab, "totp-off")
    assert tab.ask("document.querySelector('.qr-frame svg path').getBBox().width") > 20
    app = pyotp.TOTP(tab.text("#copy-secret"))
    tab.fill(code="000000")
    tab.click("main form.form button")
    assert app.secret in tab.text("#copy-secret")
    tab.complaints.clear()
    tab.fill(code=app.generate_otp(server.clock.now_ms() // totp.STEP_MS))
    tab.click("main form.form button")
    codes = tab.text("#copy-secret").split()
    assert len(codes) == totp.RECOVERY_CODE_COUNT
    check_page(tab, "totp-on")
    tab.reload()
    assert codes[0] not in tab.page.content()
    server.clock.skip(60)
    come_in(tab, server, "/posts")
    assert tab.text("h1") == "Enter your code"
    check_page(tab, "login-code")
    tab.fill(code="000000")
    tab.click("main form button")
    assert "code is wrong" in tab.text("[role=alert]")
    tab.complaints.clear()
    tab.fill(code=app.generate_otp(server.clock.now_ms() // totp.STEP_MS))
    tab.click("main form button")
    assert tab.ask("location.pathname") == "/posts"
    come_in(tab, server)
    tab.fill(code=codes[0])
    tab.click("main form button")
    tab.show(f"{server.url}/settings/totp", width=1000)
    assert "9 of 10 codes are left" in tab.text("main")
    tab.click("button.danger")
    assert "password only" in tab.text(".notice")


def test_the_log_tells_who_did_what_and_is_narrowed_by_clicks(
    server: AppServer, alice: Person, tab: BrowserTab
) -> None:
    add_user(server, alice, EMAIL, "owner")
    come_in(tab, server, "/settings/keys")
    tab.fill(name="for the shop")
    tab.click("main form.form button")
    key = tab.text("#copy-secret")
    tab.click(f"tbody tr:has-text('…{key[-4:]}') a.danger")
    tab.click("button.danger")
    assert server.api(key).get("/v1/posts").status_code == 401
    tab.show(f"{server.url}/settings/log", width=1000)
    assert "Revoke an API key" in tab.text("tbody")
    check_page(tab, "log")
    tab.fill(kind="keys")
    tab.click("form.filters button")
    lines = tab.ask("[...document.querySelectorAll('tbody tr')].map((row) => row.cells[2].innerText.split('\\n')[0])")
    assert lines[:2] == ["Revoke an API key", "Create an API key"]
    assert "Sign in" not in tab.text("tbody")
    assert key not in tab.page.content()
    tab.fill(kind="media")
    tab.click("form.filters button")
    check_page(tab, "log-empty")


def test_a_second_organization_sees_nothing_of_the_first(
    server: AppServer, alice: Person, tab: BrowserTab, other: BrowserTab
) -> None:
    add_user(server, alice, EMAIL, "owner")
    add_user(server, server.person("Bob"), "bob@example.com", "owner")
    come_in(tab, server, "/settings/members")
    tab.fill(email=CAROL, role="admin")
    tab.click("main form.form button")
    other.show(f"{server.url}/login", width=1000)
    other.fill(email="bob@example.com", password=PASSWORD)
    other.click("main form button")
    for path in ("/settings", "/settings/members", "/settings/log", "/settings/totp", "/settings/keys"):
        other.show(f"{server.url}{path}", width=1000)
        assert other.ask("location.pathname") == path
        page = other.page.content()
        assert EMAIL not in page
        assert CAROL not in page
        assert alice.key_id not in page
