"""Composer for saved drafts and queued posts: what it changes, what it keeps, and when."""

from __future__ import annotations

import html
import json
import re
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from socialpub.store.schema.models import Post, PostDraft
from tests.support.app_server import ApiClient, AppServer, format_instant, unchanged
from tests.support.audit_rows import audit_rows, newest_audit_row
from tests.support.composer_form import fields_of, open_form
from tests.support.connect_flow import sign_in
from tests.support.dashboard_forms import HTML, follow_notice, send_form, sign_in_at
from tests.support.media_uploads import stored_media
from tests.support.post_drafts import approved_draft, change_draft, new_draft, read_draft
from tests.support.request_cast import RequestCast, make_picture
from tests.support.sign_in import EMAIL, add_user

TIME = "2999-05-04T15:30:20.000Z"


def save(browser: ApiClient, fields: dict[str, str], **changed: str) -> httpx.Response:
    path = f"/posts/{fields['post']}/edit" if fields.get("post") else "/drafts"
    given = {name: value for name, value in (fields | changed).items() if name != "csrf_token"}
    return send_form(browser, path, **given)


def rich_content(world: RequestCast) -> dict[str, Any]:
    """A draft of all that the API can say: what the form shows, and what it only keeps."""
    first, second = (stored_media(world.alice.api, make_picture("JPEG", (8, size)))["id"] for size in (8, 9))
    instagram = world.server.connect(world.alice, "instagram")["id"]
    twitter = world.server.connect(world.alice, "twitter")["id"]
    return {
        "text": "Hours",
        "media": [{"kind": "image", "mediaId": first, "altText": "A door"}, second],
        "scheduledAt": TIME,
        "externalId": "menu-1",
        "onDuplicate": "warn",
        "targets": [
            {"accountId": world.alice.bluesky, "text": "Of its own", "thread": [{"text": "And on"}]},
            {
                "accountId": instagram,
                "media": [first],
                "options": {
                    "platform": "instagram",
                    "userTags": [{"username": "ann", "x": 0.5, "y": 0.5}],
                    "collaborators": ["bob"],
                },
            },
            {"accountId": twitter, "media": [second, {"kind": "image", "mediaId": first, "altText": "A door"}]},
        ],
    }


@pytest.mark.slow
def test_a_draft_is_saved_as_it_was_where_nothing_is_changed(world: RequestCast, browser: ApiClient) -> None:
    content = rich_content(world)
    draft = approved_draft(world.alice.api, title="Menu", **content)
    answer = save(browser, open_form(browser, "draft", draft))
    assert answer.headers["Location"] == f"/drafts/{draft}"
    after = read_draft(world.alice.api, draft)
    assert (after["status"], after["title"]) == ("approved", "Menu")  # exactly what was approved
    kept = ("text", "scheduledAt", "externalId", "onDuplicate", "media")
    assert {name: after["content"][name] for name in kept} == {name: content[name] for name in kept}
    assert after["content"]["targets"][0]["thread"] == [{"text": "And on"}]
    assert after["content"]["targets"][1]["options"]["userTags"][0]["username"] == "ann"
    assert after["content"]["targets"][2]["media"] == content["targets"][2]["media"]


@pytest.mark.parametrize("place", ["content", "one target", "two targets"])
def test_the_thread_of_a_draft_is_shown_or_kept(world: RequestCast, browser: ApiClient, place: str) -> None:
    file = stored_media(world.alice.api)["id"]
    twitter = world.server.connect(world.alice, "twitter")["id"]
    thread = [{"text": "Two", "media": [{"kind": "image", "mediaId": file, "altText": "A door"}]}, {"text": "Three"}]
    targets: list[dict[str, Any]] = [{"accountId": world.alice.bluesky}, {"accountId": twitter}]
    content: dict[str, Any] = {"text": "One", "targets": targets}
    if place == "content":
        content["thread"] = thread
    else:
        targets[0]["thread"] = thread
    if place == "two targets":
        targets[1]["thread"] = [{"text": "Other"}]
    draft = str(new_draft(world.alice.api, **content)["id"])
    before = read_draft(world.alice.api, draft)["content"]
    fields = open_form(browser, "draft", draft)
    shown = [fields.get("piece.1"), fields.get("piece.2"), fields.get(f"in.{file}"), fields.get(f"{twitter}.alone")]
    assert (
        shown
        == {
            "content": ["Two", "Three", "1", None],
            "one target": ["Two", "Three", "1", "yes"],
            "two targets": [None, None, None, None],
        }[place]
    )
    assert save(browser, fields).status_code == 303
    assert read_draft(world.alice.api, draft)["content"] == before
    if place == "two targets":
        return
    assert save(browser, open_form(browser, "draft", draft), **{"piece.1": "New", "piece.2": "Last"}).status_code == 303
    after = read_draft(world.alice.api, draft)["content"]
    changed = after["thread"] if place == "content" else after["targets"][0]["thread"]
    assert [(piece["text"], len(piece.get("media", []))) for piece in changed] == [("New", 1), ("Last", 0)]


def test_a_change_ends_the_approval_and_the_page_says_so(world: RequestCast, browser: ApiClient) -> None:
    draft = approved_draft(world.alice.api, **rich_content(world))
    fields = open_form(browser, "draft", draft)
    assert "the approval ends" in browser.get(f"/compose?draft={draft}", headers=HTML).text
    answer = save(browser, fields, text="New hours")
    assert "the change ended the approval" in follow_notice(browser, answer)
    after = read_draft(world.alice.api, draft)
    assert (after["status"], after["content"]["text"], after["content"]["scheduledAt"]) == ("draft", "New hours", TIME)


def test_what_another_tab_saved_is_not_overwritten(world: RequestCast, browser: ApiClient) -> None:
    draft = str(new_draft(world.alice.api, text="First", targets=[{"accountId": world.alice.bluesky}])["id"])
    mine = open_form(browser, "draft", draft)
    assert save(browser, open_form(browser, "draft", draft), text="Theirs").status_code == 303
    with unchanged(world.server):
        refused = save(browser, mine, text="Mine")
        assert refused.status_code == 412
    assert "Changed elsewhere" in refused.text
    assert "Mine</textarea>" in refused.text
    (tag,) = re.findall(r'name="replace" value="([^"]*)"', refused.text)
    again = save(browser, mine, text="Mine", replace=html.unescape(tag))
    assert again.status_code == 303
    assert read_draft(world.alice.api, draft)["content"]["text"] == "Mine"


def test_a_draft_is_published_from_the_composer_once(world: RequestCast, browser: ApiClient) -> None:
    draft = str(new_draft(world.alice.api, text="First", targets=[{"accountId": world.alice.bluesky}])["id"])
    fields = {k: v for k, v in open_form(browser, "draft", draft).items() if k != "csrf_token"}
    sent = [send_form(browser, "/compose", **(fields | {"text": "Last", "do": "send"})) for _ in range(2)]
    (post,) = world.server.rows(Post)
    assert [answer.status_code for answer in sent] == [303, 303]
    assert (post["text"], post["status"]) == ("Last", "published")
    assert sent[1].headers["Location"] == f"/posts?batchId={post['batch']}"
    assert browser.get(f"/compose?draft={draft}", headers=HTML).headers["Location"] == f"/drafts/{draft}"


def test_a_draft_whose_publication_is_refused_is_corrected_and_published(
    world: RequestCast, browser: ApiClient
) -> None:
    draft = str(new_draft(world.alice.api, text="First", targets=[{"accountId": world.alice.bluesky}])["id"])
    fields = {k: v for k, v in open_form(browser, "draft", draft).items() if k != "csrf_token"}
    refused = send_form(browser, "/compose", **(fields | {"text": "x" * 301, "do": "send"}))
    assert (refused.status_code, "300 characters" in refused.text) == (400, True)
    again = {k: v for k, v in fields_of(refused).items() if k != "csrf_token"}
    assert send_form(browser, "/compose", **(again | {"text": "Short", "do": "send"})).status_code == 303
    assert [post["text"] for post in world.server.rows(Post)] == ["Short"]


def test_a_queued_post_gets_new_content_and_time(world: RequestCast, browser: ApiClient) -> None:
    media = stored_media(world.alice.api, altText="A door")["id"]
    post = world.scheduled(media=[media], text="Old")
    fields = open_form(browser, "post", post)
    with unchanged(world.server):
        assert "Nothing was changed." in follow_notice(browser, save(browser, fields))
    name, day = f"alt.{media}", f"{datetime.fromtimestamp(world.server.clock.now_ms() / 1000, UTC).year + 1}-05-05"
    answer = save(browser, fields, text="New", day=day, clock="09:00", in_zone="UTC", **{name: "A red door"})
    assert "Post changed." in follow_notice(browser, answer)
    after = world.alice.api.get(f"/v1/posts/{post}").json()
    assert (after["text"], after["scheduledAt"]) == ("New", f"{day}T09:00:00.000Z")
    assert after["mediaRefs"] == [{"kind": "image", "mediaId": media, "altText": "A red door"}]


def test_an_edit_that_is_late_or_refused_writes_nothing(world: RequestCast, browser: ApiClient) -> None:
    post = world.scheduled(text="Old")
    fields = open_form(browser, "post", post)
    assert save(browser, fields, text="Theirs").status_code == 303
    with unchanged(world.server):
        late = save(browser, fields, text="Mine")
        assert (late.status_code, "Changed elsewhere" in late.text) == (412, True)
        long = save(browser, open_form(browser, "post", post), text="x" * 301)
        assert (long.status_code, "300 characters" in long.text) == (400, True)
    world.alice.api.delete(f"/v1/posts/{post}")
    assert browser.get(f"/compose?post={post}", headers=HTML).headers["Location"] == f"/posts/{post}"
    other = sign_in(world.server, world.charlie.organization, name="charlie")
    assert other.get(f"/compose?post={post}", headers=HTML).status_code == 404


# --- When ------------------------------------------------------------------------------------------------------------


def test_the_next_free_slot_is_named_and_taken(server: AppServer) -> None:
    alice = server.person("Alice")
    account = server.connect_bluesky(alice)["id"]
    browser = sign_in(server, alice.organization)
    assert "Next free slot" not in browser.get("/compose", headers=HTML).text
    weekly = [{"day": "mon", "time": "09:30"}, {"day": "thu", "time": "18:00"}]
    slots = {"zone": "Europe/Berlin", "weekly": weekly}
    assert alice.api.put("/v1/slots", json={**slots, "profileId": alice.profile}).status_code == 200
    found = alice.api.get(f"/v1/slots?profileId={alice.profile}").json()["next"]
    page = browser.get("/compose", headers=HTML)
    assert f'datetime="{found[:19]}Z"' in page.text
    form = {"text": "In a slot", f"to.{account}": "yes", "when": "slot", "do": "send"}
    assert send_form(browser, "/compose", **form).status_code == 303
    (post,) = server.rows(Post)
    assert alice.api.get(f"/v1/posts/{post['id']}").json()["scheduledAt"] == found


@pytest.mark.parametrize(
    ("day", "clock", "fold", "says", "at"),
    [
        ("2099-03-29", "02:30", "", "the clocks in Europe/Berlin skip it", None),
        ("2099-10-25", "02:30", "", "Which one do you mean?", None),
        ("2099-10-25", "02:30", "first", "", "2099-10-25T00:30:00.000Z"),
        ("2099-10-25", "02:30", "second", "", "2099-10-25T01:30:00.000Z"),
    ],
)
def test_a_time_that_the_clocks_skip_or_repeat_is_asked_about(
    server: AppServer, day: str, clock: str, fold: str, says: str, at: str | None
) -> None:
    alice = server.person("Alice")
    account = server.connect_bluesky(alice)["id"]
    server.clock.skip((4_070_908_800_000 - server.clock.now_ms()) / 1000)  # 1 January 2099
    browser = sign_in(server, alice.organization)
    form = {"text": "x", f"to.{account}": "yes", "when": "later", "day": day, "clock": clock, "fold": fold}
    answer = send_form(browser, "/drafts", in_zone="Europe/Berlin", **form)
    if at is None:
        assert (answer.status_code, says in answer.text) == (400, True)
        assert server.rows(PostDraft) == []
        return
    draft = answer.headers["Location"].removeprefix("/drafts/")
    assert browser.get(f"/v1/drafts/{draft}").json()["content"]["scheduledAt"] == at
    assert open_form(browser, "draft", draft)["clock"] in ("02:30", at[11:16])


def test_an_unknown_draft_is_not_found(world: RequestCast, browser: ApiClient) -> None:
    foreign = str(new_draft(world.charlie.api, text="Secret")["id"])
    for item in (foreign, "nonsense"):
        assert browser.get(f"/compose?draft={item}", headers=HTML).status_code == 404
        assert send_form(browser, "/drafts", draft=item, text="x", do="autosave").status_code == 404
    assert read_draft(world.charlie.api, foreign)["content"]["text"] == "Secret"
    assert change_draft(world.charlie.api, foreign, title="ours").status_code == 200


# --- Autosave --------------------------------------------------------------------------------------------------------


def autosave(browser: ApiClient, **fields: str) -> httpx.Response:
    given = {"csrf_token": browser.headers["X-CSRF-Token"], "do": "autosave"} | fields
    return browser.post("/drafts", data=given, headers={"Accept": "application/json"})


def test_autosaves_are_one_draft_and_one_audit_row(world: RequestCast, browser: ApiClient) -> None:
    first = [autosave(browser, text="O", save_key="0" * 32).json() for _ in range(2)]
    assert first[0] == first[1]
    second = autosave(browser, text="On", draft=first[0]["id"], seen=first[0]["seen"], save_key="1" * 32)
    assert second.status_code == 200
    late = autosave(browser, text="Late", draft=first[0]["id"], seen=first[0]["seen"], save_key="2" * 32)
    assert (late.status_code, late.json()["error"]["rule"]) == (412, "http.if_match")
    assert read_draft(world.alice.api, first[0]["id"])["content"]["text"] == "On"
    assert [row["verb"] for row in audit_rows(world.server) if row["subject"] == first[0]["id"]] == ["POST /drafts"]


def test_an_autosave_without_a_session_is_refused_as_json(world: RequestCast) -> None:
    answer = world.server.api().post("/drafts", data={"do": "autosave"}, headers={"Accept": "application/json"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthenticated")


def test_an_autosave_that_ends_an_approval_is_audited(world: RequestCast, browser: ApiClient) -> None:
    draft = approved_draft(world.alice.api, text="First", targets=[{"accountId": world.alice.bluesky}])
    seen = open_form(browser, "draft", draft)["seen"]
    fields = {f"to.{world.alice.bluesky}": "yes", "draft": draft, "seen": seen}
    assert autosave(browser, text="Other", **fields).json()["status"] == "draft"
    assert newest_audit_row(world.server)["verb"] == "POST /drafts"


@pytest.mark.parametrize(("to", "do"), [("/drafts", ""), ("/compose", "send"), ("/compose", "piece")])
def test_the_text_of_a_draft_deleted_meanwhile_becomes_a_new_one(
    world: RequestCast, browser: ApiClient, to: str, do: str
) -> None:
    draft = str(new_draft(world.alice.api, text="First", targets=[{"accountId": world.alice.bluesky}])["id"])
    fields = {k: v for k, v in open_form(browser, "draft", draft).items() if k != "csrf_token"} | {"text": "Mine"}
    world.alice.api.delete(f"/v1/drafts/{draft}")
    answer = send_form(browser, to, **(fields | {"do": do}))
    assert (answer.status_code, "This draft was deleted after you opened it." in answer.text) == (404, True)
    kept = {k: v for k, v in fields_of(answer).items() if k != "csrf_token"}
    assert (kept["text"], kept["draft"], kept["page"]) == ("Mine", "", "/compose")
    assert send_form(browser, "/drafts", **kept).status_code == 303
    assert [json.loads(row["content"])["text"] for row in world.server.rows(PostDraft)] == ["Mine"]
    assert world.server.rows(Post) == []


def test_the_text_of_a_deleted_draft_comes_back_after_signing_in(world: RequestCast, browser: ApiClient) -> None:
    add_user(world.server, world.alice, EMAIL, "owner")
    draft = str(new_draft(world.alice.api, text="First", targets=[{"accountId": world.alice.bluesky}])["id"])
    fields = open_form(browser, "draft", draft) | {"text": "Mine"}
    world.alice.api.delete(f"/v1/drafts/{draft}")
    stranger = world.server.api()
    page = stranger.post("/drafts", data=fields, headers=HTML)
    back = stranger.get(sign_in_at(page, stranger).headers["Location"], headers=HTML)
    assert "Mine</textarea>" in back.text


# --- The other accounts too ------------------------------------------------------------------------------------------

BOX = "Change the other account"


def scheduled_everywhere(world: RequestCast, **other: Any) -> list[str]:
    """The ids of a scheduled batch: a post on Bluesky, and one on X with the fields `other`."""
    twitter = world.server.connect(world.alice, "twitter")["id"]
    targets = [{"accountId": world.alice.bluesky}, {"accountId": twitter, **other}]
    at = format_instant(world.server.clock.now_ms() + 2 * 86_400_000)
    answer = world.alice.api.publish({"targets": targets, "text": "Teh hours", "scheduledAt": at})
    return [result["postId"] for result in answer.json()["results"]]


def texts(world: RequestCast, posts: list[str]) -> list[str]:
    return [world.alice.api.get(f"/v1/posts/{post}").json()["text"] for post in posts]


def test_one_save_changes_all_accounts_that_share_the_content(world: RequestCast, browser: ApiClient) -> None:
    posts = scheduled_everywhere(world)
    fields = open_form(browser, "post", posts[0])
    assert f"{BOX} too" in browser.get(f"/compose?post={posts[0]}", headers=HTML).text
    later = format_instant(world.server.clock.now_ms() + 3 * 86_400_000)[:10]
    saved = save(browser, fields, text="The hours", day=later, all="yes")
    assert "2 posts changed." in follow_notice(browser, saved)
    shown = [world.alice.api.get(f"/v1/posts/{post}").json() for post in posts]
    assert [(post["text"], post["scheduledAt"][:10]) for post in shown] == [("The hours", later)] * 2


def test_without_the_box_the_other_accounts_stay_and_then_have_their_own(
    world: RequestCast, browser: ApiClient
) -> None:
    posts = scheduled_everywhere(world)
    saved = save(browser, open_form(browser, "post", posts[0]), text="The hours")
    assert "Post changed." in follow_notice(browser, saved)
    assert texts(world, posts) == ["The hours", "Teh hours"]
    for post in posts:
        assert BOX not in browser.get(f"/compose?post={post}", headers=HTML).text


@pytest.mark.parametrize("changed", [{"text": "x" * 290}, {"text": "Good", "langs": "en"}], ids=["too long", "options"])
def test_what_not_all_accounts_take_changes_none(
    world: RequestCast, browser: ApiClient, changed: dict[str, str]
) -> None:
    posts = scheduled_everywhere(world)
    fields = open_form(browser, "post", posts[0])
    given = {name.replace("langs", f"{world.alice.bluesky}.option.langs"): text for name, text in changed.items()}
    with unchanged(world.server):
        refused = save(browser, fields, all="yes", **given)
    assert refused.status_code == 400
    assert ("Options belong to one account." in refused.text) is ("langs" in changed)
    assert texts(world, posts) == ["Teh hours"] * 2


def test_content_of_its_own_is_not_shared(world: RequestCast, browser: ApiClient) -> None:
    for post in scheduled_everywhere(world, text="On X"):
        assert BOX not in browser.get(f"/compose?post={post}", headers=HTML).text
