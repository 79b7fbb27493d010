"""How often a platform is connected to: once for many posts, not once for each call."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from socialpub.base import http as outbound
from socialpub.base.http import transport
from socialpub.simulator.server import SimulatorThread
from tests.domain.accounts.refresh_kit import Holder, at_the_lab
from tests.kit import Server
from tests.platforms.contract.rule_kit import EIGHT


@pytest.fixture(params=EIGHT)
def holder(
    request: pytest.FixtureRequest,
    make_server: Callable[..., Server],
    lab: SimulatorThread,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Holder]:
    monkeypatch.setattr(transport, "FRESH_SECONDS", 600.0)  # however busy the machine is
    monkeypatch.setattr(transport, "IDLE_SECONDS", 600.0)
    yield at_the_lab(make_server, lab, monkeypatch, request.param)
    outbound.close_idle(0)


def test_twenty_posts_of_an_account_need_a_few_connections(holder: Holder) -> None:
    made: list[tuple[str, int]] = []

    def resolver(host: str, port: int) -> list[str]:
        """Asked once for each connection."""
        made.append((host, port))
        return outbound.resolve(host, port)

    object.__setattr__(holder.server.service.runtime, "resolver", resolver)
    before = len(holder.server.lab.lab.calls)
    rows = holder.publish(10) + [row for _ in range(10) for row in holder.publish()]
    assert [row["status"] for row in rows] == ["published"] * 20
    calls = [call for call in holder.server.lab.lab.calls[before:] if call.platform == holder.platform]
    assert len(calls) >= 20
    assert len(made) <= 4, f"{len(made)} connections for {len(calls)} calls"
