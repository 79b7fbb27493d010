"""Sessions of the fake Bluesky: token lifetimes, refresh, access rights."""

from __future__ import annotations

import base64
import json
from typing import Any

import httpx
import pytest

from socialpub.simulator.server import SimulatorThread
from tests.support.bluesky_user import BlueskyUser
from tests.support.fixed_clock import NOON, FixedClock

MINUTES = 60_000
VIDEO = "did:web:video.bsky.app"
HOURS = 60 * MINUTES
DAYS = 24 * HOURS
EXPIRED = (400, {"error": "ExpiredToken", "message": "Token has expired"})
REVOKED = (400, {"error": "ExpiredToken", "message": "Token has been revoked"})


def told(answer: httpx.Response) -> tuple[int, Any]:
    return answer.status_code, answer.json()


def token_id(token: str) -> str:
    part = token.split(".")[1]
    return str(json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))["jti"])


def test_an_access_token_works_for_120_minutes(alice: BlueskyUser, clock: FixedClock) -> None:
    clock.ms += 120 * MINUTES - 1
    assert alice.put().status_code == 200
    clock.ms += 1
    assert told(alice.put("later")) == EXPIRED
    assert len(alice.simulator.lab.ledger.entries()) == 1


def test_a_refresh_token_works_for_90_days(alice: BlueskyUser, clock: FixedClock) -> None:
    clock.ms += 90 * DAYS - 1
    renewed = alice.refresh(alice.session["refreshJwt"])
    assert renewed.status_code == 200
    clock.ms += 1
    assert told(alice.refresh(alice.session["refreshJwt"])) == EXPIRED
    assert alice.refresh(renewed.json()["refreshJwt"]).status_code == 200


def test_used_refresh_token_gives_the_same_successor_for_two_hours(alice: BlueskyUser, clock: FixedClock) -> None:
    first = alice.refresh(alice.session["refreshJwt"]).json()
    clock.ms += 2 * HOURS - 1
    again = alice.refresh(alice.session["refreshJwt"]).json()
    assert token_id(again["refreshJwt"]) == token_id(first["refreshJwt"]) != token_id(alice.session["refreshJwt"])
    clock.ms += 2 * HOURS
    assert told(alice.refresh(alice.session["refreshJwt"])) == REVOKED
    assert alice.refresh(first["refreshJwt"]).status_code == 200


def test_refreshing_leaves_the_old_access_token_alone(alice: BlueskyUser) -> None:
    alice.refresh(alice.session["refreshJwt"])
    assert alice.put().status_code == 200


def test_refreshing_with_a_body_is_refused(alice: BlueskyUser) -> None:
    assert told(alice.call("com.atproto.server.refreshSession", {}, token="refreshJwt")) == (
        400,
        {"error": "InvalidRequest", "message": "A request body was provided when none was expected"},
    )


def test_deleted_session_cannot_be_refreshed_even_when_expired(alice: BlueskyUser, clock: FixedClock) -> None:
    clock.ms += 90 * DAYS
    ended = alice.client.post("/xrpc/com.atproto.server.deleteSession", headers=alice.headers("refreshJwt"))
    assert (ended.status_code, ended.content) == (200, b"")
    clock.ms -= 90 * DAYS
    assert told(alice.refresh(alice.session["refreshJwt"])) == REVOKED


def test_tokens_that_the_lab_lets_expire_stay_expired_in_the_same_second(alice: BlueskyUser) -> None:
    lab = alice.simulator.lab
    lab.end_tokens("bluesky", alice.did)
    assert told(alice.put()) == EXPIRED
    alice.session = alice.refresh(alice.session["refreshJwt"]).json()
    assert alice.put().status_code == 200
    lab.end_tokens("bluesky")
    assert told(alice.put("again")) == EXPIRED


def test_one_accounts_tokens_can_be_ended_without_the_others(alice: BlueskyUser) -> None:
    bob = alice.simulator.lab.add_account("bluesky", handle="bob.test")
    alice.simulator.lab.end_tokens("bluesky", bob["did"], refresh=True)
    assert alice.refresh(alice.session["refreshJwt"]).status_code == 200


@pytest.mark.parametrize(
    "authorization, status, name, message",
    [
        (None, 401, "AuthMissing", "Authentication Required"),
        ("Bearer", 400, "InvalidToken", "Malformed authorization header"),
        ("Bearer a b", 400, "InvalidToken", "Malformed authorization header"),
        ("Bearer a.b.c", 400, "InvalidToken", "Token could not be verified"),
        ("Basic abc", 400, "InvalidToken", "Unexpected authorization type"),
        ("Foo bar", 400, "InvalidToken", "Unsupported authorization type: Foo"),
        ("DPoP x", 401, "invalid_token", "Malformed token"),
    ],
)
def test_a_call_without_a_good_token_is_refused(
    alice: BlueskyUser, authorization: str | None, status: int, name: str, message: str
) -> None:
    headers = {} if authorization is None else {"authorization": authorization}
    answer = alice.client.get("/xrpc/com.atproto.server.getSession", headers=headers)
    assert told(answer) == (status, {"error": name, "message": message})


def test_one_account_cannot_write_into_the_repository_of_another(alice: BlueskyUser) -> None:
    bob = alice.simulator.lab.add_account("bluesky", handle="bob.test")
    assert told(alice.put(repo=bob["did"])) == (
        401,
        {"error": "AuthenticationRequired", "message": "Authentication Required"},
    )
    assert not alice.simulator.lab.ledger.entries()


@pytest.mark.parametrize(
    "params, status, told_name",
    [
        (
            {"aud": VIDEO, "lxm": "com.atproto.repo.uploadBlob", "exp": NOON // 1000 + 3600},
            200,
            None,
        ),
        ({"aud": VIDEO, "lxm": "com.a.b", "exp": NOON // 1000 + 3601}, 400, "BadExpiration"),
        ({"aud": VIDEO, "exp": NOON // 1000 + 60}, 200, None),
        ({"aud": VIDEO, "exp": NOON // 1000 + 61}, 400, "BadExpiration"),
        ({"aud": VIDEO, "exp": NOON // 1000 - 1}, 400, "BadExpiration"),
        ({"aud": "video.bsky.app"}, 400, "InvalidRequest"),
        ({"aud": "did:web:api.bsky.app#svc", "lxm": "chat.bsky.convo.getLog"}, 400, "InvalidRequest"),
    ],
)
def test_a_service_token_has_bounds(
    alice: BlueskyUser, params: dict[str, Any], status: int, told_name: str | None
) -> None:
    url = "/xrpc/com.atproto.server.getServiceAuth"
    answer = alice.client.get(url, params=params, headers=alice.headers())
    assert (answer.status_code, answer.json().get("error")) == (status, told_name)


# --- Identity -------------------------------------------------------------------------------------------------------


def test_a_handle_leads_to_the_did_and_the_did_back_to_handle_and_server(alice: BlueskyUser) -> None:
    found = alice.client.get("/xrpc/com.atproto.identity.resolveHandle", params={"handle": "Alice.test"})
    document = alice.client.get(f"/{alice.did}")
    assert found.json() == {"did": alice.did}
    assert document.headers["content-type"] == "application/did+ld+json; charset=utf-8"
    assert document.json()["alsoKnownAs"] == ["at://alice.test"]
    assert document.json()["service"] == [
        {
            "id": "#atproto_pds",
            "type": "AtprotoPersonalDataServer",
            "serviceEndpoint": alice.simulator.origin("bluesky"),
        }
    ]


def test_an_unknown_did_is_not_registered(alice: BlueskyUser) -> None:
    answer = alice.client.get("/did:plc:aaaaaaaaaaaaaaaaaaaaaaaa")
    assert told(answer) == (404, {"message": "DID not registered: did:plc:aaaaaaaaaaaaaaaaaaaaaaaa"})


def test_the_well_known_did_is_that_of_the_host(alice: BlueskyUser) -> None:
    url = "/.well-known/atproto-did"
    asked = [alice.client.get(url, headers={"host": host}) for host in ("alice.test", "alice.test:8080", "nobody.test")]
    assert [(answer.status_code, answer.text) for answer in asked] == [
        (200, alice.did),
        (200, alice.did),
        (404, "User not found"),
    ]


def test_a_profile_has_the_display_name_without_a_login(alice: BlueskyUser) -> None:
    alice.put()
    answers = [
        alice.client.get("/xrpc/app.bsky.actor.getProfile", params={"actor": actor}).json()
        for actor in (alice.did, "alice.test", "nobody.test")
    ]
    assert answers[0] == answers[1]
    assert (answers[0]["displayName"], answers[0]["postsCount"]) == ("Alice", 1)
    assert answers[2] == {"error": "InvalidRequest", "message": "Profile not found"}


def test_the_same_handle_gets_the_same_account_in_every_lab() -> None:
    def made() -> dict[str, Any]:
        with SimulatorThread() as simulator:
            account = simulator.lab.add_account("bluesky", handle="carol.test")
        del account["pds"]
        return account

    assert made() == made()
