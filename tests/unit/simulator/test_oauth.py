"""OAuth authorization server of the fake platforms: consent, codes, refresh, revocation."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest

from socialpub.simulator.contract import Call
from socialpub.simulator.forms import basic, bearer
from socialpub.simulator.oauth import CLIENT_ID, CLIENT_SECRET
from tests.support.oauth_server import CALLBACK, HOST, VERIFIER, OAuthSetup, open_setup

CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"  # of VERIFIER, RFC 7636, appendix B
CLIENT = {"client_id": CLIENT_ID, "client_secret": CLIENT_SECRET}


def address(**changes: str | None) -> str:
    given: dict[str, str | None] = {
        "response_type": "code",
        "client_id": CLIENT_ID,
        "redirect_uri": CALLBACK,
        "scope": "read write",
        "state": "s1",
        **changes,
    }
    return f"{HOST}/authorize?{urlencode({name: value for name, value in given.items() if value is not None})}"


def post(stage: OAuthSetup, path: str = "/token", **form: str) -> tuple[int, Any]:
    answer = stage.wire.answer("POST", HOST + path, data={**CLIENT, **form})
    return answer.status, answer.body


def exchange(stage: OAuthSetup, code: str, **changes: str) -> tuple[int, Any]:
    return post(stage, **{"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK, **changes})


def connect(stage: OAuthSetup) -> dict[str, Any]:
    status, body = exchange(stage, stage.press(address())["code"])
    assert status == 200
    return dict(body)


def refresh(stage: OAuthSetup, token: str) -> tuple[int, Any]:
    return post(stage, grant_type="refresh_token", refresh_token=token)


# --- Consent ---------------------------------------------------------------------------------------------------------


def test_a_consent_comes_back_with_a_code_and_the_state() -> None:
    back = open_setup().press(address())
    assert back["state"] == "s1"
    assert back["code"]


def test_a_denial_comes_back_in_the_platforms_own_words() -> None:
    it = open_setup(denial={"error": "access_denied", "error_reason": "user_denied"})
    it.server.consent.mode = "deny"
    assert it.press(address()) == {"error": "access_denied", "error_reason": "user_denied", "state": "s1"}


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"client_id": "another"}, "client_id"),
        ({"client_id": None}, "client_id"),
        ({"redirect_uri": None}, "redirect_uri"),
        ({"redirect_uri": CALLBACK + "/"}, "redirect_uri"),
        ({"response_type": "token"}, "response_type"),
        ({}, "code_challenge"),
        ({"code_challenge": CHALLENGE, "code_challenge_method": "plain"}, "code_challenge"),
    ],
)
def test_a_browser_is_not_sent_on_from_a_request_that_is_wrong(changes: dict[str, Any], said: str) -> None:
    it = open_setup(pkce=True)
    it.server.redirect_uris = frozenset({CALLBACK})
    answer = it.look(address(**changes))
    assert answer.status == 400
    assert said in str(answer.body)


def test_a_page_asks_first_and_its_buttons_decide() -> None:
    it = open_setup()
    it.server.consent.mode = "form"
    page = it.look(address(state='"><script>'))
    assert page.status == 200
    assert 'id="allow"' in str(page.body)
    assert "<script>" not in str(page.body)
    assert it.press(address(), decision="deny") == {"error": "access_denied", "state": "s1"}
    status, body = exchange(it, it.press(address(), decision="allow", account="alice", ticked="write")["code"])
    assert status == 200
    assert body["scope"] == "write"
    assert it.server.access(body["access_token"]).account == "alice"


def test_the_owner_may_untick_scopes_and_be_another_account() -> None:
    it = open_setup(scopes_in_callback=True, fragment="_")
    it.server.consent.without, it.server.consent.account = frozenset({"write"}), "alice"
    location = it.look(address(scope="read,write")).headers["location"]
    assert location.endswith("#_")
    back = dict(parse_qsl(urlsplit(location).query))
    assert back["scopes"] == "read"
    assert exchange(it, back["code"])[1]["scope"] == "read"


# --- Codes -----------------------------------------------------------------------------------------------------------


def test_a_code_works_once() -> None:
    it = open_setup()
    code = it.press(address())["code"]
    assert exchange(it, code)[0] == 200
    assert exchange(it, code) == (
        400,
        {"error": "invalid_grant", "error_description": "The code is invalid, expired or was used before."},
    )


@pytest.mark.parametrize("seconds, status", [(29, 200), (30, 400)])
def test_a_code_lives_for_its_time(seconds: int, status: int) -> None:
    it = open_setup(code_seconds=30)
    code = it.press(address())["code"]
    it.clock.ms += seconds * 1000
    assert exchange(it, code)[0] == status


def test_the_redirect_uri_of_a_code_is_exact() -> None:
    it = open_setup()
    assert exchange(it, it.press(address())["code"], redirect_uri=CALLBACK + "/")[1]["error"] == "invalid_grant"


@pytest.mark.parametrize("verifier, status", [(VERIFIER, 200), (VERIFIER[:-1], 400), ("", 400)])
def test_the_verifier_of_a_code_is_checked(verifier: str, status: int) -> None:
    it = open_setup(pkce=True)
    code = it.press(address(code_challenge=CHALLENGE, code_challenge_method="S256"))["code"]
    assert exchange(it, code, code_verifier=verifier)[0] == status


@pytest.mark.parametrize("client", [{"client_id": "x"}, {"client_secret": "x"}, {"client_secret": ""}])
def test_the_app_has_to_say_who_it_is(client: dict[str, str]) -> None:
    it = open_setup()
    assert exchange(it, it.press(address())["code"], **client)[1]["error"] == "invalid_client"


@pytest.mark.parametrize(
    "header, status",
    [("Basic c2ltdWxhdG9yLWFwcDpzaW11bGF0b3ItYXBwLXNlY3JldA==", 200), ("Basic eDp5", 401), ("Basic é", 401), ("", 401)],
)
def test_a_platform_with_basic_takes_nothing_else(header: str, status: int) -> None:
    it = open_setup(basic=True)
    form = {"grant_type": "authorization_code", "code": it.press(address())["code"], "redirect_uri": CALLBACK, **CLIENT}
    assert it.wire.answer("POST", f"{HOST}/token", {"authorization": header}, data=form).status == status


# --- Refreshing ------------------------------------------------------------------------------------------------------


def test_without_refresh_tokens_none_is_given() -> None:
    assert "refresh_token" not in connect(open_setup())


def test_a_lasting_refresh_token_stays_the_same() -> None:
    it = open_setup(refreshing="same", refresh_seconds=1000)
    first = connect(it)
    for _ in range(2):
        assert refresh(it, first["refresh_token"])[1]["refresh_token"] == first["refresh_token"]
    it.clock.ms += 1_000_000
    assert refresh(it, first["refresh_token"])[0] == 400


def test_a_rotating_refresh_token_works_once() -> None:
    it = open_setup(refreshing="rotating")
    first = connect(it)
    status, second = refresh(it, first["refresh_token"])
    assert status == 200
    assert second["refresh_token"] != first["refresh_token"]
    assert refresh(it, first["refresh_token"])[1]["error"] == "invalid_grant"
    assert refresh(it, second["refresh_token"])[0] == 200


def test_a_replayed_refresh_token_may_end_the_whole_session() -> None:
    it = open_setup(refreshing="fatal")
    first = connect(it)
    second = refresh(it, first["refresh_token"])[1]
    assert refresh(it, first["refresh_token"])[0] == 400
    assert refresh(it, second["refresh_token"])[0] == 400
    assert it.server.access(second["access_token"]).state == "revoked"


def test_access_tokens_end_with_the_labs_clock() -> None:
    it = open_setup(access_seconds=60)
    token = connect(it)["access_token"]
    assert it.server.access(token).state == "alive"
    it.clock.ms += 60_000
    assert it.server.access(token).state == "expired"
    assert it.server.access("made up").state == "unknown"


def test_tokens_end_when_the_lab_says_so_and_only_those() -> None:
    it = open_setup(refreshing="rotating")
    alice, bob = it.server.issue("alice", ("read",)), it.server.issue("bob", ("read",))
    it.server.end_tokens("alice", access=True, refresh=True)
    assert (it.server.access(alice.access).state, it.server.access(bob.access).state) == ("expired", "alive")
    assert alice.refresh
    assert bob.refresh
    assert refresh(it, alice.refresh)[0] == 400
    assert refresh(it, bob.refresh)[0] == 200
    it.server.end_tokens(None, access=False, refresh=True)
    assert it.server.access(bob.access).state == "alive"


def test_access_token_is_exchanged_for_a_longer_one_where_supported() -> None:
    it = open_setup()
    short = it.server.issue("alice", ("read",), 3600)
    assert it.server.renew(short.access, 5_184_000, min_age=86_400) is None
    long = it.server.renew(short.access, 5_184_000)
    assert long is not None
    assert (long.account, long.expires_in, long.refresh) == ("alice", 5_184_000, None)
    it.clock.ms += 3_600_000
    assert it.server.access(short.access).state == "expired"
    assert it.server.access(long.access).state == "alive"
    assert it.server.renew(short.access, 5_184_000) is None
    it.server.end_tokens("alice", access=False, refresh=True)
    assert it.server.renew(long.access, 5_184_000) is None


def test_revoking_ends_the_session_and_an_unknown_token_is_no_error() -> None:
    it = open_setup(refreshing="rotating")
    given = connect(it)
    assert post(it, "/revoke", token="unknown") == (200, {})
    assert it.server.access(given["access_token"]).state == "alive"
    assert post(it, "/revoke", token=given["refresh_token"]) == (200, {})
    assert it.server.access(given["access_token"]).state == "revoked"
    assert refresh(it, given["refresh_token"])[0] == 400
    assert post(it, "/revoke", token="x", client_secret="wrong")[0] == 401


def test_a_permission_taken_back_ends_everything_at_once() -> None:
    it = open_setup(refreshing="same")
    given = connect(it)
    it.server.end_grants("bob")
    assert it.server.access(given["access_token"]).state == "revoked"


def test_an_unknown_grant_type_is_refused() -> None:
    assert post(open_setup(), grant_type="password")[1]["error"] == "unsupported_grant_type"


def test_bearer_tokens_stand_in_the_header_or_the_parameters() -> None:
    header = Call("GET", "/", HOST, {"access_token": ["two"]}, {"authorization": "Bearer one"})
    assert bearer(header) == "one"
    assert bearer(Call("GET", "/", HOST, {"access_token": ["two"]})) == "two"
    assert bearer(Call("GET", "/", HOST)) == ""
    assert basic(header) == ("", "")
