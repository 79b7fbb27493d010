"""Authorization server for fake platforms: consent page, codes, tokens, revocation.

A fake platform holds one `OAuthServer`, adds its `operations()` to its own, and resolves bearer tokens with `access`.
`OAuthQuirks` configures the platform's behavior and response formats. Consent is immediate unless changed:
`consent.mode = "form"` shows a page with buttons, `"deny"` refuses.
"""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import quote, urlencode

from socialpub.base.runtime import Clock
from socialpub.simulator.contract import Call, FakePlatform, FakeResponse, Operation, RefusedError
from socialpub.simulator.forms import basic, fields, values_of

CLIENT_ID = "simulator-app"
CLIENT_SECRET = "simulator-app-secret"

RefreshMode = Literal["none", "same", "rotating", "fatal"]
TokenState = Literal["alive", "expired", "revoked", "unknown"]


# --- Platform differences ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class IssuedTokens:
    """Issued tokens. Lifetimes in seconds; None: not reported by the platform."""

    account: str
    access: str
    expires_in: int | None
    refresh: str | None
    refresh_expires_in: int | None
    scopes: tuple[str, ...]
    first: bool  # True for a code, False for a refresh
    now: int  # epoch seconds


def build_token_response(issue: IssuedTokens) -> FakeResponse:
    """Build the token response (RFC 6749, 5.1)."""
    body = {
        "token_type": "bearer",
        "access_token": issue.access,
        "expires_in": issue.expires_in,
        "refresh_token": issue.refresh,
        "scope": " ".join(issue.scopes),
    }
    return FakeResponse(200, {name: value for name, value in body.items() if value is not None})


def build_error_response(name: str, message: str) -> FakeResponse:
    """Build the error response (RFC 6749, 5.2)."""
    return FakeResponse(401 if name == "invalid_client" else 400, {"error": name, "error_description": message})


@dataclass(frozen=True)
class OAuthQuirks:
    """Differences of one platform.

    `refused` gets error names of RFC 6749, such as invalid_grant. `refreshing`: no refresh tokens; one reusable token;
    single use; or single use where a second use ends the session.
    """

    authorize_path: str
    token_path: str
    revoke_path: str = ""
    app_tokens: bool = False  # client credentials grant (RFC 6749, 4.4)
    pkce: bool = False  # required, S256
    basic: bool = False  # client authentication by HTTP Basic only, otherwise in the body only
    client_id_name: str = "client_id"
    token_methods: tuple[str, ...] = ("POST",)
    code_seconds: int = 600
    access_seconds: int | None = 7200  # None: until revoked
    refreshing: RefreshMode = "none"
    refresh_seconds: int | None = None
    denial: Mapping[str, str] = field(default_factory=lambda: {"error": "access_denied"})
    fragment: str = ""  # appended to the callback's query: Meta adds "_"
    scopes_in_callback: bool = False
    issued: Callable[[IssuedTokens], FakeResponse] = build_token_response
    refused: Callable[[str, str], FakeResponse] = build_error_response
    revoked: FakeResponse = FakeResponse(200, {})


@dataclass
class Consent:
    """Decision of the account's owner.

    `account`: signed in (None: newest); `without`: scopes denied.
    """

    mode: Literal["approve", "deny", "form"] = "approve"
    account: str | None = None
    without: frozenset[str] = frozenset()


# --- State ----------------------------------------------------------------------------------------------------------


@dataclass
class Grant:
    """Grant by an account's owner; all its tokens end together."""

    account: str
    scopes: tuple[str, ...]
    ended: bool = False
    renewable: bool = True
    binding: object = None  # binding of its tokens, on platforms that have one


@dataclass
class Token:
    grant: Grant
    made_at: int
    ends_at: int | None
    used: bool = False


@dataclass
class _Code(Token):
    redirect_uri: str = ""
    challenge: str = ""


@dataclass(frozen=True)
class BearerAccess:
    """Access of a bearer token; `account` and `scopes` are empty if it is unknown."""

    state: TokenState
    account: str = ""
    scopes: tuple[str, ...] = ()


@dataclass
class OAuthServer:
    """Authorization server of one fake platform.

    Times are of the state's clock; nothing is random.
    """

    clock: Clock
    quirks: OAuthQuirks
    accounts: Callable[[], Iterable[str]]  # account ids, oldest first
    client_id: str = CLIENT_ID
    client_secret: str = CLIENT_SECRET
    redirect_uris: frozenset[str] = frozenset()  # registered ones; empty: any
    consent: Consent = field(default_factory=Consent)
    configurations: Mapping[str, Iterable[str]] = field(default_factory=dict)  # scopes by `config_id`
    _codes: dict[str, _Code] = field(default_factory=dict)
    _access: dict[str, Token] = field(default_factory=dict)
    _refresh: dict[str, Token] = field(default_factory=dict)
    _made: int = 0

    def operations(self) -> tuple[Operation, ...]:
        """Return `oauth.authorize`, `oauth.token` and, if the platform has it, `oauth.revoke`."""
        quirks = self.quirks
        made = (
            Operation("oauth.authorize", ("GET", "POST"), quirks.authorize_path, self.authorize),
            Operation("oauth.token", quirks.token_methods, quirks.token_path, self.token),
        )
        revoking = Operation("oauth.revoke", ("POST",), quirks.revoke_path, self.revoke)
        return (*made, revoking) if quirks.revoke_path else made

    # --- For the fake platform's own code ---

    def issue(self, account: str, scopes: Iterable[str], seconds: int | None = -1) -> IssuedTokens:
        """Issue tokens directly, for test accounts. `seconds`: lifetime, if not the platform's."""
        life = self.quirks.access_seconds if seconds == -1 else seconds
        return self._issue(Grant(account, tuple(scopes)), life, first=True)

    def access(self, token: str) -> BearerAccess:
        """Resolve an access token, valid or not."""
        found = self._access.get(token)
        if found is None:
            return BearerAccess("unknown")
        return BearerAccess(self._state(found), found.grant.account, found.grant.scopes)

    def renew(self, token: str, seconds: int | None, *, min_age: int = 0) -> IssuedTokens | None:
        """Exchange an access token for another one of its grant; the old one stays valid.

        Returns None if the token is invalid, not renewable, or younger than `min_age` seconds.
        """
        found = self._access.get(token)
        if found is None or self._state(found) != "alive" or not found.grant.renewable:
            return None
        if self._now() - found.made_at < min_age:
            return None
        return self._issue(found.grant, seconds, first=False, with_refresh=False)

    def end_tokens(self, account: str | None, *, access: bool, refresh: bool) -> None:
        """Expire access tokens, revoke refresh tokens, of one account or all."""
        now = self._now()
        for token in self._access.values():
            if account in (None, token.grant.account):
                token.ends_at = now if access else token.ends_at
                token.grant.renewable = token.grant.renewable and not refresh
        for token in self._refresh.values():
            if account in (None, token.grant.account):
                token.grant.renewable = token.grant.renewable and not refresh

    def end_grants(self, account: str | None) -> None:
        """Revoke all tokens, as when the owner withdraws the permission."""
        for token in (*self._access.values(), *self._refresh.values()):
            if account in (None, token.grant.account):
                token.grant.ended = True

    # --- The consent page ---

    def authorize(self, call: Call) -> FakeResponse:
        """Redirect to the client at once, or show the consent page."""
        params = fields(call)
        problem = self._problem(params)
        if problem:
            return build_page(f"<h1>This cannot be approved</h1><p>{html.escape(problem)}</p>", 400)
        if self.consent.mode == "form" and call.method == "GET":
            return build_page(self._form(call.path, params))
        pressed = params.get("decision", "deny" if self.consent.mode == "deny" else "allow")
        return self._back(params, self._denied() if pressed != "allow" else self._approved(params, call))

    def _problem(self, params: Mapping[str, str]) -> str:
        """Return an error that must be shown instead of redirecting to an untrusted URL, or ""."""
        if params.get(self.quirks.client_id_name) != self.client_id:
            return f"{self.quirks.client_id_name} is not that of a registered app"
        uri = params.get("redirect_uri", "")
        if not uri or (self.redirect_uris and uri not in self.redirect_uris):
            return "redirect_uri is not registered"
        if params.get("response_type") != "code":
            return "response_type is not code"
        if self.quirks.pkce and (params.get("code_challenge_method") != "S256" or not params.get("code_challenge")):
            return "code_challenge is required, with the method S256"
        if params.get("config_id", "") and params["config_id"] not in self.configurations:
            return "config_id is not that of a configuration of this app"
        return "" if any(True for _ in self.accounts()) else "there is no account yet"

    def _scopes(self, params: Mapping[str, str]) -> list[str]:
        if params.get("config_id"):
            return list(self.configurations[params["config_id"]])
        return params.get("scope", "").replace(",", " ").split()

    def _approved(self, params: Mapping[str, str], call: Call) -> dict[str, str]:
        ticked = frozenset(values_of(call, "ticked")) if "decision" in params else None
        wanted = self._scopes(params)
        scopes = tuple(
            scope for scope in wanted if scope not in self.consent.without and (ticked is None or scope in ticked)
        )
        account = params.get("account") or self.consent.account or list(self.accounts())[-1]
        code = self._new("code")
        now = self._now()
        self._codes[code] = _Code(
            Grant(account, scopes),
            now,
            now + self.quirks.code_seconds,
            redirect_uri=params["redirect_uri"],
            challenge=params.get("code_challenge", ""),
        )
        return {"code": code} | ({"scopes": ",".join(scopes)} if self.quirks.scopes_in_callback else {})

    def _denied(self) -> dict[str, str]:
        return dict(self.quirks.denial)

    def _back(self, params: Mapping[str, str], response_params: Mapping[str, str]) -> FakeResponse:
        uri = params["redirect_uri"]
        query = urlencode({**response_params, "state": params.get("state", "")}, quote_via=quote)
        fragment = f"#{self.quirks.fragment}" if self.quirks.fragment else ""
        location = f"{uri}{'&' if '?' in uri else '?'}{query}{fragment}"
        return FakeResponse(302, headers={"location": location, "cache-control": "no-store"})

    def _form(self, path: str, params: Mapping[str, str], chosen: str | None = None) -> str:
        hidden = "".join(_input("hidden", name, value) for name, value in params.items())
        scopes = self._scopes(params)
        ticks = "".join(
            f"<p><label>{_input('checkbox', 'ticked', scope, checked=scope not in self.consent.without)} "
            f"{html.escape(scope)}</label></p>"
            for scope in scopes
        )
        names = list(self.accounts())
        chosen = self.consent.account or chosen or names[-1]
        people = "".join(
            f'<option value="{html.escape(name)}"{" selected" if name == chosen else ""}>{html.escape(name)}</option>'
            for name in names
        )
        return (
            f'<h1>Allow access?</h1><form method="post" action="{html.escape(path)}">{hidden}'
            f'<p><label>Account <select name="account">{people}</select></label></p>{ticks}'
            '<p><button name="decision" value="allow" id="allow">Allow</button> '
            '<button name="decision" value="deny" id="deny">Deny</button></p></form>'
        )

    # --- Tokens ---

    def token(self, call: Call) -> FakeResponse:
        """Handle the token endpoint's grants."""
        params = fields(call)
        self.authenticate(call, params)
        if self.quirks.app_tokens and params.get("grant_type") == "client_credentials":
            return self.app_token()
        grants = {"authorization_code": self._exchange, "refresh_token": self._rotate}
        # Graph's endpoint treats a missing grant_type as a code.
        run = grants.get(params.get("grant_type", "authorization_code"))
        if run is None:
            raise self._refuse("unsupported_grant_type", "The grant type is not supported.")
        return self.quirks.issued(run(params))

    def app_token(self) -> FakeResponse:
        """Issue a token of the app alone, which gives no access here."""
        return FakeResponse(200, {"access_token": self._new("app"), "token_type": "bearer", "expires_in": 7200})

    def authenticate(self, call: Call, params: Mapping[str, str]) -> None:
        """Check the app's id and secret, sent the way this platform requires."""
        sent = (params.get(self.quirks.client_id_name, ""), params.get("client_secret", ""))
        if self.quirks.basic:
            sent = basic(call)
        if sent != (self.client_id, self.client_secret):
            raise self._refuse("invalid_client", "Client authentication failed.")

    def _exchange(self, params: Mapping[str, str]) -> IssuedTokens:
        code = self._codes.get(params.get("code", ""))
        if code is None or code.used or self._over(code):
            raise self._refuse("invalid_grant", "The code is invalid, expired or was used before.")
        if params.get("redirect_uri") != code.redirect_uri:
            raise self._refuse("invalid_grant", "The redirect_uri is not the one that the code was asked for.")
        if code.challenge and _challenge(params.get("code_verifier", "")) != code.challenge:
            raise self._refuse("invalid_grant", "The code_verifier does not match the code_challenge.")
        code.used = True
        return self._issue(code.grant, self.quirks.access_seconds, first=True)

    def _rotate(self, params: Mapping[str, str]) -> IssuedTokens:
        refreshing = self.quirks.refreshing
        token = self._refresh.get(params.get("refresh_token", ""))
        if token is not None and token.used and refreshing == "fatal":
            token.grant.ended = True
        dead = token is None or token.used or token.grant.ended or not token.grant.renewable or self._over(token)
        if dead or token is None or refreshing == "none":
            raise self._refuse("invalid_grant", "The refresh token is invalid, expired or revoked.")
        if refreshing == "same":
            issue = self._issue(token.grant, self.quirks.access_seconds, first=False, with_refresh=False)
            left = token.ends_at - self._now() if token.ends_at is not None else None
            return IssuedTokens(**{**vars(issue), "refresh": params["refresh_token"], "refresh_expires_in": left})
        token.used = True
        return self._issue(token.grant, self.quirks.access_seconds, first=False)

    def revoke(self, call: Call) -> FakeResponse:
        """Revoke the grant of a token; an unknown token is no error (RFC 7009, 2.2)."""
        params = fields(call)
        self.authenticate(call, params)
        secret = params.get("token", "")
        found = self._access.get(secret) or self._refresh.get(secret)
        if found is not None:
            found.grant.ended = True
        return self.quirks.revoked

    def _issue(self, grant: Grant, seconds: int | None, *, first: bool, with_refresh: bool = True) -> IssuedTokens:
        now, quirks = self._now(), self.quirks
        access, refresh = self._new("access"), None
        self._access[access] = Token(grant, now, _later(now, seconds))
        if with_refresh and quirks.refreshing != "none":
            refresh = self._new("refresh")
            self._refresh[refresh] = Token(grant, now, _later(now, quirks.refresh_seconds))
        return IssuedTokens(grant.account, access, seconds, refresh, quirks.refresh_seconds, grant.scopes, first, now)

    # --- Tools ---

    def _refuse(self, name: str, message: str) -> RefusedError:
        return RefusedError(self.quirks.refused(name, message))

    def _state(self, token: Token) -> TokenState:
        if token.grant.ended:
            return "revoked"
        return "expired" if self._over(token) else "alive"

    def _over(self, token: Token) -> bool:
        return token.ends_at is not None and token.ends_at <= self._now()

    def _now(self) -> int:
        return self.clock.now_ms() // 1000

    def _new(self, kind: str) -> str:
        self._made += 1
        digest = hashlib.sha256(f"{self.quirks.token_path} {kind} {self._made}".encode()).digest()
        return f"lab-{kind}-{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"


def find_server(fake: FakePlatform) -> OAuthServer | None:
    """Return the authorization server of a fake platform, if it has one."""
    found = (getattr(operation.handle, "__self__", None) for operation in fake.operations())
    return next((server for server in found if isinstance(server, OAuthServer)), None)


# --- Small things ----------------------------------------------------------------------------------------------------


def _challenge(verifier: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def _later(now: int, seconds: int | None) -> int | None:
    return None if seconds is None else now + seconds


def _input(kind: str, name: str, value: str, *, checked: bool = False) -> str:
    mark = " checked" if checked else ""
    return f'<input type="{kind}" name="{html.escape(name)}" value="{html.escape(value)}"{mark}>'


_HEAD = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>Consent, at the simulator</title><style>
:root { color-scheme: light dark; }
body { background: #fff; color: #1b1f27; font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 30rem; padding: 0 1rem; }
h1 { font-size: 1.5rem; }
label { overflow-wrap: anywhere; }
button, select { font: inherit; max-width: 100%; padding: 0.4rem 0.8rem; }
@media (prefers-color-scheme: dark) { body { background: #15181d; color: #e6e8ec; } }
</style></head>"""  # noqa: E501


def build_page(body: str, status: int = 200) -> FakeResponse:
    """Build a page of the platform for people."""
    text = f"{_HEAD}<body><main>{body}</main></body></html>"
    return FakeResponse(status, text, {"cache-control": "no-store"}, "text/html; charset=utf-8")
