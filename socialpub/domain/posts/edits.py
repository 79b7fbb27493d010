"""Edits of queued posts: content and time, of one post or of the queued posts of a batch.

As at acceptance, the new content is checked before the transaction, because that may take long. The transaction checks
it again if the posts have changed since. It changes a post by one conditional transition, and the claim reads the whole
row, so a post goes out with the old content or with the new.
"""

from __future__ import annotations

import bisect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from socialpub.base import fault_injection
from socialpub.base.errors import ApiError, rule_error
from socialpub.base.json_codec import dumps
from socialpub.base.runtime import DAY_MS, format_iso
from socialpub.domain import post_states
from socialpub.domain.access import actions
from socialpub.domain.access.actions import BoundAction
from socialpub.domain.access.actor import ActionBody, ActionResult, Actor
from socialpub.domain.context import upstreams
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.media import library
from socialpub.domain.posts import inline_media, post_history, post_log, preflight, request_lookup, targets
from socialpub.domain.posts.inline_media import InlineMedia
from socialpub.domain.posts.post_actions import build_window_error
from socialpub.domain.posts.post_history import PostHistory
from socialpub.domain.posts.targets import RawMediaRef, ResolvedTarget, TargetCandidate
from socialpub.domain.schemas import validation
from socialpub.domain.schemas.errors import build_warning_body
from socialpub.domain.schemas.events import ContentField
from socialpub.domain.schemas.posts import PostEditRequest
from socialpub.platforms.contract import Draft, MediaFacts, PublishWarning
from socialpub.platforms.kit.rule_catalog import remove_duplicates
from socialpub.store import casefold, search
from socialpub.store.database import Tx
from socialpub.store.engine import sql
from socialpub.store.queries import batch_log
from socialpub.store.rows import MediaRow, PostRow

FindPosts = Callable[[], list[PostRow]]
"""Reads the posts to edit, before and in the transaction. Raises ApiError if they cannot be edited."""


@dataclass(frozen=True)
class PostChange:
    """Change of posts; None leaves a field as it is.

    `keeps_own`: text and media of their own stay with their posts.
    """

    text: str | None
    media: Sequence[Any] | None
    options: Any = None
    at_ms: int | None = None
    keeps_own: bool = False

    def find_text(self, row: PostRow) -> str:
        """Return the text of the edited post."""
        return row["text"] if self.text is None or (self.keeps_own and row["own_text"]) else self.text

    def find_media(self, row: PostRow) -> Sequence[Any] | None:
        """Return the new media of the post; None if they stay."""
        return None if self.keeps_own and row["own_media"] else self.media

    def find_time(self, row: PostRow) -> int:
        """Return when the edited post is due."""
        assert row["scheduled_at"] is not None, "a queued post has a time"
        return row["scheduled_at"] if self.at_ms is None else self.at_ms


class PlannedEdit(NamedTuple):
    """Post with its new content, which passed preflight. `row`: as it was read."""

    row: PostRow
    target: ResolvedTarget
    changed: list[ContentField]
    warnings: Sequence[PublishWarning]


@dataclass(frozen=True)
class EditPlan:
    """Edit that was checked. `stored`: inline media by hash."""

    find: FindPosts
    change: PostChange
    stored: Mapping[str, MediaFacts]
    edits: Sequence[PlannedEdit]


# --- Before the transaction ------------------------------------------------------------------------------------------


async def prepare_post(who: Actor, post: str, request: PostEditRequest, inline: library.InlineFiles) -> BoundAction:
    """Check the edit of one post and return the action.

    Raises ApiError, with nothing written, if the edit is refused.
    """
    change = PostChange(request.text, request.media, request.options, request.scheduled_at)

    def find() -> list[PostRow]:
        row = post_log.find(who.scope, post)
        check_editable(who.service, row)
        if change.find_time(row) != row["scheduled_at"] and post_states.is_waiting_piece(row):
            raise rule_error("post.thread.waiting")
        return [row]

    plan = await prepare(who, find, change, inline)
    return bind(who, plan, lambda tx: post_log.load_body(who.scope, post))


def is_editable(service: AppContext, row: PostRow) -> bool:
    """Return whether the post is `queued` and not due."""
    return row["status"] == "queued" and row["scheduled_at"] is not None and row["scheduled_at"] > service.now_ms


def check_editable(service: AppContext, row: PostRow) -> None:
    """Raise the 409 of `build_window_error` unless the post is `queued` and not due."""
    if not is_editable(service, row):
        raise build_window_error(row)


def bind(who: Actor, plan: EditPlan, finish: Callable[[Tx], ActionBody]) -> BoundAction:
    """Return the action that writes a plan; `finish` returns its body, in the transaction."""

    def edit(tx: Tx, who: Actor) -> ActionResult:
        is_changed = _write(tx, who, plan)
        return ActionResult(finish(tx), is_audited=is_changed)

    action = actions.bind(who, edit)
    return replace(action, cleanup=library.delete_on_failure(who.service, plan.stored.values()))


async def prepare(who: Actor, find: FindPosts, change: PostChange, inline: library.InlineFiles) -> EditPlan:
    """Check an edit. Raises ApiError, with nothing written, if it is refused."""
    service, scope = who.service, who.scope
    _check_change(service, change, inline)
    drafts = await service.read_inline(lambda: _draft_all(who, find(), change))
    new = [draft.target for draft in drafts if draft.changed]
    checked = await preflight.check_cheap(service, scope, new, _join_histories(drafts))
    _check_passed(service, new, checked)
    stored = await inline_media.store(service, scope.organization, new, inline) if inline else {}
    return EditPlan(find, change, stored, _plan_all(service, drafts, checked, stored))


def _check_change(service: AppContext, change: PostChange, inline: library.InlineFiles) -> None:
    """Check what needs no database, in the order of a publish request."""
    if change.text is None and change.media is None and change.options is None and change.at_ms is None:
        missing = validation.build_issue("missing", ["scheduledAt"], "Name something to change", "a value", "nothing")
        raise validation.build_schema_error([missing])
    targets.check_sources("media", change.media or (), inline)
    targets.check_future(service, change.at_ms)
    if change.options is not None:
        targets.check_reply_options(change.options)


class _UncheckedEdit(NamedTuple):
    """Post with its new content, not checked yet."""

    row: PostRow
    target: ResolvedTarget
    changed: list[ContentField]
    due_ms: int
    history: PostHistory


def _draft_all(who: Actor, rows: Sequence[PostRow], change: PostChange) -> list[_UncheckedEdit]:
    """Build the posts with their new content; call in a read or in the transaction."""
    candidates = request_lookup.look_up_accounts(who.scope, {row["account"] for row in rows})
    media = library.load_all(who.scope, targets.list_media_ids(change.media or ()))
    firsts = [position for (position,) in sql.fetch_all(batch_log.FIND_TARGETS, (rows[0]["batch"],))]
    drafts = []
    for row in rows:
        candidate = candidates.get(row["account"])
        if candidate is None:
            raise ApiError("not_found", "The account of this post was disconnected in the meantime.")
        index = bisect.bisect(firsts, row["position"]) - 1  # of its target: the pieces of threads count no further
        drafts.append(_draft_post(who.service, row, index, candidate, media, change))
    return drafts


def _draft_post(
    service: AppContext,
    row: PostRow,
    index: int,
    candidate: TargetCandidate,
    media: Mapping[str, MediaRow],
    change: PostChange,
) -> _UncheckedEdit:
    account, due_ms = candidate.row, change.find_time(row)
    if change.options is not None and change.options.platform != account["platform"]:
        raise rule_error(
            "targets.options.platform_mismatch",
            f"`options` is for {change.options.platform}, but the post is for {account['platform']}.",
        )
    refs: tuple[RawMediaRef, ...] = tuple(json.loads(row["media"]))
    options = json.loads(row["options"])
    before = refs, options
    entries = change.find_media(row)
    if entries is None:
        assets = library.load_assets(refs)
    else:
        refs, assets = targets.resolve_media(media, account, entries)
    if change.options is not None:
        options = dict(targets.merge_options(candidate.defaults, change.options))
    items = tuple(targets.build_item(service, ref, assets) for ref in refs)
    draft = Draft(change.find_text(row), items, options, row["first_comment"])
    connector, piece = candidate.connector_account, row["thread_position"]
    target = ResolvedTarget(index, account, account["platform"], refs, assets, draft, connector, piece)
    changed = _list_changed(row["text"], *before, target)
    history = _load_history(service, row, target, due_ms) if changed else PostHistory((None,), (0,))
    return _UncheckedEdit(row, target, changed, due_ms, history)


def _list_changed(
    text: str, refs: tuple[RawMediaRef, ...], options: Mapping[str, Any], target: ResolvedTarget
) -> list[ContentField]:
    pairs: Mapping[ContentField, tuple[object, object]] = {
        "text": (text, target.draft.text),
        "media": (refs, target.refs),
        "options": (options, target.draft.options),
    }
    return [name for name, (before, after) in pairs.items() if before != after]


def _load_history(service: AppContext, row: PostRow, target: ResolvedTarget, due_ms: int) -> PostHistory:
    """Load the history of the post's account without the post itself."""
    found = post_history.load_history(service, [target], due_ms)
    is_counted = row["scheduled_at"] is not None and due_ms - DAY_MS < row["scheduled_at"] <= due_ms
    return PostHistory(
        [None if before == row["id"] else before for before in found.before],
        [max(0, recent - is_counted) for recent in found.recent],
    )


def _join_histories(drafts: Sequence[_UncheckedEdit]) -> PostHistory:
    """Join the histories of the posts whose content changes."""
    histories = [draft.history for draft in drafts if draft.changed]
    return PostHistory(
        [before for history in histories for before in history.before],
        [recent for history in histories for recent in history.recent],
    )


def _check_passed(
    service: AppContext, checked: Sequence[ResolvedTarget], findings: Sequence[preflight.TargetFindings]
) -> None:
    if error := preflight.combine_errors(service, checked, findings):
        raise error


def _plan_all(
    service: AppContext,
    drafts: Sequence[_UncheckedEdit],
    findings: Sequence[preflight.TargetFindings],
    stored: Mapping[str, MediaFacts],
) -> list[PlannedEdit]:
    """Add the warnings of the new content. `findings`: of the posts whose content changes."""
    found = iter(findings)
    return [
        PlannedEdit(
            draft.row,
            draft.target,
            draft.changed,
            _list_warnings(service, draft, next(found), stored) if draft.changed else (),
        )
        for draft in drafts
    ]


def _list_warnings(
    service: AppContext, draft: _UncheckedEdit, found: preflight.TargetFindings, stored: Mapping[str, MediaFacts]
) -> Sequence[PublishWarning]:
    names = [f"post {draft.row['id']}"]
    (notes,) = post_history.build_warnings(service, [draft.target], draft.history, draft.due_ms, names)
    breaches = preflight.find_known_breaches(service, draft.target, stored) if draft.target.refs else ()
    return remove_duplicates((*found.warnings, *notes, *breaches))


# --- The transaction -------------------------------------------------------------------------------------------------


def _write(tx: Tx, who: Actor, plan: EditPlan) -> bool:
    """Write the edits and return whether anything changed.

    Raises ApiError, with nothing written, if one is refused.
    """
    service, change = who.service, plan.change
    targets.check_future(service, change.at_ms)
    rows = plan.find()
    edits = plan.edits
    if rows != [edit.row for edit in edits]:
        edits = _plan_again(who, rows, plan)
    new = [edit.target for edit in edits if edit.changed]
    used = [(target.account["profile"], asset) for target in new for asset in target.assets]
    request_lookup.check_media(who.scope.organization, used)
    if service.runtime.settings.publishing.refuse_duplicates:
        texts = [edit.target for edit in edits if "text" in edit.changed]
        post_history.check_duplicates(texts, post_history.find_repeated(service, texts))
    inline = {key: library.new_id(service) for key in inline_media.list_distinct(new)}
    library.release_after_commit(service, tx, plan.stored.values())
    inline_media.insert(
        service, tx, who.scope.organization, plan.stored, inline, max(map(change.find_time, rows), default=None)
    )
    texts_changed = sql.dump_json([edit.row["number"] for edit in edits if "text" in edit.changed])
    search.remove(texts_changed)
    written = [_write_post(tx, who, edit, change, inline) for edit in edits]
    _move_pieces(tx, who, edits, change)
    if change.at_ms is not None:
        sql.execute(batch_log.SET_TIME, (change.at_ms, rows[0]["batch"]))
    search.add_again(texts_changed)
    fault_injection.hit("edit.before_commit")
    return any(written)


def _plan_again(who: Actor, rows: Sequence[PostRow], plan: EditPlan) -> list[PlannedEdit]:
    """Check the edit again, because a post has changed since."""
    drafts = _draft_all(who, rows, plan.change)
    new = [draft.target for draft in drafts if draft.changed]
    checked = preflight.check_cheap_now(who.service, new, _join_histories(drafts))
    _check_passed(who.service, new, checked)
    return _plan_all(who.service, drafts, checked, plan.stored)


_TRANSITIONS = {(True, False): "edit", (True, True): "edit_at", (False, True): "reschedule"}  # content, time


def _write_post(tx: Tx, who: Actor, edit: PlannedEdit, change: PostChange, inline: Mapping[InlineMedia, str]) -> bool:
    """Write the edit of one post; return whether it changed."""
    service, row, at_ms = who.service, edit.row, change.find_time(edit.row)
    is_moved = at_ms != row["scheduled_at"]
    if not edit.changed and not is_moved:
        return False
    columns = _build_columns(edit, inline, is_own=not change.keeps_own)
    moved = post_states.apply(
        service,
        tx,
        _TRANSITIONS[bool(edit.changed), is_moved],
        row["id"],
        data={"previousScheduledAt": str(format_iso(row["scheduled_at"])), "changed": edit.changed},
        request_id=who.request_id,
        scheduled_at=at_ms,
        **columns,
    )
    assert moved is not None, "`plan.find` has checked it in this transaction"
    if is_moved and not post_states.is_waiting_piece(row):
        key = upstreams.load_share_key(service, row["account"])
        service.jobs.put(tx, "publish", row["id"], at_ms, row["account"], key)
    if "text" in edit.changed:
        service.recent_posts.add_texts([(row["account"], edit.target.draft.text)])
    library.extend_retention(service, tx, edit.target.assets.values(), at_ms)
    return True


def _move_pieces(tx: Tx, who: Actor, edits: Sequence[PlannedEdit], change: PostChange) -> None:
    """Move the queued pieces that follow the edited posts in their threads."""
    edited = {edit.row["id"] for edit in edits}
    moved = [edit.row for edit in edits if change.find_time(edit.row) != edit.row["scheduled_at"]]
    last_first = sorted(moved, key=lambda row: row["position"], reverse=True)
    for row in {row["thread_of"] or row["id"]: row for row in last_first}.values():  # the first moved of each thread
        for piece in post_states.list_later_pieces(row):
            if piece["status"] == "queued" and piece["id"] not in edited:
                _move_piece(tx, who, piece, change.find_time(row))


def _move_piece(tx: Tx, who: Actor, piece: PostRow, at_ms: int) -> None:
    """Move a piece that waits for the piece before it, and so has no job."""
    before: post_states.TransitionData = {"previousScheduledAt": str(format_iso(piece["scheduled_at"]))}
    post_states.apply(
        who.service, tx, "reschedule", piece["id"], data=before, request_id=who.request_id, scheduled_at=at_ms
    )
    library.extend_retention(who.service, tx, library.load_assets(json.loads(piece["media"])).values(), at_ms)


def _build_columns(edit: PlannedEdit, inline: Mapping[InlineMedia, str], *, is_own: bool) -> dict[str, Any]:
    """Build the changed columns. `is_own`: the new text and media belong to this post alone."""
    target, columns = edit.target, dict[str, Any]()
    if "text" in edit.changed:
        columns |= {"text": target.draft.text, "text_fold": casefold.fold_for_storage(target.draft.text)}
        columns |= {"own_text": True} if is_own else {}
    if "media" in edit.changed:
        columns |= {"media": inline_media.encode_refs(target.refs, target.account["profile"], inline)}
        columns |= {"own_media": True} if is_own else {}
    if "options" in edit.changed:
        columns["options"] = json.dumps(target.draft.options, ensure_ascii=False)
    if edit.changed:
        columns["warnings"] = dumps([build_warning_body(note) for note in edit.warnings])
    return columns
