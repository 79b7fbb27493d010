"""Preflight: a platform's rules on a draft, the rule catalog, and further warnings.

    find_violations(platform, site, draft, account)    errors and warnings of one target, in rule order
    build_catalogue(platforms)                         all rules by id
    build_warning(code, detail)                        a warning that belongs to no rule

Rules are built from `checks` (texts, options, media kinds) and `media_checks` (facts of the bytes).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from socialpub.base.errors import ApiError
from socialpub.platforms.contract import (
    ConnectorAccount,
    Draft,
    DraftWarning,
    MediaKind,
    Platform,
    PublishWarning,
    Rule,
    RuleContext,
    RuleInput,
    RuleViolation,
    TextCounter,
    TextUnit,
)

# --- Preflight -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RuleFinding:
    """Violated rule, with what was found and the media item."""

    rule: Rule
    found: str = ""
    item: int | None = None
    advice: str = ""  # replaces the rule's

    @property
    def message(self) -> str:
        return f"{self.rule.message} {self.found}".strip()

    @property
    def remediation(self) -> str:
        return self.advice or self.rule.remediation

    def error(self, version: str = "") -> ApiError:
        error = self.rule.error(version, self.found)
        error.remediation = self.remediation
        return error

    def warning(self) -> PublishWarning:
        """Convert to a warning, as given when a scheduled post is accepted."""
        return self.rule.warning(self.found)


@dataclass(frozen=True)
class RuleFindings:
    """Preflight result of one target: errors in rule order, distinct warnings."""

    errors: tuple[RuleFinding, ...] = ()
    warnings: tuple[PublishWarning, ...] = ()


def find_violations(
    platform: Platform,
    site: Any,
    draft: Draft,
    account: ConnectorAccount,
    around: RuleContext = RuleContext(),  # noqa: B008 - frozen
    stages: tuple[str, ...] = ("cheap",),
) -> RuleFindings:
    """List all violations of the rules of these stages. Media without facts pass deep rules."""
    if stages == ("deep",) and not (draft.items or draft.option_facts):
        return RuleFindings()
    if long := tuple(_find_far_too_long(platform, draft)):  # measuring them would only waste time
        return RuleFindings(long if "cheap" in stages else ())
    subject = RuleInput(draft, account, site, around)
    errors: list[RuleFinding] = []
    warnings: list[PublishWarning] = list(_draft_warnings(platform, draft)) if "cheap" in stages else []
    for rule in platform.rules:
        if rule.check is None or rule.stage not in stages:
            continue
        for hit in rule.check(rule, subject):
            if hit.warning:
                warnings.append(build_warning(hit.warning, hit.found))
            elif rule.severity == "warning":
                warnings.append(rule.warning(hit.found))
            else:
                errors.append(RuleFinding(rule, hit.found, hit.item, hit.remediation))
    return RuleFindings(tuple(errors), tuple(dict.fromkeys(warnings)))


def count_with(
    measure: Callable[[str], int], limit: int, unit: TextUnit
) -> Callable[[Draft, ConnectorAccount], TextCounter]:
    """Make a platform's `count` of a measure, for a limit that is the same for every account."""
    return lambda draft, account: TextCounter(measure(draft.text), limit, unit)


def count_text(platform: Platform, draft: Draft, account: ConnectorAccount) -> TextCounter:
    """Measure the text as the platform does; very long texts in characters."""
    if len(draft.text) <= find_measured_max(platform, "text"):
        return platform.count(draft, account)
    return replace(platform.count(replace(draft, text=""), account), length=len(draft.text))


def find_measured_max(platform: Platform, name: str) -> int:
    """Return the number of characters beyond which a text is refused without being measured.

    Four times the limit would refuse valid posts: one grapheme may be an emoji of eleven characters, and a rule may not
    apply to the rest of the post. X has no such number: it counts a URL of any length as 23.
    """
    row = platform.find_length_rule(name)
    if row is None or not isinstance(row.limit, int) or row.unit == "weighted":
        return sys.maxsize
    return LONGEST_GRAPHEME * row.limit


LONGEST_GRAPHEME = 12  # characters: a family of four with skin tones and joiners has eleven


def _find_far_too_long(platform: Platform, draft: Draft) -> Iterator[RuleFinding]:
    """Yield a finding for each text that is refused without being measured."""
    comment = draft.first_comment if platform.first_comment else None
    pieces: list[tuple[str, int | None, str | None]] = [("text", None, draft.text), ("first_comment", None, comment)]
    pieces += [("media.alt_text", index, item.alt_text) for index, item in enumerate(draft.items)]
    pieces += [(name, None, value) for name, value in draft.options.items() if isinstance(value, str)]
    for name, index, text in pieces:
        row = platform.find_length_rule(name) if text else None
        if text and row is not None and len(text) > find_measured_max(platform, name):
            yield RuleFinding(
                row, f"{'Media item ' + str(index + 1) if index is not None else 'It'} has {len(text):,}.", index
            )


def _draft_warnings(platform: Platform, draft: Draft) -> Iterator[PublishWarning]:
    if draft.first_comment is not None and not platform.first_comment:
        yield build_warning("first_comment_ignored", f"It is not posted on {platform.label}.")
    for index, item in enumerate(draft.items):
        if item.alt_text and item.kind not in platform.alt_text:
            yield build_warning(
                "alt_text_ignored", f"Media item {index + 1} is published on {platform.label} without it."
            )
    for draft_warning in platform.draft_warnings:
        if draft_warning.applies(draft):
            yield PublishWarning(
                draft_warning.code, f"{WARNINGS.get(draft_warning.code, '')} {draft_warning.message}".strip()
            )


def build_catalogue(platforms: Iterable[Platform]) -> dict[str, Rule]:
    """Return all rules by id. Raises ValueError for a duplicate id or a wrong prefix."""
    rows: dict[str, Rule] = {}
    for platform in platforms:
        for rule in platform.rules:
            if rule.id in rows or rule.platform != platform.name:
                raise ValueError(f"rule {rule.id} of {platform.name} stands twice or has another platform's prefix")
            rows[rule.id] = rule
    return rows


NO_DOCUMENTS = "media.document_unsupported"


def build_no_threads_rule(platform: str, label: str, source: str) -> Rule:
    """Build the rule of a platform without threads. `source`: its documentation of publishing."""
    return Rule(
        f"{platform}.thread.unsupported",
        "cheap",
        f"There are no threads on {label}.",
        "Remove `thread`, or publish the target by itself with one text.",
        source,
        lambda _, subject: [RuleViolation()] if subject.draft.pieces else (),
    )


def build_no_documents_rule(platform: str, label: str, source: str) -> Rule:
    """Build the rule of a platform without documents. `source`: its documentation of media."""
    return Rule(
        f"{platform}.{NO_DOCUMENTS}",
        "cheap",
        f"A post on {label} cannot have a document.",
        "Remove the document from this target, or convert its pages to images.",
        source,
        lambda _, subject: [
            RuleViolation(item=index) for index, item in enumerate(subject.draft.items) if item.kind == "document"
        ],
    )


def build_fetch_rule(id: str) -> Rule:
    """Build the shared rule for media URLs that could not be fetched."""
    return Rule(
        id,
        "deep",
        "The media URL could not be fetched.",
        "Check that anyone can download the file from this URL, or upload the file to this server.",
        "this server's own limits for fetching media",
    )


def find_fetch_rule(platform: Platform, kind: MediaKind) -> Rule:
    """Return the rule for an unreachable media URL of this kind."""
    wanted = platform.unreachable.get(kind, f"{platform.name}.media.reachable")
    return next(rule for rule in platform.rules if rule.id == wanted)


# --- Warnings without a rule -----------------------------------------------------------------------------------------

WARNINGS: dict[str, str] = {
    "first_comment_ignored": "The first comment is ignored here.",
    "first_comment_failed": "The post was published, but its first comment was not.",
    "still_publishing": "The request stopped waiting, but publishing continues. Check the post later. "
    "Do not send it again.",
    "joined_undelivered_batch": "An identical request created this batch, and its response could not be delivered. "
    "Nothing was published again.",
    "tiktok_inbox_draft": "The draft is in the creator's inbox. The creator must confirm it in the platform's app.",
    "tiktok_inbox_options_ignored": "An upload to the creator's inbox cannot carry all of the given options.",
    "alt_text_ignored": "The platform accepts no alt text here.",
    "option_ignored": "An option has no effect here.",
    "text_may_exceed_limit": "By the strictest reading of the platform's documentation, the text is too long.",
    "media_may_exceed_limit": "By the strictest reading of the platform's documentation, the file is too large.",
    "media_unmeasured": "A property of the file could not be read, so its limits were not checked.",
    "animation_still": "The platform shows an animation as a still image. Publish a video instead if it should move.",
    "link_card_failed": "The page behind the first link has no preview card, so the post has none.",
    "token_expires_before_schedule": "The account's authorization ends before the scheduled time.",
    "duplicate_content": "The same text was sent to this account within the last 24 hours.",
    "daily_cap_near": "The account is close to the platform's limit of posts.",
}
"""Texts by code. Other warning codes are ids of rules with severity warning."""


def build_warning(code: str, detail: str = "") -> PublishWarning:
    """Build the warning of this code, plus a sentence. Raises KeyError for an unknown code."""
    return PublishWarning(code, f"{WARNINGS[code]} {detail}".strip())


def remove_duplicates(warnings: Iterable[PublishWarning]) -> list[PublishWarning]:
    """Remove duplicate warnings, keeping the order of first mention.

    Warnings about the whole post appear once per code, with the latest text.
    """
    return list({note.code if note.code in _OF_THE_POST else note: note for note in warnings}.values())


_OF_THE_POST = frozenset(
    {
        "first_comment_ignored",
        "first_comment_failed",
        "still_publishing",
        "link_card_failed",
        "token_expires_before_schedule",
        "duplicate_content",
        "daily_cap_near",
        "tiktok_inbox_draft",
    }
)


def ignored_option(name: str, why: str, applies: Callable[[Draft], bool]) -> DraftWarning:
    """Build the notice that an option has no effect, if present and `applies`."""
    return DraftWarning(
        "option_ignored", f"`{name}` is ignored: {why}.", lambda draft: name in draft.options and applies(draft)
    )
