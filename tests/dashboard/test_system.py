"""System page: queue, database size, backups, and platform versions."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from socialpub import platforms
from socialpub.base.runtime import format_iso
from socialpub.base.system.host_identity import list_mounts
from socialpub.domain.backups.destinations import FolderDestination
from socialpub.store.jobs.job_queue import RetryTask
from tests.support.app_server import ApiClient, AppServer, Person
from tests.support.connect_flow import sign_in
from tests.support.database_costs import DatabaseCounter
from tests.support.post_list import insert_rows
from tests.support.publishing_state import paused
from tests.support.request_cast import RequestCast

PAGE = "/settings/system"


def words(browser: ApiClient) -> str:
    """The page as somebody reads it."""
    page = browser.get(PAGE)
    assert page.status_code == 200
    main = page.text.partition("<main")[2].partition("</main>")[0]
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", main))


@pytest.fixture
def alone(make_server: Callable[..., AppServer]) -> Callable[..., tuple[AppServer, ApiClient]]:
    """A server with one organization and these settings, and its owner's browser."""

    def make(**settings: object) -> tuple[AppServer, ApiClient]:
        server = make_server(**settings)
        return server, sign_in(server, server.person("Alice").organization)

    return make


def test_page_shows_the_queue_database_size_and_missing_backups(
    alone: Callable[..., tuple[AppServer, ApiClient]],
) -> None:
    server, browser = alone()
    found = words(browser)
    assert "Scheduler Running" in found
    assert "Oldest overdue post none" in found
    assert re.search(r"Database \d+\.\d [kM]B in /", found)
    assert re.search(r"Free disk space \d+\.\d [kMG]B", found)
    assert "Automatic backups are off" in found
    assert "Posts 0 0" in found
    assert "Webhook deliveries 0" in found
    with paused(server.service, server.lab.lab):
        assert "Scheduler Paused" in words(browser)


def test_it_says_when_the_last_backup_was_made_and_when_the_next_one_is(
    alone: Callable[..., tuple[AppServer, ApiClient]],
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path_factory.mktemp("backups")
    server, browser = alone(backup={"directory": str(folder), "every": "24h", "keep": 3})
    monkeypatch.setattr(server.service.jobs, "read_periodic", lambda now: [])  # none is made while the test looks
    for made in folder.glob("socialpub-*.zip"):
        made.unlink()
    assert "Last backup none yet Next backup soon, then every 1 day; the last 3 are kept" in words(browser)
    (folder / "socialpub-20261121T100000Z.zip").touch()
    found = words(browser)
    assert "Last backup Sat 21 Nov 2026, 10:00 UTC , verified" in found
    assert "Next backup Sun 22 Nov 2026, 10:00 UTC , then every 1 day" in found
    with pytest.MonkeyPatch.context() as patched:  # a network disk that is away
        patched.setattr(FolderDestination, "list_backups", lambda folder: os.listdir(folder.directory / "gone"))
        with pytest.raises(RetryTask):
            server.engine.periodic.backups.run_due()
        assert "Last backup none yet" in words(browser)
        assert "The last backup failed it is not there" in words(browser)
    server.engine.periodic.backups.problem = "No space left on device"
    assert "The last backup failed No space left on device" in words(browser)


def test_platform_versions_are_listed_with_their_ends(
    alone: Callable[..., tuple[AppServer, ApiClient]],
) -> None:
    sunsets = dict(platforms.PLATFORMS["facebook"].sunsets)
    over, version = min((day, name) for name, day in sunsets.items())
    server, browser = alone(platforms={"facebook": {"api_version": version}})
    found = words(browser)
    for platform in platforms.PLATFORMS.values():
        assert platform.label in found
        assert platform.version in found  # of the one with an older version: what this program knows
    assert f"{version} from the settings" in found
    assert ("Ended" in found) is (over <= format_iso(server.clock.now_ms())[:10])


def test_an_upstream_that_does_not_answer_is_named(alone: Callable[..., tuple[AppServer, ApiClient]]) -> None:
    server, browser = alone()
    for _ in range(5):
        server.service.upstream.breakers.unanswered("bluesky")
    assert "Unreachable platforms Retrying soon Bluesky" in words(browser)


def test_server_page_is_hidden_from_members_and_on_shared_servers(world: RequestCast, charlie: Person) -> None:
    assert charlie.organization != world.alice.organization
    browser = sign_in(world.server, world.alice.organization)
    found = words(browser)
    assert "This server has several organizations" in found
    assert "Platform API versions" in found
    assert str(world.server.home) not in browser.get(PAGE).text
    member = sign_in(world.server, world.alice.organization, role="member", name="mia")
    assert member.get(PAGE).status_code == 403


@pytest.mark.slow
def test_page_and_overview_cost_the_same_for_any_number_of_posts(
    counting: DatabaseCounter, server: AppServer, alice: Person
) -> None:
    browser = sign_in(server, alice.organization)

    def work(path: str) -> int:
        with counting.while_() as done:
            assert browser.get(path, headers={"Accept": "text/html"}).status_code == 200
        return done.asked.statements

    paths = (PAGE, "/")
    insert_rows(server, alice, {"text": "one"})
    few = [work(path) for path in paths]
    insert_rows(server, alice, *[{"status": "queued", "scheduled_at": 4_000_000_000_000 + step} for step in range(200)])
    insert_rows(server, alice, *[{"text": f"{step}"} for step in range(100)])
    assert [work(path) for path in paths] == few


def test_a_network_file_system_is_warned_of(server: AppServer, alice: Person) -> None:
    line = f"36 35 0:50 / {server.home} rw - nfs4 server:/export rw\n"
    server.stop()
    server.host = replace(server.host, mounts=list_mounts(line))
    server.start()
    assert "is on a network file system (nfs4): SQLite's locks do not work there" in words(
        sign_in(server, alice.organization)
    ).replace("&#39;", "'")
