"""OAuth clients of an authorization server: by metadata document, or by name on loopback.

Source: @atproto/oauth-provider 0.22.9, client-manager and client; atproto.com/specs/oauth ("Clients").
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, urlsplit

from socialpub.base.runtime import Clock
from socialpub.simulator.bluesky.dpop import check_age, thumbprint, verified
from socialpub.simulator.bluesky.tokens import decoded
from socialpub.simulator.contract import FetchedUrl

ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_LOOPBACK = "http://localhost"
_LOOPBACK_URIS = ("http://127.0.0.1/", "http://[::1]/")
_LOOPBACK_HOSTS = {"127.0.0.1", "::1"}
_UNSUPPORTED = (
    'Unsupported client authentication method "{}". '
    'Make sure "token_endpoint_auth_method" is set to one of: "none", "private_key_jwt"'
)
_CACHED_SECONDS = 600
_ASSERTION_SECONDS = 60


class ClientError(Exception):
    """Refusal of a client: `invalid_client_metadata` or a name of RFC 6749, and a message."""

    def __init__(self, name: str, said: str) -> None:
        super().__init__(said)
        self.name, self.said = name, said


@dataclass(frozen=True)
class Client:
    """Client metadata. `keys` sign its assertions; without them the client is public."""

    id: str
    redirect_uris: tuple[str, ...]
    scopes: tuple[str, ...]
    keys: tuple[Mapping[str, Any], ...] = ()

    @property
    def is_confidential(self) -> bool:
        return bool(self.keys)

    @property
    def default_redirect(self) -> dict[str, str]:
        """Return the default redirect parameter if the client has exactly one redirect URI."""
        return {"redirect_uri": self.redirect_uris[0]} if len(self.redirect_uris) == 1 else {}

    def is_redirect_uri(self, uri: str) -> bool:
        """Return whether this is a redirect URI of the client; on loopback any port matches."""
        return uri in self.redirect_uris or any(_is_same_loopback(one, uri) for one in self.redirect_uris)


@dataclass
class Clients:
    """Known clients. `stands_at`: addresses of origins that DNS does not resolve."""

    clock: Clock
    stands_at: dict[str, str] = field(default_factory=dict)
    _known: dict[str, tuple[int, Client]] = field(default_factory=dict)  # with expiry, in seconds
    _used_assertions: dict[str, int] = field(default_factory=dict)  # expiry by client and jti

    def clear(self) -> None:
        """Forget all client metadata."""
        self._known.clear()

    def wanted(self, client_id: str, fetched: Mapping[str, FetchedUrl]) -> Iterable[str]:
        """Yield the documents to fetch for a client: its own, then its keys'."""
        if not _is_document(client_id) or self._cached(client_id):
            return
        yield self._found_at(client_id)
        document = self._document(client_id, fetched)
        if document and isinstance(document.get("jwks_uri"), str):
            yield self._found_at(document["jwks_uri"])

    def get(self, client_id: str, fetched: Mapping[str, FetchedUrl]) -> Client:
        """Return the client. Raises ClientError `invalid_client_metadata` if it cannot be loaded."""
        found = _parse_loopback_id(client_id) or self._cached(client_id)
        if found is None:
            found = self._read(client_id, fetched)
            self._known[client_id] = (self._now() + _CACHED_SECONDS, found)
        return found

    def _cached(self, client_id: str) -> Client | None:
        until, client = self._known.get(client_id, (0, None))
        return client if until > self._now() else None

    def _read(self, client_id: str, fetched: Mapping[str, FetchedUrl]) -> Client:
        unread = f'Unable to obtain client metadata for "{client_id}"'
        if not _is_document(client_id):
            raise _unknown(f'Invalid client ID "{client_id}"' if "://" in client_id else f"{unread}: Invalid URL")
        document = self._document(client_id, fetched)
        if document is None:
            raise _unknown(unread + self._why(client_id, fetched))
        problem = _problem(client_id, document)
        if problem:
            raise _unknown(problem)
        uris, scopes = tuple(document["redirect_uris"]), tuple(document["scope"].split())
        if document["token_endpoint_auth_method"] == "none":
            return Client(client_id, uris, scopes)
        keys = document.get("jwks") or self._document(document["jwks_uri"], fetched)
        if not keys or not keys.get("keys"):
            url = document["jwks_uri"]
            raise _unknown(f'Unable to obtain jwks from "{url}" for "{client_id}"{self._why(url, fetched)}')
        return Client(client_id, uris, scopes, tuple(keys["keys"]))

    def _document(self, url: str, fetched: Mapping[str, FetchedUrl]) -> dict[str, Any] | None:
        found = fetched.get(self._found_at(url))
        try:
            document = json.loads(found.content) if found is not None and found.status == 200 else None
        except ValueError:
            return None
        return document if isinstance(document, dict) else None

    def _why(self, url: str, fetched: Mapping[str, FetchedUrl]) -> str:
        """Return why a document could not be fetched, as the server reports it."""
        status = fetched.get(self._found_at(url), FetchedUrl(0)).status
        return f": {HTTPStatus(status).phrase}" if status not in (0, 200) else ""

    def _found_at(self, url: str) -> str:
        parts = urlsplit(url)
        origin = f"{parts.scheme}://{parts.netloc}"
        return self.stands_at.get(origin, origin) + url.removeprefix(origin)

    # --- Authentication ---

    def authenticate(self, client: Client, params: Mapping[str, str], issuer: str) -> str:
        """Authenticate a client; return the thumbprint of its signing key, or "" for a public one.

        Raises ClientError if authentication fails.
        """
        if not client.is_confidential:
            return ""
        assertion = params.get("client_assertion")
        if not assertion:
            said = 'client authentication method "private_key_jwt" required a "client_assertion"'
            raise ClientError("invalid_request", said)
        if params.get("client_assertion_type") != ASSERTION:
            raise ClientError("invalid_client", "Unsupported client_assertion_type")
        try:
            header, claims, jwk = _verify_assertion(client, assertion)
            self._check(claims, client, issuer)
        except ValueError as error:
            raise ClientError("invalid_client", f'Validation of "client_assertion" failed: {error}') from error
        if "kid" not in header:
            raise ClientError("invalid_client", '"kid" required in client_assertion')
        self._remember(f"{client.id} {claims['jti']}", claims)
        return thumbprint(jwk)

    def _check(self, claims: Mapping[str, Any], client: Client, issuer: str) -> None:
        wanted = {"iss": client.id, "sub": client.id, "aud": issuer}
        missing = [name for name in (*wanted, "jti", "iat") if name not in claims]
        if missing:
            raise ValueError(f'missing required "{missing[0]}" claim')
        wrong = [name for name, value in wanted.items() if claims[name] != value]
        if wrong:
            raise ValueError(f'unexpected "{wrong[0]}" claim value')
        if claims.get("exp") is not None and claims["exp"] <= self._now():
            raise ValueError('"exp" claim timestamp check failed')
        check_age(claims["iat"], self._now(), _ASSERTION_SECONDS)

    def _remember(self, name: str, claims: Mapping[str, Any]) -> None:
        now = self._now()
        self._used_assertions = {one: until for one, until in self._used_assertions.items() if until > now}
        if name in self._used_assertions:
            raise ClientError("invalid_grant", "private_key_jwt jti reused")
        self._used_assertions[name] = claims.get("exp") or now + _ASSERTION_SECONDS

    def _now(self) -> int:
        return self.clock.now_ms() // 1000


def _verify_assertion(client: Client, assertion: str) -> tuple[dict[str, Any], dict[str, Any], Mapping[str, Any]]:
    """Return (header, claims, key) of an assertion.

    Raises ValueError if no client key signed it.
    """
    header = decoded(assertion.partition(".")[0])
    if not isinstance(header, dict):
        raise ValueError("Invalid Compact JWS")
    named = [jwk for jwk in client.keys if header.get("kid", jwk.get("kid")) == jwk.get("kid")]
    if not named:
        raise ValueError("no applicable key found in the JSON Web Key Set")
    return *verified(assertion, named[0]), named[0]


def _parse_loopback_id(client_id: str) -> Client | None:
    """Build the client that a loopback name describes; None if it is not such a name."""
    origin, _, query = client_id.partition("?")
    document = parse_qs(query, keep_blank_values=True)
    uris = tuple(document.get("redirect_uri", _LOOPBACK_URIS))
    hosts = {urlsplit(uri).hostname for uri in uris}
    if (
        origin not in (_LOOPBACK, f"{_LOOPBACK}/")
        or set(document) - {"redirect_uri", "scope"}
        or hosts - _LOOPBACK_HOSTS
    ):
        return None
    scopes = tuple(document.get("scope", ["atproto"])[0].split())
    if "atproto" not in scopes:
        said = 'ATProto Loopback ClientID must include "atproto" scope'
        raise _unknown(f'Invalid loopback client id "{client_id}": {said}')
    return Client(client_id, uris, scopes)


def _is_document(client_id: str) -> bool:
    """Return whether a client id is a fetchable URL: https, a host name, a path to a file."""
    parts = urlsplit(client_id)
    named = bool(parts.hostname) and not _is_ip(parts.hostname or "") and not parts.username
    return parts.scheme == "https" and named and not parts.fragment and parts.path.rstrip("/") == parts.path != ""


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _problem(client_id: str, document: Mapping[str, Any]) -> str:
    """Return the first rule that a client's document breaks, as the server words it, or ""."""
    method = document.get("token_endpoint_auth_method", "client_secret_basic")
    uris = document.get("redirect_uris") or [""]
    keys, grants = document.get("jwks"), document.get("grant_types", ["authorization_code"])
    signs = method == "private_key_jwt"
    rules = (
        ("scope" not in document, "Missing scope property"),
        ("atproto" not in str(document.get("scope")).split(), 'Missing "atproto" scope'),
        (document.get("client_id", client_id) != client_id, "client_id does not match"),
        (method not in ("none", "private_key_jwt"), _UNSUPPORTED.format(method)),
        (signs and not (keys or document.get("jwks_uri")), "private_key_jwt auth method requires jwks or jwks_uri"),
        (signs and keys and not keys.get("keys"), "private_key_jwt auth method requires at least one key in jwks"),
        (
            signs and not document.get("token_endpoint_auth_signing_alg"),
            "Missing token_endpoint_auth_signing_alg client metadata",
        ),
        (document.get("dpop_bound_access_tokens") is not True, '"dpop_bound_access_tokens" must be true'),
        ("code" not in document.get("response_types", ["code"]), 'response_types must include "code"'),
        (
            "authorization_code" not in grants,
            'The "code" response type requires that "grant_types" contains "authorization_code"',
        ),
        (not all(uri.startswith("https://") for uri in uris), "Invalid redirect URI scheme"),
        ("client_id" not in document, "client_id is required for discoverable clients"),
        (not _is_above(document.get("client_uri"), client_id), "client_uri must have the same origin as the client_id"),
    )
    return next((said for is_broken, said in rules if is_broken), "")


def _is_above(client_uri: str | None, client_id: str) -> bool:
    return client_uri is None or client_id.startswith(client_uri.rstrip("/") + "/")


def _is_same_loopback(registered: str, uri: str) -> bool:
    ours, theirs = urlsplit(registered), urlsplit(uri)
    if ours.hostname not in _LOOPBACK_HOSTS or ours.port not in (None, theirs.port):
        return False
    return (ours.scheme, ours.hostname, ours.path or "/", ours.query) == (
        theirs.scheme,
        theirs.hostname,
        theirs.path or "/",
        theirs.query,
    )


def _unknown(said: str) -> ClientError:
    return ClientError("invalid_client_metadata", said)
