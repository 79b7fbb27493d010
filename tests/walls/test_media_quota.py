"""What the media of one organization may take: counted in the transaction that makes an asset, given back by delete."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.kit import Person, Server
from tests.media_kit import picture
from tests.web.test_media import inline_post, kept, stored, upload

JPEG = picture()
ROOM = 3


@pytest.fixture
def server(make_server: Callable[..., Server]) -> Server:
    """Room for three pictures an organization, to the byte."""
    return make_server(media={"organization_bytes": ROOM * len(JPEG)})


def test_uploads_at_once_take_what_there_is_and_no_more(alice: Person, charlie: Person) -> None:
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: upload(alice.api, JPEG), range(6)))
    assert sorted(answer.status_code for answer in answers) == [201] * ROOM + [413] * 3
    refused = [answer.json()["error"] for answer in answers if answer.status_code == 413]
    assert {(error["code"], error["rule"]) for error in refused} == {("validation_failed", "media.quota")}
    assert stored(charlie.api, JPEG)


def test_the_last_byte_counts_and_delete_gives_it_back(server: Server, alice: Person) -> None:
    api = alice.api
    first, _ = stored(api, JPEG), stored(api, JPEG)
    larger = JPEG + b"\0"
    assert upload(api, larger).json()["error"]["rule"] == "media.quota"
    assert len(kept(server)) == 1
    assert api.delete(f"/v1/media/{first['id']}").status_code == 200
    assert stored(api, larger)
    assert upload(api, JPEG).status_code == 413


def test_inline_media_count_too(server: Server, alice: Person) -> None:
    for _ in range(ROOM):
        stored(alice.api, JPEG)
    answer = alice.api.publish(inline_post(alice, picture("PNG")))
    assert (answer.status_code, answer.json()["error"]["rule"]) == (413, "media.quota")
    assert len(kept(server)) == 1
