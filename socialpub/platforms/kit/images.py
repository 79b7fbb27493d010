"""Images without what their makers did not mean to publish: metadata cut out of the file, pixels untouched.

Kept is only what changes how the picture looks: colour profile, transparency, animation, and the way up, which is
written anew where it matters. `base.image_formats` reads and writes the files, for the media probe too.
"""

from __future__ import annotations

from dataclasses import dataclass

from socialpub.base import image_formats
from socialpub.base.errors import ApiError, Outcome
from socialpub.base.image_formats import ImageError, Role
from socialpub.base.image_formats import sniff as sniffed

__all__ = ["Clean", "cleaned", "sniffed"]

_TYPES = ("image/jpeg", "image/png", "image/webp", "image/gif")
_KEPT = (Role.PIXELS, Role.LOOK)


@dataclass(frozen=True)
class Clean:
    """An image's bytes without metadata, and which way up it is shown (EXIF orientation, 1 is as stored)."""

    data: bytes
    orientation: int = 1


def cleaned(data: bytes, content_type: str) -> Clean:
    """The image without EXIF, XMP, IPTC, comments and trailing data; other formats stay as they are.

    Raises `media.unreadable` for a file that cannot be taken apart: what is not understood is not published.
    """
    if content_type not in _TYPES:
        return Clean(data)
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
    return Clean(image_formats.write(data, layout, _KEPT, layout.orientation), layout.orientation)
