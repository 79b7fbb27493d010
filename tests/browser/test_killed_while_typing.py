"""Kills of server and browser while a post is typed; a `serve` process over its file."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserType, Page, sync_playwright

from socialpub.base.config import load
from socialpub.base.runtime import Runtime, load_vault
from socialpub.domain.access.actor import build_operator
from socialpub.domain.context.app_context import close_context, open_context
from socialpub.domain.identity import users
from tests.support.browser.chromium import FLAGS, MS
from tests.support.reporting import TIMED, ReportLine
from tests.support.sign_in import EMAIL, PASSWORD
from tests.support.soak.soak_world import SoakWorld, running_world, wait_for

pytestmark = pytest.mark.browser

SAVES = 2
MORE_WORDS = (25, 10)  # typed after the last save that was seen: the kill comes between two, or during one
LOST_SECONDS = 2.0


@pytest.fixture
def world(tmp_path: Path) -> Iterator[SoakWorld]:
    """A server, an owner who signs in with a password, and a Bluesky account."""
    with running_world(tmp_path, on=("bluesky",)) as world:
        settings = load(tmp_path / "socialpub.toml")
        service, hash_ = open_context(Runtime(settings, load_vault(settings))), users.hash_password(PASSWORD)
        try:
            (organization,) = (row["id"] for row in world.rows("SELECT id FROM organization"))
            who = build_operator(service, "test").within(organization)
            service.write(lambda tx: users.create(tx, who, EMAIL, "owner", hash_)).result()
        finally:
            close_context(service)
        yield world


def saved_text(world: SoakWorld) -> str:
    texts = [json.loads(row["content"]).get("text", "") for row in world.rows("SELECT content FROM draft")]
    assert len(texts) <= 1, "each save is of the same draft"
    return "".join(texts)


def kill_browser(profile: Path) -> None:
    """SIGKILL to every process of the browser that has this profile."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and is_process_of(entry, profile):
            os.kill(int(entry.name), signal.SIGKILL)


def is_process_of(entry: Path, profile: Path) -> bool:
    """Children of Chromium are not told the profile, but end with their parent's pipe."""
    try:
        return f"--user-data-dir={profile}".encode() in (entry / "cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):  # it has ended
        return False


def open_browser(chromium: BrowserType, profile: Path) -> Page:
    program = shutil.which("chromium")
    assert program, "chromium is not installed; run: apt-get install -y chromium"
    context = chromium.launch_persistent_context(profile, executable_path=program, args=list(FLAGS))
    context.set_default_timeout(MS)
    return context.pages[0] if context.pages else context.new_page()


def open_composer(page: Page, world: SoakWorld, path: str) -> None:
    page.goto(f"{world.url}{path}")
    if "/login" in page.url:
        page.locator("main [name=email]").fill(EMAIL)
        page.locator("main [name=password]").fill(PASSWORD)
        page.locator("main [name=password]").press("Enter")
        page.wait_for_url(lambda url: "/login" not in url)
        page.goto(f"{world.url}{path}")
    page.locator("#text").wait_for()


def type_on(page: Page, world: SoakWorld, words: Iterator[int], more: int) -> list[tuple[str, float]]:
    """Type without a pause until SAVES were seen, then `more` words; return each text and when it was there."""
    page.locator("#text").press("Control+End")
    typed, saves = [(page.locator("#text").input_value(), time.monotonic())], {saved_text(world)}
    for word in words:
        page.locator("#text").press_sequentially(f"word{word} ")
        typed.append((page.locator("#text").input_value(), time.monotonic()))
        saves.add(saved_text(world))
        more -= len(saves) > SAVES
        if more < 0:
            return typed
        assert len(typed) < 3000, "the text was not saved while it was typed"
    raise AssertionError("there is always another word")


def test_little_is_lost_when_all_is_killed_while_a_post_is_typed(
    world: SoakWorld, tmp_path: Path, tell: ReportLine
) -> None:
    """What was saved stays, and saving does not wait for a pause in typing; with every kill the post grows on."""
    words, profile, path, lost = itertools.count(), tmp_path / "profile", "/compose", [0.0]
    with sync_playwright() as playwright:
        for more in MORE_WORDS:
            world.start()
            page = open_browser(playwright.chromium, profile)
            open_composer(page, world, path)
            assert page.locator("#text").input_value() == saved_text(world)
            typed = type_on(page, world, words, more)
            world.kill()
            killed, kept = time.monotonic(), saved_text(world)
            kill_browser(profile)
            texts = [text for text, _ in typed]
            assert kept
            assert texts[-1].startswith(kept)
            missing = [at for text, at in typed if not kept.startswith(text)]
            lost.append(killed - missing[0] if missing else 0.0)
            (draft,) = world.rows("SELECT id FROM draft")
            path = f"/compose?draft={draft['id']}"
        world.start()
        page = open_browser(playwright.chromium, profile)
        open_composer(page, world, path)
        assert page.locator("#text").input_value() == saved_text(world)
        assert wait_for(lambda: world.rows("SELECT count(*) AS n FROM draft")[0]["n"] == 1, 30)
        page.context.close()
    tell(f"{len(MORE_WORDS)} kills of server and browser while typing: at most {max(lost):.1f} s of text lost")
    assert max(lost) < LOST_SECONDS or not TIMED
