"""Preflight: what is wrong with resolved targets before anything is sent, and what is worth a warning.

Cheap rows refuse a whole batch; deep rows need the bytes and speak at publishing time. `validate` runs both and
stores nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from peewee import fn

from socialpub import platforms
from socialpub.base.errors import ApiError, refuse
from socialpub.domain import accounts, media, publish, schemas
from socialpub.domain.service import Service
from socialpub.domain.targets import Aim, check_batch, resolve
from socialpub.domain.tenancy import Scope
from socialpub.platforms.base import Cap, Draft, Facts, Item, Warning
from socialpub.platforms.rules import Findings, findings, warning
from socialpub.store.models import Account, Post

Row = dict[str, Any]
DAY_MS = 24 * 3600 * 1000
NEAR = (4, 5)  # a cap is near from four fifths of it


@dataclass(frozen=True)
class Checked:
    """What a stage says about one target: error objects' makings and warnings."""

    errors: tuple[ApiError, ...] = ()
    warnings: tuple[Warning, ...] = ()


# --- The cheap stage -------------------------------------------------------------------------------------------------


def check_cheap(service: Service, aim: Aim) -> Checked:
    """The platform's cheap rows, and the media rules that need no bytes (on a read snapshot)."""
    found = _findings(service, aim, aim.draft, "cheap", recent_posts(service, aim.account["id"]))
    errors = [*_errors(service, aim, found), *_media_errors(service, aim)]
    return Checked(tuple(errors), found.warnings)


def _findings(service: Service, aim: Aim, draft: Draft, stage: str, recent: int = 0) -> Findings:
    platform, site = platforms.platform(aim.platform), service.sites[aim.platform]
    around = publish.surroundings(service, recent)
    return findings(platform, site, draft, accounts.who(aim.account), around, (stage,))


def _errors(service: Service, aim: Aim, found: Findings) -> list[ApiError]:
    version = platforms.platform(aim.platform).pinned(service.sites[aim.platform])
    return [finding.error(version) for finding in found.errors]


def recent_posts(service: Service, account: str) -> int:
    """Posts to an account in the last 24 hours, by our own log."""
    since = service.now_ms - DAY_MS
    return int(Post.select().where(Post.account == account, Post.created_at > since, Post.status != "canceled").count())


def _media_errors(service: Service, aim: Aim) -> Iterator[ApiError]:
    for index, ref in enumerate(aim.refs):
        if error := _media_error(service, aim, index, ref):
            yield error


def _media_error(service: Service, aim: Aim, index: int, ref: Row) -> ApiError | None:
    private = service.runtime.settings.security.allow_private_networks
    if "url" in ref and (reason := media.url_error(ref["url"], private)):
        return refuse("media.url.disallowed", f"Media item {index + 1} cannot be fetched: {reason}.")
    asset = aim.assets.get(ref.get("mediaId", ""))
    if asset and asset["kind"] != ref["kind"]:
        return refuse(
            "media.kind_mismatch", f"Media item {index + 1} is said to be {ref['kind']}, it is {asset['kind']}."
        )
    return None


def refused(service: Service, aims: Sequence[Aim], checked: Sequence[Checked]) -> ApiError | None:
    """One 400 for every failure of every target; the first gives `rule` and `platform`. None when there is none."""
    failed = [(aim, error) for aim, result in zip(aims, checked, strict=True) for error in result.errors]
    if not failed:
        return None
    aim, first = failed[0]
    return ApiError(
        "preflight_failed",
        first.message,
        rule=first.rule,
        platform=aim.platform,
        platform_version=platforms.platform(aim.platform).pinned(service.sites[aim.platform]) or None,
        platform_response=[_failure(aim, error) for aim, error in failed],
        remediation=first.remediation,
    )


def _failure(aim: Aim, error: ApiError) -> Row:
    return {
        "targetIndex": aim.index,
        "accountId": aim.account["id"],
        "platform": aim.platform,
        "rule": error.rule,
        "message": error.message,
        "remediation": error.remediation,
    }


# --- Warnings that the log and the account give ----------------------------------------------------------------------


def notes(service: Service, aims: Sequence[Aim], at_ms: int | None, names: Sequence[str]) -> list[tuple[Warning, ...]]:
    """For each target: its text was there before, its account is near a cap, its token ends before `at_ms`.

    `names`: what an earlier target of the same request is called.
    """
    seen: dict[tuple[str, str], str] = {}
    found = []
    for aim, name in zip(aims, names, strict=True):
        found.append(tuple(_notes(service, aim, at_ms, seen)))
        seen.setdefault((aim.account["id"], aim.draft.text), name)
    return found


def _notes(service: Service, aim: Aim, at_ms: int | None, seen: Mapping[tuple[str, str], str]) -> Iterator[Warning]:
    twin = seen.get((aim.account["id"], aim.draft.text)) or _posted_before(service, aim)
    if twin and aim.draft.text:
        yield warning("duplicate_content", f"See {twin}.")
    for cap in platforms.platform(aim.platform).caps:
        if _is_near(aim, cap, service.now_ms if at_ms is None else at_ms):
            yield warning("daily_cap_near", f"It takes {cap.posts:,} in {_span(cap.seconds)}.")
            break
    if at_ms is not None and accounts.ends_before(aim.account, at_ms):
        yield warning("token_expires_before_schedule", "Reconnect it before then.")


def _posted_before(service: Service, aim: Aim) -> str | None:
    lost = fn.json_extract(Post.error, "$.rule") == "publish.outcome_unknown"
    query = Post.select(Post.id).where(
        Post.account == aim.account["id"],
        Post.created_at > service.now_ms - DAY_MS,
        Post.text == aim.draft.text,
        Post.status.not_in(["canceled", "rejected", "failed"]) | lost,
    )
    found = query.order_by(Post.created_at.desc()).limit(1).scalar()
    return f"post {found}" if found else None


def _is_near(aim: Aim, cap: Cap, at_ms: int) -> bool:
    """Whether the posts of the span that ends at `at_ms`, this one included, reach four fifths of the cap."""
    enough = -(-cap.posts * NEAR[0] // NEAR[1]) - 1
    used = sum(int(query.limit(enough).count()) for query in counted(aim, cap, at_ms))
    return used >= enough


def counted(aim: Aim, cap: Cap, at_ms: int) -> tuple[Any, Any]:
    """The posts that count for a cap: those that went out at once, and those that are scheduled, within its span."""
    since = at_ms - cap.seconds * 1000
    whose = Account.select(Account.id).where(Account.platform == aim.platform) if cap.shared else [aim.account["id"]]
    posts = Post.select(Post.id).where(Post.account.in_(whose), Post.status.not_in(["canceled", "rejected"]))
    return (
        posts.where(Post.scheduled_at.is_null(), Post.created_at > since, Post.created_at <= at_ms),
        posts.where(Post.scheduled_at > since, Post.scheduled_at <= at_ms),
    )


def _span(seconds: int) -> str:
    return {900: "15 minutes", 3600: "an hour", 86400: "24 hours"}[seconds]


# --- The deep stage --------------------------------------------------------------------------------------------------


def known_breaches(service: Service, aim: Aim, inline: Mapping[str, Facts]) -> tuple[Warning, ...]:
    """What stored media already breaks, as warnings: a scheduled post is accepted, and refused at its time.

    `inline`: the facts of inline media by their text. Media by URL is not looked at.
    """
    items = tuple(_with_facts(item, ref, aim, inline) for item, ref in zip(aim.draft.items, aim.refs, strict=True))
    found = _findings(service, aim, replace(aim.draft, items=items), "deep")
    return (*(finding.warning() for finding in found.errors), *found.warnings)


def _with_facts(item: Item, ref: Row, aim: Aim, inline: Mapping[str, Facts]) -> Item:
    if "mediaId" in ref:
        return replace(item, facts=media.facts_of(aim.assets[ref["mediaId"]]))
    return replace(item, facts=inline.get(ref.get("bytesBase64", "")))


def check_deep(service: Service, fetched: media.Fetched, batch: str, aim: Aim) -> Checked:
    """The rows that need the bytes, in an I/O thread: every item that cannot be had, then the platform's deep rows."""
    errors, items = [], list(aim.draft.items)
    for index, ref in enumerate(aim.refs):
        if _media_error(service, aim, index, ref) is not None:
            continue  # the cheap stage has said it
        try:
            items[index] = media.resolved(service, fetched, batch, aim.platform, index, ref, aim.assets)
        except ApiError as error:
            errors.append(error)
    pictures: Mapping[str, Facts] = {}
    try:
        pictures = media.option_facts(fetched, batch, aim.platform, aim.draft)
    except ApiError as error:
        errors.append(error)
    found = _findings(service, aim, replace(aim.draft, items=tuple(items), option_facts=pictures), "deep")
    return Checked((*errors, *_errors(service, aim, found)), found.warnings)


# --- Validating ------------------------------------------------------------------------------------------------------


async def validate(service: Service, fetched: media.Fetched, scope: Scope, request: schemas.ValidateRequest) -> Row:
    """What publishing this request would run into, target by target; nothing is published or stored.

    ApiError as `accept` for what refuses the request itself. Takes at most `publishing.immediate_wait`.
    """
    check_batch(service, request, scope)
    aims, cheap = await service.read(lambda: _cheap_results(service, scope, request))
    deep = [Checked()] * len(aims) if request.deep is False else await _deep_results(service, fetched, aims)
    results = [_result(service, aim, one, two) for aim, one, two in zip(aims, cheap, deep, strict=True)]
    return {"valid": all(result["valid"] for result in results), "results": results}


def _cheap_results(service: Service, scope: Scope, request: schemas.ValidateRequest) -> tuple[list[Aim], list[Checked]]:
    aims = resolve(service, scope, request)
    more = notes(service, aims, request.scheduled_at, [f"target {aim.index}" for aim in aims])
    checked = [check_cheap(service, aim) for aim in aims]
    return aims, [
        replace(result, warnings=(*result.warnings, *noted)) for result, noted in zip(checked, more, strict=True)
    ]


async def _deep_results(service: Service, fetched: media.Fetched, aims: Sequence[Aim]) -> list[Checked]:
    batch = f"validate-{service.runtime.ids.uuid()}"
    loop = asyncio.get_running_loop()
    runs = [loop.run_in_executor(service.pool, check_deep, service, fetched, batch, aim) for aim in aims]
    try:
        await asyncio.wait(runs, timeout=service.runtime.settings.publishing.immediate_wait)
        return [run.result() if run.done() else _UNSEEN for run in runs]
    finally:
        forgotten = _forget(service, fetched, batch, runs)
        if all(run.done() for run in runs):
            await forgotten


def _forget(
    service: Service, fetched: media.Fetched, batch: str, runs: Sequence[asyncio.Future[Checked]]
) -> asyncio.Future[None]:
    """Drop the fetched files once nobody adds to them any more: a target that takes too long goes on without us."""

    async def drop() -> None:
        await asyncio.gather(*runs, return_exceptions=True)
        await asyncio.get_running_loop().run_in_executor(service.pool, fetched.drop, batch)

    return asyncio.ensure_future(drop())


_UNSEEN = Checked(warnings=(warning("media_unmeasured", "It could not be fetched in time."),))


def _result(service: Service, aim: Aim, cheap: Checked, deep: Checked) -> Row:
    count = platforms.platform(aim.platform).count(aim.draft, accounts.who(aim.account))
    errors = [_shown(service, aim, error) for error in (*cheap.errors, *deep.errors)]
    return {
        "targetIndex": aim.index,
        "accountId": aim.account["id"],
        "platform": aim.platform,
        "valid": not errors,
        "text": {"length": count.length, "limit": count.limit, "unit": count.unit},
        "errors": errors,
        "warnings": [note.body() for note in dict.fromkeys((*cheap.warnings, *deep.warnings))],
    }


def _shown(service: Service, aim: Aim, error: ApiError) -> Row:
    error.platform = error.platform or aim.platform
    return error.body(service.base_url)
