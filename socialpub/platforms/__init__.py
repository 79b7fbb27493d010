"""Platforms by name: connectors, declarations and rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from socialpub.platforms.bluesky import connector as bluesky
from socialpub.platforms.bluesky import text as bluesky_text
from socialpub.platforms.contract import Connector, Draft, Platform, Rule, Site
from socialpub.platforms.facebook import connector as facebook
from socialpub.platforms.instagram import connector as instagram
from socialpub.platforms.instagram.rules import is_story
from socialpub.platforms.kit.rule_catalog import build_catalogue
from socialpub.platforms.linkedin import connector as linkedin
from socialpub.platforms.linkedin.rules import has_document
from socialpub.platforms.pinterest import connector as pinterest
from socialpub.platforms.threads import connector as threads
from socialpub.platforms.tiktok import connector as tiktok
from socialpub.platforms.tiktok.declaration import has_video
from socialpub.platforms.twitter import connector as twitter

CONNECTORS: dict[str, Connector] = {
    "bluesky": bluesky,
    "facebook": facebook,
    "instagram": instagram,
    "linkedin": linkedin,
    "pinterest": pinterest,
    "threads": threads,
    "tiktok": tiktok,
    "twitter": twitter,
}

PLATFORMS: dict[str, Platform] = {name: connector.PLATFORM for name, connector in CONNECTORS.items()}

CATALOGUE: dict[str, Rule] = build_catalogue(PLATFORMS.values())


def platform(name: str) -> Platform:
    """Return the platform of this name. Raises KeyError."""
    return PLATFORMS[name]


def site(name: str, table: Mapping[str, Any]) -> Site:
    """Parse the settings `[platforms.NAME]`. Raises pydantic's ValidationError."""
    return PLATFORMS[name].site.model_validate(table)


# --- Previews --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PostPreview:
    """Content of a post as its platform is sent it.

    `alts`: of the media in order, "" where none is sent. `card`: address of the page whose card is shown, or "".
    `spans`: parts of the text, each with what the platform makes of it: `link`, `mention`, `tag`, or "".
    `crops`: whether the platform crops all media to the shape of the first.
    """

    text: str
    alts: tuple[str, ...] = ()
    title: str = ""
    card: str = ""
    spans: tuple[tuple[str, str], ...] = ()
    crops: bool = False


def build_preview(name: str, draft: Draft) -> PostPreview:
    """Build the preview of a draft on a platform."""
    kinds = PLATFORMS[name].alt_text
    alts = tuple((item.alt_text or "") if item.kind in kinds else "" for item in draft.items)
    plain = PostPreview(draft.text, alts, spans=((draft.text, ""),))
    special = _PREVIEWS.get(name)
    return special(draft, plain) if special else plain


def _preview_bluesky(draft: Draft, plain: PostPreview) -> PostPreview:
    text = bluesky_text.strip_bom(draft.text)
    alts = tuple(bluesky_text.strip_bom(alt) for alt in plain.alts)
    card = "" if draft.items else bluesky_text.find_first_link(draft.text) or ""
    return PostPreview(text, alts, card=card, spans=tuple(_cut_spans(text)))


def _cut_spans(text: str) -> list[tuple[str, str]]:
    """Cut a text at its links, mentions and tags."""
    parts, at = [], 0
    for span in bluesky_text.find_spans(text):
        parts += [(text[at : span.start], ""), (text[span.start : span.end], span.kind)]
        at = span.end
    return [part for part in [*parts, (text[at:], "")] if part[0]]


def _preview_facebook(draft: Draft, plain: PostPreview) -> PostPreview:
    if draft.options.get("story"):
        return PostPreview("", plain.alts)
    card = "" if draft.items else str(draft.options.get("link", ""))
    return PostPreview(plain.text, plain.alts, card=card, spans=plain.spans)


def _preview_instagram(draft: Draft, plain: PostPreview) -> PostPreview:
    return PostPreview("", ("",) * len(draft.items)) if is_story(draft) else replace(plain, crops=True)


def _preview_linkedin(draft: Draft, plain: PostPreview) -> PostPreview:
    title = str(draft.options.get("documentTitle", "")) if has_document(draft) else ""
    return replace(plain, title=title)


def _preview_pinterest(draft: Draft, plain: PostPreview) -> PostPreview:
    alts = (draft.items[0].alt_text or "", *("" for _ in draft.items[1:])) if draft.items else ()
    title, link = draft.options.get("title", ""), draft.options.get("destinationUrl", "")
    return PostPreview(plain.text, alts, str(title), str(link), plain.spans)


def _preview_tiktok(draft: Draft, plain: PostPreview) -> PostPreview:
    if has_video(draft):
        return PostPreview("", plain.alts)
    return PostPreview(plain.text, plain.alts, str(draft.options.get("title", "")), spans=plain.spans)


_PREVIEWS: Mapping[str, Callable[[Draft, PostPreview], PostPreview]] = {
    "bluesky": _preview_bluesky,
    "facebook": _preview_facebook,
    "instagram": _preview_instagram,
    "linkedin": _preview_linkedin,
    "pinterest": _preview_pinterest,
    "tiktok": _preview_tiktok,
}
"""Platforms that send something else than the text and the alt texts they support."""
