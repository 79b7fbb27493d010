"""Deleted organization: no more requests, posts or events, and others unaffected."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from socialpub.base.errors import ApiError, Outcome
from socialpub.domain import organization_deletion
from socialpub.domain.access import actions
from socialpub.domain.access.actor import Actor, build_operator
from socialpub.domain.access.authentication import Scope
from socialpub.domain.accounts import accounts, connect
from socialpub.domain.identity import api_keys, members, users
from socialpub.domain.media import files
from socialpub.domain.organizations import billing, name_lookup, profiles
from socialpub.domain.schemas.api_keys import KeyRequest
from socialpub.domain.schemas.billing import SubscriptionFacts
from socialpub.domain.schemas.profiles import OrganizationRequest, ProfileRequest
from socialpub.platforms.bluesky import connector as bluesky
from socialpub.store.schema.models import (
    TABLES,
    Account,
    ApiKey,
    AuditEntry,
    AuthorizationCode,
    Intent,
    Invitation,
    Media,
    NotificationChannel,
    Organization,
    PlanToken,
    Profile,
    RemovedUser,
    Session,
    User,
    WebhookDelivery,
    WebhookEndpoint,
)
from tests.support.app_server import AppServer, Person
from tests.support.connect_flow import sign_in
from tests.support.media_files import picture
from tests.support.media_uploads import stored_files, stored_media, wait_until
from tests.support.post_drafts import new_draft
from tests.support.publishing_state import schedule_post
from tests.support.request_cast import RequestCast
from tests.support.webhook_endpoints import register_endpoint
from tests.support.webhook_receiver import WebhookReceiver

CHANNELS = "/v1/notification-channels"
SHARED, OWN = picture(), picture(size=(40, 30))


def deleting(server: AppServer, person: Person) -> Actor:
    return build_operator(server.service, "test").within(person.organization)


def delete(server: AppServer, person: Person) -> dict[str, Any]:
    return dict(actions.perform_sync(deleting(server, person), organization_deletion.delete))


def belonging(server: AppServer, person: Person) -> dict[str, Any]:
    """Every row of an organization, but what each use of it changes."""
    whose = [table for table in TABLES if "organization" in table._meta.fields]
    found = {table.__name__: server.rows(table, organization=person.organization) for table in whose}
    found["Organization"] = server.rows(Organization, id=person.organization)
    found["ApiKey"] = [row | {"last_used_at": None} for row in found["ApiKey"]]
    return found


def furnish(server: AppServer, person: Person, sink: WebhookReceiver) -> httpx.Client:
    """Something of every kind; a browser of the owner."""
    register_endpoint(person, f"{sink.url}/{person.name}")
    to = {"to": {"kind": "slack", "url": f"{sink.origin}/services/T0/B0/a-path-of-a-test"}}
    assert person.api.post(CHANNELS, json=to).status_code == 201
    for data in (SHARED, picture(size=(50, 10 + len(person.name)))):
        stored_media(person.api, data)
    browser = sign_in(server, person.organization, name=person.name.lower())
    (owner,) = server.rows(User, organization=person.organization)
    who = deleting(server, person)
    inviter = who._replace(scope=Scope(person.organization, user=owner["id"]))
    server.service.write(
        lambda tx: members.invite(tx, inviter, f"guest-{person.name.lower()}@x.test", "member")
    ).result()
    request = KeyRequest(name="bound", profileId=person.profile)  # type: ignore[call-arg]
    server.service.write(lambda tx: api_keys.create(tx, who, request)).result()
    return browser


@pytest.fixture
def two(server: AppServer, alice: Person, charlie: Person, sink: WebhookReceiver) -> tuple[httpx.Client, httpx.Client]:
    """The browsers of the owners of two organizations, each with something of every kind."""
    return furnish(server, alice, sink), furnish(server, charlie, sink)


# --- What it ends ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_a_deletion_ends_is_counted_before(
    server: AppServer, alice: Person, two: tuple[httpx.Client, httpx.Client]
) -> None:
    schedule_post(server, alice)
    new_draft(alice.api)
    planned = server.service.read(
        lambda: organization_deletion.plan_deletion(server.service, alice.organization)
    ).result()
    assert planned["ends"] == {
        "accounts": 1,
        "posts": 1,
        "drafts": 1,
        "keys": 2,
        "webhooks": 1,
        "channels": 1,
        "members": 1,
        "sessions": 1,
        "invitations": 1,
        "profiles": 1,
        "mediaFiles": 2,
        "mediaBytes": sum(row["size_bytes"] for row in server.rows(Media, organization=alice.organization)),
        "publishing": 0,
        "subscriptions": 0,
    }
    lines = organization_deletion.format_lines(planned["ends"])
    assert len(lines) == 11
    assert lines[0] == "1 connected account: its tokens are deleted."
    assert delete(server, alice)["ends"] == planned["ends"]
    with pytest.raises(ApiError) as caught:
        server.service.read(lambda: organization_deletion.plan_deletion(server.service, alice.organization)).result()
    assert caught.value.code == "not_found"


def test_nothing_of_it_comes_in_any_more(
    server: AppServer, alice: Person, charlie: Person, two: tuple[httpx.Client, httpx.Client]
) -> None:
    mine, theirs = two
    bound = server.person("Bound", organization=alice.organization, bound=True)
    for person in (alice, charlie):
        body = {"targets": [{"accountId": person.bluesky}], "text": "a plan", "plan": True}
        assert person.api.post("/v1/posts/validate", json=body).json()["plan"]
    code = {"user": "", "client": "", "redirect_uri": "", "challenge": "", "request": "", "created_at": 0, "ends_at": 0}
    for who in (alice, charlie):
        row = code | {"id": who.name, "organization": who.organization}
        server.service.write(lambda tx, row=row: AuthorizationCode.insert(row).execute()).result()
    delete(server, alice)
    assert [row["organization"] for row in server.rows(PlanToken)] == [charlie.organization]
    assert [row["organization"] for row in server.rows(AuthorizationCode)] == [charlie.organization]
    for person in (alice, bound):
        assert person.api.get("/v1/posts").status_code == 401
        assert person.api.post("/v1/posts/validate", json={}).status_code == 401
    assert mine.get("/settings").headers["Location"].startswith("/login")
    assert mine.post("/v1/profiles", json={"name": "x"}).status_code == 401
    assert server.rows(User, organization=alice.organization) == []
    assert server.rows(Invitation, organization=alice.organization) == []
    assert [row["email"] for row in server.rows(RemovedUser)] == ["alice@x.test"]
    assert {row["revoked_at"] is None for row in server.rows(ApiKey, organization=alice.organization)} == {False}
    assert {row["deleted_at"] is None for row in server.rows(Profile, organization=alice.organization)} == {False}
    assert [row["id"] for row in server.service.read(profiles.list_organizations).result()] == [charlie.organization]
    assert charlie.api.get("/v1/posts").status_code == 200
    assert theirs.get("/settings").status_code == 200


@pytest.mark.parametrize(
    "verb",
    [
        lambda tx, who: profiles.create(tx, who, ProfileRequest(name="x")),
        lambda tx, who: api_keys.create(tx, who, KeyRequest(name="x")),
        lambda tx, who: users.create(tx, who, "late@x.test", "owner", "hash"),
        lambda tx, who: profiles.rename_organization(tx, who, OrganizationRequest(name="x")),
        lambda tx, who: billing.set_tier(tx, who, who.scope.organization, "pro"),
        organization_deletion.delete,
    ],
    ids=["profile", "key", "user", "rename", "tier", "delete"],
)
def test_an_operator_who_looked_it_up_before_adds_nothing_to_it(
    server: AppServer, alice: Person, verb: Callable[..., Any]
) -> None:
    delete(server, alice)
    before = belonging(server, alice)
    with pytest.raises(ApiError) as caught:
        actions.perform_sync(deleting(server, alice), verb)
    assert caught.value.code == "not_found"
    assert belonging(server, alice) == before
    with pytest.raises(ApiError):
        server.service.read(lambda: name_lookup.find_organization(alice.organization)).result()


def test_a_notice_of_its_subscription_changes_nothing(server: AppServer, alice: Person) -> None:
    facts = SubscriptionFacts.model_construct(status="active", variant_id="1")
    notice = billing.BillingNotice("subscription_created", alice.organization, "s-1", 1, facts)
    assert server.service.read(lambda: billing.is_relevant(notice)).result()
    delete(server, alice)
    assert not server.service.read(lambda: billing.is_relevant(notice)).result()


def test_nothing_of_it_goes_out_any_more(
    server: AppServer, alice: Person, charlie: Person, sink: WebhookReceiver, two: tuple[httpx.Client, httpx.Client]
) -> None:
    mine, theirs = schedule_post(server, alice), schedule_post(server, charlie)
    media = alice.api.get("/v1/media").json()["data"]
    told = len(server.rows(WebhookDelivery, organization=alice.organization))
    server.lab.lab.calls.clear()
    delete(server, alice)
    called = [call.operation for call in server.lab.lab.calls]
    assert called == ["com.atproto.server.deleteSession"]  # its authorization has ended at the platform
    (row,) = server.rows(Account, organization=alice.organization)
    assert (row["secret"], row["disconnected_at"] is None) == (None, False)
    for table in (WebhookEndpoint, NotificationChannel):
        assert [row["secret"] for row in server.rows(table, organization=alice.organization)] == [""]
    assert server.wait(mine, "canceled")
    assert [type_ for type_, _ in server.events(mine)][-1] == "post.canceled"
    assert [job["key"] for job in server.jobs() if job["key"] == mine] == []
    server.skip(3700)
    server.wait(theirs, "published")
    assert [row["status"] for row in server.rows(id=mine)] == ["canceled"]
    assert len(server.lab.lab.ledger.entries("bluesky")) == 1
    assert len(server.rows(WebhookDelivery, organization=alice.organization)) == told
    for each in media:
        assert server.api().get(each["url"]).status_code == 404


def test_its_media_files_go_with_the_clean_up_and_those_of_others_stay(
    server: AppServer, alice: Person, charlie: Person, two: tuple[httpx.Client, httpx.Client]
) -> None:
    left = {row["sha256"] for row in server.rows(Media, organization=charlie.organization)}
    own = {row["sha256"] for row in server.rows(Media, organization=alice.organization)} - left
    assert (len(left), len(own)) == (2, 1)
    delete(server, alice)
    assert files.clean_up(server.service) == 1
    assert set(stored_files(server)) == left
    assert [one["sha256"] in left for one in charlie.api.get("/v1/media").json()["data"]] == [True, True]


def test_another_organization_is_not_touched(
    server: AppServer, alice: Person, charlie: Person, two: tuple[httpx.Client, httpx.Client]
) -> None:
    schedule_post(server, alice), schedule_post(server, charlie)
    wait_until(lambda: {row["status"] for row in server.rows(WebhookDelivery)} == {"succeeded"})
    before = belonging(server, charlie)
    assert all(before[name] for name in ("Post", "Account", "ApiKey", "WebhookEndpoint", "Media", "User", "Invitation"))
    sessions = server.rows(Session)
    delete(server, alice)
    server.wait(server.rows(organization=alice.organization)[0]["id"], "canceled")
    assert belonging(server, charlie) == before
    assert len(server.rows(Session)) == len(sessions) - 1


def test_the_act_is_in_the_log_and_the_published_posts_stay_on_record(world: RequestCast) -> None:
    post = world.published()
    history = world.server.events(post)
    delete(world.server, world.alice)
    (row,) = world.server.rows(AuditEntry, verb="test")
    assert (row["organization"], row["subject"]) == (world.alice.organization,) * 2
    assert [row["status"] for row in world.server.rows(id=post)] == ["published"]
    assert world.server.events(post) == history


def test_its_people_may_join_another_and_an_empty_server_offers_set_up(server: AppServer, alice: Person) -> None:
    sign_in(server, alice.organization)
    delete(server, alice)
    assert users.create_setup_token(server.service) is not None
    other = server.person("Other")
    who = deleting(server, other)
    server.service.write(lambda tx: users.create(tx, who, "alice@x.test", "owner", "hash")).result()
    assert users.create_setup_token(server.service) is None


# --- Queued posts ----------------------------------------------------------------------------------------------------


def test_many_queued_posts_are_canceled_by_a_job(
    server: AppServer, alice: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accounts, "CANCEL_BATCH", 2)
    second = server.connect_bluesky(alice, "second")["id"]
    posts = [
        schedule_post(server, alice, targets=[{"accountId": account}])
        for account in (alice.bluesky, second)
        for _ in range(3)
    ]
    delete(server, alice)
    for post in posts:
        server.wait(post, "canceled")
        assert [type_ for type_, _ in server.events(post)].count("post.canceled") == 1
    assert server.service.read(accounts.count_uncanceled).result() == 0


def test_posts_waiting_for_a_reconnection_are_canceled_too(server: AppServer, alice: Person) -> None:
    post = schedule_post(server, alice)
    actions.perform_sync(deleting(server, alice), connect.disconnect, alice.bluesky, keep=True)
    assert server.rows(id=post)[0]["status"] == "queued"
    assert delete(server, alice)["ends"]["posts"] == 1
    server.wait(post, "canceled")


# --- What is being published -----------------------------------------------------------------------------------------


def test_it_is_not_deleted_while_a_post_of_it_is_being_published(
    world: RequestCast, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, alice = world.server, world.alice
    sending, goes_on, real = threading.Event(), threading.Event(), bluesky.send

    def held(*args: Any) -> Any:
        sending.set()
        assert goes_on.wait(30)
        return real(*args)

    monkeypatch.setattr(bluesky, "send", held)
    answers: list[Any] = []
    sender = threading.Thread(target=lambda: answers.append(world.post().json()))
    sender.start()
    assert sending.wait(30)
    before = {name: rows for name, rows in belonging(server, alice).items() if name != "Idempotency"}
    with pytest.raises(ApiError) as caught:
        delete(server, alice)
    assert (caught.value.status, caught.value.message) == (
        409,
        "1 post is being published, or the outcome is unknown. Nothing was deleted.",
    )
    assert {name: rows for name, rows in belonging(server, alice).items() if name != "Idempotency"} == before
    planned = server.service.read(
        lambda: organization_deletion.plan_deletion(server.service, alice.organization)
    ).result()
    assert organization_deletion.format_lines(planned["ends"])[-1] == (
        "1 post is being published, or the outcome is unknown: it can be deleted after that is finished."
    )
    goes_on.set()
    sender.join(30)
    assert answers[0]["results"][0]["status"] == "published"
    assert len(server.lab.lab.ledger.entries("bluesky")) == 1
    delete(server, alice)
    assert [row["status"] for row in server.rows()] == ["published"]


def test_it_is_not_deleted_while_it_is_not_known_whether_a_post_went_out(
    world: RequestCast, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, alice, real = world.server, world.alice, bluesky.send

    def lost(*args: Any) -> Any:
        real(*args)
        raise ApiError("platform_unavailable", "lost", outcome=Outcome.AMBIGUOUS)

    def silent(*args: Any) -> Any:
        raise ApiError("platform_unavailable", "silent", outcome=Outcome.AMBIGUOUS)

    with monkeypatch.context() as broken:
        broken.setattr(bluesky, "send", lost)
        broken.setattr(bluesky, "settle", silent)
        post = schedule_post(server, alice, seconds=61)
        server.skip(62)
        wait_until(lambda: [(row["outcome"], row["sends"] > 0) for row in server.rows(Intent)] == [(None, True)])
        with pytest.raises(ApiError) as caught:
            delete(server, alice)
        assert caught.value.status == 409
    server.skip(3600)
    server.wait(post, "published")
    assert len(server.lab.lab.ledger.entries("bluesky")) == 1
    assert delete(server, alice)["deleted"] is True
