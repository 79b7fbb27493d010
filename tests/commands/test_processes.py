"""serve, demo and simulator as processes: output, one server per file, signals."""

from __future__ import annotations

import concurrent.futures
import gc
import hashlib
import json
import os
import re
import signal
import sqlite3
import subprocess
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from socialpub.base.config import Settings
from socialpub.base.settings_sections import ServerSettings
from socialpub.base.system.sockets import listen
from socialpub.commands import serve
from socialpub.platforms import CONNECTORS, PLATFORMS
from socialpub.simulator.registry import FAKES
from socialpub.simulator.server import SimulatorThread
from socialpub.store.engine import locks
from socialpub.store.jobs import job_queue
from tests.support.command_data import insert_account, make_organization
from tests.support.command_runner import AskCommand, CommandProcess, RunCommand, make_client, read_address, run_command
from tests.support.forked_commands import ForkedCommand
from tests.support.import_files import BLUESKY, make_line, run_import, write_lines
from tests.support.ports import free_ports
from tests.support.webhook_endpoints import ENDPOINTS
from tests.support.webhook_receiver import WebhookReceiver

Start = Callable[..., CommandProcess]


# --- serve -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_server_starts_from_nothing_answers_and_ends_with_a_signal(
    start_python: Start, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And reads nothing of the simulator."""
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")  # Python says on standard error which module it reads
    server = start_python("serve", "--port", "0")
    said = [server.line("stderr")]
    while not said[-1].startswith("socialpub serves "):
        said.append(server.line("stderr"))
        assert said[-1], "it ended"
    url = said[-1].split()[-1]
    assert httpx.get(f"{url}/healthz", trust_env=False).status_code == 200
    assert httpx.get(f"{url}/v1/posts", trust_env=False).json()["error"]["code"] == "unauthenticated"
    assert server.stop() == 0
    assert {path.name for path in folder.iterdir()} >= {"socialpub.db", "master.key"}
    said += iter(lambda: server.line("stderr"), "")
    read = {line.rpartition("|")[2].strip() for line in said if line.startswith("import time:")}
    assert "socialpub.web.app" in read
    assert not [name for name in read if name.startswith(("socialpub.simulator", "socialpub.commands.demo"))]


def test_the_collector_does_not_look_again_at_what_a_start_has_made(folder: Path) -> None:
    sock, settings = serve.bind(Settings(server=ServerSettings(port=0)))
    frozen: list[int] = []

    def ready() -> None:
        frozen.append(gc.get_freeze_count())
        os.kill(os.getpid(), signal.SIGTERM)

    try:
        with sock:
            serve.run(serve.start_service(settings), sock, ready)
    finally:
        gc.unfreeze()
    assert frozen > [10_000]


@pytest.mark.slow
def test_every_request_has_its_line_in_the_log_when_a_server_has_ended(start: Start) -> None:
    server = start("serve", "--port", "0")
    with httpx.Client(base_url=read_address(server), trust_env=False) as asking:
        ids = [asking.get("/docs").headers["X-Request-Id"] for _ in range(300)]
    server.popen.send_signal(signal.SIGTERM)
    lines = "".join(iter(lambda: server.line("stderr"), ""))
    assert server.popen.wait(20) == 0
    assert (
        re.findall(r" INFO socialpub.web (\S+) GET '/docs' 200 \d+ms by anonymous from 127.0.0.1$", lines, re.M) == ids
    )


def test_the_log_may_be_for_programs(start: Start, folder: Path) -> None:
    (folder / "socialpub.toml").write_text('[log]\nformat = "json"\n')
    server = start("serve", "--port", "0")
    with httpx.Client(base_url=read_address(server), trust_env=False) as asking:
        asked = asking.get("/docs").headers["X-Request-Id"]
    server.popen.send_signal(signal.SIGTERM)
    told = [json.loads(line) for line in iter(lambda: server.line("stderr"), "") if line.startswith("{")]
    (line,) = [line for line in told if line["logger"] == "socialpub.web"]
    assert (line["request"], line["method"], line["path"], line["status"]) == (asked, "GET", "/docs", 200)
    assert line["time"].endswith("Z")


def test_a_log_of_warnings_tells_no_request(start: Start, folder: Path) -> None:
    (folder / "socialpub.toml").write_text('[log]\nlevel = "warning"\n')
    server = start("serve", "--port", "0")
    assert httpx.get(f"{read_address(server)}/healthz", trust_env=False).status_code == 200
    server.popen.send_signal(signal.SIGTERM)
    assert " INFO " not in "".join(iter(lambda: server.line("stderr"), ""))


def test_a_second_server_on_the_file_ends_with_3_and_waits_for_nothing(
    start: Start, run: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = start("serve", "--port", "0")
    port = read_address(first).rpartition(":")[2]
    waits: list[float] = []
    monkeypatch.setattr(locks.time, "sleep", waits.append)
    for arguments in (("--port", "0"), ("--port", port)):
        ended = run("serve", *arguments, "--json")
        assert ended.code == 3
        assert ended.error == {"message": "another socialpub already serves socialpub.db"}
    assert waits == []
    assert first.stop() == 0


def test_a_killed_server_does_not_keep_the_next_one_out(start: Start) -> None:
    first = start("serve", "--port", "0")
    read_address(first)
    assert first.stop(signal.SIGKILL) == -signal.SIGKILL
    second = start("serve", "--port", "0")
    assert httpx.get(f"{read_address(second)}/healthz", trust_env=False).status_code == 200
    assert second.stop() == 0


def test_a_port_that_is_taken_ends_with_1_and_is_named(start: Start, run: RunCommand) -> None:
    port = read_address(start("serve", "--port", "0")).rpartition(":")[2]
    ended = run("serve", "--port", port, "--database", "other.db", "--json")
    assert ended.code == 1
    assert ended.error["message"].startswith(f"server.port: cannot listen on 127.0.0.1:{port}: ")


def test_keys_made_and_revoked_beside_a_server_count_at_the_next_request(
    start: Start, ask: AskCommand, folder: Path
) -> None:
    server = start("serve", "--port", "0")
    url = read_address(server)
    org = ask("org", "create", "Acme")["id"]
    for _ in range(3):
        made = ask("key", "create", "--org", org)
        with make_client(url, made["key"]) as api:
            for _ in range(20):  # the server knows this key by heart
                assert api.get("/v1/accounts").json() == {"data": []}
            ask("key", "revoke", made["id"])
            assert api.get("/v1/accounts").status_code == 401
    assert server.stop() == 0
    with closing(sqlite3.connect(folder / "socialpub.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_an_account_connected_beside_a_running_server_publishes(
    start: Start, ask: AskCommand, simulator: SimulatorThread
) -> None:
    alice = simulator.lab.add_account("bluesky", handle="alice.test")
    url = read_address(start("serve", "--port", "0"))
    org = ask("org", "create", "Acme")["id"]
    profile = ask("profile", "list", "--org", org)[0]["id"]
    where = ("--profile", profile, "--handle", "alice.test")
    account = ask("account", "connect", "bluesky", *where, stdin=alice["appPassword"])
    body = {"targets": [{"accountId": account["id"]}], "text": "Out it goes"}
    with make_client(url, ask("key", "create", "--org", org)["key"]) as api:
        answer = api.post("/v1/posts", json=body)
    assert (answer.status_code, answer.json()["status"]) == (200, "published")
    (post,) = simulator.lab.ledger.posts()
    assert post.text == "Out it goes"


def test_a_resume_without_a_pause_fails_no_post(run: RunCommand, ask: AskCommand, folder: Path) -> None:
    """It said that nothing was changed, and had failed every overdue post."""
    _, profile = make_organization(ask)
    insert_account(ask, profile, "bluesky", BLUESKY)
    run_import(run, write_lines(folder, make_line()))
    with closing(sqlite3.connect("socialpub.db")) as database, database:
        database.execute("UPDATE post SET scheduled_at = 1, due_at = 1")
    assert ask("resume", "--skip-overdue") == {"was": None, "paused": None, "publish": [], "skip": []}
    assert run("resume", "--skip-overdue").out == "Publishing was not paused; nothing was changed.\n"
    with closing(sqlite3.connect("socialpub.db")) as database:
        assert database.execute("SELECT status FROM post").fetchall() == [("queued",)]


def test_data_that_no_server_has_used_are_not_handed_over(run: RunCommand, ask: AskCommand) -> None:
    """Nothing would keep a server from starting on them here."""
    ask("org", "create", "Acme")
    for line in ((), ("keys", "rotate")):
        assert not line or run(*line).code == 0
        ended = run("move", "--json")
        assert (ended.code, ended.error["message"]) == (3, "No server has run on socialpub.db yet.")


def test_events_of_commands_reach_receivers_and_waiting_requests(
    start: Start,
    run: RunCommand,
    ask: AskCommand,
    folder: Path,
    sink: WebhookReceiver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No callback of their transactions runs in the server."""
    monkeypatch.setattr(job_queue, "SCHEDULER_SECONDS", 0.1)
    monkeypatch.setenv("SOCIALPUB_SECURITY__ALLOW_PRIVATE_NETWORKS", "true")
    url = read_address(start("serve", "--port", "0"))
    org, profile = make_organization(ask)
    insert_account(ask, profile, "bluesky", BLUESKY)
    with make_client(url, ask("key", "create", "--org", org)["key"]) as api:
        assert api.post(ENDPOINTS, json={"url": sink.url}).status_code == 201
        begin, cursor = threading.Event(), api.get("/v1/events").json()["endCursor"]

        def wait_for_event() -> list[str]:
            begin.set()
            waiting = api.get("/v1/events", params={"cursor": cursor}, headers={"Prefer": "wait=55"}, timeout=60)
            return [event["type"] for event in waiting.json()["data"]]

        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(wait_for_event)
            assert begin.wait(60)
            run_import(run, write_lines(folder, make_line()))
            assert waiting.result(30) == ["post.queued", "post.validated"]
        assert [call.event["type"] for call in sink.wait(2)] == ["post.queued", "post.validated"]


# --- demo, simulator ---------------------------------------------------------------------------------------------


def test_demo_prints_an_account_of_each_platform_and_a_working_key(start: Start) -> None:
    demo = start("demo", "--port", "0", "--json")
    shown: dict[str, Any] = json.loads(demo.line())
    assert set(shown) == {"url", "login", "key", "accounts"}
    assert {account["platform"] for account in shown["accounts"]} == set(CONNECTORS)
    targets = [{"accountId": account["id"]} for account in shown["accounts"] if account["platform"] == "bluesky"]
    with make_client(shown["url"], shown["key"]) as api:
        assert api.post("/v1/posts", json={"targets": targets, "text": "Hello"}).json()["status"] == "published"
    assert demo.stop(signal.SIGINT) == 0


def curled(line: str, address: str, key: str) -> dict[str, Any]:
    """What the server answers to a line that the demo prints, with the exported address and key."""
    curl = re.fullmatch(
        r"  curl \$SOCIALPUB_URL/v1/posts -H \"Authorization: Bearer \$SOCIALPUB_KEY\" -d ('(.*)'|@(\S+))", line
    )
    assert curl is not None, line
    with make_client(address, key) as api:
        body = curl[2] or Path(curl[3]).read_bytes()
        return dict(api.post("/v1/posts", content=body, timeout=60).json())


@pytest.mark.slow
def test_demo_prints_links_and_commands_for_a_text_an_image_and_a_video(start: Start, folder: Path) -> None:
    demo = start("demo", "--port", "0")
    told = demo.told("Ctrl-C stops the server")
    key, page = (
        re.search(r"  export SOCIALPUB_KEY=(\S+)", told),
        re.search(r"(http://\S+) shows what was published", told),
    )
    assert key is not None, told
    assert page is not None, told
    exported = re.search(r"  export SOCIALPUB_URL=(\S+) SOCIALPUB_LAB=(\S+)", told)
    assert exported is not None, told
    assert exported[2] == page[1]
    address = exported[1]
    before = httpx.get(f"{page[1]}/lab/ledger", trust_env=False).json()
    lines = [line for line in told.splitlines() if line.startswith("  curl ")]
    assert max(len(line) for line in lines) < 140  # a person can type it
    takers = {name for name, platform in PLATFORMS.items() if platform.media["videos"]}
    for line, names in zip(lines, ({"bluesky"}, set(CONNECTORS), takers), strict=True):
        statuses = {result["platform"]: result["status"] for result in curled(line, address, key[1])["results"]}
        assert statuses == dict.fromkeys(names, "published")
    with make_client(address, key[1]) as api:
        posts = api.get("/v1/posts", params={"limit": 200}).json()["data"]
    links = [post["error"]["docUrl"] for post in posts if "error" in post]
    assert links
    assert all(link.startswith(f"{address}/docs/") for link in links), links  # of the history too
    entries = httpx.get(f"{page[1]}/lab/ledger", trust_env=False).json()[len(before) :]
    shown = httpx.get(page[1], trust_env=False, follow_redirects=True).text
    assert "Hello from socialpub!" in shown
    media = [medium for entry in entries for medium in entry["media"]]
    clip = httpx.get(f"{page[1]}/pages/clip.mp4", trust_env=False).content
    films = [medium for medium in media if medium["type"] == "video/mp4"]
    assert (len(media) - len(films), len(films)) == (len(CONNECTORS), len(takers))
    assert {film["sha256"] for film in films} == {hashlib.sha256(clip).hexdigest()}
    assert shown.count("<video ") >= len(takers)
    assert demo.stop() == 0
    assert list(folder.iterdir()) == []


@pytest.mark.slow
def test_the_demo_opens_onto_days_that_were_lived_and_days_to_come(start: Start, folder: Path) -> None:
    demo = start("demo", "--port", "0", "--data-dir", "data")
    assert demo.told("Ctrl-C stops the server").endswith("; data stays until the next demo in it.\n")
    named = ("--database", "data/socialpub.db")
    for line in (("demo", "--once", "--data-dir", "data"), ("serve", "--port", "0", *named), ("move", *named)):
        ended = run_command(*line, cwd=folder)
        assert (ended.code, "another" in ended.err) == (3, True), ended.err
    assert demo.stop() == 0
    with closing(sqlite3.connect(folder / "data" / "socialpub.db")) as database:

        def all_of(statement: str) -> set[Any]:
            return {row[0] if len(row) == 1 else row for row in database.execute(statement)}

        assert all_of("SELECT status FROM post") >= {"published", "queued", "failed", "rejected", "canceled"}
        rules = all_of("SELECT json_extract(error, '$.rule') FROM post")
        assert "publish.outcome_unknown" in rules
        assert all_of("SELECT status FROM account") == {"active", "expiring", "revoked"}
        assert all_of("SELECT name FROM profile") == {"Café", "Bakery"}
        assert all_of("SELECT count(*) FROM media") == {4}
        assert all_of("SELECT status FROM webhook_delivery") >= {"succeeded", "failed"}
        late = "min(a.started_at) > d.created_at + 60000 OR max(a.duration_ms) > 60000"
        calls = "webhook_delivery d JOIN webhook_attempt a ON a.delivery = d.number GROUP BY d.number"
        assert all_of(f"SELECT d.type, min(a.started_at) - d.created_at FROM {calls} HAVING {late}") == set()
        assert all_of("SELECT max(number) > 1 FROM attempt") == {1}
        week = "scheduled_at BETWEEN unixepoch() * 1000 AND unixepoch('now', '7 days') * 1000"
        assert all_of(f"SELECT count(*) > 8 FROM post WHERE status = 'queued' AND {week}") == {1}
        assert all_of("SELECT max(created_at) <= unixepoch() * 1000 + 999 FROM post") == {1}


def test_the_demo_leaves_a_directory_alone_that_is_not_its_own(folder: Path) -> None:
    (folder / "data").mkdir()
    (folder / "data" / "precious").write_text("mine")
    ended = run_command("demo", "--once", "--port", "0", "--data-dir", "data", cwd=folder)
    assert ended.code == 1
    assert "data is not empty and was not created by the demo" in ended.err
    assert (folder / "data" / "precious").read_text() == "mine"


@pytest.mark.slow
def test_demo_publishes_once_exits_with_0_and_starts_afresh(folder: Path) -> None:
    for _ in range(2):
        ended = run_command("demo", "--once", "--port", "0", "--data-dir", "data", "--json", cwd=folder)
        assert ended.code == 0
        assert ended.json["status"] == "published"
        assert [result["platform"] for result in ended.json["results"]] == list(CONNECTORS)
        assert {result["status"] for result in ended.json["results"]} == {"published"}
        assert [path.name for path in folder.iterdir()] == ["data"]
    with closing(sqlite3.connect(folder / "data" / "socialpub.db")) as connection:
        assert connection.execute("SELECT count(*) FROM organization").fetchone() == (1,)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_simulator_says_where_it_is_and_ends_with_a_signal(start: Start, number: int) -> None:
    simulator = start("simulator", "--port", "0", "--json")
    shown = json.loads(simulator.line())
    assert set(shown["platforms"]) == set(FAKES)
    assert httpx.get(shown["url"], trust_env=False, follow_redirects=True).status_code == 200
    assert simulator.stop(number) == 0


def test_the_simulator_says_which_ports_it_takes_and_which_one_is_taken(run: RunCommand) -> None:
    """Not "address already in use", which of nine."""
    names = ["control", *FAKES]
    first = free_ports(len(names))
    for place in (0, 2):
        with closing(listen("127.0.0.1", first + place)) as taken:
            taken.listen()
            ended = run("simulator", "--port", str(first), "--json")
        said = ended.error["message"]
        assert (ended.code, ended.out.count("\n")) == (1, 1)
        assert f"takes the {len(names)} ports from {first} to {first + len(FAKES)};" in said
        assert f"{first + place} (for {names[place]}) cannot be used: Address already in use" in said


def test_the_simulator_refuses_ports_beyond_the_last(run: RunCommand) -> None:
    ended = run("simulator", "--port", "65535", "--json")
    assert ended.code == 1
    assert "65536 (for bluesky) cannot be used: there is no such port" in ended.error["message"]


def test_the_help_of_the_simulator_says_how_many_ports_it_takes(run: RunCommand) -> None:
    assert f"the first of {len(FAKES) + 1} ports in a row" in " ".join(run("simulator", "--help").out.split())


def test_a_start_and_a_stop_are_in_the_log(start: Callable[..., CommandProcess], folder: Path) -> None:
    server = start("serve", "--port", "0")
    line = server.until("started: ")
    assert re.search(r"Z INFO socialpub\.commands started: socialpub \S+ at http://127\.0\.0\.1:\d+, database ", line)
    assert f", process {server.popen.pid}" in line
    server.popen.send_signal(signal.SIGTERM)
    assert ", process " in server.until(" INFO socialpub.commands stopped: ")
    assert server.popen.wait(timeout=20) == 0


def test_a_command_that_ends_as_it_is_to_be_killed_is_killed_enough() -> None:
    """Its minder has taken it and has not told yet: the number is nobody's."""
    gone = subprocess.Popen(["true"])
    gone.wait()
    ours, its = os.pipe()
    with open(ours) as end, open(os.devnull) as nothing:
        process = ForkedCommand(gone.pid, nothing, nothing, end)
        process.kill()
        os.write(its, b"0\n")
        os.close(its)
        assert process.wait() == 0
