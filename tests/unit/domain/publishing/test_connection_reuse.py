"""Reuse of platform connections across posts of an account."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from socialpub.base import http as outbound
from socialpub.base.http import transport
from tests.support.platforms.rule_drafts import EIGHT
from tests.support.token_accounts import TokenAccount


@pytest.fixture(params=EIGHT)
def holder(
    request: pytest.FixtureRequest, connect_account: Callable[..., TokenAccount], monkeypatch: pytest.MonkeyPatch
) -> Iterator[TokenAccount]:
    monkeypatch.setattr(transport, "FRESH_SECONDS", 600.0)  # however busy the machine is
    monkeypatch.setattr(transport, "IDLE_SECONDS", 600.0)
    yield connect_account(request.param)
    outbound.close_idle(0)


@pytest.mark.matrix
def test_ten_posts_of_an_account_need_a_few_connections(holder: TokenAccount) -> None:
    made: list[tuple[str, int]] = []

    def resolver(host: str, port: int) -> list[str]:
        """Asked once for each connection."""
        made.append((host, port))
        return outbound.resolve(host, port)

    object.__setattr__(holder.server.service.runtime, "resolver", resolver)  # each test sets its own
    before = len(holder.server.lab.lab.calls)
    rows = holder.publish(5) + [row for _ in range(5) for row in holder.publish()]
    assert [row["status"] for row in rows] == ["published"] * 10
    calls = [call for call in holder.server.lab.lab.calls[before:] if call.platform == holder.platform]
    assert len(calls) >= 10
    assert len(made) <= 4, f"{len(made)} connections for {len(calls)} calls"
