"""Confidential Bluesky OAuth client: its metadata documents on a server, and its key."""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from socialpub.base.security.crypto import encode_base64url
from socialpub.platforms.bluesky.dpop import public_jwk, sign_jwt, thumbprint
from tests.support.bluesky_oauth_client import SCOPE, OAuthClient

SIGNER = encode_base64url(b"\x03" * 32)
ORIGIN = "https://post.socialpub.page"  # nowhere; names of examples are refused by the real server
PATH = "/oauth/client-metadata.json"
CLIENT_ID = ORIGIN + PATH
HOME = f"{ORIGIN}/connect/bluesky/callback"
JWT_BEARER = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_numbers = itertools.count(1)


def client_document(**changes: Any) -> dict[str, Any]:
    """What the client says of itself; `changes` are said instead (None: left out)."""
    told = {
        "client_id": CLIENT_ID,
        "client_uri": ORIGIN,
        "application_type": "web",
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "redirect_uris": [HOME],
        "scope": SCOPE,
        "dpop_bound_access_tokens": True,
        "token_endpoint_auth_method": "private_key_jwt",
        "token_endpoint_auth_signing_alg": "ES256",
        "jwks": {"keys": [public_jwk(SIGNER) | {"kid": thumbprint(SIGNER)}]},
    }
    return {name: value for name, value in (told | changes).items() if value is not None}


@dataclass
class ClientSite:
    """The client's own server: its documents by path, and what was read of them."""

    documents: dict[str, Any]
    read: list[str]
    url: str = ""


@contextlib.contextmanager
def running_site() -> Iterator[ClientSite]:
    web = ClientSite({PATH: client_document()}, [])

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            web.read.append(self.path)
            found = web.documents.get(self.path)
            self.send_response(404 if found is None else 200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(found).encode())

        def log_message(self, *_: Any) -> None:
            return None

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        web.url = f"http://127.0.0.1:{server.server_address[1]}"
        yield web
        server.shutdown()
        thread.join()


def sign_next_call(
    client: OAuthClient, key: str = SIGNER, header: dict[str, Any] | None = None, **changes: Any
) -> None:
    """Sign for the client's next call."""
    now = client.now_ms() // 1000
    claims = {"iss": client.id, "sub": client.id, "aud": client.origin, "jti": f"a-{next(_numbers)}", "iat": now}
    claims = {name: value for name, value in (claims | {"exp": now + 60} | changes).items() if value is not None}
    signature = sign_jwt(key, {"kid": thumbprint(SIGNER)} if header is None else header, claims)
    client.assertion = {"client_assertion_type": JWT_BEARER, "client_assertion": signature}
