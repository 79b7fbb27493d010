"""Connect pages: return after sign-in, and repeatable choice of accounts."""

from __future__ import annotations

import dataclasses
import html
import re
from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

import pytest

from socialpub.simulator.server import SimulatorThread
from socialpub.web.routes import ROUTES
from tests.support.app_server import AppServer, Person, error_of
from tests.support.connect_flow import ConnectSession, open_connect_session
from tests.support.connect_flow import sign_in as sign_in_as
from tests.support.route_addresses import route_address
from tests.support.sign_in import EMAIL, add_user, sign_in

BACK = "/connect/threads/callback"
HTML = {"Accept": "text/html"}


@pytest.mark.parametrize(
    "asked",
    [
        BACK,
        f"{BACK}?state=s&code=c%2Bd%26e%3D#_",
        f"{BACK}?code=AQBx-_~.%C3%A9&state=%22%3E%3Cscript%3E",
        "/connect/bluesky?handle=alice.test&profile=p",
        f"{BACK}?next=//evil.example",
    ],
)
def test_signing_in_leads_back_to_the_page_with_its_query(server: AppServer, alice: Person, asked: str) -> None:
    add_user(server, alice, EMAIL, "owner")
    api = server.api()
    sent = api.get(asked)
    assert sent.status_code == 303
    assert (urlsplit(sent.headers["Location"]).path, urlsplit(sent.headers["Location"]).netloc) == ("/login", "")
    (after,) = parse_qs(urlsplit(sent.headers["Location"]).query)["next"]
    assert after == asked.partition("#")[0]
    form = api.get(sent.headers["Location"])
    assert form.text.count("<script") == 1  # ours
    assert (sent.headers["Referrer-Policy"], form.headers["Referrer-Policy"]) == ("no-referrer", "no-referrer")
    assert sign_in(api, next=after).headers["Location"] == after


@pytest.mark.parametrize("path", ["/connect/bluesky", "/settings/keys", "/logout"])
def test_a_form_without_a_session_is_not_sent_again(server: AppServer, path: str) -> None:
    answer = server.api().post(path, data={"password": "x"})
    assert (answer.status_code, answer.headers["Location"]) == (303, "/login")


def test_a_way_back_outside_ascii_is_no_failure(server: AppServer, alice: Person) -> None:
    add_user(server, alice, EMAIL, "owner")
    assert sign_in(server.api(), next="/é?ü=😀").status_code == 303


# --- Several accounts behind one login -----------------------------------------------------------------------------


@pytest.fixture
def office(
    make_server: Callable[..., AppServer], lab: SimulatorThread, monkeypatch: pytest.MonkeyPatch
) -> ConnectSession:
    """At the fake Facebook, whose logins may offer several Pages."""
    return open_connect_session(make_server, lab, monkeypatch, "facebook")


def test_login_choices_can_be_made_again_after_a_reload_or_choice(office: ConnectSession) -> None:
    office.login_exists(pages=3)
    back = office.visit(office.start())
    path = "/connect/facebook/callback"
    first = office.browser.get(path, params=back)
    calls = office.calls()
    choices = re.findall(r'name="choice" value="(\w+)"', first.text)
    assert len(choices) == 3
    assert office.browser.get(path, params=back).text == first.text
    sent = office.browser.get(path, params={"state": back["state"], "choice": choices[1]})
    done = office.browser.get(sent.headers["Location"])
    (again,) = re.findall(r'id="more" href="([^"]+)"', done.text)
    assert office.browser.get(html.unescape(again)).text == first.text
    assert office.calls() == calls
    assert len(office.rows()) == 1
    office.server.skip(600)
    assert error_of(office.browser.get(html.unescape(again)))["rule"] == "connect.state"


def test_accounts_of_one_name_are_told_apart(office: ConnectSession) -> None:
    office.login_exists(pages=3)
    pages = office.server.lab.lab.fake("facebook").pages.pages
    first, second, third = list(pages)[-3:]
    for page in (first, second):
        pages[page] = dataclasses.replace(pages[page], name="Bakery")
    back = office.visit(office.start())
    shown = office.browser.get("/connect/facebook/callback", params=back).text
    assert [page in shown for page in (first, second, third)] == [True, True, False]
    for choice in re.findall(r'name="choice" value="(\w+)"', shown):
        office.browser.get("/connect/facebook/callback", params={"state": back["state"], "choice": choice})
    for path in ("/accounts", "/compose"):
        shown = office.browser.get(path, headers=HTML).text
        assert [page in shown for page in (first, second, third)] == [True, True, False], path


def test_choices_are_shown_to_the_session_that_logged_in_alone(office: ConnectSession) -> None:
    office.login_exists(pages=2)
    back = office.visit(office.start())
    office.browser.get("/connect/facebook/callback", params=back)
    thief = sign_in_as(office.server, office.alice.organization, name="mallory")
    refused = thief.get("/connect/facebook/callback", params={"state": back["state"]})
    assert error_of(refused)["rule"] == "connect.state"


# --- The profile of the account --------------------------------------------------------------------------------------


def test_a_profile_that_is_not_named_is_not_guessed(office: ConnectSession) -> None:
    only = office.browser.get("/connect/facebook")
    assert 'id="go"' in only.text
    second = office.browser.post("/v1/profiles", json={"name": "Second"}).json()["id"]
    asked = office.browser.get("/connect/facebook")
    assert (asked.status_code, asked.headers["Location"]) == (303, "/accounts#connect")
    chosen = {"csrf_token": "csrf-alice", "profile": second}
    assert office.browser.post("/profile", data=chosen).status_code == 303
    assert 'id="go"' in office.browser.get("/connect/facebook").text
    assert [row["profile"] for row in office.attempts()] == [office.alice.profile, second]


def test_without_a_profile_every_page_opens_and_nothing_connects(office: ConnectSession) -> None:
    assert office.browser.delete(f"/v1/profiles/{office.alice.profile}").status_code == 200
    addresses = {route_address(route.path) for route in ROUTES if route.method == "GET"}
    found = {address: office.browser.get(address, headers=HTML).status_code for address in addresses}
    assert {address: status for address, status in found.items() if status >= 500} == {}
    for platform in ("bluesky", "facebook"):
        refused = error_of(office.browser.post(f"/v1/accounts/connect/{platform}", json={}))
        assert (refused["code"], refused["message"]) == ("not_found", "The organization has no profile.")
        assert office.browser.get(f"/connect/{platform}", headers=HTML).status_code == 404
    assert office.attempts() == []


def test_a_refused_login_is_repeated_in_its_profile(office: ConnectSession) -> None:
    second = office.browser.post("/v1/profiles", json={"name": "Second"}).json()["id"]
    office.login_exists()
    state = office.visit(office.start(profileId=second))["state"]
    for back in ({"error": "access_denied"}, {"code": "spent"}):  # refused by its owner; used up
        page = office.browser.get("/connect/facebook/callback", params={"state": state} | back, headers=HTML)
        assert f'href="/connect/facebook?profile={second}">Connect again' in page.text


def test_a_handle_that_is_refused_stays_in_its_field(
    make_server: Callable[..., AppServer], lab: SimulatorThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    office = open_connect_session(make_server, lab, monkeypatch, "bluesky")
    page = office.browser.get("/connect/bluesky", params={"handle": "nobody.test"})
    assert page.status_code >= 400
    assert re.search(r'<input id="handle"[^>]* value="nobody.test"', page.text)
