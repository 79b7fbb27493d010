"""Records and blobs of the fake Bluesky; messages as in a real @atproto/pds 0.5.35."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from socialpub.simulator.link_pages import png
from socialpub.simulator.server import SimulatorThread
from tests.support.bluesky_user import KEY, BlueskyUser, make_record
from tests.support.fixed_clock import FixedClock

OTHER_KEY = "3n2qaialwncul"
NO_SUCH_CID = "bafyreif4jtespwoq3nwgutnzzs4l47sa6b6hgqriu3o2qys4oisro3uhdu"
FAMILY = "👨‍👩‍👧‍👦"  # one grapheme, 25 bytes


def kinds(alice: BlueskyUser) -> list[str]:
    return [entry.kind for entry in alice.simulator.lab.ledger.entries()]


def complaint(alice: BlueskyUser, **fields: Any) -> str | None:
    """What the server says against a post with these fields; None when it takes it."""
    answer = alice.write("createRecord", make_record(**fields))
    if answer.status_code == 200:
        return None
    assert answer.json()["error"] == "InvalidRequest"
    return str(answer.json()["message"]).removeprefix("Invalid app.bsky.feed.post record: ")


# --- Validation -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def writer() -> Iterator[BlueskyUser]:
    """A user whose records are only checked; all tests of validation share the simulator."""
    with SimulatorThread(FixedClock(), platforms=["bluesky"]) as simulator:
        account = simulator.lab.add_account("bluesky", handle="alice.test", displayName="Alice")
        with httpx.Client(base_url=simulator.origin("bluesky"), timeout=60) as client:
            writer = BlueskyUser(simulator, client, account)
            writer.log_in()
            yield writer


@pytest.mark.parametrize(
    "text, expected",
    [
        ("", None),
        ("a" * 300, None),
        ("a" * 301, "grapheme too big (maximum 300, got 301) at $.record.text"),
        (FAMILY * 120, None),
        (FAMILY * 121, "string too big (maximum 3000, got 3025) at $.record.text"),
        ("a\u0301" * 300, None),
        ("\r\n" * 301, "grapheme too big (maximum 300, got 301) at $.record.text"),
        (5, "Expected string value type (got 5) at $.record.text"),
        (None, "Expected string value type (got null) at $.record.text"),
        ({"a": 1}, 'Expected string value type (got {"a": ...}) at $.record.text'),
        ([1, 2, 3], "Expected string value type (got [1, 2, ...]) at $.record.text"),
    ],
)
def test_the_text_is_measured_in_graphemes_and_bytes(writer: BlueskyUser, text: Any, expected: str | None) -> None:
    assert complaint(writer, text=text) == expected


@pytest.mark.parametrize(
    "created_at, good",
    [
        ("2026-11-20T12:00:00Z", True),
        ("2026-11-20T12:00:00.123456+14:00", True),
        ("2026-02-30T12:00:00Z", True),
        ("0001-01-01T00:00:00Z", True),
        ("2026-11-20T12:00:00", False),
        ("2026-11-20T12:00:00-00:00", False),
        ("2026-11-20t12:00:00z", False),
        ("2026-11-20T12:00:60Z", False),
        ("2026-11-00T12:00:00Z", False),
        ("2026-11-20T24:00:00Z", False),
        ("2026-11-20", False),
        ("2026-11-20T12:00:00." + "1" * 50 + "Z", False),
    ],
)
def test_the_date_has_a_time_and_a_zone(writer: BlueskyUser, created_at: str, good: bool) -> None:
    expected = None if good else f'Invalid datetime (got "{created_at}") at $.record.createdAt'
    assert complaint(writer, createdAt=created_at) == expected


@pytest.mark.parametrize(
    "language, good",
    [("en", True), ("zh-Hant-TW", True), ("de-DE-1996", True), ("x-private", True), ("i-klingon", True)]
    + [(language, False) for language in ("e", "english", "EN", "en_US", "en-", "", "123")],
)
def test_languages_are_bcp_47(writer: BlueskyUser, language: str, good: bool) -> None:
    assert complaint(writer, langs=[language]) == (
        None if good else f'Invalid language (got "{language}") at $.record.langs[0]'
    )


TAG = {"$type": "app.bsky.richtext.facet#tag", "tag": "news"}
RANGE = {"byteStart": 0, "byteEnd": 4}


@pytest.mark.parametrize(
    "facet, expected",
    [
        ({"index": RANGE, "features": [TAG]}, None),
        ({"index": {"byteStart": 4, "byteEnd": 500}, "features": [TAG]}, None),  # the server does not look at the text
        ({"index": RANGE, "features": [{"$type": "org.example.facet"}]}, None),
        (
            {"index": {"byteStart": -1, "byteEnd": 1}, "features": []},
            "integer too small (minimum 0, got -1) at {}.index.byteStart",
        ),
        ({"index": {"byteStart": 0}, "features": []}, 'Missing required key "byteEnd" at {}.index'),
        (
            {"index": {**RANGE, "byteEnd": True}, "features": []},
            "Expected integer value type (got true) at {}.index.byteEnd",
        ),
        ({"index": RANGE}, 'Missing required key "features" at {}'),
        (
            {"index": RANGE, "features": [{**TAG, "tag": "a" * 65}]},
            "grapheme too big (maximum 64, got 65) at {}.features[0].tag",
        ),
        (
            {"index": RANGE, "features": [{"tag": "a"}]},
            'Expected an object which includes the "$type" property value type (got {{"tag": ...}}) at {}.features[0]',
        ),
        (
            {"index": RANGE, "features": [{"$type": "app.bsky.richtext.facet#mention", "did": "alice"}]},
            'Invalid DID (got "alice") at {}.features[0].did',
        ),
        (
            {"index": RANGE, "features": [{"$type": "app.bsky.richtext.facet#link", "uri": "example.com"}]},
            'Invalid uri (got "example.com") at {}.features[0].uri',
        ),
    ],
)
def test_facets_are_checked_by_shape(writer: BlueskyUser, facet: dict[str, Any], expected: str | None) -> None:
    assert complaint(writer, text="news", facets=[facet]) == (expected and expected.format("$.record.facets[0]"))


def test_a_fraction_is_no_value_of_a_record(alice: BlueskyUser) -> None:
    assert complaint(alice, extra={"a": [1.0, 1.5]}) == (
        "Expected one of null, boolean, integer, string, cid, bytes, array or object value type (got 1.5)"
        " at $.record.extra.a[1]"
    )


CARD = {"uri": "https://example.com", "title": "t", "description": "d"}


@pytest.mark.parametrize(
    "embed, expected",
    [
        ({"$type": "app.bsky.embed.external", "external": CARD}, None),
        ({"$type": "org.example.embed", "anything": 1}, None),
        (
            {"$type": "app.bsky.embed.external", "external": {**CARD, "thumb": None}},
            "Expected blob value type (got null) at $.record.embed.external.thumb",
        ),
        (
            {"$type": "app.bsky.embed.external", "external": {"uri": "https://a", "title": ""}},
            'Missing required key "description" at $.record.embed.external',
        ),
        (
            {"$type": "app.bsky.embed.record", "record": {"uri": "https://a", "cid": NO_SUCH_CID}},
            'Invalid at-uri (got "https://a") at $.record.embed.record.uri',
        ),
        (
            {"$type": "app.bsky.embed.images", "images": [{"image": {"cid": "x", "mimeType": "a/b"}, "alt": ""}]},
            'Expected blob value type (got {"cid": ..., "mimeType": ...}) at $.record.embed.images[0].image',
        ),
        (
            {"$type": "app.bsky.embed.gallery", "items": [{"$type": "app.bsky.embed.gallery#image"}]},
            'Missing required key "image" at $.record.embed.items[0]',
        ),
    ],
)
def test_embeds_are_checked_by_shape(writer: BlueskyUser, embed: dict[str, Any], expected: str | None) -> None:
    assert complaint(writer, embed=embed) == expected


def test_without_validation_anything_is_taken(alice: BlueskyUser) -> None:
    answer = alice.write("createRecord", {"text": 5}, rkey="any-key", validate=False)
    assert (answer.status_code, "validationStatus" in answer.json()) == (200, False)


# --- Writing --------------------------------------------------------------------------------------------------------


def test_the_same_key_cannot_be_created_twice_and_is_posted_once(alice: BlueskyUser) -> None:
    answers = [alice.write("createRecord", make_record(), rkey=KEY) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 500]
    assert answers[1].json() == {"error": "InternalServerError", "message": "Internal Server Error"}
    assert kinds(alice) == ["post"]


def test_putting_the_same_record_again_changes_nothing(alice: BlueskyUser) -> None:
    first, again, guarded = alice.put(), alice.put(), alice.put(swapRecord=None)
    assert first.json().pop("commit")
    for answer in (again, guarded):
        assert answer.json() == {key: value for key, value in first.json().items() if key != "commit"}
    assert kinds(alice) == ["post"]


def test_a_changed_record_is_an_update_and_no_second_post(alice: BlueskyUser) -> None:
    alice.put("one")
    alice.put("two")
    assert kinds(alice) == ["post", "update"]
    assert [entry.text for entry in alice.simulator.lab.ledger.posts()] == ["one"]


@pytest.mark.parametrize(
    "exists, swap, status",
    [
        (False, None, 200),
        (False, "other", 400),
        (True, None, 400),
        (True, "other", 400),
        (True, "current", 200),
    ],
)
def test_a_swap_names_the_record_that_must_be_there(
    alice: BlueskyUser, exists: bool, swap: str | None, status: int
) -> None:
    current = alice.put("one").json()["cid"] if exists else None
    answer = alice.put("two", swapRecord={"current": current, "other": NO_SUCH_CID}.get(swap or ""))
    assert answer.status_code == status
    if status == 400:
        assert answer.json() == {"error": "InvalidSwap", "message": f"Record was at {current or 'null'}"}


def test_the_commit_can_be_guarded_too(alice: BlueskyUser) -> None:
    head = alice.put("one").json()["commit"]["cid"]
    refused = alice.put("two", swapCommit=NO_SUCH_CID)
    assert refused.json() == {"error": "InvalidSwap", "message": f"Commit was at {head}"}
    assert alice.put("two", swapCommit=head).status_code == 200


def test_a_deletion_is_recorded_once_and_may_be_repeated(alice: BlueskyUser) -> None:
    alice.put()
    answers = [alice.write("deleteRecord", rkey=KEY).json() for _ in range(2)]
    assert (list(answers[0]), answers[1]) == (["commit"], {})
    assert kinds(alice) == ["post", "delete"]


def create(rkey: str, text: str) -> dict[str, Any]:
    kind = "com.atproto.repo.applyWrites#create"
    return {"$type": kind, "collection": "app.bsky.feed.post", "rkey": rkey, "value": make_record(text)}


def test_a_batch_is_done_whole_or_not_at_all(alice: BlueskyUser) -> None:
    batch = {"repo": alice.did, "writes": [create(KEY, "one"), create(OTHER_KEY, "two"), create(KEY, "three")]}
    assert alice.call("com.atproto.repo.applyWrites", batch).status_code == 500
    assert (kinds(alice), alice.listed()["records"]) == ([], [])
    batch["writes"] = [create(KEY, "one"), create(OTHER_KEY, "two")]
    answer = alice.call("com.atproto.repo.applyWrites", batch).json()
    assert [result["uri"].rpartition("/")[2] for result in answer["results"]] == [KEY, OTHER_KEY]
    assert [entry.text for entry in alice.simulator.lab.ledger.posts()] == ["one", "two"]


def test_a_reply_is_a_comment_in_the_ledger_and_a_gate_is_what_it_is(alice: BlueskyUser) -> None:
    made = alice.put().json()
    reference = {"uri": made["uri"], "cid": made["cid"]}
    alice.write("createRecord", make_record("me first", reply={"root": reference, "parent": reference}))
    gate = {"post": made["uri"], "createdAt": "2026-11-20T12:00:00Z", "allow": []}
    alice.write("createRecord", gate, collection="app.bsky.feed.threadgate", rkey=KEY)
    assert kinds(alice) == ["post", "comment", "threadgate"]


# --- Blobs ----------------------------------------------------------------------------------------------------------


def with_image(blob: dict[str, Any], alt: str = "a dot") -> dict[str, Any]:
    return make_record(embed={"$type": "app.bsky.embed.images", "images": [{"image": blob, "alt": alt}]})


def test_the_ledger_names_the_media_of_a_post(alice: BlueskyUser) -> None:
    content = png("dot")
    alice.write("createRecord", with_image(alice.upload(content)))
    [entry] = alice.simulator.lab.ledger.entries()
    [medium] = entry.media
    assert (medium.sha256, medium.size, medium.type, medium.alt) == (
        hashlib.sha256(content).hexdigest(),
        len(content),
        "image/png",
        "a dot",
    )


def test_the_type_of_a_blob_is_sniffed(alice: BlueskyUser) -> None:
    declared = [("image/jpeg", png("dot")), ("image/png", b"\xff\xd8\xff\xe0 jpeg"), ("text/vtt", b"hello")]
    sniffed = [alice.upload(content, kind)["mimeType"] for kind, content in declared]
    assert sniffed == ["image/png", "image/jpeg", "text/vtt"]


@pytest.mark.parametrize("size, status", [(5 * 1024 * 1024, 200), (5 * 1024 * 1024 + 1, 413)])
def test_a_blob_has_at_most_5_mib(alice: BlueskyUser, size: int, status: int) -> None:
    headers = {**alice.headers(), "content-type": "video/mp4"}
    answer = alice.client.post("/xrpc/com.atproto.repo.uploadBlob", content=b"x" * size, headers=headers)
    assert answer.status_code == status
    if status == 413:
        assert answer.json() == {"error": "PayloadTooLarge", "message": "request entity too large"}


@pytest.mark.parametrize(
    "change, name, message",
    [
        ({"size": 1}, "InvalidSize", "Referenced Size does not match stored blob. Expected: {size}, Got: 1"),
        (
            {"mimeType": "image/jpeg"},
            "InvalidMimeType",
            "Referenced Mimetype does not match stored blob. Expected: image/png, Got: image/jpeg",
        ),
        ({"ref": {"$link": "bafkrei" + "a" * 52}}, "BlobNotFound", "Could not find blob: bafkrei" + "a" * 52),
    ],
)
def test_a_reference_must_be_the_one_that_the_upload_gave(
    alice: BlueskyUser, change: dict[str, Any], name: str, message: str
) -> None:
    blob = alice.upload(png("dot"))
    answer = alice.write("createRecord", with_image({**blob, **change}))
    assert (answer.status_code, answer.json()) == (
        400,
        {"error": name, "message": message.format(size=blob["size"])},
    )
    assert kinds(alice) == []


def test_type_and_size_of_a_reference_are_compared_at_the_first_use_only(alice: BlueskyUser) -> None:
    blob = alice.upload(png("dot"))
    wrong = with_image({**blob, "size": 1, "mimeType": "image/jpeg"})
    answers = [alice.write("createRecord", record) for record in (wrong, with_image(blob), wrong)]
    assert [answer.status_code for answer in answers] == [400, 200, 200]


def test_a_blob_goes_with_the_last_record_that_uses_it(alice: BlueskyUser) -> None:
    blob = alice.upload(png("dot"))
    for rkey in (KEY, OTHER_KEY):
        alice.write("createRecord", with_image(blob), rkey=rkey)
    alice.write("deleteRecord", rkey=KEY)
    assert alice.write("createRecord", with_image(blob), rkey=KEY).status_code == 200
    for rkey in (KEY, OTHER_KEY):
        alice.write("deleteRecord", rkey=rkey)
    assert alice.write("createRecord", with_image(blob), rkey=KEY).json()["error"] == "BlobNotFound"


# --- Reading --------------------------------------------------------------------------------------------------------


def keys(listed: dict[str, Any]) -> list[str]:
    return [record["uri"].rpartition("/")[2] for record in listed["records"]]


@pytest.fixture
def five(alice: BlueskyUser) -> list[str]:
    """Five posts; their keys, the newest first."""
    made = [f"3n2qaial32p{letter}2" for letter in "abcde"]
    for rkey in made:
        alice.put(rkey, rkey=rkey)
    return made[::-1]


def test_lists_are_newest_first_and_go_on_at_the_cursor(alice: BlueskyUser, five: list[str]) -> None:
    first = alice.listed(limit=2)
    second = alice.listed(limit=2, cursor=first["cursor"])
    third = alice.listed(limit=2, cursor=second["cursor"])
    last = alice.listed(limit=2, cursor=third["cursor"])
    assert [keys(page) for page in (first, second, third, last)] == [five[:2], five[2:4], five[4:], []]
    assert "cursor" not in last
    assert keys(alice.listed(reverse="true")) == five[::-1]


def test_the_lab_can_shorten_pages(alice: BlueskyUser, five: list[str]) -> None:
    alice.simulator.lab.configure(list_limit=2)
    page = alice.listed(limit=100)
    assert keys(page) == five[:2]
    assert keys(alice.listed(limit=100, cursor=page["cursor"])) == five[2:4]


def test_lists_may_lag_while_a_lookup_by_key_does_not(alice: BlueskyUser, clock: FixedClock) -> None:
    alice.simulator.lab.configure(listLagMs=400)
    alice.put()
    clock.ms += 399
    assert keys(alice.listed()) == []
    params = {"repo": alice.did, "collection": "app.bsky.feed.post", "rkey": KEY}
    assert alice.client.get("/xrpc/com.atproto.repo.getRecord", params=params).status_code == 200
    clock.ms += 1
    assert keys(alice.listed()) == [KEY]


def test_a_byte_order_mark_is_stored_and_counted_but_not_read(alice: BlueskyUser) -> None:
    card = {"uri": "https://a.example/", "title": "\ufeffT", "description": "\ufeff\ufeffD"}
    record = make_record(text="\ufeffhi\ufeff", embed={"$type": "app.bsky.embed.external", "external": card})
    written = alice.write("putRecord", record, rkey=KEY, swapRecord=None).json()
    wanted = {"repo": alice.did, "collection": record["$type"], "rkey": KEY}
    read = alice.client.get("/xrpc/com.atproto.repo.getRecord", params=wanted).json()
    assert read["cid"] == written["cid"]
    assert read["value"]["text"] == "hi\ufeff"
    assert read["value"]["embed"]["external"] == card | {"title": "T", "description": "\ufeffD"}
    assert alice.listed()["records"][0]["value"] == read["value"]
    again = alice.write("putRecord", record, rkey=KEY, swapRecord=None)
    assert (again.status_code, again.json()["cid"]) == (200, written["cid"])
    stripped = alice.write("putRecord", read["value"], rkey=KEY, swapRecord=None)
    assert (stripped.status_code, stripped.json()["error"]) == (400, "InvalidSwap")
    assert complaint(alice, text="\ufeff" + "a" * 300) == "grapheme too big (maximum 300, got 301) at $.record.text"
