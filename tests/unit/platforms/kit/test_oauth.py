"""Shared OAuth client of the platforms: authorize URL, code exchange, refresh, revocation."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from socialpub.base.errors import ApiError, Outcome
from socialpub.platforms.contract import Tokens
from socialpub.platforms.kit import oauth
from socialpub.simulator.oauth import CLIENT_ID, CLIENT_SECRET
from tests.support.fixed_clock import NOON
from tests.support.oauth_server import (
    CALLBACK,
    HOST,
    VERIFIER,
    OAuthTransport,
    SentRequest,
    make_platform,
    make_response,
    make_site,
    make_upstream,
    open_setup,
)

BASIC = "Basic c2ltdWxhdG9yLWFwcDpzaW11bGF0b3ItYXBwLXNlY3JldA=="
CODE = "the-code-from-the-callback"


def exchange(wire: OAuthTransport, code: str = CODE, *, changes: dict[str, Any] | None = None, **row: Any) -> Tokens:
    return oauth.exchange(make_platform(**row), wire, make_site(**(changes or {})), code, CALLBACK, VERIFIER, NOON)


def refused(wire: OAuthTransport, **row: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        exchange(wire, **row)
    return caught.value


# --- Asking ----------------------------------------------------------------------------------------------------------


def test_authorize_url_names_client_scopes_and_redirect() -> None:
    url = oauth.build_authorize_url(make_platform(), make_site(), CALLBACK, "st", VERIFIER)
    assert url == (
        f"{HOST}/authorize?response_type=code&client_id=simulator-app"
        "&redirect_uri=https%3A%2F%2Fpub.example%2Fconnect%2Fdemo%2Fcallback&scope=read%20write&state=st"
    )


def test_a_row_changes_separator_name_challenge_and_extras() -> None:
    row = {"separator": ",", "client_id_name": "client_key", "pkce": True, "authorize_extra": {"prompt": "x y"}}
    url = oauth.build_authorize_url(
        make_platform(**row), make_site(authorize_url=f"{HOST}/a?b=1"), CALLBACK, "st", VERIFIER
    )
    assert url.startswith(f"{HOST}/a?b=1&response_type=code")
    assert dict(parse_qsl(urlsplit(url).query)) == {
        "b": "1",
        "response_type": "code",
        "client_key": CLIENT_ID,
        "redirect_uri": CALLBACK,
        "scope": "read,write",
        "state": "st",
        "code_challenge": "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",  # RFC 7636, appendix B
        "code_challenge_method": "S256",
        "prompt": "x y",
    }


FORM = {"grant_type": "authorization_code", "code": CODE, "redirect_uri": CALLBACK}


@pytest.mark.parametrize(
    "row, changes, headers, form",
    [
        ({}, {}, {}, {**FORM, "client_id": CLIENT_ID, "client_secret": CLIENT_SECRET}),
        ({"basic": True}, {}, {"Authorization": BASIC}, FORM),
        ({"basic": True}, {"client_secret": ""}, {}, {**FORM, "client_id": CLIENT_ID}),
        (
            {"client_id_name": "client_key", "pkce": True},
            {},
            {},
            {**FORM, "code_verifier": VERIFIER, "client_key": CLIENT_ID, "client_secret": CLIENT_SECRET},
        ),
        (
            {"basic": True, "token_extra": {"continuous_refresh": "true"}},
            {},
            {"Authorization": BASIC},
            {**FORM, "continuous_refresh": "true"},
        ),
    ],
)
def test_a_code_is_exchanged_in_the_rows_own_way(
    row: dict[str, Any], changes: dict[str, Any], headers: dict[str, str], form: dict[str, str]
) -> None:
    wire = OAuthTransport(planned=[make_response(200, {"access_token": "a"})])
    exchange(wire, changes=changes, **row)
    assert wire.sent == [SentRequest("POST", f"{HOST}/token", {"Accept": "application/json", **headers}, form)]


@pytest.mark.parametrize("row", [{}, {"pkce": True}, {"basic": True}])
def test_the_whole_dance_with_the_fake_server(row: dict[str, Any]) -> None:
    it = open_setup(refreshing="rotating", pkce=row.get("pkce", False), basic=row.get("basic", False))
    url = oauth.build_authorize_url(make_platform(**row), make_site(), CALLBACK, "st", VERIFIER)
    found = exchange(it.wire, it.press(url)["code"], **row)
    assert it.server.access(found.access).account == "bob"
    assert found.expires_at_ms == NOON + 7_200_000
    assert found.private["scopes"] == ["read", "write"]
    fresh = oauth.refresh(make_platform(**row), make_upstream(it.wire, found), NOON)
    assert fresh.refresh not in (None, found.refresh)
    assert it.server.access(fresh.access).state == "alive"
    oauth.revoke(make_platform(**row), make_upstream(it.wire, fresh), f"{HOST}/revoke")
    assert it.server.access(fresh.access).state == "revoked"


# --- Reading ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body, expected",
    [
        ({"access_token": "a"}, Tokens("a", None, None, {"scopes": ["read", "write"]})),
        (  # LinkedIn
            {"access_token": "a", "expires_in": 5184000, "scope": "read,write"},
            Tokens("a", None, NOON + 5_184_000_000, {"scopes": ["read", "write"]}),
        ),
        (  # X
            {"access_token": "a", "expires_in": 7200, "scope": "read write", "refresh_token": "r"},
            Tokens("a", "r", NOON + 7_200_000, {"scopes": ["read", "write"]}),
        ),
        (  # Pinterest
            {"access_token": "a", "refresh_token": "r", "refresh_token_expires_at": 1800000000, "scope": "read, write"},
            Tokens("a", "r", None, {"refreshExpiresAtMs": 1_800_000_000_000, "scopes": ["read", "write"]}),
        ),
        (  # TikTok
            {"open_id": "o", "access_token": "a", "refresh_token": "r", "refresh_expires_in": "60", "scope": "read"},
            Tokens("a", "r", None, {"refreshExpiresAtMs": NOON + 60_000, "scopes": ["read"]}),
        ),
        (  # Instagram, as documented and as it is
            {"data": [{"access_token": "a", "user_id": 1, "permissions": "read,write"}]},
            Tokens("a", None, None, {"scopes": ["read", "write"]}),
        ),
        ({"access_token": "a", "permissions": ["read"]}, Tokens("a", None, None, {"scopes": ["read"]})),
        (
            {"access_token": "a", "expires_in": -1, "refresh_token": ""},
            Tokens("a", private={"scopes": ["read", "write"]}),
        ),
        ({"access_token": "a", "expires_in": True}, Tokens("a", private={"scopes": ["read", "write"]})),
    ],
)
def test_every_shape_of_answer_is_read(body: Any, expected: Tokens) -> None:
    assert exchange(OAuthTransport(planned=[make_response(200, body)])) == expected


def test_a_missing_scope_refuses_the_connection_and_names_it() -> None:
    wire = OAuthTransport(planned=[make_response(200, {"access_token": "a", "scope": "read"})])
    error = refused(wire, required=("read", "write"))
    assert (error.code, error.status, error.outcome) == ("platform_auth_failed", 424, Outcome.REJECTED)
    assert "write" in error.message
    assert "read" not in error.message.replace("write", "")
    assert "every requested permission" in str(error.remediation)


def test_scopes_that_are_not_needed_may_be_missing() -> None:
    wire = OAuthTransport(planned=[make_response(200, {"access_token": "a", "scope": "read"})])
    assert exchange(wire, required=("read",)).private["scopes"] == ["read"]


HELD = Tokens("old", "r1", NOON, {"scopes": ["read"], "refreshExpiresAtMs": NOON + 5, "page": "kept"})


@pytest.mark.parametrize(
    "body, expected",
    [
        ({"access_token": "n"}, Tokens("n", "r1", None, HELD.private)),
        (
            {"access_token": "n", "refresh_token": "r2"},
            Tokens("n", "r2", None, {"scopes": ["read"], "page": "kept"}),
        ),
        (
            {"access_token": "n", "refresh_token": "r2", "refresh_token_expires_in": 60, "scope": "read write"},
            Tokens("n", "r2", None, {"scopes": ["read", "write"], "page": "kept", "refreshExpiresAtMs": NOON + 60_000}),
        ),
    ],
)
def test_a_refresh_keeps_what_the_answer_leaves_out(body: Any, expected: Tokens) -> None:
    wire = OAuthTransport(planned=[make_response(200, body)])
    assert oauth.refresh(make_platform(), make_upstream(wire, HELD), NOON) == expected
    assert wire.sent[0].form == {
        "grant_type": "refresh_token",
        "refresh_token": "r1",
        "client_id": CLIENT_ID,
        "client_secret": CLIENT_SECRET,
    }


def test_without_a_refresh_token_nothing_is_called() -> None:
    wire = OAuthTransport()
    with pytest.raises(ApiError) as caught:
        oauth.refresh(make_platform(), make_upstream(wire, Tokens("a")), NOON)
    assert caught.value.code == "platform_auth_failed"
    assert wire.sent == []


# --- Refusals --------------------------------------------------------------------------------------------------------

AUTH, OURS, BUSY = "platform_auth_failed", "platform_not_enabled", "platform_unavailable"


@pytest.mark.parametrize(
    "status, body, code, outcome",
    [
        (400, {"error": "invalid_grant", "error_description": "spent"}, AUTH, Outcome.REJECTED),
        (
            400,
            {"error": "invalid_request", "error_description": "Value passed for the token was invalid."},
            AUTH,
            Outcome.REJECTED,
        ),
        (200, {"error": "invalid_grant", "error_description": "expired", "log_id": "1"}, AUTH, Outcome.REJECTED),
        (
            400,
            {"error_type": "OAuthException", "code": 400, "error_message": "This code was used"},
            AUTH,
            Outcome.REJECTED,
        ),
        (400, {"error": {"message": "expired", "type": "OAuthException", "code": 190}}, AUTH, Outcome.REJECTED),
        (401, {"code": 2, "message": "Authentication failed."}, AUTH, Outcome.REJECTED),
        (403, "<html>no</html>", AUTH, Outcome.REJECTED),
        (401, {"error": "invalid_client"}, OURS, Outcome.REJECTED),
        (
            200,
            {"error": "invalid_client", "error_description": "Client key or secret is incorrect."},
            OURS,
            Outcome.REJECTED,
        ),
        (
            401,
            {"error": "unauthorized_client", "error_description": "Missing valid authorization header"},
            OURS,
            Outcome.REJECTED,
        ),
        (400, {"error": {"message": "Error validating client secret.", "code": 1}}, OURS, Outcome.REJECTED),
        (
            400,
            {"error_type": "OAuthException", "code": 400, "error_message": "Invalid platform app"},
            OURS,
            Outcome.REJECTED,
        ),
        (429, {"error": "slow_down"}, BUSY, Outcome.THROTTLED),
        (400, {"error": {"message": "limit", "code": 4}}, BUSY, Outcome.THROTTLED),
        (400, {"error": {"message": "later", "code": 2}}, BUSY, Outcome.AMBIGUOUS),
        (400, {"error": {"message": "later", "code": 99, "is_transient": True}}, BUSY, Outcome.AMBIGUOUS),
        (500, {}, BUSY, Outcome.AMBIGUOUS),
        (503, "<html>", BUSY, Outcome.AMBIGUOUS),
        (408, {}, BUSY, Outcome.AMBIGUOUS),
        (302, "", BUSY, Outcome.AMBIGUOUS),
        (200, "<html>We will be right back</html>", BUSY, Outcome.AMBIGUOUS),
        (200, {"access_token": ""}, BUSY, Outcome.AMBIGUOUS),
        (200, {"access_token": 7}, BUSY, Outcome.AMBIGUOUS),
        (200, ["unexpected"], BUSY, Outcome.AMBIGUOUS),
    ],
)
def test_a_refusal_is_told_from_a_fault_of_ours_and_from_bad_weather(
    status: int, body: Any, code: str, outcome: Outcome
) -> None:
    error = refused(OAuthTransport(planned=[make_response(status, body)]))
    assert (error.code, error.outcome, error.platform) == (code, outcome, "demo")


@pytest.mark.parametrize(
    "body, code",
    [
        ({"code": 2, "message": "Authentication failed."}, OURS),  # Pinterest
        ("", OURS),
        ({"error": "invalid_grant"}, AUTH),
    ],
)
def test_with_http_basic_401_is_about_the_app_unless_it_says_otherwise(body: Any, code: str) -> None:
    assert refused(OAuthTransport(planned=[make_response(401, body)]), basic=True).code == code


def test_a_fault_of_ours_names_the_settings() -> None:
    error = refused(OAuthTransport(planned=[make_response(401, {"error": "invalid_client"})]))
    assert "platforms.demo.client_id" in str(error.remediation)
    assert "platforms.demo.client_secret" in str(error.remediation)


def test_a_throttled_call_says_for_how_long() -> None:
    assert refused(OAuthTransport(planned=[make_response(429, {}, **{"retry-after": "7"})])).retry_after == 7


def test_a_network_failure_keeps_its_outcome() -> None:
    lost = ApiError("platform_unavailable", "lost", outcome=Outcome.AMBIGUOUS)
    assert refused(OAuthTransport(planned=[lost])) is lost


def test_no_secret_of_the_call_stands_in_an_error() -> None:
    echo = {"error": "invalid_grant", "error_description": f"{CODE} / {CLIENT_SECRET}", "more": [{"v": VERIFIER}]}
    error = refused(OAuthTransport(planned=[make_response(400, echo)]), pkce=True)
    said = f"{error.message} {error.platform_response}"
    for secret in (CODE, CLIENT_SECRET, VERIFIER):
        assert secret not in said
    assert "invalid_grant" in said


def test_half_an_answer_is_not_shown_because_it_may_hold_a_token() -> None:
    error = refused(OAuthTransport(planned=[make_response(200, '{"access_token":"secret-token-a')]))
    assert error.platform_response == {"status": 200}


# --- Revoking --------------------------------------------------------------------------------------------------------


def test_revoking_ends_the_refresh_token_first_and_then_the_access_token() -> None:
    wire = OAuthTransport(planned=[make_response(200, {"revoked": True}), make_response(200, "")])
    oauth.revoke(make_platform(), make_upstream(wire, Tokens("acc", "ref")), f"{HOST}/revoke")
    client = {"client_id": CLIENT_ID, "client_secret": CLIENT_SECRET}
    assert [(one.method, one.url, one.form) for one in wire.sent] == [
        ("POST", f"{HOST}/revoke", {"token": "ref", **client}),
        ("POST", f"{HOST}/revoke", {"token": "acc", **client}),
    ]


def test_only_the_tokens_that_are_named_are_revoked() -> None:
    wire = OAuthTransport(planned=[make_response(200, {})])
    oauth.revoke(make_platform(), make_upstream(wire, Tokens("acc", "ref")), f"{HOST}/revoke", ["acc"])
    assert [one.form["token"] for one in wire.sent] == ["acc"]


@pytest.mark.parametrize(
    "answer", [make_response(400, {"error": "invalid_request"}), make_response(200, {"error": "invalid_grant"})]
)
def test_a_token_that_is_over_already_is_what_was_asked_for(answer: Any) -> None:
    oauth.revoke(make_platform(), make_upstream(OAuthTransport(planned=[answer]), Tokens("acc")), f"{HOST}/revoke")


@pytest.mark.parametrize("status, code", [(401, OURS), (500, BUSY)])
def test_a_revocation_that_did_not_happen_is_told(status: int, code: str) -> None:
    wire = OAuthTransport(planned=[make_response(status, {"error": "invalid_client"} if status == 401 else {})])
    with pytest.raises(ApiError) as caught:
        oauth.revoke(make_platform(), make_upstream(wire, Tokens("acc")), f"{HOST}/revoke")
    assert caught.value.code == code
