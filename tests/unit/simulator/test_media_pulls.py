"""Media download by a fake platform from a URL in a post."""

from __future__ import annotations

import asyncio

from socialpub.simulator.media_fetch import fetch_all
from socialpub.simulator.server import SimulatorThread


def test_platform_gets_the_bytes_at_a_url_or_an_error(
    simulator: SimulatorThread,
) -> None:
    picture, missing, nobody = f"{simulator.url}/pages/a.png", f"{simulator.url}/nothing", "http://127.0.0.1:1/a.png"
    found = asyncio.run(fetch_all([picture, missing, nobody, picture]))
    assert {url: (it.status, it.ok) for url, it in found.items()} == {
        picture: (200, True),
        missing: (404, False),
        nobody: (0, False),
    }
    assert found[picture].content.startswith(b"\x89PNG")
