"""Fake LinkedIn: members and pages, media, posts (versioned API, 202512 to 202611).

Comments and articles are missing: socialpub does not use them.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from socialpub.simulator.contract import FakeResponse, Operation
from socialpub.simulator.linkedin import api
from socialpub.simulator.linkedin.api import DAY, PAGE_SCOPES, PERSON_SCOPES, People
from socialpub.simulator.linkedin.media import Media
from socialpub.simulator.linkedin.posts import Posts
from socialpub.simulator.state import SimulatorState


class _AccountRequest(BaseModel):
    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True)

    handle: str = Field("lab", min_length=1)
    display_name: str | None = None
    kind: Literal["person", "organization"] = "person"
    pages: int = Field(0, ge=0)
    vetted: bool = False


class LinkedIn:
    """Fake platform; implements `FakePlatform`. For tests: `people.vetted` and `media.failing`."""

    name: str = "linkedin"
    max_body: int = 64 * 1024 * 1024
    ids: tuple[str, ...] = ("value", "id", "access_token")

    def __init__(self, lab: SimulatorState) -> None:
        self.people = People(lab)
        self.media = Media(lab, self.people)
        self.posts = Posts(lab, self.people, self.media)

    def operations(self) -> tuple[Operation, ...]:
        return (*self.people.operations(), *self.media.operations(), *self.posts.operations())

    def add_account(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """Create a member, or (`kind`) the first of a member's pages, with a 60-day token.

        `vetted`: the app gets refresh tokens from now on, as only some apps do.
        """
        asked = _AccountRequest.model_validate(wanted)
        if asked.vetted:
            self.people.vetted(True)
        page = asked.kind == "organization"
        member = self.people.add(asked.handle, asked.display_name or asked.handle, max(asked.pages, page))
        issue = self.people.server.issue(member.id, PAGE_SCOPES if page or asked.pages else PERSON_SCOPES)
        urn = next(iter(member.roles)) if page else member.urn
        return {
            "platformAccountId": urn,
            "displayName": self.people.pages[urn] if page else member.name,
            "accessToken": issue.access,
            "refreshToken": issue.refresh,
            "expiresAt": f"{datetime.fromtimestamp(issue.now + 60 * DAY, UTC):%Y-%m-%dT%H:%M:%S}.000Z",
            "extra": {},
        }

    def end_tokens(self, account: str | None, *, access: bool, refresh: bool) -> None:
        self.people.end_tokens(account, access=access, refresh=refresh)

    def refusal(self, status: int, retry_after: int | None) -> FakeResponse:
        return api.refusal(status, retry_after)

    def reset(self) -> None:
        self.posts.reset()
        self.media.reset()
        self.people.vetted(False)
