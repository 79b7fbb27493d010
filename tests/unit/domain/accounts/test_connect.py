"""OAuth connection of accounts on each platform: success, states, scopes, leaked secrets."""

from __future__ import annotations

import functools
import html
import logging
import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest

from socialpub import platforms
from socialpub.base.security import crypto
from socialpub.domain.access.actor import build_operator
from socialpub.domain.accounts import connect, tokens
from socialpub.domain.identity import users
from socialpub.simulator.server import SimulatorThread
from socialpub.store.database import Tx
from socialpub.store.schema.models import Session
from tests.support.app_server import UNKNOWN_ID, AppServer, error_of, unused_name
from tests.support.connect_flow import APP, CONNECTING, OAUTH, PUBLIC, ConnectSession, open_connect_session, sign_in
from tests.support.shared_server import SharedServer

Make = Callable[..., AppServer]


def open_office(make: Make, lab: SimulatorThread, patch: pytest.MonkeyPatch, name: str) -> ConnectSession:
    """At a server that believes to stand at a public address, as Bluesky wants it."""
    return open_connect_session(make, lab, patch, name, user=unused_name("alice"), server={"base_url": PUBLIC})


@pytest.fixture(params=CONNECTING)
def office(
    request: pytest.FixtureRequest, shared_server: SharedServer, lab: SimulatorThread, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ConnectSession]:
    office = open_office(functools.partial(shared_server.open, lab), lab, monkeypatch, request.param)
    yield office
    office.upstream.consent.mode, office.upstream.consent.without = "approve", frozenset()


@pytest.fixture
def late_office(
    request: pytest.FixtureRequest, make_server: Make, lab: SimulatorThread, monkeypatch: pytest.MonkeyPatch
) -> ConnectSession:
    """At a server whose clock the test may move."""
    return open_office(make_server, lab, monkeypatch, request.param)


# What the platform does not decide: once by an OAuth of the settings, and once by the one that Bluesky has.
both_ways = pytest.mark.parametrize("office", ["twitter", "bluesky"], indirect=True)


# --- There and back ------------------------------------------------------------------------------------------------


@pytest.mark.matrix
def test_an_account_connects_and_can_be_seen_without_a_secret(office: ConnectSession) -> None:
    made = office.login_exists()
    answer = office.connect()
    assert answer.status_code == 201, answer.text
    account = answer.json()
    assert account["platform"] == office.name
    assert account["platformAccountId"] == made["platformAccountId"]
    assert account["status"] == "active"
    assert office.alice.api.get(f"/v1/accounts/{account['id']}").json() == account
    assert made["accessToken"] not in answer.text
    assert office.upstream.client_secret not in answer.text


@pytest.mark.parametrize("office", OAUTH, indirect=True)
def test_the_connected_account_holds_a_token_that_works(office: ConnectSession) -> None:
    office.login_exists()
    account = office.connect().json()
    (row,) = office.rows()
    held = tokens.decrypt(office.server.service, account["id"], row["secret"])
    assert held.private["scopes"]
    assert office.server.service.now_ms - row["renewed_at"] < 60_000


@pytest.mark.parametrize("office", OAUTH, indirect=True)
def test_the_browser_is_sent_with_everything_that_the_platform_wants(office: ConnectSession) -> None:
    office.login_exists()
    url = office.start()
    asked = dict(parse_qsl(urlsplit(url).query))
    row = platforms.PLATFORMS[office.name].oauth
    assert row is not None
    assert asked[row.client_id_name] == APP["client_id"]
    assert asked["redirect_uri"] == office.callback
    assert asked["response_type"] == "code"
    assert asked["scope"] == row.separator.join(row.scopes)
    assert len(asked["state"]) == 43
    assert ("code_challenge" in asked) == row.pkce
    assert str(APP["client_secret"]) not in url


@pytest.mark.matrix
def test_connecting_again_keeps_the_id(office: ConnectSession) -> None:
    office.login_exists()
    first, second = office.connect(), office.connect()
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json()["id"] == second.json()["id"]
    assert len(office.rows()) == 1


@both_ways
def test_another_organization_gets_a_row_of_its_own_and_moves_nothing(office: ConnectSession) -> None:
    office.login_exists()
    ours = office.connect().json()
    stranger = office.server.person("Charlie")
    office.browser = sign_in(office.server, stranger.organization, name=unused_name("charlie"))
    theirs = office.connect()
    assert theirs.status_code == 201
    assert theirs.json()["id"] != ours["id"]
    assert office.alice.api.get(f"/v1/accounts/{ours['id']}").json() == ours
    assert stranger.api.get(f"/v1/accounts/{ours['id']}").status_code == 404


@both_ways
def test_an_account_may_be_connected_in_a_named_profile(office: ConnectSession) -> None:
    office.login_exists()
    profile = office.browser.post("/v1/profiles", json={"name": "Shop"}).json()["id"]
    assert office.connect(profileId=profile).json()["profileId"] == profile


@both_ways
def test_a_profile_of_nobody_is_not_found(office: ConnectSession) -> None:
    answer = office.browser.post(f"/v1/accounts/connect/{office.name}", json={"profileId": UNKNOWN_ID})
    assert answer.status_code == 404


# --- States ----------------------------------------------------------------------------------------------------------


def refused_state(office: ConnectSession, who: Any = None, **body: Any) -> None:
    before = office.calls()
    answer = office.complete(who, **body)
    assert answer.status_code == 400
    assert error_of(answer)["rule"] == "connect.state"
    assert office.calls() == before, "a token call for a state that does not count"


@both_ways
def test_a_state_works_once(office: ConnectSession) -> None:
    office.login_exists()
    back = office.visit(office.start())
    assert office.complete(code=back["code"], state=back["state"]).status_code in (200, 201)
    refused_state(office, code=back["code"], state=back["state"])


@both_ways
def test_a_made_up_state_is_refused(office: ConnectSession) -> None:
    office.login_exists()
    back = office.visit(office.start())
    refused_state(office, code=back["code"], state=back["state"][:-1] + "!")


@pytest.mark.parametrize("late_office", ["twitter", "bluesky"], indirect=True)
def test_a_state_is_over_after_ten_minutes_and_forgotten(late_office: ConnectSession) -> None:
    office = late_office
    office.login_exists()
    back = office.visit(office.start())
    connect.purge(office.server.service)
    assert len(office.attempts()) == 1
    office.server.skip(600)
    refused_state(office, code=back["code"], state=back["state"])
    connect.purge(office.server.service)
    assert office.attempts() == []


@both_ways
def test_a_state_of_another_platform_is_refused(office: ConnectSession) -> None:
    office.login_exists()
    back = office.visit(office.start())
    other = next(name for name in [*OAUTH, ""] if name != office.name)
    if other:
        office.name = other
        refused_state(office, code=back["code"], state=back["state"])


@both_ways
def test_a_state_of_another_session_is_refused_and_still_good_for_its_own(office: ConnectSession) -> None:
    office.login_exists()
    back = office.visit(office.start())
    colleague = sign_in(office.server, office.alice.organization, name=unused_name("bob"))
    stranger = sign_in(office.server, office.server.person("Charlie").organization, name=unused_name("charlie"))
    for thief in (colleague, stranger):
        refused_state(office, thief, code=back["code"], state=back["state"])
    assert office.complete(code=back["code"], state=back["state"]).status_code in (200, 201)


@both_ways
def test_nothing_of_an_attempt_can_be_used_by_who_reads_the_database(office: ConnectSession) -> None:
    office.login_exists()
    state = office.visit(office.start())["state"]
    (row,) = office.attempts()
    assert row["id"] == crypto.digest(state)
    assert state not in str(row)
    assert row["secret"].startswith("v1.")


# --- Refusals --------------------------------------------------------------------------------------------------------


def test_a_code_that_the_platform_refuses_is_a_424_in_its_words(office: ConnectSession) -> None:
    office.login_exists()
    back = office.visit(office.start())
    answer = office.complete(code="made-up-code", state=back["state"])
    assert answer.status_code == 424
    error = error_of(answer)
    assert (error["code"], error["platform"]) == ("platform_auth_failed", office.name)
    assert office.rows() == []
    refused_state(office, code=back["code"], state=back["state"])


@pytest.mark.matrix
def test_a_spent_code_is_refused(office: ConnectSession) -> None:
    office.login_exists()
    first = office.visit(office.start())
    office.complete(code=first["code"], state=first["state"])
    second = office.visit(office.start())
    assert office.complete(code=first["code"], state=second["state"]).status_code == 424


def test_a_missing_scope_is_named(office: ConnectSession) -> None:
    office.login_exists()
    row = platforms.PLATFORMS[office.name].oauth
    required = row.required if row else ("transition:generic",)
    assert required, "a platform needs something to publish"
    office.upstream.consent.without = frozenset({required[-1]})
    back = office.visit(office.start())
    answer = office.complete(code=back["code"], state=back["state"])
    assert answer.status_code == 424
    assert required[-1] in error_of(answer)["message"]
    assert office.rows() == []


@pytest.mark.parametrize("office", OAUTH, indirect=True)
def test_a_wrong_app_secret_is_the_operators_to_mend(office: ConnectSession, monkeypatch: pytest.MonkeyPatch) -> None:
    office.login_exists()
    back = office.visit(office.start())
    monkeypatch.setattr(office.upstream, "client_secret", "another")
    answer = office.complete(code=back["code"], state=back["state"])
    assert answer.status_code == 403
    assert error_of(answer)["code"] == "platform_not_enabled"
    assert f"platforms.{office.name}.client_secret" in error_of(answer)["remediation"]


@pytest.mark.matrix
@pytest.mark.parametrize("fault", ["reset_before", "reset_after", "status:503", "html"])
@both_ways
def test_an_answer_that_never_comes_is_a_503_and_connects_nothing(office: ConnectSession, fault: str) -> None:
    office.login_exists()
    back = office.visit(office.start())
    office.server.lab.lab.faults.add([{"fault": fault, "operation": "oauth.token"}])
    with office.browser.expecting_failure():
        answer = office.complete(code=back["code"], state=back["state"])
    assert answer.status_code == 503
    assert error_of(answer)["code"] == "platform_unavailable"
    assert office.rows() == []


@pytest.mark.parametrize(
    ("body", "field"), [({}, "state"), ({"state": "s"}, "code"), ({"code": "c"}, "state"), ({"choiceId": "c"}, "state")]
)
@both_ways
def test_what_a_login_came_to_has_to_be_complete(office: ConnectSession, body: dict[str, str], field: str) -> None:
    answer = office.complete(**body)
    assert answer.status_code == 400
    assert error_of(answer)["rule"] == ("handle" if office.name == "bluesky" and not body else field)


def test_no_secret_of_connecting_reaches_the_log(office: ConnectSession, caplog: pytest.LogCaptureFixture) -> None:
    office.login_exists()
    with caplog.at_level(logging.INFO):
        back = office.visit(office.start())
        office.complete(code=back["code"], state=back["state"])
    ours = "\n".join(record.getMessage() for record in caplog.records if record.name.startswith("socialpub"))
    for secret in (back["code"], back["state"], office.upstream.client_secret):
        assert secret not in ours


# --- In the browser --------------------------------------------------------------------------------------------------


@pytest.mark.matrix
def test_the_callback_page_connects(office: ConnectSession) -> None:
    office.login_exists()
    back = office.visit(office.start())
    sent = office.browser.get(f"/connect/{office.name}/callback", params=back)
    assert sent.status_code == 303, sent.text
    page = office.browser.get(sent.headers["Location"])
    assert page.status_code == 200, page.text
    assert office.browser.get(sent.headers["Location"]).text == page.text  # a reload connects nothing again
    assert page.headers["Referrer-Policy"] == "no-referrer"
    assert back["code"] not in page.text
    assert len(office.rows()) == 1


def test_an_owner_who_refuses_is_told_so_and_the_state_is_spent(office: ConnectSession) -> None:
    office.login_exists()
    office.upstream.consent.mode = "deny"
    back = office.visit(office.start())
    assert "code" not in back
    page = office.browser.get(f"/connect/{office.name}/callback", params=back, headers={"Accept": "text/html"})
    assert page.status_code == 424
    assert platforms.PLATFORMS[office.name].label in page.text
    assert f'href="/connect/{office.name}?profile={office.alice.profile}">Connect again' in page.text
    again = office.browser.get(f"/connect/{office.name}/callback", params=back)
    assert error_of(again)["rule"] == "connect.state"
    assert office.rows() == []


@both_ways
def test_what_the_platform_says_is_text_on_our_page(office: ConnectSession) -> None:
    office.login_exists()
    state = office.visit(office.start())["state"]
    params = {"state": state, "error": "x", "error_description": "<script>alert(1)</script>"}
    page = office.browser.get(f"/connect/{office.name}/callback", params=params, headers={"Accept": "text/html"})
    assert "<script>" not in page.text


@both_ways
def test_the_connect_page_leads_to_the_platform(office: ConnectSession) -> None:
    office.login_exists()
    page = office.browser.get(f"/connect/{office.name}", params=office.handle)
    assert page.status_code == 200
    assert 'id="go"' in page.text


@both_ways
def test_nobody_is_sent_to_sign_in_first(office: ConnectSession) -> None:
    answer = office.server.api().get(f"/connect/{office.name}", headers={"Accept": "text/html"})
    assert (answer.status_code, answer.headers["Location"]) == (303, f"/login?next=/connect/{office.name}")


# --- Back without a session ------------------------------------------------------------------------------------------

PASSWORD = "correct horse battery"


def add_user(office: ConnectSession) -> tuple[str, str]:
    """Somebody in Alice's organization who can sign in: their id and email."""
    service, hash_ = office.server.service, users.hash_password(PASSWORD)
    email = f"{unused_name()}@example.com"
    made = service.write(
        lambda tx: users.create(
            tx, build_operator(service, "test").within(office.alice.organization), email, "owner", hash_
        )
    ).result()
    return str(made["id"]), email


def sign_in_at(office: ConnectSession, where: str, email: str) -> httpx.Response:
    """Fill in the form that `where` leads to, and go where it leads."""
    nobody = office.server.api()
    nobody.headers["Sec-Fetch-Site"] = "same-origin"
    form = nobody.get(where)
    given = dict(re.findall(r'name="(\w+)" value="([^"]*)"', form.text))
    cookie = form.headers["Set-Cookie"].partition(";")[0]
    fields = {name: html.unescape(value) for name, value in given.items()} | {"email": email, "password": PASSWORD}
    answer = nobody.post("/login", data=fields, headers={"Cookie": cookie})
    assert answer.status_code == 303, answer.text
    session = answer.headers["Set-Cookie"].partition(";")[0]
    return nobody.get(answer.headers["Location"], headers={"Cookie": session})


def signed_in(office: ConnectSession) -> str:
    """The browser's session is that of somebody who can sign in; their email."""
    user, email = add_user(office)

    def give(tx: Tx) -> None:
        Session.update(user=user).execute()

    office.server.service.write(give).result()
    return email


@both_ways
def test_user_whose_session_ended_signs_in_and_is_connected(
    office: ConnectSession, caplog: pytest.LogCaptureFixture
) -> None:
    email = signed_in(office)
    office.login_exists()
    back = office.visit(office.start())
    office.server.service.write(lambda tx: Session.delete().execute()).result()
    with caplog.at_level(logging.DEBUG):
        asked = office.server.api().get(f"/connect/{office.name}/callback", params=back)
        assert asked.status_code == 303
        assert asked.headers["Referrer-Policy"] == "no-referrer"
        page = sign_in_at(office, asked.headers["Location"], email)
    assert (page.status_code, page.headers["Location"].partition("?")[0]) == (303, f"/connect/{office.name}/done")
    assert len(office.rows()) == 1
    ours = "\n".join(record.getMessage() for record in caplog.records if record.name.startswith("socialpub"))
    assert back["code"] not in ours
    assert back["state"] not in ours


@pytest.mark.parametrize("office", OAUTH[:1], indirect=True)
def test_a_session_that_goes_on_keeps_its_attempts_to_itself(office: ConnectSession) -> None:
    email = signed_in(office)
    office.login_exists()
    back = office.visit(office.start())
    elsewhere = office.server.api().get(f"/connect/{office.name}/callback", params=back).headers["Location"]
    assert error_of(sign_in_at(office, elsewhere, email))["rule"] == "connect.state"
    assert office.complete(code=back["code"], state=back["state"]).status_code in (200, 201)


@pytest.mark.parametrize("office", OAUTH[:1], indirect=True)
def test_an_attempt_of_a_session_that_has_ended_is_nobody_elses(office: ConnectSession) -> None:
    signed_in(office)
    _, bob = add_user(office)
    office.login_exists()
    back = office.visit(office.start())
    office.server.service.write(lambda tx: Session.delete().execute()).result()
    where = office.server.api().get(f"/connect/{office.name}/callback", params=back).headers["Location"]
    assert error_of(sign_in_at(office, where, bob))["rule"] == "connect.state"
    assert office.rows() == []


# --- Disconnecting ---------------------------------------------------------------------------------------------------


@pytest.mark.matrix
def test_disconnecting_erases_the_secret_and_revokes_where_possible(office: ConnectSession) -> None:
    office.login_exists()
    account = office.connect().json()
    (row,) = office.rows()
    held = tokens.decrypt(office.server.service, account["id"], row["secret"])
    calls = office.calls()
    assert office.browser.delete(f"/v1/accounts/{account['id']}").json() == {"id": account["id"], "deleted": True}
    (row,) = office.rows()
    assert row["secret"] is None
    assert office.alice.api.get(f"/v1/accounts/{account['id']}").status_code == 404
    revokes = hasattr(platforms.CONNECTORS[office.name], "revoke")
    assert (office.calls() > calls) is revokes
    assert (office.upstream.access(held.access).state != "alive") is revokes
    again = office.connect()
    assert (again.status_code, again.json()["id"], again.json()["status"]) == (200, account["id"], "active")


@pytest.mark.matrix
@pytest.mark.parametrize("fault", ["status:404", "status:500", "reset_after", "html"])
@both_ways
def test_a_platform_that_does_not_end_an_authorization_keeps_no_account(office: ConnectSession, fault: str) -> None:
    office.login_exists()
    account = office.connect().json()
    office.server.lab.lab.faults.add([{"fault": fault, "platform": office.name}])
    answer = office.browser.delete(f"/v1/accounts/{account['id']}")
    assert (answer.status_code, answer.json()) == (200, {"id": account["id"], "deleted": True})
    assert [row["secret"] for row in office.rows()] == [None]


# --- Who may, and where ----------------------------------------------------------------------------------------------


@both_ways
def test_a_key_may_not_connect(office: ConnectSession) -> None:
    answer = office.alice.api.post(f"/v1/accounts/connect/{office.name}", json={})
    assert (answer.status_code, error_of(answer)["code"]) == (403, "unauthorized")


@both_ways
def test_a_member_may_not_connect(office: ConnectSession) -> None:
    member = sign_in(office.server, office.alice.organization, role="member", name=unused_name("mallory"))
    answer = member.post(f"/v1/accounts/connect/{office.name}", json={})
    assert (answer.status_code, error_of(answer)["code"]) == (403, "unauthorized")
    assert office.complete(member, code="c", state="s").status_code == 403


@pytest.mark.parametrize("missing", ["client_id", "client_secret"])
def test_platform_without_an_app_says_what_to_set_and_register(
    make_server: Make, lab: SimulatorThread, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    name = OAUTH[0]
    site = {"api_base": lab.origin(name), **APP, missing: ""}
    office = open_connect_session(make_server, lab, monkeypatch, name, platforms={name: site})
    for who in (office.browser, office.alice.api):
        error = error_of(who.post(f"/v1/accounts/connect/{name}", json={}))
        assert error["code"] == "platform_not_enabled"
        assert f"platforms.{name}.{missing}" in error["remediation"]
        assert office.callback in error["remediation"]


def test_a_platform_that_is_switched_off_is_not_enabled(
    make_server: Make, lab: SimulatorThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    office = open_connect_session(
        make_server, lab, monkeypatch, OAUTH[0], platforms={OAUTH[0]: {**APP, "enabled": False}}
    )
    error = error_of(office.browser.post(f"/v1/accounts/connect/{OAUTH[0]}", json={}))
    assert error["code"] == "platform_not_enabled"
    assert f"platforms.{OAUTH[0]}.enabled" in error["remediation"]


@pytest.mark.matrix
def test_no_secret_of_connecting_stands_in_the_database_or_an_event(office: ConnectSession) -> None:
    office.login_exists()
    back = office.visit(office.start())
    answer = office.complete(code=back["code"], state=back["state"])
    (row,) = office.rows()
    held = tokens.decrypt(office.server.service, row["id"], row["secret"])
    files = b"".join(path.read_bytes() for path in office.server.home.glob("socialpub.db*"))
    assert row["id"].encode() in files
    told = f"{answer.text} {office.server.events()}"
    for secret in {
        back["code"],
        back["state"],
        held.access,
        held.refresh or held.access,
        office.upstream.client_secret,
    }:
        assert secret.encode() not in files
        assert secret not in told
