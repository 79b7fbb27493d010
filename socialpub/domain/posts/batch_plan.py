"""Plan of a batch: what its transaction writes, with the rows of its posts.

As much as possible is computed here, before the transaction, because that blocks all other writers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from socialpub import platforms
from socialpub.base.concurrency.fair_executor import ShareKey
from socialpub.base.json_codec import dumps
from socialpub.domain.access import lost_responses
from socialpub.domain.access.actor import Actor
from socialpub.domain.media import library
from socialpub.domain.posts import batches, content_hash, inline_media
from socialpub.domain.posts.content_hash import MediaContent
from socialpub.domain.posts.inline_media import InlineMedia
from socialpub.domain.posts.targets import ResolvedTarget
from socialpub.domain.schemas.errors import build_warning_body
from socialpub.domain.schemas.posts import BatchRequest, Result
from socialpub.platforms.contract import MediaFacts, PublishWarning
from socialpub.store import casefold
from socialpub.store.database import Tx
from socialpub.store.jobs.leases import JobSpec
from socialpub.store.queries.bulk import SqlRow
from socialpub.store.rows import MediaRow

_STATUS_INDEX = 7  # index in a post's row


class PlannedTarget(NamedTuple):
    """Target, or piece of its thread, that passed preflight: post id, share key, warnings."""

    resolved: ResolvedTarget
    post: str
    share: ShareKey
    warnings: tuple[PublishWarning, ...]
    thread_of: str | None  # the first post of its thread; it waits for the piece before it


class BatchPlan(NamedTuple):
    """All that the transaction needs to write the batch."""

    who: Actor
    request: BatchRequest
    pending: lost_responses.PendingResponse | None
    batch: str
    targets: Sequence[PlannedTarget]
    stored: Mapping[str, MediaFacts]  # stored inline media by hash
    inline: Mapping[InlineMedia, str]  # ids of their rows, shared by targets of one profile
    rows: Sequence[SqlRow]  # columns of each post that differ
    jobs: Sequence[JobSpec]
    results: list[Result]
    content: str | None  # hash of the content, of a batch with an external id
    record: RecordBatch | None = None
    token: str | None = None  # id of the plan token that it uses

    @property
    def at_ms(self) -> int | None:
        return self.request.scheduled_at

    @property
    def name(self) -> str | None:
        """Identity of the request: its key, or the prefix of its pending response."""
        if self.who.key:
            return self.who.key.id
        return self.pending.prefix if self.pending else None

    @property
    def organization(self) -> int:
        """Surrogate key of the organization."""
        return self.targets[0].resolved.account["numbers"][0]

    @property
    def assets(self) -> dict[str, MediaRow]:
        """Stored media of the targets, by id."""
        return {asset: row for target in self.targets for asset, row in target.resolved.assets.items()}


RecordBatch = Callable[[Tx, BatchPlan], None]
"""Writes what belongs to a batch in its transaction, such as the draft it was made of; raises ApiError to refuse it."""


def build_plan(
    who: Actor,
    request: BatchRequest,
    pending: lost_responses.PendingResponse | None,
    targets: Sequence[PlannedTarget],
    stored: Mapping[str, MediaFacts],
) -> BatchPlan:
    """Build the plan of targets that passed all checks. `stored`: inline media by hash."""
    at_ms, batch = request.scheduled_at, who.service.runtime.ids.uuid()
    distinct = inline_media.list_distinct(target.resolved for target in targets) if stored else ()
    media = {inline: library.new_id(who.service) for inline in distinct}
    folds: dict[str, str] = {}
    rows, jobs, results = [], [], list[Result]()
    for place, target in enumerate(targets):
        account, notes = target.resolved.account["id"], [build_warning_body(note) for note in target.warnings]
        text = target.resolved.draft.text
        if text not in folds:  # shared by most targets of a batch
            folds[text] = casefold.fold_for_storage(text)
        shown = dumps(notes) if notes else "[]"
        rows.append(_build_row(request, target, place, batch, media, folds[text], shown))
        if target.thread_of:  # its job follows when the piece before it is published
            results[-1].setdefault("thread", []).append(batches.build_accepted_piece(target.post, at_ms))
            continue
        jobs.append(JobSpec(target.post, account, *target.share))
        results.append(batches.build_accepted_result(target.post, account, target.resolved.platform, at_ms, notes))
    content = None if request.external_id is None else hash_content(request, targets)
    return BatchPlan(who, request, pending, batch, targets, stored, media, rows, jobs, results, content)


def reschedule(plan: BatchPlan, request: BatchRequest) -> BatchPlan:
    """Build the plan again for its request at another time."""
    rebuilt = build_plan(plan.who, request, plan.pending, plan.targets, plan.stored)
    return rebuilt._replace(record=plan.record, token=plan.token)


def _build_row(
    request: BatchRequest,
    target: PlannedTarget,
    place: int,
    batch: str,
    media: Mapping[InlineMedia, str],
    fold: str,
    warnings: str,
) -> SqlRow:
    """Build a post's own columns, in the order of `acceptance.INSERT_POSTS`.

    `place`: in the batch.
    """
    resolved, account, at_ms = target.resolved, target.resolved.account, request.scheduled_at
    sent, comment = request.targets[resolved.position], resolved.draft.first_comment
    return (
        target.post,
        *account["numbers"],
        resolved.platform,
        batch,
        place,
        "validated" if at_ms is None else "queued",
        resolved.draft.text,
        fold,
        inline_media.encode_refs(resolved.refs, account["profile"], media),
        int(bool(resolved.piece) or sent.text is not None),
        int(bool(resolved.piece) or sent.media is not None),
        json.dumps(resolved.draft.options, ensure_ascii=False) if resolved.draft.options else "{}",
        comment if comment and platforms.platform(resolved.platform).first_comment else None,
        request.external_id,
        warnings,
        at_ms,
        target.thread_of,
        resolved.piece,
        None,
    )


def mark_publishing(row: SqlRow, nonce: int | None) -> SqlRow:
    """Mark the row as publishing, if its first attempt starts with acceptance (nonce given)."""
    return row if nonce is None else (*row[:_STATUS_INDEX], "publishing", *row[_STATUS_INDEX + 1 : -1], nonce)


def hash_content(request: BatchRequest, targets: Sequence[PlannedTarget]) -> str:
    """Hash the content of the batch, to compare it with a repeat's or a checked plan's."""
    assets = {id: row for target in targets for id, row in target.resolved.assets.items()}
    media = {id: MediaContent(row["kind"], row["sha256"], row["alt_text"]) for id, row in assets.items()}
    accounts = [target.resolved.account["id"] for target in targets if target.thread_of is None]
    return content_hash.hash_content(request, accounts, media)
