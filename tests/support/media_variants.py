"""Image and video files as over 200 variants of encoders and cameras, with verdicts.

They combine a few complete files with possible changes of each format. `is_whole` files have all pixels and must be
accepted everywhere; the upload must refuse all others, with `why` in the message.
"""

from __future__ import annotations

import functools
import io
import itertools
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from PIL import Image

from socialpub.base import image_formats
from tests.support.media_files import animation, box, chunk, mp4, picture

SECRET = b"SecretCam"
MARKUP = b"<!DOCTYPE html><html><script>alert(1)</script><svg onload=x><?php x(); ?> " + SECRET
EXIF = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x0f\0\x02\0\0\0\x0a\0\0\0\x1a\0\0\0\0" + SECRET + b"\0"
UNFORMED = "the chunks around them are not well formed"  # neither Chromium nor libwebp shows such a file
CUT, MARKED = "It is cut short", "It is also a page with markup"
SIZE = (80, 100)
Change = Callable[[bytes], bytes]


@dataclass(frozen=True)
class MediaVariant:
    """One file. `shown_as`: a file with the same pixels, where the file is whole."""

    name: str
    content_type: str
    data: bytes
    shown_as: bytes
    why: str = ""

    @property
    def is_whole(self) -> bool:
        return not self.why


Changes = dict[str, tuple[Change, str]]  # what is done to a file, by name, and why the result is refused


@functools.cache
def variants() -> tuple[MediaVariant, ...]:
    """All variants, those of one format together."""
    return tuple(itertools.chain.from_iterable(_of(*each) for each in _FORMATS))


def _of(
    content_type: str, bases: Callable[[], dict[str, bytes]], changes: Callable[[], Changes]
) -> Iterator[MediaVariant]:
    for base, data in bases().items():
        for change, (make, why) in changes().items():
            yield MediaVariant(f"{base}, {change}", content_type, make(data), data, why)


def inserted(at: int, what: bytes) -> Change:
    return lambda data: data[:at] + what + data[at:]


def before_end(length: int, what: bytes) -> Change:
    return lambda data: data[: len(data) - length] + what + data[len(data) - length :]


def followed(what: bytes) -> Change:
    return lambda data: data + what


def without(length: int) -> Change:
    return lambda data: data[: len(data) - length]


def half(data: bytes) -> bytes:
    return data[: len(data) * 3 // 5]


def whole(change: Change) -> tuple[Change, str]:
    return change, ""


# --- JPEG ------------------------------------------------------------------------------------------------------------


def segment(marker: int, payload: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(payload) + 2) + payload


def between_segments(what: bytes) -> Change:
    """Put bytes before each segment of a JPEG but its first, and before its end mark."""

    def change(data: bytes) -> bytes:
        starts = [part.start for part in image_formats.read(data, "image/jpeg").parts]
        cuts = [0, *starts[1:], len(data) - 2, len(data)]
        return what.join(data[start:end] for start, end in itertools.pairwise(cuts))

    return change


def _jpegs() -> dict[str, bytes]:
    return {
        "JPEG": picture("JPEG", SIZE, quality=90),
        "progressive JPEG": picture("JPEG", SIZE, progressive=True),
        "JPEG with restarts": picture("JPEG", SIZE, restart_marker_blocks=2, subsampling=0),
        "CMYK JPEG": _saved(Image.linear_gradient("L").resize(SIZE).convert("CMYK"), "JPEG"),
    }


def _jpeg_changes() -> Changes:
    profile = b"ICC_PROFILE\0\1\1" + bytes(60_000)
    return {
        "as it is": whole(lambda data: data),
        "no end mark": whole(without(2)),
        "half an end mark": whole(without(1)),
        "zeros in place of the end mark": whole(lambda data: data[:-2] + b"\0\0"),
        "zeros before the end mark": whole(before_end(2, bytes(9))),
        "stray bytes between segments": whole(between_segments(b"\0stray\xff\0")),
        "fill bytes between segments": whole(between_segments(b"\xff\xff\xff")),
        "restart marks between segments": whole(inserted(2, b"\xff\xd0\xff\x01")),
        "an application segment of no length": whole(inserted(2, b"\xff\xe5\0\0\xff\xe6\0\1")),
        "every application segment": whole(inserted(2, b"".join(segment(0xE1 + n, SECRET) for n in range(15)))),
        "APP0 of a film camera": whole(inserted(2, segment(0xE0, b"AVI1" + SECRET))),
        "an empty comment": whole(inserted(2, segment(0xFE, b""))),
        "markup in a comment": whole(inserted(2, segment(0xFE, MARKUP))),
        "markup in XMP": whole(inserted(2, segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0" + MARKUP))),
        "camera data": whole(inserted(2, segment(0xE1, EXIF))),
        "broken camera data": whole(inserted(2, segment(0xE1, b"Exif\0\0MM\0*\xff\xff\xff\xff" + SECRET))),
        "camera data behind the pixels": whole(before_end(2, segment(0xE1, EXIF))),
        "a cut segment behind the pixels": whole(lambda data: data[:-2] + segment(0xFE, SECRET * 9)[:-5]),
        "a colour profile in pieces": whole(inserted(2, segment(0xE2, profile) * 4)),
        "another picture behind the end": whole(followed(picture("JPEG", (9, 9), exif=EXIF))),
        "another picture without an end mark before": whole(
            lambda data: data[:-2] + inserted(2, segment(0xE1, EXIF))(picture("JPEG", (9, 9)))
        ),
        "a film behind the end": whole(followed(mp4())),
        "padding": whole(followed(bytes(4096))),
        "markup between segments": (between_segments(MARKUP), MARKED),
        "markup behind the end": (followed(b"\n" + MARKUP), MARKED),
        "half of it": (half, CUT),
        "no pixels": (lambda data: data[: data.index(b"\xff\xda")], CUT),
        "a marker that is none": (inserted(2, b"\xff\x4a\0\x04ab"), "a marker that no JPEG has in its place (0x4A)"),
        "a second start": (inserted(2, b"\xff\xd8"), "a marker that no JPEG has in its place (0xD8)"),
    }


# --- PNG -------------------------------------------------------------------------------------------------------------


END = chunk(b"IEND", b"")


def wrong(name: bytes, body: bytes) -> bytes:
    """A chunk whose checksum is wrong."""
    return chunk(name, body)[:-4] + b"\0\0\0\1"


def in_pieces(size: int) -> Change:
    """Divide the pixel data of a PNG into chunks of this size, with an empty one in between."""

    def change(data: bytes) -> bytes:
        layout = image_formats.read(data, "image/png")
        parts = layout.named(b"IDAT")
        packed = b"".join(data[part.body : part.end] for part in parts)
        pieces = [packed[at : at + size] for at in range(0, len(packed), size)]
        idats = b"".join(chunk(b"IDAT", piece) for piece in [*pieces[:1], b"", *pieces[1:]])
        return data[: parts[0].start] + idats + data[parts[-1].end + 4 :]

    return change


def at_pixels(change: Callable[[bytes, int], bytes]) -> Change:
    """A change that is told where the body of the first IDAT begins."""
    return lambda data: change(data, data.index(b"IDAT") + 4)


def _pngs() -> dict[str, bytes]:
    grey = Image.linear_gradient("L").resize(SIZE)
    return {
        "PNG": picture("PNG", SIZE),
        "PNG of a palette": _saved(grey.convert("P"), transparency=0),
        "grey PNG": _saved(grey),
    }


def _saved(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def _png_changes() -> Changes:
    after, body = 33, zlib.compress(SECRET * 200_000)  # behind the header; 1.8 MB
    ancillary = {
        "a colour profile of 1.8 MB": chunk(b"iCCP", b"printer\0\0" + zlib.compress(bytes(1_800_000))),
        "a packed text of 1.8 MB": chunk(b"zTXt", b"workflow\0\0" + body),
        "an international text of 1.8 MB": chunk(b"iTXt", b"prompt\0\1\0\0\0" + body),
        "a packed text that is damaged": chunk(b"zTXt", b"x\0\0" + body[:50] + SECRET),
        "a profile that is damaged": chunk(b"iCCP", b"x\0\0nothing"),
        "markup in a text": chunk(b"tEXt", b"Comment\0" + MARKUP),
        "unknown chunks": chunk(b"prVt", SECRET) + chunk(b"vpAg", bytes(9)) + chunk(b"zzZZ", b""),
        "camera data": chunk(b"eXIf", EXIF[6:]),
        "broken camera data": chunk(b"eXIf", SECRET),
        "chunks of impossible lengths": chunk(b"pHYs", b"\0") + chunk(b"gAMA", b"") + chunk(b"cHRM", b"abc"),
        **{f"a wrong checksum of {name}": wrong(name.encode(), SECRET) for name in ("tEXt", "pHYs", "eXIf", "iCCP")},
        **{f"a wrong checksum of {name}": wrong(name.encode(), bytes(9)) for name in ("gAMA", "tIME", "zzZZ")},
    }
    broken = "Its pixels cannot be decoded"
    return {
        "as it is": whole(lambda data: data),
        **{what: whole(inserted(after, extra)) for what, extra in ancillary.items()},
        "texts behind the pixels": whole(before_end(12, chunk(b"tEXt", b"x\0" + SECRET))),
        "a cut text behind the pixels": whole(lambda data: data[:-12] + chunk(b"tEXt", b"x\0" + SECRET)[:-6]),
        "no end chunk": whole(without(12)),
        "a cut end chunk": whole(without(5)),
        "a wrong checksum of the end": whole(lambda data: data[:-4] + bytes(4)),
        "no checksum of the last pixels": whole(without(16)),
        "padding": whole(followed(bytes(999))),
        "pixels in many chunks": whole(in_pieces(50)),
        "markup behind the end": (followed(MARKUP), MARKED),
        "half of it": (half, CUT),
        "some of the pixels and an end": (lambda data: in_pieces(20)(data)[: data.index(b"IDAT") + 48] + END, CUT),
        "a wrong checksum of pixels": (without_checksum, "The checksum of its IDAT chunk is wrong"),
        "damaged pixels": (at_pixels(damaged), broken),
        "an unknown critical chunk": (inserted(after, chunk(b"NEWc", b"")), "critical chunk of an unknown kind (NEWc)"),
        "a text among the pixels": (interrupted, "interrupted by another chunk"),
        "no header": (lambda data: data[:8] + data[after:], "Its first chunk is not a header"),
        "stray bytes between chunks": (inserted(after, bytes(12)), "Bytes that are no chunk"),
    }


def without_checksum(data: bytes) -> bytes:
    at = image_formats.read(data, "image/png").named(b"IDAT")[0].end
    return data[:at] + bytes(4) + data[at + 4 :]


def damaged(data: bytes, at: int) -> bytes:
    length = int.from_bytes(data[at - 8 : at - 4], "big")
    return data[: at - 8] + chunk(b"IDAT", b"\xff" * length) + data[at + length + 4 :]


def interrupted(data: bytes) -> bytes:
    divided = in_pieces(50)(data)
    at = divided.index(b"IDAT", divided.index(b"IDAT") + 4) - 4
    return inserted(at, chunk(b"tEXt", b"x\0y"))(divided)


# --- GIF -------------------------------------------------------------------------------------------------------------


def between_blocks(what: bytes) -> Change:
    """Put bytes before each block of a GIF, and before its trailer."""

    def change(data: bytes) -> bytes:
        ends = [part.end for part in image_formats.read(data, "image/gif").parts]
        cuts = [0, *ends, len(data)]
        return what.join(data[start:end] for start, end in itertools.pairwise(cuts))

    return change


def _gifs() -> dict[str, bytes]:
    return {"GIF": picture("GIF", SIZE), "animated GIF": animation("GIF", 4, SIZE)}


def _extension(label: bytes, *blocks: bytes) -> bytes:
    return b"!" + label + b"".join(bytes([len(each)]) + each for each in blocks) + b"\0"


def _gif_changes() -> Changes:
    return {
        "as it is": whole(lambda data: data),
        "a zero between blocks": whole(between_blocks(b"\0")),
        "zeros between blocks": whole(between_blocks(bytes(7))),
        "no trailer": whole(without(1)),
        "no end of its last block": whole(without(2)),
        "markup in a comment": whole(before_end(1, _extension(b"\xfe", MARKUP))),
        "comments between blocks": whole(between_blocks(_extension(b"\xfe", SECRET))),
        "XMP": whole(before_end(1, _extension(b"\xff", b"XMP DataXMP", MARKUP))),
        "an unknown application": whole(before_end(1, _extension(b"\xff", b"ABCDEFGH1.0", SECRET))),
        "an unknown extension": whole(before_end(1, _extension(b"\xce", SECRET))),
        "a colour profile": whole(between_blocks(_extension(b"\xff", b"ICCRGBG1012", bytes(255)))),
        "a cut comment at its end": whole(lambda data: data[:-1] + _extension(b"\xfe", SECRET)[:-4]),
        "unknown blocks behind the pictures": whole(before_end(1, b"\x99" + SECRET)),
        "padding": whole(followed(bytes(512))),
        "two trailers": whole(followed(b";")),
        "markup behind the trailer": (followed(MARKUP), MARKED),
        "markup in place of a trailer": (lambda data: data[:-1] + MARKUP, MARKED),
        "a script": (lambda data: data[:6] + b"/*" + data[8:] + b"*/=1;", "It is also a script"),
        "half of its last frame": (lambda data: data[: (data.rindex(b",") + len(data)) // 2], CUT),
        "no frames": (lambda data: data[: image_formats.read(data, "image/gif").parts[0].end], CUT),
    }


# --- WebP ------------------------------------------------------------------------------------------------------------


def riff(*chunks: bytes, more: int = 0) -> bytes:
    body = b"WEBP" + b"".join(chunks)
    return b"RIFF" + struct.pack("<I", len(body) + more) + body


def webp_chunk(name: bytes, body: bytes, pad: bool = True) -> bytes:
    return name + struct.pack("<I", len(body)) + body + b"\0" * (pad and len(body) % 2)


def added(*chunks: bytes, more: int = 0) -> Change:
    """Add chunks to the end of a WebP; `more`: how much larger it says it is."""
    return lambda data: riff(data[12:], *chunks, more=more)


def _webps() -> dict[str, bytes]:
    return {
        "WebP": picture("WEBP", SIZE, exif=EXIF),
        "lossless WebP": picture("WEBP", SIZE, lossless=True),
        "animated WebP": animation("WEBP", 4, SIZE),
    }


def _webp_changes() -> Changes:
    return {
        "as it is": whole(lambda data: data),
        "an unknown chunk": whole(added(webp_chunk(b"abcd", SECRET * 2))),
        "an unknown chunk of odd size": whole(added(webp_chunk(b"abcd", SECRET))),
        "an odd size without padding": (added(webp_chunk(b"abcd", SECRET, pad=False)), UNFORMED),
        "an odd size, padding not counted": (added(webp_chunk(b"abcd", SECRET), more=-1), UNFORMED),
        "an odd size, padding missing": (added(webp_chunk(b"abcd", SECRET, pad=False), more=1), UNFORMED),
        "markup in XMP": whole(added(webp_chunk(b"XMP ", MARKUP))),
        "camera data": whole(added(webp_chunk(b"EXIF", EXIF))),
        "broken camera data": whole(added(webp_chunk(b"EXIF", SECRET))),
        "a cut chunk at its end": (added(webp_chunk(b"XMP ", SECRET * 4)[:-9]), UNFORMED),
        "bytes that are no chunk at its end": (added(b"\0\0\0"), UNFORMED),
        "padding": whole(followed(bytes(64))),
        "markup behind the end": (followed(MARKUP), MARKED),
        "half of it": (half, CUT),
        "a size of nothing": (lambda data: data[:4] + bytes(4) + data[8:], CUT),
        "another chunk first": (lambda data: riff(webp_chunk(b"abcd", bytes(10)), data[12:]), "Its first chunk"),
    }


# --- MP4 -------------------------------------------------------------------------------------------------------------


def boxes(data: bytes) -> list[bytes]:
    """The boxes of the top level."""
    found, at = [], 0
    while at < len(data):
        (size,) = struct.unpack_from(">I", data, at)
        found.append(data[at : at + size])
        at += size
    return found


def among_boxes(what: bytes) -> Change:
    return lambda data: what.join(boxes(data)) + what


def wide(name: bytes) -> Change:
    """Write the size of a box in 64 bits."""

    def widened(each: bytes) -> bytes:
        if each[4:8] != name:
            return each
        return struct.pack(">I4sQ", 1, name, len(each) + 8) + each[8:]

    return lambda data: b"".join(widened(each) for each in boxes(data))


def open_end(data: bytes) -> bytes:
    """The media last, in a box whose size is 0: it goes on to the end of the file."""
    ftyp, mdat, moov = boxes(data)
    return ftyp + moov + bytes(4) + mdat[4:]


def _mp4s() -> dict[str, bytes]:
    return {
        "MP4": mp4(720, 1280, seconds=4, frame_bytes=20),
        "silent MP4 on its side": mp4(1280, 720, seconds=4, frame_bytes=20, sound=False, turn=90),
        "QuickTime": mp4(720, 1280, seconds=4, frame_bytes=20, brand=b"qt  "),
    }


def _mp4_changes() -> Changes:
    uuid = box(b"uuid", bytes(range(16)), MARKUP)
    notes = box(b"udta", box(b"\xa9nam", struct.pack(">HH", len(MARKUP), 0) + MARKUP))
    return {
        "as it is": whole(lambda data: data),
        "free boxes": whole(among_boxes(box(b"free", bytes(50)))),
        "empty boxes": whole(among_boxes(box(b"skip") + box(b"free") + box(b"wide"))),
        "markup in uuid boxes": whole(among_boxes(uuid)),
        "markup in its notes": whole(lambda data: data + notes),
        "unknown boxes": whole(among_boxes(box(b"abcd", SECRET))),
        "a media box of 64 bits": whole(wide(b"mdat")),
        "an index of 64 bits": whole(wide(b"moov")),
        "a free box of 64 bits": whole(followed(wide(b"free")(box(b"free", bytes(20))))),
        "a last box without a size": whole(open_end),
        "a free box without a size": whole(followed(struct.pack(">I4s", 0, b"free") + bytes(30))),
        "the index first": whole(lambda data: b"".join(boxes(data)[index] for index in (0, 2, 1))),
        "padding": whole(followed(bytes(700))),
        "odd bytes at its end": whole(followed(b"\0\0\0")),
        "words at its end": whole(followed(SECRET * 20)),
        "markup in a free box": (among_boxes(box(b"free", MARKUP)), MARKED),
        "markup behind its end": (followed(MARKUP), MARKED),
        "half of it": (half, CUT),
        "no index": (lambda data: b"".join(boxes(data)[:2]), "It holds no video"),
    }


_FORMATS: tuple[tuple[str, Callable[[], dict[str, bytes]], Callable[[], Changes]], ...] = (
    ("image/jpeg", _jpegs, _jpeg_changes),
    ("image/png", _pngs, _png_changes),
    ("image/gif", _gifs, _gif_changes),
    ("image/webp", _webps, _webp_changes),
    ("video/mp4", _mp4s, _mp4_changes),
)
