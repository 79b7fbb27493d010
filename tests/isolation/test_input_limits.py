"""Limits on lists, maps, names and texts apply before their content is processed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from socialpub.base.concurrency.fair_executor import FairExecutor, ShareKey
from socialpub.base.errors import ApiError
from socialpub.domain.context.app_context import CONCURRENT_CHECKS, CONCURRENT_REQUESTS_ALONE, MEASURING_THREADS
from socialpub.domain.posts import preflight
from socialpub.domain.posts.preflight import INLINE_TEXT_MAX
from socialpub.domain.schemas import bounded_json, validation
from socialpub.domain.schemas.common import TEXT_MAX
from socialpub.domain.schemas.posts import MEDIA_MAX
from socialpub.platforms import PLATFORMS
from socialpub.platforms.contract import ConnectorAccount, Draft
from socialpub.platforms.kit import rule_catalog, text
from socialpub.platforms.kit.rule_catalog import find_measured_max, find_violations
from socialpub.platforms.twitter import text as twitter_text
from socialpub.store.schema.models import Media
from socialpub.web.http import request_body
from socialpub.web.http.request_body import MIB, BodyBudgets, ByteBudget
from tests.support.app_server import AppServer, error_of, unchanged
from tests.support.database_costs import CountedWork, DatabaseCounter
from tests.support.media_files import picture
from tests.support.request_cast import RequestCast, inline_item
from tests.support.soak.soak_world import wait_for

ANSWER_MAX = 64 * 1024
MOST = 100  # requests at once, of which the rate limits refuse none


def refused(world: RequestCast, body: bytes | str, status: int = 400) -> dict[str, Any]:
    """The error of a refusal that changed nothing and did not grow with the request."""
    with unchanged(world.server):
        for path in ("/v1/posts", "/v1/posts/validate"):
            answer = world.alice.api.post(path, content=body)
            assert answer.status_code == status, answer.text[:500]
            assert len(answer.content) < ANSWER_MAX
    return error_of(answer)


# --- Lists, maps, names ---


@pytest.mark.slow
def test_targets_are_counted_before_they_are_looked_at(world: RequestCast) -> None:
    for entry, count, rule in (
        (b"0", 4_000_000, "body.json"),
        (b"{}", 2_000_000, "body.json"),
        (b"0", 26, "targets.max"),
        (b'{"x":1}', 30, "targets.max"),
    ):
        body = b'{"targets":[' + b",".join([entry] * count) + b"]}"
        assert refused(world, body)["rule"] == rule


def test_media_are_counted_before_they_are_looked_at(world: RequestCast) -> None:
    most = MEDIA_MAX
    for count, entry in ((most + 1, "med_x"), (900, 0), (2000, "med_x")):
        error = refused(world, json.dumps(world.body(media=[entry] * count)))
        assert error["rule"] == "media"
        assert [found["code"] for found in error["platformResponse"]] == ["too_long"]
        of_target = world.body(targets=[world.target(media=[entry] * count)])
        assert refused(world, json.dumps(of_target))["rule"] == "targets.0.media"


@pytest.mark.slow
def test_unknown_fields_are_counted_and_their_names_cut(world: RequestCast) -> None:
    many = json.dumps(dict.fromkeys((f"field{n}" for n in range(600_000)), 0))
    assert refused(world, many)["rule"] == "body.json"
    error = refused(world, json.dumps({"n" * 7_900_000: 1}))
    assert len(error["rule"]) <= 101
    assert len(error["message"]) < 1000


def test_no_more_than_100_issues_are_shown(world: RequestCast) -> None:
    target = world.target(**{f"f{n}": 0 for n in range(99)})
    error = refused(world, json.dumps(world.body(targets=[target] * 25)))
    assert len(error["platformResponse"]) == validation.ISSUES_MAX == 100
    assert error["rule"] == "targets.0.f0"


def test_depth_is_counted(world: RequestCast) -> None:
    assert refused(world, "[" * 100_000)["rule"] == "body.json"
    assert refused(world, '{"text":' + "[" * 40 + "]" * 40 + "}")["rule"] == "body.json"


def test_queries_are_counted(world: RequestCast) -> None:
    api = world.alice.api
    for query, rule in (
        ("&".join(["status=failed"] * 101), "http.request"),
        ("status=" + ",".join(["x"] * 900), "status"),
        ("platform=" + "," * 900, "platform"),
        ("n" * 3000 + "=1", "n" * 100 + "…"),
    ):
        answer = api.get(f"/v1/posts?{query}")
        assert (answer.status_code, error_of(answer)["rule"]) == (400, rule)
        assert len(answer.content) < ANSWER_MAX
    assert api.get("/v1/posts?" + "&".join(["status=failed"] * 50)).status_code == 200


# --- One query for all ids ---


def test_all_ids_of_a_request_are_looked_up_at_once(counting: DatabaseCounter, world: RequestCast) -> None:
    """25 targets of 40 ids each: one query while it is checked, and one more where it is written."""
    ids = [upload(world) for _ in range(3)]
    lists = [[ids[n % 3]] * 4 for n in range(25)]
    body = world.body(targets=[world.target(media=items) for items in lists], scheduledAt=world.soon(), media=ids)
    for path, queries in (("/v1/posts/validate", 1), ("/v1/posts", 2)):
        with counting.while_() as done:
            answer = world.alice.api.post(path, json=body)
        assert answer.status_code in (200, 202), answer.text
        assert len(read_from(done, "media")) == queries, done
    unknown = [f"med_{n:022}" for n in range(MEDIA_MAX)]
    many = [world.target(media=unknown[n:] + unknown[:n]) for n in range(25)]
    with counting.while_() as done:
        error = error_of(world.alice.api.post("/v1/posts/validate", json=world.body(targets=many)))
    assert error["rule"] == "media.unknown"
    assert len(read_from(done, "media")) == 1, done


def read_from(done: CountedWork, table: str) -> list[str]:
    return [text for text in done.asked.sql if f"FROM {table} " in text or f"FROM {table}\n" in text]


def upload(world: RequestCast) -> str:
    answer = world.alice.api.post("/v1/media", files={"file": ("a.jpg", picture(), "image/jpeg")})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def test_media_of_another_profile_are_unknown_however_they_are_looked_up(world: RequestCast) -> None:
    bobs = world.bob.api.post("/v1/media", files={"file": ("a.jpg", picture(), "image/jpeg")}).json()["id"]
    body = world.body(targets=[world.target(), world.target(media=[bobs])])
    answer = world.alice.api.post("/v1/posts", json=body)
    assert (answer.status_code, error_of(answer)["rule"]) == (404, "media.unknown")
    assert bobs in error_of(answer)["message"]


# --- Texts ---


def test_what_is_far_too_long_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[int] = []
    for name in ("graphemes", "utf8_bytes", "utf16_units"):
        plain = getattr(text, name)
        monkeypatch.setattr(text, name, lambda value, plain=plain: measured.append(len(value)) or plain(value))
    account = ConnectorAccount("")
    for platform in PLATFORMS.values():
        most, long = find_measured_max(platform, "text"), "x" * TEXT_MAX
        measured.clear()
        found = find_violations(platform, platform.site(), Draft(long), account).errors
        assert found[0].rule.id.startswith(f"{platform.name}.text."), platform.name
        if most < TEXT_MAX:
            assert [error.rule.id for error in found] == [found[0].rule.id]
            assert "100,000" in found[0].message
            assert rule_catalog.count_text(platform, Draft(long), account).length == TEXT_MAX
            assert not [length for length in measured if length > most]


FAMILY = "👨🏽\u200d👩🏽\u200d👧🏽\u200d👦🏽"  # one grapheme


@pytest.mark.parametrize("name", sorted(PLATFORMS))
def test_no_text_is_refused_unmeasured_that_its_platform_may_take(name: str) -> None:
    """As many families as there may be characters, and as many bytes or units as there may be."""
    platform, account = PLATFORMS[name], ConnectorAccount("")
    rows = [row for row in platform.rules if row.id.startswith(f"{name}.text.max_") and isinstance(row.limit, int)]
    sizes = {"graphemes": len(FAMILY), "characters": len(FAMILY), "weighted": 1, "utf16": 1, "bytes": 1}
    longest = min(row.limit * sizes[row.unit] for row in rows if isinstance(row.limit, int))
    assert longest <= find_measured_max(platform, "text")
    for content in (FAMILY * (longest // len(FAMILY)), "x" * longest):
        errors = find_violations(platform, platform.site(), Draft(content), account).errors
        assert f"It has {len(content):,}." not in {error.found for error in errors}
    if name == "bluesky":
        assert find_measured_max(platform, "text") == 3600


def test_links_are_not_looked_for_beyond_what_anybody_may_post(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[object] = []
    plain = twitter_text.find_urls
    monkeypatch.setattr(twitter_text, "find_urls", lambda text: (found.append(url) or url for url in plain(text)))
    assert twitter_text.weighted_length("x.co " * 1000) == 24_000
    found.clear()
    assert twitter_text.weighted_length("x.co " * 20_000) > twitter_text.TEXT_MAX_PAID
    assert len(found) == twitter_text.TEXT_MAX_PAID // 24 + 1


def test_nobody_waits_for_long_texts_to_be_measured(world: RequestCast) -> None:
    """They are measured in threads of their own: while those are all taken, others read, check and publish."""
    service, over = world.server.service, threading.Event()
    held = [service.executors.measuring.submit(over.wait, 60) for _ in range(MEASURING_THREADS)]
    target = world.target()
    answers: list[httpx.Response] = []
    body = {"targets": [target], "text": "long " * INLINE_TEXT_MAX, "deep": False}
    heavy = threading.Thread(target=lambda: answers.append(world.alice.api.post("/v1/posts/validate", json=body)))
    heavy.start()
    try:
        assert world.alice.api.get("/v1/posts").status_code == 200
        assert world.alice.api.post("/v1/posts/validate", json=body | {"text": "short"}).json()["valid"] is True
        assert world.alice.api.publish({"targets": [target], "text": "short"}).status_code == 200
        assert not answers
    finally:
        over.set()
        heavy.join(60)
    assert [answer.json()["valid"] for answer in answers] == [False]
    assert all(each.result(60) for each in held)


@contextlib.contextmanager
def asking_at_once(world: RequestCast, count: int) -> Iterator[list[int]]:
    """So many checks of Alice's are asked for, and no thread is free for one in the block; the statuses afterwards."""
    over = threading.Event()
    held = [world.server.service.executors.measuring.submit(over.wait, 60) for _ in range(MEASURING_THREADS)]
    body = {"targets": [world.target()], "text": "long " * INLINE_TEXT_MAX, "deep": False}
    answers: list[int] = []

    def ask() -> None:
        with httpx.Client(base_url=world.server.url, trust_env=False, timeout=60) as client:
            headers = {"Authorization": f"Bearer {world.alice.key}"}
            answers.append(client.post("/v1/posts/validate", json=body, headers=headers).status_code)

    asking = [threading.Thread(target=ask) for _ in range(count)]
    for each in asking:
        each.start()
    try:
        yield answers
    finally:
        over.set()
        for each in asking:
            each.join(60)
    assert answers == [200] * count
    assert all(future.result(60) for future in held)


def test_others_need_not_wait_for_all_that_an_organization_asks(world: RequestCast) -> None:
    """CONCURRENT_CHECKS of its requests are checked; the others hold no thread and delay no other organization."""
    checking, mine = world.server.service.admission.checking, world.alice.organization
    with asking_at_once(world, CONCURRENT_CHECKS + 8) as answers:
        assert wait_for(lambda: checking.waiting(mine) == 8, 30)
        assert world.charlie.api.post("/v1/posts", json={"targets": [{"platform": "x"}]}).status_code == 400
        assert world.charlie.api.get("/v1/posts").status_code == 200
        assert checking.waiting(mine) == 8
        assert not answers
    assert checking.waiting(mine) == 0


@pytest.mark.slow
def test_of_many_requests_at_the_door_others_are_behind_none(
    world: RequestCast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While another's request is there, two of an organization are let in at a time, of however many it asks."""
    requests, mine = world.server.service.admission.requests, world.alice.organization
    monkeypatch.setattr(requests, "counted", 3600)  # however slow the machine is, what is here counts
    with asking_at_once(world, MOST) as answers:
        assert wait_for(lambda: requests.waiting(mine) == MOST - CONCURRENT_REQUESTS_ALONE, 60)
        assert world.charlie.api.get("/v1/posts").status_code == 200
        assert world.charlie.api.post("/v1/posts", json={"targets": [{"platform": "x"}]}).status_code == 400
        assert requests.waiting(mine) == MOST - CONCURRENT_REQUESTS_ALONE
        assert not answers
    assert requests.waiting(mine) == 0


def test_a_text_that_is_far_too_long_is_refused_by_its_rule(world: RequestCast) -> None:
    long, comment = "x" * TEXT_MAX, {"text": "y" * 50_000}
    answer = world.alice.api.post("/v1/posts/validate", json=world.body(text=long, firstComment=comment))
    (result,) = answer.json()["results"]
    assert [found["rule"] for found in result["errors"]] == [
        "bluesky.text.max_graphemes",
        "bluesky.first_comment.max_graphemes",
    ]
    assert result["text"] == {"length": 100_000, "limit": 300, "unit": "graphemes"}
    posted = world.post(text=long)
    assert (posted.status_code, error_of(posted)["rule"]) == (400, "bluesky.text.max_graphemes")


# --- Large bodies ---


def test_a_body_that_is_not_light_is_parsed_off_the_loop(world: RequestCast, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[str] = []
    plain = bounded_json.load

    def spy(body: bytes) -> Any:
        threads.append(threading.current_thread().name)
        return plain(body)

    monkeypatch.setattr(bounded_json, "load", spy)
    for size in (1000, request_body.INLINE_PARSE_MAX):
        answer = world.alice.api.post("/v1/posts/validate", content=json.dumps(world.body()) + " " * size)
        assert answer.status_code == 200
    assert threads == ["web", "reading"]


FULL = request_body.BODY_MAX
HOSTILE = {
    "arrays": b"[" * FULL,
    "objects": b'{"a":' * (FULL // 5),
    "commas": b"," * FULL,
    "digits": b"1" * FULL,
    "a fraction": b"0." + b"1" * (FULL - 2),
    "quotes": b'"' * FULL,
    "blanks": b" " * FULL,
    "no end": b'"' + b"x" * (FULL - 1),
    "escapes": b'{"text":"' + b"\\u0000" * (FULL // 6 - 2) + b'"}',
    "backslashes": b'{"text":"' + b"\\" * (FULL - 12) + b'"}',
    "escaped quotes": b'{"text":"' + b'\\"' * (FULL // 2 - 6) + b'"}',
    "a long name": b'{"' + b"n" * (FULL - 6) + b'":1}',
    "a long name twice": b'{"' + b"n" * (FULL // 2 - 6) + b'":1,"' + b"n" * (FULL // 2 - 6) + b'":1}',
    "one string": b'{"text":"' + b"x" * (FULL - 11) + b'"}',
}


@pytest.mark.matrix
@pytest.mark.parametrize("name", HOSTILE)
def test_the_largest_bodies_are_refused_with_a_short_answer(name: str, world: RequestCast) -> None:
    body = HOSTILE[name]
    assert FULL - 16 <= len(body) <= FULL
    with unchanged(world.server):
        answer = world.alice.api.post("/v1/posts", content=body)
    assert answer.status_code == 400
    assert len(answer.content) < 2000
    assert world.server.app.ctx.pipeline.budgets.memory.used == 0


def test_others_are_answered_while_large_bodies_are_parsed(world: RequestCast, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many one organization sends: of the two threads it has one, and the loop parses none of them."""
    over, began, plain = threading.Event(), threading.Semaphore(0), bounded_json.load

    def load(body: bytes) -> Any:
        if b"hold" in body:
            began.release()
            over.wait(60)
        return plain(body)

    monkeypatch.setattr(bounded_json, "load", load)
    padding = " " * request_body.INLINE_PARSE_MAX

    def ask() -> None:
        with httpx.Client(base_url=world.server.url, trust_env=False, timeout=60) as client:
            headers = {"Authorization": f"Bearer {world.alice.key}"}
            client.post("/v1/posts/validate", content='{"hold":1}' + padding, headers=headers)

    asking = [threading.Thread(target=ask) for _ in range(4)]
    for each in asking:
        each.start()
    try:
        assert began.acquire(timeout=30)
        large = '{"targets":[{"platform":"x"}],"text":"x"}' + padding
        assert world.charlie.api.post("/v1/posts/validate", content=large).status_code == 400
        assert world.charlie.api.get("/v1/posts").status_code == 200
    finally:
        over.set()
        for each in asking:
            each.join(60)


def test_bodies_are_parsed_in_turn(world: RequestCast, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many an organization has sent: who comes after them waits for those that are under way."""
    shares: list[ShareKey] = []
    plain = FairExecutor.submit_for

    def spy(pool: FairExecutor, share: ShareKey, *work: Any) -> Any:
        if pool is world.server.service.executors.reading:
            shares.append(share)
        return plain(pool, share, *work)

    monkeypatch.setattr(FairExecutor, "submit_for", spy)
    body = json.dumps(world.body(deep=False)) + " " * request_body.INLINE_PARSE_MAX
    assert world.alice.api.post("/v1/posts/validate", content=body).status_code == 200
    assert set(shares) == {ShareKey(owner=world.alice.organization)}


@pytest.mark.slow
def test_a_file_may_fill_the_body(world: RequestCast) -> None:
    content = b"\x89PNG" + bytes(range(256)) * 40_000  # 10 MB, no picture: kept all the same, and warned of
    body = world.body(media=[inline_item(content)], scheduledAt=world.soon())
    answer = world.alice.api.post("/v1/posts", json=body)
    assert answer.status_code == 202, answer.text[:500]
    (row,) = world.server.rows(Media)
    assert (row["size_bytes"], row["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())
    with unchanged(world.server):
        checked = world.alice.api.post("/v1/posts/validate", json=world.body(media=[inline_item(content)]))
        assert checked.json()["valid"] is False


def test_too_large_body_is_told_the_limit_and_where_more_is_taken(world: RequestCast) -> None:
    with unchanged(world.server):
        answer = world.alice.api.post("/v1/posts", content=b" " * (request_body.BODY_MAX + 1))
    error = error_of(answer)
    assert (answer.status_code, error["rule"]) == (413, "http.body_size")
    assert "16 MiB" in error["message"]
    assert "POST /v1/media" in error["remediation"]
    assert "512 MiB" in error["remediation"]


def test_a_key_stands_for_the_body_as_it_was_sent(world: RequestCast) -> None:
    body = json.dumps(world.body(media=[inline_item(picture())]))
    other = body.replace(" ", "")
    assert json.loads(body) == json.loads(other)
    first = world.alice.api.post("/v1/posts", content=body, headers={"Idempotency-Key": "one"})
    again = world.alice.api.post("/v1/posts", content=body, headers={"Idempotency-Key": "one"})
    assert (first.status_code, again.content, again.headers["Idempotency-Replayed"]) == (200, first.content, "true")
    mismatch = world.alice.api.post("/v1/posts", content=other, headers={"Idempotency-Key": "one"})
    assert error_of(mismatch)["rule"] == "idempotency_key.body_mismatch"


@pytest.mark.parametrize("broken", ['"AA=A"', '"', '"AAAA"'])
def test_refused_inline_files_are_gone(broken: str, world: RequestCast) -> None:
    items = json.dumps([inline_item(picture())])[:-1] + f',{{"kind":"image","bytesBase64":{broken}}}]'
    body = json.dumps(world.body())[:-1] + f', "media": {items}, "x": 1}}'
    with unchanged(world.server):
        assert world.alice.api.post("/v1/posts", content=body).status_code == 400


# --- Bytes in flight ---


def test_a_budget_has_a_share_for_each_and_an_end() -> None:
    budget = ByteBudget(100, 60)
    budget.take("a", 60)
    for whose, count, code in (("a", 1, "rate_limited"), ("b", 61, "rate_limited"), ("b", 41, "internal_error")):
        with pytest.raises(ApiError) as error:
            budget.take(whose, count)
        assert (error.value.code, error.value.retry_after) == (code, 5)
    budget.take("b", 40)
    budget.release("a", 60)
    budget.release("b", 40)
    assert budget.used == 0


def test_bytes_in_flight_are_counted_and_given_back(
    make_server: Callable[..., AppServer], world_of: Callable[[AppServer], RequestCast], monkeypatch: pytest.MonkeyPatch
) -> None:
    budgets = BodyBudgets(ByteBudget(2 * MIB, MIB), ByteBudget(600_000, 300_000))
    monkeypatch.setattr(request_body, "BodyBudgets", lambda: budgets)
    world = world_of(make_server())

    def send(size: int, media: int = 0) -> httpx.Response:
        padding = {"media": [inline_item(b"x" * media)]} if media else {}
        return world.alice.api.post("/v1/posts/validate", content=json.dumps(world.body(**padding)) + " " * size)

    for size, media, status in ((MIB - 1000, 0, 200), (MIB, 0, 429), (0, 290_000, 200), (0, 310_000, 429), (0, 0, 200)):
        answer = send(size, media)
        assert answer.status_code == status, answer.text[:300]
        assert answer.status_code == 200 or answer.headers["Retry-After"] == "5"
        assert (budgets.memory.used, budgets.disk.used) == (0, 0)
    with world.alice.api.expecting_failure():
        budgets.memory.take("others", MIB)
        budgets.memory.take("more", MIB - 80_000)
        answer = send(90_000)
    assert (answer.status_code, error_of(answer)["rule"]) == (503, "http.busy")
    assert world.post().status_code == 200, "small requests are not counted"


def test_a_body_is_not_held_while_its_files_are_looked_at(world: RequestCast, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a body of 6 MB that is nearly all files, what is counted while it is checked is on the disk."""
    held: list[tuple[int, int]] = []
    plain = preflight.validate

    async def look(*given: Any) -> Any:
        budgets = world.server.app.ctx.pipeline.budgets
        held.append((budgets.memory.used, budgets.disk.used))
        return await plain(*given)

    monkeypatch.setattr(preflight, "validate", look)
    content = b"\x89PNG" + b"x" * 4_500_000
    world.alice.api.post("/v1/posts/validate", json=world.body(media=[inline_item(content)]))
    ((memory, disk),) = held
    assert memory == 0
    assert len(content) <= disk < len(content) + 10
