"""Schema errors: every issue listed, and a close name for a misspelt field."""

from __future__ import annotations

from typing import Any

import pytest

from socialpub import platforms
from tests.support.app_server import UNKNOWN_ID, error_of, unchanged
from tests.support.request_cast import RequestCast

Issue = tuple[str, list[str | int], str, str]  # code, path, expected, received
ID = "<alice's account>"
PLATFORMS = ", ".join(f"'{name}'" for name in platforms.PLATFORMS)
PLATFORMS_OR = " or ".join(PLATFORMS.rsplit(", ", 1))
BODIES: list[tuple[str, dict[str, Any], list[Issue]]] = [
    ("nothing", {}, [("missing", ["targets"], "a value", "nothing")]),
    (
        "a target without account and platform, and nothing to publish",
        {"targets": [{}]},
        [
            ("missing", ["targets", 0, "accountId"], "a UUID", "nothing"),
            ("missing", ["text"], "string", "nothing"),
        ],
    ),
    (
        "the second target has nothing to publish",
        {"targets": [{"accountId": ID, "text": "hello"}, {"accountId": ID, "firstComment": {"text": "1"}}]},
        [("missing", ["text"], "string", "nothing")],
    ),
    (
        "no media in place of the default's",
        {"targets": [{"accountId": ID, "media": []}], "media": [{"kind": "image", "url": "https://example.com/a"}]},
        [("missing", ["text"], "string", "nothing")],
    ),
    (
        "all at once",
        {"targets": [{"accountId": "x", "txt": 1}, {"platform": "myspace"}, {}], "text": 5, "scheduleAt": "x"},
        [
            ("string_pattern_mismatch", ["targets", 0, "accountId"], "a UUID", "string"),
            ("extra_forbidden", ["targets", 0, "txt"], "no such field", "integer"),
            ("literal_error", ["targets", 1, "platform"], PLATFORMS_OR, "string"),
            ("string_type", ["text"], "string", "integer"),
            ("extra_forbidden", ["scheduleAt"], "no such field", "string"),
            ("missing", ["targets", 2, "accountId"], "a UUID", "nothing"),
        ],
    ),
    (
        "options without their platform",
        {"targets": [{"accountId": ID, "options": {"langs": ["de"]}}], "text": "a"},
        [("missing", ["targets", 0, "options", "platform"], "a value", "nothing")],
    ),
    (
        "options of nobody",
        {"targets": [{"accountId": ID, "options": {"platform": "myspace"}}], "text": "a"},
        [("literal_error", ["targets", 0, "options", "platform"], PLATFORMS, "string")],
    ),
    (
        "options that are none",
        {"targets": [{"accountId": ID, "options": "bluesky"}], "text": "a"},
        [("dict_type", ["targets", 0, "options"], "object", "string")],
    ),
    (
        "options of another platform's",
        {"targets": [{"accountId": ID, "options": {"platform": "bluesky", "boardId": "1"}}], "text": "a"},
        [("extra_forbidden", ["targets", 0, "options", "boardId"], "no such field", "string")],
    ),
    (
        "half a reply",
        {"targets": [{"accountId": ID, "options": {"platform": "bluesky", "replyToUri": "at://x"}}], "text": "a"},
        [("value_error", ["targets", 0, "options"], "what the message says", "object")],
    ),
    (
        "media of all wrong kinds",
        {
            "targets": [{"accountId": ID}],
            "media": ["med_x", 5, {"kind": "audio", "url": "x"}, {"kind": "image", "ur": ""}],
        },
        [
            ("string_pattern_mismatch", ["media", 0], "a media id: med_ and 22 letters or digits", "string"),
            ("model_type", ["media", 1], "object", "integer"),
            ("literal_error", ["media", 2, "kind"], "'image', 'video' or 'document'", "string"),
            ("extra_forbidden", ["media", 3, "ur"], "no such field", "string"),
        ],
    ),
    (
        "a comment that is none",
        {"targets": [{"accountId": ID, "firstComment": {}}], "text": "a", "firstComment": {"text": ""}},
        [
            ("missing", ["targets", 0, "firstComment", "text"], "a value", "nothing"),
            ("string_too_short", ["firstComment", "text"], "min length 1", "string"),
        ],
    ),
    (
        "the former shape",
        {"account": {"id": ID}, "text": "a"},
        [("missing", ["targets"], "a value", "nothing"), ("extra_forbidden", ["account"], "no such field", "object")],
    ),
    (
        "a mode that is none",
        {"targets": [{"accountId": ID}], "text": "a", "publishNow": "yes"},
        [("bool_type", ["publishNow"], "boolean", "string")],
    ),
]
NULLABLE = [
    ["text"],
    ["media"],
    ["publishNow"],
    ["scheduledAt"],
    ["firstComment"],
    ["profileId"],
    ["targets"],
    ["targets", 0, "accountId"],
    ["targets", 0, "platform"],
    ["targets", 0, "options"],
    ["targets", 0, "text"],
    ["targets", 0, "media"],
    ["targets", 0, "firstComment"],
    ["targets", 0, "options", "langs"],
    ["firstComment", "text"],
    ["media", 0],
    ["media", 0, "kind"],
    ["media", 0, "mediaId"],
    ["media", 0, "url"],
    ["media", 0, "bytesBase64"],
    ["media", 0, "altText"],
]
NEIGHBOURS = [
    (["scheduledat"], "scheduledAt"),
    (["scheduleAt"], "scheduledAt"),
    (["txt"], "text"),
    (["target"], "targets"),
    (["targets", 0, "accountID"], "accountId"),
    (["targets", 0, "option"], "options"),
    (["targets", 0, "options", "lang"], "langs"),
    (["targets", 0, "options", "replyToURI"], "replyToUri"),
    (["media", 0, "alt_text"], "altText"),
    (["media", 0, "base64"], "bytesBase64"),
    (["firstComment", "txt"], "text"),
]


def named(path: list[str | int]) -> str:
    return ".".join(str(part) for part in path)


def whole(world: RequestCast) -> dict[str, Any]:
    """A request in which every place of the lists above exists."""
    return {
        "targets": [{"accountId": world.alice.bluesky, "options": {"platform": "bluesky", "langs": ["de"]}}],
        "text": "hello",
        "media": [{"kind": "image", "url": "https://example.com/a.png"}],
        "firstComment": {"text": "first"},
    }


def put(body: dict[str, Any], path: list[str | int], value: Any) -> dict[str, Any]:
    at: Any = body
    for part in path[:-1]:
        at = at[part]
    at[path[-1]] = value
    return body


def filled(value: Any, world: RequestCast) -> Any:
    if isinstance(value, dict):
        return {name: filled(item, world) for name, item in value.items()}
    if isinstance(value, list):
        return [filled(item, world) for item in value]
    return world.alice.bluesky if value == ID else value


@pytest.fixture(scope="module")
def world(corpus: RequestCast) -> RequestCast:
    """One for all of them: a refused request leaves nothing, and `validate` writes nothing."""
    return corpus


@pytest.mark.parametrize(("name", "body", "issues"), BODIES, ids=[name for name, _, _ in BODIES])
def test_every_issue_of_a_body_is_listed(
    name: str, body: dict[str, Any], issues: list[Issue], world: RequestCast
) -> None:
    sent = filled(body, world)
    with unchanged(world.server):
        answer = world.alice.api.publish(sent)
        again = world.alice.api.post("/v1/posts/validate", json=sent)
    error = error_of(answer)
    assert (answer.status_code, error["code"], error["rule"]) == (400, "validation_failed", named(issues[0][1]))
    shown = [
        (found["code"], found["path"], found["expected"], found["received"]) for found in error["platformResponse"]
    ]
    assert shown == issues
    assert all(set(found) == {"code", "expected", "received", "path", "message"} for found in error["platformResponse"])
    assert all(found["message"] for found in error["platformResponse"])
    assert error_of(again)["platformResponse"] == error["platformResponse"]


@pytest.mark.parametrize("path", NULLABLE, ids=named)
def test_null_is_no_value_anywhere(path: list[str | int], world: RequestCast) -> None:
    with unchanged(world.server):
        error = error_of(world.alice.api.publish(put(whole(world), path, None)))
    assert error["rule"] == named(path)
    assert error["platformResponse"][0]["received"] == "null"


@pytest.mark.parametrize(("path", "meant"), NEIGHBOURS, ids=[named(path) for path, _ in NEIGHBOURS])
def test_a_misspelt_field_is_refused_and_its_neighbour_named(
    path: list[str | int], meant: str, world: RequestCast
) -> None:
    with unchanged(world.server):
        error = error_of(world.alice.api.publish(put(whole(world), path, "x")))
    assert error["rule"] == named(path)
    assert error["remediation"] == f"There is no field `{named(path)}`; did you mean `{meant}`?"


def test_a_field_with_no_neighbour_lists_what_there_is(world: RequestCast) -> None:
    error = error_of(world.post(colour="teal"))
    assert error["remediation"] == (
        "There is no field `colour`; remove it. Known here: "
        "targets, text, media, publishNow, scheduledAt, slot, firstComment, thread, profileId, onDuplicate, "
        "externalId, plan."
    )


def test_a_field_without_a_name_is_named_by_quotes(world: RequestCast) -> None:
    for answer in (world.alice.api.get("/v1/posts?=1"), world.alice.api.publish({**whole(world), "": 1})):
        error = error_of(answer)
        assert (error["rule"], error["message"][:4]) == ('""', '"": ')
        assert error["remediation"].startswith("There is a field without a name; remove it. Known here: ")


def test_a_request_of_nothing_but_unknown_fields_is_answered_in_bounds(world: RequestCast) -> None:
    error = error_of(world.post(**{f"field{n}": n for n in range(20_000)}))
    assert (error["rule"], error["message"]) == ("body.json", "The body has more than 15,000 values.")
    error = error_of(world.post(**{f"field{n}": n for n in range(10_000)}))
    assert len(error["platformResponse"]) == 100
    error = error_of(world.post(**{f"field{n}": n for n in range(98)}))
    assert len(error["platformResponse"]) == 98
    assert error["remediation"].count("There is no field") == 10


def test_options_are_validated_before_the_account_is_looked_up(world: RequestCast) -> None:
    error = error_of(world.post(targets=[{"accountId": UNKNOWN_ID, "options": {"platform": "threads", "x": 1}}]))
    assert error["rule"] == "targets.0.options.x"


# --- Options, by platform ---

GOOD_OPTIONS: list[dict[str, Any]] = [
    {"platform": "bluesky"},
    {"platform": "bluesky", "langs": ["de", "pt-BR"]},
    {"platform": "facebook", "link": "https://example.com"},
    {"platform": "instagram", "shareToFeed": False, "coverUrl": "https://example.com/a.jpg"},
    {"platform": "linkedin", "visibility": "CONNECTIONS"},
    {"platform": "pinterest", "boardId": "1", "destinationUrl": "https://example.com", "title": "t"},
    {"platform": "pinterest", "boardId": "1", "coverImageUrl": "https://example.com/a.jpg"},
    {"platform": "threads", "replyToId": "1" * 19},
    {"platform": "tiktok", "privacy": "self_only", "disableComment": True, "brandContentToggle": False, "title": "t"},
    {"platform": "twitter", "replyToTweetId": "1"},
    {"platform": "twitter", "quoteTweetId": "1" * 19},
]
BAD_OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"platform": "bluesky", "langs": "de"}, "langs"),
    ({"platform": "bluesky", "langs": [1]}, "langs.0"),
    ({"platform": "bluesky", "replyRootUri": "at://x", "replyRootCid": "x"}, ""),
    ({"platform": "facebook", "link": ""}, "link"),
    ({"platform": "facebook", "link": "example.com"}, "link"),
    ({"platform": "facebook", "link": "https://example.com/" + "a" * 2048}, "link"),
    ({"platform": "instagram", "shareToFeed": "yes"}, "shareToFeed"),
    ({"platform": "instagram", "coverUrl": "/a.jpg"}, "coverUrl"),
    ({"platform": "linkedin", "visibility": "public"}, "visibility"),
    ({"platform": "pinterest", "boardId": 5}, "boardId"),
    ({"platform": "threads", "replyToId": "1" * 20}, "replyToId"),
    ({"platform": "threads", "replyToId": "１"}, "replyToId"),
    ({"platform": "tiktok", "privacy": "PUBLIC"}, "privacy"),
    ({"platform": "tiktok", "disableDuet": 1}, "disableDuet"),
    ({"platform": "twitter", "replyToTweetId": ""}, "replyToTweetId"),
    ({"platform": "twitter", "replyToTweetId": "1\n"}, "replyToTweetId"),
    ({"platform": "twitter", "replyToTweetId": "1", "quoteTweetId": "2"}, ""),
]


def with_options(world: RequestCast, options: dict[str, Any]) -> Any:
    account = world.server.connect(world.charlie, options["platform"])["id"]
    body = {"targets": [{"accountId": account, "options": options}], "text": "hello", "deep": False}
    return world.charlie.api.post("/v1/posts/validate", json=body)


@pytest.mark.parametrize("options", GOOD_OPTIONS, ids=str)
def test_options_of_their_platform_are_taken(options: dict[str, Any], world: RequestCast) -> None:
    assert with_options(world, options).status_code == 200


@pytest.mark.parametrize(("options", "field"), BAD_OPTIONS, ids=lambda value: str(value)[:60])
def test_options_are_closed_and_typed(options: dict[str, Any], field: str, world: RequestCast) -> None:
    error = error_of(with_options(world, options))
    assert error["rule"] == f"targets.0.options.{field}".rstrip(".")
