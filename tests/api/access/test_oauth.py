"""Signing in from an assistant: consent, codes, the keys that come of them, and attacks."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from pydantic import ValidationError

from socialpub.base.config import Settings
from socialpub.base.runtime import DAY_MS
from socialpub.domain.background import periodic_tasks
from socialpub.domain.identity import oauth_grants
from socialpub.domain.identity.oauth_grants import CLIENTS_MAX, CODE_KEPT_MS, CODE_MS, CODES_MAX, NEW_CLIENT_MS
from socialpub.simulator.server import SimulatorThread
from socialpub.store.schema.models import ApiKey, AuditEntry, AuthorizationCode, OAuthClient, User
from tests.support.app_server import AppServer, Person, running_server
from tests.support.dashboard_forms import PROOF_EXPIRED, needs_password
from tests.support.oauth_assistant import (
    BACK,
    ENDPOINT,
    SETTINGS,
    VERIFIER,
    Assistant,
    answer_of,
    challenge_of,
    decide,
    fields_of,
)
from tests.support.sign_in import EMAIL, PASSWORD, add_user, csrf_of, sign_in, signed_in

HTML = {"Accept": "text/html"}
PATHS = (
    "/.well-known/oauth-authorization-server",
    "/.well-known/oauth-protected-resource",
    "/oauth/authorize?client_id=x",
)


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory, lab_thread: SimulatorThread) -> Iterator[AppServer]:
    with running_server(tmp_path_factory.mktemp("oauth"), lab_thread, **SETTINGS) as server:
        yield server


@pytest.fixture(scope="module")
def alice(office: AppServer) -> Person:
    alice = office.connected_person("Alice")
    add_user(office, alice, EMAIL, "owner")
    return alice


@pytest.fixture
def browser(office: AppServer, alice: Person) -> httpx.Client:
    return signed_in(office)


@pytest.fixture
def helper(office: AppServer) -> Assistant:
    return Assistant(office)


def error_of(answer: httpx.Response) -> tuple[int, str]:
    assert set(answer.json()) == {"error", "error_description"}
    return answer.status_code, answer.json()["error"]


def keys(server: AppServer) -> list[str]:
    return [row["id"] for row in server.rows(ApiKey)]


# --- As it should be -----------------------------------------------------------------------------------------------


def test_consent_gives_a_key_that_is_listed_limited_and_revocable(
    office: AppServer, alice: Person, browser: httpx.Client, helper: Assistant
) -> None:
    page = browser.get(helper.address())
    assert "Helper" in page.text
    assert '<strong id="host">assistant.example.com</strong>' in page.text
    policy = page.headers["Content-Security-Policy"]
    assert "form-action 'self' https://assistant.example.com;" in policy + ";"
    assert {name for name in fields_of(page) if name.startswith("scope.")} == {
        "scope.posts:plan",
        "scope.media",
        "scope.accounts:read",
    }
    before = keys(office)
    sent = decide(browser, helper.address(), **{f"account.{alice.bluesky}": "yes", "lifetime": "30"})
    assert sent.headers["Location"].startswith(f"{BACK}&code=")
    answer = answer_of(sent)
    assert (answer["state"], answer["iss"]) == ("state & more", office.service.base_url)
    assert keys(office) == before  # the code alone is no key
    token = helper.exchange(answer["code"])
    assert token.headers["Cache-Control"] == "no-store"
    body = token.json()
    assert (body["token_type"], body["scope"]) == ("Bearer", "posts:plan media accounts:read")
    assert 29 * 86_400 < body["expires_in"] <= 30 * 86_400
    api = office.api(body["access_token"])
    me = api.get("/v1/me").json()["key"]
    assert (me["name"], me["accounts"]) == ("Helper", [alice.bluesky])
    content = {"targets": [{"accountId": alice.bluesky}], "text": "planned"}
    assert api.post("/v1/posts/validate", json=content).status_code == 200
    assert api.post("/v1/posts", json=content).json()["error"]["rule"] == "api_key.scope"
    listed = browser.get("/settings/keys").text
    assert f"/settings/keys/{me['id']}/revoke" in listed
    assert browser.post(
        f"/settings/keys/{me['id']}/revoke", data={"csrf_token": csrf_of(browser.get("/settings"))}
    ).is_redirect
    assert api.get("/v1/me").status_code == 401
    rows = office.rows(AuditEntry, subject=me["id"])
    assert [row["verb"] for row in rows] == ["POST /oauth/token", "POST /settings/keys/<key_id:str>/revoke"]
    assert {row["user"] for row in rows} == {office.rows(User, email=EMAIL)[0]["id"]}
    assert [row["verb"] for row in office.rows(AuditEntry, subject=helper.client_id)] == ["POST /oauth/authorize"]


def test_what_the_client_asks_for_is_ticked_and_the_person_decides(browser: httpx.Client, helper: Assistant) -> None:
    page = browser.get(helper.address(scope="posts:write unknown openid"))
    assert [name for name in fields_of(page) if name.startswith("scope.")] == ["scope.posts:write"]
    chosen = {"scope.posts:write": "", "scope.posts:read": "yes"}
    code = answer_of(decide(browser, helper.address(scope="posts:write"), **chosen))["code"]
    assert helper.exchange(code).json()["scope"] == "posts:read"


def test_refusing_tells_the_client_and_the_log(office: AppServer, browser: httpx.Client, helper: Assistant) -> None:
    code = helper.code(browser)  # in another tab
    answer = answer_of(decide(browser, helper.address(), "refuse"))
    assert (answer["error"], answer["state"]) == ("access_denied", "state & more")
    assert office.rows(AuthorizationCode, client=helper.client_id) == []
    assert error_of(helper.exchange(code)) == (400, "invalid_grant")
    row = office.rows(AuditEntry, subject=helper.client_id)[-1]
    assert row["verb"] == "POST /oauth/authorize with a refusal"
    assert "Refuse an assistant" in browser.get("/settings/log").text


def test_signing_in_comes_first_and_leads_back(office: AppServer, alice: Person, helper: Assistant) -> None:
    api = office.api()
    asked = api.get(helper.address())
    assert asked.headers["Location"].startswith("/login?next=/oauth/authorize")
    after = html.unescape(httpx.URL(asked.headers["Location"]).params["next"])
    assert after == helper.address()
    assert sign_in(api, next=after).headers["Location"] == after


def test_the_password_is_asked_for_again_when_the_sign_in_is_old(
    office: AppServer, browser: httpx.Client, helper: Assistant
) -> None:
    office.clock.skip(PROOF_EXPIRED)
    refused = decide(browser, helper.address(), lifetime="365")
    assert (refused.status_code, needs_password(refused)) == (403, True)
    assert fields_of(refused)["lifetime"] == "365"
    assert "code" in answer_of(decide(browser, helper.address(), password=PASSWORD))


def test_on_this_computer_the_port_may_differ(office: AppServer, browser: httpx.Client) -> None:
    local = Assistant(office, redirect_uri="http://127.0.0.1:1234/back")
    address = local.address(redirect_uri="http://127.0.0.1:4321/back")
    assert "http://127.0.0.1:4321" in browser.get(address).headers["Content-Security-Policy"]
    for other in ("http://127.0.0.1:4321/other", "http://localhost:1234/back", "http://127.0.0.1:1@evil.example/back"):
        assert browser.get(local.address(redirect_uri=other)).status_code == 400


def test_the_metadata_names_what_there_is(office: AppServer) -> None:
    server, resource = (office.api().get(path).json() for path in PATHS[:2])
    base = office.service.base_url
    assert (server["issuer"], resource["authorization_servers"]) == (base, [base])
    assert resource["resource"] == ENDPOINT
    assert server["code_challenge_methods_supported"] == ["S256"]
    assert server["token_endpoint_auth_methods_supported"] == ["none"]


# --- Attacks: the page ---------------------------------------------------------------------------------------------

NO_WAY_BACK = {
    "an unknown client": {"client_id": "0" * 36},
    "no client": {"client_id": None},
    "another redirect": {"redirect_uri": "https://evil.example/back"},
    "a longer redirect": {"redirect_uri": f"{BACK}/../x"},
    "a redirect with a script": {"redirect_uri": "javascript:alert(1)"},
    "no redirect": {"redirect_uri": None},
    "an overlong state": {"state": "x" * 2001},
}
WITH_A_WAY_BACK = {
    "no PKCE": ({"code_challenge": None, "code_challenge_method": None}, "invalid_request"),
    "the plain method": ({"code_challenge_method": "plain", "code_challenge": VERIFIER}, "invalid_request"),
    "no method": ({"code_challenge_method": None}, "invalid_request"),
    "a short challenge": ({"code_challenge": "x" * 42}, "invalid_request"),
    "a token at once": ({"response_type": "token"}, "unsupported_response_type"),
    "another resource": ({"resource": "https://other.example/mcp"}, "invalid_target"),
}


@pytest.mark.parametrize("given", NO_WAY_BACK.values(), ids=NO_WAY_BACK)
def test_a_client_that_is_not_registered_so_gets_no_browser(
    browser: httpx.Client, helper: Assistant, given: dict[str, str | None]
) -> None:
    page = browser.get(helper.address(**given))
    assert page.status_code == 400
    assert "cannot be connected" in page.text
    assert "Return to" not in page.text
    assert "evil" not in page.text
    form = fields_of(browser.get(helper.address()))
    sent = {name: value for name, value in (form | given).items() if value is not None}
    again = browser.post("/oauth/authorize", data=sent | {"decision": "approve"})
    assert (again.status_code, "Location" in again.headers) == (400, False)


@pytest.mark.parametrize(("given", "error"), WITH_A_WAY_BACK.values(), ids=WITH_A_WAY_BACK)
def test_a_wrong_request_redirects_nobody_and_has_a_link_back(
    browser: httpx.Client, helper: Assistant, given: dict[str, str | None], error: str
) -> None:
    page = browser.get(helper.address(**given))
    assert page.status_code == 400
    assert f"{html.escape(BACK)}&amp;error={error}&amp;" in page.text


def test_a_name_with_a_script_is_text(office: AppServer, browser: httpx.Client) -> None:
    name = "<script>alert(1)</script>\"'{{ 7*7 }}"
    page = browser.get(Assistant(office, name=name).address()).text
    assert name not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "49" not in page.partition("<h1>")[2].partition("</h1>")[0]


@pytest.mark.parametrize("role", ["member", "author"])
def test_who_may_not_make_keys_lets_nobody_in(office: AppServer, alice: Person, helper: Assistant, role: str) -> None:
    add_user(office, alice, f"{role}@oauth.test", role)
    other = signed_in(office, f"{role}@oauth.test")
    assert other.get(helper.address(), headers=HTML).status_code == 403
    form = {"csrf_token": csrf_of(other.get("/settings")), "decision": "approve"}
    assert other.post("/oauth/authorize", data=form, headers=HTML).status_code == 403
    assert office.rows(AuthorizationCode, client=helper.client_id) == []


@pytest.mark.parametrize(
    "chosen",
    [
        {"csrf_token": "0" * 64},
        {"lifetime": "never"},
        {"scope.posts:plan": "", "scope.media": "", "scope.accounts:read": ""},
        {"account.00000000-0000-0000-0000-000000000000": "yes"},
        {"account.x": "yes"},
        {"profile": "00000000-0000-0000-0000-000000000000"},
    ],
)
def test_a_wrong_choice_makes_no_code(
    office: AppServer, browser: httpx.Client, helper: Assistant, chosen: dict[str, str]
) -> None:
    answer = decide(browser, helper.address(), **chosen)
    assert answer.status_code in (400, 403, 404), answer.text
    assert office.rows(AuthorizationCode, client=helper.client_id) == []


def test_another_organizations_account_is_not_found(
    office: AppServer, browser: httpx.Client, helper: Assistant
) -> None:
    mallory = office.connected_person("Mallory")
    assert decide(browser, helper.address(), **{f"account.{mallory.bluesky}": "yes"}).status_code == 404
    assert office.rows(AuthorizationCode, client=helper.client_id) == []


# --- Attacks: the code ---------------------------------------------------------------------------------------------

WRONG_EXCHANGES = {
    "another verifier": ({"code_verifier": "x" * 43}, "invalid_grant"),
    "a short verifier": ({"code_verifier": "x"}, "invalid_request"),
    "the challenge as verifier": ({"code_verifier": challenge_of(VERIFIER)}, "invalid_grant"),
    "another redirect": ({"redirect_uri": "https://evil.example/back"}, "invalid_grant"),
    "another client": ({"client_id": "0" * 36}, "invalid_grant"),
    "another code": ({"code": "0" * 43}, "invalid_grant"),
    "an overlong code": ({"code": "0" * 201}, "invalid_request"),
    "another grant": ({"grant_type": "client_credentials"}, "unsupported_grant_type"),
    "another resource": ({"resource": "https://other.example/mcp"}, "invalid_target"),
}


@pytest.mark.parametrize(("given", "error"), WRONG_EXCHANGES.values(), ids=WRONG_EXCHANGES)
def test_a_wrong_exchange_gives_no_key(
    office: AppServer, browser: httpx.Client, helper: Assistant, given: dict[str, str], error: str
) -> None:
    code, before = helper.code(browser), keys(office)
    assert error_of(helper.exchange(**{"code": code} | given)) == (400, error)
    assert keys(office) == before
    assert helper.exchange(code).status_code == 200  # and it takes nothing from the client


def test_another_clients_code_is_refused(office: AppServer, browser: httpx.Client, helper: Assistant) -> None:
    assert error_of(Assistant(office).exchange(helper.code(browser))) == (400, "invalid_grant")


def test_a_code_that_comes_twice_revokes_its_key(office: AppServer, browser: httpx.Client, helper: Assistant) -> None:
    code = helper.code(browser)
    key = helper.exchange(code).json()["access_token"]
    assert office.api(key).get("/v1/me").status_code == 200
    office.clock.skip(CODE_MS / 1000 + 1)
    assert error_of(Assistant(office).exchange(code, code_verifier="x" * 43)) == (400, "invalid_grant")
    assert office.api(key).get("/v1/me").status_code == 401
    assert office.rows(AuditEntry, verb="POST /oauth/token with a used code")
    assert "its code was used twice" in browser.get("/settings/log").text


def test_a_code_that_comes_often_at_once_leaves_no_key(
    office: AppServer, browser: httpx.Client, helper: Assistant
) -> None:
    code, before = helper.code(browser), set(keys(office))
    with ThreadPoolExecutor(4) as many:
        statuses = sorted(answer.status_code for answer in many.map(helper.exchange, [code] * 4))
    assert statuses == [200, 400, 400, 400]
    (made,) = [row for row in office.rows(ApiKey) if row["id"] not in before]
    assert made["revoked_at"] is not None


def test_a_code_ends_after_a_minute(office: AppServer, browser: httpx.Client, helper: Assistant) -> None:
    code = helper.code(browser)
    office.clock.skip(CODE_MS / 1000)
    before = keys(office)
    assert error_of(helper.exchange(code)) == (400, "invalid_grant")
    assert keys(office) == before


def test_a_code_of_somebody_who_may_make_no_keys_any_more_is_refused(
    office: AppServer, alice: Person, helper: Assistant
) -> None:
    add_user(office, alice, "late@oauth.test", "admin")
    code = helper.code(signed_in(office, "late@oauth.test"))
    lowered = User.update(role="member").where(User.email == "late@oauth.test")
    office.service.write(lambda tx: lowered.execute()).result()
    assert error_of(helper.exchange(code)) == (400, "invalid_grant")


# --- Attacks: registrations ----------------------------------------------------------------------------------------

WRONG_REGISTRATIONS = {
    "no redirect": ({"redirect_uris": []}, "invalid_client_metadata"),
    "many redirects": ({"redirect_uris": [BACK] * 11}, "invalid_client_metadata"),
    "a long redirect": ({"redirect_uris": [f"https://a.example/{'x' * 500}"]}, "invalid_client_metadata"),
    "a long name": ({"client_name": "x" * 101}, "invalid_client_metadata"),
    "a name that is none": ({"client_name": 7}, "invalid_client_metadata"),
    "another grant": ({"grant_types": ["client_credentials"]}, "invalid_client_metadata"),
    "another response": ({"response_types": ["token"]}, "invalid_client_metadata"),
    "plain http": ({"redirect_uris": ["http://a.example/"]}, "invalid_redirect_uri"),
    "a scheme of its own": ({"redirect_uris": ["app://back"]}, "invalid_redirect_uri"),
    "a script": ({"redirect_uris": ["javascript:alert(1)"]}, "invalid_redirect_uri"),
    "a user in it": ({"redirect_uris": ["https://a.example@evil.example/"]}, "invalid_redirect_uri"),
    "a fragment": ({"redirect_uris": ["https://a.example/#x"]}, "invalid_redirect_uri"),
    "a line break": ({"redirect_uris": ["https://a.example/\r\nX: y"]}, "invalid_redirect_uri"),
    "a policy's end": ({"redirect_uris": ["https://a.example;/"]}, "invalid_redirect_uri"),
    "a name like ours": ({"redirect_uris": ["http://localhost.evil.example/"]}, "invalid_redirect_uri"),
}


@pytest.mark.parametrize(("given", "error"), WRONG_REGISTRATIONS.values(), ids=WRONG_REGISTRATIONS)
def test_a_wrong_registration_stores_nothing(
    office: AppServer, helper: Assistant, given: dict[str, object], error: str
) -> None:
    before = len(office.rows(OAuthClient))
    assert error_of(helper.register(**given)) == (400, error)
    assert len(office.rows(OAuthClient)) == before


def test_a_registration_is_public_and_without_a_name_has_its_host(helper: Assistant) -> None:
    made = helper.post("/oauth/register", json={"redirect_uris": [BACK], "token_endpoint_auth_method": "x", "y": 1})
    assert (made.status_code, made.json()["client_name"]) == (201, "assistant.example.com")
    assert made.json()["token_endpoint_auth_method"] == "none"
    assert "client_secret" not in made.json()


@pytest.mark.parametrize("body", [b"{", b"[]", b"\xff", b'{"redirect_uris": ' + b"[" * 40, b"x" * 70_000])
def test_a_body_that_is_no_json_is_refused_in_the_form_of_oauth(helper: Assistant, body: bytes) -> None:
    answer = helper.post("/oauth/register", content=body)
    assert error_of(answer)[0] in (400, 413)


def test_a_packed_body_is_refused_in_the_form_of_oauth(helper: Assistant) -> None:
    for path in ("/oauth/register", "/oauth/token"):
        answer = helper.post(path, content=b"{}", headers={"Content-Encoding": "gzip", **HTML})
        assert error_of(answer) == (415, "invalid_request")


def fill_clients(server: AppServer, approved_at: int | None) -> None:
    now = server.clock.now_ms()
    rows = [
        {"id": f"c{n}", "name": "x", "redirect_uris": "[]", "created_at": n, "approved_at": approved_at}
        | {"ends_at": now + DAY_MS}
        for n in range(CLIENTS_MAX)
    ]
    server.service.write(lambda tx: OAuthClient.insert_many(rows).execute()).result()


def test_a_flood_of_registrations_takes_room_from_strangers_alone(
    office: AppServer, browser: httpx.Client, helper: Assistant
) -> None:
    known = Assistant(office)
    known.code(browser)
    office.service.write(lambda tx: OAuthClient.delete().where(OAuthClient.id != known.client_id).execute()).result()
    try:
        fill_clients(office, None)
        assert helper.register().status_code == 201
        rows = {row["id"] for row in office.rows(OAuthClient)}
        assert known.client_id in rows
        assert "c0" not in rows
        office.service.write(lambda tx: OAuthClient.update(approved_at=1).execute()).result()
        assert error_of(helper.register()) == (503, "temporarily_unavailable")
    finally:
        office.service.write(lambda tx: OAuthClient.delete().execute()).result()


def test_each_address_registers_at_a_bounded_rate(office: AppServer, helper: Assistant) -> None:
    limits = office.service.runtime.settings.limits
    limits.failed_logins, before = 3, limits.failed_logins
    office.clock.skip(61)
    try:
        assert [helper.register().status_code for _ in range(4)] == [201] * 3 + [429]
        refused = helper.register()
        assert error_of(refused) == (429, "temporarily_unavailable")
        assert int(refused.headers["Retry-After"]) <= 60
    finally:
        limits.failed_logins = before


def test_codes_and_clients_are_deleted_when_they_have_ended(
    office: AppServer, browser: httpx.Client, helper: Assistant
) -> None:
    known = Assistant(office)
    known.code(browser)
    office.clock.skip(max(NEW_CLIENT_MS, CODE_KEPT_MS + CODE_MS) / 1000 + 1)
    periodic_tasks.sweep(office.service, office.engine.fetched)
    assert office.rows(AuthorizationCode) == []
    ids = {row["id"] for row in office.rows(OAuthClient)}
    assert (known.client_id in ids, helper.client_id in ids) == (True, False)
    assert signed_in(office).get(helper.address()).status_code == 400


def test_codes_are_bounded_for_an_organization(
    office: AppServer, browser: httpx.Client, helper: Assistant, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert CODES_MAX >= 100
    monkeypatch.setattr(oauth_grants, "CODES_MAX", 0)
    assert "Wait until tomorrow" in decide(browser, helper.address()).text


# --- Off -----------------------------------------------------------------------------------------------------------


def test_off_by_default_there_is_nothing(server: AppServer) -> None:
    api = server.api()
    for ask in (*(lambda path=path: api.get(path) for path in PATHS), *posts(api)):
        assert (answer := ask()).status_code == 404
        assert answer.json()["error"]["code"] == "not_found"


def posts(api: httpx.Client) -> list[Callable[[], httpx.Response]]:
    return [
        lambda path=path: api.post(path, json={}) for path in ("/oauth/register", "/oauth/token", "/oauth/authorize")
    ]


def test_it_needs_the_address_of_the_endpoint() -> None:
    with pytest.raises(ValidationError, match="public address"):
        Settings(mcp={"oauth": True})
