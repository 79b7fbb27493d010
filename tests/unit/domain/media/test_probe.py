"""Media type detection and measurement in a sandboxed process, on hostile files."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import zlib
from pathlib import Path

import pytest

from socialpub.base.concurrency.fair_executor import FairExecutor
from socialpub.base.errors import ApiError
from socialpub.domain.media import probe
from socialpub.platforms.contract import MediaFacts
from tests.support.hostile_media import BOMBS, FILES, Maker, commented, scans
from tests.support.media_files import animation, box, gif, gif_frame, mp4, picture, png, webm

quickly = pytest.mark.usefixtures("quick_reader")  # the tests without it start a process for each file, as the server


def measured(tmp_path: Path, data: bytes) -> MediaFacts | None:
    path = tmp_path / "file"
    path.write_bytes(data)
    return probe.measure(path, "hash")


def refusal(tmp_path: Path, data: bytes) -> str:
    """The rule that refuses an upload of these bytes; "" when none does."""
    try:
        return "" if measured(tmp_path, data) else "media.type_unsupported"
    except ApiError as error:
        return error.rule or error.code


@quickly
@pytest.mark.parametrize("name", FILES)
def test_hostile_files_are_refused_with_their_rule(tmp_path: Path, name: str) -> None:
    make, rule = FILES[name]
    assert refusal(tmp_path, make()) == rule


@pytest.mark.matrix
@quickly
@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_refused_with_their_rule(tmp_path: Path, name: str) -> None:
    make, rule = BOMBS[name]
    assert refusal(tmp_path, make()) == rule


def test_the_corpus_is_large_enough() -> None:
    assert len(FILES) >= 60
    assert len(BOMBS) >= 20


# --- Good files ----------------------------------------------------------------------------------------------------

TURNED = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0%c\0\0\0\0\0\0"
GOOD: dict[str, tuple[Maker, MediaFacts]] = {
    "JPEG": (picture, MediaFacts("image/jpeg", 0, "hash", 64, 48, 1)),
    "progressive JPEG": (lambda: picture(progressive=True), MediaFacts("image/jpeg", 0, "hash", 64, 48, 1)),
    "JPEG on its side": (lambda: picture(exif=TURNED % 6), MediaFacts("image/jpeg", 0, "hash", 48, 64, 1)),
    "JPEG upside down": (lambda: picture(exif=TURNED % 3), MediaFacts("image/jpeg", 0, "hash", 64, 48, 1)),
    "WebP on its side": (lambda: picture("WEBP", exif=TURNED % 8), MediaFacts("image/webp", 0, "hash", 48, 64, 1)),
    "PNG on its side": (lambda: picture("PNG", exif=TURNED[6:] % 5), MediaFacts("image/png", 0, "hash", 48, 64, 1)),
    "JPEG with broken EXIF": (
        lambda: picture(exif=b"Exif\0\0MM\0*\xff\xff\xff\xff"),
        MediaFacts("image/jpeg", 0, "hash", 64, 48, 1),
    ),
    "JPEG with more behind it": (
        lambda: picture() + picture() + bytes(99),
        MediaFacts("image/jpeg", 0, "hash", 64, 48, 1),
    ),
    "PNG": (lambda: picture("PNG"), MediaFacts("image/png", 0, "hash", 64, 48, 1)),
    "animated PNG": (lambda: animation("PNG", 4), MediaFacts("image/png", 0, "hash", 20, 10, 4)),
    "GIF": (lambda: animation("GIF", 1), MediaFacts("image/gif", 0, "hash", 20, 10, 1)),
    "animated GIF": (lambda: animation("GIF", 12), MediaFacts("image/gif", 0, "hash", 20, 10, 12)),
    "GIF without its end": (lambda: gif(3, 2, gif_frame(), b""), MediaFacts("image/gif", 0, "hash", 3, 2, 1)),
    "WebP": (lambda: picture("WEBP"), MediaFacts("image/webp", 0, "hash", 64, 48, 1)),
    "lossless WebP": (lambda: picture("WEBP", lossless=True), MediaFacts("image/webp", 0, "hash", 64, 48, 1)),
    "animated WebP": (lambda: animation("WEBP", 5), MediaFacts("image/webp", 0, "hash", 20, 10, 5)),
    "PDF": (lambda: b"%PDF-1.7 whatever", MediaFacts("application/pdf", 0, "hash")),
    "MP4": (
        mp4,
        MediaFacts("video/mp4", 0, "hash", 320, 240, None, 2000, 30.0, 24_000, "h264", "aac", True),
    ),
    "silent MP4 on its side": (
        lambda: mp4(1280, 720, turn=270, sound=False, seconds=12.5, rate=60, codec=b"hvc1"),
        MediaFacts("video/mp4", 0, "hash", 720, 1280, None, 12_500, 60.0, 48_000, "hevc", None, False),
    ),
    "QuickTime upside down": (
        lambda: mp4(brand=b"qt  ", turn=180, sound=False),
        MediaFacts("video/quicktime", 0, "hash", 320, 240, None, 2000, 30.0, 24_000, "h264", None, False),
    ),
    "QuickTime of before file types": (
        lambda: mp4(sound=False)[len(box(b"ftyp", b"isom", bytes(4), b"isommp42")) :],
        MediaFacts("video/quicktime", 0, "hash", 320, 240, None, 2000, 30.0, 24_000, "h264", None, False),
    ),
    "WebM": (webm, MediaFacts("video/webm", 0, "hash", 320, 240, None, 2000, 30.0, 1296, "vp9", None, False)),
    "WebM without a length": (
        lambda: webm(milliseconds=None, codec="V_AV1"),
        MediaFacts("video/webm", 0, "hash", 320, 240, None, None, 30.0, None, "av1", None, False),
    ),
}


@quickly
@pytest.mark.parametrize("name", GOOD)
def test_good_files_are_measured(tmp_path: Path, name: str) -> None:
    make, wanted = GOOD[name]
    data = make()
    found = measured(tmp_path, data)
    assert found is not None
    assert found.size == len(data)
    assert {**vars(found), "size": 0} == vars(wanted)


@quickly
@pytest.mark.parametrize("width,height", [(10_000, 5_000), (50_000_000, 1)])
def test_fifty_million_pixels_are_not_too_many(tmp_path: Path, width: int, height: int) -> None:
    found = measured(tmp_path, png(width, height))
    assert found is not None
    assert (found.width, found.height) == (width, height)


# --- Limits ----------------------------------------------------------------------------------------------------------


def test_a_reader_that_takes_too_long_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = tmp_path / "worker.py"
    worker.write_text("import threading\nthreading.Event().wait()\n")
    monkeypatch.setattr(probe, "WORKER", worker)
    monkeypatch.setattr(probe, "WALL_SECONDS", 0.3)
    assert refusal(tmp_path, picture()) == "http.busy"


ATTACKS = [
    "bytearray(4 << 30)",
    "[bytearray(1 << 26) for _ in range(64)]",
    "open('/etc/hostname').read()",
    "open(sys.executable, 'rb')",
    "socket.socket()",
    "open('/tmp/socialpub-escaped', 'w').write('x')",
    "os.fork()",
    "os.execv('/bin/true', ['true'])",
    "os.kill(os.getppid(), 0)",
    "os.unlink('/tmp/socialpub-escaped')",
    "mmap.mmap(-1, 4096, prot=mmap.PROT_READ) and os.setsid()",
]


@pytest.mark.slow
def test_a_reader_that_was_taken_over_gets_no_memory_files_or_connections(tmp_path: Path) -> None:
    code = (
        f"import mmap, os, sys, runpy, socket\nmodule = runpy.run_path({str(probe.WORKER)!r}, run_name='worker')\n"
        f"attacks = [compile(attack, attack, 'eval') for attack in {ATTACKS}]\n"
        "module['sandbox'].limit_resources()\nmodule['sandbox'].close_sandbox(3)\n"
        "for attack in attacks:\n"
        "    try:\n        eval(attack)\n"
        "    except (OSError, MemoryError):\n        print(attack.co_filename, flush=True)\n"
    )
    with (tmp_path / "empty").open("w+b") as nothing:
        ended = subprocess.run(
            [sys.executable, "-I", "-c", code], stdin=nothing, capture_output=True, text=True, timeout=60, check=False
        )
    assert (ended.stdout.splitlines(), ended.returncode) == (ATTACKS, 0), ended.stderr


def test_a_reader_gains_no_privileges_and_few_seconds(tmp_path: Path) -> None:
    code = (
        f"import resource, runpy\nmodule = runpy.run_path({str(probe.WORKER)!r}, run_name='worker')\n"
        "module['sandbox'].limit_resources()\n"
        "print('NoNewPrivs:\\t1' in open('/proc/self/status').read(), resource.getrlimit(resource.RLIMIT_CPU))"
    )
    ended = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, timeout=60, check=True)
    assert ended.stdout.decode().split(maxsplit=1) == ["True", "(5, 6)\n"]


def test_a_reader_computes_when_requests_leave_room(tmp_path: Path) -> None:
    """A script in its place says how it was started, once it was told to go after others."""
    nicer = min(19, os.nice(0) + probe.NICENESS)  # 19 is as far as it goes
    told = f"import os, time\nwhile (nice := os.nice(0)) < {nicer}: time.sleep(0.001)\nprint(nice)"
    with (tmp_path / "nothing").open("w+b") as nothing:
        assert probe._run_process([sys.executable, "-I", "-c", told], nothing) == (f"{nicer}\n".encode(), 0)


@pytest.mark.slow
def test_jpeg_of_too_many_pixels_times_scans_is_measured_undecoded(tmp_path: Path) -> None:
    """Its scans are rubbish, which a decoder would refuse: nothing has decoded it."""
    heavy = picture("JPEG", (4100, 4100), progressive=True)
    at = heavy.index(b"\xff\xda")
    header, scan = heavy[:at], b"\xff\xda\0\x0c\x03\x01\x11\x02\x11\x03\x11\0\0\x01"
    found = measured(tmp_path, header + scan * 60 + b"\xff\xd9")
    assert found is not None
    assert (found.width, found.height) == (4100, 4100)
    assert refusal(tmp_path, header + scan * 20) == "media.unreadable"


@pytest.mark.slow
def test_progressive_jpeg_without_an_end_mark_is_refused_with_the_reason(tmp_path: Path) -> None:
    """It is not decoded, so what is missing would not show."""
    with pytest.raises(ApiError, match="Its end mark is missing, and it is too large to check"):
        measured(tmp_path, picture("JPEG", (4100, 4100), progressive=True)[:-2])


@quickly
@pytest.mark.parametrize("missing,rule", [(12, ""), (16, ""), (28, "media.unreadable"), (2000, "media.unreadable")])
def test_a_large_png_without_an_end_mark_is_whole_when_its_stream_is(tmp_path: Path, missing: int, rule: str) -> None:
    large = png(10_000, 5_000, zlib.compress(bytes(10_001 * 5_000), 1))
    assert refusal(tmp_path, large[:-missing]) == rule


def test_scans_of_what_a_jpeg_carries_along_are_not_its_own(tmp_path: Path) -> None:
    film = b"\xff\xda\0\x02" * 500
    assert refusal(tmp_path, commented(picture(), film) + film) == ""


@pytest.mark.slow
def test_one_owners_files_never_hold_all_readers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve heavy uploads wait and run; another's small picture is measured while not one of them is done."""
    heavy, small, done = threading.Event(), tmp_path / "small", []
    small.write_bytes(picture("PNG"))
    (tmp_path / "heavy").write_bytes(scans(20))
    ask, readers = probe._run_worker, FairExecutor(3, "tested")

    def slow(path: Path, content_type: str) -> dict[str, object]:
        if path.name == "heavy":
            heavy.wait()
        return ask(path, content_type)

    def upload() -> None:
        done.append(probe.measure(tmp_path / "heavy", owner="one"))

    monkeypatch.setattr(probe, "_run_worker", slow)
    monkeypatch.setattr(probe, "reader_pool", readers)
    threads = [threading.Thread(target=upload) for _ in range(12)]
    for thread in threads:
        thread.start()
    try:
        found = probe.measure(small, owner="another")
        assert found is not None
        assert not done
    finally:
        heavy.set()
        for thread in threads:
            thread.join()
    assert len(done) == 12


def test_a_reader_gets_nothing_of_the_servers_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOCIALPUB_SECURITY__ENCRYPTION_KEYS", "canary")
    worker = tmp_path / "worker.py"
    worker.write_text(
        "import json, os\nprint(json.dumps({'rule': 'media.unreadable', 'why': repr(dict(os.environ))}))\n"
    )
    monkeypatch.setattr(probe, "WORKER", worker)
    with pytest.raises(ApiError) as caught:
        measured(tmp_path, picture())
    assert "canary" not in caught.value.message
    assert "SOCIALPUB" not in caught.value.message


REASONS = {
    "half a JPEG": ("It is cut short: pixels are missing.", "copied or downloaded to its end"),
    "a PNG with a wrong check sum": ("The checksum of its IDAT chunk is wrong: pixels are damaged.", "save it again"),
    "a GIF of unknown blocks": ("A block of it is none that GIF knows (0x99).", "save it again"),
    "half a WebP": ("It is cut short: a chunk is larger than what is left.", "copied or downloaded to its end"),
    "HTML that begins like JPEG": ("It has a marker that no JPEG has in its place (0x3C).", "save it again"),
    "PNG and SVG": ("It is also a page with markup.", "leaves out what is not part of it"),
    "GIF and JavaScript": ("It is also a script.", "leaves out what is not part of it"),
    "an MP4 of sound alone": ("It holds no video.", "with a video track"),
    "a JPEG of a thousand scans": ("It has more than 100 scans.", "baseline JPEG"),
    "a GIF of a hundred thousand frames": ("It has more than 20,000 frames.", "Make the animation shorter."),
    "a text chunk of 96 MiB": (
        "Its zTXt chunks unpack to more than 67,108,864 bytes.",
        "Remove the image's metadata",
    ),
}


@quickly
@pytest.mark.parametrize("name", REASONS)
def test_a_refusal_says_why_and_what_to_do(tmp_path: Path, name: str) -> None:
    make, _ = (FILES | BOMBS)[name]
    why, advice = REASONS[name]
    with pytest.raises(ApiError) as caught:
        measured(tmp_path, make())
    assert caught.value.message == f"The file is damaged: it cannot be read. {why}"
    assert caught.value.remediation is not None
    assert advice in caught.value.remediation


def test_a_word_in_metadata_makes_no_pdf(tmp_path: Path) -> None:
    assert refusal(tmp_path, commented(picture(), b"Made from a draft in %PDF-1.7")) == ""


@pytest.mark.slow
def test_what_the_reader_says_beside_the_rule_is_shown(tmp_path: Path) -> None:
    with pytest.raises(ApiError) as caught:
        measured(tmp_path, FILES["JPEG and ZIP"][0]())
    assert caught.value.message == "The file is damaged: it cannot be read. It is also a ZIP archive."
    with pytest.raises(ApiError) as caught:
        measured(tmp_path, png(10_000, 5_001))
    assert caught.value.message == "The image has more than 50,000,000 pixels. It has 10,000 × 5,001 pixels."


@pytest.mark.slow
def test_many_files_at_once_are_measured_a_few_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(picture())
    found: list[MediaFacts | None] = []
    threads = [threading.Thread(target=lambda: found.append(probe.measure(path))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [facts and facts.width for facts in found] == [64] * 6
