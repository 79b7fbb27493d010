"""The way of a request through Sanic, and of its answer back, without what nobody here listens to.

Sanic tells every step by a signal, looks for middleware at two places, and cleans and encodes each header by itself:
more work than most answers are. Here the head of a request is read in one go, the request goes from the router to its
handler, and the head of an answer is one text. The rest (reading bodies, times, errors of the protocol, files in
pieces) is Sanic's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any, NamedTuple, Protocol, cast

from sanic import HTTPResponse, Request, Sanic
from sanic.compat import Header
from sanic.config import Config
from sanic.exceptions import BadRequest, ExpectationFailed, PayloadTooLarge, RequestCancelled
from sanic.http import Http, Stage
from sanic.response import ResponseStream

from socialpub.web import framing

NO_BODY = (204, 304)
HEAD_ENDS = b"\r\n\r\n"
KNOWN_MOST = 2048  # bytes of a head that is kept for as long as its connection is open
_STAYS_OPEN = {"HTTP/1.1": True, "HTTP/1.0": False}
_OF_A_BODY = frozenset(("content-length", "transfer-encoding"))
_BLANKS = " \t"
_GO_ON = "HTTP/1.1 100 Continue\r\n\r\n"
FIRST_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n" for status in HTTPStatus}
_ENDS_A_LINE = str.maketrans("", "", "\r\n\0")


class Frame(Protocol):
    """What every request meets, and every answer carries."""

    def greet(self, request: Any) -> None:
        """Look at a request before it is routed; what this raises is its answer."""

    def dress(self, request: Any, response: Any) -> str:
        """The header lines, each with its end, that an answer carries beside its own; it goes out now."""

    def miss(self, request: Any) -> None:
        """Whoever sent a request has gone before its answer."""


class Silence:
    """What is awaited in place of a signal."""

    def __await__(self) -> Generator[Any, None, None]:
        yield from ()


_SILENCE = Silence()


def _tell_nobody(event: str, **_: Any) -> Silence:
    return _SILENCE


class Parcel(HTTPResponse):
    """A whole answer: it is sent at once, and tells when there is nobody to take it."""

    __slots__ = ("lost", "set_cookies")
    body: bytes

    def __init__(
        self,
        body: str | bytes = b"",
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        set_cookies: tuple[str, ...] = (),
        lost: Callable[[], object] = lambda: None,
    ) -> None:
        # Not Sanic's own, which copies the headers twice: these are read once.
        self.asgi = False
        self.stream = self._cookies = None
        self.body = body.encode() if isinstance(body, str) else body
        self.status, self.content_type = status, content_type
        self.headers = headers or {}  # type: ignore[assignment]
        self.set_cookies, self.lost = set_cookies, lost

    async def send(self, data: Any = None, end_stream: bool | None = None) -> None:
        stream: Any = self.stream
        await stream.hand_over()


class App(Sanic[Config, SimpleNamespace]):
    """Sanic with a way from the router to the handler that has nothing beside it: no signals, and no middleware but
    `ctx.frame`, a Frame."""

    @classmethod
    def register_app(cls, app: Any) -> None:
        """Not in the list of all applications that Sanic keeps for processes of its own: one that never comes to serve
        would stay in it, and keep the next of its name from being made."""

    def dispatch(self, event: str, **named: Any) -> Any:
        if event.startswith(("http.", "server.exception.")):
            return _SILENCE
        return super().dispatch(event, **named)

    def finalize(self) -> None:
        if not self.router.finalized:  # by another application of this process, which has the same routes
            super().finalize()

    async def handle_request(self, request: Request[Any, Any]) -> None:
        try:
            self.ctx.frame.greet(request)
            request.route, handler, request._match_info = self.router.get(request.path, request.method, None)
            stream: Any = request.stream
            if stream.request_body:
                stream.request_max_size = math.inf  # whoever reads it knows how much is taken
            answer: Any = await handler(request)
            if isinstance(answer, ResponseStream):  # a file, in pieces
                await answer(request)
                await answer.eof()
                return
            stream.respond(answer)
            request.responded = True
            await stream.hand_over()
        except Exception as error:  # noqa: BLE001 - each has its answer
            await self.handle_exception(request, error, run_middleware=False)


class Head(NamedTuple):
    """A head as it came, with its end, and what stands in it. Nobody changes its headers: more than one request has
    them."""

    raw: bytes
    method: str
    target: str
    url: bytes
    version: str
    headers: Header
    has_body: bool
    length: int | None  # of a body that comes as nearly all do: it is told, and nothing is waited for
    keep_alive: bool
    head_only: bool


class Stream(Http):
    """Sanic's, which reads the head of a request, and writes a whole answer, in one go.

    Whoever asks again on the same connection says the same of himself, as a rule: a head that has come before is known.
    """

    __slots__ = ("_known",)

    def __init__(self, protocol: Any) -> None:
        super().__init__(protocol)  # type: ignore[no-untyped-call]
        self._known: Head | None = None  # the last one
        self.dispatch = _tell_nobody  # type: ignore[assignment]

    async def error_response(self, exception: BaseException) -> None:
        """The answer to what went wrong; none is made for whoever has gone: hundreds may go at once."""
        about = self.protocol.conn_info
        if isinstance(exception, RequestCancelled) and about is not None and about.lost:
            if self.request is not None:
                self.protocol.app.ctx.frame.miss(self.request)
            raise exception
        await super().error_response(exception)  # type: ignore[arg-type]

    # --- Reading a head ---

    async def http1_request_header(self) -> None:
        """Read the head of the next request into `request`, by Sanic's own rules.

        BadRequest, ExpectationFailed, PayloadTooLarge. No answer is ever a WebSocket, so none is looked for.
        """
        buffer: bytearray = self.recv_buffer
        protocol: Any = self.protocol
        end = buffer.find(HEAD_ENDS)
        if not 0 <= end < self.HEADER_MAX_SIZE:
            end = await self._end_of_head()
        head = self._known
        if head is not None and buffer.startswith(head.raw):
            self.url, self.keep_alive, self.head_only = head.target, head.keep_alive, head.head_only
        else:
            head = self._read_head(bytes(buffer[: end + len(HEAD_ENDS)]))
            self._known = head if end < KNOWN_MOST else None
        request = protocol.request_class(
            head.url, head.headers, head.version, head.method, protocol.transport, protocol.app
        )
        self.request_bytes_left = self.request_bytes = 0
        if head.length is not None:
            self.request_body = True  # type: ignore[assignment]
            self.request_bytes_left = self.request_bytes = head.length
        elif head.has_body:
            end -= self._expect_body(head.headers)
        del buffer[: end + len(HEAD_ENDS)]
        self.request, request.stream = request, self

    async def _end_of_head(self) -> int:
        """Wait for the rest of a head; where it ends in the buffer. BadRequest where its lines end with a lone LF."""
        buffer: bytearray = self.recv_buffer
        looked = 0
        while (end := buffer.find(HEAD_ENDS, looked)) < 0:
            begun, looked = looked - 1, max(0, len(buffer) - len(HEAD_ENDS) + 1)
            if looked >= self.HEADER_MAX_SIZE:
                break
            try:
                framing.check_begun(buffer, begun)
            except framing.FramingError:
                raise BadRequest("Bad Request") from None
            await self._receive_more()
        if max(end, looked) >= self.HEADER_MAX_SIZE:
            raise PayloadTooLarge("The head is too large.")
        return end

    def _read_head(self, raw: bytes) -> Head:
        """What stands in a head; BadRequest for what is none by RFC 9112."""
        first, *lines = raw[: -len(HEAD_ENDS)].decode(errors="surrogateescape").split("\r\n")
        pairs, has_body, connection = [], False, list[str]()
        try:
            method, target, version = first.split(" ")
            self.url = target
            framing.check_head(raw[: -len(HEAD_ENDS)])
        except ValueError:
            raise BadRequest("Bad Request") from None
        self.head_only = method.upper() == "HEAD"
        for line in lines:
            name, value = line.split(":", 1)
            name, value = name.lower(), value.strip(_BLANKS)
            has_body = has_body or name in _OF_A_BODY
            if name == "connection":
                connection.append(value.lower())
            pairs.append((name, value))
        # Closing is always safe: anything else than a lone `keep-alive` closes, in whichever line it stands.
        self.keep_alive = set(connection) == {"keep-alive"} if connection else _STAYS_OPEN[version]
        url, headers = target.encode("ascii"), Header(pairs)
        length = _plain_length(headers) if has_body else None
        return Head(raw, method, target, url, version[5:], headers, has_body, length, self.keep_alive, self.head_only)

    def _expect_body(self, headers: Header) -> int:
        """Take note of how the body comes; how many bytes of the head's end are its beginning."""
        expected = headers.get("expect")
        if expected is not None:
            if expected.lower() != "100-continue":
                raise ExpectationFailed(f"Unknown Expect: {expected}")
            self.expecting_continue = True
        if "transfer-encoding" in headers:
            self.request_body = "chunked"  # type: ignore[assignment]
            return 2  # each chunk begins with the end of a line
        self.request_body = True  # type: ignore[assignment]
        self.request_bytes_left = self.request_bytes = int(headers["content-length"])
        return 0

    # --- Reading a body ---

    async def read(self) -> bytes | None:
        """The next bytes of the body, None at its end; BadRequest for a chunk that is none by RFC 9112.

        Sanic takes any two bytes for the end of a chunk, and any text that `int` reads for a size.
        """
        if cast(object, self.request_body) == "chunked" and not self.request_bytes_left:
            await self._await_chunk_header()
        return await super().read()

    async def _await_chunk_header(self) -> None:
        if self.expecting_continue:
            self.expecting_continue = False
            await self._send(_GO_ON.encode())
        try:
            while not framing.is_chunk_header(self.recv_buffer):
                await self._receive_more()
        except framing.FramingError:
            self.keep_alive = False
            raise BadRequest("Bad chunked encoding") from None

    def body_at_hand(self, most: int) -> bytes | None:
        """The whole body, taken, where all of it is here and it is not more than `most`; None: it is to be read."""
        buffer, size, how = self.recv_buffer, self.request_bytes_left or 0, cast(object, self.request_body)
        if how is not True or self.expecting_continue or not 0 < size <= most or len(buffer) < size:
            return None
        body = bytes(buffer[:size])
        del buffer[:size]
        self.request_body, self.request_bytes_left = None, 0
        return body

    # --- Writing an answer ---

    async def hand_over(self) -> None:
        """Send `response`, a Parcel, where no other was sent or tried; it is told where there is nobody to take it."""
        parcel: Any = self.response
        if self.response_func is None:
            return
        try:
            whole = self._whole(parcel, self.protocol.app.ctx.frame.dress(self.request, parcel))
            self.response_func = None  # type: ignore[assignment]
            await self._send(whole)
        except BaseException:
            parcel.lost()
            raise
        self.stage = Stage.IDLE

    async def http1_response_header(self, data: bytes, end_stream: bool) -> None:
        """The head of an answer that comes in pieces, with its first one."""
        response = self.response
        for line in self.protocol.app.ctx.frame.dress(self.request, response).split("\r\n")[:-1]:
            response.headers.setdefault(*line.split(": ", 1))
        await super().http1_response_header(data, end_stream)

    def _whole(self, parcel: Parcel, lines: str) -> bytes:
        status, body = parcel.status, parcel.body
        first = FIRST_LINES[status]
        if self.expecting_continue:
            self.expecting_continue = False
            first = first if status == 417 else _GO_ON + first
        if parcel.headers or parcel.set_cookies:
            lines += own_lines(parcel)
        if status not in NO_BODY:
            lines += f"content-length: {len(body)}\r\ncontent-type: {parcel.content_type}\r\n"
        lines += "connection: keep-alive\r\n\r\n" if self.keep_alive else "connection: close\r\n\r\n"
        head = (first + lines).encode(errors="surrogateescape")
        return head if self.head_only or status in NO_BODY else head + body


def _plain_length(headers: Header) -> int | None:
    """The length of a body that comes in one piece without being asked for; None for any other."""
    return int(headers["content-length"]) if "content-length" in headers and "expect" not in headers else None


def own_lines(parcel: Parcel) -> str:
    """The header lines that an answer brought along; whatever stands in a value, it is one line."""
    lines = ""
    for name, value in parcel.headers.items():
        lines += f"{name}: {value if value.isprintable() else value.translate(_ENDS_A_LINE)}\r\n"
    for cookie in parcel.set_cookies:
        lines += f"Set-Cookie: {cookie if cookie.isprintable() else cookie.translate(_ENDS_A_LINE)}\r\n"
    return lines
