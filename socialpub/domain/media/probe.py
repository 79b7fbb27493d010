"""Probe of media files: type by the first bytes, the rest by a separate process.

`probe_worker.py` measures one file, or makes its thumbnails, under resource limits; one that exceeds them is refused.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from typing import IO, Any

from socialpub.base import image_formats
from socialpub.base.concurrency.fair_executor import BUSY_RETRY_SECONDS, FairExecutor, ShareKey
from socialpub.base.errors import ApiError, rule_error
from socialpub.base.system import pyinstaller
from socialpub.platforms.contract import DOCUMENT_TYPE, MediaFacts

log = logging.getLogger("socialpub.media")

PIXELS_MAX = 50_000_000
WALL_SECONDS = 20.0
NICENESS = 10
SNIFF_BYTES = 64
UNKNOWN_TYPE = "application/octet-stream"
WORKER = Path(__file__).with_name("probe_worker.py")

# Major and compatible brands of ISO base media files that players treat as MP4 (registry at mp4ra.org).
_MP4_BRANDS = {b"isom", b"mp41", b"mp42", b"avc1", b"dash", b"M4V ", b"M4VH", b"M4VP", b"MSNV", b"mmp4", b"NDSH"}
_MP4_BRANDS |= {b"iso%c" % digit for digit in b"123456789"} | {b"3gp%c" % digit for digit in b"456789"}
_PICTURE_BRANDS = {b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1", b"avif", b"avis", b"crx "}
_OLD_QUICKTIME = {b"moov", b"mdat", b"wide", b"free", b"skip", b"pnot"}

# Only these variables: the server's environment may hold secrets.
_ENVIRONMENT = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
_ENVIRONMENT |= pyinstaller.build_child_environment()
_SHORT_OF_RESOURCES = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)
reader_pool = FairExecutor(max(2, os.cpu_count() or 2) + 1, "probing")


class UnfinishedError(Exception):
    """The machine was too busy to read a file; its reader kept to its limits."""


def sniff(head: bytes) -> str | None:
    """Detect the content type from the first bytes; None unless it is an accepted one."""
    if image := image_formats.detect_type(head):
        return image
    if head.startswith(b"\x1aE\xdf\xa3") and b"webm" in head[:SNIFF_BYTES]:
        return "video/webm"
    if head.startswith(b"%PDF-"):
        return DOCUMENT_TYPE
    return _sniff_boxes(head)


def _sniff_boxes(head: bytes) -> str | None:
    """Detect MP4 and QuickTime; HEIC, AVIF, JPEG 2000 and raw photographs are neither."""
    if head[4:8] in _OLD_QUICKTIME:
        return "video/quicktime"
    if head[4:8] != b"ftyp":
        return None
    major, length = head[8:12], min(int.from_bytes(head[:4], "big"), SNIFF_BYTES)
    brands = {major} | {head[at : at + 4] for at in range(16, length, 4)}
    if major in _PICTURE_BRANDS:
        return None
    if b"qt  " in brands:
        return "video/quicktime"
    return "video/mp4" if brands & _MP4_BRANDS else None


def measure(path: Path, sha256: str = "", owner: str = "") -> MediaFacts | None:
    """Measure a file; None for an unsupported type. `owner`: organization whose share is used.

    Takes about 0.1 s, at most 20 s. Raises ApiError `media.unreadable`, `media.pixels_max`; `http.busy` if the machine
    is too busy to read it now; `internal_error` if there is no program to read it with.
    """
    with path.open("rb") as file:
        content_type = sniff(file.read(SNIFF_BYTES))
    if content_type is None:
        return None
    if content_type == DOCUMENT_TYPE:  # not parsed: only platforms read it, and downloads of it are attachments
        return MediaFacts(content_type, path.stat().st_size, sha256)
    try:
        found = reader_pool.submit_for(ShareKey(owner=owner), _run_worker, path, content_type).result()
    except UnfinishedError as error:
        log.warning("media file %s could not be read now: %s", path.name, error)
        raise rule_error("http.busy", retry_after=BUSY_RETRY_SECONDS) from error
    if "rule" in found:
        log.info(
            "media file %s is refused by rule %s: %s", path.name, found["rule"], found.get("error") or found["why"]
        )
        raise rule_error(
            found["rule"], f"{rule_error(found['rule']).message} {found['why']}", remediation=found.get("advice")
        )
    return MediaFacts(content_type, path.stat().st_size, sha256, **found)


def make_thumbnails(path: Path, edges: Collection[int], owner: str) -> dict[int, bytes] | None:
    """Return WebP thumbnails by their longest edge in pixels; None if a file has none.

    Takes about 0.2 s, at most 20 s. Raises UnfinishedError, or ApiError `internal_error` if there is no program to read
    the file with.
    """
    with path.open("rb") as file:
        content_type = sniff(file.read(SNIFF_BYTES))
    if content_type is None or not content_type.startswith("image/"):
        return None
    found = reader_pool.submit_for(ShareKey(owner=owner), _run_worker, path, content_type, *edges).result()
    if "rule" in found:
        log.info("media file %s has no thumbnail: %s", path.name, found.get("error") or found["why"])
        return None
    return {edge: base64.b64decode(found[str(edge)]) for edge in edges}


def _run_worker(path: Path, content_type: str, *edges: int) -> dict[str, Any]:
    reader = [pyinstaller.READ_MEDIA_ARGUMENT] if pyinstaller.is_binary() else ["-I", str(WORKER)]
    command = [sys.executable, *reader, content_type, str(PIXELS_MAX), *map(str, edges)]
    try:
        with path.open("rb") as file:
            said, code = _run_process(command, file)
    except subprocess.TimeoutExpired:
        raise UnfinishedError("it took too long") from None
    except OSError as error:
        if error.errno in _SHORT_OF_RESOURCES:
            raise UnfinishedError(f"its reader could not be started: {error}") from error
        log.error("the process that probes a media file could not be started; the request fails: %s", error)
        raise ApiError("internal_error") from error
    if code == -signal.SIGKILL:  # memory ran out, perhaps; too much CPU time is SIGXCPU
        raise UnfinishedError("its reader was killed")
    if code != 0:
        return {
            "rule": "media.unreadable",
            "why": "It needs more time or memory than a file may.",
            "advice": "Upload a smaller or simpler file.",
            "error": f"its reader ended with {code}",
        }
    return dict(json.loads(said))


def _run_process(command: list[str], file: IO[bytes]) -> tuple[bytes, int]:
    """Run a reader at low priority; return its output and exit code."""
    with subprocess.Popen(
        command,
        stdin=file,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env=_ENVIRONMENT,
        start_new_session=True,
    ) as reader:
        with contextlib.suppress(OSError):  # already ended
            os.setpriority(os.PRIO_PROCESS, reader.pid, min(19, os.getpriority(os.PRIO_PROCESS, 0) + NICENESS))
        try:
            said, _ = reader.communicate(timeout=WALL_SECONDS)
        except subprocess.TimeoutExpired:
            reader.kill()
            raise
    return said, reader.returncode
