"""The HTTP server: the API, the dashboard and the documentation."""

import sys
from types import ModuleType

UNUSED_SANIC_NAMES = {
    "sanic.pages.error": ("ErrorPage",),
    "sanic.pages.directory_page": ("DirectoryPage", "FileInfo"),
    "sanic.server.websockets.connection": ("WebSocketConnection",),
    "sanic.server.websockets.impl": ("ConnectionClosed", "WebsocketImplProtocol"),
    "sanic.server.protocols.websocket_protocol": ("WebSocketProtocol",),
}
"""Sanic modules to replace by empty ones, and the names that Sanic imports from them."""


def _stub_unused_modules() -> None:
    """Keep Sanic from importing modules that this server never uses; saves 4 MB of memory.

    They are Sanic's own error and directory pages, WebSockets and `ujson`: `error_responses.py` answers every error, no
    directory is served, and JSON goes through `base.json_codec`.
    """
    if "sanic" in sys.modules:
        return
    for name, imported in UNUSED_SANIC_NAMES.items():
        empty = ModuleType(name)
        empty.__dict__.update(dict.fromkeys(imported))
        sys.modules.setdefault(name, empty)
    sys.modules.setdefault("ujson", None)  # type: ignore[arg-type]  # None makes the import fail


_stub_unused_modules()
