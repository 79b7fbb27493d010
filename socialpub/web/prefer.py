"""The header `Prefer` (RFC 7240): how long a caller likes to wait. What is malformed or out of range is ignored."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

WAIT_MAX = 55
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_WORD = rf'(?:{_TOKEN}|"(?:[^"\\]|\\.)*")'
_PARAMETER = rf";\s*(?:{_TOKEN}\s*(?:=\s*{_WORD}\s*)?)?"
_PREFERENCE = re.compile(rf"\s*(?:({_TOKEN})\s*(?:=\s*({_WORD})\s*)?(?:{_PARAMETER})*)?(?:,|$)", re.ASCII)
_SECONDS = re.compile(r"[0-9]{1,9}", re.ASCII)


class Wait(NamedTuple):
    """How long to wait, and what `Preference-Applied` says of it."""

    seconds: float
    applied: str | None = None

    @property
    def headers(self) -> dict[str, str]:
        return {"Preference-Applied": self.applied} if self.applied else {}


def wait_of(values: Sequence[str], default: float) -> Wait:
    """What the headers of a request ask for: `respond-async` is not to wait, or no longer than a `wait` beside it."""
    if not values:
        return Wait(default)
    asked = _preferences(", ".join(values))
    given = asked.get("wait", "")
    seconds = int(given) if _SECONDS.fullmatch(given) else 0
    if 1 <= seconds <= WAIT_MAX:
        return Wait(seconds, f"wait={seconds}")
    return Wait(0, "respond-async") if asked.get("respond-async") == "" else Wait(default)


def _preferences(text: str) -> dict[str, str]:
    """Each preference by its name in small letters, the first of each; none at all of a header that is malformed."""
    found: dict[str, str] = {}
    for match in _read(text):
        if match is None:
            return {}
        if match[1]:
            found.setdefault(match[1].lower(), (match[2] or "").strip('"'))
    return found


def _read(text: str) -> Iterator[re.Match[str] | None]:
    at = 0
    while at < len(text):
        match = _PREFERENCE.match(text, at)
        yield match
        if match is None:
            return
        at = match.end()
