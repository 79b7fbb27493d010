"""Pages that are the same for everybody: made once, then sent from memory, or not at all to who has them (304)."""

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
PAGES_MAX = 500  # of what is made up in addresses only so much is kept
LARGE_PAGE_BYTES = 64 * 1024  # bytes
LARGE_PAGE_BYTES_PER_SECOND = (
    32 * 1024 * 1024
)  # bytes a second, of all long pages: a hundred readers a second of the reference
WAIT_MAX = 5.0  # seconds
GZIP_MIN_BYTES = 1024  # bytes: shorter pages fit into one packet as they are


class _CachedPage(NamedTuple):
    """A page as it is, and compressed."""

    plain: HandlerResponse
    packed: HandlerResponse


class PageCache:
    """The pages that were asked for, by path; those longest not asked for go first.

    Long ones go out at a pace that all who want them share: nobody has to say who he is to ask for one.
    """

    def __init__(self, speed: float = LARGE_PAGE_BYTES_PER_SECOND) -> None:
        self._pace = Pacer(1 / speed)
        self._pages: OrderedDict[str, _CachedPage] = OrderedDict()
        self._making = asyncio.Lock()

    async def answer(self, path: str, headers: Mapping[str, str], make: MakePage) -> HandlerResponse:
        """The page at `path`, which `make` makes when it is not here; 304 to who names its ETag.

        ApiError `http.busy` for a long page that too many want.
        """
        page = self._pages.get(path) or await self._made(path, make)
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

    async def _made(self, path: str, make: MakePage) -> _CachedPage:
        async with self._making:
            # In a thread: the reference takes a third of a second, and nobody else is to wait for it.
            page = self._pages.get(path)
            if page is None:
                page = await asyncio.to_thread(lambda: _build_page(asyncio.run(make())))
            self._pages[path] = page
            self._pages.move_to_end(path)
            while len(self._pages) > PAGES_MAX:
                self._pages.popitem(last=False)
            return page


def is_gzip_accepted(headers: Mapping[str, str]) -> bool:
    """Whether a request's Accept-Encoding names gzip with a weight other than 0 (RFC 9110, section 12.5.3)."""
    for each in headers.get("accept-encoding", "").lower().split(","):
        coding, _, weight = each.partition(";")
        if coding.strip() in ("gzip", "x-gzip"):
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def _build_page(made: HandlerResponse) -> _CachedPage:
    """Both forms of a page. The entity tag of the packed one differs, for its bytes do."""
    body = made.body if isinstance(made.body, bytes) else str(made.body).encode()
    digest = hashlib.sha256(body).hexdigest()[:32]
    headers = {"Cache-Control": "no-cache", **made.headers, "Vary": "Accept-Encoding"}
    plain = made._replace(body=body, headers={**headers, "ETag": f'"{digest}"'})
    if len(body) < GZIP_MIN_BYTES:
        return _CachedPage(plain, plain)
    headers |= {"Content-Encoding": "gzip", "ETag": f'"{digest}-gzip"'}
    return _CachedPage(plain, made._replace(body=gzip.compress(body, mtime=0), headers=headers))
