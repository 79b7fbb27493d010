"""Hostile media files and decompression bombs, each with the rule that refuses it.

`FILES` maps names to functions that build the files on demand; none is larger than a few megabytes.
"""

from __future__ import annotations

import functools
import io
import struct
import zipfile
import zlib
from collections.abc import Callable

from tests.support.media_files import animation, box, chunk, element, full, gif, gif_frame, mp4, picture, png, webm

Maker = Callable[[], bytes]
UNSUPPORTED, UNREADABLE, PIXELS = "media.type_unsupported", "media.unreadable", "media.pixels_max"

SVG = b'<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>'
HTML = b"<!DOCTYPE html><script>alert(document.domain)</script>"
PDF = b"%PDF-1.7\n1 0 obj<</OpenAction<</S/JavaScript/JS(app.alert(1))>>>>endobj\ntrailer<</Root 1 0 R>>\n"


def archive() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        file.writestr("a.class", b"\xca\xfe\xba\xbe" * 50)
    return out.getvalue()


def commented(jpeg: bytes, comment: bytes) -> bytes:
    """A JPEG with a comment right after its first marker."""
    return jpeg[:2] + b"\xff\xfe" + struct.pack(">H", len(comment) + 2) + comment + jpeg[2:]


def cut(data: bytes, part: float) -> bytes:
    return data[: int(len(data) * part)]


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]


BIG = (300, 300)

FILES: dict[str, tuple[Maker, str]] = {
    # What it is not
    "SVG": (lambda: SVG, UNSUPPORTED),
    "SVG after XML": (lambda: b"<?xml version='1.0'?>" + SVG, UNSUPPORTED),
    "SVG, packed": (lambda: zlib.compress(SVG), UNSUPPORTED),
    "HTML": (lambda: HTML, UNSUPPORTED),
    "HTML after spaces": (lambda: b" " * 99 + HTML, UNSUPPORTED),
    "XML with entities": (lambda: b"<!DOCTYPE x [<!ENTITY a SYSTEM 'file:///etc/passwd'>]><x>&a;</x>", UNSUPPORTED),
    "a page before a PDF": (lambda: b"<script>alert(1)</script>" + PDF, UNSUPPORTED),
    "ZIP": (archive, UNSUPPORTED),
    "an ELF program": (lambda: b"\x7fELF\x02\x01\x01" + bytes(60), UNSUPPORTED),
    "a Windows program": (lambda: b"MZ\x90\0" + bytes(60), UNSUPPORTED),
    "a shell script": (lambda: b"#!/bin/sh\nrm -rf /\n", UNSUPPORTED),
    "PHP": (lambda: b"<?php system($_GET[0]);", UNSUPPORTED),
    "a playlist": (lambda: b"#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n", UNSUPPORTED),
    "a list of files": (lambda: b"ffconcat version 1.0\nfile /etc/passwd\n", UNSUPPORTED),
    "PostScript": (lambda: b"%!PS-Adobe-3.0 EPSF-3.0\n(/etc/passwd) (r) file\n", UNSUPPORTED),
    "MVG": (lambda: b"push graphic-context\nimage over 0,0 0,0 'https://127.0.0.1/'\n", UNSUPPORTED),
    "BMP": (lambda: picture("BMP"), UNSUPPORTED),
    "TIFF": (lambda: picture("TIFF"), UNSUPPORTED),
    "ICO": (lambda: picture("ICO"), UNSUPPORTED),
    "PPM": (lambda: picture("PPM"), UNSUPPORTED),
    "FITS": (lambda: b"SIMPLE  =                    T" + bytes(2850), UNSUPPORTED),
    "PSD": (lambda: b"8BPS\0\1" + bytes(60), UNSUPPORTED),
    "AVI": (lambda: b"RIFF\xff\xff\0\0AVI LIST" + bytes(60), UNSUPPORTED),
    "Matroska": (lambda: element(0x1A45DFA3, element(0x4282, b"matroska")) + bytes(60), UNSUPPORTED),
    "Flash": (lambda: b"FLV\x01\x05\0\0\0\x09" + bytes(60), UNSUPPORTED),
    "HEIC": (lambda: box(b"ftyp", b"heic", bytes(4), b"mif1heic") + bytes(60), UNSUPPORTED),
    "AVIF": (lambda: box(b"ftyp", b"avif", bytes(4), b"avifmif1miaf") + bytes(60), UNSUPPORTED),
    "JPEG 2000": (lambda: box(b"jP  ", b"\r\n\x87\n") + box(b"ftyp", b"jp2 ", bytes(4), b"jp2 "), UNSUPPORTED),
    "noise": (lambda: bytes(number * 73 % 256 for number in range(5000)), UNSUPPORTED),
    "zeros": (lambda: bytes(5000), UNSUPPORTED),
    "one byte": (lambda: b"\xff", UNSUPPORTED),
    "UTF-16 HTML": (lambda: HTML.decode().encode("utf-16"), UNSUPPORTED),
    "the wrong magic": (lambda: b"\x89PNG\n\n\x1a\n" + picture("PNG")[8:], UNSUPPORTED),
    "RIFF of nothing": (lambda: b"RIFF\x04\0\0\0WEBX", UNSUPPORTED),
    # What it only begins like
    "JPEG's magic": (lambda: b"\xff\xd8\xff", UNREADABLE),
    "PNG's magic": (lambda: b"\x89PNG\r\n\x1a\n", UNREADABLE),
    "GIF's magic": (lambda: b"GIF89a", UNREADABLE),
    "WebP's magic": (lambda: b"RIFF\x04\0\0\0WEBP", UNREADABLE),
    "MP4's magic": (lambda: box(b"ftyp", b"isom", bytes(4), b"mp42"), UNREADABLE),
    "WebM's magic": (lambda: element(0x1A45DFA3, element(0x4282, b"webm")), UNREADABLE),
    "a script that begins like GIF": (lambda: b"GIF89a/*" + bytes(10) + b"*/=1;alert(1)//", UNREADABLE),
    "HTML that begins like JPEG": (lambda: b"\xff\xd8\xff" + HTML, UNREADABLE),
    "PHP that begins like PNG": (lambda: b"\x89PNG\r\n\x1a\n<?php phpinfo();", UNREADABLE),
    # Two things at once
    "JPEG and ZIP": (lambda: picture() + archive(), UNREADABLE),
    "PNG and ZIP": (lambda: picture("PNG") + archive(), UNREADABLE),
    "GIF and ZIP": (lambda: animation() + archive(), UNREADABLE),
    "MP4 and ZIP": (lambda: mp4() + archive(), UNREADABLE),
    "JPEG and an empty ZIP": (lambda: picture() + b"PK\x05\x06" + bytes(18), UNREADABLE),
    "JPEG and PDF": (lambda: commented(picture(), PDF), UNREADABLE),
    "PNG and PDF": (lambda: png(1, 1, zlib.compress(b"\0\0"), chunk(b"tEXt", b"x\0" + PDF)), UNREADABLE),
    "JPEG and HTML": (lambda: picture()[:2] + b"\xff\xd0" + HTML + picture()[2:], UNREADABLE),
    "JPEG and PHP": (lambda: picture() + b"<?PHP system($_GET[0]); __halt_compiler();", UNREADABLE),
    "PNG and SVG": (lambda: picture("PNG") + SVG, UNREADABLE),
    "GIF and HTML": (lambda: gif(1, 1, gif_frame(), HTML), UNREADABLE),
    "WebP and HTML": (lambda: picture("WEBP") + b"\r\n" + HTML, UNREADABLE),
    "MP4 and HTML": (lambda: mp4() + HTML, UNREADABLE),
    "MP4 and SVG in a free box": (lambda: mp4() + box(b"free", SVG), UNREADABLE),
    "MP4 and HTML among its brands": (lambda: box(b"ftyp", b"isom", bytes(4), HTML) + mp4(), UNREADABLE),
    "WebM and HTML in its header": (
        lambda: element(0x1A45DFA3, element(0x4282, b"webm"), element(0xEC, HTML)) + webm()[47:],
        UNREADABLE,
    ),
    "GIF and JavaScript": (lambda: gif(0x2A2F, 1, gif_frame(), b";*/=1;alert(1)//"), UNREADABLE),
    "JPEG and JavaScript": (
        lambda: picture()[:4] + b"/*" + bytes(0x2F2A - 2) + picture()[20:] + b"*/=alert(1)",
        UNREADABLE,
    ),
    # Cut short or damaged
    "half a JPEG": (lambda: cut(picture(size=BIG), 0.5), UNREADABLE),
    "a JPEG without its end": (lambda: cut(picture(size=BIG), 0.9), UNREADABLE),
    "half a PNG": (lambda: cut(picture("PNG", BIG), 0.5), UNREADABLE),
    "a PNG without its end": (lambda: cut(picture("PNG", BIG), 0.9), UNREADABLE),
    "a PNG with a wrong check sum of its header": (lambda: flipped(picture("PNG", BIG), 30), UNREADABLE),
    "a PNG with a wrong check sum": (lambda: flipped(picture("PNG", BIG), -20 % len(picture("PNG", BIG))), UNREADABLE),
    "half a GIF": (lambda: cut(animation(frames=9), 0.5), UNREADABLE),
    "half a WebP": (lambda: cut(picture("WEBP", BIG), 0.5), UNREADABLE),
    "half an animated WebP": (lambda: cut(animation("WEBP", 9, (99, 99)), 0.5), UNREADABLE),
    "half an MP4": (lambda: cut(mp4(), 0.5), UNREADABLE),
    "an MP4 without its index": (lambda: mp4()[: mp4().index(b"moov") - 4], UNREADABLE),
    "half a WebM": (lambda: cut(webm(), 0.6), UNREADABLE),
    "an MP4 of sound alone": (lambda: mp4().replace(b"trak", b"free", 1), UNREADABLE),
    "a GIF of no frames": (lambda: gif(9, 9), UNREADABLE),
    "a GIF of unknown blocks": (lambda: gif(9, 9, b"\x99\x01\x01\0" + gif_frame()), UNREADABLE),
    "a PNG of no size": (lambda: png(0, 0), UNREADABLE),
    "a PNG of too little": (lambda: png(300, 300), UNREADABLE),
    "a box that is larger than the file": (
        lambda: box(b"ftyp", b"isom") + struct.pack(">I", 1 << 30) + b"moov",
        UNREADABLE,
    ),
    "a box of negative size": (lambda: box(b"ftyp", b"isom") + struct.pack(">I", 3) + b"moov" + bytes(99), UNREADABLE),
}


def nested(depth: int) -> bytes:
    """Boxes in boxes."""
    sizes = range(8 * depth, 0, -8)
    return b"".join(struct.pack(">I", size) + b"moov" for size in sizes)


def scans(count: int) -> bytes:
    """A progressive JPEG whose last scan is repeated."""
    data = picture("JPEG", (2000, 2000), progressive=True)
    last = data.rindex(b"\xff\xda")
    return data[:last] + data[last:-2] * count + data[-2:]


def samples(count: int) -> bytes:
    """An MP4 that says it has this many samples."""
    frames = struct.pack(">II", 100, 60)
    return mp4(sound=False).replace(frames, struct.pack(">II", 0, count))


def vp8x(width: int, height: int) -> bytes:
    canvas = bytes([2, 0, 0, 0]) + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    chunks = b"VP8X" + struct.pack("<I", 10) + canvas + b"ANIM" + struct.pack("<I", 6) + bytes(6)
    return b"RIFF" + struct.pack("<I", len(chunks) + 4) + b"WEBP" + chunks


def vp8l() -> bytes:
    return b"RIFF" + struct.pack("<I", 40) + b"WEBPVP8L" + struct.pack("<I", 28) + b"\x2f\xff\xff\xff\x0f" + bytes(23)


def resized(jpeg: bytes, width: int, height: int) -> bytes:
    """A JPEG whose header says another size."""
    at = jpeg.index(b"\xff\xc0") + 5
    return jpeg[:at] + struct.pack(">HH", height, width) + jpeg[at + 4 :]


@functools.cache
def packed(size: int, level: int = 9) -> bytes:
    packer = zlib.compressobj(level)
    return b"".join(packer.compress(bytes(1 << 20)) for _ in range(size >> 20)) + packer.flush()


HUGE = 96 << 20  # bytes; more than a reader unpacks

BOMBS: dict[str, tuple[Maker, str]] = {
    "a PNG of 65,500 × 65,500": (lambda: png(65_500, 65_500, packed(16 << 20)), PIXELS),
    "a PNG of the largest size": (lambda: png(2**31 - 1, 2**31 - 1), PIXELS),
    "a PNG one row too high": (lambda: png(10_000, 5_001), PIXELS),
    "a PNG as wide as can be": (lambda: png(2**31 - 1, 1), PIXELS),
    "a JPEG of 65,500 × 65,500": (lambda: resized(picture(), 65_500, 65_500), PIXELS),
    "a GIF of 65,535 × 65,535": (lambda: gif(65_535, 65_535, gif_frame()), PIXELS),
    "a small GIF with a large frame": (lambda: gif(10, 10, gif_frame(65_535, 65_535)), PIXELS),
    "a WebP of the largest size": (lambda: vp8x(1 << 24, 1 << 24), PIXELS),
    "a lossless WebP of its largest size": (
        vp8l,
        PIXELS,
    ),
    "a video of 60,000 × 60,000": (lambda: mp4(60_000, 60_000), PIXELS),
    "a WebM of 60,000 × 60,000": (lambda: webm(60_000, 60_000), PIXELS),
    "a text chunk of 96 MiB": (
        lambda: png(1, 1, zlib.compress(b"\0\0"), chunk(b"zTXt", b"x\0\0" + packed(HUGE))),
        UNREADABLE,
    ),
    "an international text chunk of 96 MiB": (
        lambda: png(1, 1, zlib.compress(b"\0\0"), chunk(b"iTXt", b"x\0\1\0\0\0" + packed(HUGE))),
        UNREADABLE,
    ),
    "a colour profile of 96 MiB": (
        lambda: png(1, 1, zlib.compress(b"\0\0"), chunk(b"iCCP", b"x\0\0" + packed(HUGE))),
        UNREADABLE,
    ),
    "a GIF of a hundred thousand frames": (lambda: gif(9999, 4999, gif_frame() * 100_000), UNREADABLE),
    "an animated PNG of two billion frames": (
        lambda: png(9, 9, zlib.compress(bytes(90)), chunk(b"acTL", struct.pack(">II", 2**31 - 1, 0))),
        UNREADABLE,
    ),
    "a JPEG of a thousand scans": (lambda: scans(1000), UNREADABLE),
    "boxes in a hundred thousand boxes": (lambda: box(b"ftyp", b"isom") + nested(100_000), UNREADABLE),
    "a million empty boxes": (lambda: box(b"ftyp", b"isom") + box(b"moov", box(b"free") * 500_000), UNREADABLE),
    "a million empty elements": (
        lambda: element(0x1A45DFA3, element(0x4282, b"webm")) + element(0x18538067, b"\xec\x80" * 500_000),
        UNREADABLE,
    ),
    "a list of four billion samples without one": (
        lambda: box(b"ftyp", b"isom") + box(b"moov", full(b"stsz", struct.pack(">II", 0, 2**32 - 1))),
        UNREADABLE,
    ),
    "elements in ten thousand elements": (
        lambda: (
            element(0x1A45DFA3, element(0x4282, b"webm")) + b"\x18\x53\x80\x67\x01\xff\xff\xff\xff\xff\xff\xff" * 10_000
        ),
        UNREADABLE,
    ),
}
