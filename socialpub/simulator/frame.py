"""The way of a call through Sanic, and of its answer back, without what nobody here listens to.

Sanic tells every step by a signal, runs middleware, and cleans and encodes each header of an answer by itself: more
work than most operations are. What does not go well, and answers in pieces, go Sanic's own way.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import cache
from types import SimpleNamespace
from typing import Any

from sanic import Sanic
from sanic.config import Config
from sanic.exceptions import ServerError
from sanic.headers import format_http1_response
from sanic.http import Http, Stage
from sanic.server.protocols.http_protocol import HttpProtocol

from socialpub.simulator.wire import Answer

NO_BODY = (204, 304)
_GO_ON = b"HTTP/1.1 100 Continue\r\n\r\n"
_ENDS_A_LINE = str.maketrans("", "", "\r\n\0")


class _Silence:
    """What is awaited in place of a signal."""

    def __await__(self) -> Generator[Any, None, None]:
        yield from ()


_SILENCE = _Silence()


class App(Sanic[Config, SimpleNamespace]):
    """Sanic whose handlers return an Answer, or None where they have answered in pieces. `ctx.date` tells the time."""

    def dispatch(self, event: str, **named: Any) -> Any:
        return _SILENCE if event.startswith("http.") else super().dispatch(event, **named)

    async def handle_request(self, request: Any) -> None:
        stream: Any = request.stream
        try:
            request.route, handler, request._match_info = self.router.get(request.path, request.method, None)
            if stream.request_body:
                await request.receive_body()
            answer: Any = await handler(request)
            if isinstance(answer, Answer):
                await stream.hand_over(answer)
            elif stream.response is None:
                raise ServerError("There is no answer.")
            else:
                await stream.response.send(end_stream=True)
        except Exception as error:  # noqa: BLE001 - each has its answer
            await self.handle_exception(request, error, run_middleware=False)


class Stream(Http):
    """Sanic's, which sends a whole answer in one go."""

    __slots__ = ()

    async def hand_over(self, answer: Answer) -> None:
        """Send an answer; the header lines are those that Sanic makes of it, in its order."""
        content = answer.content()
        has_body = answer.status not in NO_BODY
        lines = "".join(f"{name}: {_line(value)}\r\n" for name, value in answer.headers.items())
        if not any(name.lower() == "date" for name in answer.headers):
            lines += f"Date: {self.protocol.app.ctx.date()}\r\n"
        if has_body:
            lines += f"content-length: {len(content)}\r\n"
        lines += f"connection: {'keep-alive' if self.keep_alive else 'close'}\r\nalt-svc: \r\n"
        if has_body:
            lines += f"content-type: {answer.content_type if answer.body is not None else None}\r\n"
        whole = _first_line(answer.status) + lines.encode(errors="surrogateescape") + b"\r\n"
        if has_body and not self.head_only:
            whole += content
        if self.expecting_continue:
            self.expecting_continue = False
            whole = _GO_ON + whole if answer.status != 417 else whole
        self.response_func = None  # type: ignore[assignment]
        await self._send(whole)
        self.stage = Stage.IDLE


class Protocol(HttpProtocol):
    """Sanic's, over a Stream."""

    __slots__ = ()
    HTTP_CLASS = Stream


def _line(value: object) -> str:
    """A header's value, which is one line whatever stands in it."""
    text = str(value)
    return text if text.isprintable() else text.translate(_ENDS_A_LINE)


@cache
def _first_line(status: int) -> bytes:
    return format_http1_response(status, ())[:-2]
