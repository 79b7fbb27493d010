"""Files that a publish request carries in base64."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Callable
from typing import Any

from socialpub.domain.media.files import Arriving

FIELD = "bytesBase64"
STEP = 1024 * 1024  # characters that are decoded at once: meanwhile no other thread runs


def carriers(request: Any) -> list[dict[str, Any]]:
    """Return the media items of a valid request, as it was sent, that carry a file."""
    entries = [entry for holder in (request, *request["targets"]) for entry in holder.get("media", ())]
    return [entry for entry in entries if isinstance(entry, dict) and FIELD in entry]


def size(items: list[dict[str, Any]]) -> int:
    """Return how many bytes the files of these items have at most."""
    return sum(len(item[FIELD]) for item in items) // 4 * 3


def extract(items: list[dict[str, Any]], open_file: Callable[[], Arriving], files: dict[str, Arriving]) -> None:
    """Write each file to the disk, and put the hash of its bytes in the place of its text.

    `files`: those written so far, by hash, for the caller to close. A text that is not base64, or stands for nothing,
    becomes "", which names no file.
    """
    for item in items:
        text, item[FIELD] = item[FIELD], ""
        with contextlib.ExitStack() as unwanted:
            arriving = unwanted.enter_context(open_file())
            if _write(text, arriving):
                item[FIELD] = arriving.sha256
                if arriving.sha256 not in files:
                    files[arriving.sha256] = arriving
                    unwanted.pop_all()


def _write(text: str, arriving: Arriving) -> bool:
    """Write the bytes that a text stands for; return whether it is base64, and all of it was written."""
    if not text or len(text) % 4 or text.find("=", 0, -2) >= 0:
        return False
    try:
        for at in range(0, len(text), STEP):
            arriving.write(base64.b64decode(text[at : at + STEP], validate=True))
    except ValueError:
        return False
    arriving.rest()
    return True
