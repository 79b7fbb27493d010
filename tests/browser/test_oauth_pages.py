"""Signing in from an assistant in a browser, and the way back under the pages' policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.support.app_server import AppServer
from tests.support.browser.chromium import BrowserTab
from tests.support.browser.page_checks import check_page
from tests.support.file_server import FileServer
from tests.support.oauth_assistant import SETTINGS, Assistant
from tests.support.sign_in import EMAIL, PASSWORD, add_user

pytestmark = pytest.mark.browser
NAME = "A helper with <b>a long name</b> that says nothing true"


@pytest.fixture
def back() -> Iterator[str]:
    """The assistant's own address on this computer."""
    server = FileServer()
    yield server.put("/back", b"", 404)
    server.close()


def test_a_person_signs_in_lets_an_assistant_in_and_is_sent_back(
    make_server: Callable[..., AppServer], tab: BrowserTab, back: str
) -> None:
    server = make_server(**SETTINGS)
    alice = server.connected_person("Alice")
    add_user(server, alice, EMAIL, "owner")
    helper = Assistant(server, NAME, back)
    tab.page.context.clear_cookies()
    tab.show(server.url + helper.address(), width=1000)
    tab.fill(email=EMAIL, password=PASSWORD)
    tab.click("main form button")
    check_page(tab, "assistant-asks")
    assert NAME in tab.text("h1")
    tab.page.locator("#scope-3").check()
    tab.click("button[value='approve']")
    assert tab.ask("location.href").startswith(f"{back}?code=")
    code = tab.ask("new URL(location).searchParams.get('code')")
    assert helper.exchange(code).json()["scope"] == "posts:plan posts:write media accounts:read"
    tab.show(server.url + helper.address(code_challenge=None), width=1000)
    tab.complaints.clear()  # of the status 400
    check_page(tab, "assistant-wrong")
    tab.click("main a.button")
    assert tab.ask("new URL(location).searchParams.get('error')") == "invalid_request"
    tab.show(server.url + helper.address(), width=1000)
    tab.click("button[value='refuse']")
    assert tab.ask("new URL(location).searchParams.get('error')") == "access_denied"
