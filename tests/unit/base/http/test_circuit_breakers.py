"""Circuit breakers: when one opens, who may probe, and what each call reports."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

import httpx
import pytest

from socialpub.base.errors import ApiError
from socialpub.base.http.circuit_breakers import (
    CALL_LIMIT_MAX,
    FAILURES_TO_OPEN,
    FIRST_WAIT_SECONDS,
    LONGEST_WAIT_SECONDS,
    PROBE_SECONDS,
    BreakerTransport,
    CircuitBreakers,
    OpenCircuit,
)
from tests.support.app_server import MovableClock

T = TypeVar("T")
NAME = "an upstream"


@pytest.fixture
def clock() -> MovableClock:
    clock = MovableClock()
    clock.hold()
    return clock


@pytest.fixture
def breakers(clock: MovableClock) -> CircuitBreakers:
    return CircuitBreakers(clock.monotonic)


def in_thread(run: Callable[[], T]) -> T:
    """What `run` returns in a thread of its own."""
    found: list[T] = []
    thread = threading.Thread(target=lambda: found.append(run()))
    thread.start()
    thread.join(60)
    return found[0]


def _fail(breakers: CircuitBreakers, count: int = FAILURES_TO_OPEN) -> None:
    for _ in range(count):
        assert breakers.may_call(NAME)
        breakers.unanswered(NAME)


def test_it_opens_after_some_failures_in_a_row(breakers: CircuitBreakers) -> None:
    _fail(breakers, FAILURES_TO_OPEN - 1)
    assert (breakers.may_call(NAME), breakers.open(), breakers.next_try()) == (True, [], None)
    breakers.answered(NAME)
    _fail(breakers, FAILURES_TO_OPEN - 1)
    assert breakers.may_call(NAME)
    breakers.unanswered(NAME)
    assert (breakers.may_call(NAME), breakers.capacity(NAME), breakers.get_limits()) == (False, 0, {NAME: 0})
    assert breakers.open() == [OpenCircuit(NAME, 0)]
    assert (breakers.may_call("another"), breakers.capacity("another"), breakers.get_wait("another")) == (True, None, 0)


def test_one_thread_probes_once_the_wait_is_over(breakers: CircuitBreakers, clock: MovableClock) -> None:
    _fail(breakers)
    assert (breakers.next_try(), breakers.get_wait(NAME)) == (FIRST_WAIT_SECONDS, FIRST_WAIT_SECONDS)
    clock.skip(FIRST_WAIT_SECONDS - 0.5)
    assert (breakers.may_call(NAME), breakers.get_wait(NAME)) == (False, pytest.approx(0.5))
    clock.skip(0.5)
    assert (breakers.next_try(), breakers.capacity(NAME)) == (0, 1)
    assert [breakers.may_call(NAME), in_thread(lambda: breakers.may_call(NAME)), breakers.may_call(NAME)] == [
        True,
        False,
        True,
    ]
    assert breakers.capacity(NAME) == 0
    assert breakers.get_wait(NAME) == FIRST_WAIT_SECONDS, "a probe ends sooner than its limit"
    clock.skip(PROBE_SECONDS)
    assert in_thread(lambda: breakers.may_call(NAME)), "the first one may have died"
    assert not breakers.may_call(NAME)


def test_each_failed_probe_doubles_the_wait(breakers: CircuitBreakers, clock: MovableClock) -> None:
    _fail(breakers)
    waits = []
    for _ in range(6):
        clock.skip(breakers.get_wait(NAME))
        assert breakers.may_call(NAME)
        breakers.unanswered(NAME)
        waits.append(breakers.get_wait(NAME))
    assert waits == [10, 20, 40, LONGEST_WAIT_SECONDS, LONGEST_WAIT_SECONDS, LONGEST_WAIT_SECONDS]


def test_a_late_failure_of_another_thread_is_no_failed_probe(breakers: CircuitBreakers, clock: MovableClock) -> None:
    _fail(breakers)
    clock.skip(FIRST_WAIT_SECONDS)
    assert breakers.may_call(NAME)
    in_thread(lambda: breakers.unanswered(NAME))
    in_thread(lambda: breakers.gave_up(NAME))
    assert breakers.may_call(NAME), "this thread still probes"
    breakers.unanswered(NAME)
    assert breakers.get_wait(NAME) == 2 * FIRST_WAIT_SECONDS


def test_a_probe_without_a_result_is_left_to_another(breakers: CircuitBreakers, clock: MovableClock) -> None:
    _fail(breakers)
    clock.skip(FIRST_WAIT_SECONDS)
    assert breakers.may_call(NAME)
    breakers.gave_up(NAME)
    assert in_thread(lambda: breakers.may_call(NAME))


def test_an_answer_closes_it_and_the_calls_grow_from_one(breakers: CircuitBreakers, clock: MovableClock) -> None:
    _fail(breakers)
    clock.skip(FIRST_WAIT_SECONDS)
    assert breakers.may_call(NAME)
    breakers.answered(NAME)
    assert (breakers.open(), breakers.next_try()) == ([], None)
    limits = []
    for _ in range(CALL_LIMIT_MAX):
        limits.append(breakers.capacity(NAME))
        breakers.answered(NAME)
    assert limits == list(range(1, CALL_LIMIT_MAX + 1))
    assert (breakers.capacity(NAME), breakers.get_limits()) == (None, {})


def test_the_first_failure_after_it_closed_opens_it_again(breakers: CircuitBreakers, clock: MovableClock) -> None:
    _fail(breakers)
    clock.skip(FIRST_WAIT_SECONDS)
    assert breakers.may_call(NAME)
    breakers.answered(NAME)
    _fail(breakers, 1)
    assert (breakers.may_call(NAME), breakers.get_wait(NAME)) == (False, FIRST_WAIT_SECONDS)


def test_the_next_try_is_that_of_the_first_upstream(breakers: CircuitBreakers, clock: MovableClock) -> None:
    _fail(breakers)
    clock.skip(2)
    for _ in range(FAILURES_TO_OPEN):
        breakers.unanswered("later")
    assert breakers.next_try() == FIRST_WAIT_SECONDS - 2
    clock.skip(60)
    assert breakers.next_try() == 0
    assert breakers.open() == [OpenCircuit(NAME, 62), OpenCircuit("later", 60)]


# --- Calls -----------------------------------------------------------------------------------------------------------


class _FailingStream(httpx.SyncByteStream):
    def __init__(self, error: Exception) -> None:
        self._error = error

    def __iter__(self):  # type: ignore[no-untyped-def]
        yield b"a part"
        raise self._error


UNANSWERED, ANSWERED, NEITHER = "unanswered", "answered", "neither"


@pytest.mark.parametrize(
    ("reply", "reported"),
    [
        (httpx.Response(200, stream=httpx.ByteStream(b"body")), ANSWERED),
        (httpx.Response(503, stream=httpx.ByteStream(b"")), ANSWERED),
        (httpx.Response(200, stream=_FailingStream(httpx.ReadTimeout("late"))), UNANSWERED),
        (httpx.Response(200, stream=_FailingStream(httpx.ReadError("cut"))), ANSWERED),
        (httpx.ConnectTimeout("late"), UNANSWERED),
        (httpx.ReadTimeout("late"), UNANSWERED),
        (httpx.ConnectError("refused"), UNANSWERED),
        (httpx.RemoteProtocolError("cut"), UNANSWERED),
        (httpx.LocalProtocolError("ours"), ANSWERED),
        (httpx.UnsupportedProtocol("gopher"), NEITHER),
        (LookupError("a bug"), NEITHER),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_end_of_a_call_is_reported_once(
    breakers: CircuitBreakers, clock: MovableClock, reply: httpx.Response | Exception, reported: str
) -> None:
    told, seconds = list[str](), list[float]()
    for name in (UNANSWERED, ANSWERED):
        setattr(breakers, name, lambda upstream, name=name: told.append(name))
    breakers.gave_up = lambda upstream: told.append(NEITHER)  # type: ignore[method-assign]

    def answer(request: httpx.Request) -> httpx.Response:
        clock.skip(3)
        if isinstance(reply, Exception):
            raise reply
        return reply

    transport = BreakerTransport(httpx.MockTransport(answer), breakers, NAME, "", _held_back, seconds.append)
    with (
        httpx.Client(transport=transport, trust_env=False) as client,
        contextlib.suppress(httpx.HTTPError, LookupError),
    ):
        client.get("http://upstream.example/")
    assert (told, seconds) == ([reported], [3])


def _held_back(seconds: float) -> ApiError:
    return ApiError("platform_unavailable", f"Wait {seconds:g} seconds.")


def test_a_call_to_an_open_upstream_is_not_made(breakers: CircuitBreakers) -> None:
    _fail(breakers)
    made, seconds = list[str](), list[float]()

    def answer(request: httpx.Request) -> httpx.Response:
        made.append(str(request.url))
        return httpx.Response(204)

    only = "http://upstream.example:8080"
    transport = BreakerTransport(httpx.MockTransport(answer), breakers, NAME, only, _held_back, seconds.append)
    with httpx.Client(transport=transport, trust_env=False) as client:
        with pytest.raises(ApiError, match="Wait 5 seconds"):
            client.get(f"{only}/")
        client.get("http://upstream.example/")
    assert (made, seconds) == (["http://upstream.example/"], [])
    assert breakers.open(), "the answer of another server says nothing about this one"
