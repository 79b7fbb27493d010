"""Drafts: reading, and the actions that create, change, propose, approve, return, delete."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, cast

from socialpub.base.errors import ApiError, rule_error
from socialpub.base.json_codec import dumps
from socialpub.base.runtime import format_iso
from socialpub.domain.access import actions
from socialpub.domain.access.actor import ActionResult, Actor
from socialpub.domain.access.authentication import Scope
from socialpub.domain.access.idempotency import StoredResponse
from socialpub.domain.accounts import accounts
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.events import cursors, events
from socialpub.domain.media import library
from socialpub.domain.organizations import profiles
from socialpub.domain.posts import draft_contents
from socialpub.domain.posts.batch_plan import BatchPlan
from socialpub.domain.schemas import validation
from socialpub.domain.schemas.common import DeletedBody, parse_instant
from socialpub.domain.schemas.drafts import DraftBody, DraftPage, DraftProblem, DraftsQuery
from socialpub.domain.schemas.events import DraftAuthor
from socialpub.domain.schemas.posts import BatchRequest
from socialpub.platforms.contract import MediaFacts
from socialpub.store.database import Tx
from socialpub.store.engine import sql
from socialpub.store.queries import drafts as statements
from socialpub.store.rows import PostDraftRow
from socialpub.store.schema.models import ApiKey, PostDraft, PostDraftMedia, RemovedUser, User, find_row_where

LISTING = "drafts"
OPEN_MAX = 1000
PUBLISHED_MAX = 1000
"""Unpublished drafts that an organization may have, and published ones that it keeps: the newest."""
PAGE_BYTES_MAX = 4 * 1024 * 1024  # of content, unless the first draft has more

# --- Reading ---------------------------------------------------------------------------------------------------------


def find(scope: Scope, draft: str) -> PostDraftRow:
    """Load a draft of the scope. Raises ApiError `not_found`."""
    row = find_row_where(PostDraft, PostDraft.id == draft, scope.filter(PostDraft))
    if row is None or not all(map(scope.has_account, _list_accounts(load_content(row)))):
        raise ApiError("not_found", "There is no draft with this id.")
    return row


def _list_accounts(content: draft_contents.Content) -> list[str]:
    """List the accounts that a content names."""
    return [target["accountId"] for target in content.get("targets", ()) if "accountId" in target]


def get_scope(row: PostDraftRow) -> Scope:
    """Return the scope for the accounts and files of a draft, the same for every reader."""
    return Scope(row["organization"], row["profile"])


def load_content(row: PostDraftRow) -> draft_contents.Content:
    """Return the content of a draft."""
    content: draft_contents.Content = json.loads(row["content"])
    return content


def load_body(scope: Scope, draft: str) -> DraftBody:
    """Load the API body of a draft. Raises ApiError `not_found`."""
    return _build_bodies(scope, [find(scope, draft)])[0]


def encode(body: DraftBody) -> bytes:
    """Return the bytes that the ETag is computed from, with problems as of the last check."""
    return dumps(body).encode()


def load_page(service: AppContext, scope: Scope, query: DraftsQuery) -> DraftPage:
    """Load one page. Raises ApiError `not_found` for a profile out of scope, `cursor`."""
    profile = scope.narrowed(query.profile_id)
    profiles.check_profile(scope, query.profile_id)
    at, last = cursors.decode(service, LISTING, scope.organization, query.cursor) if query.cursor else (None, "")
    position = (at, last, query.limit + 1, scope.account_list)
    names = (scope.organization, profile, sql.dump_json(query.status or []), *position)
    found = sql.fetch_all(statements.FIND_PAGE, names)
    ids: list[str] = []
    size = 0
    for id_, length in found[: query.limit]:
        size += length
        if ids and size > PAGE_BYTES_MAX:
            break
        ids.append(id_)
    rows = {row["id"]: row for row in PostDraft.select().where(PostDraft.id.in_(ids)).dicts()}
    shown: list[PostDraftRow] = [rows[id_] for id_ in ids]
    end = shown[-1] if len(ids) < len(found) else None
    cursor = end and cursors.encode(service, LISTING, scope.organization, end["created_at"], end["id"])
    return {"data": _build_bodies(scope, shown), "nextCursor": cursor}


async def refresh(service: AppContext, scope: Scope, body: DraftBody) -> DraftBody:
    """Return the draft with its present problems: a time may have passed since the last check."""
    if body["status"] == "published":
        return body
    return {**body, "problems": await draft_contents.find_problems(service, scope, body["content"], {}, {})}


async def refresh_page(service: AppContext, scope: Scope, page: DraftPage) -> DraftPage:
    """Return the page with the present problems of its drafts."""
    return {**page, "data": [await refresh(service, scope, body) for body in page["data"]]}


def _build_bodies(scope: Scope, rows: Sequence[PostDraftRow]) -> list[DraftBody]:
    names = _load_names(scope, {who for row in rows for who in (row["created_by"], row["updated_by"])})
    return [
        {
            "id": row["id"],
            "title": row["title"],
            "content": json.loads(row["content"]),
            "status": row["status"],
            "note": row["note"],
            "problems": json.loads(row["problems"]),
            "createdBy": names[row["created_by"]],
            "updatedBy": names[row["updated_by"]],
            "batchId": row["batch"],
            "createdAt": format_iso(row["created_at"]),
            "updatedAt": format_iso(row["updated_at"]),
        }
        for row in rows
    ]


def _load_names(scope: Scope, authors: Collection[str]) -> Mapping[str, DraftAuthor]:
    """Load what the columns `created_by` and `updated_by` refer to."""
    parts = {author: author.partition(":") for author in authors}
    users = [id_ for kind, _, id_ in parts.values() if kind == "user"]
    keys = [id_ for kind, _, id_ in parts.values() if kind == "key"]
    here = scope.organization
    names: dict[str, str] = {}
    for table, label, ids in (
        (RemovedUser, RemovedUser.email, users),
        (User, User.email, users),
        (ApiKey, ApiKey.name, keys),
    ):
        if ids:
            names |= dict(table.select(table.id, label).where(table.id.in_(ids), table.organization == here).tuples())
    return {
        author: {"type": cast(Any, kind), "id": id_ or None, "name": names.get(id_)}
        for author, (kind, _, id_) in parts.items()
    }


def _name_author(who: Actor) -> str:
    """Return the value of `created_by` and `updated_by` for an actor."""
    if who.scope.key:
        return f"key:{who.scope.key}"
    return f"user:{who.scope.user}" if who.scope.user else "link"


# --- Writing ---------------------------------------------------------------------------------------------------------


class CheckedContent(NamedTuple):
    """Content to write, its problems, and the facts of its inline files, by hash.

    The files are stored already.
    """

    content: draft_contents.Content
    problems: list[DraftProblem]
    files: Mapping[str, MediaFacts]


def create(tx: Tx, who: Actor, title: str | None, checked: CheckedContent) -> ActionResult:
    """Create a draft. Raises ApiError `drafts.max`, or `not_found` for an unknown profile."""
    service, scope, now = who.service, who.scope, who.service.now_ms
    if count(scope.organization) >= OPEN_MAX:
        raise rule_error("drafts.max", f"The organization already has {OPEN_MAX} unpublished drafts.")
    author, draft = _name_author(who), service.runtime.ids.uuid()
    row: dict[str, Any] = {
        "id": draft,
        "organization": scope.organization,
        "title": title or None,
        **_store_content(tx, who, checked),
        "created_by": author,
        "updated_by": author,
        "created_at": now,
        "updated_at": now,
    }
    PostDraft.insert(**row).execute()
    _refer_to_media(tx, scope, draft, row["content"])
    return ActionResult(load_body(scope, draft), 201)


def _store_content(tx: Tx, who: Actor, checked: CheckedContent) -> dict[str, Any]:
    """Insert the rows of inline files; return the columns of the content."""
    profile = checked.content.get("profileId")
    profiles.check_profile(who.scope, profile)
    _check_accounts(who.scope, checked.content)
    ids = {}
    library.release_after_commit(who.service, tx, checked.files.values())
    for data, alt in draft_contents.list_inline(checked.content):
        ids[data, alt] = library.new_id(who.service)
        library.insert(who.service, tx, who.scope.organization, profile, checked.files[data], alt, ids[data, alt])
    content = draft_contents.replace_inline(checked.content, ids)
    at = content.get("scheduledAt")
    return {
        "profile": profile,
        "content": dumps(content),
        "scheduled_at": None if at is None else parse_instant(at),
        "problems": dumps(checked.problems),
    }


def _check_accounts(scope: Scope, content: draft_contents.Content) -> None:
    """Raise ApiError `not_found` for an account that the scope does not hold."""
    held = {row["id"] for row in accounts.list_rows(scope)}
    for account in _list_accounts(content):
        if account not in held:
            raise ApiError("not_found", f"There is no account {account} in the scope of this request.")


def _refer_to_media(tx: Tx, scope: Scope, draft: str, content: str) -> None:
    """Record which of the organization's files the draft names, so that they are not deleted."""
    PostDraftMedia.delete().where(PostDraftMedia.draft == draft).execute()
    ids = sql.dump_json(sorted(draft_contents.collect_media_ids(content)))
    sql.execute(statements.INSERT_MEDIA, (draft, ids, scope.organization))


def change(tx: Tx, who: Actor, draft: str, title: str | None, checked: CheckedContent | None) -> DraftBody:
    """Change title ("": none) and content; None leaves either unchanged.

    Other content ends an approval.
    """
    row = find_open(who.scope, draft)
    changes: dict[str, Any] = {} if title is None else {"title": title or None}
    if checked is not None:
        changes |= _store_content(tx, who, checked)
        if row["status"] == "approved" and not _is_approved(who.service, row, changes):
            changes |= {"status": "draft", "approved_digest": None}
    _update(tx, who, draft, changes)
    if checked is not None:
        _refer_to_media(tx, who.scope, draft, changes["content"])
    return load_body(who.scope, draft)


def autosave(tx: Tx, who: Actor, draft: str, checked: CheckedContent) -> ActionResult:
    """Change the content as `change` does; audited only if an approval ends."""
    before = find_open(who.scope, draft)["status"]
    body = change(tx, who, draft, None, checked)
    return ActionResult(body, is_audited=body["status"] != before)


def move(tx: Tx, who: Actor, draft: str, seen: str, checked: CheckedContent) -> DraftBody:
    """Change the time of a draft. `checked`: its content `seen`, with the new time.

    Raises ApiError as `change`, and `draft.changed` for another content.
    """
    if find_open(who.scope, draft)["content"] != seen:
        raise rule_error("draft.changed")
    return change(tx, who, draft, None, checked)


def _is_approved(service: AppContext, row: PostDraftRow, changes: Mapping[str, Any]) -> bool:
    """Return whether the new content would publish exactly what was approved."""
    try:
        scope = Scope(row["organization"], changes["profile"])
        digest = draft_contents.resolve_digest(service, scope, json.loads(changes["content"]))
    except ApiError:
        return False
    return digest == row["approved_digest"]


def find_open(scope: Scope, draft: str) -> PostDraftRow:
    """Load an unpublished draft. Raises ApiError `not_found`, `draft.status` once published."""
    row = find(scope, draft)
    if row["status"] == "published":
        raise rule_error(
            "draft.status", "The draft was published already.", platform_response={"batchId": row["batch"]}
        )
    return row


def _update(tx: Tx, who: Actor, draft: str, changes: Mapping[str, Any]) -> None:
    stamped = {"updated_by": _name_author(who), "updated_at": who.service.now_ms}
    PostDraft.update(**changes, **stamped).where(PostDraft.id == draft).execute()


def delete(tx: Tx, who: Actor, draft: str) -> DeletedBody:
    """Delete a draft and its link. Raises ApiError `not_found`."""
    row = find(who.scope, draft)
    _delete_rows(tx, [row["id"]])
    return {"id": row["id"], "deleted": True}


def delete_all(tx: Tx, who: Actor) -> None:
    """Delete all drafts of an organization."""
    query = PostDraft.select(PostDraft.id).where(PostDraft.organization == who.scope.organization)
    _delete_rows(tx, [id_ for (id_,) in query.tuples()])


def count(organization: str) -> int:
    """Count the unpublished drafts of an organization."""
    return int(sql.fetch_value(statements.COUNT_OPEN, (organization,)))


def _delete_rows(tx: Tx, ids: Iterable[str]) -> None:
    listed = sql.dump_json(list(ids))
    sql.execute(statements.DELETE_MEDIA, (listed,))
    sql.execute(statements.DELETE, (listed,))


# --- Proposing and deciding ------------------------------------------------------------------------------------------


def can_approve(service: AppContext, scope: Scope) -> bool:
    """Return whether this caller may approve.

    With `publishing.approval`, members may not: they would approve their own drafts.
    """
    return scope.session is None or can_publish_directly(service, scope)


def can_publish_directly(service: AppContext, scope: Scope) -> bool:
    """Return whether this user may publish what no approved draft contains."""
    return actions.can_manage(scope) if service.runtime.settings.publishing.approval else actions.can_publish(scope)


def check_can_approve(service: AppContext, scope: Scope) -> None:
    """Raise ApiError `unauthorized` unless this caller may approve."""
    if not can_approve(service, scope):
        raise ApiError("unauthorized", "Your role may not approve drafts.")


def check_seen(who: Actor, draft: str, seen: str) -> None:
    """Raise ApiError `draft.changed` unless `seen`, a digest, would be published now."""
    row = find_open(who.scope, draft)
    if seen != draft_contents.resolve_digest(who.service, get_scope(row), load_content(row)):
        raise rule_error("draft.changed")


def check_reach(who: Actor, row: PostDraftRow) -> None:
    """Raise ApiError `not_found` if a target means an account that the key may not use."""
    if who.scope.accounts is None:
        return
    try:
        _, targets = draft_contents.resolve_targets(who.service, get_scope(row), load_content(row))
    except ApiError:  # incomplete
        return
    if not all(who.scope.has_account(target.account["id"]) for target in targets):
        raise ApiError("not_found", "An account of this draft is not in the scope of the key.")


def propose(tx: Tx, who: Actor, draft: str, seen: str, problems: list[DraftProblem]) -> DraftBody:
    """Propose a draft for approval. Raises ApiError `draft.status` if approved or published.

    `problems` are those of `seen`, its content as it was checked. Raises `draft.changed` for another content.
    """
    row = find_open(who.scope, draft)
    if row["status"] == "approved":
        raise rule_error("draft.status", "The draft is approved already.")
    if row["content"] != seen:
        raise rule_error("draft.changed")
    _update(tx, who, draft, {"status": "proposed", "note": None, "problems": dumps(problems)})
    return _announce(tx, who, draft, "proposed")


def approve(tx: Tx, who: Actor, draft: str, seen: str | None = None) -> DraftBody:
    """Approve a draft as it is. Raises ApiError `draft.incomplete` if a target is unknown.

    `seen`: the digest of what a page showed. Raises `draft.changed` if something else would be published now.
    """
    check_can_approve(who.service, who.scope)
    row = find_open(who.scope, draft)
    check_reach(who, row)
    try:
        digest = draft_contents.resolve_digest(who.service, get_scope(row), load_content(row))
    except ApiError as error:
        raise rule_error("draft.incomplete", f"The draft cannot be approved yet: {error.message}") from error
    if seen is not None and seen != digest:
        raise rule_error("draft.changed")
    if row["status"] == "approved" and digest == row["approved_digest"]:
        return load_body(who.scope, draft)
    _update(tx, who, draft, {"status": "approved", "note": None, "approved_digest": digest})
    return _announce(tx, who, draft, "approved")


def send_back(tx: Tx, who: Actor, draft: str, note: str | None) -> DraftBody:
    """Return a draft with a note: it is a `draft` again. Raises ApiError `draft.status`."""
    check_can_approve(who.service, who.scope)
    find_open(who.scope, draft)
    _update(tx, who, draft, {"status": "draft", "note": note or None, "approved_digest": None})
    return _announce(tx, who, draft, "returned", note=note or None)


def _announce(
    tx: Tx, who: Actor, draft: str, what: Literal["proposed", "approved", "returned"], **more: str | None
) -> DraftBody:
    """Emit the event of a decision; return the draft."""
    body = load_body(who.scope, draft)
    profile = body["content"].get("profileId")
    named = list(dict.fromkeys(_list_accounts(body["content"])))
    data = {"id": draft, "profileId": profile, "accountIds": named, "title": body["title"], "by": body["updatedBy"]}
    events.emit(
        who.service,
        tx,
        f"draft.{what}",
        who.scope.organization,
        {**data, f"{what}At": body["updatedAt"], **more},
        profile=profile,
        request_id=who.request_id,
    )
    return body


# --- Publishing ------------------------------------------------------------------------------------------------------


def check_publishable(service: AppContext, row: PostDraftRow) -> None:
    """Raise ApiError `draft.approval` if an approval is needed and missing."""
    if service.runtime.settings.publishing.approval and row["status"] != "approved":
        raise rule_error("draft.approval", "The draft is not approved, and this server publishes only approved drafts.")


def _mark_published(tx: Tx, who: Actor, row: PostDraftRow, batch: str) -> None:
    """Mark a draft as published, in the transaction that writes its batch."""
    gone = {"link_digest": None, "link_ends_at": None}
    _update(tx, who, row["id"], {"status": "published", "batch": batch, "note": None, "problems": "[]", **gone})
    sql.execute(statements.DELETE_MEDIA, (sql.dump_json([row["id"]]),))  # the posts need the files now
    sql.execute(statements.DELETE_OLD_PUBLISHED, (row["organization"], PUBLISHED_MAX))


class DraftPublication:
    """Publication of a draft: the request to accept, and its part of the transaction."""

    def __init__(self, who: Actor, draft: str, check: Callable[[], None]) -> None:
        self._who, self._draft, self._check = who, draft, check
        self._seen: PostDraftRow | None = None

    async def read_request(self) -> BatchRequest:
        """Read the draft as a publish request.

        Raises ApiError as `check`, `draft.status`, `draft.approval`.
        """
        row = await self._who.service.read(self._find_open)
        check_publishable(self._who.service, row)
        self._seen = row
        return validation.parse_value(BatchRequest, load_content(row))

    def record(self, tx: Tx, plan: BatchPlan) -> None:
        """Mark the draft as published. Raises ApiError if it has changed since it was read."""
        row, service = self._find_unchanged(), plan.who.service
        digest = draft_contents.compute_digest(plan.request, [target.resolved for target in plan.targets])
        if service.runtime.settings.publishing.approval and row["approved_digest"] != digest:  # None: not approved
            raise rule_error("draft.approval", "What would be published now is not what was approved.")
        _mark_published(tx, plan.who, row, plan.batch)

    def adopt(self, tx: Tx, who: Actor, earlier: StoredResponse) -> ActionResult:
        """Mark the draft as published with the batch that has its external id and content already.

        Returns `earlier`, which shows that batch. Raises as `record`.
        """
        assert earlier.batch is not None, "it shows a batch"
        _mark_published(tx, who, self._find_unchanged(), earlier.batch)
        return ActionResult(json.loads(earlier.body), earlier.status, batch=earlier.batch)

    def _find_open(self) -> PostDraftRow:
        self._check()
        return find_open(self._who.scope, self._draft)

    def _find_unchanged(self) -> PostDraftRow:
        """Load the draft. Raises ApiError `draft.status`, `draft.changed`."""
        assert self._seen is not None, "the request was made of it"
        row = self._find_open()
        if row["content"] != self._seen["content"]:
            raise rule_error("draft.changed")
        return row
