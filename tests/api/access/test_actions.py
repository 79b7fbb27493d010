"""The API and the dashboard accept, refuse and record an action alike.

The commands: tests/commands/test_actions.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from socialpub.store.schema.models import Account, ApiKey, AuditEntry, Profile
from tests.support.app_server import UNKNOWN_ID, ApiClient, AppServer, Person, error_of
from tests.support.connect_flow import ConnectSession, open_connect_session, sign_in

Ask = Callable[[ApiClient, dict[str, str]], httpx.Response]


@pytest.fixture
def browser(server: AppServer, alice: Person) -> ApiClient:
    return sign_in(server, alice.organization)


@pytest.fixture
def office(make_server: Callable[..., AppServer], lab: Any, monkeypatch: pytest.MonkeyPatch) -> ConnectSession:
    return open_connect_session(make_server, lab, monkeypatch, "threads")


def form(browser: ApiClient, path: str, fields: dict[str, str]) -> httpx.Response:
    """A page's form, as a browser sends it."""
    return browser.post(path, data={"csrf_token": "csrf-alice", **fields})


# --- The same is taken and the same refused ------------------------------------------------------------------------

BY_API: dict[str, Ask] = {
    "key": lambda browser, given: browser.post("/v1/api-keys", json=given),
    "profile": lambda browser, given: browser.post("/v1/profiles", json=given),
}
BY_PAGE: dict[str, Ask] = {
    "key": lambda browser, given: form(
        browser, "/settings/keys", {{"profileId": "profile"}.get(name, name): value for name, value in given.items()}
    ),
    "profile": lambda browser, given: form(browser, "/settings/profiles", given),
}
BLANK = (" ", "\t\n", "\u3000", "\u00a0 ")
REFUSED = [
    *[(what, {"name": name}) for what in BY_API for name in ("", *BLANK, "x" * 101, "a\0b")],
    ("key", {"name": "ci", "prefix": "svc_love_"}),
    ("key", {"name": "ci", "profileId": "not-a-uuid"}),
    ("key", {"name": "ci", "profileId": UNKNOWN_ID}),
    ("profile", {"name": "default"}),
]


@pytest.mark.matrix
@pytest.mark.parametrize(("what", "given"), REFUSED)
def test_what_the_api_refuses_a_page_refuses_with_the_same_status(
    server: AppServer, browser: ApiClient, what: str, given: dict[str, str]
) -> None:
    before = server.stock()["tables"]
    by_api, by_page = BY_API[what](browser, given), BY_PAGE[what](browser, given)
    assert by_api.status_code in (400, 404, 409)
    assert by_page.status_code == by_api.status_code
    assert 'role="alert"' in by_page.text  # on the page itself, where one can go on
    assert server.stock()["tables"] == before


@pytest.mark.parametrize("name", [" ci ", "x" * 100, "é", "<b>", "\u200b"])
@pytest.mark.parametrize("what", BY_API)
def test_what_the_api_takes_a_page_takes_as_it_was_typed(
    server: AppServer, browser: ApiClient, what: str, name: str
) -> None:
    table: Any = {"key": ApiKey, "profile": Profile}[what]
    assert BY_API[what](browser, {"name": name}).status_code == 201
    assert server.rows(table)[-1]["name"] == name
    made = BY_PAGE[what](browser, {"name": name if what == "key" else f"{name}2"[-100:]})
    assert made.status_code in (200, 303)
    assert server.rows(table)[-1]["name"] == (name if what == "key" else f"{name}2"[-100:])


def test_credentials_with_a_field_left_empty_ask_no_platform(office: ConnectSession) -> None:
    office.server.lab.lab.calls.clear()
    by_page = form(office.browser, "/connect/bluesky", {"handle": "alice.test", "password": ""})
    by_api = office.browser.post("/v1/accounts/connect/bluesky/complete", json={"handle": "alice.test"})
    assert (by_page.status_code, by_api.status_code) == (400, 400)
    assert 'role="alert"' in by_page.text
    assert office.server.lab.lab.calls == []


@pytest.mark.parametrize("profile", ["not-a-uuid", UNKNOWN_ID])
def test_connecting_in_a_profile_that_is_not_there_is_refused_alike(office: ConnectSession, profile: str) -> None:
    by_api = office.browser.post("/v1/accounts/connect/threads", json={"profileId": profile})
    by_page = office.browser.get("/connect/threads", params={"profile": profile})
    assert by_page.status_code == by_api.status_code in (400, 404)
    assert error_of(by_page) | {"requestId": ""} == error_of(by_api) | {"requestId": ""}
    assert office.attempts() == []


# --- The same is left behind ----------------------------------------------------------------------------------------


def newest(server: AppServer) -> dict[str, Any]:
    return max(server.rows(AuditEntry), key=lambda row: int(row["number"]))


def test_the_row_of_an_act_names_the_same_subject_whoever_asked(server: AppServer, browser: ApiClient) -> None:
    made = browser.post("/v1/api-keys", json={"name": "ci"}).json()["id"]
    assert newest(server)["subject"] == made
    form(browser, "/settings/keys", {"name": "ci"})
    assert newest(server)["subject"] == server.rows(ApiKey)[-1]["id"]
    browser.post("/v1/profiles", json={"name": "North"})
    assert newest(server)["subject"] == server.rows(Profile)[-1]["id"]
    form(browser, "/settings/profiles", {"name": "South"})
    assert newest(server)["subject"] == server.rows(Profile)[-1]["id"]


def test_connecting_by_api_and_page_leaves_the_same_rows(office: ConnectSession) -> None:
    office.login_exists()
    told = []
    for start, end in (
        (office.start, lambda back: office.complete(code=back["code"], state=back["state"])),
        (lambda: _link(office), lambda back: office.browser.get("/connect/threads/callback", params=back)),
    ):
        back = office.visit(start())
        before = len(office.server.rows(AuditEntry))
        assert end(back).status_code < 400
        told.append((len(office.server.rows(AuditEntry)) - before, newest(office.server)["subject"]))
    (account,) = office.rows()
    assert told == [(1, account["id"])] * 2


def _link(office: ConnectSession) -> str:
    found = re.search(r'id="go" href="([^"]+)"', office.browser.get("/connect/threads").text)
    assert found is not None
    return found[1].replace("&amp;", "&")


@pytest.mark.parametrize("how", ["api", "page"])
def test_disconnected_account_is_revoked_upstream_however_requested(office: ConnectSession, how: str) -> None:
    office.server.connect_bluesky(office.alice)
    account = office.alice.bluesky
    office.server.lab.lab.calls.clear()
    if how == "api":
        assert office.browser.delete(f"/v1/accounts/{account}").json() == {"id": account, "deleted": True}
    else:
        assert form(office.browser, f"/accounts/{account}/disconnect", {}).status_code == 303
    assert newest(office.server)["subject"] == account
    assert [row["disconnected_at"] is not None for row in office.server.rows(Account)] == [True]
    assert [call.operation for call in office.server.lab.lab.calls] == ["com.atproto.server.deleteSession"]
