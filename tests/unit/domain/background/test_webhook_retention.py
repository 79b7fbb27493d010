"""Deletion of webhook deliveries and calls with their events, pending ones exempt."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from socialpub.domain.background.retention import HistoryRetention
from socialpub.store.schema.models import Event, WebhookAttempt, WebhookDelivery
from tests.support.app_server import AppServer, Person, sleep_briefly
from tests.support.publishing_state import publish_post
from tests.support.webhook_endpoints import (
    DELIVERIES,
    ENDPOINTS,
    list_deliveries,
    register_endpoint,
    wait_for_deliveries,
)
from tests.support.webhook_receiver import WebhookReceiver

DAY_MS = 86_400_000


@pytest.fixture
def server(make_server: Callable[..., AppServer]) -> AppServer:
    return make_server(retention={"events": "10d"})


def forget(server: AppServer, days: float) -> int:
    return HistoryRetention(server.service).run(server.clock.now_ms() + int(days * DAY_MS))


def test_deliveries_and_their_calls_go_with_their_events(
    server: AppServer, alice: Person, sink: WebhookReceiver
) -> None:
    register_endpoint(alice, sink.url)
    for _ in range(2):
        publish_post(alice)
    old = wait_for_deliveries(server, alice, 4, "succeeded")[-1]["id"]
    assert len(server.rows(WebhookAttempt)) == 4
    forget(server, 9)
    assert len(server.rows(WebhookDelivery)) == len(server.rows(Event)) == 4
    forget(server, 11)
    assert (server.rows(WebhookAttempt), server.rows(WebhookDelivery)) == ([], [])
    assert len(server.rows(Event)) == 1  # the newest, whose number is a place
    assert list_deliveries(alice) == []
    assert alice.api.get(f"{DELIVERIES}/{old}").status_code == 404


def test_what_is_still_to_be_delivered_stays_with_its_event_and_goes_out(
    server: AppServer, alice: Person, sink: WebhookReceiver
) -> None:
    sink.answer = lambda got: 503
    register_endpoint(alice, sink.url, events=["post.validated"])
    publish_post(alice)
    while not server.rows(WebhookAttempt):
        sleep_briefly()
    publish_post(alice)  # whose event is the newest
    before = server.rows(WebhookDelivery)
    assert {row["status"] for row in before} == {"pending"}
    forget(server, 11)
    assert [row["id"] for row in server.rows(WebhookDelivery)] == [row["id"] for row in before]
    assert {row["event"] for row in before} <= {row["number"] for row in server.rows(Event)}
    assert server.rows(WebhookAttempt)
    sink.answer = lambda got: 204
    wait_for_deliveries(server, alice, 2, "succeeded")
    forget(server, 11)
    assert (server.rows(WebhookAttempt), server.rows(WebhookDelivery)) == ([], [])


def test_what_a_deleted_endpoint_never_got_goes_too(server: AppServer, alice: Person, sink: WebhookReceiver) -> None:
    sink.answer = lambda got: 503
    endpoint = register_endpoint(alice, sink.url)["id"]
    publish_post(alice)
    assert alice.api.delete(f"{ENDPOINTS}/{endpoint}").is_success
    forget(server, 11)
    assert server.rows(WebhookDelivery) == []
    assert len(server.rows(Event)) == 1


def test_what_an_inactive_endpoint_never_got_goes_too(server: AppServer, alice: Person, sink: WebhookReceiver) -> None:
    sink.answer = lambda got: 503
    endpoint = register_endpoint(alice, sink.url, events=["post.validated"])["id"]
    publish_post(alice)
    while not server.rows(WebhookAttempt):
        sleep_briefly()
    assert alice.api.patch(f"{ENDPOINTS}/{endpoint}", json={"active": False}).is_success
    forget(server, 9)
    assert len(server.rows(WebhookDelivery)) == 1
    forget(server, 11)
    assert (server.rows(WebhookAttempt), server.rows(WebhookDelivery)) == ([], [])
    assert len(server.rows(Event)) == 1


def test_a_cursor_of_before_reads_on_and_the_next_event_has_a_new_number(
    server: AppServer, alice: Person, sink: WebhookReceiver
) -> None:
    register_endpoint(alice, sink.url)
    publish_post(alice)
    wait_for_deliveries(server, alice, 2, "succeeded")
    cursor = alice.api.get("/v1/events", params={"cursor": "end"}).json()["endCursor"]
    newest = max(row["number"] for row in server.rows(Event))
    forget(server, 11)
    post = publish_post(alice)
    since = alice.api.get("/v1/events", params={"cursor": cursor}).json()["data"]
    assert [(event["type"], event["data"]["id"]) for event in since] == [
        ("post.validated", post),
        ("post.published", post),
    ]
    assert min(event.number for event in server.happened(post=post)) > newest
