"""Requests that no HTTP library sends, over a socket of our own."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass
from typing import Any

from socialpub.base.error_codes import ERRORS
from tests.kit import Server

PATIENCE = 10.0


@dataclass(frozen=True)
class Answer:
    """One answer as it came; `closed`: the server hung up after it."""

    status: int
    headers: dict[str, str]
    body: bytes

    def error(self) -> dict[str, Any]:
        """The envelope, checked."""
        error = json.loads(self.body)["error"]
        assert error["code"] in ERRORS
        assert error["requestId"] == self.headers["x-request-id"]
        assert error["docUrl"].endswith(error["code"])
        assert ("ruleUrl" in error) == ("rule" in error)
        return dict(error)


def connect(server: Server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), PATIENCE)


def exchange(server: Server, sent: bytes) -> Answer:
    """Send bytes on a connection of their own, and read to its end."""
    with connect(server) as line:
        line.sendall(sent)
        return read(line)


def read(line: socket.socket) -> Answer:
    """One answer, to its Content-Length; or to the end where it names none."""
    got = b""
    while b"\r\n\r\n" not in got:
        got += _more(line)
    head, _, body = got.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    status = int(first.split(" ")[1])
    if status == 100:
        return read_rest(line, body)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    while len(body) < int(headers.get("content-length", 0)):
        body += _more(line)
    return Answer(status, headers, body)


def read_rest(line: socket.socket, begun: bytes) -> Answer:
    """The answer after a `100 Continue`."""
    got = begun
    while b"\r\n\r\n" not in got:
        got += _more(line)
    head, _, body = got.partition(b"\r\n\r\n")
    return Answer(int(head.split(b" ")[1]), {}, body)


def _more(line: socket.socket) -> bytes:
    chunk = line.recv(65536)
    assert chunk, "the server closed the connection without an answer"
    return chunk
