"""Inline base64 files in a request, streamed to disk and replaced by their hash."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from socialpub.base.errors import ApiError
from socialpub.domain.media import inline_files
from socialpub.domain.media.files import IncomingFile
from socialpub.domain.media.inline_files import CHUNK_CHARACTERS, FIELD

Open = Callable[[], IncomingFile]
CONTENTS = [b"x", b"ab", b"abc", bytes(range(256)), b"\xff\xfe" * CHUNK_CHARACTERS]


@pytest.fixture
def open_file(tmp_path: Path) -> Iterator[Open]:
    yield lambda: IncomingFile(tmp_path, 3 * CHUNK_CHARACTERS)
    assert list(tmp_path.iterdir()) == [], "a file was left"


def digits(content: bytes) -> str:
    return base64.b64encode(content).decode()


def extracted(open_file: Open, *texts: str) -> tuple[list[str], dict[str, bytes]]:
    """What stands in place of the texts, and the files by their hash."""
    request: dict[str, Any] = {"targets": [{"media": [{FIELD: text} for text in texts]}, {}], "media": ["med_x", {}]}
    files: dict[str, IncomingFile] = {}
    try:
        inline_files.extract(inline_files.find_items(request), open_file, files)
        found = {sha256: arriving.path.read_bytes() for sha256, arriving in files.items()}
    finally:
        for arriving in files.values():
            arriving.close()
    return [item[FIELD] for item in request["targets"][0]["media"]], found


@pytest.mark.parametrize("content", CONTENTS)
def test_a_file_goes_to_the_disk_and_its_hash_stays(content: bytes, open_file: Open) -> None:
    sha256 = hashlib.sha256(content).hexdigest()
    assert extracted(open_file, digits(content), digits(content)) == ([sha256] * 2, {sha256: content})


NOT_BASE64 = ["=", "A", "AA", "AAA", "AA=", "AA==A", "AA==AAAA", "A===", "AA=A", "AA AA", "AA\nAA", "AA-_", "éAAA"]


@pytest.mark.parametrize("text", ["", "\0\0\0\0", "AAAA====", "A" * CHUNK_CHARACTERS + "AA==" + "AAAA", *NOT_BASE64])
def test_what_is_no_base64_leaves_nothing(text: str, open_file: Open) -> None:
    for whole in (text, text and "AAAA" + text, text and "A" * CHUNK_CHARACTERS + text):
        assert extracted(open_file, whole) == ([""], {})


def test_padding_between_two_steps_is_no_base64(open_file: Open) -> None:
    assert extracted(open_file, "A" * (CHUNK_CHARACTERS - 4) + "AA==" + "AAAA") == ([""], {})


def test_no_text_passes_for_a_file(open_file: Open) -> None:
    """A hash that is sent as text is base64 of something else."""
    sha256 = hashlib.sha256(b"abc").hexdigest()
    (first, second), files = extracted(open_file, digits(b"abc"), sha256)
    assert first == sha256 != second
    assert files[second] == base64.b64decode(sha256)


def test_a_file_that_is_too_large_leaves_nothing(open_file: Open) -> None:
    with pytest.raises(ApiError) as refused:
        extracted(open_file, digits(b"abc"), digits(b"x" * (3 * CHUNK_CHARACTERS + 1)))
    assert refused.value.rule == "media.size_max"
