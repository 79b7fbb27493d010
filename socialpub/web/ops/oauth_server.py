"""OAuth endpoints for assistants: metadata, registration, exchange of codes for API keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typing_extensions import TypedDict

from socialpub.base import key_scopes
from socialpub.base.errors import ApiError
from socialpub.base.key_scopes import KeyScopeName
from socialpub.domain.access import actions
from socialpub.domain.access.authentication import Scope
from socialpub.domain.identity import api_keys, oauth_grants
from socialpub.domain.identity.oauth_grants import OAuthError, UsedCodeError
from socialpub.domain.schemas import validation
from socialpub.domain.schemas.common import parse_instant
from socialpub.domain.schemas.oauth import ClientRequest, TokenRequest
from socialpub.web.http import forms
from socialpub.web.http.handler import HandlerResponse, RequestContext

USED_CODE = " with a used code"  # of the verb in the audit log


class ServerMetadata(TypedDict):
    """Metadata of this authorization server (RFC 8414)."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    registration_endpoint: str
    scopes_supported: list[KeyScopeName]
    response_types_supported: list[str]
    response_modes_supported: list[str]
    grant_types_supported: list[str]
    token_endpoint_auth_methods_supported: list[str]
    code_challenge_methods_supported: list[str]
    authorization_response_iss_parameter_supported: bool
    service_documentation: str


class ResourceMetadata(TypedDict):
    """Metadata of the MCP endpoint (RFC 9728)."""

    resource: str
    authorization_servers: list[str]
    scopes_supported: list[KeyScopeName]
    bearer_methods_supported: list[str]


class Token(TypedDict):
    """Answer to the exchange of a code (RFC 6749, 5.1)."""

    access_token: str
    token_type: str
    expires_in: int
    scope: str


async def read_server(call: RequestContext) -> HandlerResponse:
    """GET /.well-known/oauth-authorization-server."""
    base = call.service.base_url
    metadata: ServerMetadata = {
        "issuer": base,
        "authorization_endpoint": f"{base}/oauth/authorize",
        "token_endpoint": f"{base}/oauth/token",
        "registration_endpoint": f"{base}/oauth/register",
        "scopes_supported": [*key_scopes.ALL_SCOPES],
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code"],
        "token_endpoint_auth_methods_supported": ["none"],
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": True,
        "service_documentation": f"{base}/docs/guides/assistant",
    }
    return HandlerResponse(metadata)


async def read_resource(call: RequestContext) -> HandlerResponse:
    """GET /.well-known/oauth-protected-resource."""
    metadata: ResourceMetadata = {
        "resource": call.service.runtime.settings.mcp.url,
        "authorization_servers": [call.service.base_url],
        "scopes_supported": [*oauth_grants.DEFAULT_SCOPES],
        "bearer_methods_supported": ["header"],
    }
    return HandlerResponse(metadata)


async def register(call: RequestContext) -> HandlerResponse:
    """POST /oauth/register (RFC 7591)."""
    try:
        request = validation.parse_body(ClientRequest, call.body)
    except ApiError as error:
        raise OAuthError("invalid_client_metadata", error.message) from error
    return HandlerResponse(await actions.perform(call.actor, oauth_grants.register, request), 201)


async def exchange(call: RequestContext) -> HandlerResponse:
    """POST /oauth/token: the access token is an API key."""
    form = forms.parse(call)
    if form.get("grant_type", "authorization_code") != "authorization_code":
        raise OAuthError("unsupported_grant_type", "The only grant here is authorization_code.")
    request = validation.parse_object(TokenRequest, form)
    oauth_grants.check_resource(call.service, request.resource)
    code = await call.service.read(lambda: oauth_grants.find_code(request.code))
    audit = call.audit_context._replace(organization=code["organization"], user=code["user"])
    who = call.actor._replace(scope=Scope(code["organization"]), audit=audit)
    try:
        key = await actions.perform(who, oauth_grants.exchange, request)
    except UsedCodeError as used:
        again = who._replace(audit=audit._replace(verb=audit.verb + USED_CODE, user=None))
        await actions.perform(again, api_keys.revoke, used.key)
        raise OAuthError("invalid_grant", "The code was used before. Its key is revoked now.") from used
    return HandlerResponse(_build_token(call, key))


def _build_token(call: RequestContext, key: Mapping[str, Any]) -> Token:
    seconds = (parse_instant(key["expiresAt"]) - call.service.now_ms) // 1000
    return {
        "access_token": key["key"],
        "token_type": "Bearer",
        "expires_in": seconds,
        "scope": " ".join(key["scopes"]),
    }
