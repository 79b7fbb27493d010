"""Users of X, their tokens and rate limits."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from socialpub.simulator.contract import Call, FakeResponse, RefusedError, http_date
from socialpub.simulator.forms import bearer
from socialpub.simulator.oauth import IssuedTokens, OAuthQuirks, OAuthServer, build_token_response
from socialpub.simulator.state import SimulatorState
from socialpub.simulator.twitter.problems import invalid, plain, problem

SCOPES = ("tweet.read", "tweet.write", "users.read", "media.write", "offline.access")
WINDOW_SECONDS = 900
_HALF_A_YEAR = 180 * 86_400
_FIRST_ID = 1_500_000_000_000_000_000
_FIELDS = frozenset({"id", "name", "username", "profile_image_url", "verified", "subscription_type"})

Subscription = Literal["None", "Basic", "Premium", "PremiumPlus"]


class AccountRequest(BaseModel):
    """Properties of a new account."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True)

    handle: str = Field("lab", min_length=1)
    display_name: str | None = None
    subscription_type: Subscription = "None"


@dataclass
class User:
    id: str
    username: str
    name: str
    subscription: Subscription

    @property
    def paid(self) -> bool:
        return self.subscription != "None"


def _issued(issue: IssuedTokens) -> FakeResponse:
    """Build the token response; without `offline.access` there is no refresh token."""
    return build_token_response(issue if "offline.access" in issue.scopes else replace(issue, refresh=None))


def _refused(name: str, message: str) -> FakeResponse:
    if name == "invalid_client":
        said = {"error": "unauthorized_client", "error_description": "Missing valid authorization header"}
        return FakeResponse(401, said)
    what = "authorization code" if "code" in message or "redirect_uri" in message else "token"
    said = {"error": "invalid_request", "error_description": f"Value passed for the {what} was invalid."}
    return FakeResponse(400, said)


_OAUTH_QUIRKS = OAuthQuirks(
    authorize_path="/i/oauth2/authorize",
    token_path="/2/oauth2/token",
    revoke_path="/2/oauth2/revoke",
    pkce=True,
    basic=True,
    code_seconds=30,
    access_seconds=7200,
    refreshing="fatal",
    refresh_seconds=_HALF_A_YEAR,
    issued=_issued,
    refused=_refused,
    revoked=FakeResponse(200, {"revoked": True}),
)


@dataclass
class _Window:
    ends: int
    used: int = 0


@dataclass
class People:
    """Users. For tests: `credits` is the app's balance (None: unlimited)."""

    lab: SimulatorState
    credits: int | None = None
    by_id: dict[str, User] = field(default_factory=dict)
    _windows: dict[tuple[str, str], _Window] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.server = OAuthServer(self.lab.clock, _OAUTH_QUIRKS, lambda: tuple(self.by_id))

    def reset(self) -> None:
        self._windows.clear()
        self.credits = None

    # --- Accounts ---

    def add(self, wanted: AccountRequest) -> dict[str, Any]:
        """Create a user; return its credentials. Raises ValueError if the name is taken."""
        username = re.sub(r"[^A-Za-z0-9_]", "_", wanted.handle)[:15]
        if self.find(username) is not None:
            raise ValueError(f"the username {username} is taken")
        user = User(
            str(_FIRST_ID + len(self.by_id)), username, wanted.display_name or username, wanted.subscription_type
        )
        self.by_id[user.id] = user
        issue = self.server.issue(user.id, SCOPES)
        ends = datetime.fromtimestamp(issue.now + (issue.expires_in or 0), UTC)
        return {
            "platformAccountId": user.id,
            "displayName": f"@{username}",
            "username": username,
            "accessToken": issue.access,
            "refreshToken": issue.refresh,
            "expiresAt": f"{ends:%Y-%m-%dT%H:%M:%S}.000Z",
            "extra": {"username": username, "subscriptionType": user.subscription},
        }

    def find(self, wanted: str) -> User | None:
        """Find a user by id or username (case-insensitive)."""
        names = (wanted.lower(),)
        return next((user for user in self.by_id.values() if user.id in names or user.username.lower() in names), None)

    def end_tokens(self, account: str | None, *, access: bool, refresh: bool) -> None:
        found = self.find(account) if account is not None else None
        if account is not None and found is None:
            raise ValueError(f"there is no account {account!r}")
        self.server.end_tokens(found.id if found else None, access=access, refresh=refresh)

    # --- Calls ---

    def caller(self, call: Call, *scopes: str) -> User:
        """Return the caller; refuse an invalid token or a missing scope."""
        found = self.server.access(bearer(call))
        if found.state != "alive":
            raise RefusedError(plain(401))
        if any(scope not in found.scopes for scope in scopes):
            raise problem(403, "Forbidden", "Forbidden")
        return self.by_id[found.account]

    def pay(self) -> None:
        """Charge a post before it is created."""
        if self.credits is None:
            return
        if self.credits < 1:
            raise RefusedError(plain(402))
        self.credits -= 1

    def counted(self, name: str, limit: int, handle: Callable[[Call], FakeResponse]) -> Callable[[Call], FakeResponse]:
        """Wrap an operation in a rate-limit window, enforced if rate limits are on."""

        def run(call: Call) -> FakeResponse:
            window = self._window(name, call)
            window.used += 1
            headers = self._headers(limit, window)
            if self.lab.settings.rate_limits and window.used > limit:
                raise RefusedError(plain(429, headers))
            try:
                answer = handle(call)
            except RefusedError as refused:
                answer = refused.answer
            return FakeResponse(answer.status, answer.body, {**headers, **answer.headers}, answer.content_type)

        return run

    def _window(self, name: str, call: Call) -> _Window:
        key = (name, self.server.access(bearer(call)).account)
        found = self._windows.get(key)
        if found is None or found.ends <= self.now:
            found = self._windows[key] = _Window(self.now + WINDOW_SECONDS)
        return found

    def _headers(self, limit: int, window: _Window) -> dict[str, str]:
        left = max(limit - window.used, 0)
        return self.window_headers(limit, left, window.ends)

    def window_headers(self, limit: int, left: int, ends: int) -> dict[str, str]:
        """Return the window's three headers, and the date that its end refers to."""
        return {
            "x-rate-limit-limit": str(limit),
            "x-rate-limit-remaining": str(left),
            "x-rate-limit-reset": str(ends),
            "date": http_date(self.now),
        }

    @property
    def now(self) -> int:
        """Return the time in epoch seconds."""
        return self.lab.clock.now_ms() // 1000

    def me(self, call: Call) -> FakeResponse:
        """Return the token's user."""
        user = self.caller(call, "tweet.read", "users.read")
        asked = set(filter(None, ",".join(call.query.get("user.fields", [])).split(",")))
        if unknown := asked - _FIELDS:
            raise invalid(f"The `user.fields` query parameter value [{min(unknown)}] is not valid", "user.fields")
        shown = {
            "id": user.id,
            "name": user.name,
            "username": user.username,
            "profile_image_url": "https://pbs.twimg.com/profile_images/lab.png",
            "verified": user.paid,
            "subscription_type": user.subscription,
        }
        return FakeResponse(
            200, {"data": {key: shown[key] for key in shown if key in asked | {"id", "name", "username"}}}
        )
