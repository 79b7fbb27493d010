"""Platform app pages: credentials are entered, checked, used at once, never shown."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from socialpub import platforms
from socialpub.base.errors import ApiError
from socialpub.domain.accounts import token_refresh, tokens
from socialpub.domain.identity import signin
from socialpub.simulator.oauth import CLIENT_ID, CLIENT_SECRET
from socialpub.simulator.server import SimulatorThread
from socialpub.store.schema.models import AuditEntry, PlatformApp
from tests.support.app_server import AppServer, error_of
from tests.support.connect_flow import OAUTH, ConnectSession, open_connect_session, sign_in
from tests.support.dashboard_forms import send_form
from tests.support.inline_executor import InlineExecutor

CHECKED = ["facebook", "pinterest", "threads", "tiktok"]  # those that can say that they know an app
WRONG = "a-secret-of-another-app"
Open = Callable[..., ConnectSession]


@pytest.fixture
def open_(
    make_server: Callable[..., AppServer], lab: SimulatorThread, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Open]:
    opened: list[ConnectSession] = []

    def office(name: str = "threads", **apps: dict[str, str]) -> ConnectSession:
        """Alice owns the server. The settings name no app but these."""
        sites = {each: {"api_base": lab.origin(each), "enabled": True} | apps.get(each, {}) for each in OAUTH}
        sites["bluesky"] = {"api_base": lab.origin("bluesky")}
        opened.append(open_connect_session(make_server, lab, monkeypatch, name, platforms=sites))
        opened[-1].server.watch.secrets |= {CLIENT_SECRET, WRONG}
        return opened[-1]

    yield office
    for each in opened:
        each.upstream.client_secret = CLIENT_SECRET


def type_in(
    office: ConnectSession, name: str = "", client_id: str = CLIENT_ID, secret: str = CLIENT_SECRET, **more: str
):
    path = f"/settings/apps/{name or office.name}"
    return send_form(office.browser, path, client_id=client_id, client_secret=secret, **more)


def note(office: ConnectSession, sent: httpx.Response) -> str:
    """What the page says that is seen after a form."""
    assert sent.status_code == 303, sent.text
    cookies = f"{office.browser.headers['Cookie']}; {sent.headers['Set-Cookie'].partition(';')[0]}"
    page = office.browser.get(sent.headers["Location"], headers={"Cookie": cookies}).text
    found = re.search(r'class="notice.*?</div>', page, re.S)
    return html.unescape(found[0]) if found else ""


# --- What is asked for -----------------------------------------------------------------------------------------------


@pytest.mark.matrix
@pytest.mark.parametrize("name", OAUTH)
def test_each_page_says_what_the_console_asks_for(open_: Open, name: str) -> None:
    office = open_(name)
    row = platforms.PLATFORMS[name]
    assert row.console is not None
    page = html.unescape(office.browser.get(f"/settings/apps/{name}").text)
    assert f"<code>{office.server.service.base_url}/connect/{name}/callback</code>" in page
    assert 'id="copy-redirect-uri"' in page
    assert f'href="{row.console.url}" rel="noreferrer"' in page
    for words in (row.console.id_name, row.console.secret_name, row.console.redirect_name, *row.console.products):
        assert words in page
    assert f'href="/settings/apps/{name}"' in office.browser.get("/settings/apps").text
    assert f'href="/settings/apps/{name}"' in office.browser.get("/accounts").text


def test_what_is_no_platform_or_needs_no_app_has_no_page(open_: Open) -> None:
    office = open_()
    for name in ("bluesky", "myspace", "%3Cb%3E", "x" * 3000):
        assert office.browser.get(f"/settings/apps/{name}").status_code == 404
        assert send_form(office.browser, f"/settings/apps/{name}", client_id="a", client_secret="b").status_code == 404


# --- Typed in, and used at once --------------------------------------------------------------------------------------


@pytest.mark.matrix
@pytest.mark.parametrize("name", OAUTH)
def test_an_app_that_is_typed_in_connects_accounts_without_a_restart(open_: Open, name: str) -> None:
    office = open_(name)
    made = office.login_exists()
    assert error_of(office.browser.get(f"/connect/{name}"))["code"] == "platform_not_enabled"
    assert type_in(office).status_code == 303
    assert office.connect().status_code in (200, 201)
    assert made["platformAccountId"] in {row["platform_account_id"] for row in office.rows()} or name == "linkedin"
    office.server.restart()
    office.browser = office.server.api(**{name: office.browser.headers[name] for name in ("Cookie", "X-CSRF-Token")})
    assert office.start().startswith(office.server.service.sites[name].authorize_url)


@pytest.mark.matrix
@pytest.mark.parametrize("name", OAUTH)
def test_the_platform_is_asked_where_it_can_be_and_the_page_says_which(open_: Open, name: str) -> None:
    office = open_(name)
    label, path = platforms.PLATFORMS[name].label, f"/settings/apps/{name}"
    told = note(office, type_in(office))
    page = office.browser.get(path).text
    if name in CHECKED:
        assert f"{label} accepts this app." in told
        assert f"{label} confirmed it" in page
    elif platforms.PLATFORMS[name].oauth.app_check:  # type: ignore[union-attr]
        assert f"{label} did not report whether it knows the app" in told
    else:
        assert f"{label} offers no way to check the app" in told
        assert f"{path}/check" not in page


@pytest.mark.parametrize("name", [*CHECKED, "linkedin"])
def test_an_app_that_the_platform_refuses_is_not_kept(open_: Open, name: str) -> None:
    office = open_(name)
    refused = type_in(office, secret=WRONG)
    console = platforms.PLATFORMS[name].console
    assert console is not None
    assert refused.status_code == 403
    assert "refuses the app" in refused.text
    assert f"Copy {console.id_name} and {console.secret_name}" in html.unescape(refused.text)
    assert f'value="{CLIENT_ID}"' in refused.text
    assert "Your session had ended" not in refused.text
    assert WRONG not in refused.text
    assert office.server.rows(PlatformApp) == []


def test_what_cannot_be_reached_is_no_reason_to_keep_nothing(open_: Open) -> None:
    office = open_("threads")
    office.server.lab.lab.faults.add([{"fault": "status:503", "platform": "threads", "operation": "oauth.token"}])
    assert "The app could not be checked: Threads failed to respond." in note(office, type_in(office))
    office.server.lab.lab.faults.clear()
    assert "Threads accepts this app." in note(office, send_form(office.browser, "/settings/apps/threads/check"))
    assert office.server.rows(PlatformApp)[0]["known_at"] is not None


def test_an_app_that_was_right_once_may_be_asked_about_again(open_: Open) -> None:
    office = open_("threads")
    type_in(office)
    office.upstream.client_secret = "another by now"
    told = note(office, send_form(office.browser, "/settings/apps/threads/check"))
    assert 'class="notice bad"' in told
    assert "refuses the app" in told


# --- Secrets ---------------------------------------------------------------------------------------------------------


def test_a_secret_is_sealed_and_never_shown_again(open_: Open) -> None:
    office = open_("twitter")
    type_in(office)
    (row,) = office.server.rows(PlatformApp)
    assert (row["id"], row["client_id"]) == ("twitter", CLIENT_ID)
    assert row["secret"].startswith("v1.")
    for path in ("/settings/apps", "/settings/apps/twitter", "/settings/apps/twitter/remove", "/accounts"):
        page = office.browser.get(path).text
        assert CLIENT_SECRET not in page
        assert row["secret"] not in page


def test_secret_sealed_by_another_key_is_reported_and_typed_again(open_: Open) -> None:
    office = open_("twitter")
    type_in(office)
    office.server.service.write(lambda tx: PlatformApp.update(secret="v1.00000000.x.y").execute()).result()
    office.server.service.sites.forget("twitter")
    page = office.browser.get("/settings/apps/twitter").text
    assert "Enter it again." in page
    assert "Incomplete" in office.browser.get("/settings/apps").text
    type_in(office)
    assert "Enter it again." not in office.browser.get("/settings/apps/twitter").text


def test_each_act_leaves_a_row_of_who_did_it_to_what(open_: Open) -> None:
    office = open_("threads")
    type_in(office)
    send_form(office.browser, "/settings/apps/threads/check")
    send_form(office.browser, "/settings/apps/threads/remove")
    acts = [row for row in office.server.rows(AuditEntry) if "/settings/apps" in row["verb"]]
    assert [row["verb"].partition(" ")[2].rpartition(">")[2] for row in acts] == ["", "/check", "/remove"]
    assert {row["subject"] for row in acts} == {"threads"}
    assert {row["user"] is None for row in acts} == {False}
    assert CLIENT_SECRET not in str(acts)


# --- The settings go before ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [{"client_id": CLIENT_ID, "client_secret": CLIENT_SECRET}, {"client_id": CLIENT_ID}])
def test_an_app_of_the_settings_counts_whatever_was_typed_in(open_: Open, given: dict[str, str]) -> None:
    office = open_("threads", threads=given)
    page = office.browser.get("/settings/apps/threads").text
    assert "This app is set in the settings of the server" in page
    assert 'name="client_secret"' not in page
    assert ("Set both" in page) is (len(given) == 1)
    refused = type_in(office, client_id="other")
    assert refused.status_code == 400
    assert "They override values entered" in refused.text
    assert office.server.rows(PlatformApp) == []
    office.server.service.sites.use("threads", "other", "other")
    assert office.server.service.sites["threads"].client_id == CLIENT_ID


def test_an_app_of_the_settings_can_be_asked_about(open_: Open) -> None:
    office = open_("threads", threads={"client_id": CLIENT_ID, "client_secret": CLIENT_SECRET})
    assert "Threads accepts this app." in note(office, send_form(office.browser, "/settings/apps/threads/check"))
    assert office.server.rows(PlatformApp) == []


# --- Who -------------------------------------------------------------------------------------------------------------

PATHS = ("", "/threads", "/threads/remove")


@pytest.mark.parametrize("role", ["admin", "member"])
def test_only_an_owner_sees_or_changes_apps(open_: Open, role: str) -> None:
    office = open_("threads")
    type_in(office)
    other = sign_in(office.server, office.alice.organization, role=role, name="dave")
    assert "Platform apps" not in other.get("/settings").text
    for path in PATHS:
        assert other.get(f"/settings/apps{path}").status_code == 403
    for path in ("/threads", "/threads/check", "/threads/remove"):
        assert send_form(other, f"/settings/apps{path}", client_id="a", client_secret="b").status_code == 403
    assert office.server.rows(PlatformApp)[0]["client_id"] == CLIENT_ID


def test_among_several_organizations_no_owner_manages_the_apps(open_: Open) -> None:
    office = open_("threads")
    type_in(office)
    mallory = sign_in(office.server, office.server.person("Mallory").organization, name="mallory")
    for browser in (mallory, office.browser):
        page = browser.get("/settings/apps")
        assert page.status_code == 200
        assert "The operator of this server manages platform apps" in page.text
        assert CLIENT_ID not in page.text
        assert browser.get("/settings/apps/threads").status_code == 403
        for path in ("/threads", "/threads/check", "/threads/remove"):
            assert send_form(browser, f"/settings/apps{path}", client_id="a", client_secret="b").status_code == 403
    assert office.server.rows(PlatformApp)[0]["client_id"] == CLIENT_ID


def test_nobody_without_a_session_or_its_token_changes_one(open_: Open) -> None:
    office = open_("threads")
    sent = {"client_id": "typed", "client_secret": WRONG, "page": "/settings/apps/threads"}
    assert error_of(office.browser.post("/settings/apps/threads", data=sent))["rule"] == "csrf"
    for nobody in (office.server.api(), office.alice.api):
        page = nobody.post("/settings/apps/threads", data=sent).text
        assert 'name="email"' in page  # to sign in; what was typed comes back then, but for the secret
        assert "typed" in page
        assert WRONG not in page
    assert office.server.rows(PlatformApp) == []


def test_password_is_required_ten_minutes_after_the_sign_in(open_: Open) -> None:
    office = open_("threads")
    type_in(office)
    office.server.clock.skip(signin.REAUTHENTICATED_MS / 1000 + 1)
    for path in ("/settings/apps/threads", "/settings/apps/threads/remove"):
        assert 'name="password"' in office.browser.get(path).text
        refused = send_form(office.browser, path, client_id="a", client_secret=WRONG)
        assert refused.status_code == 403
        assert WRONG not in refused.text
    assert office.server.rows(PlatformApp)[0]["client_id"] == CLIENT_ID


# --- What somebody may type ------------------------------------------------------------------------------------------

HOSTILE = ["", " ", "a b", "ä", "x" * 201, "a\r\nX-Evil: 1", "a\x00b", "a\u202eb"]


@pytest.mark.matrix
@pytest.mark.parametrize("typed", HOSTILE)
def test_what_no_platform_gives_is_refused_in_words(open_: Open, typed: str) -> None:
    office = open_("threads")
    refused = type_in(office, client_id=typed)
    assert refused.status_code == 400
    assert "Threads app ID must have 1 to 200 characters" in refused.text
    secret = type_in(office, secret=typed * 3)
    assert secret.status_code == 400
    assert "Threads app secret must have 1 to 500 characters" in secret.text
    assert office.server.rows(PlatformApp) == []


def test_an_id_with_markup_in_it_stays_text(open_: Open) -> None:
    office = open_("twitter")
    type_in(office, client_id="<img/src=x>\"'{{7*7}}")
    for path in ("/settings/apps", "/settings/apps/twitter", "/settings/apps/twitter/remove"):
        page = office.browser.get(path).text
        assert "<img" not in page
        assert "&lt;img/src=x&gt;" in page
        assert "{{7*7}}" in page


# --- Renewals --------------------------------------------------------------------------------------------------------

NEW = "the-secret-that-was-made-anew"


@pytest.fixture
def renewing(open_: Open) -> ConnectSession:
    """Alice's account is connected through an app whose secret was made anew at the platform."""
    office = open_("twitter")
    type_in(office)
    office.login_exists()
    assert office.connect().status_code == 201
    office.upstream.client_secret = NEW
    office.server.watch.secrets.add(NEW)
    office.server.service.executors.immediate = InlineExecutor()  # type: ignore[assignment]
    return office


def renew(office: ConnectSession) -> str:
    """Ask for new tokens of the account; what went wrong."""
    (row,) = office.rows()
    try:
        tokens.refresh_tokens(
            office.server.service, row["id"], tokens.decrypt(office.server.service, row["id"], row["secret"])
        )
    except ApiError as error:
        return error.code
    return ""


def test_renewals_that_were_refused_go_on_at_once_with_the_right_secret(renewing: ConnectSession) -> None:
    office, upkeep = renewing, token_refresh.TokenRefresher(renewing.server.service)
    office.server.clock.skip(8 * 86_400)
    before = office.calls("oauth.token")
    for _ in range(3):
        upkeep.run()
    assert office.calls("oauth.token") == before + 1  # it waits after a failure
    assert renew(office) == "platform_not_enabled"
    assert renew(office) == "platform_unavailable"  # it is not asked for a third time within the hour
    assert {row["status"] for row in office.rows()} == {"active"}
    office.browser = sign_in(office.server, office.alice.organization, name="alice-again")
    assert type_in(office, secret=NEW).status_code == 303
    upkeep.run()
    assert office.calls("oauth.token") == before + 3
    (row,) = office.rows()
    assert (row["status"], row["renewed_at"] > office.server.clock.now_ms() - 60_000) == ("active", True)


def test_a_renewal_that_is_under_way_while_the_app_changes_ends_well(
    renewing: ConnectSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    authenticate, typed = renewing.upstream.authenticate, []

    def meanwhile(*args: Any) -> None:
        typed.append(type_in(renewing, secret=NEW) if not typed else None)
        authenticate(*args)

    monkeypatch.setattr(renewing.upstream, "authenticate", meanwhile)
    assert renew(renewing) == ""
    assert len(typed) == 2  # refused with the old secret, and asked once more with the new one


def test_account_without_its_app_stays_and_resumes_with_a_new_one(renewing: ConnectSession) -> None:
    assert "1 connected account keeps working until its access must be renewed" in " ".join(
        renewing.browser.get("/settings/apps/twitter/remove").text.split()
    )
    assert send_form(renewing.browser, "/settings/apps/twitter/remove").headers["Location"] == "/settings/apps"
    assert renewing.server.rows(PlatformApp) == []
    assert error_of(renewing.browser.get("/connect/twitter"))["code"] == "platform_not_enabled"
    assert renew(renewing) == "platform_not_enabled"
    assert {row["status"] for row in renewing.rows()} == {"active"}
    type_in(renewing, secret=NEW)
    assert renew(renewing) == ""
    assert send_form(renewing.browser, "/settings/apps/instagram/remove").status_code == 404
