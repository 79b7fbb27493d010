"""In-memory network for Bluesky OAuth: an account, its PDS and authorization server.

It is a transport without sockets. It checks every signature, nonce and binding, with the error messages of the
reference server (recorded from PDS 0.5.35).
"""

from __future__ import annotations

import base64
import hashlib
import json as json_module
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

from socialpub.base.http import CALL_SECONDS, UpstreamResponse
from tests.support.platforms.bluesky_calls import CID, DID, PDS, PLC, PUBLIC
from tests.support.platforms.scripted_upstream import NOW, FakeTransport, make_response

HANDLE = "alice.example.com"
ISSUER = "https://auth.example.net"
SCOPE = "atproto transition:generic"


def metadata() -> dict[str, Any]:
    return {
        "issuer": ISSUER,
        "scopes_supported": ["atproto", "transition:email", "transition:generic"],
        "response_types_supported": ["code"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "code_challenge_methods_supported": ["S256"],
        "dpop_signing_alg_values_supported": ["RS256", "ES256"],
        "authorization_response_iss_parameter_supported": True,
        "require_pushed_authorization_requests": True,
        "client_id_metadata_document_supported": True,
        "authorization_endpoint": f"{ISSUER}/oauth/authorize",
        "token_endpoint": f"{ISSUER}/oauth/token",
        "revocation_endpoint": f"{ISSUER}/oauth/revoke",
        "pushed_authorization_request_endpoint": f"{ISSUER}/oauth/par",
    }


class OAuthRefusal(Exception):
    """What a server refuses: its status, the error's name and words."""

    def __init__(self, status: int, name: str, said: str = "") -> None:
        super().__init__(name)
        self.reply = make_response(status, {"error": name, "error_description": said, "message": said})


def check(holds: bool, status: int, name: str, said: str) -> None:
    if not holds:
        raise OAuthRefusal(status, name, said)


def read_jwt(token: str, jwk: Mapping[str, str] | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
    """(header, claims) of a JWT whose ES256 signature holds: by `jwk`, or by the key in its own header."""
    head, body, signature = token.split(".")
    header, claims = json_module.loads(unb64(head)), json_module.loads(unb64(body))
    key, raw = jwk or header["jwk"], unb64(signature)
    assert "d" not in key, "the secret half of a key was sent"
    assert header["alg"] == "ES256"
    x, y = (int.from_bytes(unb64(key[name]), "big") for name in ("x", "y"))
    both = encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
    ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key().verify(
        both, f"{head}.{body}".encode(), ec.ECDSA(SHA256())
    )
    return header, claims


def unb64(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def s256(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


@dataclass
class BlueskyNetwork(FakeTransport):
    """The servers. `jwks`: where the client publishes its keys (None: a public client); `calls`: (method, URL)."""

    now_ms: Callable[[], int] = lambda: NOW
    jwks: Callable[[], Mapping[str, Any]] | None = None
    told: dict[str, Any] = field(default_factory=metadata)
    servers: list[Any] = field(default_factory=lambda: [ISSUER])
    sub: str = DID
    granted: str = SCOPE
    faults: dict[str, UpstreamResponse | Exception] = field(default_factory=dict)  # by URL: instead of the answer, once
    calls: list[tuple[str, str]] = field(default_factory=list)
    records: list[Any] = field(default_factory=list)
    nonces: dict[str, str] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    pushed: dict[str, dict[str, str]] = field(default_factory=dict)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    sessions: dict[str, dict[str, Any]] = field(default_factory=dict)  # by refresh token
    spent: set[str] = field(default_factory=set)
    count: int = 0

    def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
        json: Any = None,
        data: Mapping[str, str] | None = None,
        content: bytes | Iterable[bytes] | None = None,
        timeout: float = CALL_SECONDS,
    ) -> UpstreamResponse:
        self.calls.append((method, url))
        host = "{0.scheme}://{0.netloc}".format(urlsplit(url))
        body = json if content is None else content if isinstance(content, bytes) else b"".join(content)
        try:
            reply = self._answer(method, url, host, dict(headers or {}), dict(data or {}), body)
        except OAuthRefusal as refusal:
            reply = refusal.reply
        fault = self.faults.pop(url, None) if reply.record().get("error") != "use_dpop_nonce" else None
        if isinstance(fault, Exception):
            raise fault
        reply = fault or reply
        return UpstreamResponse(
            reply.status_code, {**reply.headers, "dpop-nonce": self.nonces.get(host, "nonce-0")}, reply.content
        )

    def new(self, what: str) -> str:
        self.count += 1
        return f"{what}-{self.count:032d}"

    def visit(self, url: str) -> dict[str, str]:
        """What the browser comes back with when the account's owner agrees."""
        asked = dict(parse_qsl(urlsplit(url).query))
        assert set(asked) == {"client_id", "request_uri"}
        form = self.pushed.pop(asked["request_uri"])
        assert form["client_id"] == asked["client_id"]
        code = self.new("code")
        self.codes[code] = form
        return {"state": form["state"], "code": code, "iss": ISSUER}

    # --- The servers ---

    def _answer(
        self, method: str, url: str, host: str, headers: dict[str, str], form: dict[str, str], body: Any
    ) -> UpstreamResponse:
        if method == "POST":
            jkt = self._proven(method, url, host, headers)
            if host == ISSUER:
                return make_response(*self._authorization(url.removeprefix(f"{ISSUER}/oauth/"), form, jkt))
            access = headers["Authorization"].removeprefix("DPoP ")
            held = [one for one in self.sessions.values() if one["access"] == access]
            check(bool(held) and held[0]["jkt"] == jkt, 401, "invalid_token", "Invalid DPoP key binding")
            self.records.append(body)
            if isinstance(body, bytes):
                return make_response(200, {"blob": {"ref": {"$link": CID}, "mimeType": "video/mp4", "size": len(body)}})
            uri = f"at://{body['repo']}/{body['collection']}/{body['rkey']}"
            return make_response(200, {"uri": uri, "cid": CID})
        known = {
            f"{PUBLIC}/xrpc/com.atproto.identity.resolveHandle": {"did": DID},
            f"{PLC}/{DID}": {
                "id": DID,
                "alsoKnownAs": [f"at://{HANDLE}"],
                "service": [{"id": "#atproto_pds", "type": "AtprotoPersonalDataServer", "serviceEndpoint": PDS}],
            },
            f"{PDS}/.well-known/oauth-protected-resource": {"resource": PDS, "authorization_servers": self.servers},
            f"{ISSUER}/.well-known/oauth-authorization-server": self.told,
            f"{PUBLIC}/xrpc/app.bsky.actor.getProfile": {"displayName": "Alice A."},
        }
        return make_response(200, known[url])

    def _proven(self, method: str, url: str, host: str, headers: dict[str, str]) -> str:
        """The thumbprint of the key that the call proves."""
        status = 400 if host == ISSUER else 401
        header, claims = read_jwt(headers["DPoP"])
        assert header["typ"] == "dpop+jwt"
        assert (claims["htm"], claims["htu"]) == (method, url)
        assert claims["jti"] not in self.seen
        self.seen.add(claims["jti"])
        check(abs(claims["iat"] * 1000 - self.now_ms()) <= 10_000, status, "invalid_dpop_proof", "DPoP proof too old")
        nonce = self.nonces.setdefault(host, f"nonce of {host}")
        check(claims.get("nonce") == nonce, status, "use_dpop_nonce", "Server requires nonce in DPoP proof")
        bearer = headers.get("Authorization", "")
        assert claims.get("ath") == (s256(bearer.removeprefix("DPoP ")) if bearer else None)
        jwk = header["jwk"]
        return s256(json_module.dumps({name: jwk[name] for name in sorted(jwk)}, separators=(",", ":")))

    def _authorization(self, path: str, form: dict[str, str], jkt: str) -> tuple[int, Any]:
        self._authenticate(form)
        if path == "par":
            assert form["response_type"] == "code"
            assert form["code_challenge_method"] == "S256"
            check("atproto" in form["scope"].split(), 400, "invalid_scope", 'The "atproto" scope is required')
            request_uri = self.new("urn:ietf:params:oauth:request_uri:req")
            self.pushed[request_uri] = {**form, "jkt": jkt}
            return 201, {"request_uri": request_uri, "expires_in": 299}
        if path == "revoke":
            self.sessions.pop(form["token"], None)
            return 200, {}
        assert path == "token"
        return 200, self._by_code(form, jkt) if form["grant_type"] == "authorization_code" else self._renewed(form, jkt)

    def _authenticate(self, form: dict[str, str]) -> None:
        if self.jwks is None:
            assert "client_assertion" not in form
            return
        assert form["client_assertion_type"] == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
        (jwk,) = self.jwks()["keys"]
        try:
            header, claims = read_jwt(form["client_assertion"], jwk)
        except InvalidSignature:
            raise OAuthRefusal(401, "invalid_client", "Invalid client assertion") from None
        assert header["kid"] == jwk["kid"]
        assert claims["iss"] == claims["sub"] == form["client_id"]
        assert claims["aud"] == ISSUER
        assert claims["jti"] not in self.seen
        self.seen.add(claims["jti"])
        assert 0 < claims["exp"] - self.now_ms() // 1000 <= 60

    def _by_code(self, form: dict[str, str], jkt: str) -> dict[str, Any]:
        asked = self.codes.pop(form["code"], None)
        if asked is None:
            raise OAuthRefusal(400, "invalid_grant", "Invalid code")
        check(s256(form["code_verifier"]) == asked["code_challenge"], 400, "invalid_grant", "Invalid code_verifier")
        check(form["redirect_uri"] == asked["redirect_uri"], 400, "invalid_grant", "redirect_uri mismatch")
        check(asked["jkt"] == jkt, 400, "invalid_dpop_key_binding", "Invalid DPoP key binding")
        return self._session(jkt)

    def _renewed(self, form: dict[str, str], jkt: str) -> dict[str, Any]:
        if form["refresh_token"] in self.spent:
            self.sessions.clear()
            raise OAuthRefusal(400, "invalid_grant", "Refresh token replayed")
        held = self.sessions.pop(form["refresh_token"], None)
        if held is None or held["jkt"] != jkt:
            raise OAuthRefusal(400, "invalid_grant", "Invalid refresh token")
        self.spent.add(form["refresh_token"])
        return self._session(jkt)

    def _session(self, jkt: str) -> dict[str, Any]:
        access, renew = self.new("access"), self.new("refresh")
        self.sessions[renew] = {"access": access, "jkt": jkt}
        return {
            "access_token": access,
            "token_type": "DPoP",
            "refresh_token": renew,
            "scope": self.granted,
            "expires_in": 3599,
            "sub": self.sub,
        }
