"""Small web pages with OpenGraph tags and an image, to test link cards offline."""

from __future__ import annotations

import hashlib
import struct
import zlib
from html import escape

_SIDE = 64
_LOOK = (
    '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    "<style>body { background: #fff; color: #1b1f27; font: 16px/1.5 system-ui, sans-serif; padding: 1rem; }</style>"
)


def page(name: str, origin: str) -> str:
    """Build the page `name` of a site at `origin`."""
    address = f"{origin}/pages/{name}"
    tags = {
        "og:title": f"Page {name}",
        "og:description": f"What there is to say about {name}.",
        "og:url": address,
        "og:image": f"{address}.png",
    }
    meta = "\n".join(f'<meta property="{key}" content="{escape(value)}">' for key, value in tags.items())
    title = escape(tags["og:title"])
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n{_LOOK}\n<title>{title}</title>\n{meta}\n'
        f"</head>\n<body>\n<main>\n<h1>{title}</h1>\n</main>\n</body>\n</html>\n"
    )


def png(name: str, side: int = _SIDE) -> bytes:
    """Build a square image in one color, derived from the name."""
    colour = hashlib.sha256(name.encode()).digest()[:3]
    row = b"\x00" + colour * side
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(row * side)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
