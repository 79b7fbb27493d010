"""Receiver responses: any 2xx ends a delivery, and Retry-After delays the next attempt."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from email.utils import formatdate

import pytest

from socialpub.domain.delivery.attempts import RESPONSE_BYTES_MAX, RETRY_AFTER_MAX
from socialpub.store.schema.models import WebhookDelivery
from tests.support.app_server import AppServer, sleep_briefly
from tests.support.odd_responses import ODD_RESPONSES, OddServer
from tests.support.request_cast import RequestCast
from tests.support.webhook_endpoints import DELIVERIES, register_endpoint, wait_for_deliveries
from tests.support.webhook_receiver import ReceivedCall, ReceiverResponse, WebhookReceiver

BODY = b'{"received": true}'


@pytest.mark.slow
def test_every_odd_2xx_is_one_delivery(make_server: Callable[..., AppServer]) -> None:
    server, receiver = make_server(webhooks={"timeout": 1.0}), OddServer(lambda _: (200, {}, BODY))
    alice = server.connected_person("Alice")
    names = {
        register_endpoint(alice, receiver.url(odd), events=["post.published"])["id"]: (odd.name, odd.status or 200)
        for odd in ODD_RESPONSES
    }
    alice.api.publish({"targets": [{"accountId": alice.bluesky}], "text": "hello"})
    rows = wait_for_deliveries(server, alice, len(ODD_RESPONSES))
    receiver.close()
    told = {names[row["endpointId"]][0]: (row["status"], row["attemptCount"], row["lastError"]) for row in rows}
    assert told == {odd.name: ("succeeded", 1, None) for odd in ODD_RESPONSES}
    statuses = {row["endpointId"]: row["lastStatusCode"] for row in rows}
    assert statuses == {endpoint: status for endpoint, (_, status) in names.items()}
    called = Counter(request.split()[1] for request in receiver.requests)
    assert set(called.values()) == {1}
    assert len(called) == len(ODD_RESPONSES)


def test_of_an_answer_two_kibibytes_are_kept(world: RequestCast, sink: WebhookReceiver) -> None:
    def answer(got: ReceivedCall) -> ReceiverResponse:
        status, size = map(int, got.path.split("/")[-2:])
        return ReceiverResponse(status, b"x" * size)

    sink.answer = answer
    sizes = (RESPONSE_BYTES_MAX - 1, RESPONSE_BYTES_MAX, RESPONSE_BYTES_MAX + 1, 100_000)
    cases = list(itertools.product((200, 404), sizes))
    for status, size in cases:
        register_endpoint(world.alice, f"{sink.url}/{status}/{size}", events=["post.published"])
    world.published()
    kept = []
    for row in wait_for_deliveries(world.server, world.alice, len(cases)):
        (attempt,) = world.alice.api.get(f"{DELIVERIES}/{row['id']}").json()["attempts"]
        kept.append((row["lastStatusCode"], attempt["responseBody"]))
    assert sorted(kept) == sorted((status, "x" * min(size, RESPONSE_BYTES_MAX)) for status, size in cases)


# --- Retry-After ---------------------------------------------------------------------------------------------------


def waited(world: RequestCast, sink: WebhookReceiver, first: ReceiverResponse) -> float:
    """Seconds from the end of a first attempt, which was answered like this, to the time of the second."""
    sink.answer = lambda got: first if len(sink.got) == 1 else ReceiverResponse(204)
    register_endpoint(world.alice, sink.url, events=["post.published"])
    now = world.server.clock.stop()
    world.published()
    while not (row := world.server.rows(WebhookDelivery)[0])["attempts"]:
        sleep_briefly()
    assert row["status"] == "pending"
    wait_for_deliveries(world.server, world.alice, 1, "succeeded")
    assert len(sink.got) == 2
    return float((row["next_attempt_at"] - now) / 1000)


@pytest.mark.matrix
@pytest.mark.parametrize("status", [429, 500, 503])
@pytest.mark.parametrize(
    ("form", "least"),
    [
        (lambda now: "600", 600),
        (lambda now: "600.5", 601),
        (lambda now: formatdate(now + 600, usegmt=True), 600),
        (lambda now: "999999", RETRY_AFTER_MAX),
    ],
    ids=["seconds", "fraction", "date", "far"],
)
def test_the_receiver_says_when_it_is_tried_again(
    world: RequestCast, sink: WebhookReceiver, status: int, form: Callable[[float], str], least: int
) -> None:
    now = world.server.clock.now_ms() // 1000
    wait = waited(world, sink, ReceiverResponse(status, b"", {"Retry-After": form(now)}))
    assert least - 2 <= wait <= least  # the clock stands a moment after it was read


@pytest.mark.parametrize("asked", ["0", "-5", "soon", "Thu, 26 Nov 1998 08:10:00 GMT"])
def test_what_it_asks_for_shortens_no_wait(world: RequestCast, sink: WebhookReceiver, asked: str) -> None:
    assert 5 <= waited(world, sink, ReceiverResponse(429, b"", {"Retry-After": asked})) <= 5.5


def test_there_are_eight_attempts_however_long_it_asks_to_wait(world: RequestCast, sink: WebhookReceiver) -> None:
    sink.answer = lambda got: ReceiverResponse(429, b"", {"Retry-After": "1800"})
    register_endpoint(world.alice, sink.url, events=["post.published"])
    world.published()
    (row,) = wait_for_deliveries(world.server, world.alice, 1)
    assert (row["status"], row["attemptCount"], row["lastStatusCode"], len(sink.got)) == ("failed", 8, 429, 8)
