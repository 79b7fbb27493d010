"""Lossless removal of image metadata: JPEG, PNG, WebP, GIF."""

from __future__ import annotations

import io
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, PngImagePlugin

from socialpub.base.errors import ApiError, Outcome
from socialpub.base.image_formats import detect_type
from socialpub.platforms.kit.images import remove_metadata

SECRET = b"SecretCam"
FORMATS = {"image/jpeg": "JPEG", "image/png": "PNG", "image/webp": "WEBP"}


def picture(content_type: str, orientation: int | None = None, **more: object) -> bytes:
    """A picture with a camera's name in its metadata, turned as `orientation` says."""
    exif = Image.Exif()
    exif[0x010F] = SECRET.decode()
    if orientation is not None:
        exif[0x0112] = orientation
    into = io.BytesIO()
    image = Image.linear_gradient("L").resize((48, 16)).convert("RGB")
    image.save(into, FORMATS[content_type], exif=exif, **more)
    return into.getvalue()


def opened(data: bytes) -> Image.Image:
    image = Image.open(io.BytesIO(data))
    image.load()
    return image


@pytest.mark.parametrize("content_type", FORMATS)
@pytest.mark.parametrize("orientation", [None, 1, 2, 3, 4, 5, 6, 7, 8])
def test_metadata_goes_and_pixels_and_way_up_stay(content_type: str, orientation: int | None) -> None:
    data = picture(content_type, orientation)
    assert SECRET in data
    clean = remove_metadata(data, content_type)
    assert SECRET not in clean.data
    assert opened(clean.data).tobytes() == opened(data).tobytes()
    assert clean.orientation == (orientation or 1)
    kept = {0x0112: orientation} if orientation not in (None, 1) else {}
    assert dict(opened(clean.data).getexif()) == kept


@pytest.mark.parametrize("content_type", FORMATS)
def test_cleaning_twice_changes_nothing_more(content_type: str) -> None:
    once = remove_metadata(picture(content_type, 6), content_type)
    assert remove_metadata(once.data, content_type) == once


@pytest.mark.parametrize("content_type", FORMATS)
def test_the_colour_profile_stays(content_type: str) -> None:
    data = picture(content_type, icc_profile=b"profile" * 20)
    assert opened(remove_metadata(data, content_type).data).info["icc_profile"] == b"profile" * 20


def test_a_progressive_jpeg_keeps_all_its_scans() -> None:
    data = picture("image/jpeg", 3, progressive=True)
    clean = remove_metadata(data, "image/jpeg").data
    assert opened(clean).tobytes() == opened(data).tobytes()
    assert clean.count(b"\xff\xda") == data.count(b"\xff\xda") > 1


def test_a_jpeg_with_restart_markers_stays_whole() -> None:
    data = picture("image/jpeg", restart_marker_blocks=1)
    assert b"\xff\xd0" in data
    assert opened(remove_metadata(data, "image/jpeg").data).tobytes() == opened(data).tobytes()


@pytest.mark.parametrize(
    "segment",
    [
        b"\xff\xe1\x00\x2bhttp://ns.adobe.com/xap/1.0/\x00SecretCam...",
        b"\xff\xed\x00\x1dPhotoshop 3.0\x008BIMSecretCam",
        b"\xff\xfe\x00\x0bSecretCam",
        b"\xff\xe2\x00\x0fMPF\x00SecretCam",
        b"\xff\xff\xff\xfe\x00\x0bSecretCam",
    ],
    ids=["xmp", "iptc", "comment", "mpf", "fill bytes"],
)
def test_every_segment_that_can_hold_words_goes_from_a_jpeg(segment: bytes) -> None:
    plain = remove_metadata(picture("image/jpeg"), "image/jpeg").data
    assert remove_metadata(plain[:2] + segment + plain[2:], "image/jpeg").data == plain


def test_what_follows_the_end_of_a_jpeg_goes() -> None:
    plain = remove_metadata(picture("image/jpeg"), "image/jpeg").data
    assert remove_metadata(plain + SECRET, "image/jpeg").data == plain


def test_a_jpeg_whose_last_scan_is_cut_off_is_closed() -> None:
    plain = remove_metadata(picture("image/jpeg"), "image/jpeg").data
    assert remove_metadata(plain[:-2], "image/jpeg").data == plain


def test_adobes_colour_marker_stays() -> None:
    adobe = b"\xff\xee\x00\x0eAdobe\x00d\x00\x00\x00\x00\x02"
    plain = remove_metadata(picture("image/jpeg"), "image/jpeg").data
    assert adobe in remove_metadata(plain[:2] + adobe + plain[2:], "image/jpeg").data


def test_texts_and_times_go_from_a_png() -> None:
    notes = PngImagePlugin.PngInfo()
    notes.add_text("Author", SECRET.decode())
    notes.add_text("Long", SECRET.decode() * 50, zip=True)
    notes.add_itxt("XML:com.adobe.xmp", SECRET.decode())
    notes.add(b"tIME", b"\x07\xea\x0b\x14\x09\x0a\x09")
    notes.add(b"prVt", SECRET)
    clean = remove_metadata(picture("image/png", pnginfo=notes), "image/png").data
    assert chunk_names(clean) == [b"IHDR", b"IDAT", b"IEND"]


def test_the_way_up_stands_in_a_png_before_its_pixels() -> None:
    names = chunk_names(remove_metadata(picture("image/png", 6), "image/png").data)
    assert names == [b"IHDR", b"eXIf", b"IDAT", b"IEND"]


def test_what_follows_the_end_of_a_png_goes() -> None:
    plain = remove_metadata(picture("image/png"), "image/png").data
    assert remove_metadata(plain + SECRET, "image/png").data == plain


def test_an_animated_png_and_webp_keep_their_frames() -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "green", "blue")]
    for content_type in ("image/png", "image/webp"):
        into = io.BytesIO()
        frames[0].save(into, FORMATS[content_type], save_all=True, append_images=frames[1:], lossless=True)
        image = opened(remove_metadata(into.getvalue(), content_type).data)
        assert getattr(image, "n_frames", 1) == 3


def test_a_png_keeps_its_transparency() -> None:
    into = io.BytesIO()
    Image.new("P", (4, 4)).save(into, "PNG", transparency=0)
    assert opened(remove_metadata(into.getvalue(), "image/png").data).info["transparency"] == 0


def test_a_webp_says_in_its_header_what_is_left() -> None:
    data = picture("image/webp", 1, xmp=b"<x:xmpmeta>SecretCam</x:xmpmeta>", icc_profile=b"profile" * 3)
    clean = remove_metadata(data, "image/webp").data
    assert clean[12:16] == b"VP8X"
    assert clean[20] & 0x0C == 0
    assert struct.unpack("<I", clean[4:8])[0] == len(clean) - 8
    assert b"XMP " not in clean
    assert b"EXIF" not in clean


def gif() -> bytes:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "green", "blue")]
    into = io.BytesIO()
    frames[0].save(into, "GIF", save_all=True, append_images=frames[1:], loop=3, duration=70, comment=SECRET)
    return into.getvalue()


def test_a_gif_loses_its_comment_and_keeps_its_movement() -> None:
    assert SECRET in gif()
    clean = remove_metadata(gif(), "image/gif").data
    assert SECRET not in clean
    before, after = Image.open(io.BytesIO(gif())), Image.open(io.BytesIO(clean))
    assert (after.n_frames, after.info["loop"], after.info["duration"]) == (3, 3, 70)
    for frame in range(3):
        before.seek(frame)
        after.seek(frame)
        assert after.convert("RGB").tobytes() == before.convert("RGB").tobytes()


def test_xmp_and_what_follows_the_end_go_from_a_gif() -> None:
    plain = remove_metadata(gif(), "image/gif").data
    xmp = b"\x21\xff\x0bXMP DataXMP\x09SecretCam\x00"
    assert remove_metadata(plain[:-1] + xmp + plain[-1:] + SECRET, "image/gif").data == plain


def test_a_gif_without_its_last_byte_is_closed() -> None:
    plain = remove_metadata(gif(), "image/gif").data
    assert remove_metadata(plain[:-1], "image/gif").data == plain


def test_a_gif_with_tables_of_its_own_for_a_frame_stays_whole() -> None:
    table = b"\x00" * 6
    frame = b"\x2c\xfe" + b"\x00" * 3 + b"\x01\x00\x01\x00" + b"\x80" + table + b"\x02\x02\x44\x01\x00"
    data = b"GIF89a\x01\x00\x01\x00\x80\x00\x00" + table + frame + b"\x3b"
    assert remove_metadata(data, "image/gif").data == data


def test_an_unknown_format_stays_as_it_is() -> None:
    assert remove_metadata(b"anything", "image/avif").data == b"anything"


BROKEN = [
    ("image/jpeg", b""),
    ("image/jpeg", b"\xff\xd8"),
    ("image/jpeg", b"\xff\xd8\xff"),
    ("image/jpeg", b"\xff\xd8\xff\xe1"),
    ("image/jpeg", b"\xff\xd8\xff\xe1\x00\x01"),
    ("image/jpeg", b"\xff\xd8\xff\xe1\xff\xffExif\0\0"),
    ("image/jpeg", b"\xff\xd8garbage"),
    ("image/jpeg", b"\x89PNG\r\n\x1a\n"),
    ("image/png", b"\xff\xd8\xff"),
    ("image/png", b"\x89PNG\r\n\x1a\n\x00\x00"),
    ("image/png", b"\x89PNG\r\n\x1a\n\xff\xff\xff\xfftEXt"),
    ("image/gif", b"\x89PNG\r\n\x1a\n"),
    ("image/gif", b"GIF89a"),
    ("image/gif", b"GIF89a\x01\x00\x01\x00\x00\x00\x00\x99"),
    ("image/gif", b"GIF89a\x01\x00\x01\x00\x00\x00\x00\x21\xfe\x20abc"),
    ("image/gif", b"GIF89a\x01\x00\x01\x00\x00\x00\x00\x2c"),
    ("image/webp", b"RIFF\x04\x00\x00\x00WAVE"),
    ("image/webp", b"RIFF\xff\x00\x00\x00WEBPEXIF\xff\xff\xff\xff"),
]


@pytest.mark.parametrize(("content_type", "data"), BROKEN)
def test_damaged_file_is_refused_instead_of_published_with_metadata(content_type: str, data: bytes) -> None:
    with pytest.raises(ApiError) as caught:
        remove_metadata(data, content_type)
    assert (caught.value.code, caught.value.rule) == ("preflight_failed", "media.unreadable")
    assert caught.value.outcome is Outcome.REJECTED


@given(st.sampled_from(sorted(FORMATS)), st.data())
def test_no_damage_leads_to_another_error(content_type: str, data: st.DataObject) -> None:
    raw = bytearray(picture(content_type, 6))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, min(len(raw), 200) - 1))] = data.draw(st.integers(0, 255))
    assert outcome(bytes(raw), content_type) in (1, 2, 3, 4, 5, 6, 7, 8, "media.unreadable")


def outcome(data: bytes, content_type: str) -> object:
    try:
        return remove_metadata(data, content_type).orientation
    except ApiError as error:
        return error.rule


@pytest.mark.parametrize(
    ("tiff", "orientation"),
    [
        (b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0", 6),
        (b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x08\0\0", 8),
        (b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x09\0\0\0", 1),
        (b"II*\0\x08\0\0\0\x01\0\x12\x01\x04\0\x01\0\0\0\x06\0\0\0", 1),
        (b"II*\0\xff\xff\xff\xff", 1),
        (b"II", 1),
        (b"XX*\0", 1),
        (b"", 1),
    ],
)
def test_orientation_is_read_in_either_byte_order_when_valid(tiff: bytes, orientation: int) -> None:
    plain = remove_metadata(picture("image/png"), "image/png").data
    chunk = struct.pack(">I", len(tiff)) + b"eXIf" + tiff + struct.pack(">I", zlib.crc32(b"eXIf" + tiff))
    assert remove_metadata(plain[:33] + chunk + plain[33:], "image/png").orientation == orientation


@pytest.mark.parametrize(
    ("data", "content_type"),
    [
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\0\0\0\0WAVE", None),
        (b"<svg", None),
        (b"", None),
    ],
)
def test_the_type_is_what_the_bytes_are(data: bytes, content_type: str | None) -> None:
    assert detect_type(data) == content_type


def chunk_names(data: bytes) -> list[bytes]:
    at, names = 8, []
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        names.append(data[at + 4 : at + 8])
        assert struct.unpack_from(">I", data, at + 8 + length)[0] == zlib.crc32(data[at + 4 : at + 8 + length])
        at += 12 + length
    return names
