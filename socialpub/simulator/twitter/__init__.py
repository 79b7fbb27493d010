"""Fake X: API v2 with users, uploads, posts and its authorization server.

Polls, communities and likes are missing: socialpub does not use them.
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
    """Fake platform; implements `FakePlatform`.

    `people`, `uploads` and `posts` have settings for tests.
    """

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
        """Create a user with tokens.

        `wanted`: `handle`, optional `displayName` and `subscriptionType`.
        """
        return self.people.add(AccountRequest.model_validate(wanted))

    def end_tokens(self, account: str | None, *, access: bool, refresh: bool) -> None:
        self.people.end_tokens(account, access=access, refresh=refresh)

    def refusal(self, status: int, retry_after: int | None) -> FakeResponse:
        """Build X's error for a status; the reset is in its own headers, not in Retry-After."""
        if status != 429:
            return plain(status)
        if retry_after is None:
            return plain(429)
        return plain(429, self.people.window_headers(100, 0, self.people.now + retry_after))

    def reset(self) -> None:
        self.people.reset()
        self.uploads.reset()
        self.posts.reset()
