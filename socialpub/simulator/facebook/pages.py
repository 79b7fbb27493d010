"""Logins, their Pages, and the tokens of both."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from socialpub.simulator.contract import Call, FakeResponse, Operation
from socialpub.simulator.forms import bearer, fields
from socialpub.simulator.meta.graph import (
    DENIAL,
    LONG_SECONDS,
    VERSION,
    Person,
    Tokens,
    build_token_refusal,
    listed,
    missing,
    parse_field_names,
    refuse,
    shown,
)
from socialpub.simulator.oauth import BearerAccess, IssuedTokens, OAuthQuirks, OAuthServer
from socialpub.simulator.state import SimulatorState

SCOPES = ("pages_show_list", "pages_read_engagement", "pages_manage_posts", "business_management")
Portfolio = Literal["", "owned", "client"]


BUSINESS = "business_management"


@dataclass(frozen=True)
class Page:
    id: str
    name: str
    owner: str
    tasks: tuple[str, ...]
    portfolio: Portfolio = ""  # relation to a business portfolio, which then alone lists it
    assigned: bool = True  # assigned to the login by the portfolio
    category: str = "Software"


def _portfolio_of(login: str) -> str:
    return f"9{login}"


def _issued(issue: IssuedTokens) -> FakeResponse:
    return FakeResponse(200, {"access_token": issue.access, "token_type": "bearer", "expires_in": issue.expires_in})


def _refused(name: str, message: str) -> FakeResponse:
    if name == "invalid_client":
        return refuse(1, "Error validating client secret.").answer
    return refuse(100, message, 36008).answer


_OAUTH_QUIRKS = OAuthQuirks(
    authorize_path=f"/{VERSION}/dialog/oauth",
    token_path=f"/{VERSION}/oauth/access_token",
    token_methods=("POST",),
    access_seconds=5400,
    denial=DENIAL,
    fragment="_=_",
    issued=_issued,
    refused=_refused,
)


@dataclass
class Pages:
    """Logins and Pages. A Page token from a long-lived login token does not expire.

    For tests: `configurations` holds the scopes of Login for Business by `config_id`; `secret_required` is the app's
    setting "Require App Secret". A proof must be right even if not required.
    """

    lab: SimulatorState
    users: dict[str, Person] = field(default_factory=dict)
    pages: dict[str, Page] = field(default_factory=dict)
    configurations: dict[str, tuple[str, ...]] = field(default_factory=dict)
    secret_required: bool = False
    _tokens: dict[tuple[str, bool], str] = field(default_factory=dict)
    _long: set[str] = field(default_factory=set)  # 60-day tokens of logins

    def __post_init__(self) -> None:
        self.server = OAuthServer(
            self.lab.clock, _OAUTH_QUIRKS, lambda: tuple(self.users), configurations=self.configurations
        )
        self._check = Tokens(self.server)

    def operations(self) -> tuple[Operation, ...]:
        users = f"/{VERSION}/me"
        return (
            *self.server.operations(),
            Operation("token.exchange", ("GET",), f"/{VERSION}/oauth/access_token", self.exchange),
            Operation("me", ("GET",), users, self.me),
            Operation("permissions", ("GET",), f"{users}/permissions", self.permissions),
            Operation("accounts", ("GET",), f"{users}/accounts", self.accounts),
            Operation("businesses", ("GET",), f"{users}/businesses", self.businesses),
            Operation("business.pages", ("GET",), f"/{VERSION}/<business>/<edge:owned_pages|client_pages>", self.held),
            Operation("permissions.end", ("DELETE",), f"/{VERSION}/<user>/permissions", self.end),
        )

    def add(self, handle: str, name: str | None, pages: int, tasks: Sequence[str], portfolio: Portfolio = "") -> Person:
        """Create a login with Pages. Raises ValueError if the handle is taken."""
        if any(handle == user.username for user in self.users.values()):
            raise ValueError(f"the handle {handle} is taken")
        user = Person(str(10_150_000_000_000_000 + len(self.users)), handle, name)
        self.users[user.id] = user
        for number in range(pages):
            title = name or handle
            id = str(104_000_000_000_000 + len(self.pages))
            shown = title if not number else f"{title} {number + 1}"
            self.pages[id] = Page(id, shown, user.id, tuple(tasks), portfolio)
        return user

    def of(self, user: str) -> list[Page]:
        return [page for page in self.pages.values() if page.owner == user]

    def login(self, user: Person) -> str:
        """Issue a login token for 60 days."""
        token = self.server.issue(user.id, SCOPES, LONG_SECONDS).access
        self._long.add(token)
        return token

    def token(self, page: Page, *, lasting: bool) -> str:
        """Return the Page's token, the current one while it is valid."""
        known = self._tokens.get((page.id, lasting), "")
        if self.server.access(known).state != "alive":
            known = self.server.issue(page.id, SCOPES, None if lasting else 5400).access
            self._tokens[page.id, lasting] = known
        return known

    def access(self, call: Call, scope: str = "") -> BearerAccess:
        self._check_proof(call)
        return self._check.access(call, scope)

    def _check_proof(self, call: Call) -> None:
        sent = fields(call).get("appsecret_proof")
        proof = hmac.new(self.server.client_secret.encode(), bearer(call).encode(), "sha256").hexdigest()
        if sent is not None and sent != proof:
            raise refuse(100, "Invalid appsecret_proof provided in the API argument", kind="GraphMethodException")
        if sent is None and self.secret_required:
            words = "API calls from the server require an appsecret_proof argument"
            raise refuse(100, words, kind="GraphMethodException")

    def page(self, call: Call) -> Page:
        """Return the Page whose token the call has; a login's own token is refused."""
        found = self.access(call, "pages_manage_posts")
        wanted = self.pages.get(call.parts["page"])
        if wanted is None or found.account != wanted.id:
            raise refuse(
                200, "(#200) The permission(s) pages_manage_posts are not available with this token", status=403
            )
        if "CREATE_CONTENT" not in wanted.tasks:
            raise refuse(200, "(#200) The user lacks the task CREATE_CONTENT on the Page", status=403)
        return wanted

    def node(self, id: str, account: str) -> dict[str, Any] | None:
        page = self.pages.get(id)
        if page is None or account not in (page.id, page.owner):
            return None
        return {"id": page.id, "name": page.name, "category": page.category}

    # --- Calls ---

    def exchange(self, call: Call) -> FakeResponse:
        """Exchange for a 60-day login token, or issue an app token."""
        asked = fields(call)
        if (asked.get("client_id"), asked.get("client_secret")) != (self.server.client_id, self.server.client_secret):
            raise refuse(1, "Error validating client secret.")
        if asked.get("grant_type") == "client_credentials":
            return self.server.app_token()
        token = asked.get("fb_exchange_token", "")
        made = self.server.renew(token, LONG_SECONDS) if asked.get("grant_type") == "fb_exchange_token" else None
        if made is None:
            raise build_token_refusal(self.server.access(token).state)
        self._long.add(made.access)
        return _issued(made)

    def me(self, call: Call) -> FakeResponse:
        account = self.access(call).account
        name = self.users[account].name or self.users[account].username if account in self.users else None
        node = self.node(account, account) or {"id": account, "name": name}
        return FakeResponse(200, shown(node, parse_field_names(call, "id,name")))

    def permissions(self, call: Call) -> FakeResponse:
        granted = self.access(call).scopes
        rows = [{"permission": name, "status": "granted" if name in granted else "declined"} for name in SCOPES]
        return FakeResponse(200, {"data": rows})

    def accounts(self, call: Call) -> FakeResponse:
        found = self.access(call, "pages_show_list")
        mine = [page for page in self.of(found.account) if not page.portfolio]
        rows = [self._row(call, page) | {"tasks": list(page.tasks)} for page in mine]
        return listed(call, [(0, row) for row in rows], parse_field_names(call, "id,name,access_token"), self.lab)

    def businesses(self, call: Call) -> FakeResponse:
        """List the login's portfolio, if any Page is in one."""
        found = self.access(call, BUSINESS)
        held = any(page.portfolio for page in self.of(found.account))
        rows = [{"id": _portfolio_of(found.account), "name": "Lab portfolio"}] if held else []
        return listed(call, [(0, row) for row in rows], parse_field_names(call, "id,name"), self.lab)

    def held(self, call: Call) -> FakeResponse:
        """List the Pages of a portfolio: without tasks, and with tokens of assigned Pages only."""
        found = self.access(call, BUSINESS)
        if call.parts["business"] != _portfolio_of(found.account):
            raise missing(call.parts["business"])
        kind = call.parts["edge"].removesuffix("_pages")
        rows = [self._row(call, page) for page in self.of(found.account) if page.portfolio == kind]
        return listed(call, [(0, row) for row in rows], parse_field_names(call, "id,name"), self.lab)

    def _row(self, call: Call, page: Page) -> dict[str, Any]:
        token = self.token(page, lasting=bearer(call) in self._long) if page.assigned else ""
        return {"id": page.id, "name": page.name, "category": page.category, "access_token": token}

    def end(self, call: Call) -> FakeResponse:
        """Revoke the login's token and those of all its Pages."""
        for account in self._with_pages(self.access(call).account):
            self.server.end_grants(account)
        return FakeResponse(200, True)

    def end_tokens(self, account: str | None, *, access: bool, refresh: bool) -> None:
        """End the tokens of a login with its Pages, of one Page, or of all.

        Raises ValueError for an unknown account.
        """
        chosen = [None] if account is None else self._with_pages(account)
        for one in chosen:
            self.server.end_tokens(one, access=access, refresh=refresh)

    def _with_pages(self, account: str) -> list[str | None]:
        user = next((user for user in self.users.values() if account in (user.id, user.username)), None)
        if user is None and account not in self.pages:
            raise ValueError(f"there is no account {account!r}")
        return [account] if user is None else [user.id, *(page.id for page in self.of(user.id))]
