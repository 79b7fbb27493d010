"""Changes to Sanic 25.12, each with its reason or the attack it stops.

All use public hooks (`dispatch`, `HTTP_CLASS`, methods of the base classes), except for `ServerProtocol._time`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any, cast

from sanic import HTTPResponse, Sanic
from sanic.config import Config
from sanic.exceptions import BadRequest
from sanic.http import Http, Stage
from sanic.server.protocols.http_protocol import HttpProtocol

from socialpub.domain.context.app_context import RESERVED_DESCRIPTORS
from socialpub.web.http import request_framing

FIRST_BYTE_SECONDS = 0.02  # before a new connection counts as idle
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class ServerApp(Sanic[Config, SimpleNamespace]):
    """A Sanic application that dispatches no request signals: it has no listeners for them.

    Sanic looks up fourteen for each request, which doubles the cost: 135 µs in place of 68 for `GET /healthz`. Sanic's
    own remedy, TOUCHUP, recompiles its classes from their source, which a frozen binary does not contain.
    """

    def dispatch(self, event: str, **named: Any) -> Any:
        if event.startswith(("http.", "server.exception.")):
            return _no_listener()
        return super().dispatch(event, **named)


async def _no_listener() -> None:
    """Replace a dispatched signal."""


class ServerResponse(HTTPResponse):
    """A complete response. `on_lost` is called if the client disconnects before it is sent.

    `encoded`: the headers of every response. Sanic would take a seventh of `GET /healthz` to check and encode them.
    """

    __slots__ = ("_on_lost", "encoded")

    def __init__(
        self,
        body: str | bytes = b"",
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        *,
        cookies: Iterable[str] = (),
        on_lost: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__(body, status, dict(headers or {}), content_type)
        for cookie in cookies:
            self.headers.add("Set-Cookie", cookie)
        self._on_lost = on_lost
        self.encoded: list[tuple[bytes, bytes]] = []

    @property
    def processed_headers(self) -> Iterator[tuple[bytes, bytes]]:
        self.headers.pop("alt-svc", None)  # Sanic adds an empty one if TOUCHUP is off
        return itertools.chain(super().processed_headers, self.encoded)

    async def send(self, data: Any = None, end_stream: bool | None = None) -> None:
        try:
            await super().send(data, end_stream)
        except BaseException:
            self._on_lost()
            raise


class StrictHttp(Http):
    """Sanic's HTTP/1.1 reader and writer, made as strict as RFC 9112 against request smuggling."""

    __slots__ = ()

    async def http1_request_header(self) -> None:
        """Read the head of the next request. Raises BadRequest if it violates RFC 9112.

        The signal `http.lifecycle.read_head` has the same bytes, but dispatching it takes as long as the whole check.
        """
        await super().http1_request_header()  # type: ignore[no-untyped-call]
        try:
            request_framing.check_head(self.request.head)
        except request_framing.FramingError:
            # As Sanic does for a head that it cannot parse: no request, no body to wait for.
            self.request = self.request_body = None  # type: ignore[assignment]
            raise BadRequest("Bad Request") from None
        if len(self.request.headers.getall("connection", [])) > 1:
            self.keep_alive = False  # Sanic reads only the last line of several; closing is always safe
        # If set, Sanic stops checking time-outs. This server has no WebSockets.
        self.upgrade_websocket = False

    async def read(self) -> bytes | None:
        """Return the next bytes of the body, None at its end.

        Raises BadRequest for an invalid chunk.

        Sanic accepts any two bytes as the end of a chunk, and any text that `int` parses (`0x2`, ` 2`) as a size.
        """
        if cast(object, self.request_body) == "chunked" and not self.request_bytes_left:
            await self._check_chunk_header()
        return await super().read()

    async def _check_chunk_header(self) -> None:
        protocol: Any = self.protocol
        if self.expecting_continue:
            self.expecting_continue = False
            await protocol.send(_CONTINUE)
        try:
            while not request_framing.is_chunk_header(self.recv_buffer):
                await protocol.receive_more()
        except request_framing.FramingError:
            self.keep_alive = False
            raise BadRequest("Bad chunked encoding") from None


class ServerProtocol(HttpProtocol):
    """Sanic's connection with absolute time-outs, and eviction beyond `CONNECTIONS_MAX`.

    Sanic measures time-outs from the last byte (`_time`), so a client that sends a byte now and then holds a connection
    for ever. Here they run from the start of a head, or of a body that no handler reads. Sanic has no setting or hook
    for that, and no limit of connections.
    """

    __slots__ = ()
    HTTP_CLASS = StrictHttp

    def data_received(self, data: bytes) -> None:
        began, stream = self._time, self.http
        if self._waits_for_head() and request_framing.has_lone_line_feed(bytes(self.recv_buffer[-3:]), data):
            data += b"\r\n\r\n"  # Sanic would not see the end of such a head; with one, it is refused at once
        super().data_received(data)
        if stream is not None and (
            stream.stage is Stage.REQUEST or (stream.stage is Stage.IDLE and stream.request_body)
        ):
            self._time = began

    def _waits_for_head(self) -> bool:
        stream = self.http
        return stream is None or (stream.stage in (Stage.IDLE, Stage.REQUEST) and not stream.request_body)

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)  # type: ignore[no-untyped-call]
        self._time = self.loop.time()
        most = self.app.config.CONNECTIONS_MAX
        over = len(self.connections) - most
        if over > 0 and over % 8 == 1:
            self.loop.call_later(FIRST_BYTE_SECONDS, _evict_idle, self.connections, most)
        elif over > RESERVED_DESCRIPTORS // 2 and not _evict_idle(self.connections, most):
            _close(self.connections, self)

    def is_idle(self) -> bool:
        """Return whether the client has not yet sent a request, or not all of its head."""
        stream = self.http
        if stream is not None and stream.stage is Stage.REQUEST:
            return True
        return not self.recv_buffer and (stream is None or (stream.stage is Stage.IDLE and not stream.request_body))

    def idle_since(self) -> tuple[bool, float]:
        """Return a sort key: clients that have sent nothing first, then the longest idle first."""
        return self.http is not None and self.http.stage is Stage.REQUEST, self._time


def _evict_idle(connections: set[Any], most: int) -> int:
    """Close the longest idle of the connections beyond `most`; return how many were closed."""
    idle = sorted(filter(ServerProtocol.is_idle, connections), key=ServerProtocol.idle_since)[
        : max(0, len(connections) - most)
    ]
    for connection in idle:
        _close(connections, connection)
    return len(idle)


def _close(connections: set[Any], connection: ServerProtocol) -> None:
    connections.discard(connection)
    cast(Any, connection.transport).close()
