"""Fixtures of the browser tests: one browser per file, and a signed-in user."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from socialpub.simulator.server import SimulatorThread
from tests.support.app_server import AppServer
from tests.support.browser.chromium import BrowserTab, chromium
from tests.support.connect_flow import ConnectSession, open_connect_session


@pytest.fixture(scope="module")
def tab() -> Iterator[BrowserTab]:
    with chromium() as found:
        yield found


@pytest.fixture
def open_(
    make_server: Callable[..., AppServer], lab: SimulatorThread, monkeypatch: pytest.MonkeyPatch, tab: BrowserTab
) -> Iterator[Callable[[str], ConnectSession]]:
    opened: list[ConnectSession] = []

    def office(name: str) -> ConnectSession:
        """Alice is signed in, and the platform asks her."""
        opened.append(open_connect_session(make_server, lab, monkeypatch, name))
        opened[-1].upstream.consent.mode = "form"
        tab.page.context.clear_cookies()
        tab.send("Network.setCookie", name="socialpub_session", value="alice", url=opened[-1].server.url)
        return opened[-1]

    yield office
    for one in opened:
        one.upstream.consent.mode = "approve"
