"""The tests of this room share a server where they can, and hash passwords in no time."""

from __future__ import annotations

from tests.support.emptied_server import make_server, server, shared, wall
from tests.support.quick_passwords import quick_passwords

__all__ = ["make_server", "quick_passwords", "server", "shared", "wall"]
