"""/v1/posts."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

from socialpub.base import faults
from socialpub.domain.people import limits
from socialpub.domain.posts import accept, batches, changes, postlog, preflight, unheard
from socialpub.domain.shapes.posts import (
    PostsQuery,
    PublishRequest,
    RescheduleRequest,
    RetryRequest,
    SettleRequest,
    ValidateRequest,
)
from socialpub.store.db import Tx
from socialpub.web import prefer, trail
from socialpub.web.api.writes import commit
from socialpub.web.http import Call, Reply, kept


async def publish(call: Call) -> Reply:
    """POST /v1/posts."""
    default = call.service.runtime.settings.publishing.immediate_wait
    wait = prefer.wait_of(call.request.headers.getall("prefer", []), default)
    answer = await (_once_keyed if call.key else _once_unkeyed)(call, wait.seconds)
    reply, where = kept(answer), {"Location": f"/v1/posts?batchId={answer.batch}"}
    return replace(reply, headers={**reply.headers, **where, **({} if answer.replayed else wait.headers)})


async def _once_keyed(call: Call, wait: float) -> limits.Kept:
    return await limits.once(call.service, call.key, lambda: _publish(call, wait, None))


async def _once_unkeyed(call: Call, wait: float) -> limits.Kept:
    """The answer of a request without a key: of the same request before it, where nobody has heard that."""
    service, request = call.service, call.request
    ear = unheard.ear_of(service, call.scope, (request.method, request.path, request.query_string), call.body)
    if ear is None:
        return await _publish(call, wait, None)
    call.when_gone = functools.partial(unheard.lost, service, ear)
    found = await service.read(functools.partial(unheard.find, service, ear))
    if found is None:
        try:
            answer = await _publish(call, wait, ear)
        except unheard.JoinError as error:
            found = error.found
    if found is not None:
        ear, answer = found, await _join(call, found, wait)
    await _hand_over(call, ear, str(answer.batch))
    return answer


async def _join(call: Call, found: unheard.Ear, wait: float) -> limits.Kept:
    service, batch = call.service, str(found.batch)
    call.when_gone = lambda: None  # it is owed already
    opening = await service.read(lambda: batches.batch_body(service, batch))
    return batches.joined(await batches.as_known(service, opening, wait))


async def _hand_over(call: Call, ear: unheard.Ear, batch: str) -> None:
    """The answer leaves: it is owed no more, unless the client has gone, or turns out to have."""
    if call.gone:
        return

    def lost() -> None:
        unheard.lost(call.service, ear)
        call.service.write(lambda tx: unheard.not_heard(call.service, tx, ear, batch))

    call.when_gone = lost
    await batches.afterwards(call.service, lambda tx: unheard.heard(tx, ear))


async def _publish(call: Call, wait: float, ear: unheard.Ear | None) -> limits.Kept:
    """Accept a batch, or say why not. Once it is accepted, the answer is the batch, whatever happens here."""
    service, key = call.service, call.key
    async with call.turn():
        request = await call.parsed(PublishRequest)
        accepted = await accept.accept(service, call.scope, request, key, ear, trail.act(call), call.inline)
    if not accepted.claims:
        return batches.answer_of(accepted.body)
    call.engine.publish_now(accepted.claims)
    answer = batches.answer_of(await batches.as_known(service, accepted.body, wait))
    if key and not await batches.afterwards(service, lambda tx: limits.keep(service, tx, key.id, answer)):
        service.unkept.add(accepted.body["id"])
    return answer


async def validate(call: Call) -> Reply:
    """POST /v1/posts/validate."""
    async with call.turn():
        request = await call.parsed(ValidateRequest)
        looked = await preflight.look(call.service, call.scope, request, call.inline)
    return Reply(await preflight.validate(call.service, call.engine.fetched, call.scope, looked, call.inline))


async def listing(call: Call) -> Reply:
    """GET /v1/posts."""
    query = call.query(PostsQuery)
    return Reply(await call.service.read(lambda: postlog.page(call.service, call.scope, query)))


async def read(call: Call) -> Reply:
    """GET /v1/posts/{id}."""
    return Reply(await call.service.read(lambda: postlog.detail(call.narrowed, call.path_value("post_id"))))


async def reschedule(call: Call) -> Reply:
    """PATCH /v1/posts/{id}."""
    post = call.path_value("post_id")

    def move(tx: Tx, request: RescheduleRequest) -> tuple[int, Any]:
        changes.reschedule(call.service, tx, call.narrowed, post, request.scheduled_at, call.request_id)
        return 200, postlog.one(call.narrowed, post)

    reply = await commit(call, RescheduleRequest, move)
    faults.hit("resched.after_commit")
    return reply


async def cancel(call: Call) -> Reply:
    """DELETE /v1/posts/{id}."""
    post = call.path_value("post_id")

    def run(tx: Tx, _: object) -> tuple[int, Any]:
        return 200, changes.cancel(call.service, tx, call.narrowed, post, call.request_id)

    reply = await commit(call, None, run)
    faults.hit("cancel.after_commit")
    return reply


async def retry(call: Call) -> Reply:
    """POST /v1/posts/{id}/retry."""
    post = call.path_value("post_id")

    def again(tx: Tx, request: RetryRequest) -> tuple[int, Any]:
        changes.retry(call.service, tx, call.narrowed, post, request.scheduled_at, call.request_id)
        return 202, postlog.one(call.narrowed, post)

    return await commit(call, RetryRequest, again)


async def settle(call: Call) -> Reply:
    """POST /v1/posts/{id}/settle."""
    post = call.path_value("post_id")

    def decide(tx: Tx, request: SettleRequest) -> tuple[int, Any]:
        changes.settle(call.service, tx, call.narrowed, post, request, call.request_id)
        return 200, postlog.one(call.narrowed, post)

    return await commit(call, SettleRequest, decide)
