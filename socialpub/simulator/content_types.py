"""Content type detection by first bytes, which platforms trust over the declared type."""

from __future__ import annotations

from collections.abc import Sequence

_SIGNATURES: Sequence[tuple[int, bytes, str]] = (
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"GIF8", "image/gif"),
    (8, b"WEBP", "image/webp"),
    (8, b"WAVE", "audio/wav"),
    (4, b"ftypqt  ", "video/quicktime"),
    (4, b"ftypM4V", "video/x-m4v"),
    (4, b"ftypavif", "image/avif"),
    (4, b"ftypheic", "image/heic"),
    (4, b"ftypmif1", "image/heif"),
    (4, b"ftyp", "video/mp4"),
    (0, b"\x1a\x45\xdf\xa3", "video/webm"),
    (0, b"%PDF-", "application/pdf"),
    (0, b"PK\x03\x04", "application/zip"),
    (0, b"\x1f\x8b\x08", "application/gzip"),
    (0, b"WEBVTT", "text/vtt"),
    (0, b"BM", "image/bmp"),
    (0, b"II*\x00", "image/tiff"),
    (0, b"MM\x00*", "image/tiff"),
    (0, b"ID3", "audio/mpeg"),
)


def mime_type(content: bytes, declared: str) -> str:
    """Detect the content type of bytes; the declared one if they are inconclusive."""
    for offset, signature, kind in _SIGNATURES:
        if content[offset : offset + len(signature)] == signature:
            return kind
    return declared or "application/octet-stream"
