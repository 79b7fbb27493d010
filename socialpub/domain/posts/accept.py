"""Accepting a batch. `accept` reads top to bottom: the batch's rules, targets, preflight, quota, and one transaction
that holds the rows, their events, their jobs and the idempotency record."""

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
from socialpub.domain.people.tenancy import Scope
from socialpub.domain.posts import batches, preflight, unheard
from socialpub.domain.posts.targets import Aim, Ref, check_batch, check_future, resolve
from socialpub.domain.shapes.errors import warning_body
from socialpub.domain.shapes.posts import BatchBody, PublishRequest
from socialpub.platforms.contract import Facts, Warning
from socialpub.platforms.kit.rules import once
from socialpub.store import search
from socialpub.store.db import Tx
from socialpub.store.models import Account, Batch, Instance, Post
from socialpub.store.queue import Claim

Inline = tuple[str, str, str | None]  # inline media: its hash, its target's profile, its alt text
PAUSED_RETRY_SECONDS = 60


@dataclass(frozen=True)
class Accepted:
    """A batch that is committed, as it was then; `claims` are the immediate targets, already leased to this process."""

    body: BatchBody
    claims: tuple[Claim, ...]


@dataclass(frozen=True)
class _Target:
    """A target that passed preflight: its row's id and what it warns of."""

    aim: Aim
    post: str
    warnings: tuple[Warning, ...]


@dataclass(frozen=True)
class _Order:
    """Everything that one transaction needs to write the batch."""

    who: Actor
    request: PublishRequest
    ear: unheard.Ear | None
    batch: str
    targets: Sequence[_Target]
    stored: Mapping[str, Facts]  # inline media, kept, by its hash

    @property
    def at_ms(self) -> int | None:
        return self.request.scheduled_at


async def accept(who: Actor, request: PublishRequest, ear: unheard.Ear | None, inline: library.InlineFiles) -> Accepted:
    """Check a publish request and commit it; ApiError, and nothing written, when any check says no.

    InUseError for a key and JoinError for an `ear` whose work is done or being done already.
    """
    service, scope = who.service, who.scope
    check_batch(service, request, scope, inline)
    aims, recent = await service.read(lambda: _resolved(service, scope, request))
    _admit(service, request, aims)
    checked = await preflight.check_cheap(service, scope, aims, recent)
    if error := preflight.refused(service, aims, checked):
        raise error
    targets = await service.read(lambda: _noted(service, scope, request, aims, checked))
    stored = await _store_inline(service, scope.organization, [target.aim for target in targets], inline)
    if request.scheduled_at is not None:
        targets = [_forewarned(service, target, stored) for target in targets]
    order = _Order(who, request, ear, service.runtime.ids.uuid(), targets, stored)
    async with library.bound(service, stored.values()):
        accepted = await act.write(service, scope, lambda tx: _insert(tx, order))
    faults.hit("sched.after_commit" if order.at_ms is not None else "now.after_commit")
    return accepted


def _resolved(service: Service, scope: Scope, request: PublishRequest) -> tuple[list[Aim], list[int]]:
    """On one read snapshot: the targets, and the recent posts of each account."""
    if request.scheduled_at is None and Instance.select(Instance.paused).where(Instance.id == 1).scalar():
        raise refuse("service.paused", retry_after=PAUSED_RETRY_SECONDS)
    aims = resolve(service, scope, request)
    return aims, preflight.recent_posts(service, aims)


def _admit(service: Service, request: PublishRequest, aims: Sequence[Aim]) -> None:
    """ApiError `http.busy` when too much waits to be published now. What is accepted is never refused after this."""
    shares = [] if request.scheduled_at is not None else [upstreams.share_of(service, aim.account) for aim in aims]
    for threads in {upstreams.threads(service, share) for share in shares}:
        threads.admit(shares[0], sum(upstreams.threads(service, share) is threads for share in shares))


def _noted(
    service: Service,
    scope: Scope,
    request: PublishRequest,
    aims: Sequence[Aim],
    checked: Sequence[preflight.Checked],
) -> list[_Target]:
    """On one read snapshot: targets that passed preflight, with what the log says of them; the quota is looked at."""
    preflight.check_duplicates(service, request, aims)
    limits.check_quota(service, scope.organization, len(aims))
    posts = [service.runtime.ids.uuid() for _ in aims]
    notes = preflight.warnings_of(service, aims, request.scheduled_at, [f"post {post}" for post in posts])
    return [
        _Target(aim, post, tuple(once((*found.warnings, *noted))))
        for aim, post, found, noted in zip(aims, posts, checked, notes, strict=True)
    ]


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


def _forewarned(service: Service, target: _Target, stored: Mapping[str, Facts]) -> _Target:
    """A scheduled target with what its stored media will be refused for, as warnings."""
    known = preflight.known_breaches(service, target.aim, stored)
    return _Target(target.aim, target.post, tuple(once((*target.warnings, *known))))


# --- The transaction -------------------------------------------------------------------------------------------------


def _insert(tx: Tx, order: _Order) -> Accepted:
    who, service, organization = order.who, order.who.service, order.who.scope.organization
    library.named(service, tx, order.stored.values())
    limits.begin(service, tx, who.key, order.batch)
    unheard.listen(service, tx, order.ear, order.batch)
    audit.record(service, tx, who.act, order.batch)
    _recheck(service, order)
    crossings = limits.take_quota(service, tx, organization, len(order.targets))
    now = service.now_ms  # of the batch and everything in it
    _insert_batch(tx, order, now)
    media_ids = _insert_media(service, tx, order)
    claims = [_insert_target(service, tx, order, target, media_ids, now) for target in order.targets]
    for crossing in crossings:
        events.emit(service, tx, crossing.type, organization, crossing.data, request_id=who.request_id)
    body = batches.batch_body(service, order.batch)
    if who.key and order.at_ms is not None:
        limits.keep(service, tx, who.key.id, batches.answer_of(body))
    faults.hit("sched.before_commit" if order.at_ms is not None else "now.before_commit")
    return Accepted(body, tuple(claim for claim in claims if claim))


def _recheck(service: Service, order: _Order) -> None:
    """What may have changed since the snapshot: the time, the duplicates, the accounts, the media."""
    check_future(service, order.at_ms)
    preflight.check_duplicates(service, order.request, [target.aim for target in order.targets])
    wanted = {target.aim.account["id"] for target in order.targets}
    there = Account.select().where(Account.id.in_(sorted(wanted)), Account.disconnected_at.is_null()).count()
    if there != len(wanted):
        raise ApiError("not_found", "An account of this batch was disconnected meanwhile.")
    held = library.held(order.who.scope, {asset for target in order.targets for asset in target.aim.assets})
    for target in order.targets:
        for asset in target.aim.assets:
            library.usable(held, target.aim.account["profile"], asset)


def _insert_batch(tx: Tx, order: _Order, now: int) -> None:
    Batch.insert(
        id=order.batch,
        organization=order.who.scope.organization,
        request_id=order.who.request_id,
        created_at=now,
        scheduled_at=order.at_ms,
    ).execute()


def _insert_media(service: Service, tx: Tx, order: _Order) -> dict[Inline, str]:
    """Rows for the inline media: their ids. Targets of one profile share them."""
    ids: dict[Inline, str] = {}
    for target in order.targets:
        profile = target.aim.account["profile"]
        for ref in target.aim.refs:
            inline = _inline(ref, profile)
            if inline is not None and inline not in ids:
                data, alt = order.stored[ref["bytesBase64"]], ref.get("altText")
                ids[inline] = library.insert(service, tx, order.who.scope.organization, profile, data, alt)
    return ids


def _inline(ref: Ref, profile: str) -> Inline | None:
    return (ref["bytesBase64"], profile, ref.get("altText")) if "bytesBase64" in ref else None


def _insert_target(
    service: Service, tx: Tx, order: _Order, target: _Target, media_ids: Mapping[Inline, str], now: int
) -> Claim | None:
    """A target's row, its events and its job; the claim when it is published at once."""
    row = _row(order, target, media_ids, now)
    search.add(Post.insert(**row).execute(), row)
    account, share = target.aim.account["id"], upstreams.share_of(service, target.aim.account)
    claim = None
    if order.at_ms is None:
        claim = service.jobs.put_held(tx, "publish", target.post, account, share)
    else:
        service.jobs.put(tx, "publish", target.post, order.at_ms, account, share)
        moves.tell_accepted(service, tx, "post.queued", row, order.who.request_id)
    moves.tell_accepted(service, tx, "post.validated", row, order.who.request_id)
    return claim


def _row(order: _Order, target: _Target, media_ids: Mapping[Inline, str], now: int) -> moves.AcceptedPost:
    aim = target.aim
    refs = [_saved_ref(ref, aim.account["profile"], media_ids) for ref in aim.refs]
    return {
        "id": target.post,
        "organization": aim.account["organization"],
        "profile": aim.account["profile"],
        "account": aim.account["id"],
        "platform": aim.platform,
        "batch": order.batch,
        "position": aim.index,
        "status": "validated" if order.at_ms is None else "queued",
        "text": aim.draft.text,
        "text_fold": aim.draft.text.casefold(),
        "media": json.dumps(refs, ensure_ascii=False),
        "options": json.dumps(aim.draft.options, ensure_ascii=False),
        "first_comment": aim.draft.first_comment if platforms.platform(aim.platform).first_comment else None,
        "scheduled_at": order.at_ms,
        "warnings": json.dumps([warning_body(note) for note in target.warnings], ensure_ascii=False),
        "created_at": now,
        "updated_at": now,
    }


def _saved_ref(ref: Ref, profile: str, media_ids: Mapping[Inline, str]) -> Ref:
    """A mediaRef as it is kept and shown: inline bytes have become an asset."""
    inline = _inline(ref, profile)
    if inline is None:
        return ref
    named = {"kind": ref["kind"], "mediaId": media_ids[inline]}
    return named | ({"altText": ref["altText"]} if "altText" in ref else {})
