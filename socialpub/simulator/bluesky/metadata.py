"""OAuth metadata documents under /.well-known/, recorded from @atproto/pds 0.5.35."""

from __future__ import annotations

from typing import Any

from socialpub.simulator.bluesky.dpop import ALGORITHMS


def protected_resource(origin: str) -> dict[str, Any]:
    """Build the protected resource document, which names the token issuer (RFC 9728)."""
    return {
        "resource": origin,
        "authorization_servers": [origin],
        "scopes_supported": [],
        "bearer_methods_supported": ["header"],
        "resource_documentation": "https://atproto.com",
    }


def server(origin: str) -> dict[str, Any]:
    """Build the authorization server document (RFC 8414)."""
    algorithms = ALGORITHMS.split()
    return {
        "issuer": origin,
        "request_parameter_supported": True,
        "request_uri_parameter_supported": True,
        "require_request_uri_registration": True,
        "scopes_supported": ["atproto", "transition:email", "transition:generic", "transition:chat.bsky"],
        "subject_types_supported": ["public"],
        "response_types_supported": ["code"],
        "response_modes_supported": ["query", "fragment", "form_post"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "code_challenge_methods_supported": ["S256"],
        "ui_locales_supported": ["en-US"],
        "display_values_supported": ["page", "popup", "touch"],
        "request_object_signing_alg_values_supported": [*algorithms, "none"],
        "authorization_response_iss_parameter_supported": True,
        "request_object_encryption_alg_values_supported": [],
        "request_object_encryption_enc_values_supported": [],
        "jwks_uri": f"{origin}/oauth/jwks",
        "authorization_endpoint": f"{origin}/oauth/authorize",
        "token_endpoint": f"{origin}/oauth/token",
        "token_endpoint_auth_methods_supported": ["none", "private_key_jwt"],
        "token_endpoint_auth_signing_alg_values_supported": algorithms,
        "revocation_endpoint": f"{origin}/oauth/revoke",
        "pushed_authorization_request_endpoint": f"{origin}/oauth/par",
        "require_pushed_authorization_requests": True,
        "dpop_signing_alg_values_supported": algorithms,
        "protected_resources": [origin],
        "client_id_metadata_document_supported": True,
        "prompt_values_supported": ["none", "login", "consent", "select_account", "create"],
    }
