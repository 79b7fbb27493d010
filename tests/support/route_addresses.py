"""Concrete URL path for each route."""

from __future__ import annotations

import re

from tests.support.app_server import UNKNOWN_ID


def route_address(path: str) -> str:
    """An address of a route, with an id in it that nobody has, or a page that is there."""
    known = {"<code:str>": "not_found", "<rule:path>": "post.status", "<name:str>": "style.css"}
    known["<platform:str>"] = "bluesky"
    for placeholder, value in known.items():
        path = path.replace(placeholder, value)
    return re.sub(r"<\w+:str>", UNKNOWN_ID, path)
