"""Pinterest publishing, from an HTTP request to the public pin at the simulator."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from PIL import Image

from socialpub.simulator.oauth import CLIENT_ID, CLIENT_SECRET
from socialpub.simulator.server import SimulatorThread
from tests.support.app_server import AppServer, error_of, format_instant
from tests.support.platforms.inline_items import inline_item, publish
from tests.support.platforms.meta_calls import jpeg, mp4


@pytest.fixture
def site(shared_lab: SimulatorThread) -> dict[str, Any]:
    return {"api_base": shared_lab.origin("pinterest"), "client_id": CLIENT_ID, "client_secret": CLIENT_SECRET}


@pytest.fixture
def server(open_shared: Callable[..., AppServer], site: dict[str, Any]) -> Iterator[AppServer]:
    server = open_shared(platforms={"pinterest": site})
    with server.hurried():
        yield server


@pytest.fixture
def impatient(open_shared: Callable[..., AppServer], site: dict[str, Any]) -> AppServer:
    """Answers after a second, with what is not settled yet."""
    return open_shared(platforms={"pinterest": site}, publishing={"immediate_wait": 1})


def published(server: AppServer, result: dict[str, Any], account: dict[str, Any]) -> Any:
    """The one entry in the ledger, which is what the answer says."""
    assert result["status"] == "published", json.dumps(result)
    (entry,) = server.lab.lab.ledger.entries("pinterest")
    assert (entry.account, entry.url) == (account["platformAccountId"], result["url"])
    assert result["uri"] == result["url"] == f"https://www.pinterest.com/pin/{entry.remote_id}/"
    return entry


def test_an_image_with_everything_becomes_one_pin_on_the_default_board(server: AppServer) -> None:
    ann = server.person("Ann")
    account, picture = server.connect_simulated(ann, "pinterest"), jpeg()
    media = [inline_item("image", picture, altText="a cat")]
    options = {"title": "Cats", "destinationUrl": "https://example.com/cats?a=1"}
    result = publish(ann, account, text="hello – “world”", media=media, options=options)
    entry = published(server, result, account)
    (medium,) = entry.media
    assert (entry.text, medium.size, medium.type, medium.alt) == (
        "hello – “world”",
        len(picture),
        "image/jpeg",
        "a cat",
    )
    assert server.lab.lab.blobs[medium.sha256].content == picture
    assert entry.request == {
        "board_id": account["boards"][0]["id"],
        "title": "Cats",
        "description": "hello – “world”",
        "link": "https://example.com/cats?a=1",
        "alt_text": "a cat",
        "source_type": "image_base64",
    }
    assert result.get("warnings", []) == []


@pytest.mark.slow
def test_several_images_become_one_pin_in_their_order(server: AppServer) -> None:
    ann = server.person("Ann")
    account = server.connect_simulated(ann, "pinterest", boards=("One", "Two"))
    pictures = [jpeg(40, 40 + n) for n in range(5)]
    board = account["boards"][1]["id"]
    media = [inline_item("image", picture) for picture in pictures]
    entry = published(server, publish(ann, account, text="five", media=media, options={"boardId": board}), account)
    assert [server.lab.lab.blobs[medium.sha256].content for medium in entry.media] == pictures
    assert (entry.request["board_id"], entry.request["source_type"]) == (board, "multiple_image_base64")


def test_a_pin_goes_to_a_section_of_its_board(server: AppServer) -> None:
    ann = server.person("Ann")
    account = server.connect_simulated(ann, "pinterest", sections=("Cakes", "Bread"))
    options = {"boardSectionId": account["sections"][1], "altText": "a cake"}
    media = [inline_item("image", jpeg(), altText="of the file")]
    server.lab.lab.faults.add([{"fault": "reset_after", "operation": "pins.create", "times": 1}])
    entry = published(server, publish(ann, account, text="hello", media=media, options=options), account)
    assert entry.request["board_section_id"] == account["sections"][1]
    assert entry.request["alt_text"] == "a cake"
    assert "sections.list_pins" in [call.operation for call in server.lab.lab.calls]  # the lost pin was found there
    result = publish(ann, account, text="other", media=media, options={"boardSectionId": "1"})
    assert (result["status"], result["error"]["rule"]) == ("rejected", "pinterest.board_section.unknown")


def test_an_image_that_bytes_may_not_be_is_fetched_from_this_server(server: AppServer) -> None:
    ann = server.person("Ann")
    account, into = server.connect_simulated(ann, "pinterest"), io.BytesIO()
    Image.new("RGB", (40, 40), (1, 2, 3)).save(into, "WEBP")
    result = publish(ann, account, text="hello", media=[inline_item("image", into.getvalue())])
    entry = published(server, result, account)
    assert (entry.media[0].type, entry.request["source_type"]) == ("image/webp", "image_url")


def test_a_video_becomes_one_pin(server: AppServer) -> None:
    ann = server.person("Ann")
    account, film = server.connect_simulated(ann, "pinterest"), mp4(filler=500_000)
    result = publish(ann, account, text="look", media=[inline_item("video", film, altText="a cat runs")])
    (medium,) = published(server, result, account).media
    assert (medium.size, medium.type, medium.alt) == (len(film), "video/mp4", "a cat runs")
    assert server.lab.lab.blobs[medium.sha256].content == film


def test_the_default_board_is_that_of_the_time_of_acceptance(server: AppServer) -> None:
    ann = server.person("Ann")
    account = server.connect_simulated(ann, "pinterest", boards=("One", "Two"))
    body = {"targets": [{"accountId": account["id"]}], "text": "hello", "media": [inline_item("image", jpeg())]}
    (queued,) = ann.api.publish(body | {"scheduledAt": format_instant(server.clock.now_ms() + 60_000)}).json()[
        "results"
    ]
    change = {"boardId": account["boards"][1]["id"]}
    assert ann.api.patch(f"/v1/accounts/{account['id']}/pinterest/default-board", json=change).status_code == 200
    server.skip(61)
    server.wait(queued["postId"], "published", seconds=20)
    (entry,) = server.lab.lab.ledger.entries("pinterest")
    assert entry.request["board_id"] == account["boards"][0]["id"]


def test_a_pin_without_a_board_is_refused_before_anything_is_sent(server: AppServer) -> None:
    ann = server.person("Ann")
    account = server.connect_simulated(ann, "pinterest", boards=())
    body = {"targets": [{"accountId": account["id"]}], "text": "hello", "media": [inline_item("image", jpeg())]}
    answer = ann.api.publish(body)
    assert (answer.status_code, error_of(answer)["rule"]) == (400, "pinterest.board.required")
    assert [call for call in server.lab.lab.calls if call.platform == "pinterest"] == []


def test_an_expired_token_is_refreshed_and_the_pin_published(server: AppServer) -> None:
    ann = server.person("Ann")
    account = server.connect_simulated(ann, "pinterest")
    server.lab.lab.end_tokens("pinterest", account["platformAccountId"])
    published(server, publish(ann, account, text="hello", media=[inline_item("image", jpeg())]), account)


def test_an_account_whose_tokens_are_over_is_asked_to_reconnect(server: AppServer) -> None:
    ann = server.person("Ann")
    account = server.connect_simulated(ann, "pinterest")
    server.lab.lab.end_tokens("pinterest", account["platformAccountId"], refresh=True)
    result = publish(ann, account, text="hello", media=[inline_item("image", jpeg())])
    assert (result["status"], result["error"]["rule"]) == ("rejected", "account.reconnect_required")
    assert server.lab.lab.ledger.entries("pinterest") == []


def test_trial_access_is_told_with_what_the_operator_does_about_it(server: AppServer) -> None:
    ann = server.person("Ann")
    account = server.connect_simulated(ann, "pinterest")
    fake: Any = server.lab.lab.fake("pinterest")
    fake.pins.trial = True
    result = publish(ann, account, text="hello", media=[inline_item("image", jpeg())])
    error = result["error"]
    assert (result["status"], error["code"], error["rule"]) == (
        "rejected",
        "platform_rejected",
        "pinterest.access.trial",
    )
    assert "operator" in error["remediation"]
    assert error["platformResponse"]["body"]["code"] == 29


@pytest.mark.matrix
@pytest.mark.parametrize("fault", ["reset_after", "error_after", "truncated", "wrong_type", "missing_id"])
def test_a_pin_whose_answer_was_lost_is_found_and_never_sent_twice(impatient: AppServer, fault: str) -> None:
    server, ann = impatient, impatient.person("Ann")
    account = server.connect_simulated(ann, "pinterest")
    server.lab.lab.faults.add([{"fault": fault, "platform": "pinterest", "operation": "pins.create", "times": 1}])
    result = publish(ann, account, text="hello", media=[inline_item("image", jpeg())])
    assert server.lab.lab.ledger.wait(1, 60)
    server.wait(result["postId"], "publishing")
    server.skip(6)
    row = server.wait(result["postId"], "published", seconds=20)
    (entry,) = server.lab.lab.ledger.entries("pinterest")
    assert (row["url"], row["attempts"]) == (entry.url, 1)


def test_the_boards_are_listed_and_one_becomes_the_default(server: AppServer) -> None:
    ann = server.person("Ann")
    account = server.connect_simulated(ann, "pinterest", boards=tuple(f"Board {n}" for n in range(3)))
    address = f"/v1/accounts/{account['id']}/pinterest"
    server.lab.lab.configure(listLimit=2)
    listed = ann.api.get(f"{address}/boards").json()
    assert [board["name"] for board in listed["data"]] == ["Board 0", "Board 1", "Board 2"]
    assert listed["defaultBoardId"] == account["boards"][0]["id"]
    chosen = {"boardId": account["boards"][2]["id"]}
    assert ann.api.patch(f"{address}/default-board", json=chosen).status_code == 200
    shown = ann.api.get(f"/v1/accounts/{account['id']}").json()
    assert shown["pinterest"] == {"defaultBoardId": chosen["boardId"], "defaultBoardName": "Board 2"}
    entry = published(server, publish(ann, account, text="hello", media=[inline_item("image", jpeg())]), account)
    assert entry.request["board_id"] == chosen["boardId"]
