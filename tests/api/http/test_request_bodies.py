"""Request bodies with a byte order mark or a content encoding."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.app_server import error_of, unchanged
from tests.support.request_cast import RequestCast, inline_item, make_picture

BOM = b"\xef\xbb\xbf"


def marked(body: Any) -> bytes:
    return BOM + json.dumps(body).encode()


def test_a_byte_order_mark_before_json_is_skipped(world: RequestCast) -> None:
    """A light body, one that carries a file, one with a field twice as long as a light one, and one in small pieces."""
    for body in (
        world.body(),
        world.body(media=[inline_item(make_picture())]),
        world.body(media=[inline_item(make_picture()), *[inline_item(make_picture(size=(99, 99)))] * 2]),
    ):
        answer = world.alice.api.post("/v1/posts", content=marked(body))
        assert answer.json()["status"] == "published", answer.text
    whole = marked(world.body(text="in pieces"))

    def pieces() -> Iterator[bytes]:
        yield from (whole[at : at + 2] for at in range(0, len(whole), 2))

    assert world.alice.api.post("/v1/posts", content=pieces()).json()["status"] == "published"


def test_a_byte_order_mark_is_skipped_wherever_json_is_taken(world: RequestCast) -> None:
    api, post = world.alice.api, world.scheduled()
    moved = api.patch(f"/v1/posts/{post}", content=marked({"scheduledAt": "2030-01-01T00:00:00Z"}))
    assert moved.status_code == 200
    registered = api.post(
        "/v1/webhook-endpoints", content=marked({"url": "https://hooks.example.com/", "events": ["*"]})
    )
    assert "body.json" not in registered.text
    assert registered.status_code in (201, 400)
    assert api.post("/v1/posts/validate", content=marked(world.body())).status_code == 200


def test_a_key_is_for_the_same_body_with_its_mark(world: RequestCast) -> None:
    body = marked(world.body())
    first, again = (world.alice.api.post("/v1/posts", content=body, headers={"Idempotency-Key": "k"}) for _ in "12")
    assert (first.content, again.headers["Idempotency-Replayed"]) == (again.content, "true")


@pytest.mark.parametrize("before", [BOM + BOM, b"\xff\xfe", b"\xef\xbb", b" " + BOM])
def test_anything_else_before_json_is_not_skipped(before: bytes, world: RequestCast) -> None:
    with unchanged(world.server):
        answer = world.alice.api.post("/v1/posts", content=before + json.dumps(world.body()).encode())
    assert error_of(answer)["rule"] == "body.json"


@pytest.mark.parametrize("content", [BOM, "\ufeff{}".encode("utf-16-le"), BOM + b"{"])
def test_a_mark_alone_is_no_json(content: bytes, world: RequestCast) -> None:
    with unchanged(world.server):
        answer = world.alice.api.post("/v1/posts", content=content)
    assert error_of(answer)["rule"] == "body.json"


@pytest.mark.parametrize(
    "coding", ["gzip", "GZIP", "x-gzip", "deflate", "br", "zstd", "identity, gzip", "gzip, gzip", "aws-chunked", "?"]
)
def test_a_packed_body_is_told_so(coding: str, world: RequestCast) -> None:
    packed = gzip.compress(json.dumps(world.body()).encode())
    with unchanged(world.server):
        answer = world.alice.api.post("/v1/posts", content=packed, headers={"Content-Encoding": coding})
    assert (answer.status_code, error_of(answer)["rule"]) == (415, "http.content_encoding")


def test_a_coding_in_another_line_is_seen_and_a_long_one_is_cut(world: RequestCast) -> None:
    lines = [(b"Content-Encoding", b"identity"), (b"Content-Encoding", b"\xff" * 500)]
    with unchanged(world.server):
        answer = world.alice.api.post("/v1/posts", content=b"{}", headers=lines)
    assert answer.status_code == 415
    assert len(error_of(answer)["message"]) < 120


@pytest.mark.parametrize("coding", ["identity", "", "Identity", "identity, identity"])
def test_a_body_as_it_is_may_say_so(coding: str, world: RequestCast) -> None:
    answer = world.alice.api.post("/v1/posts", json=world.body(), headers={"Content-Encoding": coding})
    assert answer.json()["status"] == "published"


def test_a_coding_of_no_body_says_nothing(world: RequestCast) -> None:
    assert world.alice.api.get("/v1/posts", headers={"Content-Encoding": "gzip"}).status_code == 200
    empty = world.alice.api.request("DELETE", f"/v1/posts/{world.scheduled()}", headers={"Content-Encoding": "gzip"})
    assert empty.status_code == 200
