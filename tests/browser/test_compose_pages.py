"""Compose page in a browser: publishing by mouse, by keyboard, without scripts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import FilePayload, Route

from socialpub.simulator.server import SimulatorThread
from socialpub.store.schema.models import Account, Media, Post, PostDraft
from tests.support.app_server import AppServer, Person
from tests.support.browser.chromium import BrowserTab
from tests.support.browser.page_checks import check_page
from tests.support.browser.sign_in import open_signed_in
from tests.support.connect_flow import open_connect_session, sign_in
from tests.support.dashboard_forms import XSS
from tests.support.media_uploads import stored_media, wait_until
from tests.support.post_drafts import new_draft, read_draft
from tests.support.request_cast import make_picture
from tests.support.sign_in import EMAIL, PASSWORD, add_user

pytestmark = pytest.mark.browser

# What moved without a click or a key, except below everything else of the form.
WATCH_SHIFTS = """
window.shifts = [];
new PerformanceObserver((list) => {
  for (const entry of list.getEntries())
    for (const { node } of entry.hadRecentInput ? [] : entry.sources)
      if (!(node?.parentElement || document.body).closest('.foot')) window.shifts.push(node?.outerHTML?.slice(0, 90));
}).observe({type: 'layout-shift'});
"""
# What the form looked like when the page was left.
NOTE_BUTTON = """
addEventListener('pagehide', () => {
  const button = document.querySelector('button[value=send]');
  sessionStorage.setItem('seen', `${button.disabled} ${document.getElementById('saved').textContent}`);
});
"""
# The connection is lost once, after the head of the answer to a check.
BREAK_OFF = """
() => {
  const read = Response.prototype.text;
  Response.prototype.text = async function () {
    if (document.body.dataset.broken || !this.url.endsWith('/compose')) return read.call(this);
    document.body.dataset.broken = "yes";
    throw new TypeError('network error');
  };
}
"""
# Between the top of the screen and the buttons at its foot.
IN_SIGHT = """
(selector) => {
  const box = document.querySelector(selector).getBoundingClientRect();
  return box.top >= 0 && box.bottom <= document.querySelector('.finish').getBoundingClientRect().top;
}
"""
WORDS = "We bake at night so that there is bread in the morning. " * 4


@pytest.fixture
def server(make_server: Callable[..., AppServer]) -> AppServer:
    return make_server(platforms={"tiktok": {"enabled": True}})


@pytest.fixture(autouse=True)
def _leave(make_server: Callable[..., AppServer], tab: BrowserTab) -> Iterator[None]:
    """The composer is left before its server ends: it would go on saving."""
    yield
    tab.page.goto("about:blank")


def open_details(tab: BrowserTab, where: str = "main") -> None:
    tab.ask(f"document.querySelectorAll('{where} details').forEach((node) => {{ node.open = true; }})")


def customize_all(tab: BrowserTab) -> None:
    """Have the fields of every chosen account, one after another."""
    for button in reversed(tab.page.locator("button[name=customize]:visible").all()):
        button.click()
        button.wait_for(state="detached")


def wait_for(tab: BrowserTab, selector: str, text: str) -> None:
    """Until something there says this."""
    tab.page.locator(selector, has_text=text).first.wait_for()


def draft_texts(server: AppServer) -> list[str]:
    return [json.loads(row["content"]).get("text", "") for row in server.rows(PostDraft)]


def test_a_text_with_a_file_goes_out_by_clicks(
    server: AppServer, alice: Person, tab: BrowserTab, tmp_path: Path
) -> None:
    file = tmp_path / "door.png"
    file.write_bytes(make_picture("PNG", (640, 480)))
    open_signed_in(tab, server, alice)
    tab.show(f"{server.url}/posts", width=1000)
    tab.click("nav.ways a[href='/compose']")
    check_page(tab, "compose-one-account")
    tab.fill(text="x" * 301)
    wait_for(tab, ".count.over", "301 of 300")
    tab.page.locator("button[value=check]:visible").click()
    wait_for(tab, "#verdict", "The account would reject this post")
    wait_for(tab, ".accounts .problem", "300 characters")
    assert tab.ask("location.pathname") == "/compose"
    check_page(tab, "compose-too-long")
    tab.fill(text="The door is open")
    wait_for(tab, ".count", "16 of 300")
    tab.page.locator("#many").set_input_files(file)
    tab.page.locator(".chosen img").wait_for()
    tab.page.locator(".chosen textarea").fill("A teal door")
    assert tab.ask("document.querySelector('#text').value") == "The door is open"
    assert tab.ask("document.querySelector('.chosen textarea').value") == "A teal door"
    tab.page.locator("button[value=check]:visible").click()
    wait_for(tab, "#verdict", "Ready to publish to the account")
    check_page(tab, "compose-with-file")
    wait_for(tab, "#saved", "Draft saved")
    tab.click("button[value=send]")
    (post,) = server.rows(Post)
    assert tab.ask("location.pathname") == f"/posts/{post['id']}"
    assert "Post published." in tab.text(".notice")
    assert post["status"] == "published"
    assert json.loads(post["media"])[0]["mediaId"] == server.rows(Media)[0]["id"]
    (draft,) = server.rows(PostDraft)
    tab.reload()
    tab.back()  # the draft was published: it is not sent again
    assert tab.ask("location.pathname") == f"/drafts/{draft['id']}"
    assert "This draft was published." in tab.text(".notice")
    assert len(server.rows(Post)) == 1


def test_a_draft_is_saved_while_it_is_written_and_survives_a_crash(
    server: AppServer, alice: Person, tab: BrowserTab
) -> None:
    open_signed_in(tab, server, alice)
    tab.show(f"{server.url}/compose", width=390)
    tab.page.locator("#text").press_sequentially("Our summer menu")
    wait_until(lambda: draft_texts(server) == ["Our summer menu"])
    wait_for(tab, "#saved", "Draft saved")
    tab.page.route("**/drafts", lambda route: route.abort())  # the server is gone
    tab.page.locator("#text").press_sequentially(": soups")
    wait_for(tab, "#save-problem", "The server does not answer.")
    assert tab.barriers() == []
    tab.reload()  # as after a crash of the browser
    assert tab.ask("document.querySelector('#text').value") == "Our summer menu"
    tab.complaints.clear()
    tab.page.locator("#unsaved").wait_for()
    check_page(tab, "compose-restore")
    tab.page.unroute("**/drafts")
    with tab.page.expect_event("load"):
        tab.page.locator("#restore").click()
    assert tab.ask("document.querySelector('#text').value") == "Our summer menu: soups"
    wait_for(tab, "#saved", "Draft saved")
    assert draft_texts(server) == ["Our summer menu: soups"]
    assert tab.ask("Object.keys(localStorage).length") == 0


def test_what_a_form_says_is_in_sight_on_a_phone(server: AppServer, alice: Person, tab: BrowserTab) -> None:
    for number in range(8):
        server.connect(alice, "twitter", name=f"x{number}")
    open_signed_in(tab, server, alice)
    tab.show(f"{server.url}/compose", width=390)
    tab.fill(text="x" * 301)
    tab.page.locator(f"[name='to.{alice.bluesky}']").check()
    wait_for(tab, ".count.over", "301 of 300")
    tab.ask("scrollTo(0, 0)")
    tab.page.locator("button[value=check]:visible").click()
    wait_for(tab, "#verdict", "The account would reject this post")
    tab.page.wait_for_function(IN_SIGHT, arg="#verdict p")
    tab.ask("scrollTo(0, 0)")
    tab.click("button[value=send]")
    assert tab.text("#verdict").startswith("Nothing was published.")
    tab.page.wait_for_function(IN_SIGHT, arg="#verdict p")
    assert tab.ask("document.activeElement === document.querySelector('#verdict p')")


def test_many_files_are_added_on_a_phone_and_described(
    server: AppServer, alice: Person, tab: BrowserTab, tmp_path: Path
) -> None:
    server.connect(alice, "twitter")
    files = [tmp_path / f"{name}.png" for name in ("first", "second")]
    for number, file in enumerate(files):
        file.write_bytes(make_picture("PNG", (64 + number, 48)))
    bad = tmp_path / "notes.png"
    bad.write_bytes(b"no picture")
    open_signed_in(tab, server, alice)
    tab.show(f"{server.url}/compose", width=390)
    tab.page.locator("button[data-choose=yes]").click()
    assert tab.page.locator(".accounts input:checked").count() == 2
    tab.fill(text="Two pictures")
    tab.page.locator("#many").set_input_files([files[0], bad, files[1]])
    wait_for(tab, "#uploads .problem", "")
    tab.page.locator(".chosen > li").nth(1).wait_for()
    for box, words in zip(tab.page.locator(".chosen textarea").all(), ("A red door", "A blue door"), strict=True):
        box.fill(words)
    tab.page.locator("button[name=earlier]").click()
    tab.page.locator(".chosen textarea").first.and_(tab.page.locator("text=A blue door")).wait_for()
    tab.page.locator("summary:has-text('Developer')").click()
    tab.page.locator("button[value=request]").click()
    wait_for(tab, "#request pre", "/v1/posts")
    tab.page.locator("#request button:has-text('Copy')").wait_for()
    tab.complaints.clear()
    check_page(tab, "compose-many-files")
    tab.look(width=390)
    assert tab.ask("document.querySelector('button[value=send]').getBoundingClientRect().bottom") < 800
    tab.click("button:has-text('Save')")
    (draft,) = server.rows(PostDraft)
    content = json.loads(draft["content"])
    assert [item["altText"] for item in content["media"]] == ["A blue door", "A red door"]
    assert len(content["targets"]) == 2


def write_thread(tab: BrowserTab) -> None:
    """Three posts, of which the last one is moved to the front and the second one removed again."""
    tab.fill(text="One")
    tab.page.locator("#piece-add").click()
    tab.page.locator("[id='piece.1']").fill("Two")
    tab.page.locator("#piece-add").click()
    tab.page.locator("[id='piece.2']").fill("Three")
    for number in ("2", "1"):
        tab.page.locator(f"[id='piece.{number}-earlier']").click()
        tab.page.locator(f"[id='piece.{number}']", has_text="Two" if number == "2" else "One").wait_for()
    assert tab.ask("document.querySelector('#text').value") == "Three"
    tab.page.locator("[id='piece.2-remove']").click()
    tab.page.locator("[id='piece.2']").wait_for(state="detached")


def test_a_thread_is_written_by_clicks_and_saved(server: AppServer, alice: Person, tab: BrowserTab) -> None:
    open_signed_in(tab, server, alice)
    tab.show(f"{server.url}/compose", width=390)
    write_thread(tab)
    tab.page.locator("#piece-add").click()
    tab.page.locator("[id='piece.2']:focus").press_sequentially("x" * 301)
    wait_for(tab, "[id='piece.2-count'] .over", "301 of 300")
    tab.page.locator("button[value=check]:visible").click()
    wait_for(tab, "[id='piece.2-wrong'] .problem", "Bluesky")
    wait_for(tab, ".previews", "piece 3 of the thread")
    check_page(tab, "compose-thread")
    tab.page.locator("[id='piece.2']").fill("Four")
    wait_until(
        lambda: (
            [json.loads(row["content"]).get("thread") for row in server.rows(PostDraft)]
            == [[{"text": "One"}, {"text": "Four"}]]
        )
    )
    wait_for(tab, "#saved", "Draft saved")
    tab.reload()
    assert tab.ask("[...document.querySelectorAll('.piece textarea')].map((field) => field.value)") == ["One", "Four"]
    tab.ask(NOTE_BUTTON)
    tab.click("button[value=send]")
    assert tab.ask("sessionStorage.getItem('seen')") == "true Sending…"
    assert sorted(row["text"] for row in server.rows(Post)) == ["Four", "One", "Three"]


def test_a_thread_is_written_without_a_script(server: AppServer, alice: Person, tab: BrowserTab) -> None:
    open_signed_in(tab, server, alice)
    tab.page.route("**/static/*.js", lambda route: route.abort())
    try:
        tab.show(f"{server.url}/compose", width=1000)
        write_thread(tab)
        tab.click("button[value=send]")
    finally:
        tab.page.unroute("**/static/*.js")
    assert sorted(row["text"] for row in server.rows(Post)) == ["One", "Three"]


def test_a_group_of_accounts_is_created_and_selected(server: AppServer, alice: Person, tab: BrowserTab) -> None:
    second = server.connect(alice, "twitter")["id"]
    open_signed_in(tab, server, alice)
    tab.show(f"{server.url}/compose", width=390)
    tab.fill(text="Kept")
    tab.page.locator(f"[id='to-{second[-12:]}']").check()
    tab.page.locator("#groups summary").click()
    tab.fill(group_name="Only X")
    tab.page.locator("#groups button", has_text="Create the group").click()
    group = tab.page.locator("#groups button[name=group]")
    group.wait_for()
    tab.page.locator("button[data-choose=yes]").click()
    assert tab.page.locator(".accounts input:checked").count() == 2
    group.click()
    assert tab.ask("[...document.querySelectorAll('.accounts input:checked')].map((box) => box.id)") == [
        f"to-{second[-12:]}"
    ]
    wait_for(tab, f"[id='count-{second[-12:]}']", "4 of 280")
    check_page(tab, "compose-groups")
    tab.page.locator("#groups summary").click()
    tab.page.locator("#groups button", has_text="Delete").click()
    group.wait_for(state="detached")
    assert tab.page.locator("#text").input_value() == "Kept"


def test_problems_and_previews_follow_what_is_written(server: AppServer, alice: Person, tab: BrowserTab) -> None:
    second = server.connect(alice, "twitter")["id"]
    open_signed_in(tab, server, alice)
    tab.show(f"{server.url}/compose", width=1280)
    tab.page.locator("button[data-choose=yes]").click()
    wait_for(tab, f"[id='count-{second[-12:]}']", "0 of 280")
    asked: list[str] = []
    held: list[Route] = []

    def hold_first(route: Route) -> None:
        asked.append(route.request.post_data or "")
        if len(asked) == 1:
            held.append(route)
        else:
            route.continue_()

    tab.page.route("**/compose", hold_first)
    try:
        tab.page.locator("#text").press_sequentially("x" * 290)
        wait_until(lambda: tab.ask("true") and len(held) == 1)
        tab.page.locator("#text").press_sequentially("y" * 11)
        tab.page.wait_for_timeout(900)
        assert len(asked) == 1  # one request at a time
        tab.ask(WATCH_SHIFTS)
        held[0].continue_()
        wait_for(tab, "#text-wrong .problem", "2 problems. Bluesky: ")
        wait_for(tab, f"[id='state-{second[-12:]}']", "1 problem")
        wait_for(tab, "#verdict", "2 of 2 accounts would reject this post")
        wait_for(tab, "#previews .words", "xy")
        assert tab.ask("document.querySelector('#text').getAttribute('aria-invalid')") == "true"
        assert len(asked) == 2
        shifts = tab.ask("window.shifts")
        assert shifts == [], shifts
    finally:
        tab.page.unroute("**/compose")
    check_page(tab, "compose-live")
    tab.fill(text="A door")
    wait_for(tab, "#verdict", "No problems found so far.")
    tab.page.locator("#text-wrong .problem").wait_for(state="detached")
    assert tab.ask("document.querySelector('#text').hasAttribute('aria-invalid')") is False


def lose_first_answer(tab: BrowserTab) -> list[int]:
    """Lose the first answer to a save of a draft; the statuses of all that come."""
    statuses: list[int] = []

    def lose_first(route: Route) -> None:
        found = route.fetch()
        statuses.append(found.status)
        _ = route.abort() if len(statuses) == 1 else route.fulfill(response=found)

    tab.page.route("**/drafts", lose_first)
    return statuses


def test_a_lost_answer_makes_no_second_draft(server: AppServer, alice: Person, tab: BrowserTab) -> None:
    open_signed_in(tab, server, alice)
    tab.show(f"{server.url}/compose", width=1000)
    answered = lose_first_answer(tab)
    tab.fill(text="Once")
    wait_for(tab, "#saved", "Draft saved")
    tab.page.unroute("**/drafts")
    assert (answered[:2], draft_texts(server)) == ([200, 200], ["Once"])


def test_a_post_is_published_once_where_the_answer_to_a_save_is_lost(
    server: AppServer, alice: Person, tab: BrowserTab
) -> None:
    open_signed_in(tab, server, alice)
    tab.show(f"{server.url}/compose", width=1000)
    lose_first_answer(tab)
    tab.page.locator(f"[id='to-{alice.bluesky[-12:]}']").check()
    tab.fill(text="Once")
    wait_for(tab, "#save-problem", "The server does not answer")
    tab.click("button[value=send]")
    tab.page.unroute("**/drafts")
    assert [row["status"] for row in server.rows(PostDraft)] == ["published"]
    assert [row["text"] for row in server.rows(Post)] == ["Once"]


def test_a_press_says_that_it_waits_for_a_save(server: AppServer, alice: Person, tab: BrowserTab) -> None:
    open_signed_in(tab, server, alice)
    tab.show(f"{server.url}/compose", width=1000)
    held: list[Route] = []
    tab.page.route("**/drafts", lambda route: held.append(route))
    tab.page.locator(f"[id='to-{alice.bluesky[-12:]}']").check()
    with tab.page.expect_request("**/drafts"):
        tab.fill(text="Slow")
    tab.page.locator("button[value=send]").click()
    wait_for(tab, "#saved", "Waiting for the draft to be saved…")
    assert tab.page.locator("button[value=send][aria-busy=true]").count() == 1
    with tab.page.expect_event("load"):
        held[0].continue_()
    tab.page.unroute("**/drafts")
    assert [row["status"] for row in server.rows(Post)] == ["published"]


def test_what_is_written_in_a_draft_deleted_meanwhile_is_saved_anew(
    server: AppServer, alice: Person, tab: BrowserTab
) -> None:
    draft = str(new_draft(alice.api, text="First", targets=[{"accountId": alice.bluesky}])["id"])
    open_signed_in(tab, server, alice)
    tab.show(f"{server.url}/compose?draft={draft}", width=1000)
    alice.api.delete(f"/v1/drafts/{draft}")
    tab.fill(text="Mine")
    wait_for(tab, "#save-problem", "This draft was deleted after you opened it.")
    tab.click("button[formaction='/drafts']")
    wait_for(tab, "#top .problem", "This draft was deleted after you opened it.")
    wait_for(tab, "#saved", "Draft saved")
    assert draft_texts(server) == ["Mine"]


def test_two_tabs_with_one_draft_do_not_overwrite_each_other(server: AppServer, alice: Person, tab: BrowserTab) -> None:
    draft = str(new_draft(alice.api, text="First", targets=[{"accountId": alice.bluesky}])["id"])
    open_signed_in(tab, server, alice)
    tab.show(f"{server.url}/compose?draft={draft}", width=1000)
    other = tab.page.context.new_page()
    try:
        other.goto(f"{server.url}/compose?draft={draft}")
        other.locator("#text").fill("Theirs")
        other.locator("#saved", has_text="Draft saved").wait_for()
    finally:
        other.close()
    tab.fill(text="Mine")
    wait_for(tab, "#save-problem", "changed in another tab")
    assert read_draft(alice.api, draft)["content"]["text"] == "Theirs"
    tab.click("button:has-text('Save draft')")
    assert tab.ask("document.querySelector('#text').value") == "Mine"
    tab.complaints.clear()
    check_page(tab, "compose-conflict")
    tab.click("button[name=replace]")
    assert read_draft(alice.api, draft)["content"]["text"] == "Mine"


def test_a_queued_post_is_edited_by_clicks(server: AppServer, alice: Person, tab: BrowserTab) -> None:
    request = {"targets": [{"accountId": alice.bluesky}], "text": "Old", "scheduledAt": "2999-05-04T15:30:00.000Z"}
    post = alice.api.post("/v1/posts", json=request).json()["results"][0]["postId"]
    open_signed_in(tab, server, alice)
    tab.show(f"{server.url}/posts/{post}", width=390)
    tab.click("main a:has-text('Edit')")
    tab.fill(text="New")
    wait_for(tab, ".count", "3 of 300")
    check_page(tab, "compose-edit-post")
    tab.click("button:has-text('Save changes')")
    assert "Post changed." in tab.text(".notice")
    assert alice.api.get(f"/v1/posts/{post}").json()["text"] == "New"
    assert server.rows(PostDraft) == []


def test_a_post_is_scheduled_without_a_script(server: AppServer, alice: Person, tab: BrowserTab) -> None:
    stored_media(alice.api, make_picture("JPEG"), altText="From the library")
    open_signed_in(tab, server, alice)
    tab.page.route("**/static/*.js", lambda route: route.abort())
    try:
        tab.show(f"{server.url}/compose", width=1000)
        tab.fill(text="Later, with a picture")
        tab.page.locator("summary:has-text('Choose from your media')").click()
        tab.page.locator(".pick input").check()
        tab.click("button[value=add]")
        assert tab.page.locator(".chosen img").count() == 1
        tab.click("button[value=check]:visible")
        assert "Ready to publish" in tab.text("#verdict")
        tab.page.locator("#later").check()
        day = (datetime.now(UTC) + timedelta(days=200)).date().isoformat()
        tab.fill(day=day, clock="15:30")
        tab.complaints.clear()
        check_page(tab, "compose-later")
        tab.click("button[value=send]")
    finally:
        tab.page.unroute("**/static/*.js")
    assert "Post scheduled." in tab.text(".notice")
    (post,) = server.rows(Post)
    read = alice.api.get(f"/v1/posts/{post['id']}").json()
    assert (read["status"], read["scheduledAt"]) == ("queued", f"{day}T15:30:00.000Z")
    assert len(read["mediaRefs"]) == 1


def test_a_post_is_written_and_sent_by_keyboard_alone(server: AppServer, alice: Person, tab: BrowserTab) -> None:
    second = server.connect(alice, "twitter")["id"]
    open_signed_in(tab, server, alice)
    tab.show(f"{server.url}/compose", width=390)
    reached: list[str] = []

    def go_to(selector: str) -> None:
        for _ in range(200):
            if tab.ask(f"document.activeElement.matches({json.dumps(selector)})"):
                return
            tab.press("Tab")
            reached.append(tab.ask("document.activeElement.id || document.activeElement.textContent.trim()"))
        raise AssertionError(f"{selector} is not reached: {reached}")

    go_to("#text")
    tab.page.keyboard.type("By keyboard")
    go_to(f"[id='to-{alice.bluesky[-12:]}']")
    tab.press("Space")
    wait_for(tab, f"[id='count-{alice.bluesky[-12:]}']", "11 of 300")
    go_to("button[name=customize]")
    tab.press("Enter")
    tab.page.locator("summary:focus", has_text="Customize for Bluesky").wait_for()
    go_to(f"[id='{alice.bluesky}.option.langs']")
    tab.page.keyboard.type("en")
    go_to(f"[id='to-{second[-12:]}']")
    go_to("#now")
    go_to("button[value=send]")
    with tab.page.expect_event("load"):
        tab.press("Enter")
    (post,) = server.rows(Post)
    assert tab.ask("location.pathname") == f"/posts/{post['id']}"
    assert json.loads(post["options"]) == {"langs": ["en"]}


def test_a_full_form_is_looked_at_on_every_screen(server: AppServer, alice: Person, tab: BrowserTab) -> None:
    for name in ("facebook", "instagram", "linkedin", "threads", "tiktok", "twitter"):
        server.connect(alice, name)
    server.connect(alice, "pinterest", defaultBoardId="42", defaultBoardName="Recipes")
    gone, long = alice.accounts["threads"]["id"], alice.accounts["facebook"]["id"]

    def write(_: object) -> None:
        Account.update(status="revoked").where(Account.id == gone).execute()
        Account.update(display_name="averylongname" * 9).where(Account.id == long).execute()

    server.service.write(write).result()
    for number in range(3):
        stored_media(alice.api, make_picture("JPEG", (8 + number, 8)), altText="A long description " * 9)
    open_signed_in(tab, server, alice)
    tab.show(f"{server.url}/compose", width=1280)
    check_page(tab, "compose-many")
    for box in tab.page.locator(".accounts > li > .option > input").all():
        box.check()
    customize_all(tab)
    tab.fill(text=WORDS * 2)
    open_details(tab)
    tab.page.locator(".pick input").first.check()
    tab.page.locator("button[value=add]").click()
    tab.page.locator(".chosen img").wait_for()
    tab.page.locator("button[value=check]:visible").click()
    wait_for(tab, "#verdict", "would reject this post")
    check_page(tab, "compose-full")
    names = tab.ask("[...document.querySelectorAll('button:not([hidden])')].map((node) => node.textContent.trim())")
    assert len(names) == len(set(names))


def test_the_fields_of_an_account_come_when_asked_for(server: AppServer, alice: Person, tab: BrowserTab) -> None:
    second = server.connect(alice, "twitter")["id"]
    own = f"[id='{alice.bluesky}.text']"
    open_signed_in(tab, server, alice)
    tab.show(f"{server.url}/compose", width=1280)
    assert tab.page.locator(own).count() == 0
    tab.ask(WATCH_SHIFTS)
    tab.page.locator(f"[id='to-{alice.bluesky[-12:]}']").check()
    tab.page.locator(f"[id='own-{alice.bluesky[-12:]}'] button").click()
    tab.page.locator(own).fill("Of its own")
    tab.page.locator(f"[id='to-{second[-12:]}']").check()
    tab.page.locator(f"[id='own-{second[-12:]}'] button").click()
    tab.page.locator(f"[id='{second}.text']").wait_for()
    assert tab.page.locator(own).input_value() == "Of its own"
    shifts = tab.ask("window.shifts")
    assert shifts == [], shifts
    check_page(tab, "compose-customized")
    tab.page.locator(f"[id='to-{alice.bluesky[-12:]}']").uncheck()
    tab.page.locator(own).wait_for(state="hidden")
    tab.page.locator(f"[id='to-{alice.bluesky[-12:]}']").check()
    assert tab.page.locator(own).input_value() == "Of its own"
    tab.fill(text="For all")
    wait_until(lambda: draft_texts(server) == ["For all"])
    wait_until(lambda: tab.ask("localStorage.length") == 0)  # all is saved
    tab.reload()
    assert tab.page.locator(own).input_value() == "Of its own"
    assert tab.page.locator("#unsaved").is_hidden()


def test_an_answer_waits_while_a_button_is_pressed(server: AppServer, alice: Person, tab: BrowserTab) -> None:
    server.connect(alice, "twitter")
    open_signed_in(tab, server, alice)
    tab.show(f"{server.url}/compose", width=1280)
    count = tab.page.locator(f"[id='count-{alice.bluesky[-12:]}']")
    held: list[Route] = []
    tab.page.route("**/compose", lambda route: route.continue_() if held else held.append(route))
    with tab.page.expect_request("**/compose"):
        tab.page.locator(f"[id='to-{alice.bluesky[-12:]}']").check()
    size = count.bounding_box()
    tab.page.locator(f"[id='own-{alice.bluesky[-12:]}'] button").hover()
    tab.page.mouse.down()
    with tab.page.expect_response("**/compose"):
        held[0].continue_()
    tab.page.wait_for_timeout(100)  # time for a page that would not wait
    assert count.inner_text() == ""
    tab.page.mouse.up()
    tab.page.locator(f"[id='{alice.bluesky}.text']").wait_for()
    assert "characters" in count.inner_text()
    filled = count.bounding_box()
    assert size
    assert filled
    assert filled["height"] == pytest.approx(size["height"], abs=0.5)


@pytest.fixture
def uploads(server: AppServer, alice: Person, tab: BrowserTab) -> Iterator[list[Route]]:
    """The composer, whose uploads are held back: each is let go by `continue_`."""
    held: list[Route] = []
    open_signed_in(tab, server, alice)
    tab.show(f"{server.url}/compose", width=1280)
    tab.page.route("**/compose/media", lambda route: held.append(route))
    yield held
    tab.page.unroute("**/compose/media")


def begin_upload(tab: BrowserTab, held: list[Route], width: int) -> Route:
    """Start to upload a new picture; return the request, which is held."""
    content, before = make_picture("PNG", (width, 48)), len(held)
    file = FilePayload(name=f"{width}.png", mimeType="image/png", buffer=content)
    tab.page.locator("#many").set_input_files(file)
    wait_until(lambda: tab.ask("true") and len(held) > before)
    return held[-1]


def test_an_upload_takes_back_nothing_done_meanwhile(uploads: list[Route], tab: BrowserTab) -> None:
    tab.fill(text="One")
    begin_upload(tab, uploads, 64).continue_()
    tab.page.locator(".chosen > li").wait_for()
    second = begin_upload(tab, uploads, 65)
    tab.page.locator(".chosen button[name=remove]").click()
    tab.page.locator(".chosen").wait_for(state="detached")
    tab.page.locator("#piece-add").click()
    tab.page.locator("[id='piece.1']").press_sequentially("Two")
    tab.page.keyboard.press("Home")
    tab.page.keyboard.press("ArrowRight")
    second.continue_()
    tab.page.locator(".chosen > li").wait_for()
    tab.page.locator("#uploads li").wait_for(state="detached")
    tab.page.keyboard.insert_text("h")
    assert tab.page.locator("[id='piece.1']").input_value() == "Thwo"  # the caret stays where it was
    assert tab.page.locator(".chosen > li").count() == 1


def test_what_is_chosen_while_an_answer_comes_stays(server: AppServer, alice: Person, tab: BrowserTab) -> None:
    server.connect(alice, "twitter")
    server.clock.skip((4_070_908_800_000 - server.clock.now_ms()) / 1000)  # 1 January 2099
    file = stored_media(alice.api, make_picture("PNG"))["id"]  # not before: unused for years, it would be deleted
    open_signed_in(tab, server, alice)
    tab.show(f"{server.url}/compose", width=1280)
    tab.fill(text="One")
    tab.page.locator("#later").check()
    tab.ask("document.querySelector('[name=in_zone]').value = 'Europe/Berlin'")
    tab.fill(day="2099-10-25", clock="02:30")
    tab.page.locator("summary:has-text('Choose from your media')").click()
    tab.page.locator(f"[id='pick-{file}']").check()
    tab.page.locator("button[value=add]").click()
    tab.page.locator(f"[id='to-{alice.bluesky[-12:]}']").check()
    tab.page.locator("#piece-add").click()
    tab.page.locator("[id='piece.1']").fill("Two")
    tab.page.locator(f"[id='own-{alice.bluesky[-12:]}'] button").click()
    tab.page.locator(f"[id='{alice.bluesky}.text']").wait_for()
    tab.page.locator("button[value=check]:visible").click()
    tab.page.locator("#fold-first").check()
    chosen = [tab.page.locator(f"[id='{id}']") for id in ("fold-second", f"{alice.bluesky}.alone")]
    held: list[Route] = []
    tab.page.route("**/compose", lambda route: route.continue_() if held else held.append(route))
    with tab.page.expect_request("**/compose"):
        tab.page.locator("#piece-add").click()
    for box in chosen:
        box.check()
    tab.page.locator(f"[id='in-{file}']").select_option("1")
    tab.page.locator("#groups summary").click()
    tab.fill(group_name="Both")
    held[0].continue_()
    tab.page.locator("[id='piece.2']").wait_for()
    assert [box.is_checked() for box in chosen] == [True, True]
    assert tab.page.locator(f"[id='in-{file}']").input_value() == "1"
    assert tab.page.locator("[name=group_name]").input_value() == "Both"


def test_buttons_pressed_at_once_are_all_obeyed(server: AppServer, alice: Person, tab: BrowserTab) -> None:
    second = server.connect(alice, "twitter")["id"]
    open_signed_in(tab, server, alice)
    tab.show(f"{server.url}/compose", width=1280)
    tab.page.locator("button[data-choose=yes]").click()
    tab.ask("for (const each of document.querySelectorAll('button[name=customize]')) each.click()")
    for account in (alice.bluesky, second):
        tab.page.locator(f"[id='{account}.text']").wait_for()


def test_a_form_is_sent_with_the_files_being_uploaded(
    server: AppServer, alice: Person, uploads: list[Route], tab: BrowserTab
) -> None:
    tab.page.locator(f"[id='to-{alice.bluesky[-12:]}']").check()
    tab.fill(text="With its picture")
    held = begin_upload(tab, uploads, 64)
    tab.page.locator("button[value=send]").click()
    wait_for(tab, "#saved", "Waiting for the files…")
    held.abort()
    wait_for(tab, "#uploads .problem", "not uploaded")
    wait_for(tab, "#saved", "Not sent: a file is missing")
    held = begin_upload(tab, uploads, 64)
    tab.page.locator("button[value=send]").click()
    with tab.page.expect_event("load"):
        held.continue_()
    (post,) = server.rows(Post)
    assert len(json.loads(post["media"])) == 1


def test_a_form_that_is_stopped_can_be_sent_again(server: AppServer, alice: Person, tab: BrowserTab) -> None:
    """By Esc or the browser's own button, before the next page has come."""
    open_signed_in(tab, server, alice)
    tab.show(f"{server.url}/compose", width=1280)
    tab.page.locator(f"[id='to-{alice.bluesky[-12:]}']").check()
    tab.fill(text="Once")
    wait_for(tab, "#saved", "Draft saved")
    tab.page.route("**/compose", lambda route: None)  # no answer comes
    tab.stop_next()
    tab.page.locator("button[value=send]").click(no_wait_after=True)
    wait_for(tab, "#saved", "Stopped")
    assert "Once" in tab.ask("Object.values(localStorage).join()")
    assert server.rows(Post) == []
    tab.page.unroute("**/compose")
    tab.click("button[value=send]")
    (post,) = server.rows(Post)
    assert tab.ask("location.pathname") == f"/posts/{post['id']}"


def test_a_stopped_upload_holds_up_nothing(alice: Person, uploads: list[Route], tab: BrowserTab) -> None:
    begin_upload(tab, uploads, 64)
    tab.ask("window.stop()")
    wait_for(tab, "#uploads .problem", "not uploaded")
    tab.fill(text="Without its picture")
    tab.page.locator(f"[id='to-{alice.bluesky[-12:]}']").check()
    tab.click("button[value=send]")
    assert "Post published." in tab.text(".notice")


def test_an_answer_that_breaks_off_ends_no_checks(server: AppServer, alice: Person, tab: BrowserTab) -> None:
    open_signed_in(tab, server, alice)
    tab.show(f"{server.url}/compose", width=1280)
    tab.page.locator(f"[id='to-{alice.bluesky[-12:]}']").check()
    wait_for(tab, f"[id='count-{alice.bluesky[-12:]}']", "0 of 300")
    tab.ask(BREAK_OFF)
    tab.fill(text="Once")
    tab.page.locator("body[data-broken]").wait_for()
    tab.fill(text="Again")
    wait_for(tab, f"[id='count-{alice.bluesky[-12:]}']", "5 of 300")


PASTE = """
(kinds) => {
  const data = new DataTransfer();
  if (kinds.includes('words')) data.setData('text/plain', 'Words');
  if (kinds.includes('picture')) data.items.add(new File(['no picture'], 'pasted.png', { type: 'image/png' }));
  const event = new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true });
  return document.querySelector('#text').dispatchEvent(event);
}
"""


def test_words_are_pasted_as_words(server: AppServer, alice: Person, tab: BrowserTab) -> None:
    """Office programs add a picture of the words that are copied."""
    open_signed_in(tab, server, alice)
    tab.show(f"{server.url}/compose", width=1280)
    assert tab.page.evaluate(PASTE, ["words", "picture"])
    assert tab.page.locator("#uploads li").count() == 0
    assert not tab.page.evaluate(PASTE, ["picture"])
    wait_for(tab, "#uploads .problem", "not a JPEG")


def test_two_fingers_hold_the_page_once(server: AppServer, alice: Person, tab: BrowserTab) -> None:
    server.connect(alice, "twitter")
    open_signed_in(tab, server, alice)
    tab.show(f"{server.url}/compose", width=390)
    press = "document.dispatchEvent(new PointerEvent('{}', {{buttons: {}}}))"
    held: list[Route] = []
    tab.page.route("**/compose", lambda route: route.continue_() if held else held.append(route))
    with tab.page.expect_request("**/compose"):
        tab.page.locator(f"[id='to-{alice.bluesky[-12:]}']").check()
    tab.ask(press.format("pointerdown", 1))
    with tab.page.expect_response("**/compose"):
        held[0].continue_()
    tab.page.wait_for_timeout(100)  # time for a page that would not wait
    tab.ask(press.format("pointerdown", 1))
    tab.ask(press.format("pointerup", 0))
    wait_for(tab, f"[id='count-{alice.bluesky[-12:]}']", "characters")


def test_the_fields_of_an_account_come_without_a_script(server: AppServer, alice: Person, tab: BrowserTab) -> None:
    second = server.connect(alice, "twitter")["id"]
    open_signed_in(tab, server, alice)
    browser = tab.page.context.browser
    assert browser is not None
    context = browser.new_context(java_script_enabled=False)
    try:
        context.add_cookies([{"name": "socialpub_session", "value": "alice", "url": server.url}])
        page = context.new_page()
        page.goto(f"{server.url}/compose")
        page.locator("#text").fill("For all")
        page.locator(f"[id='to-{second[-12:]}']").check()
        page.get_by_role("button", name="Customize for Alice 2 on X").click()
        page.locator(f"[id='{second}.text']").fill("Only on X")
        page.get_by_role("button", name="Publish now").click()
        page.wait_for_url("**/posts/*")
    finally:
        context.close()
    (post,) = server.rows(Post)
    assert (post["account"], post["text"]) == (second, "Only on X")


def test_a_session_that_ends_while_somebody_writes_takes_nothing_with_it(
    server: AppServer, alice: Person, tab: BrowserTab
) -> None:
    add_user(server, alice, EMAIL, "owner")
    tab.page.context.clear_cookies()
    tab.show(f"{server.url}/login?next=/compose", width=1000)
    tab.fill(email=EMAIL, password=PASSWORD)
    tab.click("main form button")
    tab.fill(text="Half a sentence")
    wait_for(tab, ".count", "15 of 300")
    server.clock.skip(400 * 86_400)
    with tab.page.expect_event("load"):
        tab.page.locator("button[value=check]:visible").click()
    assert "Your session has ended" in tab.text("main")
    tab.fill(email=EMAIL, password=PASSWORD)
    tab.click("main form button")
    assert tab.ask("document.querySelector('#text').value") == "Half a sentence"
    assert tab.page.locator(".accounts :checked").count() == 1
    assert server.rows(Post) == []


def test_a_save_after_the_session_ended_is_not_taken_for_one(server: AppServer, alice: Person, tab: BrowserTab) -> None:
    add_user(server, alice, EMAIL, "owner")
    tab.page.context.clear_cookies()
    tab.show(f"{server.url}/login?next=/compose", width=1000)
    tab.fill(email=EMAIL, password=PASSWORD)
    tab.click("main form button")
    tab.fill(text="Half a sentence")
    wait_for(tab, "#saved", "Draft saved")
    server.clock.skip(400 * 86_400)
    tab.fill(text="Half a sentence, and the rest")
    wait_for(tab, "#save-problem", "Your session has ended")
    assert tab.text("#saved") == "Not saved"
    tab.show(tab.page.url, width=1000)
    tab.fill(email=EMAIL, password=PASSWORD)
    tab.click("main form button")
    tab.click("#restore")
    assert tab.ask("document.querySelector('#text').value") == "Half a sentence, and the rest"


def test_a_draft_that_is_opened_is_previewed_as_it_is(server: AppServer, alice: Person, tab: BrowserTab) -> None:
    draft = new_draft(alice.api, text="Fresh rolls from six", targets=[{"accountId": alice.bluesky}])["id"]
    open_signed_in(tab, server, alice)
    tab.show(f"{server.url}/compose?draft={draft}", width=1000)
    wait_for(tab, "#previews .words", "Fresh rolls from six")
    wait_for(tab, "#verdict", "No problems found so far.")
    assert read_draft(alice.api, draft)["updatedAt"] == read_draft(alice.api, draft)["createdAt"]  # nothing was saved


def test_choosing_only_a_time_leaves_nothing_to_restore(server: AppServer, alice: Person, tab: BrowserTab) -> None:
    open_signed_in(tab, server, alice)
    tab.show(f"{server.url}/compose", width=1000)
    tab.page.locator("#later").check(force=True)
    assert tab.ask("localStorage.length") == 1
    tab.reload()
    assert tab.page.locator("#unsaved").is_hidden()
    tab.page.locator("#text").fill("A text")
    tab.page.route("**/drafts", lambda route: route.abort())  # only the browser keeps it
    tab.page.locator("#later").check(force=True)
    tab.reload()
    tab.page.locator("#unsaved").wait_for()
    tab.page.unroute("**/drafts")


def test_what_others_have_written_is_never_run(server: AppServer, alice: Person, tab: BrowserTab) -> None:
    stored_media(alice.api, altText=XSS)
    server.connect(alice, "pinterest", defaultBoardId=XSS, defaultBoardName=XSS)
    open_signed_in(tab, server, alice)
    tab.show(f"{server.url}/compose", width=1000)
    for box in tab.page.locator(".accounts > li > .option > input").all():
        box.check()
    customize_all(tab)
    open_details(tab)
    for field in tab.page.locator("main textarea:visible, main input:not([type]):visible").all():
        field.fill(XSS)
    for box in tab.page.locator("main input[type=checkbox]").all():
        box.check()
    tab.page.locator("button[value=check]:visible").click()
    wait_for(tab, "#verdict", "Nothing was published")
    assert tab.ask("document.querySelectorAll('main script, main img:not([src^=\"/media/\"])').length") == 0
    assert tab.complaints == [] or all("400" in each for each in tab.complaints)


def test_there_is_nowhere_to_publish_yet(server: AppServer, tab: BrowserTab) -> None:
    nobody = server.person("Nobody")
    sign_in(server, nobody.organization)
    tab.send("Network.setCookie", name="socialpub_session", value="alice", url=server.url)
    tab.show(f"{server.url}/compose", width=1000)
    check_page(tab, "compose-empty")


def test_a_board_is_chosen_by_clicks_and_stays_chosen(
    make_server: Callable[..., AppServer], lab: SimulatorThread, monkeypatch: pytest.MonkeyPatch, tab: BrowserTab
) -> None:
    office = open_connect_session(make_server, lab, monkeypatch, "pinterest")
    office.login_exists(boards=["Recipes", "A plan for the garden " * 5])
    office.connect()
    (account,) = office.rows()
    tab.send("Network.setCookie", name="socialpub_session", value="alice", url=office.server.url)
    tab.show(f"{office.server.url}/compose", width=1000)
    customize_all(tab)
    tab.page.locator("button[name=boards]").click()
    field = tab.page.locator(f"select[name='{account['id']}.option.boardId']")
    field.wait_for()
    field.select_option(label="A plan for the garden " * 5)
    tab.fill(text="A pin")
    tab.page.locator("button[value=check]:visible").click()
    wait_for(tab, "#verdict", "The account would reject this post")  # there is nothing to see yet
    assert field.evaluate("field => field.selectedOptions[0].textContent").startswith("A plan")
    open_details(tab, ".accounts")
    check_page(tab, "compose-boards")
