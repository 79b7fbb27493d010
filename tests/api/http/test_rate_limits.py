"""Rate limits, failed logins by address, and the monthly quota."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from socialpub.domain.access.rate_limits import SlidingWindowLimiter
from socialpub.domain.schemas.common import parse_instant
from socialpub.store.schema.models import Organization, Post, Usage
from tests.support.app_server import UNKNOWN_ID, AppServer, MovableClock, Person, error_of, format_instant, unchanged
from tests.support.request_cast import RequestCast

Make = Callable[..., AppServer]


@pytest.fixture
def limited(make_server: Make, world_of: Callable[[AppServer], RequestCast]) -> RequestCast:
    return world_of(make_server(limits={"posts": 3, "writes": 2, "reads": 4, "failed_logins": 3}))


def window(answer: httpx.Response) -> tuple[int, int, int]:
    return tuple(int(answer.headers[f"RateLimit-{name}"]) for name in ("Limit", "Remaining", "Reset"))  # type: ignore[return-value]


# --- Windows ---


def test_each_answer_tells_where_its_caller_stands(limited: RequestCast) -> None:
    for left in (3, 2, 1, 0):
        answer = limited.alice.api.get("/v1/posts")
        assert window(answer)[:2] == (4, left)
        assert answer.headers["X-RateLimit-Limit"] == "4"
        assert answer.headers["RateLimit-Policy"] == '"default";q=4;w=60'
        assert answer.headers["RateLimit"].startswith(f'"default";r={left};t=')


def test_beyond_the_limit_is_429_with_retry_after_and_executes_nothing(limited: RequestCast) -> None:
    for _ in range(3):
        assert limited.post().status_code == 200
    with unchanged(limited.server):
        answer = limited.post()
    assert (answer.status_code, error_of(answer)["code"]) == (429, "rate_limited")
    assert window(answer)[:2] == (3, 0)
    assert answer.headers["Retry-After"] == answer.headers["RateLimit-Reset"]
    assert 1 <= int(answer.headers["Retry-After"]) <= 60


def test_a_window_slides(limited: RequestCast) -> None:
    """Each request leaves it 60 s after it came; there is no turn of the minute at which all are free."""
    clock = limited.server.clock
    for wait in (0, 20, 20):
        clock.skip(wait)
        assert limited.post().status_code == 200
    clock.skip(10)
    answer = limited.post()
    assert (answer.status_code, window(answer)[2]) == (429, pytest.approx(10, abs=1))
    clock.skip(int(answer.headers["Retry-After"]))
    assert limited.post().status_code == 200
    assert limited.post().status_code == 429
    clock.skip(20)
    assert limited.post().status_code == 200


def test_a_refused_request_is_not_counted_again(limited: RequestCast) -> None:
    for _ in range(10):
        limited.post()
    limited.server.clock.skip(60.1)
    assert window(limited.post())[:2] == (3, 2)


def test_requests_that_break_rules_are_counted_too(limited: RequestCast) -> None:
    for _ in range(3):
        assert limited.post(targets=[]).status_code == 400
    assert limited.post().status_code == 429


def test_windows_are_per_key_and_route(limited: RequestCast) -> None:
    for _ in range(3):
        limited.post()
    assert limited.post().status_code == 429
    other = limited.server.person("Alice2", organization=limited.alice.organization)
    assert other.api.publish(limited.body()).status_code == 200
    assert limited.alice.api.get("/v1/posts").status_code == 200
    assert limited.alice.api.post("/v1/posts/validate", json=limited.body()).status_code == 200
    for _ in range(2):
        limited.alice.api.delete(f"/v1/posts/{UNKNOWN_ID}")
    assert limited.alice.api.delete(f"/v1/posts/{UNKNOWN_ID}").status_code == 429
    assert limited.alice.api.patch(f"/v1/posts/{UNKNOWN_ID}", json={}).status_code == 400


def test_different_ids_are_one_route_and_head_counts_as_get(limited: RequestCast) -> None:
    for number in range(2):
        limited.alice.api.get(f"/v1/posts/{number}")
        limited.alice.api.head(f"/v1/posts/{number}")
    assert limited.alice.api.get(f"/v1/posts/{UNKNOWN_ID}").status_code == 429


def test_open_addresses_are_counted_by_client_address(limited: RequestCast) -> None:
    for left in (3, 2, 1, 0):
        assert window(limited.server.api().get("/v1/rules"))[1] == left
    assert limited.server.api().get("/v1/rules").status_code == 429
    elsewhere = limited.server.api(**{"X-Forwarded-For": "203.0.113.9"})
    assert elsewhere.get("/v1/rules").status_code == 200


def test_only_a_trusted_proxy_is_believed_about_the_address(make_server: Make) -> None:
    server = make_server(limits={"reads": 1}, server={"trusted_proxies": []})
    for number, status in enumerate((200, 429)):
        answer = server.api(**{"X-Forwarded-For": f"203.0.113.{number}"}).get("/v1/rules")
        assert answer.status_code == status


@pytest.mark.parametrize(
    ("forwarded", "same"),
    [
        ("203.0.113.1", "203.0.113.1"),
        ("198.51.100.7, 203.0.113.1", "203.0.113.1"),
        ("203.0.113.1, 127.0.0.1", "203.0.113.1"),
        ("203.0.113.1, ::1", "203.0.113.1"),
        ("garbage", "127.0.0.1"),
        ("", "127.0.0.1"),
    ],
)
def test_the_client_is_the_last_address_that_is_no_proxy_of_ours(forwarded: str, same: str, make_server: Make) -> None:
    server = make_server(limits={"reads": 1})
    assert server.api(**{"X-Forwarded-For": forwarded}).get("/v1/rules").status_code == 200
    assert server.api(**{"X-Forwarded-For": same}).get("/v1/rules").status_code == 429


def test_an_answer_before_any_caller_is_known_names_the_ceiling_only(limited: RequestCast) -> None:
    for method, path, limit in (("GET", "/v1/posts", 4), ("POST", "/v1/posts", 3), ("DELETE", "/v1/posts/x", 2)):
        answer = limited.server.api().request(method, path)
        assert answer.status_code in (401, 429)
        assert answer.headers["X-RateLimit-Limit"] == str(limit)
        assert not [name for name in answer.headers if name.startswith("ratelimit")]


# --- Failed authentications ---


def test_failed_authentications_are_limited_by_address_but_valid_keys_not(limited: RequestCast) -> None:
    nobody = limited.server.api("svc_live_" + "0" * 49)
    for _ in range(3):
        assert nobody.get("/v1/posts").status_code == 401
    answer = nobody.get("/v1/posts")
    assert (answer.status_code, error_of(answer)["code"]) == (429, "rate_limited")
    assert 1 <= int(answer.headers["Retry-After"]) <= 60
    assert limited.alice.api.get("/v1/posts").status_code == 200
    assert limited.server.api(**{"X-Forwarded-For": "203.0.113.9"}).get("/v1/posts").status_code == 401
    limited.server.clock.skip(60.1)
    assert nobody.get("/v1/posts").status_code == 401


# --- The window itself ---


def test_a_window_forgets_who_stays_away() -> None:
    clock = MovableClock()
    windows = SlidingWindowLimiter(clock)
    for number in range(1000):
        windows.spend(f"key {number}", 5)
    clock.skip(61)
    windows.spend("another", 5)
    assert len(windows._hits) == 1


def test_50_threads_get_exactly_the_limit() -> None:
    windows = SlidingWindowLimiter(MovableClock())
    with concurrent.futures.ThreadPoolExecutor(50) as pool:
        rates = list(pool.map(lambda _: windows.spend("key", 20), range(200)))
    assert [rate.allowed for rate in rates].count(True) == 20


# --- Quota ---


def on_tier(world: RequestCast, tier: str) -> None:
    world.server.service.write(
        lambda tx: Organization.update(tier=tier).where(Organization.id == world.alice.organization).execute()
    ).result()


def used(world: RequestCast, posts: int) -> None:
    """So many posts this month already."""
    period = f"{datetime.fromtimestamp(world.server.clock.now_ms() / 1000, UTC):%Y-%m}"
    world.server.service.write(
        lambda tx: (
            Usage.insert(organization=world.alice.organization, period=period, posts=posts)
            .on_conflict(conflict_target=[Usage.organization, Usage.period], update={"posts": posts})
            .execute()
        )
    ).result()


def quota_events(world: RequestCast) -> list[tuple[str, dict[str, Any]]]:
    return [(type_, data) for type_, data in world.server.events() if type_.startswith("quota.")]


@pytest.fixture
def free(make_server: Make, world_of: Callable[[AppServer], RequestCast]) -> RequestCast:
    world = world_of(make_server(billing={"free": 10, "pro": 20, "business": 30}, limits={"posts": 1000}))
    on_tier(world, "free")
    world.server.clock.stop(1_795_176_000_000)  # 2026-11-20T12:00:00Z
    return world


@pytest.mark.parametrize(("tier", "quota"), [("free", 10), ("pro", 20), ("business", 30), ("self_host", None)])
def test_each_tier_has_its_quota(tier: str, quota: int | None, free: RequestCast) -> None:
    on_tier(free, tier)
    used(free, (quota or 1_000_000) - 1)
    assert free.post().status_code == 200
    answer = free.post()
    assert answer.status_code == (402 if quota else 200)
    if quota:
        assert error_of(answer)["platformResponse"]["quota"] == quota


def test_a_batch_beyond_the_quota_is_402_whole(free: RequestCast) -> None:
    used(free, 8)
    with unchanged(free.server):
        answer = free.post(targets=[free.target(text=f"{n}") for n in range(3)])
    error = error_of(answer)
    assert (answer.status_code, error["code"]) == (402, "quota_exceeded")
    assert error["rule"] == "billing.posts.monthly_cap"
    assert error["platformResponse"] == {
        "period": "2026-11",
        "quota": 10,
        "postsCount": 8,
        "cost": 3,
        "resetAt": "2026-12-01T00:00:00.000Z",
    }
    assert free.post(targets=[free.target(text=f"{n}") for n in range(2)]).status_code == 200


def test_one_target_costs_one_at_acceptance_whatever_becomes_of_it(free: RequestCast) -> None:
    post = free.scheduled()
    free.alice.api.delete(f"/v1/posts/{post}")
    free.server.lab.lab.faults.add([{"fault": "status:400", "operation": "com.atproto.repo.putRecord"}])
    free.post(targets=[free.target(), free.target(text="two")])
    free.post(text="x" * 301)
    free.alice.api.post("/v1/posts/validate", json=free.body())
    assert [row["posts"] for row in free.server.rows(Usage)] == [3]


def test_a_retry_costs_nothing(free: RequestCast) -> None:
    free.server.lab.lab.faults.add([{"fault": "status:400", "operation": "com.atproto.repo.putRecord", "times": 1}])
    post = free.post().json()["results"][0]["postId"]
    used(free, 10)
    assert free.alice.api.post(f"/v1/posts/{post}/retry", json={}).status_code == 202


def test_the_quota_is_looked_at_after_the_content(free: RequestCast) -> None:
    used(free, 10)
    assert error_of(free.post(text="x" * 301))["code"] == "preflight_failed"
    assert error_of(free.post())["code"] == "quota_exceeded"


def test_each_threshold_is_told_once_a_period(free: RequestCast) -> None:
    for count in range(10):
        free.post(text=f"number {count}")
    shared = {"period": "2026-11", "quota": 10, "resetAt": "2026-12-01T00:00:00.000Z"}
    assert quota_events(free) == [
        ("quota.warning", shared | {"postsCount": 8, "percent": 0.8}),
        ("quota.exceeded", shared | {"postsCount": 10}),
    ]
    for event in free.server.happened(type="quota.warning"):
        assert (event.organization, event.profile, event.post) == (free.alice.organization, None, None)
    assert free.post().status_code == 402
    on_tier(free, "pro")
    for count in range(10):
        free.post(text=f"and {count}")
    assert len(quota_events(free)) == 2


def test_a_batch_that_crosses_both_thresholds_tells_both(free: RequestCast) -> None:
    used(free, 7)
    free.post(targets=[free.target(text=f"{n}") for n in range(3)])
    assert [type_ for type_, _ in quota_events(free)] == ["quota.warning", "quota.exceeded"]


def test_a_refused_batch_tells_nothing(free: RequestCast) -> None:
    used(free, 7)
    assert free.post(targets=[free.target(text=f"{n}") for n in range(4)]).status_code == 402
    assert quota_events(free) == []


def test_the_month_is_utcs_and_the_next_begins_at_zero(free: RequestCast) -> None:
    used(free, 10)
    free.server.clock.stop(instant("2026-11-30T23:59:59.999Z"))
    assert free.post().status_code == 402
    free.server.clock.stop(instant("2026-12-01T00:00:00.000Z"))
    assert free.post().status_code == 200
    assert {row["period"]: row["posts"] for row in free.server.rows(Usage)} == {"2026-11": 10, "2026-12": 1}
    used(free, 10)
    answer = free.post()
    assert error_of(answer)["platformResponse"]["resetAt"] == "2027-01-01T00:00:00.000Z"


def instant(text: str) -> int:
    at = parse_instant(text)
    assert format_instant(at) == text
    return at


def test_50_requests_at_once_cannot_spend_the_last_slots_twice(free: RequestCast) -> None:
    on_tier(free, "pro")
    used(free, 10)
    at = format_instant(free.server.clock.now_ms() + 3_600_000)
    apis = [free.server.api(free.alice.key) for _ in range(50)]
    bodies = [free.body(text=f"{n}", scheduledAt=at) for n in range(50)]
    with concurrent.futures.ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(lambda api, body: api.publish(body), apis, bodies))
    statuses = [answer.status_code for answer in answers]
    assert (statuses.count(202), statuses.count(402)) == (10, 40)
    assert [row["posts"] for row in free.server.rows(Usage)] == [20]
    assert len(free.server.rows(Post)) == 10
    assert [type_ for type_, _ in quota_events(free)] == ["quota.warning", "quota.exceeded"]


def test_organizations_have_quotas_of_their_own(free: RequestCast) -> None:
    used(free, 10)
    body = {"targets": [{"accountId": free.charlie.bluesky}], "text": "hello"}
    assert free.charlie.api.publish(body).status_code == 200
    bobs: Person = free.bob
    assert bobs.api.publish({"targets": [{"accountId": bobs.bluesky}], "text": "hello"}).status_code == 402
