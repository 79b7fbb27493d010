"""Batch rules, and resolution of targets to accounts and content. Read-only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from socialpub import platforms
from socialpub.base.errors import ApiError, rule_error
from socialpub.base.runtime import format_iso
from socialpub.domain.access.authentication import Scope
from socialpub.domain.accounts import accounts
from socialpub.domain.context import upstreams
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.media import library
from socialpub.domain.organizations import profiles
from socialpub.domain.schemas import validation
from socialpub.domain.schemas.errors import AccountCandidates
from socialpub.domain.schemas.posts import TARGETS_MAX, BatchRequest, MediaItem, Target, ThreadPiece
from socialpub.platforms.contract import ConnectorAccount, Draft, DraftMedia
from socialpub.store.rows import MediaRow

RawMediaRef = dict[str, Any]  # mediaRef; inline bytes are replaced by their hash
LEAD_MIN_MS = 1000
_SAMPLE_TYPES = {"image": "image/jpeg", "video": "video/mp4", "document": "application/pdf"}


class TargetCandidate(NamedTuple):
    """Account that a target may mean, with the values its targets share."""

    row: accounts.KeyedAccountColumns
    connector_account: ConnectorAccount
    defaults: Mapping[str, Any]  # current defaults for omitted options


class ResolvedTarget(NamedTuple):
    """Resolved target: account and content."""

    position: int  # index in the request's targets
    account: accounts.KeyedAccountColumns
    platform: str
    refs: tuple[RawMediaRef, ...]
    assets: dict[str, MediaRow]  # its stored media by id
    draft: Draft
    connector_account: ConnectorAccount
    piece: int | None = None  # its place in the target's thread, if that has one


# --- Batch rules ---------------------------------------------------------------------------------------------------


def check_shape(request: BatchRequest, inline: library.InlineFiles) -> None:
    """Check the rules that need neither database nor clock, in their documented order."""
    _check_schema(request, inline)
    if not request.targets:
        raise rule_error("targets.required")
    if len(request.targets) > TARGETS_MAX:
        raise rule_error("targets.max")
    if (request.publish_now, request.scheduled_at is not None, request.slot is not None).count(True) > 1:
        raise rule_error("mode_conflict")
    if request.publish_now is False and request.scheduled_at is None and request.slot is None:
        raise validation.build_schema_error(
            [
                validation.build_issue(
                    "value_error", ["publishNow"], "Without scheduledAt it cannot be false", "true", "false"
                )
            ],
            "Leave `publishNow` out to publish now, or add `scheduledAt` or `slot`.",
        )


def check_batch(service: AppContext, request: BatchRequest, scope: Scope) -> None:
    """Check the rules of time and profile, which follow `check_shape`."""
    if request.scheduled_at is not None or request.slot is not None:
        _check_scheduled(service, request)
    if request.profile_id is not None and scope.profile not in (None, request.profile_id):
        raise rule_error("profile.scope_mismatch")


def _check_schema(request: BatchRequest, inline: library.InlineFiles) -> None:
    """Check cross-field rules of the schema, and that each media item has one source."""
    if issues := validation.list_publish_issues(request.model_dump(by_alias=True, exclude_unset=True)):
        raise validation.build_schema_error(issues)
    check_all_sources(request, inline)


def check_all_sources(request: BatchRequest, inline: library.InlineFiles) -> None:
    """Check that each media item has one good source.

    Raises ApiError `media.source`, `media.base64_invalid`.
    """
    for path, entries in _list_media(request):
        check_sources(path, entries, inline)


def _list_media(request: BatchRequest) -> list[tuple[str, Sequence[Any]]]:
    """List the media lists of the request with their paths."""
    lists: list[tuple[str, Sequence[Any]]] = [("media", request.media)] if request.media else []
    if request.thread:
        lists += _list_piece_media("thread", request.thread)
    for index, target in enumerate(request.targets or ()):  # a draft may have none
        if target.media:
            lists.append((f"targets.{index}.media", target.media))
        if target.thread:
            lists += _list_piece_media(f"targets.{index}.thread", target.thread)
    return lists


def _list_piece_media(path: str, thread: Sequence[ThreadPiece]) -> list[tuple[str, Sequence[Any]]]:
    return [(f"{path}.{index}.media", piece.media) for index, piece in enumerate(thread) if piece.media]


def check_sources(path: str, entries: Sequence[Any], inline: library.InlineFiles) -> None:
    """Raise ApiError `media.source` or `media.base64_invalid` unless each item has one source."""
    for index, item in enumerate(entries):
        if isinstance(item, MediaItem):
            if item.sources != 1:
                raise rule_error("media.source", f"{path}.{index} names {item.sources} sources.")
            if item.bytes_base64 is not None and item.bytes_base64 not in inline:
                raise rule_error("media.base64_invalid")


def _check_scheduled(service: AppContext, request: BatchRequest) -> None:
    check_future(service, request.scheduled_at)
    if request.first_comment or any(target.first_comment for target in request.targets):
        raise rule_error("scheduledAt.no_first_comment")
    for target in request.targets:
        if target.options is not None:
            check_reply_options(target.options)


def check_reply_options(options: Any) -> None:
    """Raise `scheduledAt.no_bluesky_reply` for options that make a post a reply."""
    replies = platforms.platform(options.platform).reply_options
    if any(name in dump_options(options) for name in replies):
        raise rule_error("scheduledAt.no_bluesky_reply")


def check_future(service: AppContext, at_ms: int | None) -> None:
    """Raise ApiError `scheduledAt.future` for a time less than a second ahead."""
    if at_ms is not None and at_ms < service.now_ms + LEAD_MIN_MS:
        problem = validation.build_issue(
            "too_early",
            ["scheduledAt"],
            "Must be at least 1 second in the future",
            "a later date-time",
            str(format_iso(at_ms)),
        )
        raise rule_error("scheduledAt.future", platform_response=[problem])


# --- Resolution ----------------------------------------------------------------------------------------------------


class ReferencedRows(NamedTuple):
    """Existing rows that a request names."""

    accounts: Mapping[str, TargetCandidate]  # candidates by id, oldest first
    profile: bool  # the named profile exists
    media: Mapping[str, MediaRow]


def build_candidate(row: accounts.KeyedAccountColumns) -> TargetCandidate:
    """Prepare an account as a candidate."""
    connector_account = upstreams.build_connector_account(row)
    fields = platforms.platform(row["platform"]).defaults
    return TargetCandidate(
        row,
        connector_account,
        {
            option: connector_account.extra[field]
            for option, field in fields.items()
            if connector_account.extra.get(field)
        },
    )


def resolve(service: AppContext, request: BatchRequest, rows: ReferencedRows) -> list[ResolvedTarget]:
    """Resolve the targets to accounts and content, in request order.

    Each is followed by the pieces of its thread.
    """
    if request.profile_id is not None and not rows.profile:
        raise profiles.build_not_found()
    candidates = [_find_candidates(rows.accounts, target) for target in request.targets]
    _check_resolution(request.targets, [[each.row for each in found] for found in candidates])
    resolved = [_build_target(service, rows.media, request, index, each[0]) for index, each in enumerate(candidates)]
    return [piece for first in resolved for piece in _build_thread(service, rows.media, request, first)]


def _build_thread(
    service: AppContext, media: Mapping[str, MediaRow], request: BatchRequest, first: ResolvedTarget
) -> Iterator[ResolvedTarget]:
    """Yield the target and the pieces of its thread.

    On a platform without threads the target alone, which a rule refuses.
    """
    pieces = request.targets[first.position].thread or request.thread or ()
    support = platforms.platform(first.platform).thread
    if pieces:
        first = first._replace(draft=replace(first.draft, pieces=len(pieces)), piece=0 if support else None)
    yield first
    if support is None:
        return
    options = {name: first.draft.options[name] for name in support.options if name in first.draft.options}
    for number, piece in enumerate(pieces, 1):
        refs, assets = resolve_media(media, first.account, piece.media or ())
        items = tuple(build_item(service, ref, assets) for ref in refs)
        draft = Draft(piece.text, items, options, pieces=len(pieces) - number)
        yield first._replace(refs=refs, assets=assets, draft=draft, piece=number)


def collect_media_ids(request: BatchRequest) -> set[str]:
    """Collect the ids of stored media that a request names."""
    return list_media_ids([entry for _, entries in _list_media(request) for entry in entries])


def list_media_ids(entries: Sequence[Any]) -> set[str]:
    """Return the ids of stored media in a media list."""
    ids = [entry if isinstance(entry, str) else entry.media_id for entry in entries]
    return {media_id for media_id in ids if media_id is not None}


def _find_candidates(connected: Mapping[str, TargetCandidate], target: Target) -> list[TargetCandidate]:
    if target.account_id is not None:
        candidate = connected.get(target.account_id)
        return [] if candidate is None else [candidate]
    return [each for each in connected.values() if each.row["platform"] == target.platform]


def _check_resolution(targets: Sequence[Target], candidates: Sequence[list[accounts.KeyedAccountColumns]]) -> None:
    """Check the resolution rules in their documented order, each over all targets."""
    pairs = list(zip(targets, candidates, strict=True))
    for index, (target, found) in enumerate(pairs):
        if target.account_id is not None and not found:
            raise ApiError(
                "not_found", f"There is no account {target.account_id} in the scope of this request (target {index})."
            )
    for index, (target, found) in enumerate(pairs):
        if not found:
            raise rule_error(
                "target.account.not_connected",
                f"No {target.platform} account is connected in the scope of this request (target {index}).",
            )
    for index, (target, found) in enumerate(pairs):
        if len(found) > 1:
            raise _ambiguous_error(index, target, found)
    for index, (target, found) in enumerate(pairs):
        if target.platform not in (None, found[0]["platform"]):
            raise _mismatch_error("targets.account.platform_mismatch", index, "platform", target.platform, found[0])
    for index, (target, found) in enumerate(pairs):
        if target.options is not None and target.options.platform != found[0]["platform"]:
            raise _mismatch_error(
                "targets.options.platform_mismatch", index, "options", target.options.platform, found[0]
            )


def _mismatch_error(rule: str, index: int, field: str, said: str, account: accounts.KeyedAccountColumns) -> ApiError:
    message = f"Target {index}: `{field}` is for {said}, but the account {account['id']} is on {account['platform']}."
    return rule_error(rule, message)


def _ambiguous_error(index: int, target: Target, found: Sequence[accounts.KeyedAccountColumns]) -> ApiError:
    ids = ", ".join(f"{row['id']} ({row['display_name'] or row['platform_account_id']})" for row in found)
    candidates: AccountCandidates = {
        "candidates": [{"id": row["id"], "displayName": row["display_name"]} for row in found]
    }
    return rule_error(
        "target.account.ambiguous",
        f"{len(found)} {target.platform} accounts are connected (target {index}).",
        remediation=f"Name one of them by `accountId`: {ids}.",
        platform_response=candidates,
    )


def _build_target(
    service: AppContext, media: Mapping[str, MediaRow], request: BatchRequest, index: int, candidate: TargetCandidate
) -> ResolvedTarget:
    target, account = request.targets[index], candidate.row
    refs, assets = resolve_media(media, account, (request.media if target.media is None else target.media) or ())
    comment = target.first_comment or request.first_comment
    draft = Draft(
        text=target.text if target.text is not None else (request.text or ""),
        items=tuple(build_item(service, ref, assets) for ref in refs),
        options=merge_options(candidate.defaults, target.options),
        first_comment=comment.text if comment else None,
    )
    return ResolvedTarget(index, account, account["platform"], refs, assets, draft, candidate.connector_account)


def merge_options(defaults: Mapping[str, Any], options: Any) -> Mapping[str, Any]:
    """Return a target's options, where omitted with the account's defaults."""
    return defaults if options is None else {**defaults, **dump_options(options)}


def dump_options(options: Any) -> dict[str, Any]:
    """Return a target's options as sent, without the tag."""
    if options is None:
        return {}
    return dict(options.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude={"platform"}))


def resolve_media(
    media: Mapping[str, MediaRow], account: accounts.KeyedAccountColumns, entries: Sequence[Any]
) -> tuple[tuple[RawMediaRef, ...], dict[str, MediaRow]]:
    """Return the mediaRefs of a target and its stored media. Raises ApiError `media.unknown`."""
    refs, assets = [], {}
    for entry in entries:
        ref = _build_ref(entry)
        if "mediaId" in ref:
            asset = library.get_usable(media, account["profile"], ref["mediaId"])
            assets[asset["id"]] = asset
            ref = {"kind": asset["kind"]} | ref
        refs.append(ref)
    return tuple(refs), assets


def _build_ref(entry: Any) -> RawMediaRef:
    if isinstance(entry, str):
        return {"mediaId": entry}
    return dict(entry.model_dump(mode="json", by_alias=True, exclude_unset=True))


def build_item(service: AppContext, ref: RawMediaRef, assets: dict[str, MediaRow]) -> DraftMedia:
    """Return a target's media item for the rules; inline media count as stored."""
    if "bytesBase64" in ref:
        url = library.public_url(service, "med_" + "0" * 22, _SAMPLE_TYPES[ref["kind"]])
        return DraftMedia(ref["kind"], ref.get("altText"), url, stored=True)
    return library.build_draft_item(service, ref, assets)
