"""Post pages: the filtered log, one post, and moving, canceling, retrying, settling."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import pytest

from socialpub.domain.identity import dashboard_session
from socialpub.store.schema.models import Attempt, Intent, Post, User
from tests.support import post_rows as kit
from tests.support.app_server import UNKNOWN_ID, ApiClient, AppServer, Person, format_instant
from tests.support.connect_flow import sign_in
from tests.support.dashboard_forms import HTML, LOST, REFUSED, XSS, failed_post, follow_notice, later_time, send_form
from tests.support.database_costs import DatabaseCounter
from tests.support.parsed_pages import ParsedPage
from tests.support.post_list import insert_rows
from tests.support.publishing_state import publish_post
from tests.support.request_cast import RequestCast
from tests.support.sign_in import add_user

HOUR = 3_600_000


def scheduled(person: Person) -> str:
    return publish_post(person, "later", scheduledAt="2098-01-01T10:00:00Z")


@pytest.fixture
def server(make_server: Callable[..., AppServer]) -> AppServer:
    return make_server(limits={"reads": 100_000})


def shown(browser: ApiClient, query: str = "") -> list[str]:
    """The ids of the posts on a page of the log, in its order."""
    answer = browser.get(f"/posts{query}", headers=HTML)
    assert answer.status_code == 200
    return re.findall(r'class="text" href="/posts/([0-9a-f-]+)"', answer.text)


def page_of(browser: ApiClient, post: str, rest: str = "") -> str:
    answer = browser.get(f"/posts/{post}{rest}", headers=HTML)
    assert answer.status_code == 200, answer.text
    return answer.text


# --- Threads ---------------------------------------------------------------------------------------------------------


def test_a_piece_of_a_thread_links_to_the_first_and_moves_with_it(
    server: AppServer, alice: Person, browser: ApiClient
) -> None:
    body = {"targets": [{"accountId": alice.bluesky}], "text": "first", "thread": [{"text": "second"}]}
    (result,) = alice.api.publish(body | {"scheduledAt": "2098-01-01T10:00:00Z"}).json()["results"]
    first, second = result["postId"], result["thread"][0]["postId"]
    assert "<dt>Thread</dt>" in page_of(browser, first)
    assert f"/posts/{first}/move" in page_of(browser, first)
    shown_piece = page_of(browser, second)
    assert f'Piece 2, after <a href="/posts/{first}">' in shown_piece
    assert f"/posts/{second}/move" not in shown_piece
    assert f"/posts/{second}/cancel" in shown_piece
    assert "<dt>Thread</dt>" not in page_of(browser, scheduled(alice))


# --- The log ---------------------------------------------------------------------------------------------------------


def test_the_log_shows_what_the_api_lists_for_the_same_address(
    server: AppServer, alice: Person, browser: ApiClient
) -> None:
    second = server.connect(alice, "twitter")["id"]
    rows = [
        {"status": "queued", "scheduled_at": kit.NOON + 5 * HOUR, "text": "Sale"},
        {"status": "queued", "scheduled_at": kit.NOON + 3 * HOUR, "account": second, "platform": "twitter"},
        {"status": "failed", "error": json.dumps(REFUSED), "error_code": "platform_rejected"},
        {"batch": UNKNOWN_ID},
        {},
    ]
    insert_rows(server, alice, *rows)
    noon = quote(format_instant(kit.NOON + 4 * HOUR))
    for query in (
        "",
        "?status=queued",
        "?status=queued,failed&platform=bluesky",
        "?platform=bluesky&platform=twitter",
        "?errorCode=platform_rejected",
        "?q=sale",
        f"?accountId={second}",
        f"?batchId={UNKNOWN_ID}",
        f"?profileId={alice.profile}",
        "?order=scheduledAt",
        f"?scheduledAfter={noon}",
        f"?scheduledBefore={noon}&order=scheduledAt",
        f"?after={quote(format_instant(kit.NOON))}",
        "?limit=2",
    ):
        listed = [row["id"] for row in alice.api.get(f"/v1/posts{query}").json()["data"]]
        assert shown(browser, query) == listed
        assert listed


def test_the_form_keeps_what_it_asked_for_and_leaves_out_what_is_empty(
    server: AppServer, alice: Person, browser: ApiClient
) -> None:
    (post,) = insert_rows(server, alice, {"text": 'The "Sale"'})
    query = "?q=%22sale%22&status=published%2Cfailed&accountId=&order=&platform=&errorCode=&after=&before=&batchId="
    text = browser.get(f"/posts{query}", headers=HTML).text
    assert shown(browser, query) == [post]
    assert 'form="filters" value="&#34;sale&#34;"' in text
    assert '<option value="published,failed" selected dir="auto">published, failed</option>' in text


def save_view(browser: ApiClient, name: str, query: str = "") -> str:
    """What the page says after a view was saved, or deleted."""
    return follow_notice(browser, send_form(browser, "/posts/views", page="/posts", name=name, query=query))


def test_a_filter_set_is_saved_as_a_view_and_deleted_again(
    server: AppServer, alice: Person, browser: ApiClient
) -> None:
    add_user(server, alice, "carol@example.com", "author")
    saved = save_view(browser, "Lost <sales>", "q=sale&status=failed,rejected&limit=3&cursor=")
    chip = '<a class="chip" href="/posts?q=sale&amp;status=failed%2Crejected"{} dir="auto">Lost &lt;sales&gt;</a>'
    assert chip.format(' aria-current="true"') in saved
    assert "Delete this view" in saved
    assert chip.format("") in browser.get("/posts?q=other", headers=HTML).text
    assert [row["views"] for row in server.rows(User, email="carol@example.com")] == [None]
    assert "1 to 40 characters" in save_view(browser, "n" * 41, "q=sale")
    assert "Up to 10 views" in save_view(browser, "Long", f"q={'x' * 1000}")
    for number in range(dashboard_session.VIEWS_MAX - 1):
        assert "saved." in save_view(browser, f"View {number}", f"q={number}")
    assert "Up to 10 views" in save_view(browser, "One more", "q=more")
    assert "deleted." in save_view(browser, "Lost <sales>")
    assert "Lost &lt;sales&gt;" not in browser.get("/posts", headers=HTML).text


def test_a_day_is_one_on_the_clock_of_the_reader(server: AppServer, alice: Person, browser: ApiClient) -> None:
    """Both days are listed themselves, from the midnight with which they begin there to the one with which they end."""
    server.service.write(lambda tx: User.update(zone="Asia/Tokyo").execute()).result()
    midnight = int(datetime(2026, 5, 4, 15, tzinfo=UTC).timestamp() * 1000)  # of 5 May there
    times = [midnight - 1, midnight, midnight + 24 * HOUR - 1, midnight + 24 * HOUR]
    posts = insert_rows(server, alice, *[{"created_at": at, "scheduled_at": at} for at in times])
    for names in (("after", "before"), ("scheduledAfter", "scheduledBefore")):
        day = "&".join(f"{name}=2026-05-05" for name in names)
        assert shown(browser, f"?{day}") == [posts[2], posts[1]]
        assert shown(browser, f"?{names[0]}=2026-05-05") == posts[:0:-1]
        assert shown(browser, f"?{names[1]}=2026-05-05") == posts[2::-1]


def test_days_at_the_ends_of_the_calendar_are_days_like_others(
    server: AppServer, alice: Person, browser: ApiClient
) -> None:
    server.service.write(lambda tx: User.update(zone="Europe/Berlin").execute()).result()
    post = scheduled(alice)
    for first, last in (("0001-01-01", "9999-12-31"), ("0202-02-02", "9999-12-30")):
        for names in (("after", "before"), ("scheduledAfter", "scheduledBefore")):
            assert shown(browser, f"?{names[0]}={first}&{names[1]}={last}") == [post]
            assert shown(browser, f"?{names[1]}={first}") == shown(browser, f"?{names[0]}={last}") == []
        moved = send_form(browser, f"/posts/{post}/move", day=first, clock="00:00", in_zone="Europe/Berlin")
        assert moved.status_code == 400
    late = send_form(browser, f"/posts/{post}/move", day="9999-12-31", clock="23:59", in_zone="America/New_York")
    assert "Choose a day and a time." in late.text
    assert alice.api.get(f"/v1/posts/{post}").json()["status"] == "queued"


@pytest.mark.parametrize(
    "query",
    ["status=nonsense", "after=yesterday", "before=2026-02-30", "colour=red", "cursor=x", f"accountId={UNKNOWN_ID}"],
)
def test_what_cannot_be_asked_is_said_in_the_page(browser: ApiClient, alice: Person, query: str) -> None:
    answer = browser.get(f"/posts?{query}", headers=HTML)
    assert answer.status_code == 200
    assert 'role="alert"' in answer.text
    assert shown(browser, f"?{query}") == []


def test_the_log_is_paged_to_its_end_and_leads_back_to_its_beginning(
    server: AppServer, alice: Person, browser: ApiClient
) -> None:
    posts = insert_rows(server, alice, *[{"text": f"Number {step}"} for step in range(5)])
    path, seen = "/posts?q=number&limit=2", list[str]()
    while path:
        text = browser.get(path, headers=HTML).text
        seen += re.findall(r'class="text" href="/posts/([0-9a-f-]+)"', text)
        older = re.search(r'href="([^"]*)" rel="next"', text)
        path = html.unescape(older[1]) if older else ""
    assert seen == posts[::-1]
    assert 'href="/posts?q=number&amp;limit=2">Newest</a>' in text


def test_an_empty_log_says_what_it_is_for(browser: ApiClient, alice: Person) -> None:
    assert "No posts yet" in browser.get("/posts", headers=HTML).text
    assert "No posts match these filters" in browser.get("/posts?q=nothing", headers=HTML).text


def test_one_publication_is_shown_without_filters(world: RequestCast, browser: ApiClient) -> None:
    world.server.connect(world.alice, "threads")
    targets = [world.target(), {"accountId": world.alice.accounts["threads"]["id"]}]
    posts = [world.scheduled(targets=targets, text="For both"), world.scheduled(text="Another")]
    batch = world.alice.api.get(f"/v1/posts/{posts[0]}").json()["batchId"]
    page = browser.get(f"/posts?batchId={batch}", headers=HTML).text
    assert "<h1>Posts to 2 accounts</h1>" in page
    assert ('id="results"' in page, 'id="filters"' in page, 'class="chips"' in page) == (True, False, False)
    for more in ("&status=queued", "&q=both"):  # a search is one
        searched = browser.get(f"/posts?batchId={batch}{more}", headers=HTML).text
        assert ("<h1>Posts</h1>" in searched, 'id="filters"' in searched) == (True, True), more


def test_filters_are_offered_once_there_is_a_post(browser: ApiClient, alice: Person) -> None:
    for query, offered in (("", False), ("?status=failed", True)):
        page = browser.get(f"/posts{query}", headers=HTML).text
        assert ('id="filters"' in page, 'form="filters"' in page) == (offered, offered), query
    scheduled(alice)
    assert 'id="filters"' in browser.get("/posts", headers=HTML).text


def test_the_log_is_that_of_the_profile_one_is_in(
    server: AppServer, alice: Person, bob: Person, browser: ApiClient
) -> None:
    (hers,), (his,) = insert_rows(server, alice, {}), insert_rows(server, bob, {})
    assert shown(browser) == [his, hers]
    send_form(browser, "/profile", profile=bob.profile)
    assert shown(browser) == [his]
    assert shown(browser, f"?profileId={alice.profile}") == []
    assert hers in page_of(browser, hers)  # a link leads to it from everywhere


def test_another_organization_sees_nothing_of_it(server: AppServer, alice: Person, charlie: Person) -> None:
    post, other = scheduled(alice), sign_in(server, charlie.organization, name="charlie")
    assert shown(other) == []
    for path in ("", "/cancel", "/settle"):
        assert other.get(f"/posts/{post}{path}", headers=HTML).status_code == 404
    for response in (
        later_time(other, post),
        send_form(other, f"/posts/{post}/cancel"),
        send_form(other, f"/posts/{post}/retry"),
    ):
        assert response.status_code == 404
    assert server.rows(Post)[0]["status"] == "queued"


# --- One post --------------------------------------------------------------------------------------------------------


def test_a_post_is_told_with_its_attempts_and_the_platforms_answers(
    server: AppServer, alice: Person, browser: ApiClient
) -> None:
    post = failed_post(server, alice, REFUSED)
    answer = json.dumps({"error": "<script>alert(1)</script>", "more": "x" * 16_000})
    rows = [
        {
            "id": f"{post}-{number}",
            "post": post,
            "number": number,
            "started_at": kit.NOON,
            "finished_at": kit.NOON + 500,
        }
        | {"succeeded": False, "error_code": "platform_rejected", "error_message": "No.", "platform_response": answer}
        for number in (1, 2)
    ]
    server.service.write(lambda tx: Attempt.insert_many(rows).execute()).result()
    text = page_of(browser, post)
    assert re.findall(r"<strong>(Attempt \d)</strong>", text) == ["Attempt 1", "Attempt 2"]
    states = re.findall(r'<strong>Attempt \d</strong> <span class="state [a-z]+">([^<]*)</span>', text)
    assert states == ["Rejected", "Rejected"]  # in the word that the post itself has in the log
    assert "No &lt;b&gt;way&lt;/b&gt;." in text
    assert "&lt;script&gt;" in text
    assert "<script>" not in text.replace('<script src="/static/page.js" defer></script>', "")
    assert 'href="/docs/rules/bluesky.text.max_graphemes"' in text
    assert "Look at the account." in text
    assert len(text) < 80_000
    assert browser.get("/docs/rules/bluesky.text.max_graphemes").status_code == 200


def test_the_commands_are_the_post_as_a_request_and_hold_no_secret(
    server: AppServer, alice: Person, browser: ApiClient
) -> None:
    body = {"targets": [{"accountId": alice.bluesky, "options": {"platform": "bluesky", "langs": ["en"]}}]}
    body |= {"text": 'It\'s "here"\n$HOME', "scheduledAt": "2098-01-01T10:00:00Z", "firstComment": None}
    del body["firstComment"]
    post = alice.api.publish(body).json()["results"][0]["postId"]
    (read, sent) = (
        html.unescape(found) for found in re.findall(r"<code>(curl .*?)</code>", page_of(browser, post), re.S)
    )
    assert f"/v1/posts/{post}" in read
    assert "$SOCIALPUB_KEY" in read
    assert alice.api.headers["Authorization"].split("_")[-1] not in read + sent
    written = re.search(r"-d '(.*)'$", sent, re.DOTALL)
    assert written
    request = json.loads(written[1].replace("'\"'\"'", "'"))
    again = alice.api.post("/v1/posts/validate", json=request)
    assert (again.status_code, again.json()["valid"]) == (200, True)
    assert request["text"] == body["text"]
    assert request["targets"][0]["options"]["langs"] == ["en"]


def test_only_addresses_of_the_web_are_links(server: AppServer, alice: Person, browser: ApiClient) -> None:
    good, bad = insert_rows(server, alice, {"url": "https://bsky.app/x"}, {"url": "javascript:alert(1)"})
    assert 'href="https://bsky.app/x"' in page_of(browser, good)
    assert "javascript:" not in page_of(browser, bad)


def test_words_of_people_and_platforms_stay_words(server: AppServer, alice: Person, browser: ApiClient) -> None:
    media = json.dumps([{"kind": "image", "url": f"https://x.example/{XSS}", "altText": XSS}])
    values = {"text": XSS, "media": media, "first_comment": XSS, "platform_uri": XSS, "url": XSS}
    values["warnings"] = json.dumps([{"code": "x", "message": XSS}])
    post = failed_post(server, alice, REFUSED | {"message": XSS, "remediation": XSS, "rule": XSS}, **values)
    pages = [page_of(browser, post), page_of(browser, post, "/cancel"), browser.get(f"/posts?q={quote(XSS)}").text]
    pages.append(browser.get(f"/posts?q={quote(XSS[:200])}&errorCode={quote(XSS)}", headers=HTML).text)
    for text in pages:
        assert "<img" not in text
        assert "<script>alert" not in text
        assert len(ParsedPage(text).ids) == len(set(ParsedPage(text).ids))


# --- What is done ----------------------------------------------------------------------------------------------------


def test_a_post_is_moved_on_the_clock_of_the_reader(server: AppServer, alice: Person, browser: ApiClient) -> None:
    server.service.write(lambda tx: User.update(zone="Europe/Berlin").execute()).result()
    post = scheduled(alice)
    text = page_of(browser, post)
    assert 'name="day" type="date" value="2098-01-01"' in text
    assert 'name="clock" type="time" value="11:00"' in text
    answer = later_time(browser, post, in_zone="Europe/Berlin")
    assert (answer.status_code, answer.headers["Location"]) == (303, f"/posts/{post}")
    assert alice.api.get(f"/v1/posts/{post}").json()["scheduledAt"] == "2099-05-04T13:30:00.000Z"
    assert [name for name, _ in server.events(post)][-1] == "post.rescheduled"


@pytest.mark.parametrize("fields", [{"day": ""}, {"clock": "25:00"}, {"day": "2020-01-01"}, {"day": "<b>"}])
def test_a_time_that_is_none_is_said_and_nothing_is_moved(
    alice: Person, browser: ApiClient, fields: dict[str, str]
) -> None:
    post = scheduled(alice)
    answer = later_time(browser, post, **fields)
    assert (answer.status_code, 'class="problem" role="alert"' in answer.text) == (400, True)
    assert alice.api.get(f"/v1/posts/{post}").json()["scheduledAt"] == "2098-01-01T10:00:00.000Z"


def test_canceling_is_asked_about_and_done_once(server: AppServer, alice: Person, browser: ApiClient) -> None:
    post = scheduled(alice)
    assert f'href="/posts/{post}/cancel"' in page_of(browser, post)
    assert f'action="/posts/{post}/cancel"' not in page_of(browser, post)
    asked = page_of(browser, post, "/cancel")
    assert "never published" in asked
    assert f'action="/posts/{post}/cancel"' in asked
    assert (
        send_form(browser, f"/posts/{post}/cancel", page=f"/posts/{post}/cancel").headers["Location"]
        == f"/posts/{post}"
    )
    assert alice.api.get(f"/v1/posts/{post}").json()["status"] == "canceled"
    again = send_form(browser, f"/posts/{post}/cancel")
    assert "not scheduled any more" in follow_notice(browser, again)
    assert "can no longer be canceled" in page_of(browser, post, "/cancel")
    assert len([name for name, _ in server.events(post) if name == "post.canceled"]) == 1


def test_a_failed_post_is_tried_again_now_or_then(server: AppServer, alice: Person, browser: ApiClient) -> None:
    now, then = (failed_post(server, alice, REFUSED, text=text) for text in ("now", "then"))
    send_form(browser, f"/posts/{now}/retry")
    assert server.wait(now, "published")["status"] == "published"
    later_time(browser, then, "retry")
    assert alice.api.get(f"/v1/posts/{then}").json()["scheduledAt"] == "2099-05-04T15:30:00.000Z"
    refused = follow_notice(browser, send_form(browser, f"/posts/{now}/retry"))
    assert "has not failed" in refused


def test_refused_content_is_changed_before_it_is_sent_again(
    server: AppServer, alice: Person, browser: ApiClient
) -> None:
    post = failed_post(server, alice, REFUSED, status="rejected")
    page = page_of(browser, post)
    assert f'<a class="button" href="/compose?from={post}">Edit and send again</a>' in page
    assert page.index("Edit and send again") < page.index("Retry now")
    assert "Duplicate" not in page


def test_changing_one_of_several_targets_says_that_the_others_stay(world: RequestCast, browser: ApiClient) -> None:
    world.server.connect(world.alice, "threads")
    targets = [world.target(), {"accountId": world.alice.accounts["threads"]["id"]}]
    post = world.scheduled(targets=targets, text="For both")
    page = page_of(browser, post)
    batch = world.alice.api.get(f"/v1/posts/{post}").json()["batchId"]
    assert "Only the post on Bluesky moves." in page
    moving = re.search(rf'href="(/publications/{batch}/move\?from=\d+)"', page)
    assert moving is not None
    assert ">Move</button>" in browser.get(moving[1], headers=HTML).text
    assert "The posts to its other accounts stay." in page_of(browser, post, "/cancel")
    assert (
        "Posts to other accounts stay as they are, unless you choose to change them too."
        in browser.get(f"/compose?post={post}", headers=HTML).text
    )
    alone = world.scheduled(text="For one")
    assert "Only the post on Bluesky moves." not in page_of(browser, alone)
    assert "The posts to its other accounts stay." not in page_of(browser, alone, "/cancel")


@pytest.mark.parametrize("is_known", [True, False])
def test_a_post_that_is_settled_as_published_has_the_time_of_its_sending(
    server: AppServer, alice: Person, browser: ApiClient, is_known: bool
) -> None:
    post = failed_post(server, alice, LOST, text="lost")
    begun_ms = server.clock.now_ms()
    sent_ms = begun_ms - HOUR
    (row,) = server.rows(Post, id=post)
    sent: dict[str, Any] = {"step": "publish", "number": 1, "attempt": 1, "plan": "", "epoch": 1, "outcome": "unknown"}
    sent |= {"post": post, "account": row["account"], "intent_at": sent_ms, "sent_at": sent_ms if is_known else None}
    server.service.write(lambda tx: Intent.insert(sent).execute()).result()
    assert "Link to the post" in page_of(browser, post, "/settle")
    settled = alice.api.post(f"/v1/posts/{post}/settle", json={"published": True}).json()
    ended_ms = server.clock.now_ms()
    least, most = (sent_ms, sent_ms) if is_known else (begun_ms, ended_ms)
    assert format_instant(least) <= settled["publishedAt"] <= format_instant(most)


def test_an_unknown_outcome_is_settled_by_either_answer(server: AppServer, alice: Person, browser: ApiClient) -> None:
    there, absent = (failed_post(server, alice, LOST, text=text) for text in ("there", "absent"))
    assert "Outcome unknown" in page_of(browser, there)
    assert f'action="/posts/{there}/retry"' not in page_of(browser, there)
    assert "cannot change your answer" in page_of(browser, there, "/settle")
    send_form(browser, f"/posts/{there}/settle", published="yes", uri="https://bsky.app/x")
    send_form(browser, f"/posts/{absent}/settle", published="no")
    send_form(browser, f"/posts/{absent}/settle", published="perhaps")
    found = {post: alice.api.get(f"/v1/posts/{post}").json() for post in (there, absent)}
    assert (found[there]["status"], found[there]["platformUri"]) == ("published", "https://bsky.app/x")
    assert (found[absent]["status"], found[absent]["error"].get("rule")) == ("failed", None)
    assert "The outcome of this post is known" in page_of(browser, absent, "/settle")


def test_a_form_leads_back_to_the_page_it_was_on(server: AppServer, alice: Person, browser: ApiClient) -> None:
    post = failed_post(server, alice, LOST)
    for page, back in (("/", "/"), ("/calendar/week/2026-11-16",) * 2, ("//evil.example", "/"), ("", f"/posts/{post}")):
        assert send_form(browser, f"/posts/{post}/settle", published="x", page=page).headers["Location"] == back


def test_forged_forms_do_nothing(server: AppServer, alice: Person, browser: ApiClient) -> None:
    post = scheduled(alice)
    for way in ("move", "cancel", "retry", "settle"):
        assert browser.post(f"/posts/{post}/{way}", data={"csrf_token": "wrong"}, headers=HTML).status_code == 403
    assert alice.api.get(f"/v1/posts/{post}").json()["status"] == "queued"


def test_a_member_may_do_it_too(server: AppServer, alice: Person) -> None:
    member, post = sign_in(server, alice.organization, role="member", name="mona"), scheduled(alice)
    send_form(member, f"/posts/{post}/cancel")
    assert alice.api.get(f"/v1/posts/{post}").json()["status"] == "canceled"


# --- What it costs ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_page_costs_the_same_however_many_posts_there_are(
    counting: DatabaseCounter, server: AppServer, alice: Person
) -> None:
    browser = sign_in(server, alice.organization)

    def work() -> int:
        with counting.while_() as done:
            assert browser.get("/posts?limit=20", headers=HTML).status_code == 200
        return done.asked.statements

    insert_rows(server, alice, *[{} for _ in range(30)])
    few = work()
    insert_rows(server, alice, *[{} for _ in range(300)])
    assert work() == few


# --- Times that the clocks show twice or never -----------------------------------------------------------------------


def test_a_repeated_time_that_is_sent_back_reschedules_nothing(alice: Person, browser: ApiClient) -> None:
    at = "2098-10-26T01:30:00.000Z"  # 02:30 in Berlin, for the second time
    post = publish_post(alice, "late", scheduledAt=at)
    send_form(browser, "/settings/zone", zone="Europe/Berlin")
    form = page_of(browser, post).partition(f'action="/posts/{post}/move"')[2].partition("</form>")[0]
    fields = dict(re.findall(r'<input [^>]*name="(from|day|clock|in_zone)"[^>]* value="([^"]*)"', form))
    assert fields["clock"] == "02:30"
    assert send_form(browser, f"/posts/{post}/move", **fields).status_code == 303
    assert alice.api.get(f"/v1/posts/{post}").json()["scheduledAt"] == at


def test_a_time_that_is_refused_is_told_in_words_for_people(alice: Person, browser: ApiClient) -> None:
    post = scheduled(alice)
    fields = {"day": "2098-03-30", "clock": "02:30", "in_zone": "Europe/Berlin"}
    told = send_form(browser, f"/posts/{post}/move", **fields).text
    assert "does not exist on this day" in told
    assert "Correct the field" not in told


# --- The queue -------------------------------------------------------------------------------------------------------


def test_scheduled_posts_are_listed_as_they_go_out(world: RequestCast, browser: ApiClient) -> None:
    for day, text in ((3, "Third"), (1, "First"), (2, "Second")):
        world.scheduled(text=text, scheduledAt=f"2098-01-0{day}T10:00:00Z")
    (chip,) = re.findall(r'href="([^"]*)">Scheduled', browser.get("/posts", headers=HTML).text)
    page = browser.get(html.unescape(chip), headers=HTML).text
    assert re.findall(r'class="text" href="[^"]*">(\w+)', page) == ["First", "Second", "Third"]
    assert f'href="{chip}" aria-current="true">Scheduled' in page
    assert page.count('aria-current="true"') == 1


def test_a_scheduled_post_is_published_now(world: RequestCast, browser: ApiClient) -> None:
    post = world.scheduled(text="Waits", scheduledAt="2098-01-01T10:00:00Z")
    assert "data-refresh" not in browser.get(f"/posts/{post}", headers=HTML).text
    answer = send_form(browser, f"/posts/{post}/move", do="now", day="", clock="")
    assert answer.headers["Location"] == f"/posts/{post}"
    told = follow_notice(browser, answer)
    assert ("is published in a few seconds." in told, 'id="post" data-refresh' in told) == (True, True)
    world.server.clock.skip(6)
    world.server.wait(post, "published")
    again = follow_notice(browser, send_form(browser, f"/posts/{post}/move", do="now"))
    assert "the post is not scheduled any more" in again


def test_an_author_cannot_publish_a_scheduled_post_now(world: RequestCast) -> None:
    post = world.scheduled(text="Waits", scheduledAt="2098-01-01T10:00:00Z")
    author = sign_in(world.server, world.alice.organization, role="author", name="ann")
    assert "Publish now" not in author.get(f"/posts/{post}", headers=HTML).text
    assert send_form(author, f"/posts/{post}/move", do="now").status_code == 403
    assert world.alice.api.get(f"/v1/posts/{post}").json()["status"] == "queued"
