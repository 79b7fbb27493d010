"""Pages of drafts, and the role author against every route and page."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import pytest

from socialpub.store.schema.models import Account, PostDraft
from socialpub.web.routes import ROUTES
from tests.support.app_server import UNKNOWN_ID, ApiClient, AppServer, Person, unchanged
from tests.support.composer_form import open_form
from tests.support.connect_flow import sign_in
from tests.support.dashboard_forms import HTML, LOST, REFUSED, failed_post, follow_notice, send_form
from tests.support.media_uploads import stored_media
from tests.support.parsed_pages import ParsedPage
from tests.support.post_drafts import approved_draft, change_draft, new_draft, read_draft
from tests.support.route_addresses import route_address

TIME = "2999-05-04T15:30:00.000Z"


@pytest.fixture
def draft(alice: Person) -> str:
    return str(new_draft(alice.api, targets=[{"accountId": alice.bluesky}], text="Hours", scheduledAt=TIME)["id"])


def test_a_draft_without_title_and_text_is_in_every_list(server: AppServer, alice: Person) -> None:
    picture = stored_media(alice.api)["id"]
    draft = new_draft(alice.api, targets=[{"accountId": alice.bluesky}], media=[picture])["id"]
    assert alice.api.post(f"/v1/drafts/{draft}/propose").status_code == 200
    owner = sign_in(server, alice.organization, name="olga")
    for page in ("/", "/drafts"):
        shown = ParsedPage(owner.get(page, headers=HTML).raise_for_status().text)
        assert (f"/drafts/{draft}" in shown.links, "Untitled draft" in shown.text) == (True, True), page


def test_the_overview_says_that_more_drafts_await_approval(server: AppServer, alice: Person) -> None:
    owner = sign_in(server, alice.organization, name="olga")
    for number in range(6):
        assert "More among the drafts" not in owner.get("/", headers=HTML).text, number
        draft = new_draft(alice.api, title=f"Idea {number}")["id"]
        assert alice.api.post(f"/v1/drafts/{draft}/propose").status_code == 200
    assert "More among the drafts" in owner.get("/", headers=HTML).text


def test_a_draft_goes_from_the_composer_to_its_posts(server: AppServer, alice: Person) -> None:
    author = sign_in(server, alice.organization, role="author", name="ann")
    owner = sign_in(server, alice.organization, name="olga")
    form = {"text": "New hours", f"to.{alice.bluesky}": "yes", "when": "later", "day": "2999-05-04", "clock": "12:00"}
    assert send_form(author, "/compose", **form, do="send").status_code == 403
    saved = send_form(author, "/drafts", **(form | {"when": "now"}))
    assert saved.status_code == 303
    page = saved.headers["Location"]
    assert "New hours" in author.get(page).text
    assert send_form(author, f"{page}/propose").status_code == 303
    assert "Awaits approval" in author.get("/drafts").text
    assert send_form(owner, f"{page}/return", note="Shorter.").status_code == 303
    assert "Shorter." in author.get(page).text
    assert send_form(author, f"{page}/propose").status_code == 303
    shown = owner.get(page).text
    assert 0 < shown.index(">Approve</button>") < shown.index(">Publish now</button>")  # what it waits for is first
    assert '<button class="" type="submit">Approve</button>' in shown
    assert re.search("Created by .*ann@.* Last changed by .*ann@", shown)
    assert re.search("by .*ann@", owner.get("/drafts").text)
    seen = re.search(r'name="seen" value="(\w+)"', shown)
    assert seen
    assert send_form(owner, f"{page}/approve", seen="0" * 64).status_code == 303
    assert read_draft(alice.api, page.rpartition("/")[2])["status"] == "proposed"  # it is not what was shown
    assert send_form(owner, f"{page}/approve", seen=seen[1]).status_code == 303
    assert send_form(owner, f"{page}/link").status_code == 303
    assert "A link works until" in owner.get(page).text
    assert send_form(owner, f"{page}/unlink").status_code == 303
    assert "A link works until" not in owner.get(page).text
    done = send_form(owner, f"{page}/publish")
    assert "Post published." in follow_notice(owner, done)
    assert read_draft(alice.api, page.rpartition("/")[2])["status"] == "published"
    assert page not in owner.get("/drafts").text
    for address in (page, "/drafts?show=used"):  # its posts can still be scheduled, or have failed
        shown = owner.get(address).text
        assert ("Post created" in shown, "Published</span>" in shown) == (True, False), address
    assert f'<br><a href="{page}">View the draft</a>' in owner.get("/settings/log").text


def test_only_what_the_page_showed_is_published(server: AppServer, alice: Person, draft: str) -> None:
    owner, page = sign_in(server, alice.organization, name="olga"), f"/drafts/{draft}"

    def seen() -> str:
        form = owner.get(page, headers=HTML).text.partition(f'action="{page}/publish"')[2].partition("</form>")[0]
        found = re.search(r'name="seen" value="(\w+)"', form)
        assert found, form
        return found[1]

    old = seen()
    content = {"targets": [{"accountId": alice.bluesky}], "text": "Other hours", "scheduledAt": TIME}
    assert change_draft(alice.api, draft, content=content).status_code == 200
    with unchanged(server):
        refused = send_form(owner, f"{page}/publish", seen=old)
    assert "the draft was changed in the meantime" in follow_notice(owner, refused)
    assert change_draft(alice.api, draft, title="no content").status_code == 200
    assert send_form(owner, f"{page}/publish", seen=seen()).status_code == 303
    assert read_draft(alice.api, draft)["status"] == "published"


def test_the_list_has_a_view_of_each_step(alice: Person, browser: ApiClient) -> None:
    made = {name: new_draft(alice.api, title=name)["id"] for name in ("new", "proposed")}
    assert alice.api.post(f"/v1/drafts/{made['proposed']}/propose").status_code == 200
    for query, shown in (("", {"new", "proposed"}), ("?show=proposed", {"proposed"}), ("?show=used", set())):
        page = browser.get(f"/drafts{query}", headers=HTML).text
        assert {name for name, draft in made.items() if f'href="/drafts/{draft}"' in page} == shown, query
        assert f'href="/drafts{query}" aria-current="true"' in page
    assert "No drafts in this view" in page
    assert browser.get("/drafts?show=other", headers=HTML).text.count('aria-current="true"') == 1


def test_the_list_says_where_and_when_a_draft_is_to_go(alice: Person, browser: ApiClient, draft: str) -> None:
    two = [{"accountId": alice.bluesky}, {"platform": "twitter"}]
    plans = {
        draft: "1 account, Sat 4 May 2999, 15:30 UTC",
        new_draft(alice.api, text="Soon", targets=two, slot="next")["id"]: "2 accounts, in the next free slot",
        new_draft(alice.api, text="An idea")["id"]: "No account yet",
    }
    page = browser.get("/drafts", headers=HTML).text
    for one, plan in plans.items():
        row = page[page.index(f'href="/drafts/{one}"') :]
        assert " ".join(ParsedPage(row[: row.index("</td>")]).text.split()).endswith(plan), plan


def test_a_draft_whose_post_is_refused_is_not_accepted(server: AppServer, alice: Person) -> None:
    draft = new_draft(alice.api, targets=[{"accountId": alice.bluesky}], text="Hours")["id"]
    owner = sign_in(server, alice.organization, name="olga")
    revoked = Account.update(status="revoked").where(Account.id == alice.bluesky)
    server.service.write(lambda tx: revoked.execute()).result()
    said = follow_notice(owner, send_form(owner, f"/drafts/{draft}/publish"))
    assert "The post was not published. See the reason below." in said


def test_a_draft_is_deleted_after_a_question(server: AppServer, alice: Person, draft: str) -> None:
    author = sign_in(server, alice.organization, role="author", name="ann")
    assert "Delete this draft?" in author.get(f"/drafts/{draft}/delete").text
    assert send_form(author, f"/drafts/{draft}/delete").headers["Location"] == "/drafts"
    assert alice.api.get(f"/v1/drafts/{draft}").status_code == 404


@pytest.mark.slow
def test_an_author_sees_no_button_that_would_be_refused(server: AppServer, alice: Person) -> None:
    author = sign_in(server, alice.organization, role="author", name="ann")
    member = sign_in(server, alice.organization, role="member", name="mona")
    posts = [failed_post(server, alice, LOST), failed_post(server, alice, REFUSED)]
    body = {"targets": [{"accountId": alice.bluesky}], "text": "later", "scheduledAt": "2098-01-01T10:00:00Z"}
    posts.append(alice.api.publish(body).json()["results"][0]["postId"])
    media = stored_media(alice.api)["id"]
    pages = [*(f"/posts/{post}" for post in posts), f"/library/{media}"]
    addresses = re.compile(r'(?:action|href)="(/(?:posts|library|media)[^"?]*/(?:settle|retry|move|cancel|delete))"')
    seen = [addresses.findall(member.get(page, headers=HTML).text) for page in pages]
    assert [len(found) for found in seen] == [1, 2, 2, 1]
    assert seen[-1] == [f"/library/{media}/delete"]
    for page in pages:
        assert addresses.findall(author.get(page, headers=HTML).text) == []
        assert page.startswith("/library") or "Duplicate" in author.get(page, headers=HTML).text


def test_several_drafts_are_deleted_at_once(server: AppServer, alice: Person, charlie: Person) -> None:
    browser = sign_in(server, alice.organization)
    mine = [str(new_draft(alice.api, text=f"Draft {number}")["id"]) for number in range(3)]
    other = str(new_draft(charlie.api, text="Theirs")["id"])
    page = browser.get("/drafts", headers=HTML).text
    boxes = [attributes for tag, attributes in ParsedPage(page).tags if attributes.get("class") == "picker"]
    assert [(box["name"], box["aria-label"]) for box in boxes] == [
        (f"pick.{draft}", f"Select Draft {number} {draft[-6:]}") for number, draft in reversed(list(enumerate(mine)))
    ]
    assert 'action="/drafts/bulk"' in page
    picked = {f"pick.{draft}": "yes" for draft in (*mine[:2], other, UNKNOWN_ID)}
    assert "2 drafts deleted." in follow_notice(browser, send_form(browser, "/drafts/bulk", page="/drafts", **picked))
    assert {row["id"] for row in server.rows(PostDraft)} == {mine[2], other}
    with unchanged(server):
        for chosen in ({}, {f"pick.{number}": "yes" for number in range(101)}):
            refused = send_form(browser, "/drafts/bulk", page="/drafts", **chosen)
            assert "Choose 1 to 100 drafts." in follow_notice(browser, refused)


ME = {"accountId": "ME"}
TARGET = {"targets": [ME], "text": "x"}
LACKING = [  # its content, and the words on its page
    ({}, "Choose at least one account."),
    (TARGET | {"targets": []}, "Choose at least one account."),
    (TARGET | {"targets": [{}]}, "An account is missing."),
    (TARGET | {"targets": [{"platform": "twitter"}]}, "No account of one of its platforms is connected."),
    (TARGET | {"targets": [ME | {"platform": "twitter"}]}, "An account is on another platform than planned."),
    (
        TARGET | {"targets": [ME | {"options": {"platform": "twitter"}}]},
        "The options of an account are for another platform.",
    ),
    ({"targets": [ME]}, "Write a text or add a file."),
    (TARGET | {"scheduledAt": TIME, "slot": "next"}, "More than one time to publish is planned."),
]
LACKING_TODAY = [  # what the page of an approval link does not say: it changes with the time
    (TARGET | {"scheduledAt": "2020-05-04T15:30:00.000Z"}, "This time is in the past."),
    (TARGET | {"slot": "next"}, "There is no free slot."),
    (TARGET | {"scheduledAt": TIME, "firstComment": {"text": "y"}}, "with a first comment cannot be scheduled."),
]
API_WORDS = ("`", "targets", "scheduledAt", "accountId", "firstComment", "text:")


@pytest.mark.parametrize(("content", "words"), [*LACKING, *LACKING_TODAY])
def test_what_a_draft_lacks_is_said_in_the_words_of_the_form(
    server: AppServer, alice: Person, content: dict[str, Any], words: str
) -> None:
    draft = new_draft(alice.api, **json.loads(json.dumps(content).replace("ME", alice.bluesky)))["id"]
    owner = sign_in(server, alice.organization, name="olga")
    assert words in ParsedPage(owner.get(f"/drafts/{draft}", headers=HTML).text).text
    told = follow_notice(owner, send_form(owner, f"/drafts/{draft}/publish"))
    assert ParsedPage(told).text.count(words) > 1  # as an answer too
    link = urlsplit(alice.api.post(f"/v1/drafts/{draft}/link").json()["url"]).path
    shown_page = server.api().get(link, headers=HTML).text
    shown = ParsedPage(shown_page).text
    is_lasting = (content, words) in LACKING
    assert (words in shown, 'value="approve"' in shown_page) == (is_lasting, not is_lasting)
    assert [word for word in API_WORDS if word in ParsedPage(told).text + shown] == []


# --- An author -----------------------------------------------------------------------------------------------------

MAY_WRITE = {
    "/logout", "/logout/everywhere", "/compose", "/compose/groups", "/compose/media", "/media",
    "/drafts", "/drafts/bulk", "/drafts/<draft_id:str>/propose", "/drafts/<draft_id:str>/delete",
    "/drafts/<draft_id:str>/move",
    "/library/<media_id:str>/describe", "/profile", "/settings/zone", "/posts/views",
    "/settings/password", "/settings/totp", "/settings/totp/codes", "/settings/totp/off", "/settings/sessions/end",
}  # fmt: skip
MAY_NOT_SEE = ("/settings/keys", "/settings/members", "/settings/log", "/webhooks", "/v1/api-keys", "/settings/apps")


@pytest.mark.slow
def test_an_author_may_draft_and_propose_and_nothing_else(make_server: Callable[..., AppServer]) -> None:
    """Each page and each route that a session may call, by the table of routes itself."""
    server = make_server(mcp={"oauth": True, "url": "http://127.0.0.1:9/mcp"})
    alice = server.person("Alice")
    author = sign_in(server, alice.organization, role="author", name="ann")
    with unchanged(server):
        for route in ROUTES:
            if route.guard in ("open", "key"):
                continue
            name = f"{route.method} {route.path}"
            if route.method != "GET" and not route.is_api and route.path in MAY_WRITE:
                assert route.roles == (), name
                continue
            fields = {} if route.method == "GET" else {"data": {"csrf_token": author.headers["X-CSRF-Token"]}}
            if route.is_api and route.method != "GET":
                fields = {"content": json.dumps({}), "headers": {"Content-Type": "application/json"}}
            answer = author.request(route.method, route_address(route.path), **fields)
            if route.method != "GET" or route.path.startswith(MAY_NOT_SEE):
                assert answer.status_code == 403, name
            else:
                assert (answer.status_code == 403) == bool(route.roles), name
        for path in ("/drafts", "/posts", "/compose", "/calendar", "/media", "/accounts", "/settings"):
            assert author.get(path).status_code == 200
        assert "Publish now" not in author.get("/compose").text
        assert author.post("/v1/drafts", json={}).status_code == 401  # writes of the API take keys


def test_a_member_publishes_only_what_is_approved(make_server: Callable[..., AppServer]) -> None:
    server = make_server(publishing={"approval": True})
    alice = server.person("Alice")
    account = server.connect_bluesky(alice)["id"]
    member = sign_in(server, alice.organization, role="member", name="max")
    form = {"text": "x", f"to.{account}": "yes", "when": "now", "do": "send"}
    with unchanged(server):
        assert send_form(member, "/compose", **form).status_code == 409
    draft = new_draft(alice.api, targets=[{"accountId": account}], text="x")["id"]
    assert send_form(member, f"/drafts/{draft}/approve").status_code == 403
    assert send_form(member, f"/drafts/{draft}/link").status_code == 403
    owner = sign_in(server, alice.organization, name="olga")
    assert send_form(owner, "/compose", **form | {"text": "y"}).status_code == 303


def test_a_member_changes_only_the_time_of_an_approved_post(make_server: Callable[..., AppServer]) -> None:
    server = make_server(publishing={"approval": True})
    alice = server.person("Alice")
    account = server.connect_bluesky(alice)["id"]
    draft = approved_draft(alice.api, targets=[{"accountId": account}], text="Approved", scheduledAt=TIME)
    member = sign_in(server, alice.organization, role="member", name="max")
    published = send_form(member, f"/drafts/{draft}/publish")
    assert published.status_code == 303
    (post,) = alice.api.get("/v1/posts").json()["data"]
    form = {name: value for name, value in open_form(member, "post", post["id"]).items() if name != "csrf_token"}
    path = f"/posts/{post['id']}/edit"
    with unchanged(server):
        refused = send_form(member, path, **form | {"text": "Never approved"})
    assert refused.status_code == 409
    assert "only the time" in ParsedPage(refused.text).text
    day = f"{datetime.fromtimestamp(server.clock.now_ms() / 1000, UTC).year + 1}-05-05"
    assert send_form(member, path, **form | {"day": day}).status_code == 303
    after = alice.api.get(f"/v1/posts/{post['id']}").json()
    assert (after["text"], after["scheduledAt"][:10]) == ("Approved", day)
    owner = sign_in(server, alice.organization, name="olga")
    form = {name: value for name, value in open_form(owner, "post", post["id"]).items() if name != "csrf_token"}
    assert send_form(owner, path, **form | {"text": "Changed"}).status_code == 303


@pytest.mark.parametrize(("content", "words"), LACKING)
def test_an_approval_is_refused_in_these_words_too(
    server: AppServer, alice: Person, content: dict[str, Any], words: str
) -> None:
    draft = new_draft(alice.api, **json.loads(json.dumps(content).replace("ME", alice.bluesky)))["id"]
    owner = sign_in(server, alice.organization, name="olga")
    told = ParsedPage(follow_notice(owner, send_form(owner, f"/drafts/{draft}/approve", seen=""))).text
    assert words in told
    assert [word for word in API_WORDS if word in told] == []
    assert "Approve" not in told
