"""Facebook publishing over HTTP after the public call: videos, refusals, lost responses."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from socialpub.simulator.oauth import CLIENT_ID, CLIENT_SECRET
from socialpub.simulator.server import SimulatorThread
from socialpub.store.schema.models import Intent, Post
from tests.support.app_server import AppServer, Person, format_instant, sleep_briefly
from tests.support.platforms.inline_items import inline_item
from tests.support.platforms.meta_calls import jpeg, mp4

HOUR_MS = 3_600_000
FINISH = {"platform": "facebook", "operation": "videos", "nth": 3}  # after the start and the bytes


@pytest.fixture
def server(open_shared: Callable[..., AppServer], shared_lab: SimulatorThread) -> AppServer:
    """Answers after a second with what is not settled yet; nothing is processed until a test says so."""
    shared_lab.lab.configure(processingMs=HOUR_MS)
    site = {"api_base": shared_lab.origin("facebook"), "client_id": CLIENT_ID, "client_secret": CLIENT_SECRET}
    return open_shared(platforms={"facebook": site}, publishing={"immediate_wait": 1})


@pytest.fixture
def ann(server: AppServer) -> Person:
    ann = server.person("Ann")
    server.connect_simulated(ann, "facebook")
    return ann


def publish(ann: Person, *media: dict[str, str], text: str = "look") -> dict[str, Any]:
    body = {"targets": [{"accountId": ann.accounts["facebook"]["id"]}], "text": text, "media": list(media)}
    (result,) = ann.api.publish(body).json()["results"]
    return dict(result)


def processed(server: AppServer) -> None:
    """Facebook is done with every video."""
    for video in server.lab.lab.fake("facebook").videos.videos.values():  # type: ignore[attr-defined]
        video.ready_ms = 0


def called(server: AppServer, operation: str) -> int:
    return [call.operation for call in server.lab.lab.calls].count(operation)


def until_called(server: AppServer, operation: str, times: int) -> None:
    deadline = time.monotonic() + 20
    while called(server, operation) < times:
        assert time.monotonic() < deadline, f"{operation} was called {called(server, operation)} times"
        sleep_briefly()


def looked(server: AppServer, post: str, times: int) -> None:
    """The look is over and written, and the post is not settled by it (or is over)."""
    deadline = time.monotonic() + 20
    while server.rows(Intent, post=post)[0]["looks"] < times and server.rows(id=post)[0]["status"] == "publishing":
        assert time.monotonic() < deadline
        sleep_briefly()


def account(ann: Person) -> dict[str, Any]:
    (found,) = ann.api.get("/v1/accounts").json()["data"]
    return dict(found)


@pytest.mark.slow
def test_a_video_is_published_when_it_is_public_and_not_before(server: AppServer, ann: Person) -> None:
    result = publish(ann, inline_item("video", mp4()))
    assert result["status"] != "published"
    until_called(server, "node", 1)
    assert server.lab.lab.ledger.entries("facebook") == []
    for looks in range(2, 5):
        server.skip(61)
        until_called(server, "node", looks)
        assert server.wait(result["postId"], "publishing")["url"] is None
    processed(server)
    server.skip(61)
    row = server.wait(result["postId"], "published", seconds=20)
    (entry,) = server.lab.lab.ledger.entries("facebook")
    assert (row["url"], row["platform_uri"], row["attempts"]) == (entry.url, entry.url, 1)
    assert called(server, "videos") == 3


def test_video_failing_after_the_first_lookup_has_facebooks_words(server: AppServer, ann: Person) -> None:
    server.lab.lab.fake("facebook").videos.failing.append("The audio is muted.")  # type: ignore[attr-defined]
    result = publish(ann, inline_item("video", mp4()))
    until_called(server, "node", 1)
    processed(server)
    server.skip(5)
    row = server.wait(result["postId"], "rejected", seconds=20)
    error = json.loads(row["error"])
    assert (error["rule"], "The audio is muted." in error["message"]) == ("facebook.media.invalid", True)
    assert error["platformResponse"]["body"]["status"]["video_status"] == "error"
    assert server.lab.lab.ledger.entries("facebook") == []


def test_a_video_that_fails_at_once_is_told_at_once(server: AppServer, ann: Person) -> None:
    server.lab.lab.configure(processingMs=0)
    server.lab.lab.fake("facebook").videos.failing.append("The audio is muted.")  # type: ignore[attr-defined]
    result = publish(ann, inline_item("video", mp4()))
    server.skip(2)
    row = server.wait(result["postId"], "rejected", seconds=20)
    assert "The audio is muted." in json.loads(row["error"])["message"]


def test_a_last_step_that_is_refused_is_told_at_once(server: AppServer, ann: Person) -> None:
    refusal = {"error": {"message": "blocked for now", "type": "OAuthException", "code": 368}}
    server.lab.lab.faults.add([{"fault": "status:400", "body": refusal, **FINISH}])
    result = publish(ann, inline_item("video", mp4()))
    row = server.wait(result["postId"], "rejected", seconds=20)
    assert json.loads(row["error"])["rule"] == "facebook.account.blocked"


def test_video_with_a_lost_last_response_is_found_while_processing(server: AppServer, ann: Person) -> None:
    server.lab.lab.faults.add([{"fault": "reset_after", **FINISH}])
    result = publish(ann, inline_item("video", mp4()))
    until_called(server, "videos", 3)
    server.skip(61)
    looked(server, result["postId"], 1)
    assert server.wait(result["postId"], "publishing")["url"] is None
    processed(server)
    server.skip(121)
    server.wait(result["postId"], "published", seconds=20)
    assert (called(server, "videos"), len(server.lab.lab.ledger.entries("facebook"))) == (3, 1)


def test_a_video_story_with_a_lost_last_response_is_published_once(server: AppServer, ann: Person) -> None:
    finish = {"platform": "facebook", "operation": "video_stories", "nth": 2}
    server.lab.lab.faults.add([{"fault": "reset_after", **finish}])
    body = {
        "targets": [{"accountId": ann.accounts["facebook"]["id"], "options": {"platform": "facebook", "story": True}}]
    }
    (result,) = ann.api.publish(body | {"media": [inline_item("video", mp4())]}).json()["results"]
    until_called(server, "video_stories", 2)
    server.skip(61)
    looked(server, result["postId"], 1)
    assert server.wait(result["postId"], "publishing")["url"] is None
    processed(server)
    server.skip(121)
    row = server.wait(result["postId"], "published", seconds=20)
    (entry,) = server.lab.lab.ledger.entries("facebook")
    assert (called(server, "video_stories"), row["url"], entry.request["surface"]) == (2, entry.url, "story")


def test_failed_video_with_a_lost_response_has_facebooks_words(server: AppServer, ann: Person) -> None:
    server.lab.lab.fake("facebook").videos.failing.append("The audio is muted.")  # type: ignore[attr-defined]
    server.lab.lab.faults.add([{"fault": "reset_after", **FINISH}])
    result = publish(ann, inline_item("video", mp4()))
    until_called(server, "videos", 3)
    processed(server)
    server.skip(61)
    until_called(server, "node", 1)
    server.skip(2)
    row = server.wait(result["postId"], "rejected", seconds=20)
    assert "The audio is muted." in json.loads(row["error"])["message"]
    assert called(server, "videos") == 3


def test_a_video_that_is_never_done_is_unknown_and_not_called_failed(server: AppServer, ann: Person) -> None:
    result = publish(ann, inline_item("video", mp4()))
    deadline = time.monotonic() + 20
    while '"waited": 1.0' not in (kept := server.rows(id=result["postId"])[0]["saved"] or ""):
        assert time.monotonic() < deadline
        sleep_briefly()
    saved = {"taken": json.loads(kept)["taken"] | {"waited": 3590.0, "wait": 60.0}}
    server.service.write(lambda tx: Post.update(saved=json.dumps(saved)).execute()).result()
    server.skip(61)
    row = server.wait(result["postId"], "failed", seconds=20)
    error = json.loads(row["error"])
    assert error["rule"] == "publish.outcome_unknown"
    assert "received the post" in error["message"]
    assert "within an hour" in error["message"]


def refused(code: int, message: str, status: int = 400, **more: Any) -> dict[str, Any]:
    body = {"error": {"message": message, "type": "OAuthException", "code": code, **more}}
    return {"fault": f"status:{status}", "platform": "facebook", "operation": "feed.post", "times": 1, "body": body}


def test_a_clear_refusal_is_told_at_once_wherever_its_number_stands(server: AppServer, ann: Person) -> None:
    server.lab.lab.faults.add([refused(1609005, "The link could not be scraped.") | {"times": 2}])
    error = publish(ann, text="see https://example.com")["error"]
    assert (error["code"], error["rule"]) == ("platform_rejected", "facebook.link.reachable")
    assert "The link could not be scraped." in error["message"]
    assert error["platformResponse"]["body"]["error"]["code"] == 1609005


def test_an_answer_that_came_is_never_called_none(server: AppServer, ann: Person) -> None:
    server.lab.lab.faults.add([refused(987_654, "The moon is in the wrong phase.")])
    result = publish(ann, text="hello")
    until_called(server, "feed.post", 1)
    for looks in range(1, 10):
        server.skip(61)
        looked(server, result["postId"], looks)
    row = server.wait(result["postId"], "failed", seconds=20)
    error = json.loads(row["error"])
    assert error["rule"] == "publish.outcome_unknown"
    assert "The moon is in the wrong phase." in error["message"]
    assert "no answer" not in error["message"]
    assert (error["platformResponse"]["status"], error["platformResponse"]["body"]["error"]["code"]) == (400, 987_654)


@pytest.mark.parametrize("media", [[], [inline_item("video", mp4())]], ids=["text", "video"])
def test_a_refused_permission_ends_the_post_and_leaves_the_account(
    server: AppServer, ann: Person, media: list[dict[str, str]]
) -> None:
    fault = refused(10, "(#10) Application does not have permission for this action", 403)
    server.lab.lab.faults.add([fault | FINISH if media else fault])
    result = publish(ann, *media)
    row = server.wait(result["postId"], "rejected", seconds=20)
    assert json.loads(row["error"])["code"] == "platform_auth_failed"
    kept = account(ann)
    assert (kept["status"], kept["attention"]["code"]) == ("active", "platform_auth_failed")
    assert "does not have permission" in kept["attention"]["message"]
    assert publish(ann, inline_item("image", jpeg()), text="next")["status"] == "published"
    assert "attention" not in account(ann)


@pytest.mark.parametrize("media", [[], [inline_item("video", mp4())]], ids=["text", "video"])
def test_a_refused_token_ends_post_and_account_at_once(
    server: AppServer, ann: Person, media: list[dict[str, str]]
) -> None:
    fault = refused(190, "The session has been invalidated", error_subcode=460)
    server.lab.lab.faults.add([fault | FINISH if media else fault])
    result = publish(ann, *media)
    row = server.wait(result["postId"], "rejected", seconds=20)
    error = json.loads(row["error"])
    assert (error["rule"], error["remediation"]) == (
        "account.reconnect_required",
        "Reconnect the account, then retry the post.",
    )
    assert account(ann)["status"] == "revoked"


def test_every_call_proves_that_it_comes_from_the_app(server: AppServer, ann: Person) -> None:
    server.lab.lab.fake("facebook").pages.secret_required = True  # type: ignore[attr-defined]
    try:
        assert publish(ann, inline_item("image", jpeg()))["status"] == "published"
        result = publish(ann, inline_item("video", mp4()), text="film")
        until_called(server, "node", 1)
        processed(server)
        server.skip(61)
        server.wait(result["postId"], "published", seconds=20)
    finally:
        server.lab.lab.fake("facebook").pages.secret_required = False  # type: ignore[attr-defined]


MOMENTS = {  # a refusal that passes: the operation, and the response
    "photos": {"error": {"message": "Service temporarily unavailable", "code": 100, "error_subcode": 1609010}},
    "feed.post": {"error": {"message": "The URL could not be read", "code": 1, "error_subcode": 1609005}},
    "story.bytes": {"debug_info": {"retriable": False, "type": "PartialRequestError", "message": "early"}},
}


def refuse_for_a_moment(server: AppServer, operation: str) -> None:
    fault = {"fault": "status:400", "platform": "facebook", "operation": operation, "times": 1}
    server.lab.lab.faults.add([fault | {"body": MOMENTS[operation]}])


def test_a_subcode_that_passes_outweighs_its_code(server: AppServer, ann: Person) -> None:
    refuse_for_a_moment(server, "photos")
    with server.hurried():
        server.wait(publish(ann, inline_item("image", jpeg()))["postId"], "published", seconds=20)
    assert called(server, "photos") == 2


def test_a_link_that_cannot_be_read_for_a_moment_is_posted(server: AppServer, ann: Person) -> None:
    refuse_for_a_moment(server, "feed.post")
    options = {"platform": "facebook", "link": "https://a.example/"}
    target = {"accountId": ann.accounts["facebook"]["id"], "options": options}
    (result,) = ann.api.publish({"targets": [target], "text": "look"}).json()["results"]
    assert (result["status"], called(server, "feed.post")) == ("published", 2)


def test_a_cut_upload_of_a_story_goes_on(server: AppServer, ann: Person) -> None:
    refuse_for_a_moment(server, "story.bytes")
    server.lab.lab.configure(processingMs=0)
    target = {"accountId": ann.accounts["facebook"]["id"], "options": {"platform": "facebook", "story": True}}
    with server.hurried():
        (result,) = ann.api.publish({"targets": [target], "media": [inline_item("video", mp4())]}).json()["results"]
        server.wait(result["postId"], "published", seconds=20)
    assert called(server, "story.bytes") == 2


# The operation that is throttled, at which call, and how often it is called in the end.
UPLOADS = {
    "video": ("videos", 2, 1 + 3 + 1),
    "story": ("story.bytes", 1, 3),
    "whole file": ("upload.bytes", 1, 3),
    "images": ("photos", 3, 3 + 2),
}


@pytest.mark.parametrize("kind", UPLOADS)
def test_a_rate_limit_during_an_upload_tells_when_to_go_on(server: AppServer, ann: Person, kind: str) -> None:
    operation, nth, times = UPLOADS[kind]
    server.lab.lab.configure(processingMs=0)
    server.lab.lab.fake("facebook").videos.phases = kind != "whole file"  # type: ignore[attr-defined]
    fault = {"fault": "status:429", "platform": "facebook", "operation": operation, "nth": nth, "times": 2}
    server.lab.lab.faults.add([fault | {"retryAfter": 1200}])
    options = {"options": {"platform": "facebook", "story": True}} if kind == "story" else {}
    body = {"targets": [{"accountId": ann.accounts["facebook"]["id"]} | options]}
    media = [inline_item("image", jpeg())] * 3 if kind == "images" else [inline_item("video", mp4())]
    body |= {"text": "look", "media": media}
    due = format_instant(server.clock.now_ms() + 60_000)
    (queued,) = ann.api.publish(body | {"scheduledAt": due}).json()["results"]
    with server.hurried():
        server.skip(61)
        row = server.wait(queued["postId"], "validated", seconds=20)
        assert json.loads(row["error"])["retryAfter"] == 1200
        server.skip(1200)
        server.wait(queued["postId"], "published", seconds=20)
    assert called(server, operation) == times
    assert len(server.lab.lab.ledger.entries("facebook")) == 1
