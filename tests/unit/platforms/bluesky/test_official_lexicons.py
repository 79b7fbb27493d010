"""Bluesky records and answers against the official lexicons and real recordings."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from socialpub.base.errors import ApiError, Outcome
from socialpub.base.http import Request, UpstreamResponse
from socialpub.platforms.bluesky import connector as bluesky
from socialpub.platforms.bluesky.rules import RULES
from socialpub.platforms.bluesky.xrpc import error_name
from socialpub.platforms.contract import (
    Absent,
    Draft,
    DraftMedia,
    Json,
    MediaFacts,
    Published,
    Ready,
    Unknown,
    classify,
)
from tests.support.platforms.bluesky_calls import BOB, CID, DID, make_upstream
from tests.support.platforms.scripted_upstream import NONCE, NOW, ScriptedTransport, make_response

SHARED = Path(__file__).parents[5] / "shared" / "upstream-specs" / "bluesky"
pytestmark = [
    pytest.mark.upstream,
    pytest.mark.skipif(not SHARED.is_dir(), reason="the official descriptions (../shared) are not here"),
]

# --- A validator for the parts of the lexicon language that these schemas use -----------------------------------------

FORMATS = {
    "datetime": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)",
    "uri": r"\w+:(?://)?[^\s/\ufeff][^\s\ufeff]*",
    "at-uri": r"at://[^\s/]+(/[a-zA-Z0-9.-]+(/[A-Za-z0-9._:~-]+)?)?",
    "did": r"did:[a-z]+:[A-Za-z0-9._:%-]*[A-Za-z0-9._-]",
    "cid": r"[a-zA-Z0-9+=]{8,256}",
    "language": r"[a-zA-Z]{2,8}(-[A-Za-z0-9]{1,8})*",
}


@cache
def lexicon(nsid: str) -> Json:
    path = SHARED / "lexicons" / (nsid.replace(".", "/") + ".json")
    loaded: Json = json.loads(path.read_text(encoding="utf-8"))
    return loaded


def validate(value: Any, nsid: str, name: str = "main") -> None:
    schema = lexicon(nsid)["defs"][name]
    check(value, schema["record"] if schema["type"] == "record" else schema, nsid, nsid)


def check(value: Any, schema: Json, nsid: str, at: str) -> None:
    kind = schema["type"]
    if kind == "ref":
        check_ref(value, schema["ref"], nsid, at)
    elif kind == "union":
        named = value["$type"]
        full = {(nsid if ref.startswith("#") else "") + ref: ref for ref in schema["refs"]}
        assert named in full, f"{at}: {named} is none of {sorted(full)}"
        check_ref(value, full[named], nsid, at)
    else:
        CHECKS[kind](value, schema, nsid, at)


def check_ref(value: Any, ref: str, nsid: str, at: str) -> None:
    where, _, name = ref.partition("#")
    target = where or nsid
    check(value, lexicon(target)["defs"][name or "main"], target, at)


def check_object(value: Any, schema: Json, nsid: str, at: str) -> None:
    assert isinstance(value, dict), at
    assert set(schema.get("required", ())) <= set(value), f"{at}: something required is missing"
    for name, inner in value.items():
        assert name == "$type" or name in schema["properties"], f"{at}: {name} is unknown"
        if name != "$type":
            check(inner, schema["properties"][name], nsid, f"{at}.{name}")


def check_array(value: Any, schema: Json, nsid: str, at: str) -> None:
    assert isinstance(value, list), at
    assert len(value) <= schema.get("maxLength", len(value)), f"{at}: too many"
    for index, inner in enumerate(value):
        check(inner, schema["items"], nsid, f"{at}[{index}]")


def check_string(value: Any, schema: Json, nsid: str, at: str) -> None:
    assert isinstance(value, str), at
    assert len(value.encode()) <= schema.get("maxLength", 10**9), f"{at}: too many bytes"
    assert len(regex.findall(r"\X", value)) <= schema.get("maxGraphemes", 10**9), f"{at}: too many graphemes"
    if "format" in schema:
        assert regex.fullmatch(FORMATS[schema["format"]], value), f"{at}: {value!r} is no {schema['format']}"


def check_integer(value: Any, schema: Json, nsid: str, at: str) -> None:
    assert type(value) is int, at
    assert value >= schema.get("minimum", value), f"{at}: too small"


def check_blob(value: Any, schema: Json, nsid: str, at: str) -> None:
    assert set(value) == {"$type", "ref", "mimeType", "size"}, at
    assert value["$type"] == "blob"
    assert any(value["mimeType"].startswith(kind.rstrip("*")) for kind in schema["accept"]), at
    assert value["size"] <= schema["maxSize"], at


CHECKS = {
    "object": check_object,
    "array": check_array,
    "string": check_string,
    "integer": check_integer,
    "blob": check_blob,
}

POST = "app.bsky.feed.post"
GOOD = {"$type": POST, "text": "x", "createdAt": "2026-11-20T09:10:09.123Z"}


@pytest.mark.parametrize(
    "bad",
    [
        {"text": "x"},
        GOOD | {"createdAt": "2026-11-20T09:10:09"},
        GOOD | {"text": "x" * 301},
        GOOD | {"langs": ["en"] * 4},
        GOOD | {"other": 1},
        GOOD | {"embed": {"$type": "app.bsky.embed.nothing"}},
        GOOD | {"embed": {"$type": "app.bsky.embed.images", "images": [{"alt": ""}]}},
        GOOD | {"facets": [{"index": {"byteStart": -1, "byteEnd": 1}, "features": []}]},
        GOOD | {"reply": {"root": {"uri": "x", "cid": CID}, "parent": {"uri": "x", "cid": CID}}},
    ],
)
def test_the_validator_sees_what_is_wrong(bad: Json) -> None:
    validate(GOOD, POST)
    with pytest.raises((AssertionError, KeyError)):
        validate(bad, POST)


# --- Our records ------------------------------------------------------------------------------------------------------


GIF = b"GIF89a\x01\x00\x01\x00\x00\x00\x00\x3b"


class Answering(ScriptedTransport):
    """A network where every handle resolves, every blob is taken and every page has a card."""

    def request(self, method: str, url: str, **sent: Any) -> UpstreamResponse:
        name = url.rsplit("/", 1)[1]
        if name == "com.atproto.repo.uploadBlob":
            mime = sent["headers"]["Content-Type"]
            size = len(sent["content"]) if isinstance(sent["content"], bytes) else 1
            blob = {"$type": "blob", "ref": {"$link": "bafkreia"}, "mimeType": mime, "size": size}
            return make_response(200, {"blob": blob})
        return make_response(200, {"did": BOB})

    def download(self, url: str, into: Any, **sent: Any) -> UpstreamResponse:
        into.write(GIF if sent["whole"] else b"<title>T</title>")
        return UpstreamResponse(200, {}, b"", request=Request("GET", "https://a.example/"))


def made(draft: Draft, comment: bool = False, **site: Any) -> Json:
    up = make_upstream(**site)
    up = type(up)(Answering(), Answering(), up.site, up.account, up.tokens)
    ready = bluesky.prepare(up, draft, None)
    assert isinstance(ready, Ready)
    plan = ready.plan
    if comment:
        plan = bluesky.comment(up, draft, Published("r", f"at://{DID}/{POST}/3n2qaial32p6v", CID), plan)
    assert json.loads(json.dumps(plan)) == plan
    record: Json = plan["record"]
    return record


def item(tmp_path: Path, kind: Any, content_type: str, **sizes: int) -> DraftMedia:
    path = tmp_path / "file"
    path.write_bytes(GIF)
    return DraftMedia(kind, "alt", facts=MediaFacts(content_type, len(GIF), **sizes), path=path)


PIECES = st.one_of(
    st.sampled_from(
        ["https://a.example/(b)", "http://[::1]/", "example.com", "@a.test", "#tag", "$AB", " ", "\n", "("]
    ),
    st.sampled_from(
        ["👨‍👩‍👧", "e\u0301", "\ufeff", "\u2028", "\x85", "https://", "https://a\u3000b", "http://ß.de", "\x00"]
    ),
    st.text(alphabet=st.characters(exclude_categories=("Cs",)), max_size=4),
)


@pytest.mark.slow
@settings(max_examples=100)
@given(st.lists(PIECES, max_size=25).map("".join).filter(lambda text: len(regex.findall(r"\X", text)) <= 300))
def test_every_text_makes_a_record_that_the_lexicon_accepts(text: str) -> None:
    names = ("replyTo", "replyRoot")
    reply = {f"{name}Uri": f"at://{BOB}/{POST}/3n2qaial32p6v" for name in names} | {f"{name}Cid": CID for name in names}
    draft = Draft(text, (), {"langs": ["de"]} | reply, text, NOW, NONCE)
    validate(made(draft), POST)
    validate(made(draft, comment=True), POST)


@pytest.mark.parametrize("count", [1, 4, 5, 10])
@pytest.mark.parametrize("sizes", [{}, {"width": 3, "height": 2}])
def test_images_make_a_record_that_the_lexicon_accepts(tmp_path: Path, count: int, sizes: dict[str, int]) -> None:
    image = item(tmp_path, "image", "image/gif", **sizes)
    validate(made(Draft("", (image,) * count, {}, None, NOW, NONCE), gallery=True), POST)


def test_a_video_makes_a_record_that_the_lexicon_accepts(tmp_path: Path) -> None:
    video = item(tmp_path, "video", "video/mp4", width=3, height=2)
    validate(made(Draft("", (video,), {}, None, NOW, NONCE), video_service=""), POST)


# --- The rows against the lexicon -------------------------------------------------------------------------------------


def test_our_limits_are_the_lexicons() -> None:
    text = lexicon(POST)["defs"]["main"]["record"]["properties"]["text"]
    tag = lexicon("app.bsky.richtext.facet")["defs"]["tag"]["properties"]["tag"]
    limits = {
        "bluesky.text.max_graphemes": text["maxGraphemes"],
        "bluesky.text.max_bytes": text["maxLength"],
        "bluesky.langs.count_max": lexicon(POST)["defs"]["main"]["record"]["properties"]["langs"]["maxLength"],
        "bluesky.media.count_max": lexicon("app.bsky.embed.images")["defs"]["main"]["properties"]["images"][
            "maxLength"
        ],
        "bluesky.media.image_size_max": lexicon("app.bsky.embed.images")["defs"]["image"]["properties"]["image"][
            "maxSize"
        ],
        "bluesky.media.video_size_max": lexicon("app.bsky.embed.video")["defs"]["main"]["properties"]["video"][
            "maxSize"
        ],
        "bluesky.hashtag.max_graphemes": tag["maxGraphemes"],
    }
    assert {rule.id: rule.limit for rule in RULES if rule.id in limits} == limits


# --- Recorded answers -------------------------------------------------------------------------------------------------


@cache
def recordings() -> dict[str, list[Json]]:
    cases: dict[str, list[Json]] = {}
    for name in ("pds-0.5.35-responses.json", "pds-0.5.35-ratelimit-responses.json"):
        for case in json.loads((SHARED / name).read_text(encoding="utf-8")):
            cases.setdefault(case["case"], []).append(case)
    return cases


def recorded(case: str) -> UpstreamResponse:
    found = recordings()[case][0]
    body = found.get("body")
    raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    return UpstreamResponse(found["status"], found.get("headers", {}), raw)


SORTED = [
    ("send", "createRecord no. 1667: rate limited", Outcome.THROTTLED, "platform_unavailable", None, False),
    ("send", "image post without alt", Outcome.REJECTED, "platform_rejected", "bluesky.record.invalid", False),
    ("send", "image > lexicon maxSize", Outcome.REJECTED, "platform_rejected", "bluesky.record.invalid", False),
    ("send", "301 ascii graphemes", Outcome.REJECTED, "platform_rejected", "bluesky.record.invalid", False),
    ("send", "rkey not a TID", Outcome.REJECTED, "platform_rejected", "bluesky.record.invalid", False),
    ("send", "image blob wrong size claim", Outcome.REJECTED, "platform_rejected", "bluesky.record.invalid", False),
    ("send", "image blob wrong mime claim", Outcome.REJECTED, "platform_rejected", "bluesky.record.invalid", False),
    ("send", "image blob never uploaded", Outcome.NOT_SENT, "platform_unavailable", None, False),
    ("send", "createRecord SAME body again", Outcome.AMBIGUOUS, "platform_unavailable", None, False),
    ("send", "createRecord EXPIRED access token", Outcome.NOT_SENT, "platform_auth_failed", None, True),
    ("send", "createRecord garbage token", Outcome.NOT_SENT, "platform_auth_failed", None, True),
    ("send", "createRecord no auth", Outcome.REJECTED, "platform_auth_failed", None, False),
    ("send", "other repo", Outcome.REJECTED, "platform_auth_failed", None, False),
    ("send", "createRecord on deactivated account", Outcome.REJECTED, "platform_auth_failed", None, False),
    ("send", "createRecord on taken-down account", Outcome.REJECTED, "platform_auth_failed", None, False),
    ("upload", "uploadBlob no auth", Outcome.REJECTED, "platform_auth_failed", None, False),
    (
        "upload",
        "uploadBlob 6 MB (limit 5 MiB here)",
        Outcome.REJECTED,
        "platform_rejected",
        "bluesky.media.image_size_max",
        False,
    ),
    ("login", "createSession wrong password", Outcome.REJECTED, "platform_auth_failed", None, False),
    ("login", "createSession on taken-down account", Outcome.REJECTED, "platform_auth_failed", None, False),
    ("login", "createSession no. 31: rate limited", Outcome.THROTTLED, "platform_unavailable", None, False),
    ("refresh", "refreshSession EXPIRED refresh token", Outcome.REJECTED, "platform_auth_failed", None, False),
    ("refresh", "refreshSession with access token", Outcome.REJECTED, "platform_auth_failed", None, False),
    ("refresh", "refreshSession after deleteSession", Outcome.REJECTED, "platform_auth_failed", None, False),
    ("refresh", "refreshSession of revoked app password", Outcome.REJECTED, "platform_auth_failed", None, False),
    ("refresh", "refreshSession on taken-down account", Outcome.REJECTED, "platform_auth_failed", None, False),
    ("resolve", "resolveHandle unknown", Outcome.REJECTED, "platform_rejected", None, False),
    ("resolve", "resolveHandle malformed", Outcome.REJECTED, "platform_rejected", None, False),
]


@pytest.mark.parametrize(("step", "case", "outcome", "code", "rule", "stale"), SORTED)
def test_what_a_real_server_answered_is_sorted(
    step: str, case: str, outcome: Outcome, code: str, rule: str | None, stale: bool
) -> None:
    reply = recorded(case)
    found = classify(bluesky.REPLIES, step, reply.status_code, error_name(reply), mutating=step == "send")
    assert (found.outcome, found.code, found.rule, found.stale_token) == (outcome, code, rule, stale)


class Replaying(ScriptedTransport):
    """Answers everything with one recorded answer."""

    def __init__(self, case: str) -> None:
        super().__init__()
        self.reply = recorded(case)

    def request(self, method: str, url: str, **sent: Any) -> UpstreamResponse:
        return self.reply


def replaying(case: str) -> Any:
    up = make_upstream()
    return type(up)(ScriptedTransport(), Replaying(case), up.site, up.account, up.tokens)


def plan_of(case: str) -> Json:
    body = recordings()[case][0]["request"]["body"]
    return {name: body[name] for name in ("repo", "collection", "rkey", "record")}


@pytest.mark.parametrize("case", ["putRecord new rkey swapRecord null", "putRecord same rkey same record"])
def test_a_real_write_and_its_repeat_are_published(case: str) -> None:
    plan, raw = plan_of(case), recorded(case).record()
    uri = f"at://{plan['repo']}/{plan['collection']}/{plan['rkey']}"
    expected = Published(uri, uri, raw["cid"], f"https://bsky.app/profile/{plan['repo']}/post/{plan['rkey']}")
    assert bluesky.send(replaying(case), plan) == expected


def test_a_real_record_settles_its_plan() -> None:
    plan = plan_of("createRecord client rkey")
    found = bluesky.settle(replaying("getRecord"), plan, NOW)
    assert isinstance(found, Published)
    assert found.cid == recorded("getRecord").record()["cid"]
    assert isinstance(bluesky.settle(replaying("getRecord not found"), plan, NOW), Absent)
    assert isinstance(bluesky.settle(replaying("getRecord unknown repo"), plan, NOW), Unknown)


def test_a_real_refresh_gives_a_pair_with_its_end() -> None:
    did = recorded("refreshSession").record()["did"]
    up = replaying("refreshSession")
    up = type(up)(up.http, up.guarded, up.site, type(up.account)(did, None, up.account.extra), up.tokens)
    tokens = bluesky.refresh(up, NOW)
    raw = recorded("refreshSession").record()
    assert (tokens.access, tokens.refresh) == (raw["accessJwt"], raw["refreshJwt"])
    assert tokens.expires_at_ms is not None
    assert tokens.expires_at_ms > 1_795_165_810_000


def test_a_real_conflict_is_read_back() -> None:
    plan = plan_of("putRecord swapRecord null on existing")
    with pytest.raises(ApiError) as caught:
        bluesky.send(replaying("putRecord swapRecord null on existing"), plan)
    assert caught.value.outcome is Outcome.AMBIGUOUS  # the read got the same refusal, so nobody can tell
