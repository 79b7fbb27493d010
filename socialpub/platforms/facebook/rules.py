"""Rules of Facebook Pages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from socialpub.platforms.contract import Draft, MediaFacts, MediaLimits, Rule, RuleCheck, RuleInput, RuleViolation
from socialpub.platforms.kit.checks import (
    CheckedValue,
    is_web_url,
    limit_number,
    matches,
    max_characters,
    media_count,
    not_blank,
    not_mixed,
    option,
)
from socialpub.platforms.kit.media_checks import (
    MIB,
    aspect_ratio,
    codecs,
    duration_max,
    files,
    frame_rate,
    is_within_limit,
    measured,
    size_max,
    types,
)
from socialpub.platforms.kit.rule_catalog import build_fetch_rule, build_no_documents_rule, build_no_threads_rule

_DOCS = "developers.facebook.com/docs/graph-api/reference/page/"
_FEED, _PHOTOS, _VIDEOS = _DOCS + "feed", _DOCS + "photos", _DOCS + "videos"
_STORIES = "developers.facebook.com/docs/page-stories-api"
_ERRORS = "developers.facebook.com/docs/graph-api/guides/error-handling"
_PNG_ADVISED = 1_000_000
_STORY_MS, _STORY_SIDES = (3_000, 60_000), (540, 960)
MEDIA = MediaLimits(
    images=10,
    videos=1,
    mixed=False,
    types=("image/jpeg", "image/png", "image/gif", "image/webp", "video/mp4", "video/quicktime", "video/webm"),
)
TEXT_MAX = 63_206


def is_story(draft: Draft) -> bool:
    """Return whether the draft is published as a story."""
    return bool(draft.options.get("story"))


def is_undatable(draft: Draft) -> bool:
    """Return whether the draft is published by a call that takes no time: a story or a video."""
    return is_story(draft) or any(item.kind == "video" for item in draft.items)


def _is_one_item(rule: Rule, subject: RuleInput) -> Iterable[RuleViolation]:
    found = len(subject.draft.items)
    return (RuleViolation(f"This one has {found}."),) if is_story(subject.draft) and found != limit_number(rule) else ()


def _story_videos(subject: RuleInput) -> Iterable[CheckedValue[MediaFacts]]:
    return files("video")(subject) if is_story(subject.draft) else ()


def _story_duration() -> RuleCheck:
    low, high = _STORY_MS[0] - 100, _STORY_MS[1] + 100
    return measured(
        _story_videos, "a duration of {} ms", lambda facts: facts.duration_ms, lambda _, found: low <= found <= high
    )


def _is_large_enough(_: Rule, found: tuple[int, int]) -> bool:
    return min(found) >= _STORY_SIDES[0] and max(found) >= _STORY_SIDES[1]


def _sides(facts: MediaFacts) -> tuple[int, int] | None:
    return (facts.width, facts.height) if facts.width and facts.height else None


def _has_more(subject: RuleInput) -> bool:
    return bool(subject.draft.items) or "link" in subject.draft.options


def _image_size_advised(rule: Rule, subject: RuleInput) -> Iterator[RuleViolation]:
    for piece in files("image")(subject):
        advised = _PNG_ADVISED if piece.value.content_type == "image/png" else rule.limit
        if isinstance(advised, int) and piece.value.size > advised:
            yield RuleViolation(f"{piece.name} has {piece.value.size:,} bytes.", piece.item)


RULES: tuple[Rule, ...] = (
    Rule(
        "facebook.text.required",
        "cheap",
        "A Facebook post needs text, media or a link.",
        "Write some text, add media, or give `options.link`.",
        _FEED,
        not_blank(unless=_has_more),
    ),
    Rule(
        "facebook.text.max_graphemes",
        "cheap",
        "Facebook accepts at most {limit} characters of text.",
        "Shorten the text for this target.",
        "no official number; the one that every publishing tool uses",
        max_characters(),
        TEXT_MAX,
        "graphemes",
    ),
    Rule(
        "facebook.link.http",
        "cheap",
        "The link of a Facebook post must be an absolute http or https URL.",
        "Give `options.link` as https://…",
        _FEED,
        matches(is_web_url, option("link")),
    ),
    Rule(
        "facebook.media.image_video_exclusive",
        "cheap",
        "A Facebook post can have images or a video, not both.",
        "Remove the images or the video.",
        _FEED,
        not_mixed,
    ),
    Rule(
        "facebook.media.count_max",
        "cheap",
        "A Facebook post can have at most {limit} video.",
        "Remove videos, or publish them in separate posts.",
        _VIDEOS,
        media_count("video"),
        MEDIA["videos"],
        "items",
    ),
    Rule(
        "facebook.media.count_advised",
        "cheap",
        "Facebook documents no limit, but may refuse more than {limit} images in one post.",
        "Use fewer images.",
        "no official number; common practice",
        media_count("image"),
        MEDIA["images"],
        "items",
        severity="warning",
    ),
    Rule(
        "facebook.story.media_count",
        "cheap",
        "A story on Facebook has {limit} image or video.",
        "Publish each image or video as a separate story, or leave `options.story` out.",
        _STORIES,
        _is_one_item,
        1,
        "media items",
    ),
    build_no_documents_rule("facebook", "Facebook", _FEED),
    Rule(
        "facebook.media.mime_allowed",
        "deep",
        "Facebook accepts JPEG, PNG, GIF and WebP images, and MP4, QuickTime and WebM videos.",
        "Convert the file.",
        _PHOTOS,
        types(),
        MEDIA["types"],
    ),
    Rule(
        "facebook.media.mime_advised",
        "deep",
        "WebP and WebM are not in Meta's list of formats; Facebook may refuse them.",
        "Convert the image to JPEG or PNG, the video to MP4.",
        _PHOTOS,
        types(),
        ("image/jpeg", "image/png", "image/gif", "video/mp4", "video/quicktime"),
        severity="warning",
    ),
    Rule(
        "facebook.media.image_size_max",
        "deep",
        "An image on Facebook can be at most {limit} bytes (10 MB).",
        "Scale the image down or compress it more.",
        _PHOTOS,
        size_max(files("image"), decimal=10_000_000),
        10 * MIB,
        "bytes",
    ),
    Rule(
        "facebook.media.image_size_advised",
        "deep",
        "Facebook advises at most {limit} bytes for an image, and 1,000,000 for a PNG.",
        "Scale the image down or compress it more.",
        _PHOTOS,
        _image_size_advised,
        4_000_000,
        "bytes",
        severity="warning",
    ),
    Rule(
        "facebook.media.video_size_advised",
        "deep",
        "Facebook reportedly accepts videos of up to {limit} bytes (10 GB).",
        "Compress the video more or shorten it.",
        "no official number; common practice",
        measured(files("video"), "a size of {:,} bytes", lambda facts: facts.size, is_within_limit),
        10_000_000_000,
        "bytes",
        severity="warning",
    ),
    Rule(
        "facebook.video.duration_advised",
        "deep",
        "Facebook reportedly accepts videos of up to {limit} seconds (240 minutes).",
        "Shorten the video.",
        "no official number; common practice",
        duration_max(files("video")),
        14_400,
        "seconds",
        severity="warning",
    ),
    Rule(
        "facebook.story.video_duration",
        "deep",
        "A video in a story on Facebook must last {limit} seconds.",
        "Shorten the video, or leave `options.story` out.",
        _STORIES,
        _story_duration(),
        "3 to 60",
        "seconds",
    ),
    Rule(
        "facebook.story.video_dimensions",
        "deep",
        "A video in a story on Facebook must have at least {limit} pixels.",
        "Use a larger video (1080 by 1920 is advised), or leave `options.story` out.",
        _STORIES,
        measured(_story_videos, "dimensions of {0[0]:,} by {0[1]:,}", _sides, _is_large_enough),
        "540 by 960",
        "pixels",
    ),
    Rule(
        "facebook.story.video_aspect_ratio",
        "deep",
        "A video in a story on Facebook must be between {limit} (width to height).",
        "Crop the video to 9:16, or leave `options.story` out.",
        _STORIES,
        aspect_ratio(_story_videos, 9 / 16, 16 / 9),
        "9:16 and 16:9",
    ),
    Rule(
        "facebook.story.video_frame_rate",
        "deep",
        "A video in a story on Facebook must have {limit} frames per second.",
        "Re-encode the video at 30 frames per second, or leave `options.story` out.",
        _STORIES,
        frame_rate(_story_videos, 24, 60),
        "24 to 60",
        "frames/s",
    ),
    Rule(
        "facebook.story.video_codec",
        "deep",
        "A video in a story on Facebook must be H.264, HEVC, VP9 or AV1.",
        "Re-encode the video as H.264, or leave `options.story` out.",
        _STORIES,
        codecs(_story_videos),
        ("h264", "hevc", "vp9", "av1"),
    ),
    build_no_threads_rule("facebook", "Facebook", _FEED),
    build_fetch_rule("facebook.media.reachable"),
    Rule(
        "facebook.link.reachable",
        "upstream",
        "Facebook could not read the page behind the link.",
        "Check that anyone can open the link and that it allows Facebook's crawler.",
        _FEED,
    ),
    Rule(
        "facebook.link.not_allowed",
        "upstream",
        "Facebook does not allow this link in a post.",
        "Use another link. Links to facebook.com itself are often rejected.",
        _FEED,
    ),
    Rule(
        "facebook.post.duplicate",
        "upstream",
        "Facebook says that the Page has just published the same post.",
        "Check the Page. To publish again, change the text.",
        _ERRORS,
    ),
    Rule(
        "facebook.media.invalid",
        "upstream",
        "Facebook could not use the file.",
        "Check that the file opens, and re-encode it as JPEG, PNG or MP4.",
        _ERRORS,
    ),
    Rule(
        "facebook.media.already_posted",
        "upstream",
        "Facebook says that this file has been published before.",
        "Use another file, or export this one again.",
        _ERRORS,
    ),
    Rule(
        "facebook.content.flagged",
        "upstream",
        "Facebook considers the post abusive or spam.",
        "Change the content. Links and repeated texts are the usual cause.",
        _ERRORS,
    ),
    Rule(
        "facebook.account.blocked",
        "upstream",
        "Facebook has blocked posting for this Page or its manager for a while.",
        "Look for notices in the Page's support inbox, and wait before publishing again.",
        _ERRORS,
    ),
    Rule(
        "facebook.page.authorization_required",
        "upstream",
        "Facebook requires the Page's manager to confirm their identity before the Page may publish.",
        "Complete Page Publishing Authorization on Facebook, then reconnect the account.",
        _ERRORS,
        code="platform_auth_failed",
    ),
    Rule(
        "facebook.pages.none",
        "connect",
        "This login has no Facebook Page on which it may create content.",
        "Choose the Page in Facebook's dialog, with a user who has full access or the task CREATE_CONTENT; for a Page "
        "of a business portfolio, allow business_management, too.",
        "developers.facebook.com/documentation/pages-api/getting-started",
    ),
)
