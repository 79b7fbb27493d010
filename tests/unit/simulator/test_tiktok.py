"""Fake TikTok API: chunked video uploads, photo drafts, limits."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from PIL import Image

from socialpub.simulator.contract import Call, FakeResponse, FetchedUrl, RefusedError
from socialpub.simulator.oauth import CLIENT_ID, CLIENT_SECRET
from socialpub.simulator.registry import FAKES
from socialpub.simulator.state import SimulatorState
from socialpub.simulator.tiktok import Tiktok
from tests.support.fixed_clock import FixedClock

VIDEO = b"\0\0\0\x18ftypisom" + bytes(4_999_988)
URL = "https://m.example.com/a.jpg"


class Client:
    """A creator's line to the fake."""

    def __init__(self) -> None:
        self.clock = FixedClock()
        self.lab = SimulatorState(self.clock, FAKES)
        fake = self.lab.fake("tiktok")
        assert isinstance(fake, Tiktok)
        self.fake = fake
        self.made = self.lab.add_account("tiktok", handle="ann", displayName="Ann")
        self.token = str(self.made["accessToken"])

    def call(self, operation: str, body: Any = None, **more: Any) -> FakeResponse:
        """One operation; a refusal is an answer, too."""
        (found,) = [each for each in self.fake.operations() if each.name == operation]
        headers = {"authorization": f"Bearer {self.token}"} | more.pop("headers", {})
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        call = Call(found.methods[0], found.path, "http://tiktok.test", headers=headers, body=content, **more)
        try:
            return found.handle(call)
        except RefusedError as refused:
            return refused.answer

    def open(self, size: int = len(VIDEO), chunk: int = 0, count: int = 1) -> FakeResponse:
        source = {"source": "FILE_UPLOAD", "video_size": size, "chunk_size": chunk or size, "total_chunk_count": count}
        return self.call("video.init", {"source_info": source})

    def photos(self, content: bytes, status: int = 200, **info: str) -> FakeResponse:
        source = {"source": "PULL_FROM_URL", "photo_cover_index": 0, "photo_images": [URL]}
        body = {"post_mode": "MEDIA_UPLOAD", "media_type": "PHOTO", "post_info": info, "source_info": source}
        return self.call("content.init", body, fetched={URL: FetchedUrl(status, content)})

    def put(
        self, opened: FakeResponse, content: bytes, first: int, total: int, kind: str = "video/mp4"
    ) -> FakeResponse:
        where = f"bytes {first}-{first + len(content) - 1}/{total}"
        parts = {"task": opened.body["data"]["upload_url"].rpartition("/")[2]}
        return self.call("video.upload", content, headers={"content-range": where, "content-type": kind}, parts=parts)

    def status(self, opened: FakeResponse) -> dict[str, Any]:
        return dict(self.call("status.fetch", {"publish_id": opened.body["data"]["publish_id"]}).body["data"])

    def wait(self) -> None:
        self.clock.ms += self.lab.settings.processing_ms


@pytest.fixture
def client() -> Client:
    return Client()


def code(answer: FakeResponse) -> tuple[int, str]:
    return answer.status, answer.body["error"]["code"]


def picture(kind: str = "JPEG") -> bytes:
    into = io.BytesIO()
    Image.new("RGB", (8, 8)).save(into, kind)
    return into.getvalue()


def test_a_video_is_delivered_once_its_last_part_is_there(client: Client) -> None:
    total = 2 * len(VIDEO) + 7_000
    client.lab.configure(processing_ms=500)
    opened = client.open(total, len(VIDEO), 2)
    assert client.put(opened, VIDEO, 0, total).status == 206
    assert client.status(opened) == {"status": "PROCESSING_UPLOAD", "uploaded_bytes": len(VIDEO)}
    assert client.lab.ledger.entries() == []
    assert client.put(opened, VIDEO + bytes(7_000), len(VIDEO), total).status == 201
    assert client.status(opened)["status"] == "PROCESSING_UPLOAD"
    client.wait()
    assert client.status(opened)["status"] == "SEND_TO_USER_INBOX"
    (entry,) = client.lab.ledger.entries("tiktok")
    assert (entry.kind, entry.media[0].size) == ("draft", total)
    post = client.fake.confirm(opened.body["data"]["publish_id"])
    found = client.status(opened)
    assert (found["status"], found["publicaly_available_post_id"]) == ("PUBLISH_COMPLETE", [int(post)])


@pytest.mark.parametrize(
    ("size", "chunk", "count"),
    [
        (99_999_999, 10_000_000, 10),
        (0, 0, 1),
        (20_000_000, 4_000_000, 5),
        (80_000_000, 80_000_000, 1),
        (10_000_000_000, 5_000_000, 2000),
    ],
)
def test_a_video_is_cut_by_the_rule(client: Client, size: int, chunk: int, count: int) -> None:
    assert code(client.open(size, chunk, count)) == (400, "invalid_params")


def test_parts_come_in_order_and_whole(client: Client) -> None:
    total = 3 * len(VIDEO)
    opened = client.open(total, len(VIDEO), 3)
    assert client.put(opened, VIDEO, len(VIDEO), total).status == 416
    assert client.put(opened, VIDEO[:-1], 0, total).status == 400
    assert client.put(opened, VIDEO, 0, total, "text/plain").status == 400
    assert client.put(opened, VIDEO, 0, total).status == 206
    again = client.put(opened, VIDEO, 0, total)
    assert (again.status, again.headers["content-range"]) == (416, f"bytes 0-{len(VIDEO) - 1}/{total}")


def test_an_address_for_an_upload_lasts_an_hour(client: Client) -> None:
    opened = client.open()
    client.clock.ms += 3_600_001
    assert client.put(opened, VIDEO, 0, len(VIDEO)).status == 403


def test_what_is_no_video_fails_after_its_upload(client: Client) -> None:
    opened = client.open(9)
    assert client.put(opened, b"not video", 0, 9).status == 201
    client.wait()
    assert client.status(opened) == {"status": "FAILED", "fail_reason": "file_format_check_failed", "uploaded_bytes": 9}
    assert client.lab.ledger.entries() == []


@pytest.mark.parametrize(
    ("content", "status", "reason"),
    [(b"", 404, "photo_pull_failed"), (b"", 0, "photo_pull_failed"), (picture("PNG"), 200, "file_format_check_failed")],
)
def test_photos_that_cannot_be_used_fail(client: Client, content: bytes, status: int, reason: str) -> None:
    opened = client.photos(content, status)
    client.wait()
    assert client.status(opened) == {"status": "FAILED", "fail_reason": reason}
    assert client.lab.ledger.entries() == []


def test_photos_carry_their_texts(client: Client) -> None:
    opened = client.photos(picture(), title="T", description="D")
    client.wait()
    assert client.status(opened) == {"status": "SEND_TO_USER_INBOX"}
    (entry,) = client.lab.ledger.entries()
    assert (entry.text, entry.request) == ("D", {"title": "T", "description": "D"})
    assert code(client.photos(picture(), title="🎉" * 46)) == (400, "invalid_params")


def test_photos_come_from_verified_addresses(client: Client) -> None:
    client.fake.verified = ("https://other.example/",)
    assert code(client.photos(picture())) == (403, "url_ownership_unverified")


def test_limits_allow_five_waiting_drafts_and_six_opened_a_minute(client: Client) -> None:
    client.lab.configure(rate_limits=True)
    assert [client.photos(picture()).status for _ in range(5)] == [200] * 5
    assert code(client.photos(picture())) == (403, "spam_risk_too_many_pending_share")
    assert code(client.photos(picture())) == (429, "rate_limit_exceeded")
    client.clock.ms += 86_400_001
    client.token = client.fake.server.issue(client.made["platformAccountId"], ("video.upload",)).access
    assert client.photos(picture()).status == 200


def test_a_cancelled_upload_fails_and_a_whole_one_cannot_be_cancelled(client: Client) -> None:
    opened, whole = client.open(), client.photos(picture())
    ids = [each.body["data"]["publish_id"] for each in (opened, whole)]
    assert code(client.call("cancel", {"publish_id": ids[0]})) == (200, "ok")
    assert code(client.call("cancel", {"publish_id": ids[1]})) == (400, "publish_not_cancellable")
    client.wait()
    assert client.status(opened)["fail_reason"] == "publish_cancelled"


def test_only_their_creator_asks_about_drafts(client: Client) -> None:
    opened = client.photos(picture())
    client.token = str(client.lab.add_account("tiktok", handle="bob")["accessToken"])
    found = client.call("status.fetch", {"publish_id": opened.body["data"]["publish_id"]})
    assert code(found) == (403, "token_not_authorized_for_specified_publish_id")
    assert code(client.call("status.fetch", {"publish_id": "x"})) == (400, "invalid_publish_id")
    client.lab.end_tokens("tiktok", "bob")
    assert code(client.call("status.fetch", {"publish_id": "x"})) == (401, "access_token_invalid")


def test_fields_of_a_creator_need_their_scopes(client: Client) -> None:
    answer = client.call("user.info", query={"fields": ["open_id,display_name,username"]})
    user = {"open_id": client.made["platformAccountId"], "display_name": "Ann", "username": "ann"}
    assert answer.body["data"] == {"user": user}
    client.token = client.fake.server.issue(user["open_id"], ("user.info.basic",)).access
    assert code(client.call("user.info", query={"fields": ["open_id,username"]})) == (401, "scope_not_authorized")
    assert code(client.open()) == (401, "scope_not_authorized")


def test_a_refresh_token_works_once_and_its_refusal_has_status_200(client: Client) -> None:
    app = f"client_key={CLIENT_ID}&client_secret={CLIENT_SECRET}"
    form = f"{app}&grant_type=refresh_token&refresh_token={client.made['refreshToken']}".encode()
    headers = {"content-type": "application/x-www-form-urlencoded"}
    first, second = (client.call("oauth.token", form, headers=headers) for _ in range(2))
    assert (first.status, first.body["expires_in"], first.body["refresh_expires_in"]) == (200, 7200, 15_552_000)
    assert (second.status, second.body["error"]) == (200, "invalid_grant")
