"""Rules of Pinterest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from socialpub.platforms.contract import MediaLimits, Rule, RuleInput, RuleViolation
from socialpub.platforms.kit.checks import (
    CheckedValue,
    alt_texts,
    at_most,
    is_own_url_public,
    is_web_url,
    matches,
    max_characters,
    max_utf16,
    media_count,
    media_required,
    not_mixed,
    option,
    require,
)
from socialpub.platforms.kit.media_checks import (
    GIB,
    MIB,
    aspect_ratio,
    choices,
    duration_max,
    duration_min,
    files,
    find_dimensions,
    make_type_violation,
    same_shape,
    size_max,
    types,
)
from socialpub.platforms.kit.rule_catalog import build_fetch_rule, build_no_documents_rule, build_no_threads_rule
from socialpub.platforms.kit.text import graphemes

_API = "github.com/pinterest/api-description v5/openapi.json, POST /pins"
_HELP = "help.pinterest.com product specs"
_ACCESS = "developers.pinterest.com/docs/getting-started/connect-app"
_BY_URL_ONLY = ("image/webp", "image/gif")
_IMAGE_TYPES, _VIDEO_TYPES = ("image/jpeg", "image/png", "image/webp", "image/gif"), ("video/mp4", "video/quicktime")
MEDIA = MediaLimits(
    images=5,
    videos=1,
    mixed=False,
    types=(*_IMAGE_TYPES, *_VIDEO_TYPES),
)
TEXT_MAX = 800


def _has_board(subject: RuleInput) -> bool:
    return "boardId" in subject.draft.options or bool(subject.account.extra.get("defaultBoardId"))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _alt_text(subject: RuleInput) -> Iterable[CheckedValue[str]]:
    first = [piece for piece in alt_texts("image", "video")(subject) if piece.item == 0]
    return list(option("altText")(subject)) or first


def _image_types(rule: Rule, subject: RuleInput) -> Iterator[RuleViolation]:
    """Check image types: WebP and GIF only if Pinterest fetches the image itself."""
    for piece in files("image")(subject):
        item = subject.draft.items[piece.item or 0]
        fetched = is_own_url_public(subject.around) if item.stored or not item.url else True
        allowed = choices(rule) if fetched else [each for each in choices(rule) if each not in _BY_URL_ONLY]
        if piece.value.content_type not in allowed:
            yield make_type_violation(piece)


RULES: tuple[Rule, ...] = (
    Rule(
        "pinterest.board.required",
        "cheap",
        "A pin needs a board.",
        "Give `options.boardId`, or set a default board for the account.",
        _API,
        require(_has_board),
    ),
    Rule(
        "pinterest.board.format",
        "cheap",
        "A board id consists of digits only.",
        "Copy `options.boardId` from the account's list of boards.",
        _API,
        matches(_is_number, option("boardId")),
    ),
    Rule(
        "pinterest.media.required",
        "cheap",
        "A pin needs an image or a video.",
        "Add an image or a video.",
        _API,
        media_required,
    ),
    Rule(
        "pinterest.media.image_video_exclusive",
        "cheap",
        "A pin can have images or a video, not both.",
        "Remove the images or the video.",
        _API,
        not_mixed,
    ),
    Rule(
        "pinterest.media.count_max",
        "cheap",
        "A pin can have at most {limit} images, or 1 video.",
        "Remove media.",
        _API,
        media_count("image", videos=MEDIA["videos"]),
        MEDIA["images"],
        "items",
    ),
    Rule(
        "pinterest.text.max_graphemes",
        "cheap",
        "A pin's description (the text) can have at most {limit} characters.",
        "Shorten the text for this target.",
        _API,
        max_characters(),
        TEXT_MAX,
        "graphemes",
    ),
    Rule(
        "pinterest.text.graphemes_advised",
        "cheap",
        "Pinterest's help page names {limit} characters for a description.",
        "Shorten the text to be safe.",
        _HELP,
        at_most(graphemes),
        500,
        "graphemes",
        severity="warning",
    ),
    Rule(
        "pinterest.title.max_graphemes",
        "cheap",
        "A pin's title can have at most {limit} characters.",
        "Shorten `options.title`.",
        _API,
        max_characters(option("title")),
        100,
        "graphemes",
    ),
    Rule(
        "pinterest.destination_url.http",
        "cheap",
        "A pin's link must be an absolute http or https URL.",
        "Give `options.destinationUrl` as https://…",
        _API,
        matches(is_web_url, option("destinationUrl")),
    ),
    Rule(
        "pinterest.destination_url.max_chars",
        "cheap",
        "A pin's link can have at most {limit} characters.",
        "Shorten `options.destinationUrl`.",
        _API,
        max_utf16(option("destinationUrl")),
        2_048,
        "utf16",
    ),
    Rule(
        "pinterest.cover_image_url.http",
        "cheap",
        "The cover of a video pin must be an absolute http or https URL.",
        "Give `options.coverImageUrl` as https://…",
        _API,
        matches(is_web_url, option("coverImageUrl")),
    ),
    Rule(
        "pinterest.media.alt_text_max_graphemes",
        "cheap",
        "A pin's alt text (the first item's) can have at most {limit} characters.",
        "Shorten the alt text.",
        _API,
        max_characters(_alt_text),
        500,
        "graphemes",
    ),
    Rule(
        "pinterest.image.mime_allowed",
        "deep",
        "Pinterest accepts JPEG and PNG; WebP and GIF only from a public URL.",
        "Convert the image to JPEG or PNG, or give it by a public URL.",
        _API,
        _image_types,
        _IMAGE_TYPES,
    ),
    Rule(
        "pinterest.image.size_max",
        "deep",
        "An image on Pinterest can be at most {limit} bytes (20 MB).",
        "Scale the image down or compress it more.",
        _HELP,
        size_max(files("image"), decimal=20_000_000),
        20 * MIB,
        "bytes",
    ),
    Rule(
        "pinterest.image.aspect_unusual",
        "deep",
        "Pinterest advises 2:3; an image outside {limit} is cropped or shown small.",
        "Crop the image to 2:3, for example 1000 × 1500 pixels.",
        _HELP,
        aspect_ratio(files("image"), 1 / 3, 4 / 3),
        "1:3 to 4:3",
        severity="warning",
    ),
    Rule(
        "pinterest.media.dimensions_advised",
        "deep",
        "The images of a carousel should all have one size.",
        "Bring all images to the size of the first.",
        "third-party documentation",
        same_shape(files("image"), "dimensions of {}", find_dimensions, lambda a, b: a == b),
        severity="warning",
    ),
    Rule(
        "pinterest.video.mime_allowed",
        "deep",
        "Pinterest accepts MP4 and QuickTime videos.",
        "Convert the video to MP4.",
        _HELP,
        types(files("video")),
        _VIDEO_TYPES,
    ),
    Rule(
        "pinterest.video.size_max",
        "deep",
        "A video on Pinterest can be at most {limit} bytes (2 GB).",
        "Compress the video more or shorten it.",
        _HELP,
        size_max(files("video"), decimal=2_000_000_000),
        2 * GIB,
        "bytes",
    ),
    Rule(
        "pinterest.video.too_short",
        "deep",
        "A video on Pinterest must last at least {limit} seconds.",
        "Use a longer video.",
        _HELP,
        duration_min(files("video")),
        4,
        "seconds",
    ),
    Rule(
        "pinterest.video.too_long",
        "deep",
        "A video on Pinterest can last at most {limit} seconds.",
        "Shorten the video.",
        _HELP,
        duration_max(files("video")),
        900,
        "seconds",
    ),
    Rule(
        "pinterest.video.aspect_ratio",
        "deep",
        "A video on Pinterest must be between {limit} (width to height).",
        "Crop the video.",
        _HELP,
        aspect_ratio(files("video"), 1 / 2, 1.91),
        "1:2 and 1.91:1",
    ),
    build_no_documents_rule("pinterest", "Pinterest", _API),
    build_no_threads_rule("pinterest", "Pinterest", _API),
    build_fetch_rule("pinterest.image_url.reachable"),
    build_fetch_rule("pinterest.video.reachable"),
    Rule(
        "pinterest.cover_image_url.reachable",
        "upstream",
        "Pinterest could not read the cover image.",
        "Check that anyone can open `options.coverImageUrl` and that it is a JPEG or PNG.",
        _API,
    ),
    Rule(
        "pinterest.video.cover_required",
        "upstream",
        "Pinterest requires a cover image for this video.",
        "Give `options.coverImageUrl`.",
        _API,
    ),
    Rule(
        "pinterest.media.single_only",
        "upstream",
        "Pinterest rejected a pin with several images.",
        "Publish one image per pin.",
        _API,
    ),
    Rule(
        "pinterest.board.unknown",
        "upstream",
        "Pinterest does not find this board in the account.",
        "List the account's boards and use one of their ids.",
        _API,
    ),
    Rule(
        "pinterest.board_section.unknown",
        "upstream",
        "Pinterest does not find this section on the board.",
        "Give the id of a section of the board as `options.boardSectionId`, or leave it out.",
        _API,
    ),
    Rule(
        "pinterest.board.not_writable",
        "upstream",
        "The account may not pin to this board.",
        "Choose a board that the account owns or contributes to.",
        _API,
    ),
    Rule(
        "pinterest.access.trial",
        "upstream",
        "Pinterest has given this server's app Trial access only, which cannot publish.",
        "Ask the operator of this server to request Standard access from Pinterest.",
        _ACCESS,
    ),
    Rule(
        "pinterest.account.spam_blocked",
        "upstream",
        "Pinterest considers the account's pins spam and has blocked it for a while.",
        "Wait, then publish less often and with other links.",
        _API,
    ),
    Rule(
        "pinterest.media.register_failed",
        "upstream",
        "Pinterest did not start an upload for the video.",
        "Publish the post again later.",
        _API,
        code="platform_unavailable",
    ),
    Rule(
        "pinterest.media.status_unavailable",
        "upstream",
        "Pinterest did not report the outcome of the video.",
        "Publish the post again later.",
        _API,
        code="platform_unavailable",
    ),
    Rule(
        "pinterest.video.upload_failed",
        "upstream",
        "The video could not be uploaded to Pinterest.",
        "Publish the post again later.",
        _API,
        code="platform_unavailable",
    ),
    Rule(
        "pinterest.video.transcode_timeout",
        "upstream",
        "Pinterest did not finish processing the video within {limit} minutes.",
        "Publish the post again later, or make the video shorter.",
        _API,
        limit=10,
        unit="minutes",
        code="platform_unavailable",
    ),
    Rule(
        "pinterest.video.transcode_failed",
        "upstream",
        "Pinterest could not process the video.",
        "Re-encode the video as H.264 in MP4.",
        _API,
    ),
)
