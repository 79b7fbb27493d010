"""Fake Facebook: Pages, posts, unpublished photos, resumable videos (Graph API).

Any API version. Reels and comments are missing: socialpub does not use them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from socialpub.simulator.contract import Call, FakeResponse, Operation
from socialpub.simulator.facebook.feed import Feed
from socialpub.simulator.facebook.pages import Pages, Portfolio
from socialpub.simulator.facebook.videos import Videos
from socialpub.simulator.meta import graph
from socialpub.simulator.meta.graph import VERSION, missing, parse_field_names, shown
from socialpub.simulator.meta.usage import Meter
from socialpub.simulator.state import SimulatorState


class _AccountRequest(BaseModel):
    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True)

    handle: str = Field("lab", min_length=1)
    display_name: str | None = None
    pages: int = Field(1, ge=0)
    portfolio: Portfolio = ""
    tasks: tuple[str, ...] = ("ADVERTISE", "ANALYZE", "CREATE_CONTENT", "MESSAGING", "MODERATE", "MANAGE")


class Facebook:
    """Fake platform; implements `FakePlatform`. `videos.failing` makes the next videos fail."""

    name: str = "facebook"
    max_body: int = 64 * 1024 * 1024
    ids: tuple[str, ...] = ("id", "post_id", "video_id", "upload_session_id", "success", "access_token")

    def __init__(self, lab: SimulatorState) -> None:
        self.pages = Pages(lab)
        self.feed = Feed(lab, self.pages)
        self.videos = Videos(lab, self.pages, self.feed)
        self.feed.due = self.videos.due
        self.meter = Meter(lab, "pages", 80001)

    def operations(self) -> tuple[Operation, ...]:
        return (
            *self.pages.operations(),
            *self.meter.count_calls((*self.feed.operations(), *self.videos.operations())),
            Operation("node", ("GET",), f"/{VERSION}/<node>", self.read),
        )

    def read(self, call: Call) -> FakeResponse:
        """Return a post, photo, video or Page of the caller."""
        id = call.parts["node"]
        account = self.pages.access(call).account
        going_up = self.videos.progress(id)
        if going_up is not None:
            return FakeResponse(200, going_up)
        found = self.feed.node(id, account) or self.videos.node(id, account) or self.pages.node(id, account)
        if found is None:
            raise missing(id)
        return FakeResponse(200, shown(found, parse_field_names(call, "id")))

    def add_account(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """Create a login with Pages; return it with the first Page's token.

        `wanted`: `handle`, optional `displayName`, `pages`, `tasks`. `portfolio` (`owned` or `client`): the Pages
        belong to a business portfolio, which alone lists them.
        """
        asked = _AccountRequest.model_validate(wanted)
        user = self.pages.add(asked.handle, asked.display_name, asked.pages, asked.tasks, asked.portfolio)
        token = self.pages.login(user)
        made: dict[str, Any] = {"userId": user.id, "userToken": token}
        for page in self.pages.of(user.id)[:1]:
            made |= {
                "platformAccountId": page.id,
                "displayName": page.name,
                "accessToken": self.pages.token(page, lasting=True),
                "refreshToken": token,
                "extra": {"category": page.category},
            }
        return made

    def end_tokens(self, account: str | None, *, access: bool, refresh: bool) -> None:
        self.pages.end_tokens(account, access=access, refresh=refresh)

    def refusal(self, status: int, retry_after: int | None) -> FakeResponse:
        return graph.refusal(status, retry_after)

    def reset(self) -> None:
        self.feed.reset()
        self.videos.reset()
        self.meter.reset()
