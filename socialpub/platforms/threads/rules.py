"""Rules of Threads."""

from __future__ import annotations

from collections.abc import Iterable

from socialpub.platforms.contract import MediaLimits, Rule, RuleInput, RuleViolation
from socialpub.platforms.kit.checks import (
    alt_texts,
    at_most,
    has_media,
    is_web_url,
    limit_number,
    matches,
    max_characters,
    media_count,
    not_blank,
    option,
    url_public,
)
from socialpub.platforms.kit.lazy_patterns import compile_lazily
from socialpub.platforms.kit.media_checks import (
    GIB,
    MIB,
    aspect_ratio,
    bit_rate_max,
    codecs,
    duration_max,
    files,
    frame_rate,
    size_max,
    types,
    width_max,
)
from socialpub.platforms.kit.rule_catalog import build_fetch_rule, build_no_documents_rule
from socialpub.platforms.kit.text import find_links, is_blank, split_clusters, utf8_bytes

_POSTS = "developers.facebook.com/documentation/threads/posts"
_OVERVIEW = "developers.facebook.com/documentation/threads/overview"
_PUBLISHING = "developers.facebook.com/docs/threads/reference/publishing"
_ERRORS = "developers.facebook.com/docs/threads/troubleshooting"
_VIDEOS = files("video")
MEDIA = MediaLimits(
    images=20,
    videos=20,
    mixed=True,
    types=("image/jpeg", "image/png", "video/mp4", "video/quicktime"),
)
TEXT_MAX = 500
_EMOJI_CLUSTER = compile_lazily(r"\p{Emoji_Presentation}|\p{Emoji}\ufe0f|\u20e3|\p{Regional_Indicator}")


def threads_length(text: str) -> int:
    """Measure as Threads: an emoji cluster counts its UTF-8 bytes, any other one.

    Source: developers.facebook.com/documentation/threads/posts ("emojis are counted as the number of UTF-8 bytes").
    """
    return sum(utf8_bytes(part) if _EMOJI_CLUSTER.search(part) else 1 for part in split_clusters(text))


def threads_length_strict(text: str) -> int:
    """Measure strictly: other clusters count their code points, as the docs may also mean."""
    return sum(utf8_bytes(part) if _EMOJI_CLUSTER.search(part) else len(part) for part in split_clusters(text))


def _count_links(rule: Rule, subject: RuleInput) -> Iterable[RuleViolation]:
    """Count the different links of the text and the card."""
    attached = subject.draft.options.get("linkAttachment")
    found = len(set(find_links(subject.draft.text)) | ({attached} if attached else set()))
    return (RuleViolation(f"This one has {found}."),) if found > limit_number(rule) else ()


def _is_topic(tag: str) -> bool:
    return not is_blank(tag) and not any(char in ".&" for char in tag)


def _link_alone(_: Rule, subject: RuleInput) -> Iterable[RuleViolation]:
    return (RuleViolation(),) if subject.draft.items and "linkAttachment" in subject.draft.options else ()


RULES: tuple[Rule, ...] = (
    Rule(
        "threads.text.required",
        "cheap",
        "A Threads post without media needs text.",
        "Write some text, or add an image or a video.",
        _PUBLISHING,
        not_blank(unless=has_media),
    ),
    Rule(
        "threads.text.max_graphemes",
        "cheap",
        "A Threads post can have at most {limit} characters; an emoji counts as its number of UTF-8 bytes.",
        "Shorten the text for this target, or use fewer emoji.",
        _POSTS,
        at_most(threads_length, strict=threads_length_strict),
        TEXT_MAX,
        "characters",
    ),
    Rule(
        "threads.text.link_max",
        "cheap",
        "A Threads post can have at most {limit} different links.",
        "Remove links. `options.linkAttachment` counts as one that is not in the text.",
        _POSTS,
        _count_links,
        5,
        "links",
    ),
    Rule(
        "threads.topic_tag.max_graphemes",
        "cheap",
        "A topic on Threads can have at most {limit} characters.",
        "Shorten `options.topicTag`.",
        _POSTS,
        max_characters(option("topicTag")),
        50,
        "graphemes",
    ),
    Rule(
        "threads.topic_tag.format",
        "cheap",
        "A topic on Threads cannot be blank, and cannot contain a full stop or `&`.",
        "Change `options.topicTag`, or leave it out.",
        _POSTS,
        matches(_is_topic, option("topicTag")),
    ),
    Rule(
        "threads.link_attachment.http",
        "cheap",
        "The link of a Threads post must be an absolute http or https URL.",
        "Give `options.linkAttachment` as https://…",
        _POSTS,
        matches(is_web_url, option("linkAttachment")),
    ),
    Rule(
        "threads.link_attachment.text_only",
        "cheap",
        "A Threads post with media can have no link card.",
        "Remove `options.linkAttachment`, or the media.",
        _POSTS,
        _link_alone,
    ),
    Rule(
        "threads.media.count_max",
        "cheap",
        "A Threads post can have at most {limit} images and videos.",
        "Remove media.",
        _POSTS,
        media_count("media item"),
        MEDIA["images"],
        "items",
    ),
    Rule(
        "threads.media.alt_text_max_graphemes",
        "cheap",
        "An alt text on Threads can have at most {limit} characters.",
        "Shorten the alt text.",
        _PUBLISHING,
        max_characters(alt_texts("image", "video")),
        1_000,
        "graphemes",
    ),
    Rule(
        "threads.media.url_public",
        "cheap",
        "Threads fetches media itself, so the URL must be public, https and ASCII.",
        "Use a public https URL, or ask the operator of this server for a public https `server.base_url`.",
        _POSTS,
        url_public,
    ),
    build_no_documents_rule("threads", "Threads", _POSTS),
    Rule(
        "threads.media.mime_allowed",
        "deep",
        "Threads accepts JPEG and PNG images, and MP4 and QuickTime videos.",
        "Convert the image to JPEG or PNG, the video to MP4.",
        _OVERVIEW,
        types(),
        MEDIA["types"],
    ),
    Rule(
        "threads.media.image_size_max",
        "deep",
        "An image on Threads can be at most {limit} bytes (8 MB).",
        "Scale the image down or compress it more.",
        _OVERVIEW,
        size_max(files("image"), decimal=8_000_000),
        8 * MIB,
        "bytes",
    ),
    Rule(
        "threads.media.aspect_ratio",
        "deep",
        "An image on Threads must be between {limit} (width to height).",
        "Crop the image.",
        _OVERVIEW,
        aspect_ratio(files("image"), 1 / 10, 10),
        "1:10 and 10:1",
    ),
    Rule(
        "threads.media.video_size_max",
        "deep",
        "A video on Threads can be at most {limit} bytes (1 GB).",
        "Compress the video more or shorten it.",
        _OVERVIEW,
        size_max(_VIDEOS, decimal=1_000_000_000),
        GIB,
        "bytes",
    ),
    Rule(
        "threads.video.too_long",
        "deep",
        "A video on Threads can last at most {limit} seconds.",
        "Shorten the video.",
        _OVERVIEW,
        duration_max(_VIDEOS),
        300,
        "seconds",
    ),
    Rule(
        "threads.video.codec",
        "deep",
        "A video on Threads must be H.264 or HEVC, with AAC sound or none.",
        "Re-encode the video as H.264 with AAC.",
        _OVERVIEW,
        codecs(_VIDEOS, sound=True),
        ("h264", "hevc", "aac"),
    ),
    Rule(
        "threads.video.frame_rate",
        "deep",
        "A video on Threads must have {limit} frames per second.",
        "Re-encode the video at 30 frames per second.",
        _OVERVIEW,
        frame_rate(_VIDEOS, 23, 60),
        "23 to 60",
        "frames/s",
    ),
    Rule(
        "threads.video.width_max",
        "deep",
        "A video on Threads can be at most {limit} pixels wide.",
        "Scale the video down.",
        _OVERVIEW,
        width_max(_VIDEOS),
        1_920,
        "pixels",
    ),
    Rule(
        "threads.video.bitrate_max",
        "deep",
        "A video on Threads can have at most {limit} bits per second.",
        "Re-encode the video at a lower bit rate.",
        _OVERVIEW,
        bit_rate_max(_VIDEOS),
        100_000_000,
        "bits/s",
    ),
    Rule(
        "threads.video.aspect_ratio",
        "deep",
        "A video on Threads must be between {limit} (width to height).",
        "Crop the video; 9:16 is advised.",
        _OVERVIEW,
        aspect_ratio(_VIDEOS, 0.01, 10),
        "0.01:1 and 10:1",
    ),
    build_fetch_rule("threads.media.reachable"),
    Rule(
        "threads.container.error",
        "upstream",
        "Threads could not process the media.",
        "Read Threads' response in `platformResponse`. Usually another encoding helps.",
        _ERRORS,
    ),
    Rule(
        "threads.container.expired",
        "upstream",
        "The upload was not published within 24 hours, and Threads has dropped it.",
        "Publish the post again.",
        _ERRORS,
        code="platform_unavailable",
    ),
    Rule(
        "threads.account.restricted",
        "upstream",
        "Threads has restricted the account.",
        "Open the Threads app with this account and do what it asks.",
        _ERRORS,
    ),
    Rule(
        "threads.account.daily_cap",
        "upstream",
        "The account has published as often as Threads allows in 24 hours (250 posts, 1,000 replies).",
        "Publish the post tomorrow.",
        _OVERVIEW,
    ),
)
