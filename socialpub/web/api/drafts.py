"""/v1/drafts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from socialpub.base.errors import rule_error
from socialpub.base.runtime import format_iso
from socialpub.domain.access import actions, idempotency
from socialpub.domain.access.actions import BoundAction, bind
from socialpub.domain.access.actor import Actor
from socialpub.domain.access.preconditions import ANY_TAG, LoadResource, check_tag, compute_tag
from socialpub.domain.media import library
from socialpub.domain.posts import approval_links, draft_contents, drafts, inline_media
from socialpub.domain.schemas import validation
from socialpub.domain.schemas.common import DeletedBody, ProfileQuery
from socialpub.domain.schemas.drafts import (
    ApprovalLink,
    DraftBody,
    DraftChange,
    DraftContent,
    DraftPage,
    DraftRequest,
    DraftsQuery,
    ReturnRequest,
)
from socialpub.domain.schemas.posts import BatchBody
from socialpub.web.api import posts as posts_api
from socialpub.web.api.write_handlers import commit, commit_after_lookup, commit_without_body, run_once
from socialpub.web.http import etags, prefer_header
from socialpub.web.http.handler import HandlerResponse, RequestContext, respond
from socialpub.web.http.operation import Operation, SuccessResponse
from socialpub.web.openapi.examples import ACCOUNT_ID, BASE, BATCH_ID, DRAFT_AUTHOR, DRAFT_ID, NOW, SOON

TEXT = posts_api.TEXT
NEW_REQUEST = {"title": "Opening hours", "text": TEXT, "targets": [{"accountId": ACCOUNT_ID}]}
CHANGE_REQUEST = {"content": {"text": TEXT, "targets": [{"accountId": ACCOUNT_ID}], "scheduledAt": SOON}}
DRAFT: DraftBody = {
    "id": DRAFT_ID,
    "title": "Opening hours",
    "content": {"text": TEXT, "targets": [{"accountId": ACCOUNT_ID}]},
    "status": "draft",
    "note": None,
    "problems": [],
    "createdBy": DRAFT_AUTHOR,
    "updatedBy": DRAFT_AUTHOR,
    "batchId": None,
    "createdAt": NOW,
    "updatedAt": NOW,
}
CONTENT_ERRORS = ("targets.max", "media.source", "media.base64_invalid", "profile.scope_mismatch")


# --- Reading ---------------------------------------------------------------------------------------------------------

LIST = Operation(
    "Drafts",
    "listDrafts",
    "List drafts",
    "Newest first. Published drafts are listed too; of those, the newest 1,000 are kept.",
    query=DraftsQuery,
    answers={200: SuccessResponse(DraftPage, "One page.", {"data": [DRAFT], "nextCursor": None})},
    errors=("cursor", "not_found", "api_key.profile_scope"),
    links={"readDraft": "/data/0/id"},
)


async def list_drafts(call: RequestContext) -> HandlerResponse:
    """GET /v1/drafts."""
    query = call.query(DraftsQuery)
    page = await call.read(lambda: drafts.load_page(call.service, call.scope, query))
    return HandlerResponse(await drafts.refresh_page(call.service, call.scope, page))


READ = Operation(
    "Drafts",
    "readDraft",
    "Read one draft",
    "`problems` tells why publishing it would be refused now, as POST /v1/posts/validate does without fetching media. "
    "The `ETag` names everything else; send it as `If-Match` with a change or an approval.",
    query=ProfileQuery,
    answers={200: SuccessResponse(DraftBody, "The draft.", DRAFT)},
    errors=("not_found",),
)


async def read(call: RequestContext) -> HandlerResponse:
    """GET /v1/drafts/{id}."""
    scope, draft = call.profile_scope, call.path_value("draft_id")
    body = await call.read(lambda: drafts.load_body(scope, draft))
    tag = compute_tag(drafts.encode(body))
    return HandlerResponse(await drafts.refresh(call.service, scope, body), headers={"ETag": tag})


def _load_from(call: RequestContext) -> LoadResource:
    """Return the function that reads the draft of the request, for its ETag."""
    return lambda: drafts.encode(drafts.load_body(call.profile_scope, call.path_value("draft_id")))


# --- Writing ---------------------------------------------------------------------------------------------------------

CREATE = Operation(
    "Drafts",
    "createDraft",
    "Create a draft",
    "Takes the body of a publish request, of which anything may be missing, and a title. It is checked as far as it "
    "goes: `problems` lists why publishing it would be refused. Inline files are stored.",
    body=DraftRequest,
    requests={"a text for one account": NEW_REQUEST, "an idea": {"title": "Summer menu"}},
    answers={201: SuccessResponse(DraftBody, "The draft.", DRAFT)},
    errors=(*CONTENT_ERRORS, "not_found", "drafts.max", "media.quota"),
    links=dict.fromkeys(("readDraft", "changeDraft", "proposeDraft", "deleteDraft"), "/id"),
)


async def create(call: RequestContext) -> HandlerResponse:
    """POST /v1/drafts."""

    async def choose(request: DraftRequest) -> BoundAction:
        checked = await check_content(call.actor, request, call.inline_files)
        return _with_files(bind(call.actor, drafts.create, request.title, checked), checked)

    return await commit_after_lookup(call, DraftRequest, choose)


def _with_files(action: BoundAction, checked: drafts.CheckedContent) -> BoundAction:
    """Return the action that writes a content, whose stored files are deleted if it fails."""
    return replace(action, cleanup=library.delete_on_failure(action.who.service, checked.files.values()))


async def check_content(who: Actor, given: DraftContent, inline: library.InlineFiles) -> drafts.CheckedContent:
    """Check a content and store its inline files."""
    content = draft_contents.parse(who.scope, given, inline)
    hashes = {data for data, _ in draft_contents.list_inline(content)}
    named = {data: inline[data] for data in hashes}
    facts = await inline_media.store_files(who.service, who.scope.organization, named) if named else {}
    async with library.delete_on_failure(who.service, facts.values()):
        problems = await draft_contents.find_problems(who.service, who.scope, content, inline, facts)
    return drafts.CheckedContent(content, problems, facts)


CHANGE = Operation(
    "Drafts",
    "changeDraft",
    "Change a draft",
    "`content` replaces the whole content. If that changes what would be published (text, files, alt text, options, "
    "targets or time), an approval ends and the draft is a `draft` again; a title changes nothing of that.",
    query=ProfileQuery,
    body=DraftChange,
    requests={"new content": CHANGE_REQUEST, "new title": {"title": "Opening hours in May"}},
    answers={200: SuccessResponse(DraftBody, "The draft as it is now.", DRAFT)},
    errors=(*CONTENT_ERRORS, "not_found", "draft.status", "media.quota"),
)


async def change(call: RequestContext) -> HandlerResponse:
    """PATCH /v1/drafts/{id}."""
    draft = call.path_value("draft_id")

    async def choose(request: DraftChange) -> BoundAction:
        title = request.title or "" if "title" in request.model_fields_set else None
        if request.content is None:
            return bind(call.actor, drafts.change, draft, title, None)
        checked = await check_content(call.actor, request.content, call.inline_files)
        return _with_files(bind(call.actor, drafts.change, draft, title, checked), checked)

    return await commit_after_lookup(call, DraftChange, choose, _load_from(call))


async def move(who: Actor, draft: str, from_ms: int, to_ms: int) -> bool:
    """Change the time of a draft, if it still has `from_ms`; return whether its approval ended.

    Raises ApiError `not_found`, `draft.status`, `draft.changed`.
    """
    row = await who.service.read(lambda: drafts.find_open(who.scope, draft))
    if row["scheduled_at"] != from_ms:
        raise rule_error("draft.changed")
    content = drafts.load_content(row) | {"scheduledAt": format_iso(to_ms)}
    checked = await check_content(who, validation.parse_object(DraftContent, content), {})
    moved = await actions.perform(who, drafts.move, draft, row["content"], checked)
    return row["status"] == "approved" != moved["status"]


DELETE = Operation(
    "Drafts",
    "deleteDraft",
    "Delete a draft",
    "Its approval link stops working. Posts that were published from it stay.",
    query=ProfileQuery,
    answers={200: SuccessResponse(DeletedBody, "The draft is deleted.", {"id": DRAFT_ID, "deleted": True})},
    errors=("not_found",),
)


async def delete(call: RequestContext) -> HandlerResponse:
    """DELETE /v1/drafts/{id}."""
    draft = call.path_value("draft_id")
    return await commit_without_body(call, lambda: bind(call.actor, drafts.delete, draft), _load_from(call))


# --- Proposing and deciding ------------------------------------------------------------------------------------------

PROPOSE = Operation(
    "Drafts",
    "proposeDraft",
    "Propose a draft",
    "Asks for an approval: event `draft.proposed`, which notification channels can carry.",
    query=ProfileQuery,
    answers={200: SuccessResponse(DraftBody, "The proposed draft.", {**DRAFT, "status": "proposed"})},
    errors=("not_found", "draft.status", "draft.changed"),
)


async def propose(call: RequestContext) -> HandlerResponse:
    """POST /v1/drafts/{id}/propose."""

    async def build() -> BoundAction:
        return await build_proposal(call.actor, call.path_value("draft_id"))

    return await run_once(call, build, _load_from(call))


async def build_proposal(who: Actor, draft: str) -> BoundAction:
    """Check the draft's content and return the action that proposes it."""
    row = await who.service.read(lambda: drafts.find(who.scope, draft))
    problems = await draft_contents.find_problems(who.service, who.scope, drafts.load_content(row), {}, {})
    return bind(who, drafts.propose, draft, row["content"], problems)


APPROVE = Operation(
    "Drafts",
    "approveDraft",
    "Approve a draft",
    "`If-Match` names what was seen. The approval ends when the content changes. Event `draft.approved`.",
    query=ProfileQuery,
    answers={200: SuccessResponse(DraftBody, "The approved draft.", {**DRAFT, "status": "approved"})},
    errors=("not_found", "draft.status", "draft.incomplete"),
)


async def approve(call: RequestContext) -> HandlerResponse:
    """POST /v1/drafts/{id}/approve."""
    call.query(ProfileQuery)
    if ANY_TAG in (etags.parse_if_match(call) or ()):
        raise rule_error("http.if_match", "An approval names the ETag of what was seen in `If-Match`.", status=428)
    draft = call.path_value("draft_id")
    return await commit_without_body(call, lambda: bind(call.actor, drafts.approve, draft), _load_from(call))


RETURN = Operation(
    "Drafts",
    "returnDraft",
    "Return a draft",
    "Ends a proposal or an approval, with a note: the draft is a `draft` again. Event `draft.returned`.",
    query=ProfileQuery,
    body=ReturnRequest,
    requests={"with a note": {"note": "Please name the holidays too."}},
    answers={
        200: SuccessResponse(DraftBody, "The returned draft.", {**DRAFT, "note": "Please name the holidays too."})
    },
    errors=("not_found", "draft.status"),
)


async def send_back(call: RequestContext) -> HandlerResponse:
    """POST /v1/drafts/{id}/return."""
    draft = call.path_value("draft_id")
    return await commit(
        call, ReturnRequest, lambda request: bind(call.actor, drafts.send_back, draft, request.note), _load_from(call)
    )


LINK: ApprovalLink = {
    "url": f"{BASE}/approve/0rT7uVw2YhN4mLp9Bk3xQ9ZcH2bQ8nYwLdA7eUoJ9sGf",
    "expiresAt": "2026-11-27T12:00:00.000Z",
}
CREATE_LINK = Operation(
    "Drafts",
    "createApprovalLink",
    "Create an approval link",
    "Anyone who has the link sees this draft as it would be published, and can approve or return it, without a login, "
    "for 7 days. It replaces an earlier link, and ends when the draft is published or deleted.",
    query=ProfileQuery,
    answers={200: SuccessResponse(ApprovalLink, "The link, shown only once.", LINK)},
    errors=("not_found", "draft.status"),
)


async def create_link(call: RequestContext) -> HandlerResponse:
    """POST /v1/drafts/{id}/link."""
    draft = call.path_value("draft_id")
    return await commit_without_body(call, lambda: bind(call.actor, approval_links.create, draft), _load_from(call))


REVOKE_LINK = Operation(
    "Drafts",
    "revokeApprovalLink",
    "Revoke an approval link",
    query=ProfileQuery,
    answers={200: SuccessResponse(DeletedBody, "The link no longer works.", {"id": DRAFT_ID, "deleted": True})},
    errors=("not_found",),
)


async def revoke_link(call: RequestContext) -> HandlerResponse:
    """DELETE /v1/drafts/{id}/link."""
    draft = call.path_value("draft_id")
    return await commit_without_body(call, lambda: bind(call.actor, approval_links.revoke, draft), _load_from(call))


# --- Publishing ------------------------------------------------------------------------------------------------------

PUBLISHED_BATCH: BatchBody = {**posts_api.SCHEDULED_BATCH, "id": BATCH_ID}
PUBLISH = Operation(
    "Drafts",
    "publishDraft",
    "Publish a draft",
    "Does what POST /v1/posts does with the draft's content, and answers the same. A draft is published once. Where "
    "the setting `publishing.approval` is on, it needs an approval of exactly what is published.",
    query=ProfileQuery,
    answers={
        200: SuccessResponse(BatchBody, "Every target is finished, or one has failed.", posts_api.BATCH),
        202: SuccessResponse(BatchBody, "Accepted, not finished.", PUBLISHED_BATCH),
    },
    errors=(
        *posts_api.BATCH_ERRORS,
        "preflight_failed",
        "billing.posts.monthly_cap",
        "service.paused",
        "draft.status",
        "draft.approval",
        "draft.changed",
    ),
)


async def publish(call: RequestContext) -> HandlerResponse:
    """POST /v1/drafts/{id}/publish."""
    call.query(ProfileQuery)
    default = call.service.runtime.settings.publishing.immediate_wait
    wait = prefer_header.parse_wait(call.request.headers.getall("prefer", []), default)
    expected = etags.parse_if_match(call)

    def check() -> None:
        if expected is not None:
            check_tag(expected, _load_from(call))

    answer = await publish_draft(call, call.path_value("draft_id"), wait.seconds, check)
    applied = {} if answer.replayed else wait.headers
    return respond(answer, Location=f"/v1/batches/{answer.batch}", **applied)


async def publish_draft(
    call: RequestContext, draft: str, wait: float, check: Callable[[], None] = lambda: None
) -> idempotency.StoredResponse:
    """Publish a draft as POST /v1/posts would. Return the response after at most `wait` s.

    `check`: raises unless the draft is as it was seen; called within the reads of it.
    """
    publication = drafts.DraftPublication(call.actor, draft, check)

    async def run() -> idempotency.StoredResponse:
        try:
            return await posts_api.publish_batch(call, publication.read_request, wait, None, publication.record)
        except idempotency.EarlierBatchError as error:
            earlier = await posts_api.respond_with_batch(call, error.batch, wait)
            adopted = await actions.respond(bind(call.actor, publication.adopt, earlier))
            return adopted._replace(replayed=True)

    return await (idempotency.run_once_unchecked(call.service, call.key, run) if call.key else run())
