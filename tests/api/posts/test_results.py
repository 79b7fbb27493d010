"""Response of an immediate batch: 200 with one result per target."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from socialpub.base import fault_injection
from socialpub.domain.server import instance
from socialpub.store.schema.models import Account, Attempt, Instance, Media, Post
from tests.support.app_server import AppServer, error_of, unchanged
from tests.support.request_cast import RequestCast, inline_item, make_picture

PUT = "com.atproto.repo.putRecord"


def results(answer: httpx.Response) -> list[dict[str, Any]]:
    assert answer.status_code == 200, answer.text
    return list(answer.json()["results"])


def test_a_published_target_says_where_it_is(world: RequestCast) -> None:
    answer = world.post(firstComment={"text": "first"})
    body = answer.json()
    assert set(body) == {"id", "status", "createdAt", "results"}
    assert body["status"] == "published"
    (result,) = results(answer)
    post, comment = world.server.lab.lab.ledger.posts()
    assert result == {
        "accountId": world.alice.bluesky,
        "platform": "bluesky",
        "postId": result["postId"],
        "status": "published",
        "uri": post.remote_id,
        "cid": result["cid"],
        "url": post.url,
        "firstCommentUri": comment.remote_id,
        "firstCommentCid": result["firstCommentCid"],
    }
    shown = world.alice.api.get(f"/v1/posts/{result['postId']}").json()
    assert shown["firstComment"] == {"text": "first", "uri": comment.remote_id, "cid": result["firstCommentCid"]}
    assert (shown["batchId"], shown["platformUri"], shown["url"]) == (body["id"], post.remote_id, post.url)


def test_each_target_has_its_own_text_media_comment_and_options(world: RequestCast) -> None:
    answer = world.post(
        text="default",
        media=[inline_item(make_picture(), altText="default")],
        firstComment={"text": "default comment"},
        targets=[
            world.target(),
            world.target(
                text="own",
                media=[],
                firstComment={"text": "own comment"},
                options={"platform": "bluesky", "langs": ["de"]},
            ),
        ],
    )
    assert answer.json()["status"] == "published"
    posts = {entry.text: entry for entry in world.server.lab.lab.ledger.posts()}
    assert set(posts) == {"default", "default comment", "own", "own comment"}
    assert [medium.alt for medium in posts["default"].media] == ["default"]
    assert posts["own"].media == ()
    assert posts["own"].request["record"]["langs"] == ["de"]


def test_results_stand_in_the_order_of_the_targets(world: RequestCast) -> None:
    targets = [
        {"accountId": account, "text": f"{n}"} for n, account in enumerate([world.bob.bluesky, world.alice.bluesky] * 3)
    ]
    answer = world.post(targets=targets)
    assert [result["accountId"] for result in results(answer)] == [target["accountId"] for target in targets]
    texts = [world.alice.api.get(f"/v1/posts/{result['postId']}").json()["text"] for result in results(answer)]
    assert texts == [target["text"] for target in targets]


@pytest.mark.parametrize(
    ("fault", "code", "status"),
    [
        ("status:400", "platform_rejected", "rejected"),
        ("status:403", "platform_rejected", "rejected"),
        ("status:503", "platform_unavailable", "failed"),
    ],
)
def test_a_failed_target_carries_the_error_object(fault: str, code: str, status: str, world: RequestCast) -> None:
    operation = "com.atproto.repo.uploadBlob"
    world.server.lab.lab.faults.add([{"fault": fault, "operation": operation, "times": 1}])
    targets = [world.target(media=[inline_item(make_picture())]), {"accountId": world.bob.bluesky}]
    answer = world.post(targets=targets)
    assert answer.json()["status"] == "partial_failed"
    first, second = results(answer)
    assert (first["status"], second["status"]) == (status, "published")
    error = first["error"]
    assert (error["code"], error["platform"]) == (code, "bluesky")
    assert set(error) <= {
        "code",
        "message",
        "rule",
        "platform",
        "platformVersion",
        "platformResponse",
        "remediation",
        "docUrl",
        "ruleUrl",
    }
    assert error["platformVersion"]
    assert error["platformResponse"]["status"] == int(fault.partition(":")[2])
    assert error["docUrl"] == f"{world.server.url}/docs/errors/{code}"
    shown = world.alice.api.get(f"/v1/posts/{first['postId']}").json()
    assert (shown["status"], shown["error"]) == (status, error)
    assert shown["attempts"][0]["platformResponse"] == error["platformResponse"]
    type_, data = world.server.events(first["postId"])[-1]
    assert (type_, data["error"]) == (f"post.{status}", error)
    if status == "failed":
        assert (data["willRetry"], data["nextAttemptAt"]) == (False, None)


def test_when_every_target_fails_the_batch_is_failed_and_still_200(world: RequestCast) -> None:
    world.server.lab.lab.faults.add([{"fault": "status:400", "operation": PUT}])
    answer = world.post(targets=[world.target(), {"accountId": world.bob.bluesky}])
    assert (answer.status_code, answer.json()["status"]) == (200, "failed")


def test_an_immediate_batch_is_not_tried_again(world: RequestCast) -> None:
    world.server.lab.lab.faults.add([{"fault": "status:503", "operation": "com.atproto.repo.uploadBlob", "times": 1}])
    (result,) = results(world.post(media=[inline_item(make_picture())]))
    world.server.skip(600)
    assert world.server.jobs() == []
    assert len(world.server.rows(Attempt, post=result["postId"])) == 1


def test_an_immediate_target_emits_validated_then_its_end(world: RequestCast) -> None:
    answer = world.alice.api.post("/v1/posts", json=world.body(), headers={"X-Request-Id": "the-request"})
    (result,) = results(answer)
    assert [type_ for type_, _ in world.server.events(result["postId"])] == ["post.validated", "post.published"]
    assert {data["scheduledAt"] for _, data in world.server.events(result["postId"])} == {None}
    assert {event.request_id for event in world.server.happened()} == {"the-request"}


# --- Accounts that cannot publish ---


def set_account(world: RequestCast, **columns: Any) -> None:
    world.server.service.write(
        lambda tx: Account.update(**columns).where(Account.id == world.alice.bluesky).execute()
    ).result()


def test_a_revoked_account_is_accepted_and_rejected_without_a_call(world: RequestCast) -> None:
    set_account(world, status="revoked")
    world.server.lab.lab.calls.clear()
    (result,) = results(world.post())
    assert (result["status"], result["error"]["code"]) == ("rejected", "platform_auth_failed")
    assert result["error"]["rule"] == "account.reconnect_required"
    assert result["error"]["ruleUrl"].endswith("/docs/rules/account.reconnect_required")
    assert result["error"]["remediation"] == "Reconnect the account, then retry the post."
    assert world.server.lab.lab.calls == []


def test_a_scheduled_post_whose_account_is_gone_by_then_is_rejected(world: RequestCast) -> None:
    post = world.scheduled()
    set_account(world, disconnected_at=1, secret=None)
    world.server.skip(3600)
    row = world.server.wait(post, "rejected")
    assert json.loads(row["error"])["rule"] == "account.disconnected"
    assert world.server.lab.lab.ledger.posts() == []


def test_disabled_platform_says_so_in_its_result(world: RequestCast) -> None:
    world.server.stop()
    world.server.overrides = {"platforms": {"bluesky": world.server.bluesky_site() | {"enabled": False}}}
    world.server.start()
    api = world.server.api(world.alice.key)
    (result,) = results(api.publish(world.body()))
    assert (result["status"], result["error"]["code"]) == ("rejected", "platform_not_enabled")


# --- Deep checks ---


def serve(world: RequestCast, name: str) -> str:
    return f"{world.server.lab.url}/{name}"


DEEP: list[tuple[str, Callable[[RequestCast], dict[str, Any]], str]] = [
    ("a type that it does not take", lambda w: inline_item(b"%!PS-3.0"), "bluesky.media.mime_allowed"),
    ("cut off", lambda w: inline_item(make_picture()[:40]), "media.unreadable"),
    ("too many pixels", lambda w: inline_item(make_picture(size=(8000, 6300))), "media.pixels_max"),
    ("a kind that it is not", lambda w: inline_item(make_picture(), "video"), "media.kind_mismatch"),
    ("a URL that is not there", lambda w: {"kind": "image", "url": serve(w, "nowhere.png")}, "bluesky.media.reachable"),
    (
        "a host that is not there",
        lambda w: {"kind": "image", "url": "http://127.0.0.1:9/a.png"},
        "bluesky.media.reachable",
    ),
    ("a URL of a page", lambda w: {"kind": "image", "url": serve(w, "pages/x")}, "bluesky.media.mime_allowed"),
]


@pytest.mark.matrix
@pytest.mark.parametrize(("name", "item", "rule"), DEEP, ids=[name for name, _, _ in DEEP])
def test_a_deep_check_speaks_in_its_targets_result(name: str, item: Any, rule: str, world: RequestCast) -> None:
    targets = [world.target(media=[item(world)]), {"accountId": world.bob.bluesky}]
    answer = world.post(targets=targets)
    assert answer.json()["status"] == "partial_failed"
    first, second = results(answer)
    assert second["status"] == "published"
    assert (first["status"], first["error"]["code"], first["error"]["rule"]) == ("rejected", "preflight_failed", rule)
    assert first["error"]["platform"] == "bluesky"
    assert [entry.account for entry in world.server.lab.lab.ledger.posts()] == [
        world.bob.accounts["bluesky"]["platformAccountId"]
    ]


def test_a_file_larger_than_the_server_takes_breaks_its_rule(
    make_server: Callable[..., AppServer], world_of: Callable[[AppServer], RequestCast]
) -> None:
    world = world_of(make_server(media={"max_bytes": 10}))
    (result,) = results(world.post(media=[{"kind": "image", "url": serve(world, "pages/pic.png")}]))
    assert (result["error"]["code"], result["error"]["rule"]) == ("preflight_failed", "media.size_max")


def test_a_url_is_fetched_once_a_batch(world: RequestCast) -> None:
    url = serve(world, "pages/pic.png")
    targets = [world.target(text=f"{n}") for n in range(3)]
    answer = world.post(targets=targets, media=[{"kind": "image", "url": url}])
    assert answer.json()["status"] == "published"
    (sha256,) = {medium.sha256 for entry in world.server.lab.lab.ledger.posts() for medium in entry.media}
    assert len(sha256) == 64


# --- Inline media ---


def test_inline_media_becomes_an_asset_of_its_targets_profile(world: RequestCast) -> None:
    item = inline_item(make_picture(), altText="a picture")
    answer = world.post(targets=[world.target(), world.target(), {"accountId": world.bob.bluesky}], media=[item])
    shown = [world.alice.api.get(f"/v1/posts/{result['postId']}").json() for result in results(answer)]
    one, two, bobs = (post["mediaRefs"] for post in shown)
    assert one == two
    assert one != bobs
    assert set(one[0]) == {"kind", "mediaId", "altText"}
    assets = {row["id"]: row for row in world.server.rows(Media)}
    assert assets[one[0]["mediaId"]]["profile"] == world.alice.profile
    assert assets[bobs[0]["mediaId"]]["profile"] == world.bob.profile
    assert "bytesBase64" not in json.dumps(shown)


def test_equal_bytes_with_other_alt_texts_keep_their_own(world: RequestCast) -> None:
    world.post(
        media=[
            inline_item(make_picture(), altText="one"),
            inline_item(make_picture()),
            inline_item(make_picture(), altText=""),
        ]
    )
    (entry,) = world.server.lab.lab.ledger.posts()
    assert [image["alt"] for image in entry.request["record"]["embed"]["images"]] == ["one", "", ""]


def test_media_refs_are_the_items_as_they_were_sent(world: RequestCast) -> None:
    url = serve(world, "pages/pic.png")
    first = world.post(media=[inline_item(make_picture())], scheduledAt=world.soon())
    (asset,) = world.server.rows(Media)
    sent = [{"kind": "image", "url": url, "altText": "x"}, {"kind": "image", "mediaId": asset["id"]}, asset["id"]]
    post = world.post(media=sent, scheduledAt=world.soon()).json()["results"][0]["postId"]
    assert first.status_code == 202
    assert world.alice.api.get(f"/v1/posts/{post}").json()["mediaRefs"] == [
        {"kind": "image", "url": url, "altText": "x"},
        {"kind": "image", "mediaId": asset["id"]},
        {"kind": "image", "mediaId": asset["id"]},
    ]


# --- Outcomes that take long ---


@pytest.fixture
def hasty(make_server: Callable[..., AppServer], world_of: Callable[[AppServer], RequestCast]) -> RequestCast:
    return world_of(make_server(publishing={"immediate_wait": 0.2, "workers": 4}))


def test_slow_target_is_publishing_and_the_row_has_its_end(hasty: RequestCast) -> None:
    hasty.server.lab.lab.faults.add([{"fault": "delay:2", "operation": PUT, "times": 1}])
    answer = hasty.post()
    (result,) = answer.json()["results"]
    assert (answer.status_code, answer.json()["status"], result["status"]) == (202, "queued", "publishing")
    assert [note["code"] for note in result["warnings"]] == ["still_publishing"]
    assert "error" not in result
    row = hasty.server.wait(result["postId"], "published")
    assert json.loads(row["warnings"]) == []
    assert [type_ for type_, _ in hasty.server.events(result["postId"])] == ["post.validated", "post.published"]


# --- Servers that cannot ---


def test_while_paused_an_immediate_post_is_503_and_a_scheduled_one_202(world: RequestCast) -> None:
    pause(world, instance.RESTORED)
    with unchanged(world.server), world.alice.api.expecting_failure():
        answer = world.post()
    assert (answer.status_code, error_of(answer)["code"]) == (503, "internal_error")
    assert (error_of(answer)["rule"], answer.headers["Retry-After"]) == ("service.paused", "60")
    assert world.post(scheduledAt=world.soon()).status_code == 202
    assert world.alice.api.post("/v1/posts/validate", json=world.body()).status_code == 200
    assert world.alice.api.get("/v1/posts").status_code == 200


def pause(world: RequestCast, reason: str) -> None:
    world.server.service.write(lambda tx: Instance.update(paused=reason).execute()).result()


def test_while_unwritable_it_is_503_with_retry_after_and_reads_work(world: RequestCast) -> None:
    post = world.scheduled()
    fault_injection.plan("db.commit=enospc")
    with world.alice.api.expecting_failure():
        answers = [
            world.post(),
            world.post(scheduledAt=world.soon()),
            world.alice.api.delete(f"/v1/posts/{post}"),
            world.alice.api.patch(f"/v1/posts/{post}", json={"scheduledAt": world.soon()}),
        ]
    read = world.alice.api.get(f"/v1/posts/{post}")
    fault_injection.plan("")
    for answer in answers:
        assert (answer.status_code, error_of(answer)["code"]) == (503, "internal_error")
        assert (error_of(answer)["rule"], answer.headers["Retry-After"]) == ("storage.unavailable", "5")
    assert (read.status_code, read.json()["status"]) == (200, "queued")
    assert world.server.lab.lab.ledger.posts() == []
    assert len(world.server.rows(Post)) == 1
    assert world.post().json()["status"] == "published"


def test_a_bug_shows_nothing_of_itself_but_its_request_id(world: RequestCast, caplog: pytest.LogCaptureFixture) -> None:
    fault_injection.plan("now.before_commit=raise")
    with world.alice.api.expecting_failure():
        answer = world.alice.api.post("/v1/posts", json=world.body(), headers={"X-Request-Id": "the-bug"})
    fault_injection.plan("")
    error = error_of(answer)
    assert (answer.status_code, error["code"], error["requestId"]) == (500, "internal_error", "the-bug")
    assert "planted" not in answer.text
    (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert "the-bug" in record.getMessage()
    assert record.exc_info


def test_disallowed_media_url_is_refused_before_anything_else(
    make_server: Callable[..., AppServer],
) -> None:
    """Cheap, by the URL's own text."""
    server = make_server(security={"allow_private_networks": False}, server={"base_url": "https://pub.example.com"})
    alice = server.person("Alice")
    server.connect(alice, "bluesky")
    alice.api.base_url = httpx.URL(f"http://127.0.0.1:{server.port}")
    urls = [
        "http://example.com/a.png",
        "ftp://example.com/a.png",
        "file:///etc/passwd",
        "https://user:secret@example.com/a.png",
        "https://127.0.0.1/a.png",
        "https://localhost/a.png",
        "https://10.0.0.1/a.png",
        "https://169.254.169.254/latest/meta-data",
        "https://[::1]/a.png",
        "https://[::ffff:127.0.0.1]/a.png",
        "https://example.com:22/a.png",
        "https://",
        "data:image/png;base64,AAAA",
        "/a.png",
        "x",
    ]
    for url in urls:
        body = {"targets": [{"platform": "bluesky"}], "media": [{"kind": "image", "url": url}]}
        with unchanged(server):
            answer = alice.api.publish(body)
        error = error_of(answer)
        assert (answer.status_code, error["code"], error["rule"]) == (
            400,
            "preflight_failed",
            "media.url.disallowed",
        ), url
        assert "secret" not in answer.text


@pytest.mark.parametrize(
    "url", ["https://", "http://", "https:///a.jpg", "https://./a.jpg", "https://[", "https://a:x/"]
)
def test_media_url_without_a_host_is_refused_on_private_networks_too(world: RequestCast, url: str) -> None:
    """Now, scheduled, and when asked beforehand."""
    body = {"targets": [{"accountId": world.alice.bluesky}], "media": [{"kind": "image", "url": url}]}
    with unchanged(world.server):
        answers = [world.alice.api.publish(body), world.alice.api.publish(body | {"scheduledAt": world.soon()})]
        checked = world.alice.api.post("/v1/posts/validate", json=body)
    for answer in answers:
        assert (answer.status_code, error_of(answer)["rule"]) == (400, "media.url.disallowed")
    assert [error["rule"] for error in checked.json()["results"][0]["errors"]][0] == "media.url.disallowed"
