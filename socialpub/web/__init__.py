"""The front door: HTTP in, verbs of the domain called, answers out."""

import sys
from types import ModuleType

UNUSED_SANIC_NAMES = {
    "sanic.pages.error": ("ErrorPage",),
    "sanic.pages.directory_page": ("DirectoryPage", "FileInfo"),
    "sanic.server.websockets.connection": ("WebSocketConnection",),
    "sanic.server.websockets.impl": ("ConnectionClosed", "WebsocketImplProtocol"),
    "sanic.server.protocols.websocket_protocol": ("WebSocketProtocol",),
}
"""What of Sanic is left out, and the names that the rest of it asks there for."""


def _stub_unused_modules() -> None:
    """Of what Sanic reads at its start: its pages, with what draws tracebacks, WebSockets, a second parser of JSON.

    No page of its own is ever shown, for `errors.py` answers whatever goes wrong and no folder is served; nobody
    speaks WebSocket here; nothing is read or written by that parser. Together they would take four megabytes for as
    long as a server runs.
    """
    if "sanic" in sys.modules:
        return
    for name, asked in UNUSED_SANIC_NAMES.items():
        empty = ModuleType(name)
        empty.__dict__.update(dict.fromkeys(asked))
        sys.modules.setdefault(name, empty)
    sys.modules.setdefault("ujson", None)  # type: ignore[arg-type]  # which is how a module is not found


_stub_unused_modules()
