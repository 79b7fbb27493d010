"""External ids: one batch for each in its organization, replayed for ever."""

from __future__ import annotations

import concurrent.futures
import hashlib
import itertools
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from socialpub.domain.background.post_retention import PostRetention
from socialpub.domain.posts import content_hash
from socialpub.domain.schemas.posts import BatchRequest, Target
from socialpub.simulator.server import SimulatorThread
from socialpub.store.engine import sql
from socialpub.store.schema.models import Batch, Job, Media, Post
from tests.support.app_server import UNLIMITED, Person, error_of, running_server, unchanged
from tests.support.media_uploads import JPEG, stored_media
from tests.support.post_drafts import PATH as DRAFTS
from tests.support.post_drafts import new_draft, read_draft
from tests.support.request_cast import RequestCast, inline_item

NAMES = (f"case-{number}" for number in itertools.count())
URL = {"kind": "image", "url": "https://example.org/a.png"}
MONTH_SECONDS = 30 * 24 * 3600  # nothing is due while the clock moves
YEAR_SECONDS = 365 * 24 * 3600


@pytest.fixture(scope="module")
def cast(tmp_path_factory: pytest.TempPathFactory, lab_thread: SimulatorThread) -> Iterator[RequestCast]:
    """One server for the module: each test has ids of its own."""
    with running_server(tmp_path_factory.mktemp("ids"), lab_thread, limits=UNLIMITED) as server:
        alice = server.connected_person("Alice")
        server.connect(alice, "instagram")
        yield RequestCast(server, alice)


@pytest.fixture
def name() -> str:
    return next(NAMES)


def body(cast: RequestCast, name: str, **fields: Any) -> dict[str, Any]:
    return cast.body(**{"externalId": name, "text": f"about {name}", "scheduledAt": cast.soon(MONTH_SECONDS)} | fields)


def created(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code in (200, 202), answer.text
    assert "Idempotency-Replayed" not in answer.headers
    return dict(answer.json())


def replayed(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code in (200, 202), answer.text
    assert answer.headers["Idempotency-Replayed"] == "true"
    assert answer.headers["Location"] == f"/v1/batches/{answer.json()['id']}"
    return dict(answer.json())


def refused(answer: httpx.Response) -> Any:
    error = error_of(answer)
    assert (answer.status_code, error["code"], error["rule"]) == (409, "idempotency_conflict", "external_id.taken")
    return error.get("platformResponse")


# --- The same content, and other content ---------------------------------------------------------------------------


def test_the_same_content_again_is_the_same_batch_and_writes_nothing(cast: RequestCast, name: str) -> None:
    sent = body(cast, name)
    first = created(cast.alice.api.publish(sent))
    assert first["externalId"] == name
    with unchanged(cast.server):
        for key in (None, f"key of {name}", f"key of {name}"):
            assert replayed(cast.alice.api.publish(sent, key)) == first


def test_it_is_the_batch_as_it_is_now_even_after_its_time(cast: RequestCast, name: str) -> None:
    sent = body(cast, name, scheduledAt=cast.soon())
    (result,) = created(cast.alice.api.publish(sent))["results"]
    update = {"status": "published", "platform_uri": "at://x/y/z"}
    cast.server.service.write(lambda tx: Post.update(**update).where(Post.id == result["postId"]).execute()).result()
    cast.server.service.write(lambda tx: Job.delete().where(Job.key == result["postId"]).execute()).result()
    cast.server.clock.skip(7200)
    again = replayed(cast.alice.api.publish(sent))
    assert (again["status"], again["results"][0]["uri"]) == ("published", "at://x/y/z")
    other = refused(cast.alice.api.publish(sent | {"text": "corrected"}))  # before `scheduledAt.future`
    assert other == {"batchId": again["id"], "postIds": [result["postId"]]}


def test_an_immediate_batch_is_replayed_too(cast: RequestCast, name: str) -> None:
    sent = cast.body(externalId=name, text=f"now {name}")
    first = created(cast.alice.api.publish(sent))
    assert first["status"] == "published"
    assert replayed(cast.alice.api.publish(sent)) == first
    assert replayed(cast.alice.api.publish(sent | {"publishNow": True, "onDuplicate": "refuse"})) == first


def test_an_idempotency_key_comes_first(cast: RequestCast, name: str) -> None:
    key, sent = f"key {name}", body(cast, name)
    first = created(cast.alice.api.publish(sent, key))
    assert replayed(cast.alice.api.publish(sent, key)) == first
    answer = cast.alice.api.publish(sent | {"text": "other"}, key)
    assert error_of(answer)["rule"] == "idempotency_key.body_mismatch"


OTHER_CONTENT: dict[str, Any] = {
    "text": {"text": "other"},
    "unicode form": {"text": "cafe\u0301"},
    "time": {"scheduledAt": "2030-01-01T00:00:00Z"},
    "now": {"scheduledAt": None},
    "media": {"media": [URL]},
    "address": {"media": [URL | {"url": "https://example.org/b.png"}]},
    "alt text": {"media": [URL | {"altText": "A door"}]},
    "kind": {"media": [URL | {"kind": "video"}]},
    "bytes": {"media": [inline_item(JPEG)]},
    "two": {"media": [URL, URL]},
}


def test_each_kind_of_change_is_other_content(cast: RequestCast, name: str) -> None:
    sent = body(cast, name, text="caf\u00e9")
    first = created(cast.alice.api.publish(sent))
    taken = {"batchId": first["id"], "postIds": [first["results"][0]["postId"]]}
    own: dict[str, Any] = {
        "target": {"targets": [{"accountId": cast.alice.accounts["instagram"]["id"]}]},
        "one more": {"targets": [cast.target(), cast.target(text="b")]},
        "options": {"targets": [cast.target(options={"platform": "bluesky", "langs": ["de"]})]},
        "own text": {"targets": [cast.target(text="own")]},
    }
    with unchanged(cast.server):
        for what, fields in (OTHER_CONTENT | own).items():
            changed = {field: value for field, value in (sent | fields).items() if value is not None}
            assert refused(cast.alice.api.publish(changed)) == taken, what
            assert refused(cast.alice.api.post("/v1/posts/validate", json=changed | {"deep": False})) == taken, what
        assert cast.alice.api.post("/v1/posts/validate", json=sent).json()["valid"]


def test_the_form_of_a_request_is_no_content(cast: RequestCast, name: str) -> None:
    asset = stored_media(cast.alice.api, altText="A door")
    at = cast.soon(MONTH_SECONDS)
    sent = body(cast, name, scheduledAt=at, media=[asset["id"]])
    first = created(cast.alice.api.publish(sent))
    twin = stored_media(cast.alice.api)["id"]
    forms: list[dict[str, Any]] = [
        {"targets": [{"accountId": cast.alice.bluesky, "platform": "bluesky"}]},
        {"targets": [cast.target(text=sent["text"])], "text": "replaced"},
        {"targets": [cast.target(options={"platform": "bluesky"})]},
        {"media": [{"kind": "image", "mediaId": asset["id"]}]},
        {"media": [{"kind": "image", "mediaId": twin, "altText": "A door"}]},
        {"media": [inline_item(JPEG, altText="A door")]},
        {"targets": [cast.target(media=[asset["id"]])], "media": []},
        {"profileId": cast.alice.profile},
        {"scheduledAt": at.replace("Z", "+00:00")},
        {"onDuplicate": "warn"},
    ]
    for fields in forms:
        assert replayed(cast.alice.api.publish(sent | fields)) == first, fields


def test_no_description_is_an_empty_one(cast: RequestCast, name: str) -> None:
    sent = body(cast, name, media=[stored_media(cast.alice.api)["id"], URL])
    first = created(cast.alice.api.publish(sent))
    empty = [{"kind": "image", "mediaId": sent["media"][0], "altText": ""}, URL | {"altText": ""}]
    assert replayed(cast.alice.api.publish(sent | {"media": empty})) == first


def test_a_deleted_file_and_another_account_change_nothing(cast: RequestCast, name: str) -> None:
    """A target that names its platform still means the account that it meant."""
    asset = stored_media(cast.alice.api)["id"]
    sent = body(cast, name, media=[asset], targets=[{"platform": "bluesky"}], profileId=cast.alice.profile)
    first = created(cast.alice.api.publish(sent))
    gone = cast.server.service.now_ms
    cast.server.service.write(lambda tx: Media.update(deleted_at=gone).where(Media.id == asset).execute()).result()
    cast.server.connect(cast.alice, "bluesky", "another")
    assert replayed(cast.alice.api.publish(sent)) == first
    named = sent | {"targets": [{"accountId": cast.alice.bluesky}]}
    assert replayed(cast.alice.api.publish(named)) == first


def test_every_field_of_a_request_is_content_or_known_not_to_be() -> None:
    """A new field is content until it is named; this test asks for the decision."""
    shared = {str(field.alias) for field in BatchRequest.model_fields.values()}
    own = {str(field.alias) for field in Target.model_fields.values()}
    assert shared - content_hash.NO_CONTENT <= own
    assert shared >= content_hash.NO_CONTENT


# --- Until every post is canceled ----------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [{}, {"deep": False}, {"plan": False}, {"plan": True}], ids=str)
def test_a_check_of_the_same_content_is_valid_however_it_is_asked(
    cast: RequestCast, name: str, how: dict[str, bool]
) -> None:
    sent = body(cast, name)
    first = created(cast.alice.api.publish(sent))
    answer = cast.alice.api.post("/v1/posts/validate", json=sent | how)
    assert (answer.status_code, answer.json()["valid"]) == (200, True)
    if how.get("plan"):
        assert replayed(cast.alice.api.publish({"plan": answer.json()["plan"]["token"]})) == first


@pytest.mark.parametrize("key", [None, "publish the draft"])
def test_a_draft_of_the_same_content_becomes_its_batch(cast: RequestCast, name: str, key: str | None) -> None:
    api, sent = cast.alice.api, body(cast, name)
    first = created(api.publish(sent))
    draft = new_draft(api, **sent)
    assert draft["problems"] == []
    headers = {} if key is None else {"Idempotency-Key": key}
    path = f"{DRAFTS}/{draft['id']}/publish"
    assert replayed(api.post(path, headers=headers)) == first
    now = read_draft(api, draft["id"])
    assert (now["status"], now["batchId"]) == ("published", first["id"])
    with unchanged(cast.server):
        again = api.post(path, headers=headers)
    if key:
        assert replayed(again) == first
    else:
        assert error_of(again)["rule"] == "draft.status"


def test_sixteen_publications_of_a_draft_with_an_id_are_one(cast: RequestCast, name: str) -> None:
    draft = new_draft(cast.alice.api, **body(cast, name))["id"]
    path = f"{DRAFTS}/{draft}/publish"
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: cast.alice.api.post(path), range(16)))
    assert sorted(answer.status_code for answer in answers) == [202] + [409] * 15
    assert {error_of(answer)["rule"] for answer in answers if answer.status_code == 409} == {"draft.status"}


def test_an_id_is_free_once_every_post_is_canceled(cast: RequestCast, name: str) -> None:
    sent = body(cast, name, targets=[cast.target(), cast.target(text=f"second {name}")])
    first = created(cast.alice.api.publish(sent))
    one, two = [result["postId"] for result in first["results"]]
    assert cast.alice.api.delete(f"/v1/posts/{one}").status_code == 200
    assert [result["status"] for result in replayed(cast.alice.api.publish(sent))["results"]] == ["canceled", "queued"]
    assert cast.alice.api.delete(f"/v1/posts/{two}").status_code == 200
    second = created(cast.alice.api.publish(sent | {"text": "other"}))
    assert second["id"] != first["id"]
    assert refused(cast.alice.api.publish(sent))["batchId"] == second["id"]
    listed = cast.alice.api.get(f"/v1/posts?externalId={name}").json()["data"]
    assert [post["batchId"] for post in listed] == [second["id"]] * 2 + [first["id"]] * 2


@pytest.mark.parametrize("status", ["published", "failed", "rejected", "canceled"])
def test_retention_frees_the_ids_of_canceled_batches_only(cast: RequestCast, name: str, status: str) -> None:
    sent = body(cast, name)
    first = created(cast.alice.api.publish(sent))
    service = cast.server.service
    service.write(lambda tx: Post.update(status=status).where(Post.batch == first["id"]).execute()).result()
    created(cast.alice.api.publish(body(cast, f"{name}-later")))  # retention keeps the newest post
    service.write(lambda tx: delete_events()).result()
    PostRetention(service).run(service.now_ms + YEAR_SECONDS * 1000, 100)
    assert cast.server.rows(Batch, id=first["id"]) == []
    answer = cast.alice.api.publish(sent)
    if status == "canceled":
        assert created(answer)["id"] != first["id"]
    else:
        assert refused(answer) == {"batchId": first["id"], "postIds": []}


def delete_events() -> None:
    """Delete the events, which keep their posts from retention."""
    for table in ("webhook_delivery", "notification", "event"):
        sql.execute(f"DELETE FROM {table}")


# --- Whose it is ---------------------------------------------------------------------------------------------------


def test_an_id_belongs_to_its_organization(cast: RequestCast, name: str) -> None:
    created(cast.alice.api.publish(body(cast, name)))
    foreign = {"targets": [{"accountId": cast.charlie.bluesky}], "externalId": name, "text": "hello"}
    created(cast.charlie.api.publish(foreign))
    assert len(cast.charlie.api.get(f"/v1/posts?externalId={name}").json()["data"]) == 1


def test_a_key_of_another_profile_learns_nothing_but_that_it_is_taken(cast: RequestCast, name: str) -> None:
    sent = body(cast, name)
    created(cast.alice.api.publish(sent))
    for fields in ({}, {"targets": [{"accountId": cast.bob.bluesky}]}):
        answer = cast.bob.api.publish(sent | fields)
        assert refused(answer) is None
        assert cast.alice.bluesky not in answer.text
    assert cast.bob.api.get(f"/v1/posts?externalId={name}").json()["data"] == []


def test_of_a_batch_over_two_profiles_a_bound_key_sees_its_own_posts(cast: RequestCast, name: str) -> None:
    sent = body(cast, name, targets=[cast.target(), {"accountId": cast.bob.bluesky}])
    first = created(cast.alice.api.publish(sent))
    taken = {"batchId": first["id"], "postIds": [first["results"][1]["postId"]]}
    assert refused(cast.bob.api.publish(sent)) == taken


def test_a_key_with_other_accounts_learns_nothing_either(cast: RequestCast, name: str) -> None:
    sent = body(cast, name)
    created(cast.alice.api.publish(sent))
    limited = cast.server.limited(cast.alice, accounts=[cast.alice.accounts["instagram"]["id"]])
    assert refused(limited.api.publish(sent)) is None
    assert limited.api.get(f"/v1/posts?externalId={name}").json()["data"] == []


# --- The id itself -------------------------------------------------------------------------------------------------

GOOD = ["a", "0", ".", "_", ":", "/", "@", "-", "cms/2026:post@9._-", "A" * 128]
BAD = ["", "A" * 129, "a b", "a\n", " a", "ä", "a\u0301", "а", "a,b", "a%", "a\\", "a*", "a?", "a#", "🦋", "a\0"]  # noqa: RUF001


@pytest.mark.parametrize("good", GOOD)
def test_these_are_ids(cast: RequestCast, good: str) -> None:
    sent = body(cast, good)
    assert created(cast.alice.api.publish(sent))["externalId"] == good
    listed = cast.alice.api.get("/v1/posts", params={"externalId": good}).json()["data"]
    assert [post["externalId"] for post in listed] == [good]
    assert cast.alice.api.get(f"/v1/posts/{listed[0]['id']}").json()["externalId"] == good


@pytest.mark.parametrize("bad", [*BAD, 7, None, ["a"], {"a": 1}])
def test_these_are_none_and_every_failure_is_told_at_once(cast: RequestCast, bad: Any) -> None:
    with unchanged(cast.server):
        for path in ("/v1/posts", "/v1/posts/validate"):
            answer = cast.alice.api.post(path, json={"targets": [{}], "externalId": bad})
            assert answer.status_code == 400, answer.text
            paths = [".".join(map(str, issue["path"])) for issue in error_of(answer)["platformResponse"]]
            assert set(paths) == {"externalId", "targets.0.accountId", "text"}


@pytest.mark.parametrize("field", ["externalId", "externalIdPrefix"])
def test_filters_take_nothing_else(cast: RequestCast, field: str) -> None:
    for bad in ("A" * 129, "ä", "a b", "a%"):
        answer = cast.alice.api.get("/v1/posts", params={field: bad})
        assert (answer.status_code, error_of(answer)["code"]) == (400, "validation_failed")
        assert error_of(answer)["rule"].split(".")[0] == field


def test_upper_and_lower_case_differ(cast: RequestCast, name: str) -> None:
    ids = [name, name.upper(), name.title()]
    batches = {created(cast.alice.api.publish(body(cast, each)))["id"] for each in ids}
    assert len(batches) == 3
    listed = cast.alice.api.get(f"/v1/posts?externalId={name.upper()}").json()["data"]
    assert [post["externalId"] for post in listed] == [name.upper()]


def test_an_id_in_another_words_field_is_hinted_at(cast: RequestCast) -> None:
    for word in ("clientReference", "external_id", "externalRef", "customId"):
        error = error_of(cast.alice.api.publish(cast.body(**{word: "a"})))
        assert "`externalId`" in error["remediation"], word


# --- Filters -------------------------------------------------------------------------------------------------------


def test_posts_are_found_by_ids_and_by_prefix(cast: RequestCast, name: str) -> None:
    ids = [f"{name}/{part}" for part in ("a", "a/1", "a:2", "B", "b", "z")]
    for each in ids:
        created(cast.alice.api.publish(body(cast, each)))
    created(cast.alice.api.publish(body(cast, f"{name}0")))  # "0" follows "/"

    def found(query: str) -> list[str]:
        return [post["externalId"] for post in cast.alice.api.get(f"/v1/posts?{query}").json()["data"]]

    assert found(f"externalId={ids[0]}&externalId={ids[3]}") == [ids[3], ids[0]]
    assert found(f"externalId={ids[0]},{ids[3]},unknown") == [ids[3], ids[0]]
    assert found(f"externalIdPrefix={name}/") == ids[::-1]
    assert found(f"externalIdPrefix={name}/a") == ids[2::-1]
    assert found(f"externalIdPrefix={name}/b") == [ids[4]]
    assert found(f"externalIdPrefix={name}/a&externalId={ids[1]}&externalId={ids[3]}") == [ids[1]]
    assert found(f"externalIdPrefix={name}/&status=published") == []
    assert found(f"externalIdPrefix={name}/&status=queued&platform=bluesky&q=about&limit=2") == ids[:-3:-1]
    assert found(f"externalIdPrefix={name}/&order=scheduledAt") == ids
    assert found(f"externalIdPrefix={name}/&profileId={cast.bob.profile}") == []
    page = cast.alice.api.get(f"/v1/posts?externalIdPrefix={name}/&limit=4").json()
    rest = cast.alice.api.get(f"/v1/posts?externalIdPrefix={name}/&limit=4&cursor={page['nextCursor']}").json()
    assert [post["externalId"] for post in page["data"] + rest["data"]] == ids[::-1]


# --- At once -------------------------------------------------------------------------------------------------------


def test_sixteen_clients_at_once_make_one_batch(cast: RequestCast, name: str) -> None:
    """Scheduled and immediate, with different content from half of them: one is accepted, and the rest are told."""
    for fields in ({"scheduledAt": cast.soon(MONTH_SECONDS)}, {"onDuplicate": "refuse"}):
        each = f"{name}-{len(fields)}-{'scheduledAt' in fields}"
        sent = cast.body(externalId=each, text=f"race {each}", **fields)
        bodies = [sent if number % 2 else sent | {"text": f"other {each}"} for number in range(16)]
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(cast.alice.api.publish, bodies))
        made = {answer.json()["id"] for answer in answers if answer.status_code < 300}
        assert len(made) == 1, [answer.text for answer in answers]
        assert sum(answer.status_code < 300 for answer in answers) == 8
        assert sum("Idempotency-Replayed" in answer.headers for answer in answers) == 7
        taken = [refused(answer) for answer in answers if answer.status_code >= 300]
        assert {one["batchId"] for one in taken} == made
        assert len(cast.server.rows(Post, external_id=each)) == 1


def test_a_batch_in_the_next_slot_is_replayed_and_takes_no_other(cast: RequestCast, name: str) -> None:
    weekly = [{"day": day, "time": "09:30"} for day in ("mon", "thu")]
    made = cast.bob.api.put("/v1/slots", json={"zone": "Europe/Berlin", "weekly": weekly})
    assert made.status_code == 200, made.text
    sent = {"targets": [{"accountId": cast.bob.bluesky}], "text": name, "externalId": name, "slot": "next"}
    first = created(cast.bob.api.publish(sent))
    free = cast.bob.api.get("/v1/slots").json()["next"]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for answer in pool.map(cast.bob.api.publish, [sent] * 8):
            assert replayed(answer) == first
    assert cast.bob.api.get("/v1/slots").json()["next"] == free
    assert refused(cast.bob.api.publish({**sent, "slot": "next", "text": "other"}))["batchId"] == first["id"]


# --- Media by their bytes ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_stored_file_is_found_by_its_hash(cast: RequestCast) -> None:
    data = JPEG + b"\0unlike any other"
    sha256 = hashlib.sha256(data).hexdigest()

    def found(person: Person, **query: Any) -> list[str]:
        return [row["id"] for row in person.api.get("/v1/media", params=query).json()["data"]]

    assert found(cast.alice, sha256=sha256) == []
    mine = [stored_media(cast.alice.api, data)["id"] for _ in range(3)]
    bobs = stored_media(cast.bob.api, data)["id"]
    stored_media(cast.charlie.api, data)
    stored_media(cast.alice.api, data + b"!")
    assert found(cast.alice, sha256=sha256) == [bobs, *mine[::-1]]
    assert found(cast.alice, sha256=sha256.upper(), limit=1) == [bobs]
    assert found(cast.bob, sha256=sha256) == [bobs, *mine[::-1]]
    assert bobs not in found(cast.alice, sha256=sha256, profileId=cast.alice.profile)
    page = cast.alice.api.get("/v1/media", params={"sha256": sha256, "limit": 2}).json()
    assert found(cast.alice, sha256=sha256, limit=2, cursor=page["nextCursor"]) == [mine[1], mine[0]]
    assert cast.alice.api.delete(f"/v1/media/{mine[2]}").status_code == 200
    assert mine[2] not in found(cast.alice, sha256=sha256)


@pytest.mark.parametrize("bad", ["", "0" * 63, "0" * 65, "g" * 64, "0" * 64 + "\n"])
def test_what_is_no_hash_is_refused(cast: RequestCast, bad: str) -> None:
    answer = cast.alice.api.get("/v1/media", params={"sha256": bad})
    assert (answer.status_code, error_of(answer)["rule"]) == (400, "sha256")
