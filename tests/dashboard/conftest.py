"""The tests of this room share a server where they can."""

from __future__ import annotations

from tests.support.reused_server import counting, make_server, reused_server, wall

__all__ = ["counting", "make_server", "reused_server", "wall"]
