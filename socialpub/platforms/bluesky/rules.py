"""Rules of Bluesky, with its own checks."""

from __future__ import annotations

from collections.abc import Iterator

from socialpub.platforms.bluesky import text as bluesky_text
from socialpub.platforms.contract import MediaLimits, Rule, RuleInput, RuleViolation
from socialpub.platforms.kit.checks import (
    TextSelector,
    alt_texts,
    at_most,
    first_comment,
    has_media,
    matches,
    max_bytes,
    max_graphemes,
    media_count,
    not_blank,
    not_mixed,
    option,
    post_text,
)
from socialpub.platforms.kit.lazy_patterns import compile_lazily
from socialpub.platforms.kit.media_checks import choices, duration_max, files, make_type_violation, size_max
from socialpub.platforms.kit.rule_catalog import build_no_documents_rule
from socialpub.platforms.kit.text import graphemes

# --- Checks --------------------------------------------------------------------------------------------------------

_LEXICON = "github.com/bluesky-social/atproto lexicons/app/bsky/"
_IMAGES, _VIDEOS = files("image"), files("video")
MEDIA = MediaLimits(
    images=4,
    videos=1,
    mixed=False,
    types=("image/jpeg", "image/png", "image/webp", "image/gif", "video/mp4", "video/quicktime", "video/webm"),
)
_SERVICE_ONLY = ("video/quicktime", "video/webm")
_AT_URI = compile_lazily(r"at://(?:did:[a-z]+:[A-Za-z0-9._:%-]+|[A-Za-z0-9.-]+)/[A-Za-z0-9.-]+/[A-Za-z0-9._:~-]+")
_POST_URI = compile_lazily(
    r"at://(?:did:[a-z]+:[A-Za-z0-9._:%-]+|[A-Za-z0-9.-]+)/app\.bsky\.feed\.post/[A-Za-z0-9._:~-]+"
)
_CID = compile_lazily(r"b[a-z2-7]{46,128}|z[1-9A-HJ-NP-Za-km-z]{46,128}|Qm[1-9A-HJ-NP-Za-km-z]{44}")
_LANGUAGE_MAX = 200  # characters; registered tags have at most 35 (RFC 5646, 4.4.1)
_EXTENDED = r"(?:-[a-z]{3}){0,3}"
_LANGUAGE = compile_lazily(
    rf"(?:[a-z]{{2,3}}{_EXTENDED}|[a-z]{{4,8}})(?:-[a-z]{{4}})?(?:-(?:[a-z]{{2}}|[0-9]{{3}}))?"
    r"(?:-(?:[a-z0-9]{5,8}|[0-9][a-z0-9]{3}))*(?:-[0-9a-wy-z](?:-[a-z0-9]{2,8})+)*(?:-x(?:-[a-z0-9]{1,8})+)?"
    r"|x(?:-[a-z0-9]{1,8})+|i-[a-z]{3,8}",
    "i",
)


def _langs(subject: RuleInput) -> list[str]:
    return list(subject.draft.options.get("langs", ()))


def _langs_count(rule: Rule, subject: RuleInput) -> Iterator[RuleViolation]:
    if (found := len(_langs(subject))) > int(str(rule.limit)):
        yield RuleViolation(f"This post names {found}.")


def _langs_format(_: Rule, subject: RuleInput) -> Iterator[RuleViolation]:
    yield from (RuleViolation(f"{lang[:64]!r} is not one.") for lang in _langs(subject) if not _is_language(lang))


def _is_language(tag: str) -> bool:
    return len(tag) <= _LANGUAGE_MAX and _LANGUAGE.fullmatch(tag) is not None


def _refs(rule: Rule, subject: RuleInput) -> Iterator[RuleViolation]:
    for name in ("replyToUri", "replyRootUri"):
        yield from matches(lambda text: bool(_AT_URI.fullmatch(text)), option(name))(rule, subject)
    for name in ("replyToCid", "replyRootCid"):
        yield from matches(lambda text: bool(_CID.fullmatch(text)), option(name))(rule, subject)


def _threadgate_count(rule: Rule, subject: RuleInput) -> Iterator[RuleViolation]:
    if (found := len(subject.draft.options.get("threadgate", ()))) > int(str(rule.limit)):
        yield RuleViolation(f"This post has {found}.")


def _has_embed(subject: RuleInput) -> bool:
    return has_media(subject) or "quoteUri" in subject.draft.options


def _plain(texts: TextSelector) -> TextSelector:
    """Select the texts as published."""
    return lambda subject: [piece._replace(value=bluesky_text.strip_bom(piece.value)) for piece in texts(subject)]


_TEXT, _COMMENT = _plain(post_text), _plain(first_comment)


def _alt_texts(rule: Rule, subject: RuleInput) -> Iterator[RuleViolation]:
    yield from at_most(graphemes, _plain(alt_texts("image")))(rule, subject)
    yield from at_most(graphemes, _plain(alt_texts("video")), limit=lambda _: 1000)(rule, subject)


def _hashtags(_: Rule, subject: RuleInput) -> Iterator[RuleViolation]:
    for span in bluesky_text.find_tags(subject.draft.text):
        if not bluesky_text.is_valid_tag(span.value):
            yield RuleViolation(f"#{span.value[:20]}… stays plain text.")


def _images_max(subject: RuleInput) -> int:
    return 10 if subject.site.gallery else 4


def _mime(rule: Rule, subject: RuleInput) -> Iterator[RuleViolation]:
    """Check the file type; without the video service only MP4 videos work."""
    allowed = set(choices(rule)) - (set() if subject.site.video_service else set(_SERVICE_ONLY))
    for piece in files()(subject):
        if piece.value.content_type not in allowed:
            yield make_type_violation(piece)
        elif piece.value.animated:
            yield RuleViolation(f"{piece.name} is animated.", piece.item, warning="animation_still")


# --- Rules -----------------------------------------------------------------------------------------------------------

RULES: tuple[Rule, ...] = (
    Rule(
        "bluesky.text.non_empty",
        "cheap",
        "A Bluesky post without media needs text.",
        "Write some text, or add an image or a video.",
        _LEXICON + "feed/post.json",
        not_blank(_TEXT, unless=_has_embed),
    ),
    Rule(
        "bluesky.text.max_graphemes",
        "cheap",
        "A Bluesky post can have at most {limit} characters (grapheme clusters).",
        "Shorten the text for this target.",
        _LEXICON + "feed/post.json",
        max_graphemes(_TEXT),
        300,
        "graphemes",
    ),
    Rule(
        "bluesky.text.max_bytes",
        "cheap",
        "A Bluesky post can have at most {limit} bytes in UTF-8.",
        "Shorten the text, or use fewer emoji.",
        _LEXICON + "feed/post.json",
        max_bytes(_TEXT),
        3000,
        "bytes",
    ),
    Rule(
        "bluesky.first_comment.non_empty",
        "cheap",
        "The first comment is blank.",
        "Write a first comment, or leave it out.",
        _LEXICON + "feed/post.json",
        not_blank(_COMMENT),
    ),
    Rule(
        "bluesky.first_comment.max_graphemes",
        "cheap",
        "A first comment on Bluesky can have at most {limit} characters (grapheme clusters).",
        "Shorten the first comment.",
        _LEXICON + "feed/post.json",
        max_graphemes(_COMMENT),
        300,
        "graphemes",
    ),
    Rule(
        "bluesky.first_comment.max_bytes",
        "cheap",
        "A first comment on Bluesky can have at most {limit} bytes in UTF-8.",
        "Shorten the first comment, or use fewer emoji.",
        _LEXICON + "feed/post.json",
        max_bytes(_COMMENT),
        3000,
        "bytes",
    ),
    Rule(
        "bluesky.langs.count_max",
        "cheap",
        "A Bluesky post can name at most {limit} languages.",
        "Remove languages from `langs`.",
        _LEXICON + "feed/post.json",
        _langs_count,
        3,
        "languages",
    ),
    Rule(
        "bluesky.langs.format",
        "cheap",
        "Each entry of `langs` must be a BCP 47 language tag.",
        "Use tags such as en, de-AT, zh-Hant.",
        _LEXICON + "feed/post.json",
        _langs_format,
    ),
    Rule(
        "bluesky.reply.refs",
        "cheap",
        "A reply must name the post that it replies to by its at:// URI and CID.",
        "Copy `uri` and `cid` of the post from Bluesky's API.",
        _LEXICON + "feed/post.json",
        _refs,
    ),
    Rule(
        "bluesky.quote.uri",
        "cheap",
        "The post to quote must exist, and be named by the at:// URI of a post.",
        "Copy the post's at:// URI into `options.quoteUri`.",
        _LEXICON + "embed/record.json",
        matches(lambda text: bool(_POST_URI.fullmatch(text)), option("quoteUri")),
    ),
    Rule(
        "bluesky.threadgate.count_max",
        "cheap",
        "A Bluesky post can name at most {limit} kinds of people who may reply.",
        "Remove entries from `options.threadgate`.",
        _LEXICON + "feed/threadgate.json",
        _threadgate_count,
        5,
        "entries",
    ),
    Rule(
        "bluesky.media.image_video_exclusive",
        "cheap",
        "A Bluesky post can have images or a video, not both.",
        "Remove the images or the video.",
        _LEXICON + "feed/post.json",
        not_mixed,
    ),
    Rule(
        "bluesky.media.count_max",
        "cheap",
        "A Bluesky post can have at most {limit} images (10 if `platforms.bluesky.gallery` is on here), or 1 video.",
        "Remove media.",
        _LEXICON + "embed/images.json",
        media_count(images=_images_max, videos=MEDIA["videos"]),
        MEDIA["images"],
        "items",
    ),
    build_no_documents_rule("bluesky", "Bluesky", _LEXICON + "embed/defs.json"),
    Rule(
        "bluesky.media.mime_allowed",
        "deep",
        "Bluesky accepts {limit}; QuickTime and WebM only through its video service.",
        "Convert the file.",
        _LEXICON + "embed/images.json",
        _mime,
        MEDIA["types"],
    ),
    Rule(
        "bluesky.media.image_size_max",
        "deep",
        "An image on Bluesky can be at most {limit} bytes.",
        "Scale the image down or compress it more.",
        _LEXICON + "embed/images.json",
        size_max(_IMAGES),
        2_000_000,
        "bytes",
    ),
    Rule(
        "bluesky.media.video_size_max",
        "deep",
        "A video on Bluesky can be at most {limit} bytes.",
        "Compress the video more or shorten it.",
        _LEXICON + "embed/video.json",
        size_max(_VIDEOS),
        300_000_000,
        "bytes",
    ),
    Rule(
        "bluesky.media.reachable",
        "deep",
        "The media URL could not be fetched.",
        "Check that anyone can download the file from this URL, or upload the file.",
        "this server's own limits for fetching media",
    ),
    Rule(
        "bluesky.media.alt_text_max_graphemes",
        "cheap",
        "Bluesky's older apps cut alt text longer than {limit} characters (1,000 for a video).",
        "Shorten the alt text.",
        "github.com/bluesky-social/social-app src/lib/constants.ts",
        _alt_texts,
        2000,
        "graphemes",
        severity="warning",
    ),
    Rule(
        "bluesky.hashtag.max_graphemes",
        "cheap",
        "Bluesky does not treat more than {limit} characters or 640 bytes as a hashtag.",
        "Shorten the hashtag.",
        _LEXICON + "richtext/facet.json",
        _hashtags,
        bluesky_text.TAG_GRAPHEMES,
        "graphemes",
        severity="warning",
    ),
    Rule(
        "bluesky.video.too_long",
        "deep",
        "Bluesky's own app accepts videos of up to {limit} seconds; longer ones may be refused.",
        "Shorten the video.",
        "github.com/bluesky-social/social-app src/lib/constants.ts",
        duration_max(_VIDEOS),
        600,
        "seconds",
        severity="warning",
    ),
    Rule(
        "bluesky.video.email_unverified",
        "upstream",
        "Bluesky accepts videos only from accounts with a confirmed e-mail address.",
        "Confirm the account's e-mail address in the Bluesky app, then publish again.",
        "docs.bsky.app/docs/tutorials/video",
    ),
    Rule(
        "bluesky.video.quota_exhausted",
        "upstream",
        "The account has used up its videos for today.",
        "Publish the video tomorrow.",
        _LEXICON + "video/getUploadLimits.json",
    ),
    Rule(
        "bluesky.video.upload_failed",
        "upstream",
        "Bluesky's video service rejected the video.",
        "Read the service's response in `platformResponse`. Usually another encoding (H.264, AAC, MP4) helps.",
        _LEXICON + "video/uploadVideo.json",
    ),
    Rule(
        "bluesky.video.job_failed",
        "upstream",
        "Bluesky's video service could not process the video.",
        "Re-encode the video (H.264, AAC, MP4) and publish again.",
        _LEXICON + "video/defs.json",
    ),
    Rule(
        "bluesky.video.completed_without_blob",
        "upstream",
        "Bluesky's video service finished without delivering the video.",
        "Publish the video again.",
        _LEXICON + "video/defs.json",
    ),
    Rule(
        "bluesky.video.job_status_unavailable",
        "upstream",
        "Bluesky's video service did not report the outcome of the video.",
        "Publish the video again later.",
        _LEXICON + "video/getJobStatus.json",
        code="platform_unavailable",
    ),
    Rule(
        "bluesky.video.transcode_timeout",
        "upstream",
        "Bluesky's video service did not finish within {limit} minutes.",
        "Publish the video again later, or make it shorter.",
        _LEXICON + "video/getJobStatus.json",
        limit=15,
        unit="minutes",
        code="platform_unavailable",
    ),
    Rule(
        "bluesky.record.invalid",
        "upstream",
        "The account's server did not accept the post.",
        "Read the server's response in `platformResponse`. An older server may have lower limits.",
        "github.com/bluesky-social/atproto packages/pds/src/api/com/atproto/repo/putRecord.ts",
    ),
    Rule(
        "bluesky.record.conflict",
        "upstream",
        "The account already has another post with the key of this post.",
        "Publish the content as a new post, which gets a new key.",
        "github.com/bluesky-social/atproto packages/pds/src/api/com/atproto/repo/putRecord.ts",
    ),
)
