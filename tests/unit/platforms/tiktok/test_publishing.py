"""TikTok publishing, from an HTTP request to the draft in the simulator's inbox."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from PIL import Image

from socialpub.platforms.tiktok import upload
from socialpub.simulator.oauth import CLIENT_ID, CLIENT_SECRET
from socialpub.simulator.server import SimulatorThread
from tests.support.app_server import AppServer
from tests.support.platforms.inline_items import inline_item, publish
from tests.support.platforms.meta_calls import jpeg, mp4

CREATOR = {"privacy": "self_only", "disableComment": True}


@pytest.fixture
def server(open_shared: Callable[..., AppServer], shared_lab: SimulatorThread) -> Iterator[AppServer]:
    app = {"enabled": True, "client_id": CLIENT_ID, "client_secret": CLIENT_SECRET}
    server = open_shared(
        platforms={"tiktok": {"api_base": shared_lab.origin("tiktok"), **app}}, publishing={"settle_horizon": 1}
    )
    with server.hurried():
        yield server


def delivered(server: AppServer, result: dict[str, Any], account: dict[str, Any]) -> Any:
    """The one draft in the ledger, which is what the answer says."""
    assert result["status"] == "published", json.dumps(result)
    (entry,) = server.lab.lab.ledger.entries("tiktok")
    assert (entry.account, entry.kind) == (account["platformAccountId"], "draft")
    assert (result["uri"], result.get("url"), result.get("cid")) == (f"tiktok:publish:{entry.remote_id}", None, None)
    return entry


def codes(result: dict[str, Any]) -> list[str]:
    return [warning["code"] for warning in result.get("warnings", [])]


def operations(server: AppServer) -> list[str]:
    return [call.operation for call in server.lab.lab.calls if call.platform == "tiktok"]


@pytest.mark.slow
def test_photos_with_text_and_title_become_one_draft(server: AppServer) -> None:
    ann = server.person("Ann")
    account, pictures = server.connect_simulated(ann, "tiktok"), [jpeg(40, 40 + n) for n in range(3)]
    media = [inline_item("image", picture) for picture in pictures]
    result = publish(ann, account, text="hello – “world” 🎉", media=media, options={"title": "Cats"})
    entry = delivered(server, result, account)
    assert [server.lab.lab.blobs[medium.sha256].content for medium in entry.media] == pictures
    assert entry.request == {"title": "Cats", "description": "hello – “world” 🎉"}
    assert codes(result) == ["tiktok_inbox_draft"]


def test_video_becomes_one_draft_with_warnings_about_the_inbox(server: AppServer) -> None:
    ann = server.person("Ann")
    account, film = server.connect_simulated(ann, "tiktok"), mp4(filler=500_000)
    result = publish(ann, account, text="look", media=[inline_item("video", film)], options=CREATOR)
    entry = delivered(server, result, account)
    (medium,) = entry.media
    assert (entry.text, medium.size, medium.type) == (None, len(film), "video/mp4")
    assert server.lab.lab.blobs[medium.sha256].content == film
    assert set(codes(result)) == {"tiktok_inbox_draft", "tiktok_inbox_options_ignored"}


@pytest.mark.parametrize("lost", [0, 1])
def test_chunked_video_arrives_whole_when_a_response_is_lost(
    server: AppServer, monkeypatch: pytest.MonkeyPatch, lost: int
) -> None:
    monkeypatch.setattr(upload, "WHOLE_MAX", 5_000_000)
    monkeypatch.setattr(upload, "CHUNK", 5_000_000)
    ann = server.person("Ann")
    account, film = server.connect_simulated(ann, "tiktok"), mp4(filler=10_200_000)
    fault = {"fault": "reset_after", "platform": "tiktok", "operation": "video.upload", "times": 1}
    server.lab.lab.faults.add([fault] * lost)
    file = ann.api.post("/v1/media", files={"file": ("a.mp4", film)}).json()["id"]
    result = publish(ann, account, text="look", media=[{"kind": "video", "mediaId": file}])
    (medium,) = delivered(server, result, account).media
    assert server.lab.lab.blobs[medium.sha256].content == film
    assert (operations(server).count("video.init"), operations(server).count("video.upload")) == (1, 2)


def test_a_png_is_refused_before_anything_is_sent(server: AppServer) -> None:
    ann = server.person("Ann")
    account, into = server.connect_simulated(ann, "tiktok"), io.BytesIO()
    Image.new("RGB", (40, 40), (1, 2, 3)).save(into, "PNG")
    result = publish(ann, account, text="hi", media=[inline_item("image", into.getvalue())])
    assert (result["status"], result["error"]["rule"]) == ("rejected", "tiktok.file_format.invalid")
    assert operations(server) == []


def test_an_expired_token_is_refreshed_and_the_draft_delivered(server: AppServer) -> None:
    ann = server.person("Ann")
    account = server.connect_simulated(ann, "tiktok")
    server.lab.lab.end_tokens("tiktok", account["platformAccountId"])
    delivered(server, publish(ann, account, text="hello", media=[inline_item("image", jpeg())]), account)
    assert operations(server)[:3] == ["content.init", "oauth.token", "content.init"]


def test_an_account_whose_tokens_are_over_is_asked_to_reconnect(server: AppServer) -> None:
    ann = server.person("Ann")
    account = server.connect_simulated(ann, "tiktok")
    server.lab.lab.end_tokens("tiktok", account["platformAccountId"], refresh=True)
    result = publish(ann, account, text="hello", media=[inline_item("image", jpeg())])
    assert (result["status"], result["error"]["rule"]) == ("rejected", "account.reconnect_required")
    assert server.lab.lab.ledger.entries("tiktok") == []


def test_a_draft_that_tiktok_could_not_process_fails_with_its_reason(server: AppServer) -> None:
    ann = server.person("Ann")
    account = server.connect_simulated(ann, "tiktok")
    fake: Any = server.lab.lab.fake("tiktok")
    fake.fails = "duration_check_failed"
    error = publish(ann, account, text="look", media=[inline_item("video", mp4())])["error"]
    assert (error["code"], error["rule"]) == ("platform_rejected", "tiktok.publish.failed")
    assert error["platformResponse"]["body"]["data"]["fail_reason"] == "duration_check_failed"
    assert operations(server).count("video.init") == 1


@pytest.mark.parametrize("fault", ["reset_after", "error_after", "truncated", "wrong_type", "missing_id"])
def test_photos_with_a_lost_response_are_sent_once_and_settled_by_hand(server: AppServer, fault: str) -> None:
    ann = server.person("Ann")
    account = server.connect_simulated(ann, "tiktok")
    server.lab.lab.faults.add([{"fault": fault, "platform": "tiktok", "operation": "content.init", "times": 1}])
    result = publish(ann, account, text="hello", media=[inline_item("image", jpeg())])
    assert (result["status"], result["error"]["rule"]) == ("failed", "publish.outcome_unknown")
    assert (operations(server), len(server.lab.lab.ledger.entries("tiktok"))) == (["content.init"], 1)
    assert ann.api.post(f"/v1/posts/{result['postId']}/settle", json={"published": True}).status_code == 200
    assert server.wait(result["postId"], "published")["attempts"] == 1


@pytest.mark.parametrize("operation", ["video.init", "video.upload", "status.fetch"])
def test_a_video_is_one_draft_whatever_answer_is_lost(server: AppServer, operation: str) -> None:
    ann = server.person("Ann")
    account = server.connect_simulated(ann, "tiktok")
    server.lab.lab.configure(processingMs=0)
    server.lab.lab.faults.add([{"fault": "reset_after", "platform": "tiktok", "operation": operation, "times": 1}])
    delivered(server, publish(ann, account, text="look", media=[inline_item("video", mp4())]), account)
