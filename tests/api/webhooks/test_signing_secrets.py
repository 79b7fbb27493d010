"""Rotation of webhook signing secrets, and receivers that answer 410."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.app_server import sleep_briefly
from tests.support.request_cast import RequestCast
from tests.support.webhook_endpoints import (
    DELIVERIES,
    ENDPOINTS,
    list_deliveries,
    register_endpoint,
    wait_for_deliveries,
)
from tests.support.webhook_receiver import ReceivedCall, WebhookReceiver, sign_body

DAY = 24 * 3600


def knows(secret: str, refusal: int = 401) -> Any:
    """A receiver that knows this secret and the specified header alone."""

    def answer(got: ReceivedCall) -> int:
        return 204 if got.headers["x-service-signature"] == sign_body(secret, got.body) else refusal

    return answer


def exchanged(world: RequestCast, sink: WebhookReceiver) -> tuple[str, str, str]:
    """An endpoint's id, and its secrets before and after the exchange."""
    endpoint = register_endpoint(world.alice, sink.url, events=["post.published"])
    rotated = world.alice.api.post(f"{ENDPOINTS}/{endpoint['id']}/rotate-secret").json()
    return endpoint["id"], endpoint["signingSecret"], rotated["signingSecret"]


def shown(world: RequestCast, endpoint: str) -> dict[str, Any]:
    found: dict[str, Any] = world.alice.api.get(f"{ENDPOINTS}/{endpoint}").json()
    return found


@pytest.mark.parametrize("refusal", [401, 403])
def test_a_receiver_that_knows_the_old_secret_alone_loses_no_event(
    world: RequestCast, sink: WebhookReceiver, refusal: int
) -> None:
    endpoint, old, new = exchanged(world, sink)
    sink.answer = knows(old, refusal)
    for _ in range(2):
        world.published()
    rows = wait_for_deliveries(world.server, world.alice, 2)
    assert [(row["status"], row["attemptCount"], row["lastStatusCode"]) for row in rows] == [("succeeded", 2, 204)] * 2
    attempts = world.alice.api.get(f"{DELIVERIES}/{rows[0]['id']}").json()["attempts"]
    assert [attempt["statusCode"] for attempt in attempts] == [refusal, 204]
    calls = [got for got in sink.got if got.event["id"] == rows[0]["eventId"]]
    assert {attempt["id"] for attempt in attempts} == {got.headers["x-service-delivery-id"] for got in calls}
    first, second = calls
    assert first.headers["x-service-signature"] == sign_body(new, first.body)
    assert first.headers["x-service-signature-previous"] == sign_body(old, first.body)
    assert second.headers["x-service-signature"] == sign_body(old, first.body)
    assert second.headers["x-service-signature-previous"] == sign_body(new, first.body)
    assert second.is_signed(old)
    assert second.is_signed(new)
    assert shown(world, endpoint)["previousSecretDeliveries"] == 2
    assert shown(world, endpoint)["lastFailureReason"] is None


def test_a_receiver_that_knows_the_new_one_is_called_once(world: RequestCast, sink: WebhookReceiver) -> None:
    endpoint, _, new = exchanged(world, sink)
    sink.answer = knows(new)
    world.published()
    wait_for_deliveries(world.server, world.alice, 1, "succeeded")
    assert len(sink.got) == 1
    assert shown(world, endpoint)["previousSecretDeliveries"] == 0


def test_who_refuses_both_is_called_twice_and_no_more(world: RequestCast, sink: WebhookReceiver) -> None:
    endpoint, _, _ = exchanged(world, sink)
    sink.answer = lambda got: 401
    world.published()
    (row,) = wait_for_deliveries(world.server, world.alice, 1, "failed")
    assert (row["attemptCount"], len(sink.got)) == (2, 2)
    assert shown(world, endpoint)["previousSecretDeliveries"] == 0


def test_without_an_exchange_or_after_its_day_a_refusal_is_final(world: RequestCast, sink: WebhookReceiver) -> None:
    sink.answer = lambda got: 401
    register_endpoint(world.alice, sink.url, events=["post.published"])
    world.published()
    wait_for_deliveries(world.server, world.alice, 1, "failed")
    assert len(sink.got) == 1
    world.alice.api.post(f"{ENDPOINTS}/{list_deliveries(world.alice)[0]['endpointId']}/rotate-secret")
    world.server.skip(DAY + 60)
    world.published()
    wait_for_deliveries(world.server, world.alice, 2, "failed")
    assert len(sink.got) == 2


def test_the_next_exchange_begins_to_count_anew(world: RequestCast, sink: WebhookReceiver) -> None:
    endpoint, old, _ = exchanged(world, sink)
    sink.answer = knows(old)
    world.published()
    wait_for_deliveries(world.server, world.alice, 1, "succeeded")
    assert shown(world, endpoint)["previousSecretDeliveries"] == 1
    world.alice.api.post(f"{ENDPOINTS}/{endpoint}/rotate-secret")
    assert shown(world, endpoint)["previousSecretDeliveries"] == 0


def test_a_sample_is_signed_anew_too(world: RequestCast, sink: WebhookReceiver) -> None:
    endpoint, old, _ = exchanged(world, sink)
    sink.answer = knows(old)
    made = world.alice.api.post(f"{ENDPOINTS}/{endpoint}/test", json={}).json()
    assert (made["delivered"], made["status"], len(sink.got)) == (True, 204, 2)


# --- The end of a receiver -----------------------------------------------------------------------------------------


def test_receiver_answering_410_is_disabled_and_its_owner_notified_once(
    world: RequestCast, sink: WebhookReceiver
) -> None:
    gone = register_endpoint(world.alice, f"{sink.url}/gone", events=["post.published"], description="Old bot")
    other = register_endpoint(world.alice, f"{sink.url}/other", events=["webhook.disabled"])
    sink.answer = lambda got: 410 if got.path.endswith("gone") else 204
    world.published()
    while shown(world, gone["id"])["active"]:
        sleep_briefly()
    (told,) = sink.wait(2)[1:]
    assert told.event["type"] == "webhook.disabled"
    assert told.event["data"] == {
        "endpointId": gone["id"],
        "profileId": None,
        "description": "Old bot",
        "reason": "The receiver answered 410 (Gone).",
        "disabledAt": told.event["data"]["disabledAt"],
    }
    wait_for_deliveries(world.server, world.alice, 1, "failed")
    world.published()
    assert [got.path for got in sink.got] == ["/hooks/gone", "/hooks/other"]
    assert shown(world, gone["id"])["lastFailureReason"] == told.event["data"]["reason"]
    assert shown(world, other["id"])["active"]
    sink.answer = lambda got: 204
    world.alice.api.patch(f"{ENDPOINTS}/{gone['id']}", json={"active": True})
    world.published()
    wait_for_deliveries(world.server, world.alice, 2, "succeeded")
    assert len(world.server.happened(type="webhook.disabled")) == 1


def test_of_several_that_find_it_gone_at_once_one_tells_the_owner(world: RequestCast, sink: WebhookReceiver) -> None:
    endpoint = register_endpoint(world.alice, sink.url, events=["post.published"])
    sink.answer = lambda got: 503
    for _ in range(4):
        world.published()
    sink.wait(4)
    sink.answer = lambda got: 410
    wait_for_deliveries(world.server, world.alice, 1, "failed")
    while shown(world, endpoint["id"])["active"]:
        sleep_briefly()
    assert len(world.server.happened(type="webhook.disabled")) == 1
