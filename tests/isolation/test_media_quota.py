"""Media quota of an organization: counted with each new asset, returned by deletion."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.app_server import AppServer, Person
from tests.support.media_files import picture
from tests.support.media_uploads import inline_post, stored_files, stored_media, upload_media

JPEG = picture()
ROOM = 3


@pytest.fixture
def server(make_server: Callable[..., AppServer]) -> AppServer:
    """Room for three pictures an organization, to the byte."""
    return make_server(media={"organization_bytes": ROOM * len(JPEG)})


def test_uploads_at_once_take_what_there_is_and_no_more(alice: Person, charlie: Person) -> None:
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: upload_media(alice.api, JPEG), range(6)))
    assert sorted(answer.status_code for answer in answers) == [201] * ROOM + [413] * 3
    refused = [answer.json()["error"] for answer in answers if answer.status_code == 413]
    assert {(error["code"], error["rule"]) for error in refused} == {("validation_failed", "media.quota")}
    assert stored_media(charlie.api, JPEG)


def test_the_last_byte_counts_and_delete_gives_it_back(server: AppServer, alice: Person) -> None:
    api = alice.api
    first, _ = stored_media(api, JPEG), stored_media(api, JPEG)
    larger = JPEG + b"\0"
    assert upload_media(api, larger).json()["error"]["rule"] == "media.quota"
    assert len(stored_files(server)) == 1
    assert api.delete(f"/v1/media/{first['id']}").status_code == 200
    assert stored_media(api, larger)
    assert upload_media(api, JPEG).status_code == 413


def test_inline_media_count_too(server: AppServer, alice: Person) -> None:
    for _ in range(ROOM):
        stored_media(alice.api, JPEG)
    answer = alice.api.publish(inline_post(alice, picture("PNG")))
    assert (answer.status_code, answer.json()["error"]["rule"]) == (413, "media.quota")
    assert len(stored_files(server)) == 1
