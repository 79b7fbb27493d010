"""The fake X: API v2 with users, uploads, posts and its authorization server.

Polls, communities, likes and everything else that no client of this simulator does are not here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from socialpub.simulator.contract import Call, FakeResponse, Operation
from socialpub.simulator.state import SimulatorState
from socialpub.simulator.twitter.media import Uploads
from socialpub.simulator.twitter.posts import Posts
from socialpub.simulator.twitter.problems import plain
from socialpub.simulator.twitter.users import AccountRequest, People


class Twitter:
    """The fake platform, as `wire.Fake` describes one. `people`, `uploads` and `posts` have the knobs for tests."""

    name: str = "twitter"
    max_body: int = 64 * 1024 * 1024
    ids: tuple[str, ...] = ("data", "access_token")

    def __init__(self, lab: SimulatorState) -> None:
        self.people = People(lab)
        self.uploads = Uploads(lab, self.people)
        self.posts = Posts(lab, self.people, self.uploads)

    def operations(self) -> tuple[Operation, ...]:
        return (
            *self.people.server.operations(),
            Operation("users.me", ("GET",), "/2/users/me", self.people.counted("me", 75, self.me)),
            *self.uploads.operations(),
            *self.posts.operations(),
        )

    def me(self, call: Call) -> FakeResponse:
        return self.people.me(call)

    def add_account(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """A user with tokens, from `handle` and optionally `displayName` and `subscriptionType`."""
        return self.people.add(AccountRequest.model_validate(wanted))

    def end_tokens(self, account: str | None, *, access: bool, refresh: bool) -> None:
        self.people.end_tokens(account, access=access, refresh=refresh)

    def refusal(self, status: int, retry_after: int | None) -> FakeResponse:
        """X tells in headers of its own when a window ends, not in Retry-After."""
        if status != 429:
            return plain(status)
        if retry_after is None:
            return plain(429)
        return plain(429, self.people.window_headers(100, 0, self.people.now + retry_after))

    def reset(self) -> None:
        self.people.reset()
        self.uploads.reset()
        self.posts.reset()
