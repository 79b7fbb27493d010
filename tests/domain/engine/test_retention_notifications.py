"""What people were told is forgotten after its time; what is still to be told is not."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from socialpub.domain.background.retention import HistoryRetention
from socialpub.store.schema.models import Notification
from tests.chats import CHANNELS, add
from tests.kit import Person, Server, breathe
from tests.sink import Sink, listening

DAY_MS = 86_400_000


@pytest.fixture
def server(make_server: Callable[..., Server]) -> Server:
    return make_server(retention={"notifications": "10d"})


@pytest.fixture
def sink() -> Iterator[Sink]:
    with listening() as sink:
        yield sink


def told(server: Server, person: Person, sink: Sink, status: str) -> None:
    """Somebody is told of a post, with that end so far."""
    add(person, {"kind": "slack", "url": sink.url}, events=["post.published"])
    person.api.publish({"text": "hello", "targets": [{"accountId": person.bluesky}]})
    while [(row["status"], row["attempts"]) for row in server.rows(Notification)] != [(status, 1)]:
        breathe()


def forget(server: Server, days: float) -> int:
    return HistoryRetention(server.service).look(server.clock.now_ms() + int(days * DAY_MS))


def test_what_was_told_goes_after_its_time(server: Server, alice: Person, sink: Sink) -> None:
    told(server, alice, sink, "succeeded")
    assert forget(server, 9) == 0
    assert forget(server, 11) == 1
    assert server.rows(Notification) == []


def test_what_is_still_to_be_told_stays_until_its_channel_is_gone(server: Server, alice: Person, sink: Sink) -> None:
    sink.answer = lambda got: 503
    told(server, alice, sink, "pending")
    forget(server, 11)
    assert len(server.rows(Notification)) == 1
    (channel,) = alice.api.get(CHANNELS).json()["data"]
    alice.api.delete(f"{CHANNELS}/{channel['id']}")
    forget(server, 11)
    assert server.rows(Notification) == []
