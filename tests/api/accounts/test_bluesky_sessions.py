"""Bluesky sessions: ended upstream when a reconnect replaces them, kept otherwise."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from socialpub.domain.accounts import tokens
from socialpub.domain.server import instance
from socialpub.platforms.contract import AccountIdentity, Tokens
from socialpub.simulator.bluesky import Bluesky
from socialpub.simulator.bluesky.accounts import Account as Theirs
from socialpub.store.schema.models import Account, Instance
from tests.support.app_server import AppServer, Person, sleep_briefly
from tests.support.connect_flow import sign_in
from tests.support.request_cast import RequestCast

POST = "app.bsky.feed.post"
DELETE = "com.atproto.server.deleteSession"


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < deadline
        sleep_briefly()


def upstream(server: AppServer, account: dict[str, Any]) -> Theirs:
    fake = server.lab.lab.fake("bluesky")
    assert isinstance(fake, Bluesky)
    found = fake.accounts.find(account["platformAccountId"])
    assert found is not None
    return found


def held(server: AppServer, account: str) -> Tokens:
    (row,) = server.rows(Account, id=account)
    return tokens.decrypt(server.service, account, row["secret"])


def calls(server: AppServer, operation: str) -> int:
    return sum(call.operation == operation for call in server.lab.lab.calls)


# --- App passwords ---------------------------------------------------------------------------------------------------


def reconnected(server: AppServer, person: Person) -> str:
    """The account's id, after its owner has given the app password once more."""
    theirs = upstream(server, person.accounts["bluesky"])
    fields = {"handle": theirs.handle, "password": next(iter(theirs.app_passwords.values()))}
    fields["profileId"] = person.profile
    browser = sign_in(server, person.organization, name=f"{person.name}-{len(theirs.refresh_tokens)}")
    answer = browser.post("/v1/accounts/connect/bluesky/complete", json=fields)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["id"])


def test_the_session_that_a_reconnect_replaces_is_ended(world: RequestCast) -> None:
    server, theirs = world.server, upstream(world.server, world.alice.accounts["bluesky"])
    (old,) = theirs.refresh_tokens
    assert reconnected(server, world.alice) == world.alice.bluesky
    until(lambda: old not in theirs.refresh_tokens)
    assert len(theirs.refresh_tokens) == 1
    assert world.published()
    fresh = tokens.refresh_tokens(server.service, world.alice.bluesky, held(server, world.alice.bluesky))
    assert fresh == held(server, world.alice.bluesky)


def test_a_reconnect_is_done_although_the_old_session_cannot_be_ended(world: RequestCast) -> None:
    world.server.lab.lab.faults.add([{"fault": "status:500", "operation": DELETE, "times": 1}])
    before = calls(world.server, DELETE)
    reconnected(world.server, world.alice)
    until(lambda: calls(world.server, DELETE) > before)
    assert world.published()


def test_tokens_that_are_connected_again_as_they_are_stay_alive(world: RequestCast) -> None:
    server, before = world.server, calls(world.server, DELETE)
    (row,) = server.rows(Account, id=world.alice.bluesky)
    identity = AccountIdentity(row["platform_account_id"], row["display_name"], json.loads(row["extra"]))
    server._keep(world.alice, "bluesky", "bluesky", identity, held(server, row["id"]))
    reconnected(server, world.bob)
    until(lambda: len(upstream(server, world.bob.accounts["bluesky"]).refresh_tokens) == 1)
    assert calls(server, DELETE) == before + 1
    assert world.published()
    assert len(upstream(server, world.alice.accounts["bluesky"]).refresh_tokens) == 1


def test_a_restored_copy_leaves_the_sessions_of_its_original_alone(world: RequestCast) -> None:
    world.server.service.write(lambda tx: Instance.update(paused=instance.RESTORED).execute()).result()
    before = calls(world.server, DELETE)
    reconnected(world.server, world.alice)
    world.server.service.write(lambda tx: Instance.update(paused=None).execute()).result()
    reconnected(world.server, world.bob)
    until(lambda: calls(world.server, DELETE) == before + 1)
    assert len(upstream(world.server, world.alice.accounts["bluesky"]).refresh_tokens) == 2


# --- An account that comes back --------------------------------------------------------------------------------------


def test_an_account_that_was_deactivated_works_again_when_it_comes_back(world: RequestCast) -> None:
    theirs = upstream(world.server, world.alice.accounts["bluesky"])
    theirs.status = "deactivated"
    refused = world.post().json()["results"][0]
    assert (refused["status"], refused["error"]["code"]) == ("rejected", "platform_auth_failed")
    assert "Account is deactivated" in refused["error"]["message"]
    assert "connect it again" not in refused["error"]["remediation"]
    shown = world.alice.api.get(f"/v1/accounts/{world.alice.bluesky}").json()
    assert shown["status"] == "active"
    assert "Account is deactivated" in shown["attention"]["message"]
    world.server.skip(3 * 3600)
    assert tokens.refresh_tokens(world.server.service, world.alice.bluesky, held(world.server, world.alice.bluesky))
    theirs.status = None
    assert world.published()
    assert "attention" not in world.alice.api.get(f"/v1/accounts/{world.alice.bluesky}").json()
