"""Reads that may wait (`Prefer: wait=N`) until something has happened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from socialpub.domain.access import actions
from socialpub.web.http import prefer_header
from socialpub.web.http.handler import RequestContext

T = TypeVar("T")


async def read_when_ready(
    call: RequestContext, name: str, read: Callable[[], T], is_ready: Callable[[T], bool]
) -> tuple[T, Mapping[str, str]]:
    """Return what is read and the headers that tell of the wait.

    The read is repeated until it is ready, at most for as long as the request's `Prefer` says.
    """
    wait = prefer_header.parse_wait(call.request.headers.getall("prefer", []), 0)
    if not wait.seconds:
        return await call.read(read), {}

    def read_authorized() -> T:
        actions.check_scope(call.service, call.scope)  # a key may be revoked while its request waits
        return read()

    async def read_in_turn() -> T:
        with await call.service.admission.waking.enter(call.scope.organization):
            return await call.read(read_authorized)

    call.release_permit()
    found = await call.service.waiting.wait_until(call.scope.organization, name, read_in_turn, is_ready, wait.seconds)
    return found, wait.headers
