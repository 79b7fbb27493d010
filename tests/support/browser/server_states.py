"""Servers in the states for browser tests: empty, full of data, or with overlong words."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import re
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from socialpub.base.runtime import format_iso
from socialpub.commands import demo
from socialpub.commands.click_types import CommandOptions
from socialpub.commands.demo_history import ReplayClock
from socialpub.commands.serve import bind
from socialpub.domain.access import actions
from socialpub.domain.access.actor import build_operator
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.identity import api_keys, users
from socialpub.domain.organizations import profiles
from socialpub.domain.schemas.api_keys import KeyRequest
from socialpub.domain.schemas.profiles import OrganizationRequest, ProfileRequest
from socialpub.simulator.server import SimulatorThread
from tests.support.publishing_state import paused

LONG = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft"
DAY_MS = 86_400_000


@dataclass(frozen=True)
class DashboardWorld:
    """A running server, and how its owner signs in. `invitation` is a link that nobody has used."""

    url: str
    service: AppContext
    lab: SimulatorThread
    login: dict[str, str]
    key: str
    invitation: str

    def ask(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """What stands in its database, read beside the server."""
        with contextlib.closing(sqlite3.connect(f"file:{self.service.db.path}?mode=ro", uri=True)) as database:
            return database.execute(statement, values).fetchall()

    def pause(self) -> contextlib.AbstractContextManager[None]:
        """Pause publishing for a doubtful clock; a user can end the pause."""
        return paused(self.service, self.lab.lab)


def fresh_server() -> contextlib.AbstractContextManager[DashboardWorld]:
    """Nobody has signed up yet; the link that makes the first owner is the invitation."""
    return _beside(_fresh)


def empty_server() -> contextlib.AbstractContextManager[DashboardWorld]:
    """An owner has just signed up."""
    return _beside(_empty)


def full_server() -> contextlib.AbstractContextManager[DashboardWorld]:
    """The demo: posts in every state, accounts that expire and are lost."""
    return _beside(_full)


def sample_server() -> contextlib.AbstractContextManager[DashboardWorld]:
    """The demo before its history: an account of each platform, and no post."""
    return _beside(_sample)


def long_words_server() -> contextlib.AbstractContextManager[DashboardWorld]:
    """Every name and every text that people or platforms choose is one very long word."""
    return _beside(_long)


def written_server(words: Mapping[str, str]) -> contextlib.AbstractContextManager[DashboardWorld]:
    """An owner whose organization is named `words["organization"]`, and a key named `words["key"]` in a profile."""
    return _beside(functools.partial(_written, words))


def run_in_thread(run: Callable[[], object]) -> None:
    """Run what needs a loop of its own, which the browser's thread has already."""
    with ThreadPoolExecutor(1, "elsewhere") as thread:
        thread.submit(run).result()


@contextlib.contextmanager
def _beside(open_: Callable[[Path], contextlib.AbstractContextManager[DashboardWorld]]) -> Iterator[DashboardWorld]:
    """A world made in a thread of its own: the browser's thread has a loop that runs already."""
    with tempfile.TemporaryDirectory() as home, ThreadPoolExecutor(1, "world") as thread:
        opened = open_(Path(home))
        world = thread.submit(opened.__enter__).result()
        try:
            yield world
        finally:
            thread.submit(opened.__exit__, None, None, None).result()


@contextlib.contextmanager
def _fresh(folder: Path) -> Iterator[DashboardWorld]:
    with _on(folder) as (options, lab, _):
        sock, settings = bind(demo.build_settings(options, lab, 0))
        service = demo.start_isolated(settings)
        with demo.serve_in_thread(service, sock):
            token = users.create_setup_token(service)
            assert token is not None
            yield DashboardWorld(service.base_url, service, lab, {}, "", token)


@contextlib.contextmanager
def _empty(folder: Path) -> Iterator[DashboardWorld]:
    with _on(folder) as (options, lab, _), _running(options, lab, {}) as world:
        yield world


@contextlib.contextmanager
def _full(folder: Path) -> Iterator[DashboardWorld]:
    with _on(folder) as (options, lab, clock):
        sock, settings = bind(demo.build_settings(options, lab, 0))
        shown = demo.create_with_history(settings, sock, lab, clock)
        with _running(options, lab, shown) as world:
            yield world


@contextlib.contextmanager
def _sample(folder: Path) -> Iterator[DashboardWorld]:
    with _on(folder) as (options, lab, _):
        lab.lab.configure(processing_ms=0)
        with _running(options, lab, lambda service: demo.create_sample_data(service, lab)) as world:
            yield world


@contextlib.contextmanager
def _long(folder: Path) -> Iterator[DashboardWorld]:
    with _empty(folder) as world:
        _fill(world)
        yield world


@contextlib.contextmanager
def _written(words: Mapping[str, str], folder: Path) -> Iterator[DashboardWorld]:
    with _on(folder) as (options, lab, _), _running(options, lab, {}, words["organization"]) as world:
        here = build_operator(world.service, "test").within(_organization(world.service))
        profile = str(actions.perform_sync(here, profiles.create, ProfileRequest(name=words["profile"]))["id"])
        key = str(actions.perform_sync(here, api_keys.create, KeyRequest(name=words["key"], profileId=profile))["key"])
        for name in ("bluesky", "facebook", "pinterest"):
            more = {"boards": [words["board"]]} if name == "pinterest" else {}
            made = world.lab.lab.add_account(name, handle=f"{name}.test", displayName=words["account"], **more)
            demo.connect_account(here, name, profile, demo.find_credentials(world.service, name, made))
        yield dataclasses.replace(world, key=key)


@contextlib.contextmanager
def _on(folder: Path) -> Iterator[tuple[CommandOptions, SimulatorThread, ReplayClock]]:
    clock = ReplayClock()
    with SimulatorThread(clock) as lab:
        database = str(folder / "socialpub.db")
        yield CommandOptions(database=database, data_dir=str(folder), config=None, port=0), lab, clock


@contextlib.contextmanager
def _running(
    options: CommandOptions,
    lab: SimulatorThread,
    shown: dict[str, Any] | Callable[[AppContext], dict[str, Any]],
    organization: str = "Bakery",
) -> Iterator[DashboardWorld]:
    sock, settings = bind(demo.build_settings(options, lab, 0))
    service = demo.start_isolated(settings)
    shown = shown(service) if callable(shown) else shown or _owner(service, organization)
    with demo.serve_in_thread(service, sock):
        invitation = _invited(service.base_url, shown["login"])
        yield DashboardWorld(service.base_url, service, lab, shown["login"], shown["key"], invitation)


def _invited(url: str, login: dict[str, str]) -> str:
    """The token of an invitation that the owner has made."""
    with httpx.Client(base_url=url, follow_redirects=True, trust_env=False, verify=False) as browser:

        def send(path: str, **fields: str) -> str:
            token = re.search(r'name="csrf_token" value="([^"]*)"', browser.get(path).text)
            assert token is not None
            answer = browser.post(path, data={"csrf_token": token[1], **fields}, headers={"Origin": url})
            return answer.raise_for_status().text

        send("/login", **login)
        found = re.search(r"/invited/([\w-]+)", send("/settings/members", email="jonas@example.com", role="admin"))
        assert found is not None
        return found[1]


def _organization(service: AppContext) -> str:
    return str(service.read(lambda: profiles.list_organizations()[0]["id"]).result())


def _owner(service: AppContext, organization: str) -> dict[str, Any]:
    login = {"email": "owner@example.com", "password": "correct horse battery"}
    made = actions.perform_sync(
        build_operator(service, "test"), profiles.create_organization, OrganizationRequest(name=organization)
    )
    here = build_operator(service, "test").within(str(made["id"]))
    actions.perform_sync(here, users.create, login["email"], "owner", users.hash_password(login["password"]))
    return {"login": login, "key": ""}


def _fill(world: DashboardWorld) -> None:
    here = build_operator(world.service, "test").within(_organization(world.service))
    profile = str(actions.perform_sync(here, profiles.create, ProfileRequest(name=LONG))["id"])
    key = str(actions.perform_sync(here, api_keys.create, KeyRequest(name=LONG, profileId=profile))["key"])
    for number, name in enumerate(("bluesky", "threads", "facebook")):
        made = world.lab.lab.add_account(name, handle=f"{'long' * 10}{number}.test", displayName=LONG[:64])
        demo.connect_account(here, name, profile, demo.find_credentials(world.service, name, made))
    with httpx.Client(
        base_url=world.url, headers={"Authorization": f"Bearer {key}"}, trust_env=False, verify=False, timeout=60
    ) as api:
        _post(world, api, ("bluesky", "threads"), scheduledAt=format_iso(world.service.now_ms + DAY_MS))
        refused = {"error": {"message": LONG * 3, "type": "OAuthException", "code": 368}}
        world.lab.lab.faults.add([{"fault": "status:400", "platform": "facebook", "body": refused}])
        _post(world, api, ("bluesky", "facebook"))
        world.lab.lab.faults.clear()
        hook = {"url": f"{world.lab.url}/hooks/503?{LONG * 4}".encode("ascii", "ignore").decode(), "description": LONG}
        api.post("/v1/webhook-endpoints", json=hook).raise_for_status()
        _post(world, api, ("threads",))
        picture = httpx.get(f"{world.lab.url}/pages/a.png", trust_env=False).content
        sent = api.post("/v1/media", files={"file": (f"{LONG}.png", picture)}, data={"altText": LONG * 2})
        sent.raise_for_status()


def _post(world: DashboardWorld, api: httpx.Client, names: tuple[str, ...], **more: Any) -> None:
    body = {"targets": [{"platform": name} for name in names], "text": LONG * 3, **more}
    api.post("/v1/posts", json=body).raise_for_status()
