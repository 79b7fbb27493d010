"""Inline media of posts: files stored before any row names them, their rows and mediaRefs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from socialpub.base.concurrency.fair_executor import ShareKey
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.media import library
from socialpub.domain.posts.targets import RawMediaRef, ResolvedTarget
from socialpub.platforms.contract import MediaFacts
from socialpub.store.database import Tx

InlineMedia = tuple[str, str, str | None]
"""Hash of the file, profile of the target, alt text; each distinct one has a row."""


async def store(
    service: AppContext, organization: str, resolved_targets: Sequence[ResolvedTarget], files: library.InlineFiles
) -> dict[str, MediaFacts]:
    """Store the inline media of the targets durably, equal files once; return facts by hash."""
    inline = {ref["bytesBase64"] for resolved in resolved_targets for ref in resolved.refs if "bytesBase64" in ref}
    return await store_files(service, organization, {data: files[data] for data in inline}) if inline else {}


async def store_files(service: AppContext, organization: str, files: library.InlineFiles) -> dict[str, MediaFacts]:
    """Store inline files in a thread of the organization's share; return their facts by hash."""
    threads, share = service.executors.immediate, ShareKey(owner=organization)
    return await threads.run(share, library.store_all_inline, service, files, organization)


def list_distinct(targets: Iterable[ResolvedTarget]) -> list[InlineMedia]:
    """List the distinct inline media of the targets."""
    inlines = (_inline_key(ref, target.account["profile"]) for target in targets for ref in target.refs)
    return list(dict.fromkeys(inline for inline in inlines if inline is not None))


def _inline_key(ref: RawMediaRef, profile: str) -> InlineMedia | None:
    return (ref["bytesBase64"], profile, ref.get("altText")) if "bytesBase64" in ref else None


def insert(
    service: AppContext,
    tx: Tx,
    organization: str,
    stored: Mapping[str, MediaFacts],
    inline: Mapping[InlineMedia, str],
    at_ms: int | None,
) -> None:
    """Insert the rows of stored inline media, needed at `at_ms` or now."""
    for (data, profile, alt), media in inline.items():
        library.insert(service, tx, organization, profile, stored[data], alt, media, at_ms)


def encode_refs(refs: Sequence[RawMediaRef], profile: str, media: Mapping[InlineMedia, str]) -> str:
    """Encode the mediaRefs of a post in this profile for its row. `media`: ids of inline media."""
    return json.dumps([_build_saved_ref(ref, profile, media) for ref in refs], ensure_ascii=False) if refs else "[]"


def _build_saved_ref(ref: RawMediaRef, profile: str, media: Mapping[InlineMedia, str]) -> RawMediaRef:
    """Build the mediaRef to store and show; inline bytes have become an asset."""
    inline = _inline_key(ref, profile)
    if inline is None:
        return ref
    saved = {"kind": ref["kind"], "mediaId": media[inline]}
    return saved | ({"altText": ref["altText"]} if "altText" in ref else {})
