"""Requests that break a service rule, one or more for each rule, with their error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from socialpub.store.schema.models import Account, Post
from tests.support.app_server import UNKNOWN_ID, UNKNOWN_MEDIA
from tests.support.post_outcomes import at_its_time, stored
from tests.support.request_cast import RequestCast, Send, inline_item, make_picture

V, P = "validation_failed", "preflight_failed"
PACKED = {"Content-Encoding": "gzip"}


@dataclass(frozen=True)
class RefusedRequest:
    """A request that must be refused: by which rule, with which status and code."""

    rule: str
    status: int
    code: str
    send: Send
    why: str = ""

    def __str__(self) -> str:
        return f"{self.rule} {self.why}".strip()


REPLY = {"platform": "bluesky", "replyToUri": "at://did:plc:x/app.bsky.feed.post/3n2qaial32p6v", "replyToCid": "bafyx"}


def bobs(w: RequestCast, **fields: Any) -> Any:
    return w.bob.api.publish({"targets": [{"platform": "bluesky"}], "text": "hello", **fields})


def with_key(w: RequestCast, key: bytes) -> Any:
    return w.alice.api.post("/v1/posts", json=w.body(), headers=[(b"Idempotency-Key", key)])


def moved(w: RequestCast, post: str, to: str = "2100-01-01T00:00:00Z") -> Any:
    return w.alice.api.patch(f"/v1/posts/{post}", json={"scheduledAt": to})


def again(w: RequestCast, post: str, **fields: Any) -> Any:
    return w.alice.api.post(f"/v1/posts/{post}/retry", json=fields)


def settled(w: RequestCast, post: str) -> Any:
    return w.alice.api.post(f"/v1/posts/{post}/settle", json={"published": True})


def rejected(w: RequestCast) -> str:
    """A post that ended `rejected`: its account's authorization was gone."""
    w.server.service.write(
        lambda tx: Account.update(status="revoked").where(Account.id == w.alice.bluesky).execute()
    ).result()
    result = w.post().json()["results"][0]
    assert result["status"] == "rejected"
    return str(result["postId"])


def lost(w: RequestCast) -> str:
    """A post whose outcome is unknown."""
    post = w.published()
    error = '{"code": "platform_unavailable", "rule": "publish.outcome_unknown"}'
    w.server.service.write(
        lambda tx: Post.update(status="failed", error=error).where(Post.id == post).execute()
    ).result()
    return post


REFUSED_REQUESTS = [
    # Schema and batch, in the order of the checks.
    RefusedRequest("body.json", 400, V, lambda w: w.alice.api.post("/v1/posts", content=b"{"), "cut"),
    RefusedRequest("body.json", 400, V, lambda w: w.alice.api.post("/v1/posts", content=b""), "empty"),
    RefusedRequest(
        "body.json", 400, V, lambda w: w.alice.api.patch(f"/v1/posts/{UNKNOWN_ID}", content=b"now"), "patch"
    ),
    RefusedRequest("targets.required", 400, V, lambda w: w.post(targets=[])),
    RefusedRequest("targets.max", 400, V, lambda w: w.post(targets=[w.target()] * 26)),
    RefusedRequest("mode_conflict", 400, V, lambda w: w.post(publishNow=True, scheduledAt=w.soon())),
    RefusedRequest("mode_conflict", 400, V, lambda w: w.post(slot="next", scheduledAt=w.soon()), "slot"),
    RefusedRequest("plan.unknown", 400, V, lambda w: w.alice.api.publish({"plan": "plan_" + "0" * 43})),
    RefusedRequest("scheduledAt.future", 400, V, lambda w: w.post(scheduledAt="2020-01-01T00:00:00Z"), "long ago"),
    RefusedRequest("scheduledAt.future", 400, V, lambda w: w.post(scheduledAt=w.soon(0.5)), "half a second"),
    RefusedRequest(
        "scheduledAt.no_first_comment", 400, V, lambda w: w.post(scheduledAt=w.soon(), firstComment={"text": "1"})
    ),
    RefusedRequest(
        "scheduledAt.no_first_comment",
        400,
        V,
        lambda w: w.post(scheduledAt=w.soon(), targets=[w.target(firstComment={"text": "1"})]),
        "of a target",
    ),
    RefusedRequest(
        "scheduledAt.no_bluesky_reply",
        400,
        V,
        lambda w: w.post(scheduledAt=w.soon(), targets=[w.target(options=REPLY)]),
    ),
    RefusedRequest("profile.scope_mismatch", 400, V, lambda w: bobs(w, profileId=w.alice.profile), "another profile"),
    RefusedRequest("profile.scope_mismatch", 400, V, lambda w: bobs(w, profileId=UNKNOWN_ID), "of nobody"),
    RefusedRequest("target.account.not_connected", 400, V, lambda w: w.post(targets=[{"platform": "threads"}])),
    RefusedRequest("target.account.ambiguous", 400, V, lambda w: w.post(targets=[{"platform": "bluesky"}])),
    RefusedRequest(
        "targets.account.platform_mismatch", 400, V, lambda w: w.post(targets=[w.target(platform="twitter")])
    ),
    RefusedRequest(
        "targets.options.platform_mismatch",
        400,
        V,
        lambda w: w.post(targets=[w.target(options={"platform": "linkedin", "visibility": "PUBLIC"})]),
    ),
    RefusedRequest("slots.profile", 400, V, lambda w: w.post(slot="next")),
    RefusedRequest("slots.none", 400, V, lambda w: bobs(w, slot="next")),
    # Media.
    RefusedRequest("media.source", 400, V, lambda w: w.post(media=[{"kind": "image"}]), "none"),
    RefusedRequest(
        "media.source",
        400,
        V,
        lambda w: w.post(media=[inline_item(make_picture(), url="https://example.com/a.png")]),
        "two",
    ),
    RefusedRequest(
        "media.source", 400, V, lambda w: w.post(targets=[w.target(media=[{"kind": "video"}])]), "of a target"
    ),
    RefusedRequest(
        "media.base64_invalid", 400, V, lambda w: w.post(media=[{"kind": "image", "bytesBase64": "***"}]), "stars"
    ),
    RefusedRequest(
        "media.base64_invalid", 400, V, lambda w: w.post(media=[{"kind": "image", "bytesBase64": ""}]), "empty"
    ),
    RefusedRequest("media.unknown", 404, "not_found", lambda w: w.post(media=[UNKNOWN_MEDIA])),
    RefusedRequest(
        "media.unknown", 404, "not_found", lambda w: w.post(media=[{"kind": "image", "mediaId": UNKNOWN_MEDIA}]), "item"
    ),
    RefusedRequest("media.kind_mismatch", 400, P, lambda w: w.post(media=[{"kind": "video", "mediaId": stored(w)}])),
    # Other requests.
    RefusedRequest("idempotency_key.length", 400, V, lambda w: w.alice.api.publish(w.body(), "k" * 129), "129"),
    RefusedRequest("idempotency_key.length", 400, V, lambda w: with_key(w, b"na\xc3\xafve"), "not ASCII"),
    RefusedRequest("idempotency_key.length", 400, V, lambda w: with_key(w, b""), "empty"),
    RefusedRequest("http.method", 405, V, lambda w: w.alice.api.put("/v1/posts", json={})),
    RefusedRequest(
        "http.body_size", 413, V, lambda w: w.alice.api.post("/v1/posts", content=b" " * (16 * 1024 * 1024 + 1))
    ),
    RefusedRequest(
        "http.content_encoding", 415, V, lambda w: w.alice.api.post("/v1/posts", content=b"x", headers=PACKED)
    ),
    RefusedRequest("post.status", 409, V, lambda w: w.alice.api.delete(f"/v1/posts/{w.published()}"), "delete"),
    RefusedRequest("post.status", 409, V, lambda w: moved(w, w.published()), "patch"),
    RefusedRequest("post.scheduledAt.window", 409, V, lambda w: moved(w, at_its_time(w)), "patch"),
    RefusedRequest(
        "post.scheduledAt.window", 409, V, lambda w: w.alice.api.delete(f"/v1/posts/{at_its_time(w)}"), "delete"
    ),
    RefusedRequest("scheduledAt.future", 400, V, lambda w: moved(w, w.scheduled(), "2020-01-01T00:00:00Z"), "patch"),
    RefusedRequest(
        "scheduledAt.future", 400, V, lambda w: again(w, rejected(w), scheduledAt="2020-01-01T00:00:00Z"), "retry"
    ),
    RefusedRequest("post.retry.status", 409, V, lambda w: again(w, w.published())),
    RefusedRequest("post.retry.unsettled", 409, V, lambda w: again(w, lost(w))),
    RefusedRequest("post.settle.status", 409, V, lambda w: settled(w, w.published())),
]
