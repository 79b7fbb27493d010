"""/v1/posts."""

from __future__ import annotations

from typing import Any

from socialpub.base import faults
from socialpub.domain import accept, batches, limits, postlog, posts, preflight, schemas
from socialpub.store.db import Tx
from socialpub.web.api.writes import commit
from socialpub.web.http import Call, Reply, kept


async def publish(call: Call) -> Reply:
    """POST /v1/posts."""
    return kept(await limits.once(call.service, call.key, lambda: _publish(call)))


async def _publish(call: Call) -> limits.Kept:
    request = call.parsed(schemas.PublishRequest)
    accepted = await accept.accept(call.service, call.scope, request, call.key, call.request_id)
    if accepted.answer is not None:
        return accepted.answer
    call.engine.publish_now(accepted.claims)
    wait = call.service.runtime.settings.publishing.immediate_wait
    await batches.settled(call.service, accepted.batch, wait)
    key = accepted.key.id if accepted.key else None
    return await call.service.write(lambda tx: batches.complete(call.service, tx, accepted.batch, key))


async def validate(call: Call) -> Reply:
    """POST /v1/posts/validate."""
    request = call.parsed(schemas.ValidateRequest)
    return Reply(await preflight.validate(call.service, call.engine.fetched, call.scope, request))


async def listing(call: Call) -> Reply:
    """GET /v1/posts."""
    query = call.query(schemas.PostsQuery)
    return Reply(await call.service.read(lambda: postlog.page(call.service, call.scope, query)))


async def read(call: Call) -> Reply:
    """GET /v1/posts/{id}."""
    return Reply(await call.service.read(lambda: postlog.detail(call.scope, call.path_value("post_id"))))


async def reschedule(call: Call) -> Reply:
    """PATCH /v1/posts/{id}."""
    post = call.path_value("post_id")

    def move(tx: Tx, request: schemas.RescheduleRequest) -> tuple[int, Any]:
        posts.reschedule(call.service, tx, call.scope, post, request.scheduled_at, call.request_id)
        return 200, postlog.one(call.scope, post)

    reply = await commit(call, schemas.RescheduleRequest, move)
    faults.hit("resched.after_commit")
    return reply


async def cancel(call: Call) -> Reply:
    """DELETE /v1/posts/{id}."""
    post = call.path_value("post_id")

    def run(tx: Tx, _: object) -> tuple[int, Any]:
        return 200, posts.cancel(call.service, tx, call.scope, post, call.request_id)

    reply = await commit(call, None, run)
    faults.hit("cancel.after_commit")
    return reply


async def retry(call: Call) -> Reply:
    """POST /v1/posts/{id}/retry."""
    post = call.path_value("post_id")

    def again(tx: Tx, request: schemas.RetryRequest) -> tuple[int, Any]:
        posts.retry(call.service, tx, call.scope, post, request.scheduled_at, call.request_id)
        return 202, postlog.one(call.scope, post)

    return await commit(call, schemas.RetryRequest, again)


async def settle(call: Call) -> Reply:
    """POST /v1/posts/{id}/settle."""
    post = call.path_value("post_id")

    def decide(tx: Tx, request: schemas.SettleRequest) -> tuple[int, Any]:
        posts.settle(call.service, tx, call.scope, post, request, call.request_id)
        return 200, postlog.one(call.scope, post)

    return await commit(call, schemas.SettleRequest, decide)
