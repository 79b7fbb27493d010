"""Small valid media files of every format, built in code from their parts."""

from __future__ import annotations

import hashlib
import io
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image

from socialpub.domain.media import probe


def memoize(ask: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """`probe._run_worker`, which starts a process to read a file; of one that it has read it says the same again.

    Hundreds of tests upload one of a few files. What took too long, or was read by another reader, is asked anew.
    """
    known: dict[tuple[object, ...], dict[str, Any]] = {}

    def ask_once(path: Path, content_type: str, *edges: int) -> dict[str, Any]:
        with path.open("rb") as file:
            key = hashlib.file_digest(file, "sha256").digest(), content_type, edges, probe.WORKER, probe.WALL_SECONDS
        if key not in known:
            found = ask(path, content_type, *edges)
            if "error" in found:
                return found
            known[key] = found
        return dict(known[key])

    return ask_once


def picture(kind: str = "JPEG", size: tuple[int, int] = (64, 48), **options: Any) -> bytes:
    """An image of this size whose pixels differ."""
    image = Image.linear_gradient("L").resize(size).convert("RGB")
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def animation(kind: str = "GIF", frames: int = 3, size: tuple[int, int] = (20, 10)) -> bytes:
    pictures = [Image.new("RGB", size, (number * 37 % 256, 10, 200)) for number in range(frames)]
    out = io.BytesIO()
    pictures[0].save(out, kind, save_all=True, append_images=pictures[1:], duration=100)
    return out.getvalue()


def chunk(name: bytes, data: bytes) -> bytes:
    """A PNG chunk."""
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(width: int, height: int, data: bytes = b"", *extra: bytes) -> bytes:
    """A PNG that says it is this large; `data` is what it is packed of."""
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    middle = b"".join(extra) + chunk(b"IDAT", data or zlib.compress(b"\0"))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + middle + chunk(b"IEND", b"")


def gif(width: int, height: int, blocks: bytes = b"", end: bytes = b";") -> bytes:
    return b"GIF89a" + struct.pack("<HHBBB", width, height, 0x80, 0, 0) + b"\0\0\0\xff\xff\xff" + blocks + end


def gif_frame(width: int = 1, height: int = 1) -> bytes:
    return b"," + struct.pack("<HHHHB", 0, 0, width, height, 0) + b"\x02\x02D\x01\0"


# --- Boxes of MP4 and QuickTime --------------------------------------------------------------------------------------


def box(name: bytes, *parts: bytes) -> bytes:
    data = b"".join(parts)
    return struct.pack(">I", len(data) + 8) + name + data


def full(name: bytes, *parts: bytes, version: int = 0, flags: int = 0) -> bytes:
    return box(name, struct.pack(">I", version << 24 | flags), *parts)


TURNS = {
    0: (1, 0, 0, 1),
    90: (0, 1, -1, 0),
    180: (-1, 0, 0, -1),
    270: (0, -1, 1, 0),
}


def mp4(
    width: int = 320,
    height: int = 240,
    *,
    seconds: float = 2.0,
    rate: int = 30,
    turn: int = 0,
    brand: bytes = b"isom",
    codec: bytes = b"avc1",
    sound: bool = True,
    frame_bytes: int = 100,
) -> bytes:
    """A video file as its headers tell it; its pictures are noise that nobody decodes."""
    frames = int(seconds * rate)
    media = bytes(frames * frame_bytes)
    ftyp = box(b"ftyp", brand, struct.pack(">I", 512), brand, *([] if brand == b"qt  " else [b"mp42"]))
    scale = 1000
    length = int(seconds * scale)
    mvhd = full(b"mvhd", struct.pack(">IIIIIH", 0, 0, scale, length, 0x10000, 0x100), bytes(10), _matrix(0), bytes(28))
    tracks = [_video_track(width, height, frames, rate, scale, length, turn, codec, frame_bytes, len(ftyp) + 8)]
    if sound:
        tracks.append(_sound_track(scale, length, len(ftyp) + 8))
    return ftyp + box(b"mdat", media) + box(b"moov", mvhd, *tracks)


def _matrix(turn: int) -> bytes:
    a, b, c, d = (value * 0x10000 for value in TURNS[turn])
    return struct.pack(">iiiiiiiii", a, b, 0, c, d, 0, 0, 0, 0x40000000)


def _tkhd(number: int, length: int, width: int, height: int, turn: int) -> bytes:
    head = struct.pack(">IIIII", 0, 0, number, 0, length) + bytes(16)
    return full(b"tkhd", head, _matrix(turn), struct.pack(">II", width << 16, height << 16), flags=3)


def _video_track(
    width: int,
    height: int,
    frames: int,
    rate: int,
    scale: int,
    length: int,
    turn: int,
    codec: bytes,
    frame_bytes: int,
    start: int,
) -> bytes:
    entry = box(
        codec,
        bytes(6) + struct.pack(">H", 1) + bytes(16),
        struct.pack(">HHIIIH", width, height, 0x480000, 0x480000, 0, 1),
        bytes(32),
        struct.pack(">Hh", 24, -1),
    )
    table = box(
        b"stbl",
        full(b"stsd", struct.pack(">I", 1), entry),
        full(b"stts", struct.pack(">III", 1, frames, 1)),
        full(b"stsc", struct.pack(">IIII", 1, 1, frames, 1)),
        full(b"stsz", struct.pack(">II", frame_bytes, frames)),
        full(b"stco", struct.pack(">II", 1, start)),
    )
    minf = box(b"minf", full(b"vmhd", bytes(8), flags=1), _dinf(), table)
    mdhd = full(b"mdhd", struct.pack(">IIIIHH", 0, 0, rate, frames, 0x55C4, 0))
    hdlr = full(b"hdlr", bytes(4) + b"vide" + bytes(12) + b"v\0")
    return box(b"trak", _tkhd(1, length, width, height, turn), box(b"mdia", mdhd, hdlr, minf))


def _sound_track(scale: int, length: int, start: int) -> bytes:
    config = b"\x03\x19\0\0\0\x04\x11\x40\x15" + bytes(11) + b"\x05\x02\x11\x90\x06\x01\x02"
    entry = box(
        b"mp4a",
        bytes(6) + struct.pack(">H", 1) + bytes(8),
        struct.pack(">HHHHI", 2, 16, 0, 0, 48000 << 16),
        full(b"esds", config),
    )
    count = length * 48000 // scale // 1024
    table = box(
        b"stbl",
        full(b"stsd", struct.pack(">I", 1), entry),
        full(b"stts", struct.pack(">III", 1, count, 1024)),
        full(b"stsc", struct.pack(">IIII", 1, 1, count, 1)),
        full(b"stsz", struct.pack(">II", 10, count)),
        full(b"stco", struct.pack(">II", 1, start)),
    )
    minf = box(b"minf", full(b"smhd", bytes(4)), _dinf(), table)
    mdhd = full(b"mdhd", struct.pack(">IIIIHH", 0, 0, 48000, count * 1024, 0x55C4, 0))
    hdlr = full(b"hdlr", bytes(4) + b"soun" + bytes(12) + b"s\0")
    return box(b"trak", _tkhd(2, length, 0, 0, 0), box(b"mdia", mdhd, hdlr, minf))


def _dinf() -> bytes:
    return box(b"dinf", full(b"dref", struct.pack(">I", 1), full(b"url ", flags=1)))


# --- Elements of WebM ------------------------------------------------------------------------------------------------


def element(number: int, *parts: bytes) -> bytes:
    """An EBML element; its size is written in eight bytes."""
    data = b"".join(parts)
    name = number.to_bytes((number.bit_length() + 7) // 8, "big")
    return name + (len(data) | 1 << 56).to_bytes(8, "big") + data


def number(value: int) -> bytes:
    return value.to_bytes(4, "big")


def webm(width: int = 320, height: int = 240, milliseconds: float | None = 2000.0, codec: str = "V_VP9") -> bytes:
    header = element(0x1A45DFA3, element(0x4282, b"webm"), element(0x4287, number(4)), element(0x4285, number(2)))
    duration = b"" if milliseconds is None else element(0x4489, struct.pack(">d", milliseconds))
    info = element(0x1549A966, element(0x2AD7B1, number(1_000_000)), duration)
    video = element(0xE0, element(0xB0, number(width)), element(0xBA, number(height)))
    track = element(
        0xAE, element(0xD7, number(1)), element(0x73C5, number(1)), element(0x83, number(1)),
        element(0x86, codec.encode()), element(0x23E383, number(33_333_333)), video,
    )  # fmt: skip
    block = element(0xA3, b"\x81\0\0\x80" + bytes(50))
    cluster = element(0x1F43B675, element(0xE7, number(0)), block)
    return header + element(0x18538067, info, element(0x1654AE6B, track), cluster)
