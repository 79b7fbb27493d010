"""Cache of pages that are the same for every client, with ETags and gzip."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, NamedTuple

from socialpub.base.concurrency.admission import Pacer
from socialpub.base.concurrency.fair_executor import BUSY_RETRY_SECONDS
from socialpub.base.errors import rule_error
from socialpub.web.http.etags import apply_if_none_match
from socialpub.web.http.handler import HandlerResponse

MakePage = Callable[[], Coroutine[Any, Any, HandlerResponse]]
PAGES_MAX = 800  # bounds the memory taken by made-up addresses
LARGE_PAGE_BYTES = 64 * 1024
LARGE_PAGE_BYTES_PER_SECOND = 32 * 1024 * 1024  # of all large pages: the reference a hundred times a second
WAIT_MAX = 5.0  # seconds
GZIP_MIN_BYTES = 1024  # smaller pages fit into one packet


class _CachedPage(NamedTuple):
    """A page uncompressed and compressed."""

    plain: HandlerResponse
    packed: HandlerResponse


class PageCache:
    """A cache of pages by path; the least recently used are dropped.

    Large pages share one bandwidth limit: they need no authentication.
    """

    def __init__(self, speed: float = LARGE_PAGE_BYTES_PER_SECOND) -> None:
        self._pace = Pacer(1 / speed)
        self._pages: OrderedDict[str, _CachedPage] = OrderedDict()
        self._build_lock = asyncio.Lock()

    async def get(self, path: str, headers: Mapping[str, str], make: MakePage) -> HandlerResponse:
        """Return the page at `path`, built by `make` if it is not cached, or a 304.

        Raises ApiError `http.busy` when too many clients load large pages.
        """
        page = self._pages.get(path) or await self._build(path, make)
        reply = apply_if_none_match(page.packed if is_gzip_accepted(headers) else page.plain, headers)
        if len(reply.body) > LARGE_PAGE_BYTES:
            await self._wait(len(reply.body))
        return reply

    async def _wait(self, size: int) -> None:
        now = asyncio.get_running_loop().time()
        wait = self._pace.wait("", now, 0)
        if wait > WAIT_MAX:
            raise rule_error("http.busy", retry_after=BUSY_RETRY_SECONDS)
        self._pace.wait("", now, size)
        await asyncio.sleep(wait)

    async def _build(self, path: str, make: MakePage) -> _CachedPage:
        async with self._build_lock:
            # In a thread: the reference takes a third of a second, which would block the event loop.
            page = self._pages.get(path)
            if page is None:
                page = await asyncio.to_thread(lambda: _build_page(asyncio.run(make())))
            self._pages[path] = page
            self._pages.move_to_end(path)
            while len(self._pages) > PAGES_MAX:
                self._pages.popitem(last=False)
            return page


def is_gzip_accepted(headers: Mapping[str, str]) -> bool:
    """Return whether Accept-Encoding accepts gzip (RFC 9110, section 12.5.3)."""
    for each in headers.get("accept-encoding", "").lower().split(","):
        coding, _, weight = each.partition(";")
        if coding.strip() in ("gzip", "x-gzip"):
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def _build_page(page: HandlerResponse) -> _CachedPage:
    """Return both forms of a page. The compressed one has its own ETag."""
    body = page.body if isinstance(page.body, bytes) else str(page.body).encode()
    digest = hashlib.sha256(body).hexdigest()[:32]
    headers = {"Cache-Control": "no-cache", **page.headers, "Vary": "Accept-Encoding"}
    plain = page._replace(body=body, headers={**headers, "ETag": f'"{digest}"'})
    if len(body) < GZIP_MIN_BYTES:
        return _CachedPage(plain, plain)
    headers |= {"Content-Encoding": "gzip", "ETag": f'"{digest}-gzip"'}
    return _CachedPage(plain, page._replace(body=gzip.compress(body, mtime=0), headers=headers))
