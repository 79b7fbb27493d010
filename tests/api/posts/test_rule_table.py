"""Table of service rules: a request that breaks each rule, and its exact error.

A rule without a case fails here.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from socialpub.base.error_codes import ERRORS
from socialpub.base.errors import rule_url
from socialpub.base.service_rules import SERVICE_RULES
from socialpub.store.schema.models import Account, Post
from tests.support.app_server import UNKNOWN_ID, UNKNOWN_MEDIA, error_of, unchanged
from tests.support.post_outcomes import at_its_time, stored
from tests.support.request_cast import RequestCast, Send, inline_item, make_picture

V, P = "validation_failed", "preflight_failed"
PACKED = {"Content-Encoding": "gzip"}


@dataclass(frozen=True)
class Case:
    """A request that must be refused: by which rule, with which status and code."""

    rule: str
    status: int
    code: str
    send: Send
    why: str = ""

    def __str__(self) -> str:
        return f"{self.rule} {self.why}".strip()


REFUSED = [
    # Schema and batch, in the order of the checks.
    Case("body.json", 400, V, lambda w: w.alice.api.post("/v1/posts", content=b"{"), "cut"),
    Case("body.json", 400, V, lambda w: w.alice.api.post("/v1/posts", content=b""), "empty"),
    Case("body.json", 400, V, lambda w: w.alice.api.patch(f"/v1/posts/{UNKNOWN_ID}", content=b"now"), "patch"),
    Case("targets.required", 400, V, lambda w: w.post(targets=[])),
    Case("targets.max", 400, V, lambda w: w.post(targets=[w.target()] * 26)),
    Case("mode_conflict", 400, V, lambda w: w.post(publishNow=True, scheduledAt=w.soon())),
    Case("scheduledAt.future", 400, V, lambda w: w.post(scheduledAt="2020-01-01T00:00:00Z"), "long ago"),
    Case("scheduledAt.future", 400, V, lambda w: w.post(scheduledAt=w.soon(0.5)), "half a second"),
    Case("scheduledAt.no_first_comment", 400, V, lambda w: w.post(scheduledAt=w.soon(), firstComment={"text": "1"})),
    Case(
        "scheduledAt.no_first_comment",
        400,
        V,
        lambda w: w.post(scheduledAt=w.soon(), targets=[w.target(firstComment={"text": "1"})]),
        "of a target",
    ),
    Case(
        "scheduledAt.no_bluesky_reply",
        400,
        V,
        lambda w: w.post(scheduledAt=w.soon(), targets=[w.target(options=REPLY)]),
    ),
    Case("profile.scope_mismatch", 400, V, lambda w: bobs(w, profileId=w.alice.profile), "another profile"),
    Case("profile.scope_mismatch", 400, V, lambda w: bobs(w, profileId=UNKNOWN_ID), "of nobody"),
    Case("target.account.not_connected", 400, V, lambda w: w.post(targets=[{"platform": "threads"}])),
    Case("target.account.ambiguous", 400, V, lambda w: w.post(targets=[{"platform": "bluesky"}])),
    Case("targets.account.platform_mismatch", 400, V, lambda w: w.post(targets=[w.target(platform="twitter")])),
    Case(
        "targets.options.platform_mismatch",
        400,
        V,
        lambda w: w.post(targets=[w.target(options={"platform": "linkedin", "visibility": "PUBLIC"})]),
    ),
    # Media.
    Case("media.source", 400, V, lambda w: w.post(media=[{"kind": "image"}]), "none"),
    Case(
        "media.source",
        400,
        V,
        lambda w: w.post(media=[inline_item(make_picture(), url="https://example.com/a.png")]),
        "two",
    ),
    Case("media.source", 400, V, lambda w: w.post(targets=[w.target(media=[{"kind": "video"}])]), "of a target"),
    Case("media.base64_invalid", 400, V, lambda w: w.post(media=[{"kind": "image", "bytesBase64": "***"}]), "stars"),
    Case("media.base64_invalid", 400, V, lambda w: w.post(media=[{"kind": "image", "bytesBase64": ""}]), "empty"),
    Case("media.unknown", 404, "not_found", lambda w: w.post(media=[UNKNOWN_MEDIA])),
    Case(
        "media.unknown", 404, "not_found", lambda w: w.post(media=[{"kind": "image", "mediaId": UNKNOWN_MEDIA}]), "item"
    ),
    Case("media.kind_mismatch", 400, P, lambda w: w.post(media=[{"kind": "video", "mediaId": stored(w)}])),
    # Other requests.
    Case("idempotency_key.length", 400, V, lambda w: w.alice.api.publish(w.body(), "k" * 129), "129"),
    Case("idempotency_key.length", 400, V, lambda w: with_key(w, b"na\xc3\xafve"), "not ASCII"),
    Case("idempotency_key.length", 400, V, lambda w: with_key(w, b""), "empty"),
    Case("http.method", 405, V, lambda w: w.alice.api.put("/v1/posts", json={})),
    Case("http.body_size", 413, V, lambda w: w.alice.api.post("/v1/posts", content=b" " * (16 * 1024 * 1024 + 1))),
    Case("http.content_encoding", 415, V, lambda w: w.alice.api.post("/v1/posts", content=b"x", headers=PACKED)),
    Case("post.status", 409, V, lambda w: w.alice.api.delete(f"/v1/posts/{w.published()}"), "delete"),
    Case("post.status", 409, V, lambda w: moved(w, w.published()), "patch"),
    Case("post.scheduledAt.window", 409, V, lambda w: moved(w, at_its_time(w)), "patch"),
    Case("post.scheduledAt.window", 409, V, lambda w: w.alice.api.delete(f"/v1/posts/{at_its_time(w)}"), "delete"),
    Case("scheduledAt.future", 400, V, lambda w: moved(w, w.scheduled(), "2020-01-01T00:00:00Z"), "patch"),
    Case("scheduledAt.future", 400, V, lambda w: again(w, rejected(w), scheduledAt="2020-01-01T00:00:00Z"), "retry"),
    Case("post.retry.status", 409, V, lambda w: again(w, w.published())),
    Case("post.retry.unsettled", 409, V, lambda w: again(w, lost(w))),
    Case("post.settle.status", 409, V, lambda w: settled(w, w.published())),
]

TESTS = Path(__file__).parents[2]
ELSEWHERE = {
    # Rules whose requests need more than this table has: the file with their test, which names the rule.
    "post.duplicate": "api/posts/test_duplicates.py",
    "scheduledAt.text_only": "api/posts/test_rule_table.py",
    "idempotency_key.body_mismatch": "api/http/test_idempotency.py",
    "idempotency_key.in_progress": "api/http/test_idempotency.py",
    "api_key.profile_scope": "api/organizations/test_scoping.py",
    "cursor": "unit/domain/posts/test_post_log.py",
    "csrf": "api/organizations/test_scoping.py",
    "session.proof": "dashboard/test_settings.py",
    "http.busy": "isolation/test_input_limits.py",
    "http.deadline": "isolation/test_reader_limits.py",
    "http.host": "isolation/test_request_metadata.py",
    "http.request": "api/http/test_bad_input.py",
    "http.timeout": "api/http/test_bad_input.py",
    "metrics.unforwarded": "api/ops/test_metrics.py",
    "billing.posts.monthly_cap": "api/http/test_rate_limits.py",
    "service.paused": "api/posts/test_results.py",
    "service.stopping": "api/http/test_http_conventions.py",
    "storage.unavailable": "api/posts/test_results.py",
    "media.url.disallowed": "api/posts/test_results.py",
    "media.size_max": "api/posts/test_results.py",
    "media.quota": "isolation/test_media_quota.py",
    "media.pixels_max": "api/posts/test_results.py",
    "media.unreadable": "api/posts/test_results.py",
    "publish.outcome_unknown": "unit/domain/publishing/test_protocol.py",
    "schedule.overdue": "api/posts/test_scheduling.py",
    "account.reconnect_required": "api/posts/test_results.py",
    "account.disconnected": "api/posts/test_results.py",
    "media.type_unsupported": "api/media/test_media.py",
    "media.type_mismatch": "api/media/test_media.py",
    "media.content_type": "api/media/test_media.py",
    "media.parse_failed": "api/media/test_media.py",
    "media.missing_file": "api/media/test_media.py",
    "media.empty_body": "api/media/test_media.py",
    "media.single_file": "api/media/test_media.py",
    "media.in_use": "api/media/test_media.py",
    "connect.state": "unit/domain/accounts/test_connect.py",
    "account.platform": "unit/domain/accounts/test_disconnect.py",
    "pinterest.board.unknown": "unit/domain/accounts/test_disconnect.py",
    "profile.delete.not_empty": "api/identity/test_sign_in.py",
    "profile.slug.unique": "api/identity/test_sign_in.py",
    "webhook.url.scheme": "api/webhooks/test_webhooks.py",
    "webhook.url.address": "api/webhooks/test_webhooks.py",
    "webhook.endpoints.max": "api/webhooks/test_webhooks.py",
    "notification.channels.max": "api/notifications/test_notifications.py",
    "notification.email.off": "api/notifications/test_notifications.py",
}

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


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_a_request_that_breaks_a_rule_is_refused_by_it(case: Case, world: RequestCast) -> None:
    answer = case.send(world)
    error = error_of(answer)
    assert (answer.status_code, error["code"], error.get("rule")) == (case.status, case.code, case.rule)
    assert error["ruleUrl"] == rule_url(world.server.url, case.rule)
    assert error["remediation"]
    assert error["remediation"] != ERRORS[case.code].remediation, "a rule has its own advice"


def test_every_rule_of_the_service_has_a_case() -> None:
    tried = {case.rule for case in REFUSED}
    assert tried | set(ELSEWHERE) == set(SERVICE_RULES)
    assert not tried & set(ELSEWHERE)


@pytest.mark.parametrize("rule", ELSEWHERE)
def test_a_rule_that_is_tested_elsewhere_is_named_there(rule: str) -> None:
    assert f'"{rule}"' in (TESTS / ELSEWHERE[rule]).read_text(encoding="utf-8")


def test_a_retired_rule_is_never_emitted(world: RequestCast) -> None:
    """Scheduled posts carry media, and a first comment has a rule of its own."""
    assert SERVICE_RULES["scheduledAt.text_only"].retired
    answer = world.post(scheduledAt=world.soon(), media=[inline_item(make_picture())])
    assert answer.status_code == 202
    answer = world.post(scheduledAt=world.soon(), media=[inline_item(make_picture())], firstComment={"text": "1"})
    assert error_of(answer)["rule"] == "scheduledAt.no_first_comment"


# --- What a refusal says ---


def test_a_time_too_early_is_one_issue_at_scheduled_at(world: RequestCast) -> None:
    answer = world.post(scheduledAt="2020-01-01T01:00:00+01:00")
    assert error_of(answer)["platformResponse"] == [
        {
            "code": "too_early",
            "expected": "a later date-time",
            "received": "2020-01-01T00:00:00.000Z",
            "path": ["scheduledAt"],
            "message": "Must be at least 1 second in the future",
        }
    ]


def test_an_ambiguous_platform_lists_every_candidate(world: RequestCast) -> None:
    error = error_of(world.post(targets=[{"platform": "bluesky"}]))
    for account in (world.alice.accounts["bluesky"], world.bob.accounts["bluesky"]):
        assert f"{account['id']} ({account['displayName']})" in error["remediation"]
    assert world.charlie.bluesky not in error["remediation"]


def test_a_profile_narrows_the_accounts_that_a_platform_may_mean(world: RequestCast) -> None:
    answer = world.post(targets=[{"platform": "bluesky"}], profileId=world.bob.profile)
    assert answer.json()["results"][0]["accountId"] == world.bob.bluesky


def test_a_bound_key_resolves_a_platform_within_its_profile(world: RequestCast) -> None:
    for fields in ({}, {"profileId": world.bob.profile}):
        assert bobs(world, **fields).json()["results"][0]["accountId"] == world.bob.bluesky


def test_publish_now_false_is_no_conflict_with_a_time_and_no_mode_without(world: RequestCast) -> None:
    assert world.post(publishNow=False, scheduledAt=world.soon()).status_code == 202
    answer = world.post(publishNow=False)
    assert (answer.status_code, error_of(answer)["rule"]) == (400, "publishNow")


def test_one_second_ahead_is_early_enough(world: RequestCast) -> None:
    now = world.server.clock.stop()
    assert world.server.clock.now_ms() == now
    for ahead, status in ((999, 400), (1000, 202), (1001, 202)):
        assert world.post(scheduledAt=world.soon(ahead / 1000)).status_code == status, ahead


def test_an_account_may_stand_twice_and_25_targets_are_not_too_many(world: RequestCast) -> None:
    answer = world.post(targets=[world.target(text=f"number {n}") for n in range(25)])
    assert answer.status_code == 200
    assert [entry.text for entry in world.server.lab.lab.ledger.posts()] == [f"number {n}" for n in range(25)]


# --- The order of the checks ---

BROKEN: list[tuple[str, dict[str, Any]]] = [
    # Each breaks its own rule and all that follow.
    ("targets.0.nosuch", {"targets": [{"platform": "threads", "nosuch": 1}, {"platform": "bluesky"}]}),
    ("mode_conflict", {"publishNow": True}),
    ("scheduledAt.future", {"publishNow": None}),
    ("scheduledAt.no_first_comment", {"scheduledAt": "2100-01-01T00:00:00Z"}),
    ("scheduledAt.no_bluesky_reply", {"firstComment": None}),
    ("profile.scope_mismatch", {"options": None}),
    ("target.account.not_connected", {"profileId": None}),
]


def test_of_several_broken_rules_the_first_in_order_is_told(world: RequestCast) -> None:
    body: dict[str, Any] = {
        "publishNow": True,
        "scheduledAt": "2020-01-01T00:00:00Z",
        "firstComment": {"text": "1"},
        "profileId": world.alice.profile,
        "text": "hello",
        "options": REPLY,
    }
    for rule, change in BROKEN:
        body = {name: value for name, value in (body | change).items() if value is not None}
        sent = {name: value for name, value in body.items() if name != "options"}
        if rule == "mode_conflict":
            body["targets"] = [{"platform": "threads"}, {"platform": "bluesky"}]
            sent["targets"] = body["targets"]
        if "options" in body:
            sent["targets"] = [sent["targets"][0] | {"options": body["options"]}, *sent["targets"][1:]]
        assert error_of(world.bob.api.publish(sent))["rule"] == rule


def test_each_rule_of_resolving_goes_over_all_targets_before_the_next(world: RequestCast) -> None:
    world.server.connect(world.alice, "twitter")
    ambiguous = {"platform": "bluesky"}
    missing = {"platform": "threads"}
    other = world.target(platform="twitter")
    options = world.target(options={"platform": "linkedin", "visibility": "PUBLIC"})
    unknown = {"accountId": UNKNOWN_ID}
    order = [
        (unknown, None),
        (missing, "target.account.not_connected"),
        (ambiguous, "target.account.ambiguous"),
        (other, "targets.account.platform_mismatch"),
        (options, "targets.options.platform_mismatch"),
    ]
    while order:
        targets = [target for target, _ in reversed(order)]
        assert error_of(world.post(targets=targets)).get("rule") == order.pop(0)[1]


def test_authentication_precedes_the_body_and_the_body_the_content(world: RequestCast) -> None:
    nobody = world.server.api()
    assert error_of(nobody.post("/v1/posts", content=b"{"))["code"] == "unauthenticated"
    assert error_of(nobody.put("/v1/posts", content=b"{"))["rule"] == "http.method"
    key = {"Idempotency-Key": "k" * 129}
    assert error_of(world.alice.api.post("/v1/posts", content=b"{", headers=key))["rule"] == "idempotency_key.length"


# --- A refusal leaves nothing behind ---

QUIET = [case for case in REFUSED if case.status in (400, 404, 405, 413) and "retry" not in case.why]


@pytest.mark.parametrize("case", QUIET, ids=str)
def test_a_refused_request_writes_nothing_and_calls_nobody(case: Case, world: RequestCast) -> None:
    if case.rule == "media.kind_mismatch":
        media = stored(world)
        case = Case(case.rule, 400, P, lambda w: w.post(media=[{"kind": "video", "mediaId": media}]))
    elif case.why == "patch":
        post = world.scheduled()
        case = Case(case.rule, 400, V, lambda w: moved(w, post, "2020-01-01T00:00:00Z"))
    with unchanged(world.server):
        assert case.send(world).is_client_error
