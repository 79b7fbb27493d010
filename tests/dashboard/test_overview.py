"""Overview page: first steps, posts and accounts that need a decision, and pauses."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import httpx
import pytest

from socialpub.domain.access.authentication import Scope
from socialpub.domain.background import pause_actions
from socialpub.domain.posts import overview
from socialpub.domain.server import instance
from socialpub.store.schema.models import Account, Post
from tests.support.app_server import ApiClient, AppServer, Person
from tests.support.connect_flow import sign_in
from tests.support.dashboard_forms import HTML, needs_password, send_form
from tests.support.media_uploads import wait_until
from tests.support.post_drafts import new_draft
from tests.support.post_outcomes import failed, unknown
from tests.support.publishing_state import paused
from tests.support.request_cast import RequestCast


def then(browser: ApiClient, sent: httpx.Response) -> str:
    """The page that is seen after a form."""
    assert sent.status_code == 303
    cookies = f"{browser.headers['Cookie']}; {sent.headers['Set-Cookie'].partition(';')[0]}"
    return browser.get(sent.headers["Location"], headers={"Cookie": cookies}).text


def change(world: RequestCast, **columns: object) -> None:
    world.server.service.write(
        lambda tx: Account.update(**columns).where(Account.id == world.alice.bluesky).execute()
    ).result()


# --- First steps -----------------------------------------------------------------------------------------------------


def test_the_first_steps_tick_themselves_off(server: AppServer) -> None:
    new = server.person("New")
    browser = sign_in(server, new.organization)
    page = browser.get("/").text
    assert '<a href="/accounts#connect">Connect an account</a>' in page
    assert "Create an API key, if a program will publish <span" in page  # there is one already
    assert page.index("Publish your first post") < page.index("Create an API key")
    server.connect_bluesky(new)
    assert "Connect an account <span" in browser.get("/").text
    new.api.publish({"text": "first", "targets": [{"accountId": new.bluesky}]})
    assert "Get started" not in browser.get("/").text


# --- What needs eyes -------------------------------------------------------------------------------------------------


def test_where_nothing_needs_eyes_it_says_so(world: RequestCast, browser: ApiClient) -> None:
    world.published(text="it is out")
    world.scheduled(text="it comes")
    page = browser.get("/").text
    assert "All is well" in page
    lists = page[page.index('id="next"') :]
    assert lists.index("it comes") < lists.index("it is out")
    assert page.index('class="dayline"') < page.index('id="next"')  # the day, before what is far


def test_every_page_says_that_publishing_is_paused(world: RequestCast, browser: ApiClient) -> None:
    pages, words = ("/compose", "/posts", "/calendar/month/2099-01", "/settings"), "Publishing is paused: posts wait"
    assert not any(words in browser.get(page).text for page in pages)
    with paused(world.server.service, world.server.lab.lab):
        wait_until(lambda: words in browser.get("/compose").text)
        assert all(words in browser.get(page).text for page in pages)
        assert words not in browser.get("/").text  # it tells the reason


def test_refused_content_is_edited_and_sent_again_from_here(world: RequestCast, browser: ApiClient) -> None:
    refused = {"fault": "status:400", "operation": "com.atproto.repo.putRecord", "times": 1}
    world.server.lab.lab.faults.add([refused])
    (result,) = world.post().json()["results"]
    assert (result["status"], result["error"]["code"]) == ("rejected", "platform_rejected")
    assert f'href="/compose?from={result["postId"]}">Edit and send again' in browser.get("/").text


def test_the_day_has_its_free_slots_and_what_waits_for_approval(world: RequestCast, browser: ApiClient) -> None:
    days = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
    times, now = ("00:30", "23:30"), datetime.fromtimestamp(world.server.clock.stop() / 1000, UTC)
    weekly = [{"day": day, "time": time} for day in days for time in times]
    world.alice.api.put("/v1/slots", json={"profileId": world.alice.profile, "zone": "UTC", "weekly": weekly})
    draft = new_draft(world.alice.api, text="An idea", targets=[world.target()])
    assert "Awaiting approval" not in browser.get("/").text
    assert world.alice.api.post(f"/v1/drafts/{draft['id']}/propose").status_code == 200
    page = browser.get("/").text
    assert page.count('class="slot"') == sum(time > f"{now:%H:%M}" for time in times)
    assert f'href="/drafts/{draft["id"]}"' in page[page.index("Awaiting approval") :]


def test_an_author_is_shown_no_button_that_is_not_theirs(world: RequestCast) -> None:
    unknown(world)
    failed(world)
    author = sign_in(world.server, world.alice.organization, role="author", name="ann")
    for path in ("/", "/posts"):
        page = author.get(path, headers={"Accept": "text/html"}).text
        assert [way for way in ("/overview/settle", "/overview/retry", "/posts/bulk", "pick.") if way in page] == []


@pytest.mark.parametrize(("answer", "status"), [("yes", "published"), ("no", "failed")])
def test_an_unknown_outcome_is_settled_by_what_somebody_sees(
    world: RequestCast, browser: ApiClient, answer: str, status: str
) -> None:
    post = unknown(world)
    page = browser.get("/").text
    assert "Outcome unknown" in page
    assert page.count(f'name="post" value="{post}"') == 2
    sent = send_form(browser, "/overview/settle", post=post, published=answer)
    assert (sent.status_code, sent.headers["Location"]) == (303, "/")
    assert world.alice.api.get(f"/v1/posts/{post}").json()["status"] == status
    assert "Outcome unknown" not in browser.get("/").text
    again = then(browser, send_form(browser, "/overview/settle", post=post, published=answer))
    assert "Nothing was changed: its outcome is known." in again


def test_failures_are_grouped_by_their_cause_and_tried_again_together(world: RequestCast, browser: ApiClient) -> None:
    first, second = failed(world), failed(world)
    page = browser.get("/").text
    assert "<strong>2 posts</strong>" in page
    assert page.count('action="/overview/retry"') == 1
    error = world.alice.api.get(f"/v1/posts/{first}").json()["error"]
    cause = {"account": world.alice.bluesky, "code": error["code"], "rule": error.get("rule", "")}
    assert "Retrying 2 posts." in then(browser, send_form(browser, "/overview/retry", **cause))
    assert {world.server.wait(post, "published")["status"] for post in (first, second)} == {"published"}
    assert "Retrying 0 posts." in then(browser, send_form(browser, "/overview/retry", **cause))


def test_failures_whose_media_were_deleted_are_not_tried_again(world: RequestCast, browser: ApiClient) -> None:
    post, other = failed(world), failed(world)
    (media,) = json.loads(world.server.rows(id=post)[0]["media"])
    assert world.alice.api.delete(f"/v1/media/{media['mediaId']}").status_code == 200
    error = world.alice.api.get(f"/v1/posts/{post}").json()["error"]
    cause = {"account": world.alice.bluesky, "code": error["code"], "rule": error.get("rule", "")}
    assert "Retrying 1 post." in then(browser, send_form(browser, "/overview/retry", **cause))
    assert world.server.wait(other, "published")
    refused = send_form(browser, "/overview/retry", **cause)
    assert (refused.status_code, f"There is no media {media['mediaId']}" in refused.text) == (404, True)
    assert world.server.rows(id=post)[0]["status"] == "failed"


def test_a_failure_of_a_lost_account_is_answered_by_connecting_it_again(world: RequestCast, browser: ApiClient) -> None:
    failed(world)
    world.scheduled()
    change(world, status="revoked")
    page = browser.get("/").text
    assert "Reconnect to retry" in page
    assert 'action="/overview/retry"' not in page
    assert "1 post is waiting" in page
    path = f"/overview/cancel?account={world.alice.bluesky}"
    assert f'href="{path}"' in page
    assert 'action="/overview/cancel"' not in page  # not by one click
    assert "Cancel 1 scheduled post<" in browser.get(path).text
    assert "1 post canceled." in then(browser, send_form(browser, "/overview/cancel", account=world.alice.bluesky))
    assert "waiting" not in browser.get("/").text
    assert "No posts are scheduled for this account." in browser.get(path).text


def test_accounts_that_are_about_to_be_lost_are_told(world: RequestCast, browser: ApiClient) -> None:
    change(world, status="expiring", token_expires_at=world.server.clock.now_ms() + 3 * 86_400_000)
    page = browser.get("/").text
    assert "Expires soon" in page
    assert "in 3 days" in page
    assert f"/connect/bluesky?profile={world.alice.profile}" in page


def test_lists_that_are_cut_say_so(world: RequestCast, browser: ApiClient, monkeypatch: pytest.MonkeyPatch) -> None:
    told = ("There are more. They appear here once", "More among the accounts", "More among the posts")
    unknown(world)
    failed(world)
    change(world, status="revoked")
    page = browser.get("/").text
    assert not [words for words in told if words in page]
    for most in ("UNKNOWN_MAX", "PROBLEMS_MAX", "GROUPS_MAX"):
        monkeypatch.setattr(overview, most, 0)
    page = browser.get("/").text
    assert [words for words in told if words in page] == [*told]


def test_what_is_overdue_is_counted(world: RequestCast, browser: ApiClient) -> None:
    world.server.service.write(lambda tx: instance.pause(world.server.service, tx, instance.RESTORED)).result()
    world.scheduled()
    world.server.clock.skip(3600 + overview.OVERDUE_AFTER_MS / 1000 + 1)
    scope = Scope(world.alice.organization)
    seen = world.server.service.read(lambda: overview.load(world.server.service, scope)).result()
    assert seen.overdue_count == 1
    elsewhere = Scope(world.charlie.organization)
    assert world.server.service.read(lambda: overview.load(world.server.service, elsewhere)).result().overdue_count == 0


@pytest.mark.parametrize("reason", ["clock", "restored", "damaged"])
def test_a_pause_says_why_and_only_the_clocks_is_ended_here(world: RequestCast, reason: str) -> None:
    server = world.server
    alone = server.person("Alone")
    browser = sign_in(server, alone.organization, name="alone")
    with paused(server.service, server.lab.lab, reason):
        page = browser.get("/").text
    assert "Publishing is paused" in page
    assert 'action="/overview/resume"' not in page  # there are other organizations on this server
    assert send_form(browser, "/overview/resume").status_code == 403


def test_who_is_alone_on_a_server_ends_a_pause_for_the_clock(server: AppServer) -> None:
    only = server.person("Only")
    browser = sign_in(server, only.organization)
    with paused(server.service, server.lab.lab):
        assert 'action="/overview/resume"' in browser.get("/").text
        assert send_form(browser, "/overview/resume").status_code == 303
    assert server.service.read(instance.get_pause_reason).result() is None


def restored(server: AppServer) -> None:
    """As after a start from a backup: the pause is there before anything is claimed."""
    server.service.write(lambda tx: instance.pause(server.service, tx, instance.RESTORED)).result()
    server.engine.gate.update()


@pytest.mark.slow
@pytest.mark.parametrize(("choice", "status"), [("skip", "failed"), ("publish", "published")])
def test_who_is_alone_on_a_server_goes_on_after_a_restore(server: AppServer, choice: str, status: str) -> None:
    """Having said what becomes of what is overdue: it fails, or goes out late."""
    only = server.connected_person("Only")
    restored(server)
    post = RequestCast(server, only).scheduled()
    server.clock.skip(3600 + 60)
    browser = sign_in(server, only.organization)
    assert 'href="/overview/compare"' in browser.get("/").text
    page = browser.get("/overview/compare").text
    assert "1 post is overdue" in page
    assert f'href="/posts/{post}"' in page
    assert send_form(browser, "/overview/compare").status_code == 400
    assert server.service.read(instance.get_pause_reason).result() == instance.RESTORED
    answer = send_form(browser, "/overview/compare", overdue=choice)
    assert "Publishing resumed." in then(browser, answer)
    assert server.service.read(instance.get_pause_reason).result() is None
    row = server.wait(post, status)
    assert (row["error_code"] is None) == (choice == "publish")
    assert "not paused for a restore" in browser.get("/overview/compare").text
    assert send_form(browser, "/overview/compare", overdue=choice).status_code == 409


def test_nobody_goes_on_for_others_nor_for_another_reason(world: RequestCast, charlie: Person) -> None:
    assert charlie.organization != world.alice.organization
    browser = sign_in(world.server, world.alice.organization)
    restored(world.server)
    assert 'href="/overview/compare"' not in browser.get("/").text
    assert "This server has other organizations" in browser.get("/overview/compare").text
    assert send_form(browser, "/overview/compare", overdue="skip").status_code == 403
    assert world.server.service.read(instance.get_pause_reason).result() == instance.RESTORED


def test_more_than_a_transaction_should_hold_is_the_commands_work(
    server: AppServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    only = server.connected_person("Only")
    world = RequestCast(server, only)
    monkeypatch.setattr(pause_actions, "SKIPPED_MAX", 1)
    restored(server)
    posts = [world.scheduled(), world.scheduled()]
    server.clock.skip(3600 + 60)
    browser = sign_in(server, only.organization)
    assert "More than 1 post" in browser.get("/overview/compare").text
    answer = send_form(browser, "/overview/compare", overdue="skip")
    assert (answer.status_code, "socialpub resume --after-restore --skip-overdue" in answer.text) == (400, True)
    assert {row["status"] for post in posts for row in server.rows(Post, id=post)} == {"queued"}


def test_going_on_asks_for_the_password_when_the_sign_in_is_old(server: AppServer) -> None:
    browser = sign_in(server, server.person("Only").organization)
    restored(server)
    server.clock.skip(11 * 60)
    answer = send_form(browser, "/overview/compare", overdue="skip")
    assert (answer.status_code, needs_password(answer)) == (403, True)
    assert server.service.read(instance.get_pause_reason).result() == instance.RESTORED


def test_a_scheduler_that_is_silent_is_told(world: RequestCast, browser: ApiClient) -> None:
    assert "The scheduler is not responding" not in browser.get("/").text
    world.server.engine._heartbeat.last -= 90
    assert "The scheduler is not responding" in browser.get("/").text


def test_a_second_organization_sees_nothing_of_the_first(world: RequestCast) -> None:
    unknown(world)
    failed(world)
    world.scheduled(text="a secret plan")
    change(world, status="revoked")
    stranger = sign_in(world.server, world.charlie.organization, name="stranger")
    page = stranger.get("/").text
    assert "a secret plan" not in page
    assert "Outcome unknown" not in page
    assert "Failed and rejected" not in page
    lost = world.server.rows(Post, status="failed")[0]["id"]
    assert send_form(stranger, "/overview/settle", post=lost, published="yes").status_code == 404
    assert send_form(stranger, "/overview/cancel", account=world.alice.bluesky).status_code == 404


def test_a_profile_shows_what_is_its_own(world: RequestCast, browser: ApiClient) -> None:
    failed(world)
    other = browser.post("/v1/profiles", json={"name": "Second"}).json()["id"]
    send_form(browser, "/profile", profile=other)
    assert "Failed and rejected" not in browser.get("/").text
    send_form(browser, "/profile", profile=world.alice.profile)
    assert "Failed and rejected" in browser.get("/").text


def test_a_member_sees_what_is_wrong_and_manages_nothing(world: RequestCast) -> None:
    change(world, status="revoked")
    world.scheduled()
    member = sign_in(world.server, world.alice.organization, role="member", name="dave")
    page = member.get("/").text
    assert "Access expired" in page
    assert "/connect/" not in page
    assert 'action="/overview/cancel"' not in page
    assert send_form(member, "/overview/cancel", account=world.alice.bluesky).status_code == 403


def test_a_member_without_the_right_is_told_who_can_reconnect(world: RequestCast, browser: ApiClient) -> None:
    change = Account.update(status="revoked").where(Account.id == world.alice.bluesky)
    world.server.service.write(lambda tx: change.execute()).result()
    author = sign_in(world.server, world.alice.organization, role="author", name="ann")
    for path in ("/", "/accounts", f"/accounts/{world.alice.bluesky}", "/compose"):
        page = author.get(path, headers=HTML).text
        assert ("Reconnect this account" in page, "An owner or admin" in page) == (False, True), path
        owner = browser.get(path, headers=HTML).text
        assert ("econnect" in owner, "An owner or admin" in owner) == (True, False), path
