"""Fake X API: tokens, posts, media uploads, rate limits."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from socialpub.simulator.server import SimulatorThread
from socialpub.simulator.twitter.text import rewritten, weight
from tests.support.fixed_clock import NOON, FixedClock
from tests.support.platforms.meta_calls import jpeg, mp4

GIF = b"GIF89a" + bytes(20)


@dataclass
class Client:
    """Alice, without any connector."""

    simulator: SimulatorThread
    clock: FixedClock
    http: httpx.Client
    made: dict[str, Any]
    token: str = field(init=False)

    def __post_init__(self) -> None:
        self.token = self.made["accessToken"]

    @property
    def id(self) -> str:
        return str(self.made["platformAccountId"])

    @property
    def fake(self) -> Any:
        return self.simulator.lab.fake("twitter")

    def call(self, method: str, path: str, **sent: Any) -> httpx.Response:
        return self.http.request(method, f"/2/{path}", headers={"authorization": f"Bearer {self.token}"}, **sent)

    def post(self, **body: Any) -> httpx.Response:
        return self.call("POST", "tweets", json=body)

    def upload(self, content: bytes, category: str = "tweet_image") -> httpx.Response:
        return self.call("POST", "media/upload", data={"media_category": category}, files={"media": content})

    def begin(self, total: int, kind: str = "video/mp4", category: str = "tweet_video", **more: Any) -> httpx.Response:
        body = {"media_type": kind, "total_bytes": total, "media_category": category, **more}
        return self.call("POST", "media/upload/initialize", json=body)

    def append(self, id: str, index: object, content: bytes) -> httpx.Response:
        form = {"segment_index": str(index)}
        return self.call("POST", f"media/upload/{id}/append", data=form, files={"media": content})

    def finalize(self, id: str) -> httpx.Response:
        return self.call("POST", f"media/upload/{id}/finalize")

    def status(self, id: str, command: str = "STATUS") -> httpx.Response:
        return self.call("GET", "media/upload", params={"command": command, "media_id": id})

    def segmented(self, content: bytes, kind: str = "video/mp4", category: str = "tweet_video") -> str:
        """The id of an upload that is whole."""
        id = str(self.begin(len(content), kind, category).json()["data"]["id"])
        self.append(id, 0, content)
        assert self.finalize(id).status_code == 200
        return id

    def listed(self, **params: str) -> httpx.Response:
        return self.call("GET", f"users/{self.id}/tweets", params=params)


@pytest.fixture
def alice(simulator: SimulatorThread, clock: FixedClock) -> Iterator[Client]:
    made = simulator.lab.add_account("twitter", handle="alice", displayName="Alice")
    with httpx.Client(base_url=simulator.origin("twitter"), timeout=60, trust_env=False) as client:
        yield Client(simulator, clock, client, made)


def said(answer: httpx.Response) -> tuple[int, str]:
    """Status and the innermost words of a refusal."""
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    inner = body["errors"][0]["message"] if "errors" in body else body["detail"]
    return answer.status_code, inner


# --- Accounts and tokens -------------------------------------------------------------------------------------------


def test_an_account_comes_with_what_connects_it(alice: Client) -> None:
    extra = {"username": "alice", "subscriptionType": "None"}
    assert (alice.made["displayName"], alice.made["extra"]) == ("@alice", extra)
    assert alice.made["expiresAt"] == "2026-11-20T14:00:00.000Z"
    with pytest.raises(ValueError, match="taken"):
        alice.simulator.lab.add_account("twitter", handle="Alice")


def test_a_handle_becomes_a_name_that_x_would_take(simulator: SimulatorThread) -> None:
    assert simulator.lab.add_account("twitter", handle="demo.test-and-more")["username"] == "demo_test_and_m"


def test_a_user_shows_what_is_asked_for(alice: Client) -> None:
    data = {"id": alice.id, "name": "Alice", "username": "alice"}
    assert alice.call("GET", "users/me").json() == {"data": data}
    params = {"user.fields": "subscription_type,verified"}
    shown = alice.call("GET", "users/me", params=params).json()
    assert shown == {"data": data | {"subscription_type": "None", "verified": False}}
    assert said(alice.call("GET", "users/me", params={"user.fields": "shoe_size"}))[0] == 400


@pytest.mark.parametrize("path", ["users/me", "users/1/tweets", "media/upload"])
def test_a_token_that_does_not_count_is_unauthorized(alice: Client, path: str) -> None:
    alice.token = "made-up"
    assert said(alice.call("GET", path, params={"command": "STATUS"})) == (401, "Unauthorized")
    assert said(alice.post(text="hello")) == (401, "Unauthorized")


def test_a_scope_that_was_not_granted_is_forbidden(alice: Client) -> None:
    alice.token = alice.fake.people.server.issue(alice.id, ("tweet.read", "users.read")).access
    assert alice.listed().status_code == 200
    assert said(alice.post(text="hello")) == (403, "Forbidden")
    assert said(alice.upload(jpeg())) == (403, "Forbidden")


def test_tokens_of_one_account_can_be_ended(alice: Client) -> None:
    alice.simulator.lab.end_tokens("twitter", "alice")
    assert alice.post(text="hello").status_code == 401


# --- Posts -----------------------------------------------------------------------------------------------------------


def test_a_post_is_told_and_public(alice: Client) -> None:
    answer = alice.post(text="see example.com & more")
    data = answer.json()["data"]
    assert answer.status_code == 201
    assert data["edit_history_post_ids"] == [data["id"]]
    assert data["text"].startswith("see https://t.co/")
    assert data["text"].endswith(" &amp; more")
    (entry,) = alice.simulator.lab.ledger.entries("twitter")
    assert (entry.kind, entry.text, entry.remote_id) == ("post", "see example.com & more", data["id"])
    assert entry.url == f"https://x.com/alice/status/{data['id']}"
    assert entry.request == {"text": "see example.com & more"}


REFUSED: list[tuple[dict[str, Any], int, str]] = [
    ({}, 400, "Field required"),  # also beside media
    ({"text": "  "}, 400, "text field is required"),
    ({"text": 5}, 400, "Input should be a valid string"),
    ({"text": "x", "colour": "red"}, 400, "Extra inputs are not permitted"),
    ({"text": "a" * 281}, 403, "Your Tweet text is too long."),
    ({"text": "$AA or $BB"}, 400, "A post may contain a maximum of one cashtag."),
    ({"text": "x", "media": {"media_ids": []}}, 400, "List should have at least 1 item"),
    ({"text": "x", "media": {"media_ids": list("12345")}}, 400, "List should have at most 4 items"),
    ({"text": "x", "media": {"media_ids": ["1"]}}, 400, "Your media IDs are invalid."),
    ({"text": "x", "media": {"media_ids": ["1"]}, "quote_tweet_id": "1"}, 400, "media and quote_tweet_id exclude"),
    ({"text": "x", "reply": {"in_reply_to_tweet_id": "1"}}, 403, "You attempted to reply to a Tweet that is deleted"),
    ({"text": "x", "reply": {"in_reply_to_tweet_id": "one"}}, 400, "String should match pattern"),
    ({"text": "x", "quote_tweet_id": "1"}, 403, "You are not permitted to perform this action."),
    ({"text": "x", "reply_settings": "nobody"}, 400, "Input should be 'following'"),
]


@pytest.mark.parametrize(("body", "status", "words"), REFUSED)
def test_a_post_that_x_does_not_take_is_refused(alice: Client, body: dict[str, Any], status: int, words: str) -> None:
    found = said(alice.post(**body))
    assert (found[0], found[1][: len(words)]) == (status, words)
    assert alice.simulator.lab.ledger.entries("twitter") == []


def test_what_is_not_json_is_refused(alice: Client) -> None:
    assert said(alice.call("POST", "tweets", content=b"{bad"))[1].startswith("invalid JSON")


def test_the_same_words_are_a_duplicate_until_the_first_is_deleted(alice: Client) -> None:
    id = alice.post(text="hello").json()["data"]["id"]
    assert said(alice.post(text=" hello ")) == (403, "You are not allowed to create a Tweet with duplicate content.")
    assert alice.call("DELETE", f"tweets/{id}").json() == {"data": {"deleted": True}}
    assert said(alice.call("DELETE", f"tweets/{id}"))[0] == 403
    assert alice.post(text="hello").status_code == 201
    assert [entry.kind for entry in alice.simulator.lab.ledger.entries("twitter")] == ["post", "delete", "post"]


class Closed(dict[str, Any]):
    """What nobody goes through."""

    def values(self) -> Any:
        raise AssertionError("all posts were looked at")


def test_a_post_is_made_without_a_look_at_all_others(alice: Client) -> None:
    """Thousands of them would be what a benchmark measures."""
    alice.fake.posts.by_id = Closed()
    assert [alice.post(text=text).status_code for text in ("hello", "more", "hello")] == [201, 201, 403]


def test_the_same_words_with_media_are_another_post(alice: Client) -> None:
    for _ in range(2):
        id = alice.upload(jpeg()).json()["data"]["id"]
        assert alice.post(text="hello", media={"media_ids": [id]}).status_code == 201


def test_credits_are_used_up_by_posts_that_are_made(alice: Client) -> None:
    alice.fake.people.credits = 1
    alice.post(text="a" * 281)
    assert alice.post(text="hello").status_code == 201
    assert alice.post(text="more").status_code == 402
    assert alice.post(text="more").json()["title"] == "CreditsDepleted"


def test_every_answer_tells_its_window(alice: Client) -> None:
    alice.post(text="hello")
    headers = alice.post(text="hello").headers
    told = {name: headers[name] for name in headers if name.startswith("x-rate-limit") or name == "date"}
    assert told == {
        "x-rate-limit-limit": "100",
        "x-rate-limit-remaining": "98",
        "x-rate-limit-reset": str(NOON // 1000 + 900),
        "date": "Fri, 20 Nov 2026 12:00:00 GMT",
    }


def test_throttling_by_a_fault_is_told_in_the_same_headers(alice: Client) -> None:
    alice.simulator.lab.faults.add([{"fault": "status:429", "retryAfter": 60}])
    answer = alice.post(text="hello")
    assert (answer.status_code, answer.headers["x-rate-limit-remaining"]) == (429, "0")
    assert answer.headers["x-rate-limit-reset"] == str(NOON // 1000 + 60)
    assert "retry-after" not in answer.headers


# --- Lists -----------------------------------------------------------------------------------------------------------


def test_a_list_has_pages_newest_first(alice: Client) -> None:
    ids = [alice.post(text=f"post {number}").json()["data"]["id"] for number in range(7)]
    first = alice.listed(max_results="5").json()
    assert [post["id"] for post in first["data"]] == ids[:1:-1]
    assert set(first["data"][0]) == {"id", "text", "edit_history_tweet_ids"}
    rest = alice.listed(max_results="5", pagination_token=first["meta"]["next_token"]).json()
    assert [post["id"] for post in rest["data"]] == ids[1::-1]
    assert rest["meta"] == {"result_count": 2, "newest_id": ids[1], "oldest_id": ids[0]}


def test_a_list_begins_at_a_time(alice: Client) -> None:
    alice.post(text="old")
    alice.clock.ms += 1000
    assert alice.listed(start_time="2026-11-20T12:00:01Z").json() == {"meta": {"result_count": 0}}
    assert len(alice.listed(start_time="2026-11-20T12:00:00Z").json()["data"]) == 1


@pytest.mark.parametrize(
    "params",
    [
        {"max_results": "4"},
        {"max_results": "101"},
        {"start_time": "2026-11-20"},
        {"tweet.fields": "shoe_size"},
        {"post.fields": "note_tweet"},
        {"tweet.fields": "note_post"},
    ],
)
def test_a_list_that_is_asked_for_wrongly_is_refused(alice: Client, params: dict[str, str]) -> None:
    assert said(alice.listed(**params))[0] == 400


def test_a_strict_list_takes_one_spelling(alice: Client) -> None:
    alice.fake.posts.spelling = "post"
    assert said(alice.listed(**{"tweet.fields": "text"}))[0] == 400
    assert alice.listed(**{"post.fields": "text"}).status_code == 200


def test_a_stranger_has_no_list(alice: Client) -> None:
    assert said(alice.call("GET", "users/12/tweets"))[0] == 404


# --- Media -----------------------------------------------------------------------------------------------------------


def test_an_image_is_ready_at_once(alice: Client) -> None:
    picture = jpeg()
    data = alice.upload(picture).json()["data"]
    shown = {"id": data["id"], "media_key": f"3_{data['id']}", "size": len(picture), "expires_after_secs": 86_400}
    assert data == shown
    assert alice.status(data["id"]).json() == {"data": shown}


def test_an_image_may_come_as_base64(alice: Client) -> None:
    body = {"media": base64.b64encode(jpeg()).decode(), "media_category": "tweet_image"}
    assert alice.call("POST", "media/upload", json=body).status_code == 200
    assert said(alice.call("POST", "media/upload", json=body | {"media": "no!"})) == (400, "media is not base64")


@pytest.mark.parametrize(
    ("content", "category"),
    [(b"text", "tweet_image"), (jpeg() + bytes(5 << 20), "tweet_image"), (mp4(), "tweet_video"), (b"", "tweet_image")],
)
def test_what_is_no_image_does_not_go_up_in_one_call(alice: Client, content: bytes, category: str) -> None:
    assert said(alice.upload(content, category))[0] == 400


def test_a_video_is_processed_for_a_while(alice: Client) -> None:
    alice.simulator.lab.configure(processing_ms=2000)
    id = alice.segmented(mp4())
    seen = []
    for _ in range(3):
        seen.append(alice.status(id).json()["data"]["processing_info"]["state"])
        alice.clock.ms += 1000
    assert seen == ["pending", "in_progress", "succeeded"]
    assert alice.post(text="film", media={"media_ids": [id]}).status_code == 201


def test_media_that_are_not_ready_are_no_media(alice: Client) -> None:
    id = alice.segmented(mp4())
    assert said(alice.post(text="film", media={"media_ids": [id]})) == (400, "Your media IDs are invalid.")


@pytest.mark.parametrize(
    ("content", "kind", "category"), [(b"no film", "video/mp4", "tweet_video"), (b"no gif", "image/gif", "tweet_gif")]
)
def test_what_cannot_be_processed_fails(alice: Client, content: bytes, kind: str, category: str) -> None:
    id = alice.segmented(content, kind, category)
    alice.clock.ms += 1000
    info = alice.status(id).json()["data"]["processing_info"]
    assert (info["state"], info["error"]["name"]) == ("failed", "InvalidMedia")


def test_segments_may_come_again_and_must_be_whole(alice: Client) -> None:
    film = mp4(filler=3000)
    id = alice.begin(len(film)).json()["data"]["id"]
    assert said(alice.finalize(id))[1] == "The number of bytes uploaded does not match total_bytes."
    for index, part in ((0, b"wrong"), (1, film[2000:]), (0, film[:2000])):
        assert alice.append(id, index, part).json() == {"data": {"expires_at": NOON // 1000 + 86_400}}
    assert alice.finalize(id).json() == alice.finalize(id).json()
    assert said(alice.append(id, 2, b"more")) == (400, "the upload is over")


@pytest.mark.parametrize("index", [1000, -1, "x", ""])
def test_a_segment_has_a_number_below_a_thousand(alice: Client, index: object) -> None:
    id = alice.begin(10).json()["data"]["id"]
    assert said(alice.append(id, index, b"part"))[0] == 400


@pytest.mark.parametrize(
    "changed", [{"kind": "text/plain"}, {"total": -1}, {"total": 2**34 + 1}, {"category": "banner"}, {"colour": "red"}]
)
def test_an_upload_that_is_begun_wrongly_is_refused(alice: Client, changed: dict[str, Any]) -> None:
    assert said(alice.begin(**({"total": 10} | changed)))[0] == 400


def test_uploads_are_their_owners_and_last_a_day(alice: Client) -> None:
    id = alice.upload(jpeg()).json()["data"]["id"]
    bob = alice.simulator.lab.add_account("twitter", handle="bob")
    mine, alice.token = alice.token, bob["accessToken"]
    assert said(alice.status(id))[0] == 404
    assert said(alice.post(text="theirs", media={"media_ids": [id]}))[1] == "Your media IDs are invalid."
    alice.token = mine
    assert said(alice.status(id, command="FINALIZE")) == (400, "command must be STATUS")
    alice.clock.ms += 86_400_000
    alice.token = alice.fake.people.server.issue(alice.id, ("media.write",)).access
    assert said(alice.status(id))[0] == 404


def test_a_gif_stands_alone(alice: Client) -> None:
    gif, still = alice.segmented(GIF, "image/gif", "tweet_gif"), alice.upload(jpeg()).json()["data"]["id"]
    alice.clock.ms += 1000
    assert said(alice.post(text="both", media={"media_ids": [gif, still]}))[1].startswith("You may only attach")
    assert alice.post(text="one", media={"media_ids": [gif]}).status_code == 201


def test_alt_text_is_for_images(alice: Client) -> None:
    picture, film = alice.upload(jpeg()).json()["data"]["id"], alice.segmented(mp4())
    meta = {"alt_text": {"text": "a cat"}}
    answer = alice.call("POST", "media/metadata", json={"id": picture, "metadata": meta})
    assert answer.json() == {"data": {"id": picture, "associated_metadata": meta}}
    assert said(alice.call("POST", "media/metadata", json={"id": film, "metadata": meta}))[0] == 400
    long = {"alt_text": {"text": "a" * 1001}}
    assert said(alice.call("POST", "media/metadata", json={"id": picture, "metadata": long}))[0] == 400
    alice.post(text="", media={"media_ids": [picture]})
    (entry,) = alice.simulator.lab.ledger.entries("twitter")
    assert entry.media[0].alt == "a cat"


# --- Texts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("Hello, world! 👋", 16),
        ("https://example.com/very/long", 23),
        ("example.com", 23),
        ("a.b", 3),
        ("👨‍👩‍👧", 2),
        ("🇩🇪", 2),
        ("日本語", 6),
        ("cafe\u0301", 4),
        ("Hi http://test.co", 26),
    ],
)
def test_a_text_weighs_what_it_weighs_on_x(text: str, length: int) -> None:
    assert weight(text) == length


def test_links_are_shortened_and_the_rest_is_escaped() -> None:
    shown, links = rewritten("<a> example.com & https://b.org/c?d=e.", [])
    first, second = links
    assert shown == f"&lt;a&gt; {first.short} &amp; {second.short}."
    assert [link.target for link in links] == ["http://example.com", "https://b.org/c?d=e"]
