"""Bluesky OAuth cases run against both the fake and a real authorization server, by name."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx

from socialpub.base.security.crypto import encode_base64url, hash_base64url
from socialpub.platforms.bluesky.dpop import public_jwk, sign_jwt
from tests.support.bluesky_oauth_client import CALLBACK, KEY, LOOPBACK, OTHER_KEY, OAuthClient
from tests.support.oauth_client_site import HOME, ORIGIN, SIGNER, ClientSite, client_document, sign_next_call


@dataclass
class OAuthServerSide:
    """One of the two servers, with an account. `consent`: what its owner does with a request."""

    origin: str
    did: str
    consent: Callable[[str, str], dict[str, str]]
    stands_at: Callable[[str, str], None]  # an origin, and where it is to find that

    def client(self, http: httpx.Client) -> OAuthClient:
        return OAuthClient(http, lambda: time.time_ns() // 1_000_000, owner=self.consent)


# --- What is asked of both -------------------------------------------------------------------------------------------

OAuthCase = Callable[[OAuthClient, OAuthServerSide], httpx.Response]
ConfidentialCase = Callable[[OAuthClient, ClientSite], httpx.Response]


def proof(**changes: Any) -> OAuthCase:
    """A request whose proof says something else."""

    def ask(client: OAuthClient, side: OAuthServerSide) -> httpx.Response:
        client.learn()
        said = {name: value(client) if callable(value) else value for name, value in changes.items()}
        return client.push(client.proof("POST", "/oauth/par", **said))

    return ask


def forged(make: Callable[[OAuthClient, str], str]) -> OAuthCase:
    def ask(client: OAuthClient, side: OAuthServerSide) -> httpx.Response:
        client.learn()
        return client.push(make(client, client.proof("POST", "/oauth/par")))

    return ask


def par(**changes: str | None) -> OAuthCase:
    def ask(client: OAuthClient, side: OAuthServerSide) -> httpx.Response:
        client.learn()
        return client.push(**changes)

    return ask


def named(client_id: str, **changes: str | None) -> OAuthCase:
    def ask(client: OAuthClient, side: OAuthServerSide) -> httpx.Response:
        client.learn()
        client.id = client_id
        return client.push(**changes)

    return ask


def code(**changes: str | None) -> OAuthCase:
    return lambda client, side: client.by_code(client.code(), **changes)


def seconds(off: int) -> Callable[[OAuthClient], int]:
    return lambda client: client.now_ms() // 1000 + off


def header(client: OAuthClient, whole: str, **changes: Any) -> str:
    """The same claims under another header, signed well."""
    claims = {"jti": "h", "htm": "POST", "htu": f"{client.origin}/oauth/par", "iat": client.now_ms() // 1000}
    said = {"typ": "dpop+jwt", "jwk": public_jwk(KEY)} | changes
    return sign_jwt(KEY, {name: value for name, value in said.items() if value is not None}, claims)


def twice(client: OAuthClient, side: OAuthServerSide) -> httpx.Response:
    client.learn()
    same = client.proof("POST", "/oauth/par")
    client.push(same)
    return client.push(same)


def by_another_key(client: OAuthClient, side: OAuthServerSide) -> httpx.Response:
    return client.by_code(client.code(), client.proof("POST", "/oauth/token", key=OTHER_KEY))


def refreshed_by_another_key(client: OAuthClient, side: OAuthServerSide) -> httpx.Response:
    refresh = client.session()["refresh_token"]
    return client.refresh(refresh, client.proof("POST", "/oauth/token", key=OTHER_KEY))


def refreshed_after_another_key(client: OAuthClient, side: OAuthServerSide) -> httpx.Response:
    refresh = client.session()["refresh_token"]
    client.refresh(refresh, client.proof("POST", "/oauth/token", key=OTHER_KEY))
    return client.refresh(refresh)


def revoked_by_another_key(client: OAuthClient, side: OAuthServerSide) -> httpx.Response:
    tokens = client.session()
    client.post(
        "/oauth/revoke", {"token": tokens["refresh_token"]}, client.proof("POST", "/oauth/revoke", key=OTHER_KEY)
    )
    return client.write(tokens["access_token"], side.did)


def after_revoking(name: str) -> OAuthCase:
    def ask(client: OAuthClient, side: OAuthServerSide) -> httpx.Response:
        tokens = client.session()
        client.post("/oauth/revoke", {"token": tokens[name]})
        return client.write(tokens["access_token"], side.did)

    return ask


def written(**changes: Any) -> OAuthCase:
    """A post whose proof is by another key, or says something else."""

    def ask(client: OAuthClient, side: OAuthServerSide) -> httpx.Response:
        access = client.session()["access_token"]
        path = "/xrpc/com.atproto.repo.createRecord"
        return client.write(access, side.did, client.proof("POST", path, access, **changes))

    return ask


def elsewhere(client: OAuthClient, side: OAuthServerSide) -> httpx.Response:
    return client.write(client.session()["access_token"], "did:plc:aaaaaaaaaaaaaaaaaaaaaaaa")


def with_the_least(client: OAuthClient, side: OAuthServerSide) -> httpx.Response:
    client.granted = "atproto"
    return client.write(client.session()["access_token"], side.did)


def app_password(client: OAuthClient, side: OAuthServerSide) -> httpx.Response:
    access, path = client.session()["access_token"], "/xrpc/com.atproto.server.createAppPassword"
    sent = {"Authorization": f"DPoP {access}", "DPoP": client.proof("POST", path, access)}
    return client.http.post(path, json={"name": "x"}, headers=sent)


def refresh_session(client: OAuthClient, side: OAuthServerSide) -> httpx.Response:
    access, path = client.session()["access_token"], "/xrpc/com.atproto.server.refreshSession"
    return client.http.post(
        path, headers={"Authorization": f"DPoP {access}", "DPoP": client.proof("POST", path, access)}
    )


def bound_late(client: OAuthClient, side: OAuthServerSide) -> httpx.Response:
    """Pushed without a proof: the first one binds."""
    client.learn()
    tokens = client.by_code(client.consent(client.push("").json()["request_uri"])["code"]).json()
    return client.refresh(tokens["refresh_token"], client.proof("POST", "/oauth/token", key=OTHER_KEY))


ASKED: dict[str, OAuthCase] = {
    "another method": proof(htm="GET"),
    "another address": proof(htu="http://127.0.0.1/oauth/par"),
    "no address": proof(htu=None),
    "an address with a query": proof(htu=lambda client: f"{client.origin}/oauth/par?x=1"),
    "no jti": proof(jti=None),
    "an old proof": proof(iat=seconds(-230)),
    "a proof of tomorrow": proof(iat=seconds(230)),
    "a proof without a time": proof(iat=None),
    "a slow clock": proof(iat=seconds(-150)),
    "a fast clock": proof(iat=seconds(150)),
    "a token where there is none": proof(ath=hash_base64url("t")),
    "a made-up nonce": proof(nonce="made-up"),
    "no nonce": proof(nonce=None),
    "a proof twice": twice,
    "no JWT": forged(lambda client, whole: "garbage"),
    "no signature": forged(lambda client, whole: whole.rpartition(".")[0] + "."),
    "another body": forged(
        lambda client, whole: ".".join([whole.split(".")[0], encode_base64url(b'{"iat":1}'), whole.split(".")[2]])
    ),
    "another type": forged(lambda client, whole: header(client, whole, typ="JWT")),
    "no type": forged(lambda client, whole: header(client, whole, typ=None)),
    "no key": forged(lambda client, whole: header(client, whole, jwk=None)),
    "a secret key": forged(lambda client, whole: header(client, whole, jwk=public_jwk(KEY) | {"d": KEY})),
    "another response type": par(response_type="token"),
    "a plain challenge": par(code_challenge_method="plain"),
    "a scope that was not declared": par(scope="atproto transition:chat.bsky"),
    "no scope": par(scope=None),
    "a name that is none": par(login_hint="alice"),
    "no redirect": par(redirect_uri=None),
    "another port": par(redirect_uri="http://127.0.0.1:8123/connect"),
    "no client": par(client_id=None),
    "a client of no kind": named("simulator-app"),
    "a client with a port": named("http://localhost:8080?redirect_uri=http%3A%2F%2F127.0.0.1%2F"),
    "a client that returns to a name": named("http://localhost?redirect_uri=http%3A%2F%2Flocalhost%2Fcallback"),
    "a client without the least": named("http://localhost?scope=transition%3Ageneric"),
    "a client with more to say": named("http://localhost?name=x"),
    "a client without wishes": named("http://localhost", redirect_uri="http://127.0.0.1/", scope="atproto"),
    "a client without encryption": named("http://post.socialpub.page/oauth/client-metadata.json"),
    "another verifier": code(code_verifier="w" * 43),
    "a short verifier": code(code_verifier="short"),
    "no verifier": code(code_verifier=None),
    "a made-up code": code(code="cod-" + "0" * 64),
    "another redirect": code(redirect_uri=CALLBACK + "/other"),
    "another grant": code(grant_type="password"),
    "no proof for a code": lambda client, side: client.by_code(client.code(), ""),
    "a code by another key": by_another_key,
    "a refresh by another key": refreshed_by_another_key,
    "a refresh after another key": refreshed_after_another_key,
    "bound late": bound_late,
    "revoked by another key": revoked_by_another_key,
    "the refresh token revoked": after_revoking("refresh_token"),
    "the access token revoked": after_revoking("access_token"),
    "written by another key": written(key=OTHER_KEY),
    "written with the proof of another token": written(ath=hash_base64url("other")),
    "written with the proof of no token": written(ath=None),
    "written to another account": elsewhere,
    "written with the least": with_the_least,
    "an app password by OAuth": app_password,
    "another kind of refresh": refresh_session,
}


# --- Of a confidential client ----------------------------------------------------------------------------------------

_numbers = itertools.count(1)  # documents are kept for ten minutes, so each case has an address of its own


def confidential(client: OAuthClient, web: ClientSite, changes: dict[str, Any] | None = None) -> None:
    """From here on the client is one that says this of itself, and vouches for itself well."""
    path = f"/oauth/{next(_numbers)}.json"
    client.id, client.callback = ORIGIN + path, HOME
    web.documents[path] = client_document(**{"client_id": client.id} | (changes or {}))
    sign_next_call(client)
    client.learn()
    sign_next_call(client)


def vouched(key: str = SIGNER, header: dict[str, Any] | None = None, **changes: Any) -> ConfidentialCase:
    def ask(client: OAuthClient, web: ClientSite) -> httpx.Response:
        confidential(client, web)
        said = {name: value(client) if callable(value) else value for name, value in changes.items()}
        sign_next_call(client, key, header, **said)
        return client.push()

    return ask


def saying(**changes: Any) -> ConfidentialCase:
    def ask(client: OAuthClient, web: ClientSite) -> httpx.Response:
        confidential(client, web, changes)
        return client.push()

    return ask


def vouched_twice(client: OAuthClient, web: ClientSite) -> httpx.Response:
    confidential(client, web)
    client.push()
    return client.push()


def unvouched(client: OAuthClient, web: ClientSite) -> httpx.Response:
    confidential(client, web)
    client.assertion = {}
    return client.push()


def vouched_with_the_same_key(client: OAuthClient, web: ClientSite) -> httpx.Response:
    confidential(client, web)
    client.key = SIGNER
    return client.push()


def connected(client: OAuthClient, web: ClientSite) -> httpx.Response:
    confidential(client, web)
    code = client.consent(client.push().json()["request_uri"])["code"]
    sign_next_call(client)
    return client.by_code(code)


def another_client_refreshes(client: OAuthClient, web: ClientSite) -> httpx.Response:
    tokens = connected(client, web).json()
    confidential(client, web)
    return client.refresh(tokens["refresh_token"])


def keys_elsewhere(client: OAuthClient, web: ClientSite) -> httpx.Response:
    path = f"/keys/{next(_numbers)}.json"
    web.documents[path] = client_document()["jwks"]
    confidential(client, web, {"jwks": None, "jwks_uri": ORIGIN + path})
    return client.push()


CONFIDENTIAL: dict[str, ConfidentialCase] = {
    "vouched for": vouched(),
    "by another key": vouched(OTHER_KEY),
    "without the key's name": vouched(SIGNER, {}),
    "under another key's name": vouched(SIGNER, {"kid": "another"}),
    "for another server": vouched(aud="https://bsky.social"),
    "by another issuer": vouched(iss=LOOPBACK),
    "about another client": vouched(sub=LOOPBACK),
    "about nobody": vouched(sub=None),
    "without a number": vouched(jti=None),
    "an hour ago": vouched(iat=seconds(-3600)),
    "tomorrow": vouched(iat=seconds(3600)),
    "whenever": vouched(iat=None),
    "expired": vouched(exp=seconds(-1)),
    "without an end": vouched(exp=None),
    "vouched for twice": vouched_twice,
    "not vouched for": unvouched,
    "with the key of the proofs": vouched_with_the_same_key,
    "connected": connected,
    "refreshed by another client": another_client_refreshes,
    "with keys elsewhere": keys_elsewhere,
    "with keys nowhere": saying(jwks=None, jwks_uri=f"{ORIGIN}/nothing.json"),
    "under another name": saying(client_id=f"{ORIGIN}/other.json"),
    "without a name": saying(client_id=None),
    "without the least": saying(scope="transition:generic"),
    "without scopes": saying(scope=None),
    "with a shared secret": saying(token_endpoint_auth_method="client_secret_basic"),
    "without a method": saying(token_endpoint_auth_method=None),
    "without keys": saying(jwks=None),
    "with no keys": saying(jwks={"keys": []}),
    "without an algorithm": saying(token_endpoint_auth_signing_alg=None),
    "not bound": saying(dpop_bound_access_tokens=False),
    "perhaps bound": saying(dpop_bound_access_tokens=None),
    "without codes": saying(response_types=["token"]),
    "without the grant of codes": saying(grant_types=["refresh_token"]),
    "that returns in the open": saying(redirect_uris=["http://post.socialpub.page/callback"]),
    "that returns nowhere": saying(redirect_uris=[]),
    "that belongs elsewhere": saying(client_uri="https://other.socialpub.page"),
}
