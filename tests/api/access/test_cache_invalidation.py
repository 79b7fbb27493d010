"""Changes written by another process take effect at the next request."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator

import pytest

from socialpub.domain.access.authentication import Scope
from socialpub.domain.accounts import accounts
from socialpub.store.database import Tx
from socialpub.store.schema.models import WebhookDelivery
from tests.support.app_server import error_of
from tests.support.request_cast import RequestCast
from tests.support.webhook_endpoints import ENDPOINTS, register_endpoint

Other = Callable[[str], None]


@pytest.fixture
def other(world: RequestCast) -> Iterator[Other]:
    """Writes as another process does, of which the server hears nothing."""
    path = world.server.home / "socialpub.db"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None, timeout=20)) as connection:
        yield lambda text: connection.execute(text)  # type: ignore[func-returns-value]


def rule(world: RequestCast, **fields: object) -> str | None:
    """Of the answer to a post for later; None where it was accepted."""
    answer = world.post(**({"scheduledAt": world.soon()} | fields))
    return None if answer.status_code == 202 else str(error_of(answer).get("rule") or error_of(answer)["code"])


CHANGES = (
    ("UPDATE account SET disconnected_at = {what}", "1", "NULL", "not_found"),
    ("UPDATE api_key SET revoked_at = {what}", "1", "NULL", "unauthenticated"),
    ("UPDATE profile SET deleted_at = {what}", "1", "NULL", "not_found"),
)


@pytest.mark.parametrize(("change", "so", "as_before", "refused"), CHANGES)
def test_a_change_by_another_process_is_seen_by_the_next_post(
    change: str, so: str, as_before: str, refused: str, world: RequestCast, other: Other
) -> None:
    fields = {"profileId": world.alice.profile}
    for number in range(5):
        assert [rule(world, text=f"{number} {again}", **fields) for again in range(3)] == [None] * 3
        other(change.format(what=so))
        assert rule(world, text=f"{number} not", **fields) == refused
        other(change.format(what=as_before))


def test_pause_by_another_process_is_seen_by_the_next_immediate_post(world: RequestCast, other: Other) -> None:
    world.published(text="one")
    other("UPDATE instance SET paused = 'clock' WHERE id = 1")
    with world.alice.api.expecting_failure():
        assert error_of(world.post(text="two"))["rule"] == "service.paused"
    other("UPDATE instance SET paused = NULL WHERE id = 1")
    world.published(text="three")


def test_a_tier_that_another_process_changes_counts_for_the_next_post(world: RequestCast, other: Other) -> None:
    assert rule(world, text="one") is None
    other("UPDATE organization SET tier = 'free'")
    other("UPDATE usage SET posts = 1000000")
    assert rule(world, text="two") == "billing.posts.monthly_cap"
    other("UPDATE organization SET tier = 'self_host'")
    assert rule(world, text="three") is None


def test_endpoint_changed_between_two_posts_gets_only_its_own_events(world: RequestCast) -> None:
    api = world.alice.api
    world.scheduled(text="before")
    made = register_endpoint(world.alice, "http://127.0.0.1:1/")
    between = world.scheduled(text="between")
    assert api.delete(f"{ENDPOINTS}/{made['id']}").status_code in (200, 204)
    world.scheduled(text="after")
    assert {row["post"] for row in world.server.rows(WebhookDelivery)} == {between}


def test_an_account_that_is_disconnected_and_connected_again_takes_posts(world: RequestCast) -> None:
    service, scope = world.server.service, Scope(world.alice.organization)

    def disconnect(tx: Tx) -> None:
        accounts.disconnect(service, tx, scope, world.alice.bluesky, "r")

    for number in range(3):
        assert rule(world, text=f"here {number}") is None
        service.write(disconnect).result()
        assert rule(world, text=f"gone {number}") == "not_found"
        world.server.connect_bluesky(world.alice)
