"""Fetching media as platforms do that take a URL in place of bytes: from the web, outside the lab's lock."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterable, Mapping

from socialpub.base import http as outbound
from socialpub.base.errors import ApiError
from socialpub.simulator.wire import Pulled

MAX_BYTES = 64 * 1024 * 1024
SECONDS = 10.0


async def pull(urls: Iterable[str]) -> Mapping[str, Pulled]:
    """What each URL gave; status 0 where nobody answered."""
    wanted = list(dict.fromkeys(urls))
    found = await asyncio.gather(*(asyncio.to_thread(_pull, url) for url in wanted))
    return dict(zip(wanted, found, strict=True))


def _pull(url: str) -> Pulled:
    into = io.BytesIO()
    try:
        with outbound.Client(outbound.UNGUARDED) as http:
            reply = http.download(url, into, max_bytes=MAX_BYTES, timeout=SECONDS)
    except ApiError:
        return Pulled(0)
    if reply.unread:
        return Pulled(0)
    return Pulled(reply.status_code, into.getvalue())
