"""Rules of Instagram (API with Instagram Login)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from socialpub.platforms.contract import Draft, MediaLimits, Rule, RuleInput, RuleViolation
from socialpub.platforms.kit.checks import (
    alt_texts,
    at_most,
    is_web_url,
    limit_number,
    matches,
    max_characters,
    media_count,
    media_required,
    option,
    url_public,
)
from socialpub.platforms.kit.media_checks import (
    MIB,
    FileSelector,
    aspect_ratio,
    bit_rate_max,
    codecs,
    compute_ratio,
    duration_max,
    duration_min,
    every_file,
    files,
    frame_rate,
    option_image,
    same_shape,
    size_max,
    types,
    width_max,
)
from socialpub.platforms.kit.rule_catalog import build_fetch_rule, build_no_documents_rule, build_no_threads_rule
from socialpub.platforms.kit.text import find_hashtags, find_mentions

_MEDIA = "developers.facebook.com/documentation/instagram-platform/instagram-graph-api/reference/ig-user/media"
_GUIDE = "developers.facebook.com/documentation/instagram-platform/content-publishing"
_ERRORS = "developers.facebook.com/docs/instagram-platform/reference/error-codes"
_COVER = option_image("coverUrl")
MEDIA = MediaLimits(
    images=10,
    videos=10,
    mixed=True,
    types=("image/jpeg", "video/mp4", "video/quicktime"),
)
TEXT_MAX = 2_200
USER_TAGS_MAX = 20


def is_story(draft: Draft) -> bool:
    """Return whether the draft is published as a story."""
    return bool(draft.options.get("story"))


def is_reel(draft: Draft) -> bool:
    """Return whether the draft is published as a reel: a single video, and no story."""
    return not is_story(draft) and [item.kind for item in draft.items] == ["video"]


def _outside_stories(pick: FileSelector) -> FileSelector:
    return lambda subject: () if is_story(subject.draft) else pick(subject)


def _in_stories(pick: FileSelector) -> FileSelector:
    return lambda subject: pick(subject) if is_story(subject.draft) else ()


def _is_at_most_one(rule: Rule, subject: RuleInput) -> Iterable[RuleViolation]:
    found = len(subject.draft.items)
    return (RuleViolation(f"This one has {found}."),) if is_story(subject.draft) and found > limit_number(rule) else ()


def _count_collaborators(rule: Rule, subject: RuleInput) -> Iterable[RuleViolation]:
    found = len(subject.draft.options.get("collaborators", ()))
    return (RuleViolation(f"There are {found}."),) if found > limit_number(rule) else ()


def _check_thumb_offset(_: Rule, subject: RuleInput) -> Iterator[RuleViolation]:
    offset = subject.draft.options.get("thumbOffset")
    if offset is None or not is_reel(subject.draft):
        return
    for piece in files("video")(subject):
        if piece.value.duration_ms is not None and offset >= piece.value.duration_ms:
            yield RuleViolation(f"{piece.name} lasts {piece.value.duration_ms} ms.", piece.item)


_REEL: FileSelector = _outside_stories(files("video", only=True))


def _count_found(find: Callable[[str], list[str]]) -> Callable[[str], int]:
    return lambda text: len(find(text))


def _advised_hashtags(subject: RuleInput) -> int:
    return int(subject.site.hashtags_advised)


def _is_cover_url(url: str) -> bool:
    return is_web_url(url) and url.lower().startswith("https:") and url.isascii()


RULES: tuple[Rule, ...] = (
    Rule(
        "instagram.media.required",
        "cheap",
        "An Instagram post needs an image or a video.",
        "Add an image or a video.",
        _GUIDE,
        media_required,
    ),
    Rule(
        "instagram.text.max_graphemes",
        "cheap",
        "An Instagram caption can have at most {limit} characters.",
        "Shorten the text for this target.",
        _MEDIA,
        max_characters(),
        TEXT_MAX,
        "graphemes",
    ),
    Rule(
        "instagram.text.hashtag_max",
        "cheap",
        "An Instagram caption can have at most {limit} hashtags.",
        "Remove hashtags.",
        _MEDIA,
        at_most(_count_found(find_hashtags)),
        30,
        "hashtags",
    ),
    Rule(
        "instagram.text.hashtag_advised",
        "cheap",
        "Instagram announced in December 2025 that it allows about {limit} hashtags per post.",
        "Keep the hashtags that matter most.",
        "Instagram's announcement of December 2025, by the trade press; the API's documentation still says 30",
        at_most(_count_found(find_hashtags), limit=_advised_hashtags),
        5,
        "hashtags",
        severity="warning",
    ),
    Rule(
        "instagram.text.mention_max",
        "cheap",
        "An Instagram caption can mention at most {limit} accounts.",
        "Remove mentions.",
        _MEDIA,
        at_most(_count_found(find_mentions)),
        20,
        "mentions",
    ),
    Rule(
        "instagram.media.count_max",
        "cheap",
        "An Instagram post can have at most {limit} images and videos.",
        "Remove media.",
        _MEDIA,
        media_count("media item"),
        MEDIA["images"],
        "items",
    ),
    Rule(
        "instagram.media.alt_text_max_graphemes",
        "cheap",
        "An alt text on Instagram can have at most {limit} characters.",
        "Shorten the alt text.",
        _MEDIA,
        max_characters(alt_texts("image")),
        1_000,
        "graphemes",
    ),
    Rule(
        "instagram.media.url_public",
        "cheap",
        "Instagram fetches media itself, so the URL must be public, https and ASCII.",
        "Use a public https URL, or ask the operator of this server for a public https `server.base_url`.",
        _MEDIA,
        url_public,
    ),
    Rule(
        "instagram.cover_image_url.http",
        "cheap",
        "Instagram fetches the cover itself, so its URL must be absolute, https and ASCII.",
        "Give `options.coverUrl` as a public https URL.",
        _MEDIA,
        matches(_is_cover_url, option("coverUrl")),
    ),
    Rule(
        "instagram.story.media_count",
        "cheap",
        "A story on Instagram has {limit} image or video.",
        "Publish each image or video as a separate story, or leave `options.story` out.",
        _MEDIA,
        _is_at_most_one,
        1,
        "media items",
    ),
    Rule(
        "instagram.collaborators.count_max",
        "cheap",
        "A post on Instagram can have at most {limit} collaborators.",
        "Remove names from `options.collaborators`.",
        _MEDIA,
        _count_collaborators,
        3,
        "collaborators",
    ),
    build_no_documents_rule("instagram", "Instagram", _MEDIA),
    Rule(
        "instagram.media.mime_allowed",
        "deep",
        "Instagram accepts JPEG images, and MP4 and QuickTime videos.",
        "Convert the image to JPEG, the video to MP4.",
        _MEDIA,
        types(),
        MEDIA["types"],
    ),
    Rule(
        "instagram.media.image_size_max",
        "deep",
        "An image on Instagram can be at most {limit} bytes (8 MB).",
        "Scale the image down or compress it more.",
        _MEDIA,
        size_max(files("image"), decimal=8_000_000),
        8 * MIB,
        "bytes",
    ),
    Rule(
        "instagram.media.aspect_ratio",
        "deep",
        "A single image on Instagram must be between {limit} (width to height).",
        "Crop the image, or add a border.",
        _MEDIA,
        aspect_ratio(_outside_stories(files("image", only=True)), 4 / 5, 1.91),
        "4:5 and 1.91:1",
    ),
    Rule(
        "instagram.media.aspect_ratio_advised",
        "deep",
        "Instagram crops every item of a carousel to the shape of the first.",
        "Give all items the same shape.",
        _GUIDE,
        same_shape(every_file, "an aspect ratio of {:.3f}:1", compute_ratio, lambda a, b: 0.99 <= a / b <= 1.01),
        severity="warning",
    ),
    Rule(
        "instagram.media.video_size_max",
        "deep",
        "A video on Instagram can be at most {limit} bytes (300 MB).",
        "Compress the video more or shorten it.",
        _MEDIA,
        size_max(files("video"), decimal=300_000_000),
        300 * MIB,
        "bytes",
    ),
    Rule(
        "instagram.video.too_short",
        "deep",
        "A video on Instagram must last at least {limit} seconds.",
        "Use a longer video.",
        _MEDIA,
        duration_min(_REEL),
        3,
        "seconds",
    ),
    Rule(
        "instagram.video.too_long",
        "deep",
        "A video on Instagram can last at most {limit} seconds.",
        "Shorten the video.",
        _MEDIA,
        duration_max(_REEL),
        900,
        "seconds",
    ),
    Rule(
        "instagram.video.codec",
        "deep",
        "A video on Instagram must be H.264 or HEVC, with AAC sound or none.",
        "Re-encode the video as H.264 with AAC.",
        _MEDIA,
        codecs(files("video"), sound=True),
        ("h264", "hevc", "aac"),
    ),
    Rule(
        "instagram.video.frame_rate",
        "deep",
        "A video on Instagram must have {limit} frames per second.",
        "Re-encode the video at 30 frames per second.",
        _MEDIA,
        frame_rate(_REEL, 23, 60),
        "23 to 60",
        "frames/s",
    ),
    Rule(
        "instagram.video.width_max",
        "deep",
        "A video on Instagram can be at most {limit} pixels wide.",
        "Scale the video down.",
        _MEDIA,
        width_max(_REEL),
        1_920,
        "pixels",
    ),
    Rule(
        "instagram.video.bitrate_max",
        "deep",
        "A video on Instagram can have at most {limit} bits per second.",
        "Re-encode the video at a lower bit rate.",
        _MEDIA,
        bit_rate_max(_REEL),
        25_000_000,
        "bits/s",
    ),
    Rule(
        "instagram.video.aspect_ratio",
        "deep",
        "A video on Instagram must be between {limit} (width to height).",
        "Crop the video; 9:16 is advised.",
        _MEDIA,
        aspect_ratio(_REEL, 0.01, 10),
        "0.01:1 and 10:1",
    ),
    Rule(
        "instagram.thumb_offset.range",
        "deep",
        "The cover of a reel must be within the video.",
        "Set `options.thumbOffset` to fewer milliseconds than the video lasts.",
        _ERRORS,
        _check_thumb_offset,
    ),
    Rule(
        "instagram.story.video_too_short",
        "deep",
        "A video in a story on Instagram must last at least {limit} seconds.",
        "Use a longer video, or leave `options.story` out.",
        _MEDIA,
        duration_min(_in_stories(files("video"))),
        3,
        "seconds",
    ),
    Rule(
        "instagram.story.video_too_long",
        "deep",
        "A video in a story on Instagram can last at most {limit} seconds.",
        "Shorten the video, or leave `options.story` out.",
        _MEDIA,
        duration_max(_in_stories(files("video"))),
        60,
        "seconds",
    ),
    Rule(
        "instagram.story.video_size_max",
        "deep",
        "A video in a story on Instagram can be at most {limit} bytes (100 MB).",
        "Compress the video more, or leave `options.story` out.",
        _MEDIA,
        size_max(_in_stories(files("video")), decimal=100_000_000),
        100 * MIB,
        "bytes",
    ),
    Rule(
        "instagram.story.video_aspect_ratio",
        "deep",
        "A video in a story on Instagram must be between {limit} (width to height).",
        "Crop the video to 9:16, or leave `options.story` out.",
        _MEDIA,
        aspect_ratio(_in_stories(files("video")), 0.1, 10),
        "0.1:1 and 10:1",
    ),
    Rule(
        "instagram.cover_image.mime_allowed",
        "deep",
        "The cover of a video on Instagram must be a JPEG.",
        "Convert the image of `options.coverUrl` to JPEG.",
        _MEDIA,
        types(_COVER),
        ("image/jpeg",),
    ),
    Rule(
        "instagram.cover_image.size_max",
        "deep",
        "The cover of a video on Instagram can be at most {limit} bytes (8 MB).",
        "Scale the image of `options.coverUrl` down or compress it more.",
        _MEDIA,
        size_max(_COVER, decimal=8_000_000),
        8 * MIB,
        "bytes",
    ),
    build_no_threads_rule("instagram", "Instagram", _GUIDE),
    build_fetch_rule("instagram.media.reachable"),
    Rule(
        "instagram.container.error",
        "upstream",
        "Instagram could not process the media.",
        "Read Instagram's response in `platformResponse`. Usually another encoding helps.",
        _ERRORS,
    ),
    Rule(
        "instagram.container.expired",
        "upstream",
        "The upload was not published within 24 hours, and Instagram has dropped it.",
        "Publish the post again.",
        _ERRORS,
        code="platform_unavailable",
    ),
    Rule(
        "instagram.account.daily_cap",
        "upstream",
        "The account has published as often as Instagram's API allows in 24 hours.",
        "Publish the post tomorrow.",
        "developers.facebook.com/docs/instagram-platform/instagram-graph-api/reference/ig-user/content_publishing_limit",
    ),
    Rule(
        "instagram.account.restricted",
        "upstream",
        "Instagram has restricted the account.",
        "Open the Instagram app with this account and do what it asks.",
        _ERRORS,
    ),
    Rule(
        "instagram.account.spam_suspected",
        "upstream",
        "Instagram considers the post, or how often the account posts, to be spam.",
        "Change the content and wait before publishing again.",
        _ERRORS,
    ),
    Rule(
        "instagram.account_type.requires_professional",
        "connect",
        "Instagram's API publishes for professional accounts only; this one is personal.",
        "Switch the account to Business or Creator in the Instagram app, then connect it again.",
        _GUIDE,
        code="platform_auth_failed",
    ),
)
