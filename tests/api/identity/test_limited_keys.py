"""Keys limited to scopes, to accounts and in time: creation, notices, what they find."""

from __future__ import annotations

import json
from typing import Any

import pytest

from socialpub.domain.identity import key_expiry
from socialpub.store.schema.models import ApiKey, Post, User
from socialpub.web.pipeline import RequestPipeline
from tests.support.app_server import UNKNOWN_ID, AppServer, Person, error_of, format_instant, unchanged
from tests.support.chat_servers import CHANNELS, add_channel
from tests.support.connect_flow import sign_in
from tests.support.post_drafts import approve_draft, new_draft
from tests.support.request_cast import RequestCast
from tests.support.soak.soak_world import wait_for
from tests.support.webhook_endpoints import DELIVERIES, ENDPOINTS, list_deliveries, register_endpoint
from tests.support.webhook_receiver import WebhookReceiver

DAY = 86_400


@pytest.fixture
def second(server: AppServer, alice: Person) -> str:
    """The id of Alice's second account, on another platform."""
    return str(server.connect(alice, "instagram")["id"])


@pytest.fixture
def listed(server: AppServer, alice: Person, second: str) -> Person:
    """Alice with a key that is limited to her Bluesky account."""
    return server.limited(alice, accounts=[alice.bluesky])


def ids(person: Person, path: str) -> set[str]:
    return {row["id"] for row in person.api.get(path).json()["data"]}


def to(*accounts: str, **fields: Any) -> dict[str, Any]:
    return {"targets": [{"accountId": account} for account in accounts], "text": "hello", **fields}


# --- Creation and reads --------------------------------------------------------------------------------------------


def test_a_limited_key_is_shown_as_it_was_asked_for(server: AppServer, alice: Person, second: str) -> None:
    browser, ends = sign_in(server, alice.organization), format_instant(server.clock.now_ms() + 30 * DAY * 1000)
    asked = {"scopes": ["media", "posts:plan", "media"], "accounts": [second.upper(), alice.bluesky, second]}
    made = browser.post("/v1/api-keys", json={"name": "agent", **asked, "expiresAt": ends})
    assert made.status_code == 201
    limits = {"scopes": ["posts:plan", "media"], "accounts": sorted([second, alice.bluesky]), "expiresAt": ends}
    assert limits.items() <= made.json().items()
    api = server.api(made.json()["key"])
    shown = {name: value for name, value in made.json().items() if name != "key"}
    used = {row["id"]: row for row in browser.get("/v1/api-keys").json()["data"]}
    assert used[made.json()["id"]] == shown
    assert used[alice.key_id].items() >= {"accounts": None, "expiresAt": None}.items()
    assert used[alice.key_id]["scopes"] == [
        "posts:read", "posts:plan", "posts:write", "media", "accounts:read", "webhooks",
    ]  # fmt: skip
    organization = {"id": alice.organization, "name": "Alice's"}
    names = ("id", "name", "prefix", "last4", "scopes", "accounts", "expiresAt", "createdAt")
    assert api.get("/v1/me").json() == {
        "organization": organization,
        "profile": None,
        "key": {name: shown[name] for name in names},
        "user": None,
    }
    (user,) = server.rows(User)
    assert browser.get("/v1/me").json() == {
        "organization": organization,
        "profile": None,
        "key": None,
        "user": {"id": user["id"], "email": "alice@x.test", "role": "owner"},
    }


def test_a_bound_key_sees_its_profile_in_me(world: RequestCast) -> None:
    me = world.bob.api.get("/v1/me").json()
    assert me["profile"] == {"id": world.bob.profile, "name": "Bob"}
    assert me["key"]["id"] == world.bob.key_id
    assert world.server.api().get("/v1/me").status_code == 401


BAD: dict[str, tuple[dict[str, Any], list[list[Any]]]] = {
    "an unknown scope": ({"scopes": ["posts:read", "posts:all"]}, [["scopes", 1]]),
    "no scope": ({"scopes": []}, [["scopes"]]),
    "no account": ({"accounts": []}, [["accounts"]]),
    "a malformed account": ({"accounts": ["bakery"]}, [["accounts", 0]]),
    "too many accounts": ({"accounts": [UNKNOWN_ID] * 101}, [["accounts"]]),
    "a time without a zone": ({"expiresAt": "2030-01-01T00:00:00"}, [["expiresAt"]]),
    "null": ({"scopes": None, "accounts": None, "expiresAt": None}, [["scopes"], ["accounts"], ["expiresAt"]]),
    "a past time and a bad prefix": (
        {"expiresAt": "2020-01-01T00:00:00Z", "prefix": "svc_love_"},
        [["prefix"], ["expiresAt"]],
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_limits_are_all_told_and_nothing_is_written(server: AppServer, alice: Person, case: str) -> None:
    browser, (fields, paths) = sign_in(server, alice.organization), BAD[case]
    with unchanged(server):
        answer = browser.post("/v1/api-keys", json={"name": "agent", **fields})
    assert (answer.status_code, error_of(answer)["code"]) == (400, "validation_failed")
    assert [issue["path"] for issue in error_of(answer)["platformResponse"]] == paths


@pytest.mark.usefixtures("bob", "charlie")
def test_an_account_out_of_the_keys_reach_is_not_found(world: RequestCast) -> None:
    browser = sign_in(world.server, world.alice.organization)
    of_bob = {"profileId": world.bob.profile}
    with unchanged(world.server):
        for fields in (
            {"accounts": [world.alice.bluesky, UNKNOWN_ID]},
            {"accounts": [world.charlie.bluesky]},
            {"accounts": [world.alice.bluesky], **of_bob},
        ):
            answer = browser.post("/v1/api-keys", json={"name": "agent", **fields})
            assert (answer.status_code, error_of(answer)["code"]) == (404, "not_found")
            assert fields["accounts"][-1] in error_of(answer)["message"]
    assert browser.post("/v1/api-keys", json={"name": "b", "accounts": [world.bob.bluesky], **of_bob}).is_success


# --- Expiry --------------------------------------------------------------------------------------------------------


def test_an_expired_key_is_refused_by_its_rule(server: AppServer, alice: Person) -> None:
    key = server.limited(alice, expiresAt=format_instant(server.clock.now_ms() + 60_000))
    assert key.api.get("/v1/posts").status_code == 200
    server.clock.skip(61)
    with unchanged(server):
        for answer in (key.api.get("/v1/posts"), key.api.get("/v1/me"), key.api.publish(to(alice.bluesky))):
            assert (answer.status_code, error_of(answer)["rule"]) == (401, "api_key.expired")
    assert key.api.get("/v1/api-keys").status_code == 401  # before it is told that only people may
    assert alice.api.get("/v1/posts").status_code == 200


def test_a_key_that_expires_during_a_write_writes_nothing(
    server: AppServer, alice: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = server.limited(alice, expiresAt=format_instant(server.clock.now_ms() + 60_000))
    body = to(alice.bluesky, scheduledAt=format_instant(server.clock.now_ms() + 3_600_000))
    work = RequestPipeline._call_handler

    async def late(pipeline: RequestPipeline, call: Any) -> Any:
        server.clock.skip(61)
        return await work(pipeline, call)

    monkeypatch.setattr(RequestPipeline, "_call_handler", late)
    with unchanged(server):
        answer = key.api.publish(body)
    assert (answer.status_code, error_of(answer)["rule"]) == (401, "api_key.expired")


def notices(server: AppServer) -> list[tuple[str, int]]:
    key_expiry.notify_due(server.service)
    key_expiry.notify_due(server.service)
    told = [data for kind, data in server.events() if kind == "key.expiring"]
    return [(data["name"], data["daysUntilExpiry"]) for data in told]


def test_notices_come_7_days_and_1_day_ahead_once_each(server: AppServer, alice: Person) -> None:
    begin = server.clock.now_ms()
    for name, days in (("month", 30), ("three days", 3), ("hours", 0.5), ("revoked", 30)):
        server.limited(alice, name=name, expiresAt=format_instant(begin + int(days * DAY * 1000)))
    revoked = ApiKey.update(revoked_at=begin).where(ApiKey.name == "revoked")
    server.service.write(lambda tx: revoked.execute()).result()
    told: list[tuple[str, int]] = []
    for hours, added in (
        (47, []),
        (2, [("three days", 1)]),
        (23 * 24 - 50, []),
        (2, [("month", 7)]),
        (24, []),
        (5 * 24, [("month", 1)]),
        (48, []),
    ):
        server.clock.skip(hours * 3600)
        told += added
        assert notices(server) == told, hours
    (first, *_) = [data for kind, data in server.events() if kind == "key.expiring"]
    assert set(first) == {"keyId", "name", "prefix", "last4", "profileId", "expiresAt", "daysUntilExpiry"}


def test_after_a_long_outage_only_the_later_notice_comes(server: AppServer, alice: Person) -> None:
    server.limited(alice, name="month", expiresAt=format_instant(server.clock.now_ms() + 30 * DAY * 1000))
    server.clock.skip(29.5 * DAY)
    assert notices(server) == [("month", 1)]


def test_the_server_looks_for_expiring_keys_by_itself(server: AppServer, alice: Person) -> None:
    server.limited(alice, expiresAt=format_instant(server.clock.now_ms() + 30 * DAY * 1000))
    server.clock.skip(24 * DAY)
    (task,) = [task for task in server.service.jobs._registry.periodic_tasks if task.name == "notify_keys"]
    task.execute()
    assert [kind for kind, _ in server.events()] == ["key.expiring"]


# --- Accounts ------------------------------------------------------------------------------------------------------


def test_only_listed_accounts_are_there_for_a_limited_key(alice: Person, listed: Person, second: str) -> None:
    assert ids(listed, "/v1/accounts") == {alice.bluesky}
    assert ids(alice, "/v1/accounts") == {alice.bluesky, second}
    for way in ("", "/pinterest/boards"):
        gone, unknown = (listed.api.get(f"/v1/accounts/{id_}{way}") for id_ in (second, UNKNOWN_ID))
        assert gone.status_code == 404
        assert error_of(gone) | {"requestId": ""} == error_of(unknown) | {"requestId": ""}


@pytest.mark.parametrize("path", ["/v1/posts", "/v1/posts/validate"])
def test_other_accounts_are_no_targets_by_id_or_platform(
    server: AppServer, alice: Person, listed: Person, second: str, path: str
) -> None:
    server.connect(alice, "bluesky", "third")  # with which `platform` alone is ambiguous to the whole key
    with unchanged(server):
        answer = listed.api.post(path, json=to(alice.bluesky, second))
        assert (answer.status_code, error_of(answer)["code"]) == (404, "not_found")
        answer = listed.api.post(path, json={"targets": [{"platform": "instagram"}], "text": "hello"})
        assert error_of(answer)["rule"] == "target.account.not_connected"
    by_name = {"targets": [{"platform": "bluesky"}], "text": "hello"}
    assert error_of(alice.api.post(path, json=by_name))["rule"] == "target.account.ambiguous"
    assert listed.api.post(path, json=by_name).json()["results"][0]["accountId"] == alice.bluesky


def test_posts_and_events_of_other_accounts_are_hidden(
    server: AppServer, alice: Person, listed: Person, second: str
) -> None:
    later = format_instant(server.clock.now_ms() + 3_600_000)
    picture = [{"kind": "image", "url": "https://example.com/a.jpg"}]
    both = alice.api.publish(to(alice.bluesky, second, scheduledAt=later, media=picture)).json()
    mine, other = (result["postId"] for result in both["results"])
    filters = (
        "", "q=hello", "q=he", f"batchId={both['id']}", "status=queued", "status=queued&q=hello", "platform=instagram",
        "order=scheduledAt", "order=scheduledAt&platform=bluesky", f"profileId={alice.profile}",
        "errorCode=internal_error",
    )  # fmt: skip
    for query in filters:
        seen, whole = ids(listed, f"/v1/posts?{query}"), ids(alice, f"/v1/posts?{query}&limit=200")
        assert seen == whole - {other}, query
    assert listed.api.get(f"/v1/posts?accountId={second}").status_code == 404
    unknown = error_of(listed.api.get(f"/v1/posts/{UNKNOWN_ID}"))
    with unchanged(server):
        for method, way, body in (
            ("GET", "", None),
            ("PATCH", "", {"scheduledAt": later}),
            ("DELETE", "", None),
            ("POST", "/retry", {}),
            ("POST", "/settle", {"published": False}),
        ):
            answer = listed.api.request(method, f"/v1/posts/{other}{way}", json=body)
            assert answer.status_code == 404, way
            assert error_of(answer)["message"] == unknown["message"]
    assert listed.api.get(f"/v1/posts/{mine}").status_code == 200
    events = alice.api.get("/v1/events").json()["data"]
    shown = listed.api.get("/v1/events").json()["data"]
    assert shown == [event for event in events if event["data"]["accountId"] == alice.bluesky]
    assert 0 < len(shown) < len(events)
    for event in events:
        answer = listed.api.get("/v1/events", params={"cursor": event["id"]})
        assert answer.is_success == (event in shown)
    assert second not in listed.api.get("/v1/events").text


def test_pages_of_a_limited_key_are_whole(server: AppServer, alice: Person) -> None:
    """Pages over several accounts are merged in order, none left out or listed twice."""
    accounts = [alice.bluesky, *(server.connect(alice, "bluesky", f"b{number}")["id"] for number in range(3))]
    for number in range(3):
        later = format_instant(server.clock.now_ms() + 3_600_000 - number * 60_000)
        assert alice.api.publish(to(*accounts, text=f"hello {number}", scheduledAt=later)).status_code == 202
    limited = server.limited(alice, accounts=accounts[1:3])
    for query in ("", "&status=queued", "&order=scheduledAt", "&q=hello", "&q=he"):
        whole = alice.api.get(f"/v1/posts?limit=200{query}").json()["data"]
        found: list[Any] = []
        cursor = ""
        while cursor is not None:
            page = limited.api.get(f"/v1/posts?limit=2{query}&cursor={cursor}").json()
            found, cursor = found + page["data"], page["nextCursor"]
        assert found == [post for post in whole if post["accountId"] in accounts[1:3]], query


def test_a_replay_shows_no_account_of_another_key(
    server: AppServer, alice: Person, listed: Person, second: str
) -> None:
    later = format_instant(server.clock.now_ms() + 3_600_000)
    body = {"targets": [{"platform": "instagram"}], "text": "hello", "scheduledAt": later}
    body |= {"media": [{"kind": "image", "url": "https://example.com/a.jpg"}]}
    first = alice.api.publish(body, "once")
    assert first.status_code == 202
    answer = listed.api.publish(body, "once")
    assert error_of(answer)["rule"] == "target.account.not_connected"
    post = first.json()["results"][0]["postId"]
    assert alice.api.delete(f"/v1/posts/{post}", headers={"Idempotency-Key": "gone"}).status_code == 200
    assert listed.api.delete(f"/v1/posts/{post}", headers={"Idempotency-Key": "gone"}).status_code == 404
    twin = server.limited(alice, accounts=[alice.bluesky])
    mine = to(alice.bluesky, scheduledAt=later)
    assert twin.api.publish(mine, "mine").content == listed.api.publish(mine, "mine").content  # as after a rotation
    assert len(server.rows(Post)) == 2


def test_endpoints_of_a_limited_key_get_the_events_of_its_accounts(
    server: AppServer, alice: Person, listed: Person, second: str, sink: WebhookReceiver
) -> None:
    whole, own = register_endpoint(alice, f"{sink.url}/all"), register_endpoint(listed, f"{sink.url}/own")
    channel = add_channel(listed, {"kind": "slack", "url": f"{sink.url}/channel"}, events=["post.queued"])
    foreign = add_channel(alice, {"kind": "slack", "url": f"{sink.url}/chat"}, events=["post.queued"])
    assert (own["accounts"], whole["accounts"]) == ([alice.bluesky], None)
    assert (channel["accounts"], foreign["accounts"]) == ([alice.bluesky], None)
    later = format_instant(server.clock.now_ms() + 3_600_000)
    picture = [{"kind": "image", "url": "https://example.com/a.jpg"}]
    assert alice.api.publish(to(alice.bluesky, second, scheduledAt=later, media=picture)).status_code == 202
    server.limited(alice, expiresAt=format_instant(server.clock.now_ms() + 8 * DAY * 1000))
    assert wait_for(lambda: len(sink.got) >= 8, 30)
    to_own = [call.event for call in sink.got if call.path.endswith("/own")]
    assert {event["data"]["accountId"] for event in to_own} == {alice.bluesky}
    assert {event["type"] for event in to_own} == {"post.queued", "post.validated"}
    assert len([call for call in sink.got if call.path.endswith("/all")]) == 4
    assert (ids(listed, ENDPOINTS), ids(listed, CHANNELS)) == ({own["id"]}, {channel["id"]})
    assert {row["endpointId"] for row in list_deliveries(listed)} == {own["id"]}
    assert {row["channelId"] for row in listed.api.get("/v1/notifications").json()["data"]} == {channel["id"]}
    theirs = next(row["id"] for row in list_deliveries(alice) if row["endpointId"] == whole["id"])
    with unchanged(server):
        for path in (
            f"{ENDPOINTS}/{whole['id']}",
            f"{CHANNELS}/{foreign['id']}",
            f"{DELIVERIES}/{theirs}",
            f"{DELIVERIES}?endpointId={whole['id']}",
            f"/v1/notifications?channelId={foreign['id']}",
        ):
            assert listed.api.get(path).status_code == 404, path
        assert listed.api.post(f"{DELIVERIES}/{theirs}/redeliver").status_code == 404
        assert listed.api.delete(f"{ENDPOINTS}/{whole['id']}").status_code == 404
    browser = sign_in(server, alice.organization)
    for path in (f"/webhooks/{own['id']}", f"/settings/notifications/{channel['id']}", "/settings/notifications"):
        assert "the whole organization, only 1 account<" in browser.get(path).text, path
    wider = server.limited(alice, accounts=[alice.bluesky, second])
    assert ids(wider, ENDPOINTS) == {own["id"]}  # its list contains the endpoint's


def test_draft_events_are_seen_by_keys_for_all_its_accounts(
    alice: Person, listed: Person, second: str, sink: WebhookReceiver
) -> None:
    register_endpoint(listed, f"{sink.url}/own")
    add_channel(listed, {"kind": "slack", "url": f"{sink.url}/channel"}, events=["draft.proposed"])
    accounts = ([second], [alice.bluesky, second], [], [alice.bluesky])
    drafts = [new_draft(alice.api, targets=[{"accountId": account} for account in named])["id"] for named in accounts]
    for draft in drafts:
        assert alice.api.post(f"/v1/drafts/{draft}/propose").is_success
    seen = listed.api.get("/v1/events").json()["data"]
    assert [event["data"]["id"] for event in seen] == drafts[2:] == [d for d in drafts if can_read(listed, d)]
    for event in alice.api.get("/v1/events").json()["data"]:
        answer = listed.api.get("/v1/events", params={"cursor": event["id"]})
        assert answer.is_success == (event in seen)
    assert wait_for(lambda: len([call for call in sink.got if call.path.endswith("/own")]) >= 2, 30)
    delivered = [call.event for call in sink.got if call.path.endswith("/own")]
    assert sorted(delivered, key=lambda event: event["id"]) == seen
    assert len(listed.api.get("/v1/notifications").json()["data"]) == 2


def test_no_draft_is_approved_or_shared_for_other_accounts(alice: Person, listed: Person, second: str) -> None:
    draft = new_draft(alice.api, text="x", targets=[{"platform": "instagram"}])["id"]
    path = f"/v1/drafts/{draft}"
    tag = listed.api.get(path).headers["ETag"]  # its target is not resolved for a reader
    for answer in (listed.api.post(f"{path}/approve", headers={"If-Match": tag}), listed.api.post(f"{path}/link")):
        assert (answer.status_code, error_of(answer)["code"]) == (404, "not_found")
        assert second not in answer.text
    approve_draft(alice.api, draft)
    mine = new_draft(alice.api, text="x", targets=[{"platform": "bluesky"}])["id"]
    approve_draft(listed.api, mine)
    assert listed.api.post(f"/v1/drafts/{mine}/link").is_success


def can_read(person: Person, draft: str) -> bool:
    return person.api.get(f"/v1/drafts/{draft}").status_code == 200


def test_events_of_no_account_are_seen_by_every_key(server: AppServer, alice: Person, listed: Person) -> None:
    server.limited(alice, name="ending", expiresAt=format_instant(server.clock.now_ms() + 30 * DAY * 1000))
    server.clock.skip(29.5 * DAY)
    key_expiry.notify_due(server.service)
    (event,) = listed.api.get("/v1/events").json()["data"]
    assert (event["type"], event["data"]["name"]) == ("key.expiring", "ending")


def test_stored_limits_are_plain_json(server: AppServer, alice: Person) -> None:
    key = server.limited(alice, scopes=["webhooks", "media"], accounts=[alice.bluesky])
    (row,) = server.rows(ApiKey, id=key.key_id)
    assert json.loads(row["scopes"]) == ["media", "webhooks"]
    assert json.loads(row["accounts"]) == [alice.bluesky]
