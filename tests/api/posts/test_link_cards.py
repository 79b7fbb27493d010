"""Link cards, from the linked page to the record on the platform."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.app_server import AppServer, Person
from tests.support.file_server import FileServer
from tests.support.request_cast import make_picture

OG = '<meta property="og:title" content="Title"><meta property="og:description" content="Words">'
PAGES = {
    "beyond 1 MiB": (f"<head>{OG}</head>{'<p>words' * 200_000}".encode(), "Title"),
    "behind 700 KB of script": (f"<head><script>{'x=1;' * 175_000}</script>{OG}".encode(), "Title"),
    "in the body": (f"<title>Site</title></head><body>{OG}".encode(), "Title"),
    "in Shift_JIS": ('<meta charset=x-sjis><meta property=og:title content="㈱髙島屋①">'.encode("cp932"), "㈱髙島屋①"),
    "in latin-1 with quotation marks": (
        "<meta charset=latin1><title>It’s “new”</title>".encode("cp1252"),
        "It’s “new”",
    ),
}


def embedded(server: AppServer, person: Person, url: str) -> tuple[dict[str, Any], list[str]]:
    """The card of a published post, and the codes of its warnings."""
    answer = person.api.publish({"targets": [{"accountId": person.bluesky}], "text": f"see {url}"})
    result = answer.json()["results"][0]
    assert result["status"] == "published", answer.text
    record = server.lab.lab.ledger.posts()[-1].request["record"]
    return record.get("embed", {}).get("external", {}), [each["code"] for each in result.get("warnings", [])]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_its_card(server: AppServer, alice: Person, shelf: FileServer, name: str) -> None:
    content, title = PAGES[name]
    card, warnings = embedded(server, alice, shelf.put("/page", content))
    assert (card["title"], warnings) == (title, [])


def test_a_title_that_cannot_be_read_is_a_warning(server: AppServer, alice: Person, shelf: FileServer) -> None:
    card, warnings = embedded(server, alice, shelf.put("/page", "<meta charset=utf-8><title>Größe".encode("latin-1")))
    assert (card, warnings) == ({}, ["link_card_failed"])


def test_the_next_picture_is_tried_when_the_first_cannot_be_used(
    server: AppServer, alice: Person, shelf: FileServer
) -> None:
    shelf.put("/1.svg", b'<svg xmlns="http://www.w3.org/2000/svg"/>')
    shelf.put("/2.png", make_picture() + b"\0" * 1_000_000)
    shelf.put("/3.png", make_picture())
    pictures = "".join(f'<meta property="og:image" content="{path}">' for path in ("/1.svg", "/2.png", "/3.png"))
    card, warnings = embedded(server, alice, shelf.put("/page", f"{OG}{pictures}".encode()))
    assert card["thumb"]["mimeType"] == "image/png"
    assert warnings == []
    assert shelf.asked == ["/page", "/1.svg", "/2.png", "/3.png"]
