"""Media URLs: accepted addresses, and errors that name the content received."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.app_server import AppServer, Person
from tests.support.file_server import FileServer, publish_media, url_item
from tests.support.media_files import mp4, picture

PAGE = b"<!DOCTYPE html><html><head><title>Photos</title></head><body>Hello</body></html>"
FORM = b"<html><body><form><input name=u><input type='password' name=p></form></body></html>"
JSON = b'{"error": {"code": 404, "message": "not found"}}'
XML = b"<?xml version='1.0'?><Error><Code>NoSuchKey</Code></Error>"
SVG = b"<svg xmlns='http://www.w3.org/2000/svg'/>"
HTML_TYPE = {"Content-Type": "text/html; charset=utf-8"}

INSTEAD: dict[str, tuple[bytes, dict[str, str], str]] = {
    "a page": (PAGE, HTML_TYPE, "a web page (text/html)"),
    "a page without a type": (PAGE, {}, "a web page"),
    "a page labelled as an image": (PAGE, {"Content-Type": "image/jpeg"}, "a web page (image/jpeg)"),
    "a page after a byte order mark": (b"\xef\xbb\xbf\r\n " + PAGE, HTML_TYPE, "a web page (text/html)"),
    "a page after a comment": (b"<!-- saved -->\n" + PAGE, HTML_TYPE, "a web page (text/html)"),
    "words labelled as a page": (b"Not here.", HTML_TYPE, "a web page (text/html)"),
    "a form for a password": (FORM, HTML_TYPE, "a sign-in page (text/html)"),
    "JSON": (JSON, {"Content-Type": "application/json"}, "JSON (application/json)"),
    "JSON without a type": (JSON, {}, "JSON"),
    "problem details": (JSON[:-3], {"Content-Type": "application/problem+json"}, "JSON (application/problem+json)"),
    "XML": (XML, {"Content-Type": "application/xml"}, "an XML document (application/xml)"),
    "SVG": (SVG, {"Content-Type": "image/svg+xml"}, "an SVG drawing (image/svg+xml)"),
    "words": (b"Not here.", {"Content-Type": "text/plain"}, "text (text/plain)"),
    "nothing": (b"", HTML_TYPE, "nothing (0 bytes)"),
    "another kind of picture": (
        b"\0\0\0\x18ftypheic\0\0\0\0heicmif1",
        {"Content-Type": "image/heic"},
        "a file of another type (image/heic)",
    ),
    "a type that is none": (bytes(99), {"Content-Type": "<b>bad</b>"}, "a file of another type"),
}


def validate(person: Person, *media: Any) -> dict[str, Any]:
    body = {"targets": [{"accountId": person.bluesky}], "text": "Look.", "media": list(media)}
    answer = person.api.post("/v1/posts/validate", json=body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["results"][0])


@pytest.mark.matrix
@pytest.mark.parametrize("name", INSTEAD)
def test_what_is_no_media_file_is_named_when_validating_and_publishing(
    alice: Person, shelf: FileServer, name: str
) -> None:
    data, headers, words = INSTEAD[name]
    url = shelf.put("/photos/x.jpg", data, headers=headers) + "?token=secret-of-the-address"
    shelf.files["/photos/x.jpg?token=secret-of-the-address"] = shelf.files["/photos/x.jpg"]
    (before,) = validate(alice, url_item(url))["errors"]
    (result,) = publish_media(alice, url_item(url))
    for error in (before, result["error"]):
        assert error["rule"] == "bluesky.media.mime_allowed"
        assert f"Media item 1: …/x.jpg answered with {words}, not an image, video or document" in error["message"]
        assert error["remediation"].startswith("Use the address of the file itself")
        assert "secret-of-the-address" not in error["message"]
    assert result["status"] == "rejected"


@pytest.mark.parametrize(
    "path", ["/login", "/users/sign_in?back=x", "/sso/start", "/oauth2/authorize", "/Account/LogOn"]
)
def test_a_redirect_to_a_sign_in_is_named(alice: Person, shelf: FileServer, path: str) -> None:
    shelf.put(path, PAGE, headers=HTML_TYPE)
    (error,) = validate(alice, url_item(shelf.put("/x.jpg", b"", 302, {"Location": path})))["errors"]
    assert "…/x.jpg answered with a sign-in page (text/html)" in error["message"]


def test_a_redirect_to_a_page_is_no_sign_in(alice: Person, shelf: FileServer) -> None:
    shelf.put("/blogging/design", PAGE, headers=HTML_TYPE)
    (error,) = validate(alice, url_item(shelf.put("/x.jpg", b"", 302, {"Location": "/blogging/design"})))["errors"]
    assert "…/x.jpg answered with a web page (text/html)" in error["message"]


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (401, "It asks for a sign-in."),
        (403, "It refuses access."),
        (404, "There is nothing at this address."),
        (410, "There is nothing at this address any more."),
    ],
)
def test_a_status_says_what_it_means(alice: Person, shelf: FileServer, status: int, words: str) -> None:
    url = shelf.put("/x.jpg", PAGE, status, HTML_TYPE)
    (before,) = validate(alice, url_item(url))["errors"]
    (result,) = publish_media(alice, url_item(url))
    for error in (before, result["error"]):
        assert error["rule"] == "bluesky.media.reachable"
        assert f"The address answered with status {status}. {words}" in error["message"]


@pytest.mark.matrix
@pytest.mark.parametrize("label", ["text/html", "application/octet-stream", "text/plain", "image/png", "nonsense"])
def test_the_bytes_count_and_not_their_label(alice: Person, shelf: FileServer, label: str) -> None:
    url = shelf.put("/x", picture(), headers={"Content-Type": label})
    assert validate(alice, url_item(url))["valid"]
    (result,) = publish_media(alice, url_item(url))
    assert result["status"] == "published"


@pytest.mark.parametrize("before,after", [(" ", " "), ("\n", "\r\n"), ("\t", ""), ("\u00a0", "\u2003"), ("", "  ")])
def test_white_space_around_an_address_is_no_part_of_it(
    server: AppServer, alice: Person, shelf: FileServer, before: str, after: str
) -> None:
    url = shelf.put("/x.jpg", picture())
    (result,) = publish_media(alice, url_item(f"{before}{url}{after}"))
    assert result["status"] == "published"
    assert url in server.rows()[0]["media"]
    assert f'"{url}"' in server.rows()[0]["media"]


def test_an_address_of_white_space_is_refused(alice: Person) -> None:
    body = {"targets": [{"accountId": alice.bluesky}], "text": "x", "media": [url_item(" \n ")]}
    answer = alice.api.post("/v1/posts", json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["rule"].endswith(("url", "media.0.url"))


def test_what_a_cover_address_sends_is_named_too(server: AppServer, alice: Person, shelf: FileServer) -> None:
    account = server.connect(alice, "instagram", username="a")
    cover = shelf.put("/cover.jpg", PAGE, headers=HTML_TYPE)
    options = {"platform": "instagram", "coverUrl": f" {cover}\n"}
    body = {
        "targets": [{"accountId": account["id"], "options": options}],
        "text": "x",
        "media": [url_item(shelf.put("/v.mp4", mp4(1080, 1920, seconds=5)), "video")],
    }
    (result,) = alice.api.post("/v1/posts/validate", json=body).json()["results"]
    (error,) = [each for each in result["errors"] if each["rule"] == "instagram.cover_image.mime_allowed"]
    assert "…/cover.jpg answered with a web page (text/html)" in error["message"]


@pytest.mark.matrix
@pytest.mark.parametrize("kind", ["image", "video"])
@pytest.mark.parametrize("platform", "facebook instagram linkedin pinterest threads tiktok twitter".split())
def test_each_platform_names_what_an_address_sent(
    server: AppServer, alice: Person, shelf: FileServer, platform: str, kind: str
) -> None:
    account = server.connect(alice, platform, username="a")
    url = shelf.put("/x.jpg", PAGE, headers=HTML_TYPE)
    body = {"targets": [{"accountId": account["id"]}], "text": "Look.", "media": [url_item(url, kind)]}
    (result,) = alice.api.post("/v1/posts/validate", json=body).json()["results"]
    assert [each for each in result["errors"] if "…/x.jpg answered with a web page (text/html)" in each["message"]]
