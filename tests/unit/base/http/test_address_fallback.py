"""Address fallback (Happy Eyeballs) for host names with dead, silent or slow addresses."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from socialpub.base import http as outbound
from socialpub.base.errors import ApiError, Outcome
from socialpub.base.http import network, transport

OK = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(network, "_address_memory", network._AddressMemory())
    yield
    transport.close_idle(0)


class Addresses:
    """Addresses of loopback with one port: some answer, some swallow what is sent to them, the others refuse."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self._open = contextlib.ExitStack()
        self.port = self.answering("127.0.0.1")

    def answering(self, address: str, port: int = 0) -> int:
        server = self._open.enter_context(socket.create_server((address, port)))
        self._open.callback(server.shutdown, socket.SHUT_RDWR)  # closed alone, it would still be waited for
        threading.Thread(target=self._serve, args=(server, address), daemon=True).start()
        return int(server.getsockname()[1])

    def silent(self, address: str) -> socket.socket:
        """Its queue is full: the kernel drops whatever asks for a connection."""
        server = self._open.enter_context(socket.socket())
        server.bind((address, self.port))
        server.listen(0)
        self._open.callback(server.shutdown, socket.SHUT_RDWR)
        for _ in range(3):
            waiting = self._open.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex((address, self.port))
        return server

    def _serve(self, server: socket.socket, address: str) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = server.accept()
                threading.Thread(target=self._talk, args=(connection, address), daemon=True).start()

    def _talk(self, connection: socket.socket, address: str) -> None:
        with contextlib.suppress(OSError), connection:
            if connection.recv(65536):
                self.calls.append(address)
                connection.sendall(OK)

    def call(self, *addresses: str, timeout: float = 3.0) -> int:
        policy = outbound.ConnectionPolicy(False, lambda host, port: list(addresses))
        with outbound.HttpClient(policy) as http:
            return http.request("POST", f"http://many.test:{self.port}/", content=b"{}", timeout=timeout).status_code

    def close(self) -> None:
        self._open.close()


@pytest.fixture
def here() -> Iterator[Addresses]:
    found = Addresses()
    yield found
    found.close()


@pytest.mark.parametrize("deadline", [3.0, 10.0])
def test_the_second_address_is_tried_beside_a_silent_one(here: Addresses, deadline: float) -> None:
    here.silent("127.0.0.9")
    assert here.call("127.0.0.9", "127.0.0.1", timeout=deadline) == 204


def test_it_is_tried_at_once_after_a_refusal(here: Addresses, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "STAGGER_SECONDS", 600.0)
    assert here.call("127.0.0.8", "127.0.0.7", "127.0.0.1") == 204


def test_an_address_that_is_slow_has_all_the_time_there_is(here: Addresses) -> None:
    """It answers when the others have long been tried; the kernel sends the lost packet again after a second."""
    full = here.silent("127.0.0.9")

    def answer_later() -> None:
        here._serve(full, "127.0.0.9")

    threading.Timer(2 * network.STAGGER_SECONDS, answer_later).start()
    assert here.call("127.0.0.9", "127.0.0.8", timeout=20.0) == 204
    assert here.calls == ["127.0.0.9"]


def test_the_address_that_answered_is_tried_first_from_then_on(
    here: Addresses, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.silent("127.0.0.9")
    here.call("127.0.0.9", "127.0.0.1")
    monkeypatch.setattr(network, "STAGGER_SECONDS", 600.0)  # whoever tries the dead one first waits for ever
    assert here.call("127.0.0.9", "127.0.0.1", timeout=20.0) == 204


def test_where_none_answers_nothing_was_sent(here: Addresses) -> None:
    here.silent("127.0.0.9")
    for addresses in (["127.0.0.8", "127.0.0.7"], ["127.0.0.9", "127.0.0.8"], ["127.0.0.9"], []):
        with pytest.raises(ApiError) as caught:
            here.call(*addresses, timeout=0.5)
        assert caught.value.outcome is Outcome.NOT_SENT


def test_no_descriptor_is_left_open(here: Addresses) -> None:
    here.silent("127.0.0.9")
    made: list[socket.socket] = []
    begin = network._start_connecting

    def kept(waiting: object, address: str, port: int) -> str:
        found = begin(waiting, address, port)  # type: ignore[arg-type]
        made.extend(key.fileobj for key in waiting.get_map().values())  # type: ignore[attr-defined]
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(network, "_start_connecting", kept)
        assert here.call("127.0.0.9", "127.0.0.1") == 204
    assert len(set(made)) == 2
    transport.close_idle(0)
    assert {each.fileno() for each in made} == {-1}


# --- The order -----------------------------------------------------------------------------------------------------

ADDRESS = st.one_of(
    st.integers(1, 250).map(lambda number: f"192.0.2.{number}"), st.integers(1, 250).map(lambda n: f"2001:db8::{n:x}")
)


@given(st.lists(ADDRESS, unique=True, max_size=20), st.data())
def test_the_order_has_the_known_one_first_and_the_families_by_turns(addresses: list[str], data: st.DataObject) -> None:
    reached = network._AddressMemory()
    known = data.draw(st.sampled_from(addresses)) if addresses else ""
    if known:
        reached.remember("host", 443, addresses, known)
    found = reached.sort("host", 443, addresses)
    assert found[:1] == ([known] if known else [])
    assert len(found) == len(set(found)) == min(len(addresses), network.ADDRESSES_MAX)
    assert set(found) <= set(addresses)
    six = sum(":" in address for address in found)
    others = len(found) - six
    rest = [sum((":" in address) == kind for address in addresses) for kind in (True, False)]
    assert six >= min(rest[0], network.ADDRESSES_MAX // 2)
    assert others >= min(rest[1], network.ADDRESSES_MAX // 2)


def test_so_many_names_are_remembered_and_no_more() -> None:
    reached = network._AddressMemory()
    for number in range(network.REMEMBERED_MAX + 10):
        reached.remember(f"host{number}", 443, ["192.0.2.1", "192.0.2.2"], "192.0.2.2")
    assert len(reached._addresses) == network.REMEMBERED_MAX
    assert reached.sort("host0", 443, ["192.0.2.1", "192.0.2.2"])[0] == "192.0.2.1"
    newest = f"host{network.REMEMBERED_MAX + 9}"
    assert reached.sort(newest, 443, ["192.0.2.1", "192.0.2.2"])[0] == "192.0.2.2"
    reached.remember(newest, 443, ["192.0.2.1", "192.0.2.2"], "192.0.2.1")
    assert reached.sort(newest, 443, ["192.0.2.1", "192.0.2.2"])[0] == "192.0.2.1"
