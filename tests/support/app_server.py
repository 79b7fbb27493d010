"""Server on a fresh database, movable clock and API clients for tests through HTTP.

The clients check every response against the OpenAPI contract (`check_response`).
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import itertools
import json
import math
import os
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from socialpub.base.config import Settings
from socialpub.base.error_codes import ERRORS
from socialpub.base.runtime import Runtime, load_vault
from socialpub.base.system import sockets
from socialpub.base.system.host_identity import HostIdentity
from socialpub.commands.serve import run_engine_and_web
from socialpub.domain.access import authentication, lost_responses
from socialpub.domain.access.actor import build_operator
from socialpub.domain.accounts import accounts
from socialpub.domain.background.engine import BackgroundEngine
from socialpub.domain.context.app_context import AppContext, open_context
from socialpub.domain.identity import api_keys
from socialpub.domain.organizations import profiles
from socialpub.domain.schemas.api_keys import KeyRequest
from socialpub.domain.schemas.common import parse_instant
from socialpub.domain.schemas.profiles import OrganizationRequest, ProfileRequest
from socialpub.platforms.bluesky import xrpc
from socialpub.platforms.contract import AccountIdentity, Tokens
from socialpub.simulator.bluesky import Bluesky
from socialpub.simulator.bluesky.sessions import service_did
from socialpub.simulator.server import SimulatorThread
from socialpub.store import database as db
from socialpub.store.engine import sql
from socialpub.store.schema.models import TABLES, Job, Post
from socialpub.web.app import build_app
from socialpub.web.http.sanic_overrides import ServerApp
from socialpub.web.server import run_in_thread, serve_app
from tests.support.new_database import create_database
from tests.support.secret_watch import SecretWatch, WatchedVault
from tests.support.stored_events import SELECT_EVENTS, StoredEvent, decode_events

UNKNOWN_ID = "01a2b3c4-d5e6-7f80-9a1b-2c3d4e5f6071"
UNKNOWN_MEDIA = "med_" + "0" * 21 + "1"


# --- Time --------------------------------------------------------------------------------------------------------


class MovableClock:
    """The real time, moved ahead by what tests skip; or standing still, once a test has stopped it."""

    def __init__(self) -> None:
        self._ahead_ms = 0
        self._standing: int | None = None
        self._held: float | None = None
        self._monotonic_ahead = 0.0

    def now_ms(self) -> int:
        if self._standing is not None:
            return self._standing
        return time.time_ns() // 1_000_000 + self._ahead_ms

    def monotonic(self) -> float:
        return (time.monotonic() if self._held is None else self._held) + self._monotonic_ahead

    def skip(self, seconds: float) -> None:
        """Both clocks go ahead. Workers notice at their next look; `AppServer.skip` wakes them."""
        self._monotonic_ahead += seconds
        if self._standing is not None:
            self._standing += int(seconds * 1000)
        else:
            self._ahead_ms += int(seconds * 1000)

    def set_ahead(self, seconds: float) -> None:
        """Wall time alone is set; a negative number sets it back."""
        self._ahead_ms += int(seconds * 1000)

    def right(self) -> None:
        """It shows the real time again."""
        self._ahead_ms, self._standing, self._held, self._monotonic_ahead = 0, None, None, 0.0

    def stop(self, at_ms: int | None = None) -> int:
        """Time stands, with the wall clock at `at_ms`; the instant at which it does.

        Monotonic time stands too: a wall clock that stands alone is one that is set back all the time.
        """
        self._standing = self.now_ms() if at_ms is None else at_ms
        self.hold()
        return self._standing

    def hold(self) -> None:
        """Monotonic time passes only as tests skip it: a wait is not over, however long the test takes.

        It is held at a whole second: adding halves and quarters of a second to it rounds nothing.
        """
        self._held = float(math.ceil(self.monotonic() - self._monotonic_ahead))


_NUMBERS = itertools.count(1)


def unused_name(stem: str = "u") -> str:
    """An account's name that is given once in a run: numbered, since names by chance meet one day."""
    return f"{stem}{next(_NUMBERS)}"


def fill_slots(
    submit: Callable[..., concurrent.futures.Future[Any]], count: int, over: threading.Event
) -> list[concurrent.futures.Future[Any]]:
    """So many places of a pool, all taken, until `over` is set."""
    entered = threading.Semaphore(0)

    def hold() -> None:
        entered.release()
        over.wait(60)

    held = [submit(hold) for _ in range(count)]
    assert all(entered.acquire(timeout=30) for _ in held)
    return held


@contextlib.contextmanager
def blocked_writer(database: db.Database) -> Iterator[None]:
    """The writer thread does not look at its inbox while the block runs, so what is asked for becomes one group."""
    entered, leave = threading.Event(), threading.Event()

    def wait(tx: db.Tx) -> None:
        entered.set()
        assert leave.wait(30)

    answer = database.write(wait)
    assert entered.wait(30)
    try:
        yield
    finally:
        leave.set()
        answer.result()


def format_instant(ms: int) -> str:
    """An instant as a client would send it."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ms // 1000)) + f".{ms % 1000:03d}Z"


# --- The contract of every answer ----------------------------------------------------------------------------------

ERROR_FIELDS = {
    "code",
    "message",
    "rule",
    "platform",
    "platformVersion",
    "platformResponse",
    "remediation",
    "docUrl",
    "ruleUrl",
    "requestId",
    "traceId",
}
_WINDOW_HEADERS = ("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset", "RateLimit-Policy", "RateLimit")


def check_response(response: httpx.Response, *, may_fail: bool = False) -> None:
    """What holds for every answer of the server; `may_fail`: a 5xx was asked for."""
    shown = f"{response.request.method} {response.request.url}: {response.status_code} {response.text[:500]}"
    assert response.status_code < 500 or may_fail, shown
    assert re.fullmatch(r"[A-Za-z0-9._:-]{1,128}", response.headers["X-Request-Id"]), shown
    if response.request.url.path.startswith("/v1"):
        check_rate_headers(response)
    if response.is_error and "text/html" not in response.headers.get("Content-Type", ""):
        check_error_body(response)


def check_error_body(response: httpx.Response) -> None:
    """The error body, and what of it the headers repeat."""
    if response.request.method == "HEAD":
        assert response.content == b""
        return
    assert response.headers["Content-Type"] == "application/json"
    body = response.json()
    error = body["error"]
    assert set(body) == {"error"}
    assert set(error) <= ERROR_FIELDS, error
    assert error["code"] in ERRORS
    assert error["message"]
    assert error["requestId"] == response.headers["X-Request-Id"]
    assert error["docUrl"].endswith(f"/docs/errors/{error['code']}")
    assert ("ruleUrl" in error) == ("rule" in error), error
    assert "null" not in [type(value).__name__ for value in error.values()]
    for secret in ("Traceback", "sqlite", "peewee", "/socialpub/", "SELECT "):
        assert secret not in response.text, response.text


def check_rate_headers(response: httpx.Response) -> None:
    """The static ceiling always; the window, whole and consistent, wherever a caller was counted."""
    headers = response.headers
    assert int(headers["X-RateLimit-Limit"]) >= 1
    there = [name for name in _WINDOW_HEADERS if name in headers]
    assert there in ([], list(_WINDOW_HEADERS))
    if there:
        limit, left, reset = (int(headers[name]) for name in _WINDOW_HEADERS[:3])
        assert 0 <= left <= limit
        assert 1 <= reset <= 60
        assert headers["RateLimit-Policy"] == f'"default";q={limit};w=60'
        assert headers["RateLimit"] == f'"default";r={left};t={reset}'
        assert headers["X-RateLimit-Limit"] == str(limit)
    elif response.status_code < 400 and response.request.method != "OPTIONS":
        raise AssertionError("an answer of /v1 without its window")


class ApiClient(httpx.Client):
    """A client of one server; every answer is checked. `key`: the API key it sends."""

    def __init__(self, url: str, key: str | None = None, **headers: str) -> None:
        sent = ({"Authorization": f"Bearer {key}"} if key else {}) | headers
        super().__init__(
            base_url=url,
            headers=sent,
            trust_env=False,
            timeout=90,
            event_hooks={"response": [self._look]},
            verify=False,  # plain HTTP: no certificates to load, which takes longer than most requests
        )
        self.key = key
        self.watch: SecretWatch | None = None
        self._may_fail = False

    def _look(self, response: httpx.Response) -> None:
        response.read()
        if self.watch:
            self.watch.hear(response)
        check_response(response, may_fail=self._may_fail)

    @contextlib.contextmanager
    def expecting_failure(self) -> Iterator[None]:
        """Answers of 5xx are what the test wants."""
        self._may_fail = True
        try:
            yield
        finally:
            self._may_fail = False

    def publish(self, body: Any, key: str | None = None) -> httpx.Response:
        """POST /v1/posts; `key`: the Idempotency-Key."""
        return self.post("/v1/posts", json=body, headers={"Idempotency-Key": key} if key else {})


def error_of(response: httpx.Response) -> dict[str, Any]:
    return dict(response.json()["error"])


# --- People and the server -----------------------------------------------------------------------------------------


UNLIMITED = dict.fromkeys(("posts", "media", "writes", "reads", "failed_logins"), 1_000_000)
"""Limits that no test reaches."""


@dataclass
class Person:
    """Somebody with a key: an organization, a profile, and a client that sends the key.

    `accounts` are their connected accounts by the name they were added under.
    """

    name: str
    organization: str
    profile: str
    key: str
    key_id: str
    api: ApiClient
    accounts: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def bluesky(self) -> str:
        """The id of their Bluesky account."""
        return str(self.accounts["bluesky"]["id"])


@dataclass
class AppServer:
    """socialpub over a file in `home`, in this process: one at a time, since a process has one open database."""

    home: Path
    lab: SimulatorThread
    clock: MovableClock
    overrides: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    host: HostIdentity = field(init=False)
    at_port: int = 0  # 0: whichever is free
    url: str = ""
    service: AppContext = field(init=False)
    engine: BackgroundEngine = field(init=False)
    app: ServerApp = field(init=False)
    watch: SecretWatch = field(init=False)
    _running: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _apis: list[ApiClient] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.watch = SecretWatch(self.lab.lab)
        self.host = HostIdentity(marks=(self.home.parent / f"{self.home.name}-marks",))

    def settings(self, port: int) -> Settings:
        given: dict[str, dict[str, Any]] = {
            "server": {"port": port},
            "database": {"url": str(self.home / "socialpub.db")},
            "security": {"allow_private_networks": True},
            "publishing": {"workers": 4, "threads": 64, "version_checks": False},
            "platforms": {"bluesky": self.bluesky_site()},
        }
        for section, values in self.overrides.items():
            given[section] = given.get(section, {}) | dict(values)
        return Settings(**given)

    def bluesky_site(self) -> dict[str, Any]:
        return {"api_base": self.lab.origin("bluesky")}

    def start(self, **config: Any) -> AppServer:
        """Serve; `config`: settings of Sanic in place of the application's."""
        sock = sockets.listen("127.0.0.1", self.at_port)
        settings = self.settings(sock.getsockname()[1])
        if not settings.database_path.exists():
            create_database(settings.database_path)
        vault = WatchedVault(load_vault(settings), self.watch)
        self.service = open_context(Runtime(settings, vault, clock=self.clock, host=self.host))
        self.watch.secrets |= {site.client_secret for site in self.service.sites.values() if site.client_secret}
        self._running.enter_context(self.watch.listening())
        self.engine = BackgroundEngine(self.service)
        self.app = build_app(self.service, self.engine)
        self.app.config.update(config)
        self._running.enter_context(run_in_thread(run_engine_and_web(self.engine, serve_app(self.app, sock))))
        self.url = settings.base_url
        return self

    @property
    def port(self) -> int:
        return self.service.runtime.settings.server.port

    def stop(self) -> None:
        """Stop, and look whether a secret was left in the clear."""
        for api in self._apis:
            api.close()
        self._apis.clear()
        self._running.close()
        leaks = self.watch.leaks(self.home)
        assert not leaks, f"secrets in the clear: {leaks}"

    def restart(self, *people: Person, **config: Any) -> None:
        """Stop and start on the same database; the clients of `people` follow to the new port."""
        self.stop()
        self.start(**config)
        self._bring(people)

    @contextlib.contextmanager
    def down(self, *people: Person) -> Iterator[None]:
        """Stopped while the block runs, and started again at its port, which nobody else gets meanwhile."""
        self.stop()
        with contextlib.closing(sockets.listen("127.0.0.1", self.port)):
            yield
            self.at_port = self.port
            self.start()
        self._bring(people)

    def away(self, seconds: float, *people: Person) -> None:
        """Down for that long: time has passed for the platforms too."""
        self.stop()
        self.clock.skip(seconds)
        assert isinstance(self.lab.lab.clock, MovableClock), "a lab whose clock a test moves"
        self.lab.lab.clock.skip(seconds)
        self.start()
        self._bring(people)

    def _bring(self, people: Iterable[Person]) -> None:
        """New clients in place of those that the stop has closed."""
        for person in people:
            person.api = self.api(person.key)

    def api(self, key: str | None = None, **headers: str) -> ApiClient:
        """A client; without a key it is nobody's."""
        api = ApiClient(self.url, key, **headers)
        api.watch = self.watch
        self._apis.append(api)
        return api

    def skip(self, seconds: float) -> None:
        """Time passes; whoever waits for a due time looks again."""
        self.clock.skip(seconds)
        self.service.jobs.wakeup.wake()
        self.service.wake_deliveries([])

    def pass_time(self, seconds: float) -> None:
        """Time passes here and at the platforms, whose clock a test must move."""
        assert isinstance(self.lab.lab.clock, MovableClock), "a lab whose clock a test moves"
        self.lab.lab.clock.skip(seconds)
        self.skip(seconds)

    @contextlib.contextmanager
    def hurried(self) -> Iterator[None]:
        """While the block runs nobody waits for a time to come: once all posts that are being published only do that,
        it has come, here and at the platforms. A lab that is on the machine's clock takes the time that it takes."""
        if not isinstance(self.lab.lab.clock, MovableClock):
            yield
            return
        with concurrent.futures.ThreadPoolExecutor(1, "hurry") as pool:
            over = threading.Event()
            hurrying = pool.submit(self._hurry, over)
            try:
                yield
            finally:
                over.set()
            hurrying.result()

    def _hurry(self, over: threading.Event) -> None:
        while not over.wait(0.01):
            jobs, now = self.service.read(_publishing_jobs).result(), self.service.now_ms
            if jobs and all(epoch is None and at > now for at, epoch in jobs):
                self.pass_time((min(at for at, _ in jobs) - now) / 1000)

    # --- Furniture ---

    def person(self, name: str, *, organization: str | None = None, bound: bool = False) -> Person:
        """Somebody new with a key: of their own organization, or in a profile of their own of an existing one.

        `bound`: the key is bound to that profile.
        """

        def make(tx: db.Tx) -> tuple[str, str, dict[str, Any]]:
            who = build_operator(self.service, "test")
            if organization is None:
                home = profiles.create_organization(tx, who, OrganizationRequest(name=f"{name}'s"))["id"]
                profile = profiles.list_bodies(authentication.Scope(home))[0]["id"]
            else:
                home = organization
                profile = str(profiles.create(tx, who.within(home), ProfileRequest(name=name)).body["id"])
            request = KeyRequest(name=name, **({"profileId": profile} if bound else {}))
            return home, profile, dict(api_keys.create(tx, who.within(home), request).body)

        home, profile, key = self.service.write(make).result()
        self.watch.secrets.add(key["key"])
        return Person(name, home, profile, key["key"], key["id"], self.api(key["key"]))

    def connected_person(self, name: str, **where: Any) -> Person:
        """Create a person (`person`) and connect a Bluesky account."""
        person = self.person(name, **where)
        self.connect_bluesky(person)
        return person

    def limited(self, person: Person, **limits: Any) -> Person:
        """The same person with another key: `limits` are fields of POST /v1/api-keys."""
        request = KeyRequest.model_validate({"name": "limited"} | limits)
        who = build_operator(self.service, "test").within(person.organization)
        key = self.service.write(lambda tx: dict(api_keys.create(tx, who, request).body)).result()
        self.watch.secrets.add(key["key"])
        return dataclasses.replace(person, key=key["key"], key_id=key["id"], api=self.api(key["key"]))

    def connect_bluesky(self, person: Person, name: str = "bluesky") -> dict[str, Any]:
        """A real account at the simulator, with a session of its app password: what a login brings, without the four
        requests of one, for thousands of tests that are not about it (`tests/api/accounts/test_connect_bluesky.py`
        is)."""
        handle = unused_name(f"{person.name.lower()}-") + ".test"
        made = self.lab.lab.add_account("bluesky", handle=handle, displayName=person.name)
        at, upstream = self.lab.origin("bluesky"), self.lab.lab.fake("bluesky")
        assert isinstance(upstream, Bluesky)
        with self.lab.lab.lock:
            account, password = upstream.accounts.login(made["handle"], made["appPassword"])
            session = upstream.accounts.open_session(account, password, service_did(at))
        ends_at = xrpc.decode_claims(session["accessJwt"])["exp"] * 1000
        identity = AccountIdentity(account.did, person.name, {"handle": account.handle, "pds": at})
        tokens = Tokens(session["accessJwt"], session["refreshJwt"], ends_at)
        return self._keep(person, name, "bluesky", identity, tokens)

    def connect(
        self, person: Person, platform: str, name: str = "", tokens: Tokens | None = None, **extra: Any
    ) -> dict[str, Any]:
        """An account of any platform, with made-up tokens: good for everything but publishing."""
        number = len(person.accounts) + 1
        identity = AccountIdentity(f"{platform}-{person.name}-{number}", f"{person.name} {number}", extra)
        tokens = tokens or Tokens("made-up-access", "made-up-refresh")
        return self._keep(person, name or platform, platform, identity, tokens)

    def connect_simulated(self, person: Person, platform: str, name: str = "", **wanted: Any) -> dict[str, Any]:
        """A real account at the simulator, with its tokens: what the simulator answers, and the account here.

        `wanted`: fields of the account there.
        """
        of_person = {"handle": unused_name(person.name.lower()), "displayName": person.name}
        made = self.lab.lab.add_account(platform, **of_person | wanted)
        ends_at = parse_instant(made["expiresAt"]) if made.get("expiresAt") else None
        tokens = Tokens(made["accessToken"], made.get("refreshToken"), ends_at)
        self.watch.secrets |= {tokens.access, tokens.refresh or tokens.access}
        identity = AccountIdentity(made["platformAccountId"], made["displayName"], made.get("extra", {}))
        return made | self._keep(person, name or platform, platform, identity, tokens)

    def _keep(
        self, person: Person, name: str, platform: str, identity: AccountIdentity, tokens: Tokens
    ) -> dict[str, Any]:
        account, _ = self.service.write(
            lambda tx: accounts.connect(
                self.service, tx, person.organization, person.profile, platform, identity, tokens
            )
        ).result()
        person.accounts[name] = account
        return account

    # --- Looking ---

    def rows(self, table: Any = Post, **wanted: Any) -> list[dict[str, Any]]:
        """The rows of a table that have these values, in the order of their making."""
        query = table.select()
        for column, value in wanted.items():
            query = query.where(getattr(table, column) == value)
        return self.service.read(lambda: list(query.dicts())).result()

    def events(self, post: str | None = None) -> list[tuple[str, dict[str, Any]]]:
        """(type, data) of every event, or of one post's, in the order of the commits."""
        found = self.happened(post=post) if post else self.happened()
        return [(event.type, json.loads(event.data)) for event in found]

    def happened(self, **wanted: Any) -> list[StoredEvent]:
        """The events that have these values, in the order of the commits."""
        return decode_events(self.service.read(lambda: sql.fetch_all(SELECT_EVENTS)).result(), **wanted)

    def stock(self) -> dict[str, Any]:
        """Everything that a refused request must leave alone: every row of every table, and the files beside them.

        Without what each request may touch: when a key was last used, a session last seen and with that its end, and
        the server's own beat. That answers were heard is written a little later, so it is written first.
        """
        if forgotten := lost_responses.delete_delivered(self.service):
            forgotten.result()
        tables = self.service.read(read_tables).result()
        files = sorted(str(path.relative_to(self.home)) for path in self.home.rglob("*") if path.parent != self.home)
        return {"tables": tables, "files": files}

    def wait(self, post: str, *statuses: str, seconds: float = 60) -> dict[str, Any]:
        """The row of a post, once it has one of these statuses."""
        deadline = time.monotonic() + seconds
        while (status := self.service.read(lambda: _status_of(post)).result()) not in statuses:
            assert time.monotonic() < deadline, f"the post is {status}, not {' or '.join(statuses)}"
            sleep_briefly()
        (row,) = self.rows(Post, id=post)
        return row

    def jobs(self) -> list[dict[str, Any]]:
        return self.rows(Job)


@contextlib.contextmanager
def running_server(home: Path, lab: SimulatorThread, **settings: Mapping[str, Any]) -> Iterator[AppServer]:
    """A server for as long as the block runs, such as one for all tests of a module."""
    server = AppServer(home, lab, MovableClock(), settings).start()
    try:
        yield server
    finally:
        server.stop()


_TOUCHED = (("ApiKey", "last_used_at"), ("Session", "seen_at"), ("Session", "ends_at"))


def read_tables() -> dict[str, list[dict[str, Any]]]:
    """Every row of every table, as it is stored: the query builder takes ten times as long.

    Without what each request may touch.
    """
    found = {}
    for table in TABLES:
        if table.__name__ != "Instance":
            with contextlib.closing(sql.execute(f'SELECT * FROM "{table._meta.table_name}"')) as cursor:
                columns = [column[0] for column in cursor.description]
                found[table.__name__] = [dict(zip(columns, row, strict=True)) for row in cursor]
    for name, column in _TOUCHED:
        found[name] = [row | {column: None} for row in found[name]]
    return found


def list_changes(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """The rows of each table that has changed, as they were and as they are.

    A request whose answer was heard meanwhile is no change: its row is deleted a little later.
    """
    changed = {name: (before[name], rows) for name, rows in now.items() if rows != before[name]}
    unheard, left = changed.get("UnacknowledgedRequest", ([], []))
    if all(row in unheard for row in left):
        changed.pop("UnacknowledgedRequest", None)
    return changed


def _status_of(post: str) -> str:
    return str(Post.select(Post.status).where(Post.id == post).scalar())


def _publishing_jobs() -> list[tuple[int, int | None]]:
    """The jobs of the posts that are: when each rings, and who works on it."""
    jobs = Job.select(Job.visible_at, Job.epoch).join(Post, on=(Post.id == Job.key))
    return list(jobs.where(Post.status == "publishing").tuples())


NAP_SECONDS = 0.005
NAPS_MAX = 60_000  # five minutes and more, of each loop of each test
_nap_counts: Counter[tuple[str, str, int]] = Counter()


def sleep_briefly() -> None:
    """Sleep for a moment inside a loop that waits for a state; AssertionError once a loop has done so for too long.

    Naps are counted for each loop of each test, so that no loop waits for ever for what a fault keeps from coming.
    """
    caller = sys._getframe(1)
    loop = (os.environ.get("PYTEST_CURRENT_TEST", ""), caller.f_code.co_filename, caller.f_lineno)
    _nap_counts[loop] += 1
    assert _nap_counts[loop] < NAPS_MAX, (
        f"what {caller.f_code.co_qualname} waits for has not come within {NAPS_MAX} naps"
    )
    time.sleep(NAP_SECONDS)


@contextlib.contextmanager
def unchanged(server: AppServer) -> Iterator[None]:
    """Nothing is written while the block runs, and nothing is called upstream."""
    before, calls = server.stock(), len(server.lab.lab.calls)
    yield
    now = server.stock()
    told = {name: (before["tables"][name], rows) for name, rows in now["tables"].items()}
    changed = {name: rows for name, rows in told.items() if rows[0] != rows[1]}
    assert now == before, (changed, before["files"], now["files"])
    assert server.lab.lab.calls[calls:] == []
