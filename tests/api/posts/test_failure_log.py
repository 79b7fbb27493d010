"""The log alone explains why a post, delivery or sign-in failed."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable

import pytest

from socialpub.base.observability.redaction import TextLogFormatter
from socialpub.commands.serve import LINE
from socialpub.store.schema.models import Account
from tests.support import publishing_state
from tests.support.app_server import format_instant
from tests.support.openapi_judge import sign_in
from tests.support.request_cast import RequestCast, inline_item, make_picture
from tests.support.sign_in import sign_in as sign_in_as
from tests.support.soak.soak_world import wait_for
from tests.support.webhook_endpoints import register_endpoint, wait_for_deliveries
from tests.support.webhook_receiver import WebhookReceiver

HOUR = 3600


@pytest.fixture(autouse=True)
def everything(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "socialpub")


def journal(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The lines as they stand in the journal."""
    form = TextLogFormatter(LINE)
    return [form.format(record) for record in list(caplog.records) if record.name.startswith("socialpub")]


def found(caplog: pytest.LogCaptureFixture, *words: str) -> str:
    """The line that has all of these words, once it is there: they are written just after the commit."""

    def lines() -> list[str]:
        return [line for line in journal(caplog) if all(word in line for word in words)]

    assert wait_for(lines, 30), (words, journal(caplog))
    return lines()[0]


def due_of(world: RequestCast, post: str) -> str:
    (row,) = world.server.rows(id=post)
    return format_instant(row["scheduled_at"])


def revoked(world: RequestCast, post: str) -> list[tuple[str, ...]]:
    mine = Account.id == world.alice.bluesky
    world.server.service.write(lambda tx: Account.update(status="revoked").where(mine).execute()).result()
    world.server.skip(HOUR + 1)
    return [(post, "rejected", world.alice.bluesky, "account.reconnect_required")]


def canceled(world: RequestCast, post: str) -> list[tuple[str, ...]]:
    world.alice.api.delete(f"/v1/posts/{post}", headers={"X-Request-Id": "it-was-me"})
    by = (f"key {world.alice.key_id}", "from 127.0.0.1")
    return [(post, "canceled", "request it-was-me"), ("it-was-me DELETE", post, *by)]


def moved(world: RequestCast, post: str) -> list[tuple[str, ...]]:
    body = {"scheduledAt": world.soon(48 * HOUR)}
    world.alice.api.patch(f"/v1/posts/{post}", json=body, headers={"X-Request-Id": "it-was-me"})
    return [("it-was-me PATCH", post, f"key {world.alice.key_id}", "from 127.0.0.1")]


def disconnected(world: RequestCast, post: str) -> list[tuple[str, ...]]:
    browser = world.server.api(**sign_in(world.server, world.alice))
    browser.delete(f"/v1/accounts/{world.alice.bluesky}", headers={"X-Request-Id": "it-was-me"})
    return [(post, "canceled", "request it-was-me"), ("it-was-me DELETE", world.alice.bluesky, "by user ")]


def paused(world: RequestCast, post: str) -> list[tuple[str, ...]]:
    with publishing_state.paused(world.server.service, world.server.lab.lab):
        world.server.restart(world.alice)
    return [("publishing is paused (clock)", "socialpub resume")]


def down(world: RequestCast, post: str) -> list[tuple[str, ...]]:
    world.server.clock.skip(48 * HOUR)
    world.server.restart(world.alice)
    world.server.wait(post, "failed")
    return [(post, "failed", "schedule.overdue")]


def unavailable(world: RequestCast, post: str) -> list[tuple[str, ...]]:
    world.server.lab.lab.faults.add([{"fault": "status:503", "platform": "bluesky", "operation": "*uploadBlob"}])
    world.server.skip(HOUR + 1)
    return [(post, "failed, will be retried", "attempt 1", "platform_unavailable")]


REASONS: list[Callable[[RequestCast, str], list[tuple[str, ...]]]] = [
    revoked,
    canceled,
    moved,
    disconnected,
    paused,
    down,
    unavailable,
]


@pytest.mark.parametrize("reason", REASONS, ids=lambda reason: reason.__name__)
def test_the_log_alone_says_why_a_post_did_not_go_out(
    reason: Callable[[RequestCast, str], list[tuple[str, ...]]], world: RequestCast, caplog: pytest.LogCaptureFixture
) -> None:
    post = world.scheduled(media=[inline_item(make_picture())])
    due = due_of(world, post)
    for words in reason(world, post):
        line = found(caplog, *words)
        assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (INFO|WARNING) socialpub\.", line), line
        if line.partition(" socialpub.posts ")[2]:
            assert f", due {due}, after " in line
            assert line.count(" ms") == 1
    world.server.lab.lab.faults.clear()


def test_a_post_that_was_late_says_how_late(world: RequestCast, caplog: pytest.LogCaptureFixture) -> None:
    post = world.scheduled()
    world.server.skip(HOUR + 90)
    world.server.wait(post, "published")
    after = re.search(r", after (\d+) ms$", found(caplog, post, "published: "))
    assert after
    assert int(after[1]) >= 90_000


# --- What is told to others ----------------------------------------------------------------------------------------


def test_a_delivery_leaves_one_line_for_each_attempt(
    world: RequestCast, sink: WebhookReceiver, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint = register_endpoint(world.alice, sink.url, events=["post.published"])["id"]
    world.published()
    (delivery,) = wait_for_deliveries(world.server, world.alice, 1)
    line = found(caplog, f"delivery {delivery['id']} of post.published to {endpoint}: ")
    assert re.search(r": delivered, status 2\d\d, \d+ ms$", line)
    assert sink.url not in line


def test_a_sign_in_that_is_refused_says_from_where_and_why(
    world: RequestCast, caplog: pytest.LogCaptureFixture
) -> None:
    sign_in_as(world.server.api(), "nobody@example.com", "do-not-show")
    line = found(caplog, "POST '/login'", "from 127.0.0.1")
    assert line.endswith(": unauthenticated")
    assert "do-not-show" not in caplog.text
    assert "nobody@example.com" not in caplog.text
