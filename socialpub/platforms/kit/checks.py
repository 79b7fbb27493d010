"""Checks that need neither bytes nor network: texts, options, media kinds.

Each function is a check or makes one. A check reads its limit from the rule (`rule.limit`), so that a limit is written
once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, Literal, NamedTuple, TypeVar
from urllib.parse import urlsplit

from socialpub.base import http as outbound
from socialpub.platforms.contract import DraftMedia, MediaKind, Rule, RuleCheck, RuleContext, RuleInput, RuleViolation
from socialpub.platforms.kit.text import graphemes, is_blank, utf8_bytes, utf16_units

T = TypeVar("T")

# --- Check input -----------------------------------------------------------------------------------------------------


class CheckedValue(NamedTuple, Generic[T]):
    """Value to check, with its name for people and the index of its media item."""

    value: T
    name: str
    item: int | None = None


TextSelector = Callable[[RuleInput], Iterable[CheckedValue[str]]]
InputCondition = Callable[[RuleInput], bool]


def post_text(subject: RuleInput) -> Iterable[CheckedValue[str]]:
    return (CheckedValue(subject.draft.text, "This text"),)


def first_comment(subject: RuleInput) -> Iterable[CheckedValue[str]]:
    comment = subject.draft.first_comment
    return () if comment is None else (CheckedValue(comment, "This first comment"),)


def alt_texts(*kinds: MediaKind) -> TextSelector:
    """Select the alt texts of items of these kinds."""

    return lambda subject: [
        CheckedValue(item.alt_text, media_name(index), index)
        for index, item in enumerate(subject.draft.items)
        if item.alt_text and item.kind in kinds
    ]


def option(name: str, when: InputCondition = lambda _: True) -> TextSelector:
    """Select a text option, if given."""
    return lambda subject: (
        (CheckedValue(str(subject.draft.options[name]), f"`{name}`"),)
        if name in subject.draft.options and when(subject)
        else ()
    )


def media_name(index: int) -> str:
    return f"Media item {index + 1}"


def count_media(subject: RuleInput, kind: MediaKind) -> int:
    return sum(item.kind == kind for item in subject.draft.items)


def has_media(subject: RuleInput) -> bool:
    return bool(subject.draft.items)


def has_images(subject: RuleInput) -> bool:
    return count_media(subject, "image") > 0


def has_video(subject: RuleInput) -> bool:
    return count_media(subject, "video") > 0


# --- Cheap checks: texts ---------------------------------------------------------------------------------------------


def not_blank(texts: TextSelector = post_text, unless: InputCondition = lambda _: False) -> RuleCheck:
    """Require more than white space, unless `unless` holds."""

    def check(_: Rule, subject: RuleInput) -> Iterable[RuleViolation]:
        blank = [piece for piece in texts(subject) if is_blank(piece.value)]
        return [RuleViolation(item=piece.item) for piece in blank] if blank and not unless(subject) else ()

    return check


def at_most(
    measure: Callable[[str], int],
    texts: TextSelector = post_text,
    strict: Callable[[str], int] | None = None,
    limit: Callable[[RuleInput], int] | None = None,
) -> RuleCheck:
    """Limit a measure of the text to the rule's limit (or that of `limit`).

    `strict`: stricter reading of an undocumented unit, which only warns (`text_may_exceed_limit`).
    """

    def check(rule: Rule, subject: RuleInput) -> Iterator[RuleViolation]:
        for piece in texts(subject):
            most, found = limit(subject) if limit else limit_number(rule), measure(piece.value)
            if found > most:
                yield RuleViolation(f"{piece.name} has {found:,}.", piece.item)
            elif strict and (found := strict(piece.value)) > most:
                sentence = f"{piece.name} then has {found:,} of {most:,}."
                yield RuleViolation(sentence, piece.item, "text_may_exceed_limit")

    return check


def max_graphemes(texts: TextSelector = post_text) -> RuleCheck:
    """Limit grapheme clusters, where the platform documents that unit."""
    return at_most(graphemes, texts)


def max_characters(texts: TextSelector = post_text) -> RuleCheck:
    """Limit grapheme clusters for "characters"; more UTF-16 units than the limit warn."""
    return at_most(graphemes, texts, strict=utf16_units)


def max_bytes(texts: TextSelector = post_text) -> RuleCheck:
    return at_most(utf8_bytes, texts)


def max_utf16(texts: TextSelector = post_text) -> RuleCheck:
    return at_most(utf16_units, texts)


def matches(fits: Callable[[str], bool], texts: TextSelector) -> RuleCheck:
    """Require each text to match `fits`."""

    def check(_: Rule, subject: RuleInput) -> Iterator[RuleViolation]:
        for piece in texts(subject):
            if not fits(piece.value):
                yield RuleViolation(f"{piece.name} is {piece.value[:200]!r}.", piece.item)

    return check


def is_absolute_url(url: str) -> bool:
    """Return whether this is a URL with scheme and host, without white space or controls."""
    try:
        parts = urlsplit(url)
        has_host = bool(parts.scheme and parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False
    return has_host and not any(char.isspace() or not char.isprintable() for char in url)


def is_web_url(url: str) -> bool:
    """Return whether this is an absolute http or https URL."""
    return is_absolute_url(url) and urlsplit(url).scheme in ("http", "https")


# --- Cheap checks: media ---------------------------------------------------------------------------------------------


def require(fits: InputCondition) -> RuleCheck:
    """Make a check of a condition on the subject."""
    return lambda _, subject: () if fits(subject) else (RuleViolation(),)


media_required: RuleCheck = require(has_media)
not_mixed: RuleCheck = require(lambda subject: not (has_images(subject) and has_video(subject)))


def media_count(
    of: MediaKind | Literal["media item"] = "image",
    *,
    videos: int | None = None,
    images: Callable[[RuleInput], int] | None = None,
) -> RuleCheck:
    """Limit the number `of` media (or as `images` says), and that of videos."""

    def check(rule: Rule, subject: RuleInput) -> Iterator[RuleViolation]:
        most = images(subject) if images else limit_number(rule)
        found = len(subject.draft.items) if of == "media item" else count_media(subject, of)
        if found > most:
            yield RuleViolation(f"This post has {found} {of}s, {most} are possible.")
        if videos is not None and (found := count_media(subject, "video")) > videos:
            yield RuleViolation(f"This post has {found} videos.")

    return check


def find_pull_url(item: DraftMedia, around: RuleContext) -> str:
    """Return the URL a platform would fetch; for a file not stored yet, our own origin."""
    return item.url or around.base_url


def is_own_url_public(around: RuleContext) -> bool:
    """Return whether platforms can fetch from this server; assumed in private networks."""
    return around.allow_private_networks or outbound.check_url(around.base_url) is None


def url_public(_: Rule, subject: RuleInput) -> Iterator[RuleViolation]:
    """Require an ASCII https address that the platform can fetch, for every item."""
    around = subject.around
    for index, item in enumerate(subject.draft.items):
        url = find_pull_url(item, around)
        if item.stored or not item.url:
            fits = is_own_url_public(around)
        else:
            fits = around.allow_private_networks or url.lower().startswith("https://")
        if not (fits and url.isascii()):
            yield RuleViolation(f"{media_name(index)} would be fetched from {url[:200]!r}.", index)


def limit_number(rule: Rule) -> int:
    if not isinstance(rule.limit, int):
        raise TypeError(f"rule {rule.id} has no number as its limit")
    return rule.limit
