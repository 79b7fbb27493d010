"""/v1/batches."""

from __future__ import annotations

from collections.abc import Callable

from socialpub.base import fault_injection
from socialpub.domain.access.actions import BoundAction, bind
from socialpub.domain.access.preconditions import Resource
from socialpub.domain.posts import batch_log
from socialpub.domain.schemas.common import ProfileQuery
from socialpub.domain.schemas.posts import BatchEditRequest, BatchesQuery, BatchPage, CanceledBatch, CurrentBatch
from socialpub.web.api.posts import BATCH, CONTENT_ERRORS, SCHEDULED_BATCH, WINDOW_ERRORS
from socialpub.web.api.write_handlers import commit_after_lookup, commit_without_body
from socialpub.web.http import awaited_reads, etags
from socialpub.web.http.handler import HandlerResponse, RequestContext
from socialpub.web.http.operation import Operation, SuccessResponse
from socialpub.web.openapi.examples import BATCH_ID

ENDED: CurrentBatch = {
    "id": BATCH_ID,
    "status": "partial_failed",
    "createdAt": BATCH["createdAt"],
    "results": BATCH["results"],
}
QUEUED: CurrentBatch = {
    "id": BATCH_ID,
    "status": "queued",
    "createdAt": SCHEDULED_BATCH["createdAt"],
    "results": SCHEDULED_BATCH["results"],
    "scheduledAt": SCHEDULED_BATCH["scheduledAt"],
}
LIST = Operation(
    "Batches",
    "listBatches",
    "List batches",
    "Batches with their results, newest first. The filters are those of the posts: a batch is listed if at least one "
    "of its posts matches them.",
    query=BatchesQuery,
    answers={200: SuccessResponse(BatchPage, "One page.", {"data": [ENDED], "nextCursor": None})},
    errors=("cursor", "not_found", "api_key.profile_scope"),
    links={"readBatch": "/data/0/id"},
)


async def list_batches(call: RequestContext) -> HandlerResponse:
    """GET /v1/batches."""
    query = call.query(BatchesQuery)
    return HandlerResponse(await call.read(lambda: batch_log.load_page(call.service, call.scope, query)))


READ = Operation(
    "Batches",
    "readBatch",
    "Read one batch",
    "The batch as it is now. With `Prefer: wait=N`, the response comes when its last post has ended, or after N "
    "seconds.",
    query=ProfileQuery,
    answers={200: SuccessResponse(CurrentBatch, "The batch.", ENDED)},
    errors=("not_found",),
)


def _load_from(call: RequestContext) -> Callable[[], Resource]:
    """Return the function that reads the batch of the request as its GET shows it."""
    return lambda: batch_log.find(call.profile_scope, call.path_value("batch_id")).resource


async def read(call: RequestContext) -> HandlerResponse:
    """GET /v1/batches/{id}."""
    scope, batch = call.profile_scope, call.path_value("batch_id")
    found, headers = await awaited_reads.read_when_ready(
        call, f"batch:{batch}", lambda: batch_log.find(scope, batch), batch_log.has_ended
    )
    return etags.respond_tagged(found.resource, headers)


EDIT = Operation(
    "Batches",
    "editBatch",
    "Edit or reschedule a batch",
    "Changes every post of the batch that is `queued`, or none: the time of all, the text and the media of those that "
    "have none of their own. The rules are those of editing a post.",
    query=ProfileQuery,
    body=BatchEditRequest,
    requests={
        "tomorrow": {"scheduledAt": "2030-12-02T09:30:00+01:00"},
        "another text": {"text": "The new opening hours start on Tuesday."},
    },
    answers={200: SuccessResponse(CurrentBatch, "The batch as edited.", QUEUED)},
    errors=(*WINDOW_ERRORS, *CONTENT_ERRORS, "scheduledAt.future", "preflight_failed"),
)


async def edit(call: RequestContext) -> HandlerResponse:
    """PATCH /v1/batches/{id}."""
    batch = call.path_value("batch_id")

    async def choose(request: BatchEditRequest) -> BoundAction:
        with await call.enter_checking():
            return await batch_log.prepare_edit(call.actor, batch, request, call.inline_files)

    reply = await commit_after_lookup(call, BatchEditRequest, choose, _load_from(call))
    fault_injection.hit("edit.after_commit")
    return reply


CANCEL = Operation(
    "Batches",
    "cancelBatch",
    "Cancel a batch",
    "Cancels every post of the batch that is `queued` and not yet due. After a successful response, none of these is "
    "ever published; `status` tells how the others are.",
    query=ProfileQuery,
    answers={
        200: SuccessResponse(
            CanceledBatch, "How many posts were canceled.", {"id": BATCH_ID, "status": "canceled", "canceled": 1}
        )
    },
    errors=WINDOW_ERRORS,
)


async def cancel(call: RequestContext) -> HandlerResponse:
    """DELETE /v1/batches/{id}."""
    reply = await commit_without_body(
        call, lambda: bind(call.actor, batch_log.cancel, call.path_value("batch_id")), _load_from(call)
    )
    fault_injection.hit("cancel.after_commit")
    return reply
