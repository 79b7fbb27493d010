"""Thumbnails of stored images, made when they are first shown and kept beside the files.

Backups do not hold them. An empty file says that an image has none, so that it is not decoded at each view.
"""

from __future__ import annotations

from socialpub.domain.context.app_context import AppContext
from socialpub.domain.media import files, probe
from socialpub.domain.media.files import THUMBNAIL_EDGES
from socialpub.store.rows import MediaRow


def build_path(media_id: str, edge: int = THUMBNAIL_EDGES[0]) -> str:
    """Return the path of a thumbnail on this server, for the members of its organization."""
    return f"/library/{media_id}/thumbnail/{edge}"


def parse_edge(text: str) -> int | None:
    """Return the size that a path names, or None if there is no such thumbnail."""
    return next((edge for edge in THUMBNAIL_EDGES if str(edge) == text), None)


def build_tag(row: MediaRow, edge: int) -> str:
    """Return the ETag of a thumbnail: the same bytes always give the same one."""
    return f'"{row["sha256"][:32]}-{edge}"'


def load(service: AppContext, row: MediaRow, edge: int) -> bytes | None:
    """Return a thumbnail, WebP, or None for a file that has none. Blocks while it is made.

    Raises ApiError `internal_error`, `storage.unavailable`.
    """
    path = files.thumbnail_path(service, row["sha256"], edge)
    try:
        return path.read_bytes() or None
    except FileNotFoundError:
        return _make(service, row).get(edge) or None


def _make(service: AppContext, row: MediaRow) -> dict[int, bytes]:
    """Make all thumbnails of a file and store them; empty ones where it has none.

    Nothing if the machine is too busy: the next view makes them.
    """
    try:
        made = probe.make_thumbnails(
            files.file_path(service, row["sha256"]), THUMBNAIL_EDGES, row["organization"]
        ) or dict.fromkeys(THUMBNAIL_EDGES, b"")
    except (FileNotFoundError, probe.UnfinishedError):
        return {}
    files.save_thumbnails(service, row["sha256"], made)
    return made
