"""HTTP responses of the simulator byte for byte, pipelining and keep-alive."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from socialpub.simulator import state as labs
from socialpub.simulator.server import SimulatorThread
from tests.support.fixed_clock import FixedClock

DATE = "Fri, 20 Nov 2026 12:00:00 GMT"
LIMITS = f"x-rate-limit-limit: 100\r\nx-rate-limit-remaining: %d\r\nx-rate-limit-reset: 1795176900\r\ndate: {DATE}\r\n"


class Line:
    """A connection to the fake X, of somebody with a token."""

    def __init__(self, simulator: SimulatorThread) -> None:
        host, port = simulator.origin("twitter").removeprefix("http://").split(":")
        self._token = simulator.lab.add_account("twitter", handle="alice")["accessToken"]
        self._socket = socket.create_connection((host, int(port)), timeout=60)

    def send(self, text: str, *headers: str, version: str = "1.1") -> None:
        body = f'{{"text":"{text}"}}'
        lines = [f"POST /2/tweets HTTP/{version}", "host: x", f"authorization: Bearer {self._token}", *headers]
        self._socket.sendall("\r\n".join([*lines, f"content-length: {len(body)}", "", body]).encode())

    def take(self, size: int) -> str:
        got = b""
        while len(got) < size:
            more = self._socket.recv(size - len(got))
            if not more:
                break
            got += more
        return got.decode()

    def is_closed(self) -> bool:
        return self._socket.recv(1) == b""

    def close(self) -> None:
        self._socket.close()


def answer(number: int, text: str, connection: str = "keep-alive") -> str:
    """The answer to so manieth post of the window."""
    id = 1_990_000_000_000_000_000 + number
    body = f'{{"data":{{"id":"{id}","text":"{text}","edit_history_post_ids":["{id}"]}}}}'
    return (
        f"HTTP/1.1 201 Created\r\n{LIMITS % (100 - number)}content-length: {len(body)}\r\nconnection: {connection}\r\n"
        f"alt-svc: \r\ncontent-type: application/json; charset=utf-8\r\n\r\n{body}"
    )


@pytest.fixture
def line(simulator: SimulatorThread) -> Iterator[Line]:
    made = Line(simulator)
    yield made
    made.close()


def test_an_answer_is_the_same_bytes_as_ever(line: Line) -> None:
    line.send("one")
    assert line.take(len(answer(1, "one"))) == answer(1, "one")


def test_calls_that_come_at_once_are_answered_in_turn(line: Line) -> None:
    line.send("one")
    line.send("two")
    expected = answer(1, "one") + answer(2, "two")
    assert line.take(len(expected)) == expected


def test_whoever_asks_first_is_told_to_go_on(line: Line) -> None:
    line.send("one", "expect: 100-continue")
    expected = "HTTP/1.1 100 Continue\r\n\r\n" + answer(1, "one")
    assert line.take(len(expected)) == expected


@pytest.mark.parametrize("headers, version", [(("connection: close",), "1.1"), ((), "1.0")])
def test_a_connection_is_closed_where_the_client_wants_it(line: Line, headers: tuple[str, ...], version: str) -> None:
    line.send("one", *headers, version=version)
    expected = answer(1, "one", "close")
    assert line.take(len(expected)) == expected
    assert line.is_closed()


def test_of_all_calls_the_last_ten_thousand_are_kept(clock: FixedClock) -> None:
    lab = labs.SimulatorState(clock, {})
    kept = set()
    for _ in range(25_000):
        lab.received("x", "none", "GET", "/", {}, b"")
        kept.add(len(lab.calls))
    assert (lab.calls[-1].n, max(kept)) == (25_000, 10_999)
    assert len(lab.calls) >= 10_000
