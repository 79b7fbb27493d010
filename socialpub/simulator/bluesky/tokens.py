"""Session tokens: JWTs signed with HS256, as the reference server issues them.

Access tokens live 120 minutes and refresh tokens 90 days (@atproto/pds, account-manager/helpers/auth.ts).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from dataclasses import dataclass
from typing import Any, Literal

ACCESS_SECONDS = 120 * 60
REFRESH_SECONDS = 90 * 24 * 3600
FULL, APP_PASSWORD, PRIVILEGED, REFRESH = (
    "com.atproto.access",
    "com.atproto.appPass",
    "com.atproto.appPassPrivileged",
    "com.atproto.refresh",
)
Typ = Literal["at+jwt", "refresh+jwt"]


@dataclass(frozen=True)
class Claims:
    """Claims of a verified token."""

    did: str
    scope: str
    expires_at: int  # seconds
    token_id: str | None = None


def unverified_did(token: str) -> str | None:
    """Return the account that a token names, before its signature is checked."""
    try:
        did = decoded(token.split(".")[1])["sub"]
    except (ValueError, LookupError, TypeError):
        return None
    return did if isinstance(did, str) else None


def make(key: bytes, typ: Typ, audience: str, claims: Claims, issued_at: int) -> str:
    """Sign a token."""
    payload: dict[str, Any] = {"scope": claims.scope, "aud": audience, "sub": claims.did}
    if claims.token_id is not None:
        payload["jti"] = claims.token_id
    payload |= {"iat": issued_at, "exp": claims.expires_at}
    signed = f"{_encoded({'typ': typ, 'alg': 'HS256'})}.{_encoded(payload)}"
    return f"{signed}.{_signature(key, signed)}"


def read(key: bytes, typ: Typ, token: str) -> Claims | None:
    """Verify a token of this type; return its claims even if expired, None if invalid."""
    signed, _, signature = token.rpartition(".")
    if not hmac.compare_digest(signature.encode(), _signature(key, signed).encode()):
        return None
    header, payload = (decoded(part) for part in signed.split("."))
    if header.get("typ") != typ:
        return None
    return Claims(payload["sub"], payload["scope"], payload["exp"], payload.get("jti"))


def _signature(key: bytes, signed: str) -> str:
    return b64(hmac.digest(key, signed.encode(), hashlib.sha256))


def _encoded(part: dict[str, Any]) -> str:
    return b64(json.dumps(part, separators=(",", ":")).encode())


def decoded(part: str) -> Any:
    """Decode the JSON in a part of a JWT. Raises ValueError."""
    return json.loads(unb64(part))


def b64(data: bytes) -> str:
    """Encode as base64url without padding."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def unb64(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
