"""OAuth clients of the fake Bluesky: loopback and confidential, metadata, assertions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from socialpub.simulator.bluesky import Bluesky
from tests.support.bluesky_oauth_client import LOOPBACK, OTHER_KEY, OAuthClient, error_of
from tests.support.bluesky_user import BlueskyUser
from tests.support.fixed_clock import NOON, FixedClock
from tests.support.oauth_client_site import (
    CLIENT_ID,
    HOME,
    ORIGIN,
    PATH,
    SIGNER,
    ClientSite,
    client_document,
    running_site,
    sign_next_call,
)


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
def test_a_client_that_cannot_be_known_is_refused(client: OAuthClient, client_id: str) -> None:
    client.learn()
    client.id = client_id
    status, name, _ = error_of(client.push())
    assert (status, name) == (400, "invalid_client_metadata")


def test_a_client_on_loopback_may_return_to_any_port(client: OAuthClient) -> None:
    client.learn()
    assert client.push(redirect_uri="http://127.0.0.1:8123/callback").status_code == 201
    assert client.push(redirect_uri="http://127.0.0.1:8123/other").status_code == 400


def test_a_loopback_client_without_wishes_may_ask_for_the_least(client: OAuthClient) -> None:
    client.learn()
    client.id = "http://localhost"
    assert client.push(redirect_uri="http://127.0.0.1/", scope="atproto").status_code == 201
    assert error_of(client.push(redirect_uri="http://127.0.0.1/"))[1] == "invalid_scope"


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
def test_a_request_that_breaks_a_rule_is_refused(
    client: OAuthClient, changes: dict[str, str | None], name: str
) -> None:
    client.learn()
    assert error_of(client.push(**changes))[:2] == (400, name)


@pytest.fixture
def web(fake: Bluesky) -> Iterator[ClientSite]:
    with running_site() as web:
        fake.oauth.clients.stands_at[ORIGIN] = web.url
        yield web


@pytest.fixture
def known(client: OAuthClient, web: ClientSite) -> OAuthClient:
    """A confidential client, whose assertions are good."""
    client.id, client.callback = CLIENT_ID, HOME
    sign_next_call(client)
    client.learn()
    sign_next_call(client)
    return client


def test_confidential_client_document_is_read_once_in_ten_minutes(
    known: OAuthClient, web: ClientSite, clock: FixedClock
) -> None:
    assert known.push().status_code == 201
    web.read.clear()
    clock.ms += 599_000
    known.nonce = ""
    known.learn()
    sign_next_call(known)
    assert known.push().status_code == 201
    assert web.read == []
    clock.ms += 1_000
    sign_next_call(known)
    assert known.push().status_code == 201
    assert web.read == [PATH]


def test_its_keys_may_stand_in_a_document_of_their_own(known: OAuthClient, web: ClientSite, fake: Bluesky) -> None:
    keys = client_document()["jwks"]
    web.documents = {
        PATH: client_document(jwks=None, jwks_uri=f"{ORIGIN}/oauth/jwks.json"),
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
    known: OAuthClient, web: ClientSite, fake: Bluesky, changes: dict[str, Any]
) -> None:
    web.documents[PATH] = client_document(**changes)
    fake.oauth.clients.clear()
    assert error_of(known.push())[:2] == (400, "invalid_client_metadata")


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
    known: OAuthClient, key: str, header: dict[str, Any] | None, changes: dict[str, Any]
) -> None:
    sign_next_call(known, key, header, **changes)
    assert error_of(known.push())[:2] == (400, "invalid_client")


@pytest.mark.parametrize("assertion", ["garbage", "W10.e30.AAAA", "e30.W10.AAAA", "..", "é.é.é"])
def test_an_assertion_that_is_none_is_refused(known: OAuthClient, assertion: str) -> None:
    known.assertion |= {"client_assertion": assertion}
    assert error_of(known.push())[:2] == (400, "invalid_client")


def test_a_confidential_client_must_vouch_for_itself_once(known: OAuthClient) -> None:
    assert known.push().status_code == 201
    assert error_of(known.push()) == (400, "invalid_grant", "private_key_jwt jti reused")
    known.assertion = {}
    assert error_of(known.push())[:2] == (400, "invalid_request")


def test_a_session_belongs_to_the_client_that_began_it(known: OAuthClient, alice: BlueskyUser) -> None:
    code = known.consent(known.push().json()["request_uri"])["code"]
    sign_next_call(known)
    tokens = known.by_code(code).json()
    assert tokens["sub"] == alice.did
    thief = OAuthClient(known.http, known.now_ms, nonce=known.nonce)
    assert error_of(thief.refresh(tokens["refresh_token"])) == (
        400,
        "invalid_grant",
        "Token was not issued to this client",
    )
    assert known.write(tokens["access_token"], alice.did).status_code == 401
