"""What a handler of a write does: read what is asked, have it done once for an Idempotency-Key, and answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from pydantic import BaseModel

from socialpub.domain.access import actions
from socialpub.domain.access.actions import BoundAction
from socialpub.domain.identity import signin
from socialpub.web.http.handler import HandlerResponse, RequestContext, respond

M = TypeVar("M", bound=BaseModel)


async def commit(call: RequestContext, model: type[M], choose: Callable[[M], BoundAction]) -> HandlerResponse:
    """The answer to the deed that the body asks for.

    The body is parsed after the key was looked up: a key that was used with another body says so first.
    """

    async def ask() -> BoundAction:
        return choose(await call.parse_body(model))

    return await _run_once(call, ask)


async def commit_after_lookup(
    call: RequestContext, model: type[M], choose: Callable[[M], Awaitable[BoundAction]]
) -> HandlerResponse:
    """The same where something has to be asked upstream first."""

    async def ask() -> BoundAction:
        return await choose(await call.parse_body(model))

    return await _run_once(call, ask)


async def commit_without_body(call: RequestContext, choose: Callable[[], BoundAction]) -> HandlerResponse:
    """The same for a request without a body."""

    async def ask() -> BoundAction:
        call.query(call.route.query)
        return choose()

    return await _run_once(call, ask)


async def _run_once(call: RequestContext, ask: Callable[[], Awaitable[BoundAction]]) -> HandlerResponse:
    async def asked() -> BoundAction:
        if call.route.recent_password:
            await signin.check_reauthenticated(call.actor)
        return await ask()

    return respond(await actions.respond_once(call.service, call.key, asked))
