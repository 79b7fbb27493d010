"""Transaction of accepted batches: posts, events, jobs and idempotency records, or nothing.

Batches accepted at the same time are written together, with each statement for all of them. What `accept.prepare`
checked is checked again, because it may have changed meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from socialpub.base import fault_injection
from socialpub.base.errors import ApiError
from socialpub.domain import post_states
from socialpub.domain.access import audit_log, idempotency, lost_responses
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.events import events
from socialpub.domain.media import library
from socialpub.domain.organizations import quotas
from socialpub.domain.posts import (
    batch_plan,
    batches,
    external_ids,
    inline_media,
    plan_tokens,
    post_history,
    request_lookup,
    slots,
)
from socialpub.domain.posts.batch_plan import BatchPlan, PlannedTarget
from socialpub.domain.posts.targets import check_future
from socialpub.domain.publishing import immediate_batch
from socialpub.domain.publishing.immediate_batch import ImmediateStart
from socialpub.domain.publishing.transactions import InsertedPost
from socialpub.domain.schemas.posts import BatchBody
from socialpub.store import search
from socialpub.store.database import Tx
from socialpub.store.engine import sql
from socialpub.store.jobs.leases import Claim
from socialpub.store.queries import acceptance
from socialpub.store.queries.bulk import SqlRow
from socialpub.store.rows import AccountRow, PostRow


@dataclass(frozen=True)
class BatchWrite:
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
        return [batch_plan.mark_publishing(row, nonces.get(target.post)) for target, row in pairs]


class DependentRequestsError(Exception):
    """Group of requests that depend on each other: write each alone."""


def insert_alone(tx: Tx, entry: BatchWrite) -> BatchBody:
    """Write one batch that depends on earlier writes. Raises as `insert_batches`."""
    external_ids.check(entry.plan.who.scope, entry.plan.request)  # a repeat takes no slot
    return insert_batches(tx, (_take_slot(entry),))[0]


def _take_slot(entry: BatchWrite) -> BatchWrite:
    """Take the slot that is free now, in the transaction: another one if that was taken."""
    plan = entry.plan
    if plan.request.slot is None:
        return entry
    request = slots.schedule(plan.who.service, plan.who.scope, plan.request)
    if request is plan.request:
        return entry
    return replace(entry, plan=batch_plan.reschedule(plan, request))


def insert_batches(tx: Tx, entries: Sequence[BatchWrite]) -> list[BatchBody]:
    """Write a group of distinct requests, possibly of several organizations.

    Each statement covers all of them, to keep the transaction short. An exception is the response of a request written
    alone: ApiError, and EarlierBatchError if its batch exists.
    """
    plans = [entry.plan for entry in entries]
    service = plans[0].who.service
    accounts, groups = _recheck(service, plans)
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


# --- Checks ----------------------------------------------------------------------------------------------------------


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
    request_lookup.check_repeats(service, [(plan.who.key, plan.pending) for plan in plans if plan.name])
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
    if post_history.should_refuse_duplicates(service, plan.request):
        post_history.check_duplicates(resolved_targets, post_history.find_repeated(service, resolved_targets))
    used = [(resolved.account["profile"], asset) for resolved in resolved_targets for asset in resolved.assets]
    request_lookup.check_media(plan.who.scope.organization, used, media)


# --- Rows ------------------------------------------------------------------------------------------------------------


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
        inline_media.insert(service, tx, plan.who.scope.organization, plan.stored, plan.inline, plan.at_ms)
        library.extend_retention(service, tx, plan.assets.values(), plan.at_ms)


def _insert_posts(service: AppContext, tx: Tx, entries: Sequence[BatchWrite], now: int) -> dict[str, int]:
    """Insert batches and posts; return the surrogate key of each post."""
    plans = [entry.plan for entry in entries]
    heads = [(plan.batch, plan.organization, plan.who.request_id, plan.at_ms) for plan in plans]
    sql.insert(acceptance.INSERT_BATCHES, heads, (now,))
    named = [
        (plan.request.external_id, plan.organization, plan.batch, plan.content)
        for plan in plans
        if plan.request.external_id is not None
    ]
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


def _iter_targets(plans: Iterable[BatchPlan]) -> Iterator[PlannedTarget]:
    return (target for plan in plans for target in plan.targets)


def _insert_jobs(service: AppContext, tx: Tx, entries: Sequence[BatchWrite]) -> dict[str, Sequence[Claim]]:
    """Insert the jobs; return the claims of immediate posts, leased to this process, by batch."""
    due = [(work, plan.at_ms) for plan in (e.plan for e in entries) if plan.at_ms is not None for work in plan.jobs]
    if due:
        service.jobs.put_new(tx, "publish", due)
    immediate_plans = [entry.plan for entry in entries if entry.plan.at_ms is None]
    if not immediate_plans:
        return {}
    claims = iter(service.jobs.put_held(tx, "publish", [work for plan in immediate_plans for work in plan.jobs]))
    return {plan.batch: [next(claims) for _ in plan.jobs] for plan in immediate_plans}


# --- Posts that start with acceptance --------------------------------------------------------------------------------


def _build_inserted(
    entries: Sequence[BatchWrite], accounts: Mapping[str, AccountRow], numbers: Mapping[str, int], now: int
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


# --- Events ----------------------------------------------------------------------------------------------------------


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


def _build_new_post(plan: BatchPlan, target: PlannedTarget, number: int, now: int) -> post_states.AcceptedPost:
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
