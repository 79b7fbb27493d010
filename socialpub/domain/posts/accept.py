"""Acceptance of a batch: `prepare` checks it, `commit` writes it in one transaction.

Both read top to bottom. `prepare` checks batch rules, targets, preflight and quota, and computes the plan
(`batch_plan.py`); `commit` has it written (`batch_transaction.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from socialpub.base import fault_injection
from socialpub.base.concurrency.fair_executor import FairExecutor, ShareKey
from socialpub.base.errors import ApiError, rule_error
from socialpub.domain.access import actions
from socialpub.domain.access.actor import Actor
from socialpub.domain.access.lost_responses import PendingResponse
from socialpub.domain.context import upstreams
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.media import library
from socialpub.domain.organizations import quotas
from socialpub.domain.posts import (
    batch_plan,
    batch_transaction,
    external_ids,
    inline_media,
    plan_tokens,
    post_history,
    preflight,
    request_lookup,
    slots,
)
from socialpub.domain.posts.batch_plan import BatchPlan, PlannedTarget
from socialpub.domain.posts.batch_transaction import BatchWrite
from socialpub.domain.posts.targets import ResolvedTarget, check_batch, check_shape, dump_options, resolve
from socialpub.domain.publishing.immediate_batch import ImmediateStart, StartBatch
from socialpub.domain.schemas.posts import BatchBody, BatchRequest
from socialpub.platforms.contract import MediaFacts, PublishWarning
from socialpub.platforms.kit.rule_catalog import remove_duplicates

_RequestRead = tuple[request_lookup.RequestLookup, list[ResolvedTarget], post_history.PostHistory]
PAUSED_RETRY_SECONDS = 60


# --- Checks before the transaction -----------------------------------------------------------------------------------


async def prepare(
    who: Actor, request: BatchRequest, pending: PendingResponse | None, inline: library.InlineFiles
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


async def prepare_planned(who: Actor, token: str, pending: PendingResponse | None) -> BatchPlan:
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
    content = batch_plan.hash_content(plan.request, plan.targets)
    resolved = [dict(target.resolved.draft.options) for target in plan.targets if target.thread_of is None]
    if content != planned.content or sent != resolved:
        raise rule_error("plan.changed")
    return content


async def _prepare(
    who: Actor, request: BatchRequest, pending: PendingResponse | None, inline: library.InlineFiles
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
    if post_history.should_refuse_duplicates(service, request):
        post_history.check_duplicates(resolved_targets, history.before)
    quotas.check(service, lookup.usage, len(resolved_targets))
    posts = [service.runtime.ids.uuid() for _ in resolved_targets]
    names = [f"post {post}" for post in posts]
    warnings_by_target = post_history.build_warnings(service, resolved_targets, history, request.scheduled_at, names)
    stored = await inline_media.store(service, scope.organization, resolved_targets, inline) if inline else {}
    firsts = _list_firsts(request, resolved_targets, posts)
    targets = [
        PlannedTarget(
            resolved, post, share, _merge_warnings(service, request, resolved, stored, (*found.warnings, *notes)), first
        )
        for resolved, post, share, found, notes, first in zip(
            resolved_targets, posts, shares, checked, warnings_by_target, firsts, strict=True
        )
    ]
    return batch_plan.build_plan(who, request, pending, targets, stored)


def _read_request(who: Actor, request: BatchRequest, repeats: Sequence[request_lookup.RequestIdentity]) -> _RequestRead:
    """Read the rows that the request names, its targets, and the post history of each."""
    request_lookup.check_repeats(who.service, repeats)
    lookup = request_lookup.look_up(who.service, who.scope, request)
    resolved_targets = _resolve_targets(who, request, lookup)
    return lookup, resolved_targets, post_history.load_history(who.service, resolved_targets, request.scheduled_at)


def _resolve_targets(who: Actor, request: BatchRequest, lookup: request_lookup.RequestLookup) -> list[ResolvedTarget]:
    if lookup.paused and request.scheduled_at is None:
        raise rule_error("service.paused", retry_after=PAUSED_RETRY_SECONDS)
    return resolve(who.service, request, lookup.rows)


def _check_capacity(service: AppContext, shares: Sequence[ShareKey]) -> None:
    """Raise ApiError `http.busy` if the queue is full; accepted posts are never refused later."""
    wanted: dict[FairExecutor, int] = {}
    for share in shares:
        threads = upstreams.choose_executor(service, share)
        wanted[threads] = wanted.get(threads, 0) + 1
    for threads, count in wanted.items():
        threads.admit(shares[0], count)


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
    return tuple(remove_duplicates((*found, *known)))


# --- The transaction -------------------------------------------------------------------------------------------------


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
    entry = BatchWrite(plan, immediate)
    with await service.admission.writing.enter(scope.organization):
        if immediate:
            immediate.acquire(plan.jobs)
        # These depend on earlier writes.
        if plan.request.slot or post_history.should_refuse_duplicates(service, plan.request):
            written = actions.write(service, scope, lambda tx: batch_transaction.insert_alone(tx, entry))
        else:
            written = actions.write_together(service, scope, batch_transaction.insert_batches, entry)
        if immediate:
            written.add_done_callback(lambda done: immediate.release() if done.exception() else None)
        return await written
