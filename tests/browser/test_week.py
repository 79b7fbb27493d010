"""A small team's week with one post: by mouse and phone, by keyboard, without a script."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from socialpub.commands import demo
from socialpub.domain.access.actor import build_operator
from socialpub.simulator.server import SimulatorThread
from socialpub.store.schema.models import PostDraft
from tests.support.app_server import AppServer, MovableClock, sleep_briefly, unused_name
from tests.support.browser.chromium import MS, BrowserTab
from tests.support.browser.page_checks import STICKING_OUT
from tests.support.browser.server_states import run_in_thread
from tests.support.connect_flow import open_connect_session
from tests.support.request_cast import make_picture
from tests.support.sign_in import EMAIL, PASSWORD, add_user

pytestmark = pytest.mark.browser

PLATFORMS = ("bluesky", "facebook", "linkedin", "twitter")
ALTS = ("A red door", "A blue door")
DRAFTED, CORRECTED, LAST = "Two doors are open", "Two doors are open on Tuesday", "Two doors are open today"
PHONE, DESK = 390, 1280
FAULTS = (
    {"fault": "status:503", "platform": "facebook", "operation": "*"},
    {"fault": "reset_after", "platform": "linkedin", "operation": "posts.create"},
)
"""On the day Facebook is down, and LinkedIn's answer is lost after the post was made."""


@dataclass
class Mouse:
    """A user with a mouse and a keyboard."""

    page: Page
    has_script = True

    def look(self, width: int) -> None:
        self.page.set_viewport_size({"width": width, "height": 800})

    def follow(self, found: Locator | str) -> None:
        """Use a link or a button, by its name or itself, and wait for the page that it leads to."""
        with self.page.expect_event("load"):
            self.activate(self._named(found))

    def _named(self, found: Locator | str) -> Locator:
        if not isinstance(found, str):
            return found
        main = self.page.locator("main")
        return main.get_by_role("link", name=found).or_(main.get_by_role("button", name=found)).first

    def activate(self, found: Locator) -> None:
        found.click()

    def write(self, selector: str, text: str) -> None:
        self.page.locator(selector).first.fill(text)

    def tick(self, selector: str) -> None:
        self.page.locator(selector).check()

    def set_time(self, at: datetime) -> None:
        self.tick("#later")
        self.write("#day", f"{at:%Y-%m-%d}")
        self.write("#clock", f"{at:%H:%M}")

    def attach(self, file: Path, alt: str) -> None:
        count = self.page.locator(".chosen > li").count()
        with self.page.expect_file_chooser() as chosen:
            self.activate(self.page.locator("#drop button"))
        chosen.value.set_files(file)
        box = self.page.locator(".chosen textarea").nth(count)
        box.wait_for()
        self.write(f"[id='{box.get_attribute('id')}']", alt)

    def move_a_day_on(self, to: datetime) -> None:
        with self.page.expect_event("load"):
            self.page.drag_and_drop(".entry[draggable=true]", f"[data-day='{to:%Y-%m-%d}'] [data-drop='{to:%H}']")


class Keyboard(Mouse):
    """A user without a mouse: everything is reached by Tab."""

    TABS_MAX = 250

    def _reach(self, found: Locator) -> None:
        for _ in range(self.TABS_MAX):
            if found.evaluate("node => node === document.activeElement"):
                return
            self.page.keyboard.press("Tab")
        raise AssertionError(f"{found} is not reached by Tab")

    def activate(self, found: Locator) -> None:
        self._reach(found)
        self.page.keyboard.press("Enter")

    def write(self, selector: str, text: str) -> None:
        self._reach(self.page.locator(selector).first)
        self.page.keyboard.press("Control+a")
        self.page.keyboard.type(text)

    def tick(self, selector: str) -> None:
        self._reach(self.page.locator(selector))
        self.page.keyboard.press("Space")
        expect(self.page.locator(selector)).to_be_checked()

    def set_time(self, at: datetime) -> None:
        self._reach(self.page.locator("#now"))
        self.page.keyboard.press("ArrowRight")
        expect(self.page.locator("#later")).to_be_checked()
        for selector, typed in (("#day", f"{at:%m%d%Y}"), ("#clock", f"{at:%I%M%p}")):
            self._reach(self.page.locator(selector))
            self.page.keyboard.type(typed)

    def move_a_day_on(self, to: datetime) -> None:
        self.follow(self.page.locator(".entry .move").first)
        self.follow("One day later")


class Plain(Mouse):
    """A user whose browser runs no scripts."""

    has_script = False

    def attach(self, file: Path, alt: str) -> None:
        if not self.page.locator("#file").is_visible():
            self.activate(self.page.locator(".one-file summary"))
        self.page.locator("#file").set_input_files(file)
        self.write("#new-alt", alt)
        self.follow(self.page.locator(".one-file button"))

    def move_a_day_on(self, to: datetime) -> None:
        self.follow(self.page.locator(".entry .move").first)
        self.write("main [name=day]", f"{to:%Y-%m-%d}")
        self.follow(self.page.get_by_role("button", name="Move", exact=True))


@dataclass
class Office:
    """The server, and its time: `due` is a Tuesday's hour."""

    server: AppServer
    due: datetime

    def skip_to(self, at: datetime) -> None:
        """Time passes here and at the platforms."""
        seconds = at.timestamp() - self.server.clock.now_ms() / 1000
        clock = self.server.lab.lab.clock
        assert isinstance(clock, MovableClock)
        clock.skip(seconds)
        self.server.skip(seconds)

    def wait_out(self, post: str) -> dict[str, Any]:
        """The row of a post once it has ended: neither looks nor further attempts wait for their times."""
        ends = ("published", "rejected", "failed")
        deadline = time.monotonic() + 40
        with self.server.hurried():
            while (row := self.server.wait(post, *ends, "validated", seconds=30))["status"] not in ends:
                assert time.monotonic() < deadline, row
                if row["next_attempt_at"] and row["next_attempt_at"] > self.server.clock.now_ms():
                    self.skip_to(datetime.fromtimestamp(row["next_attempt_at"] / 1000, UTC))
                sleep_briefly()
        return row

    def posts(self) -> dict[str, dict[str, object]]:
        return {str(row["platform"]): row for row in self.server.rows()}

    def times(self) -> set[int]:
        return {int(str(row["scheduled_at"])) for row in self.posts().values()}

    def draft_status(self) -> str:
        (draft,) = self.server.rows(PostDraft)
        return str(draft["status"])


@pytest.fixture
def office(make_server: Callable[..., AppServer], lab: SimulatorThread, monkeypatch: pytest.MonkeyPatch) -> Office:
    made = open_connect_session(make_server, lab, monkeypatch, publishing={"approval": True})
    server, alice = made.server, made.alice
    add_user(server, alice, EMAIL, "owner")
    lab.lab.configure(processing_ms=0)

    def connect() -> None:
        actor = build_operator(server.service, "test").within(alice.organization)
        for name in PLATFORMS:
            login = lab.lab.add_account(name, handle=f"{unused_name()}.test", displayName="The doors")
            demo.connect_account(actor, name, alice.profile, demo.find_credentials(server.service, name, login))

    run_in_thread(connect)
    now = datetime.fromtimestamp(server.clock.now_ms() / 1000, UTC)
    days = (1 - now.weekday() - 2) % 7 + 2  # the next Tuesday that is neither today nor tomorrow
    due = (now + timedelta(days=days)).replace(hour=10, minute=20, second=0, microsecond=0)
    return Office(server, due)


@pytest.fixture(params=[Mouse, Keyboard, Plain])
def hand(request: pytest.FixtureRequest, tab: BrowserTab) -> Iterator[Mouse]:
    """A separate browser context without a session."""
    page = _new_page(tab, with_script=bool(request.param.has_script))
    yield request.param(page)
    page.context.close()


def _browser(tab: BrowserTab) -> Browser:
    browser = tab.page.context.browser
    assert browser is not None
    return browser


def _new_page(tab: BrowserTab, *, with_script: bool) -> Page:
    context = _browser(tab).new_context(java_script_enabled=with_script)
    context.set_default_timeout(MS)
    return context.new_page()


def _sign_in(hand: Mouse, server: AppServer, path: str) -> None:
    hand.page.context.clear_cookies()
    hand.page.goto(f"{server.url}/login?next={path}")
    hand.write("main [name=email]", EMAIL)
    hand.write("main [name=password]", PASSWORD)
    hand.follow(hand.page.locator("main form button"))
    assert urlsplit(hand.page.url).path == urlsplit(path).path


def _decide(hand: Mouse, link: str, tab: BrowserTab) -> None:
    """A reviewer without a login opens the link, sees both pictures and approves."""
    other = type(hand)(_new_page(tab, with_script=hand.has_script))
    other.look(PHONE)
    other.page.goto(link)
    for alt in ALTS:
        expect(other.page.locator("main")).to_contain_text(alt)
    assert other.page.evaluate(STICKING_OUT) == []
    other.follow("Approve")
    expect(other.page.locator("main")).to_contain_text("This post is approved.")
    other.page.context.close()


def test_a_week_with_one_post(office: Office, hand: Mouse, tab: BrowserTab, tmp_path: Path) -> None:
    server, page = office.server, hand.page
    hand.look(PHONE)

    # Monday, on the way: a draft with two pictures, proposed.
    _sign_in(hand, server, "/compose")
    hand.write("#text", DRAFTED)
    for number, alt in enumerate(ALTS):
        file = tmp_path / f"{number}.png"
        file.write_bytes(make_picture("PNG", (64 + number, 48)))
        hand.attach(file, alt)
    for box in page.locator(".accounts > li > .option > input").all():
        hand.tick(f"[id='{box.get_attribute('id')}']")
    hand.set_time(office.due)
    hand.follow("Save as draft")
    page.wait_for_url("**/drafts/*")  # an autosave under way names the draft in the composer's address first
    draft = page.url
    hand.follow("Propose for approval")
    hand.follow("Create a link")
    link = page.locator("#copy-secret").inner_text().strip()

    # The manager approves by the link; the author mends the text, which ends the approval; both do it again.
    _decide(hand, link, tab)
    assert office.draft_status() == "approved"
    page.goto(draft)
    hand.follow("Edit")
    expect(page.locator("#approval")).to_contain_text("the approval ends")
    hand.write("#text", CORRECTED)
    hand.follow("Save draft")
    assert office.draft_status() == "draft"
    assert page.get_by_role("button", name="Schedule").count() == 0
    hand.follow("Propose for approval")
    _decide(hand, link, tab)
    page.goto(draft)
    hand.follow("Schedule")
    assert office.times() == {int(office.due.timestamp() * 1000)}
    assert page.evaluate(STICKING_OUT) == []

    # At the desk: a day later is better.
    hand.look(DESK)
    page.goto(f"{server.url}/calendar/week/{office.due:%Y-%m-%d}")
    later = office.due + timedelta(days=1)
    hand.move_a_day_on(later)
    assert office.times() == {int(later.timestamp() * 1000)}

    # An hour before, one of the texts is changed.
    office.skip_to(later - timedelta(hours=1))
    _sign_in(hand, server, f"/calendar/week/{later:%Y-%m-%d}")
    hand.follow(page.locator(".entry a").first)
    if page.locator("h1").inner_text() != "Post on Bluesky":
        hand.follow(page.locator(".targets a", has_text="Bluesky"))
    hand.follow("Edit")
    hand.write("#text", LAST)
    hand.follow("Save changes")
    expect(page.locator(".notice")).to_contain_text("Post changed.")

    # The time comes.
    server.lab.lab.faults.add(FAULTS)
    office.skip_to(later)
    ended = {name: office.wait_out(str(row["id"])) for name, row in office.posts().items()}
    server.lab.lab.faults.clear()
    found = {name: str(row["status"]) for name, row in ended.items()}
    assert found == {"bluesky": "published", "facebook": "failed", "linkedin": "failed", "twitter": "published"}

    # The rest of the week: the failed post is retried, the unknown outcome is resolved.
    hand.look(PHONE)
    _sign_in(hand, server, "/")
    hand.follow("It was published")
    expect(page.locator(".notice")).to_contain_text("marked as published")
    hand.follow("Retry")
    expect(page.locator(".notice")).to_contain_text("Retrying 1 post")
    assert office.wait_out(str(ended["facebook"]["id"]))["status"] == "published"
    entries = server.lab.lab.ledger.posts()
    texts = {name: [entry.text for entry in entries if entry.platform == name] for name in PLATFORMS}
    assert texts == {name: [LAST if name == "bluesky" else CORRECTED] for name in PLATFORMS}
    assert {entry.platform: tuple(each.alt for each in entry.media) for entry in entries} == dict.fromkeys(
        PLATFORMS, ALTS
    )
    page.goto(f"{server.url}/posts")
    assert page.locator("main .state").all_inner_texts() == ["Published"]
