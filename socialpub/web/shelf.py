"""Pages that are the same for everybody: made once, then sent from memory, or not at all to who has them (304)."""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from typing import Any

from socialpub.web.http import Reply
from socialpub.web.tags import unless_known

Make = Callable[[], Coroutine[Any, Any, Reply]]
PAGES_MAX = 500  # of what is made up in addresses only so much is kept


class Shelf:
    """The pages that were asked for, by path; those longest not asked for go first."""

    def __init__(self) -> None:
        self._pages: OrderedDict[str, Reply] = OrderedDict()
        self._making = asyncio.Lock()

    async def answer(self, path: str, headers: Mapping[str, str], make: Make) -> Reply:
        """The page at `path`, which `make` makes when it is not here; 304 to who names its ETag."""
        page = self._pages.get(path) or await self._made(path, make)
        return unless_known(page, headers)

    async def _made(self, path: str, make: Make) -> Reply:
        async with self._making:
            # In a thread: the reference takes a third of a second, and nobody else is to wait for it.
            page = self._pages.get(path)
            if page is None:
                page = await asyncio.to_thread(lambda: _tagged(asyncio.run(make())))
            self._pages[path] = page
            self._pages.move_to_end(path)
            while len(self._pages) > PAGES_MAX:
                self._pages.popitem(last=False)
            return page


def _tagged(page: Reply) -> Reply:
    body = page.body if isinstance(page.body, bytes) else str(page.body).encode()
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    return replace(page, body=body, headers={"Cache-Control": "no-cache", **page.headers, "ETag": tag})
