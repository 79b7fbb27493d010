"""The process that opens media files: `python -I probe_worker.py TYPE PIXELS_MAX < FILE`, one file, one line of JSON.

Files come from strangers and the libraries that read them are large, so they are read here, under limits of memory,
processor time, open files and (on Linux) system calls, without the program's environment, and never in the server. It
imports nothing of socialpub. The answer is what was found (a name is missing where it could not be read), or
`{"rule", "why"}`.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import mmap
import os
import re
import resource
import struct
import sys
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from PIL import Image, MpoImagePlugin, WebPImagePlugin
from pymediainfo import MediaInfo

MEMORY_MAX = 1024 * 1024 * 1024
CPU_SECONDS = 5
FRAMES_MAX = 20_000
SCANS_MAX = 100  # encoders make about ten
SCANNED_MAX = 600_000_000  # pixels × scans; above it a JPEG is measured by its structure alone
DECODED_MAX = 16_000_000  # pixels; a larger image is measured by its structure alone
PEEK = 1024
TAIL = 65_557  # how far from its end a ZIP's directory record may begin
_MARKUP = (b"<script", b"<html", b"<svg", b"<!doctype", b"<?php", b"<body", b"<iframe")
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

# What Image.open would import when it meets such a file.
PLUGINS = (MpoImagePlugin, WebPImagePlugin)

Found = dict[str, Any]


class BadFile(Exception):  # noqa: N818 - a verdict on the file, not an error of the program
    """The file is refused: a rule's id, and why in a sentence."""

    def __init__(self, why: str, rule: str = "media.unreadable") -> None:
        super().__init__(why)
        self.rule = rule


def probe(file: BinaryIO, content_type: str, pixels_max: int) -> Found:
    """What the file is; BadFile when it is refused."""
    _check_single_nature(file)
    found = _image(file, content_type, pixels_max) if content_type.startswith("image/") else _video(file)
    _check_pixels(found.get("width") or 0, found.get("height") or 0, pixels_max)
    return found


def _check_pixels(width: int, height: int, pixels_max: int) -> None:
    if width * height > pixels_max:
        raise BadFile(f"It has {width:,} × {height:,} pixels.", "media.pixels_max")


# --- Two things at once ----------------------------------------------------------------------------------------------


def _check_single_nature(file: BinaryIO) -> None:
    """No file that other programs would take for a page, a PDF or an archive."""
    size = file.seek(0, 2)
    file.seek(0)
    head = file.read(PEEK).lower()
    file.seek(max(0, size - TAIL))
    tail = file.read()
    file.seek(0)
    if b"%pdf-" in head:
        raise BadFile("It is also a PDF.")
    if any(word in head for word in _MARKUP):
        raise BadFile("It is also a page with markup.")
    if _ends_as_zip(tail, size):
        raise BadFile("It is also a ZIP archive.")


def _ends_as_zip(tail: bytes, size: int) -> bool:
    """Whether a ZIP's end record stands there, with its directory right before it."""
    at = tail.rfind(b"PK\x05\x06")
    while at >= 0:
        if len(tail) - at >= 22:
            length = struct.unpack_from("<I", tail, at + 12)[0]
            directory = at - length
            if length <= size and (directory < 0 or tail[directory : directory + 4] in (b"PK\x01\x02", b"PK\x05\x06")):
                return True
        at = tail.rfind(b"PK\x05\x06", 0, at)
    return False


# --- Images ----------------------------------------------------------------------------------------------------------


def _image(file: BinaryIO, content_type: str, pixels_max: int) -> Found:
    name = content_type.removeprefix("image/").upper()
    if name == "WEBP":
        _check_webp(file, pixels_max)  # its decoder takes memory for the whole canvas before it says how large that is
    scans = _jpeg_scans(file) if name == "JPEG" else 0
    frames = _gif_frames(file, pixels_max) if name == "GIF" else None
    with Image.open(file, formats=[name]) as image:
        width, height = image.size
        _check_pixels(width, height, pixels_max)
        # A JPEG's further pictures (depth, a brighter copy) are no frames.
        frames = frames or (1 if name == "JPEG" else int(getattr(image, "n_frames", 1)))
        if frames > FRAMES_MAX:
            raise BadFile(f"It has more than {FRAMES_MAX:,} frames.")
        _decode(image, scans)
        found = _turned(width, height, _lies_on_its_side(image))
    if name == "PNG":
        _check_png(file)
    return found | {"frames": frames}


def _turned(width: int, height: int, on_its_side: bool) -> Found:
    return {"width": height, "height": width} if on_its_side else {"width": width, "height": height}


def _lies_on_its_side(image: Image.Image) -> bool:
    try:
        return image.getexif().get(0x0112) in (5, 6, 7, 8)
    except Exception:  # noqa: BLE001 - broken metadata do not make a picture unreadable
        return False


def _decode(image: Image.Image, scans: int) -> None:
    """Decode the picture, so that what is cut short or broken is found; not where that takes long."""
    width, height = image.size
    if width * height * scans > SCANNED_MAX:
        return
    if scans:
        image.draft("L", (max(1, width // 8), max(1, height // 8)))  # reads all of it at a fraction of the work
    elif width * height > DECODED_MAX:
        return
    image.load()


# Neither stuffing, fill, restart nor the one other marker without a length (ITU T.81, table B.1).
_MARKER = re.compile(rb"\xff[^\x00\x01\xd0-\xd8\xff]")


def _jpeg_scans(file: BinaryIO) -> int:
    """How often the picture is gone through: a progressive JPEG once a scan. BadFile for a hundred: an attack.

    What lies in segments (a small picture) or behind the end (a film) is none of it.
    """
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        scans, at = 0, 2
        while (marker := _MARKER.search(data, at)) and marker[0] != b"\xff\xd9":
            scans += marker[0] == b"\xff\xda"
            if scans > SCANS_MAX:
                raise BadFile(f"It has more than {SCANS_MAX} scans.")
            at = marker.end() + max(2, int.from_bytes(data[marker.end() : marker.end() + 2], "big"))
    return max(1, scans)


def _check_png(file: BinaryIO) -> None:
    """Every chunk has the check sum that it says, up to the end chunk."""
    file.seek(0)
    with Image.open(file, formats=["PNG"]) as image:
        image.verify()


def _check_webp(file: BinaryIO, pixels_max: int) -> None:
    head = file.read(30)
    size = file.seek(0, 2)
    file.seek(0)
    if len(head) < 30 or struct.unpack_from("<I", head, 4)[0] + 8 > size:
        raise BadFile("It is cut short.")
    _check_pixels(*_webp_size(head), pixels_max)


def _webp_size(head: bytes) -> tuple[int, int]:
    """Width and height, of the first chunk (RFC 9649, sections 2.5 to 2.7)."""
    if head[12:16] == b"VP8X":
        return int.from_bytes(head[24:27], "little") + 1, int.from_bytes(head[27:30], "little") + 1
    if head[12:16] == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    return int.from_bytes(head[26:28], "little") & 0x3FFF, int.from_bytes(head[28:30], "little") & 0x3FFF


def _gif_frames(file: BinaryIO, pixels_max: int) -> int:
    """The number of frames; the whole structure is walked, nothing is decoded."""
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        count = 0
        try:
            for width, height in _gif_images(data):
                _check_pixels(width, height, pixels_max)
                count += 1
                if count > FRAMES_MAX:
                    raise BadFile(f"It has more than {FRAMES_MAX:,} frames.")
        except (IndexError, struct.error) as error:
            raise BadFile("It is cut short.") from error
    return count


def _gif_images(data: mmap.mmap) -> Iterator[tuple[int, int]]:
    """Width and height of each image block (GIF89a specification, section 20)."""
    at = 13 + _color_table(data[10])
    while at < len(data) and data[at] != 0x3B:
        if data[at] == 0x2C:
            width, height = struct.unpack_from("<HH", data, at + 5)
            yield width, height
            at += 11 + _color_table(data[at + 9])
        elif data[at] == 0x21:
            at += 2
        else:
            raise BadFile("A block of it is none that GIF knows.")
        while data[at]:
            at += data[at] + 1
        at += 1


def _color_table(flags: int) -> int:
    return 3 << ((flags & 7) + 1) if flags & 0x80 else 0


# --- Videos ----------------------------------------------------------------------------------------------------------


def _video(file: BinaryIO) -> Found:
    if not MediaInfo.can_parse():  # a machine for which the library has no build: nothing can be said
        return {}
    tracks = [track.to_data() for track in MediaInfo.parse(file).tracks]
    whole = _first(tracks, "General")
    picture = _first(tracks, "Video")
    if whole.get("istruncated") == "Yes":
        raise BadFile("It is cut short.")
    if not picture:
        raise BadFile("It holds no video.")
    sound = _first(tracks, "Audio")
    width, height = _number(picture.get("width"), int), _number(picture.get("height"), int)
    found = _turned(width, height, round(_number(picture.get("rotation"), float) or 0) % 180 == 90)
    return found | {
        "duration_ms": _number(whole.get("duration") or picture.get("duration"), int),
        "frame_rate": _number(picture.get("frame_rate"), float),
        "bit_rate": _number(picture.get("bit_rate") or whole.get("overall_bit_rate"), int),
        "video_codec": _codec(picture),
        "audio_codec": _codec(sound),
        "has_audio": bool(sound),
    }


def _first(tracks: list[Found], kind: str) -> Found:
    return next((track for track in tracks if track["track_type"] == kind), {})


def _codec(track: Found) -> str | None:
    name = str(track.get("format") or "").lower()
    return _CODECS.get(name, name) or None


def _number(value: Any, kind: Callable[[float], Any]) -> Any:
    """A positive number of the library's, which gives some as text; None for anything else."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return kind(number) if 0 < number < 2**53 else None


# --- The process -----------------------------------------------------------------------------------------------------


def limit() -> None:
    """Give up what reading one file does not need."""
    # When memory runs out, this process is the one to go (Linux).
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    _prctl(_NO_NEW_PRIVS, 1)
    for what, most in (
        (resource.RLIMIT_AS, MEMORY_MAX),
        (resource.RLIMIT_CPU, CPU_SECONDS),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        with contextlib.suppress(OSError, ValueError):  # macOS does not know every limit
            resource.setrlimit(what, (most, most))


def close_the_door(content_type: str) -> None:
    """No further file, no connection (a video may name others), and no system call that reading does not need."""
    os.closerange(3, 64)  # the one-file binary leaves its own file open
    most = 4 if content_type in _MAPPED else 3  # what is mapped into memory takes a number of its own
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    _filter_calls()


_MAPPED = ("image/gif", "image/jpeg")
_NO_NEW_PRIVS, _SECCOMP, _FILTER = 38, 22, 2  # linux/prctl.h, linux/seccomp.h
_ALLOWED, _DENIED = 0x7FFF0000, 0x00050000 | errno.EPERM
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06  # linux/bpf_common.h
# What reading, memory, locks, time and the end of the process need; the kernel's numbers, by machine.
_CALLS = {
    "read": (0, 63), "write": (1, 64), "close": (3, 57), "fstat": (5, 80), "lseek": (8, 62), "mmap": (9, 222),
    "mprotect": (10, 226), "munmap": (11, 215), "brk": (12, 214), "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139), "pread64": (17, 67), "readv": (19, 65),
    "writev": (20, 66), "sched_yield": (24, 124), "mremap": (25, 216), "madvise": (28, 233), "dup": (32, 23),
    "nanosleep": (35, 101), "getpid": (39, 172), "exit": (60, 93), "fcntl": (72, 25), "gettimeofday": (96, 169),
    "getrusage": (98, 165), "sigaltstack": (131, 132), "gettid": (186, 178), "futex": (202, 98),
    "sched_getaffinity": (204, 123), "restart_syscall": (219, 128), "clock_gettime": (228, 113),
    "clock_nanosleep": (230, 115), "exit_group": (231, 94), "newfstatat": (262, 79), "getrandom": (318, 278),
}  # fmt: skip
_MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}  # linux/audit.h, and the column above


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))


def _filter_calls() -> None:
    """Every other system call fails with EPERM, on Linux kernels that have seccomp."""
    machine = _MACHINES.get(os.uname().machine)
    if machine is None:
        return
    architecture, column = machine
    calls = sorted(numbers[column] for numbers in _CALLS.values())
    steps = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, architecture), (_RETURN, 0, 0, _DENIED), (_LOAD, 0, 0, 0)]
    steps += [(_EQUAL, len(calls) - index, 0, number) for index, number in enumerate(calls)]
    steps += [(_RETURN, 0, 0, _DENIED), (_RETURN, 0, 0, _ALLOWED)]
    code = b"".join(struct.pack("=HBBI", *step) for step in steps)
    program = _Program(len(steps), code)
    _prctl(_SECCOMP, _FILTER, ctypes.addressof(program))


def _prctl(*arguments: int) -> None:
    """Where the system has no such call, the other limits stand alone."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(*(ctypes.c_ulong(argument) for argument in (*arguments, 0, 0, 0, 0)[:5]))


def _load(content_type: str) -> None:
    """Libraries come in before the door is closed."""
    if content_type.startswith("video/"):
        MediaInfo.can_parse()
    else:
        Image.preinit()


def main(content_type: str, pixels_max: str) -> None:
    limit()
    Image.MAX_IMAGE_PIXELS = None  # our own limit is looked at before anything is decoded
    _load(content_type)
    close_the_door(content_type)
    try:
        answer = probe(sys.stdin.buffer, content_type, int(pixels_max))
    except BadFile as error:
        answer = {"rule": error.rule, "why": str(error)}
    except Exception as error:  # noqa: BLE001 - whatever a hostile file brings about: it cannot be read
        answer = {"rule": "media.unreadable", "why": "", "error": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer))


if __name__ == "__main__":
    main(*sys.argv[1:])
