"""Database cost of webhook deliveries: results that end together share a transaction."""

from __future__ import annotations

import threading

import pytest

from socialpub.domain.delivery import outbox_worker
from socialpub.store.schema.models import WebhookAttempt, WebhookDelivery, WebhookEndpoint
from tests.support.app_server import AppServer, Person, format_instant, sleep_briefly
from tests.support.database_costs import DatabaseCounter
from tests.support.webhook_endpoints import register_endpoint, wait_for_deliveries
from tests.support.webhook_receiver import ReceivedCall, ReceiverResponse, WebhookReceiver

TOGETHER = 8


@pytest.fixture
def gathering(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is under way ends together, however slow the machine is."""
    monkeypatch.setattr(outbox_worker, "GATHER_SECONDS", 60.0)


def schedule(server: AppServer, person: Person, count: int) -> None:
    at = format_instant(server.clock.now_ms() + 86400_000)
    for number in range(count):
        body = {"targets": [{"accountId": person.bluesky}], "text": f"hello {number}", "scheduledAt": at}
        assert person.api.publish(body).status_code == 202


@pytest.mark.usefixtures("gathering")
def test_eight_delivery_results_are_one_transaction_of_three_statements(
    counting: DatabaseCounter, server: AppServer, alice: Person, sink: WebhookReceiver
) -> None:
    over = threading.Event()
    sink.answer = lambda got: 204 if over.wait(60) else 500
    register_endpoint(alice, sink.url, events=["post.queued"])
    schedule(server, alice, TOGETHER)
    sink.wait(TOGETHER)
    with counting.while_() as done:
        over.set()
        while any(row["status"] == "pending" for row in server.rows(WebhookDelivery)):
            sleep_briefly()
    written = [text.split() for text in done.unasked.within if "webhook_" in text]
    assert [words[:3] for words in written if words[0] != "SELECT"] == [
        ["UPDATE", "webhook_delivery", "SET"],
        ["INSERT", "INTO", "webhook_attempt"],
        ["UPDATE", "webhook_endpoint", "SET"],
    ], done
    assert (len(server.rows(WebhookAttempt)), len(sink.got)) == (TOGETHER, TOGETHER)


@pytest.mark.usefixtures("gathering")
def test_each_of_those_that_end_together_has_an_end_of_its_own(
    server: AppServer, alice: Person, sink: WebhookReceiver
) -> None:
    over, answers = (
        threading.Event(),
        [ReceiverResponse(200, b"a\0b"), ReceiverResponse(404, "nö".encode()), ReceiverResponse(200, b'"\xff')],
    )
    said: dict[str, ReceiverResponse] = {}

    def answer(got: ReceivedCall) -> ReceiverResponse:
        said[got.event["id"]] = mine = answers[len(said)]
        return mine if over.wait(60) else ReceiverResponse(500)

    sink.answer = answer
    register_endpoint(alice, sink.url, events=["post.queued"])
    for count in range(1, len(answers) + 1):
        schedule(server, alice, 1)
        sink.wait(count)
    over.set()
    told = {row["id"]: row for row in wait_for_deliveries(server, alice, len(answers))}
    attempts = {row["delivery"]: row for row in server.rows(WebhookAttempt)}
    assert len(attempts) == len(answers)
    for row in server.rows(WebhookDelivery):
        shown, attempt = told[row["id"]], attempts[row["number"]]
        answered = said[shown["eventId"]]
        state, error = ("succeeded", None) if answered.status == 200 else ("failed", "It answered 404.")
        assert (shown["status"], shown["lastStatusCode"], shown["lastError"]) == (state, answered.status, error)
        assert (attempt["status_code"], attempt["error"]) == (answered.status, error)
        assert attempt["response_body"] == answered.body.decode("utf-8", "replace")
        assert (shown["attemptCount"], shown["nextAttemptAt"]) == (1, None)
    (endpoint,) = server.rows(WebhookEndpoint)
    assert endpoint["active"]
    assert endpoint["last_delivery_at"] is not None
