"""Acceptance of a batch: `prepare` checks it, `commit` writes it in one transaction.

`prepare` reads top to bottom: batch rules, targets, preflight, quota. The transaction holds the posts, their events and
jobs, and the idempotency record. As much as possible is computed before it, since it blocks all other writers. Batches
accepted at the same time are written together, with each statement for all of them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

from socialpub import platforms
from socialpub.base import fault_injection
from socialpub.base.concurrency.fair_executor import FairExecutor, ShareKey
from socialpub.base.errors import ApiError, rule_error
from socialpub.base.json_codec import dumps
from socialpub.domain import post_states
from socialpub.domain.access import actions, audit_log, idempotency, lost_responses
from socialpub.domain.access.actor import Actor
from socialpub.domain.context import upstreams
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.events import events
from socialpub.domain.media import library
from socialpub.domain.organizations import quotas
from socialpub.domain.posts import batches, preflight, request_lookup
from socialpub.domain.posts.targets import RawMediaRef, ResolvedTarget, check_batch, check_future, resolve
from socialpub.domain.publishing import immediate_batch
from socialpub.domain.publishing.immediate_batch import ImmediateStart, StartBatch
from socialpub.domain.publishing.transactions import InsertedPost
from socialpub.domain.schemas.errors import build_warning_body
from socialpub.domain.schemas.posts import BatchBody, PublishRequest, Result
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
    """Target that passed preflight: post id, share key of its call, warnings."""

    aim: ResolvedTarget
    post: str
    share: ShareKey
    warnings: tuple[PublishWarning, ...]


class BatchPlan(NamedTuple):
    """All that the transaction needs to write the batch."""

    who: Actor
    request: PublishRequest
    ear: lost_responses.PendingResponse | None
    batch: str
    targets: Sequence[_PlannedTarget]
    stored: Mapping[str, MediaFacts]  # stored inline media by hash
    inline: Mapping[InlineMedia, str]  # ids of their rows, shared by targets of one profile
    rows: Sequence[SqlRow]  # columns of each post that differ
    jobs: Sequence[JobSpec]
    results: list[Result]

    @property
    def at_ms(self) -> int | None:
        return self.request.scheduled_at

    @property
    def name(self) -> str | None:
        """Identity of the request: its key, or the prefix of its pending response."""
        if self.who.key:
            return self.who.key.id
        return self.ear.prefix if self.ear else None

    @property
    def organization(self) -> int:
        """Surrogate key of the organization."""
        return self.targets[0].aim.account["numbers"][0]

    @property
    def assets(self) -> dict[str, MediaRow]:
        """Stored media of the targets, by id."""
        return {asset: row for target in self.targets for asset, row in target.aim.assets.items()}


# --- Before the transaction ------------------------------------------------------------------------------------------


async def prepare(
    who: Actor, request: PublishRequest, ear: lost_responses.PendingResponse | None, inline: library.InlineFiles
) -> BatchPlan:
    """Check a publish request. Raises ApiError, with nothing written, if any check fails.

    Repeats are detected in the transaction; here only if inline files would be stored again: InUseError for a used key,
    JoinError for an `ear` whose batch exists or is being accepted.
    """
    service, scope = who.service, who.scope
    check_batch(service, request, scope, inline)
    looked, aims, logged = await service.read_inline(
        lambda: _read_request(who, request, [(who.key, ear)] if inline else ())
    )
    shares = [upstreams.build_share_key(service, aim.platform, aim.who.extra, scope.organization) for aim in aims]
    if request.scheduled_at is None:
        _check_capacity(service, shares)
    checked = await preflight.check_cheap(service, scope, aims, logged)
    if error := preflight.combine_errors(service, aims, checked):
        raise error
    if preflight.should_refuse_duplicates(service, request):
        preflight.check_duplicates(aims, logged.before)
    quotas.check(service, looked.standing, len(aims))
    posts = [service.runtime.ids.uuid() for _ in aims]
    names = [f"post {post}" for post in posts]
    noted = preflight.build_warnings(service, aims, logged, request.scheduled_at, names)
    stored = await _store_inline(service, scope.organization, aims, inline) if inline else {}
    targets = [
        _PlannedTarget(aim, post, share, _merge_warnings(service, request, aim, stored, (*found.warnings, *notes)))
        for aim, post, share, found, notes in zip(aims, posts, shares, checked, noted, strict=True)
    ]
    return _build_plan(who, request, ear, targets, stored)


def _read_request(who: Actor, request: PublishRequest, repeats: Sequence[_RequestIdentity]) -> _RequestRead:
    """Read the rows that the request names, its targets, and the post history of each."""
    _check_repeats(who.service, repeats)
    looked = request_lookup.look_up(who.service, who.scope, request)
    aims = _resolve_targets(who, request, looked)
    return looked, aims, preflight.load_history(who.service, aims, request.scheduled_at)


def _resolve_targets(who: Actor, request: PublishRequest, looked: request_lookup.RequestLookup) -> list[ResolvedTarget]:
    if looked.paused and request.scheduled_at is None:
        raise rule_error("service.paused", retry_after=PAUSED_RETRY_SECONDS)
    return resolve(who.service, request, looked.named)


def _check_repeats(service: AppContext, repeats: Sequence[_RequestIdentity]) -> None:
    """Raise InUseError or JoinError for a repeated request."""
    if not repeats:
        return
    asked = sql.dump_json([[key and key.id, *(ear.bounds if ear else ())] for key, ear in repeats])
    now = service.now_ms
    found = sql.load_json(
        sql.fetch_value(acceptance.FIND_EARLIER_REQUESTS, (asked, now, now - lost_responses.WINDOW_MS))
    )
    for (_, ear), (used, same) in zip(repeats, found, strict=True):
        if used:
            raise idempotency.KeyInUseError
        if ear and (first := lost_responses.pick_undelivered(service, same)):
            raise lost_responses.JoinEarlierRequestError(first)


def _check_capacity(service: AppContext, shares: Sequence[ShareKey]) -> None:
    """Raise ApiError `http.busy` if the queue is full; accepted posts are never refused later."""
    wanted: dict[FairExecutor, int] = {}
    for share in shares:
        threads = upstreams.choose_executor(service, share)
        wanted[threads] = wanted.get(threads, 0) + 1
    for threads, count in wanted.items():
        threads.admit(shares[0], count)


async def _store_inline(
    service: AppContext, organization: str, aims: Sequence[ResolvedTarget], files: library.InlineFiles
) -> dict[str, MediaFacts]:
    """Store inline media durably before any row names them, equal files once."""
    inline = {ref["bytesBase64"] for aim in aims for ref in aim.refs if "bytesBase64" in ref}
    if not inline:
        return {}

    def store() -> dict[str, MediaFacts]:
        stored: dict[str, MediaFacts] = {}
        try:
            for data in inline:
                stored[data] = library.store_inline(service, files[data], organization)
        except Exception:
            library.release_unreferenced(service, stored.values())
            raise
        return stored

    threads = service.executors.immediate.of(ShareKey(owner=organization))
    return await asyncio.get_running_loop().run_in_executor(threads, store)


def _merge_warnings(
    service: AppContext,
    request: PublishRequest,
    aim: ResolvedTarget,
    stored: Mapping[str, MediaFacts],
    found: Sequence[PublishWarning],
) -> tuple[PublishWarning, ...]:
    """Merge a target's warnings; if scheduled, with rules that its stored media will break."""
    known = preflight.find_known_breaches(service, aim, stored) if request.scheduled_at is not None and aim.refs else ()
    if len(found) + len(known) < 2:
        return (*found, *known)
    return tuple(remove_duplicates((*remove_duplicates(found), *known)))


def _build_plan(
    who: Actor,
    request: PublishRequest,
    ear: lost_responses.PendingResponse | None,
    targets: Sequence[_PlannedTarget],
    stored: Mapping[str, MediaFacts],
) -> BatchPlan:
    at_ms, batch = request.scheduled_at, who.service.runtime.ids.uuid()
    media = {inline: library.new_id(who.service) for inline in _list_inline(targets)} if stored else {}
    folds: dict[str, str] = {}
    rows, jobs, results = [], [], []
    for target in targets:
        account, notes = target.aim.account["id"], [build_warning_body(note) for note in target.warnings]
        text = target.aim.draft.text
        if text not in folds:  # shared by most targets of a batch
            folds[text] = casefold.fold_for_storage(text)
        rows.append(_build_row(target, batch, at_ms, media, folds[text], dumps(notes) if notes else "[]"))
        jobs.append(JobSpec(target.post, account, *target.share))
        results.append(batches.build_accepted_result(target.post, account, target.aim.platform, at_ms, notes))
    return BatchPlan(who, request, ear, batch, targets, stored, media, rows, jobs, results)


def _list_inline(targets: Sequence[_PlannedTarget]) -> list[InlineMedia]:
    """List the distinct inline media of the targets."""
    inlines = (_inline_key(ref, target.aim.account["profile"]) for target in targets for ref in target.aim.refs)
    return list(dict.fromkeys(inline for inline in inlines if inline is not None))


def _inline_key(ref: RawMediaRef, profile: str) -> InlineMedia | None:
    return (ref["bytesBase64"], profile, ref.get("altText")) if "bytesBase64" in ref else None


def _build_row(
    target: _PlannedTarget, batch: str, at_ms: int | None, media: Mapping[InlineMedia, str], fold: str, warnings: str
) -> SqlRow:
    """Build a post's own columns, in the order of `acceptance.POSTS`."""
    aim, account = target.aim, target.aim.account
    return (
        target.post,
        *account["numbers"],
        aim.platform,
        batch,
        aim.position,
        "validated" if at_ms is None else "queued",
        aim.draft.text,
        fold,
        _encode_json([_build_saved_ref(ref, account["profile"], media) for ref in aim.refs]) if aim.refs else "[]",
        _encode_json(aim.draft.options) if aim.draft.options else "{}",
        aim.draft.first_comment if platforms.platform(aim.platform).first_comment else None,
        warnings,
        at_ms,
        None,
    )


def _mark_publishing(row: SqlRow, nonce: int | None) -> SqlRow:
    """Mark the row as publishing, if its first attempt starts with acceptance (nonce given)."""
    return row if nonce is None else (*row[:_STATUS_INDEX], "publishing", *row[_STATUS_INDEX + 1 : -1], nonce)


def _encode_json(value: Sequence[object] | Mapping[str, object]) -> str:
    return json.dumps(value, ensure_ascii=False)


def _build_saved_ref(ref: RawMediaRef, profile: str, media: Mapping[InlineMedia, str]) -> RawMediaRef:
    """Build the mediaRef to store and show; inline bytes have become an asset."""
    inline = _inline_key(ref, profile)
    if inline is None:
        return ref
    named = {"kind": ref["kind"], "mediaId": media[inline]}
    return named | ({"altText": ref["altText"]} if "altText" in ref else {})


# --- The transaction -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _BatchWrite:
    """Batch to write. `beginning`: the publisher, for an immediate batch."""

    order: BatchPlan
    beginning: ImmediateStart | None

    @property
    def rows(self) -> Sequence[SqlRow]:
        """Rows of the posts."""
        if self.beginning is None:
            return self.order.rows
        nonces = self.beginning.nonces
        pairs = zip(self.order.targets, self.order.rows, strict=True)
        return [_mark_publishing(row, nonces.get(target.post)) for target, row in pairs]


async def commit(order: BatchPlan, begin: StartBatch | None = None) -> BatchBody:
    """Write the batch and return it as accepted.

    Raises ApiError, with nothing written, if the facts that `prepare` checked have changed. `begin`: publishes an
    immediate batch.
    """
    service = order.who.service
    if order.stored:
        async with library.delete_on_failure(service, order.stored.values()):
            body = await _write(order, begin)
    else:
        body = await _write(order, begin)
    fault_injection.hit("sched.after_commit" if order.at_ms is not None else "now.after_commit")
    return body


async def _write(order: BatchPlan, begin: StartBatch | None) -> BatchBody:
    service, scope = order.who.service, order.who.scope
    beginning = begin and ImmediateStart(service, begin)
    entry = _BatchWrite(order, beginning)
    with await service.admission.writing.enter(scope.organization):
        if beginning:
            beginning.hold(order.jobs)
        if preflight.should_refuse_duplicates(service, order.request):  # depends on earlier writes
            written = actions.write(service, scope, lambda tx: _insert_batches(tx, (entry,))[0])
        else:
            written = actions.write_together(service, scope, _insert_batches, entry)
        if beginning:
            written.add_done_callback(lambda done: beginning.leave() if done.exception() else None)
        return await written


class DependentRequestsError(Exception):
    """Group of requests that depend on each other: write each alone."""


def _insert_batches(tx: Tx, entries: Sequence[_BatchWrite]) -> list[BatchBody]:
    """Write a group of distinct requests, possibly of several organizations.

    Each statement covers all of them, to keep the transaction short. An exception is the response of a request written
    alone.
    """
    orders = [entry.order for entry in entries]
    service = orders[0].who.service
    accounts, owners = _recheck(service, orders)
    _take_quota(service, tx, owners)
    now = service.now_ms  # timestamp of the batches and all their rows
    bodies = [batches.build_accepted_body(order.batch, now, order.at_ms, order.results) for order in orders]
    _insert_idempotency(service, tx, orders, bodies, now)
    audit_log.record_all(service, tx, [(order.who.act, order.batch) for order in orders])
    _insert_media(service, tx, orders)
    numbers = _insert_posts(service, tx, entries, now)
    claims = _insert_jobs(service, tx, entries)
    _emit_events(service, tx, owners, numbers, now)
    at_once = [(entry.beginning, claims[entry.order.batch]) for entry in entries if entry.beginning]
    immediate_batch.claim_posts(service, tx, at_once, _build_inserted(entries, accounts, numbers, now))
    for entry in entries:
        fault_injection.hit("sched.before_commit" if entry.order.at_ms is not None else "now.before_commit")
    return bodies


@dataclass
class _OrganizationGroup:
    """Requests of one organization in the group, and the quota thresholds they cross."""

    id: str
    orders: Sequence[BatchPlan]
    found: request_lookup.OrganizationState
    crossings: Sequence[quotas.QuotaThreshold] = ()


def _recheck(
    service: AppContext, orders: Sequence[BatchPlan]
) -> tuple[Mapping[str, AccountRow], list[_OrganizationGroup]]:
    """Check again what may have changed since `prepare`: key, time, duplicates, rows.

    Raises if any request fails; returns the accounts by id, and the organizations.
    """
    _check_independent(orders)
    _check_repeats(service, [(order.who.key, order.ear) for order in orders if order.name])
    named = {target.aim.account["id"] for target in _iter_targets(orders)}
    accounts = request_lookup.load_connected(named)
    if len(accounts) < len(named):
        raise ApiError("not_found", "An account of this batch was disconnected in the meantime.")
    media = request_lookup.load_media_owners({asset for order in orders for asset in order.assets})
    by_owner: dict[str, list[BatchPlan]] = {}
    for order in orders:
        _recheck_request(service, order, media)
        by_owner.setdefault(order.who.scope.organization, []).append(order)
    return accounts, [
        _OrganizationGroup(owner, theirs, request_lookup.load_organization(service, owner))
        for owner, theirs in by_owner.items()
    ]


def _check_independent(orders: Sequence[BatchPlan]) -> None:
    """Raise ApartError if two requests are the same: only the first may be accepted."""
    if len(orders) > 1:
        names = [order.name for order in orders if order.name is not None]
        if len(set(names)) < len(names):
            raise DependentRequestsError


def _recheck_request(service: AppContext, order: BatchPlan, media: Mapping[str, tuple[str, str | None]]) -> None:
    """Check one request against the data of the transaction."""
    check_future(service, order.at_ms)
    aims = [target.aim for target in order.targets]
    if preflight.should_refuse_duplicates(service, order.request):
        preflight.check_duplicates(aims, preflight.find_repeated(service, aims))
    if assets := order.assets:
        theirs = {id_: media[id_][1] for id_ in assets if media.get(id_, ("",))[0] == order.who.scope.organization}
        for aim in aims:
            for asset in aim.assets:
                library.check_usable(theirs, aim.account["profile"], asset)


def _take_quota(service: AppContext, tx: Tx, owners: Sequence[_OrganizationGroup]) -> None:
    for owner in owners:
        cost = sum(len(order.targets) for order in owner.orders)
        owner.crossings = quotas.spend(service, tx, owner.id, owner.found.quota, cost)
        search.record_clock_skew(owner.found.newest, service.now_ms)


def _insert_idempotency(
    service: AppContext, tx: Tx, orders: Sequence[BatchPlan], bodies: Sequence[BatchBody], now: int
) -> None:
    """Insert idempotency records (with the response if known) and pending responses."""
    if owed := [(order.ear, order.batch) for order in orders if order.ear]:
        lost_responses.record_all_pending(tx, owed, now)
    rows = []
    for order, body in zip(orders, bodies, strict=True):
        if key := order.who.key:
            answer = batches.build_response(body) if order.at_ms is not None else None
            rows.append(idempotency.build_row(service, tx, key, answer, batch=order.batch))
    sql.insert(acceptance.INSERT_IDEMPOTENCY, rows)


def _insert_media(service: AppContext, tx: Tx, orders: Sequence[BatchPlan]) -> None:
    for order in orders:
        library.release_after_commit(service, tx, order.stored.values())
        for (data, profile, alt), media in order.inline.items():
            owner = order.who.scope.organization
            library.insert(service, tx, owner, profile, order.stored[data], alt, media, order.at_ms)
        library.extend_retention(service, tx, order.assets.values(), order.at_ms)


def _insert_posts(service: AppContext, tx: Tx, entries: Sequence[_BatchWrite], now: int) -> dict[str, int]:
    """Insert batches and posts; return the surrogate key of each post."""
    orders = [entry.order for entry in entries]
    heads = [(order.batch, order.organization, order.who.request_id, order.at_ms) for order in orders]
    sql.insert(acceptance.INSERT_BATCHES, heads, (now,))
    rows = [row for entry in entries for row in entry.rows]
    last = sql.insert(acceptance.INSERT_POSTS, rows, (now,))
    assert last is not None, "a batch has posts"
    aims = [(order.at_ms, target.aim) for order in orders for target in order.targets]
    service.lately.said((aim.account["id"], aim.draft.text) for _, aim in aims)
    posts = [(aim.account["id"], aim.platform, now if at_ms is None else at_ms) for at_ms, aim in aims]
    tx.after_commit(lambda: service.lately.came(posts))
    first = last - len(rows) + 1  # consecutive, because there is only one writer
    return {target.post: first + place for place, target in enumerate(_iter_targets(orders))}


def _build_inserted(
    entries: Sequence[_BatchWrite], accounts: Mapping[str, AccountRow], numbers: Mapping[str, int], now: int
) -> dict[str, InsertedPost]:
    """Build the posts that were inserted as claimed, by id."""
    begun = {}
    for entry in entries:
        if entry.beginning and entry.beginning.nonces:
            order = entry.order
            for target, row in zip(order.targets, entry.rows, strict=True):
                if target.post in entry.beginning.nonces:
                    account = accounts[target.aim.account["id"]]
                    post = _build_post_row(row, account, numbers[target.post], now)
                    begun[target.post] = InsertedPost(post, account, order.who.request_id, order.organization)
    return begun


_EMPTY_ROW = dict.fromkeys(PostRow.__annotations__)  # in column order


def _build_post_row(row: SqlRow, account: AccountRow, number: int, now: int) -> PostRow:
    """Build the full post row that `acceptance.POSTS` creates for a post published at once."""
    own = dict(zip(acceptance.POST_COLUMNS, row, strict=True))
    its = {"number": number, "account": account["id"]}
    its |= {"organization": account["organization"], "profile": account["profile"]}
    begun = {"created_at": now, "updated_at": now, "attempts": 1, "tries": 1, "draft_at": now}
    return cast(PostRow, {**_EMPTY_ROW, **own, **its, **begun})


def _iter_targets(orders: Iterable[BatchPlan]) -> Iterator[_PlannedTarget]:
    return (target for order in orders for target in order.targets)


def _insert_jobs(service: AppContext, tx: Tx, entries: Sequence[_BatchWrite]) -> dict[str, Sequence[Claim]]:
    """Insert the jobs; return the claims of immediate posts, leased to this process, by batch."""
    due = [
        (work, order.at_ms) for order in (e.order for e in entries) if order.at_ms is not None for work in order.jobs
    ]
    if due:
        service.jobs.put_new(tx, "publish", due)
    at_once = [entry.order for entry in entries if entry.order.at_ms is None]
    if not at_once:
        return {}
    claims = iter(service.jobs.put_held(tx, "publish", [work for order in at_once for work in order.jobs]))
    return {order.batch: [next(claims) for _ in order.jobs] for order in at_once}


def _emit_events(
    service: AppContext, tx: Tx, owners: Sequence[_OrganizationGroup], numbers: Mapping[str, int], now: int
) -> None:
    """Emit the post events by organization, and the quota events."""
    told = [
        (
            events.load_audience(service, owner.id, owner.orders[0].organization),
            post_states.build_accepted_events(
                [
                    _build_new_post(order, target, numbers[target.post], now)
                    for order in owner.orders
                    for target in order.targets
                ]
            ),
        )
        for owner in owners
    ]
    events.emit_many(service, tx, told, now)
    for owner in owners:
        for crossing in owner.crossings:
            request_id = owner.orders[-1].who.request_id
            events.emit(service, tx, crossing.type, owner.id, crossing.data, request_id=request_id)


def _build_new_post(order: BatchPlan, target: _PlannedTarget, number: int, now: int) -> post_states.NewPost:
    return {
        "id": target.post,
        "organization": target.aim.account["organization"],
        "profile": target.aim.account["profile"],
        "account": target.aim.account["id"],
        "platform": target.aim.platform,
        "batch": order.batch,
        "scheduled_at": order.at_ms,
        "updated_at": now,
        "number": number,
    }
