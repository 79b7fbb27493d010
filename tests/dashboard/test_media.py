"""Media page: list of files, their texts, and deletion."""

from __future__ import annotations

import html
import re

import pytest

from tests.support.app_server import ApiClient
from tests.support.connect_flow import sign_in
from tests.support.dashboard_forms import HTML, XSS, follow_notice, send_form
from tests.support.media_uploads import JPEG, stored_media
from tests.support.request_cast import RequestCast


@pytest.fixture
def browser(world: RequestCast) -> ApiClient:
    return sign_in(world.server, world.alice.organization)


def shown(browser: ApiClient, path: str = "/media") -> list[str]:
    answer = browser.get(path, headers=HTML)
    assert answer.status_code == 200
    return re.findall(r"<code>(med_[0-9A-Za-z]+)</code>", answer.text)


def test_files_are_shown_newest_first_and_paged(world: RequestCast, browser: ApiClient) -> None:
    assert "No files yet" in browser.get("/media", headers=HTML).text
    files = [stored_media(world.alice.api, JPEG + bytes(number))["id"] for number in range(1, 27)]
    first = shown(browser)
    older = re.search(r'href="([^"]*)" rel="next"', browser.get("/media", headers=HTML).text)
    assert older
    assert first + shown(browser, html.unescape(older[1])) == files[::-1]
    assert len(first) == 24


def test_a_picture_is_seen_and_what_is_said_of_it_stays_words(world: RequestCast, browser: ApiClient) -> None:
    made = stored_media(world.alice.api, altText=XSS)
    text = browser.get("/media", headers=HTML).text
    (source,) = re.findall(r'<img src="([^"]*)"', text)
    assert browser.get(html.unescape(source)).content[:2] == b"\xff\xd8"
    assert "&lt;script&gt;" in text
    assert text.count("<img") == 1
    assert "&lt;img" in browser.get(f"/library/{made['id']}/delete", headers=HTML).text


def test_a_file_is_deleted_after_being_asked_unless_a_post_needs_it(world: RequestCast, browser: ApiClient) -> None:
    free, needed = stored_media(world.alice.api)["id"], stored_media(world.alice.api, JPEG + b"2")["id"]
    world.scheduled(media=[needed])
    assert "Delete this file?" in browser.get(f"/library/{free}/delete", headers=HTML).text
    assert send_form(browser, f"/library/{free}/delete").headers["Location"] == "/media"
    refused = follow_notice(browser, send_form(browser, f"/library/{needed}/delete"))
    assert 'class="notice bad"' in refused
    assert shown(browser) == [needed]


def test_others_see_nothing_of_it(world: RequestCast, browser: ApiClient) -> None:
    made = stored_media(world.alice.api)["id"]
    other = sign_in(world.server, world.charlie.organization, name="charlie")
    assert shown(other) == []
    assert other.get(f"/library/{made}/delete", headers=HTML).status_code == 404
    assert send_form(other, f"/library/{made}/delete").status_code == 404
    assert browser.post(f"/library/{made}/delete", data={"csrf_token": "wrong"}, headers=HTML).status_code == 403
    assert shown(browser) == [made]
