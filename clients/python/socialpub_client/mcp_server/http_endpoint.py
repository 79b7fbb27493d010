"""Streamable HTTP endpoint: stateless, and each request is made with its caller's own key."""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from mcp.server.transport_security import TransportSecuritySettings
from starlette.responses import JSONResponse

from socialpub_client import AsyncSocialpub, AsyncTransport, Unauthenticated
from socialpub_client.mcp_server.server import PATIENCE, Context, ServerSettings, build_server

PATH = "/mcp"
BODY_BYTES = 1 << 20
_BEARER = re.compile(r"Bearer +([!-~]{1,256})", re.IGNORECASE)

Message = MutableMapping[str, Any]
App = Callable[[Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]]


def build_app(url: str, transport: AsyncTransport, settings: ServerSettings) -> App:
    """Build the ASGI application for the server at `url`.

    Names of hosts are not checked: a page that a browser was tricked to load from here has no key to send.
    """

    @contextlib.asynccontextmanager
    async def connect(context: Context) -> AsyncGenerator[AsyncSocialpub]:
        headers: Mapping[str, str] = {} if context.request is None else context.request.headers
        found = _BEARER.fullmatch(headers.get("authorization", ""))
        if found is None:
            raise Unauthenticated("The request has no API key.")
        yield AsyncSocialpub(url, found[1], transport=transport, patience=PATIENCE)

    inner = build_server(connect, settings).streamable_http_app(
        streamable_http_path=PATH,
        stateless_http=True,
        json_response=True,
        max_request_body_size=BODY_BYTES,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )

    async def app(scope: Message, receive: Any, send: Any) -> None:
        """Refuse a request without a key, before its body is read."""
        if scope["type"] == "http":
            headers = dict(scope["headers"])
            if _BEARER.fullmatch(headers.get(b"authorization", b"").decode("latin-1")) is None:
                refusal = {"error": "Send an API key of the server: Authorization: Bearer KEY"}
                challenge = {"WWW-Authenticate": "Bearer"}
                await JSONResponse(refusal, status_code=401, headers=challenge)(scope, receive, send)
                return
        await inner(scope, receive, send)

    return app


async def serve_http(app: App, listening: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM."""
    import uvicorn

    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=30
    )
    await uvicorn.Server(config).serve(sockets=[listening])
