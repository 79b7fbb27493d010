"""Calendar of posts, as a file describes it, and the problems of such a file."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Place:
    """Place in a file, from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True)
class Problem:
    """Reason why a file cannot be used, and where it is."""

    place: Place
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


class CalendarError(Exception):
    """The files have problems: all of them, in `problems`."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


@dataclass(frozen=True)
class MediaEntry:
    """Media item of an entry: a file, known by its hash, an uploaded file's id, or an address."""

    file: str | None = None
    sha256: str | None = None
    id: str | None = None
    url: str | None = None
    alt: str | None = None

    @classmethod
    def of_file(cls, path: Path, alt: str | None) -> MediaEntry:
        """Read a file's hash. Raises OSError."""
        with open(path, "rb") as file:
            return cls(file=str(path), sha256=hashlib.file_digest(file, "sha256").hexdigest(), alt=alt)


@dataclass(frozen=True)
class Content:
    """Text, media and options of one target."""

    text: str
    media: tuple[MediaEntry, ...] = ()
    options: Json | None = None


@dataclass(frozen=True)
class Entry:
    """Post of a calendar. `targets`: the content by target, as the file names it."""

    id: str
    at: datetime
    targets: Mapping[str, Content]
    place: Place = field(compare=False)


@dataclass(frozen=True)
class Calendar:
    """Named entries; the name owns the external ids `name/…`."""

    name: str
    zone: str | None
    entries: tuple[Entry, ...]

    def external_id(self, entry: str) -> str:
        """Return the external id of an entry."""
        return f"{self.name}/{entry}"
