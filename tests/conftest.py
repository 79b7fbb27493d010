"""Fixtures of all tests: servers, simulators, clocks, organizations and their clients.

Alice owns an organization and has an org-wide key; Bob has a profile in it, and a key bound to that profile; Charlie is
another organization. Each has one Bluesky account at the simulator.
"""

from __future__ import annotations

import functools
import gc
import os
import signal
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from httpx._config import DEFAULT_TIMEOUT_CONFIG
from httpx._transports import default
from pydantic_settings import EnvSettingsSource

from socialpub.base import http as outbound
from socialpub.base.config import VARIABLE_PREFIX
from socialpub.domain.media import probe
from socialpub.simulator.server import SimulatorThread
from tests.support import media_files, query_plans, route_cache, thread_jitter
from tests.support.app_server import AppServer, MovableClock, Person
from tests.support.database_costs import counting as counting
from tests.support.file_server import FileServer
from tests.support.query_plans import statement_recorder
from tests.support.quick_passwords import quick_passwords as quick_passwords
from tests.support.quick_passwords import real_passwords as real_passwords
from tests.support.reporting import ReportLine
from tests.support.request_cast import RequestCast
from tests.support.soak import extra_platforms
from tests.support.webhook_receiver import WebhookReceiver, running_receiver

os.umask(0o077)  # settings files with secrets in them are theirs alone, or they are refused

# A suite that a script runs in the background has Ctrl-C ignored, and so would be the commands that it sends one to.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Bytecode is kept, whatever the shell says: a third of what it takes to collect the tests is compiling them, in each of
# the processes that run them, and each `socialpub` that a test starts would compile the whole package anew.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

SHARED_MEMORY, SHARED_MEMORY_NEEDED = Path("/dev/shm"), 2 << 30

# What servers leave outside their data folders.
os.environ["XDG_STATE_HOME"] = str(Path(tempfile.gettempdir(), f"socialpub-tests-{os.getuid()}"))

# Nearly every test makes clients, for plain HTTP on loopback, and each would load all certificates anew (15 ms).
default.create_ssl_context = functools.cache(default.create_ssl_context)

# A busy machine may take longer than the five seconds for which httpx waits where nothing is said.
for phase in ("connect", "read", "write", "pool"):
    setattr(DEFAULT_TIMEOUT_CONFIG, phase, 60.0)

# The environment has no settings unless a test sets some; looking for each is half of what a server's settings take.
_read_environment = EnvSettingsSource.__call__


def _read_settings(source: EnvSettingsSource) -> dict[str, Any]:
    return _read_environment(source) if any(name.upper().startswith(VARIABLE_PREFIX) for name in os.environ) else {}


EnvSettingsSource.__call__ = _read_settings  # type: ignore[method-assign]

probe._run_worker = media_files.memoize(probe._run_worker)

# A timing never decides a test. A run fails for what was changed: its examples are those of the last. FUZZ=1: others,
# and more of them.
FUZZ = "FUZZ" in os.environ
hypothesis.settings.register_profile("socialpub", deadline=None, derandomize=not FUZZ, max_examples=100 if FUZZ else 25)
hypothesis.settings.load_profile("socialpub")

route_cache.cache_routes()  # hundreds of simulators have the same routes
if share := os.environ.get("JITTER"):
    thread_jitter.add_jitter(float(share))

statement_recorder.listen()


# --- Runs in several processes -------------------------------------------------------------------------------------


@pytest.fixture
def tell(record_property: Callable[[str, object], None]) -> ReportLine:
    """Say what a test has measured, and with which seed: a table in the run's output, whichever process it ran in."""
    return lambda text: record_property("told", text)


def pytest_configure(config: pytest.Config) -> None:
    if not config.option.markexpr.startswith("slow"):  # those kill processes, and look at what is left on a disk
        _use_shared_memory()
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(MeasurementReporter(config))


def _use_shared_memory() -> None:
    """Tests have their files in memory where there is room: each server waits for the disk a dozen times, and for the
    other tests that do; that is most of the time it takes."""
    if SHARED_MEMORY.is_dir() and os.access(SHARED_MEMORY, os.W_OK):
        there = os.statvfs(SHARED_MEMORY)
        if there.f_bavail * there.f_frsize >= SHARED_MEMORY_NEEDED and not there.f_flag & os.ST_NOEXEC:
            os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(SHARED_MEMORY))


# Where a few tests take long. The files with most tests come next; a file is one process's, and whoever gets a long one
# last keeps everybody waiting.
SLOWEST_FILES = (
    "unit/domain/publishing/test_protocol.py",
    "commands/test_processes.py",
    "api/notifications/test_notifications.py",
    "unit/platforms/meta/test_publishing.py",
    "unit/domain/accounts/test_token_refresh_by_platform.py",
    "commands/test_messages.py",
    "commands/test_integrity_check.py",
    "unit/domain/publishing/test_first_comments.py",
    "isolation/test_lost_authority.py",
    "commands/test_file_errors.py",
    "unit/domain/publishing/test_tiktok_drafts.py",
    "unit/domain/accounts/test_secret_leaks.py",
    "api/http/test_unfinished_requests.py",
    "commands/test_listen.py",
    "unit/domain/publishing/test_platform_duplicates.py",
    "unit/domain/server/test_recovery.py",
    "api/http/test_idempotency.py",
    "unit/platforms/facebook/test_publishing.py",
    "commands/test_leftovers.py",
    "api/posts/test_batches.py",
    "unit/domain/server/test_lost_files.py",
)


MATRIX_SHARE = 3


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    _mark_matrix_cases(items)
    here, counts = Path(__file__).parent, Counter(item.path for item in items)
    places = {here / name: place for place, name in enumerate(SLOWEST_FILES)}
    items.sort(key=lambda item: (places.get(item.path, len(SLOWEST_FILES)), -counts[item.path]))


def _mark_matrix_cases(items: list[pytest.Item]) -> None:
    """Mark as slow all but one in MATRIX_SHARE of the cases of each test that has the mark `matrix`.

    Tests that repeat one thing for each platform or fault begin at different cases, so that each platform is in some.
    """
    matrices: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("matrix"):
            matrices.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for name, cases in matrices.items():
        first = zlib.crc32(name.encode()) % min(MATRIX_SHARE, len(cases))
        for place, case in enumerate(cases):
            if place % MATRIX_SHARE != first:
                case.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """Thousands of collected tests stay until the end: the garbage collector need not look at them again and again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Every statement that was run has a plan that does not grow, or the run has failed."""
    outbound.close_idle(0)  # connections to servers that tests had; Python would complain of each
    with tempfile.TemporaryDirectory() as folder:
        walks = [walk.told() for walk in query_plans.find_unexempt_scans(statement_recorder.seen, Path(folder))]
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["walks"] = walks
    walks += session.config.stash.get(TABLE_SCANS, [])
    if walks and not hasattr(session.config, "workeroutput"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        terminal = session.config.get_terminal_writer()
        terminal.line()
        terminal.line("These statements walk through a table that grows (tests/support/query_plans.py):", red=True)
        for walk in dict.fromkeys(walks):
            terminal.line(walk)


TABLE_SCANS = pytest.StashKey[list[str]]()  # of the processes that have ended


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    node.config.stash.setdefault(TABLE_SCANS, []).extend(getattr(node, "workeroutput", {}).get("walks", []))


class MeasurementReporter:
    """Prints what tests tell, as they end."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        told = [str(text) for name, text in report.user_properties if name == "told"] if report.when == "call" else []
        if told:
            terminal = self._config.get_terminal_writer()
            terminal.line()
            terminal.line("\n".join(told))


# --- The simulator, a server, its people ---------------------------------------------------------------------------


@pytest.fixture(scope="session")
def lab_thread() -> Iterator[SimulatorThread]:
    with SimulatorThread(MovableClock()) as simulator:
        yield simulator


@pytest.fixture
def lab(lab_thread: SimulatorThread) -> Iterator[SimulatorThread]:
    """The simulator, empty before and after."""
    lab_thread.lab.reset()
    yield lab_thread
    assert isinstance(lab_thread.lab.clock, MovableClock)
    lab_thread.lab.clock.right()
    lab_thread.lab.reset()


@pytest.fixture(scope="module")
def three() -> Iterator[SimulatorThread]:
    """A simulator that has the two platforms of the tests too."""
    extra_platforms.register()
    with SimulatorThread(MovableClock()) as simulator:
        yield simulator
    extra_platforms.unregister()


@pytest.fixture
def wall() -> MovableClock:
    """The server's clock."""
    return MovableClock()


@pytest.fixture
def make_server(tmp_path: Path, lab: SimulatorThread, wall: MovableClock) -> Iterator[Callable[..., AppServer]]:
    """Start a server with settings of the test's own: `make_server(limits={"posts": 3})`."""
    made: list[AppServer] = []

    def make(**settings: dict[str, Any]) -> AppServer:
        made.append(AppServer(tmp_path, lab, wall, settings).start())
        return made[-1]

    yield make
    for server in made:
        server.stop()


@pytest.fixture
def server(make_server: Callable[..., AppServer]) -> AppServer:
    return make_server()


@pytest.fixture
def alice(server: AppServer) -> Person:
    """Owner of an organization, with an org-wide key and a Bluesky account in its profile `default`."""
    return server.connected_person("Alice")


@pytest.fixture
def world(server: AppServer, alice: Person) -> RequestCast:
    return RequestCast(server, alice)


@pytest.fixture
def bob(world: RequestCast) -> Person:
    return world.bob


@pytest.fixture
def charlie(world: RequestCast) -> Person:
    return world.charlie


@pytest.fixture
def world_of() -> Callable[[AppServer], RequestCast]:
    """The cast on a server with settings of the test's own."""
    return lambda server: RequestCast(server, server.connected_person("Alice"))


@pytest.fixture
def sink() -> Iterator[WebhookReceiver]:
    with running_receiver() as sink:
        yield sink


@pytest.fixture
def shelf() -> Iterator[FileServer]:
    shelf = FileServer()
    yield shelf
    shelf.close()
