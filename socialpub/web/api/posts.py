"""/v1/posts."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Sequence

from socialpub.base import fault_injection
from socialpub.base.errors import ApiError
from socialpub.base.json_codec import dumps
from socialpub.domain.access import actions, idempotency, lost_responses
from socialpub.domain.access.actions import BoundAction, bind
from socialpub.domain.posts import accept, batches, edits, plan_tokens, post_actions, post_log, preflight
from socialpub.domain.posts.batch_plan import RecordBatch
from socialpub.domain.posts.targets import ResolvedTarget
from socialpub.domain.schemas.common import ProfileQuery
from socialpub.domain.schemas.posts import (
    BatchBody,
    BatchRequest,
    CanceledBody,
    PostBody,
    PostDetail,
    PostEditRequest,
    PostPage,
    PostsQuery,
    PublishRequest,
    RetryRequest,
    SettleRequest,
    ValidateRequest,
    ValidationBody,
)
from socialpub.web.api.write_handlers import commit, commit_after_lookup, commit_without_body
from socialpub.web.http import etags, prefer_header
from socialpub.web.http.handler import HandlerResponse, RequestContext, respond
from socialpub.web.http.operation import Operation, SuccessResponse
from socialpub.web.openapi.examples import (
    ACCOUNT_ID,
    AT_URI,
    BATCH_ID,
    CID,
    DISPLAY_NAME,
    DONE,
    MEDIA_ID,
    NOW,
    OTHER_ACCOUNT_ID,
    OTHER_PLATFORM,
    PLATFORM,
    PLATFORM_ACCOUNT_ID,
    POST_ID,
    PROFILE_ID,
    REFUSED,
    SOON,
    WEB,
)

ReadRequest = Callable[[], Awaitable[BatchRequest]]
"""Parses the request body, called once the request has a permit."""

CONTENT_ERRORS = (
    "scheduledAt.no_bluesky_reply",
    "targets.options.platform_mismatch",
    "media.source",
    "media.base64_invalid",
    "media.unknown",
    "media.quota",
    "post.duplicate",
)
BATCH_ERRORS = (
    "targets.required",
    "targets.max",
    "mode_conflict",
    "external_id.taken",
    "scheduledAt.future",
    "scheduledAt.no_first_comment",
    "scheduledAt.no_bluesky_reply",
    "profile.scope_mismatch",
    "target.account.not_connected",
    "target.account.ambiguous",
    "targets.account.platform_mismatch",
    "targets.options.platform_mismatch",
    "media.source",
    "media.base64_invalid",
    "media.unknown",
    "not_found",
    "post.duplicate",
    "slots.profile",
    "slots.none",
)
WINDOW_ERRORS = ("not_found", "post.status", "post.scheduledAt.window")

TEXT = "The new opening hours start on Monday."
NOW_REQUEST = {"targets": [{"accountId": ACCOUNT_ID}], "text": TEXT}
LATER_REQUEST = {
    "targets": [{"platform": PLATFORM}],
    "text": TEXT,
    "media": [{"kind": "image", "url": "https://example.org/door.jpg", "altText": "A door with the new hours on it"}],
    "scheduledAt": "2030-12-01T09:30:00+01:00",
}
DIFFERENT_REQUEST = {
    "targets": [
        {"accountId": ACCOUNT_ID, "options": {"platform": PLATFORM, "langs": ["en"]}},
        {"accountId": OTHER_ACCOUNT_ID, "text": "New opening hours from Monday. Details on our page."},
    ],
    "text": TEXT,
    "media": [MEDIA_ID],
}
SLOT_REQUEST = {"targets": [{"platform": PLATFORM}], "text": TEXT, "slot": "next", "profileId": PROFILE_ID}
THREAD_REQUEST = {
    "targets": [{"platform": PLATFORM}],
    "text": "Three things change on Monday.",
    "thread": [
        {"text": "The doors open at eight."},
        {"text": "The new entrance looks like this.", "media": [MEDIA_ID]},
    ],
}
PLAN_TOKEN = "plan_4fRz0Yx8uT2bKqLw7NvEa1JcMdHgSiPo5XyBnQ6VtZm"
RESCHEDULE_REQUEST = {"scheduledAt": "2030-12-02T09:30:00+01:00"}

QUEUED: PostBody = {
    "id": POST_ID,
    "batchId": BATCH_ID,
    "externalId": None,
    "profileId": PROFILE_ID,
    "accountId": ACCOUNT_ID,
    "account": {
        "id": ACCOUNT_ID,
        "platform": PLATFORM,
        "platformAccountId": PLATFORM_ACCOUNT_ID,
        "displayName": DISPLAY_NAME,
    },
    "platform": PLATFORM,
    "status": "queued",
    "text": TEXT,
    "mediaRefs": [],
    "scheduledAt": SOON,
    "nextAttemptAt": None,
    "publishedAt": None,
    "platformUri": None,
    "platformCid": None,
    "url": None,
    "warnings": [],
    "threadOf": None,
    "threadPosition": None,
    "createdAt": NOW,
    "updatedAt": NOW,
}
PUBLISHED: PostBody = {
    **QUEUED,
    "status": "published",
    "scheduledAt": None,
    "publishedAt": DONE,
    "platformUri": AT_URI,
    "platformCid": CID,
    "url": WEB,
    "updatedAt": DONE,
}


BATCH: BatchBody = {
    "id": BATCH_ID,
    "status": "partial_failed",
    "createdAt": NOW,
    "results": [
        {
            "accountId": ACCOUNT_ID,
            "platform": PLATFORM,
            "postId": POST_ID,
            "status": "published",
            "uri": AT_URI,
            "cid": CID,
            "url": WEB,
        },
        {
            "accountId": OTHER_ACCOUNT_ID,
            "platform": OTHER_PLATFORM,
            "postId": "01999c41-7e32-7ae9-b7d1-0a4f6e8c2b95",
            "status": "rejected",
            "error": REFUSED,
        },
    ],
}
SCHEDULED_BATCH: BatchBody = {
    "id": BATCH_ID,
    "status": "queued",
    "createdAt": NOW,
    "results": [{"accountId": ACCOUNT_ID, "platform": PLATFORM, "postId": POST_ID, "status": "queued"}],
    "scheduledAt": SOON,
}
PUBLISH = Operation(
    "Posts",
    "publishPosts",
    "Publish or schedule",
    "Publishes one piece of content to 1 to 25 targets: at `scheduledAt` or in the next free `slot` (202), or now "
    "(200). Preflight checks every target first. One failure rejects the whole batch, and the error lists every "
    "failure of every target. After that, each target has its own outcome in `results`. A target that is not finished "
    "when the wait ends has the status `publishing` and continues: read it later at `Location`, and do not send the "
    "request again. If no target has failed by then, the batch is `queued` (202). If the response to a request "
    "without an Idempotency-Key could not be delivered, the same request with the same API key within 5 minutes gets "
    "the response to the first one, with the warning `joined_undelivered_batch`. With an `externalId`, a batch is "
    "created once: the same content again returns the batch as it is, however late, and other content is refused. "
    "Each piece of a `thread` is one post, which costs one of the quota and is published once the piece before it is. "
    "If a piece fails or its outcome is unknown, those after it fail with rule `thread.previous_missing`, until that "
    "piece is retried, or settled as published.",
    body=PublishRequest,
    requests={
        "publish now": NOW_REQUEST,
        "schedule": LATER_REQUEST,
        "next slot": SLOT_REQUEST,
        "one target differs": DIFFERENT_REQUEST,
        "a thread": THREAD_REQUEST,
    },
    answers={
        200: SuccessResponse(
            BatchBody,
            "Every target is finished, or one has failed. `status` and `results` have the outcomes.",
            BATCH,
        ),
        202: SuccessResponse(
            BatchBody,
            "Accepted, not finished: scheduled, or still being published. No target has failed.",
            SCHEDULED_BATCH,
        ),
    },
    errors=(
        *BATCH_ERRORS,
        "plan.unknown",
        "plan.changed",
        "preflight_failed",
        "billing.posts.monthly_cap",
        "service.paused",
    ),
    links=dict.fromkeys(("readPost", "editPost", "cancelPost", "retryPost", "settlePost"), "/results/0/postId"),
)


async def publish(call: RequestContext) -> HandlerResponse:
    """POST /v1/posts."""
    default = call.service.runtime.settings.publishing.immediate_wait
    wait = prefer_header.parse_wait(call.request.headers.getall("prefer", []), default)

    def read_request() -> Awaitable[PublishRequest]:
        return call.parse_body(PublishRequest)

    try:
        answer = await (
            publish_keyed(call, read_request, wait.seconds)
            if call.key
            else _publish_unkeyed(call, read_request, wait.seconds)
        )
    except idempotency.EarlierBatchError as error:
        answer = await respond_with_batch(call, error.batch, wait.seconds)
    applied = {} if answer.replayed else wait.headers
    return respond(answer, Location=f"/v1/batches/{answer.batch}", **applied)


async def publish_keyed(call: RequestContext, read_request: ReadRequest, wait: float) -> idempotency.StoredResponse:
    """Publish once for the call's key. Return the response after at most `wait` seconds."""
    assert call.key is not None, "checked by the caller"
    return await idempotency.run_once_unchecked(
        call.service, call.key, lambda: publish_batch(call, read_request, wait, None)
    )


async def _publish_unkeyed(call: RequestContext, read_request: ReadRequest, wait: float) -> idempotency.StoredResponse:
    """Publish a request without a key.

    If the response to an identical earlier request was never delivered, return that request's batch instead.
    """
    service, request = call.service, call.request
    pending = lost_responses.identify(service, call.scope, (request.method, request.path), call.fingerprint)
    if pending is None:
        return await publish_batch(call, read_request, wait, None)
    call.on_disconnect = functools.partial(lost_responses.mark_lost, service, pending)
    earlier = None
    try:
        answer = await publish_batch(call, read_request, wait, pending)
    except lost_responses.JoinEarlierRequestError as error:
        earlier = error.earlier
    except ApiError:  # an earlier identical request may have been accepted
        earlier = await service.read(functools.partial(lost_responses.find_undelivered, service, pending))
        if earlier is None:
            raise
    if earlier is not None:
        pending, answer = earlier, await _join_batch(call, earlier, wait)
    _record_delivery(call, pending, str(answer.batch))
    return answer


async def _join_batch(
    call: RequestContext, found: lost_responses.PendingResponse, wait: float
) -> idempotency.StoredResponse:
    call.on_disconnect = lambda: None  # the response is already marked as undelivered
    return batches.build_joined_response(await _wait_for_batch(call, str(found.batch), wait))


async def respond_with_batch(call: RequestContext, batch: str, wait: float) -> idempotency.StoredResponse:
    """Return an earlier batch as it is, once it has ended or after `wait` seconds."""
    return batches.build_response(await _wait_for_batch(call, batch, wait))._replace(replayed=True)


async def _wait_for_batch(call: RequestContext, batch: str, wait: float) -> BatchBody:
    service = call.service
    opening = await service.read(lambda: batches.load_body(batch))
    return await batches.wait_for_batch(service, opening, wait)


def _record_delivery(call: RequestContext, pending: lost_responses.PendingResponse, batch: str) -> None:
    """Mark the response as delivered, or as lost once the client has disconnected."""
    if not call.is_disconnected:
        call.on_disconnect = functools.partial(lost_responses.mark_lost_again, call.service, pending, batch)
        lost_responses.mark_delivered(call.service, pending)


async def publish_batch(
    call: RequestContext,
    read_request: ReadRequest,
    wait: float,
    pending: lost_responses.PendingResponse | None,
    record: RecordBatch | None = None,
) -> idempotency.StoredResponse:
    """Accept a batch and return it. `record` writes what belongs to it, in its transaction.

    Once it is accepted, later errors do not change the response.
    """
    service = call.service
    with await call.enter_checking():
        request = await read_request()
        order = await (
            accept.prepare_planned(call.actor, request.plan, pending)
            if isinstance(request, PublishRequest) and request.plan is not None
            else accept.prepare(call.actor, request, pending, call.inline_files)
        )
        order = order._replace(record=record)
    if order.at_ms is not None:
        return batches.build_response(await accept.commit(order))
    with batches.BatchCompletion(service, order.batch, call.key) as ending:
        accepted = await accept.commit(order, call.engine.publish_now)
        call.release_permit()
        ended = await ending.wait(wait)
    answer = batches.build_response(ended.body if ended else await batches.load_body_or_accepted(service, accepted))
    if call.key is None or (ended and ended.written):
        return answer
    return await batches.store_response(service, call.key, answer)


VALIDATION: ValidationBody = {
    "valid": True,
    "results": [
        {
            "targetIndex": 0,
            "accountId": ACCOUNT_ID,
            "platform": PLATFORM,
            "valid": True,
            "text": {"length": 38, "limit": 300, "unit": "graphemes"},
            "errors": [],
            "warnings": [],
        }
    ],
}
VALIDATE = Operation(
    "Posts",
    "validatePosts",
    "Check without publishing",
    "Takes the body of a publish request and runs every check on every target. It publishes nothing. With "
    "`plan: true`, and if all is valid, the request is stored as a plan: its token, alone in the body of POST "
    "/v1/posts, publishes exactly what was checked. A plan expires after 15 minutes, or one minute before "
    "`scheduledAt`. Its token works once; sent again, it returns the same batch. Media of a plan are uploaded files.",
    body=ValidateRequest,
    requests={"check": NOW_REQUEST, "make a plan": NOW_REQUEST | {"plan": True}},
    answers={
        200: SuccessResponse(
            ValidationBody,
            "The result of the check. `valid`: every check was passed. The monthly quota is not checked.",
            VALIDATION | {"plan": {"token": PLAN_TOKEN, "expiresAt": SOON}},
        )
    },
    errors=(*BATCH_ERRORS, "plan.max"),
)


async def validate(call: RequestContext) -> HandlerResponse:
    """POST /v1/posts/validate."""
    with await call.enter_checking():
        request = await call.parse_body(ValidateRequest)
    if not request.plan:
        _, body = await _validate(call, request)
        return HandlerResponse(body)
    plan_tokens.check_request(request)
    return respond(await idempotency.run_once(call.service, call.key, lambda: _plan(call, request)))


async def _validate(call: RequestContext, request: ValidateRequest) -> tuple[Sequence[ResolvedTarget], ValidationBody]:
    with await call.enter_checking():
        looked = await preflight.check_request(call.service, call.scope, request, call.inline_files)
    body = await preflight.validate(call.service, call.engine.fetched, call.scope, looked, call.inline_files)
    return looked.targets, body


async def _plan(call: RequestContext, request: ValidateRequest) -> idempotency.StoredResponse:
    """Check a request, and store it as a plan if all is valid and was checked."""
    targets, body = await _validate(call, request)
    if not body["valid"]:
        return idempotency.StoredResponse(200, dumps(body))
    return await actions.respond(bind(call.actor, plan_tokens.create, request, targets, body))


PAGE: PostPage = {"data": [PUBLISHED], "nextCursor": None}
LIST = Operation(
    "Posts",
    "listPosts",
    "List posts",
    "One row for each target of each batch, newest first, or by the scheduled time (`order`). Filters can be "
    "combined. For the next page send `nextCursor` as `cursor`, in the same order, until it is null; posts that are "
    "added meanwhile are neither skipped nor listed twice. In scheduled order, a post that is rescheduled meanwhile "
    "may be skipped or listed twice.",
    query=PostsQuery,
    answers={200: SuccessResponse(PostPage, "One page.", PAGE)},
    errors=("cursor", "not_found", "api_key.profile_scope"),
    links={"readPost": "/data/0/id"},
)


async def list_posts(call: RequestContext) -> HandlerResponse:
    """GET /v1/posts."""
    query = call.query(PostsQuery)
    read = call.read_inline if post_log.is_small(call.scope, query) else call.read
    return HandlerResponse(await read(lambda: post_log.load_page(call.service, call.scope, query)))


DETAIL: PostDetail = {
    **PUBLISHED,
    "options": {"platform": PLATFORM},
    "firstComment": None,
    "attempts": [
        {
            "id": "01999c41-7e4a-7335-9d10-6c8e5f2b1a74",
            "attemptNumber": 1,
            "startedAt": NOW,
            "finishedAt": DONE,
            "succeeded": True,
            "errorCode": None,
            "errorMessage": None,
            "platformResponse": None,
        }
    ],
}
READ = Operation(
    "Posts",
    "readPost",
    "Read one post",
    "The post with its options, its first comment and every attempt to publish it. Send its `ETag` as `If-Match` with "
    "a change, so that a change in between is not overwritten.",
    query=ProfileQuery,
    answers={200: SuccessResponse(PostDetail, "The post.", DETAIL)},
    errors=("not_found",),
)


async def read(call: RequestContext) -> HandlerResponse:
    """GET /v1/posts/{id}."""
    scope, post = call.profile_scope, call.path_value("post_id")
    return etags.respond_tagged(await call.read_inline(lambda: post_log.load_detail(scope, post)))


def _load_from(call: RequestContext) -> Callable[[], bytes]:
    """Return the function that reads the post of the request as its GET shows it."""
    return lambda: post_log.load_detail(call.profile_scope, call.path_value("post_id"))


EDIT = Operation(
    "Posts",
    "editPost",
    "Edit or reschedule a post",
    "Possible while the post is `queued` and not yet due. New content passes the same checks as in a publish request. "
    "After a successful response, the post is published with the new content, and not before the new time. A post that "
    "is edited while it becomes due is published with the old content or with the new, never with parts of both. "
    "The pieces of a thread follow the time of the first one.",
    query=ProfileQuery,
    body=PostEditRequest,
    requests={"tomorrow": RESCHEDULE_REQUEST, "another text": {"text": "The new opening hours start on Tuesday."}},
    answers={200: SuccessResponse(PostBody, "The post as edited.", QUEUED)},
    errors=(*WINDOW_ERRORS, *CONTENT_ERRORS, "post.thread.waiting", "scheduledAt.future", "preflight_failed"),
)


async def edit(call: RequestContext) -> HandlerResponse:
    """PATCH /v1/posts/{id}."""
    post = call.path_value("post_id")

    async def choose(request: PostEditRequest) -> BoundAction:
        with await call.enter_checking():
            return await edits.prepare_post(call.actor, post, request, call.inline_files)

    reply = await commit_after_lookup(call, PostEditRequest, choose, _load_from(call))
    fault_injection.hit("edit.after_commit")
    return reply


CANCELED: CanceledBody = {"id": POST_ID, "status": "canceled"}
CANCEL = Operation(
    "Posts",
    "cancelPost",
    "Cancel a scheduled post",
    "Possible while the post is `queued` and not yet due. After a successful response, neither it nor a piece of a "
    "thread after it is published.",
    query=ProfileQuery,
    answers={200: SuccessResponse(CanceledBody, "The canceled post.", CANCELED)},
    errors=WINDOW_ERRORS,
)


async def cancel(call: RequestContext) -> HandlerResponse:
    """DELETE /v1/posts/{id}."""
    reply = await commit_without_body(
        call, lambda: bind(call.actor, post_actions.cancel, call.path_value("post_id")), _load_from(call)
    )
    fault_injection.hit("cancel.after_commit")
    return reply


RETRY = Operation(
    "Posts",
    "retryPost",
    "Retry a post",
    "Publishes a `failed` or `rejected` post from its stored content, as a new attempt that uses no quota: at "
    "`scheduledAt`, or at once in the background. Settle a post with an unknown outcome first.",
    query=ProfileQuery,
    body=RetryRequest,
    requests={"at once": {}, "later": RESCHEDULE_REQUEST},
    answers={202: SuccessResponse(PostBody, "The retry is scheduled.", QUEUED)},
    errors=(
        "not_found",
        "media.unknown",
        "post.retry.status",
        "post.retry.unsettled",
        "post.retry.thread",
        "scheduledAt.future",
    ),
)


async def retry(call: RequestContext) -> HandlerResponse:
    """POST /v1/posts/{id}/retry."""
    post = call.path_value("post_id")
    return await commit(
        call, RetryRequest, lambda request: bind(call.actor, post_actions.retry, post, request), _load_from(call)
    )


SETTLED: PostBody = {**PUBLISHED, "platformCid": None, "url": None}
SETTLE = Operation(
    "Posts",
    "settlePost",
    "Settle an unknown outcome",
    "A post that failed with rule `publish.outcome_unknown` may be published: the platform's response was lost, and "
    "the post could not be found. Check the account, then report whether the post is there. If it is not, you can "
    "retry it.",
    query=ProfileQuery,
    body=SettleRequest,
    requests={"it was published": {"published": True, "uri": AT_URI}, "it was not published": {"published": False}},
    answers={200: SuccessResponse(PostBody, "The post, which is now `published` or `failed`.", SETTLED)},
    errors=("not_found", "post.settle.status"),
)


async def settle(call: RequestContext) -> HandlerResponse:
    """POST /v1/posts/{id}/settle."""
    post = call.path_value("post_id")
    return await commit(
        call, SettleRequest, lambda request: bind(call.actor, post_actions.settle, post, request), _load_from(call)
    )
