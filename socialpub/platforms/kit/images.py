"""Removal of image metadata that was not meant for publication; pixels stay unchanged.

Only what changes the appearance is kept: color profile, transparency, animation, and the orientation, which is
rewritten where it matters. `base.image_formats` reads and writes the files, for the media probe too.
"""

from __future__ import annotations

from dataclasses import dataclass

from socialpub.base import image_formats
from socialpub.base.errors import ApiError, Outcome
from socialpub.base.image_formats import ImageError, PartRole

_TYPES = ("image/jpeg", "image/png", "image/webp", "image/gif")
_KEPT = (PartRole.PIXELS, PartRole.LOOK)


@dataclass(frozen=True)
class CleanImage:
    """Image bytes without metadata, and the EXIF orientation (1: as stored)."""

    data: bytes
    orientation: int = 1


def remove_metadata(data: bytes, content_type: str) -> CleanImage:
    """Remove EXIF, XMP, IPTC, comments and trailing data; other formats stay unchanged.

    Raises `media.unreadable` for a file that cannot be parsed: unknown content is not published.
    """
    if content_type not in _TYPES:
        return CleanImage(data)
    try:
        layout = image_formats.read(data, content_type)
    except ImageError as error:
        raise ApiError(
            "preflight_failed",
            f"The image's metadata cannot be removed: the file is damaged. {error}",
            rule="media.unreadable",
            remediation="Save the image again with an image editor.",
            outcome=Outcome.REJECTED,
        ) from error
    return CleanImage(image_formats.write(data, layout, _KEPT, layout.orientation), layout.orientation)
