"""Plan tokens: what was checked is what is published, once, or it is refused."""

from __future__ import annotations

import concurrent.futures
import itertools
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from socialpub.domain.accounts import accounts
from socialpub.domain.posts import plan_tokens
from socialpub.platforms.contract import AccountIdentity, Tokens
from socialpub.simulator.server import SimulatorThread
from socialpub.store.schema.models import Media, PlanToken, Post
from tests.support.app_server import UNLIMITED, error_of, running_server, unchanged
from tests.support.connect_flow import sign_in
from tests.support.media_uploads import JPEG, stored_media
from tests.support.request_cast import RequestCast, inline_item

TEXTS = (f"plan {number}" for number in itertools.count())
UNKNOWN = "plan_" + "0" * 43
ADDRESS = {"kind": "image", "url": "https://example.org/a.png"}


@pytest.fixture(scope="module")
def cast(tmp_path_factory: pytest.TempPathFactory, lab_thread: SimulatorThread) -> Iterator[RequestCast]:
    """One server for the module: each test has texts of its own."""
    with running_server(tmp_path_factory.mktemp("plans"), lab_thread, limits=UNLIMITED) as server:
        alice = server.connected_person("Alice")
        server.connect(alice, "pinterest", defaultBoardId="1", defaultBoardName="One")
        yield RequestCast(server, alice)


@pytest.fixture
def text() -> str:
    return next(TEXTS)


def check(cast: RequestCast, key: str | None = None, **fields: Any) -> httpx.Response:
    headers = {"Idempotency-Key": key} if key else {}
    return cast.alice.api.post("/v1/posts/validate", json=cast.body(**{"plan": True} | fields), headers=headers)


def planned(cast: RequestCast, **fields: Any) -> str:
    answer = check(cast, **fields)
    assert answer.status_code == 200, answer.text
    assert answer.json()["valid"], answer.text
    return str(answer.json()["plan"]["token"])


def use(cast: RequestCast, token: str) -> httpx.Response:
    return cast.alice.api.publish({"plan": token})


def refused(answer: httpx.Response, rule: str, status: int = 400) -> None:
    assert (answer.status_code, error_of(answer)["rule"]) == (status, rule), answer.text


# --- Make and use --------------------------------------------------------------------------------------------------


def test_a_plan_publishes_what_was_checked_once(cast: RequestCast, text: str) -> None:
    media = stored_media(cast.alice.api, altText="A door")["id"]
    target = cast.target(options={"platform": "bluesky", "langs": ["de"]})
    token = planned(cast, text=text, targets=[target], media=[media])
    assert cast.server.rows(Post, text=text) == []
    first = use(cast, token)
    assert (first.status_code, first.json()["status"]) == (200, "published")
    assert "Idempotency-Replayed" not in first.headers
    (post,) = cast.server.rows(Post, text=text)
    assert (post["options"], media in post["media"]) == ('{"langs": ["de"]}', True)
    with unchanged(cast.server):
        again = use(cast, token)
    assert again.headers["Idempotency-Replayed"] == "true"
    assert (again.status_code, again.json()) == (first.status_code, first.json())


def test_a_thread_is_planned_whole(cast: RequestCast, text: str) -> None:
    media = stored_media(cast.alice.api)["id"]
    thread = [{"text": f"{text} two"}, {"text": f"{text} three", "media": [media]}]
    used = use(cast, planned(cast, text=text, thread=thread, scheduledAt=cast.soon(70 * 24 * 3600)))
    assert used.status_code == 202, used.text
    assert [row["text"] for row in cast.server.rows(Post, batch=used.json()["id"])] == [
        text,
        f"{text} two",
        f"{text} three",
    ]
    answer = check(cast, text=text, thread=[{"text": "a", "media": [ADDRESS]}])
    refused(answer, "thread.0.media.0")


def test_a_scheduled_plan_lives_until_a_minute_before(cast: RequestCast, text: str) -> None:
    at = cast.soon(30 * 24 * 3600)
    answer = check(cast, text=text, scheduledAt=at, externalId=text.replace(" ", "-")).json()
    assert answer["plan"]["expiresAt"] < at
    used = use(cast, answer["plan"]["token"])
    assert (used.status_code, used.json()["scheduledAt"]) == (202, at)
    assert used.json()["externalId"] == text.replace(" ", "-")


def test_a_check_without_plan_or_with_failures_stores_none(cast: RequestCast, text: str) -> None:
    with unchanged(cast.server):
        for fields in ({"plan": False}, {"text": "x" * 301}):
            assert "plan" not in check(cast, **{"text": text} | fields).json()


def test_only_its_hash_is_stored(cast: RequestCast, text: str) -> None:
    token = planned(cast, text=text)
    assert len(token) == len("plan_") + 43
    assert all(token not in str(row) for row in cast.server.rows(PlanToken))


def test_an_idempotency_key_makes_one_plan(cast: RequestCast, text: str) -> None:
    first, again = (check(cast, f"key {text}", text=text) for _ in range(2))
    assert again.headers["Idempotency-Replayed"] == "true"
    assert again.json() == first.json()
    refused(check(cast, f"key {text}", text="other"), "idempotency_key.body_mismatch", 409)


def test_sixteen_clients_at_once_publish_one_batch(cast: RequestCast, text: str) -> None:
    for number, fields in enumerate(({}, {"onDuplicate": "refuse"}, {"scheduledAt": cast.soon(40 * 24 * 3600)})):
        each = f"{text} {number}"
        token = planned(cast, text=each, **fields)
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(lambda _, token=token: use(cast, token), range(16)))
        assert {answer.status_code for answer in answers} <= {200, 202}, [answer.text for answer in answers]
        assert len({answer.json()["id"] for answer in answers}) == 1
        assert sum("Idempotency-Replayed" not in answer.headers for answer in answers) == 1
        assert len(cast.server.rows(Post, text=each)) == 1


# --- What changes in between ---------------------------------------------------------------------------------------


def test_a_deleted_file_is_refused_and_the_plan_stays(cast: RequestCast, text: str) -> None:
    media = stored_media(cast.alice.api)["id"]
    token = planned(cast, text=text, media=[media])
    assert cast.alice.api.delete(f"/v1/media/{media}").status_code == 200
    stored_media(cast.alice.api)  # the same bytes again are another file
    with unchanged(cast.server):
        refused(use(cast, token), "media.unknown", 404)
    cast.server.service.write(lambda tx: Media.update(deleted_at=None).where(Media.id == media).execute()).result()
    assert use(cast, token).status_code == 200


def test_replaced_bytes_are_refused(cast: RequestCast, text: str) -> None:
    media = stored_media(cast.alice.api)["id"]
    token = planned(cast, text=text, media=[media])
    change = Media.update(sha256="0" * 64).where(Media.id == media)
    cast.server.service.write(lambda tx: change.execute()).result()
    with unchanged(cast.server):
        refused(use(cast, token), "plan.changed", 409)


def test_an_account_that_is_gone_is_refused_until_it_is_back(cast: RequestCast, text: str) -> None:
    server = cast.server
    made = server.connect(cast.alice, "twitter", f"x {text}")
    token = planned(cast, text=text, targets=[{"platform": "twitter"}], scheduledAt=cast.soon(50 * 24 * 3600))
    browser = sign_in(server, cast.alice.organization)
    assert browser.delete(f"/v1/accounts/{made['id']}").status_code == 200
    other = server.connect(cast.alice, "twitter", f"y {text}")  # the platform's only account now
    with unchanged(server):
        answer = use(cast, token)
    assert (answer.status_code, error_of(answer)["code"]) == (404, "not_found")
    identity = AccountIdentity(made["platformAccountId"], "back", {})
    again = server.service.write(
        lambda tx: accounts.connect(
            server.service, tx, cast.alice.organization, cast.alice.profile, "twitter", identity, Tokens("a", "b")
        )
    ).result()[0]
    assert again["id"] == made["id"] != other["id"]
    assert use(cast, token).json()["results"][0]["accountId"] == made["id"]


def test_a_default_that_changes_changes_no_plan(cast: RequestCast, text: str) -> None:
    media = stored_media(cast.alice.api)["id"]
    at = cast.soon(60 * 24 * 3600)
    token = planned(cast, text=text, targets=[{"platform": "pinterest"}], media=[media], scheduledAt=at, deep=True)
    pinterest = cast.alice.accounts["pinterest"]["id"]
    change = accounts.Account.update(extra='{"defaultBoardId": "2", "defaultBoardName": "Two"}')
    cast.server.service.write(lambda tx: change.where(accounts.Account.id == pinterest).execute()).result()
    assert use(cast, token).status_code == 202
    (post,) = cast.server.rows(Post, text=text)
    assert '"boardId": "1"' in post["options"]


def test_a_profile_that_changes_changes_no_plan(cast: RequestCast, text: str) -> None:
    server = cast.server
    dora = server.connected_person("Dora", organization=cast.alice.organization, bound=True)
    fields = {"targets": [{"platform": "bluesky"}], "profileId": dora.profile}
    first, second = (planned(cast, text=f"{text} {number}", **fields) for number in range(2))
    browser = sign_in(server, dora.organization, name="dora")
    assert browser.patch(f"/v1/profiles/{dora.profile}", json={"name": f"renamed {text}"}).status_code == 200
    server.connect_bluesky(dora, "another")  # the platform names two accounts now
    (result,) = use(cast, first).json()["results"]
    assert (result["status"], result["accountId"]) == ("published", dora.bluesky)
    for account in dora.accounts.values():
        assert browser.delete(f"/v1/accounts/{account['id']}").status_code == 200
    assert browser.delete(f"/v1/profiles/{dora.profile}").status_code == 200
    with unchanged(server):
        answer = use(cast, second)
    assert (answer.status_code, error_of(answer)["code"]) == (404, "not_found")


def test_what_would_be_refused_now_is_refused_and_the_plan_stays(cast: RequestCast, text: str) -> None:
    token = planned(cast, text=text, onDuplicate="refuse")
    (post,) = cast.alice.api.publish(cast.body(text=text)).json()["results"]
    refused(use(cast, token), "post.duplicate", 409)
    update = Post.update(status="canceled").where(Post.id == post["postId"])
    cast.server.service.write(lambda tx: update.execute()).result()
    assert use(cast, token).status_code == 200


# --- What a plan cannot be -----------------------------------------------------------------------------------------


def test_everything_that_a_plan_cannot_hold_is_told_at_once(cast: RequestCast) -> None:
    targets = [cast.target(media=[inline_item(JPEG)]), cast.target()]
    with unchanged(cast.server):
        answer = check(cast, targets=targets, media=[ADDRESS, ADDRESS], deep=False, slot="next")
    paths = {".".join(map(str, issue["path"])) for issue in error_of(answer)["platformResponse"]}
    assert paths == {"targets.0.media.0", "media.0", "media.1", "deep", "slot"}


NO_TOKENS = ["", "plan_", UNKNOWN[:-1], UNKNOWN + "0", UNKNOWN[:-1] + "-", UNKNOWN.upper(), 7, True, None, [UNKNOWN]]


@pytest.mark.parametrize("token", NO_TOKENS)
def test_a_token_of_a_wrong_form_is_a_schema_failure(cast: RequestCast, token: Any) -> None:
    with unchanged(cast.server):
        refused(cast.alice.api.publish({"plan": token}), "plan")


def test_nothing_stands_beside_a_token(cast: RequestCast, text: str) -> None:
    token = planned(cast, text=text)
    with unchanged(cast.server):
        answer = cast.alice.api.publish(cast.body(plan=token, scheduledAt=cast.soon()))
    paths = {issue["path"][0] for issue in error_of(answer)["platformResponse"]}
    assert (answer.status_code, paths) == (400, {"targets", "text", "scheduledAt"})


def test_a_draft_cannot_be_a_plan(cast: RequestCast, text: str) -> None:
    token = planned(cast, text=text)
    with unchanged(cast.server):
        for wrong in (token, True, "x"):
            refused(cast.alice.api.post("/v1/drafts", json={"text": text, "plan": wrong}), "plan")


def test_a_token_is_known_where_it_was_made(cast: RequestCast, text: str) -> None:
    token = planned(cast, text=text)
    limited = cast.server.limited(cast.alice, accounts=[cast.alice.accounts["pinterest"]["id"]])
    for _ in range(2):  # unused, and used
        for person in (cast.bob, cast.charlie, limited):
            refused(person.api.publish({"plan": token}), "plan.unknown")
        assert use(cast, token).status_code == 200
    refused(use(cast, UNKNOWN), "plan.unknown")


def test_a_plan_expires_and_a_used_one_is_remembered_for_a_day(cast: RequestCast, text: str) -> None:
    server = cast.server
    unused, used = planned(cast, text=f"{text} unused"), planned(cast, text=f"{text} used")
    first = use(cast, used).json()
    server.clock.skip(14 * 60)
    assert use(cast, used).json() == first
    server.clock.skip(61)
    refused(use(cast, unused), "plan.unknown")
    assert use(cast, used).json() == first
    server.clock.skip(24 * 3600)
    refused(use(cast, used), "plan.unknown")
    while server.service.write(lambda tx: plan_tokens.purge(server.service, tx)).result():
        """Until none is left."""
    now = server.service.now_ms
    assert all(row["ends_at"] > now for row in server.rows(PlanToken))


def test_unused_plans_have_a_bound(cast: RequestCast, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    now = cast.server.service.now_ms
    unused = [row for row in cast.server.rows(PlanToken, batch=None) if row["ends_at"] > now]
    monkeypatch.setattr(plan_tokens, "UNUSED_MAX", len(unused) + 1)
    token = planned(cast, text=text)
    refused(check(cast, text=text), "plan.max", 409)
    assert use(cast, token).status_code == 200
    planned(cast, text=text)
