"""Rules of LinkedIn members and organization pages."""

from __future__ import annotations

from collections.abc import Iterable

from socialpub.platforms.contract import DOCUMENT_TYPE, ConnectorAccount, Draft, MediaLimits, Rule, RuleInput
from socialpub.platforms.kit.checks import (
    CheckedValue,
    alt_texts,
    at_most,
    has_media,
    limit_number,
    max_characters,
    media_count,
    not_blank,
    not_mixed,
    require,
)
from socialpub.platforms.kit.lazy_patterns import compile_lazily
from socialpub.platforms.kit.media_checks import (
    GIB,
    MIB,
    animation,
    compute_area,
    duration_max,
    duration_min,
    files,
    is_within_limit,
    measured,
    size_max,
    types,
)
from socialpub.platforms.kit.rule_catalog import build_fetch_rule, build_no_threads_rule
from socialpub.platforms.kit.text import escape_little_text, graphemes, utf16_units

_DOCS = "learn.microsoft.com/en-us/linkedin/marketing/community-management/shares/"
_POSTS, _IMAGES, _VIDEOS = _DOCS + "posts-api", _DOCS + "images-api", _DOCS + "videos-api"
_DOCUMENTS = _DOCS + "documents-api"
_AUTHOR = compile_lazily(r"urn:li:(?:person|organization):[A-Za-z0-9_-]+")
_VIDEO_ADVISED = (75_000, 500_000_000)
MEDIA = MediaLimits(
    images=20,
    videos=1,
    mixed=False,
    types=("image/jpeg", "image/png", "image/gif", "video/mp4", DOCUMENT_TYPE),
    documents=1,
)
TEXT_MAX = 3_000


def text_length(text: str) -> int:
    """Measure the text as LinkedIn does: as sent, with escaped characters."""
    return graphemes(escape_little_text(text))


def _strict_length(text: str) -> int:
    return utf16_units(escape_little_text(text))


def is_author(account: ConnectorAccount) -> bool:
    return _AUTHOR.fullmatch(account.platform_account_id) is not None


def _visible(subject: RuleInput) -> bool:
    is_page = subject.account.platform_account_id.startswith("urn:li:organization:")
    return not is_page or subject.draft.options.get("visibility", "PUBLIC") == "PUBLIC"


def has_document(draft: Draft) -> bool:
    return any(item.kind == "document" for item in draft.items)


def _is_document_alone(subject: RuleInput) -> bool:
    return not has_document(subject.draft) or len(subject.draft.items) == 1


def _document_title(subject: RuleInput) -> Iterable[CheckedValue[str]]:
    title = str(subject.draft.options.get("documentTitle", ""))
    return (CheckedValue(title, "`documentTitle`"),) if has_document(subject.draft) else ()


RULES: tuple[Rule, ...] = (
    Rule(
        "linkedin.text.non_empty",
        "cheap",
        "A LinkedIn post without media needs text.",
        "Write some text, or add media.",
        _POSTS,
        not_blank(unless=has_media),
    ),
    Rule(
        "linkedin.text.max_graphemes",
        "cheap",
        "LinkedIn accepts at most {limit} characters; brackets and | @ # \\ * _ ~ count twice, a hashtag's # once.",
        "Shorten the text for this target, or use fewer of these characters.",
        _DOCS + "little-text-format",
        at_most(text_length, strict=_strict_length),
        TEXT_MAX,
        "graphemes",
    ),
    Rule(
        "linkedin.author.urn_format",
        "cheap",
        "The account's id is neither urn:li:person:… nor urn:li:organization:…",
        "Connect the LinkedIn account again.",
        _POSTS,
        require(lambda subject: is_author(subject.account)),
    ),
    Rule(
        "linkedin.visibility.enum",
        "cheap",
        "The posts of a LinkedIn page are public: `options.visibility` can only be {limit}.",
        "Leave `options.visibility` out, or set it to PUBLIC.",
        _POSTS,
        require(_visible),
        "PUBLIC",
    ),
    Rule(
        "linkedin.media.image_video_exclusive",
        "cheap",
        "A LinkedIn post can have images or a video, not both.",
        "Remove the images or the video.",
        _POSTS,
        not_mixed,
    ),
    Rule(
        "linkedin.media.no_mixing",
        "cheap",
        "A document on LinkedIn is published alone, without images, videos or other documents.",
        "Remove the other media, or publish the document as a separate post.",
        _DOCUMENTS,
        require(_is_document_alone),
    ),
    Rule(
        "linkedin.document.title_required",
        "cheap",
        "A document on LinkedIn needs a title, which LinkedIn shows with it.",
        "Set `options.documentTitle`.",
        _DOCUMENTS,
        not_blank(_document_title),
    ),
    Rule(
        "linkedin.document.title_max_graphemes",
        "cheap",
        "The title of a document on LinkedIn can have at most {limit} characters.",
        "Shorten `options.documentTitle`.",
        _POSTS,
        max_characters(_document_title),
        400,
        "graphemes",
    ),
    Rule(
        "linkedin.media.count_max",
        "cheap",
        "A LinkedIn post can have at most {limit} images, or 1 video.",
        "Remove media.",
        _DOCS + "multiimage-post-api",
        media_count("image", videos=MEDIA["videos"]),
        MEDIA["images"],
        "items",
    ),
    Rule(
        "linkedin.media.alt_text_max_graphemes",
        "cheap",
        "An alt text on LinkedIn can have at most {limit} characters.",
        "Shorten the alt text.",
        _POSTS,
        max_characters(alt_texts("image")),
        4_086,
        "graphemes",
    ),
    Rule(
        "linkedin.media.mime_allowed",
        "deep",
        "LinkedIn accepts JPEG, PNG and GIF images, MP4 videos, and PDF documents.",
        "Convert the image to JPEG or PNG, the video to MP4, the document to PDF.",
        _IMAGES,
        types(files("image", "video", "document")),
        MEDIA["types"],
    ),
    Rule(
        "linkedin.image.pixels_max",
        "deep",
        "An image on LinkedIn must have fewer than {limit} pixels.",
        "Scale the image down.",
        _IMAGES,
        measured(files("image"), "a pixel count of {:,}", compute_area, lambda rule, found: found < limit_number(rule)),
        36_152_320,
        "pixels",
    ),
    Rule(
        "linkedin.gif.frames_max",
        "deep",
        "An animated GIF on LinkedIn can have at most {limit} frames.",
        "Shorten the animation.",
        _IMAGES,
        measured(files("image"), "a frame count of {:,}", animation(lambda facts: facts.frames), is_within_limit),
        250,
        "frames",
    ),
    Rule(
        "linkedin.media.image_size_advised",
        "deep",
        "LinkedIn documents no limit, but may refuse images above {limit} bytes.",
        "Scale the image down or compress it more.",
        "no official number",
        measured(files("image"), "a size of {:,} bytes", lambda facts: facts.size, is_within_limit),
        20_000_000,
        "bytes",
        severity="warning",
    ),
    Rule(
        "linkedin.video.too_short",
        "deep",
        "A video on LinkedIn must last at least {limit} seconds.",
        "Use a longer video.",
        _VIDEOS,
        duration_min(files("video")),
        3,
        "seconds",
    ),
    Rule(
        "linkedin.video.too_long",
        "deep",
        "A video on LinkedIn can last at most {limit} seconds.",
        "Shorten the video.",
        _VIDEOS,
        duration_max(files("video")),
        1_800,
        "seconds",
    ),
    Rule(
        "linkedin.media.video_size_max",
        "deep",
        "A video on LinkedIn can be at most {limit} bytes (5 GB).",
        "Compress the video more or shorten it.",
        _VIDEOS,
        size_max(files("video"), decimal=5_000_000_000),
        5 * GIB,
        "bytes",
    ),
    Rule(
        "linkedin.media.video_size_advised",
        "deep",
        "One of LinkedIn's pages says {limit} bytes for a video.",
        "Bring the video's size into this range to be safe.",
        _VIDEOS,
        measured(
            files("video"),
            "a size of {:,} bytes",
            lambda facts: facts.size,
            lambda _, found: _VIDEO_ADVISED[0] <= found <= _VIDEO_ADVISED[1],
        ),
        "75,000 to 500,000,000",
        "bytes",
        severity="warning",
    ),
    Rule(
        "linkedin.document.size_max",
        "deep",
        "A document on LinkedIn can be at most {limit} bytes (100 MB).",
        "Compress the document or shorten it.",
        _DOCUMENTS,
        size_max(files("document"), decimal=100_000_000),
        100 * MIB,
        "bytes",
    ),
    build_no_threads_rule("linkedin", "LinkedIn", _POSTS),
    build_fetch_rule("linkedin.media.reachable"),
    Rule(
        "linkedin.post.duplicate",
        "upstream",
        "LinkedIn says that the same post was published a few minutes ago.",
        "Check the profile. To publish again, change the text.",
        _POSTS,
    ),
    Rule(
        "linkedin.media.processing_failed",
        "upstream",
        "LinkedIn could not process the media.",
        "Check that the file opens, and re-encode it.",
        _VIDEOS,
    ),
    Rule(
        "linkedin.version.retired",
        "upstream",
        "LinkedIn has retired the version of its API that this server uses.",
        "Ask the operator of this server to set a newer `platforms.linkedin.api_version`.",
        "learn.microsoft.com/en-us/linkedin/marketing/versioning",
        code="platform_unavailable",
    ),
    Rule(
        "linkedin.page.role_missing",
        "upstream",
        "The connected member has no role on this LinkedIn page that allows publishing.",
        "Ask an administrator of the page to give the member a content role, or connect as an administrator.",
        _POSTS,
    ),
)
