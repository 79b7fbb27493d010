"""Event loops: uvloop's, which comes with Sanic."""

from __future__ import annotations

import asyncio


def new_runner() -> asyncio.Runner:
    """Return a runner with a new loop."""
    import uvloop

    return asyncio.Runner(loop_factory=uvloop.new_event_loop)
