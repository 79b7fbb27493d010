"""Webhook endpoints: event types, delivery, retries, redelivery and disabling."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from socialpub.domain.delivery.webhooks import deliveries, endpoints, webhook_outbox
from socialpub.domain.schemas.events import EVENTS
from socialpub.store.engine import sql
from socialpub.store.queries import webhooks as statements
from socialpub.store.schema.models import (
    Notification,
    NotificationChannel,
    WebhookAttempt,
    WebhookDelivery,
    WebhookEndpoint,
)
from tests.support.app_server import AppServer, error_of, sleep_briefly, unchanged
from tests.support.ports import unused_address
from tests.support.publishing_state import publish_post
from tests.support.request_cast import RequestCast
from tests.support.webhook_endpoints import (
    DELIVERIES,
    ENDPOINTS,
    list_deliveries,
    register_endpoint,
    wait_for_deliveries,
    wait_for_failure,
)
from tests.support.webhook_receiver import ReceivedCall, WebhookReceiver

JSON_TYPE = "application/json"
WAITS = (5, 10, 20, 40, 80, 160, 320)


# --- What is sent ------------------------------------------------------------------------------------------------


def test_what_happens_is_sent_signed_and_told(world: RequestCast, sink: WebhookReceiver) -> None:
    endpoint = register_endpoint(world.alice, sink.url)
    post = world.published()
    got = sink.wait(2)
    assert [call.event["type"] for call in got] == ["post.validated", "post.published"]
    assert {call.event["data"]["id"] for call in got} == {post}
    assert all(call.is_signed(endpoint["signingSecret"]) for call in got)
    listed = world.alice.api.get("/v1/events").json()["data"]
    assert [call.event for call in got] == listed
    rows = wait_for_deliveries(world.server, world.alice, 2)
    assert {row["eventId"] for row in rows} == {event["id"] for event in listed}
    assert {row["status"] for row in rows} == {"succeeded"}
    assert {row["lastStatusCode"] for row in rows} == {204}
    shown = world.alice.api.get(f"{ENDPOINTS}/{endpoint['id']}").json()
    assert shown["lastDeliveryAt"] is not None
    assert shown["lastFailureReason"] is None
    assert "signingSecret" not in shown


def test_the_headers_name_the_event_the_call_and_the_request(world: RequestCast, sink: WebhookReceiver) -> None:
    register_endpoint(world.alice, sink.url)
    answer = world.post()
    for call in sink.wait(2):
        assert call.headers["content-type"] == "application/json"
        assert call.headers["x-service-event"] == call.event["type"]
        assert call.headers["x-service-event-id"] == call.event["id"] == call.headers["webhook-id"]
        assert call.headers["x-service-delivery-id"].startswith("dlv_")
        assert call.headers["x-service-request-id"] == answer.headers["x-request-id"]
    ids = [call.headers["x-service-delivery-id"] for call in sink.got]
    assert len(set(ids)) == 2
    told = {row["id"] for row in world.server.rows(WebhookAttempt)}
    wait_for_deliveries(world.server, world.alice, 2)
    assert set(ids) == told | {row["id"] for row in world.server.rows(WebhookAttempt)}


def test_the_prefix_of_the_headers_is_a_setting(make_server: Callable[..., AppServer], sink: WebhookReceiver) -> None:
    server = make_server(webhooks={"header_prefix": "X-Acme"})
    alice = server.connected_person("Alice")
    register_endpoint(alice, sink.url)
    alice.api.publish({"targets": [{"accountId": alice.bluesky}], "text": "hello"})
    (call, *_) = sink.wait(2)
    assert call.headers["x-acme-event-id"] == call.event["id"]
    assert not [name for name in call.headers if name.startswith("x-service")]


def test_only_the_types_that_are_asked_for(world: RequestCast, sink: WebhookReceiver) -> None:
    endpoint = register_endpoint(world.alice, sink.url, events=["post.published"])
    world.published()
    assert [call.event["type"] for call in sink.wait(1)] == ["post.published"]
    everything = world.alice.api.patch(f"{ENDPOINTS}/{endpoint['id']}", json={"events": []}).json()
    assert everything["events"] == []
    world.published()
    assert sorted(call.event["type"] for call in sink.wait(3)[1:]) == ["post.published", "post.validated"]


def test_events_go_to_their_organization_and_profile_alone(world: RequestCast, sink: WebhookReceiver) -> None:
    for person in (world.alice, world.bob, world.charlie):
        register_endpoint(person, f"{sink.url}/{person.name}")
    for person in (world.alice, world.bob, world.charlie):
        person.api.publish({"targets": [{"accountId": person.bluesky}], "text": person.name})
    expected = [
        ("/hooks/Alice", world.alice.profile),  # the whole organization
        ("/hooks/Alice", world.bob.profile),
        ("/hooks/Bob", world.bob.profile),  # his profile alone
        ("/hooks/Charlie", world.charlie.profile),
    ]
    wait_for_deliveries(world.server, world.alice, 8)
    told = sorted((call.path, call.event["data"]["profileId"]) for call in sink.got)
    assert told == sorted(expected * 2)  # each post is validated and published


def test_one_post_is_told_in_order_while_nothing_is_tried_again(world: RequestCast, sink: WebhookReceiver) -> None:
    first = threading.Event()

    def answer(got: ReceivedCall) -> int:
        if got.event["type"] == "post.validated":
            assert first.wait(30)
        return 200

    sink.answer = answer
    register_endpoint(world.alice, sink.url)
    posts = [world.published() for _ in range(3)]
    assert {call.event["type"] for call in sink.wait(3)} == {"post.validated"}  # the posts do not wait for each other
    first.set()
    sink.wait(6)
    for post in posts:
        assert [call.event["type"] for call in sink.got if call.event["data"]["id"] == post] == [
            "post.validated",
            "post.published",
        ]


# --- What becomes of it --------------------------------------------------------------------------------------------


def test_a_receiver_that_is_down_is_tried_eight_times_at_the_right_times(
    world: RequestCast, sink: WebhookReceiver
) -> None:
    sink.answer = lambda got: 503
    register_endpoint(world.alice, sink.url, events=["post.published"])
    world.published()
    (row,) = wait_for_deliveries(world.server, world.alice, 1)
    assert row["status"] == "failed"
    assert row["attemptCount"] == 8 == len(sink.got)
    assert row["nextAttemptAt"] is None
    assert row["lastStatusCode"] == 503
    assert len({call.headers["x-service-event-id"] for call in sink.got}) == 1
    assert len({call.headers["x-service-delivery-id"] for call in sink.got}) == 8
    attempts = sorted(world.server.rows(WebhookAttempt), key=lambda attempt: attempt["started_at"])
    gaps = [(b["started_at"] - a["started_at"]) / 1000 for a, b in zip(attempts, attempts[1:], strict=False)]
    for gap, wait in zip(gaps, WAITS, strict=True):
        assert gap >= wait
    detail = world.alice.api.get(f"{DELIVERIES}/{row['id']}").json()
    assert [attempt["statusCode"] for attempt in detail["attempts"]] == [503] * 8
    assert detail["attempts"][0]["responseBody"] == "status 503"
    assert detail["event"] == sink.got[0].event


def test_4xx_and_3xx_are_final_and_redirects_are_not_followed(world: RequestCast, sink: WebhookReceiver) -> None:
    statuses = [400, 404, 408, 410, 425, 301, 307]
    sink.answer = lambda got: int(got.path.rpartition("/")[2])
    for status in statuses:
        register_endpoint(world.alice, f"{sink.url}/{status}", events=["post.published"])
    world.published()
    rows = wait_for_deliveries(world.server, world.alice, len(statuses))
    ended = {(row["status"], row["attemptCount"], row["lastStatusCode"]) for row in rows}
    assert ended == {("failed", 1, status) for status in statuses}
    assert sorted(call.path for call in sink.got) == sorted(f"/hooks/{status}" for status in statuses)


def test_a_delivery_that_comes_through_later_ends_the_failure(world: RequestCast, sink: WebhookReceiver) -> None:
    sink.answer = lambda got: 500 if len(sink.got) < 3 else 200
    endpoint = register_endpoint(world.alice, sink.url, events=["post.published"])
    world.published()
    (row,) = wait_for_deliveries(world.server, world.alice, 1)
    assert (row["status"], row["attemptCount"]) == ("succeeded", 3)
    assert world.alice.api.get(f"{ENDPOINTS}/{endpoint['id']}").json()["lastFailureReason"] is None


def test_one_post_and_a_thousand_failed_deliveries_are_redelivered_by_id(
    world: RequestCast, sink: WebhookReceiver
) -> None:
    sink.answer = lambda got: 404
    endpoint = register_endpoint(world.alice, sink.url, events=["post.published"])
    began = world.soon(0)
    for _ in range(3):
        world.published()
    failed = wait_for_deliveries(world.server, world.alice, 3, "failed")
    sink.answer = lambda got: 200
    one = world.alice.api.post(f"{DELIVERIES}/{failed[0]['id']}/redeliver")
    assert (one.status_code, one.json()["status"]) == (202, "pending")
    wait_for_deliveries(world.server, world.alice, 1, "succeeded")
    again = world.alice.api.post(f"{ENDPOINTS}/{endpoint['id']}/redeliver", json={"since": began})
    assert (again.status_code, again.json()) == (202, {"count": 2})
    wait_for_deliveries(world.server, world.alice, 3, "succeeded")
    ids = [call.headers["x-service-event-id"] for call in sink.got]
    assert sorted(ids[:3]) == sorted(ids[3:])


def fail_deliveries(world: RequestCast, sink: WebhookReceiver, count: int) -> str:
    """The endpoint of so many deliveries that failed."""
    sink.answer = lambda got: 404
    endpoint = register_endpoint(world.alice, sink.url, events=["post.published"])
    for _ in range(count):
        world.published()
    wait_for_deliveries(world.server, world.alice, count, "failed")
    sink.answer = lambda got: 200
    return f"{ENDPOINTS}/{endpoint['id']}"


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_many_are_redelivered_in_batches(
    world: RequestCast, sink: WebhookReceiver, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(deliveries, "REDELIVER_BATCH", 2)
    began = world.soon(0)
    endpoint, sizes, resend = fail_deliveries(world, sink, count), [], sql.fetch_all

    def fetch_all(text: str, params: Any = ()) -> Any:
        found = resend(text, params)
        if text == statements.RESEND_BATCH:
            sizes.append(len(found))
        return found

    monkeypatch.setattr(sql, "fetch_all", fetch_all)
    again = world.alice.api.post(f"{endpoint}/redeliver", json={"since": began})
    assert (again.status_code, again.json()) == (202, {"count": count})
    wait_for_deliveries(world.server, world.alice, count, "succeeded")
    wait_for_jobs(world)
    assert [row["attempts"] for row in world.server.rows(WebhookDelivery)] == [2] * count
    assert (sum(sizes), max(sizes) <= 2) == (count, True)


@pytest.mark.parametrize("response", [200, 404])
def test_a_redelivery_that_a_stop_cuts_off_goes_on_after_the_start(
    world: RequestCast, sink: WebhookReceiver, monkeypatch: pytest.MonkeyPatch, response: int
) -> None:
    monkeypatch.setattr(deliveries, "REDELIVER_BATCH", 2)
    server, began, endpoint, later = world.server, world.soon(0), fail_deliveries(world, sink, 5), threading.Event()
    sink.answer = lambda got: response if later.wait(30) else 500
    with monkeypatch.context() as patched:
        patched.setattr(server.service.jobs, "paused", lambda: ("redeliver",))
        assert world.alice.api.post(f"{endpoint}/redeliver", json={"since": began}).json() == {"count": 5}
        sink.wait(5 + 2)
        server.clock.skip(1)  # a clock that stands still could not tell what failed before from what failed again
        later.set()
        while sorted(row["attempts"] for row in server.rows(WebhookDelivery)) != [1, 1, 1, 2, 2]:
            sleep_briefly()
        server.stop()
    server.start()
    sink.wait(5 + 5)
    wait_for_jobs(world)
    while {row["status"] for row in server.rows(WebhookDelivery)} != {"succeeded" if response == 200 else "failed"}:
        sleep_briefly()
    assert [row["attempts"] for row in server.rows(WebhookDelivery)] == [2] * 5


def test_the_rest_of_a_redelivery_ends_with_its_endpoint(
    world: RequestCast, sink: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliveries, "REDELIVER_BATCH", 2)
    began, endpoint, jobs = world.soon(0), fail_deliveries(world, sink, 5), world.server.service.jobs
    with monkeypatch.context() as patched:
        patched.setattr(jobs, "paused", lambda: ("redeliver",))
        assert world.alice.api.post(f"{endpoint}/redeliver", json={"since": began}).json() == {"count": 5}
        sink.wait(5 + 2)
        assert world.alice.api.delete(endpoint).is_success
    jobs.wakeup.wake()
    wait_for_jobs(world)
    assert "pending" not in {row["status"] for row in world.server.rows(WebhookDelivery)}
    assert len(sink.got) == 5 + 2


def wait_for_jobs(world: RequestCast) -> None:
    while world.server.jobs():
        sleep_briefly()


def test_a_delivery_that_waits_is_redelivered_at_once(world: RequestCast, sink: WebhookReceiver) -> None:
    sink.answer = lambda got: 500
    register_endpoint(world.alice, sink.url, events=["post.published"])
    world.published()
    while (row := world.server.rows(WebhookDelivery)[0])["tries"] < 5:  # the next wait is 80 s
        world.server.skip(max(0, row["next_attempt_at"] - world.server.clock.now_ms()) / 1000)
        sleep_briefly()
    sink.answer = lambda got: 200
    again = world.alice.api.post(f"{DELIVERIES}/{row['id']}/redeliver")
    assert (again.status_code, again.json()["status"]) == (202, "pending")
    assert again.json()["nextAttemptAt"] <= world.soon(0)
    sink.wait(6)
    wait_for_deliveries(world.server, world.alice, 1, "succeeded")
    assert [row["tries"] for row in world.server.rows(WebhookDelivery)] == [1], "a full set of attempts"


def test_endpoint_failing_for_five_days_is_disabled_and_reenabled(world: RequestCast, sink: WebhookReceiver) -> None:
    sink.answer = lambda got: 500
    endpoint = register_endpoint(world.alice, sink.url, events=["post.published"])
    world.published()
    sink.wait(1)
    wait_for_failure(world.alice, f"{ENDPOINTS}/{endpoint['id']}")
    world.server.skip(6 * 24 * 3600)
    sink.wait(2)
    while world.alice.api.get(f"{ENDPOINTS}/{endpoint['id']}").json()["active"]:
        sleep_briefly()
    (row,) = list_deliveries(world.alice)
    assert row["status"] == "pending"  # it was accepted: it goes out once somebody has looked
    sink.answer = lambda got: 200
    on = world.alice.api.patch(f"{ENDPOINTS}/{endpoint['id']}", json={"active": True}).json()
    assert on["active"]
    wait_for_deliveries(world.server, world.alice, 1, "succeeded")


def test_days_in_which_no_server_ran_disable_no_receiver(world: RequestCast, sink: WebhookReceiver) -> None:
    """Two failed calls, one before and one after, were five days of failures."""
    sink.answer = lambda got: 500
    register_endpoint(world.alice, sink.url, events=["post.published"])
    slack = {"kind": "slack", "url": f"{sink.origin}/services/a-path-of-a-test"}
    channel = {"to": slack, "events": ["post.published"]}
    assert world.alice.api.post("/v1/notification-channels", json=channel).status_code == 201
    world.server.clock.stop()  # no second attempt before the days have passed
    world.published()
    sink.wait(2)
    while not all(row["failing_since"] for table in RECEIVERS for row in world.server.rows(table)):
        sleep_briefly()
    world.server.stop()
    world.server.clock.skip(6 * 24 * 3600)
    world.server.start()
    sink.wait(4)
    while {row["attempts"] for table in OUTBOXES for row in world.server.rows(table)} != {2}:
        sleep_briefly()
    assert [row["active"] for table in RECEIVERS for row in world.server.rows(table)] == [1, 1]


RECEIVERS = (WebhookEndpoint, NotificationChannel)
OUTBOXES = (WebhookDelivery, Notification)


@pytest.mark.parametrize("path", ["", "/moved"])
def test_the_failures_of_an_earlier_url_do_not_disable_an_endpoint(
    world: RequestCast, sink: WebhookReceiver, path: str
) -> None:
    """The same URL given again changes nothing: a script may set it every day."""
    sink.answer = lambda got: 500
    here = f"{ENDPOINTS}/{register_endpoint(world.alice, sink.url, events=['post.published'])['id']}"
    world.server.clock.stop()  # no second attempt before the days have passed
    world.published()
    sink.wait(1)
    wait_for_failure(world.alice, here)
    assert world.alice.api.patch(here, json={"url": f"{sink.url}{path}"}).status_code == 200
    world.server.skip(6 * 24 * 3600)
    sink.wait(2)
    while (row := world.server.rows(WebhookDelivery)[0])["tries"] < 2:
        sleep_briefly()
    assert (row["status"], world.alice.api.get(here).json()["active"]) == ("pending", path == "/moved")


def test_what_happens_while_an_endpoint_is_off_or_gone_is_not_sent(world: RequestCast, sink: WebhookReceiver) -> None:
    off, gone = (register_endpoint(world.alice, f"{sink.url}/{name}") for name in ("off", "gone"))
    world.alice.api.patch(f"{ENDPOINTS}/{off['id']}", json={"active": False})
    assert world.alice.api.delete(f"{ENDPOINTS}/{gone['id']}").json() == {"id": gone["id"], "deleted": True}
    world.published()
    assert world.server.rows(WebhookDelivery) == []
    assert world.alice.api.get(f"{ENDPOINTS}/{gone['id']}").status_code == 404
    assert [row["id"] for row in world.alice.api.get(ENDPOINTS).json()["data"]] == [off["id"]]


@pytest.mark.parametrize("is_called", [False, True])
def test_pending_deliveries_end_with_their_endpoint(world: RequestCast, sink: WebhookReceiver, is_called: bool) -> None:
    """Also one that is being sent when the endpoint is deleted."""
    deleted = threading.Event()
    sink.answer = lambda got: 500 if deleted.wait(30 if is_called else 0) else 503
    endpoint = register_endpoint(world.alice, sink.url, events=["post.published"])
    world.published()
    sink.wait(1)
    while not (is_called or world.server.rows(WebhookDelivery)[0]["tries"]):
        sleep_briefly()
    assert world.alice.api.delete(f"{ENDPOINTS}/{endpoint['id']}").status_code == 200
    deleted.set()
    while (row := world.server.rows(WebhookDelivery)[0])["tries"] == 0:
        sleep_briefly()
    assert (row["status"], row["next_attempt_at"]) == ("failed", None)
    assert list_deliveries(world.alice, status="pending") == []
    (shown,) = list_deliveries(world.alice, status="failed")
    assert shown["lastError"] == "The endpoint was deleted."
    with unchanged(world.server):
        again = world.alice.api.post(f"{DELIVERIES}/{shown['id']}/redeliver")
    assert again.status_code == 404


@pytest.mark.slow
def test_a_pause_holds_deliveries_back_too(world: RequestCast, sink: WebhookReceiver) -> None:
    register_endpoint(world.alice, sink.url)
    world.server.engine.gate.reason = "restored"
    world.scheduled()
    assert {row["status"] for row in list_deliveries(world.alice)} == {"pending"}
    world.server.engine.gate.reason = None
    wait_for_deliveries(world.server, world.alice, 2, "succeeded")


def test_what_a_stop_cuts_off_goes_out_after_the_start(world: RequestCast, sink: WebhookReceiver) -> None:
    hung = threading.Event()

    def answer(got: ReceivedCall) -> int:
        return 200 if hung.wait(30) else 500

    sink.answer = answer
    register_endpoint(world.alice, sink.url, events=["post.published"])
    world.published()
    (first,) = sink.wait(1)
    world.server.restart(world.alice, world.bob, world.charlie)
    hung.set()
    second = sink.wait(2)[1]
    assert second.headers["x-service-event-id"] == first.headers["x-service-event-id"]
    (row,) = wait_for_deliveries(world.server, world.alice, 1, "succeeded")
    assert row["eventId"] == first.event["id"]


# --- Endpoints -----------------------------------------------------------------------------------------------------


def test_for_a_day_both_secrets_sign_and_then_the_new_one_alone(world: RequestCast, sink: WebhookReceiver) -> None:
    endpoint = register_endpoint(world.alice, sink.url, events=["post.published"])
    rotated = world.alice.api.post(f"{ENDPOINTS}/{endpoint['id']}/rotate-secret")
    old, new = endpoint["signingSecret"], rotated.json()["signingSecret"]
    assert old != new
    world.published()
    (both,) = sink.wait(1)
    assert both.is_signed(old)
    assert both.is_signed(new)
    world.server.skip(25 * 3600)
    world.published()
    alone = sink.wait(2)[1]
    assert alone.is_signed(new)
    assert not alone.is_signed(old)


def test_repeated_registration_returns_the_same_unstored_secret(world: RequestCast, sink: WebhookReceiver) -> None:
    headers = {"Idempotency-Key": "once"}
    answers = [world.alice.api.post(ENDPOINTS, json={"url": sink.url}, headers=headers) for _ in range(2)]
    assert answers[0].text == answers[1].text
    secret = answers[0].json()["signingSecret"]
    world.server.watch.secrets.add(secret)  # the end of the test looks through files, log and answers
    assert len(world.server.rows(WebhookEndpoint)) == 1


def test_an_address_where_events_are_not_sent_is_refused(make_server: Callable[..., AppServer]) -> None:
    server = make_server(security={"allow_private_networks": False})
    alice = server.person("Alice")
    good = register_endpoint(alice, "https://192.0.32.10/hooks")
    for url, rule in {
        "http://example.org/hooks": "webhook.url.scheme",
        "ftp://example.org/hooks": "webhook.url.scheme",
        "https://127.0.0.1/hooks": "webhook.url.address",
        "https://[::1]/hooks": "webhook.url.address",
        "https://10.0.0.8/hooks": "webhook.url.address",
        "https://169.254.169.254/latest": "webhook.url.address",
        "https://2130706433/": "webhook.url.address",
        "https://user:word@example.org/": "webhook.url.address",
        "https://example.org:22/": "webhook.url.address",
        "https://n8n/": "webhook.url.address",
        "https://exa mple.org/": "webhook.url.address",
        "https://example.org/\r\nX-Injected: 1": "webhook.url.address",
        "nothing": "webhook.url.scheme",
    }.items():
        assert error_of(alice.api.post(ENDPOINTS, json={"url": url}))["rule"] == rule, url
        assert error_of(alice.api.patch(f"{ENDPOINTS}/{good['id']}", json={"url": url}))["rule"] == rule, url
    assert [row["url"] for row in server.rows(WebhookEndpoint)] == ["https://192.0.32.10/hooks"]


def test_a_host_that_the_operator_named_may_be_private_and_plain(
    make_server: Callable[..., AppServer], sink: WebhookReceiver
) -> None:
    server = make_server(security={"allow_private_networks": False}, webhooks={"allowed_hosts": ["127.0.0.1"]})
    alice = server.person("Alice")
    endpoint = register_endpoint(alice, sink.url)
    assert alice.api.post(f"{ENDPOINTS}/{endpoint['id']}/test", json={}).json()["delivered"]
    refused = error_of(alice.api.post(ENDPOINTS, json={"url": "http://127.0.0.2/"}))
    assert refused["rule"] == "webhook.url.scheme"
    assert (
        "webhooks.allowed_hosts"
        in error_of(alice.api.post(ENDPOINTS, json={"url": "https://10.1.2.3/"}))["remediation"]
    )


def test_bad_fields_are_refused(world: RequestCast, sink: WebhookReceiver) -> None:
    for body in ({}, {"url": 5}, {"url": sink.url, "events": ["post.gone"]}, {"url": sink.url, "more": 1}):
        assert world.alice.api.post(ENDPOINTS, json=body).status_code == 400, body
    assert world.server.rows(WebhookEndpoint) == []


def test_an_organization_has_no_more_endpoints_than_it_may(
    world: RequestCast, sink: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoints, "MAX_PER_ORGANIZATION", 2)
    made = [register_endpoint(world.alice, sink.url)["id"] for _ in range(2)]
    refused = error_of(world.bob.api.post(ENDPOINTS, json={"url": sink.url}))
    assert (refused["rule"], refused["message"]) == (
        "webhook.endpoints.max",
        "The organization already has 2 webhook endpoints, which is the maximum.",
    )
    world.alice.api.delete(f"{ENDPOINTS}/{made[0]}")
    register_endpoint(world.bob, sink.url)


def test_a_profiles_key_has_endpoints_of_its_own(world: RequestCast, sink: WebhookReceiver) -> None:
    whole, part = register_endpoint(world.alice, sink.url), register_endpoint(world.bob, sink.url)
    assert part["profileId"] == world.bob.profile
    assert [row["id"] for row in world.bob.api.get(ENDPOINTS).json()["data"]] == [part["id"]]
    assert len(world.alice.api.get(ENDPOINTS).json()["data"]) == 2
    for person, other in ((world.bob, whole), (world.charlie, whole)):
        for method, tail in (("GET", ""), ("DELETE", ""), ("POST", "/rotate-secret")):
            answer = person.api.request(method, f"{ENDPOINTS}/{other['id']}{tail}")
            assert answer.status_code == 404, (method, tail)


def test_a_profiles_key_sees_the_deliveries_of_its_own_endpoints(world: RequestCast, sink: WebhookReceiver) -> None:
    register_endpoint(world.alice, sink.url)
    own = register_endpoint(world.bob, sink.url)["id"]
    publish_post(world.bob)
    rows = wait_for_deliveries(world.server, world.alice, 4, "succeeded")
    assert {row["endpointId"] for row in list_deliveries(world.bob)} == {own}
    for row in rows:
        expected = 200 if row["endpointId"] == own else 404
        assert world.bob.api.get(f"{DELIVERIES}/{row['id']}").status_code == expected
        answer = world.bob.api.post(f"{DELIVERIES}/{row['id']}/redeliver")
        assert answer.is_success == (expected == 200)
    assert {row["endpointId"] for row in list_deliveries(world.alice, profileId=world.bob.profile)} > {own}


# --- Samples -------------------------------------------------------------------------------------------------------


def test_a_sample_of_every_type_is_sent_now_and_is_in_no_log(world: RequestCast, sink: WebhookReceiver) -> None:
    endpoint = register_endpoint(world.alice, sink.url)
    for number, name in enumerate(EVENTS):
        told = world.alice.api.post(f"{ENDPOINTS}/{endpoint['id']}/test", json={"type": name}).json()
        call = sink.wait(number + 1)[number]
        assert told["delivered"], name
        assert told["sentEvent"] == call.event
        assert call.event["type"] == name
        assert call.is_signed(endpoint["signingSecret"]), name
        assert told["deliveryId"] == call.headers["x-service-delivery-id"]
    assert list_deliveries(world.alice) == []
    assert world.alice.api.get("/v1/events").json()["data"] == []


def test_a_sample_with_data_of_ones_own_and_a_receiver_that_refuses(world: RequestCast, sink: WebhookReceiver) -> None:
    endpoint = register_endpoint(world.alice, sink.url)
    sink.answer = lambda got: 418
    body = {"type": "post.failed", "data": {"id": "42"}}
    told = world.alice.api.post(f"{ENDPOINTS}/{endpoint['id']}/test", json=body).json()
    assert sink.got[0].event["data"] == {"id": "42"}
    assert (told["delivered"], told["status"], told["nonRetryable"], told["errorName"]) == (
        False,
        418,
        True,
        "http_4xx",
    )
    assert told["responseBody"] == "status 418"


def test_a_number_that_is_not_json_is_in_no_sample(world: RequestCast, sink: WebhookReceiver) -> None:
    address, headers = f"{ENDPOINTS}/{register_endpoint(world.alice, sink.url)['id']}/test", {"Content-Type": JSON_TYPE}
    for number in ("NaN", "-Infinity", "1e999", '[1, {"deep": NaN}]'):
        answer = world.alice.api.post(address, content=f'{{"data": {{"n": {number}}}}}', headers=headers)
        assert (answer.status_code, error_of(answer)["rule"]) == (400, "body.json"), number
    assert sink.got == []


def test_a_sample_to_nobody(world: RequestCast) -> None:
    with unused_address() as url:
        endpoint = register_endpoint(world.alice, url)
        told = world.alice.api.post(f"{ENDPOINTS}/{endpoint['id']}/test", json={}).json()
    assert (told["delivered"], told["status"]) == (False, None)
    assert (told["nonRetryable"], told["errorName"]) == (False, "unreachable")


NOBODY = "http://127.0.0.1:1/"  # refused at once


def test_what_nobody_listens_to_is_pending(world: RequestCast) -> None:
    register_endpoint(world.alice, NOBODY)
    world.scheduled()
    assert {row["status"] for row in list_deliveries(world.alice)} == {"pending"}


def test_what_waits_for_its_time_or_an_endpoint_is_not_due(world: RequestCast, sink: WebhookReceiver) -> None:
    sink.answer = lambda got: 503
    endpoint, outbox = register_endpoint(world.alice, sink.url)["id"], webhook_outbox.WebhookOutbox()
    world.published()
    sink.wait(1)
    while not any(row["attempts"] for row in world.server.rows(WebhookDelivery)):
        sleep_briefly()
    world.server.engine.stop()
    service = world.server.service

    def find_due() -> list[int]:
        found = service.read(lambda: outbox.find_due(service, endpoint, 9, (), is_paused=False)).result()
        return [task.number for task in found.due]

    tried = next(row["number"] for row in world.server.rows(WebhookDelivery) if row["attempts"])
    assert tried not in find_due()
    world.server.clock.skip(3600)
    assert tried in find_due()
    service.write(lambda tx: WebhookEndpoint.update(active=False).execute()).result()
    assert find_due() == []
