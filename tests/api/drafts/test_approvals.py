"""An approval ends with every change of what was seen, and with nothing else."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from socialpub.base.errors import ApiError
from socialpub.domain.access.actor import Actor
from socialpub.domain.access.audit_log import AuditContext
from socialpub.domain.access.authentication import Scope
from socialpub.domain.posts import drafts
from socialpub.domain.posts.batch_plan import BatchPlan
from socialpub.store.database import Tx
from socialpub.store.schema.models import PostDraft
from tests.support.app_server import AppServer, error_of, unchanged
from tests.support.connect_flow import sign_in
from tests.support.media_files import picture
from tests.support.media_uploads import stored_media
from tests.support.post_drafts import PATH, approve_draft, approved_draft, change_draft, new_draft, read_draft, seen
from tests.support.request_cast import RequestCast, inline_item

TIME = "2999-05-04T15:30:00.000Z"
Content = dict[str, Any]
PICTURES = (picture(), picture(size=(64, 49)))


@pytest.fixture
def files(world: RequestCast) -> list[str]:
    """Two pictures, and the first once more under another id."""
    api = world.alice.api
    return [
        stored_media(api, PICTURES[0])["id"],
        stored_media(api, PICTURES[1])["id"],
        stored_media(api, PICTURES[0])["id"],
    ]


def content_of(world: RequestCast, files: list[str]) -> Content:
    return {
        "targets": [world.target(options={"platform": "bluesky", "langs": ["en"]})],
        "text": "hello",
        "media": [{"kind": "image", "mediaId": files[0], "altText": "one"}],
        "scheduledAt": TIME,
    }


def test_what_was_changed_meanwhile_is_neither_approved_nor_proposed(world: RequestCast) -> None:
    """The page or the checks saw other content than the transaction finds."""
    draft = str(new_draft(world.alice.api, targets=[world.target()], text="hello")["id"])
    service = world.server.service
    audit = AuditContext("a test", world.alice.organization, world.alice.key_id, None, None, "request")
    who = Actor(service, Scope(world.alice.organization, key=world.alice.key_id), audit)
    for act in (
        lambda tx: drafts.approve(tx, who, draft, "the digest of other content"),
        lambda tx: drafts.propose(tx, who, draft, "{}", []),
    ):
        with pytest.raises(ApiError) as refused:
            service.write(act).result()
        assert refused.value.rule == "draft.changed"
    assert read_draft(world.alice.api, draft)["status"] == "draft"


# --- The table -----------------------------------------------------------------------------------------------------

Change = Callable[[RequestCast, Content, list[str]], Content]


def item(file: str, alt: str = "one") -> Content:
    return {"kind": "image", "mediaId": file, "altText": alt}


def langs(world: RequestCast, *codes: str) -> list[Content]:
    return [world.target(options={"platform": "bluesky", "langs": [*codes]})]


FALLS: dict[str, Change] = {
    "text": lambda world, old, files: old | {"text": "hello."},
    "no text": lambda world, old, files: {name: value for name, value in old.items() if name != "text"},
    "own text": lambda world, old, files: old | {"targets": [old["targets"][0] | {"text": "hi"}]},
    "media bytes": lambda world, old, files: old | {"media": [item(files[1])]},
    "inline bytes": lambda world, old, files: old | {"media": [inline_item(PICTURES[1], altText="one")]},
    "one file more": lambda world, old, files: old | {"media": [item(files[0]), item(files[1])]},
    "no files": lambda world, old, files: old | {"media": []},
    "a file by its address": lambda world, old, files: (
        old | {"media": [{"kind": "image", "url": "http://x.test/a.jpg", "altText": "one"}]}
    ),
    "alt text": lambda world, old, files: old | {"media": [item(files[0], "two")]},
    "no alt text": lambda world, old, files: old | {"media": [files[0]]},
    "option": lambda world, old, files: old | {"targets": langs(world, "de")},
    "one option value more": lambda world, old, files: old | {"targets": langs(world, "en", "de")},
    "no option": lambda world, old, files: old | {"targets": [world.target()]},
    "target": lambda world, old, files: old | {"targets": [old["targets"][0] | {"accountId": world.bob.bluesky}]},
    "one target more": lambda world, old, files: old | {"targets": [*old["targets"], {"accountId": world.bob.bluesky}]},
    "no target": lambda world, old, files: old | {"targets": []},
    "time": lambda world, old, files: old | {"scheduledAt": "2999-05-04T15:30:00.001Z"},
    "no time": lambda world, old, files: {name: value for name, value in old.items() if name != "scheduledAt"},
    "a thread": lambda world, old, files: old | {"thread": [{"text": "second"}]},
    "the next slot": lambda world, old, files: {
        **{name: value for name, value in old.items() if name != "scheduledAt"},
        "slot": "next",
    },
    "first comment": lambda world, old, files: old | {"firstComment": {"text": "and more"}},
}
STAYS: dict[str, Change] = {
    "the same": lambda world, old, files: old,
    "the same bytes under another id": lambda world, old, files: old | {"media": [item(files[2])]},
    "the same bytes inline": lambda world, old, files: old | {"media": [inline_item(PICTURES[0], altText="one")]},
    "the text at the target": lambda world, old, files: {
        **{name: value for name, value in old.items() if name != "text"},
        "targets": [old["targets"][0] | {"text": "hello"}],
    },
    "the time in another zone": lambda world, old, files: old | {"scheduledAt": "2999-05-04T17:30:00+02:00"},
    "the account's profile": lambda world, old, files: old | {"profileId": world.alice.profile},
    "the account by its platform": lambda world, old, files: (
        old
        | {
            "profileId": world.alice.profile,
            "targets": [{"platform": "bluesky", "options": {"platform": "bluesky", "langs": ["en"]}}],
        }
    ),
    "what to do about duplicates": lambda world, old, files: old | {"onDuplicate": "warn"},
    "explicitly not now": lambda world, old, files: old | {"publishNow": False},
}


@pytest.mark.slow
def test_an_approval_falls_with_every_kind_of_change_and_never_otherwise(world: RequestCast, files: list[str]) -> None:
    api, old = world.alice.api, content_of(world, files)
    draft = new_draft(api, **old)["id"]
    for name, change in (FALLS | STAYS).items():
        assert change_draft(api, draft, content=old).status_code == 200
        assert approve_draft(api, draft)["status"] == "approved"
        changed = change_draft(api, draft, content=change(world, old, files))
        assert changed.status_code == 200, (name, changed.text)
        assert (name, changed.json()["status"]) == (name, "draft" if name in FALLS else "approved")
        assert read_draft(api, draft)["status"] == changed.json()["status"]
    approve_draft(api, draft)
    assert change_draft(api, draft, title="another title").json()["status"] == "approved"


def test_a_proposal_outlives_changes_and_a_note_ends_with_the_next_one(world: RequestCast) -> None:
    api = world.alice.api
    draft = new_draft(api, **world.body())["id"]
    returned = api.post(f"{PATH}/{draft}/return", json={"note": "Shorter."}).json()
    assert (returned["status"], returned["note"]) == ("draft", "Shorter.")
    proposed = api.post(f"{PATH}/{draft}/propose").json()
    assert (proposed["status"], proposed["note"]) == ("proposed", None)
    assert change_draft(api, draft, content=world.body(text="hi")).json()["status"] == "proposed"
    approve_draft(api, draft)
    again = api.post(f"{PATH}/{draft}/propose")
    assert (again.status_code, error_of(again)["rule"]) == (409, "draft.status")
    assert api.post(f"{PATH}/{draft}/return", json={}).json()["status"] == "draft"


def test_what_says_nothing_of_where_it_goes_is_not_approved(world: RequestCast) -> None:
    api = world.alice.api
    for fields in ({}, {"text": "x"}, world.body(targets=[]), world.body(targets=[{"platform": "twitter"}])):
        draft = new_draft(api, **fields)["id"]
        headers = seen(api, draft)
        with unchanged(world.server):
            answer = api.post(f"{PATH}/{draft}/approve", headers=headers)
        assert (answer.status_code, error_of(answer)["rule"]) == (409, "draft.incomplete")


# --- Generated -------------------------------------------------------------------------------------------------------


@st.composite
def contents(draw: st.DrawFn) -> Content:
    """A content in numbers: `realize` puts accounts and files in their places."""
    targets = draw(
        st.lists(
            st.fixed_dictionaries(
                {"account": st.sampled_from([0, 1, "platform"])},
                optional={
                    "text": st.sampled_from(["a", "b"]),
                    "langs": st.sampled_from([["en"], ["de"]]),
                    "media": st.lists(st.integers(0, 2), max_size=2),
                },
            ),
            min_size=1,
            max_size=2,
        )
    )
    rest = draw(
        st.fixed_dictionaries(
            {"text": st.sampled_from(["a", "b"]), "targets": st.just(targets)},
            optional={
                "media": st.lists(st.integers(0, 2), max_size=2),
                "alt": st.sampled_from(["one", "two"]),
                "time": st.sampled_from([TIME, "2999-05-04T17:30:00+02:00", "2999-05-05T00:00:00Z"]),
                "onDuplicate": st.sampled_from(["warn", "refuse"]),
            },
        )
    )
    return dict(rest)


def realize(world: RequestCast, files: list[str], drawn: Content) -> Content:
    def items(numbers: list[int]) -> list[Content]:
        alt = {"altText": drawn["alt"]} if "alt" in drawn else {}
        return [{"kind": "image", "mediaId": files[number], **alt} for number in numbers]

    targets = []
    for target in drawn["targets"]:
        accounts = {0: {"accountId": world.alice.bluesky}, 1: {"accountId": world.bob.bluesky}}
        made: Content = dict(accounts.get(target["account"], {"platform": "twitter"}))
        made |= {"text": target["text"]} if "text" in target else {}
        made |= {"media": items(target["media"])} if "media" in target else {}
        if "langs" in target and target["account"] != "platform":
            made["options"] = {"platform": "bluesky", "langs": target["langs"]}
        targets.append(made)
    made = {"targets": targets, "text": drawn["text"]}
    made |= {"media": items(drawn["media"])} if "media" in drawn else {}
    made |= {"scheduledAt": drawn["time"]} if "time" in drawn else {}
    return made | ({"onDuplicate": drawn["onDuplicate"]} if "onDuplicate" in drawn else {})


def goes_out(drawn: Content) -> Any:
    """What the world would see of a content: written without a look at the program."""
    times = {TIME: 1, "2999-05-04T17:30:00+02:00": 1, "2999-05-05T00:00:00Z": 2}
    same_bytes = {0: "A", 1: "B", 2: "A"}

    def files(target: Content) -> list[str]:
        return [same_bytes[number] for number in target.get("media", drawn.get("media", []))]

    return times.get(drawn.get("time", "")), [
        (
            target["account"],
            target.get("text", drawn["text"]),
            files(target),
            drawn.get("alt") if files(target) else None,
            target.get("langs") if target["account"] != "platform" else None,
        )
        for target in drawn["targets"]
    ]


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(before=contents(), after=contents(), near=st.booleans())
def test_generated_changes_end_an_approval_if_they_change_what_goes_out(
    world: RequestCast, files: list[str], before: Content, after: Content, near: bool
) -> None:
    if "twitter" not in world.alice.accounts:
        world.server.connect(world.alice, "twitter")
    if near:  # most of it stays
        after = {**before, **{name: after[name] for name in ("text", "onDuplicate") if name in after}}
    api = world.alice.api
    draft = approved_draft(api, **realize(world, files, before))
    changed = change_draft(api, draft, content=realize(world, files, after))
    stays = goes_out(before) == goes_out(after)
    assert changed.json()["status"] == ("approved" if stays else "draft"), (before, after)
    assert api.delete(f"{PATH}/{draft}").status_code == 200


# --- Two approvers and an editor -------------------------------------------------------------------------------------


def test_two_approvers_and_an_editor_in_turns(world: RequestCast) -> None:
    api = world.alice.api
    draft = new_draft(api, **world.body(text="first"))["id"]
    early = seen(api, draft)
    change_draft(api, draft, content=world.body(text="second"))
    late = seen(api, draft)

    def approve(headers: dict[str, str]) -> int:
        return api.post(f"{PATH}/{draft}/approve", headers=headers).status_code

    assert approve(early) == 412
    assert approve(late) == 200
    assert approve(late) == 412  # approved since, which the second approver has not seen
    assert approve(seen(api, draft)) == 200
    assert [type_ for type_, _ in world.server.events()].count("draft.approved") == 1
    approved = seen(api, draft)
    assert change_draft(api, draft, content=world.body(text="third")).json()["status"] == "draft"
    assert approve(approved) == 412
    assert read_draft(api, draft)["status"] == "draft"


@pytest.mark.slow
def test_nobody_approves_what_was_not_seen(
    make_server: Callable[..., AppServer], world_of: Callable[[AppServer], RequestCast]
) -> None:
    """An editor and two approvers at once: each approval is of the text that its approver has read."""
    world = world_of(make_server(limits={"writes": 1_000_000, "reads": 1_000_000}))
    api = world.alice.api
    draft = new_draft(api, **world.body(text="0"))["id"]
    over = threading.Event()

    def edit() -> str:
        client = world.server.api(world.alice.key)
        number = 0
        while number < 25:
            answer = change_draft(client, draft, content=world.body(text=str(number + 1)))
            assert answer.status_code in (200, 412)
            number += answer.status_code == 200
        over.set()
        return str(number)

    def approve() -> list[str]:
        client, approved, is_last = world.server.api(world.alice.key), list[str](), False
        while not is_last:
            is_last = over.is_set()
            page = client.get(f"{PATH}/{draft}")
            answer = client.post(f"{PATH}/{draft}/approve", headers={"If-Match": page.headers["ETag"]})
            if answer.status_code == 412:
                continue
            assert answer.status_code == 200, answer.text
            assert answer.json()["content"] == page.json()["content"]
            approved.append(page.json()["content"]["text"])
        return approved

    with ThreadPoolExecutor(3) as pool:
        editor, *approvers = [pool.submit(edit), pool.submit(approve), pool.submit(approve)]
        last, results = editor.result(), [each.result() for each in approvers]
    final = read_draft(api, draft)
    assert (final["content"]["text"], final["status"]) == (last, "approved")
    assert last in {text for approved in results for text in approved}
    for approved in results:
        assert [int(text) for text in approved] == sorted(int(text) for text in approved)


# --- Publishing ----------------------------------------------------------------------------------------------------


def test_a_draft_is_published_as_a_request_would_be(world: RequestCast) -> None:
    api, body = world.alice.api, world.body(scheduledAt=TIME, media=[stored_media(world.alice.api)["id"]])
    direct = api.publish(body).json()
    draft = new_draft(api, title="x", **body | {"text": "hello again"})["id"]
    answer = api.post(f"{PATH}/{draft}/publish")
    batch = answer.json()
    assert answer.status_code == 202
    assert answer.headers["Location"].endswith(batch["id"])
    assert [type(value) for value in batch.values()] == [type(value) for value in direct.values()]
    one, other = (api.get(f"/v1/posts/{each['results'][0]['postId']}").json() for each in (direct, batch))
    different = {name for name in one if one[name] != other[name]}
    assert different == {"id", "batchId", "text", "createdAt", "updatedAt"}
    published = read_draft(api, draft)
    assert (published["status"], published["batchId"]) == ("published", batch["id"])
    for send in (
        lambda: api.post(f"{PATH}/{draft}/publish"),
        lambda: change_draft(api, draft, title="y"),
        lambda: api.post(f"{PATH}/{draft}/propose"),
        lambda: api.post(f"{PATH}/{draft}/approve", headers=seen(api, draft)),
        lambda: api.post(f"{PATH}/{draft}/return", json={}),
        lambda: api.post(f"{PATH}/{draft}/link"),
    ):
        with unchanged(world.server):
            refused = send()
        assert (refused.status_code, error_of(refused)["rule"]) == (409, "draft.status")
        assert error_of(refused)["platformResponse"] == {"batchId": batch["id"]}


@pytest.mark.parametrize("keyed", [False, True])
def test_a_draft_is_published_once_by_sixteen_clients(world: RequestCast, keyed: bool) -> None:
    draft = new_draft(world.alice.api, **world.body(scheduledAt=TIME))["id"]
    clients = [world.server.api(world.alice.key) for _ in range(16)]
    headers = {"Idempotency-Key": "one"} if keyed else {}
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda api: api.post(f"{PATH}/{draft}/publish", headers=headers), clients))
    statuses = sorted(answer.status_code for answer in answers)
    assert statuses == ([202] * 16 if keyed else [202] + [409] * 15)
    assert len({answer.json()["id"] for answer in answers if answer.status_code == 202}) == 1
    assert len(world.server.rows()) == 1


def test_what_validate_refuses_is_not_published(world: RequestCast) -> None:
    draft = new_draft(world.alice.api, **world.body(text="x" * 301))["id"]
    with unchanged(world.server):
        answer = world.alice.api.post(f"{PATH}/{draft}/publish")
    assert (answer.status_code, error_of(answer)["code"]) == (400, "preflight_failed")


@pytest.fixture
def strict(make_server: Callable[..., AppServer], world_of: Callable[[AppServer], RequestCast]) -> RequestCast:
    """Only approved drafts are published."""
    return world_of(make_server(publishing={"approval": True}))


def test_only_what_was_approved_is_published_where_that_is_the_rule(strict: RequestCast) -> None:
    api = strict.alice.api
    draft = new_draft(api, **strict.body(scheduledAt=TIME))["id"]

    def publish() -> tuple[int, str | None]:
        answer = api.post(f"{PATH}/{draft}/publish")
        return answer.status_code, error_of(answer)["rule"] if answer.is_error else None

    with unchanged(strict.server):
        assert publish() == (409, "draft.approval")
    approve_draft(api, draft)
    assert change_draft(api, draft, content=strict.body(text="other", scheduledAt=TIME)).status_code == 200
    assert publish() == (409, "draft.approval")
    approve_draft(api, draft)
    assert publish() == (202, None)
    assert strict.post(scheduledAt=TIME, text="directly").status_code == 202  # a key with `posts:write`, as before


def test_a_draft_without_approval_is_refused_before_it_is_checked(strict: RequestCast) -> None:
    draft = new_draft(strict.alice.api, text="no target yet")["id"]
    with unchanged(strict.server):
        answer = strict.alice.api.post(f"{PATH}/{draft}/publish")
    assert (answer.status_code, error_of(answer)["rule"]) == (409, "draft.approval")
    assert "not approved" in error_of(answer)["message"]


def test_a_draft_that_changes_while_it_is_published_is_not_published(
    world: RequestCast, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft = new_draft(world.alice.api, **world.body(scheduledAt=TIME))["id"]
    record = drafts.DraftPublication.record

    def change_first(self: drafts.DraftPublication, tx: Tx, plan: BatchPlan) -> None:
        PostDraft.update(content=json.dumps(world.body(text="other", scheduledAt=TIME))).execute()
        record(self, tx, plan)

    monkeypatch.setattr(drafts.DraftPublication, "record", change_first)
    with unchanged(world.server):
        answer = world.alice.api.post(f"{PATH}/{draft}/publish")
    assert (answer.status_code, error_of(answer)["rule"]) == (409, "draft.changed")


def test_an_approval_is_of_the_account_that_was_seen(strict: RequestCast) -> None:
    """A target named by its platform alone: another account has taken the place of the one that was approved."""
    api, browser = strict.alice.api, sign_in(strict.server, strict.alice.organization)
    body = strict.body(targets=[{"platform": "bluesky"}], profileId=strict.alice.profile, scheduledAt=TIME)
    draft = approved_draft(api, **body)
    assert browser.delete(f"/v1/accounts/{strict.alice.bluesky}").status_code == 200
    strict.server.connect_bluesky(strict.alice)
    answer = api.post(f"{PATH}/{draft}/publish")
    assert (answer.status_code, error_of(answer)["rule"]) == (409, "draft.approval")
    approve_draft(api, draft)
    assert api.post(f"{PATH}/{draft}/publish").status_code == 202


# --- Events --------------------------------------------------------------------------------------------------------


def test_each_decision_is_an_event(world: RequestCast) -> None:
    api = world.bob.api
    draft = new_draft(api, title="Hours", targets=[{"accountId": world.bob.bluesky}], text="x")["id"]
    api.post(f"{PATH}/{draft}/propose")
    api.post(f"{PATH}/{draft}/return", json={"note": "Shorter."})
    approve_draft(api, draft)
    common = {
        "id": draft,
        "profileId": world.bob.profile,
        "accountIds": [world.bob.bluesky],
        "title": "Hours",
        "by": {"type": "key", "id": world.bob.key_id, "name": "Bob"},
    }
    found = world.server.events()
    assert [type_ for type_, _ in found] == ["draft.proposed", "draft.returned", "draft.approved"]
    proposed, returned, approved = (data for _, data in found)
    assert proposed == common | {"proposedAt": proposed["proposedAt"]}
    assert returned == common | {"returnedAt": returned["returnedAt"], "note": "Shorter."}
    assert approved == common | {"approvedAt": approved["approvedAt"]}
