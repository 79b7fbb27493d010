"""Files that a publish request carries in base64."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Callable
from typing import Any

from socialpub.domain.media.files import IncomingFile

FIELD = "bytesBase64"
CHUNK_CHARACTERS = 1024 * 1024  # characters that are decoded at once: meanwhile no other thread runs


def find_items(request: Any) -> list[dict[str, Any]]:
    """Return the media items of a valid request, as it was sent, that carry a file."""
    holders = [request, *request.get("targets", ())]
    holders += [piece for holder in holders if "thread" in holder for piece in holder["thread"]]
    entries = [entry for holder in holders if "media" in holder for entry in holder["media"]]
    return [entry for entry in entries if isinstance(entry, dict) and FIELD in entry]


def max_size(items: list[dict[str, Any]]) -> int:
    """Return how many bytes the files of these items have at most."""
    return sum(len(item[FIELD]) for item in items) // 4 * 3


def extract(items: list[dict[str, Any]], open_file: Callable[[], IncomingFile], files: dict[str, IncomingFile]) -> None:
    """Write each file to the disk, and put the hash of its bytes in the place of its text.

    `files`: those written so far, by hash, for the caller to close. A text that is not base64, or stands for nothing,
    becomes "", which names no file.
    """
    for item in items:
        text, item[FIELD] = item[FIELD], ""
        with contextlib.ExitStack() as unwanted:
            incoming = unwanted.enter_context(open_file())
            if _decode_to_file(text, incoming):
                item[FIELD] = incoming.sha256
                if incoming.sha256 not in files:
                    files[incoming.sha256] = incoming
                    unwanted.pop_all()


def _decode_to_file(text: str, incoming: IncomingFile) -> bool:
    """Decode base64 into the file; return whether the text was valid and fully written."""
    if not text or len(text) % 4 or text.find("=", 0, -2) >= 0:
        return False
    try:
        for at in range(0, len(text), CHUNK_CHARACTERS):
            incoming.write(base64.b64decode(text[at : at + CHUNK_CHARACTERS], validate=True))
    except ValueError:
        return False
    incoming.suspend()
    return True
