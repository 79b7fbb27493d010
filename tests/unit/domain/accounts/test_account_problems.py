"""Platform refusals that concern an account: failed post, account problem or revocation."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.account_refusals import TOKENS, RefusedCall, graph_refusals, set_responses
from tests.support.app_server import unused_name
from tests.support.connect_flow import sign_in
from tests.support.platforms.rule_drafts import EIGHT
from tests.support.token_accounts import TokenAccount

NO_ACCESS = {"status": 403, "code": "ACCESS_DENIED", "message": "Not enough permissions to access: posts.CREATE"}
X_LOCKED = {"title": "Forbidden", "status": 403, "detail": "This account is temporarily locked.", "type": "about:blank"}
PERMISSIONS = {
    "bluesky": RefusedCall("com.atproto.repo.putRecord", 401, {"error": "AccountTakedown", "message": "taken down"}),
    "bluesky scope": RefusedCall(
        "com.atproto.repo.putRecord", 403, {"error": "ScopeMissingError", "message": "no scope"}
    ),
    "facebook": graph_refusals("feed.post", 200, "(#200) Requires pages_manage_posts"),
    "instagram": graph_refusals("containers.publish", 10, "(#10) Application does not have permission for this action"),
    "threads": graph_refusals("containers.publish", 10, "Application does not have permission for this action"),
    "linkedin": RefusedCall("posts.create", 403, NO_ACCESS),
    "pinterest": RefusedCall(
        "pins.create", 403, {"code": 29, "message": "You are not permitted to access that resource."}
    ),
    "tiktok": RefusedCall(
        "content.init", 401, {"error": {"code": "scope_not_authorized", "message": "no", "log_id": "1"}}
    ),
    "twitter": RefusedCall("tweets.create", 403, X_LOCKED),
}


@pytest.fixture
def holder(way: str, connect_account: Callable[..., TokenAccount]) -> TokenAccount:
    return connect_account(way.partition(" ")[0])


@pytest.fixture
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def each(table: dict[str, RefusedCall]) -> pytest.MarkDecorator:
    assert {name.partition(" ")[0] for name in table} == set(EIGHT)
    return pytest.mark.parametrize("way", list(table), indirect=True)


def account(holder: TokenAccount) -> dict[str, Any]:
    (found,) = holder.api.get("/v1/accounts").json()["data"]
    return dict(found)


@pytest.mark.matrix
@each(PERMISSIONS)
def test_refused_permission_ends_the_post_and_marks_the_account(holder: TokenAccount, way: str) -> None:
    assert "attention" not in account(holder)
    set_responses(holder, PERMISSIONS[way])
    (row,) = holder.publish()
    error = json.loads(row["error"])
    assert (row["status"], error["code"]) == ("rejected", "platform_auth_failed")
    assert error.get("rule") != "account.reconnect_required"
    shown = account(holder)
    assert (shown["status"], holder.told()) == ("active", [])
    assert shown["attention"] == {"code": error["code"], "message": error["message"], "at": shown["updatedAt"]}
    assert holder.publish()[0]["status"] == "rejected"  # and asked again
    holder.server.lab.lab.faults.clear()
    assert holder.publish()[0]["status"] == "published"
    assert "attention" not in account(holder)


@pytest.mark.matrix
@each(TOKENS)
def test_a_refused_token_ends_the_account(holder: TokenAccount, way: str) -> None:
    set_responses(holder, TOKENS[way])
    (row,) = holder.publish()
    error = json.loads(row["error"])
    assert (row["status"], error["rule"]) == ("rejected", "account.reconnect_required")
    assert (holder.status(), holder.told()) == ("revoked", ["token.revoked"])
    assert "attention" not in account(holder)


@pytest.mark.parametrize("way", ["bluesky"], indirect=True)
def test_renewal_refused_by_a_takedown_is_recorded_and_ends_no_account(holder: TokenAccount, way: str) -> None:
    holder.kill()
    set_responses(holder, RefusedCall("*refreshSession", 401, {"error": "AccountTakedown", "message": "taken down"}))
    (row,) = holder.publish()
    assert (row["status"], row["error_code"]) == ("rejected", "platform_auth_failed")
    assert (account(holder)["status"], holder.told()) == ("active", [])
    assert "taken down" in account(holder)["attention"]["message"]
    holder.server.lab.lab.faults.clear()
    assert holder.publish()[0]["status"] == "published"
    assert "attention" not in account(holder)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["twitter"], indirect=True)
def test_the_dashboard_tells_it_and_a_new_connection_forgets_it(holder: TokenAccount, way: str) -> None:
    set_responses(holder, PERMISSIONS["twitter"])
    holder.publish()
    browser = sign_in(holder.server, holder.row()["organization"], name=unused_name("bob"))
    assert "This account is temporarily locked." in browser.get("/", headers={"Accept": "text/html"}).text
    holder.server.lab.lab.faults.clear()
    holder.reconnect()
    assert "attention" not in account(holder)
