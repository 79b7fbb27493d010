"""The `Prefer` header (RFC 7240): how long to wait for a batch. Invalid values are ignored."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

WAIT_MAX = 55
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_WORD = rf'(?:{_TOKEN}|"(?:[^"\\]|\\.)*")'
_PARAMETER = rf";\s*(?:{_TOKEN}\s*(?:=\s*{_WORD}\s*)?)?"
_PREFERENCE = re.compile(rf"\s*(?:({_TOKEN})\s*(?:=\s*({_WORD})\s*)?(?:{_PARAMETER})*)?(?:,|$)", re.ASCII)
_SECONDS = re.compile(r"[0-9]{1,9}", re.ASCII)


class PreferWait(NamedTuple):
    """The seconds to wait, and the value of the `Preference-Applied` response header."""

    seconds: float
    applied: str | None = None

    @property
    def headers(self) -> dict[str, str]:
        return {"Preference-Applied": self.applied} if self.applied else {}


def parse_wait(values: Sequence[str], default: float) -> PreferWait:
    """Return the wait that the headers ask for.

    `respond-async` means 0, unless `wait` is given too.
    """
    if not values:
        return PreferWait(default)
    preferences = _parse_preferences(", ".join(values))
    given = preferences.get("wait", "")
    seconds = int(given) if _SECONDS.fullmatch(given) else 0
    if 1 <= seconds <= WAIT_MAX:
        return PreferWait(seconds, f"wait={seconds}")
    return PreferWait(0, "respond-async") if preferences.get("respond-async") == "" else PreferWait(default)


def _parse_preferences(text: str) -> dict[str, str]:
    """Return the first value of each preference by lower-case name; none if malformed."""
    found: dict[str, str] = {}
    at = 0
    while at < len(text):
        match = _PREFERENCE.match(text, at)
        if match is None:
            return {}
        if match[1]:
            found.setdefault(match[1].lower(), (match[2] or "").strip('"'))
        at = match.end()
    return found
