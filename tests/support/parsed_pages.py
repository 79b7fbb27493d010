"""HTML pages parsed into links, ids and texts, and a crawler over them."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from urllib.parse import urldefrag

from socialpub import platforms
from tests.support.app_server import ApiClient

CONSOLES = {row.console.url for row in platforms.PLATFORMS.values() if row.console}  # links that lead elsewhere


BLOCK = re.compile(r"<pre[^>]*><code>(.*?)</code></pre>", re.DOTALL)
BROWSER = {"Accept": "text/html,application/xhtml+xml"}


class ParsedPage(HTMLParser):
    """What a page links to, which ids it has, its tags with attributes, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text, self.source = "", text
        self.size = len(text.encode())
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.append((tag, found))
        self.links += [value for value in (found.get("href"), found.get("src")) if value]
        self.ids += [found["id"]] if found.get("id") else []  # type: ignore[list-item]

    def handle_data(self, data: str) -> None:
        self.text += data


def read_code_blocks(page: str) -> list[str]:
    """Return the code blocks of a page as a reader copies them."""
    return [html.unescape(block).strip("\n") for block in BLOCK.findall(page)]


def crawl_pages(api: ApiClient) -> Iterator[tuple[str, ParsedPage]]:
    """Every page that can be reached from /docs; whatever is linked answers 200."""
    waiting, seen = ["/docs"], set[str]()
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        response = api.get(path, headers=BROWSER)
        assert response.status_code == 200, path
        if response.headers["Content-Type"].startswith("text/html"):
            page = ParsedPage(response.text)
            yield path, page
            here = set(page.links) - CONSOLES
            waiting += [urldefrag(link)[0] for link in here if not link.startswith("#") and link != "/"]
