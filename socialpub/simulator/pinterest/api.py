"""Pinterest API basics: errors, tokens, scopes, paged lists, rate limits."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from socialpub.simulator.contract import Call, FakeResponse, Operation, RefusedError
from socialpub.simulator.forms import bearer
from socialpub.simulator.oauth import IssuedTokens, OAuthQuirks, OAuthServer
from socialpub.simulator.state import SimulatorState

DAY = 86_400
SCOPES = ("user_accounts:read", "boards:read", "boards:write", "pins:read", "pins:write")
_MINUTE_MS = 60_000


def refuse(status: int, code: int, message: str, **more: Any) -> RefusedError:
    """Build Pinterest's refusal. Some endpoints use a small code, others repeat the status."""
    return RefusedError(FakeResponse(status, {"code": code, "message": message, **more}))


def unauthenticated() -> RefusedError:
    return refuse(401, 2, "Authentication failed.")


def refusal(status: int, retry_after: int | None) -> FakeResponse:
    """Build Pinterest's error for a status."""
    code, message = _ERRORS.get(status, (status, "Something went wrong on our end. Sorry about that."))
    headers = {"x-ratelimit-limit": "100", "x-ratelimit-remaining": "0"} if status == 429 else {}
    if retry_after is not None:
        headers["x-ratelimit-reset"] = str(retry_after)
    return FakeResponse(status, {"code": code, "message": message}, headers)


_ERRORS = {
    400: (1, "Invalid request."),
    401: (2, "Authentication failed."),
    403: (29, "You are not permitted to access that resource."),
    404: (404, "Resource not found."),
    405: (405, "Method not allowed."),
    413: (413, "Request entity too large."),
    429: (8, "This request exceeded a rate limit. This can happen if the client exceeds one of the published limits."),
}


# --- Tokens --------------------------------------------------------------------------------------------------------


def _issued(issue: IssuedTokens) -> FakeResponse:
    body = {
        "access_token": issue.access,
        "token_type": "bearer",
        "expires_in": issue.expires_in,
        "scope": " ".join(issue.scopes),
        "response_type": "authorization_code" if issue.first else "refresh_token",
        "refresh_token": issue.refresh,
        "refresh_token_expires_in": issue.refresh_expires_in,
        "refresh_token_expires_at": issue.now + (issue.refresh_expires_in or 0),
    }
    return FakeResponse(200, body)


def _refused(name: str, message: str) -> FakeResponse:
    return unauthenticated().answer if name == "invalid_client" else FakeResponse(400, {"code": 1, "message": message})


OAUTH_QUIRKS = OAuthQuirks(
    authorize_path="/oauth/",
    token_path="/v5/oauth/token",
    app_tokens=True,
    basic=True,
    access_seconds=30 * DAY,
    refreshing="rotating",
    refresh_seconds=60 * DAY,
    issued=_issued,
    refused=_refused,
)


# --- Accounts ------------------------------------------------------------------------------------------------------


@dataclass
class Person:
    id: str
    username: str
    name: str | None = None
    account_type: str = "BUSINESS"


@dataclass
class People:
    """Accounts and callers. `budgets`: calls per minute and account, by category."""

    lab: SimulatorState
    by_id: dict[str, Person] = field(default_factory=dict)
    budgets: dict[str, int] = field(default_factory=lambda: {"org_read": 1000, "org_write": 100})
    _calls: dict[tuple[str, str], list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.server = OAuthServer(self.lab.clock, OAUTH_QUIRKS, lambda: tuple(self.by_id))

    def add(self, username: str, name: str | None, account_type: str) -> tuple[Person, IssuedTokens]:
        """Create an account with tokens. Raises ValueError if the name is taken."""
        if self.find(username) is not None:
            raise ValueError(f"the username {username} is taken")
        person = Person(str(2_783_136_121_146_311_000 + len(self.by_id)), username, name, account_type)
        self.by_id[person.id] = person
        return person, self.server.issue(person.id, SCOPES)

    def find(self, wanted: str) -> Person | None:
        """Find an account by id or username."""
        return next((each for each in self.by_id.values() if wanted in (each.id, each.username)), None)

    def caller(self, call: Call, *scopes: str) -> Person:
        """Return the caller; refuse an invalid token or a missing scope."""
        found = self.server.access(bearer(call))
        if found.state != "alive":
            raise unauthenticated()
        missing = [scope for scope in scopes if scope not in found.scopes]
        if missing:
            words = "Your token does not have sufficient permissions: missing"
            raise refuse(403, 3, f"{words} {missing}")
        return self.by_id[found.account]

    def end_tokens(self, account: str | None, *, access: bool, refresh: bool) -> None:
        found = self.find(account) if account is not None else None
        if account is not None and found is None:
            raise ValueError(f"there is no account {account!r}")
        self.server.end_tokens(found.id if found else None, access=access, refresh=refresh)

    def me(self, call: Call) -> FakeResponse:
        """Return the caller's account."""
        person = self.caller(call, "user_accounts:read")
        body = {
            "id": person.id,
            "username": person.username,
            "account_type": person.account_type,
            "business_name": person.name,
            "profile_image": "",
            "website_url": "",
            "board_count": None,
        }
        return FakeResponse(200, body)

    # --- Rate limits ---

    def count_calls(self, category: str, operations: Iterable[Operation]) -> tuple[Operation, ...]:
        """Wrap operations in the call counter, which counts while the setting `rateLimits` is on."""
        return tuple(replace(one, handle=self._counted(category, one.handle)) for one in operations)

    def reset(self) -> None:
        self._calls.clear()
        self.budgets = {"org_read": 1000, "org_write": 100}

    def _counted(self, category: str, handle: Callable[[Call], FakeResponse]) -> Callable[[Call], FakeResponse]:
        def run(call: Call) -> FakeResponse:
            account = self.server.access(bearer(call)).account
            if not self.lab.settings.rate_limits or not account:
                return handle(call)
            headers = self._headers(category, account)
            try:
                answer = handle(call)
            except RefusedError as refused:
                answer = refused.answer
            return replace(answer, headers={**answer.headers, **headers})

        return run

    def _headers(self, category: str, account: str) -> dict[str, str]:
        """Return the rate-limit headers; refuse without counting at the limit."""
        now, budget, key = self.lab.clock.now_ms(), self.budgets[category], (category, account)
        recent = self._calls[key] = [at for at in self._calls.get(key, []) if at > now - _MINUTE_MS]
        if len(recent) >= budget:
            raise RefusedError(refusal(429, -(-(recent[0] + _MINUTE_MS - now) // 1000)))
        recent.append(now)
        left = {"x-ratelimit-limit": str(budget), "x-ratelimit-remaining": str(budget - len(recent))}
        return left | {"x-ratelimit-reset": str(-(-(recent[0] + _MINUTE_MS - now) // 1000))}


# --- Lists ---------------------------------------------------------------------------------------------------------


def page(call: Call, items: Sequence[dict[str, Any]], lab: SimulatorState) -> FakeResponse:
    """Build a page of a list. The bookmark is opaque to clients, and null on the last page."""
    asked = {name: values[-1] for name, values in call.query.items() if values}
    size = asked.get("page_size", "25")
    if not size.isdecimal() or not 1 <= int(size) <= 250:
        raise refuse(400, 1, f"Invalid request: '{size}' is not between 1 and 250 (page_size).")
    start = _start(asked.get("bookmark", ""))
    end = start + min(int(size), lab.settings.list_limit or 250)
    return FakeResponse(200, {"items": list(items[start:end]), "bookmark": _mark(end) if end < len(items) else None})


def _mark(start: int) -> str:
    return base64.urlsafe_b64encode(f"lab|{start}".encode()).decode()


def _start(mark: str) -> int:
    if not mark:
        return 0
    try:
        return int(base64.urlsafe_b64decode(mark).decode().removeprefix("lab|"))
    except ValueError:
        raise refuse(400, 1, "Invalid request: the bookmark is not one of ours.") from None


def instant(ms: int) -> str:
    """Format an instant as Pinterest does: in UTC, without an offset."""
    return f"{datetime.fromtimestamp(ms // 1000, UTC):%Y-%m-%dT%H:%M:%S}"
