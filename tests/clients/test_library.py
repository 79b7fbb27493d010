"""Python library against the application: publishing once, errors, waits, uploads, events."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import logging
import re
import threading
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import socialpub_client
from socialpub.web.openapi import document
from socialpub_client import (
    AsyncSocialpub,
    ConfigurationError,
    ConnectionFailed,
    InvalidArgument,
    Media,
    NotFound,
    OutcomeUnknown,
    PreflightFailed,
    PublishFailed,
    RateLimited,
    Request,
    Response,
    Runtime,
    Socialpub,
    Target,
    Timeout,
    TransportError,
    Unauthenticated,
    UnexpectedAnswer,
    ValidationFailed,
    WaitTimedOut,
    errors,
    http_transport,
    models,
)
from tests.clients.conftest import ClientWorld
from tests.support.app_server import UNKNOWN_ID, format_instant
from tests.support.client_cuts import FAULTS, AsyncCuttingTransport
from tests.support.media_uploads import JPEG
from tests.support.openapi_document import DOCUMENT

ULTIMO = datetime.now(UTC) + timedelta(days=30)
Texts = Callable[[], str]


# --- Errors --------------------------------------------------------------------------------------------------------


def test_there_is_a_class_for_each_code() -> None:
    codes = DOCUMENT["components"]["schemas"]["ErrorCode"]["enum"]
    assert sorted(errors.BY_CODE) == sorted(codes) == sorted(models.ERROR_CODES)
    assert all(code == kind.CODE for code, kind in errors.BY_CODE.items())


def test_a_refusal_names_every_failure_and_sends_nothing(world: ClientWorld, sp: Socialpub) -> None:
    before = len(world.texts())
    with pytest.raises(PreflightFailed) as refused:
        sp.posts.publish("x" * 400, to=[world.alice.bluesky])
    error = refused.value
    assert [failure.rule for failure in error.failures] == [error.rule] == ["bluesky.text.max_graphemes"]
    assert (error.status, error.code) == (400, "preflight_failed")
    assert error.remediation
    assert error.request_id
    assert error.envelope["error"]["rule"] == error.rule
    assert len(world.texts()) == before
    assert len(world.transport.requests) == 1


def test_other_errors_come_as_they_are(world: ClientWorld, sp: Socialpub) -> None:
    with pytest.raises(NotFound):
        sp.posts.get(UNKNOWN_ID)
    with pytest.raises(ValidationFailed) as refused:
        sp.request("POST", "/v1/posts", {"targets": [], "txt": "x"})
    assert {issue.path[-1] for issue in refused.value.issues} >= {"txt"}
    stranger = Socialpub(world.server.url, "svc_live_" + "0" * 49, transport=world.transport)
    with pytest.raises(Unauthenticated):
        stranger.me()
    assert world.slept == []


# --- Published once ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [*FAULTS, "502", "504"])
def test_a_cut_publish_is_one_post(world: ClientWorld, text: Texts, fault: str) -> None:
    words = text()
    batch = world.client(fault, fault).posts.publish(words, to=world.alice.bluesky)
    assert batch.status == "published"
    assert world.texts().count(words) == 1
    keys = {request.headers["Idempotency-Key"] for request in world.transport.requests}
    assert (len(world.transport.requests), len(keys)) == (3, 1)
    assert re.fullmatch(r"[0-9a-f-]{36}", keys.pop())


@pytest.mark.parametrize("fault", FAULTS)
def test_a_cut_publish_is_one_post_in_an_event_loop(world: ClientWorld, text: Texts, fault: str) -> None:
    words = text()

    async def publish() -> str:
        transport = AsyncCuttingTransport(iter([fault, fault]))
        async with AsyncSocialpub(world.server.url, world.alice.key, transport=transport, sleep=_no_wait) as sp:
            batch = await sp.posts.publish_and_wait(words, to=world.alice.bluesky)
            return (await batch.wait()).raise_for_failure().status

    assert asyncio.run(publish()) == "published"
    assert world.texts().count(words) == 1


async def _no_wait(seconds: float) -> None:
    """Go on at once."""


def test_tries_that_end_without_an_answer_tell_what_is_known(world: ClientWorld, text: Texts) -> None:
    words = text()
    sp = world.client(*["reset after"] * 3, retries=2)
    with pytest.raises(OutcomeUnknown) as unknown:
        sp.posts.publish(words, to=world.alice.bluesky)
    again = world.client().posts.publish(words, to=world.alice.bluesky, idempotency_key=unknown.value.idempotency_key)
    assert again.status == "published"
    assert world.texts().count(words) == 1
    assert unknown.value.idempotency_key in str(unknown.value)

    with pytest.raises(ConnectionFailed):
        world.client(*["refused"] * 3, retries=2).posts.publish(words, to=world.alice.bluesky)
    with pytest.raises(ConnectionFailed):  # a read is simply made again
        world.client(*["reset after"] * 3, retries=2).me()
    with pytest.raises(OutcomeUnknown):  # refused at last, but an earlier try may have arrived
        world.client("reset before", "refused", "refused", retries=2).posts.publish(words, to=world.alice.bluesky)


def test_waits_are_as_the_server_asks_or_by_chance(world: ClientWorld) -> None:
    answers = iter([_answer(503), _answer(503, "7"), _answer(500), _answer(502), _answer(200)])
    slept: list[float] = []
    transport = _Scripted(answers)
    sp = Socialpub(world.server.url, "k", transport=transport, sleep=slept.append, runtime=Runtime(random=lambda: 1.0))
    sp.request("POST", "/v1/anything", {})
    assert slept == [0.5, 7, 2.0, 4.0]
    assert len({request.headers["Idempotency-Key"] for request in transport.requests}) == 1


def test_a_wait_beyond_the_patience_is_an_error_at_once(world: ClientWorld) -> None:
    slept: list[float] = []
    transport = _Scripted(iter([_answer(429, "60", "rate_limited")]))
    sp = Socialpub(world.server.url, "k", transport=transport, sleep=slept.append, patience=59)
    with pytest.raises(RateLimited) as limited:
        sp.request("POST", "/v1/anything", {})
    assert (limited.value.retry_after, slept, len(transport.requests)) == (60, [], 1)


def test_a_request_that_still_runs_is_waited_for(world: ClientWorld) -> None:
    running = _answer(409, None, "idempotency_conflict", "idempotency_key.in_progress")
    transport = _Scripted(iter([*[running] * 12, _answer(200)]))
    Socialpub(world.server.url, "k", transport=transport, sleep=lambda _: None, retries=1).request("POST", "/v1/x", {})
    assert len(transport.requests) == 13
    transport = _Scripted(iter([_answer(409, None, "idempotency_conflict", "external_id.taken")]))
    with pytest.raises(errors.IdempotencyConflict):
        Socialpub(world.server.url, "k", transport=transport).request("POST", "/v1/x", {})


def test_the_client_waits_longer_than_the_server(world: ClientWorld, sp: Socialpub, text: Texts) -> None:
    sp.posts.publish(text(), to=world.alice.bluesky, wait=55)
    sp.posts.publish(text(), to=world.alice.bluesky, wait=0)
    batch = sp.posts.publish(text(), to=world.alice.bluesky)
    sp.batches.get(batch.id, wait=1)
    sp.posts.get(batch.results[0].post_id)
    sent = [(each.headers.get("Prefer"), each.timeout.read) for each in world.transport.requests]
    assert sent == [("wait=55", 100), ("respond-async", 45), ("wait=25", 70), ("wait=1", 46), (None, Timeout().read)]


def test_every_write_has_a_key(world: ClientWorld, sp: Socialpub, text: Texts) -> None:
    batch = sp.posts.publish(text(), to=world.alice.bluesky, at=ULTIMO)
    post = batch.results[0].post_id
    sp.posts.edit(post, text=text())
    sp.posts.cancel(post)
    draft = sp.drafts.create({"text": text()}, title="One")
    sp.drafts.delete(draft.id)
    sp.media.delete(sp.media.upload(JPEG).id)
    sp.slots.define("UTC", [])
    sp.posts.check(text(), to=world.alice.bluesky, idempotency_key="given")
    writes = [request for request in world.transport.requests if request.method != "GET"]
    keys = [request.headers["Idempotency-Key"] for request in writes]
    assert len(set(keys)) == len(writes) == 9
    assert keys[-1] == "given"


# --- Content -------------------------------------------------------------------------------------------------------


def test_content_goes_out_as_it_was_given(world: ClientWorld, sp: Socialpub, text: Texts, tmp_path: Path) -> None:
    door = tmp_path / "door.jpg"
    door.write_bytes(JPEG)
    stored = sp.media.upload(door, alt="A door")
    assert stored.sha256 == hashlib.sha256(JPEG).hexdigest()
    target = Target(world.alice.bluesky, text=text(), media=[Media(path=door, alt="My door"), stored.id])
    batch = sp.posts.publish(to=[target], external_id=text().replace(" ", "-").replace("[", "").replace("]", ""))
    again = sp.posts.publish(to=[target], external_id=batch.external_id)
    post = sp.posts.get(batch.results[0].post_id)
    assert (post.text, again.id, post.external_id) == (target.text, batch.id, batch.external_id)
    assert [(each.media_id, each.alt_text) for each in post.media_refs] == [(stored.id, "My door"), (stored.id, None)]
    assert sum(each.method == "POST" and "/v1/media" in each.url for each in world.transport.requests) == 1


def test_a_check_makes_a_plan_and_the_plan_is_one_batch(world: ClientWorld, sp: Socialpub, text: Texts) -> None:
    words = text()
    check = sp.posts.check(words, to=world.alice.bluesky, plan=True)
    assert check.ok
    assert check.results[0].errors == ()
    assert check.plan is not None
    assert words not in world.texts()
    batches = {sp.posts.publish_plan(check.plan.token).id for _ in range(2)}
    assert len(batches) == 1
    assert world.texts().count(words) == 1
    wrong = sp.posts.check("x" * 400, to=world.alice.bluesky, plan=True)
    assert (wrong.ok, wrong.plan, wrong.results[0].errors[0].rule) == (False, None, "bluesky.text.max_graphemes")


@pytest.mark.parametrize(
    "wrong",
    [
        {"to": []},
        {"at": datetime(2030, 1, 1)},
        {"media": ["door.jpg"]},
        {"media": "https://example.org/a.png"},
        {"media": [Media(id="med_1", url="https://example.org/a.png")]},
        {"idempotency_key": "two words"},
    ],
)
def test_an_argument_that_cannot_be_sent_sends_nothing(
    world: ClientWorld, sp: Socialpub, wrong: dict[str, Any]
) -> None:
    with pytest.raises(InvalidArgument):
        sp.posts.publish("x", **{"to": "bluesky"} | wrong)
    assert world.transport.requests == []


# --- Waiting -------------------------------------------------------------------------------------------------------


def test_a_batch_is_waited_for_until_its_end(world: ClientWorld, sp: Socialpub, text: Texts) -> None:
    batch = sp.posts.publish(text(), to=world.alice.bluesky, wait=0).wait()
    assert [result.status for result in batch.results] == ["published"]
    assert batch.is_final
    later = sp.posts.publish(text(), to=world.alice.bluesky, at=ULTIMO)
    with pytest.raises(WaitTimedOut) as over:
        later.wait(timeout=0.5)
    assert (over.value.batch.id, over.value.batch.status) == (later.id, "queued")
    with pytest.raises(WaitTimedOut, match=r"queued after 0\.01 s"):
        sp.posts.publish_and_wait(text(), to=world.alice.bluesky, at=ULTIMO, timeout=0.01)
    sp.batches.cancel(later.id)
    assert later.wait().results[0].status == "canceled"


def test_a_server_that_restarts_during_a_wait_is_asked_again(world: ClientWorld, sp: Socialpub, text: Texts) -> None:
    """The batch is accepted: an error that says that nothing was would let it be published again."""
    later = sp.posts.publish(text(), to=world.alice.bluesky, at=ULTIMO)

    def away() -> Iterator[str | None]:
        yield from ["refused"] * 12
        world.plain().batches.cancel(later.id)
        yield None

    world.transport.faults = away()
    assert later.wait().results[0].status == "canceled"
    assert len(world.slept) == 12


def test_a_wait_that_cannot_go_on_says_what_is_known(world: ClientWorld, text: Texts) -> None:
    later = world.plain().posts.publish(text(), to=world.alice.bluesky, at=ULTIMO)
    with Socialpub(world.server.url, "revoked-meanwhile") as sp:
        waiting = socialpub_client.Batch.bind(later, sp.engine, sp.posts.driver)
        with pytest.raises(WaitTimedOut, match="queued, and could not be read again: The API key is") as over:
            waiting.wait()
    assert over.value.batch.id == later.id
    assert isinstance(over.value.__cause__, Unauthenticated)


def test_a_batch_of_which_a_part_failed_is_an_answer(world: ClientWorld, sp: Socialpub, text: Texts) -> None:
    broken = world.server.connect(world.alice, "instagram", username="broken")
    sp = Socialpub(world.server.url, world.alice.key, transport=world.transport)
    batch = sp.posts.publish(text(), to=[world.alice.bluesky, Target(broken["id"], media=[sp.media.upload(JPEG).id])])
    ended = batch.wait(timeout=60)
    assert ended.status == "partial_failed"
    with pytest.raises(PublishFailed) as failed:
        ended.raise_for_failure()
    assert failed.value.batch is ended
    assert "instagram" in str(failed.value)


# --- Lists and events ----------------------------------------------------------------------------------------------


def test_lists_are_read_page_by_page(world: ClientWorld, sp: Socialpub, text: Texts) -> None:
    made = [sp.posts.publish(text(), to=world.alice.bluesky, at=ULTIMO).id for _ in range(5)]
    pages = sp.posts.list(status="queued", scheduled=(ULTIMO - timedelta(hours=1), None), batch=None, limit=2)
    assert [post.batch_id for post in pages][:5] == made[::-1]
    assert [post.batch_id for post in pages][:5] == made[::-1], "iterating begins again"
    assert [post.batch_id for post in pages.page()] == made[:2:-1]
    assert pages.next_cursor is not None
    rest = sp.posts.list(status="queued", limit=2, cursor=pages.next_cursor)
    assert next(iter(rest)).batch_id == made[2]

    async def read() -> list[str]:
        async with AsyncSocialpub(world.server.url, world.alice.key) as sp:
            return [post.batch_id async for post in sp.posts.list(status="queued", limit=2)]

    assert asyncio.run(read())[:5] == made[::-1]
    for batch in made:
        sp.batches.cancel(batch)


def test_follow_loses_and_doubles_nothing(world: ClientWorld, text: Texts) -> None:
    told: list[errors.SocialpubError] = []
    sp = world.client(None, "refused", "503", "reset after", "502 after", "reset before", "429")
    events = sp.events.follow(after=_end_of_events(world), types=["post.published"], on_retry=told.append)
    other = world.plain()
    posts = [other.posts.publish(text(), to=world.alice.bluesky).results[0].post_id for _ in range(4)]
    first = [next(events) for _ in range(2)]
    posts += [other.posts.publish(text(), to=world.alice.bluesky).results[0].post_id for _ in range(3)]
    rest = [next(events) for _ in range(5)]
    assert [event.data["id"] for event in [*first, *rest]] == posts
    for number, event in enumerate([*first, *rest], 1):  # from the cursor of any event, also within a page
        resumed = other.events.list(after=event.cursor, types=["post.published"])
        assert [each.data["id"] for each in resumed] == posts[number:]
    assert max(world.slept, default=0) <= 30
    assert [type(error) for error in told] == [ConnectionFailed]  # five tries had no answer, the sixth had


def _end_of_events(world: ClientWorld) -> str:
    return str(world.alice.api.get("/v1/events", params={"cursor": "end"}).json()["endCursor"])


# --- Uploads -------------------------------------------------------------------------------------------------------


def test_an_upload_reads_its_file_anew_for_each_try(world: ClientWorld, tmp_path: Path) -> None:
    path = tmp_path / "door.jpg"
    path.write_bytes(JPEG)
    told: list[tuple[int, int | None]] = []
    for source in (path, str(path), JPEG, io.BytesIO(JPEG)):
        sp = world.client("502 after", "reset after")
        stored = sp.media.upload(source, progress=lambda sent, total: told.append((sent, total)))
        assert stored.sha256 == hashlib.sha256(JPEG).hexdigest()
        assert sp.media.find(sha256=stored.sha256) is not None
        assert told[-1] == (len(JPEG), len(JPEG))
        sp.media.delete(stored.id)


def test_an_iterator_is_sent_once(world: ClientWorld, sp: Socialpub) -> None:
    assert sp.media.upload(iter([JPEG[:100], JPEG[100:]])).size_bytes == len(JPEG)
    with pytest.raises(OutcomeUnknown, match="source can be read only once|idempotency_key"):
        world.client("reset before").media.upload(iter([JPEG]))
    assert len(world.transport.requests) == 1


def test_an_upload_of_a_large_file_needs_little_memory(tmp_path: Path) -> None:
    """The body is taken in pieces, of a file of 1 GiB that has no blocks on the disk."""
    path = tmp_path / "large"
    with open(path, "wb") as file:
        file.truncate(1 << 30)
    taken = 0

    class Counting:
        def send(self, request: Request) -> Response:
            nonlocal taken
            assert not isinstance(request.body, bytes)
            assert request.body.length is not None
            assert request.body.length > 1 << 30
            for number, piece in enumerate(request.body.pieces()):
                taken += len(piece)
                if number == 64:
                    break  # the rest is the same
            return Response(503, {}, b"")

        def close(self) -> None: ...

    sp = Socialpub("http://127.0.0.1:1", "k", transport=Counting(), retries=0)
    tracemalloc.start()
    with pytest.raises(OutcomeUnknown):
        sp.media.upload(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken >= 64 << 20
    assert peak < 8 << 20


# --- Secrets, addresses, processes ---------------------------------------------------------------------------------


def test_the_key_is_shown_nowhere(world: ClientWorld, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    key = "svc_live_" + "S" * 49
    shown: list[str] = []
    with Socialpub(world.server.url, key) as sp:
        shown += [repr(sp), repr(sp.engine), repr(vars(sp)), str(sp.posts.engine)]
        with pytest.raises(Unauthenticated) as refused:
            sp.posts.publish("x", to="bluesky")
        shown += [repr(refused.value), str(refused.value), repr(vars(refused.value))]
    with Socialpub("http://127.0.0.1:9", key, retries=0) as sp, pytest.raises(ConnectionFailed) as failed:
        sp.me()
    shown += [repr(failed.value), str(failed.value), str(failed.value.__cause__), str(failed.value.__context__)]
    with pytest.raises(ConfigurationError) as wrong:
        Socialpub(world.server.url, f"{key}\n")
    shown += [str(wrong.value)]
    assert not [line for line in [*shown, caplog.text] if "SSSS" in line]


def test_the_key_for_this_machine_goes_through_no_proxy(world: ClientWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")

    async def ask(url: str) -> str:
        async with AsyncSocialpub(url, world.alice.key) as sp:
            return (await sp.me()).organization.id

    for url in (world.server.url, world.server.url.replace("127.0.0.1", "localhost")):
        with Socialpub(url, world.alice.key) as sp:
            assert sp.me().organization.id == asyncio.run(ask(url)) == world.alice.organization


def test_a_redirect_is_not_followed(world: ClientWorld) -> None:
    transport = _Scripted(iter([Response(302, {"location": "http://elsewhere.example/"}, b"")]))
    with pytest.raises(UnexpectedAnswer, match="not followed"):
        Socialpub(world.server.url, "k", transport=transport).me()
    assert len(transport.requests) == 1


@pytest.mark.parametrize(
    "url", ["http://social.example.org", "ftp://x", "social.example.org", "https://u:p@x", "https://x?y", "http://"]
)
def test_an_address_that_would_show_the_key_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError):
        Socialpub(url, "k")


def test_plain_http_goes_to_loopback_or_where_it_is_allowed() -> None:
    for url in ("http://127.0.0.1:1", "http://localhost", "http://[::1]:80", "https://social.example.org/base/"):
        Socialpub(url, "k").close()
    Socialpub("http://social.example.org", "k", allow_http=True).close()


def test_a_forked_process_makes_its_own_connections(world: ClientWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    sp = world.client()
    sp.me()
    clients = world.transport.inner._clients
    (parent,) = clients.values()
    with monkeypatch.context() as child:
        child.setattr(http_transport, "os", SimpleNamespace(getpid=lambda: -1))
        sp.me()
        assert len(set(clients.values())) == 2
        sp.close()
    assert list(clients.values()) == [parent]
    assert not parent.is_closed
    sp.me()


def test_threads_share_a_client(world: ClientWorld, sp: Socialpub, text: Texts) -> None:
    words = [text() for _ in range(24)]

    def publish(some: list[str]) -> None:
        for each in some:
            sp.posts.publish(each, to=world.alice.bluesky)

    threads = [threading.Thread(target=publish, args=(words[at::6],)) for at in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts = Counter(world.texts())
    assert [counts[each] for each in words] == [1] * 24


# --- Models --------------------------------------------------------------------------------------------------------


def test_every_example_of_the_api_is_read() -> None:
    seen = set()
    for name, value in _examples():
        kind = getattr(models, {"Batch": "BatchData", "CurrentBatch": "BatchData"}.get(name, name), None)
        if kind is not None:
            assert kind.parse(value).raw == value
            seen.add(kind.__name__)
    assert len(seen) >= 20, seen


def _examples() -> Iterator[tuple[str, Any]]:
    """The examples of all answers, with the name of the schema of each; of pages, their items."""
    for item in DOCUMENT["paths"].values():
        for operation in item.values():
            for answer in operation["responses"].values():
                media = answer.get("content", {}).get("application/json", {})
                name = media.get("schema", {}).get("$ref", "").rpartition("/")[2]
                if "example" not in media or not name:
                    continue
                schema = DOCUMENT["components"]["schemas"][name]
                items = schema.get("properties", {}).get("data", {}).get("items", {}).get("$ref", "")
                yield name, media["example"]
                for each in media["example"].get("data", []) if items else []:
                    yield items.rpartition("/")[2], each


def test_an_old_client_survives_a_new_server(world: ClientWorld, sp: Socialpub) -> None:
    account = sp.accounts.list()[0]
    newer = models.Account.parse({**account.raw, "platform": "tomorrow", "status": "resting", "colour": "red"})
    assert (newer.platform, newer.status, newer.raw["colour"]) == ("tomorrow", "resting", "red")
    with pytest.raises(AttributeError):
        newer.status = "active"  # type: ignore[misc]
    with pytest.raises(UnexpectedAnswer):
        Socialpub(world.server.url, "k", transport=_Scripted(iter([_answer(200)]))).me()


def test_a_change_of_what_was_seen_only(world: ClientWorld, sp: Socialpub, text: Texts) -> None:
    batch = sp.posts.publish(text(), to=world.alice.bluesky, at=format_instant(world.server.clock.now_ms() + 10**8))
    seen = sp.posts.get(batch.results[0].post_id)
    sp.posts.edit(seen.id, text="changed meanwhile")
    with pytest.raises(ValidationFailed) as refused:
        sp.posts.edit(seen.id, text="mine", if_match=seen.etag)
    assert (refused.value.status, refused.value.rule) == (412, "http.if_match")
    assert sp.posts.get(seen.id).text == "changed meanwhile"
    sp.posts.cancel(seen.id)


def test_the_version_is_that_of_the_package() -> None:
    assert socialpub_client.engine.USER_AGENT.endswith(socialpub_client.__version__)
    assert document.build  # the generated classes are compared with it by `make lint`


class _Scripted:
    """Transport that answers by a script."""

    def __init__(self, answers: Iterator[Response]) -> None:
        self.requests: list[Request] = []
        self._answers = answers

    def send(self, request: Request) -> Response:
        self.requests.append(request)
        answer = next(self._answers, None)
        if answer is None:
            raise TransportError("the script has ended", sent=False)
        return answer

    def close(self) -> None: ...


def _answer(status: int, retry_after: str | None = None, code: str = "internal_error", rule: str = "") -> Response:
    error = {"code": code, "message": "So it is.", **({"rule": rule} if rule else {})}
    body = {"error": error} if status >= 400 else {}
    return Response(status, {"retry-after": retry_after} if retry_after else {}, json.dumps(body).encode())
