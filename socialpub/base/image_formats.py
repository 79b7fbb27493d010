"""Split image files into their parts, and write them again from selected parts.

One reader per format: JPEG (ITU T.81), PNG (W3C, third edition), GIF89a, WebP (RFC 9649). The media probe decodes the
parts with pixels, connectors publish those and the ones that change how they look, so both accept the same files.
Nothing is decoded here. Outside the pixels the readers are as lenient as browsers: they accept bytes between parts,
unknown parts, wrong checksums, truncated metadata, and a missing end mark.
"""

from __future__ import annotations

import mmap
import re
import struct
import zlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

PARTS_MAX = 250_000  # of one file; 20,000 frames of a GIF take about 60,000

ImageData = bytes | mmap.mmap


class ImageError(ValueError):
    """The file cannot be split into parts; the text is a sentence.

    `is_cut`: its end is missing.
    """

    def __init__(self, why: str, *, is_cut: bool = False) -> None:
        super().__init__(why)
        self.is_cut = is_cut


class PartRole(Enum):
    """The purpose of a part."""

    PIXELS = "needed to decode the pixels, animation included"
    LOOK = "colour profile, transparency and others that change how the pixels look"
    METADATA = "everything else: texts, camera data, unknown parts"


@dataclass(frozen=True, slots=True)
class ImagePart:
    """One segment, chunk or block; offsets are bytes from the start of the file.

    `body` is where the payload begins, `end` the first byte after it (after the scan data of a JPEG's scan).
    """

    role: PartRole
    name: bytes
    start: int
    body: int
    end: int
    is_cut: bool = False


@dataclass
class ImageLayout:
    """The parts of an image file, in order.

    `strays`: ranges of bytes that belong to no part. `end`: the first byte after the image. `is_closed`: the format's
    end mark was found. `orientation`: of EXIF, 1 to 8.
    """

    content_type: str
    parts: list[ImagePart] = field(default_factory=list)
    strays: list[tuple[int, int]] = field(default_factory=list)
    end: int = 0
    is_closed: bool = False
    orientation: int = 1

    def add(self, part: ImagePart) -> None:
        if len(self.parts) >= PARTS_MAX:
            raise ImageError(f"It has more than {PARTS_MAX:,} parts.")
        self.parts.append(part)

    def named(self, *names: bytes) -> list[ImagePart]:
        return [part for part in self.parts if part.name in names]


def detect_type(head: bytes) -> str | None:
    """Return the content type of a JPEG, PNG, WebP or GIF by its first 12 bytes, else None."""
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    starts = {b"\xff\xd8\xff": "image/jpeg", _PNG_HEAD: "image/png", b"GIF87a": "image/gif", b"GIF89a": "image/gif"}
    return next((name for start, name in starts.items() if head.startswith(start)), None)


def read(data: ImageData, content_type: str) -> ImageLayout:
    """Split a file of this type into its parts.

    Raise ImageError if decoders could not find the pixels.
    """
    if detect_type(data[:12]) != content_type:
        raise ImageError(f"It does not begin like {content_type}.")
    try:
        return _FORMATS[content_type][0](data)
    except (IndexError, struct.error) as error:  # a header that runs past the end
        raise ImageError("It is cut short.", is_cut=True) from error


def write(data: ImageData, layout: ImageLayout, roles: Collection[PartRole], orientation: int = 1) -> bytes:
    """Return a well-formed image made of the parts with these roles.

    `orientation` is written as its only EXIF entry unless it is 1.
    """
    selected = [part for part in layout.parts if part.role in roles]
    return _FORMATS[layout.content_type][1](data, selected, orientation)


# --- EXIF orientation ------------------------------------------------------------------------------------------------

_TIFF_ORIENTATION = 0x0112
_EXIF_HEAD = b"Exif\0\0"


def _read_orientation(tiff: bytes) -> int:
    """Return the orientation in an EXIF block; 1 if it has none or cannot be read."""
    order = {b"II": "<", b"MM": ">"}.get(tiff[:2])
    try:
        return _find_orientation_tag(tiff, order) if order else 1
    except struct.error:
        return 1


def _find_orientation_tag(tiff: bytes, order: str) -> int:
    (start,) = struct.unpack_from(order + "I", tiff, 4)
    (entries,) = struct.unpack_from(order + "H", tiff, start)
    for index in range(entries):
        tag, kind, _, value = struct.unpack_from(order + "HHIH", tiff, start + 2 + 12 * index)
        if tag == _TIFF_ORIENTATION and kind == 3:
            return value if 1 <= value <= 8 else 1
    return 1


def _build_exif(orientation: int) -> bytes:
    """Return the smallest EXIF block, with the orientation as its only entry."""
    return b"MM\0\x2a" + struct.pack(">IHHHIHHI", 8, 1, _TIFF_ORIENTATION, 3, 1, orientation, 0, 0)


# --- JPEG ------------------------------------------------------------------------------------------------------------

_SOF, _SOI, _EOI, _SOS, _APP0, _APP1, _APP2, _APP14, _APP15 = 0xC0, 0xD8, 0xD9, 0xDA, 0xE0, 0xE1, 0xE2, 0xEE, 0xEF
_COMMENT = 0xFE
_MARKERS_WITHOUT_LENGTH = frozenset({0x01, *range(0xD0, 0xD8)})  # markers without a length: TEM, RST0 to RST7
_MARKER = re.compile(rb"\xff[^\x00\xff]")  # decoders skip any bytes before it
_SCAN_END = re.compile(rb"\xff[^\x00\x01\xd0-\xd7\xff]")  # neither stuffing, restart nor fill


def _read_jpeg(data: ImageData) -> ImageLayout:
    layout = ImageLayout("image/jpeg", end=len(data))
    at, has_scan, has_exif = 2, False, False
    while found := _MARKER.search(data, at):
        marker = found[0][1]
        if found.start() > at:
            layout.strays.append((at, found.start()))
        if marker == _EOI or (marker == _SOI and has_scan):  # some cameras append images without an end mark
            layout.is_closed = marker == _EOI
            layout.end = found.end() if layout.is_closed else found.start()
            break
        if marker in _MARKERS_WITHOUT_LENGTH:
            at = found.end()
            continue
        part = _read_jpeg_segment(data, found.start(), marker)
        if part.is_cut:
            if not (has_scan and part.role is PartRole.METADATA):
                raise ImageError("It is cut short.", is_cut=True)
            break
        layout.add(part)
        has_scan = has_scan or marker == _SOS
        if marker == _APP1 and not has_exif and data[part.body : part.body + 6] == _EXIF_HEAD:
            layout.orientation, has_exif = _read_orientation(data[part.body + 6 : part.end]), True
        at = part.end
    if not has_scan:
        raise ImageError("It is cut short: it has no pixels.", is_cut=True)
    return layout


def _read_jpeg_segment(data: ImageData, start: int, marker: int) -> ImagePart:
    """Read the segment at `start`, with the scan data after it."""
    if marker < _SOF or marker == _SOI:
        raise ImageError(f"It has a marker that no JPEG has in its place (0x{marker:02X}).")
    (length,) = struct.unpack_from(">H", data, start + 2)
    is_app = _APP0 <= marker <= _APP15 or marker == _COMMENT
    if length < 2 and not is_app:
        raise ImageError(f"A segment of it has an impossible length (0x{marker:02X}).")
    body, end = start + 4, start + 2 + max(2, length)
    role = _get_jpeg_role(marker, data[body : min(end, body + 12)]) if length >= 2 else PartRole.METADATA
    if end > len(data):
        return ImagePart(role, bytes([marker]), start, body, len(data), is_cut=True)
    if marker == _SOS:
        after = _SCAN_END.search(data, end)
        end = after.start() if after else len(data)
    return ImagePart(role, bytes([marker]), start, body, end)


def _get_jpeg_role(marker: int, payload: bytes) -> PartRole:
    if marker == _APP0 and payload.startswith(b"JFIF\0"):
        return PartRole.PIXELS
    if marker == _APP14 and payload.startswith(b"Adobe"):  # names the colour space
        return PartRole.PIXELS
    if marker == _APP2 and payload.startswith(b"ICC_PROFILE\0"):
        return PartRole.LOOK
    return PartRole.METADATA if _APP0 <= marker <= _APP15 or marker == _COMMENT else PartRole.PIXELS


def _write_jpeg(data: ImageData, parts: list[ImagePart], orientation: int) -> bytes:
    turn = _EXIF_HEAD + _build_exif(orientation)
    first = struct.pack(">BBH", 0xFF, _APP1, len(turn) + 2) + turn if orientation != 1 else b""
    return b"".join((b"\xff\xd8", first, *(data[part.start : part.end] for part in parts), b"\xff\xd9"))


# --- PNG -------------------------------------------------------------------------------------------------------------

_PNG_HEAD = b"\x89PNG\r\n\x1a\n"
_PNG_CRITICAL = frozenset((b"IHDR", b"PLTE", b"IDAT"))
_PNG_PIXELS = _PNG_CRITICAL | {b"acTL", b"fcTL", b"fdAT"}
_PNG_LOOK = frozenset(b"tRNS gAMA cHRM sRGB iCCP sBIT pHYs bKGD hIST sPLT cICP mDCV cLLI".split())
_PNG_LENGTHS = {b"gAMA": 4, b"cHRM": 32, b"sRGB": 1, b"pHYs": 9, b"cICP": 4, b"mDCV": 24, b"cLLI": 8}


def _read_png(data: ImageData) -> ImageLayout:
    layout, at, has_pixels, has_exif = ImageLayout("image/png", end=len(data)), len(_PNG_HEAD), False, False
    while at + 8 <= len(data):
        name = data[at + 4 : at + 8]
        if not name.isalpha():
            if not has_pixels:
                raise ImageError("Bytes that are no chunk stand between its chunks.")
            layout.end = at
            break
        part = _read_png_chunk(data, at)
        if name == b"IEND":
            layout.is_closed, layout.end = True, min(part.end + 4, len(data))
            break
        if not _is_accepted_chunk(layout, part, has_pixels):
            break
        part = _verify_chunk(data, part)
        layout.add(part)
        if part.name == b"eXIf" and not has_exif:
            layout.orientation, has_exif = _read_orientation(data[part.body : part.end]), True
        has_pixels = has_pixels or name == b"IDAT"
        at = part.end + 4
    if not has_pixels or not (layout.is_closed or _has_all_frames(data, layout)):
        raise ImageError("It is cut short: pixels are missing.", is_cut=True)
    return layout


def _read_png_chunk(data: ImageData, at: int) -> ImagePart:
    name, (length,) = data[at + 4 : at + 8], struct.unpack_from(">I", data, at)
    role = PartRole.PIXELS if name in _PNG_PIXELS else PartRole.LOOK if name in _PNG_LOOK else PartRole.METADATA
    end = at + 8 + length
    return ImagePart(role, name, at, at + 8, min(end, len(data)), is_cut=end + 4 > len(data))


def _is_accepted_chunk(layout: ImageLayout, part: ImagePart, has_pixels: bool) -> bool:
    """Return whether a chunk belongs to the image; False if truncated after the pixels.

    Raise ImageError if it makes the image unreadable.
    """
    if not layout.parts and (part.name != b"IHDR" or part.end - part.body != 13):
        raise ImageError("Its first chunk is not a header (IHDR) of 13 bytes.")
    if part.name[:1].isupper() and part.name not in _PNG_CRITICAL:
        raise ImageError(f"It has a critical chunk of an unknown kind ({part.name.decode()}).")
    if part.is_cut and part.name != b"IDAT":
        if part.role is PartRole.PIXELS or not has_pixels:
            raise ImageError("It is cut short.", is_cut=True)
        return False
    if part.name == b"IDAT" and has_pixels and layout.parts[-1].name != b"IDAT":
        raise ImageError("Its pixel data (IDAT) are interrupted by another chunk.")
    return True


def _verify_chunk(data: ImageData, part: ImagePart) -> ImagePart:
    """Return the chunk, without its name if its checksum or length is wrong.

    Decoders ignore such chunks. Raise ImageError if it holds pixels.
    """
    is_sound = part.is_cut or zlib.crc32(data[part.start + 4 : part.end]) == _read_uint(data, part.end)
    length = part.end - part.body
    if is_sound and length == _PNG_LENGTHS.get(part.name, length):
        return part
    if part.role is PartRole.PIXELS:
        raise ImageError(f"The checksum of its {part.name.decode()} chunk is wrong: pixels are damaged.")
    return replace(part, role=PartRole.METADATA, name=b"")


def _read_uint(data: ImageData, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "big")


def _has_all_frames(data: ImageData, layout: ImageLayout) -> bool:
    """Return whether an animation has all announced frames; True without animation."""
    control = layout.named(b"acTL")
    return not control or len(layout.named(b"fcTL")) >= _read_uint(data, control[0].body)


def _write_png(data: ImageData, parts: list[ImagePart], orientation: int) -> bytes:
    chunks = [_build_png_chunk(part.name, data[part.body : part.end]) for part in parts]
    if orientation != 1:
        chunks.insert(1, _build_png_chunk(b"eXIf", _build_exif(orientation)))
    return b"".join((_PNG_HEAD, *chunks, _build_png_chunk(b"IEND", b"")))


def _build_png_chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


# --- GIF -------------------------------------------------------------------------------------------------------------

GIF_IMAGE_NAME = b","
_GIF_EXTENSION, _GIF_IMAGE, _GIF_TRAILER = 0x21, 0x2C, 0x3B
_GIF_CONTROL, _GIF_PLAIN_TEXT, _GIF_APPLICATION = 0xF9, 0x01, 0xFF
_GIF_LOOP_IDS = (b"NETSCAPE2.0", b"ANIMEXTS1.0")
_GIF_PROFILE_ID = b"ICCRGBG1012"


def _read_gif(data: ImageData) -> ImageLayout:
    layout, at, has_image = ImageLayout("image/gif", end=len(data)), 13 + _get_color_table_size(data[10]), False
    if at > len(data):
        raise ImageError("It is cut short.", is_cut=True)
    layout.add(ImagePart(PartRole.PIXELS, b"GIF", 0, 6, at))
    while at < len(data) and data[at] != _GIF_TRAILER:
        if data[at] == 0:  # some encoders end a block twice, or pad
            layout.strays.append((at, at + 1))
            at += 1
            continue
        if data[at] not in (_GIF_EXTENSION, _GIF_IMAGE):
            if not has_image:
                raise ImageError(f"A block of it is none that GIF knows (0x{data[at]:02X}).")
            break  # browsers treat the file as ended
        part = _read_gif_block(data, at)
        if part.is_cut and not (part.name == GIF_IMAGE_NAME and part.end > part.body):
            if part.role is PartRole.PIXELS or not has_image:
                raise ImageError("It is cut short.", is_cut=True)
            at = len(data)
            break
        layout.add(part)
        has_image = has_image or part.name == GIF_IMAGE_NAME
        at = len(data) if part.is_cut else part.end
    layout.is_closed = at < len(data) and data[at] == _GIF_TRAILER
    layout.end = at + layout.is_closed
    if not has_image and not layout.is_closed:
        raise ImageError("It is cut short: it has no pixels.", is_cut=True)
    return layout


def _read_gif_block(data: ImageData, at: int) -> ImagePart:
    """Read the block at `at`; of a truncated one, its whole sub-blocks."""
    is_image = data[at] == _GIF_IMAGE
    header = at + 2
    if is_image:
        header = at + 11 + (_get_color_table_size(data[at + 9]) if at + 9 < len(data) else 0)
    role = PartRole.PIXELS if is_image else _get_extension_role(data[at + 1 : at + 14])
    name = GIF_IMAGE_NAME if is_image else data[at : at + 2]
    end = header
    while end < len(data) and data[end]:
        if end + data[end] + 1 > len(data):
            break
        end += data[end] + 1
    is_cut = end >= len(data) or data[end] != 0
    return ImagePart(role, name, at, header, end if is_cut else end + 1, is_cut)


def _get_extension_role(start: bytes) -> PartRole:
    """Return the role of an extension from its label, size and first eleven bytes."""
    if start[:1] in (bytes([_GIF_CONTROL]), bytes([_GIF_PLAIN_TEXT])):
        return PartRole.PIXELS
    if start[0:1] == bytes([_GIF_APPLICATION]):
        return (
            PartRole.PIXELS
            if start[2:] in _GIF_LOOP_IDS
            else PartRole.LOOK
            if start[2:] == _GIF_PROFILE_ID
            else PartRole.METADATA
        )
    return PartRole.METADATA


def _get_color_table_size(flags: int) -> int:
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _write_gif(data: ImageData, parts: list[ImagePart], _: int) -> bytes:
    return b"".join(
        (*(data[part.start : part.end] + _build_gif_block_end(data, part) for part in parts), bytes([_GIF_TRAILER]))
    )


def _build_gif_block_end(data: ImageData, part: ImagePart) -> bytes:
    """Return the bytes that close a truncated block.

    They are the rest of its last sub-block, and the end mark.
    """
    if not part.is_cut:
        return b""
    left = data[part.end + 1 : part.end + 256]
    return bytes([len(left)]) + left + b"\0" if left else b"\0"


# --- WebP ------------------------------------------------------------------------------------------------------------

_WEBP_FIRST = (b"VP8 ", b"VP8L", b"VP8X")
_WEBP_PIXELS = frozenset((*_WEBP_FIRST, b"ALPH", b"ANIM", b"ANMF"))
_WEBP_CODED = (b"VP8 ", b"VP8L", b"ANMF")
_FLAG_EXIF, _FLAG_XMP, _FLAG_ICC, _FLAG_ANIMATION = 0x08, 0x04, 0x20, 0x02


def _read_webp(data: ImageData) -> ImageLayout:
    (size,) = struct.unpack_from("<I", data, 4)
    layout, at, has_exif = ImageLayout("image/webp"), 12, False
    layout.end = min(8 + size + size % 2, len(data))
    layout.is_closed = 8 + size <= len(data)
    while at + 8 <= layout.end:
        part = _read_webp_chunk(data, at, layout.end)
        if not layout.parts and (part.name not in _WEBP_FIRST or part.end - part.body < 10):
            raise ImageError("Its first chunk is neither a picture nor a header.")
        if part.is_cut:
            if part.role is PartRole.PIXELS or not layout.named(*_WEBP_CODED):
                raise ImageError("It is cut short: a chunk is larger than what is left.", is_cut=True)
            break
        layout.add(part)
        if part.name == b"EXIF" and not has_exif:
            layout.orientation = _read_orientation(data[part.body : part.end].removeprefix(_EXIF_HEAD))
            has_exif = True
        at = part.end + (part.end - part.body) % 2
    if not layout.named(*_WEBP_CODED) or (8 + size > len(data) + 1 and _is_animated(data, layout)):
        raise ImageError("It is cut short: pixels are missing.", is_cut=True)
    return layout


def _read_webp_chunk(data: ImageData, at: int, limit: int) -> ImagePart:
    name, (length,) = data[at : at + 4], struct.unpack_from("<I", data, at + 4)
    role = PartRole.PIXELS if name in _WEBP_PIXELS else PartRole.LOOK if name == b"ICCP" else PartRole.METADATA
    end = at + 8 + length
    return ImagePart(role, name, at, at + 8, min(end, limit), is_cut=end > limit)


def _is_animated(data: ImageData, layout: ImageLayout) -> bool:
    first = layout.parts[0]
    return first.name == b"VP8X" and bool(data[first.body] & _FLAG_ANIMATION)


def _write_webp(data: ImageData, parts: list[ImagePart], orientation: int) -> bytes:
    is_extended = parts[0].name == b"VP8X"
    exif = _build_exif(orientation) if orientation != 1 and is_extended else b""
    flags = (_FLAG_ICC if any(part.name == b"ICCP" for part in parts) else 0) | (_FLAG_EXIF if exif else 0)
    bodies = [(part.name, data[part.body : part.end]) for part in parts]
    if is_extended:
        header = bodies[0][1]
        bodies[0] = b"VP8X", bytes([header[0] & ~(_FLAG_EXIF | _FLAG_XMP | _FLAG_ICC) | flags]) + header[1:]
    if exif:
        bodies.append((b"EXIF", exif))
    body = b"WEBP" + b"".join(_build_webp_chunk(*each) for each in bodies)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def _build_webp_chunk(name: bytes, body: bytes) -> bytes:
    return name + struct.pack("<I", len(body)) + body + b"\0" * (len(body) % 2)


FormatReader = Callable[[ImageData], ImageLayout]
FormatWriter = Callable[[ImageData, list[ImagePart], int], bytes]
_FORMATS: Mapping[str, tuple[FormatReader, FormatWriter]] = {
    "image/jpeg": (_read_jpeg, _write_jpeg),
    "image/png": (_read_png, _write_png),
    "image/webp": (_read_webp, _write_webp),
    "image/gif": (_read_gif, _write_gif),
}
