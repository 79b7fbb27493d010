"""A draft for a template, as it would be published."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from socialpub import platforms
from socialpub.base import json_codec
from socialpub.base.errors import ApiError
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.context.upstreams import UpstreamColumns
from socialpub.domain.media import library
from socialpub.domain.posts import draft_contents, drafts
from socialpub.domain.posts.targets import RawMediaRef, ResolvedTarget
from socialpub.platforms.kit.options import list_fields
from socialpub.store.rows import MediaRow, PostDraftRow
from socialpub.web.dashboard.parts import error_texts


def load(service: AppContext, row: PostDraftRow) -> dict[str, Any]:
    """Return what would be published: targets, time, and the digest that an approval names.

    `missing`: why it cannot be published yet; there are no targets then. Read-only.
    """
    content = drafts.load_content(row)
    try:
        request, targets = draft_contents.resolve_targets(service, drafts.get_scope(row), content)
    except ApiError as error:
        missing = error_texts.find_words(error.rule) or error.message
        return {"targets": [], "at": None, "in_slot": False, "digest": "", "missing": missing}
    digest = draft_contents.compute_digest(request, targets)
    shown = build_targets(service, targets)
    times = {"at": content.get("scheduledAt"), "in_slot": "slot" in content}
    return {"targets": shown, **times, "digest": digest, "missing": ""}


def list_media(view: Mapping[str, Any]) -> set[str]:
    """Return the ids of the stored files that a draft shows."""
    return {item["id"] for target in view["targets"] for item in target["items"]} - {""}


def build_targets(service: AppContext, targets: Sequence[ResolvedTarget]) -> list[dict[str, Any]]:
    """Return what is sent to each platform, once for all its `names` that get the same."""
    names: dict[str, list[str]] = {}
    shown = {}
    for target in targets:
        built = _build_target(service, target)
        key = json.dumps(built)
        names.setdefault(key, []).append(target.account["display_name"] or target.account["platform_account_id"])
        shown[key] = built | {"names": names[key]}
    return list(shown.values())


def _build_target(service: AppContext, target: ResolvedTarget) -> dict[str, Any]:
    platform, draft = platforms.platform(target.platform), target.draft
    preview = platforms.build_preview(target.platform, draft)
    items = [_build_item(service, ref, target.assets) for ref in target.refs]
    shape = items[0]["size"] if items and preview.crops else None
    return {
        "label": platform.label,
        "piece": target.piece,
        "platform": target.platform,
        "text": preview.text,
        "spans": preview.spans,
        "title": preview.title,
        "card": preview.card,
        "items": [
            item | {"alt": alt, "crop": _compute_crop(item["size"], shape) if shape else None}
            for item, alt in zip(items, preview.alts, strict=True)
        ],
        "options": label_options(target.account, draft.options),
        "comment": draft.first_comment if platform.first_comment else None,
    }


def label_options(account: UpstreamColumns, options: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return options of a post with the labels of their fields, and their values in words."""
    declared, extra = platforms.platform(account["platform"]), json_codec.loads(account["extra"])
    fields = {field.name: field for field in list_fields(declared.options)}
    labels = []
    for name, value in options.items():
        if name not in fields:
            labels.append((name, str(value)))
            continue
        text = fields[name].text_of(value)
        is_default = name in declared.defaults and text == extra.get(declared.defaults[name])
        shown = label_default(account, name) if is_default else dict(fields[name].choices).get(text, text)
        labels.append((fields[name].label, shown))
    return labels


def label_default(account: UpstreamColumns, option: str) -> str:
    """Return the account's default for an option, in words: "Recipes, 42"; "" without one."""
    declared, extra = platforms.platform(account["platform"]), json_codec.loads(account["extra"])
    if not extra.get(declared.defaults.get(option)):
        return ""
    shown = [str(extra[name]) for name in reversed(declared.account_fields) if extra.get(name)]
    return ", ".join(shown) or str(extra[declared.defaults[option]])


def _build_item(service: AppContext, ref: RawMediaRef, assets: Mapping[str, MediaRow]) -> dict[str, Any]:
    """Return a media item: its path here, or its address elsewhere; its `size`, if known."""
    if "mediaId" not in ref:
        return {"kind": ref["kind"], "id": "", "path": "", "url": ref["url"], "size": None}
    asset = assets[ref["mediaId"]]
    return {
        "kind": asset["kind"],
        "id": asset["id"],
        "path": urlsplit(library.public_url(service, asset["id"], asset["content_type"])).path,
        "url": "",
        "size": (asset["width"], asset["height"]) if asset["width"] and asset["height"] else None,
    }


def _compute_crop(size: tuple[int, int] | None, shape: tuple[int, int]) -> tuple[int, int, int, int] | None:
    """Return left, top, right and bottom of the middle part of this shape, or None for all."""
    if size is None:
        return None
    width, height = size
    inner = min(width, round(height * shape[0] / shape[1])), min(height, round(width * shape[1] / shape[0]))
    if inner[0] > 0.99 * width and inner[1] > 0.99 * height:
        return None
    left, top = (width - inner[0]) // 2, (height - inner[1]) // 2
    return left, top, left + inner[0], top + inner[1]
