"""DPoP proofs (RFC 9449), checked in the reference server's order, with its messages.

Source: @atproto/oauth-provider 0.22.9, dpop-manager and dpop-nonce. Only ES256 is implemented, which AT Protocol's
OAuth profile requires.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

from socialpub.base.runtime import Clock
from socialpub.simulator.bluesky.tokens import b64, decoded, unb64
from socialpub.simulator.contract import Call

ALGORITHMS = "RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES256K ES384 ES512"  # as the reference server announces them
_ROTATION, _TOLERANCE, _AGE = 60, 180, 10  # seconds
_REMEMBERED = 198


class ProofError(Exception):
    """Refused proof. `name`: `invalid_dpop_proof`, or `use_dpop_nonce` if a nonce is required."""

    def __init__(self, said: str, name: str = "invalid_dpop_proof") -> None:
        super().__init__(said)
        self.name, self.said = name, said


@dataclass
class Proofs:
    """Nonces of one server, and the proofs it has seen."""

    clock: Clock
    secret: bytes
    _seen: dict[str, int] = field(default_factory=dict)  # expiry by jti, in seconds

    def nonce(self) -> str:
        """Return the current nonce, valid for two to three minutes."""
        return self._nonce(1)

    def _nonce(self, step: int) -> str:
        turn = self._now() // _ROTATION + step
        return b64(hmac.digest(self.secret, turn.to_bytes(8, "big"), hashlib.sha256))

    def check(self, call: Call, access: str = "") -> str:
        """Check a call's proof; return the thumbprint of its key, or "" without a proof.

        `access`: the access token that the proof must cover.
        """
        if "dpop" not in call.headers:
            return ""
        try:
            header, claims = verified(call.headers["dpop"])
        except ValueError as error:
            raise ProofError(f"Failed to verify DPoP proof: {error}") from error
        if header.get("typ") != "dpop+jwt":
            raise ProofError('Failed to verify DPoP proof: unexpected "typ" JWT header value')
        self._check_claims(claims, call, access)
        self._remember(claims["jti"])
        return thumbprint(header["jwk"])

    def _check_claims(self, claims: Mapping[str, Any], call: Call, access: str) -> None:
        jti, htu, nonce = (claims.get(name) for name in ("jti", "htu", "nonce"))
        try:
            check_age(claims.get("iat"), self._now(), _AGE, _TOLERANCE)
        except ValueError as error:
            raise ProofError(f"Failed to verify DPoP proof: {error}") from error
        if not jti or not isinstance(jti, str):
            raise ProofError('DPoP "jti" missing')
        if claims.get("htm") != call.method:
            raise ProofError('DPoP "htm" mismatch')
        if not htu or not isinstance(htu, str):
            raise ProofError('Invalid DPoP "htu" type')
        if htu.partition("?")[0] != call.origin + call.path:
            raise ProofError('DPoP "htu" mismatch')
        if not nonce:
            raise ProofError("Authorization server requires nonce in DPoP proof", "use_dpop_nonce")
        if nonce not in [self._nonce(step) for step in (-1, 0, 1)]:
            raise ProofError('DPoP "nonce" mismatch', "use_dpop_nonce")
        if claims.get("ath") != (b64(hashlib.sha256(access.encode()).digest()) if access else None):
            raise ProofError('DPoP "ath" mismatch' if access else 'DPoP "ath" claim not allowed')

    def _remember(self, jti: str) -> None:
        now = self._now()
        self._seen = {one: until for one, until in self._seen.items() if until > now}
        if jti in self._seen:
            raise ProofError("DPoP proof replayed")
        self._seen[jti] = now + _REMEMBERED

    def _now(self) -> int:
        return self.clock.now_ms() // 1000


def check_age(iat: object, now: int, most: int, tolerance: int = 0) -> None:
    """Raise ValueError unless a proof is at most `most` seconds old."""
    if not isinstance(iat, int):
        raise ValueError('missing required "iat" claim')
    if now - iat > most + tolerance:
        raise ValueError('"iat" claim timestamp check failed (too far in the past)')
    if now - iat < -tolerance:
        raise ValueError('"iat" claim timestamp check failed (it should be in the past)')


def verified(token: str, jwk: Mapping[str, Any] | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Verify a JWT with `jwk`, or with the key in its header; return (header, claims).

    Raises ValueError if it is invalid.
    """
    signed, _, signature = token.rpartition(".")
    header, claims, raw = _read(signed, signature)
    key = _public_key(jwk or header.get("jwk"))
    if header.get("alg") != "ES256" or len(raw) != 64:
        raise ValueError("signature verification failed")
    both = encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
    try:
        key.verify(both, signed.encode(), ec.ECDSA(SHA256()))
    except InvalidSignature as error:
        raise ValueError("signature verification failed") from error
    return header, claims


def _read(signed: str, signature: str) -> tuple[dict[str, Any], dict[str, Any], bytes]:
    try:
        header, claims = (decoded(part) for part in signed.split("."))
        raw = unb64(signature)
    except ValueError as error:
        raise ValueError("Invalid Compact JWS") from error
    if not isinstance(header, dict) or not isinstance(claims, dict):
        raise ValueError("Invalid Compact JWS")
    return header, claims, raw


def _public_key(jwk: object) -> ec.EllipticCurvePublicKey:
    named = '"jwk" (JSON Web Key) Header Parameter must be a'
    if not isinstance(jwk, Mapping):
        raise ValueError(f"{named} JSON object")
    if "d" in jwk:
        raise ValueError(f"{named} public key")
    numbers = [jwk.get(name) for name in ("x", "y")]
    if (jwk.get("kty"), jwk.get("crv")) != ("EC", "P-256") or not all(isinstance(number, str) for number in numbers):
        raise ValueError("Unsupported key")
    x, y = (int.from_bytes(unb64(str(number)), "big") for number in numbers)
    return ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key()


def thumbprint(jwk: Mapping[str, Any]) -> str:
    """Compute the key's thumbprint (RFC 7638)."""
    named = {name: jwk[name] for name in ("crv", "kty", "x", "y")}
    return b64(hashlib.sha256(json.dumps(named, separators=(",", ":")).encode()).digest())
