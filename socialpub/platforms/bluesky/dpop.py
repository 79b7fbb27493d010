"""DPoP calls (RFC 9449), as the network's OAuth profile requires them: ES256 only.

A key is stored as the base64url of its 32 secret bytes. Servers demand their own nonce in each proof; it comes with
every response and is valid for minutes, so it is kept for later calls (`Upstream.notes`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Literal
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

from socialpub.base.http import HttpClient, UpstreamResponse
from socialpub.base.security.crypto import decode_base64url, encode_base64url, hash_base64url
from socialpub.platforms.contract import Json, SigningContext, Upstream

KEY = "dpopKey"  # session key in Tokens.private; absent for app passwords
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551  # of P-256 (SEC 2, 2.4.2)


# --- Keys and signatures -----------------------------------------------------------------------------------------


def new_key(entropy: Callable[[int], bytes]) -> str:
    """Generate a P-256 key; 16 bytes more than the order keep it evenly distributed."""
    secret = int.from_bytes(entropy(48), "big") % (_ORDER - 1) + 1
    return encode_base64url(secret.to_bytes(32, "big"))


def public_jwk(key: str) -> Json:
    """Return the public key as a JWK."""
    numbers = _load_key(key).public_key().public_numbers()
    x, y = (encode_base64url(number.to_bytes(32, "big")) for number in (numbers.x, numbers.y))
    return {"kty": "EC", "crv": "P-256", "x": x, "y": y}


def thumbprint(key: str) -> str:
    """Compute the key's thumbprint (RFC 7638)."""
    jwk = public_jwk(key)
    return hash_base64url(json.dumps({name: jwk[name] for name in ("crv", "kty", "x", "y")}, separators=(",", ":")))


def sign_jwt(key: str, header: Json, claims: Json) -> str:
    """Sign a JWT with ES256."""
    parts = (header | {"alg": "ES256"}, claims)
    text = ".".join(encode_base64url(json.dumps(part, separators=(",", ":")).encode()) for part in parts)
    r, s = decode_dss_signature(_load_key(key).sign(text.encode(), ec.ECDSA(SHA256())))
    return f"{text}.{encode_base64url(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"


def require_signing(up: Upstream) -> SigningContext:
    """Return the clock and randomness for signatures. Raises ValueError without."""
    if up.signing is None:
        raise ValueError("this line to the account brings no clock")
    return up.signing


def _load_key(key: str) -> ec.EllipticCurvePrivateKey:
    return ec.derive_private_key(int.from_bytes(decode_base64url(key), "big"), ec.SECP256R1())


# --- Calls ---------------------------------------------------------------------------------------------------------


def request(
    up: Upstream,
    http: HttpClient,
    key: str,
    method: Literal["GET", "POST"],
    url: str,
    *,
    access: str = "",
    headers: Mapping[str, str] | None = None,
    **sent: Any,
) -> UpstreamResponse:
    """Send a request with a proof; repeat once if the server wants a nonce and has not acted.

    `sent`: further arguments of `HttpClient.request`; a streamed body must be iterable twice.
    """
    auth = {"Authorization": f"DPoP {access}"} if access else {}
    reply = UpstreamResponse(0, {}, b"")
    for _ in range(2):
        proven = {**auth, **(headers or {}), "DPoP": _proof(up, key, method, url, access)}
        reply = http.request(method, url, headers=proven, **sent)
        nonce = reply.headers.get("dpop-nonce", "")
        if nonce:
            up.notes.put(_nonce_of(key, url), nonce)
        if not nonce or not _wants_nonce(reply):
            break
    return reply


def _proof(up: Upstream, key: str, method: str, url: str, access: str) -> str:
    signing, nonce = require_signing(up), up.notes.get(_nonce_of(key, url))
    claims: Json = {
        "jti": encode_base64url(signing.entropy(16)),
        "htm": method,
        "htu": url,
        "iat": signing.now_ms() // 1000,
    }
    claims |= {"nonce": nonce} if nonce else {}
    claims |= {"ath": hash_base64url(access)} if access else {}
    return sign_jwt(key, {"typ": "dpop+jwt", "jwk": public_jwk(key)}, claims)


def _nonce_of(key: str, url: str) -> str:
    """Return the name under which the server's nonce for this key is kept."""
    parts = urlsplit(url)
    return f"nonce of {parts.scheme}://{parts.netloc} for {hash_base64url(key)}"


def _wants_nonce(reply: UpstreamResponse) -> bool:
    return reply.status_code in (400, 401) and reply.record().get("error") == "use_dpop_nonce"
