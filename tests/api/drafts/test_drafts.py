"""Drafts: created, read, listed, changed and deleted; their scope, bounds and files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from socialpub.domain import organization_deletion
from socialpub.domain.access.actor import build_operator
from socialpub.domain.media import library
from socialpub.domain.posts import drafts
from socialpub.store.schema.models import Media, PostDraft, PostDraftMedia
from tests.support.app_server import UNKNOWN_ID, AppServer, error_of, unchanged
from tests.support.media_uploads import stored_files, stored_media
from tests.support.post_drafts import PATH, change_draft, new_draft, read_draft, seen, tag_of
from tests.support.request_cast import RequestCast, inline_item, make_picture


def rules(draft: dict[str, Any]) -> list[str]:
    return [problem["rule"] for problem in draft["problems"]]


# --- One draft -----------------------------------------------------------------------------------------------------


def test_a_draft_is_a_request_that_may_lack_anything(world: RequestCast) -> None:
    api = world.alice.api
    draft = new_draft(api)
    assert draft == {
        "id": draft["id"],
        "title": None,
        "content": {},
        "status": "draft",
        "note": None,
        "problems": draft["problems"],
        "createdBy": {"type": "key", "id": world.alice.key_id, "name": "Alice"},
        "updatedBy": {"type": "key", "id": world.alice.key_id, "name": "Alice"},
        "batchId": None,
        "createdAt": draft["createdAt"],
        "updatedAt": draft["createdAt"],
    }
    assert rules(draft) == ["targets"]
    assert read_draft(api, draft["id"]) == draft
    content = world.body(scheduledAt="2999-05-04T17:30:00+02:00", media=[{"kind": "image", "url": "http://x.test/a"}])
    changed = change_draft(api, draft["id"], title="Hours", content=content).json()
    assert changed == draft | {
        "title": "Hours",
        "content": content | {"scheduledAt": "2999-05-04T15:30:00.000Z"},
        "problems": [],
        "updatedAt": changed["updatedAt"],
    }
    assert api.delete(f"{PATH}/{draft['id']}").json() == {"id": draft["id"], "deleted": True}
    assert api.get(f"{PATH}/{draft['id']}").status_code == 404


def test_the_problems_are_those_of_validate_and_of_now(world: RequestCast) -> None:
    api = world.alice.api
    body = world.body(text="x" * 301, scheduledAt=world.soon(60))
    draft = new_draft(api, **body)
    (checked,) = api.post("/v1/posts/validate", json=body | {"deep": False}).json()["results"]
    target = {"targetIndex": 0, "accountId": world.alice.bluesky}
    assert draft["problems"] == [error | target for error in checked["errors"]]
    tag = tag_of(api, draft["id"])
    world.server.skip(120)
    assert rules(read_draft(api, draft["id"])) == ["scheduledAt.future"]
    assert rules(api.get(PATH).json()["data"][0]) == ["scheduledAt.future"]
    assert tag_of(api, draft["id"]) == tag  # nobody has changed the draft


def test_a_stored_file_that_breaks_a_rule_is_a_problem(world: RequestCast) -> None:
    clip = stored_media(world.alice.api, make_picture("GIF"))["id"]
    account = world.server.connect(world.alice, "instagram", username="alice")["id"]
    draft = new_draft(world.alice.api, targets=[{"accountId": account}], text="x", media=[clip])
    assert [(problem["targetIndex"], problem["platform"]) for problem in draft["problems"]] == [(0, "instagram")]


# --- Refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("bob", "charlie")
def test_a_profile_or_an_account_that_is_not_the_callers(world: RequestCast) -> None:
    with unchanged(world.server):
        for account in (world.charlie.bluesky, UNKNOWN_ID):
            assert world.alice.api.post(PATH, json={"targets": [{"accountId": account}]}).status_code == 404
        assert world.bob.api.post(PATH, json={"targets": [{"accountId": world.alice.bluesky}]}).status_code == 404
        assert world.alice.api.post(PATH, json={"profileId": world.charlie.profile}).status_code == 404
        assert world.bob.api.post(PATH, json={"profileId": world.alice.profile}).status_code == 400


def test_a_change_needs_the_tag_of_what_was_seen(world: RequestCast) -> None:
    api = world.alice.api
    draft = new_draft(api, text="first")["id"]
    old = seen(api, draft)
    assert change_draft(api, draft, content={"text": "second"}).status_code == 200
    with unchanged(world.server):
        missing = api.patch(f"{PATH}/{draft}", json={"title": "x"})
        assert (missing.status_code, error_of(missing)["rule"]) == (428, "http.if_match")
        for send in (
            lambda: api.patch(f"{PATH}/{draft}", json={"title": "x"}, headers=old),
            lambda: api.post(f"{PATH}/{draft}/approve", headers=old),
            lambda: api.post(f"{PATH}/{draft}/propose", headers=old),
            lambda: api.post(f"{PATH}/{draft}/return", headers=old),
            lambda: api.post(f"{PATH}/{draft}/publish", headers=old),
            lambda: api.post(f"{PATH}/{draft}/link", headers=old),
            lambda: api.delete(f"{PATH}/{draft}/link", headers=old),
            lambda: api.delete(f"{PATH}/{draft}", headers=old),
        ):
            answer = send()
            assert (answer.status_code, error_of(answer)["rule"]) == (412, "http.if_match")
            assert error_of(answer)["platformResponse"] == read_draft(api, draft)
        anything = api.post(f"{PATH}/{draft}/approve", headers={"If-Match": "*"})
        assert (anything.status_code, error_of(anything)["rule"]) == (428, "http.if_match")


def test_what_was_seen_is_published_once(world: RequestCast) -> None:
    api = world.alice.api
    draft = new_draft(api, **world.body())["id"]
    headers = seen(api, draft) | {"Idempotency-Key": "once"}
    answer = api.post(f"{PATH}/{draft}/publish", headers=headers)
    assert (answer.status_code, answer.json()["status"]) == (200, "published")
    again = api.post(f"{PATH}/{draft}/publish", headers=headers)
    assert (again.content, again.headers["Idempotency-Replayed"]) == (answer.content, "true")


# --- Scope ---------------------------------------------------------------------------------------------------------


def test_a_draft_is_of_its_organization_and_its_profile(world: RequestCast) -> None:
    everywhere = new_draft(world.alice.api, title="everywhere")["id"]
    bobs = new_draft(world.bob.api, title="bob's")
    assert bobs["content"] == {"profileId": world.bob.profile}
    listed = [row["id"] for row in world.alice.api.get(PATH).json()["data"]]
    assert listed == [bobs["id"], everywhere]
    assert [row["id"] for row in world.bob.api.get(PATH).json()["data"]] == [bobs["id"]]
    assert world.charlie.api.get(PATH).json() == {"data": [], "nextCursor": None}
    narrowed = world.alice.api.get(PATH, params={"profileId": world.bob.profile}).json()["data"]
    assert [row["id"] for row in narrowed] == [bobs["id"]]
    ways = (
        ("GET", "", None),
        ("PATCH", "", {"title": "x"}),
        ("DELETE", "", None),
        ("POST", "/propose", None),
        ("POST", "/approve", None),
        ("POST", "/return", {}),
        ("POST", "/publish", None),
        ("POST", "/link", None),
        ("DELETE", "/link", None),
    )
    with unchanged(world.server):
        for who, draft in ((world.charlie, everywhere), (world.charlie, bobs["id"]), (world.bob, everywhere)):
            for method, way, body in ways:
                unknown, foreign = (
                    who.api.request(method, f"{PATH}/{id_}{way}", json=body, headers={"If-Match": '"x"'})
                    for id_ in (UNKNOWN_ID, draft)
                )
                assert (foreign.status_code, error_of(foreign)["message"]) == (404, error_of(unknown)["message"]), way


# --- The list ------------------------------------------------------------------------------------------------------


def test_the_list_pages_newest_first_and_filters_by_status(world: RequestCast, monkeypatch: pytest.MonkeyPatch) -> None:
    api = world.alice.api
    ids = [new_draft(api, title=str(number), text="x" * 100)["id"] for number in range(5)]
    assert api.post(f"{PATH}/{ids[1]}/propose").status_code == 200
    found, cursor = [], ""
    while cursor is not None:
        page = api.get(PATH, params={"limit": 2, "cursor": cursor}).json()
        found += [row["id"] for row in page["data"]]
        cursor = page["nextCursor"]
    assert found == ids[::-1]
    proposed = api.get(PATH, params={"status": ["proposed", "approved"]}).json()["data"]
    assert [row["id"] for row in proposed] == [ids[1]]
    foreign = world.charlie.api.get(PATH, params={"cursor": api.get(PATH, params={"limit": 2}).json()["nextCursor"]})
    assert error_of(foreign)["rule"] == "cursor"
    monkeypatch.setattr(drafts, "PAGE_BYTES_MAX", 250)  # a page of large drafts has fewer
    page = api.get(PATH).json()
    assert [row["id"] for row in page["data"]] == [ids[4], ids[3]]
    assert api.get(PATH, params={"cursor": page["nextCursor"]}).json()["data"][0]["id"] == ids[2]


def test_so_many_may_be_unpublished_and_so_many_published_are_kept(
    world: RequestCast, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = world.alice.api
    monkeypatch.setattr(drafts, "OPEN_MAX", 2)
    monkeypatch.setattr(drafts, "PUBLISHED_MAX", 1)
    first, second = (
        new_draft(api, **world.body(text=text, scheduledAt=world.soon()))["id"] for text in ("first", "second")
    )
    with unchanged(world.server):
        refused = api.post(PATH, json={})
    assert (refused.status_code, error_of(refused)["rule"]) == (409, "drafts.max")
    assert world.charlie.api.post(PATH, json={}).status_code == 201
    for draft in (first, second):
        assert api.post(f"{PATH}/{draft}/publish").status_code == 202
    assert [row["id"] for row in api.get(PATH).json()["data"]] == [second]
    assert api.post(PATH, json={}).status_code == 201


# --- Files ---------------------------------------------------------------------------------------------------------


def test_inline_files_are_stored_with_the_draft(world: RequestCast) -> None:
    api, pictures = world.alice.api, [make_picture(size=(8, side)) for side in (8, 9)]
    draft = new_draft(
        api,
        **world.body(
            media=[inline_item(pictures[0], altText="one")],
            targets=[world.target(media=[inline_item(pictures[0], altText="one"), inline_item(pictures[1])])],
        ),
    )
    (shared,), own = draft["content"]["media"], draft["content"]["targets"][0]["media"]
    assert shared == {"kind": "image", "mediaId": shared["mediaId"], "altText": "one"}
    assert own == [shared, {"kind": "image", "mediaId": own[1]["mediaId"]}]
    assert draft["problems"] == []
    rows = {row["id"]: row["alt_text"] for row in world.server.rows(Media)}
    assert rows == {shared["mediaId"]: "one", own[1]["mediaId"]: None}
    assert len(stored_files(world.server)) == 2


def test_a_write_that_is_refused_leaves_no_file(world: RequestCast, monkeypatch: pytest.MonkeyPatch) -> None:
    api, body = world.alice.api, {"content": {"media": [inline_item(make_picture())]}}
    draft = new_draft(api)["id"]
    old = seen(api, draft)
    assert change_draft(api, draft, title="x").status_code == 200
    assert api.patch(f"{PATH}/{draft}", json=body, headers=old).status_code == 412
    monkeypatch.setattr(drafts, "OPEN_MAX", 1)
    assert api.post(PATH, json=body["content"]).status_code == 409
    assert (stored_files(world.server), world.server.rows(Media), len(world.server.rows(PostDraft))) == ([], [], 1)


def test_a_file_that_a_draft_names_is_not_deleted(world: RequestCast) -> None:
    """As for scheduled posts: a person is refused, and retention passes it by, until no draft names it."""
    api = world.alice.api
    picture = stored_media(api)["id"]
    draft = new_draft(api, text="x", media=[picture])["id"]
    foreign = new_draft(world.charlie.api, media=[picture])  # names what it does not have
    assert rules(foreign) == ["targets"]
    with unchanged(world.server):
        refused = api.delete(f"/v1/media/{picture}")
    assert (refused.status_code, error_of(refused)["rule"]) == (409, "media.in_use")
    assert f"Draft {draft}" in error_of(refused)["message"]
    assert change_draft(api, draft, content={"text": "x"}).status_code == 200
    assert api.delete(f"/v1/media/{picture}").status_code == 200


@pytest.mark.parametrize("end", ["delete", "publish"])
def test_retention_keeps_the_files_of_drafts(make_server: Callable[..., AppServer], end: str) -> None:
    server = make_server(retention={"media": "30d"})
    alice = server.person("Alice")
    account = server.connect_bluesky(alice)["id"]
    api, picture = alice.api, stored_media(alice.api)["id"]
    draft = new_draft(api, targets=[{"accountId": account}], text="x", media=[picture])["id"]

    def sweep() -> bool:
        server.clock.skip(40 * 86_400)
        library.delete_unused(server.service, server.service.now_ms - 30 * 86_400_000)
        return api.get(f"/v1/media/{picture}").status_code == 200

    assert sweep()
    assert sweep()
    if end == "delete":
        assert api.delete(f"{PATH}/{draft}").status_code == 200
    else:
        assert api.post(f"{PATH}/{draft}/publish").json()["status"] == "published"
    assert server.rows(PostDraftMedia) == []
    assert not sweep()


def test_the_drafts_of_a_deleted_organization_are_deleted(world: RequestCast) -> None:
    kept = new_draft(world.charlie.api)["id"]
    new_draft(world.alice.api, media=[stored_media(world.alice.api)["id"]])
    who = build_operator(world.server.service, "test").within(world.alice.organization)
    ends = world.server.service.write(lambda tx: organization_deletion.delete(tx, who)).result().body["ends"]
    assert ends["drafts"] == 1
    assert [row["id"] for row in world.server.rows(PostDraft)] == [kept]
