"""Simulator pages in a browser: received posts, and pages to link to."""

from __future__ import annotations

import pytest

from socialpub.simulator.server import SimulatorThread
from tests.support.app_server import AppServer
from tests.support.browser.chromium import BrowserTab
from tests.support.browser.page_checks import check_page

pytestmark = pytest.mark.browser


def test_what_arrived_is_read_by_everybody_empty_and_full(
    tab: BrowserTab, server: AppServer, lab: SimulatorThread
) -> None:
    lab.lab.reset()
    tab.show(lab.url, width=1280)
    assert "Nothing has been published yet." in tab.text("main")
    check_page(tab, "simulator-empty")
    alice = server.connected_person("Alice")
    image = {"kind": "image", "url": f"{lab.url}/pages/a.png", "altText": "A square"}
    video = {"kind": "video", "url": f"{lab.url}/pages/clip.mp4"}
    for text, media in (("An image <b>and</b> " + "verylongword" * 20, [image]), ("A video", [video])):
        body = {"targets": [{"platform": "bluesky"}], "text": text, "media": media}
        assert alice.api.publish(body).json()["status"] == "published"
    tab.show(lab.url, width=1280)
    assert tab.ask("document.querySelectorAll('article').length") == 2
    check_page(tab, "simulator")


def test_a_page_to_link_to_is_one_that_people_can_read(tab: BrowserTab, lab: SimulatorThread) -> None:
    tab.show(f"{lab.url}/pages/soup", width=1280)
    assert tab.text("h1") == "Page soup"
    check_page(tab, "simulator-page")
