"""Server of the simulator: control page and fake platforms, each on its own port."""

from __future__ import annotations

import asyncio
import functools
import itertools
import signal
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

from sanic import Request, Sanic
from sanic.exceptions import SanicException
from sanic.response import HTTPResponse
from sanic.server.async_server import AsyncioServer

from socialpub.base.runtime import Clock, SystemClock
from socialpub.base.system import event_loops
from socialpub.simulator import control_app, dispatch
from socialpub.simulator.contract import FakePlatform, Operation, http_date
from socialpub.simulator.registry import FAKES
from socialpub.simulator.state import SimulatorState

PORTS = len(FAKES) + 1
"""Number of ports: control page and one per platform."""
_PATIENCE = 24 * 3600  # seconds; faults may delay a call that long
_LAST_PORT = 65_535
START_SECONDS = 60  # limit for a start, on a busy machine too
_numbers = itertools.count(1)


@dataclass
class RunningSimulator:
    """Running simulator. `url`: control page; `origins`: platforms."""

    lab: SimulatorState
    url: str = ""
    origins: dict[str, str] = field(default_factory=dict)
    _servers: list[AsyncioServer] = field(default_factory=list)
    _tasks: set[asyncio.Task[Any]] = field(default_factory=set)

    async def close(self) -> None:
        """Stop listening, cut every connection and cancel pending effects."""
        for task in list(self._tasks):
            task.cancel()
        for server in self._servers:
            listening = cast(asyncio.Server, server.server)
            listening.close()
            for connection in list(server.connections):
                connection.abort()
            await listening.wait_closed()
            Sanic.unregister_app(server.app)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _listen(self, make_app: Callable[[], Sanic[Any, Any]], host: str, port: int) -> str:
        if port > _LAST_PORT:
            raise OverflowError  # `create_server` raises it too, but leaves its socket open
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family)  # Sanic would replace port 0 by 8000
        app = make_app()
        app.config.TOUCHUP = False  # Sanic rewrites its own classes, which fails for a second app in one process
        server = await app.create_server(sock=listening, access_log=False)
        self._servers.append(cast(AsyncioServer, server))
        await cast(Any, server).startup()
        return f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}"


class PortError(OSError):
    """Port that the simulator cannot listen on; names all ports it uses."""


def _plan(lab: SimulatorState, port: int) -> dict[str, int]:
    """Assign ports: `port` for the control page, the next ones for platforms (0: any)."""
    names = ["control", *lab.fakes]
    return {name: port + place if port else 0 for place, name in enumerate(names)}


async def _open(
    running: RunningSimulator, make_app: Callable[[], Sanic[Any, Any]], host: str, plan: Mapping[str, int], name: str
) -> str:
    try:
        return await running._listen(make_app, host, plan[name])
    except (OSError, OverflowError) as error:
        ports, why = list(plan.values()), getattr(error, "strerror", None) or "there is no such port"
        raise PortError(
            f"The simulator takes the {len(ports)} ports from {ports[0]} to {ports[-1]}; "
            f"{plan[name]} (for {name}) cannot be used: {why}. Name others with --port."
        ) from error


async def serve(lab: SimulatorState, host: str = "127.0.0.1", port: int = 0) -> RunningSimulator:
    """Start serving: control page on `port`, platforms on the next ports (0: any).

    Raises PortError if a port is taken.
    """
    plan, running = _plan(lab, port), RunningSimulator(lab)
    page = functools.partial(control_app.app, _name("control"), lab, running.origins)
    try:
        running.url = await _open(running, page, host, plan, "control")
        for name, fake in lab.fakes.items():
            make_app = functools.partial(_platform_app, lab, fake, running._tasks)
            running.origins[name] = await _open(running, make_app, host, plan, name)
    except BaseException:
        await running.close()
        raise
    lab.origins.update(running.origins)
    return running


def _name(part: str) -> str:
    # Sanic registers apps by name, and a process may run several simulators
    return f"simulator-{part}-{next(_numbers)}"


def _platform_app(lab: SimulatorState, fake: FakePlatform, tasks: set[asyncio.Task[Any]]) -> Sanic[Any, Any]:
    app: Sanic[Any, Any] = Sanic(_name(fake.name), configure_logging=False)
    app.config.update(REQUEST_MAX_SIZE=fake.max_body, REQUEST_TIMEOUT=_PATIENCE, RESPONSE_TIMEOUT=_PATIENCE)
    for number, operation in enumerate(fake.operations()):
        handler, name = _handler(lab, fake, operation, tasks), f"operation_{number}"
        # Without a format, Sanic reads it from the handler's source, which takes half of the start time.
        app.add_route(handler, operation.path, operation.methods, name=name, error_format="json")

    @app.on_response  # type: ignore[untyped-decorator]
    async def date_it(request: Request, response: HTTPResponse) -> None:
        response.headers.setdefault("Date", http_date(lab.clock.now_ms() // 1000))

    @app.exception(SanicException)
    async def refuse(request: Request, error: SanicException) -> HTTPResponse:
        return dispatch.refuse_call(lab, fake, request, error.status_code)

    return app


def _handler(lab: SimulatorState, fake: FakePlatform, operation: Operation, tasks: set[asyncio.Task[Any]]) -> Any:
    async def handle(request: Request, **parts: str) -> HTTPResponse | None:
        answer = await dispatch.run_operation(lab, fake, operation, request, tasks)
        return dispatch.to_sanic_response(answer) if answer else None

    return handle


def run(
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    ledger: Path | None = None,
    ready: Callable[[RunningSimulator], None] = lambda running: None,
) -> None:
    """Serve a new simulator until SIGINT or SIGTERM; `ready` is called once every port listens."""
    with event_loops.new_runner() as runner:
        runner.run(_run(host, port, ledger, ready))


async def _run(host: str, port: int, ledger: Path | None, ready: Callable[[RunningSimulator], None]) -> None:
    asked_to_stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, asked_to_stop.set)
    running = await serve(SimulatorState(SystemClock(), FAKES, ledger), host, port)
    try:
        ready(running)
        await asked_to_stop.wait()
    finally:
        await running.close()


class SimulatorThread:
    """Simulator in a thread of this process, on free loopback ports; a context manager."""

    def __init__(
        self, clock: Clock | None = None, *, ledger: Path | None = None, platforms: Iterable[str] = FAKES
    ) -> None:
        self.lab = SimulatorState(clock or SystemClock(), {name: FAKES[name] for name in platforms}, ledger)
        self._running: Future[RunningSimulator] = Future()
        self._stop: Callable[[], Any] = lambda: None
        self._thread = threading.Thread(target=self._run, name="simulator", daemon=True)

    def _run(self) -> None:
        with event_loops.new_runner() as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        asked_to_stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._stop = functools.partial(loop.call_soon_threadsafe, asked_to_stop.set)
        try:
            running = await serve(self.lab)
        except BaseException as error:
            self._running.set_exception(error)
            raise
        self._running.set_result(running)
        await asked_to_stop.wait()
        await running.close()

    @property
    def url(self) -> str:
        """Origin of the control page."""
        return self._running.result(timeout=START_SECONDS).url

    def origin(self, platform: str) -> str:
        """Return a platform's origin, the value for its `api_base` setting."""
        return self._running.result(timeout=START_SECONDS).origins[platform]

    def __enter__(self) -> Self:
        self._thread.start()
        self._running.result(timeout=START_SECONDS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()
        self._thread.join(timeout=10)
