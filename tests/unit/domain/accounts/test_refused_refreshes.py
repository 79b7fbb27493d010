"""Refused token refreshes: fault of account or operator, revocation, rate limit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from socialpub.base.errors import ApiError
from socialpub.domain.accounts import tokens
from socialpub.store.schema.models import Account
from tests.support.token_accounts import TokenAccount

DAY = 86_400


@pytest.fixture
def holder(connect_account: Callable[..., TokenAccount]) -> TokenAccount:
    return connect_account("pinterest")


def refuses(holder: TokenAccount) -> None:
    """As Pinterest does it, with nothing that says whose fault it is."""
    body = {"code": 2, "message": "Authentication failed."}
    fault = {"fault": "status:401", "operation": "oauth.token", "platform": "pinterest", "body": body}
    holder.server.lab.lab.faults.add([fault])


def another(holder: TokenAccount) -> str:
    """One more account of the platform; its id."""
    holder.reconnect(displayName="Bob")
    rows = holder.server.rows(Account, organization=holder.row()["organization"])
    return next(row["id"] for row in rows if row["id"] != holder.account)


def renew(holder: TokenAccount, account: str) -> ApiError:
    (row,) = holder.server.rows(Account, id=account)
    held = tokens.decrypt(holder.server.service, account, row["secret"])
    with pytest.raises(ApiError) as caught:
        tokens.refresh_tokens(holder.server.service, account, held)
    return caught.value


def statuses(holder: TokenAccount) -> dict[str, Any]:
    return {row["id"]: row["status"] for row in holder.api.get("/v1/accounts").json()["data"]}


def test_a_refused_renewal_of_the_only_account_is_its_own(holder: TokenAccount) -> None:
    refuses(holder)
    assert renew(holder, holder.account).rule == "account.reconnect_required"
    assert (holder.status(), holder.told(), holder.renewals()) == ("revoked", ["token.revoked"], 1)


def test_refusal_is_the_accounts_when_another_was_renewed_within_the_hour(holder: TokenAccount) -> None:
    other = another(holder)
    refuses(holder)
    assert renew(holder, holder.account).rule == "account.reconnect_required"
    assert statuses(holder) == {holder.account: "revoked", other: "active"}


def test_when_other_renewals_fail_too_the_operator_is_notified(
    holder: TokenAccount,
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


def test_account_refused_alone_for_an_hour_is_revoked(holder: TokenAccount) -> None:
    another(holder)
    holder.server.skip(8 * DAY)
    refuses(holder)
    assert renew(holder, holder.account).rule is None
    assert holder.status() == "active"
    assert "Authentication failed." in holder.api.get(f"/v1/accounts/{holder.account}").json()["attention"]["message"]
    holder.server.skip(3601)
    assert renew(holder, holder.account).rule == "account.reconnect_required"
    assert holder.status() == "revoked"


def test_at_most_two_renewals_of_an_account_an_hour(holder: TokenAccount) -> None:
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
