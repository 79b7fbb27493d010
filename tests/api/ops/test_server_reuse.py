"""Reuse of servers by tests: an emptied one is like a new one."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import pytest

from socialpub.simulator.server import SimulatorThread
from socialpub.store.engine import sql
from socialpub.store.schema.models import Instance
from tests.support import reused_server as reuse
from tests.support.app_server import AppServer, MovableClock, sleep_briefly
from tests.support.media_uploads import JPEG, stored_media
from tests.support.request_cast import RequestCast
from tests.support.reused_server import ReusedServer
from tests.support.sign_in import EMAIL, add_user, sign_in

# Threads and their connections stay; a reader's and a queue's numbers of use are of no test.
RUNNING = {"service.jobs._tasks_in_flight", "service.jobs.storage._running"}
KEPT_TYPES = ("ElasticThreadPool", "ReaderPool", "Settings", "IdGenerator")


def walk(name: str, value: Any, seen: set[int]) -> Iterator[tuple[str, int]]:
    """How much each container within the program's own objects holds, by the way to it."""
    if id(value) in seen or type(value).__name__ in KEPT_TYPES:
        return
    seen.add(id(value))
    if isinstance(value, Collection) and not isinstance(value, str | bytes | bytearray):
        yield name, len(value)
    if isinstance(value, Mapping):
        for key, item in list(value.items()):
            yield from walk(f"{name}[{key}]", item, seen)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from walk(f"{name}[]", item, seen)
    elif type(value).__module__.startswith("socialpub."):
        for part, item in list(getattr(value, "__dict__", {}).items()):
            yield from walk(f"{name}.{part}", item, seen)


def list_contents(server: AppServer) -> dict[str, int]:
    roots = {"service": server.service, "engine": server.engine, **vars(server.app.ctx)}
    seen: set[int] = set()
    found: dict[str, int] = {}
    for name, root in roots.items():
        for place, size in walk(name, root, seen):
            found[place] = found.get(place, 0) + size
    return {place: size for place, size in found.items() if size}


def list_quiet_contents(server: AppServer) -> dict[str, int]:
    """What a server holds while no task runs: those of every second begin at any moment."""
    while True:
        contents = list_contents(server)
        if reuse._is_quiet(server) and not contents.keys() & RUNNING:
            return contents
        sleep_briefly()


def count_rows(server: AppServer) -> dict[str, int]:
    """Rows of every table of the file, also of those that no model names and of the search index."""
    names = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL %'"

    def read() -> dict[str, int]:
        tables = [name for (name,) in sql.fetch_all(names, ())]
        return {name: sql.fetch_value(f'SELECT count(*) FROM "{name}"', ()) for name in tables}

    return server.service.read(read).result()


def use(server: AppServer, world: RequestCast) -> None:
    """A little of everything that leaves something."""
    add_user(server, world.alice, EMAIL, "owner")
    browser = server.api()
    assert sign_in(browser, password="a wrong password").status_code == 401
    assert sign_in(browser).status_code == 303
    assert browser.get("/").status_code == 200
    assert server.api().get("/docs").status_code == 200
    stored_media(world.alice.api, JPEG)
    world.published()
    world.scheduled()
    assert world.bob.api.get("/v1/posts").status_code == 200
    assert world.charlie.api.post("/v1/posts/validate", json=world.body()).status_code in (200, 404, 422)


def release(reused: ReusedServer, server: AppServer) -> None:
    """End a test's use once nothing goes on any more."""
    while not reuse._is_quiet(server):
        sleep_briefly()
    reused.release()


def test_an_emptied_server_holds_what_a_new_one_holds(
    reused_server: ReusedServer, lab: SimulatorThread, world_of: Any
) -> None:
    reused_server.close()
    server = reused_server.get(lab, {})
    contents, rows = list_quiet_contents(server), count_rows(server)
    use(server, world_of(server))
    assert list_contents(server) != contents
    release(reused_server, server)
    assert reused_server.get(lab, {}) is server
    assert list_quiet_contents(server) == contents
    assert count_rows(server) == rows
    assert server.api().get("/v1/posts").status_code == 401
    assert not (server.home / "media").exists()


def test_a_server_whose_clock_was_moved_is_not_used_again(reused_server: ReusedServer, lab: SimulatorThread) -> None:
    server = reused_server.get(lab, {})
    server.clock.skip(1)
    reused_server.release()
    again = reused_server.get(lab, {})
    assert again is not server
    assert vars(again.clock) == vars(MovableClock())


def test_a_clock_that_is_moved_before_the_start_is_the_servers(wall: MovableClock, make_server: Any) -> None:
    wall.stop()
    assert make_server().clock is wall


@pytest.mark.parametrize(
    "change",
    [
        lambda server: setattr(server.service.runtime.settings.limits, "posts", 1),
        lambda server: setattr(server.service, "wake_deliveries", print),
        lambda server: setattr(server.engine.gate, "list_held_kinds", tuple),
        lambda server: server.service.sites.use("twitter", "an app", "its secret"),
        lambda server: server.service.write(lambda tx: Instance.update(paused="restored").execute()).result(),
        lambda server: (server.home / "left behind").touch(),
        lambda server: server.stop(),
    ],
)
def test_a_changed_server_is_not_used_again(change: Any, reused_server: ReusedServer, lab: SimulatorThread) -> None:
    server = reused_server.get(lab, {})
    while not reuse._is_quiet(server):
        sleep_briefly()
    change(server)
    reused_server.release()
    assert reused_server.get(lab, {}) is not server
