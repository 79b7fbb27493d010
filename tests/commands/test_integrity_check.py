"""Integrity check: short at start, complete in the background after damage or a kill.

A start reads the same amount for a file of any size. A file that may be damaged is checked completely in the
background: its faults are reported, and damage pauses publishing.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from socialpub.base import config
from socialpub.base.system.host_identity import HostIdentity
from socialpub.domain.server import copy_detection
from socialpub.simulator.server import SimulatorThread
from socialpub.store import database as db
from socialpub.store.engine import integrity
from socialpub.store.engine.integrity import LOWEST_PRIORITY, START_CHECK_BYTES_MAX, IntegrityScan
from socialpub.store.engine.locks import StartError
from socialpub.store.schema import migration
from tests.support.app_server import format_instant
from tests.support.command_runner import (
    AskCommand,
    CommandProcess,
    RunCommand,
    make_client,
    read_address,
    run_command,
    running_commands,
)
from tests.support.damaged_database import PAGE, damage_file, grow_database
from tests.support.server_start import SERVE as SERVE_JSON
from tests.support.server_start import failed_start
from tests.support.soak.soak_world import wait_for

Start = Callable[..., CommandProcess]
SERVE = ("serve", "--port", "0")


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a server with a large database, as a clean stop has left it."""
    home = tmp_path_factory.mktemp("house")
    made = run_command("org", "create", "Acme", cwd=home)
    assert made.code == 0, made.err
    grow_database(home / "socialpub.db", START_CHECK_BYTES_MAX * 5 // 4)
    with running_commands(home) as start:
        server = start(*SERVE)  # which knows nothing of how it was left, and looks at it
        server.until("no damage found")
        assert server.stop() == 0
    return home


@pytest.fixture
def large(house: Path, folder: Path) -> Path:
    """The database of that house, in this test's folder, as a clean stop has left it: what the house's server has
    written of its own file is written of this one."""
    shutil.copytree(house, folder, dirs_exist_ok=True)
    settings = config.load()
    database, state = settings.database_path, copy_detection.read_state(copy_detection.get_state_path(settings))
    assert state is not None
    assert state.left is not None
    with closing(sqlite3.connect(f"file:{database}?immutable=1", uri=True)) as connection:
        (uid,) = connection.execute("SELECT uid FROM instance").fetchone()
    here, beat = HostIdentity(state.machine, state.boot), copy_detection.DatabaseGeneration(state.beat, state.mark)
    copy_detection.save_state(settings, here, uid, beat, outside=False)
    copy_detection.save_clean_stop(settings, state.beat)
    return database


MEGA = 1024 * 1024


@pytest.fixture
def bare(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A database that nobody has served; it is large where one of a megabyte is, which is written in no time."""
    monkeypatch.setattr(integrity, "START_CHECK_BYTES_MAX", MEGA)
    migration.migrate(folder / "socialpub.db")
    grow_database(folder / "socialpub.db", 2 * MEGA)
    return folder / "socialpub.db"


def said(server: CommandProcess, last: str) -> str:
    """What it says on standard error, up to the line that has `last` in it."""
    lines = [server.line("stderr")]
    while last not in lines[-1]:
        lines.append(server.line("stderr"))
        assert lines[-1], f"it ended with {server.popen.wait()} and said {lines}"
    return "".join(lines)


def ready(url: str) -> dict[str, Any]:
    return dict(httpx.get(f"{url}/readyz", trust_env=False).json())


def read_by_us() -> int:
    """The bytes that this process has asked the system for."""
    return int(Path("/proc/self/io").read_text().split()[1])


def test_what_a_start_reads_of_a_large_file_does_not_grow(bare: Path) -> None:
    before = read_by_us()
    assert db.check_start(bare) is False
    little = read_by_us() - before
    assert little < MEGA
    grow_database(bare, 8 * MEGA)
    before = read_by_us()
    assert db.check_start(bare) is False
    assert read_by_us() - before < little + 100_000 < bare.stat().st_size / 8


def test_all_of_a_small_file_is_looked_at_by_the_start(start: Start, folder: Path) -> None:
    server = start(*SERVE)
    read_address(server)
    assert server.stop(signal.SIGKILL) == -signal.SIGKILL
    assert db.check_start(folder / "socialpub.db") is True
    server = start(*SERVE)
    assert "checking all of" not in said(server, "socialpub serves")
    assert server.stop() == 0


@pytest.mark.slow
def test_after_a_clean_stop_no_look_is_owed(start: Start, large: Path) -> None:
    server = start(*SERVE)
    assert "checking all of" not in said(server, "socialpub serves")
    assert server.stop() == 0


def test_commands_between_two_runs_are_no_change_from_outside(
    start: Start, ask: AskCommand, run: RunCommand, large: Path
) -> None:
    assert ask("org", "create", "Another")
    assert run("migrate").code == 0
    server = start(*SERVE)
    assert "checking all of" not in said(server, "socialpub serves")
    assert server.stop() == 0


def test_command_beside_a_running_server_does_not_report_it_stopped(start: Start, ask: AskCommand, large: Path) -> None:
    server = start(*SERVE)
    read_address(server)
    ask("org", "create", "Another")
    assert server.stop(signal.SIGKILL) == -signal.SIGKILL
    server = start(*SERVE)
    assert "the server was killed" in said(server, "socialpub serves")
    assert server.stop() == 0


def test_after_a_kill_the_file_is_looked_at_while_publishing_goes_on(start: Start, large: Path) -> None:
    server = start(*SERVE)
    read_address(server)
    assert server.stop(signal.SIGKILL) == -signal.SIGKILL
    server = start(*SERVE)
    assert "(the server was killed, or stopped before it had checked the file); publishing continues meanwhile" in said(
        server, "socialpub serves"
    )
    server.until("no damage found")
    assert server.stop() == 0
    server = start(*SERVE)
    assert "checking all of" not in said(server, "socialpub serves")
    assert server.stop() == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "happened",
    ["the machine went down", pytest.param("the file was changed since the server stopped", marks=pytest.mark.slow)],
)
def test_what_is_due_waits_for_the_look_where_the_file_may_be_damaged(
    happened: str, start: Start, ask: AskCommand, large: Path, simulator: SimulatorThread
) -> None:
    grow_database(large, START_CHECK_BYTES_MAX * 4)  # a look takes longer than a post
    post = scheduled(start, ask, simulator, large, happened, seconds=5)
    time.sleep(max(0, post["due"] - time.time()))
    server = start(*SERVE)
    told = said(server, post["id"])
    assert "due posts wait for the result" in told
    assert "no damage found" in told, "the post did not wait"
    assert server.stop() == 0
    assert [sent.text for sent in simulator.lab.ledger.posts()] == ["Later"]


def scheduled(
    start: Start, ask: AskCommand, simulator: SimulatorThread, database: Path, leave: str, seconds: float = 86_400
) -> dict[str, Any]:
    """A post for later, in a database that was left so; `due`: in seconds."""
    alice = simulator.lab.add_account("bluesky", handle="alice.test")
    server = start(*SERVE)
    url = read_address(server)
    (org,) = (row["id"] for row in ask("org", "list") if row["name"] == "Acme")
    profile = ask("profile", "list", "--org", org)[0]["id"]
    where = ("--profile", profile, "--handle", "alice.test")
    account = ask("account", "connect", "bluesky", *where, stdin=alice["appPassword"])["id"]
    key = ask("key", "create", "--org", org)["key"]
    due = time.time() + seconds
    at = format_instant(int(due * 1000))
    body = {"targets": [{"accountId": account}], "text": "Later", "scheduledAt": at}
    with make_client(url, key) as api:
        (result,) = api.post("/v1/posts", json=body).json()["results"]
    if leave == "the machine went down":
        assert server.stop(signal.SIGKILL) == -signal.SIGKILL
        state = database.with_name("instance.state")
        state.write_text(json.dumps(json.loads(state.read_text()) | {"kernel": "another"}))
    else:
        assert server.stop() == 0
        os.utime(database)
    return {"id": result["postId"], "key": key, "account": account, "due": due}


@pytest.mark.slow
def test_damage_is_told_and_nothing_is_published(
    start: Start, ask: AskCommand, run: RunCommand, large: Path, simulator: SimulatorThread
) -> None:
    post = scheduled(start, ask, simulator, large, leave="the file was changed since the server stopped")
    damage_file(large)
    server = start(*SERVE)
    told = said(server, "publishing is paused. Stop the server")
    assert "due posts wait for the result" in told
    url = told.partition("socialpub serves ")[2].split()[0]
    found = ready(url)
    while found.get("reason") != "damaged":
        found = ready(url)
    assert found["publishing"] == "paused"
    with make_client(url, post["key"]) as api:
        now = api.post("/v1/posts", json={"targets": [{"accountId": post["account"]}], "text": "Now"})
        assert (now.status_code, now.json()["error"]["rule"]) == (503, "service.paused")
        assert api.get("/v1/posts").status_code == 200
    assert server.stop() == 0
    server = start(*SERVE)  # it is known from the start on, and looked at again
    told = said(server, "publishing is paused. Stop the server")
    assert "publishing is paused (damaged)" in told
    assert server.stop() == 0
    assert simulator.lab.ledger.posts() == []


@pytest.mark.slow
def test_a_stop_ends_the_look_and_the_next_start_owes_it(start: Start, large: Path) -> None:
    grow_database(large, START_CHECK_BYTES_MAX * 6)
    server = start(*SERVE)
    said(server, "socialpub serves")
    assert wait_for(lambda: nicest(server.popen.pid) == LOWEST_PRIORITY, 30, 0.001), "nothing gives way"
    assert server.stop() == 0
    state = json.loads(large.with_name("instance.state").read_text())
    if "left" in state:
        pytest.fail("it was looked through before it could be stopped: make it larger")
    server = start(*SERVE)
    assert "(the file was changed since the server stopped); due posts wait for the result" in said(
        server, "no damage found"
    )
    assert server.stop() == 0


def nicest(pid: int) -> int:
    """Of a process' threads the one that others go before the most."""
    with contextlib.suppress(ProcessLookupError):  # a thread that has just ended
        return max(os.getpriority(os.PRIO_PROCESS, int(task)) for task in os.listdir(f"/proc/{pid}/task"))
    return nicest(pid)


def test_a_look_that_is_stopped_knows_nothing(bare: Path) -> None:
    look, ours = IntegrityScan(bare), os.nice(0)
    look.stop()
    assert look.problems() is None
    assert IntegrityScan(bare).problems() == []
    assert os.nice(0) == ours, "whoever looks says for its own thread that it gives way"


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: -3 * PAGE])


def break_the_schema(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(100)
        file.write(b"\xff" * 8)


def break_an_account(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        root = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'account'").fetchone()[0]
    with path.open("r+b") as file:
        file.seek((root - 1) * PAGE)
        file.write(b"\xff" * 8)


def break_a_name_in_the_schema(path: Path) -> None:
    """What SQLite says of it quotes bytes that are no text."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA writable_schema = 1")
        connection.execute("UPDATE sqlite_schema SET name = CAST(x'69C161' AS TEXT) WHERE name = 'account'")


@pytest.mark.matrix
@pytest.mark.parametrize("hurt", [cut_off, break_the_schema, break_a_name_in_the_schema, break_an_account])
def test_a_large_file_that_is_seen_to_be_damaged_is_refused(
    hurt: Callable[[Path], None], run: RunCommand, large: Path
) -> None:
    hurt(large)
    before = large.read_bytes()
    failed_start(run(*SERVE_JSON), "socialpub.db", "damaged", "backup")
    assert large.read_bytes() == before


def test_damage_is_reported_in_sqlites_words_even_when_not_text(run: RunCommand, large: Path) -> None:
    break_a_name_in_the_schema(large)
    failed_start(run(*SERVE_JSON), "malformed database schema (i\ufffda)")


@pytest.mark.slow
def test_flipped_bits_of_a_large_file_are_refused_or_found_by_the_look(
    bare: Path,
) -> None:
    """Whatever SQLite's own check of the whole file calls damaged, a start or the look behind it does too."""
    assert db.check_start(bare) is False
    seed = random.randrange(2**32)
    chance, whole = random.Random(seed), bare.read_bytes()
    found = 0
    for number in range(1000):
        if number >= 40 and found:
            break
        damaged = bytearray(whole)
        # The pages of a large table are much alike: every other bit is where the small ones are.
        last = len(whole) if number % 2 else 80 * PAGE
        damaged[chance.randrange(last)] ^= 1 << chance.randrange(8)
        bare.write_bytes(damaged)
        if sound(bare):
            continue
        found += 1
        try:
            db.check_start(bare)
            assert IntegrityScan(bare).problems(), f"seed {seed}: flip {number} was not seen"
        except StartError:
            """Refused."""
    assert found, f"seed {seed}"


def sound(database: Path) -> bool:
    try:
        with closing(sqlite3.connect(database)) as connection:
            return connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    except (sqlite3.DatabaseError, UnicodeDecodeError):  # the second where the words of the first quote damaged bytes
        return False
