"""Content of a draft: checks, its stored form, and the digest that an approval is bound to."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from socialpub.base.errors import ApiError, rule_error
from socialpub.base.json_codec import dumps
from socialpub.domain.access.authentication import Scope
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.media import library
from socialpub.domain.posts import preflight, request_lookup
from socialpub.domain.posts.targets import RawMediaRef, ResolvedTarget, check_all_sources, check_shape, resolve
from socialpub.domain.schemas import validation
from socialpub.domain.schemas.drafts import DraftContent, DraftProblem
from socialpub.domain.schemas.errors import build_error_body
from socialpub.domain.schemas.posts import BatchRequest, ValidateRequest
from socialpub.platforms.contract import MediaFacts

Content = dict[str, Any]
"""Publish request as it is sent, but incomplete."""
_MEDIA_ID = re.compile(r"med_[0-9A-Za-z]{22}")
_PARTS = ("targets", "thread")
"""Lists whose entries may have media."""
_UNSENT = ("targets", "text", "media", "thread", "firstComment", "profileId", "publishNow", "onDuplicate", "externalId")
"""Fields that the resolved targets contain already, or that change nothing of what is published."""


# --- As it is stored -------------------------------------------------------------------------------------------------


def parse(scope: Scope, given: DraftContent, inline: library.InlineFiles) -> Content:
    """Return the content of a request, in the key's profile. Inline files are still hashes.

    Raises ApiError `media.source`, `media.base64_invalid`, `profile.scope_mismatch`.
    """
    check_all_sources(given, inline)
    if given.profile_id is not None and scope.profile not in (None, given.profile_id):
        raise rule_error("profile.scope_mismatch")
    content: Content = given.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude={"title"})
    return content | ({"profileId": scope.profile} if scope.profile else {})


def replace_inline(content: Content, ids: Mapping[tuple[str, str | None], str]) -> Content:
    """Replace inline files by stored ones, whose ids are in `ids` by hash and alt text."""
    found = dict(content)
    if "media" in found:
        found["media"] = [_replace_item(item, ids) for item in found["media"]]
    for name in _PARTS:
        if name in found:
            found[name] = [replace_inline(part, ids) for part in found[name]]
    return found


def _replace_item(item: str | RawMediaRef, ids: Mapping[tuple[str, str | None], str]) -> str | RawMediaRef:
    if isinstance(item, str) or "bytesBase64" not in item:
        return item
    rest = {name: value for name, value in item.items() if name != "bytesBase64"}
    return {**rest, "mediaId": ids[item["bytesBase64"], item.get("altText")]}


def list_inline(content: Content) -> list[tuple[str, str | None]]:
    """List the distinct inline files: hash and alt text."""
    inline = [item for item in _list_items(content) if isinstance(item, dict) and "bytesBase64" in item]
    return list(dict.fromkeys((item["bytesBase64"], item.get("altText")) for item in inline))


def _list_items(content: Content) -> Iterator[str | RawMediaRef]:
    yield from content.get("media", ())
    for name in _PARTS:
        for part in content.get(name, ()):
            yield from _list_items(part)


def collect_media_ids(text: str) -> set[str]:
    """Collect the ids of stored files that a content (as JSON) may name."""
    return set(_MEDIA_ID.findall(text))


# --- Problems --------------------------------------------------------------------------------------------------------


async def find_problems(
    service: AppContext, scope: Scope, content: Content, inline: library.InlineFiles, facts: Mapping[str, MediaFacts]
) -> list[DraftProblem]:
    """Find why publishing this content would be refused now, without fetching media.

    `inline`, `facts`: the files in the content that are not stored yet, by hash.
    """
    try:
        request = validation.parse_value(ValidateRequest, {**content, "deep": False})
        checked = await preflight.check_request(service, scope, request, inline)
    except ApiError as error:
        if error.status >= 500 or error.code in ("unauthenticated", "rate_limited"):
            raise
        return [cast(DraftProblem, build_error_body(error, service.base_url))]
    return [
        problem
        for target, found in zip(checked.targets, checked.cheap, strict=True)
        for problem in _list_problems(service, target, found.errors, facts)
    ]


def _list_problems(
    service: AppContext, target: ResolvedTarget, cheap: Sequence[ApiError], facts: Mapping[str, MediaFacts]
) -> Iterator[DraftProblem]:
    deep = preflight.list_stored_errors(service, target, facts)
    for error in {(error.rule, error.message): error for error in (*cheap, *deep)}.values():
        body = preflight.build_target_error(service, target, error)
        if target.piece:
            body["message"] = preflight.name_piece(target.piece, body["message"])
        yield {**body, "targetIndex": target.position, "accountId": target.account["id"]}


# --- What an approval is bound to ------------------------------------------------------------------------------------


def resolve_digest(service: AppContext, scope: Scope, content: Content) -> str:
    """Return the digest of what would be published.

    Raises ApiError while a target or file is unknown.
    """
    request, targets = resolve_targets(service, scope, content)
    return compute_digest(request, targets)


def resolve_targets(service: AppContext, scope: Scope, content: Content) -> tuple[BatchRequest, list[ResolvedTarget]]:
    """Resolve the content to accounts and files.

    Raises ApiError while something is missing or unknown.
    """
    request = validation.parse_value(BatchRequest, content)
    check_shape(request, {})
    return request, resolve(service, request, request_lookup.look_up(service, scope, request).rows)


def compute_digest(request: BatchRequest, targets: Sequence[ResolvedTarget]) -> str:
    """Return the SHA-256 of what is published: accounts, texts, files, options, and the time."""
    given = request.model_dump(mode="json", by_alias=True, exclude_unset=True)
    if request.slot is not None:
        given.pop("scheduledAt", None)  # the free slot of this moment
    rest = {name: given[name] for name in sorted(given) if name not in _UNSENT}
    published = [rest, [_describe(target) for target in targets]]
    return hashlib.sha256(dumps(published).encode()).hexdigest()


def _describe(target: ResolvedTarget) -> list[Any]:
    draft = target.draft
    items = [
        [item.kind, item.alt_text or "", target.assets[ref["mediaId"]]["sha256"] if "mediaId" in ref else ref["url"]]
        for item, ref in zip(draft.items, target.refs, strict=True)
    ]
    options = {name: draft.options[name] for name in sorted(draft.options)}
    return [target.account["id"], target.piece, draft.text, items, options, draft.first_comment]
