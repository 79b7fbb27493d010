"""Running on a loop of our own: the application, and whatever is entered, until a signal or for a while in a thread.

Not Sanic's `run`: a signal in its first moments kills it or is lost, and its listeners may run twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

from sanic import Sanic
from sanic.exceptions import RequestCancelled
from sanic.http import Stage
from sanic.server.protocols.http_protocol import HttpProtocol

from socialpub.base import loops
from socialpub.base.admission import Pacer
from socialpub.base.host import DESCRIPTORS_MOST, descriptors
from socialpub.domain.core.service import FILES
from socialpub.web.wire import Stream

Life = AbstractAsyncContextManager[None]  # what runs from a start to a stop

START_SECONDS, STOP_SECONDS = 30.0, 60.0
CONNECTIONS_MOST = DESCRIPTORS_MOST
FIRST_BYTE_SECONDS = 0.02  # in which a new connection may show that it has something to say
UNREAD_SPEED = 32 * 1024 * 1024  # bytes a second, of all bodies that nobody reads: to take them in costs as much
SWITCH_SECONDS = 0.001  # for which a thread that computes may keep the loop waiting; Python's own is five times that
ACCEPTED_AT_ONCE = 16  # connections, each time that the loop goes round: what their requests ask for is behind that
LEFT_AT_ONCE = 8  # requests whose clients have gone that are ended, each time that the loop goes round
ANSWERING = (Stage.HANDLER, Stage.RESPONSE, Stage.FAILED)
SENDING_SECONDS = 1.0  # that a stop leaves answers which are on their way
LOOK_SECONDS = 0.002
BACKLOG = 1024  # connections that wait to be accepted; beyond it a client tries again after a second


def until_signal(life: Life, ready: Callable[[], None] = lambda: None) -> None:
    """Enter `life` until SIGTERM or SIGINT, then leave it and return; `ready` is called once it was entered."""

    async def main() -> None:
        asked_to_stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, asked_to_stop.set)
        async with life:
            ready()
            await asked_to_stop.wait()

    with loops.runner() as runner:
        runner.run(main())


def connections_max(reserved: int) -> int:
    """How many connections may be open: what descriptors there are, less what calls to platforms and files need."""
    known = descriptors()
    return max(known - reserved - FILES, known // 2)


class Leaving:
    """Ends the requests of clients that have gone: a few each time that the loop goes round, for hundreds may go."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self._tasks = loop, deque[asyncio.Task[Any]]()

    def end(self, task: asyncio.Task[Any]) -> None:
        if not self._tasks:
            self._loop.call_soon(self._end_some)
        self._tasks.append(task)

    def _end_some(self) -> None:
        for _ in range(min(LEFT_AT_ONCE, len(self._tasks))):
            self._tasks.popleft().cancel()
        if self._tasks:
            self._loop.call_soon(self._end_some)


class Protocol(HttpProtocol):
    """Sanic's, whose times hold against a byte now and then: for all of the headers, and for a body nobody reads.

    Such a body is dropped here at a pace of its own: a client may hear the answer only after it has sent all of it.
    Beyond as many connections as there is room for, those go that have been idle for longest.
    """

    __slots__ = ("_buffer_most", "_more")
    HTTP_CLASS = Stream

    def __init__(self, *, app: Sanic[Any, Any], connections: object, **given: Any) -> None:
        super().__init__(app=app, connections=app.ctx.lines, **given)  # of all that listen
        self._http: Stream | None = None
        self._more: asyncio.Future[None] | None = None  # what waits for bytes
        self._buffer_most = app.config.REQUEST_BUFFER_SIZE

    async def send(self, data: bytes) -> None:
        if not self._can_write.is_set():
            await self._can_write.wait()
        if self.transport is None or self.transport.is_closing():
            raise RequestCancelled
        self.transport.write(data)
        self._time = self.loop.time()

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)  # type: ignore[no-untyped-call]
        self._time = self.loop.time()
        over = len(self.connections) - self.app.config.CONNECTIONS_MAX
        if over > 0 and over % 8 == 1:
            self.loop.call_later(FIRST_BYTE_SECONDS, _make_room, self.connections, self.app.config.CONNECTIONS_MAX)
        elif over > FILES // 2 and not _make_room(self.connections, self.app.config.CONNECTIONS_MAX):
            _drop(self.connections, self)

    def connection_lost(self, exc: Exception | None) -> None:
        task = None
        if self.http is not None and self.http.stage is Stage.HANDLER:
            task, self._task = self._task, None
        super().connection_lost(exc)  # type: ignore[no-untyped-call]
        if task is not None:
            self.app.ctx.leaving.end(task)

    async def receive_more(self) -> None:
        transport: Any = self.transport
        transport.resume_reading()
        self._more = self.loop.create_future()
        await self._more

    def data_received(self, data: bytes) -> None:
        stream = self._http
        is_begun = stream is not None and (
            stream.stage is Stage.REQUEST or (stream.stage is Stage.IDLE and stream.request_body)
        )
        if is_begun and self._drops(stream, data):
            return
        self.recv_buffer += data
        if len(self.recv_buffer) >= self._buffer_most and self.transport is not None:
            self.transport.pause_reading()
        if not is_begun:
            self._time = self.loop.time()
        if self._more is not None and not self._more.done():
            self._more.set_result(None)

    def _drops(self, stream: Any, data: bytes) -> bool:
        """Whether this was some of a body that nobody reads, and not yet its end: Sanic need not look at it."""
        transport = self.transport
        if transport is None or stream.stage is not Stage.IDLE:
            return False
        if self.recv_buffer or len(data) >= stream.request_bytes_left:
            return False
        stream.request_bytes_left -= len(data)
        transport.pause_reading()
        self.loop.call_later(self.app.ctx.unread.wait("", self.loop.time(), len(data)), _go_on_reading, transport)
        return True


def _go_on_reading(transport: Any) -> None:
    if not transport.is_closing():
        transport.resume_reading()


def _make_room(lines: set[Any], most: int) -> int:
    """Close as many connections as there are too many, those idle for longest; how many."""
    idle = sorted(filter(_is_idle, lines), key=_idle_for)[: max(0, len(lines) - most)]
    for line in idle:
        _drop(lines, line)
    return len(idle)


def _drop(lines: set[Any], line: Any) -> None:
    lines.discard(line)
    line.transport.close()


def _is_idle(line: Any) -> bool:
    """Whether a connection waits for a request, or for the rest of its headers."""
    stream = line.http
    if stream is not None and stream.stage is Stage.REQUEST:
        return True
    return not line.recv_buffer and (stream is None or (stream.stage is Stage.IDLE and not stream.request_body))


def _idle_for(line: Any) -> tuple[bool, float]:
    """Who sends nothing goes before who sends headers, and the oldest first."""
    return line.http is not None and line.http.stage is Stage.REQUEST, line._time


@contextlib.asynccontextmanager
async def running(app: Sanic[Any, Any], sock: socket.socket) -> AsyncIterator[None]:
    """The application, serving on this loop while the block runs. Its listeners run once, in order."""
    sys.setswitchinterval(SWITCH_SECONDS)
    app.ctx.unread = Pacer(1 / UNREAD_SPEED)
    app.ctx.lines, app.ctx.leaving = set(), Leaving(asyncio.get_running_loop())
    servers = [await _server(app, sock)]
    servers += [await _server(app, sock.dup()) for _ in range(_copies())]
    server = servers[0]
    await server.startup()
    await server.before_start()
    for each in servers:
        await each.start_serving()
    await server.after_start()
    try:
        yield
    finally:
        for each in servers:
            each.server.close()  # no new connections; the ones that are open are answered first
        await server.before_stop()
        await _hang_up(app.ctx.lines)
        await server.after_stop()


async def _hang_up(lines: Collection[Any]) -> None:
    """Close all connections, each once its answer is with the client: a handler's end is not yet that of its answer."""
    loop = asyncio.get_running_loop()
    until = loop.time() + SENDING_SECONDS
    while lines:
        is_over = loop.time() >= until
        for line in list(lines):
            if is_over or line.http is None or line.http.stage not in ANSWERING:
                line.close()
        if is_over:
            return
        await asyncio.sleep(LOOK_SECONDS)  # what is closed leaves the collection once its bytes are out


def _copies() -> int:
    """How many copies of a socket listen beside it: uvloop accepts one connection for each that it looks at. Who comes
    while many others do would wait for all that they ask for. Python's own loop accepts whoever is there.
    """
    own = isinstance(asyncio.get_running_loop(), asyncio.BaseEventLoop)
    return 0 if own else ACCEPTED_AT_ONCE - 1


async def _server(app: Sanic[Any, Any], sock: socket.socket) -> Any:
    server = await app.create_server(
        sock=sock,
        protocol=Protocol,
        backlog=BACKLOG,
        return_asyncio_server=True,
        asyncio_server_kwargs={"start_serving": False},  # asyncio would serve before the listeners have run
        access_log=False,
    )
    if server is None or server.server is None:
        raise RuntimeError("the server did not start")
    return server


@contextlib.contextmanager
def in_thread(life: Life) -> Iterator[None]:
    """`life`, entered on a loop of its own thread while the block runs."""
    ready = threading.Event()
    stops: list[Callable[[], None]] = []
    failures: list[BaseException] = []

    async def main() -> None:
        asked_to_stop, loop = asyncio.Event(), asyncio.get_running_loop()
        async with life:
            stops.append(lambda: loop.call_soon_threadsafe(asked_to_stop.set))  # type: ignore[arg-type]
            ready.set()
            await asked_to_stop.wait()

    def run() -> None:
        try:
            asyncio.run(main())
        except BaseException as error:  # noqa: BLE001 - raised again where the block ends
            failures.append(error)
        finally:
            ready.set()

    thread = threading.Thread(target=run, name="web", daemon=True)
    thread.start()
    try:
        if not ready.wait(START_SECONDS) or failures:
            raise RuntimeError("the server did not start") from next(iter(failures), None)
        yield
    finally:
        for stop in stops:
            stop()
        thread.join(STOP_SECONDS)
    if failures:
        raise failures[0]
    if thread.is_alive():
        raise RuntimeError("the server did not stop")
