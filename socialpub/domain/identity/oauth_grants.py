"""OAuth 2.1 for assistants: registration, consent, and codes that become API keys.

Clients are public: PKCE binds a code to the client that requested it. The name of a client is not verified.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

from typing_extensions import TypedDict

from socialpub.base import key_scopes
from socialpub.base.errors import ApiError
from socialpub.base.key_scopes import KeyScopeName
from socialpub.base.runtime import DAY_MS
from socialpub.base.security import crypto
from socialpub.domain.access.actions import MANAGER_ROLES
from socialpub.domain.access.actor import ActionResult, Actor
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.identity import api_keys
from socialpub.domain.schemas import validation
from socialpub.domain.schemas.api_keys import KeyRequest
from socialpub.domain.schemas.oauth import AuthorizationRequest, ClientRequest, TokenRequest
from socialpub.store.database import Tx
from socialpub.store.rows import AuthorizationCodeRow
from socialpub.store.schema.models import AuthorizationCode, OAuthClient, User, find_row_where

CLIENTS_MAX = 1000
NEW_CLIENT_MS = DAY_MS  # until its first consent
CLIENT_MS = 400 * DAY_MS  # after its last consent
CODE_MS = 60_000
CODE_KEPT_MS = DAY_MS  # a code that comes again by then revokes its key
CODES_MAX = 100  # of an organization, unused or used, as long as they are kept
DEFAULT_SCOPES: tuple[KeyScopeName, ...] = key_scopes.KEY_PRESETS["plan"].scopes or ()
"""Scopes of a client that requests none: it plans, and a person publishes."""

_LOOPBACK = re.compile(r"(http://(?:localhost|127\.0\.0\.1|\[::1\]))(?::[0-9]{1,5})?((?:[/?].*)?)")
_REDIRECT_URI = re.compile(
    r"(?:https://[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|http://(?:localhost|127\.0\.0\.1|\[::1\]))"
    r"(?::[0-9]{1,5})?(?:[/?][A-Za-z0-9._~:/?@!$&'()*+,;=%-]*)?"
)


class OAuthError(ApiError):
    """Error of an OAuth endpoint. `error`: its code in RFC 6749, 7591 or 8707."""

    def __init__(self, error: str, message: str, status: int = 400) -> None:
        self.error = error
        super().__init__("validation_failed", message, status=status)


class UsedCodeError(Exception):
    """A code that was exchanged before. Its `key` must be revoked: the code was stolen."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__("the code was exchanged before")


class RegisteredClient(TypedDict):
    """Response to a registration (RFC 7591)."""

    client_id: str
    client_id_issued_at: int
    client_name: str
    redirect_uris: list[str]
    grant_types: list[str]
    response_types: list[str]
    token_endpoint_auth_method: str


class Consent(NamedTuple):
    """A valid request of a client, for the consent page. `scopes`: the requested ones."""

    client: str
    name: str
    redirect_uri: str
    state: str | None
    challenge: str
    scopes: tuple[KeyScopeName, ...]

    @property
    def host(self) -> str:
        """The host that the browser is sent to."""
        return urlsplit(self.redirect_uri).netloc


# --- Clients -------------------------------------------------------------------------------------------------------


def register(tx: Tx, who: Actor, request: ClientRequest) -> ActionResult:
    """Register a client, replacing the oldest one without a consent if there are too many.

    Raises OAuthError for other addresses than https and this computer's, and for other grants than codes.
    """
    for uri in request.redirect_uris:
        if not _REDIRECT_URI.fullmatch(uri):
            raise OAuthError("invalid_redirect_uri", "A redirect URI is https, or http on localhost or 127.0.0.1.")
    grants, responses = request.grant_types or ["authorization_code"], request.response_types or ["code"]
    if "authorization_code" not in grants or "code" not in responses:
        raise OAuthError("invalid_client_metadata", "The only grant here is authorization_code, and its response code.")
    _make_room(tx)
    client, now = who.service.runtime.ids.uuid(), who.service.now_ms
    name = request.client_name or urlsplit(request.redirect_uris[0]).netloc[:100]
    OAuthClient.insert(
        id=client,
        name=name,
        redirect_uris=json.dumps(request.redirect_uris),
        created_at=now,
        ends_at=now + NEW_CLIENT_MS,
    ).execute()
    registered: RegisteredClient = {
        "client_id": client,
        "client_id_issued_at": now // 1000,
        "client_name": name,
        "redirect_uris": list(request.redirect_uris),
        "grant_types": ["authorization_code"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    }
    return ActionResult(registered, 201, is_audited=False)


def _make_room(tx: Tx) -> None:
    if OAuthClient.select().count() < CLIENTS_MAX:
        return
    unapproved = OAuthClient.select(OAuthClient.id).where(OAuthClient.approved_at.is_null())
    oldest = unapproved.order_by(OAuthClient.created_at, OAuthClient.id).limit(1).scalar()
    if oldest is None:
        raise OAuthError("temporarily_unavailable", f"{CLIENTS_MAX} clients are registered here.", 503)
    OAuthClient.delete().where(OAuthClient.id == oldest).execute()


# --- Consent -------------------------------------------------------------------------------------------------------


def check_client(service: AppContext, request: AuthorizationRequest) -> str:
    """Return the client's name. Raises OAuthError for an unregistered client or redirect URI."""
    is_live = (OAuthClient.id == request.client_id) & (OAuthClient.ends_at > service.now_ms)
    client = find_row_where(OAuthClient, is_live)
    if client is None:
        raise OAuthError("invalid_client", "This program is not registered here. Connect it again.")
    if not any(_is_same_uri(uri, request.redirect_uri) for uri in json.loads(client["redirect_uris"])):
        raise OAuthError("invalid_request", "The program did not register the address it wants you to be sent to.")
    return str(client["name"])


def _is_same_uri(registered: str, asked: str) -> bool:
    """Compare redirect URIs. The port on this computer may differ (RFC 8252, 7.3)."""
    if registered == asked:
        return True
    ours, theirs = _LOOPBACK.fullmatch(registered), _LOOPBACK.fullmatch(asked)
    is_same = ours is not None and theirs is not None and ours.groups() == theirs.groups()
    return is_same and _REDIRECT_URI.fullmatch(asked) is not None


def check_request(service: AppContext, request: AuthorizationRequest, name: str) -> Consent:
    """Return what a person is asked. Raises OAuthError."""
    if request.response_type != "code":
        raise OAuthError("unsupported_response_type", "The response_type must be code.")
    if request.code_challenge_method != "S256" or not re.fullmatch(r"[\w-]{43}", request.code_challenge or "", re.A):
        raise OAuthError("invalid_request", "PKCE is required: code_challenge, with code_challenge_method S256.")
    check_resource(service, request.resource)
    asked = tuple(scope for scope in key_scopes.ALL_SCOPES if scope in (request.scope or "").split())
    return Consent(
        request.client_id,
        name,
        request.redirect_uri,
        request.state,
        str(request.code_challenge),
        asked or DEFAULT_SCOPES,
    )


def check_resource(service: AppContext, resource: str | None) -> None:
    """Raise OAuthError unless the named resource, if any, is our MCP endpoint (RFC 8707)."""
    if resource is not None and resource.rstrip("/") != service.runtime.settings.mcp.url.rstrip("/"):
        raise OAuthError("invalid_target", "The resource is not the MCP endpoint of this server.")


def build_redirect(service: AppContext, request: AuthorizationRequest | Consent, **answer: str) -> str:
    """Return the redirect URI with the response, the client's state, and our issuer (RFC 9207)."""
    given = answer | ({} if request.state is None else {"state": request.state}) | {"iss": service.base_url}
    return request.redirect_uri + ("&" if "?" in request.redirect_uri else "?") + urlencode(given)


def approve(tx: Tx, who: Actor, consent: Consent, request: KeyRequest) -> ActionResult:
    """Let a client in; return its `code`. The key is made when the client exchanges it."""
    service, scope, now = who.service, who.scope, who.service.now_ms
    if AuthorizationCode.select().where(AuthorizationCode.organization == scope.organization).count() >= CODES_MAX:
        raise ApiError("validation_failed", f"{CODES_MAX} programs were let in within a day. Wait until tomorrow.")
    api_keys.check_limits(who, request)
    code = crypto.generate_base62(service.runtime.entropy)
    AuthorizationCode.insert(
        id=crypto.digest(code),
        organization=scope.organization,
        user=scope.user,
        client=consent.client,
        redirect_uri=consent.redirect_uri,
        challenge=consent.challenge,
        request=request.model_dump_json(by_alias=True, exclude_unset=True),
        created_at=now,
        ends_at=now + CODE_MS,
    ).execute()
    OAuthClient.update(approved_at=now, ends_at=now + CLIENT_MS).where(OAuthClient.id == consent.client).execute()
    return ActionResult({"id": consent.client, "code": code}, secret=True)


def refuse(tx: Tx, who: Actor, consent: Consent) -> ActionResult:
    """Refuse a client, and withdraw the codes that it has not used yet."""
    unused = (AuthorizationCode.client == consent.client) & AuthorizationCode.key.is_null()
    AuthorizationCode.delete().where(unused, AuthorizationCode.organization == who.scope.organization).execute()
    return ActionResult({"id": consent.client})


# --- Codes ---------------------------------------------------------------------------------------------------------


def find_code(code: str) -> AuthorizationCodeRow:
    """Load a code. Raises OAuthError."""
    row = find_row_where(AuthorizationCode, AuthorizationCode.id == crypto.digest(code))
    if row is None:
        raise OAuthError("invalid_grant", "There is no such code, or it has ended.")
    return row


def exchange(tx: Tx, who: Actor, request: TokenRequest) -> ActionResult:
    """Exchange a code for an API key, once. Raises OAuthError, UsedCodeError."""
    row = find_code(request.code)
    if row["key"] is not None:
        raise UsedCodeError(row["key"])
    if problem := _find_problem(who.service, row, request):
        raise OAuthError("invalid_grant", problem)
    try:
        made = api_keys.create(tx, who, validation.parse_value(KeyRequest, json.loads(row["request"])))
    except ApiError as error:  # an account or profile that has gone since
        raise OAuthError("invalid_grant", error.message) from error
    AuthorizationCode.update(key=made.body["id"]).where(AuthorizationCode.id == row["id"]).execute()
    return made


def _find_problem(service: AppContext, row: AuthorizationCodeRow, request: TokenRequest) -> str:
    """Return why a code may not be exchanged so; "" if it may."""
    if row["ends_at"] <= service.now_ms:
        return "There is no such code, or it has ended."
    if (row["client"], row["redirect_uri"]) != (request.client_id, request.redirect_uri):
        return "The code was made for another client or another redirect URI."
    if not crypto.is_equal(crypto.hash_base64url(request.code_verifier).encode(), row["challenge"].encode()):
        return "The code_verifier does not match the code_challenge."
    owner = User.select().where(User.id == row["user"], User.organization == row["organization"])
    if not owner.where(User.role.in_(MANAGER_ROLES)).exists():
        return "The user who allowed the client may no longer create keys."
    return ""


def purge(service: AppContext, tx: Tx) -> None:
    """Delete expired clients and codes: both are bounded."""
    OAuthClient.delete().where(OAuthClient.ends_at <= service.now_ms).execute()
    AuthorizationCode.delete().where(AuthorizationCode.ends_at <= service.now_ms - CODE_KEPT_MS).execute()
