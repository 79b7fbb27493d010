"""Rules of TikTok (drafts in the creator's inbox)."""

from __future__ import annotations

from collections.abc import Iterator

from socialpub.platforms.contract import MediaLimits, Rule, RuleInput, RuleViolation
from socialpub.platforms.kit.checks import (
    CheckedValue,
    find_pull_url,
    has_images,
    has_video,
    limit_number,
    max_utf16,
    media_count,
    media_required,
    not_mixed,
    option,
    post_text,
)
from socialpub.platforms.kit.media_checks import (
    GIB,
    MIB,
    Dimensions,
    aspect_ratio,
    codecs,
    duration_max,
    duration_min,
    files,
    find_dimensions,
    frame_rate,
    measured,
    size_max,
    types,
    within,
)
from socialpub.platforms.kit.rule_catalog import build_fetch_rule, build_no_documents_rule, build_no_threads_rule

_PHOTO = "developers.tiktok.com/doc/content-posting-api-reference-photo-post"
_VIDEO = "developers.tiktok.com/doc/content-posting-api-reference-upload-video"
_MEDIA = "developers.tiktok.com/doc/content-posting-api-media-transfer-guide"
_STATUS = "developers.tiktok.com/doc/content-posting-api-reference-get-video-status"
_VIDEOS = files("video")
_SIDES = (360, 4_096)
MEDIA = MediaLimits(
    images=35,
    videos=1,
    mixed=False,
    types=("image/jpeg", "image/webp", "video/mp4", "video/quicktime", "video/webm"),
)
TEXT_MAX = 4_000


def _description(subject: RuleInput) -> list[CheckedValue[str]]:
    return list(post_text(subject)) if has_images(subject) else []


def _pasted(subject: RuleInput) -> list[CheckedValue[str]]:
    return list(post_text(subject)) if has_video(subject) else []


def _url_verified(_: Rule, subject: RuleInput) -> Iterator[RuleViolation]:
    for index, item in enumerate(subject.draft.items):
        url = find_pull_url(item, subject.around)
        secure = url.lower().startswith("https://") or subject.around.allow_private_networks
        if item.kind == "image" and not (secure and _under_verified(subject, item.url, url)):
            yield RuleViolation(f"Media item {index + 1} would be fetched from {url[:200]!r}.", index)


def _under_verified(subject: RuleInput, own: str | None, url: str) -> bool:
    """Check the URL prefixes; a file without URL gets one below our origin, which decides then."""
    prefixes = tuple(subject.site.verified_url_prefixes)
    if not prefixes or url.startswith(prefixes):
        return True
    return not own and any(prefix.startswith(f"{url}/") for prefix in prefixes)


def _pending(rule: Rule, subject: RuleInput) -> Iterator[RuleViolation]:
    if subject.around.recent_posts >= limit_number(rule):
        yield RuleViolation(f"This server has sent {subject.around.recent_posts}.")


def _sides_fit(_: Rule, box: Dimensions) -> bool:
    return all(_SIDES[0] <= side <= _SIDES[1] for side in (box.width, box.height))


RULES: tuple[Rule, ...] = (
    Rule(
        "tiktok.media.required",
        "cheap",
        "A TikTok post needs photos or a video.",
        "Add photos or a video.",
        _VIDEO,
        media_required,
    ),
    Rule(
        "tiktok.media.image_video_exclusive",
        "cheap",
        "A TikTok post can have photos or a video, not both.",
        "Remove the photos or the video.",
        _PHOTO,
        not_mixed,
    ),
    Rule(
        "tiktok.media.count_max",
        "cheap",
        "A TikTok post can have at most {limit} photos, or 1 video.",
        "Remove media.",
        _PHOTO,
        media_count("image", videos=MEDIA["videos"]),
        MEDIA["images"],
        "items",
    ),
    Rule(
        "tiktok.text.max_chars",
        "cheap",
        "The description of TikTok photos (the text) can have at most {limit} UTF-16 units.",
        "Shorten the text for this target.",
        _PHOTO,
        max_utf16(_description),
        TEXT_MAX,
        "utf16",
    ),
    Rule(
        "tiktok.title.max_chars",
        "cheap",
        "The title of TikTok photos can have at most {limit} UTF-16 units.",
        "Shorten `options.title`.",
        _PHOTO,
        max_utf16(option("title", when=has_images)),
        90,
        "utf16",
    ),
    Rule(
        "tiktok.photo.url_verified",
        "cheap",
        "TikTok fetches photos itself, from an https URL under an address that the app's owner has verified.",
        "Upload the photo to this server, or ask the operator to verify the address with TikTok and add it to "
        "`platforms.tiktok.verified_url_prefixes`.",
        _MEDIA,
        _url_verified,
    ),
    Rule(
        "tiktok.text.chars_advised",
        "cheap",
        "A creator can paste at most {limit} UTF-16 units as the text of a video.",
        "Shorten the text for this target.",
        _VIDEO,
        max_utf16(_pasted),
        2_200,
        "utf16",
        severity="warning",
    ),
    Rule(
        "tiktok.inbox.pending_limit",
        "cheap",
        "TikTok keeps at most {limit} unconfirmed drafts in 24 hours for one creator.",
        "Ask the creator to confirm or discard the drafts in the TikTok app first.",
        _VIDEO,
        _pending,
        5,
        "drafts",
        severity="warning",
        needs_recent_posts=True,
    ),
    Rule(
        "tiktok.file_format.invalid",
        "deep",
        "TikTok accepts JPEG and WebP photos (no PNG), and MP4, QuickTime and WebM videos.",
        "Convert the photo to JPEG, the video to MP4.",
        _MEDIA,
        types(),
        MEDIA["types"],
    ),
    Rule(
        "tiktok.media.image_size_max",
        "deep",
        "A photo on TikTok can be at most {limit} bytes (20 MB).",
        "Scale the photo down or compress it more.",
        _MEDIA,
        size_max(files("image"), decimal=20_000_000),
        20 * MIB,
        "bytes",
    ),
    Rule(
        "tiktok.photo.resolution_advised",
        "deep",
        "TikTok recommends 1080p for photos: {limit} pixels, in either orientation.",
        "Scale the photo down.",
        _MEDIA,
        within(files("image"), 1_920, 1_080, turned=True),
        "1,920 × 1,080",
        "pixels",
        severity="warning",
    ),
    Rule(
        "tiktok.video.size_max",
        "deep",
        "A video on TikTok can be at most {limit} bytes (4 GB).",
        "Compress the video more or shorten it.",
        _MEDIA,
        size_max(_VIDEOS, decimal=4_000_000_000),
        4 * GIB,
        "bytes",
    ),
    Rule(
        "tiktok.video.too_long",
        "deep",
        "A video on TikTok can last at most {limit} seconds.",
        "Shorten the video.",
        _MEDIA,
        duration_max(_VIDEOS),
        600,
        "seconds",
    ),
    Rule(
        "tiktok.video.too_short",
        "deep",
        "A video on TikTok should last at least {limit} seconds.",
        "Use a longer video.",
        "no official number; common practice",
        duration_min(_VIDEOS),
        3,
        "seconds",
        severity="warning",
    ),
    Rule(
        "tiktok.video.codec",
        "deep",
        "A video on TikTok must be H.264, H.265, VP8 or VP9.",
        "Re-encode the video as H.264.",
        _MEDIA,
        codecs(_VIDEOS),
        ("h264", "hevc", "vp8", "vp9"),
    ),
    Rule(
        "tiktok.video.frame_rate",
        "deep",
        "A video on TikTok must have {limit} frames per second.",
        "Re-encode the video at 30 frames per second.",
        _MEDIA,
        frame_rate(_VIDEOS, 23, 60),
        "23 to 60",
        "frames/s",
    ),
    Rule(
        "tiktok.resolution.unsupported",
        "deep",
        "Each side of a video on TikTok must have {limit} pixels.",
        "Scale the video.",
        _MEDIA,
        measured(_VIDEOS, "dimensions of {}", find_dimensions, _sides_fit),
        "360 to 4,096",
        "pixels",
    ),
    Rule(
        "tiktok.video.aspect_unusual",
        "deep",
        "A video on TikTok is usually between {limit} (width to height).",
        "Crop the video; 9:16 fills the screen.",
        "no official number; common practice",
        aspect_ratio(_VIDEOS, 9 / 16, 16 / 9),
        "9:16 and 16:9",
        severity="warning",
    ),
    build_no_documents_rule("tiktok", "TikTok", _MEDIA),
    build_no_threads_rule("tiktok", "TikTok", _VIDEO),
    build_fetch_rule("tiktok.video.reachable"),
    build_fetch_rule("tiktok.photo.reachable"),
    Rule(
        "tiktok.upload.init_failed",
        "upstream",
        "TikTok did not start an upload.",
        "Read TikTok's response in `platformResponse`.",
        _VIDEO,
    ),
    Rule(
        "tiktok.upload.chunk_failed",
        "upstream",
        "TikTok rejected a part of the video.",
        "Publish the post again.",
        _MEDIA,
    ),
    Rule(
        "tiktok.publish.failed",
        "upstream",
        "TikTok could not process the draft.",
        "Read TikTok's response in `platformResponse`. Usually another encoding helps.",
        _STATUS,
    ),
    Rule(
        "tiktok.publish.pending",
        "upstream",
        "TikTok did not finish processing the draft within {limit} minutes.",
        "Check the creator's TikTok inbox before publishing again.",
        _STATUS,
        limit=30,
        unit="minutes",
        code="platform_unavailable",
    ),
    Rule(
        "tiktok.rate_limited",
        "upstream",
        "TikTok limits the requests for this creator at the moment.",
        "Publish the post again later.",
        _VIDEO,
        code="platform_unavailable",
    ),
    Rule(
        "tiktok.active_user_cap",
        "upstream",
        "TikTok lets this server's app publish for only a few creators a day until it is audited.",
        "Publish the post tomorrow, or ask the operator to get the app audited.",
        _VIDEO,
        code="platform_unavailable",
    ),
    Rule(
        "tiktok.app_version.too_old",
        "upstream",
        "The creator's TikTok app is too old to receive drafts.",
        "Ask the creator to update the TikTok app.",
        _VIDEO,
    ),
    Rule(
        "tiktok.account.blocked",
        "upstream",
        "TikTok has stopped the creator from posting for a while.",
        "Ask the creator to check the notices in the TikTok app, and wait.",
        _VIDEO,
    ),
)
