"""Shutdown: a waiting validation is answered, and a response in progress is sent."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from socialpub.web import app
from socialpub.web.server import ServerProtocol
from tests.support.app_server import AppServer, Person
from tests.support.soak.soak_world import wait_for


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """It takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def validate(person: Person, silent: socket.socket) -> dict[str, Any]:
    picture = {"kind": "image", "url": f"http://127.0.0.1:{silent.getsockname()[1]}/a.jpg"}
    body = {"text": "a", "targets": [{"accountId": person.bluesky}], "media": [picture]}
    answer = person.api.post("/v1/posts/validate", json=body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["results"][0])


def test_a_validation_is_answered_when_the_server_stops(
    server: AppServer, alice: Person, silent: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "DRAIN_SECONDS", 0.2)
    monkeypatch.setattr(app, "ANSWER_SECONDS", 30.0)  # it ends with the answer, not with its time
    answers: list[dict[str, Any]] = []
    asking = threading.Thread(target=lambda: answers.append(validate(alice, silent)))
    asking.start()
    connection, _ = silent.accept()
    assert server.service.is_busy()  # so that the process does not wait for the thread
    server._running.close()
    asking.join(60)
    connection.close()
    assert [warning["code"] for warning in answers[0]["warnings"]] == ["media_unmeasured"]
    assert wait_for(lambda: not server.service.is_busy(), 60)


def test_an_answer_that_is_on_its_way_when_the_server_stops_is_sent(
    server: AppServer, alice: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its handler has come to its end, and nothing is left to wait for but the bytes."""
    handing, send = threading.Event(), ServerProtocol.send

    async def slowly(line: ServerProtocol, data: bytes) -> None:
        handing.set()
        while not server.service.waiting.is_closed:
            await asyncio.sleep(0.001)
        for _ in range(50):  # rounds of the loop, in which the stop goes on
            await asyncio.sleep(0)
        await send(line, data)

    monkeypatch.setattr(ServerProtocol, "send", slowly)
    told: list[int] = []
    asking = threading.Thread(target=lambda: told.append(alice.api.get("/v1/accounts").status_code))
    asking.start()
    assert handing.wait(60)
    server._running.close()
    asking.join(60)
    assert told == [200]
