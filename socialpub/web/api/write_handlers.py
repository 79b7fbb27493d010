"""What a handler of a write does: read what is asked, have it done once for an Idempotency-Key, and answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from pydantic import BaseModel

from socialpub.domain import act
from socialpub.domain.act import Deed
from socialpub.domain.people import signin
from socialpub.web.http.handler import HandlerResponse, RequestContext, respond

M = TypeVar("M", bound=BaseModel)


async def commit(call: RequestContext, model: type[M], choose: Callable[[M], Deed]) -> HandlerResponse:
    """The answer to the deed that the body asks for.

    The body is parsed after the key was looked up: a key that was used with another body says so first.
    """

    async def ask() -> Deed:
        return choose(await call.parsed(model))

    return await _run_once(call, ask)


async def commit_after_lookup(
    call: RequestContext, model: type[M], choose: Callable[[M], Awaitable[Deed]]
) -> HandlerResponse:
    """The same where something has to be asked upstream first."""

    async def ask() -> Deed:
        return await choose(await call.parsed(model))

    return await _run_once(call, ask)


async def commit_without_body(call: RequestContext, choose: Callable[[], Deed]) -> HandlerResponse:
    """The same for a request without a body."""

    async def ask() -> Deed:
        call.query(call.route.query)
        return choose()

    return await _run_once(call, ask)


async def _run_once(call: RequestContext, ask: Callable[[], Awaitable[Deed]]) -> HandlerResponse:
    async def asked() -> Deed:
        if call.route.proof:
            await signin.check_proof(call.who)
        return await ask()

    return respond(await act.once(call.service, call.key, asked))
