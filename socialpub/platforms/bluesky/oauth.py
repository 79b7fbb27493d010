"""Bluesky's OAuth: pushed request (PAR) at the account's authorization server, PKCE, DPoP.

There is no registration: this server's id is the URL of its metadata document (atproto.com/specs/oauth). Accounts may
have different authorization servers, so each response is checked against the server where the flow started.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal
from urllib.parse import urlencode, urlsplit

from socialpub.base.errors import ApiError, Outcome
from socialpub.base.http import UpstreamResponse
from socialpub.base.security.crypto import encode_base64url, hash_base64url
from socialpub.platforms.bluesky.dpop import KEY, new_key, public_jwk, request, require_signing, sign_jwt, thumbprint
from socialpub.platforms.bluesky.identity import AccountHost, resolve_account
from socialpub.platforms.bluesky.xrpc import (
    build_classified_error,
    build_error,
    build_response_error,
    build_unusable_error,
    client_for,
    error_name,
    parse_origin,
)
from socialpub.platforms.contract import AppClient, AuthorizationRedirect, Json, Tokens, Upstream, Verdict
from socialpub.platforms.kit.api_errors import to_address

SCOPE = "atproto transition:generic"
ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_ASSERTION_SECONDS = 60
_ENDPOINTS = {
    "authorize": "authorization_endpoint",
    "par": "pushed_authorization_request_endpoint",
    "token": "token_endpoint",
}
_TRUE = (
    "authorization_response_iss_parameter_supported",
    "require_pushed_authorization_requests",
    "client_id_metadata_document_supported",
)
_AUTH = "platform_auth_failed"
_APP_PASSWORD = "Connect the account with an app password instead."
_AGAIN = "Reconnect the account and grant every requested permission."
_CLIENT = Verdict(
    Outcome.REJECTED,
    "platform_not_enabled",
    remediation="The account's server must be able to fetch /oauth/client-metadata.json under this server's base_url, "
    "and the clock of this server must be right.",
)
_REFUSED = Verdict(Outcome.REJECTED, _AUTH, remediation=_AGAIN, token_refused=True)
_UNREADY = Verdict(Outcome.NOT_SENT, "platform_unavailable")
# By error name (RFC 6749, 5.2; RFC 9449); an unlisted one refuses the login, but never ends a session.
_NAMES: Mapping[str, Verdict] = {
    "invalid_grant": _REFUSED,
    "invalid_client": _CLIENT,
    "invalid_client_metadata": _CLIENT,
    "invalid_redirect_uri": _CLIENT,
    "unauthorized_client": _CLIENT,
    "invalid_scope": _CLIENT,
    "invalid_dpop_proof": _UNREADY,
    "use_dpop_nonce": _UNREADY,
}
Step = Literal["invite", "login", "refresh", "revoke"]


@dataclass(frozen=True)
class AuthorizationServer:
    """Authorization server: issuer and endpoints."""

    issuer: str
    authorize: str
    par: str
    token: str
    revoke: str | None = None


# --- Client metadata -----------------------------------------------------------------------------------------------


def metadata(base_url: str, client: AppClient) -> Json:
    """Build the document whose URL is the client's id."""
    return {
        "client_id": client.id,
        "client_name": "socialpub",
        "client_uri": base_url,
        "application_type": "web",
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "redirect_uris": [client.redirect_uri],
        "scope": SCOPE,
        "dpop_bound_access_tokens": True,
        "token_endpoint_auth_method": "private_key_jwt",
        "token_endpoint_auth_signing_alg": "ES256",
        "jwks_uri": f"{base_url}/oauth/jwks.json",
    }


def jwks(client: AppClient) -> Json:
    """Build the public key set for the client's assertions."""
    named = {"kid": thumbprint(client.key), "use": "sig", "alg": "ES256"}
    return {"keys": [public_jwk(client.key) | named]}


# --- Login ---------------------------------------------------------------------------------------------------------


def invite(up: Upstream, client: AppClient, handle: str, state: str) -> AuthorizationRedirect:
    """Push the request to the authorization server; return the URL and state for the owner."""
    home = resolve_account(up, handle)
    server = _server(up, home)
    signing = require_signing(up)
    key, verifier = new_key(signing.entropy), encode_base64url(signing.entropy(32))
    form = {
        "response_type": "code",
        "code_challenge": hash_base64url(verifier),
        "code_challenge_method": "S256",
        "state": state,
        "redirect_uri": client.redirect_uri,
        "scope": SCOPE,
        "login_hint": home.did if home.handle == "handle.invalid" else home.handle,
    }
    reply = _post(up, "invite", server.par, form, key, client, server.issuer)
    pushed = reply.record().get("request_uri")
    if not isinstance(pushed, str) or not 0 < len(pushed) <= 2048:
        raise build_unusable_error(up, "login", reply)
    joint = "&" if urlsplit(server.authorize).query else "?"
    url = server.authorize + joint + urlencode({"client_id": client.id, "request_uri": pushed})
    return AuthorizationRedirect(url, {"home": vars(home), "server": vars(server), "key": key, "verifier": verifier})


def accept(up: Upstream, client: AppClient, stored: Json, code: str, iss: str | None) -> tuple[AccountHost, Tokens]:
    """Exchange a code for tokens; account and server must be those of the request."""
    home, server = AccountHost(**stored["home"]), AuthorizationServer(**stored["server"])
    if iss != server.issuer:
        raise _auth_error(up, "The login was answered by another server than the one it was sent to.", _AGAIN)
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": client.redirect_uri,
        "code_verifier": stored["verifier"],
    }
    reply = _post(up, "login", server.token, form, stored["key"], client, server.issuer)
    held = Tokens("", private=_private(client, server, stored["key"]))
    found = _tokens(up, "login", reply, held)
    if reply.record().get("sub") != home.did:
        raise _auth_error(up, f"The login is for another account than {home.handle}.", f"Log in as {home.handle}.")
    granted = str(reply.record().get("scope") or "").split()
    missing = [scope for scope in SCOPE.split() if scope not in granted]
    if missing:
        raise _auth_error(up, f"Bluesky did not grant {', '.join(missing)}.", _AGAIN)
    return home, found


def refresh(up: Upstream) -> Tokens:
    """Refresh tokens. The refresh token works once: a reuse ends the session (oauth-provider)."""
    client, server, key = _session(up)
    if not up.tokens.refresh:
        raise _auth_error(up, "This Bluesky account was connected without a refresh token.", _AGAIN)
    form = {"grant_type": "refresh_token", "refresh_token": up.tokens.refresh}
    reply = _post(up, "refresh", server.token, form, key, client, server.issuer)
    found, did = _tokens(up, "refresh", reply, up.tokens), up.account.platform_account_id
    if reply.record().get("sub", did) != did:
        raise _auth_error(up, "Bluesky returned the session of another account.", _AGAIN)
    return found


def revoke(up: Upstream) -> None:
    """End the session; revoking the refresh token also ends the access token."""
    client, server, key = _session(up)
    if server.revoke and up.tokens.refresh:
        form = {"token": up.tokens.refresh, "token_type_hint": "refresh_token"}
        _post(up, "revoke", server.revoke, form, key, client, server.issuer)


def is_session(tokens: Tokens) -> bool:
    """Return whether tokens are from OAuth, not from an app password."""
    return KEY in tokens.private


def _private(client: AppClient, server: AuthorizationServer, key: str) -> Json:
    # The session is bound to the key of its first assertion, so that key is stored with it. Secrets are top-level,
    # where redaction finds them.
    named = {"id": client.id, "redirect_uri": client.redirect_uri}
    return {KEY: key, "clientKey": client.key, "client": named, "server": vars(server), "rotates": True}


def _session(up: Upstream) -> tuple[AppClient, AuthorizationServer, str]:
    held = up.tokens.private
    return AppClient(**held["client"], key=held["clientKey"]), AuthorizationServer(**held["server"]), held[KEY]


def _tokens(up: Upstream, step: Literal["login", "refresh"], reply: UpstreamResponse, held: Tokens) -> Tokens:
    body = reply.record()
    access, renew, life = body.get("access_token"), body.get("refresh_token"), body.get("expires_in")
    bound = str(body.get("token_type")).lower() == "dpop"
    if not isinstance(access, str) or not isinstance(renew, str) or not access or not renew or not bound:
        raise build_unusable_error(up, step, reply, mutating=True)
    ends = require_signing(up).now_ms() + life * 1000 if isinstance(life, int) and 0 < life < 1 << 32 else None
    return replace(held, access=access, refresh=renew, expires_at_ms=ends)


# --- Authorization server ------------------------------------------------------------------------------------------


def _server(up: Upstream, home: AccountHost) -> AuthorizationServer:
    """Find the authorization server named by the account's server."""
    named = _document(up, f"{home.pds}/.well-known/oauth-protected-resource").get("authorization_servers")
    issuer = to_address(named[0]) if isinstance(named, list) and len(named) == 1 else ""
    if not issuer or parse_origin(issuer) != issuer:
        raise _auth_error(up, "The account's server names no authorization server.", _APP_PASSWORD)
    document = _document(up, f"{issuer}/.well-known/oauth-authorization-server")
    if document.get("issuer") != issuer or not _has_required_features(document):
        raise _auth_error(
            up, "The account's authorization server does not support what the AT Protocol requires.", _APP_PASSWORD
        )
    addresses = {name: _address(issuer, document.get(field)) for name, field in _ENDPOINTS.items()}
    if not all(addresses.values()):
        raise _auth_error(up, "The account's authorization server has no usable endpoints.", _APP_PASSWORD)
    return AuthorizationServer(
        issuer, **addresses, revoke=_address(issuer, document.get("revocation_endpoint")) or None
    )


def _document(up: Upstream, url: str) -> Json:
    """Fetch a well-known document, without following redirects."""
    reply = client_for(up, url).request("GET", url)
    if reply.status_code in (404, 405, 501):
        raise _auth_error(up, "The account's server does not support OAuth.", _APP_PASSWORD)
    if reply.status_code != 200:
        raise build_response_error(up, "resolve", reply)
    if reply.lacks_record:
        raise build_unusable_error(up, "resolve", reply)
    return reply.record()


def _has_required_features(document: Json) -> bool:
    """Check what atproto.com/specs/oauth ("Authorization Server Metadata") requires and we use."""
    wanted = {
        "response_types_supported": {"code"},
        "grant_types_supported": {"authorization_code", "refresh_token"},
        "code_challenge_methods_supported": {"S256"},
        "dpop_signing_alg_values_supported": {"ES256"},
        "scopes_supported": set(SCOPE.split()),
    }
    lists = all(
        isinstance(document.get(name), list) and values <= _string_set(document[name])
        for name, values in wanted.items()
    )
    return lists and all(document.get(name) is True for name in _TRUE)


def _string_set(values: list[Any]) -> set[str]:
    return {value for value in values if isinstance(value, str)}


def _address(issuer: str, url: object) -> str:
    """Return an endpoint as secure as the issuer, or empty."""
    text = to_address(url)
    return text if "#" not in text and parse_origin(text) and urlsplit(text).scheme == urlsplit(issuer).scheme else ""


def _post(
    up: Upstream, step: Step, url: str, form: Mapping[str, str], key: str, client: AppClient, issuer: str
) -> UpstreamResponse:
    """POST a signed form and return the 2xx response. Raises on any other."""
    whole = {**form, "client_id": client.id}
    if client.key:
        whole |= {"client_assertion_type": ASSERTION, "client_assertion": _assertion(up, client, issuer)}
    reply = request(up, client_for(up, url), key, "POST", url, headers={"Accept": "application/json"}, data=whole)
    if reply.is_success:
        return reply
    secrets = [value for name, value in whole.items() if name in _SECRET_FIELDS]
    raise _failure(up, step, reply, tuple(secrets))


_SECRET_FIELDS = ("code", "code_verifier", "refresh_token", "token", "client_assertion", "state")


def _assertion(up: Upstream, client: AppClient, issuer: str) -> str:
    """Build the client assertion (private_key_jwt: RFC 7523, 3)."""
    signing = require_signing(up)
    id, now = encode_base64url(signing.entropy(16)), signing.now_ms() // 1000
    claims = {"iss": client.id, "sub": client.id, "aud": issuer, "jti": id, "iat": now}
    return sign_jwt(client.key, {"kid": thumbprint(client.key)}, claims | {"exp": now + _ASSERTION_SECONDS})


def _failure(up: Upstream, step: Step, reply: UpstreamResponse, secrets: tuple[str, ...]) -> ApiError:
    found = _NAMES.get(error_name(reply) or "")
    if found is None and reply.status_code == 429:
        found = Verdict(Outcome.THROTTLED, "platform_unavailable")
    elif found is None and not 400 <= reply.status_code < 500:
        found = Verdict(Outcome.AMBIGUOUS, "platform_unavailable")
    elif found is None:
        found = Verdict(Outcome.REJECTED) if step == "refresh" else _REFUSED
    return build_classified_error(up, "login" if step == "invite" else step, found, reply, secrets)


def _auth_error(up: Upstream, message: str, remediation: str) -> ApiError:
    return build_error(up, Verdict(Outcome.REJECTED, _AUTH, remediation=remediation, token_refused=True), message)
