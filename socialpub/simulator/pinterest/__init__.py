"""Fake Pinterest: boards, image and video pins, Trial access (API v5 as of 5.23.0).

The sandbox is missing: it has separate tokens and needs its own host.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from socialpub.simulator.contract import Call, FakeResponse, Operation
from socialpub.simulator.pinterest import api
from socialpub.simulator.pinterest.api import DAY, People, refuse
from socialpub.simulator.pinterest.boards import Boards
from socialpub.simulator.pinterest.media import Media
from socialpub.simulator.pinterest.pins import Pins
from socialpub.simulator.state import SimulatorState


class _AccountRequest(BaseModel):
    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True)

    handle: str = Field("lab", min_length=1)
    display_name: str | None = None
    account_type: Literal["PINNER", "BUSINESS"] = "BUSINESS"
    boards: tuple[str, ...] = ("Summer recipes",)
    sections: tuple[str, ...] = ()


class Pinterest:
    """Fake platform; implements `FakePlatform`. `pins` and `media` have settings for tests."""

    name: str = "pinterest"
    max_body: int = 64 * 1024 * 1024
    ids: tuple[str, ...] = ("id", "media_id", "access_token")

    def __init__(self, lab: SimulatorState) -> None:
        self.people = People(lab)
        self.boards = Boards(lab, self.people)
        self.media = Media(lab, self.people)
        self.pins = Pins(lab, self.people, self.boards, self.media)

    def operations(self) -> tuple[Operation, ...]:
        people = self.people
        me = Operation("user_account", ("GET",), "/v5/user_account", people.me)
        return (
            *people.server.operations(),
            Operation("oauth.revoke", ("POST",), "/v5/oauth/token/revoke", self._revoke),
            *people.count_calls("org_read", (me, *self.boards.operations(), *self.media.reads(), *self.pins.reads())),
            *people.count_calls("org_write", (*self.media.writes(), *self.pins.writes())),
            *self.media.store(),
        )

    def _revoke(self, call: Call) -> FakeResponse:
        """Refuse: only tokens of system users can be revoked, and there are none here."""
        self.people.server.authenticate(call, {})
        raise refuse(403, 29, "You are not permitted to access that resource.")

    def add_account(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """Create an account with tokens and boards (`boards`: names); the first is its default.

        `sections`: names of sections of the first board.
        """
        asked = _AccountRequest.model_validate(wanted)
        person, issue = self.people.add(asked.handle, asked.display_name, asked.account_type)
        boards = [self.boards.add(person, name) for name in asked.boards]
        sections = [self.boards.add_section(boards[0], name) for name in asked.sections]
        default = {"defaultBoardId": boards[0].id, "defaultBoardName": boards[0].name} if boards else {}
        return {
            "platformAccountId": person.id,
            "displayName": person.name or person.username,
            "username": person.username,
            "accessToken": issue.access,
            "refreshToken": issue.refresh,
            "expiresAt": f"{datetime.fromtimestamp(issue.now + 30 * DAY, UTC):%Y-%m-%dT%H:%M:%S}.000Z",
            "boards": [{"id": board.id, "name": board.name} for board in boards],
            "sections": sections,
            "extra": default,
        }

    def end_tokens(self, account: str | None, *, access: bool, refresh: bool) -> None:
        self.people.end_tokens(account, access=access, refresh=refresh)

    def refusal(self, status: int, retry_after: int | None) -> FakeResponse:
        return api.refusal(status, retry_after)

    def reset(self) -> None:
        self.pins.reset()
        self.media.reset()
        self.people.reset()
