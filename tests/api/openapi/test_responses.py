"""Server responses match the OpenAPI document: status, headers, type and body."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from PIL import Image

from socialpub import platforms
from socialpub.domain.schemas.errors import PLATFORM_RESPONSES
from socialpub.platforms.contract import Board
from socialpub.store.schema.models import Account, Instance, Organization
from tests.support.app_server import UNKNOWN_ID, ApiClient, AppServer, MovableClock, Person, format_instant
from tests.support.openapi_document import (
    API_ROUTES,
    delivery_of,
    documented_errors,
    response_of,
    schema_name,
)
from tests.support.openapi_judge import Json, ResponseJudge, lose_post, reject_post, sign_in
from tests.support.post_drafts import seen


@pytest.fixture
def judge(server: AppServer) -> ResponseJudge:
    return ResponseJudge(server)


def scheduled(person: Person, at: str, **more: Any) -> Json:
    return {"targets": [{"accountId": person.bluesky}], "text": "Later.", "scheduledAt": at, **more}


@pytest.fixture
def tomorrow(wall: MovableClock) -> Callable[[], str]:
    return lambda: format_instant(wall.now_ms() + 24 * 3600 * 1000)


@pytest.mark.slow
def test_what_succeeds_is_what_the_document_says(
    server: AppServer, alice: Person, judge: ResponseJudge, tomorrow: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    api = alice.api
    now = {"targets": [{"accountId": alice.bluesky}], "text": "Now.", "firstComment": {"text": "More."}}
    published = judge(api.publish(now, "a-key"), status=200)
    assert api.publish(now, "a-key").headers["Idempotency-Replayed"] == "true"
    judge(api.publish(now, "a-key"), status=200)
    queued = judge(api.publish(scheduled(alice, tomorrow())), status=202)
    judge(api.post("/v1/posts/validate", json=now), status=200)
    post = queued["results"][0]["postId"]
    judge(api.patch(f"/v1/posts/{post}", json={"scheduledAt": tomorrow()}), status=200)
    judge(api.get(f"/v1/posts/{post}"), status=200)
    judge(api.get(f"/v1/posts/{published['results'][0]['postId']}"), status=200)
    judge(api.delete(f"/v1/posts/{post}"), status=200)
    batch = judge(api.publish(scheduled(alice, tomorrow())), status=202)["id"]
    judge(api.patch(f"/v1/batches/{batch}", json={"scheduledAt": tomorrow()}), status=200)
    judge(api.get(f"/v1/batches/{batch}"), status=200)
    judge(api.delete(f"/v1/batches/{batch}"), status=200)
    judge(api.get("/v1/batches"), status=200)
    failed = reject_post(server, alice)
    judge(api.get(f"/v1/posts/{failed}"), status=200)
    judge(api.post(f"/v1/posts/{failed}/retry", json={"scheduledAt": tomorrow()}), status=202)
    judge(
        api.post(f"/v1/posts/{lose_post(server, alice)}/settle", json={"published": True, "uri": "at://x/y/z"}),
        status=200,
    )
    for path in (
        "posts",
        "accounts",
        f"accounts/{alice.bluesky}",
        "profiles",
        "events",
        "me",
        "platforms",
        "rules",
        "errors",
    ):
        judge(api.get(f"/v1/{path}"), status=200)
    for path in ("/healthz", "/readyz"):
        judge(api.get(path), status=200)
    judge(api.get("/v1/posts?limit=1"), status=200)
    boards = (Board("549755885175", "Bread", "PUBLIC"),)
    monkeypatch.setitem(platforms.CONNECTORS, "pinterest", SimpleNamespace(boards=lambda up: boards))
    pins = f"/v1/accounts/{server.connect(alice, 'pinterest')['id']}/pinterest"
    judge(api.get(f"{pins}/boards"), status=200)
    judge(api.patch(f"{pins}/default-board", json={"boardId": "549755885175"}), status=200)
    media = judge(api.post("/v1/media", files={"file": ("a.png", picture(), "image/png")}), status=201)["id"]
    judge(api.get("/v1/media"), status=200)
    judge(api.get(f"/v1/media/{media}"), status=200)
    judge(api.patch(f"/v1/media/{media}", json={"altText": "Bread"}), status=200)
    judge(api.delete(f"/v1/media/{media}"), status=200)
    judge(api.put("/v1/slots", json=SLOTS), status=200)
    judge(api.get("/v1/slots"), status=200)
    webhooks(api, judge, lambda: api.publish(scheduled(alice, tomorrow())))
    notifications(api, judge)
    drafts(api, judge, scheduled(alice, tomorrow()), now)
    by_key = [route for route in API_ROUTES if route.guard != "session"]
    assert {
        (schema_name(route), status) for route in by_key for status in response_of(route).answers
    } - judge.seen == set()


SLOTS = {"zone": "Europe/Berlin", "weekly": [{"day": "mon", "time": "09:30"}]}


def webhooks(api: ApiClient, judge: ResponseJudge, happen: Callable[[], object]) -> None:
    """Every request about webhooks; nobody listens where they go."""
    made = judge(api.post("/v1/webhook-endpoints", json={"url": "http://127.0.0.1:1/"}), status=201)["id"]
    here = f"/v1/webhook-endpoints/{made}"
    for path in ("/v1/webhook-endpoints", here):
        judge(api.get(path), status=200)
    happen()
    (delivery, *_) = judge(api.get("/v1/webhook-deliveries"), status=200)["data"]
    judge(api.get(f"/v1/webhook-deliveries/{delivery['id']}"), status=200)
    judge(api.post(f"/v1/webhook-deliveries/{delivery['id']}/redeliver"), status=202)
    judge(api.post(f"{here}/redeliver", json={"since": "2026-01-01T00:00:00Z"}), status=202)
    judge(api.post(f"{here}/test", json={}), status=200)
    judge(api.post(f"{here}/rotate-secret"), status=200)
    judge(api.patch(here, json={"active": False}), status=200)
    judge(api.delete(here), status=200)


def notifications(api: ApiClient, judge: ResponseJudge) -> None:
    """Every request about channels; nobody listens where they lead."""
    to = {"kind": "slack", "url": "http://127.0.0.1:1/"}
    made = judge(api.post("/v1/notification-channels", json={"to": to}), status=201)["id"]
    here = f"/v1/notification-channels/{made}"
    for path in ("/v1/notification-channels", here, "/v1/notifications"):
        judge(api.get(path), status=200)
    judge(api.post(f"{here}/test", json={}), status=200)
    judge(api.patch(here, json={"active": False}), status=200)
    judge(api.delete(here), status=200)


def drafts(api: ApiClient, judge: ResponseJudge, later: Json, now: Json) -> None:
    """Every request about drafts."""
    first = judge(api.post("/v1/drafts", json={"title": "Hours"}), status=201)
    second = judge(api.post("/v1/drafts", json=now | {"text": "From a draft."}), status=201)
    assert first["problems"]
    here = f"/v1/drafts/{first['id']}"
    for path in ("/v1/drafts", here):
        judge(api.get(path), status=200)
    judge(api.patch(here, json={"content": later}, headers=seen(api, first["id"])), status=200)
    judge(api.post(f"{here}/propose"), status=200)
    judge(api.post(f"{here}/approve", headers=seen(api, first["id"])), status=200)
    judge(api.post(f"{here}/return", json={"note": "Shorter."}), status=200)
    judge(api.post(f"{here}/link"), status=200)
    judge(api.delete(f"{here}/link"), status=200)
    judge(api.post(f"{here}/publish"), status=202)
    judge(api.post(f"/v1/drafts/{second['id']}/publish"), status=200)
    judge(api.delete(here), status=200)


@pytest.fixture
def browser(server: AppServer, alice: Person) -> ApiClient:
    """Alice, signed in."""
    return server.api(**sign_in(server, alice))


def test_what_a_signed_in_person_does_is_what_the_document_says(
    server: AppServer, browser: ApiClient, judge: ResponseJudge
) -> None:
    profile = judge(browser.post("/v1/profiles", json={"name": "Bakery"}), status=201)["id"]
    judge(browser.patch(f"/v1/profiles/{profile}", json={"name": "Corner Bakery"}), status=200)
    judge(browser.post("/v1/profiles", json={"name": "corner bakery"}), status=409)
    key = judge(browser.post("/v1/api-keys", json={"name": "K", "profileId": profile}), status=201)["id"]
    judge(browser.post("/v1/api-keys", json={}), status=400)
    judge(browser.get("/v1/api-keys"), status=200)
    judge(browser.delete(f"/v1/api-keys/{key}"), status=200)
    judge(browser.delete(f"/v1/profiles/{profile}"), status=200)
    made = server.lab.lab.add_account("bluesky", handle="documented.test")
    fields = {"handle": made["handle"], "password": made["appPassword"]}
    judge(browser.post("/v1/accounts/connect/bluesky"), status=200)
    account = judge(browser.post("/v1/accounts/connect/bluesky/complete", json=fields), status=201)["id"]
    judge(browser.post("/v1/accounts/connect/bluesky/complete", json=fields), status=200)
    judge(browser.post("/v1/accounts/connect/bluesky/complete", json={"handle": "a.test"}), status=400)
    judge(browser.post("/v1/accounts/connect/tiktok"), status=403)
    judge(browser.delete(f"/v1/accounts/{account}"), status=200)
    sessions = [route for route in API_ROUTES if route.guard == "session"]
    assert {
        (schema_name(route), status) for route in sessions for status in response_of(route).answers
    } - judge.seen == set()


def picture() -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (8, 8)).save(file, "PNG")
    return file.getvalue()


def test_accounts_of_platforms_with_blocks_of_their_own_fit(
    server: AppServer, alice: Person, judge: ResponseJudge
) -> None:
    server.connect(alice, "pinterest", defaultBoardId="b", defaultBoardName="Board")
    server.connect(alice, "instagram", "full", kind="business", accountType="BUSINESS", grantedScopes=["a"])
    server.connect(alice, "instagram", "bare")
    body = judge(alice.api.get("/v1/accounts"), status=200)
    assert [account["platform"] for account in body["data"]] == ["bluesky", "pinterest", "instagram", "instagram"]


def test_what_is_refused_is_what_the_document_says(
    server: AppServer, alice: Person, judge: ResponseJudge, tomorrow: Callable[[], str]
) -> None:
    api, nobody = alice.api, server.api()
    now = {"targets": [{"accountId": alice.bluesky}], "text": "Now."}
    judge(api.post("/v1/posts", content=b"{"), status=400)
    judge(api.publish({"targets": []}), status=400)
    judge(api.publish(now | {"text": "x" * 301}), status=400)
    judge(api.publish(now | {"speed": 1}), status=400)
    judge(nobody.post("/v1/posts", json=now), status=401)
    judge(api.publish(now | {"media": ["med_" + "0" * 22]}), status=404)
    judge(api.publish(now, "twice"), status=200)
    judge(api.publish(now | {"text": "Other."}, "twice"), status=409)
    judge(api.post("/v1/posts", content=b" " * (16 * 1024 * 1024 + 1)), status=413)
    queued = judge(api.publish(scheduled(alice, tomorrow())), status=202)["results"][0]["postId"]
    judge(api.post(f"/v1/posts/{queued}/retry"), status=409)
    judge(api.post(f"/v1/posts/{queued}/settle", json={"published": False}), status=409)
    judge(api.delete(f"/v1/posts/{queued}"), status=200)
    judge(api.delete(f"/v1/posts/{queued}"), status=409)
    judge(api.patch(f"/v1/posts/{queued}", json={"scheduledAt": tomorrow()}), status=409)
    for query in ("limit=0", "cursor=x", "errorCode=x", "colour=red", "after=today"):
        judge(api.get(f"/v1/posts?{query}"), status=400)
    judge(api.get("/v1/accounts?colour=red"), status=400)
    judge(api.get(f"/v1/posts?profileId={UNKNOWN_ID}"), status=404)


def test_limits_answer_as_documented(make_server: Callable[..., AppServer]) -> None:
    server = make_server(limits={"posts": 2, "reads": 1}, billing={"free": 1})
    alice, judge = server.person("Alice"), ResponseJudge(server)
    server.connect_bluesky(alice)
    server.service.write(lambda tx: Organization.update(tier="free").execute()).result()
    body = {"targets": [{"accountId": alice.bluesky}], "text": "One."}
    judge(alice.api.publish(body), status=200)
    judge(alice.api.publish(body), status=402)
    judge(alice.api.publish(body), status=429)
    judge(alice.api.get("/v1/posts"), status=200)
    judge(alice.api.get("/v1/posts"), status=429)


@pytest.mark.slow
def test_the_details_of_refusals_have_their_documented_types(make_server: Callable[..., AppServer]) -> None:
    server = make_server(billing={"free": 2})
    alice, judge = server.person("Alice"), ResponseJudge(server)
    server.connect_bluesky(alice)
    here = {"targets": [{"accountId": alice.bluesky}], "text": "Once."}
    judge(alice.api.publish(here | {"speed": 1}), status=400)
    judge(alice.api.publish(here | {"text": "x" * 301}), status=400)
    judge(alice.api.publish(here), status=200)
    judge(alice.api.publish(here | {"onDuplicate": "refuse"}), status=409)
    twice = {"targets": here["targets"] * 2, "text": "Twice.", "onDuplicate": "refuse"}
    judge(alice.api.publish(twice), status=409)
    server.service.write(lambda tx: Organization.update(tier="free").execute()).result()
    judge(alice.api.publish(twice | {"onDuplicate": "warn"}), status=402)
    server.service.write(lambda tx: Organization.update(tier="self_host").execute()).result()
    named = here | {"externalId": "a-name"}
    judge(alice.api.publish(named | {"text": "Named."}), status=200)
    judge(alice.api.publish(named | {"text": "Other."}), status=409)
    server.connect(alice, "bluesky", "second")
    judge(alice.api.publish({"targets": [{"platform": "bluesky"}], "text": "To whom?"}), status=400)
    judge(server.limited(alice, scopes=["media"]).api.publish(here), status=403)
    assert judge.details == set(PLATFORM_RESPONSES)


def test_the_media_of_a_post_have_their_documented_type(
    server: AppServer, alice: Person, judge: ResponseJudge, tomorrow: Callable[[], str]
) -> None:
    """By id, with a kind or without, by address and inline; each with and without an alt text."""
    stored = alice.api.post("/v1/media", files={"file": ("a.png", picture(), "image/png")}).json()["id"]
    inline = base64.b64encode(picture()).decode()
    sources = [{"mediaId": stored}, {"url": "https://pictures.example.org/a.png"}, {"bytesBase64": inline}]
    items = [{"kind": "image"} | source for source in sources]
    for media in ([stored], items[:2], [item | {"altText": "A loaf."} for item in items]):
        body = scheduled(alice, tomorrow(), media=media)
        post = judge(alice.api.publish(body), status=202)["results"][0]["postId"]
        shown = judge(alice.api.get(f"/v1/posts/{post}"), status=200)["mediaRefs"]
        assert [set(ref) & {"mediaId", "url"} for ref in shown] == [
            {"url"} if isinstance(item, dict) and "url" in item else {"mediaId"} for item in media
        ]


def test_a_paused_server_answers_as_documented(server: AppServer, alice: Person, judge: ResponseJudge) -> None:
    server.service.write(lambda tx: Instance.update(paused="restored").execute()).result()
    with alice.api.expecting_failure():
        judge(alice.api.publish({"targets": [{"accountId": alice.bluesky}], "text": "Now."}), status=503)


# --- Events ------------------------------------------------------------------------------------------------------


def test_the_events_that_are_written_fit_their_documented_data(
    server: AppServer, alice: Person, judge: ResponseJudge, tomorrow: Callable[[], str]
) -> None:
    now = {"targets": [{"accountId": alice.bluesky}], "text": "Now.", "firstComment": {"text": "More."}}
    alice.api.publish(now)
    queued = alice.api.publish(scheduled(alice, tomorrow())).json()["results"][0]["postId"]
    alice.api.patch(f"/v1/posts/{queued}", json={"scheduledAt": tomorrow()})
    alice.api.delete(f"/v1/posts/{queued}")
    written = server.events()
    assert {type_ for type_, _ in written} >= {
        "post.queued", "post.validated", "post.published", "post.rescheduled", "post.canceled"
    }  # fmt: skip
    for type_, data in written:
        assert event_errors(judge.document, type_, data) == [], type_


def event_errors(document: Json, type_: str, data: Json) -> list[str]:
    content = delivery_of(type_, document)["requestBody"]["content"]["application/json"]
    envelope = content["example"] | {"data": data}
    return documented_errors(content["schema"], envelope, document)


def refusals_of(server: AppServer) -> Iterator[tuple[str, Json]]:
    yield from ((type_, data) for type_, data in server.events() if type_ in ("post.rejected", "post.failed"))


def test_the_events_of_failures_fit_too(server: AppServer, alice: Person, judge: ResponseJudge) -> None:
    server.service.write(lambda tx: Account.update(status="revoked").execute()).result()
    alice.api.publish({"targets": [{"accountId": alice.bluesky}], "text": "Now."})
    found = list(refusals_of(server))
    assert [type_ for type_, _ in found] == ["post.rejected"]
    for type_, data in found:
        assert event_errors(judge.document, type_, data) == []
