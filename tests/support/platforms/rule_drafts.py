"""Drafts, media facts and preflight scenes for tests of platform rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from socialpub.platforms import PLATFORMS
from socialpub.platforms.contract import (
    ConnectorAccount,
    Draft,
    DraftMedia,
    MediaFacts,
    Rule,
    RuleContext,
    RuleInput,
    RuleViolation,
)
from socialpub.platforms.kit.rule_catalog import RuleFindings, find_violations

# What a later platform declares is tested beside it, not in the tables that name these.
EIGHT = ("bluesky", "facebook", "instagram", "linkedin", "pinterest", "threads", "tiktok", "twitter")
ACCOUNTS = {
    "linkedin": ConnectorAccount("urn:li:person:a1B2-c3_"),
    "pinterest": ConnectorAccount("77", extra={"defaultBoardId": "123"}),
}
AROUND = RuleContext("https://social.example.com")


@dataclass(frozen=True)
class RuleScene:
    draft: Draft
    account: ConnectorAccount | None = None
    site: Mapping[str, Any] = field(default_factory=dict)
    around: RuleContext = AROUND

    def judged(self, platform: str, *stages: str) -> RuleFindings:
        declared = PLATFORMS[platform]
        site = declared.site(**self.site)
        account = self.account or ACCOUNTS.get(platform, ConnectorAccount("1"))
        return find_violations(declared, site, self.draft, account, self.around, stages or ("cheap",))

    def hits(self, rule: Rule) -> list[RuleViolation]:
        """What one row finds, whatever else the draft is."""
        site = PLATFORMS[rule.platform].site(**self.site)
        subject = RuleInput(
            self.draft, self.account or ACCOUNTS.get(rule.platform, ConnectorAccount("1")), site, self.around
        )
        assert rule.check is not None, "it is one of those that check"
        return list(rule.check(rule, subject))

    def ids(self, platform: str, *stages: str) -> tuple[list[str], list[str]]:
        """(the rules of the errors, the codes of the warnings)."""
        found = self.judged(platform, *stages)
        return [error.rule.id for error in found.errors], [warning.code for warning in found.warnings]


def scene(
    text: str = "Hello",
    *items: DraftMedia,
    options: Mapping[str, Any] | None = None,
    comment: str | None = None,
    cover: MediaFacts | None = None,
    account: ConnectorAccount | None = None,
    site: Mapping[str, Any] | None = None,
    around: RuleContext = AROUND,
    pieces: int = 0,
) -> RuleScene:
    draft = Draft(text, items, options or {}, comment, option_facts={"coverUrl": cover} if cover else {}, pieces=pieces)
    return RuleScene(draft, account, site or {}, around)


def jpeg(**changes: Any) -> MediaFacts:
    values: dict[str, Any] = {"content_type": "image/jpeg", "size": 100_000, "width": 1000, "height": 1000, "frames": 1}
    return MediaFacts(**(values | changes))


def gif(**changes: Any) -> MediaFacts:
    return jpeg(**({"content_type": "image/gif", "frames": 10, "width": 100, "height": 100} | changes))


def mp4(**changes: Any) -> MediaFacts:
    values: dict[str, Any] = {
        "content_type": "video/mp4",
        "size": 1_000_000,
        "width": 1280,
        "height": 720,
        "duration_ms": 10_000,
        "frame_rate": 30.0,
        "bit_rate": 800_000,
        "video_codec": "h264",
        "audio_codec": "aac",
        "has_audio": True,
    }
    return MediaFacts(**(values | changes))


def image(
    facts: MediaFacts | None = None, alt: str | None = None, url: str | None = "https://cdn.example.com/a"
) -> DraftMedia:
    return DraftMedia("image", alt, url, facts=facts or jpeg())


def video(
    facts: MediaFacts | None = None, alt: str | None = None, url: str | None = "https://cdn.example.com/b"
) -> DraftMedia:
    return DraftMedia("video", alt, url, facts=facts or mp4())


def stored(kind: Any = "image", facts: MediaFacts | None = None, url: str | None = None) -> DraftMedia:
    return DraftMedia(kind, url=url, stored=True, facts=facts or (jpeg() if kind == "image" else mp4()))


def document(**changes: Any) -> DraftMedia:
    return stored("document", MediaFacts(**({"content_type": "application/pdf", "size": 1_000} | changes)))


def images(count: int) -> tuple[DraftMedia, ...]:
    return tuple(image() for _ in range(count))


def photo(**changes: Any) -> RuleScene:
    """One image with these facts."""
    return scene("Hello", image(jpeg(**changes)))


def clip(**changes: Any) -> RuleScene:
    """One video with these facts."""
    return scene("Hello", video(mp4(**changes)))


def animated_gif(**changes: Any) -> RuleScene:
    """One animated GIF with these facts."""
    return scene("Hello", image(gif(**changes)))
