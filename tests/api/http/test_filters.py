"""Query filters of lists and single resources, and empty filter values."""

from __future__ import annotations

from typing import Any

import pytest

from socialpub.store.schema.models import Account
from tests.support.app_server import UNKNOWN_ID, ApiClient, AppServer, Person, error_of, unchanged
from tests.support.openapi_document import DOCUMENT
from tests.support.openapi_judge import sign_in
from tests.support.request_cast import RequestCast
from tests.support.resource_requests import RESOURCE_REQUESTS, ResourceRequest

# --- Accounts ------------------------------------------------------------------------------------------------------


@pytest.fixture
def many(server: AppServer, alice: Person, bob: Person) -> Person:
    """Alice, with an expiring X account and a revoked Facebook Page beside her and Bob's Bluesky accounts."""
    for platform, status in (("twitter", "expiring"), ("facebook", "revoked")):
        made = server.connect(alice, platform)["id"]
        server.service.write(
            lambda tx, made=made, status=status: Account.update(status=status).where(Account.id == made).execute()
        ).result()
    return alice


def listed(person: Person, query: str) -> list[tuple[str, str]]:
    """(platform, owner) of each account that a query shows."""
    answer = person.api.get(f"/v1/accounts?{query}")
    assert answer.status_code == 200, answer.text
    return [(row["platform"], row["displayName"].split()[0]) for row in answer.json()["data"]]


def test_accounts_are_filtered_by_profile_platform_and_status(many: Person, bob: Person) -> None:
    for query, shown in (
        ("", ["bluesky", "bluesky", "twitter", "facebook"]),
        ("platform=bluesky", ["bluesky", "bluesky"]),
        ("platform=twitter,facebook", ["twitter", "facebook"]),
        ("platform=twitter&platform=facebook", ["twitter", "facebook"]),
        ("platform[]=twitter", ["twitter"]),
        ("platform=threads", []),
        ("status=active", ["bluesky", "bluesky"]),
        ("status=expiring,revoked", ["twitter", "facebook"]),
        ("status=active&platform=twitter", []),
        ("profileId={alice}&platform=bluesky", ["bluesky"]),
        ("profileId={bob}", ["bluesky"]),
        ("profileId={bob}&status=revoked", []),
        (f"profileId={UNKNOWN_ID}", []),
        ("profileId=not-an-id", []),
        ("profileId=", []),
        ("profileId=&platform=bluesky", []),
    ):
        asked = query.format(alice=many.profile, bob=bob.profile)
        assert [platform for platform, _ in listed(many, asked)] == shown, query


def test_an_empty_profile_shows_a_bound_key_nothing_either(bob: Person) -> None:
    assert bob.api.get("/v1/accounts?profileId=").json() == {"data": []}
    assert len(bob.api.get(f"/v1/accounts?profileId={bob.profile.upper()}").json()["data"]) == 1
    assert len(bob.api.get("/v1/accounts").json()["data"]) == 1


# --- Empty values --------------------------------------------------------------------------------------------------

POST_FILTERS = ["platform", "status", "errorCode", "limit", "q", "after", "before", "profileId", "batchId", "accountId"]
POST_FILTERS += ["scheduledAfter", "scheduledBefore", "order", "externalId", "externalIdPrefix"]


def test_an_empty_filter_is_refused_by_name(subtests: pytest.Subtests, alice: Person) -> None:
    for path, name in [
        *(("/v1/posts", name) for name in POST_FILTERS),
        *(("/v1/media", name) for name in ("limit", "profileId", "sha256")),
        *(("/v1/accounts", name) for name in ("platform", "status")),
        (f"/v1/posts/{UNKNOWN_ID}", "profileId"),
        (f"/v1/accounts/{UNKNOWN_ID}", "profileId"),
        ("/v1/media/med_0000000000000000000001", "profileId"),
    ]:
        with subtests.test(path=path, name=name):
            answer = alice.api.get(f"{path}?{name}=")
            error = error_of(answer)
            assert (answer.status_code, error["code"]) == (400, "validation_failed")
            assert error["rule"].partition(".")[0] == name


@pytest.mark.parametrize("path", ["/v1/posts", "/v1/media"])
def test_an_empty_cursor_is_as_if_absent(alice: Person, path: str) -> None:
    answer = alice.api.get(f"{path}?cursor=&limit=1")
    assert (answer.status_code, answer.json()["nextCursor"]) == (200, None)


def test_every_paged_list_takes_pages_of_1_to_200(subtests: pytest.Subtests, alice: Person) -> None:
    paths = [path for path, operations in DOCUMENT["paths"].items() if has_limit(operations.get("get", {}))]
    assert len(paths) >= 7, paths
    for path in paths:
        with subtests.test(path=path):
            statuses = [alice.api.get(path, params={"limit": limit}).status_code for limit in (0, 1, 200, 201)]
            assert statuses == [400, 200, 200, 400]


def has_limit(operation: dict[str, Any]) -> bool:
    return any(parameter.get("name") == "limit" for parameter in operation.get("parameters", ()))


# --- One resource ----------------------------------------------------------------------------------------------------

# Requests whose body names what they are about are narrowed by the body's own `profileId`.
BY_PATH = [
    touch for touch in RESOURCE_REQUESTS if touch.name not in ("publish to an account", "validate for an account")
]


def asked_with(person: Person, touch: ResourceRequest, resource: str, profile: str) -> Any:
    """What the person is answered when the request also names a profile."""
    person.api.params = person.api.params.set("profileId", profile)
    try:
        return touch.send(person, resource)
    finally:
        person.api.params = person.api.params.remove("profileId")


@pytest.mark.parametrize("touch", BY_PATH, ids=str)
def test_one_resource_is_narrowed_by_its_profile(touch: ResourceRequest, world: RequestCast) -> None:
    alice, bob = world.alice, world.bob
    hers, his = touch.make(world, alice), touch.make(world, bob)
    with unchanged(world.server):
        for profile, resource in ((bob.profile, hers), (alice.profile, his), (UNKNOWN_ID, hers)):
            assert asked_with(alice, touch, resource, profile).status_code == 404
        foreign = asked_with(bob, touch, his, alice.profile)
        assert (foreign.status_code, error_of(foreign)["rule"]) == (404, "api_key.profile_scope")
        assert asked_with(alice, touch, hers, "not-an-id").status_code == 400
        assert asked_with(alice, touch, hers, "").status_code == 400
    mine = touch.status if touch.in_profile else 404  # an endpoint of the whole organization is not the profile's
    assert asked_with(alice, touch, hers, alice.profile).status_code == mine
    same = his.upper() if len(his) == len(UNKNOWN_ID) else his  # only a UUID is the same in capitals
    assert asked_with(bob, touch, same, bob.profile.upper()).status_code == touch.status


def test_an_ambiguous_platform_names_its_candidates_to_programs(world: RequestCast) -> None:
    second = world.server.connect(world.alice, "bluesky", "second")
    answer = world.post(targets=[{"platform": "bluesky"}], profileId=world.alice.profile)
    error = error_of(answer)
    assert error["rule"] == "target.account.ambiguous"
    first = world.alice.accounts["bluesky"]
    assert error["platformResponse"] == {
        "candidates": [{"id": row["id"], "displayName": row["displayName"]} for row in (first, second)]
    }


# --- What only people change -----------------------------------------------------------------------------------------


@pytest.fixture
def browser(world: RequestCast) -> ApiClient:
    """The owner of Alice's organization, signed in."""
    return world.server.api(**sign_in(world.server, world.alice))


def test_what_people_change_is_narrowed_by_its_profile_too(world: RequestCast, browser: ApiClient) -> None:
    alice, bob = world.alice, world.bob
    addresses = [f"/v1/accounts/{alice.bluesky}", f"/v1/api-keys/{alice.key_id}", f"/v1/profiles/{alice.profile}"]
    with unchanged(world.server):
        for address in addresses:
            assert browser.delete(address, params={"profileId": bob.profile}).status_code == 404
        renamed = browser.patch(addresses[2], params={"profileId": bob.profile}, json={"name": "New"})
        assert renamed.status_code == 404
    for address in (f"/v1/accounts/{bob.bluesky}", f"/v1/api-keys/{bob.key_id}", f"/v1/profiles/{bob.profile}"):
        assert browser.delete(address, params={"profileId": bob.profile}).status_code == 200
