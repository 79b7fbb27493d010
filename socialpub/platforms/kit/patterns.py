"""Patterns of the package `regex`, which many servers never need and none needs at its start: it takes its time to be
imported, and to compile one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import regex


class _Late:
    """A pattern that is compiled when it is first used."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __getattr__(self, name: str) -> Any:
        import regex

        found = getattr(regex.compile(self._text), name)
        setattr(self, name, found)  # it is asked for here no more
        return found


def late(text: str, flags: str = "") -> regex.Pattern[str]:
    """The pattern; `flags` as their letters, such as `i` and `x`."""
    return cast("regex.Pattern[str]", _Late(f"(?{flags}){text}" if flags else text))
