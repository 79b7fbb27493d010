"""Notification channel pages: adding, testing, changing and deleting each kind."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from socialpub.domain.events.notification_queue import DEFAULT_TYPES
from socialpub.domain.schemas.events import EVENTS
from socialpub.domain.schemas.notifications import PAUSED_TYPE
from socialpub.store.schema.models import NotificationChannel
from socialpub.web.dashboard.notifications import KINDS, TYPES
from tests.support.app_server import UNKNOWN_ID, ApiClient, AppServer
from tests.support.chat_servers import (
    ACCESS,
    CHANNELS,
    CHATS,
    DISCORD,
    SLACK,
    TOKEN,
    TOPIC,
    received_texts,
    refuse_channel,
    wait_for_notices,
)
from tests.support.connect_flow import sign_in
from tests.support.dashboard_forms import HTML, XSS, follow_notice, send_form
from tests.support.mail_server import MailServer, running_mail_server
from tests.support.request_cast import RequestCast
from tests.support.webhook_receiver import ReceiverResponse, WebhookReceiver
from tests.support.write_requests import WriteRequest

PLACE = "/settings/notifications"
UNKNOWN = "nch_0000000000000000000000"


WRITES = [
    WriteRequest(
        "POST",
        "/settings/notifications/new/<kind:str>",
        lambda person, browser: send_form(browser, f"{PLACE}/new/slack", secret_url="https://127.0.0.1:9/x"),
    )
]


@pytest.fixture
def mailroom(tmp_path: Path) -> Iterator[MailServer]:
    with running_mail_server(tmp_path) as room:
        yield room


@pytest.fixture
def world(
    make_server: Callable[..., AppServer],
    world_of: Callable[[AppServer], RequestCast],
    sink: WebhookReceiver,
    mailroom: MailServer,
) -> RequestCast:
    return world_of(make_server(notifications={"telegram_api": sink.origin}, smtp=mailroom.settings()))


def page(browser: ApiClient, path: str = "") -> str:
    answer = browser.get(f"{PLACE}{path}", headers=HTML)
    assert answer.status_code == 200
    return answer.text


def typed(sink: WebhookReceiver) -> dict[str, dict[str, str]]:
    """What somebody fills in, of each kind."""
    return {
        "email": {"address": "newsroom@example.org"},
        "ntfy": {"secret_topic": TOPIC, "url": sink.origin, "secret_token": ACCESS},
        "slack": {"secret_url": sink.origin + SLACK},
        "discord": {"secret_url": sink.origin + DISCORD},
        "telegram": {"secret_botToken": TOKEN, "chatId": "-1001234567890"},
    }


def made(browser: ApiClient, sink: WebhookReceiver, kind: str = "slack", **fields: str) -> str:
    """The id of a new channel."""
    answer = send_form(browser, f"{PLACE}/new/{kind}", **(typed(sink)[kind] | fields))
    assert answer.status_code == 303, answer.text
    return answer.headers["Location"].removeprefix(f"{PLACE}/")


def problems(answer: httpx.Response) -> list[str]:
    return [html.unescape(each) for each in re.findall(r'<p class="problem"[^>]*>(.*?)</p>', answer.text)]


# --- Adding and trying -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_added_and_tried_and_its_secrets_are_never_shown(
    world: RequestCast, sink: WebhookReceiver, mailroom: MailServer, browser: ApiClient, kind: str
) -> None:
    sink.answer = CHATS[kind].answer if kind in CHATS else lambda got: 204
    world.server.watch.secrets |= set(CHATS[kind].secrets) if kind in CHATS else set()
    asked = html.unescape(page(browser, f"/new/{kind}"))
    assert all(step.split("`")[0].split("**")[0] in asked for step in KINDS[kind].steps)
    assert all(f'name="{each.id}"' in asked for each in KINDS[kind].fields)
    id = made(browser, sink, kind)
    answer = send_form(browser, f"{PLACE}/{id}/test")
    assert "Test message accepted" in follow_notice(browser, answer)
    told = [mailed.text for mailed in mailroom.wait(1)] if kind == "email" else received_texts(kind, sink)
    assert "This is a test." in told[0]
    assert page(browser)
    assert page(browser, f"/{id}")
    assert page(browser, f"/{id}/target")
    assert world.alice.api.get(f"{CHANNELS}/{id}").json()["events"] == []


def test_a_test_that_is_not_taken_says_what_the_receiver_said(
    world: RequestCast, sink: WebhookReceiver, browser: ApiClient
) -> None:
    sink.answer = lambda got: ReceiverResponse(400, f"Bad token {XSS}".encode())
    id = made(browser, sink)
    text = follow_notice(browser, send_form(browser, f"{PLACE}/{id}/test"))
    assert 'class="notice bad"' in text
    assert "Response: Bad token &lt;img" in text


def test_what_is_told_is_what_is_chosen(world: RequestCast, sink: WebhookReceiver, browser: ApiClient) -> None:
    assert {name for name, _ in TYPES.values()} == {*EVENTS, PAUSED_TYPE}
    boxes = {name: box for box, (name, _) in TYPES.items()}
    text = page(browser, "/new/slack")
    assert 'value="needed" checked' in text
    needed = text.partition('<ul class="hint" id="needed">')[2].partition("</ul>")[0]
    assert needed.count("<li>") == len(DEFAULT_TYPES)
    chosen = {boxes["post.published"]: "yes", boxes["token.expiring"]: "yes"}
    id = made(browser, sink, tells="chosen", **chosen, description="The shop")
    assert world.alice.api.get(f"{CHANNELS}/{id}").json()["events"] == ["post.published", "token.expiring"]
    ignored = made(browser, sink, tells="needed", **chosen)
    assert world.alice.api.get(f"{CHANNELS}/{ignored}").json()["events"] == []
    nothing = send_form(browser, f"{PLACE}/new/slack", **typed(sink)["slack"], tells="chosen")
    assert problems(nothing) == ["Choose at least one event type."]
    send_form(browser, f"{PLACE}/{id}/change", tells="chosen", **{boxes["post.failed"]: "yes"}, description="Else")
    changed = world.alice.api.get(f"{CHANNELS}/{id}").json()
    assert (changed["events"], changed["description"]) == (["post.failed"], "Else")


def test_a_channel_is_of_the_organization_or_of_a_profile(
    world: RequestCast, sink: WebhookReceiver, browser: ApiClient
) -> None:
    whole, mine = made(browser, sink), made(browser, sink, of=world.bob.profile)
    shown = {row["id"]: row["profileId"] for row in world.alice.api.get(CHANNELS).json()["data"]}
    assert shown == {whole: None, mine: world.bob.profile}
    refused = send_form(browser, f"{PLACE}/new/slack", **typed(sink)["slack"], of=world.charlie.profile)
    assert refused.status_code == 404
    assert len(world.alice.api.get(CHANNELS).json()["data"]) == 2


# --- Looking ---------------------------------------------------------------------------------------------------------


def test_what_was_told_stands_there_with_what_became_of_it(
    world: RequestCast, sink: WebhookReceiver, browser: ApiClient
) -> None:
    sink.answer = CHATS["slack"].answer
    id = made(browser, sink)
    refuse_channel(world)
    wait_for_notices(world.server)
    text = page(browser, f"/{id}")
    assert "A post to Bluesky was rejected" in text
    assert "1 attempt" in text
    assert ">Delivered</span>" in text
    assert "in this state" in page(browser, f"/{id}?status=failed")
    sink.answer = lambda got: ReceiverResponse(410, b"gone")
    world.server.skip(3 * 86_400)
    refuse_channel(world)
    wait_for_notices(world.server)
    browser = sign_in(world.server, world.alice.organization, name="later")
    text = page(browser, f"/{id}?status=failed")
    assert "The last attempt failed" in text
    assert ">Failing</span>" in text
    assert ">Failing</span>" in page(browser)


@pytest.mark.slow
def test_messages_are_paged(world: RequestCast, sink: WebhookReceiver, browser: ApiClient) -> None:
    sink.answer = CHATS["slack"].answer
    boxes = {box: "yes" for box, (name, _) in TYPES.items() if name == "post.published"}
    id = made(browser, sink, tells="chosen", **boxes)
    for number in range(27):
        world.published(text=f"Number {number}")
        world.server.skip(2 * 86_400)
        wait_for_notices(world.server)
    browser = sign_in(world.server, world.alice.organization, name="later")
    text = page(browser, f"/{id}")
    count = text.count("Full text")
    assert count == 25
    older = re.search(r'href="([^"#]*)#messages" rel="next"', text)
    assert older
    rest = browser.get(html.unescape(older[1]), headers=HTML).text
    assert rest.count("Full text") == 2
    assert ">Newest</a>" in rest


def test_a_channel_that_was_switched_off_says_so_and_is_switched_on(
    world: RequestCast, sink: WebhookReceiver, browser: ApiClient
) -> None:
    id = made(browser, sink)
    send_form(browser, f"{PLACE}/{id}/switch", active="no")
    assert "Turned off" in page(browser, f"/{id}")
    world.server.service.write(
        lambda tx: NotificationChannel.update(last_failure_reason="It was refused (410).").execute()
    ).result()
    text = page(browser, f"/{id}")
    assert "It was refused (410)." in text
    assert "after 5 days in which every message failed" in text
    send_form(browser, f"{PLACE}/{id}/switch", active="yes")
    assert world.alice.api.get(f"{CHANNELS}/{id}").json()["active"] is True


def test_it_is_led_elsewhere_and_deleted_after_being_asked(
    world: RequestCast, sink: WebhookReceiver, browser: ApiClient
) -> None:
    sink.answer = CHATS["slack"].answer
    id = made(browser, sink, secret_url=f"{sink.origin}/wrong/and/long/enough/to/be/cut")
    assert "The test failed" in follow_notice(browser, send_form(browser, f"{PLACE}/{id}/test"))
    assert "/wrong/and" not in page(browser, f"/{id}/target")
    bad = send_form(browser, f"{PLACE}/{id}/target", secret_url="nonsense")
    assert bad.status_code == 400
    assert len(problems(bad)) == 1
    send_form(browser, f"{PLACE}/{id}/target", **typed(sink)["slack"])
    assert "accepted" in follow_notice(browser, send_form(browser, f"{PLACE}/{id}/test"))
    assert "It gets no more messages" in page(browser, f"/{id}/delete")
    assert "programs can list them" in page(browser, f"/{id}/delete")
    assert send_form(browser, f"{PLACE}/{id}/delete").headers["Location"] == PLACE
    assert browser.get(f"{PLACE}/{id}", headers=HTML).status_code == 404
    assert "No notification channels yet" in page(browser)


def test_deleting_asks_for_the_password_when_the_sign_in_is_old(
    world: RequestCast, sink: WebhookReceiver, browser: ApiClient
) -> None:
    id = made(browser, sink)
    world.server.clock.skip(11 * 60)
    assert 'name="password"' in page(browser, f"/{id}/delete")
    assert send_form(browser, f"{PLACE}/{id}/delete").status_code == 403
    assert len(world.alice.api.get(CHANNELS).json()["data"]) == 1


# --- What is wrong ---------------------------------------------------------------------------------------------------

WRONG: list[tuple[str, dict[str, str], str]] = [
    ("email", {"address": "nobody"}, "This is not a valid e-mail address."),
    ("email", {}, "This is not a valid e-mail address."),
    ("ntfy", {"secret_topic": "a/b"}, "A topic must have"),
    ("ntfy", {"secret_topic": "a", "url": "ftp://x"}, "This is not a valid server address."),
    ("ntfy", {"secret_topic": "a", "secret_token": "a b"}, "This is not a valid token."),
    ("slack", {}, "Copy all of it"),
    ("slack", {"secret_url": "hooks.slack.com/services"}, "A webhook URL must be https."),
    ("discord", {"secret_url": "x" * 3000}, "Copy all of it"),
    ("telegram", {"secret_botToken": "no", "chatId": "1"}, "A bot token is"),
    ("telegram", {"secret_botToken": TOKEN, "chatId": "a b"}, "Enter a chat ID"),
    ("slack", {"secret_url": "https://127.0.0.1:9/x", "description": "x" * 5000}, "description"),
]


@pytest.mark.matrix
@pytest.mark.parametrize(("kind", "given", "says"), WRONG)
def test_what_is_wrong_is_told_beside_its_field_and_nothing_is_written(
    world: RequestCast, browser: ApiClient, kind: str, given: dict[str, str], says: str
) -> None:
    before = world.server.stock()
    answer = send_form(browser, f"{PLACE}/new/{kind}", **given)
    assert answer.status_code == 400
    assert says in problems(answer)[0]
    assert world.server.stock() == before


def test_without_a_mail_server_e_mail_says_so(
    make_server: Callable[..., AppServer], world_of: Callable[[AppServer], RequestCast]
) -> None:
    world = world_of(make_server())
    browser = sign_in(world.server, world.alice.organization)
    answer = send_form(browser, f"{PLACE}/new/email", address="a@b.test")
    assert "no mail server is set up" in problems(answer)[0]


@pytest.mark.parametrize("path", ["/new/sms", f"/{UNKNOWN}", f"/{UNKNOWN_ID}/delete", f"/{UNKNOWN}/target"])
def test_what_is_not_there_is_not_found(browser: ApiClient, path: str) -> None:
    assert browser.get(f"{PLACE}{path}", headers=HTML).status_code == 404


def test_text_stays_text(world: RequestCast, sink: WebhookReceiver, browser: ApiClient) -> None:
    id = made(browser, sink, description=XSS)
    bad: dict[str, Any] = {"secret_topic": XSS, "url": XSS, "secret_token": XSS, "description": XSS, "of": ""}
    for text in (page(browser), page(browser, f"/{id}"), send_form(browser, f"{PLACE}/new/ntfy", **bad).text):
        assert XSS not in text
        assert "&lt;img" in text


def test_members_and_others_see_nothing_of_it(world: RequestCast, sink: WebhookReceiver, browser: ApiClient) -> None:
    id = made(browser, sink)
    member = sign_in(world.server, world.alice.organization, role="member", name="mona")
    other = sign_in(world.server, world.charlie.organization, name="charlie")
    for path in ("", "/new/slack", f"/{id}", f"/{id}/target", f"/{id}/delete"):
        assert member.get(f"{PLACE}{path}", headers=HTML).status_code == 403
    for path in (f"/{id}", f"/{id}/target", f"/{id}/delete"):
        assert other.get(f"{PLACE}{path}", headers=HTML).status_code == 404
    assert PLACE not in member.get("/settings", headers=HTML).text
    assert id not in page(other)
    for way in ("test", "change", "switch", "target", "delete"):
        assert send_form(other, f"{PLACE}/{id}/{way}", **typed(sink)["slack"]).status_code == 404
    assert sink.got == []


def test_forged_forms_do_nothing(world: RequestCast, sink: WebhookReceiver, browser: ApiClient) -> None:
    id = made(browser, sink)
    before = world.server.stock()
    for way in ("new/slack", *(f"{id}/{each}" for each in ("test", "change", "switch", "target", "delete"))):
        data = {"csrf_token": "wrong"} | typed(sink)["slack"]
        assert browser.post(f"{PLACE}/{way}", data=data, headers=HTML).status_code == 403
    assert sink.got == []
    assert world.server.stock() == before


def test_a_secret_that_was_typed_when_the_session_ended_is_not_kept(world: RequestCast, sink: WebhookReceiver) -> None:
    answer = world.server.api().post(
        f"{PLACE}/new/telegram",
        data={"page": f"{PLACE}/new/telegram", "secret_botToken": TOKEN, "description": "The newsroom"},
    )
    assert "Your session has ended" in answer.text
    assert "The newsroom" in answer.text
    assert TOKEN not in answer.text
