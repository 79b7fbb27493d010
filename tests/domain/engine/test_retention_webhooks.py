"""Deliveries and their calls are forgotten with their events; what is still to be made never is."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from socialpub.domain.background.retention import HistoryRetention
from socialpub.store.schema.models import Event, WebhookAttempt, WebhookDelivery
from tests.hooks import DELIVERIES, ENDPOINTS, deliveries, ended, register
from tests.kit import Person, Server, breathe
from tests.sink import Sink, listening

DAY_MS = 86_400_000


@pytest.fixture
def server(make_server: Callable[..., Server]) -> Server:
    return make_server(retention={"events": "10d"})


@pytest.fixture
def sink() -> Iterator[Sink]:
    with listening() as sink:
        yield sink


def publish(person: Person) -> str:
    answer = person.api.publish({"text": "hello", "targets": [{"accountId": person.bluesky}]})
    return str(answer.json()["results"][0]["postId"])


def forget(server: Server, days: float) -> int:
    return HistoryRetention(server.service).look(server.clock.now_ms() + int(days * DAY_MS))


def test_deliveries_and_their_calls_go_with_their_events(server: Server, alice: Person, sink: Sink) -> None:
    register(alice, sink.url)
    for _ in range(2):
        publish(alice)
    old = ended(server, alice, 4, "succeeded")[-1]["id"]
    assert len(server.rows(WebhookAttempt)) == 4
    forget(server, 9)
    assert len(server.rows(WebhookDelivery)) == len(server.rows(Event)) == 4
    forget(server, 11)
    assert (server.rows(WebhookAttempt), server.rows(WebhookDelivery)) == ([], [])
    assert len(server.rows(Event)) == 1  # the newest, whose number is a place
    assert deliveries(alice) == []
    assert alice.api.get(f"{DELIVERIES}/{old}").status_code == 404


def test_what_is_still_to_be_delivered_stays_with_its_event_and_goes_out(
    server: Server, alice: Person, sink: Sink
) -> None:
    sink.answer = lambda got: 503
    register(alice, sink.url, events=["post.validated"])
    publish(alice)
    while not server.rows(WebhookAttempt):
        breathe()
    publish(alice)  # whose event is the newest
    before = server.rows(WebhookDelivery)
    assert {row["status"] for row in before} == {"pending"}
    forget(server, 11)
    assert [row["id"] for row in server.rows(WebhookDelivery)] == [row["id"] for row in before]
    assert {row["event"] for row in before} <= {row["number"] for row in server.rows(Event)}
    assert server.rows(WebhookAttempt)
    sink.answer = lambda got: 204
    ended(server, alice, 2, "succeeded")
    forget(server, 11)
    assert (server.rows(WebhookAttempt), server.rows(WebhookDelivery)) == ([], [])


def test_what_a_deleted_endpoint_never_got_goes_too(server: Server, alice: Person, sink: Sink) -> None:
    sink.answer = lambda got: 503
    endpoint = register(alice, sink.url)["id"]
    publish(alice)
    assert alice.api.delete(f"{ENDPOINTS}/{endpoint}").is_success
    forget(server, 11)
    assert server.rows(WebhookDelivery) == []
    assert len(server.rows(Event)) == 1


def test_a_cursor_of_before_reads_on_and_the_next_event_has_a_new_number(
    server: Server, alice: Person, sink: Sink
) -> None:
    register(alice, sink.url)
    publish(alice)
    ended(server, alice, 2, "succeeded")
    cursor = alice.api.get("/v1/events", params={"cursor": "end"}).json()["endCursor"]
    newest = max(row["number"] for row in server.rows(Event))
    forget(server, 11)
    post = publish(alice)
    since = alice.api.get("/v1/events", params={"cursor": cursor}).json()["data"]
    assert [(event["type"], event["data"]["id"]) for event in since] == [
        ("post.validated", post),
        ("post.published", post),
    ]
    assert min(event.number for event in server.happened(post=post)) > newest
