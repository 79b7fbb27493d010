"""Media reader process: `probe_worker.py TYPE PIXELS_MAX [EDGE ...] < FILE` prints JSON.

Files are untrusted and the decoding libraries are large, so decoding never runs in the server but here: under limits of
memory, CPU time, open files and (on Linux) system calls, without the server's environment. Of socialpub, only its image
readers and `sandbox.py` are imported. The output holds the facts (unreadable ones are left out), or `{"rule", "why",
"advice"}`. With edges, in pixels, it holds thumbnails of these sizes instead of the facts.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import mmap
import re
import struct
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from PIL import Image, MpoImagePlugin, WebPImagePlugin
from pymediainfo import MediaInfo

from socialpub.base import image_formats
from socialpub.base.image_formats import ImageError, ImageLayout, ImagePart, PartRole
from socialpub.domain.media import sandbox

FRAMES_MAX = 20_000
SCANS_MAX = 100  # encoders make about ten
SCAN_PIXELS_MAX = 600_000_000  # pixels × scans; above it a JPEG is measured by its structure alone
DECODED_PIXELS_MAX = 16_000_000  # pixels; a larger image is measured by its structure alone
DECOMPRESSED_MAX = 64 * 1024 * 1024  # decompressed bytes of a PNG's texts and profiles; large real ones have two
BOXES_MAX = 20_000  # top-level boxes of a video; a fragmented hour has about 4,000
PEEK_BYTES = 1024
THUMBNAIL_BYTES_MAX = 1024 * 1024  # 960 × 960 pixels of noise take about 600 kB
THUMBNAIL_QUALITY = 80
PROFILE_BYTES_MAX = 64 * 1024  # of a colour profile; those of cameras take up to 4 kB
TAIL_BYTES = 65_557  # maximal distance of a ZIP's end record from the end
_MARKUP = re.compile(rb"<(?:script|html|svg|body|iframe)[\s>/]|<!doctype|<\?php", re.IGNORECASE)
_CODECS = {
    "avc": "h264",
    "mpeg-4 visual": "mpeg4",
    "mpeg video": "mpeg2",
    "h.263": "h263",
    "jpeg": "mjpeg",
    "mpeg audio": "mp3",
    "ac-3": "ac3",
    "e-ac-3": "eac3",
}

# The plug-ins that Image.open would import for such files.
PLUGINS = (MpoImagePlugin, WebPImagePlugin)

SAVE_AGAIN_ADVICE = "Open the file in an editor, save it again, and upload that."
UPLOAD_WHOLE_ADVICE = "Check that the file was copied or downloaded to its end, and upload it again."
CLEAN_ADVICE = "Save the file again with an editor, which leaves out what is not part of it."

Measurements = dict[str, Any]


class RefusedFileError(Exception):  # noqa: N818 - a verdict on the file, not an error of the program
    """Verdict that the file is refused: rule id, reason and advice, a sentence each."""

    def __init__(self, why: str, advice: str = SAVE_AGAIN_ADVICE, rule: str = "media.unreadable") -> None:
        super().__init__(why)
        self.rule, self.advice = rule, advice


def probe(file: BinaryIO, content_type: str, pixels_max: int) -> Measurements:
    """Measure a file. Raises RefusedFileError."""
    _check_polyglot(file)
    found = (
        _measure_image(file, content_type, pixels_max)
        if content_type.startswith("image/")
        else _measure_video(file, content_type)
    )
    _check_pixels(found.get("width") or 0, found.get("height") or 0, pixels_max)
    return found


def _check_pixels(width: int, height: int, pixels_max: int) -> None:
    if width * height > pixels_max:
        raise RefusedFileError(f"It has {width:,} × {height:,} pixels.", "Scale it down.", "media.pixels_max")


# --- Polyglot files --------------------------------------------------------------------------------------------------


def _check_polyglot(file: BinaryIO) -> None:
    """Refuse a file that is also a PDF, archive or script; words in metadata do not count."""
    size = file.seek(0, 2)
    file.seek(0)
    head = file.read(PEEK_BYTES)
    file.seek(max(0, size - TAIL_BYTES))
    tail = file.read()
    file.seek(0)
    if b"%pdf-" in head.lower() and _has_bytes(file, b" obj"):
        raise RefusedFileError("It is also a PDF.", CLEAN_ADVICE)
    if _is_script(head) and _has_bytes(file, b"*/"):
        raise RefusedFileError("It is also a script.", CLEAN_ADVICE)
    if _is_zip(tail, size):
        raise RefusedFileError("It is also a ZIP archive.", CLEAN_ADVICE)


def _is_script(head: bytes) -> bool:
    """Detect a JavaScript comment start in a GIF's width or a JPEG's first length."""
    return (head[:4] == b"GIF8" and head[6:8] == b"/*") or (head[:3] == b"\xff\xd8\xff" and head[4:6] == b"/*")


def _has_bytes(file: BinaryIO, words: bytes) -> bool:
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return data.find(words) >= 0


def _is_zip(tail: bytes, size: int) -> bool:
    """Detect a ZIP end record with its directory right before it."""
    at = tail.rfind(b"PK\x05\x06")
    while at >= 0:
        if len(tail) - at >= 22:
            length = struct.unpack_from("<I", tail, at + 12)[0]
            directory = at - length
            if length <= size and (directory < 0 or tail[directory : directory + 4] in (b"PK\x01\x02", b"PK\x05\x06")):
                return True
        at = tail.rfind(b"PK\x05\x06", 0, at)
    return False


def _check_markup(loose: bytes) -> None:
    """Refuse markup in bytes outside the file's parts, where media need none."""
    if _MARKUP.search(loose):
        raise RefusedFileError("It is also a page with markup.", CLEAN_ADVICE)


# --- Images ----------------------------------------------------------------------------------------------------------


def _measure_image(file: BinaryIO, content_type: str, pixels_max: int) -> Measurements:
    """Measure and decode the parts with pixels; other parts may be malformed."""
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        layout = _read_layout(data, content_type, pixels_max)
        pixels = image_formats.write(data, layout, (PartRole.PIXELS,))
        last = _build_last_frame(data, layout)
        raw = data[: layout.end] if content_type == "image/webp" else b""
    try:
        found = _decode_image(pixels, layout, pixels_max)
        if last:
            _load_image(last, layout)
        if raw:
            _check_chunks(raw, layout)
    except (RefusedFileError, MemoryError):
        raise
    except Exception as error:  # any decoder error
        raise _decoding_error(error, layout) from error
    return found


def _read_layout(data: mmap.mmap, content_type: str, pixels_max: int) -> ImageLayout:
    """Return the parts of an image that can be decoded within the limits."""
    if content_type == "image/webp":  # its decoder allocates the whole canvas before it reports the size
        _check_pixels(*_read_webp_size(data[12:16], data[20:30]), pixels_max)
    try:
        layout = image_formats.read(data, content_type)
    except ImageError as error:
        raise RefusedFileError(str(error), UPLOAD_WHOLE_ADVICE if error.is_cut else SAVE_AGAIN_ADVICE) from error
    strays = layout.strays[:PEEK_BYTES]
    _check_markup(b"".join(data[start : min(end, start + PEEK_BYTES)] for start, end in strays))
    _check_markup(data[layout.end : layout.end + PEEK_BYTES])
    _check_counts(data, layout, pixels_max)
    return layout


def _check_chunks(raw: bytes, layout: ImageLayout) -> None:
    """Refuse a WebP with malformed chunks, as libwebp in browsers and platforms does."""
    try:
        _open_image(raw, layout).close()
    except Exception as error:
        raise RefusedFileError("Its pixels are whole, but the chunks around them are not well formed.") from error


def _decoding_error(error: Exception, layout: ImageLayout) -> RefusedFileError:
    if "truncated" in str(error) or layout.parts[-1].is_cut:
        return RefusedFileError("It is cut short: pixels are missing.", UPLOAD_WHOLE_ADVICE)
    return RefusedFileError("Its pixels cannot be decoded: they are damaged.")


def _check_counts(data: mmap.mmap, layout: ImageLayout, pixels_max: int) -> None:
    """Refuse what would take long or much memory to decode, before decoding."""
    if layout.content_type == "image/jpeg" and len(_list_scans(layout)) > SCANS_MAX:
        raise RefusedFileError(f"It has more than {SCANS_MAX} scans.", "Save it again as a baseline JPEG.")
    if layout.content_type == "image/png":
        _check_compressed_metadata(data, layout)
        if not layout.is_closed:
            _check_pixel_stream(data, layout, pixels_max)
    if layout.content_type == "image/gif":
        frames = layout.named(image_formats.GIF_IMAGE_NAME)
        _check_frames(len(frames))
        for frame in frames:
            width, height = struct.unpack_from("<HH", data, frame.start + 5)
            _check_pixels(width, height, pixels_max)


def _check_frames(count: int) -> None:
    if count == 0:
        raise RefusedFileError("It holds no picture.")
    if count > FRAMES_MAX:
        raise RefusedFileError(f"It has more than {FRAMES_MAX:,} frames.", "Make the animation shorter.")


def _list_scans(layout: ImageLayout) -> list[ImagePart]:
    return layout.named(b"\xda")


def _check_compressed_metadata(data: mmap.mmap, layout: ImageLayout) -> None:
    """Refuse a PNG whose compressed texts or profile are a bomb; damaged ones are skipped."""
    left = DECOMPRESSED_MAX
    for part in layout.named(b"iCCP", b"zTXt", b"iTXt"):
        inflater, packed = zlib.decompressobj(), _find_zlib_stream(data, part)
        with contextlib.suppress(zlib.error):
            while packed and left > 0 and not inflater.eof:
                left -= len(inflater.decompress(packed, 1 << 20))
                packed = inflater.unconsumed_tail
        if left <= 0:
            why = f"Its {part.name.decode()} chunks unpack to more than {DECOMPRESSED_MAX:,} bytes."
            raise RefusedFileError(why, "Remove the image's metadata, and upload it again.")


def _check_pixel_stream(data: mmap.mmap, layout: ImageLayout, pixels_max: int) -> None:
    """Refuse a large PNG without an end mark, unless its pixel stream is complete."""
    width, height = struct.unpack_from(">II", data, layout.parts[0].body)
    _check_pixels(width, height, pixels_max)
    if width * height <= DECODED_PIXELS_MAX:
        return
    inflater, left = zlib.decompressobj(), width * height * 8 + 16 * height  # 16 bits in each of 4 channels
    for part in layout.named(b"IDAT"):
        packed = data[part.body : part.end]
        while packed and left > 0 and not inflater.eof:
            left -= len(inflater.decompress(packed, 1 << 20))
            packed = inflater.unconsumed_tail
    if not inflater.eof:
        raise RefusedFileError("It is cut short: pixels are missing.", UPLOAD_WHOLE_ADVICE)


def _find_zlib_stream(data: mmap.mmap, part: ImagePart) -> bytes:
    """Return the zlib stream of a chunk, or empty."""
    keyword, found, rest = data[part.body : part.end].partition(b"\0")
    if part.name != b"iTXt":
        return rest[1:] if found else b""
    if rest[:1] != b"\1":
        return b""
    return (rest[2:].split(b"\0", 2) + [b"", b""])[2]


def _read_webp_size(name: bytes, body: bytes) -> tuple[int, int]:
    """Read width and height from the first chunk (RFC 9649, 2.5 to 2.7); 0 if missing."""
    if name == b"VP8X":
        return int.from_bytes(body[4:7], "little") + 1, int.from_bytes(body[7:10], "little") + 1
    if name == b"VP8L":
        bits = int.from_bytes(body[1:5], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if name == b"VP8 ":
        return int.from_bytes(body[6:8], "little") & 0x3FFF, int.from_bytes(body[8:10], "little") & 0x3FFF
    return 0, 0


def _build_last_frame(data: mmap.mmap, layout: ImageLayout) -> bytes | None:
    """Build a GIF of the last frame if its data have no end; None otherwise."""
    first, last = layout.parts[0], layout.parts[-1]
    if layout.content_type != "image/gif" or not last.is_cut:
        return None
    width, height = struct.unpack_from("<HH", data, last.start + 5)
    if width * height > DECODED_PIXELS_MAX:
        raise RefusedFileError("It is cut short: its last frame has no end.", UPLOAD_WHOLE_ADVICE)
    return image_formats.write(data, ImageLayout(layout.content_type, [first, last]), (PartRole.PIXELS,))


def _decode_image(pixels: bytes, layout: ImageLayout, pixels_max: int) -> Measurements:
    """Decode, which finds damage; return the displayed size and the number of frames."""
    with _open_image(pixels, layout) as image:
        width, height = image.size
        _check_pixels(width, height, pixels_max)
        frames = _count_frames(image, layout)
        _check_frames(frames)
        if layout.content_type == "image/jpeg":
            _decode_jpeg(image, pixels, layout)
        elif width * height <= DECODED_PIXELS_MAX:
            image.load()
    return _orient_size(width, height, layout.orientation >= 5) | {"frames": frames}


def _count_frames(image: Image.Image, layout: ImageLayout) -> int:
    if layout.content_type == "image/gif":
        return len(layout.named(image_formats.GIF_IMAGE_NAME))
    return int(getattr(image, "n_frames", 1))


def _open_image(pixels: bytes, layout: ImageLayout) -> Image.Image:
    return Image.open(io.BytesIO(pixels), formats=[layout.content_type.removeprefix("image/").upper()])


def _load_image(pixels: bytes, layout: ImageLayout) -> None:
    with _open_image(pixels, layout) as image:
        image.load()


def _orient_size(width: int, height: int, on_its_side: bool) -> Measurements:
    return {"width": height, "height": width} if on_its_side else {"width": width, "height": height}


# Decodes as scan data where pixels are missing: contains no marker and no plain color.
_NOISE = bytes(number * 89 % 255 for number in range(2048))


def _decode_jpeg(image: Image.Image, pixels: bytes, layout: ImageLayout) -> None:
    """Decode a JPEG as far as its size allows; refuse one without end mark that lacks pixels.

    The decoder silently fills in missing pixels. To detect that, other bytes are appended to the data: they change the
    result only if pixels are missing.
    """
    scans, area = len(_list_scans(layout)), image.width * image.height
    if area * scans > SCAN_PIXELS_MAX or (not layout.is_closed and scans > 1 and area > DECODED_PIXELS_MAX):
        if not layout.is_closed:
            why = "Its end mark is missing, and it is too large to check whether pixels are missing too."
            raise RefusedFileError(why, UPLOAD_WHOLE_ADVICE)
        return
    shrink = layout.is_closed or scans == 1
    whole = _load_reduced(image, shrink).tobytes()
    if not layout.is_closed:
        with _open_image(pixels[:-2] + _NOISE + pixels[-2:], layout) as filled:
            if _load_reduced(filled, shrink).tobytes() != whole:
                raise RefusedFileError("It is cut short: pixels are missing.", UPLOAD_WHOLE_ADVICE)


def _load_reduced(image: Image.Image, shrink: bool) -> Image.Image:
    """Load the image; `shrink` decodes it at 1/8 size in grey, which still reads all data."""
    if shrink:
        image.draft("L", (max(1, image.width // 8), max(1, image.height // 8)))
    image.load()
    return image


# --- Thumbnails ------------------------------------------------------------------------------------------------------

# How the pixels of each EXIF orientation are turned for display.
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def make_thumbnails(file: BinaryIO, content_type: str, pixels_max: int, edges: list[int]) -> Measurements:
    """Return WebP images of the first frame, in base64, by their longest edge in pixels.

    A smaller image keeps its size. Raises RefusedFileError, and any error of a decoder.
    """
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        layout = _read_layout(data, content_type, pixels_max)
        shown = image_formats.write(data, layout, (PartRole.PIXELS, PartRole.LOOK))
    largest = max(edges)
    with _open_image(shown, layout) as image:
        _check_pixels(*image.size, pixels_max)
        image.draft("RGB", (largest, largest))  # decodes a JPEG at a fraction of its size
        profile = image.info.get("icc_profile") if image.mode in ("RGB", "RGBA") else None
        whole = _to_displayable(image)
    if layout.orientation in _TURNS:
        whole = whole.transpose(_TURNS[layout.orientation])
    kept = profile if profile and len(profile) <= PROFILE_BYTES_MAX else None
    return {str(edge): _encode_thumbnail(whole, edge, kept) for edge in edges}


def _to_displayable(image: Image.Image) -> Image.Image:
    """Return the image with 8 bits a channel, and its transparency if it has some."""
    if image.mode.startswith("I"):  # 16 bits of grey
        return image.point(lambda value: value / 256).convert("L").convert("RGB")
    return image.convert("RGBA" if "transparency" in image.info or "A" in image.mode else "RGB")


def _encode_thumbnail(whole: Image.Image, edge: int, profile: bytes | None) -> str:
    small, out, scale = whole, io.BytesIO(), edge / max(whole.size)
    if scale < 1:
        size = max(1, round(whole.width * scale)), max(1, round(whole.height * scale))
        small = whole.resize(size, Image.Resampling.LANCZOS, reducing_gap=2.0)
    small.save(out, "WEBP", quality=THUMBNAIL_QUALITY, method=2, icc_profile=profile)
    if out.tell() > THUMBNAIL_BYTES_MAX:
        raise RefusedFileError(f"A thumbnail of it takes more than {THUMBNAIL_BYTES_MAX:,} bytes.")
    return base64.b64encode(out.getvalue()).decode()


# --- Videos ----------------------------------------------------------------------------------------------------------


def _measure_video(file: BinaryIO, content_type: str) -> Measurements:
    is_boxed = _check_webm(file) if content_type == "video/webm" else _check_boxes(file)
    file.seek(0)
    if not MediaInfo.can_parse():  # no build of the library for this machine: no facts
        return {}
    tracks = [track.to_data() for track in MediaInfo.parse(file).tracks]
    whole = _find_track(tracks, "General")
    picture = _find_track(tracks, "Video")
    if is_boxed and whole.get("istruncated") == "Yes":  # MediaInfo also reports it for stray bytes
        raise RefusedFileError("It is cut short.", UPLOAD_WHOLE_ADVICE)
    if not picture:
        raise RefusedFileError("It holds no video.", "Upload a file with a video track.")
    sound = _find_track(tracks, "Audio")
    width, height = _parse_number(picture.get("width"), int), _parse_number(picture.get("height"), int)
    found = _orient_size(width, height, round(_parse_number(picture.get("rotation"), float) or 0) % 180 == 90)
    return found | {
        "duration_ms": _parse_number(whole.get("duration") or picture.get("duration"), int),
        "frame_rate": _parse_number(picture.get("frame_rate"), float),
        "bit_rate": _parse_number(picture.get("bit_rate") or whole.get("overall_bit_rate"), int),
        "video_codec": _codec_name(picture),
        "audio_codec": _codec_name(sound),
        "has_audio": bool(sound),
    }


# Top-level boxes (registry at mp4ra.org). Players read nothing inside the second set.
_BOXES = {b"moov", b"mdat", b"moof", b"mfra", b"sidx", b"ssix", b"styp", b"emsg", b"meta", b"udta", b"uuid", b"pnot"}
_IGNORED_BOXES = {b"ftyp", b"free", b"skip", b"wide"}


def _iter_boxes(file: BinaryIO) -> Iterator[tuple[int, bytes, int]]:
    """Yield start, name and size of the top-level boxes (ISO/IEC 14496-12).

    A cut file's last box has its declared size; a size below 8 is not a box.
    """
    size, at = file.seek(0, 2), 0
    for _ in range(BOXES_MAX):
        file.seek(at)
        head = file.read(16)
        length, name = int.from_bytes(head[:4], "big"), head[4:8]
        if length < 2:  # up to the end of the file, or 64-bit
            length = int.from_bytes(head[8:16], "big") if length else size - at
        yield at, name, length
        at += length
        if length < 8 or at >= size:
            return


def _check_boxes(file: BinaryIO) -> bool:
    """Return whether boxes fill the file; False for trailing bytes, which players ignore.

    Raises RefusedFileError for markup in stray bytes and in boxes that are not read.
    """
    size = file.seek(0, 2)
    for at, name, length in _iter_boxes(file):
        is_stray = length < 8 or (at + length > size and name not in _BOXES | _IGNORED_BOXES)
        if is_stray or name in _IGNORED_BOXES:
            file.seek(at)
            _check_markup(file.read(PEEK_BYTES if is_stray else min(PEEK_BYTES, length)))
    return not is_stray


def _check_webm(file: BinaryIO) -> bool:
    """Check like `_check_boxes`: no markup in the header before the segment element."""
    file.seek(0)
    _check_markup(file.read(PEEK_BYTES).partition(b"\x18\x53\x80\x67")[0])
    return True


def _find_track(tracks: list[Measurements], kind: str) -> Measurements:
    return next((track for track in tracks if track["track_type"] == kind), {})


def _codec_name(track: Measurements) -> str | None:
    name = str(track.get("format") or "").lower()
    return _CODECS.get(name, name) or None


def _parse_number(value: Any, kind: Callable[[float], Any]) -> Any:
    """Convert the library's number or text; None unless positive."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return kind(number) if 0 < number < 2**53 else None


# --- Process ---------------------------------------------------------------------------------------------------------


def _preload_libraries(content_type: str) -> None:
    """Import the libraries before the sandbox is closed."""
    if content_type.startswith("video/"):
        MediaInfo.can_parse()
    else:
        Image.preinit()


def main(content_type: str, pixels_max: str, *edges: str) -> None:
    sandbox.limit_resources()
    Image.MAX_IMAGE_PIXELS = None  # our own limit is checked before decoding
    _preload_libraries(content_type)
    sandbox.close_sandbox(4 if content_type.startswith("image/") else 3)  # each mmap takes a descriptor
    try:
        answer = _answer(sys.stdin.buffer, content_type, int(pixels_max), list(map(int, edges)))
    except RefusedFileError as error:
        answer = {"rule": error.rule, "why": str(error), "advice": error.advice} | _describe_cause(error)
    except Exception as error:  # noqa: BLE001 - a hostile file may raise anything: report it as unreadable
        why = "It needs more memory than a file may." if isinstance(error, MemoryError) else "It is damaged."
        answer = {"rule": "media.unreadable", "why": why, "advice": SAVE_AGAIN_ADVICE, "error": repr(error)}
    print(json.dumps(answer))


def _answer(file: BinaryIO, content_type: str, pixels_max: int, edges: list[int]) -> Measurements:
    if edges:
        return make_thumbnails(file, content_type, pixels_max, edges)
    return probe(file, content_type, pixels_max)


def _describe_cause(error: RefusedFileError) -> Measurements:
    """Return the decoder's error, for the log."""
    return {"error": repr(error.__cause__)} if error.__cause__ and not isinstance(error.__cause__, ImageError) else {}


if __name__ == "__main__":
    main(*sys.argv[1:])
