"""Run the application on an event loop, until a signal or in a thread.

Sanic's `run` is not used: a signal in its first moments kills it or is lost, and its listeners may run twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

from sanic import Sanic

from socialpub.base.system import event_loops
from socialpub.base.system.host_identity import get_file_limit
from socialpub.domain.context.app_context import RESERVED_DESCRIPTORS
from socialpub.web.http.sanic_overrides import ServerProtocol

Lifespan = AbstractAsyncContextManager[None]

START_SECONDS, STOP_SECONDS = 30.0, 60.0
SWITCH_SECONDS = 0.001  # interpreter switch interval: how long a busy thread may delay the event loop (default 5 ms)
SEND_SECONDS = 1.0  # at shutdown, for responses that are being sent
POLL_SECONDS = 0.002
BACKLOG = 1024  # connections not yet accepted; beyond it the client's kernel retries after a second


def run_until_signal(life: Lifespan, ready: Callable[[], None] = lambda: None) -> None:
    """Enter `life` until SIGTERM or SIGINT. `ready` is called once it was entered."""

    async def main() -> None:
        stop_requested = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop_requested.set)
        async with life:
            ready()
            await stop_requested.wait()

    with event_loops.new_runner() as runner:
        runner.run(main())


def connections_max(reserved: int) -> int:
    """Return the most open connections: file descriptors less those for upstream and files."""
    known = get_file_limit()
    return max(known - reserved - RESERVED_DESCRIPTORS, known // 2)


@contextlib.asynccontextmanager
async def serve_app(app: Sanic[Any, Any], sock: socket.socket) -> AsyncIterator[None]:
    """Serve the application on this event loop while the block runs. Its listeners run once."""
    sys.setswitchinterval(SWITCH_SECONDS)
    server = await _make_server(app, sock)
    await server.startup()
    await server.before_start()
    await server.start_serving()
    await server.after_start()
    try:
        yield
    finally:
        server.server.close()  # accept no more connections; open ones get their responses
        await server.before_stop()
        await _close_connections(server.connections)
        await server.after_stop()


async def _close_connections(connections: Collection[Any]) -> None:
    """Close all connections, each once its response is sent, or after SEND_SECONDS."""
    loop = asyncio.get_running_loop()
    until = loop.time() + SEND_SECONDS
    while connections and loop.time() < until:
        for connection in list(connections):
            connection.close_if_idle()
        await asyncio.sleep(POLL_SECONDS)  # a connection leaves the collection once its bytes are sent
    for connection in list(connections):
        connection.close()


async def _make_server(app: Sanic[Any, Any], sock: socket.socket) -> Any:
    server = await app.create_server(
        sock=sock,
        protocol=ServerProtocol,
        backlog=BACKLOG,
        return_asyncio_server=True,
        asyncio_server_kwargs={"start_serving": False},  # else asyncio serves before the listeners have run
        access_log=False,
    )
    if server is None or server.server is None:
        raise RuntimeError("the server did not start")
    return server


@contextlib.contextmanager
def run_in_thread(life: Lifespan) -> Iterator[None]:
    """Run `life` on an event loop in a new thread while the block runs."""
    ready = threading.Event()
    stops: list[Callable[[], None]] = []
    failures: list[BaseException] = []

    async def main() -> None:
        stop_requested, loop = asyncio.Event(), asyncio.get_running_loop()
        async with life:
            stops.append(lambda: loop.call_soon_threadsafe(stop_requested.set))  # type: ignore[arg-type]
            ready.set()
            await stop_requested.wait()

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
