"""Table of service rules: a request that breaks each rule, and its exact error.

A rule without a case fails here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from socialpub.base.error_codes import ERRORS
from socialpub.base.errors import rule_url
from socialpub.base.service_rules import SERVICE_RULES
from tests.support.app_server import UNKNOWN_ID, error_of, unchanged
from tests.support.post_outcomes import stored
from tests.support.refused_requests import REFUSED_REQUESTS, REPLY, P, RefusedRequest, V, bobs, moved
from tests.support.request_cast import RequestCast, inline_item, make_picture

TESTS = Path(__file__).parents[2]
ELSEWHERE = {
    # Rules whose requests need more than this table has: the file with their test, which names the rule.
    "post.duplicate": "api/posts/test_duplicates.py",
    "post.retry.thread": "api/posts/test_threads.py",
    "post.thread.waiting": "api/posts/test_threads.py",
    "thread.previous_missing": "api/posts/test_threads.py",
    "draft.approval": "api/drafts/test_approvals.py",
    "draft.changed": "api/drafts/test_approvals.py",
    "draft.incomplete": "api/drafts/test_approvals.py",
    "draft.status": "api/drafts/test_approvals.py",
    "drafts.max": "api/drafts/test_drafts.py",
    "plan.changed": "api/posts/test_plan_tokens.py",
    "plan.max": "api/posts/test_plan_tokens.py",
    "external_id.taken": "api/posts/test_external_ids.py",
    "scheduledAt.text_only": "api/posts/test_rule_table.py",
    "idempotency_key.body_mismatch": "api/http/test_idempotency.py",
    "idempotency_key.in_progress": "api/http/test_idempotency.py",
    "api_key.profile_scope": "api/organizations/test_scoping.py",
    "http.if_match": "api/http/test_if_match.py",
    "api_key.scope": "api/access/test_key_scopes.py",
    "api_key.expired": "api/identity/test_limited_keys.py",
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


@pytest.fixture
def world(world: RequestCast) -> RequestCast:
    """With Bob, so that there are two profiles, and two accounts of one platform."""
    assert world.bob.bluesky
    return world


@pytest.mark.matrix
@pytest.mark.parametrize("case", REFUSED_REQUESTS, ids=str)
def test_a_request_that_breaks_a_rule_is_refused_by_it(case: RefusedRequest, world: RequestCast) -> None:
    answer = case.send(world)
    error = error_of(answer)
    assert (answer.status_code, error["code"], error.get("rule")) == (case.status, case.code, case.rule)
    assert error["ruleUrl"] == rule_url(world.server.url, case.rule)
    assert error["remediation"]
    assert error["remediation"] != ERRORS[case.code].remediation, "a rule has its own advice"


def test_every_rule_of_the_service_has_a_case() -> None:
    tried = {case.rule for case in REFUSED_REQUESTS}
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

QUIET = [case for case in REFUSED_REQUESTS if case.status in (400, 404, 405, 413) and "retry" not in case.why]


@pytest.mark.slow
def test_a_refused_request_writes_nothing_and_calls_nobody(subtests: pytest.Subtests, world: RequestCast) -> None:
    for case in QUIET:
        with subtests.test(case=case):
            if case.rule == "media.kind_mismatch":
                media = stored(world)
                case = RefusedRequest(
                    case.rule, 400, P, lambda w, media=media: w.post(media=[{"kind": "video", "mediaId": media}])
                )
            elif case.why == "patch":
                post = world.scheduled()
                case = RefusedRequest(case.rule, 400, V, lambda w, post=post: moved(w, post, "2020-01-01T00:00:00Z"))
            with unchanged(world.server):
                assert case.send(world).is_client_error
