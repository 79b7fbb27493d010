"""Media facts at and just past the limit of every rule that checks file contents."""

from __future__ import annotations

from typing import Any

from socialpub.platforms.contract import ConnectorAccount, MediaFacts, RuleContext
from tests.support.platforms.rule_cases import LAB, LOOPBACK, PREMIUM, Cases
from tests.support.platforms.rule_drafts import (
    RuleScene,
    animated_gif,
    clip,
    document,
    gif,
    image,
    jpeg,
    mp4,
    photo,
    scene,
    stored,
    video,
)

MIB = 1024 * 1024
GIB = 1024 * MIB
Pair = tuple[list[RuleScene], list[RuleScene]]


def kinds(good: str, bad: str) -> Pair:
    return [_of(name) for name in good.split()], [_of(name) for name in bad.split()]


def _of(name: str) -> RuleScene:
    kind = "video" if name in ("mp4", "quicktime", "webm") else "image"
    return (clip if kind == "video" else photo)(content_type=f"{kind}/{name}")


def photo_bytes(limit: int) -> Pair:
    return [photo(size=limit), clip(size=limit + 1)], [photo(size=limit + 1)]


def clip_bytes(limit: int) -> Pair:
    return [clip(size=limit), photo(size=limit + 1)], [clip(size=limit + 1)]


def shortest(ms: int) -> Pair:
    """The limit less a tenth of a second still passes."""
    return [clip(duration_ms=ms - 100), clip(duration_ms=None)], [clip(duration_ms=ms - 101)]


def longest(ms: int) -> Pair:
    return [clip(duration_ms=ms + 100), clip(duration_ms=None)], [clip(duration_ms=ms + 101)]


def story(**changes: Any) -> RuleScene:
    """One video in a story."""
    return scene("", video(mp4(**changes)), options={"story": True})


RATE = (
    [clip(frame_rate=22.5), clip(frame_rate=60.5), clip(frame_rate=None)],
    [clip(frame_rate=22.4), clip(frame_rate=60.6)],
)
WIDTH = ([clip(width=1920), clip(width=None)], [clip(width=1921)])
AVC_AAC = (
    [
        clip(),
        clip(video_codec="hevc"),
        clip(has_audio=False, audio_codec=None),
        clip(video_codec=None, audio_codec=None, has_audio=None),
        clip(has_audio=True, audio_codec=None),
    ],
    [clip(video_codec="vp9"), clip(audio_codec="opus"), clip(video_codec="av1", has_audio=False)],
)
WIDE = ([clip(width=10_100, height=1000), clip(width=10, height=1000)], [clip(width=10_200, height=1000)])
WIDE_AND_HIGH = (WIDE[0], [*WIDE[1], clip(width=9, height=1000)])


def shape(make: object, good: list[tuple[int, int]], bad: list[tuple[int, int]]) -> Pair:
    assert callable(make)
    return [make(width=w, height=h) for w, h in good], [make(width=w, height=h) for w, h in bad]


def two(first: MediaFacts, second: MediaFacts) -> RuleScene:
    return scene("Hello", image(first), image(second))


DEEP: Cases = {
    # bluesky
    "bluesky.media.mime_allowed": (
        kinds("jpeg png webp gif mp4 quicktime webm", "")[0],
        [
            scene("", video(mp4(content_type="video/webm")), site={"video_service": ""}),
            scene("", video(mp4(content_type="video/quicktime")), site={"video_service": ""}),
            photo(content_type="image/tiff"),
        ],
    ),
    "bluesky.media.image_size_max": photo_bytes(2_000_000),
    "bluesky.media.video_size_max": clip_bytes(300_000_000),
    "bluesky.video.too_long": longest(600_000),
    # facebook
    "facebook.media.mime_allowed": kinds("jpeg png gif webp mp4 quicktime webm", "tiff"),
    "facebook.media.mime_advised": kinds("jpeg png gif mp4 quicktime", "webp webm"),
    "facebook.media.image_size_max": photo_bytes(10 * MIB),
    "facebook.media.image_size_advised": (
        [photo(size=4_000_000), photo(size=1_000_000, content_type="image/png"), clip(size=5_000_000)],
        [photo(size=4_000_001), photo(size=1_000_001, content_type="image/png")],
    ),
    "facebook.media.video_size_advised": clip_bytes(10_000_000_000),
    "facebook.video.duration_advised": longest(14_400_000),
    "facebook.story.video_duration": (
        [story(duration_ms=2_900), story(duration_ms=60_100), story(duration_ms=None), clip(duration_ms=2_000)],
        [story(duration_ms=2_899), story(duration_ms=60_101)],
    ),
    "facebook.story.video_dimensions": (
        [story(width=540, height=960), story(width=960, height=540), story(width=None), clip(width=300, height=300)],
        [story(width=539, height=960), story(width=540, height=959)],
    ),
    "facebook.story.video_aspect_ratio": (
        [story(width=1080, height=1920), story(width=1920, height=1080), clip(width=300, height=900)],
        [story(width=1000, height=1920), story(width=1920, height=1000)],
    ),
    "facebook.story.video_frame_rate": (
        [story(frame_rate=23.5), story(frame_rate=60.5), story(frame_rate=None), clip(frame_rate=12.0)],
        [story(frame_rate=23.4), story(frame_rate=60.6)],
    ),
    "facebook.story.video_codec": (
        [story(video_codec=name) for name in ("h264", "hevc", "vp9", "av1", None)] + [clip(video_codec="vp8")],
        [story(video_codec="vp8")],
    ),
    # instagram
    "instagram.media.mime_allowed": kinds("jpeg mp4 quicktime", "png webp gif webm"),
    "instagram.media.image_size_max": photo_bytes(8 * MIB),
    "instagram.media.aspect_ratio": (
        [
            *(photo(width=w, height=h) for w, h in ((800, 1000), (1910, 1000), (793, 1000), (1929, 1000))),
            photo(width=None),
            two(jpeg(width=1, height=3), jpeg()),
        ],
        [photo(width=791, height=1000), photo(width=1930, height=1000)],
    ),
    "instagram.media.aspect_ratio_advised": (
        [
            two(jpeg(), jpeg(width=501, height=500)),
            photo(width=800),
            two(jpeg(), jpeg(width=None)),
            two(jpeg(height=None), jpeg()),
        ],
        [two(jpeg(), jpeg(width=900)), scene("", image(), video())],
    ),
    "instagram.media.video_size_max": clip_bytes(300 * MIB),
    "instagram.video.too_short": shortest(3_000),
    "instagram.video.too_long": longest(900_000),
    "instagram.video.codec": AVC_AAC,
    "instagram.video.frame_rate": RATE,
    "instagram.video.width_max": WIDTH,
    "instagram.video.bitrate_max": ([clip(bit_rate=25_000_000), clip(bit_rate=None)], [clip(bit_rate=25_000_001)]),
    "instagram.video.aspect_ratio": WIDE_AND_HIGH,
    "instagram.thumb_offset.range": (
        [
            scene("", video(mp4(duration_ms=5000)), options={"thumbOffset": 4999}),
            scene("", video(mp4(duration_ms=None)), options={"thumbOffset": 5000}),
            scene("", video(mp4(duration_ms=5000)), options={"thumbOffset": 5000, "story": True}),
        ],
        [scene("", video(mp4(duration_ms=5000)), options={"thumbOffset": 5000})],
    ),
    "instagram.story.video_too_short": (
        [story(duration_ms=2_900), story(duration_ms=None), clip(duration_ms=1)],
        [story(duration_ms=2_899)],
    ),
    "instagram.story.video_too_long": (
        [story(duration_ms=60_100), clip(duration_ms=60_101)],
        [story(duration_ms=60_101)],
    ),
    "instagram.story.video_size_max": ([story(size=100 * MIB), clip(size=100 * MIB + 1)], [story(size=100 * MIB + 1)]),
    "instagram.story.video_aspect_ratio": (
        [story(width=100, height=1000), story(width=10_000, height=1000), clip(width=98, height=1000)],
        [story(width=98, height=1000), story(width=10_200, height=1000)],
    ),
    "instagram.cover_image.mime_allowed": (
        [scene("", video(), cover=jpeg()), scene("", video())],
        [scene("", video(), cover=jpeg(content_type="image/png"))],
    ),
    "instagram.cover_image.size_max": (
        [scene("", video(), cover=jpeg(size=8 * MIB))],
        [scene("", video(), cover=jpeg(size=8 * MIB + 1))],
    ),
    # linkedin
    "linkedin.media.mime_allowed": (
        [*kinds("jpeg png gif mp4", "")[0], scene("", document())],
        [*kinds("", "webp quicktime webm")[1], scene("", document(content_type="application/octet-stream"))],
    ),
    "linkedin.image.pixels_max": (
        [photo(width=36_152_319, height=1), photo(width=None)],
        [photo(width=36_152_320, height=1)],
    ),
    "linkedin.gif.frames_max": (
        [animated_gif(frames=250), photo(frames=251), animated_gif(frames=None)],
        [animated_gif(frames=251)],
    ),
    "linkedin.media.image_size_advised": photo_bytes(20_000_000),
    "linkedin.document.size_max": (
        [scene("", document(size=100 * MIB)), photo(size=100 * MIB + 1)],
        [scene("", document(size=100 * MIB + 1))],
    ),
    "linkedin.video.too_short": shortest(3_000),
    "linkedin.video.too_long": longest(1_800_000),
    "linkedin.media.video_size_max": clip_bytes(5 * GIB),
    "linkedin.media.video_size_advised": (
        [clip(size=75_000), clip(size=500_000_000), photo(size=1)],
        [clip(size=74_999), clip(size=500_000_001)],
    ),
    # pinterest
    "pinterest.image.mime_allowed": (
        [
            *kinds("jpeg png webp gif", "")[0],
            scene("", stored(facts=gif())),
            scene("", stored(facts=jpeg()), around=LOOPBACK),
            scene("", stored(facts=gif()), around=LAB),
        ],
        [
            scene("", stored(facts=gif()), around=LOOPBACK),
            scene("", stored(facts=jpeg(content_type="image/webp")), around=RuleContext("http://social.example.com")),
            photo(content_type="image/tiff"),
        ],
    ),
    "pinterest.image.size_max": photo_bytes(20 * MIB),
    "pinterest.image.aspect_unusual": shape(
        photo, [(1000, 1500), (331, 1000), (1346, 1000)], [(329, 1000), (1347, 1000)]
    ),
    "pinterest.media.dimensions_advised": ([two(jpeg(), jpeg()), photo()], [two(jpeg(), jpeg(width=999))]),
    "pinterest.video.mime_allowed": kinds("mp4 quicktime png", "webm"),
    "pinterest.video.size_max": clip_bytes(2 * GIB),
    "pinterest.video.too_short": shortest(4_000),
    "pinterest.video.too_long": longest(900_000),
    "pinterest.video.aspect_ratio": shape(clip, [(500, 1000), (495, 1000), (1929, 1000)], [(494, 1000), (1930, 1000)]),
    # tiktok
    "tiktok.file_format.invalid": kinds("jpeg webp mp4 quicktime webm", "png gif"),
    "tiktok.media.image_size_max": photo_bytes(20 * MIB),
    "tiktok.photo.resolution_advised": shape(
        photo, [(1920, 1080), (1080, 1920)], [(1921, 1080), (1920, 1081), (1081, 1920), (1500, 1500)]
    ),
    "tiktok.video.size_max": clip_bytes(4 * GIB),
    "tiktok.video.too_long": longest(600_000),
    "tiktok.video.too_short": shortest(3_000),
    "tiktok.video.codec": (
        [clip(video_codec=name) for name in ("h264", "hevc", "vp8", "vp9", None)] + [clip(audio_codec="opus")],
        [clip(video_codec="av1")],
    ),
    "tiktok.video.frame_rate": RATE,
    "tiktok.resolution.unsupported": shape(
        clip, [(360, 360), (4096, 4096)], [(359, 720), (720, 359), (4097, 4096), (4096, 4097)]
    ),
    "tiktok.video.aspect_unusual": shape(clip, [(720, 1280), (1280, 720)], [(700, 1280), (1800, 1000)]),
    # twitter
    "twitter.media.gif_exclusive": (
        [animated_gif(), two(jpeg(), gif(frames=1)), two(jpeg(), gif(frames=None))],
        [two(jpeg(), gif(frames=2))],
    ),
    "twitter.media.mime_allowed": kinds("jpeg png webp gif mp4 quicktime webm", "tiff"),
    "twitter.media.image_size_max": (
        [
            photo(size=5 * MIB),
            animated_gif(size=15 * MIB),
            animated_gif(size=15 * MIB, frames=None),
            clip(size=6 * MIB),
        ],
        [photo(size=5 * MIB + 1), animated_gif(size=5 * MIB + 1, frames=1)],
    ),
    "twitter.media.gif_size_max": (
        [animated_gif(size=15 * MIB), animated_gif(size=16 * MIB, frames=1)],
        [animated_gif(size=15 * MIB + 1)],
    ),
    "twitter.gif.dimensions_max": (
        [animated_gif(width=1280, height=1080), photo(width=2000, height=2000)],
        [animated_gif(width=1281, height=1080), animated_gif(width=1280, height=1081)],
    ),
    "twitter.gif.frames_max": ([animated_gif(frames=350), photo(frames=351)], [animated_gif(frames=351)]),
    "twitter.gif.pixels_max": (
        [
            animated_gif(frames=300, width=1000, height=1000),
            animated_gif(width=None),
            photo(width=30_000, height=30_000),
        ],
        [animated_gif(frames=301, width=1000, height=1000)],
    ),
    "twitter.media.video_size_max": clip_bytes(16 * GIB),
    "twitter.media.video_size_advised": clip_bytes(512_000_000),
    "twitter.video.too_short": shortest(500),
    "twitter.video.too_long": longest(7_500_000),
    "twitter.video.duration_advised": (
        [clip(duration_ms=140_100), scene("", video(mp4(duration_ms=200_000)), account=PREMIUM)],
        [clip(duration_ms=140_101), scene("", video(mp4(duration_ms=200_000)), account=ConnectorAccount("1"))],
    ),
    "twitter.video.dimensions_advised": shape(
        clip, [(32, 32), (1280, 1024)], [(31, 32), (32, 31), (1281, 1024), (1280, 1025)]
    ),
    "twitter.video.aspect_ratio": shape(clip, [(330, 1000), (3030, 1000)], [(329, 1000), (3031, 1000)]),
    "twitter.video.frame_rate": ([clip(frame_rate=60.5), clip(frame_rate=1.0)], [clip(frame_rate=60.6)]),
    "twitter.video.codec_advised": (
        [clip(), clip(has_audio=False, audio_codec=None)],
        [clip(video_codec="hevc"), clip(audio_codec="mp3")],
    ),
}
