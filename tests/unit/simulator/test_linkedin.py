"""Fake LinkedIn API, checked against LinkedIn's documentation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from socialpub.simulator.linkedin.media import PART
from socialpub.simulator.linkedin.posts import shown
from socialpub.simulator.server import SimulatorThread

JPEG = b"\xff\xd8\xff and more"
MP4 = b"\0\0\0\x18ftypisom and more"


@pytest.mark.parametrize(
    ("commentary", "text"),
    [
        ("plain words", "plain words"),
        (r"50% \(today\) \*now\* \@bob C:\\temp", r"50% (today) *now* @bob C:\temp"),
        ("go #launch now", "go #launch now"),
        (r"see {hashtag|\#|launch} now", "see #launch now"),
        ("thanks @[Ann Ant](urn:li:person:a1)!", "thanks Ann Ant!"),
        ("Save 50% (today) and more", "Save 50% "),
        ("C# rocks", "C"),
        ("one\ntwo_three", "one\ntwo"),
        ("ends with \\", "ends with "),
    ],
)
def test_a_reserved_character_that_is_not_escaped_ends_the_text(commentary: str, text: str) -> None:
    assert shown(commentary) == text


class Client(httpx.Client):
    """A client of the fake with the headers that every call needs."""

    def __init__(self, simulator: SimulatorThread, made: dict[str, Any]) -> None:
        headers = {
            "Authorization": f"Bearer {made['accessToken']}",
            "LinkedIn-Version": "202609",
            "X-Restli-Protocol-Version": "2.0.0",
        }
        super().__init__(base_url=simulator.origin("linkedin"), headers=headers, trust_env=False)
        self.urn: str = made["platformAccountId"]

    def share(self, text: str = "hello", **changes: Any) -> httpx.Response:
        body = {
            "author": self.urn,
            "commentary": text,
            "visibility": "PUBLIC",
            "distribution": {"feedDistribution": "MAIN_FEED"},
            "lifecycleState": "PUBLISHED",
            **changes,
        }
        return self.post("/rest/posts", json=body)

    def begin(self, kind: str, **asked: Any) -> dict[str, Any]:
        body = {"initializeUploadRequest": {"owner": self.urn, **asked}}
        reply = self.post(f"/rest/{kind}?action=initializeUpload", json=body)
        return dict(reply.json()["value"])

    def finish(self, video: str, *parts: str) -> httpx.Response:
        asked = {"video": video, "uploadToken": "", "uploadedPartIds": list(parts)}
        return self.post("/rest/videos?action=finalizeUpload", json={"finalizeUploadRequest": asked})


@pytest.fixture
def simulator() -> Iterator[SimulatorThread]:
    with SimulatorThread(platforms=["linkedin"]) as running:
        running.lab.configure(processing_ms=0)
        yield running


@pytest.fixture
def member(simulator: SimulatorThread) -> Iterator[Client]:
    with Client(simulator, simulator.lab.add_account("linkedin", handle="ann")) as client:
        yield client


@pytest.fixture
def page(simulator: SimulatorThread) -> Iterator[Client]:
    with Client(simulator, simulator.lab.add_account("linkedin", handle="ant", kind="organization")) as client:
        yield client


def told(reply: httpx.Response) -> tuple[int, str]:
    return reply.status_code, reply.json()["code"]


def test_a_post_is_answered_without_a_body_and_named_in_a_header(simulator: SimulatorThread, member: Client) -> None:
    reply = member.share("hello (you)")
    assert (reply.status_code, reply.content) == (201, b"")
    (entry,) = simulator.lab.ledger.entries("linkedin")
    assert (entry.remote_id, entry.text) == (reply.headers["x-restli-id"], "hello ")


@pytest.mark.parametrize(
    ("header", "value", "expected"),
    [
        ("LinkedIn-Version", "", (400, "VERSION_MISSING")),
        ("LinkedIn-Version", "202511", (426, "NONEXISTENT_VERSION")),
        ("LinkedIn-Version", "209901", (426, "NONEXISTENT_VERSION")),
        ("X-Restli-Protocol-Version", "1.0.0", (400, "ILLEGAL_ARGUMENT")),
        ("Authorization", "Bearer nobody", (401, "INVALID_ACCESS_TOKEN")),
        ("Authorization", "", (401, "EMPTY_ACCESS_TOKEN")),
    ],
)
def test_every_call_goes_through_the_door(
    simulator: SimulatorThread, member: Client, header: str, value: str, expected: tuple[int, str]
) -> None:
    member.headers[header] = value
    assert told(member.share()) == expected
    assert simulator.lab.ledger.entries("linkedin") == []


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"commentary": " "}, "INVALID_VALUE_BLANK_FIELD"),
        ({"commentary": "a" * 3001}, "FIELD_LENGTH_TOO_LONG"),
        ({"visibility": "EVERYBODY"}, "INVALID_VALUE_FOR_FIELD"),
        ({"lifecycleState": "DRAFT"}, "INVALID_VALUE_FOR_FIELD"),
        ({"distribution": {}}, "INVALID_VALUE_FOR_FIELD"),
        ({"scheduledAt": 1}, "INVALID_VALUE_FOR_FIELD"),
        ({"content": {"media": {"id": "urn:li:image:none"}}}, "INVALID_URN_ID"),
        ({"content": {"multiImage": {"images": [{"id": "urn:li:image:none"}]}}}, "INVALID_VALUE_FOR_FIELD"),
    ],
)
def test_a_body_that_is_no_post_is_refused(member: Client, changes: dict[str, Any], code: str) -> None:
    assert told(member.share(**changes)) == (400, code)


def test_nobody_posts_for_another(simulator: SimulatorThread, member: Client, page: Client) -> None:
    assert told(member.share(author=page.urn)) == (403, "ACCESS_DENIED")
    assert told(member.share(author="urn:li:person:nobody")) == (403, "ACCESS_DENIED")
    fake: Any = simulator.lab.fake("linkedin")
    fake.people.behind(page.urn).roles[page.urn] = "ANALYST"
    assert told(page.share()) == (403, "ACCESS_DENIED")


def test_a_page_posts_for_everybody(page: Client) -> None:
    assert told(page.share(visibility="CONNECTIONS")) == (400, "INVALID_VALUE_FOR_FIELD")


@pytest.mark.slow
def test_the_same_again_is_a_duplicate_that_names_the_first(member: Client, page: Client) -> None:
    first = member.share().headers["x-restli-id"]
    again = member.share()
    assert told(again) == (422, "UNPROCESSABLE_ENTITY")
    assert again.json()["message"] == f"Content is a duplicate of {first}"
    assert (member.share("other").status_code, page.share().status_code) == (201, 201)


def test_members_write_images_and_cannot_read_them(member: Client) -> None:
    opened = member.begin("images")
    assert told(member.share(content={"media": {"id": opened["image"]}})) == (400, "MEDIA_ASSET_WAITING_UPLOAD")
    assert member.put(opened["uploadUrl"], content=JPEG).status_code == 201
    assert told(member.get(f"/rest/images/{opened['image']}")) == (403, "ACCESS_DENIED")
    assert member.share(content={"media": {"id": opened["image"], "altText": "a cat"}}).status_code == 201


def test_pages_see_what_became_of_their_images(simulator: SimulatorThread, page: Client) -> None:
    opened = page.begin("images")
    address = f"/rest/images/{opened['image'].replace(':', '%3A')}"
    assert page.get(address).json()["status"] == "WAITING_UPLOAD"
    simulator.lab.configure(processing_ms=60_000)
    page.put(opened["uploadUrl"], content=JPEG)
    assert page.get(address).json()["status"] == "PROCESSING"
    simulator.lab.configure(processing_ms=0)
    assert page.get(address).json()["status"] == "AVAILABLE"


def test_documents_are_pdfs_with_a_title_that_members_cannot_read(member: Client, page: Client) -> None:
    for owner, seen in ((member, 403), (page, 200)):
        opened = owner.begin("documents")
        owner.put(opened["uploadUrl"], content=b"%PDF-1.7")
        assert owner.get(f"/rest/documents/{opened['document']}").status_code == seen
        media = {"id": opened["document"]}
        assert told(owner.share(content={"media": media})) == (400, "MISSING_FIELD")
        assert owner.share(content={"media": media | {"title": "Menu"}}).status_code == 201
    opened = page.begin("documents")
    page.put(opened["uploadUrl"], content=JPEG)
    broken = page.share(content={"media": {"id": opened["document"], "title": "Menu"}})
    assert told(broken) == (400, "MEDIA_ASSET_PROCESSING_FAILED")


def test_what_is_no_image_cannot_be_posted(member: Client) -> None:
    opened = member.begin("images")
    member.put(opened["uploadUrl"], content=b"just words")
    assert told(member.share(content={"media": {"id": opened["image"]}})) == (400, "MEDIA_ASSET_PROCESSING_FAILED")


def test_media_are_their_owners(member: Client, page: Client) -> None:
    opened = page.begin("images")
    page.put(opened["uploadUrl"], content=JPEG)
    assert told(member.share(content={"media": {"id": opened["image"]}})) == (400, "INVALID_URN_ID")


def test_a_video_is_put_together_from_all_its_parts_in_order(simulator: SimulatorThread, member: Client) -> None:
    film = MP4 + bytes(PART)
    opened = member.begin("videos", fileSizeBytes=len(film))
    steps = [(step["firstByte"], step["lastByte"]) for step in opened["uploadInstructions"]]
    assert steps == [(0, PART - 1), (PART, len(film) - 1)]
    urls = [step["uploadUrl"] for step in opened["uploadInstructions"]]
    with httpx.Client(trust_env=False) as bare:
        assert bare.put(urls[0], content=film).status_code == 400
        assert member.put(urls[0], content=film[:PART]).status_code == 400  # a token beside the signature
        first = bare.put(urls[0], content=film[:PART]).headers["etag"].strip('"')
        assert told(member.finish(opened["video"], first)) == (400, "INVALID_VALUE_FOR_FIELD")
        second = bare.put(urls[1], content=film[PART:]).headers["etag"].strip('"')
    assert told(member.finish(opened["video"], second, first)) == (400, "INVALID_VALUE_FOR_FIELD")
    assert member.finish(opened["video"], first, second).status_code == 200
    assert member.get(f"/rest/videos/{opened['video']}").json()["status"] == "AVAILABLE"
    urn = member.share(content={"media": {"id": opened["video"]}}).headers["x-restli-id"]
    assert urn.startswith("urn:li:ugcPost:")
    (entry,) = simulator.lab.ledger.entries("linkedin")
    assert simulator.lab.blobs[entry.media[0].sha256].content == film


def test_only_pages_posts_can_be_listed(member: Client, page: Client) -> None:
    finder = {"X-RestLi-Method": "FINDER"}
    first, second = (page.share(text).headers["x-restli-id"] for text in ("one", "two"))
    listed = page.get("/rest/posts", params={"q": "author", "author": page.urn}, headers=finder).json()
    assert [post["id"] for post in listed["elements"]] == [second, first]
    told_page = page.get("/rest/posts", params={"q": "author", "author": page.urn, "count": "1"}, headers=finder)
    assert told_page.json()["paging"]["links"][0]["rel"] == "next"
    denied = member.get("/rest/posts", params={"q": "author", "author": member.urn}, headers=finder)
    assert told(denied) == (403, "ACCESS_DENIED")
    assert page.get(f"/rest/posts/{first}").json()["commentary"] == "one"


def test_a_post_can_be_deleted_more_than_once(simulator: SimulatorThread, member: Client) -> None:
    urn = member.share().headers["x-restli-id"]
    assert [member.delete(f"/rest/posts/{urn.replace(':', '%3A')}").status_code for _ in range(2)] == [204, 204]
    assert [entry.kind for entry in simulator.lab.ledger.entries("linkedin")] == ["post", "delete"]


def test_tokens_can_be_asked_about(simulator: SimulatorThread, member: Client) -> None:
    token = member.headers["Authorization"].partition(" ")[2]
    app = {"client_id": "simulator-app", "client_secret": "simulator-app-secret", "token": token}
    assert member.post("/oauth/v2/introspectToken", data=app).json()["status"] == "active"
    simulator.lab.end_tokens("linkedin", member.urn)
    assert member.post("/oauth/v2/introspectToken", data=app).json()["status"] == "expired"
    assert told(member.share()) == (401, "EXPIRED_ACCESS_TOKEN")
