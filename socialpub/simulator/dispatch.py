"""Execution of an operation over HTTP: its effect, and the scripted fault around it."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, cast

from sanic import HTTPResponse, Request

from socialpub.simulator.contract import Call, FakePlatform, FakeResponse, Operation, RefusedError
from socialpub.simulator.faults import Fault
from socialpub.simulator.media_fetch import fetch_all
from socialpub.simulator.state import ReceivedCall, SimulatorState

PRIVATE_URL = "http://169.254.169.254/latest/meta-data/"
_HTML = "<!DOCTYPE html><html><head><title>One moment</title></head><body><h1>We will be right back</h1></body></html>"
_OK = Fault(fault="ok")
_BOMB_BYTES = 64 * 1024 * 1024


@dataclass(slots=True)
class OperationRun:
    """Call being handled."""

    lab: SimulatorState
    fake: FakePlatform
    operation: Operation
    request: Request
    call: Call
    received: ReceivedCall
    fault: Fault
    tasks: set[asyncio.Task[Any]]
    resets: int  # resets of the state when the call arrived

    def perform(self, call: Call) -> FakeResponse:
        """Perform the call unless the state was reset since; operations run one at a time."""
        with self.lab.lock:
            if self.resets != self.lab.resets:
                return self.fake.refusal(503, None)
            try:
                return self.operation.handle(call)
            except RefusedError as refused:
                return refused.answer

    async def respond_after(self, seconds: float) -> FakeResponse:
        """Perform the call after a delay, even if the client disconnects meanwhile."""
        if seconds or self.operation.urls_to_fetch:
            return await asyncio.shield(self.spawn(self.perform_after(seconds)))
        return self.perform(self.call)

    async def perform_after(self, seconds: float) -> FakeResponse:
        await asyncio.sleep(seconds)
        return self.perform(await self._with_fetched())

    async def _with_fetched(self) -> Call:
        """Return the call with all URLs fetched; fetched content may name more URLs."""
        call, urls_to_fetch = self.call, self.operation.urls_to_fetch
        while urls_to_fetch and (wanted := set(urls_to_fetch(call)) - set(call.fetched)):
            call = replace(call, fetched={**call.fetched, **await fetch_all(wanted)})
        return call

    def spawn(self, work: Awaitable[FakeResponse]) -> asyncio.Task[FakeResponse]:
        """Run `work` as a task that survives a disconnect of the client."""
        task: asyncio.Task[FakeResponse] = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task


async def run_operation(
    lab: SimulatorState, fake: FakePlatform, operation: Operation, request: Request, tasks: set[asyncio.Task[Any]]
) -> FakeResponse | None:
    """Handle one call with its scripted fault; None if a response was already sent."""
    call = _call(lab, fake, request)
    received = lab.received(fake.name, operation.name, call.method, _path(request), call.headers, call.body)
    fault = lab.faults.next(fake.name, operation.name) or _OK
    received.fault = None if fault is _OK else fault.fault
    run = OperationRun(lab, fake, operation, request, call, received, fault, tasks, lab.resets)
    if fault.kind == "late_effect":
        await _perform_late(run)
    wait = lab.settings.latency_ms / 1000 + (fault.amount if fault.kind == "delay" else 0)
    answer = FakeResponse()
    if fault.takes_effect:
        answer = await run.respond_after(wait)
    elif wait:
        await asyncio.sleep(wait)
    return await _PLAYERS[fault.kind](run, answer)


def refuse_call(lab: SimulatorState, fake: FakePlatform, request: Request, status: int) -> HTTPResponse:
    """Refuse a call with an unknown path or an oversized body (which was not read)."""
    headers = dict(request.headers.items())
    received = lab.received(fake.name, "none", request.method, _path(request), headers, request.body)
    answer = fake.refusal(status, None)
    received.status = answer.status
    return to_sanic_response(answer)


def to_sanic_response(answer: FakeResponse) -> HTTPResponse:
    """Convert to a Sanic response."""
    kind = answer.content_type if answer.body is not None else None
    return HTTPResponse(answer.content(), answer.status, {**answer.headers}, kind)


def _path(request: Request) -> str:
    return request.path + (f"?{request.query_string}" if request.query_string else "")


def _call(lab: SimulatorState, fake: FakePlatform, request: Request) -> Call:
    return Call(
        method=request.method,
        path=request.path,
        origin=lab.origins[fake.name],
        query=dict(request.get_args(keep_blank_values=True)) if request.query_string else {},
        headers=dict(request.headers.items()),
        body=request.body,
        parts={name: str(value) for name, value in request.match_info.items()},
    )


def _record_status(run: OperationRun, answer: FakeResponse) -> FakeResponse:
    run.received.status = answer.status
    return answer


async def _plain(run: OperationRun, answer: FakeResponse) -> FakeResponse:
    return _record_status(run, answer)


async def _status(run: OperationRun, answer: FakeResponse) -> FakeResponse:
    fault = run.fault
    status = int(fault.amount) if fault.kind == "status" else 500
    refusal = run.fake.refusal(status, fault.retry_after)
    body, kind = refusal.body, refusal.content_type
    if fault.body is not None:
        body, kind = fault.body, "text/html" if isinstance(fault.body, str) else "application/json"
    return _record_status(run, FakeResponse(status, body, refusal.headers, kind))


async def _reset(run: OperationRun, answer: FakeResponse) -> None:
    """Reset the connection: the client gets a TCP RST without response."""
    transport = cast(asyncio.WriteTransport, run.request.transport)
    # Closing with a linger time of zero discards the connection, which the peer sees as a reset.
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
    await _wait_for_disconnect()


async def _perform_late(run: OperationRun) -> None:
    """Never respond; perform the effect after the client has given up."""
    gone = asyncio.Event()

    async def later() -> FakeResponse:
        await gone.wait()
        return await run.perform_after(run.fault.amount)

    if run.fault.takes_effect:
        run.spawn(later())
    try:
        await _wait_for_disconnect()
    finally:
        gone.set()


async def _wait_for_disconnect() -> None:
    """Wait until Sanic cancels the handler because the connection is lost."""
    await asyncio.Event().wait()


async def _slow(run: OperationRun, answer: FakeResponse) -> None:
    """Send one byte per second."""
    stream = await _stream(run, answer)
    for byte in answer.content():
        await stream(bytes([byte]))
        await asyncio.sleep(1)


async def _endless(run: OperationRun, answer: FakeResponse) -> None:
    """Send valid JSON that never ends."""
    stream = await _stream(run, answer)
    await stream(b'{"padding":"')
    while True:
        await stream(b"a" * 65_536)
        await asyncio.sleep(0)


async def _stream(run: OperationRun, answer: FakeResponse) -> Callable[[bytes], Awaitable[None]]:
    run.received.status = answer.status
    headers = {**answer.headers}
    opened = await run.request.respond(status=answer.status, headers=headers, content_type=answer.content_type)

    async def send(data: bytes) -> None:
        await opened.send(data)

    return send


async def _html(run: OperationRun, answer: FakeResponse) -> FakeResponse:
    return _record_status(run, FakeResponse(200, _HTML, content_type="text/html; charset=utf-8"))


async def _truncated(run: OperationRun, answer: FakeResponse) -> FakeResponse:
    """Return half of the body with correct framing, so that only the JSON is broken."""
    content = answer.content()
    return _record_status(
        run, FakeResponse(answer.status, content[: len(content) // 2], answer.headers, answer.content_type)
    )


async def _wrong_type(run: OperationRun, answer: FakeResponse) -> FakeResponse:
    return _record_status(run, FakeResponse(answer.status, ["unexpected"], answer.headers))


async def _missing_id(run: OperationRun, answer: FakeResponse) -> FakeResponse:
    kept = answer.body
    if isinstance(kept, dict):
        kept = {key: value for key, value in kept.items() if key not in run.fake.ids}
    return _record_status(run, FakeResponse(answer.status, kept, answer.headers))


async def _redirect_self(run: OperationRun, answer: FakeResponse) -> FakeResponse:
    return _record_status(run, FakeResponse(301, headers={"location": run.request.url}))


async def _redirect_private(run: OperationRun, answer: FakeResponse) -> FakeResponse:
    return _record_status(run, FakeResponse(302, headers={"location": PRIVATE_URL}))


async def _gzip_bomb(run: OperationRun, answer: FakeResponse) -> FakeResponse:
    headers = {**answer.headers, "content-encoding": "gzip"}
    return _record_status(run, FakeResponse(answer.status, _bomb(), headers, answer.content_type))


@cache
def _bomb() -> bytes:
    """Return 64 MiB of JSON, compressed to about 64 KiB."""
    return gzip.compress(json.dumps({"padding": "0" * _BOMB_BYTES}).encode(), compresslevel=6, mtime=0)


FaultPlayer = Callable[[OperationRun, FakeResponse], Awaitable[FakeResponse | None]]

_PLAYERS: Mapping[str, FaultPlayer] = {
    "ok": _plain,
    "delay": _plain,
    "status": _status,
    "error_after": _status,
    "reset_before": _reset,
    "reset_after": _reset,
    "slow": _slow,
    "endless": _endless,
    "html": _html,
    "truncated": _truncated,
    "wrong_type": _wrong_type,
    "missing_id": _missing_id,
    "redirect_self": _redirect_self,
    "redirect_private": _redirect_private,
    "gzip_bomb": _gzip_bomb,
}
