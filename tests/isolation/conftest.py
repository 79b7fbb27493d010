"""The tests of isolation share a server where they can."""

from __future__ import annotations

from tests.support.emptied_server import make_server, server, shared, wall

__all__ = ["make_server", "server", "shared", "wall"]
