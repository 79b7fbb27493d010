"""Control app of the simulator: ledger page, lab JSON API, pages for link cards."""

from __future__ import annotations

import hashlib
import io
from typing import Any

import httpx
import pytest
from PIL import Image

from socialpub.simulator.link_pages import png
from tests.support.bluesky_user import KEY, BlueskyUser, make_record
from tests.support.fixed_clock import NOON


def test_the_page_says_that_nothing_has_been_published(control: httpx.Client, alice: BlueskyUser) -> None:
    page = control.get("/")
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "Nothing has been published yet." in page.text
    assert alice.simulator.origin("bluesky") in page.text


def test_the_page_shows_the_newest_post_first_with_its_image(control: httpx.Client, alice: BlueskyUser) -> None:
    alice.put("the first", rkey="3n2qaial32p6v")
    image = {"image": alice.upload(png("dot")), "alt": "a dot"}
    embed = {"$type": "app.bsky.embed.images", "images": [image]}
    alice.write("createRecord", make_record("the second", embed=embed))
    page = control.get("/").text
    assert page.index("the second") < page.index("the first")
    sha256 = hashlib.sha256(png("dot")).hexdigest()
    assert f'<img src="/lab/blobs/{sha256}" alt="a dot" dir="auto">' in page
    shown = control.get(f"/lab/blobs/{sha256}")
    assert (shown.content, shown.headers["content-type"]) == (png("dot"), "image/png")
    assert shown.headers["x-content-type-options"] == "nosniff"


def test_the_page_escapes_what_was_posted_and_allows_no_script(control: httpx.Client, alice: BlueskyUser) -> None:
    alice.put("<script>alert(1)</script>")
    page = control.get("/")
    assert "<script" not in page.text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert control.get("/lab/page.css").headers["content-type"] == "text/css; charset=utf-8"


def test_the_page_shows_a_hundred_entries_and_says_how_many_are_older(
    control: httpx.Client, alice: BlueskyUser
) -> None:
    for number in range(102):
        alice.write("createRecord", make_record(f"number {number}"))
    page = control.get("/").text
    assert (page.count("<article"), "number 101" in page, "And 2 older" in page) == (100, True, True)


def test_a_blob_that_is_no_image_is_not_shown(control: httpx.Client, alice: BlueskyUser) -> None:
    medium = alice.simulator.lab.add_medium(b"<script>", "text/html")
    answers = [control.get(f"/lab/blobs/{name}") for name in (medium.sha256, "unknown")]
    assert [(answer.status_code, answer.json()["error"]) for answer in answers] == [
        (404, "there is no such image or video")
    ] * 2


def test_the_ledger_is_json(control: httpx.Client, alice: BlueskyUser) -> None:
    alice.put("one")
    alice.put("two", rkey="3n2qaialwncul")
    assert [entry["text"] for entry in control.get("/lab/ledger").json()] == ["one", "two"]
    assert [entry["n"] for entry in control.get("/lab/ledger", params={"since": 1}).json()] == [2]
    assert control.get("/lab/ledger", params={"platform": "twitter"}).json() == []
    [first, _] = control.get("/lab/ledger", params={"account": alice.did}).json()
    assert first == {
        "n": 1,
        "at_ms": NOON,
        "platform": "bluesky",
        "account": alice.did,
        "kind": "post",
        "remote_id": f"at://{alice.did}/app.bsky.feed.post/{KEY}",
        "url": f"https://bsky.app/profile/{alice.did}/post/{KEY}",
        "text": "one",
        "media": [],
        "request": {"repo": alice.did, "collection": "app.bsky.feed.post", "rkey": KEY, "record": make_record("one")},
    }


def test_every_call_is_written_down(control: httpx.Client, alice: BlueskyUser) -> None:
    control.post("/lab/faults", json=[{"fault": "status:503", "operation": "*.putRecord"}])
    alice.put()
    alice.client.get("/xrpc/com.atproto.identity.resolveHandle?handle=alice.test")
    alice.client.get("/a/b")
    calls = control.get("/lab/calls").json()
    shown = [(call["operation"], call["method"], call["path"], call["status"], call["fault"]) for call in calls[1:]]
    assert shown == [
        ("com.atproto.repo.putRecord", "POST", "/xrpc/com.atproto.repo.putRecord", 503, "status:503"),
        (
            "com.atproto.identity.resolveHandle",
            "GET",
            "/xrpc/com.atproto.identity.resolveHandle?handle=alice.test",
            200,
            None,
        ),
        ("none", "GET", "/a/b", 404, None),
    ]
    assert calls[1]["headers"]["authorization"] == alice.headers()["authorization"]
    assert calls[1]["at_ms"] == NOON
    assert f'"repo":"{alice.did}"' in calls[1]["body"]


def test_an_account_can_be_made_and_used(control: httpx.Client, alice: BlueskyUser) -> None:
    made = control.post("/lab/accounts", json={"platform": "bluesky", "handle": "Bob.test"})
    bob = made.json()
    assert (made.status_code, bob["handle"], bob["pds"]) == (201, "bob.test", alice.simulator.origin("bluesky"))
    login = {"identifier": "bob.test", "password": bob["appPassword"]}
    session = alice.client.post("/xrpc/com.atproto.server.createSession", json=login)
    assert (session.status_code, session.json()["did"]) == (200, bob["did"])


@pytest.mark.matrix
@pytest.mark.parametrize(
    "path, body, complaint",
    [
        ("accounts", {"platform": "myspace"}, "there is no fake platform 'myspace'"),
        ("accounts", {"platform": "bluesky", "handle": "alice.test"}, "Handle already taken: alice.test"),
        ("accounts", {"platform": "bluesky", "handle": "no handle"}, "not valid"),
        ("accounts", {"platform": "bluesky", "handle": "b.test", "age": 3}, "not valid"),
        ("accounts", [], "the body is a JSON object"),
        ("faults", {"fault": "html"}, "the body is a JSON list"),
        ("faults", [{"fault": "explode"}], "not valid"),
        ("settings", {"latencyMs": -1}, "not valid"),
        ("settings", {"speed": 1}, "not valid"),
        ("tokens", {"platform": "bluesky"}, 'say "access": "expired"'),
        ("tokens", {"platform": "bluesky", "access": "expired", "account": "nobody"}, "there is no account 'nobody'"),
        ("tokens", {"platform": "bluesky", "acess": "expired"}, "acess: Extra inputs are not permitted"),
        ("tokens", {"platform": "bluesky", "access": "expired", "refresh": "expired"}, "Input should be 'revoked'"),
        (
            "tokens",
            {"platform": "bluesky", "access": "expired", "account": [1]},
            "account: Input should be a valid str",
        ),
        ("accounts", {"platform": "bluesky", "handle": "b.test", "self": 1}, "self: Extra inputs are not permitted"),
        ("settings", {"self": 1}, "self: Extra inputs are not permitted"),
        ("settings", {"latencyMs": 10**20}, "latencyMs: Input should be less than or equal to 86400000"),
        ("faults", [{"fault": "delay:soon"}], "0.fault: Value error, seconds are a number from 0 to 86400"),
        ("faults", [{"fault": "status:٥٠٣"}], "0.fault: Value error, a status is a number from 200 to 599"),
        ("faults", [{"fault": "html", "platform": "x"}], "nothing matches 'x', '*'; there are bluesky, facebook"),
        ("faults", [{"fault": "html", "platform": "twitter", "operation": "tweet"}], "there are oauth.authorize, "),
    ],
)
def test_a_wrong_request_is_told_what_is_wrong(
    control: httpx.Client, alice: BlueskyUser, path: str, body: Any, complaint: str
) -> None:
    answer = control.post(f"/lab/{path}", json=body)
    assert answer.status_code == 400
    assert complaint in answer.json()["error"]


@pytest.mark.parametrize("body", [b"{", b"[" * 20_000])
def test_a_body_that_is_no_json_is_told_so(control: httpx.Client, body: bytes) -> None:
    answer = control.post("/lab/faults", content=body)
    assert (answer.status_code, "the body is not JSON" in answer.json()["error"]) == (400, True)


@pytest.mark.parametrize(
    "query, complaint",
    [
        ("platform=x", "there is no fake platform 'x'; there are bluesky"),
        ("since=soon", "since: Input should be a valid integer"),
        ("plattform=bluesky", "plattform: Extra inputs are not permitted"),
    ],
)
def test_a_wrong_query_of_the_ledger_is_told(control: httpx.Client, query: str, complaint: str) -> None:
    answer = control.get(f"/lab/ledger?{query}")
    assert (answer.status_code, complaint in answer.json()["error"]) == (400, True), answer.text


def test_faults_can_be_read_and_cleared(control: httpx.Client, alice: BlueskyUser) -> None:
    added = control.post("/lab/faults", json=[{"fault": "status:503", "retryAfter": 9}])
    assert (added.status_code, alice.put().status_code) == (201, 503)
    assert control.get("/lab/faults").json() == [{"fault": "status:503", "retryAfter": 9, "seen": 1, "fired": 1}]
    assert (control.delete("/lab/faults").status_code, alice.put().status_code) == (204, 200)
    assert control.get("/lab/faults").json() == []


def test_settings_change_one_by_one(control: httpx.Client) -> None:
    control.post("/lab/settings", json={"listLimit": 50})
    control.post("/lab/settings", json={"listLagMs": 400})
    assert control.get("/lab/settings").json() == {
        "latencyMs": 0,
        "listLagMs": 400,
        "listLimit": 50,
        "rateLimits": False,
        "processingMs": 300,
    }


def test_tokens_can_be_ended(control: httpx.Client, alice: BlueskyUser) -> None:
    ended = control.post("/lab/tokens", json={"platform": "bluesky", "account": "alice.test", "access": "expired"})
    assert (ended.status_code, alice.put().json()["error"]) == (204, "ExpiredToken")
    alice.session = alice.refresh(alice.session["refreshJwt"]).json()
    assert alice.put().status_code == 200
    control.post("/lab/tokens", json={"platform": "bluesky", "refresh": "revoked"})
    revoked = alice.refresh(alice.session["refreshJwt"])
    assert (revoked.status_code, revoked.json()) == (
        400,
        {"error": "ExpiredToken", "message": "Token has been revoked"},
    )


def test_reset_forgets_what_happened_and_keeps_accounts_and_sessions(control: httpx.Client, alice: BlueskyUser) -> None:
    alice.put()
    control.post("/lab/faults", json=[{"fault": "status:503"}])
    control.post("/lab/settings", json={"latencyMs": 1})
    assert control.post("/lab/reset").status_code == 204
    assert [control.get(f"/lab/{name}").json() for name in ("ledger", "calls", "faults")] == [[], [], []]
    assert control.get("/lab/settings").json()["latencyMs"] == 0
    assert alice.listed()["records"] == []
    assert alice.put().status_code == 200


def test_a_page_to_link_to_has_a_title_and_an_image(control: httpx.Client) -> None:
    page = control.get("/pages/news")
    address = f"{control.base_url}/pages/news".replace("//pages", "/pages")
    for name, value in (("title", "Page news"), ("url", address), ("image", f"{address}.png")):
        assert f'<meta property="og:{name}" content="{value}">' in page.text
    image = control.get("/pages/news.png")
    opened = Image.open(io.BytesIO(image.content))
    opened.load()
    assert (image.headers["content-type"], opened.format, opened.size) == ("image/png", "PNG", (64, 64))


def test_an_unknown_address_is_json_404(control: httpx.Client) -> None:
    answer = control.get("/lab/nothing")
    assert (answer.status_code, list(answer.json())) == (404, ["error"])
