"""Running the application on a loop of our own: in the foreground until a signal, or for a while in a thread.

Not Sanic's `run`: a signal in its first moments kills it or is lost, and its listeners may run twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from sanic import Sanic
from sanic.http import Stage
from sanic.server.protocols.http_protocol import HttpProtocol

START_SECONDS = 30.0
BACKLOG = 1024  # connections that wait to be accepted; beyond it a client tries again after a second


def serve(app: Sanic[Any, Any], sock: socket.socket, ready: Callable[[], None] = lambda: None) -> None:
    """Serve until SIGTERM or SIGINT, then drain and return; `ready` is called once the port answers."""

    async def main() -> None:
        asked_to_stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, asked_to_stop.set)
        async with running(app, sock):
            ready()
            await asked_to_stop.wait()

    with _runner() as runner:
        runner.run(main())


def _runner() -> asyncio.Runner:
    if sys.platform == "win32":
        return asyncio.Runner()
    import uvloop  # comes with Sanic where it exists

    return asyncio.Runner(loop_factory=uvloop.new_event_loop)


class Protocol(HttpProtocol):
    """Sanic's, whose times hold against a byte now and then: for all of the headers, and for a body nobody reads."""

    __slots__ = ()

    def data_received(self, data: bytes) -> None:
        began = self._time
        super().data_received(data)
        stream = self.http
        if stream is not None and (
            stream.stage is Stage.REQUEST or (stream.stage is Stage.IDLE and stream.request_body)
        ):
            self._time = began


@contextlib.asynccontextmanager
async def running(app: Sanic[Any, Any], sock: socket.socket) -> AsyncIterator[None]:
    """The application, serving on this loop while the block runs. Its listeners run once, in order."""
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
    await server.startup()
    await server.before_start()
    await server.start_serving()
    await server.after_start()
    try:
        yield
    finally:
        server.server.close()  # no new connections; the ones that are open are answered first
        await server.before_stop()
        for connection in list(server.connections):
            connection.close()
        await server.after_stop()
        Sanic.unregister_app(app)


@contextlib.contextmanager
def in_thread(app: Sanic[Any, Any], sock: socket.socket) -> Iterator[None]:
    """The application, serving on a loop of its own thread while the block runs."""
    ready = threading.Event()
    stops: list[Callable[[], None]] = []
    failures: list[BaseException] = []

    async def main() -> None:
        asked_to_stop, loop = asyncio.Event(), asyncio.get_running_loop()
        async with running(app, sock):
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
        thread.join(START_SECONDS)
    if failures:
        raise failures[0]
