"""Posts: accept a batch, say whether it would be accepted, move, cancel, try again, settle.

`accept` reads top to bottom: batch rules, resolve targets, preflight, quota, and one transaction that holds the rows,
their events, their jobs and the idempotency record.
"""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from socialpub import platforms
from socialpub.base import faults
from socialpub.base.errors import ApiError, refuse
from socialpub.base.runtime import iso
from socialpub.domain import accounts, events, limits, media, moves, outcomes, publish, schemas, tenancy
from socialpub.domain.service import Service
from socialpub.domain.tenancy import Scope
from socialpub.platforms.base import Draft, Item, Warning
from socialpub.platforms.rules import Findings, findings, warning
from socialpub.store.db import Answer, Tx
from socialpub.store.models import Account, Batch, Instance, Intent, Post
from socialpub.store.queue import Claim

T = TypeVar("T")
Row = dict[str, Any]
LEAD_MS = 1000
DUPLICATE_MS = 24 * 3600 * 1000


@dataclass(frozen=True)
class Aim:
    """One resolved target: the account and the content that is meant for it."""

    index: int
    account: Row
    text: str
    refs: tuple[Row, ...]  # mediaRefs, inline bytes still in place
    options: Row
    first_comment: str | None
    draft: Draft

    @property
    def platform(self) -> str:
        return str(self.account["platform"])


@dataclass(frozen=True)
class Accepted:
    """A batch that is committed; `claims` are the immediate targets, already leased to this process."""

    batch: str
    key: limits.Key | None
    claims: tuple[Claim, ...] = ()
    answer: limits.Kept | None = None  # scheduled: the answer is complete


# --- Accepting ---------------------------------------------------------------------------------------------------


async def accept(
    service: Service, scope: Scope, request: schemas.PublishRequest, key: limits.Key | None, request_id: str
) -> Accepted:
    """Check a publish request and commit it; ApiError, and nothing written, when any check says no."""
    check_batch(service, request, scope)
    aims = await service.read(lambda: _checked(service, scope, request))
    stored = await _store_inline(service, aims)
    accepted = await service.write(lambda tx: _insert(service, tx, scope, request, aims, stored, key, request_id))
    faults.hit("sched.after_commit" if request.scheduled_at is not None else "now.after_commit")
    return accepted


def check_batch(service: Service, request: schemas.PublishRequest, scope: Scope) -> None:
    """The rules of the batch, in their documented order."""
    _check_shape(request)
    if not request.targets:
        raise refuse("targets.required")
    if len(request.targets) > schemas.TARGETS_MAX:
        raise refuse("targets.max")
    if request.publish_now and request.scheduled_at is not None:
        raise refuse("mode_conflict")
    if request.publish_now is False and request.scheduled_at is None:
        raise schemas.schema_error(
            [schemas.issue("value_error", ["publishNow"], "Without scheduledAt it cannot be false", "true", "false")],
            "Leave `publishNow` out to publish now, or add `scheduledAt`.",
        )
    if request.scheduled_at is not None:
        _check_scheduled(service, request)
    if request.profile_id is not None and scope.profile not in (None, request.profile_id):
        raise refuse("profile.scope_mismatch")


def _check_shape(request: schemas.PublishRequest) -> None:
    """What the schema asks across fields: a target names an account or platform, and there is something to publish."""
    issues = []
    for index, target in enumerate(request.targets):
        if target.account_id is None and target.platform is None:
            issues.append(
                schemas.issue(
                    "missing", ["targets", index, "accountId"], "Name an accountId or a platform", "a UUID", "nothing"
                )
            )
    for target in request.targets:
        has_media = bool(request.media if target.media is None else target.media)
        if (target.text or request.text) is None and not has_media and target.options is None:
            issues.append(schemas.issue("missing", ["text"], "There is nothing to publish", "string", "nothing"))
            break
    if issues:
        raise schemas.schema_error(issues)
    _check_sources(request)


def _check_sources(request: schemas.PublishRequest) -> None:
    lists = [("media", request.media or [])]
    lists += [(f"targets.{index}.media", target.media or []) for index, target in enumerate(request.targets)]
    for path, entries in lists:
        for index, entry in enumerate(entries):
            if isinstance(entry, schemas.MediaItem) and entry.sources != 1:
                raise refuse("media.source", f"{path}.{index} names {entry.sources} sources.")


def _check_scheduled(service: Service, request: schemas.PublishRequest) -> None:
    _check_future(service, request.scheduled_at)
    if request.first_comment or any(target.first_comment for target in request.targets):
        raise refuse("scheduledAt.no_first_comment")
    for target in request.targets:
        if target.options is not None:
            replies = platforms.platform(target.options.platform).reply_options
            if any(name in options_body(target.options) for name in replies):
                raise refuse("scheduledAt.no_bluesky_reply")


def _check_future(service: Service, at_ms: int | None) -> None:
    if at_ms is not None and at_ms < service.now_ms + LEAD_MS:
        problem = schemas.issue(
            "too_early",
            ["scheduledAt"],
            "Must be at least 1 second in the future",
            "a later date-time",
            str(iso(at_ms)),
        )
        raise refuse("scheduledAt.future", platform_response=[problem])


def _checked(service: Service, scope: Scope, request: schemas.PublishRequest) -> list[Aim]:
    """On one read snapshot: resolve the targets, run the cheap checks, look at the quota."""
    if request.profile_id is not None and not tenancy.profile_exists(scope, request.profile_id):
        raise ApiError("not_found", "The organization has no profile with this id.")
    if request.scheduled_at is None and Instance.select(Instance.paused).where(Instance.id == 1).scalar():
        raise refuse("service.paused", retry_after=60)
    aims = resolve(service, scope, request)
    failed = [(aim, found) for aim in aims for found in check_cheap(service, aim).errors]
    if failed:
        raise preflight_error(service, failed)
    limits.check_quota(service, scope.organization, len(aims))
    return aims


def resolve(service: Service, scope: Scope, request: schemas.PublishRequest) -> list[Aim]:
    """The target's accounts and contents, in request order."""
    connected = accounts.in_scope(scope, request.profile_id)
    found = [_account_of(connected, index, target) for index, target in enumerate(request.targets)]
    for target, account in zip(request.targets, found, strict=True):
        if target.account_id is not None and target.platform not in (None, account["platform"]):
            raise refuse("targets.account.platform_mismatch")
    for target, account in zip(request.targets, found, strict=True):
        if target.options is not None and target.options.platform != account["platform"]:
            raise refuse("targets.options.platform_mismatch")
    return [_aim(service, scope, request, index, account) for index, account in enumerate(found)]


def _account_of(connected: Sequence[Row], index: int, target: schemas.Target) -> Row:
    if target.account_id is not None:
        for row in connected:
            if row["id"] == target.account_id:
                return row
        raise ApiError("not_found", f"The scope has no account {target.account_id} (target {index}).")
    matching = [row for row in connected if row["platform"] == target.platform]
    if not matching:
        raise refuse(
            "target.account.not_connected", f"No {target.platform} account is connected in the scope (target {index})."
        )
    if len(matching) > 1:
        ids = ", ".join(f"{row['id']} ({row['display_name'] or row['platform_account_id']})" for row in matching)
        raise refuse(
            "target.account.ambiguous",
            f"{len(matching)} {target.platform} accounts are connected (target {index}).",
            remediation=f"Name one of them by `accountId`: {ids}.",
        )
    return matching[0]


def _aim(service: Service, scope: Scope, request: schemas.PublishRequest, index: int, account: Row) -> Aim:
    target = request.targets[index]
    entries = request.media if target.media is None else target.media
    refs, items = _media(service, scope, account, entries or [])
    comment = target.first_comment or request.first_comment
    text = target.text if target.text is not None else (request.text or "")
    options = options_body(target.options)
    draft = Draft(text=text, items=items, options=options, first_comment=comment.text if comment else None)
    return Aim(index, account, text, refs, options, draft.first_comment, draft)


def options_body(options: Any) -> Row:
    """A target's options as they were sent, without the tag."""
    if options is None:
        return {}
    return dict(options.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude={"platform"}))


def _media(
    service: Service, scope: Scope, account: Row, entries: Sequence[Any]
) -> tuple[tuple[Row, ...], tuple[Item, ...]]:
    refs, assets = [], {}
    for entry in entries:
        ref = _ref(entry)
        if "mediaId" in ref:
            asset = media.find(scope, account["profile"], ref["mediaId"])
            assets[asset["id"]] = asset
            ref.setdefault("kind", asset["kind"])
        elif "bytesBase64" in ref:
            media.decode(ref["bytesBase64"])
        refs.append(ref)
    items = [_cheap_item(service, ref, assets) for ref in refs]
    return tuple(refs), tuple(items)


def _ref(entry: Any) -> Row:
    if isinstance(entry, str):
        return {"mediaId": entry}
    return dict(entry.model_dump(mode="json", by_alias=True, exclude_unset=True))


def _cheap_item(service: Service, ref: Row, assets: dict[str, Row]) -> Item:
    if "bytesBase64" in ref:
        url = media.public_url(service, "med_" + "0" * 22, "image/jpeg" if ref["kind"] == "image" else "video/mp4")
        return Item(ref["kind"], ref.get("altText"), url, stored=True)
    return media.draft_items(service, [ref], assets)[0]


# --- Preflight ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Checked:
    """What cheap preflight says about one target: error objects' makings and warnings."""

    errors: tuple[ApiError, ...]
    warnings: tuple[Warning, ...]


def check_cheap(service: Service, aim: Aim) -> Checked:
    """The platform's cheap rows, and the media rules that need no bytes."""
    platform, site = platforms.platform(aim.platform), service.sites[aim.platform]
    recent = _recent_posts(service, aim.account["id"])
    found: Findings = findings(
        platform, site, aim.draft, accounts.who(aim.account), publish.surroundings(service, recent), ("cheap",)
    )
    version = platform.pinned(site)
    errors = [*(finding.error(version) for finding in found.errors), *_media_errors(service, aim)]
    return Checked(tuple(errors), found.warnings)


def _recent_posts(service: Service, account: str) -> int:
    since = service.now_ms - DUPLICATE_MS
    return int(Post.select().where(Post.account == account, Post.created_at > since, Post.status != "canceled").count())


def _media_errors(service: Service, aim: Aim) -> Iterator[ApiError]:
    private = service.runtime.settings.security.allow_private_networks
    assets = media.assets_of(aim.refs)
    for index, ref in enumerate(aim.refs):
        if "url" in ref and (reason := media.url_error(ref["url"], private)):
            yield refuse("media.url.disallowed", f"Media item {index + 1} cannot be fetched: {reason}.")
        asset = assets.get(ref.get("mediaId", ""))
        if asset and asset["kind"] != ref["kind"]:
            yield refuse(
                "media.kind_mismatch", f"Media item {index + 1} is said to be {ref['kind']}, it is {asset['kind']}."
            )


def preflight_error(service: Service, failed: Sequence[tuple[Aim, ApiError]]) -> ApiError:
    """One 400 for every failure of every target; the first gives `rule` and `platform`."""
    first_aim, first = failed[0]
    return ApiError(
        "preflight_failed",
        first.message,
        rule=first.rule,
        platform=first_aim.platform,
        platform_version=platforms.platform(first_aim.platform).pinned(service.sites[first_aim.platform]) or None,
        platform_response=[
            {
                "targetIndex": aim.index,
                "accountId": aim.account["id"],
                "platform": aim.platform,
                "rule": error.rule,
                "message": error.message,
                "remediation": error.remediation,
            }
            for aim, error in failed
        ],
        remediation=first.remediation,
    )


# --- The transaction ---------------------------------------------------------------------------------------------


async def _store_inline(service: Service, aims: Sequence[Aim]) -> dict[str, media.Stored]:
    """Inline bytes, durably in their place before any row names them; equal ones once."""
    inline = {ref["bytesBase64"] for aim in aims for ref in aim.refs if "bytesBase64" in ref}
    if not inline:
        return {}
    return await _in_pool(service, lambda: {data: media.store(service, media.decode(data)) for data in inline})


async def _in_pool(service: Service, run: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(service.pool, run)


def _insert(
    service: Service,
    tx: Tx,
    scope: Scope,
    request: schemas.PublishRequest,
    aims: Sequence[Aim],
    stored: dict[str, media.Stored],
    key: limits.Key | None,
    request_id: str,
) -> Accepted:
    tenancy.check_key(scope)
    batch = service.runtime.ids.uuid()
    limits.claim(service, tx, key, batch)
    _recheck(service, scope, request, aims)
    crossings = limits.take_quota(service, tx, scope.organization, len(aims))
    now = service.now_ms
    Batch.insert(
        id=batch,
        organization=scope.organization,
        request_id=request_id,
        created_at=now,
        scheduled_at=request.scheduled_at,
    ).execute()
    saved: set[str] = set()
    claims = []
    for aim in aims:
        refs = [_saved_ref(service, tx, scope, aim, ref, stored, saved) for ref in aim.refs]
        row = _insert_post(service, batch, aim, refs, request.scheduled_at)
        if request.scheduled_at is None:
            claims.append(service.jobs.put_held(tx, "publish", row["id"], aim.account["id"]))
        else:
            service.jobs.put(tx, "publish", row["id"], request.scheduled_at, aim.account["id"])
            moves.tell(service, "post.queued", row, {}, request_id)
        moves.tell(service, "post.validated", row, {}, request_id)
    for crossing in crossings:
        events.emit(service, crossing.type, scope.organization, crossing.data, request_id=request_id)
    answer = None
    if request.scheduled_at is not None:
        answer = limits.Kept(202, _dumps(batch_body(service, batch)))
        if key:
            limits.keep(service, tx, key.id, answer)
    faults.hit("sched.before_commit" if request.scheduled_at is not None else "now.before_commit")
    return Accepted(batch, key, tuple(claims), answer)


def _recheck(service: Service, scope: Scope, request: schemas.PublishRequest, aims: Sequence[Aim]) -> None:
    """What may have changed since the snapshot: the time, the accounts, the media."""
    _check_future(service, request.scheduled_at)
    wanted = {aim.account["id"] for aim in aims}
    there = Account.select().where(Account.id.in_(sorted(wanted)), Account.disconnected_at.is_null()).count()
    if there != len(wanted):
        raise ApiError("not_found", "An account of this batch was disconnected meanwhile.")
    for aim in aims:
        for ref in aim.refs:
            if "mediaId" in ref:
                media.find(scope, aim.account["profile"], ref["mediaId"])


def _saved_ref(
    service: Service, tx: Tx, scope: Scope, aim: Aim, ref: Row, stored: dict[str, media.Stored], saved: set[str]
) -> Row:
    if "bytesBase64" not in ref:
        return ref
    found = stored[ref["bytesBase64"]]
    if found.media_id not in saved:
        saved.add(found.media_id)
        media.insert(service, tx, scope.organization, aim.account["profile"], found, ref.get("altText"))
    kept = {"kind": ref["kind"], "mediaId": found.media_id}
    return kept | ({"altText": ref["altText"]} if "altText" in ref else {})


def _insert_post(service: Service, batch: str, aim: Aim, refs: list[Row], scheduled_at: int | None) -> Row:
    now = service.now_ms
    notes = check_cheap(service, aim).warnings
    row = {
        "id": service.runtime.ids.uuid(),
        "organization": aim.account["organization"],
        "profile": aim.account["profile"],
        "account": aim.account["id"],
        "platform": aim.platform,
        "batch": batch,
        "position": aim.index,
        "status": "validated" if scheduled_at is None else "queued",
        "text": aim.text,
        "text_fold": aim.text.casefold(),
        "media": json.dumps(refs, ensure_ascii=False),
        "options": json.dumps(aim.options, ensure_ascii=False),
        "first_comment": aim.first_comment if platforms.platform(aim.platform).first_comment else None,
        "scheduled_at": scheduled_at,
        "warnings": json.dumps([note.body() for note in notes], ensure_ascii=False),
        "created_at": now,
        "updated_at": now,
    }
    Post.insert(**row).execute()
    return row


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


# --- The batch's answer ------------------------------------------------------------------------------------------


def batch_body(service: Service, batch: str) -> Row:
    """The batch envelope, from the rows as they are now."""
    head = Batch.select().where(Batch.id == batch).dicts().get()
    rows = list(Post.select().where(Post.batch == batch).order_by(Post.position).dicts())
    body = {
        "id": batch,
        "status": _batch_status(head, [row["status"] for row in rows]),
        "createdAt": iso(head["created_at"]),
        "results": [_result(row) for row in rows],
    }
    if head["scheduled_at"] is not None:
        body["scheduledAt"] = iso(head["scheduled_at"])
    return body


def _batch_status(head: Row, statuses: Sequence[str]) -> str:
    if head["scheduled_at"] is not None:
        return "queued"
    if all(status == "published" for status in statuses):
        return "published"
    return "failed" if all(status in ("failed", "rejected") for status in statuses) else "partial_failed"


def _result(row: Row) -> Row:
    unsettled = row["status"] in ("validated", "publishing") and row["scheduled_at"] is None
    warnings = json.loads(row["warnings"]) + ([warning("still_publishing").body()] if unsettled else [])
    known = {
        "uri": row["platform_uri"],
        "cid": row["platform_cid"],
        "url": row["url"],
        "firstCommentUri": row["first_comment_uri"],
        "firstCommentCid": row["first_comment_cid"],
        "warnings": warnings,
        "error": json.loads(row["error"]) if row["error"] else None,
    }
    result = {
        "accountId": row["account"],
        "platform": row["platform"],
        "postId": row["id"],
        # Within the answer a target is either done or on its way.
        "status": "publishing" if unsettled else row["status"],
    }
    return result | {name: value for name, value in known.items() if value}


def complete(service: Service, tx: Tx, batch: str, key_id: str | None) -> limits.Kept:
    """The immediate batch's answer as of now, kept for its key."""
    answer = limits.Kept(200, _dumps(batch_body(service, batch)))
    if key_id:
        limits.keep(service, tx, key_id, answer)
    return answer


async def settled(service: Service, batch: str, seconds: float) -> bool:
    """Wait until every target of a batch has come to its end; False when that takes longer, or the server stops."""
    deadline = service.runtime.clock.monotonic() + seconds
    for post in await service.read(lambda: _open_posts(batch)):
        left = deadline - service.runtime.clock.monotonic()
        await service.hub.until(f"post:{post}", functools.partial(_read_ended, service, post), max(0.0, left))
    return await service.read(lambda: is_settled(batch))


def _open_posts(batch: str) -> list[str]:
    query = Post.select(Post.id).where(Post.batch == batch, Post.status.not_in(sorted(moves.TERMINAL)))
    return [row[0] for row in query.order_by(Post.position).tuples()]


def _read_ended(service: Service, post: str) -> Answer[bool | None]:
    return service.read(lambda: _ended(post))


def _ended(post: str) -> bool | None:
    return Post.select().where(Post.id == post, Post.status.in_(sorted(moves.TERMINAL))).exists() or None


def is_settled(batch: str) -> bool:
    """Whether every target of a batch has come to its end."""
    return not Post.select().where(Post.batch == batch, Post.status.not_in(sorted(moves.TERMINAL))).exists()


# --- One post ----------------------------------------------------------------------------------------------------


def find(scope: Scope, post: str) -> Row:
    """A post of the scope; ApiError `not_found`."""
    query = Post.select().where(Post.id == post, Post.organization == scope.organization)
    if scope.profile:
        query = query.where(Post.profile == scope.profile)
    row = query.dicts().first()
    if row is None:
        raise ApiError("not_found", "There is no post with this id in the scope.")
    return row  # type: ignore[no-any-return]


def reschedule(service: Service, tx: Tx, scope: Scope, post: str, at_ms: int, request_id: str) -> None:
    """Move a queued post to `at_ms`: row, job and `post.rescheduled` together or not at all.

    Raises 409 `post.status` or `post.scheduledAt.window` unless the post is `queued` and still in the future.
    """
    tenancy.check_key(scope)
    row = find(scope, post)
    _check_future(service, at_ms)
    moved = moves.move(
        service,
        tx,
        "reschedule",
        post,
        where=Post.scheduled_at > service.now_ms,
        data={"previousScheduledAt": iso(row["scheduled_at"])},
        request_id=request_id,
        scheduled_at=at_ms,
    )
    if moved is None:
        raise _outside_window(row)
    service.jobs.put(tx, "publish", post, at_ms, row["account"])
    faults.hit("resched.before_commit")


def cancel(service: Service, tx: Tx, scope: Scope, post: str, request_id: str) -> Row:
    """Cancel a queued post in the same window; `{id, status}`."""
    tenancy.check_key(scope)
    row = find(scope, post)
    if not moves.move(service, tx, "cancel", post, where=Post.scheduled_at > service.now_ms, request_id=request_id):
        raise _outside_window(row)
    service.jobs.remove(tx, post)
    faults.hit("cancel.before_commit")
    return {"id": post, "status": "canceled"}


def _outside_window(row: Row) -> ApiError:
    if row["status"] != "queued":
        return refuse("post.status", f"The post is `{row['status']}`, not `queued`.")
    return refuse("post.scheduledAt.window")


def retry(service: Service, tx: Tx, scope: Scope, post: str, at_ms: int | None, request_id: str) -> None:
    """Put a failed or rejected post up again, as a new attempt and at no quota: at `at_ms`, or (None) at once."""
    tenancy.check_key(scope)
    row = find(scope, post)
    _check_future(service, at_ms)
    if row["error"] and json.loads(row["error"]).get("rule") == "publish.outcome_unknown":
        raise refuse("post.retry.unsettled")
    fresh: dict[str, Any] = {
        "error": None,
        "error_code": None,
        "tries": 0,
        "draft_at": None,
        "draft_nonce": None,
        "saved": None,
        "next_attempt_at": service.now_ms if at_ms is None else None,
        "scheduled_at": at_ms,
    }
    name = "retry" if at_ms is None else "retry_at"
    if not moves.move(service, tx, name, post, request_id=request_id, **fresh):
        raise refuse("post.retry.status", f"The post is `{row['status']}`, neither `failed` nor `rejected`.")
    service.jobs.put(tx, "publish", post, service.now_ms if at_ms is None else at_ms, row["account"])


def settle(service: Service, tx: Tx, scope: Scope, post: str, request: schemas.SettleRequest, request_id: str) -> None:
    """Record what a person found out about an unknown outcome; 409 `post.settle.status` where nothing is unknown."""
    tenancy.check_key(scope)
    row = find(scope, post)
    error = json.loads(row["error"]) if row["error"] else {}
    if row["status"] != "failed" or error.get("rule") != "publish.outcome_unknown":
        raise refuse("post.settle.status", f"The post is `{row['status']}` and nothing about it is unknown.")
    by = json.dumps({"key": scope.key, "user": scope.user, "published": request.published})
    Intent.update(settled_by=by, settled_at=service.now_ms).where(
        Intent.post == post, Intent.outcome == "unknown"
    ).execute()
    if request.published:
        moves.move(
            service,
            tx,
            "settle_published",
            post,
            request_id=request_id,
            published_at=service.now_ms,
            platform_uri=request.uri,
            error=None,
            error_code=None,
        )
        return
    plain = ApiError("platform_unavailable", "A person looked: the post is not there.", remediation="Retry the post.")
    moves.move(
        service,
        tx,
        "settle_absent",
        post,
        request_id=request_id,
        **outcomes.error_columns(service, plain, row["platform"]),
    )
