"""Preflight: check resolved targets before anything is sent.

Cheap rules refuse a whole batch; deep rules need the media bytes and apply at publishing time. `validate` runs both and
stores nothing.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

from socialpub import platforms
from socialpub.base import http as outbound
from socialpub.base.concurrency.fair_executor import ShareKey
from socialpub.base.errors import ApiError, rule_error
from socialpub.base.runtime import DAY_MS
from socialpub.domain.access.authentication import Scope
from socialpub.domain.accounts import accounts
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.media import library
from socialpub.domain.posts.request_lookup import look_up
from socialpub.domain.posts.targets import RawMediaRef, ResolvedTarget, check_batch, resolve
from socialpub.domain.publishing.offline_plan import build_surroundings
from socialpub.domain.schemas.errors import (
    ErrorBody,
    PreflightFailure,
    RepeatedText,
    build_error_body,
    build_warning_body,
)
from socialpub.domain.schemas.posts import PublishRequest, TextCount, ValidateRequest, ValidationBody, ValidationResult
from socialpub.platforms.contract import Draft, DraftMedia, MediaFacts, PostingCap, PublishWarning, RuleContext
from socialpub.platforms.kit.rule_catalog import RuleFindings, build_warning, find_violations, remove_duplicates
from socialpub.platforms.kit.rule_catalog import count_text as measured
from socialpub.store.engine import sql
from socialpub.store.queries import acceptance

T = TypeVar("T")
INLINE_TEXT_MAX = 4000  # characters in all targets: counted within a few milliseconds
RECENT_MAX = 1000  # posts counted for a rule that needs the number
CAP_WARNING_RATIO = (4, 5)  # warn from four fifths of a cap


class TargetFindings(NamedTuple):
    """Errors and warnings of one target from one stage."""

    errors: tuple[ApiError, ...] = ()
    warnings: tuple[PublishWarning, ...] = ()


_NO_FINDINGS = TargetFindings()


# --- Cheap stage -----------------------------------------------------------------------------------------------------


async def check_cheap(
    service: AppContext, scope: Scope, aims: Sequence[ResolvedTarget], logged: PostHistory
) -> list[TargetFindings]:
    """Run the cheap rules of the platforms, and the media rules that need no bytes.

    Long texts are measured in a pool with a share per organization, so that short ones are not delayed.
    """

    asked = list(zip(aims, logged.recent, strict=True))
    if _is_short([aim.draft.text for aim in aims]):
        return _check_each(service, asked)
    return await _run_in_pool(service, scope, lambda: _check_each(service, asked))


async def _measure(service: AppContext, scope: Scope, texts: Sequence[str], measure: Callable[[], T]) -> T:
    return measure() if _is_short(texts) else await _run_in_pool(service, scope, measure)


def _is_short(texts: Sequence[str]) -> bool:
    return sum(map(len, texts)) <= INLINE_TEXT_MAX


async def _run_in_pool(service: AppContext, scope: Scope, measure: Callable[[], T]) -> T:
    threads = service.executors.measuring.of(ShareKey(owner=scope.organization))
    return await asyncio.get_running_loop().run_in_executor(threads, measure)


async def count_texts(
    service: AppContext, scope: Scope, texts: Sequence[tuple[accounts.AccountColumns, tuple[DraftMedia, ...], str]]
) -> list[TextCount]:
    """Count each text as the account's platform does, beside its media."""

    def count() -> list[TextCount]:
        return [_count_text(account, Draft(text, items)) for account, items, text in texts]

    return await _measure(service, scope, [text for _, _, text in texts], count)


def _count_text(account: accounts.AccountColumns, draft: Draft) -> TextCount:
    found = measured(platforms.platform(account["platform"]), draft, accounts.build_connector_account(account))
    return {"length": found.length, "limit": found.limit, "unit": found.unit}


def _check_each(service: AppContext, asked: Iterable[tuple[ResolvedTarget, int]]) -> list[TargetFindings]:
    """Run the cheap rules on each target, with its recent posts if a rule needs them."""
    nothing_new, checked = build_surroundings(service), []
    for aim, recent in asked:
        around = build_surroundings(service, recent) if recent else nothing_new
        found = _evaluate_rules(service, aim, aim.draft, "cheap", around)
        if found.errors or found.warnings or aim.refs:
            errors = (*_list_errors(service, aim, found), *_list_media_errors(service, aim))
            checked.append(TargetFindings(errors, found.warnings))
        else:
            checked.append(_NO_FINDINGS)
    return checked


def _evaluate_rules(
    service: AppContext, aim: ResolvedTarget, draft: Draft, stage: str, around: RuleContext
) -> RuleFindings:
    return find_violations(
        platforms.platform(aim.platform), service.sites[aim.platform], draft, aim.who, around, (stage,)
    )


def _list_errors(service: AppContext, aim: ResolvedTarget, found: RuleFindings) -> list[ApiError]:
    version = platforms.platform(aim.platform).pinned(service.sites[aim.platform])
    return [finding.error(version) for finding in found.errors]


def _list_media_errors(service: AppContext, aim: ResolvedTarget) -> list[ApiError]:
    found = [_find_media_error(service, aim, index, ref) for index, ref in enumerate(aim.refs)]
    return [error for error in found if error is not None]


def _find_media_error(service: AppContext, aim: ResolvedTarget, index: int, ref: RawMediaRef) -> ApiError | None:
    private = service.runtime.settings.security.allow_private_networks
    if "url" in ref and (reason := outbound.check_url(ref["url"], allow_private=private)):
        return rule_error("media.url.disallowed", f"Media item {index + 1} cannot be fetched: {reason}.")
    asset = aim.assets.get(ref.get("mediaId", ""))
    if asset and asset["kind"] != ref["kind"]:
        return rule_error(
            "media.kind_mismatch", f"Media item {index + 1} is declared as {ref['kind']}, but it is {asset['kind']}."
        )
    return None


def combine_errors(
    service: AppContext, aims: Sequence[ResolvedTarget], checked: Sequence[TargetFindings]
) -> ApiError | None:
    """Combine all failures into one 400, led by the first; None if all pass."""
    failed = [(aim, error) for aim, result in zip(aims, checked, strict=True) for error in result.errors]
    if not failed:
        return None
    aim, first = failed[0]
    return ApiError(
        "preflight_failed",
        _compose_message(aim, first),
        rule=first.rule,
        platform=aim.platform,
        platform_version=platforms.platform(aim.platform).pinned(service.sites[aim.platform]) or None,
        platform_response=[_build_failure(aim, error) for aim, error in failed],
        remediation=first.remediation,
    )


def _compose_message(aim: ResolvedTarget, error: ApiError) -> str:
    """Compose a self-contained message (target, problem, remedy): some tools show only it."""
    name = aim.account["display_name"] or aim.account["platform_account_id"]
    said = f"Target {aim.position} ({name} on {platforms.platform(aim.platform).label}): {error.message}"
    return f"{said} {error.remediation or ''}".rstrip()


def _build_failure(aim: ResolvedTarget, error: ApiError) -> PreflightFailure:
    return {
        "targetIndex": aim.position,
        "accountId": aim.account["id"],
        "platform": aim.platform,
        "rule": error.rule,
        "message": error.message,
        "remediation": error.remediation,
    }


# --- Post history ----------------------------------------------------------------------------------------------------


class PostHistory(NamedTuple):
    """History of each target: newest post with the same text, and its recent posts if needed."""

    before: Sequence[str | None]
    recent: Sequence[int]


def load_history(service: AppContext, aims: Sequence[ResolvedTarget], at_ms: int | None) -> PostHistory:
    """Read the history of each target due at `at_ms` (None: now)."""
    service.lately.read(_list_history_keys(aims))
    due = service.now_ms if at_ms is None else at_ms
    recent = [_count_recent(aim, due) if platforms.platform(aim.platform).asks_log else 0 for aim in aims]
    return PostHistory(find_repeated(service, aims), recent)


def _list_history_keys(aims: Sequence[ResolvedTarget]) -> Iterator[tuple[str, bool]]:
    """Yield the accounts, and the platforms whose caps are shared by all accounts."""
    for account, platform in {aim.account["id"]: aim.platform for aim in aims}.items():
        yield account, False
        if platforms.platform(platform).shares_caps:
            yield platform, True


def _count_recent(aim: ResolvedTarget, due_ms: int) -> int:
    values = (aim.account["id"], due_ms - DAY_MS, due_ms, RECENT_MAX)
    return int(sql.fetch_value(acceptance.COUNT_RECENT_POSTS, values))


def find_repeated(service: AppContext, aims: Sequence[ResolvedTarget]) -> list[str | None]:
    """Find for each target the newest post of 24 hours with its text that is or may go out."""
    texts = [(aim.account["id"], aim.draft.text) for aim in aims]
    asked = [sought for sought in dict.fromkeys(texts) if sought[1] and service.lately.may_have(*sought)]
    if not asked:
        return [None] * len(aims)
    told = sql.fetch_value(acceptance.FIND_DUPLICATES, (sql.dump_json(asked), service.now_ms - DAY_MS))
    found: dict[tuple[str, str], str | None] = dict(zip(asked, sql.load_json(told), strict=True))
    return [found.get(sought) for sought in texts]


def build_warnings(
    service: AppContext, aims: Sequence[ResolvedTarget], logged: PostHistory, at_ms: int | None, names: Sequence[str]
) -> list[tuple[PublishWarning, ...]]:
    """Warn per target: repeated text, cap nearly reached, token expiring before `at_ms`.

    `names`: references to the request's own targets.
    """
    seen: dict[tuple[str, str], str] = {}
    found, due = [], service.now_ms if at_ms is None else at_ms
    near = {aim.platform: _find_shared_caps(service, aim.platform, due) for aim in aims}
    for aim, before, name in zip(aims, logged.before, names, strict=True):
        sought = aim.account["id"], aim.draft.text
        repeat = seen.setdefault(sought, name)
        if repeat is name:
            repeat = f"post {before}" if before else ""
        cap = _find_near_cap(service, aim, due, near[aim.platform])
        found.append(_build_target_warnings(aim, repeat, cap, due, is_scheduled=at_ms is not None))
    return found


def _find_shared_caps(service: AppContext, platform: str, due_ms: int) -> Sequence[PostingCap]:
    """List the shared caps of a platform that are nearly reached."""
    shared = [cap for cap in platforms.platform(platform).caps if cap.shared]
    return [cap for cap in shared if _is_cap_near(service, platform, cap, due_ms)]


def _find_near_cap(
    service: AppContext, aim: ResolvedTarget, due_ms: int, shared: Sequence[PostingCap]
) -> PostingCap | None:
    """Return the first cap that is nearly reached; `shared`: the shared ones that are."""
    for cap in platforms.platform(aim.platform).caps:
        if cap in shared if cap.shared else _is_cap_near(service, aim.account["id"], cap, due_ms):
            return cap
    return None


def _build_target_warnings(
    aim: ResolvedTarget, repeat: str, cap: PostingCap | None, due_ms: int, *, is_scheduled: bool
) -> tuple[PublishWarning, ...]:
    """Build the warnings. `repeat`: reference to the earlier text, or ""."""
    found: tuple[PublishWarning, ...] = ()
    if repeat and aim.draft.text:
        found = (build_warning("duplicate_content", f"See {repeat}."),)
    if cap is not None:
        found += (_cap_warning(cap),)
    if is_scheduled and accounts.is_ending_before(aim.account, due_ms):
        found += (build_warning("token_expires_before_schedule", "Reconnect it before then."),)
    return found


@functools.cache  # one per cap; each platform has few
def _cap_warning(cap: PostingCap) -> PublishWarning:
    return build_warning("daily_cap_near", f"The limit is {cap.posts:,} in {_format_span(cap.seconds)}.")


def should_refuse_duplicates(service: AppContext, request: PublishRequest) -> bool:
    """Return whether the request, or by default the server, refuses repeated texts."""
    if request.on_duplicate is not None:
        return request.on_duplicate == "refuse"
    return service.runtime.settings.publishing.refuse_duplicates


def check_duplicates(aims: Sequence[ResolvedTarget], before: Sequence[str | None]) -> None:
    """Raise ApiError `post.duplicate` for texts in `before` or repeated within the request.

    Decisive in the transaction that writes the posts.
    """
    if found := _list_repeats(aims, before):
        raise rule_error("post.duplicate", _describe_repeat(found[0]), platform_response=found)


def _list_repeats(aims: Sequence[ResolvedTarget], before: Sequence[str | None]) -> list[RepeatedText]:
    """List the targets with repeated texts, with references to the earlier ones."""
    first: dict[tuple[str, str], int] = {}
    found: list[RepeatedText] = []
    for aim, post in zip(aims, before, strict=True):
        if not aim.draft.text:
            continue
        here: RepeatedText = {
            "targetIndex": aim.position,
            "accountId": aim.account["id"],
            "platform": aim.platform,
        }
        repeat = first.setdefault((aim.account["id"], aim.draft.text), aim.position)
        if repeat != aim.position:
            found.append({**here, "sameAsTarget": repeat})
        elif post is not None:
            found.append({**here, "postId": post})
    return found


def _describe_repeat(repeat: RepeatedText) -> str:
    where = f"post {repeat['postId']}" if "postId" in repeat else f"target {repeat['sameAsTarget']} of this request"
    return f"Target {repeat['targetIndex']}: the account {repeat['accountId']} has this text already, see {where}."


def _is_cap_near(service: AppContext, name: str, cap: PostingCap, at_ms: int) -> bool:
    """Return whether the posts up to `at_ms` nearly reach the cap. `name`: account or platform."""
    enough = -(-cap.posts * CAP_WARNING_RATIO[0] // CAP_WARNING_RATIO[1]) - 1
    return service.lately.has_as_many(name, at_ms - cap.seconds * 1000, at_ms, enough)


def _format_span(seconds: int) -> str:
    return {900: "15 minutes", 3600: "an hour", 86400: "24 hours"}[seconds]


# --- Deep stage ------------------------------------------------------------------------------------------------------


def find_known_breaches(
    service: AppContext, aim: ResolvedTarget, inline: Mapping[str, MediaFacts]
) -> tuple[PublishWarning, ...]:
    """Warn of deep rules that the stored media of a scheduled post break already.

    `inline`: facts of inline media by their text. Media by URL is not checked.
    """
    items = tuple(_add_facts(item, ref, aim, inline) for item, ref in zip(aim.draft.items, aim.refs, strict=True))
    found = _evaluate_rules(service, aim, replace(aim.draft, items=items), "deep", build_surroundings(service))
    return (*(finding.warning() for finding in found.errors), *found.warnings)


def _add_facts(item: DraftMedia, ref: RawMediaRef, aim: ResolvedTarget, inline: Mapping[str, MediaFacts]) -> DraftMedia:
    if "mediaId" in ref:
        return replace(item, facts=library.read_facts(aim.assets[ref["mediaId"]]))
    return replace(item, facts=inline.get(ref.get("bytesBase64", "")))


def check_deep(
    service: AppContext, fetched: library.BatchMediaCache, batch: str, aim: ResolvedTarget
) -> TargetFindings:
    """Run the deep rules in an I/O thread: each item's availability, then the platform's."""
    errors, items = [], list(aim.draft.items)
    for index, ref in enumerate(aim.refs):
        if _find_media_error(service, aim, index, ref) is not None:
            continue  # reported by the cheap stage
        try:
            items[index] = library.build_item(service, fetched, batch, aim.platform, index, ref, aim.assets)
        except ApiError as error:
            errors.append(error)
    pictures: Mapping[str, MediaFacts] = {}
    try:
        pictures = library.measure_option_images(fetched, batch, aim.platform, aim.draft)
    except ApiError as error:
        errors.append(error)
    draft = replace(aim.draft, items=tuple(items), option_facts=pictures)
    found = _evaluate_rules(service, aim, draft, "deep", build_surroundings(service))
    return TargetFindings((*errors, *_list_errors(service, aim, found)), found.warnings)


# --- Validation ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PreflightResult:
    """Validation without media bytes: targets, errors and warnings."""

    aims: Sequence[ResolvedTarget]
    cheap: Sequence[TargetFindings]
    noted: Sequence[tuple[PublishWarning, ...]]
    deep: bool  # check the bytes too


async def check_request(
    service: AppContext, scope: Scope, request: ValidateRequest, inline: library.InlineFiles
) -> PreflightResult:
    """Run the first half of a validation. Raises ApiError if the request itself is refused."""
    check_batch(service, request, scope, inline)
    aims, noted, logged = await service.read(lambda: _read_targets(service, scope, request))
    cheap = await check_cheap(service, scope, aims, logged)
    return PreflightResult(aims, cheap, noted, request.deep is not False)


async def validate(
    service: AppContext,
    fetched: library.BatchMediaCache,
    scope: Scope,
    looked: PreflightResult,
    inline: library.InlineFiles,
) -> ValidationBody:
    """Validate target by target; nothing is published or stored.

    Takes at most `publishing.immediate_wait`.
    """
    aims = looked.aims
    deep = await _run_deep(service, fetched, scope, aims, inline) if looked.deep else [TargetFindings()] * len(aims)

    def show() -> list[ValidationResult]:
        return [_build_result(service, *found) for found in zip(aims, looked.cheap, looked.noted, deep, strict=True)]

    results = await _measure(service, scope, [aim.draft.text for aim in aims], show)
    return {"valid": all(result["valid"] for result in results), "results": results}


def _read_targets(
    service: AppContext, scope: Scope, request: ValidateRequest
) -> tuple[list[ResolvedTarget], list[tuple[PublishWarning, ...]], PostHistory]:
    """Read targets and their history from one snapshot."""
    aims = resolve(service, request, look_up(service, scope, request).named)
    told = load_history(service, aims, request.scheduled_at)
    if should_refuse_duplicates(service, request):
        check_duplicates(aims, told.before)
    noted = build_warnings(service, aims, told, request.scheduled_at, [f"target {aim.position}" for aim in aims])
    return aims, noted, told


async def _run_deep(
    service: AppContext,
    fetched: library.BatchMediaCache,
    scope: Scope,
    aims: Sequence[ResolvedTarget],
    inline: library.InlineFiles,
) -> list[TargetFindings]:
    batch = f"validate-{service.runtime.ids.uuid()}"
    fetched.owned(batch, scope.organization)
    loop = asyncio.get_running_loop()
    share = ShareKey(owner=scope.organization)
    service.executors.steered.admit(share, len(aims))
    await loop.run_in_executor(service.executors.immediate.of(share), fetched.bring, batch, inline)
    begun = [service.executors.steered.submit_for(share, check_deep, service, fetched, batch, aim) for aim in aims]
    runs = [asyncio.wrap_future(each) for each in begun]
    try:
        await _wait_for_runs(service, batch, runs)
        return [run.result() if run.done() else _UNMEASURED for run in runs]
    finally:
        for each in begun:
            service.executors.steered.withdraw(share, each)
        forgotten = _delete_media_later(service, fetched, batch, runs)
        if all(run.done() for run in runs):
            await forgotten


async def _wait_for_runs(service: AppContext, batch: str, runs: Sequence[asyncio.Future[TargetFindings]]) -> None:
    """Wait for all runs, the time limit, or the server's stop."""
    stops = service.hub.expect(batch)
    over = asyncio.ensure_future(asyncio.wait(runs, timeout=service.runtime.settings.publishing.immediate_wait))
    try:
        either: list[asyncio.Future[Any]] = [over, asyncio.wrap_future(stops)]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    finally:
        over.cancel()
        service.hub.forget(batch, stops)


def _delete_media_later(
    service: AppContext, fetched: library.BatchMediaCache, batch: str, runs: Sequence[asyncio.Future[TargetFindings]]
) -> asyncio.Future[None]:
    """Delete the fetched files once all runs have ended; slow targets continue without us."""

    async def drop() -> None:
        await asyncio.gather(*runs, return_exceptions=True)
        await asyncio.get_running_loop().run_in_executor(service.executors.immediate, fetched.drop, batch)

    return asyncio.ensure_future(drop())


_UNMEASURED = TargetFindings(warnings=(build_warning("media_unmeasured", "It could not be fetched in time."),))


def _build_result(
    service: AppContext,
    aim: ResolvedTarget,
    cheap: TargetFindings,
    noted: Sequence[PublishWarning],
    deep: TargetFindings,
) -> ValidationResult:
    errors = [_build_error(service, aim, error) for error in (*cheap.errors, *deep.errors)]
    return {
        "targetIndex": aim.position,
        "accountId": aim.account["id"],
        "platform": aim.platform,
        "valid": not errors,
        "text": _count_text(aim.account, aim.draft),
        "errors": errors,
        "warnings": [build_warning_body(note) for note in remove_duplicates((*cheap.warnings, *noted, *deep.warnings))],
    }


def _build_error(service: AppContext, aim: ResolvedTarget, error: ApiError) -> ErrorBody:
    error.platform = error.platform or aim.platform
    return build_error_body(error, service.base_url)
