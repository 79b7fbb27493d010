"""Loopback HTTP server that answers, closes or resets its connections on demand."""

from __future__ import annotations

import queue
import socket
import struct
import threading
from collections.abc import Callable

from socialpub.base import http as outbound
from tests.support.connection_server import ConnectionServer

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


ConnectionAct = Callable[[socket.socket], bool]


LOOPBACK: outbound.Resolver = lambda host, port: ["127.0.0.1"]  # noqa: E731


def respond(answer: bytes) -> ConnectionAct:
    """Answer, and wait for the next request."""

    def act(connection: socket.socket) -> bool:
        connection.sendall(answer)
        return True

    return act


def close_connection(answer: bytes = b"") -> ConnectionAct:
    """Answer, if at all, and hang up."""

    def act(connection: socket.socket) -> bool:
        connection.sendall(answer)
        return False

    return act


def reset_connection(answer: bytes = b"") -> ConnectionAct:
    """Answer, if at all, and reset the connection."""

    def act(connection: socket.socket) -> bool:
        connection.sendall(answer)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return False

    return act


class KeepAliveServer:
    """A server that keeps connections; what it does with each request of all of them comes from a list."""

    def __init__(self, *acts: ConnectionAct) -> None:
        self.acts: queue.SimpleQueue[ConnectionAct] = queue.SimpleQueue()
        for act in acts:
            self.acts.put(act)
        self.requests: list[bytes] = []
        self.ended = threading.Semaphore(0)  # once for each connection that is over
        self._server = ConnectionServer(self._talk)
        self.port = self._server.port

    @property
    def url(self) -> str:
        return f"http://api.test:{self.port}/"

    @property
    def connections(self) -> int:
        return self._server.connections

    def _talk(self, connection: socket.socket) -> None:
        try:
            with connection:
                while head := self._request(connection):
                    self.requests.append(head)
                    if not self.acts.get(timeout=30)(connection):
                        break
        finally:
            self.ended.release()

    def _request(self, connection: socket.socket) -> bytes:
        head = b""
        while b"\r\n\r\n" not in head:
            piece = connection.recv(65536)
            if not piece:
                return b""
            head += piece
        return head

    def close(self) -> None:
        self._server.close()
