"""Slots: weekly times of a profile, and batches that take the next free one."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from socialpub.domain.posts import slots
from socialpub.domain.posts.slots import DAYS, HORIZON_WEEKS
from socialpub.domain.schemas.posts import BatchRequest
from socialpub.store.schema.models import Profile
from tests.support.app_server import UNKNOWN_ID, Person, blocked_writer, error_of, unchanged
from tests.support.connect_flow import sign_in
from tests.support.media_uploads import wait_until
from tests.support.post_drafts import new_draft, read_draft
from tests.support.request_cast import RequestCast
from tests.support.writes_in_order import count_checked

NOW = "2027-03-22T08:00:00"  # a Monday, six days before the clock changes in Berlin
BERLIN = {"zone": "Europe/Berlin", "weekly": [{"day": "mon", "time": "09:30"}, {"day": "sun", "time": "02:30"}]}
MONDAY, NEXT_MONDAY = "2027-03-22T08:30:00.000Z", "2027-03-29T07:30:00.000Z"  # 09:30, in winter and in summer
NEXT_SUNDAY = "2027-04-04T00:30:00.000Z"  # on 28 March there is no 02:30


@pytest.fixture
def at_monday(world: RequestCast) -> RequestCast:
    """The world on that Monday; nothing is due meanwhile."""
    world.server.clock.stop(int(datetime.fromisoformat(NOW).replace(tzinfo=UTC).timestamp()) * 1000)
    return world


def define(person: Person, slots: dict[str, Any] = BERLIN, **fields: Any) -> dict[str, Any]:
    answer = person.api.put("/v1/slots", json={**slots, "profileId": person.profile, **fields})
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def take(world: RequestCast, **fields: Any) -> httpx.Response:
    return world.post(slot="next", profileId=world.alice.profile, **fields)


def taken(world: RequestCast, **fields: Any) -> str:
    answer = take(world, **fields)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["scheduledAt"])


# --- Define and read ---


def test_slots_are_read_as_they_were_defined(at_monday: RequestCast) -> None:
    alice = at_monday.alice
    none = {"profileId": alice.profile, "zone": "UTC", "weekly": [], "next": None}
    query = {"profileId": alice.profile}
    assert alice.api.get("/v1/slots", params=query).json() == none
    backwards = {**BERLIN, "weekly": BERLIN["weekly"][::-1]}
    stored = {"profileId": alice.profile, **BERLIN, "next": MONDAY}
    assert define(alice, backwards) == stored
    assert alice.api.get("/v1/slots", params=query).json() == stored
    assert define(alice, {"zone": "UTC", "weekly": []}) == none


@pytest.mark.parametrize(
    ("body", "rules"),
    [
        ({}, ["zone", "weekly"]),
        ({"zone": "Mars/Base", "weekly": []}, ["zone"]),
        ({"zone": "europe/berlin", "weekly": []}, ["zone"]),
        ({"zone": "localtime", "weekly": []}, ["zone"]),
        ({"zone": "Factory", "weekly": []}, ["zone"]),
        ({"zone": "UTC", "weekly": [{"day": "Monday", "time": "9:30"}]}, ["weekly.0.day", "weekly.0.time"]),
        ({"zone": "UTC", "weekly": [{"day": "mon", "time": "24:00"}]}, ["weekly.0.time"]),
        ({"zone": "UTC", "weekly": [{"day": "mon", "time": "09:30"}] * 2}, ["weekly"]),
        ({"zone": "UTC", "weekly": [{"day": "mon", "time": "09:30"}] * 101}, ["weekly"]),
        ({"zone": None, "weekly": {}, "times": []}, ["zone", "weekly", "times"]),
    ],
)
def test_wrong_slots_are_refused_with_every_failure(body: dict[str, Any], rules: list[str], world: RequestCast) -> None:
    with unchanged(world.server):
        answer = world.alice.api.put("/v1/slots", json=body)
    assert answer.status_code == 400
    assert [".".join(map(str, issue["path"])) for issue in error_of(answer)["platformResponse"]] == rules


@pytest.mark.usefixtures("bob", "charlie")
def test_the_profile_is_named_unless_there_is_one(world: RequestCast) -> None:
    """Alice's and Bob's profile are in one organization; Bob's key is bound to his."""
    for answer in (world.alice.api.get("/v1/slots"), world.alice.api.put("/v1/slots", json=BERLIN)):
        assert (answer.status_code, error_of(answer)["rule"]) == (400, "profileId")
    for query in ({}, {"profileId": world.bob.profile}):
        assert world.bob.api.get("/v1/slots", params=query).json()["profileId"] == world.bob.profile
    assert world.bob.api.put("/v1/slots", json=BERLIN).json()["profileId"] == world.bob.profile
    assert world.charlie.api.get("/v1/slots").json()["profileId"] == world.charlie.profile
    assert world.charlie.api.put("/v1/slots", json=BERLIN).status_code == 200


@pytest.mark.usefixtures("bob", "charlie")
def test_slots_of_others_are_not_found(world: RequestCast) -> None:
    with unchanged(world.server):
        for named in (world.charlie.profile, UNKNOWN_ID):
            answers = [
                world.alice.api.get("/v1/slots", params={"profileId": named}),
                world.alice.api.put("/v1/slots", json={**BERLIN, "profileId": named}),
                world.post(slot="next", profileId=named),
            ]
            assert {(answer.status_code, error_of(answer).get("rule")) for answer in answers} == {(404, None)}
        bobs = [
            world.bob.api.get("/v1/slots", params={"profileId": world.alice.profile}),
            world.bob.api.put("/v1/slots", json={**BERLIN, "profileId": world.alice.profile}),
        ]
    assert {(answer.status_code, error_of(answer)["rule"]) for answer in bobs} == {(404, "api_key.profile_scope")}


def test_a_session_reads_slots_and_does_not_write_them(world: RequestCast) -> None:
    browser = sign_in(world.server, world.charlie.organization)
    assert browser.get("/v1/slots").json()["profileId"] == world.charlie.profile
    assert browser.put("/v1/slots", json=BERLIN).status_code == 401


# --- Take ---


def test_batches_take_slot_after_slot(at_monday: RequestCast) -> None:
    define(at_monday.alice)
    assert [taken(at_monday) for _ in range(3)] == [MONDAY, NEXT_MONDAY, NEXT_SUNDAY]
    assert {post["scheduledAt"] for post in at_monday.alice.api.get("/v1/posts").json()["data"]} == {
        MONDAY,
        NEXT_MONDAY,
        NEXT_SUNDAY,
    }


@pytest.mark.slow
def test_all_targets_of_a_batch_share_its_slot_and_are_published_then(world: RequestCast) -> None:
    soon = datetime.fromtimestamp(world.server.clock.now_ms() / 1000, UTC) + timedelta(hours=2)
    define(world.alice, {"zone": "UTC", "weekly": [{"day": DAYS[soon.weekday()], "time": f"{soon:%H:%M}"}]})
    answer = take(world, targets=[world.target(), world.target(text="another")])
    posts = [result["postId"] for result in answer.json()["results"]]
    times = {post["scheduledAt"] for post in world.alice.api.get("/v1/posts").json()["data"]}
    assert times == {answer.json()["scheduledAt"]} == {f"{soon:%Y-%m-%dT%H:%M}:00.000Z"}
    world.server.skip(7200)
    for post in posts:
        world.server.wait(post, "published")


def test_a_slot_is_a_minute_ahead_or_more(at_monday: RequestCast) -> None:
    define(at_monday.alice)
    at_monday.server.clock.skip(29 * 60)
    assert define(at_monday.alice)["next"] == MONDAY
    at_monday.server.clock.skip(1)
    assert define(at_monday.alice)["next"] == NEXT_MONDAY


def test_a_canceled_or_moved_batch_frees_its_slot(at_monday: RequestCast) -> None:
    define(at_monday.alice)
    first, second = (take(at_monday).json()["results"][0]["postId"] for _ in range(2))
    assert at_monday.alice.api.delete(f"/v1/posts/{first}").status_code == 200
    assert taken(at_monday) == MONDAY
    move = {"scheduledAt": "2027-05-05T05:05:05Z"}
    assert at_monday.alice.api.patch(f"/v1/posts/{second}", json=move).status_code == 200
    assert at_monday.post(scheduledAt=NEXT_MONDAY).status_code == 202
    assert taken(at_monday) == NEXT_SUNDAY


def test_slots_are_of_one_profile(at_monday: RequestCast) -> None:
    for person in (at_monday.alice, at_monday.bob):
        define(person)
    assert taken(at_monday) == MONDAY
    answer = at_monday.bob.api.publish({"targets": [{"platform": "bluesky"}], "text": "hello", "slot": "next"})
    assert answer.json()["scheduledAt"] == MONDAY


def test_new_slots_move_no_post(at_monday: RequestCast) -> None:
    define(at_monday.alice)
    assert taken(at_monday) == MONDAY
    define(at_monday.alice, {"zone": "UTC", "weekly": [{"day": "tue", "time": "10:00"}]})
    assert [post["scheduledAt"] for post in at_monday.alice.api.get("/v1/posts").json()["data"]] == [MONDAY]
    assert taken(at_monday) == "2027-03-23T10:00:00.000Z"


def test_a_repeated_request_takes_one_slot(at_monday: RequestCast) -> None:
    define(at_monday.alice)
    body = at_monday.body(slot="next", profileId=at_monday.alice.profile)
    answers = [at_monday.alice.api.publish(body, "one-key") for _ in range(2)]
    assert answers[0].content == answers[1].content
    assert taken(at_monday) == NEXT_MONDAY


def test_validation_names_no_slot_where_there_is_none_and_takes_none(at_monday: RequestCast) -> None:
    body = at_monday.body(slot="next", profileId=at_monday.alice.profile)
    answer = at_monday.alice.api.post("/v1/posts/validate", json=body)
    assert (answer.status_code, error_of(answer)["rule"]) == (400, "slots.none")
    define(at_monday.alice)
    with unchanged(at_monday.server):
        assert at_monday.alice.api.post("/v1/posts/validate", json=body).json()["valid"] is True


@pytest.mark.parametrize("fields", [{"scheduledAt": "2027-05-05T05:05:05Z"}, {"publishNow": True}])
def test_a_slot_excludes_another_time(fields: dict[str, Any], at_monday: RequestCast) -> None:
    define(at_monday.alice)
    with unchanged(at_monday.server):
        answer = take(at_monday, **fields)
    assert (answer.status_code, error_of(answer)["rule"]) == (400, "mode_conflict")
    assert taken(at_monday, publishNow=False) == MONDAY


def test_what_a_scheduled_post_cannot_have_a_slot_cannot_either(at_monday: RequestCast) -> None:
    define(at_monday.alice)
    answer = take(at_monday, firstComment={"text": "1"})
    assert error_of(answer)["rule"] == "scheduledAt.no_first_comment"
    answer = at_monday.post(slot="last")
    assert error_of(answer)["rule"] == "slot"


def test_a_deleted_profile_has_no_slots(world: RequestCast) -> None:
    define(world.charlie)
    change = Profile.update(deleted_at=1).where(Profile.id == world.charlie.profile)
    world.server.service.write(lambda tx: change.execute()).result()
    assert world.charlie.api.get("/v1/slots", params={"profileId": world.charlie.profile}).status_code == 404


# --- At once ---


def race(world: RequestCast, requests: int) -> list[httpx.Response]:
    with ThreadPoolExecutor(requests) as threads:
        return list(threads.map(lambda number: take(world, text=f"text {number}"), range(requests)))


def test_16_requests_at_once_take_16_slots(at_monday: RequestCast) -> None:
    hours = [{"day": "tue", "time": f"{hour:02}:00"} for hour in range(8, 24)]
    define(at_monday.alice, {"zone": "UTC", "weekly": hours})
    answers = race(at_monday, 16)
    assert Counter(answer.status_code for answer in answers) == {202: 16}
    times = sorted(answer.json()["scheduledAt"] for answer in answers)
    assert times == [f"2027-03-23T{hour:02}:00:00.000Z" for hour in range(8, 24)]


def test_a_draft_whose_slot_another_batch_takes_is_published_once(at_monday: RequestCast) -> None:
    alice, server = at_monday.alice, at_monday.server
    define(alice)
    content = {"targets": [at_monday.target()], "text": "draft", "slot": "next", "profileId": alice.profile}
    draft = new_draft(alice.api, **content)["id"]
    with ThreadPoolExecutor(2) as threads, blocked_writer(server.service.db):
        first = threads.submit(taken, at_monday)
        wait_until(lambda: count_checked(server, alice.organization) == 1)  # both are checked before either is written
        second = threads.submit(alice.api.post, f"/v1/drafts/{draft}/publish")
        wait_until(lambda: count_checked(server, alice.organization) == 2)
    assert (first.result(), second.result().json()["scheduledAt"]) == (MONDAY, NEXT_MONDAY)
    assert read_draft(alice.api, draft)["status"] == "published"
    with unchanged(server):
        again = error_of(alice.api.post(f"/v1/drafts/{draft}/publish"))
    assert again["rule"] == "draft.status"


def test_a_repeat_that_finds_no_slots_is_the_batch_that_took_one(
    at_monday: RequestCast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first request is accepted, and the slots end, after the repeat has found its external id unused."""
    schedule, first = slots.schedule, list[httpx.Response]()

    def schedule_second(*given: Any) -> BatchRequest:
        monkeypatch.setattr(slots, "schedule", schedule)
        first.append(take(at_monday, externalId="one"))
        define(at_monday.alice, {"zone": "UTC", "weekly": []})
        return schedule(*given)

    define(at_monday.alice)
    monkeypatch.setattr(slots, "schedule", schedule_second)
    repeat = take(at_monday, externalId="one")
    assert (repeat.is_success, repeat.json()["id"]) == (True, first[0].json()["id"])
    none = error_of(take(at_monday, externalId="another"))
    assert (none["rule"], none["message"]) == ("slots.none", "The profile has no slots.")


@pytest.mark.slow
def test_the_last_slot_is_taken_by_one_of_16_requests(at_monday: RequestCast) -> None:
    define(at_monday.alice, {"zone": "UTC", "weekly": [{"day": "tue", "time": "10:00"}]})
    for _ in range(HORIZON_WEEKS - 1):
        taken(at_monday)
    answers = race(at_monday, 16)
    refused = [error_of(answer)["rule"] for answer in answers if answer.status_code == 400]
    assert Counter(answer.status_code for answer in answers) == {202: 1, 400: 15}
    assert refused == ["slots.none"] * 15
    posts = at_monday.alice.api.get("/v1/posts?limit=200").json()["data"]
    assert len({post["scheduledAt"] for post in posts}) == len(posts) == HORIZON_WEEKS


@pytest.mark.slow
def test_a_repeat_of_the_request_that_took_the_last_slot_takes_none(at_monday: RequestCast) -> None:
    alice, server = at_monday.alice, at_monday.server
    define(alice, {"zone": "UTC", "weekly": [{"day": "tue", "time": "10:00"}]})
    for _ in range(HORIZON_WEEKS - 1):
        taken(at_monday)
    with ThreadPoolExecutor(2) as threads, blocked_writer(server.service.db):
        sent = [threads.submit(take, at_monday, externalId="one") for _ in range(2)]
        wait_until(lambda: count_checked(server, alice.organization) == 2)
    first, second = (answer.result() for answer in sent)
    assert (first.is_success, first.json()["id"]) == (second.is_success, second.json()["id"])
