"""Subscriptions by Lemon Squeezy notices: replays, order, forgery and tiers."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest

from socialpub.base.errors import ApiError
from socialpub.domain.organizations import quotas
from socialpub.store.schema.models import AuditEntry, BillingWebhook, Organization, Subscription
from tests.support.app_server import AppServer, Person, error_of, format_instant, unchanged
from tests.support.lemon_squeezy import (
    MONTH_MS,
    NOON,
    PATH,
    SETTINGS,
    deliver_notice,
    make_notice,
    send_notice,
    sign_notice,
)

END = format_instant(NOON + MONTH_MS)


@pytest.fixture
def server(make_server: Callable[..., AppServer]) -> AppServer:
    return make_server(billing=SETTINGS)


@pytest.fixture
def ann(server: AppServer) -> Person:
    return server.person("Ann")


def tier(server: AppServer, person: Person) -> str:
    (row,) = server.rows(Organization, id=person.organization)
    return str(row["tier"])


def told(server: AppServer) -> list[tuple[str, dict[str, Any]]]:
    return [(type_, data) for type_, data in server.events() if type_.startswith(("subscription.", "billing."))]


def types(server: AppServer) -> list[str]:
    return [type_ for type_, _ in told(server)]


# --- What a notice does ----------------------------------------------------------------------------------------------


def test_a_subscription_from_its_beginning_to_its_end(server: AppServer, ann: Person) -> None:
    steps = [
        ("subscription_created", {}, "pro"),
        ("subscription_updated", {"variant": 102}, "business"),
        ("subscription_payment_failed", {}, "business"),
        ("subscription_payment_recovered", {}, "business"),
        ("subscription_cancelled", {"variant": 102, "status": "cancelled", "ends_at": END}, "business"),
        ("subscription_resumed", {"variant": 102}, "business"),
        ("subscription_expired", {"variant": 102, "status": "expired", "ends_at": END}, "free"),
    ]
    for at, (name, fields, then) in enumerate(steps):
        deliver_notice(server, ann, name, at=at, **fields)
        assert tier(server, ann) == then, name
    times = [format_instant(NOON + at * 1000) for at in range(len(steps))]
    period = {"periodEnd": END}
    of = {"ls_subscription_id": "7001"}
    assert told(server) == [
        ("subscription.activated", period | {"tier": "pro", "previousTier": "self_host", "periodStart": times[0]}),
        ("subscription.tier_changed", period | {"previousTier": "pro", "tier": "business", "periodStart": times[1]}),
        ("billing.payment_failed", of | {"failedAt": times[2], "tier": "business"}),
        ("billing.recovered", of | {"recoveredAt": times[3], "tier": "business"}),
        (
            "subscription.cancelled",
            {"tier": "business", "cancelAtPeriodEnd": True, "cancelledAt": times[4], "effectiveAt": END},
        ),
        ("billing.recovered", of | {"recoveredAt": times[5], "tier": "business"}),
        ("billing.delinquent", of | {"since": END, "tier": "free"}),
    ]


def test_each_notice_that_does_something_is_in_the_audit_trail(server: AppServer, ann: Person) -> None:
    for _ in range(2):
        deliver_notice(server, ann, "subscription_created")
    deliver_notice(server, ann, "order_created")
    (row,) = server.rows(AuditEntry, verb=f"POST {PATH}")
    assert (row["organization"], row["subject"], row["key"], row["user"]) == (
        ann.organization,
        ann.organization,
        None,
        None,
    )
    (event,) = server.happened(type="subscription.activated")
    assert event.request_id == row["request_id"]


def test_nothing_is_told_of_a_renewal(server: AppServer, ann: Person) -> None:
    deliver_notice(server, ann, "subscription_created")
    for at in (1, 2):
        deliver_notice(server, ann, "subscription_updated", at=at)
    deliver_notice(server, ann, "subscription_payment_success", at=3)
    assert types(server) == ["subscription.activated"]


def test_a_second_subscription_keeps_what_the_first_one_loses(server: AppServer, ann: Person) -> None:
    deliver_notice(server, ann, "subscription_created", variant=102)
    deliver_notice(server, ann, "subscription_created", subscription="7002", at=1)
    assert tier(server, ann) == "business"  # the better one
    deliver_notice(server, ann, "subscription_expired", variant=102, at=2, status="expired")
    assert tier(server, ann) == "pro"
    assert types(server) == ["subscription.activated", "subscription.activated"]
    deliver_notice(server, ann, "subscription_expired", subscription="7002", at=3, status="expired")
    assert (tier(server, ann), types(server)[-1]) == ("free", "billing.delinquent")


def test_what_the_operator_has_made_enterprise_stays_so(server: AppServer, ann: Person) -> None:
    server.service.write(
        lambda tx: Organization.update(tier="enterprise").where(Organization.id == ann.organization).execute()
    ).result()
    deliver_notice(server, ann, "subscription_created")
    deliver_notice(server, ann, "subscription_expired", at=1, status="expired")
    assert tier(server, ann) == "enterprise"
    assert "billing.delinquent" not in types(server)


def test_subscription_stays_with_its_first_organization(server: AppServer, ann: Person, charlie: Person) -> None:
    deliver_notice(server, ann, "subscription_created")
    with unchanged(server):
        deliver_notice(server, charlie, "subscription_expired", at=1, status="expired")
    assert (tier(server, ann), tier(server, charlie)) == ("pro", "self_host")


# --- Twice, late, in any order ---------------------------------------------------------------------------------------

STORY: tuple[tuple[str, dict[str, Any]], ...] = (
    ("subscription_created", {"at": 0}),
    ("subscription_updated", {"at": 10, "variant": 102}),
    ("subscription_cancelled", {"at": 20, "variant": 102, "status": "cancelled", "ends_at": END}),
    ("subscription_expired", {"at": 30, "variant": 102, "status": "expired", "ends_at": END}),
)


def test_a_replay_changes_nothing_and_is_told_to_nobody(server: AppServer, ann: Person) -> None:
    for number, (name, fields) in enumerate(STORY):
        deliver_notice(server, ann, name, **fields)
        for again, same in STORY[: number + 1]:
            with unchanged(server):
                deliver_notice(server, ann, again, **same)
    assert len(told(server)) == len(STORY)


@pytest.mark.slow
@pytest.mark.parametrize("length", [2, 3, 4])
def test_in_whatever_order_they_come_the_newest_counts(server: AppServer, length: int) -> None:
    story, found = STORY[:length], set()
    for number, order in enumerate(itertools.permutations(story)):
        person = server.person(f"P{number}")
        for name, fields in (*order, *order):
            deliver_notice(server, person, name, subscription=f"8{number:03}", **fields)
        (row,) = server.rows(Subscription, organization=person.organization)
        found.add((tier(server, person), row["variant"], row["ended"]))
    assert found == {("business" if length < 4 else "free", "102", length == 4)}


def test_an_older_payment_notice_does_not_undo_a_newer_one(server: AppServer, ann: Person) -> None:
    deliver_notice(server, ann, "subscription_created")
    deliver_notice(server, ann, "subscription_payment_recovered", at=20)
    with unchanged(server):
        deliver_notice(server, ann, "subscription_payment_failed", at=10)
    deliver_notice(server, ann, "subscription_payment_failed", at=30)
    assert types(server)[1:] == ["billing.recovered", "billing.payment_failed"]
    assert len(server.rows(BillingWebhook)) == 3  # one row for each name, however many come


@pytest.mark.parametrize("names", list(itertools.permutations(("subscription_created", "subscription_updated"))))
def test_what_is_told_twice_in_one_moment_begins_once(server: AppServer, ann: Person, names: tuple[str, str]) -> None:
    for name in names:
        deliver_notice(server, ann, name)
    assert (tier(server, ann), types(server)) == ("pro", ["subscription.activated"])


def test_two_notices_of_one_moment_are_both_heard(server: AppServer, ann: Person) -> None:
    deliver_notice(server, ann, "subscription_updated", at=5)
    deliver_notice(server, ann, "subscription_cancelled", at=5, status="cancelled", ends_at=END)
    assert types(server) == ["subscription.activated", "subscription.cancelled"]


# --- What is refused, and what is left alone -------------------------------------------------------------------------


def body_of(person: Person, **fields: Any) -> bytes:
    return json.dumps(make_notice("subscription_created", person.organization, **fields)).encode()


def test_without_the_secret_there_is_no_such_address(make_server: Callable[..., AppServer]) -> None:
    server = make_server()
    body = body_of(server.person("Ann"))
    with unchanged(server):
        assert error_of(send_notice(server, body))["code"] == "not_found"
        assert error_of(send_notice(server, body, **{"X-Signature": sign_notice(body, "")}))["code"] == "not_found"


FORGED: dict[str, Callable[[bytes], str]] = {
    "none": lambda body: "",
    "of another secret": lambda body: sign_notice(body, "another"),
    "of another body": lambda body: sign_notice(body + b" "),
    "cut short": lambda body: sign_notice(body)[:-1],
    "longer": lambda body: sign_notice(body) + "0",
    "in capitals": lambda body: sign_notice(body).upper(),
    "with a prefix": lambda body: f"sha256={sign_notice(body)}",
    "no hex": lambda body: "é" * 64,
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_notice_is_refused_and_writes_nothing(server: AppServer, ann: Person, name: str) -> None:
    body = body_of(ann)
    with unchanged(server):
        answer = send_notice(server, body, **{"X-Signature": FORGED[name](body)})
    assert (answer.status_code, error_of(answer)["code"]) == (401, "unauthenticated")
    assert tier(server, ann) == "self_host"


def test_a_huge_notice_is_refused_before_it_is_read(server: AppServer, ann: Person) -> None:
    body = body_of(ann, padding="x" * 70_000)
    with unchanged(server):
        assert send_notice(server, body).status_code == 413


WRONG: dict[str, bytes] = {
    "no JSON": b"{",
    "nothing": b"",
    "a list": b"[]",
    "no name": b'{"meta": {}}',
    "a name that is none": b'{"meta": {"event_name": 7, "custom_data": {}}}',
    "deep": b'{"meta":' + b"[" * 20_000 + b"]" * 20_000 + b"}",
}
FIELDS: tuple[tuple[str, Any], ...] = (
    ("variant_id", None),
    ("variant_id", 1.5),
    ("variant_id", True),
    ("variant_id", "x" * 101),
    ("updated_at", None),
    ("updated_at", 1790000000),
    ("updated_at", "yesterday"),
    ("renews_at", "soon"),
    ("status", 3),
)


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_notice_is_refused(server: AppServer, name: str) -> None:
    with unchanged(server):
        answer = send_notice(server, WRONG[name])
    assert (answer.status_code, error_of(answer)["code"]) == (400, "validation_failed")


@pytest.mark.parametrize(("field", "value"), FIELDS)
def test_fields_of_a_wrong_type_are_refused(server: AppServer, ann: Person, field: str, value: Any) -> None:
    sent = make_notice("subscription_created", ann.organization)
    sent["data"]["attributes"][field] = value
    with unchanged(server):
        answer = send_notice(server, json.dumps(sent).encode())
    assert (answer.status_code, error_of(answer)["code"]) == (400, "validation_failed")


@pytest.mark.parametrize(
    "change",
    [
        {"custom_data": None},
        {"custom_data": []},
        {"custom_data": {}},
        {"custom_data": {"organization_id": 7}},
        {"custom_data": {"organization_id": "01a2b3c4-d5e6-7f80-9a1b-2c3d4e5f6071"}},
        {"event_name": "license_key_created"},
        {"event_name": "order_created"},
        {"event_name": ""},
    ],
)
def test_what_does_not_concern_us_is_taken_and_left_alone(
    server: AppServer, ann: Person, change: dict[str, Any]
) -> None:
    sent = make_notice("subscription_created", ann.organization)
    sent["meta"] |= change
    with unchanged(server):
        answer = send_notice(server, json.dumps(sent).encode())
    assert (answer.status_code, answer.json()) == (200, {"received": True})


def test_variant_without_a_tier_is_logged_and_applied_once_it_has_one(
    make_server: Callable[..., AppServer], caplog: pytest.LogCaptureFixture
) -> None:
    server = make_server(billing=SETTINGS)
    ann = server.person("Ann")
    deliver_notice(server, ann, "subscription_created", variant=999)
    assert (tier(server, ann), told(server)) == ("self_host", [])
    assert "billing.variants does not have variant 999" in caplog.text
    server.overrides = {"billing": SETTINGS | {"variants": {"999": "pro"}}}
    server.restart(ann)
    deliver_notice(server, ann, "subscription_created", variant=999)
    assert (tier(server, ann), types(server)) == ("pro", ["subscription.activated"])


def test_what_ends_needs_no_tier(make_server: Callable[..., AppServer]) -> None:
    server = make_server(billing=SETTINGS)
    ann = server.person("Ann")
    deliver_notice(server, ann, "subscription_created")
    server.overrides = {"billing": SETTINGS | {"variants": {}}}
    server.restart(ann)
    deliver_notice(server, ann, "subscription_expired", at=1, status="expired")
    assert (tier(server, ann), types(server)[-1]) == ("free", "billing.delinquent")


def test_a_quota_is_not_overspent_by_requests_that_were_checked_together(server: AppServer, ann: Person) -> None:
    """The transaction counts itself: what another request has spent since the check is not there any more."""

    def spend(cost: int) -> None:
        service = server.service
        service.write(lambda tx: quotas.spend(service, tx, ann.organization, 10, cost)).result()

    with unchanged(server), pytest.raises(ApiError):
        spend(11)
    spend(9)
    with unchanged(server), pytest.raises(ApiError) as refused:
        spend(2)
    assert refused.value.rule == "billing.posts.monthly_cap"
    spend(1)
