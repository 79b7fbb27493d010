"""Web page behind a link, in the form that `linkcard.fetch` downloads."""

from __future__ import annotations

from socialpub.base.errors import ApiError
from socialpub.base.http import UnreadReason, UpstreamResponse
from tests.support.platforms.scripted_upstream import ExpectedDownload, ScriptedTransport

URL = "https://example.com/a"
PAGE_BYTES = 1024 * 1024


def page(
    content: bytes | str,
    reply: UpstreamResponse | ApiError | None = None,
    content_type: str = "text/html",
    unread: UnreadReason | None = None,
    at: str = "",
) -> ScriptedTransport:
    """A client that downloads this page, once; `at`: where redirects led."""
    raw = content if isinstance(content, bytes) else content.encode()
    found = reply or UpstreamResponse(200, {"content-type": content_type}, b"", unread=unread)
    return ScriptedTransport([ExpectedDownload(URL, found, raw, PAGE_BYTES, 3.0, whole=False, at=at)])


HOSTILE_HTML = [
    *("<", "<!--", "<![", "<a ", "<meta ", "</", "<?", "&", "&#", "<title>", "<title>x</title>", "<script></scrip"),
    *('<meta charset="', "<meta charset=x>", "<meta property=og:title content=", "<a b=c ", "='", "<svg>", "</svg>"),
    *("<!--><!--", "<p>", "<table>", "<textarea>", "<script><!--<script ", "<?xml ", "<!doctype ", "&amp;", "\0", "é"),
]


HOSTILE_XML = ["<script", "<script ", "<script/>", "<title/", '<?xml encoding="']
