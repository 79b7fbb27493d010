"""Webhooks in a real browser: an endpoint made, tried and looked at by clicks, a failed delivery sent again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browser.chromium import Tab, chromium
from tests.browser.looks import seen
from tests.browser.test_posts_pages import arrive
from tests.hooks import ended
from tests.kit import Person, Server
from tests.sink import Said, Sink, listening
from tests.web.pages.test_posts import XSS
from tests.web.test_media import JPEG, stored
from tests.web.world import World

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def tab() -> Iterator[Tab]:
    with chromium() as found:
        yield found


@pytest.fixture
def sink() -> Iterator[Sink]:
    with listening() as sink:
        yield sink


def test_a_failed_delivery_is_sent_again_by_clicks(server: Server, alice: Person, sink: Sink, tab: Tab) -> None:
    world = World(server, alice, alice, alice)
    arrive(tab, world.server, world.alice)
    tab.show(f"{world.server.url}/webhooks", width=1000)
    seen(tab, "webhooks-empty")
    tab.fill(url=sink.url, description="shop " + "x" * 200)
    tab.click("main form button")
    assert tab.ask("document.querySelector('#copy-secret').textContent").startswith("whsec_")
    seen(tab, "webhook-new")
    tab.reload()
    assert tab.ask("document.querySelector('#copy-secret')") is None
    sink.answer = lambda got: Said(400, f"No. {XSS}".encode())
    world.published()
    ended(world.server, world.alice, 2, "failed")
    tab.click("nav[aria-label='Which deliveries'] a:nth-child(2)")
    seen(tab, "webhook-failed")
    names = tab.ask("[...document.querySelectorAll('button')].map((node) => node.textContent.trim())")
    assert len(names) == len(set(names))
    tab.click("tbody a")
    tab.ask("document.querySelector('.timeline details').open = true")
    assert tab.ask("document.querySelectorAll('main img').length") == 0
    seen(tab, "delivery")
    sink.answer = lambda got: 204
    tab.click("form[action$=redeliver] button")
    ended(world.server, world.alice, 1, "succeeded")
    tab.click(".kicker a")
    tab.click("a.danger")
    seen(tab, "webhook-delete")
    tab.click("button.danger")
    assert tab.ask("location.pathname") == "/webhooks"
    assert "No endpoint yet" in tab.ask("document.querySelector('main').textContent")


def test_the_shelf_of_media_is_looked_at(server: Server, alice: Person, tab: Tab) -> None:
    arrive(tab, server, alice)
    tab.show(f"{server.url}/media", width=1000)
    seen(tab, "media-empty")
    made = [stored(alice.api, JPEG + bytes(number), altText="A long description " * 9) for number in range(1, 4)]
    tab.show(f"{server.url}/media", width=1000)
    seen(tab, "media")
    assert tab.ask("document.querySelector('main img').complete")
    tab.click(f"a[href='/library/{made[0]['id']}/delete']")
    seen(tab, "media-delete")
    tab.click("button.danger")
    assert tab.ask("document.querySelectorAll('main img').length") == 2
