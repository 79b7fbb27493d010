"""Streamable HTTP endpoint: stateless, and each request is made with its caller's own key."""

from __future__ import annotations

import contextlib
import logging
import re
import socket
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from mcp.server.transport_security import TransportSecuritySettings
from starlette.responses import JSONResponse

from socialpub_client import AsyncSocialpub, AsyncTransport, NotFound, SocialpubError, Unauthenticated
from socialpub_client.mcp_server.server import PATIENCE, Context, ServerSettings, build_server

PATH = "/mcp"
BODY_BYTES = 1 << 20
METADATA_PATH = "/.well-known/oauth-protected-resource"
METADATA_SECONDS = 60
log = logging.getLogger(__name__)
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

    signing_in = _SigningIn(url, transport)

    async def app(scope: Message, receive: Any, send: Any) -> None:
        """Refuse a request without a key, before its body is read."""
        if scope["type"] == "http":
            answer = await signing_in.answer(scope)
            if answer is not None:
                await answer(scope, receive, send)
                return
        await inner(scope, receive, send)

    return app


class _SigningIn:
    """Metadata of the server about signing in (RFC 9728), read again after a minute."""

    def __init__(self, url: str, transport: AsyncTransport) -> None:
        self._url, self._transport = url, transport
        self._metadata: Mapping[str, Any] | None = None
        self._until = 0.0

    async def answer(self, scope: Message) -> JSONResponse | None:
        """Return the answer to a request for metadata, or without a valid key; None: it may go on."""
        if scope["method"] == "GET" and scope["path"] in (METADATA_PATH, METADATA_PATH + PATH):
            return await self._show_metadata()
        found = _BEARER.fullmatch(dict(scope["headers"]).get(b"authorization", b"").decode("latin-1"))
        metadata: Mapping[str, Any] | None = None
        try:
            metadata = await self._find_metadata()
            if found and metadata:
                await self._client(found[1]).request("GET", "/v1/me")
        except Unauthenticated as error:
            return _refuse(metadata, error.message, ', error="invalid_token"')
        except SocialpubError as error:
            log.debug("The key was not checked: %s", error)  # the call itself tells the caller
        return None if found else _refuse(metadata, "Send an API key of the server: Authorization: Bearer KEY")

    async def _show_metadata(self) -> JSONResponse:
        try:
            found = await self._find_metadata()
        except SocialpubError as error:
            return JSONResponse({"error": error.message}, 503)
        return JSONResponse(found or {"error": "There is nothing here."}, 200 if found else 404)

    async def _find_metadata(self) -> Mapping[str, Any] | None:
        """Return the server's metadata; None if signing in is off.

        Raises SocialpubError if the server does not answer.
        """
        if time.monotonic() >= self._until:
            try:
                self._metadata = (await self._client("none").request("GET", METADATA_PATH)).json
            except NotFound:
                self._metadata = None
            self._until = time.monotonic() + METADATA_SECONDS
        return self._metadata

    def _client(self, key: str) -> AsyncSocialpub:
        return AsyncSocialpub(self._url, key, transport=self._transport, retries=0, patience=PATIENCE)


def _refuse(metadata: Mapping[str, Any] | None, message: str, more: str = "") -> JSONResponse:
    """Return a 401 that says where the metadata is, if there is any."""
    about = "" if metadata is None else f' resource_metadata="{metadata["authorization_servers"][0]}{METADATA_PATH}"'
    return JSONResponse({"error": message}, 401, {"WWW-Authenticate": f"Bearer{about}{more}"})


async def serve_http(app: App, listening: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM."""
    import uvicorn

    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=30
    )
    await uvicorn.Server(config).serve(sockets=[listening])
