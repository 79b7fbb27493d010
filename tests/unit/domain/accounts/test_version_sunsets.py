"""Notice of an API version's end: once, 90 days ahead, to organizations with accounts."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from socialpub import platforms
from socialpub.domain.accounts import api_versions
from socialpub.domain.schemas.common import parse_instant
from socialpub.store.schema.models import Account, Event
from tests.support.app_server import AppServer, Person
from tests.support.version_notices import version_notices

DAY = 86_400
PIN = platforms.platform("linkedin").version
SUNSET = f"{platforms.platform('linkedin').sunsets[PIN]}T00:00:00.000Z"


def look(server: AppServer, days_before: float) -> None:
    """The daily look, so many days before the end."""
    ahead = parse_instant(SUNSET) - int(days_before * DAY * 1000) - server.clock.now_ms()
    server.skip(ahead / 1000)
    api_versions.notify_due(server.service)


@pytest.fixture
def ann(server: AppServer) -> Person:
    ann = server.person("Ann")
    server.connect(ann, "linkedin")
    return ann


def test_it_is_told_90_days_ahead_and_once(server: AppServer, ann: Person, charlie: Person) -> None:
    server.connect(ann, "linkedin", name="another")
    look(server, 90.5)
    assert version_notices(server) == []
    look(server, 89)
    said = {"platform": "linkedin", "currentPin": PIN, "nextPin": None, "sunsetAt": SUNSET}
    assert version_notices(server) == [(ann.organization, said)]
    assert charlie.organization != ann.organization  # who has an account elsewhere is not told
    look(server, 80)
    server.restart(ann)
    look(server, -3)
    assert version_notices(server) == [(ann.organization, said)]


def test_it_is_told_to_whoever_comes_later_and_not_to_whoever_has_left(server: AppServer, ann: Person) -> None:
    left = server.person("Dora")
    account = server.connect(left, "linkedin")
    server.service.write(
        lambda tx: Account.update(disconnected_at=1).where(Account.id == account["id"]).execute()
    ).result()
    look(server, 60)
    late = server.person("Emil")
    server.connect(late, "linkedin")
    look(server, 58)
    assert [organization for organization, _ in version_notices(server)] == [ann.organization, late.organization]


def test_it_is_not_told_again_when_the_event_is_forgotten(server: AppServer, ann: Person) -> None:
    look(server, 60)
    assert len(version_notices(server)) == 1
    server.service.write(lambda tx: Event.delete().where(Event.type == "version.deprecated").execute()).result()
    look(server, 30)
    assert version_notices(server) == []


def test_every_day_that_a_platform_declares_is_one() -> None:
    declared = {name: row.sunsets for name, row in platforms.PLATFORMS.items() if row.sunsets}
    assert set(declared) == {"facebook", "instagram", "linkedin"}
    for sunsets in declared.values():
        days = [datetime.strptime(day, "%Y-%m-%d").replace(tzinfo=UTC) for day in sunsets.values()]
        assert days == sorted(days)
