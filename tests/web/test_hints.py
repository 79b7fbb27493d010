"""Field names that people bring from other tools: each is refused with what it is called here.

Following a hint never publishes earlier than was asked for.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import error_of, untouched
from tests.web.world import World

TIME, TEXT, TARGETS, MEDIA = "scheduledAt", "text", "targets", "media"
VALIDATE, QUEUE, ZONE, HEADER = "POST /v1/posts/validate", "no queue", "+02:00", "the header `Idempotency-Key`"
WHEN = "name the time in `scheduledAt`"

# Each tool's own names for what a post is made of, as its documentation of creating one has them.
TOOLS: dict[str, dict[str, str]] = {
    "Ayrshare": {
        "post": TEXT,
        "platforms": TARGETS,
        "mediaUrls": MEDIA,
        "scheduleDate": TIME,
        "autoSchedule": QUEUE,
        "idempotencyKey": HEADER,
        "profileKey": "profileId",
    },
    "Blotato": {
        "content": TEXT,
        "mediaUrls": MEDIA,
        "target": TARGETS,
        "accountId": TARGETS,
        "scheduledTime": TIME,
        "useNextFreeSlot": QUEUE,
    },
    "Buffer": {
        "profile_ids": TARGETS,
        "channelId": TARGETS,
        "scheduled_at": TIME,
        "dueAt": TIME,
        "assets": MEDIA,
        "now": WHEN,
        "top": QUEUE,
        "mode": WHEN,
        "saveToDraft": VALIDATE,
        "schedulingType": QUEUE,
    },
    "Hootsuite": {"socialProfileIds": TARGETS, "scheduledSendTime": TIME, "mediaUrls": MEDIA},
    "Mixpost": {
        "accounts": TARGETS,
        "versions": TARGETS,
        "body": TEXT,
        "date": TIME,
        "time": TIME,
        "timezone": ZONE,
        "schedule": TIME,
        "schedule_now": WHEN,
        "queue": QUEUE,
    },
    "Post Bridge": {
        "caption": TEXT,
        "social_accounts": TARGETS,
        "media_urls": MEDIA,
        "scheduled_at": TIME,
        "is_draft": VALIDATE,
        "platform_configurations": "targets[].options",
    },
    "Postiz": {
        "type": WHEN,
        "date": TIME,
        "posts": TARGETS,
        "integration": TARGETS,
        "value": TEXT,
        "image": MEDIA,
        "settings": "targets[].options",
    },
    "Publer": {"bulk": TARGETS, "networks": TARGETS, "accounts": TARGETS, "scheduled_at": TIME, "state": WHEN},
    "Typefully": {
        "content": TEXT,
        "schedule-date": TIME,
        "publish_at": TIME,
        "platforms": TARGETS,
        "draft_title": VALIDATE,
    },
    "Upload-Post": {
        "platform[]": TARGETS,
        "photos[]": MEDIA,
        "video": MEDIA,
        "caption": TEXT,
        "description": TEXT,
        "scheduled_date": TIME,
        "schedule_time": TIME,
        "add_to_queue": QUEUE,
        "first_comment": "firstComment",
    },
    "Zernio": {
        "content": TEXT,
        "platforms": TARGETS,
        "mediaItems": MEDIA,
        "scheduledFor": TIME,
        "timezone": ZONE,
        "isDraft": VALIDATE,
        "platformSpecificData": "targets[].options",
    },
    "what models make up": {
        "publishAt": TIME,
        "publish_time": TIME,
        "sendAt": TIME,
        "postDateTime": TIME,
        "when": TIME,
        "dateToPost": TIME,
        "dryRun": VALIDATE,
        "dry_run": VALIDATE,
        "draft": VALIDATE,
        "preview": VALIDATE,
        "previewOnly": VALIDATE,
        "message": TEXT,
        "images": MEDIA,
        "attachments": MEDIA,
        "channels": TARGETS,
        "accountIds": TARGETS,
        "publish_now": WHEN,
        "publishImmediately": WHEN,
        "idempotency_key": HEADER,
        "status": WHEN,
    },
    "slips": {"schduledAt": TIME, "shedule": TIME, "drft": VALIDATE, "imges": MEDIA, "txt": TEXT, "publsihAt": TIME},
}
NAMES = [(tool, name, meant) for tool, names in TOOLS.items() for name, meant in names.items()]
TRIALS = [name for _, name, meant in NAMES if meant in (TIME, VALIDATE, QUEUE, ZONE, WHEN)]


def hint_of(corpus: World, body: dict[str, Any]) -> dict[str, Any]:
    with untouched(corpus.server):
        error = error_of(corpus.alice.api.publish(body))
    assert error["code"] == "validation_failed"
    assert "publishNow" not in error["remediation"].partition("Known here")[0]
    return error


@pytest.mark.parametrize(("tool", "name", "meant"), NAMES, ids=[f"{tool}-{name}" for tool, name, _ in NAMES])
def test_another_tools_name_is_answered_with_ours(tool: str, name: str, meant: str, corpus: World) -> None:
    error = hint_of(corpus, corpus.body(**{name: "2030-01-01T00:00:00Z"}))
    asked = f"did you mean `{meant}`?" if meant.isalpha() and " " not in meant else meant
    assert asked in error["remediation"], error["remediation"]
    assert asked in error["message"], "tools show nothing but the message"
    assert error["message"].startswith(f"{name}: ")


@pytest.mark.parametrize("name", TRIALS)
@pytest.mark.parametrize("place", [[], ["targets", 0], ["media", 0], ["firstComment"], ["targets", 0, "options"]])
def test_a_time_or_a_trial_is_never_said_to_be_removed(place: list[str | int], name: str, corpus: World) -> None:
    body = corpus.body(
        targets=[corpus.target(options={"platform": "bluesky"})],
        media=[{"kind": "image", "url": "https://example.com/a.png"}],
        firstComment={"text": "first"},
    )
    at: Any = body
    for part in place:
        at = at[part]
    at[name] = True
    assert "remove" not in hint_of(corpus, body)["remediation"]


def test_a_trial_in_the_query_is_no_word_to_remove(corpus: World) -> None:
    with untouched(corpus.server):
        answer = corpus.alice.api.post("/v1/posts?dryRun=true", json=corpus.body())
    assert answer.status_code == 400
    assert "remove" not in error_of(answer)["remediation"]


@pytest.mark.parametrize(
    ("place", "name", "meant"),
    [
        (["targets", 1], "id", "accountId"),
        (["targets", 1], "channelId", "accountId"),
        (["targets", 1], "network", "platform"),
        (["targets", 1], "caption", "text"),
        (["targets", 1], "settings", "options"),
        (["targets", 1], "images", "media"),
        (["media", 0], "type", "kind"),
        (["media", 0], "src", "url"),
        (["media", 0], "id", "mediaId"),
        (["media", 0], "alt", "altText"),
        (["media", 0], "data", "bytesBase64"),
        (["firstComment"], "content", "text"),
    ],
)
def test_a_word_means_what_it_can_mean_in_its_place(
    place: list[str | int], name: str, meant: str, corpus: World
) -> None:
    body = corpus.body(
        targets=[corpus.target(), corpus.target()],
        media=[{"kind": "image", "url": "https://example.com/a.png"}],
        firstComment={"text": "first"},
    )
    at: Any = body
    for part in place:
        at = at[part]
    at[name] = "x"
    error = hint_of(corpus, body)
    path = ".".join(str(part) for part in [*place, name])
    assert error["message"] == f"{path}: There is no such field; did you mean `{meant}`?"


@pytest.mark.parametrize(
    ("platform", "known"),
    [
        ("bluesky", "platform, langs"),
        ("facebook", "platform, link"),
        ("twitter", "platform, replyToTweetId, quoteTweetId"),
        ("instagram", "platform, shareToFeed, coverUrl"),
        ("linkedin", "platform, visibility"),
    ],
)
def test_options_list_the_fields_of_the_platform_that_the_body_names(platform: str, known: str, corpus: World) -> None:
    error = hint_of(corpus, corpus.body(targets=[corpus.target(options={"platform": platform, "zzz": 1})]))
    listed = error["remediation"].partition("Known here: ")[2].rstrip(".").split(", ")
    assert set(known.split(", ")) <= set(listed)
    assert ("replyToUri" in listed) == (platform == "bluesky")


def test_options_without_a_platform_list_the_platforms(corpus: World) -> None:
    targets = [corpus.target(), corpus.target(options={"langs": ["de"]})]
    with untouched(corpus.server):
        error = error_of(corpus.post(targets=targets))
    (missing,) = error["platformResponse"]
    assert missing["path"] == ["targets", 1, "options", "platform"]
    for platform in ("bluesky", "facebook", "instagram", "linkedin", "pinterest", "threads", "tiktok", "twitter"):
        assert platform in error["message"]


@pytest.mark.parametrize(("name", "owners"), [("title", "pinterest and tiktok"), ("link", "facebook")])
def test_an_option_at_the_top_is_told_where_it_belongs(name: str, owners: str, corpus: World) -> None:
    error = hint_of(corpus, corpus.body(**{name: "x"}))
    assert f"one of the options of {owners}" in error["remediation"]
