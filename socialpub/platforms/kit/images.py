"""Images without what their makers did not mean to publish: metadata cut out of the file, pixels untouched.

Kept is only what changes how the picture looks: colour profile, transparency, animation, and the way up, which is
written anew where it matters. Formats: JPEG (ITU T.81), PNG (W3C, third edition), WebP (RFC 9649), GIF89a, EXIF 2.3.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from socialpub.base.errors import ApiError, Outcome


@dataclass(frozen=True)
class Clean:
    """An image's bytes without metadata, and which way up it is shown (EXIF orientation, 1 is as stored)."""

    data: bytes
    orientation: int = 1


def sniffed(data: bytes) -> str | None:
    """The content type of a JPEG, PNG, WebP or GIF, by its first bytes."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    starts = {b"\xff\xd8\xff": "image/jpeg", b"\x89PNG\r\n\x1a\n": "image/png", b"GIF8": "image/gif"}
    return next((name for start, name in starts.items() if data.startswith(start)), None)


def cleaned(data: bytes, content_type: str) -> Clean:
    """The image without EXIF, XMP, IPTC, comments and trailing data; other formats stay as they are.

    Raises `media.unreadable` for a file that cannot be taken apart: what is not understood is not published.
    """
    clean = _FORMATS.get(content_type)
    if clean is None:
        return Clean(data)
    try:
        return clean(data)
    except (struct.error, ValueError, IndexError) as error:
        raise ApiError(
            "preflight_failed",
            "The image's metadata cannot be removed: the file is damaged.",
            rule="media.unreadable",
            remediation="Save the image again with an image editor.",
            outcome=Outcome.REJECTED,
        ) from error


# --- Which way up --------------------------------------------------------------------------------------------------

_TIFF_ORIENTATION = 0x0112


def _orientation(tiff: bytes) -> int:
    """The orientation in an EXIF block, 1 when it has none or cannot be read."""
    order = {b"II": "<", b"MM": ">"}.get(tiff[:2])
    try:
        return _tag(tiff, order) if order else 1
    except struct.error:
        return 1


def _tag(tiff: bytes, order: str) -> int:
    (start,) = struct.unpack_from(order + "I", tiff, 4)
    (entries,) = struct.unpack_from(order + "H", tiff, start)
    for index in range(entries):
        tag, kind, _, value = struct.unpack_from(order + "HHIH", tiff, start + 2 + 12 * index)
        if tag == _TIFF_ORIENTATION and kind == 3:
            return value if 1 <= value <= 8 else 1
    return 1


def _exif(orientation: int) -> bytes:
    """The smallest EXIF block: one entry, the orientation."""
    return b"MM\0\x2a" + struct.pack(">IHHHIHHI", 8, 1, _TIFF_ORIENTATION, 3, 1, orientation, 0, 0)


# --- JPEG ------------------------------------------------------------------------------------------------------------

_SOI, _EOI, _SOS, _APP0, _APP1, _APP2, _APP14, _COM = 0xD8, 0xD9, 0xDA, 0xE0, 0xE1, 0xE2, 0xEE, 0xFE
_MARKER = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")  # what ends a scan: neither stuffing, restart nor fill
_EXIF_HEAD = b"Exif\0\0"


def _jpeg(data: bytes) -> Clean:
    if data[:2] != b"\xff\xd8":
        raise ValueError("no JPEG")
    kept, orientation = [], 1
    for marker, payload, scan in _segments(data):
        if marker == _APP1 and payload.startswith(_EXIF_HEAD):
            orientation = _orientation(payload[6:])
        if _kept(marker, payload):
            kept.append(_segment(marker, payload) + scan)
    turn = _segment(_APP1, _EXIF_HEAD + _exif(orientation)) if orientation != 1 else b""
    return Clean(b"\xff\xd8" + turn + b"".join(kept) + b"\xff\xd9", orientation)


def _segments(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """(marker, payload, entropy-coded data behind it) up to the end of the image; a cut-off scan runs to the end."""
    at = 2
    while True:
        while data[at] == 0xFF and data[at + 1] == 0xFF:
            at += 1
        marker = data[at + 1]
        if data[at] != 0xFF or marker == 0:
            raise ValueError("no marker where one must be")
        if marker == _EOI:
            return
        (length,) = struct.unpack_from(">H", data, at + 2)
        end = at + 2 + length
        if length < 2 or end > len(data):
            raise ValueError("a segment is cut off")
        after = _scan_end(data, end) if marker == _SOS else end
        yield marker, data[at + 4 : end], data[end:after]
        if marker == _SOS and after == len(data):
            return
        at = after


def _scan_end(data: bytes, start: int) -> int:
    match = _MARKER.search(data, start)
    return match.start() if match else len(data)


def _kept(marker: int, payload: bytes) -> bool:
    if _APP0 <= marker <= 0xEF:
        profile = marker == _APP2 and payload.startswith(b"ICC_PROFILE\0")
        return profile or marker == _APP14 or (marker == _APP0 and payload.startswith(b"JFIF\0"))
    return marker != _COM


def _segment(marker: int, payload: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(payload) + 2) + payload


# --- PNG -------------------------------------------------------------------------------------------------------------

_PNG_HEAD = b"\x89PNG\r\n\x1a\n"
_PNG_KEPT = frozenset(
    b"IHDR PLTE IDAT IEND tRNS gAMA cHRM sRGB iCCP sBIT pHYs bKGD hIST sPLT cICP mDCV cLLI acTL fcTL fdAT".split()
)


def _png(data: bytes) -> Clean:
    if not data.startswith(_PNG_HEAD):
        raise ValueError("no PNG")
    chunks = list(_png_chunks(data))
    orientation = next((_orientation(body) for name, body in chunks if name == b"eXIf"), 1)
    kept = [(name, body) for name, body in chunks if name in _PNG_KEPT]
    if orientation != 1:
        kept.insert(1, (b"eXIf", _exif(orientation)))
    return Clean(_PNG_HEAD + b"".join(_png_chunk(name, body) for name, body in kept), orientation)


def _png_chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    at, name = len(_PNG_HEAD), b""
    while name != b"IEND" and at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        name, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        if len(body) != length and name != b"IDAT":
            raise ValueError("a chunk is cut off")
        yield name, body
        at += 12 + length


def _png_chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


# --- WebP ------------------------------------------------------------------------------------------------------------

_WEBP_KEPT = frozenset((b"VP8 ", b"VP8L", b"VP8X", b"ALPH", b"ANIM", b"ANMF", b"ICCP"))
_FLAG_EXIF, _FLAG_XMP = 0x08, 0x04


def _webp(data: bytes) -> Clean:
    if sniffed(data) != "image/webp":
        raise ValueError("no WebP")
    chunks = list(_webp_chunks(data))
    found = next((body for name, body in chunks if name == b"EXIF"), b"")
    orientation = _orientation(found.removeprefix(_EXIF_HEAD))
    kept = [(name, _flags(name, body, orientation)) for name, body in chunks if name in _WEBP_KEPT]
    if orientation != 1 and kept[0][0] == b"VP8X":
        kept.append((b"EXIF", _exif(orientation)))
    body = b"WEBP" + b"".join(_webp_chunk(name, body) for name, body in kept)
    return Clean(b"RIFF" + struct.pack("<I", len(body)) + body, orientation)


def _webp_chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    (size,) = struct.unpack_from("<I", data, 4)
    at, end = 12, min(8 + size, len(data))
    while at + 8 <= end:
        name, length = data[at : at + 4], struct.unpack_from("<I", data, at + 4)[0]
        if at + 8 + length > end:
            raise ValueError("a chunk is cut off")
        yield name, data[at + 8 : at + 8 + length]
        at += 8 + length + length % 2


def _flags(name: bytes, body: bytes, orientation: int) -> bytes:
    """A header chunk that says what is still in the file."""
    if name != b"VP8X":
        return body
    exif = _FLAG_EXIF if orientation != 1 else 0
    return bytes([body[0] & ~(_FLAG_EXIF | _FLAG_XMP) | exif]) + body[1:]


def _webp_chunk(name: bytes, body: bytes) -> bytes:
    return name + struct.pack("<I", len(body)) + body + b"\0" * (len(body) % 2)


# --- GIF -------------------------------------------------------------------------------------------------------------

_EXTENSION, _IMAGE, _TRAILER, _COMMENT, _APPLICATION = 0x21, 0x2C, 0x3B, 0xFE, 0xFF
_APPLICATIONS_KEPT = (b"NETSCAPE2.0", b"ANIMEXTS1.0", b"ICCRGBG1012")  # how often it repeats, and its colours


def _gif(data: bytes) -> Clean:
    if not data.startswith(b"GIF8"):
        raise ValueError("no GIF")
    start = 13 + _table_size(data[10])
    blocks = b"".join(block for block in _gif_blocks(data, start) if _gif_kept(block))
    return Clean(data[:start] + blocks + bytes([_TRAILER]))


def _gif_blocks(data: bytes, at: int) -> Iterator[bytes]:
    """The blocks up to the trailer, or to the end of a file that has none."""
    while at < len(data) and data[at] != _TRAILER:
        if data[at] == _EXTENSION:
            end = _after_parts(data, at + 2)
        elif data[at] == _IMAGE:
            end = _after_parts(data, at + 11 + _table_size(data[at + 9]))
        else:
            raise ValueError("no block where one must be")
        yield data[at:end]
        at = end


def _table_size(flags: int) -> int:
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _after_parts(data: bytes, at: int) -> int:
    while data[at]:
        at += data[at] + 1
    return at + 1


def _gif_kept(block: bytes) -> bool:
    if block[0] == _EXTENSION and block[1] == _APPLICATION:
        return block[3:14] in _APPLICATIONS_KEPT
    return block[0] == _IMAGE or block[1] != _COMMENT


_FORMATS: Mapping[str, Callable[[bytes], Clean]] = {
    "image/jpeg": _jpeg,
    "image/png": _png,
    "image/webp": _webp,
    "image/gif": _gif,
}
