"""Batches as they are now, one by one and by page, and their cancellation and edit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from socialpub.base.errors import ApiError, rule_error
from socialpub.base.json_codec import dumps
from socialpub.domain import post_states
from socialpub.domain.access.actions import BoundAction
from socialpub.domain.access.actor import Actor
from socialpub.domain.access.authentication import Scope
from socialpub.domain.access.preconditions import Resource
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.events import cursors
from socialpub.domain.media import library
from socialpub.domain.posts import batches, edits, post_actions, post_log
from socialpub.domain.posts.edits import PostChange
from socialpub.domain.schemas import validation
from socialpub.domain.schemas.posts import (
    BatchEditRequest,
    BatchesQuery,
    CanceledBatch,
    CurrentBatch,
    CurrentBatchStatus,
)
from socialpub.store.database import Tx
from socialpub.store.engine import sql
from socialpub.store.queries import batch_log as statements
from socialpub.store.rows import PostRow
from socialpub.store.schema.models import Post, find_rows, get_row

LISTING = "batches"


class VisibleBatch(NamedTuple):
    """Batch with the posts of a scope. `content`: JSON of what the body does not show of them."""

    body: CurrentBatch
    content: str

    @property
    def resource(self) -> Resource:
        """The batch as its GET shows it; its ETag covers the content of its posts too."""
        return Resource(dumps(self.body).encode(), self.content.encode())


# --- Reading ---------------------------------------------------------------------------------------------------------


def find(scope: Scope, batch: str) -> VisibleBatch:
    """Load a batch with the posts of the scope. Raises ApiError `not_found` if it has none."""
    found = _load_all(scope, [batch])
    if not found:
        raise _build_unknown_error()
    return found[0]


def _build_unknown_error() -> ApiError:
    return ApiError("not_found", "There is no batch with this id in the scope.")


def has_ended(batch: VisibleBatch) -> bool:
    """Return whether every post of the batch has ended."""
    return batch.body["status"] != "queued"


def load_page(service: AppContext, scope: Scope, query: BatchesQuery) -> str:
    """Build the JSON of one page (`BatchPage`): batches with a post of the filter.

    Raises ApiError as the post log does.
    """
    wanted = post_log.build_filter(service, scope, query, LISTING)
    places: dict[str, tuple[int, int]] = {}  # of each batch's first post, by batch
    while len(places) <= query.limit:
        hits = post_log.find_hits(wanted, query, query.limit + 1)
        if not hits:
            break
        numbers = sql.dump_json([hit.number for hit in hits])
        for batch, created_at, first in sql.fetch_all(statements.FIND_OF_POSTS, (numbers,)):
            places[batch] = created_at, first  # the posts of a batch are neighbors in the log
        wanted = replace(wanted, below=next(reversed(places.values())))
    shown = list(places)[: query.limit]
    bodies = [found.body for found in _load_all(scope, shown)]
    cursor = None
    if len(places) > query.limit:
        at, number = places[shown[-1]]
        cursor = cursors.encode(service, LISTING, scope.organization, at, str(number))
    return dumps({"data": bodies, "nextCursor": cursor})


def _load_all(scope: Scope, ids: Sequence[str]) -> list[VisibleBatch]:
    values = (sql.dump_json(ids), scope.organization, scope.profile, scope.account_list)
    found = []
    for batch, created_at, scheduled_at, posts, content in sql.fetch_all(statements.FIND_BATCHES, values):
        head: batches.BatchColumns = {"id": batch, "created_at": created_at, "scheduled_at": scheduled_at}
        rows = [sql.to_row(batches.BatchPostColumns, each) for each in sql.load_json(posts)]
        if rows:
            status = _compute_status([row["status"] for row in rows], is_scheduled=scheduled_at is not None)
            body: CurrentBatch = {**batches.build_body(head, rows), "status": status}
            found.append(VisibleBatch(body, content))
    return found


def _compute_status(statuses: Sequence[str], *, is_scheduled: bool) -> CurrentBatchStatus:
    """Compute the status of a batch from those of its posts.

    People cancel posts of a scheduled batch, which is no failure. An immediate one was not published where it should
    have been.
    """
    if not post_states.TERMINAL_STATES.issuperset(statuses):
        return "queued"
    if set(statuses) == {"canceled"}:
        return "canceled"
    counted = [status for status in statuses if status != "canceled"] if is_scheduled else statuses
    published = counted.count("published")
    if published == len(counted):
        return "published"
    return "partial_failed" if published else "failed"


# --- Changing --------------------------------------------------------------------------------------------------------


def _find_rows(scope: Scope, batch: str) -> list[PostRow]:
    """Load the posts of a batch in the scope. Raises ApiError `not_found` if there are none."""
    values = (batch, scope.organization, scope.profile, scope.account_list)
    ids = [id_ for (id_,) in sql.fetch_all(statements.FIND_VISIBLE_POSTS, values)]
    if not ids:
        raise _build_unknown_error()
    return find_rows(Post, Post.id.in_(ids), order=Post.position)


def cancel(tx: Tx, who: Actor, batch: str) -> CanceledBatch:
    """Cancel the queued posts of a batch that are not due yet; return `{id, status, canceled}`."""
    queued = [row["id"] for row in _list_queued(_find_rows(who.scope, batch))]
    for post in queued:
        if edits.is_editable(who.service, get_row(Post, post)):  # not if it was canceled with the thread that it is in
            post_actions.cancel(tx, who, post)
    canceled = sum(get_row(Post, post)["status"] == "canceled" for post in queued)
    if not canceled:
        raise rule_error("post.scheduledAt.window")
    return {"id": batch, "status": find(who.scope, batch).body["status"], "canceled": canceled}


def _list_queued(rows: Sequence[PostRow]) -> list[PostRow]:
    queued = [row for row in rows if row["status"] == "queued"]
    if not queued:
        raise rule_error("post.status", "No post of the batch is `queued`.")
    return queued


def count_sharing(scope: Scope, row: PostRow) -> int:
    """Count the other queued posts of the batch that share the text and media of this one."""
    if row["own_text"] or row["own_media"]:
        return 0
    others = [each for each in _find_rows(scope, row["batch"]) if each["id"] != row["id"]]
    return sum(each["status"] == "queued" and not (each["own_text"] or each["own_media"]) for each in others)


async def prepare_edit(who: Actor, batch: str, request: BatchEditRequest, inline: library.InlineFiles) -> BoundAction:
    """Check the edit of a batch's queued posts and return the action.

    Raises ApiError, with nothing written, if the edit of any post is refused.
    """
    change = PostChange(request.text, request.media, at_ms=request.scheduled_at, keeps_own=True)

    def find_queued() -> list[PostRow]:
        queued = _list_queued(_find_rows(who.scope, batch))
        for row in queued:
            edits.check_editable(who.service, row)
        _check_takers(queued, request)
        return queued

    plan = await edits.prepare(who, find_queued, change, inline)
    return edits.bind(who, plan, lambda tx: find(who.scope, batch).body)


async def prepare_move(who: Actor, batch: str, seen_ms: int, at_ms: int) -> BoundAction:
    """Return the action that moves the queued posts of a batch that are due at `seen_ms`.

    All or none. Raises ApiError `not_found`, or 412 `http.if_match` if none is due then any more.
    """

    def find_seen() -> list[PostRow]:
        seen = list_due_at(who.scope, batch, seen_ms)
        if not seen:
            raise rule_error("http.if_match", "The post was moved, published or canceled in the meantime.")
        for row in seen:
            edits.check_editable(who.service, row)
        return seen

    plan = await edits.prepare(who, find_seen, PostChange(None, None, at_ms=at_ms), {})
    return edits.bind(who, plan, lambda tx: find(who.scope, batch).body)


def list_due_at(scope: Scope, batch: str, at_ms: int | None) -> list[PostRow]:
    """List the queued posts of a batch that are due at a time; None: when the first one is.

    Raises ApiError `not_found` for a batch without posts in the scope.
    """
    queued = [row for row in _find_rows(scope, batch) if row["status"] == "queued"]
    wanted = queued[0]["scheduled_at"] if at_ms is None and queued else at_ms
    return [row for row in queued if row["scheduled_at"] == wanted]


def _check_takers(queued: Sequence[PostRow], request: BatchEditRequest) -> None:
    """Raise `validation_failed` for content that no queued post takes, since each has its own."""
    untaken = []
    if request.text is not None and all(row["own_text"] for row in queued):
        untaken.append("text")
    if request.media is not None and all(row["own_media"] for row in queued):
        untaken.append("media")
    if untaken:
        said = "Each queued post of the batch has its own: edit the posts"
        issues = [validation.build_issue("value_error", [name], said, "no such field", "a value") for name in untaken]
        raise validation.build_schema_error(issues)
