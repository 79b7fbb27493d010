"""Threads: each piece is a row of the log, published as a reply to the piece before it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from socialpub.domain.access.authentication import Scope
from socialpub.domain.background import recovery
from socialpub.domain.posts import post_export
from socialpub.platforms import PLATFORMS
from socialpub.simulator.server import SimulatorThread
from tests.support.app_server import MovableClock, error_of, format_instant, unchanged
from tests.support.post_drafts import new_draft
from tests.support.request_cast import inline_item, make_picture
from tests.support.soak.soak_world import wait_for
from tests.support.thread_posts import (
    FIVE,
    PUBLIC_CALLS,
    THREADED,
    ThreadServer,
    accept,
    chained,
    fail,
    make_unknown,
    own,
    parent_of,
    public,
    publish_by_hand,
    scheduled,
)


@pytest.fixture(scope="module")
def threads(tmp_path_factory: pytest.TempPathFactory, lab_thread: SimulatorThread) -> Iterator[ThreadServer]:
    lab_thread.lab.reset()
    wait = {"publishing": {"immediate_wait": 0.1}}
    server = ThreadServer(tmp_path_factory.mktemp("threads"), lab_thread, MovableClock(), wait).start()
    assert isinstance(server, ThreadServer)
    yield server.furnish()
    server.stop()


MakeThreads = Callable[..., ThreadServer]


@pytest.mark.matrix
@pytest.mark.parametrize("platform", THREADED)
@pytest.mark.parametrize("scheduled", [False, True])
def test_pieces_are_published_in_order(threads: ThreadServer, platform: str, scheduled: bool) -> None:
    texts = own(platform, f"order {scheduled}")
    at = {"scheduledAt": format_instant(threads.clock.now_ms() + 60_000)} if scheduled else {}
    batch = accept(threads, platform, *texts, **at)["id"]
    assert threads.ended(batch) == ["published"] * 5
    assert public(threads, platform, texts) == chained(*texts)


PIECE = {"text": "more"}


# --- What is shown ---------------------------------------------------------------------------------------------------


def test_each_piece_is_a_row_of_the_log(threads: ThreadServer) -> None:
    texts = own("bluesky", "row", FIVE[:3])
    accepted = accept(threads, "bluesky", *texts)
    (result,) = accepted["results"]
    assert [set(piece) - {"uri"} for piece in result["thread"]] == [{"postId", "status"}] * 2
    threads.ended(accepted["id"])
    rows = threads.alice.api.get("/v1/posts", params={"batchId": accepted["id"]}).json()["data"][::-1]
    first = rows[0]["id"]
    assert [(row["threadOf"], row["threadPosition"], row["text"]) for row in rows] == [
        (None, 0, texts[0]),
        (first, 1, texts[1]),
        (first, 2, texts[2]),
    ]
    assert [row["id"] for row in rows] == [first, *(piece["postId"] for piece in result["thread"])]
    for row in rows:
        assert threads.alice.api.get(f"/v1/posts/{row['id']}").json().items() >= row.items()


def test_a_post_without_a_thread_has_no_place_in_one(threads: ThreadServer) -> None:
    body = threads.body("bluesky", "alone")
    del body["thread"]
    (result,) = threads.alice.api.publish(body).json()["results"]
    assert "thread" not in result
    post = threads.alice.api.get(f"/v1/posts/{result['postId']}").json()
    assert (post["threadOf"], post["threadPosition"]) == (None, None)


def test_a_batch_has_one_result_for_each_target(threads: ThreadServer) -> None:
    alice = threads.alice.accounts
    targets = [
        {"accountId": alice["bluesky"]["id"]},
        {"accountId": alice["twitter"]["id"], "thread": [{"text": "own 1"}]},
        {"accountId": alice["threads"]["id"], "text": "own first"},
    ]
    body = {"targets": targets, "text": "first", "thread": [{"text": "shared 1"}, {"text": "shared 2"}]}
    at = format_instant(threads.clock.now_ms() + 3_600_000)
    accepted = threads.alice.api.publish(body | {"scheduledAt": at}, key="thread-results").json()
    assert [len(result["thread"]) for result in accepted["results"]] == [2, 1, 2]
    assert threads.alice.api.publish(body | {"scheduledAt": at}, key="thread-results").json() == accepted
    shown = [(row["platform"], row["text"], row["thread_position"]) for row in threads.thread(accepted["id"])]
    assert shown == [
        ("bluesky", "first", 0),
        ("bluesky", "shared 1", 1),
        ("bluesky", "shared 2", 2),
        ("twitter", "first", 0),
        ("twitter", "own 1", 1),
        ("threads", "own first", 0),
        ("threads", "shared 1", 1),
        ("threads", "shared 2", 2),
    ]
    assert threads.ended(accepted["id"]) == ["published"] * 8


def test_an_external_id_names_a_thread_once(threads: ThreadServer) -> None:
    targets = [{"accountId": threads.alice.accounts["bluesky"]["id"]}, {"platform": "twitter"}]
    at = format_instant(threads.clock.now_ms() + 3_600_000)
    body = {"targets": targets, "text": "named", "thread": [PIECE, PIECE], "externalId": "a-thread", "scheduledAt": at}
    first = threads.alice.api.publish(body)
    again = threads.alice.api.publish(body)
    assert (again.headers["Idempotency-Replayed"], again.json()["id"]) == ("true", first.json()["id"])
    for other in ([PIECE], [PIECE, {"text": "other"}], [PIECE, PIECE, PIECE]):
        refused = threads.alice.api.publish(body | {"thread": other})
        assert (refused.status_code, error_of(refused)["rule"]) == (409, "external_id.taken")
    for result in first.json()["results"]:  # else they are published while other tests count calls
        assert threads.alice.api.delete(f"/v1/posts/{result['postId']}").status_code == 200


# --- Content ---------------------------------------------------------------------------------------------------------


def test_a_piece_has_its_own_media_and_the_languages_of_the_first(threads: ThreadServer) -> None:
    target = {"accountId": threads.alice.bluesky, "options": {"platform": "bluesky", "langs": ["de"]}}
    image = inline_item(make_picture(), altText="second")
    body = {"targets": [target], "text": "media 1", "media": [inline_item(make_picture(size=(9, 9)))]}
    body["thread"] = [{"text": "media 2", "media": [image]}, {"text": "media 3"}]
    batch = threads.alice.api.publish(body | {"firstComment": {"text": "media comment"}}).json()["id"]
    assert threads.ended(batch) == ["published"] * 3
    entries = [entry for entry in threads.lab.lab.ledger.posts("bluesky") if str(entry.text).startswith("media")]
    assert [(entry.text, [medium.alt for medium in entry.media]) for entry in entries] == [
        ("media 1", [""]),
        ("media comment", []),
        ("media 2", ["second"]),
        ("media 3", []),
    ]
    assert all(entry.request["record"]["langs"] == ["de"] for entry in entries)
    first = entries[0].remote_id
    roots = [entry.request["record"]["reply"]["root"]["uri"] for entry in entries[1:]]
    parents = [parent_of(entry.request) for entry in entries[1:]]
    assert (roots, parents) == ([first] * 3, [first, first, entries[2].remote_id])


def test_a_thread_that_answers_a_post_stays_in_its_thread(threads: ThreadServer) -> None:
    ours = threads.alice.api.publish({"targets": [{"accountId": threads.alice.bluesky}], "text": "root"}).json()
    (root,) = ours["results"]
    options = {"platform": "bluesky", "replyToUri": root["uri"], "replyToCid": root["cid"]}
    body = threads.body("bluesky", "answer 1", "answer 2")
    body["targets"][0]["options"] = options
    assert threads.ended(threads.alice.api.publish(body).json()["id"]) == ["published"] * 2
    entries = [entry for entry in threads.lab.lab.ledger.posts("bluesky") if str(entry.text).startswith("answer")]
    assert [entry.kind for entry in entries] == ["comment"] * 2
    assert {entry.request["record"]["reply"]["root"]["uri"] for entry in entries} == {root["uri"]}


# --- A piece that is missing -----------------------------------------------------------------------------------------


@pytest.mark.matrix
@pytest.mark.parametrize("platform", THREADED)
@pytest.mark.parametrize("place", [1, 3, 5])
def test_a_missing_piece_stops_those_after_it_until_it_is_retried(
    threads: ThreadServer, platform: str, place: int
) -> None:
    texts = own(platform, f"stop {place}")
    fail(threads, platform, place)
    batch = accept(threads, platform, *texts)["id"]
    assert threads.ended(batch) == ["published"] * (place - 1) + ["failed"] * (6 - place)
    rows = threads.thread(batch)
    rules = [json.loads(row["error"]).get("rule") for row in rows[place:]]
    assert rules == ["thread.previous_missing"] * (5 - place)
    for row in rows[place:]:
        refused = threads.alice.api.post(f"/v1/posts/{row['id']}/retry", json={})
        assert (refused.status_code, error_of(refused)["rule"]) == (409, "post.retry.thread")
        assert [type_ for type_, _ in threads.events(row["id"])] == ["post.validated", "post.failed"]
    threads.lab.lab.faults.clear()
    assert threads.alice.api.post(f"/v1/posts/{rows[place - 1]['id']}/retry", json={}).status_code == 202
    assert threads.ended(batch) == ["published"] * 5
    assert public(threads, platform, texts) == chained(*texts)


def test_a_piece_that_fails_again_stops_the_rest_again(threads: ThreadServer) -> None:
    texts = own("bluesky", "again", FIVE[:3])
    fail(threads, "bluesky", 2)
    batch = accept(threads, "bluesky", *texts)["id"]
    assert threads.ended(batch) == ["published", "failed", "failed"]
    (second, third) = threads.thread(batch)[1:]
    fail(threads, "bluesky")
    at = format_instant(threads.clock.now_ms() + 60_000)
    assert threads.alice.api.post(f"/v1/posts/{second['id']}/retry", json={"scheduledAt": at}).status_code == 202
    assert [(row["status"], format_instant(row["scheduled_at"])) for row in threads.thread(batch)[1:]] == [
        ("queued", at)
    ] * 2
    assert threads.ended(batch) == ["published", "failed", "failed"]
    told = ["post.validated", "post.failed", "post.queued", "post.validated", "post.failed"]
    assert [type_ for type_, _ in threads.events(third["id"])] == told
    assert [entry[0] for entry in public(threads, "bluesky", texts)] == [texts[0]]
    threads.lab.lab.faults.clear()


@pytest.mark.parametrize("platform", THREADED)
def test_a_reported_piece_lets_the_rest_go_on(threads: ThreadServer, platform: str) -> None:
    texts = own(platform, "settle", FIVE[:4])
    fail(threads, platform, 2)
    batch = accept(threads, platform, *texts)["id"]
    threads.ended(batch)
    threads.lab.lab.faults.clear()
    second = threads.thread(batch)[1]
    address = publish_by_hand(threads, batch, second["id"])
    wrong = [({}, "missing"), ({"uri": "https://example.org/post/1"}, "value_error")]
    for fields, code in wrong:
        with unchanged(threads):
            refused = threads.alice.api.post(f"/v1/posts/{second['id']}/settle", json={"published": True, **fields})
        assert refused.status_code == 400
        assert [issue["code"] for issue in error_of(refused)["platformResponse"]] == [code]
    settled = threads.alice.api.post(f"/v1/posts/{second['id']}/settle", json={"published": True, "uri": address})
    assert settled.status_code == 200, settled.text
    assert threads.ended(batch) == ["published"] * 4
    assert public(threads, platform, texts) == chained(*texts)


def test_a_piece_is_sent_again_when_x_shows_the_one_before_it(threads: ThreadServer) -> None:
    body = {"title": "Forbidden", "detail": "You attempted to reply to a Tweet that is deleted or not visible to you."}
    line = {"fault": "status:403", "platform": "twitter", "operation": PUBLIC_CALLS["twitter"], "nth": 2}
    threads.lab.lab.faults.clear()
    threads.lab.lab.faults.add([line | {"body": json.dumps(body)}])
    texts = own("twitter", "unseen", FIVE[:3])
    at = format_instant(threads.clock.now_ms() + 3_600_000)
    batch = accept(threads, "twitter", *texts, scheduledAt=at)["id"]
    assert threads.ended(batch) == ["published"] * 3
    assert public(threads, "twitter", texts) == chained(*texts)
    threads.lab.lab.faults.clear()
    threads.lab.lab.faults.add([line | {"body": json.dumps(body)}])
    texts = own("twitter", "unseen now", FIVE[:3])
    batch = accept(threads, "twitter", *texts)["id"]
    assert threads.ended(batch) == ["published", "failed", "failed"]
    threads.lab.lab.faults.clear()
    assert threads.alice.api.post(f"/v1/posts/{threads.thread(batch)[1]['id']}/retry", json={}).status_code == 202
    assert threads.ended(batch) == ["published"] * 3
    assert public(threads, "twitter", texts) == chained(*texts)


def test_a_piece_that_is_reported_missing_is_retried(threads: ThreadServer) -> None:
    texts = own("twitter", "absent", FIVE[:3])
    fail(threads, "twitter", 2)
    batch = accept(threads, "twitter", *texts)["id"]
    threads.ended(batch)
    threads.lab.lab.faults.clear()
    second = threads.thread(batch)[1]["id"]
    make_unknown(threads, second)
    assert threads.alice.api.post(f"/v1/posts/{second}/settle", json={"published": False}).status_code == 200
    assert threads.statuses(batch) == ["published", "failed", "failed"]
    assert threads.alice.api.post(f"/v1/posts/{second}/retry", json={}).status_code == 202
    assert threads.ended(batch) == ["published"] * 3
    assert public(threads, "twitter", texts) == chained(*texts)


def test_a_lost_answer_is_looked_up_before_the_next_piece(threads: ThreadServer) -> None:
    for platform in THREADED:
        texts = own(platform, "lost", FIVE[:3])
        line = {"fault": "error_after", "platform": platform, "operation": PUBLIC_CALLS[platform], "nth": 2}
        threads.lab.lab.faults.clear()
        threads.lab.lab.faults.add([line])
        batch = accept(threads, platform, *texts)["id"]
        assert threads.ended(batch) == ["published"] * 3
        assert public(threads, platform, texts) == chained(*texts)
    threads.lab.lab.faults.clear()


# --- Changes ---------------------------------------------------------------------------------------------------------


def test_only_the_first_piece_has_a_job(threads: ThreadServer) -> None:
    rows = scheduled(threads, "bluesky", "jobs")
    keys = {job["key"] for job in threads.jobs()} & {row["id"] for row in rows}
    assert keys == {rows[0]["id"]}
    recovery.enqueue_lost_posts(threads.service)
    assert {job["key"] for job in threads.jobs()} & {row["id"] for row in rows} == keys
    assert threads.alice.api.delete(f"/v1/posts/{rows[0]['id']}").status_code == 200


def test_a_job_of_a_later_piece_does_not_publish_it_before_the_first(threads: ThreadServer) -> None:
    rows = scheduled(threads, "bluesky", "early")
    later, jobs = rows[1], threads.service.jobs
    now, account = threads.clock.now_ms(), later["account"]
    threads.service.write(lambda tx: jobs.put(tx, "publish", later["id"], now, account)).result()
    assert wait_for(lambda: later["id"] not in {job["key"] for job in threads.jobs()}, 30)
    assert threads.statuses(rows[0]["batch"]) == ["queued"] * 3
    assert threads.ended(rows[0]["batch"]) == ["published"] * 3


def test_canceling_the_first_piece_cancels_all(threads: ThreadServer) -> None:
    rows = scheduled(threads, "bluesky", "cancel")
    answer = threads.alice.api.delete(f"/v1/posts/{rows[0]['id']}")
    assert answer.json() == {"id": rows[0]["id"], "status": "canceled"}
    assert threads.statuses(rows[0]["batch"]) == ["canceled"] * 3
    for row in rows:
        assert [type_ for type_, _ in threads.events(row["id"])][-1] == "post.canceled"


def test_canceling_a_later_piece_cancels_those_after_it(threads: ThreadServer) -> None:
    rows = scheduled(threads, "bluesky", "tail")
    assert threads.alice.api.delete(f"/v1/posts/{rows[1]['id']}").status_code == 200
    assert threads.statuses(rows[0]["batch"]) == ["queued", "canceled", "canceled"]
    assert threads.ended(rows[0]["batch"]) == ["published", "canceled", "canceled"]


def test_moving_the_first_piece_moves_all(threads: ThreadServer) -> None:
    rows = scheduled(threads, "bluesky", "move")
    at = format_instant(threads.clock.now_ms() + 7_200_000)
    assert threads.alice.api.patch(f"/v1/posts/{rows[0]['id']}", json={"scheduledAt": at}).status_code == 200
    assert {format_instant(row["scheduled_at"]) for row in threads.thread(rows[0]["batch"])} == {at}
    for row in rows:
        type_, data = threads.events(row["id"])[-1]
        assert (type_, data["scheduledAt"]) == ("post.rescheduled", at)
        assert data["previousScheduledAt"] == format_instant(row["scheduled_at"])
    assert threads.ended(rows[0]["batch"]) == ["published"] * 3


def test_any_piece_can_be_edited_before_its_time(threads: ThreadServer) -> None:
    rows = scheduled(threads, "bluesky", "edit")
    texts = ["edit 0", "edit 1", "edit 2"]
    at = format_instant(threads.clock.now_ms() + 7_200_000)
    for row, text in zip(rows, texts, strict=True):
        body = {"text": text} | ({"scheduledAt": at} if row is rows[0] else {})
        answer = threads.alice.api.patch(f"/v1/posts/{row['id']}", json=body)
        assert (answer.status_code, answer.json()["text"], answer.json()["scheduledAt"]) == (200, text, at)
    assert {job["key"] for job in threads.jobs()} & {row["id"] for row in rows} == {rows[0]["id"]}
    assert threads.ended(rows[0]["batch"]) == ["published"] * 3
    assert [entry for entry in threads.chain("bluesky") if entry[0] in texts] == chained(*texts)


def test_a_refused_edit_names_its_target_and_piece(threads: ThreadServer) -> None:
    at = format_instant(threads.clock.now_ms() + 7_200_000)
    body = threads.body("bluesky", *own("bluesky", "named", FIVE[:3]), scheduledAt=at)
    body["targets"].append({"accountId": threads.alice.accounts["twitter"]["id"]})
    rows = threads.thread(threads.alice.api.publish(body).json()["id"])
    places = [(0, None), (0, 1), (0, 2), (1, None), (1, 1), (1, 2)]
    for row, place in zip(rows, places, strict=True):
        answer = threads.alice.api.patch(f"/v1/posts/{row['id']}", json={"text": "y" * 302})
        (failure,) = error_of(answer)["platformResponse"]
        assert (failure["targetIndex"], failure.get("threadPosition")) == place
        assert error_of(answer)["message"].startswith(f"Target {place[0]} (")
        assert (f", piece {place[1]} of its thread)" in error_of(answer)["message"]) == (place[1] is not None)


def test_a_later_piece_cannot_be_moved(threads: ThreadServer) -> None:
    rows = scheduled(threads, "bluesky", "later")
    at = format_instant(threads.clock.now_ms() + 7_200_000)
    with unchanged(threads):
        answer = threads.alice.api.patch(f"/v1/posts/{rows[1]['id']}", json={"scheduledAt": at})
    assert (answer.status_code, error_of(answer)["rule"]) == (409, "post.thread.waiting")
    assert threads.alice.api.delete(f"/v1/posts/{rows[0]['id']}").status_code == 200


# --- Quota, retention, export ----------------------------------------------------------------------------------------


def test_the_export_has_each_piece_and_its_place(threads: ThreadServer) -> None:
    rows = scheduled(threads, "bluesky", "export")
    scope = Scope(threads.alice.organization)
    found = list(post_export.iter_posts(threads.service, scope, {"batchId": rows[0]["batch"]}))[::-1]
    assert [(post["threadOf"], post["threadPosition"]) for post in found] == [
        (row["thread_of"], row["thread_position"]) for row in rows
    ]
    assert threads.alice.api.delete(f"/v1/posts/{rows[0]['id']}").status_code == 200


# --- What is refused -------------------------------------------------------------------------------------------------

REFUSED: tuple[tuple[Any, str, str], ...] = (
    ([], "thread", "too_short"),
    ([PIECE] * 25, "thread", "too_long"),
    ({}, "thread", "list_type"),
    (None, "thread", "list_type"),
    ([None], "thread.0", "model_type"),
    (["more"], "thread.0", "model_type"),
    ([{}], "thread.0.text", "missing"),
    ([{"text": ""}], "thread.0.text", "string_too_short"),
    ([{"text": 1}], "thread.0.text", "string_type"),
    ([{"text": "a\0"}], "thread.0.text", "string_nul"),
    ([{"text": "a", "media": None}], "thread.0.media", "list_type"),
    ([{"text": "a", "media": ["x"]}], "thread.0.media.0", "string_pattern_mismatch"),
    ([{"text": "a", "options": {}}], "thread.0.options", "extra_forbidden"),
    ([{"text": "a", "thread": [PIECE]}], "thread.0.thread", "extra_forbidden"),
    ([PIECE, {"text": "a", "firstComment": {"text": "b"}}], "thread.1.firstComment", "extra_forbidden"),
)


@pytest.mark.matrix
@pytest.mark.parametrize("where", ["", "targets.0."])
@pytest.mark.parametrize(("thread", "rule", "code"), REFUSED, ids=[f"{rule} {code}" for _, rule, code in REFUSED])
def test_a_thread_of_another_shape_is_refused(
    threads: ThreadServer, thread: Any, rule: str, code: str, where: str
) -> None:
    target = {"accountId": threads.alice.bluesky}
    body = {"targets": [target], "text": "first"}
    (target if where else body)["thread"] = thread
    with unchanged(threads):
        answer = threads.alice.api.publish(body)
    error = error_of(answer)
    assert (answer.status_code, error["code"], error["rule"]) == (400, "validation_failed", where + rule)
    assert error["platformResponse"][0]["code"] == code


def test_every_failure_of_every_piece_is_reported_at_once(threads: ThreadServer) -> None:
    alice = threads.alice.accounts
    targets = [{"accountId": alice[name]["id"]} for name in ("bluesky", "linkedin", "twitter")]
    body = {"targets": targets, "text": "x" * 301, "thread": [PIECE, {"text": "y" * 302}, {"text": " "}]}
    with unchanged(threads):
        answer = threads.alice.api.publish(body)
    assert (answer.status_code, error_of(answer)["code"]) == (400, "preflight_failed")
    found = [
        (row["targetIndex"], row.get("threadPosition"), row["rule"]) for row in error_of(answer)["platformResponse"]
    ]
    assert found == [
        (0, None, "bluesky.text.max_graphemes"),
        (0, 2, "bluesky.text.max_graphemes"),
        (0, 3, "bluesky.text.non_empty"),
        (1, None, "linkedin.thread.unsupported"),
        (2, None, "twitter.text.max_graphemes"),
        (2, 2, "twitter.text.max_graphemes"),
        (2, 3, "twitter.text.non_empty"),
    ]


def test_validation_counts_and_checks_each_piece(threads: ThreadServer) -> None:
    alice = threads.alice.accounts
    targets = [{"accountId": alice[name]["id"]} for name in ("bluesky", "linkedin")]
    body = {"targets": targets, "text": "fine", "thread": [PIECE, {"text": "y" * 302}]}
    answer = threads.alice.api.post("/v1/posts/validate", json=body)
    assert answer.status_code == 200
    first, second = answer.json()["results"]
    assert [(piece["valid"], piece["text"]["length"]) for piece in first["thread"]] == [(True, 4), (False, 302)]
    assert [error["rule"] for error in first["errors"]] == ["bluesky.text.max_graphemes"]
    assert first["errors"][0]["message"].startswith("Piece 2 of the thread: ")
    assert [error["rule"] for error in second["errors"]] == ["linkedin.thread.unsupported"]
    assert (answer.json()["valid"], first["valid"], second["valid"]) == (False, False, False)
    assert "thread" not in second


def test_problems_of_a_draft_name_the_piece(threads: ThreadServer) -> None:
    body = threads.body("bluesky", "fine", "fine too", "y" * 302)
    (problem,) = new_draft(threads.alice.api, **body)["problems"]
    assert (problem["targetIndex"], problem["rule"]) == (0, "bluesky.text.max_graphemes")
    assert problem["message"].startswith("Piece 2 of the thread: ")


def test_a_text_twice_in_a_thread_is_a_duplicate(threads: ThreadServer) -> None:
    body = threads.body("bluesky", "again", "other", "again", onDuplicate="refuse")
    with unchanged(threads):
        answer = threads.alice.api.publish(body)
    assert (answer.status_code, error_of(answer)["rule"]) == (409, "post.duplicate")
    (repeat,) = error_of(answer)["platformResponse"]
    assert (repeat["targetIndex"], repeat["threadPosition"], repeat["sameAsTarget"]) == (0, 2, 0)
    assert error_of(answer)["message"].startswith("Target 0, piece 2 of its thread: ")


def test_media_of_a_piece_are_checked_where_they_stand(threads: ThreadServer) -> None:
    body = threads.body("bluesky", "a", "b")
    body["thread"][0]["media"] = [{"kind": "image"}]
    with unchanged(threads):
        answer = threads.alice.api.publish(body)
    assert (answer.status_code, error_of(answer)["rule"]) == (400, "media.source")
    assert "thread.0.media.0" in error_of(answer)["message"]
    body["thread"][0]["media"] = ["med_" + "0" * 22]
    with unchanged(threads):
        answer = threads.alice.api.publish(body)
    assert (answer.status_code, error_of(answer)["rule"]) == (404, "media.unknown")


def test_every_platform_has_threads_or_the_rule_that_refuses_them() -> None:
    for name, platform in PLATFORMS.items():
        rules = {rule.id for rule in platform.rules}
        assert (f"{name}.thread.unsupported" in rules) == (platform.thread is None)
