"""Acceptance of a batch: `prepare` checks it, `commit` writes it in one transaction.

`prepare` reads top to bottom: batch rules, targets, preflight, quota. The transaction holds the posts, their events and
jobs, and the idempotency record. As much as possible is computed before it, since it blocks all other writers. Batches
accepted at the same time are written together, with each statement for all of them.
"""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

from socialpub import platforms
from socialpub.base import fault_injection
from socialpub.base.concurrency.fair_executor import FairExecutor, ShareKey
from socialpub.base.errors import ApiError, rule_error
from socialpub.base.json_codec import dumps
from socialpub.domain import post_states
from socialpub.domain.access import actions, audit_log, idempotency, lost_responses
from socialpub.domain.access.actor import Actor
from socialpub.domain.access.idempotency import EarlierBatchError
from socialpub.domain.context import upstreams
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.events import events
from socialpub.domain.media import library
from socialpub.domain.organizations import quotas
from socialpub.domain.posts import batches, content_hash, external_ids, plan_tokens, preflight, request_lookup, slots
from socialpub.domain.posts.content_hash import MediaContent
from socialpub.domain.posts.targets import (
    RawMediaRef,
    ResolvedTarget,
    check_batch,
    check_future,
    check_shape,
    dump_options,
    resolve,
)
from socialpub.domain.publishing import immediate_batch
from socialpub.domain.publishing.immediate_batch import ImmediateStart, StartBatch
from socialpub.domain.publishing.transactions import InsertedPost
from socialpub.domain.schemas.errors import build_warning_body
from socialpub.domain.schemas.posts import BatchBody, BatchRequest, Result
from socialpub.platforms.contract import MediaFacts, PublishWarning
from socialpub.platforms.kit.rule_catalog import remove_duplicates
from socialpub.store import casefold, search
from socialpub.store.database import Tx
from socialpub.store.engine import sql
from socialpub.store.jobs.leases import Claim, JobSpec
from socialpub.store.queries import acceptance
from socialpub.store.queries.bulk import SqlRow
from socialpub.store.rows import AccountRow, MediaRow, PostRow

InlineMedia = tuple[str, str, str | None]  # inline media: hash, profile of the target, alt text
_RequestRead = tuple[request_lookup.RequestLookup, list[ResolvedTarget], preflight.PostHistory]
_RequestIdentity = tuple[
    idempotency.IdempotencyKey | None, lost_responses.PendingResponse | None
]  # identifies a repeated request
PAUSED_RETRY_SECONDS = 60
_STATUS_INDEX = 7  # index in a post's row


class _PlannedTarget(NamedTuple):
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
    targets: Sequence[_PlannedTarget]
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


# --- Before the transaction ------------------------------------------------------------------------------------------


async def prepare(
    who: Actor, request: BatchRequest, pending: lost_responses.PendingResponse | None, inline: library.InlineFiles
) -> BatchPlan:
    """Check a publish request. Raises ApiError, with nothing written, if any check fails.

    Repeats are detected in the transaction; here only if inline files would be stored again: KeyInUseError for a used
    key, JoinEarlierRequestError for a request whose batch exists or is being accepted. EarlierBatchError: a batch with
    the external id and the content of the request exists.
    """
    try:
        return await _prepare(who, request, pending, inline)
    except ApiError:
        if request.external_id is not None:  # the request that came first may have been accepted meanwhile
            await who.service.read(lambda: external_ids.check_repeat(who.scope, request))
        raise


async def prepare_planned(who: Actor, token: str, pending: lost_responses.PendingResponse | None) -> BatchPlan:
    """Check the request of a plan again.

    Raises as `prepare`, and ApiError `plan.unknown`, `plan.changed`.
    """
    service = who.service
    planned = await service.read(lambda: plan_tokens.load(service, who.scope, token))
    try:
        plan = await prepare(who, planned.request, pending, {})
        return plan._replace(token=planned.id, content=_check_content(plan, planned))
    except ApiError:  # it may have been used meanwhile
        await service.read(lambda: plan_tokens.check_unused(service, who.scope, planned.id))
        raise


def _check_content(plan: BatchPlan, planned: plan_tokens.PlannedRequest) -> str:
    """Return the content's hash. Raises ApiError `plan.changed` unless it is what was checked."""
    sent = [dump_options(target.options) for target in planned.request.targets]
    content = _hash_content(plan.request, plan.targets)
    resolved = [dict(target.resolved.draft.options) for target in plan.targets if target.thread_of is None]
    if content != planned.content or sent != resolved:
        raise rule_error("plan.changed")
    return content


async def _prepare(
    who: Actor, request: BatchRequest, pending: lost_responses.PendingResponse | None, inline: library.InlineFiles
) -> BatchPlan:
    service, scope = who.service, who.scope
    check_shape(request, inline)
    if request.external_id is not None:
        await service.read_inline(lambda: external_ids.check(scope, request))
    check_batch(service, request, scope)
    if request.slot is not None:
        request = await service.read(functools.partial(slots.schedule, service, scope, request))
    lookup, resolved_targets, history = await service.read_inline(
        lambda: _read_request(who, request, [(who.key, pending)] if inline else ())
    )
    shares = [
        upstreams.build_share_key(service, resolved.platform, resolved.connector_account.extra, scope.organization)
        for resolved in resolved_targets
    ]
    if request.scheduled_at is None:
        pairs = zip(resolved_targets, shares, strict=True)
        _check_capacity(service, [share for resolved, share in pairs if not resolved.piece])
    checked = await preflight.check_cheap(service, scope, resolved_targets, history)
    if error := preflight.combine_errors(service, resolved_targets, checked):
        raise error
    if preflight.should_refuse_duplicates(service, request):
        preflight.check_duplicates(resolved_targets, history.before)
    quotas.check(service, lookup.usage, len(resolved_targets))
    posts = [service.runtime.ids.uuid() for _ in resolved_targets]
    names = [f"post {post}" for post in posts]
    warnings_by_target = preflight.build_warnings(service, resolved_targets, history, request.scheduled_at, names)
    stored = await store_inline(service, scope.organization, resolved_targets, inline) if inline else {}
    targets = [
        _PlannedTarget(
            resolved, post, share, _merge_warnings(service, request, resolved, stored, (*found.warnings, *notes)), first
        )
        for resolved, post, share, found, notes, first in zip(
            resolved_targets,
            posts,
            shares,
            checked,
            warnings_by_target,
            _list_firsts(request, resolved_targets, posts),
            strict=True,
        )
    ]
    return _build_plan(who, request, pending, targets, stored)


def _list_firsts(
    request: BatchRequest, resolved_targets: Sequence[ResolvedTarget], posts: Sequence[str]
) -> list[str | None]:
    """List for each post the first one of its thread; None for that one, and without a thread."""
    firsts: list[str | None] = [None] * len(posts)
    if len(posts) > len(request.targets):
        for place, resolved in enumerate(resolved_targets):
            if resolved.piece:
                firsts[place] = firsts[place - 1] or posts[place - 1]
    return firsts


def _read_request(who: Actor, request: BatchRequest, repeats: Sequence[_RequestIdentity]) -> _RequestRead:
    """Read the rows that the request names, its targets, and the post history of each."""
    _check_repeats(who.service, repeats)
    lookup = request_lookup.look_up(who.service, who.scope, request)
    resolved_targets = _resolve_targets(who, request, lookup)
    return lookup, resolved_targets, preflight.load_history(who.service, resolved_targets, request.scheduled_at)


def _resolve_targets(who: Actor, request: BatchRequest, lookup: request_lookup.RequestLookup) -> list[ResolvedTarget]:
    if lookup.paused and request.scheduled_at is None:
        raise rule_error("service.paused", retry_after=PAUSED_RETRY_SECONDS)
    return resolve(who.service, request, lookup.rows)


def _check_repeats(service: AppContext, repeats: Sequence[_RequestIdentity]) -> None:
    """Raise KeyInUseError or JoinEarlierRequestError for a repeated request."""
    if not repeats:
        return
    asked = sql.dump_json([[key and key.id, *(pending.bounds if pending else ())] for key, pending in repeats])
    now = service.now_ms
    found = sql.load_json(
        sql.fetch_value(acceptance.FIND_EARLIER_REQUESTS, (asked, now, now - lost_responses.WINDOW_MS))
    )
    for (_, pending), (used, same) in zip(repeats, found, strict=True):
        if used:
            raise idempotency.KeyInUseError
        if pending and (first := lost_responses.pick_undelivered(service, same)):
            raise lost_responses.JoinEarlierRequestError(first)


def _check_capacity(service: AppContext, shares: Sequence[ShareKey]) -> None:
    """Raise ApiError `http.busy` if the queue is full; accepted posts are never refused later."""
    wanted: dict[FairExecutor, int] = {}
    for share in shares:
        threads = upstreams.choose_executor(service, share)
        wanted[threads] = wanted.get(threads, 0) + 1
    for threads, count in wanted.items():
        threads.admit(shares[0], count)


async def store_inline(
    service: AppContext, organization: str, resolved_targets: Sequence[ResolvedTarget], files: library.InlineFiles
) -> dict[str, MediaFacts]:
    """Store inline media durably before any row names them, equal files once."""
    inline = {ref["bytesBase64"] for resolved in resolved_targets for ref in resolved.refs if "bytesBase64" in ref}
    return await store_files(service, organization, {data: files[data] for data in inline}) if inline else {}


async def store_files(service: AppContext, organization: str, files: library.InlineFiles) -> dict[str, MediaFacts]:
    """Store inline files in a thread of the organization's share; return their facts by hash."""
    threads = service.executors.immediate.of(ShareKey(owner=organization))
    store = library.store_all_inline
    return await asyncio.get_running_loop().run_in_executor(threads, store, service, files, organization)


def _merge_warnings(
    service: AppContext,
    request: BatchRequest,
    resolved: ResolvedTarget,
    stored: Mapping[str, MediaFacts],
    found: Sequence[PublishWarning],
) -> tuple[PublishWarning, ...]:
    """Merge a target's warnings; if scheduled, with rules that its stored media will break."""
    known = (
        preflight.find_known_breaches(service, resolved, stored)
        if request.scheduled_at is not None and resolved.refs
        else ()
    )
    if len(found) + len(known) < 2:
        return (*found, *known)
    return tuple(remove_duplicates((*remove_duplicates(found), *known)))


def _build_plan(
    who: Actor,
    request: BatchRequest,
    pending: lost_responses.PendingResponse | None,
    targets: Sequence[_PlannedTarget],
    stored: Mapping[str, MediaFacts],
) -> BatchPlan:
    at_ms, batch = request.scheduled_at, who.service.runtime.ids.uuid()
    inline_media = list_inline(target.resolved for target in targets) if stored else ()
    media = {inline: library.new_id(who.service) for inline in inline_media}
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
    content = None if request.external_id is None else _hash_content(request, targets)
    return BatchPlan(who, request, pending, batch, targets, stored, media, rows, jobs, results, content)


def _hash_content(request: BatchRequest, targets: Sequence[_PlannedTarget]) -> str:
    assets = {id: row for target in targets for id, row in target.resolved.assets.items()}
    media = {id: MediaContent(row["kind"], row["sha256"], row["alt_text"]) for id, row in assets.items()}
    accounts = [target.resolved.account["id"] for target in targets if target.thread_of is None]
    return content_hash.hash_content(request, accounts, media)


def list_inline(targets: Iterable[ResolvedTarget]) -> list[InlineMedia]:
    """List the distinct inline media of the targets."""
    inlines = (_inline_key(ref, target.account["profile"]) for target in targets for ref in target.refs)
    return list(dict.fromkeys(inline for inline in inlines if inline is not None))


def _inline_key(ref: RawMediaRef, profile: str) -> InlineMedia | None:
    return (ref["bytesBase64"], profile, ref.get("altText")) if "bytesBase64" in ref else None


def _build_row(
    request: BatchRequest,
    target: _PlannedTarget,
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
        encode_refs(resolved.refs, account["profile"], media),
        int(bool(resolved.piece) or sent.text is not None),
        int(bool(resolved.piece) or sent.media is not None),
        encode_json(resolved.draft.options) if resolved.draft.options else "{}",
        comment if comment and platforms.platform(resolved.platform).first_comment else None,
        request.external_id,
        warnings,
        at_ms,
        target.thread_of,
        resolved.piece,
        None,
    )


def _mark_publishing(row: SqlRow, nonce: int | None) -> SqlRow:
    """Mark the row as publishing, if its first attempt starts with acceptance (nonce given)."""
    return row if nonce is None else (*row[:_STATUS_INDEX], "publishing", *row[_STATUS_INDEX + 1 : -1], nonce)


def encode_refs(refs: Sequence[RawMediaRef], profile: str, media: Mapping[InlineMedia, str]) -> str:
    """Encode the mediaRefs of a post in this profile for its row. `media`: ids of inline media."""
    return encode_json([_build_saved_ref(ref, profile, media) for ref in refs]) if refs else "[]"


def encode_json(value: Sequence[object] | Mapping[str, object]) -> str:
    return json.dumps(value, ensure_ascii=False)


def _build_saved_ref(ref: RawMediaRef, profile: str, media: Mapping[InlineMedia, str]) -> RawMediaRef:
    """Build the mediaRef to store and show; inline bytes have become an asset."""
    inline = _inline_key(ref, profile)
    if inline is None:
        return ref
    saved = {"kind": ref["kind"], "mediaId": media[inline]}
    return saved | ({"altText": ref["altText"]} if "altText" in ref else {})


# --- The transaction -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _BatchWrite:
    """Batch to write. `immediate`: set for an immediate batch."""

    plan: BatchPlan
    immediate: ImmediateStart | None

    @property
    def rows(self) -> Sequence[SqlRow]:
        """Rows of the posts."""
        if self.immediate is None:
            return self.plan.rows
        nonces = self.immediate.nonces
        pairs = zip(self.plan.targets, self.plan.rows, strict=True)
        return [_mark_publishing(row, nonces.get(target.post)) for target, row in pairs]


async def commit(plan: BatchPlan, start_batch: StartBatch | None = None) -> BatchBody:
    """Write the batch and return it as accepted.

    Raises ApiError, with nothing written, if the facts that `prepare` checked have changed, and EarlierBatchError.
    `start_batch`: publishes an immediate batch.
    """
    async with library.delete_on_failure(plan.who.service, plan.stored.values()):
        body = await _write(plan, start_batch)
    fault_injection.hit("sched.after_commit" if plan.at_ms is not None else "now.after_commit")
    return body


async def _write(plan: BatchPlan, start_batch: StartBatch | None) -> BatchBody:
    service, scope = plan.who.service, plan.who.scope
    immediate = start_batch and ImmediateStart(service, start_batch)
    entry = _BatchWrite(plan, immediate)
    with await service.admission.writing.enter(scope.organization):
        if immediate:
            immediate.acquire(plan.jobs)
        if plan.request.slot or preflight.should_refuse_duplicates(service, plan.request):  # depends on earlier writes
            written = actions.write(service, scope, lambda tx: _insert_alone(tx, entry))
        else:
            written = actions.write_together(service, scope, _insert_batches, entry)
        if immediate:
            written.add_done_callback(lambda done: None if _is_accepted(done) else immediate.release())
        result = await written
    if isinstance(result, EarlierBatchError):
        raise result
    return result


def _is_accepted(written: Future[AcceptanceResult]) -> bool:
    return written.exception() is None and not isinstance(written.result(), EarlierBatchError)


def _insert_alone(tx: Tx, entry: _BatchWrite) -> AcceptanceResult:
    """Write one batch that depends on earlier writes."""
    try:
        external_ids.check(entry.plan.who.scope, entry.plan.request)  # a repeat takes no slot
    except EarlierBatchError as error:
        return error
    return _insert_batches(tx, (_take_slot(entry),))[0]


def _take_slot(entry: _BatchWrite) -> _BatchWrite:
    """Take the slot that is free now, in the transaction: another one if that was taken."""
    plan = entry.plan
    if plan.request.slot is None:
        return entry
    request = slots.schedule(plan.who.service, plan.who.scope, plan.request)
    if request is plan.request:
        return entry
    return replace(entry, plan=_build_plan(plan.who, request, plan.pending, plan.targets, plan.stored))


class DependentRequestsError(Exception):
    """Group of requests that depend on each other: write each alone."""


AcceptanceResult = BatchBody | EarlierBatchError
"""Accepted batch, or an earlier one. An earlier one is a result, because it is committed by then."""


def _insert_batches(tx: Tx, entries: Sequence[_BatchWrite]) -> Sequence[AcceptanceResult]:
    """Write a group of distinct requests, possibly of several organizations.

    Each statement covers all of them, to keep the transaction short. An exception is the response of a request written
    alone.
    """
    plans = [entry.plan for entry in entries]
    service = plans[0].who.service
    try:
        accounts, groups = _recheck(service, plans)
    except EarlierBatchError as error:
        if len(plans) > 1:
            raise
        return [error]
    for plan in plans:
        if plan.record:
            plan.record(tx, plan)
    _take_quota(service, tx, groups)
    now = service.now_ms  # timestamp of the batches and all their rows
    bodies = [_build_body(plan, now) for plan in plans]
    _insert_idempotency(service, tx, plans, bodies, now)
    audit_log.record_all(service, tx, [(plan.who.audit, plan.batch) for plan in plans])
    _insert_media(service, tx, plans)
    numbers = _insert_posts(service, tx, entries, now)
    claims = _insert_jobs(service, tx, entries)
    _emit_events(service, tx, groups, numbers, now)
    immediate_plans = [(entry.immediate, claims[entry.plan.batch]) for entry in entries if entry.immediate]
    immediate_batch.claim_posts(service, tx, immediate_plans, _build_inserted(entries, accounts, numbers, now))
    for entry in entries:
        fault_injection.hit("sched.before_commit" if entry.plan.at_ms is not None else "now.before_commit")
    return bodies


def _build_body(plan: BatchPlan, now: int) -> BatchBody:
    return batches.build_accepted_body(plan.batch, now, plan.at_ms, plan.results, plan.request.external_id)


@dataclass
class _OrganizationGroup:
    """Requests of one organization in the group, and the quota thresholds they cross."""

    id: str
    plans: Sequence[BatchPlan]
    state: request_lookup.OrganizationState
    thresholds: Sequence[quotas.QuotaThreshold] = ()


def _recheck(
    service: AppContext, plans: Sequence[BatchPlan]
) -> tuple[Mapping[str, AccountRow], list[_OrganizationGroup]]:
    """Check again what may have changed since `prepare`: key, time, duplicates, rows.

    Raises if any request fails; returns the accounts by id, and the organizations.
    """
    _check_independent(plans)
    _check_repeats(service, [(plan.who.key, plan.pending) for plan in plans if plan.name])
    for plan in plans:
        if plan.token:
            plan_tokens.check_unused(service, plan.who.scope, plan.token)
        external_ids.check(plan.who.scope, plan.request)
    account_ids = {target.resolved.account["id"] for target in _iter_targets(plans)}
    accounts = request_lookup.load_connected(account_ids)
    if len(accounts) < len(account_ids):
        raise ApiError("not_found", "An account of this batch was disconnected in the meantime.")
    media = request_lookup.load_media_owners({asset for plan in plans for asset in plan.assets})
    by_organization: dict[str, list[BatchPlan]] = {}
    for plan in plans:
        _recheck_request(service, plan, media)
        by_organization.setdefault(plan.who.scope.organization, []).append(plan)
    return accounts, [
        _OrganizationGroup(organization, of_organization, request_lookup.load_organization(service, organization))
        for organization, of_organization in by_organization.items()
    ]


def _check_independent(plans: Sequence[BatchPlan]) -> None:
    """Raise DependentRequestsError for equal requests, external ids or plans."""
    if len(plans) > 1:
        names: list[object] = [plan.name for plan in plans if plan.name is not None]
        names += [plan.token for plan in plans if plan.token]
        names += [(plan.organization, plan.request.external_id) for plan in plans if plan.request.external_id]
        if len(set(names)) < len(names):
            raise DependentRequestsError


def _recheck_request(service: AppContext, plan: BatchPlan, media: Mapping[str, tuple[str, str | None]]) -> None:
    """Check one request against the data of the transaction."""
    check_future(service, plan.at_ms)
    resolved_targets = [target.resolved for target in plan.targets]
    if preflight.should_refuse_duplicates(service, plan.request):
        preflight.check_duplicates(resolved_targets, preflight.find_repeated(service, resolved_targets))
    if assets := plan.assets:
        profiles = {id_: media[id_][1] for id_ in assets if media.get(id_, ("",))[0] == plan.who.scope.organization}
        for resolved in resolved_targets:
            for asset in resolved.assets:
                library.check_usable(profiles, resolved.account["profile"], asset)


def _take_quota(service: AppContext, tx: Tx, groups: Sequence[_OrganizationGroup]) -> None:
    for group in groups:
        cost = sum(len(plan.targets) for plan in group.plans)
        group.thresholds = quotas.spend(service, tx, group.id, group.state.quota, cost)
        search.record_clock_skew(group.state.newest, service.now_ms)


def _insert_idempotency(
    service: AppContext, tx: Tx, plans: Sequence[BatchPlan], bodies: Sequence[BatchBody], now: int
) -> None:
    """Insert idempotency records (with the response if known) and pending responses."""
    if owed := [(plan.pending, plan.batch) for plan in plans if plan.pending]:
        lost_responses.record_all_pending(tx, owed, now)
    rows = []
    for plan, body in zip(plans, bodies, strict=True):
        if key := plan.who.key:
            answer = batches.build_response(body) if plan.at_ms is not None else None
            rows.append(idempotency.build_row(service, key, answer, batch=plan.batch))
    sql.insert(acceptance.INSERT_IDEMPOTENCY, rows)


def _insert_media(service: AppContext, tx: Tx, plans: Sequence[BatchPlan]) -> None:
    for plan in plans:
        library.release_after_commit(service, tx, plan.stored.values())
        insert_inline(service, tx, plan.who.scope.organization, plan.stored, plan.inline, plan.at_ms)
        library.extend_retention(service, tx, plan.assets.values(), plan.at_ms)


def insert_inline(
    service: AppContext,
    tx: Tx,
    organization: str,
    stored: Mapping[str, MediaFacts],
    inline: Mapping[InlineMedia, str],
    at_ms: int | None,
) -> None:
    """Insert the rows of stored inline media, needed at `at_ms` or now."""
    for (data, profile, alt), media in inline.items():
        library.insert(service, tx, organization, profile, stored[data], alt, media, at_ms)


def _insert_posts(service: AppContext, tx: Tx, entries: Sequence[_BatchWrite], now: int) -> dict[str, int]:
    """Insert batches and posts; return the surrogate key of each post."""
    plans = [entry.plan for entry in entries]
    heads = [(plan.batch, plan.organization, plan.who.request_id, plan.at_ms) for plan in plans]
    sql.insert(acceptance.INSERT_BATCHES, heads, (now,))
    if named := [_build_external_id(plan) for plan in plans if plan.request.external_id is not None]:
        sql.insert(acceptance.INSERT_EXTERNAL_IDS, named)
    for plan in plans:
        if plan.token:
            plan_tokens.use(service, tx, plan.token, plan.batch)
    rows = [row for entry in entries for row in entry.rows]
    last = sql.insert(acceptance.INSERT_POSTS, rows, (now,))
    assert last is not None, "a batch has posts"
    resolved_targets = [(plan.at_ms, target.resolved) for plan in plans for target in plan.targets]
    service.recent_posts.add_texts((resolved.account["id"], resolved.draft.text) for _, resolved in resolved_targets)
    posts = [
        (resolved.account["id"], resolved.platform, now if at_ms is None else at_ms)
        for at_ms, resolved in resolved_targets
    ]
    tx.after_commit(lambda: service.recent_posts.add_posts(posts))
    first = last - len(rows) + 1  # consecutive, because there is only one writer
    return {target.post: first + place for place, target in enumerate(_iter_targets(plans))}


def _build_external_id(plan: BatchPlan) -> SqlRow:
    return plan.request.external_id, plan.organization, plan.batch, plan.content


def _build_inserted(
    entries: Sequence[_BatchWrite], accounts: Mapping[str, AccountRow], numbers: Mapping[str, int], now: int
) -> dict[str, InsertedPost]:
    """Build the posts that were inserted as claimed, by id."""
    begun = {}
    for entry in entries:
        if entry.immediate and entry.immediate.nonces:
            plan = entry.plan
            for target, row in zip(plan.targets, entry.rows, strict=True):
                if target.post in entry.immediate.nonces:
                    account = accounts[target.resolved.account["id"]]
                    post = _build_post_row(row, account, numbers[target.post], now)
                    begun[target.post] = InsertedPost(post, account, plan.who.request_id, plan.organization)
    return begun


_EMPTY_ROW = dict.fromkeys(PostRow.__annotations__)  # in column order


def _build_post_row(row: SqlRow, account: AccountRow, number: int, now: int) -> PostRow:
    """Build the row that `acceptance.INSERT_POSTS` creates for an immediate post."""
    own = dict(zip(acceptance.POST_COLUMNS, row, strict=True))
    its = {"number": number, "account": account["id"]}
    its |= {"organization": account["organization"], "profile": account["profile"]}
    begun = {"created_at": now, "updated_at": now, "attempts": 1, "tries": 1, "draft_at": now}
    return cast(PostRow, {**_EMPTY_ROW, **own, **its, **begun})


def _iter_targets(plans: Iterable[BatchPlan]) -> Iterator[_PlannedTarget]:
    return (target for plan in plans for target in plan.targets)


def _insert_jobs(service: AppContext, tx: Tx, entries: Sequence[_BatchWrite]) -> dict[str, Sequence[Claim]]:
    """Insert the jobs; return the claims of immediate posts, leased to this process, by batch."""
    due = [(work, plan.at_ms) for plan in (e.plan for e in entries) if plan.at_ms is not None for work in plan.jobs]
    if due:
        service.jobs.put_new(tx, "publish", due)
    immediate_plans = [entry.plan for entry in entries if entry.plan.at_ms is None]
    if not immediate_plans:
        return {}
    claims = iter(service.jobs.put_held(tx, "publish", [work for plan in immediate_plans for work in plan.jobs]))
    return {plan.batch: [next(claims) for _ in plan.jobs] for plan in immediate_plans}


def _emit_events(
    service: AppContext, tx: Tx, groups: Sequence[_OrganizationGroup], numbers: Mapping[str, int], now: int
) -> None:
    """Emit the post events by organization, and the quota events."""
    batches_by_organization = [
        (
            events.load_audience(group.id, group.plans[0].organization),
            post_states.build_accepted_events(
                [
                    _build_new_post(plan, target, numbers[target.post], now)
                    for plan in group.plans
                    for target in plan.targets
                ]
            ),
        )
        for group in groups
    ]
    events.emit_many(service, tx, batches_by_organization, now)
    for group in groups:
        for threshold in group.thresholds:
            request_id = group.plans[-1].who.request_id
            events.emit(service, tx, threshold.type, group.id, threshold.data, request_id=request_id)


def _build_new_post(plan: BatchPlan, target: _PlannedTarget, number: int, now: int) -> post_states.NewPost:
    return {
        "id": target.post,
        "organization": target.resolved.account["organization"],
        "profile": target.resolved.account["profile"],
        "account": target.resolved.account["id"],
        "platform": target.resolved.platform,
        "batch": plan.batch,
        "scheduled_at": plan.at_ms,
        "updated_at": now,
        "number": number,
    }
