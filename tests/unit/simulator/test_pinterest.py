"""Fake Pinterest API: pins, boards, video uploads, login."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from socialpub.simulator.oauth import CLIENT_ID, CLIENT_SECRET
from socialpub.simulator.pinterest import Pinterest
from socialpub.simulator.pinterest.api import SCOPES
from socialpub.simulator.server import SimulatorThread
from tests.support.fixed_clock import FixedClock
from tests.support.platforms.meta_calls import jpeg, mp4

DAY = 86_400_000


@dataclass
class Client:
    """Alice at Pinterest, without any connector."""

    simulator: SimulatorThread
    clock: FixedClock
    http: httpx.Client
    made: dict[str, Any]

    @property
    def fake(self) -> Pinterest:
        found = self.simulator.lab.fake("pinterest")
        assert isinstance(found, Pinterest)
        return found

    @property
    def board(self) -> str:
        return str(self.made["boards"][0]["id"])

    def call(self, method: str, path: str, token: str = "", **sent: Any) -> httpx.Response:
        headers = {"authorization": f"Bearer {token or self.made['accessToken']}"}
        return self.http.request(method, f"/v5/{path}", headers=headers, **sent)

    def get(self, path: str, **params: Any) -> dict[str, Any]:
        return dict(self.call("GET", path, params=params).json())

    def pin(self, source: Any = None, **fields: Any) -> httpx.Response:
        body = {"board_id": self.board, "media_source": source or image()} | fields
        return self.call("POST", "pins", json={name: value for name, value in body.items() if value is not None})

    def refused(self, source: Any = None, **fields: Any) -> tuple[int, int, str]:
        answer = self.pin(source, **fields)
        return answer.status_code, answer.json()["code"], answer.json()["message"]

    def upload(self, content: bytes, **changes: Any) -> str:
        """The id of a video whose bytes are at the store."""
        opened = self.call("POST", "media", json={"media_type": "video"}).json()
        assert self.put(opened, content, **changes).status_code == 204
        return str(opened["media_id"])

    def put(self, opened: dict[str, Any], content: bytes, **changes: Any) -> httpx.Response:
        form = {**opened["upload_parameters"], **changes}
        return self.http.post(opened["upload_url"], data=form, files={"file": ("v", content, "video/mp4")})

    def token(self, **form: str) -> httpx.Response:
        return self.http.post("/v5/oauth/token", data=form, auth=(CLIENT_ID, CLIENT_SECRET))


def image(content: bytes | None = None, kind: str = "image/jpeg") -> dict[str, str]:
    data = base64.b64encode(jpeg() if content is None else content).decode()
    return {"source_type": "image_base64", "content_type": kind, "data": data}


@pytest.fixture
def alice(simulator: SimulatorThread, clock: FixedClock) -> Iterator[Client]:
    made = simulator.lab.add_account("pinterest", handle="alice", displayName="Alice", boards=("One", "Two"))
    with httpx.Client(base_url=simulator.origin("pinterest"), timeout=60, trust_env=False) as http:
        yield Client(simulator, clock, http, made)


# --- Pins ------------------------------------------------------------------------------------------------------------


def test_a_pin_is_public_at_once_and_its_link_is_not_its_address(alice: Client) -> None:
    answer = alice.pin(title="T", description="D", link="https://example.com", alt_text="A")
    (entry,) = alice.simulator.lab.ledger.entries("pinterest")
    body = answer.json()
    assert (answer.status_code, body["id"], body["link"]) == (201, entry.remote_id, "https://example.com")
    assert (body["is_owner"], body["creative_type"], body["created_at"][-1] != "Z") == (True, "REGULAR", True)
    assert (entry.text, entry.url, entry.media[0].alt) == ("D", f"https://www.pinterest.com/pin/{body['id']}/", "A")
    assert alice.get(f"pins/{body['id']}") == body


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"board_id": "bread"}, "does not match '^\\d+$'"),
        ({"board_id": None}, "does not match"),
        ({"title": "t" * 101}, "maxLength=100"),
        ({"description": "d" * 801}, "maxLength=800"),
        ({"link": "l" * 2049}, "maxLength=2048"),
        ({"alt_text": "a" * 501}, "maxLength=500"),
        ({"title": 5}, "title"),
        ({"media_source": "x"}, "media_source is required"),
        ({"source": {"source_type": "video"}}, "is not one of"),
        ({"source": {"source_type": "multiple_image_base64", "items": [image()]}}, "minItems=2, maxItems=5"),
        ({"source": {"source_type": "multiple_image_base64", "items": [image()] * 6}}, "minItems=2, maxItems=5"),
        ({"source": image(kind="image/webp")}, "content_type"),
        ({"source": image() | {"data": "%%"}}, "does not match '^[a-zA-Z0-9+/=]+$'"),
        ({"source": image(b"no picture")}, "could not read the image"),
        ({"source": {"source_type": "image_url", "url": "http://127.0.0.1:9/x"}}, "Unable to reach the URL"),
        ({"source": {"source_type": "video_id", "media_id": "1"}}, "not a video that has been processed"),
    ],
)
def test_what_is_not_as_described_is_refused_and_not_public(alice: Client, fields: dict[str, Any], words: str) -> None:
    status, _, message = alice.refused(**fields)
    assert (status, words in message) == (400, True), message
    assert alice.simulator.lab.ledger.entries("pinterest") == []


def test_what_is_no_json_is_refused(alice: Client) -> None:
    assert alice.call("POST", "pins", content=b"{").json()["code"] == 1
    assert alice.call("POST", "media", content=b"[]").json()["code"] == 1


def test_an_image_by_its_address_is_fetched_by_pinterest(alice: Client) -> None:
    source = {"source_type": "image_url", "url": f"{alice.simulator.url}/pages/a.png"}
    assert alice.pin(source).status_code == 201
    both = {"source_type": "multiple_image_urls", "items": [{"url": source["url"]}] * 2}
    assert alice.pin(both).json()["creative_type"] == "CAROUSEL"
    assert [len(entry.media) for entry in alice.simulator.lab.ledger.entries()] == [1, 2]


def test_boards_decide_who_may_pin(alice: Client) -> None:
    fake = alice.fake
    bob = fake.people.find(alice.simulator.lab.add_account("pinterest", handle="bob")["platformAccountId"])
    assert bob is not None
    theirs, secret = fake.boards.add(bob, "Bob's"), fake.boards.add(bob, "Hidden", privacy="SECRET")
    shared = fake.boards.add(bob, "Shared", members={alice.made["platformAccountId"]})
    ads = fake.boards.add(fake.people.by_id[alice.made["platformAccountId"]], "Ads", ads_only=True)
    assert alice.refused(board_id="1")[:2] == (404, 40)
    assert alice.refused(board_id=secret.id)[:2] == (404, 40)
    assert alice.refused(board_id=theirs.id)[:2] == (401, 7)
    assert alice.refused(board_id=ads.id)[:2] == (400, 1)
    assert alice.pin(board_id=shared.id).json()["board_owner"] == {"username": "bob"}
    assert [board["name"] for board in alice.get("boards")["items"]] == ["One", "Two", "Shared", "Ads"]
    assert alice.get(f"boards/{theirs.id}")["owner"] == {"username": "bob"}


def test_knobs_for_trial_access_spam_and_carousels(alice: Client) -> None:
    pins = alice.fake.pins
    pins.trial = True
    assert alice.refused()[:2] == (403, 29)
    pins.reset()
    pins.spammy = True
    assert "spam" in alice.pin().json()["message_detail"]
    pins.reset()
    pins.carousels = False
    assert "source_type" in alice.refused({"source_type": "multiple_image_base64", "items": [image()] * 2})[2]
    assert alice.simulator.lab.ledger.entries() == []


def test_lists_are_newest_first_lag_and_come_in_pages(alice: Client) -> None:
    ids = []
    for _ in range(3):
        ids.append(alice.pin().json()["id"])
        alice.clock.ms += 1000
    first = alice.get(f"boards/{alice.board}/pins", page_size=2)
    assert [pin["id"] for pin in first["items"]] == ids[:0:-1]
    last = alice.get(f"boards/{alice.board}/pins", page_size=2, bookmark=first["bookmark"])
    assert ([pin["id"] for pin in last["items"]], last["bookmark"]) == (ids[:1], None)
    alice.simulator.lab.configure(listLagMs=1500)
    assert [pin["id"] for pin in alice.get("pins")["items"]] == ids[1::-1]
    assert alice.get("pins", page_size=251)["code"] == 1
    assert alice.get("pins", bookmark="%")["code"] == 1


def test_a_deleted_pin_is_gone(alice: Client) -> None:
    pin = alice.pin().json()["id"]
    assert alice.call("DELETE", f"pins/{pin}").status_code == 204
    assert alice.get(f"pins/{pin}")["code"] == 50


# --- Videos ----------------------------------------------------------------------------------------------------------


def test_a_video_is_registered_then_processed_then_there(alice: Client) -> None:
    opened = alice.call("POST", "media", json={"media_type": "video"}).json()
    media = opened["media_id"]
    source = {"source_type": "video_id", "media_id": media, "cover_image_key_frame_time": 0}
    assert alice.get(f"media/{media}")["status"] == "registered"
    assert alice.put(opened, mp4()).status_code == 204
    assert (alice.get(f"media/{media}")["status"], alice.refused(source)[0]) == ("processing", 400)
    alice.clock.ms += 300
    assert alice.get("media")["items"] == [{"media_id": media, "media_type": "video", "status": "succeeded"}]
    assert alice.pin(source).json()["creative_type"] == "VIDEO"


def test_a_video_wants_a_cover(alice: Client) -> None:
    source: dict[str, Any] = {"source_type": "video_id", "media_id": alice.upload(mp4())}
    alice.clock.ms += 300
    assert "cover_image_url or cover_image_content_type" in alice.refused(source)[2]
    alice.fake.pins.covers = False
    assert "cover_image" in alice.refused(source | {"cover_image_key_frame_time": 0})[2]
    assert "Unable to reach" in alice.refused(source | {"cover_image_url": "http://127.0.0.1:9/x"})[2]
    assert alice.pin(source | {"cover_image_url": f"{alice.simulator.url}/pages/a.png"}).status_code == 201


def test_what_is_no_video_fails_and_so_does_one_that_the_lab_wants_to(alice: Client) -> None:
    alice.fake.media.failing = 1
    for content in (mp4(), b"no video"):
        media = alice.upload(content)
        alice.clock.ms += 300
        assert alice.get(f"media/{media}")["status"] == "failed"


def test_store_takes_the_signed_form_before_the_file_and_no_token(alice: Client) -> None:
    opened = alice.call("POST", "media", json={"media_type": "video"}).json()
    wrong = alice.put(opened, mp4(), policy="another")
    assert (wrong.status_code, "SignatureDoesNotMatch" in wrong.text) == (403, True)
    late = b'--b\r\nContent-Disposition: form-data; name="file"; filename="v"\r\n\r\nxx\r\n' + b"".join(
        f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in opened["upload_parameters"].items()
    )
    headers = {"content-type": "multipart/form-data; boundary=b"}
    assert alice.http.post("/upload/", content=late + b"--b--\r\n", headers=headers).status_code == 403
    assert alice.http.post("/upload/", content=b"--b--\r\n", headers=headers).status_code == 400
    assert alice.http.post("/upload/", content=b"x").status_code == 412
    assert alice.http.post("/upload/", headers={"authorization": "Bearer x"}).status_code == 400
    alice.clock.ms += 3_600_001
    assert "Policy expired" in alice.put(opened, mp4()).text


# --- Tokens and limits -----------------------------------------------------------------------------------------------


def test_tokens_that_do_not_count_or_lack_a_scope_are_refused(alice: Client) -> None:
    assert alice.http.get("/v5/boards").json() == {"code": 2, "message": "Authentication failed."}
    assert alice.call("GET", "boards", token="nonsense").status_code == 401
    person = alice.made["platformAccountId"]
    weak = alice.fake.people.server.issue(person, ("boards:read",)).access
    assert alice.call("GET", "boards", token=weak).status_code == 200
    assert alice.call("GET", "user_account", token=weak).json()["code"] == 3
    assert alice.call("POST", "pins", token=weak, json={}).status_code == 403
    alice.simulator.lab.end_tokens("pinterest", "alice")
    assert alice.call("GET", "boards").status_code == 401


def test_an_account_says_who_it_is(alice: Client) -> None:
    body = alice.get("user_account")
    assert (body["id"], body["username"]) == (alice.made["platformAccountId"], "alice")
    assert (body["business_name"], body["account_type"]) == ("Alice", "BUSINESS")


def test_a_consent_gives_tokens_and_a_refresh_token_works_once(alice: Client) -> None:
    uri = "https://a.example/cb"
    asked = {"client_id": CLIENT_ID, "redirect_uri": uri, "response_type": "code", "state": "s"}
    consent = alice.http.get("/oauth/", params=asked | {"scope": ",".join(SCOPES)})
    code = parse_qs(urlsplit(consent.headers["location"]).query)["code"][0]
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": uri}
    first = alice.token(**form).json()
    assert (first["expires_in"], first["response_type"]) == (2_592_000, "authorization_code")
    assert first["refresh_token_expires_at"] == alice.clock.ms // 1000 + 60 * 86_400
    again = {"grant_type": "refresh_token", "refresh_token": first["refresh_token"]}
    second = alice.token(**again).json()
    assert (second["response_type"], second["refresh_token"] != first["refresh_token"]) == ("refresh_token", True)
    assert alice.token(**again).status_code == 400
    alice.clock.ms += 60 * DAY
    assert alice.token(**again | {"refresh_token": second["refresh_token"]}).status_code == 400


def test_the_app_shows_its_credentials_by_basic_and_cannot_revoke(alice: Client) -> None:
    assert alice.http.post("/v5/oauth/token", data={"client_id": CLIENT_ID}).json()["code"] == 2
    revoked = alice.http.post(
        "/v5/oauth/token/revoke", data={"token": alice.made["accessToken"]}, auth=(CLIENT_ID, CLIENT_SECRET)
    )
    assert (revoked.status_code, revoked.json()["code"]) == (403, 29)
    assert alice.call("GET", "boards").status_code == 200


def test_writes_and_reads_are_limited_by_the_minute_when_the_lab_wants_it(alice: Client) -> None:
    assert "x-ratelimit-limit" not in alice.pin().headers
    alice.simulator.lab.configure(rateLimits=True)
    alice.fake.people.budgets["org_write"] = 2
    assert [alice.pin().headers["x-ratelimit-remaining"] for _ in "ab"] == ["1", "0"]
    alice.clock.ms += 20_000
    refused = alice.pin()
    assert (refused.status_code, refused.json()["code"], refused.headers["x-ratelimit-reset"]) == (429, 8, "40")
    assert alice.call("GET", "boards").headers["x-ratelimit-limit"] == "1000"
    alice.clock.ms += 40_000
    assert alice.pin().status_code == 201


def test_a_reset_forgets_pins_and_uploads_and_keeps_accounts(alice: Client) -> None:
    alice.pin()
    alice.upload(mp4())
    alice.simulator.lab.reset()
    assert (alice.get("pins")["items"], alice.get("media")["items"]) == ([], [])
    assert len(alice.get("boards")["items"]) == 2
