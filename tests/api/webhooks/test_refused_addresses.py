"""Refused webhook addresses: neither registered nor called by a delivery or sample."""

from __future__ import annotations

import contextlib
import itertools
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from socialpub.store.schema.models import WebhookAttempt, WebhookDelivery, WebhookEndpoint
from tests.support.app_server import UNLIMITED, AppServer, Person, error_of
from tests.support.publishing_state import schedule_post
from tests.support.refused_addresses import PRIVATE4, PRIVATE6, REFUSED_SPELLINGS
from tests.support.webhook_endpoints import DELIVERIES, ENDPOINTS, register_endpoint, wait_for_deliveries
from tests.support.webhook_receiver import WebhookReceiver, running_receiver

PUBLIC = "93.184.216.34"
REFUSAL = "Its address is not allowed."
ADDRESSES = [f"https://{address}/" for address in PRIVATE4] + [
    f"https://[{address.replace('%', '%25')}]/" for address in PRIVATE6
]
URLS = [*ADDRESSES, *REFUSED_SPELLINGS]
ALLOWED = {"webhooks": {"allowed_hosts": ["example.com", "127.0.0.1"]}}


@pytest.fixture
def guarded(make_server: Callable[..., AppServer]) -> AppServer:
    """A server as it is by default: it calls nothing private."""
    return make_server(security={"allow_private_networks": False}, limits=UNLIMITED)


@pytest.fixture
def alice(guarded: AppServer) -> Person:
    alice = guarded.person("Alice")
    guarded.connect(alice, "bluesky")
    return alice


@contextlib.contextmanager
def names(server: AppServer, *answers: list[str]) -> Iterator[list[str]]:
    """Every name resolves to the first answer, then to the next, and then to the last; the names that were asked."""
    asked: list[str] = []
    coming = iter(answers)
    lasting = answers[-1]

    def resolver(host: str, port: int) -> list[str]:
        asked.append(host)
        return next(coming, lasting)

    usual = server.service.runtime
    server.service.runtime = replace(usual, resolver=resolver)
    yield asked
    server.service.runtime = usual


def moved(server: AppServer, endpoint: str, url: str) -> None:
    """The endpoint has this address, as if it had been registered under other settings."""
    query = WebhookEndpoint.update(url=url).where(WebhookEndpoint.id == endpoint)
    server.service.write(lambda tx: query.execute()).result()


# --- The table -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_no_address_or_spelling_of_the_table_is_registered(guarded: AppServer, alice: Person) -> None:
    good = register_endpoint(alice, f"https://{PUBLIC}/hooks")
    with names(guarded, [PUBLIC]) as asked:
        for url in URLS:
            made = error_of(alice.api.post(ENDPOINTS, json={"url": url}))
            changed = error_of(alice.api.patch(f"{ENDPOINTS}/{good['id']}", json={"url": url}))
            told = (made.get("rule"), changed.get("rule"))
            assert told[0] == told[1], url
            assert told[0] in ("webhook.url.scheme", "webhook.url.address") or len(url) > 2000 or not url, (url, told)
        assert asked == []  # their text was enough
    assert [row["url"] for row in guarded.rows(WebhookEndpoint)] == [f"https://{PUBLIC}/hooks"]


@pytest.mark.slow
def test_none_of_the_table_is_called_by_a_delivery_and_each_ends_at_once(guarded: AppServer, alice: Person) -> None:
    assert len(URLS) >= 140
    made = [register_endpoint(alice, f"https://{PUBLIC}/{number}")["id"] for number in range(len(URLS))]
    for endpoint, url in zip(made, URLS, strict=True):
        moved(guarded, endpoint, url)
    with names(guarded, [PUBLIC]) as asked:
        schedule_post(guarded, alice)
        wait_for_deliveries(guarded, alice, 2 * len(URLS))
    assert asked == []
    rows = guarded.rows(WebhookDelivery)
    assert {(row["status"], row["attempts"], row["last_error"], row["last_status_code"]) for row in rows} == {
        ("failed", 1, REFUSAL, None)
    }
    assert {row["endpoint"] for row in rows} == set(made)
    assert {row["response_body"] for row in guarded.rows(WebhookAttempt)} == {None}
    shown = alice.api.get(f"{DELIVERIES}/{rows[0]['id']}").json()
    assert (shown["lastError"], shown["attempts"][0]["error"]) == (REFUSAL, REFUSAL)


@pytest.mark.slow
def test_none_of_the_table_is_called_by_a_sample(guarded: AppServer, alice: Person) -> None:
    endpoint = register_endpoint(alice, f"https://{PUBLIC}/")["id"]
    for url in URLS:
        moved(guarded, endpoint, url)
        told = alice.api.post(f"{ENDPOINTS}/{endpoint}/test", json={}).json()
        shown = (told["delivered"], told["status"], told["responseBody"], told["nonRetryable"], told["errorName"])
        assert shown == (False, None, None, True, "address"), url


@pytest.mark.parametrize("url", ["https://example.com:99999/", "http://example.com:65536/", "http://＠@127.0.0.1/"])
@pytest.mark.parametrize("setting", [{"security": {"allow_private_networks": True}}, ALLOWED])
def test_what_is_no_url_is_refused_under_any_setting(
    make_server: Callable[..., AppServer], setting: dict[str, Any], url: str
) -> None:
    server = make_server(**{"security": {"allow_private_networks": False}} | setting)
    alice = server.connected_person("Alice")
    refused = alice.api.post(ENDPOINTS, json={"url": url})
    assert (refused.status_code, error_of(refused)["rule"]) == (400, "webhook.url.address")
    media = [{"kind": "image", "url": url}]
    refused = alice.api.publish({"targets": [{"accountId": alice.bluesky}], "text": "x", "media": media})
    assert (refused.status_code, error_of(refused)["rule"]) == (400, "media.url.disallowed")


# --- Names ---------------------------------------------------------------------------------------------------------


@pytest.mark.matrix
@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.8", "169.254.169.254", "::1", "::ffff:127.0.0.1", "fd00::1"])
def test_a_name_that_leads_inside_is_neither_registered_nor_called(
    guarded: AppServer, alice: Person, address: str
) -> None:
    endpoint = register_endpoint(alice, f"https://{PUBLIC}/")["id"]
    for answer in ([address], [PUBLIC, address], [address, PUBLIC]):  # one address is enough to refuse
        with names(guarded, answer):
            refused = error_of(alice.api.post(ENDPOINTS, json={"url": "https://hooks.example.org/"}))
            assert refused["rule"] == "webhook.url.address"
    moved(guarded, endpoint, "https://hooks.example.org/")
    with names(guarded, [PUBLIC, address]):
        schedule_post(guarded, alice)
        rows = wait_for_deliveries(guarded, alice, 2)
    assert {(row["status"], row["attemptCount"], row["lastError"]) for row in rows} == {("failed", 1, REFUSAL)}


def test_rebound_name_reaches_no_inner_address_in_a_hundred_calls(guarded: AppServer, alice: Person) -> None:
    check_rebound_name(guarded, alice, 100)


@pytest.mark.slow
def test_rebound_name_reaches_no_inner_address_in_a_thousand_calls(guarded: AppServer, alice: Person) -> None:
    check_rebound_name(guarded, alice, 1000)


def check_rebound_name(guarded: AppServer, alice: Person, calls: int) -> None:
    with connections() as (port, made):
        with names(guarded, [PUBLIC]):
            endpoints = [
                register_endpoint(alice, f"https://rebound.example.org:{port}/{number}")
                for number in range(calls // 10)
            ]
        with names(guarded, ["127.0.0.1"], ["::1"], [PUBLIC, "127.0.0.1"], ["127.0.0.1"]) as asked:
            for _ in range(5):
                schedule_post(guarded, alice)
            wait_for_deliveries(guarded, alice, calls)
            assert len(asked) == calls  # each call asks once, and connects to what it was told
        assert made() == 0
    rows = guarded.rows(WebhookDelivery)
    assert len(endpoints) * 10 == len(rows) == calls
    assert {(row["status"], row["attempts"], row["last_error"]) for row in rows} == {("failed", 1, REFUSAL)}


@contextlib.contextmanager
def connections() -> Iterator[tuple[int, Callable[[], int]]]:
    """A port inside that takes connections, and how many came."""
    with socket.create_server(("127.0.0.1", 0), backlog=2000) as inner:
        inner.setblocking(False)

        def come() -> int:
            for count in itertools.count():
                try:
                    inner.accept()[0].close()
                except BlockingIOError:
                    return count
            raise AssertionError("unreachable")

        yield inner.getsockname()[1], come


# --- What an answer would tell -------------------------------------------------------------------------------------


def test_an_open_a_closed_and_a_silent_port_inside_look_the_same(
    guarded: AppServer, alice: Person, sink: WebhookReceiver
) -> None:
    with running_receiver() as gone:
        closed = gone.url
    urls = [sink.url, closed, "http://10.255.255.1:9/", "https://127.0.0.1:8443/"]
    made = [register_endpoint(alice, f"https://{PUBLIC}/{number}")["id"] for number in range(len(urls))]
    for endpoint, url in zip(made, urls, strict=True):
        moved(guarded, endpoint, url)
    schedule_post(guarded, alice)
    rows = wait_for_deliveries(guarded, alice, 2 * len(urls))
    kept = ("status", "attemptCount", "lastStatusCode", "lastError", "nextAttemptAt")
    assert {tuple(row[name] for name in kept) for row in rows} == {("failed", 1, None, REFUSAL, None)}
    samples = [alice.api.post(f"{ENDPOINTS}/{endpoint}/test", json={}).json() for endpoint in made]
    kept = ("delivered", "status", "responseBody", "nonRetryable", "errorName")
    assert {tuple(told[name] for name in kept) for told in samples} == {(False, None, None, True, "address")}
    assert sink.got == []


@pytest.mark.matrix
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_to_the_inside_is_not_followed(
    make_server: Callable[..., AppServer], sink: WebhookReceiver, status: int
) -> None:
    server = make_server(security={"allow_private_networks": False}, webhooks={"allowed_hosts": ["127.0.0.1"]})
    alice = server.person("Alice")
    server.connect(alice, "bluesky")
    with running_receiver() as inner:
        sink.answer, sink.location = (lambda got: status), inner.url
        endpoint = register_endpoint(alice, sink.url)["id"]
        schedule_post(server, alice)
        rows = wait_for_deliveries(server, alice, 2)
        told = alice.api.post(f"{ENDPOINTS}/{endpoint}/test", json={}).json()
        assert inner.got == []
    assert {(row["status"], row["attemptCount"], row["lastStatusCode"]) for row in rows} == {("failed", 1, status)}
    assert (told["status"], told["nonRetryable"], told["errorName"]) == (status, True, "http_3xx")
    assert len(sink.got) == 3


def test_naming_a_host_lifts_the_guard_for_it_alone(
    make_server: Callable[..., AppServer], sink: WebhookReceiver
) -> None:
    """A name that is not on the list and leads to an address of a host that is: https is still asked for."""
    server = make_server(security={"allow_private_networks": False}, webhooks={"allowed_hosts": ["n8n"]})
    alice = server.person("Alice")
    port = sink.url.rpartition(":")[2].partition("/")[0]
    with names(server, ["127.0.0.1"]):
        named = register_endpoint(alice, f"http://n8n:{port}/hooks")
        assert alice.api.post(f"{ENDPOINTS}/{named['id']}/test", json={}).json()["delivered"]
        for url, rule in {
            f"http://other:{port}/": "webhook.url.scheme",
            f"https://n8n.example.org:{port}/": "webhook.url.address",
            "https://127.0.0.1:8443/": "webhook.url.address",
        }.items():
            assert error_of(alice.api.post(ENDPOINTS, json={"url": url}))["rule"] == rule, url
    assert len(sink.got) == 1


@pytest.mark.parametrize("user", ["user@", "user:word@", "@", ":@"])
def test_a_user_name_is_refused_where_private_networks_are_allowed(
    make_server: Callable[..., AppServer], user: str
) -> None:
    server = make_server(security={"allow_private_networks": True})
    person = server.person("Alice")
    for address in (f"https://{user}example.com/hook", f"http://{user}127.0.0.1:8080/hook"):
        refused = person.api.post(ENDPOINTS, json={"url": address})
        assert (refused.status_code, error_of(refused)["rule"]) == (400, "webhook.url.address"), address
        made = person.api.post(ENDPOINTS, json={"url": "http://127.0.0.1:8080/hook"}).json()["id"]
        changed = person.api.patch(f"{ENDPOINTS}/{made}", json={"url": address})
        assert (changed.status_code, error_of(changed)["rule"]) == (400, "webhook.url.address"), address
