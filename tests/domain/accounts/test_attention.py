"""A platform refuses an account something, though its token is good: the post is over, the account is not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from socialpub.simulator.server import SimulatorThread
from tests.domain.accounts.connect_kit import sign_in
from tests.domain.accounts.refresh_kit import Holder, at_the_lab
from tests.kit import Server
from tests.platforms.contract.rule_kit import EIGHT


@dataclass(frozen=True)
class Refused:
    """An answer to the public call (or the one before it): its status, its body."""

    operation: str
    status: int
    body: Any


def graph(operation: str, code: int, message: str) -> Refused:
    said = {"message": message, "type": "OAuthException", "code": code, "fbtrace_id": "A"}
    return Refused(operation, 403, {"error": said})


NO_ACCESS = {"status": 403, "code": "ACCESS_DENIED", "message": "Not enough permissions to access: posts.CREATE"}
X_LOCKED = {"title": "Forbidden", "status": 403, "detail": "This account is temporarily locked.", "type": "about:blank"}
PERMISSIONS = {
    "bluesky": Refused("com.atproto.repo.putRecord", 401, {"error": "AccountTakedown", "message": "taken down"}),
    "bluesky scope": Refused("com.atproto.repo.putRecord", 403, {"error": "ScopeMissingError", "message": "no scope"}),
    "facebook": graph("feed.post", 200, "(#200) Requires pages_manage_posts"),
    "instagram": graph("containers.publish", 10, "(#10) Application does not have permission for this action"),
    "threads": graph("containers.publish", 10, "Application does not have permission for this action"),
    "linkedin": Refused("posts.create", 403, NO_ACCESS),
    "pinterest": Refused("pins.create", 403, {"code": 29, "message": "You are not permitted to access that resource."}),
    "tiktok": Refused("content.init", 401, {"error": {"code": "scope_not_authorized", "message": "no", "log_id": "1"}}),
    "twitter": Refused("tweets.create", 403, X_LOCKED),
}
TOKENS = {
    "bluesky": Refused("com.atproto.repo.putRecord", 401, {"error": "AuthMissing", "message": "no"}),
    "facebook": graph("feed.post", 190, "Error validating access token"),
    "instagram": graph("containers.publish", 190, "Error validating access token"),
    "threads": graph("containers.publish", 190, "Error validating access token"),
    "linkedin": Refused("posts.create", 401, {"status": 401, "code": "REVOKED_ACCESS_TOKEN", "message": "revoked"}),
    "pinterest": Refused("pins.create", 401, {"code": 2, "message": "Authentication failed."}),
    "tiktok": Refused("content.init", 401, {"error": {"code": "access_token_invalid", "message": "no", "log_id": "1"}}),
    "twitter": Refused("tweets.create", 401, {"title": "Unauthorized", "status": 401, "detail": "Unauthorized"}),
}


@pytest.fixture
def holder(
    way: str, make_server: Callable[..., Server], lab: SimulatorThread, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Holder]:
    return at_the_lab(make_server, lab, monkeypatch, way.partition(" ")[0])


@pytest.fixture
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def each(table: dict[str, Refused]) -> pytest.MarkDecorator:
    assert {name.partition(" ")[0] for name in table} == set(EIGHT)
    return pytest.mark.parametrize("way", list(table), indirect=True)


def answers(holder: Holder, refused: Refused) -> None:
    fault = {"fault": f"status:{refused.status}", "operation": refused.operation, "body": refused.body}
    holder.server.lab.lab.faults.add([fault | {"platform": holder.platform}])


def account(holder: Holder) -> dict[str, Any]:
    (found,) = holder.api.get("/v1/accounts").json()["data"]
    return dict(found)


@each(PERMISSIONS)
def test_a_refused_permission_ends_the_post_and_is_kept_on_the_account_until_one_succeeds(
    holder: Holder, way: str
) -> None:
    assert "attention" not in account(holder)
    answers(holder, PERMISSIONS[way])
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


@each(TOKENS)
def test_a_refused_token_ends_the_account(holder: Holder, way: str) -> None:
    answers(holder, TOKENS[way])
    (row,) = holder.publish()
    error = json.loads(row["error"])
    assert (row["status"], error["rule"]) == ("rejected", "account.reconnect_required")
    assert (holder.status(), holder.told()) == ("revoked", ["token.revoked"])
    assert "attention" not in account(holder)


@pytest.mark.parametrize("way", ["bluesky"], indirect=True)
def test_a_renewal_that_a_takedown_refuses_is_kept_too_and_ends_no_account(holder: Holder, way: str) -> None:
    holder.kill()
    answers(holder, Refused("*refreshSession", 401, {"error": "AccountTakedown", "message": "taken down"}))
    (row,) = holder.publish()
    assert (row["status"], row["error_code"]) == ("rejected", "platform_auth_failed")
    assert (account(holder)["status"], holder.told()) == ("active", [])
    assert "taken down" in account(holder)["attention"]["message"]
    holder.server.lab.lab.faults.clear()
    assert holder.publish()[0]["status"] == "published"
    assert "attention" not in account(holder)


@pytest.mark.parametrize("way", ["twitter"], indirect=True)
def test_the_dashboard_tells_it_and_a_new_connection_forgets_it(holder: Holder, way: str) -> None:
    answers(holder, PERMISSIONS["twitter"])
    holder.publish()
    browser = sign_in(holder.server, holder.row()["organization"], name="bob")
    assert "This account is temporarily locked." in browser.get("/", headers={"Accept": "text/html"}).text
    holder.server.lab.lab.faults.clear()
    holder.reconnect()
    assert "attention" not in account(holder)
