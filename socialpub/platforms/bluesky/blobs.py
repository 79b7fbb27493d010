"""Uploads to the account's own server, which defines the size limit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from socialpub.base.errors import ApiError
from socialpub.platforms.bluesky.xrpc import LOOKUP_SECONDS, build_unusable_error, call, find_blob, find_server_origin
from socialpub.platforms.contract import Json, Upstream

_TOO_LARGE = ("bluesky.media.image_size_max", "bluesky.media.video_size_max")


def upload(up: Upstream, step: Literal["upload", "video"], headers: Mapping[str, str], **sent: Any) -> Json:
    """Upload a file; return the server's blob description, to use unchanged in the record."""
    nsid = "com.atproto.repo.uploadBlob"
    try:
        reply = call(up, step, "POST", find_server_origin(up), nsid, bearer=up.tokens.access, headers=headers, **sent)
    except ApiError as error:
        if error.rule in _TOO_LARGE:
            error.message = f"{error.message} {_describe_limit(up)}".strip()
        raise
    blob = find_blob(reply.record())
    if blob is None:
        raise build_unusable_error(up, step, reply)
    return blob


def _describe_limit(up: Upstream) -> str:
    """Return the server's upload limit as a sentence; empty if not given."""
    try:
        reply = call(
            up, "profile", "GET", find_server_origin(up), "com.atproto.server.describeServer", timeout=LOOKUP_SECONDS
        )
    except ApiError:
        return ""
    limit = reply.record().get("blobUploadLimit")
    return f"The account's server takes files of at most {limit:,} bytes." if isinstance(limit, int) else ""
