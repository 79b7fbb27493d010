"""Hash of the content of a publish request: targets, texts, media bytes, options and time.

Two requests with the same hash publish the same. The form of a request makes no difference: a text or a media list of
the batch or of each target, a file by its id or inline, defaults written out or left out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from socialpub.domain.access.authentication import Scope
from socialpub.domain.posts.targets import collect_media_ids
from socialpub.domain.schemas.posts import BatchRequest
from socialpub.store.engine import sql
from socialpub.store.queries import acceptance

NO_CONTENT = frozenset(("targets", "scheduledAt", "slot", "publishNow", "profileId", "onDuplicate", "externalId"))
"""Fields of a request that are not defaults of its targets."""
_SHARED = set(BatchRequest.model_fields) - {"targets"}  # not what a check adds, such as `deep`


class MediaContent(NamedTuple):
    """Content of a stored file."""

    kind: str
    sha256: str
    alt_text: str | None


def load_media(scope: Scope, request: BatchRequest) -> dict[str, MediaContent]:
    """Load the content of the stored media that a request names, deleted ones too, by id."""
    ids = collect_media_ids(request)
    if not ids:
        return {}
    found = sql.fetch_all(acceptance.FIND_MEDIA_CONTENT, (sql.dump_json(sorted(ids)), scope.organization))
    return {id: MediaContent(*content) for id, *content in found}


def hash_content(request: BatchRequest, accounts: Sequence[str], media: Mapping[str, MediaContent]) -> str:
    """Hash the content of a request, whose inline files are hashes already.

    `accounts`: the account of each target.
    """
    shared = request.model_dump(mode="json", by_alias=True, exclude_unset=True, include=_SHARED)
    defaults = {name: value for name, value in shared.items() if name not in NO_CONTENT}
    targets = [
        _normalize({**defaults, **_dump_target(target), "accountId": account}, media)
        for target, account in zip(request.targets, accounts, strict=True)
    ]
    canonical = json.dumps([targets, request.slot or request.scheduled_at], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def _dump_target(target: Any) -> dict[str, Any]:
    """Return a target as sent, without the platform's name, which follows from the account."""
    sent: dict[str, Any] = target.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude={"platform"})
    sent.get("options", {}).pop("platform", None)
    return sent


def _normalize(value: Any, media: Mapping[str, MediaContent]) -> Any:
    """Replace media by their content, and leave out empty values."""
    if isinstance(value, list):
        return [_normalize(item, media) for item in value]
    if not isinstance(value, dict):
        return value
    pairs = {
        name: [_identify_media(item, media) for item in part] if name == "media" else _normalize(part, media)
        for name, part in value.items()
    }
    return {name: part for name, part in pairs.items() if part not in ("", [], {})}


def _identify_media(item: str | dict[str, Any], media: Mapping[str, MediaContent]) -> list[str | None]:
    """Return kind, hash or address, and alt text of a media item.

    An unknown id stands for itself.
    """
    sent = {"mediaId": item} if isinstance(item, str) else item
    if stored := media.get(sent.get("mediaId", "")):
        return [stored.kind, stored.sha256, sent.get("altText", stored.alt_text) or None]
    source = sent.get("bytesBase64") or sent.get("url") or sent.get("mediaId")
    return [sent.get("kind"), source, sent.get("altText") or None]
