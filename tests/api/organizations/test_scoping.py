"""Scopes of keys and sessions: resources outside them look like unknown ids."""

from __future__ import annotations

import dataclasses
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
from socialpub.store.schema.models import ApiKey, Post, Session, User, WebhookDelivery
from socialpub.web import app as web_app
from socialpub.web.api import profiles
from socialpub.web.http.handler import HandlerResponse, RequestContext, Route
from socialpub.web.routes import ROUTES
from tests.support.app_server import UNKNOWN_ID, Person, error_of, unchanged
from tests.support.chat_servers import CHANNELS, add_channel
from tests.support.post_outcomes import lost, queued, stored
from tests.support.request_cast import RequestCast
from tests.support.route_addresses import route_address
from tests.support.soak.soak_world import wait_for
from tests.support.webhook_endpoints import DELIVERIES, ENDPOINTS, list_deliveries, register_endpoint

# --- Endpoint by owner ---


@dataclasses.dataclass(frozen=True)
class Touch:
    """A request that names one resource, and what its owner gets."""

    name: str
    status: int
    send: Callable[[Person, str], httpx.Response]
    make: Callable[[RequestCast, Person], str]
    in_profile: bool = True  # what a key of the whole organization makes belongs to a profile all the same

    def __str__(self) -> str:
        return self.name


def failed(world: RequestCast, person: Person) -> str:
    post = queued(world, person)
    world.server.service.write(lambda tx: Post.update(status="failed").where(Post.id == post).execute()).result()
    return post


def account(world: RequestCast, person: Person) -> str:
    return person.bluesky


def picture(world: RequestCast, person: Person) -> str:
    """An upload that belongs to the person's profile."""
    answer = person.api.post("/v1/media", params={"profileId": person.profile}, files={"file": ("a.png", PNG)})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def endpoint(world: RequestCast, person: Person) -> str:
    """An endpoint where nobody listens."""
    return str(register_endpoint(person, "http://127.0.0.1:1/")["id"])


def channel(world: RequestCast, person: Person) -> str:
    """A channel where nobody listens."""
    return str(add_channel(person, {"kind": "slack", "url": "http://127.0.0.1:1/"})["id"])


def delivery(world: RequestCast, person: Person) -> str:
    """A delivery that has ended, so that nothing changes by itself."""
    endpoint(world, person)
    queued(world, person)
    found = str(list_deliveries(person)[0]["id"])
    service, ends = world.server.service, {"status": "failed", "next_attempt_at": None}
    for _ in range(2):  # nothing more is begun; then what was under way has told of itself
        service.write(lambda tx: WebhookDelivery.update(**ends).execute()).result()
        assert wait_for(lambda: not service.executors.delivering.is_busy, 30)
    return found


def to(account_id: str, **fields: Any) -> dict[str, Any]:
    return {"targets": [{"accountId": account_id}], "text": "hello", **fields}


PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63606060000000"
    "040001f61738550000000049454e44ae426082"
)

TOUCHES = [
    Touch("read a post", 200, lambda p, post: p.api.get(f"/v1/posts/{post}"), queued),
    Touch(
        "move a post",
        200,
        lambda p, post: p.api.patch(f"/v1/posts/{post}", json={"scheduledAt": "2100-01-01T00:00:00Z"}),
        queued,
    ),
    Touch("cancel a post", 200, lambda p, post: p.api.delete(f"/v1/posts/{post}"), queued),
    Touch("retry a post", 202, lambda p, post: p.api.post(f"/v1/posts/{post}/retry", json={}), failed),
    Touch(
        "settle a post", 200, lambda p, post: p.api.post(f"/v1/posts/{post}/settle", json={"published": False}), lost
    ),
    Touch("read an account", 200, lambda p, found: p.api.get(f"/v1/accounts/{found}"), account),
    # A Bluesky account has no boards: its owner is told so, everybody else that there is no such account.
    Touch("list boards", 400, lambda p, found: p.api.get(f"/v1/accounts/{found}/pinterest/boards"), account),
    Touch(
        "choose a board",
        400,
        lambda p, found: p.api.patch(f"/v1/accounts/{found}/pinterest/default-board", json={"boardId": "1"}),
        account,
    ),
    Touch("read media", 200, lambda p, found: p.api.get(f"/v1/media/{found}"), picture),
    Touch("delete media", 200, lambda p, found: p.api.delete(f"/v1/media/{found}"), picture),
    Touch("read an endpoint", 200, lambda p, found: p.api.get(f"{ENDPOINTS}/{found}"), endpoint, False),
    Touch("change an endpoint", 200, lambda p, found: p.api.patch(f"{ENDPOINTS}/{found}", json={}), endpoint, False),
    Touch("delete an endpoint", 200, lambda p, found: p.api.delete(f"{ENDPOINTS}/{found}"), endpoint, False),
    Touch("test an endpoint", 200, lambda p, found: p.api.post(f"{ENDPOINTS}/{found}/test", json={}), endpoint, False),
    Touch("exchange a secret", 200, lambda p, found: p.api.post(f"{ENDPOINTS}/{found}/rotate-secret"), endpoint, False),
    Touch(
        "deliver what failed",
        202,
        lambda p, found: p.api.post(f"{ENDPOINTS}/{found}/redeliver", json={"since": "2026-01-01T00:00:00Z"}),
        endpoint,
        in_profile=False,
    ),
    Touch("read a channel", 200, lambda p, found: p.api.get(f"{CHANNELS}/{found}"), channel, False),
    Touch("change a channel", 200, lambda p, found: p.api.patch(f"{CHANNELS}/{found}", json={}), channel, False),
    Touch("delete a channel", 200, lambda p, found: p.api.delete(f"{CHANNELS}/{found}"), channel, False),
    Touch("test a channel", 200, lambda p, found: p.api.post(f"{CHANNELS}/{found}/test", json={}), channel, False),
    Touch("read a delivery", 200, lambda p, found: p.api.get(f"{DELIVERIES}/{found}"), delivery),
    Touch("deliver again", 202, lambda p, found: p.api.post(f"{DELIVERIES}/{found}/redeliver"), delivery),
    Touch("publish to an account", 200, lambda p, found: p.api.publish(to(found)), account),
    Touch("validate for an account", 200, lambda p, found: p.api.post("/v1/posts/validate", json=to(found)), account),
]


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


@pytest.mark.parametrize("touch", TOUCHES, ids=str)
def test_what_is_not_the_callers_looks_like_what_nobody_has(touch: Touch, world: RequestCast) -> None:
    ids = {person.name: touch.make(world, person) for person in (world.alice, world.bob, world.charlie)}
    foreign = [(world.bob, "Alice"), (world.bob, "Charlie"), (world.alice, "Charlie"), (world.charlie, "Alice")]
    with unchanged(world.server):
        for person, owner in foreign:
            random = touch.send(person, UNKNOWN_ID)
            assert (random.status_code, error_of(random)["code"]) == (404, "not_found")
            assert shape(touch.send(person, ids[owner]), ids[owner]) == shape(random, UNKNOWN_ID), (person.name, owner)
    for person, owner in ((world.bob, "Bob"), (world.charlie, "Charlie"), (world.alice, "Alice")):
        assert touch.send(person, ids[owner]).status_code == touch.status, person.name


@pytest.mark.parametrize("touch", [touch for touch in TOUCHES if "validate" not in touch.name], ids=str)
def test_an_org_wide_key_reaches_every_profile_of_its_organization(touch: Touch, world: RequestCast) -> None:
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
def signed_in(world: RequestCast) -> Any:
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
        answer = signed_in.get(route_address(route.path))
        assert answer.status_code in (200, 404), route.path
        assert "RateLimit-Remaining" in answer.headers


@pytest.mark.parametrize("route", KEYED, ids=lambda route: f"{route.method} {route.path}")
def test_a_write_with_only_a_cookie_is_unauthenticated(route: Route, signed_in: Any, world: RequestCast) -> None:
    for headers in ({}, {"X-CSRF-Token": "the-token"}):
        with unchanged(world.server):
            answer = signed_in.request(route.method, route_address(route.path), json=world.body(), headers=headers)
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
    end = world.server.clock.now_ms() + 10_000
    world.server.service.write(lambda tx: Session.update(ends_at=end).execute()).result()
    assert signed_in.get("/v1/posts").status_code == 200
    world.server.clock.skip(11)
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


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("application/json", 200),
        ("Application/JSON; charset=utf-8", 200),
        ("text/plain", 400),
        ("application/x-www-form-urlencoded", 400),
        ("application/jsonp", 400),
        (None, 400),
    ],
)
def test_a_body_there_says_that_it_is_json(kind: str | None, status: int, dashboard_route: str, signed_in: Any) -> None:
    headers = {"X-CSRF-Token": "the-token"} | ({"Content-Type": kind} if kind else {})
    answer = signed_in.post(dashboard_route, headers=headers, content=b"{}")
    assert answer.status_code == status
    if status == 400:
        assert error_of(answer)["rule"] == "http.request"
    assert signed_in.post(dashboard_route, headers={"X-CSRF-Token": "the-token"}).status_code == 200


def test_the_test_of_the_table_is_whole() -> None:
    """Each route of the API that names a resource is touched above."""
    touched = {"/v1/posts/<post_id:str>", "/v1/posts/<post_id:str>/retry", "/v1/posts/<post_id:str>/settle"}
    touched |= {"/v1/accounts/<account_id:str>", "/v1/media/<media_id:str>"}
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
