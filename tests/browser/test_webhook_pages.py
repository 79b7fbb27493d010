"""Webhook, media and notification pages in a browser, with redelivery by clicks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.support.app_server import AppServer, Person
from tests.support.browser.chromium import BrowserTab
from tests.support.browser.page_checks import check_page
from tests.support.browser.sign_in import open_signed_in
from tests.support.chat_servers import CHATS, SLACK, refuse_channel, wait_for_notices
from tests.support.dashboard_forms import XSS
from tests.support.mail_server import MailServer, running_mail_server
from tests.support.media_uploads import JPEG, stored_media
from tests.support.request_cast import RequestCast
from tests.support.webhook_endpoints import wait_for_deliveries
from tests.support.webhook_receiver import ReceiverResponse, WebhookReceiver

pytestmark = pytest.mark.browser


def test_a_failed_delivery_is_sent_again_by_clicks(
    server: AppServer, alice: Person, sink: WebhookReceiver, tab: BrowserTab
) -> None:
    world = RequestCast(server, alice)
    open_signed_in(tab, world.server, world.alice)
    tab.show(f"{world.server.url}/webhooks", width=1000)
    check_page(tab, "webhooks-empty")
    tab.fill(url=sink.url, description="shop " + "x" * 200)
    tab.click("main form button")
    assert tab.ask("document.querySelector('#copy-secret').textContent").startswith("whsec_")
    check_page(tab, "webhook-new")
    tab.reload()
    assert tab.ask("document.querySelector('#copy-secret')") is None
    sink.answer = lambda got: ReceiverResponse(400, f"No. {XSS}".encode())
    world.published()
    wait_for_deliveries(world.server, world.alice, 2, "failed")
    tab.click("nav[aria-label='Filter deliveries'] a:nth-child(2)")
    check_page(tab, "webhook-failed")
    names = tab.ask("[...document.querySelectorAll('button')].map((node) => node.textContent.trim())")
    assert len(names) == len(set(names))
    tab.click("tbody a")
    tab.ask("document.querySelector('.timeline details').open = true")
    assert tab.ask("document.querySelectorAll('main img').length") == 0
    check_page(tab, "delivery")
    sink.answer = lambda got: 204
    tab.click("form[action$=redeliver] button")
    wait_for_deliveries(world.server, world.alice, 1, "succeeded")
    tab.click(".kicker a")
    tab.page.locator("main .more-menu summary").click()
    check_page(tab, "webhook-menu")
    tab.click("a.danger")
    check_page(tab, "webhook-delete")
    tab.click("button.danger")
    assert tab.ask("location.pathname") == "/webhooks"
    assert "No endpoints yet" in tab.ask("document.querySelector('main').textContent")


def test_the_shelf_of_media_is_looked_at(server: AppServer, alice: Person, tab: BrowserTab) -> None:
    open_signed_in(tab, server, alice)
    tab.show(f"{server.url}/media", width=1000)
    check_page(tab, "media-empty")
    made = [stored_media(alice.api, JPEG + bytes(number), altText="A long description " * 9) for number in range(1, 4)]
    tab.show(f"{server.url}/media", width=1000)
    check_page(tab, "media")
    assert tab.ask("document.querySelector('main img').complete")
    tab.click(f"a[href='/library/{made[0]['id']}']")
    tab.page.locator("main details.menu summary").click()
    tab.click(f"a[href='/library/{made[0]['id']}/delete']")
    check_page(tab, "media-delete")
    tab.click("button.danger")
    assert tab.ask("document.querySelectorAll('main img').length") == 2


@contextlib.contextmanager
def apart(made: AbstractContextManager[MailServer]) -> Iterator[MailServer]:
    """Entered in a thread of its own: Playwright has a loop in this one."""
    with ThreadPoolExecutor(1) as pool:
        entered = pool.submit(made.__enter__).result()
        try:
            yield entered
        finally:
            pool.submit(made.__exit__, None, None, None).result()


def test_people_are_told_on_a_channel_that_was_added_by_clicks(
    make_server: Callable[..., AppServer], sink: WebhookReceiver, tab: BrowserTab, tmp_path: Path
) -> None:
    sink.answer = CHATS["slack"].answer
    with apart(running_mail_server(tmp_path)) as mailroom:
        server = make_server(smtp=mailroom.settings(), notifications={"telegram_api": sink.origin})
        alice = server.connected_person("Alice")
        world = RequestCast(server, alice)
        open_signed_in(tab, world.server, world.alice)
        tab.show(f"{world.server.url}/settings", width=1000)
        tab.click("nav.tabs a[href='/settings/notifications']")
        check_page(tab, "channels-empty")
        tab.click("a[href='/settings/notifications/new/email']")
        tab.page.locator("#tells-chosen").check()
        check_page(tab, "channel-new-email")
        tab.fill(address="newsroom@example.org")
        tab.click("main form button")  # and nothing was chosen
        assert "Choose at least one event type." in tab.text("main .tells")
        tab.page.locator(".types input").first.check()
        tab.click("main form button")
        tab.click("main button:has-text('Send a test')")
        assert "Test message accepted" in tab.text(".notice")
        assert "This is a test." in mailroom.wait(1)[0].text
        for kind in ("ntfy", "discord", "telegram", "slack"):
            tab.show(f"{world.server.url}/settings/notifications/new/{kind}", width=1000)
            check_page(tab, f"channel-new-{kind}")
        tab.fill(secret_url="https://192.168.0.1", description="The newsroom " + "x" * 200)
        tab.page.locator("[name=secret_url]").fill("no address")
        tab.click("main form button")
        tab.complaints.clear()  # the answer's status is among them
        check_page(tab, "channel-wrong")
        tab.fill(secret_url=sink.origin + SLACK)
        tab.click("main form button")
        channel = tab.ask("location.pathname")
        tab.reload()
        assert SLACK not in tab.page.content()
        refuse_channel(world)
        wait_for_notices(world.server)
        sink.answer = lambda got: ReceiverResponse(404, f"no_service {XSS}".encode())
        tab.click("main button:has-text('Send a test')")
        assert "The test failed" in tab.text(".notice")
        tab.ask("document.querySelectorAll('main details').forEach((node) => { node.open = true; })")
        assert "A post to Bluesky was rejected" in tab.text("main .items")
        check_page(tab, "channel")
        tab.click("main a[href$='/target']")
        check_page(tab, "channel-target")
        tab.click(".kicker a")
        tab.click("main button:has-text('Turn off')")
        check_page(tab, "channel-off")
        tab.click(".kicker a")
        check_page(tab, "channels")
        tab.show(f"{world.server.url}{channel}", width=390)
        tab.page.locator("main .more-menu summary").click()
        tab.click("a.danger")
        check_page(tab, "channel-delete")
        tab.click("button.danger")
        assert tab.page.locator("main tbody tr").count() == 1
