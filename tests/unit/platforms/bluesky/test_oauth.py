"""Bluesky OAuth client: metadata, PAR, DPoP nonces, code exchange, refresh."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from socialpub.base.errors import ApiError, Outcome
from socialpub.platforms.bluesky import connector as bluesky
from socialpub.platforms.bluesky import dpop
from socialpub.platforms.contract import (
    AccountIdentity,
    AppClient,
    ConnectorAccount,
    Draft,
    DraftMedia,
    MediaFacts,
    OfferedAccount,
    Ready,
    SigningContext,
    Tokens,
    Upstream,
)
from tests.support.platforms.bluesky_calls import BOB, DID, PDS, PUBLIC
from tests.support.platforms.bluesky_oauth_network import HANDLE, ISSUER, BlueskyNetwork, metadata, read_jwt
from tests.support.platforms.scripted_upstream import NONCE, NOW, make_response

BASE = "https://post.example.com"
KEY = bluesky.client_key(lambda size: b"\x07" * size)
CLIENT = AppClient(f"{BASE}/oauth/client-metadata.json", f"{BASE}/connect/bluesky/callback", KEY)
STATE = "s" * 43
LOST = ApiError("platform_unavailable", outcome=Outcome.AMBIGUOUS)
_numbers = count()


def entropy(size: int) -> bytes:
    return hashlib.shake_128(str(next(_numbers)).encode()).digest(size)


def network(client: AppClient = CLIENT, **values: Any) -> BlueskyNetwork:
    jwks = (lambda: bluesky.client_documents(BASE, client)["jwks.json"]) if client.key else None
    return BlueskyNetwork(jwks=jwks, **values)


def line(net: BlueskyNetwork, connected: OfferedAccount | None = None, now_ms: int = NOW) -> Upstream:
    who = connected.identity if connected else AccountIdentity("did:plc:unknown")
    account = ConnectorAccount(who.platform_account_id, who.display_name, who.extra)
    tokens = connected.tokens if connected else Tokens("")
    return Upstream(net, net, bluesky.PLATFORM.site(), account, tokens, signing=SigningContext(lambda: now_ms, entropy))


def begin(net: BlueskyNetwork, client: AppClient = CLIENT) -> tuple[dict[str, str], Any]:
    """(what the browser comes back with, what was kept, as it comes out of the database)."""
    invitation = bluesky.invite(line(net), client, f"@{HANDLE}", STATE)
    return net.visit(invitation.url), json.loads(json.dumps(invitation.stored))


def dance(net: BlueskyNetwork, client: AppClient = CLIENT) -> OfferedAccount:
    back, kept = begin(net, client)
    assert back["state"] == STATE
    found = bluesky.accept(line(net), client, kept, back["code"], back["iss"])
    stored = json.loads(json.dumps(dict(found.tokens.private)))
    return replace(found, tokens=replace(found.tokens, private=stored))


def refused(net: BlueskyNetwork, act: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        act()
    shown = repr(vars(caught.value))
    secrets = [*net.spent, *net.sessions, *net.codes, KEY, *(one["access"] for one in net.sessions.values())]
    assert not [secret for secret in secrets if secret in shown]
    return caught.value


# --- Who we say we are -----------------------------------------------------------------------------------------------


def test_the_metadata_says_what_the_specification_wants() -> None:
    assert bluesky.client_documents(BASE, CLIENT)["client-metadata.json"] == {
        "client_id": "https://post.example.com/oauth/client-metadata.json",
        "client_name": "socialpub",
        "client_uri": "https://post.example.com",
        "application_type": "web",
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "redirect_uris": ["https://post.example.com/connect/bluesky/callback"],
        "scope": "atproto transition:generic",
        "dpop_bound_access_tokens": True,
        "token_endpoint_auth_method": "private_key_jwt",
        "token_endpoint_auth_signing_alg": "ES256",
        "jwks_uri": "https://post.example.com/oauth/jwks.json",
    }


def test_the_published_key_is_the_public_half_under_its_thumbprint() -> None:
    (jwk,) = bluesky.client_documents(BASE, CLIENT)["jwks.json"]["keys"]
    assert set(jwk) == {"kty", "crv", "x", "y", "kid", "use", "alg"}
    assert jwk["kid"] == dpop.thumbprint(KEY)
    assert KEY not in json.dumps(jwk)
    assert KEY not in repr(CLIENT)


@given(st.binary(min_size=48, max_size=48), st.dictionaries(st.text(max_size=9), st.integers() | st.text(max_size=9)))
def test_what_any_key_signs_its_public_half_confirms(raw: bytes, claims: dict[str, Any]) -> None:
    key = dpop.new_key(lambda size: raw)
    token = dpop.sign_jwt(key, {"typ": "x"}, claims)
    assert read_jwt(token, dpop.public_jwk(key)) == ({"typ": "x", "alg": "ES256"}, claims)


# --- Out and back ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("client", [CLIENT, AppClient("http://localhost?scope=atproto", "http://127.0.0.1/back")])
def test_an_account_connects_by_its_handle(client: AppClient) -> None:
    net = network(client)
    found = dance(net, client)
    assert found.identity == AccountIdentity(DID, "Alice A.", {"handle": HANDLE, "pds": PDS})
    (renew,) = net.sessions
    assert (found.tokens.access, found.tokens.refresh) == (net.sessions[renew]["access"], renew)
    assert found.tokens.expires_at_ms == NOW + 3_599_000
    assert found.tokens.private["rotates"] is True


def test_request_is_pushed_whole_and_the_browser_carries_its_name_only() -> None:
    net = network()
    url = bluesky.invite(line(net), CLIENT, HANDLE, STATE).url
    assert url.startswith(f"{ISSUER}/oauth/authorize?client_id=https%3A%2F%2Fpost.example.com%2F")
    (form,) = net.pushed.values()
    told = {name: form[name] for name in ("client_id", "redirect_uri", "scope", "state", "login_hint")}
    assert told == {
        "client_id": CLIENT.id,
        "redirect_uri": CLIENT.redirect_uri,
        "scope": "atproto transition:generic",
        "state": STATE,
        "login_hint": HANDLE,
    }


def test_every_login_has_a_key_of_its_own() -> None:
    first, second = dance(network()), dance(network())
    assert first.tokens.private["dpopKey"] != second.tokens.private["dpopKey"]


def test_a_server_asks_for_its_nonce_once_on_a_line() -> None:
    net = network()
    dance(net)
    assert net.calls.count(("POST", f"{ISSUER}/oauth/par")) == 2
    up = line(net, dance(net))
    for _ in range(2):
        publish(up)
    assert net.calls.count(("POST", f"{PDS}/xrpc/com.atproto.repo.putRecord")) == 3


def publish(up: Upstream) -> str:
    ready = bluesky.prepare(up, Draft("Hello", now_ms=NOW, nonce=NONCE), None)
    assert isinstance(ready, Ready)
    return bluesky.send(up, ready.plan).remote_id


def test_a_post_is_written_with_the_bound_token() -> None:
    net = network()
    assert publish(line(net, dance(net))).startswith(f"at://{DID}/app.bsky.feed.post/")
    assert [record["record"]["text"] for record in net.records] == ["Hello"]


def test_a_file_is_sent_whole_again_once_the_nonce_is_known(tmp_path: Path) -> None:
    net = network()
    path = tmp_path / "video.mp4"
    path.write_bytes(bytes(range(256)) * 4096)
    item = DraftMedia("video", facts=MediaFacts("video/mp4", path.stat().st_size), path=path)
    up = replace(line(net, dance(net)), site=bluesky.PLATFORM.site(video_service=""))
    bluesky.prepare(up, Draft("Hello", (item,), now_ms=NOW, nonce=NONCE), None)
    assert net.records == [path.read_bytes()]
    assert net.calls.count(("POST", f"{PDS}/xrpc/com.atproto.repo.uploadBlob")) == 2


def test_a_stolen_token_is_useless_without_its_key() -> None:
    net = network()
    found = dance(net)
    private = {**found.tokens.private, "dpopKey": bluesky.client_key(entropy)}
    error = refused(net, lambda: publish(line(net, replace(found, tokens=replace(found.tokens, private=private)))))
    assert error.stale_token
    assert net.records == []


@pytest.mark.parametrize("iss", ["https://evil.example.net", "", None, ISSUER + "/"])
def test_a_code_from_another_issuer_goes_to_nobody(iss: str | None) -> None:
    net = network()
    back, kept = begin(net)
    before = list(net.calls)
    error = refused(net, lambda: bluesky.accept(line(net), CLIENT, kept, back["code"], iss))
    assert (error.code, error.outcome) == ("platform_auth_failed", Outcome.REJECTED)
    assert net.calls == before


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"sub": BOB}, "The login is for another account than alice.example.com."),
        ({"granted": "atproto"}, "Bluesky did not grant transition:generic."),
        ({"granted": "transition:generic"}, "Bluesky did not grant atproto."),
    ],
)
def test_what_was_not_asked_for_is_refused(values: dict[str, str], said: str) -> None:
    net = network(**values)
    error = refused(net, lambda: dance(net))
    assert (error.code, error.message) == ("platform_auth_failed", said)


def test_a_code_works_once() -> None:
    net = network()
    back, kept = begin(net)
    bluesky.accept(line(net), CLIENT, kept, back["code"], back["iss"])
    error = refused(net, lambda: bluesky.accept(line(net), CLIENT, kept, back["code"], back["iss"]))
    assert (error.code, error.message) == ("platform_auth_failed", "Bluesky did not log in: Invalid code")


def test_client_with_an_unpublished_key_is_the_operators_error() -> None:
    net = network()
    other = replace(CLIENT, key=bluesky.client_key(entropy))
    error = refused(net, lambda: dance(net, other))
    assert error.code == "platform_not_enabled"
    assert "client-metadata.json" in (error.remediation or "")


# --- Servers that do not fit -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "servers",
    [[], [ISSUER, ISSUER], ["http:///x"], [f"{ISSUER}/path"], [7], ["javascript:alert(1)"], ["https://a@b.c"]],
)
def test_a_server_that_names_no_single_origin_is_not_followed(servers: list[Any]) -> None:
    net = network(servers=servers)
    error = refused(net, lambda: begin(net))
    assert (error.code, error.message) == (
        "platform_auth_failed",
        "The account's server names no authorization server.",
    )
    assert ISSUER not in "".join(url for _, url in net.calls)


@pytest.mark.parametrize(
    "change",
    [
        {"issuer": "https://other.example.net"},
        {"scopes_supported": ["atproto"]},
        {"grant_types_supported": ["authorization_code"]},
        {"code_challenge_methods_supported": ["plain"]},
        {"dpop_signing_alg_values_supported": "ES256"},
        {"response_types_supported": None},
        {"authorization_response_iss_parameter_supported": False},
        {"require_pushed_authorization_requests": "true"},
        {"client_id_metadata_document_supported": None},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"authorization_endpoint": "http://auth.example.net/authorize"},
        {"token_endpoint": "https://user:pw@auth.example.net/token"},
        {"pushed_authorization_request_endpoint": None},
        {"token_endpoint": "https://auth.example.net/token#x"},
    ],
)
def test_an_authorization_server_that_breaks_a_rule_gets_no_login(change: dict[str, Any]) -> None:
    net = network(told=metadata() | change)
    error = refused(net, lambda: begin(net))
    assert (error.code, error.remediation) == (
        "platform_auth_failed",
        "Connect the account with an app password instead.",
    )
    assert not [call for call in net.calls if call[0] == "POST"]


@pytest.mark.parametrize(
    ("reply", "code", "outcome"),
    [
        (make_response(400, {"error": "invalid_client_metadata"}), "platform_not_enabled", Outcome.REJECTED),
        (
            make_response(400, {"error": "invalid_request", "error_description": "x"}),
            "platform_auth_failed",
            Outcome.REJECTED,
        ),
        (make_response(401, {"error": "invalid_dpop_proof"}), "platform_unavailable", Outcome.NOT_SENT),
        (make_response(429, {"error": "RateLimitExceeded"}), "platform_unavailable", Outcome.THROTTLED),
        (make_response(502, "<html>"), "platform_unavailable", Outcome.AMBIGUOUS),
        (make_response(201, {"request_uri": 7}), "platform_unavailable", Outcome.NOT_SENT),
    ],
)
def test_a_pushed_request_that_fails_says_whose_matter_it_is(reply: Any, code: str, outcome: Outcome) -> None:
    net = network(faults={f"{ISSUER}/oauth/par": reply})
    error = refused(net, lambda: begin(net))
    assert (error.code, error.outcome) == (code, outcome)


def test_a_server_without_oauth_is_told_as_such() -> None:
    net = network(faults={f"{PDS}/.well-known/oauth-protected-resource": make_response(404)})
    error = refused(net, lambda: begin(net))
    assert error.message == "The account's server does not support OAuth."


# --- Keeping and ending it -------------------------------------------------------------------------------------------


def test_a_renewal_brings_new_tokens_under_the_same_key() -> None:
    net = network()
    found = dance(net)
    net.now_ms = lambda: NOW + 5_000
    fresh = bluesky.refresh(line(net, found, NOW + 5_000), NOW + 5_000)
    assert fresh.refresh in net.sessions
    assert fresh.refresh != found.tokens.refresh
    assert (fresh.private, fresh.expires_at_ms) == (found.tokens.private, NOW + 3_604_000)
    publish(line(net, replace(found, tokens=fresh)))


@pytest.mark.parametrize(
    ("fault", "code", "outcome"),
    [
        (make_response(400, {"error": "invalid_grant"}), "platform_auth_failed", Outcome.REJECTED),
        (make_response(401, {"error": "invalid_client"}), "platform_not_enabled", Outcome.REJECTED),
        (make_response(400, {"error": "invalid_request"}), "platform_rejected", Outcome.REJECTED),
        (make_response(429, {}), "platform_unavailable", Outcome.THROTTLED),
        (make_response(500, {"error": "server_error"}), "platform_unavailable", Outcome.AMBIGUOUS),
        (make_response(200, {"access_token": "half"}), "platform_unavailable", Outcome.AMBIGUOUS),
        (LOST, "platform_unavailable", Outcome.AMBIGUOUS),
    ],
)
def test_only_a_refused_grant_ends_a_session(fault: Any, code: str, outcome: Outcome) -> None:
    net = network()
    found = dance(net)
    net.faults[f"{ISSUER}/oauth/token"] = fault
    error = refused(net, lambda: bluesky.refresh(line(net, found), NOW))
    assert (error.code, error.outcome) == (code, outcome)


def test_a_refresh_token_that_is_used_twice_ends_the_session() -> None:
    net = network()
    found = dance(net)
    bluesky.refresh(line(net, found), NOW)
    assert refused(net, lambda: bluesky.refresh(line(net, found), NOW)).code == "platform_auth_failed"


def test_a_renewal_for_somebody_else_is_refused() -> None:
    net = network()
    found = dance(net)
    net.sub = BOB
    assert refused(net, lambda: bluesky.refresh(line(net, found), NOW)).code == "platform_auth_failed"


def test_revoking_ends_the_session() -> None:
    net = network()
    found = dance(net)
    bluesky.revoke(line(net, found))
    assert net.sessions == {}
    assert refused(net, lambda: bluesky.refresh(line(net, found), NOW)).code == "platform_auth_failed"


def test_a_server_that_cannot_revoke_is_not_asked() -> None:
    told = metadata()
    del told["revocation_endpoint"]
    net = network(told=told)
    found = dance(net)
    before = list(net.calls)
    bluesky.revoke(line(net, found))
    assert net.calls == before


def test_the_profile_is_read_without_the_session() -> None:
    net = network()
    dance(net)
    assert ("GET", f"{PUBLIC}/xrpc/app.bsky.actor.getProfile") in net.calls
