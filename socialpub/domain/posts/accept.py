"""Accepting a batch. `prepare` reads top to bottom: the batch's rules, targets, preflight, quota; `commit` is the one
transaction that holds the rows, their events, their jobs and the idempotency record.

Whatever can be made before the transaction is: everybody else's waits for it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from socialpub import platforms
from socialpub.base import faults
from socialpub.base.errors import ApiError, refuse
from socialpub.base.fair import Share
from socialpub.domain import act
from socialpub.domain.core import events, moves, upstreams
from socialpub.domain.core.service import Service
from socialpub.domain.media import library
from socialpub.domain.people import audit, limits
from socialpub.domain.people.actor import Actor
from socialpub.domain.posts import batches, lookup, preflight, unheard
from socialpub.domain.posts.targets import Aim, Ref, check_batch, check_future, resolve
from socialpub.domain.publishing.immediate import Begin, Beginning
from socialpub.domain.shapes.errors import warning_body
from socialpub.domain.shapes.posts import BatchBody, PublishRequest
from socialpub.platforms.contract import Facts, Warning
from socialpub.platforms.kit.rules import once
from socialpub.store import search, sql
from socialpub.store.db import Tx
from socialpub.store.queue import Claim, Work
from socialpub.store.rows import MediaRow
from socialpub.store.statements import accepting

Value = str | int | None
Inline = tuple[str, str, str | None]  # inline media: its hash, its target's profile, its alt text
PAUSED_RETRY_SECONDS = 60


@dataclass(frozen=True)
class _Target:
    """A target that passed preflight: its row's id, what it warns of, and whose share its call takes."""

    aim: Aim
    post: str
    share: Share
    warnings: tuple[Warning, ...]


@dataclass(frozen=True)
class Order:
    """Everything that one transaction needs to write the batch."""

    who: Actor
    request: PublishRequest
    ear: unheard.Ear | None
    batch: str
    targets: Sequence[_Target]
    stored: Mapping[str, Facts]  # inline media, kept, by its hash
    inline: Mapping[Inline, str]  # the ids of the rows that it gets: targets of one profile share them
    rows: Sequence[Value]  # what is its own of each post, one after the other
    jobs: Sequence[Work]
    shown: Sequence[batches.Shown]

    @property
    def at_ms(self) -> int | None:
        return self.request.scheduled_at

    @property
    def assets(self) -> dict[str, MediaRow]:
        """The stored media that its targets name, by their ids."""
        return {asset: row for target in self.targets for asset, row in target.aim.assets.items()}


# --- Before the transaction ------------------------------------------------------------------------------------------


async def prepare(who: Actor, request: PublishRequest, ear: unheard.Ear | None, inline: library.InlineFiles) -> Order:
    """Check a publish request; ApiError, and nothing written, when any check says no.

    InUseError for a key that was used, and JoinError for an `ear` whose work is done or being done already.
    """
    service, scope = who.service, who.scope
    check_batch(service, request, scope, inline)
    looked, aims, logged = await service.glance(lambda: _looked(who, request, ear))
    shares = [upstreams.share_by(service, aim.platform, aim.who.extra, scope.organization) for aim in aims]
    if request.scheduled_at is None:
        _admit(service, shares)
    checked = await preflight.check_cheap(service, scope, aims, logged)
    if error := preflight.refused(service, aims, checked):
        raise error
    if preflight.refuses_duplicates(service, request):
        preflight.check_duplicates(aims, logged.before)
    limits.check_quota(service, looked.standing, len(aims))
    posts = [service.runtime.ids.uuid() for _ in aims]
    names = [f"post {post}" for post in posts]
    noted = preflight.warnings_of(service, aims, logged, request.scheduled_at, names)
    stored = await _store_inline(service, scope.organization, aims, inline)
    targets = [
        _Target(aim, post, share, _warnings(service, request, aim, stored, (*found.warnings, *notes)))
        for aim, post, share, found, notes in zip(aims, posts, shares, checked, noted, strict=True)
    ]
    return _order(who, request, ear, targets, stored)


def _looked(
    who: Actor, request: PublishRequest, ear: unheard.Ear | None
) -> tuple[lookup.LookedUp, list[Aim], preflight.Logged]:
    """What there is of what the request names, its targets, and what the log says of them; in a read."""
    looked = lookup.look_up(who.service, who.scope, request, who.key, ear)
    if looked.key:
        raise limits.InUseError
    if looked.ear is not None:
        raise unheard.JoinError(looked.ear)
    if looked.paused and request.scheduled_at is None:
        raise refuse("service.paused", retry_after=PAUSED_RETRY_SECONDS)
    aims = resolve(who.service, request, looked.named)
    return looked, aims, preflight.logged(who.service, aims, request.scheduled_at)


def _admit(service: Service, shares: Sequence[Share]) -> None:
    """ApiError `http.busy` when too much waits to be published now. What is accepted is never refused after this."""
    for threads in {upstreams.threads(service, share) for share in shares}:
        threads.admit(shares[0], sum(upstreams.threads(service, share) is threads for share in shares))


async def _store_inline(
    service: Service, organization: str, aims: Sequence[Aim], files: library.InlineFiles
) -> dict[str, Facts]:
    """Inline bytes, durably in their place before any row names them; equal ones once."""
    inline = {ref["bytesBase64"] for aim in aims for ref in aim.refs if "bytesBase64" in ref}
    if not inline:
        return {}

    def store() -> dict[str, Facts]:
        stored: dict[str, Facts] = {}
        try:
            for data in inline:
                stored[data] = library.store(service, files[data], organization)
        except Exception:
            library.give_up(service, stored.values())
            raise
        return stored

    threads = service.pool.of(Share(owner=organization))
    return await asyncio.get_running_loop().run_in_executor(threads, store)


def _warnings(
    service: Service, request: PublishRequest, aim: Aim, stored: Mapping[str, Facts], found: Sequence[Warning]
) -> tuple[Warning, ...]:
    """What a target warns of; scheduled, also what its stored media will be refused for."""
    known = preflight.known_breaches(service, aim, stored) if request.scheduled_at is not None and aim.refs else ()
    return tuple(once((*once(found), *known))) if found or known else ()


def _order(
    who: Actor,
    request: PublishRequest,
    ear: unheard.Ear | None,
    targets: Sequence[_Target],
    stored: Mapping[str, Facts],
) -> Order:
    ids, at_ms = who.service.runtime.ids, request.scheduled_at
    named = dict.fromkeys(
        inline
        for target in targets
        for ref in target.aim.refs
        if (inline := _inline(ref, target.aim.account["profile"])) is not None
    )
    media = {inline: library.new_id(who.service) for inline in named}
    warned = [_json([warning_body(note) for note in target.warnings]) for target in targets]
    rows = [value for target, notes in zip(targets, warned, strict=True) for value in _row(target, media, notes)]
    jobs = [Work(target.post, target.aim.account["id"], *target.share) for target in targets]
    shown = [
        batches.accepted(target.post, target.aim.account["id"], target.aim.platform, at_ms, notes)
        for target, notes in zip(targets, warned, strict=True)
    ]
    return Order(who, request, ear, ids.uuid(), targets, stored, media, rows, jobs, shown)


def _inline(ref: Ref, profile: str) -> Inline | None:
    return (ref["bytesBase64"], profile, ref.get("altText")) if "bytesBase64" in ref else None


def _row(target: _Target, media: Mapping[Inline, str], warnings: str) -> tuple[Value, ...]:
    """What is its own of a post's row, in the order of `accepting.posts`."""
    aim, account = target.aim, target.aim.account
    return (
        target.post,
        account["profile"],
        account["id"],
        aim.platform,
        aim.index,
        aim.draft.text,
        search.fold_of(aim.draft.text),
        _json([_saved_ref(ref, account["profile"], media) for ref in aim.refs]),
        _json(aim.draft.options),
        aim.draft.first_comment if platforms.platform(aim.platform).first_comment else None,
        warnings,
    )


def _json(value: Sequence[object] | Mapping[str, object]) -> str:
    return json.dumps(value, ensure_ascii=False) if value else "[]" if isinstance(value, list) else "{}"


def _saved_ref(ref: Ref, profile: str, media: Mapping[Inline, str]) -> Ref:
    """A mediaRef as it is kept and shown: inline bytes have become an asset."""
    inline = _inline(ref, profile)
    if inline is None:
        return ref
    named = {"kind": ref["kind"], "mediaId": media[inline]}
    return named | ({"altText": ref["altText"]} if "altText" in ref else {})


# --- The transaction -------------------------------------------------------------------------------------------------


async def commit(order: Order, begin: Begin | None = None) -> BatchBody:
    """Write the batch; ApiError, and nothing written, when what `prepare` saw is so no longer, or as `prepare`.

    The batch as it was accepted. `begin`: whoever publishes it, where it is an immediate one.
    """
    service, scope = order.who.service, order.who.scope
    beginning = begin and Beginning(service, begin)
    async with library.bound(service, order.stored.values()), service.writing.of(scope.organization):
        if beginning:
            beginning.hold(order.jobs)
        written = act.write(service, scope, lambda tx: _insert(tx, order, beginning))
        if beginning:
            written.when_failed(beginning.leave)
        body = await written
    faults.hit("sched.after_commit" if order.at_ms is not None else "now.after_commit")
    return body


def _insert(tx: Tx, order: Order, beginning: Beginning | None) -> BatchBody:
    who, service, organization = order.who, order.who.service, order.who.scope.organization
    library.named(service, tx, order.stored.values())
    again = _look_again(order)
    crossings = limits.take_quota(service, tx, organization, again.quota, len(order.targets))
    now = service.now_ms  # of the batch and everything in it
    body = batches.body_of({"id": order.batch, "created_at": now, "scheduled_at": order.at_ms}, order.shown)
    _remember(service, tx, order, body)
    audit.record(service, tx, who.act, order.batch)
    for (data, profile, alt), media in order.inline.items():
        library.insert(service, tx, organization, profile, order.stored[data], alt, media, order.at_ms)
    library.used(service, tx, order.assets.values(), order.at_ms)
    _insert_posts(service, tx, order, again, now)
    claims = _put_jobs(service, tx, order)
    _tell(service, tx, order, again, now)
    for crossing in crossings:
        events.emit(service, tx, crossing.type, organization, crossing.data, request_id=who.request_id)
    if beginning:
        beginning.take(tx, claims)
    faults.hit("sched.before_commit" if order.at_ms is not None else "now.before_commit")
    return body


@dataclass(frozen=True)
class _Again:
    """What the transaction finds: the quota as it is now, when the organization's newest post was made, who is told."""

    quota: int | None
    newest: int | None
    receivers: Sequence[events.Receiver]


def _look_again(order: Order) -> _Again:
    """What may have changed since `prepare` looked: the key, the time, the duplicates, the accounts, the media."""
    who, service = order.who, order.who.service
    wanted = {target.aim.account["id"] for target in order.targets}
    values = (sql.json_of(list(wanted)), sql.json_of(list(order.assets)), who.scope.organization)
    used, same, there, held, tier, newest, receivers = sql.first(
        accepting.STILL, (*lookup.before(service, who.key, order.ear), *values)
    )
    if used:
        raise limits.InUseError
    if order.ear and (found := unheard.first(service, order.ear, sql.loads(same))):
        raise unheard.JoinError(found)
    check_future(service, order.at_ms)
    aims = [target.aim for target in order.targets]
    if preflight.refuses_duplicates(service, order.request):
        preflight.check_duplicates(aims, preflight.posted_before(service, aims))
    if there != len(wanted):
        raise ApiError("not_found", "An account of this batch was disconnected in the meantime.")
    profiles = dict(sql.loads(held))
    for aim in aims:
        for asset in aim.assets:
            library.check_usable(profiles, aim.account["profile"], asset)
    return _Again(limits.quota_of(service, tier), newest, sql.loads(receivers))


def _remember(service: Service, tx: Tx, order: Order, body: BatchBody) -> None:
    """That the request was accepted: for its key, with its answer where that is known, or for whoever repeats it."""
    if order.ear:
        unheard.listen(service, tx, order.ear, order.batch)
    if key := order.who.key:
        answer = batches.answer_of(body) if order.at_ms is not None else None
        limits.remember(service, tx, key, answer, batch=order.batch)


def _insert_posts(service: Service, tx: Tx, order: Order, again: _Again, now: int) -> None:
    organization, at_ms = order.who.scope.organization, order.at_ms
    sql.execute(accepting.BATCH, (order.batch, organization, order.who.request_id, now, at_ms))
    status = "validated" if at_ms is None else "queued"
    sql.execute(accepting.posts(len(order.targets)), (organization, order.batch, status, at_ms, now, *order.rows))
    search.note_order(again.newest, now)
    for target in order.targets:
        service.lately.said(target.aim.account["id"], target.aim.draft.text)

    def came() -> None:
        for target in order.targets:
            service.lately.came(target.aim.account["id"], target.aim.platform, now if at_ms is None else at_ms)

    tx.after_commit(came)


def _put_jobs(service: Service, tx: Tx, order: Order) -> Sequence[Claim]:
    """The posts' jobs; the claims when they are published at once: already leased to this process."""
    if order.at_ms is None:
        return service.jobs.put_held(tx, "publish", order.jobs)
    service.jobs.put_new(tx, "publish", order.jobs, order.at_ms)
    return ()


def _tell(service: Service, tx: Tx, order: Order, again: _Again, now: int) -> None:
    told = [event for target in order.targets for event in moves.accepted(_accepted(order, target, now))]
    events.emit_all(service, tx, order.who.scope.organization, told, order.who.request_id, now, again.receivers)


def _accepted(order: Order, target: _Target, now: int) -> moves.AcceptedPost:
    return {
        "id": target.post,
        "organization": target.aim.account["organization"],
        "profile": target.aim.account["profile"],
        "account": target.aim.account["id"],
        "platform": target.aim.platform,
        "batch": order.batch,
        "scheduled_at": order.at_ms,
        "updated_at": now,
    }
