"""`socialpub mcp`: serve tools for assistants by stdio or HTTP."""

from __future__ import annotations

import contextlib
import signal
import socket
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from socialpub_client import AsyncSocialpub, ConfigurationError
from socialpub_client.commands.click_types import ApiOptions
from socialpub_client.commands.exit_codes import DONE, FAILED
from socialpub_client.commands.runner import is_terminal, tell, tell_error
from socialpub_client.engine import Engine
from socialpub_client.servers import resolve_server

if TYPE_CHECKING:
    from socialpub_client.mcp_server.server import ServerSettings


def serve(options: ApiOptions) -> int:
    """Serve until the client closes its end, or a signal comes; return the exit code."""
    try:
        import anyio

        from socialpub_client.mcp_server.server import ServerSettings
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"The MCP server needs the package {error.name}, which is not installed.",
            remediation="pip install 'socialpub-client[mcp]'",
        ) from error
    settings = ServerSettings(media_root=_media_root(options), read_only=options.read_only, asks=not options.no_ask)
    if options.http is not None:
        anyio.run(_serve_http, options, settings)
        return DONE
    if sys.stdin is None or sys.stdout is None:
        options.usage("standard input and output are closed: a client starts this command, or give --http")
    if is_terminal(sys.stdin):
        tell(options, "MCP server on standard input and output, for an assistant that starts it; Ctrl-C stops it.")
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a handler would wait for the thread that reads the input
    code = DONE
    try:
        anyio.run(_serve_stdio, options, settings)
    except* OSError as lost:
        tell_error(f"socialpub: the client no longer reads: {lost.exceptions[0]}")
        code = FAILED
    return code


def _media_root(options: ApiOptions) -> Path | None:
    if options.media_root is None:
        return None
    if options.http is not None:
        options.usage("--media-root is for stdio: over HTTP callers would read files of this machine.")
    root = Path(options.media_root)
    if not root.is_dir():
        options.usage(f"--media-root: {root} is no folder.")
    return root.resolve()


async def _serve_stdio(options: ApiOptions, settings: ServerSettings) -> None:
    from socialpub_client.mcp_server import server

    async with AsyncSocialpub(options.url, options.key, server=options.server, patience=server.PATIENCE) as api:

        @contextlib.asynccontextmanager
        async def connect(_: Any) -> AsyncGenerator[AsyncSocialpub]:
            yield api

        await server.serve_stdio(server.build_server(connect, settings))


async def _serve_http(options: ApiOptions, settings: ServerSettings) -> None:
    from socialpub_client.http_transport import AsyncHttpTransport
    from socialpub_client.mcp_server import http_endpoint

    if options.key is not None:
        options.usage("--key is for stdio: over HTTP each request brings its own key.")
    server = resolve_server(options.url, "none", options.server, None)
    url = Engine(server.url, "none").url  # checked; no key is held here
    host, port = _parse_address(options)
    transport = AsyncHttpTransport()
    app = http_endpoint.build_app(url, transport, settings)
    with contextlib.closing(_listen(options, host, port)) as listening:
        address, number = listening.getsockname()[:2]
        shown = f"[{address}]" if ":" in address else address
        print(f"MCP server for {url} on http://{shown}:{number}{http_endpoint.PATH}", file=sys.stderr, flush=True)
        try:
            await http_endpoint.serve_http(app, listening)
        finally:
            await transport.close()


def _parse_address(options: ApiOptions) -> tuple[str, int]:
    host, _, port = options.http.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        options.usage("--http is HOST:PORT, for example 127.0.0.1:8765.")
    return host.strip("[]"), int(port)


def _listen(options: ApiOptions, host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except OSError as error:
        options.usage(f"--http {options.http}: {error.strerror or error}.")
