"""Per-platform post options: validation, round trip, match with the specification."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from socialpub.platforms import PLATFORMS
from tests.support.platforms.rule_drafts import EIGHT

URL_MAX = "https://a.example/" + "a" * (2048 - 18)
URI, CID = "at://did:plc:abc/app.bsky.feed.post/3k", "bafyreib2rxk3rybk3aobmv5cjuql3bm2twh4jo5uxgf5kpqcsgz7soitae"
LIST = "at://did:plc:abc/app.bsky.graph.list/3k"
PARENT = {"replyToUri": URI, "replyToCid": CID}
ROOT = {"replyRootUri": URI, "replyRootCid": CID}

VALID: list[tuple[str, dict[str, Any]]] = [
    ("bluesky", {"langs": ["en", "de"]}),
    ("bluesky", {"labels": ["porn", "graphic-media"], "quoteUri": URI, "threadgate": ["mention", LIST]}),
    ("bluesky", {"threadgate": ["none"]}),
    ("bluesky", {"threadgate": ["follower", "following"] * 3}),  # the rule bluesky.threadgate.count_max says no
    ("bluesky", PARENT),
    ("bluesky", PARENT | ROOT),
    ("facebook", {"link": "https://a.example"}),
    ("facebook", {"link": "ftp://a.example/x"}),  # a URL all right; the rule facebook.link.http says no
    ("facebook", {"link": URL_MAX}),
    ("facebook", {"story": True, "backdatedTime": "2019-05-04T15:30:00Z"}),
    ("facebook", {"backdatedTime": "2020-02-29T15:30:00+05:30"}),
    ("instagram", {"shareToFeed": False, "coverUrl": "http://a.example/ü.jpg"}),
    ("instagram", {"story": True, "isAiGenerated": True, "collaborators": ["a.b", "C_1"], "locationId": "110"}),
    ("instagram", {"thumbOffset": 1500, "userTags": [{"username": "ann", "x": 0.0, "y": 1.0}] * 20}),
    ("linkedin", {"visibility": "PUBLIC"}),
    ("linkedin", {"visibility": "CONNECTIONS", "reshareDisabled": True, "documentTitle": "Menu"}),
    ("pinterest", {"boardSectionId": "5195035916725198488", "boardId": "x", "title": "", "coverImageUrl": URL_MAX}),
    ("pinterest", {"destinationUrl": "no url at all, " + "a" * 4000}),
    ("threads", {"replyToId": "1"}),
    ("threads", {"replyToId": "9" * 19}),
    ("threads", {"topicTag": "a b", "linkAttachment": "https://a.example", "replyControl": "mentioned_only"}),
    ("threads", {"quotePostId": "1", "replyControl": "everyone"}),
    ("tiktok", {"privacy": "mutual_follow_friend", "disableComment": True, "disableDuet": False}),
    ("tiktok", {"privacy": "self_only", "disableStitch": True, "brandContentToggle": True, "brandOrganicToggle": True}),
    ("tiktok", {"privacy": "public_to_everyone", "title": "T"}),
    ("twitter", {"replyToTweetId": "0"}),
    ("twitter", {"quoteTweetId": "9" * 19}),
    ("twitter", {"replySettings": "mentionedUsers", "communityId": "1", "madeWithAi": True, "paidPartnership": True}),
    *((name, {}) for name in PLATFORMS),
    *((name, {"platform": name}) for name in PLATFORMS),
]


@pytest.mark.parametrize(("name", "given"), VALID)
def test_options_come_back_as_they_were_given(name: str, given: dict[str, Any]) -> None:
    options = PLATFORMS[name].options.model_validate(given)
    assert options.model_dump(by_alias=True, exclude_unset=True) == given


INVALID: list[tuple[str, dict[str, Any], str]] = [
    ("bluesky", {"langs": "en"}, "langs"),
    ("bluesky", {"langs": [1]}, "langs.0"),
    ("bluesky", {"replyToUri": URI}, ""),
    ("bluesky", {"replyToCid": CID}, ""),
    ("bluesky", PARENT | {"replyRootUri": URI}, ""),
    ("bluesky", PARENT | {"replyRootCid": CID}, ""),
    ("bluesky", ROOT, ""),
    ("bluesky", {"labels": ["gore"]}, "labels.0"),
    ("bluesky", {"labels": ["porn"] * 11}, "labels"),
    ("bluesky", {"threadgate": []}, "threadgate"),
    ("bluesky", {"threadgate": ["mentionRule"]}, "threadgate.0"),
    ("bluesky", {"threadgate": [URI]}, "threadgate.0"),
    ("bluesky", {"threadgate": ["none", "mention"]}, ""),
    ("bluesky", PARENT | {"threadgate": ["none"]}, ""),
    ("bluesky", {"quoteUri": 1}, "quoteUri"),
    ("facebook", {"link": ""}, "link"),
    ("facebook", {"link": "a.example/x"}, "link"),
    ("facebook", {"link": "/x"}, "link"),
    ("facebook", {"link": "https://"}, "link"),
    ("facebook", {"link": "https://["}, "link"),
    ("facebook", {"link": "https://a.example/ x"}, "link"),
    ("facebook", {"link": "https://a.exa\tmple/x"}, "link"),
    ("facebook", {"link": "https://a.example:99999/x"}, "link"),
    ("facebook", {"link": URL_MAX + "a"}, "link"),
    ("facebook", {"link": 1}, "link"),
    ("facebook", {"story": "yes"}, "story"),
    ("facebook", {"backdatedTime": "2019-02-29T15:30:00Z"}, "backdatedTime"),
    ("facebook", {"backdatedTime": "2019-05-04T15:30:00"}, "backdatedTime"),
    ("facebook", {"backdatedTime": 1556983800}, "backdatedTime"),
    ("instagram", {"shareToFeed": "true"}, "shareToFeed"),
    ("instagram", {"shareToFeed": 1}, "shareToFeed"),
    ("instagram", {"coverUrl": "cover.jpg"}, "coverUrl"),
    ("instagram", {"story": "yes"}, "story"),
    ("instagram", {"thumbOffset": -1}, "thumbOffset"),
    ("instagram", {"thumbOffset": "1500"}, "thumbOffset"),
    ("instagram", {"collaborators": "ann"}, "collaborators"),
    ("instagram", {"collaborators": ["@ann"]}, "collaborators.0"),
    ("instagram", {"locationId": "Berlin"}, "locationId"),
    ("instagram", {"userTags": [{"username": "ann", "x": 0.5}]}, "userTags.0.y"),
    ("instagram", {"userTags": [{"username": "ann", "x": 1.1, "y": 0.5}]}, "userTags.0.x"),
    ("instagram", {"userTags": [{"username": "ann", "x": 0.5, "y": 0.5}] * 21}, "userTags"),
    ("linkedin", {"visibility": "public"}, "visibility"),
    ("linkedin", {"visibility": "LOGGED_IN"}, "visibility"),
    ("linkedin", {"reshareDisabled": "no"}, "reshareDisabled"),
    ("linkedin", {"documentTitle": 5}, "documentTitle"),
    ("pinterest", {"boardSectionId": "Cakes"}, "boardSectionId"),
    ("pinterest", {"boardId": 12}, "boardId"),
    ("pinterest", {"title": 12}, "title"),
    ("pinterest", {"destinationUrl": 12}, "destinationUrl"),
    ("pinterest", {"coverImageUrl": "cover.jpg"}, "coverImageUrl"),
    ("threads", {"replyToId": ""}, "replyToId"),
    ("threads", {"replyToId": "9" * 20}, "replyToId"),
    ("threads", {"replyToId": "12a"}, "replyToId"),
    ("threads", {"replyToId": "12\n"}, "replyToId"),
    ("threads", {"replyToId": "١٢"}, "replyToId"),
    ("threads", {"replyToId": 12}, "replyToId"),
    ("threads", {"topicTag": "a" * 1025}, "topicTag"),
    ("threads", {"linkAttachment": "a.example"}, "linkAttachment"),
    ("threads", {"replyControl": "nobody"}, "replyControl"),
    ("threads", {"quotePostId": "C1"}, "quotePostId"),
    ("tiktok", {"privacy": "PUBLIC_TO_EVERYONE"}, "privacy"),
    ("tiktok", {"disableDuet": "false"}, "disableDuet"),
    ("twitter", {"replyToTweetId": "-1"}, "replyToTweetId"),
    ("twitter", {"quoteTweetId": 20}, "quoteTweetId"),
    ("twitter", {"replyToTweetId": "1", "quoteTweetId": "2"}, ""),
    ("twitter", {"replySettings": "mentioned_users"}, "replySettings"),
    ("twitter", {"communityId": "cats"}, "communityId"),
    ("twitter", {"madeWithAi": "yes"}, "madeWithAi"),
    ("twitter", {"paidPartnership": 1}, "paidPartnership"),
]


@pytest.mark.parametrize(("name", "given", "path"), INVALID)
def test_what_does_not_fit_is_refused_at_its_field(name: str, given: dict[str, Any], path: str) -> None:
    with pytest.raises(ValidationError) as refused:
        PLATFORMS[name].options.model_validate(given)
    assert [".".join(map(str, issue["loc"])) for issue in refused.value.errors()] == [path]


def fields(name: str) -> list[str]:
    return [str(each.alias) for each in PLATFORMS[name].options.model_fields.values()]


@pytest.mark.parametrize(("name", "field"), [(name, field) for name in PLATFORMS for field in fields(name)])
def test_null_is_refused_everywhere(name: str, field: str) -> None:
    with pytest.raises(ValidationError) as refused:
        PLATFORMS[name].options.model_validate({field: None})
    assert [issue["loc"] for issue in refused.value.errors()] == [(field,)]


@pytest.mark.parametrize("name", PLATFORMS)
def test_an_unknown_option_is_refused(name: str) -> None:
    for unknown in ("colour", "board_id", "reply_to_id", "share_to_feed"):
        with pytest.raises(ValidationError) as refused:
            PLATFORMS[name].options.model_validate({unknown: "x"})
        assert [(issue["type"], issue["loc"]) for issue in refused.value.errors()] == [("extra_forbidden", (unknown,))]


@pytest.mark.parametrize("name", PLATFORMS)
def test_the_tag_must_be_the_platforms_own(name: str) -> None:
    for other in sorted(set(PLATFORMS) - {name}):
        with pytest.raises(ValidationError):
            PLATFORMS[name].options.model_validate({"platform": other})


def test_each_platform_has_exactly_the_options_of_the_specification() -> None:
    assert {name: sorted(set(fields(name)) - {"platform"}) for name in EIGHT} == {
        "bluesky": [
            "labels",
            "langs",
            "quoteUri",
            "replyRootCid",
            "replyRootUri",
            "replyToCid",
            "replyToUri",
            "threadgate",
        ],
        "facebook": ["backdatedTime", "link", "story"],
        "instagram": [
            "collaborators",
            "coverUrl",
            "isAiGenerated",
            "locationId",
            "shareToFeed",
            "story",
            "thumbOffset",
            "userTags",
        ],
        "linkedin": ["documentTitle", "reshareDisabled", "visibility"],
        "pinterest": ["altText", "boardId", "boardSectionId", "coverImageUrl", "destinationUrl", "title"],
        "threads": ["linkAttachment", "quotePostId", "replyControl", "replyToId", "topicTag"],
        "tiktok": [
            "brandContentToggle",
            "brandOrganicToggle",
            "disableComment",
            "disableDuet",
            "disableStitch",
            "privacy",
            "title",
        ],
        "twitter": [
            "communityId",
            "madeWithAi",
            "paidPartnership",
            "quoteTweetId",
            "replySettings",
            "replyToTweetId",
        ],
    }


def test_only_bluesky_has_options_that_need_an_immediate_post() -> None:
    assert {name for name in EIGHT if PLATFORMS[name].reply_options} == {"bluesky"}
    assert set(PLATFORMS["bluesky"].reply_options) <= set(fields("bluesky"))


@pytest.mark.parametrize("name", EIGHT)
def test_a_form_shows_first_what_a_platform_has(name: str) -> None:
    assert set(PLATFORMS[name].frequent_options) <= set(fields(name))
