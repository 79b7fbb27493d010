"""Fetching of media URLs as platforms do it: over the network, outside the state's lock."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterable, Mapping

from socialpub.base import http as outbound
from socialpub.base.errors import ApiError
from socialpub.simulator.contract import FetchedUrl

MAX_BYTES = 64 * 1024 * 1024
SECONDS = 10.0


async def fetch_all(urls: Iterable[str]) -> Mapping[str, FetchedUrl]:
    """Fetch each URL; status 0 without a response."""
    wanted = list(dict.fromkeys(urls))
    found = await asyncio.gather(*(asyncio.to_thread(_fetch, url) for url in wanted))
    return dict(zip(wanted, found, strict=True))


def _fetch(url: str) -> FetchedUrl:
    into = io.BytesIO()
    try:
        with outbound.HttpClient(outbound.UNGUARDED_POLICY) as http:
            reply = http.download(url, into, max_bytes=MAX_BYTES, timeout=SECONDS)
    except ApiError:
        return FetchedUrl(0)
    if reply.unread:
        return FetchedUrl(0)
    return FetchedUrl(reply.status_code, into.getvalue())
