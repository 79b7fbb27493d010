"""Preflight: check resolved targets before anything is sent.

Cheap rules refuse a whole batch; deep rules need the media bytes and apply at publishing time. `validate` runs both and
stores nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

from socialpub import platforms
from socialpub.base import http as outbound
from socialpub.base.concurrency.fair_executor import ShareKey
from socialpub.base.errors import ApiError, rule_error
from socialpub.domain.access.authentication import Scope
from socialpub.domain.accounts import accounts
from socialpub.domain.context import upstreams
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.media import library
from socialpub.domain.posts import external_ids, slots
from socialpub.domain.posts.post_history import (
    PostHistory,
    build_warnings,
    check_duplicates,
    load_history,
    should_refuse_duplicates,
)
from socialpub.domain.posts.request_lookup import look_up
from socialpub.domain.posts.targets import RawMediaRef, ResolvedTarget, check_batch, check_shape, resolve
from socialpub.domain.publishing.offline_plan import build_rule_context
from socialpub.domain.schemas.errors import (
    ErrorBody,
    PreflightFailure,
    build_error_body,
    build_warning_body,
)
from socialpub.domain.schemas.posts import BatchRequest, TextCount, ValidateRequest, ValidationBody, ValidationResult
from socialpub.platforms.contract import Draft, DraftMedia, MediaFacts, PublishWarning, RuleContext
from socialpub.platforms.kit.rule_catalog import RuleFindings, build_warning, find_violations, remove_duplicates
from socialpub.platforms.kit.rule_catalog import count_text as measured

T = TypeVar("T")
INLINE_TEXT_MAX = 4000  # characters in all targets: counted within a few milliseconds


class TargetFindings(NamedTuple):
    """Errors and warnings of one target from one stage."""

    errors: tuple[ApiError, ...] = ()
    warnings: tuple[PublishWarning, ...] = ()


# --- Cheap stage -----------------------------------------------------------------------------------------------------


async def check_cheap(
    service: AppContext, scope: Scope, targets: Sequence[ResolvedTarget], history: PostHistory
) -> list[TargetFindings]:
    """Run the cheap rules of the platforms, and the media rules that need no bytes."""
    texts = [target.draft.text for target in targets]
    return await _measure(service, scope, texts, lambda: check_cheap_now(service, targets, history))


async def _measure(service: AppContext, scope: Scope, texts: Sequence[str], measure: Callable[[], T]) -> T:
    """Measure texts: long ones in a pool shared by organization, not to delay short ones."""
    if sum(map(len, texts)) <= INLINE_TEXT_MAX:
        return measure()
    return await service.executors.measuring.run(ShareKey(owner=scope.organization), measure)


async def count_texts(
    service: AppContext, scope: Scope, texts: Sequence[tuple[accounts.AccountColumns, tuple[DraftMedia, ...], str]]
) -> list[TextCount]:
    """Count each text as the account's platform does, beside its media."""

    def count() -> list[TextCount]:
        return [_count_text(account, Draft(text, items)) for account, items, text in texts]

    return await _measure(service, scope, [text for _, _, text in texts], count)


def _count_text(account: accounts.AccountColumns, draft: Draft) -> TextCount:
    found = measured(platforms.platform(account["platform"]), draft, upstreams.build_connector_account(account))
    return {"length": found.length, "limit": found.limit, "unit": found.unit}


def check_cheap_now(
    service: AppContext, targets: Sequence[ResolvedTarget], history: PostHistory
) -> list[TargetFindings]:
    """Run the cheap rules on each target, here, with its recent posts if a rule needs them."""
    no_posts, checked = build_rule_context(service), []
    for target, recent in zip(targets, history.recent, strict=True):
        around = build_rule_context(service, recent) if recent else no_posts
        found = _evaluate_rules(service, target, target.draft, "cheap", around)
        errors = (*_list_errors(service, target, found), *_list_media_errors(service, target))
        checked.append(TargetFindings(errors, found.warnings))
    return checked


def _evaluate_rules(
    service: AppContext, target: ResolvedTarget, draft: Draft, stage: str, around: RuleContext
) -> RuleFindings:
    return find_violations(
        platforms.platform(target.platform),
        service.sites[target.platform],
        draft,
        target.connector_account,
        around,
        (stage,),
    )


def _list_errors(service: AppContext, target: ResolvedTarget, found: RuleFindings) -> list[ApiError]:
    version = platforms.platform(target.platform).pinned(service.sites[target.platform])
    return [finding.error(version) for finding in found.errors]


def _list_media_errors(service: AppContext, target: ResolvedTarget) -> list[ApiError]:
    found = [_find_media_error(service, target, index, ref) for index, ref in enumerate(target.refs)]
    return [error for error in found if error is not None]


def _find_media_error(service: AppContext, target: ResolvedTarget, index: int, ref: RawMediaRef) -> ApiError | None:
    private = service.runtime.settings.security.allow_private_networks
    if "url" in ref and (reason := outbound.check_url(ref["url"], allow_private=private)):
        return rule_error("media.url.disallowed", f"Media item {index + 1} cannot be fetched: {reason}.")
    asset = target.assets.get(ref.get("mediaId", ""))
    if asset and asset["kind"] != ref["kind"]:
        return rule_error(
            "media.kind_mismatch", f"Media item {index + 1} is declared as {ref['kind']}, but it is {asset['kind']}."
        )
    return None


def combine_errors(
    service: AppContext, targets: Sequence[ResolvedTarget], checked: Sequence[TargetFindings]
) -> ApiError | None:
    """Combine all failures into one 400, led by the first; None if all pass."""
    failed = [(target, error) for target, result in zip(targets, checked, strict=True) for error in result.errors]
    if not failed:
        return None
    target, first = failed[0]
    return ApiError(
        "preflight_failed",
        _compose_message(target, first),
        rule=first.rule,
        platform=target.platform,
        platform_version=platforms.platform(target.platform).pinned(service.sites[target.platform]) or None,
        platform_response=[_build_failure(target, error) for target, error in failed],
        remediation=first.remediation,
    )


def _compose_message(target: ResolvedTarget, error: ApiError) -> str:
    """Compose a self-contained message (target, problem, remedy): some tools show only it."""
    name = target.account["display_name"] or target.account["platform_account_id"]
    piece = f", piece {target.piece} of its thread" if target.piece else ""
    said = f"Target {target.position} ({name} on {platforms.platform(target.platform).label}{piece}): {error.message}"
    return f"{said} {error.remediation or ''}".rstrip()


def _build_failure(target: ResolvedTarget, error: ApiError) -> PreflightFailure:
    failure: PreflightFailure = {
        "targetIndex": target.position,
        "accountId": target.account["id"],
        "platform": target.platform,
        "rule": error.rule,
        "message": error.message,
        "remediation": error.remediation,
    }
    return {**failure, "threadPosition": target.piece} if target.piece else failure


# --- Deep stage ------------------------------------------------------------------------------------------------------


def find_known_breaches(
    service: AppContext, target: ResolvedTarget, inline: Mapping[str, MediaFacts]
) -> tuple[PublishWarning, ...]:
    """Warn of deep rules that the stored media of a scheduled post break already.

    `inline`: facts of inline media by their text. Media by URL is not checked.
    """
    found = _evaluate_stored(service, target, inline)
    return (*(finding.warning() for finding in found.errors), *found.warnings)


def list_stored_errors(service: AppContext, target: ResolvedTarget, inline: Mapping[str, MediaFacts]) -> list[ApiError]:
    """List the errors of deep rules that stored media break; see `find_known_breaches`."""
    return _list_errors(service, target, _evaluate_stored(service, target, inline)) if target.refs else []


def _evaluate_stored(service: AppContext, target: ResolvedTarget, inline: Mapping[str, MediaFacts]) -> RuleFindings:
    items = tuple(
        _add_facts(item, ref, target, inline) for item, ref in zip(target.draft.items, target.refs, strict=True)
    )
    return _evaluate_rules(service, target, replace(target.draft, items=items), "deep", build_rule_context(service))


def _add_facts(
    item: DraftMedia, ref: RawMediaRef, target: ResolvedTarget, inline: Mapping[str, MediaFacts]
) -> DraftMedia:
    if "mediaId" in ref:
        return replace(item, facts=library.read_facts(target.assets[ref["mediaId"]]))
    return replace(item, facts=inline.get(ref.get("bytesBase64", "")))


def check_deep(
    service: AppContext, fetched: library.BatchMediaCache, batch: str, target: ResolvedTarget
) -> TargetFindings:
    """Run the deep rules in an I/O thread: each item's availability, then the platform's."""
    errors, items = [], list(target.draft.items)
    for index, ref in enumerate(target.refs):
        if _find_media_error(service, target, index, ref) is not None:
            continue  # reported by the cheap stage
        try:
            items[index] = library.build_item(service, fetched, batch, target.platform, index, ref, target.assets)
        except ApiError as error:
            errors.append(error)
    pictures: Mapping[str, MediaFacts] = {}
    try:
        pictures = library.measure_option_images(fetched, batch, target.platform, target.draft)
    except ApiError as error:
        errors.append(error)
    draft = replace(target.draft, items=tuple(items), option_facts=pictures)
    found = _evaluate_rules(service, target, draft, "deep", build_rule_context(service))
    return TargetFindings((*errors, *_list_errors(service, target, found)), found.warnings)


# --- Validation ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PreflightResult:
    """Validation without media bytes: targets, errors and warnings."""

    targets: Sequence[ResolvedTarget]
    cheap: Sequence[TargetFindings]
    request_warnings: Sequence[tuple[PublishWarning, ...]]
    deep: bool  # check the bytes too


async def check_request(
    service: AppContext, scope: Scope, request: ValidateRequest, inline: library.InlineFiles
) -> PreflightResult:
    """Run the first half of a validation. Raises ApiError if the request itself is refused."""
    check_shape(request, inline)
    check_batch(service, request, scope)
    targets, request_warnings, history = await service.read(lambda: _read_targets(service, scope, request))
    cheap = await check_cheap(service, scope, targets, history)
    return PreflightResult(targets, cheap, request_warnings, request.deep is not False)


async def validate(
    service: AppContext,
    fetched: library.BatchMediaCache,
    scope: Scope,
    checked: PreflightResult,
    inline: library.InlineFiles,
) -> ValidationBody:
    """Validate target by target; nothing is published or stored.

    Takes at most `publishing.immediate_wait`.
    """
    results: list[ValidationResult] = []
    for target, result in await validate_each(service, fetched, scope, checked, inline):
        if target.piece:
            _add_piece(results[-1], result, target.piece)
        else:
            results.append(result)
    return {"valid": all(result["valid"] for result in results), "results": results}


async def validate_each(
    service: AppContext,
    fetched: library.BatchMediaCache,
    scope: Scope,
    checked: PreflightResult,
    inline: library.InlineFiles,
) -> list[tuple[ResolvedTarget, ValidationResult]]:
    """Validate as `validate` does; return the result of each target and each piece."""
    targets = checked.targets
    deep = (
        await _run_deep(service, fetched, scope, targets, inline) if checked.deep else [TargetFindings()] * len(targets)
    )

    def build() -> list[tuple[ResolvedTarget, ValidationResult]]:
        all_findings = zip(targets, checked.cheap, checked.request_warnings, deep, strict=True)
        return [(found[0], _build_result(service, *found)) for found in all_findings]

    return await _measure(service, scope, [target.draft.text for target in targets], build)


def _read_targets(
    service: AppContext, scope: Scope, request: BatchRequest
) -> tuple[list[ResolvedTarget], list[tuple[PublishWarning, ...]], PostHistory]:
    """Read targets and their history from one snapshot."""
    external_ids.check_content(scope, request)
    if request.slot is not None:
        request = slots.schedule(service, scope, request)
    targets = resolve(service, request, look_up(service, scope, request).rows)
    history = load_history(service, targets, request.scheduled_at)
    if should_refuse_duplicates(service, request):
        check_duplicates(targets, history.before)
    request_warnings = build_warnings(
        service, targets, history, request.scheduled_at, [f"target {target.position}" for target in targets]
    )
    return targets, request_warnings, history


async def _run_deep(
    service: AppContext,
    fetched: library.BatchMediaCache,
    scope: Scope,
    targets: Sequence[ResolvedTarget],
    inline: library.InlineFiles,
) -> list[TargetFindings]:
    batch = f"validate-{service.runtime.ids.uuid()}"
    fetched.set_organization(batch, scope.organization)
    share = ShareKey(owner=scope.organization)
    service.executors.custom_hosts.admit(share, len(targets))
    await service.executors.immediate.run(share, fetched.add_inline, batch, inline)
    futures = [
        service.executors.custom_hosts.submit_for(share, check_deep, service, fetched, batch, target)
        for target in targets
    ]
    runs = [asyncio.wrap_future(each) for each in futures]
    try:
        await _wait_for_runs(service, batch, runs)
        return [run.result() if run.done() else _UNMEASURED for run in runs]
    finally:
        for each in futures:
            service.executors.custom_hosts.withdraw(share, each)
        deletion = _delete_media_later(service, fetched, batch, runs)
        if all(run.done() for run in runs):
            await deletion


async def _wait_for_runs(service: AppContext, batch: str, runs: Sequence[asyncio.Future[TargetFindings]]) -> None:
    """Wait for all runs, the time limit, or the server's stop."""

    async def are_done() -> bool:
        return all(run.done() for run in runs)

    for run in runs:
        run.add_done_callback(lambda _: service.waiting.notify(batch))
    await service.waiting.wait_without_place(batch, are_done, bool, service.runtime.settings.publishing.immediate_wait)


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
    target: ResolvedTarget,
    cheap: TargetFindings,
    request_warnings: Sequence[PublishWarning],
    deep: TargetFindings,
) -> ValidationResult:
    errors = [build_target_error(service, target, error) for error in (*cheap.errors, *deep.errors)]
    return {
        "targetIndex": target.position,
        "accountId": target.account["id"],
        "platform": target.platform,
        "valid": not errors,
        "text": _count_text(target.account, target.draft),
        "errors": errors,
        "warnings": [
            build_warning_body(note) for note in remove_duplicates((*cheap.warnings, *request_warnings, *deep.warnings))
        ],
    }


def _add_piece(first: ValidationResult, piece: ValidationResult, number: int) -> None:
    """Add the result of a piece of a thread to that of its target."""
    first.setdefault("thread", []).append({"valid": piece["valid"], "text": piece["text"]})
    first["valid"] &= piece["valid"]
    for error in piece["errors"]:
        first["errors"].append({**error, "message": name_piece(number, error["message"])})
    for note in piece["warnings"]:
        first["warnings"].append({**note, "message": name_piece(number, note["message"])})


def name_piece(number: int, message: str) -> str:
    """Return the message about a piece of a thread, with the piece's number."""
    return f"Piece {number} of the thread: {message}"


def build_target_error(service: AppContext, target: ResolvedTarget, error: ApiError) -> ErrorBody:
    """Build the body of an error of one target."""
    error.platform = error.platform or target.platform
    return build_error_body(error, service.base_url)
