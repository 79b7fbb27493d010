"""Layout of the dashboard: navigation, current profile, time zones, errors, notices."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from socialpub.web.dashboard.parts import layout
from socialpub.web.html import templates, time_format
from tests.support.app_server import UNKNOWN_ID, ApiClient, AppServer, Person
from tests.support.connect_flow import sign_in
from tests.support.dashboard_forms import send_form
from tests.support.parsed_pages import ParsedPage
from tests.support.write_requests import WriteRequest

WRITES = [
    WriteRequest("POST", "/profile", lambda person, browser: send_form(browser, "/profile", profile=person.profile)),
    WriteRequest(
        "POST", "/settings/zone", lambda person, browser: send_form(browser, "/settings/zone", zone="Asia/Tokyo")
    ),
]
NOON = "2026-07-01T12:00:00.000Z"
HTML = {"Accept": "text/html"}


# --- The way around ------------------------------------------------------------------------------------------------


def ways(text: str) -> list[str]:
    return re.findall(r'<a href="([^"]*)"', text.partition('<nav class="ways"')[2].partition("</nav>")[0])


def test_the_way_around_names_pages_that_exist_and_no_other(browser: ApiClient) -> None:
    found = ways(browser.get("/").text)
    assert found == [address for _, address in layout.NAVIGATION if browser.get(address).status_code == 200]
    assert {"/", "/settings"} <= set(found)


@pytest.mark.slow
def test_every_link_of_the_dashboard_leads_somewhere(browser: ApiClient) -> None:
    waiting, seen, kinds = ["/"], set[str](), Counter[str]()
    while waiting:
        path = waiting.pop()
        kind = re.sub(r"\d{4}-\d\d[\d-]*", "day", path)  # a calendar goes on for ever
        if path in seen or kinds[kind] > 2 or path.startswith(("#", "/docs", "/connect/", "https://")):
            continue
        seen.add(path)
        kinds[kind] += kind != path
        answer = browser.get(path, headers=HTML)
        assert answer.status_code == 200, path
        if answer.headers["Content-Type"].startswith("text/html"):
            page = ParsedPage(answer.text)
            assert len(page.ids) == len(set(page.ids)), path
            waiting += [link.partition("#")[0] or path for link in page.links]
    assert "/static/page.js" in seen


def test_where_one_is_is_marked_and_the_brand_leads_home(browser: ApiClient) -> None:
    text = browser.get("/settings").text
    assert re.findall(r'<a href="([^"]*)" aria-current="page"', text) == [
        "/settings",
        "/settings",
    ]  # there, and within it
    assert '<a class="brand" href="/">' in text


def test_the_list_of_shortcuts_has_every_one(browser: ApiClient) -> None:
    script, page = browser.get("/static/keys.js").text, browser.get("/").text
    ways = re.findall(r'(\w): "/', script.partition("WAYS")[2].partition("}")[0])
    acts = re.findall(r'^    "?(\S)"?: ', script.partition("KEYS")[2].partition("};")[0], re.MULTILINE)
    assert (len(ways), len(acts)) == (8, 8)
    wanted = [f"<kbd>g</kbd> <kbd>{way}</kbd>" for way in ways] + [f"<kbd>{act}</kbd>" for act in acts]
    assert [keys for keys in wanted if keys not in page] == []


# --- The profile that one is in --------------------------------------------------------------------------------------


def test_a_session_is_in_one_profile_or_in_all(server: AppServer, alice: Person, browser: ApiClient) -> None:
    assert "All profiles" not in browser.get("/settings").text  # there is one
    other = browser.post("/v1/profiles", json={"name": "Second"}).json()["id"]
    assert "All profiles" in browser.get("/settings").text
    answer = send_form(browser, "/profile", profile=other, page="/settings")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/settings")
    page = browser.get("/accounts").text
    assert f'<option value="{other}" selected dir="auto">' in page
    assert "No accounts are connected" in page  # those of the first profile are not shown
    assert browser.get("/v1/accounts").json()["data"]  # the API does not know of it
    send_form(browser, "/profile", profile="")
    assert "No accounts are connected" not in browser.get("/accounts").text


def test_nobody_is_in_a_profile_of_another_organization(server: AppServer, browser: ApiClient) -> None:
    assert send_form(browser, "/profile", profile=server.person("Mallory").profile).status_code == 404


def test_a_deleted_profile_is_left(browser: ApiClient) -> None:
    other = browser.post("/v1/profiles", json={"name": "Second"}).json()["id"]
    send_form(browser, "/profile", profile=other)
    assert browser.delete(f"/v1/profiles/{other}").status_code == 200
    assert "No accounts are connected" not in browser.get("/accounts").text


def test_the_way_back_leads_nowhere_else(browser: ApiClient) -> None:
    assert send_form(browser, "/profile", profile="", page="//evil.example").headers["Location"] == "/"


# --- Times -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("zone", "words"),
    [
        ("UTC", "Wed 1 Jul 2026, 12:00 UTC"),
        ("Europe/Berlin", "Wed 1 Jul 2026, 14:00 CEST"),
        ("America/Sao_Paulo", "Wed 1 Jul 2026, 09:00 UTC-03"),
        ("Pacific/Auckland", "Thu 2 Jul 2026, 00:00 NZST"),
    ],
)
def test_an_instant_is_told_on_the_clock_of_the_reader_with_its_zone(zone: str, words: str) -> None:
    assert time_format.format_instant(NOON, zone) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "just now"),
        (29, "just now"),
        (-5, "in a moment"),
        (45, "45 seconds ago"),
        (60, "1 minute ago"),
        (3599, "1 hour ago"),
        (-7200, "in 2 hours"),
        (86_400, "1 day ago"),
        (-40 * 86_400, "in 1 month"),
        (400 * 86_400, "1 year ago"),
    ],
)
def test_how_far_away_an_instant_is(seconds: int, words: str) -> None:
    assert time_format.format_distance(1_000_000_000_000, 1_000_000_000_000 + seconds * 1000) == words


def test_instant_in_text_is_shown_in_the_readers_zone_and_stays_text() -> None:
    words = "Sent at 2026-11-21T09:30:00.012Z <b>&"
    shown = templates.environment().from_string("{{ words | localized }}")
    page = shown.render(words=words, zone="Europe/Berlin")
    assert page.startswith('Sent at <time datetime="2026-11-21T09:30:00Z"')
    assert page.endswith("Sat 21 Nov 2026, 10:30 CET</time> &lt;b&gt;&amp;")


def test_times_use_the_chosen_zone_else_the_browsers(browser: ApiClient) -> None:
    assert "Times are shown in UTC." in browser.get("/").text
    assert send_form(browser, "/settings/zone", zone="Asia/Tokyo").status_code == 303
    page = browser.get("/settings").text
    assert "Times are shown in Asia/Tokyo." in page
    assert '<option value="Asia/Tokyo" selected dir="auto">' in page
    assert send_form(browser, "/settings/zone", zone="Mars/Olympus").status_code == 400
    assert "Asia/Tokyo" in browser.get("/").text


# --- A word for the next page ----------------------------------------------------------------------------------------


def test_a_notice_is_shown_once_and_to_its_session_alone(server: AppServer, alice: Person, browser: ApiClient) -> None:
    words = "Time zone saved."
    sent = send_form(browser, "/settings/zone", zone="Asia/Tokyo")
    cookie = sent.headers["Set-Cookie"].partition(";")[0]
    mine = {"Cookie": f"{browser.headers['Cookie']}; {cookie}"}
    shown = browser.get("/settings", headers=mine)
    assert words in shown.text
    assert shown.headers["Set-Cookie"].startswith(f"{layout.FLASH_COOKIE}=; Path=/; Max-Age=0")
    assert words not in browser.get("/settings").text
    other = sign_in(server, alice.organization, name="carol")
    assert words not in other.get("/settings", headers={"Cookie": f"{other.headers['Cookie']}; {cookie}"}).text
    server.clock.skip(layout.FLASH_SECONDS + 1)
    assert words not in browser.get("/settings", headers=mine).text


# --- Errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "says"),
    [("/nothing", "Page not found"), (f"/posts/{UNKNOWN_ID}", ""), ("/connect/nowhere", "")],
)
def test_an_error_is_told_within_the_frame_with_a_way_on(browser: ApiClient, path: str, says: str) -> None:
    answer = browser.get(path, headers=HTML)
    assert answer.status_code >= 400
    assert ways(answer.text)
    assert says in answer.text
    assert '<a class="button' in answer.text
    assert answer.headers["X-Request-Id"] in answer.text


@pytest.mark.parametrize(
    ("path", "says"),
    [
        (f"/posts/{UNKNOWN_ID}", "The page was deleted, or the address is wrong."),
        ("/approve/nothing", "Ask the person who sent it for another."),
        ("/setup/nothing", "Sign in, or open the link that the server printed last."),
    ],
)
def test_what_is_not_there_is_told_in_words_for_people(browser: ApiClient, path: str, says: str) -> None:
    shown = browser.get(path, headers=HTML).text.partition("<details>")[0]
    assert says in shown.partition("<main")[2]
    assert "scope" not in shown.partition("<h1>")[2].partition("</h1>")[2]


def test_somebody_who_is_not_signed_in_sees_a_bare_frame(server: AppServer) -> None:
    answer = server.api().get("/nothing", headers=HTML)
    assert answer.status_code == 404
    assert ways(answer.text) == []
    assert "Back to the overview" in answer.text


def test_a_role_that_does_not_suffice_is_told_in_words(server: AppServer, alice: Person) -> None:
    member = sign_in(server, alice.organization, role="member", name="dave")
    answer = member.post("/settings/keys", data={"csrf_token": "csrf-dave", "name": "mine"}, headers=HTML)
    assert answer.status_code == 403
    assert "Your role does not allow this" in answer.text


@pytest.mark.parametrize("path", ["/settings/keys", "/settings/notifications/new/slack"])
def test_the_scope_of_all_profiles_has_one_name(
    server: AppServer, alice: Person, browser: ApiClient, path: str
) -> None:
    """Chosen in a form and shown in a list: of keys, channels and endpoints."""
    assert browser.post("/v1/profiles", json={"name": "Second"}).status_code == 201
    assert '<option value="" dir="auto">The whole organization</option>' in re.sub(
        " selected", "", browser.get(path, headers=HTML).text
    )
    send_form(browser, "/settings/notifications/new/slack", secret_url="https://127.0.0.1:9/x")
    hook = alice.api.post("/v1/webhook-endpoints", json={"url": "https://127.0.0.1:9/x"}).json()["id"]
    for page in ("/settings/keys", "/settings/notifications", f"/webhooks/{hook}"):
        assert "the whole organization" in browser.get(page, headers=HTML).text
