"""Every change of a receiver while it is called, with each response."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from socialpub.domain import organization_deletion
from socialpub.domain.access import actions
from socialpub.domain.access.actor import build_operator
from socialpub.store.schema.models import Notification, NotificationChannel, WebhookDelivery, WebhookEndpoint
from tests.support.app_server import AppServer, Person, sleep_briefly
from tests.support.chat_servers import CHANNELS
from tests.support.publishing_state import schedule_post
from tests.support.webhook_endpoints import DELIVERIES, ENDPOINTS, list_deliveries, register_endpoint
from tests.support.webhook_receiver import ReceivedCall, WebhookReceiver

CHANGES = ("none", "moved", "turned off", "deleted", "secret rotated", "other events", "organization deleted")
NEW_PATH = "/new"
TIMEOUT_SECONDS = 60  # the longest that can be set: however slow the change is, its call does not time out first
RESPONSES = {204: "succeeded", 404: "failed", 410: "failed", 503: "pending"}


@pytest.fixture
def server(make_server: Callable[..., AppServer]) -> AppServer:
    return make_server(webhooks={"timeout": TIMEOUT_SECONDS})


def change_endpoint(server: AppServer, person: Person, endpoint: str, change: str, new_url: str) -> None:
    path, api = f"{ENDPOINTS}/{endpoint}", person.api
    match change:
        case "moved":
            answer = api.patch(path, json={"url": new_url})
        case "turned off":
            answer = api.patch(path, json={"active": False})
        case "deleted":
            answer = api.delete(path)
        case "secret rotated":
            answer = api.post(f"{path}/rotate-secret")
        case "other events":
            answer = api.patch(path, json={"events": ["post.published"]})
        case "organization deleted":
            who = build_operator(server.service, "test").within(person.organization)
            actions.perform_sync(who, organization_deletion.delete)
            return
        case _:
            return
    assert answer.is_success, answer.text


def expected_end(change: str, response: int, *, is_ended_by_410: bool = True) -> tuple[str, int, bool]:
    """The state of the delivery or message, its calls, and whether the receiver is active."""
    is_gone = change in ("deleted", "organization deleted")
    status = "failed" if is_gone and response != 204 else RESPONSES[response]
    if change == "moved" and response != 204:
        return "succeeded", 2, True
    is_ended = is_gone or change == "turned off" or (is_ended_by_410 and response == 410)
    return status, 1, not is_ended


def build_answer(response: int, changed: threading.Event) -> Callable[[ReceivedCall], int]:
    """What is answered by a receiver that is called before the change and responds after it."""

    def answer(got: ReceivedCall) -> int:
        if got.path == NEW_PATH:
            return 204
        assert changed.wait(TIMEOUT_SECONDS)
        return response

    return answer


@pytest.mark.parametrize("change", CHANGES)
def test_each_change_of_an_endpoint_during_a_call(server: AppServer, sink: WebhookReceiver, change: str) -> None:
    for response in RESPONSES:
        person, changed = server.connected_person(f"P{response}"), threading.Event()
        sink.answer, before = build_answer(response, changed), len(sink.got)
        endpoint = register_endpoint(person, f"{sink.url}/{response}", events=["post.queued"])["id"]
        schedule_post(server, person)
        sink.wait(before + 1)
        change_endpoint(server, person, endpoint, change, sink.origin + NEW_PATH)
        changed.set()
        status, calls, is_active = expected_end(change, response)
        sink.wait(before + calls)
        delivery = wait_for_attempts(server, WebhookDelivery, person, calls)
        assert (delivery["status"], delivery["attempts"]) == (status, calls), response
        paths = [call.path for call in sink.got[before:]]
        assert paths == [f"/hooks/{response}", NEW_PATH][:calls]
        (row,) = server.rows(WebhookEndpoint, id=endpoint)
        assert bool(row["active"]) == is_active, response


@pytest.mark.parametrize("response", [404, 503])
def test_a_redelivery_during_the_last_attempt_gives_all_attempts(
    make_server: Callable[..., AppServer], sink: WebhookReceiver, response: int
) -> None:
    server = make_server(webhooks={"timeout": TIMEOUT_SECONDS, "waits": [0.01]})  # two attempts
    person, redelivered = server.connected_person("Alice"), threading.Event()

    def answer(got: ReceivedCall) -> int:
        if len(sink.got) != 2:
            return 503
        assert redelivered.wait(TIMEOUT_SECONDS)
        return response

    sink.answer = answer
    register_endpoint(person, sink.url, events=["post.queued"])
    schedule_post(server, person)
    sink.wait(2)
    (row,) = list_deliveries(person)
    again = person.api.post(f"{DELIVERIES}/{row['id']}/redeliver")
    assert (again.status_code, again.json()["status"]) == (202, "pending")
    redelivered.set()
    delivery = wait_for_attempts(server, WebhookDelivery, person, 4)
    assert (delivery["status"], delivery["attempts"]) == ("failed", 4)


CHANNEL_CHANGES = ("none", "moved", "turned off", "deleted")


@pytest.mark.parametrize("change", CHANNEL_CHANGES)
def test_each_change_of_a_channel_during_a_call(server: AppServer, sink: WebhookReceiver, change: str) -> None:
    for response in RESPONSES:
        person, changed = server.connected_person(f"P{response}"), threading.Event()
        sink.answer, before = build_answer(response, changed), len(sink.got)
        to = {"kind": "slack", "url": f"{sink.url}/{response}"}
        made = person.api.post(CHANNELS, json={"to": to, "events": ["post.queued"]}).json()
        schedule_post(server, person)
        sink.wait(before + 1)
        path, api = f"{CHANNELS}/{made['id']}", person.api
        if change == "deleted":
            assert api.delete(path).is_success
        elif change != "none":
            moved = {"to": to | {"url": sink.origin + NEW_PATH}}
            assert api.patch(path, json=moved if change == "moved" else {"active": False}).is_success
        changed.set()
        status, calls, is_active = expected_end(change, response, is_ended_by_410=False)
        sink.wait(before + calls)
        message = wait_for_attempts(server, Notification, person, calls)
        assert (message["status"], message["attempts"]) == (status, calls), response
        (row,) = server.rows(NotificationChannel, id=made["id"])
        assert bool(row["active"]) == is_active, response
        if change == "moved":
            assert row["failing_since"] is None


def wait_for_attempts(server: AppServer, table: Any, person: Person, count: int) -> dict[str, Any]:
    while True:
        (row,) = server.rows(table, organization=person.organization)
        if row["attempts"] >= count:
            return row
        sleep_briefly()
