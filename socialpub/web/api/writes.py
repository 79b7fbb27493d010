"""A write whose whole work is one transaction: done once for an Idempotency-Key, its answer kept in that transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from socialpub.domain import limits
from socialpub.store.db import Tx
from socialpub.web.http import Call, Reply, dumps, kept


async def commit(call: Call, run: Callable[[Tx], tuple[int, Any]], *, secret: bool = False) -> Reply:
    """The answer of `run`, which gets the transaction and returns (status, body); `secret`: the body shows a secret."""

    def write(tx: Tx) -> limits.Kept:
        limits.claim(call.service, tx, call.key)
        status, body = run(tx)
        answer = limits.Kept(status, dumps(body))
        if call.key:
            limits.keep(call.service, tx, call.key.id, answer, secret=secret)
        return answer

    async def once() -> limits.Kept:
        return await call.service.write(write)

    return kept(await limits.once(call.service, call.key, once))
