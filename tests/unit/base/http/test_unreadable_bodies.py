"""Responses with an unreadable body: status and headers kept, partial body, reason."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from socialpub.base import http as outbound
from socialpub.base.http import transport
from tests.support.odd_responses import ODD_RESPONSES, OddResponse, OddServer

BODY = json.dumps({"id": "1234567890", "more": "x" * 60}).encode()
POLICY = outbound.ConnectionPolicy(guarded=False, resolver=lambda host, port: ["127.0.0.1"])


@pytest.fixture(scope="module")
def server() -> Iterator[OddServer]:
    server = OddServer(lambda _: (201, {"X-RestLi-Id": "urn:li:share:1", "Retry-After": "7"}, BODY))
    yield server
    server.close()
    transport.close_idle(0)


@pytest.mark.matrix
@pytest.mark.parametrize("odd", ODD_RESPONSES, ids=lambda odd: odd.name)
def test_status_and_headers_stay_whatever_becomes_of_the_body(server: OddServer, odd: OddResponse) -> None:
    with outbound.HttpClient(POLICY, lambda: 5000) as http:
        reply = http.request("POST", server.url(odd), content=b"{}", timeout=2.0 if odd.end == "hang" else 60.0)
    assert (reply.status_code, reply.is_success) == (odd.status or 201, True)
    assert (reply.headers["x-restli-id"], reply.retry_after, reply.received_ms) == ("urn:li:share:1", 7, 5000)
    assert (reply.record() == json.loads(BODY)) == (odd.delivers != "nothing")
    if odd.delivers == "whole":
        assert (reply.unread, reply.content.rstrip()) == (None, BODY)
    if odd.delivers == "json":
        assert (reply.unread is not None, reply.lacks_record) == (True, False)
    assert len(reply.content) <= outbound.BODY_MAX


def test_there_are_fifty_of_them_and_no_two_are_named_alike() -> None:
    assert len({odd.name for odd in ODD_RESPONSES}) == len(ODD_RESPONSES) >= 50


WHY = {
    "labelled br, packed": outbound.UnreadReason.UNDECODABLE,
    "labelled gzip, plain": outbound.UnreadReason.UNDECODABLE,
    "gzip cut short": outbound.UnreadReason.UNDECODABLE,
    "2 MB": outbound.UnreadReason.TOO_LARGE,
    "without an end": outbound.UnreadReason.TOO_LARGE,
    "half of its length": outbound.UnreadReason.BROKEN,
    "reset within the body": outbound.UnreadReason.BROKEN,
    "a chunk without a size": outbound.UnreadReason.BROKEN,
    "silent after the head": outbound.UnreadReason.LATE,
    "labelled gzip, empty": None,
    "labelled br, empty": None,
    "204 with a body": None,
}


@pytest.mark.matrix
@pytest.mark.parametrize("name", WHY)
def test_it_says_why_the_body_is_missing(server: OddServer, name: str) -> None:
    odd = next(odd for odd in ODD_RESPONSES if odd.name == name)
    with outbound.HttpClient(POLICY) as http:
        reply = http.request("POST", server.url(odd), content=b"{}", timeout=2.0 if odd.end == "hang" else 60.0)
    assert reply.unread == WHY[name]


@pytest.mark.parametrize("name", ["100 KB", "2 MB in chunks", "without an end", "4 MB packed into 4 KB"])
def test_no_more_is_kept_of_a_body_than_was_asked_for(server: OddServer, name: str) -> None:
    odd = next(odd for odd in ODD_RESPONSES if odd.name == name)
    with outbound.HttpClient(POLICY) as http:
        reply = http.request("POST", server.url(odd), content=b"{}", extensions={"max_bytes": 16})
    assert (reply.status_code, reply.content, reply.unread) == (201, BODY[:16], outbound.UnreadReason.TOO_LARGE)
