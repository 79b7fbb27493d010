"""Notifications: channels, message forms, grouping and frequency."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from socialpub.domain.accounts import tokens
from socialpub.domain.delivery.notifications import channels, message_texts, notification_outbox
from socialpub.domain.events import events
from socialpub.domain.schemas.events import EVENTS
from socialpub.domain.schemas.notifications import PAUSED_TYPE
from socialpub.domain.server import instance
from socialpub.store.schema.models import Account, AuditEntry, NotificationChannel, Post
from socialpub.web.routes import ROUTES
from tests.support.app_server import AppServer, Person, error_of, sleep_briefly
from tests.support.chat_servers import (
    CHANNELS,
    CHATS,
    DISCORD,
    SLACK,
    add_channel,
    notice_rows,
    received_texts,
    refuse_channel,
    wait_for_notices,
)
from tests.support.mail_server import PASSWORD, SENDER, USERNAME, running_mail_server
from tests.support.publishing_state import paused
from tests.support.request_cast import RequestCast
from tests.support.webhook_endpoints import wait_for_failure
from tests.support.webhook_receiver import ReceiverResponse, WebhookReceiver, running_receiver

PUT = "com.atproto.repo.putRecord"
TOLD = "/v1/notifications"
WINDOW = 15 * 60
DAY = 24 * 3600
EMAIL = {"kind": "email", "address": "newsroom@example.org"}
CAST = pytest.mark.parametrize("kind", CHATS)


@pytest.fixture
def world(
    make_server: Callable[..., AppServer], world_of: Callable[[AppServer], RequestCast], sink: WebhookReceiver
) -> RequestCast:
    """Bots of Telegram are reached at the sink."""
    return world_of(make_server(notifications={"telegram_api": sink.origin}))


@pytest.fixture
def slack(sink: WebhookReceiver) -> WebhookReceiver:
    sink.answer = CHATS["slack"].answer
    return sink


def on_slack(person: Person, sink: WebhookReceiver, **fields: Any) -> dict[str, Any]:
    return add_channel(person, CHATS["slack"].to(sink.origin), **fields)


def named(world: RequestCast, name: str) -> None:
    """Alice's account has this name."""
    query = Account.update(display_name=name).where(Account.id == world.alice.bluesky)
    world.server.service.write(lambda tx: query.execute()).result()


# --- Each kind, by a receiver of its protocol ------------------------------------------------------------------------


@CAST
def test_a_failure_is_told_in_the_documented_form(world: RequestCast, sink: WebhookReceiver, kind: str) -> None:
    chat = CHATS[kind]
    sink.answer = chat.answer
    world.server.watch.secrets |= set(chat.secrets)  # the end of the test looks through files, log and answers
    made = add_channel(world.alice, chat.to(sink.origin))
    assert made["to"]["kind"] == kind
    post = refuse_channel(world)
    (row,) = wait_for_notices(world.server)
    assert (row["status"], row["attempts"], row["last_error"]) == ("succeeded", 1, None)
    (text,) = received_texts(kind, sink)
    title, *lines = text.split("\n")
    assert title == "A post to Bluesky was rejected"
    assert lines[0] == "A post to Alice on Bluesky was rejected. It is not retried."
    assert lines[1].startswith("Why: The account's server did not accept the post.")
    assert lines[2].startswith("What to do: ")
    assert f"{world.server.url}/posts/{post}" in lines[3]
    if kind != "ntfy":  # which has one address, for a tap
        assert f"{world.server.url}/docs/rules/bluesky.record.invalid" in lines[4]
    shown = world.alice.api.get(f"{CHANNELS}/{made['id']}").json()
    assert shown["lastDeliveryAt"]
    assert shown["lastFailureReason"] is None


@CAST
def test_no_name_is_a_command_or_calls_anybody(world: RequestCast, sink: WebhookReceiver, kind: str) -> None:
    sink.answer = CHATS[kind].answer
    add_channel(world.alice, CHATS[kind].to(sink.origin))
    named(world, "@everyone <!channel> *b* [x](http://evil.test) <@U1> `c`\r\n# y " + "long " * 100)
    refuse_channel(world)
    assert [row["status"] for row in wait_for_notices(world.server)] == ["succeeded"]  # whoever is strict has taken it
    body = sink.got[0].body.decode()
    assert "<!channel>" not in body or kind in ("ntfy", "telegram")
    assert "long " * 20 not in body
    assert r"\r" not in body
    if kind != "ntfy":  # which shows text as it is, and knows no mentions
        assert "@everyone" not in body
        assert "@U1" not in body
    if kind == "discord":
        assert r"\\[x\\]\\(http" in body


@pytest.mark.parametrize(
    ("security", "login"), [("none", False), ("starttls", False), ("starttls", True), ("tls", False), ("tls", True)]
)
def test_a_failure_is_told_by_mail(
    make_server: Callable[..., AppServer],
    world_of: Callable[[AppServer], RequestCast],
    tmp_path: Path,
    security: str,
    login: bool,
) -> None:
    with running_mail_server(tmp_path, security, login=login) as room:
        world = world_of(make_server(smtp=room.settings(security, login=login)))
        world.server.watch.secrets.add(PASSWORD)
        add_channel(world.alice, EMAIL)
        refuse_channel(world)
        (mailed,) = room.wait(1)
        (row,) = wait_for_notices(world.server)
    assert (mailed.sender, mailed.to) == (SENDER, ["newsroom@example.org"])
    assert mailed.secured is (security != "none")
    assert mailed.login == (USERNAME if login else None)
    message = mailed.message
    assert message["Subject"] == "[socialpub] A post to Bluesky was rejected"
    assert (message["To"], message["From"]) == ("newsroom@example.org", f"socialpub <{SENDER}>")
    assert message["Message-ID"] == f"<{row['id']}@example.org>"
    assert message["Auto-Submitted"] == "auto-generated"
    assert message["Date"].datetime.timestamp() * 1000 == pytest.approx(row["created_at"], abs=5000)
    assert message.get_content_type() == "text/plain"
    assert mailed.text.startswith("A post to Alice on Bluesky was rejected. It is not retried.\nWhy: ")
    assert f"\n\n{world.server.url}/posts/" in mailed.text
    assert all(len(line) < 998 for line in mailed.content.split(b"\r\n"))
    assert b"\n" not in mailed.content.replace(b"\r\n", b"")
    assert (row["status"], row["last_status_code"]) == ("succeeded", 250)


def test_no_name_begins_another_header(
    make_server: Callable[..., AppServer], world_of: Callable[[AppServer], RequestCast], tmp_path: Path
) -> None:
    with running_mail_server(tmp_path) as room:
        world = world_of(make_server(smtp=room.settings()))
        add_channel(world.alice, EMAIL, events=["token.revoked"])
        named(world, "Ålice\r\nBcc: spy@evil.test\r\n\r\n.\r\nMAIL FROM:<x@evil.test>")
        bad = "Bcc: spy@evil.test"
        broken(world, world.alice.bluesky)
        (mailed,) = room.wait(1)
    assert mailed.to == ["newsroom@example.org"]
    assert set(mailed.message.keys()) == {
        "Subject", "From", "To", "Date", "Message-ID", "Auto-Submitted", "Content-Type", "Content-Transfer-Encoding",
        "MIME-Version",
    }  # fmt: skip
    assert bad in mailed.text  # a name like any other
    assert "Ålice" in mailed.text


def broken(world: RequestCast, account: str) -> None:
    """The account's authorization has ended, by the platform's word."""
    service = world.server.service
    service.write(lambda tx: tokens.mark_revoked(service, tx, account, "The refresh token was refused.")).result()


def test_every_page_that_is_linked_is_there() -> None:
    pages = {route.path for route in ROUTES if route.guard == "page"}
    assert {
        message_texts.HOME_PAGE,
        message_texts.ACCOUNTS_PAGE,
        message_texts.POSTS_PAGE,
        f"{message_texts.POSTS_PAGE}/<post_id:str>",
    } <= pages


# --- One message for one cause ---------------------------------------------------------------------------------------


def test_ten_failures_of_one_cause_make_two_messages(world: RequestCast, slack: WebhookReceiver) -> None:
    on_slack(world.alice, slack)
    for _ in range(10):
        refuse_channel(world)
    assert received_texts("slack", slack) == slack_texts(slack, 1)
    world.server.skip(WINDOW)
    _, more = slack_texts(slack, 2)
    assert more.startswith("A post to Bluesky was rejected (9 more)\n")
    assert re.search(r"\nThis happened 9 more times since \d{4}-\d\d-\d\d \d\d:\d\d UTC\.\n", more)
    assert [(row["count"], bool(row["follows"])) for row in notice_rows(world.server)] == [(1, False), (9, True)]


def slack_texts(sink: WebhookReceiver, count: int) -> list[str]:
    sink.wait(count)
    return received_texts("slack", sink)


def test_the_window_doubles_while_the_cause_lasts_and_ends_with_it(world: RequestCast, slack: WebhookReceiver) -> None:
    on_slack(world.alice, slack)
    refuse_channel(world)
    for count, wait in ((2, WINDOW), (3, 2 * WINDOW), (4, 4 * WINDOW)):
        wait_for_notices(world.server)
        refuse_channel(world)
        *_, row = notice_rows(world.server)
        assert (row["next_attempt_at"] - world.server.clock.now_ms()) / 1000 == pytest.approx(wait, abs=60)
        world.server.skip(wait)
        assert slack_texts(slack, count)[-1].startswith("A post to Bluesky was rejected (1 more)\n")
        assert "This happened once more since" in slack_texts(slack, count)[-1]
    wait_for_notices(world.server)
    world.server.skip(8 * WINDOW)  # nothing came meanwhile: the next is the first of its cause again
    refuse_channel(world)
    assert slack_texts(slack, 5)[-1].startswith("A post to Bluesky was rejected\n")


def test_nobody_waits_for_a_time_of_a_clock_that_was_set_back(world: RequestCast, slack: WebhookReceiver) -> None:
    on_slack(world.alice, slack)
    for _ in range(2):
        refuse_channel(world)
    settled_first(world.server)
    world.server.clock.set_ahead(-10 * 3600)
    for _ in range(2):
        refuse_channel(world)
    assert [text.split("\n")[0] for text in slack_texts(slack, 2)] == ["A post to Bluesky was rejected"] * 2
    assert [(row["count"], bool(row["follows"])) for row in notice_rows(world.server)] == [
        (1, 0),
        (1, 1),
        (1, 0),
        (1, 1),
    ]


def test_no_window_is_longer_than_a_day(
    make_server: Callable[..., AppServer], world_of: Any, slack: WebhookReceiver
) -> None:
    world = world_of(make_server(notifications={"window": "20h"}))
    on_slack(world.alice, slack)
    for _ in range(2):
        refuse_channel(world)
    _, more = notice_rows(world.server)
    assert more["window_ms"] == DAY * 1000


def test_another_cause_is_another_message(world: RequestCast, slack: WebhookReceiver) -> None:
    on_slack(world.alice, slack)
    refuse_channel(world)
    refuse_channel(world, error="status:503")
    refuse_channel(world, error="status:503")  # the platform is down
    refuse_channel(world, world.bob, "status:503")  # for another account too
    told = slack_texts(slack, 2)
    assert [text.split("\n")[0] for text in told] == ["A post to Bluesky was rejected", "A post to Bluesky failed"]
    assert [(row["count"], row["type"]) for row in notice_rows(world.server)] == [
        (1, "post.rejected"),
        (1, "post.failed"),
        (2, "post.failed"),
    ]


def test_a_broken_account_is_one_cause_whatever_fails_by_it(world: RequestCast, slack: WebhookReceiver) -> None:
    on_slack(world.alice, slack)
    bad = world.server.connect(world.alice, "bluesky", "bad")["id"]  # with tokens that the platform does not know
    targets = [{"accountId": bad}]
    for _ in range(4):
        answer = world.alice.api.publish({"targets": targets, "text": "hello"}).json()["results"][0]
        assert answer["error"]["code"] == "platform_auth_failed"
    (first,) = slack_texts(slack, 1)
    assert first.startswith("An account on Bluesky needs attention\n")
    assert "What to do: Reconnect this account." in first
    assert f"\n{world.server.url}/accounts" in first
    world.server.skip(WINDOW)
    _, more = slack_texts(slack, 2)
    assert more.startswith("An account on Bluesky needs attention (4 more)\n")


def test_an_unknown_outcome_says_to_look(world: RequestCast, slack: WebhookReceiver) -> None:
    on_slack(world.alice, slack)
    error = {"code": "platform_unavailable", "rule": "publish.outcome_unknown", "message": "The answer was lost."}
    data = {"id": "1", "batchId": "2", "platform": "bluesky", "accountId": world.alice.bluesky, "error": error}
    more = {"profileId": world.alice.profile, "willRetry": False}
    world.server.service.write(
        lambda tx: events.emit(world.server.service, tx, "post.failed", world.alice.organization, {**data, **more})
    ).result()
    (text,) = slack_texts(slack, 1)
    assert text.startswith("A post to Bluesky has an unknown outcome\n")
    assert "What to do: Check the account on Bluesky, then tell socialpub whether the post is there." in text


def test_what_is_tried_again_is_told_to_nobody(world: RequestCast, slack: WebhookReceiver) -> None:
    on_slack(world.alice, slack, events=["post.failed"])
    faults = world.server.lab.lab.faults
    faults.add([{"fault": "status:503", "operation": PUT}])
    post = world.scheduled()
    world.server.skip(3600)
    with world.server.hurried():
        while ("post.failed", True) not in told_of(world.server, post):
            sleep_briefly()
        faults.clear()
        world.server.skip(60)
        while world.server.rows(Post, id=post)[0]["status"] != "published":
            sleep_briefly()
    assert notice_rows(world.server) == []


def told_of(server: AppServer, post: str) -> list[tuple[str, Any]]:
    return [(type_, data.get("willRetry")) for type_, data in server.events(post)]


# --- Who is told what ------------------------------------------------------------------------------------------------


def test_a_channel_that_names_types_is_told_those_and_one_of_a_batch(
    world: RequestCast, slack: WebhookReceiver
) -> None:
    made = on_slack(world.alice, slack, events=["post.published", "post.published"])
    assert made["events"] == ["post.published"]
    world.post(targets=[world.target(), world.target()])
    refuse_channel(world)
    (text,) = slack_texts(slack, 1)
    assert text.startswith("A post was published\nA post to Alice on Bluesky was published.\nhttp://")
    world.server.skip(WINDOW)
    assert slack_texts(slack, 2)[1].startswith("A post was published (1 more)\n")
    changed = world.alice.api.patch(f"{CHANNELS}/{made['id']}", json={"events": []}).json()
    assert changed["events"] == []
    world.published()
    refuse_channel(world)
    assert slack_texts(slack, 3)[2].startswith("A post to Bluesky was rejected\n")


def test_only_the_organization_and_the_profile_are_told(world: RequestCast) -> None:
    with running_receiver() as alices, running_receiver() as bobs, running_receiver() as charlies:
        for person, sink in ((world.alice, alices), (world.bob, bobs), (world.charlie, charlies)):
            sink.answer = CHATS["slack"].answer
            made = on_slack(person, sink)
            assert made["profileId"] == (world.bob.profile if person is world.bob else None)
        refuse_channel(world, world.bob)
        refuse_channel(world, world.charlie)
        assert [row["status"] for row in wait_for_notices(world.server)] == ["succeeded"] * 3
        assert [len(sink.got) for sink in (alices, bobs, charlies)] == [1, 1, 1]
        assert "Bob on Bluesky" in received_texts("slack", alices)[0]
        assert "Charlie on Bluesky" in received_texts("slack", charlies)[0]
        refuse_channel(world)  # of Alice's profile: Bob's key is bound to another
        wait_for_notices(world.server)
        assert [len(sink.got) for sink in (alices, bobs, charlies)] == [2, 1, 1]


def test_a_profiles_key_has_channels_of_its_own_and_strangers_see_none(
    world: RequestCast, sink: WebhookReceiver
) -> None:
    whole, part = on_slack(world.alice, sink), on_slack(world.bob, sink)
    assert [row["id"] for row in world.bob.api.get(CHANNELS).json()["data"]] == [part["id"]]
    assert [row["id"] for row in world.alice.api.get(CHANNELS).json()["data"]] == [whole["id"], part["id"]]
    assert world.charlie.api.get(CHANNELS).json() == {"data": []}
    for person, other in ((world.bob, whole), (world.charlie, whole), (world.charlie, part)):
        for method, tail, body in (("GET", "", None), ("PATCH", "", {}), ("DELETE", "", None), ("POST", "/test", {})):
            sent = {} if body is None else {"json": body}
            answer = person.api.request(method, f"{CHANNELS}/{other['id']}{tail}", **sent)
            assert answer.status_code == 404, (method, tail)
    assert sink.got == []


def test_paused_publishing_is_notified_at_once_and_the_rest_after_it(
    world: RequestCast, slack: WebhookReceiver
) -> None:
    on_slack(world.alice, slack)
    on_slack(world.charlie, slack)
    server, pauses = world.server, world.server.engine.gate
    server.service.write(lambda tx: instance.pause(server.service, tx, instance.RESTORED)).result()
    pauses.update_now()
    told = slack_texts(slack, 2)
    assert {text.split("\n")[0] for text in told} == {"Publishing is paused"}
    assert "Its database was restored or copied" in told[0]
    assert "socialpub resume" in told[0]
    broken(world, world.alice.bluesky)
    server.skip(60)
    while [row["status"] for row in notice_rows(server)].count("succeeded") < 2:
        sleep_briefly()
    assert {(row["type"], row["status"]) for row in notice_rows(server)} == {
        (PAUSED_TYPE, "succeeded"),
        ("token.revoked", "pending"),
    }
    server.service.write(lambda tx: instance.resume(tx, instance.RESTORED)).result()
    pauses.update_now()
    assert slack_texts(slack, 3)[2].startswith("An account on Bluesky needs attention\n")


def test_a_pause_that_goes_on_is_told_once(world: RequestCast, slack: WebhookReceiver) -> None:
    on_slack(world.alice, slack)
    server = world.server
    with paused(server.service, server.lab.lab):  # the second reason starts no other pause
        server.service.write(lambda tx: instance.pause(server.service, tx, instance.DAMAGED)).result()
    (text,) = slack_texts(slack, 1)
    assert "Its clock cannot be trusted" in text
    assert len(notice_rows(server)) == 1
    server.service.write(lambda tx: instance.resume(tx, instance.CLOCK)).result()


# --- What becomes of it ----------------------------------------------------------------------------------------------


def test_a_receiver_that_is_down_is_tried_eight_times(world: RequestCast, slack: WebhookReceiver) -> None:
    slack.answer = lambda got: 503
    made = on_slack(world.alice, slack)
    refuse_channel(world)
    (row,) = wait_for_notices(world.server)
    assert (row["status"], row["attempts"], row["last_status_code"]) == ("failed", 8, 503)
    assert len(slack.got) == 8
    shown = world.alice.api.get(f"{CHANNELS}/{made['id']}").json()
    assert shown["lastFailureReason"] == "It answered 503."
    assert shown["active"]


@pytest.mark.matrix
@pytest.mark.parametrize("status", [301, 400, 403, 404, 410])
def test_a_refusal_is_final(world: RequestCast, slack: WebhookReceiver, status: int) -> None:
    slack.answer = lambda got: status
    on_slack(world.alice, slack)
    refuse_channel(world)
    (row,) = wait_for_notices(world.server)
    assert (row["status"], row["attempts"], row["last_status_code"]) == ("failed", 1, status)
    assert [got.path for got in slack.got] == [SLACK]  # no redirect is followed


@pytest.mark.matrix
@pytest.mark.parametrize(
    "said",
    [
        ReceiverResponse(429, b"", {"Retry-After": "100"}),
        ReceiverResponse(429, b'{"message": "You are being rate limited.", "retry_after": 99.6, "global": false}'),
        ReceiverResponse(429, b'{"ok": false, "error_code": 429, "parameters": {"retry_after": 100}}'),
        ReceiverResponse(429, b"", {"Retry-After": "99.5"}),
        ReceiverResponse(503, b"", {"Retry-After": "100"}),
    ],
)
def test_whoever_asks_to_be_left_alone_for_a_while_is(
    world: RequestCast, slack: WebhookReceiver, said: ReceiverResponse
) -> None:
    slack.answer = lambda got: said if len(slack.got) == 1 else ReceiverResponse(200, b"ok")
    on_slack(world.alice, slack)
    refuse_channel(world)
    slack.wait(1)
    while notice_rows(world.server)[0]["attempts"] == 0:
        sleep_briefly()
    (row,) = notice_rows(world.server)
    assert row["status"] == "pending"
    assert 100_000 <= row["next_attempt_at"] - row["updated_at"] <= 102_000
    assert [row["status"] for row in wait_for_notices(world.server)] == ["succeeded"]


@pytest.mark.matrix
@pytest.mark.parametrize("asked", ["NaN", "Infinity", "-1e999", "1e999", "true", '"soon"', "-5"])
def test_a_wait_that_is_no_number_of_seconds_is_none(world: RequestCast, slack: WebhookReceiver, asked: str) -> None:
    said = ReceiverResponse(429, b'{"retry_after": %b}' % asked.encode())
    slack.answer = lambda got: said if len(slack.got) == 1 else ReceiverResponse(200, b"ok")
    on_slack(world.alice, slack)
    refuse_channel(world)
    (row,) = wait_for_notices(world.server)
    assert (row["status"], row["attempts"], row["last_status_code"]) == ("succeeded", 2, 200)


def test_a_channel_may_answer_as_much_as_it_likes(world: RequestCast, slack: WebhookReceiver) -> None:
    slack.answer = lambda got: ReceiverResponse(200, b"x" * 100_000)
    on_slack(world.alice, slack)
    refuse_channel(world)
    (row,) = wait_for_notices(world.server)
    assert (row["status"], row["attempts"], row["last_status_code"]) == ("succeeded", 1, 200)


def test_a_mail_server_that_puts_off_and_one_that_refuses(
    make_server: Callable[..., AppServer], world_of: Callable[[AppServer], RequestCast], tmp_path: Path
) -> None:
    with running_mail_server(tmp_path) as room:
        world = world_of(make_server(smtp=room.settings()))
        add_channel(world.alice, EMAIL)
        room.refusal = {EMAIL["address"]: "451 4.7.1 Greylisted, try again"}
        refuse_channel(world)
        while not (row := notice_rows(world.server)[0])["attempts"]:
            sleep_briefly()
        assert (row["status"], row["last_status_code"]) == ("pending", 451)
        room.refusal = {}
        assert [row["status"] for row in wait_for_notices(world.server)] == ["succeeded"]
        room.refusal = {EMAIL["address"]: "550 5.1.1 No such user here"}
        refuse_channel(world, world.alice, "status:503")
        *_, row = wait_for_notices(world.server)
        assert (row["status"], row["attempts"], row["last_status_code"]) == ("failed", 1, 550)
        assert row["last_error"] == "The mail server answered 550."
    assert len(room.got) == 1


def test_a_channel_that_failed_for_five_days_is_switched_off_and_on_again(
    world: RequestCast, slack: WebhookReceiver
) -> None:
    slack.answer = lambda got: 500
    here = f"{CHANNELS}/{on_slack(world.alice, slack)['id']}"
    refuse_channel(world)
    slack.wait(1)
    wait_for_failure(world.alice, here)
    world.server.skip(6 * DAY)
    while world.alice.api.get(here).json()["active"]:
        sleep_briefly()
    slack.answer = CHATS["slack"].answer
    assert world.alice.api.patch(here, json={"active": True}).json()["active"]
    assert [row["status"] for row in wait_for_notices(world.server)] == ["succeeded"]


@pytest.mark.parametrize("path", ["", "/moved"])
def test_the_failures_of_an_earlier_target_do_not_switch_a_channel_off(
    world: RequestCast, slack: WebhookReceiver, path: str
) -> None:
    """The same target given again changes nothing: a script may set it every day."""
    slack.answer = lambda got: 500
    here = f"{CHANNELS}/{on_slack(world.alice, slack)['id']}"
    world.server.clock.stop()  # no second attempt before the days have passed
    refuse_channel(world)
    slack.wait(1)
    wait_for_failure(world.alice, here)
    to = CHATS["slack"].to(slack.origin)
    assert world.alice.api.patch(here, json={"to": to | {"url": f"{to['url']}{path}"}}).status_code == 200
    world.server.skip(6 * DAY)
    slack.wait(2)
    while (row := notice_rows(world.server)[0])["attempts"] < 2:
        sleep_briefly()
    assert (row["status"], world.alice.api.get(here).json()["active"]) == ("pending", path == "/moved")


def test_what_happens_while_a_channel_is_off_or_gone_is_not_told(world: RequestCast, slack: WebhookReceiver) -> None:
    off, gone = on_slack(world.alice, slack), on_slack(world.alice, slack)
    world.alice.api.patch(f"{CHANNELS}/{off['id']}", json={"active": False})
    assert world.alice.api.delete(f"{CHANNELS}/{gone['id']}").json() == {"id": gone["id"], "deleted": True}
    refuse_channel(world)
    assert notice_rows(world.server) == []
    assert world.alice.api.get(f"{CHANNELS}/{gone['id']}").status_code == 404
    (left,) = world.server.rows(NotificationChannel, id=gone["id"])
    assert (left["secret"], left["shown"]) == ("", "{}")


def test_pending_messages_end_with_their_channel(world: RequestCast, slack: WebhookReceiver) -> None:
    slack.answer = lambda got: 500
    made = on_slack(world.alice, slack)
    refuse_channel(world)
    while not [row for row in notice_rows(world.server) if row["attempts"]]:
        sleep_briefly()
    assert world.alice.api.delete(f"{CHANNELS}/{made['id']}").status_code == 200
    (shown,) = world.alice.api.get(TOLD).json()["data"]
    assert (shown["status"], shown["nextAttemptAt"], shown["lastError"]) == ("failed", None, "The channel was deleted.")


def test_what_waits_for_a_channel_that_is_off_is_not_sent(world: RequestCast, slack: WebhookReceiver) -> None:
    slack.answer = lambda got: 503
    channel, outbox = on_slack(world.alice, slack)["id"], notification_outbox.NotificationOutbox()
    refuse_channel(world)
    while notice_rows(world.server)[0]["attempts"] < 1:
        sleep_briefly()
    world.alice.api.patch(f"{CHANNELS}/{channel}", json={"active": False})
    world.server.skip(DAY)
    service = world.server.service
    assert service.read(lambda: outbox.find_due(service, channel, 9, (), is_paused=False)).result().due == ()
    (row,) = notice_rows(world.server)
    assert (row["status"], row["attempts"]) == ("pending", 1)
    slack.answer = CHATS["slack"].answer
    world.alice.api.patch(f"{CHANNELS}/{channel}", json={"active": True})
    assert [row["status"] for row in wait_for_notices(world.server)] == ["succeeded"]


def test_a_pause_and_a_message_that_is_being_sent_hold_back_what_is_due(
    world: RequestCast, slack: WebhookReceiver
) -> None:
    slack.answer = lambda got: 503
    channel, outbox = on_slack(world.alice, slack)["id"], notification_outbox.NotificationOutbox()
    refuse_channel(world)
    while notice_rows(world.server)[0]["attempts"] < 1:
        sleep_briefly()
    world.server.engine.stop()
    world.server.clock.skip(DAY)
    service, number = world.server.service, notice_rows(world.server)[0]["number"]

    def find_due(*excluded: int, is_paused: bool = False) -> list[int]:
        found = service.read(lambda: outbox.find_due(service, channel, 9, excluded, is_paused=is_paused)).result()
        return [task.number for task in found.due]

    assert (find_due(), find_due(number), find_due(is_paused=True)) == ([number], [], [])


def test_a_channel_that_hangs_delays_nobody(world: RequestCast, slack: WebhookReceiver) -> None:
    over = threading.Event()
    with running_receiver(lambda got: 200 if over.wait(30) else 500) as hanging:
        add_channel(world.alice, {"kind": "slack", "url": hanging.url})
        on_slack(world.alice, slack)
        refuse_channel(world)
        hanging.wait(1)
        slack.wait(1)
        refuse_channel(world, error="status:503")
        slack.wait(2)
        assert len(hanging.got) == 1  # one message after another
        over.set()
        hanging.wait(2)
        wait_for_notices(world.server)


def test_what_people_were_told_can_be_read(world: RequestCast, slack: WebhookReceiver) -> None:
    made, bobs = on_slack(world.alice, slack), on_slack(world.bob, slack)
    on_slack(world.charlie, slack)
    refuse_channel(world)
    refuse_channel(world, error="status:503")
    refuse_channel(world, error="status:503")
    refuse_channel(world, world.bob)
    refuse_channel(world, world.charlie)
    while [row["status"] for row in notice_rows(world.server)].count("succeeded") < 5:  # the sixth has more to wait for
        sleep_briefly()
    told = world.alice.api.get(TOLD).json()
    assert [(one["channelId"], one["type"], one["count"]) for one in told["data"]] == [
        (bobs["id"], "post.rejected", 1),
        (made["id"], "post.rejected", 1),
        (made["id"], "post.failed", 1),
        (made["id"], "post.failed", 1),
        (made["id"], "post.rejected", 1),
    ]
    assert told["nextCursor"] is None
    waiting = told["data"][2]
    assert (waiting["title"], waiting["status"], waiting["attemptCount"]) == (
        "A post to Bluesky failed (1 more)",
        "pending",
        0,
    )
    assert waiting["nextAttemptAt"] > waiting["createdAt"]
    assert [one["channelId"] for one in world.bob.api.get(TOLD).json()["data"]] == [bobs["id"]]
    assert world.bob.api.get(TOLD, params={"channelId": made["id"]}).status_code == 404
    first = world.alice.api.get(TOLD, params={"limit": 3, "type": "post.rejected,post.failed"}).json()
    rest = world.alice.api.get(TOLD, params={"cursor": first["nextCursor"]}).json()
    assert [*first["data"], *rest["data"]] == told["data"]
    narrow = {"channelId": made["id"], "status": "pending", "since": world.soon(-3600)}
    assert world.alice.api.get(TOLD, params=narrow).json()["data"] == [waiting]
    assert len(world.charlie.api.get(TOLD).json()["data"]) == 1
    assert error_of(world.charlie.api.get(TOLD, params={"cursor": first["nextCursor"]}))["rule"] == "cursor"


# --- Starts and stops ------------------------------------------------------------------------------------------------


def test_what_is_gathered_outlives_a_restart(world: RequestCast, slack: WebhookReceiver) -> None:
    on_slack(world.alice, slack)
    for _ in range(3):
        refuse_channel(world)
    settled_first(world.server)
    world.server.restart(world.alice, world.bob, world.charlie)
    for _ in range(2):
        refuse_channel(world)
    assert len(slack.got) == 1
    world.server.skip(WINDOW)
    assert slack_texts(slack, 2)[1].startswith("A post to Bluesky was rejected (4 more)\n")
    assert [row["count"] for row in wait_for_notices(world.server)] == [1, 4]


def settled_first(server: AppServer) -> None:
    while notice_rows(server)[0]["status"] != "succeeded":
        sleep_briefly()


def test_what_comes_due_while_the_server_is_down_is_told_at_its_start(
    world: RequestCast, slack: WebhookReceiver
) -> None:
    on_slack(world.alice, slack)
    for _ in range(2):
        refuse_channel(world)
    settled_first(world.server)
    world.server.away(100, world.alice, world.bob, world.charlie)
    assert len(slack.got) == 1
    world.server.stop()
    world.server.clock.skip(WINDOW)
    world.server.start()
    assert slack_texts(slack, 2)[1].startswith("A post to Bluesky was rejected (1 more)\n")


def test_what_a_stop_cuts_off_is_sent_again_as_the_same_message(
    make_server: Callable[..., AppServer], world_of: Callable[[AppServer], RequestCast], tmp_path: Path
) -> None:
    with running_mail_server(tmp_path) as room:
        world = world_of(make_server(smtp=room.settings()))
        add_channel(world.alice, EMAIL)
        room.refusal = {"": "451 4.3.0 Not now"}
        refuse_channel(world)
        while not notice_rows(world.server)[0]["attempts"]:
            sleep_briefly()
        room.refusal = {}
        world.server.restart(world.alice, world.bob, world.charlie)
        (row,) = wait_for_notices(world.server)
        (mailed,) = room.wait(1)
    assert mailed.message["Message-ID"] == f"<{row['id']}@example.org>"


# --- Tests -----------------------------------------------------------------------------------------------------------


@CAST
def test_a_test_answers_what_the_receiver_said(world: RequestCast, sink: WebhookReceiver, kind: str) -> None:
    chat = CHATS[kind]
    sink.answer = chat.answer
    here = f"{CHANNELS}/{add_channel(world.alice, chat.to(sink.origin))['id']}"
    told = world.alice.api.post(f"{here}/test", json={}).json()
    (said,) = received_texts(kind, sink)
    assert told["sentText"].split("\n")[0] == said.split("\n")[0] == "Test message"
    assert (told["delivered"], told["nonRetryable"], told["error"], told["errorName"]) == (True, False, None, None)
    assert told["status"] == (204 if kind == "discord" else 200)
    assert notice_rows(world.server) == []  # it is in no log
    assert [row["verb"] for row in world.server.rows(AuditEntry)][-1:] == [f"POST {CHANNELS}/<channel_id:str>/test"]


@pytest.mark.slow
def test_a_test_of_every_type_has_whole_words(world: RequestCast, slack: WebhookReceiver) -> None:
    here = f"{CHANNELS}/{on_slack(world.alice, slack)['id']}"
    document = world.alice.api.get("/openapi.json").json()
    types = document["components"]["schemas"]["NoticeType"]["enum"]
    assert len(types) == len(EVENTS) + 1
    for type_ in types:
        told = world.alice.api.post(f"{here}/test", json={"type": type_}).json()
        assert told["delivered"], type_
        assert told["sentText"].startswith("Test message: ")
        assert not re.search(r"[{}]|None|null|  ", told["sentText"]), told["sentText"]
    assert len(set(received_texts("slack", slack))) == len(types)


def test_a_test_of_mail(make_server: Callable[..., AppServer], world_of: Any, tmp_path: Path) -> None:
    with running_mail_server(tmp_path) as room:
        world = world_of(make_server(smtp=room.settings()))
        here = f"{CHANNELS}/{add_channel(world.alice, EMAIL)['id']}"
        told = world.alice.api.post(f"{here}/test", json={}).json()
        assert (told["delivered"], told["status"]) == (True, 250)
        assert told["responseBody"] == "2.0.0 Ok: queued as 4F1A"
        room.refusal = {EMAIL["address"]: "550 5.1.1 No such user here"}
        told = world.alice.api.post(f"{here}/test", json={}).json()
    assert (told["delivered"], told["status"], told["nonRetryable"]) == (False, 550, True)
    assert (told["errorName"], told["responseBody"]) == ("smtp_5xx", "5.1.1 No such user here")
    told = world.alice.api.post(f"{here}/test", json={}).json()
    assert (told["status"], told["errorName"], told["nonRetryable"]) == (None, "unreachable", False)


def test_a_receiver_that_repeats_its_address_tells_no_secret(world: RequestCast, slack: WebhookReceiver) -> None:
    slack.answer = lambda got: ReceiverResponse(400, f"no hook at {got.path}".encode())
    world.server.watch.secrets.add(SLACK)
    here = f"{CHANNELS}/{on_slack(world.alice, slack)['id']}"
    told = world.alice.api.post(f"{here}/test", json={}).json()
    assert (told["status"], told["errorName"], told["responseBody"]) == (400, "http_4xx", "no hook at [hidden]")


# --- Asking for one --------------------------------------------------------------------------------------------------


@CAST
def test_inner_address_is_not_called_though_accepted_under_old_settings(
    make_server: Callable[..., AppServer],
    world_of: Callable[[AppServer], RequestCast],
    sink: WebhookReceiver,
    kind: str,
) -> None:
    if kind == "telegram":  # its address is the operator's own setting
        return
    world = world_of(make_server())
    made = add_channel(world.alice, CHATS[kind].to(sink.origin))
    world.server.overrides = {"security": {"allow_private_networks": False}}
    world.server.restart(world.alice, world.bob, world.charlie)
    told = world.alice.api.post(f"{CHANNELS}/{made['id']}/test", json={}).json()
    assert (told["status"], told["nonRetryable"], told["errorName"]) == (None, True, "address")
    assert sink.got == []


def test_a_host_that_the_operator_named_may_be_private_and_plain(
    make_server: Callable[..., AppServer], sink: WebhookReceiver
) -> None:
    server = make_server(security={"allow_private_networks": False}, webhooks={"allowed_hosts": ["127.0.0.1"]})
    sink.answer = CHATS["ntfy"].answer
    alice = server.person("Alice")
    made = add_channel(alice, CHATS["ntfy"].to(sink.origin))
    assert alice.api.post(f"{CHANNELS}/{made['id']}/test", json={}).json()["delivered"]
    elsewhere = {"kind": "ntfy", "url": "http://127.0.0.2", "topic": "a"}
    assert error_of(alice.api.post(CHANNELS, json={"to": elsewhere}))["rule"] == "webhook.url.scheme"


def test_without_a_mail_server_there_is_no_channel_by_mail(world: RequestCast) -> None:
    error = error_of(world.alice.api.post(CHANNELS, json={"to": EMAIL}))
    assert (error["code"], error["rule"]) == ("validation_failed", "notification.email.off")
    assert "smtp.host" in error["remediation"]


def test_an_organization_has_no_more_channels_than_it_may(
    world: RequestCast, sink: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channels, "MAX_PER_ORGANIZATION", 2)
    made = [on_slack(world.alice, sink)["id"] for _ in range(2)]
    answer = world.bob.api.post(CHANNELS, json={"to": CHATS["slack"].to(sink.origin)})
    assert (answer.status_code, error_of(answer)["rule"]) == (409, "notification.channels.max")
    world.alice.api.delete(f"{CHANNELS}/{made[0]}")
    on_slack(world.bob, sink)
    on_slack(world.charlie, sink)


@CAST
def test_what_is_as_good_as_a_password_is_never_shown_again(
    world: RequestCast, sink: WebhookReceiver, kind: str
) -> None:
    chat = CHATS[kind]
    world.server.watch.secrets |= set(chat.secrets)
    to = chat.to(sink.origin)
    headers = {"Idempotency-Key": "once"}
    answers = [world.alice.api.post(CHANNELS, json={"to": to}, headers=headers) for _ in range(2)]
    assert answers[0].text == answers[1].text
    made = answers[0].json()
    assert len(world.server.rows(NotificationChannel)) == 1
    for text in (answers[0].text, world.alice.api.get(CHANNELS).text):
        assert not [secret for secret in chat.secrets if secret in text]
    assert made["to"]["kind"] == kind
    (row,) = world.server.rows(NotificationChannel)
    assert row["secret"].startswith("v1.")


def test_a_name_and_a_password_in_an_address_are_not_shown(world: RequestCast, sink: WebhookReceiver) -> None:
    """Credentials in an address are taken where private networks are, and shown to nobody."""
    world.server.watch.secrets |= {"s3cret-of-the-proxy"}
    url = sink.origin.replace("://", "://ann:s3cret-of-the-proxy@") + "/services/T0/B0/x"
    made = world.alice.api.post(CHANNELS, json={"to": {"kind": "slack", "url": url}}).json()
    assert made["to"]["url"] == f"{sink.origin}/…B0/x"


def test_a_channel_leads_elsewhere_once_it_is_changed(world: RequestCast, sink: WebhookReceiver) -> None:
    made = on_slack(world.alice, sink, description="old")
    here = f"{CHANNELS}/{made['id']}"
    sink.answer = CHATS["discord"].answer
    changed = world.alice.api.patch(here, json={"to": CHATS["discord"].to(sink.origin), "description": "new"}).json()
    assert changed["to"] == {"kind": "discord", "url": f"{sink.origin}/…{DISCORD[-4:]}"}
    assert changed["description"] == "new"
    assert world.alice.api.post(f"{here}/test", json={}).json()["delivered"]
    assert [got.path for got in sink.got] == [DISCORD]
