"""Renewing at each platform that has a fake with OAuth: ahead of time, at once for many, refused, unanswered."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from socialpub import platforms
from socialpub.base.errors import ApiError
from socialpub.domain import tokens
from socialpub.platforms.base import Tokens
from socialpub.simulator.server import SimulatorThread
from tests.domain.connect_kit import OAUTH, Office, open_office
from tests.kit import Clock, Server

Make = Callable[..., Server]
RENEWALS = ("oauth.token", "token.refresh", "token.exchange")


@pytest.fixture
def lab(wall: Clock) -> Iterator[SimulatorThread]:
    """A simulator whose time the test moves together with the server's."""
    with SimulatorThread(wall) as simulator:
        yield simulator


@pytest.fixture(params=OAUTH)
def office(
    request: pytest.FixtureRequest, make_server: Make, lab: SimulatorThread, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Office]:
    """With a connected account whose tokens are due for a renewal."""
    office = open_office(make_server, lab, monkeypatch, request.param)
    # LinkedIn gives refresh tokens to some apps only.
    office.login_exists(**{"vetted": True} if office.name == "linkedin" else {})
    assert office.connect().status_code == 201
    upkeep, ends = platforms.PLATFORMS[office.name].upkeep, row(office)["token_expires_at"]
    left = (ends - office.server.service.now_ms) / 1000 - upkeep.refresh_before if ends else upkeep.keep_alive or 0
    if not upkeep.renewable or held(office).refresh is None:
        pytest.fail(f"{office.name} gave nothing to renew; say so in this test")
    office.server.skip(left)
    lab.lab.calls.clear()
    yield office
    tokens._flights.clear()


def row(office: Office) -> dict[str, Any]:
    (found,) = office.rows()
    return found


def held(office: Office) -> Tokens:
    return tokens.open_tokens(office.server.service, row(office)["id"], row(office)["secret"])


def renew(office: Office, stale: Tokens | None = None) -> Tokens:
    return tokens.renewed(office.server.service, row(office)["id"], stale or held(office))


def test_a_renewal_ahead_of_time_brings_tokens_that_live_on(office: Office) -> None:
    before = row(office)
    fresh = renew(office)
    after = row(office)
    assert held(office) == fresh
    assert after["status"] == "active"
    assert after["renewed_at"] > before["renewed_at"]
    if before["token_expires_at"]:
        assert after["token_expires_at"] > before["token_expires_at"]
        office.server.skip((before["token_expires_at"] - office.server.service.now_ms) / 1000 + 1)
        assert office.upstream.access(fresh.access).state == "alive"


def test_fifty_at_once_ask_once(office: Office) -> None:
    stale = held(office)
    with concurrent.futures.ThreadPoolExecutor(50) as pool:
        found = set(pool.map(lambda _: repr(renew(office, stale)), range(50)))
    assert len(found) == 1
    assert office.calls(*RENEWALS) == 1


def test_a_revoked_authorization_ends_the_account_and_is_told_once(office: Office) -> None:
    office.server.lab.lab.end_tokens(office.name, access=True, refresh=True)
    office.upstream.end_grants(None)
    for _ in range(2):
        with pytest.raises(ApiError) as caught:
            renew(office)
        assert caught.value.rule == "account.reconnect_required"
    assert row(office)["status"] == "revoked"
    assert [type_ for type_, _ in office.server.events()] == ["token.revoked"]


@pytest.mark.parametrize("fault", ["reset_before", "status:503", "html", "redirect_self"])
def test_bad_weather_ends_no_account(office: Office, fault: str) -> None:
    office.server.lab.lab.faults.add([{"fault": fault, "platform": office.name}])
    with pytest.raises(ApiError) as caught:
        renew(office)
    assert caught.value.code == "platform_unavailable"
    assert row(office)["status"] == "active"
    assert office.server.events() == []
    office.server.lab.lab.faults.clear()
    renew(office)
    assert row(office)["status"] == "active"


def test_a_lost_answer_is_asked_for_again_only_where_that_is_harmless(office: Office) -> None:
    lost = [{"fault": "reset_after", "operation": name, "nth": 1} for name in RENEWALS]
    office.server.lab.lab.faults.add(lost)
    if platforms.PLATFORMS[office.name].upkeep.rotates:
        with pytest.raises(ApiError) as caught:
            renew(office)
        assert caught.value.code == "platform_unavailable"
        assert office.calls(*RENEWALS) == 1
        assert row(office)["renewal_at"] is not None
    else:
        renew(office)
        assert office.calls(*RENEWALS) == 2
        assert row(office)["renewal_at"] is None
    assert row(office)["status"] == "active"
