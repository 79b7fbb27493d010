"""Every event type, from its cause to the webhook receiver, in its declared shape."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

import pytest
from pydantic import TypeAdapter

from socialpub.domain.accounts import api_versions, token_refresh
from socialpub.domain.identity import key_expiry
from socialpub.domain.schemas.common import parse_instant
from socialpub.domain.schemas.events import EVENTS
from socialpub.platforms.contract import Tokens
from socialpub.store.schema.models import Organization, WebhookDelivery
from tests.support.app_server import AppServer, format_instant, sleep_briefly
from tests.support.lemon_squeezy import SETTINGS, deliver_notice
from tests.support.post_drafts import new_draft, seen
from tests.support.request_cast import RequestCast
from tests.support.webhook_endpoints import ENDPOINTS, register_endpoint, wait_for_deliveries
from tests.support.webhook_receiver import WebhookReceiver, running_receiver

DAY = 86_400
LINKEDIN = {"api_version": "202508"}  # it has ended
PUT = "com.atproto.repo.putRecord"
FREE = int(str(SETTINGS["free"]))


@pytest.fixture
def world(make_server: Callable[..., AppServer], world_of: Callable[[AppServer], RequestCast]) -> RequestCast:
    return world_of(make_server(billing=SETTINGS, platforms={"linkedin": LINKEDIN}))


# --- Causes ------------------------------------------------------------------------------------------------------


def _schedule(world: RequestCast) -> None:
    world.scheduled()


def _publish(world: RequestCast) -> None:
    world.published()


def _failing(fault: str, status: str) -> Callable[[RequestCast], None]:
    def cause(world: RequestCast) -> None:
        world.server.lab.lab.faults.add([{"fault": fault, "operation": PUT, "times": 1}])
        assert world.post().json()["results"][0]["status"] == status

    return cause


def _cancel(world: RequestCast) -> None:
    assert world.alice.api.delete(f"/v1/posts/{world.scheduled()}").status_code == 200


def _move(world: RequestCast) -> None:
    later = {"scheduledAt": world.soon(7200)}
    assert world.alice.api.patch(f"/v1/posts/{world.scheduled()}", json=later).status_code == 200


def _edit(world: RequestCast) -> None:
    assert world.alice.api.patch(f"/v1/posts/{world.scheduled()}", json={"text": "other"}).status_code == 200


def _draft(way: str) -> Callable[[RequestCast], None]:
    def cause(world: RequestCast) -> None:
        api = world.alice.api
        draft = new_draft(api, title="Hours", **world.body())["id"]
        assert api.post(f"/v1/drafts/{draft}/{way}", headers=seen(api, draft)).status_code == 200

    return cause


def _connect(world: RequestCast) -> None:
    """An account that only its owner can renew, in three days."""
    ends = world.server.clock.now_ms() + 3 * DAY * 1000
    world.server.connect(world.alice, "linkedin", tokens=Tokens("made-up-access", None, ends))


def _expire(world: RequestCast) -> None:
    _connect(world)
    token_refresh.warn_ending(world.server.service)


def _revoke(world: RequestCast) -> None:
    _connect(world)
    world.server.skip(4 * DAY)
    token_refresh.warn_ending(world.server.service)


def _deprecate(world: RequestCast) -> None:
    world.server.connect(world.alice, "linkedin")
    world.server.skip(2 * DAY)
    api_versions.notify_due(world.server.service)


def _key_ends(world: RequestCast) -> None:
    """A key that ends in a week, and nearly all of it passes."""
    ends = format_instant(world.server.clock.now_ms() + 7 * DAY * 1000)
    world.server.limited(world.alice, expiresAt=ends)
    world.server.skip(6 * DAY)
    key_expiry.notify_due(world.server.service)


def _gone(world: RequestCast) -> None:
    with running_receiver(lambda got: 410) as receiver:
        endpoint = register_endpoint(world.alice, receiver.url, events=["post.published"])
        world.published()
        while world.alice.api.get(f"{ENDPOINTS}/{endpoint['id']}").json()["active"]:
            sleep_briefly()


def _use(count: int) -> Callable[[RequestCast], None]:
    def cause(world: RequestCast) -> None:
        here = Organization.id == world.alice.organization
        world.server.service.write(lambda tx: Organization.update(tier="free").where(here).execute()).result()
        for number in range(count):
            world.scheduled(text=f"number {number}")

    return cause


def _told(*names: str, **last: Any) -> Callable[[RequestCast], None]:
    """Lemon Squeezy tells this, one after the other; `last`: of the last notice."""

    def cause(world: RequestCast) -> None:
        for at, name in enumerate(names):
            deliver_notice(world.server, world.alice, name, at=at, **(last if at == len(names) - 1 else {}))

    return cause


CREATED = "subscription_created"
CAUSES: Mapping[str, Callable[[RequestCast], None]] = {
    "post.queued": _schedule,
    "post.validated": _schedule,
    "post.published": _publish,
    "post.rejected": _failing("status:400", "rejected"),
    "post.failed": _failing("status:429", "failed"),
    "post.canceled": _cancel,
    "post.rescheduled": _move,
    "post.edited": _edit,
    "draft.proposed": _draft("propose"),
    "draft.approved": _draft("approve"),
    "draft.returned": _draft("return"),
    "token.expiring": _expire,
    "token.revoked": _revoke,
    "version.deprecated": _deprecate,
    "key.expiring": _key_ends,
    "webhook.disabled": _gone,
    "subscription.activated": _told(CREATED),
    "subscription.cancelled": _told(
        CREATED, "subscription_cancelled", status="cancelled", ends_at=format_instant(2_000_000_000_000)
    ),
    "subscription.tier_changed": _told(CREATED, "subscription_updated", variant=102),
    "quota.warning": _use(FREE - 1),
    "quota.exceeded": _use(FREE),
    "billing.payment_failed": _told(CREATED, "subscription_payment_failed"),
    "billing.delinquent": _told(CREATED, "subscription_expired", status="expired"),
    "billing.recovered": _told(CREATED, "subscription_payment_failed", "subscription_payment_recovered"),
}
"""What makes each type happen, through the front door or by the time that passes."""


# --- From the cause to the receiver --------------------------------------------------------------------------------


def test_every_type_has_a_cause_and_a_shape() -> None:
    assert set(CAUSES) == set(EVENTS)


@pytest.mark.matrix
@pytest.mark.parametrize("type_", EVENTS)
def test_what_happens_reaches_the_receiver_in_its_declared_shape(
    world: RequestCast, sink: WebhookReceiver, type_: str
) -> None:
    endpoint = register_endpoint(world.alice, sink.url, events=[type_])
    register_endpoint(world.charlie, f"{sink.url}/charlie")
    CAUSES[type_](world)
    (call,) = sink.wait(1)
    (event,) = world.server.happened(type=type_)
    assert call.event == {
        "id": event.id,
        "type": type_,
        "createdAt": format_instant(event.created_at),
        "organizationId": world.alice.organization,
        "data": dict(world.server.events())[type_],
    }
    assert call.is_signed(endpoint["signingSecret"])
    (told,) = wait_for_deliveries(world.server, world.alice, 1, "succeeded")
    assert (told["eventId"], told["type"], told["status"]) == (event.id, type_, "succeeded")
    assert [one["event"] for one in world.server.rows(WebhookDelivery, endpoint=endpoint["id"])] == [event.number]
    assert world.alice.api.get("/v1/events", params={"type": type_}).json()["data"] == [call.event]
    check_shape(type_, call.event["data"])


def check_shape(type_: str, data: dict[str, Any]) -> None:
    """The fields that are declared, no others, each of its type; and times are times."""
    shape = EVENTS[type_].data
    declared = get_type_hints(shape, include_extras=True)
    assert set(data) <= set(declared), set(data) - set(declared)
    TypeAdapter(shape).validate_json(json.dumps(data), strict=True)
    for name, kind in declared.items():
        if "date-time" in str(kind) and data.get(name) is not None:
            assert format_instant(parse_instant(data[name])) == data[name]


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"period": "2026-11", "postsCount": 1, "quota": 5},
        {"period": "2026-11", "postsCount": "1", "quota": 5, "resetAt": format_instant(0)},
        {"period": "2026-11", "postsCount": 1, "quota": 5, "resetAt": "soon"},
        {"period": "2026-11", "postsCount": 1, "quota": 5, "resetAt": format_instant(0), "more": 1},
    ],
)
def test_a_wrong_shape_is_seen(data: dict[str, Any]) -> None:
    with pytest.raises((AssertionError, ValueError)):
        check_shape("quota.exceeded", data)
