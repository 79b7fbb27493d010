"""Text for terminals and logs, in which names come from tenants and platforms."""

from __future__ import annotations

import re

# Controls, line separators, zero-width and direction marks, lone surrogates. Not the joiners U+200C and U+200D, with
# which emoji and some scripts are written.
CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


def escape_surrogates(text: str) -> str:
    """Return a text as UTF-8 has it: other bytes of file names are escaped, as JSON does."""
    return text.encode("utf-8", "backslashreplace").decode()


def escape_controls(text: str) -> str:
    """Return a text as one line; what a terminal would obey, or not show, is escaped."""
    if text.isascii() and text.isprintable():
        return text
    return CONTROLS.sub(lambda found: ascii(found[0])[1:-1], text)
