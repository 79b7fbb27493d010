"""Webhook deliveries under load: slots, an hour's outage, a hanging endpoint."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import pytest

from socialpub.domain.delivery.outbox_worker import CALLS_PER_RECEIVER
from socialpub.domain.schemas.common import parse_instant
from socialpub.store.engine import sql
from socialpub.store.schema.models import WebhookAttempt, WebhookDelivery
from tests.support.app_server import UNLIMITED, AppServer, Person, format_instant, sleep_briefly
from tests.support.reporting import TIMED, ReportLine
from tests.support.soak.soak_world import pressure
from tests.support.webhook_endpoints import ENDPOINTS, register_endpoint, wait_for_deliveries
from tests.support.webhook_receiver import ReceivedCall, WebhookReceiver, running_receiver

WAITS = (5, 10, 20, 40, 80, 160, 320)
STEP = 0.01  # of a wait: how far the clock goes at once


@pytest.fixture
def server(make_server: Callable[..., AppServer]) -> AppServer:
    return make_server(
        limits=UNLIMITED,
        webhooks={"timeout": 60},  # what hangs does so to the end of the test
    )


def schedule(server: AppServer, person: Person, accounts: list[str], seconds: float = 86400) -> list[str]:
    """A batch of posts that are due later: two events each, told in this order. Their ids."""
    at = format_instant(server.clock.now_ms() + int(seconds * 1000))
    body = {"targets": [{"accountId": account} for account in accounts], "text": "hello", "scheduledAt": at}
    answer = person.api.publish(body)
    assert answer.status_code == 202, answer.text
    return [result["postId"] for result in answer.json()["results"]]


def first(server: AppServer, query: str, *values: Any) -> Any:
    return server.service.read(lambda: sql.fetch_one(query, values)).result()


# --- More than fits at once ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_deliveries_beyond_an_endpoints_slots_go_out_after_them(
    server: AppServer, alice: Person, sink: WebhookReceiver
) -> None:
    over = threading.Event()
    sink.answer = lambda got: 204 if over.wait(60) else 500
    register_endpoint(alice, sink.url, events=["post.queued"])
    for _ in range(CALLS_PER_RECEIVER):
        schedule(server, alice, [alice.bluesky])
    sink.wait(CALLS_PER_RECEIVER)
    schedule(server, alice, [alice.bluesky])
    server.service.wake_deliveries([])
    over.set()
    assert len(sink.wait(CALLS_PER_RECEIVER + 1)) == CALLS_PER_RECEIVER + 1


def test_an_end_that_cannot_be_written_keeps_no_other_from_being_written(
    server: AppServer, alice: Person, sink: WebhookReceiver
) -> None:
    """Two calls end together, and the delivery of one is gone by then."""
    over = threading.Event()
    sink.answer = lambda got: 204 if over.wait(60) else 500
    register_endpoint(alice, sink.url, events=["post.queued"])
    for _ in range(2):
        schedule(server, alice, [alice.bluesky])
    gone, kept = (call.event["id"] for call in sink.wait(2))
    (number,) = (event.number for event in server.happened(id=gone))
    server.service.write(lambda tx: WebhookDelivery.delete().where(WebhookDelivery.event == number).execute()).result()
    over.set()
    (told,) = wait_for_deliveries(server, alice, 1)
    assert (told["eventId"], told["status"], told["attemptCount"]) == (kept, "succeeded", 1)
    (attempt,) = server.rows(WebhookAttempt)
    assert attempt["status_code"] == 204
    assert len(sink.got) == 2


# --- Down for an hour ----------------------------------------------------------------------------------------------

EVENTS = 1000


@pytest.mark.slow
def test_receiver_down_for_an_hour_gets_a_thousand_events_after_one_probe(
    server: AppServer, alice: Person, sink: WebhookReceiver, tell: ReportLine
) -> None:
    endpoint = register_endpoint(alice, sink.url)
    accounts = [server.connect(alice, "bluesky", f"account {number}")["id"] for number in range(25)]
    sink.answer = lambda got: 503
    began = server.clock.stop()
    while first(server, "SELECT count(*) FROM event")[0] < EVENTS:
        schedule(server, alice, accounts)
    let_pass(server)
    rows = server.rows(WebhookDelivery)
    assert len(rows) == EVENTS
    assert {(row["status"], row["attempts"]) for row in rows} == {("failed", 8)}
    assert len(sink.got) == 8 * EVENTS
    times = defaultdict(list)
    for attempt in server.rows(WebhookAttempt):
        times[attempt["delivery"]].append(attempt["started_at"])
    for started in times.values():
        started.sort()
        assert started[0] == began
        for before, after, wait in zip(started[:-1], started[1:], WAITS, strict=True):
            assert wait <= (after - before) / 1000 <= wait * (1.1 + 2 * STEP) + 0.05
    assert len({tuple(started) for started in times.values()}) > EVENTS / 2  # not all at the same moment
    sent = {got.event["id"]: got.body for got in sink.got}

    server.skip(3600 - (server.clock.now_ms() - began) / 1000)
    sink.got.clear()
    sink.answer = lambda got: 204
    again = alice.api.post(f"{ENDPOINTS}/{endpoint['id']}/redeliver", json={"since": format_instant(began)})
    assert (again.status_code, again.json()) == (202, {"count": EVENTS})
    got = sink.wait(EVENTS, 120)
    assert {call.event["id"]: call.body for call in got} == sent
    wait_for_deliveries(server, alice, EVENTS, "succeeded")
    assert len(sink.got) == EVENTS
    assert {(row["status"], row["attempts"]) for row in server.rows(WebhookDelivery)} == {("succeeded", 9)}
    tell(f"{EVENTS} events, 8 attempts each, then delivered by one call, each under its id")


def let_pass(server: AppServer) -> None:
    """Time goes on in small steps, each once nothing is due any more, until nothing is to come."""
    query = "SELECT count(*) FILTER (WHERE next_attempt_at <= ?1), min(next_attempt_at), max(tries)"
    query += " FROM webhook_delivery WHERE status = 'pending'"
    while True:
        now = server.clock.now_ms()
        due, soonest, tries = first(server, query, now)
        if soonest is None:
            return
        if due:
            sleep_briefly()
            continue
        server.skip((soonest - now) / 1000 + WAITS[tries - 1] * STEP)


# --- One hangs -----------------------------------------------------------------------------------------------------

ENDPOINT_COUNT, ROUNDS = 100, 11
P99_SECONDS, DUE_SECONDS = 2.0, 1.0


@pytest.mark.slow
@pytest.mark.alone
def test_one_hanging_endpoint_of_a_hundred_does_not_delay_the_others(
    server: AppServer, alice: Person, sink: WebhookReceiver, tell: ReportLine
) -> None:
    people = [server.person(f"P{number}", organization=alice.organization, bound=True) for number in range(99)]
    accounts = [server.connect(person, "bluesky")["id"] for person in people]
    late: list[float] = []
    busy = pressure()

    def answer(got: ReceivedCall) -> int:
        late.append(server.clock.now_ms() / 1000 - at_of(server, got))
        return 204

    sink.answer = answer
    over = threading.Event()
    with running_receiver(lambda got: 204 if over.wait(120) else 500) as hanging:
        register_endpoint(alice, hanging.url)  # it is to get all of them, and holds all the calls that it gets
        for number, person in enumerate(people):
            register_endpoint(person, f"{sink.url}/{number}")
        due = schedule(server, alice, [alice.bluesky], 6)
        scheduled = [
            schedule(server, alice, accounts[begin : begin + 25]) for _ in range(ROUNDS) for begin in range(0, 99, 25)
        ]
        posts = [post for batch in scheduled for post in batch]
        got = sink.wait(2 * len(posts), 120)
        out = server.wait(due[0], "published", seconds=60)
        assert len(hanging.got) == CALLS_PER_RECEIVER  # it still holds every one
        lateness = (out["published_at"] - out["scheduled_at"]) / 1000
        over.set()
        hanging.wait(2 * len(posts) + 3, 120)
    assert len(posts) * 2 >= 2000
    assert Counter(call.path for call in got) == {f"/hooks/{number}": 2 * ROUNDS for number in range(99)}
    by_post = defaultdict(list)
    for call in got:
        by_post[call.event["data"]["id"]].append(call.event["type"])
    assert set(by_post) == set(posts)
    assert {tuple(types) for types in by_post.values()} == {("post.queued", "post.validated")}
    late.sort()
    p99 = late[len(late) * 99 // 100]
    tell(
        f"{2 * len(posts)} events, {ENDPOINT_COUNT} endpoints, one hangs: the others' p99 {p99:.2f} s, "
        f"a due post {lateness:.2f} s late"
    )
    assert p99 < P99_SECONDS * busy or not TIMED
    assert lateness < DUE_SECONDS * busy or not TIMED


def at_of(server: AppServer, got: ReceivedCall) -> float:
    """When the event happened, in seconds."""
    return parse_instant(got.event["createdAt"]) / 1000
