"""Post pages in a browser: search, moving, canceling, retrying, and the calendar."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from socialpub.store.schema.models import Attempt, Post
from tests.support import post_rows as kit
from tests.support.app_server import AppServer, Person
from tests.support.browser.chromium import BrowserTab
from tests.support.browser.page_checks import check_page
from tests.support.browser.sign_in import open_signed_in
from tests.support.dashboard_forms import LOST, REFUSED, XSS, failed_post
from tests.support.post_list import insert_rows

pytestmark = pytest.mark.browser


def test_a_post_is_found_moved_and_canceled_by_clicks(server: AppServer, alice: Person, tab: BrowserTab) -> None:
    open_signed_in(tab, server, alice)
    body = {"targets": [{"accountId": alice.bluesky}], "text": "Opening hours", "scheduledAt": "2098-01-01T10:00:00Z"}
    post = alice.api.publish(body).json()["results"][0]["postId"]
    insert_rows(server, alice, {"text": "Something else"})
    tab.show(f"{server.url}/posts", width=1000)
    check_page(tab, "posts")
    tab.page.locator("#search").fill("opening")
    tab.page.locator("#status").select_option("queued")
    tab.click(".filters > .actions button")
    assert tab.ask("document.querySelectorAll('.log > li').length") == 1
    assert tab.ask("document.querySelector('[name=q]').value") == "opening"
    tab.click(".log a.text")
    tab.ask("document.querySelector('main details').open = true")
    check_page(tab, "post-scheduled")
    tab.fill(day="2099-05-04", clock="15:30")
    tab.click("main details button")
    assert "rescheduled" in tab.ask("document.querySelector('.notice').textContent")
    assert alice.api.get(f"/v1/posts/{post}").json()["scheduledAt"] == "2099-05-04T15:30:00.000Z"
    tab.reload()
    assert tab.ask("document.querySelector('.notice')") is None
    tab.page.locator("main .more-menu summary").click()
    check_page(tab, "post-menu")
    tab.click("main a.danger")
    check_page(tab, "post-cancel")
    tab.click("button.danger")
    assert "Canceled" in tab.ask("document.querySelector('main').textContent")
    assert alice.api.get(f"/v1/posts/{post}").json()["status"] == "canceled"
    assert [name for name, _ in server.events(post)].count("post.canceled") == 1


def test_a_failed_post_is_tried_again_and_an_unknown_one_settled(
    server: AppServer, alice: Person, tab: BrowserTab
) -> None:
    open_signed_in(tab, server, alice)
    again, lost = failed_post(server, alice, REFUSED, attempts=1), failed_post(server, alice, LOST)
    row = {"id": "a", "post": again, "number": 1, "started_at": kit.NOON, "finished_at": kit.NOON, "succeeded": False}
    row |= {"error_code": "platform_rejected", "error_message": XSS, "platform_response": json.dumps({"no": XSS * 20})}
    server.service.write(lambda tx: Attempt.insert(**row).execute()).result()
    tab.show(f"{server.url}/posts/{again}", width=1000)
    tab.ask("document.querySelectorAll('main details').forEach((node) => { node.open = true; })")
    check_page(tab, "post-failed")
    tab.click(f"form[action='/posts/{again}/retry'] button")
    assert server.wait(again, "published")
    tab.show(f"{server.url}/posts/{lost}", width=1000)
    check_page(tab, "post-unknown")
    tab.show(f"{server.url}/posts/{lost}/settle", width=1000)
    check_page(tab, "post-settle")
    tab.show(f"{server.url}/posts/{lost}", width=1000)
    tab.click("main button[value=no]")
    assert "marked as failed" in tab.ask("document.querySelector('.notice').textContent")
    assert alice.api.get(f"/v1/posts/{lost}").json()["status"] == "failed"


def test_results_appear_as_accounts_finish(server: AppServer, alice: Person, tab: BrowserTab) -> None:
    """Without reloading: of a batch, and of one post."""
    body = {"targets": [{"accountId": alice.bluesky}, {"accountId": server.connect(alice, "twitter")["id"]}]}
    first, second = (row["postId"] for row in alice.api.publish(body | {"text": "Two"}).json()["results"])
    batch = alice.api.get(f"/v1/posts/{first}").json()["batchId"]

    def write(post: str, **values: str) -> None:
        server.service.write(lambda _: Post.update(**values).where(Post.id == post).execute()).result()

    for post in (first, second):
        write(post, status="publishing")
    open_signed_in(tab, server, alice)
    tab.show(f"{server.url}/posts?batchId={batch}", width=390)
    assert "Publishing: 0 of 2 done." in tab.text("#progress")
    check_page(tab, "posts-publishing")
    write(first, status="published", url="https://x.example/first")
    tab.page.locator("#progress", has_text="1 of 2 done").wait_for()
    tab.page.locator("#results a[href='https://x.example/first']").wait_for()
    write(second, status="published")
    tab.page.locator("[data-progress]").wait_for(state="detached")
    assert tab.page.locator("#results .state", has_text="Published").count() == 2
    assert "Publishing" not in tab.text(".log")
    write(first, status="publishing")
    tab.show(f"{server.url}/posts/{first}", width=390)
    assert tab.page.locator(".titleline .state", has_text="Publishing").count() == 1
    write(first, status="published")
    tab.page.locator(".titleline .state", has_text="Published").wait_for()
    tab.page.locator("[data-progress]").wait_for(state="detached")
    write(first, status="publishing")
    tab.show(f"{server.url}/posts/{first}", width=390)
    server.clock.skip(31 * 24 * 3600)
    tab.page.locator("h1", has_text="Sign in").wait_for()  # asking again has ended with the session


def test_what_people_and_platforms_say_is_never_run(server: AppServer, alice: Person, tab: BrowserTab) -> None:
    open_signed_in(tab, server, alice)
    media = json.dumps([{"kind": "image", "url": "https://x.example/", "altText": XSS}])
    values = {"text": XSS, "media": media, "first_comment": XSS, "platform_uri": XSS, "url": "javascript:alert(1)"}
    post = failed_post(server, alice, REFUSED | {"message": XSS, "remediation": XSS, "rule": XSS}, **values)
    for path in (
        f"/posts/{post}",
        f"/posts/{post}/cancel",
        "/posts",
        "/posts?q=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E",
    ):
        tab.show(f"{server.url}{path}", width=1000)
        assert tab.ask("document.querySelectorAll('main img, main script, main a[href^=javascript]').length") == 0
        check_page(tab, f"said{path.count('/')}")


def test_no_two_buttons_have_one_name(server: AppServer, alice: Person, tab: BrowserTab) -> None:
    open_signed_in(tab, server, alice)
    posts = [
        failed_post(server, alice, REFUSED, text="The same words"),
        failed_post(server, alice, LOST, text="The same words"),
    ]
    for path in ("/posts", *(f"/posts/{post}" for post in posts), f"/posts/{posts[1]}/settle"):
        tab.show(f"{server.url}{path}", width=390)
        names = tab.ask("[...document.querySelectorAll('button')].map((node) => node.textContent.trim())")
        assert len(names) == len(set(names)), path


def test_a_file_of_posts_is_looked_at_imported_and_undone(
    server: AppServer, alice: Person, tab: BrowserTab, tmp_path: Path
) -> None:
    rows = (
        f"{alice.bluesky},2098-03-04T10:20:00Z,{text}"
        for text in (f'"{"A long line. " * 20}"', '"<b>", "x"', "x" * 301)
    )
    file = tmp_path / "plan.csv"
    file.write_text("\n".join(["account,scheduledAt,text", *rows, f"nobody,{'long' * 20},x"]))
    open_signed_in(tab, server, alice)
    tab.show(f"{server.url}/posts", width=1280)
    tab.click("main a[href='/import']")
    check_page(tab, "import")
    tab.page.locator("#file").set_input_files(file)
    tab.click("main button:has-text('Check the file')")
    tab.complaints.clear()
    check_page(tab, "import-preview")
    tab.click("main button:has-text('Schedule 1 post')")
    assert "1 post scheduled. 3 rows left out." in tab.text(".toast")
    assert tab.page.locator(".pubs > li").count() == 1
    tab.click(".toast button:has-text('Undo')")
    assert "1 post canceled." in tab.text(".toast")
