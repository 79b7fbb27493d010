"""Fake Facebook, Instagram and Threads APIs."""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from socialpub.simulator.meta.graph import LONG_SECONDS
from socialpub.simulator.oauth import CLIENT_ID, CLIENT_SECRET
from socialpub.simulator.server import SimulatorThread
from tests.support.fixed_clock import FixedClock
from tests.support.platforms.meta_calls import jpeg, mp4

DAY = 86_400_000
V = {"facebook": "v26.0", "instagram": "v26.0", "threads": "v1.0"}


@dataclass
class Client:
    """Alice at one of the three, without any connector."""

    name: str
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
        return self.simulator.lab.fake(self.name)

    def call(self, method: str, path: str, **sent: Any) -> httpx.Response:
        headers = {"authorization": f"Bearer {self.token}"}
        return self.http.request(method, f"/{V[self.name]}/{path}", headers=headers, **sent)

    def get(self, path: str, **params: str) -> dict[str, Any]:
        return dict(self.call("GET", path, params=params).json())

    def post(self, edge: str, **form: str) -> dict[str, Any]:
        return dict(self.call("POST", f"{self.id}/{edge}", data=form).json())

    def refused(self, edge: str, **form: str) -> tuple[int, int | None]:
        """Code and subcode of a refusal."""
        return numbers(self.post(edge, **form))

    def finished(self, edge: str, **form: str) -> str:
        """The id of a container that is finished."""
        container = str(self.post(edge, **form)["id"])
        self.clock.ms += 300
        return container

    def public(self) -> list[tuple[str, str | None, str]]:
        return [(entry.kind, entry.text, entry.remote_id) for entry in self.simulator.lab.ledger.entries(self.name)]


def numbers(body: dict[str, Any]) -> tuple[int, int | None]:
    return body["error"]["code"], body["error"].get("error_subcode")


@pytest.fixture(params=["facebook", "instagram", "threads"])
def alice(request: pytest.FixtureRequest, simulator: SimulatorThread, clock: FixedClock) -> Iterator[Client]:
    made = simulator.lab.add_account(request.param, handle="alice", displayName="Alice")
    with httpx.Client(base_url=simulator.origin(request.param), timeout=60, trust_env=False) as http:
        yield Client(request.param, simulator, clock, http, made)


def only(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("alice", names, indirect=True)


@pytest.fixture
def picture(simulator: SimulatorThread) -> str:
    """The address of a PNG."""
    return f"{simulator.url}/pages/a.png"


# --- Graph -----------------------------------------------------------------------------------------------------------


def test_errors_have_graphs_shape(alice: Client) -> None:
    body = alice.get("123456")
    assert set(body["error"]) == {"message", "type", "code", "error_subcode", "is_transient", "fbtrace_id"}
    assert numbers(body) == (100, 33)
    assert numbers(alice.get("me", fields="id,nonsense")) == (100, None)


def test_tokens_that_do_not_count_are_refused_with_190_in_its_varieties(alice: Client) -> None:
    assert numbers(dict(alice.http.get(f"/{V[alice.name]}/me").json())) == (2500, None)
    assert alice.http.get(f"/{V[alice.name]}/me", params={"access_token": alice.token}).status_code == 200
    alice.simulator.lab.end_tokens(alice.name, "alice")
    expired = alice.call("GET", "me")
    assert (expired.status_code, numbers(dict(expired.json()))) == (401, (190, 463))
    alice.token = "nonsense"
    assert numbers(alice.get("me")) == (190, None)


def test_throttling_tells_of_itself_in_minutes(alice: Client) -> None:
    alice.simulator.lab.faults.add([{"fault": "status:429", "retryAfter": 90, "times": 1}])
    answer = alice.call("GET", "me")
    usage = json.loads(answer.headers["x-business-use-case-usage"])
    assert (answer.status_code, numbers(dict(answer.json()))) == (429, (4, None))
    assert usage["lab"][0]["estimated_time_to_regain_access"] == 2


def test_call_limit_is_reported_in_percent_and_enforced_on_request(alice: Client) -> None:
    edge = {"facebook": "published_posts", "instagram": "media", "threads": "threads"}[alice.name]
    assert "x-app-usage" not in alice.call("GET", f"{alice.id}/{edge}").headers
    alice.simulator.lab.configure(rateLimits=True)
    alice.fake.meter.budget = 2
    used = [json.loads(alice.call("GET", f"{alice.id}/{edge}").headers["x-app-usage"])["call_count"] for _ in "ab"]
    assert used == [50, 100]
    alice.clock.ms += 600_000
    refused = alice.call("GET", f"{alice.id}/{edge}")
    code = {"facebook": 80001, "instagram": 80002, "threads": 4}[alice.name]
    usage = json.loads(refused.headers["x-business-use-case-usage"])["lab"][0]
    assert (numbers(dict(refused.json()))[0], usage["estimated_time_to_regain_access"]) == (code, 50)
    alice.clock.ms += 3_000_000
    assert alice.call("GET", f"{alice.id}/{edge}").status_code == 200


def test_consent_gives_a_code_and_the_code_an_hour_long_token(alice: Client) -> None:
    head = f"/{V[alice.name]}" if alice.name == "facebook" else ""
    scopes = ",".join(alice.fake.people.scopes) if alice.name != "facebook" else "pages_show_list,pages_manage_posts"
    asked = {"client_id": CLIENT_ID, "redirect_uri": "https://a.example/cb", "response_type": "code", "state": "s"}
    path = "/dialog/oauth" if head else "/oauth/authorize"
    consent = alice.http.get(head + path, params=asked | {"scope": scopes})
    back = urlsplit(consent.headers["location"])
    assert back.fragment == ("_=_" if head else "_")
    form = {"client_id": CLIENT_ID, "client_secret": CLIENT_SECRET, "redirect_uri": "https://a.example/cb"}
    form |= {"grant_type": "authorization_code", "code": parse_qs(back.query)["code"][0]}
    body = alice.http.post(f"{head}/oauth/access_token", data=form).json()
    body = body["data"][0] if alice.name == "instagram" else body
    again = alice.http.post(f"{head}/oauth/access_token", data=form).json()
    assert "error" in again if head else again["error_type"] == "OAuthException"
    alice.token = body["access_token"]
    assert "id" in alice.get("me")
    alice.clock.ms += 5_400_000
    assert numbers(alice.get("me")) == (190, 463)


def test_lists_are_cut_into_pages_whose_next_address_holds_the_token(alice: Client) -> None:
    alice.simulator.lab.configure(listLimit=2, processingMs=0)
    edge = {"facebook": "published_posts", "instagram": "media", "threads": "threads"}[alice.name]
    for number in range(3):
        publish(alice, f"post {number}")
        alice.clock.ms += 1000
    first = alice.get(f"{alice.id}/{edge}", fields="id")
    assert len(first["data"]) == 2
    assert parse_qs(urlsplit(first["paging"]["next"]).query)["access_token"] == [alice.token]
    rest = alice.get(f"{alice.id}/{edge}", fields="id", after=first["paging"]["cursors"]["after"])
    assert (len(rest["data"]), "next" in rest["paging"]) == (1, False)
    later = alice.get(f"{alice.id}/{edge}", fields="id", since=str(alice.clock.ms // 1000 - 1))
    assert later["data"] == first["data"][:1]


def publish(alice: Client, text: str) -> dict[str, Any]:
    if alice.name == "facebook":
        return alice.post("feed", message=text)
    if alice.name == "threads":
        container = alice.finished("threads", media_type="TEXT", text=text)
        return alice.post("threads_publish", creation_id=container)
    container = alice.finished("media", image_url=kept(alice), caption=text)
    return alice.post("media_publish", creation_id=container)


# --- Containers ------------------------------------------------------------------------------------------------------


@only("instagram", "threads")
def test_container_is_delayed_published_once_and_expires_after_a_day(alice: Client) -> None:
    edge, field_ = ("threads", "status") if alice.name == "threads" else ("media", "status_code")
    form = {"media_type": "TEXT", "text": "hi"} if alice.name == "threads" else {"image_url": kept(alice)}
    unready = (24, 4279009) if alice.name == "threads" else (9007, 2207027)
    container = str(alice.post(edge, **form)["id"])
    assert alice.get(container, fields=field_)[field_] == "IN_PROGRESS"
    assert alice.refused(f"{edge}_publish", creation_id=container) == unready
    alice.clock.ms += 300
    assert alice.get(container, fields=field_)[field_] == "FINISHED"
    post = alice.post(f"{edge}_publish", creation_id=container)["id"]
    assert alice.get(container, fields=field_)[field_] == "PUBLISHED"
    assert alice.refused(f"{edge}_publish", creation_id=container) == (100, None)
    assert numbers(alice.get(post, fields=field_)) == (100, None)
    assert len(alice.public()) == 1
    old = alice.finished(edge, **form)
    alice.clock.ms += DAY
    assert alice.get(old, fields=field_)[field_] == "EXPIRED"
    assert alice.refused(f"{edge}_publish", creation_id=old) == unready


def kept(alice: Client, content: bytes = b"", kind: str = "image/jpeg") -> str:
    """The address of a medium, served by the lab itself."""
    medium = alice.simulator.lab.add_medium(content or jpeg(), kind)
    return f"{alice.simulator.url}/lab/blobs/{medium.sha256}"


@only("instagram", "threads")
def test_a_container_of_somebody_else_cannot_be_used(alice: Client) -> None:
    edge = "threads" if alice.name == "threads" else "media"
    form = {"media_type": "TEXT", "text": "hi"} if alice.name == "threads" else {"image_url": kept(alice)}
    container = alice.finished(edge, **form)
    alice.made = alice.simulator.lab.add_account(alice.name, handle="bob")
    alice.token = alice.made["accessToken"]
    assert "error" in alice.post(f"{edge}_publish", creation_id=container)
    assert numbers(alice.get(container)) == (100, 33)
    assert alice.public() == []


@only("instagram", "threads")
def test_a_days_quota_is_counted_and_enforced(alice: Client) -> None:
    alice.fake.made.quota = 1
    limit = "threads_publishing_limit" if alice.name == "threads" else "content_publishing_limit"
    assert alice.get(f"{alice.id}/{limit}", fields="quota_usage")["data"] == [{"quota_usage": 0}]
    publish(alice, "one")
    assert numbers(publish(alice, "two")) == (9, 2207042)
    assert alice.get(f"{alice.id}/{limit}", fields="quota_usage,config")["data"][0] == {
        "quota_usage": 1,
        "config": {"quota_total": 1, "quota_duration": 86_400},
    }
    alice.clock.ms += DAY
    assert "id" in publish(alice, "three")
    assert [text for _, text, _ in alice.public()] == ["one", "three"]


@only("instagram", "threads")
def test_a_token_is_exchanged_for_sixty_days_and_renewed_after_one(alice: Client) -> None:
    prefix = "th" if alice.name == "threads" else "ig"
    renew = {"grant_type": f"{prefix}_refresh_token", "access_token": alice.token}
    assert numbers(dict(alice.http.get("/refresh_access_token", params=renew).json()))[0] == 100
    alice.clock.ms += DAY
    body = alice.http.get("/refresh_access_token", params=renew).json()
    assert (body["token_type"], body["expires_in"]) == ("bearer", LONG_SECONDS)
    wrong = {"grant_type": f"{prefix}_exchange_token", "access_token": alice.token, "client_secret": "wrong"}
    assert numbers(dict(alice.http.get("/access_token", params=wrong).json()))[0] == 101
    alice.clock.ms += (LONG_SECONDS + 1) * 1000
    assert numbers(dict(alice.http.get("/refresh_access_token", params=renew).json())) == (190, 463)


@only("threads")
def test_threads_says_what_a_token_may_do(alice: Client) -> None:
    told = alice.get("debug_token", input_token=alice.token)["data"]
    assert (told["is_valid"], told["user_id"], told["type"]) == (True, alice.id, "USER")
    assert told["scopes"] == ["threads_basic", "threads_content_publish", "threads_manage_replies", "threads_delete"]
    assert alice.get("debug_token", input_token="made-up")["data"] == {
        "type": "USER",
        "application": "Lab",
        "is_valid": False,
        "scopes": [],
    }
    alice.simulator.lab.end_tokens("threads")
    assert numbers(alice.get("debug_token", input_token=alice.token)) == (190, 463)


@only("threads")
def test_threads_refuses_what_its_guide_forbids(alice: Client, picture: str) -> None:
    links = " ".join(f"https://example.com/{number}" for number in range(6))
    for form in (
        {"media_type": "STORY"},
        {"media_type": "TEXT", "text": " "},
        {"media_type": "TEXT", "text": "x" * 501},
        {"media_type": "TEXT", "text": "🎉" * 126},
        {"media_type": "TEXT", "text": links},
        {"media_type": "TEXT", "text": "x", "alt_text": "y"},
        {"media_type": "TEXT", "text": "x", "reply_to_id": "1"},
        {"media_type": "IMAGE", "image_url": f"{picture}x/y"},
        {"media_type": "IMAGE"},
        {"media_type": "VIDEO"},
        {"media_type": "CAROUSEL", "children": ""},
    ):
        assert alice.refused("threads", **form)[0] == 100, form
    assert "id" in alice.post("threads", media_type="TEXT", text="🎉" * 125)
    assert "id" in alice.post("threads", media_type="IMAGE", image_url=picture, alt_text="y" * 1000)


@only("threads")
def test_a_video_that_cannot_be_had_or_used_fails_in_its_container(alice: Client, picture: str) -> None:
    for url, why in (
        (f"{alice.simulator.url}/nothing", "FAILED_DOWNLOADING_VIDEO"),
        (picture, "FAILED_PROCESSING_VIDEO"),
    ):
        container = alice.finished("threads", media_type="VIDEO", video_url=url)
        state = alice.get(container, fields="status,error_message")
        assert state == {"id": container, "status": "ERROR", "error_message": why}


@only("threads")
def test_a_post_can_be_deleted_by_its_owner_once(alice: Client) -> None:
    post = str(publish(alice, "going")["id"])
    assert alice.call("DELETE", post).json() == {"success": True, "deleted_id": post}
    assert numbers(dict(alice.call("DELETE", post).json())) == (100, 33)
    assert alice.get(f"{alice.id}/threads")["data"] == []
    assert [kind for kind, _, _ in alice.public()] == ["post", "delete"]


@only("instagram")
def test_instagram_refuses_what_its_guide_forbids(alice: Client, picture: str) -> None:
    image = kept(alice)
    for form, expected in (
        ({"image_url": picture}, (36001, 2207005)),
        ({"image_url": f"{alice.simulator.url}/nothing"}, (9004, 2207052)),
        ({"image_url": kept(alice, jpeg(100, 20))}, (36003, 2207009)),
        ({"image_url": image, "caption": "x" * 2201}, (36004, 2207010)),
        ({"image_url": image, "caption": "@a " * 21}, (100, 2207040)),
        ({"image_url": image, "media_type": "PICTURE"}, (100, 2207023)),
        ({"media_type": "VIDEO", "video_url": image}, (100, 2207067)),
        ({"media_type": "REELS", "video_url": image, "is_carousel_item": "true"}, (100, 2207023)),
        ({"media_type": "REELS", "video_url": image, "alt_text": "x"}, (100, None)),
        ({"media_type": "REELS", "video_url": image, "cover_url": f"{alice.simulator.url}/no"}, (9004, 2207052)),
        ({"media_type": "CAROUSEL", "children": ""}, (100, 2207028)),
        ({}, (100, None)),
    ):
        assert alice.refused("media", **form) == expected, form
    failed = alice.finished("media", media_type="REELS", video_url=image)
    assert alice.get(failed, fields="status")["status"] == "Error: Media upload has failed with error code 2207026"


@only("instagram")
def test_a_carousel_has_finished_items_made_for_it(alice: Client) -> None:
    child, alone = {"image_url": kept(alice), "is_carousel_item": "true"}, {"image_url": kept(alice)}
    single = alice.finished("media", **alone)
    first, second = alice.finished("media", **child), str(alice.post("media", **child)["id"])
    assert alice.refused("media", media_type="CAROUSEL", children=f"{first},{single}") == (100, None)
    assert alice.refused("media", media_type="CAROUSEL", children=f"{first},{second}") == (9007, 2207027)
    assert alice.refused("media", media_type="CAROUSEL", children=",".join([first] * 11)) == (100, 2207028)
    alice.clock.ms += 300
    whole = alice.finished("media", media_type="CAROUSEL", children=f"{first},{second}", caption="both")
    alice.post("media_publish", creation_id=whole)
    (entry,) = alice.simulator.lab.ledger.entries("instagram")
    assert (entry.text, len(entry.media)) == ("both", 2)


# --- Pages -----------------------------------------------------------------------------------------------------------


def uploaded(alice: Client, published: str = "false") -> dict[str, Any]:
    files = {"source": ("a.jpg", jpeg(), "image/jpeg")}
    form = {"published": published, "caption": "alone"}
    return dict(alice.call("POST", f"{alice.id}/photos", data=form, files=files).json())


def attached(*photos: str) -> dict[str, str]:
    return {f"attached_media[{index}]": json.dumps({"media_fbid": id}) for index, id in enumerate(photos)}


@only("facebook")
def test_a_photo_waits_a_day_for_its_post_and_stands_in_one_only(alice: Client) -> None:
    photo = uploaded(alice)["id"]
    assert alice.public() == []
    post = alice.post("feed", message="with a photo", **attached(photo))["id"]
    assert alice.public() == [("post", "with a photo", post)]
    assert alice.refused("feed", message="again", **attached(photo)) == (1, 1366051)
    late = uploaded(alice)["id"]
    alice.clock.ms += DAY
    assert alice.refused("feed", message="late", **attached(late)) == (100, None)
    assert "post_id" in uploaded(alice, "true")


@only("facebook")
def test_posts_that_facebook_refuses(alice: Client) -> None:
    nothing = f"{alice.simulator.url}/nothing"
    for form, expected in (
        ({}, (100, None)),
        ({"message": "x" * 63_207}, (100, None)),
        ({"link": "https://www.facebook.com/a"}, (100, 1609008)),
        ({"link": nothing}, (1, 1609005)),
        (attached("1"), (100, None)),
        ({"attached_media[0]": "nonsense"}, (100, None)),
    ):
        assert alice.refused("feed", **form) == expected, form
    assert alice.refused("photos", url=nothing) == (324, 2069019)
    assert alice.refused("videos", file_url=nothing) == (389, None)
    assert "id" in alice.post("feed", message="x")
    assert alice.refused("feed", message="x") == (506, None)
    alice.clock.ms += 60_000
    assert "id" in alice.post("feed", message="x")


@only("facebook")
def test_a_video_goes_up_in_order_and_is_public_once_it_is_processed(alice: Client) -> None:
    alice.fake.videos.piece = 6000
    film = mp4()
    begun = alice.post("videos", upload_phase="start", file_size=str(len(film)))
    session = {"upload_session_id": begun["upload_session_id"]}
    assert (begun["start_offset"], begun["end_offset"]) == ("0", str(min(6000, len(film))))
    assert alice.refused("videos", upload_phase="finish", **session) == (6000, 1363033)

    def transfer(start: int, end: int) -> dict[str, Any]:
        form = {"upload_phase": "transfer", "start_offset": str(start), **session}
        files = {"video_file_chunk": ("v", film[start:end], "video/mp4")}
        return dict(alice.call("POST", f"{alice.id}/videos", data=form, files=files).json())

    wrong = transfer(10, 20)
    assert numbers(wrong) == (6000, 1363037)
    assert wrong["error"]["error_data"]["start_offset"] == "0"
    place = {"start_offset": "0", "end_offset": begun["end_offset"]}
    while place["start_offset"] != place["end_offset"]:
        place = transfer(int(place["start_offset"]), int(place["end_offset"]))
    assert alice.get(begun["video_id"], fields="status")["status"]["video_status"] == "upload_complete"
    assert alice.public() == []
    assert alice.post("videos", upload_phase="finish", description="film", **session) == {"success": True}
    state = alice.get(begun["video_id"], fields="status,published,permalink_url")
    assert (state["status"]["video_status"], state["published"], alice.public()) == ("processing", False, [])
    alice.clock.ms += 300
    state = alice.get(begun["video_id"], fields="status,published")
    assert (state["status"]["publishing_phase"]["publish_status"], state["published"]) == ("published", True)
    assert alice.public() == [("post", "film", begun["video_id"])]
    assert "error" in alice.post("videos", upload_phase="finish", **session)


@only("facebook")
def test_a_story_takes_a_whole_video_once_and_shows_it_when_processed(alice: Client) -> None:
    film, host = mp4(), alice.simulator.origin("facebook")
    begun = alice.post("video_stories", upload_phase="start")
    finish = {"upload_phase": "finish", "video_id": begun["video_id"]}
    assert begun["upload_url"].startswith(f"{host}/video-upload/")
    assert alice.refused("video_stories", **finish) == (6000, 1363033)
    assert alice.refused("video_stories", upload_phase="finish", video_id="1") == (100, None)

    def send(offset: int) -> Any:
        sent = {"Authorization": f"OAuth {alice.token}", "offset": str(offset), "file_size": str(len(film))}
        return httpx.post(begun["upload_url"], headers=sent, content=film[offset:], trust_env=False).json()

    assert send(7)["debug_info"]["type"] == "OffsetInvalidError"
    assert send(0) == {"success": True}
    done = alice.post("video_stories", **finish)
    assert alice.refused("video_stories", **finish) == (6000, 1363033)
    assert alice.get(f"{alice.id}/stories")["data"] == []
    alice.clock.ms += 300
    (story,) = alice.get(f"{alice.id}/stories", fields="post_id,media_id,media_type")["data"]
    assert (story["post_id"], story["media_id"]) == (done["post_id"], begun["video_id"])
    assert alice.public() == [("post", "", done["post_id"])]


@only("facebook")
def test_failing_video_reports_late_and_is_never_public(alice: Client) -> None:
    film = mp4()
    begun = alice.post("videos", upload_phase="start", file_size=str(len(film)))
    session = {"upload_session_id": begun["upload_session_id"]}
    form = {"upload_phase": "transfer", "start_offset": "0", **session}
    alice.call("POST", f"{alice.id}/videos", data=form, files={"video_file_chunk": ("v", film, "video/mp4")})
    alice.fake.videos.failing.append("too odd")
    alice.post("videos", upload_phase="finish", **session)
    assert alice.get(begun["video_id"], fields="status")["status"]["video_status"] == "processing"
    alice.clock.ms += 300
    status = alice.get(begun["video_id"], fields="status")["status"]
    assert (status["video_status"], status["processing_phase"]["error"]["message"]) == ("error", "too odd")
    assert alice.public() == []


@only("facebook")
def test_portfolio_pages_are_listed_only_by_it_and_to_permitted_logins(alice: Client) -> None:
    made = alice.simulator.lab.add_account("facebook", handle="eve", pages=2, portfolio="client")
    alice.token = made["userToken"]
    assert alice.get("me/accounts")["data"] == []
    (portfolio,) = alice.get("me/businesses")["data"]
    assert alice.get(f"{portfolio['id']}/owned_pages")["data"] == []
    shown = alice.get(f"{portfolio['id']}/client_pages", fields="id,name,access_token")["data"]
    assert [(page["name"], bool(page["access_token"])) for page in shown] == [("eve", True), ("eve 2", True)]
    alice.token = alice.simulator.lab.add_account("facebook", handle="lone")["userToken"]
    assert alice.get("me/businesses")["data"] == []
    assert numbers(alice.get(f"{portfolio['id']}/client_pages")) == (100, 33)
    alice.token = alice.fake.pages.server.issue(made["userId"], ("pages_show_list",)).access
    assert numbers(alice.get("me/businesses")) == (10, None)


@only("facebook")
def test_a_proof_has_to_be_right_and_may_be_demanded(alice: Client) -> None:
    right = hmac.new(CLIENT_SECRET.encode(), alice.token.encode(), "sha256").hexdigest()
    assert alice.get("me", appsecret_proof=right)["id"] == alice.id
    assert numbers(alice.get("me", appsecret_proof="0" * 64)) == (100, None)
    alice.fake.pages.secret_required = True
    assert "require an appsecret_proof" in alice.get("me")["error"]["message"]
    assert alice.get("me", appsecret_proof=right)["id"] == alice.id


@only("facebook")
def test_a_page_is_published_to_with_its_own_token_and_task_only(alice: Client) -> None:
    made = alice.simulator.lab.add_account("facebook", handle="eve", pages=2, tasks=["ANALYZE"])
    assert alice.call("POST", f"{made['platformAccountId']}/feed", data={"message": "x"}).status_code == 403
    alice.made, alice.token = made, made["accessToken"]
    assert alice.refused("feed", message="x") == (200, None)
    alice.token = made["userToken"]
    assert alice.refused("feed", message="x") == (200, None)
    rows = alice.get("me/accounts", fields="id,name,tasks,access_token")["data"]
    assert [(row["name"], row["tasks"]) for row in rows] == [("eve", ["ANALYZE"]), ("eve 2", ["ANALYZE"])]
    assert rows[0]["access_token"] == made["accessToken"]


@only("facebook")
def test_page_token_ends_with_a_short_login_and_never_with_a_long_one(alice: Client) -> None:
    alice.clock.ms += 400 * DAY
    assert "id" in alice.post("feed", message="still here")
    short = alice.fake.pages.server.issue(alice.made["userId"], ["pages_show_list", "pages_manage_posts"]).access
    alice.token = short
    page = alice.get("me/accounts", fields="id,access_token")["data"][0]
    alice.token = page["access_token"]
    assert "id" in alice.post("feed", message="hello")
    alice.clock.ms += 5_400_000
    assert alice.refused("feed", message="hello again") == (190, 463)
