"""POST /v1/posts/validate: publishing checks per target, without publishing."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from socialpub.platforms import PLATFORMS
from socialpub.platforms.contract import Tokens
from socialpub.store.engine import sql
from socialpub.store.queries import acceptance
from socialpub.store.schema.models import Media, Post
from tests.support.app_server import AppServer, error_of, unchanged
from tests.support.platforms.rule_drafts import EIGHT
from tests.support.refused_requests import REFUSED_REQUESTS, RefusedRequest
from tests.support.request_cast import RequestCast, inline_item, make_picture
from tests.support.validation_results import codes, many, result

BATCH_RULES = [
    case for case in REFUSED_REQUESTS if case.rule.startswith(("targets", "target.", "mode", "profile", "scheduledAt"))
]


def check(world: RequestCast, **fields: Any) -> httpx.Response:
    return world.alice.api.post("/v1/posts/validate", json=world.body(**fields))


def test_a_good_request_is_valid_and_leaves_no_trace(world: RequestCast) -> None:
    with unchanged(world.server):
        answer = check(world, text="hello 👋")
    assert answer.json() == {
        "valid": True,
        "results": [
            {
                "targetIndex": 0,
                "accountId": world.alice.bluesky,
                "platform": "bluesky",
                "valid": True,
                "text": {"length": 7, "limit": 300, "unit": "graphemes"},
                "errors": [],
                "warnings": [],
            }
        ],
    }


def test_each_failure_of_each_target_is_an_error_object(world: RequestCast) -> None:
    account = world.server.connect(world.alice, "pinterest")["id"]
    targets = [world.target(text="x" * 3001), {"accountId": account}, world.target()]
    with unchanged(world.server):
        answer = check(world, targets=targets)
    assert answer.json()["valid"] is False
    assert [found["valid"] for found in answer.json()["results"]] == [False, False, True]
    first, second = result(answer), result(answer, 1)
    assert [error["rule"] for error in first["errors"]] == ["bluesky.text.max_graphemes", "bluesky.text.max_bytes"]
    assert first["text"] == {"length": 3001, "limit": 300, "unit": "graphemes"}
    assert {"pinterest.board.required", "pinterest.media.required"} == {error["rule"] for error in second["errors"]}
    for error in (*first["errors"], *second["errors"]):
        assert error["code"] == "preflight_failed"
        assert error["platform"] in ("bluesky", "pinterest")
        assert set(error) == {
            "code",
            "message",
            "rule",
            "platform",
            "platformVersion",
            "remediation",
            "docUrl",
            "ruleUrl",
        }


def test_publishing_the_same_says_the_same(world: RequestCast) -> None:
    targets = [world.target(text="x" * 3001), world.target(text="y" * 301)]
    shown = check(world, targets=targets).json()["results"]
    told = error_of(world.post(targets=targets))["platformResponse"]
    assert [(row["targetIndex"], row["rule"], row["message"], row["remediation"]) for row in told] == [
        (found["targetIndex"], error["rule"], error["message"], error["remediation"])
        for found in shown
        for error in found["errors"]
    ]
    assert [row["accountId"] for row in told] == [world.alice.bluesky] * 3


def test_the_message_of_a_refusal_stands_alone(world: RequestCast) -> None:
    error = error_of(world.post(targets=[world.target(), world.target(text="y" * 301)]))
    (told,) = error["platformResponse"]
    assert error["message"] == f"Target 1 (Alice on Bluesky): {told['message']} {told['remediation']}"
    assert "300" in error["message"]
    assert "301" in error["message"]


@pytest.mark.parametrize("field", ["platform", "options"])
def test_a_mismatch_names_its_target_and_both_platforms(field: str, world: RequestCast) -> None:
    wrong = {"platform": "threads"} if field == "platform" else {"options": {"platform": "threads"}}
    message = error_of(world.post(targets=[world.target(), world.target(**wrong)]))["message"]
    assert message.startswith(f"Target 1: `{field}` is for threads")
    assert "on bluesky" in message
    assert world.alice.bluesky in message


@pytest.mark.matrix
@pytest.mark.parametrize("case", BATCH_RULES, ids=str)
def test_what_refuses_the_request_itself_refuses_it_here_too(
    case: RefusedRequest, world: RequestCast, monkeypatch: pytest.MonkeyPatch
) -> None:
    if case.why in ("patch", "retry"):
        return
    for person in (world.alice, world.bob):
        monkeypatch.setattr(
            person.api, "publish", lambda body, person=person: person.api.post("/v1/posts/validate", json=body)
        )
    with unchanged(world.server):
        answer = case.send(world)
    assert (answer.status_code, error_of(answer).get("rule")) == (case.status, case.rule)


@pytest.mark.parametrize("platform", EIGHT)
def test_every_platform_counts_in_its_own_unit(platform: str, world: RequestCast) -> None:
    units = dict.fromkeys(EIGHT, "graphemes") | {"twitter": "weighted", "tiktok": "utf16"}
    units |= {"linkedin": "characters", "threads": "characters"}
    account = world.server.connect(world.alice, platform)["id"]
    text = result(check(world, targets=[{"accountId": account}], text="👨‍👩‍👧‍👦", deep=False))["text"]
    lengths = {"graphemes": 1, "weighted": 2, "utf16": 11, "characters": 25 if platform == "threads" else 1}
    assert (text["unit"], text["length"]) == (units[platform], lengths[units[platform]])
    assert text["limit"] is None or text["limit"] >= 280


# --- Deep checks ---


def page(world: RequestCast, name: str) -> str:
    return f"{world.server.lab.url}/pages/{name}"


def test_deep_checks_look_at_the_bytes_and_keep_none(world: RequestCast) -> None:
    wrong = [inline_item(b"GIF89a cut"), inline_item(b"%!PS-3.0"), inline_item(make_picture(), altText="fine")]
    with unchanged(world.server):
        found = result(check(world, media=wrong))
    assert [error["rule"] for error in found["errors"]] == ["media.unreadable", "bluesky.media.mime_allowed"]
    assert all(error["platform"] == "bluesky" for error in found["errors"])


def test_without_deep_the_bytes_are_not_looked_at(world: RequestCast) -> None:
    with unchanged(world.server):
        assert result(check(world, media=[inline_item(b"%!PS-3.0")], deep=False))["valid"] is True


def test_a_url_is_fetched_once_for_all_targets_and_not_kept(world: RequestCast) -> None:
    url = page(world, "pic.png")
    with unchanged(world.server):
        answer = check(
            world, targets=[world.target(text=f"{n}") for n in range(5)], media=[{"kind": "image", "url": url}]
        )
    assert answer.json()["valid"] is True
    assert list((world.server.home / "fetched").iterdir()) == []


def test_a_url_that_answers_404_breaks_the_platforms_own_row(world: RequestCast) -> None:
    media = [{"kind": "image", "url": f"{world.server.lab.url}/nowhere.png"}]
    (error,) = result(check(world, media=media))["errors"]
    assert error["rule"] == "bluesky.media.reachable"
    assert error["platformResponse"]["status"] == 404


def test_a_kind_that_the_bytes_deny_is_told_once(world: RequestCast) -> None:
    answer = world.post(media=[inline_item(make_picture())], scheduledAt=world.soon())
    (asset,) = world.server.rows(Media)
    assert answer.status_code == 202
    for media in (inline_item(make_picture(), "video"), {"kind": "video", "mediaId": asset["id"]}):
        found = result(check(world, media=[media]))
        assert [error["rule"] for error in found["errors"]] == ["media.kind_mismatch"], media


def test_a_slow_url_does_not_hold_the_answer(make_server: Callable[..., AppServer], world_of: Any) -> None:
    world = world_of(make_server(publishing={"immediate_wait": 0.3, "workers": 4}))
    world.server.lab.lab.faults.add([{"fault": "delay:3", "platform": "*"}])
    media = [{"kind": "image", "url": f"{world.server.lab.origin('bluesky')}/xrpc/_health"}]
    found = result(check(world, media=media))
    assert codes(found["warnings"]) == ["media_unmeasured"]  # of media that did not come in time alone


# --- Warnings ---


def test_a_text_that_was_there_within_24_hours_is_a_duplicate(world: RequestCast) -> None:
    post = world.published(text="again")
    (note,) = result(check(world, text="again"))["warnings"]
    assert note["code"] == "duplicate_content"
    assert post in note["message"]
    assert result(check(world, text="Again"))["warnings"] == []
    other = [{"accountId": world.bob.bluesky}]
    assert result(check(world, text="again", targets=other))["warnings"] == []
    world.server.clock.skip(24 * 3600)
    assert result(check(world, text="again"))["warnings"] == []


def test_a_text_twice_in_one_request_is_a_duplicate_of_the_earlier_target(world: RequestCast) -> None:
    answer = check(world, targets=[world.target(), world.target(), world.target(text="other")])
    assert [codes(found["warnings"]) for found in answer.json()["results"]] == [[], ["duplicate_content"], []]
    assert "target 0" in result(answer, 1)["warnings"][0]["message"]


def test_accepted_result_carries_the_same_warning_with_the_earlier_post(world: RequestCast) -> None:
    answer = world.post(targets=[world.target(), world.target()], scheduledAt=world.soon())
    one, two = answer.json()["results"]
    assert "warnings" not in one
    assert codes(two["warnings"]) == ["duplicate_content"]
    assert one["postId"] in two["warnings"][0]["message"]
    shown = world.alice.api.get(f"/v1/posts/{two['postId']}").json()
    assert shown["warnings"] == two["warnings"]


@pytest.mark.parametrize(
    ("status", "warns"), [("queued", True), ("failed", False), ("rejected", False), ("canceled", False)]
)
def test_what_never_went_out_is_no_duplicate(status: str, warns: bool, world: RequestCast) -> None:
    post = world.scheduled()
    world.server.service.write(lambda tx: Post.update(status=status).where(Post.id == post).execute()).result()
    assert codes(result(check(world))["warnings"]) == (["duplicate_content"] if warns else [])


def test_what_may_be_out_is_a_duplicate(world: RequestCast) -> None:
    post = world.scheduled()
    error = json.dumps({"rule": "publish.outcome_unknown"})
    world.server.service.write(
        lambda tx: Post.update(status="failed", error=error).where(Post.id == post).execute()
    ).result()
    assert codes(result(check(world))["warnings"]) == ["duplicate_content"]


def test_media_without_text_is_no_duplicate(world: RequestCast) -> None:
    for _ in range(2):
        answer = world.alice.api.publish({"targets": [world.target()], "media": [inline_item(make_picture())]})
        assert "warnings" not in answer.json()["results"][0]


def test_a_token_that_ends_first_and_cannot_be_refreshed_is_warned_of(world: RequestCast) -> None:
    ends = world.server.clock.now_ms() + 3_600_000
    for refresh, warned in ((None, ["token_expires_before_schedule"]), ("a-refresh-token", [])):
        tokens = Tokens("an-access-token", refresh, ends)
        account = world.server.connect(world.alice, "twitter", f"twitter {refresh}", tokens)["id"]
        body = {"targets": [{"accountId": account}], "deep": False}
        assert codes(result(check(world, **body, scheduledAt=world.soon(7200)))["warnings"]) == warned
        assert codes(result(check(world, **body, scheduledAt=world.soon(1800)))["warnings"]) == []
        assert codes(result(check(world, **body))["warnings"]) == []
        del body["deep"]
        accepted = world.post(**body, scheduledAt=world.soon(7200), text=f"warned of {warned}").json()["results"][0]
        assert codes(accepted.get("warnings", [])) == warned


CAPS = [("instagram", 50, 86_400), ("threads", 250, 86_400), ("linkedin", 150, 86_400), ("twitter", 100, 900)]


@pytest.mark.parametrize(("platform", "cap", "seconds"), CAPS)
def test_four_fifths_of_a_cap_are_near_it(platform: str, cap: int, seconds: int, world: RequestCast) -> None:
    assert (cap, seconds) in [(found.posts, found.seconds) for found in PLATFORMS[platform].caps]
    account = world.server.connect(world.alice, platform)["id"]
    body = {"targets": [{"accountId": account}], "deep": False, "text": "new"}
    many(world, account, platform, cap * 4 // 5 - 2)
    assert codes(result(check(world, **body))["warnings"]) == []
    many(world, account, platform, 1, id="one-more", position=99)
    (note,) = result(check(world, **body))["warnings"]
    assert note["code"] == "daily_cap_near"
    assert str(cap) in note["message"]
    world.server.clock.skip(seconds)
    assert codes(result(check(world, **body))["warnings"]) == []


def test_a_cap_counts_what_is_due_around_the_scheduled_time(world: RequestCast) -> None:
    account = world.server.connect(world.alice, "instagram")["id"]
    at = world.server.clock.now_ms() + 10 * 86_400_000
    many(world, account, "instagram", 45, status="queued", scheduled_at=at)
    body = {"targets": [{"accountId": account}], "deep": False, "text": "new"}
    assert codes(result(check(world, **body))["warnings"]) == []
    assert codes(result(check(world, **body, scheduledAt=world.soon(10 * 86_400 + 60)))["warnings"]) == [
        "daily_cap_near"
    ]
    assert codes(result(check(world, **body, scheduledAt=world.soon(12 * 86_400)))["warnings"]) == []


def test_scheduled_post_is_warned_of_its_stored_medias_refusal(world: RequestCast) -> None:
    """A deep row: accepted now, refused at its time; media by URL is not looked at before."""
    answer = world.post(media=[inline_item(b"%!PS-3.0 not an image")], scheduledAt=world.soon())
    assert answer.status_code == 202
    (found,) = answer.json()["results"]
    assert codes(found["warnings"]) == ["bluesky.media.mime_allowed"]
    media = [{"kind": "image", "url": page(world, "pic.png")}]
    assert "warnings" not in world.post(media=media, scheduledAt=world.soon(), text="by URL").json()["results"][0]
    world.server.skip(3600)
    row = world.server.wait(found["postId"], "rejected")
    assert json.loads(row["error"])["rule"] == "bluesky.media.mime_allowed"


def test_validating_takes_the_body_of_publishing_and_deep_only(world: RequestCast) -> None:
    assert check(world, deep=True).status_code == 200
    assert error_of(check(world, deep="no"))["rule"] == "deep"
    assert error_of(world.post(deep=False))["rule"] == "deep"


def test_validating_with_an_idempotency_key_stores_nothing(world: RequestCast) -> None:
    with unchanged(world.server):
        for _ in range(2):
            answer = world.alice.api.post("/v1/posts/validate", json=world.body(), headers={"Idempotency-Key": "a-key"})
            assert answer.status_code == 200
            assert "Idempotency-Replayed" not in answer.headers


@pytest.mark.parametrize("shared", [False, True])
def test_what_an_account_was_sent_lately_is_read_by_its_time(shared: bool, world: RequestCast) -> None:
    """Both kinds go by an index of account and time, whatever the account has in the log."""
    values = (None, 0, "twitter", 0) if shared else (world.alice.bluesky, 0, None, 0)
    plan = world.server.service.read(
        lambda: sql.fetch_all(f"EXPLAIN QUERY PLAN {acceptance.FIND_RECENT_HISTORY}", values)
    ).result()
    steps = [row[3] for row in plan if " post " in row[3]]
    assert [step.partition(" (")[0] for step in steps] == [
        "SEARCH post USING INDEX post_account_created_at",
        "SEARCH post USING COVERING INDEX post_scheduled",
        "SEARCH post USING INDEX post_account_created_at",
        "SEARCH post USING INDEX post_scheduled",
    ]
    assert all("account=? AND" in step for step in steps), plan


def test_a_rule_that_asks_counts_what_goes_out_within_the_day_before(world: RequestCast) -> None:
    """Drafts in the creator's inbox: those of the day on which the new one is due."""
    account = world.server.connect(world.alice, "tiktok")["id"]
    body: dict[str, Any] = {"targets": [{"accountId": account}]}
    body |= {"deep": False, "media": [inline_item(b"no video", "video")], "text": "new"}
    at = world.server.clock.now_ms() + 10 * 86_400_000
    many(world, account, "tiktok", 5, status="queued", scheduled_at=at)
    warned = "tiktok.inbox.pending_limit"
    assert warned not in codes(result(check(world, **body))["warnings"])
    assert warned in codes(result(check(world, **body, scheduledAt=world.soon(10 * 86_400 + 60)))["warnings"])
    assert warned not in codes(result(check(world, **body, scheduledAt=world.soon(12 * 86_400)))["warnings"])
