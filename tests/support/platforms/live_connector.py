"""Connector over a real socket to its platform's fake, with the fake's ledger."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from socialpub.base import http as outbound
from socialpub.base.errors import ApiError, Outcome
from socialpub.platforms import CONNECTORS
from socialpub.platforms.contract import (
    Absent,
    ConnectorAccount,
    Draft,
    DraftMedia,
    Pending,
    Published,
    Ready,
    Tokens,
    Unknown,
    Upstream,
)
from socialpub.simulator.oauth import CLIENT_ID, CLIENT_SECRET
from socialpub.simulator.server import SimulatorThread
from tests.support.fixed_clock import FixedClock
from tests.support.platforms.scripted_upstream import NONCE


@dataclass
class LiveConnector:
    """Alice's account."""

    name: str
    simulator: SimulatorThread
    clock: FixedClock
    up: Upstream

    @property
    def module(self) -> Any:
        return CONNECTORS[self.name]

    @property
    def fake(self) -> Any:
        return self.simulator.lab.fake(self.name)

    def draft(self, text: str = "hello", *items: DraftMedia, **options: Any) -> Draft:
        return Draft(text, items=items, options=options, now_ms=self.clock.now_ms(), nonce=NONCE)

    def prepared(self, content: Draft, saved: dict[str, Any] | None = None) -> dict[str, Any]:
        """The plan, after as much waiting as was asked for; what is kept goes through JSON, as in the database."""
        while isinstance(found := self.module.prepare(self.up, content, saved), Pending):
            saved = json.loads(json.dumps(found.saved))
            self.clock.ms += int(found.seconds * 1000)
        assert isinstance(found, Ready)
        return dict(json.loads(json.dumps(found.plan)))

    def send(self, plan: dict[str, Any]) -> Published:
        return self._awaited(self.module.send(self.up, plan))

    def _awaited(self, found: Published | Pending | Absent | Unknown) -> Any:
        """What comes of it: what was only taken is asked about until it is public."""
        if not isinstance(found, Pending):
            return found
        saved = json.loads(json.dumps(found.saved))
        self.clock.ms += int(found.seconds * 1000)
        return self.send(self.prepared(self.draft(), saved))

    def publish(self, text: str = "hello", *items: DraftMedia, **options: Any) -> Published:
        return self.send(self.prepared(self.draft(text, *items, **options)))

    def settle(self, plan: dict[str, Any], since: int) -> Published | Absent | Unknown:
        found: Published | Absent | Unknown = self._awaited(self.module.settle(self.up, plan, since))
        return found

    def posted(self) -> list[tuple[str, str | None, int]]:
        return [(entry.kind, entry.text, len(entry.media)) for entry in self.simulator.lab.ledger.entries(self.name)]

    def is_told(self, content: Draft, operation: str, fault: str, outcome: Outcome, effect: bool) -> None:
        """Whatever happens to the public call, looking tells whether it took effect; no error holds the token."""
        plan, since = self.prepared(content), self.clock.now_ms()
        self.simulator.lab.faults.add([{"fault": fault, "operation": operation, "times": 1}])
        with pytest.raises(ApiError) as caught:
            self.send(plan)
        assert caught.value.outcome is outcome
        assert self.up.tokens.access not in repr(vars(caught.value))
        assert isinstance(self.settle(plan, since), Published if effect else Absent)
        assert len(self.posted()) == effect


def connect_alice(
    name: str, simulator: SimulatorThread, client: outbound.HttpClient, handle: str = "alice"
) -> Upstream:
    """A line to a new account."""
    made = simulator.lab.add_account(name, handle=handle, displayName="Alice")
    account = ConnectorAccount(made["platformAccountId"], made["displayName"], made["extra"])
    tokens = Tokens(made["accessToken"], made["refreshToken"])
    return Upstream(client, client, make_site(name, simulator), account, tokens)


def make_site(name: str, simulator: SimulatorThread) -> Any:
    site = CONNECTORS[name].PLATFORM.site
    return site(api_base=simulator.origin(name), client_id=CLIENT_ID, client_secret=CLIENT_SECRET)  # type: ignore[call-arg]
