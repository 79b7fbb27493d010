"""Rules of X."""

from __future__ import annotations

from collections.abc import Iterator

from socialpub.platforms.contract import ConnectorAccount, MediaFacts, MediaLimits, Rule, RuleInput, RuleViolation
from socialpub.platforms.kit.checks import (
    CheckedValue,
    alt_texts,
    at_most,
    has_media,
    max_characters,
    media_count,
    not_blank,
    not_mixed,
    require,
)
from socialpub.platforms.kit.media_checks import (
    GIB,
    MIB,
    Dimensions,
    animation,
    aspect_ratio,
    codecs,
    compute_area,
    duration_max,
    duration_min,
    files,
    find_dimensions,
    frame_rate_max,
    is_within_limit,
    measured,
    size_max,
    types,
    within,
)
from socialpub.platforms.kit.rule_catalog import build_fetch_rule, build_no_documents_rule
from socialpub.platforms.twitter.text import TEXT_MAX_PAID, find_cashtags, has_link, weighted_length

_DOCS = "docs.x.com/x-api/"
_MEDIA = _DOCS + "media/quickstart/best-practices"
_COUNTING = "docs.x.com/fundamentals/counting-characters"
_POSTS = _DOCS + "posts/manage-tweets/integrate"
_PRICES = _DOCS + "getting-started/pricing"
_IMAGES, _VIDEOS = files("image"), files("video")
_ODD = "\ufffe\ufeff\uffff"
_VIDEO_LEAST = 32
MEDIA = MediaLimits(
    images=4,
    videos=1,
    mixed=False,
    types=("image/jpeg", "image/png", "image/webp", "image/gif", "video/mp4", "video/quicktime", "video/webm"),
)
TEXT_MAX = 280


def is_paid(account: ConnectorAccount) -> bool:
    """Return whether the account had a paid subscription when it was connected."""
    return str(account.extra.get("subscriptionType") or "None").lower() != "none"


def text_max(account: ConnectorAccount) -> int:
    return TEXT_MAX_PAID if is_paid(account) else TEXT_MAX


def _frames(facts: MediaFacts) -> int | None:
    return animation(lambda gif: gif.frames)(facts)


def _gifs(subject: RuleInput) -> Iterator[CheckedValue[MediaFacts]]:
    yield from (piece for piece in _IMAGES(subject) if _frames(piece.value))


def _stills(subject: RuleInput) -> Iterator[CheckedValue[MediaFacts]]:
    yield from (piece for piece in _IMAGES(subject) if _frames(piece.value) == 0)


def _gif_alone(rule: Rule, subject: RuleInput) -> Iterator[RuleViolation]:
    if len(subject.draft.items) > 1:
        yield from measured(_IMAGES, "a frame count of {:,}", _frames, lambda _, frames: frames == 0)(rule, subject)


def _gif_pixels(facts: MediaFacts) -> int | None:
    pixels = compute_area(facts)
    return None if pixels is None or facts.frames is None else pixels * facts.frames


def _video_box(_: Rule, box: Dimensions) -> bool:
    return box.fits(1_280, 1_024) and min(box.width, box.height) >= _VIDEO_LEAST


def _ordinary_videos(rule: Rule, subject: RuleInput) -> Iterator[RuleViolation]:
    if not is_paid(subject.account):
        yield from duration_max(_VIDEOS)(rule, subject)


RULES: tuple[Rule, ...] = (
    Rule(
        "twitter.text.non_empty",
        "cheap",
        "A post on X without media needs text.",
        "Write some text, or add an image or a video.",
        _POSTS,
        not_blank(unless=has_media),
    ),
    Rule(
        "twitter.text.max_graphemes",
        "cheap",
        "A post on X can have at most {limit} characters as X counts them (25,000 with a paid subscription): "
        "emoji, Chinese, Japanese and Korean characters count 2, a link 23.",
        "Shorten the text for this target.",
        _COUNTING,
        at_most(weighted_length, limit=lambda subject: text_max(subject.account)),
        TEXT_MAX,
        "weighted",
    ),
    Rule(
        "twitter.text.cashtag_max",
        "cheap",
        "A post on X can have at most {limit} cashtag.",
        "Remove all but one `$SYMBOL`.",
        _POSTS,
        at_most(lambda text: len(find_cashtags(text))),
        1,
        "cashtags",
    ),
    Rule(
        "twitter.text.invalid_characters",
        "cheap",
        "X may refuse a text with U+FFFE, U+FEFF or U+FFFF.",
        "Remove these invisible characters.",
        "github.com/twitter/twitter-text, invalid characters",
        require(lambda subject: subject.draft.text.isascii() or not any(char in subject.draft.text for char in _ODD)),
        severity="warning",
    ),
    Rule(
        "twitter.text.url_surcharge",
        "cheap",
        "X charges 0.20 USD instead of 0.015 for a post with a link in its text.",
        "Leave the link out where it is not needed.",
        _PRICES,
        require(lambda subject: not has_link(subject.draft.text)),
        severity="warning",
    ),
    Rule(
        "twitter.media.image_video_exclusive",
        "cheap",
        "A post on X can have images or a video, not both.",
        "Remove the images or the video.",
        _MEDIA,
        not_mixed,
    ),
    Rule(
        "twitter.media.count_max",
        "cheap",
        "A post on X can have at most {limit} images, or 1 video.",
        "Remove media.",
        _MEDIA,
        media_count("image", videos=MEDIA["videos"]),
        MEDIA["images"],
        "items",
    ),
    Rule(
        "twitter.media.alt_text_max_graphemes",
        "cheap",
        "An alt text on X can have at most {limit} characters.",
        "Shorten the alt text.",
        _DOCS + "media/metadata-create",
        max_characters(alt_texts("image")),
        1_000,
        "graphemes",
    ),
    Rule(
        "twitter.media.gif_exclusive",
        "deep",
        "An animated GIF must be the only media in a post on X.",
        "Publish the animated GIF in a separate post.",
        _MEDIA,
        _gif_alone,
    ),
    build_no_documents_rule("twitter", "X", _MEDIA),
    Rule(
        "twitter.media.mime_allowed",
        "deep",
        "X accepts JPEG, PNG, WebP and GIF images, and MP4, QuickTime and WebM videos.",
        "Convert the file.",
        _MEDIA,
        types(),
        MEDIA["types"],
    ),
    Rule(
        "twitter.media.image_size_max",
        "deep",
        "An image on X can be at most {limit} bytes (5 MB).",
        "Scale the image down or compress it more.",
        _MEDIA,
        size_max(_stills, decimal=5_000_000),
        5 * MIB,
        "bytes",
    ),
    Rule(
        "twitter.media.gif_size_max",
        "deep",
        "An animated GIF on X can be at most {limit} bytes (15 MB).",
        "Shorten the animation or scale it down.",
        _MEDIA,
        size_max(_gifs, decimal=15_000_000),
        15 * MIB,
        "bytes",
    ),
    Rule(
        "twitter.gif.dimensions_max",
        "deep",
        "An animated GIF on X can have at most {limit} pixels.",
        "Scale the animation down.",
        _MEDIA,
        within(_gifs, 1_280, 1_080),
        "1,280 × 1,080",
        "pixels",
    ),
    Rule(
        "twitter.gif.frames_max",
        "deep",
        "An animated GIF on X can have at most {limit} frames.",
        "Shorten the animation.",
        _MEDIA,
        measured(_IMAGES, "a frame count of {:,}", _frames, is_within_limit),
        350,
        "frames",
    ),
    Rule(
        "twitter.gif.pixels_max",
        "deep",
        "An animated GIF on X can have at most {limit} pixels over all its frames.",
        "Shorten the animation or scale it down.",
        _MEDIA,
        measured(_IMAGES, "a pixel count of {:,}", animation(_gif_pixels), is_within_limit),
        300_000_000,
        "pixels",
    ),
    Rule(
        "twitter.media.video_size_max",
        "deep",
        "A video on X can be at most {limit} bytes (16 GB).",
        "Compress the video more or shorten it.",
        _MEDIA,
        size_max(_VIDEOS, decimal=16_000_000_000),
        16 * GIB,
        "bytes",
    ),
    Rule(
        "twitter.media.video_size_advised",
        "deep",
        "An older page of X gives {limit} bytes (512 MB) as the limit for a video.",
        "Compress the video more to be safe.",
        _MEDIA,
        measured(_VIDEOS, "a size of {:,} bytes", lambda facts: facts.size, is_within_limit),
        512_000_000,
        "bytes",
        severity="warning",
    ),
    Rule(
        "twitter.video.too_short",
        "deep",
        "A video on X must last at least {limit} seconds.",
        "Use a longer video.",
        _MEDIA,
        duration_min(_VIDEOS),
        0.5,
        "seconds",
    ),
    Rule(
        "twitter.video.too_long",
        "deep",
        "A video on X can last at most {limit} seconds, with any subscription.",
        "Shorten the video.",
        _MEDIA,
        duration_max(_VIDEOS),
        7_500,
        "seconds",
    ),
    Rule(
        "twitter.video.duration_advised",
        "deep",
        "An older page of X says {limit} seconds for the videos of ordinary accounts, a newer one 1,200.",
        "Shorten the video to be safe.",
        _MEDIA,
        _ordinary_videos,
        140,
        "seconds",
        severity="warning",
    ),
    Rule(
        "twitter.video.dimensions_advised",
        "deep",
        "X's documentation says {limit} pixels for a video.",
        "Scale the video down to be safe.",
        _MEDIA,
        measured(_VIDEOS, "dimensions of {}", find_dimensions, _video_box),
        "32 × 32 to 1,280 × 1,024",
        "pixels",
        severity="warning",
    ),
    Rule(
        "twitter.video.aspect_ratio",
        "deep",
        "A video on X must be between {limit} (width to height).",
        "Crop the video.",
        _MEDIA,
        aspect_ratio(_VIDEOS, 1 / 3, 3),
        "1:3 and 3:1",
    ),
    Rule(
        "twitter.video.frame_rate",
        "deep",
        "A video on X can have at most {limit} frames per second.",
        "Re-encode the video at 30 frames per second.",
        _MEDIA,
        frame_rate_max(_VIDEOS),
        60,
        "frames/s",
    ),
    Rule(
        "twitter.video.codec_advised",
        "deep",
        "X advises H.264 with AAC sound.",
        "Re-encode the video as H.264 with AAC.",
        _MEDIA,
        codecs(_VIDEOS, sound=True),
        ("h264", "aac"),
        severity="warning",
    ),
    build_fetch_rule("twitter.media.reachable"),
    Rule(
        "twitter.post.duplicate",
        "upstream",
        "X says that the account has just published the same post.",
        "Check the profile. To publish again, change the text.",
        _POSTS,
    ),
    Rule(
        "twitter.reply.not_allowed",
        "upstream",
        "X does not let this account reply to that post through its API.",
        "Reply only to posts that mention the account or that the account wrote.",
        _POSTS,
    ),
    Rule(
        "twitter.quote.not_allowed",
        "upstream",
        "X does not let this server's app quote posts.",
        "Leave `options.quoteTweetId` out and put the post's address into the text.",
        _POSTS,
    ),
    Rule(
        "twitter.credits.exhausted",
        "upstream",
        "The credits of this server's X app are used up.",
        "Ask the operator of this server to buy credits at console.x.com.",
        _PRICES,
        code="platform_unavailable",
    ),
    Rule(
        "twitter.app.not_enrolled",
        "upstream",
        "X does not let this server's app use the API.",
        "Ask the operator of this server to attach the app to a project at console.x.com.",
        _DOCS + "getting-started/getting-access",
        code="platform_unavailable",
    ),
    Rule(
        "twitter.account.suspended",
        "upstream",
        "X has suspended the account.",
        "Sign in on x.com, resolve it with X, then reconnect the account.",
        _POSTS,
        code="platform_auth_failed",
    ),
    Rule(
        "twitter.media.video_processing_failed",
        "upstream",
        "X could not process the video.",
        "Re-encode the video as H.264 with AAC in MP4.",
        _MEDIA,
    ),
    Rule(
        "twitter.media.processing_timeout",
        "upstream",
        "X did not finish processing the video in time.",
        "Publish the post again later, or make the video shorter.",
        _MEDIA,
        code="platform_unavailable",
    ),
)
