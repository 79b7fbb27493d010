"""A renewal that is refused: whose fault it is, and how often it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from socialpub.base.errors import ApiError
from socialpub.domain.accounts import tokens
from socialpub.simulator.server import SimulatorThread
from socialpub.store.schema.models import Account
from tests.domain.accounts.refresh_kit import Holder, at_the_lab
from tests.kit import Server

DAY = 86_400


@pytest.fixture
def holder(
    make_server: Callable[..., Server], lab: SimulatorThread, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Holder]:
    return at_the_lab(make_server, lab, monkeypatch, "pinterest")


def refuses(holder: Holder) -> None:
    """As Pinterest does it, with nothing that says whose fault it is."""
    body = {"code": 2, "message": "Authentication failed."}
    fault = {"fault": "status:401", "operation": "oauth.token", "platform": "pinterest", "body": body}
    holder.server.lab.lab.faults.add([fault])


def another(holder: Holder) -> str:
    """One more account of the platform; its id."""
    holder.reconnect(displayName="Bob")
    return next(row["id"] for row in holder.server.rows(Account, platform="pinterest") if row["id"] != holder.account)


def renew(holder: Holder, account: str) -> ApiError:
    (row,) = holder.server.rows(Account, id=account)
    held = tokens.decrypt(holder.server.service, account, row["secret"])
    with pytest.raises(ApiError) as caught:
        tokens.refresh_tokens(holder.server.service, account, held)
    return caught.value


def statuses(holder: Holder) -> dict[str, Any]:
    return {row["id"]: row["status"] for row in holder.api.get("/v1/accounts").json()["data"]}


def test_a_refused_renewal_of_the_only_account_is_its_own(holder: Holder) -> None:
    refuses(holder)
    assert renew(holder, holder.account).rule == "account.reconnect_required"
    assert (holder.status(), holder.told(), holder.renewals()) == ("revoked", ["token.revoked"], 1)


def test_a_refused_renewal_is_the_accounts_where_another_has_been_let_in_within_the_hour(holder: Holder) -> None:
    other = another(holder)
    refuses(holder)
    assert renew(holder, holder.account).rule == "account.reconnect_required"
    assert statuses(holder) == {holder.account: "revoked", other: "active"}


def test_when_the_renewals_of_others_are_refused_too_the_operator_is_told_and_nobody_is_revoked(
    holder: Holder,
) -> None:
    other = another(holder)
    holder.server.skip(8 * DAY)
    refuses(holder)
    first = renew(holder, holder.account)
    assert (first.code, first.rule) == ("platform_auth_failed", None)
    second = renew(holder, other)
    assert second.code == "platform_not_enabled"
    assert "platforms.pinterest.client_secret" in str(second.remediation)
    assert renew(holder, holder.account).code == "platform_not_enabled"
    assert set(statuses(holder).values()) == {"active"}
    assert holder.told() == []


def test_one_whose_renewal_is_refused_for_an_hour_and_nobody_elses_is_revoked(holder: Holder) -> None:
    another(holder)
    holder.server.skip(8 * DAY)
    refuses(holder)
    assert renew(holder, holder.account).rule is None
    assert holder.status() == "active"
    assert "Authentication failed." in holder.api.get(f"/v1/accounts/{holder.account}").json()["attention"]["message"]
    holder.server.skip(3601)
    assert renew(holder, holder.account).rule == "account.reconnect_required"
    assert holder.status() == "revoked"


def test_a_platform_is_asked_for_two_renewals_of_an_account_within_an_hour_at_most(holder: Holder) -> None:
    for _ in range(2):
        holder.renewed()
    with pytest.raises(ApiError) as caught:
        holder.renewed()
    assert (caught.value.code, holder.renewals()) == ("platform_unavailable", 2)
    assert 0 < (caught.value.retry_after or 0) <= 3601
    assert holder.status() == "active"
    holder.server.skip(3601)
    holder.renewed()
    assert holder.renewals() == 3
