"""Media of posts by URL, inline or stored, and deep checks of their content."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from socialpub.domain.media import batch_cache, files, probe
from socialpub.platforms.contract import MediaFacts
from socialpub.store.schema.models import Media
from tests.support.app_server import AppServer, Person, format_instant, unchanged
from tests.support.file_server import FileServer, publish_media, url_item
from tests.support.media_files import animation, mp4, picture, png
from tests.support.media_uploads import BUSY, busy_machine, wait_until
from tests.support.odd_responses import ODD_RESPONSES, OddServer


@pytest.mark.slow
def test_a_url_is_fetched_and_measured_once_a_batch(
    server: AppServer, alice: Person, shelf: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[str] = []
    real = probe.measure

    def counted(path: Path, sha256: str = "", owner: str = "") -> MediaFacts | None:
        measured.append(str(path))
        return real(path, sha256, owner)

    monkeypatch.setattr(probe, "measure", counted)
    url = shelf.put("/a.jpg", picture())
    results = publish_media(alice, url_item(url), targets=5)
    assert {result["status"] for result in results} == {"published"}
    assert (shelf.asked, len(measured)) == (["/a.jpg"], 1)
    publish_media(alice, url_item(url))
    assert shelf.asked == ["/a.jpg"] * 2


def test_a_settled_batch_leaves_no_fetched_files(server: AppServer, alice: Person, shelf: FileServer) -> None:
    publish_media(alice, url_item(shelf.put("/a.jpg", picture())))
    for batch in server.engine.fetched.list_batches():
        server.engine.fetched.drop(batch)
    assert [path for path in (server.home / "fetched").rglob("*") if path.is_file()] == []


@pytest.mark.matrix
@pytest.mark.parametrize("status", [301, 403, 404, 410, 500])
def test_a_url_that_answers_otherwise_than_2xx_is_not_reachable(
    server: AppServer, alice: Person, shelf: FileServer, status: int
) -> None:
    url = shelf.put("/a.jpg", picture(), status)
    results = publish_media(alice, url_item(url), targets=3)
    for result in results:
        assert (result["status"], result["error"]["rule"]) == ("rejected", "bluesky.media.reachable")
        assert result["error"]["code"] == "preflight_failed"
        assert result["error"]["platformResponse"] == {"status": status, "url": url}
        assert f"The address answered with status {status}." in result["error"]["message"]
    assert shelf.asked == ["/a.jpg"]


def test_a_url_that_nobody_answers_is_not_reachable(alice: Person) -> None:
    (result,) = publish_media(alice, url_item("http://127.0.0.1:9/a.jpg"))
    assert result["error"]["rule"] == "bluesky.media.reachable"


REFUSED = {
    "HTML": (b"<html>not found</html>", "image", "bluesky.media.mime_allowed"),
    "half a picture": (picture(size=(300, 300))[:2000], "image", "media.unreadable"),
    "too many pixels": (png(10_000, 5_001), "image", "media.pixels_max"),
    "too many bytes": (picture() + bytes(2_000_001), "image", "bluesky.media.image_size_max"),
    "a video": (mp4(), "image", "media.kind_mismatch"),
    "a picture": (picture(), "video", "media.kind_mismatch"),
    "a document": (b"%PDF-1.7\n", "image", "media.kind_mismatch"),
    "nothing": (b"", "image", "bluesky.media.mime_allowed"),
}


@pytest.mark.matrix
@pytest.mark.parametrize(
    "name,how",
    # Inline media of no bytes are refused at once, with media.base64_invalid.
    [(name, how) for name in REFUSED for how in ("url", "bytesBase64") if (name, how) != ("nothing", "bytesBase64")],
)
def test_deep_rules_say_no_at_publishing_time(alice: Person, shelf: FileServer, name: str, how: str) -> None:
    data, kind, rule = REFUSED[name]
    source = shelf.put("/x", data) if how == "url" else base64.b64encode(data).decode()
    (result,) = publish_media(alice, {"kind": kind, how: source})
    assert (result["status"], result["error"]["code"]) == ("rejected", "preflight_failed")
    assert result["error"]["rule"] == rule


def test_a_file_above_the_cap_is_not_fetched_to_its_end(
    make_server: Callable[..., AppServer], shelf: FileServer
) -> None:
    server = make_server(media={"max_bytes": 50_000})
    alice = server.connected_person("Alice")
    (result,) = publish_media(alice, url_item(shelf.put("/x", picture() + bytes(60_000))))
    assert result["error"]["rule"] == "media.size_max"


CUT = ("half of its length", "reset within the body", "silent within the body", "gzip cut short", "labelled br, plain")


@pytest.mark.matrix
@pytest.mark.parametrize("name", CUT)
def test_a_file_that_was_not_read_to_its_end_is_not_published(
    server: AppServer, alice: Person, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(batch_cache, "FETCH_SECONDS", 1.0 if name.startswith("silent") else 30.0)
    host = OddServer(lambda _: (200, {"Content-Type": "image/jpeg"}, picture(size=(300, 200))))
    (result,) = publish_media(alice, url_item(host.url(next(odd for odd in ODD_RESPONSES if odd.name == name))))
    host.close()
    assert result["status"] in ("failed", "rejected"), result
    assert "the file " in result["error"]["message"], result
    assert server.lab.lab.ledger.entries("bluesky") == []


def test_inline_media_are_kept_once_with_all_their_facts(server: AppServer, alice: Person) -> None:
    inline = {"kind": "image", "bytesBase64": base64.b64encode(animation(frames=4)).decode()}
    results = publish_media(alice, inline, targets=3)
    assert {result["status"] for result in results} == {"published"}
    (row,) = server.rows(Media)
    assert (row["content_type"], row["frames"], row["width"], row["height"]) == ("image/gif", 4, 20, 10)
    refs = {json.dumps(post["media"]) for post in server.rows()}
    assert refs == {json.dumps(json.dumps([{"kind": "image", "mediaId": row["id"]}]))}


def test_validating_by_url_and_inline_stores_nothing(server: AppServer, alice: Person, shelf: FileServer) -> None:
    inline = {"kind": "image", "bytesBase64": base64.b64encode(picture(size=(300, 300))[:2000]).decode()}
    body = {
        "targets": [{"accountId": alice.bluesky}] * 2,
        "text": "x",
        "media": [url_item(shelf.put("/a.jpg", picture())), inline],
    }
    with unchanged(server):
        answer = alice.api.post("/v1/posts/validate", json=body).json()
    assert [[error["rule"] for error in result["errors"]] for result in answer["results"]] == [["media.unreadable"]] * 2
    assert shelf.asked == ["/a.jpg"]


def test_a_scheduled_post_is_warned_of_what_its_stored_media_will_break(server: AppServer, alice: Person) -> None:
    file = alice.api.post("/v1/media", files={"file": ("a", picture() + bytes(2_000_001))}).json()["id"]
    (result,) = publish_media(alice, file, scheduledAt=format_instant(server.clock.now_ms() + 3_600_000))
    assert [note["code"] for note in result["warnings"]] == ["bluesky.media.image_size_max"]


def test_a_fetch_that_outlasts_its_validation_leaves_nothing(
    make_server: Callable[..., AppServer], shelf: FileServer
) -> None:
    server = make_server(publishing={"immediate_wait": 0.2})
    alice = server.connected_person("Alice")
    shelf.open.clear()  # it holds its answers
    media = [url_item(shelf.put(f"/{number}.jpg", picture())) for number in range(3)]
    body = {"targets": [{"accountId": alice.bluesky}], "text": "x", "media": media}
    answer = alice.api.post("/v1/posts/validate", json=body).json()
    assert [note["code"] for note in answer["results"][0]["warnings"]] == ["media_unmeasured"]
    shelf.open.set()
    fetched = server.home / "fetched"
    wait_until(lambda: len(shelf.asked) == 3 and list(fetched.iterdir()) == [])
    assert server.engine.fetched._entries == {}


@pytest.mark.parametrize("how", ["publish", "validate"])
def test_a_fetch_stops_where_it_would_fill_the_disk(
    server: AppServer, alice: Person, shelf: FileServer, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Its beginning finds room; by the time of the second look it is gone."""
    free = iter([10**12])
    usage = shutil.disk_usage(server.home)
    monkeypatch.setattr(files, "RESERVE_CHECK_BYTES", 100_000)
    monkeypatch.setattr(files.shutil, "disk_usage", lambda folder: usage._replace(free=next(free, 0)))
    body = {
        "targets": [{"accountId": alice.bluesky}],
        "text": "Look.",
        "media": [url_item(shelf.put("/large.jpg", picture() + bytes(1_000_000)))],
    }
    if how == "publish":
        (result,) = alice.api.publish(body).json()["results"]
        error = result["error"]
    else:
        (result,) = alice.api.post("/v1/posts/validate", json=body).json()["results"]
        (error,) = result["errors"]
    assert (error["code"], error["rule"]) == ("internal_error", "storage.unavailable")
    assert [path for path in (server.home / "fetched").rglob("*") if path.is_file()] == []


def test_a_scheduled_post_waits_until_its_files_find_room(
    server: AppServer,
    alice: Person,
    shelf: FileServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    item, at = url_item(shelf.put("/a.jpg", picture())), format_instant(server.clock.now_ms() + 60_000)
    body = {"targets": [{"accountId": alice.bluesky}], "text": "x", "media": [item], "scheduledAt": at}
    post = alice.api.publish(body).json()["results"][0]["postId"]
    usage = shutil.disk_usage(server.home)
    with monkeypatch.context() as full:
        full.setattr(files.shutil, "disk_usage", lambda folder: usage._replace(free=0))
        server.skip(61)
        wait_until(lambda: any("this run cannot continue now" in line for line in caplog.messages))
    assert server.events(post)[-1][0] != "post.failed"
    server.skip(61)  # the lease runs out
    server.wait(post, "published")
    assert len(server.lab.lab.ledger.posts()) == 1


@pytest.mark.parametrize("how", BUSY)
def test_a_scheduled_post_waits_while_the_machine_cannot_read_its_file(
    server: AppServer, alice: Person, shelf: FileServer, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    """It was rejected for good, as if the file were damaged."""
    item = url_item(shelf.put("/a.jpg", picture(size=(70 + BUSY.index(how), 48))))
    at = format_instant(server.clock.now_ms() + 60_000)
    body = {"targets": [{"accountId": alice.bluesky}], "text": "x", "media": [item], "scheduledAt": at}
    post = alice.api.publish(body).json()["results"][0]["postId"]
    with busy_machine(how):
        server.skip(61)
        wait_until(lambda: any("this run cannot continue now" in line for line in caplog.messages))
    assert server.events(post)[-1][0] not in ("post.failed", "post.rejected")
    server.skip(61)  # the lease runs out
    server.wait(post, "published")
    assert len(server.lab.lab.ledger.posts()) == 1


# --- Images that options name ----------------------------------------------------------------------------------------


def with_cover(server: AppServer, person: Person, cover: str, *media: dict[str, Any]) -> dict[str, Any]:
    account = server.connect(person, "instagram", username="a")
    options = {"platform": "instagram", "coverUrl": cover}
    body = {
        "targets": [{"accountId": account["id"], "options": options}],
        "text": "x",
        "media": list(media),
    }
    response = person.api.post("/v1/posts/validate", json=body)
    assert response.status_code == 200, response.text
    return dict(response.json()["results"][0])


@pytest.mark.parametrize(
    "data,status,rule",
    [
        (picture(), 200, None),
        (picture("PNG"), 200, "instagram.cover_image.mime_allowed"),
        (picture() + bytes(9_000_000), 200, "instagram.cover_image.size_max"),
        (picture(size=(300, 300))[:2000], 200, "media.unreadable"),
        (picture(), 404, "instagram.media.reachable"),
    ],
)
def test_a_cover_image_is_fetched_and_checked(
    server: AppServer, alice: Person, shelf: FileServer, data: bytes, status: int, rule: str | None
) -> None:
    video = shelf.put("/v.mp4", mp4(1080, 1920, seconds=5))
    result = with_cover(server, alice, shelf.put("/cover", data, status), url_item(video, "video"))
    deep = [error["rule"] for error in result["errors"] if not error["rule"].endswith(("url_public", ".http"))]
    assert deep == ([rule] if rule else [])
    assert sorted(shelf.asked) == ["/cover", "/v.mp4"]


def test_a_cover_that_is_ignored_is_not_fetched(server: AppServer, alice: Person, shelf: FileServer) -> None:
    photo = shelf.put("/p.jpg", picture())
    result = with_cover(server, alice, shelf.put("/cover", b"", 404), url_item(photo))
    assert "option_ignored" in [note["code"] for note in result["warnings"]]
    assert "instagram.media.reachable" not in [error["rule"] for error in result["errors"]]
    assert shelf.asked == ["/p.jpg"]
