"""Uploads to the account's own server, which defines the size limit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from socialpub.base.errors import ApiError
from socialpub.platforms.bluesky.xrpc import LOOK_SECONDS, blob_of, call, home, unusable
from socialpub.platforms.contract import Json, Upstream

_TOO_LARGE = ("bluesky.media.image_size_max", "bluesky.media.video_size_max")


def upload(up: Upstream, step: Literal["upload", "video"], headers: Mapping[str, str], **sent: Any) -> Json:
    """Upload a file; return the server's blob description, to use unchanged in the record."""
    nsid = "com.atproto.repo.uploadBlob"
    try:
        reply = call(up, step, "POST", home(up), nsid, bearer=up.tokens.access, headers=headers, **sent)
    except ApiError as error:
        if error.rule in _TOO_LARGE:
            error.message = f"{error.message} {_cap(up)}".strip()
        raise
    blob = blob_of(reply.record())
    if blob is None:
        raise unusable(up, step, reply)
    return blob


def _cap(up: Upstream) -> str:
    """Return the server's upload limit as a sentence; empty if not given."""
    try:
        reply = call(up, "profile", "GET", home(up), "com.atproto.server.describeServer", timeout=LOOK_SECONDS)
    except ApiError:
        return ""
    limit = reply.record().get("blobUploadLimit")
    return f"The account's server takes files of at most {limit:,} bytes." if isinstance(limit, int) else ""
