"""Connecting in a real browser: over the start page to the platform's own consent, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from socialpub.simulator.server import SimulatorThread
from tests.browser.chromium import Tab, chromium
from tests.domain.connect_kit import Office, open_office
from tests.kit import Server

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def tab() -> Iterator[Tab]:
    with chromium() as tab:
        yield tab


@pytest.fixture
def open_(
    make_server: Callable[..., Server], lab: SimulatorThread, monkeypatch: pytest.MonkeyPatch, tab: Tab
) -> Iterator[Callable[[str], Office]]:
    opened: list[Office] = []

    def office(name: str) -> Office:
        """Alice is signed in, and the platform asks her."""
        opened.append(open_office(make_server, lab, monkeypatch, name))
        opened[-1].upstream.consent.mode = "form"
        tab.send("Network.setCookie", name="socialpub_session", value="alice", url=opened[-1].server.url)
        return opened[-1]

    yield office
    for one in opened:
        one.upstream.consent.mode = "approve"


def click(tab: Tab, selector: str) -> None:
    """Press a link or button, and wait for the page that it leads to."""
    tab.ask(f"document.querySelector({selector!r}).click()")
    while tab._hear().get("method") != "Page.loadEventFired":
        continue


def to_the_platform(tab: Tab, office: Office) -> None:
    tab.show(f"{office.server.url}/", width=1000)
    click(tab, f'a[href="/connect/{office.name}"]')
    click(tab, "#go")
    assert tab.ask("location.origin") == office.server.lab.origin(office.name)


@pytest.mark.parametrize("name", ["threads", "instagram"])
def test_an_owner_who_agrees_comes_back_to_a_connected_account(
    tab: Tab, open_: Callable[[str], Office], name: str
) -> None:
    office = open_(name)
    made = office.login_exists()
    to_the_platform(tab, office)
    click(tab, "#allow")
    assert tab.ask("location.pathname") == f"/connect/{name}/callback"
    assert tab.ask("document.querySelector('h1').textContent") == "Connected"
    (row,) = office.rows()
    assert row["platform_account_id"] == made["platformAccountId"]
    assert tab.ask("document.querySelector('#account-id').textContent") == row["id"]
    assert [text for text in tab.complaints if "404" not in text] == []  # the fake has no icon


def test_an_owner_who_refuses_comes_back_to_a_page_that_says_so(tab: Tab, open_: Callable[[str], Office]) -> None:
    office = open_("threads")
    office.login_exists()
    to_the_platform(tab, office)
    click(tab, "#deny")
    assert "did not connect" in tab.ask("document.body.textContent")
    assert office.rows() == []


def test_one_of_several_pages_is_chosen_and_disconnected(tab: Tab, open_: Callable[[str], Office]) -> None:
    office = open_("facebook")
    office.login_exists(pages=2)
    to_the_platform(tab, office)
    click(tab, "#allow")
    assert tab.ask("document.querySelectorAll('button[name=choice]').length") == 2
    click(tab, "button[name=choice]")
    assert tab.ask("document.querySelector('h1').textContent") == "Connected"
    (row,) = office.rows()
    click(tab, 'main a[href="/"]')
    click(tab, f'form[action="/accounts/{row["id"]}/disconnect"] button')
    assert tab.ask("location.pathname") == "/", tab.ask("document.body.textContent")
    (row,) = office.rows()
    assert row["secret"] is None
