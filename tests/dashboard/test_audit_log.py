"""Audit log page: acts of people, keys and the operator, filtered by person and day."""

from __future__ import annotations

import html
import re

import httpx
import pytest

from socialpub.domain.access import audit_log_query
from socialpub.domain.access.actor import build_operator
from socialpub.store.schema.models import ApiKey, AuditEntry, User
from tests.support.app_server import AppServer, Person
from tests.support.audit_rows import audit_rows
from tests.support.dashboard_forms import PROOF_EXPIRED, send_settings_form
from tests.support.members import CAROL, SCRIPT_NAME, invite_member, join_organization, joined_browser, member_id
from tests.support.sign_in import EMAIL, PASSWORD, add_user, signed_in

LOG = "/settings/log"


def told(browser: httpx.Client, **asked: str) -> list[tuple[str, ...]]:
    """Who, what and from where of each line, as text."""
    answer = browser.get(LOG, params=asked)
    assert answer.status_code == 200
    lines = re.findall(r"<tr>\n(.*?)</tr>", answer.text, re.S)
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", line, re.S) for line in lines]
    return [tuple(plain(cell) for cell in row) for row in cells if row]


def plain(cell: str) -> str:
    return " ".join(html.unescape(re.sub("<[^>]+>", " ", cell)).split())


def act(server: AppServer, alice: Person, **values: object) -> None:
    """A row as it may stand there."""
    row = {
        "at": server.clock.now_ms(),
        "organization": alice.organization,
        "verb": "POST /login",
        "address": "203.0.113.9",
        "request_id": "r",
    }
    server.service.write(lambda tx: AuditEntry.insert(**(row | values)).execute()).result()


def test_what_was_published_links_to_its_posts(server: AppServer, owner: httpx.Client, alice: Person) -> None:
    targets = [{"accountId": alice.bluesky}]
    alone = alice.api.publish({"targets": targets, "text": "alone"}).json()
    server.connect(alice, "threads")
    both = [*targets, {"accountId": alice.accounts["threads"]["id"]}]
    together = alice.api.publish({"targets": both, "text": "together"}).json()
    batch = alice.api.get(f"/v1/posts/{together['results'][0]['postId']}").json()["batchId"]
    page = owner.get("/settings/log").text
    assert f'href="/posts/{alone["results"][0]["postId"]}">View the post</a>' in page
    assert f'href="/posts?batchId={batch}">View the posts</a>' in page


def test_opening_a_page_to_connect_is_no_act(server: AppServer, owner: httpx.Client) -> None:
    before = len(server.rows(AuditEntry))
    for _ in range(3):
        assert owner.get("/connect/bluesky").status_code == 200
    assert len(server.rows(AuditEntry)) == before


def test_what_people_keys_and_the_operator_do_stands_there(
    server: AppServer, owner: httpx.Client, alice: Person
) -> None:
    path = invite_member(owner)
    join_organization(server, path)
    send_settings_form(owner, f"/settings/members/{member_id(server, CAROL)}", role="admin")
    send_settings_form(owner, "/settings/keys", name="for the shop")
    scheduled = {"targets": [{"accountId": alice.bluesky}], "text": "hi", "scheduledAt": "2098-01-01T10:00:00Z"}
    post = alice.api.publish(scheduled).json()["results"][0]["postId"]
    send_settings_form(owner, f"/posts/{post}/cancel")
    send_settings_form(owner, f"/accounts/{alice.bluesky}/disconnect", keep="")
    send_settings_form(owner, f"/settings/members/{member_id(server, CAROL)}/remove")
    here, key = "127.0.0.1", server.rows(ApiKey, id=alice.key_id)[0]["name"]
    assert told(owner)[:9] == [
        (EMAIL, f"Remove a member {CAROL}", here),
        (EMAIL, f"Disconnect an account {alice.accounts['bluesky']['displayName']}", here),
        (EMAIL, "Cancel a scheduled post View the post", here),
        (f"key {key}", "Publish or schedule View the post", here),
        (EMAIL, "Create an API key for the shop", here),
        (EMAIL, f"Change a member's role {CAROL}", here),
        (CAROL, "Accept an invitation", here),
        (EMAIL, "Invite a member", here),
        (EMAIL, "Sign in", here),
    ]
    assert f'href="/posts/{post}"' in owner.get(LOG).text


@pytest.mark.parametrize("given", [{"password": "wrong password!"}, {}])
def test_a_refusal_leaves_no_line(server: AppServer, owner: httpx.Client, given: dict[str, str]) -> None:
    server.clock.skip(PROOF_EXPIRED)
    before = audit_rows(server)
    assert send_settings_form(owner, "/settings/keys", name="x", **given).status_code == 403
    assert audit_rows(server) == before


def test_a_password_that_was_given_again_is_told_as_that(server: AppServer, owner: httpx.Client) -> None:
    server.clock.skip(PROOF_EXPIRED)
    assert send_settings_form(owner, "/settings/password", password=PASSWORD, new_password="short").status_code == 400
    assert told(owner)[0][1] == "Confirm the password"


# --- Filters and pages -----------------------------------------------------------------------------------------------


def test_the_log_is_narrowed_by_person_and_kind_in_the_address(server: AppServer, owner: httpx.Client) -> None:
    carol = joined_browser(server, owner, role="admin")
    send_settings_form(carol, "/settings/keys", name="carol's")
    hers = told(owner, person=member_id(server, CAROL))
    assert [line[1] for line in hers] == ["Create an API key carol's", "Accept an invitation"]
    assert [line[1] for line in told(owner, kind="keys")] == ["Create an API key carol's"]
    assert told(owner, kind="keys", person=member_id(server, EMAIL)) == []
    assert "No entries match these filters" in owner.get(LOG, params={"kind": "media"}).text
    page = owner.get(LOG, params={"kind": "keys"}).text
    assert '<option value="keys" selected>' in page
    send_settings_form(owner, f"/settings/members/{member_id(server, CAROL)}/remove")
    assert f"{CAROL} (removed)" in owner.get(LOG).text


def test_a_day_is_the_readers_own(server: AppServer, owner: httpx.Client, alice: Person) -> None:
    server.service.write(lambda tx: User.update(zone="America/New_York").execute()).result()
    begins, ends = 1_772_427_600_000, 1_772_514_000_000
    for at, address in ((begins - 1, "before"), (begins, "first"), (ends - 1, "last"), (ends, "after")):
        act(server, alice, at=at, address=address)
    lines = told(owner, **{"from": "2026-03-02", "until": "2026-03-02"})
    assert [line[2] for line in lines] == ["last", "first"]
    assert told(owner, until="2026-03-01")[0][2] == "before"
    assert "EST" in owner.get(LOG, params={"until": "2026-03-02"}).text


def test_pages_go_on_where_the_last_ended_and_lose_none_of_one_instant(
    server: AppServer, owner: httpx.Client, alice: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_log_query, "PAGE_SIZE", 3)
    for number in range(8):
        act(server, alice, at=1_700_000_000_000, address=f"a{number}")
    seen, asked = [], {"kind": "signin", "until": "2024-01-01"}
    page = owner.get(LOG, params=asked)
    while True:
        seen += re.findall(r">(a\d)<", page.text)
        older = re.search(r'href="([^"]+)" rel="next"', page.text)
        if older is None:
            break
        page = owner.get(html.unescape(older[1]))
    assert seen == [f"a{number}" for number in reversed(range(8))]


@pytest.mark.matrix
@pytest.mark.parametrize(
    "asked",
    [
        {"from": "yesterday"},
        {"from": "2026-02-30"},
        {"until": "9999-12-31"},
        {"from": "2026-W01-1x"},
        {"person": "x"},
        {"person": SCRIPT_NAME},
        {"kind": SCRIPT_NAME},
        {"cursor": "x"},
        {"cursor": "\u00e9" * 50},
        {"from": "\0"},
    ],
)
def test_what_cannot_be_asked_for_is_said_on_the_page(owner: httpx.Client, asked: dict[str, str]) -> None:
    answer = owner.get(LOG, params=asked)
    assert answer.status_code == 200
    assert 'role="alert"' in answer.text or not told(owner, **asked)
    assert 'href="/settings/log">Show all' in answer.text  # the way out
    assert "<script>alert" not in answer.text


# --- Who sees it ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "who"),
    [
        ("command key_create", "the operator"),
        ("POST /approve/<token:str>", "a holder of the approval link"),
        ("POST /billing/lemonsqueezy", "Lemon Squeezy"),
        ("POST /oauth/token with a used code", "someone who was not signed in"),
    ],
)
def test_who_acts_without_a_login_is_no_operator(
    server: AppServer, owner: httpx.Client, alice: Person, verb: str, who: str
) -> None:
    act(server, alice, verb=verb, at=server.clock.now_ms() + 1000)
    name, action, _ = told(owner)[0]
    assert name == who
    assert action != verb


def test_members_and_other_organizations_do_not_see_the_log(server: AppServer, owner: httpx.Client) -> None:
    member = joined_browser(server, owner)
    assert member.get(LOG).status_code == 403
    assert LOG not in member.get("/settings").text
    mallory = server.person("Mallory")
    add_user(server, mallory, "mallory@example.com", "owner")
    browser = signed_in(server, "mallory@example.com")
    assert {line[0] for line in told(browser)} <= {"mallory@example.com", "the operator"}
    page = browser.get(LOG).text
    assert EMAIL not in page
    assert CAROL not in page
    hers = browser.get(LOG, params={"person": member_id(server, EMAIL)})
    assert "no such member" in hers.text
    cursor = {"cursor": "x"}
    assert "cursor does not belong" in browser.get(LOG, params=cursor).text


def test_what_others_wrote_stays_text(server: AppServer, owner: httpx.Client, alice: Person) -> None:
    act(server, alice, verb=SCRIPT_NAME, address=SCRIPT_NAME, subject=SCRIPT_NAME, user=SCRIPT_NAME)
    send_settings_form(owner, "/settings/keys", name=SCRIPT_NAME)
    page = owner.get(LOG).text
    assert "<script>alert" not in page
    assert html.escape(SCRIPT_NAME, quote=False).replace('"', "&#34;") in page


def test_the_operator_acts_in_an_organization_and_is_seen(
    server: AppServer, owner: httpx.Client, alice: Person
) -> None:
    who = build_operator(server.service, "command user_create", "user 0 of this machine").within(alice.organization)
    assert who.audit.organization == alice.organization
