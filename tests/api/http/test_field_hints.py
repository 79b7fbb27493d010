"""Field names of other tools are refused with a hint at the right name.

Following a hint never publishes earlier than was asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from socialpub.domain.schemas.field_suggestions import list_fields
from socialpub.domain.schemas.posts import PublishRequest
from socialpub.web.openapi.document import public_path
from socialpub.web.path_suggestions import suggest
from socialpub.web.routes import ROUTES
from tests.support.app_server import UNKNOWN_ID, error_of, unchanged
from tests.support.request_cast import RequestCast

TIME, TEXT, TARGETS, MEDIA = "scheduledAt", "text", "targets", "media"
VALIDATE, QUEUE, ZONE, HEADER = "POST /v1/posts/validate", "`slot: next`", "+02:00", "the header `Idempotency-Key`"
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
        "publishImmediately": WHEN,
        "idempotency_key": HEADER,
        "status": WHEN,
    },
    "slips": {"schduledAt": TIME, "shedule": TIME, "drft": VALIDATE, "imges": MEDIA, "txt": TEXT, "publsihAt": TIME},
}
NAMES = [(tool, name, meant) for tool, names in TOOLS.items() for name, meant in names.items()]
TRIALS = [name for _, name, meant in NAMES if meant in (TIME, VALIDATE, QUEUE, ZONE, WHEN)]


@pytest.fixture(scope="module", autouse=True)
def nothing_is_left(corpus: RequestCast) -> Iterator[None]:
    """None of these requests leaves anything behind."""
    with unchanged(corpus.server):
        yield


def hint_of(corpus: RequestCast, body: dict[str, Any]) -> dict[str, Any]:
    error = error_of(corpus.alice.api.publish(body))
    assert error["code"] == "validation_failed"
    assert "publishNow" not in error["remediation"].partition("Known here")[0]
    return error


@pytest.mark.matrix
@pytest.mark.parametrize(("tool", "name", "meant"), NAMES, ids=[f"{tool}-{name}" for tool, name, _ in NAMES])
def test_another_tools_name_is_answered_with_ours(tool: str, name: str, meant: str, corpus: RequestCast) -> None:
    error = hint_of(corpus, corpus.body(**{name: "2030-01-01T00:00:00Z"}))
    asked = f"did you mean `{meant}`?" if meant.isalpha() and " " not in meant else meant
    assert asked in error["remediation"], error["remediation"]
    assert asked in error["message"], "tools show nothing but the message"
    assert error["message"].startswith(f"{name}: ")


@pytest.mark.parametrize("place", [[], ["targets", 0], ["media", 0], ["firstComment"], ["targets", 0, "options"]])
def test_a_time_or_a_trial_is_never_said_to_be_removed(place: list[str | int], corpus: RequestCast) -> None:
    for name in TRIALS:
        body = corpus.body(
            targets=[corpus.target(options={"platform": "bluesky"})],
            media=[{"kind": "image", "url": "https://example.com/a.png"}],
            firstComment={"text": "first"},
        )
        at: Any = body
        for part in place:
            at = at[part]
        at[name] = True
        assert "remove" not in hint_of(corpus, body)["remediation"], name


@pytest.mark.parametrize("name", ["draft", "is_draft", "saveToDraft"])
def test_a_draft_is_sent_to_the_drafts(name: str, corpus: RequestCast) -> None:
    assert "send it to POST /v1/drafts" in hint_of(corpus, corpus.body(**{name: True}))["remediation"]


def test_a_trial_in_the_query_is_no_word_to_remove(corpus: RequestCast) -> None:
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
    place: list[str | int], name: str, meant: str, corpus: RequestCast
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
def test_options_list_the_fields_of_the_platform_that_the_body_names(
    platform: str, known: str, corpus: RequestCast
) -> None:
    error = hint_of(corpus, corpus.body(targets=[corpus.target(options={"platform": platform, "zzz": 1})]))
    listed = error["remediation"].partition("Known here: ")[2].rstrip(".").split(", ")
    assert set(known.split(", ")) <= set(listed)
    assert ("replyToUri" in listed) == (platform == "bluesky")


def test_options_without_a_platform_list_the_platforms(corpus: RequestCast) -> None:
    targets = [corpus.target(), corpus.target(options={"langs": ["de"]})]
    error = error_of(corpus.post(targets=targets))
    (missing,) = error["platformResponse"]
    assert missing["path"] == ["targets", 1, "options", "platform"]
    for platform in ("bluesky", "facebook", "instagram", "linkedin", "pinterest", "threads", "tiktok", "twitter"):
        assert platform in error["message"]


@pytest.mark.parametrize(("name", "owners"), [("title", "pinterest and tiktok"), ("link", "facebook")])
def test_an_option_at_the_top_is_told_where_it_belongs(name: str, owners: str, corpus: RequestCast) -> None:
    error = hint_of(corpus, corpus.body(**{name: "x"}))
    assert f"one of the options of {owners}" in error["remediation"]


def spellings(name: str) -> list[str]:
    """A field's name as other conventions write it."""
    words = re.findall("[A-Z]?[a-z]+", name)
    lower = [word.lower() for word in words]
    joined = ["_".join(lower), "-".join(lower), " ".join(lower), "".join(lower), "_".join(lower).upper()]
    return sorted({*joined, "".join(map(str.title, lower)), name.upper(), f"{name}[]"} - {name})


TOP = list_fields(PublishRequest, [])


@pytest.mark.parametrize("field", TOP)
def test_a_known_field_in_other_letters_names_that_field(field: str, corpus: RequestCast) -> None:
    """`publishNow` too: whoever writes `publish_now` has asked for just that."""
    for name in spellings(field):
        error = error_of(corpus.alice.api.publish(corpus.body(**{name: True})))
        assert f"did you mean `{field}`?" in error["remediation"], name
        assert f"did you mean `{field}`?" in error["message"], name


@pytest.mark.parametrize("name", ["publishNo", "publisNow", "publishesNow", "publish_no", "pubNow", "publish now!?x"])
def test_publish_now_is_named_for_no_other_word(name: str, corpus: RequestCast) -> None:
    hint_of(corpus, corpus.body(**{name: True}))


PLATFORM_NAMES = {
    "x": "twitter", "X": "twitter", "x.com": "twitter", "Twitter": "twitter", "twiter": "twitter",
    "fb": "facebook", "FaceBook": "facebook", "ig": "instagram", "insta": "instagram", "instagramm": "instagram",
    "bsky": "bluesky", "blue_sky": "bluesky", "Linked In": "linkedin", "linked-in": "linkedin", "TikTok": "tiktok",
    "tik_tok": "tiktok", "thread": "threads", "pintrest": "pinterest",
}  # fmt: skip


@pytest.mark.parametrize(("given", "meant"), PLATFORM_NAMES.items())
def test_a_platform_by_another_name_is_named(given: str, meant: str, corpus: RequestCast) -> None:
    """As a target, as the tag of options, and as a filter."""
    asked = f"did you mean `{meant}`?"
    target = error_of(corpus.alice.api.publish({"text": "x", "targets": [{"platform": given}]}))
    tagged = error_of(corpus.post(targets=[corpus.target(options={"platform": given})]))
    listed = error_of(corpus.alice.api.get("/v1/posts", params={"platform": given}))
    for error in (target, tagged, listed):
        assert asked in error["remediation"], error
        assert asked in error["platformResponse"][0]["message"]
    assert (target["rule"], tagged["rule"]) == ("targets.0.platform", "targets.0.options.platform")


@pytest.mark.parametrize("given", ["myspace", "", "?", "mastodon", "y" * 5000, "\u0000"])
def test_a_platform_that_nobody_knows_is_not_guessed(given: str, corpus: RequestCast) -> None:
    error = error_of(corpus.alice.api.publish({"text": "x", "targets": [{"platform": given}]}))
    assert "did you mean" not in error["message"] + error["remediation"]


def test_another_value_in_other_letters_is_named(corpus: RequestCast) -> None:
    media = [{"kind": "Image", "url": "https://example.com/a.png"}]
    error = error_of(corpus.post(media=media))
    assert error["remediation"] == "`media.0.kind`: did you mean `image`?"


# --- Addresses -----------------------------------------------------------------------------------------------------

ADDRESSES = {
    "/v1/post": "/v1/posts",
    "/v1/posts/": "/v1/posts",
    "/v1//posts": "/v1/posts",
    "/V1/Posts": "/v1/posts",
    "/v2/posts": "/v1/posts",
    "/api/v1/posts": "/v1/posts",
    "/v1/account": "/v1/accounts",
    "/v1/webhooks": "/v1/webhook-endpoints",
    f"/v1/post/{UNKNOWN_ID}": "/v1/posts/{id}",
    f"/v1/posts/{UNKNOWN_ID}/retri": "/v1/posts/{id}/retry",
    f"/v1/webhook/{UNKNOWN_ID}/test": "/v1/webhook-endpoints/{id}/test",
    "/openapi.jsn": "/openapi.json",
    "/health": "/healthz",
    "/setings": "/settings",
}


@pytest.mark.parametrize(("path", "known"), ADDRESSES.items())
def test_an_unknown_address_names_the_nearest(path: str, known: str, corpus: RequestCast) -> None:
    error = error_of(corpus.alice.api.get(path))
    assert error["code"] == "not_found"
    assert error["remediation"] == f"Did you mean `{known}`? /docs/reference has every address."


def test_each_path_is_the_nearest_to_itself_with_a_letter_less_or_more() -> None:
    """Of every route; where another is as near, that one may be named."""
    for known in sorted({public_path(route.path) for route in ROUTES}):
        fixed = [part for part in known.split("/") if part and not part.startswith("{")]
        longest = max(fixed, key=len, default="")
        for wrong in (f"{longest}x", longest[:-1], longest.upper(), longest.replace("-", "_") + "_") if fixed else ():
            named = suggest(known.replace(longest, wrong), ROUTES)
            assert named is not None, (known, wrong)
            assert len(named.split("/")) == len(known.split("/")), (known, wrong)


@pytest.mark.parametrize("path", ["/", "/wp-admin/setup.php", "/v1/" + "a" * 5000, "/%00", "/v1/a/b/c/d/e/f", "/*/*/*"])
def test_an_address_like_no_other_names_none(path: str) -> None:
    assert suggest(path, tuple(route for route in ROUTES if route.path != "/")) is None
