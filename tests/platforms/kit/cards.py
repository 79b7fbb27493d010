"""A page on the other end of a link, as `linkcard.fetch` downloads it."""

from __future__ import annotations

from socialpub.base.errors import ApiError
from socialpub.base.http import UnreadReason, UpstreamResponse
from tests.platforms.upstream_kit import Download, Script

URL = "https://example.com/a"
PAGE_BYTES = 1024 * 1024


def page(
    content: bytes | str,
    reply: UpstreamResponse | ApiError | None = None,
    content_type: str = "text/html",
    unread: UnreadReason | None = None,
    at: str = "",
) -> Script:
    """A client that downloads this page, once; `at`: where redirects led."""
    raw = content if isinstance(content, bytes) else content.encode()
    found = reply or UpstreamResponse(200, {"content-type": content_type}, b"", unread=unread)
    return Script([Download(URL, found, raw, PAGE_BYTES, 3.0, whole=False, at=at)])
