"""Event loops: uvloop's, which comes with Sanic, where it is available."""

from __future__ import annotations

import asyncio
import sys


def new_loop() -> asyncio.AbstractEventLoop:
    """Return a new loop that can watch sockets."""
    if sys.platform == "win32":
        return asyncio.SelectorEventLoop()
    import uvloop

    return uvloop.new_event_loop()


def new_runner() -> asyncio.Runner:
    """Return a runner with a new loop."""
    return asyncio.Runner(loop_factory=new_loop)
