"""Graph API basics: errors, fields, paged lists, and tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from socialpub.simulator.contract import Call, FakeResponse, Operation, RefusedError
from socialpub.simulator.forms import bearer, fields
from socialpub.simulator.oauth import BearerAccess, IssuedTokens, OAuthQuirks, OAuthServer
from socialpub.simulator.state import SimulatorState

LONG_SECONDS = 5_183_944  # about 60 days, as Meta reports it
DAY_SECONDS = 86_400
VERSION = "<version:v[0-9]+[.][0-9]+>"  # any version
_TRACE = "AbCdEfGhIjKlMnOpQrStUvW"
_THROTTLED = {"type": "lab", "call_count": 100, "total_cputime": 25, "total_time": 25}


def refuse(
    code: int,
    message: str,
    subcode: int | None = None,
    *,
    status: int = 400,
    kind: str = "OAuthException",
    user: str = "",
    **more: Any,
) -> RefusedError:
    """Build Graph's refusal.

    `user`: text for people, which some errors have beside the developer's.
    """
    error: dict[str, Any] = {"message": message, "type": kind, "code": code}
    if subcode is not None:
        error["error_subcode"] = subcode
    error |= {"is_transient": False, **more}
    if user:
        error |= {"error_user_title": "Error", "error_user_msg": user}
    return RefusedError(FakeResponse(status, {"error": error | {"fbtrace_id": _TRACE}}))


def refusal(status: int, retry_after: int | None) -> FakeResponse:
    """Build Graph's error for a status; throttling is reported in a header, in minutes."""
    if status == 429:
        answer = refuse(4, "(#4) Application request limit reached", status=429).answer
        minutes = -(-retry_after // 60) if retry_after else 0
        row = _THROTTLED | {"estimated_time_to_regain_access": minutes}
        usage = f'{{"lab":[{_json(row)}]}}'
        return FakeResponse(429, answer.body, {"x-business-use-case-usage": usage, **_retry_header(retry_after)})
    return _ERRORS.get(status, lambda: refuse(1, "An unknown error occurred", status=status))().answer


def _retry_header(seconds: int | None) -> dict[str, str]:
    return {} if seconds is None else {"retry-after": str(seconds)}


def _json(row: Mapping[str, Any]) -> str:
    return FakeResponse(200, dict(row)).content().decode()


_ERRORS: Mapping[int, Callable[[], RefusedError]] = {
    400: lambda: refuse(100, "(#100) Invalid parameter"),
    401: lambda: build_token_refusal("unknown", 401),
    403: lambda: refuse(10, "(#10) Application does not have permission for this action", status=403),
    404: lambda: refuse(2500, "Unknown path components", status=404),
    405: lambda: refuse(100, "Unsupported method", status=405),
    413: lambda: refuse(100, "The request is too large", status=413),
}


def build_token_refusal(state: str, status: int = 400) -> RefusedError:
    """Build the refusal of an invalid token."""
    head = "Error validating access token: "
    if state == "expired":
        return refuse(190, head + "Session has expired on Friday, 20-Nov-26 04:00:00 PST.", 463, status=401)
    if state == "revoked":
        return refuse(190, head + "The user has not authorized application 1.", 458, status=status)
    return refuse(190, "Invalid OAuth access token - Cannot parse access token", status=status)


def build_token_endpoint_refusal(name: str, message: str) -> FakeResponse:
    """Build the refusal of Instagram's and Threads' token endpoints, not in Graph's form."""
    said = "Invalid platform app" if name == "invalid_client" else message
    return FakeResponse(400, {"error_type": "OAuthException", "code": 400, "error_message": said})


DENIAL = {
    "error": "access_denied",
    "error_reason": "user_denied",
    "error_description": "The user denied your request",
}


# --- What nodes and lists look like --------------------------------------------------------------------------------


def shown(node: Mapping[str, Any], asked: Iterable[str]) -> dict[str, Any]:
    """Select a node's id and the requested fields that are not empty; refuse unknown fields."""
    found = {"id": node["id"]}
    for name in asked:
        if name not in node:
            raise refuse(100, f"(#100) Tried accessing nonexisting field ({name}) on node type (Lab)")
        if node[name] not in (None, ""):
            found[name] = node[name]
    return found


def parse_field_names(call: Call, default: str) -> list[str]:
    """Parse the names in `fields`, without the fields of inner nodes."""
    names, depth, name = [], 0, ""
    for char in (fields(call).get("fields") or default) + ",":
        depth += {"{": 1, "}": -1}.get(char, 0)
        if char == "," and depth == 0:
            names.append(name.partition("{")[0])
            name = ""
        else:
            name += char
    return [name for name in names if name]


def listed(
    call: Call, nodes: Sequence[tuple[int, Mapping[str, Any]]], asked: Sequence[str], lab: SimulatorState
) -> FakeResponse:
    """List nodes (time in ms, node), newest first, without those newer than the list lag."""
    params = fields(call)
    before = lab.clock.now_ms() - lab.settings.list_lag_ms
    since = int(params.get("since") or 0) * 1000
    young = [node for at, node in sorted(nodes, key=lambda pair: -pair[0]) if since <= at <= before]
    start = int(params.get("after") or 0)
    size = min(int(params.get("limit") or 25), lab.settings.list_limit or 100)
    body: dict[str, Any] = {"data": [shown(node, asked) for node in young[start : start + size]]}
    if body["data"]:
        body["paging"] = {"cursors": {"before": str(start), "after": str(start + size)}}
    if start + size < len(young):
        query = urlencode({**params, "after": str(start + size), "access_token": bearer(call)})
        body["paging"]["next"] = f"{call.origin}{call.path}?{query}"
    return FakeResponse(200, body)


def instant(ms: int) -> str:
    """Format an instant as Graph does."""
    return f"{datetime.fromtimestamp(ms // 1000, UTC):%Y-%m-%dT%H:%M:%S}+0000"


# --- Tokens --------------------------------------------------------------------------------------------------------


@dataclass
class Tokens:
    """Tokens of one fake platform, with their permissions."""

    server: OAuthServer

    def access(self, call: Call, scope: str = "") -> BearerAccess:
        """Return the caller; refuse an invalid token or a missing permission."""
        token = bearer(call) or fields(call).get("access_token", "")
        if not token:
            raise refuse(2500, "An active access token must be used to query information about the current user.")
        found = self.server.access(token)
        if found.state != "alive":
            raise build_token_refusal(found.state)
        if scope and scope not in found.scopes:
            raise refuse(10, f"(#10) Application does not have permission for this action: {scope}", status=403)
        return found

    def exchange(self, call: Call, grant: str) -> FakeResponse:
        """Exchange a new token for a 60-day token."""
        asked = fields(call)
        if asked.get("client_secret") != self.server.client_secret:
            raise refuse(101, "Error validating application. Invalid client secret.")
        return self._renewed(asked, grant, 0)

    def refresh(self, call: Call, grant: str) -> FakeResponse:
        """Extend a token that is at least a day old by 60 days."""
        return self._renewed(fields(call), grant, DAY_SECONDS)

    def _renewed(self, asked: Mapping[str, str], grant: str, min_age: int) -> FakeResponse:
        token = asked.get("access_token", "")
        found = self.server.access(token)
        if asked.get("grant_type") != grant:
            raise refuse(100, f"(#100) grant_type must be {grant}")
        if found.state != "alive":
            raise build_token_refusal(found.state)
        made = self.server.renew(token, LONG_SECONDS, min_age=min_age)
        if made is None:
            raise refuse(100, "Unsupported request - the token cannot be refreshed yet")
        return FakeResponse(200, {"access_token": made.access, "token_type": "bearer", "expires_in": made.expires_in})


@dataclass
class Person:
    id: str
    username: str
    name: str | None = None
    account_type: str = "BUSINESS"


@dataclass
class People:
    """Accounts of one fake platform, with its tokens."""

    lab: SimulatorState
    quirks: OAuthQuirks
    scopes: tuple[str, ...]
    first_id: int
    by_id: dict[str, Person] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tokens = Tokens(OAuthServer(self.lab.clock, self.quirks, lambda: tuple(self.by_id)))

    def add(self, username: str, name: str | None, account_type: str = "BUSINESS") -> tuple[Person, IssuedTokens]:
        """Create an account with a 60-day token. Raises ValueError if the name is taken."""
        if self.find(username) is not None:
            raise ValueError(f"the username {username} is taken")
        person = Person(str(self.first_id + len(self.by_id)), username, name, account_type)
        self.by_id[person.id] = person
        return person, self.tokens.server.issue(person.id, self.scopes, LONG_SECONDS)

    def find(self, wanted: str) -> Person | None:
        """Find an account by id or username."""
        return next((each for each in self.by_id.values() if wanted in (each.id, each.username)), None)

    def caller(self, call: Call, scope: str = "") -> Person:
        """Return the caller, who must be the account in the path: `me` or their own id."""
        person = self.by_id[self.tokens.access(call, scope).account]
        wanted = call.parts.get("user", "me")
        if wanted not in ("me", person.id):
            raise missing(wanted)
        return person

    def end_tokens(self, account: str | None, *, access: bool, refresh: bool) -> None:
        found = self.find(account) if account is not None else None
        if account is not None and found is None:
            raise ValueError(f"there is no account {account!r}")
        self.tokens.server.end_tokens(found.id if found else None, access=access, refresh=refresh)

    def credentials(self, person: Person, issue: IssuedTokens, **extra: Any) -> dict[str, Any]:
        """Return the credentials that connect the account without a browser."""
        return {
            "platformAccountId": person.id,
            "displayName": person.name or person.username,
            "username": person.username,
            "accessToken": issue.access,
            "refreshToken": issue.access,
            "expiresAt": f"{datetime.fromtimestamp(issue.now + LONG_SECONDS, UTC):%Y-%m-%dT%H:%M:%S}.000Z",
            "extra": extra,
        }

    def operations(self, prefix: str) -> tuple[Operation, ...]:
        """Return the operations of the OAuth flow, `token.exchange` and `token.refresh`."""
        tokens = self.tokens

        def exchange(call: Call) -> FakeResponse:
            return tokens.exchange(call, f"{prefix}_exchange_token")

        def refresh(call: Call) -> FakeResponse:
            return tokens.refresh(call, f"{prefix}_refresh_token")

        return (
            *tokens.server.operations(),
            Operation("token.exchange", ("GET",), "/access_token", exchange),
            Operation("token.refresh", ("GET",), "/refresh_access_token", refresh),
        )


def missing(id: str) -> RefusedError:
    """Build Graph's refusal of an unknown or foreign id."""
    return refuse(
        100,
        f"Unsupported request. Object with ID '{id}' does not exist, cannot be loaded due to missing permissions, or "
        "does not support this operation",
        33,
        kind="GraphMethodException",
    )
