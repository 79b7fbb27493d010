"""Sessions of the MCP SDK's client with our server: in process, by stdio, by HTTP."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import anyio
import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, ElicitRequestParams, ElicitResult

from socialpub_client import AsyncSocialpub, AsyncTransport, Request, Response, TransportError
from socialpub_client.http_transport import AsyncHttpTransport
from socialpub_client.mcp_server.server import ServerSettings, build_server

T = TypeVar("T")
SECONDS = 60
PROGRAM = "from socialpub_client.commands.cli import program; program()"


def run(work: Callable[[], Awaitable[T]]) -> T:
    """The result of asynchronous work, which ends within a minute."""

    async def bounded() -> T:
        with anyio.fail_after(SECONDS):
            return await work()

    return anyio.run(bounded)


def answered(result: CallToolResult) -> dict[str, Any]:
    """The object that a call answered; its text is the same object."""
    assert not result.is_error, result.structured_content
    (block,) = result.content
    assert json.loads(block.text) == result.structured_content
    return dict(result.structured_content)


def refused(result: CallToolResult) -> dict[str, Any]:
    assert result.is_error, result.structured_content
    return dict(result.structured_content["error"])


class Answers:
    """The user: gives one answer to every question, and keeps the questions."""

    def __init__(self, action: str = "accept") -> None:
        self.action, self.questions = action, list[str]()

    async def __call__(self, _: Any, params: ElicitRequestParams) -> ElicitResult:
        self.questions.append(params.message)
        return ElicitResult(action=self.action, content={} if self.action == "accept" else None)


async def no_wait(_: float) -> None:
    """Nothing: the waits between tries are over at once."""


class AnswersLost(AsyncHttpTransport):
    """Transport whose requests arrive, and whose answers to writes do not."""

    async def send(self, request: Request) -> Response:
        answer = await super().send(request)
        if request.method != "GET":
            raise TransportError("The connection was reset.", sent=True)
        return answer


@contextlib.asynccontextmanager
async def in_process(
    url: str,
    key: str,
    settings: ServerSettings | None = None,
    user: Answers | None = None,
    mode: str = "auto",
    transport: AsyncTransport | None = None,
) -> AsyncIterator[Client]:
    """A session with a server in this process, whose requests go by this transport."""
    async with AsyncSocialpub(url, key, transport=transport, sleep=no_wait) as api:

        @contextlib.asynccontextmanager
        async def connect(_: Any) -> AsyncIterator[AsyncSocialpub]:
            yield api

        server = build_server(connect, settings or ServerSettings())
        async with Client(server, elicitation_callback=user, mode=mode) as client:
            yield client


def stdio(url: str, key: str, *options: str) -> StdioServerParameters:
    """The command `socialpub mcp`, as an assistant's settings name it."""
    return StdioServerParameters(
        command=sys.executable,
        args=["-c", PROGRAM, "mcp", *options],
        env={"SOCIALPUB_URL": url, "SOCIALPUB_KEY": key},
    )


@contextlib.contextmanager
def http_server(url: str, *options: str, port: int = 0) -> Iterator[str]:
    """The address of a process of `socialpub mcp --http`, which holds no key."""
    command = [sys.executable, "-c", PROGRAM, "mcp", "--http", f"127.0.0.1:{port}", "--url", url, *options]
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(Path("/nonexistent"))}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            assert "http://127.0.0.1:" in line, line + process.stderr.read()
            yield line.split(" on ")[1].strip()
        finally:
            process.terminate()


@contextlib.asynccontextmanager
async def http(address: str, key: str, user: Answers | None = None, mode: str = "auto") -> AsyncIterator[Client]:
    """A session with that process, with a caller's own key."""
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx2.AsyncClient(headers=headers, timeout=SECONDS, trust_env=False) as sender:
        transport = streamable_http_client(address, http_client=sender)
        async with Client(transport, elicitation_callback=user, mode=mode) as client:
            yield client
