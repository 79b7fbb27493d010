"""The event loops of this process: uvloop's, which comes with Sanic where it exists."""

from __future__ import annotations

import asyncio
import sys


def new_loop() -> asyncio.AbstractEventLoop:
    """A loop that can watch sockets."""
    if sys.platform == "win32":
        return asyncio.SelectorEventLoop()
    import uvloop

    return uvloop.new_event_loop()


def new_runner() -> asyncio.Runner:
    """What runs a coroutine on a loop of its own."""
    return asyncio.Runner(loop_factory=new_loop)
