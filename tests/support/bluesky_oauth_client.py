"""OAuth client for the fake Bluesky that can also send malformed requests."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx

from socialpub.base.security.crypto import encode_base64url, hash_base64url
from socialpub.platforms.bluesky.dpop import public_jwk, sign_jwt

SCOPE = "atproto transition:generic"
CALLBACK = "http://127.0.0.1/callback"
LOOPBACK = "http://localhost?" + urlencode({"redirect_uri": CALLBACK, "scope": SCOPE})
KEY, OTHER_KEY = encode_base64url(b"\x01" * 32), encode_base64url(b"\x02" * 32)
_numbers = itertools.count(1)  # what may be said once to a server is said once
RECORD = "/xrpc/com.atproto.repo.createRecord"


@dataclass
class OAuthClient:
    """Calls with proofs by `key`. `nonce` is what the server gave last; "" sends none.

    `owner` decides about a page and a scope, where that takes more than to look; `granted` is what they are to allow.
    """

    http: httpx.Client
    now_ms: Callable[[], int]
    handle: str = "alice.test"
    id: str = LOOPBACK
    callback: str = CALLBACK
    key: str = KEY
    nonce: str = ""
    verifier: str = ""
    assertion: dict[str, str] = field(default_factory=dict)
    owner: Callable[[str, str], dict[str, str]] | None = None
    granted: str = SCOPE

    @property
    def origin(self) -> str:
        return str(self.http.base_url).rstrip("/")

    def proof(self, method: str, path: str, access: str = "", key: str = "", **changes: Any) -> str:
        """A proof for one call; `changes` are claims that it says instead (None: leaves out)."""
        claims: dict[str, Any] = {"jti": f"jti-{next(_numbers)}", "htm": method, "htu": self.origin + path}
        claims |= {"iat": self.now_ms() // 1000}
        claims |= {"nonce": self.nonce} if self.nonce else {}
        claims |= {"ath": hash_base64url(access)} if access else {}
        claims = {name: value for name, value in (claims | changes).items() if value is not None}
        key = key or self.key
        return sign_jwt(key, {"typ": "dpop+jwt", "jwk": public_jwk(key)}, claims)

    def post(self, path: str, form: dict[str, str | None], proof: str | None = None) -> httpx.Response:
        """A form of the client's, with a proof of its own unless another is given ("": none)."""
        proof = self.proof("POST", path) if proof is None else proof
        whole = {"client_id": self.id} | self.assertion | form
        sent = {name: value for name, value in whole.items() if value is not None}
        return self._kept(self.http.post(path, data=sent, headers={"DPoP": proof} if proof else {}))

    def _kept(self, answer: httpx.Response) -> httpx.Response:
        self.nonce = answer.headers.get("dpop-nonce", self.nonce)
        return answer

    def push(self, proof: str | None = None, **changes: str | None) -> httpx.Response:
        self.verifier = f"{next(_numbers):043d}"
        form: dict[str, str | None] = {
            "response_type": "code",
            "code_challenge": hash_base64url(self.verifier),
            "code_challenge_method": "S256",
            "state": "s" * 43,
            "redirect_uri": self.callback,
            "scope": SCOPE,
            "login_hint": self.handle,
        }
        return self.post("/oauth/par", form | changes, proof)

    def page(self, request_uri: str) -> str:
        return "/oauth/authorize?" + urlencode({"client_id": self.id, "request_uri": request_uri})

    def consent(self, request_uri: str) -> dict[str, str]:
        """What the browser comes back with."""
        if self.owner is not None:
            return self.owner(self.page(request_uri), self.granted)
        answer = self.http.get(self.page(request_uri))
        assert answer.status_code == 302, answer.text
        return dict(parse_qsl(urlsplit(answer.headers["location"]).query))

    def code(self) -> str:
        self.learn()
        return self.consent(self.push().json()["request_uri"])["code"]

    def learn(self) -> None:
        """Ask for the nonce."""
        if not self.nonce:
            self.push()

    def by_code(self, code: str, proof: str | None = None, /, **changes: str | None) -> httpx.Response:
        form: dict[str, str | None] = {"grant_type": "authorization_code", "code": code}
        form |= {"redirect_uri": self.callback, "code_verifier": self.verifier}
        return self.post("/oauth/token", form | changes, proof)

    def refresh(self, token: str, proof: str | None = None) -> httpx.Response:
        return self.post("/oauth/token", {"grant_type": "refresh_token", "refresh_token": token}, proof)

    def session(self) -> dict[str, Any]:
        """The tokens of a whole dance."""
        answer = self.by_code(self.code())
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def write(self, access: str, did: str, proof: str | None = None, scheme: str = "DPoP") -> httpx.Response:
        """A post, with a bound token."""
        record = {"$type": "app.bsky.feed.post", "text": "via oauth", "createdAt": "2026-11-20T08:33:42Z"}
        body = {"repo": did, "collection": "app.bsky.feed.post", "record": record}
        proof = self.proof("POST", RECORD, access) if proof is None else proof
        headers = {"Authorization": f"{scheme} {access}"} | ({"DPoP": proof} if proof else {})
        return self._kept(self.http.post(RECORD, json=body, headers=headers))


def error_of(answer: httpx.Response) -> tuple[int, str, str]:
    """(status, the error's name, its words)."""
    body = answer.json()
    return answer.status_code, body["error"], body.get("error_description") or body["message"]
