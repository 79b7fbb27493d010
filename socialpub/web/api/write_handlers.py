"""Handlers of writes: parse the request, run the action once for its key, respond."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from pydantic import BaseModel

from socialpub.domain.access import actions
from socialpub.domain.access.actions import BoundAction
from socialpub.domain.access.preconditions import LoadResource, require_tag
from socialpub.domain.identity import signin
from socialpub.web.http import etags
from socialpub.web.http.handler import HandlerResponse, RequestContext, respond

M = TypeVar("M", bound=BaseModel)


async def commit(
    call: RequestContext, model: type[M], choose: Callable[[M], BoundAction], load: LoadResource | None = None
) -> HandlerResponse:
    """Run the action that the body asks for, and return its response.

    The body is parsed after the lookup of the Idempotency-Key, so that the error for a reused key comes first. With
    `load`, the request's `If-Match` is honored.
    """

    async def build() -> BoundAction:
        return choose(await call.parse_body(model))

    return await run_once(call, build, load)


async def commit_after_lookup(
    call: RequestContext,
    model: type[M],
    choose: Callable[[M], Awaitable[BoundAction]],
    load: LoadResource | None = None,
) -> HandlerResponse:
    """Run an action whose choice needs an upstream call first, and return its response."""

    async def build() -> BoundAction:
        return await choose(await call.parse_body(model))

    return await run_once(call, build, load)


async def commit_without_body(
    call: RequestContext, choose: Callable[[], BoundAction], load: LoadResource | None = None
) -> HandlerResponse:
    """Run the action of a request without a body, and return its response."""

    async def build() -> BoundAction:
        return choose()

    return await run_once(call, build, load)


async def run_once(
    call: RequestContext, build: Callable[[], Awaitable[BoundAction]], load: LoadResource | None
) -> HandlerResponse:
    """Run the action that `build` returns, once for the request's key; return its response.

    The query is checked before `If-Match`, and both before `build`.
    """

    async def build_checked() -> BoundAction:
        if call.route.recent_password:
            await signin.check_reauthenticated(call.actor)
        call.query(call.route.query)
        expected = etags.parse_if_match(call) if load else None
        action = await build()
        return action if load is None or expected is None else require_tag(action, expected, load)

    return respond(await actions.respond_once(call.service, call.key, build_checked))
