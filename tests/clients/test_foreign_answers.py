"""Answers that are not socialpub's: of proxies, caches, other programs, or cut in two."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socketserver
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from socialpub_client import (
    AsyncSocialpub,
    InvalidArgument,
    OutcomeUnknown,
    Request,
    Response,
    Socialpub,
    SocialpubError,
    Timeout,
    UnexpectedAnswer,
    errors,
)
from socialpub_client.commands import exit_codes, runner
from tests.clients.conftest import ClientWorld
from tests.support.media_uploads import JPEG

PAGE = b"<h1>Please sign in to the network of the hotel</h1>"
DEEP = b"[" * 200_000
# Of a proxy that may have passed the request on, or of a server that has done so.
UNKNOWN = {
    **{f"{status} page": Response(status, {}, PAGE) for status in (200, 201, 202, 500, 502, 504, 520, 524, 530)},
    "202 cut": Response(202, {}, b'{"id": "x", "status": "queu'),
    "200 nothing": Response(200, {}, b""),
    "200 null": Response(200, {}, b"null"),
    "200 other": Response(200, {}, b'{"ok": true}'),
    "200 deep": Response(200, {}, DEEP),
    "503 other": Response(503, {}, b'{"error": {"code": "x", "message": "x", "rule": ["http.busy"]}}'),
}
# Of a proxy or another program that refused the request itself.
FOREIGN = {
    "302": Response(302, {"location": "https://sign-in.example/"}, b""),
    "403 page": Response(403, {}, PAGE),
    "404 page": Response(404, {}, b"default backend - 404"),
    "404 deep": Response(404, {}, DEEP),
    "401 of another API": Response(401, {}, b'{"error": {"code": 401, "message": "Login required."}}'),
    "400 list": Response(400, {}, b'{"error": {"code": [], "message": {}}}'),
    "400 text": Response(400, {}, b'{"error": "invalid"}'),
    "400 null": Response(400, {}, b'{"error": {"code": "not_found", "message": null}}'),
    "400 array": Response(400, {}, b"[]"),
}


class Answering:
    """Transport that answers in order, then always the last one."""

    def __init__(self, answers: Iterable[Response]) -> None:
        self.requests: list[Request] = []
        self._answers = list(answers)

    def send(self, request: Request) -> Response:
        self.requests.append(request)
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]

    def close(self) -> None:
        """Nothing is open."""


def client(*answers: Response) -> Socialpub:
    return Socialpub("http://127.0.0.1:9", "k", transport=Answering(answers), sleep=lambda _: None)


@pytest.mark.parametrize("answer", UNKNOWN.values(), ids=UNKNOWN)
def test_a_write_that_may_have_arrived_is_of_unknown_outcome(answer: Response) -> None:
    with pytest.raises(OutcomeUnknown) as unknown:
        client(answer).posts.publish("x", to="bluesky", idempotency_key="mine")
    assert (unknown.value.idempotency_key, unknown.value.status) == ("mine", answer.status)
    assert runner.exit_code(unknown.value) == exit_codes.UNKNOWN
    with pytest.raises(SocialpubError) as read:  # a read changes nothing
        client(answer).me()
    assert runner.exit_code(read.value) == exit_codes.UNREACHED


@pytest.mark.parametrize("answer", FOREIGN.values(), ids=FOREIGN)
def test_a_foreign_refusal_is_an_error_of_its_own(answer: Response) -> None:
    with pytest.raises(UnexpectedAnswer) as refused:
        client(answer).posts.publish("x", to="bluesky")
    assert str(refused.value)
    assert runner.exit_code(refused.value) == exit_codes.UNREACHED  # no rule of the server refused it
    lost = Response(502, {}, PAGE)
    with pytest.raises(OutcomeUnknown):  # the first try may have arrived: the proxy of the second cannot know
        client(lost, answer).posts.publish("x", to="bluesky")


@pytest.mark.parametrize("page", [*UNKNOWN.values(), *FOREIGN.values()], ids=[*UNKNOWN, *FOREIGN])
def test_an_answer_of_another_program_does_not_end_a_wait(world: ClientWorld, page: Response) -> None:
    batch = world.plain().posts.publish("no proxy ends this", to=world.alice.bluesky)
    ended = {**batch.raw, "results": [{**result, "status": "published"} for result in batch.raw["results"]]}
    waiting = {**batch.raw, "results": [{**result, "status": "publishing"} for result in batch.raw["results"]]}
    answers = [Response(200, {}, json.dumps(each).encode()) for each in (waiting, ended)]
    sp = client(answers[0], *[page] * 6, answers[1])  # five tries, and again
    assert sp.batches.get(batch.id).wait().is_final


@pytest.mark.parametrize("page", [*UNKNOWN.values(), *FOREIGN.values()], ids=[*UNKNOWN, *FOREIGN])
def test_an_answer_of_another_program_does_not_end_follow(page: Response) -> None:
    event = {"id": "evt_1", "type": "x", "createdAt": "2026-01-01T00:00:00.000Z", "organizationId": "o", "data": {}}
    events = {"data": [event], "nextCursor": None, "endCursor": "here"}
    told: list[SocialpubError] = []
    sp = client(*[page] * 6, Response(200, {}, json.dumps(events).encode()))
    assert next(sp.events.follow(after="there", on_retry=told.append)).id == "evt_1"
    assert told


def test_a_server_that_never_waits_is_not_asked_without_a_pause(world: ClientWorld) -> None:
    """As behind a proxy that drops `Prefer`, or leaves a second try no time."""
    slept: list[float] = []
    batch = world.plain().posts.publish("no pause", to=world.alice.bluesky)
    waiting = {**batch.raw, "results": [{**result, "status": "publishing"} for result in batch.raw["results"]]}
    page = {"data": [], "nextCursor": None, "endCursor": "here"}
    running = {"error": {"code": "idempotency_conflict", "message": "x", "rule": "idempotency_key.in_progress"}}
    answers = [
        *[Response(200, {}, json.dumps(waiting).encode())] * 4,
        Response(200, {}, json.dumps(batch.raw).encode()),
        *[Response(200, {}, json.dumps(page).encode())] * 4,
        Response(401, {}, b'{"error": {"code": "unauthenticated", "message": "x"}}'),
        *[Response(409, {"retry-after": "0"}, json.dumps(running).encode())] * 3,
        Response(200, {}, json.dumps(batch.raw).encode()),
    ]
    sp = Socialpub("http://127.0.0.1:9", "k", transport=Answering(answers), sleep=slept.append)
    sp.batches.get(batch.id).wait()
    assert [round(seconds, 1) for seconds in slept] == [1.0] * 3
    slept.clear()
    with pytest.raises(errors.Unauthenticated):
        next(sp.events.follow())
    assert [round(seconds, 1) for seconds in slept] == [1.0] * 3  # the first one asks where the end is
    slept.clear()
    sp.posts.publish("x", to="bluesky")
    assert len(slept) == 3
    assert min(slept) > 0


@contextlib.contextmanager
def trickling_server() -> Iterator[str]:
    """Yield the address of a server that sends its answer byte by byte."""

    class Trickle(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(65536)
            self.request.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10000000\r\n\r\n")
            with contextlib.suppress(OSError):
                for _ in range(5_000_000):
                    self.request.sendall(b" ")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Trickle) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_an_answer_that_comes_byte_by_byte_ends_by_the_timeout() -> None:
    async def read_async(url: str) -> None:
        async with AsyncSocialpub(url, "k", retries=0, timeout=Timeout(read=0.2)) as sp:
            await sp.me()

    with trickling_server() as url, Socialpub(url, "k", retries=0, timeout=Timeout(read=0.2)) as sp:
        for read in (sp.me, lambda: asyncio.run(read_async(url))):
            with pytest.raises(errors.ConnectionFailed, match="ReadTimeout"):
                read()


def test_details_of_another_kind_are_left_out() -> None:
    entries: list[Any] = [{"targetIndex": "first"}, {"path": []}, None, 7]
    assert errors.PreflightFailed("x", platform_response=entries).failures == ()
    assert errors.ValidationFailed("x", platform_response=entries).issues == ()


@pytest.mark.parametrize("path", ["/v1/posts", "/v1/events"])
def test_a_list_that_does_not_go_on_ends_with_an_error(path: str) -> None:
    """A cache that leaves out the query answers the first page for ever."""
    page = {"data": [], "nextCursor": "same", "endCursor": "same"}
    sp = client(Response(200, {}, json.dumps(page).encode()))
    with pytest.raises(UnexpectedAnswer, match="this one again"):
        list(sp.posts.list() if path == "/v1/posts" else sp.events.list())


# --- Requests that cannot be made ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/v1/" + "x" * 70_000, {}),
        ("/v1/\x01", {}),
        ("/v1/me", {"If-Match": "a\nb"}),
        ("/v1/me", {"If-Match": "ü"}),
        ("/v1/me", {"If-Match": ""}),
    ],
)
def test_what_http_cannot_carry_is_an_invalid_argument(world: ClientWorld, path: str, headers: dict[str, str]) -> None:
    with pytest.raises(InvalidArgument):
        world.plain().request("DELETE", path, headers=headers)

    async def send() -> None:
        async with AsyncSocialpub(world.server.url, world.alice.key) as sp:
            await sp.request("DELETE", path, headers=headers)

    with pytest.raises(InvalidArgument):
        asyncio.run(send())


@pytest.mark.parametrize("change", [JPEG * 2, JPEG[:-1], b""], ids=["grown", "shortened", "emptied"])
def test_a_file_that_changes_while_it_is_sent_is_told(world: ClientWorld, tmp_path: Path, change: bytes) -> None:
    path = tmp_path / "door.jpg"
    path.write_bytes(JPEG)
    sp = world.client("502 after")  # the second try reads the file as it is by then
    with pytest.raises(InvalidArgument, match=r"door\.jpg changed while it was sent"):
        sp.media.upload(path, progress=lambda sent, total: path.write_bytes(change) and None)
