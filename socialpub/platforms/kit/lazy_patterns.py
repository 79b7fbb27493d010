"""Lazily compiled patterns of the package `regex`, which is slow to import and compile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import regex


class _LazyPattern:
    """Pattern compiled on first use."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __getattr__(self, name: str) -> Any:
        import regex

        found = getattr(regex.compile(self._text), name)
        setattr(self, name, found)  # later lookups bypass __getattr__
        return found


def compile_lazily(text: str, flags: str = "") -> regex.Pattern[str]:
    """Create a lazy pattern; `flags` are letters such as `i` and `x`."""
    return cast("regex.Pattern[str]", _LazyPattern(f"(?{flags}){text}" if flags else text))
