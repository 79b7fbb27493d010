"""One browser a file, and somebody in front of it who connects accounts."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from socialpub.simulator.server import SimulatorThread
from tests.browser.chromium import Tab, chromium
from tests.domain.accounts.connect_kit import Office, open_office
from tests.kit import Server


@pytest.fixture(scope="module")
def tab() -> Iterator[Tab]:
    with chromium() as found:
        yield found


@pytest.fixture
def open_(
    make_server: Callable[..., Server], lab: SimulatorThread, monkeypatch: pytest.MonkeyPatch, tab: Tab
) -> Iterator[Callable[[str], Office]]:
    opened: list[Office] = []

    def office(name: str) -> Office:
        """Alice is signed in, and the platform asks her."""
        opened.append(open_office(make_server, lab, monkeypatch, name))
        opened[-1].upstream.consent.mode = "form"
        tab.page.context.clear_cookies()
        tab.send("Network.setCookie", name="socialpub_session", value="alice", url=opened[-1].server.url)
        return opened[-1]

    yield office
    for one in opened:
        one.upstream.consent.mode = "approve"
