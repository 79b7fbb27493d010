"""AT Protocol OAuth: the authorization server of the fake Bluesky.

It adds to `simulator/oauth.py`: pushed requests (PAR), clients with metadata documents, and tokens bound to the
client's proven key (DPoP). Source: @atproto/oauth-provider 0.22.9 and its recorded responses.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from socialpub.simulator.bluesky.clients import Client, ClientError, Clients
from socialpub.simulator.bluesky.dpop import ALGORITHMS, ProofError, Proofs
from socialpub.simulator.bluesky.metadata import protected_resource, server
from socialpub.simulator.bluesky.tokens import Claims, b64
from socialpub.simulator.bluesky.xrpc import CORS, Auth
from socialpub.simulator.bluesky.xrpc import error as error_of
from socialpub.simulator.contract import Call, FakeResponse, Operation, RefusedError
from socialpub.simulator.forms import fields
from socialpub.simulator.oauth import Grant, IssuedTokens, OAuthQuirks, OAuthServer, build_page

PAR_SECONDS = 300
_NEEDED = {  # by method: scopes needed without `transition:generic`
    "com.atproto.repo.createRecord": "repo:app.bsky.feed.post?action=create",
    "com.atproto.repo.putRecord": "repo:app.bsky.feed.post?action=create",
    "com.atproto.repo.deleteRecord": "repo:app.bsky.feed.post?action=delete",
    "com.atproto.repo.uploadBlob": "blob:*/*",
}
_DAY = 86_400
_PUBLIC_SECONDS = 14 * _DAY  # lifetime of a public client's session
_REFRESH_SECONDS = 91 * _DAY  # lifetime of a confidential client's refresh token
_PRIVATE = {**CORS, "cache-control": "no-store", "pragma": "no-cache"}
_PREFIX = "urn:ietf:params:oauth:request_uri:req-"


@dataclass(frozen=True)
class SessionBinding:
    """Binding of a session to the client, its own key ("" if public) and its DPoP key."""

    client: str
    signer: str
    key: str
    ends_at: int | None = None  # end of the session, regardless of refreshes

    def problem(self, client: Client, signer: str, key: str) -> str:
        """Return why a caller may not use the session, or ""."""
        if self.client != client.id:
            return "Token was not issued to this client"
        if self.key not in ("", key):
            return "DPoP proof does not match the expected JKT"
        if self.signer != signer:
            return "The session was initiated with a different key than the client assertion currently used"
        return ""


@dataclass(frozen=True)
class PushedRequest:
    """Pushed request, waiting for the account's owner."""

    params: Mapping[str, str]
    binding: SessionBinding
    ends_at: int
    lives: int | None  # lifetime of its session in seconds


def challenge_of(verifier: str) -> str:
    return b64(hashlib.sha256(verifier.encode()).digest())


def refusal(name: str, said: str) -> FakeResponse:
    """Build the error response (RFC 6749, 5.2); a bad proof gets 401 with a challenge."""
    body = {"error": name, "error_description": said}
    if name != "invalid_dpop_proof":
        return FakeResponse(400, body, _PRIVATE, "application/json")
    return FakeResponse(401, body, {**_PRIVATE, "www-authenticate": wanted(name, said)}, "application/json")


def wanted(name: str, said: str) -> str:
    """Build the WWW-Authenticate value of a refused call; messages with quotes are left out."""
    description = "" if '"' in said else f', error_description="{said}"'
    return f'DPoP algs="{ALGORITHMS}", error="{name}"{description}'


def _unauthorized(name: str, said: str) -> RefusedError:
    answer = error_of(401, name, said).answer
    return RefusedError(replace(answer, headers={**answer.headers, "www-authenticate": wanted(name, said)}))


def _issued(issue: IssuedTokens) -> FakeResponse:
    body = {
        "access_token": issue.access,
        "token_type": "DPoP",
        "refresh_token": issue.refresh,
        "scope": " ".join(issue.scopes),
        "expires_in": issue.expires_in,
        "sub": issue.account,
    }
    return FakeResponse(200, body, _PRIVATE, "application/json")


OAUTH_QUIRKS = OAuthQuirks(
    authorize_path="/oauth/authorize",
    token_path="/oauth/token",
    revoke_path="/oauth/revoke",
    pkce=True,
    code_seconds=PAR_SECONDS,
    access_seconds=3600,
    refreshing="fatal",
    refresh_seconds=_REFRESH_SECONDS,
    denial={"error": "access_denied", "error_description": "The user rejected the request"},
    issued=_issued,
    refused=refusal,
)


@dataclass
class AuthorizationServer(OAuthServer):
    """Authorization server; accounts are named by DID.

    `owner_of`: returns the DID of a handle or DID, or "".
    """

    owner_of: Callable[[str], str] = str
    _pushed: dict[str, PushedRequest] = field(default_factory=dict)
    _spent: dict[str, Grant] = field(default_factory=dict)  # by used code or refresh token
    _challenges: set[str] = field(default_factory=set)  # of used codes

    def __post_init__(self) -> None:
        self.clients = Clients(self.clock)
        self.proofs = Proofs(self.clock, hashlib.sha256(b"nonces of the fake").digest())

    def operations(self) -> tuple[Operation, ...]:
        return (
            Operation("oauth.resource", ("GET",), "/.well-known/oauth-protected-resource", self.resource),
            Operation("oauth.metadata", ("GET",), "/.well-known/oauth-authorization-server", self.metadata),
            Operation("oauth.jwks", ("GET",), "/oauth/jwks", self.jwks),
            Operation("oauth.par", ("POST",), "/oauth/par", self.push, urls_to_fetch=self._documents),
            Operation("oauth.authorize", ("GET", "POST"), "/oauth/authorize", self.authorize),
            Operation("oauth.token", ("POST",), "/oauth/token", self.token, urls_to_fetch=self._documents),
            Operation("oauth.revoke", ("POST",), "/oauth/revoke", self.revoke, urls_to_fetch=self._documents),
        )

    def resource(self, call: Call) -> FakeResponse:
        return FakeResponse(200, protected_resource(call.origin), CORS)

    def metadata(self, call: Call) -> FakeResponse:
        headers = {**CORS, "cache-control": "max-age=300"}
        return FakeResponse(200, server(call.origin), headers, "application/json")

    def jwks(self, call: Call) -> FakeResponse:
        """Return an empty key set: access tokens are signed with a secret."""
        return FakeResponse(200, {"keys": []}, {**CORS, "cache-control": "max-age=300"}, "application/json")

    def _documents(self, call: Call) -> Iterable[str]:
        return self.clients.wanted(fields(call).get("client_id", ""), call.fetched)

    # --- The request and its owner ---

    def push(self, call: Call) -> FakeResponse:
        """Store an authorization request that the browser will name (RFC 9126)."""
        return self._answered(call, self._push)

    def _push(self, call: Call, params: dict[str, str]) -> FakeResponse:
        client, signer, key = self._caller(call, params)
        params = client.default_redirect | params
        self._check(client, params)
        now = self._now()
        name = _PREFIX + hashlib.sha256(self._new("request").encode()).hexdigest()[:32]
        lives = None if client.is_confidential else _PUBLIC_SECONDS
        self._pushed[name] = PushedRequest(params, SessionBinding(client.id, signer, key), now + PAR_SECONDS, lives)
        return FakeResponse(201, {"request_uri": name, "expires_in": PAR_SECONDS - 1}, _PRIVATE, "application/json")

    def _check(self, client: Client, params: Mapping[str, str]) -> None:
        scopes, uri, kind = params.get("scope", "").split(), params.get("redirect_uri", ""), params.get("response_type")
        undeclared = " ".join(scope for scope in scopes if scope not in client.scopes)
        hint = params.get("login_hint", "")
        refusals = (
            (kind != "code", "unsupported_response_type", f'Unsupported response_type "{kind}"'),
            (undeclared, "invalid_scope", f'Scope "{undeclared}" is not declared in the client metadata'),
            (not client.is_redirect_uri(uri), "invalid_request", f"Invalid redirect_uri {uri}"),
            (not params.get("code_challenge"), "invalid_request", "Use of PKCE is required"),
            ("atproto" not in scopes, "invalid_scope", 'The "atproto" scope is required'),
            (
                params.get("code_challenge_method") != "S256",
                "invalid_request",
                'atproto requires use of "S256" code_challenge_method',
            ),
            (hint and "." not in hint and ":" not in hint, "invalid_request", f'Invalid login_hint "{hint}"'),
        )
        for is_refused, name, said in refusals:
            if is_refused:
                raise RefusedError(refusal(name, said))

    def authorize(self, call: Call) -> FakeResponse:
        """Show the consent page for a pushed request, or redirect at once."""
        sent = fields(call)
        name = sent.get("request_uri", "")
        pushed = self._pushed.get(name)
        if pushed is None or pushed.ends_at <= self._now() or pushed.binding.client != sent.get("client_id"):
            return build_page("<h1>This cannot be approved</h1><p>Unknown request_uri</p>", 400)
        hinted = self.owner_of(pushed.params.get("login_hint", ""))
        if self.consent.mode == "form" and call.method == "GET":
            shown = {"client_id": pushed.binding.client, "request_uri": name, "scope": pushed.params["scope"]}
            return build_page(self._form(call.path, shown, hinted))
        del self._pushed[name]
        pressed = sent.get("decision", "deny" if self.consent.mode == "deny" else "allow")
        params = self._denied() if pressed != "allow" else self._allowed(pushed, sent, hinted, call)
        return self._back(pushed.params, {"iss": call.origin, **params})

    def _allowed(self, pushed: PushedRequest, sent: Mapping[str, str], hinted: str, call: Call) -> dict[str, str]:
        chosen = {name: sent[name] for name in ("decision", "account") if name in sent}
        if "account" not in chosen and self.consent.account is None and hinted:
            chosen["account"] = hinted
        params = self._approved({**pushed.params, **chosen}, call)
        grant = self._codes[params["code"]].grant
        grant.binding = replace(pushed.binding, ends_at=pushed.lives and self._now() + pushed.lives)
        if "atproto" not in grant.scopes:
            del self._codes[params["code"]]
            return {"error": "access_denied", "error_description": 'The "atproto" scope is required'}
        return params

    # --- Tokens ---

    def token(self, call: Call) -> FakeResponse:
        return self._answered(call, self._token)

    def _token(self, call: Call, params: dict[str, str]) -> FakeResponse:
        client, signer, key = self._caller(call, params)
        if not key:
            raise ProofError("DPoP proof required")
        runs = {"authorization_code": self._by_code, "refresh_token": self._by_refresh}
        run = runs.get(params.get("grant_type", ""))
        if run is None:
            raise self._refuse("invalid_grant", "Invalid request payload")
        grant = run(params)
        binding = cast(SessionBinding, grant.binding)
        problem = binding.problem(client, signer, key)
        if problem:
            grant.ended = True
            raise self._refuse("invalid_grant", problem)
        grant.binding = replace(binding, key=key)
        self._access = {name: token for name, token in self._access.items() if token.grant is not grant}
        issue = self._issue(grant, self.quirks.access_seconds, first=params["grant_type"] == "authorization_code")
        return self.quirks.issued(replace(issue, expires_in=(issue.expires_in or 1) - 1))

    def _by_code(self, params: Mapping[str, str]) -> Grant:
        text = params.get("code", "")
        code = self._codes.pop(text, None)
        if text in self._spent:
            self._spent[text].ended = True
        if code is None:
            raise self._refuse("invalid_grant", "Invalid code")
        self._spent[text] = code.grant
        verifier = params.get("code_verifier", "")
        refusals = (
            (self._over(code), "This code has expired"),
            (
                params.get("redirect_uri") != code.redirect_uri,
                "The redirect_uri parameter must match the one used in the authorization request",
            ),
            (not verifier, "code_verifier is required"),
            (len(verifier) < 43, "Invalid request payload"),
            (challenge_of(verifier) != code.challenge, "Invalid code_verifier"),
            (code.challenge in self._challenges, "Code challenge already used"),
        )
        for is_refused, said in refusals:
            if is_refused:
                raise self._refuse("invalid_grant", said)
        self._challenges.add(code.challenge)
        return code.grant

    def _by_refresh(self, params: Mapping[str, str]) -> Grant:
        """Return the session of a refresh token. A second use of the token ends the session."""
        text = params.get("refresh_token", "")
        token, spent = self._refresh.pop(text, None), self._spent.get(text)
        if spent is not None and not spent.ended:
            spent.ended = True
            raise self._refuse("invalid_grant", "Refresh token replayed")
        if token is None or token.grant.ended or not token.grant.renewable:
            raise self._refuse("invalid_grant", "Invalid refresh token")
        grant = self._spent[text] = token.grant
        ends_at = cast(SessionBinding, grant.binding).ends_at
        if self._over(token) or (ends_at is not None and ends_at <= self._now()):
            grant.ended = True
            raise self._refuse("invalid_grant", "Refresh token expired" if self._over(token) else "Session expired")
        return grant

    def revoke(self, call: Call) -> FakeResponse:
        return self._answered(call, self._revoke)

    def _revoke(self, call: Call, params: dict[str, str]) -> FakeResponse:
        """Revoke the session of a token; succeeds for any token, as the reference server does."""
        text = params.get("token", "")
        found, done = (
            self._access.get(text) or self._refresh.get(text),
            FakeResponse(200, {}, _PRIVATE, "application/json"),
        )
        try:
            caller = self._caller(call, params)
        except ClientError:
            return done
        if found is not None and not cast(SessionBinding, found.grant.binding).problem(*caller):
            found.grant.ended = True
        return done

    # --- At the repository ---

    def claims(self, call: Call, auth: Auth) -> Claims:
        """Return the claims of a call with a bound token, or raise the server's refusal."""
        token = call.headers["authorization"].partition(" ")[2]
        try:
            key = self.proofs.check(call, token)
        except ProofError as error:
            raise _unauthorized(error.name, error.said) from error
        found = self._access.get(token)
        if found is None or found.grant.ended:
            raise _unauthorized("invalid_token", "Invalid token" if token.startswith("lab-") else "Malformed token")
        if not key:
            raise _unauthorized("invalid_dpop_proof", "DPoP proof required")
        if key != cast(SessionBinding, found.grant.binding).key:
            raise _unauthorized("invalid_token", "Invalid DPoP key binding")
        if self._over(found):
            raise _unauthorized("invalid_token", '"exp" claim timestamp check failed')
        if auth == "full":
            raise error_of(403, "Forbidden", "OAuth credentials are not supported for this endpoint")
        missing = _NEEDED.get(call.path.rpartition("/")[2])
        if missing and "transition:generic" not in found.grant.scopes:
            raise error_of(403, "ScopeMissingError", f'Missing required scope "{missing}"')
        return Claims(found.grant.account, " ".join(found.grant.scopes), found.ends_at or 0)

    # --- Callers ---

    def _answered(self, call: Call, run: Callable[[Call, dict[str, str]], FakeResponse]) -> FakeResponse:
        """Run the handler and add the next nonce, also to a refusal."""
        try:
            answer = run(call, fields(call))
        except RefusedError as refused:
            answer = refused.answer
        except (ClientError, ProofError) as error:
            answer = refusal(error.name, error.said)
        return replace(answer, headers={**answer.headers, "dpop-nonce": self.proofs.nonce()})

    def _caller(self, call: Call, params: Mapping[str, str]) -> tuple[Client, str, str]:
        """Return (client, thumbprint of its signing key, thumbprint of the call's DPoP key)."""
        name = params.get("client_id", "")
        if not name:
            raise ClientError("invalid_client", "Client credentials missing")
        key = self.proofs.check(call)
        client = self.clients.get(name, call.fetched)
        return client, self.clients.authenticate(client, params, call.origin), key
