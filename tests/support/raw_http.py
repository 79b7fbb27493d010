"""Raw socket HTTP client for requests that no library sends."""

from __future__ import annotations

import contextlib
import json
import socket
from dataclasses import dataclass
from typing import Any

from socialpub.base.error_codes import ERRORS
from tests.support.app_server import AppServer

PATIENCE = 10.0


@dataclass(frozen=True)
class RawResponse:
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


def connect(server: AppServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), PATIENCE)


def send_raw(server: AppServer, sent: bytes) -> RawResponse:
    """Send bytes on a connection of their own, and read its answer, which may come before all is sent."""
    with connect(server) as line:
        with contextlib.suppress(ConnectionError):
            line.sendall(sent)
        return read_response(line)


def send_bytes_one_by_one(line: socket.socket, sent: bytes) -> None:
    """Send each byte in a packet of its own, until the server has refused what it has: the answer can still be read."""
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with contextlib.suppress(ConnectionError):
        for byte in sent:
            line.sendall(bytes([byte]))


def read_response(line: socket.socket) -> RawResponse:
    """One answer, to its Content-Length and not a byte further: the next may have come with it."""
    first, *lines = _head(line)
    status = int(first.split(" ")[1])
    if status == 100:
        return RawResponse(int(_head(line)[0].split(" ")[1]), {}, b"")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return RawResponse(status, headers, _exactly(line, int(headers.get("content-length", 0))))


def _head(line: socket.socket) -> list[str]:
    """The lines of one head. Byte for byte, so that nothing of what follows is taken."""
    got = b""
    while not got.endswith(b"\r\n\r\n"):
        got += _some(line, 1)
    return got[:-4].decode("latin-1").split("\r\n")


def _exactly(line: socket.socket, size: int) -> bytes:
    got = b""
    while len(got) < size:
        got += _some(line, size - len(got))
    return got


def _some(line: socket.socket, most: int) -> bytes:
    chunk = line.recv(most)
    assert chunk, "the server closed the connection without an answer"
    return chunk
