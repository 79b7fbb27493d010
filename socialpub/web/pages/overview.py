"""The overview: what needs somebody's eyes, what goes out next, and what went out."""

from __future__ import annotations

from socialpub.web.http import Call, Reply
from socialpub.web.pages.inside import show


async def home(call: Call) -> Reply:
    """GET /."""
    return await show(call, "overview/home.html")
