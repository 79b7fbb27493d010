"""LinkedIn API basics: versions, errors, tokens, members and their pages."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import unquote

from socialpub.simulator.contract import Call, FakeResponse, Operation, RefusedError
from socialpub.simulator.forms import bearer, fields
from socialpub.simulator.oauth import BearerAccess, IssuedTokens, OAuthQuirks, OAuthServer
from socialpub.simulator.state import SimulatorState

DAY = 86_400
PERSON_SCOPES = ("openid", "profile", "w_member_social")
PAGE_SCOPES = (*PERSON_SCOPES, "w_organization_social", "r_organization_social", "rw_organization_admin")
POSTING_ROLES = ("ADMINISTRATOR", "CONTENT_ADMINISTRATOR", "DIRECT_SPONSORED_CONTENT_POSTER")
# Versions supported on 2026-11-20.
VERSIONS = frozenset({*(f"2026{month:02d}" for month in range(1, 12)), "202512"})


def refuse(status: int, code: str, message: str, **more: Any) -> RefusedError:
    """Build LinkedIn's refusal."""
    return RefusedError(FakeResponse(status, {"status": status, "code": code, "message": message, **more}))


def invalid(path: str, code: str, message: str) -> RefusedError:
    """Build the refusal of one body field."""
    error = {"code": code, "description": message, "input": {"inputPath": {"fieldPath": path}}}
    details = {"errorDetailType": "com.linkedin.common.error.BadRequest", "errorDetails": {"inputErrors": [error]}}
    return refuse(400, code, message, **details)


def refusal(status: int, retry_after: int | None) -> FakeResponse:
    """Build LinkedIn's error for a status; LinkedIn has no Retry-After."""
    code, message = _ERRORS.get(status, ("INTERNAL_SERVER_ERROR", "Internal Server Error"))
    headers = {"retry-after": str(retry_after)} if retry_after is not None else {}
    return FakeResponse(status, {"status": status, "code": code, "message": message}, headers)


_ERRORS = {
    400: ("ILLEGAL_ARGUMENT", "Invalid argument"),
    401: ("INVALID_ACCESS_TOKEN", "Invalid access token"),
    403: ("ACCESS_DENIED", "Not enough permissions to access this resource"),
    404: ("RESOURCE_NOT_FOUND", "No virtual resource found"),
    405: ("METHOD_NOT_ALLOWED", "Method not allowed"),
    413: ("REQUEST_TOO_LARGE", "Request entity too large"),
    429: ("TOO_MANY_REQUESTS", "Resource level throttle APPLICATION_AND_MEMBER DAY limit for calls to this resource is "
          "reached."),
    503: ("SERVICE_UNAVAILABLE", "Service unavailable"),
    504: ("GATEWAY_TIMEOUT", "Gateway timeout"),
}  # fmt: skip


def body_of(call: Call) -> dict[str, Any]:
    """Return the call's JSON object."""
    found = call.record()
    if found is None:
        raise refuse(400, "INVALID_PAYLOAD", "The request body is not a JSON object")
    return found


# --- Tokens --------------------------------------------------------------------------------------------------------


def _issued(issue: IssuedTokens) -> FakeResponse:
    body = {
        "access_token": issue.access,
        "expires_in": issue.expires_in,
        "scope": ",".join(issue.scopes),
        "token_type": "Bearer",
    }
    if issue.refresh:
        body |= {"refresh_token": issue.refresh, "refresh_token_expires_in": issue.refresh_expires_in}
    if "openid" in issue.scopes and issue.first:
        body["id_token"] = "lab.id.token"
    return FakeResponse(200, body)


def _refused(name: str, message: str) -> FakeResponse:
    said = {"invalid_grant": "invalid_request"}.get(name, name)
    return FakeResponse(401 if name == "invalid_client" else 400, {"error": said, "error_description": message})


OAUTH_QUIRKS = OAuthQuirks(
    authorize_path="/oauth/v2/authorization",
    token_path="/oauth/v2/accessToken",
    revoke_path="/oauth/v2/revoke",
    code_seconds=1800,
    access_seconds=60 * DAY,
    refresh_seconds=365 * DAY,
    denial={"error": "user_cancelled_authorize", "error_description": "The user cancelled the authorization"},
    issued=_issued,
    refused=_refused,
)


# --- Members and pages ---------------------------------------------------------------------------------------------


@dataclass
class Member:
    """Member, with the role on each page."""

    id: str
    handle: str
    name: str
    roles: dict[str, str] = field(default_factory=dict)  # by page URN

    @property
    def urn(self) -> str:
        return f"urn:li:person:{self.id}"


@dataclass(frozen=True)
class Caller:
    """Caller: member and scopes."""

    member: Member
    scopes: tuple[str, ...]


@dataclass
class People:
    """Members and pages; checks version, protocol and token of every call."""

    lab: SimulatorState
    by_id: dict[str, Member] = field(default_factory=dict)
    pages: dict[str, str] = field(default_factory=dict)  # names by URN

    def __post_init__(self) -> None:
        self.server = OAuthServer(self.lab.clock, OAUTH_QUIRKS, lambda: tuple(self.by_id))

    def vetted(self, on: bool) -> None:
        """Set whether the app gets refresh tokens."""
        self.server.quirks = replace(OAUTH_QUIRKS, refreshing="same" if on else "none")

    def add(self, handle: str, name: str, pages: int) -> Member:
        """Create a member who administers `pages` pages. Raises ValueError if the name is taken."""
        if any(member.handle == handle for member in self.by_id.values()):
            raise ValueError(f"there is already a member {handle}")
        number = len(self.by_id)
        member = Member(f"lab{number:04d}_-x", handle, name)
        for _ in range(pages):
            urn = f"urn:li:organization:{80_000_000 + len(self.pages)}"
            self.pages[urn] = f"{name} Ltd."
            member.roles[urn] = "ADMINISTRATOR"
        self.by_id[member.id] = member
        return member

    def end_tokens(self, account: str | None, *, access: bool, refresh: bool) -> None:
        member = None if account is None else self.behind(account)
        self.server.end_tokens(member.id if member else None, access=access, refresh=refresh)

    def behind(self, account: str) -> Member:
        """Return the member of an account, or of a page. Raises ValueError if unknown."""
        for member in self.by_id.values():
            if account in (member.id, member.urn, member.handle, *member.roles):
                return member
        raise ValueError(f"there is no account {account!r}")

    # --- Checks ---

    def caller(self, call: Call) -> Caller:
        """Return the caller."""
        token = bearer(call)
        if not token:
            raise refuse(401, "EMPTY_ACCESS_TOKEN", "Empty oauth2 access token", serviceErrorCode=65604)
        found: BearerAccess = self.server.access(token)
        if found.state != "alive":
            code, number, words = _DEAD[found.state]
            raise refuse(401, code, words, serviceErrorCode=number)
        return Caller(self.by_id[found.account], found.scopes)

    def author(self, call: Call, urn: str, what: str) -> Caller:
        """Return the caller if they may act for this author."""
        caller = self.caller(call)
        if urn == caller.member.urn:
            needed, may = "w_member_social", True
        elif urn in self.pages:
            needed, may = "w_organization_social", caller.member.roles.get(urn) in POSTING_ROLES
        else:
            raise refuse(403, "ACCESS_DENIED", f"Not enough permissions to access: {what} for {urn}")
        if not may or needed not in caller.scopes:
            raise refuse(403, "ACCESS_DENIED", f"Not enough permissions to access: {what}")
        return caller

    def add_checks(self, operations: Iterable[Operation]) -> tuple[Operation, ...]:
        """Wrap operations in the checks of version and protocol."""
        return tuple(replace(one, handle=_gate(one.handle)) for one in operations)

    # --- Operations ---

    def operations(self) -> tuple[Operation, ...]:
        return (
            *self.server.operations(),
            Operation("oauth.introspect", ("POST",), "/oauth/v2/introspectToken", self._introspect),
            Operation("userinfo", ("GET",), "/v2/userinfo", self._userinfo),
            Operation("me", ("GET",), "/v2/me", self._me),
            *self.add_checks(
                (
                    Operation("organizationAcls", ("GET",), "/rest/organizationAcls", self._acls),
                    Operation("organizations.get", ("GET",), "/rest/organizations/<page>", self._page),
                )
            ),
        )

    def _introspect(self, call: Call) -> FakeResponse:
        asked = fields(call)
        self.server.authenticate(call, asked)
        found = self.server.access(asked.get("token", ""))
        if found.state == "unknown":
            return _refused("invalid_request", "Invalid client id or token")
        active = found.state == "alive"
        state = "active" if active else found.state
        return FakeResponse(200, {"active": active, "status": state, "scope": ",".join(found.scopes)})

    def _userinfo(self, call: Call) -> FakeResponse:
        caller = self.caller(call)
        if "openid" not in caller.scopes:
            raise refuse(403, "ACCESS_DENIED", "Not enough permissions to access: userinfo.GET.NO_VERSION")
        member = caller.member
        given, _, family = member.name.partition(" ")
        names = {"name": member.name, "given_name": given, "family_name": family}
        return FakeResponse(200, {"sub": member.id, **names, "locale": {"country": "US", "language": "en"}})

    def _me(self, call: Call) -> FakeResponse:
        caller = self.caller(call)
        if "r_basicprofile" not in caller.scopes and "profile" not in caller.scopes:
            raise refuse(403, "ACCESS_DENIED", "Not enough permissions to access: me.GET.NO_VERSION")
        given, _, family = caller.member.name.partition(" ")
        return FakeResponse(200, {"id": caller.member.id, "localizedFirstName": given, "localizedLastName": family})

    def _acls(self, call: Call) -> FakeResponse:
        caller = self.caller(call)
        if not {"rw_organization_admin", "r_organization_admin"} & set(caller.scopes):
            raise refuse(403, "ACCESS_DENIED", "Not enough permissions to access: organizationAcls.FINDER-roleAssignee")
        asked = fields(call)
        if asked.get("q") != "roleAssignee":
            raise refuse(400, "ILLEGAL_ARGUMENT", "Unknown finder")
        rows = [
            {"organization": urn, "role": role, "roleAssignee": caller.member.urn, "state": "APPROVED"}
            for urn, role in caller.member.roles.items()
            if asked.get("role") in (None, role)
        ]
        return FakeResponse(200, listed(call, rows, self.lab))

    def _page(self, call: Call) -> FakeResponse:
        self.caller(call)
        urn = f"urn:li:organization:{part(call, 'page')}"
        if urn not in self.pages:
            raise refuse(404, "RESOURCE_NOT_FOUND", "Could not find organization")
        id = int(urn.rpartition(":")[2])
        return FakeResponse(200, {"id": id, "localizedName": self.pages[urn], "vanityName": f"page-{id}"})


_DEAD = {
    "unknown": ("INVALID_ACCESS_TOKEN", 65600, "Invalid access token"),
    "revoked": ("REVOKED_ACCESS_TOKEN", 65601, "The token used in the request has been revoked by the user"),
    "expired": ("EXPIRED_ACCESS_TOKEN", 65602, "The token used in the request has expired"),
}


def _gate(handle: Callable[[Call], FakeResponse]) -> Callable[[Call], FakeResponse]:
    def run(call: Call) -> FakeResponse:
        version = call.headers.get("linkedin-version", "")
        if not version:
            raise refuse(400, "VERSION_MISSING", "A version must be present. Please specify a version.")
        if version not in VERSIONS:
            raise refuse(426, "NONEXISTENT_VERSION", f"Requested version {version}01 is not active")
        if call.headers.get("x-restli-protocol-version") != "2.0.0":
            raise refuse(400, "ILLEGAL_ARGUMENT", "X-Restli-Protocol-Version must be 2.0.0")
        return handle(call)

    return run


def part(call: Call, name: str) -> str:
    """Return a decoded path segment."""
    return unquote(call.parts[name])


def listed(call: Call, rows: list[dict[str, Any]], lab: SimulatorState) -> dict[str, Any]:
    """Build a page of a finder."""
    asked = fields(call)
    start, count = int(asked.get("start", "0")), int(asked.get("count", "10"))
    size = min(count, 100, lab.settings.list_limit or 100)
    more = start + size < len(rows)
    links = [{"rel": "next", "href": f"{call.path}?start={start + size}", "type": "application/json"}] if more else []
    paging = {"start": start, "count": size, "total": len(rows), "links": links}
    return {"elements": rows[start : start + size], "paging": paging}
