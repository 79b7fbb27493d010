"""Requests whose client disconnects, and servers whose threads are busy."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from socialpub.store.schema.models import Post
from tests.support import raw_http
from tests.support.app_server import Person, fill_slots, sleep_briefly
from tests.support.request_cast import RequestCast


def bytes_of(world: RequestCast, person: Person, body: dict[str, Any], *headers: str) -> bytes:
    content = json.dumps(body).encode()
    lines = [f"Authorization: Bearer {person.key}", f"Content-Length: {len(content)}", "Host: here", *headers]
    return "\r\n".join(["POST /v1/posts HTTP/1.1", *lines, "", ""]).encode() + content


def drop(world: RequestCast, body: dict[str, Any], person: Person | None = None, *headers: str) -> None:
    """Send a request and go away before its answer, as a tool does whose time limit is over."""
    before, seen = len(world.server.rows(Post)), set(world.server.service.lost.undelivered)
    line = raw_http.connect(world.server)
    line.sendall(bytes_of(world, person or world.alice, body, *headers))
    while len(world.server.rows(Post)) == before:
        sleep_briefly()
    line.shutdown(socket.SHUT_RDWR)
    line.close()
    while not headers and seen.issuperset(world.server.service.lost.undelivered):
        sleep_briefly()


@contextmanager
def busy(world: RequestCast) -> Iterator[None]:
    """Nothing immediate is published while the block runs."""
    done = threading.Event()
    (held,) = fill_slots(world.server.service.executors.immediate.submit, 1, done)
    try:
        yield
    finally:
        done.set()
        held.result()
