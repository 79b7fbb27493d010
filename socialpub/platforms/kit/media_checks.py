"""Checks of media bytes: types, sizes, dimensions, durations, codecs.

Media without facts pass. An unreadable fact (None) passes with the warning `media_unmeasured`. Limits come from the
rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from socialpub.platforms.contract import MediaFacts, MediaKind, Rule, RuleCheck, RuleInput, RuleViolation
from socialpub.platforms.kit.checks import CheckedValue, limit_number, media_name

T = TypeVar("T")
MIB = 1024 * 1024
GIB = 1024 * MIB

FileSelector = Callable[[RuleInput], Iterable[CheckedValue[MediaFacts]]]


def files(*kinds: MediaKind, only: bool = False) -> FileSelector:
    """Select the facts of items of these kinds (default: all); `only`: of a single item."""
    wanted = kinds or ("image", "video")

    def pick(subject: RuleInput) -> Iterator[CheckedValue[MediaFacts]]:
        if only and len(subject.draft.items) != 1:
            return
        for index, item in enumerate(subject.draft.items):
            if item.facts is not None and item.kind in wanted:
                yield CheckedValue(item.facts, media_name(index), index)

    return pick


def option_image(name: str) -> FileSelector:
    """Select the facts of the image that an option names, once fetched."""
    return lambda subject: (
        (CheckedValue(subject.draft.option_facts[name], f"The image of `{name}`"),)
        if name in subject.draft.option_facts
        else ()
    )


def measured(
    pick: FileSelector, what: str, read: Callable[[MediaFacts], T | None], fits: Callable[[Rule, T], bool]
) -> RuleCheck:
    """Check a fact of each file; an unreadable one (None) passes with `media_unmeasured`.

    `what` names the fact and shows its value in {}: "a duration of {} s".
    """

    def check(rule: Rule, subject: RuleInput) -> Iterator[RuleViolation]:
        for piece in pick(subject):
            value = read(piece.value)
            if value is None:
                yield RuleViolation(f"{piece.name}: {_fact_name(what)}.", piece.item, "media_unmeasured")
            elif not fits(rule, value):
                yield RuleViolation(f"{piece.name} has {what.format(value)}.", piece.item)

    return check


def _fact_name(what: str) -> str:
    """Extract the name of a fact: "bit rate" from "a bit rate of {}"."""
    return what.partition("{")[0].strip().removesuffix(" of").split(" ", 1)[-1]


every_file = files()


ANOTHER_ADDRESS = "Use the address of the file itself, one that needs no sign-in, or upload the file."


def types(pick: FileSelector = every_file) -> RuleCheck:
    """Require a sniffed type from the rule's limit."""
    return lambda rule, subject: [
        make_type_violation(piece) for piece in pick(subject) if piece.value.content_type not in choices(rule)
    ]


def make_type_violation(piece: CheckedValue[MediaFacts]) -> RuleViolation:
    """Build the violation of an unaccepted type, or of an address that sent no media file."""
    if piece.value.non_media:
        return RuleViolation(f"{piece.name}: {piece.value.non_media}", piece.item, remediation=ANOTHER_ADDRESS)
    return RuleViolation(f"{piece.name} has the type {piece.value.content_type}.", piece.item)


def size_max(pick: FileSelector, decimal: int | None = None) -> RuleCheck:
    """Limit the bytes. `decimal`: stricter reading of the platform's "MB", which only warns."""

    def check(rule: Rule, subject: RuleInput) -> Iterator[RuleViolation]:
        for piece in pick(subject):
            size = piece.value.size
            if size > limit_number(rule):
                yield RuleViolation(f"{piece.name} has {size:,} bytes.", piece.item)
            elif decimal is not None and size > decimal:
                yield RuleViolation(
                    f"{piece.name} has {size:,} of {decimal:,} bytes.", piece.item, "media_may_exceed_limit"
                )

    return check


def duration_min(pick: FileSelector) -> RuleCheck:
    """Require at least the rule's seconds, within 0.1 s."""
    return _duration(pick, lambda rule, found: found >= _seconds(rule) * 1000 - 100)


def duration_max(pick: FileSelector) -> RuleCheck:
    """Require at most the rule's seconds, within 0.1 s."""
    return _duration(pick, lambda rule, found: found <= _seconds(rule) * 1000 + 100)


def _duration(pick: FileSelector, fits: Callable[[Rule, int], bool]) -> RuleCheck:
    return measured(pick, "a duration of {} ms", lambda facts: facts.duration_ms, fits)


def frame_rate(pick: FileSelector, low: float, high: float) -> RuleCheck:
    """Require a frame rate in this range, within 0.5."""
    return measured(
        pick,
        "a frame rate of {:g}",
        lambda facts: facts.frame_rate,
        lambda _, found: low - 0.5 <= found <= high + 0.5,
    )


def frame_rate_max(pick: FileSelector) -> RuleCheck:
    """Require at most the rule's frame rate, within 0.5."""
    return measured(
        pick,
        "a frame rate of {:g}",
        lambda facts: facts.frame_rate,
        lambda rule, found: found <= limit_number(rule) + 0.5,
    )


def aspect_ratio(pick: FileSelector, low: float, high: float) -> RuleCheck:
    """Require width / height in this range, within 1 %."""
    return measured(
        pick,
        "an aspect ratio of {:.3f}:1",
        compute_ratio,
        lambda _, found: low * 0.99 <= found <= high * 1.01,
    )


def compute_ratio(facts: MediaFacts) -> float | None:
    """Return width / height; None if unreadable."""
    return facts.width / facts.height if facts.width and facts.height else None


def width_max(pick: FileSelector) -> RuleCheck:
    return measured(pick, "a width of {:,}", lambda facts: facts.width, is_within_limit)


def bit_rate_max(pick: FileSelector) -> RuleCheck:
    return measured(pick, "a bit rate of {:,}", lambda facts: facts.bit_rate, is_within_limit)


def codecs(pick: FileSelector, *, sound: bool = False) -> RuleCheck:
    """Require video codecs, and with `sound` audio codecs, from the rule's limit."""
    checks = [measured(pick, "the video codec {}", lambda facts: facts.video_codec, _is_choice)]
    if sound:
        checks.append(
            measured(pick, "the audio codec {}", _sound, lambda rule, found: not found or _is_choice(rule, found))
        )
    return lambda rule, subject: [hit for check in checks for hit in check(rule, subject)]


def _is_choice(rule: Rule, found: str) -> bool:
    return found in choices(rule)


def _sound(facts: MediaFacts) -> str | None:
    return "" if facts.has_audio is False else facts.audio_codec


def animation(read: Callable[[MediaFacts], int | None]) -> Callable[[MediaFacts], int | None]:
    """Restrict a fact to animated GIFs: 0 for others, None if animation is unknown."""

    def of_animation(facts: MediaFacts) -> int | None:
        if facts.content_type != "image/gif" or facts.frames == 1:
            return 0
        return None if facts.frames is None else read(facts)

    return of_animation


def compute_area(facts: MediaFacts) -> int | None:
    """Return the pixels of one frame; None if unreadable."""
    return facts.width * facts.height if facts.width and facts.height else None


def is_within_limit(rule: Rule, found: int) -> bool:
    return found <= limit_number(rule)


def choices(rule: Rule) -> tuple[str, ...]:
    """Return the rule's limit. Raises TypeError unless it is a list of words."""
    if not isinstance(rule.limit, tuple):
        raise TypeError(f"rule {rule.id} has no list as its limit")
    return rule.limit


def _seconds(rule: Rule) -> float:
    if not isinstance(rule.limit, int | float):
        raise TypeError(f"rule {rule.id} has no number as its limit")
    return rule.limit


def same_shape(
    pick: FileSelector, what: str, read: Callable[[MediaFacts], T | None], alike: Callable[[T, T], bool]
) -> RuleCheck:
    """Require all files to be like the first in this respect."""

    def check(rule: Rule, subject: RuleInput) -> Iterator[RuleViolation]:
        pieces = list(pick(subject))
        wanted = read(pieces[0].value) if pieces else None
        if wanted is not None:
            rest = pieces[1:]
            yield from measured(lambda _: rest, what, read, lambda _, found: alike(wanted, found))(rule, subject)

    return check


def within(pick: FileSelector, width: int, height: int, *, turned: bool = False) -> RuleCheck:
    """Limit width and height; `turned`: in either orientation."""

    def fits(_: Rule, box: Dimensions) -> bool:
        return box.fits(width, height) or (turned and box.fits(height, width))

    return measured(pick, "dimensions of {}", find_dimensions, fits)


@dataclass(frozen=True)
class Dimensions:
    """Width and height in pixels."""

    width: int
    height: int

    def fits(self, width: int, height: int) -> bool:
        return self.width <= width and self.height <= height

    def __str__(self) -> str:
        return f"{self.width:,} × {self.height:,} pixels"


def find_dimensions(facts: MediaFacts) -> Dimensions | None:
    return Dimensions(facts.width, facts.height) if facts.width and facts.height else None
