"""Media page: list of files, their texts, and deletion."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Callable

import httpx
import pytest
from PIL import Image

from socialpub import platforms
from socialpub.domain.media import files, library
from socialpub.web.dashboard import media
from tests.support.app_server import ApiClient, AppServer
from tests.support.connect_flow import sign_in
from tests.support.dashboard_forms import HTML, XSS, follow_notice, send_form
from tests.support.media_files import mp4, picture
from tests.support.media_uploads import BUSY, JPEG, busy_machine, stored_files, stored_media, wait_until
from tests.support.post_drafts import new_draft
from tests.support.request_cast import RequestCast


def shown(browser: ApiClient, path: str = "/media") -> list[str]:
    answer = browser.get(path, headers=HTML)
    assert answer.status_code == 200
    return re.findall(r'<a href="/library/(med_[0-9A-Za-z]+)">', answer.text)


@pytest.mark.slow
def test_files_are_shown_newest_first_and_paged(
    world: RequestCast, browser: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(media, "PAGE_SIZE", 2)
    assert "No files yet" in browser.get("/media", headers=HTML).text
    files = [stored_media(world.alice.api, JPEG + bytes(number))["id"] for number in range(1, 5)]
    first = shown(browser)
    older = re.search(r'href="([^"]*)" rel="next"', browser.get("/media", headers=HTML).text)
    assert older
    assert first + shown(browser, html.unescape(older[1])) == files[::-1]
    assert len(first) == 2


def test_a_picture_is_seen_and_what_is_said_of_it_stays_words(world: RequestCast, browser: ApiClient) -> None:
    made = stored_media(world.alice.api, altText=XSS)
    text = browser.get("/media", headers=HTML).text
    (source,) = re.findall(r'<img class="picture" src="([^"]*)"', text)
    assert browser.get(html.unescape(source)).headers["Content-Type"] == "image/webp"
    assert "&lt;script&gt;" in text
    assert text.count("<img") == 1
    assert "&lt;img" in browser.get(f"/library/{made['id']}/delete", headers=HTML).text


def test_the_description_of_a_file_is_edited_in_place(world: RequestCast, browser: ApiClient) -> None:
    made = stored_media(world.alice.api)["id"]
    page = f"/library/{made}"
    saved = follow_notice(browser, send_form(browser, f"{page}/describe", altText=" Two\r\nloaves"))
    assert "Description saved." in saved
    assert world.alice.api.get(f"/v1/media/{made}").json()["altText"] == " Two\nloaves"
    assert " Two\nloaves</textarea>" in browser.get(page, headers=HTML).text
    world.alice.api.publish(world.body(media=[made], scheduledAt="2098-01-01T10:00:00Z"))
    assert f"{page}/describe" not in browser.get(page, headers=HTML).text


def test_a_document_is_drawn_and_refused_by_all_platforms_but_one(world: RequestCast, browser: ApiClient) -> None:
    made = stored_media(world.alice.api, b"%PDF-1.7 text")
    text = browser.get("/media", headers=HTML).text
    assert text.count("icons.svg#document") == 1
    assert "PDF," in text
    page = browser.get(f"/library/{made['id']}", headers=HTML).text
    assert "<h1>Document</h1>" in page
    refusing = set(re.findall(r"/docs/rules/(\w+)\.media\.document_unsupported", page))
    assert refusing == set(platforms.PLATFORMS) - {"linkedin"}


def test_a_file_is_deleted_after_being_asked_unless_a_post_needs_it(world: RequestCast, browser: ApiClient) -> None:
    free, needed = stored_media(world.alice.api)["id"], stored_media(world.alice.api, JPEG + b"2")["id"]
    world.scheduled(media=[needed])
    assert "Delete this file?" in browser.get(f"/library/{free}/delete", headers=HTML).text
    assert send_form(browser, f"/library/{free}/delete").headers["Location"] == "/media"
    refused = follow_notice(browser, send_form(browser, f"/library/{needed}/delete"))
    assert 'class="notice bad"' in refused
    assert shown(browser) == [needed]


def upload(browser: ApiClient, *contents: bytes) -> str:
    """The page after the form with these files was sent."""
    answer = send_files(browser, *((f"{number}.bin", data) for number, data in enumerate(contents)))
    return follow_notice(browser, answer) if answer.status_code == 303 else answer.text


def send_files(browser: ApiClient, *named: tuple[str, bytes]) -> httpx.Response:
    fields = {"csrf_token": browser.headers["X-CSRF-Token"], "page": "/media"}
    return browser.post("/media", data=fields, files=[("file", (*each, "")) for each in named], headers=HTML)


def test_each_of_many_refused_files_is_named(world: RequestCast, browser: ApiClient) -> None:
    names = [f"{number} {'صورة ' * 20}" for number in range(19)]
    answer = send_files(browser, *((name, b"%!PS-3.0 no picture") for name in names), ("good.png", picture()))
    assert (answer.status_code, "1 file stored. 19 were refused:" in answer.text) == (200, True)
    assert [name for name in names if name.strip() not in answer.text] == []
    assert answer.text.count("The file is not a JPEG,") == 19
    none = send_files(browser, ("bad.png", b"%!PS-3.0 no picture"))
    assert (none.status_code, "<h1>No file was stored</h1>\n<p>1 file was refused:" in none.text) == (400, True)


@pytest.mark.slow
def test_many_files_are_stored_at_once_and_each_refusal_is_said(world: RequestCast, browser: ApiClient) -> None:
    wide, tall = picture(size=(300, 100)), picture(size=(100, 300))
    page = upload(browser, wide, b"%!PS-3.0 no picture" * 20, tall, b"%!PS-3.0 nor this" * 20)
    assert "2 files stored. 2 were refused:" in page
    assert ("1.bin" in page, "3.bin" in page, "0.bin" in page) == (True, True, False)
    assert len(shown(browser)) == 2
    assert "1 file stored." in upload(browser, wide)  # it is there already, and is not stored twice
    assert len(shown(browser)) == 2
    assert len(stored_files(world.server)) == 2
    too_many = [("file", ("a", wide, ""))] * 21
    fields = {"csrf_token": "wrong", "page": "/media"}
    refused = browser.post("/media", data=fields, files=too_many, headers=HTML)
    assert (refused.status_code, "Up to 20 files can be uploaded at once." in refused.text) == (400, True)
    strange = browser.post("/media", data={"csrf_token": "wrong"}, files={"file": ("a", wide, "")}, headers=HTML)
    assert strange.status_code == 403
    assert len(stored_files(world.server)) == 2


def test_a_file_is_found_by_its_description(world: RequestCast, browser: ApiClient) -> None:
    door = stored_media(world.alice.api, altText="A door, 100% open")["id"]
    stored_media(world.alice.api, JPEG + b"2", altText="A loaf")
    assert shown(browser, "/media?q=door") == [door]
    assert shown(browser, "/media?q=100%25+o") == [door]
    assert "No files match" in browser.get("/media?q=%25%25", headers=HTML).text


@pytest.mark.slow
def test_a_search_reads_so_many_files_and_goes_on_from_there(
    world: RequestCast, browser: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [
        stored_media(world.alice.api, JPEG + bytes(number), altText=f"door {number}")["id"] for number in range(1, 6)
    ]
    monkeypatch.setattr(library, "SEARCHED_MAX", 2)
    seen, path = list[str](), "/media?q=door+1"
    for says in ("No match so far", "No match so far", ""):
        page = browser.get(path, headers=HTML).text
        assert says in page
        seen += shown(browser, path)
        older = re.search(r'href="(/media[^"]*cursor[^"]*)"', page)
        path = html.unescape(older[1]) if older else ""
    assert (seen, path) == ([made[0]], "")
    page = browser.get("/media?q=door", headers=HTML).text
    assert shown(browser, "/media?q=door") == made[:2:-1]
    assert 'rel="next"' in page


def test_a_file_says_who_needs_it_and_who_refuses_it(world: RequestCast, browser: ApiClient) -> None:
    small, flat = stored_media(world.alice.api)["id"], stored_media(world.alice.api, picture(size=(1000, 100)))["id"]
    post = world.scheduled(media=[{"kind": "image", "mediaId": small}])
    page = browser.get(f"/library/{small}", headers=HTML).text
    assert f'href="/posts/{post}"' in page
    page = browser.get(f"/library/{flat}", headers=HTML).text
    assert "no scheduled post, no draft" in page
    assert "/docs/rules/instagram.media.aspect_ratio" in page
    assert "/docs/rules/bluesky" not in page


def test_others_see_nothing_of_it(world: RequestCast, browser: ApiClient) -> None:
    made = stored_media(world.alice.api)["id"]
    other = sign_in(world.server, world.charlie.organization, name="charlie")
    assert shown(other) == []
    assert other.get(f"/library/{made}/delete", headers=HTML).status_code == 404
    assert send_form(other, f"/library/{made}/delete").status_code == 404
    assert browser.post(f"/library/{made}/delete", data={"csrf_token": "wrong"}, headers=HTML).status_code == 403
    assert shown(browser) == [made]


@pytest.mark.slow
def test_a_thumbnail_is_made_once_and_deleted_with_its_file(world: RequestCast, browser: ApiClient) -> None:
    made = stored_media(world.alice.api, picture(size=(1200, 800)))
    small, large = (f"/library/{made['id']}/thumbnail/{edge}" for edge in (320, 960))
    answer = browser.get(small)
    assert (answer.status_code, answer.headers["Cache-Control"]) == (200, "private, max-age=86400")
    assert Image.open(io.BytesIO(answer.content), formats=["WEBP"]).size == (320, 213)
    kept = [name for name in stored_files(world.server) if name != made["sha256"]]
    assert kept == [f"{made['sha256']}-320", f"{made['sha256']}-960"]
    assert browser.get(small, headers={"If-None-Match": answer.headers["ETag"]}).status_code == 304
    assert browser.get(large).headers["ETag"] != answer.headers["ETag"]
    assert browser.get(f"/library/{made['id']}/thumbnail/5000").status_code == 404
    send_form(browser, f"/library/{made['id']}/delete")
    assert browser.get(small).status_code == 404
    wait_until(lambda: stored_files(world.server) == [])


def test_a_thumbnail_is_for_the_organization_alone(world: RequestCast, browser: ApiClient) -> None:
    path = f"/library/{stored_media(world.alice.api)['id']}/thumbnail/320"
    other = sign_in(world.server, world.charlie.organization, name="charlie")
    assert other.get(path).status_code == 404
    for stranger in (world.server.api(), world.alice.api):  # a key opens no pages
        assert stranger.get(path, headers=HTML).headers["Location"].startswith("/login")


def test_a_file_without_a_thumbnail_has_a_drawing(world: RequestCast, browser: ApiClient) -> None:
    made = stored_media(world.alice.api, mp4())
    assert "#video" in browser.get("/media", headers=HTML).text
    for _ in range(2):  # made, and remembered
        answer = browser.get(f"/library/{made['id']}/thumbnail/320")
        assert (answer.status_code, answer.headers["Location"]) == (303, "/static/picture.svg")
    assert browser.get("/static/picture.svg").headers["Content-Type"].startswith("image/svg+xml")


@pytest.mark.parametrize("how", BUSY)
def test_a_thumbnail_is_made_later_if_the_machine_was_busy(world: RequestCast, browser: ApiClient, how: str) -> None:
    """A drawing was shown for ever after."""
    made = stored_media(world.alice.api, picture(size=(640, 480 + BUSY.index(how))))
    path = f"/library/{made['id']}/thumbnail/320"
    with busy_machine(how):
        assert browser.get(path).headers["Location"] == "/static/picture.svg"
    answer = browser.get(path)
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "image/webp")


def test_clean_up_removes_thumbnails_whose_file_is_gone(world: RequestCast, browser: ApiClient) -> None:
    made = stored_media(world.alice.api)
    browser.get(f"/library/{made['id']}/thumbnail/320")
    media = world.server.home / "media"
    (media / made["sha256"][:2] / made["sha256"]).unlink()
    assert files.clean_up(world.server.service) == 2
    assert stored_files(world.server) == []


# --- Unused files ----------------------------------------------------------------------------------------------------


def _wait_two_days(world: RequestCast) -> ApiClient:
    """Alice, who signs in again."""
    world.server.clock.skip(2 * 24 * 3600)
    return sign_in(world.server, world.alice.organization, name="later")


def test_unused_files_are_deleted_in_one_act(world: RequestCast, browser: ApiClient) -> None:
    api = world.alice.api
    needed, drafted, spare = (stored_media(api, JPEG + bytes(number))["id"] for number in (1, 2, 3))
    linked, drafted_link, proxied = (stored_media(api, JPEG + bytes(number)) for number in (4, 5, 6))
    theirs = stored_media(world.charlie.api)["id"]
    world.scheduled(media=[{"kind": "image", "mediaId": needed}], scheduledAt="2098-01-01T00:00:00Z")
    new_draft(api, text="x", media=[{"kind": "image", "mediaId": drafted}])
    world.scheduled(media=[{"kind": "image", "url": linked["url"]}], scheduledAt="2098-01-01T00:00:00Z")
    new_draft(api, text="x", media=[{"kind": "image", "url": drafted_link["url"]}])
    through = f"https://example.org/med_fit?url={proxied['url']}"  # what begins like an id comes first
    world.scheduled(media=[{"kind": "image", "url": through}], scheduledAt="2098-01-01T00:00:00Z")
    assert "No unused files" in browser.get("/media/unused", headers=HTML).text  # all of them are new
    browser = _wait_two_days(world)
    assert 'href="/media/unused"' in browser.get("/media", headers=HTML).text
    assert "Delete 1 unused file?" in browser.get("/media/unused", headers=HTML).text
    assert "1 file deleted." in follow_notice(browser, send_form(browser, "/media/unused", profile=""))
    assert set(shown(browser)) == {needed, drafted, linked["id"], drafted_link["id"], proxied["id"]}
    assert api.get(f"/v1/media/{spare}").status_code == 404
    assert world.charlie.api.get(f"/v1/media/{theirs}").status_code == 200
    assert "0 files deleted." in follow_notice(browser, send_form(browser, "/media/unused", profile=""))


@pytest.mark.slow
def test_unused_files_of_a_profile_are_deleted_so_many_at_once(
    world: RequestCast, browser: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = world.alice.api
    mine = [stored_media(api, JPEG + bytes(number), profileId=world.alice.profile)["id"] for number in (1, 2, 3)]
    everyones = stored_media(api, JPEG + bytes(9))["id"]
    browser = _wait_two_days(world)
    assert send_form(browser, "/media/unused", profile=world.charlie.profile).status_code == 404
    monkeypatch.setattr(library, "UNUSED_MAX", 2)
    done = follow_notice(browser, send_form(browser, "/media/unused", profile=world.alice.profile))
    assert "2 files deleted. There may be more." in done
    assert set(shown(browser)) == {mine[2], everyones}
    assert "1 file deleted." in follow_notice(browser, send_form(browser, "/media/unused", profile=world.alice.profile))
    assert shown(browser) == [everyones]


# --- What was typed or chosen is not lost ----------------------------------------------------------------------------


def test_a_description_that_a_starting_post_refuses_stays_in_the_form(world: RequestCast, browser: ApiClient) -> None:
    made = stored_media(world.alice.api, altText="A door")["id"]
    page = f"/library/{made}"
    world.scheduled(media=[made])  # after the form was loaded
    refused = send_form(browser, f"{page}/describe", altText="A red door", page=page)
    assert (refused.status_code, "Not saved: a post that is not published yet uses this" in refused.text) == (409, True)
    assert "\nA red door</textarea>" in refused.text
    assert "A red door" not in browser.get(page, headers=HTML).text


def test_a_description_that_is_too_long_stays_in_the_form(world: RequestCast, browser: ApiClient) -> None:
    page, words = f"/library/{stored_media(world.alice.api)['id']}", "word " * 20_001
    refused = send_form(browser, f"{page}/describe", altText=words, page=page)
    assert (refused.status_code, f"{words}</textarea>" in refused.text) == (400, True)
    assert 'role="alert"' in refused.text


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ([("", b"")], "Choose a file first."),
        ([("a.png", bytes(2_000_000))], "The files are together larger than this server accepts in one upload. Choose"),
        (
            [(f"{number}.png", picture()) for number in range(21)],
            "Up to 20 files can be uploaded at once. Choose fewer.",
        ),
    ],
    ids=["none", "too large", "too many"],
)
def test_a_form_of_files_that_is_refused_says_why_on_its_page(
    make_server: Callable[..., AppServer], files: list[tuple[str, bytes]], said: str
) -> None:
    server = make_server(media={"max_bytes": 100_000})
    answer = send_files(sign_in(server, server.person("Alice").organization), *files)
    assert 'action="/media"' in answer.text
    (problem,) = re.findall(r'role="alert"[^>]*>([^<]*)<', answer.text)
    assert problem.startswith(said)
    assert stored_files(server) == []


def test_a_file_that_is_too_large_for_the_composer_leaves_the_text(make_server: Callable[..., AppServer]) -> None:
    server = make_server(media={"max_bytes": 1_500_000})
    browser = sign_in(server, server.connected_person("Alice").organization)
    fields = {"csrf_token": browser.headers["X-CSRF-Token"], "page": "/compose", "text": "Bread"}
    file = {"file": ("a.png", picture() + bytes(3_000_000), "")}
    answer = browser.post("/compose/media", data=fields, files=file, headers=HTML)
    assert (answer.status_code, "\nBread</textarea>" in answer.text) == (413, True)
    assert "The file is larger than this server accepts." in answer.text.partition('id="file-wrong"')[2]
    assert stored_files(server) == []
