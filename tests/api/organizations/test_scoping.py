"""Scopes of keys and sessions: resources outside them look like unknown ids."""

from __future__ import annotations

import itertools
import re
import zlib
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from socialpub.base.security import crypto
from socialpub.domain.access import authentication
from socialpub.domain.access.actor import build_operator
from socialpub.domain.access.authentication import SESSION_IDLE_MS
from socialpub.domain.identity import api_keys
from socialpub.domain.schemas.api_keys import KeyRequest
from socialpub.store.engine import sql
from socialpub.store.queries.authentication import FIND_KEY_BY_DIGEST
from socialpub.store.schema.models import ApiKey, Session, User
from socialpub.web import app as web_app
from socialpub.web.api import profiles
from socialpub.web.http.handler import HandlerResponse, RequestContext, Route
from socialpub.web.routes import ROUTES
from tests.support.app_server import UNKNOWN_ID, ApiClient, AppServer, error_of, unchanged
from tests.support.chat_servers import CHANNELS
from tests.support.post_outcomes import queued, stored
from tests.support.request_cast import RequestCast
from tests.support.resource_requests import RESOURCE_REQUESTS, ResourceRequest, to
from tests.support.route_addresses import route_address
from tests.support.webhook_endpoints import DELIVERIES, ENDPOINTS

# --- Endpoint by owner ---

OF_ANY_TWO = {"x-request-id", "date", "ratelimit-remaining", "ratelimit", "ratelimit-reset"}


def shape(answer: httpx.Response, id_: str) -> tuple[int, str, list[tuple[str, str]]]:
    """What a caller can see of an answer, its headers too, without what differs between any two."""
    error = dict(error_of(answer))
    error.pop("requestId")
    headers = dict(answer.headers)
    # The length is that of the body, in which the id stands, or it does not.
    headers["content-length"] = str(int(headers["content-length"]) - len(id_) * answer.text.count(id_))
    kept = sorted((name, value) for name, value in headers.items() if name not in OF_ANY_TWO)
    return answer.status_code, str(sorted(error.items())).replace(id_, "<id>"), kept


@pytest.mark.parametrize("touch", RESOURCE_REQUESTS, ids=str)
def test_what_is_not_the_callers_looks_like_what_nobody_has(touch: ResourceRequest, world: RequestCast) -> None:
    ids = {person.name: touch.make(world, person) for person in (world.alice, world.bob, world.charlie)}
    foreign = [(world.bob, "Alice"), (world.bob, "Charlie"), (world.alice, "Charlie"), (world.charlie, "Alice")]
    with unchanged(world.server):
        for person, owner in foreign:
            random = touch.send(person, UNKNOWN_ID)
            assert (random.status_code, error_of(random)["code"]) == (404, "not_found")
            assert shape(touch.send(person, ids[owner]), ids[owner]) == shape(random, UNKNOWN_ID), (person.name, owner)
    for person, owner in ((world.bob, "Bob"), (world.charlie, "Charlie"), (world.alice, "Alice")):
        assert touch.send(person, ids[owner]).status_code == touch.status, person.name


@pytest.mark.slow
def test_an_org_wide_key_reaches_every_profile_of_its_organization(
    subtests: pytest.Subtests, world: RequestCast
) -> None:
    for touch in [touch for touch in RESOURCE_REQUESTS if "validate" not in touch.name]:
        with subtests.test(touch=touch):
            assert touch.send(world.alice, touch.make(world, world.bob)).status_code == touch.status


def test_lists_hold_what_is_the_callers_and_no_more(world: RequestCast) -> None:
    posts = {person.name: queued(world, person) for person in (world.alice, world.bob, world.charlie)}
    seen = {
        "Alice": {posts["Alice"], posts["Bob"]},
        "Bob": {posts["Bob"]},
        "Charlie": {posts["Charlie"]},
    }
    for person in (world.alice, world.bob, world.charlie):
        assert {row["id"] for row in person.api.get("/v1/posts").json()["data"]} == seen[person.name]
    accounts = {
        p.name: {row["id"] for row in p.api.get("/v1/accounts").json()["data"]} for p in (world.alice, world.bob)
    }
    assert accounts == {"Alice": {world.alice.bluesky, world.bob.bluesky}, "Bob": {world.bob.bluesky}}
    names = {p.name: [row["id"] for row in p.api.get("/v1/profiles").json()["data"]] for p in (world.alice, world.bob)}
    assert names == {"Alice": [world.alice.profile, world.bob.profile], "Bob": [world.bob.profile]}


def test_a_profile_narrows_lists_and_a_foreign_one_is_not_found(world: RequestCast) -> None:
    mine = queued(world, world.alice)
    queued(world, world.bob)
    found = world.alice.api.get("/v1/posts", params={"profileId": world.alice.profile}).json()["data"]
    assert [row["id"] for row in found] == [mine]
    for profile in (world.charlie.profile, UNKNOWN_ID):
        assert world.alice.api.get("/v1/posts", params={"profileId": profile}).status_code == 404
        assert world.alice.api.get("/v1/accounts", params={"profileId": profile}).json() == {"data": []}
        assert world.alice.api.publish(to(world.alice.bluesky, profileId=profile)).status_code == 404


def test_a_bound_key_that_names_another_profile_is_told_its_rule(world: RequestCast) -> None:
    for profile in (world.alice.profile, world.charlie.profile, UNKNOWN_ID):
        answer = world.bob.api.get("/v1/posts", params={"profileId": profile})
        assert (answer.status_code, error_of(answer)["rule"]) == (404, "api_key.profile_scope")
        assert world.bob.api.get("/v1/accounts", params={"profileId": profile}).json() == {"data": []}
    assert world.bob.api.get("/v1/posts", params={"profileId": world.bob.profile}).status_code == 200


def test_account_of_another_profile_is_no_target_of_this_batch(world: RequestCast) -> None:
    answer = world.alice.api.publish(to(world.bob.bluesky, profileId=world.alice.profile))
    assert answer.status_code == 404


def test_media_of_another_profile_or_organization_is_unknown(world: RequestCast) -> None:
    asset = stored(world)
    for person in (world.bob, world.charlie):
        answer = person.api.publish(to(person.bluesky, media=[asset]))
        assert (answer.status_code, error_of(answer)["rule"]) == (404, "media.unknown")
    # An org-wide key may name it only for an account of its profile.
    assert error_of(world.alice.api.publish(to(world.bob.bluesky, media=[asset])))["rule"] == "media.unknown"
    assert world.alice.api.publish(to(world.alice.bluesky, media=[asset])).status_code == 200


def test_one_organizations_activity_writes_nothing_into_anothers(world: RequestCast) -> None:
    world.charlie.api.publish(to(world.charlie.bluesky))
    assert {event.organization for event in world.server.happened()} == {world.charlie.organization}


# --- Keys ---


def test_a_revoked_key_stops_at_the_next_request(world: RequestCast) -> None:
    world.server.service.write(
        lambda tx: ApiKey.update(revoked_at=1).where(ApiKey.id == world.alice.key_id).execute()
    ).result()
    for answer in (world.alice.api.get("/v1/posts"), world.post()):
        assert (answer.status_code, error_of(answer)["code"]) == (401, "unauthenticated")
    assert world.bob.api.get("/v1/posts").status_code == 200


def test_a_mistyped_key_is_refused_without_a_look_into_the_database(
    world: RequestCast, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []
    monkeypatch.setattr(authentication, "_find_key", lambda digest: looked.append(digest))
    key = world.alice.key
    for wrong, looks in ((key[:-1] + ("0" if key[-1] != "0" else "1"), 0), (key, 1)):
        assert world.server.api(wrong).get("/v1/posts").status_code == 401
        assert len(looked) == looks


def test_the_last_use_of_a_key_is_written_once_a_minute(world: RequestCast) -> None:
    world.alice.api.get("/v1/posts")
    first = used(world)
    world.server.clock.skip(30)
    world.alice.api.get("/v1/posts")
    assert used(world) == first
    world.server.clock.skip(31)
    world.alice.api.get("/v1/posts")
    world.server.service.write(lambda tx: None).result()
    assert used(world) > first


def used(world: RequestCast) -> int:
    world.server.service.write(lambda tx: None).result()
    return int(world.server.rows(ApiKey, id=world.alice.key_id)[0]["last_used_at"])


def test_live_and_test_keys_do_the_same(world: RequestCast) -> None:
    key = (
        world.server.service.write(
            lambda tx: api_keys.create(
                tx,
                build_operator(world.server.service, "test").within(world.alice.organization),
                KeyRequest(name="t", prefix="svc_test_"),
            )
        )
        .result()
        .body["key"]
    )
    assert key.startswith("svc_test_")
    assert world.server.api(key).publish(world.body()).json()["status"] == "published"


# --- Sessions ---

COOKIE = "a-cookie-of-43-characters-as-sign-in-makes-it"


@pytest.fixture
def signed_in(world: RequestCast) -> ApiClient:
    return sign_in_member(world)


def sign_in_member(world: RequestCast) -> ApiClient:
    """A browser that is signed in as a member of Alice's organization, as signing in will leave it."""
    now = world.server.clock.now_ms()

    def sign_in(tx: Any) -> None:
        user = {"id": UNKNOWN_ID, "organization": world.alice.organization, "email": "a@example.com", "role": "member"}
        User.insert(**user, created_at=now).execute()
        Session.insert(
            id=crypto.digest(COOKIE),
            user=UNKNOWN_ID,
            csrf="the-token",
            created_at=now,
            seen_at=now,
            ends_at=now + SESSION_IDLE_MS,
        ).execute()

    world.server.service.write(sign_in).result()
    return world.server.api(Cookie=f"socialpub_session={COOKIE}")


READS = [route for route in ROUTES if route.guard == "read" and route.method == "GET"]
KEYED = [route for route in ROUTES if route.guard == "key"]


def test_every_read_of_the_api_takes_a_session(signed_in: Any, world: RequestCast) -> None:
    post = queued(world, world.bob)
    assert signed_in.get(f"/v1/posts/{post}").status_code == 200
    assert [row["id"] for row in signed_in.get("/v1/posts").json()["data"]] == [post]
    for route in READS:
        named = {"profileId": world.bob.profile} if route.path == "/v1/slots" else {}  # there are two profiles
        answer = signed_in.get(route_address(route.path), params=named)
        assert answer.status_code in (200, 404), route.path
        assert "RateLimit-Remaining" in answer.headers


@pytest.mark.slow
def test_a_write_with_only_a_cookie_is_unauthenticated(
    subtests: pytest.Subtests, make_server: Callable[..., AppServer], world_of: Callable[[AppServer], RequestCast]
) -> None:
    world = world_of(make_server(limits={"failed_logins": 1_000_000}))
    browser = sign_in_member(world)
    for route, headers in itertools.product(KEYED, ({}, {"X-CSRF-Token": "the-token"})):
        with subtests.test(method=route.method, path=route.path, headers=headers), unchanged(world.server):
            answer = browser.request(route.method, route_address(route.path), json=world.body(), headers=headers)
            assert (answer.status_code, error_of(answer)["code"]) == (401, "unauthenticated")


def test_a_bad_key_is_not_excused_by_a_good_cookie(signed_in: Any) -> None:
    answer = signed_in.get("/v1/posts", headers={"Authorization": "Bearer nonsense"})
    assert answer.status_code == 401


def test_a_session_ends_by_idleness_by_age_and_by_its_rows_end(signed_in: Any, world: RequestCast) -> None:
    world.server.clock.skip(SESSION_IDLE_MS / 1000 - 5)
    assert signed_in.get("/v1/posts").status_code == 200
    world.server.service.write(lambda tx: None).result()
    world.server.clock.skip(SESSION_IDLE_MS / 1000 - 5)
    assert signed_in.get("/v1/posts").status_code == 200
    world.server.clock.skip(SESSION_IDLE_MS / 1000 + 5)
    assert signed_in.get("/v1/posts").status_code == 401


def test_a_session_ends_at_its_end_however_busy(signed_in: Any, world: RequestCast) -> None:
    end = world.server.clock.now_ms() + 600_000
    world.server.service.write(lambda tx: Session.update(ends_at=end).execute()).result()
    assert signed_in.get("/v1/posts").status_code == 200
    world.server.clock.skip(601)
    assert signed_in.get("/v1/posts").status_code == 401


def test_a_cookie_that_nobody_was_given_is_unauthenticated(world: RequestCast) -> None:
    for cookie in ("x", "", COOKIE, crypto.digest(COOKIE)):
        assert world.server.api(Cookie=f"socialpub_session={cookie}").get("/v1/posts").status_code == 401


def test_looking_a_key_up_compares_digests_only(world: RequestCast) -> None:
    """Nothing that a caller chooses is compared with a secret: one look-up in an index of hashes, the same for all."""
    made = [crypto.generate_api_key("svc_live_", world.server.service.runtime.entropy) for _ in range(10)]
    near = world.alice.key[9:51] + ("1" if world.alice.key[51] == "0" else "0")
    made.append(f"svc_live_{near}{crypto.encode_base62(zlib.crc32(near.encode()), 6)}")
    assert world.alice.api.get("/v1/posts").status_code == 200  # so that there is a connection to listen at
    asked: list[str] = []
    connection = world.server.service.db._inline._connection
    assert connection is not None
    connection.set_trace_callback(asked.append)  # with the values in their places
    for key in made:
        assert world.server.api(key).get("/v1/posts").status_code == 401
    connection.set_trace_callback(None)
    assert asked == [FIND_KEY_BY_DIGEST.replace("?", f"'{crypto.digest(key)}'") for key in made]
    assert not any(key[9:30] in text for key in made for text in asked)
    plan = world.server.service.read(lambda: sql.fetch_all(f"EXPLAIN QUERY PLAN {FIND_KEY_BY_DIGEST}", ("",))).result()
    ((*_, how),) = plan
    assert re.match(r"SEARCH .+ INDEX .+ \(digest=\?\)", how), how


# --- Routes for sessions only ---


async def _signed(call: RequestContext) -> HandlerResponse:
    return HandlerResponse({"role": call.scope.role})


@pytest.fixture
def dashboard_route(monkeypatch: pytest.MonkeyPatch) -> str:
    """A route that only the dashboard may use, as later issues will add them."""
    routes = tuple(
        Route(method, "/v1/for-people", _signed, guard="session", limit="writes") for method in ("POST", "GET")
    )
    monkeypatch.setattr(web_app, "ROUTES", (*web_app.ROUTES, *routes))
    monkeypatch.setattr(web_app, "OpenApiDocument", lambda routes, service: None)
    return "/v1/for-people"


@pytest.mark.slow
def test_a_key_is_unauthorized_where_only_people_may(dashboard_route: str, world: RequestCast) -> None:
    for method in ("POST", "GET"):
        answer = world.alice.api.request(method, dashboard_route)
        assert (answer.status_code, error_of(answer)["code"]) == (403, "unauthorized")
        assert world.server.api().request(method, dashboard_route).status_code == 401
        assert world.server.api("svc_live_" + "0" * 49).request(method, dashboard_route).status_code == 401


def test_a_session_writes_there_with_its_csrf_token(dashboard_route: str, signed_in: Any) -> None:
    assert signed_in.get(dashboard_route).json() == {"role": "member"}
    for headers in ({}, {"X-CSRF-Token": ""}, {"X-CSRF-Token": "another"}, {"X-CSRF-Token": "ä".encode()}):
        answer = signed_in.post(dashboard_route, headers=headers, json={})
        assert (answer.status_code, error_of(answer)["code"]) == (403, "unauthorized")
        assert error_of(answer)["rule"] == "csrf"
    assert signed_in.post(dashboard_route, headers={"X-CSRF-Token": "the-token"}, json={}).status_code == 200


def test_a_body_there_says_that_it_is_json(subtests: pytest.Subtests, dashboard_route: str, signed_in: Any) -> None:
    for kind in ("application/json", "Application/JSON; charset=utf-8"):
        headers = {"X-CSRF-Token": "the-token", "Content-Type": kind}
        assert signed_in.post(dashboard_route, headers=headers, content=b"{}").status_code == 200, kind
    for kind in ("text/plain", "application/x-www-form-urlencoded", "application/jsonp", None):
        with subtests.test(kind=kind):
            headers = {"X-CSRF-Token": "the-token"} | ({"Content-Type": kind} if kind else {})
            answer = signed_in.post(dashboard_route, headers=headers, content=b"{}")
            assert (answer.status_code, error_of(answer)["rule"]) == (400, "http.request")
    assert signed_in.post(dashboard_route, headers={"X-CSRF-Token": "the-token"}).status_code == 200


def test_the_test_of_the_table_is_whole() -> None:
    """Each route of the API that names a resource is touched above."""
    touched = {"/v1/posts/<post_id:str>", "/v1/posts/<post_id:str>/retry", "/v1/posts/<post_id:str>/settle"}
    touched |= {"/v1/accounts/<account_id:str>", "/v1/media/<media_id:str>", "/v1/batches/<batch_id:str>"}
    drafts = ("", "/propose", "/approve", "/return", "/publish", "/link")
    touched |= {f"/v1/drafts/<draft_id:str>{tail}" for tail in drafts}
    touched |= {f"{CHANNELS}/<channel_id:str>{tail}" for tail in ("", "/test")}
    touched |= {f"{ENDPOINTS}/<endpoint_id:str>{tail}" for tail in ("", "/test", "/rotate-secret", "/redeliver")}
    touched |= {f"{DELIVERIES}/<delivery_id:str>{tail}" for tail in ("", "/redeliver")}
    touched |= {
        "/v1/accounts/<account_id:str>/pinterest/boards",
        "/v1/accounts/<account_id:str>/pinterest/default-board",
    }
    named = {route.path for route in ROUTES if route.guard in ("key", "read") and "<" in route.path}
    assert named == touched
    assert profiles.list_profiles in {route.handler for route in ROUTES}
