"""Deletion of old notifications, delivered ones only."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from socialpub.domain.background.retention import HistoryRetention
from socialpub.store.schema.models import Notification
from tests.support.app_server import AppServer, Person, sleep_briefly
from tests.support.chat_servers import CHANNELS, add_channel
from tests.support.webhook_receiver import WebhookReceiver

DAY_MS = 86_400_000


@pytest.fixture
def server(make_server: Callable[..., AppServer]) -> AppServer:
    return make_server(retention={"notifications": "10d"})


def told(server: AppServer, person: Person, sink: WebhookReceiver, status: str) -> None:
    """Somebody is told of a post, with that end so far."""
    add_channel(person, {"kind": "slack", "url": sink.url}, events=["post.published"])
    person.api.publish({"text": "hello", "targets": [{"accountId": person.bluesky}]})
    while [(row["status"], row["attempts"]) for row in server.rows(Notification)] != [(status, 1)]:
        sleep_briefly()


def forget(server: AppServer, days: float) -> int:
    return HistoryRetention(server.service).run(server.clock.now_ms() + int(days * DAY_MS))


def test_what_was_told_goes_after_its_time(server: AppServer, alice: Person, sink: WebhookReceiver) -> None:
    told(server, alice, sink, "succeeded")
    assert forget(server, 9) == 0
    assert forget(server, 11) == 1
    assert server.rows(Notification) == []


def test_what_is_still_to_be_told_stays_until_its_channel_is_gone(
    server: AppServer, alice: Person, sink: WebhookReceiver
) -> None:
    sink.answer = lambda got: 503
    told(server, alice, sink, "pending")
    forget(server, 11)
    assert len(server.rows(Notification)) == 1
    (channel,) = alice.api.get(CHANNELS).json()["data"]
    alice.api.delete(f"{CHANNELS}/{channel['id']}")
    forget(server, 11)
    assert server.rows(Notification) == []
