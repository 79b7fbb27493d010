"""X publishing, from an HTTP request to the public post at the simulator."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from socialpub.simulator.oauth import CLIENT_ID, CLIENT_SECRET
from socialpub.simulator.server import SimulatorThread
from tests.support.app_server import AppServer, Person
from tests.support.platforms.inline_items import inline_item
from tests.support.platforms.meta_calls import jpeg, mp4

APP = {"client_id": CLIENT_ID, "client_secret": CLIENT_SECRET}


@pytest.fixture
def server(open_shared: Callable[..., AppServer], shared_lab: SimulatorThread) -> Iterator[AppServer]:
    server = open_shared(platforms={"twitter": {"api_base": shared_lab.origin("twitter"), **APP}})
    with server.hurried():
        yield server


@pytest.fixture
def ann(server: AppServer) -> Person:
    """Somebody with an account on X."""
    ann = server.person("Ann")
    server.connect_simulated(ann, "twitter")
    return ann


def publish(ann: Person, text: str, *media: dict[str, str]) -> dict[str, Any]:
    body = {"targets": [{"accountId": ann.accounts["twitter"]["id"]}], "text": text}
    return dict(ann.api.publish(body | ({"media": list(media)} if media else {})).json())


def published(server: AppServer, ann: Person, text: str, *media: dict[str, str]) -> Any:
    """The one entry of the ledger."""
    answer = publish(ann, text, *media)
    (result,) = answer["results"]
    assert (answer["status"], result["status"]) == ("published", "published"), json.dumps(result)
    (entry,) = server.lab.lab.ledger.entries("twitter")
    account = ann.accounts["twitter"]
    assert (entry.account, entry.text, entry.url) == (account["platformAccountId"], text, result["url"])
    assert (result["uri"], result.get("cid")) == (result["url"], None)
    # The film stands upright, which an older page of X does not have.
    advised = [] if [each["kind"] for each in media] != ["video"] else ["twitter.video.dimensions_advised"]
    assert [note["code"] for note in result.get("warnings", [])] == advised
    return entry


def test_a_text_with_an_image_becomes_one_public_post(server: AppServer, ann: Person) -> None:
    picture = jpeg()
    (medium,) = published(server, ann, "hello", inline_item("image", picture, altText="a cat")).media
    assert (medium.size, medium.type, medium.alt) == (len(picture), "image/jpeg", "a cat")


def test_four_images_become_one_public_post_in_their_order(server: AppServer, ann: Person) -> None:
    pictures = [jpeg(40 + number) for number in range(4)]
    media = published(server, ann, "four", *(inline_item("image", picture) for picture in pictures)).media
    assert [medium.size for medium in media] == [len(picture) for picture in pictures]


def test_a_video_becomes_one_public_post(server: AppServer, ann: Person) -> None:
    film = mp4(filler=1_500_000)
    (medium,) = published(server, ann, "look", inline_item("video", film)).media
    assert (medium.size, medium.type) == (len(film), "video/mp4")


def test_a_text_alone_becomes_one_public_post(server: AppServer, ann: Person) -> None:
    assert published(server, ann, "just words & <more>").media == ()


def test_an_expired_access_token_is_renewed_on_the_way(server: AppServer, ann: Person) -> None:
    server.lab.lab.end_tokens("twitter", ann.accounts["twitter"]["platformAccountId"])
    published(server, ann, "hello")
    called = [call.operation for call in server.lab.lab.calls]
    assert called == ["tweets.create", "oauth.token", "tweets.create"]


def test_an_account_whose_grant_is_over_is_asked_to_reconnect(server: AppServer, ann: Person) -> None:
    server.lab.lab.end_tokens("twitter", ann.accounts["twitter"]["platformAccountId"], refresh=True)
    (result,) = publish(ann, "hello")["results"]
    assert (result["status"], result["error"]["rule"]) == ("rejected", "account.reconnect_required")
    assert server.lab.lab.ledger.entries("twitter") == []


def test_the_same_words_twice_are_a_duplicate(server: AppServer, ann: Person) -> None:
    publish(ann, "hello")
    server.skip(60)
    server.lab.lab.calls.clear()
    (result,) = publish(ann, "hello")["results"]
    assert (result["status"], result["error"]["rule"]) == ("rejected", "twitter.post.duplicate")
    assert len(server.lab.lab.ledger.entries("twitter")) == 1


@pytest.mark.parametrize("fault", ["reset_after", "error_after", "truncated", "missing_id", "wrong_type"])
def test_a_post_whose_answer_is_lost_is_found_and_not_sent_again(server: AppServer, ann: Person, fault: str) -> None:
    server.lab.lab.faults.add([{"fault": fault, "operation": "tweets.create", "nth": 1}])
    server.lab.lab.configure(list_lag_ms=200)
    body = {"targets": [{"accountId": ann.accounts["twitter"]["id"]}], "text": "see example.com & more", "media": [
        inline_item("image", jpeg())
    ]}  # fmt: skip
    (result,) = ann.api.publish(body).json()["results"]
    assert (result["status"], result.get("error")) == ("published", None)
    (entry,) = server.lab.lab.ledger.entries("twitter")
    assert (result["url"], entry.kind) == (entry.url, "post")
