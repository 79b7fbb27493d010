"""Application on the real server that records each parsed request and the parse position."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from sanic.config import Config
from sanic.router import Router

from socialpub.base.system import sockets
from socialpub.web import server
from socialpub.web.http import request_body
from socialpub.web.http.handler import ServerRequest
from socialpub.web.http.sanic_overrides import ServerApp, ServerResponse
from tests.support.framing_parsers import ParsedRequest

PATIENCE = 30.0


@dataclass
class ConnectionRecord:
    """What became of one connection. `refused`: the status of the answer that was no request's."""

    size: int
    received: int = 0
    taken: list[ParsedRequest] = field(default_factory=list)
    refused: int | None = None
    starved: bool = False  # the server waits for more, with everything received


class CatchAllRouter(Router):
    """Every method and path has one handler."""

    def get(self, path: str, method: str, host: str | None) -> Any:
        return self.routes[0], keep, {}


class WatchedProtocol(server.ServerProtocol):
    """The server's own, which hangs up where it would wait for bytes that no client sends."""

    __slots__ = ("line",)
    line: ConnectionRecord

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.line = self.app.ctx.by_port[transport.get_extra_info("peername")[1]]

    def data_received(self, data: bytes) -> None:
        self.line.received += len(data)
        super().data_received(data)

    async def receive_more(self) -> None:
        if self.line.received == self.line.size:
            self.line.starved = True
            assert self.transport is not None
            self.transport.close()
        await super().receive_more()


async def keep(request: ServerRequest) -> ServerResponse:
    body = await request_body.read_body(request, request_body.MIB)
    stream: Any = request.stream
    line: ConnectionRecord = stream.protocol.line
    headers = tuple(
        (name.lower().encode(), value.encode(errors="surrogateescape")) for name, value in request.headers.items()
    )
    end = line.received - len(stream.recv_buffer)
    target = request.raw_url
    line.taken.append(ParsedRequest(request.method.encode(), target, headers, body, end, stream.keep_alive))
    return ServerResponse(b"taken")


async def refuse(request: ServerRequest, error: Exception) -> ServerResponse:
    stream: Any = request.stream
    stream.protocol.line.refused = status = getattr(error, "status_code", None) or getattr(error, "status", 500)
    return ServerResponse(b"refused", status)


@contextlib.contextmanager
def running_framing_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[StreamClient]:
    """A server on loopback, with who sends it streams."""
    monkeypatch.setattr(server, "ServerProtocol", WatchedProtocol)
    config = Config(env_prefix=None)
    config.update({"ACCESS_LOG": False, "MOTD": False, "TOUCHUP": False, "CONNECTIONS_MAX": 1000})
    app = ServerApp(
        "framing", router=CatchAllRouter(), config=config, configure_logging=False, request_class=ServerRequest
    )
    ServerApp.unregister_app(app)
    app.ctx.by_port = {}
    app.exception(Exception)(refuse)
    app.add_route(keep, "/", ["GET"], stream=True)
    sock = sockets.listen("127.0.0.1", 0)
    with server.run_in_thread(server.serve_app(app, sock)):
        yield StreamClient(sock.getsockname(), app.ctx.by_port)


@dataclass
class StreamClient:
    """Sends streams, each over a connection of its own."""

    address: tuple[str, int]
    by_port: dict[int, ConnectionRecord]

    def send(self, stream: bytes) -> ConnectionRecord:
        """What the server has read of a stream, once it has closed the connection."""
        line = ConnectionRecord(len(stream))
        with socket.socket() as sock:
            sock.settimeout(PATIENCE)
            sock.bind(("127.0.0.1", 0))
            port = sock.getsockname()[1]
            self.by_port[port] = line
            sock.connect(self.address)
            with contextlib.suppress(ConnectionError):  # it has read enough
                sock.sendall(stream)
            while _more(sock):
                continue
        del self.by_port[port]
        return line


def _more(sock: socket.socket) -> bool:
    try:
        return bool(sock.recv(65536))
    except ConnectionResetError:  # closed with bytes that it had not read
        return False
