"""Bluesky app-password login: handle resolution, sessions, refresh, logout."""

from __future__ import annotations

from typing import Any

import pytest

from socialpub.base.errors import ApiError, Outcome, rule_error
from socialpub.base.http import UpstreamResponse
from socialpub.domain.schemas.errors import build_error_body
from socialpub.platforms.bluesky import connector as bluesky
from socialpub.platforms.bluesky.xrpc import client_for, parse_origin
from socialpub.platforms.contract import AccountIdentity, Tokens
from tests.support.platforms.bluesky_calls import (
    DID,
    PDS,
    PLC,
    PUBLIC,
    SERVICE,
    BlueskyCall,
    lookup_call,
    make_jwt,
    make_refusal,
    make_upstream,
    xrpc_call,
)
from tests.support.platforms.scripted_upstream import NOW, check_finished, make_response

HANDLE = "alice.example.com"
PASSWORD = "abcd-efgh-ijkl-mnop"
ACCESS, REFRESH = make_jwt(exp=1_795_173_008), make_jwt(exp=1_802_941_808)
SESSION = {"accessJwt": ACCESS, "refreshJwt": REFRESH, "did": DID, "handle": HANDLE, "active": True}
LOST = ApiError("platform_unavailable", outcome=Outcome.AMBIGUOUS)
UNREACHED = ApiError("platform_unavailable", outcome=Outcome.NOT_SENT)
RESOLVE, CREATE = "com.atproto.identity.resolveHandle", "com.atproto.server.createSession"


def document(pds: Any = PDS, also: Any = (f"at://{HANDLE}",), did: str = DID, **service: Any) -> dict[str, Any]:
    entry = {"id": "#atproto_pds", "type": "AtprotoPersonalDataServer", "serviceEndpoint": pds} | service
    return {"id": did, "alsoKnownAs": list(also), "service": [entry]}


def resolving(reply: UpstreamResponse | ApiError, host: str = PUBLIC, handle: str = HANDLE) -> BlueskyCall:
    return lookup_call(RESOLVE, reply, host, params={"handle": handle})


def resolved(did: str = DID, host: str = PUBLIC) -> BlueskyCall:
    return resolving(make_response(200, {"did": did}), host)


def directory(body: Any, status: int = 200) -> BlueskyCall:
    return BlueskyCall("GET", f"{PLC}/{DID}", make_response(status, body))


def session(reply: UpstreamResponse | ApiError, host: str = PDS) -> BlueskyCall:
    return xrpc_call("POST", CREATE, reply, host, json={"identifier": DID, "password": PASSWORD})


def profile(reply: UpstreamResponse | ApiError) -> BlueskyCall:
    return xrpc_call("GET", "app.bsky.actor.getProfile", reply, PUBLIC, params={"actor": DID})


def log_in(up: Any, handle: str = HANDLE, password: str = PASSWORD) -> tuple[AccountIdentity, Tokens]:
    try:
        return bluesky.login(up, {"handle": handle, "password": password}, NOW)
    finally:
        check_finished(up)


def refused(up: Any, **fields: str) -> ApiError:
    with pytest.raises(ApiError) as caught:
        log_in(up, **fields)
    assert PASSWORD not in repr(vars(caught.value))
    return caught.value


def test_it_finds_the_account_and_opens_a_session_on_its_own_server() -> None:
    up = make_upstream(
        [resolved(), directory(document()), profile(make_response(200, {"displayName": " Alice A. "}))],
        [session(make_response(200, SESSION))],
    )
    identity, tokens = log_in(up)
    assert identity == AccountIdentity(DID, "Alice A.", {"handle": HANDLE, "pds": PDS})
    assert tokens == Tokens(ACCESS, REFRESH, 1_795_173_008_000)


@pytest.mark.parametrize(
    "typed",
    ["@alice.example.com", " Alice.Example.COM ", "at://alice.example.com", "\u202a@alice.example.com\u202c"],
)
def test_a_handle_is_taken_as_people_type_it(typed: str) -> None:
    up = make_upstream(
        [resolved(), directory(document()), profile(make_refusal(404, "NotFound"))],
        [session(make_response(200, SESSION))],
    )
    assert log_in(up, typed, f" {PASSWORD}\n")[0].extra["handle"] == HANDLE


@pytest.mark.parametrize(
    "reply",
    [make_refusal(502, "UpstreamFailure"), LOST, make_response(200, {}), make_response(200, {"displayName": ""})],
)
def test_without_a_profile_the_handle_is_the_name(reply: UpstreamResponse | ApiError) -> None:
    up = make_upstream([resolved(), directory(document()), profile(reply)], [session(make_response(200, SESSION))])
    assert log_in(up)[0].display_name == HANDLE


@pytest.mark.parametrize(
    "typed",
    ["", "alice", "alice@example.com", "alice..com", "alice.local", "a b.com", "alice.1", "alice.onion", "-.com"],
)
def test_what_is_no_handle_is_refused_without_a_call(typed: str) -> None:
    error = refused(make_upstream(), handle=typed)
    assert (error.code, error.outcome) == ("platform_auth_failed", Outcome.REJECTED)
    assert "alice.bsky.social" in build_error_body(error, "")["remediation"]


@pytest.mark.parametrize(
    "first", [make_refusal(400, "HandleNotFound"), make_response(200, {"did": "nonsense"}), LOST, UNREACHED]
)
def test_what_the_public_view_does_not_know_the_configured_server_may(first: UpstreamResponse | ApiError) -> None:
    up = make_upstream(
        [resolving(first), resolved(host=SERVICE), directory(document()), profile(LOST)],
        [session(make_response(200, SESSION))],
    )
    assert log_in(up)[0].platform_account_id == DID


@pytest.mark.parametrize("second", [make_refusal(400, "HandleNotFound"), LOST])
def test_a_handle_that_nobody_knows_is_refused(second: UpstreamResponse | ApiError) -> None:
    error = refused(make_upstream([resolving(make_refusal(400, "HandleNotFound")), resolving(second, SERVICE)]))
    assert (error.code, error.message) == ("platform_auth_failed", f"Bluesky knows no account @{HANDLE}.")


def test_when_nobody_can_be_asked_it_says_so() -> None:
    error = refused(make_upstream([resolving(UNREACHED), resolving(LOST, SERVICE)]))
    assert error.code == "platform_unavailable"


@pytest.mark.parametrize("also", [(), ("at://mallory.example.com",), (HANDLE,), (f"https://{HANDLE}",)])
def test_an_account_that_does_not_claim_the_handle_is_refused(also: tuple[str, ...]) -> None:
    error = refused(make_upstream([resolved(), directory(document(also=also))]))
    assert error.code == "platform_auth_failed"
    assert HANDLE in error.message


HOSTILE = [
    document(pds="http://10.0.0.1/path"),
    document(pds="https://pds.example.com/path"),
    document(pds="https://user:pw@pds.example.com"),
    document(pds="ftp://pds.example.com"),
    document(pds="https://[bad"),
    document(pds="https://pds.example.com:99999"),
    document(pds=7),
    document(id="#other"),
    document(type="Other"),
    {"id": DID, "alsoKnownAs": [f"at://{HANDLE}"], "service": "none"},
    {"id": DID, "alsoKnownAs": [f"at://{HANDLE}"], "service": [None, "x"]},
]


@pytest.mark.parametrize("body", HOSTILE)
def test_a_document_without_a_sound_server_is_refused(body: dict[str, Any]) -> None:
    error = refused(make_upstream([resolved(), directory(body)]))
    assert (error.code, error.message) == ("platform_auth_failed", "The account's DID document names no server.")


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (404, {}, "platform_auth_failed"),
        (410, {}, "platform_auth_failed"),
        (500, "<html>", "platform_unavailable"),
        (200, "<html>", "platform_unavailable"),
        (200, document(did="did:plc:somebodyelse"), "platform_unavailable"),
    ],
)
def test_a_document_that_cannot_be_had_stops_the_login(status: int, body: Any, code: str) -> None:
    assert refused(make_upstream([resolved(), directory(body, status)])).code == code


def test_an_absolute_service_id_and_a_trailing_slash_are_understood() -> None:
    body = document(pds=f"{PDS}/", id=f"{DID}#atproto_pds")
    up = make_upstream([resolved(), directory(body), profile(LOST)], [session(make_response(200, SESSION))])
    assert log_in(up)[0].extra["pds"] == PDS


def test_a_did_logs_in_too_and_its_handle_is_checked() -> None:
    up = make_upstream([directory(document()), resolved(), profile(LOST)], [session(make_response(200, SESSION))])
    assert log_in(up, DID)[0].extra == {"handle": HANDLE, "pds": PDS}


@pytest.mark.parametrize(
    "calls",
    [
        [resolved("did:plc:somebodyelsexx")],
        [resolving(make_refusal(400, "HandleNotFound")), resolving(make_refusal(400, "HandleNotFound"), SERVICE)],
    ],
)
def test_a_handle_that_does_not_lead_back_is_shown_as_invalid(calls: list[BlueskyCall]) -> None:
    up = make_upstream([directory(document()), *calls, profile(LOST)], [session(make_response(200, SESSION))])
    assert log_in(up, DID)[0].extra["handle"] == "handle.invalid"


def test_a_did_web_is_looked_up_through_the_guard() -> None:
    did = "did:web:alice.example.com%3A8443"
    body = document(did=did)
    sent = {"identifier": did, "password": PASSWORD}
    up = make_upstream(
        [resolved(did), xrpc_call("GET", "app.bsky.actor.getProfile", LOST, PUBLIC, params={"actor": did})],
        [
            BlueskyCall("GET", "https://alice.example.com:8443/.well-known/did.json", make_response(200, body)),
            xrpc_call("POST", CREATE, make_response(200, SESSION | {"did": did}), json=sent),
        ],
    )
    assert log_in(up)[0].platform_account_id == did


def test_a_server_that_is_configured_is_called_without_the_guard() -> None:
    host = "http://localhost:2583"
    settings = {"service": host, "public_api": host, "plc_directory": "http://localhost:2582", "video_service": ""}
    up = make_upstream(
        [
            resolved(host=host),
            BlueskyCall("GET", f"http://localhost:2582/{DID}", make_response(200, document(pds=host))),
            session(make_response(200, SESSION), host),
            xrpc_call("GET", "app.bsky.actor.getProfile", LOST, host, params={"actor": DID}),
        ],
        **settings,
    )
    assert log_in(up)[0].extra["pds"] == host


def test_a_server_that_the_guard_refuses_is_explained() -> None:
    closed = rule_error(
        "media.url.disallowed", "This server does not call https://pds.example.com: its address is private."
    )
    error = refused(make_upstream([resolved(), directory(document())], [session(closed)]))
    assert (error.code, error.rule) == ("platform_auth_failed", None)
    assert "platforms.bluesky.service" in build_error_body(error, "")["remediation"]


REFUSALS = [
    (
        make_refusal(401, "AuthenticationRequired", "Invalid identifier or password"),
        "platform_auth_failed",
        "app password",
    ),
    (make_refusal(401, "AuthFactorTokenRequired"), "platform_auth_failed", "app password instead of"),
    (make_refusal(401, "AccountTakedown"), "platform_auth_failed", "Restore"),
    (make_refusal(400, "InvalidRequest"), "platform_auth_failed", "app password"),
    (make_refusal(429, "RateLimitExceeded", retry_after="290"), "platform_unavailable", "later"),
    (make_refusal(500, "InternalServerError"), "platform_unavailable", "later"),
    (make_response(502, "<html>bad gateway</html>"), "platform_unavailable", "later"),
    (make_response(200, SESSION | {"did": "did:plc:somebodyelse"}), "platform_unavailable", "later"),
    (make_response(200, {"accessJwt": ACCESS, "did": DID}), "platform_unavailable", "later"),
    (make_response(200, "{"), "platform_unavailable", "later"),
    (make_response(200, SESSION | {"active": False, "status": "deactivated"}), "platform_auth_failed", "Restore"),
]


@pytest.mark.parametrize(("reply", "code", "advice"), REFUSALS)
def test_a_refused_login_says_what_to_do(reply: UpstreamResponse, code: str, advice: str) -> None:
    error = refused(make_upstream([resolved(), directory(document())], [session(reply)]))
    assert error.code == code
    assert advice in build_error_body(error, "")["remediation"]
    assert error.platform == "bluesky"
    assert error.stale_token is False
    assert ACCESS not in repr(error.platform_response)


def test_a_wrong_password_shows_what_bluesky_said_and_not_the_password() -> None:
    said = f"Invalid identifier or password {PASSWORD}"
    error = refused(
        make_upstream([resolved(), directory(document())], [session(make_refusal(401, "AuthenticationRequired", said))])
    )
    clean = "Invalid identifier or password [hidden]"
    assert error.message == f"Bluesky did not log in: {clean}"
    assert error.platform_response == {"status": 401, "body": {"error": "AuthenticationRequired", "message": clean}}


def test_a_limit_says_how_long() -> None:
    reply = make_refusal(429, "RateLimitExceeded", retry_after="290")
    error = refused(make_upstream([resolved(), directory(document())], [session(reply)]))
    assert (error.retry_after, error.outcome) == (290, Outcome.THROTTLED)


@pytest.mark.parametrize(
    ("access", "expires"),
    [
        (make_jwt(exp=1_795_173_008), 1_795_173_008_000),
        (make_jwt(exp="soon"), None),
        (make_jwt(exp=-1), None),
        (make_jwt(exp=10**30), None),
        (make_jwt(), None),
        ("opaque", None),
        ("a.b.c", None),
        ("a.W10.c", None),
    ],
)
def test_the_end_of_a_token_is_read_where_it_can_be(access: str, expires: int | None) -> None:
    up = make_upstream(
        [resolved(), directory(document()), profile(LOST)],
        [session(make_response(200, SESSION | {"accessJwt": access}))],
    )
    assert log_in(up)[1].expires_at_ms == expires


# --- The life of a session -------------------------------------------------------------------------------------------

RENEW, END = "com.atproto.server.refreshSession", "com.atproto.server.deleteSession"
BEARER = {"Authorization": "Bearer refresh-1"}


def test_refresh_sends_only_the_refresh_token_and_keeps_private_data() -> None:
    up = make_upstream(
        guarded=[xrpc_call("POST", RENEW, make_response(200, SESSION), headers=BEARER)],
        tokens=Tokens("access-1", "refresh-1", 1, {"kept": True}),
    )
    assert bluesky.refresh(up, NOW) == Tokens(ACCESS, REFRESH, 1_795_173_008_000, {"kept": True})
    check_finished(up)


ENDED = [
    (make_refusal(400, "ExpiredToken", "Token has been revoked"), "platform_auth_failed", Outcome.REJECTED),
    (make_refusal(400, "InvalidToken"), "platform_auth_failed", Outcome.REJECTED),
    (make_refusal(401, "AccountTakedown"), "platform_auth_failed", Outcome.REJECTED),
    (make_refusal(401, "AuthMissing"), "platform_auth_failed", Outcome.REJECTED),
    (make_response(401, "<html>"), "platform_auth_failed", Outcome.REJECTED),
    (make_refusal(403, "AccountNotFound"), "platform_auth_failed", Outcome.REJECTED),
    (make_refusal(429, "RateLimitExceeded"), "platform_unavailable", Outcome.THROTTLED),
    (make_refusal(500, "InternalServerError"), "platform_unavailable", Outcome.NOT_SENT),
    (make_response(200, SESSION | {"did": "did:plc:somebodyelse"}), "platform_unavailable", Outcome.AMBIGUOUS),
    (make_response(200, "<html>"), "platform_unavailable", Outcome.AMBIGUOUS),
    (LOST, "platform_unavailable", Outcome.AMBIGUOUS),
    (UNREACHED, "platform_unavailable", Outcome.NOT_SENT),
]


@pytest.mark.parametrize(("reply", "code", "outcome"), ENDED)
def test_only_a_clear_no_to_a_refresh_asks_for_a_new_connection(
    reply: UpstreamResponse | ApiError, code: str, outcome: Outcome
) -> None:
    up = make_upstream(guarded=[xrpc_call("POST", RENEW, reply, headers=BEARER)])
    with pytest.raises(ApiError) as caught:
        bluesky.refresh(up, NOW)
    assert (caught.value.code, caught.value.outcome, caught.value.stale_token) == (code, outcome, False)
    assert "refresh-1" not in repr(vars(caught.value))


def test_without_a_refresh_token_refresh_asks_to_reconnect() -> None:
    up = make_upstream(tokens=Tokens("access-1"))
    with pytest.raises(ApiError) as caught:
        bluesky.refresh(up, NOW)
    assert caught.value.code == "platform_auth_failed"
    bluesky.revoke(up)


@pytest.mark.parametrize(
    "reply", [make_response(200, b""), make_refusal(400, "ExpiredToken"), make_refusal(400, "InvalidToken")]
)
def test_ending_a_session_that_is_over_is_fine(reply: UpstreamResponse) -> None:
    up = make_upstream(guarded=[xrpc_call("POST", END, reply, headers=BEARER)])
    bluesky.revoke(up)
    check_finished(up)


@pytest.mark.parametrize("reply", [make_refusal(500, "InternalServerError"), LOST])
def test_ending_a_session_may_fail(reply: UpstreamResponse | ApiError) -> None:
    with pytest.raises(ApiError):
        bluesky.revoke(make_upstream(guarded=[xrpc_call("POST", END, reply, headers=BEARER)]))


def test_account_without_a_known_server_uses_the_configured_one() -> None:
    up = make_upstream([xrpc_call("POST", RENEW, make_response(200, SESSION), SERVICE, headers=BEARER)])
    up.account.extra.pop("pds")  # type: ignore[attr-defined]
    bluesky.refresh(up, NOW)
    check_finished(up)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://a.example", "https://a.example"),
        ("HTTPS://A.Example/path?q#f", "https://a.example"),
        ("http://localhost:2583/xrpc", "http://localhost:2583"),
        ("https://[::1]:8443/", "https://[::1]:8443"),
        ("https://user@a.example", ""),
        ("ftp://a.example", ""),
        ("https://", ""),
        ("https://a:99999", ""),
        ("https://[bad", ""),
        ("", ""),
    ],
)
def test_an_origin_is_taken_only_from_a_plain_web_address(url: str, expected: str) -> None:
    assert parse_origin(url) == expected


def test_only_configured_hosts_are_called_without_the_guard() -> None:
    up = make_upstream(service="https://a.example", public_api="https://b.example")
    for url, trusted in (
        ("https://a.example/x", True),
        ("https://B.example/", True),
        ("https://a.example:8443/x", False),
        ("http://a.example/x", False),
        ("https://a.example@evil.example/", False),
        ("https://evil.example/https://a.example", False),
    ):
        assert client_for(up, url) is (up.http if trusted else up.guarded)
