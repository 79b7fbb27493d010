"""A write that is one transaction: done once for an Idempotency-Key, its answer kept in that transaction."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from pydantic import BaseModel

from socialpub.base.compact import dumps
from socialpub.domain.people import limits
from socialpub.store.db import Tx
from socialpub.web import trail
from socialpub.web.http import Call, Reply, kept

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")


async def commit(
    call: Call, model: type[BaseModel] | None, run: Callable[[Tx, Any], tuple[int, Any]], *, secret: bool = False
) -> Reply:
    """The answer of `run`, which gets the transaction and the parsed body, and returns (status, body).

    The body is parsed after the key was looked up: a key that was used with another body says so first.
    `secret`: the answer shows a secret.
    """

    async def once() -> limits.Kept:
        request = await call.parsed(model) if model else call.query(call.route.query)
        return await call.write(lambda tx: _write(call, tx, lambda tx: run(tx, request), secret))

    return kept(await limits.once(call.service, call.key, once))


async def commit_after(
    call: Call,
    model: type[M],
    first: Callable[[M], Awaitable[T]],
    run: Callable[[Tx, T], tuple[int, Any]],
    *,
    secret: bool = False,
) -> Reply:
    """The same where something has to be asked upstream first: `first` asks, `run` writes what it answered."""

    async def once() -> limits.Kept:
        found = await first(await call.parsed(model))
        return await call.write(lambda tx: _write(call, tx, lambda tx: run(tx, found), secret))

    return kept(await limits.once(call.service, call.key, once))


def _write(call: Call, tx: Tx, run: Callable[[Tx], tuple[int, Any]], secret: bool) -> limits.Kept:
    limits.claim(call.service, tx, call.key)
    status, body = run(tx)
    made = body.get("id") if isinstance(body, dict) else None
    trail.record(call, tx, next(iter(map(str, call.request.match_info.values())), made))
    answer = limits.Kept(status, dumps(body))
    if call.key:
        limits.keep(call.service, tx, call.key.id, answer, secret=secret)
    return answer
