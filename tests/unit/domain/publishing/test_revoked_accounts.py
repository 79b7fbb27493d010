"""Posts of a revoked account: no further calls, and the outcome of earlier sends."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from socialpub.base import fault_injection
from socialpub.domain.accounts import accounts, tokens
from socialpub.simulator.bluesky import Bluesky
from socialpub.simulator.server import SimulatorThread
from socialpub.store.schema.models import Intent, Job
from tests.support.account_refusals import TOKENS, graph_refusals, set_responses
from tests.support.app_server import AppServer
from tests.support.soak.soak_world import wait_for
from tests.support.token_accounts import TokenAccount, connect_at_simulator

SEND = {"bluesky": "com.atproto.repo.putRecord", "instagram": "containers.publish"}


@pytest.fixture
def holder(
    way: str, make_server: Callable[..., AppServer], lab: SimulatorThread, monkeypatch: pytest.MonkeyPatch
) -> Iterator[TokenAccount]:
    yield connect_at_simulator(make_server, lab, monkeypatch, way)
    fault_injection.plan("")


@pytest.fixture
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def only(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("way", [name], indirect=True)


def fault(holder: TokenAccount, kind: str, operation: str = "", **more: Any) -> None:
    line = {"fault": kind, "platform": holder.platform, "operation": operation or f"*{SEND[holder.platform]}"}
    holder.server.lab.lab.faults.add([line | more])


def sent(holder: TokenAccount) -> str:
    """A post that was sent and is to be looked for later; its id."""
    post = str(holder.api.publish(holder.body()).json()["results"][0]["postId"])
    while True:  # what the platform is to be waited for while preparing is skipped
        if wait_for(lambda: looked_for(holder, post), 0.3):
            return post
        holder.server.skip(2)


def looked_for(holder: TokenAccount, post: str) -> bool:
    opened = [row for row in holder.server.rows(Intent, post=post) if row["outcome"] is None]
    return bool(opened) and [job["epoch"] for job in holder.server.rows(Job, key=post)] == [None]


def revoked(holder: TokenAccount) -> int:
    """Another post finds out that the token is over; how many calls there were by then."""
    holder.server.lab.lab.faults.clear()
    if holder.platform == "bluesky":
        holder.revoke()
    else:
        set_responses(holder, TOKENS[holder.platform])
    (row,) = holder.publish()
    assert (row["status"], holder.status()) == ("rejected", "revoked")
    holder.server.lab.lab.faults.clear()
    return len(calls(holder))


def calls(holder: TokenAccount) -> list[Any]:
    return [call for call in holder.server.lab.lab.calls if call.platform == holder.platform]


def ended(holder: TokenAccount, post: str) -> tuple[str, dict[str, Any]]:
    """What became of a post, in no time by the clock."""
    row = holder.server.wait(post, "published", "failed", "rejected", seconds=20)
    return str(row["status"]), dict(json.loads(row["error"] or "{}"))


@only("instagram")
def test_a_refusal_that_stands_is_the_end_and_nobody_is_asked_again(holder: TokenAccount, way: str) -> None:
    fault(holder, "status:400", body=graph_refusals("", 100, "Invalid parameter").body)
    post = sent(holder)
    before = revoked(holder)
    status, error = ended(holder, post)
    assert (status, error["code"]) == ("rejected", "platform_rejected")
    assert "Invalid parameter" in error["message"]
    holder.server.skip(7200)
    assert len(calls(holder)) == before


@only("instagram")
def test_a_lost_answer_is_unknown_at_once_where_nobody_may_look(holder: TokenAccount, way: str) -> None:
    fault(holder, "reset_after")
    post = sent(holder)
    before = revoked(holder)
    status, error = ended(holder, post)
    assert (status, error["rule"]) == ("failed", "publish.outcome_unknown")
    assert len(calls(holder)) == before


@only("bluesky")
@pytest.mark.parametrize("there", [True, False])
def test_where_anybody_may_look_one_look_without_a_token_decides(holder: TokenAccount, way: str, there: bool) -> None:
    fault(holder, "reset_after" if there else "reset_before", times=1)
    fault(holder, "status:500", "*getRecord")
    post = sent(holder)
    before = revoked(holder)
    status, error = ended(holder, post)
    assert (status, error.get("rule")) == (("published", None) if there else ("failed", "publish.outcome_unknown"))
    since = calls(holder)[before:] or calls(holder)[before - 1 :]
    assert all(call.operation.endswith("getRecord") and "authorization" not in call.headers for call in since)
    holder.server.skip(7200)
    assert len([call for call in calls(holder) if call.operation.endswith(SEND[way])]) <= 2


@only("instagram")
def test_account_revoked_during_preparation_is_not_published_to(
    holder: TokenAccount, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = holder.server.service

    def over() -> None:
        service.write(lambda tx: tokens.mark_revoked(service, tx, holder.account, "over")).result()

    monkeypatch.setitem(fault_injection._ACTIONS, "raise", over)
    fault_injection.plan("pub.after_media=raise@1")
    (row,) = holder.publish()
    assert (row["status"], json.loads(row["error"])["rule"]) == ("rejected", "account.reconnect_required")
    assert calls(holder) == []


# --- Connected again meanwhile -------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["linkedin", "pinterest"], indirect=True)
def test_refusal_of_replaced_tokens_ends_the_post_not_the_account(
    holder: TokenAccount, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(fault_injection._ACTIONS, "raise", lambda: connected_again(holder))
    set_responses(holder, TOKENS[way])
    fault_injection.plan("pub.before_result=raise@1")
    (row,) = holder.publish()
    assert (row["status"], json.loads(row["error"])["rule"]) == ("rejected", "account.reconnect_required")
    assert (holder.status(), holder.told()) == ("active", [])
    holder.server.lab.lab.faults.clear()
    assert holder.outcome() == "published"


@only("bluesky")
def test_refusal_from_before_a_reconnection_ends_no_account(holder: TokenAccount, way: str) -> None:
    """The first send was lost, the second refused; what that means is known once it was looked for, with new tokens."""
    fault(holder, "reset_before", times=1)
    fault(holder, f"status:{TOKENS[way].status}", times=1, body=TOKENS[way].body)
    fault(holder, "status:500", "*getRecord", nth=2, times=1000)  # nothing is known before the owner is back
    post = str(holder.api.publish(holder.body()).json()["results"][0]["postId"])
    for _ in range(60):
        if wait_for(lambda: is_kept(holder, post), 0.2):
            break
        holder.server.skip(2)
    assert is_kept(holder, post)
    bluesky_again(holder)
    holder.server.lab.lab.faults.clear()
    row = holder.ended(post)
    assert (row["status"], json.loads(row["error"])["rule"]) == ("rejected", "account.reconnect_required")
    assert (holder.status(), holder.told()) == ("active", [])
    assert holder.outcome() == "published"


def is_kept(holder: TokenAccount, post: str) -> bool:
    return looked_for(holder, post) and holder.server.rows(Intent, post=post)[-1]["refusal"] is not None


def bluesky_again(holder: TokenAccount) -> None:
    """The owner gives the app password once more."""
    service, row = holder.server.service, holder.row()
    fake = holder.server.lab.lab.fake("bluesky")
    assert isinstance(fake, Bluesky)
    theirs = fake.accounts.find(row["platform_account_id"])
    assert theirs is not None
    fields = {"handle": theirs.handle, "password": next(iter(theirs.app_passwords.values()))}
    who, held = accounts.login(service, "bluesky", fields)
    service.write(
        lambda tx: accounts.connect(service, tx, row["organization"], row["profile"], "bluesky", who, held)
    ).result()
    assert holder.row()["secret"] != row["secret"]


def connected_again(holder: TokenAccount) -> None:
    before = holder.row()["secret"]
    holder.reconnect()
    assert holder.row()["secret"] != before
