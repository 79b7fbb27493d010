"""Deletion of media that no post needs any more."""

from __future__ import annotations

import base64
from collections.abc import Callable

import pytest

from socialpub.domain.background.retention import HistoryRetention
from socialpub.domain.media import library
from socialpub.store.schema.models import Media
from tests.support.app_server import AppServer, Person, error_of, format_instant
from tests.support.media_files import picture
from tests.support.publishing_state import publish_post
from tests.support.soak.soak_world import wait_for

DAY = 86_400


@pytest.fixture
def server(make_server: Callable[..., AppServer]) -> AppServer:
    return make_server(retention={"media": "30d"})


def upload(person: Person, side: int = 64) -> str:
    answer = person.api.post("/v1/media", files={"file": ("a.jpg", picture(size=(side, 48)), "image/jpeg")})
    return str(answer.json()["id"])


def post(person: Person, media: dict[str, str], at_ms: int | None = None) -> str:
    due = {} if at_ms is None else {"scheduledAt": format_instant(at_ms)}
    return publish_post(person, media=[media], **due)


def image(media: str) -> dict[str, str]:
    return {"kind": "image", "mediaId": media}


def inline(side: int = 70) -> dict[str, str]:
    return {"kind": "image", "bytesBase64": base64.b64encode(picture(size=(side, 48))).decode()}


def then(server: AppServer, days: float) -> int:
    return server.clock.now_ms() + int(days * DAY * 1000)


def look(server: AppServer, days: float) -> None:
    """What a server does so many days from now."""
    HistoryRetention(server.service).run(then(server, days))


def there(server: AppServer) -> set[str]:
    return {row["id"] for row in server.rows(Media) if row["deleted_at"] is None}


def files(server: AppServer, wanted: int) -> bool:
    """Whether so many are kept; they go behind the commit."""
    return wait_for(lambda: sum(path.is_file() for path in (server.home / "media").rglob("*")) == wanted, 60)


def test_media_that_no_post_needed_go_with_their_files(
    server: AppServer, alice: Person, caplog: pytest.LogCaptureFixture
) -> None:
    media = upload(alice)
    look(server, 29)
    assert there(server) == {media}
    look(server, 31)
    assert there(server) == set()
    assert files(server, 0)
    assert alice.api.get("/v1/media").json()["data"] == []
    assert "deleted 1 media files that no post needs" in caplog.messages


def test_media_of_a_published_post_go_and_the_post_is_still_shown(server: AppServer, alice: Person) -> None:
    media = upload(alice)
    published = post(alice, image(media))
    carried = post(alice, inline())
    look(server, 31)
    assert there(server) == set()
    assert files(server, 0)
    for one in (published, carried):
        assert alice.api.get(f"/v1/posts/{one}").json()["status"] == "published"


def test_media_stay_as_long_after_their_last_post_as_after_their_upload(server: AppServer, alice: Person) -> None:
    media = upload(alice)
    server.clock.skip(20 * DAY)
    post(alice, image(media))
    look(server, 28)
    assert there(server) == {media}
    look(server, 31)
    assert there(server) == set()


@pytest.mark.parametrize("carried", [False, True], ids=["uploaded", "inline"])
def test_what_a_scheduled_post_needs_stays_and_the_post_goes_out(
    server: AppServer, alice: Person, carried: bool
) -> None:
    waiting = post(alice, inline() if carried else image(upload(alice)), then(server, 80))
    needed = there(server)
    look(server, 79)
    assert there(server) == needed
    server.skip(80 * DAY + 1)
    assert server.wait(waiting, "published", "failed", "rejected")["status"] == "published"
    look(server, 29)  # after it went out
    assert there(server) == needed
    look(server, 31)
    assert there(server) == set()


def test_a_post_that_is_moved_takes_its_media_along(server: AppServer, alice: Person) -> None:
    media = upload(alice)
    waiting = post(alice, image(media), then(server, 1))
    assert alice.api.patch(f"/v1/posts/{waiting}", json={"scheduledAt": format_instant(then(server, 90))}).is_success
    look(server, 60)
    assert there(server) == {media}
    assert alice.api.delete(f"/v1/posts/{waiting}").is_success
    look(server, 119)
    assert there(server) == {media}
    look(server, 121)
    assert there(server) == set()


def test_a_post_that_a_silent_platform_holds_for_long_keeps_its_media(server: AppServer, alice: Person) -> None:
    """Whatever `used_at` says: open posts are looked at before anything goes."""
    media = upload(alice)
    post(alice, image(media), then(server, 300))
    server.service.write(
        lambda tx: Media.update(used_at=0).where(Media.id == media).execute()  # as a migration may leave it
    ).result()
    look(server, 31)
    assert there(server) == {media}
    look(server, 31)
    assert there(server) == {media}


def test_retried_failed_post_says_that_its_media_are_gone(server: AppServer, alice: Person) -> None:
    media = upload(alice)
    refused = {"fault": "status:400", "platform": "bluesky", "operation": "*putRecord", "times": 1}
    server.lab.lab.faults.add([refused])
    body = {"text": "x", "targets": [{"accountId": alice.bluesky}], "media": [image(media)]}
    failed = alice.api.publish(body).json()["results"][0]["postId"]
    look(server, 31)
    answer = alice.api.post(f"/v1/posts/{failed}/retry", json={})
    assert (answer.status_code, error_of(answer)["rule"]) == (404, "media.unknown")


def test_a_post_cannot_name_what_has_gone(server: AppServer, alice: Person) -> None:
    media = upload(alice)
    look(server, 31)
    answer = alice.api.publish({"text": "x", "targets": [{"accountId": alice.bluesky}], "media": [image(media)]})
    assert (answer.status_code, error_of(answer)["rule"]) == (404, "media.unknown")


@pytest.mark.slow
def test_no_more_than_a_part_goes_in_one_transaction_and_all_in_the_end(
    server: AppServer, alice: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "UNUSED_BATCH_SIZE", 2)
    for number in range(5):
        upload(alice, 64 + number)
    before = then(server, 31)
    assert [library.delete_unused(server.service, before) for _ in range(4)] == [2, 2, 1, 0]
    assert there(server) == set()


def test_with_zero_media_stay(make_server: Callable[..., AppServer]) -> None:
    server = make_server(retention={"media": 0})
    dora = server.person("Dora")
    media = upload(dora)
    look(server, 10_000)
    assert there(server) == {media}


def test_an_organizations_equal_file_stays_while_another_needs_it(
    server: AppServer, alice: Person, charlie: Person
) -> None:
    upload(alice)
    server.clock.skip(20 * DAY)
    theirs = upload(charlie)
    look(server, 15)
    assert there(server) == {theirs}
    assert files(server, 1)
