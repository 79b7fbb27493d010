"""The fake Bluesky's OAuth beside a real server, asked the same: what is refused, and in which words."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from socialpub.platforms.bluesky_dpop import b64, digest, public_jwk, signed
from socialpub.simulator.bluesky import Bluesky
from socialpub.simulator.server import SimulatorThread
from tests.web.pds_kit import Owner, start

from .oauth_client import CALLBACK, KEY, OTHER_KEY, SCOPE, Client

pytestmark = [pytest.mark.upstream, pytest.mark.slow]


@dataclass
class Side:
    """One of the two servers, with an account. `consent`: what its owner does with a request."""

    origin: str
    did: str
    consent: Callable[[str, str], dict[str, str]]

    def client(self, http: httpx.Client) -> Client:
        consent = self.consent

        class Asking(Client):
            scope = SCOPE

            def consent(self, request_uri: str) -> dict[str, str]:
                return consent(self.page(request_uri), self.scope)

        return Asking(http, lambda: time.time_ns() // 1_000_000)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    running = start(tmp_path_factory.mktemp("pds"))
    pds = next(running)

    def consent(page: str, scope: str) -> dict[str, str]:
        with Owner(pds) as owner:
            return owner.decide(pds.url + page, scope=scope)

    yield Side(pds.url, pds.did, consent)
    running.close()


@pytest.fixture(scope="module")
def fake() -> Iterator[Side]:
    with SimulatorThread() as simulator:
        made = simulator.lab.add_account("bluesky", handle="alice.test")
        server = simulator.lab.fakes["bluesky"]
        assert isinstance(server, Bluesky)
        origin = simulator.origin("bluesky")

        def consent(page: str, scope: str) -> dict[str, str]:
            server.oauth.consent.without = frozenset(SCOPE.split()) - frozenset(scope.split())
            with httpx.Client(base_url=origin, trust_env=False) as http:
                location = http.get(page).headers["location"]
            return dict(httpx.URL(location).params)

        yield Side(origin, made["did"], consent)


# --- What is asked of both -------------------------------------------------------------------------------------------

Ask = Callable[[Client, Side], httpx.Response]


def proof(**changes: Any) -> Ask:
    """A request whose proof says something else."""

    def ask(client: Client, side: Side) -> httpx.Response:
        client.learn()
        said = {name: value(client) if callable(value) else value for name, value in changes.items()}
        return client.push(client.proof("POST", "/oauth/par", **said))

    return ask


def forged(make: Callable[[Client, str], str]) -> Ask:
    def ask(client: Client, side: Side) -> httpx.Response:
        client.learn()
        return client.push(make(client, client.proof("POST", "/oauth/par")))

    return ask


def par(**changes: str | None) -> Ask:
    def ask(client: Client, side: Side) -> httpx.Response:
        client.learn()
        return client.push(**changes)

    return ask


def named(client_id: str, **changes: str | None) -> Ask:
    def ask(client: Client, side: Side) -> httpx.Response:
        client.learn()
        client.id = client_id
        return client.push(**changes)

    return ask


def code(**changes: str | None) -> Ask:
    return lambda client, side: client.by_code(client.code(), **changes)


def seconds(off: int) -> Callable[[Client], int]:
    return lambda client: client.now_ms() // 1000 + off


def header(client: Client, whole: str, **changes: Any) -> str:
    """The same claims under another header, signed well."""
    claims = {"jti": "h", "htm": "POST", "htu": f"{client.origin}/oauth/par", "iat": client.now_ms() // 1000}
    said = {"typ": "dpop+jwt", "jwk": public_jwk(KEY)} | changes
    return signed(KEY, {name: value for name, value in said.items() if value is not None}, claims)


def twice(client: Client, side: Side) -> httpx.Response:
    client.learn()
    same = client.proof("POST", "/oauth/par")
    client.push(same)
    return client.push(same)


def by_another_key(client: Client, side: Side) -> httpx.Response:
    return client.by_code(client.code(), client.proof("POST", "/oauth/token", key=OTHER_KEY))


def refreshed_by_another_key(client: Client, side: Side) -> httpx.Response:
    refresh = client.session()["refresh_token"]
    return client.refresh(refresh, client.proof("POST", "/oauth/token", key=OTHER_KEY))


def refreshed_after_another_key(client: Client, side: Side) -> httpx.Response:
    refresh = client.session()["refresh_token"]
    client.refresh(refresh, client.proof("POST", "/oauth/token", key=OTHER_KEY))
    return client.refresh(refresh)


def revoked_by_another_key(client: Client, side: Side) -> httpx.Response:
    tokens = client.session()
    client.post(
        "/oauth/revoke", {"token": tokens["refresh_token"]}, client.proof("POST", "/oauth/revoke", key=OTHER_KEY)
    )
    return client.write(tokens["access_token"], side.did)


def after_revoking(name: str) -> Ask:
    def ask(client: Client, side: Side) -> httpx.Response:
        tokens = client.session()
        client.post("/oauth/revoke", {"token": tokens[name]})
        return client.write(tokens["access_token"], side.did)

    return ask


def written(**changes: Any) -> Ask:
    """A post whose proof is by another key, or says something else."""

    def ask(client: Client, side: Side) -> httpx.Response:
        access = client.session()["access_token"]
        path = "/xrpc/com.atproto.repo.createRecord"
        return client.write(access, side.did, client.proof("POST", path, access, **changes))

    return ask


def elsewhere(client: Client, side: Side) -> httpx.Response:
    return client.write(client.session()["access_token"], "did:plc:aaaaaaaaaaaaaaaaaaaaaaaa")


def with_the_least(client: Client, side: Side) -> httpx.Response:
    client.scope = "atproto"  # type: ignore[attr-defined]
    return client.write(client.session()["access_token"], side.did)


def app_password(client: Client, side: Side) -> httpx.Response:
    access, path = client.session()["access_token"], "/xrpc/com.atproto.server.createAppPassword"
    sent = {"Authorization": f"DPoP {access}", "DPoP": client.proof("POST", path, access)}
    return client.http.post(path, json={"name": "x"}, headers=sent)


def refresh_session(client: Client, side: Side) -> httpx.Response:
    access, path = client.session()["access_token"], "/xrpc/com.atproto.server.refreshSession"
    return client.http.post(
        path, headers={"Authorization": f"DPoP {access}", "DPoP": client.proof("POST", path, access)}
    )


def bound_late(client: Client, side: Side) -> httpx.Response:
    """Pushed without a proof: the first one binds."""
    client.learn()
    tokens = client.by_code(client.consent(client.push("").json()["request_uri"])["code"]).json()
    return client.refresh(tokens["refresh_token"], client.proof("POST", "/oauth/token", key=OTHER_KEY))


ASKED: dict[str, Ask] = {
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
    "a token where there is none": proof(ath=digest("t")),
    "a made-up nonce": proof(nonce="made-up"),
    "no nonce": proof(nonce=None),
    "a proof twice": twice,
    "no JWT": forged(lambda client, whole: "garbage"),
    "no signature": forged(lambda client, whole: whole.rpartition(".")[0] + "."),
    "another body": forged(
        lambda client, whole: ".".join([whole.split(".")[0], b64(b'{"iat":1}'), whole.split(".")[2]])
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
    "written with the proof of another token": written(ath=digest("other")),
    "written with the proof of no token": written(ath=None),
    "written to another account": elsewhere,
    "written with the least": with_the_least,
    "an app password by OAuth": app_password,
    "another kind of refresh": refresh_session,
}


WORDS_OF_A_VALIDATOR = {"no client", "a short verifier", "another grant"}  # of forms: the fake says only which form


def told(answer: httpx.Response) -> dict[str, Any]:
    """What an answer says, without what differs from run to run."""
    text = re.sub(r"http://(localhost|127\.0\.0\.1):\d+", "ORIGIN", answer.text)
    body = json.loads(text) if text else None
    said = {"status": answer.status_code, "body": body if answer.is_error else sorted(body or {})}
    names = ("www-authenticate", "cache-control")
    return said | {name: answer.headers[name] for name in names if name in answer.headers}


@pytest.mark.parametrize("case", list(ASKED))
def test_the_fake_answers_as_the_real_server_does(real: Side, fake: Side, case: str) -> None:
    answers = []
    for side in (real, fake):
        with httpx.Client(base_url=side.origin, trust_env=False, timeout=20) as http:
            answers.append(told(ASKED[case](side.client(http), side)))
    if case in WORDS_OF_A_VALIDATOR:
        whole = answers[0]["body"]["error_description"]
        answers[0]["body"]["error_description"] = whole.partition(":")[0]
    assert answers[1] == answers[0]
