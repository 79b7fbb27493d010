"""The fake Bluesky's OAuth: whom it takes for a client, and by what a client is known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from socialpub.simulator.bluesky import Bluesky

from .client_web import CLIENT_ID, HOME, ORIGIN, PATH, SIGNER, Web, document, serving, vouch
from .conftest import NOON, Alice, SetClock
from .oauth_client import LOOPBACK, OTHER_KEY, Client, told


@pytest.mark.parametrize(
    "client_id",
    [
        "simulator-app",
        "http://localhost:8080?redirect_uri=http%3A%2F%2F127.0.0.1%2F",
        "http://localhost?redirect_uri=http%3A%2F%2Flocalhost%2Fcallback",
        "http://localhost?scope=transition%3Ageneric",
        "http://localhost?name=x",
        "http://post.example.com/oauth/client-metadata.json",
        "https://127.0.0.1/oauth/client-metadata.json",
        "https://post.example.com",
        "https://post.example.com/",
        "https://nobody.invalid/oauth/client-metadata.json",
    ],
)
def test_a_client_that_cannot_be_known_is_refused(client: Client, client_id: str) -> None:
    client.learn()
    client.id = client_id
    status, name, _ = told(client.push())
    assert (status, name) == (400, "invalid_client_metadata")


def test_a_client_on_loopback_may_return_to_any_port(client: Client) -> None:
    client.learn()
    assert client.push(redirect_uri="http://127.0.0.1:8123/callback").status_code == 201
    assert client.push(redirect_uri="http://127.0.0.1:8123/other").status_code == 400


def test_a_loopback_client_without_wishes_may_ask_for_the_least(client: Client) -> None:
    client.learn()
    client.id = "http://localhost"
    assert client.push(redirect_uri="http://127.0.0.1/", scope="atproto").status_code == 201
    assert told(client.push(redirect_uri="http://127.0.0.1/"))[1] == "invalid_scope"


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"scope": "atproto transition:chat.bsky"}, "invalid_scope"),
        ({"login_hint": "alice"}, "invalid_request"),
        ({"client_id": None}, "invalid_client"),
    ],
)
def test_a_request_that_breaks_a_rule_is_refused(client: Client, changes: dict[str, str | None], name: str) -> None:
    client.learn()
    assert told(client.push(**changes))[:2] == (400, name)


@pytest.fixture
def web(fake: Bluesky) -> Iterator[Web]:
    with serving() as web:
        fake.oauth.clients.stands_at[ORIGIN] = web.url
        yield web


@pytest.fixture
def known(client: Client, web: Web) -> Client:
    """A confidential client, whose assertions are good."""
    client.id, client.callback = CLIENT_ID, HOME
    vouch(client)
    client.learn()
    vouch(client)
    return client


def test_a_confidential_client_is_known_by_its_document_which_is_read_once_in_ten_minutes(
    known: Client, web: Web, clock: SetClock
) -> None:
    assert known.push().status_code == 201
    web.read.clear()
    clock.ms += 599_000
    known.nonce = ""
    known.learn()
    vouch(known)
    assert known.push().status_code == 201
    assert web.read == []
    clock.ms += 1_000
    vouch(known)
    assert known.push().status_code == 201
    assert web.read == [PATH]


def test_its_keys_may_stand_in_a_document_of_their_own(known: Client, web: Web, fake: Bluesky) -> None:
    keys = document()["jwks"]
    web.documents = {
        PATH: document(jwks=None, jwks_uri=f"{ORIGIN}/oauth/jwks.json"),
        "/oauth/jwks.json": keys,
    }
    fake.oauth.clients.clear()
    web.read.clear()
    assert known.push().status_code == 201
    assert web.read == [PATH, "/oauth/jwks.json"]


@pytest.mark.parametrize(
    "changes",
    [
        {"client_id": f"{ORIGIN}/other.json"},
        {"client_id": None},
        {"scope": "transition:generic"},
        {"scope": None},
        {"token_endpoint_auth_method": "client_secret_basic"},
        {"jwks": None},
        {"jwks": {"keys": []}},
        {"jwks": None, "jwks_uri": f"{ORIGIN}/nothing.json"},
        {"token_endpoint_auth_signing_alg": None},
        {"dpop_bound_access_tokens": False},
        {"dpop_bound_access_tokens": None},
        {"response_types": ["token"]},
        {"grant_types": ["refresh_token"]},
        {"redirect_uris": ["http://post.example.com/callback"]},
        {"redirect_uris": []},
        {"client_uri": "https://other.example.com"},
    ],
)
def test_a_document_that_breaks_a_rule_makes_no_client(
    known: Client, web: Web, fake: Bluesky, changes: dict[str, Any]
) -> None:
    web.documents[PATH] = document(**changes)
    fake.oauth.clients.clear()
    assert told(known.push())[:2] == (400, "invalid_client_metadata")


@pytest.mark.parametrize(
    ("key", "header", "changes"),
    [
        (OTHER_KEY, None, {}),
        (SIGNER, {}, {}),
        (SIGNER, {"kid": "another"}, {}),
        (SIGNER, None, {"aud": "https://bsky.social"}),
        (SIGNER, None, {"iss": LOOPBACK}),
        (SIGNER, None, {"sub": None}),
        (SIGNER, None, {"jti": None}),
        (SIGNER, None, {"iat": NOON // 1000 - 61}),
        (SIGNER, None, {"exp": NOON // 1000}),
    ],
)
def test_a_bad_assertion_is_refused(
    known: Client, key: str, header: dict[str, Any] | None, changes: dict[str, Any]
) -> None:
    vouch(known, key, header, **changes)
    assert told(known.push())[:2] == (400, "invalid_client")


@pytest.mark.parametrize("assertion", ["garbage", "W10.e30.AAAA", "e30.W10.AAAA", "..", "é.é.é"])
def test_an_assertion_that_is_none_is_refused(known: Client, assertion: str) -> None:
    known.assertion |= {"client_assertion": assertion}
    assert told(known.push())[:2] == (400, "invalid_client")


def test_a_confidential_client_must_vouch_for_itself_once(known: Client) -> None:
    assert known.push().status_code == 201
    assert told(known.push()) == (400, "invalid_grant", "private_key_jwt jti reused")
    known.assertion = {}
    assert told(known.push())[:2] == (400, "invalid_request")


def test_a_session_belongs_to_the_client_that_began_it(known: Client, alice: Alice) -> None:
    code = known.consent(known.push().json()["request_uri"])["code"]
    vouch(known)
    tokens = known.by_code(code).json()
    assert tokens["sub"] == alice.did
    thief = Client(known.http, known.now_ms, nonce=known.nonce)
    assert told(thief.refresh(tokens["refresh_token"])) == (400, "invalid_grant", "Token was not issued to this client")
    assert known.write(tokens["access_token"], alice.did).status_code == 401
