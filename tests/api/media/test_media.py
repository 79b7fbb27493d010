"""Media API: uploads, scopes, deletion, public URLs, and cleanup of orphaned files."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from socialpub.base.errors import ApiError
from socialpub.domain.access import actions, idempotency
from socialpub.domain.background import periodic_tasks
from socialpub.domain.media import files, library, probe
from socialpub.domain.organizations import quotas
from socialpub.platforms.contract import MediaFacts
from socialpub.store.schema.models import Instance, Media, Organization, Post
from socialpub.web.api import media as media_api
from tests.support.app_server import (
    UNKNOWN_ID,
    UNKNOWN_MEDIA,
    ApiClient,
    AppServer,
    Person,
    error_of,
    format_instant,
    unchanged,
)
from tests.support.media_files import animation, gif, mp4, picture, png, webm
from tests.support.media_uploads import (
    BUSY,
    JPEG,
    busy_machine,
    inline_post,
    stored_files,
    stored_media,
    upload_media,
    wait_until,
)
from tests.support.post_drafts import new_draft, seen

FIELDS = ("id url contentType sizeBytes sha256 kind width height durationMs profileId altText createdAt").split()


# --- Uploading -------------------------------------------------------------------------------------------------------


@pytest.mark.matrix
@pytest.mark.parametrize(
    "data,kind,extension,facts",
    [
        (picture("JPEG"), "image/jpeg", "jpg", {"width": 64, "height": 48}),
        (picture("PNG"), "image/png", "png", {"width": 64, "height": 48}),
        (picture("WEBP"), "image/webp", "webp", {"width": 64, "height": 48}),
        (animation("GIF"), "image/gif", "gif", {"width": 20, "height": 10}),
        (mp4(640, 360), "video/mp4", "mp4", {"width": 640, "height": 360, "durationMs": 2000}),
        (mp4(640, 360, turn=90), "video/mp4", "mp4", {"width": 360, "height": 640, "durationMs": 2000}),
        (mp4(brand=b"qt  "), "video/quicktime", "mov", {"width": 320, "height": 240, "durationMs": 2000}),
        (webm(), "video/webm", "webm", {"width": 320, "height": 240, "durationMs": 2000}),
        (webm(milliseconds=None), "video/webm", "webm", {"width": 320, "height": 240, "durationMs": None}),
    ],
    ids="jpeg png webp gif mp4 turned quicktime webm live".split(),
)
def test_a_file_is_stored_measured_and_served(
    server: AppServer, alice: Person, data: bytes, kind: str, extension: str, facts: dict[str, Any]
) -> None:
    response = upload_media(alice.api, data, kind, altText="A loaf — ünïcode")
    assert response.status_code == 201
    body = response.json()
    assert list(body) == FIELDS
    assert re.fullmatch(rf"{server.url}/media/{body['id']}/[0-9a-f]{{32}}\.{extension}", body["url"])
    assert re.fullmatch(r"med_[0-9A-Za-z]{22}", body["id"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", body["createdAt"])
    sha256 = hashlib.sha256(data).hexdigest()
    assert {name: body[name] for name in FIELDS if name not in ("id", "url", "createdAt")} == {
        "contentType": kind,
        "sizeBytes": len(data),
        "sha256": sha256,
        "kind": kind.partition("/")[0],
        "durationMs": None,
        "profileId": None,
        "altText": "A loaf — ünïcode",
    } | facts
    assert alice.api.get(f"/v1/media/{body['id']}").json() == body
    assert alice.api.get("/v1/media").json() == {"data": [body], "nextCursor": None}
    assert httpx.get(body["url"], trust_env=False).content == data
    assert stored_files(server) == [sha256]


@pytest.mark.slow
def test_every_deep_fact_of_a_video_is_kept(server: AppServer, alice: Person) -> None:
    stored_media(alice.api, mp4(codec=b"hvc1", rate=50))
    (row,) = server.rows(Media)
    facts = library.read_facts(row)
    assert (facts.frame_rate, facts.video_codec, facts.audio_codec, facts.has_audio) == (50.0, "hevc", "aac", True)
    assert (facts.bit_rate, facts.frames, facts.kind) == (40_000, None, "video")
    stored_media(alice.api, animation(frames=7))
    assert [row["frames"] for row in server.rows(Media)] == [None, 7]


def test_the_record_is_what_the_bytes_are_whatever_the_part_is_called(server: AppServer, alice: Person) -> None:
    for name in ("../../etc/passwd", "a.exe", "x\x00y.png", "C:\\a.jpg", "", "ü" * 300, "a.jpg/../b"):
        response = alice.api.post("/v1/media", files={"file": (name, JPEG, "image/jpeg")})
        assert response.status_code == 201
        assert response.json()["url"].endswith(".jpg")
    assert stored_files(server) == [hashlib.sha256(JPEG).hexdigest()]


@pytest.mark.parametrize("kind", ["image/jpg", "image/pjpeg", "IMAGE/JPEG; x=y", "application/octet-stream", ""])
def test_a_declared_type_that_means_the_same_is_taken(alice: Person, kind: str) -> None:
    body = (b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n' +
            (f"Content-Type: {kind}\r\n".encode() if kind else b"") + b"\r\n" + JPEG + b"\r\n--b--\r\n")  # fmt: skip
    response = alice.api.post("/v1/media", content=body, headers={"Content-Type": "multipart/form-data; boundary=b"})
    assert response.status_code == 201


def test_fields_may_stand_in_the_query_and_parts_go_before(server: AppServer, alice: Person) -> None:
    query = {"altText": "from the query", "profileId": alice.profile}
    sent = alice.api.post("/v1/media", params=query, files={"file": ("a", JPEG)}).json()
    assert (sent["altText"], sent["profileId"]) == ("from the query", alice.profile)
    both = alice.api.post("/v1/media", params=query, files={"file": ("a", JPEG)}, data={"altText": "part"}).json()
    assert (both["altText"], both["profileId"]) == ("part", alice.profile)


def test_a_body_without_a_length_is_taken(alice: Person) -> None:
    whole = form(part(JPEG))
    pieces = (whole[start : start + 7] for start in range(0, len(whole), 7))
    response = alice.api.post("/v1/media", content=pieces, headers=MULTIPART)
    assert response.status_code == 201


# --- Refusals --------------------------------------------------------------------------------------------------------

MULTIPART = {"Content-Type": "multipart/form-data; boundary=b"}


def part(data: bytes, name: str = "file", kind: str = "", filename: str | None = "a.bin") -> bytes:
    said = f'; filename="{filename}"' if filename is not None else ""
    declared = f"Content-Type: {kind}\r\n" if kind else ""
    return f'--b\r\nContent-Disposition: form-data; name="{name}"{said}\r\n{declared}\r\n'.encode() + data + b"\r\n"


def form(*parts: bytes, end: bytes = b"--b--\r\n") -> bytes:
    return b"".join(parts) + end


SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
REFUSED: dict[str, tuple[bytes, dict[str, str], str, int]] = {
    "JSON": (b"{}", {"Content-Type": "application/json"}, "media.content_type", 400),
    "no type": (form(part(JPEG)), {}, "media.content_type", 400),
    "urlencoded": (b"file=x", {"Content-Type": "application/x-www-form-urlencoded"}, "media.content_type", 400),
    "mixed": (form(part(JPEG)), {"Content-Type": "multipart/mixed; boundary=b"}, "media.content_type", 400),
    "no boundary": (form(part(JPEG)), {"Content-Type": "multipart/form-data"}, "media.parse_failed", 400),
    "long boundary": (b"", {"Content-Type": f"multipart/form-data; boundary={'b' * 71}"}, "media.parse_failed", 400),
    "other boundary": (
        form(part(JPEG)),
        {"Content-Type": "multipart/form-data; boundary=c"},
        "media.parse_failed",
        400,
    ),
    "not multipart": (b"hello", MULTIPART, "media.parse_failed", 400),
    "cut in the header": (part(JPEG)[:20], MULTIPART, "media.parse_failed", 400),
    "cut in the data": (part(JPEG)[:-40], MULTIPART, "media.parse_failed", 400),
    "no end": (form(part(JPEG), end=b""), MULTIPART, "media.parse_failed", 400),
    "no name": (b"--b\r\nContent-Disposition: form-data\r\n\r\nx\r\n--b--\r\n", MULTIPART, "media.parse_failed", 400),
    "no disposition": (b"--b\r\nX: y\r\n\r\nx\r\n--b--\r\n", MULTIPART, "media.parse_failed", 400),
    "a bad header": (b"--b\r\nX\x01: y\r\n\r\nx\r\n--b--\r\n", MULTIPART, "media.parse_failed", 400),
    "a long header": (b"--b\r\nX: " + b"y" * 99_999 + b"\r\n\r\nx\r\n--b--\r\n", MULTIPART, "media.parse_failed", 400),
    "many parts": (
        form(*[part(b"x", f"a{n}", filename=None) for n in range(21)]),
        MULTIPART,
        "media.parse_failed",
        400,
    ),
    "long fields": (form(part(b"x" * 600_000, "altText", filename=None)), MULTIPART, "media.parse_failed", 400),
    "nothing": (b"", MULTIPART, "media.empty_body", 400),
    "an empty file": (form(part(b"")), MULTIPART, "media.empty_body", 400),
    "no file": (form(part(b"x", "altText", filename=None)), MULTIPART, "media.missing_file", 400),
    "only an end": (form(), MULTIPART, "media.missing_file", 400),
    "a file of another name": (form(part(JPEG, "image")), MULTIPART, "media.missing_file", 400),
    "two files": (form(part(JPEG), part(JPEG)), MULTIPART, "media.single_file", 400),
    "SVG": (form(part(SVG, kind="image/svg+xml")), MULTIPART, "media.type_unsupported", 400),
    "SVG as PNG": (form(part(SVG, kind="image/png")), MULTIPART, "media.type_unsupported", 400),
    "a text": (form(part(b"hello")), MULTIPART, "media.type_unsupported", 400),
    "PNG as JPEG": (form(part(picture("PNG"), kind="image/jpeg")), MULTIPART, "media.type_mismatch", 400),
    "JPEG as text": (form(part(JPEG, kind="text/plain")), MULTIPART, "media.type_mismatch", 400),
    "MP4 as QuickTime": (form(part(mp4(), kind="video/quicktime")), MULTIPART, "media.type_mismatch", 400),
    "half a JPEG": (form(part(picture(size=(500, 500))[:3000])), MULTIPART, "media.unreadable", 400),
    "too many pixels": (form(part(png(10_000, 5_001))), MULTIPART, "media.pixels_max", 400),
    "an unknown field": (form(part(JPEG), part(b"x", "alttext", filename=None)), MULTIPART, "alttext", 400),
    "a second file of another name": (form(part(JPEG), part(JPEG, "thumb")), MULTIPART, "thumb", 400),
    "a malformed profile": (form(part(JPEG), part(b"x", "profileId", filename=None)), MULTIPART, "profileId", 400),
    "alt text in Latin-1": (
        form(part(JPEG), part(b"caf\xe9", "altText", filename=None)),
        MULTIPART,
        "media.parse_failed",
        400,
    ),
    "alt text with NUL": (form(part(JPEG), part(b"a\0b", "altText", filename=None)), MULTIPART, "altText", 400),
    "long alt text": (form(part(JPEG), part(b"x" * 100_001, "altText", filename=None)), MULTIPART, "altText", 400),
}


@pytest.mark.slow
def test_what_is_refused_has_its_rule_and_leaves_nothing(
    subtests: pytest.Subtests, server: AppServer, alice: Person
) -> None:
    for case in REFUSED:
        with subtests.test(case=case):
            body, headers, rule, status = REFUSED[case]
            with unchanged(server):
                response = alice.api.post("/v1/media", content=body, headers=headers)
            assert response.status_code == status, response.text
            error = error_of(response)
            assert (error["code"], error["rule"]) == ("validation_failed", rule)
            assert error["remediation"]


def test_every_media_rule_of_an_upload_is_refused_somewhere_here() -> None:
    seen = {rule for _, _, rule, _ in REFUSED.values()} | {"media.size_max"}
    by_upload = {
        "content_type", "parse_failed", "missing_file", "empty_body", "single_file", "type_unsupported",
        "type_mismatch", "size_max", "pixels_max", "unreadable",
    }  # fmt: skip
    assert {f"media.{name}" for name in by_upload} <= seen


@pytest.mark.slow
def test_a_file_above_the_limit_is_refused_with_413(make_server: Callable[..., AppServer]) -> None:
    server = make_server(media={"max_bytes": 200_000})
    api = server.person("Alice").api
    room = 200_000 - len(JPEG)
    assert upload_media(api, JPEG + bytes(room)).status_code == 201
    for data in (JPEG + bytes(room + 1), JPEG + bytes(3_000_000)):
        with unchanged(server):
            response = upload_media(api, data)
        assert (response.status_code, error_of(response)["rule"]) == (413, "media.size_max")
        pieces = (form(part(data))[at : at + 50_000] for at in range(0, len(data) + 200, 50_000))  # noqa: B023
        with unchanged(server):
            response = api.post("/v1/media", content=pieces, headers=MULTIPART)
        assert (response.status_code, error_of(response)["rule"]) == (413, "media.size_max")


def test_a_client_that_asks_first_is_refused_before_it_sends(server: AppServer, alice: Person) -> None:
    head = (
        f"POST /v1/media HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {alice.key}\r\nExpect: 100-continue\r\n"
        f"Content-Type: multipart/form-data; boundary=b\r\nContent-Length: {10**12}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", int(server.url.rsplit(":")[-1])), 10) as connection:
        connection.sendall(head.encode())
        answer = connection.recv(65536)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"media.size_max" in answer


def test_without_a_key_nothing_is_read(server: AppServer) -> None:
    with unchanged(server):
        response = server.api().post("/v1/media", files={"file": ("a", JPEG)})
    assert response.status_code == 401


def test_a_disk_that_is_nearly_full_takes_no_more(
    server: AppServer, alice: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "RESERVE_BYTES", 10**18)
    with unchanged(server), alice.api.expecting_failure():
        response = upload_media(alice.api)
    assert (response.status_code, error_of(response)["rule"]) == (503, "storage.unavailable")
    assert response.headers["Retry-After"] == "60"
    monkeypatch.undo()
    assert upload_media(alice.api).status_code == 201


# --- Slow and broken uploads -----------------------------------------------------------------------------------------


def sending(server: AppServer, key: str, length: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", int(server.url.rsplit(":")[-1])), 20)
    connection.sendall(
        f"POST /v1/media HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n"
        f"Content-Type: multipart/form-data; boundary=b\r\nContent-Length: {length}\r\n\r\n".encode()
    )
    return connection


def test_an_upload_that_breaks_off_leaves_nothing(server: AppServer, alice: Person) -> None:
    noise = JPEG + bytes(3_000_000)
    whole = form(part(noise))
    for sent in (10, 200, 70_000, 1_000_000, len(whole) - 1):
        with unchanged(server):
            with sending(server, alice.key, len(whole)) as connection:
                connection.sendall(whole[:sent])
                if sent > 300_000:
                    wait_until(lambda: bool(stored_files(server)))
            wait_until(lambda: not stored_files(server))


def test_an_upload_without_a_byte_for_too_long_ends(
    server: AppServer, alice: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(media_api, "IDLE_SECONDS", 0.2)
    whole = form(part(JPEG + bytes(1_000_000)))
    with unchanged(server), sending(server, alice.key, len(whole)) as connection:
        connection.sendall(whole[:500_000])
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"http.timeout" in answer


def test_an_upload_of_a_byte_now_and_then_ends_after_its_time_in_all(
    server: AppServer, alice: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(media_api, "UPLOAD_SECONDS", 0.5)
    stop, sent_all = threading.Event(), threading.Event()
    with unchanged(server), sending(server, alice.key, 1_000_000) as connection:

        def drip() -> None:
            with contextlib.suppress(OSError):  # the server has hung up
                for byte in part(JPEG * 100):
                    if stop.wait(0.02):
                        return
                    connection.sendall(bytes([byte]))
                sent_all.set()

        dripping = threading.Thread(target=drip)
        dripping.start()
        answer = connection.recv(65536)
        stop.set()
        dripping.join()
    assert not sent_all.is_set()  # nothing else than the time for the whole can have ended it
    assert answer.startswith(b"HTTP/1.1 408 ")


def test_refused_upload_is_answered_to_clients_that_send_it_all_first(server: AppServer, alice: Person) -> None:
    whole = form(part(SVG + bytes(30_000_000)))
    with sending(server, alice.key, len(whole)) as connection:
        connection.sendall(whole)
        answer = connection.recv(65536)
    assert b"media.type_unsupported" in answer


# --- Idempotency -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["upload", "inline"])
@pytest.mark.parametrize("how", BUSY)
def test_a_file_is_not_called_damaged_by_a_busy_machine(server: AppServer, alice: Person, how: str, way: str) -> None:
    """It was `media.unreadable`, for good, with the advice to upload a smaller file."""
    data = picture(size=(65 + BUSY.index(how), 48 if way == "upload" else 49))
    with busy_machine(how), alice.api.expecting_failure():
        answer = (
            upload_media(alice.api, data, key="1") if way == "upload" else alice.api.publish(inline_post(alice, data))
        )
    assert (answer.status_code, error_of(answer)["rule"]) == (503, "http.busy")
    assert int(answer.headers["Retry-After"]) > 0
    assert (stored_files(server), server.rows(Media), leased(server), server.rows(Post)) == ([], [], [], [])
    answer = upload_media(alice.api, data, key="1") if way == "upload" else alice.api.publish(inline_post(alice, data))
    assert answer.status_code == (201 if way == "upload" else 200)


def test_the_same_upload_under_one_key_is_done_once(server: AppServer, alice: Person) -> None:
    first = upload_media(alice.api, key="k1", altText="a")
    again = upload_media(alice.api, key="k1", altText="a")
    assert (first.status_code, again.status_code) == (201, 201)
    assert (again.content, again.headers["Idempotency-Replayed"]) == (first.content, "true")
    assert "Idempotency-Replayed" not in first.headers
    assert len(server.rows(Media)) == 1
    other_boundary = form(part(JPEG), part(b"a", "altText", filename=None))
    third = alice.api.post("/v1/media", content=other_boundary, headers=MULTIPART | {"Idempotency-Key": "k1"})
    assert third.content == first.content


@pytest.mark.parametrize("what", ["file", "altText", "profileId"])
def test_another_file_or_field_under_the_key_is_a_conflict(server: AppServer, alice: Person, what: str) -> None:
    upload_media(alice.api, key="k1", altText="a")
    with unchanged(server):
        other = {
            "file": lambda: upload_media(alice.api, picture("PNG"), key="k1", altText="a"),
            "altText": lambda: upload_media(alice.api, key="k1", altText="b"),
            "profileId": lambda: upload_media(alice.api, key="k1", altText="a", profileId=alice.profile),
        }[what]()
    assert (other.status_code, error_of(other)["rule"]) == (409, "idempotency_key.body_mismatch")


@pytest.mark.parametrize("what", ["altText", "profileId"])
def test_another_query_under_the_key_is_a_conflict(server: AppServer, alice: Person, what: str) -> None:
    values = {"altText": ("a", "b"), "profileId": (alice.profile, None)}[what]
    first, second = (asked_in_query(alice, "k1", **({what: value} if value else {})) for value in values)
    assert first.status_code == 201
    assert (second.status_code, error_of(second)["rule"]) == (409, "idempotency_key.body_mismatch")
    assert asked_in_query(alice, "k1", **{what: str(values[0])}).content == first.content


def asked_in_query(person: Person, key: str | None = None, **query: str) -> httpx.Response:
    headers = MULTIPART | ({"Idempotency-Key": key} if key else {})
    return person.api.post("/v1/media", content=form(part(JPEG)), params=query, headers=headers)


def test_the_query_of_an_upload_is_checked(server: AppServer, alice: Person, bob: Person, charlie: Person) -> None:
    of_bob = form(part(JPEG), part(bob.profile.encode(), "profileId", filename=None))
    refusals = {
        "a stranger's profile": (asked_in_query(alice, profileId=charlie.profile), 404, None),
        "another than the key's": (asked_in_query(bob, profileId=alice.profile), 400, "profile.scope_mismatch"),
        "no profile": (asked_in_query(alice, profileId="x"), 400, "profileId"),
        "a field that is none": (asked_in_query(alice, nope="1"), 400, "nope"),
        "another than the body's": (
            alice.api.post("/v1/media", content=of_bob, params={"profileId": charlie.profile}, headers=MULTIPART),
            400,
            "profileId",
        ),
        "two profiles": (
            alice.api.post(
                "/v1/media",
                content=form(part(JPEG)),
                params=[("profileId", alice.profile), ("profileId", bob.profile)],
                headers=MULTIPART,
            ),
            400,
            "profileId",
        ),
    }
    told = {name: (answer.status_code, error_of(answer).get("rule")) for name, (answer, *_) in refusals.items()}
    assert told == {name: expected for name, (_, *rest) in refusals.items() for expected in [tuple(rest)]}
    assert server.rows(Media) == []


def test_a_refused_upload_leaves_its_key_free(server: AppServer, alice: Person) -> None:
    assert upload_media(alice.api, SVG, key="k1").status_code == 400
    assert upload_media(alice.api, key="k1").status_code == 201


def test_a_key_that_cannot_be_is_refused_before_anything_is_received(server: AppServer, alice: Person) -> None:
    with unchanged(server):
        response = upload_media(alice.api, key="k" * 129)
    assert error_of(response)["rule"] == "idempotency_key.length"


def test_ten_twins_store_one_file(server: AppServer, alice: Person) -> None:
    answers: list[httpx.Response] = []
    threads = [
        threading.Thread(target=lambda: answers.append(upload_media(server.api(alice.key), key="twin")))
        for _ in range(10)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {(answer.status_code, answer.content) for answer in answers} == {(201, answers[0].content)}
    assert len(server.rows(Media)) == 1


# --- Scopes ----------------------------------------------------------------------------------------------------------


def test_media_belong_to_a_profile_or_to_all_of_them(server: AppServer, alice: Person, bob: Person) -> None:
    shared = stored_media(alice.api)
    alices = stored_media(alice.api, profileId=alice.profile)
    for_bob = stored_media(alice.api, profileId=bob.profile)
    bobs = stored_media(bob.api)
    assert (shared["profileId"], bobs["profileId"]) == (None, bob.profile)

    def seen(api: ApiClient, **query: str) -> set[str]:
        return {row["id"] for row in api.get("/v1/media", params=query).json()["data"]}

    assert seen(alice.api) == {row["id"] for row in (shared, alices, for_bob, bobs)}
    assert seen(alice.api, profileId=alice.profile) == {shared["id"], alices["id"]}
    assert seen(bob.api) == seen(bob.api, profileId=bob.profile) == {row["id"] for row in (shared, for_bob, bobs)}
    assert bob.api.get(f"/v1/media/{alices['id']}").status_code == 404
    assert bob.api.get(f"/v1/media/{shared['id']}").json() == shared


def test_an_upload_for_a_profile_out_of_scope_is_refused(
    server: AppServer, alice: Person, bob: Person, charlie: Person
) -> None:
    for api, profile, status, rule in (
        (bob.api, alice.profile, 400, "profile.scope_mismatch"),
        (bob.api, UNKNOWN_ID, 400, "profile.scope_mismatch"),
        (alice.api, charlie.profile, 404, None),
        (alice.api, UNKNOWN_ID, 404, None),
    ):
        with unchanged(server):
            response = upload_media(api, profileId=profile)
        assert (response.status_code, error_of(response).get("rule")) == (status, rule)


def test_a_list_of_a_profile_out_of_scope_is_not_found(alice: Person, bob: Person, charlie: Person) -> None:
    assert error_of(bob.api.get("/v1/media", params={"profileId": alice.profile}))["rule"] == "api_key.profile_scope"
    for profile in (charlie.profile, UNKNOWN_ID):
        assert alice.api.get("/v1/media", params={"profileId": profile}).status_code == 404


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_foreign_media_are_as_unknown_as_no_media(
    server: AppServer, alice: Person, bob: Person, charlie: Person, method: str
) -> None:
    foreign = [stored_media(alice.api, profileId=alice.profile)["id"], stored_media(charlie.api)["id"]]
    for name in (*foreign, UNKNOWN_MEDIA, "med_x", "..", "%00", UNKNOWN_ID):
        with unchanged(server):
            response = bob.api.request(method, f"/v1/media/{name}")
        assert response.status_code == 404
        if name.startswith("med_"):
            assert error_of(response)["message"].replace(name, "") == "There is no media  in the scope of this request."


def test_the_list_is_paged_newest_first_while_files_are_added(alice: Person, charlie: Person) -> None:
    made = [stored_media(alice.api, altText=str(number))["id"] for number in range(5)]
    stored_media(charlie.api)
    seen, cursor = [], None
    while True:
        query = {"limit": "2"} | ({"cursor": cursor} if cursor else {})
        page = alice.api.get("/v1/media", params=query).json()
        seen += [row["id"] for row in page["data"]]
        cursor = page["nextCursor"]
        if not cursor:
            break
        stored_media(alice.api, altText="later")
    assert seen == made[::-1]


def test_a_cursor_of_another_list_or_organization_is_refused(alice: Person, charlie: Person) -> None:
    for _ in range(2):
        stored_media(alice.api)
    cursor = alice.api.get("/v1/media", params={"limit": 1}).json()["nextCursor"]
    assert error_of(charlie.api.get("/v1/media", params={"cursor": cursor}))["rule"] == "cursor"
    assert error_of(alice.api.get("/v1/posts", params={"cursor": cursor}))["rule"] == "cursor"
    for bad in ("x", cursor[:-4] + "AAAA", "ü"):
        assert error_of(alice.api.get("/v1/media", params={"cursor": bad}))["rule"] == "cursor"


# --- Deleting --------------------------------------------------------------------------------------------------------


def test_a_deleted_file_is_gone_from_everywhere(server: AppServer, alice: Person) -> None:
    made = stored_media(alice.api)
    assert httpx.get(made["url"], trust_env=False).status_code == 200
    response = alice.api.delete(f"/v1/media/{made['id']}")
    assert (response.status_code, response.json()) == (200, {"id": made["id"], "deleted": True})
    assert alice.api.get(f"/v1/media/{made['id']}").status_code == 404
    assert alice.api.get("/v1/media").json()["data"] == []
    assert httpx.get(made["url"], trust_env=False).status_code == 404
    assert alice.api.delete(f"/v1/media/{made['id']}").status_code == 404
    publish = {"targets": [{"accountId": alice.bluesky}], "text": "x", "media": [made["id"]]}
    assert error_of(alice.api.publish(publish))["rule"] == "media.unknown"
    wait_until(lambda: stored_files(server) == [])


def test_equal_bytes_are_kept_once_until_the_last_record_goes(
    server: AppServer, alice: Person, charlie: Person
) -> None:
    first, second = stored_media(alice.api), stored_media(charlie.api)
    assert first["id"] != second["id"]
    assert stored_files(server) == [first["sha256"]]
    alice.api.delete(f"/v1/media/{first['id']}")
    assert httpx.get(second["url"], trust_env=False).content == JPEG
    charlie.api.delete(f"/v1/media/{second['id']}")
    wait_until(lambda: stored_files(server) == [])
    assert httpx.get(stored_media(alice.api)["url"], trust_env=False).content == JPEG


@pytest.mark.parametrize("how", ["default", "target", "by its address"])
def test_a_file_that_a_queued_post_needs_is_not_deleted(server: AppServer, alice: Person, how: str) -> None:
    made = stored_media(alice.api)
    entry: Any = {"kind": "image", "url": made["url"]} if how == "by its address" else made["id"]
    target: dict[str, Any] = {"accountId": alice.bluesky} | ({"media": [entry]} if how == "target" else {})
    request = {"targets": [target], "text": "x", "scheduledAt": format_instant(server.clock.now_ms() + 3_600_000)}
    queued = alice.api.publish(request | ({} if how == "target" else {"media": [entry]}))
    assert queued.status_code == 202
    with unchanged(server):
        response = alice.api.delete(f"/v1/media/{made['id']}")
    assert (response.status_code, error_of(response)["rule"]) == (409, "media.in_use")
    alice.api.delete(f"/v1/posts/{queued.json()['results'][0]['postId']}")
    assert alice.api.delete(f"/v1/media/{made['id']}").status_code == 200


def test_a_description_changes_unless_an_open_post_was_accepted_with_it(server: AppServer, alice: Person) -> None:
    made = stored_media(alice.api)["id"]
    target = {"accountId": alice.bluesky}
    draft = new_draft(alice.api, targets=[target], text="x", media=[made])["id"]
    approved = alice.api.post(f"/v1/drafts/{draft}/approve", headers=seen(alice.api, draft))
    assert approved.json()["status"] == "approved"
    answer = alice.api.patch(f"/v1/media/{made}", json={"altText": "Loaves"})
    assert (answer.status_code, answer.json()["altText"]) == (200, "Loaves")
    assert alice.api.get(f"/v1/media/{made}").json() == answer.json()
    assert alice.api.get(f"/v1/drafts/{draft}").json()["status"] == "draft"
    assert alice.api.patch(f"/v1/media/{made}", json={"altText": ""}).json()["altText"] is None
    assert alice.api.patch(f"/v1/media/{made}", json={"altText": None}).json()["altText"] is None
    assert stored_media(alice.api, altText="")["altText"] is None
    longest = "\U0001f35e" * 100_000  # in JSON twelve bytes each
    answer = alice.api.patch(f"/v1/media/{made}", content=json.dumps({"altText": longest}))
    assert (answer.status_code, answer.json()["altText"]) == (200, longest)
    due = format_instant(server.clock.now_ms() + 3_600_000)
    assert alice.api.publish({"targets": [target], "text": "x", "media": [made], "scheduledAt": due}).is_success
    with unchanged(server):
        response = alice.api.patch(f"/v1/media/{made}", json={"altText": "Rolls"})
    assert (response.status_code, error_of(response)["rule"]) == (409, "media.in_use")


def test_a_bound_key_does_not_change_what_all_profiles_share(server: AppServer, alice: Person, bob: Person) -> None:
    shared = stored_media(alice.api)
    with unchanged(server):
        response = bob.api.delete(f"/v1/media/{shared['id']}")
        described = bob.api.patch(f"/v1/media/{shared['id']}", json={"altText": "x"})
    assert (response.status_code, error_of(response)["rule"]) == (404, "media.unknown")
    assert (described.status_code, error_of(described)["rule"]) == (404, "media.unknown")
    assert bob.api.delete(f"/v1/media/{stored_media(bob.api)['id']}").status_code == 200


# --- Public addresses ------------------------------------------------------------------------------------------------


def fetch(url: str, method: str = "GET", **headers: str) -> httpx.Response:
    return httpx.request(method, url, headers=headers, trust_env=False)


def test_a_public_address_serves_bytes_that_no_browser_runs(server: AppServer, alice: Person) -> None:
    made = stored_media(alice.api)
    answer = fetch(made["url"])
    wanted = {
        "Content-Type": "image/jpeg",
        "Content-Length": str(len(JPEG)),
        "Accept-Ranges": "bytes",
        "ETag": f'"{made["sha256"]}"',
        "Cache-Control": "public, max-age=31536000, immutable",
        "Content-Disposition": f'attachment; filename="{made["id"]}.jpg"',
        "Content-Security-Policy": "default-src 'none'; sandbox",
        "X-Content-Type-Options": "nosniff",
        "Cross-Origin-Resource-Policy": "cross-origin",
    }
    assert {name: answer.headers[name] for name in wanted} == wanted
    assert (answer.status_code, answer.content) == (200, JPEG)
    assert "Set-Cookie" not in answer.headers


def test_head_answers_like_get_without_the_bytes(alice: Person) -> None:
    url = stored_media(alice.api)["url"]
    get, heads = fetch(url), (fetch(url, "HEAD"), fetch(url, "HEAD", Range="bytes=0-1"))
    for head in heads:  # RFC 9110, 14.2: a range is for GET
        assert (head.status_code, head.content) == (200, b"")
        for name in ("Content-Length", "Content-Type", "ETag", "Accept-Ranges"):
            assert head.headers[name] == get.headers[name]


SIZE = 1_000_000
NOISE = JPEG + bytes(number * 7 % 251 for number in range(SIZE - len(JPEG)))


@pytest.mark.slow
def test_a_range_is_answered_with_206(subtests: pytest.Subtests, alice: Person) -> None:
    for asked, start, end in [
        ("bytes=0-0", 0, 1),
        ("bytes=0-", 0, SIZE),
        ("bytes=0-999999", 0, SIZE),
        ("bytes=0-9999999", 0, SIZE),
        ("bytes=5-9", 5, 10),
        ("bytes=999999-", SIZE - 1, SIZE),
        ("bytes=-1", SIZE - 1, SIZE),
        ("bytes=-700000", SIZE - 700_000, SIZE),
        ("bytes=-2000000", 0, SIZE),
        ("bytes=100-700000", 100, 700_001),
    ]:
        with subtests.test(asked=asked, start=start, end=end):
            answer = fetch(stored_media(alice.api, NOISE)["url"], Range=asked)
            assert answer.status_code == 206
            assert answer.headers["Content-Range"] == f"bytes {start}-{end - 1}/{SIZE}"
            assert answer.headers["Content-Length"] == str(end - start)
            assert answer.content == NOISE[start:end]


@pytest.mark.parametrize("asked", ["bytes=1000000-", "bytes=2000000-3000000", "bytes=-0"])
def test_a_range_beyond_the_end_is_416(alice: Person, asked: str) -> None:
    answer = fetch(stored_media(alice.api, NOISE)["url"], Range=asked)
    assert (answer.status_code, answer.headers["Content-Range"]) == (416, f"bytes */{SIZE}")
    assert answer.json()["error"]["code"] == "validation_failed"


@pytest.mark.parametrize(
    "asked", ["", "bytes", "bytes=", "bytes=-", "bytes=5-1", "bytes=0-1,5-6", "items=0-1", "bytes=a-b", "bytes=0x1-2"]
)
def test_other_ranges_get_the_whole(alice: Person, asked: str) -> None:
    answer = fetch(stored_media(alice.api)["url"], Range=asked)
    assert (answer.status_code, answer.content) == (200, JPEG)


def test_a_client_that_has_the_file_is_told_so(alice: Person) -> None:
    made = stored_media(alice.api)
    tag = f'"{made["sha256"]}"'
    for header in (tag, f"W/{tag}", f'"x", {tag}', "*"):
        answer = fetch(made["url"], **{"If-None-Match": header})
        assert (answer.status_code, answer.content, answer.headers["ETag"]) == (304, b"", tag)
    assert fetch(made["url"], **{"If-None-Match": '"x"'}).status_code == 200
    assert fetch(made["url"], **{"If-Range": tag, "Range": "bytes=0-1"}).status_code == 206
    assert fetch(made["url"], **{"If-Range": '"x"', "Range": "bytes=0-1"}).status_code == 200


def test_only_the_exact_address_leads_to_the_file(server: AppServer, alice: Person) -> None:
    made, other = stored_media(alice.api), stored_media(alice.api, picture("PNG"))
    path = made["url"].removeprefix(server.url)
    mac = path.rsplit("/", 1)[1].removesuffix(".jpg")
    turned = ("0" if mac[0] != "0" else "1") + mac[1:]
    for wrong in (
        path.replace(mac, turned),
        path.replace(mac, ""),
        path.replace(".jpg", ".png"),
        path.replace(".jpg", ""),
        path.replace(made["id"], other["id"]),
        path.replace(made["id"], UNKNOWN_MEDIA),
        path + "/",
        path.upper(),
        f"/media/{made['id']}/",
        f"/media/{made['id']}",
        "/media/",
        f"/media/{made['id']}/%2e%2e%2f{made['sha256']}",
        f"/media/{made['sha256'][:2]}/{made['sha256']}",
        f"/media/{made['id']}/{mac}.jpg%00",
        "/media/../media/socialpub.db",
    ):
        assert fetch(server.url + wrong).status_code == 404, wrong


# --- Publishing with stored media ------------------------------------------------------------------------------------


def test_a_stored_file_is_published_without_being_opened_again(
    server: AppServer, alice: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = stored_media(alice.api, picture("PNG"), altText="A gradient")

    def never(*_: Any) -> None:
        raise AssertionError("measured again")

    monkeypatch.setattr("socialpub.domain.media.probe.measure", never)
    body = {"targets": [{"accountId": alice.bluesky}], "text": "Look.", "media": [made["id"]]}
    published = alice.api.publish(body).json()
    assert published["status"] == "published", published
    (entry,) = server.lab.lab.ledger.entries()
    assert [(medium.type, medium.alt) for medium in entry.media] == [("image/png", "A gradient")]


def test_a_post_that_is_tried_again_after_its_media_were_deleted_says_so(server: AppServer, alice: Person) -> None:
    made = stored_media(alice.api, animation())
    body = {"targets": [{"accountId": alice.bluesky}], "text": "x", "media": [made["id"]]}
    queued = alice.api.publish(body | {"scheduledAt": format_instant(server.clock.now_ms() + 3_600_000)}).json()
    post = queued["results"][0]["postId"]
    server.service.write(lambda tx: Media.update(deleted_at=1).where(Media.id == made["id"]).execute()).result()
    assert files.remove_unreferenced(server.service, made["sha256"])
    server.skip(3_601)
    row = server.wait(post, "rejected", "failed", "published")
    assert row["status"] == "rejected"
    assert '"rule": "media.unknown"' in row["error"] or '"rule":"media.unknown"' in row["error"]
    assert server.rows(Post, id=post)


# --- The directory ---------------------------------------------------------------------------------------------------


def test_what_nothing_names_is_tidied_away_and_nothing_else(server: AppServer, alice: Person) -> None:
    made = stored_media(alice.api)
    home = files.media_directory(server.service)
    orphan = home / "ab" / ("ab" + "0" * 62)
    orphan.parent.mkdir(exist_ok=True)
    orphan.write_bytes(b"x")
    old, new = home / ".arriving-old", home / ".arriving-new"
    for path in (old, new):
        path.write_bytes(b"x")
    leftover_age(old, server)
    server.engine.fetched.clean_up_hourly()
    assert sorted(stored_files(server)) == sorted([".arriving-new", made["sha256"]])
    new.unlink()


def test_nothing_is_tidied_while_a_restored_database_is_paused(server: AppServer) -> None:
    orphan = files.media_directory(server.service) / "ab" / ("ab" + "0" * 62)
    orphan.parent.mkdir(parents=True)
    orphan.write_bytes(b"x")
    server.service.write(lambda tx: Instance.update(paused="restored").execute()).result()
    periodic_tasks.sweep(server.service, server.engine.fetched)
    assert stored_files(server) == [orphan.name]
    server.service.write(lambda tx: Instance.update(paused=None).execute()).result()
    periodic_tasks.sweep(server.service, server.engine.fetched)
    assert stored_files(server) == []


def leftover_age(path: Path, server: AppServer) -> None:

    at = server.clock.now_ms() / 1000 - files.LEFTOVER_SECONDS - 10
    os.utime(path, (at, at))


def inline_kept(server: AppServer, who: Person, content: bytes) -> MediaFacts:
    """An inline file that a request has brought and kept."""
    with files.IncomingFile(files.media_directory(server.service)) as arriving:
        arriving.write(content)
        arriving.suspend()
        return library.store_inline(server.service, arriving, who.organization)


def test_a_file_on_its_way_to_a_row_is_not_removed(server: AppServer, alice: Person) -> None:
    facts = inline_kept(server, alice, JPEG)
    assert not files.remove_unreferenced(server.service, facts.sha256)
    assert files.clean_up(server.service) == 0
    server.clock.skip(files.LEASE_SECONDS + 1)
    assert files.clean_up(server.service) == 1
    assert stored_files(server) == []


def test_a_file_being_written_is_no_leftover(server: AppServer) -> None:
    """However old it is by a clock that has been set."""
    with files.IncomingFile(files.media_directory(server.service)) as incoming:
        incoming.write(JPEG)
        server.clock.skip(files.LEFTOVER_SECONDS + 10)
        assert files.clean_up(server.service) == 0
        incoming.finish()
        left = incoming.path.with_name(f"{incoming.path.name}-of-an-earlier-run")
        incoming.path.rename(left)
    leftover_age(left, server)
    assert files.clean_up(server.service) == 1
    assert not left.exists()


# --- Files of requests that are refused after all ---------------------------------------------------------------------


def leased(server: AppServer) -> list[str]:
    """The files that some request is still about to name."""
    return [place.name for place in files._leases if place.is_relative_to(server.home)]


def no_quota_left(server: AppServer, person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen only in the transaction: another request has taken the last slot since."""
    tier = Organization.update(tier="free").where(Organization.id == person.organization)
    server.service.write(lambda tx: tier.execute()).result()
    monkeypatch.setattr(server.service.runtime.settings.billing, "free", 0)
    monkeypatch.setattr(quotas, "check", lambda *_: None)


@pytest.mark.parametrize("scheduled", [False, True])
def test_inline_media_of_a_refused_post_are_removed(
    server: AppServer, alice: Person, monkeypatch: pytest.MonkeyPatch, scheduled: bool
) -> None:
    no_quota_left(server, alice, monkeypatch)
    more = {"scheduledAt": format_instant(server.clock.now_ms() + 3_600_000)} if scheduled else {}
    answer = alice.api.publish(inline_post(alice, JPEG, picture("PNG"), **more))
    assert (answer.status_code, error_of(answer)["code"]) == (402, "quota_exceeded")
    assert (stored_files(server), server.rows(Media), leased(server)) == ([], [], [])


def test_an_upload_that_its_transaction_refuses_is_gone_with_the_answer(
    server: AppServer, alice: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    def revoked(*_: Any) -> None:
        raise ApiError("unauthenticated")

    monkeypatch.setattr(actions, "check_scope", revoked)
    assert upload_media(alice.api).status_code == 401
    assert (stored_files(server), leased(server)) == ([], [])


def test_inline_media_go_when_one_of_them_cannot_be_stored(
    server: AppServer, alice: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = probe.measure

    def second_fails(path: Path, sha256: str = "", owner: str = "") -> Any:
        if stored_files(server)[1:]:  # the one that is arriving, and one before it
            raise ApiError("internal_error")
        return real(path, sha256, owner)

    monkeypatch.setattr(probe, "measure", second_fails)
    with alice.api.expecting_failure():
        assert alice.api.publish(inline_post(alice, JPEG, picture("PNG"))).status_code == 500
    assert (stored_files(server), leased(server)) == ([], [])


def test_a_refused_post_takes_no_bytes_from_those_who_have_the_same(
    server: AppServer, alice: Person, charlie: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = stored_media(charlie.api)
    no_quota_left(server, alice, monkeypatch)
    assert alice.api.publish(inline_post(alice, JPEG)).status_code == 402
    assert httpx.get(made["url"], trust_env=False).content == JPEG


def test_refused_post_takes_no_bytes_from_a_request_about_to_use_them(
    server: AppServer, alice: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = inline_kept(server, alice, JPEG)  # another request, on its way to its transaction
    no_quota_left(server, alice, monkeypatch)
    assert alice.api.publish(inline_post(alice, JPEG)).status_code == 402
    assert stored_files(server) == [facts.sha256]
    library.release_unreferenced(server.service, [facts])
    assert stored_files(server) == []


def test_deleting_one_of_two_records_keeps_bytes_about_to_be_used(server: AppServer, alice: Person) -> None:
    facts = inline_kept(server, alice, JPEG)
    alice.api.delete(f"/v1/media/{stored_media(alice.api)['id']}")
    assert not files.remove_unreferenced(server.service, facts.sha256)
    assert stored_files(server) == [facts.sha256]


def test_a_twin_that_comes_second_leaves_the_bytes_to_the_first(server: AppServer, alice: Person) -> None:
    first = alice.api.publish(inline_post(alice, JPEG), "twin")
    real, early = idempotency._find_record, iter([True])  # the second looks before the first has committed
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(idempotency, "_find_record", lambda key, now: None if next(early, False) else real(key, now))
        second = alice.api.publish(inline_post(alice, JPEG), "twin")
    assert (second.content, second.headers["Idempotency-Replayed"]) == (first.content, "true")
    assert next(early, None) is None
    assert (stored_files(server), leased(server)) == ([hashlib.sha256(JPEG).hexdigest()], [])


def test_files_that_a_crash_left_without_a_row_go_after_the_next_start(server: AppServer, alice: Person) -> None:
    inline_kept(server, alice, JPEG)
    server.stop()
    files._leases.clear()  # as the process is gone
    server.restart(alice)
    assert stored_files(server) != []
    periodic_tasks.sweep(server.service, server.engine.fetched)
    assert stored_files(server) == []


def test_a_gif_of_no_frames_is_a_file_too_small_to_be_one(server: AppServer, alice: Person) -> None:
    assert error_of(upload_media(alice.api, gif(10, 10)))["rule"] == "media.unreadable"
