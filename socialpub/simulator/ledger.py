"""Ledger of everything published on the fake platforms: the reference for tests."""

from __future__ import annotations

import json
import os
import threading
import weakref
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from socialpub.base.runtime import Clock

_ENCODER = json.JSONEncoder(ensure_ascii=False)


@dataclass(frozen=True)
class PublishedMedia:
    """Image or video of a post; its bytes are in the state's blobs under `sha256`."""

    sha256: str
    size: int
    type: str
    alt: str | None = None


@dataclass(frozen=True)
class Publication:
    """Published change, recorded by the platform at the moment of its effect.

    `kind`: `post`, `comment` (a reply), `orphan` (a reply that is in no thread, since what it replies to is not there),
    `update`, `delete`, or the platform's word for anything else.
    """

    platform: str
    account: str
    kind: str
    remote_id: str
    url: str | None = None
    text: str | None = None
    media: tuple[PublishedMedia, ...] = ()
    request: Any = None


@dataclass(frozen=True)
class LedgerEntry(Publication):
    """Publication in the ledger, numbered from 1, with the time of the state's clock."""

    n: int = 0
    at_ms: int = 0

    def body(self) -> dict[str, Any]:
        shown = {name: getattr(self, name) for name in _SHOWN}
        shown["media"] = [dict(vars(medium)) for medium in self.media]
        return shown


_SHOWN = ("n", "at_ms", *(field.name for field in fields(Publication)))


class Ledger:
    """Append-only, thread-safe ledger.

    With `file`, each entry is also a flushed JSON line there. Raises OSError if the file cannot be written.
    """

    def __init__(self, clock: Clock, file: Path | None = None) -> None:
        self._clock = clock
        self._entries: list[LedgerEntry] = []
        self._lock = threading.Condition()
        self._file: int | None = None
        if file is not None:  # open it now, so that it fails before the first post
            self._file = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
            weakref.finalize(self, os.close, self._file)

    def write(self, publication: Publication) -> LedgerEntry:
        with self._lock:
            entry = LedgerEntry(**vars(publication), n=len(self._entries) + 1, at_ms=self._clock.now_ms())
            self._entries.append(entry)
            if self._file is not None:
                _append(self._file, f"{_ENCODER.encode(entry.body())}\n".encode())
            self._lock.notify_all()
        return entry

    def entries(self, platform: str | None = None, account: str | None = None, since: int = 0) -> list[LedgerEntry]:
        """Return the entries in order, filtered by platform, account, and number above `since`."""
        with self._lock:
            return [
                entry
                for entry in self._entries[max(since, 0) :]
                if platform in (None, entry.platform) and account in (None, entry.account)
            ]

    def posts(self, platform: str | None = None, account: str | None = None) -> list[LedgerEntry]:
        """Return posts and comments, without updates, deletions and other records."""
        return [entry for entry in self.entries(platform, account) if entry.kind in ("post", "comment")]

    def wait(self, count: int, timeout: float) -> bool:
        """Wait for `count` entries; return False after `timeout` seconds."""
        with self._lock:
            return self._lock.wait_for(lambda: len(self._entries) >= count, timeout)

    def clear(self) -> None:
        """Delete all entries; the file keeps its lines."""
        with self._lock:
            self._entries.clear()


def _append(file: int, line: bytes) -> None:
    """Write unbuffered: other processes see the line when this returns."""
    while line:
        line = line[os.write(file, line) :]
