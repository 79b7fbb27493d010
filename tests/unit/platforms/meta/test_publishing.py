"""Facebook, Instagram and Threads publishing, from HTTP request to simulator post."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from socialpub.simulator.server import SimulatorThread
from socialpub.store.schema.models import Post
from tests.support.app_server import AppServer, Person, format_instant, sleep_briefly
from tests.support.platforms.inline_items import inline_item
from tests.support.platforms.meta_calls import jpeg, mp4

NAMES = ("facebook", "instagram", "threads")


@pytest.fixture
def server(open_shared: Callable[..., AppServer], shared_lab: SimulatorThread) -> Iterator[AppServer]:
    server = open_shared(platforms={name: {"api_base": shared_lab.origin(name)} for name in NAMES})
    with server.hurried():
        yield server


def published(server: AppServer, person: Person, name: str, body: dict[str, Any]) -> dict[str, Any]:
    account = server.connect_simulated(person, name)
    answer = person.api.publish({"targets": [{"accountId": account["id"]}], **body}).json()
    (result,) = answer["results"]
    assert (answer["status"], result["status"]) == ("published", "published"), json.dumps(result)
    (entry,) = server.lab.lab.ledger.entries(name)
    assert (entry.account, entry.text, entry.url) == (account["platformAccountId"], body["text"], result["url"])
    assert result["uri"] == result["url"]
    return {"entry": entry, "result": result, "account": account}


@pytest.mark.parametrize("name", NAMES)
def test_a_text_with_an_image_becomes_one_public_post(server: AppServer, name: str) -> None:
    picture = jpeg()
    seen = published(
        server, server.person("Ann"), name, {"text": "hello", "media": [inline_item("image", picture, altText="a cat")]}
    )
    (medium,) = seen["entry"].media
    assert (medium.size, medium.type, medium.alt) == (len(picture), "image/jpeg", "a cat")
    assert seen["result"].get("warnings", []) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_video_becomes_one_public_post(server: AppServer, name: str) -> None:
    film = mp4()
    seen = published(server, server.person("Ann"), name, {"text": "look", "media": [inline_item("video", film)]})
    (medium,) = seen["entry"].media
    assert (medium.size, medium.type) == (len(film), "video/mp4")


@pytest.mark.parametrize("name", ["facebook", "threads"])
def test_a_text_alone_becomes_one_public_post(server: AppServer, name: str) -> None:
    assert published(server, server.person("Ann"), name, {"text": "just words"})["entry"].media == ()


def test_an_instagram_account_shows_its_kind_and_scopes(server: AppServer) -> None:
    ann = server.person("Ann")
    account = server.connect_simulated(ann, "instagram")
    shown = next(each for each in ann.api.get("/v1/accounts").json()["data"] if each["id"] == account["id"])
    assert shown["instagram"] == {
        "kind": "instagram_login",
        "accountType": "BUSINESS",
        "grantedScopes": ["instagram_business_basic", "instagram_business_content_publish"],
    }


@pytest.mark.parametrize("name", NAMES)
def test_an_account_whose_permission_was_taken_back_is_asked_to_reconnect(server: AppServer, name: str) -> None:
    ann = server.person("Ann")
    account = server.connect_simulated(ann, name)
    server.lab.lab.end_tokens(name, account["platformAccountId"])
    body = {"targets": [{"accountId": account["id"]}], "text": "hello", "media": [inline_item("image", jpeg())]}
    (result,) = ann.api.publish(body).json()["results"]
    assert (result["status"], result["error"]["rule"]) == ("rejected", "account.reconnect_required")
    assert server.lab.lab.ledger.entries(name) == []


LOOKS = {"facebook": ("feed.post", 6), "instagram": ("containers.publish", 61), "threads": ("containers.publish", 61)}


@pytest.mark.matrix
@pytest.mark.parametrize("fault", ["reset_after", "error_after", "truncated"])
@pytest.mark.parametrize("name", NAMES)
def test_a_post_whose_answer_was_lost_is_found_and_never_sent_twice(
    open_shared: Callable[..., AppServer], shared_lab: SimulatorThread, name: str, fault: str
) -> None:
    hosts = {each: {"api_base": shared_lab.origin(each)} for each in NAMES}
    server = open_shared(platforms=hosts, publishing={"immediate_wait": 1})
    ann = server.person("Ann")
    account = server.connect_simulated(ann, name)
    operation, seconds = LOOKS[name]
    shared_lab.lab.faults.add([{"fault": fault, "platform": name, "operation": operation, "times": 1}])
    body = {"targets": [{"accountId": account["id"]}], "text": "hello", "media": [inline_item("image", jpeg())]}
    (result,) = ann.api.publish(body).json()["results"]
    assert shared_lab.lab.ledger.wait(1, 60)
    server.wait(result["postId"], "publishing")
    server.skip(seconds)
    row = server.wait(result["postId"], "published", seconds=20)
    (entry,) = shared_lab.lab.ledger.entries(name)
    assert (row["url"], row["attempts"]) == (entry.url, 1)


@pytest.mark.parametrize("name", ["instagram", "threads"])
def test_container_not_published_is_published_again_not_recreated(
    open_shared: Callable[..., AppServer], shared_lab: SimulatorThread, name: str
) -> None:
    hosts = {each: {"api_base": shared_lab.origin(each)} for each in NAMES}
    server = open_shared(platforms=hosts, publishing={"immediate_wait": 1})
    ann = server.person("Ann")
    account = server.connect_simulated(ann, name)
    fault = {"fault": "status:500", "platform": name, "operation": "containers.publish", "times": 1}
    shared_lab.lab.faults.add([fault])
    body = {"targets": [{"accountId": account["id"]}], "text": "hello", "media": [inline_item("image", jpeg())]}
    (result,) = ann.api.publish(body).json()["results"]
    sent = [call.operation for call in shared_lab.lab.calls if call.platform == name]
    while "containers.publish" not in sent:
        sleep_briefly()
        sent = [call.operation for call in shared_lab.lab.calls if call.platform == name]
    assert shared_lab.lab.ledger.entries(name) == []
    server.skip(61)
    server.wait(result["postId"], "published", seconds=20)
    sent = [call.operation for call in shared_lab.lab.calls if call.platform == name]
    assert (sent.count("containers.create"), sent.count("containers.publish")) == (1, 2)
    assert len(shared_lab.lab.ledger.entries(name)) == 1


@pytest.mark.slow
def test_unpublished_facebook_video_is_published_again_not_reuploaded(
    open_shared: Callable[..., AppServer], shared_lab: SimulatorThread
) -> None:
    site = {"facebook": {"api_base": shared_lab.origin("facebook")}}
    server = open_shared(platforms=site, publishing={"immediate_wait": 1})
    ann = server.person("Ann")
    account = server.connect_simulated(ann, "facebook")
    shared_lab.lab.faults.add([{"fault": "status:500", "platform": "facebook", "operation": "videos", "nth": 3}])
    body = {"targets": [{"accountId": account["id"]}], "text": "look", "media": [inline_item("video", mp4())]}
    (result,) = ann.api.publish(body).json()["results"]
    # Start, bytes, finish.
    while len(calls := [call for call in shared_lab.lab.calls if call.operation == "videos"]) < 3:
        sleep_briefly()
    assert (len(calls), shared_lab.lab.ledger.entries("facebook")) == (3, [])
    server.skip(61)
    server.wait(result["postId"], "published", seconds=20)
    assert len([call for call in shared_lab.lab.calls if call.operation == "videos"]) == 4
    assert len(shared_lab.lab.ledger.entries("facebook")) == 1


def test_nearly_used_quota_is_reported_once_in_the_platforms_words(server: AppServer) -> None:
    """The log's own count comes near the cap of a day, and so does the count that the platform gives."""
    ann = server.person("Ann")
    account = server.connect_simulated(ann, "threads")["id"]
    body = {"targets": [{"accountId": account}]}
    for number in range(4):
        ann.api.publish({**body, "text": f"number {number}"})
    (like, *_) = server.rows(Post, organization=ann.organization)
    like.pop("number")
    rows = [like | {"id": f"made-up-{number}", "position": number + 9} for number in range(250 * 4 // 5)]
    server.service.write(lambda tx: Post.insert_many(rows).execute()).result()
    server.lab.lab.fake("threads").made.quota = 5  # type: ignore[attr-defined]
    (result,) = ann.api.publish({**body, "text": "near the end"}).json()["results"]
    (note,) = result["warnings"]
    assert note["code"] == "daily_cap_near"
    assert "4 of 5" in note["message"]
    assert ann.api.get(f"/v1/posts/{result['postId']}").json()["warnings"] == [note]


# --- Failures in the middle ---


def schedule(server: AppServer, person: Person, name: str, images: int) -> str:
    """Schedule a post with images, and let its time come; return its id."""
    account = server.connect_simulated(person, name)
    media = [inline_item("image", jpeg())] * images
    body = {"targets": [{"accountId": account["id"]}], "text": "hello", "media": media}
    due = format_instant(server.clock.now_ms() + 60_000)
    (queued,) = person.api.publish(body | {"scheduledAt": due}).json()["results"]
    server.skip(61)
    return str(queued["postId"])


def limit_calls(server: AppServer, name: str, calls: int) -> None:
    """Let the platform refuse an account's calls above this number, as Meta's rate limits do."""
    server.lab.lab.configure(rateLimits=True)
    server.lab.lab.fake(name).meter.budget = calls  # type: ignore[attr-defined]


def count_called(server: AppServer, operation: str) -> int:
    return [call.operation for call in server.lab.lab.calls].count(operation)


# After the account's quota, the containers of three images, and a poll of the first.
@pytest.mark.parametrize("calls", [3, 4, 5, 7])
@pytest.mark.parametrize("name", ["instagram", "threads"])
def test_a_rate_limit_between_steps_keeps_what_was_made(
    open_shared: Callable[..., AppServer], shared_lab: SimulatorThread, name: str, calls: int
) -> None:
    server = open_shared(platforms={name: {"api_base": shared_lab.origin(name)}})
    ann = server.person("Ann")
    limit_calls(server, name, calls)
    with server.hurried():
        post = schedule(server, ann, name, 3)
        row = server.wait(post, "validated", seconds=20)
    assert json.loads(row["error"])["retryAfter"] > 3000
    made = count_called(server, "containers.create")
    limit_calls(server, name, 200)
    with server.hurried():
        server.skip(3600)
        server.wait(post, "published", seconds=20)
    refused = made - min(calls - 1, 3)
    assert count_called(server, "containers.create") == 4 + refused
    assert refused <= 2
    assert len(server.lab.lab.ledger.entries(name)) == 1


@pytest.mark.parametrize("name", ["instagram", "threads"])
def test_a_carousel_that_cannot_be_made_ends(
    open_shared: Callable[..., AppServer], shared_lab: SimulatorThread, name: str
) -> None:
    server = open_shared(platforms={name: {"api_base": shared_lab.origin(name)}})
    ann = server.person("Ann")
    fault = {"fault": "status:500", "platform": name, "operation": "containers.create", "nth": 3, "times": 100}
    shared_lab.lab.faults.add([fault])
    account = server.connect_simulated(ann, name)
    body = {"targets": [{"accountId": account["id"]}], "text": "hello", "media": [inline_item("image", jpeg())] * 2}
    with server.hurried():
        (result,) = ann.api.publish(body).json()["results"]
        row = server.wait(result["postId"], "failed", seconds=20)
    assert row["error_code"] == "platform_unavailable"
    assert count_called(server, "containers.create") == 2 + 4


@pytest.mark.parametrize("name", ["instagram", "threads"])
def test_a_lost_response_about_the_quota_stops_no_post(server: AppServer, name: str) -> None:
    fault = {"fault": "reset_after", "platform": name, "operation": "quota", "times": 1}
    server.lab.lab.faults.add([fault])
    published(server, server.person("Ann"), name, {"text": "hello", "media": [inline_item("image", jpeg())]})
