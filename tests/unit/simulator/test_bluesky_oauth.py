"""OAuth of the fake Bluesky: DPoP proofs, nonces, consent, codes, session end."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from socialpub.base.security.crypto import encode_base64url, hash_base64url
from socialpub.platforms.bluesky.dpop import public_jwk, sign_jwt
from socialpub.simulator.bluesky import Bluesky
from tests.support.bluesky_oauth_client import CALLBACK, KEY, OTHER_KEY, SCOPE, OAuthClient, error_of
from tests.support.bluesky_user import BlueskyUser
from tests.support.fixed_clock import NOON, FixedClock

# --- Proofs ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "name", "said"),
    [
        ({"htm": "GET"}, "invalid_dpop_proof", 'DPoP "htm" mismatch'),
        ({"htu": "http://127.0.0.1/oauth/par"}, "invalid_dpop_proof", 'DPoP "htu" mismatch'),
        ({"jti": None}, "invalid_dpop_proof", 'DPoP "jti" missing'),
        ({"iat": NOON // 1000 - 191}, "invalid_dpop_proof", '"iat" claim timestamp check failed'),
        ({"iat": NOON // 1000 + 181}, "invalid_dpop_proof", '"iat" claim timestamp check failed'),
        ({"iat": None}, "invalid_dpop_proof", 'missing required "iat" claim'),
        ({"ath": hash_base64url("t")}, "invalid_dpop_proof", 'DPoP "ath" claim not allowed'),
        ({"nonce": "made-up"}, "use_dpop_nonce", 'DPoP "nonce" mismatch'),
        ({"nonce": None}, "use_dpop_nonce", "Authorization server requires nonce in DPoP proof"),
    ],
)
def test_a_proof_that_says_something_else_is_refused(
    client: OAuthClient, changes: dict[str, Any], name: str, said: str
) -> None:
    client.learn()
    answer = client.push(client.proof("POST", "/oauth/par", **changes))
    assert answer.status_code == (400 if name == "use_dpop_nonce" else 401)
    assert answer.json()["error"] == name
    assert said in answer.json()["error_description"]
    assert answer.headers["dpop-nonce"]
    assert client.push().status_code == 201


@pytest.mark.parametrize("seconds", [-190, 180])
def test_a_clock_may_be_three_minutes_off(client: OAuthClient, seconds: int) -> None:
    client.learn()
    assert client.push(client.proof("POST", "/oauth/par", iat=NOON // 1000 + seconds)).status_code == 201


def test_a_proof_works_once(client: OAuthClient) -> None:
    client.learn()
    proof = client.proof("POST", "/oauth/par")
    assert client.push(proof).status_code == 201
    assert error_of(client.push(proof)) == (401, "invalid_dpop_proof", "DPoP proof replayed")


def forged(client: OAuthClient) -> dict[str, str]:
    whole = client.proof("POST", "/oauth/par")
    head, body, signature = whole.split(".")
    claims = {"jti": "x", "htm": "POST", "htu": f"{client.origin}/oauth/par", "iat": NOON // 1000}
    with_secret = {"typ": "dpop+jwt", "jwk": public_jwk(KEY) | {"d": KEY}}
    return {
        "not a JWT": "garbage",
        "another body": f"{head}.{encode_base64url(json.dumps(claims).encode())}.{signature}",
        "no signature": f"{head}.{body}.",
        "another type": sign_jwt(KEY, {"typ": "JWT", "jwk": public_jwk(KEY)}, claims),
        "no key": sign_jwt(KEY, {"typ": "dpop+jwt"}, claims),
        "a secret key": sign_jwt(KEY, with_secret, claims),
        "a key that is none": sign_jwt(KEY, {"typ": "dpop+jwt", "jwk": {"kty": "EC", "crv": "P-256", "x": 1}}, claims),
        "a body that is no object": f"{head}.{encode_base64url(b'[]')}.{signature}",
    }


@pytest.mark.parametrize(
    "which",
    [
        "not a JWT",
        "another body",
        "no signature",
        "another type",
        "no key",
        "a secret key",
        "a key that is none",
        "a body that is no object",
    ],
)
def test_a_forged_proof_is_refused(client: OAuthClient, which: str) -> None:
    client.learn()
    status, name, said = error_of(client.push(forged(client)[which]))
    assert (status, name) == (401, "invalid_dpop_proof")
    assert said.startswith("Failed to verify DPoP proof")


def test_a_nonce_lives_two_to_three_minutes(client: OAuthClient, clock: FixedClock) -> None:
    client.learn()
    old = client.nonce
    for seconds, status in ((0, 201), (60, 201), (59, 201), (61, 400)):
        clock.ms += seconds * 1000
        client.nonce = old
        assert client.push().status_code == status, seconds


# --- The owner -------------------------------------------------------------------------------------------------------


def test_the_browser_names_the_request_and_comes_back_with_the_issuer(client: OAuthClient) -> None:
    client.learn()
    back = client.consent(client.push().json()["request_uri"])
    assert set(back) == {"state", "iss", "code"}
    assert back["iss"] == client.origin


def test_an_owner_may_refuse(client: OAuthClient, fake: Bluesky) -> None:
    client.learn()
    fake.oauth.consent.mode = "deny"
    back = client.consent(client.push().json()["request_uri"])
    assert (back["error"], back["error_description"]) == ("access_denied", "The user rejected the request")
    assert back["iss"]


def test_the_page_asks_for_the_account_that_was_named_and_its_scopes(
    client: OAuthClient, fake: Bluesky, alice: BlueskyUser
) -> None:
    bob = alice.simulator.lab.add_account("bluesky", handle="bob.test")
    fake.oauth.consent.mode = "form"
    client.learn()
    request_uri = client.push().json()["request_uri"]
    shown = client.http.get(client.page(request_uri)).text
    assert f'<option value="{alice.did}" selected>' in shown
    assert f'<option value="{bob["did"]}">' in shown
    assert "transition:generic" in shown
    form = {"client_id": client.id, "request_uri": request_uri, "decision": "allow", "ticked": SCOPE.split()}
    gone = client.http.post("/oauth/authorize", data=form | {"account": bob["did"]})
    code = dict(parse_qsl(urlsplit(gone.headers["location"]).query))["code"]
    assert client.by_code(code).json()["sub"] == bob["did"]


def test_an_owner_who_leaves_out_the_least_allows_nothing(client: OAuthClient, fake: Bluesky) -> None:
    fake.oauth.consent.without = frozenset({"atproto"})
    client.learn()
    assert client.consent(client.push().json()["request_uri"])["error"] == "access_denied"


@pytest.mark.parametrize("which", ["unknown", "used", "over", "of another client"])
def test_a_request_that_is_not_there_is_answered_with_a_page(
    client: OAuthClient, clock: FixedClock, which: str
) -> None:
    client.learn()
    request_uri = client.push().json()["request_uri"]
    if which == "used":
        client.consent(request_uri)
    if which == "over":
        clock.ms += 300_000
    client.id = "http://localhost" if which == "of another client" else client.id
    answer = client.http.get(client.page("urn:x" if which == "unknown" else request_uri))
    assert answer.status_code == 400
    assert "location" not in answer.headers


# --- Sessions --------------------------------------------------------------------------------------------------------


def test_tokens_are_bound_and_tell_whose_they_are(client: OAuthClient, alice: BlueskyUser) -> None:
    tokens = client.session()
    assert set(tokens) == {"access_token", "token_type", "refresh_token", "scope", "expires_in", "sub"}
    assert (tokens["token_type"], tokens["sub"], tokens["expires_in"]) == ("DPoP", alice.did, 3599)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"code_verifier": "w" * 43}, "Invalid code_verifier"),
        ({"code_verifier": "short"}, "Invalid request payload"),
        ({"code_verifier": None}, "code_verifier is required"),
        ({"code": "made-up"}, "Invalid code"),
        ({"redirect_uri": CALLBACK + "/other"}, "The redirect_uri parameter must match"),
        ({"grant_type": "password"}, "Invalid request payload"),
    ],
)
def test_a_code_is_taken_only_with_what_it_was_asked_with(
    client: OAuthClient, changes: dict[str, str | None], said: str
) -> None:
    status, name, words = error_of(client.by_code(client.code(), **changes))
    assert (status, name) == (400, "invalid_grant")
    assert words.startswith(said)


def test_a_code_is_good_for_five_minutes(client: OAuthClient, clock: FixedClock) -> None:
    code = client.code()
    clock.ms += 300_000
    client.nonce = ""
    client.learn()
    assert error_of(client.by_code(code)) == (400, "invalid_grant", "This code has expired")


def test_another_key_than_the_one_that_asked_gets_nothing(client: OAuthClient, alice: BlueskyUser) -> None:
    code = client.code()
    refused = client.by_code(code, client.proof("POST", "/oauth/token", key=OTHER_KEY))
    assert error_of(refused) == (400, "invalid_grant", "DPoP proof does not match the expected JKT")
    tokens = client.session()
    stolen = client.refresh(tokens["refresh_token"], client.proof("POST", "/oauth/token", key=OTHER_KEY))
    assert error_of(stolen)[1] == "invalid_grant"
    assert error_of(client.refresh(tokens["refresh_token"])) == (400, "invalid_grant", "Invalid refresh token")


def test_request_pushed_without_a_proof_is_bound_by_the_first_one(client: OAuthClient) -> None:
    client.learn()
    code = client.consent(client.push("").json()["request_uri"])["code"]
    tokens = client.by_code(code).json()
    assert client.refresh(tokens["refresh_token"], client.proof("POST", "/oauth/token", key=OTHER_KEY)).is_error


def test_a_refresh_token_works_once_and_twice_ends_the_session(client: OAuthClient, alice: BlueskyUser) -> None:
    first = client.session()
    second = client.refresh(first["refresh_token"]).json()
    assert client.write(first["access_token"], alice.did).status_code == 401
    assert client.write(second["access_token"], alice.did).status_code == 200
    assert error_of(client.refresh(first["refresh_token"])) == (400, "invalid_grant", "Refresh token replayed")
    assert client.write(second["access_token"], alice.did).status_code == 401
    assert error_of(client.refresh(second["refresh_token"])) == (400, "invalid_grant", "Invalid refresh token")


def test_a_code_that_comes_twice_ends_the_session(client: OAuthClient, alice: BlueskyUser) -> None:
    code = client.code()
    tokens = client.by_code(code).json()
    assert error_of(client.by_code(code)) == (400, "invalid_grant", "Invalid code")
    assert client.write(tokens["access_token"], alice.did).status_code == 401


def test_public_client_session_ends_after_two_weeks(client: OAuthClient, clock: FixedClock) -> None:
    tokens = client.session()
    for _ in range(13):
        clock.ms += 86_400_000
        client.nonce = ""
        client.learn()
        tokens = client.refresh(tokens["refresh_token"]).json()
    clock.ms += 86_400_000
    client.nonce = ""
    client.learn()
    assert error_of(client.refresh(tokens["refresh_token"])) == (400, "invalid_grant", "Session expired")


def test_revoking_either_token_ends_the_session_and_another_ends_nothing(
    client: OAuthClient, alice: BlueskyUser
) -> None:
    for name in ("access_token", "refresh_token"):
        tokens = client.session()
        other = client.post(
            "/oauth/revoke", {"token": tokens[name]}, client.proof("POST", "/oauth/revoke", key=OTHER_KEY)
        )
        assert (other.status_code, other.json()) == (200, {})
        assert client.write(tokens["access_token"], alice.did).status_code == 200
        assert client.post("/oauth/revoke", {"token": tokens[name]}).status_code == 200
        assert client.write(tokens["access_token"], alice.did).status_code == 401
        assert client.refresh(tokens["refresh_token"]).status_code == 400


# --- At the repository -----------------------------------------------------------------------------------------------


def test_an_access_token_lives_for_an_hour(client: OAuthClient, alice: BlueskyUser, clock: FixedClock) -> None:
    tokens = client.session()
    clock.ms += 3_600_000 - 1
    client.write(tokens["access_token"], alice.did)
    assert client.write(tokens["access_token"], alice.did).status_code == 200
    clock.ms += 1
    refused = client.write(tokens["access_token"], alice.did)
    assert error_of(refused) == (401, "invalid_token", '"exp" claim timestamp check failed')
    assert "error_description" not in refused.headers["www-authenticate"]


def test_a_stolen_token_is_useless_without_its_key(client: OAuthClient, alice: BlueskyUser) -> None:
    access = client.session()["access_token"]
    path = "/xrpc/com.atproto.repo.createRecord"
    other = client.proof("POST", path, access, key=OTHER_KEY)
    assert error_of(client.write(access, alice.did, other)) == (401, "invalid_token", "Invalid DPoP key binding")
    unbound = client.proof("POST", path, "another token")
    assert error_of(client.write(access, alice.did, unbound)) == (401, "invalid_dpop_proof", 'DPoP "ath" mismatch')
    assert error_of(client.write("made-up", alice.did)) == (401, "invalid_token", "Malformed token")


def test_a_token_writes_for_its_own_account_alone(client: OAuthClient, alice: BlueskyUser) -> None:
    bob = alice.simulator.lab.add_account("bluesky", handle="bob.test")["did"]
    access = client.session()["access_token"]
    assert client.write(access, bob).status_code == 401
    assert client.write(access, alice.did).status_code == 200
    assert [entry.account for entry in alice.simulator.lab.ledger.entries()] == [alice.did]


def test_who_was_given_the_least_may_not_write(client: OAuthClient, alice: BlueskyUser, fake: Bluesky) -> None:
    fake.oauth.consent.without = frozenset({"transition:generic"})
    tokens = client.session()
    assert tokens["scope"] == "atproto"
    refused = error_of(client.write(tokens["access_token"], alice.did))
    assert refused[:2] == (403, "ScopeMissingError")
    assert refused[2] == 'Missing required scope "repo:app.bsky.feed.post?action=create"'


def test_matters_of_the_account_itself_are_not_for_oauth(client: OAuthClient, alice: BlueskyUser) -> None:
    access, path = client.session()["access_token"], "/xrpc/com.atproto.server.createAppPassword"
    headers = {"Authorization": f"DPoP {access}", "DPoP": client.proof("POST", path, access)}
    refused = client.http.post(path, json={"name": "x"}, headers=headers)
    assert error_of(refused)[:2] == (403, "Forbidden")


@pytest.mark.parametrize(
    ("ends", "refreshes"), [({"access": True, "refresh": False}, True), ({"access": True, "refresh": True}, False)]
)
def test_the_lab_ends_tokens(client: OAuthClient, alice: BlueskyUser, ends: dict[str, bool], refreshes: bool) -> None:
    tokens = client.session()
    alice.simulator.lab.end_tokens("bluesky", alice.did, **ends)
    assert client.write(tokens["access_token"], alice.did).status_code == 401
    assert client.refresh(tokens["refresh_token"]).is_success is refreshes
