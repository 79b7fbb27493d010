"""Connected accounts of every fake platform and a movable clock, for token expiry tests."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from socialpub.base.errors import ApiError, Outcome
from socialpub.domain.accounts import token_refresh, tokens
from socialpub.platforms.contract import Tokens
from socialpub.store.schema.models import Account
from tests.support.app_server import AppServer, format_instant, sleep_briefly, unused_name
from tests.support.bluesky_connect_flow import BASE, TOKEN, BlueskyConnectSession, open_bluesky_session
from tests.support.connect_flow import ConnectSession, open_connect_session
from tests.support.platforms.meta_calls import jpeg

PICTURES = ("instagram", "pinterest", "tiktok")  # a text alone is not for them
RENEWALS = ("oauth.token", "token.refresh", "token.exchange", "com.atproto.server.refreshSession")
LOST = ApiError("platform_unavailable", "the answer was lost", outcome=Outcome.AMBIGUOUS)
_numbers = itertools.count(1)


@dataclass
class TokenAccount:
    """One connected account of Alice's, and the platform's side of it. `renewals` counts what was asked of it."""

    server: AppServer
    api: Any
    platform: str
    account: str
    renewals: Callable[[], int]
    lose: Callable[[str], None]  # the next renewal's answer: "reset_before" or "reset_after" its effect
    revoke: Callable[[], None]  # the owner takes the permission back
    kill: Callable[[], None]  # the access token dies before its time
    reconnect: Callable[..., object] = lambda **who: None  # an owner agrees once more, or (named) another one
    connected_at: int = 0
    upkeep: token_refresh.TokenRefresher = field(init=False)

    def __post_init__(self) -> None:
        self.upkeep = token_refresh.TokenRefresher(self.server.service)
        self.connected_at = self.server.service.now_ms

    # --- Looking ---

    def row(self) -> dict[str, Any]:
        (found,) = self.server.rows(Account, id=self.account)
        return found

    def held(self) -> Tokens:
        return tokens.decrypt(self.server.service, self.account, self.row()["secret"])

    def told(self) -> list[str]:
        """The token events of the account."""
        events = self.server.happened(organization=self.row()["organization"])
        return [event.type for event in events if event.type.startswith("token.")]

    def status(self) -> str:
        return str(self.api.get(f"/v1/accounts/{self.account}").json()["status"])

    # --- Doing ---

    def until(self, seconds: float) -> None:
        """Time passes until so many seconds after the connection."""
        self.server.skip((self.connected_at - self.server.service.now_ms) / 1000 + seconds)

    def renewed(self, stale: Tokens | None = None) -> Tokens:
        return tokens.refresh_tokens(self.server.service, self.account, stale or self.held())

    def crash(self) -> None:
        """What a process that dies takes with it."""
        self.server.service.upstream.renewals.clear()
        self.upkeep = token_refresh.TokenRefresher(self.server.service)

    def look(self) -> int:
        """A look, to the end of what it began; how many renewals it asked for."""
        before = self.renewals()
        self.upkeep.run()
        while self.upkeep._running:
            sleep_briefly()
        return self.renewals() - before

    def body(self, count: int = 1) -> dict[str, Any]:
        image = {"kind": "image", "bytesBase64": base64.b64encode(jpeg()).decode()}
        targets = [{"accountId": self.account, "text": f"post {next(_numbers)}"} for _ in range(count)]
        return {"targets": targets} | ({"media": [image]} if self.platform in PICTURES else {})

    def schedule(self, seconds: float, **content: Any) -> str:
        """A post for so many seconds after the connection; its id."""
        at = format_instant(self.connected_at + int(seconds * 1000))
        answer = self.api.publish(self.body() | content | {"scheduledAt": at})
        assert answer.status_code == 202, answer.text
        return str(answer.json()["results"][0]["postId"])

    def publish(self, count: int = 1) -> list[dict[str, Any]]:
        """The rows of so many posts, once all have ended; waits of the platform are skipped."""
        answer = self.api.publish(self.body(count)).json()
        return [self.ended(result["postId"]) for result in answer["results"]]

    def ended(self, post: str) -> dict[str, Any]:
        """The row of a post once it has ended; waits of the platform are skipped."""
        with self.server.hurried():
            return self.server.wait(post, "published", "rejected", "failed", seconds=60)

    def outcome(self) -> str:
        """What becomes of a post now: its status, or the rule that refused it."""
        (row,) = self.publish()
        return "published" if row["status"] == "published" else str(json.loads(row["error"]).get("rule"))


def connect_at_simulator(
    make_server: Callable[..., AppServer], lab: Any, patch: pytest.MonkeyPatch, name: str, **who: Any
) -> TokenAccount:
    """An account of a platform that the simulator stands in for, connected as its owner does it."""
    office = open_connect_session(
        *(make_server, lab, patch, "" if name == "bluesky" else name),
        user=unused_name("alice"),
        publishing={"immediate_wait": 0.2},
    )
    account = office.server.connect_bluesky(office.alice)["id"] if name == "bluesky" else _login(office, who)
    if name == "pinterest":
        _choose_board(office, account)
    office.server.lab.lab.calls.clear()
    faults = office.server.lab.lab.faults

    def lose(fault: str) -> None:
        faults.add([{"fault": fault, "platform": name, "operation": each, "nth": 1} for each in RENEWALS])

    def end(*, refresh: bool) -> None:
        office.server.lab.lab.end_tokens(name, access=True, refresh=refresh)

    def revoke() -> None:
        end(refresh=True)
        if name != "bluesky":
            office.upstream.end_grants(None)

    office.name = name
    return _stop_timers(
        TokenAccount(
            office.server,
            office.alice.api,
            name,
            account,
            renewals=lambda: office.calls(*RENEWALS),
            lose=lose,
            revoke=revoke,
            kill=lambda: end(refresh=False),
            reconnect=lambda **another: _login(office, another) if another else office.connect(),
        )
    )


def _login(office: ConnectSession, who: dict[str, Any]) -> str:
    office.login_exists(**who)
    answer = office.connect()
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def _choose_board(office: ConnectSession, account: str) -> None:
    path = f"/v1/accounts/{account}/pinterest"
    board = office.alice.api.get(f"{path}/boards").json()["data"][0]["id"]
    assert office.alice.api.patch(f"{path}/default-board", json={"boardId": board}).status_code == 200


def connect_bluesky_by_oauth(make_server: Callable[..., AppServer], patch: pytest.MonkeyPatch) -> TokenAccount:
    """An account of Bluesky that was connected by its handle: its server is a network in memory."""
    desk: BlueskyConnectSession = open_bluesky_session(make_server, patch, BASE, unused_name("alice"))
    account, net = str(desk.connect()["id"]), desk.net
    first = len(net.calls)

    def lose(fault: str) -> None:
        net.faults[TOKEN] = LOST

    holder = TokenAccount(
        desk.server,
        desk.alice.api,
        "bluesky",
        account,
        renewals=lambda: net.calls[first:].count(("POST", TOKEN)),  # the nonce is known since the connection
        lose=lose,
        revoke=net.sessions.clear,
        kill=lambda: None,
    )
    return _stop_timers(holder)


def _stop_timers(holder: TokenAccount) -> TokenAccount:
    """The server leaves the tokens to the test: nothing of it runs on a timer."""
    holder.server.service.jobs.read_periodic = lambda now: []  # type: ignore[method-assign]
    return holder
